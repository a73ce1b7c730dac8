mod model;
mod stall;

use super::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use model::Model;
use proptest::prelude::*;

const MTU: u32 = 1514;
/// A full TSO frame: 45 segments of 1448 bytes behind one header of 66 bytes.
const TSO: u32 = 65_226;

/// Returns a fresh limit at time zero, in the reference's reset state where no bound is set:
/// threshold 0.
fn fresh() -> Dql {
    Dql::new(&DqlConfig::default(), Instant::ZERO).unwrap()
}

/// Returns the same limit with both totals at `start` instead of zero.
fn starting_at(start: u32, config: &DqlConfig) -> Dql {
    let mut dql = Dql::new(config, Instant::ZERO).unwrap();
    (dql.queued, dql.completed, dql.prev.queued) = (start, start, start);
    dql.threshold = dql.threshold.wrapping_add(start);
    dql
}

/// Posts at time zero, for tests where time does not matter.
fn post(dql: &mut Dql, n: u32) -> i32 {
    dql.queued(n, Instant::ZERO).unwrap();
    dql.available()
}

fn complete(dql: &mut Dql, n: u32) -> u32 {
    dql.completed(n, Instant::ZERO).unwrap();
    dql.limit()
}

// Golden vectors V1, V2, V5, V6, V8, V9 and V10 come from an arithmetic run of the reference's
// rule; V3, V4 and V7 were computed by hand from the rule for this file.

#[test]
fn v1_grows_from_zero_by_what_was_completed() {
    let mut dql = fresh();
    assert_eq!(dql.available(), 0);
    assert_eq!(post(&mut dql, MTU), -1514);
    assert_eq!(complete(&mut dql, MTU), 1514);
    assert_eq!(dql.available(), 1514);
    assert_eq!(post(&mut dql, MTU), 0);
    assert_eq!(post(&mut dql, MTU), -1514);
    assert_eq!(complete(&mut dql, 3028), 4542);
    post(&mut dql, MTU);
    post(&mut dql, MTU);
    assert_eq!(complete(&mut dql, MTU), 4542);
    assert_eq!(dql.prev.over_limit, 0);
}

/// A device that carries single objects as large as the limit completes exactly the previous batch.
/// With a strict comparison there ("more than everything previous is done") the limit would stay at
/// one object for ever.
#[test]
fn v2_single_large_objects_do_not_starve() {
    let mut dql = fresh();
    let mut strict = Model { completed_means_more: true, ..Model::new(&DqlConfig::default()) };
    let mut limits = Vec::new();
    for (posts, over_limit) in [(1, 0), (1, 0), (2, 65_226), (1, 0)] {
        for _ in 0..posts {
            post(&mut dql, TSO);
            strict.post(TSO);
        }
        limits.push((complete(&mut dql, TSO), strict.complete(TSO, 0)));
        assert_eq!(dql.prev.over_limit, over_limit);
    }
    assert_eq!(limits, [(65_226, 65_226), (65_226, 65_226), (65_226, 65_226), (130_452, 65_226)]);
}

#[test]
fn v3_slack_that_persists_for_the_hold_time_is_given_up() {
    let mut dql = fresh();
    dql.set_limit(30_000).unwrap();
    post(&mut dql, 1000);
    complete(&mut dql, 1000); // the written limit is in force from here
    assert_eq!(dql.available(), 30_000);
    // Each round leaves something in flight and completes less than was there: slack is 30 000 - 2
    // x 1000.
    for _ in 0..4 {
        post(&mut dql, 1000);
    }
    let at = |ms| Instant::from_millis(ms);
    dql.completed(1000, at(1)).unwrap();
    // Nothing was in flight before this round.
    assert_eq!((dql.limit(), dql.lowest_slack), (30_000, u32::MAX));
    dql.completed(1000, at(2)).unwrap();
    assert_eq!((dql.limit(), dql.lowest_slack), (30_000, 28_000));
    dql.completed(1000, at(1000)).unwrap(); // not strictly later than the hold time
    assert_eq!((dql.limit(), dql.lowest_slack), (30_000, 28_000));
    for _ in 0..3 {
        post(&mut dql, 1000);
    }
    dql.completed(1000, at(1001)).unwrap(); // the last of the round before: that is not a busy interval
    assert_eq!(dql.limit(), 30_000);
    dql.completed(1000, at(1001)).unwrap();
    assert_eq!((dql.limit(), dql.lowest_slack), (2000, u32::MAX));
    assert_eq!((dql.stats().shrinks, dql.stats().idle_shrinks), (1, 0));
}

/// Of a limit of 1850 million and 300 million beyond it, an interval that completes one million
/// needs two: the slack is more than 2^31, and more than the limit.
#[test]
fn slack_beyond_the_range_of_signed_numbers_is_given_up_too() {
    let mut dql = fresh();
    let now = Instant::ZERO + HOLD_TIME + Nanos(1);
    (0..3).for_each(|_| _ = post(&mut dql, 100_000_000));
    dql.completed(100_000_000, now).unwrap();
    assert_eq!((dql.limit(), dql.prev.over_limit), (0, 300_000_000));
    dql.set_limit(1_850_000_000).unwrap();
    dql.completed(1_000_000, now).unwrap();
    assert_eq!((dql.limit(), dql.stats().shrinks), (0, 1));
}

#[test]
fn v4_over_limit_of_the_previous_round_is_added() {
    let mut dql = fresh();
    dql.set_limit(2000).unwrap();
    post(&mut dql, 100);
    assert_eq!(complete(&mut dql, 100), 2000);
    for _ in 0..3 {
        post(&mut dql, 1000);
    }
    // 3000 in flight against 2000: 1000 over the limit, and the device still busy.
    assert_eq!(complete(&mut dql, 1000), 2000);
    assert_eq!(dql.prev.over_limit, 1000);
    post(&mut dql, 1000);
    // 3000 done, 2000 of them from the round before: 1000 new, plus the 1000 over.
    assert_eq!(complete(&mut dql, 3000), 4000);
}

#[test]
fn v5_totals_wrap() {
    let mut dql = starting_at(4_294_966_000, &DqlConfig::default());
    post(&mut dql, MTU);
    assert_eq!(complete(&mut dql, MTU), 1514);
    assert_eq!(dql.prev.queued, 218);
    assert_eq!((dql.inflight(), dql.available()), (0, 1514));
}

#[test]
fn v6_reset_makes_the_threshold_valid_and_the_reference_does_not() {
    for (strict_linux, min, available) in
        [(true, 0, 195_678), (true, 3000, 195_678), (false, 0, 0), (false, 3000, 3000)]
    {
        let config = DqlConfig { strict_linux, ..DqlConfig::default() };
        let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
        for posts in [1, 1] {
            for _ in 0..posts {
                post(&mut dql, TSO);
            }
            complete(&mut dql, TSO);
        }
        dql.set_limit_min(min).unwrap();
        dql.reset(Instant::ZERO);
        assert_eq!((dql.limit(), dql.inflight(), dql.available()), (min, 0, available), "{config:?}");
        // From the first completion on, both agree.
        post(&mut dql, MTU);
        assert_eq!(complete(&mut dql, MTU), min.max(1514));
    }
}

#[test]
fn v7_bounds_clamp_and_a_change_forgets_the_overrun() {
    let config = DqlConfig { limit_max: 5000, ..DqlConfig::default() };
    let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
    for _ in 0..4 {
        post(&mut dql, 4000);
    }
    // In flight 16 000 over limit 0, not drained: no growth, and the overrun is remembered.
    assert_eq!(complete(&mut dql, 4000), 0);
    assert_eq!(dql.prev.over_limit, 16_000);
    post(&mut dql, 4000);
    // Everything of the previous round is done: 0 + 0 + 16 000, clamped; the limit changed, so no
    // overrun.
    assert_eq!(complete(&mut dql, 12_000), 5000);
    assert_eq!(dql.prev.over_limit, 0);
    // At the clamp nothing changes any more, and the overrun stays.
    for _ in 0..3 {
        post(&mut dql, 4000);
    }
    assert_eq!(complete(&mut dql, 16_000), 5000);
    assert_eq!(dql.prev.over_limit, 11_000);
}

#[test]
fn v8_min_counts_at_once_and_in_the_reference_after_a_completion() {
    for (strict_linux, available) in [(true, -1514), (false, 1486)] {
        let config = DqlConfig { limit_min: 3000, strict_linux, ..DqlConfig::default() };
        let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
        assert_eq!(dql.limit(), 3000);
        assert_eq!(post(&mut dql, MTU), available);
        assert_eq!(complete(&mut dql, MTU), 3000);
        assert_eq!(dql.available(), 3000);
    }
}

#[test]
fn refusals_change_nothing() {
    let mut dql = fresh();
    post(&mut dql, OBJECT_MAX);
    assert_eq!(OBJECT_MAX, 268_435_455);
    assert_eq!(LIMIT_MAX, 1_879_048_192);
    let before = dql.stats();
    assert_eq!(dql.queued(268_435_456, Instant::ZERO), Err(DqlError::ObjectTooLarge { given: 268_435_456 }));
    assert_eq!(dql.stats(), DqlStats { refused: 1, ..before });
    assert_eq!(
        dql.completed(268_435_456, Instant::ZERO),
        Err(DqlError::Overcompleted { completed: 268_435_456, inflight: 268_435_455 })
    );
    assert_eq!(dql.completed(0, Instant::from_secs(9)), Ok(()));
    assert_eq!(dql.stats(), DqlStats { refused: 1, ..before });
}

#[test]
fn bounds_are_validated_and_act_at_the_next_completion() {
    let mut dql = fresh();
    dql.set_bounds(1000, 8000).unwrap();
    assert_eq!(dql.set_limit_min(8001), Err(DqlError::MinAboveMax { limit_min: 8001, limit_max: 8000 }));
    assert_eq!(dql.set_limit_max(999), Err(DqlError::MinAboveMax { limit_min: 1000, limit_max: 999 }));
    assert_eq!(dql.set_limit_max(u32::MAX), Err(DqlError::LimitTooLarge { given: u32::MAX }));
    assert_eq!(dql.set_limit(LIMIT_MAX + 1), Err(DqlError::LimitTooLarge { given: LIMIT_MAX + 1 }));
    dql.set_limit(9000).unwrap();
    assert_eq!((dql.limit(), dql.available()), (9000, 0));
    post(&mut dql, 100);
    assert_eq!(complete(&mut dql, 100), 8000);
    assert_eq!(dql.available(), 8000);
    let config = DqlConfig { limit_min: 2, limit_max: 1, ..DqlConfig::default() };
    assert!(Dql::new(&config, Instant::ZERO).is_err());
}

#[test]
fn an_idle_time_may_let_one_interval_shrink_the_limit() {
    let mut dql = fresh();
    dql.set_limit(30_000).unwrap();
    post(&mut dql, 1000);
    complete(&mut dql, 1000);
    let mut busy = |from_ms| {
        for step in 0..3 {
            dql.queued(1000, Instant::from_millis(from_ms)).unwrap();
            dql.queued(1000, Instant::from_millis(from_ms)).unwrap();
            dql.completed(1000, Instant::from_millis(from_ms + step)).unwrap();
        }
        dql.completed(dql.inflight(), Instant::from_millis(from_ms + 3)).unwrap();
        let s = dql.stats();
        (s.limit, s.shrinks, s.idle_shrinks)
    };
    assert_eq!(busy(1), (30_000, 0, 0));
    assert_eq!(busy(10_000), (2000, 1, 1));
}

/// The bounds may be one number: the limit is then fixed.
#[test]
fn equal_bounds_fix_the_limit() {
    let mut dql = fresh();
    dql.set_bounds(5000, 5000).unwrap();
    post(&mut dql, MTU);
    assert_eq!(complete(&mut dql, MTU), 5000);
    // The device runs dry behind more than the limit, which raises an unbounded limit.
    post(&mut dql, TSO);
    assert_eq!(complete(&mut dql, TSO), 5000);
}

/// Slack that was observed exactly a hold time before still stands for that hold time.
#[test]
fn an_idle_shrink_is_one_without_slack_seen_in_the_hold_time_before() {
    for (last, idle_shrinks) in [(Nanos::ZERO, 0), (Nanos(1), 1)] {
        let mut dql = fresh();
        dql.set_limit(30_000).unwrap();
        post(&mut dql, 1000);
        complete(&mut dql, 1000); // the written limit is in force from here
        (0..9).for_each(|_| _ = post(&mut dql, 1000));
        let seen = Instant::from_millis(500);
        for now in [Instant::from_millis(1), seen, seen + HOLD_TIME + last] {
            dql.completed(1000, now).unwrap();
        }
        // Slack was observed at `seen`: 30 000 less twice the 1000 completed.
        let s = dql.stats();
        assert_eq!((s.limit, s.shrinks, s.idle_shrinks), (2000, 1, idle_shrinks), "{last}");
    }
}

/// A sample counts an eighth (RFC 6298 section 2.3).
#[test]
fn the_completion_interval_moves_by_an_eighth_of_the_distance() {
    let mut dql = fresh();
    let mut now = Instant::ZERO;
    // 1000, then 1000 + (9000 - 1000) / 8, then 2000 + (2000 - 2000) / 8.
    for (us, interval) in [(1000, 1000), (9000, 2000), (2000, 2000)] {
        dql.queued(MTU, now).unwrap();
        now += Nanos::from_micros(us);
        dql.completed(MTU, now).unwrap();
        assert_eq!(dql.stats().completion_interval, Some(Nanos::from_micros(interval)));
    }
}

#[test]
fn completion_interval_ignores_idle_time() {
    let mut dql = fresh();
    assert_eq!(dql.stats().completion_interval, None);
    let mut now = Instant::ZERO;
    for _ in 0..64 {
        dql.queued(MTU, now).unwrap();
        now += Nanos::from_micros(250);
        dql.completed(MTU, now).unwrap();
        now += Nanos::from_secs(10);
    }
    assert_eq!(dql.stats().completion_interval, Some(Nanos::from_micros(250)));
    // On a busy queue a sample runs from one completion to the next, whenever the posts came.
    dql.queued(MTU, now).unwrap();
    for _ in 0..200 {
        dql.queued(MTU, now + Nanos::from_micros(400)).unwrap();
        now += Nanos::from_micros(1000);
        dql.completed(MTU, now).unwrap();
    }
    let got = dql.stats().completion_interval.unwrap();
    assert!((999_000..=1_000_000).contains(&got.as_nanos()), "{got}");
}

#[test]
fn cap_is_rate_times_delay() {
    for (rate, target, cap) in [
        (125_000_000, Nanos::from_micros(200), 25_000),
        (125_000_000, Nanos(7), 0),
        (125_000_000, Nanos(8), 1),
        (12_500_000_000, Nanos::from_millis(1), 12_500_000),
        (u64::MAX, Nanos(u64::MAX), LIMIT_MAX),
        (0, Nanos(u64::MAX), 0),
    ] {
        assert_eq!(Dql::cap_for(rate, target), cap);
    }
}

#[test]
fn units() {
    assert_eq!(Unit::Bytes.cost(1514, 1), 1514);
    assert_eq!(Unit::Packets.cost(65_226, 1), 1);
}

// --- the steady state ---

/// A saturating sender over a device that drains `rate` bytes per second and completes whole
/// objects every `period`, `delay` after the interrupt; the next interrupt comes a period after
/// that.
struct Line {
    dql: Dql,
    rate: u128,
    object: u32,
    /// Finish times of the objects in flight, in ns x rate.
    finish: VecDeque<u128>,
    free_at: u128,
    idle: u128,
    now: u64,
    limits: (u32, u32),
    inflight_max: u32,
}

impl Line {
    fn new(rate: u64, object: u32) -> Self {
        Self {
            dql: fresh(),
            rate: rate.into(),
            object,
            finish: VecDeque::new(),
            free_at: 0,
            idle: 0,
            now: 0,
            limits: (0, 0),
            inflight_max: 0,
        }
    }

    /// Fills up, waits one completion round, completes; `rounds` times. Keeps the extremes of the
    /// last half.
    fn run(&mut self, rounds: u32, period: Nanos, delay: Nanos) {
        for round in 0..rounds {
            while self.dql.available() >= 0 {
                self.dql.queued(self.object, Instant(self.now)).unwrap();
                let now = u128::from(self.now) * self.rate;
                self.idle += now.saturating_sub(self.free_at);
                self.free_at = self.free_at.max(now) + u128::from(self.object) * 1_000_000_000;
                self.finish.push_back(self.free_at);
            }
            if round == rounds / 2 {
                (self.limits, self.inflight_max, self.idle) = ((u32::MAX, 0), 0, 0);
            }
            self.inflight_max = self.inflight_max.max(self.dql.inflight());
            self.now += period.as_nanos() + delay.as_nanos();
            let done = self.finish.partition_point(|&f| f <= u128::from(self.now) * self.rate);
            self.finish.drain(..done);
            let n = self.object * u32::try_from(done).unwrap();
            self.dql.completed(n, Instant(self.now)).unwrap();
            let limit = self.dql.limit();
            self.limits = (self.limits.0.min(limit), self.limits.1.max(limit));
        }
    }
}

const GBIT: u64 = 125_000_000;

#[test]
fn steady_state_is_twice_rate_times_interval() {
    let us = Nanos::from_micros;
    // Rate, interval, reaction delay, object; lowest and highest limit expected.
    for (rate, period, delay, object, low, high) in [
        (GBIT, us(20), us(0), MTU, 4542, 6056),
        (GBIT, us(50), us(0), MTU, 13_626, 13_626),
        (GBIT, us(100), us(0), MTU, 25_738, 25_738),
        (GBIT, us(250), us(0), MTU, 62_074, 63_588),
        (GBIT, us(1000), us(0), MTU, 249_810, 251_324),
        (GBIT, us(20), us(0), TSO, 65_226, 130_452),
        (GBIT, us(50), us(0), TSO, 65_226, 130_452),
        (GBIT, us(100), us(0), TSO, 65_226, 130_452),
        (GBIT, us(250), us(0), TSO, 65_226, 130_452),
        (10 * GBIT, us(100), us(0), MTU, 249_810, 251_324),
        // A reaction delay stretches the round.
        (GBIT, us(80), us(20), MTU, 25_738, 25_738),
        (GBIT, us(200), us(50), MTU, 62_074, 63_588),
        (GBIT, us(500), us(500), MTU, 249_810, 251_324),
    ] {
        let mut line = Line::new(rate, object);
        // Eight simulated seconds: several hold times.
        let rounds = 8_000_000_000 / (period.as_nanos() + delay.as_nanos());
        line.run(rounds.try_into().unwrap(), period, delay);
        let case = (rate, period, delay, object, line.limits);
        assert!(line.limits.0 + object >= low && line.limits.0 <= low + object, "{case:?}");
        assert!(line.limits.1 + object >= high && line.limits.1 <= high + object, "{case:?}");
        if object == MTU {
            let law = u32::try_from(2 * rate * (period + delay).as_nanos() / 1_000_000_000).unwrap();
            assert!(line.limits.0 + object >= law && line.limits.1 <= law + object, "{case:?}");
        }
        assert_eq!(line.idle, 0, "the device idled: {case:?}");
        assert!(line.inflight_max <= line.limits.1 + object, "{case:?}");
    }
}

#[test]
fn a_rate_step_reconverges_up_at_once_and_down_within_hold_times() {
    let us250 = Nanos::from_micros(250);
    let mut line = Line::new(GBIT, MTU);
    line.run(16_000, us250, Nanos::ZERO);
    assert!((62_074..=63_588).contains(&line.limits.0), "{:?}", line.limits);
    // 100 Mbit/s, 4 s: 6250 bytes by the law.
    let slow = u128::from(GBIT / 10);
    let rescale = |line: &mut Line, rate: u128| {
        let old = line.rate;
        for f in line.finish.iter_mut().chain([&mut line.free_at]) {
            let now = u128::from(line.now);
            *f = now * rate + f.saturating_sub(now * old); // bytes still to be sent, at the new rate
        }
        line.rate = rate;
    };
    rescale(&mut line, slow);
    line.run(16_000, us250, Nanos::ZERO);
    assert!(line.limits.1 <= 6250 + MTU && line.limits.0 + MTU >= 6250, "{:?}", line.limits);
    // 10 Gbit/s: 625 000 bytes by the law, reached within 20 rounds, that is 5 ms.
    rescale(&mut line, u128::from(GBIT * 10));
    line.run(20, us250, Nanos::ZERO);
    assert!(line.dql.limit() + MTU >= 625_000, "{}", line.dql.limit());
}
