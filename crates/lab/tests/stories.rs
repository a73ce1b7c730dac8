//! The scenarios of the repository give the tables beside them, to the last digit. After a change that is meant to
//! change them: `TXWEIR_EXPECTED=write cargo test -p txweir-lab --test stories`, and look at the difference.

mod common;

use std::fs;
use std::path::Path;

use txweir_lab::run::{Options, run};
use txweir_lab::scenario::Scenario;

#[track_caller]
fn story(name: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = fs::read_to_string(dir.join(format!("{name}.toml"))).unwrap();
    let scenario = Scenario::parse(&text, name).unwrap_or_else(|e| panic!("{e}"));
    let got = run(&scenario, Options::default(), |_| {}).unwrap().to_string();
    for line in got.lines() {
        assert!(line.chars().count() <= 100, "wider than a terminal: {line}");
    }
    let beside = dir.join(format!("{name}.expected"));
    if std::env::var_os("TXWEIR_EXPECTED").is_some_and(|v| v == "write") {
        fs::write(&beside, &got).unwrap();
    }
    let expected = fs::read_to_string(&beside).unwrap_or_default();
    assert!(got == expected, "{name} gives\n{got}\nand not\n{expected}");
}

#[test]
fn first() {
    story("first");
}

#[test]
fn home_uplink() {
    story("home-uplink");
}

#[test]
fn lossy() {
    story("lossy");
}

/// What the comments of the stories promise.
#[test]
fn the_stories_show_what_they_say() {
    let text = include_str!("../../../scenarios/first.toml");
    let first = common::report(text);
    let changed = text.replace("policy = \"qdisc add root pfifo_fast\"\n# policy", "policy");
    assert_ne!(changed, text);
    let fair = common::report(&changed);
    let wait = |r: &txweir_lab::report::Report| r.traffic[1].latency.unwrap().p50_ns;
    assert!(wait(&first) > 20 * wait(&fair), "{} {}", wait(&first), wait(&fair));
    common::close(fair.traffic[0].throughput_bit_s as f64, first.traffic[0].throughput_bit_s as f64, 3.0);

    let text = include_str!("../../../scenarios/home-uplink.toml");
    let home = common::report(text);
    let unmanaged = common::report(
        &text.replace("\nqdisc add root handle 1: tbf", "\n# ").replace("\nqdisc add parent", "\n#"),
    );
    let call = |r: &txweir_lab::report::Report| r.traffic[2].delay.unwrap().p95_ns;
    assert!(call(&unmanaged) > 10 * call(&home), "{} {}", call(&unmanaged), call(&home));
    assert!(call(&home) < 16 * common::MS);
    assert_eq!(unmanaged.queues[4].qdisc, "pfifo_fast");
}
