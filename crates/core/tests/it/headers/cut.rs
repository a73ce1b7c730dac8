//! Packets that are cut, changed or random: the fields that are reported stay within the bytes, and
//! equal those of the whole packet, or are empty.

use proptest::prelude::*;
use txweir_core::packet::headers::{End, Fragment, Headers, L3, L4};

use super::Medium::{Ethernet, Ip};
use super::marks::check_mark;
use super::{Medium, corpus, parse, same_cases};

/// Checks the invariants that hold for any bytes.
fn check_bounds(h: &Headers, len: usize) {
    let within = |offset: Option<u16>| offset.is_none_or(|at| usize::from(at) <= len);
    assert!(within(h.l3_offset) && within(h.l4_offset), "{h:?}");
    assert!(usize::from(h.header_len) <= len && usize::from(h.link_len) <= len, "{h:?}");
    let l3 = h.l3_offset.map_or(0, usize::from);
    let fixed = match h.l3 {
        L3::None => 0,
        L3::Arp => 8,
        L3::Ipv4 => 20,
        L3::Ipv6 => 40,
    };
    assert!(l3 + fixed <= len, "{h:?}");
    if let Some(l4) = h.l4_offset {
        assert!(usize::from(l4) >= l3 + fixed && h.l3 != L3::None, "{h:?}");
    }
    if h.l4 != L4::None {
        let l4 = usize::from(h.l4_offset.expect("a transport has an offset"));
        assert!(l4 + 4 <= len && h.fragment != Fragment::Later, "{h:?}");
        assert_eq!(h.end == End::Whole, h.header_len > 0, "{h:?}");
        assert!(h.header_len == 0 || usize::from(h.header_len) >= l4 + 8, "{h:?}");
        assert!(h.payload_len <= h.ip_len, "{h:?}");
    } else {
        assert_eq!((h.header_len, h.payload_len, h.tcp_flags), (0, 0, 0), "{h:?}");
    }
    assert!(h.flow_label < 1 << 20, "{h:?}");
}

/// Checks that a cut packet reports the same as the whole packet, or nothing.
fn check_prefix(cut: &Headers, whole: &Headers) {
    let mut expected = *whole;
    expected.end = cut.end;
    macro_rules! absent {
        ($($field:ident),*) => {$(
            if cut.$field == Headers::EMPTY.$field {
                expected.$field = cut.$field;
            }
        )*};
    }
    absent!(src, dst, flow_label, ip_len, payload_len, link_protocol, ethertype, vlan, inner_vlan);
    absent!(l3_offset, l4_offset, src_port, dst_port, header_len, link_len, ds, ttl, tcp_flags);
    absent!(l3, l4, fragment);
    if cut.l4_offset.is_none() {
        // The parser stopped at an extension header, or inside the tags.
        expected.protocol = cut.protocol;
        if cut.l3_offset.is_none() {
            expected.ethertype = cut.ethertype;
        }
    }
    assert_eq!(*cut, expected);
}

#[test]
fn every_packet_cut_at_every_length() {
    for (name, medium, bytes) in corpus() {
        let whole = parse(medium, &bytes);
        assert!(whole.is_complete(), "{name}");
        let ip_end = whole.l3_offset.map_or(0, usize::from) + whole.ip_len as usize;
        for len in 0..bytes.len() {
            let cut = parse(medium, &bytes[..len]);
            check_bounds(&cut, len);
            check_prefix(&cut, &whole);
            // While the headers are complete, the cut has no effect; the header's length is still
            // reported.
            let needed = match (whole.l3, whole.l4_offset) {
                (L3::Arp, _) => bytes.len(),
                (_, None) => whole.l3_offset.map_or(0, usize::from),
                (_, Some(l4)) => usize::from(whole.header_len.max(l4)),
            };
            if whole.fragment != Fragment::Later {
                assert_eq!(cut == whole, len >= needed, "{name} at {len} of {needed}");
            }
        }
        // Bytes behind the length that IP declares change nothing.
        if whole.ip_len > 0 {
            let mut padded = bytes[..ip_end].to_vec();
            for _ in 0..9 {
                assert_eq!(parse(medium, &padded), whole, "{name}");
                padded.push(0xee);
            }
        }
    }
}

fn any_packet() -> impl Strategy<Value = (Medium, Vec<u8>)> {
    let medium = prop_oneof![Just(Ethernet), Just(Ip)];
    let random = (medium, proptest::collection::vec(any::<u8>(), 0..200));
    let all = corpus();
    let mutated = (
        0..all.len(),
        proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        proptest::option::of(any::<prop::sample::Index>()),
        proptest::collection::vec(any::<u8>(), 0..20),
    )
        .prop_map(move |(which, changes, cut, more)| {
            let (_, medium, mut bytes) = all[which].clone();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            bytes.extend(more);
            (medium, bytes)
        });
    prop_oneof![1 => random, 4 => mutated]
}

proptest! {
    #![proptest_config(same_cases())]

    #[test]
    fn any_bytes_are_parsed_within_bounds((medium, bytes) in any_packet()) {
        for medium in [medium, Ethernet, Ip] {
            let h = parse(medium, &bytes);
            check_bounds(&h, bytes.len());
            check_mark(medium, &bytes);
        }
    }

    #[test]
    fn any_cut_reports_nothing_that_the_whole_does_not(
        (medium, bytes) in any_packet(),
        cut in any::<prop::sample::Index>(),
    ) {
        let len = cut.index(bytes.len() + 1);
        check_prefix(&parse(medium, &bytes[..len]), &parse(medium, &bytes));
    }
}
