//! The flows of a tin: a set-associative hash of eight ways, and turns by deficit round robin in
//! which flows that send little come first and hosts share before their flows do (DRR++; "Piece of
//! CAKE", section III-B and III-C).

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::handle::{ClassId, Handle};
use crate::base::rng::Rng;
use crate::law::cobalt::CobaltState;
use crate::law::deficit::rounds_in_debt;
use crate::packet::meta::Meta;
use crate::packet::pool::List;
use crate::qdisc::cake::config::FlowMode;

/// Queues of a tin.
pub const FLOWS: usize = 1024;

/// Queues that a flow may take: that of its hash, or another of the same set.
const WAYS: u32 = 8;

/// "None" in a link.
const NIL: u16 = u16::MAX;

/// State of a flow in the rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On no list: no packet waits and the law is at rest.
    #[default]
    None,
    /// On the list of new flows: it has sent less than its turn.
    Sparse,
    /// On the list of old flows, found empty with its turn used up: still counted as sparse.
    Waiting,
    /// On the list of old flows.
    Bulk,
    /// On the list of flows that are empty and whose law is not at rest.
    Decaying,
}

/// A flow's queue: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Flow {
    /// Waiting packets.
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
    /// State in the rotation.
    pub place: Place,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow fills exactly one cache line");

/// A slot for two hosts, one as a source and one as a destination.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tags: [u32; 2],
    /// Bulk flows of the source host, and of the destination host.
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

    /// Returns the flow whose turn it is.
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

/// One of the lists of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rota {
    /// Flows that have just begun.
    New,
    /// Flows that have used up a turn.
    Old,
    /// Flows that are empty and remembered.
    Decaying,
}

/// Counters of the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Packets whose flow was in another queue than that of its hash.
    pub indirect: u32,
    /// Flows that took a new queue.
    pub misses: u32,
    /// Flows that took over a queue in use, because all of their set were.
    pub collisions: u32,
}

/// The hash values of a packet's flow and of its two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Hashes {
    /// Hash of the flow.
    pub flow: u32,
    /// Hashes of the source and of the destination.
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
    /// Counters of the hash.
    pub ways: Ways,
    /// True if the tables come with the first packet: until then they are empty.
    lazy: bool,
}

/// Index in `Flows::counts` of the sparse flows.
pub const SPARSE: usize = 0;
/// Index in `Flows::counts` of the bulk flows.
pub const BULK: usize = 1;
/// Index in `Flows::counts` of the decaying flows.
pub(crate) const DECAYING: usize = 2;

/// `65535 / n`: a table instead of a division, for a turn over the number of flows of the busier
/// host.
static PARTS: [u16; FLOWS + 1] = parts();

const fn parts() -> [u16; FLOWS + 1] {
    let mut parts = [u16::MAX; FLOWS + 1];
    let mut n = 1;
    // Bound: `FLOWS` turns, in the compiler.
    while n <= FLOWS {
        parts[n] = u16::MAX / n as u16;
        n += 1;
    }
    parts
}

impl FlowMode {
    /// Returns true if the five-tuple makes a flow, and true for each side on which hosts are
    /// distinguished.
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
    /// Returns the hash that distinguishes flows.
    pub const fn key(self, h: &Hashes) -> u32 {
        match self.bits() {
            (true, _) => h.flow,
            (false, [src, dst]) => (if src { h.hosts[0] } else { 0 }) ^ (if dst { h.hosts[1] } else { 0 }),
        }
    }
    /// True if the five-tuple makes a flow.
    pub const fn tells_flows(self) -> bool {
        self.bits().0
    }
    /// Returns true for each side on which hosts share turns: sources, destinations.
    const fn shares(self) -> [bool; 2] {
        match self.bits() {
            (true, hosts) => hosts,
            (false, _) => [false, false],
        }
    }
}

impl Flows {
    /// Returns tables without flows. With `lazy` they take their memory with the first packet.
    pub fn new(lazy: bool) -> Self {
        let mut empty = Self {
            flows: Vec::new(),
            tags: Vec::new(),
            hosts: Vec::new(),
            new: Turns::EMPTY,
            old: Turns::EMPTY,
            decaying: Turns::EMPTY,
            counts: [0; 3],
            ways: Ways::default(),
            lazy,
        };
        if !lazy {
            empty.take_memory();
        }
        empty
    }

    /// Takes the memory of the tables.
    #[cold]
    fn take_memory(&mut self) {
        self.flows.resize_with(FLOWS, Flow::default);
        self.tags.resize(FLOWS, 0);
        self.hosts.resize(FLOWS, Host::default());
    }

    /// Resets everything but the counters. No packets wait.
    pub fn reset(&mut self) {
        *self = Self { ways: self.ways, ..Self::new(self.lazy) };
    }

    /// Returns the queue of a packet. O(1): at most three passes over a set.
    #[inline]
    pub fn find(&mut self, mode: FlowMode, h: &Hashes) -> usize {
        let key = mode.key(h);
        let direct = key as usize % FLOWS;
        if mode != FlowMode::Flowblind
            && self.tags.get(direct) == Some(&key)
            && self.flows[direct].place != Place::None
        {
            return direct;
        }
        self.find_in_set(mode, h, key)
    }

    /// Returns the queue that a flow has or had, by the key of its hash; `None` if there is none.
    pub fn known(&self, key: u32) -> Option<usize> {
        let set = key as usize % FLOWS / WAYS as usize * WAYS as usize;
        (set..set + WAYS as usize).find(|f| self.tags.get(*f) == Some(&key))
    }

    fn find_in_set(&mut self, mode: FlowMode, h: &Hashes, key: u32) -> usize {
        if self.tags.is_empty() {
            self.take_memory();
        }
        if mode == FlowMode::Flowblind {
            return 0;
        }
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
            // All eight are busy: two flows share a queue, which gets the hosts of the newcomer.
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

    /// Returns the slot of a host: its own, or one of its set whose host has no bulk flows, or the
    /// first way.
    fn host(&mut self, side: usize, hash: u32) -> u16 {
        let set = hash % FLOWS as u32;
        let way = |i: u32| (set - set % WAYS + (set % WAYS + i) % WAYS) as usize;
        let own = (0..WAYS).find(|i| self.hosts[way(*i)].tags[side] == hash);
        let free = |i: &u32| self.hosts[way(*i)].bulk[side] == 0;
        let slot = way(own.or_else(|| (0..WAYS).find(free)).unwrap_or(0));
        self.hosts[slot].tags[side] = hash;
        slot as u16 // below FLOWS
    }

    /// Adds a bulk flow to its hosts' counts, or removes it.
    #[inline]
    fn count_hosts(&mut self, mode: FlowMode, f: usize, more: bool) {
        for (side, _) in mode.shares().into_iter().enumerate().filter(|(_, shares)| *shares) {
            let slot = usize::from(self.flows[f].hosts[side]) % FLOWS;
            if let Some(bulk) = self.hosts[slot].bulk.get_mut(side) {
                *bulk = if more { (*bulk + 1).min(FLOWS as u16) } else { bulk.saturating_sub(1) };
            }
        }
    }

    /// Returns the bytes that a flow may send in a turn: its part of its busier host's turn. A
    /// random number rounds them up or down, so that they are right on average.
    #[inline]
    pub fn turn(&self, mode: FlowMode, f: usize, quantum: u32, rng: &mut Rng) -> i32 {
        let draw = rng.next_u64() as u32 & 0xffff;
        // At most 1514 times 65535 plus a 16-bit number: it fits 31 bits.
        ((self.fraction(mode, f, quantum) + draw) >> 16).cast_signed()
    }

    /// Returns the bytes of a turn of a flow, times 65536: the quantum, shared by the flows of its
    /// host.
    #[inline]
    fn fraction(&self, mode: FlowMode, f: usize, quantum: u32) -> u32 {
        let mut load = 1;
        for ((host, shares), side) in self.flows[f].hosts.iter().zip(mode.shares()).zip(0..) {
            if shares {
                load = load.max(self.hosts[usize::from(*host) % FLOWS].bulk[side]);
            }
        }
        quantum * u32::from(PARTS[usize::from(load).min(FLOWS)])
    }

    /// Gives each old flow its turns of the rounds in which no flow can send, with one draw for all
    /// of them; of no round while a flow is new, or counts as sparse, since the round changes that.
    #[cold]
    pub(crate) fn skip_rounds(&mut self, mode: FlowMode, quantum: u32, rng: &mut Rng) {
        if self.new.first().is_some() {
            return;
        }
        let (mut rounds, mut at) = (u32::MAX, self.old.first());
        let mut bound = Bound::of(FLOWS);
        while let Some(f) = at {
            bound.turn();
            let flow = &self.flows[f];
            if flow.place == Place::Sparse {
                return;
            }
            let most = self.fraction(mode, f, quantum).div_ceil(1 << 16).cast_signed();
            rounds = rounds.min(rounds_in_debt(flow.deficit, most));
            at = (flow.next != NIL).then_some(usize::from(flow.next));
        }
        at = self.old.first();
        let mut bound = Bound::of(FLOWS);
        while let Some(f) = at {
            bound.turn();
            let draw = rng.next_u64() & 0xffff;
            let given = (u64::from(rounds) * u64::from(self.fraction(mode, f, quantum)) + draw) >> 16;
            let flow = &mut self.flows[f];
            // A debt of at least as many turns: the sum is at most 0.
            flow.deficit = flow.deficit.saturating_add_unsigned(u32::try_from(given).unwrap_or(u32::MAX));
            at = (flow.next != NIL).then_some(usize::from(flow.next));
        }
    }

    /// Gives a flow its place among the turns after a packet has come into it.
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

    /// Returns the flow whose turn it is, and its list; decaying flows come first if `decaying`,
    /// else last.
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

    /// Ends a flow's turn: it gets another and goes to the end of the old ones.
    #[inline]
    pub(crate) fn rotate(&mut self, mode: FlowMode, f: usize, rota: Rota, quantum: u32, rng: &mut Rng) {
        if self.flows[f].place == Place::Sparse {
            if self.flows[f].packets.is_empty() {
                // It keeps its debt, and counts as sparse until a packet comes.
                self.flows[f].place = Place::Waiting;
            } else {
                self.become_bulk(mode, f);
            }
        }
        self.flows[f].deficit += self.turn(mode, f, quantum, rng);
        self.unlist(f, rota);
        self.old.push_back(&mut self.flows, f);
    }

    /// Removes a flow found empty at its turn from its list; with `keep` it decays until its law is
    /// at rest.
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

    /// True if any flow counts as sparse or bulk: only then may packets wait here.
    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
        self.counts[SPARSE] + self.counts[BULK] > 0
    }
}

/// Returns the hash values of a packet, given those of its hosts. A class of this qdisc overrides
/// the flow's hash by its minor number and those of both hosts by its major number, where they are
/// numbers of queues.
pub(super) fn hashes_of(m: &Meta, class: Option<ClassId>, hosts: [u32; 2]) -> Hashes {
    let mut hashes = Hashes { flow: m.hash, hosts };
    // Only a filter's class counts here: the class in the priority chooses the tin. The metadata
    // has the filter's class once the packet is queued.
    let by_filter = match class {
        Some(c) if c != Handle(m.priority) => c,
        Some(c) if c.major() == m.class.major() => m.class,
        _ => return hashes,
    };
    let number = |n: u16| (1..=FLOWS as u32).contains(&u32::from(n)).then(|| u32::from(n) - 1);
    hashes.flow = number(by_filter.minor()).unwrap_or(hashes.flow);
    hashes.hosts = number(by_filter.major()).map_or(hashes.hosts, |host| [host, host]);
    hashes
}
