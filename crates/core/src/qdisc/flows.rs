//! The flows of fq_codel and fq_pie: the choice of a packet's flow, and turns by deficit round
//! robin in which a flow that has just begun goes first (RFC 8290 sections 4.1, 4.2). The kind
//! keeps the law of each flow in it.
//!
//! - I1: packets of one flow leave in order of arrival.
//! - I2: a flow is on exactly one of the two lists while it has packets, and on none once it was
//!   found empty on the list of old flows.
//! - I3: between two turns of a backlogged flow every other backlogged flow has a turn; a turn
//!   sends at most a quantum and one packet.

use alloc::format;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::handle::ClassId;
use crate::law::deficit::{Passes, rounds_in_debt};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::sched::answer::Next;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Least quantum: Linux raises smaller ones to it silently.
pub(crate) const QUANTUM_MIN: u32 = 256;
/// Greatest quantum that the kernel accepts.
pub(crate) const QUANTUM_MAX: u32 = 1 << 20;

/// "No flow" in a link.
const NIL: u32 = u32::MAX;

/// A flow, with what its law keeps of it: whole cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Flow<L> {
    pub(crate) packets: List,
    pub(crate) deficit: i32,
    /// The next flow on the same list.
    link: u32,
    listed: bool,
    pub(crate) law: L,
}

impl<L> Flow<L> {
    /// True if it is on one of the two lists, or has packets.
    pub(crate) const fn is_shown(&self) -> bool {
        self.listed || !self.packets.is_empty()
    }
}

/// A list of flows, threaded through their `link`s.
#[derive(Debug)]
struct Turns {
    head: u32,
    tail: u32,
    len: u32,
}

impl Turns {
    const fn new() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
    #[inline]
    fn push_back<L>(&mut self, flows: &mut [Flow<L>], f: u32) {
        flows[f as usize].link = NIL;
        match self.head {
            NIL => self.head = f,
            _ => flows[self.tail as usize].link = f,
        }
        self.tail = f;
        self.len += 1;
    }
    #[inline]
    fn pop_front<L>(&mut self, flows: &[Flow<L>]) {
        if let Some(flow) = flows.get(self.head as usize) {
            self.head = flow.link;
            self.len -= 1;
        }
    }
}

/// The flows of a qdisc, and their turns.
#[derive(Debug)]
pub(crate) struct FlowTable<L> {
    /// The flows; none before `take_memory`.
    flows: Vec<Flow<L>>,
    /// Number of flows.
    count: u32,
    new: Turns,
    old: Turns,
    quantum: i32,
}

impl<L: Default> FlowTable<L> {
    /// Returns a table of `count` flows, which has no memory yet. A `quantum` is in bytes, 1 to
    /// 2^20.
    pub(crate) const fn new(count: u32, quantum: u32) -> Self {
        Self { flows: Vec::new(), count, new: Turns::new(), old: Turns::new(), quantum: quantum as i32 }
    }
    /// Takes the memory of the flows.
    pub(crate) fn take_memory(&mut self) {
        self.flows.resize_with(self.count as usize, Flow::default);
    }
    /// Forgets all flows, of which none has packets; without their memory if it comes back with the
    /// first packet (`lazy`).
    pub(crate) fn reset(&mut self, lazy: bool) {
        (self.new, self.old) = (Turns::new(), Turns::new());
        if lazy {
            self.flows = Vec::new();
        } else {
            self.flows.fill_with(Flow::default);
        }
    }
    /// Sets the bytes that a flow may send per turn.
    pub(crate) const fn set_quantum(&mut self, quantum: u32) {
        self.quantum = quantum as i32;
    }

    /// Returns the packet's flow: the one that `class` names, else the one of its hash.
    #[inline]
    pub(crate) fn flow_of(&self, m: &Meta, class: Option<ClassId>) -> u32 {
        let n = self.count;
        match class.map(|c| u32::from(c.minor())) {
            Some(minor) if (1..=n).contains(&minor) => minor - 1,
            _ => ((u64::from(m.hash) * u64::from(n)) >> 32) as u32,
        }
    }
    /// Returns the class that names a flow; `None` if `class` names none.
    pub(crate) fn named(&self, class: Option<ClassId>) -> Option<ClassId> {
        class.filter(|c| (1..=self.count).contains(&u32::from(c.minor())))
    }

    /// Returns the flows; none before `take_memory`.
    #[inline]
    pub(crate) fn flows(&self) -> &[Flow<L>] {
        &self.flows
    }
    /// Returns the flows, to change the state of their laws and to take packets out.
    #[inline]
    pub(crate) fn flows_mut(&mut self) -> &mut [Flow<L>] {
        &mut self.flows
    }
    /// Returns the number of flows on the list of new flows, and on that of old ones.
    pub(crate) const fn listed(&self) -> [u32; 2] {
        [self.new.len, self.old.len]
    }
    /// True if no flow is on a list.
    #[inline]
    pub(crate) const fn is_idle(&self) -> bool {
        self.new.head == NIL && self.old.head == NIL
    }

    /// Lists a flow that has just got a packet, if it is on no list: as a new flow. Returns true
    /// then.
    #[inline]
    pub(crate) fn list(&mut self, f: u32) -> bool {
        let flow = &mut self.flows[f as usize];
        if flow.listed {
            return false;
        }
        flow.listed = true;
        flow.deficit = self.quantum;
        self.new.push_back(&mut self.flows, f);
        true
    }

    /// Returns the packet of the flow whose turn it is. `take` takes the next packet, and its
    /// bytes, out of a flow.
    #[inline]
    pub(crate) fn next(&mut self, mut take: impl FnMut(u32, &mut Flow<L>) -> Option<(Pkt, u32)>) -> Next {
        let mut passes = Passes::new();
        // Beside the turns of `Passes`, each takes a flow off the list of new flows or of old ones.
        let mut bound = Bound::of(2 * self.flows.len() + 1);
        loop {
            let from_new = self.new.head != NIL;
            let f = if from_new { self.new.head } else { self.old.head };
            if f == NIL {
                return Next::Empty;
            }
            let flow = &mut self.flows[f as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.turn(from_new);
                self.old.push_back(&mut self.flows, f);
                if passes.is_long() {
                    self.skip_rounds();
                }
                continue;
            }
            bound.turn();
            if let Some((p, len)) = take(f, flow) {
                flow.deficit = flow.deficit.saturating_sub_unsigned(len);
                return Next::Packet(p);
            }
            self.turn(from_new);
            // An emptied new flow waits for its turn among the old ones, so that it cannot starve
            // them by coming back at once (RFC 8290 section 4.2).
            if from_new && self.old.head != NIL {
                self.old.push_back(&mut self.flows, f);
            } else {
                self.flows[f as usize].listed = false;
            }
        }
    }

    /// Moves every packet to the back of `out`. The flows keep their places: an empty one on a list
    /// is found empty when its turn comes.
    pub(crate) fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        for flow in &mut self.flows {
            out.append(pool, &mut flow.packets);
        }
    }
    /// Calls `f` on every packet that `evict_all` would move.
    pub(crate) fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.flows.iter().flat_map(|flow| flow.packets.waiting(pool)).for_each(f);
    }

    /// Takes the flow at the front of a list off it.
    #[inline]
    fn turn(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.pop_front(&self.flows);
    }

    /// Gives each listed flow the quanta of the rounds in which no flow can send; of no round while
    /// a flow is on the list of new ones, which the round empties.
    #[cold]
    fn skip_rounds(&mut self) {
        if self.new.head != NIL {
            return;
        }
        let (mut rounds, mut at) = (u32::MAX, self.old.head);
        let mut bound = Bound::of(self.flows.len());
        while let Some(flow) = self.flows.get(at as usize) {
            bound.turn();
            rounds = rounds.min(rounds_in_debt(flow.deficit, self.quantum));
            at = flow.link;
        }
        at = self.old.head;
        let mut bound = Bound::of(self.flows.len());
        while let Some(flow) = self.flows.get_mut(at as usize) {
            bound.turn();
            // A debt of at least as many quanta: the sum is at most 0.
            flow.deficit = flow.deficit.saturating_add_unsigned(rounds * self.quantum.unsigned_abs());
            at = flow.link;
        }
    }
}

/// Memory of a waiting packet beside its frame, in bytes: its slot in the pool.
pub(crate) const SLOT_BYTES: u64 = 64;

/// Returns the memory that a waiting packet takes, as `memory_limit` counts it.
pub(crate) fn memory_of(m: &Meta) -> u64 {
    u64::from(m.len) + SLOT_BYTES
}

/// Refuses a change of the number of flows of a qdisc that runs.
pub(crate) fn keeps_flows(kind: &'static str, old: u32, new: u32) -> Result<(), ConfigError> {
    if old == new {
        return Ok(());
    }
    let expected = format!("{old}, as it is (it cannot change while running)");
    Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(kind), expected, new).key("flows"))
}
