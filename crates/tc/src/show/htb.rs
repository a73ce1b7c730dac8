//! htb and its classes as tc prints them: the buckets in the grain of the kernel's clock and of
//! tc's microseconds.

use txweir_core::base::link::LinkLayer;
use txweir_core::law::bucket::shown_size;
use txweir_core::qdisc::htb::ClassConfig;
use txweir_core::sched::classful::{ClassShown, UserClasses};
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::params::{Params, apply};
use txweir_core::text::value::{Json, Words, text_of};
use txweir_core::{Bytes, Env, Rate};

use super::{Form, Printed, option, push_words, rate};

/// The version of htb in the kernel, as tc prints it.
const VERSION: &str = "3.17";

/// Returns the qdisc's options; a counter stands among them.
pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut printed = Vec::new();
    qdisc.options(&mut |o| {
        if o.param.key == "direct_qlen" {
            qdisc.counters(&mut |counter, n| {
                let text = Some(format!("{} {n}", counter.key));
                printed.push(Printed { key: counter.key, text, json: Some(Json::Uint(n)) });
            });
            if form.details {
                let (text, json) = (Some(format!("ver {VERSION}")), Some(Json::Text(VERSION.into())));
                printed.push(Printed { key: "ver", text, json });
            }
        }
        printed.extend(option(&o, form));
    });
    printed
}

/// Returns the parameters of a class, from its printed options.
fn config(classes: &dyn UserClasses, class: &ClassShown<'_>) -> Option<ClassConfig> {
    let mut words = Vec::new();
    classes.options(class.at.minor, &mut |o| push_words(&mut words, &o));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut cfg = ClassConfig::defaults(&Env::default());
    apply(&mut cfg, "htb", &mut Words::new(&words)).ok().map(|()| cfg)
}

/// Returns the options of a class.
pub(super) fn class_options(classes: &dyn UserClasses, class: &ClassShown<'_>, form: &Form) -> Vec<Printed> {
    let Some(cfg) = config(classes, class) else { return Vec::new() };
    let [.., quantum, level] = class.values else { return Vec::new() };
    let number = |key, n: u64| Printed { key, text: Some(format!("{key} {n}")), json: Some(Json::Uint(n)) };
    let mut printed = Vec::new();
    if *level == 0 {
        printed.push(number("prio", cfg.prio.into()));
        if form.details {
            printed.push(number("quantum", quantum.unsigned_abs()));
        }
    }
    printed.push(rate("rate", cfg.rate, form));
    if cfg.overhead > 0 {
        printed.push(number("overhead", cfg.overhead.into()));
    }
    printed.push(rate("ceil", cfg.ceiling(), form));
    if form.details || cfg.linklayer != LinkLayer::Ethernet {
        printed.push(Printed::new("linklayer", &cfg.linklayer));
    }
    let (buffer, cbuffer) = cfg.depths();
    push_bucket(&mut printed, "burst", cfg.rate, buffer, &cfg, form);
    push_bucket(&mut printed, "cburst", cfg.ceiling(), cbuffer, &cfg, form);
    if form.details {
        printed.push(number("level", level.unsigned_abs()));
    }
    for (key, ticks) in [("buffer", buffer), ("cbuffer", cbuffer)] {
        if form.raw {
            let text = Some(format!("{key} [{ticks:08x}]"));
            printed.push(Printed { key, text, json: Some(Json::Text(format!("{ticks:x}"))) });
        }
    }
    if let Some(name) = &cfg.shared {
        let (text, json) =
            (Some(format!("shared {}", name.as_str())), Some(Json::Text(name.as_str().into())));
        printed.push(Printed { key: "shared", text, json });
    }
    printed
}

/// Adds a bucket: with details its cell size, which is always 1, and the smallest size.
fn push_bucket(
    printed: &mut Vec<Printed>,
    key: &'static str,
    at: Rate,
    ticks: u32,
    cfg: &ClassConfig,
    form: &Form,
) {
    let size = shown_size(at, ticks.into());
    if !form.details {
        printed.push(Printed::new(key, &size));
        return;
    }
    let cell = format!("{}/1", text_of(&size));
    printed.push(Printed { key, text: Some(format!("{key} {cell}")), json: Some(Json::Text(cell)) });
    // The key appears once: the smallest size is the same for both.
    let json = (key == "burst").then(|| Json::Uint(cfg.mpu.into()));
    printed.push(Printed {
        key: "mpu",
        text: Some(format!("mpu {}", text_of(&Bytes(cfg.mpu.into())))),
        json,
    });
}

/// Returns the counters of a class.
pub(super) fn class_counters(class: &ClassShown<'_>) -> String {
    match class.values {
        [lent, borrowed, giants, tokens, ctokens, ..] => format!(
            " lended: {lent} borrowed: {borrowed} giants: {giants}\n tokens: {tokens} ctokens: {ctokens}\n\n"
        ),
        _ => String::new(),
    }
}
