//! `txweir run --workers` between interfaces of the kernel, with more workers than processors:
//! every frame is counted once in every report, and the counts at the end are those of the kernel.
//! Nothing here depends on the speed of the machine.

use serde_json::Value;
use txweir_device::testnet::NetNs;

use crate::common::{Net, Temp, address, ledger, number, skip_unless_possible};

/// Workers: more than the processors of any machine that runs the tests often.
const WORKERS: &str = "8";
/// Connections at a time, and the bytes of each.
const CONNECTIONS: u16 = 12;
const BYTES: u64 = 3_000_000;

/// Creates hosts whose TAP devices have several queues.
fn with_queues() -> Net {
    let net = crate::common::taps();
    for (netns, address) in [(&net.client, "10.77.0.1/24"), (&net.server, "10.77.0.2/24")] {
        netns.run(&["ip", "link", "del", "dev", "tap0"]);
        netns.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap", "multi_queue"]);
        netns.up("tap0", address);
    }
    net
}

/// Carries bytes by several connections at a time, and checks their number.
fn carry(net: &Net) {
    let both: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let sink = net.server.tcp_sink(address(6000 + n));
            (net.client.tcp_source(address(6000 + n), BYTES), sink)
        })
        .collect();
    for (source, sink) in both {
        assert_eq!(source.join().expect("the source"), BYTES);
        assert_eq!(sink.join().expect("the sink"), BYTES);
    }
}

fn kernel(netns: &NetNs, interface: &str, counter: &str) -> u64 {
    let text = netns.run(&["cat", &format!("/sys/class/net/{interface}/statistics/{counter}")]);
    text.trim().parse().expect("a number")
}

/// Checks the sum of the frames of both ways of a report.
fn check(report: &Value) {
    for way in report["directions"].as_array().expect("ways") {
        let [to, from, refused] =
            ["to_others", "from_others", "refused"].map(|key| number(way, &format!("/crossed/{key}")));
        let [came, known] = ledger(way, "/frames").sums();
        assert!(to >= from, "{way}");
        assert_eq!(came, known + (to - from) + refused, "{way}");
        let workers = way["workers"].as_array().expect("workers");
        let received: u64 = workers.iter().map(|worker| number(worker, "/received")).sum();
        assert_eq!(received, number(way, "/stats/received"), "{way}");
    }
}

/// Runs it with these options, carries bytes, and returns its last report, after the sums of all
/// reports were checked.
fn report(net: &Net, options: &[&str]) -> Value {
    let args = [&["--json", "--workers", WORKERS, "--stats-interval", "20ms"], options].concat();
    let running = net.start(&args).follow();
    carry(net);
    let reports = running.stop();
    reports.iter().for_each(check);
    reports.last().expect("an end").clone()
}

#[test]
fn eight_workers_over_the_queues_of_tap_devices_count_every_frame() {
    skip_unless_possible!();
    for (options, crosses) in [(&[][..], false), (&["--queue-map", "hash"], true)] {
        let net = with_queues();
        let end = report(&net, options);
        let there = &end["directions"][0];
        assert_eq!(number(there, "/rx/frames"), kernel(&net.client, "tap0", "tx_packets"), "{there}");
        assert_eq!(number(there, "/frames/submitted"), number(there, "/rx/frames"), "{there}");
        assert_eq!(number(there, "/tx/frames"), kernel(&net.server, "tap0", "rx_packets"), "{there}");
        assert_eq!(number(there, "/frames/delivered"), number(there, "/tx/frames"), "{there}");
        assert_eq!(number(there, "/crossed/to_others") > 0, crosses, "{there}");
        // The root, and a qdisc for each queue.
        let qdiscs = there["qdiscs"].as_array().expect("qdiscs");
        assert_eq!((qdiscs[0]["kind"].as_str(), qdiscs.len()), (Some("mq"), 9), "{there}");
        let packets = |at: usize| number(&qdiscs[at], "/packets");
        assert_eq!(packets(0), (1..9).map(packets).sum::<u64>(), "{there}");
        // Twelve flows by one queue of eight: 8^-11.
        assert!((1..9).filter(|at| packets(*at) > 0).count() > 1, "{there}");
    }
}

#[test]
fn a_root_that_cannot_be_split_has_one_owner_among_eight_workers() {
    skip_unless_possible!();
    let net = with_queues();
    let policy = Temp::new("shared.tc", "qdisc add root handle 1: fq_codel\n");
    let end = report(&net, &["--policy", policy.path(), "--wire", "rate=2gbit,ring=256"]);
    for (way, owner) in end["directions"].as_array().expect("ways").iter().zip([1, 0]) {
        assert_eq!(way["qdiscs"][0]["kind"], "fq_codel");
        for (worker, counts) in (0..).zip(way["workers"].as_array().expect("workers")) {
            let came = number(counts, "/crossed/from_others");
            assert!(worker == owner || came == 0, "worker {worker} has no queue: {way}");
        }
        let rest = number(way, "/frames/inflight") + number(way, "/frames/queued");
        let crossed = number(way, "/crossed/to_others");
        assert!(crossed > 0 && number(way, "/frames/delivered") + rest > 0, "{way}");
    }
}

#[test]
fn packet_sockets_of_several_workers_share_the_flows() {
    skip_unless_possible!();
    let net = crate::common::veths();
    // All on the first processor, which each machine has.
    let end = report(&net, &["--pin", "0"]);
    let there = &end["directions"][0];
    let workers = there["workers"].as_array().expect("workers");
    assert!(workers.iter().filter(|worker| number(worker, "/received") > 0).count() > 1, "{there}");
    // Each frame of the kernel came in once, whichever socket got it.
    let seen = kernel(&net.middle, "left", "rx_packets");
    let had = number(there, "/rx/frames") + number(there, "/rx/missed");
    assert!(had <= seen, "had {had}, the interface {seen}: {there}");
    assert_eq!(number(there, "/frames/submitted"), number(there, "/rx/frames"), "{there}");
}

#[test]
fn settings_that_do_not_go_with_workers_are_refused() {
    let refused = |args: &[&str]| {
        let output = crate::common::txweir(args).output().expect("txweir");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let between = ["--in", "a", "--out", "b"];
    let with = |more: &[&str]| refused(&[&between, more].concat());
    assert!(with(&["--workers", "0"]).contains("0 is not in 1..=64"), "{}", with(&["--workers", "0"]));
    assert!(with(&["--workers", "2", "--queue-map", "x"]).contains("expected arrival, hash"));
    assert!(with(&["--pin", "1"]).contains("--workers <N>"));
    assert!(with(&["--workers", "2", "--pin", "1024"]).contains("1024 is not in 0..1024"));
}
