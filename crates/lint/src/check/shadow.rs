//! The filters of a place that come before another, and the first of them that covers it.

use std::collections::BTreeMap;

use super::matching::Match;

/// Most shapes that are kept. A place where filters have more different masks than people write
/// would cost the square of its filters; there, filters of further shapes are not told to cover
/// others.
const SHAPES_MAX: usize = 256;

/// The conditions of a match without their values: a match covers another one if that has the same
/// values in this shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    /// The meaning of the places; `None` without conditions, which is all packets.
    space: Option<&'static str>,
    /// The places with bits that count, and the masks.
    masks: Vec<((&'static str, i64), u8)>,
    /// The keys of conditions that are texts.
    keys: Vec<String>,
}

/// The values of a match in a shape: of the places, and of the texts.
type Values = (Vec<u8>, Vec<String>);

impl Shape {
    fn of(m: &Match) -> Self {
        let nothing = m.bits.is_empty() && m.texts.is_empty();
        let masks = m.bits.iter().map(|(place, (_, mask))| (*place, *mask));
        Self {
            space: (!nothing).then_some(m.space),
            masks: masks.filter(|(_, mask)| *mask != 0).collect(),
            keys: m.texts.keys().cloned().collect(),
        }
    }

    /// Returns the values of a match in this shape; `None` if some packets of the match differ in
    /// them.
    fn values(&self, m: &Match) -> Option<Values> {
        if self.space.is_some_and(|space| space != m.space) {
            return None;
        }
        let bits = self.masks.iter().map(|(place, mask)| {
            let (value, fixed) = m.bits.get(place)?;
            (fixed & mask == *mask).then_some(value & mask)
        });
        let texts = self.keys.iter().map(|key| m.texts.get(key).cloned());
        Some((bits.collect::<Option<_>>()?, texts.collect::<Option<_>>()?))
    }
}

/// Filters in the order in which they are asked.
#[derive(Debug)]
pub(super) struct Earlier<F> {
    filters: Vec<(F, Match)>,
    /// For each shape, the first filter of each protocol with the same values.
    shapes: BTreeMap<Shape, BTreeMap<String, BTreeMap<Values, usize>>>,
    /// Look-ups of values, for the test of the cost.
    #[cfg(test)]
    asked: std::cell::Cell<usize>,
}

impl<F> Default for Earlier<F> {
    fn default() -> Self {
        Self {
            filters: Vec::new(),
            shapes: BTreeMap::new(),
            #[cfg(test)]
            asked: std::cell::Cell::new(0),
        }
    }
}

impl<F> Earlier<F> {
    /// Adds a filter behind the others. `protocol` is `all`, or the one protocol that it sees.
    pub(super) fn push(&mut self, filter: F, protocol: &str, m: Match) {
        let shape = Shape::of(&m);
        let known = self.shapes.len() < SHAPES_MAX || self.shapes.contains_key(&shape);
        if let Some(values) = shape.values(&m).filter(|_| known) {
            let of_protocol = self.shapes.entry(shape).or_default().entry(protocol.to_string());
            of_protocol.or_default().entry(values).or_insert(self.filters.len());
        }
        self.filters.push((filter, m));
    }

    /// Returns the first filter that matches every packet of another, which sees `protocol`.
    pub(super) fn first_that_covers(&self, protocol: &str, m: &Match) -> Option<(&F, &Match)> {
        let mut first: Option<usize> = None;
        for (shape, protocols) in &self.shapes {
            let Some(values) = shape.values(m) else { continue };
            let wanted = ["all", protocol];
            for name in &wanted[..if protocol == "all" { 1 } else { 2 }] {
                #[cfg(test)]
                self.asked.set(self.asked.get() + 1);
                let at = protocols.get(*name).and_then(|all| all.get(&values)).copied();
                first = at.into_iter().chain(first).min();
            }
        }
        self.filters.get(first?).map(|(filter, m)| (filter, m))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a match of some bits of an address of four bytes.
    fn bits(value: u32, mask: u32) -> Match {
        let mut m = Match::nothing("bytes");
        m.put("", 12, &value.to_be_bytes(), &mask.to_be_bytes());
        m
    }

    /// The answers are those of a comparison with each earlier filter in turn.
    #[test]
    fn the_first_that_covers_is_found() {
        let mut state = 1u64;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let protocols = ["all", "ip", "ipv6"];
        let (mut earlier, mut list, mut covered) = (Earlier::default(), Vec::new(), 0);
        for n in 0..2000usize {
            let mask = [0, 0xff00_0000, 0xffff_0000, 0xffff_ffff, 0x0000_00ff][draw(5) as usize];
            let mut m = bits(draw(4) as u32 * 0x0101_0101, mask);
            if draw(4) == 0 {
                m.texts.insert("indev".into(), ["a", "b"][draw(2) as usize].into());
            }
            match draw(400) {
                0 => m = Match::nothing("all"),
                1..40 => m.space = "mark",
                _ => {}
            }
            let protocol = protocols[draw(3) as usize];
            let expected = list.iter().find(|(_, of, early): &&(usize, &str, Match)| {
                (*of == "all" || *of == protocol) && early.covers(&m)
            });
            let found = earlier.first_that_covers(protocol, &m).map(|(at, _)| *at);
            assert_eq!(found, expected.map(|(at, ..)| *at), "{protocol} {m:?}");
            covered += usize::from(found.is_some());
            // Few are kept, so that many are not covered.
            if list.len() < 30 && draw(10) == 0 {
                earlier.push(n, protocol, m.clone());
                list.push((n, protocol, m));
            }
        }
        assert!((200..1800).contains(&covered), "{covered}");
    }

    /// Twice the filters take twice the look-ups, and no filter is compared with each other one.
    #[test]
    fn the_cost_of_a_filter_does_not_grow_with_their_number() {
        let asked = |filters: u32| {
            let mut earlier = Earlier::default();
            for n in 0..filters {
                let m = bits(n, if n % 2 == 0 { u32::MAX } else { 0xffff_ffff_u32 << (n % 3) });
                if earlier.first_that_covers("ip", &m).is_none() {
                    earlier.push(n, "ip", m);
                }
            }
            earlier.asked.get()
        };
        let (once, twice) = (asked(5000), asked(10_000));
        assert!(once <= 5000 * 6 && twice <= 2 * once + 100, "{once} {twice}");
        // Filters that all have different masks are bounded.
        let mut earlier = Earlier::default();
        for n in 0..10_000u32 {
            earlier.push(n, "ip", bits(u32::MAX, 1 + n));
        }
        assert_eq!((earlier.shapes.len(), earlier.filters.len()), (SHAPES_MAX, 10_000));
    }
}
