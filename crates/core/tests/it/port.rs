//! Ports of several transmit queues: the choice of queue and tree, and the fates of packets when
//! queues come and go.

use std::collections::BTreeMap;

use txweir_core::base::rng::Rng;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::port::{Choice, Port};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::select::{Cached, Sender};
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, ConfigError, DropReason, Env, Handle, Instant, Meta, Nanos, PathConfig, Role, Wake,
};

const T0: Instant = Instant::ZERO;
const ROOT: Handle = Handle::ROOT;

struct Lane {
    port: Port<u64>,
    dev: Vec<VecDevice<u64>>,
    now: Instant,
}

impl Lane {
    fn new(queues: u16, slots: u32) -> Self {
        let env = Env { queues, ..Env::default() };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, pool: 4000, trace: 0 };
        let dev = (0..queues).map(|_| VecDevice::with_slots(slots)).collect();
        Self { port: Port::new(config).unwrap(), dev, now: T0 }
    }
    fn qdiscs<R>(&mut self, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R {
        self.port.control(self.now, &mut self.dev).swap(f, |frame, m, _, each| each(frame, *m)).0
    }
    fn add(&mut self, parent: Handle, handle: u16, line: &str) -> Result<Handle, ConfigError> {
        let (kind, options) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = options.split_whitespace().collect();
        let handle = (handle != 0).then(|| Handle::new(handle, 0));
        self.qdiscs(|q| q.add(parent, handle, kind, &mut Words::new(&words)))
    }
    fn replace(&mut self, parent: Handle, line: &str) -> Result<Handle, ConfigError> {
        let (kind, options) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = options.split_whitespace().collect();
        self.qdiscs(|q| q.replace(parent, None, kind, &mut Words::new(&words)))
    }
    fn put(&mut self, frame: u64, queue: u16) -> Admitted<u64> {
        self.port.send(self.now, frame, Meta::new(100), Choice::Queue(queue), &mut self.dev).1
    }
    fn tree(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.port.trees().visit(&mut |place, node| {
            all.push(format!("{} {} {}", place.parent, node.qdisc().spec().kind, node.handle()));
        });
        all
    }
    fn drain(&mut self) -> Vec<Wake> {
        (0..self.port.queues()).map(|q| self.port.drain(self.now, q, 64, &mut self.dev)).collect()
    }
}

#[test]
fn a_port_of_several_queues_begins_with_mq() {
    let lane = Lane::new(3, 1);
    let own = |n| format!(":{n} pfifo_fast none");
    assert_eq!(lane.tree(), ["root mq none".to_string(), own(1), own(2), own(3)]);
    assert_eq!(Lane::new(1, 1).tree(), ["root pfifo_fast none"]);
}

#[test]
fn each_queue_has_its_own_way_to_the_device() {
    let mut lane = Lane::new(3, 1);
    for queue in 0..3 {
        assert_eq!(lane.put(u64::from(queue), queue), Admitted::Sent);
        assert_eq!(lane.put(10 + u64::from(queue), queue), Admitted::Queued);
    }
    // Queue 1 finishes: only its packets continue.
    lane.dev[1].finish(1);
    let reaped = lane.port.reap(T0, 1, &mut lane.dev, |_| {});
    assert_eq!((reaped.packets, reaped.opened), (1, false));
    assert_eq!(lane.drain(), [Wake::Device, Wake::Idle, Wake::Device]);
    assert_eq!(lane.dev.iter().map(|d| d.sent().len()).collect::<Vec<_>>(), [1, 2, 1]);
    // A packet for a missing queue goes to the first, and is counted.
    assert_eq!(lane.put(99, 7), Admitted::Queued);
    assert_eq!((lane.port.chooser().stats().no_such_queue, lane.port.totals().backlog().packets), (1, 3));
    let books = lane.port.totals().books();
    assert_eq!((books.admitted.packets, books.sent.packets, books.queued.packets), (7, 4, 3));
    assert_eq!(lane.port.totals().stats().tx_packets, 4);
}

#[test]
fn handles_are_those_of_the_whole_port() {
    let mut lane = Lane::new(3, 0);
    assert_eq!(lane.add(ROOT, 1, "mq").unwrap(), Handle::new(1, 0));
    let class = |minor| Handle::new(1, minor);
    assert_eq!(lane.add(class(2), 0x20, "prio bands 2 priomap 0 1").unwrap(), Handle::new(0x20, 0));
    assert_eq!(lane.add(Handle::new(0x20, 1), 0, "fq_codel").unwrap(), Handle::new(0x8001, 0));
    assert_eq!(lane.add(class(3), 0, "tbf rate 1mbit burst 2kb limit 10kb").unwrap(), Handle::new(0x8002, 0));
    assert_eq!(
        lane.tree(),
        [
            "root mq 1:",
            "1:1 pfifo_fast none",
            "1:2 prio 20:",
            "20:1 fq_codel 8001:",
            "20:2 pfifo none",
            "1:3 tbf 8002:",
            "8002:1 bfifo none",
        ]
    );
    for (parent, handle, line, error) in [
        (ROOT, 0, "mq", "root: expected no qdisc there yet, given \"1:\" (use replace, or delete it first)"),
        (class(1), 0x20, "pfifo", "qdisc handle: expected a handle not in use, given \"20:\""),
        (
            class(4),
            0,
            "pfifo",
            "qdisc parent: expected root or a class that exists, given \"1:4\" \
             (there are: 1:1 1:2 20:1 20:2 1:3 8002:1)",
        ),
        (
            class(1),
            0,
            "mq",
            "class 1:1 parent: expected root, given \"mq\" (the classes of mq are the device's transmit queues)",
        ),
    ] {
        assert_eq!(lane.add(parent, handle, line).unwrap_err().to_string(), error);
    }
    assert_eq!(lane.qdiscs(|q| q.parent_of(Handle::new(0x20, 0))).unwrap(), class(2));
    lane.qdiscs(|q| q.change(Handle::new(0x20, 1), None, &mut Words::new(&["limit", "7"]))).unwrap();
    lane.qdiscs(|q| q.delete(class(2))).unwrap();
    assert_eq!(lane.tree()[2], "1:2 pfifo_fast none");
    lane.qdiscs(|q| q.delete(ROOT)).unwrap();
    assert_eq!(lane.tree()[0], "root mq none");
    assert_eq!(
        lane.qdiscs(|q| q.delete(ROOT)).unwrap_err().to_string(),
        "root: expected a qdisc that was added, given nothing"
    );
}

#[test]
fn classes_are_found_in_the_tree_that_has_them() {
    let mut lane = Lane::new(2, 0);
    lane.add(ROOT, 1, "mq").unwrap();
    lane.add(Handle::new(1, 2), 5, "drr").unwrap();
    let class = Handle::new(5, 1);
    let add = |lane: &mut Lane, class: Handle| {
        lane.qdiscs(|q| q.add_class(class.qdisc(), class, None, &mut Words::new(&["quantum", "500"])))
    };
    add(&mut lane, class).unwrap();
    assert_eq!(lane.tree()[2..], ["1:2 drr 5:", "5:1 pfifo none"]);
    assert_eq!(
        add(&mut lane, Handle::new(1, 9)).unwrap_err().to_string(),
        "class 1:9: expected a qdisc whose classes commands make: mq is not one, given \"this\""
    );
    assert_eq!(
        add(&mut lane, Handle::new(6, 1)).unwrap_err().to_string(),
        "qdisc 6: classid: expected a qdisc of this port, given \"6:\""
    );
}

#[test]
fn grafting_into_one_queue_leaves_the_others_alone() {
    let mut lane = Lane::new(2, 0);
    lane.add(ROOT, 1, "mq").unwrap();
    for n in 0..10 {
        assert_eq!(lane.put(n, (n % 2) as u16), Admitted::Queued);
    }
    lane.add(Handle::new(1, 1), 0, "pfifo limit 3").unwrap();
    // Waiting packets are kept, as far as there is room.
    assert_eq!(lane.port.paths().iter().map(|p| p.backlog().packets).collect::<Vec<_>>(), [3, 5]);
    lane.dev.iter_mut().for_each(|d| d.set_slots(100));
    lane.drain();
    assert_eq!(
        lane.dev.iter().map(|d| d.sent().to_vec()).collect::<Vec<_>>(),
        [vec![0, 2, 4], vec![1, 3, 5, 7, 9]]
    );
}

#[test]
fn one_path_feeds_all_queues_below_any_other_root() {
    let mut lane = Lane::new(2, 1);
    lane.add(ROOT, 1, "multiq").unwrap();
    for n in 0..6 {
        let _ = lane.put(n, (n % 2) as u16);
    }
    lane.drain();
    assert_eq!(lane.dev.iter().map(|d| d.sent().to_vec()).collect::<Vec<_>>(), [[0], [1]]);
    // Queue 0 is stopped; the other continues.
    lane.dev[1].finish(1);
    lane.port.reap(T0, 1, &mut lane.dev, |_| {});
    assert_eq!(lane.port.drain(T0, 1, 64, &mut lane.dev), Wake::Device);
    assert_eq!(lane.dev[1].sent(), [1, 3]);
}

#[test]
fn packets_that_wait_stay_when_the_root_changes() {
    let mut lane = Lane::new(4, 0);
    for n in 0..20 {
        lane.now = T0 + Nanos::from_micros(n);
        assert_eq!(lane.put(n, (n % 4) as u16), Admitted::Queued);
    }
    lane.replace(ROOT, "pfifo limit 100").unwrap();
    assert_eq!((lane.port.totals().backlog().packets, lane.port.chooser().stats().moved), (20, 20));
    lane.dev.iter_mut().for_each(|d| d.set_slots(100));
    lane.drain();
    // In order of arrival, each to the requested queue.
    for (queue, dev) in (0..).zip(&lane.dev) {
        assert_eq!(dev.sent(), (0..20).filter(|n| n % 4 == queue).collect::<Vec<_>>());
    }
    // A refused root changes nothing.
    let err = lane.replace(ROOT, "mqprio num_tc 1 map 0 queues 9@0 hw 0").unwrap_err();
    assert!(err.to_string().starts_with("mqprio queues: expected queues below 4"), "{err}");
    assert_eq!(lane.tree().len(), 1);
}

#[test]
fn nothing_overtakes_what_the_device_has_when_queues_change() {
    let mut lane = Lane::new(2, 2);
    for n in 0..4 {
        let _ = lane.put(n, 1);
    }
    assert_eq!(lane.dev[1].sent(), [0, 1]);
    lane.port.control(T0, &mut lane.dev).set_queues(1).unwrap();
    assert!(lane.port.flight().is_fenced());
    assert_eq!(lane.put(4, 0), Admitted::Queued);
    lane.drain();
    assert_eq!(lane.dev[0].sent(), [] as [u64; 0]);
    lane.dev[1].finish(1);
    assert!(!lane.port.reap(T0, 1, &mut lane.dev, |_| {}).opened);
    lane.dev[1].finish(1);
    assert!(lane.port.reap(T0, 1, &mut lane.dev, |_| {}).opened);
    lane.drain();
    assert_eq!(lane.dev[0].sent(), [2, 3]);
    assert_eq!(lane.port.flight().packets(), 2);
}

/// A waiting packet continues on the queue that later packets of its flow will use, for every way
/// of choosing.
#[test]
fn packets_that_wait_go_where_those_behind_them_will() {
    let mut lane = Lane::new(8, 1);
    lane.port.control(T0, &mut lane.dev).set_queues(4).unwrap();
    let (hash, sender, mut memory) = (0xffff_ffff, Sender::default(), Cached::default());
    let arrived = Sender { came_by: Some(2), ..sender };
    let send = |lane: &mut Lane, memory: &mut Cached, frame| {
        let m = Meta::new(100).hash(hash);
        let choices = [Choice::Queue(1), Choice::By(&arrived, None), Choice::By(&sender, Some(memory))];
        for (i, choice) in choices.into_iter().enumerate() {
            let _ = lane.port.send(lane.now, frame + i as u64, m, choice, &mut lane.dev);
        }
    };
    lane.dev.iter_mut().for_each(|d| d.set_slots(0));
    send(&mut lane, &mut memory, 0);
    lane.replace(ROOT, "mq").unwrap();
    send(&mut lane, &mut memory, 10);
    let waiting =
        |lane: &Lane| -> Vec<u64> { lane.port.paths().iter().map(|p| p.backlog().packets).collect() };
    assert_eq!(waiting(&lane), [0, 2, 2, 2]);
    // The hash spreads over eight queues; the choices remembered for four are void.
    lane.port.control(T0, &mut lane.dev).set_queues(8).unwrap();
    send(&mut lane, &mut memory, 20);
    assert_eq!(waiting(&lane), [0, 3, 3, 0, 0, 0, 0, 3]);
    lane.dev.iter_mut().for_each(|d| d.set_slots(100));
    lane.drain();
    let sent = |queue: usize| lane.dev[queue].sent().to_vec();
    assert_eq!([1, 2, 7].map(sent), [[0, 10, 20], [1, 11, 21], [2, 12, 22]]);
}

/// A queue that was stopped while there were several is asked for a slot again when there is one.
#[test]
fn a_stopped_queue_goes_on_where_it_is_the_last() {
    let mut lane = Lane::new(3, 1);
    lane.add(ROOT, 1, "multiq").unwrap();
    for n in 0..2 {
        assert_eq!(lane.put(n, 0), Admitted::Queued);
    }
    assert_eq!(lane.drain(), [Wake::Device; 3]);
    lane.port.control(T0, &mut lane.dev).set_queues(1).unwrap();
    lane.dev[0].finish(1);
    assert!(lane.port.reap(T0, 0, &mut lane.dev, |_| {}).opened);
    assert_eq!(lane.port.drain(T0, 0, 64, &mut lane.dev), Wake::Idle);
    assert_eq!(lane.dev[0].sent(), [0, 1]);
}

/// However many slots the other queues have, a queue gets only its own.
#[test]
fn no_queue_is_given_more_than_its_slots() {
    for root in ["multiq", "pfifo", "prio", "fq_codel"] {
        let mut lane = Lane::new(2, 0);
        lane.add(ROOT, 1, root).unwrap();
        (0..8).for_each(|n| drop(lane.put(n, u16::from(n == 7))));
        lane.dev[0].set_slots(2);
        lane.dev[1].set_slots(100);
        assert_eq!(lane.drain(), [Wake::Device; 2], "{root}");
        assert_eq!(lane.dev[0].sent(), [0, 1], "{root}");
        // A qdisc that knows queues continues with the other queue; in any other, a queue without a
        // slot holds up all packets.
        assert_eq!(lane.dev[1].sent().len(), usize::from(root == "multiq"), "{root}");
    }
}

/// A flow's packets are never with two queues of the device at once, none is lost, and none is sent
/// twice; the queues' counters add up to the port's (I7).
#[test]
fn flows_stay_in_order_whatever_happens_to_the_queues() {
    const ROOTS: [&str; 5] =
        ["mq", "pfifo limit 4000", "prio", "multiq", "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0"];
    let (mut moved, mut fences, mut sent_all) = (0, 0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut lane = Lane::new(8, 3);
        lane.port.control(T0, &mut lane.dev).set_queues(4).unwrap();
        let (mut next, mut seen) = (0u64, vec![0usize; 8]);
        let (mut given, mut finished) = (BTreeMap::<u64, u64>::new(), 0u64);
        let mut in_flight: Vec<Vec<u64>> = vec![Vec::new(); 8];
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..600 {
            lane.now += Nanos::from_micros(1);
            match rng.below(20) {
                0 => {
                    let queues = 1 + rng.below(8) as u16;
                    let _ = lane.port.control(lane.now, &mut lane.dev).set_queues(queues);
                }
                1 => {
                    let root = ROOTS[rng.below(ROOTS.len() as u64) as usize];
                    let _ = lane.replace(ROOT, root);
                }
                2 => drop(lane.drain()),
                3..=8 => {
                    let queue = rng.below(8) as usize;
                    lane.dev[queue].finish(1);
                    let reaped = lane.port.reap(lane.now, queue as u16, &mut lane.dev, |_| {});
                    finished += u64::from(reaped.packets);
                    in_flight[queue].drain(..reaped.packets as usize);
                    if reaped.opened {
                        lane.drain();
                    } else if (queue as u16) < lane.port.queues() {
                        let _ = lane.port.drain(lane.now, queue as u16, 64, &mut lane.dev);
                    }
                }
                _ => {
                    let flow = rng.below(6);
                    let n = given.entry(flow).or_default();
                    // A flow has one priority; otherwise its packets would be of two traffic
                    // classes.
                    let m = Meta::new(100)
                        .hash((flow as u32 + 1).wrapping_mul(0x2545_f491))
                        .priority(flow as u32 & 1);
                    let sender = Sender::default();
                    let done = lane.port.send(
                        lane.now,
                        flow << 32 | *n,
                        m,
                        Choice::By(&sender, None),
                        &mut lane.dev,
                    );
                    assert!(
                        !matches!(done.1, Admitted::Dropped(_) | Admitted::Full(_)),
                        "seed {seed}: {done:?}"
                    );
                    *n += 1;
                    next += 1;
                }
            }
            fences += u64::from(lane.port.flight().is_fenced());
            for queue in 0..8 {
                let sent = lane.dev[queue].sent();
                for frame in &sent[seen[queue]..] {
                    let (flow, n) = (frame >> 32, frame & 0xffff_ffff);
                    let elsewhere =
                        (0..8).filter(|q| *q != queue).any(|q| in_flight[q].iter().any(|f| f >> 32 == flow));
                    assert!(!elsewhere, "seed {seed}: flow {flow} is with two queues");
                    assert_eq!(last.get(&flow).map_or(0, |l| l + 1), n, "seed {seed}: flow {flow}");
                    last.insert(flow, n);
                    in_flight[queue].push(*frame);
                }
                seen[queue] = sent.len();
                // No queue was given more than it had promised.
                assert!(in_flight[queue].len() <= 3, "seed {seed}: queue {queue}");
            }
            let stats = lane.port.totals().stats();
            let sent: usize = seen.iter().sum();
            assert_eq!(stats.tx_packets, sent as u64, "seed {seed}");
            assert_eq!(lane.port.flight().packets(), sent as u64 - finished, "seed {seed}");
            assert_eq!(lane.port.totals().backlog().packets + sent as u64, next, "seed {seed}");
        }
        moved += lane.port.chooser().stats().moved;
        sent_all += seen.iter().sum::<usize>();
    }
    assert!(moved > 5_000 && fences > 5_000 && sent_all > 10_000, "{moved} {fences} {sent_all}");
}

/// As on a path: a change drops the packets that wait in the qdiscs it removes. A swap queues them
/// anew at the end, so that the room in its intermediate trees does not matter.
#[test]
fn a_change_drops_what_waits_and_a_swap_keeps_it() {
    let mut lane = Lane::new(4, 0);
    lane.add(ROOT, 1, "mq").unwrap();
    for n in 0..20 {
        lane.now += Nanos::from_micros(1);
        assert_eq!(lane.put(n, (n % 4) as u16), Admitted::Queued);
    }
    let whole = |frame, m: &Meta, _, each: &mut dyn FnMut(u64, Meta)| each(frame, *m);
    let none = || Words::new(&[]);
    let (done, swapped) = lane.port.control(lane.now, &mut lane.dev).swap(
        |q| {
            q.replace(ROOT, None, "pfifo", &mut Words::new(&["limit", "1"]))?;
            q.replace(ROOT, None, "prio", &mut none())?;
            q.replace(ROOT, Some(Handle::new(9, 0)), "mq", &mut none())?;
            q.replace(Handle::new(9, 1), None, "pfifo", &mut Words::new(&["limit", "3"]))
        },
        whole,
    );
    done.unwrap();
    // Each packet waits at the queue that it was sent to; the first has room for 3 of its 5.
    assert_eq!((swapped.moved.packets, swapped.dropped.packets, swapped.kept.packets), (18, 2, 0));
    assert_eq!(lane.port.totals().drops(DropReason::Overlimit), 2);
    // A graft on another queue moves only the packets of that queue.
    let (done, swapped) = lane
        .port
        .control(lane.now, &mut lane.dev)
        .swap(|q| q.replace(Handle::new(9, 2), None, "prio", &mut none()), whole);
    done.unwrap();
    assert_eq!((swapped.moved.packets, swapped.kept.packets), (5, 13));
    // A change there drops no other packets either; a change of the root drops all.
    lane.port.control(lane.now, &mut lane.dev).configure(|q| q.delete(Handle::new(9, 2))).unwrap();
    assert_eq!((lane.port.totals().backlog().packets, lane.port.totals().drops(DropReason::Purged)), (13, 5));
    lane.port.control(lane.now, &mut lane.dev).configure(|q| q.delete(Handle::new(9, 1))).unwrap();
    assert_eq!((lane.port.totals().backlog().packets, lane.port.totals().drops(DropReason::Purged)), (10, 8));
    assert_eq!(lane.put(20, 3), Admitted::Queued);
    lane.port.control(lane.now, &mut lane.dev).configure(|q| q.delete(ROOT)).unwrap();
    assert_eq!((lane.port.totals().backlog().packets, lane.port.totals().drops(DropReason::Purged)), (0, 19));
    let discarded: usize = lane.dev.iter().map(|dev| dev.discarded().len()).sum();
    assert_eq!((discarded, lane.port.totals().stats().queued), (21, 20 + 18 + 2 + 1));
}

#[test]
fn a_purge_gives_the_waiting_frames_of_every_queue_back() {
    let mut lane = Lane::new(3, 1);
    for n in 0..12 {
        let _ = lane.put(n, (n % 3) as u16);
    }
    lane.port.control(lane.now, &mut lane.dev).purge();
    let back = |dev: &VecDevice<u64>| dev.discarded().iter().map(|(n, _)| *n).collect::<Vec<_>>();
    assert_eq!(lane.dev.iter().map(back).collect::<Vec<_>>(), [[3, 6, 9], [4, 7, 10], [5, 8, 11]]);
    let totals = lane.port.totals();
    assert_eq!((totals.backlog().packets, totals.drops(DropReason::Purged)), (0, 9));
    assert_eq!(lane.port.flight().packets(), 3);
}

/// However many packets may wait on a path, no more than `SLOTS_MAX` may on all.
#[test]
fn the_pools_of_all_paths_have_a_bound_together() {
    for (queues, pool, each) in [(2, 500_000, 1 << 17), (64, 500_000, 1 << 12), (64, 1000, 1000)] {
        let env = Env { queues, ..Env::default() };
        let mut port: Port<u64> = Port::new(PathConfig { env, pool, ..PathConfig::default() }).unwrap();
        let slots =
            |port: &Port<u64>| port.paths().iter().map(|p| p.cx().pool.capacity()).collect::<Vec<_>>();
        assert_eq!(slots(&port), vec![each; queues.into()], "{queues} queues of {pool}");
        // The paths of a root that comes later have it too.
        let mut dev: Vec<_> = (0..queues).map(|_| VecDevice::with_slots(0)).collect();
        let mut root = |kind: &str| {
            let made = |q: &mut Qdiscs<'_>| q.replace(ROOT, None, kind, &mut Words::new(&[]));
            port.control(T0, &mut dev).swap(made, |frame, m, _, each| each(frame, *m)).0.unwrap();
            slots(&port)
        };
        assert_eq!(root("prio").len(), 1);
        assert_eq!(root("mq")[usize::from(queues) - 1], each, "{queues} queues of {pool}");
    }
}

/// Drops on paths that an earlier change took away are not told again.
#[test]
fn a_swap_tells_of_its_own_drops() {
    let mut lane = Lane::new(2, 0);
    lane.add(ROOT, 1, "mq").unwrap();
    for n in 0..5 {
        assert_eq!(lane.put(n, 0), Admitted::Queued);
    }
    let mut swap = |kind: &str, options: &[&str]| {
        let (done, swapped) = lane.port.control(lane.now, &mut lane.dev).swap(
            |q| q.replace(ROOT, None, kind, &mut Words::new(options)),
            |frame, m, _, each| each(frame, *m),
        );
        done.unwrap();
        (swapped.moved.packets, swapped.dropped.packets)
    };
    assert_eq!(swap("pfifo", &["limit", "2"]), (2, 3));
    assert_eq!(swap("mq", &[]), (2, 0));
    assert_eq!(swap("pfifo", &["limit", "9"]), (2, 0));
}
