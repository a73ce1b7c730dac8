//! Links whose interfaces are not there yet, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use txweir_core::Instant;
use txweir_daemon::protocol::Reply;
use txweir_daemon::{Daemon, Links, Machine};
use txweir_device::{Endpoint, LinkIo, OpenCause, OpenError};
use txweir_runtime::Notes;

use crate::common::card::Card;
use crate::common::{Log, World};

/// The interfaces of a machine by their names; those that cannot be used have no card.
#[derive(Clone, Debug, Default)]
struct Dock(Arc<Mutex<BTreeMap<String, Option<Card>>>>);

impl Dock {
    fn put(&self, name: &str, card: Option<Card>) {
        self.0.lock().expect("no test panics here").insert(name.to_owned(), card);
    }
    fn take(&self, name: &str) {
        self.0.lock().expect("no test panics here").remove(name);
    }
}

impl Machine for Dock {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        let name = endpoint.name.as_str();
        let cause = match (self.0.lock().expect("no test panics here").get(name), &endpoint.netns) {
            (Some(Some(card)), _) => return Ok(card.io(name)),
            (Some(None), _) => OpenCause::IsTun,
            (None, None) => OpenCause::Missing,
            (None, Some(netns)) => OpenCause::NoNamespace(netns.clone()),
        };
        Err(OpenError { interface: endpoint.to_string(), cause })
    }
    fn seed(&self, _: &str) -> u64 {
        1
    }
}

/// Returns a daemon with these interfaces, and its log.
fn world(dock: &Dock) -> (World, Log) {
    let (mut links, log) = (Links::on(dock.clone()), Log::default());
    *links.notes_mut() = Notes::new(Box::new(log.clone()));
    (World { daemon: Daemon::with(links), ..World::default() }, log)
}

const TEXT: &str = "\
link replace a --type packet
link replace b --type packet --if far/b0 --mtu 600 --peer a --queues 2
qdisc replace dev a root handle 7: fq_codel limit 777
qdisc replace dev b root handle 8: prio
filter add dev b parent 8: protocol ip pref 1 u32 match ip dst 10.0.0.2/32 flowid 8:1
";

const MISSING: &str = "interface `packet:a` does not exist: `ip link` lists those that do";

fn configure(world: &mut World, text: &str) -> Reply {
    let now = world.now;
    world.daemon.configure(now, "c.tc", text)
}

fn state(world: &mut World, link: &str) -> String {
    world.show(link)[0]["state"].as_str().expect("a text").to_owned()
}

/// Two tunnels cannot have one local address and port, whatever their networks.
#[test]
fn a_tunnel_at_an_address_in_use_is_refused_with_the_address() {
    let dock = Dock::default();
    dock.put("vxlan42", Some(Card::default()));
    let (mut world, _) = world(&dock);
    world.link("add a --type vxlan --if 42,192.0.2.1,192.0.2.2");
    let (_, error) = world.refused("add b --type vxlan --if 43,192.0.2.1,192.0.2.3");
    let tunnel = "vxlan:43,192.0.2.1,192.0.2.3";
    assert_eq!(error, format!("link b if: {tunnel} has the local address and port of link a already\n"));
}

/// Lets so many seconds pass.
fn seconds(world: &mut World, n: u64) {
    let end = Instant(world.now.0 + n * 1_000_000_000);
    world.until(end);
}

#[test]
fn a_link_of_a_configuration_waits_for_its_interface() {
    let dock = Dock::default();
    let (mut world, log) = world(&dock);
    assert_eq!(configure(&mut world, TEXT), Reply::default());
    let shown = world.show("a");
    assert_eq!((shown[0]["state"].as_str(), shown[0]["why"].as_str()), (Some("waiting"), Some(MISSING)));
    let table = world.link("show");
    assert_eq!(table.matches("  waiting  ").count(), 2, "{table}");
    // The configuration is whole, and another daemon without these interfaces reads it.
    let saved = world.save();
    assert!(saved.starts_with("link replace a --type packet --if a --txqueuelen 1000\n"), "{saved}");
    assert!(saved.contains("b --type packet --queues 2 --if far/b0 --mtu 600 --txqueuelen 1000 --peer a\n"));
    let (mut other, _) = self::world(&dock);
    assert_eq!((configure(&mut other, &saved), other.save()), (Reply::default(), saved.clone()));
    seconds(&mut world, 5);
    let far = "interface `packet:far/b0`: there is no network namespace `far` \
               (looked at /run/netns/far): create it first (`ip netns add`)";
    let said = [format!("txweir: link a: waiting: {MISSING}"), format!("txweir: link b: waiting: {far}")];
    assert_eq!(log.lines(), said);
    // Packets are lost and counted.
    assert!(world.link("send a --packets 3 --size 60").starts_with("3 packets of 60 bytes: 0 sent"));
    assert_eq!(world.count("a", "lost"), 3);
    // A client names interfaces that are there.
    for (line, name) in [("replace a --type packet", "a"), ("add c --type packet --if z", "z")] {
        let (status, error) = world.refused(line);
        let missing = MISSING.replace(":a`", &format!(":{name}`"));
        assert_eq!((status, error.ends_with(&format!("{missing}\n"))), (2, true), "{error}");
    }
    let (_, error) = world.refused("add c --type packet --if a");
    assert_eq!(error, "link c if: packet:a is the interface of link a already\n");
    // An interface of another sort is no success, and the log says so once.
    dock.put("a", None);
    seconds(&mut world, 5);
    let why = world.show("a")[0]["why"].as_str().expect("a text").to_owned();
    assert_eq!((state(&mut world, "a"), why.contains("is a TUN device")), ("waiting".to_owned(), true));
    assert_eq!(log.lines(), [format!("txweir: link a: waiting: {why}")]);
    let card = Card::default();
    (card.seen().room, card.seen().mtu) = (100, Some(9000));
    dock.put("a", Some(card.clone()));
    seconds(&mut world, 2);
    assert_eq!(log.lines(), ["txweir: link a: interface `packet:a` has appeared"]);
    assert_eq!((state(&mut world, "a"), state(&mut world, "b")), ("up".to_owned(), "waiting".to_owned()));
    // The policy is as it was; the MTU is that of the interface, because no line gives another.
    assert_eq!(world.save(), saved.replace("--if a --txq", "--if a --mtu 9000 --txq"));
    assert!(world.link("send a --packets 3 --size 60").starts_with("3 packets of 60 bytes: 3 sent"));
    assert_eq!(card.seen().counters.tx_frames, 3);
    // It vanishes, and returns.
    card.seen().gone = true;
    let now = world.now;
    world.daemon.links_mut().turn(&move || now, &[]);
    dock.take("a");
    seconds(&mut world, 3);
    assert_eq!(state(&mut world, "a"), "gone");
    dock.put("a", Some(Card::default()));
    dock.put("b0", Some(Card::default()));
    seconds(&mut world, 2);
    assert_eq!((state(&mut world, "a"), state(&mut world, "b")), ("up".to_owned(), "up".to_owned()));
    assert_eq!(world.save(), saved.replace("--if a --txq", "--if a --mtu 9000 --txq"));
    let said = log.lines();
    assert!(said[0].starts_with("txweir: link a: interface `packet:a` is gone: "), "{said:?}");
    let b_then_a = [
        "txweir: link b: interface `packet:far/b0` has appeared",
        "txweir: link a: interface `packet:a` is back",
    ];
    assert_eq!(said[1..], b_then_a);
}

/// A machine on which an interface is missing so many times, and cannot be opened after that.
#[derive(Debug)]
struct Late(Mutex<u32>);

impl Machine for Late {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        let mut left = self.0.lock().expect("no test panics here");
        let error = std::io::Error::from_raw_os_error(24); // EMFILE
        let cause = match *left {
            0 => OpenCause::System { what: "open a socket for", error },
            _ => OpenCause::Missing,
        };
        *left = left.saturating_sub(1);
        Err(OpenError { interface: endpoint.to_string(), cause })
    }
    fn seed(&self, _: &str) -> u64 {
        1
    }
}

#[test]
fn a_reload_waits_for_missing_interfaces_and_is_done_whole() {
    for missing in [0, 1] {
        let links = Links::on(Late(Mutex::new(missing)));
        let mut world = World { daemon: Daemon::with(links), ..World::default() };
        world.link("add up");
        let before = world.save();
        let text = "link replace up --mtu 9000\nlink replace a --type packet\n\
                    qdisc replace dev a root handle 7: fq_codel limit 777\n";
        let now = world.now;
        let reply = world.daemon.reload(now, "c.tc", text);
        // An interface that was missing once is missing until the end of the reload.
        assert_eq!(reply.status == 0, missing == 1, "{}", reply.stderr);
        assert_eq!(world.save() == before, missing == 0);
        if missing == 1 {
            assert_eq!(state(&mut world, "a"), "waiting");
            assert!(world.save().contains("dev a root handle 7: fq_codel limit 777p"));
            let again = world.daemon.reload(now, "c.tc", text);
            assert!(again.stderr.contains("cannot open a socket for"), "{}", again.stderr);
        }
    }
    // A link that waits, or is gone, stands in the way of no other change.
    let dock = Dock::default();
    let card = Card::default();
    dock.put("a", Some(card.clone()));
    let (mut world, _) = world(&dock);
    assert_eq!(configure(&mut world, TEXT), Reply::default());
    card.seen().gone = true;
    seconds(&mut world, 1);
    let now = world.now;
    world.daemon.links_mut().turn(&move || now, &[]);
    dock.take("a");
    assert_eq!((state(&mut world, "a"), state(&mut world, "b")), ("gone".to_owned(), "waiting".to_owned()));
    let text = TEXT.replace("777", "888");
    assert_eq!(world.daemon.reload(now, "c.tc", &text), Reply::default());
    assert!(world.tc("qdisc show dev a").contains("limit 888p"));
}
