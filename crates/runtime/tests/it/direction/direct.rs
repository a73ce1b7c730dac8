//! Directions without a wire: as fast as their output.

use txweir_core::base::tally::Tally;
use txweir_core::path::txpath::Swapped;
use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant};
use txweir_device::FRAME_MEMORY;
use txweir_runtime::{Direction, DirectionConfig, Received};

use super::{feed, root, run_out, udp};
use crate::list::{List, Out, To as _};

/// Makes a direction without a wire: as fast as its output.
fn passage(packets: usize) -> Direction<Out> {
    let config = DirectionConfig { wire: None, bql: None, packets, ..DirectionConfig::default() };
    Direction::new(config, Out::new(FRAME_MEMORY)).unwrap()
}

#[test]
fn without_a_wire_frames_leave_at_once() {
    let mut way = passage(4096);
    let mut port = List::default();
    port.incoming.extend((0..300).map(|i| udp(0, i, 100)));
    feed(&mut way, Instant(7), &mut port);
    assert_eq!(run_out(&mut way, &mut port, Instant(7)), Instant(7));
    let stats = way.stats();
    assert_eq!((stats.received, stats.delivered, stats.lost, port.sent.len()), (300, 300, 0, 300));
    assert_eq!((way.path().backlog().packets, way.in_flight(), way.deadline(Instant(8))), (0, 0, None));
    let ports: Vec<_> = port.sent.iter().map(|(_, f)| u16::from_be_bytes([f[34], f[35]])).collect();
    assert!(ports.is_sorted());
}

#[test]
fn without_a_wire_the_qdisc_feels_a_full_output() {
    let mut way = passage(4096);
    root(&mut way, "pfifo", &["limit", "100"]);
    let mut port = List { full: true, ..List::default() };
    port.incoming.extend((0..300).map(|i| udp(0, i, 100)));
    feed(&mut way, Instant(0), &mut port);
    // 64 frames are with the device, 100 wait, and the rest has been dropped. No timer is set.
    let stats = way.stats();
    assert_eq!((stats.dropped, way.path().backlog().packets, way.in_flight()), (136, 100, 6400));
    assert_eq!((way.deadline(Instant(1)), way.waits_for_device()), (None, true));
    port.full = false;
    way.advance_to(Instant(2), &mut port).unwrap();
    assert_eq!(run_out(&mut way, &mut port, Instant(2)), Instant(2));
    assert_eq!((port.sent.len(), way.path().backlog().packets, way.waits_for_device()), (164, 0, false));
    let stats = way.stats();
    assert_eq!(stats.received, stats.delivered + stats.dropped + stats.lost);
}

/// A full device keeps the frames that it was given, in order; its completions stop, and the path
/// stops at its byte limit.
#[test]
fn a_full_device_stops_the_path_at_its_byte_limit_and_loses_nothing() {
    let bql = DirectionConfig::default().bql;
    let config = DirectionConfig { wire: None, bql, packets: 4096, ..DirectionConfig::default() };
    let mut way = Direction::new(config, Out::new(FRAME_MEMORY)).unwrap();
    let mut port = List::default();
    let (mut came, mut now) = (0, 0);
    // The limit learns from bursts of twenty, which the device finishes one doorbell later.
    for round in 0..200 {
        port.full = round % 2 == 0;
        port.incoming.extend((0..20).map(|i| udp(0, came + i, 1000)));
        came += 20;
        now += 100_000;
        feed(&mut way, Instant(now), &mut port);
        way.advance_to(Instant(now), &mut port).unwrap();
    }
    port.full = true;
    port.incoming.extend((0..300).map(|i| udp(0, came + i, 1000)));
    came += 300;
    feed(&mut way, Instant(now), &mut port);
    way.advance_to(Instant(now), &mut port).unwrap();
    let limit = way.path().tx().limit().unwrap().limit();
    // At most one packet is beyond the limit; the others stay where the qdiscs can still choose
    // among them.
    assert!(way.in_flight() <= u64::from(limit) + 1000, "{} of {limit}", way.in_flight());
    assert!(way.path().backlog().packets > 230, "{} wait", way.path().backlog().packets);
    assert!(way.path().stats().stop_stack > 0 && way.waits_for_device());
    port.full = false;
    way.advance_to(Instant(now + 1), &mut port).unwrap();
    run_out(&mut way, &mut port, Instant(now + 1));
    let order: Vec<_> = port.sent.iter().map(|(_, f)| u16::from_be_bytes([f[34], f[35]])).collect();
    assert_eq!(order, (0..came).collect::<Vec<_>>());
    let stats = way.stats();
    assert_eq!((stats.delivered, stats.lost, stats.dropped), (u64::from(came), 0, 0));
}

#[test]
fn without_a_wire_a_shaper_still_paces_and_an_output_that_is_gone_loses_what_it_was_given() {
    let mut way = passage(4096);
    root(&mut way, "tbf", &["rate", "8mbit", "burst", "1000", "limit", "1000000"]);
    let mut port = List::default();
    port.incoming.extend((0..11).map(|i| udp(0, i, 1000)));
    feed(&mut way, Instant(0), &mut port);
    // 1000 bytes leave each millisecond, the first at once.
    assert_eq!(run_out(&mut way, &mut port, Instant(0)).0 / 1_000_000, 10);
    assert_eq!(port.sent.len(), 11);
    port.incoming.push_back(udp(0, 1, 1000));
    let mut input = List { incoming: std::mem::take(&mut port.incoming), ..List::default() };
    port.gone = true;
    let Received::Frame(arrival) = way.receive(&mut input).unwrap() else { panic!("a frame") };
    way.admit_to(Instant(1_000_000_000), arrival, &mut port).unwrap();
    assert!(way.advance_to(Instant(1_000_000_000), &mut port).is_err());
    let stats = way.stats();
    assert_eq!((stats.received, stats.delivered, stats.lost), (12, 11, 1));
}

#[test]
fn a_swap_keeps_what_waits_in_order_and_drops_only_what_has_no_room() {
    let mut way = passage(4096);
    root(&mut way, "pfifo", &["limit", "1000"]);
    let mut port = List { full: true, ..List::default() };
    port.incoming.extend((0..164).map(|i| udp(if i % 2 == 0 { 0x10 } else { 0 }, i, 100)));
    feed(&mut way, Instant(0), &mut port);
    assert_eq!(way.path().backlog().packets, 100);
    let tally = |packets: u64| Tally { packets, bytes: 100 * packets };
    // With prio the interactive packets leave first, and each band keeps its order.
    let (_, done) = way.control(Instant(1)).swap(|qdiscs| {
        qdiscs.replace(Handle::ROOT, Some(Handle::new(1, 0)), "prio", &mut Words::new(&[])).unwrap();
    });
    assert_eq!(done, Swapped { moved: tally(100), ..Swapped::default() });
    // A swap for the same tree moves no packet.
    let (_, done) = way.control(Instant(2)).swap(|_| {});
    assert_eq!(done, Swapped { kept: tally(100), ..Swapped::default() });
    // One band gets room for 10 packets only.
    let (_, done) = way.control(Instant(3)).swap(|qdiscs| {
        qdiscs.replace(Handle::new(1, 2), None, "pfifo", &mut Words::new(&["limit", "10"])).unwrap();
    });
    assert_eq!(done, Swapped { moved: tally(60), dropped: tally(40), ..Swapped::default() });
    port.full = false;
    way.advance_to(Instant(4), &mut port).unwrap();
    run_out(&mut way, &mut port, Instant(4));
    let left: Vec<u16> = port.sent.iter().map(|(_, f)| u16::from_be_bytes([f[34], f[35]])).collect();
    let expected: Vec<u16> = (0..64).chain((64..164).step_by(2)).chain((65..85).step_by(2)).collect();
    assert_eq!(left, expected);
    let stats = way.stats();
    assert_eq!((stats.received, stats.delivered, stats.dropped), (164, 124, 40));
    assert_eq!(way.path().cx().pool.live(), 0);
}

/// A device that never reports stops the byte limit. Once its frames are given up, the frames that
/// waited go on, and each frame has one fate.
#[test]
fn frames_that_a_device_never_finishes_are_given_up_and_the_byte_limit_goes_on() {
    let bql = DirectionConfig::default().bql;
    let config = DirectionConfig { wire: None, bql, packets: 4096, ..DirectionConfig::default() };
    let mut way = Direction::new(config, Out::new(FRAME_MEMORY)).unwrap();
    root(&mut way, "pfifo", &["limit", "1000"]);
    let mut port = List { full: true, ..List::default() };
    port.incoming.extend((0..300).map(|i| udp(0, i, 1000)));
    feed(&mut way, Instant(0), &mut port);
    way.advance_to(Instant(0), &mut port).unwrap();
    let stopped = way.path().backlog().packets;
    assert!(stopped > 200 && way.device_holds() && way.device_finished() == 0, "{stopped}");
    // The next ones stand as the first did, and are given up as they were.
    let mut lost = 0;
    for round in 1..=3 {
        std::mem::swap(&mut way.device_mut().list, &mut port);
        let (given_up, done) = way.control(Instant(round)).give_up();
        std::mem::swap(&mut way.device_mut().list, &mut port);
        done.unwrap();
        assert!(given_up > 0, "{round}");
        lost += given_up;
        let ledger = way.ledger();
        assert_eq!((ledger.lost, way.stats().timeouts), (lost, round));
        assert_eq!(ledger.sums()[0], ledger.sums()[1], "{ledger:?}");
        assert!(ledger.inflight > 0 || ledger.queued == 0, "{ledger:?}");
    }
    way.advance_to(Instant(10), &mut port).unwrap();
    port.full = false;
    way.advance_to(Instant(11), &mut port).unwrap();
    run_out(&mut way, &mut port, Instant(11));
    let ledger = way.ledger();
    assert_eq!((ledger.delivered + ledger.lost, ledger.queued, ledger.inflight), (300, 0, 0), "{ledger:?}");
    let limit = way.path().tx().limit().unwrap();
    assert_eq!((limit.inflight(), port.sent.len() as u64), (0, ledger.delivered));
}
