//! Samples of the rate of delivery (draft-cheng-iccrg-delivery-rate-estimation).

use txweir_core::Instant;

use crate::flow::{Flow, RateSample};
use crate::sender::units::{Marks, Unit};

/// State of a connection between samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// Departure time of the first unit of the present phase of sending, microseconds.
    first_us: u64,
    /// Time of the last delivery, microseconds.
    delivered_us: u64,
}

/// A sample in the making while an acknowledgement is handled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gather {
    sample: RateSample,
    /// Time at which `prior_delivered` was reached; `None` before the first unit.
    prior_us: Option<u64>,
    last_end: u64,
    sent: Instant,
    delivered_before: u64,
    lost_before: u64,
}

impl Gather {
    pub(crate) fn new(flow: &Flow) -> Self {
        Self { delivered_before: flow.delivered, lost_before: flow.lost_total, ..Self::default() }
    }
    /// Returns the number of segments delivered in all when the unit of the sample was sent; 0
    /// without a sample.
    pub(crate) const fn prior_delivered(&self) -> u64 {
        self.sample.prior_delivered
    }
    pub(crate) const fn delay_possible(&mut self) {
        self.sample.delayed = true;
    }
    /// True if the acknowledgement may have waited for a timer of the receiver.
    pub(crate) const fn delayed(&self) -> bool {
        self.sample.delayed
    }
    /// Returns the segments delivered and lost since the acknowledgement came.
    pub(crate) const fn delivered(&self, flow: &Flow) -> (u32, u32) {
        ((flow.delivered - self.delivered_before) as u32, (flow.lost_total - self.lost_before) as u32)
    }
}

/// True if the transmission `(at, end)` is later than the other one; numbers decide between equal
/// times. The clock counts whole microseconds.
pub(crate) fn sent_after(at: Instant, end: u64, other: Instant, other_end: u64) -> bool {
    (at.0 / 1_000, end) > (other.0 / 1_000, other_end)
}

impl Rate {
    /// Records in a unit that leaves the deliveries so far.
    pub(crate) fn sent(&mut self, flow: &Flow, unit: &mut Unit) {
        let at_us = unit.sent.0 / 1_000;
        if flow.out == 0 {
            (self.first_us, self.delivered_us) = (at_us, at_us);
        }
        unit.first_us = self.first_us;
        unit.delivered_us = self.delivered_us;
        unit.delivered = flow.delivered;
        unit.delivered_ce = flow.delivered_ce as u32;
        unit.lost = flow.lost_total as u32;
        unit.marks.clear(Marks::APP_LIMITED | Marks::SAMPLED);
        if flow.app_limited > 0 {
            unit.marks.set(Marks::APP_LIMITED);
        }
    }

    /// Takes a delivered unit, which makes the sample if it was sent last of those that this
    /// acknowledgement delivers.
    pub(crate) fn delivered(&mut self, g: &mut Gather, flow: &Flow, unit: &mut Unit) {
        if unit.marks.has(Marks::SAMPLED) {
            return;
        }
        let later = sent_after(unit.sent, unit.end, g.sent, g.last_end);
        if g.prior_us.is_none() || later {
            g.prior_us = Some(unit.delivered_us);
            g.sample.prior_delivered = unit.delivered;
            g.sample.app_limited = unit.marks.has(Marks::APP_LIMITED);
            g.sample.retransmitted = unit.marks.has(Marks::EVER_AGAIN);
            g.sample.sent_in_flight = unit.in_flight;
            g.sample.prior_lost =
                flow.lost_total - u64::from((flow.lost_total as u32).wrapping_sub(unit.lost));
            g.sample.delivered_ce = (flow.delivered_ce as u32).wrapping_sub(unit.delivered_ce);
            (g.last_end, g.sent) = (unit.end, unit.sent);
            self.first_us = unit.sent.0 / 1_000;
            g.sample.send_us = self.first_us.saturating_sub(unit.first_us);
        }
        if unit.marks.has(Marks::SACKED) {
            unit.marks.set(Marks::SAMPLED);
        }
    }

    /// Completes the sample at the end of an acknowledgement.
    pub(crate) fn finish(&mut self, mut g: Gather, flow: &mut Flow) -> RateSample {
        if flow.app_limited > 0 && flow.delivered > flow.app_limited {
            flow.app_limited = 0;
        }
        if flow.delivered > g.delivered_before {
            self.delivered_us = flow.now_us();
        }
        g.sample.delivered_us = self.delivered_us;
        let Some(prior_us) = g.prior_us else { return RateSample { prior_delivered: 0, ..g.sample } };
        g.sample.ack_us = flow.now_us().saturating_sub(prior_us);
        g.sample.interval_us = g.sample.send_us.max(g.sample.ack_us);
        // An interval below the smallest round trip results from compressed acknowledgements or
        // from a unit that was sent twice: it is no sample.
        if g.sample.interval_us >= u64::from(flow.min_rtt_us) {
            g.sample.delivered = Some((flow.delivered - g.sample.prior_delivered) as u32);
        }
        g.sample
    }
}
