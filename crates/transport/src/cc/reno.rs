//! NewReno's window (RFC 5681): half after a loss, a segment more per round trip.

use super::{Congestion, WINDOW_MIN};
use crate::flow::Flow;

/// The NewReno congestion control (RFC 5681).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

/// Grows the window as in RFC 5681: exponentially below the threshold, then by a segment per
/// window.
pub(crate) fn grow(flow: &mut Flow, acked: u32) {
    if !flow.window_limited() {
        return;
    }
    let acked = if flow.slow_start() { flow.grow_exponentially(acked) } else { acked };
    if acked > 0 {
        flow.grow_linearly(flow.cwnd, acked);
    }
}

impl Congestion for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        (flow.cwnd >> 1).max(WINDOW_MIN)
    }
    fn grow(&mut self, flow: &mut Flow, acked: u32) {
        grow(flow, acked);
    }
}
