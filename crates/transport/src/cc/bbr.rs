//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00) as Linux 6.12 has it: a model of
//! the path, made of the largest recent rate of delivery and the smallest recent round trip, sets
//! the sending rate and the volume in flight.
//!
//! Linux has some parts that the draft does not: the search for a policer ([`policer`]), room for
//! acknowledgements that come in lumps ([`aggregation`]), the estimate of the volume in flight when
//! the next segment departs, pacing one percent below the estimate, and windows rounded to even
//! numbers.

mod aggregation;
mod policer;

use txweir_core::base::rng::Rng;

use self::aggregation::Aggregation;
use self::policer::{Policer, Seen, Verdict};
use super::Congestion;
use super::model::{Bandwidth, Rounds, UNIT, WindowMax};
use crate::flow::{Ack, CaState, Event, Flow, RateSample};

/// 2/ln(2) = 2.885, of 256: the least gain that doubles the rate in each round trip (draft section
/// 4.3.2).
const HIGH_GAIN: u32 = UNIT * 2885 / 1000 + 1;
/// The inverse of `HIGH_GAIN` drains the queue of STARTUP in one round trip (draft section 4.3.3).
const DRAIN_GAIN: u32 = UNIT * 1000 / 2885;
/// Window gain of PROBE_BW: at most two bandwidth-delay products in flight, for acknowledgements
/// that are late (draft section 4.2.3).
const WINDOW_GAIN: u32 = 2 * UNIT;
/// The gains of PROBE_BW's eight phases: probe, drain what the probe queued, cruise (draft section
/// 4.3.4).
const CYCLE: [u32; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Round trips over which the largest bandwidth is taken: a cycle and two more.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// Least growth of the bandwidth, as a fraction: with less, the pipe may be full.
const FULL_GROWTH: (u64, u64) = (5, 4);
/// Number of round trips in a row with less growth that show a full pipe (draft section 4.3.2.2).
const FULL_ROUNDS: u32 = 3;
/// Lifetime of a smallest round trip (draft section 4.1.2).
const MIN_RTT_MS: u64 = 10_000;
/// Duration of PROBE_RTT (draft section 4.3.5).
const PROBE_RTT_MS: u64 = 200;
/// Segments in flight during PROBE_RTT, which is the smallest window, too.
const WINDOW_MIN: u32 = 4;
/// Below this pacing rate, byte/s, a super-segment may have one segment: 1.2 Mbit/s.
const SINGLE_RATE: u64 = 1_200_000 / 8;
/// Largest number of bytes of a super-segment, headers taken off.
const BURST_BYTES: u64 = 65_536 - 1 - 320;
/// Largest number of segments of a super-segment.
const BURST_MAX: u32 = 127;
/// The round trip that the first pacing rate assumes without a sample, microseconds.
const RTT_ASSUMED_US: u64 = 1_000;

/// The state of the state machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The rate doubles in each round trip, to find the bandwidth.
    #[default]
    Startup,
    /// The queue that STARTUP has made drains.
    Drain,
    /// The sender sends a little more and a little less than the bandwidth, phase by phase.
    ProbeBw,
    /// Very little is in flight, so that the round trip is that of an empty path.
    ProbeRtt,
}

/// The search for the end of STARTUP, when it has filled the pipe.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    reached: bool,
    bw: Bandwidth,
    rounds: u32,
}

impl Full {
    /// Handles the end of a round trip (draft section 4.3.2.2).
    fn round(&mut self, bw: Bandwidth) {
        if self.reached {
            return;
        }
        if bw >= self.bw.part(FULL_GROWTH.0, FULL_GROWTH.1) {
            (self.bw, self.rounds) = (bw, 0);
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= FULL_ROUNDS;
    }
}

/// The smallest round trip and the episodes that look for it.
#[derive(Clone, Copy, Debug, Default)]
struct MinRtt {
    us: u32,
    /// Tick at which it was seen.
    at: u64,
    /// The tick after which PROBE_RTT may end; `None` before little enough is in flight.
    until: Option<u64>,
    /// True if a round trip has passed since little enough was in flight.
    round: bool,
}

/// BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    pacing_gain: u32,
    window_gain: u32,
    /// The phase of PROBE_BW, and its start time, microseconds.
    phase: usize,
    phase_us: u64,
    bw: WindowMax,
    rounds: Rounds,
    full: Full,
    min_rtt: MinRtt,
    policer: Policer,
    aggregation: Aggregation,
    /// Time of the last delivery, microseconds.
    delivered_us: u64,
    /// True in the first round trip of a recovery, in which a segment leaves for each that is
    /// delivered.
    conserving: bool,
    prior_state: CaState,
    /// The window before a recovery or PROBE_RTT.
    saved: u32,
    /// True if the application had been silent and nothing was delivered since.
    restarted: bool,
    /// True if the first pacing rate comes from a measured round trip.
    paced_by_rtt: bool,
    rng: Rng,
}

impl Bbr {
    /// Returns the state at the start of a connection; `seed` decides with which phases it begins
    /// to probe.
    pub fn new(seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            phase: 0,
            phase_us: 0,
            bw: WindowMax::default(),
            rounds: Rounds::default(),
            full: Full::default(),
            min_rtt: MinRtt { us: u32::MAX, ..MinRtt::default() },
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            delivered_us: 0,
            conserving: false,
            prior_state: CaState::Open,
            saved: 0,
            restarted: false,
            paced_by_rtt: false,
            rng: Rng::new(seed),
        }
    }

    /// Returns the state of the state machine.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the largest recent bandwidth.
    const fn greatest(&self) -> Bandwidth {
        Bandwidth(self.bw.get())
    }

    /// Returns the bandwidth to send by: that of a policer if there is one.
    fn bandwidth(&self) -> Bandwidth {
        self.policer.rate().unwrap_or(self.greatest())
    }

    /// Returns the number of segments of the super-segments that the pacing rate allows.
    fn burst(&self, flow: &Flow) -> u32 {
        let bytes = (flow.pacing_rate >> 10).min(BURST_BYTES);
        let segments = (bytes / u64::from(flow.mss.max(1))) as u32;
        segments.max(self.burst_min(flow)).min(BURST_MAX)
    }

    /// Returns `gain` times the bandwidth-delay product, in segments.
    fn product(&self, flow: &Flow, bw: Bandwidth, gain: u32) -> u32 {
        match self.min_rtt.us {
            u32::MAX => flow.initial_window,
            us => bw.product(us, gain),
        }
    }

    /// Returns a window that leaves room for super-segments: one being filled, one being sent, one
    /// being acknowledged. It is even, as receivers acknowledge every second segment.
    fn quantised(&self, flow: &Flow, segments: u32) -> u32 {
        let window = segments.saturating_add(3 * self.burst(flow)).saturating_add(1) & !1;
        // A probe needs some segments in flight above the product, however small that is.
        window + if self.mode == Mode::ProbeBw && self.phase == 0 { 2 } else { 0 }
    }

    /// Returns the volume in flight that belongs to a gain.
    fn inflight(&self, flow: &Flow, gain: u32) -> u32 {
        self.quantised(flow, self.product(flow, self.greatest(), gain))
    }

    /// Returns the segments in flight when the next one departs, with `now` in flight at present:
    /// pacing has scheduled departures ahead, and the network delivers until then.
    fn in_flight_at_departure(&self, flow: &Flow, now: u32) -> u32 {
        let ahead_us = flow.departs.saturating_since(flow.now).0 / 1_000;
        let delivered = self.bandwidth().segments(ahead_us);
        let now = now + if self.pacing_gain > UNIT { self.burst(flow) } else { 0 };
        u64::from(now).saturating_sub(delivered) as u32
    }

    fn set_rate(&mut self, flow: &mut Flow, gain: u32) {
        if !self.paced_by_rtt && flow.srtt8_us > 0 {
            self.first_rate(flow);
        }
        let rate = self.bandwidth().pacing_rate(gain, flow.mss);
        // STARTUP does not slow down because of a sample that is too small.
        if self.full.reached || rate > flow.pacing_rate {
            flow.pacing_rate = rate;
        }
    }

    /// Sets the rate before a bandwidth is known: that of the window (draft section 4.2.1).
    fn first_rate(&mut self, flow: &mut Flow) {
        let rtt_us = match flow.srtt8_us {
            0 => RTT_ASSUMED_US,
            srtt8 => {
                self.paced_by_rtt = true;
                u64::from(srtt8 >> 3).max(1)
            }
        };
        flow.pacing_rate = Bandwidth::of(u64::from(flow.cwnd), rtt_us).pacing_rate(HIGH_GAIN, flow.mss);
    }

    /// Saves the last window that neither a recovery nor PROBE_RTT has reduced.
    fn save(&mut self, flow: &Flow) {
        let sound = self.prior_state < CaState::Recovery && self.mode != Mode::ProbeRtt;
        self.saved = if sound { flow.cwnd } else { self.saved.max(flow.cwnd) };
    }

    fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        // Any phase but the one that drains may be first; `next_phase` moves to it from the phase
        // drawn here.
        self.phase = CYCLE.len() - 1 - self.rng.below(CYCLE.len() as u64 - 1) as usize;
        self.next_phase();
    }

    const fn next_phase(&mut self) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_us = self.delivered_us;
    }

    fn look_for_policer(&mut self, flow: &Flow, seen: Seen) {
        match self.policer.take(flow, seen, self.mode == Mode::ProbeBw) {
            Verdict::Nothing => {}
            Verdict::Found => self.pacing_gain = UNIT,
            Verdict::Over => self.enter_probe_bw(),
        }
    }

    /// Takes the rate sample of an acknowledgement (draft section 4.1.1).
    fn take_rate(&mut self, flow: &Flow, ack: &Ack, sample: &RateSample) {
        self.rounds.start = false;
        let Some(bw) = Bandwidth::sampled(sample) else { return };
        self.rounds.take(flow, sample);
        if self.rounds.start {
            self.conserving = false;
        }
        let seen = Seen {
            round_start: self.rounds.start,
            losses: ack.lost > 0,
            app_limited: sample.app_limited,
            delivered_us: self.delivered_us,
        };
        self.look_for_policer(flow, seen);
        // A slow application does not show the rate of the path, unless it sends faster than the
        // known rate.
        if !sample.app_limited || bw >= self.greatest() {
            self.bw.take(self.rounds.count, BANDWIDTH_ROUNDS, bw.0);
        }
        if ack.delivered > 0 {
            let (bw, start) = (self.bandwidth(), self.rounds.start);
            self.aggregation.take(bw, self.delivered_us, ack.delivered, flow.cwnd, start);
        }
    }

    /// True if a phase of PROBE_BW has reached its aim.
    fn phase_over(&self, flow: &Flow, ack: &Ack) -> bool {
        let long = self.delivered_us.saturating_sub(self.phase_us) > u64::from(self.min_rtt.us);
        if self.pacing_gain == UNIT {
            return long;
        }
        let in_flight = self.in_flight_at_departure(flow, ack.prior_in_flight);
        if self.pacing_gain > UNIT {
            // A probe lasts until it has filled the path, unless the path cannot hold this volume.
            long && (ack.lost > 0 || in_flight >= self.inflight(flow, self.pacing_gain))
        } else {
            long || in_flight <= self.inflight(flow, UNIT)
        }
    }

    fn check_drain(&mut self, flow: &mut Flow) {
        if self.mode == Mode::Startup && self.full.reached {
            self.mode = Mode::Drain;
            flow.ssthresh = self.inflight(flow, UNIT);
        }
        if self.mode == Mode::Drain
            && self.in_flight_at_departure(flow, flow.in_flight()) <= self.inflight(flow, UNIT)
        {
            self.enter_probe_bw();
        }
    }

    /// Updates the smallest round trip, and starts PROBE_RTT when it is old (draft sections 4.1.2
    /// and 4.3.5).
    fn take_rtt(&mut self, flow: &mut Flow, ack: &Ack, sample: &RateSample) {
        let now = flow.ticks();
        let old = now > self.min_rtt.at + flow.tick().from_millis(MIN_RTT_MS);
        if let Some(us) = ack.rtt_us
            && (us < self.min_rtt.us || (old && !sample.delayed))
        {
            (self.min_rtt.us, self.min_rtt.at) = (us, now);
        }
        if old && !self.restarted && self.mode != Mode::ProbeRtt {
            self.save(flow);
            self.mode = Mode::ProbeRtt;
            self.min_rtt.until = None;
        }
        if self.mode == Mode::ProbeRtt {
            // The rate with so little in flight does not show the rate of the path.
            flow.app_limited = (flow.delivered + u64::from(flow.in_flight())).max(1);
            match self.min_rtt.until {
                None if flow.in_flight() <= WINDOW_MIN => {
                    self.min_rtt.until = Some(now + flow.tick().from_millis(PROBE_RTT_MS));
                    self.min_rtt.round = false;
                    self.rounds.restart(flow);
                }
                None => {}
                Some(_) => {
                    self.min_rtt.round |= self.rounds.start;
                    if self.min_rtt.round {
                        self.leave_probe_rtt(flow);
                    }
                }
            }
        }
        if sample.prior_delivered > 0 {
            self.restarted = false;
        }
    }

    /// Ends PROBE_RTT if it has lasted long enough.
    fn leave_probe_rtt(&mut self, flow: &mut Flow) {
        let now = flow.ticks();
        if self.min_rtt.until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.at = now;
        flow.cwnd = flow.cwnd.max(self.saved);
        if self.full.reached {
            self.enter_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn set_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, WINDOW_GAIN),
            Mode::ProbeBw => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Sets the window (draft section 4.2.3).
    fn set_window(&mut self, flow: &mut Flow, ack: &Ack) {
        if ack.delivered > 0 && !self.recovering(flow, ack) {
            let target = self.window_target(flow);
            if self.full.reached {
                flow.cwnd = flow.cwnd.saturating_add(ack.delivered).min(target);
            } else if flow.cwnd < target || flow.delivered < u64::from(flow.initial_window) {
                flow.cwnd = flow.cwnd.saturating_add(ack.delivered);
            }
            flow.cwnd = flow.cwnd.max(WINDOW_MIN);
        }
        if self.mode == Mode::ProbeRtt {
            flow.cwnd = flow.cwnd.min(WINDOW_MIN);
        }
    }

    fn window_target(&self, flow: &Flow) -> u32 {
        let bw = self.bandwidth();
        let lumps = if self.full.reached { self.aggregation.window(bw) } else { 0 };
        self.quantised(flow, self.product(flow, bw, self.window_gain).saturating_add(lumps))
    }

    /// Sets the window while losses are repaired (draft section 4.2.3.4). True if it is final.
    fn recovering(&mut self, flow: &mut Flow, ack: &Ack) -> bool {
        let (prior, state) = (self.prior_state, flow.state);
        self.prior_state = state;
        if ack.lost > 0 {
            flow.cwnd = flow.cwnd.saturating_sub(ack.lost).max(1);
        }
        let sent_and_delivered = flow.in_flight().saturating_add(ack.delivered);
        if state == CaState::Recovery && prior != CaState::Recovery {
            self.conserving = true;
            self.rounds.restart(flow);
            flow.cwnd = sent_and_delivered;
        } else if prior >= CaState::Recovery && state < CaState::Recovery {
            self.conserving = false;
            flow.cwnd = flow.cwnd.max(self.saved);
        }
        if self.conserving {
            flow.cwnd = flow.cwnd.max(sent_and_delivered);
        }
        self.conserving
    }
}

impl Congestion for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }
    fn start(&mut self, flow: &mut Flow) {
        *self = Self { rng: self.rng.clone(), ..Self::new(0) };
        flow.ssthresh = u32::MAX;
        self.rounds.restart(flow);
        (self.min_rtt.us, self.min_rtt.at) = (flow.min_rtt_us, flow.ticks());
        self.delivered_us = flow.now_us();
        self.policer.reset(flow, self.delivered_us);
        self.aggregation.begin(flow.now_us());
        self.first_rate(flow);
    }
    fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }
    /// Saves the window: a recovery does not reduce it here.
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        self.save(flow);
        flow.ssthresh
    }
    fn grow(&mut self, _flow: &mut Flow, _acked: u32) {}
    fn undone(&mut self, flow: &mut Flow) -> u32 {
        // The bandwidth seemed full because of spurious losses.
        (self.full.bw, self.full.rounds) = (Bandwidth::default(), 0);
        self.policer.reset(flow, self.delivered_us);
        flow.cwnd
    }
    fn entered(&mut self, flow: &mut Flow, state: CaState) {
        if state == CaState::Loss {
            self.prior_state = CaState::Loss;
            self.full.bw = Bandwidth::default();
            self.rounds.start = true;
            let delivered_us = self.delivered_us;
            let seen = Seen { round_start: true, losses: true, app_limited: false, delivered_us };
            self.look_for_policer(flow, seen);
        }
    }
    fn event(&mut self, flow: &mut Flow, event: Event) {
        if event != Event::Start || flow.app_limited == 0 {
            return;
        }
        self.restarted = true;
        self.aggregation.begin(flow.now_us());
        match self.mode {
            // The path is empty: neither a probe nor a drain is due (draft section 4.3.4.3).
            Mode::ProbeBw => self.set_rate(flow, UNIT),
            Mode::ProbeRtt => self.leave_probe_rtt(flow),
            Mode::Startup | Mode::Drain => {}
        }
    }
    fn owns_window(&self) -> bool {
        true
    }
    fn control(&mut self, flow: &mut Flow, ack: &Ack, sample: &RateSample) {
        self.delivered_us = sample.delivered_us;
        self.take_rate(flow, ack, sample);
        if self.mode == Mode::ProbeBw && self.phase_over(flow, ack) {
            self.next_phase();
        }
        if self.rounds.start && !sample.app_limited {
            self.full.round(self.greatest());
        }
        self.check_drain(flow);
        self.take_rtt(flow, ack, sample);
        self.set_gains();
        self.set_rate(flow, self.pacing_gain);
        self.set_window(flow, ack);
    }
    fn wants_pacing(&self) -> bool {
        true
    }
    fn burst_min(&self, flow: &Flow) -> u32 {
        if flow.pacing_rate < SINGLE_RATE { 1 } else { 2 }
    }
    fn buffer_windows(&self) -> u64 {
        3
    }
}

#[cfg(test)]
mod tests;
