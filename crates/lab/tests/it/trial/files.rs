//! Scenario files as the traffic of a trial.

use txweir_core::Nanos;
use txweir_lab::fidelity::Range;
use txweir_lab::flent::Line;
use txweir_lab::trial::{Setup, Traffic};

use super::{five, measure, replay, trial, uplink};
/// Returns a table of traffic of a scenario.
pub(super) fn traffic(name: &str, from: &str, to: &str, kind: &str) -> String {
    let bytes = if kind == "rr" { "request = '100'\nresponse = '100'\n" } else { "" };
    format!("[[traffic]]\nname = '{name}'\nfrom = '{from}'\nto = '{to}'\nkind = '{kind}'\n{bytes}")
}

/// A group of a file may have a TCP of its own, of which the set-up's recordings say nothing.
#[test]
fn a_tcp_of_a_groups_own_is_named_and_outside() {
    let setup = Setup { runs: 1, ..five() };
    let tried = |congestion: &str| {
        let text = traffic("s", "a", "far", "stream") + &format!("congestion = '{congestion}'\n");
        trial(&setup, &replay(text.as_bytes(), &setup), &[("default", "")])
    };
    let (same, other) = (tried("cubic"), tried("bbr"));
    assert_eq!(same.tcp, "CUBIC as in Linux 6.12, ECN off");
    assert_eq!(other.tcp, "CUBIC as in Linux 6.12, ECN off; groups with a TCP of their own keep it");
    let [same, other] = [same, other].map(|t| t.fidelity.expect("TCP"));
    let reason = "a group of the traffic has a TCP of its own";
    assert_eq!((other.range, other.reasons.last().map(String::as_str)), (Range::Outside, Some(reason)));
    assert_eq!(same.reasons, other.reasons[..other.reasons.len() - 1]);
}

/// The first sentence is about a group that waits for answers, whatever stands before it.
#[test]
fn the_sentence_is_about_who_waits_for_answers() {
    let setup = Setup { runs: 1, ..five() };
    for kind in ["rr", "udprr"] {
        let text = traffic("call", "a", "far", "voice") + &traffic("asks", "a", "far", kind);
        let t = trial(&setup, &replay(text.as_bytes(), &setup), &[("default", "")]);
        assert!(t.verdict[0].starts_with("asks p99: "), "{kind}: {:?}", t.verdict);
    }
}

/// Groups of one name are told apart by their hosts: each has numbers of its own.
#[test]
fn groups_of_one_name_are_told_apart() {
    let setup = Setup { runs: 1, ..five() };
    let text = traffic("bulk", "a", "far", "stream") + &traffic("bulk", "b", "far", "stream");
    let text = text + "start = '500ms'\n" + &traffic("other", "a", "far", "rr");
    let mut t = trial(&setup, &replay(text.as_bytes(), &setup), &[("fq", "qdisc add root fq_codel")]);
    let policy = &t.policies[0];
    let names: Vec<&str> = policy.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["bulk a -> far", "bulk b -> far", "other"]);
    let rate = |name: &str| measure(policy, name, "throughput_bit_s").median.expect("a rate");
    let (first, second) = (rate(names[0]), rate(names[1]));
    assert!(first > second && second > 0.0, "{first} {second}");
    // Beside a real line stands the sum of both, and not one of them twice.
    let line = r#"{"metadata": {}, "x_values": [1, 2], "results": {"TCP upload": [3, 3]}}"#;
    t.set_lines(vec![Line::read(line.as_bytes(), "line").expect("a line")]);
    assert_eq!(t.beside[0].policies, [Some(first + second)]);
}

#[test]
fn a_scenarios_hosts_lie_on_two_sides() {
    let group = |from: &str, to: &str| traffic(from, from, to, "stream");
    let setup = Setup { time: Nanos::from_secs(2), ..uplink() };
    let text = group("laptop", "server") + &group("server", "phone");
    let t = trial(&setup, &replay(text.as_bytes(), &setup), &[("fq", "qdisc add root fq_codel")]);
    assert_eq!(t.about, "the traffic of capture; before the bottleneck: laptop, phone");
    let rates: Vec<u64> = t.policies[0].groups.iter().map(|g| g.throughput_bit_s).collect();
    // The download comes over the wide way.
    assert!(rates[0] < 20_000_000 && rates[1] > 100_000_000, "{rates:?}");
    let wrong = text.clone() + &group("laptop", "phone");
    let e = Traffic::file(wrong.as_bytes(), "w.toml", setup.time, 1).expect_err("one side");
    let said = format!("{e:?}");
    assert!(
        said.contains("expected a host beyond the bottleneck from laptop, given \\\"phone\\\""),
        "{said}"
    );
    assert!(Traffic::file(b"title = 'x'", "w.toml", setup.time, 1).is_err());
    assert!(Traffic::file(b"\xff\xfe", "w.toml", setup.time, 1).is_err());
}
