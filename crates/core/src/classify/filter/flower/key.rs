//! The fields of a packet, as words of a key. A field that the packet does not have is zero.

use super::{Field, WORDS};
use crate::classify::packet::Packet;
use crate::packet::headers::{End, Fragment, Headers, L3, L4, ethertype};

/// The words of a packet, with room for the range of a filter.
pub(super) type Words = [u64; WORDS + 1];

/// RARP (RFC 903): ARP's header with another ethertype.
const RARP: u16 = 0x8035;
/// MPLS, unicast and multicast (RFC 5332).
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// A session of PPPoE (RFC 2516).
const PPPOE: u16 = 0x8864;
/// PPP's protocol numbers of IPv4, IPv6, and MPLS (RFC 1332, RFC 5072, RFC 3032), and the ethertype
/// of each.
const PPP: [(u16, u16); 4] =
    [(0x21, ethertype::IPV4), (0x57, ethertype::IPV6), (0x281, MPLS[0]), (0x283, MPLS[1])];
/// Bytes of PPPoE's header, with PPP's protocol.
const PPPOE_HEADER: usize = 8;
/// Largest number of entries of a label stack that are read.
const LSES_MAX: usize = 7;

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    chunk(bytes, at).map_or(0, |b| u16::from_be_bytes(*b))
}

#[inline]
fn mac(bytes: &[u8], at: usize) -> u64 {
    chunk::<6>(bytes, at).map_or(0, |b| u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]]))
}

/// Fields of PPPoE's header, if the packet is of a session.
#[derive(Default)]
struct Inner {
    session: u16,
    ppp: u16,
    /// Ethertype of the payload, if it is known.
    kind: Option<u16>,
}

fn pppoe(bytes: &[u8], at: usize) -> Option<Inner> {
    let b = chunk::<PPPOE_HEADER>(bytes, at)?;
    // Version 1, type 1, code 0: a session's data (RFC 2516 section 4).
    if b[..2] != [0x11, 0] {
        return None;
    }
    let ppp = u16::from_be_bytes([b[6], b[7]]);
    let kind = PPP.iter().find(|(number, _)| *number == ppp).map(|(_, kind)| *kind);
    Some(Inner { session: u16::from_be_bytes([b[2], b[3]]), ppp, kind })
}

/// The headers of a packet, and the bytes that their offsets refer to.
struct View<'a> {
    headers: &'a Headers,
    bytes: &'a [u8],
    /// Ethertype of the network header.
    kind: u16,
    /// Offset of the network header.
    network: usize,
}

/// True for IPv4 with a header that declares less than five words.
#[cold]
fn is_short(frame: &[u8], packet: &Packet<'_>) -> bool {
    packet.headers.l3 == L3::Ipv4 && frame.get(packet.network()).is_some_and(|first| first & 15 < 5)
}

/// Reads the words of which `needs` has a bit. The caller passes zeroed words: a return value would
/// be copied.
#[inline]
pub(super) fn read(packet: &Packet<'_>, needs: u32, words: &mut Words) {
    let h = &packet.headers;
    let frame = packet.frame.bytes();
    // A header that is shorter than its fixed part counts as none.
    let headers = if h.end == End::Malformed && is_short(frame, packet) { &Headers::EMPTY } else { h };
    let view = View { headers, bytes: frame, kind: h.ethertype, network: packet.network() };
    if h.ethertype == PPPOE {
        read_session(view, packet, frame, needs, words);
    } else {
        fill(words, needs, &view, packet, frame);
    }
}

/// Does the work of `read` for a packet whose network header is that of PPPoE.
#[cold]
fn read_session(view: View<'_>, packet: &Packet<'_>, frame: &[u8], needs: u32, words: &mut Words) {
    let Some(inner) = pppoe(frame, view.network) else {
        fill(words, needs, &view, packet, frame);
        return;
    };
    let behind = frame.get(view.network + PPPOE_HEADER..).unwrap_or(&[]);
    let inside = match inner.kind {
        Some(ethertype::IPV4 | ethertype::IPV6) => Headers::parse_ip(behind),
        _ => Headers::EMPTY,
    };
    let fits = inner.kind == Some(inside.ethertype);
    let view = match inner.kind {
        Some(kind) => {
            let headers = if fits { &inside } else { &Headers::EMPTY };
            View { headers, bytes: behind, kind, network: 0 }
        }
        None => view,
    };
    fill(words, needs, &view, packet, frame);
    Field::PPPOE.write(words, 1);
    Field::PPPOE_SID.write(words, inner.session.into());
    Field::PPP_PROTO.write(words, inner.ppp.into());
}

/// Words that most filters do not read.
const RARE: u32 = !(1 | 1 << 3 | 1 << 4 | ADDRESSES);
/// Words of addresses.
const ADDRESSES: u32 = 0xf << 6;

#[inline]
fn fill(words: &mut Words, needs: u32, v: &View<'_>, packet: &Packet<'_>, frame: &[u8]) {
    let h = &packet.headers;
    if needs & 1 != 0 {
        words[0] = u64::from(v.kind) << 48 | link_address(h, frame, 0);
    }
    if needs & 1 << 3 != 0 {
        words[3] = tag_count(h) << 56 | bytes_of_ip(v);
    }
    if needs & 1 << 4 != 0 {
        words[4] = ports(v);
    }
    if needs & ADDRESSES != 0 {
        [words[6], words[7]] = address(v, &v.headers.src, 14);
        [words[8], words[9]] = address(v, &v.headers.dst, 24);
    }
    if needs & RARE != 0 {
        fill_rare(words, needs, v, packet, frame);
    }
}

fn fill_rare(words: &mut Words, needs: u32, v: &View<'_>, packet: &Packet<'_>, frame: &[u8]) {
    let h = &packet.headers;
    words[1] = link_address(h, frame, 6) | u64::from(first_tag(h)) << 48;
    words[2] = tags(h, frame);
    words[5] = u64::from(packet.iif.0) << 32 | u64::from(second_tag(h, frame)) << 16;
    if is_arp(v) {
        words[10] = mac(v.bytes, v.network + 8);
        words[11] = mac(v.bytes, v.network + 18);
    }
    if MPLS.contains(&v.kind) {
        words[10] |= entries(v) << 48;
        // Each word holds two entries.
        for pair in (0..4).filter(|pair| needs & 1 << (12 + pair) != 0) {
            words[12 + pair] = label_pair(v, pair);
        }
    }
}

#[inline]
fn link_address(h: &Headers, frame: &[u8], at: usize) -> u64 {
    if h.link_len == 0 { 0 } else { mac(frame, at) }
}

/// Returns the ethertype of the first tag, 0 without a tag.
fn first_tag(h: &Headers) -> u16 {
    if h.vlan.is_some() { h.link_protocol } else { 0 }
}

/// Returns the ethertype of the second tag, 0 without one. It is behind the first tag, which is
/// behind two addresses and an ethertype.
fn second_tag(h: &Headers, frame: &[u8]) -> u16 {
    if h.inner_vlan.is_some() { be16(frame, 16) } else { 0 }
}

/// Returns identifier, priority and next ethertype of the two outermost tags.
fn tags(h: &Headers, frame: &[u8]) -> u64 {
    // The identifier is in the low twelve bits and the priority in the high three; the bit between
    // them is dropped.
    let control = |tci: u16| u64::from(tci & 0xfff) | u64::from(tci >> 13) << 12;
    let Some(first) = h.vlan else { return 0 };
    let one = control(first) | u64::from(be16(frame, 16)) << 16;
    match h.inner_vlan {
        Some(second) => one | (control(second) | u64::from(be16(frame, 20)) << 16) << 32,
        None => one,
    }
}

/// Returns the number of tags.
#[inline]
fn tag_count(h: &Headers) -> u64 {
    match (h.vlan, h.inner_vlan, h.l3_offset) {
        (None, ..) => 0,
        (Some(_), None, _) => 1,
        // Each tag has four bytes, between the link header and the network header.
        (_, Some(_), Some(at)) => u64::from(at.saturating_sub(u16::from(h.link_len)) / 4),
        (_, Some(_), None) => 2,
    }
}

/// True if transport headers are read: the reference reads none of fragments, the first included.
fn is_whole(h: &Headers) -> bool {
    matches!(h.l3, L3::Ipv4 | L3::Ipv6) && h.fragment == Fragment::Whole
}

/// Returns word 3: protocol, TOS, TTL, ICMP's type and code, ARP's operation, fragment. The caller
/// adds the tags.
#[inline]
fn bytes_of_ip(v: &View<'_>) -> u64 {
    let h = v.headers;
    let mut word = 0;
    match h.l3 {
        L3::Ipv4 | L3::Ipv6 => {
            word |= u64::from(h.protocol) | u64::from(h.ds) << 8 | u64::from(h.ttl) << 16;
            word |= match h.fragment {
                Fragment::Whole => 0,
                Fragment::First => 3 << 48,
                Fragment::Later => 1 << 48,
            };
            if is_whole(h) && matches!(h.l4, L4::Icmp | L4::Icmpv6) && h.header_len != 0 {
                word |= u64::from(h.src_port >> 8) << 24 | u64::from(h.src_port & 0xff) << 32;
            }
        }
        L3::None | L3::Arp => {
            if let Some(op) = arp_operation(v) {
                word |= u64::from(op) << 40;
            }
        }
    }
    word
}

/// Returns ports and TCP's flags; `read_session` adds the session of PPPoE.
#[inline]
fn ports(v: &View<'_>) -> u64 {
    let h = v.headers;
    if !is_whole(h) {
        return 0;
    }
    let Some((src, dst)) = h.ports() else { return 0 };
    let ports = u64::from(src) | u64::from(dst) << 16;
    match (h.l4, h.l4_offset) {
        (L4::Tcp, Some(at)) => {
            let at = usize::from(at);
            // The data offset must be at least five words, and the fixed header complete.
            let word = be16(v.bytes, at + 12);
            let good = word >> 12 >= 5 && v.bytes.len() >= at + 20;
            ports | if good { u64::from(word & 0xfff) << 32 } else { 0 }
        }
        _ => ports,
    }
}

/// Returns the operation of ARP over Ethernet for IPv4, if it is a request or a reply.
fn arp_operation(v: &View<'_>) -> Option<u8> {
    if !matches!(v.kind, ethertype::ARP | RARP) {
        return None;
    }
    let b = chunk::<28>(v.bytes, v.network)?;
    match (b[..6] == [0, 1, 8, 0, 6, 4], u16::from_be_bytes([b[6], b[7]])) {
        (true, 1) => Some(1),
        (true, 2) => Some(2),
        _ => None,
    }
}

#[inline]
fn is_arp(v: &View<'_>) -> bool {
    arp_operation(v).is_some()
}

/// Returns the two halves of an address of IP, or of ARP at the offset `at`.
#[inline]
fn address(v: &View<'_>, of_ip: &[u8; 16], at: usize) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, .., w, x, y, z] = *of_ip;
    match v.headers.l3 {
        L3::Ipv4 => [0, u32::from_be_bytes([w, x, y, z]).into()],
        L3::Ipv6 => {
            let low = of_ip.last_chunk().map_or(0, |low| u64::from_be_bytes(*low));
            [u64::from_be_bytes([a, b, c, d, e, f, g, h]), low]
        }
        L3::Arp | L3::None if is_arp(v) => {
            [0, chunk::<4>(v.bytes, v.network + at).map_or(0, |b| u32::from_be_bytes(*b).into())]
        }
        L3::Arp | L3::None => [0; 2],
    }
}

/// Returns the entries of a label stack, the outermost first; the bottom of the stack is the last.
fn stack<'v>(v: &View<'v>) -> impl Iterator<Item = u32> + use<'v> {
    let bytes = if MPLS.contains(&v.kind) { v.bytes.get(v.network..).unwrap_or(&[]) } else { &[] };
    let mut over = false;
    let entries = bytes.chunks_exact(4).take(LSES_MAX).filter_map(<[u8]>::first_chunk);
    entries.map(|entry| u32::from_be_bytes(*entry)).take_while(move |entry| {
        let below = over;
        over = entry & 0x100 != 0;
        !below
    })
}

/// Returns a bit for each entry, the outermost in the lowest bit.
fn entries(v: &View<'_>) -> u64 {
    (1 << stack(v).count()) - 1
}

/// Returns two entries of a label stack, the second in the high half.
fn label_pair(v: &View<'_>, pair: usize) -> u64 {
    let mut two = stack(v).skip(pair * 2);
    let (first, second) = (two.next().unwrap_or(0), two.next().unwrap_or(0));
    u64::from(first) | u64::from(second) << 32
}
