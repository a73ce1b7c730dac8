//! taprio: traffic classes as those of mqprio, a clock by its number, and a list of entries.

use txweir_core::qdisc::etf::Clock;
use txweir_core::sched::traffic::CLASSES_MAX;

use super::{Words, many, mqprio, pair};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, NESTED, Writer, u32_of};

const PRIOMAP: u16 = 1;
const ENTRIES: u16 = 2;
const BASE_TIME: u16 = 3;
const CLOCK: u16 = 5;
const PAD: u16 = 6;
const CYCLE_TIME: u16 = 8;
const EXTENSION: u16 = 9;
const FLAGS: u16 = 10;
const TXTIME_DELAY: u16 = 11;
/// A traffic class, and the numbers within it.
const CLASS: u16 = 12;
const CLASS_INDEX: u16 = 1;
const CLASS_MAX_SDU: u16 = 2;
const CLASS_FP: u16 = 3;
/// Numbers of express and of preemptible frames.
const EXPRESS: u32 = 1;
const PREEMPTIBLE: u32 = 2;
/// The number of an entry in the list, and those within an entry.
const ENTRY: u16 = 1;
const INDEX: u16 = 1;
const COMMAND: u16 = 2;
const GATES: u16 = 3;
const INTERVAL: u16 = 4;

/// Clocks by their numbers (clock_gettime(2)).
const CLOCKS: [(i32, Clock); 4] =
    [(0, Clock::Realtime), (1, Clock::Monotonic), (7, Clock::Boottime), (11, Clock::Tai)];
/// Commands in the order of their numbers.
const COMMANDS: [&str; 3] = ["S", "H", "R"];
/// Times, each with its key in tc and in the engine.
const TIMES: [(u16, &str, &str); 3] = [
    (BASE_TIME, "base-time", "base_time"),
    (CYCLE_TIME, "cycle-time", "cycle_time"),
    (EXTENSION, "cycle-time-extension", "cycle_time_extension"),
];

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "taprio")?;
    all.only(&[PRIOMAP, ENTRIES, BASE_TIME, CLOCK, PAD, CYCLE_TIME, EXTENSION, FLAGS, TXTIME_DELAY, CLASS])?;
    let mut words = Vec::new();
    if let Some(classes) = all.bytes(PRIOMAP) {
        words.extend(mqprio::classes(classes, "taprio")?);
    }
    let numbers = TIMES.map(|(number, key, _)| (number, key));
    for (number, key) in numbers {
        words.extend(all.u64(number)?.into_iter().flat_map(|n| pair(key, n.cast_signed())));
    }
    let list = all.nested(ENTRIES)?;
    list.only(&[ENTRY])?;
    for entry in list.iter() {
        words.extend(read_entry(entry.value)?);
    }
    if let Some(number) = all.u32(CLOCK)?.map(u32::cast_signed) {
        let Some((_, clock)) = CLOCKS.iter().find(|(known, _)| *known == number) else {
            let text = format!("taprio clockid: expected 0, 1, 7 or 11, given {number}");
            return Err(Refusal::invalid(text));
        };
        words.extend(pair("clockid", format!("CLOCK_{}", clock.name())));
    }
    words.extend(all.u32(FLAGS)?.into_iter().flat_map(|n| pair("flags", format!("{n:#x}"))));
    words.extend(all.u32(TXTIME_DELAY)?.into_iter().flat_map(|n| pair("txtime-delay", n)));
    words.extend(read_classes(&all)?);
    Ok(words)
}

/// Reads the longest packet of each class, and its kind of frames.
fn read_classes(all: &Attributes<'_>) -> Words {
    let (mut sdus, mut frames) = (Vec::new(), Vec::new());
    for class in all.iter().filter(|a| a.number == CLASS) {
        let class = Attributes::read(class.value, "taprio max-sdu")?;
        class.only(&[CLASS_INDEX, CLASS_MAX_SDU, CLASS_FP])?;
        let index = class.u32(CLASS_INDEX)?.unwrap_or(u32::MAX);
        let Some(at) = usize::try_from(index).ok().filter(|at| *at < CLASSES_MAX) else {
            let text = format!("taprio max-sdu: expected a traffic class of 0 to 15, given {index}");
            return Err(Refusal::invalid(text));
        };
        set(&mut sdus, at, class.u32(CLASS_MAX_SDU)?);
        set(&mut frames, at, class.u32(CLASS_FP)?);
    }
    let mut words = Vec::new();
    if !sdus.is_empty() {
        words.extend(many("max-sdu", sdus.iter().map(|sdu| sdu.unwrap_or(0))));
    }
    if !frames.is_empty() {
        let letter = |fp: &Option<u32>| match fp.unwrap_or(EXPRESS) {
            EXPRESS => Ok("E"),
            PREEMPTIBLE => Ok("P"),
            n => Err(Refusal::invalid(format!("taprio fp: expected 1 or 2, given {n}"))),
        };
        let letters: Vec<&str> = frames.iter().map(letter).collect::<Result<_, _>>()?;
        words.extend(many("fp", letters));
    }
    Ok(words)
}

/// Puts a value that is given into its place of a list.
fn set(list: &mut Vec<Option<u32>>, at: usize, value: Option<u32>) {
    if value.is_some() {
        list.resize(list.len().max(at + 1), None);
        list[at] = value;
    }
}

fn read_entry(value: &[u8]) -> Words {
    let entry = Attributes::read(value, "taprio sched-entry")?;
    entry.only(&[INDEX, COMMAND, GATES, INTERVAL])?;
    let number = entry.record(COMMAND, 1)?.map_or(0, |r| r.u8(0));
    let Some(command) = COMMANDS.get(usize::from(number)) else {
        let text = format!("taprio sched-entry: expected a command of 0 to 2, given {number}");
        return Err(Refusal::invalid(text));
    };
    let (gates, interval) = (entry.u32(GATES)?.unwrap_or(0), entry.u32(INTERVAL)?.unwrap_or(0));
    Ok(vec!["sched-entry".into(), (*command).into(), format!("{gates:x}"), interval.to_string()])
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    w.nest(PRIOMAP, |w| mqprio::write_classes(given, w));
    let exact = given.exact("sched_entry");
    let words: Vec<&str> = exact.split(' ').filter(|word| *word != "sched-entry").collect();
    let entries: Vec<(u32, u32)> = words
        .chunks_exact(3)
        .filter_map(|entry| {
            let gates = entry[1].strip_prefix("0x").unwrap_or(entry[1]);
            Some((u32::from_str_radix(gates, 16).ok()?, entry[2].parse().ok()?))
        })
        .collect();
    for (number, _, key) in TIMES {
        let n = match given.number(key) {
            // A cycle is as long as its entries.
            0 if number == CYCLE_TIME => entries.iter().map(|(_, ns)| u64::from(*ns)).sum(),
            n => n,
        };
        w.u64(number, n);
    }
    w.nest(ENTRIES, |w| {
        for (index, (gates, interval)) in (0u32..).zip(&entries) {
            w.nest(ENTRY, |w| {
                w.u32(INDEX, index);
                w.u8(COMMAND, 0);
                w.u32(GATES, *gates);
                w.u32(INTERVAL, *interval);
            });
        }
    });
    let name = given.exact("clockid").trim_start_matches("CLOCK_");
    let clock = CLOCKS.iter().find(|(_, clock)| clock.name() == name);
    clock.into_iter().for_each(|(number, _)| w.u32(CLOCK, number.cast_unsigned()));
    for (number, key) in [(FLAGS, "flags"), (TXTIME_DELAY, "txtime_delay")] {
        match given.number(key) {
            0 => {}
            n => w.u32(number, u32_of(n)),
        }
    }
    let sdus = given.list("max_sdu");
    for class in 0..CLASSES_MAX {
        w.nest(CLASS | NESTED, |w| {
            w.u32(CLASS_INDEX, class as u32);
            w.u32(CLASS_MAX_SDU, u32_of(sdus.get(class).copied().unwrap_or(0)));
            w.u32(CLASS_FP, EXPRESS);
        });
    }
}
