//! netem: exact behaviours against literal times, random behaviours against their probabilities,
//! and corner cases.

use crate::common::lane::{Lane, Out};
use txweir_core::model::testing::VecDevice;
use txweir_core::path::device::flip_bit;
use txweir_core::sched::cx::Cx;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, DropReason, Ecn, Env, ErrorKind, Handle, Instant, Meta, Nanos, PathConfig, Role, Tree, TxPath,
    Wake,
};

const MS: u64 = 1_000_000;

/// Submits packets of 1000 bytes at these times, ms. Returns the number and time, us, of each
/// departure.
fn departures(options: &str, arrivals: &[u64]) -> Vec<(u32, u64)> {
    let mut lane = Lane::new("netem", options);
    let (mut left, mut now) = (Vec::new(), Instant::ZERO);
    let mut todo = arrivals.iter().enumerate().peekable();
    loop {
        while let Some((id, _)) = todo.next_if(|(_, at)| Instant::from_millis(**at) <= now) {
            let _ = lane.put(now, id as u32, Meta::new(1000));
        }
        let due = loop {
            match lane.take(now) {
                Out::Sent(id, _) => left.push((id, now.0 / 1000)),
                Out::Wait(t) => break Some(t),
                Out::Nothing => break None,
            }
        };
        let next = todo.peek().map(|(_, at)| Instant::from_millis(**at));
        let Some(t) = [due, next].into_iter().flatten().min() else { return left };
        now = now.max(t);
    }
}

/// A packet that takes longer than 2^63 ns on the wire leaves at the end of the clock; the next one
/// has a delay below zero, and leaves after it.
#[test]
fn a_packet_may_take_longer_than_the_clock_has() {
    let mut lane = Lane::new("netem", "delay 0us 10ms rate 8bit 0 1 2147483647 seed 7");
    (0..20).for_each(|id| drop(lane.put(Instant::ZERO, id, Meta::new(1000))));
    assert_eq!(lane.take(Instant::ZERO), Out::Wait(Instant(i64::MAX as u64)));
    assert_eq!(lane.backlog(), 20);
}

#[test]
fn what_is_not_random_is_exact() {
    // 3 ms are 46 875 grains, 3333 us 52 078: 3332.992.
    assert_eq!(departures("delay 3ms", &[0, 1, 1]), [(0, 3000), (1, 4000), (2, 4000)]);
    assert_eq!(departures("delay 3333us", &[0]), [(0, 3332)]);
    // 1000 bytes at 8 Mbit/s are a millisecond.
    assert_eq!(departures("rate 8mbit", &[0, 0, 9]), [(0, 1000), (1, 2000), (2, 10_000)]);
    // Time that the queue takes is not waited a second time: 5 ms, then the rate alone.
    assert_eq!(departures("delay 5ms rate 8mbit", &[0, 0, 0]), [(0, 6000), (1, 7000), (2, 8000)]);
    assert_eq!(departures("rate 8mbit -14 100 25", &[0]), [(0, 1250)]);
    assert_eq!(
        departures("delay 10ms reorder 100% gap 3", &[0, 1, 2, 3, 4, 5]),
        [(2, 2000), (5, 5000), (0, 10_000), (1, 11_000), (3, 13_000), (4, 14_000)]
    );
    assert_eq!(departures("limit 2 delay 5ms", &[0, 1, 2, 6]), [(0, 5000), (1, 6000), (3, 11_000)]);
    // The first packet waits for a slot after its arrival; two leave in each.
    assert_eq!(
        departures("slot 10ms packets 2", &[1, 2, 3, 30]),
        [(0, 11_000), (1, 11_000), (2, 21_000), (3, 40_000)]
    );
    assert_eq!(departures("slot 10ms bytes 1500", &[1, 2, 3]), [(0, 11_000), (1, 11_000), (2, 21_000)]);
}

#[test]
fn what_has_waited_goes_through_the_qdisc_in_the_class() {
    let mut lane = Lane::new("netem", "delay 10ms limit 4");
    lane.path
        .configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
            let words = ["rate", "8mbit", "burst", "1000", "limit", "10000"];
            tree.edit(cx).add(Handle::new(0x8001, 1), None, "tbf", &mut Words::new(&words))
        })
        .unwrap();
    for id in 0..5 {
        let answer = lane.put(Instant::ZERO, id, Meta::new(1000));
        assert_eq!(answer == Admitted::Dropped(DropReason::Overlimit), id == 4);
    }
    assert_eq!(lane.take(Instant::ZERO), Out::Wait(Instant::from_millis(10)));
    assert_eq!(lane.take(Instant::from_millis(10)).id(), Some(0));
    assert_eq!(lane.take(Instant::from_millis(10)), Out::Wait(Instant::from_millis(11)));
    // Three in the class count towards the limit.
    assert_eq!(lane.put(Instant::from_millis(10), 5, Meta::new(1000)), Admitted::Queued);
    assert_eq!(
        lane.put(Instant::from_millis(10), 6, Meta::new(1000)),
        Admitted::Dropped(DropReason::Overlimit)
    );
}

/// The law of the qdisc in the class does not see the link's delay.
#[test]
fn a_packet_begins_to_wait_in_the_class_when_it_comes_out_of_the_link() {
    let mut lane = Lane::new("netem", "delay 10ms");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(Instant::ZERO, class, "codel", "target 1ms interval 5ms");
    for id in 0..3 {
        let _ = lane.put(Instant::ZERO, id, Meta::new(1000));
    }
    for (id, ms) in [(0, 10), (1, 10), (2, 13)] {
        assert_eq!(lane.take(Instant::from_millis(ms)).id(), Some(id));
        let mut waited = None;
        lane.root().qdisc().classes()[0].node.qdisc().counters(&mut |c, n| {
            if c.key == "ldelay" {
                waited = Some(n);
            }
        });
        // In the law's ticks of 1024 ns.
        assert_eq!(waited, Some(if ms == 10 { 0 } else { 3000 }));
    }
}

/// Returns how many of 20 000 packets left, and how many left marked; each is sent a millisecond
/// after the last.
fn counts(options: &str) -> (usize, usize) {
    let mut lane = Lane::new("netem", options);
    let (mut sent, mut marked) = (0, 0);
    for id in 0..20_000u32 {
        let now = Instant::from_millis(u64::from(id));
        let _ = lane.put(now, id, Meta::new(100).ecn(Ecn::Ect0));
        while let Out::Sent(_, m) = lane.take(now) {
            (sent, marked) = (sent + 1, marked + usize::from(m.marked));
        }
    }
    (sent, marked)
}

#[test]
fn chances_are_kept() {
    // Four standard deviations of 20 000 tries are below 280.
    let near = |found: usize, share: f64| (found as f64 - 20_000.0 * share).abs() < 280.0;
    assert!(near(counts("loss 10%").0, 0.9));
    assert!(near(counts("loss random 30% seed 5").0, 0.7));
    let (sent, marked) = counts("loss 25% ecn");
    assert_eq!(sent, 20_000);
    assert!(near(marked, 0.25));
    // Bad for a third of the time, and then every packet is lost.
    assert!(near(counts("loss gemodel 10% 20%").0, 2.0 / 3.0));
    assert!(near(counts("duplicate 10%").0, 1.1));
    assert_eq!(counts("loss 100%"), (0, 0));
    assert_eq!(counts("loss 100% duplicate 100%").0, 20_000);
    // The same seed gives the same losses.
    assert_eq!(counts("loss 10% seed 7"), counts("loss 10% seed 7"));
}

#[test]
fn delays_are_distributed() {
    let arrivals: Vec<u64> = (0..4000).map(|n| n * 100).collect();
    for (options, low, high, mean) in [
        ("delay 20ms 5ms", 15_000, 25_000, 20_000.0),
        ("delay 20ms 5ms distribution normal", 0, 40_000, 20_000.0),
        ("delay 20ms 5ms distribution -8192,8192", 14_999, 25_001, 20_000.0),
        // 0.0335 of a deviation below the middle, see the table's mean.
        ("delay 20ms 5ms distribution pareto", 16_600, 40_000, 19_832.0),
    ] {
        let times: Vec<u64> =
            departures(options, &arrivals).into_iter().map(|(id, at)| at - u64::from(id) * 100_000).collect();
        assert_eq!(times.len(), 4000);
        assert!(times.iter().all(|t| (low..=high).contains(t)), "{options}");
        let found = times.iter().sum::<u64>() as f64 / 4000.0;
        assert!((found - mean).abs() < 320.0, "{options}: {found}");
    }
}

#[test]
fn one_bit_is_turned_over() {
    let mut lane = Lane::new("netem", "corrupt 100% duplicate 100%");
    for id in 0..200 {
        let _ = lane.put(Instant::ZERO, id, Meta::new(60));
    }
    // A bit of each packet and of its copy, drawn separately, anywhere in the frame.
    let bits = lane.dev.flipped();
    assert_eq!((bits.len(), lane.path.stats().copies), (400, 200));
    assert!(bits.iter().all(|bit| *bit < 480));
    assert!((0..6).all(|part| bits.iter().filter(|bit| **bit / 80 == part).count() > 40));
    let mut frame = [0u8; 2];
    for (bit, expected) in [(0, [1, 0]), (15, [1, 128]), (16, [1, 128]), (0, [0, 128])] {
        flip_bit(&mut frame, bit);
        assert_eq!(frame, expected);
    }
}

/// netem-asks-once.
#[test]
fn a_shaper_in_the_class_is_asked_once() {
    let mut lane = Lane::new("netem", "delay 10ms");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(Instant::ZERO, class, "tbf", "rate 8mbit burst 1000 limit 10000");
    for (id, ms) in [(0, 0), (1, 0), (2, 5)] {
        let _ = lane.put(Instant::from_millis(ms), id, Meta::new(1000));
    }
    assert_eq!(lane.take(Instant::from_millis(10)).id(), Some(0));
    // Packet 2 waits for its time, packet 1 in the class for tokens.
    assert_eq!(lane.take(Instant::from_millis(10)), Out::Wait(Instant::from_millis(11)));
    assert_eq!(lane.root().qdisc().classes()[0].node.books().overlimits, 1);
}

/// own-timers.
#[test]
fn a_timer_that_another_has_overtaken_asks_nobody() {
    let mut lane = Lane::new("tbf", "rate 1mbit burst 1000 limit 100000");
    let class = |major: u16, minor| Handle::new(major, minor);
    let root = lane.root().handle().major();
    let prio =
        lane.graft(Instant::ZERO, class(root, 1), "prio", "bands 2 priomap 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1");
    lane.graft(Instant::ZERO, class(prio.major(), 2), "netem", "delay 3ms");
    let _ = lane.put(Instant::ZERO, 0, Meta::new(1000));
    assert_eq!(lane.take(Instant::ZERO).id(), Some(0));
    let _ = lane.put(Instant::from_millis(1), 1, Meta::new(1000).priority(1));
    assert_eq!(lane.take(Instant::from_millis(1)), Out::Wait(Instant::from_millis(4)));
    // A packet that comes now is ready at once, and waits for the tokens: until 8 ms no dequeue is
    // due.
    let _ = lane.put(Instant::from_millis(2), 2, Meta::new(1000));
    assert_eq!(lane.take(Instant::from_millis(2)), Out::Wait(Instant::from_millis(8)));
    assert_eq!(lane.take(Instant::from_millis(8)).id(), Some(2));
    assert_eq!(lane.root().books().overlimits, 1);
}

/// netem-shrink.
#[test]
fn a_smaller_limit_drops_what_has_waited_longest() {
    let mut lane = Lane::new("netem", "delay 10ms");
    for id in 0..5 {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(100)), Admitted::Queued);
    }
    lane.change(Instant::ZERO, Handle::ROOT, "delay 10ms limit 2").unwrap();
    assert_eq!(lane.root().books().dropped.packets, 3);
    assert_eq!(lane.ids(Instant::from_millis(10), 9), [3, 4]);
}

/// Below a shaper that has peeked at the next packet: that one has waited longest.
#[test]
fn a_smaller_limit_drops_first_what_a_peek_holds() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(Instant::ZERO, class, "netem", "delay 1ms");
    for id in 0..5 {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(1000)), Admitted::Queued);
    }
    // The first packet empties the bucket, and the second is held.
    assert_eq!(lane.ids(Instant::from_millis(1), 2), [0]);
    lane.change(Instant::from_millis(1), class, "delay 1ms limit 2").unwrap();
    assert_eq!(lane.drops(), [1, 2].map(|id| (id, DropReason::Purged)));
    assert_eq!([2, 3].map(|ms| lane.take(Instant::from_millis(ms)).id()), [Some(3), Some(4)]);
}

/// netem-corrupt-gso.
#[test]
fn a_super_packet_is_cut_before_it_may_be_corrupted() {
    let super_packet = Meta::new(54 + 10 * 1448).gso(54, 1448);
    let mut lane = Lane::new("netem", "corrupt 1%");
    assert_eq!(lane.put(Instant::ZERO, 1, super_packet), Admitted::Cut(1, 1502));
    let mut lane = Lane::new("netem", "delay 1ms");
    assert_eq!(lane.put(Instant::ZERO, 1, super_packet), Admitted::Queued);
}

/// A shaper in the class cannot send more than its bucket has: the packet is cut before it is
/// delayed, and its pieces leave.
#[test]
fn a_super_packet_is_cut_for_a_shaper_in_the_class() {
    let super_packet = Meta::new(54 + 2 * 1448).gso(54, 1448);
    let mut lane = Lane::new("netem", "delay 10ms");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(Instant::ZERO, class, "tbf", "rate 8mbit burst 2500 limit 10000");
    assert_eq!(lane.put(Instant::ZERO, 1, super_packet), Admitted::Cut(1, 2500));
    assert_eq!(lane.put(Instant::ZERO, 2, Meta::new(1502)), Admitted::Queued);
    // One that the bucket holds stays whole, also where the class has no room now.
    let small = Meta::new(54 + 2 * 500).gso(54, 500);
    assert_eq!(lane.put(Instant::ZERO, 3, small), Admitted::Queued);
    assert_eq!(lane.take(Instant::from_millis(10)).id(), Some(2));
}

fn tree() -> (Tree, Cx) {
    (Tree::new(Env::default()), Cx::new(10, 0))
}

fn add(
    tree: &mut Tree,
    cx: &mut Cx,
    parent: Handle,
    major: u16,
    line: &str,
) -> Result<(), (ErrorKind, String)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (handle, options) = (Some(Handle::new(major, 0)), &words[1..]);
    let done = tree.edit(cx).replace(parent, handle, words[0], &mut Words::new(options));
    done.map(|_| ()).map_err(|e| (e.kind, e.to_string()))
}

/// netem-duplicate-one.
#[test]
fn one_that_duplicates_is_alone_in_its_tree() {
    let (mut tree, mut cx) = tree();
    let mut add = |parent, major, line: &str| add(&mut tree, &mut cx, parent, major, line);
    let class = |minor| Handle::new(1, minor);
    add(Handle::ROOT, 1, "prio").unwrap();
    add(class(1), 2, "netem delay 1ms").unwrap();
    add(class(2), 3, "netem delay 1ms").unwrap();
    let (kind, message) = add(class(3), 4, "netem duplicate 1%").unwrap_err();
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(message.contains("a qdisc that duplicates must be alone"), "{message}");
    assert_eq!(add(class(2), 3, "netem duplicate 1%").unwrap_err().0, ErrorKind::Conflict);
    // A netem that replaces the other is no second one.
    add(class(1), 2, "pfifo").unwrap();
    add(class(2), 3, "netem duplicate 1%").unwrap();
    assert_eq!(add(class(1), 5, "netem delay 1ms").unwrap_err().0, ErrorKind::Conflict);
    assert_eq!(add(Handle::new(3, 1), 6, "netem delay 1ms").unwrap_err().0, ErrorKind::Conflict);
    add(class(2), 3, "netem delay 5ms").unwrap();
    add(class(1), 5, "netem delay 1ms").unwrap();
}

/// netem-duplicate-room.
#[test]
fn a_copy_takes_room_as_any_packet() {
    let mut lane = Lane::new("netem", "delay 1ms limit 3 duplicate 100%");
    assert_eq!(lane.put(Instant::ZERO, 7, Meta::new(100)), Admitted::Queued);
    assert_eq!(lane.path.backlog().packets, 2);
    assert_eq!(lane.put(Instant::ZERO, 8, Meta::new(100)), Admitted::Queued);
    assert_eq!((lane.path.backlog().packets, lane.path.cx().drops(DropReason::Overlimit)), (3, 1));
    assert_eq!(lane.put(Instant::ZERO, 9, Meta::new(100)), Admitted::Dropped(DropReason::Overlimit));
    let left: Vec<_> = std::iter::from_fn(|| lane.take(Instant::from_millis(1)).id()).collect();
    assert_eq!(left, [7, 7, 8]);
    assert_eq!(lane.path.stats().copies, 2);
}

#[test]
fn a_copy_enters_at_the_root_and_is_copied_once() {
    let mut dev = VecDevice::with_slots(100);
    let config = PathConfig { role: Role::Forwarder, bql: None, ..PathConfig::default() };
    let mut path = TxPath::new(config).unwrap().with_qdisc("prio", &[]).unwrap();
    path.configure(Instant::ZERO, &mut dev, |tree, cx| {
        let parent = Handle::new(tree.root().handle().major(), 2);
        tree.edit(cx).add(parent, None, "netem", &mut Words::new(&["duplicate", "100%"]))
    })
    .unwrap();
    let m = Meta::new(100).ecn(Ecn::Ect0);
    assert_eq!(path.submit(Instant::ZERO, "x", m, &mut dev), Admitted::Queued);
    assert_eq!(path.tree().root().books().admitted.packets, 2);
    assert_eq!(path.drain(Instant::ZERO, 64, &mut dev), Wake::Idle);
    assert_eq!(dev.sent(), ["x", "x"]);
    assert_eq!((path.stats().copies, path.stats().tx_packets), (1, 2));
}

/// netem-ecn-drops.
#[test]
fn a_mark_in_place_of_a_loss_is_no_drop() {
    let mut lane = Lane::new("netem", "loss 100% ecn");
    assert_eq!(lane.put(Instant::ZERO, 1, Meta::new(100).ecn(Ecn::Ect1)), Admitted::Queued);
    assert_eq!(lane.put(Instant::ZERO, 2, Meta::new(100)), Admitted::Dropped(DropReason::Lost));
    assert_eq!(lane.path.tree().root().books().dropped.packets, 1);
    let Out::Sent(1, m) = lane.take(Instant::ZERO) else { panic!() };
    assert_eq!((m.marked, m.ecn), (true, Ecn::Ce));
}

fn options_after(changes: &[&str]) -> Vec<String> {
    let (mut tree, mut cx) = tree();
    for line in changes {
        add(&mut tree, &mut cx, Handle::ROOT, 1, &format!("netem {line}")).unwrap();
    }
    let mut all = Vec::new();
    tree.root().qdisc().options(&mut |o| {
        if o.value.is_set() && !o.param.flag {
            all.push(format!("{} {}", o.param.key, txweir_core::text::value::exact_of(o.value)));
        }
    });
    all
}

/// netem-duplicate-correlation. Draws that follow the one before stay away from the ends of their
/// range: fewer copies are made than the share says.
#[test]
fn a_correlation_of_copies_holds_by_itself() {
    let copies = |options: &str| counts(options).0 - 20_000;
    let (alone, correlated) = (copies("duplicate 10%"), copies("duplicate 10% 30%"));
    assert!((1720..2280).contains(&alone) && (1..700).contains(&correlated), "{alone} {correlated}");
}

/// A loss that never happens is none, as in Linux.
#[test]
fn no_loss_is_not_shown() {
    for options in ["loss 0%", "loss random 0% 25%", "loss 0% ecn", "limit 1000"] {
        assert_eq!(options_after(&[options]), ["limit 1000", "gap 0"], "{options}");
    }
    assert_eq!(options_after(&["loss 5%", "loss 0%"]), ["limit 1000", "gap 0"]);
}

/// netem-forgets.
#[test]
fn a_change_forgets_what_has_no_effect() {
    let first = "delay 5ms 1ms 20% distribution normal reorder 10% gap 3 loss 1% 5% corrupt 2% rate 1mbit slot 9ms limit 7";
    assert_eq!(
        options_after(&[first, "loss 3%"]),
        [
            "limit 1000",
            "loss random 3% 5%",
            "corrupt 2%",
            "gap 0",
            "rate 125000bps 0 0 0",
            "slot 9000000ns 9000000ns"
        ]
    );
    assert_eq!(
        options_after(&[first, "delay 2ms 1ms rate 0 slot 0 corrupt 0"]),
        ["limit 1000", "delay 2000us 1000us 20%", "distribution normal", "gap 0"]
    );
    assert_eq!(
        options_after(&[first, "delay 2ms", "delay 2ms 1ms"])[1..3],
        ["delay 2000us 1000us 20%", "corrupt 2%"]
    );
}

/// netem-requeues.
#[test]
fn reordered_packets_are_ahead_the_newest_first() {
    let mut lane = Lane::new("netem", "delay 10ms reorder 100%");
    for id in 0..3 {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(100)), Admitted::Queued);
    }
    let left: Vec<_> = std::iter::from_fn(|| lane.take(Instant::ZERO).id()).collect();
    assert_eq!(left, [2, 1, 0]);
}

/// netem-swap.
#[test]
fn a_swap_emulates_nothing_twice_and_keeps_the_time() {
    let mut lane = Lane::new("netem", "delay 20ms");
    for id in 0..50 {
        let _ = lane.put(Instant(u64::from(id) * MS / 10), id, Meta::new(100));
    }
    let now = Instant::from_millis(5);
    let (done, swapped) = lane.path.swap(
        now,
        &mut lane.dev,
        |tree, cx| {
            let words = ["delay", "10ms", "loss", "90%", "corrupt", "90%", "duplicate", "90%"];
            tree.edit(cx)
                .replace(Handle::ROOT, Some(Handle::new(9, 0)), "netem", &mut Words::new(&words))
                .map(|_| ())
        },
        |_, _, _, _| {},
    );
    done.unwrap();
    assert_eq!((swapped.moved.packets, swapped.dropped.packets), (50, 0));
    // Their delay counts from their first arrival.
    for id in 0..50u32 {
        let due = Instant::from_millis(10) + Nanos(u64::from(id) * MS / 10);
        assert_eq!(lane.take(Instant(due.0 - 1)), Out::Wait(due));
        assert_eq!(lane.take(due).id(), Some(id));
    }
    assert_eq!((lane.dev.flipped().len(), lane.path.stats().copies), (0, 0));
}

/// netem-tables.
#[test]
fn tables_are_worked_out_or_given() {
    let (mut tree, mut cx) = tree();
    let mut add = |line: &str| add(&mut tree, &mut cx, Handle::ROOT, 1, line).map_err(|(_, message)| message);
    add("netem delay 1ms 1ms distribution uniform").unwrap();
    add("netem delay 1ms 1ms distribution -8192,0,8192").unwrap();
    let message = add("netem delay 1ms 1ms distribution experimental").unwrap_err();
    assert!(message.contains("numbers with commas"), "{message}");
}

#[test]
fn what_belongs_together_is_asked_for() {
    let (mut tree, mut cx) = tree();
    for (line, key) in [
        ("netem reorder 10%", "reorder"),
        ("netem gap 5 delay 1ms", "gap"),
        ("netem delay 1ms distribution normal", "distribution"),
        ("netem ecn", "ecn"),
    ] {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let err = tree.edit(&mut cx).add(Handle::ROOT, None, "netem", &mut Words::new(&words)).unwrap_err();
        assert_eq!((err.kind, err.key.as_deref()), (ErrorKind::Conflict, Some(key)), "{line}");
    }
}
