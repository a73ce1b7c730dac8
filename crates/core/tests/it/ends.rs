//! Every parameter of every kind at its ends, with traffic: the values are found by the reader of
//! the kind, so a parameter that is added is checked at its ends too.

use std::collections::BTreeSet;

use crate::common;
use crate::common::edges::{Met, check};
use crate::common::ends::Reader;
use txweir_core::Env;
use txweir_core::base::env::Offload;
use txweir_core::qdisc::{KINDS, kind};

/// Pairs of ends of which one is run.
const PAIRS: usize = 40;

#[test]
fn every_parameter_at_its_ends_keeps_the_laws() {
    let only = std::env::var("TXWEIR_KIND").ok();
    let mut sum = Met::default();
    for spec in KINDS.iter().filter(|spec| only.as_deref().is_none_or(|kind| kind == spec.kind)) {
        common::reproduce_with(format!(
            "TXWEIR_KIND={} cargo test -p txweir-core --test it ends::every_parameter_at_its_ends",
            spec.kind
        ));
        sum.add(&check(spec, PAIRS).unwrap_or_else(|e| panic!("{e}")));
    }
    common::reproduce_with(String::new());
    println!("{sum:?}");
    if only.is_none() {
        for (name, n, least) in [
            ("ends", sum.ends, 800),
            ("pairs", sum.pairs, 800),
            ("runs", sum.worlds, 4000),
            ("sent", sum.sent, 500_000),
            ("dropped", sum.dropped, 100_000),
            ("marked", sum.marked, 1000),
            ("changed", sum.changed, 8000),
            ("wakes at a time", sum.at, 10_000),
        ] {
            assert!(n >= least, "{name}: {n}, at least {least} were to be met");
        }
    }
}

/// Returns the two numbers of a range that is declared as `1 to 65536 bytes`.
fn declared(range: &str) -> Option<[String; 2]> {
    let mut words = range.split(' ');
    let (from, to, till) = (words.next()?, words.next()?, words.next()?);
    let whole = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    (to == "to" && whole(from) && whole(till)).then(|| [from, till].map(String::from))
}

#[test]
fn the_ends_found_are_those_declared() {
    let env = Env { queues: 4, offload: Offload::ALL, ..Env::default() };
    let (mut all, mut both) = (0, 0);
    for spec in KINDS {
        for reader in [Some(Reader::of_kind(spec, &env)), Reader::of_classes(spec, &env)] {
            let Some(reader) = reader else { continue };
            let settings = reader.settings(&reader.lines()[0]).unwrap_or_else(|e| panic!("{e}"));
            for param in reader.params() {
                let Some(ends) = declared(param.range) else { continue };
                let found: BTreeSet<String> = settings
                    .iter()
                    .filter(|s| s.key == param.key)
                    .map(|s| s.words[1].trim_end_matches(|c: char| !c.is_ascii_digit()).to_string())
                    .collect();
                // Other parameters may forbid an end, as those of a law in sfq do.
                let [least, greatest] = ends.clone().map(|end| end.parse::<u64>().unwrap());
                let beyond = found.iter().filter_map(|n| n.parse().ok());
                let beyond: Vec<u64> = beyond.filter(|n| !(least..=greatest).contains(n)).collect();
                assert!(beyond.is_empty(), "{} {}: {beyond:?} beyond {ends:?}", spec.kind, param.key);
                all += 1;
                both += u64::from(ends.iter().all(|end| found.contains(end)));
            }
        }
    }
    println!("both ends of {both} ranges of {all}");
    assert!(both >= 18 && both * 4 >= all * 3, "both ends of {both} ranges of {all} were found");
}

#[test]
fn a_parameter_without_a_value_is_named() {
    let spec = kind("pfifo").unwrap();
    // No value of the limit fits into a device without memory.
    let env = Env { memory: 0, ..Env::default() };
    let none = Reader::of_kind(spec, &env).settings(&[]);
    assert_eq!(none.unwrap_err(), "pfifo: no end was found of [\"limit\"]");
}
