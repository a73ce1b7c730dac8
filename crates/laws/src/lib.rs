//! The laws of qdiscs, for any kind: random configurations, random operations, a device that keeps
//! records, and a world that checks every law after every call. Everything is derived from the
//! declarations of a kind (`Spec`), so a built-in kind and a kind of another crate are checked
//! alike.
//!
//! ```
//! use txweir_core::qdisc::kind;
//!
//! txweir_laws::check(kind("pfifo")?, 2, 100).expect("the laws hold");
//! # Ok::<(), txweir_core::ConfigError>(())
//! ```
//!
//! ARCHITECTURE.md lists the laws and the tests that run them over the registry.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // Test support: the laws read these fields.

pub mod check;
pub mod device;
pub mod edges;
pub mod ends;
pub mod known;
pub mod ops;
pub mod options;
pub mod reasons;
pub mod reconfigure;
pub mod run;
pub mod search;
pub mod setup;
pub mod world;

use txweir_core::base::rng::Rng;
pub use txweir_core::sched::spec::Spec;

use std::cell::RefCell;
use std::fmt;
use std::sync::Once;

/// A violation of a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The law.
    pub law: Law,
    /// The observation.
    pub what: String,
    /// Index of the operation after which it was observed.
    pub op: usize,
}

/// The laws, each with the number that failures print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// Admitted = sent + dropped + queued at every node; every frame is in exactly one place; every
    /// drop is counted.
    Conservation = 1,
    /// Packets of one flow leave in order.
    Order = 2,
    /// A qdisc that does not shape never keeps packets from a device that would take them.
    WorkConservation = 3,
    /// After `At(t)` no packet leaves before t; at t there is progress or a later t, and progress
    /// in the end.
    HonestWake = 4,
    /// No number exceeds a configured limit, the pool, or the number promised or requested.
    Bounds = 5,
    /// After a purge the qdisc is empty.
    Reset = 6,
    /// A refused change changes nothing.
    Change = 7,
    /// Printed options read back as the same options.
    RoundTrip = 8,
    /// The printed defaults are the defaults in use.
    Defaults = 9,
    /// The same seed gives the same run.
    Determinism = 10,
    /// Direct dispatch is indistinguishable from enqueue-then-dequeue.
    Direct = 11,
    /// For a waiting packet the answer names the caller that will come for it; a sender that was
    /// told `Full` is woken.
    Liveness = 13,
    /// The byte limit's in-flight equals the bytes of the device, and is at most the limit plus one
    /// object.
    InFlight = 18,
    /// The counters of a port's queues add up to those of the port, and to the packets that its
    /// device has seen (I7).
    Sums = 19,
    /// Every node counts the reasons for which packets were dropped and marked in it and below:
    /// their sum equals its books.
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

/// Sets the command that reproduces the work of this thread; every later panic of the thread prints
/// it.
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

/// Pairs of ends of parameters of which [`check`] runs one.
const PAIRS: usize = 40;

/// A part of the laws that can be checked apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Random operations on a path with the kind in it, every law after every one.
    Swarm,
    /// A purged qdisc behaves like a fresh one.
    Purge,
    /// Options that are printed are those in use, and read back as the same.
    Print,
    /// Direct dispatch is indistinguishable from enqueue and dequeue.
    Direct,
    /// The laws with each parameter at its least and its greatest value.
    Ends,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 5] = [Self::Swarm, Self::Purge, Self::Print, Self::Direct, Self::Ends];

    /// Checks this part of the laws in `runs` runs of `ops` operations each.
    ///
    /// # Errors
    /// As of [`check()`].
    ///
    /// # Panics
    /// As of [`check()`].
    pub fn check(self, spec: &'static Spec, runs: u64, ops: usize) -> Result<(), String> {
        if self == Self::Ends {
            return edges::check(spec, PAIRS).map(|_| ());
        }
        for run in 0..runs {
            let seed = Rng::new(run).next_u64() >> 16;
            let held = match self {
                Self::Swarm => run::swarm(spec, seed, ops).map(|_| ()).map_err(|(violation, _)| violation),
                Self::Purge => run::purged_is_fresh(spec, seed, ops),
                Self::Print => run::printed_is_used(spec, seed, ops),
                Self::Direct => run::direct_is_queued(spec, seed, ops).map(|_| ()),
                Self::Ends => Ok(()),
            };
            held.map_err(|violation| {
                format!("{}: {violation} (seed {seed:#x}, {ops} operations)", spec.kind)
            })?;
        }
        Ok(())
    }
}

/// Checks a kind against every law in `runs` runs of `ops` random operations each, and with each of
/// its parameters at its ends. Every call makes the same runs.
///
/// # Errors
/// Names the violated law, the observation, and the seed of the run.
///
/// # Panics
/// Panics if the kind refuses options that it accepted before, or panics itself.
pub fn check(spec: &'static Spec, runs: u64, ops: usize) -> Result<(), String> {
    Part::ALL.into_iter().try_for_each(|part| part.check(spec, runs, ops))
}

/// Makes the laws the test suite of a kind: a test for each [`Part`]. It stands in a module of its
/// own, because the tests have fixed names. Two numbers behind the kind are the runs of each test
/// and the operations of a run; 12 and 300 without them.
///
/// ```
/// # use txweir_core::qdisc::fifo::Pfifo;
/// #[cfg(test)]
/// mod laws_of_my_kind {
///     txweir_laws::laws!(super::Pfifo);
/// }
/// ```
#[macro_export]
macro_rules! laws {
    ($kind:ty) => {
        $crate::laws!($kind, 12, 300);
    };
    ($kind:ty, $runs:expr, $ops:expr) => {
        fn hold(part: $crate::Part) {
            static SPEC: $crate::Spec = $crate::Spec::of::<$kind>();
            if let Err(violation) = part.check(&SPEC, $runs, $ops) {
                panic!("{violation}");
            }
        }
        #[test]
        fn every_law_holds_after_every_operation() {
            hold($crate::Part::Swarm);
        }
        #[test]
        fn a_purged_qdisc_behaves_like_a_fresh_one() {
            hold($crate::Part::Purge);
        }
        #[test]
        fn what_is_printed_is_what_is_used() {
            hold($crate::Part::Print);
        }
        #[test]
        fn direct_dispatch_is_indistinguishable() {
            hold($crate::Part::Direct);
        }
        #[test]
        fn every_parameter_at_its_ends_keeps_the_laws() {
            hold($crate::Part::Ends);
        }
    };
}
