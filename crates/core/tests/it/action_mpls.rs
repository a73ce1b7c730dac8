//! mpls: lengths, room, super-packets, and any bytes. The frames of Linux are in
//! `spec/actions/mpls.txt`, which the tests of `txweir-tc` read.

use crate::common::action::{Bench, bytes, hex};
use proptest::prelude::*;
use txweir_core::classify::action::mpls::Label;
use txweir_core::classify::action::{Control, Kind, Mpls, Vlan};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::Packet;
use txweir_core::packet::headers::{Headers, L3, ethertype};
use txweir_core::{Instant, Meta};

const MACS: &str = "02ff00000002020000000000";
const IP: &str = "450000251234000040115492 0a000001 0a000002 03e807d00011dead616263646566676869";

fn mpls(mpls: Mpls) -> Bench {
    Bench::new(Kind::Mpls(mpls), Control::Pipe)
}

fn push(label: u32) -> Mpls {
    let label = Label { label: Some(label), ttl: Some(255), ..Label::default() };
    Mpls::Push { label, protocol: ethertype::MPLS }
}

const POP: Mpls = Mpls::Pop { protocol: ethertype::IPV4 };

/// RFC 3032 section 2.1: the label is in the high 20 bits, then the class, the bottom of the stack,
/// the time to live. Labels stand behind VLAN tags, and filters and qdiscs see the new protocol.
#[test]
fn a_label_stands_in_front_of_the_packet() {
    let frame = bytes(&format!("{MACS}8100 2005 0800{IP}"));
    let (_, out, meta) = mpls(push(0xabcde)).frame(&frame);
    assert_eq!(hex(&out), format!("{MACS}8100 2005 8847 abcde1ff{IP}").replace(' ', ""));
    assert_eq!((meta.protocol, meta.len), (ethertype::MPLS, frame.len() as u32 + 4));
    let (_, out, meta) = mpls(POP).frame(&out);
    assert_eq!((out == frame, meta.protocol, meta.len), (true, ethertype::IPV4, frame.len() as u32));
}

/// A packet behind `mac_push` has no link header until one is pushed, and keeps its type through
/// other actions; behind `pop_eth` a pop knows what is there.
#[test]
fn a_frame_in_a_label_has_no_header_of_its_own() {
    let label = Label { label: Some(16), ttl: Some(9), ..Label::default() };
    let mut frame = bytes(&format!("{MACS}0800{IP}"));
    let given = frame.clone();
    let mut meta = Meta::new(frame.len() as u32);
    let headers = Headers::parse_ethernet(&frame);
    let mut packet = Packet::new(&mut frame, &mut meta, headers);
    let mut run = |kind: Kind| {
        let verdict = Bench::new(kind, Control::Pipe).send(&mut packet, Instant::ZERO);
        assert!(matches!(verdict, Verdict::Class(_)));
        (packet.headers.link_len, packet.headers.ethertype, packet.headers.l3, packet.frame.bytes().len())
    };
    let len = given.len();
    let mac_push = Mpls::MacPush { label, protocol: ethertype::MPLS_MULTICAST };
    assert_eq!(run(Kind::Mpls(mac_push)), (0, ethertype::MPLS_MULTICAST, L3::None, len + 4));
    assert_eq!(run(Kind::Mpls(Mpls::DecTtl)), (0, ethertype::MPLS_MULTICAST, L3::None, len + 4));
    let header = Vlan::PushEth { dst: [2, 0, 0, 0, 0, 1], src: [2, 0, 0, 0, 0, 2] };
    assert_eq!(run(Kind::Vlan(header)), (14, ethertype::MPLS_MULTICAST, L3::None, len + 18));
    assert_eq!(run(Kind::Vlan(Vlan::PopEth)), (0, ethertype::MPLS_MULTICAST, L3::None, len + 4));
    let inner = Mpls::Pop { protocol: ethertype::ETHERNET };
    assert_eq!(run(Kind::Mpls(inner)), (14, ethertype::IPV4, L3::Ipv4, len));
    assert_eq!((frame, meta.len as usize), (given, len));
}

#[test]
fn what_cannot_be_done_is_a_drop() {
    let label = Label { tc: Some(1), ..Label::default() };
    for (action, frame) in [
        (Mpls::Modify(label), format!("{MACS}0800{IP}")),
        (Mpls::DecTtl, format!("{MACS}0800{IP}")),
        (Mpls::DecTtl, format!("{MACS}8847 00010101{IP}")),
        (POP, format!("{MACS}8847 000101")),
        (Mpls::Modify(label), format!("{MACS}8847 000101")),
        // A tag without its end: no place for a label is known.
        (push(16), format!("{MACS}8100 00")),
    ] {
        let mut bench = mpls(action);
        assert_eq!(bench.frame(&bytes(&frame)).0, Verdict::Drop, "{action:?}");
        assert_eq!((bench.memory().drops, bench.memory().packets), (1, 1));
    }
}

/// Each segment of a super-packet has the label: four bytes a segment.
#[test]
fn a_super_packet_is_longer_by_a_label_for_each_segment() {
    let mut frame = vec![0; 54 + 10 * 1000];
    let mut meta = Meta::new(frame.len() as u32).gso(54, 1000);
    let headers = Headers::parse_ethernet(&frame);
    mpls(push(16)).send(&mut Packet::new(&mut frame, &mut meta, headers), Instant::ZERO);
    assert_eq!((meta.len, meta.wire_len, meta.header_len), (10_058, 10 * 1058, 58));
}

proptest! {
    /// Any bytes: no panic; a push and a pop of the same type leave the frame as it was; lengths
    /// are kept; a change touches its parts alone.
    #[test]
    fn any_bytes(
        frame in prop::collection::vec(any::<u8>(), 0..60), labelled in any::<bool>(), label in 0..=0xf_ffffu32, tc in 0..8u8,
        ttl in any::<u8>(), bos in any::<bool>(),
    ) {
        let mut frame = frame;
        if labelled && frame.len() > 14 {
            frame[12..14].copy_from_slice(&[0x88, 0x47]);
        }
        let (verdict, longer, meta) = mpls(push(label)).frame(&frame);
        prop_assert_eq!(longer.len(), meta.len as usize);
        let headers = Headers::parse_ethernet(&frame);
        // A length in place of the type comes back as it was.
        let there = frame.get(12..14).map(|raw| u16::from_be_bytes([raw[0], raw[1]]));
        let protocol = there.filter(|length| *length < 0x600).unwrap_or(headers.ethertype);
        if verdict != Verdict::Drop {
            prop_assert_eq!(mpls(Mpls::Pop { protocol }).frame(&longer).1, frame.clone());
        }
        let all = Label { label: Some(label), tc: Some(tc), ttl: Some(ttl), bos: Some(bos) };
        let (verdict, out, _) = mpls(Mpls::Modify(all)).frame(&frame);
        let has_label = headers.ethertype == 0x8847 && headers.l3_offset.is_some_and(|at| usize::from(at) + 4 <= frame.len());
        if has_label && verdict != Verdict::Drop {
            let at = usize::from(headers.l3_offset.unwrap());
            let entry = u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
            prop_assert_eq!(entry, label << 12 | u32::from(tc) << 9 | u32::from(bos) << 8 | u32::from(ttl));
            prop_assert!(out[..at] == frame[..at] && out[at + 4..] == frame[at + 4..]);
        }
        for action in [Mpls::DecTtl, POP, Mpls::MacPush { label: all, protocol: 0x8847 }, Mpls::Modify(Label::default())] {
            let (_, out, meta) = mpls(action).frame(&frame);
            prop_assert_eq!(out.len(), meta.len as usize);
        }
    }
}
