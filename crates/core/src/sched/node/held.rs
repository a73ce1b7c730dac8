//! `Held`: the packet that a peek has taken out of a qdisc, until the next dequeue.

use crate::base::tally::Tally;
use crate::packet::pool::{List, Pkt, Pool};
use crate::sched::node::Books;

/// The packet that a peek has taken out, and the counters of packets taken out so.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: u64,
    /// Counts only the packet in the list, and the remains of those that a change has dropped: 32
    /// bits suffice.
    packets: u32,
    segs: u32,
    /// At most one packet. A list and not a `Pkt`, so that a tree with packets in it can be
    /// dropped.
    pub(super) list: List,
}

impl Held {
    /// Holds a packet.
    pub(super) fn put(&mut self, p: Pkt, pool: &mut Pool) {
        let m = pool.meta(&p);
        self.packets += 1;
        self.bytes += u64::from(m.wire_len);
        self.segs = self.segs.wrapping_add(m.segs.into());
        self.list.push_back(pool, p);
    }
    /// Takes the packet.
    pub(super) fn take(&mut self, pool: &Pool) -> Option<Pkt> {
        let p = self.list.pop_front(pool)?;
        let m = pool.meta(&p);
        self.packets -= 1;
        self.bytes -= u64::from(m.wire_len);
        self.segs = self.segs.wrapping_sub(m.segs.into());
        Some(p)
    }
    /// Takes a packet of these wire bytes and segments off the counters, which is not held any more
    /// and has not left.
    pub(super) fn forget(&mut self, (wire_len, segs): (u32, u16)) {
        self.packets -= 1;
        self.bytes -= u64::from(wire_len);
        self.segs = self.segs.wrapping_sub(segs.into());
    }
    /// Adds its counters to the books of its node.
    #[inline]
    pub(super) fn show(&self, books: Books) -> Books {
        let peeked = Tally { packets: self.packets.into(), bytes: self.bytes };
        Books { peeked, peeked_segs: self.segs.into(), ..books }
    }
}
