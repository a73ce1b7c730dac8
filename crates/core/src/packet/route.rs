//! `Route`: what filters at qdiscs have said of a packet, worked out before it is queued, while its bytes are at hand.
//!
//! [`Tree::route`](crate::Tree::route) goes the way that the packet will go: it asks the filters
//! of the root, then those of the qdisc in the class
//! that comes of it, and so on. What they say is kept beside the packet ([`crate::Detail`]) and looked up when it is queued: so
//! qdiscs need no bytes, filters no queue, and a packet that an action takes away is never queued at all.
//!
//! - A priority that names a class of a qdisc goes before its filters, as in the reference.
//! - The way is bounded: `DEPTH_MAX` qdiscs, in each of which an inner class can have filters that are asked next, `DEPTH_MAX`
//!   times.

use core::ops::Deref;

use crate::base::handle::ClassId;
use crate::packet::meta::Meta;

/// Deepest nesting of qdiscs: bounds the call stack of the data path.
pub const DEPTH_MAX: usize = 8;

/// What the filters of a qdisc have said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// Nothing: there are none, or none matched.
    #[default]
    Nothing,
    /// This class; what the number means is the kind's business.
    Class(ClassId),
    /// It is dropped there.
    Drop,
}

/// What a kind makes of what its filters have found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// That decides.
    Said(Said),
    /// It is an inner class: its filters are asked.
    Inner(ClassId),
}

/// What filters have said at each qdisc on a packet's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    steps: [(u16, Said); DEPTH_MAX],
}

impl Route {
    /// What was said at a qdisc so deep, if it has this major number.
    #[inline]
    pub fn said(&self, depth: usize, major: u16) -> Said {
        match self.steps.get(depth) {
            Some((at, said)) if *at == major => *said,
            _ => Said::Nothing,
        }
    }
    pub(crate) fn set(&mut self, depth: usize, major: u16, said: Said) {
        if let Some(step) = self.steps.get_mut(depth) {
            *step = (major, said);
        }
    }
    /// Whether anything was said.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|(_, said)| *said == Said::Nothing)
    }
}

/// A packet that is asked about, with what filters have said of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its metadata.
    pub meta: &'a Meta,
    /// Its route; `None` if no filters were asked.
    pub route: Option<&'a Route>,
}

impl<'a> Asked<'a> {
    /// One of which no filters were asked.
    pub const fn of(meta: &'a Meta) -> Self {
        Self { meta, route: None }
    }
}

impl Deref for Asked<'_> {
    type Target = Meta;
    #[inline]
    fn deref(&self) -> &Meta {
        self.meta
    }
}

/// What came of asking the filters on a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// It is to be queued, with this.
    Go(Route),
    /// An action has taken it.
    Stolen,
}
