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
mod engine;
mod facts;
mod filters;
mod findings;
mod kinds;
mod lines;
mod matching;
mod model;
mod placed;
mod queues;
mod rates;
mod shadow;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use txweir_core::Rate;
use txweir_tc::command;
use txweir_tc::diagnostic::{Diagnostic, Severity};
use txweir_tc::lex::Line;
use txweir_tc::source::Source;

use crate::code;
use crate::script::{self, Script};

use apply::Apply;
use engine::{Answer, Engine};
pub use facts::Fact;
use facts::Facts;
use filters::Filters;
use findings::Findings;
use lines::Lines;
use model::Device;
use queues::Queues;
use rates::Rates;
use waits::Waits;

/// Facts that the lines do not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The rate of the link of every device that `links` does not name, if it is known.
    pub link: Option<Rate>,
    /// The rates of the links of single devices, by their names.
    pub links: BTreeMap<String, Rate>,
    /// The largest packet without its link header, bytes.
    pub mtu: u32,
    /// The length of a device's queue, packets: the default limit of a pfifo.
    pub txqueuelen: u32,
    /// Ticks per second of a kernel without high-resolution timers: the grain at which it refills a
    /// bucket. `None` for a kernel that has them.
    pub hz: Option<u32>,
}

impl Default for CheckOptions {
    /// Returns the options of no known link, 1500 bytes, 1000 packets and high-resolution timers.
    fn default() -> Self {
        Self { link: None, links: BTreeMap::new(), mtu: 1500, txqueuelen: 1000, hz: None }
    }
}

impl CheckOptions {
    /// Returns the rate of the link of a device, which may have its network namespace before it.
    fn link_of(&self, device: &str) -> Option<Rate> {
        let name = device.rsplit_once('/').map_or(device, |(_, name)| name);
        self.links.get(device).or_else(|| self.links.get(name)).copied().or(self.link)
    }
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
    /// Number of tc lines of the text.
    pub lines: usize,
    /// Number of those that were not read, because a script's functions, conditions and loops are
    /// not run.
    pub left_out: usize,
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
    let mut partial = script.partial;
    let (lines, left_out) = (script.lines.len() + script.left_out, script.left_out);
    let (mut out, mut noted) = (Findings { source, said: script.notes }, BTreeSet::new());
    let mut devices: BTreeMap<String, Device> = BTreeMap::new();
    let mut engine = Engine::new(options, partial);
    for tc in script.lines {
        let cmd = match command::parse(source, &tc.line) {
            Ok(cmd) => cmd,
            Err(e) => {
                // A line that cannot be read makes no object; a line that needs the object is not
                // at fault.
                out.say(e);
                if !partial && may_make_classes(source, &tc.line) {
                    partial = true;
                    engine.end();
                    devices.values_mut().for_each(|d| d.partial = true);
                }
                continue;
            }
        };
        let dev = match cmd.block() {
            Some(number) => format!("block {number}"),
            None => cmd.dev().map_or("", |d| &d.text).to_string(),
        };
        let name = match &tc.netns {
            Some(ns) => format!("{}/{dev}", ns.text),
            None => dev,
        };
        let device = devices.entry(name.clone()).or_insert_with(|| Device::new(name, partial));
        let answer = engine.run(source, &tc.line, &cmd, device);
        let from = out.said.len();
        Lines { out: &mut out, noted: &mut noted }.check(&cmd);
        device.held = matches!(answer, Answer::Refused(_));
        Apply { out: &mut out, device }.line(&cmd);
        device.held = false;
        answered(&mut out, from, &mut noted, answer);
    }
    let mut facts = Vec::new();
    for device in devices.values() {
        Rates { out: &mut out, options, device }.check();
        Queues { out: &mut out, device }.check();
        Filters { out: &mut out, device, marking: script.marking.as_ref() }.check();
        let all = Facts { options, device }.all();
        Waits { out: &mut out, options, device }.check(&all);
        facts.extend(all);
    }
    let mut diagnostics = out.said;
    diagnostics.sort_by_key(|d| d.span.start);
    Report { diagnostics, facts, lines, left_out }
}

/// Codes of findings that a line is refused. Findings of the other codes are about lines that tc
/// takes.
const REFUSING: [&str; 8] = [
    code::EXISTS,
    code::NOT_FOUND,
    code::CANNOT_CHANGE,
    code::CONFLICT,
    code::WRONG_MAJOR,
    code::NO_FILTERS,
    code::DANGLING_PARENT,
    code::UNKNOWN_KIND,
];

/// Adds the engine's answer about a line, whose findings so far are those from `from` on. A finding
/// that says why the line is refused stands for the engine's.
fn answered(out: &mut Findings<'_>, from: usize, noted: &mut BTreeSet<String>, answer: Answer) {
    match answer {
        Answer::Refused(d) => {
            let said = out.said.iter_mut().skip(from).find(|d| REFUSING.contains(&d.code));
            match said {
                Some(said) => said.severity = Severity::Error,
                None => out.say(d),
            }
        }
        Answer::NotHere(mut d) => {
            d.code = code::NOT_IN_ENGINE;
            if noted.insert(d.message.clone()) {
                out.say(d.note());
            }
        }
        Answer::Taken | Answer::Unknown => {}
    }
}

/// True if the line may make an object for classes or filters of other lines. A leaf without a
/// handle is none.
fn may_make_classes(source: &Source, line: &Line) -> bool {
    let says = |word: &str| line.words.iter().any(|w| w.text == word);
    let leaf = line.words.iter().any(|w| kinds::is_leaf(source.kinds.get(&w.text)));
    !(leaf && says("parent") && !says("handle"))
}
