//! Hierarchical fair service curves, on numbers: the class that sends next, and the time to ask
//! again (I. Stoica, H. Zhang, T. S. E. Ng, SIGCOMM 1997; tc-hfsc(7)).
//!
//! A class has up to three curves ([`super::curve`]). By the *real-time* curve, which only a leaf
//! uses, the class is due a service whatever the others want: its next packet has an eligible time
//! and a deadline. Of the eligible leaves the one with the earliest deadline sends. While none is
//! eligible, the *link-sharing* curves divide what is left, from the root down: of the active
//! classes below a class, the one with the least virtual time is next, the virtual time being the
//! time at which its curve would have given it the service that it has had. Real-time service
//! counts there too. By the *upper limit* a class and those below it share nothing before their fit
//! time.
//!
//! - I1: a leaf stands in the set of the real-time leaves if it has packets and that curve; in the
//!   set of the class above if it has packets and a link-sharing curve. A class with classes below
//!   stands there while any of them does.
//! - I2: `fit` of a class is the later of its own limit and of the earliest `fit` below it, so that
//!   a class that fits has a leaf that does.
//!
//! **Cost.** A choice is O(log leaves) for the real-time part, and O(log siblings) for each level
//! of the sharing part; so is a charge ([`super::ranks`]). The reference walks along its lists.
//!
//! **Memory.** At most 384 bytes for each class, 80 of its ranks, four for each minor number.

mod classes;
mod realtime;
mod sharing;

use super::curve::{Curve, Tick};
use super::ranks::{Ranks, Set};
use classes::Classes;

/// Levels of classes below the qdisc; the reference has no limit.
pub const LEVELS: usize = 8;
/// Largest number of classes.
pub const CLASSES_MAX: usize = u16::MAX as usize - 2;

/// Slot of the qdisc itself, which is the class at the root. It has no curves.
pub(crate) const ROOT: usize = 0;

/// Curves of a class, or those that a change gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Curves {
    /// Service that is due to it, whatever others want.
    pub real_time: Option<Curve>,
    /// Its part of what is left.
    pub share: Option<Curve>,
    /// Most that it gets by link-sharing.
    pub limit: Option<Curve>,
}

/// The criterion by which a leaf was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// It is eligible, with the earliest deadline.
    RealTime,
    /// It has the least virtual time.
    Share,
}

/// Numbers of a class for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Times that it has become active in link-sharing.
    pub period: u32,
    /// Bytes that it, or the classes below it, have sent.
    pub work: u64,
    /// Bytes that it has sent by the real-time criterion.
    pub rtwork: u64,
    /// Levels of classes below it; 0 for a leaf.
    pub level: u8,
}

/// The classes, with their sets.
#[derive(Clone, Debug)]
pub struct Service {
    classes: Classes,
    /// The real-time leaves by eligible time; the weight is the deadline.
    eligible: Set,
    deadlines: Ranks,
    /// In the set of each class those below it, by virtual time; the weight is the fit time.
    virtuals: Ranks,
}

impl Default for Service {
    fn default() -> Self {
        Self::new()
    }
}

impl Service {
    /// Returns a qdisc without classes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            classes: Classes::new(),
            eligible: Set::EMPTY,
            deadlines: Ranks::default(),
            virtuals: Ranks::default(),
        }
    }
    /// Returns the classes.
    #[inline]
    pub(crate) const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Adds a class with a minor number not yet in use, below a class with fewer than `LEVELS`
    /// levels above it; the slot of the qdisc is `ROOT`. No packet may wait in a leaf above it,
    /// which is a leaf no longer; without a link-sharing curve it gets its real-time curve as one.
    /// Returns the slot of the new class.
    pub fn add(&mut self, minor: u16, above: usize, curves: &Curves) -> usize {
        if self.classes.is_leaf(above) {
            self.empty(above);
        }
        let i = self.classes.insert(minor, above);
        self.deadlines.reserve(i + 1);
        self.virtuals.reserve(i + 1);
        self.place(i, curves, Tick(0));
        if above != ROOT && self.classes.at[above].share.is_none() {
            self.share_by_real_time(above);
        }
        i
    }
    /// Gives a class other curves; those that are not given stay. `head` are the bytes of the next
    /// packet of a leaf that has packets.
    pub fn change(&mut self, i: usize, curves: &Curves, now: Tick, head: Option<u32>) {
        let (had_deadlines, had_share) =
            (self.classes.at[i].real_time.is_some(), self.classes.at[i].share.is_some());
        self.place(i, curves, now);
        let Some(head) = head else { return };
        if self.classes.at[i].real_time.is_some() {
            match had_deadlines {
                true => self.renew(i, head, Criterion::RealTime),
                false => self.claim(i, head, now),
            }
        }
        if self.classes.at[i].share.is_some() {
            match had_share {
                true => self.settle(i, 0, false),
                false => self.join(i, now),
            }
        }
    }
    /// Removes a leaf, in which no packet waits.
    pub fn remove(&mut self, i: usize) {
        self.empty(i);
        self.classes.remove(i);
    }
    /// Makes all classes inactive, with the state of a class that never sent a packet.
    pub fn reset(&mut self) {
        self.eligible = Set::EMPTY;
        for class in &mut self.classes.at {
            class.reset();
        }
    }

    /// True if a leaf has packets, as far as the sets know.
    #[inline]
    #[must_use]
    pub fn is_active(&self, i: usize) -> bool {
        let class = &self.classes.at[i];
        class.is_eligible || class.active > 0
    }
    /// Makes a leaf active: it has its first packet, of `len` bytes.
    #[inline]
    pub fn activate(&mut self, i: usize, len: u32, now: Tick) {
        if self.classes.at[i].real_time.is_some() {
            self.claim(i, len, now);
        }
        if self.classes.at[i].share.is_some() {
            self.join(i, now);
        }
    }
    /// Makes a leaf inactive, whose packets have gone another way than by being sent.
    #[inline(never)]
    pub fn empty(&mut self, i: usize) {
        if self.classes.at[i].active > 0 {
            self.settle(i, 0, true);
        }
        self.forgo(i);
    }
    /// Makes every leaf inactive.
    pub fn rest(&mut self) {
        for i in 1..self.classes.at.len() {
            if self.classes.at[i].level == 0 {
                self.empty(i);
            }
        }
    }

    /// Returns the leaf that sends next, and the criterion that has chosen it; `None` if none may
    /// send now.
    #[inline]
    #[must_use]
    pub fn choose(&mut self, now: Tick) -> Option<(usize, Criterion)> {
        if let Some(i) = self.deadlines.least_until(self.eligible, now.0) {
            return Some((i, Criterion::RealTime));
        }
        Some((self.least_virtual(now)?, Criterion::Share))
    }
    /// Charges the leaf that `choose` has returned for a packet of `len` bytes. `is_last` if it has
    /// no more packets.
    #[inline]
    pub fn charge(&mut self, i: usize, len: u32, by: Criterion, is_last: bool) {
        self.settle(i, len, is_last);
        if by == Criterion::RealTime {
            self.classes.at[i].served += u64::from(len);
        }
        if is_last {
            self.forgo(i);
        }
    }
    /// Computes the deadline of the next packet of a leaf, of `len` bytes, after one that was
    /// chosen by a criterion. Does nothing to a leaf without a real-time curve.
    #[inline]
    pub fn renew(&mut self, i: usize, len: u32, by: Criterion) {
        if !self.classes.at[i].is_eligible {
            return;
        }
        let (at, deadline) = self.classes.at[i].due(len);
        match by {
            Criterion::RealTime => {
                self.deadlines.remove(&mut self.eligible, i);
                self.deadlines.insert(&mut self.eligible, i, at, deadline);
            }
            Criterion::Share => self.deadlines.weigh(self.eligible, i, deadline),
        }
    }
    /// Returns the time at which a leaf may send, where none may now.
    #[must_use]
    pub fn next_time(&self) -> Option<Tick> {
        let shared = Some(self.classes.at[ROOT].fit_below).filter(|fit| *fit != 0);
        self.deadlines.first_key(self.eligible).into_iter().chain(shared).min().map(Tick)
    }
    /// True if no leaf has packets.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.eligible.is_empty() && self.classes.at[ROOT].below.is_empty()
    }

    /// Gives a class the given curves, from its present service on: those of time start at `now`.
    fn place(&mut self, i: usize, curves: &Curves, now: Tick) {
        self.classes.at[i].place(curves, now);
    }
}
