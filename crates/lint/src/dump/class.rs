//! Classes that commands make: those of htb, drr and hfsc, as JSON of newer tc or as the text
//! that earlier versions print also with `-j`.

use txweir_core::law::bucket::{shown_size, ticks};
use txweir_core::law::curve::Curve;
use txweir_core::qdisc::htb::ClassConfig;
use txweir_core::sched::classful::ClassSpec;
use txweir_core::text::params::Params;
use txweir_core::text::value::Value as _;
use txweir_core::{Bytes, Env, Rate};

use super::Refusal;
use super::json::Value;
use super::members::Members;
use super::qdisc::{bucket, size, valued};

type Done<T = ()> = Result<T, Refusal>;

/// The lines of counters below a class, by their first words.
const COUNTERS: [&str; 8] =
    ["Sent", "backlog", "rate", "lended:", "tokens:", "deficit", "period", "(dropped"];
/// The words of a service curve, each before its value.
const CURVE: [&str; 3] = ["m1", "d", "m2"];

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
        let no_value = || format!("class {handle}: \"{key}\" has no value");
        let value = words.next().ok_or_else(no_value)?;
        if kind == "hfsc" && value == CURVE[0] {
            let mut curve = vec![(value.into(), text(words.next().ok_or_else(no_value)?))];
            for part in &CURVE[1..] {
                let value = words.next().filter(|word| word == part).and_then(|_| words.next());
                curve.push(((*part).into(), text(value.ok_or_else(no_value)?)));
            }
            members.push((key.into(), Value::Object(curve)));
            continue;
        }
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
        if param.expected == Curve::EXPECTED {
            out.push_str(&curve(param.key, o)?);
        } else if let Some(value) = o.take(param.key) {
            let value = valued(param, value, o, &|_| None)?;
            out.push_str(&format!(" {} {value}", param.key));
        }
    }
    Ok(out)
}

/// Takes a service curve: an object with numbers in bytes per second and microseconds, or words of
/// tc. Returns its words, each behind a blank.
fn curve(key: &str, o: &mut Members<'_>) -> Done<String> {
    let Some(mut parts) = o.object(key)? else { return Ok(String::new()) };
    let mut out = format!(" {key}");
    for (part, unit) in CURVE.into_iter().zip(["bps", "us", "bps"]) {
        let Some(value) = parts.plain(part)? else { return Err(parts.missing(part)) };
        let unit = if value.bytes().all(|b| b.is_ascii_digit()) { unit } else { "" };
        out.push_str(&format!(" {part} {value}{unit}"));
    }
    parts.end(|_| false)?;
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
