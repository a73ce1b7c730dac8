//! BBR version 3 (draft-ietf-ccwg-bbr, text of 2025): a model of rate and round trip like version
//! 1, and bounds of both, which losses and marks lower and careful probes raise.
//!
//! **Beyond the draft.** The share of marks and the response to it ([`marks`]). A cycle without
//! samples of the bandwidth does not push the last sample out of its window. The draft's phase of
//! acknowledgements ends with the round trip that ends a probe; the draft's text leaves it on,
//! which would turn the window in each round trip. The state to restore is saved once per recovery,
//! when it begins. DRAIN paces at half the bandwidth, as in the draft's table (its text: 0.35).

mod bounds;
mod marks;
mod path;
mod probe;

use txweir_core::base::rng::Rng;

use self::bounds::{Bounds, Latest, Undo, beta, inflight_at_loss, too_much};
use self::marks::Marks;
use self::path::{Full, Lumps, MinRtt};
pub use self::probe::Mode;
use self::probe::{Echoes, PROBE_RTT_WINDOW_GAIN, Probe, STARTUP_GAIN};
use super::Congestion;
use super::model::{Bandwidth, Rounds, UNIT};
use crate::flow::{Ack, CaState, Event, Flow, Lost, RateSample};

/// Smallest window, segments ("MinPipeCwnd").
const WINDOW_MIN: u32 = 4;
/// Number of ranges lost in one round trip that end STARTUP (section 5.3.1.3).
const FULL_LOSSES: u32 = 6;
/// Duration of PROBE_RTT (section 5.3.4).
const PROBE_RTT_US: u64 = 200_000;
/// Least time between probes, and the largest random addition to it (section 5.3.3.5).
const PROBE_WAIT_US: u64 = 2_000_000;
const PROBE_WAIT_RANDOM_US: u64 = 1_000_000;
/// Largest number of round trips between probes, to leave room for Reno on small paths.
const RENO_ROUNDS: u64 = 63;
/// Smallest and largest number of segments of a super-segment.
const BURST: (u32, u32) = (2, 45);
/// The round trip that the first pacing rate assumes without a sample, microseconds.
const RTT_ASSUMED_US: u64 = 1_000;

/// BBR version 3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    mode: Mode,
    rounds: Rounds,
    /// The largest bandwidth of the last and of the present cycle.
    cycles: [Bandwidth; 2],
    /// The bandwidth to send by.
    bw: Bandwidth,
    bounds: Bounds,
    latest: Latest,
    undo: Undo,
    probe: Probe,
    full: Full,
    min_rtt: MinRtt,
    marks: Marks,
    lumps: Lumps,
    /// True if a recovery has lasted for a round trip.
    recovery_round: bool,
    saved: u32,
    prior_state: CaState,
    restarted: bool,
    rng: Rng,
}

impl Bbr3 {
    /// Returns the state at the start of a connection; `seed` decides when it probes.
    pub fn new(seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            rounds: Rounds::default(),
            cycles: [Bandwidth::default(); 2],
            bw: Bandwidth::default(),
            bounds: Bounds::default(),
            latest: Latest::default(),
            undo: Undo::default(),
            probe: Probe { up_per: u32::MAX, ..Probe::default() },
            full: Full::default(),
            min_rtt: MinRtt::default(),
            marks: Marks::default(),
            lumps: Lumps::default(),
            recovery_round: false,
            saved: 0,
            prior_state: CaState::Open,
            restarted: false,
            rng: Rng::new(seed),
        }
    }

    /// Returns the state of the state machine.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    fn max_bw(&self) -> Bandwidth {
        self.cycles[0].max(self.cycles[1])
    }

    /// Returns `gain` times the bandwidth-delay product, in segments.
    fn product(&self, flow: &Flow, bw: Bandwidth, gain: u32) -> u32 {
        match self.min_rtt.us {
            u32::MAX => flow.initial_window,
            us => bw.product(us, gain),
        }
    }

    /// Returns a volume with room for super-segments, and for a probe (section 5.6.4.2).
    fn quantised(&self, flow: &Flow, segments: u32) -> u32 {
        let quantum = (flow.pacing_rate / 1_000 / u64::from(flow.mss.max(1))).min(u64::from(BURST.1)) as u32;
        let segments = segments.max(3 * quantum.max(BURST.0)).max(WINDOW_MIN);
        segments.saturating_add(if self.mode == Mode::Up { 2 } else { 0 })
    }

    fn inflight(&self, flow: &Flow, bw: Bandwidth) -> u32 {
        self.quantised(flow, self.product(flow, bw, UNIT))
    }

    /// Returns the volume that the flow wants in flight, unless the window is below.
    fn target(&self, flow: &Flow) -> u32 {
        self.product(flow, self.bw, UNIT).min(flow.cwnd)
    }

    fn probe_rtt_window(&self, flow: &Flow) -> u32 {
        self.product(flow, self.bw, PROBE_RTT_WINDOW_GAIN).max(WINDOW_MIN)
    }

    fn set_rate(&self, flow: &mut Flow, gain: u32) {
        let rate = self.bw.pacing_rate(gain, flow.mss);
        if self.full.reached || rate > flow.pacing_rate {
            flow.pacing_rate = rate;
        }
    }

    fn save(&mut self, flow: &Flow) {
        let sound = flow.state < CaState::Recovery && self.mode != Mode::ProbeRtt;
        self.saved = if sound { flow.cwnd } else { self.saved.max(flow.cwnd) };
    }

    /// Takes a bandwidth sample and counts round trips (sections 5.5.1 and 5.5.5).
    fn take_rate(&mut self, flow: &Flow, sample: &RateSample, bw: Bandwidth) {
        self.rounds.take(flow, sample);
        self.probe.rounds += u64::from(self.rounds.start);
        if bw > Bandwidth::default() && (bw >= self.max_bw() || !sample.app_limited) {
            self.cycles[1] = self.cycles[1].max(bw);
        }
    }

    /// Adapts the short-term bounds to losses and marks, once per round trip (section 5.5.10.3).
    fn adapt_short(&mut self, flow: &Flow) {
        if !self.latest.start {
            return;
        }
        if !self.mode.accelerates() {
            let (max_bw, cwnd) = (self.max_bw(), flow.cwnd);
            if self.marks.in_round {
                self.bounds.begin(max_bw, cwnd);
                let reduced = self.marks.reduced(self.bounds.short_inflight);
                if self.latest.loss {
                    self.bounds.lower(max_bw, cwnd, &self.latest);
                }
                self.bounds.short_inflight = self.bounds.short_inflight.min(reduced);
            } else if self.latest.loss {
                self.bounds.lower(max_bw, cwnd, &self.latest);
            }
        }
        (self.latest.loss, self.marks.in_round) = (false, false);
    }

    /// Ends STARTUP by losses (section 5.3.1.3) or by marks.
    fn check_startup(&mut self, flow: &Flow, sample: &RateSample) {
        let marked = self.rounds.start && self.marks.round(flow);
        let lost = self.latest.start
            && flow.state == CaState::Recovery
            && self.recovery_round
            && self.latest.ranges >= FULL_LOSSES
            && too_much(flow.lost_total - sample.prior_lost, sample.sent_in_flight);
        if self.mode == Mode::Startup && !self.full.reached && (marked || lost) {
            self.full.reached = true;
            let product = self.product(flow, self.max_bw(), UNIT);
            self.bounds.long_inflight = product.max(self.latest.inflight);
        }
        if self.latest.start {
            self.latest.ranges = 0;
            self.recovery_round = flow.state == CaState::Recovery;
        }
        if self.mode == Mode::Startup && self.full.reached {
            self.mode = Mode::Drain;
        }
    }

    /// Drives the cycle of PROBE_BW (section 5.3.3.6).
    fn cycle(&mut self, flow: &Flow, ack: &Ack, sample: &RateSample, bw: Bandwidth) {
        if !self.full.reached {
            return;
        }
        self.adapt_long(flow, ack, sample);
        match self.mode {
            Mode::Down | Mode::Cruise if self.time_to_probe(flow) => self.start_refill(flow),
            Mode::Down if self.time_to_cruise(flow) => self.mode = Mode::Cruise,
            Mode::Refill if self.rounds.start => {
                self.probe.samples = true;
                self.start_up(flow, bw);
            }
            Mode::Up => {
                if flow.limited && flow.cwnd >= self.bounds.long_inflight {
                    // The bound limits the rate here, not the path.
                    self.full.look_again(bw);
                } else if self.full.now {
                    self.start_down(flow);
                }
            }
            _ => {}
        }
    }

    fn time_to_probe(&self, flow: &Flow) -> bool {
        let waited = flow.now_us() > self.probe.began_us + self.probe.wait_us;
        waited || self.probe.rounds >= u64::from(self.target(flow)).min(RENO_ROUNDS)
    }

    fn time_to_cruise(&self, flow: &Flow) -> bool {
        let now = flow.in_flight();
        now <= self.bounds.with_headroom(WINDOW_MIN) && now <= self.inflight(flow, self.max_bw())
    }

    fn start_down(&mut self, flow: &Flow) {
        self.latest.reset();
        self.marks.in_round = false;
        self.probe.up_per = u32::MAX;
        self.probe.rounds = self.rng.below(2);
        self.probe.wait_us = PROBE_WAIT_US + self.rng.below(PROBE_WAIT_RANDOM_US + 1);
        self.probe.began_us = flow.now_us();
        self.probe.echoes = Echoes::Stopping;
        self.rounds.restart(flow);
        self.mode = Mode::Down;
    }

    fn start_refill(&mut self, flow: &Flow) {
        self.bounds.lift();
        (self.probe.up_rounds, self.probe.up_acked) = (0, 0);
        self.probe.echoes = Echoes::Refilling;
        self.rounds.restart(flow);
        self.mode = Mode::Refill;
    }

    fn start_up(&mut self, flow: &Flow, bw: Bandwidth) {
        self.probe.echoes = Echoes::Starting;
        self.rounds.restart(flow);
        self.full.look_again(bw);
        self.mode = Mode::Up;
        self.probe.steepen(flow.cwnd);
    }

    /// Takes the result of a probe into the long-term bound (section 5.3.3.6,
    /// "BBRAdaptLongTermModel").
    fn adapt_long(&mut self, flow: &Flow, ack: &Ack, sample: &RateSample) {
        if self.rounds.start && self.probe.echoes == Echoes::Starting {
            self.probe.echoes = Echoes::Feedback;
        } else if self.rounds.start && self.probe.echoes == Echoes::Stopping {
            self.probe.echoes = Echoes::None;
            self.probe.samples = false;
            if self.mode.probes_bw() && !sample.app_limited && self.cycles[1] > Bandwidth::default() {
                self.cycles = [self.cycles[1], Bandwidth::default()];
            }
        }
        let lost = too_much(flow.lost_total - sample.prior_lost, sample.sent_in_flight);
        // The echo of RFC 3168 counts as a loss (section 3.5); an exact echo counts if it marks
        // half.
        let marked = match (ack.echo, ack.marked) {
            (echo, 0) => echo,
            _ => u64::from(sample.delivered_ce) * 2 > flow.delivered - sample.prior_delivered,
        };
        if marked && self.probe.samples {
            self.too_high(flow, sample.sent_in_flight, sample.app_limited);
        }
        if lost || marked || self.bounds.long_inflight == u32::MAX {
            return;
        }
        self.bounds.long_inflight = self.bounds.long_inflight.max(sample.sent_in_flight);
        if self.mode == Mode::Up && flow.limited && flow.cwnd >= self.bounds.long_inflight {
            let more = self.probe.grow(flow, ack.delivered, self.rounds.start);
            self.bounds.long_inflight = self.bounds.long_inflight.saturating_add(more);
        }
    }

    /// Handles a probe that had too much in flight (section 5.5.10.2).
    fn too_high(&mut self, flow: &Flow, in_flight: u32, app_limited: bool) {
        self.probe.samples = false;
        if !app_limited {
            self.bounds.long_inflight = in_flight.max(beta(self.target(flow)));
        }
        if self.mode == Mode::Up {
            self.start_down(flow);
        }
    }

    fn check_probe_rtt(&mut self, flow: &mut Flow, delivered: bool) {
        if self.mode != Mode::ProbeRtt && self.min_rtt.old && !self.restarted {
            self.save(flow);
            self.mode = Mode::ProbeRtt;
            self.min_rtt.until_us = None;
            self.probe.echoes = Echoes::Stopping;
            self.rounds.restart(flow);
        }
        if self.mode == Mode::ProbeRtt {
            // The rate with so little in flight does not show the rate of the path.
            flow.app_limited = (flow.delivered + u64::from(flow.in_flight())).max(1);
            if self.min_rtt.until_us.is_some() {
                self.min_rtt.round |= self.rounds.start;
                if self.min_rtt.round {
                    self.leave_probe_rtt(flow);
                }
            } else if flow.in_flight() <= self.probe_rtt_window(flow) {
                self.min_rtt.until_us = Some(flow.now_us() + PROBE_RTT_US);
                self.min_rtt.round = false;
                self.rounds.restart(flow);
            }
        }
        self.restarted &= !delivered;
    }

    /// Ends PROBE_RTT if it has lasted long enough.
    fn leave_probe_rtt(&mut self, flow: &mut Flow) {
        let now = flow.now_us();
        if self.min_rtt.until_us.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.recent_at_us = now;
        flow.cwnd = flow.cwnd.max(self.saved);
        self.bounds.lift();
        if self.full.reached {
            self.start_down(flow);
            self.mode = Mode::Cruise;
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Sets the window (section 5.6.4.6), bounded (section 5.6.4.7).
    fn set_window(&mut self, flow: &mut Flow, ack: &Ack) {
        let prior = std::mem::replace(&mut self.prior_state, flow.state);
        if prior >= CaState::Recovery && flow.state < CaState::Recovery {
            flow.cwnd = flow.cwnd.max(self.saved);
        }
        let lumps = self.lumps.window();
        let most = self.product(flow, self.bw, self.mode.gains().1).saturating_add(lumps);
        let most = self.quantised(flow, most);
        let grown = flow.cwnd.saturating_add(ack.delivered);
        if self.full.reached {
            flow.cwnd = grown.min(most);
        } else if flow.cwnd < most || flow.delivered < u64::from(flow.initial_window) {
            flow.cwnd = grown;
        }
        flow.cwnd = flow.cwnd.max(WINDOW_MIN);
        if self.mode == Mode::ProbeRtt {
            flow.cwnd = flow.cwnd.min(self.probe_rtt_window(flow));
        }
        let bound = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.bounds.long_inflight,
            Mode::Cruise | Mode::ProbeRtt => self.bounds.with_headroom(WINDOW_MIN),
            Mode::Startup | Mode::Drain => u32::MAX,
        };
        flow.cwnd = flow.cwnd.min(bound.min(self.bounds.short_inflight).max(WINDOW_MIN));
    }
}

impl Congestion for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }
    fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }
    fn start(&mut self, flow: &mut Flow) {
        *self = Self { rng: self.rng.clone(), ..Self::new(0) };
        flow.ssthresh = u32::MAX;
        let now = flow.now_us();
        let rtt_us = if flow.srtt8_us == 0 { u32::MAX } else { (flow.srtt8_us >> 3).max(1) };
        self.min_rtt =
            MinRtt { us: rtt_us, at_us: now, recent_us: rtt_us, recent_at_us: now, ..MinRtt::default() };
        self.lumps.began_us = now;
        let assumed = if rtt_us == u32::MAX { RTT_ASSUMED_US } else { u64::from(rtt_us) };
        let nominal = Bandwidth::of(u64::from(flow.initial_window), assumed);
        flow.pacing_rate = nominal.pacing_rate(STARTUP_GAIN, flow.mss);
    }
    /// Saves the window, which a recovery does not reduce by itself.
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        self.save(flow);
        flow.ssthresh
    }
    fn grow(&mut self, _flow: &mut Flow, _acked: u32) {}
    fn undone(&mut self, flow: &mut Flow) -> u32 {
        self.latest.loss = false;
        self.full.look_again(Bandwidth::default());
        self.bounds = self.bounds.wider(&self.undo.bounds);
        if self.mode != Mode::ProbeRtt && self.mode != self.undo.mode {
            match self.undo.mode {
                Mode::Startup => self.mode = Mode::Startup,
                Mode::Up => self.start_up(flow, Bandwidth::default()),
                _ => {}
            }
        }
        flow.cwnd
    }
    fn lost(&mut self, flow: &mut Flow, lost: &Lost) {
        if self.latest.lose(flow, lost.range) && flow.state < CaState::Recovery {
            self.undo = Undo { mode: self.mode, bounds: self.bounds };
        }
        if self.probe.samples && too_much(u64::from(lost.lost_since), lost.sent_in_flight) {
            self.too_high(flow, inflight_at_loss(lost), lost.app_limited);
        }
    }
    fn event(&mut self, flow: &mut Flow, event: Event) {
        if event != Event::Start || flow.app_limited == 0 {
            return;
        }
        self.restarted = true;
        self.lumps.began_us = flow.now_us();
        if self.mode.probes_bw() {
            self.set_rate(flow, UNIT);
        } else if self.mode == Mode::ProbeRtt {
            self.leave_probe_rtt(flow);
        }
    }
    fn owns_window(&self) -> bool {
        true
    }
    fn control(&mut self, flow: &mut Flow, ack: &Ack, sample: &RateSample) {
        let bw = Bandwidth::sampled(sample).unwrap_or_default();
        let delivered = sample.prior_delivered > 0;
        (self.latest.start, self.rounds.start) = (false, false);
        self.marks.take(ack.marked);
        // A mark that is echoed as in RFC 3168 counts as a loss in its round trip.
        self.latest.loss |= ack.echo && ack.marked == 0;
        if delivered {
            self.latest.take(flow, sample, bw);
            self.take_rate(flow, sample, bw);
            self.adapt_short(flow);
            let (round, full) = (self.rounds.count, self.full.reached);
            self.lumps.take(flow, self.bw, ack.delivered, round, full);
            if self.rounds.start && !sample.app_limited && bw > Bandwidth::default() {
                self.full.round(bw);
            }
            self.check_startup(flow, sample);
        }
        if self.mode == Mode::Drain && flow.in_flight() <= self.inflight(flow, self.bw) {
            self.start_down(flow);
        }
        if delivered {
            self.cycle(flow, ack, sample, bw);
        }
        self.min_rtt.take(flow.now_us(), ack.rtt_us);
        self.check_probe_rtt(flow, delivered);
        if delivered {
            self.latest.advance(flow, sample, bw);
        }
        self.bw = self.max_bw().min(self.bounds.short_bw);
        self.set_rate(flow, self.mode.gains().0);
        self.set_window(flow, ack);
    }
    fn wants_pacing(&self) -> bool {
        true
    }
    fn buffer_windows(&self) -> u64 {
        3
    }
}

#[cfg(test)]
mod tests;
