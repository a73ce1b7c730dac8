//! The effect of a policy on Linux, before it is applied: [`check`] follows the lines of a file in
//! order, as the kernel would, and reports likely mistakes in the result.
//!
//! ```
//! use txweir_tc::Severity;
//! use txweir_lint::check::{self, CheckOptions};
//!
//! let report = check::text("
//!     qdisc add dev eth0 root handle 1: htb default 10
//!     class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
//! ", "up.tc", &CheckOptions::default());
//! let error = report.diagnostics.iter().find(|d| d.severity == Severity::Error).expect("one");
//! assert_eq!(error.brief(),
//!     "up.tc:2:51: class 1:10 is never made: unclassified packets of 1: are not shaped (did you mean \"1\"?)");
//! ```

mod apply;
mod facts;
mod filters;
mod kinds;
mod matching;
mod model;
mod queues;
mod rates;

use std::collections::BTreeMap;
use std::sync::Arc;

use txweir_core::Rate;
use txweir_core::classify::filter;
use txweir_tc::ast::Command;
use txweir_tc::command;
use txweir_tc::diagnostic::{Diagnostic, Severity};
use txweir_tc::language::{self, Action, Settings};
use txweir_tc::lex::{Line, Word};
use txweir_tc::source::Source;
use txweir_tc::suggest::{closest, is_number};

use crate::code;
use crate::script::{self, Script};

pub use facts::Fact;
use model::Device;

/// Facts that the lines do not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The rate of the link of every device, if it is known.
    pub link: Option<Rate>,
    /// The largest packet without its link header, bytes.
    pub mtu: u32,
    /// The length of a device's queue, packets: the default limit of a pfifo.
    pub txqueuelen: u32,
    /// Ticks of the kernel's clock per second: the grain at which a bucket is refilled without high
    /// resolution timers.
    pub hz: u32,
}

impl Default for CheckOptions {
    /// Returns the options of no known link, 1500 bytes, 1000 packets and 250 Hz.
    fn default() -> Self {
        Self { link: None, mtu: 1500, txqueuelen: 1000, hz: 250 }
    }
}

impl CheckOptions {
    /// Returns the largest packet with its Ethernet header, bytes.
    const fn frame(&self) -> u64 {
        self.mtu as u64 + 14
    }
}

/// The findings on a file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Diagnostics in the order of the lines that they are about.
    pub diagnostics: Vec<Diagnostic>,
    /// The longest wait of a packet in each leaf.
    pub facts: Vec<Fact>,
}

impl Report {
    /// Returns the number of diagnostics of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == severity).count()
    }
}

/// Checks a batch file or a script.
pub fn text(text: &str, name: &str, options: &CheckOptions) -> Report {
    let source = Arc::new(Source::new(name, text));
    check(&source, script::read(&source), options)
}

/// Checks lines that were read from `source`.
pub fn check(source: &Arc<Source>, script: Script, options: &CheckOptions) -> Report {
    // Lines that were left out may make objects that others need.
    let mut partial =
        script.notes.iter().any(|n| n.code == code::NOT_EVALUATED && n.message.starts_with("cannot"));
    let mut check = Check { source, options, said: script.notes, notes: Vec::new() };
    let mut devices: BTreeMap<String, Device> = BTreeMap::new();
    for tc in script.lines {
        let cmd = match command::parse(source, &tc.line) {
            Ok(cmd) => cmd,
            Err(e) => {
                // A line that cannot be read makes no object; a line that needs the object is not
                // at fault.
                check.said.push(e);
                if may_make_classes(source, &tc.line) {
                    partial = true;
                    devices.values_mut().for_each(|d| d.partial = true);
                }
                continue;
            }
        };
        let dev = cmd.dev().map_or("", |d| &d.text).to_string();
        let name = match &tc.netns {
            Some(ns) => format!("{}/{dev}", ns.text),
            None => dev,
        };
        let device = devices.entry(name.clone()).or_insert_with(|| Device::new(name, partial));
        check.own(&cmd);
        check.bare_rates(&cmd);
        check.foreign(&cmd);
        check.apply(device, &cmd);
    }
    let mut facts = Vec::new();
    for device in devices.values() {
        check.rates(device);
        check.queues(device);
        check.filters(device);
        facts.extend(check.facts(device));
    }
    let mut diagnostics = check.said;
    diagnostics.sort_by_key(|d| d.span.start);
    Report { diagnostics, facts }
}

/// The classifier that the engine has and Linux does not have.
const OWN_CLASSIFIER: &str = "tcpctl";

/// True if the line may make an object for classes or filters of other lines. A leaf without a
/// handle is none.
fn may_make_classes(source: &Source, line: &Line) -> bool {
    let says = |word: &str| line.words.iter().any(|w| w.text == word);
    let leaf = line.words.iter().any(|w| kinds::is_leaf(&w.text, source.kinds.get(&w.text)));
    !(leaf && says("parent") && !says("handle"))
}

/// One run over a file.
struct Check<'a> {
    source: &'a Arc<Source>,
    options: &'a CheckOptions,
    said: Vec<Diagnostic>,
    /// The kinds already reported as missing in the engine.
    notes: Vec<String>,
}

impl Check<'_> {
    fn error(&self, code: &'static str, span: &std::ops::Range<usize>, message: String) -> Diagnostic {
        Diagnostic::error(code, self.source, span.clone(), message)
    }
    fn say(&mut self, d: Diagnostic) {
        self.said.push(d);
    }
    /// Returns the place of a span for messages: `line 3`.
    fn line(&self, span: &std::ops::Range<usize>) -> String {
        format!("line {}", self.source.locate(span.start).0)
    }

    /// Reports every rate that has no unit: tc reads bits per second.
    fn bare_rates(&mut self, cmd: &Command) {
        let (kind, settings) = match cmd {
            Command::Qdisc(c) => (&c.kind, model::settings(self.source, cmd)),
            Command::Class(c) => (&c.kind, model::settings(self.source, cmd)),
            Command::Filter(c) => (&c.kind, model::settings(self.source, cmd)),
            Command::Chain(_) | Command::Actions(_) => return,
        };
        let kind = kind.as_ref().map_or("", |k| &k.text);
        let mut said: Vec<Diagnostic> = Vec::new();
        for (key, word) in settings.rates().filter(|(_, w)| is_number(&w.text)) {
            said.push(self.bare_rate(kind, key, word));
        }
        self.said.extend(said);
    }

    fn bare_rate(&self, kind: &str, key: &str, word: &Word) -> Diagnostic {
        let given = &word.text;
        let message = format!("{kind} {key} {given} means {given} bit/s");
        let hint = format!("write the unit: {given}kbit, {given}mbit, or {given}bit if it is meant");
        self.error(code::BARE_RATE, &word.span, message).expected("a rate with its unit").hint(Some(hint))
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
        let spec = self.source.kinds.get(&kind.text);
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
        let d = self.error(code::NOT_IN_LINUX, &at.span, message).warning();
        self.say(d);
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
            "qdisc" => self.source.kinds.get(&kind.text).is_some(),
            _ => filter::KINDS.contains(&kind.text.as_str()),
        };
        let name = format!("{what} {}", kind.text);
        if known || self.notes.contains(&name) {
            return;
        }
        let object = if what == "qdisc" { language::Object::Qdisc } else { language::Object::Filter };
        if !language::knows(object, &kind.text) {
            let all = self.source.kinds.iter().map(|s| s.kind).filter(|_| what == "qdisc");
            let near = closest(&kind.text, all.chain(language::kinds(object))).map(String::from);
            let message = format!("tc knows no {name}");
            let err = self.error(code::UNKNOWN_KIND, &kind.span, message).suggest(near);
            return self.say(err);
        }
        let message = format!("{} is checked by its grammar; txweir cannot run it", kind.text);
        let note = self.error(code::NOT_IN_ENGINE, &kind.span, message).note();
        self.notes.push(name);
        self.say(note);
    }
}

/// True if the action decides the fate of a packet, so that no later filter sees it.
fn ends(action: &Action<'_>) -> bool {
    let has = |any: &[&str]| action.words.iter().any(|w| any.contains(&w.text.as_str()));
    match action.kind.text.as_str() {
        "drop" | "shot" | "pass" | "ok" | "trap" => true,
        "gact" => has(&["drop", "shot", "pass", "ok", "trap"]) && !has(&["random"]),
        "mirred" => has(&["redirect"]),
        _ => has(&["drop", "shot", "pass", "ok", "trap"]),
    }
}

/// True if a filter's actions may send a packet on to the next filter.
fn goes_on(settings: &Settings) -> bool {
    let said = |any: &[&str], a: &Action<'_>| {
        any.contains(&a.kind.text.as_str()) || a.words.iter().any(|w| any.contains(&w.text.as_str()))
    };
    settings.actions().iter().any(|a| {
        said(&["continue", "reclassify", "goto", "jump", "random", "conform-exceed"], a)
            || a.kind.text == "police"
    })
}
