//! sfb as tc prints it: steps of probabilities with six digits.

use txweir_core::Nanos;
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, Show, exact_of, text_of};

use super::Printed;
use super::number::general;

/// A probability of one, in the units in which sfb counts.
const ONE: f64 = 65535.0;

/// Returns the options.
pub(super) fn options(qdisc: &dyn Qdisc) -> Vec<Printed> {
    let mut printed = Vec::new();
    qdisc.options(&mut |o| {
        let key = o.param.key;
        printed.push(match key {
            "increment" | "decrement" => {
                let part = exact_of(o.value).parse().unwrap_or(0.0f64);
                let digits = general((part * ONE).round() / ONE, 6);
                Printed { key, text: Some(format!("{key} {digits}")), json: Some(Json::Number(digits)) }
            }
            "rehash" | "db" => {
                // Milliseconds, which tc prints as a time.
                let ms = exact_of(o.value).parse().unwrap_or(0);
                let time = Nanos::from_millis(ms);
                Printed { key, text: Some(format!("{key} {}", text_of(&time))), json: Some(time.json()) }
            }
            "penalty_rate" => with_unit(key, o.value, "pps"),
            "penalty_burst" => with_unit(key, o.value, "p"),
            _ => {
                Printed { key, text: Some(format!("{key} {}", text_of(o.value))), json: Some(o.value.json()) }
            }
        });
    });
    printed
}

fn with_unit(key: &'static str, value: &dyn Show, unit: &str) -> Printed {
    Printed { key, text: Some(format!("{key} {}{unit}", text_of(value))), json: Some(value.json()) }
}
