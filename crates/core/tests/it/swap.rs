//! Packets are taken out of a tree without being dropped, and put into another tree.

use std::collections::BTreeMap;

use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, legal, pick, with_words};
use txweir_core::{base::tally::Tally, sched::cx::Cx};

use txweir_core::base::rng::Rng;
use txweir_core::model::testing::VecDevice;
use txweir_core::packet::pool::List;
use txweir_core::qdisc::KINDS;
use txweir_core::sched::stab::Stab;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, DropReason, Env, Handle, Instant, Meta, Nanos, PathConfig, Role, Swapped, Tree, TxPath, Wake,
};

/// Counters of the present state, which change as packets leave.
const GAUGES: [&str; 7] = [
    "memory_used",
    "inactive",
    "throttled_flows",
    "next_packet_delay",
    "band0_pkts",
    "band1_pkts",
    "band2_pkts",
];

/// Returns the counters of every qdisc, except those of the present state.
fn counters(tree: &Tree) -> Vec<(Handle, &'static str, u64)> {
    let mut all = Vec::new();
    tree.visit(&mut |_, node| {
        node.qdisc().counters(&mut |c, n| {
            if !GAUGES.contains(&c.key) {
                all.push((node.handle(), c.key, n));
            }
        });
    });
    all
}

/// Every waiting packet is handed out as it was shown, each flow in its order; the books forget it,
/// and the counters stay.
#[test]
fn what_is_taken_out_is_what_was_shown() {
    let env = Env { queues: 4, ..Env::default() };
    let mut taken = 0;
    for spec in KINDS {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut tree, mut cx) = (Tree::new(env), Cx::new(4000, seed));
            let words = legal(spec, &env, &mut rng);
            let root = with_words(&words, |w| {
                tree.edit(&mut cx).add(Handle::ROOT, Some(Handle::new(1, 0)), spec.kind, w)
            });
            root.unwrap();
            if spec.shape.is_classful() {
                let words = legal(KINDS[seed as usize % KINDS.len()], &env, &mut rng);
                let kind = KINDS[seed as usize % KINDS.len()].kind;
                let _ = with_words(&words, |w| tree.edit(&mut cx).add(Handle::new(1, 1), None, kind, w));
            }
            for n in 0..200 {
                cx.now = Instant(n * 1000);
                let m = Meta::new(60 + rng.below(1400) as u32);
                let mut m = m.hash(rng.below(7) as u32 * 0x1111_1111).priority(rng.below(16) as u32);
                // The packet's number, in a field that no qdisc here reads.
                m.header_len = n as u16;
                let p = cx.pool.alloc(m, cx.now).unwrap();
                tree.root_mut().enqueue(p, &mut cx);
                if n % 3 == 0
                    && let txweir_core::sched::answer::Next::Packet(p) = tree.root_mut().dequeue(&mut cx)
                {
                    cx.pool.free(p);
                }
            }
            cx.now += Nanos(1000);
            let (before, told) = (tree.root().books().queued, counters(&tree));
            let gone = (tree.root().books().sent, tree.root().books().dropped);
            let mut shown = Vec::new();
            tree.queued(&cx.pool, &mut |_, _, m| shown.push(*m));
            let mut out = List::new();
            tree.evict_all(&mut out, &mut cx);
            let (mut sum, mut last) = (Tally::default(), BTreeMap::new());
            // Packets that wait in the class of netem came before those that netem itself holds.
            let in_order = spec.kind != "netem";
            for (i, m) in out.metas(&cx.pool).enumerate() {
                assert_eq!(*m, shown[i], "{}", spec.kind);
                let before = last.insert((m.hash, m.priority), m.header_len);
                assert!(
                    !in_order || before.is_none_or(|before| before < m.header_len),
                    "{} {words:?}: order of a flow",
                    spec.kind
                );
                sum.packets += 1;
                sum.bytes += u64::from(m.wire_len);
            }
            assert_eq!((sum, sum.packets), (before, shown.len() as u64), "{}", spec.kind);
            assert_eq!(told, counters(&tree), "{}", spec.kind);
            tree.visit(&mut |_, node| {
                let b = node.books();
                assert_eq!(b.queued, Tally::default(), "{}", spec.kind);
                assert_eq!(b.admitted.packets, b.sent.packets + b.dropped.packets, "{}", spec.kind);
                assert_eq!(b.admitted.bytes, b.sent.bytes + b.dropped.bytes, "{}", spec.kind);
            });
            assert_eq!(gone, (tree.root().books().sent, tree.root().books().dropped));
            taken += sum.packets;
            while let Some(p) = out.pop_front(&cx.pool) {
                cx.pool.free(p);
            }
        }
    }
    assert!(taken > 10_000, "{taken}");
}

/// Kinds that drop a packet that names no class, or no launch time.
const NO_DEFAULT: [&str; 4] = ["drr", "etf", "hfsc", "qfq"];

/// Returns limits that no test reaches, for the kinds that have a limit. A drop by a law would look
/// like a fault of the swap.
fn ample(kind: &str) -> &'static str {
    match kind {
        "bfifo" => "limit 100mb",
        "gred" => "setup vqs 2 default 0 limit 10mb",
        "choke" => "limit 100000 bandwidth 10mbit min 20000 max 40000 burst 30000",
        "hhf" => "limit 10000 admit_bytes 1000000000",
        "plug" => "limit 100mb release_indefinite",
        "pfifo" | "pfifo_head_drop" | "skbprio" => "limit 10000",
        "pie" | "fq_pie" => "limit 10000 target 4s",
        "dualpi2" => "limit 10000 memlimit 1gb target 4000s step_thresh 4000s no_split_gso",
        "red" => "limit 100mb avpkt 1000 min 1mb max 3mb burst 1500 probability 1",
        "codel" => "limit 10000 target 100s interval 100s",
        "fq_codel" => "limit 10000 target 100s interval 100s memory_limit 1gb",
        "ets" => "bands 4 strict 2",
        "htb" => "direct_qlen 10000",
        "netem" => "limit 10000",
        "sfb" => "limit 10000 max 10000 target 10001",
        "sfq" => "limit 10000 divisor 65536",
        "cake" | "cake_mq" => "unlimited no-split-gso rtt 1000s memlimit 1gb",
        "fq" => "limit 100000 flow_limit 100000 horizon 4000s",
        "taprio" => "num_tc 2 map 0 1 1 queues 1@0 1@1 clockid TAI sched-entry S 3 1000000",
        "mqprio" => "num_tc 2 map 0 1 1 queues 1@0 1@1 hw 0",
        "tbf" => "rate 1mbit burst 100kb limit 100mb",
        _ => "",
    }
}

/// Draws a tree of up to three levels with ample limits in it.
fn grow(tree: &mut Tree, cx: &mut Cx, rng: &mut Rng) {
    for _ in 0..1 + rng.below(5) {
        let mut places = Vec::new();
        tree.visit(&mut |place, _| places.push(place));
        let place = *pick(rng, &places);
        let above = (place.parent != Handle::ROOT)
            .then(|| tree.edit(cx).trees().qdisc(place.parent).map(|n| n.qdisc().spec()));
        if above.flatten().is_some_and(|spec| spec.fixed) {
            continue;
        }
        let kind = if place.depth < 3 { *pick(rng, KINDS) } else { KINDS[1] };
        if NO_DEFAULT.contains(&kind.kind) || kind.root_only && place.depth > 0 {
            continue;
        }
        let words: Vec<&str> = ample(kind.kind).split_whitespace().collect();
        let words = &mut Words::new(&words);
        tree.edit(cx).replace(place.parent, None, kind.kind, words).unwrap();
    }
}

/// From any tree to any other, with room in both: no packet is lost or doubled, and no flow changes
/// its order, from the first packet to the last, over all swaps.
#[test]
fn a_swap_with_room_loses_nothing_and_keeps_every_flow_in_order() {
    let (mut moved, mut kept) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        // The default qdiscs have room as well.
        let env = Env { tx_queue_len: 10_000, queues: 4, ..Env::default() };
        let role = *pick(&mut rng, &[Role::Origin, Role::Forwarder]);
        let config = PathConfig { env, role, ..PathConfig::default() };
        let mut path: TxPath<u32> = TxPath::new(config).unwrap();
        let mut dev = VecDevice::with_slots(4);
        let (mut now, mut next) = (Instant::from_secs(1), 0);
        path.configure(now, &mut dev, |tree, cx| grow(tree, cx, &mut rng));
        for _ in 0..6 {
            for _ in 0..rng.below(60) {
                let mut m = Meta::new(60 + rng.below(1400) as u32);
                if chance(&mut rng, 1, 10) {
                    m = Meta::new(54 + 1448 * (2 + rng.below(20) as u32)).gso(54, 1448);
                }
                m.mark = next;
                let m = m.hash(rng.below(9) as u32 * 0x1c71_c71c).priority(rng.below(4) as u32);
                let answer = path.submit(now, next, m, &mut dev);
                assert!(matches!(answer, Admitted::Sent | Admitted::Queued), "{answer:?}");
                next += 1;
                if chance(&mut rng, 1, 2) {
                    now += Nanos(rng.below(100_000));
                }
                if chance(&mut rng, 1, 4) {
                    let _ = path.drain(now, 2, &mut dev);
                    dev.finish(1);
                    path.reap(now, &mut dev, |_| {});
                }
            }
            let (before, flight, tx) =
                (path.backlog(), path.tx().limit().unwrap().inflight(), path.stats().tx_packets);
            let rehash = chance(&mut rng, 1, 2);
            let ((), swapped) = path.swap(
                now,
                &mut dev,
                |tree, cx| {
                    if rehash {
                        grow(tree, cx, &mut rng)
                    }
                },
                |_, m, max, _| panic!("{m:?} is to be cut to {max}"),
            );
            let none = Tally::default();
            // All packets stay or all move; they stay if the change is empty or without effect.
            let stays = !rehash || swapped.moved == none;
            let expected = if stays { (before, none) } else { (none, before) };
            assert_eq!((swapped.kept, swapped.moved), expected, "seed {seed}");
            assert_eq!((swapped.dropped, swapped.cut, path.backlog()), (none, 0, before), "seed {seed}");
            assert_eq!((path.tx().limit().unwrap().inflight(), path.stats().tx_packets), (flight, tx));
            (moved, kept) = (moved + swapped.moved.packets, kept + swapped.kept.packets);
        }
        dev.set_slots(u32::MAX);
        loop {
            dev.finish(usize::MAX);
            path.reap(now, &mut dev, |_| {});
            match path.drain(now, 64, &mut dev) {
                Wake::Idle => break,
                Wake::At(t, _) => now = t,
                Wake::Device | Wake::More => {}
            }
        }
        let mut last = BTreeMap::new();
        for m in dev.metas() {
            let before = last.insert((m.hash, m.priority), m.mark);
            assert!(before.is_none_or(|before| before < m.mark), "seed {seed}: {before:?}, then {}", m.mark);
        }
        let mut sent = dev.sent().to_vec();
        sent.sort_unstable();
        assert!(sent.into_iter().eq(0..next), "seed {seed}");
        assert_eq!((dev.discarded().len(), path.cx().pool.live()), (0, 0), "seed {seed}");
    }
    assert!(moved > 10_000 && kept > 1000, "{moved} moved, {kept} kept");
}

fn replace(lane: &mut Lane, now: Instant, lines: &[(&str, &str, &str)]) -> Swapped {
    let (r, swapped) = lane.path.swap(
        now,
        &mut lane.dev,
        |tree, cx| {
            lines.iter().try_for_each(|(parent, kind, options)| {
                let words: Vec<&str> = options.split_whitespace().collect();
                tree.edit(cx)
                    .replace(parent.parse().unwrap(), None, kind, &mut Words::new(&words))
                    .map(|_| ())
            })
        },
        |_, _, _, _| {},
    );
    r.unwrap();
    swapped
}

/// A part that a policy repeats is left alone; an option of a kind without classes moves no packet.
#[test]
fn what_does_not_change_stays_where_it_is() {
    let mut lane = Lane::new("prio", "");
    lane.graft(Instant::ZERO, Handle::new(0x8001, 1), "fq_codel", "");
    lane.fill(Instant::ZERO, 0, 10, Meta::new(100).priority(6));
    let kept = Tally { packets: 10, bytes: 1000 };
    let again = [("root", "prio", ""), ("8001:1", "fq_codel", "")];
    assert_eq!(replace(&mut lane, Instant(5), &again), Swapped { kept, ..Swapped::default() });
    let other = [("root", "prio", "bands 3"), ("8001:1", "fq_codel", "target 1ms")];
    assert_eq!(replace(&mut lane, Instant(5), &other), Swapped { kept, ..Swapped::default() });
    let count = lane.root().qdisc().classes()[0].node.books().admitted;
    assert_eq!(count, kept);
    // Another map may mean another class: every packet is queued again, and the qdiscs that stay
    // keep their counters.
    let map = [("root", "prio", "bands 3 priomap 1 2 2 2 1 2 2 0 1 1 1 1 1 1 1 1")];
    let swapped = replace(&mut lane, Instant(5), &map);
    assert_eq!(swapped, Swapped { moved: kept, ..Swapped::default() });
    let classes = lane.root().qdisc().classes();
    assert_eq!(classes[0].node.books().queued.packets, 0);
    assert_eq!(classes[2].node.books().queued, kept);
    let mut new_flows = None;
    classes[0].node.qdisc().counters(&mut |c, n| {
        if c.key == "new_flow_count" {
            new_flows = Some(n);
        }
    });
    assert_eq!(new_flows, Some(1));
    assert_eq!(lane.ids(Instant(6), 20), (0..10).collect::<Vec<_>>());
}

/// An empty bucket stays empty when qdiscs above, below or in it are swapped.
#[test]
fn a_swap_fills_no_bucket() {
    // 1000 bytes a millisecond, 2000 in the bucket.
    let new = || {
        let mut lane = Lane::new("tbf", "rate 8mbit burst 2000 limit 100kb");
        lane.fill(Instant::ZERO, 0, 9, Meta::new(1000));
        assert_eq!(lane.ids(Instant::ZERO, 9), [0, 1]);
        lane
    };
    let due = |lane: &mut Lane, now| match lane.take(Instant(now)) {
        Out::Wait(t) => t.0 - now,
        other => panic!("{other:?}"),
    };
    assert_eq!(due(&mut new(), 0), 1_000_000);
    for (lines, wait) in [
        (&[("root", "tbf", "rate 8mbit burst 2000 limit 100kb")][..], 1_000_000),
        (&[("8001:1", "fq_codel", "")], 1_000_000),
        (&[("root", "tbf", "rate 8mbit burst 5000 limit 100kb")], 1_000_000),
        (&[("root", "tbf", "rate 16mbit burst 2000 limit 100kb")], 500_000),
    ] {
        let mut lane = new();
        for _ in 0..3 {
            let swapped = replace(&mut lane, Instant::ZERO, lines);
            assert_eq!(swapped.kept.packets + swapped.moved.packets, 7, "{lines:?}");
        }
        assert_eq!(due(&mut lane, 0), wait, "{lines:?}");
        // Saved bytes keep their number at another rate.
        let mut lane = new();
        assert_eq!(due(&mut lane, 250_000), 750_000);
        replace(&mut lane, Instant(250_000), lines);
        assert_eq!(due(&mut lane, 250_000), wait * 3 / 4, "{lines:?}");
    }
    // A change outside a swap fills the bucket, as tc's does.
    let mut lane = new();
    lane.change(Instant::ZERO, Handle::ROOT, "rate 8mbit burst 2000 limit 100kb").unwrap();
    assert_eq!(lane.ids(Instant::ZERO, 9), [2, 3]);
}

/// Packets for which the new tree has no room are dropped, the newest first, with a reason of their
/// own.
#[test]
fn the_new_limit_holds() {
    for (kind, options) in [("bfifo", "limit 500"), ("pfifo", "limit 5")] {
        let mut lane = Lane::new("pfifo", "limit 100");
        lane.fill(Instant::ZERO, 0, 8, Meta::new(100));
        let swapped = replace(&mut lane, Instant(9), &[("root", kind, options)]);
        let (moved, dropped) = (Tally { packets: 5, bytes: 500 }, Tally { packets: 3, bytes: 300 });
        assert_eq!(swapped, Swapped { moved, dropped, ..Swapped::default() }, "{kind}");
        assert_eq!(lane.drops(), [5, 6, 7].map(|id| (id, DropReason::Overlimit)));
        let books = lane.root().books();
        assert_eq!((books.queued, books.dropped), (moved, dropped), "{kind}");
        assert_eq!(lane.ids(Instant(9), 9), [0, 1, 2, 3, 4]);
    }
}

/// The fate of a packet that waits was decided when it came: a qdisc that would lose it or copy it
/// now does neither.
#[test]
fn a_packet_that_waits_is_neither_lost_nor_copied_by_the_new_qdisc() {
    for options in ["loss 100%", "duplicate 100%"] {
        let mut lane = Lane::new("pfifo", "");
        lane.fill(Instant::ZERO, 0, 8, Meta::new(100));
        let swapped = replace(&mut lane, Instant(9), &[("root", "netem", options)]);
        let moved = Tally { packets: 8, bytes: 800 };
        assert_eq!(swapped, Swapped { moved, ..Swapped::default() }, "{options}");
        assert_eq!(lane.ids(Instant(9), 20), (0..8).collect::<Vec<_>>(), "{options}");
        assert_eq!(lane.drops(), []);
    }
    // A packet that comes afterwards is new.
    let mut lane = Lane::new("pfifo", "");
    lane.fill(Instant::ZERO, 0, 1, Meta::new(100));
    replace(&mut lane, Instant(9), &[("root", "netem", "loss 100%")]);
    let _ = lane.put(Instant(9), 1, Meta::new(100));
    assert_eq!((lane.ids(Instant(9), 9), lane.drops()), (vec![0], vec![(1, DropReason::Lost)]));
}

/// An empty qdisc lets packets pass it only after it has said that it is empty: the new one may be
/// in the way.
#[test]
fn after_a_swap_no_packet_goes_past_a_size_table() {
    let mut lane = Lane::new("pfifo", "");
    let submit = |lane: &mut Lane, id| lane.path.submit(Instant(9), id, Meta::new(100), &mut lane.dev);
    assert_eq!(submit(&mut lane, 0), Admitted::Sent);
    let stab = Stab { overhead: 900, mpu: 0, linklayer: None, mtu: 2047, tsize: 512 };
    let (r, swapped) = lane.path.swap(
        Instant(9),
        &mut lane.dev,
        |tree, cx| {
            tree.edit(cx).replace(Handle::ROOT, None, "bfifo", &mut Words::new(&[]))?;
            tree.edit(cx).set_stab(Handle::ROOT, Some(stab))
        },
        |_, _, _, _| {},
    );
    r.unwrap();
    assert_eq!(swapped, Swapped::default());
    assert_eq!(submit(&mut lane, 1), Admitted::Queued);
    assert_eq!(lane.path.backlog(), Tally { packets: 1, bytes: 1000 });
}

/// A packet that a peek holds counts as sent. One that a smaller limit puts back is queued again,
/// and counts when it leaves.
#[test]
fn a_packet_that_a_peek_has_taken_out_counts_once() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(Instant::ZERO, class, "codel", "limit 5");
    lane.fill(Instant::ZERO, 0, 4, Meta::new(1000));
    assert_eq!(lane.ids(Instant::ZERO, 2), [0]);
    let peeked = |lane: &Lane| {
        let books = lane.root().qdisc().classes()[0].node.books();
        (books.peeked, books.peeked_segs)
    };
    assert_eq!(peeked(&lane), (Tally { packets: 1, bytes: 1000 }, 1));
    let (r, _) = lane.path.swap(
        Instant::ZERO,
        &mut lane.dev,
        |tree, cx| tree.edit(cx).change(class, None, &mut Words::new(&["limit", "2"])),
        |frame, m, _, queue| queue(frame, *m),
    );
    r.unwrap();
    assert_eq!(peeked(&lane), (Tally::default(), 0));
    assert_eq!([1, 2].map(|ms| lane.take(Instant::from_millis(ms)).id()), [Some(1), Some(2)]);
    assert_eq!(lane.drops(), [(3, DropReason::Overlimit)]);
}

/// A super-packet that the new tree takes only in pieces is cut in its place, and the pieces have
/// its age.
#[test]
fn what_must_be_cut_is_cut_in_its_place() {
    let mut lane = Lane::new("pfifo", "limit 100");
    for (id, t) in [(0, 10), (1, 20), (2, 20)] {
        let m = if id == 1 { Meta::new(54 + 3 * 1000).gso(54, 1000) } else { Meta::new(500) };
        assert_eq!(lane.put(Instant(t), id, m), Admitted::Queued);
    }
    let mut asked = Vec::new();
    let (r, swapped) = lane.path.swap(
        Instant(30),
        &mut lane.dev,
        |tree, cx| {
            let words = ["rate", "1gbit", "burst", "2000", "limit", "100kb"];
            tree.edit(cx).replace(Handle::ROOT, None, "tbf", &mut Words::new(&words))
        },
        |frame, m, max, queue| {
            asked.push((frame, m.segs, max));
            for piece in 0..3 {
                queue(100 + piece, Meta::new(1054).hash(m.hash));
            }
        },
    );
    r.unwrap();
    assert_eq!(asked, [(1, 3, 2000)]);
    let moved = Tally { packets: 5, bytes: 500 + 3 * 1054 + 500 };
    assert_eq!(swapped, Swapped { moved, cut: 1, ..Swapped::default() });
    let mut ages = Vec::new();
    lane.path.tree().queued(&lane.path.cx().pool, &mut |_, _, m| ages.push(m.enqueued.0));
    assert_eq!(ages, [10, 20, 20, 20, 20]);
    let mut order = Vec::new();
    for ms in 1..9 {
        order.extend(lane.ids(Instant::from_secs(ms), 1));
    }
    assert_eq!(order, [0, 100, 101, 102, 2]);
    assert_eq!(lane.path.cx().pool.live(), 0);
}
