//! Pacing: the delay between packets of a flow that keeps it to a rate.

use crate::base::time::Nanos;

/// Largest delay between two packets: with a longer one, a flow would seem dead.
pub const DELAY_MAX: Nanos = Nanos(1_000_000_000);

/// Returns the time that `bytes` take at `rate` bytes per second, rounded down, and false. If the
/// time is more than [`DELAY_MAX`], returns [`DELAY_MAX`] and true. A rate of 0 counts as 1 byte
/// per second.
#[inline]
pub const fn delay(bytes: u32, rate: u64) -> (Nanos, bool) {
    // 2^32 bytes times 10^9 is below 2^62.
    let scaled = bytes as u64 * 1_000_000_000;
    let ns = match scaled.checked_div(rate) {
        Some(ns) => ns,
        None => scaled,
    };
    if ns > DELAY_MAX.0 { (DELAY_MAX, true) } else { (Nanos(ns), false) }
}

/// Returns `delay` less the lateness of the packet (a timer is never early), at most half of
/// `delay`: the rate is kept over time, without bursts.
#[inline]
pub(crate) const fn make_up(delay: Nanos, late: Nanos) -> Nanos {
    let half = delay.0 / 2;
    Nanos(delay.0 - if late.0 < half { late.0 } else { half })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_at_known_rates() {
        for (bytes, rate, ns, long) in [
            (1_000, 1_000_000, 1_000_000, false),
            (1_514, 125_000_000, 12_112, false),
            (1_514, 999_999_937, 1_514, false),
            (1_000, 1_000, 1_000_000_000, false),
            (1_001, 1_000, 1_000_000_000, true),
            (1, 0, 1_000_000_000, false),
            (2, 0, 1_000_000_000, true),
            (0, 0, 0, false),
            (u32::MAX, 1, 1_000_000_000, true),
        ] {
            assert_eq!(delay(bytes, rate), (Nanos(ns), long), "{bytes} at {rate}");
        }
    }

    #[test]
    fn lateness_is_made_up_for_by_half_at_most() {
        for (late, ns) in [(0, 1_001), (1, 1_000), (500, 501), (501, 501), (u64::MAX, 501)] {
            assert_eq!(make_up(Nanos(1_001), Nanos(late)), Nanos(ns), "{late}");
        }
    }
}
