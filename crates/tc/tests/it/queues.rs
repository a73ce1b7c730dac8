//! mq and mqprio through the tool: counters, the order of the output, and refusals with their
//! status.

use txweir_core::base::env::Offload;
use txweir_core::sched::cx::Cx;
use txweir_core::{Env, Meta, Tree};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Outcome, Request, run, save};
use txweir_tc::{Policy, show};

fn tc(devices: &mut Memory, line: &str) -> Outcome {
    run(&Request { args: line.split_whitespace().map(String::from).collect(), ..Request::default() }, devices)
}

fn good(devices: &mut Memory, line: &str) -> String {
    let done = tc(devices, line);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
    done.stdout
}

fn device(queues: u32, offload: Offload) -> Memory {
    let env = Env { offload, ..Env::default() };
    Memory::new(&[]).with(MemoryDevice::new("e", queues, env))
}

const MQPRIO: &str = "qdisc add dev e root handle 1: mqprio num_tc 2 map 0 1 queues 1@0 2@1 hw 0";

#[test]
fn a_traffic_class_counts_what_its_queues_do_and_the_root_what_all_do() {
    let mut all = device(4, Offload::default());
    good(&mut all, MQPRIO);
    good(&mut all, "qdisc add dev e parent 1:3 handle 30: pfifo limit 2");
    for queue in [0, 1, 2, 2, 2, 3, 3] {
        let mut meta = Meta::new(100);
        meta.queue = queue;
        all.get("e").expect("there").enqueue(meta);
    }
    let counted = |text: &str, name: &str| {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(name));
        let at = |line: Option<&str>| line.map(str::trim).map(String::from).unwrap_or_default();
        let first = at(lines.by_ref().find(|line| line.starts_with(" Sent")));
        (first, at(lines.next()))
    };
    let none = "Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)";
    let dropped = none.replace("dropped 0", "dropped 1");
    let classes = good(&mut all, "-s class show dev e");
    for (class, sent, backlog) in [
        ("1:ffe0", none, "100b 1p"),
        ("1:ffe1", &dropped, "300b 3p"),
        ("1:1", none, "100b 1p"),
        ("1:2", none, "100b 1p"),
        ("1:3", &dropped, "200b 2p"),
        ("1:4", none, "200b 2p"),
    ] {
        let expected = (sent.to_string(), format!("backlog {backlog} requeues 0"));
        assert_eq!(counted(&classes, &format!("class mqprio {class} ")), expected, "{class}");
    }
    let qdiscs = good(&mut all, "-s qdisc show dev e");
    assert_eq!(counted(&qdiscs, "qdisc mqprio 1:"), (dropped.clone(), "backlog 600b 6p requeues 0".into()));
    // As in Linux, the sums are over the qdiscs that are there now.
    good(&mut all, "qdisc replace dev e parent 1:3 handle 31: pfifo");
    let qdiscs = good(&mut all, "-s qdisc show dev e root");
    assert_eq!(counted(&qdiscs, "qdisc mqprio 1:"), (none.into(), "backlog 400b 4p requeues 0".into()));
}

/// The reasons of a root are the sums over its queues.
#[test]
fn a_root_of_queues_tells_their_reasons() {
    for root in [MQPRIO, "qdisc add dev e root handle 1: mq"] {
        let mut all = device(4, Offload::default());
        good(&mut all, root);
        good(&mut all, "qdisc add dev e parent 1:1 handle 10: pfifo limit 1");
        good(&mut all, "qdisc add dev e parent 1:3 handle 30: pfifo_head_drop limit 2");
        for queue in [0, 0, 0, 2, 2, 2, 3] {
            let mut meta = Meta::new(100);
            meta.queue = queue;
            all.get("e").expect("there").enqueue(meta);
        }
        let told = |all: &mut Memory, handle: &str| {
            let shown = good(all, &format!("-s -j qdisc show dev e handle {handle}"));
            shown.split_once(r#""drop_reasons":"#).map(|(_, told)| told.trim_end().to_string())
        };
        let of = |text: &str| Some(text.to_string());
        assert_eq!(
            told(&mut all, "1:"),
            of(r#"{"overlimit":2,"head_drop":1},"linux_drop_reasons":{"GENERIC":1,"OVERLIMIT":2}}]"#)
        );
        assert_eq!(told(&mut all, "10:"), of(r#"{"overlimit":2},"linux_drop_reasons":{"OVERLIMIT":2}}]"#));
        assert_eq!(told(&mut all, "30:"), of(r#"{"head_drop":1},"linux_drop_reasons":{"GENERIC":1}}]"#));
        // Like the counters, the reasons are sums over the qdiscs that are there now.
        good(&mut all, "qdisc replace dev e parent 1:3 handle 31: pfifo");
        assert_eq!(told(&mut all, "1:"), of(r#"{"overlimit":2},"linux_drop_reasons":{"OVERLIMIT":2}}]"#));
        assert_eq!(told(&mut all, "31:"), None);
    }
}

/// The order is that of the reference kernel: by the hash of the handles, and for equal hashes the
/// later qdisc first. The first qdiscs of the queues have the handle 0:, whose hash equals that of
/// 2:.
#[test]
fn what_queues_have_at_first_is_listed_as_linux_lists_it() {
    let mut all = device(4, Offload::default());
    good(&mut all, "qdisc add dev e root handle 1: mq");
    let shown = |all: &mut Memory| -> Vec<String> {
        let text = good(all, "qdisc show dev e");
        text.lines().map(|line| line.split(' ').take(5).collect::<Vec<_>>().join(" ")).collect()
    };
    let first = |minor: u32| format!("qdisc pfifo_fast 0: parent 1:{minor}");
    let root = "qdisc mq 1: root ".to_string();
    assert_eq!(shown(&mut all), [root.clone(), first(4), first(3), first(2), first(1)]);
    for (minor, handle) in [(2, 5), (3, 2), (4, 9)] {
        good(&mut all, &format!("qdisc add dev e parent 1:{minor} handle {handle}: pfifo"));
    }
    let added = |handle: u32, minor: u32| format!("qdisc pfifo {handle}: parent 1:{minor}");
    assert_eq!(shown(&mut all), [root.clone(), added(2, 3), first(1), added(5, 2), added(9, 4)]);
    good(&mut all, "qdisc replace dev e parent 1:2 handle 22: pfifo");
    assert_eq!(shown(&mut all), [root, added(2, 3), first(1), added(9, 4), added(22, 2)]);
}

#[test]
fn what_mqprio_refuses_has_status_2() {
    for (line, status) in [
        ("num_tc 17 hw 0", 2),
        ("num_tc 2 map 0 1 queues 1@0 1@1 1@2 hw 0", 2),
        ("num_tc 2 map 0 1 queues 1@0 1@1 hw 0 mode channel", 2),
        ("num_tc 2 map 0 1 queues 1@0 1@1 hw 0 shaper bw_rlimit min_rate 1gbit 2gbit", 2),
        ("num_tc 2 map 0 1 queues 1@0 1@1 hw 0 fp E P", 2),
        ("num_tc 2 map 0 1 queues 1@0 1@1", 2),
        ("num_tc 2 map 0 1 queues 1@0 1@1 hw 1 mode foo", 1),
        ("num_tc 2 map 0 1 queues 1:0", 255),
        ("num_tc two", 1),
        ("hw 0 classes 2", 255),
    ] {
        let mut all = device(4, Offload::default());
        let done = tc(&mut all, &format!("qdisc add dev e root mqprio {line}"));
        assert_eq!(done.status, status, "{line}: {}", done.stderr);
        assert_eq!(save(&mut all), "");
    }
    for kind in ["mq", "mqprio hw 0"] {
        let done = tc(&mut device(1, Offload::default()), &format!("qdisc add dev e root {kind}"));
        assert_eq!(done.status, 2, "{kind}: {}", done.stderr);
    }
}

#[test]
fn what_is_saved_is_what_tc_takes() {
    let mut all = device(4, Offload::default());
    good(&mut all, MQPRIO);
    good(&mut all, "qdisc add dev e parent 1:2 handle 20: fq_codel limit 99");
    let saved = save(&mut all);
    let map = "0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
    // tc accepts neither mode nor shaper beside hw 0.
    let first = format!("qdisc replace dev e root handle 1: mqprio num_tc 2 map {map} queues 1@0 2@1 hw 0\n");
    assert!(saved.starts_with(&first), "{saved}");
    let mut again = device(4, Offload::default());
    for _ in 0..2 {
        for line in saved.lines() {
            good(&mut again, line);
        }
        assert_eq!(save(&mut again), saved);
    }
}

#[test]
fn a_device_that_schedules_is_asked_to() {
    let mut all = device(8, Offload::ALL);
    good(
        &mut all,
        "qdisc add dev e root handle 1: mqprio num_tc 2 map 0 1 queues 4@0 4@4 hw 1 mode channel shaper bw_rlimit \
         min_rate 1gbit 2gbit max_rate 4gbit 5gbit fp E P",
    );
    assert_eq!(
        good(&mut all, "qdisc show dev e root"),
        "qdisc mqprio 1: root tc 2 map 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \n             queues:(0:3) (4:7) \n             \
         mode:channel\n             shaper:bw_rlimit   min_rate:1Gbit 2Gbit   max_rate:4Gbit 5Gbit\n             fp:E P\n"
    );
    assert_eq!(
        good(&mut all, "-j qdisc show dev e root"),
        "[{\"kind\":\"mqprio\",\"handle\":\"1:\",\"root\":true,\"options\":{\"tc\":2,\"map\":[0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0],\
         \"queues\":[[0,3],[4,7]],\"mode\":\"channel\",\"shaper\":\"bw_rlimit\",\"min_rate\":[125000000,250000000],\
         \"max_rate\":[500000000,625000000],\"fp\":[\"E\",\"P\"]}}]\n"
    );
    // The device divides its queues itself if the line gives none.
    let mut all = device(8, Offload::ALL);
    good(&mut all, "qdisc add dev e root handle 1: mqprio num_tc 3 map 0 1 2");
    assert!(good(&mut all, "qdisc show dev e root").contains("queues:(0:2) (3:5) (6:7) \n"));
}

/// A root that stands for queues has no size table; a line, or a policy, that asks for one changes
/// nothing.
#[test]
fn a_size_table_of_a_root_that_stands_for_queues_is_refused_as_a_whole() {
    let env = Env { queues: 4, ..Env::default() };
    let apply = |tree: &mut Tree, lines: &str| {
        Policy::parse(lines, "p").expect("good").apply(tree, &mut Cx::new(1, 0)).map_err(|d| d.to_string())
    };
    let stab = "qdisc replace root handle 2: stab overhead 4";
    for before in ["qdisc replace root handle 1: mq", "qdisc replace root handle 1: pfifo"] {
        let mut tree = Tree::of_port(env);
        apply(&mut tree, before).expect("good");
        let shown = show::commands(&tree, None);
        for after in [format!("{stab} mq"), format!("qdisc replace root handle 3: prio\n{stab} mq")] {
            let said = apply(&mut tree, &after).expect_err("refused");
            assert!(said.contains("put it at the qdisc of each queue"), "{after}: {said}");
            assert_eq!(show::commands(&tree, None), shown, "{after}");
        }
        apply(&mut tree, &format!("{stab} pfifo")).expect("good");
    }
}
