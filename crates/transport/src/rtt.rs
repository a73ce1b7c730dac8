//! Round trips: the smoothed estimate and the timeout (RFC 6298), with the variance that Linux
//! keeps.

use crate::tick::Tick;

/// Smallest deviation that the timeout counts with: the floor of Linux.
pub const RTO_MIN_US: u32 = 200_000;
/// Longest timeout (RFC 6298 section 2.5 allows a bound of at least 60 s).
pub const RTO_MAX_US: u64 = 120_000_000;
/// Timeout before there is a sample (RFC 6298 section 2.1).
pub const RTO_INITIAL_US: u64 = 1_000_000;
/// Lifetime of a smallest round trip; then a longer one replaces it.
const MIN_WINDOW_US: u64 = 300_000_000;

/// The estimate of one connection, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    /// Eight times the smoothed round trip; 0 before the first sample.
    pub srtt8: u32,
    /// Four times the mean deviation.
    mdev4: u32,
    /// Largest `mdev4` of the present round trip.
    mdev_max: u32,
    /// Deviation of the timeout.
    var: u32,
    /// Number whose acknowledgement ends the round trip in which `mdev_max` is gathered.
    round_end: u64,
    min: WindowedMin,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            srtt8: 0,
            mdev4: RTO_MIN_US,
            mdev_max: RTO_MIN_US,
            var: 0,
            round_end: 0,
            min: WindowedMin::default(),
        }
    }
}

impl Rtt {
    /// Takes a sample. `una` and `next` are the first number not acknowledged and the first not
    /// sent.
    pub fn sample(&mut self, rtt_us: u32, una: u64, next: u64) {
        let rtt = i64::from(rtt_us.max(1));
        if self.srtt8 == 0 {
            self.srtt8 = (rtt << 3).min(i64::from(u32::MAX)) as u32;
            self.mdev4 = (rtt << 1).min(i64::from(u32::MAX)) as u32;
            self.var = self.mdev4.max(RTO_MIN_US);
            self.mdev_max = self.var;
            self.round_end = next;
            return;
        }
        let srtt8 = i64::from(self.srtt8);
        let error = rtt - (srtt8 >> 3);
        self.srtt8 = (srtt8 + error).clamp(1, i64::from(u32::MAX)) as u32;
        let mdev4 = i64::from(self.mdev4);
        let change = if error < 0 {
            // A falling round trip must not lengthen the timeout: its deviation counts for an
            // eighth.
            let c = -error - (mdev4 >> 2);
            if c > 0 { c >> 3 } else { c }
        } else {
            error - (mdev4 >> 2)
        };
        self.mdev4 = (mdev4 + change).clamp(0, i64::from(u32::MAX)) as u32;
        if self.mdev4 > self.mdev_max {
            self.mdev_max = self.mdev4;
            self.var = self.var.max(self.mdev_max);
        }
        if una > self.round_end {
            if self.mdev_max < self.var {
                self.var -= (self.var - self.mdev_max) >> 2;
            }
            self.round_end = next;
            self.mdev_max = RTO_MIN_US;
        }
    }

    /// Returns the timeout in ticks, without backoff.
    pub fn rto(&self, tick: &Tick) -> u64 {
        let us = match self.srtt8 {
            0 => RTO_INITIAL_US,
            s => u64::from(s >> 3) + u64::from(self.var),
        };
        tick.from_micros(us.min(RTO_MAX_US))
    }

    /// Takes a sample for the smallest round trip.
    pub fn sample_min(&mut self, now_us: u64, rtt_us: u32) {
        self.min.update(now_us, rtt_us.max(1));
    }

    /// Returns the smallest round trip of the last 300 s; `u32::MAX` before the first sample.
    pub const fn min(&self) -> u32 {
        self.min.best[0]
    }
}

/// The minimum over a sliding window, by Kathleen Nichols' method: the best value, and the second
/// and third best of later parts of the window.
#[derive(Clone, Copy, Debug)]
struct WindowedMin {
    /// Times of the values in `best`.
    at: [u64; 3],
    best: [u32; 3],
}

impl Default for WindowedMin {
    fn default() -> Self {
        Self { at: [0; 3], best: [u32::MAX; 3] }
    }
}

impl WindowedMin {
    /// Makes `value` the best from place `i` on.
    fn put(&mut self, i: usize, now: u64, value: u32) {
        self.at[i..].fill(now);
        self.best[i..].fill(value);
    }

    /// Drops the best value, moves the others up, and appends `value`.
    fn shift(&mut self, now: u64, value: u32) {
        self.at = [self.at[1], self.at[2], now];
        self.best = [self.best[1], self.best[2], value];
    }

    fn update(&mut self, now: u64, value: u32) {
        if value <= self.best[0] || now.saturating_sub(self.at[2]) > MIN_WINDOW_US {
            return self.put(0, now, value);
        }
        if value <= self.best[1] {
            self.put(1, now, value);
        } else if value <= self.best[2] {
            self.put(2, now, value);
        }
        let age = now.saturating_sub(self.at[0]);
        if age > MIN_WINDOW_US {
            self.shift(now, value);
            if now.saturating_sub(self.at[0]) > MIN_WINDOW_US {
                self.shift(now, value);
            }
        } else if self.at[1] == self.at[0] && age > MIN_WINDOW_US / 4 {
            self.put(1, now, value);
        } else if self.at[2] == self.at[1] && age > MIN_WINDOW_US / 2 {
            self.put(2, now, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_and_the_floor() {
        let mut r = Rtt::default();
        let t = Tick::default();
        assert_eq!(r.rto(&t), 1000);
        r.sample(30_000, 1, 1);
        assert_eq!((r.srtt8, r.rto(&t)), (240_000, 230));
        // A steady round trip keeps the floor of 200 ms.
        for i in 0..100 {
            r.sample(30_000, i * 10, i * 10 + 5);
        }
        assert_eq!(r.rto(&t), 230);
    }

    #[test]
    fn a_jump_counts_at_once_and_is_forgotten_by_quarters() {
        let mut r = Rtt::default();
        r.sample(100_000, 1, 10);
        r.sample(500_000, 1, 10);
        // error 400 ms; mdev4 = 200 + 400 - 50 = 550 ms.
        assert_eq!((r.srtt8 >> 3, r.var), (150_000, 550_000));
        r.sample(150_000, 11, 20);
        assert_eq!(r.var, 550_000, "the jump was in the round trip that ends");
    }

    #[test]
    fn the_smallest_is_forgotten_after_its_window() {
        let mut r = Rtt::default();
        r.sample_min(0, 10);
        r.sample_min(100_000_000, 20);
        assert_eq!(r.min(), 10);
        r.sample_min(301_000_000, 30);
        assert_eq!(r.min(), 20);
    }
}
