//! `ClassChoice`: the class that a packet waits in, as far as the node of a classful qdisc can tell
//! without the kind: by the packet's priority, by a class chosen ahead, or by filters.

use crate::base::handle::{ClassId, Handle};
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::route::{Candidate, FilterOutcome};
use crate::sched::cx::Cx;

/// The rule that gives the class of a packet at a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassChoice {
    /// Handle of the node.
    pub(super) own: Handle,
    /// The major in which packets may name a class; 0 if the qdisc does not look at the class.
    pub(super) major: u16,
    /// 0 if the node has no filters; else one more than the qdiscs above it.
    pub(super) filters: u8,
}

impl ClassChoice {
    /// True if this names a class of the node. A priority that is the handle itself, minor 0, names
    /// the qdisc and none of its classes: the kind defines its meaning.
    #[inline(always)]
    const fn is_named(self, class: Handle) -> bool {
        class.major() == self.major && self.major != 0
    }

    /// Returns the class that a packet names where no filter decides: by its priority, or `ahead`,
    /// the one chosen ahead of the queue.
    #[inline]
    pub(crate) fn unfiltered(self, m: &Meta, ahead: ClassId) -> Option<ClassId> {
        [Handle(m.priority), ahead].into_iter().find(|class| self.is_named(*class))
    }

    /// Returns the class that a packet names: by a priority with this major, or one chosen ahead.
    #[inline(always)]
    pub(crate) fn of(self, m: &Meta) -> Option<ClassId> {
        // Most packets name no class; a class number without a major is none either.
        if m.priority <= 0xffff && m.class.is_none() {
            return None;
        }
        if self.filters != 0 && !m.class.is_none() {
            // Filters have chosen the class, and have seen the priority.
            return Some(m.class);
        }
        let by_priority = Handle(m.priority);
        if self.is_named(by_priority) {
            return Some(by_priority);
        }
        Some(m.class).filter(|class| self.is_named(*class))
    }

    /// Returns the class that a packet that is not queued would name.
    #[inline(always)]
    pub(crate) fn of_candidate(self, m: &Candidate<'_>) -> Option<ClassId> {
        if self.filters == 0 {
            return self.of(m);
        }
        match self.outcome_for(m) {
            FilterOutcome::Class(class) => Some(class),
            FilterOutcome::Nothing | FilterOutcome::Drop => self.unfiltered(m, m.class),
        }
    }

    /// True if the node's filters would drop a packet that is not queued.
    #[inline(always)]
    pub(crate) fn would_drop(self, m: &Candidate<'_>) -> bool {
        self.filters != 0 && self.outcome_for(m) == FilterOutcome::Drop
    }

    /// Returns the result of the filters of a node that has some, for a packet that is not queued.
    fn outcome_for(self, m: &Candidate<'_>) -> FilterOutcome {
        let depth = usize::from(self.filters) - 1;
        m.route.map(|route| route.outcome(depth, self.own.major())).unwrap_or_default()
    }

    /// Applies the result of the node's filters to a packet that is queued there: sets its class.
    /// False if the filters drop it.
    #[inline(never)]
    pub(super) fn apply_filter_outcome(self, p: &Pkt, cx: &mut Cx) -> bool {
        let major = self.own.major();
        let depth = usize::from(self.filters) - 1;
        let outcome = cx.pool.detail(p).map(|d| d.route.outcome(depth, major)).unwrap_or_default();
        let m = cx.pool.meta_mut(p);
        match outcome {
            FilterOutcome::Class(class) => m.class = class,
            FilterOutcome::Nothing if m.class.major() == major && Handle(m.priority).major() != major => {}
            FilterOutcome::Nothing => m.class = ClassId::NONE,
            FilterOutcome::Drop => return false,
        }
        true
    }
}
