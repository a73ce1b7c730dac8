//! The monotonic clock: the only place of txweir's live path that reads the time.

use rustix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds of `CLOCK_MONOTONIC`. The clock never goes back, cannot be set, and
/// stands still while the machine sleeps. Its zero has no meaning. It wraps after 584 years of
/// uptime. A call costs about 40 ns (vDSO).
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Both fields are non-negative by definition of the clock; a negative one reads as 0.
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    secs.wrapping_mul(1_000_000_000).wrapping_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_passes_and_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let next = now_ns();
            assert!(next >= last);
            last = next;
        }
        std::thread::sleep(Duration::from_millis(10));
        assert!(now_ns() - last >= 10_000_000);
    }
}
