//! When a sender with segmentation offload sends, and when it waits to make its units larger.
//!
//! Acknowledgements come for two segments at a time. A sender that answers each at once makes units of two
//! segments; one that waits until a whole unit is acknowledged makes whole units. Linux waits as long as the
//! window open to it is below both a full unit and a third of the whole window (ip-sysctl,
//! `tcp_tso_win_divisor`), for half a round trip at most. The stack below does not tell its window, so the
//! bytes acknowledged since the last unit stand for it: that is what a window that does not grow opens. How
//! much a growing one opens beyond that is tried out now and then: soon again after a try that yielded a whole
//! unit, later and later after tries that did not.

use txweir_core::time::{Instant, Nanos};

/// Longest that a sender waits on a fast path, where half a round trip is less: two ticks of a 1000 Hz clock.
const WAIT: Nanos = Nanos::from_millis(2);
/// It waits for a third of what it had in flight: the default of `tcp_tso_win_divisor`.
const WINDOW_DIVISOR: u32 = 3;
/// Most units' worth of possible growth between two tries.
const TRY_MAX: u32 = 64;

/// The sender's side of one connection, in sequence numbers (RFC 9293 section 3.4: compared by half the space).
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    /// Payload of the largest unit; 0 sends whatever there is at once.
    unit: u32,
    mss: u32,
    /// First byte not acknowledged, and first not sent.
    una: u32,
    next: u32,
    /// In flight after data was last sent.
    window: u32,
    /// Acknowledged and not used for sending.
    credit: u32,
    /// Most that the window can have grown since the last try, and how much makes the next.
    grown: u32,
    try_at: u32,
    /// The last acknowledgement was of new data.
    advanced: bool,
    /// Since when sending waits.
    waiting: Option<Instant>,
    /// Smoothed round-trip time (RFC 6298 section 2), and the sequence number whose acknowledgement ends the next
    /// sample, with its start.
    srtt: Nanos,
    timed: Option<(u32, Instant)>,
    /// During one poll: everything goes; a try is on; something was held back.
    open: bool,
    trying: bool,
    refused: bool,
}

impl Aggregation {
    /// For units of `unit` bytes; `None` never waits.
    pub(crate) fn new(unit: Option<u32>, mss: u16) -> Self {
        let unit = unit.unwrap_or(0);
        Self { unit, mss: u32::from(mss), try_at: unit, ..Self::default() }
    }

    /// The connection starts with this sequence number.
    pub(crate) const fn start(&mut self, seq: u32) {
        (self.una, self.next) = (seq, seq);
    }

    /// An acknowledgement has come.
    pub(crate) fn acknowledged(&mut self, now: Instant, ack: u32) {
        if self.unit == 0 {
            return;
        }
        let new = ack.wrapping_sub(self.una);
        self.advanced = new > 0 && new <= self.next.wrapping_sub(self.una);
        if self.advanced {
            self.una = ack;
            self.credit = self.credit.saturating_add(new);
            self.grown = self.grown.saturating_add(new.min(self.mss));
            self.sample(now);
        }
    }

    /// Takes a round-trip sample if the timed sequence number is acknowledged.
    fn sample(&mut self, now: Instant) {
        let Some((_, start)) = self.timed.filter(|t| self.una.wrapping_sub(t.0) < 1 << 31) else { return };
        let rtt = now.saturating_since(start).0;
        self.srtt = Nanos(if self.srtt.0 == 0 { rtt } else { (self.srtt.0 * 7 + rtt) / 8 });
        self.timed = None;
    }

    /// Longest that sending waits.
    fn wait_max(&self) -> Nanos {
        Nanos(WAIT.0.max(self.srtt.0 / 2))
    }

    /// Before sending; true if there is nothing to be sent now. `queued` is the data handed over and not
    /// acknowledged.
    pub(crate) fn begin(&mut self, now: Instant, queued: impl FnOnce() -> usize) -> bool {
        if self.unit == 0 {
            return false;
        }
        let flight = self.next.wrapping_sub(self.una);
        let over = self.waiting.is_some_and(|since| now >= since + self.wait_max());
        // Loss, silence, and the last data are no reasons to wait.
        let last = || queued() <= flight as usize + self.credit as usize;
        self.open = !self.advanced || flight == 0 || over || last();
        self.refused = false;
        !self.grants() && {
            self.waiting.get_or_insert(now);
            true
        }
    }

    /// True if one packet may be sent.
    pub(crate) fn grants(&mut self) -> bool {
        if self.unit == 0 || self.open || self.credit >= self.unit.min(self.window / WINDOW_DIVISOR) {
            return true;
        }
        self.trying = self.grown >= self.try_at;
        self.refused = !self.trying;
        self.trying
    }

    /// A packet that occupies `len` sequence numbers has been sent; gives how many of them had been sent before.
    pub(crate) fn sent(&mut self, now: Instant, seq: u32, len: u32) -> u32 {
        let old = self.next.wrapping_sub(seq);
        let again = if old < 1 << 31 { old.min(len) } else { 0 };
        if again > 0 {
            // What has been sent twice cannot be timed (RFC 6298 section 3).
            self.timed = None;
        }
        if again < len {
            self.next = seq.wrapping_add(len);
            self.window = self.next.wrapping_sub(self.una);
            self.credit = self.credit.saturating_sub(len);
            self.waiting = None;
            self.timed = self.timed.or(Some((self.next, now)));
            if self.trying {
                self.tried(len >= self.unit);
            }
        }
        again
    }

    const fn tried(&mut self, success: bool) {
        (self.trying, self.grown) = (false, 0);
        self.try_at = match (success, self.try_at * 2 < TRY_MAX * self.unit) {
            (true, _) => self.unit,
            (false, true) => self.try_at * 2,
            (false, false) => TRY_MAX * self.unit,
        };
    }

    /// After sending: either something was held back, or the stack had no more.
    pub(crate) fn end(&mut self, now: Instant) {
        if self.unit == 0 {
            return;
        }
        if self.trying {
            self.tried(false);
        }
        if self.refused {
            self.waiting.get_or_insert(now);
        } else {
            (self.credit, self.waiting) = (0, None);
        }
    }

    /// When waiting ends at the latest, if it waits.
    pub(crate) fn wait_ends(&self) -> Option<Instant> {
        self.waiting.map(|since| since + self.wait_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u32 = 40_000;

    /// A sender of 10 units in flight whose window does not grow, then one whose window doubles.
    #[test]
    fn waits_for_a_unit_and_tries_for_growth() {
        let mut a = Aggregation::new(Some(UNIT), 1000);
        a.start(0);
        assert!(!a.begin(Instant(0), || 1 << 20), "nothing in flight: go");
        a.sent(Instant(0), 0, 10 * UNIT);
        a.end(Instant(0));
        let (mut units, mut una) = (Vec::new(), 0);
        for i in 0..200 {
            una += 2000;
            a.acknowledged(Instant(0), una);
            if !a.begin(Instant(i), || 1 << 20) {
                // A stack that sends exactly what was acknowledged.
                let room = una + 10 * UNIT - a.next;
                units.push(room.min(UNIT));
                a.sent(Instant(0), a.next, room.min(UNIT));
                if a.grants() && a.next < una + 10 * UNIT {
                    units.push(una + 10 * UNIT - a.next);
                }
                a.end(Instant(i));
            }
        }
        assert_eq!(units, [UNIT; 10]);
    }

    #[test]
    fn waits_two_ticks_at_most_and_never_when_nothing_is_in_flight() {
        let mut a = Aggregation::new(Some(UNIT), 1000);
        a.start(u32::MAX - 5);
        a.sent(Instant(0), u32::MAX - 5, 1000);
        a.sent(Instant(0), 994, 9 * UNIT);
        a.end(Instant(0));
        a.acknowledged(Instant(0), 994);
        assert!(a.begin(Instant(5), || 1 << 20));
        assert_eq!(a.wait_ends(), Some(Instant(2_000_005)));
        assert!(a.begin(Instant(2_000_004), || 1 << 20));
        assert!(!a.begin(Instant(2_000_005), || 1 << 20));
        assert!(!a.begin(Instant(6), || 9 * UNIT as usize + 1000), "the last data does not wait");
        a.acknowledged(Instant(0), 994);
        assert!(!a.begin(Instant(6), || 1 << 20), "a duplicate acknowledgement lets it go");
        a.acknowledged(Instant(0), 994 + 9 * UNIT);
        assert!(!a.begin(Instant(6), || 1 << 20));
    }

    #[test]
    fn waits_half_a_round_trip_where_that_is_more() {
        let mut a = Aggregation::new(Some(UNIT), 1000);
        a.start(0);
        a.sent(Instant(0), 0, 1000);
        a.sent(Instant(500), 1000, 9 * UNIT);
        a.end(Instant(500));
        a.acknowledged(Instant(10_000_000), 1000);
        assert!(a.begin(Instant(10_000_000), || 1 << 20));
        assert_eq!(a.wait_ends(), Some(Instant(15_000_000)));
    }

    #[test]
    fn counts_what_is_sent_again() {
        let mut a = Aggregation::new(None, 1000);
        a.start(u32::MAX);
        assert_eq!(a.sent(Instant(0), u32::MAX, 1000), 0);
        assert_eq!(a.sent(Instant(0), u32::MAX, 1500), 1000);
        assert_eq!(a.sent(Instant(0), u32::MAX, 100), 100);
        assert_eq!(a.sent(Instant(0), 1499, 10), 0);
    }
}
