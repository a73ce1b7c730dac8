//! gred as tc prints it: the words of the qdisc, and lines for each virtual queue, with its
//! counters among the options.

use std::fmt::Write;

use txweir_core::Bytes;
use txweir_core::base::chance::Probability;
use txweir_core::qdisc::gred::{Config, Flags, QueueConfig, QueueStats, config_of};
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::stats::Counters as _;
use txweir_core::text::value::{Json, exact_of, text_of};

use super::number::probability;
use super::red::derived;
use super::{Form, Printed};

/// The words of RED for marks and drops, in the order of tc; gred has two of them.
fn words(flags: Flags) -> [(&'static str, bool); 4] {
    [("ecn", flags.ecn), ("harddrop", flags.harddrop), ("adaptive", false), ("nodrop", false)]
}

fn size(bytes: u64) -> String {
    text_of(&Bytes(bytes))
}

/// Returns the options, and with `-s` the counters of the virtual queues.
pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let Some(cfg) = config_of(qdisc) else { return Vec::new() };
    let number = |key, name: &str, n: u8| Printed {
        key,
        text: Some(format!("{name} {n}")),
        json: Some(Json::Uint(n.into())),
    };
    let flag = |(key, on): (&'static str, bool)| Printed {
        key,
        text: on.then(|| key.to_string()),
        json: Some(Json::Bool(on)),
    };
    let mut printed = vec![
        number("dp_cnt", "vqs", cfg.vqs),
        number("dp_default", "default", cfg.default),
        flag(("grio", cfg.grio)),
        Printed::new("limit", &Bytes(cfg.limit.into())),
    ];
    printed.extend(words(cfg.flags).map(flag));
    let (texts, objects): (Vec<_>, Vec<_>) = queues(qdisc, cfg, form).into_iter().unzip();
    let text = Some(texts.join(" ")).filter(|text| !text.is_empty());
    printed.push(Printed { key: "vqs", text, json: Some(Json::Objects(objects)) });
    printed
}

/// The lines of a virtual queue, each but the last with the blank that ends it, and its object.
type Lines = (String, Vec<(&'static str, Json)>);

fn queues(qdisc: &dyn Qdisc, cfg: &Config, form: &Form) -> Vec<Lines> {
    let mut counted: Vec<(&str, &str, u64)> = Vec::new();
    qdisc.parts(&mut |name, counter, n| counted.push((name, counter.key, n)));
    let lines = |(number, queue): &(u8, QueueConfig)| {
        let (mut text, mut object) = parameters(*number, queue, form);
        if form.statistics {
            let name = number.to_string();
            let of = |key: &str| {
                counted.iter().find(|(n, k, _)| *n == name && *k == key).map_or(0, |(_, _, n)| *n)
            };
            counters(&mut text, &of);
            object.extend(QueueStats::TABLE.iter().map(|counter| (counter.key, Json::Uint(of(counter.key)))));
        }
        (text, object)
    };
    cfg.queues.iter().map(lines).collect()
}

fn parameters(number: u8, queue: &QueueConfig, form: &Form) -> Lines {
    let QueueConfig { limit, min, max, prio, flags, .. } = queue;
    let mut text = format!("\n vq {number} prio {prio}");
    let mut object = vec![("vq", Json::Uint(number.into())), ("prio", Json::Uint((*prio).into()))];
    for (key, bytes) in [("limit", limit), ("min", min), ("max", max)] {
        // Writing into a String cannot fail.
        let _ = write!(text, " {key} {}", size((*bytes).into()));
        object.push((key, Json::Uint((*bytes).into())));
    }
    for (word, on) in words(*flags) {
        if on {
            let _ = write!(text, " {word}");
        }
        object.push((word, Json::Bool(on)));
    }
    if form.details {
        let (wlog, cell_log) = derived(*min, queue.burst, queue.avpkt, queue.bandwidth);
        let Probability(parts) = queue.probability;
        let chance = probability(exact_of(&Probability(parts)).parse().unwrap_or(0.0));
        let _ = write!(text, " ewma {wlog} probability {chance} Scell_log {cell_log}");
        object.push(("ewma", Json::Uint(wlog.into())));
        object.push(("probability", Json::Number(chance)));
        object.push(("Scell_log", Json::Uint(cell_log.into())));
    }
    (text, object)
}

fn counters(text: &mut String, of: &dyn Fn(&str) -> u64) {
    let (average, current) = (size(of("qave")), size(of("backlog")));
    let _ = write!(text, " \n  Queue size: average {average} current {current} ");
    let [forced, early, full, other] = ["forced_drop", "prob_drop", "pdrop", "other"].map(of);
    let _ = write!(text, "\n  Dropped packets: forced {forced} early {early} pdrop {full} other {other} ");
    let _ = write!(text, "\n  Marked packets: forced {} early {} ", of("forced_mark"), of("prob_mark"));
    let _ = write!(text, "\n  Total packets: {} ({})", of("packets"), size(of("bytes")));
}
