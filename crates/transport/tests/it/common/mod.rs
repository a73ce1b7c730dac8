//! Two ends and a wire between them: a bottleneck with a FIFO, a delay each way, and losses by
//! number.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use txweir_core::{Ecn, Instant, Nanos};
use txweir_transport::{Config, Connection, Segment};

/// Returns both ends of a connection, opener first, after a handshake over 5 ms each way, and the
/// time at its end.
pub fn established_pair(config: &Config) -> ([Connection; 2], Instant) {
    let mut ends = [Connection::connect(config), Connection::listen(config)];
    let mut now = Instant::ZERO;
    for from in [0, 1, 0] {
        while let Some(seg) = ends[from].transmit(now) {
            ends[1 - from].receive(now + Nanos::from_millis(5), &seg);
        }
        now += Nanos::from_millis(5);
    }
    (ends, now)
}

/// The wire from the first end to the second.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Rate, bit/s.
    pub rate: u64,
    /// Delay in one direction.
    pub delay: Nanos,
    /// Capacity of the queue, packets.
    pub limit: usize,
    /// Data packets lost, by their number as they enter the wire, from 0.
    pub lose: BTreeSet<u64>,
    /// Extra delays of data packets, by the same number.
    pub late: BTreeMap<u64, Nanos>,
    /// Largest number of waiting packets at which packets are not marked.
    pub mark_above: usize,
    /// Ratio of answers to answers that arrive; 0 and 1: none is lost.
    pub answer_every: u64,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            rate: 20_000_000,
            delay: Nanos::from_millis(15),
            limit: 100,
            lose: BTreeSet::new(),
            late: BTreeMap::new(),
            mark_above: usize::MAX,
            answer_every: 1,
        }
    }
}

/// Segments on their way: arrival time and order, receiving end and segment.
type Flight = BTreeMap<(u64, u64), (usize, Segment)>;

pub struct Net {
    pub ends: [Connection; 2],
    pub now: Instant,
    pub wire: Wire,
    /// Segments that the first end sent, with their times.
    pub sent: Vec<(Instant, Segment)>,
    /// Segments that reached the first end, with their times.
    pub answers: Vec<(Instant, Segment)>,
    pub read: u64,
    /// Bytes that the first end still has to write.
    pub to_write: u64,
    pub close: bool,
    pub dropped: u64,
    pub marked: u64,
    /// Number of packets that each packet finds in the queue, with its time.
    pub found: Vec<(Instant, usize)>,
    answered: u64,
    flight: Flight,
    free_at: Instant,
    queue: VecDeque<Instant>,
    number: u64,
    order: u64,
}

impl Net {
    pub fn new(a: &Config, b: &Config, wire: Wire) -> Self {
        Self {
            ends: [Connection::connect(a), Connection::listen(b)],
            now: Instant::ZERO,
            wire,
            sent: Vec::new(),
            answers: Vec::new(),
            read: 0,
            to_write: u64::MAX,
            close: false,
            dropped: 0,
            marked: 0,
            found: Vec::new(),
            answered: 0,
            flight: Flight::new(),
            free_at: Instant::ZERO,
            queue: VecDeque::new(),
            number: 0,
            order: 0,
        }
    }

    fn fly(&mut self, at: Instant, to: usize, seg: Segment) {
        self.order += 1;
        self.flight.insert((at.0, self.order), (to, seg));
    }

    fn forward(&mut self, seg: Segment) {
        self.sent.push((self.now, seg));
        for part in (0..).map_while(|i| seg.part(i)) {
            self.packet(part);
        }
    }

    fn packet(&mut self, mut seg: Segment) {
        while self.queue.front().is_some_and(|left| *left <= self.now) {
            self.queue.pop_front();
        }
        self.found.push((self.now, self.queue.len()));
        let number = self.number;
        self.number += u64::from(seg.len > 0);
        let lost = seg.len > 0 && self.wire.lose.contains(&number);
        if lost || self.queue.len() >= self.wire.limit {
            self.dropped += 1;
            return;
        }
        if self.queue.len() >= self.wire.mark_above && seg.ecn.capable() {
            seg.ecn = Ecn::Ce;
            self.marked += 1;
        }
        let bits = u64::from(seg.len + 66) * 8;
        let start = self.free_at.max(self.now);
        self.free_at = start + Nanos(bits * 1_000_000_000 / self.wire.rate);
        self.queue.push_back(self.free_at);
        let late = self.wire.late.get(&number).filter(|_| seg.len > 0).copied().unwrap_or(Nanos::ZERO);
        self.fly(self.free_at + self.wire.delay + late, 1, seg);
    }

    fn drain(&mut self, end: usize) {
        while let Some(seg) = self.ends[end].transmit(self.now) {
            if end == 0 {
                self.forward(seg);
                self.ends[0].below().released(txweir_transport::below_socket(seg.len));
            } else {
                self.answered += 1;
                let kept = seg.syn.is_some() || self.answered.is_multiple_of(self.wire.answer_every.max(1));
                if kept {
                    self.fly(self.now + self.wire.delay, 0, seg);
                }
            }
        }
    }

    fn step(&mut self, end: usize) {
        self.drain(end);
        if end == 0 {
            let n = self.ends[0].write(self.now, self.to_write);
            self.to_write -= n;
            if self.to_write == 0 && self.close {
                self.ends[0].close();
            }
            self.ends[0].read(self.now, u64::MAX);
        } else {
            self.read += self.ends[1].read(self.now, u64::MAX);
            if self.ends[1].finished() {
                self.ends[1].close();
            }
        }
        self.drain(end);
    }

    /// Lets the first end send data that its application has written.
    pub fn poke(&mut self) {
        self.step(0);
    }

    /// Runs until `until`, or until no event is left.
    pub fn run(&mut self, until: Instant) {
        self.step(0);
        loop {
            let due = [0, 1].map(|i| self.ends[i].deadline());
            let flying = self.flight.first_key_value().map(|(k, _)| Instant(k.0));
            let Some(at) = due.into_iter().chain([flying]).flatten().min() else { return };
            if at > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(at);
            if flying == Some(at) {
                let Some((_, (to, seg))) = self.flight.pop_first() else { return };
                if to == 0 {
                    self.answers.push((self.now, seg));
                }
                self.ends[to].receive(self.now, &seg);
                self.step(to);
            } else {
                for i in [0, 1] {
                    if due[i] == Some(at) {
                        self.ends[i].on_time(self.now);
                        self.step(i);
                    }
                }
            }
        }
    }
}
