//! The laws of a port of several queues, under random operations: see `common::port`.
//!
//! `TXWEIR_SEED` chooses one run (a failure prints it), `TXWEIR_RUNS` their number, `TXWEIR_OPS`
//! the operations of each.

use crate::common;
use crate::common::Law;
use crate::common::port::{Met, Planted, swarm};
use txweir_core::base::rng::Rng;

fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let digits = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    Some(digits.unwrap_or_else(|| text.parse()).unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn swarm_over_a_port() {
    let ops = env("TXWEIR_OPS").unwrap_or(400);
    let runs = env("TXWEIR_RUNS").unwrap_or(if env("TXWEIR_SEED").is_some() { 1 } else { 400 });
    let mut sum = Met::default();
    for run in 0..runs {
        let seed = env("TXWEIR_SEED").map_or_else(|| Rng::new(run).next_u64() >> 16, |s| s.wrapping_add(run));
        common::reproduce_with(format!(
            "TXWEIR_SEED={seed:#x} TXWEIR_OPS={ops} cargo test -p txweir-core --test it port_laws::swarm_over_a_port"
        ));
        match swarm(seed, ops as usize, Planted::Nothing) {
            Ok(met) => sum.add(&met),
            Err(e) => panic!("{e}"),
        }
    }
    common::reproduce_with(String::new());
    println!("{sum:?}");
    if env("TXWEIR_SEED").is_none() && runs >= 400 {
        everything_was_met(&sum);
    }
}

/// Checks that every event was met: a law that was never put to the test proves nothing.
fn everything_was_met(sum: &Met) {
    for (name, n, least) in [
        ("sent", sum.sent, 20_000),
        ("directly", sum.direct, 2_000),
        ("dropped", sum.dropped, 10_000),
        ("given back", sum.full, 1_000),
        ("moved", sum.moved, 50_000),
        ("changes of the queues", sum.reshaped, 3_000),
        ("calls while they wait for the device", sum.fenced, 50_000),
        ("queues that are not there", sum.strays, 2_000),
        ("qdiscs put in", sum.grafted, 3_000),
        ("refused", sum.refused, 200),
        ("calls where one path feeds several queues", sum.unsplit, 20_000),
    ] {
        assert!(n >= least, "{name}: {n}, and {least} at least would be a test");
    }
}

/// Each law of a port can fail: the law that a planted fault breaks finds it.
#[test]
fn the_swarm_over_a_port_cries_out() {
    for (planted, law) in [
        (Planted::DirectUncounted, Law::Sums),
        (Planted::QueueForgotten, Law::Sums),
        (Planted::LosesOnTheWay, Law::Sums),
        (Planted::SendsTwice, Law::Conservation),
        (Planted::ReapsBehindItsBack, Law::InFlight),
        (Planted::NoFence, Law::Order),
        (Planted::TwoQueues, Law::Order),
        (Planted::Freezes, Law::Liveness),
    ] {
        let found: Vec<Law> =
            (0..30).filter_map(|seed| swarm(seed, 300, planted).err()).map(|v| v.law).collect();
        assert!(found.contains(&law), "{planted:?}: {law:?} was planted, {found:?} was found");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_of_a_port() {
    let of = |seed| format!("{:?}", swarm(seed, 300, Planted::Nothing));
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
}
