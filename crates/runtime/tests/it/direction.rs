//! One direction in virtual time, between ports that are lists.

mod copies;
mod direct;
mod queues;

use txweir_core::text::value::Words;
use txweir_core::{Env, Handle, Instant, Nanos, Rate};
use txweir_device::{Gso, MAX_FRAME, VnetHdr};
use txweir_runtime::{Direction, DirectionConfig, Received, WireSpec};

use crate::list::{List, Out, To as _, direction};

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
pub fn udp(tos: u8, port: u16, len: usize) -> (VnetHdr, Vec<u8>) {
    let mut rest = vec![0; len - 34];
    rest[..2].copy_from_slice(&port.to_be_bytes());
    rest[4..6].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    (VnetHdr::default(), ipv4(tos, 17, &rest))
}

/// Returns a TCP super-frame with this payload.
pub fn super_frame(payload: &[u8], gso_size: u16) -> (VnetHdr, Vec<u8>) {
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

fn of_queues(queues: u16, spec: Option<&str>) -> Direction<Out> {
    let (wire, bql) = match spec.map(|spec| spec.parse::<WireSpec>().unwrap()) {
        Some(WireSpec { wire, bql }) => (Some(wire), bql),
        None => (None, None),
    };
    let env = Env { queues, ..Env::default() };
    Direction::new(
        DirectionConfig { wire, bql, env, packets: 4096, ..DirectionConfig::default() },
        Out::new(64 << 20),
    )
    .unwrap()
}

fn graft(way: &mut Direction<Out>, now: Instant, parent: &str, kind: &str, options: &[&str]) {
    let parent: Handle = parent.parse().unwrap();
    let handle = (parent == Handle::ROOT).then(|| Handle::new(1, 0));
    way.control(now).change(|q| q.replace(parent, handle, kind, &mut Words::new(options))).unwrap();
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

/// A sender that can wait has the frame held for which a packet would be dropped, and goes on once
/// there is room: all frames leave, in order.
#[test]
fn a_frame_is_held_until_the_qdiscs_have_room() {
    let mut way = direction("rate=1gbit,ring=22,bql=off,completion=immediate", 1 << 20);
    root(&mut way, "pfifo", &["limit", "2"]);
    let mut input = List { incoming: (0..60).map(|port| udp(0, port, 1514)).collect(), ..List::default() };
    let (mut now, mut held) = (Instant::ZERO, 0);
    loop {
        while !way.is_holding() {
            let Received::Frame(arrival) = way.receive(&mut input).unwrap() else { break };
            way.admit_or_hold(now, arrival).unwrap();
        }
        let ledger = way.ledger();
        assert_eq!(ledger.sums()[0], ledger.sums()[1], "{ledger:?}");
        held += ledger.waiting;
        let Some(at) = way.deadline(now) else { break };
        now = now.max(at);
        way.advance(now).unwrap();
    }
    assert!(held > 10, "{held}");
    assert_eq!((way.stats().dropped, way.is_holding()), (0, false));
    assert_eq!(way.device_mut().list.sent, (0..60).map(|port| udp(0, port, 1514)).collect::<Vec<_>>());
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
            // Overload and idleness alternate, so that the byte limit rises and falls.
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
        let limits = [&prompt, &late].map(|way| {
            way.port().paths().iter().map(|path| path.tx().limit().unwrap().stats()).collect::<Vec<_>>()
        });
        assert_eq!(limits[0], limits[1]);
        let moved = limits[0].iter().any(|limit| limit.starved > 0 && limit.shrinks > 0);
        assert!(moved || queues > 1, "{:?}", limits[0]);
        assert_eq!(prompt.port().totals().stats(), late.port().totals().stats());
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
    assert!(
        way.path().tx().limit().unwrap().limit() < 400_000,
        "{}",
        way.path().tx().limit().unwrap().limit()
    );
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
