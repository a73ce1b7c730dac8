//! Qdiscs: what `tc -j` prints of the options, as the words that make them. The declarations of a
//! kind say how its values are written; the kinds that tc prints in words of its own have a
//! function each.

mod cake;
mod gred;
mod taprio;

use txweir_core::Env;
use txweir_core::base::units::RateMul;
use txweir_core::law::bucket::{TICK_NS, shown_size};
use txweir_core::law::pi2::Gain;
use txweir_core::law::red::weight_for_burst;
use txweir_core::qdisc::netem::in_grains;
use txweir_core::qdisc::sfq;
use txweir_core::sched::spec::Spec;
use txweir_core::text::params::Param;
use txweir_core::text::value::{Json, Quantity, Value as _, Words};
use txweir_core::{Bytes, Nanos, Rate};

use super::Refusal;
use super::json::Value;
use super::members::{Members, shifted};

type Done<T = ()> = Result<T, Refusal>;

/// Returns the words after the kind, each behind a blank.
pub(super) fn words(spec: &'static Spec, o: &mut Members<'_>) -> Done<String> {
    let mut out = String::new();
    match spec.kind {
        "cake" | "cake_mq" => cake::words(o, &mut out)?,
        "dualpi2" => dualpi2(spec, o, &mut out)?,
        "fq" => fq(spec, o, &mut out)?,
        "fq_codel" => fq_codel(spec, o, &mut out)?,
        "gred" => gred::words(o, &mut out)?,
        "htb" => htb(spec, o, &mut out)?,
        "mqprio" => mqprio(o, &mut out)?,
        "taprio" => taprio::words(o, &mut out)?,
        "multiq" => o.pass("bands"),
        "netem" => netem(o, &mut out)?,
        "pfifo_fast" => ["bands", "priomap", "multiqueue"].into_iter().for_each(|key| o.pass(key)),
        "prio" => {
            declared(spec, &[], o, &mut out)?;
            if o.flag("multiqueue")? {
                return Err(o.refused("multiqueue cannot be carried over: a queue is chosen ahead of prio"));
            }
        }
        "red" => red(spec, 1, o, &mut out)?,
        "choke" => {
            // The bandwidth is not printed, and tc does not do without one.
            push(&mut out, "bandwidth", "10mbit");
            ["harddrop", "adaptive", "nodrop"].iter().for_each(|flag| o.pass(flag));
            red(spec, AVPKT, o, &mut out)?;
        }
        "etf" => etf(o, &mut out)?,
        "sfb" => cake::sfb(o, &mut out)?,
        "sfq" => sfq(spec, o, &mut out)?,
        "tbf" => tbf(o, &mut out)?,
        _ => declared(spec, &[], o, &mut out)?,
    }
    Ok(out)
}

/// Adds one key and its value, or a word alone.
fn push(out: &mut String, key: &str, value: &str) {
    out.push(' ');
    out.push_str(key);
    if !value.is_empty() {
        out.push(' ');
        out.push_str(value);
    }
}

/// Adds the options that are printed as they are declared, without those of `except`.
fn declared(spec: &'static Spec, except: &[&str], o: &mut Members<'_>, out: &mut String) -> Done {
    for param in spec.params.iter().filter(|param| !except.contains(&param.key)) {
        if param.flag {
            // tc prints a flag that is on. The word for off begins with "no", if there is one.
            match (o.flag(param.key)?, param.words) {
                (true, [on, ..]) => push(out, on, ""),
                (false, [_, off, ..]) if off.starts_with("no") => push(out, off, ""),
                _ => {}
            }
        } else if let Some(value) = o.take(param.key) {
            let text = valued(param, value, o, &|words| shown(spec, words, param.key))?;
            push(out, param.key, &text);
        }
    }
    Ok(())
}

/// Returns the number that a kind prints under a key after these words.
fn shown(spec: &'static Spec, words: &[&str], key: &str) -> Option<u64> {
    let built = spec.build(&mut Words::new(words), &Env::default()).ok()?;
    let mut found = None;
    built.options(&mut |o| {
        if let (true, Json::Uint(n)) = (o.param.key == key, o.value.json()) {
            found = Some(n);
        }
    });
    found
}

/// Returns a value as a line has it. `shown` returns the number that is printed after some words.
pub(super) fn valued(
    param: &Param,
    value: &Value,
    o: &Members<'_>,
    shown: &dyn Fn(&[&str]) -> Option<u64>,
) -> Done<String> {
    let key = param.key;
    let whole = |value: &Value| match value {
        Value::Number(digits) => digits.parse::<u64>().ok(),
        _ => None,
    };
    match (param.quantity, value) {
        (Quantity::Other | Quantity::Rates, Value::List(items)) => {
            let unit = if param.quantity == Quantity::Rates { "bps" } else { "" };
            let numbers = o.as_numbers(key, items)?;
            Ok(numbers.iter().map(|n| format!("{n}{unit}")).collect::<Vec<_>>().join(" "))
        }
        (Quantity::Rate, value) => match whole(value) {
            Some(n) => Ok(format!("{n}bps")),
            None => o.as_plain(key, value).map(String::from),
        },
        (Quantity::Bytes, value) if whole(value).is_some() => {
            Ok(whole(value).map_or_else(String::new, |n| format!("{n}b")))
        }
        (Quantity::Time, value) => {
            let us = whole(value).ok_or_else(|| o.wrong(key, "whole microseconds", value))?;
            // The kernel's clock has grains: a time is shown rounded down, and the one above it is
            // shown alike.
            let alike = |us: &u64| shown(&[key, &format!("{us}us")]);
            let next = us.saturating_add(1);
            let us = if alike(&us) != Some(us) && alike(&next) == Some(us) { next } else { us };
            Ok(format!("{us}us"))
        }
        (_, value) => o.as_plain(key, value).map(String::from),
    }
}

/// Returns the smallest bucket that is shown in this size. `ticks` returns the ticks of a size.
pub(super) fn bucket(rate: Rate, shown: u64, ticks: &dyn Fn(u64) -> u64) -> u64 {
    let shows = |size: u64| shown_size(rate, ticks(size)).0;
    if shows(shown) == shown {
        return shown;
    }
    // A bucket has a grain of a microsecond of sending, and another of a tick.
    let (mut low, mut high) = (shown, shown.saturating_add(rate.0 / 250_000).saturating_add(2));
    // Bound: the range halves in each turn.
    while low < high {
        let middle = low + (high - low) / 2;
        if shows(middle) < shown { low = middle + 1 } else { high = middle }
    }
    if shows(low) == shown { low } else { shown }
}

fn htb(spec: &'static Spec, o: &mut Members<'_>, out: &mut String) -> Done {
    declared(spec, &["default"], o, out)?;
    if let Some(class) = o.plain("default")? {
        push(out, "default", class.strip_prefix("0x").unwrap_or(class));
    }
    o.pass("ver");
    Ok(())
}

fn fq(spec: &'static Spec, o: &mut Members<'_>, out: &mut String) -> Done {
    declared(spec, &["pacing", "horizon_drop", "timer_slack"], o, out)?;
    if o.has("pacing") && !o.flag("pacing")? {
        push(out, "nopacing", "");
    }
    for word in ["horizon_drop", "horizon_cap"] {
        if o.flag(word)? {
            push(out, word, "");
        }
    }
    if let Some(ns) = o.uint("timer_slack")? {
        push(out, "timer_slack", &ns.to_string());
    }
    Ok(())
}

/// The selector of the threshold is two numbers in JSON.
fn fq_codel(spec: &'static Spec, o: &mut Members<'_>, out: &mut String) -> Done {
    const KEY: &str = "ce_threshold_selector";
    declared(spec, &[KEY], o, out)?;
    if let Some(value) = o.uint(KEY)? {
        push(out, KEY, &format!("{value}/{}", o.need_uint("ce_threshold_mask")?));
    }
    Ok(())
}

/// The kernel's names of the attributes of dualpi2, which tc prints, and the words for them.
const DUALPI2: [(&str, &str); 4] = [
    ("memory-limit", "memlimit"),
    ("min-qlen-step", "min_qlen_step"),
    ("coupling", "coupling_factor"),
    ("c-protection", "classic_protection"),
];

fn dualpi2(spec: &'static Spec, o: &mut Members<'_>, out: &mut String) -> Done {
    let mut except: Vec<&str> = DUALPI2.iter().map(|(_, word)| *word).collect();
    except.extend([
        "alpha",
        "beta",
        "drop_on_overload",
        "drop_enqueue",
        "any_ect",
        "split_gso",
        "step_thresh",
    ]);
    declared(spec, &except, o, out)?;
    for key in ["alpha", "beta"] {
        if let Some(value) = o.take(key) {
            push(out, key, &gain(o.as_plain(key, value)?).ok_or_else(|| o.wrong(key, "a gain", value))?);
        }
    }
    for (key, word) in DUALPI2 {
        if let Some(n) = o.uint(key)? {
            push(out, word, &n.to_string());
        }
    }
    for (key, unit) in [("step-thresh-us", "us"), ("step-thresh-pkts", "p")] {
        if let Some(n) = o.uint(key)? {
            push(out, "step_thresh", &format!("{n}{unit}"));
        }
    }
    match o.word("drop-overload")? {
        None => {}
        Some("drop") => push(out, "drop_on_overload", ""),
        Some(word) => push(out, word, ""),
    }
    for key in ["drop-early", "ecn-mask"] {
        if let Some(word) = o.word(key)? {
            push(out, &word.replace('-', "_"), "");
        }
    }
    let split = o.flag("split-gso")?;
    push(out, if split { "split_gso" } else { "no_split_gso" }, "");
    Ok(())
}

/// Returns the smallest gain, in parts of 256, that the kernel keeps as the one shown: it rounds
/// down.
fn gain(shown: &str) -> Option<String> {
    let shown = shown.parse::<f64>().ok().filter(|hz| (0.0..1e9).contains(hz))?;
    // Below 2^38, so that no digit is lost.
    let parts = (shown * 256.0).round() as u64;
    let text = |parts: u64| format!("{}", parts as f64 / 256.0);
    let kept =
        |text: &str| Gain::take(&mut Words::new(&[text])).is_ok_and(|gain| u64::from(gain.kept().0) == parts);
    (parts..parts + 4).map(text).find(|text| kept(text))
}

fn mqprio(o: &mut Members<'_>, out: &mut String) -> Done {
    push(out, "num_tc", &o.need_uint("tc")?.to_string());
    let join = |all: Vec<u64>| all.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    if let Some(map) = o.numbers("map")? {
        push(out, "map", &join(map));
    }
    let mut ranges = Vec::new();
    for row in o.list("queues")?.unwrap_or_default() {
        let ends = match row {
            Value::List(ends) => o.as_numbers("queues", ends)?,
            other => return Err(o.wrong("queues", "pairs of queues", other)),
        };
        match ends[..] {
            [first, last] if first <= last && last < 1 << 16 => {
                ranges.push(format!("{}@{first}", last - first + 1));
            }
            _ => return Err(o.wrong("queues", "pairs of queues, the first one first", row)),
        }
    }
    if !ranges.is_empty() {
        push(out, "queues", &ranges.join(" "));
    }
    for (key, plain) in [("mode", "dcb"), ("shaper", "dcb")] {
        if let Some(word) = o.word(key)?.filter(|word| *word != plain) {
            return Err(o.refused(&format!("{key} {word} is work of a device, expected {plain}")));
        }
    }
    taprio::express(o)?;
    push(out, "hw", "0");
    Ok(())
}

fn sfq(spec: &'static Spec, o: &mut Members<'_>, out: &mut String) -> Done {
    if o.has("ewma") {
        let reason = "RED in sfq cannot be carried over: tc does not print redflowlimit, avpkt and burst";
        return Err(o.refused(reason));
    }
    let limit = o.uint("limit")?;
    if let Some(limit) = limit.filter(|limit| *limit != sfq::LIMIT.into()) {
        push(out, "limit", &limit.to_string());
    }
    declared(spec, &["limit"], o, out)
}

/// The size of a packet for which a weight is made again. Any does: only the weight counts.
const AVPKT: u32 = 1000;

/// Adds the options of etf, whose flags are printed as `on` and `off`.
fn etf(o: &mut Members<'_>, out: &mut String) -> Done {
    for key in ["clockid", "delta"] {
        if let Some(value) = o.plain(key)? {
            push(out, key, value);
        }
    }
    for key in ["offload", "deadline_mode", "skip_sock_check"] {
        if o.word(key)? == Some("on") {
            push(out, key, "");
        }
    }
    Ok(())
}

/// Returns a burst that makes the weight of an average that counts packets of `each` bytes.
fn burst(o: &mut Members<'_>, min: u64, each: u32) -> Done<u32> {
    let Some(wlog) = o.uint("ewma")? else {
        return Err(o.refused("the dump does not tell \"ewma\" and \"probability\": expected that of tc -d"));
    };
    // The exponent of an idle cell follows from the bandwidth, which is not printed.
    o.pass("Scell_log");
    let least = u32::try_from(min).unwrap_or(u32::MAX).saturating_mul(each);
    let alike = |burst: &u32| weight_for_burst(least, *burst, AVPKT).is_ok_and(|w| u64::from(w) == wlog);
    let first = least / AVPKT;
    let found = (first..first.saturating_add(1 << 16)).find(alike);
    found.ok_or_else(|| o.refused(&format!("no burst makes the weight \"ewma\", given {wlog}")))
}

/// Adds the options of red, or of choke, whose averages count packets of `each` bytes.
fn red(spec: &'static Spec, each: u32, o: &mut Members<'_>, out: &mut String) -> Done {
    let min = o.need_uint("min")?;
    let burst = burst(o, min, each)?;
    push(out, "min", &if each == 1 { format!("{min}b") } else { min.to_string() });
    push(out, "avpkt", &format!("{AVPKT}b"));
    push(out, "burst", &burst.to_string());
    declared(spec, &["min"], o, out)
}

fn tbf(o: &mut Members<'_>, out: &mut String) -> Done {
    if o.has("minburst") || o.has("mtu") {
        return Err(o.refused("the peak rate cannot be carried over: tc does not print it as JSON"));
    }
    let rate = o.need_uint("rate")?;
    let overhead = o.uint("overhead")?.unwrap_or(0);
    let mpu = o.uint("mpu")?.unwrap_or(0);
    let layer = o.word("linklayer")?.unwrap_or("ethernet");
    if layer == "atm" {
        return Err(o.refused("linklayer atm cannot be carried over: its bucket is printed in cells"));
    }
    let burst = size(o, "burst")?.ok_or_else(|| o.missing("burst"))?;
    // In the kernel's clock, unlike those of htb, which tc reckons.
    let ticks = |size: u64| RateMul::new(Rate(rate)).time_floor(size).0 / TICK_NS;
    let charged = bucket(Rate(rate), burst, &ticks);
    let given = charged.saturating_sub(overhead);
    push(out, "rate", &format!("{rate}bps"));
    push(out, "burst", &format!("{given}b"));
    match (o.uint("limit")?, o.uint("lat")?) {
        (Some(limit), _) => push(out, "limit", &format!("{limit}b")),
        (None, Some(us)) => {
            // The bucket as tc computes it from its ticks, whole microseconds.
            let full = ticks(charged).saturating_mul(TICK_NS) / 1_000;
            push(out, "limit", &format!("{}b", limit_for(rate, us, full)));
        }
        (None, None) => return Err(o.missing("lat")),
    }
    for (key, n) in [("overhead", overhead), ("mpu", mpu)] {
        if n > 0 {
            push(out, key, &n.to_string());
        }
    }
    if let Some(name) = o.word("shared")? {
        push(out, "shared", name);
    }
    Ok(())
}

/// Returns the smallest limit that is shown as this latency, once a bucket is empty that takes
/// `full` microseconds.
fn limit_for(rate: u64, us: u64, full: u64) -> u64 {
    let shows = |limit: u64| 1e6 * (limit as f64 / rate.max(1) as f64) - full as f64 >= us as f64;
    let exact = u128::from(us.saturating_add(full)) * u128::from(rate) / 1_000_000;
    let near = u64::try_from(exact).unwrap_or(u64::MAX);
    // Floating point may be a byte off.
    (near.saturating_sub(1)..near.saturating_add(3)).find(|limit| shows(*limit)).unwrap_or(near)
}

/// Takes a size: a number of bytes, or `1600b/1` with details.
pub(super) fn size(o: &mut Members<'_>, key: &str) -> Done<Option<u64>> {
    let Some(value) = o.take(key) else { return Ok(None) };
    let text = o.as_plain(key, value)?;
    let text = text.split('/').next().unwrap_or(text);
    let bytes = match text.parse::<u64>() {
        Ok(n) => Some(n),
        Err(_) => txweir_core::text::value::with_unit::<Bytes>(text).ok().map(|bytes| bytes.0),
    };
    bytes.map(Some).ok_or_else(|| o.wrong(key, "a size", value))
}

/// Takes a share of one as a percentage.
fn percent(o: &mut Members<'_>, key: &str) -> Done<String> {
    let value = o.take(key).ok_or_else(|| o.missing(key))?;
    let text = o.as_plain(key, value)?;
    let moved = shifted(text, 2).ok_or_else(|| o.wrong(key, "a share of one", value))?;
    Ok(format!("{moved}%"))
}

/// Takes seconds as a time of whole microseconds, in the grains of the kernel's clock.
fn micros(o: &mut Members<'_>, key: &str) -> Done<u64> {
    let value = o.take(key).ok_or_else(|| o.missing(key))?;
    let text = o.as_plain(key, value)?;
    let us = shifted(text, 6).and_then(|text| text.parse::<u64>().ok());
    let us = us.ok_or_else(|| o.wrong(key, "seconds, at most six digits behind the point", value))?;
    let alike = |us: u64| in_grains(Nanos::from_micros(us)).unsigned_abs() / 1000;
    let next = us.saturating_add(1);
    Ok(if alike(us) != us && alike(next) == us { next } else { us })
}

/// Takes the correlation of a chance: a word behind a blank, nothing for zero.
fn correlation(o: &mut Members<'_>) -> Done<String> {
    let percent = percent(o, "correlation")?;
    Ok(if percent == "0%" { String::new() } else { format!(" {percent}") })
}

fn netem(o: &mut Members<'_>, out: &mut String) -> Done {
    if let Some(limit) = o.uint("limit")? {
        push(out, "limit", &limit.to_string());
    }
    if let Some(mut delay) = o.object("delay")? {
        let (time, jitter) = (micros(&mut delay, "delay")?, micros(&mut delay, "jitter")?);
        let correlation = correlation(&mut delay)?;
        delay.end(|_| false)?;
        let more = if jitter > 0 { format!(" {jitter}us{correlation}") } else { String::new() };
        push(out, "delay", &format!("{time}us{more}"));
    }
    let chances = [
        ("loss-random", "loss random", "loss"),
        ("duplicate", "duplicate", "duplicate"),
        ("reorder", "reorder", "reorder"),
        ("corrupt", "corrupt", "corrupt"),
    ];
    for (key, word, inner) in chances {
        if let Some(mut chance) = o.object(key)? {
            let text = percent(&mut chance, inner)? + &correlation(&mut chance)?;
            chance.end(|_| false)?;
            push(out, word, &text);
        }
    }
    let models = [
        ("loss-state", "loss state", &["p13", "p31", "p32", "p23", "p14"][..]),
        ("loss-gemodel", "loss gemodel", &["p", "r", "1-h", "1-k"]),
    ];
    for (key, word, parts) in models {
        if let Some(mut model) = o.object(key)? {
            let all: Done<Vec<String>> = parts.iter().map(|part| percent(&mut model, part)).collect();
            model.end(|_| false)?;
            push(out, word, &all?.join(" "));
        }
    }
    if let Some(mut rate) = o.object("rate")? {
        let mut words = format!("{}bps", rate.need_uint("rate")?);
        for key in ["packetoverhead", "cellsize", "celloverhead"] {
            words.push(' ');
            words.push_str(rate.plain(key)?.unwrap_or("0"));
        }
        rate.end(|_| false)?;
        push(out, "rate", words.strip_suffix(" 0 0 0").unwrap_or(&words));
    }
    if let Some(slot) = o.object("slot")? {
        netem_slot(slot, out)?;
    }
    if o.flag("ecn")? {
        push(out, "ecn", "");
    }
    for key in ["gap", "seed"] {
        if let Some(n) = o.uint(key)?.filter(|n| *n > 0) {
            push(out, key, &n.to_string());
        }
    }
    Ok(())
}

/// Adds the slots of netem; those of a distribution have its name, which is not printed.
fn netem_slot(mut slot: Members<'_>, out: &mut String) -> Done {
    if slot.has("distribution") {
        return Err(slot.refused("the name of the distribution is not printed"));
    }
    let mut words = Vec::new();
    for key in ["min-delay", "max-delay"] {
        let value = slot.take(key).ok_or_else(|| slot.missing(key))?;
        let ns = shifted(slot.as_plain(key, value)?, 9).and_then(|text| text.parse::<u64>().ok());
        let ns = ns.ok_or_else(|| slot.wrong(key, "seconds, at most nine digits behind the point", value))?;
        words.push(format!("{ns}ns"));
    }
    for key in ["packets", "bytes"] {
        if let Some(n) = slot.uint(key)?.filter(|n| *n > 0) {
            words.push(format!("{key} {n}"));
        }
    }
    slot.end(|_| false)?;
    push(out, "slot", &words.join(" "));
    Ok(())
}

/// Returns the words of a size table, each behind a blank.
pub(super) fn stab(mut o: Members<'_>) -> Done<String> {
    let mut out = String::from(" stab");
    for key in ["linklayer", "overhead", "mpu", "mtu", "tsize"] {
        if let Some(value) = o.plain(key)? {
            push(&mut out, key, value);
        }
    }
    o.end(|_| false)?;
    Ok(out)
}
