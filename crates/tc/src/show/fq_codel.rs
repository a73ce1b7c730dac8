//! fq_codel as tc prints it: the selector of the CE threshold behind that threshold, and as two
//! numbers in JSON.

use txweir_core::qdisc::fq_codel::Selector;
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, Value, Words, text_of};

use super::{Form, Printed, option};

pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let (mut printed, mut has_threshold) = (Vec::new(), false);
    qdisc.options(&mut |o| {
        has_threshold |= o.param.key == "ce_threshold" && o.value.is_set();
        if o.param.key != "ce_threshold_selector" {
            printed.extend(option(&o, form));
        } else if let Some(selector) = read(&text_of(o.value)).filter(|s| has_threshold && s.mask != 0) {
            let one = |key, text, n: u8| Printed { key, text, json: Some(Json::Uint(n.into())) };
            let text = format!("{} {}", o.param.key, text_of(&selector));
            printed.push(one(o.param.key, Some(text), selector.value));
            printed.push(one("ce_threshold_mask", None, selector.mask));
        }
    });
    printed
}

/// Returns the selector that its text names.
fn read(text: &str) -> Option<Selector> {
    Selector::take(&mut Words::new(&[text])).ok()
}
