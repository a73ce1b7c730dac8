//! `Port`: a device with several transmit queues. Each queue is a [`TxPath`] of its own where the root is mq or mqprio: tree,
//! packets, byte limit and counters, with nothing shared on the packet's way. With any other root one path feeds all queues.
//!
//! A packet's way: the egress hook, if the owner has one ([`crate::classify::filter`]); the choice
//! of a queue ([`Port::choose`], see
//! [`crate::path::select`]); then that queue's `submit`. [`Port::send`] is the last two.
//!
//! The paths can be taken apart and given to threads ([`Port::paths_mut`]); the choice needs nothing but the [`Selector`].
//!
//! **Changing the queues under load** ([`Port::set_queues`], another root in a swap): packets that wait are taken out, put in
//! order of arrival, chosen a queue for anew and queued there. What the device holds by then it sends; until it has, no
//! queue gives it more, so that no flow overtakes itself through another queue. The device
//! does not rest meanwhile but for the time that its last completion takes. As on a path, [`Port::configure`] drops what
//! waits in qdiscs that it removes, and [`Port::swap`] queues it anew.
//!
//! - P1 (I7): what the queues count is what the port counts, packets that went directly included.
//! - P2: nothing is lost when queues come and go, but for what the new ones have no room for; that is dropped and counted.
//! - P3 (I6): the packets of one flow keep their order through such a change: what waits is given the queue that what comes
//!   behind it will get. By hash it is the hash; what was asked for stays where it was; what a sender remembers ends. Who
//!   sent a packet (`Xps`, `Sender::came_by`) is not known any more: it stays in its queue, which keeps the order as long as
//!   the sender's choice is the same.
//! - P4: class MAJOR:n of the root is queue n - 1, whatever has been grafted.

mod blocks;
mod change;
mod device;
mod handles;
mod pass;
mod trees;

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::queues::QueueSet;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::{Meta, Note};
use crate::packet::reason::{DropReason, MarkReason, Reasons};
use crate::path::device::TxQueue;
use crate::path::dql::DqlError;
use crate::path::select::{Cached, NoSuchQueue, Selector, Sender};
use crate::path::tree::Place;
use crate::path::txpath::{Admitted, PathConfig, PathStats, TxPath, Wake};
use crate::qdisc::mq::default_shell;
use crate::qdisc::{mq, mqprio, multiq};
use crate::sched::node::{Books, Node};
use blocks::Places;
use device::{All, One, Room};

pub use handles::{Handles, InTree, Qdiscs};
pub use trees::Trees;

/// The transmit queues of a device.
pub trait Queues {
    /// The user's own packet.
    type Frame;
    /// A queue while it is used.
    type Queue<'a>: TxQueue<Frame = Self::Frame>
    where
        Self: 'a;
    /// The queue of that number, if there is one.
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

/// How a packet's queue is found.
#[derive(Debug)]
pub enum Choice<'a> {
    /// It was chosen elsewhere, by an action or by who sends.
    Queue(u16),
    /// By who sends it, and what that remembers of its last choice.
    By(&'a Sender, Option<&'a mut Cached>),
    /// It was chosen by [`Port::choose_for`], which has noted it in the metadata.
    Made,
}

crate::stats! {
    /// Counters of a port.
    pub struct PortStats {
        /// Packets whose queue was chosen, by the port or by what it was asked for.
        chosen: u64,
        /// Packets whose chosen queue was not there; they went to the first.
        no_such_queue: u64,
        /// Times the queues were changed under load.
        reshaped: u64,
        /// Packets that waited then and were queued anew.
        moved: u64,
    }
}

/// What a finished round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Packets that the device has finished.
    pub packets: u32,
    /// With the last of them the way is free again after a change of the queues: every queue is to be drained.
    pub opened: bool,
}

/// A device with several transmit queues, from the choice of one to the device.
#[derive(Debug)]
pub struct Port<F> {
    config: PathConfig,
    /// The root where each queue has a path of its own: mq or mqprio. It stands for the paths, and no packet meets it.
    shell: Option<Node>,
    paths: Vec<TxPath<F>>,
    selector: Selector,
    /// Of each queue of the device, what was handed over and has not been finished.
    in_flight: Vec<u64>,
    /// Of each queue, what of that is from before the queues were changed; nothing leaves while there is any.
    owed: Vec<u64>,
    /// Counters of paths that are no more.
    before: Before,
    /// Where there are filters in no path's tree, and those of trees that are no more.
    places: Places,
    stats: PortStats,
}

/// What paths that are no more have counted.
#[derive(Clone, Copy, Debug)]
struct Before {
    stats: PathStats,
    dropped: Tally,
    drops: [u64; DropReason::COUNT],
    marks: [u64; MarkReason::COUNT],
}

impl<F> Port<F> {
    /// A port of `config.env.queues` queues. Its root is the default one: pfifo_fast, with several queues one below mq for each
    /// of them, as in Linux. `config.pool` packets can wait on each path, but not more than [`SLOTS_MAX`] on all.
    pub fn new(config: PathConfig) -> Result<Self, DqlError> {
        let queues = config.env.queues.clamp(1, QueueSet::QUEUES_MAX);
        let mut port = Self {
            paths: Vec::new(),
            shell: None,
            selector: Selector::new(queues),
            in_flight: alloc::vec![0; usize::from(queues)],
            owed: alloc::vec![0; usize::from(queues)],
            before: Before {
                stats: PathStats::default(),
                dropped: Tally::default(),
                drops: [0; DropReason::COUNT],
                marks: [0; MarkReason::COUNT],
            },
            places: Places::default(),
            stats: PortStats::default(),
            config: PathConfig { env: Env { queues, ..config.env }, ..config },
        };
        port.shell = default_shell(&port.config.env);
        for _ in 0..port.paths_wanted() {
            port.paths.push(TxPath::new(port.path_config())?);
        }
        Ok(port)
    }

    /// How many queues the device has.
    pub const fn queues(&self) -> u16 {
        self.selector.queues()
    }
    /// How a queue is chosen.
    pub const fn selector(&self) -> &Selector {
        &self.selector
    }
    /// The same, to set who sends by which queues. Its traffic classes are mqprio's business.
    pub const fn selector_mut(&mut self) -> &mut Selector {
        &mut self.selector
    }
    /// The paths: one for each queue, or one for all.
    pub fn paths(&self) -> &[TxPath<F>] {
        &self.paths
    }
    /// The same, to drive them apart from one another.
    pub fn paths_mut(&mut self) -> &mut [TxPath<F>] {
        &mut self.paths
    }
    /// True if each queue has a path of its own.
    pub const fn is_split(&self) -> bool {
        self.shell.is_some()
    }
    /// The path of the first queue, which is that of all where they have none of their own. A port has it at all times.
    pub fn first(&self) -> &TxPath<F> {
        &self.paths[0]
    }
    /// The path of a queue.
    pub fn path(&self, queue: u16) -> Option<&TxPath<F>> {
        self.paths.get(self.path_of(queue))
    }
    /// Its counters.
    pub const fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// True if the paths and the queues are the same in number: each path feeds the queue of its number.
    const fn is_one_to_one(&self) -> bool {
        self.is_split() || self.selector.queues() == 1
    }

    const fn path_of(&self, queue: u16) -> usize {
        if self.is_split() { queue as usize } else { 0 }
    }

    /// The queue that a packet goes to.
    #[inline]
    pub fn choose(&mut self, m: &Meta, choice: Choice<'_>, now: Instant) -> u16 {
        self.choose_noted(m, choice, now).0
    }

    /// Chooses ahead of `send`, for who has to know the queue before, and notes it in the metadata: then send with
    /// [`Choice::Made`].
    #[inline]
    pub fn choose_for(&mut self, m: &mut Meta, choice: Choice<'_>, now: Instant) -> u16 {
        (m.queue, m.note) = self.choose_noted(m, choice, now);
        m.queue
    }

    /// The queue, and what it was chosen by.
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

    /// The queue, or the first if it is not there.
    fn there(&mut self, queue: u16) -> u16 {
        match self.selector.chosen(queue) {
            Ok(queue) => queue,
            Err(NoSuchQueue(_)) => {
                self.stats.no_such_queue += 1;
                0
            }
        }
    }

    /// Chooses a queue for a packet and hands it over to that queue's path: see `TxPath::submit`. Then `drain` that queue.
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

    /// As `send`, with what is known of the packet beside its metadata: where its path says so (`TxPath::wants_detail`).
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

    /// Hands a packet over to the path of the queue that [`choose_for`](Self::choose_for) has noted in its metadata: see
    /// `TxPath::submit_with`. Then `drain` that queue.
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
        let at = self.path_of(queue);
        let Some(path) = self.paths.get_mut(at) else { return Admitted::Full(frame) };
        let before = path.stats().tx_packets;
        let done = path.submit_with(now, frame, m, detail, &mut One::of(dev, queue));
        self.in_flight[at] += path.stats().tx_packets - before;
        done
    }

    /// To the one path that feeds all queues.
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
        let Some(path) = self.paths.first_mut() else { return Admitted::Full(frame) };
        // What goes at once goes to its own queue, whatever room others have.
        let room = Room::In(queue);
        path.submit_with(now, frame, m, detail, &mut All { dev, queues, in_flight, room })
    }

    /// Moves packets of a queue's path to the device: see `TxPath::drain`. Where one path feeds all queues, any of them will do.
    #[inline]
    pub fn drain<D>(&mut self, now: Instant, queue: u16, budget: u32, dev: &mut D) -> Wake
    where
        D: Queues<Frame = F>,
    {
        let at = self.path_of(queue);
        let (one_to_one, queues) = (self.is_one_to_one(), self.selector.queues());
        let Some(path) = self.paths.get_mut(at) else { return Wake::Idle };
        if one_to_one {
            let before = path.stats().tx_packets;
            // A path is below the number of queues, of which there are at most 65 535.
            let wake = path.drain(now, budget, &mut One::of(dev, at as u16));
            self.in_flight[at] += path.stats().tx_packets - before;
            return wake;
        }
        let in_flight = &mut self.in_flight;
        let root = path.tree().root().qdisc();
        // One that has not been told of new queues has no class for them.
        let keeps = root.spec().kind == multiq::KIND && root.classes().len() >= usize::from(queues);
        if !keeps {
            return path.drain(now, budget, &mut All { dev, queues, in_flight, room: Room::InAll });
        }
        let mut known = None;
        loop {
            let mut stopped = 0;
            for queue in 0..queues {
                // A promise that is not used goes back with the doorbell.
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
            // Another queue may be full by now: once for each of them.
            if wake != Wake::Device || known.replace(stopped).is_some_and(|known| known >= stopped) {
                return wake;
            }
        }
    }

    /// Takes what the device has finished of a queue: see `TxPath::reap`. Then `drain` that queue; or all, where it is said
    /// that the way is free again after a change of the queues.
    pub fn reap<D>(&mut self, now: Instant, queue: u16, dev: &mut D, done: impl FnMut(F)) -> Reaped
    where
        D: Queues<Frame = F>,
    {
        let at = usize::from(queue);
        let path = self.path_of(queue);
        let Some(mut device) = dev.queue(queue) else { return Reaped::default() };
        let packets = match self.paths.get_mut(path) {
            Some(path) => path.reap(now, &mut device, done),
            // A queue that is no more: nobody's byte limit hears of it.
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
            self.paths.iter_mut().for_each(TxPath::thaw);
        }
        Reaped { packets, opened }
    }

    /// Calls `f` on every qdisc, parents first: the root, and then those of each queue, below its class. The books of a root
    /// that stands for the queues' own are empty: see [`books`](Self::books).
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(Place, &'a Node)) {
        self.trees().visit(f);
    }
    /// Its qdiscs, to look at.
    pub fn trees(&self) -> Trees<'_> {
        Trees::of_port(self)
    }
    /// Shows every packet that waits, with the place and the handle of the qdisc that it waits in: see `Tree::queued`.
    pub fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        let shell = self.shell.as_ref().map(|shell| shell.handle().major());
        for (queue, path) in (1..).zip(&self.paths) {
            path.queued(&mut |parent, handle, m| match (parent, shell) {
                (Handle::ROOT, Some(major)) => f(Handle::new(major, queue), handle, m),
                _ => f(parent, handle, m),
            });
        }
    }

    /// The books of the root: the sums over the queues where it stands for them.
    pub fn books(&self) -> Books {
        let roots = self.paths.iter().map(|path| path.tree().root().books());
        roots.fold(Books::default(), |sum, b| sum.plus(&b))
    }

    /// The packets dropped and marked in the root's qdiscs, by reason, likewise.
    pub fn reasons(&self) -> Reasons {
        let roots = self.paths.iter().map(|path| path.tree().root().reasons());
        roots.fold(Reasons::default(), |sum, reasons| sum.plus(reasons))
    }

    /// Counters of all queues together, those of paths that are no more included.
    pub fn path_stats(&self) -> PathStats {
        self.paths.iter().fold(self.before.stats, |all, path| all.plus(path.stats()))
    }
    /// Packets dropped for `reason` on all paths, those that are no more included.
    pub fn drops(&self, reason: DropReason) -> u64 {
        let of = |path: &TxPath<F>| path.cx().drops(reason);
        self.before.drops[reason as usize] + self.paths.iter().map(of).sum::<u64>()
    }
    /// Packets marked for `reason`, likewise.
    pub fn marks(&self, reason: MarkReason) -> u64 {
        let of = |path: &TxPath<F>| path.cx().marks(reason);
        self.before.marks[reason as usize] + self.paths.iter().map(of).sum::<u64>()
    }
    /// The byte limit and what is in flight, sums over all paths; `None` if there is no byte limit.
    pub fn byte_limit(&self) -> Option<(u64, u64)> {
        self.config.bql.as_ref()?;
        let stats = self.paths.iter().filter_map(|path| path.dql());
        Some(stats.fold((0, 0), |(limit, inflight), dql| {
            (limit + u64::from(dql.limit()), inflight + u64::from(dql.inflight()))
        }))
    }
    /// Packets and bytes that wait in all qdiscs.
    pub fn backlog(&self) -> Tally {
        self.paths.iter().fold(Tally::default(), |all, path| {
            let b = path.backlog();
            Tally { packets: all.packets + b.packets, bytes: all.bytes + b.bytes }
        })
    }
    /// What was handed to the device and is not finished, of all queues.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.iter().sum()
    }
    /// True while nothing leaves because of a change of the queues.
    pub fn is_fenced(&self) -> bool {
        self.owed.iter().any(|n| *n > 0)
    }
}

/// Whether a root of this kind only stands for what each queue has.
fn stands_for_queues(kind: &str) -> bool {
    [mq::KIND, mqprio::KIND].contains(&kind)
}

/// Most packets that can wait on all paths of a port together: of 24 to 170 bytes each, beside their frames, so that 4096
/// queues do not mean gigabytes.
pub const SLOTS_MAX: usize = 1 << 18;
