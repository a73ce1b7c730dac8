//! The timer of the sending half: a retransmission, a loss probe, a look at late segments, or a
//! probe of a closed window.

use txweir_core::Instant;

use crate::config::Detection;
use crate::flow::CaState;
use crate::rtt::RTO_MIN_US;
use crate::sender::Sender;

/// Least time of a probe, ticks: twice the clock's granularity.
pub(crate) const MIN_TICKS: u64 = 2;
/// Number of timeouts without progress, and of probes of a shut window without an answer, after
/// which a connection gives up (the default of Linux).
pub(crate) const RETRIES_MAX: u8 = 15;

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Retransmission (RFC 6298).
    Retransmit,
    /// Loss probe (RFC 8985 section 7).
    LossProbe,
    /// End of the reordering window (RFC 8985 section 6.3).
    Reorder,
    /// Probe of a closed window (RFC 9293 section 3.8.6.1).
    Window,
}

/// A running timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) purpose: Purpose,
    /// Time at which it fires.
    pub(crate) at: Instant,
}

/// Sets the timer `ticks` from now; the lead of pacing over the clock is added.
pub(crate) fn set(s: &mut Sender, purpose: Purpose, ticks: u64) {
    let most = s.flow.tick().from_micros(crate::rtt::RTO_MAX_US);
    let ahead = s.flow.departs.saturating_since(s.flow.now).0 / 1_000;
    let ahead = if s.flow.spread() { s.flow.tick().from_micros(ahead) } else { 0 };
    let expires = s.flow.ticks() + (ticks + ahead).min(most);
    s.timer = Some(Timer { purpose, at: s.flow.tick().expiry(s.flow.now, expires) });
}

/// Returns the microseconds until the first unit in flight is as old as the timeout.
fn until_timeout_us(s: &Sender) -> i64 {
    let rto = s.flow.tick().micros(s.rto()) as i64;
    let sent = s.units.first().map_or(s.flow.now, |u| u.sent);
    (sent.0 / 1_000) as i64 + rto - s.flow.now_us() as i64
}

/// Sets the retransmission timer anew, or stops it if nothing is in flight.
pub(crate) fn rearm(s: &mut Sender) {
    // If a probe used the timer, the time that it waited counts.
    let waited = s.timer.is_some_and(|t| matches!(t.purpose, Purpose::Reorder | Purpose::LossProbe));
    restart(s, waited);
}

/// Sets the timer like `rearm`. `waited`: the time counts from when the first unit in flight left,
/// not from now.
pub(crate) fn restart(s: &mut Sender, waited: bool) {
    if s.flow.out == 0 {
        s.timer = None;
        return;
    }
    let ticks = match waited {
        true => s.flow.tick().from_micros(until_timeout_us(s).max(1) as u64),
        false => s.rto(),
    };
    set(s, Purpose::Retransmit, ticks);
}

/// Sets the timer for a loss probe; false if there is to be none. `fresh`: a timeout set now would
/// count from now.
pub(crate) fn probe(s: &mut Sender, fresh: bool, sack: bool) -> bool {
    let without = !sack || s.flow.config.detection == Detection::DupThresh;
    if s.flow.out == 0 || without || !matches!(s.flow.state, CaState::Open | CaState::Cwr) {
        return false;
    }
    let tick = *s.flow.tick();
    let mut us = match s.flow.srtt8_us {
        0 => crate::rtt::RTO_INITIAL_US,
        srtt8 => {
            // A lone segment may wait for a delayed acknowledgement.
            let more = if s.flow.out == 1 { u64::from(RTO_MIN_US) } else { tick.micros(MIN_TICKS) };
            u64::from(srtt8 >> 2) + more
        }
    };
    let rto = if fresh { tick.micros(s.rto()) as i64 } else { until_timeout_us(s) };
    if rto > 0 {
        us = us.min(rto as u64);
    }
    set(s, Purpose::LossProbe, tick.from_micros(us));
    true
}

/// Sets the timer after progress: a loss probe if there can be one, otherwise a retransmission.
pub(crate) fn after_progress(s: &mut Sender, sack: bool) {
    if !probe(s, true, sack) {
        rearm(s);
    }
}

/// Handles the timer after it has fired. False if the connection gives up.
pub(crate) fn fired(s: &mut Sender) -> bool {
    let Some(timer) = s.timer.take() else { return true };
    match timer.purpose {
        Purpose::LossProbe => {
            if s.tlp_end.is_some() || s.flow.out == 0 {
                restart(s, true);
            } else {
                s.probe_due = true;
            }
        }
        Purpose::Reorder => {
            let prior = s.flow.in_flight();
            let (_, lowest) = s.rack.find_lost(&mut s.flow, &mut s.units, &mut *s.cc);
            s.rec.lost_from = lowest.map_or(s.rec.lost_from, |low| low.min(s.rec.lost_from));
            if prior != s.flow.in_flight() && s.flow.state != CaState::Recovery {
                crate::sender::recovery::late_losses(s);
            }
            restart(s, true);
        }
        Purpose::Retransmit => return timed_out(s),
        Purpose::Window => {
            // An open window is not probed: a queue of this host has refused the data.
            if !s.can_send_new() {
                if s.window_probes >= u32::from(RETRIES_MAX) {
                    return false;
                }
                s.window_probes += 1;
                s.backoff = s.backoff.saturating_add(1).min(16);
            }
            s.window_probe_due = true;
        }
    }
    true
}

fn timed_out(s: &mut Sender) -> bool {
    if s.flow.out == 0 {
        // Only a refusal by the host's own queue leaves this timer on with nothing in flight.
        // 4.4BSD counts it like any other timeout.
        if !s.cc.owns_window() {
            s.flow.ssthresh = crate::sender::dupthresh::threshold(s);
            (s.flow.cwnd, s.flow.growth) = (1, 0);
        }
        s.backoff = s.backoff.saturating_add(1);
        return true;
    }
    if s.retransmits >= RETRIES_MAX {
        return false;
    }
    s.counters.timeouts += 1;
    crate::sender::recovery::enter_loss(s);
    s.retransmits += 1;
    s.timeout_due = true;
    s.backoff = s.backoff.saturating_add(1);
    let ticks = s.rto();
    set(s, Purpose::Retransmit, ticks);
    true
}
