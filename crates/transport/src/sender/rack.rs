//! Loss by time (RFC 8985): a unit is lost if a unit sent after it has been delivered, and more
//! than the reordering window has passed.

use txweir_core::Instant;

use crate::cc::Congestion;
use crate::flow::{CaState, Flow, Lost};
use crate::rare::Blank;
use crate::sender::rate::sent_after;
use crate::sender::units::{Marks, Unit, Units};

/// Number of recoveries for which a widened window is kept (RFC 8985 section 6.2, step 4).
const PERSIST: u8 = 16;
/// Number of duplicate acknowledgements that show a loss while no reordering has been seen (RFC
/// 5681).
pub(crate) const REORDERING: u32 = 3;
/// Largest reordering, in segments, that is believed.
const REORDERING_MAX: u32 = 300;

/// State of RACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// The latest transmission that was delivered.
    sent: Instant,
    end: u64,
    rtt_us: u64,
    /// True if a unit was delivered since losses were last looked for.
    pub(crate) advanced: bool,
    /// True if a duplicate was reported since the window was last adapted, after packets had been
    /// seen out of order, and not of a loss probe.
    pub(crate) duplicate_seen: bool,
    /// Segments reported as duplicates in all.
    pub(crate) duplicates: u32,
    /// Width of the window, in quarters of the smallest round trip.
    steps: u8,
    pub(crate) persist: u8,
    last_delivered: u64,
    /// Largest distance, in segments, by which packets were seen out of order.
    pub(crate) reordering: u32,
    /// Number of times that packets were seen out of order.
    pub(crate) reordered: u32,
}

impl Blank for Rack {
    fn blank() -> &'static Self {
        const START: Rack = Rack {
            sent: Instant::ZERO,
            end: 0,
            rtt_us: 0,
            advanced: false,
            duplicate_seen: false,
            duplicates: 0,
            steps: 1,
            persist: 0,
            last_delivered: 0,
            reordering: REORDERING,
            reordered: 0,
        };
        &START
    }
}

impl Rack {
    /// Takes account of a delivered unit (section 6.2, step 2).
    pub(crate) fn delivered(&mut self, flow: &Flow, unit: &Unit) {
        let rtt_us = age_us(flow, unit);
        // An answer to a retransmission within less than the smallest round trip answers the
        // original.
        if rtt_us < u64::from(flow.min_rtt_us) && unit.marks.has(Marks::EVER_AGAIN) {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if sent_after(unit.sent, unit.end, self.sent, self.end) {
            (self.sent, self.end) = (unit.sent, unit.end);
        }
    }

    /// True if the answer to a unit that was sent again came too early to answer the last
    /// transmission.
    pub(crate) fn spurious(flow: &Flow, unit: &Unit, echo: Option<u32>) -> bool {
        let Some(echo) = echo.filter(|_| unit.marks.has(Marks::EVER_AGAIN)) else { return false };
        (echo.wrapping_sub(flow.tick().stamp(unit.sent)) as i32) < 0
    }

    /// Adapts the window to duplicates (section 6.2, step 4). `prior`: segments delivered in all
    /// when the latest unit was sent.
    pub(crate) fn adapt(&mut self, flow: &Flow, prior: u64) {
        if prior == 0 {
            return;
        }
        if prior < self.last_delivered {
            self.duplicate_seen = false;
        }
        if self.duplicate_seen {
            self.steps = self.steps.saturating_add(1);
            self.duplicate_seen = false;
            self.last_delivered = flow.delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Notes that packets were seen out of order, by the numbers from `low` to `high`.
    pub(crate) fn reordered(&mut self, flow: &Flow, low: u64, high: u64) {
        if low >= high || flow.mss == 0 {
            return;
        }
        let segments = (high - low).div_ceil(u64::from(flow.mss)).min(u64::from(REORDERING_MAX)) as u32;
        self.reordering = self.reordering.max(segments);
        self.reordered = self.reordered.saturating_add(1);
    }

    fn window_us(&self, flow: &Flow) -> u64 {
        if self.reordered == 0 {
            // Three duplicates, or a recovery under way, show a loss at once.
            if flow.state >= CaState::Recovery || flow.sacked >= self.reordering {
                return 0;
            }
        }
        let min = if flow.min_rtt_us == u32::MAX { 0 } else { u64::from(flow.min_rtt_us) };
        (min / 4 * u64::from(self.steps)).min(u64::from(flow.srtt8_us >> 3))
    }

    /// Returns how long the unit may still be late, microseconds; `None` if it counts as lost.
    fn patience(&self, flow: &Flow, unit: &Unit, window_us: u64) -> Option<u64> {
        let age = age_us(flow, unit);
        (self.rtt_us + window_us).checked_sub(age).filter(|left| *left > 0)
    }

    /// Marks units as lost (section 6.2, step 5). Returns the longest time that the others may
    /// still be late, and the least number marked.
    pub(crate) fn find_lost(
        &mut self,
        flow: &mut Flow,
        units: &mut Units,
        cc: &mut dyn Congestion,
    ) -> (Option<u64>, Option<u64>) {
        self.advanced = false;
        let window_us = self.window_us(flow);
        let (mut wait, mut lowest) = (None, None);
        let this = *self;
        units.by_time(|u| {
            if u.marks.has(Marks::LOST) && !u.marks.has(Marks::AGAIN) {
                return true;
            }
            if !sent_after(this.sent, this.end, u.sent, u.end) {
                return false;
            }
            match this.patience(flow, u, window_us) {
                Some(left) => wait = wait.max(Some(left)),
                None => {
                    lose(flow, u, cc);
                    lowest = Some(lowest.map_or(u.start, |l: u64| l.min(u.start)));
                }
            }
            true
        });
        (wait, lowest)
    }

    /// True if the unit was sent so recently before a timeout that it may still arrive.
    pub(crate) fn recent(&self, flow: &Flow, unit: &Unit) -> bool {
        self.patience(flow, unit, 0).is_some()
    }
}

/// Returns the microseconds since the unit was last sent, by a clock of whole microseconds.
fn age_us(flow: &Flow, unit: &Unit) -> u64 {
    flow.now_us().saturating_sub(unit.sent.0 / 1_000)
}

/// Takes a unit, or its last transmission, as lost.
pub(crate) fn lose(flow: &mut Flow, unit: &mut Unit, cc: &mut dyn Congestion) {
    let n = u32::from(unit.segments);
    if unit.marks.has(Marks::SACKED) {
        return;
    }
    let lost_before = flow.lost_total;
    if unit.marks.has(Marks::LOST) {
        if unit.marks.has(Marks::AGAIN) {
            unit.marks.clear(Marks::AGAIN);
            flow.again -= n.min(flow.again);
            flow.lost_total += u64::from(n);
        }
    } else {
        unit.marks.set(Marks::LOST);
        flow.lost += n;
        flow.lost_total += u64::from(n);
        if unit.marks.has(Marks::AGAIN) {
            unit.marks.clear(Marks::AGAIN);
            flow.again -= n.min(flow.again);
        }
    }
    unit.marks.clear(Marks::LISTED);
    if flow.lost_total > lost_before {
        let lost = Lost {
            range: (unit.start, unit.end),
            segments: n,
            sent_in_flight: unit.in_flight,
            lost_since: (flow.lost_total as u32).wrapping_sub(unit.lost),
            app_limited: unit.marks.has(Marks::APP_LIMITED),
        };
        cc.lost(flow, &lost);
    }
}
