//! vlan and skbmod: frames as Linux 6.12 left them, room, and lengths.

use crate::common::action::{Bench, bytes, hex, sums};
use proptest::prelude::*;
use txweir_core::classify::action::{Control, Kind, Skbmod, Vlan};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::{FrameBytes, Packet, PortId, Way};
use txweir_core::packet::headers::{Headers, ethertype};
use txweir_core::{Ecn, Instant, Meta};

const MACS: &str = "02ff00000002020000000000";
const IP: &str = "450000251234000040115492 0a000001 0a000002 03e807d00011dead616263646566676869";

fn vlan(vlan: Vlan) -> Bench {
    Bench::new(Kind::Vlan(vlan), Control::Pipe)
}

fn skbmod(skbmod: Skbmod) -> Bench {
    Bench::new(Kind::Skbmod(skbmod), Control::Pipe)
}

#[track_caller]
fn becomes(mut bench: Bench, from: &str, to: &str) {
    let whole = |tail: &str| format!("{MACS}{tail}{IP}").replace(' ', "");
    assert_eq!(bench.passes(&whole(from)), whole(to));
}

/// The bytes between the addresses and the packet, before and after (oracle).
#[test]
fn tags_come_and_go_as_in_linux() {
    let push = |protocol, priority| vlan(Vlan::Push { id: 5, protocol, priority });
    becomes(push(0x8100, 3), "0800", "8100 6005 0800");
    becomes(push(0x8100, 3), "8100 2005 0800", "8100 6005 8100 2005 0800");
    becomes(push(0x88a8, 0), "8100 2005 0800", "88a8 0005 8100 2005 0800");
    becomes(vlan(Vlan::Pop), "0800", "0800");
    becomes(vlan(Vlan::Pop), "8100 2005 0800", "0800");
    becomes(vlan(Vlan::Pop), "88a8 2006 8100 2005 0800", "8100 2005 0800");
    let modify = |protocol, priority| vlan(Vlan::Modify { id: 9, protocol, priority });
    becomes(modify(0x8100, None), "0800", "0800");
    becomes(modify(0x8100, None), "8100 2005 0800", "8100 2009 0800");
    becomes(modify(0x8100, None), "88a8 2006 8100 2005 0800", "8100 2009 8100 2005 0800");
    becomes(modify(0x88a8, Some(7)), "8100 3005 0800", "88a8 f009 0800");
}

#[test]
fn an_ethernet_header_comes_and_goes() {
    let frame = bytes(&format!("{MACS}0800{IP}"));
    let (verdict, out, meta) = vlan(Vlan::PopEth).frame(&frame);
    assert!(matches!(verdict, Verdict::Class(_)));
    assert_eq!((hex(&out), meta.len, meta.protocol), (IP.replace(' ', ""), 37, ethertype::IPV4));
    // The tag is put back on, and the frame is read as the packet that it is.
    let mut bare = out;
    let mut meta = Meta::new(37);
    let headers = Headers::parse_ip(&bare);
    let mut packet = Packet::new(&mut bare, &mut meta, headers);
    let push = Vlan::PushEth { dst: [2, 0, 0, 0, 0, 0xaa], src: [2, 0, 0, 0, 0, 0xbb] };
    assert!(matches!(vlan(push).send(&mut packet, Instant::ZERO), Verdict::Class(_)));
    assert_eq!((packet.headers.link_len, packet.headers.dst_port, packet.meta.len), (14, 2000, 51));
    assert_eq!(hex(&bare), format!("0200000000aa0200000000bb0800{IP}").replace(' ', ""));
    // The frame has a tag already; tags would be left; the frame ends in its tag.
    let tagged = format!("{MACS}810020050800{IP}");
    for (action, frame) in [
        (push, format!("{MACS}0800{IP}")),
        (Vlan::PopEth, tagged),
        (Vlan::Pop, format!("{MACS}81000005")),
        (Vlan::Pop, format!("{MACS}8100000508")),
        (Vlan::Modify { id: 1, protocol: 0x8100, priority: None }, format!("{MACS}81000005")),
        (Vlan::Push { id: 1, protocol: 0x8100, priority: 0 }, MACS.into()),
    ] {
        let mut bench = vlan(action);
        assert_eq!(bench.frame(&bytes(&frame)).0, Verdict::Drop, "{action:?}");
        assert_eq!(bench.memory().drops, 1);
    }
}

/// Bytes in a buffer of fixed size.
struct Fixed {
    bytes: [u8; 64],
    len: usize,
}

impl FrameBytes for Fixed {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let room = at <= self.len && self.len + bytes.len() <= 64;
        if room {
            self.bytes.copy_within(at..self.len, at + bytes.len());
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
        room
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let there = at + len <= self.len;
        if there {
            self.bytes.copy_within(at + len..self.len, at);
            self.len -= len;
        }
        there
    }
}

#[test]
fn a_tag_without_room_is_a_drop() {
    let mut bench = vlan(Vlan::Push { id: 1, protocol: 0x8100, priority: 0 });
    let mut frame = Fixed { bytes: [0; 64], len: 60 };
    for (dropped, len) in [(false, 64), (true, 64)] {
        let mut meta = Meta::new(frame.len as u32);
        let headers = Headers::parse_ethernet(frame.bytes());
        let verdict = bench.send(&mut Packet::new(&mut frame, &mut meta, headers), Instant::ZERO);
        assert_eq!((verdict == Verdict::Drop, frame.len, meta.len), (dropped, len, 64));
    }
    assert_eq!(bench.memory().drops, 1);
}

/// Each segment of a super-packet has the tag: four bytes a segment.
#[test]
fn a_super_packet_is_longer_by_a_tag_for_each_segment() {
    let mut frame = vec![0; 54 + 10 * 1000];
    let mut meta = Meta::new(frame.len() as u32).gso(54, 1000);
    let headers = Headers::parse_ethernet(&frame);
    let mut bench = vlan(Vlan::Push { id: 1, protocol: 0x8100, priority: 0 });
    bench.send(&mut Packet::new(&mut frame, &mut meta, headers), Instant::ZERO);
    assert_eq!((meta.len, meta.wire_len, meta.header_len), (10_058, 10 * 1058, 58));
}

#[test]
fn addresses_and_type_are_set_and_swapped_as_in_linux() {
    let (dmac, smac) = (Some([2, 0, 0, 0, 0, 0xaa]), Some([2, 0, 0, 0, 0, 0xbb]));
    let frame = format!("{MACS}0800{IP}").replace(' ', "");
    let set = Skbmod { dmac, smac, etype: Some(0x88b6), ..Skbmod::default() };
    assert_eq!(skbmod(set).passes(&frame), format!("0200000000aa0200000000bb88b6{IP}").replace(' ', ""));
    let swap = Skbmod { swap: true, ..Skbmod::default() };
    assert_eq!(skbmod(swap).passes(&frame), format!("02000000000002ff000000020800{IP}").replace(' ', ""));
    let both = Skbmod { dmac, swap: true, ..Skbmod::default() };
    assert_eq!(skbmod(both).passes(&frame), format!("0200000000000200000000aa0800{IP}").replace(' ', ""));
    assert_eq!(skbmod(set).passes("0102"), "0102");
}

/// Linux takes the tag off a frame that arrives: the type in the link header is the one behind it.
#[test]
fn the_type_behind_a_tag_that_is_off_is_set() {
    let tagged = |first: &str, second: &str| format!("{MACS}{first}2005{second}{IP}").replace(' ', "");
    let etype = || skbmod(Skbmod { etype: Some(0x88b6), ..Skbmod::default() });
    for (way, left) in [(Way::Ingress, tagged("8100", "88b6")), (Way::Egress, tagged("88b6", "0800"))] {
        let mut frame = bytes(&tagged("8100", "0800"));
        let mut meta = Meta::new(u32::try_from(frame.len()).unwrap());
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
        assert!(matches!(etype().send(&mut packet, Instant::ZERO), Verdict::Class(_)));
        assert_eq!(hex(&frame), left, "{way:?}");
    }
}

#[test]
fn who_takes_marks_is_marked() {
    let ecn = || skbmod(Skbmod { ecn: true, ..Skbmod::default() });
    for (tos, sum, marked, new) in [
        ("01", "beef", "03", "beed"),
        ("02", "beef", "03", "beee"),
        ("00", "beef", "00", "beef"),
        ("fd", "5395", "ff", "5393"),
    ] {
        let frame = |tos: &str, sum: &str| {
            format!(
                "{MACS}080045{tos}00251234 00004011{sum} 0a000001 0a000002 03e807d00011dead616263646566676869"
            )
        };
        let (_, out, meta) = ecn().frame(&bytes(&frame(tos, sum)));
        assert_eq!(hex(&out), frame(marked, new).replace(' ', ""));
        assert_eq!(meta.ecn == Ecn::Ce, marked != "00");
    }
    let v6 = |class: &str| format!("{MACS}86dd{class}0000000000 3b40 {}", "fd".repeat(32));
    assert_eq!(ecn().passes(&v6("6020")), v6("6030").replace(' ', ""));
    // Parity: behind a tag in the bytes as well.
    let tagged =
        |tos: &str, sum: &str| format!("{MACS}810000050800 45{tos}0014 12340000 4011{sum} 0a000001 0a000002");
    let out = bytes(&ecn().passes(&tagged("02", "54a1")));
    assert!(out[19] == 3 && sums(&[&out[18..38]]));
}

proptest! {
    /// Any bytes: no panic; pushing and popping a tag leaves the frame as it was; lengths are kept.
    #[test]
    fn any_bytes(
        frame in prop::collection::vec(any::<u8>(), 0..90), tag in any::<bool>(), id in any::<u16>(), priority in any::<u8>(),
    ) {
        let mut frame = frame;
        if tag && frame.len() > 14 {
            frame[12..14].copy_from_slice(&[0x81, 0]);
        }
        let push = Vlan::Push { id, protocol: 0x88a8, priority };
        let (verdict, longer, meta) = vlan(push).frame(&frame);
        prop_assert_eq!(longer.len(), meta.len as usize);
        if verdict != Verdict::Drop {
            prop_assert_eq!(vlan(Vlan::Pop).frame(&longer).1, frame.clone());
        }
        for action in [Vlan::Pop, Vlan::Modify { id, protocol: 0x8100, priority: Some(priority) }, Vlan::PopEth] {
            let (_, out, meta) = vlan(action).frame(&frame);
            prop_assert_eq!(out.len(), meta.len as usize);
        }
        let all = Skbmod { dmac: Some([1; 6]), smac: Some([2; 6]), etype: Some(id), swap: true, ecn: true };
        prop_assert_eq!(skbmod(all).frame(&frame).1.len(), frame.len());
    }
}
