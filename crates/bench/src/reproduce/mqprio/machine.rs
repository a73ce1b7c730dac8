//! The machine: threads that send, a lock around each qdisc, a port, and the device below it.
//!
//! Two operations hold a lock for a time: putting a packet into the qdisc, and taking packets out
//! of it. Of the threads that come to put a packet in, one at a time competes with the drainer, and
//! those two alternate. Linux does so since 2.6.36 ("net: add additional lock to qdisc to increase
//! throughput", netdev, 2010), because the drainer would starve in one line with all.

use std::collections::VecDeque;

use txweir_core::base::rng::Rng;
use txweir_core::model::wire::{Departure, RingQueue, Wire, WireConfig};
use txweir_core::path::port::{Choice, Port, Queues};
use txweir_core::path::select::Sender;
use txweir_core::{Instant, Meta, Nanos, PathConfig, Wake};

/// Classes.
pub(super) const CLASSES: usize = 8;

/// A packet: its class, and the time at which it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    class: u8,
    made: Instant,
}

/// The wire's rings as the queues of a port.
#[derive(Debug)]
pub(super) struct Rings(pub(super) Wire<Packet>);

impl Queues for Rings {
    type Frame = Packet;
    type Queue<'a> = RingQueue<'a, Packet>;
    fn queue(&mut self, index: u16) -> Option<RingQueue<'_, Packet>> {
        self.0.ring(index)
    }
}

/// The packets that threads send, and their costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Threads, each of one class in turn.
    pub(super) threads: usize,
    /// Time from the start of one thread to that of the next.
    pub(super) apart: Nanos,
    /// Time from one packet of a thread to the next.
    pub(super) gap: Nanos,
    /// Bytes of a packet.
    pub(super) len: u32,
    /// The priority of class 0; that of class n is n more.
    pub(super) priority: u32,
    /// Time that a lock is held, on average.
    pub(super) hold: Nanos,
    /// Other time of a packet: before it comes to a lock, and after it has left the line.
    pub(super) beside: Nanos,
    /// The drainer is away for the last part of each period: the period, and the length of that
    /// part; zero for never.
    pub(super) away: [Nanos; 2],
    /// Seed of the jitter.
    pub(super) seed: u64,
}

/// The results of a class: the packets that have left the line, and their times since they were
/// made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Got {
    /// Packets.
    pub(super) packets: u64,
    /// The sum of their times, ns.
    pub(super) sum: u64,
    /// The least, ns.
    pub(super) min: u64,
    /// The greatest, ns.
    pub(super) max: u64,
}

impl Got {
    fn add(&mut self, ns: u64) {
        self.min = if self.packets == 0 { ns } else { self.min.min(ns) };
        (self.packets, self.sum, self.max) = (self.packets + 1, self.sum + ns, self.max.max(ns));
    }
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// A thread, to put its packet in.
    Thread(usize),
    /// The drainer, which takes packets out.
    Drainer,
}

/// The lock around a path's qdisc.
#[derive(Debug, Default)]
struct Lock {
    /// Threads that wait.
    line: VecDeque<usize>,
    /// The holder, and the time until which it holds the lock.
    held: Option<(Holder, Instant)>,
    /// True if the last holder took packets out.
    drained: bool,
    /// True if the device takes no packets until it has finished one.
    blocked: bool,
    /// The time at which the qdisc asked to be looked at again.
    wake: Option<Instant>,
}

/// A thread that sends.
#[derive(Debug)]
struct Thread {
    /// The time at which its next packet is due; it may be late.
    due: Instant,
    /// The time at which it made the packet that waits at a lock; `None` if none waits.
    made: Option<Instant>,
}

/// A machine in virtual time.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) port: Port<Packet>,
    pub(super) rings: Rings,
    load: Load,
    locks: Vec<Lock>,
    threads: Vec<Thread>,
    rng: Rng,
    now: Instant,
    got: [Got; CLASSES],
    made: u64,
}

/// The places of all packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// Made.
    pub(super) made: u64,
    /// At a lock, with their threads.
    pub(super) at_locks: u64,
    /// Dropped.
    pub(super) dropped: u64,
    /// In the qdiscs.
    pub(super) queued: u64,
    /// With the device, which has not sent them.
    pub(super) in_rings: u64,
    /// Left the line.
    pub(super) left: u64,
}

impl Machine {
    pub(super) fn new(path: PathConfig, wire: WireConfig, load: Load) -> Result<Self, String> {
        let mut rng = Rng::new(load.seed);
        let mut due = |i: usize| Instant(i as u64 * load.apart.0 + rng.below(load.gap.0));
        let thread = |i| Thread { due: due(i), made: None };
        Ok(Self {
            threads: (0..load.threads).map(thread).collect(),
            port: Port::new(path).map_err(|e| e.to_string())?,
            rings: Rings(Wire::new(wire).map_err(|e| e.to_string())?),
            load,
            locks: Vec::new(),
            rng,
            now: Instant::ZERO,
            got: [Got::default(); CLASSES],
            made: 0,
        })
    }

    /// Runs all events before `until`.
    pub(super) fn run(&mut self, until: Instant) {
        // One for each path: the qdiscs are there by now.
        self.locks.resize_with(self.port.paths().len(), Lock::default);
        loop {
            let locks = self.locks.iter().flat_map(|l| [l.held.map(|h| h.1), l.wake]).flatten();
            let threads = self.threads.iter().filter(|t| t.made.is_none()).map(|t| t.due.max(self.now));
            let next = locks.chain(threads).chain(self.rings.0.next_event()).min();
            let back = self.away_until().filter(|_| self.locks.iter().any(|l| l.held.is_none()));
            let next = next.into_iter().chain(back).min();
            let Some(next) = next.filter(|at| *at < until) else { break };
            self.step(next);
        }
        self.now = until;
    }

    /// Returns the counts since the last call.
    pub(super) fn take(&mut self) -> [Got; CLASSES] {
        std::mem::take(&mut self.got)
    }

    /// Returns the places of all packets now, by the books of the port and of the device.
    pub(super) fn census(&self) -> Census {
        let (books, left) = (self.port.totals().books(), self.rings.0.counts().units);
        Census {
            made: self.made,
            at_locks: self.threads.iter().filter(|t| t.made.is_some()).count() as u64,
            dropped: books.dropped.packets,
            queued: books.queued.packets,
            in_rings: self.port.totals().stats().tx_packets - left,
            left,
        }
    }

    /// Runs all events of this moment: the device first, then locks that are given back, then
    /// threads.
    fn step(&mut self, now: Instant) {
        self.now = now;
        self.device();
        for at in 0..self.locks.len() {
            if self.locks[at].wake.is_some_and(|t| t <= now) {
                self.locks[at].wake = None;
            }
            if let Some((holder, _)) = self.locks[at].held.filter(|h| h.1 <= now) {
                self.done(at, holder);
            }
        }
        for i in 0..self.threads.len() {
            if self.threads[i].made.is_none() && self.threads[i].due <= now {
                self.threads[i].made = Some(now);
                self.made += 1;
                let at = self.path_of(i);
                self.locks[at].line.push_back(i);
            }
        }
        for at in 0..self.locks.len() {
            self.grant(at);
        }
    }

    fn class_of(&self, thread: usize) -> u8 {
        (thread % CLASSES) as u8
    }
    fn meta_of(&self, thread: usize) -> Meta {
        Meta::new(self.load.len).priority(self.load.priority + u32::from(self.class_of(thread)))
    }
    /// Returns the lock that a thread's packets meet.
    fn path_of(&mut self, thread: usize) -> usize {
        let m = self.meta_of(thread);
        let queue = self.port.chooser_mut().choose(&m, Choice::By(&Sender::default(), None), self.now);
        usize::from(queue).min(self.locks.len() - 1)
    }

    fn device(&mut self) {
        let Self { rings, got, port, locks, now, load, .. } = self;
        let reported = rings.0.advance(*now, |d: Departure<Packet>| {
            let took = d.finish.saturating_since(d.frame.made) + load.beside;
            got[usize::from(d.frame.class)].add(took.0);
        });
        if !reported {
            return;
        }
        for queue in 0..port.queues() {
            if rings.0.ring_stats(queue).reported {
                port.reap(*now, queue, rings, |_| {});
                let at = usize::from(queue).min(locks.len() - 1);
                locks[at].blocked = false;
            }
        }
    }

    /// Ends the operation for which the lock was held.
    fn done(&mut self, at: usize, holder: Holder) {
        self.locks[at].held = None;
        self.locks[at].drained = holder == Holder::Drainer;
        // There are as many locks as paths.
        let queue = u16::try_from(at).unwrap_or(0);
        match holder {
            Holder::Drainer => match self.port.drain(self.now, queue, 1, &mut self.rings) {
                Wake::Device => self.locks[at].blocked = true,
                Wake::At(t, _) => self.locks[at].wake = Some(t),
                Wake::Idle | Wake::More => {}
            },
            Holder::Thread(i) => {
                let made = self.threads[i].made.take().unwrap_or(self.now);
                let (m, frame) = (self.meta_of(i), Packet { class: self.class_of(i), made });
                let by = Sender::default();
                let _ = self.port.send(self.now, frame, m, Choice::By(&by, None), &mut self.rings);
                // This call rings the doorbell if the packet went to the device at once. Waiting
                // packets may then try again.
                let _ = self.port.drain(self.now, queue, 0, &mut self.rings);
                self.locks[at].wake = None;
                let gap = self.jitter(self.load.gap);
                self.threads[i].due += gap;
            }
        }
    }

    /// Returns the time at which the drainer is back, if it is away now.
    fn away_until(&self) -> Option<Instant> {
        let [every, long] = self.load.away.map(|n| n.0);
        let into = self.now.0.checked_rem(every)?;
        (into + long >= every && long > 0).then(|| self.now + Nanos(every - into))
    }

    /// Gives a free lock to the next holder.
    fn grant(&mut self, at: usize) {
        let lock = &self.locks[at];
        if lock.held.is_some() {
            return;
        }
        let waits = self.port.paths()[at].backlog().packets > 0;
        let drain = waits && !lock.blocked && lock.wake.is_none() && self.away_until().is_none();
        let holder = match lock.line.front() {
            Some(i) if !drain || lock.drained => Holder::Thread(*i),
            _ if drain => Holder::Drainer,
            _ => return,
        };
        if let Holder::Thread(_) = holder {
            self.locks[at].line.pop_front();
        }
        let until = self.now + self.jitter(self.load.hold);
        self.locks[at].held = Some((holder, until));
    }

    /// Returns a random time around this: a quarter less to a quarter more.
    fn jitter(&mut self, about: Nanos) -> Nanos {
        Nanos(about.0 - about.0 / 4 + self.rng.below(about.0 / 2 + 1))
    }
}
