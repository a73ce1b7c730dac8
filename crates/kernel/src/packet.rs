//! Packets of the lab, which are headers and a length, as frames of a card, and back.

use txweir_core::packet::checksum::Sum;
use txweir_core::packet::headers::Headers;
use txweir_device::{FrameRef, Gso, VnetHdr};
use txweir_lab::frame::Frame;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// The address of all others on the link of a kernel.
const OTHERS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns the Ethernet address of the host with this IPv4 address.
pub(crate) const fn station([a, b, c, d]: [u8; 4]) -> [u8; 6] {
    [2, 1, a, b, c, d]
}

/// Returns the packet of a frame; `None` if it is not one of IP.
pub(crate) fn from_card(hdr: &VnetHdr, bytes: &[u8]) -> Option<Frame> {
    let headers = Headers::parse_ethernet(bytes);
    let packet = bytes.get(ETHERNET..).filter(|_| headers.l3_offset == Some(ETHERNET as u16))?;
    let header_len = usize::from(headers.header_len).checked_sub(ETHERNET)?;
    let gso_size = if hdr.gso == Gso::None { 0 } else { hdr.gso_size };
    let len = u32::try_from(packet.len()).ok()?;
    Some(match headers.protocol {
        TCP | UDP => Frame::unit(packet.get(..header_len)?, len, gso_size),
        _ => Frame::headers(packet, header_len, len),
    })
}

/// Writes the frame of a packet for the host with this address into `room`: the payload is zeros.
/// Returns the frame; `None` if there is no room.
pub(crate) fn to_card<'a>(frame: &Frame, address: [u8; 4], room: &'a mut [u8]) -> Option<FrameRef<'a>> {
    let header = frame.header();
    let len = ETHERNET + usize::try_from(frame.ip_len()).ok()?;
    let bytes = room.get_mut(..len)?;
    bytes.fill(0);
    bytes[..6].copy_from_slice(&station(address));
    bytes[6..12].copy_from_slice(&OTHERS);
    bytes[12..14].copy_from_slice(&frame.protocol.to_be_bytes());
    bytes.get_mut(ETHERNET..ETHERNET + header.len())?.copy_from_slice(header);
    let headers = Headers::parse_ethernet(bytes);
    set_ds(&mut bytes[ETHERNET..], frame.ds);
    let (start, offset) = match (headers.l4_offset, headers.protocol) {
        (Some(start), TCP) => (start, 16),
        (Some(start), UDP) => (start, 6),
        _ => return Some(FrameRef { hdr: VnetHdr::default(), bytes }),
    };
    let ip_header = &bytes[ETHERNET..usize::from(start).min(len)];
    let transport = len - usize::from(start).min(len);
    let sum = pseudo_sum(ip_header, headers.protocol, transport);
    let at = usize::from(start) + offset;
    bytes.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
    let gso = match (frame.segs() > 1, headers.protocol, frame.protocol) {
        (false, ..) => Gso::None,
        (true, UDP, _) => Gso::UdpL4,
        (true, _, 0x86dd) => Gso::TcpV6,
        (true, ..) => Gso::TcpV4,
    };
    let hdr = VnetHdr {
        needs_csum: true,
        gso,
        gso_size: if gso == Gso::None { 0 } else { frame.gso_size() },
        hdr_len: if gso == Gso::None { 0 } else { headers.header_len },
        csum_start: start,
        csum_offset: offset as u16,
        ..VnetHdr::default()
    };
    Some(FrameRef { hdr, bytes })
}

/// Sets the DS field of a packet, and the checksum of an IPv4 header (RFC 791 section 3.1).
fn set_ds(packet: &mut [u8], ds: u8) {
    match packet {
        [first, second, ..] if *first >> 4 == 6 => {
            *first = *first & 0xf0 | ds >> 4;
            *second = *second & 0x0f | ds << 4;
        }
        [first, _, ..] => {
            let len = usize::from(*first & 15) * 4;
            packet[1] = ds;
            if let Some(header) = packet.get_mut(..len).filter(|header| header.len() >= 20) {
                header[10..12].fill(0);
                let sum = Sum::default().bytes(header).checksum();
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
        }
        _ => {}
    }
}

/// Returns the sum of a pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo_sum(ip_header: &[u8], protocol: u8, transport: usize) -> u16 {
    let addresses = if ip_header.first().is_some_and(|first| first >> 4 == 6) { 8..40 } else { 12..20 };
    let sum = Sum::default().bytes(ip_header.get(addresses).unwrap_or_default());
    // A packet has at most 65535 bytes.
    sum.word(protocol.into()).word(transport as u16).partial()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame of TCP over IPv4 with this payload, and what is left undone on it.
    fn segment(payload: usize, gso_size: u16) -> (VnetHdr, Vec<u8>) {
        let mut bytes = vec![0; ETHERNET + 40 + payload];
        bytes[12] = 8;
        let ip = &mut bytes[ETHERNET..];
        (ip[0], ip[8], ip[9], ip[32]) = (0x45, 64, TCP, 0x50);
        ip[2..4].copy_from_slice(&(40 + payload as u16).to_be_bytes());
        ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        ip[20..24].copy_from_slice(&[0x80, 1, 19, 137]);
        let gso = if gso_size > 0 { Gso::TcpV4 } else { Gso::None };
        (VnetHdr { gso, gso_size, ..VnetHdr::default() }, bytes)
    }

    #[test]
    fn a_packet_comes_back_as_it_was() {
        let (hdr, bytes) = segment(2_900, 1_448);
        let mut frame = from_card(&hdr, &bytes).expect("a packet");
        assert_eq!((frame.segs(), frame.ip_len(), frame.payload_len()), (3, 2_940, 2_900));
        frame.ds = 3;
        let mut room = vec![9; 4_000];
        let back = to_card(&frame, [10, 0, 0, 2], &mut room).expect("room");
        assert_eq!(back.bytes.len(), bytes.len());
        assert_eq!(back.bytes[..6], [2, 1, 10, 0, 0, 2]);
        assert_eq!((back.hdr.gso, back.hdr.gso_size, back.hdr.csum_start), (Gso::TcpV4, 1_448, 34));
        let ip = &back.bytes[ETHERNET..ETHERNET + 20];
        assert_eq!(
            (ip[1], Sum::default().bytes(ip).partial()),
            (3, 0xffff),
            "a header whose sum is right has this sum"
        );
        assert_eq!(back.bytes[ETHERNET + 12..ETHERNET + 36], bytes[ETHERNET + 12..ETHERNET + 36]);
        // Ones' complement of the words: addresses, protocol, and length of the segment.
        let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 6, 0x0b, 0x68];
        assert_eq!(back.bytes[50..52], Sum::default().bytes(&pseudo).partial().to_be_bytes());
    }

    #[test]
    fn what_is_no_packet_is_left_out() {
        let (hdr, mut bytes) = segment(0, 0);
        assert_eq!(from_card(&hdr, &bytes).map(|f| f.segs()), Some(1));
        (bytes[12], bytes[13]) = (8, 6);
        assert!(from_card(&hdr, &bytes).is_none());
        assert!(from_card(&hdr, &bytes[..20]).is_none());
        let (hdr, bytes) = segment(100, 0);
        let frame = from_card(&hdr, &bytes).expect("a packet");
        assert!(to_card(&frame, [10, 0, 0, 2], &mut [0; 100]).is_none());
    }
}
