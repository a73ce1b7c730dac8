//! csum: packets as Linux 6.12 left them, and a check that summed packets sum up.

use crate::common::action::{Bench, bytes, sums};
use proptest::prelude::*;
use txweir_core::classify::action::{Control, Csum, Kind};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::Packet;
use txweir_core::packet::checksum::crc32c;
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Meta};

const ALL: Csum = Csum { iph: true, icmp: true, igmp: true, tcp: true, udp: true, udplite: true, sctp: true };
const ETH4: &str = "02ff00000002 020000000000 0800 ";
const ETH6: &str = "02ff00000002 020000000000 86dd ";
const HOSTS4: &str = "0a000001 0a000002 ";
const HOSTS6: &str = "fd000000000000000000000000000001 fd000000000000000000000000000002 ";
/// Nine bytes: an odd length is padded with zero for the sum.
const DATA: &str = "616263646566676869";

fn bench(csum: Csum) -> Bench {
    Bench::new(Kind::Csum(csum), Control::Pass)
}

/// Returns an IPv4 packet: bytes 2 to 9, checksum, and the bytes behind the addresses.
fn v4(words: &str, sum: &str, rest: &str) -> String {
    format!("{ETH4} 4500 {words} {sum} {HOSTS4} {rest}")
}

fn v6(len_next: &str, rest: &str) -> String {
    format!("{ETH6} 60000000 {len_next}40 {HOSTS6} {rest}")
}

#[track_caller]
fn becomes(csum: Csum, from: &str, to: &str) {
    let compact = |text: &str| text.replace(' ', "");
    assert_eq!(bench(csum).passes(from), compact(to));
}

/// Frames with wrong checksums, and the result of a kernel for each (oracle, `action csum ip4h icmp
/// igmp tcp udp udplite sctp`).
#[test]
fn checksums_are_those_of_linux() {
    let tcp = |sum: &str| format!("03e800ff 00000001 00000002 50102000 {sum} 0000 {DATA}");
    let udp = |len: &str, sum: &str| format!("03e807d0 {len} {sum} {DATA}");
    for (words, sum, from, to) in [
        ("0025 1234 0000 4011", "5492", udp("0011", "dead"), udp("0011", "e57b")),
        // A datagram without a checksum stays without one.
        ("0025 1234 0000 4011", "5492", udp("0011", "0000"), udp("0011", "0000")),
        // The UDP length differs from that of the packet.
        ("0025 1234 0000 4011", "5492", udp("0010", "dead"), udp("0010", "0000")),
        ("0025 1234 0000 4011", "5492", udp("0004", "dead"), udp("0004", "0000")),
        ("0025 1234 0000 4011", "5492", udp("00c8", "dead"), udp("00c8", "0000")),
        ("0031 1234 0000 4006", "5491", tcp("dead"), tcp("7c49")),
        ("0021 1234 0000 4001", "54a6", format!("0800 dead {DATA}"), format!("0800 fd69 {DATA}")),
        ("001c 1234 0000 4002", "54aa", "1600 dead 00000000".into(), "1600 e9ff 00000000".into()),
        (
            "0030 1234 0000 4084",
            "5414",
            "03e807d0 00000001 deadbeef 03000010 00000001 00001000 00000000".into(),
            "03e807d0 00000001 add63da4 03000010 00000001 00001000 00000000".into(),
        ),
        ("0025 1234 0000 4088", "541b", udp("0007", "dead"), udp("0007", "0000")),
        ("0025 1234 0000 4088", "541b", udp("0028", "dead"), udp("0028", "0000")),
        // A later fragment has no transport header.
        ("0025 1234 0010 4011", "5482", udp("0011", "dead"), udp("0011", "dead")),
        // Padding of the link behind a packet is not summed.
        (
            "0025 1234 0000 4011",
            "5492",
            udp("0011", "dead") + "000000000000",
            udp("0011", "e57b") + "000000000000",
        ),
    ] {
        becomes(ALL, &v4(words, "beef", &from), &v4(words, sum, &to));
    }
    for (len_next, from, to) in [
        ("001d06", tcp("dead"), tcp("9647")),
        ("001111", format!("00010002 0011 dead {DATA}"), format!("00010002 0011 0b2f {DATA}")),
        // Over IPv6 there is no UDP without a checksum (RFC 8200 section 8.1).
        ("001111", format!("00010002 0011 0000 {DATA}"), format!("00010002 0011 0b2f {DATA}")),
        ("000d3a", format!("8000 dead {DATA}"), format!("8000 8b1d {DATA}")),
        (
            "001900",
            format!("1100000000000000 00010002 0011 dead {DATA}"),
            format!("1100000000000000 00010002 0011 0b2f {DATA}"),
        ),
        (
            "00192c",
            format!("1100000100000001 00010002 0011 dead {DATA}"),
            format!("1100000100000001 00010002 0011 dead {DATA}"),
        ),
    ] {
        becomes(ALL, &v6(len_next, &from), &v6(len_next, &to));
    }
}

#[test]
fn only_what_is_asked_for() {
    let udp = |sum: &str| v4("0025 1234 0000 4011", "beef", &format!("03e807d0 0011 {sum} {DATA}"));
    becomes(Csum { udp: true, ..Csum::default() }, &udp("dead"), &udp("e57b"));
    becomes(Csum { tcp: true, ..Csum::default() }, &udp("dead"), &udp("dead"));
    let other = format!("02ff00000002 020000000000 88b5 {DATA}");
    becomes(ALL, &other, &other);
}

/// Parity: Linux puts the coverage into the pseudo-header (e526, dfac, 1ade), where RFC 3828
/// section 3.1 has the length that IP gives.
#[test]
fn udplite_covers_what_it_says() {
    for (coverage, sum) in [("0000", "e515"), ("0008", "dfa3"), ("000c", "1ad9")] {
        let frame = |ip, sum| v4("0025 1234 0000 4088", ip, &format!("03e807d0 {coverage} {sum} {DATA}"));
        becomes(ALL, &frame("beef", "dead"), &frame("541b", sum));
    }
}

/// Parity: Linux sums the first fragment of a datagram as if it were the whole datagram.
#[test]
fn the_transport_of_a_fragment_stays() {
    let first = |sum: &str| v4("0025 1234 2000 4011", sum, &format!("03e807d0 0011 dead {DATA}"));
    becomes(ALL, &first("beef"), &first("3492"));
}

/// Parity: Linux skips tags that a device keeps apart, but not those in the bytes.
#[test]
fn tags_are_looked_behind() {
    let tagged = |ip: &str, udp: &str| {
        format!(
            "02ff00000002 020000000000 8100 2005 0800 4500 0025 1234 0000 4011 {ip} {HOSTS4} 03e807d0 0011 {udp} {DATA}"
        )
    };
    becomes(ALL, &tagged("beef", "dead"), &tagged("5492", "e57b"));
}

#[test]
fn what_ends_too_early_is_dropped_and_counted() {
    for frame in [
        v4("001e 1234 0000 4006", "beef", "00000000000000000000"),
        v4("001a 1234 0000 4011", "beef", "000000000000"),
        format!("{ETH4} 4500000000000000000000"),
        // The header gives a greater length than the frame has.
        v4(
            "0031 1234 0000 4006",
            "beef",
            &format!("03e800ff 00000001 00000002 50102000 dead 0000 {}", &DATA[..10]),
        ),
        // A header of four words is invalid.
        format!("{ETH4} 4400 0025 1234 0000 4011 beef {HOSTS4} 03e807d0 0011 dead {DATA}"),
        format!("{ETH6} 600000000011 1140 {}", &HOSTS6[..41]),
        v6("001911", &format!("00010002 0011 dead {DATA}")),
    ] {
        let mut bench = bench(ALL);
        assert_eq!(bench.frame(&bytes(&frame)).0, Verdict::Drop, "{frame}");
        assert_eq!(bench.memory().drops, 1);
    }
}

/// The checksums of a super-packet's segments are computed where it is cut; the rest of a truncated
/// frame is not known.
#[test]
fn super_packets_and_frames_cut_short_keep_their_transport_checksum() {
    let frame = bytes(&v4(
        "0031 1234 0000 4006",
        "beef",
        &format!("03e800ff 00000001 00000002 50102000 dead 0000 {DATA}"),
    ));
    let gso = Meta::new(63).gso(54, 5);
    for (mut meta, len) in [(gso, 63), (Meta::new(63), 60)] {
        let mut bytes = frame[..len].to_vec();
        let headers = Headers::parse_ethernet(&bytes);
        let verdict = bench(ALL).send(&mut Packet::new(&mut bytes, &mut meta, headers), Instant::ZERO);
        assert!(matches!(verdict, Verdict::Class(_)));
        assert_eq!((&bytes[24..26], &bytes[50..52]), (&[0x54, 0x91][..], &[0xde, 0xad][..]));
    }
}

proptest! {
    /// Checksums are right afterwards, for any contents.
    #[test]
    fn what_is_summed_sums_up(
        v6 in any::<bool>(),
        proto in prop::sample::select(vec![1u8, 2, 6, 17, 58, 132, 136]),
        options in 0usize..=10,
        mut hosts in prop::collection::vec(any::<u8>(), 32),
        mut body in prop::collection::vec(any::<u8>(), 20..200),
    ) {
        let len = u16::try_from(body.len()).unwrap();
        if matches!(proto, 17 | 136) {
            body[4..6].copy_from_slice(&len.to_be_bytes());
            body[6] |= 1;
        }
        let mut frame = vec![2; 12];
        let header = if v6 { 40 } else { 20 + 4 * options };
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, (len >> 8) as u8, len as u8, proto, 64]);
        } else {
            hosts.truncate(8);
            frame.extend([8, 0, 0x45 + options as u8, 0]);
            frame.extend((len + header as u16).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, proto, 0xaa, 0xaa]);
        }
        frame.extend(&hosts);
        frame.resize(14 + header, 1);
        frame.extend(&body);
        let (verdict, out, _) = bench(ALL).frame(&frame);
        prop_assert!(matches!(verdict, Verdict::Class(_)));
        let ip = &out[14..];
        prop_assert!(v6 || sums(&[&ip[..header]]));
        let segment = &ip[header..];
        let pseudo = [&hosts[..], &u32::from(len).to_be_bytes(), &[0, proto]].concat();
        match (proto, v6) {
            (1 | 2, false) => prop_assert!(sums(&[segment])),
            (6 | 17 | 136, _) | (58, true) => prop_assert!(sums(&[&pseudo, segment])),
            (132, _) => {
                let crc = crc32c(&[&segment[..8], &[0; 4], &segment[12..]]);
                prop_assert_eq!(&segment[8..12], &crc.to_le_bytes());
            }
            // ICMP of the other IP version is not summed.
            _ => prop_assert_eq!(segment, &body[..]),
        }
    }

    /// No bytes cause a panic, and only the fields of checksums change.
    #[test]
    fn any_bytes(frame in prop::collection::vec(any::<u8>(), 0..120), kind in prop::sample::select(vec![0x0800u16, 0x86dd])) {
        let mut frame = frame;
        if frame.len() > 15 {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            frame[14] = if kind == 0x0800 { 0x45 | frame[14] & 15 } else { 0x60 };
        }
        let (_, out, meta) = bench(ALL).frame(&frame);
        prop_assert_eq!(out.len(), frame.len());
        prop_assert_eq!(meta.len as usize, frame.len());
        let changed = out.iter().zip(&frame).filter(|(a, b)| a != b).count();
        prop_assert!(changed <= 6, "{changed}");
    }
}
