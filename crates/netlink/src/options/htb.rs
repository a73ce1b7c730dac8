//! htb: `struct tc_htb_glob` of the qdisc, `struct tc_htb_opt` of a class.

use txweir_core::law::bucket::ticks;
use txweir_core::{Bytes, Rate};

use super::bucket::{LEN, RateSpec, bytes_of};
use super::fixed::bytes;
use super::{Words, pair};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const PARMS: u16 = 1;
const INIT: u16 = 2;
const CTAB: u16 = 3;
const RTAB: u16 = 4;
const DIRECT_QLEN: u16 = 5;
const RATE64: u16 = 6;
const CEIL64: u16 = 7;
const PAD: u16 = 8;
const OFFLOAD: u16 = 9;

/// The version of htb that messages name.
const VERSION: u32 = 3;
/// The same, as the kernel shows it: 3.17.
const SHOWN_VERSION: u32 = 0x3_0011;

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "htb")?;
    all.only(&[INIT, DIRECT_QLEN, OFFLOAD])?;
    let mut words = Vec::new();
    if let Some(r) = all.record(INIT, 20)? {
        let version = r.u32(0);
        if version >> 16 != VERSION && version != VERSION {
            return Err(Refusal::invalid(format!("htb: expected the version {VERSION}, given {version}")));
        }
        words.extend(pair("r2q", r.u32(4)));
        words.extend(pair("default", format!("{:#x}", r.u32(8))));
    }
    if let Some(n) = all.u32(DIRECT_QLEN)? {
        words.extend(pair("direct_qlen", n));
    }
    if all.bytes(OFFLOAD).is_some() {
        words.push("offload".into());
    }
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let default = u32::from_str_radix(given.exact("default").trim_start_matches("0x"), 16).unwrap_or(0);
    w.nest(INIT, |w| {
        w.put_all(&[SHOWN_VERSION, given.u32("r2q"), default, 0, given.u32("direct_packets_stat")]);
    });
    w.u32(DIRECT_QLEN, given.u32("direct_qlen"));
}

pub(super) fn read_class(options: &[u8]) -> Words {
    let all = Attributes::read(options, "class htb")?;
    all.only(&[PARMS, CTAB, RTAB, RATE64, CEIL64, PAD])?;
    let Some(r) = all.record(PARMS, 2 * LEN + 20)? else {
        return Err(Refusal::invalid("class htb: attribute 1, its parameters, is missing"));
    };
    let rate = RateSpec::read(r, 0, all.u64(RATE64)?);
    let ceil = RateSpec::read(r, LEN, all.u64(CEIL64)?);
    let at = 2 * LEN;
    let mut words = Vec::from(pair("rate", format!("{}bps", rate.rate)));
    words.extend(pair("ceil", format!("{}bps", ceil.rate)));
    for (key, rate, depth) in [("burst", rate.rate, r.u32(at)), ("cburst", ceil.rate, r.u32(at + 4))] {
        words.extend(pair(key, bytes(size(rate, depth))));
    }
    match r.u32(at + 8) {
        0 => {}
        quantum => words.extend(pair("quantum", quantum)),
    }
    words.extend(pair("prio", r.u32(at + 16)));
    words.extend(rate.words());
    Ok(words)
}

/// Returns a size whose bucket has this depth: tc sends the depth alone, in whole microseconds.
fn size(rate: u64, depth: u32) -> u64 {
    let least = bytes_of(rate, depth);
    // A depth of tc is the floor of a size's time in microseconds: the size that makes it is less
    // than a microsecond's bytes above.
    let above = rate / 1_000_000 + 2;
    let fits = |size: u64| ticks(Rate(rate), Bytes(size)) >= depth;
    let (mut low, mut high) = (least, least.saturating_add(above));
    if fits(low) || !fits(high) {
        return low;
    }
    // Bound: 64 turns, each halves the span.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}

pub(super) fn write_class(given: &Given, w: &mut Writer) {
    let spec = |rate| RateSpec {
        atm: given.exact("linklayer") == "atm",
        overhead: u16::try_from(given.number("overhead")).unwrap_or(u16::MAX),
        mpu: u16::try_from(given.number("mpu")).unwrap_or(u16::MAX),
        rate,
    };
    let (rate, ceil) = (spec(given.number("rate")), spec(given.number("ceil")));
    w.nest(PARMS, |w| {
        rate.write(w);
        ceil.write(w);
        let depth = |key| given.u32(key);
        w.put_all(&[
            depth("buffer"),
            depth("cbuffer"),
            given.u32("quantum"),
            given.u32("level"),
            given.u32("prio"),
        ]);
    });
    for (number, spec) in [(RATE64, rate), (CEIL64, ceil)] {
        if let Some(wide) = spec.wide() {
            w.u64(number, wide);
        }
    }
}
