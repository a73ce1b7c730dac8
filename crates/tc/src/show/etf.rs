//! etf as tc prints it: flags as `on` and `off`, in text and in JSON.

use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, text_of};

use super::Printed;

pub(super) fn options(qdisc: &dyn Qdisc) -> Vec<Printed> {
    let mut printed = Vec::new();
    qdisc.options(&mut |o| {
        // The text of a truth value is `on` or `off`.
        let text = text_of(o.value);
        let json = match o.value.json() {
            Json::Bool(_) => Json::Text(text.clone()),
            other => other,
        };
        printed.push(Printed {
            key: o.param.key,
            text: Some(format!("{} {text}", o.param.key)),
            json: Some(json),
        });
    });
    printed
}
