//! Trials: reproducible, and true to physics.

mod captures;
mod files;

use std::num::NonZeroUsize;
use std::sync::Mutex;

use txweir_core::{Nanos, Rate};
use txweir_lab::fidelity::Range;
use txweir_lab::trial::{
    Algorithm, Entry, GroupTrial, MIXES, Mark, Measure, PolicyTrial, Resources, Setup, Traffic, Trial,
    TrialError, run, run_with,
};
use txweir_tc::Policy;

use crate::common;
use captures::pcap;
use files::traffic;

const MS: u64 = common::MS;

/// Returns a home uplink, for a short while, with one run.
fn uplink() -> Setup {
    Setup { link: Rate::from_bits(20_000_000), time: Nanos::from_secs(5), runs: 1, ..Setup::default() }
}

/// Returns the same for a second, with five runs.
fn five() -> Setup {
    Setup { time: Nanos::from_secs(1), runs: 5, ..uplink() }
}

fn entry(name: &str, text: &str) -> Entry {
    let policy = (!text.is_empty()).then(|| Policy::parse(text, name).unwrap_or_else(|e| panic!("{e}")));
    Entry { name: name.into(), policy }
}

fn trial(setup: &Setup, traffic: &Traffic, policies: &[(&str, &str)]) -> Trial {
    let entries: Vec<Entry> = policies.iter().map(|(name, text)| entry(name, text)).collect();
    run(setup, traffic, &entries, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

fn mix(name: &str) -> Traffic {
    Traffic::mix(name).expect("a mix")
}

fn group<'a>(p: &'a PolicyTrial, name: &str) -> &'a GroupTrial {
    p.groups.iter().find(|g| g.name == name).expect("a group")
}

fn measure<'a>(p: &'a PolicyTrial, group: &str, name: &str) -> &'a Measure {
    let group = (!group.is_empty()).then_some(group);
    let found = p.measures.iter().find(|m| m.group.as_deref() == group && m.measure == name);
    found.unwrap_or_else(|| panic!("{group:?} {name}"))
}

fn p99(p: &PolicyTrial, name: &str) -> u64 {
    group(p, name).latency.expect("latency").p99_ns
}

fn replay(bytes: &[u8], setup: &Setup) -> Traffic {
    Traffic::file(bytes, "capture", setup.time, setup.seed).unwrap_or_else(|e| panic!("{e:?}"))
}

const CLASSES: &str = "qdisc add root handle 1: prio\nqdisc add parent 1:1 handle 10: pfifo limit 20\n\
                       qdisc add parent 1:2 handle 20: tbf rate 8mbit burst 5kb limit 60kb\n\
                       qdisc add parent 20:1 handle 21: fq_codel";

#[test]
fn the_same_seed_gives_the_same_json() {
    let setup = Setup { time: Nanos::from_secs(1), ..uplink() };
    let json = |seed| trial(&Setup { seed, ..setup }, &mix("rrul"), &[("a", ""), ("b", CLASSES)]).to_json();
    assert_eq!(json(7), json(7));
    assert_ne!(json(7), json(8));
}

/// Each run of many equals the run of its own seed alone, whatever ran before it and beside it.
#[test]
fn runs_are_those_of_their_seeds() {
    let policies = [("default", ""), ("fq", "qdisc add root fq_codel")];
    let t = trial(&Setup { seed: 40, ..five() }, &mix("bulk+rr"), &policies);
    assert_eq!((t.seed, t.interval.runs, t.interval.low_rank, t.interval.high_rank), (40, 5, 1, 5));
    for (i, seed) in (40..45).enumerate() {
        let alone = trial(&Setup { seed, runs: 1, ..five() }, &mix("bulk+rr"), &policies);
        for (p, alone) in t.policies.iter().zip(&alone.policies) {
            let value = |group, name| measure(p, group, name).runs[i];
            assert_eq!(value("rr", "latency_p99_ns"), Some(p99(alone, "rr") as f64));
            assert_eq!(value("bulk", "throughput_bit_s"), Some(group(alone, "bulk").throughput_bit_s as f64));
            assert_eq!(value("bulk", "jain"), Some(group(alone, "bulk").jain));
            assert_eq!(value("", "dropped_packets"), Some(alone.drops.values().sum::<u64>() as f64));
            assert_eq!(value("", "qdisc_bytes_mean"), Some(alone.classes[0].backlog_bytes.mean as f64));
            if p.shown_seed == seed {
                // The trial shows one run whole; only its measures cover all runs.
                let shown = PolicyTrial { measures: alone.measures.clone(), ..p.clone() };
                assert_eq!(&shown, alone);
            }
        }
    }
}

/// The shown run has the middle one of the goodputs; the measures follow from their runs.
#[test]
fn medians_and_ends_are_those_of_the_runs() {
    let long = Setup { time: Nanos::from_secs(4), ..five() };
    // One queue for all: strict bands would starve the lowest streams.
    let policies = [("fifo", "qdisc add root pfifo limit 200"), ("fq", "qdisc add root fq_codel")];
    let t = trial(&long, &mix("rrul"), &policies);
    for p in &t.policies {
        let total = |i: usize| -> f64 {
            let of = |g: &GroupTrial| match g.kind {
                // The measures have no throughput of transactions: a request and a response have 64
                // bytes each.
                "rr" => measure(p, &g.name, "transactions_per_s").runs[i].expect("a value") * 1024.0,
                _ => measure(p, &g.name, "throughput_bit_s").runs[i].expect("a value"),
            };
            p.groups.iter().map(of).sum()
        };
        let shown = total((p.shown_seed - t.seed) as usize);
        let below = (0..5).filter(|i| total(*i) < shown).count();
        let above = (0..5).filter(|i| total(*i) > shown).count();
        assert!(below <= 2 && above <= 2, "{} {below} {above}", p.name);
        for m in &p.measures {
            let mut all: Vec<f64> =
                m.runs.iter().map(|v| v.unwrap_or_else(|| panic!("{:?} {}", m.group, m.measure))).collect();
            all.sort_by(f64::total_cmp);
            assert_eq!(
                (m.low, m.median, m.high),
                (Some(all[0]), Some(all[2]), Some(all[4])),
                "{}",
                m.measure
            );
        }
    }
    let varied = t.policies.iter().flat_map(|p| &p.measures).filter(|m| m.low != m.high).count();
    assert!(varied > 10, "{varied}: seeds make a difference");
}

#[test]
fn threads_do_not_change_a_byte() {
    let entries = [entry("default", ""), entry("fq", "qdisc add root fq_codel"), entry("classes", CLASSES)];
    let frames = (0..300).map(|i| (5_000_000_000 + i * 200_000, 0, 1000));
    for traffic in [mix("rrul"), mix("web"), replay(&pcap(frames), &five())] {
        let outputs = [1, 2, 5].map(|threads| {
            let threads = NonZeroUsize::new(threads).expect("threads");
            let resources = Resources { threads, ..Resources::default() };
            let over = Mutex::new(Vec::new());
            let t = run_with(&resources, &five(), &traffic, &entries, &mut |now, whole| {
                over.lock().expect("one thread").push((now.0, whole.0));
            });
            let t = t.unwrap_or_else(|e| panic!("{e}"));
            let over = over.into_inner().expect("one thread");
            // 3 policies, 5 runs, 100 steps.
            assert!(over.is_sorted() && over.len() == 1500, "{}", over.len());
            assert_eq!(over.last(), Some(&(t.time_ns * 15, t.time_ns * 15)));
            (t.to_string(), t.to_json(), txweir_lab::trial::html(&t.to_json()))
        });
        assert!(outputs[0] == outputs[1] && outputs[0] == outputs[2]);
    }
}

#[test]
fn a_star_is_for_what_runs_tell_apart() {
    let fifo = "qdisc add root pfifo limit 1000";
    let policies = [("fifo", fifo), ("fq", "qdisc add root fq_codel"), ("again", "qdisc add root fq_codel")];
    let marks =
        |t: &Trial, group, name| t.policies.iter().map(|p| measure(p, group, name).mark).collect::<Vec<_>>();
    let long = Setup { time: Nanos::from_secs(4), ..five() };
    let two = trial(&long, &mix("bulk+rr"), &policies[..2]);
    assert_eq!(marks(&two, "rr", "latency_p99_ns"), [None, Some(Mark::Best)]);
    assert_eq!(marks(&two, "", "dropped_packets"), [None, None]);
    // The same policy twice is never better than itself.
    let three = trial(&long, &mix("bulk+rr"), &policies);
    assert_eq!(marks(&three, "rr", "latency_p99_ns"), [None, Some(Mark::Equal), Some(Mark::Equal)]);
    let alike = trial(&five(), &mix("bulk+rr"), &policies[1..]);
    assert!(alike.policies.iter().flat_map(|p| &p.measures).all(|m| m.mark.is_none()));
    let said = |t: &Trial| t.verdict.join("\n");
    assert!(said(&two).ends_with("times lower"), "{}", said(&two));
    assert!(said(&alike).ends_with(": not told apart by 5 runs each"), "{}", said(&alike));
    // Fewer than four runs have intervals and no marks, one run has neither.
    for runs in [1, 3] {
        let few = trial(&Setup { runs, ..five() }, &mix("bulk+rr"), &policies[..2]);
        assert!(few.policies.iter().flat_map(|p| &p.measures).all(|m| m.mark.is_none()));
        let text = few.to_string();
        assert!(!text.contains('*') && text.contains("to tell them apart"), "{text}");
        assert_eq!(text.contains("no marks: 4 runs at least tell policies apart"), runs == 3);
        assert_eq!(text.contains("one run of each policy, seed 1: no intervals"), runs == 1);
    }
}

/// A strict priority that is always busy starves the others.
#[test]
fn who_is_starved_is_named() {
    let policy = "qdisc add root handle 1: prio\nfilter add parent 1: protocol ip u32 match ip protocol 6 0xff classid \
                  1:1\nfilter add parent 1: protocol ip u32 match ip protocol 17 0xff classid 1:3";
    let traffic = "[[traffic]]\nname = 'bulk'\nfrom = 'a'\nto = 'b'\nkind = 'stream'\ncount = 4\n\
                   [[traffic]]\nname = 'call'\nfrom = 'a'\nto = 'b'\nkind = 'cbr'\nsize = '200'\nrate = '80kbit'\n";
    // A second of which the first tenth is slow start; the way is so short that the line never
    // idles after it.
    let setup = Setup { rtt: Nanos::from_millis(1), ..five() };
    let t = trial(
        &setup,
        &replay(traffic.as_bytes(), &setup),
        &[("prio", policy), ("fq", "qdisc add root fq_codel")],
    );
    assert_eq!(t.verdict.last().map(String::as_str), Some("starved with prio: call"), "{:?}", t.verdict);
    let none = measure(&t.policies[0], "call", "latency_p99_ns");
    assert_eq!((none.median, none.runs.as_slice()), (None, &[None; 5][..]));
    let text = t.to_string();
    let line = text.lines().find(|l| l.starts_with("     one way p99")).expect("a line");
    assert_eq!(line.split_whitespace().nth(3), Some("-"), "{text}");
}

#[test]
fn the_transport_and_what_is_known_of_it_stand_above_the_numbers() {
    let reno = Algorithm::named("reno").expect("an algorithm");
    // The run has losses, at which the algorithms differ.
    let setup = Setup { time: Nanos::from_secs(3), ..five() };
    let fq = [("fq", "qdisc add root fq_codel")];
    let t = trial(&Setup { congestion: reno, ..setup }, &mix("bulk+rr"), &fq);
    let lines: Vec<String> = t.to_string().lines().skip(2).take(2).map(String::from).collect();
    let fidelity = t.fidelity.clone().expect("TCP");
    let tcp = "TCP: Reno as in Linux 6.12, ECN off";
    assert_eq!(lines[0], tcp);
    assert!(lines[1].starts_with("held against Linux's TCP: "), "{lines:?}");
    assert!(fidelity.to_string().starts_with(&lines[1]["held against Linux's TCP: ".len()..]), "{lines:?}");
    assert_ne!(fidelity.range, Range::Unreadable);
    let cubic = trial(&setup, &mix("bulk+rr"), &fq);
    assert_eq!((t.congestion, cubic.congestion, t.ecn), ("reno", "cubic", false));
    assert_ne!(t.policies[0].measures, cubic.policies[0].measures, "the algorithm makes a difference");
    // A trial with a capture has no TCP to describe.
    let file = pcap((0..10).map(|i| (i * MS, 0, 1000)));
    let t = trial(&five(), &replay(&file, &five()), &[("default", "")]);
    assert_eq!((t.tcp.as_str(), t.fidelity), ("none in this traffic", None));
    // Nor has one with calls, pings over UDP and QUIC.
    let one = Setup { runs: 1, ..five() };
    let udp: String = ["voice", "udprr", "quic"].map(|kind| traffic(kind, "a", "b", kind)).concat();
    let t = trial(&one, &replay(udp.as_bytes(), &one), &[("default", "")]);
    assert_eq!((t.tcp.as_str(), t.fidelity), ("none in this traffic", None));
    let tcp = udp + &traffic("rr", "a", "b", "rr");
    let t = trial(&one, &replay(tcp.as_bytes(), &one), &[("default", "")]);
    assert!(t.tcp.starts_with("CUBIC") && t.fidelity.is_some(), "{}", t.tcp);
}

/// Streams fill a FIFO until it overflows, and all traffic waits behind them.
#[test]
fn a_fifo_keeps_everybody_waiting_and_fq_codel_does_not() {
    let t = trial(&uplink(), &mix("bulk+rr"), &[("default", ""), ("fq", "qdisc add root fq_codel")]);
    let [fifo, fq] = &t.policies[..] else { panic!("two policies") };
    for name in ["bulk", "rr"] {
        assert!(group(fifo, name).latency.expect("latency").p50_ns > 150 * MS, "{name}");
    }
    // Round trip, one full packet of each of four flows, and the requests.
    assert!((20 * MS..25 * MS).contains(&p99(fq, "rr")), "{}", p99(fq, "rr"));
    assert!(p99(fq, "bulk") < p99(fifo, "bulk") / 3, "{}", p99(fq, "bulk"));
    for p in &t.policies {
        assert!(p.device.utilisation > 0.95, "{}", p.device.utilisation);
        assert!(group(p, "bulk").jain > 0.98);
    }
}

/// Packets, bytes and times of every mix, through a tree with drops in several leaves.
#[test]
fn sums_agree_and_nothing_is_faster_than_the_line() {
    let setup = Setup { time: Nanos::from_secs(2), ..uplink() };
    for mix in MIXES {
        let traffic = self::mix(mix.name);
        let policies = [("default", ""), ("fq", "qdisc add root fq_codel"), ("classes", CLASSES)];
        let t = trial(&setup, &traffic, &policies);
        assert_eq!((t.step_ns, t.warmup_ns), (20 * MS, 200 * MS));
        for p in &t.policies {
            let at = format!("{} {}", mix.name, p.name);
            let root = &p.classes[0];
            let leaves = p.classes.iter().filter(|c| p.classes.iter().all(|d| d.parent != c.handle));
            let (packets, bytes): (Vec<u64>, Vec<u64>) =
                leaves.map(|c| (c.sent_packets, c.sent_bytes)).unzip();
            assert_eq!(packets.iter().sum::<u64>(), root.sent_packets, "{at}");
            assert_eq!(bytes.iter().sum::<u64>(), root.sent_bytes, "{at}");
            assert_eq!(
                (root.sent_packets, root.sent_bytes),
                (p.device.sent_packets, p.device.sent_bytes),
                "{at}"
            );
            let drops: u64 = p.classes.iter().flat_map(|c| c.drops.values()).sum();
            assert_eq!(drops, p.drops.values().sum::<u64>(), "{at}");
            let shown: u64 = p.classes.iter().flat_map(|c| &c.series.drops).sum();
            assert!(shown >= drops, "{at}: the series has the warm-up as well");
            for rate in root.series.throughput_bit_s.iter().chain([&root.throughput_bit_s]) {
                // A step's edge may cut a burst that the device took earlier: its ring holds a few
                // packets.
                assert!(*rate < 24_000_000, "{at}: {rate}");
            }
            assert!(root.throughput_bit_s <= 20_000_000, "{at}");
            for g in p.groups.iter().filter(|g| g.kind != "rr") {
                assert!(g.throughput_bit_s < 20_000_000, "{at} {}", g.name);
                assert_eq!(g.series.throughput_bit_s.len(), 100);
            }
            assert_eq!(p.device.series.ring_bytes.len(), 100);
        }
    }
}

#[test]
fn half_the_rate_is_half_the_throughput() {
    let half = "qdisc add root tbf rate 10mbit burst 10kb limit 2mb";
    let t = trial(&uplink(), &mix("bulk+rr"), &[("default", ""), ("half", half)]);
    let [whole, half] = [0, 1].map(|i| group(&t.policies[i], "bulk").throughput_bit_s as f64);
    // tbf does not count 24 bytes of each full packet that take time on the line.
    common::close(half, whole / 2.0 * 1538.0 / 1514.0, 2.0);
}

#[test]
fn priorities_reach_their_bands() {
    let one = "qdisc add root pfifo limit 1000";
    let prio = "qdisc add root handle 1: prio";
    let t = trial(&uplink(), &mix("voip"), &[("one", one), ("default", ""), ("prio", prio)]);
    let [one, default, prio] = &t.policies[..] else { panic!("three policies") };
    assert!(p99(one, "calls") > 150 * MS, "{}", p99(one, "calls"));
    // Half the round trip, the content of the ring by its byte limit, and the packet itself.
    assert!(p99(default, "calls") < 14 * MS && p99(prio, "calls") < 14 * MS);
    let sent: Vec<_> = prio.classes.iter().map(|c| (c.handle.as_str(), c.parent.as_str())).collect();
    assert_eq!(sent, [("1:", "root"), ("1:1", "1:"), ("1:2", "1:"), ("1:3", "1:")]);
    // Eight calls of 50 packets/s for 4.5 s; priority 6 is band 0.
    assert_eq!(prio.classes[1].sent_packets, 8 * 50 * 9 / 2);
    assert_eq!((prio.classes[3].sent_packets, prio.classes[3].kind), (0, "pfifo"));
}

/// Without a byte limit the ring of the device is one more FIFO, which no policy orders.
#[test]
fn a_ring_without_a_byte_limit_is_where_packets_wait() {
    let setup = Setup { bql: false, ..uplink() };
    let t = trial(
        &setup,
        &mix("bulk+rr"),
        &[("default", ""), ("shaped", "qdisc add root tbf rate 19mbit burst 6kb limit 2mb")],
    );
    let stage =
        |p: &PolicyTrial, name: &str| p.stages.iter().find(|s| s.stage == name).expect("a stage").p50_ns;
    let [free, shaped] = &t.policies[..] else { panic!("two policies") };
    assert!(stage(free, "ring") > 150 * MS && stage(free, "qdisc") < MS, "{:?}", free.stages);
    assert!(stage(shaped, "ring") < 5 * MS && stage(shaped, "qdisc") > 150 * MS, "{:?}", shaped.stages);
    assert_eq!((free.device.bql_limit, t.bql), (None, false));
}

/// Four queues are four classes, whose counts are together those of the root and of the device.
#[test]
fn queues_of_mq_are_classes_of_a_trial() {
    let below = (1..=4).map(|queue| format!("\nqdisc add parent 1:{queue} fq_codel")).collect::<String>();
    let mq = format!("qdisc add root handle 1: mq{below}");
    let setup = Setup { queues: 4, time: Nanos::from_secs(2), ..uplink() };
    let t = trial(&setup, &mix("bulk+rr"), &[("default", ""), ("mq.tc", &mq)]);
    for (p, [root, queue, kind]) in
        t.policies.iter().zip([["0:", ":", "pfifo_fast"], ["1:", "1:", "fq_codel"]])
    {
        let places: Vec<(&str, &str, &str)> =
            p.classes.iter().map(|c| (&*c.handle, &*c.parent, c.kind)).collect();
        let class = |n: u16| format!("{queue}{n}");
        let expected: Vec<String> = (1..=4).map(class).collect();
        assert_eq!(places[0], (root, "root", "mq"));
        assert!(places[1..].iter().zip(&expected).all(|(p, e)| *p == (&**e, root, kind)), "{places:?}");
        let sum =
            |f: &dyn Fn(&txweir_lab::trial::ClassTrial) -> u64| p.classes[1..].iter().map(f).sum::<u64>();
        assert_eq!(sum(&|c| c.sent_packets), p.classes[0].sent_packets, "{}", p.name);
        assert_eq!(sum(&|c| c.sent_bytes), p.device.sent_bytes, "{}", p.name);
        assert_eq!(sum(&|c| c.drops.values().sum()), p.drops.values().sum::<u64>(), "{}", p.name);
        assert!(p.classes[0].drops.is_empty());
        assert!(p.classes[1..].iter().filter(|c| c.sent_packets > 100).count() > 1, "{:?}", p.classes);
    }
    let text = t.to_string();
    assert!(text.contains("; 4 queues, ring 1024, BQL on\n"), "{text}");
    assert!(text.contains("\n  1:     mq") && text.contains("\n    1:4  fq_codel"), "{text}");
    assert!(t.to_json().contains("\"queues\": 4,"));
    assert!(!trial(&five(), &mix("voip"), &[("default", "")]).to_string().contains("queues, ring"));
}

/// The device sends the calls' traffic class first; multiq passes over the uploads' ring while that
/// is full. Without either the calls wait behind a deep ring.
#[test]
fn calls_have_a_queue_of_their_own() {
    let choose = "qdisc add clsact\nfilter add egress protocol ip prio 1 flower ip_proto udp action skbedit queue_mapping 1\n\
                  filter add egress protocol ip prio 2 flower ip_proto tcp action skbedit queue_mapping 0\n";
    let policies = [
        (
            "mqprio",
            "qdisc add root handle 1: mqprio num_tc 2 map 0 0 0 0 0 0 1 queues 1@0 1@1 hw 1".to_string(),
        ),
        ("multiq", format!("{choose}qdisc add root handle 1: multiq")),
        ("pfifo", format!("{choose}qdisc add root handle 1: pfifo")),
    ];
    let policies = policies.each_ref().map(|(name, text)| (*name, &**text));
    let setup = Setup { queues: 2, ring: 64, bql: false, ..uplink() };
    let t = trial(&setup, &mix("voip"), &policies);
    let [mqprio, multiq, pfifo] = [0, 1, 2].map(|i| p99(&t.policies[i], "calls"));
    // 10 ms of distance, one full frame of the line, and the other calls.
    assert!(mqprio < 10 * MS + 615_200 + 8 * 90_000, "{mqprio}");
    assert!(multiq < 10 * MS + 2 * 615_200 + 8 * 700_000, "{multiq}");
    assert!(pfifo > 10 * MS + 50 * 615_200, "{pfifo}");
    let calls = group(&t.policies[0], "calls").offered_packets.expect("calls");
    let sent =
        |i: usize| t.policies[i].classes.iter().find(|c| c.handle == "1:2").map_or(0, |c| c.sent_packets);
    assert!((0..2).all(|i| sent(i).abs_diff(calls) <= 8), "{} {} {calls}", sent(0), sent(1));
    // Counters of rates and of preemption are the wire's; here the device took the calls at once.
    assert!(t.policies[0].drops.is_empty(), "{:?}", t.policies[0].drops);
}

/// A policy that needs more queues than the device has is refused: the error names the qdisc, the
/// key, the expected and the given value.
#[test]
fn queues_that_are_not_there_are_refused_in_words() {
    let refused = |queues, text: &str| {
        let setup = Setup { queues, ..uplink() };
        let e = run(&setup, &mix("voip"), &[entry("p.tc", text)], &mut |_, _| {}).expect_err("refused");
        let TrialError::Policy(d) = e else { panic!("not for the policy: {e}") };
        (d.message.clone(), d.expected.clone())
    };
    let several = "a device with several transmit queues";
    for (queues, text, said, expected) in [
        (1, "qdisc add root mq", "mq takes a device with several transmit queues, given one queue", several),
        (
            1,
            "qdisc add root multiq",
            "multiq takes a device with several transmit queues, given one queue",
            several,
        ),
        (
            1,
            "qdisc add root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0",
            "mqprio takes a device with several transmit queues, given one queue",
            several,
        ),
        (
            2,
            "qdisc add root mqprio num_tc 2 map 0 1 queues 1@0 1@2 hw 1",
            "mqprio queues: 1@2 for traffic class 1 is out of range",
            "queues below 2, which the device has",
        ),
        (
            2,
            "qdisc add root handle 1: mq\nqdisc add parent 1:3 pfifo",
            "there is no class 1:3",
            "root or a class that exists",
        ),
    ] {
        assert_eq!(refused(queues, text), (said.to_string(), expected.to_string()), "{text}");
    }
}

#[test]
fn what_is_out_of_bounds_is_refused_in_words() {
    let base = uplink();
    let cases = [
        (Setup { link: Rate::from_bits(8_000), ..base }, "link: expected 64kbit to 100gbit, given 8Kbit"),
        (Setup { ring: 0, ..base }, "ring: expected 1 to 1048576 descriptors, given 0"),
        (Setup { queues: 0, ..base }, "queues: expected 1 to 256, given 0"),
        (Setup { queues: 257, ..base }, "queues: expected 1 to 256, given 257"),
        (
            Setup { queues: 8, ring: 1 << 20, ..base },
            "ring: expected at most 524288 descriptors in each of 8 queues, given 1048576",
        ),
        (Setup { rtt: Nanos::from_secs(11), ..base }, "rtt: expected at most 10s, given 11s"),
        (Setup { time: Nanos::from_millis(99), ..base }, "time: expected 100ms to 3600s, given 99ms"),
        (Setup { runs: 0, ..base }, "runs: expected 1 to 64, given 0"),
        (Setup { runs: 65, ..base }, "runs: expected 1 to 64, given 65"),
        (
            Setup { ecn: true, congestion: Algorithm::named("dctcp").expect("an algorithm"), ..base },
            "ecn: expected off with dctcp, which negotiates marks by itself, given on",
        ),
    ];
    for (setup, said) in cases {
        let e = run(&setup, &mix("voip"), &[entry("default", "")], &mut |_, _| {}).expect_err("refused");
        assert_eq!(e.to_string(), said);
    }
    let none = run(&base, &mix("voip"), &[], &mut |_, _| {}).expect_err("refused");
    assert_eq!(none.to_string(), "policies: expected 1 to 32, given 0");
    let nowhere = entry("p.tc", "qdisc add parent 7:1 pfifo");
    let e = run(&base, &mix("voip"), &[nowhere], &mut |_, _| {}).expect_err("refused");
    assert!(matches!(e, TrialError::Policy(d) if d.line() == 1));
}

#[test]
fn tables_fit_and_wrap() {
    let setup = five();
    let names =
        ["default", "a-rather-long-name.tc", "another-long-name-of-a-policy.tc", "d.tc", "e.tc", "f.tc"];
    for n in [1, 3, 6] {
        // The last policy differs, so that a measure has a best one.
        let policy = |i: usize| if i + 1 == n { "qdisc add root fq_codel" } else { "" };
        let policies: Vec<(&str, &str)> = (0..n).map(|i| (names[i], policy(i))).collect();
        let t = trial(&setup, &mix("rrul"), &policies);
        let text = t.to_string();
        let widest = text.lines().map(|l| l.chars().count()).max();
        assert!(widest <= Some(100), "{widest:?}\n{text}");
        // The legend explains the marks in use.
        let marks =
            |mark| t.policies.iter().flat_map(|p| &p.measures).filter(|m| m.mark == Some(mark)).count();
        for (mark, sign) in [(Mark::Best, '*'), (Mark::Equal, '=')] {
            let cells = text.lines().filter(|l| !l.starts_with(sign));
            let shown: usize = cells.map(|l| l.matches(sign).count()).sum();
            let legend = text.lines().filter(|l| l.starts_with(sign)).count();
            assert_eq!((shown, legend), (marks(mark), usize::from(marks(mark) > 0)), "{text}");
        }
        assert!(text.matches("\nudp ef  throughput").count() >= n.div_ceil(3));
    }
    let alike = trial(&setup, &mix("bulk+rr"), &[("default", ""), ("same.tc", "")]).to_string();
    assert!(!alike.contains('*'), "{alike}");
    let one = trial(&setup, &mix("bulk+rr"), &[("default", "")]);
    assert!(one.verdict[0].ends_with("s with default"), "{:?}", one.verdict);
}

/// The page with charts, and any other reader of the JSON, finds every key, in this order.
#[test]
fn json_has_its_keys_in_order() {
    let setup = Setup { time: Nanos::from_secs(1), ..uplink() };
    let json = trial(&setup, &mix("bulk+rr"), &[("fq", "qdisc add root fq_codel")]).to_json();
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let keys = |v: &serde_json::Value| {
        v.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(&value),
        "title traffic about link_rate_bit_s down_rate_bit_s rtt_ns queues ring bql time_ns warmup_ns seed tcp congestion \
         ecn fidelity interval verdict step_ns policies"
    );
    let policy = &value["policies"][0];
    assert_eq!(
        keys(policy),
        "name policy shown_seed measures groups classes device stages drops marks down ifbs jain"
    );
    assert_eq!(keys(&policy["measures"][0]), "group measure label unit better runs median low high mark");
    assert_eq!(keys(&value["interval"]), "runs low_rank high_rank coverage marked_from");
    assert_eq!(keys(&value["fidelity"]), "range rows rows_inside reasons nearest");
    assert_eq!(
        keys(&policy["groups"][1]),
        "name kind count direction throughput_bit_s jain retransmitted_bytes transactions_per_s latency \
         latency_percents_ns lost offered_packets received_packets series"
    );
    let series = keys(&policy["groups"][0]["series"]);
    assert_eq!(series, "throughput_bit_s flows_bit_s latency_p50_ns latency_p99_ns");
    assert_eq!(keys(&policy["groups"][0]["latency"]), "count mean_ns p50_ns p95_ns p99_ns max_ns");
    assert_eq!(
        keys(&policy["classes"][0]),
        "handle parent kind qdisc sent_packets sent_bytes throughput_bit_s drops marks backlog_bytes series"
    );
    assert_eq!(keys(&policy["classes"][0]["series"]), "throughput_bit_s backlog_bytes drops");
    assert_eq!(
        keys(&policy["device"]),
        "ring_bytes bql_limit utilisation offered_packets sent_packets sent_bytes series"
    );
    assert_eq!(keys(&policy["stages"][2]), "stage mean_ns p50_ns p95_ns p99_ns max_ns series");
    assert_eq!((&value["time_ns"], &value["step_ns"]), (&1_000_000_000_u64.into(), &10_000_000.into()));
    assert_eq!(policy["policy"], "qdisc add root fq_codel");
    let mut all = Vec::new();
    collect(&value, &mut all);
    let docs = include_str!("../../../../docs/try.md");
    let missing: Vec<_> = all.iter().filter(|key| !docs.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/try.md does not name {missing:?}");
}

/// Collects every key but the names of reasons.
fn collect(value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(o) => o.iter().for_each(|(key, value)| {
            keys.push(key.clone());
            if !["drops", "marks"].contains(&key.as_str()) {
                collect(value, keys);
            }
        }),
        serde_json::Value::Array(list) => list.iter().for_each(|v| collect(v, keys)),
        _ => {}
    }
}
