//! The tables of a block and their changes: each change applies whole or not at all.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::numbers::{FIRST, LAST, Numbers};
use super::{BUCKET, DIVISOR_MAX, KEYS_MAX, Match, NODE, Place, Selector, TABLE, U32};
use crate::classify::counters::Counters;
use crate::classify::filter::chain::{exists, not_found};
use crate::classify::filter::{Bound, Existence};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};

/// All tables of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    /// The tables, by slot; a table keeps its slot.
    pub(super) tables: Vec<Option<Arc<Hash>>>,
    /// Slots without a table.
    vacant: Vec<u32>,
    numbers: Numbers,
    /// The slots of the tables of each priority, in the order in which they were made.
    places: BTreeMap<Place, Vec<u32>>,
    /// Number of roots.
    roots: u32,
    /// Number of filters.
    filters: usize,
}

/// A hash table.
#[derive(Clone, Debug)]
pub(super) struct Hash {
    /// Number of the table.
    id: u32,
    /// Chain and priority that own the table.
    place: Place,
    root: bool,
    /// Number of filters that link to the table.
    refs: u32,
    /// The number of buckets, less one.
    pub(super) mask: u32,
    pub(super) buckets: Box<[Vec<Node>]>,
}

/// A filter in its bucket.
#[derive(Clone, Debug)]
pub(super) struct Node {
    id: u32,
    /// The slot of the table that it links to.
    pub(super) link: Option<u32>,
    pub(super) selector: Selector,
    /// The filter as it was put, without its selector.
    pub(super) rest: Match,
    /// The goal. Its counters: tries, decisions, matches of the mark, and matches of each key.
    pub(super) goal: Bound,
}

impl Node {
    /// True if the filter has a goal of its own.
    #[inline]
    pub(super) fn terminal(&self) -> bool {
        self.rest.decides || !self.goal.class.is_none() || !self.goal.actions.is_empty()
    }
    fn rule(&self, table: Option<u32>) -> U32 {
        let selector = Some(self.selector.clone());
        U32::Filter(Box::new(Match { table, selector, ..self.rest.clone() }))
    }
}

fn refused(kind: ErrorKind, key: &str, expected: impl ToString, given: u32) -> ConfigError {
    ConfigError::new(kind, Object::Filter(Some("u32")), expected, text(given)).key(key)
}

/// Returns a handle as tc writes it.
fn text(handle: u32) -> alloc::string::String {
    let (table, bucket, node) = (handle >> 20, (handle & BUCKET) >> 12, handle & NODE);
    match (bucket, node) {
        (0, 0) => format!("{table:x}:"),
        (0, node) => format!("{table:x}::{node:x}"),
        (bucket, 0) => format!("{table:x}:{bucket:x}:"),
        (bucket, node) => format!("{table:x}:{bucket:x}:{node:x}"),
    }
}

/// Place of a filter: the slot of its table, its bucket, its index there.
#[derive(Clone, Copy)]
struct At {
    slot: u32,
    bucket: usize,
    index: usize,
}

impl Common {
    #[inline]
    pub(super) fn table(&self, slot: u32) -> Option<&Hash> {
        self.tables.get(slot as usize)?.as_deref()
    }
    fn table_mut(&mut self, slot: u32) -> Option<&mut Hash> {
        self.tables.get_mut(slot as usize)?.as_mut().map(Arc::make_mut)
    }
    /// Returns the slot of a table by its number.
    fn slot(&self, id: u32) -> Option<u32> {
        self.numbers.slot(id)
    }
    /// True if there is at most one priority, and it has no filters.
    pub(in crate::classify::filter) const fn is_empty(&self) -> bool {
        self.roots <= 1 && self.filters == 0
    }

    fn add(&mut self, id: u32, place: Place, root: bool, divisor: u16) -> u32 {
        let buckets = (0..divisor).map(|_| Vec::new()).collect();
        let mask = u32::from(divisor.saturating_sub(1));
        let table = Some(Arc::new(Hash { id, place, root, refs: 0, mask, buckets }));
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.tables.push(None);
            u32::try_from(self.tables.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.tables.get_mut(slot as usize) {
            *place = table;
        }
        self.numbers.give(id, slot);
        self.places.entry(place).or_default().push(slot);
        slot
    }

    pub(super) fn add_root(&mut self, place: Place) -> u32 {
        self.roots += 1;
        // A table without a number can be walked, but not named.
        let id = self.numbers.free().unwrap_or(LAST + 1);
        self.add(id, place, true, 1)
    }

    /// Removes a priority. Returns the goals that die with it.
    pub(super) fn remove_root(&mut self, root: u32) -> Vec<Bound> {
        self.roots = self.roots.saturating_sub(1);
        match self.roots {
            0 => {
                let slots = 0..u32::try_from(self.tables.len()).unwrap_or(u32::MAX);
                let gone = slots.flat_map(|slot| self.remove(slot)).collect();
                // Numbers begin anew with the next first priority.
                *self = Self::default();
                gone
            }
            _ => self.remove(root),
        }
    }

    /// Removes a table with its filters. Returns their goals.
    fn remove(&mut self, slot: u32) -> Vec<Bound> {
        let Some(table) = self.tables.get_mut(slot as usize).and_then(Option::take) else {
            return Vec::new();
        };
        self.vacant.push(slot);
        self.numbers.take_back(table.id);
        if let Some(slots) = self.places.get_mut(&table.place) {
            slots.retain(|s| *s != slot);
            if slots.is_empty() {
                self.places.remove(&table.place);
            }
        }
        let mut goals = Vec::new();
        for node in table.buckets.iter().flatten() {
            self.release(node.link);
            goals.push(node.goal.clone());
        }
        self.filters = self.filters.saturating_sub(goals.len());
        goals
    }

    fn release(&mut self, link: Option<u32>) {
        if let Some(table) = link.and_then(|slot| self.table_mut(slot)) {
            table.refs = table.refs.saturating_sub(1);
        }
    }

    /// Returns the place of the filter with a handle.
    fn at(&self, handle: u32) -> Option<At> {
        let slot = self.slot(handle >> 20)?;
        let bucket = ((handle & BUCKET) >> 12) as usize;
        let index = self.table(slot)?.buckets.get(bucket)?.binary_search_by_key(&(handle & NODE), |n| n.id);
        Some(At { slot, bucket, index: index.ok()? })
    }

    pub(super) fn put(
        &mut self,
        root: u32,
        handle: u32,
        rule: &U32,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        match rule {
            U32::Root => {
                let expected = "a filter or a table of its own";
                Err((refused(ErrorKind::Unsupported, "handle", expected, handle), goal))
            }
            // A table has no goal.
            U32::Table(divisor) => match self.put_table(root, handle, *divisor, existence) {
                Ok(id) => Ok((id << 20, Some(goal))),
                Err(err) => Err((err, goal)),
            },
            U32::Filter(rule) => match self.there(handle, existence) {
                Ok(Some(at)) => self.change(at, handle, rule, goal, ids),
                Ok(None) => self.insert(root, handle, rule, goal, ids).map(|handle| (handle, None)),
                Err(err) => Err((err, goal)),
            },
        }
    }

    fn put_table(
        &mut self,
        root: u32,
        handle: u32,
        divisor: u16,
        existence: Existence,
    ) -> Result<u32, ConfigError> {
        if handle & !TABLE != 0 {
            let expected = "the handle of a table, as divisor makes one";
            return Err(refused(ErrorKind::Conflict, "divisor", expected, handle));
        }
        if !divisor.is_power_of_two() || divisor > DIVISOR_MAX {
            let expected = format!("a power of two up to {DIVISOR_MAX}");
            let err = ConfigError::new(ErrorKind::OutOfRange, Object::Filter(Some("u32")), expected, divisor);
            return Err(err.key("divisor"));
        }
        let id = handle >> 20;
        let id = match (self.slot(id).filter(|_| id != 0), existence) {
            // The last number stands for the root.
            (None, _) if id == LAST => return Err(exists("u32", handle)),
            (Some(_), _) => return Err(exists("u32", handle)),
            (None, Existence::Change) => return Err(not_found("u32", handle)),
            (None, _) if id != 0 => id,
            (None, _) => self.numbers.free().ok_or_else(|| {
                refused(ErrorKind::OutOfRange, "divisor", "a number that is free for a table", handle)
            })?,
        };
        let place = self.table(root).map(|t| t.place).unwrap_or_default();
        self.add(id, place, false, divisor);
        Ok(id)
    }

    /// Returns the place of the filter that a command names, `None` for a new one, if `existence`
    /// allows it.
    fn there(&self, handle: u32, existence: Existence) -> Result<Option<At>, ConfigError> {
        if handle & TABLE != 0 && handle & NODE == 0 && self.slot(handle >> 20).is_some() {
            return Err(exists("u32", handle));
        }
        match (self.at(handle), existence) {
            (Some(_), Existence::Add) => Err(exists("u32", handle)),
            (Some(at), _) => Ok(Some(at)),
            (None, Existence::Change) => Err(not_found("u32", handle)),
            (None, _) => Ok(None),
        }
    }

    /// Returns the slot of the table that a filter links to.
    fn link(&self, rule: &Match) -> Result<Option<u32>, ConfigError> {
        let Some(link) = rule.link.filter(|link| *link != 0) else { return Ok(None) };
        if link & !TABLE != 0 {
            return Err(refused(ErrorKind::BadValue, "link", "a table", link));
        }
        let Some(slot) = self.slot(link >> 20) else {
            return Err(refused(ErrorKind::NotFound, "link", "a table that exists", link));
        };
        match self.table(slot) {
            Some(table) if table.root => {
                Err(refused(ErrorKind::Conflict, "link", "a table that divisor has made", link))
            }
            _ => Ok(Some(slot)),
        }
    }

    fn change(
        &mut self,
        at: At,
        handle: u32,
        rule: &Match,
        goal: Bound,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        let mut new = Match { table: None, selector: None, ..rule.clone() };
        let selector = rule.selector.clone();
        let link = match check(selector.as_ref()).and_then(|()| self.link(rule)) {
            Ok(link) => link,
            Err(err) => return Err((err, goal)),
        };
        if let Some(table) = link.and_then(|slot| self.table_mut(slot)) {
            table.refs += 1;
        }
        let bucket = self.table_mut(at.slot).and_then(|t| t.buckets.get_mut(at.bucket));
        let Some(node) = bucket.and_then(|b| b.get_mut(at.index)) else {
            self.release(link);
            return Err((not_found("u32", handle), goal));
        };
        let mut gone = None;
        if selector.is_some() || rule.link.is_some() {
            gone = core::mem::replace(&mut node.link, link);
        } else {
            new.link = node.rest.link;
        }
        new.link = new.link.filter(|link| *link != 0);
        let mut goal = goal;
        match selector {
            Some(selector) => {
                if selector.keys.len() != node.selector.keys.len() {
                    goal.hits = counters(&selector, ids);
                }
                node.selector = selector;
            }
            None => {
                new.mark = new.mark.or(node.rest.mark);
                new.indev = new.indev.or(node.rest.indev.take());
            }
        }
        node.rest = new;
        let old = match goal.hits {
            0 => node.goal.replace(goal),
            _ => core::mem::replace(&mut node.goal, goal),
        };
        self.release(gone);
        Ok((handle, Some(old)))
    }

    /// Returns the slot, the bucket and the number of a new filter.
    fn place(&self, root: u32, handle: u32, rule: &Match) -> Result<(u32, usize, u32), ConfigError> {
        let said = rule.table.filter(|t| *t != 0 && t & TABLE != TABLE);
        let slot = match said {
            None => root,
            Some(said) => self
                .slot(said >> 20)
                .ok_or_else(|| refused(ErrorKind::NotFound, "ht", "a table that exists", said & TABLE))?,
        };
        let table = self.table(slot);
        let (id, mask) = table.map_or((0, 0), |t| (t.id, t.mask));
        if handle >> 20 != 0 && handle >> 20 != id {
            let expected = format!("a handle in table {id:x}:");
            let hint = "ht chooses the table; without it a filter is in the root of its priority";
            return Err(refused(ErrorKind::Conflict, "handle", expected, handle).hint(hint));
        }
        let bucket = (rule.table.unwrap_or(0) & BUCKET) >> 12;
        if bucket > mask {
            let expected = format!("a bucket of table {id:x}:, up to {mask:x}");
            return Err(refused(ErrorKind::OutOfRange, "ht", expected, said.unwrap_or(bucket << 12)));
        }
        let nodes = table.and_then(|t| t.buckets.get(bucket as usize)).map_or(&[][..], |b| b);
        let used = |id: &u32| nodes.binary_search_by_key(id, |n| n.id).is_ok();
        let node = match handle & NODE {
            // The search goes from the middle on, and then from the front.
            0 => {
                let free = free_from(nodes, FIRST).or_else(|| free_from(nodes, 1));
                free.ok_or_else(|| {
                    let err = refused(ErrorKind::OutOfRange, "ht", "a bucket that is not full", id << 20);
                    err.reason(Reason::NumberTaken)
                })?
            }
            node if used(&node) => {
                return Err(exists("u32", id << 20 | bucket << 12 | node).reason(Reason::NumberTaken));
            }
            node => node,
        };
        Ok((slot, bucket as usize, node))
    }

    fn insert(
        &mut self,
        root: u32,
        handle: u32,
        rule: &Match,
        goal: Bound,
        ids: &mut Counters,
    ) -> Result<u32, (ConfigError, Bound)> {
        let checked = check(rule.selector.as_ref()).and_then(|()| {
            let (place, link) = (self.place(root, handle, rule)?, self.link(rule)?);
            let selector = rule.selector.clone();
            Ok((place, link, selector.ok_or_else(nothing)?))
        });
        let ((slot, bucket, id), link, selector) = match checked {
            Ok(checked) => checked,
            Err(err) => return Err((err, goal)),
        };
        let link_said = rule.link.filter(|link| *link != 0);
        let rest = Match { table: None, selector: None, link: link_said, ..rule.clone() };
        let node = Node { id, link, goal: Bound { hits: counters(&selector, ids), ..goal }, selector, rest };
        if let Some(table) = link.and_then(|slot| self.table_mut(slot)) {
            table.refs += 1;
        }
        let mut table = 0;
        if let Some(hash) = self.table_mut(slot) {
            table = hash.id;
            if let Some(nodes) = hash.buckets.get_mut(bucket) {
                let at = nodes.partition_point(|n| n.id < id);
                nodes.insert(at, node);
            }
        }
        self.filters += 1;
        // A bucket is a number below `DIVISOR_MAX`.
        Ok(table << 20 | (bucket as u32) << 12 | id)
    }

    /// Removes a filter or a table. Returns the goals that die with it.
    pub(in crate::classify::filter) fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        if handle & NODE != 0 {
            let at = self.at(handle).ok_or_else(|| not_found("u32", handle))?;
            let bucket = self.table_mut(at.slot).and_then(|t| t.buckets.get_mut(at.bucket));
            let node = bucket.map(|b| b.remove(at.index)).ok_or_else(|| not_found("u32", handle))?;
            self.release(node.link);
            self.filters = self.filters.saturating_sub(1);
            return Ok(vec![node.goal]);
        }
        let slot = self.slot(handle >> 20).filter(|_| handle & BUCKET == 0);
        let Some((slot, table)) = slot.and_then(|slot| Some((slot, self.table(slot)?))) else {
            return Err(not_found("u32", handle));
        };
        if table.root {
            let expected = "a table that divisor has made";
            let err = refused(ErrorKind::Conflict, "handle", expected, handle);
            return Err(err.reason(Reason::OfParent));
        }
        if table.refs > 0 {
            let given = format!("{}, held by {}", text(handle), table.refs);
            let err = ConfigError::new(
                ErrorKind::Conflict,
                Object::Filter(Some("u32")),
                "a table that no filter links to",
                given,
            );
            return Err(err.key("handle").reason(Reason::InUse));
        }
        Ok(self.remove(slot))
    }

    /// Visits the tables of the priority with this root, the newest first, each with its filters.
    pub(super) fn visit(&self, root: u32, f: super::Visit<'_, U32>) {
        let place = self.table(root).map(|t| t.place).unwrap_or_default();
        let slots = self.places.get(&place).into_iter().flatten().rev();
        slots.filter_map(|slot| self.table(*slot)).for_each(|table| table.visit(f));
    }

    /// Visits the tables whose priority is gone, by number, each with its filters.
    pub(in crate::classify::filter) fn visit_left(&self, f: super::Visit<'_, U32>) {
        let is_left = |slots: &&Vec<u32>| !slots.iter().any(|s| self.table(*s).is_some_and(|t| t.root));
        let slots = self.places.values().filter(is_left).flatten();
        let mut tables: Vec<&Hash> = slots.filter_map(|slot| self.table(*slot)).collect();
        tables.sort_by_key(|table| table.id);
        tables.into_iter().for_each(|table| table.visit(f));
    }

    pub(in crate::classify::filter) fn find(&self, handle: u32, f: &mut dyn FnMut(&U32, &Bound, u32)) {
        if handle & NODE == 0 {
            let slot = self.slot(handle >> 20).filter(|_| handle & BUCKET == 0);
            if let Some(table) = slot.and_then(|slot| self.table(slot)) {
                f(&table.rule(), &Bound::default(), 0);
            }
        } else if let Some(at) = self.at(handle)
            && let Some(table) = self.table(at.slot)
            && let Some(node) = table.buckets.get(at.bucket).and_then(|b| b.get(at.index))
        {
            f(&node.rule(table.named(handle & !NODE)), &node.goal, node.goal.hits);
        }
    }
}

impl Hash {
    /// Visits the table and its filters.
    fn visit(&self, f: super::Visit<'_, U32>) {
        f(self.id << 20, &self.rule(), &Bound::default(), 0);
        for (handle, bucket) in self.handles() {
            for node in bucket {
                f(handle | node.id, &node.rule(self.named(handle)), &node.goal, node.goal.hits);
            }
        }
    }
    fn rule(&self) -> U32 {
        match self.root {
            true => U32::Root,
            // The mask is below `DIVISOR_MAX`.
            false => U32::Table(self.mask as u16 + 1),
        }
    }
    /// Returns each bucket with its handle.
    fn handles(&self) -> impl Iterator<Item = (u32, &Vec<Node>)> {
        (0u32..).zip(self.buckets.iter()).map(|(bucket, nodes)| (self.id << 20 | bucket << 12, nodes))
    }
    /// Returns the table that a filter in a bucket names: none for the root.
    fn named(&self, handle: u32) -> Option<u32> {
        (!self.root).then_some(handle)
    }
}

/// Takes the numbers of a filter's counters.
fn counters(selector: &Selector, ids: &mut Counters) -> u32 {
    // There are at most `KEYS_MAX` keys.
    ids.take(3 + u16::try_from(selector.keys.len()).unwrap_or(0))
}

/// Returns the least number from `first` on that no filter of a bucket has.
fn free_from(nodes: &[Node], first: u32) -> Option<u32> {
    let from = nodes.partition_point(|n| n.id < first);
    let nodes = nodes.get(from..).unwrap_or_default();
    // The numbers rise, so that those before the first gap are as far from `first` as their places.
    let (mut low, mut high) = (0, nodes.len());
    // Bound: the bits of the number of filters, because each step halves the rest.
    while low < high {
        let middle = low.midpoint(high);
        let is_dense = nodes.get(middle).is_some_and(|n| (n.id - first) as usize == middle);
        (low, high) = if is_dense { (middle + 1, high) } else { (low, middle) };
    }
    u32::try_from(low).ok().map(|low| first + low).filter(|id| *id <= LAST)
}

fn nothing() -> ConfigError {
    ConfigError::new(ErrorKind::Missing, Object::Filter(Some("u32")), "what to match", "").key("match")
}

fn check(selector: Option<&Selector>) -> Result<(), ConfigError> {
    let Some(selector) = selector else { return Ok(()) };
    if selector.keys.len() > KEYS_MAX {
        let expected = format!("at most {KEYS_MAX} words of a packet");
        return Err(ConfigError::new(
            ErrorKind::OutOfRange,
            Object::Filter(Some("u32")),
            expected,
            selector.keys.len(),
        )
        .key("match"));
    }
    match selector.offset.and_then(|o| o.read).filter(|read| read.shift > 15) {
        Some(read) => {
            let err = ConfigError::new(
                ErrorKind::OutOfRange,
                Object::Filter(Some("u32")),
                "a shift below 16",
                read.shift,
            );
            Err(err.key("offset"))
        }
        None => Ok(()),
    }
}
