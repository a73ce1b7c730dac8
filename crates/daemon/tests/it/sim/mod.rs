//! A simulation of the daemon: server, sessions, links, saving and restarts, in virtual time and
//! from one seed, on a machine whose parts fail.
//!
//! A run draws everything from its seed: the requests of clients and how they are cut, frames that
//! come in, timers, interfaces that are full, down, gone and back, descriptors and memory that the
//! system lacks, a disk that fails, signals, kills and losses of power. A *step* is one such event,
//! or one round of the daemon's loop. After each round the sums of every link hold, and agree with
//! the counts of the simulated machine; at rest nothing waits for no reason; after a restart the
//! state is the one that was saved last.

mod asks;
mod cards;
mod check;
mod clients;
mod conns;
mod disk;
mod lives;
mod machine;
mod plan;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use lives::{Done, Lives};
use plan::Lie;

/// Steps of all runs of `make test` together, and of one run.
const STEPS: u64 = 1_000_000;
const RUN: u64 = 50_000;

/// Bytes that a run may leave behind: tables that are made once for the program.
const LEFT_MAX: i64 = 1 << 20;

/// Returns a number of the environment.
fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let hex = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    Some(hex.unwrap_or_else(|| text.parse()).unwrap_or_else(|_| panic!("{name}: expected a number: {text}")))
}

/// Runs one seed. A failure prints it.
fn run(seed: u64, steps: u64) -> Done {
    let before = txweir_counted::held();
    let done = lived(seed, steps);
    let left = txweir_counted::held() - before;
    assert!(left < LEFT_MAX, "seed {seed:#x}: {left} bytes are left after the end");
    done
}

fn lived(seed: u64, steps: u64) -> Done {
    let mut lives = Lives::new(seed, None);
    catch_unwind(AssertUnwindSafe(|| lives.run(steps))).unwrap_or_else(|failure| {
        let at = lives.steps();
        eprintln!(
            "seed {seed:#x} failed at step {at}: TXWEIR_SEED={seed:#x} TXWEIR_STEPS={steps} \
             cargo test -p txweir-daemon --test it sim::a_million_steps -- --nocapture"
        );
        resume_unwind(failure)
    })
}

#[test]
fn a_million_steps_of_faults_break_no_law() {
    let (first, runs) = match given("TXWEIR_SEED") {
        Some(seed) => (seed, 1),
        None => (1, given("TXWEIR_RUNS").unwrap_or(STEPS / RUN)),
    };
    let steps = given("TXWEIR_STEPS").unwrap_or(RUN);
    let began = txweir_device::clock::now_ns();
    let (mut all, mut rounds, mut waited) = (0, 0, 0);
    for seed in first..first + runs {
        let done = run(seed, steps);
        all += done.steps;
        rounds += done.rounds;
        waited += done.facts.waited;
        if std::env::var_os("TXWEIR_FACTS").is_some() {
            println!("seed {seed:#x}: {:#018x} {:?}", done.hash, done.facts);
        }
    }
    let took = (txweir_device::clock::now_ns() - began) as f64 / 1e9;
    println!(
        "{all} steps, {rounds} of them rounds, with the seeds {first:#x} to {:#x}, in {took:.1} s: {:.0} steps/s",
        first + runs - 1,
        all as f64 / took
    );
    assert!(all >= runs * steps);
    assert!(waited > 0 || all < STEPS, "no link has waited for its interface");
}

#[test]
fn one_seed_is_one_run() {
    let hashes = [7, 7, 8].map(|seed| run(seed, 10_000).hash);
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

/// A world that lies is found out: the checks can fail.
#[test]
fn every_lie_of_the_world_is_found() {
    for lie in Lie::ALL {
        let found = (1..=12).any(|seed| {
            let mut lives = Lives::new(seed, Some(lie));
            catch_unwind(AssertUnwindSafe(|| lives.run(15_000))).is_err()
        });
        assert!(found, "{lie:?}");
    }
}
