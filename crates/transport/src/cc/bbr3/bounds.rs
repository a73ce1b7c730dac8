//! The bounds that losses and marks add to the model of the path (draft sections 5.5.10 and
//! 5.5.11): a short-term bound of rate and volume, which the next probe lifts; a long-term bound of
//! the volume, which only probes move; and the state to restore when losses prove spurious.

use super::super::model::Bandwidth;
use super::Mode;
use crate::flow::{Flow, Lost, RateSample};

/// Largest tolerable loss, percent ("LossThresh").
pub(super) const LOSS_PERCENT: u64 = 2;
/// A round trip with losses leaves at least this part of the bounds ("Beta").
pub(super) const BETA: (u64, u64) = (7, 10);
/// Part of the long-term bound that cruising leaves free, percent ("Headroom").
const HEADROOM_PERCENT: u32 = 15;

/// The bounds. `MAX` means no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) short_bw: Bandwidth,
    pub(super) short_inflight: u32,
    pub(super) long_inflight: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { short_bw: Bandwidth::MAX, short_inflight: u32::MAX, long_inflight: u32::MAX }
    }
}

impl Bounds {
    /// Lifts the short-term bounds.
    pub(super) const fn lift(&mut self) {
        (self.short_bw, self.short_inflight) = (Bandwidth::MAX, u32::MAX);
    }

    /// Lowers the short-term bounds after a round trip with losses: to the amount delivered in it,
    /// but not below 0.7 of the bounds.
    pub(super) fn lower(&mut self, max_bw: Bandwidth, cwnd: u32, latest: &Latest) {
        self.begin(max_bw, cwnd);
        self.short_bw = latest.bw.max(self.short_bw.part(BETA.0, BETA.1));
        self.short_inflight = latest.inflight.max(beta(self.short_inflight));
    }

    /// Sets short-term bounds, if there are none, to the present state of the flow.
    pub(super) fn begin(&mut self, max_bw: Bandwidth, cwnd: u32) {
        self.short_bw = self.short_bw.min(max_bw);
        self.short_inflight = if self.short_inflight == u32::MAX { cwnd } else { self.short_inflight };
    }

    /// Returns the larger bounds of two.
    pub(super) fn wider(&self, other: &Self) -> Self {
        Self {
            short_bw: self.short_bw.max(other.short_bw),
            short_inflight: self.short_inflight.max(other.short_inflight),
            long_inflight: self.long_inflight.max(other.long_inflight),
        }
    }

    /// Returns the long-term bound less the part left free for others.
    pub(super) fn with_headroom(&self, least: u32) -> u32 {
        if self.long_inflight == u32::MAX {
            return u32::MAX;
        }
        let headroom = (u64::from(self.long_inflight) * u64::from(HEADROOM_PERCENT) / 100).max(1) as u32;
        self.long_inflight.saturating_sub(headroom).max(least)
    }
}

/// Returns 0.7 of a volume.
pub(super) fn beta(volume: u32) -> u32 {
    (u64::from(volume) * BETA.0 / BETA.1) as u32
}

/// The path over the last round trip, counted from the first loss in it, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    /// The largest rate of delivery, and the largest volume delivered in one round trip.
    pub(super) bw: Bandwidth,
    pub(super) inflight: u32,
    /// True if the round trip ends with the acknowledgement at hand.
    pub(super) start: bool,
    /// True if a unit was lost in this round trip.
    pub(super) loss: bool,
    /// The round trip ends with the acknowledgement of a segment that was sent with this number
    /// delivered.
    end: u64,
    /// Number of ranges lost in it, and the end of the last one.
    pub(super) ranges: u32,
    lost_end: u64,
}

impl Latest {
    /// Takes an acknowledgement that delivered segments.
    pub(super) fn take(&mut self, flow: &Flow, sample: &RateSample, bw: Bandwidth) {
        self.start = sample.prior_delivered >= self.end;
        self.bw = self.bw.max(bw);
        self.inflight = self.inflight.max(volume(flow, sample));
        if self.start {
            self.end = flow.delivered;
        }
    }

    /// Finishes an acknowledgement.
    pub(super) fn advance(&mut self, flow: &Flow, sample: &RateSample, bw: Bandwidth) {
        if self.start {
            (self.bw, self.inflight) = (bw, volume(flow, sample));
        }
    }

    /// Forgets the round trip so far, as probing begins or ends.
    pub(super) const fn reset(&mut self) {
        (self.loss, self.bw, self.inflight) = (false, Bandwidth(0), 0);
    }

    /// Takes a loss. True if it is the first of the round trip.
    pub(super) fn lose(&mut self, flow: &Flow, range: (u64, u64)) -> bool {
        let first = !self.loss;
        if first {
            self.end = flow.delivered;
        }
        self.ranges += u32::from(range.0 != self.lost_end);
        self.lost_end = range.1;
        self.loss = true;
        first
    }
}

/// Returns the number of segments delivered since the segment of the sample was sent.
fn volume(flow: &Flow, sample: &RateSample) -> u32 {
    u32::try_from(flow.delivered - sample.prior_delivered).unwrap_or(u32::MAX)
}

/// True if more of a volume was lost than is tolerable.
pub(super) fn too_much(lost: u64, in_flight: u32) -> bool {
    lost * 100 > u64::from(in_flight) * LOSS_PERCENT
}

/// Returns the volume in flight, within a lost unit, at which the losses became intolerable.
pub(super) fn inflight_at_loss(lost: &Lost) -> u32 {
    let before = u64::from(lost.sent_in_flight.saturating_sub(lost.segments));
    let lost_before = u64::from(lost.lost_since.saturating_sub(lost.segments));
    let prefix = (LOSS_PERCENT * before).saturating_sub(100 * lost_before) / (100 - LOSS_PERCENT);
    u32::try_from(before + prefix).unwrap_or(u32::MAX)
}

/// The state to restore after a needless recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    pub(super) mode: Mode,
    pub(super) bounds: Bounds,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draft section 5.5.10.2: a burst of 40 segments on top of 200, 3 lost before: (0.02 * 200 -
    /// 3) / 0.98 = 1.02.
    #[test]
    fn where_in_a_burst_losses_became_too_many() {
        let lost = Lost { segments: 40, sent_in_flight: 240, lost_since: 43, ..Lost::default() };
        assert_eq!(inflight_at_loss(&lost), 201);
        let lost = Lost { lost_since: 60, ..lost };
        assert_eq!(inflight_at_loss(&lost), 200, "too many before it");
    }

    #[test]
    fn two_percent() {
        assert!(!too_much(2, 100));
        assert!(too_much(3, 100));
        assert!(too_much(1, 49));
    }

    #[test]
    fn headroom() {
        let b = |long_inflight| Bounds { long_inflight, ..Bounds::default() };
        assert_eq!(b(200).with_headroom(4), 170);
        assert_eq!(b(5).with_headroom(4), 4);
        assert_eq!(b(u32::MAX).with_headroom(4), u32::MAX);
    }

    /// From 100 segments and 1 segment/ms the bounds fall to the amount delivered, or to 0.7 of it.
    #[test]
    fn a_lossy_round_trip_lowers_the_short_term_bounds() {
        let mut b = Bounds::default();
        let latest = Latest { bw: Bandwidth::of(9, 10_000), inflight: 50, ..Latest::default() };
        b.lower(Bandwidth::of(1, 1_000), 100, &latest);
        assert_eq!((b.short_bw, b.short_inflight), (latest.bw, 70));
        b.lower(Bandwidth::of(1, 1_000), 100, &Latest::default());
        assert_eq!((b.short_bw, b.short_inflight), (latest.bw.part(7, 10), 49));
        b.lift();
        assert_eq!(b, Bounds::default());
    }
}
