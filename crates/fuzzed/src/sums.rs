//! Checksums of a frame, computed apart from the code under test where that is possible.

use txweir_core::packet::checksum::Sum;
use txweir_core::packet::headers::{End, Fragment, Headers, L3, L4};

/// The place of a transport checksum, and the bytes that it covers.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// First byte of the transport header.
    pub start: usize,
    /// The byte behind the packet.
    pub end: usize,
    /// Bytes from `start` to the checksum.
    pub offset: usize,
}

/// Returns the segment of a TCP or UDP packet, if the frame has the whole of it.
pub fn segment(frame: &[u8], h: &Headers) -> Option<Segment> {
    let offset = match h.l4 {
        L4::Tcp => 16,
        L4::Udp => 6,
        _ => return None,
    };
    let (l3, start) = (usize::from(h.l3_offset?), usize::from(h.l4_offset?));
    let end = l3 + h.ip_len as usize;
    let whole = h.end == End::Whole && h.fragment == Fragment::Whole && end <= frame.len();
    (whole && start + offset + 2 <= end).then_some(Segment { start, end, offset })
}

/// Returns the sum of the pseudo-header of a segment.
pub fn pseudo(frame: &[u8], h: &Headers, of: Segment) -> Sum {
    let l3 = usize::from(h.l3_offset.unwrap_or(0));
    let addresses = match h.l3 {
        L3::Ipv6 => &frame[l3 + 8..l3 + 40],
        _ => &frame[l3 + 12..l3 + 20],
    };
    let len = of.end - of.start;
    Sum::default().bytes(addresses).word(u16::from(h.protocol)).word((len >> 16) as u16).word(len as u16)
}

/// Writes the checksums that the headers of a frame ask for: of the IPv4 header, and of TCP or UDP.
pub fn repair(frame: &mut [u8]) {
    let h = Headers::parse_ethernet(frame);
    let Some(l3) = h.l3_offset.map(usize::from) else { return };
    if h.l3 == L3::Ipv4 {
        let header = l3 + usize::from(frame[l3] & 15) * 4;
        if header <= frame.len() && header >= l3 + 20 {
            frame[l3 + 10..l3 + 12].fill(0);
            let sum = Sum::default().bytes(&frame[l3..header]).checksum();
            frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        }
    }
    let Some(of) = segment(frame, &h) else { return };
    let at = of.start + of.offset;
    if h.l4 == L4::Udp {
        // The length of UDP is that of the segment.
        frame[of.start + 4..of.start + 6].copy_from_slice(&((of.end - of.start) as u16).to_be_bytes());
    }
    frame[at..at + 2].fill(0);
    let sum = pseudo(frame, &h, of).bytes(&frame[of.start..of.end]).finish();
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Names the checksum of a frame that is wrong, if one is.
pub fn wrong(frame: &[u8]) -> Option<&'static str> {
    let h = Headers::parse_ethernet(frame);
    let l3 = usize::from(h.l3_offset?);
    if h.l3 == L3::Ipv4 {
        let header =
            frame.get(l3..l3 + usize::from(frame[l3] & 15) * 4).filter(|header| header.len() >= 20)?;
        if Sum::default().bytes(header).partial() != 0xffff {
            return Some("IPv4 header");
        }
    }
    let of = segment(frame, &h)?;
    let field = &frame[of.start + of.offset..of.start + of.offset + 2];
    let none = h.l4 == L4::Udp && field == [0, 0];
    let right = none || pseudo(frame, &h, of).bytes(&frame[of.start..of.end]).partial() == 0xffff;
    (!right).then_some("TCP or UDP")
}
