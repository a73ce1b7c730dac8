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

/// The system has descriptors for the rehearsal, and then no more: nothing has changed. Each
/// interface is opened once for the rehearsal and its checks, and once more for the link.
#[test]
fn an_interface_that_is_opened_no_more_leaves_everything_as_it_was() {
    let text = "link replace up --mtu 9000\n\
                link replace e --type packet --if e\n\
                link replace f --type packet --if f\n";
    for (opened, done) in [(0, false), (1, false), (4, false), (5, false), (6, true)] {
        let mut world =
            World { daemon: Daemon::with(Links::on(Scarce(Mutex::new(opened)))), ..World::default() };
        world.link("add up");
        let before = world.save();
        let reply = reload(&mut world, text);
        assert_eq!(reply.status == 0, done, "{opened}: {}", reply.stderr);
        assert_eq!(world.save() == before, !done, "{opened}: {}", world.save());
        if opened > 3 && !done {
            let said = "c.tc: cannot open a socket for `packet:";
            assert!(reply.stderr.starts_with(said), "{}", reply.stderr);
        }
    }
}

/// Lines that no dry run refuses on their own: each reload is done whole.
#[test]
fn a_configuration_may_add_links_and_join_new_ones() {
    let machine = Scarce(Mutex::new(u32::MAX));
    let mut world = World { daemon: Daemon::with(Links::on(machine)), ..World::default() };
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
