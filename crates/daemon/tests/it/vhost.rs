//! Links that are the network cards of virtual machines: in virtual time, against a guest without a
//! kernel in the same thread.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;
use txweir_core::Instant;
use txweir_daemon::{Daemon, Links, Server, TeamOptions};
use txweir_device::clock;
use txweir_device::testguest::{Setup, TestGuest};

use crate::common::{MS, World};
use crate::crew::until;

/// A path for a socket, which is removed with its link.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("txw-{}-{name}.sock", std::process::id()))
}

/// A frame of the Ethernet type for local experiments, with a number.
fn numbered(number: u32) -> Vec<u8> {
    let mut frame = vec![7; 1000];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Two links that are peers, each with a guest: `b` sends 8 Mbit/s, 1000 bytes a millisecond.
struct Pair {
    world: World,
    guests: Vec<TestGuest>,
}

impl Pair {
    fn new(name: &str, qdisc: &str) -> Self {
        let mut world = World { daemon: Daemon::with(Links::default()), now: Instant::ZERO };
        let paths = ["a", "b"].map(|end| path(&format!("{name}-{end}")));
        let [a, b] = paths.each_ref().map(|path| path.display());
        world.link(&format!("add a --type vhost --if {a}"));
        world.link(&format!("add b --type vhost --if {b} --wire rate=8mbit,ring=22,bql=off --peer a"));
        world.tc(&format!("qdisc add dev b root handle 1: {qdisc}"));
        let guests = paths
            .iter()
            .map(|path| {
                TestGuest::connect(path, Setup::default(), || {
                    world.daemon.links_mut().turn(&|| Instant::ZERO, &[]);
                })
            })
            .collect();
        Self { world, guests }
    }

    fn turn(&mut self) -> bool {
        let now = self.world.now;
        self.world.daemon.links_mut().turn(&move || now, &[])
    }

    fn sums(&mut self, name: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.world.link(&format!("show {name} -j"))).expect("JSON");
        shown[0]["sums"].clone()
    }

    /// Sends as fast as the guest can, and returns what has come by the end, and the longest that
    /// the ring of the sender was full.
    fn run(&mut self, total: u32) -> (Vec<u32>, u64) {
        let (mut sent, mut came, mut full) = (0, Vec::new(), 0);
        // Bound: a second longer than the frames take.
        for _ in 0..total + 1000 {
            while sent < total && self.guests[0].send(0, [0; 12], &numbered(sent)) {
                sent += 1;
            }
            full += u64::from(self.guests[0].under_way(1) == 32);
            // The loop of a process turns until there is no more to do.
            let turns = (0..100).take_while(|_| self.turn()).count();
            assert!(turns < 100, "the loop does not sleep");
            while let Some((_, frame, _)) = self.guests[1].receive(0) {
                came.push(u32::from_be_bytes(frame[14..18].try_into().expect("a number")));
            }
            let sums = self.sums("b");
            let counts = sums["tx"].as_object().expect("sums").values();
            let counts: Vec<u64> = counts.map(|n| n.as_u64().expect("a number")).collect();
            let [left, right] = [&counts[..3], &counts[3..]].map(|side| side.iter().sum::<u64>());
            assert_eq!(left, right, "{sums}");
            if came.len() == total as usize {
                break;
            }
            self.world.now = Instant(self.world.now.0 + MS);
        }
        (came, full)
    }
}

/// No frame of a guest is lost ahead of a slow link, whatever the limit of its queue: the queue is
/// full, and the others stay in the guest's ring, where its own queues feel them.
#[test]
fn a_full_queue_leaves_frames_with_the_guest() {
    for (at, qdisc) in [
        "pfifo limit 10",
        "bfifo limit 8000",
        "prio bands 3",
        "tbf rate 8mbit burst 4kb limit 9kb",
        "fq_codel limit 20 target 10s interval 20s",
    ]
    .into_iter()
    .enumerate()
    {
        let mut pair = Pair::new(&format!("full-{at}"), qdisc);
        if qdisc.starts_with("prio") {
            for band in 1..4 {
                pair.world.tc(&format!("qdisc add dev b parent 1:{band} pfifo limit 5"));
            }
        }
        if qdisc == "pfifo limit 10" {
            pair.world.tc("qdisc add dev b clsact");
            pair.world.tc("filter add dev b egress matchall action skbedit mark 1");
        }
        let (came, full) = pair.run(300);
        assert_eq!(came, (0..300).collect::<Vec<_>>(), "{qdisc}");
        let sums = pair.sums("b");
        assert_eq!((&sums["tx"]["dropped"], &sums["tx"]["lost"]), (&0.into(), &0.into()), "{qdisc}: {sums}");
        assert!(full > 200, "{qdisc}: the ring was full {full} times");
    }
}

/// Flows that take turns ahead of the qdiscs leave frames with the guest as well.
#[test]
fn a_full_gate_leaves_frames_with_the_guest() {
    let mut pair = Pair::new("gate", "pfifo limit 10");
    pair.world.link("set b --fairsend 4");
    let (came, full) = pair.run(1500);
    assert_eq!(came, (0..1500).collect::<Vec<_>>());
    assert!(full > 200, "{full}");
}

/// The frames for a guest that takes none wait at its card for five seconds. Then they are lost and
/// counted, and later ones have their places.
#[test]
fn frames_of_a_guest_that_takes_none_are_given_up() {
    const SECOND: u64 = 1_000_000_000;
    let mut pair = Pair::new("takes-none", "pfifo limit 1000");
    // More than the ring of the guest and the batch of its card hold.
    let total = 600;
    let (mut sent, mut lost) = (0, 0);
    for _ in 0..30 {
        while sent < total && pair.guests[0].send(0, [0; 12], &numbered(sent)) {
            sent += 1;
        }
        pair.world.now = Instant(pair.world.now.0 + SECOND);
        while pair.turn() {}
        let sums = pair.sums("b");
        let counts = sums["tx"].as_object().expect("sums").values();
        let counts: Vec<u64> = counts.map(|n| n.as_u64().expect("a number")).collect();
        let [left, right] = [&counts[..3], &counts[3..]].map(|side| side.iter().sum::<u64>());
        assert_eq!(left, right, "{sums}");
        let now = sums["tx"]["lost"].as_u64().expect("a number");
        assert!(now >= lost, "{sums}");
        lost = now;
    }
    let shown: Value = serde_json::from_str(&pair.world.link("show b -j")).expect("JSON");
    let timeouts = shown[0]["stats"]["timeouts"].as_u64().expect("a number");
    // A ring of frames comes each second, and those of five seconds are given up at a time.
    assert!((3..=5).contains(&timeouts) && (500..600).contains(&lost), "{timeouts}: {lost}");
    // The guest takes frames again: those in its ring, and the ones that are sent now.
    while pair.guests[1].receive(0).is_some() {}
    let mut came = 0;
    for number in 0..10 {
        assert!(pair.guests[0].send(0, [0; 12], &numbered(10_000 + number)));
        pair.world.now = Instant(pair.world.now.0 + 10 * MS);
        while pair.turn() {}
        while let Some((_, frame, _)) = pair.guests[1].receive(0) {
            came += u32::from(u32::from_be_bytes(frame[14..18].try_into().expect("a number")) >= 10_000);
        }
    }
    assert!(came >= 9, "{came}");
}

/// A guest that leaves while frames wait, on either side, keeps no one from going on.
#[test]
fn a_guest_that_leaves_holds_up_nothing() {
    let mut pair = Pair::new("leaves", "pfifo limit 10");
    let (came, _) = pair.run(40);
    assert_eq!(came.len(), 40);
    for number in 0..30 {
        assert!(pair.guests[0].send(0, [0; 12], &numbered(number)));
    }
    while pair.turn() {}
    assert!(pair.world.daemon.links().find("b").expect("b").way.is_holding());
    // The receiver goes: its frames are lost, and the ring of the sender empties at the rate of the
    // wire.
    pair.guests.pop();
    for _ in 0..40 {
        pair.world.now = Instant(pair.world.now.0 + MS);
        while pair.turn() {}
    }
    assert_eq!(pair.guests[0].under_way(1), 0);
    let sums = pair.sums("b");
    assert_eq!((&sums["tx"]["lost"], &sums["tx"]["dropped"]), (&30.into(), &0.into()), "{sums}");
    pair.guests.clear();
    while pair.turn() {}
    let shown: Value = serde_json::from_str(&pair.world.link("show -j")).expect("JSON");
    assert_eq!((&shown[0]["state"], &shown[1]["state"]), (&"down".into(), &"down".into()));
}

/// Connects a guest to each link of a daemon that has workers.
fn connected(server: &mut Server, stop: &UnixStream, paths: &[PathBuf], setup: Setup) -> Vec<TestGuest> {
    let mut round = || {
        let mut rounds = 0;
        until(server, stop, |_| std::mem::replace(&mut rounds, 1) == 1);
    };
    paths.iter().map(|path| TestGuest::connect(path, setup, &mut round)).collect()
}

/// Two guests at two threads that sleep while there is nothing to do: the frames of one wait for
/// the qdiscs of the other's worker, and none is lost.
#[test]
fn guests_at_two_workers_lose_nothing() {
    const FRAMES: u32 = 2000;
    let mut world = World { daemon: Daemon::with(Links::default()), now: Instant(clock::now_ns()) };
    let paths = ["a", "b"].map(|end| path(&format!("workers-{end}")));
    let [a, b] = paths.each_ref().map(|path| path.display());
    world.link(&format!("add a --type vhost --if {a} --workers 2"));
    world.link(&format!(
        "add b --type vhost --if {b} --workers 2 --wire rate=80mbit,ring=22,bql=off --peer a"
    ));
    world.tc("qdisc add dev b root handle 1: pfifo limit 10");
    let mut server = Server::without_socket(world.daemon).with_workers(TeamOptions::default());
    let (stop, _other) = UnixStream::pair().expect("a pair");
    let mut guests = connected(&mut server, &stop, &paths, Setup::default());
    let (mut sent, mut came) = (0, Vec::new());
    until(&mut server, &stop, |_| {
        while sent < FRAMES && guests[0].send(0, [0; 12], &numbered(sent)) {
            sent += 1;
        }
        while let Some((_, frame, _)) = guests[1].receive(0) {
            came.push(u32::from_be_bytes(frame[14..18].try_into().expect("a number")));
        }
        came.len() == FRAMES as usize
    });
    assert_eq!(came, (0..FRAMES).collect::<Vec<_>>());
}

/// Guests with two pairs at two threads: each worker has a pair of either guest, the first pair of
/// the first guest and the second one of the second, and no frame changes its worker.
#[test]
fn each_worker_has_a_pair_of_each_guest() {
    const FRAMES: u32 = 2000;
    let mut world = World { daemon: Daemon::with(Links::default()), now: Instant(clock::now_ns()) };
    let paths = ["a", "b"].map(|end| path(&format!("pairs-{end}")));
    let [a, b] = paths.each_ref().map(|path| path.display());
    world.link(&format!("add a --type vhost --if {a} --workers 2"));
    world.link(&format!("add b --type vhost --if {b} --workers 2 --peer a"));
    let mut server = Server::without_socket(world.daemon).with_workers(TeamOptions::default());
    let (stop, _other) = UnixStream::pair().expect("a pair");
    let mut guests = connected(&mut server, &stop, &paths, Setup { pairs: 2, ..Setup::default() });
    let (mut sent, mut came) = ([0; 2], [Vec::new(), Vec::new()]);
    let mut sums = Value::Null;
    until(&mut server, &stop, |world| {
        for (pair, (sent, came)) in sent.iter_mut().zip(&mut came).enumerate() {
            let number = |at: u32| numbered(FRAMES * pair as u32 + at);
            while *sent < FRAMES && guests[0].send(pair, [0; 12], &number(*sent)) {
                *sent += 1;
            }
            while let Some((_, frame, _)) = guests[1].receive(pair) {
                came.push(u32::from_be_bytes(frame[14..18].try_into().expect("a number")));
            }
        }
        let shown: Value = serde_json::from_str(&world.link("show b -j")).expect("JSON");
        sums = shown[0]["sums"]["tx"].clone();
        came.iter().all(|came| came.len() == FRAMES as usize) || sums["delivered"] == 2 * FRAMES
    });
    for (pair, came) in came.iter_mut().enumerate() {
        let first = FRAMES * (1 - pair as u32);
        // The last ones may have come since.
        while let Some((_, frame, _)) = guests[1].receive(pair) {
            came.push(u32::from_be_bytes(frame[14..18].try_into().expect("a number")));
        }
        assert_eq!(*came, (first..first + FRAMES).collect::<Vec<_>>(), "{pair}: {sums}");
    }
}

/// Links of this type by text: their words, and their refusals.
#[test]
fn the_words_of_a_link() {
    let mut world = World::default();
    let (one, two) = (path("words one"), path("words2"));
    let quoted = one.display().to_string();
    let args = ["add", "vm0", "--type", "vhost", "--if", &quoted].map(String::from).to_vec();
    let reply = world.daemon.answer(world.now, &txweir_daemon::protocol::Ask::Link { args });
    assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
    let escaped = quoted.replace(' ', "\\ ");
    let line = format!("link replace vm0 --type vhost --if {escaped} --mtu 1500 --txqueuelen 1000\n");
    assert_eq!(world.save(), line);
    let refused = |world: &mut World, line: &str| world.refused(line).1;
    let socket = "expected the absolute path of a socket (`vhost:/run/vm0.sock`)";
    assert_eq!(refused(&mut world, "add vm1 --type vhost"), format!("link vm1 if: `vm1`: {socket}\n"));
    assert_eq!(
        refused(&mut world, "add vm1 --type vhost --if tap:x"),
        format!("link vm1 if: `tap:x`: {socket}\n")
    );
    world.link(&format!("add vm1 --type vhost --if vhost:{}", two.display()));
    assert_eq!(
        refused(&mut world, &format!("add vm2 --type vhost --if {}", two.display())),
        format!("link vm2 if: vhost:{} is the interface of link vm1 already\n", two.display())
    );
    world.link("del vm1");
    assert!(!two.exists());
}
