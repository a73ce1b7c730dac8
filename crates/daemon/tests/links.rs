//! Links in virtual time: what commands do to them, and what becomes of packets.

use serde_json::Value;
use txweir_core::Instant;
use txweir_daemon::Daemon;
use txweir_daemon::protocol::{Ask, Reply};

/// A daemon and a time that only the test moves.
#[derive(Default)]
struct World {
    daemon: Daemon,
    now: Instant,
}

impl World {
    fn with(lines: &[&str]) -> Self {
        let mut world = Self::default();
        for line in lines {
            world.link(line);
        }
        world
    }

    fn ask(&mut self, line: &str) -> Reply {
        let args = line.split_whitespace().map(String::from).collect();
        self.daemon.answer(self.now, &Ask::Link { args })
    }

    /// A link command that is to succeed; what it prints.
    fn link(&mut self, line: &str) -> String {
        let reply = self.ask(line);
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{line}");
        reply.stdout
    }

    /// A link command that is to be refused; why.
    fn refused(&mut self, line: &str) -> (u8, String) {
        let before = self.save();
        let reply = self.ask(line);
        assert_eq!((self.save(), reply.stdout.as_str()), (before, ""), "{line}");
        (reply.status, reply.stderr)
    }

    fn save(&mut self) -> String {
        self.daemon.answer(self.now, &Ask::Save).stdout
    }

    /// Lets time pass, as the loop would.
    fn until(&mut self, end: Instant) {
        while let Some(at) = self.daemon.links().deadline(self.now).filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let now = self.now;
            self.daemon.links_mut().turn(&move || now, &[]);
        }
        self.now = end;
    }

    fn show(&mut self, name: &str) -> Value {
        serde_json::from_str(&self.link(&format!("show {name} -j"))).expect("JSON")
    }

    fn count(&mut self, name: &str, key: &str) -> u64 {
        self.show(name)[0][key].as_u64().unwrap_or_else(|| panic!("{key}"))
    }
}

const MS: u64 = 1_000_000;

#[test]
fn a_null_link_takes_everything_at_once() {
    let mut world = World::with(&["add lan"]);
    assert_eq!(
        world.link("send lan --packets 3000"),
        "3000 packets of 1514 bytes: 3000 sent, 0 dropped, 0 queued now\n"
    );
    let expected = serde_json::json!([{
        "name": "lan", "type": "null", "queues": 1, "mtu": 1500, "txqueuelen": 1000, "state": "up",
        "submitted": 3000, "packets": 3000, "bytes": 3000 * 1514, "drops": 0, "lost": 0,
        "backlog_packets": 0, "backlog_bytes": 0, "inflight_bytes": 0, "bql": null,
    }]);
    assert_eq!(world.show("lan"), expected);
}

#[test]
fn a_wire_link_takes_its_time_and_loses_nothing_uncounted() {
    let mut world = World::with(&["add up --type wire --rate 10mbit"]);
    // pfifo_fast lets 1000 wait; the byte limit starts at two frames.
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
    let mut world = World::with(&["add a", "add w --type wire", "add q --queues 4", "add j --mtu 9000"]);
    for (line, message) in [
        ("add a", "link a: exists already (use set or replace, or delete it first)"),
        ("add none", "link none: this name stands for no link (--peer none)"),
        (
            "add a#b",
            "link a#b: expected a name that can stand in a tc line: no leading -, no quote, backslash or #",
        ),
        ("del x", "link x: there is no such link (links: a, w, q, j)"),
        ("set x --mtu 100", "link x: there is no such link (links: a, w, q, j)"),
        ("show x", "link x: there is no such link (links: a, w, q, j)"),
        ("add b --type wire --queues 2", "link b queues: expected 1 for a link of type wire, given 2"),
        (
            "add b --rate 1mbit",
            "link b rate: a null link takes what it is sent at once: expected type wire, tap or packet",
        ),
        (
            "set a --rate 1mbit",
            "link a rate: a null link takes what it is sent at once: expected type wire, tap or packet",
        ),
        (
            "add b --if eth0",
            "link b if: expected a link of type tap or packet, given eth0 for one of type null",
        ),
        (
            "add b --type tap --if packet:eth0",
            "link b if: expected [NETNS/]IF, given packet:eth0 (its type is said by --type)",
        ),
        (
            "add b --type tap --if no-such-if",
            "link b: interface `tap:no-such-if` does not exist: create it first (`ip tuntap add dev no-such-if mode tap`)",
        ),
        ("set a --peer x", "link a peer: link x: there is no such link (links: a, w, q, j)"),
        ("set a --peer a", "link a peer: expected another link, given a"),
        (
            "set a --peer w --mtu 7",
            "link a peer: expected two links of type tap or packet, but a is of type null",
        ),
        ("add b --peer w", "link b peer: expected two links of type tap or packet, but b is of type null"),
        (
            "replace a --type wire",
            "link a type: expected null, as it is, given wire (to change it, delete the link and add it)",
        ),
        (
            "replace q --queues 5",
            "link q queues: expected 4, as it is, given 5 (to change it, delete the link and add it)",
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
    // Twice: replacing what is there already changes nothing.
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
NAME    TYPE  QUEUES  MTU   TXQLEN  RATE    PEER  STATE  PACKETS  BYTES  DROPS  BACKLOG  BQL
lan     null  1       1500  1000    -       -     up     7        700    0      0        -
uplink  wire  1       1500  1000    50Mbit  -     up     0        0      0      0        0/0
"
    );
    assert_eq!(world.link("show lan").lines().count(), 2);
}
