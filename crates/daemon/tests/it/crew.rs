//! Links with workers in a daemon: in virtual time, where the test decides whose turn is next, and
//! on threads, where only laws of counts and ends are compared.

mod unequal;

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use txweir_core::Instant;
use txweir_core::base::rng::Rng;
use txweir_daemon::protocol::{Ask, Batch};
use txweir_daemon::{Daemon, Links, Machine, RunOptions, Server};
use txweir_device::{Endpoint, LinkIo, OpenCause, OpenError, clock};

use crate::common::card::Card;
use crate::common::{MS, World};
use crate::team::{frame, read};

/// Interfaces by name, each with its handles.
#[derive(Clone, Debug, Default)]
struct Deck(Arc<Mutex<Vec<Interface>>>);

/// A name, and the handles.
type Interface = (&'static str, Vec<Card>);

impl Deck {
    /// Adds an interface of so many handles.
    fn add(&self, name: &'static str, handles: usize) -> Vec<Card> {
        let cards: Vec<Card> = (0..handles).map(|_| Card::default()).collect();
        cards.iter().for_each(|card| card.seen().room = usize::MAX);
        self.0.lock().unwrap().push((name, cards.clone()));
        cards
    }

    fn daemon(&self) -> Daemon {
        Daemon::with(Links::on(self.clone()))
    }
}

impl Machine for Deck {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        self.open_queues(endpoint, 1).map(|mut handles| handles.remove(0))
    }

    fn open_queues(&self, endpoint: &Endpoint, most: usize) -> Result<Vec<LinkIo>, OpenError> {
        let all = self.0.lock().unwrap();
        let found = all.iter().find(|(name, _)| endpoint.name.as_str() == *name);
        match found.filter(|(_, cards)| cards.iter().all(|card| !card.seen().gone)) {
            Some((name, cards)) => Ok(cards.iter().take(most).map(|card| card.io(name)).collect()),
            None => Err(OpenError { interface: endpoint.to_string(), cause: OpenCause::Missing }),
        }
    }

    fn seed(&self, _: &str) -> u64 {
        7
    }
}

fn numbers(object: &Value) -> impl Iterator<Item = (&String, u64)> {
    object.as_object().expect("an object").iter().map(|(key, n)| (key, n.as_u64().expect("a number")))
}

/// Checks that the counters named on the left add up to all others.
fn adds_up(object: &Value, left: &[&str], about: &str) {
    let sum = |is_left: bool| -> u64 {
        numbers(object).filter(|(key, _)| left.contains(&key.as_str()) == is_left).map(|(_, n)| n).sum()
    };
    assert_eq!(sum(true), sum(false), "{about}: {object}");
}

/// Returns `link show -j`, after it has checked the sums of each link.
fn shown(world: &mut World, about: &str) -> Vec<Value> {
    let links: Vec<Value> = serde_json::from_str(&world.link("show -j")).expect("JSON");
    for link in &links {
        let about = format!("{about}: {}", link["name"]);
        adds_up(&link["sums"]["rx"], &["seen", "redirected"], &about);
        adds_up(&link["sums"]["in"], &["submitted"], &about);
        adds_up(&link["sums"]["tx"], &["submitted", "pieces", "copies"], &about);
    }
    links
}

fn named<'a>(links: &'a [Value], name: &str) -> &'a Value {
    links.iter().find(|link| link["name"] == name).unwrap_or_else(|| panic!("{name}: {links:?}"))
}

/// Performs lines in one step, or one by one, whether they succeed or not.
fn batch(world: &mut World, flags: &str, text: &str) {
    let args = format!("{flags} -b b").split_whitespace().map(String::from).collect();
    let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
    world.daemon.answer(world.now, &Ask::Tc { args, batch, class_names: None });
}

/// Lines that a client may send while frames flow; some are refused, as things stand.
const LINES: [(&str, &str); 16] = [
    ("", "qdisc replace dev b root handle 1: mq\n"),
    (
        "--atomic",
        "qdisc replace dev b root handle 1: htb default 1\n\
      class add dev b parent 1: classid 1:1 htb rate 50mbit\n",
    ),
    ("--atomic", "qdisc replace dev b root handle 2: mq\nqdisc add dev b parent 2:1 handle 20: fq_codel\n"),
    ("", "qdisc replace dev b root handle 3: tbf rate 20mbit burst 3000 limit 20k\n"),
    ("--atomic", "qdisc replace dev b root handle 3: tbf rate 30mbit burst 3000 limit 10k\n"),
    ("", "qdisc del dev b root\n"),
    ("", "qdisc add dev a clsact\nqdisc add dev b clsact\n"),
    (
        "",
        "filter replace dev a ingress protocol ip prio 1 handle 1 flower action mirred egress mirror dev c\n",
    ),
    ("", "filter add dev a ingress protocol ip prio 2 u32 match ip sport 3 0xffff action drop\n"),
    ("", "filter del dev a ingress\n"),
    (
        "",
        "filter add dev b egress protocol ip prio 3 u32 match ip sport 2 0xffff \
          action police rate 1mbit burst 3k conform-exceed drop\n",
    ),
    ("", "filter del dev b egress\n"),
    ("", "link set b --queues 3\n"),
    ("", "link set b --queues 2\n"),
    ("", "link set a --peer none\nlink set a --peer b\n"),
    ("", "link del c\nlink add c --type packet\n"),
];

/// Whatever is changed while frames are on the way, and whoever's turn is next: at every request
/// each frame has one origin and one place, and in the end all have arrived or are counted.
#[test]
fn every_frame_is_counted_whatever_is_changed() {
    for seed in 0..30_u64 {
        let mut rng = Rng::new(seed);
        let [many, others] = [0, 1].map(|_| [1, 2, 3, 16][rng.below(4) as usize]);
        let deck = Deck::default();
        let left = deck.add("a", if rng.below(4) == 0 { 1 } else { many });
        deck.add("b", others);
        deck.add("c", 1);
        let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
        world.link(&format!("add a --type packet --workers {many}"));
        let map = ["arrival", "hash", "0:0;1:0"][rng.below(3) as usize];
        // Some links have a wire, and some no workers.
        let how = match rng.below(4) {
            0 => String::from("--rate 100mbit"),
            1 => String::new(),
            _ => format!("--workers {others} --queue-map {map}"),
        };
        world.link(&format!("add b --type packet {how} --peer a"));
        world.link("add c --type packet");
        let about = format!("seed {seed}: {many} and {others} workers, {how}");
        let mut given = 0_u32;
        for step in 0..400 {
            world.daemon.deploy().expect("workers");
            for _ in 0..rng.below(10) {
                let flow = rng.below(5) as u16;
                left[usize::from(flow) % left.len()].seen().incoming.push_back(frame(flow, given));
                given += 1;
            }
            let (at, now) = (rng.below(many.max(others) as u64 + 1) as usize, world.now);
            match at {
                0 => _ = world.daemon.links_mut().turn(&|| now, &[]),
                at => {
                    let worker = world.daemon.workers_mut().get_mut(at - 1);
                    worker.into_iter().for_each(|links| _ = links.turn(&|| now, &[]));
                }
            }
            world.now = Instant(now.0 + rng.below(200_000));
            if step % 7 == 0 {
                let (flags, text) = LINES[rng.below(LINES.len() as u64) as usize];
                batch(&mut world, flags, text);
                shown(&mut world, &format!("{about}, {text}"));
            }
            if rng.below(20) == 0 {
                world.link("send b --packets 300 --flows 9");
            }
        }
        batch(&mut world, "", "link set a --peer b\n");
        for _ in 0..400 {
            world.daemon.deploy().expect("workers");
            let now = world.now;
            let mut more = world.daemon.links_mut().turn(&|| now, &[]);
            for links in world.daemon.workers_mut() {
                more |= links.turn(&|| now, &[]);
            }
            world.now = if more { now } else { Instant(now.0 + 20 * MS) };
        }
        let links = shown(&mut world, &about);
        let rx = &named(&links, "a")["sums"]["rx"];
        assert_eq!(rx["seen"], given, "{about}: {rx}");
        assert_eq!(rx["waiting"], 0, "{about}: {rx}");
        for link in &links {
            let tx = &link["sums"]["tx"];
            let under_way = ["waiting", "queued", "inflight", "crossing"];
            let left: u64 =
                numbers(tx).filter(|(key, _)| under_way.contains(&key.as_str())).map(|(_, n)| n).sum();
            assert_eq!(left, 0, "{about}: {tx}");
        }
    }
}

/// Returns a daemon of two links, of so many workers, whose frames go by mq.
fn pair(workers: usize, map: &str) -> (World, Vec<Card>, Vec<Card>) {
    let deck = Deck::default();
    let (left, right) = (deck.add("a", workers), deck.add("b", workers));
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    world.link(&format!("add a --type packet --workers {workers}"));
    world.link(&format!("add b --type packet --workers {workers} --queue-map {map} --peer a"));
    world.daemon.deploy().expect("workers");
    (world, left, right)
}

/// Gives each worker turns, and the daemon's own thread, until none has more to do.
fn settle(world: &mut World) {
    let now = world.now;
    for _ in 0..100 {
        world.daemon.deploy().expect("workers");
        world.daemon.links_mut().turn(&|| now, &[]);
        for links in world.daemon.workers_mut() {
            while links.turn(&|| now, &[]) {}
        }
    }
}

/// Clients see the sum over all workers: qdiscs by their owners, filters, hooks, links.
#[test]
fn counters_are_those_of_all_workers() {
    let (mut world, left, right) = pair(2, "arrival");
    world.tc("qdisc add dev a clsact");
    world.tc("filter add dev a ingress protocol ip prio 1 u32 match ip sport 1 0xffff action ok index 4");
    for number in 0..30 {
        left[number as usize % 3 % 2].seen().incoming.push_back(frame(number as u16 % 3 % 2, number));
    }
    settle(&mut world);
    assert_eq!(right.iter().map(|card| card.seen().counters.tx_frames).collect::<Vec<_>>(), [20, 10]);
    let classes = world.tc("-s class show dev b");
    let sent: Vec<&str> = classes.lines().filter(|line| line.contains("Sent")).map(str::trim).collect();
    assert!(sent[0].starts_with("Sent 20000 bytes 20 pkt") && sent[1].starts_with("Sent 10000 bytes 10 pkt"));
    let qdiscs = world.tc("-s qdisc show dev b");
    assert!(qdiscs.contains("Sent 30000 bytes 30 pkt"), "{qdiscs}");
    let filters = world.tc("-s filter show dev a ingress");
    assert!(filters.contains("success 10") || filters.contains("Sent 9860 bytes 10 pkt"), "{filters}");
    let actions = world.tc("-s actions get action gact index 4");
    assert!(actions.contains(" 10 pkt"), "{actions}");
    let links = shown(&mut world, "");
    let b = named(&links, "b");
    assert_eq!((&b["packets"], &b["queues"], &b["workers"]), (&30.into(), &2.into(), &2.into()), "{b}");
    let queues: Vec<&Value> =
        b["per_queue"].as_array().unwrap().iter().map(|queue| &queue["packets"]).collect();
    assert_eq!(queues, [&Value::from(20), &Value::from(10)]);
    assert_eq!(named(&links, "a")["rx"]["frames"], 30);
}

/// Frames that find the mailbox of their queue's owner full are dropped, and in the sums.
#[test]
fn a_full_mailbox_is_in_the_sums() {
    let (mut world, left, _) = pair(2, "0:1;1:1");
    for number in 0..3000 {
        left[0].seen().incoming.push_back(frame(1, number));
    }
    // The second worker has the queue, and no turn.
    let now = world.now;
    while world.daemon.workers_mut()[0].turn(&|| now, &[]) {}
    let links = shown(&mut world, "");
    let tx = &named(&links, "b")["sums"]["tx"];
    assert_eq!((&tx["refused"], &tx["delivered"], &tx["crossing"]), (&1976.into(), &1024.into(), &0.into()));
}

/// Returns the frames that left by these handles, and that none was lost for lack of room.
fn came_in_order(world: &mut World, right: &[Card], about: &str) -> u32 {
    let mut came = 0;
    for card in right {
        let mut last = [None; 16];
        for (_, bytes) in card.seen().sent.as_ref().expect("they are kept") {
            let (flow, number) = read(bytes);
            assert!(last[usize::from(flow)].replace(number) < Some(number), "{about}: {number} of {flow}");
            came += 1;
        }
    }
    let links = shown(world, about);
    let tx = &named(&links, "b")["sums"]["tx"];
    assert_eq!(
        (&tx["dropped"], &tx["refused"], &tx["lost"]),
        (&0.into(), &0.into(), &0.into()),
        "{about}: {tx}"
    );
    came
}

/// Senders that wait lose nothing for lack of room, whoever has the full qdiscs and whoever's turn
/// is next: few of their frames are under way, which are held in order, and the rest stays with
/// them.
#[test]
fn senders_that_wait_lose_nothing_at_other_workers() {
    const FRAMES: u32 = 3000;
    for seed in 0..24_u64 {
        let mut rng = Rng::new(seed);
        let workers = [2, 3, 4, 8][rng.below(4) as usize];
        // The senders are also those of the daemon's own thread, which has one handle.
        let alone = rng.below(4) == 0;
        let (deck, handles) = (Deck::default(), if alone || rng.below(2) == 0 { 1 } else { workers });
        let (left, right) = (deck.add("a", handles), deck.add("b", workers));
        left.iter().for_each(|card| card.seen().waits = true);
        for card in &right {
            (card.seen().room, card.seen().sent) = (0, Some(Vec::new()));
        }
        let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
        let how = if alone { String::new() } else { format!("--workers {workers}") };
        world.link(&format!("add a --type packet {how}"));
        let map = ["arrival", "hash"][rng.below(2) as usize];
        world.link(&format!("add b --type packet --workers {workers} --queue-map {map} --peer a"));
        let root = rng.below(3);
        match root {
            0 => world.tc("qdisc replace dev b root handle 1: pfifo limit 5"),
            1 => world.tc("qdisc replace dev b root handle 1: prio"),
            _ => world.tc("qdisc replace dev b root handle 1: mq"),
        };
        let classes = [0, 3, workers][root as usize];
        for class in 1..=classes {
            world.tc(&format!("qdisc replace dev b parent 1:{class:x} pfifo limit 5"));
        }
        if rng.below(2) == 0 {
            world.tc("qdisc add dev b clsact");
            world.tc("filter add dev b egress matchall action skbedit mark 1");
        }
        let about = format!("seed {seed}: {handles} of {workers} workers, {how}, {map}, root {root}");
        for number in 0..FRAMES {
            // A flow comes in by one queue.
            let flow = number % 13;
            left[flow as usize % handles].seen().incoming.push_back(frame(flow as u16, number));
        }
        let mut stays = 0;
        // Bound: 20 times the turns that the frames need, if each gives room to one frame.
        for step in 0..20 * FRAMES {
            world.daemon.deploy().expect("workers");
            let now = world.now;
            match rng.below(workers as u64 + 1) as usize {
                0 => _ = world.daemon.links_mut().turn(&|| now, &[]),
                at => _ = world.daemon.workers_mut()[at - 1].turn(&|| now, &[]),
            }
            if step > 2000 {
                right[rng.below(workers as u64) as usize].seen().room += rng.below(9) as usize;
            } else {
                let waiting = |card: &Card| card.seen().incoming.len();
                stays = left.iter().map(waiting).sum();
            }
            world.now = Instant(now.0 + rng.below(100_000));
            if step % 199 == 0 {
                shown(&mut world, &about);
                // The owner of what is held is one of many then.
                if root == 0 && step == 199 * 5 {
                    let mut lines = String::from("qdisc replace dev b root handle 2: mq\n");
                    for class in 1..=workers {
                        lines.push_str(&format!("qdisc replace dev b parent 2:{class:x} pfifo limit 5\n"));
                    }
                    world.batch("--atomic", &lines);
                }
            }
            let sent: u64 = right.iter().map(|card| card.seen().counters.tx_frames).sum();
            if sent == u64::from(FRAMES) {
                break;
            }
        }
        assert_eq!(came_in_order(&mut world, &right, &about), FRAMES, "{about}");
        // Each worker with senders has at most 256 frames on the way to others.
        let most = handles * 300 + workers * 100;
        assert!(stays > (FRAMES as usize).saturating_sub(most), "{about}: {stays}");
    }
}

/// More workers than a mailbox has places for keep a frame each, and wait.
#[test]
fn senders_that_wait_have_a_mailbox_full_and_lose_nothing() {
    const WORKERS: usize = 8;
    let (mut world, left, right) = pair(WORKERS, "hash");
    world.tc("qdisc replace dev b root handle 1: pfifo limit 100000");
    world.daemon.deploy().expect("workers");
    for (at, card) in left.iter().enumerate() {
        card.seen().waits = true;
        (0..500).for_each(|number| card.seen().incoming.push_back(frame(at as u16, number)));
    }
    right.iter().for_each(|card| card.seen().sent = Some(Vec::new()));
    let (now, waiting) =
        (world.now, || left.iter().map(|card| card.seen().incoming.len()).collect::<Vec<_>>());
    // The worker that has the whole way has no turn.
    let owner = 1 % WORKERS;
    for _ in 0..100 {
        for (at, links) in world.daemon.workers_mut().iter_mut().enumerate() {
            if at != owner {
                links.turn(&|| now, &[]);
            }
        }
    }
    let took: usize = waiting().iter().map(|left| 500 - left).sum();
    // The places of the mailbox, and one frame each of those that found no place.
    assert!((1024..=1024 + WORKERS).contains(&took), "{took}: {:?}", waiting());
    // A worker that keeps a frame has more to do until the other has had a turn.
    for _ in 0..100 {
        world.daemon.workers_mut().iter_mut().for_each(|links| _ = links.turn(&|| now, &[]));
    }
    settle(&mut world);
    assert_eq!(came_in_order(&mut world, &right, ""), 500 * WORKERS as u32);
}

/// Single handles go to the workers in turns.
#[test]
fn cards_of_one_queue_are_spread_over_the_workers() {
    let deck = Deck::default();
    let names = ["v0", "v1", "v2", "v3"];
    let cards = names.map(|name| deck.add(name, 1));
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    for name in names {
        world.link(&format!("add {name} --type packet --workers 3"));
    }
    world.link("set v1 --peer v0");
    world.link("set v3 --peer v2");
    world.daemon.deploy().expect("workers");
    for (at, card) in cards.iter().enumerate() {
        card[0].seen().incoming.push_back(frame(1, 0));
        let now = world.now;
        for (worker, links) in world.daemon.workers_mut().iter_mut().enumerate() {
            links.turn(&|| now, &[]);
            let here = worker >= at % 3;
            assert_eq!(card[0].seen().incoming.is_empty(), here, "{at} {worker}");
        }
    }
    settle(&mut world);
    assert_eq!(cards.map(|card| card[0].seen().counters.tx_frames), [1; 4]);
}

/// A swap keeps the packets that wait, at every worker.
#[test]
fn a_swap_keeps_what_waits_at_each_worker() {
    let (mut world, left, right) = pair(2, "arrival");
    let slow = "tbf rate 8kbit burst 1600 limit 100k";
    world.batch(
        "",
        &format!(
            "qdisc replace dev b root handle 1: mq\n\
         qdisc replace dev b parent 1:1 handle 10: {slow}\nqdisc replace dev b parent 1:2 handle 20: {slow}\n"
        ),
    );
    for number in 0..40 {
        left[number as usize % 2].seen().incoming.push_back(frame(number as u16 % 2, number));
    }
    settle(&mut world);
    assert_eq!(named(&shown(&mut world, ""), "b")["backlog_packets"], 38);
    world.batch("--atomic", "qdisc replace dev b root handle 2: mq\n");
    settle(&mut world);
    let links = shown(&mut world, "");
    assert_eq!((&named(&links, "b")["packets"], &named(&links, "b")["drops"]), (&40.into(), &0.into()));
    assert_eq!(right.iter().map(|card| card.seen().counters.tx_frames).collect::<Vec<_>>(), [20, 20]);
}

/// A saved configuration makes the same links, and one that is given again changes nothing.
#[test]
fn workers_are_saved() {
    let deck = Deck::default();
    deck.add("a", 2);
    deck.add("b", 1);
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    world.link("add a --type packet --workers 2 --queue-map 0:1;1:0");
    world.link("add b --type packet --workers 2 --rate 10mbit");
    world.link("add c --type null");
    let saved = world.save();
    let lines: Vec<&str> = saved.lines().take(2).collect();
    assert_eq!(
        lines[0],
        "link replace a --type packet --queues 2 --if a --workers 2 --queue-map 0:1;1:0 --mtu 1500 --txqueuelen 1000"
    );
    assert!(lines[1].starts_with("link replace b --type packet --queues 1 --if b --workers 2 --mtu 1500"));
    world.batch("", &saved);
    assert_eq!(world.save(), saved);
    let mut other = World { daemon: deck.daemon(), now: Instant(MS) };
    other.batch("", &saved);
    assert_eq!(other.save(), saved);
}

/// Workers that a link cannot have are refused, with the reason.
#[test]
fn impossible_workers_are_refused() {
    let deck = Deck::default();
    deck.add("a", 2);
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    assert_eq!(
        world.refused("add n --workers 2").1,
        "link n workers: expected a link of type tap, packet, xdp, vhost or vxlan, which has an interface to share\n"
    );
    let map = world.refused("add a --type packet --workers 2 --queue-map 0:2").1;
    assert_eq!(map, "link a queue-map: expected transmit queues 0 to 1 for receive queue 0, given 2\n");
    world.link("add a --type packet --workers 2");
    let other = world.refused("replace a --type packet --workers 3").1;
    assert!(other.starts_with("link a workers: expected 2, as it is, given 3"), "{other}");
    let many = world.refused("add x --type packet --workers 65").1;
    assert!(many.contains("65 is not in 1..=64"), "{many}");
}

/// A machine that starts no more threads.
#[derive(Debug)]
struct Full(Deck);

impl Machine for Full {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        self.0.open(endpoint)
    }
    fn seed(&self, _: &str) -> u64 {
        7
    }
    fn check_threads(&self, _: usize) -> std::io::Result<()> {
        Err(std::io::Error::from_raw_os_error(11)) // EAGAIN
    }
}

/// A client learns that there are no threads for the workers that it asks for, and the daemon goes
/// on.
#[test]
fn workers_without_threads_are_refused() {
    let deck = Deck::default();
    deck.add("a", 2);
    let mut world = World { daemon: Daemon::with(Links::on(Full(deck))), now: Instant(MS) };
    let said = "link a workers: expected threads that the system starts, given 2 more: \
                Resource temporarily unavailable (os error 11)\n";
    assert_eq!(world.refused("add a --type packet --workers 2"), (2, said.to_owned()));
    world.link("add a --type packet");
}

/// Serves rounds until the links are as `is` wants them, at most for a minute.
pub fn until(server: &mut Server, stop: &UnixStream, mut is: impl FnMut(&mut World) -> bool) {
    let give_up = clock::now_ns() + 60_000 * MS;
    loop {
        let soon = Instant(clock::now_ns() + MS);
        assert!(server.round(stop, &RunOptions::default(), Some(soon)).expect("it goes on"));
        let mut world = World { daemon: std::mem::take(server.daemon_mut()), now: Instant(clock::now_ns()) };
        let done = is(&mut world);
        *server.daemon_mut() = world.daemon;
        if done {
            return;
        }
        assert!(clock::now_ns() < give_up, "it does not come");
    }
}

/// On threads, more of them than processors: frames pass while a client changes the qdiscs and
/// looks, an interface goes and comes back, and every sum holds at each look.
#[test]
fn threads_of_a_daemon_count_every_frame() {
    const WORKERS: usize = 8;
    let deck = Deck::default();
    let (left, right) = (deck.add("a", WORKERS), deck.add("b", WORKERS));
    let mut world = World { daemon: deck.daemon(), now: Instant(clock::now_ns()) };
    world.link(&format!("add a --type packet --workers {WORKERS}"));
    world.link(&format!("add b --type packet --workers {WORKERS} --queue-map hash --peer a"));
    let options = txweir_daemon::TeamOptions { pins: Vec::new(), busy_poll: true };
    let mut server = Server::without_socket(world.daemon).with_workers(options);
    let (stop, _other) = UnixStream::pair().expect("a pair");
    let (mut given, mut turn) = (0_u32, 0);
    until(&mut server, &stop, |world| {
        for _ in 0..200 {
            left[given as usize % WORKERS].seen().incoming.push_back(frame((given % 64) as u16, given));
            given += 1;
        }
        let roots = ["handle 1: mq", "handle 2: fq_codel", "handle 3: mq", "handle 4: pfifo limit 100000"];
        world.batch("--atomic", &format!("qdisc replace dev b root {}\n", roots[turn % roots.len()]));
        turn += 1;
        shown(world, "in the middle");
        turn == 50
    });
    until(&mut server, &stop, |world| {
        let links = shown(world, "at the end");
        let tx = &named(&links, "b")["sums"]["tx"];
        let count = |key: &str| tx[key].as_u64().expect("a number");
        count("delivered") + count("dropped") + count("refused") == u64::from(given)
    });
    right[3].seen().gone = true;
    let state = |world: &mut World| named(&shown(world, "gone"), "b")["state"].clone();
    // Its handle is used by a frame that leaves.
    until(&mut server, &stop, |world| {
        right[3].seen().incoming.push_back(frame(0, 0));
        state(world) == "gone"
    });
    right[3].seen().gone = false;
    until(&mut server, &stop, |world| state(world) == "up");
    let before: u64 = right.iter().map(|card| card.seen().counters.tx_frames).sum();
    left[0].seen().incoming.push_back(frame(0, 0));
    until(&mut server, &stop, |_| {
        right.iter().map(|card| card.seen().counters.tx_frames).sum::<u64>() > before
    });
}
