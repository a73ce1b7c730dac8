//! Links of which some workers have no part, and requests that find the workers at work: the ways
//! on which a copy could be another than the link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use txweir_netlink::message::{Header, TcHead, flag, kind, message};

use super::*;

/// Returns the numbers of packets that `tc -s class show` tells of, in its order.
fn sent(shown: &str) -> Vec<u64> {
    let lines = shown.lines().filter(|line| line.trim().starts_with("Sent"));
    lines.map(|line| line.split_whitespace().nth(3).unwrap().parse().unwrap()).collect()
}

fn at(cards: &[Card]) -> Vec<u64> {
    cards.iter().map(|card| card.seen().counters.tx_frames).collect()
}

/// Returns a daemon of two peers, of four workers and of two, with the handles of each.
fn four_and_two() -> (World, Vec<Card>, Vec<Card>) {
    let deck = Deck::default();
    let (left, right) = (deck.add("a", 4), deck.add("b", 2));
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    world.link("add a --type packet --workers 4");
    world.link("add b --type packet --workers 2 --queue-map hash --peer a");
    (world, left, right)
}

/// A worker with a handle of one link alone chooses among the queues of the other: by its map, by
/// the queue that an action asks for, and by traffic classes.
#[test]
fn a_worker_without_a_part_of_a_link_chooses_its_queue() {
    let (mut world, left, right) = four_and_two();
    let burst = |world: &mut World| {
        let before = at(&right);
        for flow in 0..64 {
            left[2].seen().incoming.push_back(frame(flow, 0));
        }
        settle(world);
        let now = at(&right);
        [now[0] - before[0], now[1] - before[1]]
    };
    settle(&mut world);
    let by_hash = burst(&mut world);
    assert!(by_hash[0] > 16 && by_hash[1] > 16 && by_hash[0] + by_hash[1] == 64, "{by_hash:?}");
    // The same flows have the same hash at a worker that has a part of the link.
    let before = at(&right);
    (0..64).for_each(|flow| left[0].seen().incoming.push_back(frame(flow, 0)));
    settle(&mut world);
    assert_eq!(at(&right)[0] - before[0], by_hash[0]);
    world.tc("qdisc add dev b clsact");
    world.tc("filter add dev b egress matchall action skbedit queue_mapping 1");
    assert_eq!(burst(&mut world), [0, 64]);
    world.tc("filter replace dev b egress protocol all pref 49152 matchall action skbedit priority 1");
    world.tc(
        "qdisc replace dev b root mqprio num_tc 2 map 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0",
    );
    assert_eq!(burst(&mut world), [64, 0]);
}

/// A map is checked against the queues of its link, wherever a worker has no part of it.
#[test]
fn a_map_is_that_of_the_link_at_each_worker() {
    let deck = Deck::default();
    let (left, right) = (deck.add("a", 3), deck.add("b", 2));
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    world.link("add a --type tap --workers 3");
    world.link("add b --type tap --workers 2 --queue-map 0:0;1:1;2:1 --peer a");
    world.daemon.deploy().expect("workers");
    left.iter().for_each(|card| card.seen().incoming.push_back(frame(1, 0)));
    settle(&mut world);
    assert_eq!(at(&right), [1, 2]);
}

/// Filters at the qdiscs of queues meet the frames of workers that have no such qdiscs.
#[test]
fn filters_at_qdiscs_meet_the_frames_of_every_worker() {
    let (mut world, left, right) = four_and_two();
    world.tc("qdisc replace dev b root handle 1: mq");
    for queue in 1..=2 {
        world.tc(&format!("qdisc replace dev b parent 1:{queue} handle {queue}0: prio"));
        world.tc(&format!("filter add dev b parent {queue}0: matchall classid {queue}0:3"));
    }
    for card in &left {
        (0..10).for_each(|flow| card.seen().incoming.push_back(frame(flow, 0)));
    }
    settle(&mut world);
    assert_eq!(at(&right).iter().sum::<u64>(), 40);
    let all: Vec<u64> = sent(&world.tc("-s class show dev b parent 10:"));
    let more = sent(&world.tc("-s class show dev b parent 20:"));
    assert_eq!(all[2] + more[2], 40, "{all:?} {more:?}");
}

/// In the middle of a long request frames go by the owners of the queues as they are by then.
#[test]
fn a_long_request_lets_frames_pass_by_present_owners() {
    for lines in [
        "link add c --type packet\nlink set a --peer c\nqdisc show dev c\nlink set a --peer b\n",
        "link add c --type packet --workers 3\nqdisc show dev c\nqdisc show dev b\n",
        "link add c --type packet\nlink del c\nqdisc show dev b\n",
    ] {
        let deck = Deck::default();
        let (left, right) = (deck.add("a", 1), deck.add("b", 2));
        let third = deck.add("c", 3);
        let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
        world.link("add b --type packet --workers 2 --queue-map hash");
        world.link("add a --type packet --peer b");
        world.daemon.deploy().expect("workers");
        // Each look at the clock takes a millisecond, so that each step of a request is a long one.
        let clock = Arc::new(AtomicU64::new(world.now.0));
        let ticks = Arc::clone(&clock);
        let tick = move || Instant(ticks.fetch_add(MS, Ordering::Relaxed));
        world.daemon.links_mut().set_clock(Box::new(tick));
        (0..500).for_each(|number| left[0].seen().incoming.push_back(frame(number as u16 % 13, number)));
        world.batch("", lines);
        let passed = at(&right).iter().chain(&at(&third)).sum::<u64>();
        assert!(passed > 0, "{lines}: none during the request");
        world.now = Instant(clock.load(Ordering::Relaxed));
        settle(&mut world);
        let links = shown(&mut world, lines);
        assert_eq!(at(&right).iter().chain(&at(&third)).sum::<u64>(), 500, "{lines}");
        for link in &links {
            assert_eq!(link["sums"]["tx"]["crossing"], 0, "{lines}: {link}");
        }
    }
}

/// A message of rtnetlink changes the qdiscs of every worker, and shows the sums of all.
#[test]
fn rtnetlink_reaches_every_worker() {
    let (mut world, left, right) = pair(2, "arrival");
    world.tc("qdisc replace dev b root pfifo limit 5");
    world.daemon.deploy().expect("workers");
    let flags = flag::REQUEST | flag::ACK | flag::CREATE | flag::REPLACE;
    let request = message(Header { kind: kind::NEW_QDISC, flags, seq: 1, port: 0 }, |w| {
        TcHead { link: 3, handle: 0x1_0000, parent: u32::MAX, info: 0 }.write(w);
        w.text(1, "mq");
    });
    let mut client = txweir_netlink::Client::default();
    let answer = world.daemon.netlink(world.now, &request, &mut client);
    assert!(answer.changes.len() == 1 && answer.changes[0].is_done, "{answer:?}");
    assert!(world.tc("qdisc show dev b").starts_with("qdisc mq 1: root"));
    for number in 0..30 {
        left[number as usize % 2].seen().incoming.push_back(frame(number as u16 % 2, number));
    }
    settle(&mut world);
    assert_eq!(at(&right), [15, 15]);
    assert_eq!(sent(&world.tc("-s class show dev b")), [15, 15]);
}

/// The threads of workers wait for frames alone while an interface is away: the daemon's own thread
/// opens it again.
#[test]
fn workers_rest_while_an_interface_is_away() {
    let deck = Deck::default();
    let cards = deck.add("a", 2);
    let mut world = World { daemon: deck.daemon(), now: Instant(MS) };
    world.link("add a --type packet --workers 2");
    world.daemon.deploy().expect("workers");
    cards[0].seen().gone = true;
    let now = world.now;
    world.daemon.workers_mut()[0].turn(&|| now, &[]);
    for links in world.daemon.workers_mut() {
        let deadline = links.deadline(now);
        assert!(deadline.is_none_or(|at| at > now), "{deadline:?}");
    }
}

/// Frames that wait at a worker whose handle does not come back are lost, and not delivered.
#[test]
fn a_worker_without_a_handle_loses_frames() {
    let deck = Deck::default();
    let (left, right) = (deck.add("a", 2), deck.add("b", 2));
    let mut world = World { daemon: deck.daemon(), now: Instant(clock::now_ns()) };
    world.link("add a --type packet --workers 2");
    world.link("add b --type packet --workers 2 --queue-map arrival --peer a");
    let root = "qdisc replace dev b root handle 1: mq\n";
    let below = |rate: &str| {
        let line = |queue: u32| {
            format!(
                "qdisc replace dev b parent 1:{queue} handle {queue}0: tbf rate {rate} burst 1600 limit 100k\n"
            )
        };
        format!("{}{}", line(1), line(2))
    };
    world.batch("", &format!("{root}{}", below("8kbit")));
    for number in 0..40 {
        left[number as usize % 2].seen().incoming.push_back(frame(number as u16 % 2, number));
    }
    let options = txweir_daemon::TeamOptions { pins: Vec::new(), busy_poll: true };
    let mut server = Server::without_socket(world.daemon).with_workers(options);
    let (stop, _other) = UnixStream::pair().expect("a pair");
    until(&mut server, &stop, |world| named(&shown(world, ""), "a")["rx"]["frames"] == 40);
    // The interface is made again with one queue.
    right.iter().for_each(|card| card.seen().gone = true);
    let state = |world: &mut World| named(&shown(world, "gone"), "b")["state"].clone();
    until(&mut server, &stop, |world| state(world) == "gone");
    deck.0.lock().unwrap().iter_mut().find(|(name, _)| *name == "b").expect("b").1.truncate(1);
    right.iter().for_each(|card| card.seen().gone = false);
    until(&mut server, &stop, |world| state(world) == "up");
    let mut lines = Some(below("100mbit"));
    let count = |tx: &Value, key: &str| tx[key].as_u64().expect("a number");
    let mut tx = Value::Null;
    until(&mut server, &stop, |world| {
        lines.take().iter().for_each(|lines| _ = world.batch("", lines));
        tx = named(&shown(world, ""), "b")["sums"]["tx"].clone();
        count(&tx, "delivered") + count(&tx, "lost") == 40
    });
    assert_eq!(count(&tx, "delivered"), at(&right).iter().sum::<u64>(), "{tx}");
    assert!(count(&tx, "lost") > 0, "{tx}");
}
