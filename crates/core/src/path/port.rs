//! `Port`: a device with several transmit queues. Where the root is mq or mqprio, each queue is a
//! [`TxPath`] of its own: tree, packets, byte limit and counters. The ways of packets to different
//! queues then share nothing. With any other root one path feeds all queues.
//!
//! A packet passes three steps: the egress hook, if the owner has one
//! ([`crate::classify::filter`]); the choice of a queue ([`Port::choose`], see
//! [`crate::path::select`]); and that queue's `submit`. [`Port::send`] is the last two.
//!
//! The paths can be taken apart and given to threads ([`Port::paths_mut`]); the choice needs only
//! the [`Selector`].
//!
//! **Changing the queues under load** ([`Port::set_queues`], another root in a swap). The port
//! takes out the packets that wait, sorts them in order of arrival, chooses a queue for each anew
//! and queues them there. The device sends the packets that it holds by then. Until it has sent
//! them, no queue gives it more, so that no flow overtakes itself through another queue. The device
//! idles only for the time that its last completion takes. As on a path, [`Port::configure`] drops
//! the packets that wait in qdiscs that it removes, and [`Port::swap`] queues them anew.
//!
//! - P1 (I7): the counts of the queues add up to those of the port, packets that went directly
//!   included.
//! - P2: a change of the queues loses no packet, except those that the new queues have no room for;
//!   these are dropped and counted.
//! - P3 (I6): the packets of one flow keep their order through such a change: a waiting packet gets
//!   the queue that the packets behind it will get. A packet whose queue was chosen by hash gets
//!   its queue by hash. A packet whose queue was asked for stays there. The choices that senders
//!   remember end. The sender of a waiting packet (`Xps`, `Sender::came_by`) is not known any more:
//!   the packet stays in its queue, which keeps the order as long as the sender's choice is the
//!   same.
//! - P4: class MAJOR:n of the root is queue n - 1, whatever has been grafted.

mod change;
mod device;
mod forest;
mod lanes;
mod pass;

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::queues::QueueSet;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::classify::filter::BlockId;
use crate::packet::detail::Detail;
use crate::packet::meta::{Meta, Note};
use crate::packet::reason::{DropReason, MarkReason, Reasons};
use crate::path::bindings::Bindings;
use crate::path::device::TxQueue;
use crate::path::dql::DqlError;
use crate::path::select::{Cached, NoSuchQueue, Selector, Sender};
use crate::path::tree::Place;
use crate::path::trees::Trees;
use crate::path::txpath::{Admitted, PathConfig, PathStats, TxPath, Wake};
use crate::qdisc::Registry;
use crate::qdisc::multiq;
use crate::sched::node::{Books, Node};
use device::{All, One, Room};
use lanes::Lanes;

/// The transmit queues of a device.
pub trait Queues {
    /// The user's own packet.
    type Frame;
    /// A queue while it is used.
    type Queue<'a>: TxQueue<Frame = Self::Frame>
    where
        Self: 'a;
    /// Returns the queue of that number, if there is one.
    fn queue(&mut self, index: u16) -> Option<Self::Queue<'_>>;
}

impl<Q: TxQueue> Queues for Vec<Q> {
    type Frame = Q::Frame;
    type Queue<'a>
        = &'a mut Q
    where
        Self: 'a;
    fn queue(&mut self, index: u16) -> Option<&mut Q> {
        self.get_mut(usize::from(index))
    }
}

/// Way to find a packet's queue.
#[derive(Debug)]
pub enum Choice<'a> {
    /// The queue was chosen elsewhere, by an action or by the sender.
    Queue(u16),
    /// The port chooses by the sender, and by the last choice that the sender remembers.
    By(&'a Sender, Option<&'a mut Cached>),
    /// The queue was chosen by [`Port::choose_for`], which has noted it in the metadata.
    Made,
}

crate::stats! {
    /// Counters of a port.
    pub struct PortStats {
        /// Packets whose queue was chosen, by the port or elsewhere.
        chosen: u64,
        /// Packets whose chosen queue did not exist; they went to the first.
        no_such_queue: u64,
        /// Times the queues were changed under load.
        reshaped: u64,
        /// Packets that waited during such a change and were queued anew.
        moved: u64,
    }
}

/// Result of a completion round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Packets that the device has finished.
    pub packets: u32,
    /// True if the last of them ended the fence after a change of the queues: every queue is to be
    /// drained.
    pub opened: bool,
}

/// A device with several transmit queues, from the choice of one to the device.
#[derive(Debug)]
pub struct Port<F> {
    lanes: Lanes<F>,
    selector: Selector,
    /// For each queue of the device, the packets handed over and not yet finished.
    in_flight: Vec<u64>,
    /// For each queue, those of these packets that are from before the queues were changed; nothing
    /// leaves while there are any.
    owed: Vec<u64>,
    stats: PortStats,
}

impl<F> Port<F> {
    /// Sets the registry of kinds for its qdiscs, before any is added.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Registry) -> Self {
        self.lanes.set_kinds(kinds);
        self
    }
    /// Returns a port of `config.env.queues` queues. Its root is the default one: pfifo_fast, or mq
    /// with one pfifo_fast for each of several queues, as in Linux. `config.pool` packets can wait
    /// on each path, but not more than [`SLOTS_MAX`] on all.
    pub fn new(config: PathConfig) -> Result<Self, DqlError> {
        let queues = config.env.queues.clamp(1, QueueSet::QUEUES_MAX);
        let config = PathConfig { env: Env { queues, ..config.env }, ..config };
        Ok(Self {
            lanes: Lanes::new(config)?,
            selector: Selector::new(queues),
            in_flight: alloc::vec![0; usize::from(queues)],
            owed: alloc::vec![0; usize::from(queues)],
            stats: PortStats::default(),
        })
    }

    /// Returns the number of queues of the device.
    pub const fn queues(&self) -> u16 {
        self.selector.queues()
    }
    /// Returns the rules by which a queue is chosen.
    pub const fn selector(&self) -> &Selector {
        &self.selector
    }
    /// Returns the same, to set which queues each sender may use. Only mqprio sets its traffic
    /// classes.
    pub const fn selector_mut(&mut self) -> &mut Selector {
        &mut self.selector
    }
    /// Returns the paths: one for each queue, or one for all.
    pub fn paths(&self) -> &[TxPath<F>] {
        &self.lanes.paths
    }
    /// Returns the same, to drive them apart from one another.
    pub fn paths_mut(&mut self) -> &mut [TxPath<F>] {
        &mut self.lanes.paths
    }
    /// True if each queue has a path of its own.
    pub const fn is_split(&self) -> bool {
        self.lanes.is_split()
    }
    /// Returns the path of the first queue, or the one path that feeds all queues. A port always
    /// has it.
    pub fn first(&self) -> &TxPath<F> {
        &self.lanes.paths[0]
    }
    /// Returns the path of a queue.
    pub fn path(&self, queue: u16) -> Option<&TxPath<F>> {
        self.lanes.paths.get(self.lanes.of(queue))
    }
    /// Returns the counters of the port.
    pub const fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// True if the paths and the queues are the same in number: each path feeds the queue of its
    /// number.
    const fn is_one_to_one(&self) -> bool {
        self.is_split() || self.selector.queues() == 1
    }

    /// Returns the queue that a packet goes to.
    #[inline]
    pub fn choose(&mut self, m: &Meta, choice: Choice<'_>, now: Instant) -> u16 {
        self.choose_noted(m, choice, now).0
    }

    /// Chooses a queue ahead of `send`, for a caller that needs it earlier, and notes it in the
    /// metadata. The packet is then sent with [`Choice::Made`].
    #[inline]
    pub fn choose_for(&mut self, m: &mut Meta, choice: Choice<'_>, now: Instant) -> u16 {
        (m.queue, m.note) = self.choose_noted(m, choice, now);
        m.queue
    }

    /// Returns the queue and the basis of its choice.
    #[inline(always)]
    fn choose_noted(&mut self, m: &Meta, choice: Choice<'_>, now: Instant) -> (u16, Note) {
        match choice {
            Choice::By(sender, cached) => {
                self.stats.chosen += 1;
                self.selector.select_noted(m, sender, cached, now)
            }
            Choice::Queue(queue) => {
                self.stats.chosen += 1;
                (self.there(queue), Note::Asked)
            }
            Choice::Made => (self.there(m.queue), m.note),
        }
    }

    /// Returns the queue, or the first if the queue does not exist.
    fn there(&mut self, queue: u16) -> u16 {
        match self.selector.chosen(queue) {
            Ok(queue) => queue,
            Err(NoSuchQueue(_)) => {
                self.stats.no_such_queue += 1;
                0
            }
        }
    }

    /// Chooses a queue for a packet and hands the packet over to that queue's path: see
    /// `TxPath::submit`. The caller then drains that queue.
    #[inline]
    pub fn send<D>(
        &mut self,
        now: Instant,
        frame: F,
        m: Meta,
        choice: Choice<'_>,
        dev: &mut D,
    ) -> (u16, Admitted<F>)
    where
        D: Queues<Frame = F>,
    {
        self.send_with(now, frame, m, None, choice, dev)
    }

    /// As `send`, with facts about the packet beside its metadata: only where its path wants them
    /// (`TxPath::wants_detail`).
    #[inline(always)]
    pub fn send_with<D>(
        &mut self,
        now: Instant,
        frame: F,
        mut m: Meta,
        detail: Option<&Detail>,
        choice: Choice<'_>,
        dev: &mut D,
    ) -> (u16, Admitted<F>)
    where
        D: Queues<Frame = F>,
    {
        let (queue, note) = self.choose_noted(&m, choice, now);
        (m.queue, m.note) = (queue, note);
        (queue, self.submit(now, frame, m, detail, dev))
    }

    /// Hands a packet over to the path of the queue that [`choose_for`](Self::choose_for) has noted
    /// in its metadata: see `TxPath::submit_with`. Then `drain` that queue.
    #[inline(always)]
    pub fn submit<D>(
        &mut self,
        now: Instant,
        frame: F,
        m: Meta,
        detail: Option<&Detail>,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: Queues<Frame = F>,
    {
        let queue = self.there(m.queue);
        if !self.is_one_to_one() {
            return self.submit_for(now, queue, frame, m, detail, dev);
        }
        let at = self.lanes.of(queue);
        let Some(path) = self.lanes.paths.get_mut(at) else { return Admitted::Full(frame) };
        let before = path.stats().tx_packets;
        let done = path.submit_with(now, frame, m, detail, &mut One::of(dev, queue));
        self.in_flight[at] += path.stats().tx_packets - before;
        done
    }

    /// Submits to the one path that feeds all queues.
    #[inline(never)]
    fn submit_for<D>(
        &mut self,
        now: Instant,
        queue: u16,
        frame: F,
        m: Meta,
        detail: Option<&Detail>,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: Queues<Frame = F>,
    {
        let (queues, in_flight) = (self.selector.queues(), &mut self.in_flight);
        let Some(path) = self.lanes.paths.first_mut() else { return Admitted::Full(frame) };
        // A packet that goes at once needs room only in its own queue.
        let room = Room::In(queue);
        path.submit_with(now, frame, m, detail, &mut All { dev, queues, in_flight, room })
    }

    /// Moves packets of a queue's path to the device: see `TxPath::drain`. Where one path feeds all
    /// queues, the number of any queue selects it.
    #[inline]
    pub fn drain<D>(&mut self, now: Instant, queue: u16, budget: u32, dev: &mut D) -> Wake
    where
        D: Queues<Frame = F>,
    {
        let at = self.lanes.of(queue);
        let (one_to_one, queues) = (self.is_one_to_one(), self.selector.queues());
        let Some(path) = self.lanes.paths.get_mut(at) else { return Wake::Idle };
        if one_to_one {
            let before = path.stats().tx_packets;
            // A path is below the number of queues, of which there are at most 65 535.
            let wake = path.drain(now, budget, &mut One::of(dev, at as u16));
            self.in_flight[at] += path.stats().tx_packets - before;
            return wake;
        }
        let in_flight = &mut self.in_flight;
        let root = path.tree().root().qdisc();
        // A multiq that has not been told of new queues has no class for them.
        let keeps = root.spec().kind == multiq::KIND && root.classes().len() >= usize::from(queues);
        if !keeps {
            return path.drain(now, budget, &mut All { dev, queues, in_flight, room: Room::InAll });
        }
        let mut known = None;
        loop {
            let mut stopped = 0;
            for queue in 0..queues {
                // An unused promise goes back with the doorbell.
                match dev.queue(queue).map_or(0, |mut q| q.reserve(1)) {
                    0 => {
                        path.stop_queue(queue);
                        stopped += 1;
                    }
                    _ => path.start_queue(queue),
                }
            }
            let room = Room::InAllBut(stopped);
            let wake = path.drain(
                now,
                budget,
                &mut All { dev: &mut *dev, queues, in_flight: &mut *in_flight, room },
            );
            // Another queue may be full by now: the loop runs again, at most once for each queue.
            if wake != Wake::Device || known.replace(stopped).is_some_and(|known| known >= stopped) {
                return wake;
            }
        }
    }

    /// Takes the packets of a queue that the device has finished: see `TxPath::reap`. The caller
    /// then drains that queue, or all queues if [`Reaped::opened`] is set.
    pub fn reap<D>(&mut self, now: Instant, queue: u16, dev: &mut D, done: impl FnMut(F)) -> Reaped
    where
        D: Queues<Frame = F>,
    {
        let at = usize::from(queue);
        let path = self.lanes.of(queue);
        let Some(mut device) = dev.queue(queue) else { return Reaped::default() };
        let packets = match self.lanes.paths.get_mut(path) {
            Some(path) => path.reap(now, &mut device, done),
            // The queue does not exist any more, so no byte limit is told.
            None => device::reap_alone(&mut device, done),
        };
        let Some(in_flight) = self.in_flight.get_mut(at) else {
            return Reaped { packets, ..Reaped::default() };
        };
        *in_flight = in_flight.saturating_sub(packets.into());
        let owed = &mut self.owed[at];
        let was_owed = *owed > 0;
        *owed = owed.saturating_sub(packets.into());
        let opened = was_owed && self.owed.iter().all(|n| *n == 0);
        if opened {
            self.lanes.paths.iter_mut().for_each(TxPath::thaw);
        }
        Reaped { packets, opened }
    }

    /// Calls `f` on every qdisc, parents first: the root, and then those of each queue, below its
    /// class. The books of a root that stands for the queues' own roots are empty: see
    /// [`books`](Self::books).
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(Place, &'a Node)) {
        self.trees().visit(f);
    }
    /// Returns its qdiscs, read-only.
    pub fn trees(&self) -> Trees<'_> {
        let paths = self.lanes.paths.iter().map(|path| (path.tree(), Some(&path.cx().pool))).collect();
        Trees::of_queues(self.lanes.shell.as_ref(), paths, self.env(), self.blocks())
    }
    /// Calls `f` on every packet that waits, with the place and the handle of the qdisc that it
    /// waits in: see `Tree::queued`.
    pub fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        let shell = self.lanes.shell.as_ref().map(|shell| shell.handle().major());
        for (queue, path) in (1..).zip(&self.lanes.paths) {
            path.queued(&mut |parent, handle, m| match (parent, shell) {
                (Handle::ROOT, Some(major)) => f(Handle::new(major, queue), handle, m),
                _ => f(parent, handle, m),
            });
        }
    }

    /// Returns the filters of a qdisc, a class, or another place.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        let in_tree = || self.lanes.paths.iter().find_map(|path| path.tree().block(at));
        self.lanes.bindings.block(at).or_else(in_tree)
    }
    /// Returns all places that have filters, in the order of their handles.
    pub fn blocks(&self) -> Vec<(Handle, BlockId)> {
        let in_trees = self.lanes.paths.iter().flat_map(|path| path.tree().blocks());
        let mut all: Vec<_> = self.lanes.bindings.iter().chain(in_trees).collect();
        all.sort_unstable();
        all
    }
    /// See [`Qdiscs::take_orphans`](crate::path::qdiscs::Qdiscs::take_orphans).
    #[must_use]
    pub fn take_orphans(&mut self) -> Vec<BlockId> {
        let mut all = self.lanes.bindings.take_orphans();
        for path in &mut self.lanes.paths {
            all.extend(path.held_mut().edit(|tree, _| tree.bind(Bindings::take_orphans)));
        }
        all
    }

    /// Returns the books of the root: the sums over the queues where it stands for them.
    pub fn books(&self) -> Books {
        let roots = self.lanes.paths.iter().map(|path| path.tree().root().books());
        roots.fold(Books::default(), |sum, b| sum.plus(&b))
    }

    /// Returns the packets dropped and marked in the root's qdiscs, by reason, summed likewise.
    pub fn reasons(&self) -> Reasons {
        let roots = self.lanes.paths.iter().map(|path| path.tree().root().reasons());
        roots.fold(Reasons::default(), |sum, reasons| sum.plus(reasons))
    }

    /// Returns the counters of all queues together, those of removed paths included.
    pub fn path_stats(&self) -> PathStats {
        self.lanes.paths.iter().fold(self.lanes.before.stats, |all, path| all.plus(path.stats()))
    }
    /// Returns the number of packets dropped for `reason` on all paths, removed ones included.
    pub fn drops(&self, reason: DropReason) -> u64 {
        let of = |path: &TxPath<F>| path.cx().drops(reason);
        self.lanes.before.drops[reason as usize] + self.lanes.paths.iter().map(of).sum::<u64>()
    }
    /// Returns the number of packets marked for `reason`, likewise.
    pub fn marks(&self, reason: MarkReason) -> u64 {
        let of = |path: &TxPath<F>| path.cx().marks(reason);
        self.lanes.before.marks[reason as usize] + self.lanes.paths.iter().map(of).sum::<u64>()
    }
    /// Returns the byte limit and the amount in flight, sums over all paths; `None` if there is no
    /// byte limit.
    pub fn byte_limit(&self) -> Option<(u64, u64)> {
        self.lanes.config.bql.as_ref()?;
        let stats = self.lanes.paths.iter().filter_map(|path| path.dql());
        Some(stats.fold((0, 0), |(limit, inflight), dql| {
            (limit + u64::from(dql.limit()), inflight + u64::from(dql.inflight()))
        }))
    }
    /// Returns the packets and bytes that wait in all qdiscs.
    pub fn backlog(&self) -> Tally {
        self.lanes.paths.iter().fold(Tally::default(), |all, path| {
            let b = path.backlog();
            Tally { packets: all.packets + b.packets, bytes: all.bytes + b.bytes }
        })
    }
    /// Returns the number of packets handed to the device and not yet finished, of all queues.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.iter().sum()
    }
    /// True while nothing leaves because of a change of the queues.
    pub fn is_fenced(&self) -> bool {
        self.owed.iter().any(|n| *n > 0)
    }
}

/// Most packets that can wait on all paths of a port together. Each takes 24 to 170 bytes beside
/// its frame, so that 4096 queues do not take gigabytes.
pub const SLOTS_MAX: usize = 1 << 18;
