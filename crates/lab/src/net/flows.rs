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

use super::ends::End;
use super::group::Group;
use crate::app::App;
use crate::dist::Dist;
use crate::draw::{Sizes, exponential};
use crate::tcp::Conn;

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

/// A flow to open.
pub(super) struct Opening {
    /// The first of its two connection ends.
    pub(super) end: u32,
    /// Ports of the host that opens it, and of the other.
    pub(super) ports: (u16, u16),
    /// Its bytes.
    pub(super) size: u64,
    /// Random numbers for its connection.
    pub(super) seeds: [u64; 4],
}

/// The state of a flow after one of its ends has acted.
pub(super) struct Looked {
    /// Its completion time, if it has just been read to the last byte.
    pub(super) took: Option<Nanos>,
    /// True if its place is free now.
    pub(super) over: bool,
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

    /// Returns the flows of a new group, none of them open. Its server has this port.
    pub(super) fn new(short: Short, seed: u64, port: u16) -> Self {
        Self {
            short,
            rng: Rng::new(seed),
            places: Vec::new(),
            free: VecDeque::new(),
            listed: 0,
            port,
            next_port: *PORTS.start(),
            counts: FlowCounts::default(),
            times: Default::default(),
            read: 0,
            again: 0,
        }
    }

    /// Returns the time at which the first flow of the group begins.
    pub(super) fn first(&mut self, group: &Group) -> Option<Instant> {
        let first = match self.short.gap {
            Some(mean) => Some(exponential(&mut self.rng, mean)),
            None => group.arrivals.first().copied(),
        };
        first.map(|first| group.start + first)
    }

    /// Begins the next flow of the group: returns the time at which the flow after it begins, and
    /// the flow, if it has a place. A place that is new has the connection ends from `fresh` on.
    pub(super) fn next(
        &mut self,
        group: &Group,
        now: Instant,
        fresh: u32,
    ) -> (Option<Instant>, Option<Opening>) {
        let next = match self.short.gap {
            // Two flows at one instant would be fine, an endless number would not.
            Some(mean) => Some(now + exponential(&mut self.rng, mean).max(Nanos(1))),
            None => {
                self.listed += 1;
                group.arrivals.get(self.listed).map(|at| group.start + *at)
            }
        };
        (next, self.begin(now, fresh))
    }

    fn begin(&mut self, now: Instant, fresh: u32) -> Option<Opening> {
        let size = self.short.sizes.draw(&mut self.rng);
        let place = match self.free.pop_front() {
            None if self.places.len() >= self.short.at_once as usize => {
                self.counts.turned_away += 1;
                return None;
            }
            place => place,
        };
        self.counts.opened += 1;
        let client = self.next_port;
        self.next_port = if client == *PORTS.end() { *PORTS.start() } else { client + 1 };
        let seeds: [u64; 4] = std::array::from_fn(|_| self.rng.next_u64());
        let end = place.map_or(fresh, |p| self.places[p].end);
        let opened = Place { end, opened: now, size, done: false };
        match place {
            Some(p) => self.places[p] = opened,
            None => self.places.push(opened),
        }
        Some(Opening { end, ports: (client, self.port), size, seeds })
    }

    /// Updates the flow whose first end is `first` after one of its ends has acted.
    pub(super) fn look(&mut self, first: u32, pair: &[End], now: Instant) -> Looked {
        let Ok(number) = self.places.binary_search_by_key(&first, |p| p.end) else {
            return Looked { took: None, over: false };
        };
        let place = &mut self.places[number];
        let read = read(&pair[1].conn);
        let finished = !place.done && read >= place.size;
        place.done |= finished;
        let (Place { opened, size, done, .. }, failed) = (*place, pair.iter().any(|e| e.conn.has_failed()));
        let took = finished.then(|| now.saturating_since(opened));
        if let Some(took) = took {
            self.ended(size, took);
        }
        // A NIC still knows an end that waits for room there.
        let over = (failed || pair.iter().all(|e| e.conn.is_over())) && pair.iter().all(|e| !e.waiting);
        if over {
            self.counts.failed += u64::from(!done);
            self.read += read;
            self.again += pair.iter().map(|e| e.conn.stats().retransmitted).sum::<u64>();
            self.free.push_back(number);
        }
        Looked { took, over }
    }

    /// Returns the time at which the flow was opened whose first end is `first`, or the last flow
    /// of that place.
    pub(super) fn opened(&self, first: u32) -> Instant {
        let place = self.places.binary_search_by_key(&first, |p| p.end);
        place.map_or(Instant::ZERO, |number| self.places[number].opened)
    }

    fn ended(&mut self, size: u64, took: Nanos) {
        self.counts.finished += 1;
        self.times[0].add(took);
        self.times[1 + CLASSES.iter().filter(|most| size > **most).count()].add(took);
    }
    /// Returns the payload that the flows have delivered, and sent again, since the start. `ends`
    /// are all connection ends of the net.
    pub(super) fn bytes(&self, ends: &[End]) -> (u64, u64) {
        let open = self.places.iter().filter(|p| !ends[p.end as usize].idle);
        open.fold((self.read, self.again), |(read_before, again), p| {
            let pair = [p.end, p.end + 1].map(|n| &ends[n as usize].conn);
            (read_before + read(pair[1]), again + pair.iter().map(|c| c.stats().retransmitted).sum::<u64>())
        })
    }
}

/// Returns the bytes that a flow's receiver has read.
const fn read(server: &Conn) -> u64 {
    match server.app() {
        App::Sink(sink) => sink.read,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use txweir_core::Rate;
    use txweir_core::model::wire::WireConfig;
    use txweir_core::path::txpath::PathConfig;

    use super::*;
    use crate::cpu::Cpu;
    use crate::link::LinkConfig;
    use crate::net::{Load, Net};
    use crate::nic::{NicConfig, Released};
    use crate::tcp::TcpConfig;

    /// Returns a net whose only place has its second flow since 10 s, which fills the queue of its
    /// host; and the host's NIC.
    fn second_flow() -> (Net, u32) {
        let mut net = Net::new(1);
        let [a, b] = [(); 2].map(|()| net.host(TcpConfig::default(), Cpu::default()));
        let [nic, _] = [(a, b), (b, a)].map(|(from, to)| {
            let wire = WireConfig { rate: Rate::from_bits(1_000_000), ..WireConfig::default() };
            let link = LinkConfig { delay: Nanos::from_millis(5), ..LinkConfig::default() };
            net.link(from, to, NicConfig { path: PathConfig::default(), wire, link, seed: 1 }).unwrap()
        });
        let sizes = Sizes::list(&[(500_000, 1)]).unwrap();
        net.group(Group {
            from: a,
            to: b,
            count: 1,
            load: Load::Short(Short { sizes, gap: None, at_once: 1 }),
            arrivals: Arc::from([Nanos::ZERO, Nanos::from_secs(10)]),
            ..Group::default()
        })
        .unwrap();
        net.run(Instant::from_secs(12));
        (net, nic)
    }

    /// Small queues hold a sender until its own units have left, not those of the flow before.
    #[test]
    fn a_unit_of_an_earlier_flow_is_none_of_the_next_one() {
        let (mut net, nic) = second_flow();
        let flows = net.traffic.groups[0].flows.as_ref().unwrap();
        assert_eq!((flows.places.len(), flows.counts.opened, flows.open()), (1, 2, 1));
        let mut wakes = |sent: Instant| {
            net.ground.links.nic_mut(nic).has_released(Released { end: 0, bytes: 2_000, sent });
            net.traffic.kick(nic, &mut net.ground);
            net.traffic.has_turns()
        };
        assert!(!wakes(Instant::from_secs(3)), "a unit of the first flow");
        assert!(wakes(Instant::from_secs(11)), "a unit of its own");
    }
}
