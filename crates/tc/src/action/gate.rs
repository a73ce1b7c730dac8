//! gate (tc-gate(8)).

use txweir_core::classify::action::gate::{GateConfig, GateEntry};
use txweir_core::classify::action::{Control, Gate};
use txweir_core::qdisc::etf::Clock;
use txweir_core::text::value::{NanosBare, text_of};
use txweir_core::{Bytes, ErrorKind};

use super::{Shown, number, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::language::{int, one};
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::{INCOMPLETE, Sentence};

/// The number of a priority or of bytes that stands for any.
const WILDCARD: i64 = -1;

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Gate, Control)>, Diagnostic> {
    let s = &said.settings;
    let entries: Vec<&[Word]> =
        s.iter().filter(|(setting, _)| setting.key == "sched-entry").map(|(_, words)| words).collect();
    if entries.is_empty() {
        if s.all_words().is_empty() || s.has("index") {
            return Ok(None);
        }
        let err = said.error(code::MISSING, said.kind, "gate needs an entry of its schedule");
        return Err(err.expected("sched-entry open INTERVAL").linux("gate: must add at least one entry"));
    }
    let config = GateConfig {
        priority: any(said, "priority", s.word("priority"))?,
        clock: clock(said)?,
        flags: s.word("flags").and_then(|word| number(&word.text)).unwrap_or(0),
        base_time: time(said, "base-time")?,
        cycle_time: time(said, "cycle-time")?,
        cycle_time_ext: time(said, "cycle-time-ext")?,
        entries: entries.into_iter().map(|words| entry(said, words)).collect::<Result<_, _>>()?,
    };
    match Gate::new(config) {
        Ok(gate) => Ok(Some((gate, Control::Pipe))),
        Err(err) => {
            let line = match err.kind {
                ErrorKind::BadValue => kernel::GATE_INTERVAL,
                _ => kernel::INVALID_TALKING,
            };
            Err(said.error(code::OUT_OF_RANGE, said.at("sched-entry"), err.to_string()).linux(line))
        }
    }
}

/// Returns the error for a value of a key.
fn bad(said: &Said<'_>, key: &str, word: &Word, expected: &str) -> Diagnostic {
    let message = format!("gate {key}: \"{}\" is not a value for it", word.text);
    said.error(code::BAD_VALUE, word, message).expected(expected).linux(Sentence::Argument(&word.text, key))
}

/// Reads a number from 0 on; -1 is any.
fn any(said: &Said<'_>, key: &str, word: Option<&Word>) -> Result<Option<u32>, Diagnostic> {
    let Some(word) = word else { return Ok(None) };
    match int(&word.text) {
        Some(WILDCARD) => Ok(None),
        Some(n @ 0..=0x7fff_ffff) => Ok(u32::try_from(n).ok()),
        _ => Err(bad(said, key, word, "a whole number from 0 to 2147483647, or -1 for any")),
    }
}

fn clock(said: &Said<'_>) -> Result<Clock, Diagnostic> {
    let Some(word) = said.settings.word("clockid") else { return Ok(Clock::Tai) };
    one(&word.text).ok_or_else(|| bad(said, "clockid", word, "a clock (CLOCK_TAI)"))
}

/// Reads a time of this key; 0 if there is none.
fn time(said: &Said<'_>, key: &str) -> Result<u64, Diagnostic> {
    let Some(word) = said.settings.word(key) else { return Ok(0) };
    ns(word).ok_or_else(|| bad(said, key, word, "a time (5ms, 100us, 2s; bare: nanoseconds)"))
}

/// Reads a time of 63 bits.
fn ns(word: &Word) -> Option<u64> {
    one::<NanosBare>(&word.text).map(|time| time.0).filter(|ns| i64::try_from(*ns).is_ok())
}

/// Reads `sched-entry STATE INTERVAL [IPV [OCTETS]]`.
fn entry(said: &Said<'_>, words: &[Word]) -> Result<GateEntry, Diagnostic> {
    let [_, state, interval, rest @ ..] = words else {
        return Err(said
            .error(code::MISSING, said.kind, "gate sched-entry needs a state and an interval")
            .linux(INCOMPLETE));
    };
    let Some(ns) = ns(interval) else {
        return Err(bad(said, "sched-entry", interval, "a time (5ms, 100us, 2s; bare: nanoseconds)"));
    };
    let Ok(ns) = u32::try_from(ns) else {
        let message = format!("gate sched-entry: an interval of {ns} ns is too long");
        let err = said.error(code::OUT_OF_RANGE, interval, message).expected("below 4.29 s");
        return Err(err.linux("\"interval\" is too large"));
    };
    let octets = match rest.get(1) {
        Some(word) if int(&word.text).is_none() => {
            let size = one::<Bytes>(&word.text).and_then(|size| i32::try_from(size.0).ok());
            let expected = "a size below 2 GB, or -1 for any";
            Some(size.map(i32::cast_unsigned).ok_or_else(|| bad(said, "sched-entry", word, expected))?)
        }
        word => any(said, "sched-entry", word)?,
    };
    let ipv = any(said, "sched-entry", rest.first())?;
    Ok(GateEntry { open: state.text.eq_ignore_ascii_case("open"), ns, ipv, octets })
}

/// Returns a number in a field of this width, or the word for any.
fn or_any(value: Option<String>, width: usize) -> String {
    value.map_or_else(|| "wildcard".into(), |value| format!("{value:<width$}"))
}

const fn state(entry: &GateEntry) -> &'static str {
    if entry.open { "open" } else { "close" }
}

pub(super) fn show(gate: &Gate, shown: &Shown<'_>, out: &mut Out) {
    let config = gate.config();
    let signed = |value: Option<u32>| value.map_or(WILDCARD, i64::from);
    let priority = or_any(config.priority.map(|n| n.to_string()), 8);
    // As in tc, its kind is not there.
    out.int("priority", signed(config.priority), &format!("\n\tpriority {priority}"));
    out.word("clockid", config.clock.name(), &format!("\tclockid {}", config.clock.name()));
    let flags = if config.flags == 0 { "0".into() } else { format!("{:#x}", config.flags) };
    out.word("flags", &flags, &format!("\tflags {flags}"));
    let mut time = |key: &str, before: &str, ns: u64| {
        out.uint(key, ns, &format!("{before} {}", text_of(&NanosBare(ns))));
    };
    time("base_time", "\n\tbase-time", config.base_time);
    time("cycle_time", "\tcycle-time", config.cycle_time);
    time("cycle_time_ext", "\tcycle-time-ext", config.cycle_time_ext);
    out.text("\n\tschedule:");
    out.open_list("schedule");
    for (number, entry) in (0u32..).zip(&config.entries) {
        out.open_item();
        out.uint("number", number, &format!("\n\t number {number:4}"));
        out.word("gate_state", state(entry), &format!("\tgate-state {} ", state(entry)));
        let interval = text_of(&NanosBare(entry.ns.into()));
        out.uint("interval", entry.ns, &format!("\tinterval {interval}"));
        let ipv = or_any(entry.ipv.map(|n| n.to_string()), 10);
        out.int("ipv", signed(entry.ipv), &format!("\t ipv {ipv}"));
        let octets = or_any(entry.octets.map(|n| text_of(&Bytes(n.into()))), 0);
        out.int("max_octets", signed(entry.octets), &format!("\t max-octets {octets}"));
        out.close();
    }
    out.close_list();
    show_control(shown.action.control, "control_action", "\n\t", out);
    shown.numbers("\n\t ", out);
}

pub(super) fn words(gate: &Gate) -> String {
    let GateConfig { priority, clock, flags, base_time, cycle_time, cycle_time_ext, entries } = gate.config();
    let signed = |value: Option<u32>| value.map_or(WILDCARD, i64::from);
    let mut words =
        format!("gate priority {} base-time {base_time} cycle-time {cycle_time}", signed(*priority));
    words.push_str(&format!(" cycle-time-ext {cycle_time_ext} clockid {} flags {flags}", clock.name()));
    for entry in entries {
        let (ipv, octets) = (signed(entry.ipv), signed(entry.octets));
        words.push_str(&format!(" sched-entry {} {} {ipv} {octets}", state(entry), entry.ns));
    }
    words
}
