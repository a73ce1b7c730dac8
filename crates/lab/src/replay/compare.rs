//! Differences between a trace and the replay.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::TOLERANCE_NS;
use super::play::Played;
use super::trace::{Departure, Show, Step, Trace};

/// Number of departures shown before and after the first difference.
const BEFORE: usize = 3;
const AFTER: usize = 5;
/// Number of packets and counters that are listed by name; the rest is counted.
const LISTED: usize = 12;

/// Aspect of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// The exit status of a command.
    Status,
    /// The order of departures.
    Order,
    /// The time of a departure.
    Time,
    /// The set of dropped packets.
    Drops,
    /// The set of marked packets.
    Marks,
    /// A counter or an option that `show` reports.
    Counters,
    /// The text that `show` prints.
    Text,
}

impl Aspect {
    /// Returns its name, by which a trace waives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Order => "order",
            Self::Time => "time",
            Self::Drops => "drops",
            Self::Marks => "marks",
            Self::Counters => "counters",
            Self::Text => "text",
        }
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The aspect.
    pub aspect: Aspect,
    /// The difference, in one line.
    pub what: String,
    /// Behaviour of Linux and behaviour here, line by line.
    pub rows: Vec<(String, String, String)>,
    /// The row of PARITY.md that documents the difference as intended.
    pub meant: Option<String>,
}

/// Returns all differences, the first of each aspect. Of a kind that draws random numbers, `chance`
/// compares the packets and the counters.
pub(super) fn compare(trace: &Trace, played: &Played) -> Vec<Difference> {
    let mut all = statuses(trace, played);
    if trace.head.random {
        all.extend(options(trace, played));
    } else {
        all.extend(order(trace, played).or_else(|| times(trace, played)));
        all.extend(drops(trace, played));
        all.extend(marks(trace, played));
        all.extend(shows(trace, played));
    }
    for difference in &mut all {
        if difference.meant.is_none() {
            difference.meant = trace.waived(difference.aspect.name()).map(String::from);
        }
    }
    all
}

pub(super) fn difference(aspect: Aspect, what: String, rows: Vec<(String, String, String)>) -> Difference {
    Difference { aspect, what, rows, meant: None }
}

fn statuses(trace: &Trace, played: &Played) -> Vec<Difference> {
    let commands = trace.steps.iter().filter_map(|step| match step {
        Step::Command { line, status, .. } => Some((line, *status)),
        _ => None,
    });
    let wrong = commands.zip(&played.commands).filter(|((_, there), (here, _))| there != here);
    wrong
        .map(|((line, there), (here, said))| {
            let said = said.lines().next().unwrap_or_default();
            let row = (String::new(), format!("status {there}"), format!("status {here} {said}"));
            difference(Aspect::Status, format!("tc {line}"), vec![row])
        })
        .collect()
}

/// Formats a time as microseconds with a point before the last three digits.
pub(super) fn time(ns: i64) -> String {
    let (us, rest) = (ns.div_euclid(1000), ns.rem_euclid(1000));
    format!("{us}.{rest:03}")
}

fn left(trace: &Trace, d: Option<&Departure>) -> String {
    d.map_or_else(
        || "-".into(),
        |d| {
            let whole = trace.arrivals[d.packet].size == d.len;
            let len = if whole { String::new() } else { format!(" {} B", d.len) };
            format!("{} us  #{}{len}", time(d.at), d.packet)
        },
    )
}

fn around(trace: &Trace, played: &Played, at: usize) -> Vec<(String, String, String)> {
    let rows = trace.departures.len().max(played.departures.len());
    (at.saturating_sub(BEFORE)..rows.min(at + AFTER))
        .map(|i| {
            let mark = if i == at { "> " } else { "" };
            let (there, here) = (trace.departures.get(i), played.departures.get(i));
            (format!("{mark}{i}"), left(trace, there), left(trace, here))
        })
        .collect()
}

fn order(trace: &Trace, played: &Played) -> Option<Difference> {
    let of = |d: &Departure| (d.packet, d.len);
    let (there, here) = (&trace.departures, &played.departures);
    let first = (0..there.len().max(here.len())).find(|&i| there.get(i).map(of) != here.get(i).map(of))?;
    let what = format!("from departure {first} on ({} left there, {} here)", there.len(), here.len());
    Some(difference(Aspect::Order, what, around(trace, played, first)))
}

fn times(trace: &Trace, played: &Played) -> Option<Difference> {
    let off = |(there, here): (&Departure, &Departure)| there.at.saturating_sub(here.at).saturating_abs();
    let pairs = || trace.departures.iter().zip(&played.departures).map(off);
    let first = pairs().position(|off| off > TOLERANCE_NS)?;
    let worst = pairs().max().unwrap_or(0);
    let many = pairs().filter(|off| *off > TOLERANCE_NS).count();
    let what = format!("of {many} departures, from {first} on, by up to {} us", time(worst));
    Some(difference(Aspect::Time, what, around(trace, played, first)))
}

fn list(packets: &[usize]) -> String {
    let named: Vec<String> = packets.iter().take(LISTED).map(|p| format!("#{p}")).collect();
    let more = packets.len().saturating_sub(LISTED);
    match (packets.len(), more) {
        (0, _) => "none".into(),
        (_, 0) => named.join(" "),
        _ => format!("{} and {more} more", named.join(" ")),
    }
}

fn drops(trace: &Trace, played: &Played) -> Option<Difference> {
    let of = |all: &[Departure]| all.iter().map(|d| d.packet).collect::<BTreeSet<usize>>();
    let (there, here) = (of(&trace.departures), of(&played.departures));
    let only_here: Vec<usize> = there.difference(&here).copied().collect();
    let only_there: Vec<usize> = here.difference(&there).copied().collect();
    if only_here.is_empty() && only_there.is_empty() {
        return None;
    }
    let many = |left: &BTreeSet<usize>| trace.arrivals.len() - left.len();
    let what = format!("{} did not leave there, {} here", many(&there), many(&here));
    let row = ("only".into(), list(&only_there), list(&only_here));
    Some(difference(Aspect::Drops, what, vec![row]))
}

/// Compares the marks of each packet, piece by piece: a super-packet may leave as several, and a
/// copy leaves by itself. A piece that is missing is a difference of the order.
fn marks(trace: &Trace, played: &Played) -> Option<Difference> {
    let of = |all: &[Departure]| {
        let mut found: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        all.iter().for_each(|d| found.entry(d.packet).or_default().push(d.ds));
        found
    };
    let (there, here) = (of(&trace.departures), of(&played.departures));
    let differs = |(packet, marks): (&usize, &Vec<u8>)| {
        let mut pieces = marks.iter().zip(here.get(packet)?);
        pieces.any(|(a, b)| a != b).then_some(*packet)
    };
    let wrong: Vec<usize> = there.iter().filter_map(differs).collect();
    if wrong.is_empty() {
        return None;
    }
    let rows = wrong.iter().take(LISTED).map(|p| {
        let ds = |of: &BTreeMap<usize, Vec<u8>>| {
            let pieces = of.get(p).into_iter().flatten();
            pieces.fold("DS".to_string(), |all, ds| format!("{all} {ds:#04x}"))
        };
        (format!("#{p}"), ds(&there), ds(&here))
    });
    Some(difference(Aspect::Marks, format!("of {} packets", wrong.len()), rows.collect()))
}

/// Returns the options that `show` prints otherwise, of a kind that draws random numbers: its
/// counters vary.
fn options(trace: &Trace, played: &Played) -> Vec<Difference> {
    let recorded = trace.steps.iter().filter_map(|step| match step {
        Step::Show(at, show) => Some((*at, show)),
        _ => None,
    });
    let lines = |show: &Show| -> String {
        show.qdisc_text.split_inclusive('\n').filter(|line| line.starts_with("qdisc ")).collect()
    };
    let only = |show: &Show| Show { qdisc_text: lines(show), ..Show::default() };
    let pairs = recorded.zip(&played.shows);
    pairs
        .filter_map(|((at, there), here)| {
            texts(trace, &only(there), &only(here), &format!("at {} us", time(at)))
        })
        .collect()
}

fn shows(trace: &Trace, played: &Played) -> Vec<Difference> {
    let recorded = trace.steps.iter().filter_map(|step| match step {
        Step::Show(at, show) => Some((*at, show)),
        _ => None,
    });
    let mut all = Vec::new();
    for ((at, there), here) in recorded.zip(&played.shows) {
        let mut found = Vec::new();
        for (what, there, here) in
            [("qdisc", &there.qdisc, &here.qdisc), ("class", &there.class, &here.class)]
        {
            match (there, here) {
                (Some(there), Some(here)) => listed(there, here, what, &mut found),
                (Some(_), None) => {
                    let row = (format!("{what} show -j"), "JSON".into(), "no JSON".into());
                    found.push((what.into(), row));
                }
                // Linux's tc prints some lists as text.
                (None, _) => {}
            }
        }
        let uncounted = trace.counts_no_segments();
        found.retain(|(key, _)| !(uncounted && key == "packets"));
        let (meant, wrong): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(key, _)| trace.waived(key).is_some());
        let what = format!("at {} us", time(at));
        for (key, row) in meant {
            let row_name = trace.waived(&key).map(String::from);
            all.push(Difference { meant: row_name, ..difference(Aspect::Counters, what.clone(), vec![row]) });
        }
        if wrong.is_empty() {
            all.extend(texts(trace, there, here, &what));
        } else {
            let rows = wrong.into_iter().map(|(_, row)| row).collect();
            all.push(difference(Aspect::Counters, what, rows));
        }
    }
    all
}

/// A counter's key, and the row with its difference.
type Wrong = (String, (String, String, String));

/// Compares two lists of qdiscs or classes, matched by handle and place.
fn listed(there: &[Value], here: &[Value], what: &str, wrong: &mut Vec<Wrong>) {
    let name = |v: &Value| {
        let part = |key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        format!("{} {}", part("handle"), part("parent")).trim().to_string()
    };
    for object in there {
        let id = name(object);
        let kind = object.get("kind").or_else(|| object.get("class")).and_then(Value::as_str).unwrap_or(what);
        match here.iter().find(|o| name(o) == id) {
            Some(ours) => values("", object, ours, &format!("{kind} {id}"), wrong),
            None => wrong.push((id.clone(), (format!("{what} {id}"), kind.into(), "-".into()))),
        }
    }
    for object in here {
        let id = name(object);
        if !there.iter().any(|o| name(o) == id) {
            wrong.push((id.clone(), (format!("{what} {id}"), "-".into(), object.to_string())));
        }
    }
}

/// True if a key is txweir's own: Linux does not report it (PARITY.md, reasons-json).
pub(super) fn is_own(key: &str) -> bool {
    ["drop_reasons", "mark_reasons", "linux_drop_reasons"].contains(&key)
}

/// True if both are delays in whole microseconds that differ by the tolerance of times.
fn is_near(key: &str, there: &Value, here: &Value) -> bool {
    let us = |value: &Value| value.as_i64().map(|us| us.saturating_mul(1000));
    match (us(there), us(here)) {
        (Some(a), Some(b)) => key.ends_with("_delay_us") && a.abs_diff(b) <= TOLERANCE_NS.unsigned_abs(),
        _ => false,
    }
}

fn values(key: &str, there: &Value, here: &Value, place: &str, wrong: &mut Vec<Wrong>) {
    match (there, here) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys().filter(|key| !is_own(key))).collect();
            for key in keys {
                let none = Value::Null;
                let (a, b) = (a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none));
                values(key, a, b, place, wrong);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                values(key, a, b, place, wrong);
            }
        }
        _ if there == here || is_near(key, there, here) => {}
        _ => wrong.push((key.to_string(), (format!("{place} {key}"), there.to_string(), here.to_string()))),
    }
}

/// Returns the first line that `show` prints differently.
fn texts(trace: &Trace, there: &Show, here: &Show, what: &str) -> Option<Difference> {
    let classes = if trace.head.hashed { nameless(&here.class_text) } else { here.class_text.clone() };
    let classes = (flows_apart(&there.class_text), flows_apart(&classes));
    let pairs = [(&there.qdisc_text, &here.qdisc_text), (&classes.0, &classes.1)]
        .map(|(there, here)| (by_class(there), by_class(here)));
    let mut rows = Vec::new();
    for (there, here) in &pairs {
        let (a, mut b): (Vec<&str>, Vec<&str>) = (there.lines().collect(), here.lines().collect());
        if trace.waived(CLASSES).is_some() {
            b = only_listed(&a, &b, trace);
        }
        let longest = a.len().max(b.len());
        let line = |lines: &[&str], i: usize| lines.get(i).map(|line| comparable(trace, line));
        if let Some(i) = (0..longest).find(|&i| !alike(line(&a, i), line(&b, i))) {
            let quoted = |lines: &[&str]| lines.get(i).map_or_else(|| "-".into(), |l| format!("\"{l}\""));
            rows.push((format!("line {}", i + 1), quoted(&a), quoted(&b)));
        }
    }
    (!rows.is_empty()).then(|| difference(Aspect::Text, what.into(), rows))
}

/// Returns the text of classes whose numbers are hash values in the trace's form: without the
/// numbers, in the order of the remaining text, and without deficits, which depend on the division
/// of a turn.
fn nameless(text: &str) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        let mut words: Vec<String> = line.split(' ').map(String::from).collect();
        let class = line.starts_with("class ");
        let id = words.get(2).and_then(|id| id.split_once(':')).filter(|(_, minor)| !minor.is_empty());
        if class && let Some((major, _)) = id {
            words[2] = format!("{major}:_");
        }
        if let Some(at) = words.iter().position(|w| w == "deficit").filter(|at| at + 1 < words.len()) {
            words[at + 1] = "_".into();
        }
        match blocks.last_mut() {
            Some(block) if !class => block.push_str(&words.join(" ")),
            _ => blocks.push(words.join(" ")),
        }
    }
    blocks.sort();
    blocks.concat()
}

/// Kinds whose classes are flows, numbered by a hash with a random key.
const HASHED: [&str; 3] = ["class fq_codel ", "class sfq ", "class cake "];

/// Returns the text with classes that are flows without their numbers, and with those of each qdisc
/// sorted.
fn flows_apart(text: &str) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if !line.starts_with("class ") => block.push_str(line),
            _ => blocks.push(line.into()),
        }
    }
    for block in &mut blocks {
        if let Some(kind) = HASHED.iter().find(|kind| block.starts_with(**kind)) {
            let rest = &block[kind.len()..];
            let major = rest.split(':').next().unwrap_or_default().to_string();
            let behind = rest.split_once(' ').map_or("", |(_, behind)| behind).to_string();
            *block = format!("{kind}{major}:* {behind}");
        }
    }
    let kind = |block: &str| HASHED.iter().any(|kind| block.starts_with(kind));
    for run in blocks.chunk_by_mut(|a, b| kind(a) && kind(b)) {
        run.sort();
    }
    blocks.concat()
}

/// Returns a text with its classes in the order of their first lines: the kernel's order is that of
/// a hash table (PARITY.md: class-order).
fn by_class(text: &str) -> String {
    let starts = text.match_indices("class ").map(|(at, _)| at);
    let mut starts: Vec<usize> = starts.filter(|at| *at == 0 || text[..*at].ends_with('\n')).collect();
    starts.push(text.len());
    let mut classes: Vec<&str> = starts.windows(2).map(|at| &text[at[0]..at[1]]).collect();
    classes.sort_unstable();
    [&text[..starts[0]]].into_iter().chain(classes).collect()
}

/// Waiver of a trace in which Linux leaves classes out of its list.
const CLASSES: &str = "classes";

/// Returns the lines of those classes here that Linux lists as well, each as often as there.
fn only_listed<'a>(there: &[&str], here: &[&'a str], trace: &Trace) -> Vec<&'a str> {
    let starts = |line: &&str| line.starts_with("class ");
    let mut listed: Vec<&str> = there.iter().copied().filter(starts).collect();
    let mut kept = true;
    let keep = |line: &&&str| {
        if starts(line) {
            let found = listed.iter().position(|l| comparable(trace, l) == comparable(trace, line));
            kept = found.is_some();
            found.map(|at| listed.swap_remove(at));
        }
        kept
    };
    here.iter().filter(keep).copied().collect()
}

/// Returns a line without the words that are not compared: counters that the trace waives, the
/// number of waiting packets of a class if it waives that, and the number of sent packets where the
/// kernel does not count the segments of super-packets.
fn comparable(trace: &Trace, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let uncounted = trace.counts_no_segments();
    let waived = |i: usize| words.get(i).is_some_and(|key| trace.waived(key).is_some());
    let hidden = |i: usize| {
        waived(i)
            || i > 0 && waived(i - 1)
            || i > 1 && words[i - 2] == "backlog" && trace.waived("class_qlen").is_some()
            || uncounted && words.get(i + 1).is_some_and(|next| *next == "pkt")
    };
    let kept = words.iter().enumerate().filter(|(i, _)| !hidden(*i)).map(|(_, word)| *word);
    kept.collect::<Vec<_>>().join(" ")
}

/// Words of a printed line whose values are measured times that no other output has: two of them
/// within the tolerance may be rounded to different digits.
const ROUNDED: [&str; 1] = ["ldelay"];

/// True if two lines are the same, but for the last digit of a measured time.
fn alike(there: Option<String>, here: Option<String>) -> bool {
    let (Some(there), Some(here)) = (&there, &here) else { return there == here };
    let pairs: Vec<(&str, &str)> = there.split(' ').zip(here.split(' ')).collect();
    let measured = |i: usize| i > 0 && ROUNDED.contains(&pairs[i - 1].0);
    let same = |(i, (there, here)): (usize, &(&str, &str))| {
        there == here || measured(i) && is_last_digit(there, here)
    };
    there.split(' ').count() == here.split(' ').count() && pairs.iter().enumerate().all(same)
}

/// True if two printed times have the same unit, and digits that differ by one in the last place.
fn is_last_digit(there: &str, here: &str) -> bool {
    let parts = |word: &str| {
        let unit = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = word.split_at(unit);
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Some((number.replace('.', "").parse::<u64>().ok()?, decimals, unit.to_owned()))
    };
    let (Some(there), Some(here)) = (parts(there), parts(here)) else { return false };
    (there.1, &there.2) == (here.1, &here.2) && there.0.abs_diff(here.0) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that is no JSON here is no list that is equal.
    #[test]
    fn what_linux_prints_as_json_has_to_be_json() {
        let small = Trace::read(include_str!("../../tests/it/replay/small.jsonl")).expect("a trace");
        let recorded = small.steps.iter().filter_map(|step| match step {
            Step::Show(_, show) => Some(show.clone()),
            _ => None,
        });
        let mut played = Played { shows: recorded.collect(), ..Played::default() };
        assert_eq!(shows(&small, &played), []);
        played.shows[0].qdisc = None;
        let found = shows(&small, &played);
        let aspects: Vec<Aspect> = found.iter().map(|d| d.aspect).collect();
        assert_eq!(aspects, [Aspect::Counters]);
        assert_eq!((found[0].rows.len(), found[0].rows[0].2.as_str()), (1, "no JSON"));
    }

    /// Every piece of a super-packet has its mark, not the last one alone.
    #[test]
    fn the_mark_of_each_piece_of_a_packet_counts() {
        let mut small = Trace::read(include_str!("../../tests/it/replay/small.jsonl")).expect("a trace");
        let pieces = |marks: [u8; 3]| -> Vec<Departure> {
            marks.map(|ds| Departure { at: 0, packet: 0, len: 300, ds }).into()
        };
        small.departures = pieces([0, 3, 0]);
        let found = |marks: [u8; 3]| {
            let played = Played { departures: pieces(marks), ..Played::default() };
            super::marks(&small, &played)
        };
        assert_eq!(found([0, 3, 0]), None);
        let difference = found([3, 0, 0]).expect("a difference");
        let row = ("#0".to_string(), "DS 0x00 0x03 0x00".to_string(), "DS 0x03 0x00 0x00".to_string());
        assert_eq!((difference.aspect, difference.rows), (Aspect::Marks, vec![row]));
    }

    #[test]
    fn only_the_last_digit_of_a_measured_time_may_differ() {
        let same = |there: &str, here: &str| alike(Some(there.into()), Some(here.into()));
        assert!(same("  count 2 ldelay 7.44s dropping", "  count 2 ldelay 7.43s dropping"));
        assert!(same("ldelay 12us", "ldelay 12us") && alike(None, None));
        for (there, here) in [
            ("ldelay 7.45s", "ldelay 7.43s"),
            ("ldelay 7.44s", "ldelay 7.43ms"),
            ("ldelay 7.4s", "ldelay 7.43s"),
            ("target 7.44s", "target 7.43s"),
            ("count 3 ldelay 7.44s", "count 2 ldelay 7.44s"),
            ("ldelay 7.44s", "ldelay 7.44s dropping"),
        ] {
            assert!(!same(there, here), "{there}, {here}");
        }
        assert!(!alike(Some("a".into()), None));
    }
}
