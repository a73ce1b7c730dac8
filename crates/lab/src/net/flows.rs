//! Short flows: connections that are opened for one transfer each, and then freed.
//!
//! A flow is one TCP connection of its own. The host that opens it sends its bytes and closes; its
//! completion time runs from the opening to the last byte that the other application reads, so the
//! handshake counts.
//!
//! **Bounds.** A group has a place for each concurrent flow (`at_once`). A place is two connection
//! ends, about 2 KB idle and 3 KB with data under way and after losses, and 64 bytes for each
//! further unit in flight; a flow whose connection is closed at both ends leaves it to another.
//! Flows that find no place are not opened, and counted. All groups of a net together have at most
//! [`AT_ONCE_MAX`] places.

use std::collections::VecDeque;

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Nanos};

use super::group::Group;
use super::{Net, What};
use crate::app::App;
use crate::dist::Dist;
use crate::draw::{Sizes, exponential};
use crate::frame::Frame;
use crate::tcp::{Addr, Conn, Label};

/// Largest number of places of all groups together: 31 MB of connections.
pub const AT_ONCE_MAX: u32 = 10_000;
/// Largest number of flows of a group that a list of times names.
pub const LISTED_MAX: usize = 100_000;
/// Ports of clients, in turn: Linux's default range (`ip_local_port_range`).
const PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Sizes up to which flows are counted together, bytes; the last class has no bound.
pub const CLASSES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// Short flows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Distribution of their sizes.
    pub sizes: Sizes,
    /// Mean time between two flows, above zero, if they begin at random times.
    pub gap: Option<Nanos>,
    /// Largest number of concurrent flows.
    pub at_once: u32,
}

/// A place for a flow.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The first of its two connection ends.
    end: u32,
    opened: Instant,
    size: u64,
    /// True if all data has been read.
    done: bool,
}

/// Counters of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Flows opened.
    pub opened: u64,
    /// Flows read to the last byte.
    pub finished: u64,
    /// Flows given up by TCP.
    pub failed: u64,
    /// Flows not opened, because all places were taken.
    pub turned_away: u64,
}

/// The flows of a group.
#[derive(Debug)]
pub struct Flows {
    short: Short,
    rng: Rng,
    /// Places in order of their ends.
    places: Vec<Place>,
    /// Places whose flows are over, the longest free first.
    free: VecDeque<usize>,
    /// Number of flows begun from the list of times.
    listed: usize,
    port: u16,
    next_port: u16,
    counts: FlowCounts,
    /// Completion times of all flows, then by class of size.
    times: [Dist; 2 + CLASSES.len()],
    /// Payload read, and payload sent again, by flows whose places are free.
    read: u64,
    again: u64,
}

impl Flows {
    /// Returns the counters since measuring began.
    pub const fn counts(&self) -> FlowCounts {
        self.counts
    }
    /// Returns the completion times of the flows that ended since measuring began.
    pub const fn times(&self) -> &Dist {
        &self.times[0]
    }
    /// Returns the same by class of size: up to each of [`CLASSES`], and above.
    pub fn by_size(&self) -> impl Iterator<Item = (Option<u64>, &Dist)> {
        CLASSES.into_iter().map(Some).chain([None]).zip(&self.times[1..])
    }
    /// Returns the number of flows that are under way.
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }
    /// Resets the counters.
    pub(super) fn restart(&mut self) {
        self.counts = FlowCounts::default();
        self.times.iter_mut().for_each(Dist::reset);
    }

    fn ended(&mut self, size: u64, took: Nanos) {
        self.counts.finished += 1;
        self.times[0].add(took);
        self.times[1 + CLASSES.iter().filter(|most| size > **most).count()].add(took);
    }
}

impl Net {
    /// Returns the flows of a new group, none of them open. Its server has the group's port.
    pub(super) fn flows(&mut self, g: &Group, number: u32, short: Short) -> Result<Box<Flows>, String> {
        self.at_once = self.at_once.saturating_add(short.at_once);
        if self.at_once > AT_ONCE_MAX {
            let name = &g.name;
            return Err(format!("group {name}: more than {AT_ONCE_MAX} short flows at once in all groups"));
        }
        let mut rng = Rng::new(self.rng.next_u64());
        let first = match short.gap {
            Some(mean) => Some(exponential(&mut rng, mean)),
            None => g.arrivals.first().copied(),
        };
        if let Some(first) = first {
            self.engine.schedule(g.start + first, number, What::Flow);
        }
        Ok(Box::new(Flows {
            short,
            rng,
            places: Vec::new(),
            free: VecDeque::new(),
            listed: 0,
            port: 2000 + (self.connections - 1) as u16,
            next_port: *PORTS.start(),
            counts: FlowCounts::default(),
            times: Default::default(),
            read: 0,
            again: 0,
        }))
    }

    /// Begins the next flow of a group.
    pub(super) fn next_flow(&mut self, number: u32) {
        let now = self.engine.now();
        let state = &mut self.groups[number as usize];
        let Some(flows) = &mut state.flows else { return };
        let next = match flows.short.gap {
            // Two flows at one instant would be fine, an endless number would not.
            Some(mean) => Some(now + exponential(&mut flows.rng, mean).max(Nanos(1))),
            None => {
                flows.listed += 1;
                state.group.arrivals.get(flows.listed).map(|at| state.group.start + *at)
            }
        };
        if let Some(at) = next {
            self.engine.schedule(at, number, What::Flow);
        }
        let size = flows.short.sizes.draw(&mut flows.rng);
        let place = match flows.free.pop_front() {
            None if flows.places.len() >= flows.short.at_once as usize => {
                flows.counts.turned_away += 1;
                return;
            }
            place => place,
        };
        flows.counts.opened += 1;
        let server = flows.port;
        let client = flows.next_port;
        flows.next_port = if client == *PORTS.end() { *PORTS.start() } else { client + 1 };
        let seeds: [u64; 4] = std::array::from_fn(|_| flows.rng.next_u64());
        let end = place.map_or(self.ends.len() as u32, |p| flows.places[p].end);
        let opened = Place { end, opened: now, size, done: false };
        match place {
            Some(p) => flows.places[p] = opened,
            None => flows.places.push(opened),
        }
        self.open(number, end, (client, server), size, seeds);
    }

    fn open(&mut self, number: u32, end: u32, ports: (u16, u16), size: u64, seeds: [u64; 4]) {
        let now = self.engine.now();
        let g = self.groups[number as usize].group.clone();
        let (a, b): (Addr, Addr) = (Self::addr(g.from, ports.0), Self::addr(g.to, ports.1));
        let label = |to, seed: u64| Label { to, hash: seed as u32, priority: g.priority };
        let tcp = [g.from, g.to].map(|host| self.tcp_of(host, &g));
        let (there, back) = (label(end + 1, seeds[0]), label(end, seeds[1]));
        let client = Conn::connect(&tcp[0], (a, b), now, App::stream(Some(size)), there, seeds[2]);
        let server = Conn::listen(&tcp[1], (b, a), App::sink(), back, seeds[3]);
        if end as usize == self.ends.len() {
            self.add_ends([client, server], &g, number);
        } else {
            for (n, mut conn) in [(end, client), (end + 1, server)] {
                let at = &mut self.ends[n as usize];
                conn.share_config(&at.conn);
                (at.conn, at.idle) = (conn, false);
            }
        }
        self.poll(end);
    }

    /// True if a packet that has come is for the present flow of the place, not for an earlier one.
    pub(super) fn is_for_flow(&self, frame: &Frame) -> bool {
        let end = &self.ends[frame.to as usize];
        let ports = frame.header().get(20..24);
        let (local, remote) = (end.conn.local().port.to_be_bytes(), end.conn.remote().port.to_be_bytes());
        !end.idle && ports == Some(&[remote[0], remote[1], local[0], local[1]])
    }

    /// Updates a short flow after one of its ends has acted.
    pub(super) fn look_at_flow(&mut self, n: u32) {
        let (first, now) = (n & !1, self.engine.now());
        let pair = [first, first + 1].map(|n| &self.ends[n as usize]);
        let Some(flows) = &mut self.groups[pair[0].group as usize].flows else { return };
        let Ok(number) = flows.places.binary_search_by_key(&first, |p| p.end) else { return };
        let place = &mut flows.places[number];
        let read = match pair[1].conn.app() {
            App::Sink(sink) => sink.read,
            _ => 0,
        };
        let finished = !place.done && read >= place.size;
        place.done |= finished;
        let (Place { opened, size, done, .. }, failed) = (*place, pair.iter().any(|e| e.conn.has_failed()));
        let over = failed || pair.iter().all(|e| e.conn.is_over());
        if finished {
            let took = now.saturating_since(opened);
            flows.ended(size, took);
            if let Some(watch) = &mut self.watch {
                watch.add(pair[0].group, took);
            }
        }
        // A NIC still knows an end that waits for room there.
        if over && pair.iter().all(|e| !e.waiting) {
            flows.counts.failed += u64::from(!done);
            flows.read += read;
            flows.again += pair.iter().map(|e| e.conn.stats().retransmitted).sum::<u64>();
            flows.free.push_back(number);
            for n in [first, first + 1] {
                self.ends[n as usize].idle = true;
            }
        }
    }

    /// Returns the payload that the flows of a group have delivered, and sent again, since the
    /// start.
    pub(super) fn flow_bytes(&self, flows: &Flows) -> (u64, u64) {
        let open = flows.places.iter().filter(|p| !self.ends[p.end as usize].idle);
        open.fold((flows.read, flows.again), |(read, again), p| {
            let pair = [p.end, p.end + 1].map(|n| &self.ends[n as usize].conn);
            let now = match pair[1].app() {
                App::Sink(sink) => sink.read,
                _ => 0,
            };
            (read + now, again + pair.iter().map(|c| c.stats().retransmitted).sum::<u64>())
        })
    }
}
