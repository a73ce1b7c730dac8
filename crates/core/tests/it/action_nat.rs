//! nat: sums that were right stay right, checksums that are left to the device, and any bytes. The
//! frames of Linux are in `spec/actions/nat.txt`, which the tests of `txweir-tc` read.

use crate::common::action::{Bench, Rigid, bytes, hex, sums};
use proptest::prelude::*;
use txweir_core::classify::action::nat::Side;
use txweir_core::classify::action::{Control, Kind, Nat};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::Packet;
use txweir_core::packet::checksum::Sum;
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Meta};

const IP: usize = 14;
const UPPER: usize = 34;
/// The protocol numbers of TCP, UDP and ICMP, each with the offset of its checksum.
const SUM_AT: [(u8, usize); 3] = [(6, 16), (17, 6), (1, 2)];

fn bench(nat: Nat) -> Bench {
    Bench::new(Kind::Nat(nat), Control::Pipe)
}

fn nat(side: Side, old: u32, new: u32, bits: u32) -> Nat {
    Nat { side, old, new, mask: u32::MAX << (32 - bits) }
}

fn put(bytes: &mut [u8], at: usize, sum: u16) {
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns an IPv4 header with its checksum, in front of a payload.
fn ipv4(proto: u8, src: u32, dst: u32, payload: &[u8]) -> Vec<u8> {
    let mut ip = bytes("4500 0000 1234 4000 4000 0000 00000000 00000000");
    put(&mut ip, 2, u16::try_from(20 + payload.len()).unwrap());
    ip[9] = proto;
    ip[12..16].copy_from_slice(&src.to_be_bytes());
    ip[16..20].copy_from_slice(&dst.to_be_bytes());
    let sum = Sum::default().bytes(&ip).checksum();
    put(&mut ip, 10, sum);
    ip.extend(payload);
    ip
}

/// Returns the pseudo-header of the transport of a frame.
fn pseudo(frame: &[u8]) -> Vec<u8> {
    let len = u16::try_from(frame.len() - UPPER).unwrap().to_be_bytes();
    [&frame[IP + 12..IP + 20], &[0, frame[IP + 9]], &len].concat()
}

/// Returns a frame with right checksums.
fn frame(proto: u8, src: u32, dst: u32, segment: &[u8]) -> Vec<u8> {
    let mut frame = bytes("02ff00000002 020000000000 0800");
    frame.extend(ipv4(proto, src, dst, segment));
    let at = SUM_AT.iter().find(|(known, _)| *known == proto).map(|(_, at)| UPPER + at).unwrap();
    put(&mut frame, at, 0);
    let pseudo = if proto == 1 { Vec::new() } else { pseudo(&frame) };
    let sum = Sum::default().bytes(&pseudo).bytes(&frame[UPPER..]);
    put(&mut frame, at, if proto == 17 { sum.finish() } else { sum.checksum() });
    frame
}

/// True if the sums of a frame are right.
fn is_right(frame: &[u8]) -> bool {
    let pseudo = if frame[IP + 9] == 1 { Vec::new() } else { pseudo(frame) };
    sums(&[&frame[IP..UPPER]]) && sums(&[&pseudo, &frame[UPPER..]])
}

#[test]
fn a_prefix_is_rewritten_and_the_rest_of_the_address_stays() {
    let action = || bench(nat(Side::Source, 0x0a01_0000, 0xc0a8_ffff, 12));
    let udp = frame(17, 0x0a0f_0203, 0x0a00_0002, &[7; 20]);
    let (verdict, out, _) = action().frame(&udp);
    assert!(matches!(verdict, Verdict::Class(_)));
    assert_eq!(out[26..30], [0xc0, 0xaf, 2, 3]);
    assert_eq!(out[30..34], udp[30..34]);
    assert!(is_right(&out));
    // Another network; the same one on the other side.
    for (src, dst) in [(0x0a10_0203, 0x0a00_0002), (0x0b00_0001, 0x0a01_0203)] {
        let other = frame(17, src, dst, &[7; 20]);
        assert_eq!(action().frame(&other).1, other);
    }
}

/// RFC 3022 section 4.3: the quoted packet is rewritten back, its checksum too.
#[test]
fn a_quoted_packet_is_rewritten_with_its_checksum() {
    let quoted = ipv4(17, 0x0a00_0002, 0x0a00_0001, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let error =
        |kind: u8| frame(1, 0x0a00_0001, 0x0a00_0002, &[&[kind, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat());
    for kind in 0..=18 {
        let (_, out, _) = bench(nat(Side::Source, 0x0a00_0001, 0xc0a8_4d03, 32)).frame(&error(kind));
        assert!(is_right(&out) && sums(&[&out[42..62]]), "type {kind}");
        let is_error = matches!(kind, 3 | 4 | 5 | 11 | 12);
        let destination = if is_error { [192, 168, 77, 3] } else { [10, 0, 0, 1] };
        assert_eq!(out[58..62], destination, "type {kind}");
    }
    let short = &error(3)[..UPPER + 8 + 19];
    let mut action = bench(nat(Side::Source, 0x0a00_0001, 0xc0a8_4d03, 32));
    assert_eq!(action.frame(short).0, Verdict::Drop);
    assert_eq!((action.memory().drops, action.memory().overlimits), (1, 0));
}

#[test]
fn only_ipv4_is_rewritten() {
    let udp = frame(17, 0x0a00_0001, 0x0a00_0002, &[7; 20]);
    for (at, byte) in [(12, 0x86), (IP, 0x44), (IP, 0x65)] {
        let mut other = udp.clone();
        other[at] = byte;
        let (verdict, out, _) = bench(nat(Side::Source, 0x0a00_0001, 1, 32)).frame(&other);
        assert!(matches!(verdict, Verdict::Class(_)) && out == other, "{at}");
    }
}

/// The field holds the sum of the pseudo-header, which the device adds up with the rest: it has to
/// be that of the new addresses. A device that begins elsewhere, in a tunnel, leaves the outer sum.
#[test]
fn the_sum_of_the_pseudo_header_changes() {
    for (proto, at) in [(6, 16), (17, 6)] {
        for start in [UPPER, UPPER + 8] {
            let mut given = frame(proto, 0x0a00_0001, 0x0a00_0002, &[7; 40]);
            if start == UPPER {
                let sum = Sum::default().bytes(&pseudo(&given)).partial();
                put(&mut given, UPPER + at, sum);
            }
            let mut left = Rigid(given, Some(start));
            let headers = Headers::parse_ethernet(&left.0);
            let mut meta = Meta::new(74);
            let mut action = bench(nat(Side::Destination, 0x0a00_0002, 0xc0a8_4d03, 24));
            action.send(&mut Packet::new(&mut left, &mut meta, headers), Instant::ZERO);
            assert_eq!(left.0[30..34], [192, 168, 77, 2]);
            if start == UPPER {
                let sum = Sum::default().bytes(&pseudo(&left.0)).partial();
                assert_eq!(left.0[UPPER + at..UPPER + at + 2], sum.to_be_bytes());
            } else {
                assert!(is_right(&left.0));
            }
        }
    }
}

proptest! {
    /// Right sums stay right; nothing but the address and the sums changes.
    #[test]
    fn right_sums_stay_right(
        proto in 0..3usize, src in any::<u32>(), dst in any::<u32>(), new in any::<u32>(), bits in 1..=32u32,
        source in any::<bool>(), data in prop::collection::vec(any::<u8>(), 20..60),
    ) {
        let side = if source { Side::Source } else { Side::Destination };
        let mut data = data;
        // No ICMP error, which would quote a packet.
        data[0] = 8;
        let (proto, at) = SUM_AT[proto];
        let given = frame(proto, src, dst, &data);
        let (_, out, _) = bench(nat(side, if source { src } else { dst }, new, bits)).frame(&given);
        prop_assert!(is_right(&out), "{}", hex(&out));
        let place = if source { 26..30 } else { 30..34 };
        let address = u32::from_be_bytes(out[place.clone()].try_into().unwrap());
        let (old, mask) = (if source { src } else { dst }, u32::MAX << (32 - bits));
        prop_assert_eq!(address, new & mask | old & !mask);
        for (i, (before, after)) in given.iter().zip(&out).enumerate() {
            let sum = (24..26).contains(&i) || (UPPER + at..UPPER + at + 2).contains(&i);
            prop_assert!(before == after || sum || place.contains(&i), "byte {i}");
        }
    }

    /// Any bytes: no panic, and a frame of the same length.
    #[test]
    fn any_bytes(frame in prop::collection::vec(any::<u8>(), 0..90), proto in 0..3usize, source in any::<bool>()) {
        let mut frame = frame;
        if frame.len() > 23 {
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[23] = SUM_AT[proto].0;
        }
        let side = if source { Side::Source } else { Side::Destination };
        let (_, out, meta) = bench(Nat { side, old: 0, new: 0x0102_0304, mask: 0 }).frame(&frame);
        prop_assert_eq!((out.len(), meta.len as usize), (frame.len(), frame.len()));
    }
}
