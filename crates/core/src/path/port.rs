//! `Port`: a device with several transmit queues. Where the root is mq or mqprio, each queue is a
//! [`TxPath`] of its own: tree, packets, byte limit and counters. The ways of packets to different
//! queues then share nothing. With any other root one path feeds all queues.
//!
//! A packet passes three steps: the egress hook, if the owner has one
//! ([`crate::classify::filter`]); the choice of a queue ([`Chooser`], see [`crate::path::select`]);
//! and that queue's `submit`. [`Port::send`] is the last two. Packets enter and leave the paths of
//! a port by the port alone, which counts them for each queue of the device ([`Flight`]).
//!
//! **Changing the queues under load** ([`Control::set_queues`], another root in a swap). The port
//! takes out the packets that wait, sorts them in order of arrival, chooses a queue for each anew
//! and queues them there. The device sends the packets that it holds by then. Until it has sent
//! them, no queue gives it more, so that no flow overtakes itself through another queue. The device
//! idles only for the time that its last completion takes. As on a path, [`Control::configure`]
//! drops the packets that wait in qdiscs that it removes, and [`Control::swap`] queues them anew.
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

mod apart;
mod chooser;
mod control;
mod device;
mod flight;
mod forest;
mod lanes;
mod pass;
mod totals;

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::queues::QueueSet;
use crate::base::time::Instant;
use crate::classify::filter::BlockId;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::path::device::TxQueue;
use crate::path::dql::DqlError;
use crate::path::trees::Trees;
use crate::path::txpath::{Admitted, PathConfig, Transmitter, TxPath, Wake};
use crate::qdisc::Registry;
use crate::qdisc::multiq;
use crate::text::error::ConfigError;
use device::{One, Room};
use lanes::Lanes;

pub use apart::Apart;
pub use chooser::{Choice, Chooser, PortStats};
pub use control::Control;
pub use device::All;
pub use flight::Flight;
pub use totals::Totals;

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
    chooser: Chooser,
    flight: Flight,
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
        Ok(Self { lanes: Lanes::new(config)?, chooser: Chooser::new(queues), flight: Flight::new(queues) })
    }

    /// Returns the number of queues of the device.
    pub const fn queues(&self) -> u16 {
        self.chooser.selector.queues()
    }
    /// Returns the properties of the device that qdiscs know.
    pub fn env(&self) -> &Env {
        self.lanes.env()
    }
    /// Returns the rules by which a queue is chosen, and the counters of the port.
    pub const fn chooser(&self) -> &Chooser {
        &self.chooser
    }
    /// Returns the same, to choose queues and to change the rules.
    pub const fn chooser_mut(&mut self) -> &mut Chooser {
        &mut self.chooser
    }
    /// Returns the packets that the device has.
    pub const fn flight(&self) -> &Flight {
        &self.flight
    }
    /// Returns the sums over the paths.
    pub const fn totals(&self) -> Totals<'_, F> {
        Totals(&self.lanes)
    }
    /// Returns the paths: one for each queue, or one for all. There is always one.
    pub fn paths(&self) -> &[TxPath<F>] {
        &self.lanes.paths
    }
    /// Returns the path of a queue.
    pub fn path(&self, queue: u16) -> Option<&TxPath<F>> {
        self.lanes.paths.get(self.lanes.of(queue))
    }
    /// Iterates over the states of the paths towards the device. A thaw of a path ends the fence
    /// after a change of the queues for that path: see [`Flight::is_fenced`].
    pub fn transmitters_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Transmitter> {
        self.lanes.paths.iter_mut().map(TxPath::tx_mut)
    }
    /// See `TxPath::take_wake`, of the path of a queue.
    pub fn take_wake(&mut self, queue: u16) -> bool {
        let at = self.lanes.of(queue);
        self.lanes.paths.get_mut(at).is_some_and(TxPath::take_wake)
    }
    /// True if each queue has a path of its own.
    pub const fn is_split(&self) -> bool {
        self.lanes.is_split()
    }
    /// True if the paths and the queues are the same in number: each path feeds the queue of its
    /// number.
    const fn is_one_to_one(&self) -> bool {
        self.is_split() || self.queues() == 1
    }

    /// Returns its qdiscs, read-only: the root, and then those of each queue, below its class. The
    /// books of a root that stands for the queues' own roots are empty: see [`Totals::books`].
    pub fn trees(&self) -> Trees<'_> {
        self.lanes.trees()
    }
    /// Returns the filters of a qdisc, a class, or another place.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        self.lanes.block(at)
    }
    /// Returns the port with its device, to change its qdiscs and queues, between bursts.
    pub const fn control<'a, D>(&'a mut self, now: Instant, dev: &'a mut D) -> Control<'a, F, D>
    where
        D: Queues<Frame = F>,
    {
        Control::new(self, now, dev)
    }
    /// Frees at most so many of the qdiscs that were replaced as a whole; true once all are freed.
    /// The next swap frees the rest.
    pub fn bury(&mut self, most: usize) -> bool {
        if let Some(grave) = self.lanes.graves.last_mut()
            && grave.bury(most)
        {
            self.lanes.graves.pop();
        }
        self.lanes.graves.is_empty()
    }
    /// Checks that the device could have this many queues: the options of the root must hold there
    /// too.
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.lanes.shell_of(queues).map(|_| ())
    }

    /// Chooses a queue for a packet and hands the packet over to that queue's path: see
    /// `TxPath::submit`. The caller then drains that queue.
    #[inline]
    pub fn send<D>(
        &mut self,
        now: Instant,
        frame: F,
        mut m: Meta,
        choice: Choice<'_>,
        dev: &mut D,
    ) -> (u16, Admitted<F>)
    where
        D: Queues<Frame = F>,
    {
        self.send_with(now, frame, &mut m, None, choice, dev)
    }

    /// As `send`, with facts about the packet beside its metadata: only where its path wants them
    /// (`TxPath::wants_detail`). The metadata stays where it is until the packet is queued, and
    /// gets the queue and the note of the choice.
    #[inline(always)]
    pub fn send_with<D>(
        &mut self,
        now: Instant,
        frame: F,
        m: &mut Meta,
        detail: Option<&Detail>,
        choice: Choice<'_>,
        dev: &mut D,
    ) -> (u16, Admitted<F>)
    where
        D: Queues<Frame = F>,
    {
        let (queue, note) = self.chooser.choose_noted(m, choice, now);
        (m.queue, m.note) = (queue, note);
        (queue, self.submit(now, frame, m, detail, dev))
    }

    /// Hands a packet over to the path of the queue that [`Chooser::choose_for`] has noted
    /// in its metadata: see `TxPath::submit_from`. Then `drain` that queue.
    #[inline(always)]
    pub fn submit<D>(
        &mut self,
        now: Instant,
        frame: F,
        m: &Meta,
        detail: Option<&Detail>,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: Queues<Frame = F>,
    {
        let queue = self.chooser.existing(m.queue);
        if !self.is_one_to_one() {
            return self.submit_for(now, queue, frame, m, detail, dev);
        }
        let at = self.lanes.of(queue);
        let Some(path) = self.lanes.paths.get_mut(at) else { return Admitted::Full(frame) };
        let before = path.stats().tx_packets;
        let done = path.submit_from(now, frame, m, detail, &mut One::of(dev, queue));
        self.flight.packets[at] += path.stats().tx_packets - before;
        // The usual fates are named: a copy of the whole waits for its tag, which was just written.
        match done {
            Admitted::Sent => Admitted::Sent,
            Admitted::Queued => Admitted::Queued,
            rest => rest,
        }
    }

    /// Submits to the one path that feeds all queues.
    #[inline(never)]
    fn submit_for<D>(
        &mut self,
        now: Instant,
        queue: u16,
        frame: F,
        m: &Meta,
        detail: Option<&Detail>,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: Queues<Frame = F>,
    {
        let (queues, in_flight) = (self.queues(), &mut self.flight.packets);
        let Some(path) = self.lanes.paths.first_mut() else { return Admitted::Full(frame) };
        // A packet that goes at once needs room only in its own queue.
        let room = Room::In(queue);
        path.submit_from(now, frame, m, detail, &mut All { dev, queues, in_flight, room })
    }

    /// Moves packets of a queue's path to the device: see `TxPath::drain`. Where one path feeds all
    /// queues, the number of any queue selects it.
    #[inline]
    pub fn drain<D>(&mut self, now: Instant, queue: u16, budget: u32, dev: &mut D) -> Wake
    where
        D: Queues<Frame = F>,
    {
        let wake = self.drain_path(now, queue, budget, dev);
        if self.has_finished_at_commit(queue, dev) { Wake::More } else { wake }
    }

    /// Shows the device the packets of a queue's path that were pushed since the last doorbell:
    /// the end of [`drain`](Self::drain), and all of it that is left to do after a packet that was
    /// `Sent`. True if every queue is to be drained now, as by [`Reaped::opened`].
    #[inline]
    pub fn doorbell<D>(&mut self, queue: u16, dev: &mut D) -> bool
    where
        D: Queues<Frame = F>,
    {
        let at = self.lanes.of(queue);
        let (one_to_one, queues) = (self.is_one_to_one(), self.queues());
        let Some(path) = self.lanes.paths.get_mut(at) else { return false };
        match one_to_one {
            // A path is below the number of queues, of which there are at most 65 535.
            true => path.doorbell(&mut One::of(dev, at as u16)),
            false => path.doorbell(&mut All::any(dev, queues, &mut self.flight.packets)),
        }
        self.has_finished_at_commit(queue, dev)
    }

    /// Books what a device has finished that is done with packets at the doorbell. True if that
    /// ended the fence after a change of the queues.
    #[inline]
    fn has_finished_at_commit<D>(&mut self, queue: u16, dev: &mut D) -> bool
    where
        D: Queues<Frame = F>,
    {
        // The queues of a device finish their packets all in the same way.
        if !One::of(dev, self.chooser.existing(queue)).is_done_at_commit() {
            return false;
        }
        let (from, to) = if self.is_one_to_one() { (queue, queue + 1) } else { (0, self.queues()) };
        let opened = (from..to).fold(false, |opened, queue| opened | self.flight.empty(queue));
        if opened {
            self.transmitters_mut().for_each(Transmitter::thaw);
        }
        opened
    }

    #[inline]
    fn drain_path<D>(&mut self, now: Instant, queue: u16, budget: u32, dev: &mut D) -> Wake
    where
        D: Queues<Frame = F>,
    {
        let at = self.lanes.of(queue);
        let (one_to_one, queues) = (self.is_one_to_one(), self.queues());
        let Some(path) = self.lanes.paths.get_mut(at) else { return Wake::Idle };
        if one_to_one {
            let before = path.stats().tx_packets;
            // A path is below the number of queues, of which there are at most 65 535.
            let wake = path.drain(now, budget, &mut One::of(dev, at as u16));
            self.flight.packets[at] += path.stats().tx_packets - before;
            return wake;
        }
        let in_flight = &mut self.flight.packets;
        let root = path.tree().root().qdisc();
        // A multiq that has not been told of new queues has no class for them.
        let keeps = root.spec().kind == multiq::KIND && root.classes().len() >= usize::from(queues);
        if !keeps {
            return path.drain(now, budget, &mut All { dev, queues, in_flight, room: Room::InAll });
        }
        let mut known = None;
        // In each turn but the last two more queues are stopped.
        let mut bound = Bound::of(usize::from(queues) + 2);
        loop {
            bound.turn();
            let mut stopped = 0;
            for queue in 0..queues {
                // An unused promise goes back with the doorbell.
                match dev.queue(queue).map_or(0, |mut q| q.reserve(1)) {
                    0 => {
                        path.stopped_queues().insert(queue);
                        stopped += 1;
                    }
                    _ => path.stopped_queues().remove(queue),
                }
            }
            let room = Room::InAllBut(stopped);
            let wake = path.drain(
                now,
                budget,
                &mut All { dev: &mut *dev, queues, in_flight: &mut *in_flight, room },
            );
            // Another queue may be full by now.
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
        let at = self.lanes.of(queue);
        let Some(mut device) = dev.queue(queue) else { return Reaped::default() };
        let packets = match self.lanes.paths.get_mut(at) {
            Some(path) => path.reap(now, &mut device, done),
            // The queue does not exist any more, so no byte limit is told.
            None => device::reap_alone(&mut device, done),
        };
        let opened = self.flight.finished(queue, packets.into());
        if opened {
            self.transmitters_mut().for_each(Transmitter::thaw);
        }
        Reaped { packets, opened }
    }
}

/// Most packets that can wait on all paths of a port together. Each takes 24 to 170 bytes beside
/// its frame, so that 4096 queues do not take gigabytes.
pub const SLOTS_MAX: usize = 1 << 18;
