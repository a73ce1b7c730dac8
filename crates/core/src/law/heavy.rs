//! Heavy hitters on numbers: flows that send much are found by counters that several flows share,
//! in memory that does not grow with the number of flows (C. Estan and G. Varghese, "New Directions
//! in Traffic Measurement and Accounting", SIGCOMM 2002: multistage filters with conservative
//! update and shielding).
//!
//! - I1: a flow that has sent more than the threshold since the counters were cleared is found with
//!   its next packet, unless the table of found flows is full.
//! - I2: a flow that was found stays so while it sends at least once in a timeout.
//! - I3: never more than the limit of flows are in the table.

use alloc::vec;
use alloc::vec::Vec;

use crate::base::bound::Bound;

/// Counters that a packet of a flow is counted in, one of each array.
const ARRAYS: usize = 4;
/// Counters of an array, and chains of the table.
const SLOTS: usize = 1024;
const MASK: u32 = SLOTS as u32 - 1;
/// No flow.
const NONE: u32 = u32::MAX;

/// The thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Bytes beyond which a flow is a heavy hitter.
    pub bytes: u32,
    /// Ticks after which the counters are cleared.
    pub clear: u64,
    /// Ticks of silence after which a heavy hitter is forgotten.
    pub forget: u64,
    /// Most heavy hitters.
    pub flows: u32,
}

/// A found flow: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Flow {
    seen: u64,
    hash: u32,
    next: u32,
}

/// The counters and the table.
#[derive(Clone, Debug)]
pub struct Heavy {
    thresholds: Thresholds,
    counters: Vec<[u32; SLOTS]>,
    cleared: u64,
    chains: Vec<u32>,
    flows: Vec<Flow>,
    spare: u32,
    count: u32,
    found: u32,
    refused: u32,
}

impl Heavy {
    /// Bytes of the counters and the chains, and those of a flow in the table.
    pub const BYTES: (u64, u64) = ((ARRAYS as u64 + 1) * SLOTS as u64 * 4, 24);

    /// Returns empty counters at this tick. Allocates the table.
    pub fn new(thresholds: Thresholds, now: u64) -> Self {
        let mut heavy = Self {
            thresholds,
            counters: vec![[0; SLOTS]; ARRAYS],
            cleared: now,
            chains: vec![NONE; SLOTS],
            flows: Vec::new(),
            spare: NONE,
            count: 0,
            found: 0,
            refused: 0,
        };
        heavy.set(thresholds);
        heavy
    }
    /// Sets the thresholds. Allocates, if more flows are to be found.
    pub fn set(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
        self.flows.reserve((thresholds.flows as usize).saturating_sub(self.flows.len()));
    }
    /// Forgets all flows, and clears the counters at this tick. The counts of flows stay.
    pub fn reset(&mut self, now: u64) {
        self.counters.iter_mut().for_each(|array| array.fill(0));
        self.cleared = now;
        self.chains.fill(NONE);
        self.flows.clear();
        (self.spare, self.count) = (NONE, 0);
    }
    /// Returns the flows in the table, those found so far, and those that had no place.
    pub const fn counts(&self) -> (u32, u32, u32) {
        (self.count, self.found, self.refused)
    }
    /// Counts a packet of a flow with this hash. Returns true if the flow is a heavy hitter.
    pub fn count(&mut self, hash: u32, bytes: u32, now: u64) -> bool {
        if self.cleared + self.thresholds.clear < now {
            self.counters.iter_mut().for_each(|array| array.fill(0));
            self.cleared = now;
        }
        let chain = (hash & MASK) as usize;
        if let Some(i) = self.seek(chain, hash, now) {
            self.flows[i as usize].seen = now;
            return true;
        }
        // Three chunks of ten bits, and all of them together with the bits that are left.
        let chunks = [hash & MASK, hash >> 10 & MASK, hash >> 20 & MASK];
        let last = chunks[0] ^ chunks[1] ^ chunks[2] ^ hash >> 30;
        let slots = [chunks[0], chunks[1], chunks[2], last].map(|slot| slot as usize);
        let mut least = u32::MAX;
        for (array, slot) in self.counters.iter().zip(slots) {
            least = least.min(array[slot].saturating_add(bytes));
        }
        if least > self.thresholds.bytes {
            // Its counters stay as they are, and shield the flows that share them.
            return self.enter(chain, hash, now);
        }
        for (array, slot) in self.counters.iter_mut().zip(slots) {
            array[slot] = array[slot].max(least);
        }
        false
    }
    fn is_over(&self, i: u32, now: u64) -> bool {
        self.flows[i as usize].seen + self.thresholds.forget < now
    }
    /// Looks a flow up, and takes those that are over off its chain, but for the last.
    fn seek(&mut self, chain: usize, hash: u32, now: u64) -> Option<u32> {
        let (mut before, mut at) = (NONE, self.chains[chain]);
        let mut bound = Bound::of(self.flows.len() + 1);
        while at != NONE {
            bound.turn();
            let Flow { hash: of, next, .. } = self.flows[at as usize];
            if self.is_over(at, now) {
                if next == NONE {
                    return None;
                }
                match self.flows.get_mut(before as usize) {
                    Some(before) => before.next = next,
                    None => self.chains[chain] = next,
                }
                self.flows[at as usize].next = core::mem::replace(&mut self.spare, at);
                self.count -= 1;
            } else if of == hash {
                return Some(at);
            } else {
                before = at;
            }
            at = next;
        }
        None
    }
    /// Puts a new heavy hitter into the table: in the place of one that is over, or at the end of
    /// its chain. Returns false if there is no place.
    fn enter(&mut self, chain: usize, hash: u32, now: u64) -> bool {
        let (mut last, mut at) = (NONE, self.chains[chain]);
        let mut bound = Bound::of(self.flows.len() + 1);
        while at != NONE && !self.is_over(at, now) {
            bound.turn();
            (last, at) = (at, self.flows[at as usize].next);
        }
        if at == NONE {
            if self.count >= self.thresholds.flows {
                self.refused = self.refused.wrapping_add(1);
                return false;
            }
            at = self.take_spare();
            self.count += 1;
            match self.flows.get_mut(last as usize) {
                Some(last) => last.next = at,
                None => self.chains[chain] = at,
            }
        }
        let flow = &mut self.flows[at as usize];
        (flow.hash, flow.seen) = (hash, now);
        self.found = self.found.wrapping_add(1);
        true
    }
    fn take_spare(&mut self) -> u32 {
        let at = self.spare;
        if at == NONE {
            // `set` has reserved the place. Places are fewer than flows can be, 2^32.
            self.flows.push(Flow { seen: 0, hash: 0, next: NONE });
            return self.flows.len() as u32 - 1;
        }
        self.spare = core::mem::replace(&mut self.flows[at as usize].next, NONE);
        at
    }
}
