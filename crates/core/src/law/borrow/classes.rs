//! The classes of a tree: their state, and their places in the tree.

use alloc::vec::Vec;

use super::siblings::Siblings;
use super::{LEVELS, NONE, OUT, Shape, Shown};
use crate::base::link::LinkLayer;
use crate::base::time::Instant;
use crate::base::units::RateMul;
use crate::law::bucket::TICK_NS;
use crate::law::minors::Minors;

/// State of a class's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    CanSend,
    MayBorrow,
    CantSend,
}

/// The part of a class that each of its packets touches: two cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Hot {
    pub(super) tokens: i64,
    pub(super) ctokens: i64,
    /// Time at which `tokens` and `ctokens` were right.
    pub(super) checked: Instant,
    pub(super) bytes: u64,
    pub(super) segs: u64,
    /// In a leaf: for each level, the bytes that are left of its turn there (an `i32`). In a class
    /// with classes below: for each priority, the turn in its feed (see `Turn`).
    pub(super) turns: [u32; LEVELS],
    pub(super) rate: RateMul,
    pub(super) ceil: RateMul,
    pub(super) buffer: u32,
    pub(super) cbuffer: u32,
    pub(super) lent: u32,
    pub(super) borrowed: u32,
    pub(super) quantum: u32,
    pub(super) overhead: u16,
    pub(super) mpu: u16,
    pub(super) parent: u16,
    pub(super) minor: u16,
    /// Index among the siblings ([`Siblings`]).
    pub(super) rank: u16,
    /// Index into `inner`, if the class has classes below.
    pub(super) inner: u16,
    /// Links of the list of due classes.
    pub(super) due_prev: u16,
    pub(super) due_next: u16,
    pub(super) layer: LinkLayer,
    pub(super) mode: Mode,
    pub(super) level: u8,
    /// A bit for each priority that waits in the class, or in its feeds.
    pub(super) active: u8,
}

const _: () = assert!(size_of::<Hot>() == 128, "the module header states the size of a class");

/// The part of a class that few packets touch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cold {
    /// Time at which its buckets were made full, and their depths then, in ticks.
    pub(super) filled: Instant,
    pub(super) depths: (u32, u32),
    pub(super) overlimits: u32,
    pub(super) drops: u32,
    pub(super) prio: u8,
}

/// Turn in a feed: a member; or `NONE`, and then the first member from a minor number on.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) at: u16,
    pub(super) from: u16,
}

impl Turn {
    pub(super) const fn of(bits: u32) -> Self {
        Self { at: (bits >> 16) as u16, from: bits as u16 }
    }
    pub(super) const fn bits(self) -> u32 {
        (self.at as u32) << 16 | self.from as u32
    }
}

/// Turn of a feed that has not been searched yet.
pub(super) const NO_TURN: u32 = Turn { at: NONE, from: 0 }.bits();

/// The classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    pub(super) hot: Vec<Hot>,
    pub(super) cold: Vec<Cold>,
    /// Those below each class that has any.
    pub(super) inner: Vec<Siblings>,
    free: Vec<u16>,
    free_inner: Vec<u16>,
    minors: Minors,
    /// Slots of the classes without classes below.
    leaves_by_minor: Minors,
}

impl Classes {
    /// True if there is no room for one more class.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.hot.len() >= super::CLASSES_MAX
    }
    /// Returns the slot of a class.
    #[inline]
    pub fn slot(&self, minor: u16) -> Option<usize> {
        self.minors.slot(minor)
    }
    /// Returns the slot of a class without classes below.
    #[inline]
    pub(crate) fn leaf_slot(&self, minor: u16) -> Option<usize> {
        self.leaves_by_minor.slot(minor)
    }
    /// Returns the classes and their slots, by minor number.
    pub fn iter(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        self.minors.iter()
    }
    /// Returns the minor number of the class in a slot.
    pub fn minor(&self, i: usize) -> u16 {
        self.hot[i].minor
    }
    /// Returns the minor number of the class above; 0 if there is none.
    pub fn parent(&self, i: usize) -> u16 {
        self.hot.get(usize::from(self.hot[i].parent)).map_or(0, |p| p.minor)
    }
    /// Asks for the memory of a class.
    #[inline]
    pub(crate) fn ask(&self, i: usize) {
        if let Some(hot) = self.hot.get(i) {
            txweir_ahead::value(hot);
            txweir_ahead::element(&self.cold, i);
        }
    }
    /// True if the class has no classes below.
    #[inline]
    pub fn is_leaf(&self, i: usize) -> bool {
        self.hot[i].level == 0
    }
    /// Returns the classes below, if there are any.
    fn below(&self, i: usize) -> Option<&Siblings> {
        self.inner.get(usize::from(self.hot[i].inner))
    }
    /// Returns the number of classes just below.
    pub(crate) fn children_len(&self, i: usize) -> usize {
        self.below(i).map_or(0, Siblings::len)
    }
    /// Returns the slots of the classes just below, by minor number.
    pub fn children(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        self.below(i).into_iter().flat_map(Siblings::iter)
    }
    /// True if a class below this one would be too deep.
    pub(crate) fn is_deepest(&self, i: usize) -> bool {
        // Level 0 of a leaf does not tell its depth, but the level of the class above does.
        let above = self.hot.get(usize::from(self.hot[i].parent));
        above.is_some_and(|above| above.level < 2)
    }

    /// Returns the numbers of a class.
    pub fn shown(&self, i: usize) -> Shown {
        let (hot, cold) = (&self.hot[i], &self.cold[i]);
        let ticks = |ns: i64| ns.div_euclid(TICK_NS as i64).clamp(i32::MIN.into(), i32::MAX.into());
        Shown {
            sent: (hot.bytes, hot.segs),
            lent: hot.lent,
            borrowed: hot.borrowed,
            tokens: ticks(hot.tokens),
            ctokens: ticks(hot.ctokens),
            overlimits: cold.overlimits,
            drops: cold.drops,
            quantum: hot.quantum,
            level: hot.level,
        }
    }

    /// Adds a class with a minor number not yet in use, at the root. Returns its slot.
    pub(super) fn insert(&mut self, minor: u16, now: Instant) -> usize {
        let i = match self.free.pop() {
            Some(i) => usize::from(i),
            None => {
                self.hot.push(vacant());
                self.cold.push(Cold::default());
                self.hot.len() - 1
            }
        };
        self.hot[i] = Hot { minor, checked: now, ..vacant() };
        self.cold[i] = Cold::default();
        self.minors.set(minor, Some(i));
        self.leaves_by_minor.set(minor, Some(i));
        i
    }

    /// Puts a class below another. A leaf is a leaf no longer.
    pub(super) fn adopt(&mut self, p: usize, i: usize) {
        if self.hot[p].level == 0 {
            let above =
                self.hot.get(usize::from(self.hot[p].parent)).map_or(LEVELS as u8, |above| above.level);
            let inner = self.free_inner.pop().unwrap_or_else(|| {
                self.inner.push(Siblings::default());
                // There are at most as many as classes.
                (self.inner.len() - 1) as u16
            });
            let hot = &mut self.hot[p];
            (hot.level, hot.inner) = (above.saturating_sub(1).max(1), inner);
            (hot.mode, hot.turns) = (Mode::CanSend, [NO_TURN; LEVELS]);
            self.leaves_by_minor.set(hot.minor, None);
        }
        self.inner[usize::from(self.hot[p].inner)].insert(&mut self.hot, i);
        self.hot[i].parent = p as u16;
    }

    /// Removes a class that has none below. Returns the slot of the class above if that has none
    /// left.
    pub(super) fn remove(&mut self, i: usize) -> Option<usize> {
        let Hot { parent, minor, rank, .. } = self.hot[i];
        self.minors.set(minor, None);
        self.leaves_by_minor.set(minor, None);
        self.hot[i] = vacant();
        // Slots are below `CLASSES_MAX`.
        self.free.push(i as u16);
        let p = usize::from(parent);
        let siblings = &mut self.inner[usize::from(self.hot.get(p)?.inner)];
        siblings.remove(&mut self.hot, usize::from(rank));
        (siblings.len() == 0).then_some(p)
    }

    /// Makes a class that has none below a leaf again.
    pub(super) fn bare(&mut self, p: usize) {
        let hot = &mut self.hot[p];
        self.free_inner.push(hot.inner);
        (hot.level, hot.inner) = (0, NONE);
        self.leaves_by_minor.set(hot.minor, Some(p));
    }

    /// Makes the buckets of a class full from now on.
    pub(super) fn fill(&mut self, i: usize, now: Instant) {
        let (hot, cold) = (&self.hot[i], &mut self.cold[i]);
        cold.depths = (hot.buffer, hot.cbuffer);
        cold.filled = now;
        self.refill(i);
    }

    /// Restores the state of a class when its buckets were last made full.
    pub(super) fn refill(&mut self, i: usize) {
        let (Cold { filled, depths, .. }, hot) = (self.cold[i], &mut self.hot[i]);
        (hot.mode, hot.checked) = (Mode::CanSend, filled);
        hot.tokens = i64::from(depths.0) * TICK_NS as i64;
        hot.ctokens = i64::from(depths.1) * TICK_NS as i64;
        hot.turns = [if hot.level == 0 { 0 } else { NO_TURN }; LEVELS];
    }

    /// Gives a class another shape. Its tokens, mode and turns stay, and so does the priority in
    /// which it waits.
    pub(super) fn set(&mut self, i: usize, shape: &Shape) {
        let narrow = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        let hot = &mut self.hot[i];
        (hot.rate, hot.ceil) = (shape.rate, shape.ceil);
        (hot.buffer, hot.cbuffer) = (shape.buffer, shape.cbuffer);
        (hot.overhead, hot.mpu) = (narrow(shape.sizing.overhead), narrow(shape.sizing.mpu));
        hot.layer = shape.sizing.layer;
        if hot.level == 0 {
            hot.quantum = shape.quantum;
            self.cold[i].prio = shape.prio & 7;
        }
    }
}

pub(super) fn vacant() -> Hot {
    let rate = RateMul::new(crate::base::units::Rate(1));
    Hot {
        tokens: 0,
        ctokens: 0,
        checked: Instant::ZERO,
        bytes: 0,
        segs: 0,
        turns: [0; LEVELS],
        rate,
        ceil: rate,
        buffer: 0,
        cbuffer: 0,
        lent: 0,
        borrowed: 0,
        quantum: 0,
        overhead: 0,
        mpu: 0,
        parent: NONE,
        minor: 0,
        rank: 0,
        inner: NONE,
        due_prev: OUT,
        due_next: NONE,
        layer: LinkLayer::Ethernet,
        mode: Mode::CanSend,
        level: 0,
        active: 0,
    }
}
