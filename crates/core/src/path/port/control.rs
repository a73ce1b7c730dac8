//! `Control`: changes of a port under load: other queues, another root, other qdiscs.

use alloc::vec::Vec;
use core::fmt;

use super::device::{All, One};
use super::forest::Editing;
use super::lanes::Lanes;
use super::{Port, Queues};
use crate::base::env::Env;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::path::qdiscs::Qdiscs;
use crate::path::tree::{Grave, Tree};
use crate::path::txpath::{Swapped, Transmitter, TxPath, Waiting};
use crate::qdisc::leaf;
use crate::sched::cx::Cx;
use crate::sched::node::Node;
use crate::sched::traffic::TrafficClasses;
use crate::text::error::ConfigError;

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
    One(Option<Node>, Option<TrafficClasses>),
}

/// Passes on a super-packet in one piece.
fn whole<F>(frame: F, m: &Meta, _: u32, each: &mut dyn FnMut(F, Meta)) {
    each(frame, *m);
}

/// A port with the device behind it, while its qdiscs and queues are changed, between bursts. The
/// caller drains all queues afterwards.
pub struct Control<'a, F, D> {
    pub(super) port: &'a mut Port<F>,
    pub(super) now: Instant,
    dev: &'a mut D,
}

impl<F: fmt::Debug, D> fmt::Debug for Control<'_, F, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("port", &self.port).field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a, F, D: Queues<Frame = F>> Control<'a, F, D> {
    pub(super) const fn new(port: &'a mut Port<F>, now: Instant, dev: &'a mut D) -> Self {
        Self { port, now, dev }
    }

    /// Changes the properties of the device that qdiscs know, except the number of its queues: see
    /// `Tree::set_env`.
    pub fn set_env(&mut self, env: Env) {
        let Env { queues, packets, .. } = self.port.lanes.config.env;
        self.port.lanes.config.env = Env { queues, packets, ..env };
        self.configure_each(|tree, _| tree.set_env(Env { queues, packets: tree.env().packets, ..env }));
    }

    /// Changes the tree of a queue's path: see `TxPath::configure`.
    pub fn configure_path<R>(&mut self, queue: u16, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        let lanes = &self.port.lanes;
        let at = lanes.of(queue).min(lanes.paths.len() - 1);
        self.on_path(at, Fate::Purged, f)
    }

    /// Changes the tree of every path: `f` does the same to each. See `TxPath::configure`.
    pub fn configure_each(&mut self, mut f: impl FnMut(&mut Tree, &mut Cx)) {
        for at in 0..self.port.lanes.paths.len() {
            self.on_path(at, Fate::Purged, &mut f);
        }
    }

    /// Changes the qdiscs by their handles, whatever their queue. Packets in removed qdiscs are
    /// dropped.
    pub fn configure<R>(&mut self, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R {
        f(&mut Qdiscs::of_port(&mut Editing::new(self, Fate::Purged)))
    }

    /// Drops every packet that waits: the device's `discard` gets their frames. See
    /// `TxPath::purge`.
    pub fn purge(&mut self) {
        self.configure_each(|tree, cx| tree.root_mut().purge(cx));
    }

    /// Like [`configure`](Self::configure), but keeps the packets that wait, for many changes in
    /// one step: see `TxPath::swap`. With another root, the queue of each packet is chosen anew.
    pub fn swap<R>(
        &mut self,
        f: impl FnOnce(&mut Qdiscs<'_>) -> R,
        mut cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> (R, Swapped) {
        let now = self.now;
        // An owner that does not bury keeps those of one swap at most.
        self.port.lanes.graves.clear();
        let before = self.port.totals().dropped();
        let paths = self.port.lanes.paths.iter_mut();
        let begun: Vec<Tally> = paths.map(|path| path.held_mut().begin_swap(now)).collect();
        let mut editing = Editing::new(self, Fate::Kept);
        let r = f(&mut Qdiscs::of_port(&mut editing));
        let Some(gone) = editing.into_replaced() else { return (r, self.end_swap(&begun, &mut cut)) };
        let mut waiting = Vec::new();
        for (queue, mut path) in gone {
            path.held_mut().collect_waiting(now, &mut One::of(self.dev, queue), &mut waiting);
            let tree = path.held_mut().take_tree();
            self.port.lanes.bindings.orphan(tree.blocks().map(|(_, block)| block));
            self.port.lanes.graves.push(Grave::of(tree));
            self.port.lanes.retire(path);
        }
        self.collect_waiting(&mut waiting);
        let cut = self.queue_anew(waiting, &mut cut);
        let totals = self.port.totals();
        let dropped = totals.dropped().since(before);
        (r, Swapped { kept: Tally::default(), moved: totals.backlog(), dropped, cut })
    }

    /// Ends the swap of each path by itself: the root is still the old one.
    fn end_swap(&mut self, begun: &[Tally], cut: Cut<'_, F>) -> Swapped {
        let (split, queues) = (self.port.is_split(), self.port.queues());
        let Port { lanes, flight, .. } = &mut *self.port;
        let mut all = Swapped::default();
        for ((queue, path), begun) in (0..).zip(&mut lanes.paths).zip(begun) {
            let done = match split {
                true => path.held_mut().end_swap(*begun, &mut One::of(self.dev, queue), &mut *cut),
                false => {
                    let mut dev = All::any(self.dev, queues, &mut flight.packets);
                    path.held_mut().end_swap(*begun, &mut dev, &mut *cut)
                }
            };
            all.kept = all.kept.plus(done.kept);
            all.moved = all.moved.plus(done.moved);
            all.dropped = all.dropped.plus(done.dropped);
            all.cut += done.cut;
        }
        all
    }

    /// Calls `f` on the tree of a path.
    pub(super) fn on_path<R>(&mut self, at: usize, fate: Fate, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        let (split, queues) = (self.port.is_split(), self.port.queues());
        let Port { lanes, flight, .. } = &mut *self.port;
        let path = &mut lanes.paths[at];
        match (fate, split) {
            (Fate::Kept, _) => path.held_mut().edit(f),
            // There are at most 65 535 queues.
            (Fate::Purged, true) => path.configure(self.now, &mut One::of(self.dev, at as u16), f),
            (Fate::Purged, false) => {
                path.configure(self.now, &mut All::any(self.dev, queues, &mut flight.packets), f)
            }
        }
    }

    /// Changes the number of queues of the device. Queues that stay keep the qdiscs grafted in
    /// them. Where queues have paths of their own, the queue of each waiting packet is chosen anew.
    /// A device must get more queues before the call, and fewer after it. A super-packet that the
    /// new tree takes only in pieces is not cut: see `set_queues_with`.
    pub fn set_queues(&mut self, queues: u16) -> Result<(), ConfigError> {
        self.set_queues_with(queues, whole)
    }

    /// As `set_queues`, with a function that cuts super-packets: see `TxPath::swap`.
    pub fn set_queues_with(
        &mut self,
        queues: u16,
        mut cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> Result<(), ConfigError> {
        let shell = self.port.lanes.shell_of(queues)?;
        if queues == self.port.queues() {
            return Ok(());
        }
        let mut waiting = Vec::new();
        self.collect_waiting(&mut waiting);
        let Port { lanes, chooser, .. } = &mut *self.port;
        let stay = if lanes.is_split() == shell.is_some() { usize::from(queues) } else { 0 };
        let gone: Vec<TxPath<F>> = lanes.paths.drain(stay.min(lanes.paths.len())..).collect();
        gone.into_iter().for_each(|path| lanes.retire(path));
        lanes.config.env.queues = queues;
        lanes.shell = shell;
        chooser.selector.set_queues(queues);
        lanes.fill();
        self.give_roots();
        self.queue_anew(waiting, &mut cut);
        Ok(())
    }

    /// Replaces the root by a new one, with nothing below it. Returns the old paths.
    pub(super) fn put_root(&mut self, root: NewRoot) -> Vec<(u16, TxPath<F>)> {
        let Port { lanes, chooser, .. } = &mut *self.port;
        let gone = (0..).zip(lanes.paths.drain(..)).collect();
        let (shell, one, classes) = match root {
            NewRoot::Shell(node, classes) => (Some(node), None, classes),
            NewRoot::One(node, classes) => (None, node, classes),
        };
        lanes.shell = shell;
        chooser.selector.set_classes(classes);
        lanes.fill();
        if let (Some(node), Some(path)) = (one, lanes.paths.first_mut()) {
            path.held_mut().put_root(self.now, node);
        }
        self.give_roots();
        gone
    }

    /// Gives each path the qdisc that its root made for it, where that is part of the root.
    fn give_roots(&mut self) {
        let Lanes { shell, paths, config, .. } = &mut self.port.lanes;
        let Some(shell) = shell.as_mut().filter(|shell| shell.qdisc().spec().fixed) else { return };
        for (class, path) in shell.qdisc_mut().classes_mut().iter_mut().zip(paths) {
            let root = core::mem::replace(&mut class.node, leaf::default_child(&config.env));
            path.held_mut().put_root(self.now, root);
        }
    }

    /// Drops the packets that wait below a replaced root and retires its paths.
    pub(super) fn purge_replaced(&mut self, gone: Vec<(u16, TxPath<F>)>) {
        for (queue, mut path) in gone {
            path.purge(self.now, &mut One::of(self.dev, queue));
            self.port.lanes.retire(path);
        }
        self.queue_anew(Vec::new(), &mut whole);
    }

    /// Takes the waiting packets out of every path, to the back of `out`.
    fn collect_waiting(&mut self, out: &mut Vec<Waiting<F>>) {
        for (queue, path) in (0..).zip(&mut self.port.lanes.paths) {
            path.held_mut().collect_waiting(self.now, &mut One::of(self.dev, queue), out);
        }
    }

    /// Queues packets that have waited elsewhere, in order of arrival, each in the path of the
    /// queue that is chosen for it now. Nothing leaves until the device has sent the packets that
    /// it holds. Returns the number of super-packets that were cut.
    fn queue_anew(&mut self, mut waiting: Vec<Waiting<F>>, cut: Cut<'_, F>) -> u64 {
        let env = self.port.lanes.config.env;
        for (queue, path) in (0..).zip(&mut self.port.lanes.paths) {
            path.configure(self.now, &mut One::of(self.dev, queue), |tree, _| {
                tree.set_env(Env { packets: tree.env().packets, ..env });
            });
        }
        // The packets of each path are in order of arrival, and a flow is in one path: a stable
        // sort keeps the order of each flow.
        waiting.sort_by_key(|w| w.meta.enqueued);
        self.port.flight.fence(env.queues);
        // The paths freeze even if nothing is in flight: all waiting packets are queued before any
        // leaves.
        for path in &mut self.port.lanes.paths {
            path.tx_mut().freeze();
            // Queues that stay stopped report it again.
            path.stopped_queues().clear();
        }
        let Port { lanes, chooser, .. } = &mut *self.port;
        // The choices that senders remember are of the old queues.
        chooser.selector.renew();
        chooser.stats.reshaped += 1;
        let mut pieces = 0;
        for mut w in waiting {
            let queue = chooser.choose_again(&mut w.meta);
            w.enters = true;
            let at = lanes.of(queue);
            let dev = &mut One::of(self.dev, queue);
            pieces += u64::from(lanes.paths[at].held_mut().requeue(self.now, w, dev, &mut *cut));
        }
        if !self.port.flight.is_fenced() {
            self.port.transmitters_mut().for_each(Transmitter::thaw);
        }
        pieces
    }
}
