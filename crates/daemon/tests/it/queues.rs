//! Links of several transmit queues in virtual time: each queue has its own qdiscs, byte limit and
//! ring.

use crate::common::{MS, World};
use txweir_core::sched::schedule::{ClassConfig, LineConfig, Service};
use txweir_core::{Instant, Rate};

/// Returns the bytes and packets that a class or a qdisc has sent, as `show` prints them.
fn sent(world: &mut World, show: &str) -> [u64; 2] {
    let text = world.tc(&format!("-s {show}"));
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|w| *w == "Sent").unwrap_or_else(|| panic!("{show}: {text}"));
    [1, 3].map(|n| words[at + n].parse().expect("a number"))
}

fn class(world: &mut World, class: &str) -> [u64; 2] {
    sent(world, &format!("class show dev up classid {class}"))
}

fn per_queue(world: &mut World, key: &str) -> Vec<u64> {
    let shown = world.show("up");
    let queues = shown[0]["per_queue"].as_array().expect("queues").clone();
    queues.iter().map(|q| q[key].as_u64().expect("a number")).collect()
}

fn plus(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

/// I7: the queues' counters add up to those of the device, packets that never waited included.
#[test]
fn the_queues_of_a_wire_link_count_what_the_link_counts() {
    let mut world = World::with(&["add up --type wire --rate 100mbit --queues 4"]);
    // As in Linux: mq, and in each queue the qdisc of a device with one queue.
    assert_eq!(
        world.tc("qdisc show dev up"),
        "qdisc mq 0: root \n".to_string()
            + &(1..=4)
                .rev()
                .map(|n| format!(
                    "qdisc pfifo_fast 0: parent :{n} bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n"
                ))
                .collect::<String>()
    );
    assert_eq!(
        world.tc("class show dev up"),
        "class mq :1 root \nclass mq :2 root \nclass mq :3 root \nclass mq :4 root \n"
    );
    world.tc("qdisc add dev up root handle 1: mq");
    world.tc("qdisc add dev up parent 1:2 handle 20: fq_codel");
    world.tc("qdisc add dev up parent 1:3 handle 30: prio");
    world.tc("qdisc add dev up parent 1:4 handle 40: tbf rate 5mbit burst 4kb limit 50kb");
    world.link("send up --packets 600 --flows 60 --size 1000");
    // 600 packets of 1024 bytes on the line are 49 ms.
    for at in [0, 3, 7, 20, 2_000] {
        world.until(Instant(at * MS));
        let each = [1, 2, 3, 4].map(|n| class(&mut world, &format!("1:{n}")));
        let sum = each.into_iter().fold([0; 2], plus);
        assert_eq!(sent(&mut world, "qdisc show dev up root"), sum, "{at} ms");
        let given: u64 = per_queue(&mut world, "packets").iter().sum();
        assert_eq!(given, sum[1], "{at} ms");
        let [packets, backlog, drops] =
            ["packets", "backlog_packets", "drops"].map(|key| world.count("up", key));
        assert_eq!(given + backlog + drops, 600, "{at} ms");
        assert!(packets <= given, "{at} ms: {packets} of {given}");
    }
    // The shaper lets 50 packets wait. Every queue had packets, and the transparent qdiscs let the
    // first leave at once.
    let direct = per_queue(&mut world, "direct");
    assert!(direct[..2].iter().all(|n| *n > 0), "{direct:?}");
    let packets = per_queue(&mut world, "packets");
    // The flows of a queue depend on the key of the hash, which is secret and different each time.
    // A queue without any flow has a probability of 10^-7.
    assert!(packets.iter().all(|n| *n > 0), "{packets:?}");
    assert_eq!(world.count("up", "packets") + world.count("up", "drops"), 600);
    // A leaf counts the same as its class.
    for (minor, handle) in [(2, 20), (3, 30), (4, 40)] {
        let leaf = sent(&mut world, &format!("qdisc show dev up handle {handle}:"));
        assert_eq!(leaf, class(&mut world, &format!("1:{minor}")));
    }
    // Each queue has a byte limit of its own, and the link shows their sum.
    let shown = world.show("up");
    let limits: u64 =
        (0..4).map(|n| shown[0]["per_queue"][n]["bql"]["limit"].as_u64().expect("a limit")).sum();
    assert_eq!(shown[0]["bql"]["limit"].as_u64(), Some(limits));
}

/// The device schedules the classes itself: strictly, the highest first.
#[test]
fn hw_1_has_the_wire_serve_the_highest_class_first() {
    let mut world = World::with(&["add up --queues 4 --type wire --wire rate=10mbit,ring=8,descriptors=1"]);
    world.tc("qdisc add dev up root handle 1: mqprio num_tc 3 map 0 1 2 queues 1@0 1@1 1@2 hw 1");
    let scheduler = |world: &World| {
        let link = world.daemon.links().find("up").expect("up");
        link.way.wire().expect("a wire").scheduler().clone()
    };
    // The queue without a class comes last.
    let strict = |offset| ClassConfig::new(1, offset, Service::Strict);
    assert_eq!(scheduler(&world), LineConfig::classes(4, &[strict(3), strict(0), strict(1), strict(2)]));
    for priority in [0, 1, 2] {
        world.link(&format!("send up --packets 100 --size 1000 --priority {priority}"));
    }
    // 1024 bytes take 0.82 ms: the 200 packets of the two higher classes take 164 ms.
    world.until(Instant(160 * MS));
    let each = ["1:ffe0", "1:ffe1", "1:ffe2"].map(|tc| class(&mut world, tc)[1]);
    assert!(each[0] <= 9 && each[1] > 90 && each[2] == 100, "{each:?}");
    world.until(Instant(260 * MS));
    assert_eq!(world.count("up", "packets"), 300);
    // In software the queues take turns.
    world.tc("qdisc del dev up root");
    assert_eq!(scheduler(&world), LineConfig::round_robin(4));
    world.tc("qdisc add dev up root handle 1: mqprio num_tc 3 map 0 1 2 queues 1@0 1@1 1@2 hw 0");
    assert_eq!(scheduler(&world), LineConfig::round_robin(4));
    for priority in [0, 1, 2] {
        world.link(&format!("send up --packets 100 --size 1000 --priority {priority}"));
    }
    world.until(Instant(383 * MS));
    let each = ["1:1", "1:2", "1:3"].map(|tc| class(&mut world, tc)[1]);
    assert!(each.iter().all(|n| (45..=65).contains(n)), "{each:?}");
}

/// `mode channel`: least and greatest rates of classes, and frames that may be interrupted.
#[test]
fn hw_1_has_the_wire_keep_rates_of_classes() {
    let mut world = World::with(&["add up --queues 2 --type wire --wire rate=10mbit,ring=8,descriptors=1"]);
    let mqprio = "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 1 mode channel shaper bw_rlimit";
    world.tc(&format!(
        "qdisc add dev up root handle 1: {mqprio} min_rate 6mbit 1mbit max_rate 10mbit 2mbit fp P E"
    ));
    let link = world.daemon.links().find("up").expect("up");
    let class_of = |ring, min: u64, max: u64| {
        ClassConfig::new(1, ring, Service::Ets(1))
            .min_rate(Rate::from_bits(min))
            .max_rate(Rate::from_bits(max))
    };
    let expected = [class_of(0, 6_000_000, 10_000_000).preemptible(), class_of(1, 1_000_000, 2_000_000)];
    assert_eq!(*link.way.wire().expect("a wire").scheduler(), LineConfig::classes(2, &expected));
    for priority in [0, 1] {
        world.link(&format!("send up --packets 900 --size 1000 --priority {priority}"));
    }
    world.until(Instant(100 * MS));
    let before = ["1:1", "1:2"].map(|n| class(&mut world, n)[1]);
    world.until(Instant(600 * MS));
    let after = ["1:1", "1:2"].map(|n| class(&mut world, n)[1]);
    // 2 Mbit/s are 244 frames of 1024 bytes a second, the rest of the line is 976; the test takes
    // half a second, within the ring.
    let got = [after[0] - before[0], after[1] - before[1]];
    assert!(got[0].abs_diff(488) <= 10 && got[1].abs_diff(122) <= 10, "{got:?}");
    // Rates that the line cannot keep are refused, and so is a link without a device that could
    // keep them.
    let save = world.save();
    for (line, said) in [
        (
            "min_rate 6mbit 5mbit",
            ["mqprio min_rate cannot be 11Mbit\n", " expected at most 10Mbit in sum, the line's rate\n"],
        ),
        (
            "min_rate 6mbit 1mbit max_rate 5mbit",
            ["mqprio min_rate cannot be 6Mbit\n", " expected at most max_rate, 5Mbit\n"],
        ),
    ] {
        let reply = world.try_tc(&format!("qdisc replace dev up root handle 2: {mqprio} {line}"));
        assert!(reply.status == 2 && said.iter().all(|said| reply.stderr.contains(said)), "{}", reply.stderr);
        assert_eq!(world.save(), save);
    }
    world.link("add lan --queues 2");
    let reply = world.try_tc("qdisc add dev lan root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 1");
    let said = "error[unsupported]: mqprio takes a device that schedules traffic classes itself, given 1";
    assert_eq!((reply.status, reply.stderr.lines().find(|l| l.starts_with("error"))), (2, Some(said)));
}

fn load() -> World {
    let mut world = World::with(&["add up --type wire --queues 4 --wire rate=10mbit,ring=8,descriptors=1"]);
    world.tc("qdisc add dev up root handle 1: mq");
    for queue in 1..=4 {
        world.tc(&format!("qdisc add dev up parent 1:{queue} handle {queue}0: pfifo limit 500"));
    }
    world.link("send up --packets 1000 --flows 100 --size 1000");
    world
}

/// A queue gets another qdisc: packets that wait there are dropped, or kept in an atomic batch; the
/// other queues go on unchanged.
#[test]
fn grafting_on_one_queue_leaves_the_others_as_they_are() {
    let mut world = load();
    world.until(Instant(100 * MS));
    let before = per_queue(&mut world, "backlog_packets");
    world.tc("qdisc replace dev up parent 1:2 handle 21: fq_codel");
    let after = per_queue(&mut world, "backlog_packets");
    assert_eq!((after[0], after[1], after[2], after[3]), (before[0], 0, before[2], before[3]));
    assert_eq!(world.count("up", "drops"), before[1]);
    // The line is never idle: 0.82 ms a packet.
    world.until(Instant(182 * MS));
    let packets = world.count("up", "packets");
    assert!(packets.abs_diff(222) <= 1, "{packets}");
    // In one step the waiting packets are kept: no further packet is dropped, and the plan
    // announces that.
    let lines = "qdisc replace dev up parent 1:1 handle 11: prio\nqdisc replace dev up parent 11:2 handle 12: pfifo limit 400\n";
    let waits = per_queue(&mut world, "backlog_packets");
    let plan = world.batch("--atomic --dry-run", lines);
    assert!(
        plan.contains(&format!("queued: {} packets", waits[0])) && plan.contains(" -> pfifo 12:\n"),
        "{plan}"
    );
    world.batch("--atomic", lines);
    assert_eq!((per_queue(&mut world, "backlog_packets"), world.count("up", "drops")), (waits, before[1]));
    world.until(Instant(2_000 * MS));
    assert_eq!((world.count("up", "packets"), world.count("up", "backlog_packets")), (1000 - before[1], 0));
}

/// Another root in an atomic batch: one tree for all queues, traffic classes, and back.
#[test]
fn roots_are_swapped_under_load() {
    let mut world = load();
    let mut at = 0;
    for root in [
        "handle 2: prio",
        "handle 3: mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 1",
        "handle 4: pfifo limit 2000",
        "handle 5: mq",
        "handle 6: multiq",
    ] {
        at += 50;
        world.until(Instant(at * MS));
        let waits = world.count("up", "backlog_packets");
        let batch = format!("qdisc replace dev up root {root}\n");
        let plan = world.batch("--atomic --dry-run", &batch);
        let moved: u64 = plan
            .lines()
            .filter_map(|line| line.strip_prefix("queued: ")?.split(' ').next()?.parse::<u64>().ok())
            .sum();
        assert_eq!(moved, waits, "{plan}");
        // All packets have priority 0: the first traffic class, with two queues.
        assert!(
            !root.contains("mqprio") || plan.contains("parent 3:2") && !plan.contains("parent 3:3"),
            "{plan}"
        );
        world.batch("--atomic", &batch);
        assert_eq!((world.count("up", "backlog_packets"), world.count("up", "drops")), (waits, 0), "{root}");
        if root.contains("mqprio") {
            let backlog = per_queue(&mut world, "backlog_packets");
            assert!(backlog[0] > 0 && backlog[1] > 0 && backlog[2..] == [0, 0], "{backlog:?}");
        }
    }
    world.until(Instant(2_000 * MS));
    assert_eq!((world.count("up", "packets"), world.count("up", "backlog_packets")), (1000, 0));
    // After the removal of the added root there is mq again, and packets that waited before are
    // dropped with their qdisc.
    world.link("send up --packets 100 --flows 10 --size 1000");
    let waits = world.count("up", "backlog_packets");
    world.tc("qdisc del dev up root");
    assert_eq!(world.count("up", "drops"), waits);
    assert!(world.tc("qdisc show dev up").starts_with("qdisc mq 0: root \n"));
}

/// Queues of a wire come and go: no packet is lost, and the options of the root must hold.
#[test]
fn queues_of_a_wire_come_and_go_under_load() {
    for kind in ["--type wire --wire rate=10mbit,ring=8,descriptors=1", "--type null"] {
        let mut world = World::with(&[&format!("add up {kind} --queues 2")]);
        world.tc("qdisc add dev up root handle 1: mq");
        world.tc("qdisc add dev up parent 1:1 tbf rate 4mbit burst 4kb limit 2mb");
        world.tc("qdisc add dev up parent 1:2 tbf rate 4mbit burst 4kb limit 2mb");
        world.link("send up --packets 900 --flows 90 --size 1000");
        let mut at = 0;
        for queues in [4, 3, 8, 2] {
            at += 20;
            world.until(Instant(at * MS));
            world.link(&format!("set up --queues {queues}"));
            assert_eq!(world.tc("class show dev up parent 1:").lines().count(), queues);
            assert_eq!(world.count("up", "queues"), queues as u64);
        }
        world.until(Instant(4_000 * MS));
        let end = ["packets", "drops", "backlog_packets", "inflight_bytes"].map(|key| world.count("up", key));
        assert_eq!(end, [900, 0, 0, 0], "{kind}");
        let said =
            "link up queues: mq: expected a device with several transmit queues, given \"one queue\"\n";
        assert_eq!(world.refused("set up --queues 1"), (2, said.into()));
        world.tc("qdisc del dev up root");
        world.link("set up --queues 1");
        assert!(world.tc("qdisc show dev up").starts_with("qdisc pfifo_fast 0: root refcnt 2 "));
        world.link("send up --packets 5 --size 1000");
        world.until(Instant(5_000 * MS));
        assert_eq!(world.count("up", "packets"), 905);
    }
}

/// Four queues of one link send together at a rate that they share by its name.
#[test]
fn queues_of_a_link_share_a_rate_by_its_name() {
    let mut world = World::with(&["add up --type wire --rate 100mbit --queues 4"]);
    world.tc("qdisc add dev up root handle 1: mq");
    for queue in 1..=4 {
        world.tc(&format!(
            "qdisc add dev up parent 1:{queue} tbf rate 8mbit burst 10kb limit 10mb shared wan"
        ));
    }
    world.link("send up --packets 4000 --flows 100 --size 1000");
    world.until(Instant(100 * MS));
    let before = per_queue(&mut world, "bytes");
    world.until(Instant(1_100 * MS));
    let after = per_queue(&mut world, "bytes");
    let each: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    // A million bytes in a second, within a packet of each; a quarter each.
    assert!(each.iter().sum::<u64>().abs_diff(1_000_000) <= 6_000, "{each:?}");
    assert!(each.iter().all(|bytes| bytes.abs_diff(250_000) <= 30_000), "{each:?}");
    // A new queue has no share of the rate until a command gives it one.
    world.link("set up --queues 5");
    let reply = world.try_tc("qdisc add dev up parent 1:5 tbf rate 9mbit burst 10kb limit 10mb shared wan");
    assert_eq!(reply.status, 2);
    world.tc("qdisc add dev up parent 1:5 tbf rate 8mbit burst 10kb limit 10mb shared wan");
    world.until(Instant(1_200 * MS));
    let before: u64 = per_queue(&mut world, "bytes").iter().sum();
    world.until(Instant(2_200 * MS));
    let sum = per_queue(&mut world, "bytes").iter().sum::<u64>() - before;
    assert!(sum.abs_diff(1_000_000) <= 6_000, "{sum}");
}

/// Filters at qdiscs of a queue and at the hooks: filters of a qdisc are removed with it, those of
/// the link stay.
#[test]
fn filters_are_asked_on_the_path_of_each_queue() {
    let mut world = World::with(&["add up --type wire --rate 10mbit --queues 4"]);
    world.tc("qdisc add dev up root handle 1: mq");
    world.tc("qdisc add dev up parent 1:3 handle 30: prio");
    world.tc("qdisc add dev up clsact");
    world.tc("filter add dev up egress matchall action skbedit queue_mapping 2");
    world.tc("filter add dev up parent 30: protocol ip matchall classid 30:1");
    world.link("send up --packets 50 --flows 10 --size 1000");
    assert_eq!(per_queue(&mut world, "packets").iter().filter(|n| **n > 0).count(), 1);
    world.until(Instant(500 * MS));
    assert_eq!([class(&mut world, "1:3")[1], class(&mut world, "30:1")[1]], [50, 50]);
    let saved = world.save();
    assert!(
        saved.contains("qdisc replace dev up parent 1:3 handle 30: prio") && saved.contains(" parent 30: "),
        "{saved}"
    );
    let mut again = World::default();
    for _ in 0..2 {
        again.batch("", &saved);
        assert_eq!(again.save(), saved);
    }
    let at_hook = world.tc("filter show dev up egress");
    world.tc("qdisc replace dev up root handle 2: mq");
    assert_eq!(world.tc("filter show dev up egress"), at_hook);
    world.link("send up --packets 50 --flows 10 --size 1000");
    world.until(Instant(1_000 * MS));
    assert_eq!(class(&mut world, "2:3")[1], 50);
    let saved = world.save();
    assert!(!saved.contains("30:") && saved.contains("queue_mapping 2"), "{saved}");
    // With fewer queues, the filters of the removed queues are removed.
    world.tc("qdisc add dev up parent 2:4 handle 40: prio");
    world.tc("filter add dev up parent 40: protocol ip matchall classid 40:1");
    world.link("set up --queues 3");
    let saved = world.save();
    assert!(!saved.contains("40:") && saved.contains("queue_mapping 2"), "{saved}");
}
