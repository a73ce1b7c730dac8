//! Directions whose device has several queues.

use txweir_core::text::value::Words;
use txweir_core::turns::Quota;
use txweir_core::{Handle, Instant};
use txweir_device::VnetHdr;
use txweir_runtime::{Direction, Received};

use super::{feed, graft, of_queues, run_out, super_frame, udp};
use crate::list::{List, Out, To as _};

/// Returns the flow of a frame that `udp` made, and its sender's number.
fn flow_of((_, frame): &(VnetHdr, Vec<u8>)) -> (u16, u32) {
    (u16::from_be_bytes([frame[34], frame[35]]), u32::from_be_bytes(frame[42..46].try_into().unwrap()))
}

fn numbered(flow: u16, n: u32, len: usize) -> (VnetHdr, Vec<u8>) {
    let (hdr, mut frame) = udp(0, flow, len);
    frame[42..46].copy_from_slice(&n.to_be_bytes());
    (hdr, frame)
}

/// A frame that is held for room stays behind the packets of its flow that wait in the qdiscs,
/// whatever the number of queues by then.
#[test]
fn a_held_frame_keeps_its_place_when_the_queues_change() {
    let mut moved = 0;
    for flow in 0..12 {
        let mut way = of_queues(4, None);
        graft(&mut way, Instant::ZERO, "root", "mq", &[]);
        for queue in 1..=4 {
            graft(&mut way, Instant::ZERO, &format!("1:{queue}"), "pfifo", &["limit", "5"]);
        }
        way.device_mut().list.full = true;
        let mut input =
            List { incoming: (0..400).map(|n| numbered(flow, n, 1000)).collect(), ..List::default() };
        let mut given = 0;
        while !way.is_holding() {
            let Received::Frame(arrival) = way.receive(&mut input).unwrap() else { panic!("none is held") };
            way.admit_or_hold(Instant(1), arrival).unwrap();
            given += 1;
        }
        way.control(Instant(2)).set_queues(2).unwrap();
        moved += way.port().chooser().stats().moved;
        let mut port = List::default();
        for now in 3..100 {
            way.advance_to(Instant(now), &mut port).unwrap();
        }
        run_out(&mut way, &mut port, Instant(100));
        let numbers: Vec<u32> = port.sent.iter().map(|frame| flow_of(frame).1).collect();
        assert_eq!(numbers, (0..given).collect::<Vec<_>>(), "flow {flow}");
    }
    assert!(moved > 0);
}

/// Queues, roots and quotas of flows come and go while packets flow: no packet is lost, and every
/// flow keeps its order.
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
        let (mut refused, mut several, mut gated) = (0, 0, 0);
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
                0 => {
                    let quotas = [Quota::OFF, Quota::segs(1), Quota::segs(3)];
                    way.control(Instant(now)).set_fairsend(quotas[draw as usize % 3]);
                }
                10 => {
                    gated += way.gate().map_or(0, |gate| gate.waiting());
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
            refused < 20 && several > 50 && gated > 10 && way.port().chooser().stats().moved > 200,
            "{refused} {several} {gated} {:?}",
            way.port().chooser().stats()
        );
        assert_eq!(
            (way.port().totals().backlog().packets, way.in_flight(), way.port().flight().packets()),
            (0, 0, 0)
        );
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
    let (waits, stats) = (way.port().totals().backlog().packets, way.stats());
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
    assert_eq!((way.stats().dropped, way.port().totals().backlog().packets), (0, 0));
}
