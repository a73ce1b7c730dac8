//! Header parsing against literal frames: each written by hand, then cut at every length, then
//! mutated and random.

mod cut;
mod marks;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use txweir_core::packet::headers::{Ecn, End, Fragment, Headers, L3, L4, MAX_EXTENSIONS, MAX_VLAN_TAGS};

/// The first layer of a packet of the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Ethernet,
    Ip,
}
use Medium::{Ethernet, Ip};

/// Returns the configuration in which every run has the same cases: a failure is caused by a change
/// of the code, and needs no file to be repeated.
fn same_cases() -> ProptestConfig {
    ProptestConfig {
        cases: 20_000,
        rng_seed: RngSeed::Fixed(0x7_8777),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn parse(medium: Medium, bytes: &[u8]) -> Headers {
    match medium {
        Ethernet => Headers::parse_ethernet(bytes),
        Ip => Headers::parse_ip(bytes),
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// Destination and source MAC.
const MAC: &str = "ffffffffffff 020000000001";
const A: [u8; 4] = [192, 0, 2, 1];
const B: [u8; 4] = [198, 51, 100, 2];

const TCP_SYN: &str = "0800 4500003c 1c464000 4006323f c0000201 c6336402
    c0de0050 00000001 00000000 a0c27210 00000000 020405b4 0402080a 00000001 00000000 01030307";
/// A pure ACK: 40 bytes of IP, six of padding.
const TCP_ACK: &str = "0800 45020028 1c474000 40063250 c0000201 c6336402
    c0de0050 00000002 00000003 50107210 00000000 000000000000";
const TCP_DATA: &str = "8100 6064 0800 45b80032 1c484000 4006318f c0000201 c6336402
    0050c0de 00000002 00000003 50187210 00000000 00112233445566778899";
const UDP_OPTIONS: &str = "0800 47100028 00010000 ff1181ab c0000201 e0000001 94040000 01010100
    14e914e9 000c0000 deadbeef";
const UDP_FIRST: &str = "0800 4501002c 77772000 4011f711 c0000201 c6336402
    00350036 00240000 000102030405060708090a0b0c0d0e0f";
const UDP_LATER: &str = "0800 45010024 77770003 40111717 c0000201 c6336402
    00350036 00240000 0001020304050607";
const ICMP_ECHO: &str = "0800 45000020 00010000 40018ea5 c0000201 c6336402 08001234 abcd0001 61626364";
const ICMP_UNREACHABLE: &str = "0800 45c00038 00020000 40018dcc c6336402 c0000201 03031234 00000000
    45000030 00030000 40848e10 c0000201 c6336402 0b590b59 00000001";
const SCTP: &str = "0800 45000030 00030000 40848e10 c0000201 c6336402
    0b591f90 00000001 aabbccdd 00030010 00000001 00010000 00000000";
const DCCP: &str = "0800 45000024 00040000 40218e7e c0000201 c6336402
    0b5a1f91 04000000 04000000 00000001";
const AH_TCP: &str = "0800 45000040 00050000 40338e4f c0000201 c6336402
    06040000 00000100 00000001 000102030405060708090a0b
    c0de0050 00000002 00000003 50107210 00000000";
const ESP: &str = "0800 45000024 00060000 40328e6b c0000201 c6336402 00000100 00000001 0011223344556677";
const ARP: &str = "0806 0001 0800 06 04 0001 020000000001 c0000201 000000000000 c6336402";
const LLDP: &str = "88cc 0207 04020000000001";
const LENGTH_802_3: &str = "0026 424203 0000000000";

/// 2001:db8::1 to 2001:db8::2.
const V6_PAIR: &str = "20010db8000000000000000000000001 20010db8000000000000000000000002";
const A6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const B6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

const V6_UDP: &str = "6b8abcde 000c 11 40 V6 00350035 000c0000 01020304";
const V6_CHAIN: &str = "60000000 006c 00 3f V6
    3c00 0502 00000100
    2b01 0104 00000000 0000000000000000
    2c02 0200 00000000 20010db8000000000000000000000003
    3300 0000 12345678
    3c04 0000 00000100 00000001 000102030405060708090a0b
    0600 010400000000
    01bbc0de 00000002 00000003 50107210 00000000";
const V6_FIRST: &str = "60200000 0020 2c 40 V6
    3c00 0001 00000007 1100 010400000000 1f9000a1 00300000 0001020304050607";
const V6_LATER: &str = "60200000 0018 2c 40 V6
    1100 0018 00000007 1f9000a1 00300000 0001020304050607";
const V6_ECHO: &str = "60000000 000c 3a 40 V6 80001234 0bad0001 61626364";
const V6_SOLICIT: &str = "60000000 0018 3a ff V6 87001234 00000000 20010db8000000000000000000000002";
const V6_MOBILITY: &str = "60000000 0008 87 40 V6 3b00 0000 00000000";
const V6_NONE: &str = "60000000 0000 3b 40 V6";

/// Returns every packet of the corpus, by name.
fn corpus() -> Vec<(&'static str, Medium, Vec<u8>)> {
    let ethernet = |body: &str| hex(&format!("{MAC} {body}"));
    let v6 = |body: &str| body.replace("V6", V6_PAIR);
    let mut all = Vec::new();
    for (name, body) in [
        ("tcp syn", TCP_SYN),
        ("tcp ack", TCP_ACK),
        ("tcp data", TCP_DATA),
        ("udp options", UDP_OPTIONS),
        ("udp first", UDP_FIRST),
        ("udp later", UDP_LATER),
        ("icmp echo", ICMP_ECHO),
        ("icmp unreachable", ICMP_UNREACHABLE),
        ("sctp", SCTP),
        ("dccp", DCCP),
        ("ah tcp", AH_TCP),
        ("esp", ESP),
        ("arp", ARP),
        ("lldp", LLDP),
        ("802.3", LENGTH_802_3),
    ] {
        all.push((name, Ethernet, ethernet(body)));
    }
    for (name, body) in [
        ("v6 udp", V6_UDP),
        ("v6 chain", V6_CHAIN),
        ("v6 first", V6_FIRST),
        ("v6 later", V6_LATER),
        ("v6 echo", V6_ECHO),
        ("v6 solicit", V6_SOLICIT),
        ("v6 mobility", V6_MOBILITY),
        ("v6 none", V6_NONE),
    ] {
        all.push((name, Ip, hex(&v6(body))));
        all.push((name, Ethernet, ethernet(&format!("88a8 0fff 8100 a002 86dd {}", v6(body)))));
    }
    all.push(("v4 without link", Ip, ethernet(TCP_SYN)[14..].to_vec()));
    all
}

fn packet(name: &str, medium: Medium) -> Vec<u8> {
    let found = corpus().into_iter().find(|(n, m, _)| *n == name && *m == medium);
    found.unwrap_or_else(|| panic!("no packet named {name}")).2
}

fn ethernet(name: &str) -> Headers {
    Headers::parse_ethernet(&packet(name, Ethernet))
}

fn ip(name: &str) -> Headers {
    Headers::parse_ip(&packet(name, Ip))
}

fn mapped(a: [u8; 4]) -> [u8; 16] {
    let mut m = [0; 16];
    m[10..12].copy_from_slice(&[0xff, 0xff]);
    m[12..].copy_from_slice(&a);
    m
}

/// Returns the common part of every IPv4 packet of the corpus from A to B.
fn v4(len: u32) -> Headers {
    Headers {
        src: mapped(A),
        dst: mapped(B),
        ip_len: len,
        link_protocol: 0x0800,
        ethertype: 0x0800,
        l3_offset: Some(14),
        l4_offset: Some(34),
        link_len: 14,
        ttl: 64,
        l3: L3::Ipv4,
        end: End::Whole,
        ..Headers::EMPTY
    }
}

/// Returns the common part of every IPv6 packet of the corpus without link header.
fn v6(len: u32) -> Headers {
    Headers {
        src: A6,
        dst: B6,
        ip_len: len,
        link_protocol: 0x86dd,
        ethertype: 0x86dd,
        l3_offset: Some(0),
        l4_offset: Some(40),
        ttl: 64,
        l3: L3::Ipv6,
        end: End::Whole,
        ..Headers::EMPTY
    }
}

#[test]
fn tcp_over_ipv4() {
    let ports = Headers { protocol: 6, l4: L4::Tcp, src_port: 0xc0de, dst_port: 80, ..v4(60) };
    assert_eq!(ethernet("tcp syn"), Headers { header_len: 74, tcp_flags: 0xc2, ..ports });
    assert_eq!(
        ethernet("tcp ack"),
        Headers { ip_len: 40, header_len: 54, tcp_flags: 0x10, ds: 2, ..ports },
        "padding is not payload"
    );
    assert_eq!(
        ethernet("ah tcp"),
        Headers { ip_len: 64, l4_offset: Some(58), header_len: 78, tcp_flags: 0x10, ..ports }
    );
    assert_eq!(
        Headers::parse_ip(&packet("v4 without link", Ip)),
        Headers {
            l3_offset: Some(0),
            l4_offset: Some(20),
            link_len: 0,
            header_len: 60,
            tcp_flags: 0xc2,
            ..ports
        }
    );
}

#[test]
fn tcp_behind_a_vlan_tag() {
    let h = ethernet("tcp data");
    let expected = Headers {
        link_protocol: 0x8100,
        vlan: Some(0x6064),
        l3_offset: Some(18),
        l4_offset: Some(38),
        header_len: 58,
        payload_len: 10,
        ds: 0xb8,
        protocol: 6,
        l4: L4::Tcp,
        src_port: 80,
        dst_port: 0xc0de,
        tcp_flags: 0x18,
        ..v4(50)
    };
    assert_eq!(h, expected);
    assert_eq!((h.dscp(), h.ecn(), h.tos_priority()), (46, Ecn::NotEct, 4));
    assert_eq!((ethernet("tcp ack").ecn(), ethernet("udp first").ecn()), (Ecn::Ect0, Ecn::Ect1));
}

#[test]
fn udp_behind_ipv4_options() {
    let h = ethernet("udp options");
    let expected = Headers {
        dst: mapped([224, 0, 0, 1]),
        l4_offset: Some(42),
        header_len: 50,
        payload_len: 4,
        ds: 0x10,
        ttl: 255,
        protocol: 17,
        l4: L4::Udp,
        src_port: 5353,
        dst_port: 5353,
        ..v4(40)
    };
    assert_eq!(h, expected);
    assert_eq!((h.tos_priority(), h.ports()), (6, Some((5353, 5353))));
}

#[test]
fn ipv4_fragments_have_ports_only_in_the_first() {
    let first = Headers {
        ds: 1,
        protocol: 17,
        fragment: Fragment::First,
        l4: L4::Udp,
        src_port: 53,
        dst_port: 54,
        header_len: 42,
        payload_len: 16,
        ..v4(44)
    };
    assert_eq!(ethernet("udp first"), first);
    let later = Headers { ds: 1, protocol: 17, fragment: Fragment::Later, l4_offset: None, ..v4(36) };
    assert_eq!(ethernet("udp later"), later);
}

#[test]
fn icmp_sctp_dccp_and_unknown_protocols() {
    let echo = Headers { protocol: 1, l4: L4::Icmp, src_port: 0x0800, dst_port: 0xabcd, ..v4(32) };
    assert_eq!(ethernet("icmp echo"), Headers { header_len: 42, payload_len: 4, ..echo });
    let h = ethernet("icmp unreachable");
    assert_eq!((h.l4, h.src_port, h.dst_port), (L4::Icmp, 0x0303, 0));
    assert_eq!((h.src, h.dst, h.payload_len, h.ports()), (mapped(B), mapped(A), 28, None));
    let sctp = Headers { protocol: 132, l4: L4::Sctp, src_port: 2905, dst_port: 8080, ..v4(48) };
    assert_eq!(ethernet("sctp"), Headers { header_len: 46, payload_len: 16, ..sctp });
    let dccp = Headers { protocol: 33, l4: L4::Dccp, src_port: 2906, dst_port: 8081, ..v4(36) };
    assert_eq!(ethernet("dccp"), Headers { header_len: 50, ..dccp });
    // With short sequence numbers the header has three words (RFC 4340 section 5.1).
    assert_eq!(patched("dccp", Ethernet, &[(38, 3)]), Headers { header_len: 46, payload_len: 4, ..dccp });
    assert_eq!(ethernet("esp"), Headers { protocol: 50, end: End::Opaque, ..v4(36) });
}

#[test]
fn arp_and_other_ethertypes() {
    let arp = Headers {
        link_protocol: 0x0806,
        ethertype: 0x0806,
        l4_offset: None,
        ttl: 0,
        src_port: 1,
        l3: L3::Arp,
        ..v4(0)
    };
    assert_eq!(ethernet("arp"), arp);
    let other = |kind| Headers {
        link_protocol: kind,
        ethertype: kind,
        l3_offset: Some(14),
        link_len: 14,
        end: End::Opaque,
        ..Headers::EMPTY
    };
    assert_eq!(ethernet("lldp"), other(0x88cc));
    // An 802.3 frame has Linux's number of 802.2, whatever its length is.
    assert_eq!(ethernet("802.3"), other(0x0004));
    // ARP of another hardware type: the operation is at its usual place, the addresses are not.
    let mut infiniband = packet("arp", Ethernet);
    infiniband[15] = 32;
    let h = Headers::parse_ethernet(&infiniband);
    assert_eq!((h.l3, h.src_port, h.src, h.end), (L3::Arp, 1, [0; 16], End::Opaque));
}

/// A bridge's BPDU is `protocol 802_2`, and a frame of IPX without a header of 802.2 is `802_3`
/// (Linux 6.18: a filter of 802_2 at ingress counts the first, one of 0x0026 does not).
#[test]
fn a_length_in_place_of_an_ethertype_is_a_protocol_of_linux() {
    let of = |body: &str| {
        let h = Headers::parse_ethernet(&hex(&format!("0180c2000000 020000000001 {body}")));
        (h.link_protocol, h.ethertype, h.l3_offset, h.end)
    };
    let (here, end) = (Some(14), End::Opaque);
    let bpdu = "0026 424203 0000000000 8000020000000001 00000000 8000020000000001 8001 0000 1400 0200 0f00";
    assert_eq!(of(bpdu), (4, 4, here, end));
    assert_eq!(of("0022 ffff 0022 0011 000000000000 0452"), (1, 1, here, end));
    assert_eq!(of("05ff aaaa0300000008004500"), (4, 4, here, end));
    assert_eq!(of("0600 ffff"), (0x0600, 0x0600, here, end));
    // A frame that ends with its length.
    assert_eq!([of("0000"), of("0001 ff")], [(4, 4, here, end); 2]);
    // Behind a tag it is a length.
    assert_eq!(of("8100 0003 0026 424203"), (0x8100, 0x0026, Some(18), end));
}

#[test]
fn udp_over_ipv6_bare_and_behind_two_tags() {
    let h = Headers {
        flow_label: 0xabcde,
        ds: 0xb8,
        protocol: 17,
        l4: L4::Udp,
        src_port: 53,
        dst_port: 53,
        header_len: 48,
        payload_len: 4,
        ..v6(52)
    };
    assert_eq!(ip("v6 udp"), h);
    assert_eq!((h.dscp(), h.tos_priority()), (46, 0));
    let tagged = Headers {
        link_protocol: 0x88a8,
        vlan: Some(0x0fff),
        inner_vlan: Some(0xa002),
        link_len: 14,
        l3_offset: Some(22),
        l4_offset: Some(62),
        header_len: 70,
        ..h
    };
    assert_eq!(ethernet("v6 udp"), tagged);
}

#[test]
fn ipv6_extension_headers() {
    let tcp = Headers { protocol: 6, l4: L4::Tcp, src_port: 443, dst_port: 0xc0de, ..v6(148) };
    let chain = Headers { ttl: 63, l4_offset: Some(128), header_len: 148, tcp_flags: 0x10, ..tcp };
    assert_eq!(ip("v6 chain"), chain, "hop-by-hop, destination, routing, atomic fragment, AH, destination");
    assert!(chain.is_tcp_control());
    let first = Headers {
        ds: 2,
        protocol: 17,
        fragment: Fragment::First,
        l4: L4::Udp,
        src_port: 8080,
        dst_port: 161,
        l4_offset: Some(56),
        header_len: 64,
        payload_len: 8,
        ..v6(72)
    };
    assert_eq!(ip("v6 first"), first);
    let later = Headers { ds: 2, protocol: 17, fragment: Fragment::Later, l4_offset: None, ..v6(64) };
    assert_eq!(ip("v6 later"), later);
    let nothing = Headers { protocol: 59, end: End::Opaque, ..v6(40) };
    assert_eq!(ip("v6 none"), nothing);
    // The mobility header ends the walk, as in Linux: its number is the protocol.
    assert_eq!(ip("v6 mobility"), Headers { protocol: 135, ip_len: 48, ..nothing });
}

#[test]
fn icmpv6() {
    let icmp = Headers { protocol: 58, l4: L4::Icmpv6, header_len: 48, ..v6(52) };
    let echo = Headers { src_port: 0x8000, dst_port: 0x0bad, payload_len: 4, ..icmp };
    assert_eq!(ip("v6 echo"), echo);
    let solicit = Headers { ip_len: 64, ttl: 255, src_port: 0x8700, payload_len: 16, ..icmp };
    assert_eq!(ip("v6 solicit"), solicit);
}

/// Changes bytes of a packet of the corpus and parses it.
fn patched(name: &str, medium: Medium, patch: &[(usize, u8)]) -> Headers {
    let mut bytes = packet(name, medium);
    for &(at, value) in patch {
        bytes[at] = value;
    }
    parse(medium, &bytes)
}

#[test]
fn contradictions_keep_what_came_before() {
    let syn = ethernet("tcp syn");
    let network = Headers {
        src_port: 0,
        dst_port: 0,
        tcp_flags: 0,
        header_len: 0,
        l4: L4::None,
        l4_offset: None,
        end: End::Malformed,
        ..syn
    };
    assert_eq!(patched("tcp syn", Ethernet, &[(14, 0x44)]), network, "header of 16 bytes");
    assert_eq!(
        patched("tcp syn", Ethernet, &[(17, 19)]),
        Headers { ip_len: 19, ..network },
        "total length below the header's"
    );
    assert_eq!(
        patched("tcp syn", Ethernet, &[(17, 0)]),
        Headers { ip_len: 0, ..network },
        "a total length of 0 is no super-packet's if the bytes fit the field"
    );
    let wrong_version = patched("tcp syn", Ethernet, &[(14, 0x65)]);
    assert_eq!((wrong_version.l3, wrong_version.end), (L3::None, End::Malformed));
    let tcp = Headers { header_len: 0, end: End::Malformed, ..syn };
    assert_eq!(patched("tcp syn", Ethernet, &[(46, 0x40)]), tcp, "data offset of 16 bytes");
    let beyond = Headers { end: End::Truncated, tcp_flags: 0x10, ip_len: 40, ds: 2, ..tcp };
    assert_eq!(
        patched("tcp ack", Ethernet, &[(46, 0x60)]),
        beyond,
        "options beyond IP's length, though padding is there"
    );
    let v6_udp = patched("v6 udp", Ip, &[(5, 3)]);
    assert_eq!((v6_udp.l4, v6_udp.l4_offset, v6_udp.end), (L4::None, Some(40), End::Truncated));
    let wrong_version = patched("v6 udp", Ip, &[(0, 0x50)]);
    assert_eq!(wrong_version, Headers { l3_offset: Some(0), end: End::Malformed, ..Headers::EMPTY });
    // Hop-by-hop options behind destination options.
    let late = patched("v6 chain", Ip, &[(48, 0)]);
    assert_eq!((late.protocol, late.l4, late.end), (0, L4::None, End::Malformed));
    // TCP in place of ICMPv6, ICMPv6 in IPv4: the numbers have no meaning there.
    assert_eq!(patched("v6 echo", Ip, &[(6, 1)]).end, End::Opaque);
    assert_eq!(patched("icmp echo", Ethernet, &[(23, 58)]).end, End::Opaque);
    assert_eq!(patched("dccp", Ethernet, &[(38, 2)]).end, End::Malformed);
}

#[test]
fn every_bit_of_the_fragment_fields() {
    for bit in 0..16u8 {
        let [high, low] = (1u16 << bit).to_be_bytes();
        // IPv4: 13 bits of offset, more fragments, do not fragment, reserved (RFC 791 section 3.1).
        let h = patched("tcp syn", Ethernet, &[(20, high), (21, low)]);
        let expected = match bit {
            0..13 => Fragment::Later,
            13 => Fragment::First,
            _ => Fragment::Whole,
        };
        assert_eq!((h.fragment, h.l4 == L4::Tcp), (expected, expected != Fragment::Later), "bit {bit}");
        // IPv6: more fragments, 2 reserved, 13 bits of offset (RFC 8200 section 4.5).
        let h = patched("v6 first", Ip, &[(42, high), (43, low)]);
        let expected = match bit {
            0 => Fragment::First,
            1 | 2 => Fragment::Whole,
            _ => Fragment::Later,
        };
        assert_eq!((h.fragment, h.l4 == L4::Udp), (expected, expected != Fragment::Later), "bit {bit}");
    }
    // A first fragment is not a later piece as well, but an atomic one may be fragmented further.
    let nested = |outer| {
        let second = "1100 0001 00000008 00350036 00080000";
        Headers::parse_ip(&hex(&format!("60000000 0018 2c40 {V6_PAIR} 2c00 {outer} 00000007 {second}")))
    };
    let h = nested("0001");
    assert_eq!((h.fragment, h.protocol, h.l4, h.end), (Fragment::First, 44, L4::None, End::Malformed));
    let h = nested("0000");
    assert_eq!((h.fragment, h.protocol, h.l4, h.end), (Fragment::First, 17, L4::Udp, End::Whole));
    // A later fragment whose IPv4 options are cut.
    let mut options = packet("udp options", Ethernet);
    options[21] = 1;
    let end = |len| Headers::parse_ethernet(&options[..len]).end;
    assert_eq!((end(41), end(42)), (End::Truncated, End::Whole));
}

#[test]
fn only_queries_have_an_identifier() {
    for kind in 0..=255u8 {
        let v4 = patched("icmp echo", Ethernet, &[(34, kind)]);
        let v6 = patched("v6 echo", Ip, &[(40, kind)]);
        // Echo answer and request, timestamp request and answer (RFC 792); echo (RFC 4443).
        let (in_v4, in_v6) = ([0, 8, 13, 14].contains(&kind), [128, 129].contains(&kind));
        assert_eq!(v4.dst_port, if in_v4 { 0xabcd } else { 0 }, "{kind}");
        assert_eq!(v6.dst_port, if in_v6 { 0x0bad } else { 0 }, "{kind}");
    }
}

#[test]
fn walks_are_bounded() {
    let tags = |n: usize| hex(&format!("{MAC} {} 0800 {}", "8100 0001".repeat(n), &TCP_SYN[4..]));
    let h = Headers::parse_ethernet(&tags(MAX_VLAN_TAGS));
    assert_eq!((h.l3_offset, h.l4, h.end), (Some(46), L4::Tcp, End::Whole));
    let h = Headers::parse_ethernet(&tags(MAX_VLAN_TAGS + 1));
    assert_eq!((h.ethertype, h.l3_offset, h.l3, h.end), (0x8100, None, L3::None, End::TooDeep));
    assert_eq!((h.vlan, h.inner_vlan), (Some(1), Some(1)));

    let chain = |n: usize| {
        let len = 8 * n + 8;
        let next = "3c00010400000000".repeat(n - 1);
        hex(&format!("60000000 {len:04x} 3c40 {V6_PAIR} {next} 1100010400000000 00350035 00080000"))
    };
    let h = Headers::parse_ip(&chain(MAX_EXTENSIONS));
    assert_eq!((h.l4_offset, h.l4, h.end), (Some(104), L4::Udp, End::Whole));
    let h = Headers::parse_ip(&chain(MAX_EXTENSIONS + 1));
    assert_eq!((h.protocol, h.l4_offset, h.end), (60, None, End::TooDeep));
}

#[test]
fn super_packets_beyond_64_kib_take_the_length_at_hand() {
    let mut v4 = packet("tcp data", Ethernet);
    v4[20..22].fill(0);
    v4.resize(18 + 70_000, 0x55);
    let h = Headers::parse_ethernet(&v4);
    assert_eq!((h.ip_len, h.payload_len, h.header_len, h.end), (70_000, 69_960, 58, End::Whole));
    let mut v6 = packet("v6 udp", Ip);
    v6[4..6].fill(0);
    v6.resize(40 + 65_535, 0x55);
    let h = Headers::parse_ip(&v6);
    assert_eq!((h.ip_len, h.l4, h.end), (40, L4::None, End::Truncated), "this fits the field");
    v6.push(0x55);
    let h = Headers::parse_ip(&v6);
    assert_eq!((h.ip_len, h.payload_len, h.end), (65_576, 65_528, End::Whole));
}
