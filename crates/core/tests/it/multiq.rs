//! multiq: named behaviours, and transmit queues that stop, which no trace of the kernel has: veth
//! never stops a queue. The traces are in `spec/traces/multiq`.

use crate::common::lane::{Lane, Out};
use txweir_core::qdisc::kind;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Env, Handle, Instant, Meta, Nanos, Wake};

const T: Instant = Instant::from_secs(1);

fn class(minor: u16) -> Handle {
    Handle::new(0x8001, minor)
}

fn meta(queue: u16) -> Meta {
    let mut meta = Meta::new(1000);
    meta.queue = queue;
    meta
}

fn lane(queues: u16) -> Lane {
    Lane::on(Env { queues, ..Env::default() }, "multiq", "")
}

#[test]
fn a_device_of_one_queue_refuses() {
    let refused = kind("multiq").and_then(|k| k.build(&mut Words::new(&[]), &Env::default()));
    let said = refused.err().map(|e| e.to_string());
    let expected = "multiq: expected a device with several transmit queues, given \"one queue\"";
    assert_eq!(said.as_deref(), Some(expected));
}

#[test]
fn there_is_a_class_for_each_queue() {
    for queues in [2, 5, 4096] {
        let lane = lane(queues);
        let minors: Vec<u16> = lane.root().qdisc().classes().iter().map(|c| c.minor).collect();
        assert_eq!(minors, (1..=queues).collect::<Vec<_>>());
    }
}

#[test]
fn queues_take_turns_from_the_one_behind_the_last() {
    let mut lane = lane(3);
    for queue in 0..3 {
        lane.fill(T, u32::from(queue) * 10, 3, meta(queue));
    }
    // As in Linux, a fresh multiq begins with the second queue.
    assert_eq!(lane.ids(T, 4), [10, 20, 0, 11]);
    lane.fill(T, 13, 1, meta(1));
    assert_eq!(lane.ids(T, 9), [21, 1, 12, 22, 2, 13]);
}

#[test]
fn a_queue_that_is_not_there_is_the_first_and_priorities_say_nothing() {
    let mut lane = lane(2);
    let named = meta(1).priority(class(1).0);
    for (id, m) in [(0, meta(2)), (1, meta(u16::MAX)), (2, named)] {
        assert_eq!(lane.put(T, id, m), Admitted::Queued);
    }
    let queued: Vec<u64> =
        lane.root().qdisc().classes().iter().map(|c| c.node.books().queued.packets).collect();
    assert_eq!(queued, [2, 1]);
}

#[test]
fn what_is_for_a_stopped_queue_waits_and_the_others_go() {
    let mut lane = lane(3);
    for queue in 0..3 {
        lane.fill(T, u32::from(queue) * 10, 2, meta(queue));
    }
    lane.path.stopped_queues().insert(1);
    assert_eq!(lane.ids(T, 9), [20, 0, 21, 1]);
    // Only the device knows the time.
    assert_eq!(lane.path.drain(T, 9, &mut lane.dev), Wake::Device);
    assert_eq!(lane.backlog(), 2);
    lane.path.stopped_queues().remove(1);
    assert_eq!(lane.ids(T, 9), [10, 11]);
    assert_eq!(lane.path.drain(T, 9, &mut lane.dev), Wake::Idle);
}

#[test]
fn a_shaper_is_waited_for_though_another_queue_is_stopped() {
    let mut lane = lane(2);
    lane.graft(T, class(1), "tbf", "rate 8mbit burst 1000 limit 100000");
    lane.fill(T, 0, 2, meta(0));
    lane.fill(T, 10, 1, meta(1));
    lane.path.stopped_queues().insert(1);
    assert_eq!(lane.ids(T, 9), [0]);
    assert_eq!(lane.take(T), Out::Wait(T + Nanos::from_millis(1)));
    assert_eq!(lane.ids(T + Nanos::from_millis(1), 9), [1]);
    assert_eq!(lane.path.drain(T + Nanos::from_millis(1), 9, &mut lane.dev), Wake::Device);
}

#[test]
fn a_stopped_queue_below_another_qdisc_is_not_forgotten() {
    for above in ["prio", "tbf rate 1gbit burst 100kb limit 1mb"] {
        let (kind, options) = above.split_once(' ').unwrap_or((above, ""));
        let mut lane = Lane::on(Env { queues: 2, ..Env::default() }, kind, options);
        lane.graft(T, class(1), "multiq", "");
        lane.path.stopped_queues().insert(1);
        let packet = meta(1).priority(6);
        assert_eq!(lane.put(T, 0, packet), Admitted::Queued, "{above}");
        assert_eq!(lane.path.drain(T, 9, &mut lane.dev), Wake::Device, "{above}");
        lane.path.stopped_queues().remove(1);
        assert_eq!(lane.ids(T, 9), [0], "{above}");
    }
}

#[test]
fn to_kinds_that_know_no_queues_a_stop_means_nothing() {
    let mut lane = Lane::on(Env { queues: 2, ..Env::default() }, "pfifo", "");
    lane.path.stopped_queues().insert(1);
    lane.fill(T, 0, 1, meta(1));
    assert_eq!(lane.ids(T, 9), [0]);
}

/// In Linux the class then has a qdisc that drops everything.
#[test]
fn a_deleted_qdisc_gives_place_to_a_pfifo() {
    let mut lane = lane(2);
    lane.graft(T, class(2), "bfifo", "limit 1000");
    lane.fill(T, 0, 1, meta(1));
    assert_eq!(lane.put(T, 1, meta(1)), Admitted::Dropped(DropReason::Overlimit));
    lane.drops();
    let deleted = lane.path.configure(T, &mut lane.dev, |tree, cx| tree.edit(cx).delete(class(2)));
    assert_eq!((deleted, lane.drops()), (Ok(()), vec![(0, DropReason::Purged)]));
    lane.fill(T, 2, 2, meta(1));
    assert_eq!(lane.ids(T, 9), [2, 3]);
}

/// In Linux it stays 0, and runs below it when packets are dropped.
#[test]
fn the_backlog_is_counted_in_bytes_too() {
    let mut lane = lane(2);
    lane.fill(T, 0, 2, meta(0));
    lane.fill(T, 2, 1, meta(1));
    let books = lane.root().books();
    assert_eq!((books.queued.packets, books.queued.bytes), (3, 3000));
}

/// In Linux the loop of a device of several queues dequeues once more after each packet, and a
/// shaper counts that.
#[test]
fn a_shaper_is_not_asked_again_after_a_packet_on_a_device_of_several_queues() {
    let options = "rate 8mbit burst 1000 limit 100000";
    let mut one = Lane::new("tbf", options);
    let mut four = Lane::on(Env { queues: 4, ..Env::default() }, "tbf", options);
    for lane in [&mut one, &mut four] {
        lane.fill(T, 0, 3, meta(0));
        let mut now = T;
        while let Wake::At(t, _) = lane.path.drain(now, 64, &mut lane.dev) {
            now = t;
        }
        assert_eq!(lane.dev.sent(), [0, 1, 2]);
    }
    assert_eq!(one.root().books().overlimits, 2);
    assert_eq!(four.root().books().overlimits, 2);
}

#[test]
fn a_turn_that_becomes_ready_is_not_held_up_by_the_next_ones_packet() {
    let env = Env { queues: 2, ..Env::default() };
    let mut lane = Lane::on(env, "tbf", "rate 8mbit burst 1000 limit 100000");
    let multiq = lane.graft(T, class(1), "multiq", "");
    lane.graft(T, Handle::new(multiq.major(), 2), "netem", "delay 512us");
    lane.fill(T, 0, 1, meta(0));
    assert_eq!(lane.ids(T, 9), [0]);
    let mut small = meta(1);
    (small.len, small.wire_len) = (200, 200);
    lane.fill(T, 10, 1, small);
    lane.fill(T, 1, 1, meta(0));
    // Packet 1 has tokens after a millisecond. By then the smaller packet that has its turn has
    // left the link.
    let due = T + Nanos::from_micros(512);
    assert_eq!(lane.take(T), Out::Wait(due));
    assert_eq!(lane.ids(due, 9), [10]);
}
