//! A fixed ring of small event records, overwritten when full and read out of band; and a rolling
//! hash of every record, to compare two runs.

use alloc::vec::Vec;

use crate::base::time::Instant;
use crate::packet::reason::DropReason;

/// Event in the life of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet went to the device without waiting.
    Direct,
    /// The packet entered the root qdisc.
    Enqueued,
    /// The packet left the root qdisc for the device; true if it was CE-marked on the way.
    Sent(bool),
    /// The packet was dropped.
    Dropped(DropReason),
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time.
    pub at: Instant,
    /// Event.
    pub event: Event,
    /// The packet's flow hash.
    pub hash: u32,
    /// The packet's wire bytes.
    pub wire_len: u32,
}

/// The ring. With capacity 0 (the default) it is off, and recording costs one test.
#[derive(Debug, Default)]
pub struct Trace {
    ring: Vec<Record>,
    capacity: usize,
    total: u64,
    digest: u64,
}

impl Trace {
    /// Returns a ring that keeps the last `capacity` records.
    pub fn new(capacity: usize) -> Self {
        Self { ring: Vec::with_capacity(capacity), capacity, total: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }

    /// True if it records.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Adds a record.
    #[inline]
    pub fn record(&mut self, r: Record) {
        if self.is_on() {
            self.record_on(r);
        }
    }

    #[cold]
    fn record_on(&mut self, r: Record) {
        let event = match r.event {
            Event::Direct => 1,
            Event::Enqueued => 2,
            Event::Sent(marked) => 3 + u64::from(marked),
            Event::Dropped(reason) => 16 + reason as u64,
        };
        for word in [r.at.0, event, u64::from(r.hash) << 32 | u64::from(r.wire_len)] {
            // FNV-1a over words, with a rotation so that high bits come back down.
            self.digest = ((self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3)).rotate_left(23);
        }
        if self.ring.len() < self.capacity {
            self.ring.push(r);
        } else {
            let at = (self.total % self.capacity as u64) as usize;
            self.ring[at] = r;
        }
        self.total += 1;
    }

    /// Iterates over the records still held, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let split = if self.ring.len() < self.capacity || self.capacity == 0 {
            0
        } else {
            (self.total % self.capacity as u64) as usize
        };
        self.ring[split..].iter().chain(&self.ring[..split])
    }

    /// Returns a hash of every record since the start.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the number of records since the start.
    pub const fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_the_oldest_and_hashes_all() {
        let rec = |t| Record { at: Instant(t), event: Event::Sent(false), hash: 1, wire_len: 60 };
        let mut a = Trace::new(2);
        let mut b = Trace::new(8);
        for t in [1, 2, 3] {
            a.record(rec(t));
            b.record(rec(t));
        }
        assert_eq!(a.records().map(|r| r.at.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((a.digest(), a.total()), (b.digest(), 3));
        b.record(rec(3));
        assert_ne!(a.digest(), b.digest());
        let mut off = Trace::default();
        off.record(rec(1));
        assert_eq!((off.total(), off.records().count()), (0, 0));
    }
}
