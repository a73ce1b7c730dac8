//! `Route`: the results of the filters at qdiscs for a packet. They are computed before the packet
//! is queued, while its bytes are at hand.
//!
//! [`Tree::route`](crate::Tree::route) goes the way that the packet will go: it runs the filters of
//! the root, then those of the qdisc in the resulting class, and so on. The results are kept beside
//! the packet ([`crate::Detail`]) and looked up when it is queued. Therefore qdiscs need no bytes,
//! filters need no queue, and a packet that an action takes away is never queued.
//!
//! - A priority that names a class of a qdisc takes precedence over its filters, as in the
//!   reference.
//! - The way is bounded: `DEPTH_MAX` qdiscs. In each of them up to `DEPTH_MAX` blocks of filters
//!   run, one after the other, where inner classes have filters.

use core::ops::Deref;

use crate::base::handle::ClassId;
use crate::packet::meta::Meta;

/// Deepest nesting of qdiscs: bounds the call stack of the data path.
pub const DEPTH_MAX: usize = 8;

/// Result of the filters of a qdisc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterOutcome {
    /// No result: there are no filters, or none matched.
    #[default]
    Nothing,
    /// This class; the kind of the qdisc defines the meaning of the number.
    Class(ClassId),
    /// The packet is dropped there.
    Drop,
}

/// Answer of a kind to the result of its filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classified {
    /// The result is final.
    Final(FilterOutcome),
    /// The class is an inner one: its filters run next.
    Inner(ClassId),
}

/// Results of the filters at each qdisc on a packet's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    steps: [(u16, FilterOutcome); DEPTH_MAX],
}

impl Route {
    /// Returns the result at a qdisc of this depth, if it has this major number.
    #[inline]
    pub fn outcome(&self, depth: usize, major: u16) -> FilterOutcome {
        match self.steps.get(depth) {
            Some((at, outcome)) if *at == major => *outcome,
            _ => FilterOutcome::Nothing,
        }
    }
    pub(crate) fn set(&mut self, depth: usize, major: u16, outcome: FilterOutcome) {
        if let Some(step) = self.steps.get_mut(depth) {
            *step = (major, outcome);
        }
    }
    /// True if no filter gave a result.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|(_, outcome)| *outcome == FilterOutcome::Nothing)
    }
}

/// A packet that may be offered to a qdisc, with the results of filters for it: the subject of
/// `Discipline::would_accept`.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its metadata; `enqueued` is the time at which it is offered.
    pub meta: &'a Meta,
    /// Its route; `None` if no filters ran.
    pub route: Option<&'a Route>,
}

impl<'a> Candidate<'a> {
    /// Returns a packet for which no filters ran.
    pub const fn of(meta: &'a Meta) -> Self {
        Self { meta, route: None }
    }
}

impl Deref for Candidate<'_> {
    type Target = Meta;
    #[inline]
    fn deref(&self) -> &Meta {
        self.meta
    }
}

/// Outcome of the filters on a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// The packet is to be queued, with this route.
    Go(Route),
    /// An action has taken the packet.
    Stolen,
}
