//! Links of several workers, in virtual time: the test decides whose turn is next. And on threads,
//! where only the law of the counts and the end are compared.

mod threads;

use serde_json::Value;
use txweir_core::base::rng::Rng;
use txweir_core::text::stats::Counters as _;
use txweir_core::{Instant, Nanos};
use txweir_daemon::{Links, QueueMap, Side, parts, report, seat};
use txweir_device::{IfName, VnetHdr};
use txweir_runtime::Ledger;
use txweir_tc::Source;
use txweir_tc::tool::{Request, run};

use crate::common::MS;
use crate::common::card::Card;

/// Bytes of the test's frames.
const LEN: usize = 1000;

/// Two interfaces with a card for each handle, and the links of each worker.
pub struct Crew {
    pub left: Vec<Card>,
    pub right: Vec<Card>,
    pub parts: Vec<Links>,
}

/// Returns a frame of UDP of this flow, with its number in the payload.
pub fn frame(flow: u16, number: u32) -> (VnetHdr, Vec<u8>) {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((LEN as u16 - 14).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(flow.to_be_bytes());
    frame.extend([0, 9]);
    frame.extend((LEN as u16 - 34).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(LEN, 0);
    (VnetHdr::default(), frame)
}

/// Returns the flow and the number of a frame of [`frame`].
pub fn read(frame: &[u8]) -> (u16, u32) {
    (u16::from_be_bytes([frame[34], frame[35]]), u32::from_be_bytes(frame[42..46].try_into().unwrap()))
}

fn cards(many: usize) -> Vec<Card> {
    (0..many)
        .map(|_| {
            let card = Card::default();
            card.seen().room = usize::MAX;
            card.seen().sent = Some(Vec::new());
            card
        })
        .collect()
}

fn side(name: &str, cards: &[Card], wire: Option<&str>) -> Side {
    Side {
        name: IfName::new(name).expect("a name"),
        endpoint: format!("packet:{name}").parse().expect("an endpoint"),
        handles: cards.iter().map(|card| card.io(name)).collect(),
        wire: wire.map(|wire| wire.parse().expect("a wire")),
    }
}

/// Performs tc lines on the links of a worker.
fn tc(links: &mut Links, lines: &str) -> String {
    let args = ["-b", "policy"].map(String::from).to_vec();
    let request = Request { args, batch: Some(Source::new("policy", lines)), class_names: None };
    let done = run(&request, links);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{lines}");
    done.stdout
}

impl Crew {
    /// Makes links of this many workers over interfaces with so many handles.
    pub fn new(workers: usize, handles: [usize; 2], wire: Option<&str>, policy: &str, map: &str) -> Self {
        let (left, right) = (cards(handles[0]), cards(handles[1]));
        let sides = [side("left", &left, wire), side("right", &right, wire)];
        let mut parts = parts(sides, workers).expect("parts");
        parts.iter_mut().for_each(|links| drop(tc(links, policy)));
        seat(&mut parts, &map.parse().expect("a map")).expect("seats");
        Self { left, right, parts }
    }

    fn turn(&mut self, worker: usize, now: u64) -> bool {
        self.parts[worker].turn(&move || Instant(now), &[])
    }

    /// Gives every worker turns until none has more to do at `now`.
    fn settle(&mut self, now: u64) {
        for _ in 0..1000 {
            let mut more = false;
            let before = self.done();
            for worker in 0..self.parts.len() {
                more |= self.turn(worker, now);
            }
            if !more && self.done() == before {
                return;
            }
        }
        panic!("it does not settle");
    }

    /// Returns a number that changes with every step of a frame.
    fn done(&self) -> u64 {
        let ways = self.parts.iter().flat_map(|part| part.all().iter().map(|link| &link.way));
        ways.map(|way| way.crossed().from_others + way.stats().delivered + way.stats().received).sum()
    }

    /// Returns the report of the way from left to right, after it has checked the law of the frames
    /// of each worker and of all.
    fn report(&mut self) -> Value {
        for part in &self.parts {
            for link in part.all() {
                let ([came, known], crossed) = (link.way.ledger().sums(), link.way.crossed());
                assert_eq!(came + crossed.from_others, known + crossed.to_others + crossed.refused);
            }
        }
        let mut parts: Vec<&mut Links> = self.parts.iter_mut().collect();
        let text = report::json_of_parts(&mut parts, "stats", Nanos(1));
        let report: Value = serde_json::from_str(&text).expect("JSON");
        for way in report["directions"].as_array().expect("ways") {
            let [came, known] = sums(way);
            assert_eq!(came, known, "{way}");
        }
        let ways = report["directions"].as_array().expect("ways");
        ways.iter().find(|way| way["to"] == "packet:right").expect("the way").clone()
    }

    /// Returns the frames that left by the right interface, those of each handle.
    fn sent(&self) -> Vec<Vec<(u16, u32)>> {
        let of = |card: &Card| {
            let seen = card.seen();
            seen.sent.as_ref().expect("frames").iter().map(|(_, bytes)| read(bytes)).collect()
        };
        self.right.iter().map(of).collect()
    }
}

fn count(way: &Value, key: &str) -> u64 {
    way["frames"][key].as_u64().unwrap_or_else(|| panic!("{key}: {way}"))
}

/// Returns the frames of a way as the law of the counts has them, those on the way between two
/// workers included: those that came, and those whose fate or place is known.
fn sums(way: &Value) -> [u64; 2] {
    let mut keys = Ledger::TABLE.iter();
    let ledger = Ledger::read(&mut || keys.next().map_or(0, |counter| count(way, counter.key)));
    let crossed = |key: &str| way["crossed"][key].as_u64().expect("a number");
    let between = crossed("to_others").checked_sub(crossed("from_others")).expect("none came before it went");
    let [came, known] = ledger.sums();
    [came, known + between + crossed("refused")]
}

/// The roots that the tests put on the way from left to right.
const ROOTS: [&str; 5] = [
    "",
    "qdisc replace dev right root handle 1: mqprio num_tc 2 map 0 1 0 1 queues 1@0 1@1 hw 0\n",
    "qdisc replace dev right root handle 1: pfifo limit 50\n",
    "qdisc replace dev right root handle 1: htb default 1\n\
     class add dev right parent 1: classid 1:1 htb rate 50mbit\n\
     class add dev right parent 1: classid 1:2 htb rate 5mbit\n\
     filter add dev right parent 1: protocol ip prio 1 u32 match ip sport 3 0xffff flowid 1:2\n",
    "qdisc replace dev right root handle 1: mq\n\
     qdisc add dev right clsact\n\
     filter add dev right egress protocol ip prio 1 u32 match ip sport 5 0xffff action skbedit queue_mapping 1\n\
     filter add dev right egress protocol ip prio 2 u32 match ip sport 6 0xffff action drop\n",
];

/// Whatever the number of workers, the root, the map, and whoever's turn is next: at every instant
/// each frame is counted once, no flow that comes in by one receive queue changes its order, and in
/// the end each frame has left or was dropped.
#[test]
fn every_frame_is_counted_once_whoevers_turn_is_next() {
    for seed in 0..40_u64 {
        let mut rng = Rng::new(seed);
        let workers = [1, 2, 3, 5, 16][rng.below(5) as usize];
        let root = ROOTS[rng.below(ROOTS.len() as u64) as usize];
        let handles = [0, 1].map(|_| [1, workers, workers.min(2)][rng.below(3) as usize]);
        // mqprio names two queues.
        let handles = if root.contains("mqprio") { [handles[0], workers.min(2)] } else { handles };
        if root.contains("mqprio") && workers == 1 || root.contains(": mq\n") && handles[1] == 1 {
            continue;
        }
        let wire = (rng.below(3) == 0 && !root.contains("mq")).then_some("rate=100mbit,ring=32");
        let map = ["arrival", "hash", "0:0;1:0"][rng.below(3) as usize];
        let mut crew = Crew::new(workers, handles, wire, root, map);
        let (mut now, mut given) = (MS, [0_u32; 8]);
        for step in 0..300 {
            for _ in 0..rng.below(20) {
                let flow = rng.below(8) as usize;
                // A flow comes in by one receive queue, as interfaces do it.
                let card = &crew.left[flow % crew.left.len()];
                card.seen().incoming.push_back(frame(flow as u16, given[flow]));
                given[flow] += 1;
            }
            let worker = rng.below(workers as u64) as usize;
            crew.turn(worker, now);
            now += rng.below(200_000);
            if step % 10 == 0 {
                crew.report();
            }
        }
        // A second is long enough for all that waits in a shaper.
        for _ in 0..100 {
            crew.settle(now);
            now += 200 * MS;
        }
        let about =
            format!("seed {seed}: {workers} workers, handles {handles:?}, wire {wire:?}, {map}, {root}");
        let way = crew.report();
        let in_all: u64 = given.iter().map(|n| u64::from(*n)).sum();
        assert_eq!(count(&way, "submitted"), in_all, "{about}");
        let left: u64 = ["waiting", "queued", "inflight"].iter().map(|key| count(&way, key)).sum();
        assert_eq!((left, sums(&way)[1]), (0, in_all), "{about}");
        let sent = crew.sent();
        assert_eq!(sent.iter().map(Vec::len).sum::<usize>() as u64, count(&way, "delivered"), "{about}");
        let mut last = [None; 8];
        for (flow, number) in sent.iter().flatten() {
            // By one handle, a flow leaves in order; the maps here let no flow leave by two.
            let before = last[usize::from(*flow)].replace(*number);
            assert!(before.is_none_or(|before| before < *number), "{about}: flow {flow}");
        }
    }
}

/// Below mq each queue is in use by its owner alone, and the frames stay with the worker that
/// received them; the report shows each queue's own qdiscs.
#[test]
fn by_arrival_no_frame_changes_its_worker() {
    let mut crew = Crew::new(3, [3, 3], None, "qdisc replace dev right root handle 1: mq\n", "arrival");
    for flow in 0..6 {
        for number in 0..10 * u32::from(flow % 3 + 1) {
            crew.left[usize::from(flow) % 3].seen().incoming.push_back(frame(flow, number));
        }
    }
    crew.settle(MS);
    assert_eq!(crew.sent().iter().map(Vec::len).collect::<Vec<_>>(), [20, 40, 60]);
    let way = crew.report();
    assert_eq!(way["crossed"], serde_json::json!({"from_others": 0, "to_others": 0, "refused": 0}));
    for (worker, part) in crew.parts.iter().enumerate() {
        let sent = part.all()[1].way.port().paths().iter().map(|path| path.stats().tx_packets);
        let expected: Vec<u64> = (0..3).map(|q| if q == worker { 20 * (q as u64 + 1) } else { 0 }).collect();
        assert_eq!(sent.collect::<Vec<_>>(), expected, "worker {worker}");
    }
    // The root, and then each queue, the last one first: what their owners have.
    let shown = |at: usize| way["qdiscs"][at]["packets"].as_u64().expect("a number");
    assert_eq!([0, 1, 2, 3].map(shown), [120, 60, 40, 20], "{}", way["qdiscs"]);
}

/// By hash flows spread over all queues, and cross to the workers that own them.
#[test]
fn by_hash_each_flow_goes_to_the_owner_of_its_queue() {
    let mut crew = Crew::new(4, [1, 4], None, "", "hash");
    for flow in 0..64 {
        for number in 0..4 {
            crew.left[0].seen().incoming.push_back(frame(flow, number));
        }
    }
    crew.settle(MS);
    let way = crew.report();
    let sent = crew.sent();
    // 64 flows, of which each queue has a quarter on average; a hash that has no flow for a queue
    // has a probability of 4 x (3/4)^64.
    assert!(sent.iter().all(|frames| !frames.is_empty() && frames.len() % 4 == 0));
    let crossed = way["crossed"]["to_others"].as_u64().expect("a number");
    assert_eq!(crossed, sent[1..].iter().map(|frames| frames.len() as u64).sum::<u64>());
    assert_eq!(way["workers"][0]["received"], 256);
}

/// A root that cannot be split has one owner, and what it shares is as exact as on one thread.
#[test]
fn one_owner_keeps_a_shared_root_and_its_shaper_exact() {
    let policy = "qdisc replace dev right root handle 1: tbf rate 8mbit burst 2000 limit 1mb\n";
    let mut crew = Crew::new(2, [2, 2], None, policy, "arrival");
    for number in 0..200 {
        crew.left[number as usize % 2].seen().incoming.push_back(frame(number % 2, u32::from(number)));
    }
    // 1 MB/s: a frame of 1000 bytes each millisecond, behind a burst of two.
    for at in 0..=100 {
        crew.settle(at * MS);
    }
    assert_eq!(crew.sent().iter().map(Vec::len).collect::<Vec<_>>(), [0, 102], "the second worker has it");
    let way = crew.report();
    assert_eq!(way["crossed"]["to_others"], 100, "those that the first worker received");
    assert_eq!(count(&way, "queued"), 98);
}

/// The filters ahead of a root with one owner run with the owner: a policer has one bucket.
#[test]
fn a_policer_ahead_of_one_owner_has_one_bucket() {
    let policy = "qdisc replace dev right root handle 1: pfifo limit 1000\n\
                  qdisc replace dev left root handle 1: pfifo limit 1000\n\
                  qdisc add dev right clsact\n\
                  filter add dev right egress protocol ip matchall \
                  action police rate 8kbit burst 10k conform-exceed drop\n";
    let mut crew = Crew::new(2, [2, 2], None, policy, "arrival");
    for number in 0..200 {
        crew.left[number as usize % 2].seen().incoming.push_back(frame(number % 2, u32::from(number)));
    }
    crew.settle(MS);
    let way = crew.report();
    assert_eq!(
        [count(&way, "delivered"), count(&way, "filtered")],
        [10, 190],
        "10 KiB, and 1 byte a millisecond"
    );
    let received: Vec<u64> = crew.parts.iter().map(|part| part.all()[1].way.stats().received).collect();
    assert_eq!(received, [100, 100]);
}

/// A policer has one bucket also where each queue has qdiscs of its own: one worker has every way
/// then.
#[test]
fn a_policer_below_mq_has_one_bucket() {
    let policy = "qdisc add dev right clsact\n\
                  filter add dev right egress protocol ip matchall \
                  action police rate 8kbit burst 10k conform-exceed drop\n";
    for handles in [[2, 2], [1, 2], [2, 1]] {
        let mut crew = Crew::new(2, handles, None, policy, "arrival");
        for number in 0..200 {
            let card = &crew.left[number as usize % handles[0]];
            card.seen().incoming.push_back(frame(number % 2, u32::from(number)));
        }
        crew.settle(MS);
        let way = crew.report();
        assert_eq!([count(&way, "delivered"), count(&way, "filtered")], [10, 190], "{handles:?}");
    }
}

/// Queues of several workers lease parts of one rate: over each 100 ms all of them together send
/// what the rate says, within 1 %, whoever has the frames.
#[test]
fn a_rate_that_workers_share_is_exact_over_100_ms() {
    for workers in [2, 4] {
        let mut policy = String::from("qdisc replace dev right root handle 1: mq\n");
        for queue in 1..=workers {
            let tbf = "tbf rate 800mbit burst 10000 limit 8mb shared uplink";
            policy += &format!("qdisc replace dev right parent 1:{queue} handle {queue}0: {tbf}\n");
        }
        let mut crew = Crew::new(workers, [workers, workers], None, &policy, "arrival");
        let mut rng = Rng::new(7);
        let mut sent_before = 0;
        // 100 MB/s: 10 000 frames of 1000 bytes in 100 ms.
        for window in 0..4_u64 {
            // The load moves: in the second window the first worker has all of it, in the third the
            // last one.
            let has = |worker: usize| match window {
                1 => worker == 0,
                2 => worker == workers - 1,
                _ => true,
            };
            for at in 0..1000_u64 {
                let now = (window * 1000 + at) * 100_000;
                for (worker, card) in crew.left.iter().enumerate().filter(|(worker, _)| has(*worker)) {
                    let waits = crew.parts[worker].all()[1].way.port().totals().backlog().packets;
                    for number in waits..64 {
                        card.seen().incoming.push_back(frame(worker as u16, number as u32));
                    }
                }
                let first = rng.below(workers as u64) as usize;
                for n in 0..workers {
                    crew.turn((first + n) % workers, now);
                }
            }
            let sent: usize = crew.sent().iter().map(Vec::len).sum();
            let in_window = sent - std::mem::replace(&mut sent_before, sent);
            // The first window has the burst of 10 frames besides.
            let expected = if window == 0 { 10_010 } else { 10_000 };
            let off = in_window.abs_diff(expected);
            assert!(off <= 100, "{workers} workers, window {window}: {in_window} frames");
            crew.report();
        }
    }
}

/// Settings that several workers cannot do alike are refused, with what to write instead.
#[test]
fn what_several_workers_cannot_do_is_refused() {
    let try_it = |handles: [usize; 2], policy: &str, map: &str| {
        let (left, right) = (cards(handles[0]), cards(handles[1]));
        let sides = [side("left", &left, None), side("right", &right, None)];
        let mut parts = parts(sides, 2).expect("parts");
        parts.iter_mut().for_each(|links| drop(tc(links, policy)));
        seat(&mut parts, &map.parse::<QueueMap>().expect("a map"))
    };
    assert_eq!(
        try_it([2, 2], "", "0:1;1:2").unwrap_err(),
        "queue map of left: expected transmit queues 0 to 1 for receive queue 1, given 2"
    );
    let few = parts([side("left", &cards(3), None), side("right", &cards(1), None)], 2).unwrap_err();
    assert_eq!(few, "interface `packet:left`: 3 handles for 2 workers");
    let many = parts([side("left", &cards(1), None), side("right", &cards(1), None)], 65).unwrap_err();
    assert_eq!(many, "workers: expected 1 to 64, given 65");
}

/// A mailbox has an end: frames that find no room in it are dropped, and counted.
#[test]
fn a_full_mailbox_drops_and_counts() {
    let mut crew = Crew::new(2, [1, 1], None, "", "arrival");
    for number in 0..3000 {
        crew.left[0].seen().incoming.push_back(frame(1, number));
    }
    // The first worker has the left interface, the second the right one, and no turn.
    while crew.turn(0, MS) {}
    let way = crew.report();
    assert_eq!(way["crossed"], serde_json::json!({"from_others": 0, "to_others": 1024, "refused": 1976}));
    crew.settle(MS);
    let numbers: Vec<u32> = crew.sent()[0].iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, (0..1024).collect::<Vec<_>>());
    crew.report();
}
