//! Every number of every filter and action at its ends, with traffic: the ends are searched by the
//! reader of each, in lines that have all of its keys.

mod samples;

use std::cell::RefCell;
use std::collections::BTreeSet;

use txweir_core::classify::{action, filter};
use txweir_fuzzed::world::{Input, World};
use txweir_laws::search::{numbers_in, range};
use txweir_tc::language::{self, Object};

use crate::seeds;
use samples::{ACTIONS, CHAIN, FILTERS, REFUSED, SETUP};

/// The place of the filters, and of the filters that have the actions.
const PLACES: [&str; 2] = ["parent 1:", "egress"];
/// The words ahead of an action.
const BEFORE: &str = "protocol all prio 1 matchall action";
/// Frames between two changes from one end to the next while packets wait.
const CHANGES: usize = 5;

/// A line under test.
struct Line<'a> {
    place: &'static str,
    /// The words that are not searched, and those that are.
    before: &'static str,
    words: &'a str,
    /// True if right checksums stay right.
    keeps_sums: bool,
}

impl Line<'_> {
    fn text(&self, verb: &str, words: &str) -> String {
        format!("filter {verb} dev b {} {} {words}", self.place, self.before)
    }

    /// True if the reader takes these words. The world is the same afterwards.
    fn takes(&self, world: &mut World, words: &str) -> bool {
        let taken = world.tc(&self.text("add", words)).status == 0;
        // Of two lines the first may be done although the second is refused.
        let gone = world.tc(&format!("filter del dev b {}", self.place));
        assert!(gone.status == 0 || !taken, "{words}: {}", gone.stderr);
        taken
    }

    /// Returns the words with each number at each of its ends.
    fn ends(&self, world: &mut World) -> Vec<String> {
        let world = RefCell::new(world);
        let mut found = BTreeSet::new();
        for (from, to, hex) in numbers(self.words) {
            let with = |n: i128| {
                let mut words = self.words.to_owned();
                words.replace_range(from..to, &if hex { format!("{n:x}") } else { n.to_string() });
                words
            };
            let takes = |n: &i128| (*n >= 0 || !hex) && self.takes(&mut world.borrow_mut(), &with(*n));
            let Some((least, greatest)) = range(&|n| takes(&n)) else { continue };
            found.extend([least, greatest, 0, 1].into_iter().filter(takes).map(with));
        }
        found.into_iter().collect()
    }

    /// Sends every sort of frame through the line at one end, which goes to another end and back
    /// while packets wait.
    fn run(&self, ends: [&str; 2], inputs: &[Input]) {
        let mut world = World::new(&format!("{SETUP}{CHAIN}\n"), self.keeps_sums);
        let made = world.tc(&self.text("add", ends[0]));
        assert_eq!(made.status, 0, "{}", made.stderr);
        for (at, input) in inputs.iter().enumerate() {
            world.begin(input);
            if at % CHANGES == CHANGES - 1 {
                // A change that names another filter, or what cannot be changed, is refused or adds
                // one.
                world.tc(&self.text("replace", ends[(at / CHANGES + 1) % 2]));
            }
            world.finish(input.is_right());
        }
        for flags in ["-s -d", "-s -j"] {
            let shown = world.tc_shown(&format!("{flags} filter show dev b {}", self.place));
            assert_eq!(shown.status, 0, "{}", shown.stderr);
        }
    }
}

/// Returns the numbers of a text: where each begins and ends, and whether it is hexadecimal.
fn numbers(text: &str) -> Vec<(usize, usize, bool)> {
    let (mut all, mut from) = (Vec::new(), 0);
    for piece in text.split(|c: char| c.is_whitespace() || "/:'()\"+".contains(c)) {
        let found = numbers_in(piece).into_iter();
        all.extend(found.map(|(begins, ends, hex)| (from + begins, from + ends, hex)));
        from += piece.len() + 1;
    }
    all
}

/// Returns the lines of all kinds.
fn lines() -> impl Iterator<Item = Line<'static>> {
    let of = |all: &'static [(&str, &[&str])]| all.iter().flat_map(|(_, lines)| lines.iter());
    let filters = of(&FILTERS).map(|words| Line { place: PLACES[0], before: "", words, keeps_sums: true });
    let actions =
        of(&ACTIONS).map(|words| Line { place: PLACES[1], before: BEFORE, words, keeps_sums: false });
    filters.chain(actions)
}

#[test]
fn every_number_of_a_filter_or_an_action_at_its_ends_keeps_the_laws() {
    let seeds = seeds::of("packets");
    let inputs: Vec<Input> = seeds.iter().filter_map(|(_, bytes)| Input::read(bytes)).collect();
    let mut reader = World::new(SETUP, false);
    let (mut searched, mut runs) = (0, 0);
    for line in lines() {
        let made = reader.tc(&line.text("add", line.words));
        assert_eq!(made.status, 0, "{}", made.stderr);
        let gone = reader.tc(&format!("filter del dev b {}", line.place));
        assert_eq!(gone.status, 0, "{}", gone.stderr);
        let ends = line.ends(&mut reader);
        searched += numbers(line.words).len();
        line.run([line.words, line.words], &inputs);
        for (at, words) in ends.iter().enumerate() {
            // After the last end comes the first.
            line.run([words, &ends[(at + 1) % ends.len()]], &inputs);
            runs += 1;
        }
    }
    println!("{searched} numbers, {runs} ends, {} frames each", inputs.len());
    assert!(searched >= 300 && runs >= 800, "{searched} numbers, {runs} ends");
}

/// A key that tc has and no line has is one of those that this engine refuses.
#[test]
fn each_key_is_in_a_line_or_is_refused() {
    let mut world = World::new(SETUP, false);
    for line in REFUSED {
        let reply = world.tc(&format!("filter add dev b parent 1: {line}"));
        assert_ne!(reply.status, 0, "{line}: {}", reply.stderr);
    }
    let mut missing = Vec::new();
    for (object, kinds, lines) in
        [(Object::Filter, filter::KINDS, &FILTERS[..]), (Object::Action, action::KINDS, &ACTIONS[..])]
    {
        for kind in kinds {
            let own = lines.iter().find(|(name, _)| name == kind).map_or(&[][..], |(_, lines)| lines);
            let has = |key: &str| {
                let refused = REFUSED.iter().filter(|line| line.split(' ').any(|word| word == *kind));
                own.iter().chain(refused).any(|line| line.split(' ').any(|word| word == key))
            };
            missing.extend(
                language::keys(object, kind).filter(|key| !has(key)).map(|key| format!("{kind} {key}")),
            );
        }
    }
    assert!(missing.is_empty(), "no line has {missing:?}");
}
