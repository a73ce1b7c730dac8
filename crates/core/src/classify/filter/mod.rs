//! Filters: selection of packets, and decisions about them (tc(8), "CLASSIFIERS").
//!
//! A [`Filters`] is everything of one owner: the actions, and the blocks. A block belongs to a
//! place (a qdisc, a hook of a port); it has chains, a chain has tables in the order of their
//! priority, and a table has the filters of one kind, priority and protocol. The first filter that
//! matches, and whose actions do not return `continue`, decides.
//!
//! Filters are read through a shared reference, and data written on reading is in the reader's own
//! [`State`](crate::classify::action::State), so that any number of readers can use one `Filters`
//! at once; a change is made on the owner's copy, in which unchanged tables are shared, and
//! published whole.
//!
//! - F1: classification is total and bounded: at most `RESTARTS_MAX` restarts (reclassify, goto),
//!   each of which walks a chain once.
//! - F2: filters see the packet with the changes of the actions before them.

pub mod basic;
pub mod bpf;
mod chain;
mod chains;
pub mod ematch;
pub mod flow;
pub mod flower;
pub mod fw;
pub mod matchall;
mod ordered;
mod shared;
mod sharing;
mod single;
pub mod tcpctl;
pub mod u32;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::handle::ClassId;
use crate::classify::action;
use crate::classify::action::Run;
use crate::classify::action::{ActionId, Control, Wanted};
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use shared::Shared;

pub use basic::Basic;
pub use bpf::Bpf;
pub use chain::{Block, BlockId, Chain, Existence, Filters, Named, Table, Template};
pub use flow::Flow;
pub use flower::Flower;
pub use fw::Fw;
pub use matchall::Matchall;
pub use tcpctl::Tcpctl;
pub use u32::U32;

/// Largest number of restarts of one classification; then the packet is dropped.
pub const RESTARTS_MAX: usize = 16;

/// All protocols: `protocol all`.
pub const ANY_PROTOCOL: u16 = 3;

/// Target of a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goal {
    /// The class; `NONE` if the filter names none.
    pub class: ClassId,
    /// The actions, in order.
    pub actions: Vec<Wanted>,
}

/// A goal whose actions exist and are held.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// The class.
    pub class: ClassId,
    /// The first of the numbers of the filter's counters, 0 without counters.
    pub hits: u32,
    /// The actions.
    pub actions: Box<[ActionId]>,
}

/// Result of classification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No filter decided.
    Unmatched,
    /// The packet goes on, in this class; `NONE` if the filter named none.
    Class(ClassId),
    /// The packet is to be dropped.
    Drop,
    /// The packet is gone: an action has taken it, or has sent it elsewhere.
    Stolen,
}

/// Result of one table for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// No filter of the table decided.
    Next,
    /// A filter decided: the control and the class.
    Made(Control, ClassId),
}

impl Bound {
    /// Puts another goal in this place, which takes over the counters. Returns the old one.
    pub(crate) fn replace(&mut self, mut goal: Self) -> Self {
        goal.hits = core::mem::take(&mut self.hits);
        core::mem::replace(self, goal)
    }

    /// Runs the actions of a filter that has matched. Returns their decision.
    #[inline]
    pub(crate) fn decide(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        self.decide_to(self.class, packet, run)
    }

    /// Does the work of `decide` for a filter that computes the class itself.
    #[inline]
    pub(crate) fn decide_to(&self, class: ClassId, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        if self.actions.is_empty() {
            return Decision::Made(Control::Pass, class);
        }
        match action::exec(&self.actions, packet, run) {
            Control::Continue => Decision::Next,
            control => Decision::Made(control, class),
        }
    }
}

/// Declares the kinds of filters: one line each. The tables of the last one are in data that all
/// tables of a block share; all its methods get that data.
macro_rules! kinds {
    (
        $($variant:ident($config:ty, $table:ty) = $word:literal,)*;
        sharing: $shared:ident($shared_config:ty, $shared_table:ty) = $shared_word:literal,
    ) => {
        /// The parameters of a filter, by its kind.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a rule lives only during a command; tables keep their own form of it")]
        pub enum Rule {
            $(#[doc = concat!("`", $word, "`.")] $variant($config),)*
            #[doc = concat!("`", $shared_word, "`.")] $shared($shared_config),
        }

        /// The word of each kind, in the order of [`Rule`].
        pub const KINDS: &[&str] = &[$($word,)* $shared_word];

        impl Rule {
            /// Returns the word of the kind in tc.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $word,)* Self::$shared(_) => $shared_word }
            }
        }

        /// The filters of one kind, priority and protocol.
        #[derive(Clone, Debug)]
        pub(crate) enum Tables {
            $($variant($table),)*
            $shared($shared_table),
        }

        impl Tables {
            /// Returns an empty table for filters of a rule's kind, in a chain and a priority.
            fn for_rule(rule: &Rule, shared: &mut Shared, chain: u32, prio: u16, seed: u64) -> Self {
                match rule {
                    $(Rule::$variant(_) => Self::$variant(<$table as Filtering>::new(seed)),)*
                    Rule::$shared(_) => Self::$shared(<$shared_table>::join(shared.for_change(), chain, prio)),
                }
            }
            fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $word,)* Self::$shared(_) => $shared_word }
            }
            #[inline]
            fn classify(&self, shared: &Shared, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
                match self {
                    $(Self::$variant(table) => Filtering::classify(table, packet, run),)*
                    Self::$shared(table) => shared.get().map_or(Decision::Next, |s| table.classify(s, packet, run)),
                }
            }
            fn put(
                &mut self,
                shared: &mut Shared,
                handle: Option<u32>,
                rule: &Rule,
                goal: Bound,
                existence: Existence,
                ids: &mut Counters,
            ) -> Result<(u32, Option<Bound>), (crate::text::error::ConfigError, Bound)> {
                match (self, rule) {
                    $((Self::$variant(table), Rule::$variant(rule)) => table.put(handle, rule, goal, existence, ids),)*
                    (Self::$shared(table), Rule::$shared(rule)) => {
                        table.put(shared.for_change(), handle, rule, goal, existence, ids)
                    }
                    _ => Err((chain::other_kind(rule.kind()), goal)),
                }
            }
            fn delete(
                &mut self,
                shared: &mut Shared,
                handle: u32,
            ) -> Result<alloc::vec::Vec<Bound>, crate::text::error::ConfigError> {
                match self {
                    $(Self::$variant(table) => table.delete(handle),)*
                    Self::$shared(_) => shared.for_change().delete(handle),
                }
            }
            /// Removes the table from the shared data, and returns the goals that die with it.
            /// Goals in the shared data that belong to other priorities survive.
            fn leave(&mut self, shared: &mut Shared) -> alloc::vec::Vec<Bound> {
                if let Self::$shared(table) = self {
                    return table.leave(shared.for_change());
                }
                let mut gone = alloc::vec::Vec::new();
                self.visit(shared, &mut |_, _, goal, _| gone.push(goal.clone()));
                gone
            }
            fn find(&self, shared: &Shared, handle: u32, f: &mut dyn FnMut(Rule, &Bound, u32)) {
                match self {
                    $(Self::$variant(table) => table.find(handle, &mut |rule, goal, hits| {
                        f(Rule::$variant(rule.clone()), goal, hits)
                    }),)*
                    Self::$shared(_) => shared.get().into_iter().for_each(|s| s.find(handle, &mut |rule, goal, hits| {
                        f(Rule::$shared(rule.clone()), goal, hits)
                    })),
                }
            }
            fn is_empty(&self, shared: &Shared) -> bool {
                match self {
                    $(Self::$variant(table) => table.is_empty(),)*
                    Self::$shared(_) => shared.get().is_none_or(u32::Common::is_empty),
                }
            }
            fn visit_made(&self, shared: &Shared, f: &mut dyn FnMut(u32, Rule, &Bound, u32)) {
                match self {
                    $(Self::$variant(table) => table.visit_made(&mut |handle, rule, goal, hits| {
                        f(handle, Rule::$variant(rule.clone()), goal, hits)
                    }),)*
                    Self::$shared(_) => self.visit(shared, f),
                }
            }
            fn visit(&self, shared: &Shared, f: &mut dyn FnMut(u32, Rule, &Bound, u32)) {
                match self {
                    $(Self::$variant(table) => table.visit(&mut |handle, rule, goal, hits| {
                        f(handle, Rule::$variant(rule.clone()), goal, hits)
                    }),)*
                    Self::$shared(table) => shared.get().into_iter().for_each(|s| {
                        table.visit(s, &mut |handle, rule, goal, hits| f(handle, Rule::$shared(rule.clone()), goal, hits));
                    }),
                }
            }
        }
    };
}

kinds! {
    Basic(Basic, basic::Table) = "basic",
    Bpf(Bpf, bpf::Table) = "bpf",
    Flow(Flow, flow::Table) = "flow",
    Flower(Flower, flower::Table) = "flower",
    Fw(Fw, fw::Table) = "fw",
    Matchall(Matchall, matchall::Table) = "matchall",
    Tcpctl(Tcpctl, tcpctl::Table) = "tcpctl",
    ; sharing: U32(U32, u32::Table) = "u32",
}

/// Visitor of filters: it gets the handle, the parameters, the goal, and the first of the numbers
/// of its counters.
pub(crate) type Visit<'a, R> = &'a mut dyn FnMut(u32, &R, &Bound, u32);

/// Implementation of a filter kind: a table of filters. The kind defines the meaning of handles,
/// `handle` in tc.
pub(crate) trait Filtering: Default + Clone + core::fmt::Debug {
    /// The parameters of one filter.
    type Rule: Clone;

    /// Returns an empty table. A kind that hashes fields of packets uses `seed` as the key.
    fn new(seed: u64) -> Self {
        let _ = seed;
        Self::default()
    }
    /// Adds a filter, or changes the one with that handle, as `existence` allows. Returns the
    /// handle, and the filter's old goal. On an error nothing has changed and the goal comes back.
    /// A kind that counts takes the numbers that it needs from `ids` and stores them in its goal,
    /// with which they move (`Bound::replace`).
    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Self::Rule,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (crate::text::error::ConfigError, Bound)>;
    /// Removes a filter. Returns the goals that die with it.
    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, crate::text::error::ConfigError>;
    /// True if no filter is left, so that the table itself is to be removed.
    fn is_empty(&self) -> bool;
    /// Visits all filters, in tc's order: handle, parameters, goal, and the first of the numbers of
    /// its counters (0 without counters).
    fn visit(&self, f: Visit<'_, Self::Rule>);
    /// Visits all filters in an order in which they can be added to make a table that decides as
    /// this one does.
    fn visit_made(&self, f: Visit<'_, Self::Rule>) {
        self.visit(f);
    }
    /// Visits the filter with that handle.
    fn find(&self, handle: u32, f: &mut dyn FnMut(&Self::Rule, &Bound, u32)) {
        self.visit(&mut |there, rule, goal, hits| {
            if there == handle {
                f(rule, goal, hits);
            }
        });
    }
    /// Tries the filters in their order.
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision;
}
