//! Capabilities: what some kinds can do beside queueing packets. A kind declares those that it has
//! (`Discipline::{CLASSES, MADE, SHARES}`, `Discipline::as_flows`); the engine offers them for every qdisc, empty where the
//! kind has none.

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::Pool;
use crate::packet::route::{Found, Said};
use crate::sched::classful::{ClassSpec, Classful, UserClasses};
use crate::sched::discipline::Discipline;
use crate::sched::node::{Class, Node};
use crate::sched::share::Share;
use crate::text::stats::Counter;

/// A capability `T` of the kind `D`: how its qdiscs show it, to read and to change.
pub struct Capability<D, T: ?Sized> {
    /// To read.
    pub of: fn(&D) -> &T,
    /// To change.
    pub of_mut: fn(&mut D) -> &mut T,
}

/// Declares a capability whose trait the kind implements itself: `const CLASSES: Option<Capability<Self, dyn Classes>> =
/// capability!();`
#[macro_export]
macro_rules! capability {
    () => {
        Some($crate::sched::capability::Capability { of: |kind| kind, of_mut: |kind| kind })
    };
}

/// Classes with qdiscs of their own.
pub trait Classes {
    /// The classes. A slot with minor 0 is vacant.
    fn classes(&self) -> &[Class];
    /// The same, to graft into.
    fn classes_mut(&mut self) -> &mut [Class];
    /// The class that a packet would wait in; the default is that of kinds with one class.
    fn select(&self, _m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.classes().first()
    }
    /// The qdisc of a class when nothing is grafted: after a delete. `None` stands for pfifo with the length of the
    /// device's queue.
    fn default_child(&self, _env: &Env) -> Option<Node> {
        None
    }
    /// See [`found_by_minor`], the default.
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found {
        found_by_minor(class, own)
    }
}

/// What a qdisc with this handle makes of what its filters have found: this class, or nothing (`None`). It takes the class's
/// minor number, whatever its major, and without one goes by what it goes by otherwise.
pub fn found_by_minor(class: Option<ClassId>, own: Handle) -> Found {
    Found::Said(class.map_or(Said::Nothing, |c| Said::Class(Handle::new(own.major(), c.minor()))))
}

/// What is declared of classes that commands make or change: `const MADE: Option<MadeClasses<Self>> =
/// Some(MadeClasses::of());`
pub struct MadeClasses<D: Discipline> {
    /// Their parameters and counters.
    pub spec: &'static ClassSpec,
    /// The classes.
    pub classes: Capability<D, dyn UserClasses>,
    /// See `Classful::refresh`.
    pub refresh: fn(&D, &mut D::Config),
}

impl<D: Classful> MadeClasses<D> {
    /// Those of a kind.
    pub const fn of() -> Self {
        Self {
            spec: const { &ClassSpec::of::<D>() },
            classes: Capability { of: |kind| kind, of_mut: |kind| kind },
            refresh: D::refresh,
        }
    }
}

/// Rates that a qdisc, or its classes, share by a name (`crate::path::rates`).
pub trait Shares {
    /// Shows them.
    fn shares(&self, f: &mut dyn FnMut(Share<'_>));
    /// Shares a rate from now on, it itself (`minor` 0) or one of its classes, of those that `shares` shows.
    fn share(&mut self, minor: u16, lease: Lease);
}

/// A flow that a kind keeps inside, as `tc -s class show` lists it: a class without a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowShown<'a> {
    /// Its minor number: the class that a packet names to be put into it. 65 536 has no name in 16 bits.
    pub minor: u32,
    /// Packets and bytes that wait in it.
    pub backlog: Tally,
    /// What is known of it, by tc's words and in tc's units: times are microseconds, truths are 0 and 1.
    pub values: &'a [(&'static str, i64)],
}

/// Flows, or other parts without qdiscs, that a kind keeps apart inside.
pub trait Flows {
    /// Shows the flows, those only in which something waits or whose turn comes.
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>));
    /// See [`found_by_minor`], the default.
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found {
        found_by_minor(class, own)
    }
    /// Shows the counters of `Discipline::PARTS` that it keeps apart for each of its parts, part after part, each by its
    /// name.
    fn parts(&self, _f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {}
}
