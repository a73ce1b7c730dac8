//! Each transition of the state machine, with numbers computed by hand: a path of 1 segment per
//! millisecond and 40 ms has a bandwidth-delay product of 40 segments.

use super::*;
use crate::flow::test_flow;
use txweir_core::{Instant, Nanos};

const RTT_US: u32 = 40_000;

struct Path {
    bbr: Bbr,
    flow: Flow,
    /// Segments per 40 ms that samples show.
    rate: u32,
    app_limited: bool,
}

impl Path {
    fn new(seed: u64) -> Self {
        let mut flow = test_flow();
        flow.now = Instant::from_secs(1);
        (flow.delivered, flow.srtt8_us, flow.min_rtt_us) = (1, 8 * RTT_US, RTT_US);
        let mut bbr = Bbr::new(seed);
        bbr.start(&mut flow);
        Self { bbr, flow, rate: 40, app_limited: false }
    }

    /// Takes an acknowledgement of `delivered` segments `ms` later, the first of a round trip or
    /// not.
    fn ack(&mut self, ms: u64, delivered: u32, round: bool, lost: u32) {
        let f = &mut self.flow;
        f.now += Nanos::from_millis(ms);
        f.departs = f.now;
        let before = f.delivered;
        f.delivered += u64::from(delivered);
        f.lost_total += u64::from(lost);
        let sample = RateSample {
            delivered: Some(self.rate),
            interval_us: u64::from(RTT_US),
            prior_delivered: if round { before } else { 1 },
            app_limited: self.app_limited,
            delivered_us: f.now_us(),
            ..RateSample::default()
        };
        let ack = Ack {
            delivered,
            lost,
            rtt_us: Some(RTT_US),
            prior_in_flight: f.in_flight() + delivered,
            ..Ack::default()
        };
        self.bbr.control(f, &ack, &sample);
    }

    fn round(&mut self) {
        self.ack(40, 10, true, 0);
    }

    /// Returns a flow after STARTUP and DRAIN, in PROBE_BW, with nothing left in flight.
    fn steady(seed: u64) -> Self {
        let mut p = Self::new(seed);
        (0..4).for_each(|_| p.round());
        assert_eq!(p.bbr.mode, Mode::ProbeBw);
        p
    }
}

/// 10 segments of 1448 bytes per 40 ms, times 739/256, less one percent.
#[test]
fn the_first_rate_is_that_of_the_first_window() {
    assert_eq!(Path::new(0).flow.pacing_rate, 1_034_467);
    let mut flow = test_flow();
    Bbr::new(0).start(&mut flow);
    // Without a round trip the rate assumes one millisecond. 10 * 2^24 / 1000 = 167772.
    assert_eq!(flow.pacing_rate, 41_381_651);
}

#[test]
fn the_pipe_is_full_after_three_round_trips_without_growth() {
    let mut p = Path::new(0);
    p.flow.out = 100;
    p.round();
    for n in 1..=3 {
        assert_eq!((p.bbr.mode, p.bbr.full.rounds), (Mode::Startup, n - 1), "{n}");
        p.round();
    }
    assert_eq!((p.bbr.mode, p.bbr.pacing_gain, p.bbr.window_gain), (Mode::Drain, 88, 739));
    // 40 segments in flight, room for three super-segments of two (4.1 MB/s allow no third), even.
    assert_eq!(p.flow.ssthresh, 46);
    // 0.34375 of 1 segment per millisecond, less one percent.
    assert_eq!(p.flow.pacing_rate, 492_766);
}

#[test]
fn a_quarter_more_is_growth_and_less_is_none() {
    let mut p = Path::new(0);
    p.flow.out = 1000;
    for rate in [40, 50, 62, 77, 78] {
        p.rate = rate;
        p.round();
    }
    // 50 is a quarter more than 40. 62 is less than a quarter more than 50. 77 is more than the
    // 62.5 needed. 78 is not a quarter more than 77.
    assert_eq!((p.bbr.full.rounds, p.bbr.mode), (1, Mode::Startup));
    assert_eq!(p.bbr.full.bw, Bandwidth::of(77, 40_000));
}

#[test]
fn an_application_that_sends_little_says_nothing_of_the_path() {
    let mut p = Path::new(0);
    p.flow.out = 100;
    p.round();
    (p.app_limited, p.rate) = (true, 10);
    (0..30).for_each(|_| p.round());
    assert_eq!((p.bbr.mode, p.bbr.full.rounds), (Mode::Startup, 0));
    assert_eq!(
        p.bbr.greatest(),
        Bandwidth::of(40, 40_000),
        "kept after ten rounds, as no sample replaced it"
    );
    p.rate = 60;
    p.round();
    assert_eq!(p.bbr.greatest(), Bandwidth::of(60, 40_000), "a sample above the known rate counts");
}

#[test]
fn a_drain_lasts_until_the_product_is_in_flight() {
    let mut p = Path::new(0);
    p.flow.out = 100;
    (0..4).for_each(|_| p.round());
    for out in [80, 60, 47] {
        p.flow.out = out;
        p.ack(5, 2, false, 0);
        assert_eq!(p.bbr.mode, Mode::Drain, "{out}");
    }
    p.flow.out = 46;
    p.ack(5, 2, false, 0);
    assert_eq!((p.bbr.mode, p.bbr.window_gain), (Mode::ProbeBw, 512));
}

#[test]
fn probing_begins_with_any_phase_but_the_drain() {
    let mut first = [0; 8];
    (0..400).for_each(|seed| first[Path::steady(seed).bbr.phase] += 1);
    assert_eq!(first[1], 0);
    assert!(first.iter().enumerate().all(|(i, n)| i == 1 || *n > 20), "{first:?}");
}

#[test]
fn phases_follow_time_and_what_is_in_flight() {
    let mut p = Path::steady(0);
    (p.bbr.phase, p.bbr.phase_us) = (7, p.flow.now_us());
    p.flow.out = 40;
    p.ack(40, 1, false, 0);
    assert_eq!(p.bbr.phase, 7, "a round trip has to be over, not just to be reached");
    p.ack(1, 1, false, 0);
    assert_eq!((p.bbr.phase, p.bbr.pacing_gain), (0, 320));
    // The probe needs 1.25 * 40 + 6, and 2, in flight when the next two leave: 58 - 2 = 56 now.
    p.flow.out = 54;
    p.ack(50, 1, false, 0);
    assert_eq!(p.bbr.phase, 0);
    p.flow.out = 55;
    p.ack(1, 1, false, 0);
    assert_eq!((p.bbr.phase, p.bbr.pacing_gain), (1, 192));
    p.flow.out = 46;
    p.ack(1, 1, false, 0);
    assert_eq!(p.bbr.phase, 1, "47 before that acknowledgement");
    p.ack(1, 0, false, 0);
    assert_eq!((p.bbr.phase, p.bbr.pacing_gain), (2, 256), "drained before a round trip was over");
}

#[test]
fn a_probe_that_loses_ends_after_a_round_trip() {
    let mut p = Path::steady(0);
    (p.bbr.phase, p.bbr.phase_us, p.bbr.pacing_gain) = (0, p.flow.now_us(), 320);
    p.ack(30, 1, false, 1);
    assert_eq!(p.bbr.phase, 0);
    p.ack(11, 1, false, 1);
    assert_eq!(p.bbr.phase, 1);
}

/// Two products, three super-segments, even: 86. Without extra for lumps, as none came.
#[test]
fn the_window_is_two_products_and_room_for_super_segments() {
    let mut p = Path::steady(0);
    p.bbr.phase = 2;
    p.bbr.aggregation = Aggregation::default();
    p.bbr.aggregation.begin(p.flow.now_us());
    p.flow.cwnd = 80;
    p.ack(10, 10, false, 0);
    assert_eq!(p.flow.cwnd, 90, "the ten that came at once are room for lumps: 96 is the bound");
    assert_eq!(p.bbr.window_target(&p.flow), 96);
    p.bbr.aggregation = Aggregation::default();
    assert_eq!(p.bbr.window_target(&p.flow), 86);
    p.bbr.phase = 0;
    assert_eq!(p.bbr.window_target(&p.flow), 88);
}

#[test]
fn the_round_trip_is_looked_for_every_ten_seconds() {
    let mut p = Path::steady(0);
    p.flow.out = 40;
    p.flow.cwnd = 86;
    // The smallest round trip was seen at 1 s; at 11 s it is not yet older than ten seconds.
    while p.flow.now < Instant::from_secs(11) {
        p.ack(40, 1, false, 0);
        assert_ne!(p.bbr.mode, Mode::ProbeRtt, "{:?}", p.flow.now);
    }
    p.ack(40, 1, false, 0);
    assert_eq!((p.bbr.mode, p.flow.cwnd), (Mode::ProbeRtt, 4));
    assert!(p.flow.app_limited > 0);
    let saved = p.bbr.saved;
    p.flow.out = 4;
    p.ack(40, 1, false, 0);
    let since = p.flow.now;
    for _ in 0..5 {
        p.ack(40, 4, true, 0);
        assert_eq!((p.bbr.mode, p.flow.cwnd), (Mode::ProbeRtt, 4));
    }
    p.ack(1, 4, true, 0);
    assert_eq!((p.bbr.mode, p.flow.now.saturating_since(since)), (Mode::ProbeBw, Nanos::from_millis(201)));
    assert!(p.flow.cwnd >= saved.min(86), "{} {saved}", p.flow.cwnd);
}

#[test]
fn a_recovery_begins_by_conservation_and_ends_with_the_window_before() {
    let mut p = Path::steady(0);
    (p.flow.cwnd, p.flow.out) = (80, 80);
    let threshold = p.flow.ssthresh;
    assert_eq!(p.bbr.threshold(&mut p.flow), threshold, "nothing is halved");
    (p.flow.state, p.flow.lost) = (CaState::Recovery, 3);
    p.ack(1, 2, false, 3);
    assert_eq!((p.flow.cwnd, p.bbr.conserving), (79, true), "77 in flight, 2 delivered");
    p.flow.out = 70;
    p.ack(1, 1, false, 0);
    assert_eq!(p.flow.cwnd, 79, "not below what it was");
    p.ack(40, 1, true, 0);
    assert!(!p.bbr.conserving, "a round trip after it began");
    assert_eq!(p.flow.cwnd, 80);
    (p.flow.state, p.flow.lost) = (CaState::Open, 0);
    p.flow.cwnd = 30;
    p.ack(1, 1, false, 0);
    assert_eq!(p.flow.cwnd, 81, "the 80 of before, and one acknowledged");
}

#[test]
fn a_timeout_counts_as_a_round_trip_and_undoing_it_looks_for_the_bandwidth_again() {
    let mut p = Path::new(0);
    p.flow.out = 100;
    (0..3).for_each(|_| p.round());
    assert_eq!(p.bbr.full.rounds, 2);
    p.flow.cwnd = 90;
    p.bbr.threshold(&mut p.flow);
    (p.flow.cwnd, p.flow.state) = (1, CaState::Loss);
    p.bbr.entered(&mut p.flow, CaState::Loss);
    assert_eq!((p.bbr.full.bw, p.bbr.saved, p.bbr.prior_state), (Bandwidth(0), 90, CaState::Loss));
    assert_eq!(p.bbr.undone(&mut p.flow), 1);
    assert_eq!(p.bbr.full.rounds, 0);
    p.flow.state = CaState::Open;
    p.round();
    assert!(p.flow.cwnd >= 90, "{}", p.flow.cwnd);
    assert_eq!(p.bbr.mode, Mode::Startup);
}

/// After silence the path is empty: the rate is 0.99 segments per millisecond, whatever the phase.
#[test]
fn after_silence_the_rate_is_that_of_the_path() {
    let mut p = Path::steady(0);
    p.bbr.phase = 0;
    p.ack(1, 1, false, 0);
    let bw = p.bbr.greatest();
    p.flow.app_limited = 5;
    p.bbr.event(&mut p.flow, Event::Start);
    assert_eq!(p.flow.pacing_rate, bw.pacing_rate(UNIT, 1448));
    assert_eq!(p.flow.pacing_rate, 1_433_501);
    // Silence drains the path as well as PROBE_RTT does.
    p.flow.now = Instant::from_secs(60);
    p.ack(1, 1, false, 0);
    assert_eq!(p.bbr.mode, Mode::ProbeBw);
}

#[test]
fn super_segments_follow_the_rate() {
    let (mut flow, b) = (test_flow(), Bbr::new(0));
    for (rate, burst) in [(149_999, 1), (150_000, 2), (5_931_008, 4), (u64::MAX, 45)] {
        flow.pacing_rate = rate;
        assert_eq!(b.burst(&flow), burst, "{rate}");
    }
    assert_eq!(b.burst_min(&flow), 2);
}
