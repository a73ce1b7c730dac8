//! Prague (draft-briscoe-iccrg-prague-congestion-control; section titles below are the draft's):
//! DCTCP's response to marks for paths beyond a data centre. The window has a fraction, grows while
//! marks come, grows as with a round trip of 25 ms if the real one is shorter, and leaves in bursts
//! of at most a quarter of a millisecond.
//!
//! A loss halves the window, and ordinary recovery repairs it. A connection whose handshake did not
//! agree on accurate marks (RFC 9768) behaves like CUBIC ("Fall-Back on Classic ECN"). This module
//! does not look for a bottleneck that marks ECT(1) as if it were ECT(0).

use super::{Congestion, Cubic, WINDOW_MIN, Wants};
use crate::config::EcnMode;
use crate::flow::{Ack, CaState, Event, Flow, RateSample};

/// The round trip below which growth does not depend on it ("Reduced RTT Dependence"),
/// microseconds.
const VIRTUAL_RTT_US: u64 = 25_000;
/// Number of round trips after slow start until that holds, so that short transfers are not held up
/// (D).
const YOUNG: u32 = 50;
/// Longest burst at the pacing rate ("Packet Pacing", MAX_BURST_DELAY), microseconds.
const BURST_US: u64 = 250;
/// Weight of a round trip in the estimate, as a binary logarithm: g = 1/16 ("Moving Average of ECN
/// Feedback").
const WEIGHT_LOG: u32 = 4;
/// Bits of the fractions of window and estimate. A window of 32 bits leaves eight bits to spare.
const FRACTION: u32 = 24;
const ONE: u64 = 1 << FRACTION;
/// Silence after which the window decays, beyond the smoothed round trip, microseconds (RFC 6298 as
/// Linux bounds it).
const SILENCE_US: u64 = 200_000;

/// The Prague congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Prague {
    /// CUBIC, if the handshake did not agree on accurate marks.
    classic: Option<Cubic>,
    /// The window in segments, times `ONE`.
    window: u64,
    /// The estimated share of marked segments, times `ONE`. It begins at one, so that the first
    /// mark ends slow start with half of the window.
    alpha: u64,
    /// True if a mark has come since the start, so that the estimate is kept.
    marked: bool,
    round: Round,
    /// Number of round trips since slow start ended.
    age: u32,
    /// Time of the last reduction of the window for marks, microseconds.
    reduced_us: Option<u64>,
    /// The window before the last reduction.
    before: u64,
    state: CaState,
    /// True if the acknowledgement at hand echoes marks.
    echo: bool,
    /// The largest super-segment that the device takes, bytes.
    gso_max: u32,
}

/// The round trip over which marks are counted.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    end: u64,
    began_us: u64,
    delivered: u64,
    delivered_ce: u64,
    /// Number whose acknowledgement ends a real round trip.
    real_end: u64,
}

impl Prague {
    /// Returns the state at the start of a connection.
    pub fn new(flow: &Flow) -> Self {
        Self {
            classic: None,
            window: u64::from(flow.cwnd) << FRACTION,
            alpha: ONE,
            marked: false,
            round: Round::default(),
            age: 0,
            reduced_us: None,
            before: 0,
            state: CaState::Open,
            echo: false,
            gso_max: flow.gso_max,
        }
    }

    /// Returns the estimated share of marked segments, from 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha as f64 / ONE as f64
    }

    /// Returns the round trip that growth and estimate use, microseconds.
    fn reference_us(&self, flow: &Flow) -> u64 {
        let rtt = u64::from(flow.srtt8_us >> 3).max(1);
        if self.age < YOUNG { rtt } else { rtt.max(VIRTUAL_RTT_US) }
    }

    /// Returns the virtual round trip, microseconds, if it is longer than the real one.
    fn virtual_us(&self, flow: &Flow) -> Option<u64> {
        let long = self.reference_us(flow);
        (long > u64::from(flow.srtt8_us >> 3).max(1)).then_some(long)
    }

    /// Counts round trips and takes their share of marks into the estimate.
    fn rounds(&mut self, flow: &Flow) {
        if flow.una >= self.round.real_end {
            self.round.real_end = flow.next;
            if !flow.slow_start() {
                self.age = self.age.saturating_add(1);
            }
        }
        let elapsed = flow.now_us().saturating_sub(self.round.began_us);
        // A virtual round trip lasts for its nominal time; a real one until its data is
        // acknowledged.
        let over = match self.virtual_us(flow) {
            Some(long) => elapsed >= long,
            None => flow.una >= self.round.end,
        };
        if !over {
            return;
        }
        let delivered = flow.delivered - self.round.delivered;
        let marked = (flow.delivered_ce - self.round.delivered_ce).min(delivered);
        if self.marked && delivered > 0 {
            let share = (marked << FRACTION) / delivered;
            self.alpha = self.alpha - (self.alpha >> WEIGHT_LOG) + (share >> WEIGHT_LOG);
        }
        self.round = Round {
            end: flow.next,
            began_us: flow.now_us(),
            delivered: flow.delivered,
            delivered_ce: flow.delivered_ce,
            ..self.round
        };
    }

    /// Returns the growth per window for one acknowledged segment, times `ONE`: the square of the
    /// real over the virtual round trip, so that the rate grows as if the round trip were the
    /// virtual one.
    fn increase(&self, flow: &Flow) -> u64 {
        let (rtt, reference) = (u64::from(flow.srtt8_us >> 3).max(1), self.reference_us(flow));
        let share = (rtt << FRACTION) / reference;
        ((u128::from(share) * u128::from(share)) >> FRACTION) as u64
    }

    /// Grows the window by segments that come without a mark, whatever the state ("Additive
    /// Increase and ECN Feedback").
    fn enlarge(&mut self, flow: &Flow, ack: &Ack) {
        if !flow.window_limited() {
            return;
        }
        let mut acked = u64::from(ack.delivered.saturating_sub(ack.marked));
        let threshold = u64::from(flow.ssthresh) << FRACTION;
        if self.window < threshold {
            let step = (acked << FRACTION).min(threshold - self.window);
            self.window += step;
            acked -= step.div_ceil(ONE).min(acked);
        }
        let step = u128::from(acked * self.increase(flow)) << FRACTION;
        self.window += (step / u128::from(self.window.max(ONE))) as u64;
    }

    /// Hands the window over, with the rate and the bursts that belong to it.
    fn publish(&mut self, flow: &mut Flow) {
        self.window = self.window.clamp(u64::from(WINDOW_MIN) << FRACTION, u64::from(u32::MAX) << FRACTION);
        flow.cwnd = (self.window >> FRACTION) as u32;
        self.pace(flow);
    }

    fn pace(&self, flow: &mut Flow) {
        if flow.srtt8_us == 0 {
            return;
        }
        let twice = u128::from(flow.cwnd < flow.ssthresh / 2);
        let bytes = u128::from(self.window) * u128::from(flow.mss) * 8_000_000;
        let rate = (bytes / u128::from(flow.srtt8_us)) >> FRACTION << twice;
        flow.pacing_rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        let burst = u128::from(flow.pacing_rate) * u128::from(BURST_US) / 1_000_000;
        flow.gso_max = u32::try_from(burst).unwrap_or(u32::MAX).clamp(flow.mss, self.gso_max.max(flow.mss));
    }

    /// Returns the window after a reduction for marks, times `ONE` ("Multiplicative Decrease on ECN
    /// Feedback").
    fn less(&self) -> u64 {
        let part = (u128::from(self.window) * u128::from(self.alpha)) >> (FRACTION + 1);
        (self.window - part as u64).max(u64::from(WINDOW_MIN) << FRACTION)
    }

    /// True if less than a virtual round trip has passed since the last reduction for marks. The
    /// sender counts real round trips: it enters the state once in each.
    fn reduced_lately(&self, flow: &Flow) -> bool {
        let until = self.reduced_us.zip(self.virtual_us(flow)).map(|(at, long)| at + long);
        until.is_some_and(|until| flow.now_us() < until)
    }

    /// Reduces the window for marks, once per round trip, or per virtual one if that is longer.
    fn reduce_for_marks(&mut self, flow: &mut Flow) {
        self.marked = true;
        if self.reduced_lately(flow) {
            flow.ssthresh = (self.window >> FRACTION) as u32;
            return;
        }
        self.reduced_us = Some(flow.now_us());
        self.before = self.window;
        self.window = self.less();
        flow.ssthresh = (self.window >> FRACTION) as u32;
        self.publish(flow);
    }

    /// Halves the window after a loss, which the sender comes down to by itself. A window that was
    /// reduced for marks in the same round trip is not reduced below half of its value before.
    fn lost(&mut self, flow: &mut Flow) {
        let fresh = self.state != CaState::Cwr;
        let full = if fresh { self.window } else { self.before.max(self.window) };
        self.before = full;
        let half = (full >> 1).min(self.window).max(u64::from(WINDOW_MIN) << FRACTION);
        self.window = half;
        flow.ssthresh = (half >> FRACTION) as u32;
    }

    /// Decays the window after silence, by half for each time that a timeout would have taken (RFC
    /// 2861).
    fn silent(&mut self, flow: &mut Flow) {
        let period = flow.tick().from_micros(u64::from(flow.srtt8_us >> 3) + SILENCE_US).max(1);
        let silent = flow.ticks().saturating_sub(flow.last_sent);
        if flow.last_sent == 0 || silent <= period {
            return;
        }
        let least = (u64::from(flow.initial_window) << FRACTION).min(self.window);
        flow.ssthresh = flow.current_ssthresh();
        let halvings = (silent / period).min(32) as u32;
        self.window = (self.window >> halvings).max(least);
        self.age = 0;
        self.publish(flow);
    }
}

impl Congestion for Prague {
    fn name(&self) -> &'static str {
        "prague"
    }
    fn start(&mut self, flow: &mut Flow) {
        let gso_max = self.gso_max;
        *self = Self { classic: self.classic, gso_max, ..Self::new(flow) };
        self.round.end = flow.next;
        self.round.real_end = flow.next;
        self.round.began_us = flow.now_us();
        (self.round.delivered, self.round.delivered_ce) = (flow.delivered, flow.delivered_ce);
        match &mut self.classic {
            Some(cubic) => cubic.start(flow),
            None => self.pace(flow),
        }
    }
    fn agreed(&mut self, mode: EcnMode) {
        self.classic = (mode != EcnMode::Accurate).then(Cubic::new);
    }
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        match &mut self.classic {
            Some(cubic) => cubic.threshold(flow),
            // The state that follows, or the event, tells marks, losses and timeouts apart, and
            // sets the threshold.
            None => flow.ssthresh,
        }
    }
    fn grow(&mut self, flow: &mut Flow, acked: u32) {
        match &mut self.classic {
            Some(cubic) => cubic.grow(flow, acked),
            // After a timeout the window grows from one segment in slow start. Recent units in
            // flight may let it begin above the threshold.
            None if flow.slow_start() => {
                flow.grow_exponentially(acked);
            }
            None => {}
        }
    }
    fn undone(&mut self, flow: &mut Flow) -> u32 {
        match &mut self.classic {
            Some(cubic) => cubic.undone(flow),
            None => {
                self.window = self.window.max(self.before);
                (self.window >> FRACTION) as u32
            }
        }
    }
    fn entered(&mut self, flow: &mut Flow, state: CaState) {
        if let Some(cubic) = &mut self.classic {
            return cubic.entered(flow, state);
        }
        match state {
            CaState::Cwr if self.echo => self.reduce_for_marks(flow),
            // A probe has repaired a loss.
            CaState::Cwr => {
                self.lost(flow);
                self.publish(flow);
            }
            CaState::Recovery => self.lost(flow),
            CaState::Loss => self.before = self.before.max(self.window),
            // The sender has come down to the threshold, or back up after needless repairs.
            CaState::Open | CaState::Disorder if self.state >= CaState::Recovery => {
                self.window = u64::from(flow.cwnd) << FRACTION;
            }
            CaState::Open | CaState::Disorder => {}
        }
        self.state = state;
    }
    fn event(&mut self, flow: &mut Flow, event: Event) {
        match &mut self.classic {
            Some(cubic) => cubic.event(flow, event),
            None if event == Event::Start => self.silent(flow),
            None if event == Event::Timeout => {
                self.before = self.window;
                flow.ssthresh = ((self.window >> (FRACTION + 1)) as u32).max(WINDOW_MIN);
            }
            None => {}
        }
    }
    fn heard(&mut self, _flow: &mut Flow, ack: &Ack) {
        self.echo = ack.echo;
    }
    fn measured(&mut self, flow: &mut Flow, ack: &Ack) {
        match &mut self.classic {
            Some(cubic) => cubic.measured(flow, ack),
            None => self.rounds(flow),
        }
    }
    fn owns_window(&self) -> bool {
        // The sender handles recovery and the time after a timeout.
        self.classic.is_none() && self.state < CaState::Recovery
    }
    fn control(&mut self, flow: &mut Flow, ack: &Ack, _sample: &RateSample) {
        // Marks that came before the virtual round trip was over have begun a real one without a
        // reduction. The next marks after the virtual round trip do not wait for the end of the
        // real one.
        if ack.echo && self.state == CaState::Cwr && self.virtual_us(flow).is_some() {
            self.reduce_for_marks(flow);
        }
        self.enlarge(flow, ack);
        self.publish(flow);
    }
    fn wants_pacing(&self) -> bool {
        true
    }
    fn pacing_percent(&self) -> Option<(u64, u64)> {
        self.classic.is_none().then_some((200, 100))
    }
    fn burst_min(&self, _flow: &Flow) -> u32 {
        if self.classic.is_none() { 1 } else { 2 }
    }
    fn wants(&self) -> Wants {
        Wants::L4s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;
    use txweir_core::Instant;

    /// Returns a connection in congestion avoidance with this window and round trip.
    fn steady(cwnd: u32, rtt_us: u32) -> (Prague, Flow) {
        let mut f = test_flow();
        (f.cwnd, f.ssthresh, f.srtt8_us) = (cwnd, cwnd, rtt_us * 8);
        let mut p = Prague::new(&f);
        p.start(&mut f);
        (p, f)
    }

    fn ack(delivered: u32, marked: u32) -> Ack {
        Ack { delivered, marked, echo: marked > 0, ..Ack::default() }
    }

    fn marks(p: &mut Prague, f: &mut Flow) {
        p.heard(f, &ack(1, 1));
        p.threshold(f);
        p.entered(f, CaState::Cwr);
        p.entered(f, CaState::Open);
    }

    /// cwnd += (acked - marked) * ai / cwnd with ai = 1: a window of unmarked segments adds one.
    #[test]
    fn a_window_without_marks_adds_one_segment() {
        let (mut p, mut f) = steady(100, 25_000);
        for _ in 0..100 {
            p.control(&mut f, &ack(1, 0), &RateSample::default());
        }
        // A hundredth of a growing window is a little less each time.
        assert!(
            (f64::from(1 << 20) * 100.99..f64::from(1 << 20) * 101.0).contains(&((p.window >> 4) as f64))
        );
        let before = p.window;
        for _ in 0..100 {
            p.control(&mut f, &ack(1, 1), &RateSample::default());
        }
        assert_eq!(p.window, before, "marked segments add nothing");
    }

    /// At 5 ms, a fifth of the reference, a window adds 1/25 of a segment once the flow is no
    /// longer young.
    #[test]
    fn short_round_trips_grow_as_long_ones() {
        let (mut p, mut f) = steady(100, 5_000);
        assert_eq!(p.increase(&f), ONE, "young");
        p.age = YOUNG;
        for _ in 0..100 {
            p.control(&mut f, &ack(1, 0), &RateSample::default());
        }
        let grown = (p.window - (100 << FRACTION)) as f64 / ONE as f64;
        assert!((0.0399..0.04).contains(&grown), "{grown}");
        f.srtt8_us = 8 * 50_000;
        assert_eq!(p.increase(&f), ONE, "long round trips do not grow faster");
    }

    /// The first mark halves the window; then the estimate is a moving average with a weight of
    /// 1/16 for each round.
    #[test]
    fn reductions_follow_the_estimate() {
        let (mut p, mut f) = steady(100, 30_000);
        marks(&mut p, &mut f);
        assert_eq!((f.cwnd, f.ssthresh), (50, 50));
        // Eight rounds of ten with one marked: 1 * (15/16)^8 + 0.1 * (1 - (15/16)^8).
        for _ in 0..8 {
            f.delivered += 10;
            f.delivered_ce += 1;
            f.una = f.next;
            f.next += 10;
            p.measured(&mut f, &ack(10, 1));
        }
        let kept = (15.0_f64 / 16.0).powi(8);
        assert!((p.alpha() - (kept + 0.1 * (1.0 - kept))).abs() < 1e-5, "{}", p.alpha());
        f.now = Instant::from_millis(100);
        marks(&mut p, &mut f);
        let expected = 50.0 * (1.0 - p.alpha() / 2.0);
        assert_eq!(f.cwnd, expected as u32);
        assert!((p.window as f64 / ONE as f64 - expected).abs() < 1e-4, "a fraction is kept");
    }

    #[test]
    fn an_old_flow_is_reduced_once_per_virtual_round_trip() {
        let (mut p, mut f) = steady(100, 5_000);
        p.age = YOUNG;
        f.now = Instant::from_millis(100);
        marks(&mut p, &mut f);
        assert_eq!(f.cwnd, 50);
        f.now = Instant::from_millis(124);
        marks(&mut p, &mut f);
        assert_eq!(f.cwnd, 50);
        f.now = Instant::from_millis(125);
        marks(&mut p, &mut f);
        assert_eq!(f.cwnd, 25);
    }

    #[test]
    fn a_loss_halves_whatever_the_estimate() {
        let (mut p, mut f) = steady(100, 30_000);
        p.alpha = 0;
        p.heard(&mut f, &ack(1, 0));
        f.ssthresh = p.threshold(&mut f);
        p.entered(&mut f, CaState::Recovery);
        assert!(!p.owns_window(), "the sender handles recovery");
        assert_eq!(f.ssthresh, 50);
        f.cwnd = 50;
        p.entered(&mut f, CaState::Open);
        assert!(p.owns_window());
        p.control(&mut f, &ack(0, 0), &RateSample::default());
        assert_eq!(f.cwnd, 50);
        assert_eq!(p.undone(&mut f), 100);
    }

    /// 100 segments of 1448 bytes in 25 ms are 5,792,000 byte/s; 250 us of it are 1448 bytes, one
    /// segment.
    #[test]
    fn rate_and_bursts_go_with_the_window() {
        let (mut p, mut f) = steady(100, 25_000);
        p.control(&mut f, &ack(0, 0), &RateSample::default());
        assert_eq!((f.pacing_rate, f.gso_max), (5_792_000, 1_448));
        p.window *= 10;
        p.control(&mut f, &ack(0, 0), &RateSample::default());
        assert_eq!((f.pacing_rate, f.gso_max), (57_920_000, 14_480));
    }

    /// After a timeout the window is one segment more than those in flight, which may be above the
    /// threshold: recent units do not count as lost.
    #[test]
    fn a_window_above_the_threshold_does_not_grow_after_a_timeout() {
        let (mut p, mut f) = steady(100, 30_000);
        p.entered(&mut f, CaState::Loss);
        f.ssthresh = 50;
        for (cwnd, grown) in [(49, 50), (50, 50), (61, 61)] {
            f.cwnd = cwnd;
            p.grow(&mut f, 3);
            assert_eq!(f.cwnd, grown);
        }
    }

    #[test]
    fn without_accurate_marks_it_is_cubic() {
        for mode in [EcnMode::Off, EcnMode::Classic] {
            let (mut p, mut f) = steady(100, 25_000);
            p.agreed(mode);
            p.start(&mut f);
            assert!(!p.owns_window());
            p.heard(&mut f, &ack(1, 1));
            assert_eq!(p.threshold(&mut f), 70);
        }
    }

    #[test]
    fn silence_makes_the_window_decay_to_the_first() {
        let (mut p, mut f) = steady(100, 25_000);
        f.now = Instant::from_millis(1_000);
        f.last_sent = f.ticks();
        f.now = Instant::from_millis(1_200);
        p.event(&mut f, Event::Start);
        assert_eq!(f.cwnd, 100);
        f.now = Instant::from_millis(1_000 + 460);
        p.event(&mut f, Event::Start);
        assert_eq!(f.cwnd, 25);
        f.now = Instant::from_millis(9_000);
        p.event(&mut f, Event::Start);
        assert_eq!(f.cwnd, 10);
    }
}
