//! etf: launch times, deadlines, and what comes too late. (Against Linux 6.12: spec/traces/etf.)

use crate::common::lane::{Lane, Out};
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Env, Handle, Instant, Meta, qdisc::kind};

const T0: Instant = Instant::ZERO;

fn at(launch: u64) -> Meta {
    let mut m = Meta::new(1000);
    m.txtime = Instant(launch);
    m
}

fn etf(options: &str) -> Lane {
    Lane::new("etf", &format!("clockid CLOCK_TAI {options}"))
}

#[test]
fn packets_leave_in_the_order_of_their_times_each_at_its_own() {
    let mut lane = etf("");
    for (id, launch) in [(1, 500), (2, 300), (3, 500), (4, 400)] {
        lane.fill(Instant(10), id, 1, at(launch));
    }
    assert_eq!(lane.take(Instant(10)), Out::Wait(Instant(300)));
    assert_eq!(lane.take(Instant(299)), Out::Wait(Instant(300)));
    assert_eq!(lane.ids(Instant(300), 9), [2]);
    assert_eq!(lane.take(Instant(300)), Out::Wait(Instant(400)));
    assert_eq!(lane.ids(Instant(400), 9), [4]);
    assert_eq!(lane.ids(Instant(500), 9), [1, 3]);
    assert_eq!(lane.take(Instant(500)), Out::Nothing);
}

#[test]
fn delta_lets_them_leave_ahead() {
    let mut lane = etf("delta 100");
    for (id, launch) in [(1, 500), (2, 300), (3, 50)] {
        lane.fill(Instant(10), id, 1, at(launch));
    }
    assert_eq!(lane.ids(Instant(10), 9), [3]);
    assert_eq!(lane.take(Instant(10)), Out::Wait(Instant(200)));
    assert_eq!(lane.ids(Instant(200), 9), [2]);
    assert_eq!(lane.take(Instant(200)), Out::Wait(Instant(400)));
    // A time before that of a packet that has left.
    assert_eq!(lane.put(Instant(210), 4, at(299)), Admitted::Dropped(DropReason::Late));
    assert_eq!(lane.put(Instant(210), 5, at(300)), Admitted::Queued);
    assert_eq!(lane.ids(Instant(210), 9), [5]);
}

#[test]
fn what_is_late_is_dropped() {
    let mut lane = etf("");
    for (id, launch) in [(1, 0), (2, 99)] {
        assert_eq!(lane.put(Instant(100), id, at(launch)), Admitted::Dropped(DropReason::Late));
    }
    assert_eq!(lane.put(Instant(100), 3, at(100)), Admitted::Queued);
    lane.fill(Instant(100), 4, 1, at(150));
    lane.fill(Instant(100), 5, 1, at(200));
    lane.fill(Instant(100), 6, 1, at(250));
    let _ = lane.drops();
    // The first is over at 200: with it goes the one of this very instant.
    assert_eq!(lane.take(Instant(200)), Out::Wait(Instant(250)));
    assert_eq!(lane.drops(), [3, 4, 5].map(|id| (id, DropReason::Late)));
    assert_eq!(lane.root().books().overlimits, 3);
    assert_eq!(lane.ids(Instant(250), 9), [6]);
}

#[test]
fn deadlines_are_an_order_and_not_a_wait() {
    let mut lane = etf("deadline_mode delta 7");
    for (id, launch) in [(1, 500), (2, 300), (3, 400)] {
        lane.fill(Instant(10), id, 1, at(launch));
    }
    assert!(matches!(lane.take(Instant(20)), Out::Sent(2, m) if m.txtime == Instant(20)));
    assert_eq!(lane.put(Instant(20), 4, at(299)), Admitted::Dropped(DropReason::Late));
    assert_eq!(lane.ids(Instant(20), 9), [3, 1]);
}

/// etf-reset
#[test]
fn a_purge_of_etf_forgets_the_last_time() {
    let mut lane = etf("delta 1000");
    lane.fill(T0, 0, 1, at(900));
    assert_eq!(lane.ids(T0, 9), [0]);
    lane.path.purge(T0, &mut lane.dev);
    lane.fill(T0, 1, 1, at(800));
    assert_eq!(lane.ids(T0, 9), [1]);
}

/// etf-peek
#[test]
fn a_shaper_above_etf_waits_for_the_launch_time() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 100000");
    lane.graft(T0, Handle::new(0x8001, 1), "etf", "clockid tai");
    lane.fill(T0, 0, 1, at(700));
    lane.fill(T0, 1, 1, at(900));
    assert_eq!(lane.take(Instant(1)), Out::Wait(Instant(700)));
    assert_eq!(lane.ids(Instant(700), 9), [0]);
    assert_eq!(lane.take(Instant(700)), Out::Wait(Instant(900)));
    assert_eq!(lane.root().books().overlimits, 0);
}

/// etf-clock, etf-offload, etf-same-change, etf-socket
#[test]
fn what_etf_refuses() {
    let built = |options: &str| {
        let words: Vec<&str> = options.split_whitespace().collect();
        kind("etf").unwrap().build(&mut Words::new(&words), &Env::default()).err().map(|e| e.to_string())
    };
    for (options, said) in [
        ("delta 5", "etf clockid: expected CLOCK_TAI, given nothing"),
        ("clockid CLOCK_MONOTONIC", "etf clockid: expected CLOCK_TAI, given \"MONOTONIC\""),
        ("clockid 11", "etf clockid: expected a clock (CLOCK_TAI), given \"11\""),
        ("clockid tai delta -1", "etf delta: expected 0 to 2147483647, given \"-1\""),
        (
            "clockid tai offload",
            "etf offload: expected no offload, given \"offload\" (the times are kept here: leave it out)",
        ),
    ] {
        assert_eq!(built(options).as_deref(), Some(said));
    }
    for options in ["clockid tai", "clockid CLOCK_TAI skip_sock_check", "clockid Clock_Tai deadline_mode"] {
        assert_eq!(built(options), None);
    }
    let mut lane = etf("delta 5");
    lane.change(T0, Handle::ROOT, "clockid tai delta 5").unwrap();
    let refused = lane.change(T0, Handle::ROOT, "clockid tai").unwrap_err();
    assert!(refused.to_string().contains("the options that it was made with"), "{refused}");
}
