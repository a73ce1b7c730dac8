//! netem as tc prints it: times in the grain of the kernel's clock, chances as shares of one in
//! JSON.

use txweir_core::Nanos;
use txweir_core::base::chance::Percent;
use txweir_core::qdisc::netem::{in_grains, most_deviation};
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::impairment::{Chance, Delay, LinkRate, Loss, Slot, SlotGap};
use txweir_core::text::params::Shown;
use txweir_core::text::value::{Json, Value, Words, exact_of};

use super::{Form, Printed, general, rate_text, time_text};

/// A member of an object.
type Member = (&'static str, Json);

pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut by_key: Vec<(&'static str, Printed)> = Vec::new();
    qdisc.options(&mut |o| {
        if let Some(printed) = option(&o, form) {
            by_key.push((o.param.key, printed));
        }
    });
    // The order in which tc prints them.
    const ORDER: [&str; 9] =
        ["limit", "delay", "loss", "duplicate", "reorder", "corrupt", "rate", "slot", "ecn"];
    let place = |key: &str| ORDER.iter().position(|k| *k == key).unwrap_or(ORDER.len());
    by_key.sort_by_key(|(key, _)| place(key));
    by_key.into_iter().map(|(_, printed)| printed).collect()
}

/// Returns the value again, read from the words that make it.
fn value<V: Value>(o: &Shown<'_>) -> Option<V> {
    let exact = exact_of(o.value);
    let words: Vec<&str> = exact.split(' ').collect();
    V::take(&mut Words::new(&words)).ok().filter(|_| o.value.is_set())
}

fn option(o: &Shown<'_>, form: &Form) -> Option<Printed> {
    let key = o.param.key;
    match key {
        "limit" => value::<u32>(o).map(|limit| Printed::new(key, &limit)),
        "delay" => value(o).and_then(delay),
        "loss" => value(o).map(loss),
        "duplicate" | "reorder" | "corrupt" => value(o).map(|c| chance(key, key, c)),
        "rate" => value(o).map(|r| rate(r, form)),
        "slot" => value(o).map(slot),
        "ecn" => {
            let on = o.value.json() == Json::Bool(true);
            // tc prints a blank after it.
            Some(Printed { key, text: on.then(|| "ecn ".into()), json: Some(Json::Bool(on)) })
        }
        "gap" => {
            let gap = value::<u32>(o).unwrap_or(0);
            let text = (gap > 0).then(|| format!("gap {gap}"));
            Some(Printed { key, text, json: Some(Json::Uint(gap.into())) })
        }
        _ => None,
    }
}

/// Returns seconds of whole microseconds, as C's `%g` writes them.
fn seconds(ns: u64) -> Json {
    Json::Number(general(ns as f64 / 1e9, 6))
}

fn delay(d: Delay) -> Option<Printed> {
    // The times have the grain of the kernel's clock, in microseconds.
    let micros = |t: Nanos| in_grains(t).unsigned_abs() / 1000;
    let (time, jitter) = (micros(d.time), most_deviation(d.jitter).unsigned_abs() / 1000);
    let correlation = d.correlation.unwrap_or_default();
    let mut text = format!("delay {}", time_text(time));
    if jitter > 0 {
        text.push_str(&format!("  {}", time_text(jitter)));
        if correlation > Percent(0) {
            text.push_str(&format!(" {}", percent(correlation)));
        }
    }
    let members = vec![
        ("delay", seconds(time * 1000)),
        ("jitter", seconds(jitter * 1000)),
        ("correlation", share(correlation)),
    ];
    (time > 0).then(|| object("delay", text, members))
}

fn object(key: &'static str, text: String, members: Vec<Member>) -> Printed {
    Printed { key, text: Some(text), json: Some(Json::Members(members)) }
}

fn percent(p: Percent) -> String {
    format!("{}%", general(100.0 * f64::from(p.0) / f64::from(u32::MAX), 6))
}

fn share(p: Percent) -> Json {
    Json::Number(general(f64::from(p.0) / f64::from(u32::MAX), 6))
}

/// Prints a chance: `key` is that of the object and `name` that of the chance in it.
fn chance(key: &'static str, name: &'static str, c: Chance) -> Printed {
    let correlation = c.correlation.unwrap_or_default();
    let mut text = format!("{name} {}", percent(c.share));
    if correlation > Percent(0) {
        text.push_str(&format!(" {}", percent(correlation)));
    }
    object(key, text, vec![(name, share(c.share)), ("correlation", share(correlation))])
}

fn loss(loss: Loss) -> Printed {
    let (key, name, values): (_, _, Vec<(&'static str, Percent)>) = match loss {
        Loss::Random(c) => return chance("loss-random", "loss", c),
        Loss::State(p) => {
            ("loss-state", "state", ["p13", "p31", "p32", "p23", "p14"].into_iter().zip(p).collect())
        }
        Loss::Gemodel(p) => {
            ("loss-gemodel", "gemodel", ["p", "r", "1-h", "1-k"].into_iter().zip(p).collect())
        }
    };
    let mut text = format!("loss {name}");
    for (name, p) in &values {
        text.push_str(&format!(" {name} {}", percent(*p)));
    }
    object(key, text, values.into_iter().map(|(name, p)| (name, share(p))).collect())
}

fn rate(r: LinkRate, form: &Form) -> Printed {
    let mut text = format!("rate {}", rate_text(r.rate, form.iec));
    let mut members = vec![("rate", Json::Uint(r.rate.0))];
    let parts = [
        ("packetoverhead", i64::from(r.overhead)),
        ("cellsize", i64::from(r.cell)),
        ("celloverhead", i64::from(r.cell_overhead)),
    ];
    for (name, n) in parts {
        if n != 0 {
            text.push_str(&format!(" {name} {n}"));
        }
        members.push((name, Json::Number(n.to_string())));
    }
    object("rate", text, members)
}

/// Returns a time of 64 bits as tc prints it.
fn long_time(ns: u64) -> String {
    let (unit, name) = match ns {
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        1_000.. => (1e3, "us"),
        _ => return format!("{ns}ns"),
    };
    format!("{}{name}", general(ns as f64 / unit, 3))
}

fn slot(slot: Slot) -> Printed {
    let (mut text, mut members) = match slot.gap {
        SlotGap::Between(min, max) => (
            format!("slot {} {}", long_time(min.0), long_time(max.0)),
            vec![("min-delay", seconds(min.0)), ("max-delay", seconds(max.0))],
        ),
        SlotGap::Shaped(_, delay, jitter) => {
            let jitter = jitter.0.min(u64::from(i32::MAX.unsigned_abs()));
            (
                format!("slot distribution {} {}", long_time(delay.0), long_time(jitter)),
                vec![("distribution", seconds(delay.0)), ("jitter", seconds(jitter))],
            )
        }
    };
    for (name, n) in [("packets", slot.packets), ("bytes", slot.bytes)] {
        if n > 0 {
            text.push_str(&format!(" {name} {n}"));
        }
        members.push((name, Json::Uint(n.into())));
    }
    object("slot", text, members)
}
