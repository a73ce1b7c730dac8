//! Hierarchical token buckets with borrowing, on numbers: the classes that may send, their turns,
//! and the charge for each packet (M. Devera, "Hierarchical token bucket theory", 2002).
//!
//! A class has tokens for its rate and for its ceiling. With both it *can send*; without those of
//! its rate it *may borrow* from the class above; without those of its ceiling it can do neither. A
//! class that can send stands, if it or a class below it has packets, in the *row* of its level and
//! of the packets' priority. A class that may borrow stands in the *feed* of the class above. A row
//! leads to a leaf through feeds: the leaf sends, with the tokens of the class in the row. Rows and
//! feeds are in the order of minor numbers, and each has a turn. A class out of tokens waits for
//! the time at which it has them again.
//!
//! - I1: a class is in one row, or in one feed, or in none, for each priority that waits in it or
//!   below.
//! - I2: a class that cannot send waits on the wheel or stands in the list of due classes.
//! - I3: a feed has members if and only if the class above is active in that priority.
//!
//! Beside its own ceiling, a class may share one with classes of other trees, on other threads
//! ([`super::lease`]). The traffic of the class and of those below it is paid for there; while that
//! is impossible, the class can neither send nor borrow.
//!
//! **Cost.** To find a leaf takes a step for each level of the tree (16-bit sets, see [`Bits`]); so
//! does a charge. A class that becomes due is O(1) ([`Wheel`]), once between two packets of its
//! own. No cost grows with the number of classes, except the addition of a class, which moves its
//! later siblings.
//!
//! **Memory.** 128 bytes for each class (two cache lines), 32 of numbers that few packets touch, 24
//! of the wheel, four for each minor number; for a class with classes below 280 and two bytes for
//! each of them; bits for each row and feed in use.

mod turns;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::bits::Bits;
use super::bucket::{Sizing, TICK_NS};
use super::lease::Lease;
use crate::base::link::LinkLayer;
use crate::base::time::Instant;
use crate::base::units::RateMul;
use crate::base::wheel::Wheel;
use crate::law::minors::Minors;

/// Levels of classes (tc-htb(8): "depth 8"). Leaves are level 0, a root class with classes below is
/// level 7.
pub const LEVELS: usize = 8;
/// Priorities of packets.
pub(crate) const PRIOS: usize = 8;
/// Largest number of classes: higher indexes are sentinels.
pub const CLASSES_MAX: usize = OUT as usize;

/// No class.
const NONE: u16 = u16::MAX;
/// `due_prev` of a class that is not listed.
const OUT: u16 = u16::MAX - 1;
/// Tokens stay within this of zero, ns: savings and debts of a class are forgotten after a minute.
const SPAN: i64 = 60_000_000_000;
/// Bound on the steps of one search for a leaf: it resets the turn of each feed at most once.
const STEPS_MAX: usize = u16::MAX as usize;

/// State of a class's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    CanSend,
    MayBorrow,
    CantSend,
}

/// Parameters of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rate that the class has of its own right.
    pub rate: RateMul,
    /// Highest rate, with borrowed tokens.
    pub ceil: RateMul,
    /// Depth of the rate's bucket, in ticks of 64 ns.
    pub buffer: u32,
    /// Depth of the ceiling's bucket, in ticks of 64 ns.
    pub cbuffer: u32,
    /// Charge for its packets; overhead and mpu are 16 bits.
    pub sizing: Sizing,
    /// Bytes that the class sends in one turn, at most 2^31 - 1.
    pub quantum: u32,
    /// Priority, below 8; lower ones go first.
    pub prio: u8,
}

/// The part of a class that each of its packets touches: two cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Hot {
    tokens: i64,
    ctokens: i64,
    /// Time at which `tokens` and `ctokens` were right.
    checked: Instant,
    bytes: u64,
    segs: u64,
    /// In a leaf: for each level, the bytes that are left of its turn there (an `i32`). In a class
    /// with classes below: for each priority, the turn in its feed (see `Turn`).
    turns: [u32; LEVELS],
    rate: RateMul,
    ceil: RateMul,
    buffer: u32,
    cbuffer: u32,
    lent: u32,
    borrowed: u32,
    quantum: u32,
    overhead: u16,
    mpu: u16,
    parent: u16,
    minor: u16,
    /// Index among the siblings.
    rank: u16,
    /// Index into `inner`, if the class has classes below.
    inner: u16,
    /// Links of the list of due classes.
    due_prev: u16,
    due_next: u16,
    layer: LinkLayer,
    mode: Mode,
    level: u8,
    /// A bit for each priority that waits in the class, or in its feeds.
    active: u8,
}

const _: () = assert!(size_of::<Hot>() == 128, "the module header states the size of a class");

/// The part of a class that few packets touch.
#[derive(Clone, Copy, Debug, Default)]
struct Cold {
    /// Time at which its buckets were made full, and their depths then, in ticks.
    filled: Instant,
    depths: (u32, u32),
    overlimits: u32,
    drops: u32,
    prio: u8,
}

/// Additional part of a class with classes below.
#[derive(Clone, Debug, Default)]
struct Inner {
    /// Slots, by minor number.
    children: Vec<u16>,
    /// For each priority, the ranks of the children that may borrow and have packets.
    feeds: [Bits; PRIOS],
}

/// Turn in a feed: a member; or `NONE`, and then the first member from a minor number on.
#[derive(Clone, Copy)]
struct Turn {
    at: u16,
    from: u16,
}

impl Turn {
    const fn of(bits: u32) -> Self {
        Self { at: (bits >> 16) as u16, from: bits as u16 }
    }
    const fn bits(self) -> u32 {
        (self.at as u32) << 16 | self.from as u32
    }
}

/// Turn of a feed that has not been searched yet.
const NO_TURN: u32 = Turn { at: NONE, from: 0 }.bits();

/// First and last member of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u16,
    tail: u16,
}

/// The classes.
#[derive(Clone, Debug)]
pub(crate) struct Borrow {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    inner: Vec<Inner>,
    free: Vec<u16>,
    free_inner: Vec<u16>,
    minors: Minors,
    /// Slots of the classes without classes below.
    leaves_by_minor: Minors,
    /// For each level and priority, the minor numbers of the classes that can send and have
    /// packets.
    rows: Box<[Bits; LEVELS * PRIOS]>,
    /// The member of each row whose turn it is.
    row_turns: Box<[u16; LEVELS * PRIOS]>,
    /// For each level, a bit for each priority whose row has members.
    row_mask: [u8; LEVELS],
    /// A bit for each level with such a row.
    level_mask: u8,
    /// Classes that wait for tokens.
    wheel: Wheel,
    /// No class on the wheel is due before this time: at most the wheel's next deadline.
    asleep: Instant,
    /// For each level, the classes that are due and have not been updated.
    due: [Ends; LEVELS],
    /// A bit for each level with due classes.
    due_mask: u8,
    /// Number of active leaves.
    leaves: u32,
    /// Times that a class ran out of its ceiling's tokens since the last `take_overlimits`.
    overlimits: u32,
    /// The ceilings that are shared with other trees; few.
    leases: Vec<(u16, Lease)>,
}

/// Numbers of a class for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Wire bytes and segments that left through the class.
    pub sent: (u64, u64),
    /// Packets sent with the class's own tokens, by itself or by a class below.
    pub lent: u32,
    /// Packets sent with the tokens of a class above.
    pub borrowed: u32,
    /// Tokens of its rate, in ticks.
    pub tokens: i64,
    /// Tokens of its ceiling, in ticks.
    pub ctokens: i64,
    /// Times that the class ran out of the ceiling's tokens.
    pub overlimits: u32,
    /// Packets dropped on their way into the class.
    pub drops: u32,
    /// Bytes of a turn.
    pub quantum: u32,
    /// Level; 0 for a leaf.
    pub level: u8,
}

impl Default for Borrow {
    fn default() -> Self {
        Self::new()
    }
}

impl Borrow {
    /// Returns an empty set of classes.
    pub fn new() -> Self {
        Self {
            hot: Vec::new(),
            cold: Vec::new(),
            inner: Vec::new(),
            free: Vec::new(),
            free_inner: Vec::new(),
            minors: Minors::default(),
            leaves_by_minor: Minors::default(),
            rows: Box::new([const { Bits::new() }; LEVELS * PRIOS]),
            row_turns: Box::new([NONE; LEVELS * PRIOS]),
            row_mask: [0; LEVELS],
            level_mask: 0,
            wheel: Wheel::with_capacity(0),
            asleep: Instant::MAX,
            due: [Ends { head: NONE, tail: NONE }; LEVELS],
            due_mask: 0,
            leaves: 0,
            overlimits: 0,
            leases: Vec::new(),
        }
    }

    // --- classes

    /// True if there is no room for one more class.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.hot.len() >= CLASSES_MAX
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
    /// True if the class has no classes below.
    #[inline]
    pub fn is_leaf(&self, i: usize) -> bool {
        self.hot[i].level == 0
    }
    /// Returns the slots of the classes below, by minor number.
    pub fn children(&self, i: usize) -> &[u16] {
        self.inner.get(usize::from(self.hot[i].inner)).map_or(&[], |inner| &inner.children)
    }
    /// True if a class below this one would be too deep.
    pub(crate) fn is_deepest(&self, i: usize) -> bool {
        // Level 0 of a leaf does not tell its depth, but the level of the class above does.
        let above = self.hot.get(usize::from(self.hot[i].parent));
        above.is_some_and(|above| above.level < 2)
    }

    /// Adds a class with full buckets and a minor number not yet in use, below the class in a slot
    /// or at the root. A leaf above it, in which no packet may wait, is a leaf no longer. Returns
    /// the slot of the new class.
    pub fn add(&mut self, minor: u16, parent: Option<usize>, shape: &Shape, now: Instant) -> usize {
        let i = match self.free.pop() {
            Some(i) => usize::from(i),
            None => {
                self.hot.push(vacant());
                self.cold.push(Cold::default());
                self.wheel.reserve(self.hot.len() as u32);
                self.hot.len() - 1
            }
        };
        self.hot[i] = Hot { minor, checked: now, ..vacant() };
        self.cold[i] = Cold::default();
        self.minors.set(minor, Some(i));
        self.leaves_by_minor.set(minor, Some(i));
        if let Some(p) = parent {
            self.adopt(p, i);
        }
        self.set(i, shape);
        self.cold[i].depths = (shape.buffer, shape.cbuffer);
        self.cold[i].filled = now;
        self.refill(i);
        i
    }

    /// Gives a class another shape. Its tokens, mode and turns stay, and so does the priority in
    /// which it waits.
    pub fn set(&mut self, i: usize, shape: &Shape) {
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
        self.make_room(i);
    }

    /// Sets the ceiling that a class shares with classes elsewhere, beside its own, or removes it.
    pub fn share(&mut self, i: usize, lease: Option<Lease>) {
        self.leases.retain(|(slot, _)| usize::from(*slot) != i);
        // Slots are below `CLASSES_MAX`.
        self.leases.extend(lease.map(|lease| (i as u16, lease)));
    }
    /// Returns the ceiling that a class shares.
    pub fn shared(&self, i: usize) -> Option<&Lease> {
        self.leases.iter().find(|(slot, _)| usize::from(*slot) == i).map(|(_, lease)| lease)
    }

    /// Removes a leaf in which no packet waits. Returns the slot of the class above if that is a
    /// leaf again, with full buckets.
    pub fn remove(&mut self, i: usize, now: Instant) -> Option<usize> {
        self.deactivate(i);
        self.unwait(i);
        self.share(i, None);
        let Hot { parent, minor, rank, .. } = self.hot[i];
        self.minors.set(minor, None);
        self.leaves_by_minor.set(minor, None);
        self.hot[i] = vacant();
        // Slots are below `CLASSES_MAX`.
        self.free.push(i as u16);
        let p = usize::from(parent);
        let inner = usize::from(self.hot.get(p)?.inner);
        self.inner[inner].children.remove(usize::from(rank));
        for feed in &mut self.inner[inner].feeds {
            feed.shift_down(usize::from(rank));
        }
        for at in usize::from(rank)..self.inner[inner].children.len() {
            self.hot[usize::from(self.inner[inner].children[at])].rank = at as u16;
        }
        if !self.inner[inner].children.is_empty() {
            return None;
        }
        self.unwait(p);
        self.free_inner.push(inner as u16);
        let hot = &mut self.hot[p];
        (hot.level, hot.inner) = (0, NONE);
        self.leaves_by_minor.set(hot.minor, Some(p));
        self.cold[p].depths = (hot.buffer, hot.cbuffer);
        self.cold[p].filled = now;
        self.refill(p);
        Some(p)
    }

    /// Makes all classes inactive and restores the buckets of a class that never sent a packet.
    pub fn reset(&mut self) {
        self.rest();
        for i in 0..self.hot.len() {
            self.unwait(i);
            self.refill(i);
        }
        self.leases.iter_mut().for_each(|(_, lease)| lease.restart());
        self.wheel.clear();
        self.asleep = Instant::MAX;
        self.row_turns.fill(NONE);
        self.overlimits = 0;
    }

    /// Restores the state of a class when its buckets were last made full.
    fn refill(&mut self, i: usize) {
        let (Cold { filled, depths, .. }, hot) = (self.cold[i], &mut self.hot[i]);
        (hot.mode, hot.checked) = (Mode::CanSend, filled);
        hot.tokens = i64::from(depths.0) * TICK_NS as i64;
        hot.ctokens = i64::from(depths.1) * TICK_NS as i64;
        hot.turns = [if hot.level == 0 { 0 } else { NO_TURN }; LEVELS];
    }

    /// Makes all leaves inactive.
    pub fn rest(&mut self) {
        for i in 0..self.hot.len() {
            if self.hot[i].level == 0 {
                self.deactivate(i);
            }
        }
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
    /// Counts a packet that was dropped on its way into a class.
    #[cold]
    pub(crate) fn count_drop(&mut self, i: usize) {
        self.cold[i].drops = self.cold[i].drops.wrapping_add(1);
    }

    /// Puts a class below another.
    fn adopt(&mut self, p: usize, i: usize) {
        if self.hot[p].level == 0 {
            self.deactivate(p);
            self.unwait(p);
            let above =
                self.hot.get(usize::from(self.hot[p].parent)).map_or(LEVELS as u8, |above| above.level);
            let inner = self.free_inner.pop().unwrap_or_else(|| {
                self.inner.push(Inner::default());
                // There are at most as many as classes.
                (self.inner.len() - 1) as u16
            });
            let hot = &mut self.hot[p];
            (hot.level, hot.inner) = (above.saturating_sub(1).max(1), inner);
            (hot.mode, hot.turns) = (Mode::CanSend, [NO_TURN; LEVELS]);
            self.leaves_by_minor.set(hot.minor, None);
        }
        let minor = self.hot[i].minor;
        let inner = &mut self.inner[usize::from(self.hot[p].inner)];
        let rank = inner.children.partition_point(|c| self.hot[usize::from(*c)].minor < minor);
        inner.children.insert(rank, i as u16);
        for at in rank..inner.children.len() {
            self.hot[usize::from(inner.children[at])].rank = at as u16;
        }
        for feed in inner.feeds.iter_mut().filter(|feed| feed.capacity() > 0) {
            feed.reserve(inner.children.len());
            feed.shift_up(rank);
        }
        self.hot[i].parent = p as u16;
    }

    /// Makes room in every row and feed in which a class or those above may stand for its packets.
    fn make_room(&mut self, i: usize) {
        let prio = usize::from(self.cold[i].prio);
        let mut at = i;
        // At most `LEVELS` rounds.
        loop {
            let Hot { level, minor, parent, .. } = self.hot[at];
            self.rows[usize::from(level) * PRIOS + prio].reserve(usize::from(minor) + 1);
            let Some(above) = self.hot.get(usize::from(parent)) else { return };
            let inner = &mut self.inner[usize::from(above.inner)];
            inner.feeds[prio].reserve(inner.children.len());
            at = usize::from(parent);
        }
    }
}

fn vacant() -> Hot {
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

/// Returns the bits of a mask, lowest first.
fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 8).then_some(bit)
    })
}
