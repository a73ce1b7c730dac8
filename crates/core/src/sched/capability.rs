//! Capabilities: abilities of some kinds beside queueing packets. A kind declares those that it has
//! (`Discipline::{CLASSES, MADE, SHARES}`, `Discipline::as_flows`). The engine offers them for
//! every qdisc; they are empty where the kind does not have them.

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::Pool;
use crate::packet::route::{Classified, FilterOutcome};
use crate::sched::classful::{ClassSpec, Classful, UserClasses};
use crate::sched::discipline::Discipline;
use crate::sched::node::{Class, Node};
use crate::sched::share::Share;
use crate::text::stats::Counter;

/// A capability `T` of the kind `D`: the accessors of the trait object of a qdisc.
pub struct Capability<D, T: ?Sized> {
    /// Returns it to read.
    pub of: fn(&D) -> &T,
    /// Returns it to change.
    pub of_mut: fn(&mut D) -> &mut T,
}

/// Declares a capability whose trait the kind itself implements: `const CLASSES:
/// Option<Capability<Self, dyn Classes>> = capability!();`
#[macro_export]
macro_rules! capability {
    () => {
        Some($crate::sched::capability::Capability { of: |kind| kind, of_mut: |kind| kind })
    };
}

/// Classes with qdiscs of their own.
pub trait Classes {
    /// Returns the classes. A slot with minor 0 is vacant.
    fn classes(&self) -> &[Class];
    /// Returns the same, to graft into.
    fn classes_mut(&mut self) -> &mut [Class];
    /// Returns the place of a class among `classes`, by its minor number; the default is for kinds
    /// with a few classes.
    fn slot(&self, minor: u16) -> Option<usize> {
        self.classes().iter().position(|class| class.minor == minor)
    }
    /// Returns the class that a packet would wait in; the default is for kinds with one class.
    fn select(&self, _m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.classes().first()
    }
    /// Asks for what the kind itself keeps of the class that a packet will wait in: see
    /// `Discipline::expect`.
    fn expect(&self, _class: Option<ClassId>) {}
    /// Returns the place among `classes` of the one that has its turn `turns` turns from now, as
    /// far as that is known without looking into them: a hint, by which memory is asked for.
    fn in_turn(&self, _turns: u32) -> Option<usize> {
        None
    }
    /// Returns the qdisc of a class in which nothing is grafted, as after a delete. `None` stands
    /// for pfifo with the length of the device's queue.
    fn default_child(&self, _env: &Env) -> Option<Node> {
        None
    }
    /// Returns the answer to the result of filters: a class, or no class (`None`). `asked` is the
    /// place of the filters, the qdisc `own` or one of its classes; `None` stands for the packet's
    /// priority, which is read before any filters. The default is [`classify_by_minor`].
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, own: Handle) -> Classified {
        classify_by_minor(class, own)
    }
}

/// Returns the answer of a qdisc with this handle to the result of its filters: a class, or no
/// class (`None`). It takes the class's minor number, whatever its major. Without a class, the kind
/// chooses by its own rule.
pub fn classify_by_minor(class: Option<ClassId>, own: Handle) -> Classified {
    Classified::Final(
        class.map_or(FilterOutcome::Nothing, |c| FilterOutcome::Class(Handle::new(own.major(), c.minor()))),
    )
}

/// Declarations of classes that commands make or change: `const MADE: Option<MadeClasses<Self>> =
/// Some(MadeClasses::of());`
pub struct MadeClasses<D: Discipline> {
    /// Their parameters and counters.
    pub spec: &'static ClassSpec,
    /// Accessors of the classes.
    pub classes: Capability<D, dyn UserClasses>,
    /// See `Classful::refresh`.
    pub refresh: fn(&D, &mut D::Config),
}

impl<D: Classful> MadeClasses<D> {
    /// Returns the declarations of a kind.
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
    /// Calls `f` on each of them.
    fn shares(&self, f: &mut dyn FnMut(Share<'_>));
    /// Returns that of the qdisc itself (`minor` 0) or of one of its classes.
    fn shared(&self, minor: u16) -> Option<Share<'_>>;
    /// Joins a rate, for the qdisc itself (`minor` 0) or for one of its classes, of those that
    /// `shares` shows.
    fn share(&mut self, minor: u16, lease: Lease);
}

/// An internal flow of a kind, as `tc -s class show` lists it: a class without a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowShown<'a> {
    /// Its minor number: a packet that names this class is put into the flow. 65 536 has no name in
    /// 16 bits.
    pub minor: u32,
    /// Packets and bytes that wait in it.
    pub backlog: Tally,
    /// Its state, by tc's words and in tc's units: times are microseconds, truth values are 0 and
    /// 1.
    pub values: &'a [(&'static str, i64)],
}

/// Flows, or other parts without qdiscs, that a kind keeps apart internally.
pub trait Flows {
    /// Calls `f` on each flow in which packets wait or whose turn comes.
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>));
    /// See [`classify_by_minor`], the default.
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, own: Handle) -> Classified {
        classify_by_minor(class, own)
    }
    /// Calls `f` on the counters of `Discipline::PARTS` that it keeps for each of its parts, part
    /// after part, with the name of the part.
    fn parts(&self, _f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {}
}
