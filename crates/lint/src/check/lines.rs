//! The rules about a line by itself: rates without a unit, and kinds that only one of Linux and the
//! engine has.

use std::collections::BTreeSet;

use txweir_core::Rate;
use txweir_core::classify::filter;
use txweir_core::text::value::{Quantity, Value, Words, text_of};
use txweir_tc::ast::Command;
use txweir_tc::diagnostic::Diagnostic;
use txweir_tc::language;
use txweir_tc::lex::Word;
use txweir_tc::suggest::{closest, is_number};
use txweir_tc::warning;

use super::findings::Findings;
use super::model;
use crate::code;

/// The classifier that the engine has and Linux does not have.
const OWN_CLASSIFIER: &str = "tcpctl";

/// The parameter whose first value is a time.
const NETEM_DELAY: (&str, &str) = ("netem", "delay");

/// The rules about lines.
pub(super) struct Lines<'a, 's> {
    pub(super) out: &'a mut Findings<'s>,
    /// The kinds already reported as missing in the engine.
    pub(super) noted: &'a mut BTreeSet<String>,
}

impl Lines<'_, '_> {
    pub(super) fn check(&mut self, cmd: &Command) {
        self.own(cmd);
        self.bare_rates(cmd);
        self.bare_times(cmd);
        self.byte_rates(cmd);
        self.without_effect(cmd);
        self.foreign(cmd);
    }

    /// Reports every rate that has no unit: tc reads bits per second.
    fn bare_rates(&mut self, cmd: &Command) {
        let (kind, settings) = match cmd {
            Command::Qdisc(c) => (&c.kind, model::settings(self.out.source, cmd)),
            Command::Class(c) => (&c.kind, model::settings(self.out.source, cmd)),
            Command::Filter(c) => (&c.kind, model::settings(self.out.source, cmd)),
            Command::Chain(_) | Command::Actions(_) => return,
        };
        let kind = kind.as_ref().map_or("", |k| &k.text);
        let mut said: Vec<Diagnostic> = Vec::new();
        for (key, word) in settings.rates().filter(|(_, w)| is_number(&w.text)) {
            said.push(self.bare_rate(kind, key, word));
        }
        self.out.said.extend(said);
    }

    fn bare_rate(&self, kind: &str, key: &str, word: &Word) -> Diagnostic {
        let given = &word.text;
        let message = format!("{kind} {key} {given} means {given} bit/s");
        let hint = format!("write the unit: {given}kbit, {given}mbit, or {given}bit if it is meant");
        self.out.error(code::BARE_RATE, &word.span, message).expected("a rate with its unit").hint(Some(hint))
    }

    /// Warns of every time that has no unit: tc reads microseconds.
    fn bare_times(&mut self, cmd: &Command) {
        let Command::Qdisc(cmd) = cmd else { return };
        let Some(kind) = &cmd.kind else { return };
        let Some(spec) = self.out.source.kinds.get(&kind.text) else { return };
        let is_time = |key: &str| {
            // Values of netem's delay are several, and so no single time.
            spec.params.iter().any(|p| {
                p.words.contains(&key) && (p.quantity == Quantity::Time || (spec.kind, p.key) == NETEM_DELAY)
            })
        };
        for pair in cmd.options.windows(2) {
            let [key, value] = pair else { continue };
            let given = &value.text;
            if !is_time(&key.text) || !is_number(given) || given.bytes().all(|b| b == b'0' || b == b'.') {
                continue;
            }
            let message = format!("{} {} {given} means {given} microseconds", spec.kind, key.text);
            let hint = format!("write the unit: {given}ms, or {given}us if it is meant");
            let d = self.out.error(code::BARE_TIME, &value.span, message).expected("a time with its unit");
            self.out.say(d.hint(Some(hint)).warning());
        }
    }

    /// Warns of a word that changes nothing.
    fn without_effect(&mut self, cmd: &Command) {
        let Command::Qdisc(cmd) = cmd else { return };
        if let Some(d) = warning::multiqueue(self.out.source, cmd) {
            self.out.say(Diagnostic { code: code::NO_EFFECT, ..d });
        }
    }

    /// Warns of rates in bytes per second: `mbps` looks like megabits and means megabytes.
    fn byte_rates(&mut self, cmd: &Command) {
        let settings = match cmd {
            Command::Qdisc(_) | Command::Class(_) | Command::Filter(_) => {
                model::settings(self.out.source, cmd)
            }
            Command::Chain(_) | Command::Actions(_) => return,
        };
        let mut said = Vec::new();
        for (key, word) in settings.rates() {
            let low = word.text.to_ascii_lowercase();
            let Some(bits) = low.strip_suffix("bps").filter(|n| !is_number(n)) else { continue };
            let Ok(rate) = Rate::take(&mut Words::new(&[&word.text])) else { continue };
            let message = format!("{key} {} means {}: bps is bytes per second", word.text, text_of(&rate));
            let hint = format!("write {} if bytes are meant, or {bits}bit", text_of(&rate).to_lowercase());
            let d = self.out.error(code::BYTE_RATE, &word.span, message);
            said.push(d.expected("a rate in bit, kbit, mbit or gbit").hint(Some(hint)).warning());
        }
        self.out.said.extend(said);
    }

    /// Reports a kind, or an option of a kind, that Linux does not have. Its tc refuses such a
    /// line.
    fn own(&mut self, cmd: &Command) {
        let (what, kind, options) = match cmd {
            Command::Qdisc(c) => ("qdisc", &c.kind, &c.options),
            Command::Class(c) => ("class", &c.kind, &c.options),
            Command::Filter(c) => ("classifier", &c.kind, &c.options),
            _ => return,
        };
        let Some(kind) = kind else { return };
        let spec = self.out.source.kinds.get(&kind.text);
        let (linux, keys) = match what {
            "qdisc" => (spec.is_none_or(|s| s.in_linux), spec.map_or(&[][..], |s| s.own)),
            "class" => (true, spec.and_then(|s| s.classes).map_or(&[][..], |c| c.own)),
            _ => (kind.text != OWN_CLASSIFIER, &[][..]),
        };
        let key = options.iter().find(|word| keys.contains(&word.text.as_str()));
        let (at, message) = match (linux, key) {
            (false, _) => (kind, format!("{what} {} is txweir's own: Linux has none", kind.text)),
            (true, Some(word)) => {
                (word, format!("{} of {} is txweir's own: Linux has none", word.text, kind.text))
            }
            (true, None) => return,
        };
        let d = self.out.error(code::NOT_IN_LINUX, &at.span, message).warning();
        self.out.say(d);
    }

    /// Adds one note for each kind that Linux has and the engine does not have.
    fn foreign(&mut self, cmd: &Command) {
        let (what, kind) = match cmd {
            Command::Qdisc(c) => ("qdisc", &c.kind),
            Command::Filter(c) => ("classifier", &c.kind),
            _ => return,
        };
        let Some(kind) = kind else { return };
        let known = match what {
            "qdisc" => self.out.source.kinds.get(&kind.text).is_some(),
            _ => filter::KINDS.contains(&kind.text.as_str()),
        };
        let name = format!("{what} {}", kind.text);
        if known || self.noted.contains(&name) {
            return;
        }
        let object = if what == "qdisc" { language::Object::Qdisc } else { language::Object::Filter };
        if !language::knows(object, &kind.text) {
            let all = self.out.source.kinds.iter().map(|s| s.kind).filter(|_| what == "qdisc");
            let near = closest(&kind.text, all.chain(language::kinds(object))).map(String::from);
            let message = format!("tc knows no {name}");
            let err = self.out.error(code::UNKNOWN_KIND, &kind.span, message).suggest(near);
            return self.out.say(err);
        }
        let message = format!("{} is checked by its grammar; txweir cannot run it", kind.text);
        let note = self.out.error(code::NOT_IN_ENGINE, &kind.span, message).note();
        self.noted.insert(name);
        self.out.say(note);
    }
}
