//! The TCP segments that are control, row by row and in every wrapping. Sending those first leaves
//! FIN, RST and data of each flow in their order: over random connections, through rough and
//! through the bands of fq, fq_codel and prio.

use std::collections::BTreeMap;

use crate::common;
use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, pick};
use txweir_core::base::rng::Rng;
use txweir_core::packet::headers::{Headers, tcp_flag::*};
use txweir_core::{Instant, Meta, Nanos};

/// A segment: flags, payload, options of TCP.
#[derive(Clone, Copy, Debug)]
struct Segment {
    flags: u8,
    payload: usize,
    options: &'static [u8],
}

const fn segment(flags: u8, payload: usize) -> Segment {
    Segment { flags, payload, options: &[] }
}

/// Two NOPs and one SACK block (RFC 2018).
const SACK: &[u8] = &[1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 12];
/// Largest segment, window scale, SACK permitted.
const SYN_OPTIONS: &[u8] = &[2, 4, 5, 180, 1, 3, 3, 7, 4, 2, 1, 1];
/// A timestamp (RFC 7323).
const TIMESTAMP: &[u8] = &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];

/// Returns the rows: name, segment, true if it is marked.
fn rows() -> Vec<(&'static str, Segment, bool)> {
    let with = |segment: Segment, options| Segment { options, ..segment };
    let mut rows = vec![
        ("SYN, no payload", segment(SYN, 0), true),
        ("SYN with options", with(segment(SYN, 0), SYN_OPTIONS), true),
        ("SYN that sets up ECN", segment(SYN | ECE | CWR, 0), true),
        ("SYN+ACK", segment(SYN | ACK, 0), true),
        ("SYN+ACK with options", with(segment(SYN | ACK, 0), SYN_OPTIONS), true),
        ("pure ACK", segment(ACK, 0), true),
        ("pure ACK with a timestamp", with(segment(ACK, 0), TIMESTAMP), true),
        ("duplicate ACK with SACK", with(segment(ACK, 0), SACK), true),
        // A window update is a pure ACK with another window.
        ("window update", segment(ACK, 0), true),
        ("ECE-only ACK", segment(ACK | ECE, 0), true),
        ("CWR ACK", segment(ACK | CWR, 0), true),
        ("zero-length urgent notification", segment(ACK | URG, 0), true),
        ("FIN, no payload", segment(FIN, 0), false),
        ("FIN+ACK, no payload", segment(FIN | ACK, 0), false),
        ("FIN+PSH+ACK", segment(FIN | PSH | ACK, 0), false),
        ("RST", segment(RST, 0), false),
        ("RST+ACK", segment(RST | ACK, 0), false),
        ("SYN+FIN", segment(SYN | FIN, 0), false),
        ("SYN+RST", segment(SYN | RST, 0), false),
        ("no flags", segment(0, 0), false),
        ("1-byte window probe", segment(ACK, 1), false),
        // The segment of Linux has no payload, and cannot be told from an ACK; that of DragonFly
        // has a byte.
        ("keep-alive with a byte", segment(ACK, 1), false),
        ("keep-alive without a byte", segment(ACK, 0), true),
    ];
    for flags in [SYN, SYN | ACK, ACK, ACK | PSH, ACK | URG, ACK | ECE, FIN | ACK, RST | ACK, 0] {
        rows.push(("data and anything", segment(flags, 1), false));
        rows.push(("data and anything", segment(flags, 1448), false));
    }
    rows
}

/// Returns the bytes of a segment.
fn tcp(s: Segment) -> Vec<u8> {
    let words = 5 + s.options.len().div_ceil(4) as u8;
    let mut b = vec![0xc0, 0xde, 0, 80, 0, 0, 0, 2, 0, 0, 0, 3, words << 4, s.flags, 0x72, 0x10, 0, 0, 0, 0];
    b.extend_from_slice(s.options);
    b.resize(usize::from(words) * 4, 0);
    b.resize(b.len() + s.payload, 0x5a);
    b
}

/// Wraps a segment in an IPv4 header with these options, as this piece of a datagram (fragment
/// word).
fn ipv4(segment: &[u8], options: &[u8], fragment: u16) -> Vec<u8> {
    let header = 20 + options.len();
    let len = (header + segment.len()) as u16;
    let mut b = vec![0x40 | (header / 4) as u8, 0];
    b.extend_from_slice(&len.to_be_bytes());
    b.extend_from_slice(&[0, 1]);
    b.extend_from_slice(&fragment.to_be_bytes());
    b.extend_from_slice(&[64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
    b.extend_from_slice(options);
    b.extend_from_slice(segment);
    b
}

/// Wraps a segment in an IPv6 header and these extension headers: number, bytes (without the
/// first).
fn ipv6(segment: &[u8], extensions: &[(u8, &[u8])]) -> Vec<u8> {
    let mut next = 6;
    let mut body = Vec::new();
    for (number, bytes) in extensions.iter().rev() {
        body.splice(0..0, [next].into_iter().chain(bytes.iter().copied()));
        next = *number;
    }
    body.extend_from_slice(segment);
    let mut b = vec![0x60, 0, 0, 0];
    b.extend_from_slice(&(body.len() as u16).to_be_bytes());
    b.extend_from_slice(&[next, 64]);
    b.extend_from_slice(&[0x20; 32]);
    b.extend_from_slice(&body);
    b
}

/// Hop-by-hop or destination options: padding only.
const PADDED: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
/// A routing header of type 2.
const ROUTING: &[u8] = &[2, 2, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
/// A fragment header of a datagram in one piece, of a first piece, and of a later one.
const ATOMIC: &[u8] = &[0, 0, 0, 0, 0, 0, 7];
const FIRST: &[u8] = &[0, 0, 1, 0, 0, 0, 7];
const LATER: &[u8] = &[0, 0, 8, 0, 0, 0, 7];

/// Wraps a packet in a link header with these tags: ethertype and tag.
fn framed(ip: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let mut b = vec![2; 12];
    for (ethertype, tag) in tags {
        b.extend_from_slice(&ethertype.to_be_bytes());
        b.extend_from_slice(&tag.to_be_bytes());
    }
    b.extend_from_slice(if ip[0] >> 4 == 4 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
    b.extend_from_slice(ip);
    b
}

/// Returns every IP packet that carries this segment whole, by name.
fn wrappings(segment: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("IPv4", ipv4(segment, &[], 0x4000)),
        ("IPv4 with router alert", ipv4(segment, &[0x94, 4, 0, 0], 0)),
        ("IPv4 with forty bytes of options", ipv4(segment, &[1; 40], 0)),
        ("IPv6", ipv6(segment, &[])),
        ("IPv6, hop-by-hop", ipv6(segment, &[(0, PADDED)])),
        ("IPv6, destination, routing", ipv6(segment, &[(60, PADDED), (43, ROUTING)])),
        ("IPv6, atomic fragment", ipv6(segment, &[(44, ATOMIC)])),
        (
            "IPv6, five extensions",
            ipv6(segment, &[(0, PADDED), (60, PADDED), (43, ROUTING), (44, ATOMIC), (60, PADDED)]),
        ),
    ]
}

#[test]
fn every_row_of_the_truth_table() {
    for (row, segment, marked) in rows() {
        for (wrapping, ip) in wrappings(&tcp(segment)) {
            assert_eq!(Headers::parse_ip(&ip).is_tcp_control(), marked, "{row}: {wrapping}");
            for tags in [&[][..], &[(0x8100, 5)], &[(0x88a8, 7), (0x8100, 0x2005)]] {
                let mut frame = framed(&ip, tags);
                let told = |frame: &[u8]| Headers::parse_ethernet(frame).is_tcp_control();
                assert_eq!(told(&frame), marked, "{row}: {wrapping}, {} tags", tags.len());
                // Padding of the link is no payload.
                frame.resize(frame.len().max(60), 0);
                assert_eq!(told(&frame), marked, "{row}: {wrapping}, {} tags, padded", tags.len());
            }
        }
    }
}

/// A packet that carries a piece of a datagram may carry data in another piece: none is marked.
#[test]
fn no_fragment_is_marked() {
    for (row, segment, _) in rows() {
        let segment = tcp(segment);
        for (piece, ip) in [
            ("first, IPv4", ipv4(&segment, &[], 0x2000)),
            ("later, IPv4", ipv4(&segment, &[], 0x2001)),
            ("last, IPv4", ipv4(&segment, &[], 0x0001)),
            ("first, IPv6", ipv6(&segment, &[(44, FIRST)])),
            ("later, IPv6", ipv6(&segment, &[(44, LATER)])),
        ] {
            assert!(!Headers::parse_ip(&ip).is_tcp_control(), "{row}: {piece}");
        }
    }
}

/// A segment cut anywhere before the end of its TCP header is not marked; cut behind it, the
/// lengths in its headers decide.
#[test]
fn a_cut_segment_is_marked_only_if_its_header_is_whole() {
    for (row, segment, marked) in rows() {
        let bytes = tcp(segment);
        for (wrapping, ip) in wrappings(&bytes) {
            let whole = ip.len() - segment.payload;
            for len in 0..=ip.len() {
                let told = Headers::parse_ip(&ip[..len]).is_tcp_control();
                assert_eq!(told, marked && len >= whole, "{row}: {wrapping}, cut to {len}");
            }
        }
    }
}

#[test]
fn headers_that_contradict_themselves_are_not_marked() {
    let ack = tcp(segment(ACK, 0));
    let changed = |at: usize, to: u8| {
        let mut ip = ipv4(&ack, &[], 0);
        ip[at] = to;
        Headers::parse_ip(&ip).is_tcp_control()
    };
    assert!(changed(8, 1), "a time to live does not matter");
    for (what, at, to) in [
        ("another version", 0, 0x55),
        ("a header of 16 bytes", 0, 0x44),
        ("a header longer than the packet", 0, 0x4f),
        ("a length of less than its header", 3, 19),
        ("a length of less than TCP's", 3, 39),
        ("a length of one byte of data", 3, 41),
        ("another protocol", 9, 17),
        ("a TCP header of 16 bytes", 20 + 12, 0x40),
        ("a TCP header longer than the packet", 20 + 12, 0xf0),
    ] {
        assert!(!changed(at, to), "{what}");
    }
    // Hop-by-hop options at a wrong place, and more extensions than the parser accepts.
    assert!(!Headers::parse_ip(&ipv6(&ack, &[(60, PADDED), (0, PADDED)])).is_tcp_control());
    assert!(!Headers::parse_ip(&ipv6(&ack, &[(60, PADDED); 9])).is_tcp_control());
    assert!(Headers::parse_ip(&ipv6(&ack, &[(60, PADDED); 8])).is_tcp_control());
    // The parser does not enter IP in IP, nor bytes that only resemble TCP.
    let mut tunnel = ipv4(&ipv4(&ack, &[], 0), &[], 0);
    tunnel[9] = 4;
    assert!(!Headers::parse_ip(&tunnel).is_tcp_control());
}

/// Any bytes over a good frame: no panic, and a marked segment is TCP, whole, without payload, FIN
/// and RST.
#[test]
fn whatever_is_marked_is_a_segment_without_data() {
    let (mut rng, mut marked) = (Rng::new(5), 0);
    for _ in 0..200_000 {
        let (_, segment, _) = *pick(&mut rng, &rows()[..23]);
        let all = wrappings(&tcp(segment));
        let mut frame = framed(&pick(&mut rng, &all).1, &[]);
        for _ in 0..rng.below(4) {
            let at = rng.below(frame.len() as u64) as usize;
            frame[at] = rng.next_u64() as u8;
        }
        frame.truncate(rng.below(frame.len() as u64 * 4) as usize);
        let h = Headers::parse_ethernet(&frame);
        if h.is_tcp_control() {
            marked += 1;
            assert!((h.protocol, h.payload_len) == (6, 0) && h.tcp_flags & (FIN | RST) == 0, "{h:?}");
        }
    }
    assert!(marked > 50_000, "{marked}");
}

/// Draws the output of a host on one connection: segments in order, by flags and payload.
fn connection(rng: &mut Rng) -> Vec<(u8, u32)> {
    let mut all = vec![*pick(rng, &[(SYN, 0), (SYN | ACK, 0)])];
    for _ in 0..rng.below(30) {
        all.push(match rng.below(10) {
            0..5 => (ACK | if chance(rng, 1, 3) { PSH } else { 0 }, 1 + rng.below(1448) as u32),
            5 => (ACK | URG, 0),
            // A super-packet.
            6 => (ACK, 10_000 + rng.below(40_000) as u32),
            _ => (ACK, 0),
        });
    }
    // The end of the connection: orderly, with data on the FIN, or abrupt. Only ACKs follow.
    all.push(*pick(rng, &[(FIN | ACK, 0), (FIN | PSH | ACK, 700), (RST | ACK, 0), (RST, 0)]));
    for _ in 0..rng.below(4) {
        all.push((ACK, 0));
    }
    all
}

/// Returns a segment as a qdisc sees it: read from its bytes, as any packet is.
fn meta(flow: u32, flags: u8, payload: u32) -> Meta {
    let bytes = framed(&ipv4(&tcp(segment(flags, payload as usize)), &[], 0x4000), &[]);
    let h = Headers::parse_ethernet(&bytes);
    let mut m = Meta::new(bytes.len() as u32).hash(flow.wrapping_mul(0x9e37_79b9)).priority(flow % 16);
    m.tcp_control = h.is_tcp_control();
    if payload > 1448 { m.gso(h.header_len, 1448) } else { m }
}

/// Runs random connections through a qdisc that is slower than they are. Returns how often control
/// overtook data.
fn runs(kind: &str, options: &str) -> u64 {
    let mut overtaken = 0;
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut lane = Lane::new(kind, options);
        let flows = 1 + rng.below(12) as u32;
        let mut left: BTreeMap<u32, Vec<(u8, u32)>> =
            (0..flows).map(|flow| (flow, connection(&mut rng).into_iter().rev().collect())).collect();
        // For each packet: its flow, and true if it is control.
        let mut sent: Vec<(u32, bool)> = Vec::new();
        // For each flow: the last packet that left, of data, FIN and RST, and of control.
        let mut last: BTreeMap<(u32, bool), u32> = BTreeMap::new();
        let mut now = Instant::ZERO;
        let mut departed = 0;
        let busy = 1 + rng.below(3);
        while !left.is_empty() || lane.backlog() > 0 {
            now += Nanos::from_micros(rng.below(200));
            if !left.is_empty() && rng.below(4) < busy {
                let flow = *pick(&mut rng, &left.keys().copied().collect::<Vec<_>>());
                let Some((flags, payload)) = left.get_mut(&flow).and_then(Vec::pop) else {
                    left.remove(&flow);
                    continue;
                };
                let m = meta(flow, flags, payload);
                let id = sent.len() as u32;
                sent.push((flow, m.tcp_control));
                let _ = lane.put(now, id, m);
                continue;
            }
            match lane.take(now) {
                Out::Sent(id, _) => {
                    let (flow, control) = sent[id as usize];
                    let before = last.insert((flow, control), id);
                    assert!(
                        before.is_none_or(|before| before < id),
                        "{kind} {options}, seed {seed}: {id} left after {before:?} of flow {flow}, control {control}"
                    );
                    // Control that left before data that came earlier.
                    let overtaker = last.get(&(flow, true)).is_some_and(|ack| !control && *ack > id);
                    overtaken += u64::from(overtaker);
                    departed += 1;
                }
                Out::Wait(t) => now = t,
                Out::Nothing => {}
            }
        }
        let dropped = lane.drops().len();
        assert_eq!(departed + dropped, sent.len(), "{kind} {options}, seed {seed}");
    }
    overtaken
}

/// No FIN and no RST overtakes data of its flow, no data other data, no control other control. Some
/// packets are overtaken; otherwise the test would prove nothing.
#[test]
fn fin_rst_and_data_keep_their_order() {
    for (kind, options) in [
        ("rough", ""),
        ("rough", "profile df2013"),
        ("rough", "limit 12 profile df2013"),
        ("rough", "limit 12 profile df2017"),
        ("rough", "limit 1000 ack_budget 5%"),
        ("rough", "limit 20 ack_budget 20%"),
        ("fq", "tcpctl 50%"),
        ("fq", "tcpctl 100% maxrate 20mbit"),
        ("fq_codel", "tcpctl 10%"),
        ("fq_codel", "limit 12 tcpctl 100%"),
        ("prio", "tcpctl 30%"),
    ] {
        let overtaken = runs(kind, options);
        assert!(overtaken > 100, "{kind} {options}: {overtaken}");
    }
}

/// Without the option no packet is overtaken.
#[test]
fn without_a_band_all_keep_their_order() {
    for kind in ["fq", "fq_codel", "prio", "pfifo"] {
        assert_eq!(runs(kind, ""), 0, "{kind}");
    }
}

/// A band takes its share of the departures while others wait, all of them while no other packet
/// waits, and has room of its own.
#[test]
fn a_band_has_its_share() {
    for kind in ["fq", "fq_codel", "prio"] {
        let ack = || meta(3, ACK, 0);
        for (options, least, most) in
            [("tcpctl 10%", 9, 12), ("tcpctl 50%", 48, 52), ("tcpctl 100%", 99, 100)]
        {
            let mut lane = Lane::new(kind, options);
            let (mut acks, mut all, mut id) = (0u64, 0u64, 0);
            for round in 0..400u64 {
                for _ in 0..250 {
                    let _ = lane.put(Instant(round * 1_000_000), id, ack());
                    id += 1;
                }
                // More packets than can leave.
                for flow in 10..22 {
                    let _ = lane.put(Instant(round * 1_000_000), id, meta(flow, ACK, 1400));
                    id += 1;
                }
                for _ in 0..10 {
                    let Out::Sent(_, m) = lane.take(Instant(round * 1_000_000)) else {
                        panic!("{kind}: no packet")
                    };
                    // The initial credit is spent by then.
                    if round >= 100 {
                        acks += u64::from(if m.tcp_control { m.wire_len } else { 0 });
                        all += u64::from(m.wire_len);
                    }
                }
            }
            let share = acks * 100 / all;
            assert!((least..=most).contains(&share), "{kind} {options}: {share} %");
        }
        // No other packet waits: the band is not held back, and its drops are its own.
        let mut lane = Lane::new(kind, "tcpctl 1%");
        lane.fill(Instant::ZERO, 0, 1000, ack());
        let _ = lane.put(Instant::ZERO, 1000, ack());
        assert_eq!(lane.drops().len(), 1);
        assert_eq!(lane.ids(Instant::ZERO, 2000), (0..1000).collect::<Vec<_>>());
    }
}

/// Credit that control spends while no other packet waits is full again when others come.
#[test]
fn a_band_that_was_alone_has_its_credit() {
    for kind in ["fq", "fq_codel", "prio"] {
        let mut lane = Lane::new(kind, "tcpctl 10%");
        // A tenth of 64 KiB is spent by 122 ACKs of 60 bytes; the next one finds the qdisc empty.
        lane.fill(Instant::ZERO, 0, 200, meta(3, ACK, 0));
        assert_eq!(lane.ids(Instant::ZERO, 200), (0..200).collect::<Vec<_>>(), "{kind}");
        lane.fill(Instant::ZERO, 200, 1, meta(10, ACK, 1400));
        lane.fill(Instant::ZERO, 201, 1, meta(3, ACK, 0));
        assert_eq!(lane.ids(Instant::ZERO, 2), [201, 200], "{kind}");
    }
}

/// The option changes at any time, and no waiting packet is lost.
#[test]
fn a_band_comes_and_goes() {
    for kind in ["fq", "fq_codel", "prio"] {
        let mut lane = Lane::new(kind, "");
        let put = |lane: &mut Lane, id| {
            let m = if id % 2 == 0 { meta(1, ACK, 0) } else { meta(1, ACK, 500) };
            let _ = lane.put(Instant::ZERO, id, m);
        };
        (0..4).for_each(|id| put(&mut lane, id));
        lane.change(Instant::ZERO, txweir_core::Handle::ROOT, "tcpctl 100%").unwrap();
        (4..8).for_each(|id| put(&mut lane, id));
        assert_eq!(lane.ids(Instant::ZERO, 1), [4], "{kind}");
        lane.change(Instant::ZERO, txweir_core::Handle::ROOT, "tcpctl 0%").unwrap();
        (8..12).for_each(|id| put(&mut lane, id));
        // Packets that wait in the band leave first; new packets do not.
        assert_eq!(lane.ids(Instant::ZERO, 99), [6, 0, 1, 2, 3, 5, 7, 8, 9, 10, 11], "{kind}");
        lane.change(Instant::ZERO, txweir_core::Handle::ROOT, "tcpctl 0%").unwrap();
        assert!(!common::options::printed(lane.root().qdisc()).contains(&"tcpctl".to_owned()));
        assert_eq!(lane.drops(), []);
    }
}
