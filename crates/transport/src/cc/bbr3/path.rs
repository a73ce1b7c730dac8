//! Measures of the path: its fullness, its smallest round trip, and lumps of acknowledgements.

use super::super::model::{Bandwidth, WindowMax};
use crate::flow::Flow;

/// The path is full if the rate grew by less than a quarter in `FULL_ROUNDS` round trips in a row
/// (section 5.3.1.2).
const FULL_GROWTH: (u64, u64) = (5, 4);
const FULL_ROUNDS: u32 = 3;
/// Lifetime of a smallest round trip (section 5.5.7), and the interval of searches for it (section
/// 5.3.4).
const MIN_RTT_US: u64 = 10_000_000;
const PROBE_RTT_INTERVAL_US: u64 = 5_000_000;
/// Round trips over which lumps of acknowledgements are remembered (section 5.5.9).
const LUMPS_ROUNDS: u64 = 10;

/// The search for a full path: its result so far and at present, the rate to compare with, and the
/// rounds without growth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Full {
    pub(super) reached: bool,
    pub(super) now: bool,
    pub(super) bw: Bandwidth,
    pub(super) rounds: u32,
}

impl Full {
    /// Begins the search again, with a rate to compare with.
    pub(super) const fn look_again(&mut self, bw: Bandwidth) {
        (self.now, self.rounds, self.bw) = (false, 0, bw);
    }

    /// Handles the end of a round trip with a sample of the rate (section 5.3.1.2).
    pub(super) fn round(&mut self, bw: Bandwidth) {
        if self.now {
            return;
        }
        if bw >= self.bw.part(FULL_GROWTH.0, FULL_GROWTH.1) {
            self.look_again(bw);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= FULL_ROUNDS;
        self.reached |= self.now;
    }
}

/// The smallest round trip, and the episodes that look for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    pub(super) us: u32,
    pub(super) at_us: u64,
    /// The smallest round trip since PROBE_RTT was last due.
    pub(super) recent_us: u32,
    pub(super) recent_at_us: u64,
    pub(super) old: bool,
    pub(super) until_us: Option<u64>,
    pub(super) round: bool,
}

impl MinRtt {
    /// Takes a sample (section 5.3.4.3).
    pub(super) fn take(&mut self, now_us: u64, rtt_us: Option<u32>) {
        self.old = now_us > self.recent_at_us + PROBE_RTT_INTERVAL_US;
        if let Some(us) = rtt_us
            && (us < self.recent_us || self.old)
        {
            (self.recent_us, self.recent_at_us) = (us, now_us);
        }
        if self.recent_us < self.us || now_us > self.at_us + MIN_RTT_US {
            (self.us, self.at_us) = (self.recent_us, self.recent_at_us);
        }
    }
}

/// Acknowledgements in lumps (section 5.5.9).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lumps {
    /// Start of the episode, microseconds.
    pub(super) began_us: u64,
    acked: u32,
    most: WindowMax,
}

impl Lumps {
    /// Takes `newly` segments that were delivered in round trip `round`.
    pub(super) fn take(&mut self, flow: &Flow, bw: Bandwidth, newly: u32, round: u64, full: bool) {
        let now = flow.now_us();
        let mut expected = bw.segments(now.saturating_sub(self.began_us));
        if u64::from(self.acked) <= expected {
            (self.began_us, self.acked, expected) = (now, 0, 0);
        }
        self.acked = self.acked.saturating_add(newly);
        let excess = u64::from(self.acked).saturating_sub(expected).min(u64::from(flow.cwnd));
        self.most.take(round, if full { LUMPS_ROUNDS } else { 1 }, excess);
    }

    /// Returns the segments of window that bridge the silence before the next lump.
    pub(super) fn window(&self) -> u32 {
        u32::try_from(self.most.get()).unwrap_or(u32::MAX)
    }
}
