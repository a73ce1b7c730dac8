//! A credit-based shaper (IEEE 802.1Q-2014 section 8.6.8.2), on numbers. A packet may leave while
//! the credit is not negative. It costs credit at `sendslope` for the time that it takes on the
//! port; while it waits, the credit grows at `idleslope`. Credits are whole bytes, divisions round
//! towards zero, and the port counts as busy until the packet's last byte has left.
//!
//! - I1: the credit is never below `low` (unless that is above zero), and grows to at most `high`.
//! - I2: over any interval in which packets wait, at most `idle` bytes a second leave, and what
//!   `high` and the largest packet allow at once.
//! - I3: after a refusal until t, the credit at t is enough.

use crate::base::time::{Instant, Nanos};

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;

/// The parameters of the shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditParams {
    /// Bytes a second that a waiting packet earns; not negative.
    pub idle: i64,
    /// Bytes a second that a packet earns while it leaves: negative in any sensible use.
    pub send: i64,
    /// Greatest credit, bytes; not negative.
    pub high: i64,
    /// Least credit, bytes.
    pub low: i64,
    /// Rate of the port, bytes a second; not 0.
    pub port: u64,
    /// True if each refusal rounds the credit down to whole bytes, as Linux does: with refusals
    /// more often than a byte is earned it never grows.
    pub strict_linux: bool,
}

/// `sendslope`, `hicredit` and `locredit` of a reservation, in tc's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// kbit/s.
    pub sendslope: i64,
    /// Bytes.
    pub hicredit: i64,
    /// Bytes.
    pub locredit: i64,
}

/// Returns the parameters that follow from `idleslope` and the rate of the port, both kbit/s, the
/// largest burst of other traffic and the largest frame, both bytes (802.1Q-2014 section 8.6.8.2
/// item g, and annex L, equations L-3 and L-2); rounded away from zero. A port of 0 counts as 1.
#[must_use]
pub fn reservation(idleslope: u32, port: u32, interference: u32, frame: u32) -> Reservation {
    let (idle, port) = (i64::from(idleslope), i64::from(port.max(1)));
    let sendslope = idle - port;
    // 32 bits times 33 bits.
    let up = |bytes: u32, slope: i64| {
        let product = i128::from(bytes) * i128::from(slope.unsigned_abs());
        let size = (product + i128::from(port) - 1) / i128::from(port);
        i64::try_from(size).unwrap_or(i64::MAX) * slope.signum()
    };
    Reservation { sendslope, hicredit: up(interference, idle), locredit: up(frame, sendslope) }
}

/// The credit of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditState {
    credit: i64,
    /// Time from which on the credit grows: the end of the last packet.
    since: Instant,
}

fn to_i64(n: i128) -> i64 {
    i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX })
}

impl CreditState {
    /// Returns the credit as of the last event, bytes.
    #[must_use]
    pub const fn credit(&self) -> i64 {
        self.credit
    }

    /// Records that a packet comes to an empty queue: the rest of the credit is lost. A debt is
    /// not, but for the part that was earned meanwhile: an empty queue earns up to zero. Returns
    /// true if a packet might have left before.
    #[inline]
    pub fn begin(&mut self, p: &CreditParams, now: Instant) -> bool {
        let rested = now >= self.since && (self.credit >= 0 || self.earned(p, now) >= 0);
        if self.credit > 0 {
            *self = Self { credit: 0, since: now };
        } else if self.credit < 0 && rested {
            self.credit = 0;
        }
        rested
    }

    /// Returns the credit with what was earned until `now`.
    #[inline]
    fn earned(&self, p: &CreditParams, now: Instant) -> i64 {
        let waited = i128::from(now.saturating_since(self.since).0);
        self.credit.saturating_add(to_i64(waited * i128::from(p.idle) / SECOND))
    }

    /// Returns whether a packet may leave at `now`, and the earliest time if not.
    ///
    /// # Errors
    /// The time at which the next packet may leave: later than `now`.
    #[inline]
    pub fn ask(&mut self, p: &CreditParams, now: Instant) -> Result<(), Instant> {
        if now < self.since {
            return Err(self.since);
        }
        if self.credit >= 0 {
            return Ok(());
        }
        let credit = self.earned(p, now).min(p.high);
        if credit >= 0 {
            self.credit = credit;
            return Ok(());
        }
        if p.strict_linux {
            *self = Self { credit, since: now };
        }
        // Rounded up: one nanosecond less, and the last byte would be missing.
        let debt = i128::from(self.credit.unsigned_abs()) * SECOND;
        let idle = i128::from(p.idle);
        match (debt + idle - 1).checked_div(idle) {
            Some(ns) => Err(self.since + Nanos(u64::try_from(ns).unwrap_or(u64::MAX))),
            None => Err(Instant::MAX),
        }
    }

    /// Charges a packet of `len` bytes that leaves at `now`.
    #[inline]
    pub fn spend(&mut self, p: &CreditParams, len: u32, now: Instant) {
        let port = i128::from(p.port.max(1));
        let cost = to_i64(i128::from(len) * i128::from(p.send) / port);
        self.credit = self.credit.saturating_add(cost).max(p.low);
        let took = i128::from(len) * SECOND / port;
        self.since = now + Nanos(u64::try_from(took).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn params(idle: i64, port: u64) -> CreditParams {
        let send = idle - port as i64;
        CreditParams { idle, send, high: 1_000, low: -10_000, port, strict_linux: false }
    }

    /// The example of tc-cbs(8): 20 Mbit/s of 1 Gbit/s, frames of 1500 bytes.
    #[test]
    fn the_example_of_the_manual() {
        let said = Reservation { sendslope: -980_000, hicredit: 30, locredit: -1470 };
        assert_eq!(reservation(20_000, 1_000_000, 1500, 1500), said);
        // Class A of 802.1Q: rounded away from zero.
        let rounded = Reservation { sendslope: -901_312, hicredit: 153, locredit: -1390 };
        assert_eq!(reservation(98_688, 1_000_000, 1542, 1542), rounded);
        assert_eq!(
            reservation(5, 0, 1, 7),
            Reservation { sendslope: 4, hicredit: 5, locredit: 28 },
            "a port of 0 counts as 1"
        );
    }

    #[test]
    fn a_packet_costs_credit_and_waiting_earns_it() {
        // 125 kB/s of 1.25 MB/s: a packet of 1000 bytes takes 0.8 ms, costs 900 and waits 7.2 ms.
        let (p, mut s) = (params(125_000, 1_250_000), CreditState::default());
        assert_eq!(s.ask(&p, Instant(5)), Ok(()));
        s.spend(&p, 1000, Instant(0));
        assert_eq!((s.credit(), s.ask(&p, Instant(799_999))), (-900, Err(Instant(800_000))));
        assert_eq!(s.ask(&p, Instant(800_000)), Err(Instant(8_000_000)));
        assert_eq!(s.ask(&p, Instant(7_999_999)), Err(Instant(8_000_000)));
        assert_eq!((s.ask(&p, Instant(8_000_000)), s.credit()), (Ok(()), 0));
    }

    #[test]
    fn credit_grows_to_its_greatest_and_is_lost_with_the_queue() {
        let (p, mut s) = (params(125_000, 1_250_000), CreditState::default());
        s.spend(&p, 1000, Instant(0));
        assert_eq!((s.ask(&p, Instant(100_000_000)), s.credit()), (Ok(()), 1000));
        assert!(s.begin(&p, Instant(100_000_000)));
        assert_eq!(s, CreditState { credit: 0, since: Instant(100_000_000) });
        s.spend(&p, 1000, Instant(100_000_000));
        let before = s;
        assert!(!s.begin(&p, Instant(107_999_999)));
        assert_eq!(s, before, "a debt stays");
        assert!(s.begin(&p, Instant(200_000_000)));
        assert_eq!((s.credit(), s.since), (0, before.since), "an empty queue earns no credit");
        // The least credit.
        (0..30).for_each(|_| s.spend(&p, 1000, Instant(0)));
        assert_eq!(s.credit(), -10_000);
    }

    #[test]
    fn the_time_of_a_refusal_is_the_first_at_which_the_packet_may_leave() {
        for (idle, debt) in [(3, 1), (7, 900), (125_000_001, 1514), (999_999_937, 1), (1, 100)] {
            let mut s = CreditState { credit: -debt, since: Instant(17) };
            let p = params(idle, 1_250_000);
            let at = s.ask(&p, Instant(17)).unwrap_err();
            assert_eq!(s.ask(&p, Instant(at.0 - 1)), Err(at), "{idle} {debt}");
            assert_eq!(s.ask(&p, at), Ok(()), "{idle} {debt}");
        }
        let mut s = CreditState { credit: -1, since: Instant(17) };
        assert_eq!(s.ask(&params(0, 1), Instant(1 << 50)), Err(Instant::MAX));
    }

    #[test]
    fn frequent_refusals_lose_credit_in_linux_only() {
        let exact = params(125_000, 1_250_000);
        let strict = CreditParams { strict_linux: true, ..exact };
        let ends = [exact, strict].map(|p| {
            let mut s = CreditState { credit: -1, since: Instant(0) };
            (1..=16).map(|n| s.ask(&p, Instant(n * 1000)).is_ok()).position(|ok| ok)
        });
        assert_eq!(ends, [Some(7), None]);
    }

    #[test]
    fn no_number_overflows() {
        let p = CreditParams {
            idle: i64::from(i32::MAX) * 125,
            send: i64::from(i32::MIN) * 125,
            high: i32::MAX.into(),
            low: i64::MIN,
            port: 1,
            strict_linux: true,
        };
        let mut s = CreditState::default();
        (0..3).for_each(|_| s.spend(&p, u32::MAX, Instant(1 << 60)));
        assert_eq!(
            (s.credit(), s.since),
            (i64::MIN, Instant((1 << 60) + (u64::from(u32::MAX) * 1_000_000_000)))
        );
        assert!(s.ask(&p, Instant::MAX).is_err());
    }
}
