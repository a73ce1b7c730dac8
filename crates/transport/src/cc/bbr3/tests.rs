//! Each transition of the state machine, with numbers computed by hand: a path of 1 segment per
//! millisecond and 40 ms has a bandwidth-delay product of 40 segments.

use super::*;
use crate::flow::test_flow;
use txweir_core::{Instant, Nanos};

const RTT_US: u32 = 40_000;

struct Path {
    bbr: Bbr3,
    flow: Flow,
    /// Segments per 40 ms that samples show.
    rate: u32,
    app_limited: bool,
    marked: u32,
}

impl Path {
    fn new(seed: u64) -> Self {
        let mut flow = test_flow();
        flow.now = Instant::from_secs(1);
        (flow.delivered, flow.srtt8_us, flow.min_rtt_us) = (1, 8 * RTT_US, RTT_US);
        let mut bbr = Bbr3::new(seed);
        bbr.start(&mut flow);
        Self { bbr, flow, rate: 40, app_limited: false, marked: 0 }
    }

    /// Takes an acknowledgement of `delivered` segments `ms` later, the first of a round trip or
    /// not.
    fn ack(&mut self, ms: u64, delivered: u32, round: bool) {
        let f = &mut self.flow;
        f.now += Nanos::from_millis(ms);
        let before = f.delivered;
        f.delivered += u64::from(delivered);
        let sample = RateSample {
            delivered: Some(self.rate),
            interval_us: u64::from(RTT_US),
            prior_delivered: if round { before } else { 1 },
            app_limited: self.app_limited,
            sent_in_flight: f.out,
            prior_lost: f.lost_total,
            ..RateSample::default()
        };
        let marked = std::mem::take(&mut self.marked);
        let ack = Ack { delivered, rtt_us: Some(RTT_US), marked, echo: marked > 0, ..Ack::default() };
        self.bbr.control(f, &ack, &sample);
    }

    fn round(&mut self) {
        self.ack(40, 10, true);
    }

    /// Loses a unit of one segment, sent with `in_flight`; `since` segments were lost since it was
    /// sent.
    fn lose(&mut self, seq: u64, in_flight: u32, since: u32) {
        self.flow.lost_total += 1;
        let lost = Lost {
            range: (seq, seq + 1448),
            segments: 1,
            sent_in_flight: in_flight,
            lost_since: since,
            app_limited: false,
        };
        self.bbr.lost(&mut self.flow, &lost);
    }

    /// Returns a flow at the start of PROBE_BW.
    fn down() -> Self {
        let mut p = Self::new(7);
        p.flow.out = 100;
        (0..4).for_each(|_| p.round());
        assert_eq!(p.bbr.mode, Mode::Drain);
        p.flow.out = 40;
        p.ack(1, 1, false);
        assert!(p.bbr.mode == Mode::Down || p.bbr.mode == Mode::Cruise, "{:?}", p.bbr.mode);
        p
    }

    /// Returns a flow in CRUISE.
    fn cruise() -> Self {
        let mut p = Self::down();
        p.ack(1, 1, false);
        assert_eq!(p.bbr.mode, Mode::Cruise);
        p
    }

    /// Returns a flow in UP.
    fn up() -> Self {
        let mut p = Self::cruise();
        p.bbr.probe.rounds = 63;
        p.flow.cwnd = 80;
        p.ack(1, 1, false);
        assert_eq!(p.bbr.mode, Mode::Refill);
        p.round();
        assert_eq!(p.bbr.mode, Mode::Up);
        p
    }
}

/// 10 segments of 1448 bytes per 40 ms, times 710/256, less one percent.
#[test]
fn the_first_rate_is_that_of_the_first_window() {
    assert_eq!(Path::new(0).flow.pacing_rate, 993_872);
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
    assert_eq!(p.bbr.mode, Mode::Drain);
    // Half of 1 segment per millisecond, less one percent.
    assert_eq!(p.flow.pacing_rate, 716_750);
}

#[test]
fn an_application_that_sends_little_says_nothing_of_the_path() {
    let mut p = Path::new(0);
    p.round();
    (p.app_limited, p.rate) = (true, 10);
    (0..30).for_each(|_| p.round());
    assert_eq!((p.bbr.mode, p.bbr.full.rounds, p.bbr.bw), (Mode::Startup, 0, Bandwidth::of(40, 40_000)));
    p.rate = 60;
    p.round();
    assert_eq!(p.bbr.bw, Bandwidth::of(60, 40_000), "a sample above the known rate counts");
}

/// Six ranges are lost of 100 in flight in one round trip, a round trip after the recovery began.
#[test]
fn losses_end_startup() {
    for ranges in [5, 6] {
        let mut p = Path::new(0);
        p.flow.out = 100;
        p.round();
        p.flow.state = CaState::Recovery;
        p.lose(1, 100, 1);
        p.round();
        assert_eq!(p.bbr.mode, Mode::Startup, "the recovery has not lasted a round trip");
        let before = p.flow.lost_total;
        for i in 0..ranges {
            p.lose(100_000 + i * 10_000, 100, i as u32 + 1);
        }
        // The sample's segment left before these losses.
        p.rate = 60;
        p.flow.now += Nanos::from_millis(40);
        p.flow.delivered += 50;
        let sample = RateSample {
            delivered: Some(60),
            interval_us: u64::from(RTT_US),
            prior_delivered: p.flow.delivered - 50,
            sent_in_flight: 100,
            prior_lost: before,
            ..RateSample::default()
        };
        p.bbr.control(&mut p.flow, &Ack { delivered: 50, ..Ack::default() }, &sample);
        let mode = if ranges == 6 { Mode::Drain } else { Mode::Startup };
        assert_eq!(p.bbr.mode, mode, "{ranges}");
        if ranges == 6 {
            // The product of 1.5 segments per millisecond and 40 ms; 50 were delivered.
            assert_eq!(p.bbr.bounds.long_inflight, 60);
        }
    }
}

#[test]
fn a_drain_lasts_until_the_product_is_in_flight() {
    let mut p = Path::new(0);
    p.flow.out = 100;
    (0..4).for_each(|_| p.round());
    for (out, mode) in [(60, Mode::Drain), (41, Mode::Drain), (40, Mode::Cruise)] {
        p.flow.out = out;
        p.ack(5, 2, false);
        // The end of DRAIN is the end of DOWN, with the same acknowledgement: the path is drained,
        // and no bound needs headroom.
        assert_eq!(p.bbr.mode, mode, "{out}");
    }
}

/// The next probe comes by chance after two to three seconds, or after as many round trips as the
/// product has segments.
#[test]
fn time_or_round_trips_bring_the_next_probe() {
    let mut p = Path::cruise();
    assert!((2_000_000..=3_000_000).contains(&p.bbr.probe.wait_us));
    let began = p.bbr.probe.began_us;
    p.flow.cwnd = 200;
    while p.bbr.mode == Mode::Cruise {
        p.ack(10, 1, false);
    }
    assert_eq!(p.bbr.mode, Mode::Refill);
    let waited = p.flow.now_us() - began - p.bbr.probe.wait_us;
    assert!((1..=10_000).contains(&waited), "{waited}");
    let mut p = Path::cruise();
    p.bbr.probe.wait_us = u64::MAX >> 1;
    p.flow.cwnd = 200;
    let start = p.bbr.probe.rounds;
    while p.bbr.mode == Mode::Cruise {
        p.round();
    }
    assert_eq!(p.bbr.probe.rounds, 40, "began with {start}");
}

#[test]
fn a_probe_ends_when_the_rate_does_not_grow() {
    let mut p = Path::up();
    assert_eq!(p.bbr.mode.gains(), (320, 576));
    // The first round trip of the probe sets no new base: 40 was known when it began.
    for n in 1..=3 {
        assert_eq!(p.bbr.mode, Mode::Up, "{n}");
        p.round();
    }
    assert_eq!(p.bbr.mode, Mode::Down);
    assert_eq!(p.bbr.mode.gains(), (230, 512));
}

/// Three of 100 in flight are more than two percent. 99 were before the third: (0.02 * 99 - 2) /
/// 0.98 is none of it.
#[test]
fn losses_end_a_probe_and_set_the_bound() {
    let mut p = Path::up();
    p.lose(1, 100, 1);
    p.lose(1449, 100, 2);
    assert_eq!((p.bbr.mode, p.bbr.bounds.long_inflight), (Mode::Up, u32::MAX));
    p.lose(2897, 100, 3);
    assert_eq!((p.bbr.mode, p.bbr.bounds.long_inflight), (Mode::Down, 99));
    p.lose(4345, 50, 4);
    assert_eq!(p.bbr.bounds.long_inflight, 99, "once per probe");
    // Cruising leaves 15 percent of the bound free.
    p.bbr.mode = Mode::Cruise;
    p.flow.cwnd = 95;
    p.bbr.probe.rounds = 0;
    p.rate = 100;
    p.ack(1, 1, false);
    assert_eq!(p.flow.cwnd, 85);
}

#[test]
fn the_bound_is_not_below_seven_tenths_of_what_is_wanted() {
    let mut p = Path::up();
    p.flow.cwnd = 80;
    p.lose(1, 20, 1);
    assert_eq!(p.bbr.bounds.long_inflight, 28, "0.7 of the product, 40");
}

/// The bound grows by 1, 2, 4 in successive round trips, spread over each.
#[test]
fn the_bound_grows_faster_and_faster() {
    let mut flow = test_flow();
    flow.cwnd = 64;
    let mut probe = Probe::default();
    probe.steepen(64);
    let mut long = 0;
    let mut seen = Vec::new();
    for i in 0..6 {
        long += probe.grow(&flow, 32, i % 2 == 1);
        seen.push(long);
    }
    // 64 are acknowledged per round trip: the bound grows by one for 64, then for 32, then for 16.
    assert_eq!(seen, [0, 1, 2, 3, 5, 7]);
}

#[test]
fn losses_of_a_cruise_lower_the_short_term_bounds_until_the_next_probe() {
    let mut p = Path::cruise();
    p.flow.out = 40;
    p.rate = 30;
    p.round();
    p.flow.cwnd = 80;
    p.lose(1, 40, 1);
    p.round();
    // 30 per 40 ms are more than 0.7 of 40. 0.7 of the 80 in flight are 56, more than the ten that
    // were delivered.
    assert_eq!(p.bbr.bounds.short_bw, Bandwidth::of(30, 40_000));
    assert_eq!((p.bbr.bounds.short_inflight, p.flow.cwnd), (56, 56));
    assert_eq!(p.bbr.bw, Bandwidth::of(30, 40_000));
    p.bbr.probe.rounds = 63;
    p.ack(1, 1, false);
    assert_eq!((p.bbr.mode, p.bbr.bounds), (Mode::Refill, Bounds::default()));
}

#[test]
fn the_round_trip_is_looked_for_every_five_seconds() {
    let mut p = Path::cruise();
    p.bbr.probe.wait_us = u64::MAX >> 1;
    (p.flow.out, p.flow.cwnd) = (40, 80);
    while p.flow.now_us() + 40_000 <= 6_000_000 {
        p.ack(40, 1, false);
        assert_eq!(p.bbr.mode, Mode::Cruise, "{:?}", p.flow.now);
    }
    p.ack(80, 1, false);
    assert_eq!((p.bbr.mode, p.flow.cwnd), (Mode::ProbeRtt, 20), "half of 40");
    p.flow.out = 20;
    p.ack(40, 1, false);
    let since = p.flow.now;
    for _ in 0..5 {
        p.ack(40, 4, true);
        assert_eq!((p.bbr.mode, p.flow.cwnd), (Mode::ProbeRtt, 20));
    }
    p.ack(1, 4, true);
    assert_eq!((p.bbr.mode, p.flow.now.saturating_since(since)), (Mode::Cruise, Nanos::from_millis(201)));
    assert!(p.flow.cwnd >= 80, "{}", p.flow.cwnd);
}

#[test]
fn a_needless_recovery_is_undone() {
    let mut p = Path::up();
    p.lose(1, 20, 1);
    assert_eq!(p.bbr.mode, Mode::Down);
    p.flow.state = CaState::Recovery;
    p.bbr.undone(&mut p.flow);
    assert_eq!((p.bbr.mode, p.bbr.bounds), (Mode::Up, Bounds::default()));
}

/// The share of marks starts at 1. After a round trip with a fifth marked it is 15/16 + 0.2/16 =
/// 0.95: 80 segments fall by 31.7 percent.
#[test]
fn exact_marks_lower_the_volume_by_a_third_of_their_share() {
    let mut p = Path::cruise();
    p.bbr.marks = Marks::default();
    p.bbr.marks.round(&p.flow);
    (p.flow.cwnd, p.flow.out) = (80, 40);
    p.marked = 2;
    p.bbr.latest.reset();
    p.ack(40, 10, true);
    assert!((50..=60).contains(&p.bbr.bounds.short_inflight), "{:?}", p.bbr.bounds);
}

#[test]
fn after_silence_the_rate_is_that_of_the_path() {
    let mut p = Path::up();
    p.flow.app_limited = 5;
    p.bbr.event(&mut p.flow, Event::Start);
    assert_eq!(p.flow.pacing_rate, 1_433_501);
    p.flow.now = Instant::from_secs(60);
    p.ack(1, 1, false);
    assert_ne!(p.bbr.mode, Mode::ProbeRtt);
}
