//! A port that is changed under load: other queues, another root, other qdiscs.

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

/// What becomes of packets in qdiscs that a change removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are dropped.
    Purged,
    /// They are queued anew when all is done.
    Kept,
}

/// What is to be at the root.
pub(super) enum NewRoot {
    /// A qdisc that stands for those of the queues.
    Shell(Node, Option<TrafficClasses>),
    /// One for all queues; `None`: the default one.
    One(Option<Node>),
}

/// A super-packet in one piece.
fn whole<F>(frame: F, m: &Meta, _: u32, each: &mut dyn FnMut(F, Meta)) {
    each(frame, *m);
}

impl<F> Port<F> {
    /// What qdiscs know of the device.
    pub fn env(&self) -> &Env {
        self.lanes.paths.first().map_or(&self.lanes.config.env, |path| path.tree().env())
    }
    /// Changes what they are told of it, but for its queues: see `Tree::set_env`.
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

    /// Changes the qdiscs, between bursts, by their handles, whatever queue they are of; packets in what is removed are
    /// dropped. Then `drain` all queues.
    pub fn configure<D, R>(&mut self, now: Instant, dev: &mut D, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R
    where
        D: Queues<Frame = F>,
    {
        f(&mut Qdiscs::of_port(&mut Editing::new(self, dev, now, Fate::Purged)))
    }

    /// Like [`configure`](Self::configure), and packets that wait are kept, for many changes in one step: see `TxPath::swap`.
    /// With another root, packets are chosen a queue for anew.
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

    /// Ends the swap of each path by itself: the root is the one that was there.
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

    /// Whether the device could have so many queues: what the root was made with must hold there too.
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.shell_of(queues).map(|_| ())
    }

    /// The root that stands for so many queues, if it is one of these.
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

    /// Changes the number of queues of the device, between bursts. Queues that stay keep what is grafted in them; packets that
    /// wait are chosen a queue for anew where queues have paths of their own. A device is to be given more queues before, and
    /// fewer afterwards. A super-packet that is taken only in pieces now is not cut: see `set_queues_with`.
    pub fn set_queues<D>(&mut self, now: Instant, queues: u16, dev: &mut D) -> Result<(), ConfigError>
    where
        D: Queues<Frame = F>,
    {
        self.set_queues_with(now, queues, dev, whole)
    }

    /// As `set_queues`, with what cuts super-packets: see `TxPath::swap`.
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

    /// Puts a new root in the place of the one that is there, with nothing below it. Gives the paths that were there.
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

    /// A root that was there goes with all that waits below it.
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

    /// Queues what has waited elsewhere, in order of arrival, each in the path of the queue that is chosen for it now. Nothing
    /// leaves until the device has sent what it has. Gives the number of super-packets that were cut.
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
        // Those of each path are in order of arrival, and a flow is in one path.
        waiting.sort_by_key(|w| w.meta.enqueued);
        // Those that are gone may still have something in flight.
        let known = self.in_flight.len().max(usize::from(env.queues));
        self.in_flight.resize(known, 0);
        self.owed.clone_from(&self.in_flight);
        // Also where nothing is owed: what waited is queued before anything leaves.
        self.lanes.paths.iter_mut().for_each(TxPath::freeze);
        // Those that stay stopped say so again; what senders remember is of the queues that were.
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

/// The words that make a qdisc like this.
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

/// The same root for a device that is otherwise.
fn made_anew(shell: &Node, env: &Env) -> Result<Node, ConfigError> {
    let words = words_of(shell);
    let words: Vec<&str> = words.iter().map(|w| &**w).collect();
    let qdisc = shell.qdisc().spec().build(&mut Words::new(&words), env)?;
    Ok(Node::new(shell.handle(), qdisc))
}
