//! HyStart++ (RFC 9406): slow start ends when round trips grow, after a phase of slower growth
//! (conservative slow start) that can still find the rise spurious.

use crate::flow::{Ack, Flow};

/// Bounds of the rise of the round trip that counts, microseconds (RFC 9406 section 4.3,
/// MIN_RTT_THRESH, MAX_RTT_THRESH).
const RISE_US: (u32, u32) = (4_000, 16_000);
/// Divisor of a round trip that gives the rise that counts (MIN_RTT_DIVISOR).
const RISE_DIVISOR: u32 = 8;
/// Number of samples after which a round is judged (N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// Divisor of the growth in conservative slow start (CSS_GROWTH_DIVISOR).
const GROWTH_DIVISOR: u32 = 4;
/// Number of rounds of conservative slow start (CSS_ROUNDS).
const ROUNDS: u32 = 5;
/// Largest number of segments that one acknowledgement adds if departures are not paced (L).
const GROWTH_MAX: u32 = 8;

/// Phase of slow start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Slow start.
    #[default]
    Fast,
    /// Conservative slow start: the round trip at its start, and the number of rounds begun in it.
    Conservative { baseline_us: u32, rounds: u32 },
    /// Slow start is over.
    Over,
}

/// The end of slow start by RFC 9406.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStartPlus {
    phase: Phase,
    /// Number whose acknowledgement ends the round.
    end: u64,
    /// The smallest round trip of the last round and of this one; `u32::MAX` without a sample.
    last_us: u32,
    least_us: u32,
    samples: u32,
    /// Acknowledged segments, fewer than four, that have not yet made the window grow.
    rest: u32,
}

impl Default for HyStartPlus {
    fn default() -> Self {
        Self { phase: Phase::Fast, end: 0, last_us: u32::MAX, least_us: u32::MAX, samples: 0, rest: 0 }
    }
}

impl HyStartPlus {
    /// Starts with the connection.
    pub(crate) fn start(&mut self, flow: &Flow) {
        *self = Self { end: flow.next, ..Self::default() };
    }

    /// True while growth is that of conservative slow start.
    pub(crate) const fn conservative(&self) -> bool {
        matches!(self.phase, Phase::Conservative { .. })
    }

    /// Takes an acknowledgement in the first slow start. Sets the threshold when slow start is
    /// over.
    pub(crate) fn measured(&mut self, flow: &mut Flow, ack: &Ack) {
        // Only the first slow start has no threshold (RFC 9406 section 4.3).
        if self.phase == Phase::Over || flow.ssthresh < u32::MAX {
            self.phase = Phase::Over;
            return;
        }
        if flow.una >= self.end {
            self.round(flow);
        }
        if let Some(us) = ack.rtt_us {
            self.least_us = self.least_us.min(us);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples < SAMPLES || self.least_us == u32::MAX {
            return;
        }
        match self.phase {
            Phase::Fast if self.last_us < u32::MAX => {
                let rise = (self.last_us / RISE_DIVISOR).clamp(RISE_US.0, RISE_US.1);
                if self.least_us >= self.last_us.saturating_add(rise) {
                    self.phase = Phase::Conservative { baseline_us: self.least_us, rounds: 1 };
                }
            }
            Phase::Conservative { baseline_us, .. } if self.least_us < baseline_us => {
                self.phase = Phase::Fast;
            }
            _ => {}
        }
    }

    /// Begins a round. The round in which conservative slow start began counts, although it was a
    /// part only.
    fn round(&mut self, flow: &mut Flow) {
        self.end = flow.next;
        (self.last_us, self.least_us, self.samples) = (self.least_us, u32::MAX, 0);
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds > ROUNDS {
                self.phase = Phase::Over;
                flow.ssthresh = flow.cwnd;
            }
        }
    }

    /// Returns the number of segments by which the window grows in slow start when `acked` are
    /// acknowledged.
    pub(crate) fn growth(&mut self, flow: &Flow, acked: u32) -> u32 {
        let acked = if flow.spread() { acked } else { acked.min(GROWTH_MAX) };
        if !self.conservative() {
            return acked;
        }
        let sum = self.rest.saturating_add(acked);
        self.rest = sum % GROWTH_DIVISOR;
        sum / GROWTH_DIVISOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;

    fn ack(us: u32) -> Ack {
        Ack { rtt_us: Some(us), ..Ack::default() }
    }

    /// Plays a round of `n` samples of one length.
    fn round(h: &mut HyStartPlus, f: &mut Flow, n: u32, us: u32) {
        f.una = f.next;
        f.next += u64::from(n) * 1448;
        for _ in 0..n {
            h.measured(f, &ack(us));
        }
    }

    /// From 40 ms a rise of an eighth, 5 ms, counts, after eight samples; a rise that is a
    /// microsecond smaller does not.
    #[test]
    fn an_eighth_more_begins_the_conservative_phase() {
        let (mut h, mut f) = (HyStartPlus::default(), test_flow());
        h.start(&f);
        round(&mut h, &mut f, 10, 40_000);
        round(&mut h, &mut f, 10, 44_999);
        assert!(!h.conservative());
        round(&mut h, &mut f, 7, 44_999 + 5_624);
        assert!(!h.conservative(), "seven samples do not suffice");
        h.measured(&mut f, &ack(44_999 + 5_624));
        assert!(h.conservative());
    }

    #[test]
    fn the_rise_has_bounds() {
        for (base, rise) in [(1_000, 4_000), (64_000, 8_000), (1_000_000, 16_000)] {
            for (us, expected) in [(base + rise - 1, false), (base + rise, true)] {
                let (mut h, mut f) = (HyStartPlus::default(), test_flow());
                h.start(&f);
                round(&mut h, &mut f, 8, base);
                round(&mut h, &mut f, 8, us);
                assert_eq!(h.conservative(), expected, "{base} {us}");
            }
        }
    }

    #[test]
    fn five_rounds_later_slow_start_is_over() {
        let (mut h, mut f) = (HyStartPlus::default(), test_flow());
        h.start(&f);
        round(&mut h, &mut f, 10, 40_000);
        round(&mut h, &mut f, 10, 50_000);
        for n in 2..=5 {
            round(&mut h, &mut f, 10, 50_000);
            assert!(h.conservative(), "round {n}");
        }
        f.cwnd = 77;
        round(&mut h, &mut f, 10, 50_000);
        assert_eq!((h.phase, f.ssthresh), (Phase::Over, 77));
    }

    #[test]
    fn a_round_trip_that_falls_again_was_no_queue() {
        let (mut h, mut f) = (HyStartPlus::default(), test_flow());
        h.start(&f);
        round(&mut h, &mut f, 10, 40_000);
        round(&mut h, &mut f, 10, 50_000);
        round(&mut h, &mut f, 10, 49_999);
        assert_eq!((h.phase, f.ssthresh), (Phase::Fast, u32::MAX));
    }

    #[test]
    fn growth_is_a_quarter_and_no_segment_is_forgotten() {
        let (mut h, mut f) = (HyStartPlus::default(), test_flow());
        assert_eq!(h.growth(&f, 20), 8, "unpaced: eight at most");
        f.paced = true;
        assert_eq!(h.growth(&f, 20), 20);
        h.phase = Phase::Conservative { baseline_us: 1, rounds: 1 };
        let sum: u32 = (0..40).map(|_| h.growth(&f, 1)).sum();
        assert_eq!(sum, 10);
    }
}
