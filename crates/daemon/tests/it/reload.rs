//! A configuration that is read again while a link carries packets, in virtual time.

use std::sync::Mutex;

use txweir_daemon::protocol::Reply;
use txweir_daemon::{Daemon, Links, Machine};
use txweir_device::{Endpoint, LinkIo, OpenCause, OpenError};

use crate::common::World;
use crate::common::card::Card;

fn reload(world: &mut World, text: &str) -> Reply {
    let now = world.now;
    world.daemon.reload(now, "c.tc", text)
}

#[test]
fn a_configuration_is_read_again_and_keeps_the_packets_that_wait() {
    let mut world = World::with(&["add up --type wire --rate 1mbit", "add other"]);
    world.tc("qdisc add dev up root handle 1: pfifo limit 500");
    world.link("send up --packets 300");
    let waiting = world.count("up", "backlog_packets");
    assert!(waiting > 250, "{waiting}");
    // A new link, another rate, and other qdiscs.
    let text = "link replace up --type wire --rate 2mbit --txqueuelen 70\n\
                link replace lan --mtu 9000\n\
                qdisc replace dev up root handle 2: fq_codel limit 400\n\
                qdisc replace dev lan root handle 3: prio\n";
    assert_eq!(reload(&mut world, text), Reply::default());
    assert_eq!(world.count("up", "backlog_packets"), waiting);
    let saved = world.save();
    assert!(saved.contains("link replace up --type wire --mtu 1500 --txqueuelen 70 --wire rate=2Mbit"));
    assert!(
        saved.contains("link replace lan --type null --mtu 9000") && saved.contains("dev lan root handle 3:")
    );
    assert!(saved.contains("link replace other "), "what the configuration does not name stays");
    // A second time it changes nothing, and what `tc save` writes is a configuration.
    assert_eq!((reload(&mut world, text), world.save()), (Reply::default(), saved.clone()));
    assert_eq!((reload(&mut world, &saved), world.save()), (Reply::default(), saved));
    assert_eq!(world.count("up", "backlog_packets"), waiting);
}

#[test]
fn a_configuration_with_a_wrong_line_changes_nothing() {
    let mut world = World::with(&["add up --type wire --rate 1mbit"]);
    let before = world.save();
    for (text, said) in [
        ("link replace up --txqueuelen 7\nqdisc replace dev up root fq_codel limt 1\n", "c.tc:2:36"),
        ("link replace up --txqueuelen 7\nqdisc replace dev up parent 9:1 pfifo\n", "c.tc:2"),
        ("link replace up --txqueuelen 7\nlink replace up --type null\n", "c.tc:2"),
        ("link replace up --txqueuelen 7\nlink replace new --type tap --if a/b/c\n", "network namespace"),
        ("qdisc replace dev up root handle 1: pfifo\nqdisc add dev nowhere root pfifo\n", "nowhere"),
    ] {
        let reply = reload(&mut world, text);
        assert!(reply.status > 0 && reply.stderr.contains(said), "{text}: {}", reply.stderr);
        assert_eq!(world.save(), before, "{text}");
    }
}

/// An action names a link that was deleted: what `tc save` writes then is read by another daemon,
/// and again by this one. A command still names links that exist.
#[test]
fn a_saved_action_may_name_a_link_that_does_not_exist() {
    let mut world = World::with(&["add a", "add b"]);
    world.tc("qdisc add dev a clsact");
    let filter =
        |to: &str| format!("filter add dev a egress pref 7 matchall action mirred egress mirror dev {to}");
    world.tc(&filter("b"));
    world.link("del b");
    let saved = world.save();
    assert!(saved.contains("mirred egress mirror dev b"), "{saved}");
    let mut other = World::default();
    let now = other.now;
    assert_eq!(other.daemon.configure(now, "c.tc", &saved), Reply::default());
    assert_eq!(other.save(), saved);
    for world in [&mut world, &mut other] {
        assert_eq!((reload(world, &saved), world.save()), (Reply::default(), saved.clone()));
        world.batch("", &saved);
        assert!(world.try_tc(&filter("nope")).stderr.contains("there is no device \"nope\""));
    }
}

/// A machine that opens each interface so many times.
#[derive(Debug)]
struct Scarce(Mutex<u32>);

impl Machine for Scarce {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        let mut left = self.0.lock().expect("no test panics here");
        if *left == 0 {
            let error = std::io::Error::from_raw_os_error(24); // EMFILE
            let cause = OpenCause::System { what: "open a socket for", error };
            return Err(OpenError { interface: endpoint.to_string(), cause });
        }
        *left -= 1;
        Ok(Card::default().io(endpoint.name.as_str()))
    }
    fn seed(&self, _: &str) -> u64 {
        1
    }
}

/// Returns a world on such a machine.
fn opens(times: u32) -> World {
    World { daemon: Daemon::with(Links::on(Scarce(Mutex::new(times)))), ..World::default() }
}

/// The system has descriptors for the rehearsal, and then no more: nothing has changed. Each
/// interface is opened once for the rehearsal, and once more for the link.
#[test]
fn an_interface_that_is_opened_no_more_leaves_everything_as_it_was() {
    let text = "link replace up --mtu 9000\n\
                link replace e --type packet --if e\n\
                link replace f --type packet --if f\n";
    let whole_or_not = |text: &str, opened: u32, done: bool| {
        let mut world = opens(opened);
        world.link("add up");
        let before = world.save();
        let reply = reload(&mut world, text);
        assert_eq!(reply.status == 0, done, "{opened}: {}", reply.stderr);
        assert_eq!(world.save() == before, !done, "{opened}: {}", world.save());
        reply
    };
    for (opened, done) in [(0, false), (1, false), (2, false), (3, false), (4, true)] {
        let reply = whole_or_not(text, opened, done);
        if opened > 1 && !done {
            let said = "c.tc: cannot open a socket for `packet:";
            assert!(reply.stderr.starts_with(said), "{}", reply.stderr);
        }
    }
    // The handles of workers are opened with the link: the change before it is taken back.
    let text = "link replace up --mtu 9000\nlink replace e --type packet --if e --workers 2\n";
    whole_or_not(text, 1, false);
    whole_or_not(text, 2, true);
}

/// Lines that are right each by itself, and not behind the others: they are refused before the
/// first change, and disturb nothing.
#[test]
fn lines_that_do_not_go_together_change_nothing() {
    let mut world = opens(u32::MAX);
    world.link("add up --type wire --queues 4");
    world.tc("qdisc add dev up root handle 1: mq");
    for queue in 1..=4 {
        world.tc(&format!("qdisc add dev up parent 1:{queue} handle 1{queue}: pfifo"));
    }
    world.link("send up --packets 640 --flows 64");
    let (before, counts) = (world.save(), world.tc("-s qdisc show dev up"));
    for (text, said) in [
        (
            "link replace a --type packet --if e\nlink replace b --type packet --if e\n",
            "link b if: packet:e is the interface of link a already",
        ),
        (
            "link replace a --type packet --if e\nlink set a --rate 1mbit\n",
            "link a rate: it was added without --rate and without --wire",
        ),
        (
            "link replace a --type packet --if e\nlink replace b --type packet --if f --peer a\n\
             link replace c --type packet --if g --peer a\n",
            "link c peer: a has the peer b (part them first: --peer none)",
        ),
        (
            "link replace up --queues 2\nqdisc replace dev up root handle 1: mq\n\
             qdisc replace dev up parent 1:4 fq_codel\n",
            "c.tc:3",
        ),
        ("link replace up --queues 2\nqdisc replace dev up root nothing\n", "c.tc:2"),
        ("link add n --queues 2\nlink set n --queues 1\nqdisc add dev n root mq\n", "c.tc:3"),
    ] {
        let reply = reload(&mut world, text);
        assert!(reply.status > 0 && reply.stderr.contains(said), "{text}: {}", reply.stderr);
        assert_eq!(world.save(), before, "{text}");
        assert_eq!(world.tc("-s qdisc show dev up"), counts, "{text}");
    }
}

/// A file is read again as at a start: the qdiscs are those of the links that it makes.
#[test]
fn a_configuration_may_change_queues_and_peers() {
    let mut world = opens(u32::MAX);
    world.link("add up --type wire");
    let more = "link replace up --queues 4\n\
                qdisc replace dev up root handle 1: mq\n\
                qdisc replace dev up parent 1:2 handle 12: pfifo limit 3\n\
                qdisc replace dev up parent 1:4 handle 14: pfifo limit 7\n";
    assert_eq!(reload(&mut world, more), Reply::default());
    let saved = world.save();
    let there = "dev up parent 1:4 handle 14: pfifo limit 7p\n";
    assert!(saved.contains(" --queues 4 ") && saved.contains(there), "{saved}");
    // A queue that stays keeps its qdisc.
    let fewer = "link replace up --queues 2\nqdisc change dev up parent 1:2 handle 12: pfifo limit 5\n";
    assert_eq!(reload(&mut world, fewer), Reply::default());
    let saved = world.save();
    let there = "dev up parent 1:2 handle 12: pfifo limit 5p\n";
    assert!(saved.contains(" --queues 2 ") && saved.contains(there) && !saved.contains("14:"), "{saved}");
    // A peer that an earlier line has parted from another is free.
    for name in ["a", "b", "c"] {
        world.link(&format!("add {name} --type packet"));
    }
    world.link("set b --peer a");
    assert_eq!(reload(&mut world, "link set b --peer none\nlink replace c --peer a\n"), Reply::default());
    let saved = world.save();
    assert!(saved.contains("c --type packet --if c --mtu 1500 --txqueuelen 1000 --peer a\n"), "{saved}");
}

/// Lines that can be done in their order, and not with those about links first: the changes before
/// the refusal are taken back, with the qdiscs and filters of queues that had gone.
#[test]
fn changes_before_a_refusal_are_taken_back() {
    let mut world = opens(u32::MAX);
    world.link("add up --type wire --queues 4 --fairsend 3");
    world.link("add a --type packet");
    world.link("add b --type packet --peer a");
    world.tc("qdisc add dev up root handle 1: mq");
    world.tc("qdisc add dev up parent 1:2 handle 12: pfifo limit 3");
    world.tc("qdisc add dev up parent 1:4 handle 14: prio");
    world.tc("filter add dev up parent 14: pref 1 matchall classid 14:3");
    let before = world.save();
    assert!(before.contains("matchall"), "{before}");
    let text = "qdisc replace dev up parent 1:4 handle 14: pfifo limit 7\n\
                link replace up --queues 2 --mtu 900 --txqueuelen 70 --rate 1mbit\n\
                link set up --prio-synack off --fairsend 0\n\
                link set b --peer none\n\
                link replace c --type packet --peer a\n";
    let reply = reload(&mut world, text);
    assert!(reply.status > 0 && reply.stderr.contains("c.tc:1"), "{}", reply.stderr);
    assert_eq!(world.save(), before);
    assert_eq!((reload(&mut world, &before), world.save()), (Reply::default(), before));
}

/// The name of an interface may begin like that of an option.
#[test]
fn a_saved_interface_is_no_option() {
    let mut world = opens(u32::MAX);
    world.link("add a --type packet --if=-x");
    let saved = world.save();
    assert_eq!(saved, "link replace a --type packet --if=-x --mtu 1500 --txqueuelen 1000\n");
    let mut other = opens(u32::MAX);
    let now = other.now;
    assert_eq!(other.daemon.configure(now, "c.tc", &saved), Reply::default());
    assert_eq!(other.save(), saved);
    assert_eq!((reload(&mut world, &saved), world.save()), (Reply::default(), saved));
}

/// Lines that no dry run refuses on their own: each reload is done whole.
#[test]
fn a_configuration_may_add_links_and_join_new_ones() {
    let mut world = opens(u32::MAX);
    let text = "link add up --type wire\n\
                link replace a --type packet --if e\n\
                link replace b --type packet --if f --peer a\n\
                link set b --mtu 9000\n\
                link set b --mtu 8000\n\
                qdisc replace dev up root handle 2: fq_codel limit 400\n";
    assert_eq!(reload(&mut world, text), Reply::default());
    let saved = world.save();
    assert!(saved.contains("link replace b --type packet --if f --mtu 8000 --txqueuelen 1000 --peer a"));
    assert!(saved.contains("qdisc replace dev up root handle 2: fq_codel limit 400p"), "{saved}");
    let deletes = reload(&mut world, "link replace up --mtu 600\nlink del a\n");
    assert_eq!(deletes.status, 1);
    let said = "link a: a configuration makes links: expected add, set or replace, given del";
    assert!(deletes.stderr.contains(said), "{}", deletes.stderr);
    assert_eq!(world.save(), saved);
}
