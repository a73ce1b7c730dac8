//! IPv6 in scenarios and trials: what filters, qdiscs and receivers see of it, beside IPv4.

use txweir_core::{Nanos, Rate};
use txweir_lab::report::{Report, TrafficReport};
use txweir_lab::trial::{self, Entry, Setup, Traffic};
use txweir_tc::Policy;

use crate::common::{close, report, two_hosts};

/// Returns a group of traffic from `a` to `b`.
fn group(name: &str, ipv6: bool, more: &str) -> String {
    format!("[[traffic]]\nname = '{name}'\nfrom = 'a'\nto = 'b'\nipv6 = {ipv6}\n{more}\n")
}

/// Returns the report of groups of both versions, 20 Mbit/s and a round trip of 10 ms, with this
/// policy; `host` and `link` have more keys.
fn both(host: &str, link: &str, policy: &str, more: &str) -> Report {
    let traffic = group("v4", false, more) + &group("v6", true, more);
    let link = format!("rate = '20mbit'\ndelay = '5ms'\nring = 16\n{link}\npolicy = '''{policy}'''");
    report(&two_hosts("duration = '4s'\nwarmup = '1s'", host, &link, &traffic))
}

fn rates(r: &Report) -> [f64; 2] {
    [0, 1].map(|n| r.traffic[n].throughput_bit_s as f64)
}

/// A full packet of IPv6 has 20 bytes less payload; apart from that, flows are equal.
#[test]
fn flows_of_both_versions_have_fair_shares() {
    let r = both("", "", "qdisc add root fq_codel", "kind = 'stream'\ncount = 4");
    let [v4, v6] = rates(&r);
    close(v6 / v4, 1428.0 / 1448.0, 1.0);
    close(v4 + v6, 20e6 * (1428.0 + 1448.0) / 2.0 / 1538.0, 1.0);
    assert!(r.traffic.iter().all(|t| t.jain > 0.99), "{:?}", r.traffic);
    // A unit is cut into segments of the same size.
    let cut = rates(&both("tso = '65226'", "", "qdisc add root fq_codel", "kind = 'stream'\ncount = 4"));
    close(cut[1] / cut[0], 1428.0 / 1448.0, 1.0);
}

/// Each filter steers IPv6, or a part of it, into a class of 2 Mbit/s.
#[test]
fn filters_see_the_headers_of_ipv6() {
    let filters = [
        "protocol ipv6 prio 1 flower classid 1:10",
        "protocol ipv6 prio 1 flower ip_proto tcp src_ip fd00::a00:1 classid 1:10",
        "protocol ipv6 prio 1 u32 match ip6 dst fd00::a00:2/128 classid 1:10",
        "protocol ipv6 prio 1 u32 match ip6 protocol 6 0xff classid 1:10",
        "protocol ipv6 prio 1 flower ip_proto tcp ip_tos 0x28/0xfc classid 1:10",
    ];
    let stream = "kind = 'stream'\ncount = 2\ndscp = 'af11'";
    let classes = |filter: &str| {
        let policy = format!(
            "qdisc add root handle 1: htb default 20\nclass add parent 1: classid 1:10 htb rate 2mbit\n\
             class add parent 1: classid 1:20 htb rate 18mbit\nfilter add parent 1: {filter}"
        );
        rates(&both("", "", &policy, stream))
    };
    for filter in filters {
        let [v4, v6] = classes(filter);
        // A shaper counts neither preamble nor gap.
        close(v6, 2e6 * 1428.0 / 1514.0, 3.0);
        assert!(v4 > 16e6, "{filter}: {v4}");
    }
    let [v4, v6] = classes("protocol ipv6 prio 1 u32 match ip6 dst fd00::a00:3/128 classid 1:10");
    assert!(v4 > 7e6 && v6 > 7e6, "no packet has this address: {v4} {v6}");
    // Filters on IPv4 do not see IPv6, and the other way round.
    let [v4, v6] = classes("protocol ip prio 1 u32 match ip protocol 6 0xff classid 1:10");
    assert!(v4 < 2e6 && v6 > 16e6, "{v4} {v6}");
}

/// Marks instead of drops: the receiver reads the code point of each packet, and its peer slows
/// down. Acknowledgements with counters of accurate ECN have headers of more than 80 bytes.
#[test]
fn marks_go_there_and_back() {
    for ecn in ["classic", "accurate"] {
        // The queue is a router's: its senders do not see it.
        let host = format!("ecn = '{ecn}'\nsmall_queues = false");
        let r = both(&host, "", "qdisc add root fq_codel", "kind = 'stream'");
        let marks: u64 = r.links[0].marks.values().sum();
        assert!(marks > 10 && r.links[0].drops.values().sum::<u64>() == 0, "{ecn}: {:?}", r.links[0]);
        let [v4, v6] = rates(&r);
        close(v6 / v4, 1428.0 / 1448.0, 3.0);
        assert!(r.traffic.iter().all(|t| t.retransmitted_bytes == 0), "{ecn}: {:?}", r.traffic);
    }
}

/// Acknowledgements with blocks behind time stamps have headers of up to 100 bytes. Each loss is
/// told by them: without them it would cost a timeout.
#[test]
fn losses_are_told_by_long_acknowledgements() {
    let of = |ipv6| {
        let link = "rate = '20mbit'\ndelay = '5ms'\nloss = '0.5%'\npolicy = 'qdisc add root fq_codel'";
        let text = two_hosts("duration = '10s'", "", link, &group("s", ipv6, "kind = 'stream'\ncount = 8"));
        let r = report(&text);
        (r.traffic[0].throughput_bit_s as f64, r.traffic[0].retransmitted_bytes as f64)
    };
    let (v4, v6) = (of(false), of(true));
    close(v6.0 / v4.0, 1428.0 / 1448.0, 3.0);
    close(v6.1 / v4.1, 1.0, 20.0);
}

/// Each kind of traffic does over IPv6 what it does over IPv4.
#[test]
fn every_kind_takes_it() {
    let kinds = [
        ("stream", ""),
        ("rr", "size = '1000'"),
        ("cbr", "size = '70'\nrate = '100kbit'"),
        ("short", "size = '20kb'\narrivals = 5"),
        ("voice", ""),
        ("video", "rate = '1mbit'"),
        ("dns", "arrivals = 20\nsize = '1452'"),
        ("udprr", ""),
        ("rrul", ""),
        ("quic", "ecn = 'classic'"),
    ];
    for (kind, more) in kinds {
        let r = both("", "", "qdisc add root fq_codel", &format!("kind = '{kind}'\n{more}"));
        let (v4, v6) = r.traffic.split_at(r.traffic.len() / 2);
        for (v4, v6) in v4.iter().zip(v6) {
            let of =
                |t: &TrafficReport| (t.throughput_bit_s as f64, t.packets.as_ref().map_or(0, |p| p.lost));
            assert!(of(v6).0 > 0.0 && of(v6).1 == 0, "{kind}: {v6:?}");
            // Calls, flows and look-ups come at random times, and requests wait for each other.
            close(
                of(v6).0 / of(v4).0,
                1.0,
                if matches!(kind, "stream" | "cbr" | "video") { 3.0 } else { 60.0 },
            );
        }
    }
}

fn quick() -> Setup {
    Setup { link: Rate::from_bits(10_000_000), time: Nanos::from_secs(2), runs: 1, ..Setup::default() }
}

fn tried(traffic: &Traffic, policy: &str) -> trial::Trial {
    let policy = Some(Policy::parse(policy, "p").unwrap_or_else(|e| panic!("{e}")));
    let entry = Entry { name: "p".into(), policy };
    trial::run(&quick(), traffic, &[entry], &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// The code point of a call puts it into cake's tin for voice.
#[test]
fn cake_sorts_it_by_its_code_point() {
    let arrived = |ipv6: bool, dscp: &str| {
        let calls = group("calls", ipv6, &format!("kind = 'voice'\ncount = 4\ndscp = '{dscp}'"));
        let traffic = Traffic::file(calls.as_bytes(), "calls", Nanos::from_secs(2), 1).unwrap();
        let t = tried(&traffic, "qdisc add root cake bandwidth 9mbit diffserv4");
        let parts = &t.policies[0].classes[0].parts;
        parts.iter().map(|p| (p.name.to_string(), p.arrived_packets)).collect::<Vec<_>>()
    };
    let [ef, none] = ["ef", "be"].map(|dscp| arrived(true, dscp));
    let at =
        |of: &[(String, u64)], tin: &str| of.iter().find(|(name, _)| name.contains(tin)).map_or(0, |p| p.1);
    assert!(at(&ef, "oice") > 50 && at(&ef, "est") == 0, "{ef:?}");
    assert!(at(&none, "oice") == 0 && at(&none, "est") > 50, "{none:?}");
    assert_eq!(ef, arrived(false, "ef"));
}

/// A mix over IPv6 meets the filters for IPv6.
#[test]
fn mixes_go_over_ipv6() {
    let classes = "qdisc add root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n\
                   filter add parent 1: protocol ipv6 prio 1 flower ip_proto udp classid 1:1";
    let first = |traffic: &Traffic| {
        let t = tried(traffic, classes);
        let sent = t.policies[0].classes.iter().find(|c| c.handle == "1:1").map_or(0, |c| c.sent_packets);
        (sent, t.about)
    };
    for name in trial::MIXES.iter().map(|m| m.name) {
        let mix = || Traffic::mix(name).expect("a mix");
        let (v4, v6) = (first(&mix()), first(&mix().over_ipv6().unwrap_or_else(|e| panic!("{e}"))));
        let has_udp = matches!(name, "rrul" | "voip");
        assert_eq!((v4.0, v6.0 > 20), (0, has_udp), "{name}: {v6:?}");
        assert_eq!(v6.1, format!("{}, over IPv6", v4.1));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let of = |kind: &str| {
        let text = group("g", false, kind);
        Traffic::file(text.as_bytes(), "t", Nanos::from_secs(1), 1).unwrap().over_ipv6().map(|_| ())
    };
    assert_eq!(
        of("kind = 'cbr'\nrate = '1mbit'\nsize = '69'").unwrap_err(),
        "group g: size: expected at least 70 bytes, given 69"
    );
    assert_eq!(
        of("kind = 'udprr'\nrequest = '100'\nresponse = '1453'").unwrap_err(),
        "group g: size: expected at most 1452 bytes, given 1453"
    );
    assert_eq!(of("kind = 'cbr'\nrate = '1mbit'\nsize = '70'"), Ok(()));
    let mut capture = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    capture.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]);
    capture.extend([[7, 0, 0, 0], [0; 4], [14, 0, 0, 0], [60, 0, 0, 0]].concat());
    capture.extend([0; 14]);
    let capture = Traffic::file(&capture, "c.pcap", Nanos::from_secs(1), 1).unwrap();
    assert_eq!(
        capture.over_ipv6().map(|_| ()).unwrap_err(),
        "expected a mix or [[traffic]], given a capture, c.pcap"
    );
}
