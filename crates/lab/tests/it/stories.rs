//! The scenarios of the repository give the tables beside them, to the last digit. After an
//! intended change: `TXWEIR_EXPECTED=write cargo test -p txweir-lab --test it stories::`, and check
//! the difference.

use std::fs;
use std::path::Path;

use txweir_lab::run::{Options, run};
use txweir_lab::scenario::Scenario;

use crate::common;

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
fn filters() {
    story("filters");
}

#[test]
fn shared() {
    story("shared");
}

#[test]
fn ipv6() {
    story("ipv6");
}

#[test]
fn home_uplink() {
    story("home-uplink");
}

#[test]
fn lossy() {
    story("lossy");
}

#[test]
fn l4s() {
    story("l4s");
}

#[test]
fn short_flows() {
    story("short-flows");
}

#[test]
fn voice_and_video() {
    story("voice-video");
}

#[test]
fn rrul() {
    story("rrul");
}

#[test]
fn quic() {
    story("quic");
}

/// Every kind has a scenario that shows its purpose, of its own name or together with another kind;
/// its page and the list of scenarios link to it.
#[test]
fn every_kind_has_its_story() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = fs::read_to_string(repository.join("docs/scenarios.md")).unwrap();
    for spec in txweir_core::qdisc::KINDS {
        let name = match spec.kind {
            "pfifo_fast" => "first",
            "tbf" | "fq_codel" => "home-uplink",
            "mq" | "multiq" => "mqprio",
            "taprio" => "tsn",
            kind => kind,
        };
        if name == spec.kind {
            story(name);
        }
        let text = fs::read_to_string(repository.join(format!("scenarios/{name}.toml"))).unwrap();
        assert!(
            [' ', '"', '\n'].iter().any(|after| text.contains(&format!(" {}{after}", spec.kind))),
            "{name}"
        );
        let page = fs::read_to_string(repository.join(format!("docs/qdisc/{}.md", spec.kind))).unwrap();
        let link = format!("scenarios/{name}.toml)");
        assert!(page.contains(&link) && list.contains(&link), "{}: no way to {name}", spec.kind);
    }
}

/// Checks the claims of the kinds' stories in numbers.
#[test]
fn the_stories_of_the_kinds_show_what_they_say() {
    let of = |kind: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{kind}.toml"));
        common::report(&fs::read_to_string(path).unwrap())
    };
    let rate = |r: &txweir_lab::report::Report, i: usize| r.traffic[i].throughput_bit_s as f64;
    let delay = |r: &txweir_lab::report::Report, i: usize| r.traffic[i].delay.unwrap();

    for (kind, first, second, ratio) in [("drr", 1, 0, 3.0), ("ets", 1, 2, 2.0)] {
        let report = of(kind);
        common::close(rate(&report, first) / rate(&report, second), ratio, 3.0);
    }
    let htb = of("htb");
    // 3 Mbit/s of frames of 1514 bytes, 1448 of them payload.
    common::close(rate(&htb, 0), 3e6 * 1448.0 / 1514.0, 1.0);
    let hfsc = of("hfsc");
    common::close(rate(&hfsc, 1) / rate(&hfsc, 2), 3.0, 1.0);
    // 10 ms of distance, a full frame that is on its way at 9.5 Mbit/s, and the packet itself.
    assert!(delay(&hfsc, 0).max_ns < 10 * common::MS + 1_275_000 + 300_000, "{:?}", delay(&hfsc, 0));
    // The uploads have what the sensors leave, and not what an even split leaves.
    let cake_mq = of("cake_mq");
    assert!(rate(&cake_mq, 2) > 1.3 * rate(&cake_mq, 0) && rate(&cake_mq, 2) > 25e6);
    // The flood offers more than the line carries.
    let sfb = of("sfb");
    assert!(rate(&sfb, 1) > 1.5 * rate(&sfb, 0));
    // Of the packets beyond the contract, as many as the others leave room for.
    let gred = of("gred");
    assert!(rate(&gred, 0) > 6.99e6 && rate(&gred, 1) < 3e6, "{gred}");
    let hhf = of("hhf");
    // 10 ms of distance, a turn of the uploads' queue, and frames that are on their way.
    assert!(delay(&hhf, 1).max_ns < 20 * common::MS, "{:?}", delay(&hhf, 1));
    let tsn = of("tsn");
    let full = 123_040;
    // 1 ms of distance, and 200 bytes on the line with their overhead.
    assert!(delay(&tsn, 3).max_ns - delay(&tsn, 3).p50_ns < 1000, "{:?}", delay(&tsn, 3));
    assert!(delay(&tsn, 1).max_ns > delay(&tsn, 3).max_ns + full * 9 / 10, "{:?}", delay(&tsn, 1));
    assert!(delay(&tsn, 1).max_ns < delay(&tsn, 3).max_ns + full * 11 / 10, "{:?}", delay(&tsn, 1));
    assert!(delay(&tsn, 0).max_ns > 20 * common::MS, "{:?}", delay(&tsn, 0));
    let qfq = of("qfq");
    common::close(rate(&qfq, 1) / rate(&qfq, 0), 9.0, 1.0);
    let fq = of("fq");
    common::close(rate(&fq, 1), 2e6 * 1448.0 / 1514.0, 1.0);
    let prio = of("prio");
    assert_eq!(rate(&prio, 2), 0.0);
    for (report, call) in [(&prio, 0), (&of("ets"), 0), (&of("skbprio"), 1), (&of("cake"), 1)] {
        // 10 ms of distance, and at most three full frames that are already in the device.
        assert!(delay(report, call).max_ns < 10 * common::MS + 3 * 1_230_400 + 171_200);
        // A packet may be on its way when measuring begins or ends.
        let packets = report.traffic[call].packets.unwrap();
        assert!(packets.lost == 0 && (249..=251).contains(&packets.received), "{packets:?}");
    }
    let queues = of("mqprio");
    let [plain, classes, turns, flows] = [0, 1, 2, 3].map(|call| delay(&queues, call).p99_ns);
    // 10 ms of distance, 64 full frames in the ring of the first, one frame on the line before the
    // calls of others.
    assert!(plain > 10 * common::MS + 60 * 1_230_400, "{plain}");
    assert!(
        [classes, turns].iter().all(|ns| *ns < 10 * common::MS + 1_230_400 + 400_000),
        "{classes} {turns}"
    );
    assert!(flows < plain / 3, "{flows} {plain}");
    common::close((4..8).map(|i| rate(&queues, i)).fold(f64::MAX, f64::min), rate(&queues, 4), 3.0);
    let text = include_str!("../../../../scenarios/rough.toml");
    let rough = of("rough");
    let behind = common::report(&text.replace("rough ack_budget 20%", "pfifo"));
    assert!(rate(&rough, 1) > 4.0 * rate(&behind, 1), "{} {}", rate(&rough, 1), rate(&behind, 1));
    // The download's acknowledgements take their part of the uplink from the upload.
    assert!(rate(&rough, 0) > 0.8 * rate(&behind, 0), "{} {}", rate(&rough, 0), rate(&behind, 0));
    let bfifo = of("bfifo");
    // 20 ms in the queue and less than 4 in the device.
    assert!((0..2).all(|i| delay(&bfifo, i).max_ns < 34_100_000));
}

/// Checks the promises in the comments of the stories.
#[test]
fn the_stories_show_what_they_say() {
    let text = include_str!("../../../../scenarios/first.toml");
    let first = common::report(text);
    let changed = text.replace("policy = \"qdisc add root pfifo_fast\"\n# policy", "policy");
    assert_ne!(changed, text);
    let fair = common::report(&changed);
    let wait = |r: &txweir_lab::report::Report| r.traffic[1].latency.unwrap().p50_ns;
    // CUBIC leaves slow start early (HyStart) and fills the queue in the course of the run.
    assert!(wait(&first) > 10 * wait(&fair), "{} {}", wait(&first), wait(&fair));
    common::close(fair.traffic[0].throughput_bit_s as f64, first.traffic[0].throughput_bit_s as f64, 3.0);

    let text = include_str!("../../../../scenarios/home-uplink.toml");
    let home = common::report(text);
    let unmanaged = common::report(
        &text.replace("\nqdisc add root handle 1: tbf", "\n# ").replace("\nqdisc add parent", "\n#"),
    );
    let call = |r: &txweir_lab::report::Report| r.traffic[2].delay.unwrap().p95_ns;
    assert!(call(&unmanaged) > 10 * call(&home), "{} {}", call(&unmanaged), call(&home));
    assert!(call(&home) < 16 * common::MS);
    assert_eq!(unmanaged.queues[4].qdisc, "pfifo_fast");

    let r = common::report(include_str!("../../../../scenarios/ipv6.toml"));
    let rate = |n: usize| r.traffic[n].throughput_bit_s as f64;
    // The call and the requests, of 286 bytes a frame, are IPv6 too.
    let requests = r.traffic[3].transactions_per_s.unwrap() * 8.0 * 286.0;
    let of_host = [rate(0) / 1448.0 * 1514.0, rate(1) / 1428.0 * 1514.0 + 93_600.0 + requests];
    common::close(of_host[1], of_host[0], 3.0);
    assert!(r.traffic[2].delay.unwrap().p99_ns < 13 * common::MS, "{:?}", r.traffic[2].delay);
    let (drops, marks) = (r.links[0].drops.values().sum::<u64>(), r.links[0].marks.values().sum::<u64>());
    assert!(drops == 0 && marks > 20, "{:?}", r.links[0]);
}
