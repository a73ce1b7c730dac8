//! A direction whose flows take turns, in virtual time.

use txweir_core::text::value::Words;
use txweir_core::turns::Quota;
use txweir_core::{Handle, Instant, Nanos};
use txweir_device::{Gso, VnetHdr};
use txweir_runtime::{Direction, Received};

use crate::list::{self, List, Out, To as _};

/// Returns a TCP frame of flow `port` with `payload` bytes of payload, each of them `number`; a
/// super-frame of segments of 1448 bytes if there are more.
fn tcp(port: u16, payload: usize, number: u8) -> (VnetHdr, Vec<u8>) {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((40 + payload as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    frame.resize(54 + payload, number);
    let large = payload > 1448;
    let gso = if large { Gso::TcpV4 } else { Gso::None };
    let hdr = VnetHdr {
        needs_csum: large,
        gso,
        gso_size: if large { 1448 } else { 0 },
        csum_start: 34,
        csum_offset: 16,
        ..VnetHdr::default()
    };
    (hdr, frame)
}

/// Returns the flow of a frame.
fn port(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]])
}

fn direction(spec: &str, quota: u32) -> Direction<Out> {
    let mut way = list::direction(spec, 64 << 20);
    way.control(Instant::ZERO).set_fairsend(Quota::segs(quota));
    way
}

fn root(way: &mut Direction<Out>, kind: &str, options: &[&str]) {
    way.control(Instant::ZERO).configure(|tree, cx| {
        tree.edit(cx).replace(Handle::ROOT, None, kind, &mut Words::new(options)).unwrap();
    });
}

/// Receives and admits all frames at `now`.
fn come(
    way: &mut Direction<Out>,
    now: Instant,
    out: &mut List,
    frames: impl IntoIterator<Item = (VnetHdr, Vec<u8>)>,
) {
    let mut input = List { incoming: frames.into_iter().collect(), ..List::default() };
    while let Received::Frame(arrival) = way.receive(&mut input).unwrap() {
        way.admit_to(now, arrival, out).unwrap();
    }
    assert_eq!(input.incoming.len(), 0);
}

/// Runs until no event is left, or until `end`.
fn run(way: &mut Direction<Out>, out: &mut List, from: Instant, end: Instant) -> Instant {
    let mut now = from;
    for _ in 0..1_000_000 {
        match way.deadline(now).map(|at| at.max(now)) {
            Some(at) if at <= end => now = at,
            _ => return now,
        }
        way.advance_to(now, out).unwrap();
    }
    panic!("the events do not end");
}

const NEVER: Instant = Instant(u64::MAX >> 1);
const WIRE: &str = "rate=100mbit,ring=64";

/// Eight flows send 100 frames each, then another flow sends one frame. Returns how many frames
/// leave ahead of that one.
fn place_of_a_late_one(quota: u32, kind: &str, options: &[&str]) -> usize {
    let mut way = direction(WIRE, quota);
    root(&mut way, kind, options);
    let mut out = List::default();
    for flow in 0..8 {
        come(&mut way, Instant(1), &mut out, (0..100).map(|n| tcp(flow, 1448, n)));
    }
    come(&mut way, Instant(2), &mut out, [tcp(98, 100, 0)]);
    run(&mut way, &mut out, Instant(2), NEVER);
    assert_eq!(out.sent.len(), 801);
    // Each flow's order holds, and with turns the shares of the first half are even.
    for flow in 0..8 {
        let own = out.sent.iter().filter(|f| port(&f.1) == flow).map(|f| f.1[54]);
        assert!(own.eq(0..100), "flow {flow}");
        let early = out.sent[..400].iter().filter(|f| port(&f.1) == flow).count();
        assert!(quota == 0 || (44..=60).contains(&early), "flow {flow}: {early}");
    }
    assert_eq!(way.gate().map_or(0, |gate| gate.waiting()), 0);
    out.sent.iter().position(|f| port(&f.1) == 98).unwrap()
}

#[test]
fn a_burst_in_the_qdiscs_does_not_delay_another_flow() {
    let limit = ["limit", "1000"];
    // Without turns the frame leaves behind all earlier ones; with turns, behind the frames of the
    // device and four of each flow.
    assert_eq!(place_of_a_late_one(0, "pfifo", &limit), 800);
    let place = place_of_a_late_one(4, "pfifo", &limit);
    assert!(place < 64 + 8 * 4, "{place}");
    assert!(place_of_a_late_one(1, "pfifo", &limit) <= place);
}

#[test]
fn full_qdiscs_are_waited_for() {
    // Room for ten frames: without turns the qdisc drops, with turns no frame is lost.
    let place = place_of_a_late_one(4, "pfifo", &["limit", "10"]);
    assert!(place < 64 + 8 * 4, "{place}");
    let mut way = direction(WIRE, 0);
    root(&mut way, "pfifo", &["limit", "10"]);
    let mut out = List::default();
    come(&mut way, Instant(1), &mut out, (0..100).map(|n| tcp(1, 1448, n)));
    assert!(way.stats().dropped > 0);
    // A qdisc that accepts no frame drops, and does not hold up the rest.
    let mut way = direction(WIRE, 4);
    root(&mut way, "bfifo", &["limit", "200"]);
    come(&mut way, Instant(1), &mut out, (0..200).map(|n| tcp(1, 1448, n)));
    run(&mut way, &mut out, Instant(1), NEVER);
    assert_eq!(way.stats().received, way.stats().departed + way.stats().dropped);
    assert_eq!(way.gate().unwrap().waiting(), 0);
}

#[test]
fn the_line_is_as_busy_as_without_turns() {
    // A completion every 250 us is 20 frames at 1 Gbit/s: more than a turn.
    for quota in [0, 1, 4] {
        let mut way = direction("rate=1gbit,ring=256,completion=250us", quota);
        root(&mut way, "pfifo", &["limit", "2000"]);
        let mut out = List::default();
        come(&mut way, Instant(1), &mut out, (0..1000).map(|n| tcp(1, 1448, n as u8)));
        let end = run(&mut way, &mut out, Instant(1), NEVER);
        // 1000 frames of 1502 + 24 bytes, 12.208 ms, and a little at both ends.
        assert_eq!(out.sent.len(), 1000);
        let busy = Nanos(way.stats().busy_ns);
        assert_eq!(busy, Nanos(12_208_000));
        // The end is the last completion; the first was due after 250 us.
        assert_eq!(end, Instant(13_250_000), "{quota}");
    }
}

#[test]
fn a_full_gate_drops_the_oldest_of_who_has_most() {
    let mut way = direction(WIRE, 4);
    root(&mut way, "pfifo", &["limit", "1000"]);
    let mut out = List::default();
    come(&mut way, Instant(1), &mut out, (0..1400).map(|n| tcp(1, 1448, n as u8)));
    let gate = way.gate().unwrap();
    let (waiting, dropped) = (gate.waiting() as u64, gate.stats().dropped);
    assert!(waiting == 1024 && dropped > 0 && way.stats().dropped == dropped, "{waiting} {dropped}");
    // Other flows lose no frame, whether they pass or wait.
    come(&mut way, Instant(2), &mut out, (0..100).map(|n| tcp(2, 100, n)));
    let gate = way.gate().unwrap();
    assert!(gate.waiting() == 1024 && gate.stats().dropped > dropped);
    let dropped = gate.stats().dropped;
    run(&mut way, &mut out, Instant(2), NEVER);
    assert_eq!((out.sent.len() as u64, way.stats().dropped), (1500 - dropped, dropped));
    let second: Vec<u8> =
        out.sent.iter().filter(|frame| port(&frame.1) == 2).map(|frame| frame.1[54]).collect();
    assert!(second.into_iter().eq(0..100));
}

#[test]
fn turns_are_switched_on_and_off_while_packets_wait() {
    let mut way = direction(WIRE, 0);
    root(&mut way, "pfifo", &["limit", "1000"]);
    let mut out = List::default();
    come(&mut way, Instant(1), &mut out, (0..150).map(|n| tcp(1, 1448, n)));
    assert!(way.gate().is_none());
    way.control(Instant(2)).set_fairsend(Quota::segs(4));
    come(&mut way, Instant(2), &mut out, (150..200).map(|n| tcp(1, 1448, n)));
    // Packets that were in the qdiscs before were not counted: four more of the flow enter, and the
    // rest waits.
    assert_eq!((way.fairsend(), way.gate().unwrap().waiting()), (Quota::segs(4), 46));
    let backlog = way.path().backlog().packets;
    way.control(Instant(3)).set_fairsend(Quota::segs(10));
    assert_eq!((way.gate().unwrap().waiting(), way.path().backlog().packets), (40, backlog + 6));
    way.control(Instant(4)).set_fairsend(Quota::OFF);
    assert_eq!(
        (way.fairsend(), way.gate().is_none(), way.path().backlog().packets),
        (Quota::OFF, true, backlog + 46)
    );
    run(&mut way, &mut out, Instant(4), NEVER);
    assert!(out.sent.iter().map(|f| f.1[54]).eq(0..200));
}

#[test]
fn a_super_frame_is_a_turn_also_where_it_is_cut() {
    let mut way = direction("rate=1gbit,ring=256", 4);
    let mut out = List::default();
    let frames = |flow| (0..10).map(move |n| tcp(flow, 20 * 1448, n));
    root(&mut way, "tbf", &["rate", "100mbit", "burst", "3000", "limit", "10mb"]);
    come(&mut way, Instant(1), &mut out, frames(1).chain(frames(2)));
    // The qdisc has one super-frame of each flow.
    assert_eq!(way.gate().unwrap().waiting(), 18);
    assert!(way.path().backlog().packets <= 40);
    run(&mut way, &mut out, Instant(1), NEVER);
    assert_eq!((out.sent.len(), way.stats().cut, way.gate().unwrap().waiting()), (400, 20, 0));
    let turns: Vec<u16> = out.sent.chunks(20).map(|c| port(&c[0].1)).collect();
    assert_eq!(turns, [1, 2].repeat(10));
}

#[test]
fn acknowledgements_do_not_wait_behind_other_flows() {
    let mut way = direction(WIRE, 4);
    root(&mut way, "pfifo", &["limit", "1000"]);
    let mut out = List::default();
    come(&mut way, Instant(1), &mut out, (0..200).map(|n| tcp(1, 1448, n)));
    come(&mut way, Instant(1), &mut out, (0..50).map(|_| tcp(2, 0, 0)));
    // All fifty are in the path: none counts as a segment of a turn.
    assert!(way.gate().unwrap().stats().held < 200);
    let held_of_first = way.gate().unwrap().waiting();
    come(&mut way, Instant(1), &mut out, [tcp(1, 0, 0)]);
    // An acknowledgement of a flow that waits stands behind the flow's own data.
    assert_eq!(way.gate().unwrap().waiting(), held_of_first + 1);
    run(&mut way, &mut out, Instant(1), NEVER);
    assert_eq!(out.sent.len(), 251);
}
