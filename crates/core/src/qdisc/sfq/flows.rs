//! The flows of sfq: slots that are in use or free, a ring of turns, and a list for each length.

use alloc::vec::Vec;

use super::DEPTH_MAX;
use crate::base::bound::Bound;
use crate::packet::pool::{Deque, List, Pkt, Pool, Waiting};
use crate::packet::reason::MarkReason;
use crate::sched::cx::Cx;

/// Marks the end of a list, and a bucket without a slot.
pub const NIL: u32 = u32::MAX;

/// Number of possible lengths of a flow: 0 to one above `DEPTH_MAX`, reached while a packet makes
/// room for another.
const LENGTHS: usize = DEPTH_MAX as usize + 2;

/// A flow in its slot.
#[derive(Debug, Default)]
pub struct Flow {
    packets: Deque,
    pub bytes: u64,
    /// Bytes that it may still send in this turn.
    pub allot: i64,
    pub bucket: u32,
    pub len: u32,
    /// The next slot on the ring; for a free slot, the next free one.
    turn: u32,
    /// Its neighbours among the flows of the same length.
    up: u32,
    down: u32,
}

const _: () = assert!(size_of::<Flow>() <= 48, "a flow is smaller than a cache line");

/// All slots.
#[derive(Debug)]
pub struct Flows {
    slots: Vec<Flow>,
    /// The slot of each bucket, `NIL` if no packet waits in it.
    buckets: Vec<u32>,
    /// For each length, the flow that reached it last.
    by_len: [u32; LENGTHS],
    /// The greatest length of any flow.
    longest: u32,
    /// The last flow on the ring; the one after it is at the front.
    tail: u32,
    /// The first free slot.
    free: u32,
    in_use: u32,
}

impl Flows {
    /// Returns `slots` free slots for `buckets` buckets.
    pub fn new(slots: u32, buckets: u32) -> Self {
        let mut flows = Self {
            slots: Vec::new(),
            buckets: alloc::vec![NIL; buckets as usize],
            by_len: [NIL; LENGTHS],
            longest: 0,
            tail: NIL,
            free: 0,
            in_use: 0,
        };
        flows.slots.resize_with(slots as usize, Flow::default);
        flows.clear();
        flows
    }
    /// Frees every slot. The flows hold no packets.
    fn clear(&mut self) {
        let n = self.slots.len() as u32;
        for (next, slot) in (1..).zip(&mut self.slots) {
            slot.turn = if next == n { NIL } else { next };
            slot.len = 0;
        }
        self.buckets.fill(NIL);
        self.by_len = [NIL; LENGTHS];
        (self.longest, self.tail, self.free, self.in_use) = (0, NIL, 0, 0);
    }
    /// Returns the flow of a bucket, `None` if no packet waits in it.
    #[inline]
    pub fn of(&self, bucket: u32) -> Option<u32> {
        Some(self.buckets[bucket as usize]).filter(|f| *f != NIL)
    }
    /// True if no slot is free.
    pub(crate) const fn all_in_use(&self) -> bool {
        self.free == NIL
    }
    /// Returns the state of a flow.
    #[inline]
    pub fn flow(&self, f: u32) -> &Flow {
        &self.slots[f as usize]
    }
    /// Returns the state of a flow, for a change of its allotment.
    #[inline]
    pub(crate) fn flow_mut(&mut self, f: u32) -> &mut Flow {
        &mut self.slots[f as usize]
    }
    /// Gives a bucket a free slot, last on the ring, with the bytes that it may send; a packet must
    /// follow.
    pub fn open(&mut self, bucket: u32, allot: i64) -> Option<u32> {
        let f = self.free;
        let slot = self.slots.get_mut(f as usize)?;
        self.free = slot.turn;
        *slot = Flow { bucket, allot, turn: f, up: NIL, down: NIL, ..Flow::default() };
        self.buckets[bucket as usize] = f;
        if self.tail != NIL {
            let front = core::mem::replace(&mut self.slots[self.tail as usize].turn, f);
            self.slots[f as usize].turn = front;
        }
        self.tail = f;
        self.in_use += 1;
        Some(f)
    }
    /// Returns the flow whose turn it is.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        Some(self.slots.get(self.tail as usize)?.turn)
    }
    /// Moves the flow at the front to the end of the ring.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some(front) = self.front() {
            self.tail = front;
        }
    }
    /// Frees the slot of the flow at the front, which holds no packet any more.
    #[inline]
    pub(crate) fn close_front(&mut self) {
        let Some(f) = self.front() else { return };
        let Flow { turn, bucket, .. } = self.slots[f as usize];
        match f == self.tail {
            true => self.tail = NIL,
            false => self.slots[self.tail as usize].turn = turn,
        }
        self.buckets[bucket as usize] = NIL;
        self.slots[f as usize].turn = self.free;
        self.free = f;
        self.in_use -= 1;
    }
    /// Returns all flows in use, from the front of the ring.
    pub fn ring(&self) -> impl Iterator<Item = u32> + use<'_> {
        let next = |f: u32| self.slots.get(f as usize).map(|slot| slot.turn);
        core::iter::successors(self.front(), move |f| next(*f)).take(self.in_use as usize)
    }
    /// Returns the number of flows in use.
    pub const fn in_use(&self) -> u32 {
        self.in_use
    }
    /// Returns, of the flows of the greatest length, the one that reached it last; the flow at the
    /// front if all have one packet.
    pub fn longest(&self) -> Option<u32> {
        match self.longest {
            0 | 1 => self.front(),
            len => Some(self.by_len[len as usize]),
        }
    }
    /// Appends a packet of `wire_len` bytes to a flow.
    #[inline]
    pub fn push(&mut self, f: u32, p: Pkt, wire_len: u32, pool: &mut Pool) {
        let flow = &mut self.slots[f as usize];
        flow.packets.push_back(pool, p);
        flow.bytes += u64::from(wire_len);
        self.unlink(f);
        self.link(f, self.slots[f as usize].len + 1);
        self.longest = self.longest.max(self.slots[f as usize].len);
    }
    /// Takes the oldest packet of a flow if `oldest`, else its newest.
    #[inline]
    pub fn pop(&mut self, f: u32, oldest: bool, pool: &mut Pool) -> Option<Pkt> {
        let flow = &mut self.slots[f as usize];
        let p = if oldest { flow.packets.pop_front(pool) } else { flow.packets.pop_back(pool) }?;
        flow.bytes -= u64::from(pool.meta(&p).wire_len);
        let len = flow.len;
        self.unlink(f);
        self.link(f, len - 1);
        if self.longest == len && self.by_len[len as usize] == NIL {
            // It was the only one of this length: the longest are now one packet shorter.
            self.longest = len - 1;
        }
        Some(p)
    }
    /// Marks the oldest packet of a flow; returns false if there is none or it cannot be marked.
    pub(crate) fn mark_front(&self, f: u32, cx: &mut Cx) -> bool {
        self.slots[f as usize].packets.with_front(|p| cx.mark(p, MarkReason::Congested)).unwrap_or(false)
    }
    #[inline]
    fn unlink(&mut self, f: u32) {
        let Flow { len, up, down, .. } = self.slots[f as usize];
        if len == 0 {
            return;
        }
        match self.slots.get_mut(up as usize) {
            Some(up) => up.down = down,
            None => self.by_len[len as usize] = down,
        }
        if let Some(down) = self.slots.get_mut(down as usize) {
            down.up = up;
        }
    }
    /// Puts a flow at the head of those of this length; one of length 0 is on no list.
    #[inline]
    fn link(&mut self, f: u32, len: u32) {
        let slot = &mut self.slots[f as usize];
        (slot.len, slot.up, slot.down) = (len, NIL, NIL);
        if len == 0 {
            return;
        }
        let down = core::mem::replace(&mut self.by_len[len as usize], f);
        self.slots[f as usize].down = down;
        if let Some(down) = self.slots.get_mut(down as usize) {
            down.up = f;
        }
    }
    /// Hands out every packet, flow by flow from the front of the ring, and frees every slot.
    pub fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        let mut at = self.front();
        for _ in 0..self.in_use {
            let Some(f) = at else { break };
            let slot = &mut self.slots[f as usize];
            slot.packets.evict_all(out, pool);
            slot.bytes = 0;
            at = Some(slot.turn);
        }
        self.clear();
    }
    /// Visits the metadata of every packet, in the order of `evict_all`.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.ring().flat_map(|i| self.slots[i as usize].packets.waiting(pool)).for_each(f);
    }
    /// Hands out every packet of the flows whose buckets are below this one, flow by flow from the
    /// front of the ring, frees their slots, and returns the number of packets. The others keep
    /// their places on the ring.
    pub(crate) fn drain_below(&mut self, bucket: u32, out: &mut List, pool: &mut Pool) -> u32 {
        let mut packets = 0;
        for _ in 0..self.in_use {
            let Some(f) = self.front() else { break };
            if self.slots[f as usize].bucket >= bucket {
                self.rotate();
                continue;
            }
            packets += self.slots[f as usize].len;
            self.unlink(f);
            self.link(f, 0);
            self.slots[f as usize].packets.evict_all(out, pool);
            self.close_front();
        }
        let mut bound = Bound::of(self.by_len.len());
        while self.longest > 0 && self.by_len[self.longest as usize] == NIL {
            bound.turn();
            self.longest -= 1;
        }
        packets
    }
}
