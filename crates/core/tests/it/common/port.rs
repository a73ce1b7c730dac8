//! A swarm over a port of several queues: roots and grafts of all kinds, queues that come and go,
//! packets by every choice of a queue, rounds of the device; and after every call the laws of a
//! port beside those of its paths.

use txweir_core::base::rng::Rng;
use txweir_core::base::tally::Tally;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::path::dql::DqlConfig;
use txweir_core::path::port::{Choice, Flight, Port, Queues, Reaped};
use txweir_core::path::txpath::{PathStats, Transmitter};
use txweir_core::qdisc::KINDS;
use txweir_core::sched::node::Books;
use txweir_core::sched::spec::Spec;
use txweir_core::{Admitted, DropReason, Env, Handle, Instant, Meta, Nanos, PathConfig, Role, Wake};
use txweir_core::{
    path::select::{Cached, Sender, Xps},
    sched::traffic::TrafficClasses,
};

use crate::common::options::{chance, legal, log_uniform, pick, with_words};
use crate::common::{Law, Violation};

/// Most queues of the device.
const QUEUES: u16 = 8;
/// Flows of each sort.
const FLOWS: u64 = 4;

/// A fault planted between the swarm and the port, which the laws must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// No fault.
    Nothing,
    /// The port's counters leave out packets that were sent directly.
    DirectUncounted,
    /// The port's backlog leaves out the last queue.
    QueueForgotten,
    /// Every hundredth packet is lost on its way to the device.
    LosesOnTheWay,
    /// At random times the owner reaps a queue of the device without the port.
    ReapsBehindItsBack,
    /// The paths do not wait for the device after a change of the queues.
    NoFence,
    /// A sender's packets alternate between two queues.
    TwoQueues,
    /// Every hundredth packet is given to the device twice.
    SendsTwice,
    /// A path is stopped, and never started again.
    Freezes,
}

/// The basis of the choice of a flow's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Hash,
    Memory,
    Asked,
    /// By the sender's worker (XPS).
    Worker,
    /// By the queue by which it came in.
    Arrival,
}

const SORTS: [By; 5] = [By::Hash, By::Memory, By::Asked, By::Worker, By::Arrival];

/// A device whose queues may have a fault.
struct Device {
    queues: Vec<VecDevice<u64>>,
    planted: Planted,
    pushed: u64,
}

struct Lossy<'a> {
    queue: &'a mut VecDevice<u64>,
    planted: Planted,
    pushed: &'a mut u64,
}

impl Queues for Device {
    type Frame = u64;
    type Queue<'a> = Lossy<'a>;
    fn queue(&mut self, index: u16) -> Option<Lossy<'_>> {
        let Self { queues, planted, pushed } = self;
        let queue = queues.get_mut(usize::from(index))?;
        Some(Lossy { queue, planted: *planted, pushed })
    }
}

impl TxQueue for Lossy<'_> {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        self.queue.reserve(want)
    }
    fn push(&mut self, frame: u64, m: &Meta) {
        *self.pushed += 1;
        let times = match self.planted {
            Planted::LosesOnTheWay if self.pushed.is_multiple_of(100) => 0,
            Planted::SendsTwice if self.pushed.is_multiple_of(100) => 2,
            _ => 1,
        };
        for _ in 0..times {
            self.queue.push(frame, m);
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.queue.commit()
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        self.queue.reap(sink);
    }
    fn discard(&mut self, frame: u64, m: &Meta, reason: DropReason) {
        self.queue.discard(frame, m, reason);
    }
}

/// The place of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Waits,
    Sent(u16),
    Finished,
    Dropped,
}

/// A packet that was submitted: its length and its place.
#[derive(Clone, Copy, Debug)]
struct Packet {
    len: u32,
    at: At,
}

/// A flow and its state.
struct Flow {
    by: By,
    priority: u32,
    hash: u32,
    asked: u16,
    sender: Sender,
    memory: Cached,
    packets: Vec<Packet>,
    /// One more than the number of the last packet that the device was given.
    next: usize,
    /// Packets that leave before this number and after it may change places: their queue was chosen
    /// by data that the port does not keep.
    free: usize,
}

/// Passes on a super-packet in one piece.
fn whole(frame: u64, m: &Meta, _: u32, each: &mut dyn FnMut(u64, Meta)) {
    each(frame, *m);
}

/// The events of a swarm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub sent: u64,
    pub direct: u64,
    pub full: u64,
    pub dropped: u64,
    pub moved: u64,
    pub reshaped: u64,
    pub fenced: u64,
    pub strays: u64,
    pub grafted: u64,
    pub refused: u64,
    pub unsplit: u64,
}

/// The counters before a call.
struct Before {
    books: Books,
    /// The packets that each path has handed over.
    handed: Vec<u64>,
    /// The number of frames that each queue was given.
    given: Vec<usize>,
    dropped: Tally,
}

impl Met {
    /// Adds the counts of another run.
    pub fn add(&mut self, o: &Self) {
        self.sent += o.sent;
        self.direct += o.direct;
        self.full += o.full;
        self.dropped += o.dropped;
        self.moved += o.moved;
        self.reshaped += o.reshaped;
        self.fenced += o.fenced;
        self.strays += o.strays;
        self.grafted += o.grafted;
        self.refused += o.refused;
        self.unsplit += o.unsplit;
    }
}

struct Swarm {
    port: Port<u64>,
    dev: Device,
    planted: Planted,
    rng: Rng,
    now: Instant,
    flows: Vec<Flow>,
    /// The numbers of frames of each queue, given and discarded, that were examined.
    looked: Vec<(usize, usize)>,
    /// The number of frames that each queue takes, and the frames that it has and has not finished.
    slots: u32,
    rings: Vec<Vec<(usize, usize)>>,
    /// The sums of frames given to the device, and of packets that qdiscs have dropped.
    sent: Tally,
    dropped: Tally,
    /// The numbers of packets that were sent without waiting, and that asked for a missing queue.
    direct: u64,
    strays: u64,
    met: Met,
    op: usize,
}

/// Runs this number of random operations.
pub fn swarm(seed: u64, ops: usize, planted: Planted) -> Result<Met, Violation> {
    let mut swarm = Swarm::new(seed, planted);
    for op in 0..ops {
        swarm.op = op;
        swarm.now += Nanos(log_uniform(&mut swarm.rng, 200_000));
        swarm.step()?;
    }
    swarm.met.strays = swarm.strays;
    swarm.op = ops;
    swarm.everything_leaves()?;
    let stats = swarm.port.totals().stats();
    swarm.met.sent = stats.tx_packets;
    swarm.met.direct = stats.direct;
    swarm.met.moved = swarm.port.chooser().stats().moved;
    swarm.met.reshaped = swarm.port.chooser().stats().reshaped;
    Ok(swarm.met)
}

impl Swarm {
    fn new(seed: u64, planted: Planted) -> Self {
        let mut rng = Rng::new(seed);
        let queues = 1 + rng.below(u64::from(QUEUES)) as u16;
        let config = PathConfig {
            env: Env { queues, seed, ..Env::default() },
            role: if chance(&mut rng, 1, 2) { Role::Forwarder } else { Role::Origin },
            bql: chance(&mut rng, 1, 2).then(DqlConfig::default),
            pool: if chance(&mut rng, 1, 4) { 20 } else { 2000 },
            trace: 0,
        };
        let slots = 1 + rng.below(6) as u32;
        let mut port = Port::new(config).unwrap();
        let mut xps = Xps::new(4, 1);
        for worker in 0..4 {
            let list: Vec<u16> = (0..rng.below(3)).map(|_| rng.below(u64::from(QUEUES)) as u16).collect();
            xps.set(worker, 0, &list);
        }
        port.chooser_mut().selector_mut().set_xps(Some(xps));
        let flow = |i: u64| Flow {
            by: SORTS[(i % SORTS.len() as u64) as usize],
            priority: i as u32 & 3,
            hash: (i as u32 + 1).wrapping_mul(0x9e37_79b1),
            asked: (i % 4) as u16 * 2,
            // Workers from the fourth on have no queues of their own.
            sender: match SORTS[(i % SORTS.len() as u64) as usize] {
                By::Worker => Sender { worker: (i % 4) as u32, ..Sender::default() },
                By::Arrival => Sender { worker: 9, came_by: Some(i as u16 & 7), idle: false },
                _ => Sender { worker: 9, ..Sender::default() },
            },
            memory: Cached::default(),
            packets: Vec::new(),
            next: 0,
            free: 0,
        };
        Self {
            port,
            dev: Device {
                queues: (0..QUEUES).map(|_| VecDevice::with_slots(slots)).collect(),
                planted,
                pushed: 0,
            },
            planted,
            flows: (0..FLOWS * SORTS.len() as u64).map(flow).collect(),
            rng,
            now: Instant::ZERO,
            looked: vec![(0, 0); usize::from(QUEUES)],
            slots,
            rings: vec![Vec::new(); usize::from(QUEUES)],
            sent: Tally::default(),
            dropped: Tally::default(),
            direct: 0,
            strays: 0,
            met: Met::default(),
            op: 0,
        }
    }

    fn fail<T>(&self, law: Law, what: String) -> Result<T, Violation> {
        Err(Violation { law, what, op: self.op })
    }

    /// Performs one operation and checks the laws after it.
    fn step(&mut self) -> Result<(), Violation> {
        let (before, layout) = (self.before(), self.layout());
        let what = self.rng.below(40);
        match what {
            0 => {
                let queues = 1 + self.rng.below(u64::from(QUEUES)) as u16;
                let done = self.port.control(self.now, &mut self.dev).set_queues(queues);
                self.met.refused += u64::from(done.is_err());
            }
            1 => self.set_root(),
            2 => self.graft(),
            3..=4 => {
                for queue in 0..self.port.queues() {
                    self.drain(queue);
                }
            }
            5..=16 => {
                let queue = self.rng.below(u64::from(QUEUES)) as u16;
                let n = 1 + self.rng.below(4) as usize;
                self.reap(queue, n)?;
            }
            _ => {
                let flow = self.rng.below(self.flows.len() as u64) as usize;
                let queue = self.send(flow)?;
                if chance(&mut self.rng, 3, 4) {
                    self.drain(queue);
                }
            }
        }
        if self.op.is_multiple_of(4) {
            self.part_and_join();
        }
        self.orders_that_end(&layout);
        if self.planted == Planted::NoFence {
            self.port.transmitters_mut().for_each(Transmitter::thaw);
        }
        self.met.fenced += u64::from(self.port.flight().is_fenced());
        self.met.unsplit += u64::from(!self.port.is_split() && self.port.queues() > 1);
        self.look()?;
        self.check()?;
        match what {
            0..=2 => Ok(()),
            _ => self.check_traffic(&before),
        }
    }

    /// Takes the port apart and joins it: nothing is another then.
    fn part_and_join(&mut self) {
        let stand_in = Port::new(PathConfig { pool: 1, ..PathConfig::for_socket() }).expect("no byte limit");
        let (apart, paths, flight) = std::mem::replace(&mut self.port, stand_in).apart();
        let flight = Flight::of((0..QUEUES).map(|queue| flight.queue(queue)));
        self.port = apart.joined(paths, flight);
    }

    /// Returns the inputs of the choice of a queue beside the flow and the sender.
    fn layout(&self) -> (u16, Option<TrafficClasses>) {
        (self.port.queues(), self.port.chooser().selector().classes().cloned())
    }

    /// Where a choice depends on data that the port does not keep of a waiting packet, packets
    /// after a change may overtake it: for a choice by sender, if other queues or classes are in
    /// use now; and for a requested queue that was missing and now exists.
    fn orders_that_end(&mut self, before: &(u16, Option<TrafficClasses>)) {
        let now = self.layout();
        for flow in &mut self.flows {
            let ends = match flow.by {
                By::Hash | By::Memory => false,
                By::Asked => (before.0..now.0).contains(&flow.asked),
                By::Worker | By::Arrival => *before != now,
            };
            if ends {
                flow.free = flow.packets.len();
            }
        }
    }

    fn send(&mut self, index: usize) -> Result<u16, Violation> {
        let len = 60 + self.rng.below(1440) as u32;
        let flow = &mut self.flows[index];
        let m = Meta::new(len).hash(flow.hash).priority(flow.priority);
        let frame = (index as u64) << 32 | flow.packets.len() as u64;
        let waits = flow.packets.iter().any(|p| matches!(p.at, At::Waits | At::Sent(_)));
        let sender = Sender { idle: !waits, ..flow.sender };
        let choice = match flow.by {
            By::Hash if self.planted == Planted::TwoQueues => {
                Choice::Queue(flow.packets.len() as u16 % 2 % self.port.queues())
            }
            By::Memory => Choice::By(&sender, Some(&mut flow.memory)),
            By::Asked => {
                self.strays += u64::from(flow.asked >= self.port.queues());
                Choice::Queue(flow.asked)
            }
            By::Hash | By::Worker | By::Arrival => Choice::By(&flow.sender, None),
        };
        let (queue, done) = self.port.send(self.now, frame, m, choice, &mut self.dev);
        match done {
            Admitted::Full(back) | Admitted::Cut(back, _) if back == frame => self.met.full += 1,
            Admitted::Full(back) | Admitted::Cut(back, _) => {
                return self.fail(Law::Conservation, format!("{frame:x} was sent, {back:x} came back"));
            }
            // The device is told.
            done => {
                self.direct += u64::from(done == Admitted::Sent);
                self.flows[index].packets.push(Packet { len, at: At::Waits });
            }
        }
        Ok(queue)
    }

    fn drain(&mut self, queue: u16) {
        let budget = 1 + self.rng.below(8) as u32;
        // The swarm drains again.
        let _ = self.port.drain(self.now, queue, budget, &mut self.dev);
    }

    fn reap(&mut self, queue: u16, n: usize) -> Result<(), Violation> {
        let at = usize::from(queue);
        let had = self.dev.queues[at].in_flight();
        self.dev.queues[at].finish(n);
        if self.planted == Planted::ReapsBehindItsBack && chance(&mut self.rng, 1, 20) {
            self.dev.queues[at].reap(&mut |_| {});
        }
        let Reaped { packets, opened } = self.port.reap(self.now, queue, &mut self.dev, |_| {});
        let finished = had - self.dev.queues[at].in_flight();
        let known = finished.min(self.rings[at].len());
        for (flow, n) in self.rings[at].drain(..known) {
            self.flows[flow].packets[n].at = At::Finished;
        }
        if packets as usize != finished {
            let what =
                format!("the device has finished {finished} of queue {queue}, the port counts {packets}");
            return self.fail(Law::InFlight, what);
        }
        match opened {
            true => (0..self.port.queues()).for_each(|q| self.drain(q)),
            false if queue < self.port.queues() => self.drain(queue),
            false => {}
        }
        Ok(())
    }

    /// Draws a kind that keeps the packets of a flow in order.
    fn kind(&mut self) -> &'static Spec {
        loop {
            let spec = *pick(&mut self.rng, KINDS);
            if !spec.flags.reorders {
                return spec;
            }
        }
    }

    fn set_root(&mut self) {
        // Half of them are kinds that stand for the queues.
        let spec = match self.rng.below(4) {
            0 => KINDS.iter().copied().find(|k| k.kind == "mq"),
            1 => KINDS.iter().copied().find(|k| k.kind == "mqprio"),
            _ => None,
        };
        let spec = spec.unwrap_or_else(|| self.kind());
        self.replace(Handle::ROOT, spec);
    }

    /// Grafts another kind at a place of the trees, or deletes one.
    fn graft(&mut self) {
        let mut places = Vec::new();
        self.port.trees().visit(&mut |place, _| places.push(place.parent));
        let parent = *pick(&mut self.rng, &places);
        if chance(&mut self.rng, 1, 4) {
            let (port, now) = (&mut self.port, self.now);
            let _ = port.control(now, &mut self.dev).swap(|q| q.delete(parent), whole);
        } else if places.len() < 40 {
            let spec = self.kind();
            self.replace(parent, spec);
        }
    }

    fn replace(&mut self, parent: Handle, spec: &'static Spec) {
        let env = Env { queues: self.port.queues(), ..Env::default() };
        if ["mq", "mqprio", "cake_mq", "multiq", "taprio"].contains(&spec.kind) && env.queues == 1 {
            return;
        }
        let words = legal(spec, &env, &mut self.rng);
        let (port, now) = (&mut self.port, self.now);
        let done = with_words(&words, |w| {
            port.control(now, &mut self.dev).swap(|q| q.replace(parent, None, spec.kind, w), whole).0
        });
        match done {
            Ok(_) => self.met.grafted += 1,
            Err(_) => self.met.refused += 1,
        }
    }

    /// Examines the frames that the device was given and was told to discard.
    fn look(&mut self) -> Result<(), Violation> {
        for queue in 0..usize::from(QUEUES) {
            let (sent, discarded) = self.looked[queue];
            let dev = &self.dev.queues[queue];
            let (sent, discarded) = (dev.sent()[sent..].to_vec(), dev.discarded()[discarded..].to_vec());
            for frame in sent {
                self.left(queue, frame)?;
            }
            for (frame, reason) in discarded {
                let packet = &mut self.flows[(frame >> 32) as usize].packets[(frame & 0xffff_ffff) as usize];
                if packet.at != At::Waits {
                    let what = format!("{frame:x} is dropped ({reason:?}) and was {:?}", packet.at);
                    return self.fail(Law::Conservation, what);
                }
                packet.at = At::Dropped;
                // The books do not count packets that no qdisc has seen.
                if reason != DropReason::PoolFull {
                    self.dropped.packets += 1;
                    self.dropped.bytes += u64::from(packet.len);
                }
                self.met.dropped += 1;
            }
            let dev = &self.dev.queues[queue];
            self.looked[queue] = (dev.sent().len(), dev.discarded().len());
        }
        Ok(())
    }

    /// Notes a packet that has come to a queue of the device.
    fn left(&mut self, queue: usize, frame: u64) -> Result<(), Violation> {
        let (index, n) = ((frame >> 32) as usize, (frame & 0xffff_ffff) as usize);
        let was = self.flows[index].packets[n].at;
        if was != At::Waits {
            return self.fail(Law::Conservation, format!("{frame:x} leaves and was {was:?}"));
        }
        let Flow { by, next, free, .. } = self.flows[index];
        if n < next && n >= free {
            let what = format!("{frame:x}, whose queue is chosen by {by:?}, leaves behind {:x}", next - 1);
            return self.fail(Law::Order, what);
        }
        let elsewhere = (0..self.rings.len()).filter(|q| *q != queue);
        let with_two =
            elsewhere.flat_map(|q| &self.rings[q]).any(|(i, m)| *i == index && *m >= free && n >= free);
        if with_two {
            let what = format!(
                "{frame:x} comes to queue {queue}, and another queue has packets of its flow ({by:?})"
            );
            return self.fail(Law::Order, what);
        }
        if self.rings[queue].len() >= self.slots as usize {
            return self
                .fail(Law::Bounds, format!("{frame:x} comes to queue {queue}, which has no slot for it"));
        }
        let flow = &mut self.flows[index];
        flow.next = next.max(n + 1);
        flow.packets[n].at = At::Sent(queue as u16);
        self.sent.packets += 1;
        self.sent.bytes += u64::from(flow.packets[n].len);
        self.rings[queue].push((index, n));
        Ok(())
    }

    fn before(&self) -> Before {
        Before {
            books: self.port.totals().books(),
            handed: self.port.paths().iter().map(|p| p.stats().tx_packets).collect(),
            given: self.looked.iter().map(|l| l.0).collect(),
            dropped: self.dropped,
        }
    }

    /// Returns the port's counters, with the planted fault.
    fn stats(&self) -> PathStats {
        let mut stats = self.port.totals().stats();
        if self.planted == Planted::DirectUncounted {
            stats.tx_packets -= stats.direct;
        }
        stats
    }
    fn backlog(&self) -> Tally {
        let mut backlog = self.port.totals().backlog();
        if let (Planted::QueueForgotten, Some(last)) = (self.planted, self.port.paths().last()) {
            let of_last = last.backlog();
            backlog =
                Tally { packets: backlog.packets - of_last.packets, bytes: backlog.bytes - of_last.bytes };
        }
        backlog
    }

    /// Compares the port's counters with the observations.
    fn check(&self) -> Result<(), Violation> {
        let all = self.flows.iter().flat_map(|f| &f.packets).filter(|p| p.at == At::Waits);
        let waits = all.fold(Tally::default(), |t, p| Tally {
            packets: t.packets + 1,
            bytes: t.bytes + u64::from(p.len),
        });
        if self.backlog() != waits {
            let what = format!("{waits:?} waits, the port says {:?}", self.backlog());
            return self.fail(Law::Sums, what);
        }
        let (stats, books) = (self.stats(), self.port.totals().books());
        let counted = Tally { packets: stats.tx_packets, bytes: stats.tx_bytes };
        if counted != self.sent || stats.direct != self.direct {
            let what = format!(
                "{:?} was sent, {} of it directly; the port says {counted:?}, {}",
                self.sent, self.direct, stats.direct
            );
            return self.fail(Law::Sums, what);
        }
        let Books { admitted, sent, dropped, queued, .. } = books;
        let reasons = self.port.totals().reasons();
        if reasons.dropped() != dropped.packets {
            return self.fail(Law::Reasons, format!("{reasons:?}, and the port's books are {books:?}"));
        }
        let sum = Tally {
            packets: sent.packets + dropped.packets + queued.packets,
            bytes: sent.bytes + dropped.bytes + queued.bytes,
        };
        if sum != admitted || queued != waits {
            return self.fail(Law::Sums, format!("{waits:?} waits, and the port's books are {books:?}"));
        }
        let in_flight: usize = self.dev.queues.iter().map(VecDevice::in_flight).sum();
        if self.port.flight().packets() != in_flight as u64 {
            let what = format!("the device has {in_flight}, the port says {}", self.port.flight().packets());
            return self.fail(Law::InFlight, what);
        }
        if self.port.chooser().stats().no_such_queue != self.strays {
            let told = self.port.chooser().stats().no_such_queue;
            return self
                .fail(Law::Sums, format!("{} asked for no such queue, the port says {told}", self.strays));
        }
        Ok(())
    }

    /// Checks the changes of the counters, queue by queue, by a call that changes no tree.
    fn check_traffic(&self, before: &Before) -> Result<(), Violation> {
        let since = |a: Tally, b: Tally| Tally { packets: a.packets - b.packets, bytes: a.bytes - b.bytes };
        let (was, is) = (&before.books, &self.port.totals().books());
        let dropped = since(self.dropped, before.dropped);
        if since(is.dropped, was.dropped) != dropped {
            return self
                .fail(Law::Sums, format!("{dropped:?} was dropped; the books were {was:?} and are {is:?}"));
        }
        let mut all = 0;
        for (queue, path) in self.port.paths().iter().enumerate() {
            let handed = path.stats().tx_packets - before.handed[queue];
            let given = |q: usize| (self.looked[q].0 - before.given[q]) as u64;
            let seen = match self.port.is_split() {
                true => given(queue),
                false => (0..usize::from(QUEUES)).map(given).sum(),
            };
            all += handed;
            if handed != seen {
                let what = format!("queue {queue} of the device was given {seen}, its path says {handed}");
                return self.fail(Law::Sums, what);
            }
        }
        match is.sent.packets - was.sent.packets {
            sent if sent == all => Ok(()),
            sent => self.fail(Law::Sums, format!("the queues have sent {all}, the port's root says {sent}")),
        }
    }

    /// Checks that no packet waits for ever at a device that accepts and finishes every frame.
    fn everything_leaves(&mut self) -> Result<(), Violation> {
        self.slots = 1000;
        for queue in &mut self.dev.queues {
            queue.set_slots(self.slots);
        }
        if let (Planted::Freezes, Some(tx)) = (self.planted, self.port.transmitters_mut().last()) {
            tx.freeze();
        }
        for _ in 0..100_000 {
            let mut wakes = Vec::new();
            for queue in 0..QUEUES {
                self.reap(queue, 1000)?;
            }
            for queue in 0..self.port.queues() {
                wakes.push(self.port.drain(self.now, queue, 64, &mut self.dev));
            }
            self.look()?;
            self.check()?;
            if self.port.totals().backlog().packets == 0 {
                return Ok(());
            }
            let in_flight = self.dev.queues.iter().any(|q| q.in_flight() > 0);
            let more = wakes.contains(&Wake::More);
            let at = wakes.iter().filter_map(|w| if let Wake::At(t, _) = w { Some(*t) } else { None }).min();
            match at {
                // Packets that only a command moves (plug), or no credit (cbs).
                Some(Instant::MAX) if !in_flight && !more => return Ok(()),
                Some(t) if !in_flight && !more => self.now = self.now.max(t),
                None if !in_flight && !more => break,
                _ => {}
            }
        }
        self.fail(Law::Liveness, format!("{:?} waits, and no call moves it", self.port.totals().backlog()))
    }
}
