//! The work of a NIC in numbers: quantities over time, and counters.

use txweir_core::{DropReason, Instant, MarkReason, Nanos, Tally};

use crate::link::LinkStats;

/// A quantity that changes at known times: its time-weighted mean, and its extremes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauge {
    value: u64,
    since: Instant,
    from: Instant,
    area: u128,
    max: u64,
}

impl Gauge {
    /// It has this value from `now` on.
    #[inline]
    pub fn set(&mut self, now: Instant, value: u64) {
        if value == self.value {
            return;
        }
        self.area += u128::from(self.value) * u128::from(now.saturating_since(self.since).0);
        self.since = now;
        self.value = value;
        self.max = self.max.max(value);
    }
    /// Forgets everything before `now`.
    pub fn restart(&mut self, now: Instant) {
        *self = Self { value: self.value, since: now, from: now, area: 0, max: self.value };
    }
    /// The integral of the value over time since the start or the last restart, in units times
    /// nanoseconds.
    pub fn area(&self, now: Instant) -> u128 {
        self.area + u128::from(self.value) * u128::from(now.saturating_since(self.since).0)
    }
    /// Mean until `now`.
    pub fn mean(&self, now: Instant) -> u64 {
        match now.saturating_since(self.from).0 {
            0 => self.value,
            t => (self.area(now) / u128::from(t)) as u64,
        }
    }
    /// Largest value.
    pub const fn max(&self) -> u64 {
        self.max
    }
    /// Present value.
    pub const fn value(&self) -> u64 {
        self.value
    }
}

/// The work of a NIC since the start, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounts {
    /// Packets that its host offered and it took (a TSO unit is one), and their bytes on the wire.
    /// A packet that a qdisc dropped was taken.
    pub taken: Tally,
    /// Packets that went to the device without waiting.
    pub direct: u64,
    /// Packets that entered the root qdisc.
    pub queued: u64,
    /// Packets handed to the device, and their bytes on the wire.
    pub tx: Tally,
    /// Packets that have left the wire, and their bytes.
    pub departed: Tally,
    /// Time that the line was busy with them and with parts of others, preamble and gap included.
    pub busy: Nanos,
    /// Packets dropped, for any reason, and their bytes on the wire.
    pub dropped: Tally,
    /// Packets dropped, by [`DropReason`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets marked, by [`MarkReason`].
    pub marks: [u64; MarkReason::COUNT],
    /// Times that the ring was full, and that the byte limit was reached, while packets waited.
    pub stops: [u64; 2],
    /// Times that a sender got its packet back because there was no room.
    pub full: u64,
    /// Completion rounds.
    pub rounds: u64,
    /// Packets that an action has taken away, on their way out or in, and their bytes.
    pub stolen: Tally,
    /// Packets that had come in for it and that the filters of its ingress hook dropped, and their
    /// bytes.
    pub turned_away: Tally,
    /// The counters of the link.
    pub link: LinkStats,
}

impl NicCounts {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let of = |f: fn(&Self) -> u64| f(self) - f(earlier);
        Self {
            taken: self.taken.since(earlier.taken),
            direct: of(|c| c.direct),
            queued: of(|c| c.queued),
            tx: self.tx.since(earlier.tx),
            departed: self.departed.since(earlier.departed),
            busy: self.busy.saturating_sub(earlier.busy),
            dropped: self.dropped.since(earlier.dropped),
            drops: std::array::from_fn(|i| self.drops[i] - earlier.drops[i]),
            marks: std::array::from_fn(|i| self.marks[i] - earlier.marks[i]),
            stops: std::array::from_fn(|i| self.stops[i] - earlier.stops[i]),
            full: of(|c| c.full),
            rounds: of(|c| c.rounds),
            stolen: self.stolen.since(earlier.stolen),
            turned_away: self.turned_away.since(earlier.turned_away),
            link: LinkStats {
                carried: self.link.carried.since(earlier.link.carried),
                lost: self.link.lost.since(earlier.link.lost),
                late: of(|c| c.link.late),
            },
        }
    }
}
