//! netem: `struct tc_netem_qopt`, and attributes behind it.

use super::{Words, pair, record};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer, aligned, u32_of};
use txweir_core::base::chance::Percent;
use txweir_core::law::bucket::TICK_NS;
use txweir_core::qdisc::netem::{in_grains, most_deviation};
use txweir_core::text::impairment::{Chance, Delay, LinkRate, Loss, Shape, Slot, SlotGap};
use txweir_core::text::value::{Value, Words as Reader, exact_of};
use txweir_core::{Nanos, Rate};

/// Bytes of the struct.
const LEN: usize = 24;
const CORR: u16 = 1;
const DELAY_DIST: u16 = 2;
const REORDER: u16 = 3;
const CORRUPT: u16 = 4;
const LOSS: u16 = 5;
const RATE: u16 = 6;
const ECN: u16 = 7;
const RATE64: u16 = 8;
const PAD: u16 = 9;
const LATENCY64: u16 = 10;
const JITTER64: u16 = 11;
const SLOT: u16 = 12;
const SLOT_DIST: u16 = 13;
/// The models of losses within [`LOSS`].
const STATES: u16 = 1;
const GILBERT: u16 = 2;

/// Returns parts of 2^32 as a percentage that reads back as the same.
fn percent(n: u32) -> String {
    exact_of(&Percent(n))
}

/// Returns a chance as words, if there is one.
fn chance(key: &str, share: u32, correlation: u32) -> Vec<String> {
    let mut words = Vec::from(pair(key, percent(share)));
    if correlation > 0 {
        words.push(percent(correlation));
    }
    words
}

/// Returns the name of a table of a distribution, or its numbers.
fn shape(value: &[u8]) -> Result<Shape, Refusal> {
    let table: Vec<i16> = value.chunks_exact(2).map(|two| i16::from_ne_bytes([two[0], two[1]])).collect();
    let wrong = || Refusal::invalid("netem: this is no table of a distribution");
    let words = table.iter().map(i16::to_string).collect::<Vec<_>>().join(",");
    Shape::take(&mut Reader::new(&[words.as_str()])).map_err(|_| wrong())
}

pub(super) fn read(options: &[u8]) -> Words {
    let r = record(options, LEN, "netem")?;
    let all = Attributes::read(options.get(aligned(LEN)..).unwrap_or(&[]), "netem")?;
    all.only(&[
        CORR, DELAY_DIST, REORDER, CORRUPT, LOSS, RATE, ECN, RATE64, PAD, LATENCY64, JITTER64, SLOT,
        SLOT_DIST,
    ])?;
    let corr = all.record(CORR, 12)?;
    let corr = [0, 4, 8].map(|at| corr.map_or(0, |corr| corr.u32(at)));
    let time = |ticks: u32, wide: Option<u64>| wide.unwrap_or_else(|| u64::from(ticks) * TICK_NS);
    let (delay, jitter) = (time(r.u32(0), all.u64(LATENCY64)?), time(r.u32(20), all.u64(JITTER64)?));
    let mut words = Vec::from(pair("limit", r.u32(4)));
    if delay > 0 || jitter > 0 {
        words.extend(pair("delay", micros(delay)));
        if jitter > 0 {
            words.push(micros(jitter));
            words.extend((corr[0] > 0).then(|| percent(corr[0])));
        }
    }
    if let Some(table) = all.bytes(DELAY_DIST) {
        words.extend(pair("distribution", shape(table)?));
    }
    words.extend(loss(&all, r.u32(8), corr[1])?);
    if r.u32(16) > 0 {
        words.extend(chance("duplicate", r.u32(16), corr[2]));
    }
    for (number, key) in [(REORDER, "reorder"), (CORRUPT, "corrupt")] {
        if let Some(r) = all.record(number, 8)?.filter(|r| r.u32(0) > 0) {
            words.extend(chance(key, r.u32(0), r.u32(4)));
        }
    }
    if words.iter().any(|word| word == "reorder") && r.u32(12) > 0 {
        words.extend(pair("gap", r.u32(12)));
    }
    if all.u32(ECN)?.is_some_and(|on| on != 0) {
        words.push("ecn".into());
    }
    if let Some(r) = all.record(RATE, 16)? {
        let rate = Rate(all.u64(RATE64)?.unwrap_or_else(|| r.u32(0).into()));
        let rate = LinkRate { rate, overhead: r.i32(4), cell: r.u32(8), cell_overhead: r.i32(12) };
        words.push("rate".into());
        words.extend(rate.to_string().split(' ').map(String::from));
    }
    words.extend(slot(&all)?);
    Ok(words)
}

/// Returns the words of a time that rounds to as many of the kernel's ticks, in whole microseconds.
fn micros(ns: u64) -> String {
    format!("{}us", ns.div_ceil(1000))
}

/// Returns the words of the loss of packets.
fn loss(all: &Attributes<'_>, share: u32, correlation: u32) -> Words {
    let model = all.nested(LOSS)?;
    model.only(&[STATES, GILBERT])?;
    let list = |name: &str, numbers: &[u32]| {
        let mut words = vec!["loss".to_string(), name.to_string()];
        words.extend(numbers.iter().map(|n| percent(*n)));
        words
    };
    if let Some(r) = model.record(STATES, 20)? {
        // The struct has p14 before p23, and the line behind.
        return Ok(list("state", &[0, 4, 8, 16, 12].map(|at| r.u32(at))));
    }
    if let Some(r) = model.record(GILBERT, 16)? {
        return Ok(list("gemodel", &[0, 4, 8, 12].map(|at| r.u32(at))));
    }
    if share == 0 {
        return Ok(Vec::new());
    }
    let mut words = vec!["loss".to_string()];
    words.extend(chance("random", share, correlation));
    Ok(words)
}

/// Returns the words of slots.
fn slot(all: &Attributes<'_>) -> Words {
    let Some(r) = all.record(SLOT, 40)? else { return Ok(Vec::new()) };
    let wide = |at| Nanos(r.u64(at));
    let count = |at| u32::try_from(r.i32(at)).unwrap_or(0);
    let gap = match all.bytes(SLOT_DIST) {
        Some(table) => SlotGap::Shaped(shape(table)?, wide(24), wide(32)),
        None => SlotGap::Between(wide(0), wide(8)),
    };
    let slot = Slot { gap, packets: count(16), bytes: count(20) };
    let mut words = vec!["slot".to_string()];
    words.extend(slot.to_string().split(' ').map(String::from));
    Ok(words)
}

/// Returns the value of a key, read again from the words that make it.
fn value<V: Value>(given: &Given, key: &str) -> Option<V> {
    let words: Vec<&str> = given.exact(key).split(' ').collect();
    V::take(&mut Reader::new(&words)).ok().filter(|_| given.has(key))
}

fn correlation(chance: Option<Chance>) -> u32 {
    chance.and_then(|c| c.correlation).map_or(0, |p| p.0)
}

fn ticks(ns: i64) -> u32 {
    u32_of(ns.unsigned_abs() / TICK_NS)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let delay: Option<Delay> = value(given, "delay");
    let grains = |t: Option<Nanos>, f: fn(Nanos) -> i64| t.map_or(0, f);
    let latency = grains(delay.map(|d| d.time), in_grains);
    let jitter = grains(delay.map(|d| d.jitter), most_deviation);
    let loss: Option<Loss> = value(given, "loss");
    let random = match loss {
        Some(Loss::Random(chance)) => Some(chance),
        _ => None,
    };
    let duplicate: Option<Chance> = value(given, "duplicate");
    let share = |chance: Option<Chance>| chance.map_or(0, |c| c.share.0);
    let limit: u32 = given.exact("limit").parse().unwrap_or(0);
    w.put_all(&[ticks(latency), limit, share(random), given.u32("gap"), share(duplicate), ticks(jitter)]);
    w.u64(LATENCY64, latency.unsigned_abs());
    w.u64(JITTER64, jitter.unsigned_abs());
    let correlated = delay.and_then(|d| d.correlation).map_or(0, |p| p.0);
    w.nest(CORR, |w| w.put_all(&[correlated, correlation(random), correlation(duplicate)]));
    for (number, key) in [(REORDER, "reorder"), (CORRUPT, "corrupt")] {
        let of: Option<Chance> = value(given, key);
        w.nest(number, |w| w.put_all(&[share(of), correlation(of)]));
    }
    if let Some(rate) = value::<LinkRate>(given, "rate") {
        if u32::try_from(rate.rate.0).is_err() {
            w.u64(RATE64, rate.rate.0);
        }
        w.nest(RATE, |w| {
            w.put_all(&[u32_of(rate.rate.0)]);
            w.put(&rate.overhead.to_ne_bytes());
            w.put_all(&[rate.cell]);
            w.put(&rate.cell_overhead.to_ne_bytes());
        });
    }
    if given.on("ecn") {
        w.u32(ECN, 1);
    }
    match loss {
        Some(Loss::State([p13, p31, p32, p23, p14])) => {
            w.nest(LOSS, |w| w.nest(STATES, |w| w.put_all(&[p13, p31, p32, p14, p23].map(|p| p.0))));
        }
        Some(Loss::Gemodel(p)) => w.nest(LOSS, |w| w.nest(GILBERT, |w| w.put_all(&p.map(|p| p.0)))),
        _ => {}
    }
    if let Some(slot) = value::<Slot>(given, "slot") {
        let times = match slot.gap {
            SlotGap::Between(min, max) => [min.0, max.0, 0, 0],
            SlotGap::Shaped(_, delay, jitter) => [0, 0, delay.0, jitter.0],
        };
        w.nest(SLOT, |w| {
            times[..2].iter().for_each(|t| w.put(&t.to_ne_bytes()));
            w.put_all(&[slot.packets, slot.bytes]);
            times[2..].iter().for_each(|t| w.put(&t.to_ne_bytes()));
        });
    }
}
