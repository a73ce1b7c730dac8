//! The hash tables of u32 in saved lines.
//!
//! No line chooses the number of a root: each priority takes the next default number when it is
//! made. And no line names a table whose priority is gone, though filters may link to it. So where
//! a root would take the number of a table, or a table has lost its priority, there are lines
//! around the others. A priority of their own takes the default numbers that tables have, while all
//! roots are made, and is removed then. Another one makes the tables that have lost theirs, and is
//! removed at the end.

use std::collections::BTreeSet;

use txweir_core::classify::filter::{Block, Bound, Rule, Table, U32};

use super::save::{Line, place_words};
use crate::filter;

/// The first default number of a table, and the number that stands for the root.
const DEFAULTS: std::ops::Range<u32> = 0x800..0xfff;

/// A hash table: its number, and its words.
pub(super) struct Hash {
    number: u32,
    words: String,
}

impl Hash {
    /// Returns a table; `None` for a filter or a root.
    fn of(handle: u32, rule: &Rule, goal: &Bound) -> Option<Self> {
        let Rule::U32(U32::Table(_)) = rule else { return None };
        let words = format!("handle {} u32{}", filter::handle_text(rule, handle), filter::words(rule, goal));
        Some(Self { number: handle >> 20, words })
    }
    fn line(&self, place: &str) -> Line {
        Line { verb: "filter replace", words: format!("{place} {}", self.words) }
    }
}

/// A priority of u32.
pub(super) struct Root {
    /// Its number.
    pub(super) number: u32,
    pub(super) chain: u32,
    place: String,
    /// Its tables, the oldest first.
    pub(super) tables: Vec<Hash>,
}

impl Root {
    pub(super) fn of(block: &Block, chain: u32, table: &Table) -> Self {
        let (mut number, mut tables) = (0, Vec::new());
        block.visit(table, &mut |handle, rule, goal, _| {
            if matches!(rule, Rule::U32(U32::Root)) {
                number = handle >> 20;
            }
            tables.extend(Hash::of(handle, &rule, goal));
        });
        // The newest is listed first.
        tables.reverse();
        Self { number, chain, place: place_words(chain, table), tables }
    }
    /// Returns the lines of its tables.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> {
        self.tables.iter().map(|table| table.line(&self.place))
    }
}

/// The lines around those of a block.
pub(super) struct Around {
    /// The tables that have lost their priority.
    lost: Vec<Hash>,
    /// The places of the two priorities.
    places: [String; 2],
    /// Two numbers that no table has.
    unused: [u32; 2],
    /// Number of default numbers up to the highest that a table has.
    taken: u32,
}

impl Around {
    /// Returns the lines that a block with these roots needs, which are in the order of their
    /// numbers; `None` if it needs none, or has no priority or no number left for them.
    pub(super) fn of(block: &Block, roots: &[Root]) -> Option<Self> {
        let mut lost = Vec::new();
        block.visit_left(&mut |handle, rule, goal, _| lost.extend(Hash::of(handle, &rule, goal)));
        if lost.is_empty() && !meet(roots) {
            return None;
        }
        let numbers: BTreeSet<u32> =
            roots.iter().flat_map(|root| &root.tables).chain(&lost).map(|table| table.number).collect();
        let highest = numbers.iter().rev().find(|number| DEFAULTS.contains(number));
        let taken = highest.map_or(0, |highest| highest - DEFAULTS.start + 1);
        let mut unused = (1..DEFAULTS.start).filter(|number| !numbers.contains(number));
        let unused = [unused.next()?, unused.next()?];
        let chain = roots.first()?.chain;
        let found = block.chain(chain)?;
        let used: BTreeSet<u16> = found.tables.iter().map(|table| table.prio).collect();
        let mut free = (1..=u16::MAX).rev().filter(|prio| !used.contains(prio));
        let chain = if chain == 0 { String::new() } else { format!(" chain {chain}") };
        let mut place = || Some(format!("{chain} protocol all prio {}", free.next()?));
        Some(Self { lost, places: [place()?, place()?], unused, taken })
    }

    /// Returns the lines that make the roots, with numbers beyond those of all tables.
    pub(super) fn before(&self, roots: &[Root]) -> Vec<Line> {
        let ([place, left], [first, second]) = (&self.places, self.unused);
        let make = |place: &str, number: u32| Line {
            verb: "filter add",
            words: format!("{place} handle {number:x}: u32 divisor 1"),
        };
        let remove = |place: &str, number: u32| Line {
            verb: "filter del",
            words: format!("{place} handle {number:x}: u32"),
        };
        // The root takes the first default number.
        let mut lines = vec![make(place, first)];
        let others = 1..self.taken.max(1);
        lines.extend(
            others.clone().map(|_| Line { verb: "filter add", words: format!("{place} u32 divisor 1") }),
        );
        let lost = (!self.lost.is_empty()).then_some(left);
        for place in roots.iter().map(|root| &root.place).chain(lost) {
            lines.extend([make(place, second), remove(place, second)]);
        }
        lines.extend(others.map(|other| remove(place, DEFAULTS.start + other)));
        lines.extend([remove(place, first), Line { verb: "filter del", words: place.clone() }]);
        lines
    }
    /// Returns the lines of the tables that have lost their priority.
    pub(super) fn tables(&self) -> impl Iterator<Item = Line> {
        self.lost.iter().map(|table| table.line(self.left()))
    }
    /// Returns the place that makes these tables.
    pub(super) fn left(&self) -> &str {
        &self.places[1]
    }
    /// Returns the line that removes that place.
    pub(super) fn after(&self) -> Option<Line> {
        (!self.lost.is_empty()).then(|| Line { verb: "filter del", words: self.left().into() })
    }
}

/// True if a root would take the number of a table: each takes the next default number that is free
/// when its first table is made.
fn meet(roots: &[Root]) -> bool {
    let (mut taken, mut next) = (BTreeSet::new(), DEFAULTS.start);
    for root in roots.iter().filter(|root| !root.tables.is_empty()) {
        while taken.contains(&next) {
            next += 1;
        }
        taken.insert(next);
        next += 1;
        if root.tables.iter().any(|table| !taken.insert(table.number)) {
            return true;
        }
    }
    false
}
