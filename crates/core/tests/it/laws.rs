//! The laws, checked over the whole registry by random operations: a kind that is added to the
//! registry inherits them.
//!
//! `TXWEIR_SEED` and `TXWEIR_KIND` choose one run (a failure prints both), `TXWEIR_RUNS` the number
//! of runs per kind and law, `TXWEIR_OPS` the operations of each.

use std::fmt::Display;
use std::str::FromStr;

use crate::common;
use crate::common::ops::{Op, Scope};
use crate::common::run::{
    Plan, direct_is_queued, first_difference, printed_is_used, purged_is_fresh, refuses, swarm,
};
use crate::common::setup::Totals;
use txweir_core::DropReason;
use txweir_core::base::rng::Rng;
use txweir_core::model::wire::{Completion, DescriptorCost, Latency, Wire, WireConfig};
use txweir_core::qdisc::KINDS;
use txweir_core::sched::spec::Spec;
use txweir_core::{Env, Instant, Nanos, PathConfig, TxPath};

fn env<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let number = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let text = number.map_or(text, |n| n.to_string());
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not such a value")))
}

/// Runs `law` on every kind with many seeds; a failure prints the command that reproduces it.
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
            // The sequence is fixed unless the environment says otherwise: a test that fails at
            // random is a test that is ignored.
            let seed = match seed {
                Some(seed) => seed.wrapping_add(run),
                None => Rng::new(run).next_u64() >> 16,
            };
            let command = format!(
                "TXWEIR_KIND={} TXWEIR_SEED={seed:#x} TXWEIR_OPS={ops} cargo test -p txweir-core --test it laws::{test}",
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
    over_the_registry("swarm_of_operations", 200, |spec, seed, ops| match swarm(spec, seed, ops) {
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
    sum.stabs += t.stabs;
    sum.classes_added += t.classes_added;
    sum.classes_changed += t.classes_changed;
    sum.classes_deleted += t.classes_deleted;
    sum.ops += t.ops;
    sum.swapped += t.swapped;
    sum.kept += t.kept;
    sum.moved += t.moved;
    sum.swap_cut += t.swap_cut;
    sum.purged += t.purged;
    sum.queues_stopped += t.queues_stopped;
    sum.depth = sum.depth.max(t.depth);
    sum.stops += t.stops;
    sum.wakes += t.wakes;
}

/// Checks that every event was met: a law that was never put to the test proves nothing.
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
        ("swaps", t.swapped, 500),
        ("kept in swaps", t.kept, 100),
        ("moved in swaps", t.moved, 10_000),
        ("cut in swaps", t.swap_cut, 1),
        ("size tables", t.stabs, 100),
        ("classes added", t.classes_added, 1000),
        ("classes changed", t.classes_changed, 100),
        ("classes deleted", t.classes_deleted, 100),
        ("operations", t.ops, 1_000_000),
        ("purges", t.purged, 50),
        ("queues stopped", t.queues_stopped, 100),
        ("depth", t.depth, 4),
        ("stops", t.stops, 1000),
    ] {
        assert!(n >= least, "{name}: {n}, at least {least} were to be met");
    }
    // Filters need bytes, which the frames of the swarm lack: `route.rs` has random trees with
    // filters.
    for reason in DropReason::ALL.iter().filter(|r| **r != DropReason::Filtered) {
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

/// A qdisc that takes its tables with the first packet (`Env::lazy`) sends, drops and answers the
/// same under any operations, changes of the tree among them.
#[test]
fn tables_that_come_late_change_nothing() {
    over_the_registry("tables_that_come_late_change_nothing", 12, |spec, seed, ops| {
        let plan = Plan::new(spec, seed, Scope::All, ops);
        let mut late = plan.clone();
        late.setup.env.lazy = true;
        let ([mut a, mut b], told) =
            ([plan.world(), late.world()].map(|world| world.expect("a world")), |e| format!("{e}"));
        a.run_all(&plan.ops).map_err(told)?;
        b.run_all(&plan.ops).map_err(told)?;
        match first_difference(&a.seen, &b.seen).or(first_difference(&a.answers, &b.answers)) {
            None => Ok(()),
            Some(d) => Err(format!("with tables that come late: {d}")),
        }
    });
}

#[test]
fn nonsense_is_refused() {
    over_the_registry("nonsense_is_refused", 200, |spec, seed, _| refuses(spec, seed));
}

/// The byte limit and a wire with descriptors, doorbells and coalesced completions: the in-flight
/// bytes are those of the wire, at every instant, and nothing is lost between them.
#[test]
fn in_flight_is_what_the_wire_holds() {
    // Packets that have left a wire, and the greatest number that a wire held.
    let met = std::cell::Cell::new((0, 0));
    over_the_registry("in_flight_is_what_the_wire_holds", 20, |spec, seed, ops| {
        let plan = Plan::new(spec, seed, Scope::Traffic, ops);
        let mut rng = Rng::new(seed);
        let completion = match rng.below(3) {
            0 => Completion::Immediate,
            1 => Completion::Periodic(Nanos(1 + rng.below(1_000_000))),
            _ => Completion::Every { packets: 1 + rng.below(30) as u32, within: Nanos(rng.below(500_000)) },
        };
        let latency = Latency { min: Nanos(rng.below(1000)), max: Nanos(1000 + rng.below(100_000)) };
        let descriptors =
            DescriptorCost::from_points(&[(1514, 340), (65_226, 2150)]).map_err(|e| e.to_string())?;
        let ring = 22 + rng.below(500) as u32;
        let config = WireConfig { completion, latency, descriptors, ring, seed, ..WireConfig::default() };
        let mut wire = Wire::new(config).map_err(|e| e.to_string())?;
        let words: Vec<&str> = plan.words.iter().map(String::as_str).collect();
        let env = Env { queues: plan.setup.env.queues, ..Env::default() };
        let mut path =
            TxPath::new(PathConfig { env, role: plan.setup.role, pool: 500, ..PathConfig::default() })
                .map_err(|e| e.to_string())?
                .with_qdisc(spec.kind, &words)
                .map_err(|e| e.to_string())?;
        let (mut now, mut left, mut most) = (Instant::from_secs(1), 0, 0);
        let mut check = |path: &TxPath<u32>, wire: &Wire<u32>, left: u64| {
            let dql = path.tx().limit().map_or((0, 0), |d| (u64::from(d.inflight()), u64::from(d.limit())));
            most = most.max(wire.held().packets);
            let tx = path.stats().tx_packets;
            match (dql.0 == wire.held().bytes, left <= tx && tx - left <= wire.held().packets) {
                (true, true) => Ok(()),
                _ => Err(format!("{dql:?} in flight, {:?} held, {tx} sent, {left} left", wire.held())),
            }
        };
        for op in &plan.ops {
            let until = now + Nanos(rng.below(200_000));
            while let Some(t) = wire.next_event().filter(|t| *t <= until) {
                now = now.max(t);
                if wire.advance(now, |_| left += 1) {
                    path.reap(now, &mut wire, |_| {});
                }
                check(&path, &wire, left)?;
                let _ = path.drain(now, 64, &mut wire);
                check(&path, &wire, left)?;
            }
            now = until;
            wire.advance(now, |_| left += 1);
            if let Op::Submit { meta, burst, .. } = op {
                for id in 0..*burst {
                    let _ = path.submit(now, id, *meta, &mut wire);
                    check(&path, &wire, left)?;
                }
                let _ = path.drain(now, 64, &mut wire);
            }
        }
        met.set((met.get().0 + left, met.get().1.max(most)));
        Ok::<(), String>(())
    });
    assert!(met.get().0 > 10_000 && met.get().1 > 50, "{met:?}");
}

#[test]
fn plans_are_made_of_everything() {
    for spec in KINDS {
        let plans: Vec<Plan> = (0..40).map(|s| Plan::new(spec, s, Scope::All, 0)).collect();
        let forwarders = plans.iter().filter(|p| p.setup.role == txweir_core::Role::Forwarder).count();
        assert!((5..35).contains(&forwarders), "{}: {forwarders} of 40 plans are forwarders", spec.kind);
    }
}
