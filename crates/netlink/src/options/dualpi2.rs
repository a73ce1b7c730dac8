//! dualpi2: plain numbers, of which some stand for words, and gains in 256ths of one per second.

use txweir_core::law::pi2::Gain;
use txweir_core::text::value::{Value, Words as Text};

use super::{Words, pair};
use crate::given::{Given, nanos};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer, u32_of};

const LIMIT: u16 = 1;
const MEMORY_LIMIT: u16 = 2;
const TARGET: u16 = 3;
const TUPDATE: u16 = 4;
const ALPHA: u16 = 5;
const BETA: u16 = 6;
const STEP_PACKETS: u16 = 7;
const STEP_US: u16 = 8;
const MIN_QLEN_STEP: u16 = 9;
const COUPLING: u16 = 10;
const DROP_OVERLOAD: u16 = 11;
const DROP_EARLY: u16 = 12;
const PROTECTION: u16 = 13;
const ECN_MASK: u16 = 14;
const SPLIT_GSO: u16 = 15;
const PAD: u16 = 16;

/// Numbers of 32 bits, each with its key and the unit behind it.
const NUMBERS: [(u16, &str, &str); 7] = [
    (LIMIT, "limit", ""),
    (MEMORY_LIMIT, "memlimit", ""),
    (TARGET, "target", "us"),
    (TUPDATE, "tupdate", "us"),
    (STEP_PACKETS, "step_thresh", "p"),
    (STEP_US, "step_thresh", "us"),
    (MIN_QLEN_STEP, "min_qlen_step", ""),
];
const GAINS: [(u16, &str); 2] = [(ALPHA, "alpha"), (BETA, "beta")];
/// A number of eight bits with its key, and the word of each value that has one.
type Choice = (u16, &'static str, &'static [(u8, &'static str)]);

const CHOICES: [Choice; 4] = [
    (DROP_OVERLOAD, "drop_on_overload", &[(0, "overflow"), (1, "drop_on_overload")]),
    (DROP_EARLY, "drop_enqueue", &[(0, "drop_dequeue"), (1, "drop_enqueue")]),
    (ECN_MASK, "any_ect", &[(1, "l4s_ect"), (3, "any_ect")]),
    (SPLIT_GSO, "split_gso", &[(0, "no_split_gso"), (1, "split_gso")]),
];
/// A gain counts in 256ths, each of which has eight decimals.
const UNITS: u32 = 256;
const DECIMALS: u32 = 390_625;

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "dualpi2")?;
    all.only(&[
        LIMIT,
        MEMORY_LIMIT,
        TARGET,
        TUPDATE,
        ALPHA,
        BETA,
        STEP_PACKETS,
        STEP_US,
        MIN_QLEN_STEP,
        COUPLING,
        DROP_OVERLOAD,
        DROP_EARLY,
        PROTECTION,
        ECN_MASK,
        SPLIT_GSO,
        PAD,
    ])?;
    if all.bytes(STEP_PACKETS).is_some() && all.bytes(STEP_US).is_some() {
        let text = "dualpi2: step_thresh is a number of packets or a time, not both (attributes 7 and 8)";
        return Err(Refusal::invalid(text));
    }
    let mut words = Vec::new();
    for (number, key, unit) in NUMBERS {
        words.extend(all.u32(number)?.into_iter().flat_map(|n| pair(key, format!("{n}{unit}"))));
    }
    for (number, key) in GAINS {
        let text = |n: u32| format!("{}.{:08}", n / UNITS, n % UNITS * DECIMALS);
        words.extend(all.u32(number)?.into_iter().flat_map(|n| pair(key, text(n))));
    }
    let byte = |number: u16| Ok::<_, Refusal>(all.record(number, 1)?.map(|r| r.u8(0)));
    words.extend(byte(COUPLING)?.into_iter().flat_map(|n| pair("coupling_factor", n)));
    words.extend(byte(PROTECTION)?.into_iter().flat_map(|n| pair("classic_protection", format!("{n}%"))));
    for (number, key, choices) in CHOICES {
        let Some(n) = byte(number)? else { continue };
        let Some((_, word)) = choices.iter().find(|(value, _)| *value == n) else {
            let [(first, _), .., (last, _)] = choices else { continue };
            let text = format!("dualpi2 {key}: expected {first} or {last}, given {n}");
            return Err(Refusal::invalid(text));
        };
        words.push((*word).into());
    }
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let step = given.exact("step_thresh");
    for (number, key, unit) in NUMBERS {
        let n = match (key, unit) {
            ("step_thresh", "p") => step.strip_suffix('p').and_then(|n| n.parse().ok()),
            (_, "us") => nanos(given.exact(key)).map(|ns| ns / 1000),
            _ => Some(given.number(key)),
        };
        n.into_iter().for_each(|n| w.u32(number, u32_of(n)));
    }
    for (number, key) in GAINS {
        // The kernel keeps it in a grain of its own, and lists what it keeps.
        let gain = Gain::take(&mut Text::new(&[given.exact(key)]));
        w.u32(number, gain.map_or(0, |gain| gain.kept().0));
    }
    let byte = |n: u64| u8::try_from(n).unwrap_or(u8::MAX);
    w.u8(COUPLING, byte(given.number("coupling_factor")));
    let protection = given.exact("classic_protection").trim_end_matches('%').parse().unwrap_or(0);
    w.u8(PROTECTION, protection);
    for (number, key, choices) in CHOICES {
        let word = given.exact(key);
        let said = choices.iter().find(|(_, said)| *said == word);
        said.into_iter().for_each(|(n, _)| w.u8(number, *n));
    }
}
