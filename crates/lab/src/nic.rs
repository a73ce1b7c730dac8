//! A host's transmit side: a `TxPath` over each ring of a `Wire`, both txweir's own, driven by virtual time. Of several rings a
//! packet takes the one that its flow hash says; each has qdiscs and a byte limit of its own.

mod device;
mod filtering;
mod policy;
mod probe;

use std::collections::VecDeque;

use txweir_core::model::wire::{Wire, WireConfig};
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::path::select::{Selector, Sender};
use txweir_core::path::txpath::{BULK, PathConfig, PathStats};
use txweir_core::sched::cx::Cx;
use txweir_core::{
    Admitted, Detail, DropReason, Instant, MarkReason, Meta, Nanos, Rate, Tally, Tree, TxPath, Wake,
};

use crate::engine::{Alarm, Engine};
use crate::event::What;
use crate::frame::Frame;
use crate::link::{Link, LinkConfig, LinkStats};
use crate::pcap::Tap;
use crate::shown::addresses;
use device::Device;
use filtering::Sieve;

pub(crate) use policy::can_do;
pub use probe::{NodeProbe, Probe, Stage};

/// A quantity that changes at known times: its time-weighted mean, and its extremes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauge {
    value: u64,
    since: Instant,
    from: Instant,
    area: u128,
    max: u64,
}

impl Gauge {
    /// It has this value from `now` on.
    #[inline]
    pub fn set(&mut self, now: Instant, value: u64) {
        if value == self.value {
            return;
        }
        self.area += u128::from(self.value) * u128::from(now.saturating_since(self.since).0);
        self.since = now;
        self.value = value;
        self.max = self.max.max(value);
    }
    /// Forgets everything before `now`.
    pub fn restart(&mut self, now: Instant) {
        *self = Self { value: self.value, since: now, from: now, area: 0, max: self.value };
    }
    /// The integral of the value over time since the start or the last restart, in units times nanoseconds.
    pub fn area(&self, now: Instant) -> u128 {
        self.area + u128::from(self.value) * u128::from(now.saturating_since(self.since).0)
    }
    /// Mean until `now`.
    pub fn mean(&self, now: Instant) -> u64 {
        match now.saturating_since(self.from).0 {
            0 => self.value,
            t => (self.area(now) / u128::from(t)) as u64,
        }
    }
    /// Largest value.
    pub const fn max(&self) -> u64 {
        self.max
    }
    /// Present value.
    pub const fn value(&self) -> u64 {
        self.value
    }
}

/// What a NIC has done since the start, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounts {
    /// Packets that its host offered and it took (a TSO unit is one), and their bytes on the wire. A packet that a
    /// qdisc dropped was taken.
    pub taken: Tally,
    /// Packets that went to the device without waiting.
    pub direct: u64,
    /// Packets that entered the root qdisc.
    pub queued: u64,
    /// Packets handed to the device, and their bytes on the wire.
    pub tx: Tally,
    /// Packets that have left the wire, and their bytes.
    pub departed: Tally,
    /// Time that the line was busy with them, preamble and gap included.
    pub busy: Nanos,
    /// Packets dropped, for any reason, and their bytes on the wire.
    pub dropped: Tally,
    /// Packets dropped, by [`DropReason`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets marked, by [`MarkReason`].
    pub marks: [u64; MarkReason::COUNT],
    /// Times that the ring was full, and that the byte limit was reached, while packets waited.
    pub stops: [u64; 2],
    /// Times that a sender got its packet back because there was no room.
    pub full: u64,
    /// Completion rounds.
    pub rounds: u64,
    /// Packets that an action has taken away, on their way out or in, and their bytes.
    pub stolen: Tally,
    /// Packets that had come in for it and that the filters of its ingress hook dropped, and their bytes.
    pub turned_away: Tally,
    /// What the link did.
    pub link: LinkStats,
}

impl NicCounts {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let of = |f: fn(&Self) -> u64| f(self) - f(earlier);
        Self {
            taken: self.taken.since(earlier.taken),
            direct: of(|c| c.direct),
            queued: of(|c| c.queued),
            tx: self.tx.since(earlier.tx),
            departed: self.departed.since(earlier.departed),
            busy: self.busy.saturating_sub(earlier.busy),
            dropped: self.dropped.since(earlier.dropped),
            drops: std::array::from_fn(|i| self.drops[i] - earlier.drops[i]),
            marks: std::array::from_fn(|i| self.marks[i] - earlier.marks[i]),
            stops: std::array::from_fn(|i| self.stops[i] - earlier.stops[i]),
            full: of(|c| c.full),
            rounds: of(|c| c.rounds),
            stolen: self.stolen.since(earlier.stolen),
            turned_away: self.turned_away.since(earlier.turned_away),
            link: LinkStats {
                carried: self.link.carried.since(earlier.link.carried),
                lost: self.link.lost.since(earlier.link.lost),
                late: of(|c| c.link.late),
            },
        }
    }
}

/// How to make a NIC.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The transmit path of each ring.
    pub path: PathConfig,
    /// The device.
    pub wire: WireConfig,
    /// What the device sends into.
    pub link: LinkConfig,
    /// Seed of the link's draws.
    pub seed: u64,
}

/// A transmit side in action.
#[derive(Debug)]
pub struct Nic {
    /// One for each ring of the wire.
    paths: Vec<TxPath<Frame>>,
    selector: Selector,
    device: Device,
    link: Link<What>,
    actor: u32,
    wire_alarm: Alarm,
    wake_alarm: Alarm,
    /// Of each path, connection ends that were given a frame back, oldest first.
    waiting: Vec<VecDeque<u32>>,
    /// The path that gave the last frame back.
    full: usize,
    /// Why the frame that was handed over last was dropped at once.
    dropped_newcomer: Option<DropReason>,
    /// Segments that the unit at hand was cut into, if its sender counts it.
    cut_below: u32,
    /// Bytes that the device holds.
    ring: Gauge,
    /// Bytes that the qdiscs hold.
    backlog: Gauge,
    taken: Tally,
    departed: Tally,
    /// Dropped by the filters of its egress hook.
    filtered: Tally,
    stolen: Tally,
    turned_away: Tally,
    busy: Nanos,
    /// Its filters and actions, if it has any.
    sieve: Option<Box<Sieve>>,
    /// Of the hosts that it is at and that it sends to.
    addresses: [u8; 12],
    /// It has an fq.
    paces: bool,
    /// The counts when measuring began.
    before: NicCounts,
}

impl Nic {
    /// A NIC that is `actor` to the engine. Errors are those of its parts, in words.
    pub fn new(c: NicConfig, actor: u32) -> Result<Self, String> {
        let queues = c.wire.rings;
        let device = Device::new(Wire::new(c.wire).map_err(|e| e.to_string())?);
        let path = |_| TxPath::new(c.path.clone()).map_err(|e| e.to_string());
        Ok(Self {
            paths: (0..queues).map(path).collect::<Result<_, _>>()?,
            selector: Selector::new(queues),
            device,
            link: Link::new(c.link, actor, What::Arrival, What::Late, c.seed),
            actor,
            wire_alarm: Alarm::default(),
            wake_alarm: Alarm::default(),
            waiting: (0..queues).map(|_| VecDeque::new()).collect(),
            full: 0,
            dropped_newcomer: None,
            cut_below: 0,
            ring: Gauge::default(),
            backlog: Gauge::default(),
            taken: Tally::default(),
            departed: Tally::default(),
            filtered: Tally::default(),
            stolen: Tally::default(),
            turned_away: Tally::default(),
            busy: Nanos::ZERO,
            sieve: None,
            addresses: addresses(0, 1),
            paces: false,
            before: NicCounts::default(),
        })
    }

    /// It is at the host of this number, and sends to the other.
    pub fn set_hosts(&mut self, at: u32, to: u32) {
        self.addresses = addresses(at, to);
    }
    /// The transmit path of the first ring.
    pub fn path(&self) -> &TxPath<Frame> {
        &self.paths[0]
    }
    /// The transmit paths, one for each ring.
    pub fn paths(&self) -> &[TxPath<Frame>] {
        &self.paths
    }
    /// What waits in the qdiscs of all rings.
    pub fn waits(&self) -> Tally {
        self.sum(|p| p.backlog())
    }
    fn sum(&self, f: impl Fn(&TxPath<Frame>) -> Tally) -> Tally {
        self.paths.iter().map(f).fold(Tally::default(), Tally::plus)
    }
    /// The device.
    pub const fn wire(&self) -> &Wire<Frame> {
        &self.device.wire
    }
    /// The link.
    pub const fn link(&self) -> &Link<What> {
        &self.link
    }
    /// Bytes held by the device, and by the qdiscs, over time.
    pub const fn gauges(&self) -> [&Gauge; 2] {
        [&self.ring, &self.backlog]
    }
    /// What it has done since the start.
    pub fn counts(&self) -> NicCounts {
        let path = self.paths.iter().map(TxPath::stats).fold(PathStats::default(), |sum, s| sum.plus(s));
        let all = |f: &dyn Fn(&Cx) -> u64| self.paths.iter().map(|p| f(p.cx())).sum();
        NicCounts {
            taken: self.taken,
            direct: path.direct,
            queued: path.queued,
            tx: Tally { packets: path.tx_packets, bytes: path.tx_bytes },
            departed: self.departed,
            busy: self.busy,
            dropped: self.filtered.plus(self.sum(|p| p.cx().dropped())),
            drops: std::array::from_fn(|i| {
                let reason = DropReason::ALL[i];
                all(&|cx| cx.drops(reason)) + self.filtered_by_hook(reason)
            }),
            marks: std::array::from_fn(|i| all(&|cx| cx.marks(MarkReason::ALL[i]))),
            stops: [path.stop_drv, path.stop_stack],
            full: path.full,
            rounds: self.device.wire.rounds(),
            stolen: self.stolen,
            turned_away: self.turned_away,
            link: self.link.stats(),
        }
    }
    /// What it has done since measuring began.
    pub fn measured(&self) -> NicCounts {
        self.counts().since(&self.before)
    }
    /// Records every packet that leaves the wire from now on.
    pub fn set_tap(&mut self, tap: Tap) {
        self.link.set_tap(tap);
    }
    /// Starts measuring.
    pub fn restart(&mut self, now: Instant) {
        self.before = self.counts();
        self.ring.restart(now);
        self.backlog.restart(now);
        if let Some(probe) = &mut self.device.probe {
            probe.restart(now, self.paths[0].tree());
        }
    }
    /// Puts a probe in, before the run and after the last change of the tree. It changes nothing of what it sees, which is the
    /// first ring: there is to be one only.
    pub fn watch(&mut self, now: Instant) {
        self.device.probe = Some(Box::new(Probe::new(self.paths[0].tree(), now)));
    }
    /// Brings what the probe knows of the qdiscs to the present.
    pub fn look(&mut self, now: Instant) {
        if let Some(probe) = &mut self.device.probe {
            probe.ask(now, self.paths[0].tree());
        }
    }
    /// The probe, if there is one.
    pub fn probe(&self) -> Option<&Probe> {
        self.device.probe.as_deref()
    }
    /// Changes the tree of qdiscs of the first ring.
    pub fn configure<R>(&mut self, now: Instant, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        self.device.ring = 0;
        self.paths[0].configure(now, &mut self.device, f)
    }
    /// Changes the trees of qdiscs of all rings alike.
    fn each_tree(&mut self, now: Instant, f: &mut dyn FnMut(&mut Tree, &mut Cx)) {
        for (ring, path) in (0..).zip(&mut self.paths) {
            self.device.ring = ring;
            path.configure(now, &mut self.device, &mut *f);
        }
    }
    /// What has left it, or was dropped, and lay below a socket of its host: the end that sent it, and how much it counts.
    pub fn take_released(&mut self) -> Option<(u32, u32)> {
        self.device.released.pop()
    }
    /// A qdisc of it keeps packets until the times that senders give them.
    pub fn paces(&self) -> bool {
        self.paces
    }
    /// Segments that the frame that was handed over last was cut into and that still lie below its socket; 0 if it is whole.
    pub const fn take_cut(&mut self) -> u32 {
        std::mem::replace(&mut self.cut_below, 0)
    }
    /// Why the frame that was handed over last was dropped, if a queue did so at once; of a frame that was cut, if no part of
    /// it was taken.
    pub const fn take_dropped(&mut self) -> Option<DropReason> {
        self.dropped_newcomer.take()
    }

    /// Changes the line rate.
    pub fn set_rate(&mut self, rate: Rate) {
        self.device.wire.set_rate(rate);
    }

    /// A host hands a frame over; it comes back if there is no room. To be followed by `kick`.
    pub fn submit(&mut self, engine: &mut Engine<What>, frame: Frame) -> Result<(), Frame> {
        self.dropped_newcomer = None;
        self.cut_below = 0;
        if self.sieve.is_some() {
            return self.submit_filtered(engine, frame);
        }
        let m = meta_of(&frame);
        let wire_len = m.wire_len;
        let queue = usize::from(self.selector.select(&m, &Sender::default(), None, engine.now()));
        match self.admit(engine.now(), queue, frame, m, |detail| detail) {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {
                self.taken.add(wire_len);
                Ok(())
            }
            Admitted::Full(frame) => Err(frame),
            Admitted::Cut(frame, _) => self.submit_segments(engine.now(), queue, &frame),
        }
        .inspect_err(|_| self.full = queue)
    }

    #[inline]
    fn admit(
        &mut self,
        now: Instant,
        queue: usize,
        frame: Frame,
        mut m: Meta,
        detail: impl FnOnce(Detail) -> Detail,
    ) -> Admitted<Frame> {
        self.device.begin(now);
        // The path notes it of packets that it queues; a probe reads it of those too that go to the device directly.
        m.enqueued = now;
        // A wire has at most as many rings as there are numbers for them.
        self.device.ring = queue as u16;
        let path = &mut self.paths[queue];
        let known = path.wants_detail().then(|| detail(detail_of(&frame, path.tree().env().seed)));
        let admitted = path.submit_with(now, frame, m, known.as_ref(), &mut self.device);
        if let Admitted::Dropped(reason) = admitted {
            self.dropped_newcomer = Some(reason);
        }
        admitted
    }

    /// A unit that a qdisc wants in pieces goes as segments; the rest of it comes back if there is no room.
    fn submit_segments(&mut self, now: Instant, queue: usize, unit: &Frame) -> Result<(), Frame> {
        let mut some = false;
        for i in 0..unit.segs() {
            let mut segment = unit.segment(i);
            self.cut_below += segment.cut_below();
            let m = meta_of(&segment);
            match self.admit(now, queue, segment, m, |detail| detail) {
                Admitted::Full(_) | Admitted::Cut(..) => return Err(unit.part(i, unit.segs() - i)),
                Admitted::Sent | Admitted::Queued => some = true,
                Admitted::Dropped(_) => {}
            }
            self.taken.add(m.wire_len);
        }
        if some {
            self.dropped_newcomer = None;
        }
        Ok(())
    }

    /// Moves everything that can move at this instant, and sees to the next one.
    pub fn kick(&mut self, engine: &mut Engine<What>) {
        let now = engine.now();
        let reported = self.advance(engine);
        let mut wake: Option<Instant> = None;
        for queue in 0..self.paths.len() {
            self.device.ring = queue as u16;
            if reported {
                self.paths[queue].reap(now, &mut self.device, |_| {});
            }
            // While the ring is full or the byte limit reached, only a completion lets anything go.
            if !self.paths[queue].stops().stopped()
                && let Some(at) = self.drain(queue, now)
            {
                wake = Some(wake.map_or(at, |t| t.min(at)));
            }
        }
        if wake.is_some() {
            self.wake_alarm.set(engine, wake, self.actor, What::Wake);
        }
        self.wire_alarm.set(engine, self.device.wire.next_event(), self.actor, What::Wire);
        self.ring.set(now, self.device.wire.held().bytes);
        self.backlog.set(now, self.waits().bytes);
        if let Some(probe) = &mut self.device.probe {
            probe.look(now, self.paths[0].tree());
        }
    }

    /// Moves what can move of a queue; gives the time before which nothing more may.
    fn drain(&mut self, queue: usize, now: Instant) -> Option<Instant> {
        self.device.begin(now);
        loop {
            match self.paths[queue].drain(now, BULK, &mut self.device) {
                Wake::More => {}
                Wake::At(at, _) => return Some(at),
                Wake::Idle | Wake::Device => return None,
            }
        }
    }

    /// Brings the device to the present; true if it has completions.
    pub fn advance(&mut self, engine: &mut Engine<What>) -> bool {
        let Self { link, device, departed, busy, .. } = self;
        let overhead = device.wire.config().overhead;
        device.advance(engine.now(), |d| {
            departed.add(d.meta.wire_len);
            *busy = *busy + d.finish.saturating_since(d.start);
            link.push(engine, d.frame, (d.start, d.finish), overhead);
        })
    }

    /// An event of the device or of a wake-up; false if it was overtaken.
    pub fn fired(&mut self, at: Instant, what: What) -> bool {
        match what {
            What::Wire => self.wire_alarm.fired(at),
            _ => self.wake_alarm.fired(at),
        }
    }

    /// The packet whose arrival event has come.
    pub fn arrive(&mut self, engine: &mut Engine<What>) -> Option<Frame> {
        self.link.arrive(engine)
    }
    /// The packet whose late event has come.
    pub fn arrive_late(&mut self, slot: u32) -> Option<Frame> {
        self.link.arrive_late(slot)
    }

    /// A packet that has arrived is of no use to whom it is for: as good as lost by the link.
    pub fn spoilt(&mut self, frame: &Frame) {
        self.link.count_lost(frame.wire_len());
    }

    /// This end waits for room where a frame was given back last; to be said once until it is given by `next_waiting`.
    pub fn wait(&mut self, end: u32) {
        self.waiting[self.full].push_back(end);
    }
    /// A queue whose ends may try again.
    pub fn take_wake(&mut self) -> Option<usize> {
        let Self { paths, waiting, .. } = self;
        (0..paths.len()).find(|q| paths[*q].take_wake() && !waiting[*q].is_empty())
    }
    /// The end that has waited longest for a queue.
    pub fn next_waiting(&mut self, queue: usize) -> Option<u32> {
        self.waiting[queue].pop_front()
    }
}

/// What those qdiscs see of a frame that want more. The Ethernet header is counted and not stored.
fn detail_of(frame: &Frame, seed: u64) -> Detail {
    let headers = Headers::parse_ip(frame.header());
    let detail = Detail::of(&headers, frame.header(), &FlowHasher::new(seed));
    Detail { l3_offset: Some(filtering::network_at(frame)), ..detail }
}

/// What a qdisc sees of a frame.
fn meta_of(frame: &Frame) -> Meta {
    // Headers are at most 86 bytes.
    let header_len = u16::try_from(frame.header_len()).unwrap_or(u16::MAX);
    let mut m = Meta::new(frame.len()).hash(frame.hash).priority(frame.priority).ecn(frame.ecn());
    (m.protocol, m.ds, m.mark) = (frame.protocol, frame.ds, frame.mark);
    m.tcp_control = frame.payload_len() == 0 && Headers::parse_ip(frame.header()).is_tcp_control();
    if frame.ahead > 0 {
        m.txtime = frame.sent + Nanos(u64::from(frame.ahead));
    }
    if frame.gso_size() == 0 { m } else { m.gso(header_len, frame.gso_size()) }
}
