//! Changes of a port under load: other queues, another root, other qdiscs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::device::{All, One, Room};
use super::forest::Editing;
use super::lanes::plus;
use super::{Port, Queues};
use crate::base::env::Env;
use crate::base::queues::QueueSet;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::path::qdiscs::Qdiscs;
use crate::path::tree::Tree;
use crate::path::txpath::{Swapped, TxPath, Waiting};
use crate::qdisc::mq::default_shell;
use crate::sched::cx::Cx;
use crate::sched::node::Node;
use crate::sched::traffic::TrafficClasses;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::{Words, exact_of};

/// Cuts a super-packet and gives each piece to a function: see `TxPath::swap`.
pub(super) type Cut<'a, F> = &'a mut dyn FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta));

/// Fate of packets in qdiscs that a change removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are dropped.
    Purged,
    /// They are queued anew at the end of the change.
    Kept,
}

/// New root of a port.
pub(super) enum NewRoot {
    /// A qdisc that stands for those of the queues.
    Shell(Node, Option<TrafficClasses>),
    /// One qdisc for all queues; `None`: the default one.
    One(Option<Node>),
}

/// Passes on a super-packet in one piece.
fn whole<F>(frame: F, m: &Meta, _: u32, each: &mut dyn FnMut(F, Meta)) {
    each(frame, *m);
}

impl<F> Port<F> {
    /// Returns the properties of the device that qdiscs know.
    pub fn env(&self) -> &Env {
        self.lanes.paths.first().map_or(&self.lanes.config.env, |path| path.tree().env())
    }
    /// Changes the properties of the device that qdiscs know, except the number of its queues: see
    /// `Tree::set_env`.
    pub fn set_env<D>(&mut self, now: Instant, env: Env, dev: &mut D)
    where
        D: Queues<Frame = F>,
    {
        let Env { queues, packets, .. } = self.lanes.config.env;
        self.lanes.config.env = Env { queues, packets, ..env };
        self.configure_each(now, dev, |tree, _| {
            tree.set_env(Env { queues, packets: tree.env().packets, ..env })
        });
    }

    /// Changes the tree of a queue's path: see `TxPath::configure`.
    pub fn configure_path<D, R>(
        &mut self,
        now: Instant,
        queue: u16,
        dev: &mut D,
        f: impl FnOnce(&mut Tree, &mut Cx) -> R,
    ) -> R
    where
        D: Queues<Frame = F>,
    {
        let at = self.lanes.of(queue).min(self.lanes.paths.len() - 1);
        self.on_path(at, now, dev, Fate::Purged, f)
    }

    /// Changes the tree of every path: `f` does the same to each. See `TxPath::configure`.
    pub fn configure_each<D>(&mut self, now: Instant, dev: &mut D, mut f: impl FnMut(&mut Tree, &mut Cx))
    where
        D: Queues<Frame = F>,
    {
        for at in 0..self.lanes.paths.len() {
            self.on_path(at, now, dev, Fate::Purged, &mut f);
        }
    }

    /// Changes the qdiscs, between bursts, by their handles, whatever their queue. Packets in
    /// removed qdiscs are dropped. The caller then drains all queues.
    pub fn configure<D, R>(&mut self, now: Instant, dev: &mut D, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R
    where
        D: Queues<Frame = F>,
    {
        f(&mut Qdiscs::of_port(&mut Editing::new(self, dev, now, Fate::Purged)))
    }

    /// Like [`configure`](Self::configure), but keeps the packets that wait, for many changes in
    /// one step: see `TxPath::swap`. With another root, the queue of each packet is chosen anew.
    pub fn swap<D, R>(
        &mut self,
        now: Instant,
        dev: &mut D,
        f: impl FnOnce(&mut Qdiscs<'_>) -> R,
        mut cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> (R, Swapped)
    where
        D: Queues<Frame = F>,
    {
        let before = self.lanes.dropped();
        let begun: Vec<Tally> =
            self.lanes.paths.iter_mut().map(|path| path.held_mut().begin_swap(now)).collect();
        let mut editing = Editing::new(self, dev, now, Fate::Kept);
        let r = f(&mut Qdiscs::of_port(&mut editing));
        let Some(gone) = editing.into_replaced() else { return (r, self.end_swap(&begun, dev, &mut cut)) };
        let mut waiting = Vec::new();
        for (queue, mut path) in gone {
            path.held_mut().take_waiting(now, &mut One::of(dev, queue), &mut waiting);
            self.lanes.retire(path);
        }
        for (queue, path) in (0..).zip(&mut self.lanes.paths) {
            path.held_mut().take_waiting(now, &mut One::of(dev, queue), &mut waiting);
        }
        let cut = self.queue_anew(now, waiting, dev, &mut cut);
        let dropped = self.lanes.dropped().since(before);
        (r, Swapped { kept: Tally::default(), moved: self.backlog(), dropped, cut })
    }

    /// Ends the swap of each path by itself: the root is still the old one.
    fn end_swap<D>(&mut self, begun: &[Tally], dev: &mut D, cut: Cut<'_, F>) -> Swapped
    where
        D: Queues<Frame = F>,
    {
        let split = self.is_split();
        let (queues, in_flight) = (self.selector.queues(), &mut self.in_flight);
        let mut all = Swapped::default();
        for ((queue, path), begun) in (0..).zip(&mut self.lanes.paths).zip(begun) {
            let done = match split {
                true => path.held_mut().end_swap(*begun, &mut One::of(dev, queue), &mut *cut),
                false => {
                    let mut dev =
                        All { dev: &mut *dev, queues, in_flight: &mut *in_flight, room: Room::InAll };
                    path.held_mut().end_swap(*begun, &mut dev, &mut *cut)
                }
            };
            all.kept = plus(all.kept, done.kept);
            all.moved = plus(all.moved, done.moved);
            all.dropped = plus(all.dropped, done.dropped);
            all.cut += done.cut;
        }
        all
    }

    /// Calls `f` on the tree of a path.
    pub(super) fn on_path<D, R>(
        &mut self,
        at: usize,
        now: Instant,
        dev: &mut D,
        fate: Fate,
        f: impl FnOnce(&mut Tree, &mut Cx) -> R,
    ) -> R
    where
        D: Queues<Frame = F>,
    {
        let split = self.is_split();
        let queues = self.selector.queues();
        let path = &mut self.lanes.paths[at];
        match (fate, split) {
            (Fate::Kept, _) => path.held_mut().edit(f),
            // There are at most 65 535 queues.
            (Fate::Purged, true) => path.configure(now, &mut One::of(dev, at as u16), f),
            (Fate::Purged, false) => {
                let in_flight = &mut self.in_flight;
                path.configure(now, &mut All { dev, queues, in_flight, room: Room::InAll }, f)
            }
        }
    }

    /// Checks that the device could have this many queues: the options of the root must hold there
    /// too.
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.shell_of(queues).map(|_| ())
    }

    /// Returns the root that stands for this many queues, if the root is one of these kinds.
    fn shell_of(&self, queues: u16) -> Result<Option<Node>, ConfigError> {
        if !(1..=QueueSet::QUEUES_MAX).contains(&queues) {
            let expected = format!("1 to {} transmit queues", QueueSet::QUEUES_MAX);
            return Err(ConfigError::new(ErrorKind::OutOfRange, Object::Port, expected, queues).key("queues"));
        }
        let env = Env { queues, ..self.lanes.config.env };
        let first = self.lanes.paths.first().map(|path| path.tree().root().handle());
        Ok(match &self.lanes.shell {
            Some(shell) if shell.handle().is_none() => default_shell(&env),
            Some(shell) => Some(made_anew(shell, &env)?),
            None if first.is_some_and(|root| root.is_none()) => default_shell(&env),
            None => None,
        })
    }

    /// Changes the number of queues of the device, between bursts. Queues that stay keep the qdiscs
    /// grafted in them. Where queues have paths of their own, the queue of each waiting packet is
    /// chosen anew. A device must get more queues before the call, and fewer after it. A
    /// super-packet that the new tree takes only in pieces is not cut: see `set_queues_with`.
    pub fn set_queues<D>(&mut self, now: Instant, queues: u16, dev: &mut D) -> Result<(), ConfigError>
    where
        D: Queues<Frame = F>,
    {
        self.set_queues_with(now, queues, dev, whole)
    }

    /// As `set_queues`, with a function that cuts super-packets: see `TxPath::swap`.
    pub fn set_queues_with<D>(
        &mut self,
        now: Instant,
        queues: u16,
        dev: &mut D,
        mut cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> Result<(), ConfigError>
    where
        D: Queues<Frame = F>,
    {
        let shell = self.shell_of(queues)?;
        if queues == self.queues() {
            return Ok(());
        }
        let mut waiting = Vec::new();
        for (queue, path) in (0..).zip(&mut self.lanes.paths) {
            path.held_mut().take_waiting(now, &mut One::of(dev, queue), &mut waiting);
        }
        let stay = if self.is_split() == shell.is_some() { usize::from(queues) } else { 0 };
        let gone: Vec<TxPath<F>> = self.lanes.paths.drain(stay.min(self.lanes.paths.len())..).collect();
        gone.into_iter().for_each(|path| self.lanes.retire(path));
        self.lanes.config.env.queues = queues;
        self.lanes.shell = shell;
        self.selector.set_queues(queues);
        self.lanes.fill();
        self.queue_anew(now, waiting, dev, &mut cut);
        Ok(())
    }

    /// Replaces the root by a new one, with nothing below it. Returns the old paths.
    pub(super) fn put_root(&mut self, now: Instant, root: NewRoot) -> Vec<(u16, TxPath<F>)> {
        let gone = (0..).zip(self.lanes.paths.drain(..)).collect();
        let (shell, one, classes) = match root {
            NewRoot::Shell(node, classes) => (Some(node), None, classes),
            NewRoot::One(node) => (None, node, None),
        };
        self.lanes.shell = shell;
        self.selector.set_classes(classes);
        self.lanes.fill();
        if let (Some(node), Some(path)) = (one, self.lanes.paths.first_mut()) {
            path.held_mut().put_root(now, node);
        }
        gone
    }

    /// Drops the packets that wait below a replaced root and retires its paths.
    pub(super) fn purge<D>(&mut self, now: Instant, gone: Vec<(u16, TxPath<F>)>, dev: &mut D)
    where
        D: Queues<Frame = F>,
    {
        for (queue, mut path) in gone {
            path.configure(now, &mut One::of(dev, queue), |tree, cx| tree.root_mut().purge(cx));
            self.lanes.retire(path);
        }
        self.queue_anew(now, Vec::new(), dev, &mut whole);
    }

    /// Queues packets that have waited elsewhere, in order of arrival, each in the path of the
    /// queue that is chosen for it now. Nothing leaves until the device has sent the packets that
    /// it holds. Returns the number of super-packets that were cut.
    fn queue_anew<D>(
        &mut self,
        now: Instant,
        mut waiting: Vec<Waiting<F>>,
        dev: &mut D,
        cut: Cut<'_, F>,
    ) -> u64
    where
        D: Queues<Frame = F>,
    {
        let env = self.lanes.config.env;
        for (queue, path) in (0..).zip(&mut self.lanes.paths) {
            path.configure(now, &mut One::of(dev, queue), |tree, _| {
                tree.set_env(Env { packets: tree.env().packets, ..env });
            });
        }
        // The packets of each path are in order of arrival, and a flow is in one path: a stable
        // sort keeps the order of each flow.
        waiting.sort_by_key(|w| w.meta.enqueued);
        // Removed queues may still have packets in flight.
        let known = self.in_flight.len().max(usize::from(env.queues));
        self.in_flight.resize(known, 0);
        self.owed.clone_from(&self.in_flight);
        // The paths freeze even if nothing is owed: all waiting packets are queued before any
        // leaves.
        self.lanes.paths.iter_mut().for_each(TxPath::freeze);
        // Queues that stay stopped report it again. The choices that senders remember are of the
        // old queues.
        self.lanes.paths.iter_mut().for_each(|path| path.held_mut().start_queues());
        self.selector.renew();
        self.stats.reshaped += 1;
        let mut pieces = 0;
        for mut w in waiting {
            let (queue, note) = self.selector.select_again(&w.meta);
            (w.meta.queue, w.meta.note, w.enters) = (queue, note, true);
            self.stats.moved += 1;
            let at = self.lanes.of(queue);
            pieces += u64::from(self.lanes.paths[at].held_mut().take_in(
                now,
                w,
                &mut One::of(dev, queue),
                &mut *cut,
            ));
        }
        if !self.is_fenced() {
            self.lanes.paths.iter_mut().for_each(TxPath::thaw);
        }
        pieces
    }
}

/// Returns the words that make a qdisc like this.
fn words_of(node: &Node) -> Vec<String> {
    let mut words = Vec::new();
    node.qdisc().options(&mut |s| {
        if s.value.is_set() {
            words.extend(s.word.map(String::from));
            words.extend(exact_of(s.value).split(' ').map(String::from));
        }
    });
    words
}

/// Returns the same root for a device with other properties.
fn made_anew(shell: &Node, env: &Env) -> Result<Node, ConfigError> {
    let words = words_of(shell);
    let words: Vec<&str> = words.iter().map(|w| &**w).collect();
    let qdisc = shell.qdisc().spec().build(&mut Words::new(&words), env)?;
    Ok(Node::new(shell.handle(), qdisc))
}
