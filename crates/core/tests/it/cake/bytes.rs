//! The fields that cake reads from the bytes of a packet, and the fields that it writes.

use txweir_core::packet::detail::Detail;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::tcp_flag::ACK;
use txweir_core::packet::headers::{Headers, clear_dscp};

/// Returns an IPv4 TCP segment with these options and this payload length; its header checksum is
/// right.
fn segment(options: &[u8], payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let total = 40 + options.len() + payload;
    let mut ip = vec![0x45, 46 << 2 | 2, (total >> 8) as u8, total as u8, 0, 1, 0x40, 0, 64, 6, 0, 0];
    ip.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = ip.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    f.extend(ip);
    f.extend([0x30, 0x39, 0, 80, 0, 0, 0, 7, 0, 0, 0x30, 0x39]);
    f.extend([(5 + options.len() as u8 / 4) << 4, ACK, 1, 0, 0, 0, 0, 0]);
    f.extend(options);
    f.resize(f.len() + payload, 0);
    f
}

#[test]
fn details_of_literal_segments() {
    let hasher = FlowHasher::new(1);
    let of = |bytes: &[u8]| {
        let h = Headers::parse_ethernet(bytes);
        let d = Detail::of(&h, bytes, &hasher);
        assert_eq!(
            (d.l3_offset, d.src_host, d.dst_host),
            (Some(14), hasher.source(&h), hasher.destination(&h))
        );
        d.tcp
    };
    let tcp = of(&segment(&[], 0)).unwrap();
    assert_eq!(
        (tcp.ports, tcp.ack, tcp.flags, tcp.data, tcp.plain),
        ([12_345, 80], 12_345, ACK, false, true)
    );
    assert!(of(&segment(&[], 1)).unwrap().data);
    let tcp = of(&segment(&[1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 9], 0)).unwrap();
    assert_eq!((tcp.stamps, tcp.plain), (Some([256, 9]), true));
    let tcp = of(&segment(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2], 0)).unwrap();
    assert_eq!((tcp.blocks(), tcp.plain), (&[[1, 2]][..], true));
    // A window scale, a length of zero, a length beyond the end, a truncated block.
    for options in [[3, 3, 7, 0], [8, 0, 0, 0], [8, 10, 0, 0], [5, 4, 0, 0]] {
        assert!(!of(&segment(&options, 0)).unwrap().plain, "{options:?}");
    }
    let bytes = segment(&[1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 9], 5);
    for cut in 0..bytes.len() - 5 {
        let h = Headers::parse_ethernet(&bytes[..cut]);
        assert_eq!(Detail::of(&h, &bytes[..cut], &hasher).tcp, None, "{cut} bytes");
    }
}

#[test]
fn a_washed_packet_keeps_its_ecn_field_and_a_right_checksum() {
    let mut bytes = segment(&[], 0);
    let h = Headers::parse_ethernet(&bytes);
    clear_dscp(&mut bytes, h.network_header());
    assert_eq!(bytes[15], 2);
    let sum: u32 = bytes[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    // IPv6: version 6, traffic class ef | ECT(1), flow label abcde.
    let mut bytes = [&[0; 12][..], &[0x86, 0xdd, 0x6b, 0x9a, 0xbc, 0xde], &[0; 36]].concat();
    let h = Headers::parse_ethernet(&bytes);
    assert_eq!(h.ds, 0xb9);
    clear_dscp(&mut bytes, h.network_header());
    assert_eq!(bytes[14..18], [0x60, 0x1a, 0xbc, 0xde]);
    // A frame that is not IP stays unchanged.
    let mut arp = [&[0; 12][..], &[8, 6], &[0xff; 28]].concat();
    let before = arp.clone();
    clear_dscp(&mut arp, Headers::parse_ethernet(&before).network_header());
    assert_eq!(arp, before);
}
