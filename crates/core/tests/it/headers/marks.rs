//! Marks of congestion in IP headers.

use proptest::prelude::*;
use txweir_core::packet::headers::{Ecn, Headers, L3, clear_dscp, set_ce, set_ecn};

use super::Medium::{Ethernet, Ip};
use super::{Medium, corpus, packet, parse, same_cases};

/// Returns the sum of RFC 1071 over a whole IPv4 header, from scratch: 0 for a header with a right
/// checksum.
fn residue(header: &[u8]) -> u16 {
    let mut sum: u64 =
        header.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the IPv4 header's bytes, if they are complete with all options.
fn ipv4_header(h: &Headers, len: usize) -> Option<core::ops::Range<usize>> {
    let at = usize::from(h.l3_offset?);
    let size = (h.l4_offset.map_or(at + 20, usize::from) - at).min(60);
    (h.l3 == L3::Ipv4 && at + size <= len).then_some(at..at + size)
}

/// Returns the bytes with every bit cleared that `set_ce` may change.
fn without_mark(bytes: &[u8], h: &Headers) -> Vec<u8> {
    let mut b = bytes.to_vec();
    let at = usize::from(h.l3_offset.unwrap_or(0));
    match h.l3 {
        L3::Ipv4 => {
            b[at + 1] &= !3;
            b[at + 10..at + 12].fill(0);
        }
        L3::Ipv6 => b[at + 1] &= !0x30,
        L3::None | L3::Arp => {}
    }
    b
}

/// Marks a packet and checks every requirement of RFC 3168.
pub(super) fn check_mark(medium: Medium, bytes: &[u8]) -> bool {
    let before = parse(medium, bytes);
    let mut after = bytes.to_vec();
    let marked = set_ce(&mut after, before.network_header());
    assert_eq!(marked, matches!(before.l3, L3::Ipv4 | L3::Ipv6) && before.ecn() != Ecn::NotEct);
    if !marked || before.ecn() == Ecn::Ce {
        assert_eq!(after, bytes);
        return marked;
    }
    let h = parse(medium, &after);
    assert_eq!(h, Headers { ds: before.ds | 3, ..before });
    assert_eq!(h.ecn(), Ecn::Ce);
    assert_eq!(without_mark(&after, &h), without_mark(bytes, &h));
    if let Some(header) = ipv4_header(&h, bytes.len()) {
        // A right checksum stays right, a wrong checksum wrong, as the residue does not change.
        let (old, new) = (residue(&bytes[header.clone()]), residue(&after[header]));
        assert_eq!(new, old, "{h:?}");
    }
    marked
}

#[test]
fn the_corpus_has_right_checksums_and_keeps_them_when_marked() {
    let mut marked = 0;
    for (name, medium, bytes) in corpus() {
        let h = parse(medium, &bytes);
        if h.l3 == L3::Ipv4 && name != "ah tcp" {
            let header = ipv4_header(&h, bytes.len()).expect("whole packets");
            assert_eq!(residue(&bytes[header]), 0, "{name}");
        }
        marked += usize::from(check_mark(medium, &bytes));
    }
    // tcp ack, udp first and later; v6 first and later, each twice.
    assert_eq!(marked, 7);
}

#[test]
fn marking_literal_bytes() {
    let mut ack = packet("tcp ack", Ethernet);
    let h = Headers::parse_ethernet(&ack);
    assert!(set_ce(&mut ack, h.network_header()));
    // 0x4502 became 0x4503: the checksum fell by one.
    assert_eq!((ack[15], &ack[24..26]), (0x03, &[0x32, 0x4f][..]));
    assert!(set_ce(&mut ack, h.network_header()), "already marked");
    assert_eq!((ack[15], &ack[24..26]), (0x03, &[0x32, 0x4f][..]));
    // The other zero of one's complement is not rewritten if no mark is written.
    let mut zero = ack.clone();
    zero[24..26].fill(0xff);
    assert!(set_ce(&mut zero, h.network_header()) && zero[24..26] == [0xff, 0xff]);
    let mut first = packet("v6 first", Ip);
    let h = Headers::parse_ip(&first);
    assert!(set_ce(&mut first, h.network_header()));
    assert_eq!(first[..4], [0x60, 0x30, 0, 0]);
    let mut syn = packet("tcp syn", Ethernet);
    let h = Headers::parse_ethernet(&syn);
    assert!(!set_ce(&mut syn, h.network_header()));
    assert_eq!(syn, packet("tcp syn", Ethernet));
    // Bytes that do not belong to the headers: never a panic, never a wrong place.
    let h = Headers::parse_ethernet(&packet("tcp ack", Ethernet));
    ack[14] = 0x65;
    assert!(!set_ce(&mut ack, h.network_header()));
    let h = Headers::parse_ip(&first);
    first[0] = 0x45;
    assert!(!set_ce(&mut first, h.network_header()));
    assert!(!set_ce(&mut ack[..20], Headers::parse_ethernet(&packet("v6 first", Ethernet)).network_header()));
    assert!(!set_ce(&mut [], h.network_header()));
}

/// Each code point can be set in place of each other one, and nothing else of the packet changes:
/// setting the first one again gives the first bytes, the checksum among them.
#[test]
fn every_code_point_can_be_set() {
    let all = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
    for (name, medium) in [("tcp ack", Ethernet), ("tcp syn", Ethernet), ("v6 first", Ip)] {
        let first = packet(name, medium);
        let headers = parse(medium, &first);
        let network = headers.network_header();
        for ecn in all {
            let mut bytes = first.clone();
            assert!(set_ecn(&mut bytes, network, ecn), "{name}");
            let changed = parse(medium, &bytes);
            assert_eq!((changed.ecn(), changed.dscp()), (ecn, headers.dscp()), "{name}");
            let mut washed = bytes.clone();
            clear_dscp(&mut washed, network);
            let changed = parse(medium, &washed);
            assert_eq!((changed.ecn(), changed.dscp()), (ecn, 0), "{name}");
            assert!(set_ecn(&mut bytes, network, headers.ecn()));
            assert_eq!(bytes, first, "{name}");
        }
    }
    let mut other = packet("tcp ack", Ethernet);
    let network = Headers::parse_ethernet(&other).network_header();
    other[14] = 0;
    assert!(!set_ecn(&mut other, network, Ecn::Ce), "no IP header is there any more");
}

proptest! {
    #![proptest_config(same_cases())]

    #[test]
    fn marking_a_right_ipv4_header_keeps_it_right(
        words in proptest::collection::vec(any::<u16>(), 10..=30),
        ect in 1u8..=2,
    ) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        bytes.truncate(bytes.len() / 4 * 4);
        bytes[0] = 0x40 | (bytes.len() / 4) as u8;
        bytes[1] = bytes[1] & !3 | ect;
        bytes[10..12].fill(0);
        let sum = residue(&bytes).to_be_bytes();
        bytes[10..12].copy_from_slice(&sum);
        prop_assert_eq!(residue(&bytes), 0);
        let h = Headers::parse_ip(&bytes);
        prop_assert!(set_ce(&mut bytes, h.network_header()));
        prop_assert_eq!(residue(&bytes), 0);
        let updated = [bytes[10], bytes[11]];
        bytes[10..12].fill(0);
        prop_assert_eq!(residue(&bytes).to_be_bytes(), updated, "as computed anew");
    }
}
