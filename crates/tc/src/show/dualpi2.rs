//! dualpi2 as tc prints it (measured with iproute2 7.3): every option, gains as the kernel keeps
//! them, JSON by the kernel's names of its attributes, and counters on lines that begin at the
//! left, with an empty one behind them.

use txweir_core::law::pi2::Gain;
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, Value, Words};

use super::number::{general, time_text};
use super::{Form, Printed, option};
use crate::json::Object;

pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut printed = Vec::new();
    qdisc.options(&mut |o| {
        let word = o.word.unwrap_or(o.param.key).to_string();
        printed.extend(match (o.param.key, o.value.json()) {
            ("memlimit", Json::Uint(n)) => {
                // tc prints a number, not a size.
                Some(known("memory-limit", format!("memlimit {n}B"), Json::Uint(n)))
            }
            ("alpha", Json::Number(digits)) => Some(gain("alpha", &digits)),
            ("beta", Json::Number(digits)) => Some(gain("beta", &digits)),
            ("step_thresh", Json::Text(given)) => Some(step(&given)),
            ("min_qlen_step", Json::Uint(n)) => {
                Some(known("min-qlen-step", format!("min_qlen_step {n}p"), Json::Uint(n)))
            }
            ("coupling_factor", Json::Uint(n)) => {
                Some(known("coupling", format!("coupling_factor {n}"), Json::Uint(n)))
            }
            ("drop_on_overload", json) => Some(choice(
                "drop-overload",
                word,
                if json == Json::Bool(true) { "drop" } else { "overflow" },
            )),
            ("drop_enqueue", _) => Some(choice("drop-early", word.clone(), &word.replace('_', "-"))),
            ("classic_protection", Json::Uint(n)) => {
                Some(known("c-protection", format!("classic_protection {n}%"), Json::Uint(n)))
            }
            ("any_ect", _) => Some(choice("ecn-mask", word.clone(), &word.replace('_', "-"))),
            ("split_gso", json) => {
                let json = (json == Json::Bool(true)).then_some(Json::Null);
                Some(Printed { key: "split-gso", text: Some(word), json })
            }
            _ => option(&o, form),
        });
    });
    printed
}

fn known(key: &'static str, text: String, json: Json) -> Printed {
    Printed { key, text: Some(text), json: Some(json) }
}

fn choice(key: &'static str, text: String, json: &str) -> Printed {
    known(key, text, Json::Text(json.into()))
}

/// Prints a gain as the kernel has rounded it; six places.
fn gain(key: &'static str, digits: &str) -> Printed {
    let kept = Gain::take(&mut Words::new(&[digits])).map_or(0, |gain| gain.kept().0);
    let hz = f64::from(kept) / 256.0;
    known(key, format!("{key} {hz:.6}"), Json::Number(general(hz, 6)))
}

/// Prints the threshold, from its exact words: a number of packets, or nanoseconds.
fn step(given: &str) -> Printed {
    match (given.strip_suffix('p'), given.strip_suffix("ns")) {
        (Some(packets), _) => {
            known("step-thresh-pkts", format!("step_thresh {given}"), Json::Number(packets.into()))
        }
        (_, nanos) => {
            let us = nanos.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1000;
            known("step-thresh-us", format!("step_thresh {}", time_text(us)), Json::Uint(us))
        }
    }
}

/// Returns the counters, each by its key.
fn counters(qdisc: &dyn Qdisc) -> impl Fn(&str) -> u64 {
    let mut all = Vec::new();
    qdisc.counters(&mut |counter, n| all.push((counter.key, n)));
    move |key| all.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n)
}

/// Returns the base probability as a part of one.
fn prob(n: u64) -> f64 {
    n as f64 / f64::from(u32::MAX)
}

/// Returns the credit, and the queue whose turn it is.
fn credit(of: &impl Fn(&str) -> u64) -> (String, &'static str) {
    match (of("credit_c"), of("credit_l")) {
        (0, 0) => ("0".into(), "L-queue"),
        (0, low) => (format!("-{low}"), "L-queue"),
        (classic, _) => (classic.to_string(), "C-queue"),
    }
}

/// Returns the lines of counters.
pub(super) fn counters_text(qdisc: &dyn Qdisc) -> String {
    let of = counters(qdisc);
    let (credit, whose) = credit(&of);
    format!(
        "prob {:.6} delay_c {}us delay_l {}us\n\
         pkts_in_c {} pkts_in_l {} maxq {}\n\
         ecn_mark {} step_mark {}\n\
         credit {credit} ({whose})\n\
         memory_used {} (max {}) of memory limit {}\n\n",
        prob(of("prob")),
        of("delay_c"),
        of("delay_l"),
        of("pkts_in_c"),
        of("pkts_in_l"),
        of("maxq"),
        of("ecn_mark"),
        of("step_marks"),
        of("memory_used"),
        of("max_memory_used"),
        of("memory_limit"),
    )
}

/// Adds the counters as JSON.
pub(super) fn counters_json(o: Object, qdisc: &dyn Qdisc) -> Object {
    let of = counters(qdisc);
    let o = o.raw("prob", &general(prob(of("prob")), 6));
    let first = ["delay_c", "delay_l", "pkts_in_c", "pkts_in_l", "maxq", "ecn_mark"];
    let o = first.into_iter().fold(o, |o, key| o.uint(&key.replace('_', "-"), of(key)));
    let o = o.uint("step-mark", of("step_marks")).raw("credit", &credit(&of).0);
    let last = ["memory_used", "max_memory_used", "memory_limit"];
    last.into_iter().fold(o, |o, key| o.uint(&key.replace('_', "-"), of(key)))
}
