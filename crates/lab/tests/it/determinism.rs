//! The same scenario and seed give the same event log, byte for byte; another seed gives another
//! one.

use txweir_lab::run::{Options, run};
use txweir_lab::scenario::Scenario;

use crate::common::{self, Log, two_hosts};

/// Returns the event log and the report of a run.
fn log(s: &Scenario, seed: u64) -> (Vec<u8>, String) {
    let log = Log::default();
    let options = Options { seed: Some(seed), log: Some(Box::new(log.clone())), ..Options::default() };
    let report = run(s, options, |_| {}).unwrap();
    (log.0.take(), report.json())
}

#[track_caller]
fn deterministic(s: &Scenario) {
    let (first, again, other) = (log(s, 1), log(s, 1), log(s, 2));
    assert!(first.0.len() > 32 * 5_000 && first.0.len() % 32 == 0, "{} bytes", first.0.len());
    assert!(first.0 == again.0, "two runs with one seed have different logs");
    assert_eq!(first.1, again.1);
    assert!(first.0 != other.0, "two seeds have one log");
}

fn story(text: &str) -> Scenario {
    let short = [("duration", "\"3s\""), ("warmup", "\"1s\"")];
    Scenario::parse_with(text, "story.toml", &short).unwrap()
}

#[test]
fn first() {
    deterministic(&story(include_str!("../../../../scenarios/first.toml")));
}

#[test]
fn home_uplink_with_a_router() {
    deterministic(&story(include_str!("../../../../scenarios/home-uplink.toml")));
}

#[test]
fn classes_of_rings_that_the_device_schedules() {
    deterministic(&story(include_str!("../../../../scenarios/mqprio.toml")));
}

#[test]
fn lossy_with_jitter_and_reordering() {
    deterministic(&story(include_str!("../../../../scenarios/lossy.toml")));
}

#[test]
fn tso_without_bql_with_fractions_of_descriptors_and_a_late_handler() {
    let link = "rate = '1gbit'\nring = 256\nbql = false\ndescriptors = [[60, 1.7], [65226, 21.5]]\n\
                completion = '64p/100us'\nhandler_latency = '1us'\nhandler_latency_max = '30us'\ndoorbell = '300ns'";
    let traffic = "[[traffic]]\nname = 's'\nfrom = 'a'\nto = 'b'\nkind = 'stream'\ncount = 20\n\
                   [[traffic]]\nname = 'r'\nfrom = 'a'\nto = 'b'\nkind = 'rr'\nsize = '1'\npriority = 6";
    let text = two_hosts("duration = '200ms'", "tso = '65226'", link, traffic);
    deterministic(&common::scenario(&text));
}

/// Observation does not change a run: with a log and captures or without, the report is the same.
#[test]
fn observing_changes_nothing() {
    let s = story(include_str!("../../../../scenarios/lossy.toml"));
    let dir = std::env::temp_dir().join(format!("txweir-observe-{}", std::process::id()));
    let options = Options { pcap_dir: Some(dir.clone()), ..Options::default() };
    let seen = run(&s, options, |_| {}).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(seen, run(&s, Options::default(), |_| {}).unwrap());
    assert_eq!(seen.json(), log(&s, s.seed()).1);
}

#[test]
fn progress_is_told_every_tenth_of_a_simulated_second() {
    let mut told = Vec::new();
    let s = story(include_str!("../../../../scenarios/first.toml"));
    run(&s, Options::default(), |now| told.push(now.0)).unwrap();
    assert_eq!(told, (1..=30).map(|n| n * 100 * common::MS).collect::<Vec<_>>());
}
