//! fq: declared attributes, and those that are no plain numbers.

use super::{Words, declared_words, many, pair, params_of, prio};
use crate::given::Given;
use crate::wire::{Attributes, Writer};

const DEFAULT_RATE: u16 = 6;
const MAX_RATE: u16 = 7;
const BUCKETS_LOG: u16 = 8;
const CE_THRESHOLD: u16 = 12;
const PRIOMAP: u16 = 16;
const WEIGHTS: u16 = 17;
/// Most of the logarithm of the number of buckets.
const LOG_MAX: u32 = 18;

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "fq")?;
    let params = params_of("fq");
    let mut known = vec![DEFAULT_RATE, BUCKETS_LOG, PRIOMAP, WEIGHTS];
    known.extend(params.iter().filter_map(|p| Some(p.attribute?.number)));
    all.only(&known)?;
    // All bits set stand for a value that is not set.
    let unset = |number| Ok(all.u32(number)? == Some(u32::MAX));
    let mut words = declared_words(params, &all)?;
    for (number, key) in [(MAX_RATE, "maxrate"), (CE_THRESHOLD, "ce_threshold")] {
        if unset(number)?
            && let Some(at) = words.iter().position(|word| word == key)
        {
            words.drain(at..(at + 2).min(words.len()));
        }
    }
    if let Some(log) = all.u32(BUCKETS_LOG)? {
        let buckets = if log <= LOG_MAX { 1u64 << log } else { u64::from(u32::MAX) };
        words.extend(pair("buckets", buckets));
    }
    if let Some(r) = all.record(PRIOMAP, 20)? {
        words.extend(pair("bands", r.u32(0)));
        words.extend(many("priomap", (4..20).map(|at| r.u8(at))));
    }
    if let Some(r) = all.record(WEIGHTS, 12)? {
        words.extend(many("weights", [0, 4, 8].map(|at| r.u32(at))));
    }
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    given.write_declared(w);
    w.u32(BUCKETS_LOG, given.u32("buckets").max(1).next_power_of_two().ilog2());
    for (key, number) in [("maxrate", MAX_RATE), ("ce_threshold", CE_THRESHOLD)] {
        if !given.has(key) {
            w.u32(number, u32::MAX);
        }
    }
    if given.has("priomap") {
        w.nest(PRIOMAP, |w| {
            w.put_all(&[3]);
            w.put(&prio::map(&given.list("priomap")));
        });
    }
    let weights: Vec<u32> = given.exact("weights").split(' ').filter_map(|n| n.parse().ok()).collect();
    if weights.len() == 3 {
        w.nest(WEIGHTS, |w| w.put_all(&weights));
    }
}
