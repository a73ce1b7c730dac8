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
use crate::packet::scouts::{AHEAD, Scouts, Way};
use crate::sched::answer::Next;
use crate::sched::cx::Cx;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Least quantum: Linux raises smaller ones to it silently.
pub(crate) const QUANTUM_MIN: u32 = 256;
/// Greatest quantum that the kernel accepts.
pub(crate) const QUANTUM_MAX: u32 = 1 << 20;

/// "No flow" at the front of a list.
const NIL: u32 = u32::MAX;

/// Number of flows from which on memory is asked for ahead: fewer stay in the caches.
const ASKS_FROM: u32 = 8192;
/// A flow, with what its law keeps of it: whole cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Flow<L> {
    pub(crate) packets: List,
    pub(crate) deficit: i32,
    listed: bool,
    pub(crate) law: L,
}

impl<L> Flow<L> {
    /// True if it is on one of the two lists, or has packets.
    pub(crate) const fn is_shown(&self) -> bool {
        self.listed || !self.packets.is_empty()
    }
}

/// Flows in the order of their turns: a ring of their numbers, so that those of the next turns are
/// known without their memory.
#[derive(Debug)]
struct Turns {
    /// No places before `take_memory`, then a power of two, at least one for each flow.
    ring: Vec<u32>,
    head: u32,
    len: u32,
    /// The flow at the front; `NIL` if there is none.
    front: u32,
}

impl Turns {
    const fn new() -> Self {
        Self { ring: Vec::new(), head: 0, len: 0, front: NIL }
    }
    /// Returns the number of places for `flows` flows.
    const fn places(flows: u32) -> usize {
        flows.next_power_of_two() as usize
    }
    const fn clear(&mut self) {
        (self.head, self.len, self.front) = (0, 0, NIL);
    }
    /// Returns the flow that has its turn `n` turns from now.
    #[inline]
    fn nth(&self, n: u32) -> Option<u32> {
        let mask = self.ring.len().wrapping_sub(1);
        if n < self.len { self.ring.get(self.head.wrapping_add(n) as usize & mask).copied() } else { None }
    }
    /// Appends a flow that is on no list: there is a place for each.
    #[inline(always)]
    fn push_back(&mut self, f: u32) {
        let mask = self.ring.len().wrapping_sub(1);
        if let Some(place) = self.ring.get_mut(self.head.wrapping_add(self.len) as usize & mask) {
            *place = f;
            if self.len == 0 {
                self.front = f;
            }
            self.len += 1;
        }
    }
    /// Takes off the flow at the front, which is there.
    #[inline(always)]
    fn pop_front(&mut self) {
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        self.front = self.nth(0).unwrap_or(NIL);
    }
    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len).filter_map(|n| self.nth(n))
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
    /// True if memory is asked for ahead.
    asks: bool,
    scouts: Scouts,
}

impl<L: Default> FlowTable<L> {
    /// Returns a table of `count` flows, which has no memory yet. A `quantum` is in bytes, 1 to
    /// 2^20.
    pub(crate) fn new(count: u32, quantum: u32) -> Self {
        let (new, old) = (Turns::new(), Turns::new());
        let (flows, asks, scouts) = (Vec::new(), count >= ASKS_FROM, Scouts::default());
        Self { flows, count, new, old, quantum: quantum as i32, asks, scouts }
    }
    /// Takes the memory of the flows.
    pub(crate) fn take_memory(&mut self) {
        self.flows.resize_with(self.count as usize, Flow::default);
        for turns in [&mut self.new, &mut self.old] {
            turns.ring.resize(Turns::places(self.count), 0);
        }
    }
    /// Returns the bytes of a table of `count` flows.
    pub(crate) fn memory(count: u32) -> u64 {
        u64::from(count) * size_of::<Flow<L>>() as u64 + 2 * 4 * Turns::places(count) as u64
    }
    /// Forgets all flows, of which none has packets; without their memory if it comes back with the
    /// first packet (`lazy`).
    pub(crate) fn reset(&mut self, lazy: bool) {
        if lazy {
            (self.new, self.old, self.flows) = (Turns::new(), Turns::new(), Vec::new());
        } else {
            self.new.clear();
            self.old.clear();
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
        self.new.front == NIL && self.old.front == NIL
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
        self.new.push_back(f);
        true
    }

    /// Asks for the memory that a packet of this flow will touch when it is queued: the flow in
    /// step 0, then its last packet. Returns true if there is another step.
    #[inline]
    pub(crate) fn expect(&self, f: u32, step: u32, pool: &Pool) -> bool {
        if step == 0 {
            txweir_ahead::element(&self.flows, f as usize);
            return true;
        }
        if let Some(flow) = self.flows.get(f as usize) {
            flow.packets.ask_last(pool);
        }
        false
    }

    /// Returns the packet of the flow whose turn it is. `take` takes the next packet, and its
    /// bytes, out of a flow.
    #[inline]
    pub(crate) fn next(
        &mut self,
        cx: &mut Cx,
        mut take: impl FnMut(u32, &mut Flow<L>, &mut Cx) -> Option<(Pkt, u32)>,
    ) -> Next {
        let mut passes = Passes::new();
        // Beside the turns of `Passes`, each takes a flow off the list of new flows or of old ones.
        let mut bound = Bound::of(2 * self.flows.len() + 1);
        loop {
            let from_new = self.new.front != NIL;
            let f = if from_new { self.new.front } else { self.old.front };
            if f == NIL {
                return Next::Empty;
            }
            let flow = &mut self.flows[f as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.turn(from_new);
                self.old.push_back(f);
                if passes.is_long() {
                    self.skip_rounds();
                }
                continue;
            }
            bound.turn();
            if let Some((p, len)) = take(f, flow, cx) {
                flow.deficit = flow.deficit.saturating_sub_unsigned(len);
                if self.asks {
                    self.scout(f, from_new, &mut cx.pool);
                }
                return Next::Packet(p);
            }
            self.turn(from_new);
            // An emptied new flow waits for its turn among the old ones, so that it cannot starve
            // them by coming back at once (RFC 8290 section 4.2).
            if from_new && self.old.front != NIL {
                self.old.push_back(f);
            } else {
                self.flows[f as usize].listed = false;
            }
        }
    }

    /// Takes the flow at the front of a list off it.
    #[inline]
    fn turn(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.pop_front();
    }

    /// Asks for the memory of packets that leave after one of this flow, and of their flows.
    #[inline(never)]
    fn scout(&mut self, served: u32, from_new: bool, pool: &mut Pool) {
        let Self { flows, new, old, scouts, .. } = self;
        let turns = if from_new { new } else { old };
        let way = |f, step, _, pool: &mut Pool| match (step, flows.get(f as usize)) {
            (0, Some(flow)) => {
                txweir_ahead::first_line(flow);
                Way::More
            }
            (1, Some(flow)) => flow.packets.ask_first(pool).map_or(Way::End, Way::Packet),
            _ => Way::End,
        };
        scouts.go_on(served, || turns.nth(AHEAD), way, pool);
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

    /// Gives each listed flow the quanta of the rounds in which no flow can send; of no round while
    /// a flow is on the list of new ones, which the round empties.
    #[cold]
    fn skip_rounds(&mut self) {
        if self.new.front != NIL {
            return;
        }
        let Self { flows, old, quantum, .. } = self;
        let in_debt = old.iter().filter_map(|f| flows.get(f as usize));
        let rounds = in_debt.map(|flow| rounds_in_debt(flow.deficit, *quantum)).min().unwrap_or(0);
        for f in old.iter() {
            if let Some(flow) = flows.get_mut(f as usize) {
                // A debt of at least as many quanta: the sum is at most 0.
                flow.deficit = flow.deficit.saturating_add_unsigned(rounds * quantum.unsigned_abs());
            }
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

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;
    use crate::base::rng::Rng;

    /// Compares the ring with a queue, at each length, around its end, and after it was cleared.
    #[test]
    fn turns_are_a_queue() {
        for flows in [1, 5, 8] {
            let (mut turns, mut model, mut rng) = (Turns::new(), VecDeque::new(), Rng::new(9));
            turns.push_back(0);
            assert_eq!((turns.front, turns.len), (NIL, 0), "no place before the memory");
            turns.ring.resize(Turns::places(flows), 0);
            for i in 0..2000 {
                if i % 500 == 499 {
                    turns.clear();
                    model.clear();
                }
                if rng.below(2) == 0 && model.len() < flows as usize {
                    turns.push_back(i);
                    model.push_back(i);
                } else if model.pop_front().is_some() {
                    turns.pop_front();
                }
                assert_eq!(turns.front, model.front().copied().unwrap_or(NIL));
                assert_eq!(turns.iter().collect::<Vec<_>>(), Vec::from(model.clone()));
                assert_eq!((turns.len as usize, turns.nth(turns.len)), (model.len(), None));
            }
        }
    }
}
