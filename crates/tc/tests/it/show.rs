//! The output of `show` against that of tc (iproute2) for the same qdiscs.

use txweir_core::model::testing::VecDevice;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, DqlConfig, Ecn, Env, Handle, Instant, Meta, PathConfig, Role, Tree, TxPath, Wake, sched::cx::Cx,
};
use txweir_tc::{Policy, show};

fn tree(policy: &str) -> Tree {
    let mut tree = Tree::new(Env::default());
    let policy = Policy::parse(policy, "p").unwrap_or_else(|e| panic!("{e}"));
    policy.apply(&mut tree, &mut Cx::new(1, 0)).unwrap_or_else(|e| panic!("{e}"));
    tree
}

fn text(policy: &str) -> String {
    show::text(&tree(policy), Some("eth0"), false)
}

fn json(policy: &str) -> String {
    show::json(&tree(policy), Some("eth0"), false)
}

#[test]
fn one_line_for_each_kind() {
    for (options, shown) in [
        ("pfifo limit 33", "pfifo 8001: dev eth0 root refcnt 2 limit 33p"),
        ("bfifo limit 100kb", "bfifo 8001: dev eth0 root refcnt 2 limit 100Kb"),
        ("pfifo_head_drop", "pfifo_head_drop 8001: dev eth0 root refcnt 2 limit 1000p"),
        (
            "pfifo_fast",
            "pfifo_fast 8001: dev eth0 root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
        ),
        ("prio", "prio 8001: dev eth0 root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"),
        (
            "prio bands 4 priomap 1 1 2 2 3 3 0 0 1 2 3 0 0 0 0 0",
            "prio 8001: dev eth0 root refcnt 2 bands 4 priomap 1 1 2 2 3 3 0 0 1 2 3 0 0 0 0 0",
        ),
        (
            "fq_codel",
            "fq_codel 8001: dev eth0 root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms \
            interval 100ms memory_limit 32Mb ecn drop_batch 64 ",
        ),
        (
            "fq_codel noecn ce_threshold 1.024s memory_limit 100000 limit 1000",
            "fq_codel 8001: dev eth0 root refcnt 2 limit 1000p flows 1024 quantum 1514 target 5ms ce_threshold \
            1.02s interval 100ms memory_limit 100000b drop_batch 64 ",
        ),
        (
            "cake",
            "cake 8001: dev eth0 root refcnt 2 bandwidth unlimited diffserv3 triple-isolate nonat nowash \
            no-ack-filter split-gso rtt 100ms raw overhead 0 ",
        ),
        (
            "cake bandwidth 10mbit autorate-ingress diffserv4 dual-srchost nat wash ingress ack-filter-aggressive \
            no-split-gso lan ethernet ether-vlan memlimit 32mb fwmark 0xff",
            "cake 8001: dev eth0 root refcnt 2 bandwidth 10Mbit autorate-ingress diffserv4 dual-srchost nat wash \
            ingress ack-filter-aggressive no-split-gso rtt 1ms noatm overhead 42 mpu 84 memlimit 32Mb fwmark 0xff ",
        ),
        (
            "cake interplanetary raw atm overhead -4 besteffort flowblind",
            "cake 8001: dev eth0 root refcnt 2 bandwidth unlimited besteffort flowblind nonat nowash \
            no-ack-filter split-gso rtt 1e+03s raw atm overhead -4 ",
        ),
        ("codel", "codel 8001: dev eth0 root refcnt 2 limit 1000p target 5ms interval 100ms "),
        (
            "codel ecn limit 1500",
            "codel 8001: dev eth0 root refcnt 2 limit 1500p target 5ms interval 100ms ecn ",
        ),
        (
            "tbf rate 1mbit burst 5kb latency 50ms",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Mbit burst 5Kb lat 50ms ",
        ),
        (
            "tbf rate 1mbit burst 5kb limit 10000 peakrate 2mbit mtu 1540 mpu 64 overhead 24",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Mbit burst 5144b peakrate 2Mbit minburst 1564b lat 38.8ms \
            overhead 24 ",
        ),
        (
            "tbf rate 1mbit burst 500kb limit 10000",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Mbit burst 500Kb limit 10000b ",
        ),
        (
            "tbf rate 1mbit burst 5kb limit 6kb mpu 8000",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Mbit burst 8000b limit 6Kb ",
        ),
        (
            "tbf rate 1mbit burst 5kb limit 5kb",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Mbit burst 5Kb lat 0us ",
        ),
        (
            "tbf rate 1000 burst 5kb latency 50ms",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Kbit burst 5Kb lat 48ms ",
        ),
        (
            "tbf rate 1mbit burst 5kb limit 6kb peakrate 1001kbit mtu 4000",
            "tbf 8001: dev eth0 root refcnt 2 rate 1Mbit burst 5Kb peakrate 1001Kbit minburst 3999b lat 17.1ms ",
        ),
    ] {
        assert_eq!(text(&format!("qdisc add root {options}")), format!("qdisc {shown}\n"), "{options}");
    }
    assert_eq!(
        show::text(&Tree::new(Env::default()), None, false),
        "qdisc pfifo_fast 0: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n"
    );
}

#[test]
fn json_for_each_kind() {
    for (options, shown) in [
        ("pfifo limit 33", r#""options":{"limit":33}"#),
        ("bfifo limit 100kb", r#""options":{"limit":102400}"#),
        (
            "pfifo_fast",
            r#""options":{"bands":3,"priomap":[1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1],"multiqueue":false}"#,
        ),
        ("prio", r#""options":{"bands":3,"priomap":[1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1],"multiqueue":false}"#),
        (
            "fq_codel",
            concat!(
                r#""options":{"limit":10240,"flows":1024,"quantum":1514,"target":4999,"#,
                r#""interval":99999,"memory_limit":33554432,"ecn":true,"drop_batch":64}"#
            ),
        ),
        (
            "cake bandwidth 8mbit atm overhead -4 mpu 64 memlimit 1kb fwmark 4 ack-filter",
            concat!(
                r#""options":{"bandwidth":1000000,"diffserv":"diffserv3","flowmode":"triple-isolate","nat":false,"#,
                r#""wash":false,"ingress":false,"ack-filter":"enabled","split_gso":true,"rtt":100000,"raw":false,"#,
                r#""atm":"atm","overhead":-4,"mpu":64,"memlimit":1024,"fwmark":"0x4"}"#
            ),
        ),
        (
            "cake autorate-ingress",
            concat!(
                r#""options":{"bandwidth":"unlimited","autorate":"autorate-ingress","diffserv":"diffserv3","#,
                r#""flowmode":"triple-isolate","nat":false,"wash":false,"ingress":false,"ack-filter":"disabled","#,
                r#""split_gso":true,"rtt":100000,"raw":true,"overhead":0,"fwmark":"0"}"#
            ),
        ),
        ("codel", r#""options":{"limit":1000,"target":4999,"interval":99999}"#),
        (
            "ets bands 4 strict 2 quanta 1000 priomap 0 1 2",
            r#""options":{"bands":4,"strict":2,"quanta":[1000,1514],"priomap":[0,1,2,3,3,3,3,3,3,3,3,3,3,3,3,3]}"#,
        ),
        ("ets strict 2", r#""options":{"bands":2,"strict":2,"priomap":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}"#),
        ("tbf rate 1mbit burst 5kb latency 50ms", r#""options":{"rate":125000,"burst":5120,"lat":50000}"#),
        (
            "tbf rate 1mbit burst 5kb limit 10000 peakrate 2mbit mtu 1540 mpu 64 overhead 24",
            r#""options":{"rate":125000,"burst":5144,"minburst":1564,"lat":38848,"overhead":24}"#,
        ),
        (
            "tbf rate 1mbit burst 500kb limit 10000",
            r#""options":{"rate":125000,"burst":512000,"limit":10000}"#,
        ),
    ] {
        let kind = options.split(' ').next().unwrap();
        let head = format!(r#"[{{"kind":"{kind}","handle":"8001:","dev":"eth0","root":true,"refcnt":2,"#);
        assert_eq!(json(&format!("qdisc add root {options}")), format!("{head}{shown}}}]"), "{options}");
    }
}

#[test]
fn what_was_added_below_a_class_is_shown_and_the_defaults_are_not() {
    let policy = "qdisc add root handle 1: tbf rate 1mbit burst 5kb latency 50ms\n\
                  qdisc add parent 1:1 handle 10: prio\n\
                  qdisc add parent 10:3 handle 11: bfifo limit 100kb";
    assert_eq!(
        show::text(&tree(policy), None, true),
        "qdisc tbf 1: root refcnt 2 rate 1Mbit burst 5Kb lat 50ms \n \
          Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
          backlog 0b 0p requeues 0\n\
         qdisc prio 10: parent 1:1 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n \
          Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
          backlog 0b 0p requeues 0\n\
         qdisc bfifo 11: parent 10:3 limit 100Kb\n \
          Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
          backlog 0b 0p requeues 0\n"
    );
    assert_eq!(
        show::json(
            &tree(
                "qdisc add root handle 1: tbf rate 1mbit burst 5kb latency 50ms\n\
                          qdisc add parent 1:1 handle 10: pfifo limit 33"
            ),
            None,
            true
        ),
        // The text is that of tc -s -j (iproute2 6.1), apart from the reference count.
        concat!(
            r#"[{"kind":"tbf","handle":"1:","root":true,"refcnt":2,"options":{"rate":125000,"burst":5120,"lat":50000},"#,
            r#""bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},"#,
            r#"{"kind":"pfifo","handle":"10:","parent":"1:1","options":{"limit":33},"bytes":0,"packets":0,"drops":0,"#,
            r#""overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#
        )
    );
}

/// Returns a forwarder whose device has no slots, so that all packets wait.
fn stalled(policy: &str) -> (TxPath<u32>, VecDevice<u32>) {
    let config =
        PathConfig { role: Role::Forwarder, pool: 64, bql: None::<DqlConfig>, ..PathConfig::default() };
    let mut path = TxPath::new(config).expect("a path");
    let mut device = VecDevice::with_slots(0);
    let policy = Policy::parse(policy, "p").unwrap_or_else(|e| panic!("{e}"));
    path.configure(Instant::ZERO, &mut device, |tree, cx| policy.apply(tree, cx))
        .unwrap_or_else(|e| panic!("{e}"));
    (path, device)
}

#[test]
fn statistics_count_what_happened() {
    let (mut path, mut device) = stalled("qdisc add root handle 1: pfifo limit 3");
    for n in 0..5 {
        let _ = path.submit(Instant::ZERO, n, Meta::new(1000), &mut device);
    }
    device.set_slots(2);
    assert_eq!(path.drain(Instant::ZERO, 64, &mut device), Wake::Device);
    let super_packet = Meta::new(54 + 3000).gso(54, 1000);
    assert_eq!(path.submit(Instant::ZERO, 9, super_packet, &mut device), Admitted::Queued);
    assert_eq!(
        show::text(path.tree(), None, true),
        "qdisc pfifo 1: root refcnt 2 limit 3p\n \
          Sent 2000 bytes 2 pkt (dropped 2, overlimits 0 requeues 0) \n \
          backlog 4162b 2p requeues 0\n"
    );
    // As in tc, a super-packet of three segments counts as three packets after it is sent.
    device.set_slots(4);
    assert_eq!(path.drain(Instant::ZERO, 64, &mut device), Wake::Idle);
    assert!(show::json(path.tree(), None, true).contains(r#""bytes":6162,"packets":6,"drops":2,"#));
}

/// Linux does not report the reasons of drops and marks. The engine prints them behind the fields
/// of Linux, and only if a count is not zero.
#[test]
fn drops_and_marks_are_told_by_reason_in_json() {
    let policy = "qdisc add root handle 1: prio bands 2 priomap 0 1\n\
                  qdisc add parent 1:1 handle 10: pfifo limit 3\n\
                  qdisc add parent 1:2 handle 20: codel ecn ce_threshold 1ms";
    let (mut path, mut device) = stalled(policy);
    let untouched = show::json(path.tree(), None, true);
    assert!(!untouched.contains("reasons"), "{untouched}");
    for n in 0..5 {
        let _ = path.submit(Instant::ZERO, n, Meta::new(1000).priority(0x10001), &mut device);
        let _ =
            path.submit(Instant::ZERO, 10 + n, Meta::new(1000).priority(0x10002).ecn(Ecn::Ect0), &mut device);
    }
    device.set_slots(99);
    assert_eq!(path.drain(Instant(5_000_000), 64, &mut device), Wake::Idle);
    let shown = show::json(path.tree(), None, true);
    let qdiscs: Vec<&str> = shown.split(r#"{"kind":"#).skip(1).collect();
    let end = |s: &str| s.trim_end_matches([',', ']']).to_string();
    let (overlimit, threshold) =
        (r#""drop_reasons":{"overlimit":2}"#, r#""mark_reasons":{"ce_threshold":5}"#);
    let linux = r#""linux_drop_reasons":{"OVERLIMIT":2}"#;
    assert!(end(qdiscs[0]).ends_with(&format!(r#""qlen":0,{overlimit},{threshold},{linux}}}"#)), "{shown}");
    assert!(end(qdiscs[1]).ends_with(&format!(r#""qlen":0,{overlimit},{linux}}}"#)), "{shown}");
    assert!(end(qdiscs[2]).ends_with(&format!("{threshold}}}")), "{shown}");
    assert!(!end(qdiscs[2]).contains("drop_reasons"), "{shown}");
    // Text and output without statistics have no reasons.
    assert!(!show::json(path.tree(), None, false).contains("reasons"));
    assert!(!show::text(path.tree(), None, true).contains("reason"));
}

#[test]
fn overlimits_are_those_of_the_shaper() {
    let (mut path, mut device) = stalled("qdisc add root handle 1: tbf rate 8kbit burst 1000 limit 9000");
    device.set_slots(9);
    for n in 0..3 {
        let _ = path.submit(Instant::ZERO, n, Meta::new(1000), &mut device);
        let _ = path.drain(Instant::ZERO, 64, &mut device);
    }
    assert_eq!(
        show::text(path.tree(), None, true),
        "qdisc tbf 1: root refcnt 2 rate 8Kbit burst 1000b lat 8s \n \
          Sent 1000 bytes 1 pkt (dropped 0, overlimits 2 requeues 0) \n \
          backlog 2000b 2p requeues 0\n"
    );
    for s in 1..3 {
        let _ = path.drain(Instant::from_secs(s), 64, &mut device);
    }
    assert!(show::text(path.tree(), None, true).ends_with(" backlog 0b 0p requeues 0\n"));
}

#[test]
fn counters_of_the_kinds_that_have_some() {
    let (mut path, mut device) = stalled("qdisc add root handle 1: fq_codel flows 8 limit 4 drop_batch 1");
    for n in 0..5 {
        let _ = path.submit(Instant::ZERO, n, Meta::new(1000).hash(n << 29), &mut device);
    }
    assert_eq!(
        show::text(path.tree(), None, true).lines().skip(2).collect::<Vec<_>>(),
        [
            " backlog 4000b 4p requeues 0",
            "  maxpacket 0 drop_overlimit 1 new_flow_count 5 ecn_mark 0 memory_used 4256",
            "  new_flows_len 5 old_flows_len 0",
        ]
    );
    assert!(show::json(path.tree(), None, true).ends_with(concat!(
        r#""backlog":4000,"qlen":4,"maxpacket":0,"drop_overlimit":1,"new_flow_count":5,"ecn_mark":0,"#,
        r#""memory_used":4256,"new_flows_len":5,"old_flows_len":0,"#,
        r#""drop_reasons":{"flow_overlimit":1},"linux_drop_reasons":{"OVERLIMIT":1}}]"#
    )));

    let (mut path, mut device) = stalled("qdisc add root handle 1: codel ecn");
    for n in 0..6 {
        let m = Meta::new(1000).ecn(Ecn::Ect0);
        let _ = path.submit(Instant::ZERO, n, m, &mut device);
    }
    device.set_slots(1);
    let _ = path.drain(Instant::from_millis(20), 64, &mut device);
    assert_eq!(
        show::text(path.tree(), None, true).lines().skip(3).collect::<Vec<_>>(),
        ["  count 0 lastcount 0 ldelay 20ms drop_next 0us", "  maxpacket 1000 ecn_mark 0 drop_overlimit 0"]
    );
    device.set_slots(3);
    let _ = path.drain(Instant::from_millis(130), 64, &mut device);
    let shown = show::text(path.tree(), None, true);
    assert!(shown.contains("  count 1 lastcount 1 ldelay 130ms dropping drop_next 100ms\n"), "{shown}");
    assert!(show::json(path.tree(), None, true).contains(r#""dropping":true,"drop_next":"#));
}

/// The expected text is that of iproute2 6.1 on Linux 6.12.
#[test]
fn the_table_of_cakes_tins() {
    let tree = tree("qdisc add root handle 1: cake bandwidth 10mbit diffserv4");
    let lines = [
        "qdisc cake 1: root refcnt 2 bandwidth 10Mbit diffserv4 triple-isolate nonat nowash no-ack-filter split-gso rtt \
         100ms raw overhead 0 ",
        " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) ",
        " backlog 0b 0p requeues 0",
        " memory used: 0b of 4Mb",
        " capacity estimate: 10Mbit",
        " min/max network layer size:        65535 /       0",
        " min/max overhead-adjusted size:    65535 /       0",
        " average network hdr offset:            0",
        "",
        "                   Bulk  Best Effort        Video        Voice",
        "  thresh        625Kbit       10Mbit        5Mbit     2500Kbit",
        "  target         29.1ms          5ms          5ms       7.27ms",
        "  interval        124ms        100ms        100ms        102ms",
        "  pk_delay          0us          0us          0us          0us",
        "  av_delay          0us          0us          0us          0us",
        "  sp_delay          0us          0us          0us          0us",
        "  backlog            0b           0b           0b           0b",
        "  pkts                0            0            0            0",
        "  bytes               0            0            0            0",
        "  way_inds            0            0            0            0",
        "  way_miss            0            0            0            0",
        "  way_cols            0            0            0            0",
        "  drops               0            0            0            0",
        "  marks               0            0            0            0",
        "  ack_drop            0            0            0            0",
        "  sp_flows            0            0            0            0",
        "  bk_flows            0            0            0            0",
        "  un_flows            0            0            0            0",
        "  max_len             0            0            0            0",
        "  quantum           300          305          300          300",
        "",
    ];
    assert_eq!(show::text(&tree, None, true), lines.join("\n") + "\n");
    assert!(show::json(&tree, None, true).ends_with(concat!(
        r#""bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"memory_used":"#,
        r#"0,"memory_limit":4194304,"capacity_estimate":1250000,"min_network_size":65535,"max_network_size"#,
        r#"":0,"min_adj_size":65535,"max_adj_size":0,"avg_hdr_offset":0,"tins":[{"threshold_rate":78125,"s"#,
        r#"ent_bytes":0,"backlog_bytes":0,"target_us":29068,"interval_us":124068,"peak_delay_us":0,"avg_de"#,
        r#"lay_us":0,"base_delay_us":0,"sent_packets":0,"way_indirect_hits":0,"way_misses":0,"way_collisio"#,
        r#"ns":0,"drops":0,"ecn_mark":0,"ack_drops":0,"sparse_flows":0,"bulk_flows":0,"unresponsive_flows""#,
        r#":0,"max_pkt_len":0,"flow_quantum":300},{"threshold_rate":1250000,"sent_bytes":0,"backlog_bytes""#,
        r#":0,"target_us":5000,"interval_us":100000,"peak_delay_us":0,"avg_delay_us":0,"base_delay_us":0,""#,
        r#"sent_packets":0,"way_indirect_hits":0,"way_misses":0,"way_collisions":0,"drops":0,"ecn_mark":0,"#,
        r#""ack_drops":0,"sparse_flows":0,"bulk_flows":0,"unresponsive_flows":0,"max_pkt_len":0,"flow_quan"#,
        r#"tum":305},{"threshold_rate":625000,"sent_bytes":0,"backlog_bytes":0,"target_us":5000,"interval_"#,
        r#"us":100000,"peak_delay_us":0,"avg_delay_us":0,"base_delay_us":0,"sent_packets":0,"way_indirect_"#,
        r#"hits":0,"way_misses":0,"way_collisions":0,"drops":0,"ecn_mark":0,"ack_drops":0,"sparse_flows":0"#,
        r#","bulk_flows":0,"unresponsive_flows":0,"max_pkt_len":0,"flow_quantum":300},{"threshold_rate":31"#,
        r#"2500,"sent_bytes":0,"backlog_bytes":0,"target_us":7267,"interval_us":102267,"peak_delay_us":0,""#,
        r#"avg_delay_us":0,"base_delay_us":0,"sent_packets":0,"way_indirect_hits":0,"way_misses":0,"way_co"#,
        r#"llisions":0,"drops":0,"ecn_mark":0,"ack_drops":0,"sparse_flows":0,"bulk_flows":0,"unresponsive_"#,
        r#"flows":0,"max_pkt_len":0,"flow_quantum":300}]}"#,
        "]"
    )));
}

#[test]
fn a_refused_policy_leaves_the_packets_where_they_are() {
    let (mut path, mut device) = stalled("qdisc add root handle 1: prio");
    for n in 0..3 {
        let _ = path.submit(Instant::ZERO, n, Meta::new(1000), &mut device);
    }
    let before = show::text(path.tree(), None, true);
    let policy = "qdisc replace root handle 2: pfifo limit 9\nqdisc add parent 2:1 pfifo";
    let policy = Policy::parse(policy, "p").expect("good in itself");
    let applied = path.configure(Instant::ZERO, &mut device, |tree, cx| policy.apply(tree, cx));
    assert_eq!(applied.unwrap_err().brief(), "p:2:18: there is no class 2:1 (there are no classes)");
    assert_eq!(show::text(path.tree(), None, true), before);
    device.set_slots(3);
    assert_eq!(path.drain(Instant::ZERO, 64, &mut device), Wake::Idle);
    assert_eq!((device.sent(), device.discarded().len()), (&[0, 1, 2][..], 0));
}

/// Row multiq-json of PARITY.md: tc prints this as text in the middle of its JSON.
#[test]
fn multiq_in_text_and_json() {
    let mut cx = Cx::new(1, 0);
    let mut tree = Tree::new(Env { queues: 4, ..Env::default() });
    tree.edit(&mut cx).add(Handle::ROOT, Some(Handle::new(1, 0)), "multiq", &mut Words::new(&[])).unwrap();
    assert_eq!(show::text(&tree, None, false), "qdisc multiq 1: root refcnt 2 bands 4/4 \n");
    let json = r#"[{"kind":"multiq","handle":"1:","root":true,"refcnt":2,"options":{"bands":4}}]"#;
    assert_eq!(show::json(&tree, None, false), json);
}

/// cbs-child-shown
#[test]
fn the_default_qdisc_of_cbs_is_listed_below_it() {
    let mut cx = Cx::new(1, 0);
    let mut tree = Tree::new(Env::default());
    tree.edit(&mut cx).add(Handle::ROOT, Some(Handle::new(1, 0)), "cbs", &mut Words::new(&[])).unwrap();
    let own = "qdisc cbs 1: root refcnt 2 hicredit 0 locredit 0 sendslope 0 idleslope 0 offload 0 \n";
    let child = "qdisc pfifo 0: parent 1: limit 1000p\n";
    assert_eq!(show::text(&tree, None, false), format!("{own}{child}"));
    let class = Handle::new(1, 1);
    let words = &mut Words::new(&["limit", "7"]);
    tree.edit(&mut cx).add(class, Some(Handle::new(2, 0)), "pfifo", words).unwrap();
    assert_eq!(show::text(&tree, None, false), format!("{own}qdisc pfifo 2: parent 1:1 limit 7p\n"));
    tree.edit(&mut cx).delete(class).unwrap();
    assert_eq!(show::text(&tree, None, false), format!("{own}{child}"));
}

#[test]
fn fq_is_shown_as_tc_shows_it() {
    for (options, shown) in [
        (
            "fq",
            "limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 quantum 3028b initial_quantum 15140b \
             low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us horizon 10s horizon_drop ",
        ),
        (
            "fq nopacing maxrate 10mbit timer_slack 0 ce_threshold 1ms horizon_cap horizon 2s buckets 1000 \
             orphan_mask 7 low_rate_threshold 0 refill_delay 100ms quantum 1048577",
            "limit 10000p flow_limit 100p buckets 1024 orphan_mask 7 nopacing quantum 1Mb initial_quantum 15140b \
             maxrate 10Mbit refill_delay 100ms ce_threshold 1ms timer_slack 0ns horizon 2s horizon_cap ",
        ),
        (
            "fq timer_slack 4.5us ce_threshold 0 horizon 4000s maxrate 34359738360",
            "limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 quantum 3028b initial_quantum 15140b \
             low_rate_threshold 550Kbit refill_delay 40ms ce_threshold 0us timer_slack 4.5us horizon 4e+03s \
             horizon_drop ",
        ),
        (
            "fq bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 weights 20000 30000 40000 offload_horizon 1ms",
            "limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 \
             weights 20000 30000 40000 quantum 3028b initial_quantum 15140b low_rate_threshold 550Kbit refill_delay \
             40ms timer_slack 10us horizon 10s horizon_drop offload_horizon 1ms ",
        ),
    ] {
        let line = format!("qdisc fq 8001: dev eth0 root refcnt 2 {shown}\n");
        assert_eq!(text(&format!("qdisc add root {options}")), line, "{options}");
    }
    for (options, shown) in [
        (
            "fq",
            concat!(
                r#"{"limit":10000,"flow_limit":100,"buckets":1024,"orphan_mask":1023,"quantum":3028,"#,
                r#""initial_quantum":15140,"low_rate_threshold":68750,"refill_delay":40000,"timer_slack":10000,"#,
                r#""horizon":10000000,"horizon_drop":null}"#
            ),
        ),
        (
            "fq nopacing maxrate 10mbit timer_slack 0 ce_threshold 1ms horizon_cap low_rate_threshold 0",
            concat!(
                r#"{"limit":10000,"flow_limit":100,"buckets":1024,"orphan_mask":1023,"pacing":false,"quantum":3028,"#,
                r#""initial_quantum":15140,"maxrate":1250000,"refill_delay":40000,"ce_threshold":1000,"timer_slack":0,"#,
                r#""horizon":10000000,"horizon_cap":null}"#
            ),
        ),
    ] {
        let object = json(&format!("qdisc add root {options}"));
        assert!(object.ends_with(&format!(r#""options":{shown}}}]"#)), "{options}: {object}");
    }
}

#[test]
fn fq_counts_as_tc_does() {
    let (mut path, mut device) =
        stalled("qdisc add root handle 1: fq maxrate 4kbit flow_limit 2 ce_threshold 0 horizon 10ms");
    device.set_slots(64);
    let mut put = |now, n, m: Meta| {
        let _ = path.submit(Instant(now), n, m, &mut device);
        let _ = path.drain(Instant(now), 64, &mut device);
    };
    put(1, 0, Meta::new(1000).hash(1));
    put(1, 1, Meta::new(1000).hash(1));
    put(1, 2, Meta::new(1000).hash(1));
    put(1, 3, Meta::new(1000).hash(1));
    put(1, 4, Meta::new(1000).hash(2).txtime(Instant(1_000_000_000)));
    put(50_012_161, 5, Meta::new(400).hash(3));
    assert_eq!(
        show::text(path.tree(), None, true).lines().skip(1).collect::<Vec<_>>(),
        [
            " Sent 1400 bytes 2 pkt (dropped 2, overlimits 0 requeues 0) ",
            " backlog 2000b 2p requeues 0",
            "  flows 2 (inactive 1 throttled 1) next_packet_delay 950ms",
            "  gc 0 highprio 0 throttled 1 flows_plimit 1",
            " pkts_too_long 1 horizon_drops 1",
        ]
    );
    assert!(show::json(path.tree(), None, true).ends_with(concat!(
        r#""qlen":2,"flows":2,"inactive":1,"throttled":1,"next_packet_delay":949987840,"gc":0,"highprio":0,"#,
        r#""throttled":1,"flows_plimit":1,"pkts_too_long":1,"horizon_drops":1,"#,
        r#""drop_reasons":{"flow_limit":1,"horizon":1},"#,
        r#""linux_drop_reasons":{"FLOW_LIMIT":1,"HORIZON_LIMIT":1}}]"#
    )));
    let _ = path.drain(Instant(1_000_000_129), 64, &mut device);
    assert_eq!(
        show::text(path.tree(), None, true).lines().skip(3).collect::<Vec<_>>(),
        [
            "  flows 2 (inactive 1 throttled 1) next_packet_delay 1e+03ms",
            "  gc 0 highprio 0 throttled 2 latency 16ns ce_mark 1 flows_plimit 1",
            " pkts_too_long 2 horizon_drops 1",
        ]
    );

    let (mut path, mut device) = stalled("qdisc add root handle 1: fq horizon 10ms horizon_cap");
    let _ = path.submit(Instant(1), 0, Meta::new(1000).txtime(Instant(20_000_000)), &mut device);
    device.set_slots(1);
    let _ = path.drain(Instant(1_010_001), 64, &mut device);
    assert_eq!(
        show::text(path.tree(), None, true).lines().skip(3).collect::<Vec<_>>(),
        [
            "  flows 1 (inactive 0 throttled 1) next_packet_delay 8.99ms",
            "  gc 0 highprio 0 throttled 1",
            "  horizon_caps 1",
        ]
    );
}
