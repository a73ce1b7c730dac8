//! Random operations as data, so that a run can be repeated, compared and shortened.

use txweir_core::base::rng::Rng;
use txweir_core::{Ecn, Instant, Meta};

use crate::options::{chance, log_uniform, pick};

/// One call, or a few of one sort, on a transmit path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Submits packets that differ only in their numbers.
    Submit { meta: Meta, class: u32, burst: u32 },
    /// Drains with this budget.
    Drain(u32),
    /// Lets time pass.
    Step(u64),
    /// Lets time pass to the instant that the last wake named, and drains; this number of times.
    Follow(u32),
    /// Drains before the instant that the last wake named: after this number of 256ths of the way.
    Early(u32),
    /// Gives the device another number of slots.
    Slots(u32),
    /// The device finishes this number of packets.
    Finish(u32),
    /// Reaps.
    Reap,
    /// Takes the flag that senders are to be woken.
    TakeWake,
    /// Freezes, or thaws.
    Freeze(bool),
    /// Stops one of the transmit queues that the path feeds, or starts it.
    Queue { queue: u16, stop: bool },
    /// The device forgets its frames.
    DeviceReset,
    /// Drops every queued packet.
    Purge,
    /// Sets random legal options at a place.
    Change { place: u32, seed: u64 },
    /// Gives options that must be refused.
    Illegal { place: u32, seed: u64 },
    /// Puts a random kind at a place.
    Replace { place: u32, seed: u64 },
    /// Grafts the kind under test, or any, below the root.
    Graft { place: u32, seed: u64 },
    /// Deletes the qdisc at a place, which restores the default.
    Delete { place: u32 },
    /// Changes the tree at random, in one swap that keeps waiting packets.
    Swap { seed: u64 },
    /// Sets a random size table at a place, or none.
    Stab { place: u32, seed: u64 },
    /// Adds, changes or deletes a class of the qdisc at a place that has such classes.
    Class { place: u32, seed: u64 },
    /// Sets other bounds of the byte limit.
    Bounds { min: u32, max: u32 },
}

/// Number of sorts of operations.
const SORTS: usize = 20;
/// Index of the sort about classes.
const CLASS: usize = 19;
/// Number of transmit queues that packets are for; the device may have fewer.
const QUEUES: u32 = 6;
/// Index of the first sort in the list that purges or reconfigures.
const FIRST_RARE: usize = 9;

/// The distribution of a run's numbers: its sizes, flows, times and frequencies of operations.
#[derive(Debug)]
pub struct Swarm {
    weights: [u64; SORTS],
    sizes: Vec<u32>,
    flows: u64,
    priorities: Vec<u32>,
    bursts: u64,
    budget: u64,
    steps: u64,
    slots: u64,
    ecn: bool,
    /// One packet in this number has a launch time; 0: no packet has one.
    stamps: u64,
}

/// The operations that a run may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// Only packets, time and the device: the configuration stays.
    Traffic,
}

impl Swarm {
    /// Draws random weights, a third of them zero: a run that never drains, or never reaps, finds
    /// other faults than a run of even weights (Groce et al., "Swarm testing", ISSTA 2012).
    pub fn new(rng: &mut Rng, scope: Scope) -> Self {
        let mut weights = [0_u64; SORTS];
        for (sort, weight) in weights.iter_mut().enumerate() {
            *weight = match rng.below(3) {
                0 => 0,
                _ => 1 << rng.below(6),
            };
            // Operations that purge or reconfigure are rare beside those that move packets.
            *weight *= match (sort < FIRST_RARE, scope) {
                (true, _) => 32,
                // Classes are added and deleted more often than qdiscs, because most trees have
                // none.
                (false, Scope::All) if sort == CLASS => 4,
                (false, Scope::All) => 1,
                (false, Scope::Traffic) => 0,
            };
        }
        // Packets always come in, and packets always leave.
        for (sort, least) in [(0, 256), (1, 256), (6, 128), (7, 128)] {
            weights[sort] += least;
        }
        let menu = [0, 1, 60, 64, 590, 1500, 1514, 9014];
        Self {
            weights,
            sizes: (0..1 + rng.below(5)).map(|_| *pick(rng, &menu)).collect(),
            flows: 1 + log_uniform(rng, 300),
            priorities: (0..1 + rng.below(4)).map(|_| priority(rng)).collect(),
            bursts: 1 + log_uniform(rng, 80),
            // Runs with fewer departures than arrivals have standing queues, for which AQMs exist.
            budget: *pick(rng, &[2, 4, 20, 200, 1 << 32]),
            steps: 1 << (10 + rng.below(27)),
            slots: log_uniform(rng, 300),
            ecn: chance(rng, 1, 2),
            stamps: *pick(rng, &[0, 0, 2, 20]),
        }
    }

    /// Draws one operation.
    pub fn op(&self, rng: &mut Rng) -> Op {
        let mut at = rng.below(self.weights.iter().sum());
        let sort = self.weights.iter().position(|w| match at.checked_sub(*w) {
            None => true,
            Some(rest) => {
                at = rest;
                false
            }
        });
        let place = rng.below(1 << 16) as u32;
        let seed = rng.next_u64();
        match sort.unwrap_or(0) {
            1 => Op::Drain(if chance(rng, 1, 8) { u32::MAX } else { rng.below(self.budget) as u32 }),
            2 => Op::Step(match rng.below(20) {
                0 => 0,
                1 => log_uniform(rng, 1 << 52),
                _ => rng.below(self.steps),
            }),
            3 => Op::Follow(1 + rng.below(20) as u32),
            4 => Op::Early(rng.below(256) as u32),
            5 => Op::Slots(if chance(rng, 1, 2) { 1000 } else { rng.below(self.slots + 1) as u32 }),
            6 => Op::Finish(log_uniform(rng, 200) as u32),
            7 => Op::Reap,
            8 => Op::TakeWake,
            9 => match (place % 2, chance(rng, 1, 3)) {
                (0, stop) => Op::Queue { queue: (place / 2 % QUEUES) as u16, stop },
                (_, freeze) => Op::Freeze(freeze),
            },
            10 => Op::DeviceReset,
            11 => Op::Purge,
            12 => Op::Change { place, seed },
            13 => Op::Illegal { place, seed },
            14 => Op::Replace { place, seed },
            15 => Op::Delete { place },
            16 => {
                let max = log_uniform(rng, 1 << 20) as u32;
                Op::Bounds { min: rng.below(u64::from(max) + 1) as u32, max }
            }
            17 => Op::Swap { seed },
            18 => Op::Stab { place, seed },
            19 => Op::Class { place, seed },
            _ => Op::Submit { meta: self.meta(rng), class: place, burst: 1 + rng.below(self.bursts) as u32 },
        }
    }

    /// Draws a packet.
    pub fn meta(&self, rng: &mut Rng) -> Meta {
        let hash = (rng.below(self.flows) as u32).wrapping_mul(0x9e37_79b9);
        let size = *pick(rng, &self.sizes);
        let meta = match rng.below(40) {
            // Super-packets, and rarely one that no device accepts.
            0..4 => Meta::new(1514 + rng.below(64_000) as u32).gso(54, 1448),
            4 => Meta::new(log_uniform(rng, u64::from(u32::MAX)) as u32).gso(66, 1200),
            5 => Meta::new(rng.below(2000) as u32),
            _ => Meta::new(size),
        };
        let ecn = if self.ecn { Ecn::from_ds(rng.below(4) as u8) } else { Ecn::NotEct };
        let mut meta = meta.hash(hash).priority(*pick(rng, &self.priorities)).ecn(ecn);
        // A segment without data is small.
        meta.tcp_control = meta.segs == 1 && meta.len <= 64;
        // A flow has one queue; otherwise its packets would overtake each other.
        meta.queue = queue_of(&meta);
        // Times are past or near, and rarely beyond any horizon.
        let stamped = self.stamps > 0 && chance(rng, 1, self.stamps);
        if stamped { meta.txtime(Instant(log_uniform(rng, 1 << 44))) } else { meta }
    }
}

/// Returns the transmit queue of a packet's flow.
pub fn queue_of(meta: &Meta) -> u16 {
    (meta.hash % QUEUES) as u16
}

/// Draws a priority: a band, or the handle of a class that may or may not exist.
fn priority(rng: &mut Rng) -> u32 {
    match rng.below(6) {
        0 => ((1 + rng.below(3)) << 16 | rng.below(20)) as u32,
        1 => ((0x8001 + rng.below(3)) << 16 | rng.below(20)) as u32,
        2 => rng.next_u64() as u32,
        _ => rng.below(16) as u32,
    }
}
