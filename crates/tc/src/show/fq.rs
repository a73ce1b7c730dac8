//! fq as tc prints it: bands, map and weights where they are not the defaults (tc 6.1 does not know
//! them), `nopacing` and the horizon's flag, two counters of one name, and times in nanoseconds.

use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, text_of};

use super::{Form, Printed, option, three_digits};
use crate::json::Object;

pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut printed = Vec::new();
    qdisc.options(&mut |o| {
        let key = o.param.key;
        printed.extend(match (key, o.value.json()) {
            ("pacing", Json::Bool(true)) => None,
            ("pacing", off) => Some(Printed { key, text: Some("nopacing".into()), json: Some(off) }),
            ("horizon_drop", _) => {
                let key = o.word.unwrap_or(key);
                Some(Printed { key, text: Some(key.into()), json: Some(Json::Null) })
            }
            ("low_rate_threshold", Json::Uint(0)) => None,
            ("quantum" | "initial_quantum", Json::Uint(n)) => {
                let text = text_of(&txweir_core::Bytes(n));
                Some(Printed { key, text: Some(format!("{key} {text}")), json: Some(Json::Uint(n)) })
            }
            ("timer_slack", Json::Uint(ns)) => {
                let text = Some(format!("{key} {}", nanos_text(ns)));
                Some(Printed { key, text, json: Some(Json::Uint(ns)) })
            }
            _ => option(&o, form),
        });
    });
    printed
}

/// Returns a time as tc prints one in nanoseconds.
fn nanos_text(ns: u64) -> String {
    let (unit, name) = match ns {
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        1_000.. => (1e3, "us"),
        _ => return format!("{ns}ns"),
    };
    // From 2^53 ns, 104 days, on, the last digits are lost; three are printed.
    format!("{}{name}", three_digits(ns as f64 / unit))
}

/// Returns the counters that tc 6.1 prints, by its names; the others are in txweir's own listings.
fn counters(qdisc: &dyn Qdisc) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    qdisc.counters(&mut |counter, n| all.push((counter.key, n)));
    all
}

/// True if a counter is printed although it is zero.
fn always(key: &str) -> bool {
    ["flows", "inactive", "throttled_flows", "gc", "highprio", "throttled"].contains(&key)
}

/// Returns the lines of counters.
pub(super) fn counters_text(qdisc: &dyn Qdisc) -> String {
    let mut out = String::new();
    for (key, n) in counters(qdisc).into_iter().filter(|(key, n)| *n > 0 || always(key)) {
        out.push_str(&match key {
            "flows" => format!("  flows {n}"),
            "inactive" => format!(" (inactive {n}"),
            "throttled_flows" => format!(" throttled {n})"),
            "gc" => format!("\n  gc {n}"),
            "next_packet_delay" | "latency" => format!(" {key} {}", nanos_text(n)),
            "highprio" | "throttled" | "ce_mark" | "flows_plimit" => format!(" {key} {n}"),
            _ => continue,
        });
    }
    out.push('\n');
    let mut last = String::new();
    for (key, n) in counters(qdisc).into_iter().filter(|(_, n)| *n > 0) {
        last.push_str(&match key {
            "pkts_too_long" | "horizon_drops" => format!(" {key} {n}"),
            "horizon_caps" => format!("  {key} {n}"),
            _ => continue,
        });
    }
    if !last.is_empty() {
        out.push_str(&last);
        out.push('\n');
    }
    out
}

/// Adds the counters as JSON. `throttled` appears twice, as in tc: flows, then times.
pub(super) fn counters_json(o: Object, qdisc: &dyn Qdisc) -> Object {
    let known = |key: &str| !key.starts_with("band") && key != "fastpath";
    let shown = counters(qdisc).into_iter().filter(|(key, n)| known(key) && (*n > 0 || always(key)));
    shown.fold(o, |o, (key, n)| o.uint(if key == "throttled_flows" { "throttled" } else { key }, n))
}
