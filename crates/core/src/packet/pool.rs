//! `Pool`: packet metadata in one array; `Pkt`, the move-only handle to an entry; and lists of
//! packets, threaded through the array. Nothing here allocates after the pool is made, except
//! `keep_details`.

mod lists;

use alloc::vec::Vec;

use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::packet::route::Route;

pub(crate) use lists::End;
pub use lists::{Deque, List, Queue};

/// "No packet" in a link.
const NIL: u32 = u32::MAX;

/// A packet in a pool. There is exactly one handle to each packet, and it can only be moved: onto a
/// list, out to the device, or to `Cx::drop`. A dropped handle is a leaked packet, which is a bug;
/// builds with debug assertions panic then.
#[must_use = "a packet must be queued, sent or dropped with a reason"]
#[derive(Debug, PartialEq, Eq)]
pub struct Pkt(u32);

impl Pkt {
    /// Consumes the handle and returns its index, to store it in a link.
    fn into_index(self) -> u32 {
        let index = self.0;
        core::mem::forget(self);
        index
    }

    /// Returns the slot's number: a key for arrays parallel to the pool. Unique among live packets.
    pub const fn index(&self) -> usize {
        self.0 as usize
    }
}

impl Drop for Pkt {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            panic!("packet {} was leaked: neither queued, sent nor dropped with a reason", self.0);
        }
    }
}

/// A packet's metadata and its link, one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    meta: Meta,
    next: u32,
    /// Its number in the order of admission, modulo 2^32.
    turn: u32,
}

const _: () = assert!(size_of::<Slot>() == 64, "a packet's metadata and link fill exactly one cache line");

/// All packets of one transmit path.
#[derive(Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    /// For a packet on a `Deque`, its predecessor there. Apart from the slots, which are full.
    back: Vec<u32>,
    /// Wire bytes of packets that are charged another size (crate::sched::stab); `NIL` for all
    /// others. Apart from the slots, which are full.
    wires: Vec<u32>,
    /// Number of packets that are charged another size.
    charged: u32,
    turn: u32,
    /// Details of each slot; empty while no qdisc wants them.
    details: Vec<Detail>,
    free: u32,
    live: u32,
    asked: Asked,
}

/// A waiting packet as visitors see it: they can read it but not take it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Its metadata. `wire_len` is the charged size where it waits; [`Pool::wire_len`] returns its
    /// bytes on the wire.
    pub meta: &'a Meta,
    /// Its slot in the pool.
    pub(crate) index: u32,
}

impl Pool {
    /// Returns a pool with room for `capacity` packets (at least 1, at most 2^31).
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 31);
        let mut slots = Vec::with_capacity(capacity);
        // The free list starts in index order, so that a lightly used pool stays in few cache
        // lines.
        slots.extend((1..=capacity).map(|next| Slot {
            meta: Meta::new(0),
            next: if next == capacity { NIL } else { next as u32 },
            turn: 0,
        }));
        let wires = alloc::vec![NIL; capacity];
        let back = alloc::vec![NIL; capacity];
        Self {
            slots,
            back,
            wires,
            charged: 0,
            turn: 0,
            details: Vec::new(),
            free: 0,
            live: 0,
            asked: Asked::default(),
        }
    }

    /// Returns the number of packets that it can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
    /// Returns the number of packets that it holds now.
    pub fn live(&self) -> usize {
        self.live as usize
    }

    /// Allocates a slot for a packet that is admitted at `now`; `None` if all are in use.
    #[inline(always)]
    pub fn alloc(&mut self, meta: Meta, now: Instant) -> Option<Pkt> {
        let index = self.free;
        let slot = self.slots.get_mut(index as usize)?;
        self.free = slot.next;
        self.live += 1;
        slot.meta = Meta { enqueued: now, ..meta };
        slot.turn = self.turn;
        self.turn = self.turn.wrapping_add(1);
        Some(Pkt(index))
    }

    /// Returns the number of packets admitted since this one, itself included: of two packets, the
    /// one with the greater age came first. Modulo 2^32.
    pub(crate) fn age(&self, p: &Pkt) -> u32 {
        self.turn.wrapping_sub(self.slots[p.index()].turn)
    }

    /// Frees the slot of a packet.
    #[inline]
    pub fn free(&mut self, p: Pkt) {
        let _ = self.release(p);
    }

    /// Frees the slot of a packet and returns its metadata, for a last look.
    #[inline]
    pub(crate) fn release(&mut self, p: Pkt) -> &Meta {
        let index = p.into_index();
        let slot = &mut self.slots[index as usize];
        slot.next = self.free;
        self.free = index;
        self.live -= 1;
        &slot.meta
    }

    /// Returns the packet's metadata.
    #[inline]
    pub fn meta(&self, p: &Pkt) -> &Meta {
        &self.slots[p.index()].meta
    }
    /// Begins or ends to keep details. Packets that wait already have none. Allocates: between
    /// bursts only.
    pub(crate) fn keep_details(&mut self, keep: bool) {
        if keep == self.details.is_empty() {
            self.details = Vec::new();
            self.details.resize(if keep { self.slots.len() } else { 0 }, Detail::default());
        }
    }
    /// True if details are kept.
    #[inline]
    pub(crate) const fn keeps_details(&self) -> bool {
        !self.details.is_empty()
    }
    /// Returns the detail of the packet, if details are kept.
    #[inline]
    pub fn detail(&self, p: &Pkt) -> Option<&Detail> {
        self.details.get(p.index())
    }
    /// Sets the detail of the packet, if details are kept.
    #[inline]
    pub(crate) fn set_detail(&mut self, p: &Pkt, detail: &Detail) {
        if let Some(slot) = self.details.get_mut(p.index()) {
            *slot = *detail;
        }
    }
    /// Clears the detail of the packet, field by field: an absent acknowledgement costs one tag,
    /// not the whole struct. The number of its class, `index`, is kept.
    #[inline]
    pub(crate) fn clear_detail(&mut self, p: &Pkt, index: u16) {
        if let Some(slot) = self.details.get_mut(p.index()) {
            (slot.src_host, slot.dst_host, slot.l3_offset, slot.tcp) = (0, 0, None, None);
            (slot.route, slot.index) = (Route::default(), index);
        }
    }
    /// Gives a copy the detail of the packet in slot `original`, if details are kept.
    #[inline]
    pub(crate) fn copy_detail(&mut self, original: usize, copy: &Pkt) {
        if let Some(detail) = self.details.get(original).copied() {
            self.set_detail(copy, &detail);
        }
    }
    /// Returns the minor number of the class that the packet came with, whatever class filters at
    /// qdiscs have given it since. Linux has it as `tc_index`.
    #[inline]
    pub(crate) fn class_index(&self, p: &Pkt) -> u16 {
        self.detail(p).map_or(self.meta(p).class.minor(), |detail| detail.index)
    }
    /// Stores a number for a packet, for the qdisc that it waits in, if details are kept.
    #[inline]
    pub(crate) fn set_note(&mut self, p: &Pkt, note: u32) {
        if let Some(slot) = self.details.get_mut(p.index()) {
            slot.note = note;
        }
    }
    /// Returns the metadata of the packet in slot `index` without the charge of a size table.
    pub(crate) fn as_it_came(&self, index: usize) -> Meta {
        let meta = &self.slots[index].meta;
        // Capacities are at most 2^31.
        Meta { wire_len: self.wire_len(Waiting { meta, index: index as u32 }), ..*meta }
    }
    /// Charges the packet this many bytes from here on, in place of its wire bytes.
    pub(crate) fn charge(&mut self, p: &Pkt, charged: u32) {
        let meta = &mut self.slots[p.index()].meta;
        self.charged += u32::from(self.wires[p.index()] == NIL);
        self.wires[p.index()] = meta.wire_len;
        meta.wire_len = charged;
    }
    /// True if the packet is charged another size than its wire bytes.
    #[inline]
    pub(crate) fn is_charged(&self, p: &Pkt) -> bool {
        self.charged != 0 && self.wires[p.index()] != NIL
    }
    /// Restores the wire bytes of the packet at this index, if it was charged another size. Returns
    /// the charged size and the wire bytes.
    pub(crate) fn uncharge(&mut self, index: usize) -> (u32, u32) {
        let meta = &mut self.slots[index].meta;
        let charged = meta.wire_len;
        let wire_len = core::mem::replace(&mut self.wires[index], NIL);
        if wire_len != NIL {
            self.charged -= 1;
            meta.wire_len = wire_len;
        }
        (charged, meta.wire_len)
    }
    /// Returns the wire bytes of a waiting packet of this pool, whatever it is charged.
    pub fn wire_len(&self, waiting: Waiting<'_>) -> u32 {
        match self.wires.get(waiting.index as usize) {
            Some(wire) if *wire != NIL => *wire,
            _ => waiting.meta.wire_len,
        }
    }
    /// Returns the packet's metadata, to change.
    #[inline]
    pub fn meta_mut(&mut self, p: &Pkt) -> &mut Meta {
        &mut self.slots[p.index()].meta
    }
    /// Returns the metadata of the packet in this slot, to change.
    #[inline]
    pub(crate) fn meta_at_mut(&mut self, index: usize) -> &mut Meta {
        &mut self.slots[index].meta
    }
}

/// The last packets that a qdisc has asked for, for the owner of the frames.
#[derive(Debug, Default)]
struct Asked {
    slots: [u32; ASKED_MAX],
    len: usize,
}

/// Most packets that one dequeue asks for; further ones replace the last.
const ASKED_MAX: usize = 4;

impl Pool {
    /// Asks for the memory of the packet in this slot, which leaves soon. No number is wrong.
    #[inline]
    pub(crate) fn ask(&mut self, index: u32) {
        txweir_ahead::element(&self.slots, index as usize);
        let at = self.asked.len.min(ASKED_MAX - 1);
        self.asked.slots[at] = index;
        self.asked.len = at + 1;
    }
    /// Asks for the memory of the packet behind the one in this slot, on whatever list it is.
    /// Returns its slot.
    #[inline]
    pub(crate) fn ask_behind(&mut self, index: u32) -> Option<u32> {
        let next = self.slots.get(index as usize)?.next;
        self.slots.get(next as usize)?;
        self.ask(next);
        Some(next)
    }
    /// True if slots were asked for since `take_asked`.
    #[inline(always)]
    pub(crate) const fn has_asked(&self) -> bool {
        self.asked.len != 0
    }
    /// Takes the slots that were asked for since the last call.
    #[inline]
    pub(crate) fn take_asked(&mut self) -> impl Iterator<Item = u32> + use<> {
        let len = core::mem::take(&mut self.asked.len);
        // Bound: ASKED_MAX.
        self.asked.slots.into_iter().take(len)
    }
}

/// Iterates over the packets on a list from this one on.
fn waiting_from(head: u32, pool: &Pool) -> impl Iterator<Item = Waiting<'_>> {
    let at = |index: u32| pool.slots.get(index as usize).map(|slot| (index, slot));
    core::iter::successors(at(head), move |(_, slot)| at(slot.next))
        .map(|(index, slot)| Waiting { meta: &slot.meta, index })
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
    #[cfg(debug_assertions)]
    #[should_panic(expected = "was leaked")]
    fn a_leaked_packet_is_reported() {
        let _leak = alloc(&mut Pool::new(1), 1).unwrap();
    }
}
