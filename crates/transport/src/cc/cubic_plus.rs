//! CUBIC (RFC 9438) whose slow start ends by HyStart++ (RFC 9406).

use super::hystart::HyStartPlus;
use super::{Congestion, Cubic};
use crate::flow::{Ack, CaState, Event, Flow};

/// CUBIC with HyStart++.
#[derive(Clone, Copy, Debug)]
pub struct CubicPlus {
    cubic: Cubic,
    start: HyStartPlus,
}

impl Default for CubicPlus {
    fn default() -> Self {
        Self { cubic: Cubic::without_hystart(), start: HyStartPlus::default() }
    }
}

impl Congestion for CubicPlus {
    fn name(&self) -> &'static str {
        "cubic+"
    }
    fn start(&mut self, flow: &mut Flow) {
        self.cubic.start(flow);
        self.start.start(flow);
    }
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        self.cubic.threshold(flow)
    }
    fn grow(&mut self, flow: &mut Flow, acked: u32) {
        if !flow.slow_start() || flow.ssthresh < u32::MAX {
            self.cubic.grow(flow, acked);
        } else if flow.window_limited() {
            let more = self.start.growth(flow, acked);
            flow.grow_exponentially(more);
        }
    }
    fn entered(&mut self, flow: &mut Flow, state: CaState) {
        self.cubic.entered(flow, state);
    }
    fn event(&mut self, flow: &mut Flow, event: Event) {
        self.cubic.event(flow, event);
    }
    fn measured(&mut self, flow: &mut Flow, ack: &Ack) {
        self.start.measured(flow, ack);
        self.cubic.measured(flow, ack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;

    #[test]
    fn after_the_first_slow_start_it_is_cubic() {
        let (mut plus, mut cubic) = (CubicPlus::default(), Cubic::without_hystart());
        let (mut f, mut g) = (test_flow(), test_flow());
        for (c, f) in [(&mut plus as &mut dyn Congestion, &mut f), (&mut cubic, &mut g)] {
            f.cwnd = 100;
            f.ssthresh = c.threshold(f);
            f.cwnd = f.ssthresh;
            for ms in 0..3_000 {
                f.now = txweir_core::Instant::from_millis(ms);
                c.grow(f, 2);
            }
        }
        assert_eq!((f.cwnd, f.ssthresh), (g.cwnd, g.ssthresh));
        assert!(f.cwnd > 70);
    }
}
