//! Actions as words and as printed text: see [`crate::filter`]. A file for each kind, with four
//! functions:
//!
//! - `read`: the parameters that the words set, and the control after it if the words do not name
//!   it; `None` if there are no words, so that they can only mean an existing action;
//! - `show`: the text and the JSON from the kind to `bind`;
//! - `words`: the words that make the action again, behind the kind and before those common to all
//!   actions;
//! - `offloads`: true if Linux would offer it to hardware, which listings show.

mod bpf;
mod csum;
mod gact;
mod gate;
mod ife;
mod mirred;
mod mpls;
mod nat;
mod pedit;
mod police;
mod sample;
mod simple;
mod skbedit;
mod skbmod;
mod vlan;

use std::sync::Arc;

use txweir_core::classify::action::police::Average;
use txweir_core::classify::action::{
    Action, ActionId, Actions, Control, Entry, Kind, Memory, Pedit, State, Wanted,
};
use txweir_core::classify::counters::Counters;
use txweir_core::classify::packet::PortId;
use txweir_core::{Handle, Instant};

use crate::class_names::ClassNames;
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::language::{self, Object, Settings};
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::{INCOMPLETE, Sentence};
use crate::source::Source;

/// Words that stand for `gact` with themselves behind it, and the control of each.
pub(crate) const CONTROLS: [(&str, Control); 10] = [
    ("pass", Control::Pass),
    ("ok", Control::Pass),
    ("drop", Control::Drop),
    ("shot", Control::Drop),
    ("continue", Control::Continue),
    ("reclassify", Control::Reclassify),
    ("pipe", Control::Pipe),
    ("trap", Control::Trap),
    ("goto", Control::Goto(0)),
    ("jump", Control::Jump(0)),
];

/// The highest number of a chain.
pub(crate) const CHAIN_MAX: u32 = 0x0fff_ffff;

/// Reads a number as C writes it, of 32 bits.
pub(crate) fn number(word: &str) -> Option<u32> {
    language::uint(word).and_then(|n| u32::try_from(n).ok())
}

/// Reads six bytes, with a colon between each two.
pub(crate) fn mac(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split(':').map(|part| match part.len() {
        1 | 2 if part.bytes().all(|b| b.is_ascii_hexdigit()) => u8::from_str_radix(part, 16).ok(),
        _ => None,
    });
    let mut mac = [0; 6];
    for byte in &mut mac {
        *byte = parts.next()??;
    }
    parts.next().is_none().then_some(mac)
}

/// Returns six bytes with a colon between each two.
pub(crate) fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Actions of Linux that the engine does not have, and the reasons.
const WITHOUT: [(&str, &str); 4] = [
    ("ct", NO_CONNECTIONS),
    ("ctinfo", NO_CONNECTIONS),
    ("connmark", NO_CONNECTIONS),
    ("tunnel_key", "it sets what a tunnel device of the kernel reads, and there is none here"),
];
const NO_CONNECTIONS: &str =
    "connections are not tracked here; skbedit sets marks, and nat rewrites addresses without state";

/// Reads one action of a list; `ports` returns the number of a device. The filter's estimator sets
/// how averages are measured.
pub(crate) fn read(
    source: &Arc<Source>,
    one: &language::Action<'_>,
    estimator: Option<(u8, u8)>,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Wanted, Diagnostic> {
    let own: Vec<Word>;
    // `drop` is `gact drop`.
    let (name, words) = match is_control(&one.kind.text) {
        true => {
            own = std::iter::once(one.kind).chain(one.words).cloned().collect();
            ("gact", own.as_slice())
        }
        false => (one.kind.text.as_str(), one.words),
    };
    let settings = Settings::of(Object::Action, name, source, words);
    let said = Said { source, kind: one.kind, handle: None, estimator, settings };
    if said.settings.has("skip_sw") {
        let err = said.error(code::UNSUPPORTED, said.at("skip_sw"), "there is no hardware to do it");
        return Err(err.linux(kernel::UNSUPPORTED_TALKING));
    }
    let index = said.u32("index").filter(|index| *index != 0);
    let made = match name {
        "gact" => gact::read(&said)?.map(|(gact, control)| (Kind::Gact(gact), control)),
        "bpf" => bpf::read(&said)?.map(|(bpf, control)| (Kind::Bpf(bpf), control)),
        "gate" => gate::read(&said)?.map(|(gate, control)| (Kind::Gate(gate), control)),
        "ife" => ife::read(&said)?.map(|(ife, control)| (Kind::Ife(ife), control)),
        "csum" => csum::read(&said)?.map(|(csum, control)| (Kind::Csum(csum), control)),
        "mirred" => mirred::read(&said, ports)?.map(|(mirred, control)| (Kind::Mirred(mirred), control)),
        "mpls" => mpls::read(&said)?.map(|(mpls, control)| (Kind::Mpls(mpls), control)),
        "nat" => nat::read(&said)?.map(|(nat, control)| (Kind::Nat(nat), control)),
        "pedit" => pedit::read(&said)?.map(|(pedit, control)| (Kind::Pedit(pedit), control)),
        "police" => police::read(&said)?,
        "sample" => sample::read(&said)?.map(|(sample, control)| (Kind::Sample(sample), control)),
        "simple" => simple::read(&said)?.map(|(simple, control)| (Kind::Simple(simple), control)),
        "skbedit" => skbedit::read(&said)?.map(|(skbedit, control)| (Kind::Skbedit(skbedit), control)),
        "skbmod" => skbmod::read(&said)?.map(|(skbmod, control)| (Kind::Skbmod(skbmod), control)),
        "vlan" => vlan::read(&said)?.map(|(vlan, control)| (Kind::Vlan(vlan), control)),
        kind => {
            let message = match WITHOUT.iter().find(|(name, _)| *name == kind) {
                Some((_, why)) => format!("there is no action {kind} in the engine: {why}"),
                None => format!("there is no action {kind} in the engine"),
            };
            let known = txweir_core::classify::action::KINDS.join(", ");
            let err = said.error(code::UNSUPPORTED, one.kind, message);
            return Err(err.expected(format!("one of {known}")));
        }
    };
    match (made, index) {
        (Some((kind, default)), index) => {
            // A packet that is redirected is gone, whatever control the words name.
            let control = match kind {
                Kind::Mirred(txweir_core::classify::action::Mirred { redirect: true, .. }) => default,
                _ => control(&said)?.unwrap_or(default),
            };
            let mut action = Action::new(kind, control);
            action.cookie = said.settings.word("cookie").map(|w| bytes(&w.text)).unwrap_or_default();
            action.no_percpu = said.settings.has("no_percpu");
            action.skip_hw = said.settings.has("skip_hw");
            action.hw_stats = hw_stats(&said)?;
            Ok(Wanted::New(index, Box::new(action)))
        }
        (None, Some(index)) => {
            match txweir_core::classify::action::KINDS.iter().find(|kind| **kind == name) {
                Some(kind) => Ok(Wanted::There(kind, index)),
                None => Err(said.error(code::UNKNOWN_KIND, one.kind, format!("there is no action {name}"))),
            }
        }
        (None, None) => {
            let message = format!("action {name} has no parameters");
            let err = said.error(code::MISSING, one.kind, message);
            let err = err.expected("its parameters, or index N of one that is there");
            Err(match name {
                "sample" => err.linux("sample bad argument count 1"),
                _ => err.linux(INCOMPLETE),
            })
        }
    }
}

/// True if a word is a control, which stands for `gact` with it.
pub(crate) fn is_control(word: &str) -> bool {
    CONTROLS.iter().any(|(control, _)| *control == word)
}

/// Returns the control after the action, if the words name one.
fn control(said: &Said<'_>) -> Result<Option<Control>, Diagnostic> {
    let mut control = None;
    for (setting, words) in said.settings.iter() {
        if is_control(setting.key) {
            control = Some(control_of(said, setting.key, words)?);
        }
    }
    Ok(control)
}

/// Returns the control that begins a list of words: `drop`, `jump 2`, `goto chain 7`.
pub(crate) fn control_of(said: &Said<'_>, key: &str, words: &[Word]) -> Result<Control, Diagnostic> {
    let known = CONTROLS.iter().find(|(word, _)| *word == key).map_or(Control::Pass, |(_, control)| *control);
    let last = words.last().unwrap_or(said.kind);
    let given = number(&last.text).unwrap_or(0);
    match known {
        Control::Goto(_) if given > CHAIN_MAX => {
            let message = format!("chain {given} is out of range");
            let err = said.error(code::OUT_OF_RANGE, last, message).expected(format!("at most {CHAIN_MAX}"));
            Err(err.linux(Sentence::Illegal("chain index")))
        }
        Control::Goto(_) => Ok(Control::Goto(given)),
        Control::Jump(_) => Ok(Control::Jump(given)),
        other => Ok(other),
    }
}

/// Reads hexadecimal digits, two for a byte.
fn bytes(digits: &str) -> Vec<u8> {
    let nibble = |b: u8| (b as char).to_digit(16).and_then(|d| u8::try_from(d).ok()).unwrap_or(0);
    digits.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |byte, b| byte << 4 | nibble(*b))).collect()
}

const HW_STATS: [(&str, u8); 3] = [("immediate", 1), ("delayed", 2), ("disabled", 0)];

fn hw_stats(said: &Said<'_>) -> Result<Option<u8>, Diagnostic> {
    let Some(word) = said.settings.word("hw_stats") else { return Ok(None) };
    match HW_STATS.iter().find(|(name, _)| *name == word.text) {
        Some((_, bits)) => Ok(Some(*bits)),
        None => {
            let message = format!("hw_stats: \"{}\" is not a value for it", word.text);
            let err = said.error(code::BAD_VALUE, word, message).expected("immediate, delayed or disabled");
            Err(err.linux(Sentence::Argument(&word.text, "value is invalid")))
        }
    }
}

/// Print options, and the tables and counters that printing actions and filters reads.
pub(crate) struct Ways<'a> {
    pub(crate) actions: &'a Actions,
    /// The numbers of the filters' counters.
    pub(crate) counters: &'a Counters,
    pub(crate) state: &'a State,
    pub(crate) now: Instant,
    pub(crate) statistics: bool,
    /// Names of classes.
    pub(crate) names: &'a ClassNames,
}

impl Ways<'_> {
    /// Returns the count of a filter's counter.
    pub(crate) fn hits(&self, number: u32) -> u64 {
        self.state.hits(self.counters, number)
    }
    /// Returns a class as it is printed.
    pub(crate) fn class(&self, class: Handle) -> String {
        self.names.shown(class)
    }
}

/// The listing in which an action is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum In {
    /// With its filter.
    Filter,
    /// By itself.
    Get,
    /// Among all of its kind.
    List,
}

/// Prints an action.
pub(crate) fn show(id: ActionId, order: u32, ways: &Ways<'_>, place: In, out: &mut Out) {
    let Some(entry) = ways.actions.entry(id) else { return };
    let action = &entry.action;
    let memory = ways.state.counted(ways.actions, id);
    out.open_item();
    out.uint("order", order, &format!("\n\taction order {order}: "));
    let shown = Shown { action, entry, memory: &memory, ways };
    match &action.kind {
        Kind::Bpf(bpf) => bpf::show(bpf, &shown, out),
        Kind::Gate(gate) => gate::show(gate, &shown, out),
        Kind::Ife(ife) => ife::show(ife, &shown, out),
        Kind::Csum(csum) => csum::show(csum, &shown, out),
        Kind::Gact(gact) => gact::show(gact, &shown, out),
        Kind::Mirred(mirred) => mirred::show(mirred, &shown, out),
        Kind::Mpls(mpls) => mpls::show(mpls, &shown, out),
        Kind::Nat(nat) => nat::show(nat, &shown, out),
        Kind::Pedit(pedit) => pedit::show(pedit, &shown, out),
        Kind::Police(police) => police::show(police, &shown, out),
        Kind::Sample(sample) => sample::show(sample, &shown, out),
        Kind::Simple(simple) => simple::show(simple, &shown, out),
        Kind::Skbedit(skbedit) => skbedit::show(skbedit, &shown, out),
        Kind::Skbmod(skbmod) => skbmod::show(skbmod, &shown, out),
        Kind::Vlan(vlan) => vlan::show(vlan, &shown, out),
    }
    // tc ends a bpf by a space on the next line.
    out.text(if matches!(action.kind, Kind::Bpf(_)) { "\n " } else { "\n" });
    if ways.statistics {
        statistics(&memory, out);
    }
    if !action.cookie.is_empty() {
        let digits: String = action.cookie.iter().map(|byte| format!("{byte:02x}")).collect();
        out.word("cookie", &digits, &format!("\tcookie {digits}\n"));
    }
    hardware(action, place, out);
    out.close();
}

fn statistics(memory: &Memory, out: &mut Out) {
    out.text("\tAction statistics:\n");
    out.open("stats");
    let Memory { bytes, packets, drops, overlimits, .. } = memory;
    out.uint("bytes", *bytes, &format!("\tSent {bytes} bytes"));
    out.uint("packets", *packets, &format!(" {packets} pkt"));
    out.uint("drops", *drops, &format!(" (dropped {drops},"));
    out.uint("overlimits", *overlimits, &format!(" overlimits {overlimits}"));
    out.uint("requeues", 0u32, " requeues 0) ");
    out.uint("backlog", 0u32, "\n\tbacklog 0b");
    out.uint("qlen", 0u32, " 0p requeues 0");
    out.text("\n");
    out.close();
}

/// Prints the flags about hardware, of which there is none.
fn hardware(action: &Action, place: In, out: &mut Out) {
    let mut said = false;
    if action.no_percpu {
        out.flag("no_percpu", "\tno_percpu");
        said = true;
    }
    if place != In::Filter {
        let key = if action.skip_hw { "skip_hw" } else { "not_in_hw" };
        out.flag(key, &format!("\t{key}"));
        said = true;
    }
    if said {
        out.text("\n");
    }
    let mut stats = |key: &str, bits: u8| {
        let names: Vec<&str> =
            HW_STATS.iter().filter(|(_, b)| *b & bits != 0 || bits == *b).map(|(n, _)| *n).collect();
        let json = crate::json::list(names.iter().map(|name| crate::json::quote(name)));
        out.raw(key, &json, &format!("\t{key} {}\n", names.join(" ")));
    };
    if let Some(bits) = action.hw_stats {
        stats("hw_stats", bits);
    }
    if place == In::List && offloads(action) {
        stats("used_hw_stats", 0);
    }
}

/// True if Linux would offer an action to hardware.
pub(crate) fn offloads(action: &Action) -> bool {
    let kind = match &action.kind {
        Kind::Gact(_) => gact::offloads(action.control),
        Kind::Skbedit(skbedit) => skbedit::offloads(skbedit),
        Kind::Mpls(mpls) => mpls::offloads(mpls),
        Kind::Pedit(pedit) => pedit::offloads(pedit),
        Kind::Csum(_)
        | Kind::Gate(_)
        | Kind::Mirred(_)
        | Kind::Police(_)
        | Kind::Sample(_)
        | Kind::Vlan(_) => true,
        Kind::Bpf(_) | Kind::Ife(_) | Kind::Nat(_) | Kind::Simple(_) | Kind::Skbmod(_) => false,
    };
    kind && !action.skip_hw
}

/// An action to be printed.
pub(crate) struct Shown<'a> {
    pub(crate) action: &'a Action,
    pub(crate) entry: &'a Entry,
    pub(crate) memory: &'a Memory,
    pub(crate) ways: &'a Ways<'a>,
}

impl Shown<'_> {
    /// Prints `index 1 ref 1 bind 1`, and with statistics the times, behind `before`.
    pub(crate) fn numbers(&self, before: &str, out: &mut Out) {
        let Entry { index, refs, binds, .. } = self.entry;
        out.uint("index", *index, &format!("{before}index {index}"));
        out.uint("ref", *refs, &format!(" ref {refs}"));
        out.uint("bind", *binds, &format!(" bind {binds}"));
        self.times(out);
    }

    /// Prints its age, and the time since its last use; nothing below one tick of tc's.
    pub(crate) fn times(&self, out: &mut Out) {
        if !self.ways.statistics {
            return;
        }
        let mut time = |key: &str, word: &str, since: Instant| {
            let passed = self.ways.now.saturating_since(since).0;
            if passed >= TICK {
                let seconds = passed / 1_000_000_000;
                out.uint(key, seconds, &format!(" {word} {seconds} sec"));
            }
        };
        time("installed", "installed", self.entry.made);
        time("last_used", "used", self.memory.used.unwrap_or(self.entry.made));
        if let Some(first) = self.memory.first {
            time("first_used", "firstused", first);
        }
    }
}

/// The grain of the times that tc gets, nanoseconds.
const TICK: u64 = 10_000_000;

/// Prints a control, as an object of this key; the text has `before` in front.
pub(crate) fn show_control(control: Control, key: &str, before: &str, out: &mut Out) {
    let name = control.name();
    out.open(key);
    out.word("type", name, &format!("{before}{name}"));
    match control {
        Control::Goto(chain) => out.uint("chain", chain, &format!(" chain {chain}")),
        Control::Jump(to) => out.uint("jump", to, &format!(" {to}")),
        _ => {}
    }
    out.close();
}

/// Returns a control in words.
pub(crate) fn control_words(control: Control) -> String {
    match control {
        Control::Goto(chain) => format!("goto chain {chain}"),
        Control::Jump(to) => format!("jump {to}"),
        // Only actions that set their own control come here.
        Control::Stolen | Control::Queued | Control::Repeat => "pipe".into(),
        other => other.name().into(),
    }
}

/// Returns the words before a filter's kind that make its new actions measure their averages, each
/// behind a space.
pub(crate) fn estimator_words(entries: &[&Entry]) -> String {
    let average = entries.iter().find_map(|entry| match &entry.action.kind {
        Kind::Police(police) => police.config().average,
        _ => None,
    });
    average.map(police::estimator_words).unwrap_or_default()
}

/// Returns the words of the estimator that measures such an average.
pub(crate) fn estimator_of(average: Average) -> String {
    police::estimator_words(average)
}

/// Returns the words that make a pedit again; `None` if it changes bits that no words name.
pub(crate) fn pedit_words(pedit: &Pedit) -> Option<String> {
    pedit::all_words(pedit)
}

/// Returns the words after `action` that make it again.
pub(crate) fn words(entry: &Entry) -> String {
    let action = &entry.action;
    let control = control_words(action.control);
    let mut words = match &action.kind {
        Kind::Gact(gact) => gact::words(gact, &control),
        Kind::Mirred(mirred) => mirred::words(mirred, &control),
        Kind::Police(police) => police::words(police, &control),
        Kind::Bpf(bpf) => format!("{} {control}", bpf::words(bpf)),
        Kind::Gate(gate) => format!("{} {control}", gate::words(gate)),
        Kind::Ife(ife) => format!("{} {control}", ife::words(ife)),
        Kind::Csum(csum) => format!("{} {control}", csum::words(csum)),
        Kind::Mpls(mpls) => format!("{} {control}", mpls::words(mpls)),
        Kind::Nat(nat) => format!("{} {control}", nat::words(nat)),
        Kind::Pedit(pedit) => format!("{} {control}", pedit::words(pedit)),
        Kind::Sample(sample) => format!("{} {control}", sample::words(sample)),
        Kind::Simple(simple) => format!("{} {control}", simple::words(simple)),
        Kind::Skbedit(skbedit) => format!("{} {control}", skbedit::words(skbedit)),
        Kind::Skbmod(skbmod) => format!("{} {control}", skbmod::words(skbmod)),
        Kind::Vlan(vlan) => format!("{} {control}", vlan::words(vlan)),
    };
    words.push_str(&format!(" index {}", entry.index));
    if !action.cookie.is_empty() {
        let digits: String = action.cookie.iter().map(|byte| format!("{byte:02x}")).collect();
        words.push_str(&format!(" cookie {digits}"));
    }
    if let Some(bits) = action.hw_stats {
        let name = HW_STATS.iter().find(|(_, b)| *b == bits).map_or("disabled", |(name, _)| name);
        words.push_str(&format!(" hw_stats {name}"));
    }
    for (said, word) in [(action.no_percpu, " no_percpu"), (action.skip_hw, " skip_hw")] {
        words.push_str(if said { word } else { "" });
    }
    words
}
