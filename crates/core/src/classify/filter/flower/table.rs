//! The filters of a table, by mask and by handle.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::index::Index;
use super::key::{self, Words};
use super::{Flower, RANGE, WORDS};
use crate::base::free::FreeNumbers;
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::filter::chain::{exists, not_found};
use crate::classify::filter::{Bound, Decision, Existence, Filtering, Visit};
use crate::classify::packet::Packet;
use crate::packet::hash::FlowHasher;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Largest number of slots of a mask that are compared one after the other: a hash costs more.
const FEW: usize = 3;

/// The filters of one priority and protocol.
#[derive(Clone, Debug)]
pub struct Table {
    hasher: FlowHasher,
    /// Masks in the order of their addition, which is that of their numbers.
    masks: Vec<Mask>,
    masks_made: u64,
    /// Mask number and slot of each filter.
    handles: BTreeMap<u32, (u64, u32)>,
    free: FreeNumbers,
    /// The words that any mask has.
    needs: u32,
}

/// The filters of one mask.
#[derive(Clone, Debug)]
struct Mask {
    number: u64,
    /// The words of the mask, each with its bits.
    bits: Vec<(usize, u64)>,
    /// The words of each slot, as given, `bits.len()` of them.
    keys: Vec<u64>,
    slots: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    index: Index,
    /// The filters with ranges, in their order: number and slot.
    ranged: BTreeMap<u64, u32>,
    ranges_made: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    handle: u32,
    skip_hw: bool,
    indev: Option<Box<str>>,
    /// Number among the filters with ranges.
    order: u64,
    goal: Bound,
}

/// Returns a range as a word: first and last source port, first and last destination port.
fn range(rule: &Flower) -> u64 {
    let part =
        |ports: Option<(u16, u16)>| ports.map_or(0, |(min, max)| u64::from(min) << 16 | u64::from(max));
    part(rule.src_ports) << 32 | part(rule.dst_ports)
}

/// Returns the bits of the range word that a rule has.
fn range_mask(rule: &Flower) -> u64 {
    let part = |ports: Option<(u16, u16)>| if ports.is_some() { 0xffff_ffff } else { 0 };
    part(rule.src_ports) << 32 | part(rule.dst_ports)
}

const fn first_and_last(part: u64) -> (u16, u16) {
    ((part >> 16) as u16, part as u16) // its two halves
}

/// True if the ports of a packet (word 4 of its key) are in a range.
fn in_range(range: u64, mask: u64, ports: u64) -> bool {
    let is = |shift: u32, port: u64| {
        let (first, last) = first_and_last(range >> shift);
        (mask >> shift) as u32 == 0 || (u64::from(first)..=u64::from(last)).contains(&(port & 0xffff))
    };
    is(32, ports) && is(0, ports >> 16)
}

/// Returns the words that a rule's mask has, with their bits.
fn bits_of(rule: &Flower) -> Vec<(usize, u64)> {
    let all = rule.mask.iter().copied().chain([range_mask(rule)]).enumerate();
    all.filter(|(_, bits)| *bits != 0).collect()
}

/// Returns all words of a rule.
fn words_of(rule: &Flower) -> Words {
    let mut words = [0; WORDS + 1];
    words[..WORDS].copy_from_slice(&rule.key);
    words[RANGE] = range(rule);
    words
}

impl Mask {
    fn new(number: u64, bits: Vec<(usize, u64)>) -> Self {
        Self {
            number,
            bits,
            keys: Vec::new(),
            slots: Vec::new(),
            vacant: Vec::new(),
            index: Index::default(),
            ranged: BTreeMap::new(),
            ranges_made: 0,
        }
    }

    /// Returns the words of a packet that a look-up reads, one bit each.
    fn needs(&self) -> u32 {
        // A range reads the ports, word 4.
        self.bits.iter().fold(0, |needs, (word, _)| needs | if *word == RANGE { 1 << 4 } else { 1 << word })
    }

    fn range_bits(&self) -> Option<u64> {
        self.bits.last().filter(|(word, _)| *word == RANGE).map(|(_, bits)| *bits)
    }

    #[inline]
    fn key(&self, slot: u32) -> &[u64] {
        let at = slot as usize * self.bits.len();
        &self.keys[at..at + self.bits.len()]
    }

    #[inline]
    fn hash(&self, words: &Words, hasher: &FlowHasher) -> u32 {
        hasher.words(self.bits.iter().map(|(word, bits)| words[*word] & bits))
    }

    /// True if the key of a slot equals these words under the mask.
    #[inline]
    fn is(&self, slot: u32, words: &Words) -> bool {
        self.key(slot).iter().zip(&self.bits).all(|(key, (word, bits))| (key ^ words[*word]) & bits == 0)
    }

    /// Returns the slot with these words, the range included.
    #[inline]
    fn find(&self, words: &Words, hasher: &FlowHasher) -> Option<u32> {
        if self.slots.len() <= FEW {
            // The number of slots is below four.
            let there = |slot: &u32| self.slots[*slot as usize].is_some() && self.is(*slot, words);
            return (0..self.slots.len() as u32).find(there);
        }
        self.index.find(self.hash(words, hasher), |slot| self.is(slot, words))
    }

    /// Returns the filter for the words of a packet.
    #[inline]
    fn of_packet(&self, words: &mut Words, hasher: &FlowHasher) -> Option<&Entry> {
        let slot = match self.range_bits() {
            None => self.find(words, hasher),
            Some(bits) => self.of_ranges(words, bits, hasher),
        }?;
        self.slots[slot as usize].as_ref()
    }

    fn of_ranges(&self, words: &mut Words, bits: u64, hasher: &FlowHasher) -> Option<u32> {
        let ports = words[4];
        for slot in self.ranged.values() {
            let Some(range) = self.key(*slot).last() else { continue };
            if !in_range(*range, bits, ports) {
                continue;
            }
            words[RANGE] = *range;
            // Another filter with the same range may have the packet's key.
            let found = if self.is(*slot, words) { Some(*slot) } else { self.find(words, hasher) };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn write(&mut self, slot: u32, words: &Words) {
        let at = slot as usize * self.bits.len();
        for (place, (word, _)) in self.keys[at..].iter_mut().zip(&self.bits) {
            *place = words[*word];
        }
    }

    fn insert(&mut self, words: &Words, mut entry: Entry, hasher: &FlowHasher) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.keys.resize(self.slots.len() * self.bits.len(), 0);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.write(slot, words);
        self.index.insert(self.hash(words, hasher), slot);
        if self.range_bits().is_some() {
            entry.order = self.ranges_made;
            self.ranges_made += 1;
            self.ranged.insert(entry.order, slot);
        }
        self.slots[slot as usize] = Some(entry);
        slot
    }

    /// Returns the words of a slot, zero outside its mask.
    fn words(&self, slot: u32) -> Words {
        let mut words = [0; WORDS + 1];
        for (key, (word, _)) in self.key(slot).iter().zip(&self.bits) {
            words[*word] = *key;
        }
        words
    }

    fn remove(&mut self, slot: u32, hasher: &FlowHasher) -> Option<Entry> {
        self.index.remove(self.hash(&self.words(slot), hasher), slot);
        let entry = self.slots[slot as usize].take();
        self.vacant.push(slot);
        if let Some(entry) = &entry {
            self.ranged.remove(&entry.order);
        }
        entry
    }

    fn rule(&self, slot: u32, entry: &Entry) -> Flower {
        let words = self.words(slot);
        let mut rule = Flower { skip_hw: entry.skip_hw, indev: entry.indev.clone(), ..Flower::default() };
        rule.key.copy_from_slice(&words[..WORDS]);
        for (word, bits) in &self.bits {
            match rule.mask.get_mut(*word) {
                Some(mask) => *mask = *bits,
                None => {
                    let part = |shift: u32| {
                        let is = (bits >> shift) as u32 != 0;
                        is.then(|| first_and_last(words[RANGE] >> shift))
                    };
                    (rule.src_ports, rule.dst_ports) = (part(32), part(0));
                }
            }
        }
        rule
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Table {
    fn mask(&self, number: u64) -> Option<usize> {
        self.masks.binary_search_by_key(&number, |m| m.number).ok()
    }

    fn add(&mut self, handle: Option<u32>, rule: &Flower, goal: Bound) -> Result<u32, (ConfigError, Bound)> {
        let (bits, words) = (bits_of(rule), words_of(rule));
        let at = self.masks.iter().position(|m| m.bits == bits);
        if at.is_some_and(|at| self.masks[at].find(&words, &self.hasher).is_some()) {
            return Err((twin(), goal));
        }
        let at = at.unwrap_or_else(|| {
            self.masks.push(Mask::new(self.masks_made, bits));
            self.masks_made += 1;
            self.masks.len() - 1
        });
        let handle = handle.unwrap_or_else(|| self.free.lowest());
        self.free.take(handle);
        let entry = Entry { handle, skip_hw: rule.skip_hw, indev: rule.indev.clone(), order: 0, goal };
        let mask = &mut self.masks[at];
        let slot = mask.insert(&words, entry, &self.hasher);
        self.needs |= mask.needs();
        self.handles.insert(handle, (mask.number, slot));
        Ok(handle)
    }

    /// Gives the filter in a slot another key of the same mask, and another goal.
    fn replace(
        &mut self,
        (number, slot): (u64, u32),
        rule: &Flower,
        goal: Bound,
    ) -> Result<Option<Bound>, (ConfigError, Bound)> {
        let Some(at) = self.mask(number) else { return Err((not_found("flower", 0), goal)) };
        let (mask, words) = (&mut self.masks[at], words_of(rule));
        if mask.bits != bits_of(rule) {
            let expected = "the fields and masks that this filter has";
            let err =
                ConfigError::new(ErrorKind::Conflict, Object::Filter(Some("flower")), expected, "others");
            return Err((err.key("handle"), goal));
        }
        if mask.find(&words, &self.hasher).is_some_and(|there| there != slot) {
            return Err((twin(), goal));
        }
        let old = mask.hash(&mask.words(slot), &self.hasher);
        mask.index.remove(old, slot);
        mask.write(slot, &words);
        mask.index.insert(mask.hash(&words, &self.hasher), slot);
        let Some(entry) = &mut mask.slots[slot as usize] else {
            return Err((not_found("flower", 0), goal));
        };
        entry.skip_hw = rule.skip_hw;
        entry.indev.clone_from(&rule.indev);
        Ok(Some(entry.goal.replace(goal)))
    }
}

/// Error: another filter has the same fields and values.
fn twin() -> ConfigError {
    ConfigError::new(
        ErrorKind::Exists,
        Object::Filter(Some("flower")),
        "values that no filter of this priority has",
        "",
    )
}

impl Filtering for Table {
    type Rule = Flower;

    fn new(seed: u64) -> Self {
        Self {
            hasher: FlowHasher::new(seed),
            masks: Vec::new(),
            masks_made: 0,
            handles: BTreeMap::new(),
            free: FreeNumbers::default(),
            needs: 0,
        }
    }

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Flower,
        goal: Bound,
        existence: Existence,
        _: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        let handle = handle.filter(|h| *h != 0);
        match handle.and_then(|h| Some((h, *self.handles.get(&h)?))) {
            Some((handle, _)) if existence == Existence::Add => Err((exists("flower", handle), goal)),
            Some((handle, there)) => self.replace(there, rule, goal).map(|old| (handle, old)),
            None if existence == Existence::Change => Err((not_found("flower", handle.unwrap_or(0)), goal)),
            None => self.add(handle, rule, goal).map(|handle| (handle, None)),
        }
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        let Some((number, slot)) = self.handles.remove(&handle) else {
            return Err(not_found("flower", handle));
        };
        self.free.give(handle);
        let Some(at) = self.mask(number) else { return Ok(Vec::new()) };
        let mask = &mut self.masks[at];
        let gone = mask.remove(slot, &self.hasher);
        if mask.vacant.len() == mask.slots.len() {
            self.masks.remove(at);
            self.needs = self.masks.iter().fold(0, |needs, mask| needs | mask.needs());
        }
        Ok(gone.map(|entry| entry.goal).into_iter().collect())
    }

    fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    fn visit(&self, f: Visit<'_, Flower>) {
        for handle in self.handles.keys() {
            self.find(*handle, &mut |rule, goal, hits| f(*handle, rule, goal, hits));
        }
    }

    fn visit_made(&self, f: Visit<'_, Flower>) {
        for mask in &self.masks {
            let mut show = |slot: u32| {
                if let Some(Some(entry)) = mask.slots.get(slot as usize) {
                    f(entry.handle, &mask.rule(slot, entry), &entry.goal, 0);
                }
            };
            match mask.range_bits() {
                // Their order matters.
                Some(_) => mask.ranged.values().copied().for_each(show),
                None => (0..u32::try_from(mask.slots.len()).unwrap_or(u32::MAX)).for_each(&mut show),
            }
        }
    }

    fn find(&self, handle: u32, f: &mut dyn FnMut(&Flower, &Bound, u32)) {
        let Some((number, slot)) = self.handles.get(&handle) else { return };
        if let Some(mask) = self.mask(*number).map(|at| &self.masks[at])
            && let Some(Some(entry)) = mask.slots.get(*slot as usize)
        {
            debug_assert_eq!(entry.handle, handle);
            f(&mask.rule(*slot, entry), &entry.goal, 0);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let mut words = [0; WORDS + 1];
        key::read(packet, self.needs, &mut words);
        for mask in &self.masks {
            if let Some(entry) = mask.of_packet(&mut words, &self.hasher) {
                return entry.goal.decide(packet, run);
            }
        }
        Decision::Next
    }
}
