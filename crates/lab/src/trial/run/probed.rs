//! A probe sees a run and does not change it: every figure that a run has without one is the same
//! with it.

use std::collections::BTreeMap;

use txweir_core::Rate;
use txweir_tc::Policy;

use super::*;
use crate::trial::ALGORITHMS;

/// Policies that between them dispatch directly, shape, drop for every AQM's reasons, and mark.
const POLICIES: [&str; 12] = [
    "",
    "qdisc add root pfifo limit 30",
    "qdisc add root fq_codel",
    "qdisc add root fq",
    "qdisc add root cake bandwidth 10mbit",
    "qdisc add root pie ecn limit 200",
    "qdisc add root sfq",
    "qdisc add root netem delay 3ms loss 1%",
    "qdisc add root handle 1: red limit 100kb avpkt 1000 ecn",
    "qdisc add root handle 1: tbf rate 10mbit burst 5kb limit 100kb\nqdisc add parent 1:1 codel ecn",
    "qdisc add root handle 1: prio\nqdisc add parent 1:1 handle 10: pfifo limit 20\n\
     qdisc add parent 1:2 handle 20: tbf rate 8mbit burst 5kb limit 60kb\nqdisc add parent 20:1 handle 21: fq_codel",
    "qdisc add root handle 1: htb default 2\nclass add parent 1: classid 1:2 htb rate 6mbit ceil 18mbit\n\
     qdisc add parent 1:2 dualpi2",
];

/// Policies of a device of four queues.
const OF_QUEUES: [&str; 5] = [
    "",
    "qdisc add root fq_codel",
    "qdisc add root handle 1: mq\nqdisc add parent 1:1 fq_codel\nqdisc add parent 1:2 pfifo limit 5\n\
     qdisc add parent 1:3 handle 30: prio\nqdisc add parent 30:2 codel ecn",
    "qdisc add root handle 1: mqprio num_tc 2 map 0 0 0 0 1 1 1 queues 2@0 2@2 hw 1\nqdisc add parent 1:1 fq_codel",
    "qdisc add root handle 1: multiq\nqdisc add parent 1:2 fq_codel",
];

/// The result of a run with or without a probe, and how many packets went to the device directly.
fn told(setup: &Setup, traffic: &Traffic, entry: &Entry, probe: bool) -> (PolicyTrial, u64) {
    let clock = Clock::new(setup, traffic);
    let mut net = build(setup, traffic, entry).unwrap_or_else(|e| panic!("{e}"));
    if probe {
        watch(&mut net);
    }
    let told = measured(&mut net, setup, &clock, entry, &Stop::default(), &mut |_| {});
    assert_eq!((told.classes.is_empty(), told.stages.is_empty()), (!probe, !probe));
    (told, net.links().nic(TRIED).measured().direct)
}

/// Runs it with and without a probe, and compares; gives the packets that went directly, drops and
/// marks.
fn alike(setup: &Setup, traffic: &Traffic, policy: &str) -> [u64; 3] {
    let parsed = (!policy.is_empty()).then(|| Policy::parse(policy, "p").unwrap_or_else(|e| panic!("{e}")));
    let entry = Entry { name: "p".into(), policy: parsed };
    let (without, direct) = told(setup, traffic, &entry, false);
    let (with, direct_with) = told(setup, traffic, &entry, true);
    assert_eq!(direct, direct_with, "{policy}");
    // The drops and marks of the qdiscs themselves are together those that the path counted.
    let mut sums = [BTreeMap::new(), BTreeMap::new()];
    for class in &with.classes {
        for (sum, counts) in sums.iter_mut().zip([&class.drops, &class.marks]) {
            counts.iter().for_each(|(name, n)| *sum.entry(*name).or_insert(0) += n);
        }
    }
    assert_eq!(sums, [with.drops.clone(), with.marks.clone()], "{policy}");
    let met = [direct, with.drops.values().sum(), with.marks.values().sum()];
    assert_eq!(PolicyTrial { classes: Vec::new(), stages: Vec::new(), ..with }, without, "{policy}");
    met
}

#[test]
fn a_probe_changes_no_figure() {
    let cubic = ALGORITHMS.iter().find(|a| a.name == "cubic").expect("cubic");
    let slow =
        Setup { link: Rate::from_bits(20_000_000), time: Nanos::from_millis(1500), ..Setup::default() };
    let setups = [
        slow,
        Setup { congestion: cubic, ecn: true, bql: false, ring: 64, ..slow },
        Setup { link: Rate::from_bits(1_000_000_000), time: Nanos::from_millis(300), ..slow },
    ];
    let (mut all, mut marked_below) = ([0; 3], 0);
    let policies = POLICIES.map(|policy| (1, policy)).into_iter().chain(OF_QUEUES.map(|policy| (4, policy)));
    for (queues, policy) in policies {
        for (setup, mix) in setups.iter().zip(["rrul", "bulk+rr", "rrul"]) {
            let setup = Setup { queues, ..*setup };
            let met = alike(&setup, &Traffic::mix(mix).expect("a mix"), policy);
            all = std::array::from_fn(|i| all[i] + met[i]);
            marked_below += u64::from(met[2] > 0);
        }
    }
    let [direct, drops, marks] = all;
    assert!(direct > 1000 && drops > 1000 && marks > 100 && marked_below > 3, "{all:?}, {marked_below}");
}
