//! A token-bucket policer lets a burst through and then drops the packets that exceed its rate. Two
//! intervals of high loss with the same rate of delivery reveal a policer: BBR sends at that rate
//! for a while, instead of probing into the drops.

use super::super::model::Bandwidth;
use crate::flow::Flow;

/// Smallest number of round trips of an interval.
const ROUNDS_MIN: u32 = 4;
/// Number of round trips after which an interval without an end is discarded.
const ROUNDS_MAX: u32 = 4 * ROUNDS_MIN;
/// Segments lost of 256 delivered that make an interval one of a policer: a fifth.
const LOSS: u64 = 50;
/// Largest difference between two equal rates, as a part of 256: an eighth.
const SAME: u64 = 32;
/// Largest difference between two equal rates, byte/s, if this is more.
const SAME_RATE: u64 = 4_000 / 8;
/// Round trips of sending at the rate of the policer before BBR probes again.
const USE_ROUNDS: u32 = 48;

/// The consequence for the rest of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is no consequence.
    Nothing,
    /// The rate of a policer is known from now on: no gain above 1.
    Found,
    /// The rate was used long enough: probing begins anew.
    Over,
}

/// The search for a policer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    /// True if the rate is used.
    using: bool,
    rate: Option<Bandwidth>,
    rounds: u32,
    began_ms: u64,
    delivered: u64,
    lost: u64,
}

/// The part of an acknowledgement, or of a timeout, that concerns a policer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) round_start: bool,
    pub(super) losses: bool,
    pub(super) app_limited: bool,
    /// Time of the last delivery, microseconds.
    pub(super) delivered_us: u64,
}

impl Policer {
    /// Returns the rate to send at, if one was found.
    pub(super) fn rate(&self) -> Option<Bandwidth> {
        self.rate.filter(|_| self.using)
    }

    /// Resets the search.
    pub(super) fn reset(&mut self, flow: &Flow, delivered_us: u64) {
        *self = Self::default();
        self.begin(flow, delivered_us);
    }

    /// Begins an interval.
    const fn begin(&mut self, flow: &Flow, delivered_us: u64) {
        self.began_ms = delivered_us / 1_000;
        (self.delivered, self.lost) = (flow.delivered, flow.lost_total);
        self.rounds = 0;
    }

    /// Takes an acknowledgement. `probing`: the sender is in PROBE_BW, so that the rate is really
    /// used.
    pub(super) fn take(&mut self, flow: &Flow, seen: Seen, probing: bool) -> Verdict {
        if self.using {
            if probing && seen.round_start {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.reset(flow, seen.delivered_us);
                    return Verdict::Over;
                }
            }
            return Verdict::Nothing;
        }
        if !self.sampling {
            // An interval begins with a loss, when the bucket is empty.
            if !seen.losses {
                return Verdict::Nothing;
            }
            self.begin(flow, seen.delivered_us);
            self.sampling = true;
        }
        if seen.app_limited {
            self.reset(flow, seen.delivered_us);
            return Verdict::Nothing;
        }
        self.rounds += u32::from(seen.round_start);
        if self.rounds < ROUNDS_MIN {
            return Verdict::Nothing;
        }
        if self.rounds > ROUNDS_MAX {
            self.reset(flow, seen.delivered_us);
            return Verdict::Nothing;
        }
        // An interval ends with a loss too, when the bucket is empty again.
        if !seen.losses {
            return Verdict::Nothing;
        }
        self.end(flow, seen.delivered_us)
    }

    /// Judges the interval so far, which may end here.
    fn end(&mut self, flow: &Flow, delivered_us: u64) -> Verdict {
        let (lost, delivered) = (flow.lost_total - self.lost, flow.delivered - self.delivered);
        let ms = (delivered_us / 1_000).saturating_sub(self.began_ms);
        if delivered == 0 || lost << 8 < LOSS * delivered || ms == 0 {
            return Verdict::Nothing;
        }
        let new = Bandwidth::of(delivered, ms * 1_000);
        let Some(old) = self.rate else {
            self.rate = Some(new);
            self.begin(flow, delivered_us);
            return Verdict::Nothing;
        };
        let apart = Bandwidth(new.0.abs_diff(old.0));
        if apart <= old.part(SAME, 256) || apart.pacing_rate(256, flow.mss) <= SAME_RATE {
            self.rate = Some(Bandwidth((new.0 + old.0) / 2));
            (self.using, self.rounds) = (true, 0);
            return Verdict::Found;
        }
        self.rate = Some(new);
        self.begin(flow, delivered_us);
        Verdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;

    /// Four rounds of 100 ms with 100 delivered and 25 lost each, twice: 1 segment per millisecond,
    /// 20 % of the segments sent.
    #[test]
    fn two_lossy_intervals_of_one_rate_find_it() {
        let mut f = test_flow();
        let mut p = Policer::default();
        let mut us = 1_000_000;
        let seen = |us| Seen { round_start: true, losses: true, app_limited: false, delivered_us: us };
        let mut verdicts = Vec::new();
        for _ in 0..10 {
            verdicts.push(p.take(&f, seen(us), true));
            us += 100_000;
            f.delivered += 100;
            f.lost_total += 25;
        }
        let found = verdicts.iter().position(|v| *v == Verdict::Found);
        // The first interval begins with the first loss and counts its round: it ends in the
        // fourth; the second interval has four rounds after that.
        assert_eq!(found, Some(7), "{verdicts:?}");
        assert_eq!(p.rate(), Some(Bandwidth::of(1, 1_000)));
        let over = (0..48).position(|_| p.take(&f, seen(us), true) == Verdict::Over);
        assert_eq!((over, p.rate()), (Some(45), None), "two of the 48 rounds were in the loop above");
    }

    #[test]
    fn little_loss_is_no_policer() {
        let mut f = test_flow();
        let mut p = Policer::default();
        for i in 0..100 {
            let seen =
                Seen { round_start: true, losses: true, app_limited: false, delivered_us: i * 100_000 };
            assert_eq!(p.take(&f, seen, true), Verdict::Nothing);
            f.delivered += 100;
            f.lost_total += 10;
        }
    }

    #[test]
    fn an_idle_application_ends_the_search() {
        let f = test_flow();
        let mut p = Policer::default();
        let seen = Seen { round_start: true, losses: true, app_limited: true, delivered_us: 5 };
        p.take(&f, seen, true);
        assert!(!p.sampling);
    }
}
