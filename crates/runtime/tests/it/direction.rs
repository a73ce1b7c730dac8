//! One direction in virtual time, between ports that are lists.

use txweir_core::base::tally::Tally;
use txweir_core::path::txpath::Swapped;
use txweir_core::text::value::Words;
use txweir_core::{Env, Handle, Instant, Nanos, Rate};
use txweir_device::{FRAME_MEMORY, Gso, MAX_FRAME, VnetHdr};
use txweir_runtime::{Direction, DirectionConfig, Received, WireSpec};

use crate::list::{List, Out, To as _};

/// Returns an IPv4 frame with this TOS, protocol and payload.
fn ipv4(tos: u8, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = (20 + rest.len()) as u16;
    frame.extend([0x45, tos]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = ip_sum(&frame);
    frame[24..26].copy_from_slice(&(!sum).to_be_bytes());
    frame.extend(rest);
    frame
}

/// Returns the one's-complement sum of the IPv4 header (RFC 1071): 0xffff if its checksum is right.
fn ip_sum(frame: &[u8]) -> u16 {
    let words = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>();
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Returns a UDP frame of `len` bytes in all, of flow `port`.
fn udp(tos: u8, port: u16, len: usize) -> (VnetHdr, Vec<u8>) {
    let mut rest = vec![0; len - 34];
    rest[..2].copy_from_slice(&port.to_be_bytes());
    rest[4..6].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    (VnetHdr::default(), ipv4(tos, 17, &rest))
}

/// Returns a TCP super-frame with this payload.
fn super_frame(payload: &[u8], gso_size: u16) -> (VnetHdr, Vec<u8>) {
    let mut rest = vec![0; 20];
    rest[12..14].copy_from_slice(&[0x50, 0x10]);
    rest.extend(payload);
    let hdr = VnetHdr {
        needs_csum: true,
        gso: Gso::TcpV4,
        gso_size,
        csum_start: 34,
        csum_offset: 16,
        ..VnetHdr::default()
    };
    (hdr, ipv4(0, 6, &rest))
}

fn direction(spec: &str, memory: usize) -> Direction<Out> {
    let WireSpec { wire, bql } = spec.parse().unwrap();
    let config = DirectionConfig { wire: Some(wire), bql, env: Env::default(), packets: 4096 };
    Direction::new(config, Out::new(memory)).unwrap()
}

fn root(way: &mut Direction<Out>, kind: &str, options: &[&str]) {
    way.control(Instant::ZERO).configure(|tree, cx| {
        tree.edit(cx).replace(Handle::ROOT, None, kind, &mut Words::new(options)).unwrap();
    });
}

/// Receives and admits all frames of `port`, at `now`.
fn feed(way: &mut Direction<Out>, now: Instant, port: &mut List) {
    let mut input = List { incoming: std::mem::take(&mut port.incoming), ..List::default() };
    loop {
        match way.receive(&mut input).unwrap() {
            Received::Frame(arrival) => way.admit_to(now, arrival, port).unwrap(),
            Received::LeftOut => {}
            Received::Nothing => return,
        }
    }
}

/// Calls `advance` at each deadline until there is none.
fn run_out(way: &mut Direction<Out>, port: &mut List, from: Instant) -> Instant {
    let mut now = from;
    for _ in 0..1_000_000 {
        let Some(at) = way.deadline(now) else { return now };
        now = now.max(at);
        way.advance_to(now, port).unwrap();
    }
    panic!("the events do not end");
}

const GIGABIT: Rate = Rate(125_000_000);

#[test]
fn a_frame_takes_its_time_on_the_wire() {
    let mut way = direction("rate=1gbit,completion=immediate", 1 << 20);
    assert_eq!(way.wire().unwrap().config().rate, GIGABIT);
    let mut port = List::default();
    port.incoming.push_back(udp(0, 1, 1514));
    feed(&mut way, Instant(1_000), &mut port);
    // 1514 + 24 bytes are 12 304 ns.
    assert_eq!(way.deadline(Instant(1_000)), Some(Instant(13_304)));
    way.advance_to(Instant(13_303), &mut port).unwrap();
    assert_eq!(port.sent.len(), 0);
    way.advance_to(Instant(13_304), &mut port).unwrap();
    assert_eq!(port.sent, [udp(0, 1, 1514)]);
    assert_eq!(run_out(&mut way, &mut port, Instant(13_304)), Instant(13_304));
}

/// The same frames arrive at the same times; between arrivals one loop is punctual and the other is
/// late or silent.
#[test]
fn a_late_loop_changes_nothing_but_when_frames_leave() {
    for (kind, queues) in [("pfifo_fast", 1), ("fq_codel", 1), ("mq", 3), ("fq_codel", 3)] {
        let (mut prompt, mut late) =
            (of_queues(queues, Some("rate=100mbit")), of_queues(queues, Some("rate=100mbit")));
        let (mut p, mut l) = (List::default(), List::default());
        graft(&mut prompt, Instant::ZERO, "root", kind, &[]);
        graft(&mut late, Instant::ZERO, "root", kind, &[]);
        for queue in 1..=if kind == "mq" { 3 } else { 0 } {
            // One of them shapes, so that there is a timer beside the others.
            let options: &[&str] =
                if queue == 2 { &["rate", "20mbit", "burst", "9000", "limit", "90000"] } else { &[] };
            let kind = if queue == 2 { "tbf" } else { "fq_codel" };
            graft(&mut prompt, Instant::ZERO, &format!("1:{queue}"), kind, options);
            graft(&mut late, Instant::ZERO, &format!("1:{queue}"), kind, options);
        }
        let mut seed = 1u64;
        for burst in 0..600u64 {
            let now = Instant(burst * 3_000_000);
            while let Some(at) = prompt.deadline(Instant(0)).filter(|at| *at < now) {
                prompt.advance_to(at, &mut p).unwrap();
            }
            // Overload for a while, then idleness, so that the byte limit rises and falls.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(burst);
            let frames = if burst % 200 < 100 { seed >> 58 } else { 0 };
            for i in 0..frames {
                let frame = if i % 5 == 0 {
                    super_frame(&vec![burst as u8; 30_000], 1448)
                } else {
                    udp(if i % 7 == 0 { 0x10 } else { 0 }, i as u16, 60 + (seed >> i) as usize % 1400)
                };
                p.incoming.push_back(frame.clone());
                l.incoming.push_back(frame);
            }
            feed(&mut prompt, now, &mut p);
            feed(&mut late, now, &mut l);
        }
        run_out(&mut prompt, &mut p, Instant(1_800_000_000));
        late.advance_to(Instant(1 << 40), &mut l).unwrap();
        assert!(p.sent.len() > 1000 && p.sent == l.sent, "{kind}");
        let (mut a, mut b) = (prompt.stats(), late.stats());
        (a.late_max_ns, b.late_max_ns) = (0, 0);
        assert_eq!(a, b);
        let limits = [&prompt, &late]
            .map(|way| way.port().paths().iter().map(|path| path.dql().unwrap().stats()).collect::<Vec<_>>());
        assert_eq!(limits[0], limits[1]);
        let moved = limits[0].iter().any(|limit| limit.starved > 0 && limit.shrinks > 0);
        assert!(moved || queues > 1, "{:?}", limits[0]);
        assert_eq!(prompt.port().path_stats(), late.port().path_stats());
    }
}

#[test]
fn the_rate_is_kept_by_a_loop_that_wakes_every_ten_milliseconds() {
    let mut way = direction("rate=1gbit,ring=1024", 256 << 20);
    let mut port = List::default();
    let payload = vec![7; 64_000];
    for tick in 0..100 {
        let now = Instant(tick * 10_000_000);
        way.advance_to(now, &mut port).unwrap();
        // 40 super-frames of 64 kB are 21 ms: more than the wire carries until the next wake-up.
        port.incoming.extend((0..if tick % 2 == 0 { 40 } else { 0 }).map(|_| super_frame(&payload, 1448)));
        feed(&mut way, now, &mut port);
    }
    let before = way.stats();
    way.advance_to(Instant(1_000_000_000), &mut port).unwrap();
    let s = way.stats();
    assert!(s.departed > before.departed);
    // The wire never ran dry but for the frame that the end cut off (64 kB are 0.54 ms).
    assert!((999_400_000..=1_000_000_000).contains(&s.busy_ns), "{}", s.busy_ns);
    assert!(way.path().dql().unwrap().limit() < 400_000, "{}", way.path().dql().unwrap().limit());
}

#[test]
fn what_is_urgent_passes_a_queue_but_not_a_ring() {
    let payload = vec![7; 64_000];
    let position = |spec: &str| {
        let mut way = direction(spec, 256 << 20);
        let mut port = List::default();
        port.incoming.extend((0..100).map(|_| super_frame(&payload, 1448)));
        feed(&mut way, Instant(0), &mut port);
        // After 100 ms of a standing queue a request of low delay comes.
        way.advance_to(Instant(10_000_000), &mut port).unwrap();
        let before = port.sent.len();
        port.incoming.push_back(udp(0x10, 9, 100));
        feed(&mut way, Instant(10_000_000), &mut port);
        run_out(&mut way, &mut port, Instant(10_000_000));
        assert_eq!(port.sent.len(), 101);
        port.sent[before..].iter().position(|(hdr, _)| !hdr.is_gso()).unwrap()
    };
    // 1024 descriptors are some 48 super-frames of 64 kB; the byte limit leaves two or three.
    let (ring, limited) = (position("rate=1gbit,ring=1024,bql=off"), position("rate=1gbit,ring=1024"));
    assert!((44..=50).contains(&ring), "{ring}");
    assert!((1..=4).contains(&limited), "{limited}");
}

#[test]
fn marks_reach_the_bytes_of_those_that_take_them() {
    let mut way = direction("rate=10mbit,bql-max=1", 8 << 20);
    let mut port = List::default();
    root(&mut way, "fq_codel", &["ce_threshold", "1ms"]);
    for tos in [0x02, 0x01, 0x00] {
        port.incoming.extend((0..50).map(|_| udp(tos, 1 + u16::from(tos), 1000)));
    }
    feed(&mut way, Instant(0), &mut port);
    run_out(&mut way, &mut port, Instant(0));
    let mut ce = 0;
    assert_eq!(port.sent.len() as u64 + way.stats().dropped, 150);
    for (_, frame) in &port.sent {
        assert_eq!(ip_sum(frame), 0xffff, "the header checksum is right after marking");
        let (port, ecn) = (u16::from_be_bytes([frame[34], frame[35]]), frame[15] & 3);
        match port {
            1 => assert_eq!(ecn, 0, "not ECN-capable"),
            _ => ce += u64::from(ecn == 3),
        }
    }
    assert!(ce > 90, "{ce}");
    assert_eq!(way.stats().marked, ce);
}

#[test]
fn a_shaper_with_a_small_bucket_gets_pieces() {
    let mut way = direction("rate=1gbit,completion=immediate", 8 << 20);
    let mut port = List::default();
    root(&mut way, "tbf", &["rate", "100mbit", "burst", "5kb", "latency", "50ms"]);
    let payload: Vec<u8> = (0..40_000u32).map(|i| (i / 7) as u8).collect();
    port.incoming.push_back(super_frame(&payload, 1448));
    feed(&mut way, Instant(0), &mut port);
    let end = run_out(&mut way, &mut port, Instant(0));
    let s = way.stats();
    assert_eq!((s.received, s.cut, s.pieces, s.delivered, s.dropped), (1, 1, 28, 28, 0));
    let joined: Vec<u8> = port.sent.iter().flat_map(|(_, f)| f[54..].to_vec()).collect();
    assert!(
        joined == payload && port.sent.iter().all(|(hdr, f)| *hdr == VnetHdr::default() && f.len() <= 1502)
    );
    // 41 512 bytes less a bucket of 5 kB at 100 Mbit/s are 2.91 ms.
    assert!((2_910_000..3_000_000).contains(&end.0), "{}", end.0);
}

#[test]
fn what_cannot_be_forwarded_is_counted_and_nothing_is_lost_track_of() {
    let mut way = direction("rate=10mbit,ring=64", 40 * MAX_FRAME);
    let mut port = List::default();
    let (hdr, bytes) = super_frame(&[7; 60_000], 1448);
    port.incoming.push_back((VnetHdr { gso: Gso::TcpV6, ..hdr }, bytes.clone()));
    port.incoming.push_back((VnetHdr { gso: Gso::Other(3), ..hdr }, bytes.clone()));
    port.incoming.push_back((VnetHdr { gso_size: 0, ..hdr }, bytes.clone()));
    port.incoming.push_back((hdr, bytes[..40].to_vec()));
    port.incoming.push_back((VnetHdr::default(), vec![0; 3]));
    port.incoming.extend((0..60).map(|_| (hdr, bytes.clone())));
    feed(&mut way, Instant(0), &mut port);
    let s = way.stats();
    assert_eq!(s.malformed, 4);
    // Forty buffers, one of which is where the next frame lands, and less than one for the frame of
    // three bytes.
    assert_eq!((s.received, s.no_memory), (1 + 38, 60 - 38));
    root(&mut way, "pfifo", &["limit", "10"]); // drops the waiting frames
    run_out(&mut way, &mut port, Instant(0));
    port.incoming.extend((0..30).map(|_| (hdr, bytes.clone())));
    feed(&mut way, Instant(10_000_000_000), &mut port);
    run_out(&mut way, &mut port, Instant(10_000_000_000));
    let s = way.stats();
    assert_eq!(s.received, 39 + 30);
    assert_eq!(s.received, s.dropped + s.delivered);
    assert!(s.dropped > 30 && s.delivered > 10, "{s:?}");
    assert_eq!((s.departed, s.lost), (s.delivered, 0));
}

#[test]
fn a_full_output_holds_frames_and_then_loses_them() {
    let mut way = direction("rate=1gbit,descriptors=1", 8 << 20);
    let mut port = List { full: true, ..List::default() };
    port.incoming.extend((0..300).map(|i| udp(0, i, 100)));
    port.incoming.push_back(udp(0, 1, 61)); // the port refuses this one
    feed(&mut way, Instant(0), &mut port);
    run_out(&mut way, &mut port, Instant(0));
    assert!(way.waits_for_device());
    assert_eq!((way.stats().departed, way.stats().lost, way.stats().delivered), (301, 301 - 256, 0));
    port.full = false;
    way.advance_to(Instant(1_000_000_000), &mut port).unwrap();
    assert!(!way.waits_for_device());
    assert_eq!((way.stats().lost, way.stats().delivered), (45, 256));
    port.incoming.push_back(udp(0, 1, 61));
    feed(&mut way, Instant(1_000_000_000), &mut port);
    run_out(&mut way, &mut port, Instant(1_000_000_000));
    assert_eq!((way.stats().lost, way.stats().delivered), (46, 256));
    // In order, and no frame twice: the first 256 are of flow 0, 1, 2...
    let order: Vec<_> = port.sent.iter().take(256).map(|(_, f)| u16::from_be_bytes([f[34], f[35]])).collect();
    assert_eq!(order, (0..256).collect::<Vec<_>>());
}

#[test]
fn an_output_that_is_full_for_a_moment_changes_no_order() {
    let mut way = direction("rate=1gbit,descriptors=1", 8 << 20);
    let mut port = List { full_for: 1, ..List::default() };
    port.incoming.extend((0..10).map(|i| udp(0, i, 100)));
    feed(&mut way, Instant(0), &mut port);
    way.advance_to(Instant(1_000_000), &mut port).unwrap();
    way.advance_to(Instant(2_000_000), &mut port).unwrap();
    let order: Vec<_> = port.sent.iter().map(|(_, f)| u16::from_be_bytes([f[34], f[35]])).collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_busy_wire_wakes_its_loop_less_often_than_it_sends() {
    let mut way = direction("rate=1gbit,bql=off", 8 << 20);
    let mut port = List::default();
    port.incoming.extend((0..100).map(|i| udp(0, i, 100)));
    feed(&mut way, Instant(0), &mut port);
    // A frame is sent every 0.992 us, and one wake-up processes fifty of them.
    assert_eq!(way.deadline(Instant(0)), Some(Instant(50_000)));
    way.advance_to(Instant(50_000), &mut port).unwrap();
    assert_eq!(port.sent.len(), 50);
    way.advance_to(Instant(98_999), &mut port).unwrap();
    // The last frame is not delayed: 100 times 124 bytes are 99.2 us.
    assert_eq!((port.sent.len(), way.deadline(Instant(98_999))), (99, Some(Instant(99_200))));
}

#[test]
fn an_output_that_is_gone_is_an_error() {
    let mut way = direction("rate=1gbit", 1 << 20);
    let mut port = List { gone: true, ..List::default() };
    port.incoming.push_back(udp(0, 1, 100));
    feed(&mut way, Instant(0), &mut port);
    let late = Instant(0) + Nanos::from_millis(1);
    assert_eq!(way.advance_to(late, &mut port).unwrap_err().to_string(), "gone");
}

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
    let limit = way.path().dql().unwrap().limit();
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
    // 1000 bytes a millisecond, the first at once.
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
    // A change to prio: interactive packets first, each band in order.
    let (_, done) = way.control(Instant(1)).swap(|qdiscs| {
        qdiscs.replace(Handle::ROOT, Some(Handle::new(1, 0)), "prio", &mut Words::new(&[])).unwrap();
    });
    assert_eq!(done, Swapped { moved: tally(100), ..Swapped::default() });
    // The same tree again: no packet moves.
    let (_, done) = way.control(Instant(2)).swap(|_| {});
    assert_eq!(done, Swapped { kept: tally(100), ..Swapped::default() });
    // One band gets little room.
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

fn of_queues(queues: u16, spec: Option<&str>) -> Direction<Out> {
    let (wire, bql) = match spec.map(|spec| spec.parse::<WireSpec>().unwrap()) {
        Some(WireSpec { wire, bql }) => (Some(wire), bql),
        None => (None, None),
    };
    let env = Env { queues, ..Env::default() };
    Direction::new(DirectionConfig { wire, bql, env, packets: 4096 }, Out::new(64 << 20)).unwrap()
}

fn graft(way: &mut Direction<Out>, now: Instant, parent: &str, kind: &str, options: &[&str]) {
    let parent: Handle = parent.parse().unwrap();
    let handle = (parent == Handle::ROOT).then(|| Handle::new(1, 0));
    way.control(now).change(|q| q.replace(parent, handle, kind, &mut Words::new(options))).unwrap();
}

/// Returns the flow of a frame that `udp` made, and its sender's number.
fn flow_of((_, frame): &(VnetHdr, Vec<u8>)) -> (u16, u32) {
    (u16::from_be_bytes([frame[34], frame[35]]), u32::from_be_bytes(frame[42..46].try_into().unwrap()))
}

fn numbered(flow: u16, n: u32, len: usize) -> (VnetHdr, Vec<u8>) {
    let (hdr, mut frame) = udp(0, flow, len);
    frame[42..46].copy_from_slice(&n.to_be_bytes());
    (hdr, frame)
}

/// Queues and roots come and go while packets flow: no packet is lost, and every flow keeps its
/// order.
#[test]
fn flows_keep_their_order_whatever_happens_to_the_queues() {
    const ROOTS: [(&str, &[&str]); 4] = [
        ("mq", &[]),
        ("mqprio", &["num_tc", "2", "map", "0", "1", "queues", "1@0", "1@1", "hw", "1"]),
        ("pfifo", &["limit", "4000"]),
        ("multiq", &[]),
    ];
    let specs = [Some("rate=100mbit,ring=16,descriptors=1"), Some("rate=50mbit,ring=64,bql=off"), None];
    for spec in specs {
        let mut way = of_queues(4, spec);
        let mut port = List::default();
        let (mut now, mut given, mut seed) = (0, [0u32; 24], 7u64);
        let (mut refused, mut several) = (0, 0);
        for step in 0..600 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = seed >> 40;
            // A passage is full for a while, so that packets wait.
            port.full = spec.is_none() && step % 40 < 30;
            for i in 0..draw % 5 {
                let flow = (draw / 5 + i * 7) % 24;
                port.incoming.push_back(numbered(flow as u16, given[flow as usize], 1000));
                given[flow as usize] += 1;
            }
            now += 150_000;
            feed(&mut way, Instant(now), &mut port);
            match step % 30 {
                10 => {
                    refused += u32::from(way.control(Instant(now)).set_queues(1 + (draw % 8) as u16).is_err())
                }
                20 => {
                    let (kind, options) = ROOTS[draw as usize % 4];
                    let done = way.control(Instant(now)).swap(|q| {
                        q.replace(
                            Handle::ROOT,
                            Some(Handle::new(1 + step as u16, 0)),
                            kind,
                            &mut Words::new(options),
                        )
                    });
                    refused += u32::from(done.0.is_err());
                }
                _ => {}
            }
            several += u32::from(way.port().paths().iter().filter(|p| p.backlog().packets > 0).count() > 1);
            way.advance_to(Instant(now), &mut port).unwrap();
        }
        port.full = false;
        way.advance_to(Instant(now + 1), &mut port).unwrap();
        run_out(&mut way, &mut port, Instant(now + 1));
        let mut seen = [0u32; 24];
        for frame in &port.sent {
            let (flow, n) = flow_of(frame);
            assert_eq!(n, seen[usize::from(flow)], "{spec:?}: flow {flow}");
            seen[usize::from(flow)] += 1;
        }
        assert_eq!((seen, way.stats().dropped), (given, 0), "{spec:?}");
        assert!(
            refused < 20 && several > 50 && way.port().stats().moved > 200,
            "{refused} {several} {:?}",
            way.port().stats()
        );
        assert_eq!((way.port().backlog().packets, way.in_flight(), way.port().in_flight()), (0, 0, 0));
    }
}

/// Queues of a device without a model take turns, frame by frame, when its doorbell is rung. Frames
/// that a full device has stay with it, at most 64 of each queue.
#[test]
fn the_queues_of_a_device_take_turns() {
    let mut way = of_queues(2, None);
    let mut port = List::default();
    // Two ports whose flows go to different queues.
    let queue_of = |way: &mut Direction<Out>, flow: u16| {
        let mut alone = List::default();
        alone.incoming.push_back(numbered(flow, 0, 100));
        let before = way.port().paths()[1].stats().tx_packets;
        feed(way, Instant(0), &mut alone);
        way.advance_to(Instant(0), &mut alone).unwrap();
        way.port().paths()[1].stats().tx_packets - before
    };
    let one = (0..).find(|flow| queue_of(&mut way, *flow) == 0).unwrap();
    let other = (0..).find(|flow| queue_of(&mut way, *flow) == 1).unwrap();
    let come = |port: &mut List, packets: u32| {
        for flow in [one, other] {
            port.incoming.extend((0..packets).map(|n| numbered(flow, n, 100)));
        }
    };
    let turns = |frames: usize| [one, other].into_iter().cycle().take(frames).collect::<Vec<u16>>();
    come(&mut port, 30);
    feed(&mut way, Instant(1), &mut port);
    way.advance_to(Instant(1), &mut port).unwrap();
    let flows: Vec<u16> = port.sent.drain(..).map(|f| flow_of(&f).0).collect();
    assert_eq!(flows, turns(60));
    // While the device is full, 64 frames of each queue are on their way to it, and the others
    // wait.
    port.full = true;
    come(&mut port, 100);
    feed(&mut way, Instant(1), &mut port);
    let waits = way.port().paths().iter().map(|p| p.backlog().packets).collect::<Vec<_>>();
    assert_eq!((waits, way.in_flight()), (vec![36, 36], 12_800));
    port.full = false;
    way.advance_to(Instant(2), &mut port).unwrap();
    run_out(&mut way, &mut port, Instant(2));
    let flows: Vec<u16> = port.sent.iter().map(|f| flow_of(f).0).collect();
    // The 64 frames that the device had leave first; then the queues take turns while both have
    // frames.
    assert_eq!((&flows[..64], flows.len()), (&vec![one; 64][..], 200));
    let shared: Vec<u16> = flows[64..136].to_vec();
    assert!(shared == turns(72) || shared == [turns(73)[1..].to_vec()].concat(), "{shared:?}");
    assert!(flows[136..].iter().all(|flow| *flow == other));
}

/// A shaper below mq takes a super-frame only in pieces, and a swap cuts waiting super-frames.
#[test]
fn super_frames_are_cut_on_the_path_of_their_queue() {
    let mut way = of_queues(2, Some("rate=10mbit,ring=64"));
    graft(&mut way, Instant(0), "root", "mq", &[]);
    let mut port = List::default();
    let payload = vec![7; 14_480];
    port.incoming.extend((0..6).map(|_| super_frame(&payload, 1448)));
    feed(&mut way, Instant(0), &mut port);
    let (waits, stats) = (way.port().backlog().packets, way.stats());
    assert!(waits >= 4 && stats.cut == 0, "{waits} {stats:?}");
    for parent in ["1:1", "1:2"] {
        let (done, swapped) = way.control(Instant(1)).swap(|q| {
            let words = ["rate", "8mbit", "burst", "3000", "limit", "1mb"];
            q.replace(parent.parse().unwrap(), None, "tbf", &mut Words::new(&words))
        });
        done.unwrap();
        assert!(swapped.cut == 0 || swapped.cut == waits, "{swapped:?}");
    }
    assert_eq!((way.stats().cut, way.stats().pieces), (waits, 10 * waits));
    port.incoming.push_back(super_frame(&payload, 1448));
    feed(&mut way, Instant(2), &mut port);
    assert_eq!((way.stats().cut, way.stats().pieces), (waits + 1, 10 * (waits + 1)));
    run_out(&mut way, &mut port, Instant(2));
    assert_eq!(port.sent.len() as u64, (6 - waits) + 10 * (waits + 1));
    assert_eq!((way.stats().dropped, way.port().backlog().packets), (0, 0));
}

/// Counts the bits in which two frames of one length differ.
fn wrong_bits(a: &[u8], b: &[u8]) -> u32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Returns `n` frames of different lengths and bytes.
fn frames(n: u8) -> Vec<(VnetHdr, Vec<u8>)> {
    let frame = |i: u8| {
        let (hdr, mut bytes) = udp(0, i.into(), 100 + 70 * usize::from(i));
        bytes[50..].fill(i);
        (hdr, bytes)
    };
    (1..=n).map(frame).collect()
}

#[test]
fn a_copy_is_a_frame_of_its_own() {
    let mut way = direction("rate=1gbit,completion=immediate", 1 << 20);
    root(&mut way, "netem", &["delay", "1ms", "duplicate", "100%"]);
    let sent = frames(9);
    let mut port = List { incoming: sent.clone().into(), ..List::default() };
    feed(&mut way, Instant::ZERO, &mut port);
    run_out(&mut way, &mut port, Instant::ZERO);
    // Each frame leaves twice, byte for byte.
    let mut left = port.sent.clone();
    left.sort_by_key(|(_, bytes)| bytes.len());
    let twice: Vec<_> = sent.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
    assert_eq!(left, twice);
    let (path, stats) = (way.path().stats(), way.stats());
    assert_eq!((path.copies, path.uncopied, path.queued), (9, 0, 9));
    assert_eq!((stats.received, stats.departed, stats.delivered, stats.dropped), (9, 18, 18, 0));
}

#[test]
fn a_corrupted_frame_has_one_wrong_bit() {
    let mut way = direction("rate=1gbit,completion=immediate", 1 << 20);
    root(&mut way, "netem", &["delay", "1ms", "corrupt", "100%"]);
    let sent = frames(9);
    let mut port = List { incoming: sent.clone().into(), ..List::default() };
    feed(&mut way, Instant::ZERO, &mut port);
    run_out(&mut way, &mut port, Instant::ZERO);
    let mut left = port.sent.clone();
    left.sort_by_key(|(_, bytes)| bytes.len());
    assert_eq!(left.len(), 9);
    for ((_, sent), (_, left)) in sent.iter().zip(&left) {
        assert_eq!(wrong_bits(sent, left), 1);
    }
    let path = way.path().stats();
    assert_eq!((path.copies, path.uncopied, path.queued), (0, 0, 9));
}

/// A wrong bit in one of two equal frames is not in the other: frames of any size share no buffer.
#[test]
fn what_happens_to_a_copy_does_not_happen_to_its_original() {
    let mut way = direction("rate=1gbit,completion=immediate", 1 << 20);
    root(&mut way, "netem", &["delay", "1ms", "duplicate", "100%", "corrupt", "50%"]);
    let sent = frames(20);
    let mut port = List { incoming: sent.clone().into(), ..List::default() };
    feed(&mut way, Instant::ZERO, &mut port);
    run_out(&mut way, &mut port, Instant::ZERO);
    let mut one_of_two = 0;
    for (_, bytes) in &sent {
        let twins: Vec<u32> = port
            .sent
            .iter()
            .filter(|(_, b)| b.len() == bytes.len())
            .map(|(_, b)| wrong_bits(bytes, b))
            .collect();
        assert!(twins.len() == 2 && twins.iter().all(|bits| *bits <= 1), "{twins:?}");
        one_of_two += u32::from(twins[0] != twins[1]);
    }
    assert!((3..=17).contains(&one_of_two), "{one_of_two} of 20");
}

/// Without room for a second frame there is no copy, and the missing copy is counted.
#[test]
fn a_copy_that_has_no_room_is_counted() {
    // The smallest possible budget: the receive buffer, and as much again.
    let mut way = direction("rate=1gbit,completion=immediate", 0);
    root(&mut way, "netem", &["delay", "1ms", "duplicate", "100%"]);
    let mut port = List { incoming: vec![udp(0, 1, 40_000)].into(), ..List::default() };
    feed(&mut way, Instant::ZERO, &mut port);
    run_out(&mut way, &mut port, Instant::ZERO);
    assert_eq!(port.sent, [udp(0, 1, 40_000)]);
    let path = way.path().stats();
    assert_eq!((path.copies, path.uncopied, way.stats().delivered), (0, 1, 1));
}

/// After `prio_synack` is switched off, new frames are not marked any more; waiting frames keep
/// their mark.
#[test]
fn control_is_marked_until_that_is_switched_off() {
    let mut way = direction("rate=1mbit,ring=1,descriptors=1,bql=off,completion=immediate", 1 << 20);
    root(&mut way, "rough", &[]);
    assert!(way.classifier().prio_synack());
    let ack = |port: u8| {
        let mut rest = vec![0; 20];
        rest[1] = port;
        rest[12..14].copy_from_slice(&[0x50, 0x10]);
        (VnetHdr::default(), ipv4(0, 6, &rest))
    };
    let mut port = List::default();
    port.incoming.extend([udp(0, 9, 1000), udp(0, 1, 1000), ack(2)]);
    feed(&mut way, Instant::ZERO, &mut port);
    way.classifier_mut().set_prio_synack(false);
    port.incoming.push_back(ack(3));
    feed(&mut way, Instant::ZERO, &mut port);
    way.classifier_mut().set_prio_synack(true);
    port.incoming.push_back(ack(4));
    feed(&mut way, Instant::ZERO, &mut port);
    run_out(&mut way, &mut port, Instant::ZERO);
    let order: Vec<u8> = port.sent.iter().map(|(_, frame)| frame[35]).collect();
    assert_eq!(order, [9, 2, 4, 1, 3]);
}
