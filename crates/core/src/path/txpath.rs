//! `TxPath`: one transmit queue. It owns the tree of qdiscs, the packets in it and the byte queue
//! limit, and it is the only place where a packet meets a device.
//!
//! One writer: the owner calls, in any order and as often as it likes, `submit` for each packet,
//! then `drain` once (after a burst of submits, after a reap, and when a wake-up it asked for is
//! due), and `reap` when the device has finished something. Spurious calls are harmless. The answer
//! of `drain` tells when to call it next: never before a new packet (`Idle`), when the device has
//! finished something (`Device`), at a time (`At`), or at once (`More`).

mod frames;
mod guard;
mod held;
mod pull;
mod requests;
mod stats;
mod stops;
mod swap;
mod transmitter;

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::queues::QueueSet;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::packet::reason::{DropReason, WakeReason};
use crate::path::device::{Completed, TxQueue};
use crate::path::dql::{Dql, DqlConfig, DqlError};
use crate::path::tree::Tree;
use crate::qdisc::Registry;
use crate::sched::answer::Next;
use crate::sched::cx::Cx;
use crate::sched::trace::Trace;
use crate::text::error::ConfigError;
use crate::text::value::Words;

pub use frames::Frames;
use guard::Books;
pub(crate) use held::Held;
pub use stats::PathStats;
pub use stops::Stops;
pub use swap::Swapped;
pub(crate) use swap::Waiting;
pub use transmitter::Transmitter;
use transmitter::promised;

/// Most packets taken from the qdiscs on one promise: bounds the burst that a scheduler can no
/// longer revise, and the time until the owner looks at anything else.
pub const BULK: u32 = 64;

/// Most packets of a burst whose memory is asked for at once: more would displace each other from
/// the first cache before they are queued.
const BURST_MAX: usize = 32;

/// Meaning of a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The sender is in this process and can wait: it gets the frame back and is woken when there
    /// is room. Kinds that keep flows apart (cake, fq, fq_codel, fq_pie, sfq, skbprio by its
    /// levels) give a flow at most a quarter of the room that is free (Choudhury & Hahne's dynamic
    /// thresholds): one flow alone a fifth of the limit, `n` flows a part of `n + 4` each. So the
    /// sender of a flow with few packets finds room beside senders that always have more. cake by
    /// hosts alone, and hhf, have one room for all.
    #[default]
    Origin,
    /// The sender is elsewhere: a full queue drops and counts. Of the kinds that keep flows apart,
    /// cake, fq_codel and sfq drop from the longest one, and a sparse flow passes; fq and fq_pie
    /// drop what comes.
    Forwarder,
}

/// Fate of a submitted packet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted<F> {
    /// The packet is with the device; the doorbell rings at the next `drain`.
    Sent,
    /// The packet waits in a qdisc; the caller calls `drain`.
    Queued,
    /// The packet was dropped; the device's `discard` got the frame.
    Dropped(DropReason),
    /// Origin only: there is no room. The frame comes back, and `take_wake` tells when to try
    /// again.
    Full(F),
    /// A qdisc on its path takes it only in pieces of at most this many bytes: the caller cuts it
    /// and submits the pieces.
    Cut(F, u32),
}

/// Time and caller of the next `drain`.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// None: nothing waits.
    Idle,
    /// The owner, when the device finishes something, the path is thawed, or a queue is started:
    /// packets wait and the device does not take them.
    Device,
    /// A timer: nothing may leave before this instant.
    At(Instant, WakeReason),
    /// The caller, again: the budget is spent and packets wait.
    More,
}

/// Configuration of a transmit path.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// Properties of the device it sits on.
    pub env: Env,
    /// Number of packets that can wait at once, in all qdiscs together.
    pub pool: usize,
    /// Meaning of a full queue.
    pub role: Role,
    /// The byte queue limit; with `None` only the device's ring bounds the packets in flight. It
    /// stops no packet of a device that is done at once (`TxQueue::is_done_at_commit`).
    pub bql: Option<DqlConfig>,
    /// Number of event records to keep; 0 keeps none.
    pub trace: usize,
}

impl Default for PathConfig {
    /// Returns [`for_ring`](Self::for_ring).
    fn default() -> Self {
        Self::for_ring()
    }
}

impl PathConfig {
    /// For a device that takes packets now and finishes them later, and reports both: the ring of a
    /// network card, an XDP socket, [`Wire`](crate::model::wire::Wire). The byte limit keeps in the
    /// ring the bytes that it needs, and leaves the others to the qdiscs.
    ///
    /// Ethernet, 16 384 packets, no trace. A full queue gives the frame back to its sender
    /// ([`Role::Origin`]).
    #[must_use]
    pub fn for_ring() -> Self {
        Self { bql: Some(DqlConfig::default()), ..Self::for_socket() }
    }

    /// For a device that is done with a packet once it has taken it: a socket or a TAP device,
    /// whose kernel copies the bytes (`TxQueue::is_done_at_commit` is true), and for packets that
    /// the caller takes itself ([`TxPath::pull`]). There is no byte limit: nothing is in flight
    /// that it could bound, and completions would teach it the turns of the program. The other
    /// values are those of [`for_ring`](Self::for_ring).
    #[must_use]
    pub fn for_socket() -> Self {
        Self { env: Env::default(), pool: 16_384, role: Role::Origin, bql: None, trace: 0 }
    }

    /// The same for packets whose senders are elsewhere and cannot wait, as a router's and those of
    /// a virtual machine: a full queue drops, and counts ([`Role::Forwarder`]).
    #[must_use]
    pub fn forwarder(self) -> Self {
        Self { role: Role::Forwarder, ..self }
    }
}

/// One transmit queue, from admission to the device.
///
/// ```
/// use txweir_core::{Admitted, Instant, Meta, PathConfig, TxPath, Wake, model::testing::VecDevice};
///
/// let mut device = VecDevice::with_slots(1);
/// let mut path = TxPath::new(PathConfig::default())?.with_qdisc("fq_codel", &["flows", "64"])?;
/// let now = Instant::ZERO;
/// assert_eq!(path.submit(now, "first", Meta::new(100), &mut device), Admitted::Sent);
/// assert_eq!(path.submit(now, "second", Meta::new(100), &mut device), Admitted::Queued);
/// assert_eq!(path.drain(now, 64, &mut device), Wake::Device);
/// device.finish(1);
/// path.reap(now, &mut device, |_frame| {});
/// assert_eq!(path.drain(now, 64, &mut device), Wake::Idle);
/// assert_eq!(device.sent(), ["first", "second"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TxPath<F> {
    held: Held<F>,
    tx: Transmitter,
    /// Meaning of a full queue for the packets that come next.
    pub role: Role,
}

impl<F> TxPath<F> {
    /// Returns a path with the default root qdisc, pfifo_fast. All memory for packets is allocated
    /// here.
    pub fn new(config: PathConfig) -> Result<Self, DqlError> {
        Self::of_kinds(config, Registry::BUILT_IN)
    }

    /// Returns the same with another registry of the kinds of its qdiscs ([`Registry::only`]).
    pub fn of_kinds(config: PathConfig, kinds: Registry) -> Result<Self, DqlError> {
        let mut cx = Cx::new(config.pool, config.env.seed);
        let env = Env { packets: u32::try_from(config.pool).unwrap_or(u32::MAX), ..config.env };
        cx.trace = Trace::new(config.trace);
        let mut frames = Vec::new();
        frames.resize_with(cx.pool.capacity(), || None);
        Ok(Self {
            held: Held {
                tree: Tree::of_kinds(env, kinds),
                cx,
                frames,
                settled: true,
                refused: false,
                by_flow: false,
                freed: false,
                stats: PathStats::default(),
            },
            tx: Transmitter::new(config.bql.map(|c| Dql::new(&c, Instant::ZERO)).transpose()?),
            role: config.role,
        })
    }

    /// Sets the registry of kinds for its qdiscs, before any is added.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Registry) -> Self {
        self.held.tree = self.held.tree.with_kinds(kinds);
        self
    }
    /// Replaces the root qdisc, before anything is submitted.
    pub fn with_qdisc(mut self, kind: &str, options: &[&str]) -> Result<Self, ConfigError> {
        self.held.tree.edit(&mut self.held.cx).replace(Handle::ROOT, None, kind, &mut Words::new(options))?;
        self.held.cx.pool.keep_details(self.held.tree.wants_detail());
        Ok(self)
    }

    /// Takes a packet: straight to the device if nothing waits and nothing stops it, else into the
    /// qdiscs.
    #[inline(always)]
    pub fn submit<D>(&mut self, now: Instant, frame: F, m: Meta, dev: &mut D) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        self.submit_with(now, frame, m, None, dev)
    }

    /// As `submit`, with facts about the packet beside its metadata: needed where `wants_detail` is
    /// true.
    #[inline(always)]
    pub fn submit_with<D>(
        &mut self,
        now: Instant,
        frame: F,
        m: Meta,
        detail: Option<&Detail>,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        // `m` is copied where a reference would have to leave this function: then the metadata
        // itself stays in registers until it is written to its slot. A read right after a write in
        // parts would stall on store forwarding.
        self.held.cx.now = now;
        if self.may_pass(m.wire_len, dev) {
            let sent = m;
            self.pass(frame, &sent, dev);
            return Admitted::Sent;
        }
        self.held.admit(frame, m, detail, self.role, dev)
    }

    /// Does the same for metadata that stays where it is while the packet goes directly: for a
    /// caller that has it in memory.
    #[inline(always)]
    pub fn submit_from<D>(
        &mut self,
        now: Instant,
        frame: F,
        m: &Meta,
        detail: Option<&Detail>,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        self.held.cx.now = now;
        if self.may_pass(m.wire_len, dev) {
            self.pass(frame, m, dev);
            return Admitted::Sent;
        }
        self.held.admit(frame, *m, detail, self.role, dev)
    }

    /// Takes packets that have come together, one after the other, as `submit` does. First it asks
    /// for the memory that all of them will touch: with more waiting packets than the caches hold,
    /// their loads then overlap. Bursts of 8 to 64 packets gain most; few waiting packets gain
    /// nothing.
    ///
    /// `metas` and `frames` are the packets' two halves in the same order; the shorter one ends the
    /// burst. `fate` gets the outcome of each packet. The first `Full` ends the burst as well, so
    /// that no packet overtakes the refused one. Returns the number of packets before it, or of
    /// all: `metas` from there on, and the refused frame and the rest of `frames`, are still to be
    /// sent.
    ///
    /// ```
    /// use txweir_core::{Admitted, Instant, Meta, PathConfig, TxPath, model::testing::VecDevice};
    ///
    /// let mut device = VecDevice::with_slots(1);
    /// let mut path = TxPath::new(PathConfig::default())?.with_qdisc("fq_codel", &[])?;
    /// let metas = [Meta::new(100), Meta::new(100).flow(1)];
    /// let mut frames = ["first", "second"].into_iter();
    /// let mut fates = Vec::new();
    /// let fate = |_: &Meta, admitted| fates.push(admitted);
    /// assert_eq!(path.submit_burst(Instant::ZERO, &metas, &mut frames, &mut device, fate), 2);
    /// assert_eq!(fates, [Admitted::Sent, Admitted::Queued]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn submit_burst<D>(
        &mut self,
        now: Instant,
        metas: &[Meta],
        frames: &mut impl Iterator<Item = F>,
        dev: &mut D,
        mut fate: impl FnMut(&Meta, Admitted<F>),
    ) -> usize
    where
        D: TxQueue<Frame = F>,
    {
        let mut taken = 0;
        for burst in metas.chunks(BURST_MAX) {
            self.held.expect(burst);
            for m in burst {
                let Some(frame) = frames.next() else { return taken };
                let admitted = self.submit(now, frame, *m, dev);
                let full = matches!(admitted, Admitted::Full(_));
                fate(m, admitted);
                if full {
                    return taken;
                }
                taken += 1;
            }
        }
        taken
    }

    /// Sends a packet straight to the device if nothing waits and nothing stops it (rule DD), and
    /// returns it otherwise. The caller then calls [`doorbell`](Self::doorbell). The call needs no
    /// time: its trace records carry the time of the last call that had one.
    #[inline(always)]
    pub fn send_direct<D>(&mut self, frame: F, m: &Meta, dev: &mut D) -> Result<(), F>
    where
        D: TxQueue<Frame = F>,
    {
        // Stall detection needs the time of each post, which this path does not have.
        if self.tx.is_timed() || !self.may_pass(m.wire_len, dev) {
            return Err(frame);
        }
        self.pass(frame, m, dev);
        Ok(())
    }

    /// True if a packet may go past the qdiscs (rule DD). The ring is asked for room last, because
    /// its answer is a promise.
    #[inline(always)]
    fn may_pass<D>(&self, wire_len: u32, dev: &mut D) -> bool
    where
        D: TxQueue<Frame = F>,
    {
        self.held.may_be_passed(wire_len, &self.tx, dev) && promised(1, dev) == 1
    }

    /// Gives the device a packet that goes past the qdiscs, at the time of the path.
    #[inline(always)]
    fn pass<D>(&mut self, frame: F, m: &Meta, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        dev.push(frame, m);
        self.held.count_direct(m);
        self.tx.post(m, self.held.cx.now, &mut self.held.stats);
    }

    /// True while a qdisc needs more of a packet than its metadata: see `submit_with`. It changes
    /// only when the tree does.
    #[inline]
    pub const fn wants_detail(&self) -> bool {
        self.held.cx.pool.keeps_details()
    }

    /// Moves up to `budget` packets from the qdiscs to the device, then rings the doorbell once if
    /// anything was pushed since the last time.
    #[inline]
    pub fn drain<D>(&mut self, now: Instant, budget: u32, dev: &mut D) -> Wake
    where
        D: TxQueue<Frame = F>,
    {
        self.held.cx.now = now;
        self.held.cx.wakes.forget_earlier();
        let wake = self.run(budget, dev);
        self.doorbell(dev);
        wake
    }

    /// Shows the device the packets pushed since the last doorbell, if there are any. `drain` ends
    /// with it.
    #[inline]
    pub fn doorbell<D>(&mut self, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        self.tx.ring(self.held.cx.now, &mut self.held.stats, dev);
    }

    fn run<D>(&mut self, budget: u32, dev: &mut D) -> Wake
    where
        D: TxQueue<Frame = F>,
    {
        let mut left = budget;
        // Bound: `budget` turns, because each takes slots off it.
        while !self.held.tree.root().is_empty() {
            if left == 0 {
                return Wake::More;
            }
            if self.tx.stops().has(Stops::FROZEN) {
                return Wake::Device;
            }
            let slots = self.tx.reserve(left.min(BULK), &mut self.held.stats, dev);
            if slots == 0 {
                return Wake::Device;
            }
            left -= slots;
            if let Some(wake) = self.send_up_to(slots, dev) {
                return wake;
            }
        }
        if !self.held.settled {
            // The dequeue tells the root that it is empty, so that an AQM forgets the standing
            // queue.
            self.held.settled = self.held.tree.root().account().is_settled();
            match self.held.tree.root_mut().dequeue(&mut self.held.cx) {
                Next::Empty | Next::At(..) => {}
                // An empty root returns no packet; if it did, the packet would still be counted.
                Next::Packet(p) => self.held.cx.drop(p, DropReason::Purged),
            }
            self.held.settle(None, dev);
        }
        Wake::Idle
    }

    /// Sends up to `n` packets into promised slots; `Some` if anything but the count ended it.
    #[inline]
    fn send_up_to<D>(&mut self, n: u32, dev: &mut D) -> Option<Wake>
    where
        D: TxQueue<Frame = F>,
    {
        for _ in 0..n {
            if self.tx.is_at_limit(&mut self.held.stats, dev) {
                return Some(Wake::Device);
            }
            let next = self.held.tree.root_mut().dequeue(&mut self.held.cx);
            match next {
                Next::Packet(p) if !self.held.cx.effects.any() => self.held.hand_over(p, &mut self.tx, dev),
                other => {
                    let wake = self.handle(other, dev);
                    if wake.is_some() {
                        return wake;
                    }
                }
            }
            if self.held.tree.root().is_empty() {
                return None;
            }
        }
        None
    }

    /// Handles an answer of the root that is no packet, or that comes with work for the owner of
    /// the frames; `Some` if nothing leaves now.
    #[inline(never)]
    fn handle<D>(&mut self, next: Next, dev: &mut D) -> Option<Wake>
    where
        D: TxQueue<Frame = F>,
    {
        self.held.cx.effects.clear();
        self.held.serve_requests(dev);
        let wake = match next {
            Next::Packet(p) => {
                self.held.hand_over(p, &mut self.tx, dev);
                None
            }
            // The root is empty although packets were queued: they have just been dropped.
            Next::Empty => {
                self.held.settled = self.held.tree.root().account().is_settled();
                Some(Wake::Idle)
            }
            Next::At(_, WakeReason::Queue) => Some(Wake::Device),
            Next::At(t, why) => Some(Wake::At(t, why)),
        };
        self.held.settle(None, dev);
        wake
    }

    /// Takes the packets that the device has finished: tells the byte limit, and returns frames
    /// through `done`. Returns the number of packets finished; the caller then calls `drain`.
    #[inline]
    pub fn reap<D>(&mut self, now: Instant, dev: &mut D, mut done: impl FnMut(F)) -> u32
    where
        D: TxQueue<Frame = F>,
    {
        let (mut packets, mut bytes) = (0u32, 0u32);
        dev.reap(&mut |c: Completed<F>| {
            packets = packets.saturating_add(c.packets);
            bytes = bytes.saturating_add(c.bytes);
            if let Some(frame) = c.frame {
                done(frame);
            }
        });
        if packets == 0 {
            return 0;
        }
        self.tx.completed((packets, bytes), now, &mut self.held.stats, dev);
        packets
    }

    /// True once after a `Full`, when a packet has left the qdiscs since: waiting senders may try
    /// again.
    #[inline]
    pub const fn take_wake(&mut self) -> bool {
        self.held.take_wake()
    }
    /// True if the last `Full` was for the flow of its packet alone: packets of other flows may
    /// find room.
    pub const fn is_full_by_flow(&self) -> bool {
        self.held.by_flow
    }

    /// Changes the tree, between bursts: `f` gets the tree and the context that its operations
    /// need. Frames of packets that it drops go to the device's `discard`. The caller calls `drain`
    /// afterwards.
    ///
    /// A function that replaces the tree or the pool as a whole, or frees packets, loses no frame:
    /// every waiting packet is then dropped, with the reason `Purged`.
    pub fn configure<D, R>(&mut self, now: Instant, dev: &mut D, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R
    where
        D: TxQueue<Frame = F>,
    {
        let books = Books::of(&self.held);
        let r = self.held.configure(now, |tree, cx| f(tree, cx));
        self.held.keep_books(books, dev);
        self.held.end_configure(dev);
        r
    }

    /// Changes the tree, between bursts, and keeps the packets that wait. `f` gets the tree and the
    /// context that its operations need. Packets that it removes are set aside and queued again. If
    /// any were set aside, or the tree was disturbed (`Tree::disturb`), all other waiting packets
    /// are queued again with them: in order of arrival, each with the time at which it was first
    /// queued, classified anew. Packets of one flow stay in order, unless a new qdisc chooses a
    /// queue by details (`wants_detail`) that were not kept when they came.
    ///
    /// Packets for which the new tree has no room are dropped, with their own reason. A
    /// super-packet that it takes only in pieces is given to `cut` with its metadata, the largest
    /// size of a piece, and a function that takes each piece in turn. Qdiscs that stay keep their
    /// counters, the state of their laws, and their tokens. The byte limit and the device are not
    /// touched. The caller calls `drain` afterwards.
    ///
    /// `f` must not fail halfway: the packets that it has removed by then are queued again in the
    /// rest of the tree.
    pub fn swap<D, R>(
        &mut self,
        now: Instant,
        dev: &mut D,
        f: impl FnOnce(&mut Tree, &mut Cx) -> R,
        cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> (R, Swapped)
    where
        D: TxQueue<Frame = F>,
    {
        let dropped = self.held.begin_swap(now);
        let books = Books::of(&self.held);
        let r = self.held.edit(f);
        self.held.keep_books(books, dev);
        (r, self.held.end_swap(dropped, dev, cut))
    }

    /// Drops every packet that waits: the device's `discard` gets their frames, with the reason
    /// `Purged`. Without this call before its end, a path drops the frames that it holds, and a
    /// device whose frames are numbers or addresses never gets those back.
    pub fn purge<D>(&mut self, now: Instant, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        self.held.configure(now, |tree, cx| tree.root_mut().purge(cx));
        self.held.end_configure(dev);
    }

    /// Returns the stopped ones of several transmit queues that this path feeds, to stop and start
    /// them. Kinds that know the queue of a packet (`Meta::queue`) keep the packets for a stopped
    /// one. For other kinds the set has no effect: a device that takes nothing at all promises no
    /// slot. After a start the caller calls `drain`.
    pub const fn stopped_queues(&mut self) -> &mut QueueSet {
        &mut self.held.cx.stopped
    }
    /// Returns its state towards the device: the byte limit, the stops.
    #[inline]
    pub const fn tx(&self) -> &Transmitter {
        &self.tx
    }
    /// Returns the same, to change it.
    #[inline]
    pub const fn tx_mut(&mut self) -> &mut Transmitter {
        &mut self.tx
    }
    /// Returns the packets that wait on it.
    pub(crate) const fn held_mut(&mut self) -> &mut Held<F> {
        &mut self.held
    }
    /// Returns the qdiscs.
    pub const fn tree(&self) -> &Tree {
        &self.held.tree
    }
    /// Returns packets and bytes waiting in the qdiscs: wire bytes, or those that the root's size
    /// table charges.
    pub const fn backlog(&self) -> Tally {
        self.held.tree.root().account().queued()
    }
    /// Returns its counters.
    pub const fn stats(&self) -> &PathStats {
        &self.held.stats
    }
    /// Returns drops and marks by reason, and the trace.
    pub const fn cx(&self) -> &Cx {
        &self.held.cx
    }
}
