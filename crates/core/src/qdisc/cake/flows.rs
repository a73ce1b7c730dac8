//! The flows of a tin: a set-associative hash of eight ways, and turns by deficit round robin in which flows that send
//! little come first and hosts share before their flows do (DRR++; "Piece of CAKE", section III-B and III-C).

use alloc::vec::Vec;

use crate::base::handle::ClassId;
use crate::base::rng::Rng;
use crate::law::cobalt::CobaltState;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool};
use crate::qdisc::cake::config::FlowMode;

/// Queues of a tin.
pub const FLOWS: usize = 1024;

/// Queues that a flow may take: the one its hash says, or another of the same set.
const WAYS: u32 = 8;

/// "None" in a link.
const NIL: u16 = u16::MAX;

/// Where a flow is in the rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: nothing waits and nothing is remembered.
    #[default]
    None,
    /// Among the new: it has sent less than its turn.
    Sparse,
    /// Among the old, found empty with its turn used up: still counted as sparse.
    Waiting,
    /// Among the old.
    Bulk,
    /// Among those that are empty and whose law still remembers something.
    Decaying,
}

/// A flow's queue: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Flow {
    /// What waits.
    pub packets: List,
    /// Bytes that it may still send in this turn.
    pub deficit: i32,
    /// Packets dropped from it.
    pub dropped: u32,
    /// Its law.
    pub law: CobaltState,
    next: u16,
    prev: u16,
    /// Slots of its source and its destination host.
    hosts: [u16; 2],
    /// Where it is.
    pub place: Place,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow fills exactly one cache line");

/// A slot for two hosts, one as a source and one as a destination.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tags: [u32; 2],
    /// Bulk flows of each.
    bulk: [u16; 2],
}

/// A list of flows in the order of their turns.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    head: u16,
    tail: u16,
}

impl Turns {
    const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// The flow whose turn it is.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        (self.head != NIL).then_some(usize::from(self.head))
    }
    fn push_back(&mut self, flows: &mut [Flow], f: usize) {
        let index = f as u16; // below FLOWS
        (flows[f].next, flows[f].prev) = (NIL, self.tail);
        match self.tail {
            NIL => self.head = index,
            tail => flows[usize::from(tail)].next = index,
        }
        self.tail = index;
    }
    fn remove(&mut self, flows: &mut [Flow], f: usize) {
        let (next, prev) = (flows[f].next, flows[f].prev);
        match prev {
            NIL => self.head = next,
            prev => flows[usize::from(prev)].next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => flows[usize::from(next)].prev = prev,
        }
    }
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rota {
    /// Flows that have just begun.
    New,
    /// Flows that have used up a turn.
    Old,
    /// Flows that are empty and remembered.
    Decaying,
}

/// What is counted of the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Flows found in another queue than their hash says.
    pub indirect: u32,
    /// Flows that took a new queue.
    pub misses: u32,
    /// Flows that share a queue with others.
    pub collisions: u32,
}

/// The hash values of a packet's flow and of its two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Hashes {
    /// Of the flow.
    pub flow: u32,
    /// Of the source and of the destination.
    pub hosts: [u32; 2],
}

/// The flows of a tin.
#[derive(Debug)]
pub struct Flows {
    /// The queues.
    pub flows: Vec<Flow>,
    /// The hash of the flow that has, or had, each queue.
    tags: Vec<u32>,
    hosts: Vec<Host>,
    new: Turns,
    old: Turns,
    decaying: Turns,
    /// Flows counted as sparse, as bulk, and empty but remembered.
    pub counts: [u32; 3],
    /// What the hash has met.
    pub ways: Ways,
}

/// Indexes of `Flows::counts`.
pub const SPARSE: usize = 0;
/// See `SPARSE`.
pub const BULK: usize = 1;
/// See `SPARSE`.
pub(crate) const DECAYING: usize = 2;

/// `65535 / n`: a turn is divided by the number of flows that the busier host has, without a division.
static PARTS: [u16; FLOWS + 1] = parts();

const fn parts() -> [u16; FLOWS + 1] {
    let mut parts = [u16::MAX; FLOWS + 1];
    let mut n = 1;
    while n <= FLOWS {
        parts[n] = u16::MAX / n as u16;
        n += 1;
    }
    parts
}

impl FlowMode {
    /// Whether the five-tuple makes a flow, and whether source and destination hosts are told apart.
    const fn bits(self) -> (bool, [bool; 2]) {
        match self {
            Self::Flowblind => (false, [false, false]),
            Self::Srchost => (false, [true, false]),
            Self::Dsthost => (false, [false, true]),
            Self::Hosts => (false, [true, true]),
            Self::Flows => (true, [false, false]),
            Self::DualSrchost => (true, [true, false]),
            Self::DualDsthost => (true, [false, true]),
            Self::TripleIsolate => (true, [true, true]),
        }
    }
    /// The hash by which flows are told apart.
    pub const fn key(self, h: &Hashes) -> u32 {
        match self.bits() {
            (true, _) => h.flow,
            (false, [src, dst]) => (if src { h.hosts[0] } else { 0 }) ^ (if dst { h.hosts[1] } else { 0 }),
        }
    }
    /// Which hosts share turns: sources, destinations.
    const fn shares(self) -> [bool; 2] {
        match self.bits() {
            (true, hosts) => hosts,
            (false, _) => [false, false],
        }
    }
}

impl Flows {
    /// None.
    pub fn new() -> Self {
        let mut flows = Vec::new();
        flows.resize_with(FLOWS, Flow::default);
        Self {
            flows,
            tags: alloc::vec![0; FLOWS],
            hosts: alloc::vec![Host::default(); FLOWS],
            new: Turns::EMPTY,
            old: Turns::EMPTY,
            decaying: Turns::EMPTY,
            counts: [0; 3],
            ways: Ways::default(),
        }
    }

    /// Forgets everything but what is counted. Nothing waits.
    pub fn reset(&mut self) {
        *self = Self { ways: self.ways, ..Self::new() };
    }

    /// The queue of a packet. O(1): at most three looks at a set.
    #[inline]
    pub fn find(&mut self, mode: FlowMode, h: &Hashes) -> usize {
        if mode == FlowMode::Flowblind {
            return 0;
        }
        let key = mode.key(h);
        let direct = key as usize % FLOWS;
        if self.tags[direct] == key && self.flows[direct].place != Place::None {
            return direct;
        }
        self.find_in_set(mode, h, key)
    }

    fn find_in_set(&mut self, mode: FlowMode, h: &Hashes, key: u32) -> usize {
        let set = key % FLOWS as u32;
        let way = |i: u32| (set - set % WAYS + (set % WAYS + i) % WAYS) as usize;
        let known = (0..WAYS).find(|i| self.tags[way(*i)] == key);
        let (f, fresh) = if let Some(i) = known {
            self.ways.indirect += u32::from(i > 0);
            (way(i), self.flows[way(i)].place == Place::None)
        } else if let Some(i) = (0..WAYS).find(|i| self.flows[way(*i)].place == Place::None) {
            self.ways.misses += 1;
            (way(i), true)
        } else {
            // All eight are busy: two flows share a queue, and the hosts are those of the newcomer.
            self.ways.collisions += 1;
            if self.flows[way(0)].place == Place::Bulk {
                self.count_hosts(mode, way(0), false);
            }
            (way(0), true)
        };
        self.tags[f] = key;
        if fresh {
            for side in 0..2 {
                if mode.shares()[side] {
                    self.flows[f].hosts[side] = self.host(side, h.hosts[side]);
                }
            }
            if self.flows[f].place == Place::Bulk {
                self.count_hosts(mode, f, true);
            }
        }
        f
    }

    /// The slot of a host: its own, or one of its set whose host has no bulk flows, or the last way.
    fn host(&mut self, side: usize, hash: u32) -> u16 {
        let set = hash % FLOWS as u32;
        let way = |i: u32| (set - set % WAYS + (set % WAYS + i) % WAYS) as usize;
        let own = (0..WAYS).find(|i| self.hosts[way(*i)].tags[side] == hash);
        let free = |i: &u32| self.hosts[way(*i)].bulk[side] == 0;
        let slot = way(own.or_else(|| (0..WAYS).find(free)).unwrap_or(0));
        self.hosts[slot].tags[side] = hash;
        slot as u16 // below FLOWS
    }

    /// Counts a bulk flow at its hosts, or no longer.
    #[inline]
    fn count_hosts(&mut self, mode: FlowMode, f: usize, more: bool) {
        for (side, _) in mode.shares().into_iter().enumerate().filter(|(_, shares)| *shares) {
            let slot = usize::from(self.flows[f].hosts[side]) % FLOWS;
            if let Some(bulk) = self.hosts[slot].bulk.get_mut(side) {
                *bulk = if more { (*bulk + 1).min(FLOWS as u16) } else { bulk.saturating_sub(1) };
            }
        }
    }

    /// What a flow may send in a turn: its part of its busier host's turn. What is cut off by rounding is drawn for,
    /// so that it is right on average.
    #[inline]
    pub fn turn(&self, mode: FlowMode, f: usize, quantum: u32, rng: &mut Rng) -> i32 {
        let mut load = 1;
        for ((host, shares), side) in self.flows[f].hosts.iter().zip(mode.shares()).zip(0..) {
            if shares {
                load = load.max(self.hosts[usize::from(*host) % FLOWS].bulk[side]);
            }
        }
        let part = u32::from(PARTS[usize::from(load).min(FLOWS)]);
        let draw = rng.next_u64() as u32 & 0xffff;
        // At most 1514 times 65535, and a draw: fits 31 bits.
        ((quantum * part + draw) >> 16).cast_signed()
    }

    /// A packet has come into a flow: gives its place among the turns.
    #[inline]
    pub fn joined(&mut self, mode: FlowMode, f: usize, quantum: u32, rng: &mut Rng) {
        match self.flows[f].place {
            place @ (Place::None | Place::Decaying) => {
                if place == Place::Decaying {
                    self.decaying.remove(&mut self.flows, f);
                    self.counts[DECAYING] -= 1;
                }
                self.new.push_back(&mut self.flows, f);
                self.counts[SPARSE] += 1;
                self.flows[f].deficit = self.turn(mode, f, quantum, rng);
                self.flows[f].place = Place::Sparse;
            }
            Place::Waiting => self.become_bulk(mode, f),
            Place::Sparse | Place::Bulk => {}
        }
    }

    fn become_bulk(&mut self, mode: FlowMode, f: usize) {
        self.counts[SPARSE] -= 1;
        self.counts[BULK] += 1;
        self.count_hosts(mode, f, true);
        self.flows[f].place = Place::Bulk;
    }

    /// The flow whose turn it is, and on which list; those that decay come first if `decaying`, else last.
    #[inline]
    pub fn next(&self, decaying: bool) -> Option<(usize, Rota)> {
        let lists = [(&self.new, Rota::New), (&self.old, Rota::Old), (&self.decaying, Rota::Decaying)];
        if decaying && let Some(f) = self.decaying.first() {
            return Some((f, Rota::Decaying));
        }
        lists.into_iter().find_map(|(list, rota)| list.first().map(|f| (f, rota)))
    }

    fn rota(&mut self, rota: Rota) -> &mut Turns {
        match rota {
            Rota::New => &mut self.new,
            Rota::Old => &mut self.old,
            Rota::Decaying => &mut self.decaying,
        }
    }

    fn unlist(&mut self, f: usize, rota: Rota) {
        let mut list = *self.rota(rota);
        list.remove(&mut self.flows, f);
        *self.rota(rota) = list;
    }

    /// A flow's turn is used up: it gets another and goes to the end of the old ones.
    #[inline]
    pub(crate) fn rotate(&mut self, mode: FlowMode, f: usize, rota: Rota, quantum: u32, rng: &mut Rng) {
        if self.flows[f].place == Place::Sparse {
            if self.flows[f].packets.is_empty() {
                // It keeps its debt, and counts as sparse until something comes.
                self.flows[f].place = Place::Waiting;
            } else {
                self.become_bulk(mode, f);
            }
        }
        self.flows[f].deficit += self.turn(mode, f, quantum, rng);
        self.unlist(f, rota);
        self.old.push_back(&mut self.flows, f);
    }

    /// A flow was found empty at its turn: it is kept while its law has something to forget.
    pub fn emptied(&mut self, mode: FlowMode, f: usize, rota: Rota, keep: bool) {
        match self.flows[f].place {
            Place::Sparse | Place::Waiting => self.counts[SPARSE] -= 1,
            Place::Bulk => {
                self.counts[BULK] -= 1;
                self.count_hosts(mode, f, false);
            }
            Place::Decaying => self.counts[DECAYING] -= 1,
            Place::None => {}
        }
        self.unlist(f, rota);
        if keep {
            self.decaying.push_back(&mut self.flows, f);
            self.counts[DECAYING] += 1;
            self.flows[f].place = Place::Decaying;
        } else {
            self.flows[f].place = Place::None;
        }
    }

    /// Whether any flow counts as sparse or bulk: only then may something wait here.
    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
        self.counts[SPARSE] + self.counts[BULK] > 0
    }
}

/// The hash values of a packet. A class that names this qdisc overrides that of the flow by its minor and those of both
/// hosts by its major number, where they are numbers of queues.
pub(super) fn hashes_of(m: &Meta, class: Option<ClassId>, p: &Pkt, pool: &Pool) -> Hashes {
    let hosts = pool.detail(p).map_or([0, 0], |d| [d.src_host, d.dst_host]);
    let mut hashes = Hashes { flow: m.hash, hosts };
    // The class is that of a filter: the one in the priority chooses the tin.
    if class.is_some_and(|c| c.major() == m.class.major()) {
        let number = |n: u16| (1..=FLOWS as u32).contains(&u32::from(n)).then(|| u32::from(n) - 1);
        hashes.flow = number(m.class.minor()).unwrap_or(hashes.flow);
        hashes.hosts = number(m.class.major()).map_or(hashes.hosts, |host| [host, host]);
    }
    hashes
}
