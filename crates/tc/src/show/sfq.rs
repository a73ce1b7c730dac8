//! sfq as tc prints it: the limit also where none was given, the number of flows with details only,
//! RED by the values that tc derives for the kernel, and its counters with the options, above those
//! of every qdisc.

use txweir_core::law::red::weight_for_burst;
use txweir_core::qdisc::sfq::LIMIT;
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::Json;
use txweir_core::{Bytes, Packets};

use super::number::probability;
use super::{Form, Printed};

/// The counters of RED in two lines.
const LINES: [&[&str]; 2] =
    [&["prob_mark", "prob_mark_head", "prob_drop"], &["forced_mark", "forced_mark_head", "forced_drop"]];

pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut given = Vec::new();
    qdisc.options(&mut |o| {
        if o.value.is_set() {
            given.push((o.param.key, o.value.json()));
        }
    });
    let value = |key: &str| given.iter().find(|(k, _)| *k == key).map(|(_, json)| json);
    let number = |key: &str| match value(key) {
        Some(Json::Uint(n)) => Some(*n),
        _ => None,
    };
    let bits32 = |key: &str| u32::try_from(number(key).unwrap_or(0)).unwrap_or(u32::MAX);
    let on = |key: &str| value(key) == Some(&Json::Bool(true));
    let flag =
        |key: &'static str, json| Printed { key, text: on(key).then(|| key.to_string()), json: Some(json) };
    let limit = number("limit").map_or(LIMIT, |_| bits32("limit"));
    let mut printed = vec![
        Printed::new("limit", &Packets(limit)),
        Printed::new("quantum", &Bytes(number("quantum").unwrap_or(0))),
        Printed::new("depth", &bits32("depth")),
    ];
    // Packets are printed as "127p" in text, and as a number in JSON.
    printed.extend(on("headdrop").then(|| flag("headdrop", Json::Bool(true))));
    printed.extend(form.details.then(|| Printed::new("flows", &bits32("flows"))));
    printed.push(Printed::new("divisor", &bits32("divisor")));
    if let Some(seconds) = number("perturb").filter(|s| *s > 0) {
        let text = Some(format!("perturb {seconds}sec"));
        printed.push(Printed { key: "perturb", text, json: Some(Json::Uint(seconds)) });
    }
    if number("redflowlimit").is_some() {
        let wlog = weight_for_burst(bits32("min"), bits32("burst"), bits32("avpkt")).unwrap_or(0);
        printed.push(Printed::new("ewma", &u32::from(wlog)));
        printed.extend(["min", "max"].map(|key| Printed::new(key, &Bytes(number(key).unwrap_or(0)))));
        let chance = match value("probability") {
            Some(Json::Number(digits)) => probability(digits.parse().unwrap_or(0.0)),
            _ => "0".into(),
        };
        let text = Some(format!("probability {chance}"));
        printed.push(Printed { key: "probability", text, json: Some(Json::Number(chance)) });
        for key in ["ecn", "harddrop", "adaptive", "nodrop"] {
            printed.push(flag(key, Json::Bool(on(key))));
        }
        if form.statistics {
            counters(qdisc, &mut printed);
            return printed;
        }
    }
    // tc ends the line with a blank.
    printed.push(Printed { key: "", text: Some(String::new()), json: None });
    printed
}

/// Prints the counters of RED.
fn counters(qdisc: &dyn Qdisc, printed: &mut Vec<Printed>) {
    let mut all = Vec::new();
    qdisc.counters(&mut |counter, n| all.push((counter.key, n)));
    let of = |line: &'static [&'static str]| all.iter().filter(|(key, _)| line.contains(key));
    let line = |keys| of(keys).map(|(key, n)| format!("{key} {n}")).collect::<Vec<_>>().join(" ");
    // The blank before the first line ends that of the options.
    let text = LINES.map(line).map(|line| format!("\n  {line}")).concat();
    printed.push(Printed { key: "", text: Some(text), json: None });
    printed.extend(all.iter().map(|(key, n)| Printed { key, text: None, json: Some(Json::Uint(*n)) }));
}
