//! Acknowledgements that come in lumps: the number of segments that one lump acknowledged beyond
//! those that the bandwidth explains.

use super::super::model::Bandwidth;

/// Round trips of one half of the window of the maximum.
const HALF_ROUNDS: u32 = 5;
/// Largest excess that is believed, as the time in microseconds in which the bandwidth delivers it.
const MOST_US: u64 = 100_000;
/// Number of acknowledged segments that ends an episode.
const EPISODE_MAX: u32 = 1 << 20;

/// The excess over the last five to ten round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    /// Start of the present episode, microseconds, and the segments acknowledged in it.
    began_us: u64,
    acked: u32,
    /// The largest excess of the present and of the last half of the window.
    excess: [u32; 2],
    now: usize,
    rounds: u32,
}

impl Aggregation {
    /// Begins an episode.
    pub(super) const fn begin(&mut self, now_us: u64) {
        (self.began_us, self.acked) = (now_us, 0);
    }

    /// Takes `acked` segments that were delivered at `now_us`.
    pub(super) fn take(&mut self, bw: Bandwidth, now_us: u64, acked: u32, cwnd: u32, round_start: bool) {
        if round_start {
            self.rounds = (self.rounds + 1).min(31);
            if self.rounds >= HALF_ROUNDS {
                (self.rounds, self.now) = (0, 1 - self.now);
                self.excess[self.now] = 0;
            }
        }
        let mut expected = bw.segments(now_us.saturating_sub(self.began_us));
        if u64::from(self.acked) <= expected || self.acked.saturating_add(acked) >= EPISODE_MAX {
            self.begin(now_us);
            expected = 0;
        }
        self.acked = self.acked.saturating_add(acked).min(EPISODE_MAX - 1);
        let excess = u64::from(self.acked).saturating_sub(expected).min(u64::from(cwnd)) as u32;
        self.excess[self.now] = self.excess[self.now].max(excess);
    }

    /// Returns the segments of window that bridge the silence before the next lump.
    pub(super) fn window(&self, bw: Bandwidth) -> u32 {
        let excess = self.excess[0].max(self.excess[1]);
        u32::try_from(bw.segments(MOST_US)).map_or(excess, |most| excess.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment per millisecond is expected; lumps of 20 come every 10 ms.
    #[test]
    fn a_lump_counts_whole_and_what_time_explains_is_taken_off() {
        let bw = Bandwidth::of(1, 1_000);
        let mut a = Aggregation::default();
        a.begin(0);
        a.take(bw, 10_000, 20, 100, false);
        assert_eq!(a.window(bw), 20);
        // 40 segments are acknowledged, and 9.99 ms have passed since the episode began.
        a.take(bw, 20_000, 20, 100, false);
        assert_eq!(a.window(bw), 31);
        // 50 ms later more segments were due than came: a new episode begins.
        a.take(bw, 70_000, 1, 100, false);
        assert_eq!((a.acked, a.window(bw)), (1, 31));
    }

    #[test]
    fn the_excess_is_forgotten_after_ten_round_trips() {
        let bw = Bandwidth::of(1, 1_000);
        let mut a = Aggregation::default();
        a.begin(0);
        a.take(bw, 10_000, 20, 100, false);
        let seen: Vec<u32> = (1..=10)
            .map(|i| {
                a.take(bw, i * 100_000, 1, 100, true);
                a.window(bw)
            })
            .collect();
        assert_eq!(seen, [20, 20, 20, 20, 20, 20, 20, 20, 20, 1]);
    }

    #[test]
    fn the_excess_is_bounded() {
        let mut a = Aggregation::default();
        a.begin(0);
        a.take(Bandwidth(0), 1, 5_000_000, 3_000, false);
        assert_eq!(a.window(Bandwidth::of(1, 1_000)), 99, "100 ms of bandwidth, rounded down");
        assert_eq!(a.window(Bandwidth::MAX), 3_000, "the window");
    }
}
