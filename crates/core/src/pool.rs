//! `Pool`: packet metadata in one array; `Pkt`, the move-only handle to an entry; `List`, a queue of them
//! threaded through the array. Nothing here allocates after the pool is made.

use alloc::vec::Vec;

use crate::meta::Meta;
use crate::time::Instant;

/// "No packet" in a link.
const NIL: u32 = u32::MAX;

/// A packet in a pool. There is exactly one handle to each packet, and it can only be moved: onto a list,
/// out to the device, or to `Cx::drop`. Letting one fall is a bug; builds with debug assertions panic then.
#[must_use = "a packet must be queued, sent or dropped with a reason"]
#[derive(Debug, PartialEq, Eq)]
pub struct Pkt(u32);

impl Pkt {
    /// Gives up the handle for its index, to store it in a link.
    fn into_index(self) -> u32 {
        let index = self.0;
        core::mem::forget(self);
        index
    }

    /// The slot's number: a key for arrays that run parallel to the pool. Unique among live packets.
    pub const fn index(&self) -> usize {
        self.0 as usize
    }
}

impl Drop for Pkt {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            panic!("packet {} was let fall: neither queued, sent nor dropped with a reason", self.0);
        }
    }
}

/// A packet's metadata and its link, one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    meta: Meta,
    next: u32,
}

const _: () = assert!(size_of::<Slot>() == 64, "a packet's metadata and link fill exactly one cache line");

/// All packets of one transmit path.
#[derive(Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    free: u32,
    live: u32,
}

impl Pool {
    /// Room for `capacity` packets (at least 1, at most 2^31).
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 31);
        let mut slots = Vec::with_capacity(capacity);
        // The free list starts in index order, so that a lightly used pool stays in few cache lines.
        slots.extend(
            (1..=capacity).map(|next| Slot {
                meta: Meta::new(0),
                next: if next == capacity { NIL } else { next as u32 },
            }),
        );
        Self { slots, free: 0, live: 0 }
    }

    /// How many packets it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
    /// How many it holds now.
    pub fn live(&self) -> usize {
        self.live as usize
    }

    /// Takes a slot for a packet that is admitted at `now`; `None` if all are in use.
    #[inline(always)]
    pub fn alloc(&mut self, meta: Meta, now: Instant) -> Option<Pkt> {
        let index = self.free;
        let slot = self.slots.get_mut(index as usize)?;
        self.free = slot.next;
        self.live += 1;
        slot.meta = Meta { enqueued: now, ..meta };
        Some(Pkt(index))
    }

    /// Returns a slot.
    #[inline]
    pub fn free(&mut self, p: Pkt) {
        let index = p.into_index();
        self.slots[index as usize].next = self.free;
        self.free = index;
        self.live -= 1;
    }

    /// The packet's metadata.
    #[inline]
    pub fn meta(&self, p: &Pkt) -> &Meta {
        &self.slots[p.index()].meta
    }
    /// The packet's metadata, to change.
    #[inline]
    pub fn meta_mut(&mut self, p: &Pkt) -> &mut Meta {
        &mut self.slots[p.index()].meta
    }
}

/// A first-in first-out list of packets: two indexes, 8 bytes.
#[derive(Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        Self { head: NIL, tail: NIL }
    }
    /// True if it holds no packet.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }
    /// Appends a packet.
    #[inline]
    pub fn push_back(&mut self, pool: &mut Pool, p: Pkt) {
        let index = p.into_index();
        pool.slots[index as usize].next = NIL;
        match self.head {
            NIL => self.head = index,
            _ => pool.slots[self.tail as usize].next = index,
        }
        self.tail = index;
    }
    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        let index = self.head;
        let slot = pool.slots.get(index as usize)?;
        self.head = slot.next;
        Some(Pkt(index))
    }
    /// The oldest packet's metadata.
    #[inline]
    pub fn front<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        pool.slots.get(self.head as usize).map(|s| &s.meta)
    }
    /// Every packet's metadata, oldest first.
    pub fn iter<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = &'a Meta> + use<'a> {
        let (mut at, tail) = (self.head, self.tail);
        core::iter::from_fn(move || {
            let slot = pool.slots.get(at as usize)?;
            at = if at == tail { NIL } else { slot.next };
            Some(&slot.meta)
        })
    }
}

/// A `List` that knows its length: what most disciplines queue in.
#[derive(Debug, Default)]
pub struct Queue {
    list: List,
    packets: u32,
    bytes: u64,
}

impl Queue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { list: List::new(), packets: 0, bytes: 0 }
    }
    /// Packets in it.
    #[inline]
    pub const fn packets(&self) -> u32 {
        self.packets
    }
    /// Their wire bytes.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// True if it holds no packet.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// Appends a packet.
    #[inline]
    pub fn push_back(&mut self, pool: &mut Pool, p: Pkt) {
        self.packets += 1;
        self.bytes += u64::from(pool.meta(&p).wire_len);
        self.list.push_back(pool, p);
    }
    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        let p = self.list.pop_front(pool)?;
        self.packets -= 1;
        self.bytes -= u64::from(pool.meta(&p).wire_len);
        Some(p)
    }
    /// The oldest packet's metadata.
    #[inline]
    pub fn front<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.list.front(pool)
    }
    /// Every packet's metadata, oldest first.
    pub fn iter<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = &'a Meta> + use<'a> {
        self.list.iter(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(pool: &mut Pool, len: u32) -> Option<Pkt> {
        pool.alloc(Meta::new(len), Instant::ZERO)
    }

    #[test]
    fn a_pool_gives_each_slot_once_and_takes_it_back() {
        let mut pool = Pool::new(3);
        let a = alloc(&mut pool, 1).unwrap();
        let b = alloc(&mut pool, 2).unwrap();
        let c = alloc(&mut pool, 3).unwrap();
        assert!(alloc(&mut pool, 4).is_none());
        assert_eq!([&a, &b, &c].map(|p| pool.meta(p).len), [1, 2, 3]);
        pool.free(b);
        let d = alloc(&mut pool, 5).unwrap();
        assert_eq!((d.index(), pool.live()), (1, 3));
        for p in [a, c, d] {
            pool.free(p);
        }
        assert_eq!(pool.live(), 0);
    }

    #[test]
    fn a_list_keeps_order_and_ends_empty() {
        let mut pool = Pool::new(4);
        let mut q = Queue::new();
        for len in [10, 20, 30] {
            let p = alloc(&mut pool, len).unwrap();
            q.push_back(&mut pool, p);
        }
        assert_eq!((q.packets(), q.bytes(), q.front(&pool).map(|m| m.len)), (3, 60, Some(10)));
        assert!(q.iter(&pool).map(|m| m.len).eq([10, 20, 30]));
        let mut seen = Vec::new();
        while let Some(p) = q.pop_front(&pool) {
            seen.push(pool.meta(&p).len);
            pool.free(p);
        }
        assert_eq!((seen, q.packets(), q.bytes(), q.is_empty()), (alloc::vec![10, 20, 30], 0, 0, true));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "was let fall")]
    fn a_leaked_packet_is_reported() {
        let _leak = alloc(&mut Pool::new(1), 1).unwrap();
    }
}
