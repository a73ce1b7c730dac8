//! The ends of every parameter of a kind, found by its reader: the least and the greatest numbers
//! that it accepts, the least above zero, and every word of a choice. No list is kept: words of the
//! right form come from `options`, and each number in them is searched for its ends.

use std::collections::BTreeMap;

use txweir_core::base::rng::Rng;
use txweir_core::sched::spec::Spec;
use txweir_core::text::params::{Given, Param};
use txweir_core::text::value::{Words, exact_of};
use txweir_core::{Env, ErrorKind};

use crate::options::{is_drawn, legal, legal_class, value_words, with_words};
use crate::search::{numbers_in, range};

/// Samples of the words of a parameter that are drawn, to find its forms.
const SAMPLES: usize = 60;
/// Forms of the words of one key that are searched.
const FORMS_MAX: usize = 4;
/// Lines of other parameters that are tried for a parameter that is refused alone.
const LINES: usize = 24;
/// Numbers of one form that are searched: more are alike, as the bands of a priomap are.
const NUMBERS_MAX: usize = 6;

/// The settings by their keys and values: several notations of a value are one.
type Found = BTreeMap<(&'static str, String), Setting>;

/// A parameter at one of its ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// The words that set it.
    pub words: Vec<String>,
    /// The words of the other parameters that it needs, as few as possible.
    pub with: Vec<String>,
}

impl Setting {
    /// Returns the words that make a qdisc or a class.
    pub fn line(&self) -> Vec<String> {
        [&self.with[..], &self.words].concat()
    }
}

/// The reader of a kind's options, or of those of its classes.
pub struct Reader<'a> {
    spec: &'static Spec,
    class: bool,
    env: &'a Env,
}

impl<'a> Reader<'a> {
    /// Returns the reader of a kind's options.
    pub const fn of_kind(spec: &'static Spec, env: &'a Env) -> Self {
        Self { spec, class: false, env }
    }
    /// Returns the reader of the options of a kind's classes, if commands set any.
    pub fn of_classes(spec: &'static Spec, env: &'a Env) -> Option<Self> {
        spec.classes.map(|_| Self { spec, class: true, env })
    }
    /// Returns the declared parameters.
    pub fn params(&self) -> &'static [Param] {
        match self.spec.classes {
            Some(classes) if self.class => classes.params,
            _ => self.spec.params,
        }
    }
    /// Returns the exact values of all parameters after a line, if it is accepted and the tables
    /// fit into the memory of the device. A class shows no values before it is made: its line
    /// stands for them.
    ///
    /// # Errors
    /// The kind refuses the line, for this reason.
    pub fn read(&self, line: &[String]) -> Result<String, ErrorKind> {
        with_words(line, |words| match self.spec.classes {
            Some(classes) if self.class => {
                classes.read(words, self.env).map_err(|e| e.kind)?;
                Ok(line.join(" "))
            }
            _ => {
                let resolved = self.spec.read(words, self.env).map_err(|e| e.kind)?;
                let mut values = String::new();
                resolved.options(&mut |s| values += &format!("{} ", exact_of(s.value)));
                let fits = resolved.memory(self.env) <= self.env.memory;
                if fits { Ok(values) } else { Err(ErrorKind::OutOfRange) }
            }
        })
    }
    fn takes(&self, line: &[String]) -> bool {
        self.read(line).is_ok()
    }
    /// Draws a line that is accepted.
    fn draw(&self, rng: &mut Rng) -> Vec<String> {
        match self.spec.classes {
            Some(classes) if self.class => legal_class(classes, self.env, rng),
            _ => legal(self.spec, self.env, rng),
        }
    }
    /// Returns the words of each key of a line.
    fn keys(&self, line: &[String]) -> Vec<(&'static str, Vec<String>)> {
        let mut all = Vec::new();
        let mut note = |g: Given| all.push((g.param.key, line[g.words].to_vec()));
        with_words(line, |words: &mut Words<'_>| match self.spec.classes {
            Some(classes) if self.class => classes.each_given(words, &mut note),
            _ => self.spec.each_given(words, &mut note),
        });
        all
    }
    /// Returns the line without the keys that `needed` does not need.
    fn cut(&self, line: &[String], needed: &[String]) -> Vec<String> {
        let mut keys = self.keys(line);
        let mut at = 0;
        while at < keys.len() {
            let left_out = keys.remove(at);
            if !self.takes(&[&joined(&keys)[..], needed].concat()) {
                keys.insert(at, left_out);
                at += 1;
            }
        }
        joined(&keys)
    }

    /// Returns lines of few words that are accepted: no words for most kinds; for a kind that must
    /// be given some, several of them.
    pub fn lines(&self) -> Vec<Vec<String>> {
        let mut rng = Rng::new(1);
        match self.takes(&[]) {
            true => vec![Vec::new()],
            false => (0..LINES).map(|_| self.cut(&self.draw(&mut rng), &[])).collect(),
        }
    }

    /// Returns every parameter at each of its ends. The other parameters are as in `line`, or as
    /// near to it as the parameter needs.
    ///
    /// # Errors
    /// Names the parameters of which no value was accepted, although the kind supports some.
    pub fn settings(&self, line: &[String]) -> Result<Vec<Setting>, String> {
        let mut rng = Rng::new(0xe4d5);
        let mut lines = vec![line.to_vec()];
        lines.extend((0..LINES).map(|_| self.draw(&mut rng)));
        let (mut all, mut none) = (Found::new(), Vec::new());
        for param in self.params().iter().filter(|p| is_drawn(p)) {
            let (before, mut supported) = (all.len(), false);
            let values = param.words.iter().filter(|_| param.flag).chain(param.alone);
            for word in values {
                match self.accepted(param, vec![(*word).into()], &lines) {
                    Ok(setting) => self.add(setting, &mut all),
                    Err(kind) => supported |= kind != ErrorKind::Unsupported,
                }
            }
            // Aliases have the same values; the keys of a group have their own.
            let keys = if param.alone.is_empty() { 1 } else { param.words.len() };
            for key in param.words.iter().take(keys).filter(|_| !param.flag) {
                let mut forms: Vec<(Vec<String>, Setting)> = Vec::new();
                for _ in 0..SAMPLES {
                    let words = [vec![(*key).to_string()], value_words(param, &mut rng)].concat();
                    let form: Vec<String> = words.iter().map(|w| form_of(w)).collect();
                    if forms.len() == FORMS_MAX || forms.iter().any(|(f, _)| *f == form) {
                        continue;
                    }
                    match self.accepted(param, words, &lines) {
                        Ok(setting) => forms.push((form, setting)),
                        Err(kind) => supported |= kind != ErrorKind::Unsupported,
                    }
                }
                for (_, sample) in forms {
                    self.search(&sample, &lines, &mut all);
                }
            }
            if all.len() == before && supported {
                none.push(param.key);
            }
        }
        match none.is_empty() {
            true => Ok(all.into_values().collect()),
            false => Err(format!("{}: no end was found of {none:?}", self.spec.kind)),
        }
    }

    /// Returns the words with the fewest other words under which they are accepted, or the reason
    /// for which they are refused beside the first line.
    fn accepted(
        &self,
        param: &'static Param,
        words: Vec<String>,
        lines: &[Vec<String>],
    ) -> Result<Setting, ErrorKind> {
        let mut refused = None;
        for line in lines {
            let mut keys = self.keys(line);
            keys.retain(|(key, _)| *key != param.key);
            let with = joined(&keys);
            match self.read(&[&with[..], &words].concat()) {
                Ok(_) if line == &lines[0] => return Ok(Setting { key: param.key, words, with }),
                Ok(_) => {
                    let with = self.cut(&with, &words);
                    return Ok(Setting { key: param.key, words, with });
                }
                Err(kind) => refused = refused.or(Some(kind)),
            }
        }
        Err(refused.unwrap_or(ErrorKind::BadValue))
    }

    fn add(&self, setting: Setting, all: &mut Found) {
        if let Ok(values) = self.read(&setting.line()) {
            all.entry((setting.key, values)).or_insert(setting);
        }
    }

    /// Adds a sample's ends: each of its numbers at its least and greatest, and just above zero.
    fn search(&self, sample: &Setting, lines: &[Vec<String>], all: &mut Found) {
        let before = all.len();
        let numbers = (1..sample.words.len())
            .flat_map(|at| numbers_in(&sample.words[at]).into_iter().map(move |n| (at, n)))
            .take(NUMBERS_MAX);
        for (at, (from, to, hex)) in numbers {
            let text = |n: i128| match hex {
                true => format!("{n:x}"),
                false => n.to_string(),
            };
            let words = |number: &str| {
                let mut words = sample.words.clone();
                words[at].replace_range(from..to, number);
                words
            };
            let Some((mut least, mut greatest)) = self.range(&sample.with, &|n| words(&text(n)), hex) else {
                continue;
            };
            let mut add = |with: &[String], number: &str| {
                let setting = Setting { key: sample.key, words: words(number), with: with.to_vec() };
                self.add(setting, all);
            };
            [least, greatest, 0, 1].into_iter().for_each(|n| add(&sample.with, &text(n)));
            // Beside other parameters the number may be accepted beyond these ends.
            for line in lines {
                let mut keys = self.keys(line);
                keys.retain(|(key, _)| *key != sample.key);
                let with = joined(&keys);
                let takes = |n: i128| self.takes(&[&with[..], &words(&text(n))].concat());
                if !(takes(least - 1) || takes(greatest + 1)) {
                    continue;
                }
                let Some(wider) = self.range(&with, &|n| words(&text(n)), hex) else { continue };
                (least, greatest) = (least.min(wider.0), greatest.max(wider.1));
                for n in [wider.0, wider.1] {
                    add(&self.cut(&with, &words(&text(n))), &text(n));
                }
            }
            // The least part of a whole that differs from none.
            let read = |number: &str| self.read(&[&sample.with[..], &words(number)].concat());
            let none = read("0");
            let mut parts = (1..12).rev().map(|places| format!("0.{}1", "0".repeat(places)));
            let part = parts.find(|part| {
                let read = read(part);
                !self.class && none.is_ok() && read.is_ok() && read != none
            });
            part.iter().for_each(|part| add(&sample.with, part));
        }
        if all.len() == before {
            self.add(sample.clone(), all);
        }
    }

    /// Returns the least and the greatest number that is accepted in these words, beside others.
    fn range(&self, with: &[String], words: &dyn Fn(i128) -> Vec<String>, hex: bool) -> Option<(i128, i128)> {
        range(&|n| (n >= 0 || !hex) && self.takes(&[with, &words(n)].concat()))
    }
}

/// Returns the word with a mark for each number.
fn form_of(word: &str) -> String {
    let mut form = word.to_string();
    for (from, to, hex) in numbers_in(word).into_iter().rev() {
        if !hex || word.starts_with("0x") {
            form.replace_range(from..to, "N");
        }
    }
    form
}

fn joined(keys: &[(&'static str, Vec<String>)]) -> Vec<String> {
    keys.iter().flat_map(|(_, words)| words.iter().cloned()).collect()
}
