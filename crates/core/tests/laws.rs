//! The laws, run over the whole registry by random operations: a kind that is added to it inherits them.
//!
//! `TXWEIR_SEED` and `TXWEIR_KIND` choose one run (a failure prints both), `TXWEIR_RUNS` the number of runs per
//! kind and law, `TXWEIR_OPS` the operations of each.

mod common;

use std::fmt::Display;
use std::str::FromStr;

use common::ops::Scope;
use common::run::{Plan, direct_is_queued, printed_is_used, purged_is_fresh, refuses, swarm};
use common::world::Totals;
use txweir_core::DropReason;
use txweir_core::qdisc::KINDS;
use txweir_core::rng::Rng;
use txweir_core::spec::Spec;

fn env<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let number = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let text = number.map_or(text, |n| n.to_string());
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not such a value")))
}

/// Runs `law` on every kind with many seeds; a failure says how to reproduce it.
fn over_the_registry<E: Display>(
    test: &str,
    runs: u64,
    law: impl Fn(&'static Spec, u64, usize) -> Result<(), E>,
) {
    let ops = env("TXWEIR_OPS").unwrap_or(400);
    let seed: Option<u64> = env("TXWEIR_SEED");
    let only: Option<String> = env("TXWEIR_KIND");
    let runs = env("TXWEIR_RUNS").unwrap_or(if seed.is_some() { 1 } else { runs });
    let kinds: Vec<&'static Spec> =
        KINDS.iter().copied().filter(|s| only.as_ref().is_none_or(|k| k == s.kind)).collect();
    assert!(!kinds.is_empty(), "TXWEIR_KIND={only:?} is no kind");
    for spec in kinds {
        for run in 0..runs {
            // A fixed sequence unless asked otherwise: a test that fails now and then is a test that is ignored.
            let seed = match seed {
                Some(seed) => seed.wrapping_add(run),
                None => Rng::new(run).next_u64() >> 16,
            };
            let command = format!(
                "TXWEIR_KIND={} TXWEIR_SEED={seed:#x} TXWEIR_OPS={ops} cargo test -p txweir-core --test laws {test}",
                spec.kind
            );
            common::reproduce_with(command);
            if let Err(e) = law(spec, seed, ops) {
                panic!("{}: {e}", spec.kind);
            }
        }
    }
    common::reproduce_with(String::new());
}

#[test]
fn swarm_of_operations() {
    let mut sum = Totals::default();
    let sums = std::cell::RefCell::new(&mut sum);
    over_the_registry("swarm_of_operations", 250, |spec, seed, ops| match swarm(spec, seed, ops) {
        Ok(t) => {
            add(&mut sums.borrow_mut(), &t);
            Ok(())
        }
        Err((v, plan)) => {
            let Plan { words, setup, ops, .. } = plan.cut_down(v.law);
            Err(format!("{v}\noptions {words:?}\n{setup:?}\nwhat is needed of it: {ops:#?}"))
        }
    });
    println!("{sum:?}");
    if env::<u64>("TXWEIR_SEED").is_none() && env::<String>("TXWEIR_KIND").is_none() {
        everything_was_met(&sum);
    }
}

fn add(sum: &mut Totals, t: &Totals) {
    sum.sent += t.sent;
    sum.direct += t.direct;
    for (a, b) in sum.dropped.iter_mut().zip(t.dropped) {
        *a += b;
    }
    sum.marked += t.marked;
    sum.full += t.full;
    sum.woken += t.woken;
    sum.cut += t.cut;
    sum.at += t.at;
    sum.followed += t.followed;
    sum.early += t.early;
    sum.device += t.device;
    sum.more += t.more;
    sum.changed += t.changed;
    sum.refused += t.refused;
    sum.grafted += t.grafted;
    sum.deleted += t.deleted;
    sum.purged += t.purged;
    sum.depth = sum.depth.max(t.depth);
    sum.stops += t.stops;
    sum.wakes += t.wakes;
}

/// A law that was never put to the test proves nothing.
fn everything_was_met(t: &Totals) {
    for (name, n, least) in [
        ("sent", t.sent, 100_000),
        ("direct", t.direct, 1000),
        ("marked", t.marked, 100),
        ("full", t.full, 1000),
        ("woken", t.woken, 50),
        ("cut", t.cut, 50),
        ("wakes at a time", t.at, 1000),
        ("wakes followed", t.followed, 1000),
        ("wakes anticipated", t.early, 100),
        ("wakes by the device", t.device, 1000),
        ("wakes by the budget", t.more, 100),
        ("changes", t.changed, 100),
        ("refused changes", t.refused, 100),
        ("grafts", t.grafted, 100),
        ("deletions", t.deleted, 20),
        ("purges", t.purged, 50),
        ("depth", t.depth, 4),
        ("stops", t.stops, 1000),
    ] {
        assert!(n >= least, "{name}: {n}, at least {least} were to be met");
    }
    // Reasons that no kind of the registry gives yet.
    let unused = [DropReason::NoClass];
    for reason in DropReason::ALL.iter().filter(|r| !unused.contains(r)) {
        assert!(t.dropped[*reason as usize] > 0, "nothing was dropped for {reason}");
    }
}

#[test]
fn a_purged_qdisc_behaves_like_a_fresh_one() {
    over_the_registry("a_purged_qdisc_behaves_like_a_fresh_one", 40, purged_is_fresh);
}

#[test]
fn what_is_printed_is_what_is_used() {
    over_the_registry("what_is_printed_is_what_is_used", 40, printed_is_used);
}

#[test]
fn direct_dispatch_is_indistinguishable() {
    let direct = std::cell::Cell::new(0);
    over_the_registry("direct_dispatch_is_indistinguishable", 40, |spec, seed, ops| {
        direct_is_queued(spec, seed, ops).map(|n| direct.set(direct.get() + n))
    });
    assert!(direct.get() > 100, "only {} packets went directly", direct.get());
}

#[test]
fn nonsense_is_refused() {
    over_the_registry("nonsense_is_refused", 200, |spec, seed, _| refuses(spec, seed));
}

#[test]
fn plans_are_made_of_everything() {
    for spec in KINDS {
        let plans: Vec<Plan> = (0..40).map(|s| Plan::new(spec, s, Scope::All, 0)).collect();
        let forwarders =
            plans.iter().filter(|p| p.setup.role == txweir_core::Role::Forwarder).count();
        assert!((5..35).contains(&forwarders), "{}: {forwarders} of 40 plans are forwarders", spec.kind);
    }
}
