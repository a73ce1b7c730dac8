//! Rates that qdiscs share by name (`tbf ... shared NAME`), in nets and trials.

use std::fs;
use std::path::Path;

use txweir_core::Rate;
use txweir_lab::Nanos;
use txweir_lab::report::Report;
use txweir_lab::run::{Options, run};
use txweir_lab::scenario::Scenario;
use txweir_lab::trial::{self, Entry, Setup, Traffic};
use txweir_tc::Policy;

fn text() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/shared.toml");
    fs::read_to_string(file).unwrap()
}

fn report(text: &str) -> Report {
    let scenario = Scenario::parse(text, "t").unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, Options::default(), |_| {}).unwrap()
}

/// Returns the rate on the lines of both devices towards the providers, bit/s.
fn together(r: &Report) -> u64 {
    let out = r.links.iter().filter(|l| l.from == "router");
    out.map(|l| l.tx_bytes * 8).sum::<u64>() * 1_000_000_000 / r.measured_ns
}

#[test]
fn two_devices_have_one_rate() {
    let shared = report(&text());
    let alone = report(&text().replace(" shared contract", ""));
    assert!((7_900_000..=8_050_000).contains(&together(&shared)), "{}", together(&shared));
    assert!(together(&alone) > 15_500_000, "{}", together(&alone));
    for group in &shared.traffic {
        assert!(group.throughput_bit_s > 2_000_000, "{} {}", group.name, group.throughput_bit_s);
    }
    // A device that sends alone has the whole rate.
    let one = report(&text().replace("start = \"3s\"", "start = \"7999ms\""));
    assert!(together(&one) > 7_800_000, "{}", together(&one));
}

#[test]
fn devices_that_do_not_agree_are_refused_at_the_line() {
    let text = text().replacen("8mbit burst 20kb", "6mbit burst 20kb", 1);
    let err = Scenario::parse(&text, "t").unwrap_err();
    assert_eq!(err.message, "qdisc 8001: cannot share: it has rate 8Mbit and a bucket of 20480 bytes");
    assert_eq!(err.hint.as_deref(), Some("change all of them in one step, or take another name"));
    assert_eq!(err.place().0, 39);
}

/// Two shapers of one device share a rate.
#[test]
fn classes_of_a_trial_share_a_rate() {
    let classes = |shared: &str| {
        let tbf = format!("tbf rate 2mbit burst 10kb latency 50ms {shared}");
        let text = format!(
            "qdisc add root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
             qdisc add parent 1:1 handle 10: {tbf}
             qdisc add parent 1:2 handle 20: {tbf}
             filter add parent 1: protocol ip u32 match ip dport 2000 0xfffd classid 1:1"
        );
        Entry { name: "p".into(), policy: Some(Policy::parse(&text, "p").unwrap_or_else(|e| panic!("{e}"))) }
    };
    let setup = Setup { link: Rate::from_bits(10_000_000), time: Nanos::from_secs(4), ..Setup::default() };
    let sent = |entry: Entry| {
        let trial = trial::run(&setup, &Traffic::mix("bulk+rr").unwrap(), &[entry], &mut |_, _| {});
        let trial = trial.unwrap_or_else(|e| panic!("{e}"));
        trial.policies[0].classes[0].throughput_bit_s
    };
    let [shared, alone] = [sent(classes("shared x")), sent(classes(""))];
    // TCP behind such a short queue does not use the whole rate.
    assert!((1_400_000..=2_050_000).contains(&shared), "{shared}");
    assert!(alone > 2_500_000, "{alone}");
}
