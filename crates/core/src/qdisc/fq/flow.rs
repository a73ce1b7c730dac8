//! A flow, its packets, and lists of flows.

use super::config::Limits;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::sched::cx::Cx;

/// "No flow" in a link.
pub(super) const NIL: u32 = u32::MAX;

/// State of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Not known: no packet has come yet, or the flow was forgotten.
    #[default]
    Unknown,
    /// Known, without a waiting packet.
    Idle,
    /// On a list of a band.
    Listed,
    /// In the wheel.
    Throttled,
}

/// A flow: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Flow {
    pub(super) packets: Packets,
    /// The latest launch time of its packets, if it has any: that of the last one.
    pub(super) latest: Instant,
    /// Earliest time at which a packet of it may leave; zero if it was never paced.
    pub(super) next: Instant,
    /// Time since which it is idle.
    pub(super) idle: Instant,
    pub(super) credit: i32,
    pub(super) len: u32,
    /// The next flow on the same list.
    pub(super) link: u32,
    pub(super) place: Place,
    /// The band of the packet that came last: the flow is listed there next.
    pub(super) band: u8,
}

impl Flow {
    /// True if its first packet may leave, in its turn. If the packet has to wait, `next` is the
    /// time that it waits for.
    #[inline]
    pub(super) fn may_send(&mut self, cx: &Cx, limits: &Limits) -> bool {
        if self.credit <= 0 || self.len == 0 {
            return false;
        }
        let until = cx.now + limits.offload;
        // The first packet's own launch time is read only if it can decide: the read touches the
        // packet.
        if self.latest > self.next.max(until) {
            let due = self.due(&cx.pool);
            if due > until {
                self.next = due;
            }
        }
        self.next <= until
    }
    /// Returns the time at which its first packet may leave.
    #[cold]
    fn due(&self, pool: &Pool) -> Instant {
        self.next.max(self.packets.front(pool).map_or(Instant::ZERO, launch_of))
    }
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow fills exactly one cache line");

/// The packets of a flow in order of launch time: those in `front`, then those in `back`. With two
/// lists a packet is linked behind another only if a third is before them: below that, no packet is
/// touched between arrival and departure.
#[derive(Debug, Default)]
pub(super) struct Packets {
    front: List,
    back: List,
}

impl Packets {
    /// Appends a packet.
    #[inline]
    pub(super) fn push_back(&mut self, pool: &mut Pool, p: Pkt) {
        let list = if self.front.is_empty() { &mut self.front } else { &mut self.back };
        list.push_back(pool, p);
    }
    /// Inserts a packet behind all those that launch no later than it.
    #[cold]
    pub(super) fn insert(&mut self, pool: &mut Pool, p: Pkt, launch: Instant) {
        self.front.append(pool, &mut self.back);
        self.front.insert_by(pool, p, |m| launch_of(m) <= launch);
    }
    /// Takes the first packet.
    #[inline]
    pub(super) fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        let p = self.front.pop_front(pool);
        if self.front.is_empty() {
            self.front = core::mem::take(&mut self.back);
        }
        p
    }
    /// Asks for the memory of the first packet.
    #[inline]
    pub(super) fn ask_first(&self, pool: &mut Pool) {
        let _ = self.front.ask_first(pool);
    }
    /// Asks for the memory of the last packet.
    #[inline]
    pub(super) fn ask_last(&self, pool: &Pool) {
        if self.back.is_empty() { self.front.ask_last(pool) } else { self.back.ask_last(pool) }
    }
    pub(super) fn front<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.front.front(pool)
    }
    pub(super) fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        out.append(pool, &mut self.front);
        out.append(pool, &mut self.back);
    }
    pub(super) fn waiting<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = Waiting<'a>> + use<'a> {
        self.front.waiting(pool).chain(self.back.waiting(pool))
    }
}

/// A list of flows, threaded through their `link`s.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self { head: NIL, tail: NIL }
    }
    #[inline]
    pub(super) fn push_back(&mut self, flows: &mut [Flow], f: u32) {
        match self.head {
            NIL => self.head = f,
            _ => flows[self.tail as usize].link = f,
        }
        self.tail = f;
    }
    /// Takes the first flow off the list, whose `link` is given.
    #[inline]
    pub(super) const fn pop_front(&mut self, link: u32) {
        self.head = if self.head == self.tail { NIL } else { link };
    }
}

/// Returns the launch time of a packet, or its arrival if it has none.
#[inline]
pub(super) fn launch_of(m: &Meta) -> Instant {
    if m.txtime == Instant::ZERO { m.enqueued } else { m.txtime }
}
