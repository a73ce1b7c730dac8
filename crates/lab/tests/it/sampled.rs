//! Groups, queues and tins over time: each series adds up to the number that it is of.

use txweir_core::{Nanos, Rate};
use txweir_lab::run::{Options, run, run_for_page};
use txweir_lab::scenario::Scenario;
use txweir_lab::trial::{
    Entry, GateTrial, Opening, PolicyTrial, STEPS, Setup, Traffic, Trial, run as run_trial,
};
use txweir_tc::Policy;

/// Returns a trial of one run of 4 s over 20 Mbit/s.
fn trial(mix: &str, policy: &str) -> Trial {
    let setup =
        Setup { link: Rate::from_bits(20_000_000), time: Nanos::from_secs(4), runs: 1, ..Setup::default() };
    let policy = Some(Policy::parse(policy, "p").expect("a policy"));
    let entry = Entry { name: "p".into(), policy };
    run_trial(&setup, &Traffic::mix(mix).expect("a mix"), &[entry], &mut |_, _| {}).expect("a trial")
}

fn only(trial: &Trial) -> &PolicyTrial {
    &trial.policies[0]
}

/// Rates of single flows add up to that of their group, up to a bit each for rounding; of 128 flows
/// the first 16 have a series.
#[test]
fn flows_add_up_to_their_group() {
    let trial = trial("bulk+rr", "qdisc add root fq_codel");
    let series = &only(&trial).groups[0].series;
    assert_eq!(series.flows_bit_s.len(), 4);
    for (step, whole) in series.throughput_bit_s.iter().enumerate() {
        let sum: u64 = series.flows_bit_s.iter().map(|flow| flow[step]).sum();
        assert!(sum.abs_diff(*whole) <= 4, "step {step}: {sum} against {whole}");
    }
    assert!(only(&trial).groups[1].series.flows_bit_s.is_empty(), "requests have no flows");
    let many = self::trial("many-flows", "qdisc add root fq_codel");
    assert_eq!(only(&many).groups[0].series.flows_bit_s.len(), 16);
}

/// The distribution has the percentiles of the table, and the stages a time in each step.
#[test]
fn distributions_and_delays_are_those_of_the_tables() {
    let trial = trial("bulk+rr", "qdisc add root fq_codel");
    for group in &only(&trial).groups {
        let (latency, percents) = (group.latency.expect("latency"), &group.latency_percents_ns);
        assert_eq!((percents.len(), percents.is_sorted()), (101, true));
        assert_eq!(
            [percents[50], percents[95], percents[99]],
            [latency.p50_ns, latency.p95_ns, latency.p99_ns]
        );
        assert!(percents[100].abs_diff(latency.max_ns) <= latency.max_ns / 500);
    }
    for stage in &only(&trial).stages {
        assert_eq!((stage.series.p50_ns.len(), stage.series.p99_ns.len()), (STEPS as usize, STEPS as usize));
        let longest = stage.series.p99_ns.iter().skip(10).flatten().max().copied().unwrap_or(0);
        assert!(longest <= stage.max_ns && longest >= stage.p95_ns, "{}: {longest}", stage.stage);
    }
}

/// Tins have their names, and count what came into them: all that left, and a little more.
#[test]
fn tins_count_what_came_into_them() {
    let trial = trial("rrul", "qdisc add root cake bandwidth 15mbit diffserv4");
    let cake = &only(&trial).classes[0];
    let names: Vec<&str> = cake.parts.iter().map(|p| p.name).collect();
    assert_eq!(names, ["Bulk", "Best Effort", "Video", "Voice"]);
    let arrived: u64 = cake.parts.iter().map(|p| p.arrived_bytes).sum();
    let drops: u64 = cake.parts.iter().map(|p| p.drops).sum();
    assert_eq!(drops, cake.drops.values().sum::<u64>());
    let lost = drops * 1514;
    assert!(
        arrived.abs_diff(cake.sent_bytes) <= lost + cake.backlog_bytes.max,
        "{arrived}, {}",
        cake.sent_bytes
    );
    let busy = cake.parts.iter().max_by_key(|p| p.arrived_bytes).expect("tins");
    assert_eq!(busy.series.arrived_bit_s.len(), STEPS as usize);
    assert!(
        busy.series.backlog_bytes.iter().any(|n| *n > 0) && busy.series.delay_ns.iter().any(|n| *n > 1000)
    );
    // Series begin at zero, so those of the measured time have nine tenths of the steps.
    let step = trial.step_ns as f64 / 1e9;
    let whole: f64 = busy.series.arrived_bit_s.iter().skip(10).map(|rate| *rate as f64 * step / 8.0).sum();
    assert!((whole - busy.arrived_bytes as f64).abs() < 200.0, "{whole} against {}", busy.arrived_bytes);
}

/// The warm-up of a scenario ends inside a step: a mean of this step is still of all of it.
#[test]
fn measuring_may_begin_inside_a_step() {
    let text = r#"
title = "t"
duration = "10s"
warmup = "1050ms"
seed = 1
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "10mbit"
delay = "5ms"
policy = "qdisc add root pfifo limit 100"
role = "forwarder"
[[traffic]]
name = "flood"
kind = "cbr"
size = "1000"
from = "a"
to = "b"
rate = "20mbit"
"#;
    let scenario = Scenario::parse(text, "t").expect("a scenario");
    let (report, page) = run_for_page(&scenario, Options::default(), |_| {}).expect("a run");
    assert_eq!(
        report,
        run(&scenario, Options::default(), |_| {}).expect("a run"),
        "the page changes nothing"
    );
    assert_eq!(page.ways.len(), 2);
    let backlog = &page.ways[0].classes[0].series.backlog_bytes;
    // The queue is full from the first tenth of a second on.
    let full = backlog[50];
    assert!(full > 90_000, "{full}");
    assert!(backlog[9..].iter().all(|n| n.abs_diff(full) < full / 50), "{backlog:?}");
    assert_eq!(page.policies[0].groups[0].throughput_bit_s, report.traffic[0].throughput_bit_s);
}

/// The page of a taprio has a cycle of its gates, and the frames that were on the line in it: they
/// are all inside the openings of their class.
#[test]
fn a_schedule_is_shown_beside_what_was_sent_by_it() {
    let text = r#"
title = "t"
seed = 1
duration = "1s"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "100mbit"
queues = 2
ring = 1
completion = "immediate"
policy = """
qdisc add root handle 1: taprio num_tc 2 map 0 1 queues 1@0 1@1 clockid CLOCK_TAI base-time 250000 \
  sched-entry S 2 150000 sched-entry S 1 650000 sched-entry S 3 200000
"""
[[traffic]]
name = "fast"
from = "a"
to = "b"
kind = "cbr"
size = "1000"
rate = "40mbit"
[[traffic]]
name = "loop"
from = "a"
to = "b"
kind = "cbr"
size = "250"
rate = "2mbit"
priority = 1
"#;
    let scenario = Scenario::parse(text, "t").expect("a scenario");
    let (_, page) = run_for_page(&scenario, Options::default(), |_| {}).expect("a run");
    assert_eq!(page.ways[1].classes[0].gates, None, "it has no gates");
    let gates = page.ways[0].classes[0].gates.as_ref().expect("gates");
    // The last whole cycle before the end; a cycle begins 250 us after each whole millisecond.
    assert_eq!((gates.begin_ns, gates.cycle_ns, gates.whole), (998_250_000, 1_000_000, true));
    let [bulk, control] = &gates.classes[..] else { panic!("{gates:?}") };
    let openings =
        |gate: &GateTrial| gate.openings.iter().map(|o| [o.from_ns, o.to_ns, o.guard_ns]).collect::<Vec<_>>();
    // A frame of 1000 bytes takes 80 us, one of 250 bytes 20 us. The gate of class 1 stays open
    // from a cycle to the next.
    assert_eq!((bulk.longest_bytes, control.longest_bytes), (1000, 250));
    assert_eq!(openings(bulk), [[150_000, 1_000_000, 80_000]]);
    assert_eq!(openings(control), [[0, 150_000, 20_000], [800_000, 1_000_000, 0]]);
    assert_eq!(bulk.queues, "1@0");
    // 5 frames and 1 frame come in each millisecond.
    assert_eq!((bulk.frames_ns.len(), control.frames_ns.len()), (5, 1), "{gates:?}");
    for gate in [bulk, control] {
        for [from, to] in &gate.frames_ns {
            // The preamble, the checksum and the gap do not count for the guard band.
            let inside = |o: &Opening| o.from_ns <= *from && *to <= o.to_ns + 1920;
            assert!(gate.openings.iter().any(inside), "{from} to {to}: {gate:?}");
        }
    }
}
