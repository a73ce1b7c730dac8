//! Classes that commands make: those of htb and drr, as JSON of newer tc or as the text
//! that earlier versions print also with `-j`.

use txweir_core::law::bucket::{shown_size, ticks};
use txweir_core::qdisc::htb::ClassConfig;
use txweir_core::sched::classful::ClassSpec;
use txweir_core::text::params::Params;
use txweir_core::{Bytes, Env, Rate};

use super::Refusal;
use super::json::Value;
use super::members::Members;
use super::qdisc::{bucket, size, valued};

type Done<T = ()> = Result<T, Refusal>;

/// The lines of counters below a class, by their first words.
const COUNTERS: [&str; 7] = ["Sent", "backlog", "rate", "lended:", "tokens:", "deficit", "(dropped"];

/// Reads a line of the text that `tc class show` prints: a class as the object that `-j` would
/// print, `None` for a line of counters.
pub(super) fn line(line: &str) -> Result<Option<Value>, String> {
    let mut words = line.split_whitespace();
    let text = |text: &str| Value::Text(text.into());
    let kind = match words.next() {
        Some("class") => words.next().unwrap_or(""),
        Some(word) if COUNTERS.contains(&word) => return Ok(None),
        _ => return Err("expected JSON, or a line of tc class show".into()),
    };
    let handle = words.next().unwrap_or("");
    let mut members = vec![("class".into(), text(kind)), ("handle".into(), text(handle))];
    while let Some(key) = words.next() {
        if key == "root" {
            members.push((key.into(), Value::Bool(true)));
            continue;
        }
        let Some(value) = words.next() else {
            return Err(format!("class {handle}: \"{key}\" has no value"));
        };
        members.push((key.into(), text(value)));
    }
    Ok(Some(Value::Object(members)))
}

/// Returns the words after the kind of a class, each behind a blank. `r2q` is that of its qdisc.
pub(super) fn words(spec: &ClassSpec, r2q: u64, o: &mut Members<'_>) -> Done<String> {
    if spec.kind == "htb" {
        return htb(r2q, o);
    }
    let mut out = String::new();
    for param in spec.params {
        if let Some(value) = o.take(param.key) {
            let value = valued(param, value, o, &|_| None)?;
            out.push_str(&format!(" {} {value}", param.key));
        }
    }
    Ok(out)
}

/// Takes a rate: a number of bytes per second, or a word of tc.
fn rate(o: &mut Members<'_>, key: &str) -> Done<Option<Rate>> {
    let Some(value) = o.take(key) else { return Ok(None) };
    let rate = match value {
        Value::Number(digits) => digits.parse().ok().map(Rate),
        Value::Text(word) => txweir_core::text::value::with_unit(word).ok(),
        _ => None,
    };
    rate.map(Some).ok_or_else(|| o.wrong(key, "a rate", value))
}

fn htb(r2q: u64, o: &mut Members<'_>) -> Done<String> {
    let Some(own) = rate(o, "rate")? else { return Err(o.missing("rate")) };
    let ceil = rate(o, "ceil")?.unwrap_or(own);
    let mut out = format!(" rate {}bps", own.0);
    if ceil != own {
        out.push_str(&format!(" ceil {}bps", ceil.0));
    }
    // The buckets that the class has if none are given are not written.
    let usual = ClassConfig { rate: own, ceil: Some(ceil), ..ClassConfig::defaults(&Env::default()) };
    let (depth, cdepth) = usual.depths();
    for (key, at, usual) in [("burst", own, depth), ("cburst", ceil, cdepth)] {
        let shown = shown_size(at, usual.into());
        if let Some(given) = size(o, key)?.filter(|given| Bytes(*given) != shown) {
            out.push_str(&format!(" {key} {}b", bucket(at, given, &|size| ticks(at, Bytes(size)).into())));
        }
    }
    if let Some(prio) = o.plain("prio")?.filter(|prio| *prio != "0") {
        out.push_str(&format!(" prio {prio}"));
    }
    // rate/r2q, between 1000 and 200000 (tc-htb(8)).
    let derived = (own.0 / r2q.max(1)).clamp(1000, 200_000);
    if let Some(quantum) = o.plain("quantum")?.filter(|quantum| **quantum != derived.to_string()) {
        out.push_str(&format!(" quantum {quantum}"));
    }
    for key in ["overhead", "mpu"] {
        if let Some(n) = size(o, key)?.filter(|n| *n > 0) {
            out.push_str(&format!(" {key} {n}"));
        }
    }
    if let Some(mpu) = size(o, "mpu_rate")?.filter(|n| *n > 0) {
        out.push_str(&format!(" mpu {mpu}"));
    }
    if let Some(layer) = o.word("linklayer")?.filter(|layer| *layer != "ethernet") {
        out.push_str(&format!(" linklayer {layer}"));
    }
    if let Some(name) = o.word("shared")? {
        out.push_str(&format!(" shared {name}"));
    }
    // The place in the hierarchy, and the forms of the buckets, follow from the others.
    for key in ["level", "burst_cell", "cburst_cell", "mpu_ceil"] {
        o.pass(key);
    }
    Ok(out)
}
