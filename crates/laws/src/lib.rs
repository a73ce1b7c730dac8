//! The laws of qdiscs, for any kind: random configurations, random operations, a device that keeps records, and a world that
//! checks every law after every call. Everything is derived from the declarations of a kind (`Spec`): a kind that is built in,
//! or registered by another crate, inherits them all.
//!
//! ```
//! use txweir_core::qdisc::kind;
//!
//! txweir_laws::check(kind("pfifo")?, 2, 100).expect("the laws hold");
//! # Ok::<(), txweir_core::ConfigError>(())
//! ```
//!
//! The laws stand in ARCHITECTURE.md with the tests that run them over the registry.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // Test support: the fields are what the laws look at.

pub mod check;
pub mod device;
pub mod known;
pub mod ops;
pub mod options;
pub mod reasons;
pub mod reconfigure;
pub mod run;
pub mod setup;
pub mod world;

use txweir_core::base::rng::Rng;
use txweir_core::sched::spec::Spec;

use std::cell::RefCell;
use std::fmt;
use std::sync::Once;

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which law.
    pub law: Law,
    /// What was seen.
    pub what: String,
    /// Index of the operation after which it was seen.
    pub op: usize,
}

/// The laws, each with the number that failures print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// Admitted = sent + dropped + queued at every node; every frame is in exactly one place; drops are counted.
    Conservation = 1,
    /// Packets of one flow leave in order.
    Order = 2,
    /// What does not shape never keeps packets from a device that would take them.
    WorkConservation = 3,
    /// After `At(t)` nothing leaves before t; at t there is progress or a later t, and progress in the end.
    HonestWake = 4,
    /// Never above a configured limit, nor above the pool, nor more than was promised or asked for.
    Bounds = 5,
    /// A purge leaves nothing behind.
    Reset = 6,
    /// A refused change changes nothing.
    Change = 7,
    /// What is printed reads back as the same.
    RoundTrip = 8,
    /// The defaults that are printed are the defaults that are used.
    Defaults = 9,
    /// The same seed gives the same run.
    Determinism = 10,
    /// Direct dispatch is indistinguishable from enqueue-then-dequeue.
    Direct = 11,
    /// If a packet waits, somebody is named who will come; who was told `Full` is woken.
    Liveness = 13,
    /// The byte limit's in-flight is what the device holds, and at most the limit plus one object.
    InFlight = 18,
    /// What the queues of a port count is what the port counts, and what its device has seen (I7).
    Sums = 19,
    /// Every node knows for which reasons packets were dropped and marked in it and below: all that its books count.
    Reasons = 20,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "law {} ({:?}) after operation {}: {}", self.law as u8, self.law, self.op, self.what)
    }
}

thread_local! {
    static REPRODUCE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Says how to reproduce what this thread now does; any panic from here on prints it.
pub fn reproduce_with(command: String) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            REPRODUCE.with_borrow(|command| {
                if !command.is_empty() {
                    eprintln!("reproduce: {command}");
                }
            });
        }));
    });
    REPRODUCE.with_borrow_mut(|c| *c = command);
}

/// Holds a kind to every law: `runs` runs of `ops` random operations each, the same ones at each call.
///
/// # Errors
/// The law that does not hold, what was seen, and the seed of the run.
///
/// # Panics
/// The kind refuses options that it took before, or panics itself.
pub fn check(spec: &'static Spec, runs: u64, ops: usize) -> Result<(), String> {
    for run in 0..runs {
        let seed = Rng::new(run).next_u64() >> 16;
        let told =
            |violation: Violation| format!("{}: {violation} (seed {seed:#x}, {ops} operations)", spec.kind);
        run::swarm(spec, seed, ops).map_err(|(violation, _)| told(violation))?;
        run::purged_is_fresh(spec, seed, ops).map_err(told)?;
        run::printed_is_used(spec, seed, ops).map_err(told)?;
        run::direct_is_queued(spec, seed, ops).map_err(told)?;
    }
    Ok(())
}
