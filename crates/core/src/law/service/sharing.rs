//! Link-sharing: virtual times, and the fit times of upper limits.

use super::classes::{Class, Classes};
use super::{LEVELS, ROOT, Service};
use crate::base::bound::Bound;
use crate::law::curve::{Anchored, Tick};

impl Classes {
    /// Returns the slot above a class that is not the root.
    #[inline]
    fn above(&self, i: usize) -> usize {
        usize::from(self.at[i].above)
    }
}

impl Class {
    /// Computes the time from which it fits by its own limit.
    #[inline]
    fn limit_itself(&mut self) {
        if let Some(curve) = &self.limit {
            self.fit_alone = self.limited.time_of(curve, self.total);
        }
    }
}

impl Service {
    /// Lets a leaf that has its first packet share, and the classes above it that become active by
    /// it.
    pub(super) fn join(&mut self, i: usize, now: Tick) {
        let (mut at, mut begins) = (i, true);
        let mut bound = Bound::of(LEVELS);
        while at != ROOT {
            bound.turn();
            let class = &mut self.classes.at[at];
            if begins {
                begins = class.active == 0;
                class.active += 1;
            }
            let above = self.classes.above(at);
            if begins {
                self.begin(at, above, now);
            }
            self.refit(at, above);
            at = above;
        }
    }

    /// Begins a period of a class: finds its virtual time among the active classes beside it.
    fn begin(&mut self, i: usize, above: usize, now: Tick) {
        let beside = self.virtuals.last_key(self.classes.at[above].below);
        let Class { vt_least, vt_past, period, active, .. } = self.classes.at[above];
        let class = &mut self.classes.at[i];
        match beside {
            // Between the least and the greatest there. Within one period of the class above, a
            // class does not go back.
            Some(greatest) => {
                let vt = if vt_least != 0 { vt_least.wrapping_add(greatest) / 2 } else { greatest };
                if period != class.period_above || vt > class.vt {
                    class.vt = vt;
                }
            }
            // The first one: behind all that have been there before.
            None => class.vt = vt_past,
        }
        if let Some(curve) = &class.share {
            class.virtually.lower(curve, class.vt, class.total);
        }
        class.vt_skipped = 0;
        class.period = class.period.wrapping_add(1);
        // The class above begins its own period after this, if it does.
        class.period_above = period.wrapping_add(u32::from(active == 0));
        class.fit = 0;
        if let Some(curve) = &class.limit {
            class.limited.lower(curve, now.0, class.total);
        }
        class.limit_itself();
        let vt = class.vt;
        if beside.is_none() {
            self.classes.at[above].vt_least = 0;
        }
        let mut below = self.classes.at[above].below;
        self.virtuals.insert(&mut below, i, vt, 0);
        self.classes.at[above].below = below;
    }

    /// Computes the fit time of an active class, and the earliest one below the class above it.
    #[inline]
    fn refit(&mut self, i: usize, above: usize) {
        let class = &mut self.classes.at[i];
        let fit = class.fit_alone.max(class.fit_below);
        if fit != class.fit {
            class.fit = fit;
            self.virtuals.weigh(self.classes.at[above].below, i, fit);
        }
        self.fit_least(above);
    }
    /// Computes the earliest fit time below a class.
    #[inline]
    fn fit_least(&mut self, i: usize) {
        let class = &mut self.classes.at[i];
        class.fit_below = self.virtuals.least(class.below).unwrap_or(0);
    }

    /// Charges a class and those above it for `len` bytes. A leaf whose packets `is_last` ends its
    /// period, and so do the classes above it that have no other active class below.
    #[inline]
    pub(super) fn settle(&mut self, i: usize, len: u32, is_last: bool) {
        let mut ends = is_last && self.classes.at[i].active > 0;
        let mut at = i;
        let mut bound = Bound::of(LEVELS);
        while at != ROOT {
            bound.turn();
            let above = self.classes.above(at);
            let vt_least = self.classes.at[above].vt_least;
            let class = &mut self.classes.at[at];
            class.total = class.total.wrapping_add(len.into());
            let Some(curve) = class.share.as_ref().filter(|_| class.active > 0) else {
                at = above;
                continue;
            };
            if ends {
                class.active -= 1;
                ends = class.active == 0;
            }
            class.vt = class.virtually.time_of(curve, class.total).wrapping_add(class.vt_skipped);
            // It was passed by while it did not fit: it does not make up for that.
            if class.vt < vt_least {
                class.vt_skipped = class.vt_skipped.wrapping_add(vt_least - class.vt);
                class.vt = vt_least;
            }
            let vt = class.vt;
            let mut below = self.classes.at[above].below;
            self.virtuals.remove(&mut below, at);
            if ends {
                let parent = &mut self.classes.at[above];
                parent.below = below;
                parent.vt_past = parent.vt_past.max(vt);
                self.fit_least(above);
            } else {
                let class = &mut self.classes.at[at];
                class.limit_itself();
                let fit = class.fit_alone.max(class.fit_below);
                class.fit = fit;
                self.virtuals.insert(&mut below, at, vt, fit);
                self.classes.at[above].below = below;
                self.fit_least(above);
            }
            at = above;
        }
    }

    /// Returns the leaf to which the least virtual times lead, among the classes that fit.
    #[inline]
    pub(super) fn least_virtual(&mut self, now: Tick) -> Option<usize> {
        let mut at = ROOT;
        if self.classes.at[ROOT].fit_below > now.0 {
            return None;
        }
        let mut bound = Bound::of(LEVELS + 1);
        loop {
            bound.turn();
            let below = self.virtuals.first_up_to(self.classes.at[at].below, now.0)?;
            let vt = self.classes.at[below].vt;
            let class = &mut self.classes.at[at];
            class.vt_least = class.vt_least.max(vt);
            at = below;
            if self.classes.at[at].level == 0 {
                return Some(at);
            }
        }
    }

    /// Gives a class without a link-sharing curve its real-time curve as one.
    #[cold]
    pub(super) fn share_by_real_time(&mut self, i: usize) {
        let class = &mut self.classes.at[i];
        class.share = class.real_time;
        if let Some(curve) = &class.share {
            class.virtually = Anchored::new(curve, class.vt, class.total);
        }
    }
}
