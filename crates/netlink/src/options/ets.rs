//! ets: numbers of bands, and nested lists of quanta and of the bands of priorities.

use super::{Words, many, pair};
use crate::given::Given;
use crate::wire::{Attributes, Record, Writer, u32_of};

const NBANDS: u16 = 1;
const NSTRICT: u16 = 2;
const QUANTA: u16 = 3;
const QUANTUM: u16 = 4;
const PRIOMAP: u16 = 5;
const PRIO_BAND: u16 = 6;

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "ets")?;
    all.only(&[NBANDS, NSTRICT, QUANTA, PRIOMAP])?;
    let mut words = Vec::new();
    for (key, number) in [("bands", NBANDS), ("strict", NSTRICT)] {
        if let Some(r) = all.record(number, 1)? {
            words.extend(pair(key, r.u8(0)));
        }
    }
    for (key, number, entry, len) in [("quanta", QUANTA, QUANTUM, 4), ("priomap", PRIOMAP, PRIO_BAND, 1)] {
        let list = all.nested(number)?;
        list.only(&[entry])?;
        let value = |r: Record<'_>| if len == 4 { r.u32(0) } else { r.u8(0).into() };
        let numbers: Result<Vec<u32>, _> =
            list.iter().map(|a| Record::of(a.value, len, key).map(value)).collect();
        match numbers? {
            numbers if numbers.is_empty() => {}
            numbers => words.extend(many(key, numbers)),
        }
    }
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let byte = |n: u64| u8::try_from(n).unwrap_or(u8::MAX);
    w.u8(NBANDS, byte(given.number("bands")));
    let strict = byte(given.number("strict"));
    if strict > 0 {
        w.u8(NSTRICT, strict);
    }
    // tc prints the word for an attribute without numbers, too.
    let quanta = given.list("quanta");
    if !quanta.is_empty() {
        w.nest(QUANTA, |w| quanta.into_iter().for_each(|n| w.u32(QUANTUM, u32_of(n))));
    }
    w.nest(PRIOMAP, |w| given.list("priomap").into_iter().for_each(|band| w.u8(PRIO_BAND, byte(band))));
}

pub(super) fn read_class(options: &[u8]) -> Words {
    let all = Attributes::read(options, "class ets")?;
    all.only(&[QUANTUM])?;
    Ok(all.u32(QUANTUM)?.map_or_else(Vec::new, |n| pair("quantum", n).into()))
}
pub(super) fn write_class(given: &Given, w: &mut Writer) {
    if given.has("quantum") {
        w.u32(QUANTUM, given.u32("quantum"));
    }
}
