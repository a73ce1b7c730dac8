//! mqprio: `struct tc_mqprio_qopt`, and attributes behind it.

use super::{Words, many, pair, prio, record};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, NESTED, Record, Writer, aligned};

/// Bytes of the struct: the number of classes, the map, the offload, counts, offsets.
const LEN: usize = 82;
/// Most classes.
const CLASSES: usize = 16;
const MODE: u16 = 1;
const SHAPER: u16 = 2;
const MIN_RATE64: u16 = 3;
const MAX_RATE64: u16 = 4;
const ENTRY: u16 = 5;
const ENTRY_INDEX: u16 = 1;
const ENTRY_FP: u16 = 2;

/// The modes and shapers, by their numbers.
const MODES: [&str; 2] = ["dcb", "channel"];
const SHAPERS: [&str; 2] = ["dcb", "bw_rlimit"];

/// Returns the words of the classes in the struct, which a kind of this name has.
pub(super) fn classes(options: &[u8], kind: &str) -> Words {
    let r = record(options, LEN, kind)?;
    let classes = r.u8(0);
    let mut words = Vec::from(pair("num_tc", classes));
    words.extend(many("map", (1..17).map(|at| r.u8(at))));
    let count = usize::from(classes).min(CLASSES);
    let queues: Vec<String> =
        (0..count).map(|tc| format!("{}@{}", r.u16(18 + 2 * tc), r.u16(50 + 2 * tc))).collect();
    if queues.iter().any(|queue| queue != "0@0") {
        words.extend(many("queues", queues));
    }
    Ok(words)
}

pub(super) fn read(options: &[u8]) -> Words {
    let mut words = classes(options, "mqprio")?;
    let r = record(options, LEN, "mqprio")?;
    let count = usize::from(r.u8(0)).min(CLASSES);
    words.extend(pair("hw", r.u8(17)));
    let all = Attributes::read(options.get(aligned(LEN)..).unwrap_or(&[]), "mqprio")?;
    all.only(&[MODE, SHAPER, MIN_RATE64, MAX_RATE64, ENTRY])?;
    for (key, number, names) in [("mode", MODE, MODES), ("shaper", SHAPER, SHAPERS)] {
        if let Some(r) = all.record(number, 2)? {
            let n = r.u16(0);
            let wrong = || Refusal::invalid(format!("mqprio {key}: expected 0 or 1, given {n}"));
            words.extend(pair(key, names.get(usize::from(n)).ok_or_else(wrong)?));
        }
    }
    for (key, number) in [("min_rate", MIN_RATE64), ("max_rate", MAX_RATE64)] {
        let list = all.nested(number)?;
        list.only(&[number])?;
        let rate = |bytes| Record::of(bytes, 8, key).map(|r| format!("{}bps", r.u64(0)));
        let rates: Vec<String> = list.iter().map(|a| rate(a.value)).collect::<Result<_, _>>()?;
        if !rates.is_empty() {
            words.extend(many(key, rates));
        }
    }
    let mut frames = vec!["E"; count];
    for entry in all.iter().filter(|a| a.number == ENTRY) {
        let entry = Attributes::read(entry.value, "mqprio fp")?;
        let class = usize::try_from(entry.u32(ENTRY_INDEX)?.unwrap_or(u32::MAX)).unwrap_or(usize::MAX);
        if let (Some(frames), Some(2)) = (frames.get_mut(class), entry.u32(ENTRY_FP)?) {
            *frames = "P";
        }
    }
    if frames.contains(&"P") {
        words.extend(many("fp", frames));
    }
    Ok(words)
}

/// Writes the struct.
pub(super) fn write_classes(given: &Given, w: &mut Writer) {
    let ranges: Vec<(u16, u16)> = given.exact("queues").split(' ').filter_map(range).collect();
    let classes = u8::try_from(given.number("num_tc")).unwrap_or(u8::MAX);
    w.put(&[classes]);
    w.put(&prio::map(&given.list("map")));
    w.put(&[u8::try_from(given.number("hw")).unwrap_or(u8::MAX)]);
    let of = |tc: usize| ranges.get(tc).copied().unwrap_or_default();
    (0..CLASSES).for_each(|tc| w.put(&of(tc).0.to_ne_bytes()));
    (0..CLASSES).for_each(|tc| w.put(&of(tc).1.to_ne_bytes()));
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    write_classes(given, w);
    let classes = u8::try_from(given.number("num_tc")).unwrap_or(u8::MAX);
    w.put(&[0; 2]);
    for (key, number, names) in [("mode", MODE, MODES), ("shaper", SHAPER, SHAPERS)] {
        // tc prints the first of the names where there is no number.
        if names[1] == given.exact(key) {
            w.u16(number, 1);
        }
    }
    let fp: Vec<&str> = given.exact("fp").split(' ').collect();
    for tc in 0..u32::from(classes) {
        w.nest(ENTRY | NESTED, |w| {
            w.u32(ENTRY_INDEX, tc);
            // 1: express, 2: preemptible.
            w.u32(ENTRY_FP, 1 + u32::from(fp.get(tc as usize) == Some(&"P")));
        });
    }
    for (key, number) in [("min_rate", MIN_RATE64), ("max_rate", MAX_RATE64)] {
        let rates = given.list(key);
        if !rates.is_empty() {
            let rate = |tc: usize| rates.get(tc).copied().unwrap_or(0);
            w.nest(number, |w| (0..usize::from(classes)).for_each(|tc| w.u64(number, rate(tc))));
        }
    }
}

/// Reads `COUNT@OFFSET`.
fn range(word: &str) -> Option<(u16, u16)> {
    let (count, offset) = word.split_once('@')?;
    Some((count.parse().ok()?, offset.parse().ok()?))
}
