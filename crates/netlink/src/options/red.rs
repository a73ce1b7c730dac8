//! red and choke: `struct tc_red_qopt`, the greatest chance, and the table of an idle queue.
//!
//! tc derives the weight of the average and the table from sizes and rates that it does not send
//! (`avpkt`, `burst`, `bandwidth`). Reading takes values that derive the same: the law is the same,
//! and so is the output of tc.

use txweir_core::base::chance::Probability;
use txweir_core::law::red::{IdleTable, weight_for_burst};
use txweir_core::qdisc::red::packet_time;
use txweir_core::text::value::exact_of;
use txweir_core::{Nanos, Rate};

use super::{Words, pair};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer, u32_of};

const PARMS: u16 = 1;
const STAB: u16 = 2;
const MAX_P: u16 = 3;
const FLAGS: u16 = 4;
/// Bytes of the struct.
const LEN: usize = 16;
/// Bytes of the table.
pub(super) const TABLE: usize = 256;
/// The size of an average packet that is taken in place of the one that was not sent.
pub(super) const AVPKT: u32 = 1000;
/// The rate that tc takes if none is given, bytes per second.
const BANDWIDTH: u64 = 1_250_000;

/// The flags, each with its word.
const BITS: [(u8, &str); 4] = [(1, "ecn"), (2, "harddrop"), (4, "adaptive"), (8, "nodrop")];

/// Returns the words of flags.
pub(super) fn flag_words(flags: u8) -> impl Iterator<Item = String> {
    BITS.into_iter().filter(move |(bit, _)| flags & bit != 0).map(|(_, word)| word.to_string())
}
/// Returns the flags that are on.
pub(super) fn flags(given: &Given) -> u8 {
    BITS.iter().filter(|(_, word)| given.on(word)).fold(0, |all, (bit, _)| all | bit)
}

/// Returns a chance in parts of 2^32 as a word.
pub(super) fn probability(parts: u32) -> String {
    exact_of(&Probability(parts.into()))
}
/// Returns the word of a chance in parts of 2^32.
pub(super) fn parts(word: &str) -> u32 {
    use txweir_core::text::value::{Value, Words};
    Probability::take(&mut Words::new(&[word])).map_or(0, |p| u32_of(p.0))
}

/// Returns the smallest burst, in packets of [`AVPKT`] bytes, that has this weight; `None` if none
/// has.
pub(super) fn burst_of(min: u32, wlog: u8) -> Option<u32> {
    let weight = |burst| weight_for_burst(min, burst, AVPKT).unwrap_or(u8::MAX);
    let (mut low, mut high) = (min.div_ceil(AVPKT).max(1), u32::MAX);
    if weight(low) == wlog {
        return Some(low);
    }
    // Bound: 32 turns, each halves the span. The weight grows with the burst.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if weight(middle) >= wlog { high = middle } else { low = middle }
    }
    (weight(high) == wlog).then_some(high)
}

/// Returns a rate by which this table of an idle queue comes out, bytes per second.
fn bandwidth(wlog: u8, cell_log: u8, table: &[u8]) -> u64 {
    let of = |us: u32| IdleTable::new(wlog, Nanos::from_micros(us.into()));
    let usual = IdleTable::new(wlog, packet_time(Rate(BANDWIDTH), AVPKT));
    if usual.cell_log() == cell_log && usual.shifts()[..] == *table {
        return BANDWIDTH;
    }
    // A longer packet time makes cells longer, and halvings fewer.
    let reaches = |us: u32| {
        let t = of(us);
        t.cell_log() > cell_log || t.cell_log() == cell_log && t.shifts()[..] <= *table
    };
    let (mut low, mut high) = (0, u32::MAX / 16);
    // Bound: 28 turns, each halves the span.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if reaches(middle) { high = middle } else { low = middle }
    }
    (u64::from(AVPKT) * 1_000_000 / u64::from(high)).clamp(1, u32::MAX.into())
}

/// Returns words that derive this weight of the average, with a min of so many bytes, and this
/// table of an idle queue; `given` is the min as it was sent.
pub(super) fn law_words(kind: &str, given: u32, min: u32, (wlog, cell_log): (u8, u8), table: &[u8]) -> Words {
    let Some(burst) = burst_of(min, wlog) else {
        let text = format!("{kind}: no burst has the weight {wlog} of the average beside the min {given}");
        return Err(Refusal::invalid(text));
    };
    let mut words = pair("avpkt", AVPKT).to_vec();
    words.extend(pair("burst", burst));
    words.extend(pair("bandwidth", format!("{}bps", bandwidth(wlog, cell_log, table))));
    Ok(words)
}

/// The struct with what stands beside it.
fn read(options: &[u8], kind: &str, unit: &str, min_unit: u32) -> Words {
    let all = Attributes::read(options, kind)?;
    all.only(&[PARMS, STAB, MAX_P, FLAGS])?;
    let (Some(r), Some(table)) = (all.record(PARMS, LEN)?, all.bytes(STAB).and_then(|t| t.get(..TABLE)))
    else {
        let text = format!(
            "{kind}: expected attribute 1, its parameters, and attribute 2, a table of {TABLE} bytes"
        );
        return Err(Refusal::invalid(text));
    };
    let (wlog, cell_log) = (r.u8(12), r.u8(14));
    let mut words = Vec::new();
    for (key, at) in [("limit", 0), ("min", 4), ("max", 8)] {
        words.extend(pair(key, format!("{}{unit}", r.u32(at))));
    }
    let min = r.u32(4).saturating_mul(min_unit);
    words.extend(law_words(kind, r.u32(4), min, (wlog, cell_log), table)?);
    if let Some(parts) = all.u32(MAX_P)? {
        words.extend(pair("probability", probability(parts)));
    }
    let set = match all.record(FLAGS, 8)? {
        // `struct nla_bitfield32`: values, and the bits that are meant.
        Some(bits) => r.u8(15) | bits.u8(0) & bits.u8(4),
        None => r.u8(15),
    };
    words.extend(flag_words(set));
    Ok(words)
}

pub(super) fn read_red(options: &[u8]) -> Words {
    read(options, "red", "b", 1)
}
pub(super) fn read_choke(options: &[u8]) -> Words {
    read(options, "choke", "", AVPKT)
}

/// Returns the logarithm by which the chance grows from `min` to `max`, as tc derives it.
pub(super) fn chance_log(min: u32, max: u32, parts: u32) -> u8 {
    let span = f64::from(max.saturating_sub(min));
    let mut part = f64::from(parts) / 4_294_967_296.0 / span.max(1.0);
    let mut log = 0;
    // Bound: 32 turns.
    while log < 32 && part <= 1.0 {
        part *= 2.0;
        log += 1;
    }
    if span > 0.0 { log } else { 0 }
}

fn write(given: &Given, w: &mut Writer, min_unit: u32) {
    let (min, max, avpkt) = (given.u32("min"), given.u32("max"), given.u32("avpkt"));
    let wlog =
        weight_for_burst(min.saturating_mul(min_unit.min(avpkt)), given.u32("burst"), avpkt).unwrap_or(0);
    let table = IdleTable::new(wlog, packet_time(Rate(given.number("bandwidth")), avpkt));
    let chance = parts(given.exact("probability"));
    w.nest(PARMS, |w| {
        w.put_all(&[given.u32("limit"), min, max]);
        w.put(&[wlog, chance_log(min, max, chance), table.cell_log(), flags(given)]);
    });
    w.u32(MAX_P, chance);
}

pub(super) fn write_red(given: &Given, w: &mut Writer) {
    write(given, w, 1);
}
pub(super) fn write_choke(given: &Given, w: &mut Writer) {
    // The weight follows from a number of bytes.
    write(given, w, u32::MAX);
}
