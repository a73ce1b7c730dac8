//! Stalls: completions that come late.

use super::*;

/// Returns a limit with a stall threshold of 8 ticks of 1 ms, at tick 0.
fn watching() -> Dql {
    let config = DqlConfig { stall_thrs: Nanos::from_millis(8), ..DqlConfig::default() };
    Dql::new(&config, Instant::ZERO).unwrap()
}

#[test]
fn v9_a_late_completion_is_a_stall() {
    let mut dql = watching();
    dql.queued(100, Instant::from_millis(1)).unwrap();
    dql.completed(100, Instant::from_millis(14)).unwrap();
    assert_eq!((dql.stalls().count(), dql.stalls().longest()), (1, Nanos::from_millis(13)));
    dql.stalls_mut().forget_longest();
    assert_eq!((dql.stalls().count(), dql.stalls().longest()), (1, Nanos::ZERO));
}

#[test]
fn v10_the_tick_of_the_latest_completion_is_not_searched() {
    let mut dql = watching();
    let at = Instant::from_millis;
    dql.queued(100, at(3)).unwrap();
    dql.completed(100, at(4)).unwrap();
    dql.queued(100, at(4)).unwrap();
    dql.completed(100, at(13)).unwrap();
    assert_eq!(dql.stalls().count(), 0);
    // A completion one tick later is a stall.
    dql.queued(100, at(14)).unwrap();
    dql.completed(100, at(23)).unwrap();
    assert_eq!((dql.stalls().count(), dql.stalls().longest()), (1, Nanos::from_millis(9)));
}

#[test]
fn stall_threshold_range_and_off() {
    let mut dql = fresh();
    let ms = Nanos::from_millis;
    for (thrs, result) in [
        (Nanos(1), Err(DqlError::StallRange { ticks: 1 })),
        (ms(3), Err(DqlError::StallRange { ticks: 3 })),
        (ms(4), Ok(())),
        (ms(128), Ok(())),
        (Nanos(128_000_001), Err(DqlError::StallRange { ticks: 129 })),
        (Nanos(u64::MAX), Err(DqlError::StallRange { ticks: 18_446_744_073_710 })),
    ] {
        assert_eq!(dql.set_stall_thrs(thrs, Instant::ZERO), result);
    }
    assert_eq!(dql.stalls().threshold(), ms(128)); // refused writes change nothing
    dql.set_stall_thrs(Nanos::ZERO, Instant::ZERO).unwrap();
    dql.queued(100, Instant::from_millis(1)).unwrap();
    dql.completed(100, Instant::from_secs(1)).unwrap();
    assert_eq!((dql.stalls().count(), dql.stalls().threshold()), (0, Nanos::ZERO));
    // Turning detection on counts as a completion at that moment: earlier posts are not its
    // business.
    dql.queued(100, Instant::from_millis(1001)).unwrap();
    dql.set_stall_thrs(ms(4), Instant::from_millis(1002)).unwrap();
    dql.completed(100, Instant::from_millis(1100)).unwrap();
    assert_eq!(dql.stalls().count(), 0);
    let config = DqlConfig { stall_tick: Nanos::ZERO, ..DqlConfig::default() };
    assert_eq!(Dql::new(&config, Instant::ZERO).err(), Some(DqlError::ZeroTick));
}

#[test]
fn stall_clock_survives_the_end_of_time() {
    let config = DqlConfig { stall_tick: Nanos(1), stall_thrs: Nanos(4), ..DqlConfig::default() };
    let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
    for now in [Instant(0), Instant(u64::MAX - 1), Instant::MAX, Instant::MAX, Instant(7)] {
        dql.queued(100, now).unwrap();
        dql.completed(100, now).unwrap();
        dql.reset(now);
    }
    assert_eq!(dql.stalls().count(), 0);
}

proptest! {
    /// Stall detection against the definition, over posts kept as a plain list.
    #[test]
    fn stalls_agree_with_the_definition(
        thrs in STALL_TICKS_MIN..=STALL_TICKS_MAX,
        ops in prop::collection::vec(
            (any::<bool>(), prop_oneof![0..4_u64, 0..40_u64, 0..400_u64]),
            1..200,
        ),
    ) {
        let config = DqlConfig { stall_thrs: Nanos::from_millis(thrs), ..DqlConfig::default() };
        let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
        let (mut posts, mut reaped, mut tick) = (Vec::new(), 0, 0);
        let (mut count, mut longest) = (0, 0);
        for (is_post, wait) in ops {
            tick += wait;
            // `now` lies anywhere within the tick.
            let now = Instant(tick * 1_000_000 + tick * 7919 % 1_000_000);
            if is_post {
                dql.queued(1, now).unwrap();
                posts.push(tick);
                continue;
            }
            if dql.inflight() == 0 {
                continue;
            }
            dql.completed(1, now).unwrap();
            let recorded = posts.last().unwrap() / 64 * 64;
            let oldest = recorded.saturating_sub(192);
            let late = |&&t: &&u64| t >= oldest && t > reaped && t + thrs / 2 <= tick;
            let stall = posts.iter().find(late).filter(|_| tick - reaped >= thrs);
            if let Some(t) = stall {
                count += 1;
                longest = longest.max(tick - t);
            }
            // No stall longer than the threshold escapes while the history reaches back to its
            // post.
            let first = posts.iter().find(|&&t| t > reaped);
            if let Some(&t) = first && tick - t > thrs && tick - t < 192 {
                prop_assert!(stall.is_some());
            }
            prop_assert_eq!((dql.stalls().count(), dql.stalls().longest()), (count, Nanos::from_millis(longest)));
            reaped = tick;
        }
    }
}
