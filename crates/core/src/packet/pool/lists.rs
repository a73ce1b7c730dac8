//! Lists of packets, threaded through a pool: `List`, `Deque`, whose newest packet can be taken
//! too, and `Queue`, which knows its length. Nothing here allocates.

use super::{NIL, Pkt, Pool, Waiting, waiting_from};
use crate::base::bound::Bound;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;

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
    /// Returns an empty list.
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
    /// Inserts a packet behind all packets at the front for which `before` is true. O(1) if that
    /// holds for the last packet, else one step for each packet passed.
    #[inline]
    pub(crate) fn insert_by(&mut self, pool: &mut Pool, p: Pkt, before: impl Fn(&Meta) -> bool) {
        if self.is_empty() || before(&pool.slots[self.tail as usize].meta) {
            return self.push_back(pool, p);
        }
        let (mut prev, mut next) = (NIL, self.head);
        // The loop ends, because `before` is false for the last packet.
        let mut bound = Bound::of(pool.slots.len());
        while before(&pool.slots[next as usize].meta) {
            bound.turn();
            (prev, next) = (next, pool.slots[next as usize].next);
        }
        let index = p.into_index();
        pool.slots[index as usize].next = next;
        match prev {
            NIL => self.head = index,
            _ => pool.slots[prev as usize].next = index,
        }
    }
    /// Puts a packet in front of all others.
    #[inline]
    pub fn push_front(&mut self, pool: &mut Pool, p: Pkt) {
        let mut behind = core::mem::take(self);
        self.push_back(pool, p);
        self.append(pool, &mut behind);
    }
    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        let index = self.head;
        let slot = pool.slots.get(index as usize)?;
        self.head = slot.next;
        Some(Pkt(index))
    }
    /// Returns the oldest packet's metadata.
    #[inline]
    pub fn front<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        pool.slots.get(self.head as usize).map(|s| &s.meta)
    }
    /// Asks for the memory of the oldest packet, which leaves soon. Returns its slot.
    #[inline]
    pub(crate) fn ask_first(&self, pool: &mut Pool) -> Option<u32> {
        if self.head == NIL {
            return None;
        }
        pool.ask(self.head);
        Some(self.head)
    }
    /// Asks for the memory of the newest packet: the next one is queued behind it.
    #[inline]
    pub(crate) fn ask_last(&self, pool: &Pool) {
        if self.head != NIL {
            txweir_ahead::element(&pool.slots, self.tail as usize);
        }
    }
    /// Returns the oldest packet.
    #[inline]
    pub fn first<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        pool.slots.get(self.head as usize).map(|s| Waiting { meta: &s.meta, index: self.head })
    }
    /// Appends all packets of `other`, which is empty afterwards. O(1).
    pub fn append(&mut self, pool: &mut Pool, other: &mut Self) {
        let other = core::mem::take(other);
        if other.head == NIL {
            return;
        }
        match self.head {
            NIL => self.head = other.head,
            _ => pool.slots[self.tail as usize].next = other.head,
        }
        self.tail = other.tail;
    }
    /// Restores the wire bytes of each of its packets.
    pub(crate) fn uncharge(&self, pool: &mut Pool) {
        let mut at = self.head;
        let mut bound = Bound::of(pool.slots.len());
        while let Some(slot) = pool.slots.get(at as usize) {
            bound.turn();
            let next = slot.next;
            pool.uncharge(at as usize);
            at = next;
        }
    }
    /// Iterates over the details of its packets, oldest first; empty if details are not kept.
    pub fn details<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = &'a Detail> + use<'a> {
        let follow = move |index: &u32| pool.slots.get(*index as usize).map(|s| s.next);
        core::iter::successors(Some(self.head), follow).map_while(|index| pool.details.get(index as usize))
    }
    /// Takes the packet at position `n`, 0 being the oldest. O(n).
    pub(crate) fn take_nth(&mut self, pool: &mut Pool, n: usize) -> Option<Pkt> {
        let Some(steps) = n.checked_sub(1) else { return self.pop_front(pool) };
        let mut before = self.head;
        for _ in 0..steps {
            before = pool.slots.get(before as usize)?.next;
        }
        let index = pool.slots.get(before as usize)?.next;
        let next = pool.slots.get(index as usize)?.next;
        pool.slots[before as usize].next = next;
        if index == self.tail {
            self.tail = before;
        }
        Some(Pkt(index))
    }
    /// Iterates over the metadata of its packets, oldest first.
    pub fn metas<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = &'a Meta> + use<'a> {
        self.waiting(pool).map(|w| w.meta)
    }
    /// Iterates over its packets, oldest first.
    pub fn waiting<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = Waiting<'a>> + use<'a> {
        waiting_from(self.head, pool)
    }
    /// Returns the present end of the list.
    #[inline]
    pub(crate) const fn end(&self) -> End {
        End(if self.is_empty() { NIL } else { self.tail })
    }
    /// Iterates over the metadata of the packets appended since the list ended at `end`, oldest
    /// first. No packet may have been taken since.
    pub(crate) fn metas_since<'a>(
        &self,
        end: End,
        pool: &'a Pool,
    ) -> impl Iterator<Item = &'a Meta> + use<'a> {
        let head = pool.slots.get(end.0 as usize).map_or(self.head, |last| last.next);
        waiting_from(head, pool).map(|w| w.meta)
    }
}

/// End of a `List` at some time: its last packet, if it had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End(u32);

impl Default for End {
    /// Returns the end of an empty list.
    fn default() -> Self {
        Self(NIL)
    }
}

/// A `List` whose newest packet can also be taken, in O(1).
#[derive(Debug, Default)]
pub struct Deque {
    list: List,
}

impl Deque {
    /// Returns an empty deque.
    pub const fn new() -> Self {
        Self { list: List::new() }
    }
    /// True if it holds no packet.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// Appends a packet.
    #[inline]
    pub fn push_back(&mut self, pool: &mut Pool, p: Pkt) {
        // `back` of the first packet is never read.
        pool.back[p.index()] = self.list.tail;
        self.list.push_back(pool, p);
    }
    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        self.list.pop_front(pool)
    }
    /// Takes the newest packet.
    #[inline]
    pub fn pop_back(&mut self, pool: &mut Pool) -> Option<Pkt> {
        let List { head, tail } = self.list;
        if head == NIL {
            return None;
        }
        if head == tail {
            self.list.head = NIL;
        } else {
            self.list.tail = pool.back[tail as usize];
            pool.slots[self.list.tail as usize].next = NIL;
        }
        Some(Pkt(tail))
    }
    /// Returns the oldest packet's metadata.
    #[inline]
    pub fn front<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.list.front(pool)
    }
    /// Calls `f` on the oldest packet, if there is one, to read or to mark it (`Cx::mark`). The
    /// packet stays on the deque.
    pub(crate) fn with_front<R>(&self, f: impl FnOnce(&Pkt) -> R) -> Option<R> {
        if self.list.is_empty() {
            return None;
        }
        let p = Pkt(self.list.head);
        let r = f(&p);
        let _ = p.into_index();
        Some(r)
    }
    /// Appends all its packets to `out`, and is empty afterwards. O(1).
    pub fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        out.append(pool, &mut self.list);
    }
    /// Iterates over the metadata of its packets, oldest first.
    pub fn metas<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = &'a Meta> + use<'a> {
        self.list.metas(pool)
    }
    /// Iterates over its packets, oldest first.
    pub fn waiting<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = Waiting<'a>> + use<'a> {
        self.list.waiting(pool)
    }
}

/// A `List` that knows its length: the queue of most disciplines.
#[derive(Debug, Default)]
pub struct Queue {
    list: List,
    packets: u32,
    bytes: u64,
}

impl Queue {
    /// Returns an empty queue.
    pub const fn new() -> Self {
        Self { list: List::new(), packets: 0, bytes: 0 }
    }
    /// Returns the number of its packets.
    #[inline]
    pub const fn packets(&self) -> u32 {
        self.packets
    }
    /// Returns the sum of their wire bytes.
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
    /// Inserts a packet behind all packets at the front for which `before` is true. O(1) if that
    /// holds for the last packet, else one step for each packet passed.
    #[inline]
    pub(crate) fn insert_by(&mut self, pool: &mut Pool, p: Pkt, before: impl Fn(&Meta) -> bool) {
        self.packets += 1;
        self.bytes += u64::from(pool.meta(&p).wire_len);
        self.list.insert_by(pool, p, before);
    }
    /// Puts a packet in front of all others.
    #[inline]
    pub fn push_front(&mut self, pool: &mut Pool, p: Pkt) {
        self.packets += 1;
        self.bytes += u64::from(pool.meta(&p).wire_len);
        self.list.push_front(pool, p);
    }
    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        let p = self.list.pop_front(pool)?;
        self.packets -= 1;
        self.bytes -= u64::from(pool.meta(&p).wire_len);
        Some(p)
    }
    /// Returns the oldest packet's metadata.
    #[inline]
    pub fn front<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.list.front(pool)
    }
    /// Returns the oldest packet.
    #[inline]
    pub fn first<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.list.first(pool)
    }
    /// Asks for the memory of the newest packet: the next one is queued behind it.
    #[inline]
    pub(crate) fn ask_last(&self, pool: &Pool) {
        self.list.ask_last(pool);
    }
    /// Appends all its packets to `out`, and is empty afterwards. O(1).
    pub fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        out.append(pool, &mut self.list);
        *self = Self::new();
    }
    /// Iterates over the metadata of its packets, oldest first.
    pub fn metas<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = &'a Meta> + use<'a> {
        self.list.metas(pool)
    }
    /// Iterates over its packets, oldest first.
    pub fn waiting<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = Waiting<'a>> + use<'a> {
        self.list.waiting(pool)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::base::time::Instant;

    fn alloc(pool: &mut Pool, len: u32) -> Option<Pkt> {
        pool.alloc(Meta::new(len), Instant::ZERO)
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
        let mut seen = Vec::new();
        while let Some(p) = q.pop_front(&pool) {
            seen.push(pool.meta(&p).len);
            pool.free(p);
        }
        assert_eq!((seen, q.packets(), q.bytes(), q.is_empty()), (alloc::vec![10, 20, 30], 0, 0, true));
    }

    #[test]
    fn lists_are_joined_in_order_and_can_be_looked_through() {
        let mut pool = Pool::new(6);
        let (mut a, mut q, mut none) = (List::new(), Queue::new(), Queue::new());
        let lens = |l: &List, pool: &Pool| l.metas(pool).map(|m| m.len).collect::<Vec<_>>();
        none.evict_all(&mut a, &mut pool);
        assert!(a.is_empty());
        for len in [1, 2] {
            let p = alloc(&mut pool, len).unwrap();
            q.push_back(&mut pool, p);
        }
        assert_eq!(q.metas(&pool).map(|m| m.len).collect::<Vec<_>>(), [1, 2]);
        q.evict_all(&mut a, &mut pool);
        assert_eq!((q.packets(), q.bytes(), q.is_empty()), (0, 0, true));
        let p = alloc(&mut pool, 3).unwrap();
        q.push_back(&mut pool, p);
        q.evict_all(&mut a, &mut pool);
        none.evict_all(&mut a, &mut pool);
        let p = alloc(&mut pool, 4).unwrap();
        a.push_back(&mut pool, p);
        assert_eq!(lens(&a, &pool), [1, 2, 3, 4]);
        while let Some(p) = a.pop_front(&pool) {
            pool.free(p);
        }
        assert_eq!((lens(&a, &pool), pool.live()), (Vec::new(), 0));
    }

    #[test]
    fn a_deque_gives_from_both_ends() {
        let mut pool = Pool::new(5);
        let mut q = Deque::new();
        assert!(q.pop_back(&mut pool).is_none() && q.with_front(|_| ()).is_none());
        for len in [1, 2, 3, 4] {
            let p = alloc(&mut pool, len).unwrap();
            q.push_back(&mut pool, p);
        }
        let mut seen = Vec::new();
        let take = |pool: &mut Pool, p: Option<Pkt>| {
            let p = p.unwrap();
            let len = pool.meta(&p).len;
            pool.free(p);
            len
        };
        let p = q.pop_back(&mut pool);
        seen.push(take(&mut pool, p));
        let p = q.pop_front(&pool);
        seen.push(take(&mut pool, p));
        let p = alloc(&mut pool, 5).unwrap();
        q.push_back(&mut pool, p);
        assert_eq!(q.metas(&pool).map(|m| m.len).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(q.with_front(|p| pool.meta(p).len), Some(2));
        for _ in 0..3 {
            let p = q.pop_back(&mut pool);
            seen.push(take(&mut pool, p));
        }
        assert_eq!((seen, q.is_empty(), pool.live()), (alloc::vec![4, 1, 5, 3, 2], true, 0));
        let p = alloc(&mut pool, 6).unwrap();
        q.push_back(&mut pool, p);
        let mut out = List::new();
        q.evict_all(&mut out, &mut pool);
        let p = out.pop_front(&pool);
        assert_eq!((take(&mut pool, p), q.is_empty()), (6, true));
    }

    #[test]
    fn a_sorted_list_keeps_arrivals_of_one_key_in_order() {
        let mut pool = Pool::new(8);
        let mut l = List::new();
        for len in [30, 10, 31, 20, 32, 5, 11, 33] {
            let p = alloc(&mut pool, len).unwrap();
            l.insert_by(&mut pool, p, |m| m.len / 10 <= len / 10);
        }
        let mut seen = Vec::new();
        while let Some(p) = l.pop_front(&pool) {
            seen.push(pool.meta(&p).len);
            pool.free(p);
        }
        assert_eq!((seen, l.is_empty()), (alloc::vec![5, 10, 11, 20, 30, 31, 32, 33], true));
    }
}
