//! ife: counters, lengths, room, super-packets, and any bytes. The frames of Linux are in
//! `spec/actions/ife.txt`, which the tests of `txweir-tc` read.

use crate::common::action::{Bench, Rigid, bytes, hex};
use proptest::prelude::*;
use txweir_core::classify::action::ife::{ETHERTYPE, Use};
use txweir_core::classify::action::{Control, Ife, Kind};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::Packet;
use txweir_core::packet::headers::{Headers, L3, ethertype};
use txweir_core::{Instant, Meta};

const MACS: &str = "02ff00000002020000000000";
const IP: &str = "450000251234000040115492 0a000001 0a000002 03e807d00011dead616263646566676869";
const DECODE: Ife = Ife { encode: false, ethertype: 0, dst: None, src: None, parts: [None; 3] };

fn ife(ife: Ife) -> Bench {
    Bench::new(Kind::Ife(ife), Control::Pipe)
}

fn encode(parts: [Option<Use>; 3]) -> Ife {
    Ife { encode: true, ethertype: ETHERTYPE, dst: None, src: None, parts }
}

fn meta(mark: u32, priority: u32, len: u32) -> Meta {
    let mut meta = Meta::new(len);
    (meta.mark, meta.priority) = (mark, priority);
    meta
}

/// Sends a packet, and returns the verdict, the bytes and the metadata.
fn send(bench: &mut Bench, mut frame: Vec<u8>, mut meta: Meta) -> (Verdict, Vec<u8>, Meta) {
    let headers = Headers::parse_ethernet(&frame);
    let verdict = bench.send(&mut Packet::new(&mut frame, &mut meta, headers), Instant::ZERO);
    (verdict, frame, meta)
}

/// RFC 8013 section 3.1: the length counts itself, a part its type and its length.
#[test]
fn mark_and_priority_come_to_the_next_hop() {
    let frame = bytes(&format!("{MACS}0800{IP}"));
    let len = frame.len() as u32;
    let sent = meta(0x11, 0x1_0003, len);
    let parts = [Some(Use::Allow), Some(Use::Allow), Some(Use::Value(5))];
    let mut first = ife(encode(parts));
    let (_, out, meta) = send(&mut first, frame.clone(), sent);
    let front = "001a 0001 0008 00000011 0003 0008 00010003 0005 0006 0005 0000";
    assert_eq!(hex(&out), format!("{MACS}ed3e{front}{MACS}0800{IP}").replace(' ', ""));
    assert_eq!((meta.len, meta.wire_len, meta.protocol), (len + 40, len + 40, ETHERTYPE));
    let mut second = ife(DECODE);
    let (_, back, meta) = send(&mut second, out, Meta::new(len + 40));
    assert!(back == frame);
    assert_eq!((meta.mark, meta.priority, meta.len), (0x11, 0x1_0003, len));
    assert_eq!(meta.protocol, ethertype::IPV4);
    for bench in [first, second] {
        assert_eq!((bench.memory().drops, bench.memory().overlimits), (0, 0));
    }
}

/// tc-ife(8): the overlimits count, and the packet goes on.
#[test]
fn nothing_to_say_and_unknown_parts_are_overlimits() {
    let frame = bytes(&format!("{MACS}0800{IP}"));
    let mut bench = ife(encode([Some(Use::Allow), None, None]));
    let (verdict, out, _) = bench.frame(&frame);
    assert!(verdict != Verdict::Drop && out == frame);
    assert_eq!((bench.memory().overlimits, bench.memory().drops), (1, 0));
    let mut bench = ife(DECODE);
    let front = "001a 0002 0008 00000011 0001 0008 00000007 0009 0006 0005 0000";
    let (_, out, meta) = bench.frame(&bytes(&format!("{MACS}ed3e{front}{MACS}0800{IP}")));
    assert!(out == frame);
    assert_eq!((meta.mark, bench.memory().overlimits, bench.memory().drops), (7, 2, 0));
}

#[test]
fn a_frame_that_ends_too_early_is_dropped_and_counted() {
    let packet = format!("{MACS}0800{IP}");
    let fronts =
        ["000a 0001 0009 00000011", "000a 0001 0003 00000011", "0000", "0001", "0004 0001", "ffff 0001 0008"];
    let cut = "000a 0001 0008 00000011 02ff00000002020000000000 08".to_string();
    for front in fronts.map(|front| format!("{front}{packet}")).into_iter().chain([cut, String::new()]) {
        let mut bench = ife(DECODE);
        let frame = bytes(&format!("{MACS}ed3e{front}"));
        let (verdict, out, meta) = bench.frame(&frame);
        assert_eq!((verdict, out == frame, meta.mark), (Verdict::Drop, true, 0), "{front}");
        assert_eq!((bench.memory().drops, bench.memory().packets), (1, 1));
    }
}

/// Row ife-mtu.
#[test]
fn a_frame_without_room_is_dropped_and_counted() {
    let given = bytes(&format!("{MACS}0800{IP}"));
    let mut frame = Rigid(given.clone(), None);
    let mut meta = Meta::new(given.len() as u32);
    let headers = Headers::parse_ethernet(&given);
    let mut bench = ife(encode([Some(Use::Value(1)), None, None]));
    let verdict = bench.send(&mut Packet::new(&mut frame, &mut meta, headers), Instant::ZERO);
    assert_eq!((verdict, frame.0 == given, meta.len as usize), (Verdict::Drop, true, given.len()));
    assert_eq!(bench.memory().drops, 1);
}

/// Each segment of a super-packet has the front.
#[test]
fn a_super_packet_is_longer_by_the_front_for_each_segment() {
    let frame = vec![0; 54 + 10 * 1000];
    let meta = Meta::new(frame.len() as u32).gso(54, 1000);
    let (_, _, meta) = send(&mut ife(encode([Some(Use::Value(1)), None, None])), frame, meta);
    assert_eq!((meta.len, meta.wire_len, meta.header_len), (10_078, 10 * 1078, 78));
}

proptest! {
    /// Any bytes: no panic; `decode` takes off what `encode` put in front, and sets the parts;
    /// lengths are kept; a dropped frame is as it was.
    #[test]
    fn any_bytes(
        frame in prop::collection::vec(any::<u8>(), 0..80), mark in any::<u32>(), priority in any::<u32>(),
        index in prop::option::of(1..=u32::from(u16::MAX)), own in prop::option::of(any::<[u8; 6]>()),
    ) {
        let parts = [Some(Use::Allow), Some(Use::Allow), index.map(Use::Value)];
        let action = Ife { dst: own, src: own, ..encode(parts) };
        let sent = meta(mark, priority, frame.len() as u32);
        let (verdict, out, meta) = send(&mut ife(action), frame.clone(), sent);
        prop_assert_eq!(out.len(), meta.len as usize);
        if verdict == Verdict::Drop {
            prop_assert!(out == frame && frame.len() < 14);
        } else if out != frame {
            let parts = [mark != 0, priority != 0, index.is_some()];
            prop_assert_eq!(out.len(), frame.len() + 16 + 8 * parts.iter().filter(|is| **is).count());
            if let Some(mac) = own {
                prop_assert!(out[..6] == mac && out[6..12] == mac);
            }
            let (_, back, meta) = send(&mut ife(DECODE), out, Meta::new(meta.len));
            prop_assert!(back == frame);
            prop_assert_eq!((meta.mark, meta.priority), (mark, priority));
            prop_assert_eq!(meta.len as usize, back.len());
        } else {
            prop_assert!(mark == 0 && priority == 0 && index.is_none());
        }
        let (verdict, out, meta) = ife(DECODE).frame(&frame);
        prop_assert_eq!(out.len(), meta.len as usize);
        prop_assert!(verdict != Verdict::Drop || (out == frame && meta.mark == 0));
        if frame.len() >= 34 {
            let mut metadata = frame;
            metadata[14] = 0;
            metadata[15] %= 32;
            let (_, out, meta) = ife(DECODE).frame(&metadata);
            prop_assert_eq!(out.len(), meta.len as usize);
            prop_assert!(Headers::parse_ethernet(&out).l3 != L3::Ipv4 || out.len() >= 14);
        }
    }
}
