//! DCTCP (RFC 8257) as Linux 6.12 has it: the window shrinks by half of the share of marked
//! segments, grows like Reno's, and is halved by a loss.
//!
//! The share is an integer of 1024 parts, so that windows are the same to the segment. A connection
//! whose handshake did not agree on marks has Reno's window.

use super::{Congestion, Reno, WINDOW_MIN, Wants, reno};
use crate::config::EcnMode;
use crate::flow::{Ack, CaState, Event, Flow};

/// One, in units of the estimate.
const ALPHA_MAX: u32 = 1024;
/// Weight of a window in the estimate, as a binary logarithm: g = 1/16 (RFC 8257 section 4.2).
const WEIGHT_LOG: u32 = 4;
/// Binary logarithm of `ALPHA_MAX`.
const ALPHA_LOG: u32 = 10;

/// The DCTCP congestion control (RFC 8257).
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    /// DCTCP.Alpha, of 1024. It begins at one: a mark in the first round trip halves the window.
    alpha: u32,
    /// DCTCP.WindowEnd.
    end: u64,
    /// Segments delivered in all, and marked segments among them, when the present window began.
    began: (u64, u64),
    /// The window before the last reduction.
    before: u32,
    /// True if the handshake has agreed on marks.
    agreed: bool,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self { alpha: ALPHA_MAX, end: 0, began: (0, 0), before: 0, agreed: true }
    }
}

impl Dctcp {
    /// Returns the estimated share of marked segments, of 1024.
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }

    fn window_begins(&mut self, flow: &Flow) {
        self.end = flow.next;
        self.began = (flow.delivered, flow.delivered_ce);
    }

    /// Takes the share of marks of an acknowledged window into the estimate (RFC 8257 section 3.3).
    fn estimate(&mut self, flow: &Flow) {
        // An estimate below 1/64 falls to zero at once, as its sixteenth is less than a part of
        // 1024.
        let decay = match self.alpha >> WEIGHT_LOG {
            0 => self.alpha,
            n => n,
        };
        self.alpha -= decay;
        let marked = flow.delivered_ce.saturating_sub(self.began.1);
        if marked > 0 {
            let delivered = flow.delivered.saturating_sub(self.began.0).max(1);
            let share = (marked << (ALPHA_LOG - WEIGHT_LOG)) / delivered;
            let share = u32::try_from(share).unwrap_or(ALPHA_MAX);
            self.alpha = self.alpha.saturating_add(share).min(ALPHA_MAX);
        }
    }

    /// Halves the window after a loss (RFC 8257 section 3.5).
    fn lost(&mut self, flow: &mut Flow) {
        self.before = flow.cwnd;
        flow.ssthresh = (flow.cwnd >> 1).max(WINDOW_MIN);
    }
}

impl Congestion for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
    }
    fn start(&mut self, flow: &mut Flow) {
        *self = Self { agreed: self.agreed, ..Self::default() };
        self.window_begins(flow);
    }
    fn agreed(&mut self, mode: EcnMode) {
        self.agreed = mode != EcnMode::Off;
    }
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        if !self.agreed {
            return Reno.threshold(flow);
        }
        self.before = flow.cwnd;
        let less = (u64::from(flow.cwnd) * u64::from(self.alpha)) >> (ALPHA_LOG + 1);
        // `less` is at most half of a window of 32 bits.
        (flow.cwnd - less as u32).max(WINDOW_MIN)
    }
    fn grow(&mut self, flow: &mut Flow, acked: u32) {
        reno::grow(flow, acked);
    }
    fn undone(&mut self, flow: &mut Flow) -> u32 {
        flow.cwnd.max(if self.agreed { self.before } else { flow.prior_cwnd })
    }
    fn entered(&mut self, flow: &mut Flow, state: CaState) {
        if self.agreed && state == CaState::Recovery {
            self.lost(flow);
        }
    }
    fn event(&mut self, flow: &mut Flow, event: Event) {
        if self.agreed && event == Event::Timeout {
            self.lost(flow);
        }
    }
    fn measured(&mut self, flow: &mut Flow, _ack: &Ack) {
        if self.agreed && flow.una >= self.end {
            self.estimate(flow);
            self.window_begins(flow);
        }
    }
    fn wants(&self) -> Wants {
        Wants::Dctcp
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;

    /// Acknowledges a window of `n` segments of which `marked` were marked.
    fn window(d: &mut Dctcp, f: &mut Flow, n: u64, marked: u64) {
        f.delivered += n;
        f.delivered_ce += marked;
        f.una = f.next;
        f.next += n * u64::from(f.mss);
        d.measured(f, &Ack::default());
    }

    /// alpha = alpha * (1 - 1/16) + M / 16 from 1 (RFC 8257 section 3.3): 0.9375, 0.8789, and
    /// 0.9364 after a window of which nine tenths were marked; as parts of 1024 with each term
    /// rounded down 960, 900, and 844 + 57.
    #[test]
    fn the_estimate_is_a_moving_average() {
        let (mut d, mut f) = (Dctcp::default(), test_flow());
        d.start(&mut f);
        window(&mut d, &mut f, 10, 0);
        assert_eq!(d.alpha(), 960);
        window(&mut d, &mut f, 20, 0);
        assert_eq!(d.alpha(), 900);
        window(&mut d, &mut f, 20, 18);
        assert_eq!(d.alpha(), 844 + 57);
        for _ in 0..100 {
            window(&mut d, &mut f, 20, 0);
        }
        assert_eq!(d.alpha(), 0);
        for _ in 0..200 {
            window(&mut d, &mut f, 20, 20);
        }
        assert_eq!(d.alpha(), 1024);
    }

    #[test]
    fn the_estimate_waits_for_its_window() {
        let (mut d, mut f) = (Dctcp::default(), test_flow());
        f.next = 14_481;
        d.start(&mut f);
        f.una = 14_480;
        d.measured(&mut f, &Ack::default());
        assert_eq!(d.alpha(), 1024);
        f.una = 14_481;
        d.measured(&mut f, &Ack::default());
        assert_eq!(d.alpha(), 960);
    }

    /// cwnd * (1 - alpha / 2) (RFC 8257 section 3.3): 49 with alpha 844/1024 loses 20.2.
    #[test]
    fn marks_take_off_half_of_their_share() {
        let (mut d, mut f) = (Dctcp { alpha: 844, ..Dctcp::default() }, test_flow());
        f.cwnd = 49;
        assert_eq!(d.threshold(&mut f), 29);
        d.alpha = 0;
        assert_eq!(d.threshold(&mut f), 49);
        (d.alpha, f.cwnd) = (1024, 3);
        assert_eq!(d.threshold(&mut f), 2);
    }

    #[test]
    fn a_loss_halves_whatever_the_estimate_and_can_be_undone() {
        let (mut d, mut f) = (Dctcp { alpha: 0, ..Dctcp::default() }, test_flow());
        f.cwnd = 40;
        f.ssthresh = d.threshold(&mut f);
        d.entered(&mut f, CaState::Recovery);
        assert_eq!(f.ssthresh, 20);
        f.cwnd = 21;
        assert_eq!(d.undone(&mut f), 40);
        f.cwnd = 30;
        d.event(&mut f, Event::Timeout);
        assert_eq!(f.ssthresh, 15);
    }

    #[test]
    fn without_marks_it_is_reno() {
        let (mut d, mut f) = (Dctcp { alpha: 0, ..Dctcp::default() }, test_flow());
        d.agreed(EcnMode::Off);
        d.start(&mut f);
        f.cwnd = 41;
        assert_eq!(d.threshold(&mut f), 20);
        f.ssthresh = 20;
        d.entered(&mut f, CaState::Recovery);
        assert_eq!(f.ssthresh, 20);
        f.prior_cwnd = 41;
        assert_eq!(d.undone(&mut f), 41);
    }
}
