//! The bytes of a packet from its row of the table, as `oracle/frames.py` makes them, and the facts
//! about these bytes that a qdisc may know.

use std::net::{Ipv4Addr, Ipv6Addr};

use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::{Headers, ethertype, protocol};
use txweir_core::{Detail, Meta};

use super::trace::{Extra, Row};

/// Address of the device's peer.
const PEER: [u8; 6] = [2, 0xff, 0, 0, 0, 2];
/// Most bytes of a packet: a trace of one line could ask for 4 GB otherwise. Linux makes no
/// super-packet of more (`GSO_MAX_SIZE`).
const SIZE_MAX: u32 = 8 * 65_535;
/// Longest frame that a packet socket writes into one buffer with its header: a page, less the
/// headroom of 16 bytes and one byte.
const LINEAR_MAX: u32 = 4079;
/// First two bytes of the source address; the packet's number follows.
const SENDER: [u8; 2] = [2, 0];

/// Returns the frame of packet number `seq`, `size` bytes with its Ethernet header; an error names
/// the fault of the row.
pub(super) fn frame(row: &Row, seq: u32, size: u32, extra: Extra) -> Result<Vec<u8>, String> {
    if size > SIZE_MAX {
        return Err(format!("size: expected at most {SIZE_MAX} bytes, given {size}"));
    }
    let mut f = Vec::with_capacity(size as usize);
    f.extend(PEER);
    f.extend(SENDER);
    f.extend(seq.to_be_bytes());
    for tci in &row.vlan {
        f.extend(ethertype::VLAN.to_be_bytes());
        f.extend(tci.to_be_bytes());
    }
    match row.proto.as_str() {
        "raw" => f.extend(row.ethertype.to_be_bytes()),
        "arp" => arp(&mut f, row)?,
        "udp" | "tcp" | "icmp" if row.src.contains(':') => ipv6(&mut f, row, size, extra)?,
        "udp" | "tcp" | "icmp" => ipv4(&mut f, row, seq, size, extra)?,
        other => return Err(format!("proto: expected udp, tcp, icmp, arp or raw, given \"{other}\"")),
    }
    if f.len() > size as usize {
        return Err(format!("a size of {size} bytes, but the headers alone are {}", f.len()));
    }
    f.resize(size as usize, 0);
    Ok(f)
}

/// Returns the details of a frame for kinds that need more than its metadata.
pub(super) fn detail(frame: &[u8], hasher: &FlowHasher) -> Detail {
    Detail::of(&Headers::parse_ethernet(frame), frame, hasher)
}

/// Returns the metadata of a frame that a qdisc may know.
pub(super) fn meta(frame: &[u8], row: &Row, hasher: &FlowHasher) -> Meta {
    let h = Headers::parse_ethernet(frame);
    let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let mut meta = Meta::new(len)
        .hash(hasher.five_tuple(&h))
        .priority(row.priority)
        .ecn(h.ecn())
        .gso(if row.gso > 0 { h.header_len } else { 0 }, row.gso);
    meta.mark = row.mark;
    meta.queue = row.queue;
    meta.ds = h.ds;
    meta.protocol = h.ethertype;
    meta.tcp_control = h.is_tcp_control();
    meta
}

/// True if Linux can mark a packet (PARITY.md: ecn-pages). The IP header of a longer frame lies in
/// a page of its own, where the kernel does not write; that of a super-packet does not. A cake that
/// washes a DSCP brings the header to the front.
pub(super) const fn is_markable(row: &Row, size: u32, washing: bool) -> bool {
    size <= LINEAR_MAX || row.gso > 0 || washing && row.dscp > 0
}

/// Returns the segments of a super-packet, each as a packet of its own.
pub(super) fn pieces(m: &Meta) -> impl Iterator<Item = Meta> {
    let m = *m;
    let header = u32::from(m.header_len);
    let payload = m.len.saturating_sub(header);
    (0..u32::from(m.segs)).map(move |i| {
        let before = i * u32::from(m.gso_size);
        let len = header + payload.saturating_sub(before).min(u32::from(m.gso_size));
        let mut piece = m;
        (piece.len, piece.wire_len, piece.segs, piece.gso_size, piece.header_len) = (len, len, 1, 0, 0);
        piece
    })
}

/// Returns the DS byte of a row's packets; 0 for packets that are not IP.
pub(super) fn ds(row: &Row) -> u8 {
    if matches!(row.proto.as_str(), "arp" | "raw") { 0 } else { row.dscp << 2 | row.ecn }
}

fn v4(text: &str) -> Result<[u8; 4], String> {
    let address: Ipv4Addr =
        text.parse().map_err(|_| format!("expected an IPv4 address, given \"{text}\""))?;
    Ok(address.octets())
}

fn v6(text: &str) -> Result<[u8; 16], String> {
    let address: Ipv6Addr =
        text.parse().map_err(|_| format!("expected an IPv6 address, given \"{text}\""))?;
    Ok(address.octets())
}

fn arp(f: &mut Vec<u8>, row: &Row) -> Result<(), String> {
    f.extend(ethertype::ARP.to_be_bytes());
    // Ethernet, IPv4, the lengths of their addresses, a request.
    f.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    f.extend([2, 0, 0, 0, 0, 1]);
    f.extend(v4(&row.src)?);
    f.extend([0; 6]);
    f.extend(v4(&row.dst)?);
    Ok(())
}

fn ipv4(f: &mut Vec<u8>, row: &Row, seq: u32, size: u32, extra: Extra) -> Result<(), String> {
    f.extend(ethertype::IPV4.to_be_bytes());
    let (src, dst) = (v4(&row.src)?, v4(&row.dst)?);
    let number = number(row, false);
    let rest = size.saturating_sub(f.len() as u32 + 20);
    // A length that does not fit its field is 0 there (as in Linux for super-packets beyond 64
    // KiB).
    let whole = u16::try_from(rest + 20).unwrap_or(0);
    let mut ip = vec![0x45, row.dscp << 2 | row.ecn];
    ip.extend(whole.to_be_bytes());
    ip.extend((seq as u16).to_be_bytes()); // the low 16 bits, as in every datagram
    ip.extend([0x40, 0, 64, number, 0, 0]);
    ip.extend(src);
    ip.extend(dst);
    let check = !sum(&ip);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    f.extend(ip);
    let mut pseudo = Vec::new();
    if number != protocol::ICMP {
        pseudo.extend(src);
        pseudo.extend(dst);
        pseudo.extend([0, number]);
        pseudo.extend((rest as u16).to_be_bytes()); // the low 16 bits
    }
    transport(f, row, number, rest, &pseudo, extra)
}

fn ipv6(f: &mut Vec<u8>, row: &Row, size: u32, extra: Extra) -> Result<(), String> {
    f.extend(ethertype::IPV6.to_be_bytes());
    let (src, dst) = (v6(&row.src)?, v6(&row.dst)?);
    let number = number(row, true);
    let rest = size.saturating_sub(f.len() as u32 + 40);
    let ds = u32::from(row.dscp << 2 | row.ecn);
    f.extend((6 << 28 | ds << 20 | row.label).to_be_bytes());
    f.extend((rest as u16).to_be_bytes()); // the low 16 bits
    f.extend([number, 64]);
    f.extend(src);
    f.extend(dst);
    let mut pseudo = Vec::new();
    pseudo.extend(src);
    pseudo.extend(dst);
    pseudo.extend(rest.to_be_bytes());
    pseudo.extend(u32::from(number).to_be_bytes());
    transport(f, row, number, rest, &pseudo, extra)
}

fn number(row: &Row, v6: bool) -> u8 {
    match (row.proto.as_str(), v6) {
        ("tcp", _) => protocol::TCP,
        ("icmp", false) => protocol::ICMP,
        ("icmp", true) => protocol::ICMPV6,
        _ => protocol::UDP,
    }
}

/// Appends the transport header and its payload, `rest` bytes together, with their checksum.
fn transport(
    f: &mut Vec<u8>,
    row: &Row,
    number: u8,
    rest: u32,
    pseudo: &[u8],
    extra: Extra,
) -> Result<(), String> {
    let mut l4: Vec<u8> = Vec::new();
    let check_at = match number {
        protocol::TCP => {
            let options = hex(&row.options)?;
            l4.extend(row.sport.to_be_bytes());
            l4.extend(row.dport.to_be_bytes());
            l4.extend(extra.tcp_seq.unwrap_or(1).to_be_bytes());
            l4.extend(extra.ack.unwrap_or(1).to_be_bytes());
            let words =
                u8::try_from((20 + options.len()) / 4).ok().filter(|w| *w < 16 && options.len() % 4 == 0);
            let words = words.ok_or("options: expected at most 40 bytes, a multiple of 4")?;
            l4.extend([words << 4, control_bits(row.flags.as_deref().unwrap_or("A"))?]);
            l4.extend(row.window.unwrap_or(65_535).to_be_bytes());
            l4.extend([0; 4]);
            l4.extend(options);
            16
        }
        protocol::UDP => {
            l4.extend(row.sport.to_be_bytes());
            l4.extend(row.dport.to_be_bytes());
            l4.extend((rest as u16).to_be_bytes()); // the low 16 bits
            l4.extend([0; 2]);
            6
        }
        _ => {
            let echo = if number == protocol::ICMP { 8 } else { 128 };
            l4.extend([echo, 0, 0, 0]);
            l4.extend(row.sport.to_be_bytes());
            l4.extend([0, 1]);
            2
        }
    };
    // The payload is zeros, which do not change the sum. The device finishes the checksum of a
    // super-packet.
    let check = match row.gso {
        0 => !sum(&[pseudo, &l4].concat()),
        _ => sum(pseudo),
    };
    l4[check_at..check_at + 2].copy_from_slice(&check.to_be_bytes());
    f.extend(l4);
    Ok(())
}

fn control_bits(letters: &str) -> Result<u8, String> {
    letters.chars().try_fold(0, |bits, letter| {
        let bit = "FSRPAUEC"
            .find(letter)
            .ok_or_else(|| format!("flags: expected of FSRPAUEC, given \"{letter}\""))?;
        Ok(bits | 1 << bit)
    })
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("options: expected hexadecimal, given \"{text}\"");
    let digits = text.chars().map(|c| c.to_digit(16)).collect::<Option<Vec<u32>>>().ok_or_else(wrong)?;
    if digits.len() % 2 == 1 {
        return Err(wrong());
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()) // two digits are a byte
}

/// Returns the sum of the Internet checksum (RFC 1071), not complemented.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b)));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16 // folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_no_device_takes_is_refused_before_it_is_made() {
        let row = Row { proto: "raw".into(), ..Row::default() };
        assert_eq!(frame(&row, 0, SIZE_MAX, Extra::default()).map(|f| f.len()), Ok(524_280));
        let error = frame(&row, 0, u32::MAX, Extra::default()).unwrap_err();
        assert_eq!(error, "size: expected at most 524280 bytes, given 4294967295");
    }

    /// The output of `oracle/frames.py` for the same rows.
    #[test]
    fn the_bytes_are_the_oracles() {
        let udp = Row {
            proto: "udp".into(),
            src: "10.0.0.1".into(),
            dst: "10.0.0.2".into(),
            sport: 1001,
            dport: 2001,
            ..Row::default()
        };
        let golden = include_str!("frames.txt");
        let rows = [
            (Row { dscp: 46, ecn: 2, ..udp.clone() }, 7, 60, Extra::default()),
            (
                Row {
                    proto: "tcp".into(),
                    flags: Some("SA".into()),
                    options: "0101080a".into(),
                    vlan: vec![5],
                    ..udp.clone()
                },
                1,
                70,
                Extra { ack: Some(9), tcp_seq: Some(3), txtime: None },
            ),
            (Row { proto: "tcp".into(), gso: 1448, ..udp.clone() }, 70_000, 60, Extra::default()),
            (
                Row { src: "fd00::1".into(), dst: "fd00::2".into(), label: 77, dscp: 10, ..udp.clone() },
                2,
                70,
                Extra::default(),
            ),
            (
                Row { proto: "icmp".into(), src: "fd00::1".into(), dst: "fd00::2".into(), ..udp.clone() },
                3,
                70,
                Extra::default(),
            ),
            (Row { proto: "icmp".into(), ..udp.clone() }, 4, 50, Extra::default()),
            (Row { proto: "arp".into(), ..udp.clone() }, 5, 60, Extra::default()),
            (Row { proto: "raw".into(), ethertype: 0x88b5, ..Row::default() }, 6, 20, Extra::default()),
        ];
        let ours: Vec<String> = rows
            .iter()
            .map(|(row, seq, size, extra)| {
                let bytes = frame(row, *seq, *size, *extra).expect("a frame");
                bytes.iter().map(|b| format!("{b:02x}")).collect()
            })
            .collect();
        assert_eq!(ours, golden.lines().collect::<Vec<_>>());
    }
}
