//! The band before a qdisc under a shaper, which peeks before it dequeues; launch times; changes of
//! other options. (`tcp_control.rs`: the segments, their order, and the share of a band.)

use crate::common::lane::{Lane, Out};
use txweir_core::{Admitted, DropReason, Handle, Instant, Meta};

const T0: Instant = Instant::ZERO;

/// Returns a pure ACK of a flow.
fn ack(len: u32) -> Meta {
    let mut m = Meta::new(len).hash(3 << 22).priority(1);
    m.tcp_control = true;
    m
}

fn data(len: u32) -> Meta {
    Meta::new(len).hash(9 << 22).priority(1)
}

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Makes a shaper of 1 byte a microsecond with this qdisc in its class, and an empty bucket.
fn shaped(kind: &str, options: &str) -> (Lane, Handle) {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    assert_eq!(lane.put(T0, 999, data(1000)), Admitted::Queued);
    assert_eq!(lane.ids(T0, 2), [999]);
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(T0, class, kind, options);
    (lane, class)
}

/// A launch time is kept by the qdisc behind the band.
#[test]
fn control_with_a_launch_time_waits_for_it() {
    let mut lane = Lane::new("fq", "tcpctl 100%");
    lane.fill(us(1), 0, 1, ack(60).txtime(us(5000)));
    lane.fill(us(1), 1, 1, ack(60));
    assert_eq!(lane.ids(us(2), 2), [1]);
    assert_eq!((lane.take(us(4000)).id(), lane.take(us(5000)).id()), (None, Some(0)));
}

/// The packet at which a shaper looks is the one that leaves next: control, while it has credit.
#[test]
fn a_shaper_is_shown_the_control_segment_that_goes_first() {
    for kind in ["prio", "fq_codel", "fq"] {
        let (mut lane, _) = shaped(kind, "tcpctl 100%");
        lane.fill(T0, 0, 1, data(1000));
        lane.fill(T0, 1, 1, ack(60));
        assert_eq!(lane.take(T0), Out::Wait(us(60)), "{kind}");
        assert_eq!((lane.take(us(60)).id(), lane.take(us(60))), (Some(1), Out::Wait(us(1060))), "{kind}");
        assert_eq!(lane.take(us(1060)).id(), Some(0), "{kind}");
    }
}

/// As before, for control without credit: the qdisc's packet goes first.
#[test]
fn a_shaper_is_not_shown_control_that_has_no_credit() {
    for kind in ["prio", "fq_codel", "fq"] {
        let (mut lane, _) = shaped(kind, "tcpctl 1%");
        lane.fill(T0, 0, 2, data(1000));
        // 655 bytes of credit: one ACK at 990 spends it.
        lane.fill(T0, 10, 1, ack(1000));
        lane.fill(T0, 11, 1, ack(60));
        assert_eq!(lane.take(us(1000)).id(), Some(10), "{kind}");
        assert_eq!(lane.take(us(1000)), Out::Wait(us(2000)), "{kind}");
        assert_eq!(lane.take(us(1060)), Out::Wait(us(2000)), "{kind}");
        assert_eq!(lane.take(us(2000)).id(), Some(0), "{kind}");
    }
}

/// A packet of the qdisc that a peek holds counts against the limit of the qdisc.
#[test]
fn a_held_packet_of_the_qdisc_is_one_of_its_limit() {
    let (mut lane, _) = shaped("fq_codel", "limit 4 drop_batch 1 tcpctl 50%");
    lane.fill(T0, 0, 4, data(1000));
    assert_eq!(lane.take(T0), Out::Wait(us(1000)), "a packet is held");
    let _ = lane.put(T0, 4, data(1000));
    assert_eq!(lane.drops().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1]);
    assert_eq!(lane.backlog(), 4);
}

/// Returns a path whose shaper holds control segment 11, due at 2060 us, with the packets 1 to 4 in
/// the fq_codel behind its band; and the place of that.
fn holding() -> (Lane, Handle) {
    let (mut lane, class) = shaped("fq_codel", "limit 4 drop_batch 1 tcpctl 1%");
    lane.fill(T0, 0, 1, data(1000));
    lane.fill(T0, 10, 1, ack(1000));
    lane.fill(T0, 11, 1, ack(60));
    // The credit is spent by the first segment, so that the qdisc's packet goes before the other.
    assert_eq!([1000, 2000].map(|t| lane.take(us(t)).id()), [Some(10), Some(0)]);
    assert_eq!(lane.take(us(2000)), Out::Wait(us(2060)), "the segment is held");
    lane.fill(us(2000), 1, 4, data(1000));
    (lane, class)
}

/// A control segment that a peek holds does not: the band has room of its own.
#[test]
fn a_held_control_segment_takes_no_room_of_the_qdisc() {
    let (mut lane, _) = holding();
    assert_eq!((lane.drops(), lane.backlog()), (vec![], 5));
    assert_eq!(lane.take(us(2060)).id(), Some(11));
}

/// A smaller limit of the qdisc leaves the held control segment where it is, also when its band has
/// been taken away meanwhile.
#[test]
fn a_smaller_limit_leaves_a_held_control_segment() {
    for changes in [vec!["limit 3"], vec!["tcpctl 0%", "limit 3"]] {
        let (mut lane, class) = holding();
        for change in &changes {
            lane.change(us(2000), class, change).unwrap();
        }
        assert_eq!(lane.drops(), [(1, DropReason::Purged)], "{changes:?}");
        let left = [2060, 3060, 4060, 5060].map(|t| lane.take(us(t)).id());
        assert_eq!(left, [Some(11), Some(2), Some(3), Some(4)], "{changes:?}");
        assert_eq!(lane.backlog(), 0);
    }
}

/// Credit that is spent stays spent when another option changes; another share begins anew.
#[test]
fn a_change_of_another_option_fills_no_credit() {
    for (kind, other) in [("fq_codel", "limit 500"), ("fq", "limit 500")] {
        for (change, first) in [(other, 0), ("tcpctl 1%", 0), ("tcpctl 2%", 11)] {
            let mut lane = Lane::new(kind, "tcpctl 1%");
            lane.fill(T0, 0, 2, data(1000));
            lane.fill(T0, 10, 2, ack(1000));
            assert_eq!(lane.ids(T0, 1), [10], "{kind}");
            lane.change(T0, Handle::ROOT, change).unwrap();
            assert_eq!(lane.ids(T0, 1), [first], "{kind} {change}");
        }
    }
}
