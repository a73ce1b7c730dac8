//! Filters and actions on frames: the output of tc, and the fate of frames that are sent.

use std::io::Write;
use std::sync::{Arc, Mutex};

use txweir_core::Instant;
use txweir_daemon::protocol::{Ask, Reply};
use txweir_daemon::{Daemon, Links};
use txweir_runtime::{Notes, SampleCounts};

use crate::common::World;
use crate::common::card::Card;

struct Bench(Daemon);

impl Bench {
    fn new(lines: &[&str]) -> Self {
        let mut bench = Self(Daemon::new());
        for line in ["link add a", "link add b"].iter().chain(lines) {
            let (status, _, stderr) = bench.run(line);
            assert_eq!(status, 0, "{line}: {stderr}");
        }
        bench
    }
    /// Returns status, standard output and standard error.
    fn run(&mut self, line: &str) -> (u8, String, String) {
        let (object, rest) = line.split_once(' ').unwrap();
        let args: Vec<String> = rest.split(' ').map(String::from).collect();
        let ask = match object {
            "link" => Ask::Link { args },
            _ => Ask::Tc { args, batch: None, class_names: None },
        };
        let reply = self.0.answer(Instant::from_secs(1), &ask);
        (reply.status, reply.stdout, reply.stderr)
    }
    fn send(&mut self, line: &str) -> String {
        let (status, stdout, stderr) = self.run(&format!("link send {line}"));
        assert_eq!(status, 0, "{stderr}");
        stdout.trim().into()
    }
    fn show(&mut self, line: &str) -> String {
        self.run(&format!("tc {line}")).1
    }
}

#[test]
fn a_hook_drops_takes_and_lets_go() {
    let mut b = Bench::new(&["tc qdisc add dev a clsact"]);
    assert_eq!(b.send("a --packets 5 --size 100"), "5 packets of 100 bytes: 5 sent, 0 dropped, 0 queued now");
    b.run("tc filter add dev a egress matchall action drop");
    assert_eq!(b.send("a --packets 5 --size 100"), "5 packets of 100 bytes: 0 sent, 5 dropped, 0 queued now");
    let shown = b.show("-s filter show dev a egress");
    assert!(shown.contains("Sent 500 bytes 5 pkt (dropped 5, overlimits 0 requeues 0)"), "{shown}");
    b.run("tc filter del dev a egress");
    b.run("tc filter add dev a egress protocol arp matchall action drop");
    assert_eq!(b.send("a --packets 5 --size 100"), "5 packets of 100 bytes: 5 sent, 0 dropped, 0 queued now");
}

#[test]
fn a_copy_goes_to_another_link_and_a_redirected_frame_there_alone() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a clsact",
        "tc filter add dev a egress matchall action mirred egress mirror dev b",
    ]);
    assert_eq!(b.send("a --packets 3 --size 100"), "3 packets of 100 bytes: 3 sent, 0 dropped, 0 queued now");
    assert!(
        b.show("-s qdisc show dev b").contains("Sent 300 bytes 3 pkt"),
        "{}",
        b.show("-s qdisc show dev b")
    );
    b.run("tc filter del dev a egress");
    b.run("tc filter add dev a egress matchall action mirred egress redirect dev b");
    assert_eq!(
        b.send("a --packets 4 --size 100"),
        "4 packets of 100 bytes: 0 sent, 0 dropped, 4 taken by actions, 0 queued now"
    );
    assert!(b.show("-s qdisc show dev b").contains("Sent 700 bytes 7 pkt"));
    // A circle of redirections ends after three.
    b.run("tc qdisc add dev b clsact");
    b.run("tc filter add dev b egress matchall action mirred egress redirect dev a");
    b.send("a --packets 1 --size 100");
    assert!(b.show("-s qdisc show dev b").contains("Sent 700 bytes 7 pkt"));
}

/// Links join a block with their hooks and leave it with them or for good; what is saved does the
/// same in another daemon and after a reload.
#[test]
fn frames_go_to_the_links_that_share_a_block() {
    let sent = |world: &mut World, packets: u64| {
        let count = |world: &mut World| ["a", "b", "c"].map(|link| world.count(link, "packets"));
        let before = count(world);
        world.link(&format!("send a --packets {packets} --size 100"));
        let after = count(world);
        [0, 1, 2].map(|at| after[at] - before[at])
    };
    let mut world = World::with(&["add a", "add b", "add c"]);
    world.tc("qdisc add dev a clsact");
    world.tc("filter add dev a egress matchall action mirred egress mirror blockid 22");
    assert_eq!(sent(&mut world, 3), [3, 0, 0]);
    assert!(world.tc("-s filter show dev a egress").contains("overlimits 3"));
    world.tc("qdisc add dev b egress_block 22 clsact");
    world.batch("--atomic", "qdisc add dev c egress_block 22 clsact");
    assert_eq!(sent(&mut world, 3), [3, 3, 3]);
    let saved = world.save();
    let mut other = World::default();
    let now = other.now;
    assert_eq!(other.daemon.configure(now, "c.tc", &saved), Reply::default());
    assert_eq!((other.save(), sent(&mut other, 2)), (saved.clone(), [2, 2, 2]));
    assert_eq!(other.daemon.reload(now, "c.tc", &saved), Reply::default());
    assert_eq!((other.save(), sent(&mut other, 2)), (saved, [2, 2, 2]));
    world.tc("qdisc del dev b clsact");
    world.link("del c");
    world.link("add c");
    assert_eq!(sent(&mut world, 1), [1, 0, 0]);
}

/// Thirty links copy each frame to one another, three redirections deep.
#[test]
fn a_frame_makes_so_many_copies_in_all() {
    let mut world = World::default();
    for n in 0..30 {
        world.link(&format!("add l{n}"));
        world.tc(&format!("qdisc add dev l{n} egress_block 5 clsact"));
    }
    world.tc("filter add block 5 matchall action mirred egress mirror blockid 5");
    world.link("send l0 --packets 1 --size 100");
    assert_eq!((0..30).map(|n| world.count(&format!("l{n}"), "packets")).sum::<u64>(), 65);
}

#[test]
fn filters_of_a_qdisc_choose_the_class() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a root handle 1: htb default 20",
        "tc class add dev a parent 1: classid 1:10 htb rate 1mbit",
        "tc class add dev a parent 1: classid 1:20 htb rate 1mbit",
        "tc filter add dev a parent 1: protocol ip matchall flowid 1:10",
    ]);
    b.send("a --packets 2 --size 100");
    let class = |b: &mut Bench, id: &str| b.show(&format!("-s class show dev a classid {id}"));
    assert!(class(&mut b, "1:10").contains("Sent 200 bytes 2 pkt"), "{}", class(&mut b, "1:10"));
    b.run("tc filter del dev a parent 1:");
    b.send("a --packets 3 --size 100");
    assert!(class(&mut b, "1:20").contains("Sent 300 bytes 3 pkt"), "{}", class(&mut b, "1:20"));
}

#[test]
fn a_policer_lets_its_burst_through() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a clsact",
        "tc filter add dev a egress matchall action police rate 8kbit burst 1000 conform-exceed drop/pass",
    ]);
    assert_eq!(
        b.send("a --packets 15 --size 100"),
        "15 packets of 100 bytes: 10 sent, 5 dropped, 0 queued now"
    );
}

#[test]
fn what_an_action_says_of_a_packet_the_qdisc_sees() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a clsact",
        "tc qdisc add dev a root handle 1: prio",
        "tc filter add dev a egress matchall action skbedit priority 6",
    ]);
    b.send("a --packets 2 --size 100");
    assert!(b.show("-s class show dev a").contains("class prio 1:1 parent 1: \n Sent 200 bytes 2 pkt"));
}

/// The counts of Linux 6.18, as measured: none without a filter in chain 0; every frame that such
/// filters see, in and out together; frames that come in count without their link header.
#[test]
fn hooks_count_what_their_filters_are_asked_about() {
    let mut b = Bench::new(&["tc qdisc add dev a clsact", "tc qdisc add dev b ingress"]);
    let sent = |b: &mut Bench, dev: &str, bytes: u64, packets: u64, drops: u64| {
        let shown = b.show(&format!("-s qdisc show dev {dev}"));
        let at = shown.find("ffff:fff1").map_or("", |at| &shown[at..]);
        let line = format!(" Sent {bytes} bytes {packets} pkt (dropped {drops}, overlimits 0 requeues 0) \n");
        assert_eq!(at.lines().nth(1).map(|l| format!("{l}\n")), Some(line), "{shown}");
    };
    b.send("a --packets 3 --size 100");
    sent(&mut b, "a", 0, 0, 0);
    b.run("tc filter add dev a egress chain 5 matchall action drop");
    b.send("a --packets 3 --size 100");
    sent(&mut b, "a", 0, 0, 0);
    // A filter of another protocol sees the frames, and does not match.
    b.run("tc filter add dev a egress protocol arp matchall action drop");
    b.send("a --packets 3 --size 100");
    sent(&mut b, "a", 300, 3, 0);
    b.run("tc filter add dev a egress protocol ip matchall action drop");
    b.send("a --packets 4 --size 100");
    sent(&mut b, "a", 700, 7, 4);
    let json = b.show("-j -s qdisc show dev a");
    let counts = r#""bytes":700,"packets":7,"drops":4,"overlimits":0,"requeues":0,"backlog":0,"qlen":0"#;
    assert!(json.contains(counts), "{json}");
    // A new hook begins with zero counts.
    b.run("tc qdisc del dev a clsact");
    b.run("tc qdisc add dev a clsact");
    sent(&mut b, "a", 0, 0, 0);
}

/// A writer whose bytes the test can read.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn samples_and_lines_are_written() {
    let (log, file) = (Shared::default(), Shared::default());
    let mut b = Bench::new(&["tc qdisc add dev a clsact"]);
    let mut notes = Notes::new(Box::new(log.clone()));
    notes.samples_into(Box::new(file.clone()), 2000, 5_000_000_000).unwrap();
    *b.0.links_mut().notes_mut() = notes;
    b.run(
        "tc filter add dev a egress matchall action sample rate 1 group 7 trunc 40 action simple sdata seen",
    );
    b.send("a --packets 3 --size 100");
    assert_eq!(String::from_utf8(log.bytes()).unwrap(), "simple: seen_1\nsimple: seen_2\nsimple: seen_3\n");
    assert_eq!(b.0.links_mut().notes_mut().sampled(), Some(SampleCounts { written: 3, dropped: 0 }));
    // The first packet stands behind the section and the interface: 40 of its 100 bytes, at 1 s of
    // the loop's time and 5 s more.
    let bytes = file.bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        assert_eq!(word(at + 4), word(at + word(at + 4) as usize - 4), "a length before and after");
        blocks.push((word(at), at));
        at += word(at + 4) as usize;
    }
    let kinds: Vec<u32> = blocks.iter().map(|b| b.0).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6, 6]);
    let packet = blocks[2].1;
    assert_eq!((word(packet + 8), word(packet + 20), word(packet + 24)), (0, 40, 100));
    assert_eq!(u64::from(word(packet + 12)) << 32 | u64::from(word(packet + 16)), 6_000_000_000);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("group 7 rate 1/1 seq 0") && text.contains("group 7 rate 1/1 seq 2"), "{text}");
    // The file has 2000 bytes of room, and a second has 100 lines.
    b.send("a --packets 200 --size 100");
    let counts = b.0.links_mut().notes_mut().sampled().unwrap();
    assert!(counts.dropped > 180 && counts.written + counts.dropped == 203, "{counts:?}");
    assert!((1880..=2000).contains(&file.bytes().len()), "{}", file.bytes().len());
    // One line tells that others are left out.
    assert_eq!(String::from_utf8(log.bytes()).unwrap().lines().count(), 101);
    drop(b);
    let log = String::from_utf8(log.bytes()).unwrap();
    assert_eq!(log.lines().last(), Some("log: 103 lines left out"));
}

/// Frames of an interface carry no marks: a filter by marks is accepted with a warning, unless an
/// action sets marks, or the packets of the link are generated.
#[test]
fn a_filter_by_marks_on_an_interface_is_warned_of() {
    let links = ["a", "b"].map(|name| Card::default().link(name, "rate=1gbit"));
    let mut world = World { daemon: Daemon::with(Links::between(links)), ..World::default() };
    world.link("add n");
    let fw = |dev: &str, pref: u32| {
        format!("filter add dev {dev} parent 1: protocol ip pref {pref} handle 6 fw classid 1:1")
    };
    for dev in ["a", "n"] {
        world.tc(&format!("qdisc add dev {dev} root handle 1: prio"));
    }
    world.tc(&fw("n", 1));
    let reply = world.try_tc(&fw("a", 1));
    let said = "warning[unsupported]: no packet of a has a mark: frames of an interface come without \
                those of the kernel\n";
    assert_eq!((reply.status, reply.stderr.starts_with(said)), (0, true), "{}", reply.stderr);
    assert!(reply.stderr.contains("set marks by action skbedit mark N at a hook"), "{}", reply.stderr);
    assert!(world.save().contains("prio 1 handle 0x6 fw"), "{}", world.save());
    world.tc("qdisc add dev b clsact");
    world.tc("filter add dev b ingress matchall action skbedit priority 7");
    assert!(world.try_tc(&fw("a", 2)).stderr.starts_with(said));
    world.tc("filter add dev b ingress matchall action skbedit mark 6");
    world.tc(&fw("a", 3));
}
