//! Links in virtual time: the effects of commands on them, and the fates of packets.

use crate::common::{MS, World};
use txweir_core::Instant;

#[test]
fn a_null_link_takes_everything_at_once() {
    let mut world = World::with(&["add lan"]);
    assert_eq!(
        world.link("send lan --packets 3000"),
        "3000 packets of 1514 bytes: 3000 sent, 0 dropped, 0 queued now\n"
    );
    let expected = serde_json::json!([{
        "name": "lan", "type": "null", "queues": 1, "mtu": 1500, "txqueuelen": 1000, "prio_synack": true,
        "state": "up",
        "submitted": 3000, "packets": 3000, "bytes": 3000 * 1514, "drops": 0, "lost": 0,
        "backlog_packets": 0, "backlog_bytes": 0, "inflight_bytes": 0, "bql": null,
        "drop_reasons": {}, "mark_reasons": {},
    }]);
    let mut shown = world.show("lan");
    // Every counter of the path and of the direction, by its declaration.
    let counted = ["path", "stats", "sums", "delays"].map(|key| shown[0].as_object_mut()?.remove(key));
    let [Some(path), Some(stats), Some(sums), Some(delays)] = counted else { panic!("{shown}") };
    // It took no time in any stage.
    let stage = serde_json::json!({
        "frames": 3000, "sum_ns": 0, "buckets": [{ "below_ns": 1024, "frames": 3000 }],
    });
    assert_eq!(delays, serde_json::json!({ "arrival": stage, "qdisc": stage, "device": stage }));
    assert_eq!((&sums["in"]["generated"], &sums["tx"]["delivered"]), (&3000.into(), &3000.into()));
    assert_eq!((&path["tx_packets"], &stats["departed"]), (&3000.into(), &3000.into()));
    assert_eq!(shown, expected);
}

#[test]
fn drops_are_the_same_number_in_text_and_json_and_have_their_reasons() {
    let mut world = World::with(&["add up --type wire --rate 10mbit"]);
    world.link("send up --packets 2000 --flows 8");
    let shown = world.show("up");
    let reasons = shown[0]["drop_reasons"].as_object().expect("reasons");
    let by_reason: u64 = reasons.values().filter_map(serde_json::Value::as_u64).sum();
    assert!(by_reason > 900 && reasons.contains_key("overlimit"), "{shown}");
    assert_eq!(shown[0]["drops"], by_reason);
    let text = world.link("show up");
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (head, row) = (lines.next().expect("a head"), lines.next().expect("a row"));
    let at = head.iter().position(|name| *name == "DROPS").expect("DROPS");
    assert_eq!(row[at], by_reason.to_string(), "{text}");
}

#[test]
fn a_wire_link_takes_its_time_and_loses_nothing_uncounted() {
    let mut world = World::with(&["add up --type wire --rate 10mbit"]);
    // pfifo_fast lets 1000 packets wait; the byte limit starts at two frames.
    let said = world.link("send up --packets 2000 --flows 8");
    assert!(said.starts_with("2000 packets of 1514 bytes: "), "{said}");
    let drops = world.count("up", "drops");
    assert!((990..1000).contains(&drops), "{drops}");
    // 1538 bytes on the line are 1.2304 ms at 10 Mbit/s.
    world.until(Instant(124 * MS));
    assert_eq!(world.count("up", "packets"), 100);
    let counted =
        ["packets", "drops", "backlog_packets"].map(|key| world.count("up", key)).iter().sum::<u64>();
    let in_flight = world.count("up", "inflight_bytes") / 1514;
    assert!((2000 - in_flight..=2000).contains(&counted), "{counted}, {in_flight}");
    world.until(Instant(3000 * MS));
    let end = ["submitted", "packets", "backlog_packets", "inflight_bytes"].map(|key| world.count("up", key));
    assert_eq!(end, [2000, 2000 - drops, 0, 0]);
}

#[test]
fn a_rate_changes_under_load() {
    let mut world = World::with(&["add up --type wire --rate 1mbit"]);
    world.link("send up --packets 500");
    world.until(Instant(123 * MS));
    let before = world.count("up", "packets");
    assert!((9..=10).contains(&before), "{before}");
    world.link("set up --rate 100mbit");
    world.until(Instant(246 * MS));
    assert_eq!((world.count("up", "packets"), world.count("up", "rate_bit_s")), (500, 100_000_000));
    assert_eq!(
        world.save(),
        "link replace up --type wire --mtu 1500 --txqueuelen 1000 --wire rate=100Mbit\n"
    );
}

#[test]
fn a_link_goes_with_what_is_queued_on_it() {
    let mut world = World::with(&["add up --type wire --rate 1mbit", "add lan"]);
    world.link("send up --packets 500");
    world.until(Instant(50 * MS));
    world.link("del up");
    world.until(Instant(100 * MS));
    assert_eq!(world.save().lines().count(), 1);
    assert_eq!(world.daemon.links().deadline(world.now), None);
}

#[test]
fn refusals_name_the_link_and_change_nothing() {
    let mut world = World::with(&[
        "add a",
        "add w --type wire",
        "add q --queues 4",
        "add j --mtu 9000",
        "add h --type wire --wire rate=1gbit,ring=2048",
    ]);
    for (line, message) in [
        ("add a", "link a: exists already (use set or replace, or delete it first)"),
        ("add none", "link none: this name stands for no link (--peer none)"),
        (
            "add a#b",
            "link a#b: expected a name that can stand in a tc line: no leading -, no quote, backslash or #, given a#b",
        ),
        ("del x", "link x: there is no such link (links: a, w, q, j, h)"),
        ("set x --mtu 100", "link x: there is no such link (links: a, w, q, j, h)"),
        ("show x", "link x: there is no such link (links: a, w, q, j, h)"),
        (
            "add b --type wire --queues 4096 --wire rate=1mbit,ring=4096",
            "link b: wire rings: expected at most 4194304 descriptors in all rings together, given \"16777216\"",
        ),
        (
            "add b --rate 1mbit",
            "link b rate: a null link takes what it is sent at once: expected type wire, tap, packet, xdp, vhost or vxlan",
        ),
        (
            "set a --rate 1mbit",
            "link a rate: a null link takes what it is sent at once: expected type wire, tap, packet, xdp, vhost or vxlan",
        ),
        (
            "add b --if eth0",
            "link b if: expected a link of type tap, packet, xdp, vhost or vxlan, given eth0 for one of type null",
        ),
        (
            "add b --type tap --if packet:eth0",
            "link b if: expected [NETNS/]IF, given packet:eth0 (its type is said by --type)",
        ),
        (
            "add b --type tap --if no-such-if",
            "link b: interface `tap:no-such-if` does not exist: create it first (`ip tuntap add dev no-such-if mode tap`)",
        ),
        ("set a --peer x", "link a peer: link x: there is no such link (links: a, w, q, j, h)"),
        ("set a --peer a", "link a peer: expected another link, given a"),
        (
            "set a --peer w --mtu 7",
            "link a peer: expected two links of type tap, packet, xdp, vhost or vxlan, but a is of type null",
        ),
        (
            "add b --peer w",
            "link b peer: expected two links of type tap, packet, xdp, vhost or vxlan, but b is of type null",
        ),
        (
            "replace a --type wire",
            "link a type: expected null, as it is, given wire (to change it, delete the link and add it)",
        ),
        (
            "set h --queues 4096",
            "link h queues: wire rings: expected at most 4194304 descriptors in all rings together, given \"8388608\"",
        ),
        (
            "replace w --wire rate=1mbit,ring=64",
            "link w wire: expected rate=1Gbit or another rate, as it is, given rate=1Mbit,ring=64 (to change it, delete \
             the link and add it)",
        ),
        ("send a --size 1515", "link a size: expected 42 to 1514 bytes, given 1515"),
        ("send j --packets 3000", "link j packets: expected at most 2751 of 9014 bytes, given 3000"),
    ] {
        assert_eq!(world.refused(line), (2, format!("{message}\n")), "{line}");
    }
    assert_eq!(world.refused("add a/b").0, 1);
}

#[test]
fn what_is_saved_makes_the_same_again() {
    let lines = [
        "add a --mtu 9000 --txqueuelen 0",
        "add b --type wire --wire rate=12345678bit,ring=64,bql=off,latency=5us/20us",
        "add c --queues 16",
        "replace a --mtu 1400",
        "replace b --wire rate=1mbit,ring=64,bql=off,latency=5us/20us",
        "set c --txqueuelen 3000",
    ];
    let mut world = World::with(&lines);
    let saved = world.save();
    assert_eq!(
        saved,
        "link replace a --type null --mtu 1400 --txqueuelen 0\n\
         link replace b --type wire --mtu 1500 --txqueuelen 1000 --wire rate=1Mbit,ring=64,bql=off,latency=5us/20us\n\
         link replace c --type null --queues 16 --mtu 1500 --txqueuelen 3000\n"
    );
    let mut again = World::default();
    // The second round replaces each link by itself, and changes nothing.
    for _ in 0..2 {
        for line in saved.lines() {
            again.link(line.strip_prefix("link ").expect("a link line"));
        }
        assert_eq!(again.save(), saved);
    }
    world.link("del b");
    assert_eq!(world.save().lines().count(), 2);
}

#[test]
fn the_table_is_readable() {
    let mut world = World::with(&["add lan", "add uplink --type wire --rate 50mbit"]);
    world.link("send lan --packets 7 --size 100");
    assert_eq!(
        world.link("show"),
        "\
NAME    TYPE  QUEUES  MTU   TXQLEN  RATE    PEER  STATE  MISSED  PACKETS  BYTES  DROPS  BACKLOG  BQL
lan     null  1       1500  1000    -       -     up     -       7        700    0      0        -
uplink  wire  1       1500  1000    50Mbit  -     up     -       0        0      0      0        0/0
"
    );
    assert_eq!(world.link("show lan").lines().count(), 2);
}

/// A link of several queues has a qdisc for each. Packets go to the queues by the hash of their
/// flow, and below mqprio within the queues of their traffic class.
#[test]
fn a_link_of_several_queues_has_a_qdisc_for_each() {
    let mut world = World::with(&["add eth0 --queues 4"]);
    world.tc("qdisc add dev eth0 root handle 1: mq");
    assert_eq!(world.tc("qdisc show dev eth0").lines().count(), 5);
    world.link("send eth0 --packets 400 --flows 100 --size 100");
    let sent = |world: &mut World, class: &str| -> u64 {
        let text = world.tc(&format!("-s class show dev eth0 classid {class}"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "bytes").expect("counted");
        words[at + 1].parse().expect("packets")
    };
    let each: Vec<u64> = (1..=4).map(|queue| sent(&mut world, &format!("1:{queue}"))).collect();
    assert!(each.iter().all(|n| *n >= 40) && each.iter().sum::<u64>() == 400, "{each:?}");
    let root = world.tc("-s qdisc show dev eth0 root");
    assert!(root.contains(" Sent 40000 bytes 400 pkt (dropped 0,"), "{root}");

    world.tc("qdisc del dev eth0 root");
    world.tc("qdisc add dev eth0 root handle 1: mqprio num_tc 3 map 0 0 0 1 1 1 2 queues 1@0 2@1 1@3 hw 0");
    for (priority, packets) in [(0, 10), (4, 200), (6, 30)] {
        world.link(&format!("send eth0 --packets {packets} --flows 50 --size 100 --priority {priority}"));
    }
    let all = ["1:ffe0", "1:ffe1", "1:ffe2", "1:1", "1:2", "1:3", "1:4"].map(|class| sent(&mut world, class));
    assert_eq!((all[0], all[1], all[2], all[3], all[6]), (10, 200, 30, 10, 30));
    assert!(all[4] > 20 && all[5] > 20 && all[4] + all[5] == 200, "{all:?}");
    // An action at the egress hook has precedence.
    world.tc("qdisc add dev eth0 clsact");
    world.tc("filter add dev eth0 egress matchall action skbedit queue_mapping 3");
    world.link("send eth0 --packets 40 --flows 9 --size 100 --priority 0");
    assert_eq!(["1:ffe0", "1:ffe2", "1:4"].map(|class| sent(&mut world, class)), [10, 70, 70]);
    // As in Linux, an mqprio that the device has to schedule is refused where the device cannot.
    world.tc("qdisc del dev eth0 root");
    let reply = world.try_tc("qdisc add dev eth0 root mqprio num_tc 1 map 0 queues 4@0");
    assert_eq!(reply.status, 2);
    let said = "error[unsupported]: mqprio takes a device that schedules traffic classes itself, given 1";
    assert_eq!(reply.stderr.lines().find(|l| l.starts_with("error")), Some(said));
}

/// Two links and two queues of one of them share one rate, whichever of them have packets to send.
#[test]
fn links_and_queues_share_a_rate_by_its_name() {
    let mut world = World::with(&["add a", "add b --queues 2", "add c"]);
    let tbf = "tbf rate 8mbit burst 10kb limit 10mb shared wan";
    world.tc(&format!("qdisc add dev a root {tbf}"));
    world.tc("qdisc add dev b root handle 1: mq");
    world.tc(&format!("qdisc add dev b parent 1:1 {tbf}"));
    world.tc(&format!("qdisc add dev b parent 1:2 {tbf}"));
    for link in ["a", "b"] {
        world.link(&format!("send {link} --packets 2000 --size 1000 --flows 20"));
    }
    let bytes = |world: &mut World| ["a", "b"].map(|link| world.count(link, "bytes"));
    world.until(Instant(100 * MS));
    let before = bytes(&mut world);
    world.until(Instant(1_100 * MS));
    let after = bytes(&mut world);
    let sent = [after[0] - before[0], after[1] - before[1]];
    // A million bytes in the second, within a packet of each; a third of them each, as b has two
    // queues with packets.
    let sum = sent[0] + sent[1];
    assert!(sum.abs_diff(1_000_000) <= 6_000, "{sent:?}");
    assert!(sent[0].abs_diff(333_333) <= 40_000, "{sent:?}");

    let reply = world.try_tc("qdisc add dev c root tbf rate 9mbit burst 10kb limit 10mb shared wan");
    assert_eq!(reply.status, 2);
    let said = "error[conflict]: qdisc 8001: cannot share: it has rate 9Mbit and a bucket of 10240 bytes";
    assert_eq!(reply.stderr.lines().find(|l| l.starts_with("error")), Some(said));
    // After one link is removed the other has the rate for itself; after all are removed the name
    // is free.
    world.link("del b");
    world.until(Instant(1_200 * MS));
    let before = world.count("a", "bytes");
    world.until(Instant(1_700 * MS));
    let sent = world.count("a", "bytes") - before;
    assert!(sent.abs_diff(500_000) <= 3_000, "{sent}");
    world.link("del a");
    world.tc("qdisc add dev c root tbf rate 9mbit burst 10kb limit 10mb shared wan");
}

/// Queues come and go under load: waiting packets stay, in the new queue of their flow.
#[test]
fn a_link_gets_other_queues_and_loses_nothing() {
    let mut world = World::with(&["add eth0 --queues 2"]);
    world.tc("qdisc add dev eth0 root handle 1: mq");
    for queue in 1..=2 {
        world.tc(&format!("qdisc add dev eth0 parent 1:{queue} tbf rate 8mbit burst 2kb limit 1mb"));
    }
    world.link("send eth0 --packets 400 --flows 40 --size 1000");
    let backlog = |world: &mut World| world.count("eth0", "backlog_packets");
    let before = backlog(&mut world);
    assert!(before > 350, "{before}");
    world.link("set eth0 --queues 4");
    // Packets of the new queues leave at once: a null link accepts them, and no qdisc shapes them.
    let shown = world.tc("qdisc show dev eth0");
    assert_eq!(shown.lines().filter(|line| line.starts_with("qdisc pfifo_fast 0: parent 1:")).count(), 2);
    assert_eq!(world.tc("class show dev eth0 parent 1:").lines().count(), 4);
    let now = backlog(&mut world);
    assert!(now > 100 && now < before - 100, "{now} of {before}");
    world.link("set eth0 --queues 2");
    assert_eq!(world.tc("class show dev eth0 parent 1:").lines().count(), 2);
    world.until(Instant(2_000 * MS));
    assert_eq!(["packets", "drops", "backlog_packets"].map(|key| world.count("eth0", key)), [400, 0, 0]);
    // The options of the root must hold.
    world.tc("qdisc replace dev eth0 root handle 2: mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0");
    let said =
        "link eth0 queues: mqprio: expected a device with several transmit queues, given \"one queue\"\n";
    assert_eq!(world.refused("set eth0 --queues 1"), (2, said.into()));
    world.link("replace eth0 --queues 3");
    assert_eq!(
        world.save().lines().next(),
        Some("link replace eth0 --type null --queues 3 --mtu 1500 --txqueuelen 1000")
    );
}

/// The marking of TCP control segments is switched off and on while a link runs, is shown, and is
/// saved where it is off.
#[test]
fn prio_synack_is_switched_shown_and_saved() {
    let mut world = World::with(&["add lan"]);
    assert_eq!(world.show("lan")[0]["prio_synack"], true);
    world.link("set lan --prio-synack off");
    assert_eq!(world.show("lan")[0]["prio_synack"], false);
    let off = "link replace lan --type null --mtu 1500 --txqueuelen 1000 --prio-synack off\n";
    assert_eq!(world.save(), off);
    world.link("set lan --mtu 1400");
    assert_eq!(world.show("lan")[0]["prio_synack"], false);
    world.link("set lan --prio-synack on");
    assert_eq!(world.save(), "link replace lan --type null --mtu 1400 --txqueuelen 1000\n");
}

#[test]
fn flows_of_a_link_take_turns_from_when_it_is_said() {
    let mut world = World::with(&["add w --type wire --rate 10mbit --txqueuelen 1000"]);
    let gate = |world: &mut World| {
        let shown: serde_json::Value = serde_json::from_str(&world.link("show w -j")).unwrap();
        shown[0].get("gate").map(|gate| (gate["fairsend"].clone(), gate["waiting"].clone()))
    };
    assert_eq!(gate(&mut world), None);
    assert!(!world.save().contains("fairsend"));
    world.link("set w --fairsend 4");
    assert!(
        world.save().contains("link replace w --type wire --mtu 1500 --txqueuelen 1000 --fairsend 4 --wire ")
    );
    // Ten packets of each of ten flows: the wire has some, the qdisc four of each, and the rest
    // waits.
    world.link("send w --packets 100 --flows 10");
    let (fairsend, waiting) = gate(&mut world).unwrap();
    let waiting = waiting.as_u64().unwrap();
    assert!(fairsend == 4 && (20..60).contains(&waiting), "{waiting}");
    // More packets than places: generated packets cannot wait elsewhere.
    let said = world.link("send w --packets 1200 --flows 1");
    assert!(said.contains(" dropped") && !said.contains(" 0 dropped"), "{said}");
    let again = world.save();
    world.link(again.lines().next().unwrap().trim_start_matches("link "));
    assert_eq!(world.save(), again);
    world.link("set w --fairsend 0");
    assert!(!world.save().contains("fairsend"));
    assert_eq!(
        world.refused("set w --fairsend four"),
        (1, "link: invalid value 'four' for '--fairsend <N>': expected 0 to 4294967295\n".to_owned())
    );
}
