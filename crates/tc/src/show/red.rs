//! red and choke as tc prints them: with details also the values that tc derives for the kernel.

use txweir_core::Rate;
use txweir_core::law::red::{IdleTable, weight_for_burst};
use txweir_core::qdisc::red::packet_time;
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, Show};

use super::number::probability;
use super::{Form, Printed};

/// Returns the options, with the limit and the two averages in the unit of the kind.
pub(super) fn options<S: Show>(qdisc: &dyn Qdisc, form: &Form, unit: &dyn Fn(u64) -> S) -> Vec<Printed> {
    let mut given = Vec::new();
    qdisc.options(&mut |o| given.push((o.param.key, o.value.json())));
    let value = |key: &str| given.iter().find(|(k, _)| *k == key).map(|(_, json)| json);
    let number = |key: &str| match value(key) {
        Some(Json::Uint(n)) => *n,
        _ => 0,
    };
    let mut printed: Vec<Printed> =
        ["limit", "min", "max"].into_iter().map(|key| Printed::new(key, &unit(number(key)))).collect();
    for key in ["ecn", "harddrop", "adaptive", "nodrop"] {
        let on = value(key) == Some(&Json::Bool(true));
        printed.push(Printed { key, text: on.then(|| key.to_string()), json: Some(Json::Bool(on)) });
    }
    if !form.details {
        // tc ends the line with a blank.
        printed.push(Printed { key: "", text: Some(String::new()), json: None });
        return printed;
    }
    let bits32 = |key: &str| u32::try_from(number(key)).unwrap_or(u32::MAX);
    // The weight follows from a number of bytes.
    let each = if qdisc.spec().kind == "choke" { bits32("avpkt") } else { 1 };
    let min = bits32("min").saturating_mul(each);
    let (wlog, cell_log) = derived(min, bits32("burst"), bits32("avpkt"), Rate(number("bandwidth")));
    let chance = match value("probability") {
        Some(Json::Number(digits)) => probability(digits.parse().unwrap_or(0.0)),
        _ => "0".into(),
    };
    let mut push = |key: &'static str, text: String, json: Json| {
        printed.push(Printed { key, text: Some(format!("{key} {text}")), json: Some(json) });
    };
    push("ewma", wlog.to_string(), Json::Uint(wlog.into()));
    push("probability", chance.clone(), Json::Number(chance));
    push("Scell_log", cell_log.to_string(), Json::Uint(cell_log.into()));
    printed
}

/// Returns what tc derives from these sizes and this rate: the weight of the average, and the
/// length of a cell of its idle times, both logarithms.
pub(super) fn derived(min: u32, burst: u32, avpkt: u32, bandwidth: Rate) -> (u8, u8) {
    let wlog = weight_for_burst(min, burst, avpkt).unwrap_or(0);
    (wlog, IdleTable::new(wlog, packet_time(bandwidth, avpkt)).cell_log())
}
