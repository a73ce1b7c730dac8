//! The output of tc for cake: options in words of its own, and a table with a column for each tin.

use std::fmt::Write;

use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, exact_of, text_of};
use txweir_core::{Bytes, Rate};

use super::{Form, Printed, rate_text, time, time_text};
use crate::json::{self, Object};

/// Returns the options in the order and with the words of tc.
pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut given: Vec<(&'static str, String)> = Vec::new();
    qdisc.options(&mut |o| {
        let text =
            if o.param.flag { o.word.map(String::from) } else { o.value.is_set().then(|| exact_of(o.value)) };
        given.extend(text.map(|text| (o.param.key, text)));
    });
    let said = |key: &str| given.iter().find(|(k, _)| *k == key).map_or("", |(_, text)| text.as_str());
    let word = |key, text: &str, json| Printed { key, text: Some(text.into()), json: Some(json) };
    let mut printed = bandwidth(qdisc, said("bandwidth"), form);
    printed.push(word("diffserv", said("diffserv"), Json::Text(said("diffserv").into())));
    printed.push(word("flowmode", said("flowmode"), Json::Text(said("flowmode").into())));
    printed.push(word("nat", said("nat"), Json::Bool(said("nat") == "nat")));
    printed.push(word("wash", said("wash"), Json::Bool(said("wash") == "wash")));
    let ingress = said("ingress") == "ingress";
    printed.push(Printed {
        key: "ingress",
        text: ingress.then(|| "ingress".into()),
        json: Some(Json::Bool(ingress)),
    });
    let filter = match said("ack_filter") {
        "ack-filter" => "enabled",
        "ack-filter-aggressive" => "aggressive",
        _ => "disabled",
    };
    printed.push(word("ack-filter", said("ack_filter"), Json::Text(filter.into())));
    printed.push(word("split_gso", said("split_gso"), Json::Bool(said("split_gso") == "split-gso")));
    printed.push(time("rtt", number(said("rtt"), "rtt ").unwrap_or(0)));
    framing(&mut printed, said("framing"));
    if let Some(limit) = number(said("memlimit"), "memlimit ") {
        printed.push(Printed::new("memlimit", &Bytes(limit)));
    }
    let mask = said("fwmark").strip_prefix("fwmark ");
    printed.push(Printed {
        key: "fwmark",
        text: mask.map(|mask| format!("fwmark {mask}")),
        json: Some(Json::Text(mask.unwrap_or("0").into())),
    });
    if let Some((_, name)) = given.iter().find(|(key, _)| *key == "shared") {
        printed.push(word("shared", &format!("shared {name}"), Json::Text(name.clone())));
    }
    printed
}

/// Returns the number behind `key` in a text such as `rtt 100000us`.
fn number(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns the present rate of the shaper, which differs from the given one if it follows the
/// arrivals.
fn bandwidth(qdisc: &dyn Qdisc, said: &str, form: &Form) -> Vec<Printed> {
    let follows = said.ends_with("autorate-ingress");
    let mut rate = Rate(number(said, "bandwidth ").unwrap_or(0));
    if follows {
        // One of the tins has all of it: the largest share is the rate.
        rate = Rate(0);
        qdisc.parts(&mut |_, counter, n| {
            if counter.key == "threshold_rate" {
                rate = rate.max(Rate(n));
            }
        });
    }
    let mut printed = Vec::new();
    printed.push(match rate {
        Rate(0) => Printed {
            key: "bandwidth",
            text: Some("bandwidth unlimited".into()),
            json: Some(Json::Text("unlimited".into())),
        },
        rate => super::rate("bandwidth", rate, form),
    });
    if follows {
        let json = Some(Json::Text("autorate-ingress".into()));
        printed.push(Printed { key: "autorate", text: Some("autorate-ingress".into()), json });
    }
    printed
}

/// Prints `raw noatm overhead 0 mpu 0`, as core writes it.
fn framing(printed: &mut Vec<Printed>, said: &str) {
    let raw = said.starts_with("raw ");
    let mut words = said.split(' ').skip(usize::from(raw));
    let cells = words.next().unwrap_or("noatm");
    let overhead = words.nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    printed.push(Printed { key: "raw", text: raw.then(|| "raw".into()), json: Some(Json::Bool(raw)) });
    if !raw || cells != "noatm" {
        printed.push(Printed { key: "atm", text: Some(cells.into()), json: Some(Json::Text(cells.into())) });
    }
    let text = Some(format!("overhead {overhead}"));
    printed.push(Printed { key: "overhead", text, json: Some(Json::Int(overhead)) });
    if let Some(mpu) = number(said, "mpu ").filter(|mpu| *mpu > 0) {
        let text = Some(format!("mpu {mpu}"));
        printed.push(Printed { key: "mpu", text, json: Some(Json::Uint(mpu)) });
    }
}

/// The format of a row of the table.
#[derive(Clone, Copy)]
enum As {
    Number,
    Rate,
    Size,
    Time,
}

/// The rows of the table, each with its counter.
const ROWS: [(&str, &str, As); 20] = [
    ("thresh", "threshold_rate", As::Rate),
    ("target", "target_us", As::Time),
    ("interval", "interval_us", As::Time),
    ("pk_delay", "peak_delay_us", As::Time),
    ("av_delay", "avg_delay_us", As::Time),
    ("sp_delay", "base_delay_us", As::Time),
    ("backlog", "backlog_bytes", As::Size),
    ("pkts", "sent_packets", As::Number),
    ("bytes", "sent_bytes", As::Number),
    ("way_inds", "way_indirect_hits", As::Number),
    ("way_miss", "way_misses", As::Number),
    ("way_cols", "way_collisions", As::Number),
    ("drops", "drops", As::Number),
    ("marks", "ecn_mark", As::Number),
    ("ack_drop", "ack_drops", As::Number),
    ("sp_flows", "sparse_flows", As::Number),
    ("bk_flows", "bulk_flows", As::Number),
    ("un_flows", "unresponsive_flows", As::Number),
    ("max_len", "max_pkt_len", As::Number),
    ("quantum", "flow_quantum", As::Number),
];

/// Returns the counters of each tin, by its name.
fn tins(qdisc: &dyn Qdisc) -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    let mut tins: Vec<(&'static str, Vec<(&'static str, u64)>)> = Vec::new();
    qdisc.parts(&mut |name, counter, n| match tins.last_mut() {
        Some((last, counted)) if *last == name => counted.push((counter.key, n)),
        _ => tins.push((name, vec![(counter.key, n)])),
    });
    tins
}

/// Writes the lines of `tc -s` below the counters that every qdisc has.
pub(super) fn write_stats(out: &mut String, qdisc: &dyn Qdisc, form: &Form) -> std::fmt::Result {
    let mut counted = Vec::new();
    qdisc.counters(&mut |counter, n| counted.push((counter.key, n)));
    let of = |key: &str| counted.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n);
    let size = |key: &str| text_of(&Bytes(of(key)));
    writeln!(out, " memory used: {} of {}", size("memory_used"), size("memory_limit"))?;
    writeln!(out, " capacity estimate: {}", rate_text(Rate(of("capacity_estimate")), form.iec))?;
    let (min, max) = (of("min_network_size"), of("max_network_size"));
    writeln!(out, " min/max network layer size: {min:12} / {max:7}")?;
    let (min, max) = (of("min_adj_size"), of("max_adj_size"));
    writeln!(out, " min/max overhead-adjusted size: {min:8} / {max:7}")?;
    writeln!(out, " average network hdr offset: {:12}\n", of("avg_hdr_offset"))?;
    let tins = tins(qdisc);
    write!(out, "          ")?;
    for (name, _) in &tins {
        write!(out, "{name:>13}")?;
    }
    writeln!(out)?;
    for (label, key, form_of) in ROWS {
        write!(out, "  {label:8}")?;
        for (_, counted) in &tins {
            let n = counted.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n);
            let text = match form_of {
                As::Number => n.to_string(),
                As::Rate => rate_text(Rate(n), form.iec),
                As::Size => text_of(&Bytes(n)),
                As::Time => time_text(n),
            };
            write!(out, "{text:>13}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Returns the list of tins that `tc -s -j` prints.
pub(super) fn tin_objects(qdisc: &dyn Qdisc) -> String {
    let object = |(_, counted): (&str, Vec<(&'static str, u64)>)| {
        counted.into_iter().fold(Object::new(), |o, (key, n)| o.uint(key, n)).finish()
    };
    json::list(tins(qdisc).into_iter().map(object))
}
