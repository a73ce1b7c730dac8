//! `TxPath`: one transmit queue. It owns the tree of qdiscs, the packets in it and the byte queue limit, and
//! it is the only place where a packet meets a device.
//!
//! One writer: the owner calls, in any order and as often as it likes, `submit` for each packet, then `drain`
//! once (after a burst of submits, after a reap, and when a wake-up it asked for is due), and `reap` when the
//! device has finished something. Spurious calls are harmless. What `drain` answers says who must call it
//! next: nobody (`Idle`), whoever sees the device finish (`Device`), a timer (`At`), or at once (`More`).

mod direct;
mod held;
mod requests;
mod stats;
mod stops;
mod swap;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Asked;
use crate::path::device::{Completed, DeviceError, TxQueue};
use crate::path::dql::{Dql, DqlConfig, DqlError, OBJECT_MAX};
use crate::path::tree::Tree;
use crate::qdisc::Registry;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::trace::{Event, Record, Trace};
use crate::text::error::ConfigError;
use crate::text::value::Words;

pub(crate) use held::Held;
pub use stats::PathStats;
pub use stops::Stops;
pub use swap::Swapped;
pub(crate) use swap::Waiting;

/// Most packets taken from the qdiscs on one promise: bounds the burst that a scheduler cannot revise any
/// more, and the time until the owner looks at anything else.
pub const BULK: u32 = 64;

/// What a full queue means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The sender is in this process and can wait: it gets the frame back and is woken when there is room.
    #[default]
    Origin,
    /// The sender is elsewhere: a full queue drops and counts.
    Forwarder,
}

/// What became of a submitted packet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted<F> {
    /// It is with the device; the doorbell rings at the next `drain`.
    Sent,
    /// It waits in a qdisc; call `drain`.
    Queued,
    /// It was dropped; the device's `discard` got the frame.
    Dropped(DropReason),
    /// Origin only: there is no room. The frame comes back, and `take_wake` will say when to try again.
    Full(F),
    /// A qdisc on its path takes it only in pieces of at most this many bytes: cut it and submit the pieces.
    Cut(F, u32),
}

/// Who must call `drain` next, and when.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nobody: nothing waits.
    Idle,
    /// Whoever sees the device finish something (or thaws it, or starts a queue): packets wait and the device does not take
    /// them.
    Device,
    /// A timer: nothing may leave before this instant.
    At(Instant, WakeReason),
    /// The caller, again: the budget is spent and packets wait.
    More,
}

/// How to make a transmit path.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// The device it sits on.
    pub env: Env,
    /// Packets that can wait at once, in all qdiscs together.
    pub pool: usize,
    /// What a full queue means.
    pub role: Role,
    /// The byte queue limit; `None` leaves only the device's ring to bound what is in flight.
    pub bql: Option<DqlConfig>,
    /// Event records to keep; 0 keeps none.
    pub trace: usize,
}

impl Default for PathConfig {
    /// Ethernet, 16 384 packets, origin, byte limit on, no trace.
    fn default() -> Self {
        Self {
            env: Env::default(),
            pool: 16_384,
            role: Role::Origin,
            bql: Some(DqlConfig::default()),
            trace: 0,
        }
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
    dql: Option<Dql>,
    role: Role,
    stops: Stops,
    /// Pushed since the last doorbell.
    uncommitted: bool,
    /// A sender was told `Full` and not yet woken.
    waiting: bool,
    device_error: Option<Box<DeviceError>>,
}

impl<F> TxPath<F> {
    /// A path with the default root qdisc, pfifo_fast. All memory for packets is taken here.
    pub fn new(config: PathConfig) -> Result<Self, DqlError> {
        let mut cx = Cx::new(config.pool, config.env.seed);
        let env = Env { packets: u32::try_from(config.pool).unwrap_or(u32::MAX), ..config.env };
        cx.trace = Trace::new(config.trace);
        let mut frames = Vec::new();
        frames.resize_with(cx.pool.capacity(), || None);
        Ok(Self {
            held: Held {
                tree: Tree::new(env),
                cx,
                frames,
                settled: true,
                freed: false,
                stats: PathStats::default(),
            },
            dql: config.bql.map(|c| Dql::new(&c, Instant::ZERO)).transpose()?,
            role: config.role,
            stops: Stops::NONE,
            uncommitted: false,
            waiting: false,
            device_error: None,
        })
    }

    /// With the kinds of a registry for its qdiscs, before any is added.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Registry) -> Self {
        self.held.tree = self.held.tree.with_kinds(kinds);
        self
    }
    /// With another root qdisc, before anything is submitted.
    pub fn with_qdisc(mut self, kind: &str, options: &[&str]) -> Result<Self, ConfigError> {
        self.held.tree.edit(&mut self.held.cx).replace(Handle::ROOT, None, kind, &mut Words::new(options))?;
        self.held.cx.pool.keep_details(self.held.tree.wants_detail());
        Ok(self)
    }

    /// Takes a packet: straight to the device if nothing waits and nothing stops it, else into the qdiscs.
    #[inline(always)]
    pub fn submit<D>(&mut self, now: Instant, frame: F, m: Meta, dev: &mut D) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        self.submit_with(now, frame, m, None, dev)
    }

    /// As `submit`, with what is known of the packet beside its metadata: where `wants_detail` says so.
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
        // Copies are made where a reference would have to leave this function: then the metadata itself stays in
        // registers until it is written to its slot. Read back right after it was written in parts, it would stall.
        self.held.cx.now = now;
        if self.may_go_direct(m.wire_len) && dev.reserve(1) == 1 {
            self.held.tree.root_mut().charge_direct(&m);
            self.held.stats.direct += 1;
            self.held.record(Event::Direct, &m);
            let sent = m;
            self.push(frame, &sent, dev);
            return Admitted::Sent;
        }
        self.enqueue(frame, m, detail, dev)
    }

    /// True while a qdisc wants to know more of a packet than its metadata: see `submit_with`. It changes only when the
    /// tree does.
    #[inline]
    pub const fn wants_detail(&self) -> bool {
        self.held.cx.pool.keeps_details()
    }

    /// Rule DD: every qdisc on the path transparent and empty, no stop, not switched off, the byte limit not reached. That the
    /// ring has room is asked last, by the caller, because it is a promise.
    #[inline]
    fn may_go_direct(&self, wire_len: u32) -> bool {
        self.stops.may_go_direct()
            && self.held.settled
            && wire_len <= OBJECT_MAX
            && self.dql.as_ref().is_none_or(|d| d.available() >= 0)
            && self.held.tree.root().qdisc().transparent(wire_len)
    }

    #[inline(always)]
    fn enqueue<D>(&mut self, frame: F, m: Meta, detail: Option<&Detail>, dev: &mut D) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        let origin = self.role == Role::Origin;
        if origin || m.segs > 1 {
            let asked = m;
            match self.held.tree.root().admit(&Asked { meta: &asked, route: detail.map(|d| &d.route) }) {
                // With nothing queued no departure would ever wake the sender: then it is a drop.
                Verdict::Full if origin && !self.held.tree.root().is_empty() => return self.full(frame),
                Verdict::Cut(max) => {
                    self.held.stats.cut += 1;
                    return Admitted::Cut(frame, max);
                }
                Verdict::Accept | Verdict::Full | Verdict::TooLarge(_) => {}
            }
        }
        if m.wire_len > OBJECT_MAX {
            // More than the byte limit can count: no device takes such a unit.
            let refused = m;
            return self.held.refuse(frame, &refused, DropReason::Oversize, dev);
        }
        let Some(p) = self.held.cx.pool.alloc(m, self.held.cx.now) else {
            if origin {
                return self.full(frame);
            }
            let refused = m;
            return self.held.refuse(frame, &refused, DropReason::PoolFull, dev);
        };
        if self.held.cx.pool.keeps_details() {
            self.held.note_detail(&p, detail);
        }
        let index = p.index();
        self.held.frames[index] = Some(frame);
        self.held.stats.queued += 1;
        self.held.record(Event::Enqueued, &m);
        self.held.settled = false;
        self.held.tree.root_mut().enqueue(p, &mut self.held.cx);
        match self.held.cx.owing() {
            false => Admitted::Queued,
            true => self.see_to_newcomer(index, dev),
        }
    }

    /// Something was dropped or asked for when a packet came.
    #[inline(never)]
    fn see_to_newcomer<D>(&mut self, index: usize, dev: &mut D) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        self.held.cx.pay_up();
        self.held.carry_out(dev);
        match self.held.settle(Some(index), dev) {
            Some(reason) => Admitted::Dropped(reason),
            None => Admitted::Queued,
        }
    }

    fn full(&mut self, frame: F) -> Admitted<F> {
        self.waiting = true;
        self.held.freed = false;
        self.held.stats.full += 1;
        Admitted::Full(frame)
    }

    /// Moves up to `budget` packets from the qdiscs to the device, then rings the doorbell once if anything was
    /// pushed since the last time.
    #[inline]
    pub fn drain<D>(&mut self, now: Instant, budget: u32, dev: &mut D) -> Wake
    where
        D: TxQueue<Frame = F>,
    {
        self.held.cx.now = now;
        self.held.cx.forget_earlier();
        let wake = self.run(budget, dev);
        self.doorbell(dev);
        wake
    }

    fn run<D>(&mut self, budget: u32, dev: &mut D) -> Wake
    where
        D: TxQueue<Frame = F>,
    {
        let mut left = budget;
        while !self.held.tree.root().is_empty() {
            if left == 0 {
                return Wake::More;
            }
            if self.stops.has(Stops::FROZEN) {
                return Wake::Device;
            }
            let promised = dev.reserve(left.min(BULK));
            if promised == 0 {
                self.stops.set(Stops::DRV);
                self.held.stats.stop_drv += 1;
                return Wake::Device;
            }
            self.stops.clear(Stops::DRV);
            left -= promised;
            if let Some(wake) = self.send_up_to(promised, dev) {
                return wake;
            }
        }
        if !self.held.settled {
            // The root is told that it is empty, so that an AQM forgets what it knew of the standing queue.
            self.held.settled = self.held.tree.root().is_settled();
            match self.held.tree.root_mut().dequeue(&mut self.held.cx) {
                Next::Empty | Next::At(..) => {}
                // A root without packets has none to give; were one to appear, it is still counted.
                Next::Packet(p) => self.held.cx.drop(p, DropReason::Purged),
            }
            self.held.settle(None, dev);
        }
        Wake::Idle
    }

    /// Sends up to `n` packets into promised slots; `Some` if something else than the count ended it.
    #[inline]
    fn send_up_to<D>(&mut self, n: u32, dev: &mut D) -> Option<Wake>
    where
        D: TxQueue<Frame = F>,
    {
        for _ in 0..n {
            if self.dql.as_ref().is_some_and(|d| d.available() < 0) {
                self.stops.set(Stops::STACK);
                self.held.stats.stop_stack += 1;
                return Some(Wake::Device);
            }
            let next = self.held.tree.root_mut().dequeue(&mut self.held.cx);
            match next {
                Next::Packet(p) if !self.held.cx.owing() => self.send(p, dev),
                other => {
                    let wake = self.see_to(other, dev);
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

    /// Answers to the root that are no packet, or come with work for the owner of the frames; `Some` if nothing leaves now.
    #[inline(never)]
    fn see_to<D>(&mut self, next: Next, dev: &mut D) -> Option<Wake>
    where
        D: TxQueue<Frame = F>,
    {
        self.held.cx.pay_up();
        self.held.carry_out(dev);
        let wake = match next {
            Next::Packet(p) => {
                self.send(p, dev);
                None
            }
            // Empty although something was queued: what was queued has just been dropped.
            Next::Empty => {
                self.held.settled = self.held.tree.root().is_settled();
                Some(Wake::Idle)
            }
            Next::At(_, WakeReason::Queue) => Some(Wake::Device),
            Next::At(t, why) => Some(Wake::At(t, why)),
        };
        self.held.settle(None, dev);
        wake
    }

    #[inline(always)]
    fn send<D>(&mut self, p: Pkt, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        self.held.freed = true;
        let frame = self.held.frames[p.index()].take();
        // The metadata is read where it lies: a copy of the cache line would cost as much as the rest.
        let m = self.held.cx.pool.release(p);
        if let Some(frame) = frame {
            post(self.dql.as_mut(), &mut self.held.stats, m, self.held.cx.now);
            self.uncommitted = true;
            if self.held.cx.trace.is_on() {
                let (at, event, hash, wire_len) =
                    (self.held.cx.now, Event::Sent(m.marked), m.hash, m.wire_len);
                self.held.cx.trace.record(Record { at, event, hash, wire_len });
            }
            dev.push(frame, m);
        }
    }

    #[inline]
    fn push<D>(&mut self, frame: F, m: &Meta, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        post(self.dql.as_mut(), &mut self.held.stats, m, self.held.cx.now);
        self.uncommitted = true;
        dev.push(frame, m);
    }

    /// Takes what the device has finished: tells the byte limit, and gives frames back through `done`. Gives the
    /// number of packets finished; then call `drain`.
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
        self.stops.clear(Stops::DRV);
        if let Some(dql) = &mut self.dql {
            if dql.completed(dql.unit().cost(bytes, packets), now).is_err() {
                self.held.stats.dql_errors += 1;
                dql.reset(now);
            }
            if dql.available() >= 0 {
                self.stops.clear(Stops::STACK);
            }
        }
        packets
    }

    /// True once after a `Full`, when something has left the qdiscs since: senders that wait may try again.
    #[inline]
    pub const fn take_wake(&mut self) -> bool {
        let wake = self.waiting && self.held.freed;
        if wake {
            self.waiting = false;
            self.held.stats.tx_wake += 1;
        }
        wake
    }

    /// Changes the tree, between bursts: `f` gets the tree and what its operations need. Frames of packets that
    /// it drops go to the device's `discard`. Call `drain` afterwards.
    pub fn configure<D, R>(&mut self, now: Instant, dev: &mut D, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R
    where
        D: TxQueue<Frame = F>,
    {
        self.held.configure(now, dev, f)
    }

    /// Changes the tree, between bursts, and keeps the packets that wait. `f` gets the tree and what its operations
    /// need; what it removes is set aside and queued again, with everything else if anything was set aside or the
    /// tree was disturbed (`Tree::disturb`): in order of arrival, each with the time at which it was first queued,
    /// classified anew. Packets of one flow stay in order, unless a new qdisc chooses a queue by details (`wants_detail`)
    /// that were not kept when they came.
    ///
    /// What the new tree has no room for it drops, with its own reason. A super-packet that it takes only in pieces
    /// is given to `cut` with its metadata and the largest size of a piece, and a function that takes each piece in
    /// turn. Qdiscs that stay keep their counters, what their laws remember, and their tokens. The byte limit and
    /// the device are not touched. Call `drain` afterwards.
    ///
    /// `f` is to be one that cannot fail halfway: what it has removed by then is queued again in what is left.
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
        let r = self.held.edit(f);
        (r, self.held.end_swap(dropped, dev, cut))
    }

    /// Stops transmission until `thaw`: packets are queued, none leaves.
    pub const fn freeze(&mut self) {
        self.stops.set(Stops::FROZEN);
    }
    /// Ends `freeze`; call `drain` afterwards.
    pub const fn thaw(&mut self) {
        self.stops.clear(Stops::FROZEN);
    }
    /// One of several transmit queues that this path feeds may not transmit, until `start_queue`. Kinds that know for which
    /// queue a packet is (`Meta::queue`) keep what is for it; to the others it means nothing: a device that takes
    /// nothing at all promises no slot. From `QueueSet::QUEUES_MAX` on there is no such queue.
    pub fn stop_queue(&mut self, queue: u16) {
        self.held.cx.stopped.insert(queue);
    }
    /// Ends `stop_queue`; call `drain` afterwards.
    pub fn start_queue(&mut self, queue: u16) {
        self.held.cx.stopped.remove(queue);
    }
    /// The device was reset and has forgotten everything pushed: what was in flight will not be reported.
    pub fn device_reset(&mut self, now: Instant) {
        if let Some(dql) = &mut self.dql {
            dql.reset(now);
        }
        self.stops.clear(Stops::DRV);
        self.stops.clear(Stops::STACK);
    }

    /// The packets that wait on it.
    pub(crate) const fn held_mut(&mut self) -> &mut Held<F> {
        &mut self.held
    }
    /// The qdiscs.
    pub const fn tree(&self) -> &Tree {
        &self.held.tree
    }
    /// Shows every packet that waits in the qdiscs: see `Tree::queued`.
    pub fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        self.held.tree.queued(&self.held.cx.pool, f);
    }
    /// Packets and bytes waiting in the qdiscs: wire bytes, or what the root's size table charges.
    pub const fn backlog(&self) -> Tally {
        self.held.tree.root().backlog()
    }
    /// The byte queue limit, if there is one.
    pub const fn dql(&self) -> Option<&Dql> {
        self.dql.as_ref()
    }
    /// The byte queue limit, to set its knobs.
    pub const fn dql_mut(&mut self) -> Option<&mut Dql> {
        self.dql.as_mut()
    }
    /// What stops it now.
    pub const fn stops(&self) -> Stops {
        self.stops
    }
    /// Its counters.
    pub const fn stats(&self) -> &PathStats {
        &self.held.stats
    }
    /// Drops and marks by reason, and the trace.
    pub const fn cx(&self) -> &Cx {
        &self.held.cx
    }
    /// The last error of a doorbell, taken.
    pub fn take_device_error(&mut self) -> Option<DeviceError> {
        self.device_error.take().map(|e| *e)
    }
}

/// Books a packet that goes to the device.
#[inline]
fn post(dql: Option<&mut Dql>, stats: &mut PathStats, m: &Meta, now: Instant) {
    // On both sides of that branch, so that nobody makes one addition of vectors of the two.
    stats.tx_packets += 1;
    if let Some(dql) = dql {
        // Units above the largest object were refused at admission.
        let _ = dql.queued(dql.unit().cost(m.wire_len, 1), now);
    }
    stats.tx_bytes += u64::from(m.wire_len);
}
