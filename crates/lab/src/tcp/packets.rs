//! The packets of a connection end: a segment becomes a frame with the headers of IP and TCP.

use txweir_core::Instant;
use txweir_core::packet::headers::protocol;
use txweir_transport::Segment;
use txweir_transport::wire::{Codec, HEADER_MAX as TCP_MAX};

use crate::frame::{Below, Frame, HEADER_MAX};
use crate::ip::{Family, Header};
use crate::tcp::Label;

/// The packets of an end: its addresses and their label.
#[derive(Debug)]
pub(super) struct Packets {
    /// IPv4 addresses of this host and of the other; ports are with the codec.
    pub(super) hosts: [[u8; 4]; 2],
    pub(super) codec: Codec,
    pub(super) label: Label,
}

impl Packets {
    /// Returns the packet of a segment.
    pub(super) fn frame(&self, now: Instant, seg: &Segment) -> Frame {
        const V4: usize = Family::V4.header();
        const V6: usize = Family::V6.header();
        let mut header = [0; HEADER_MAX];
        let mut tcp = [0; TCP_MAX];
        let Label { family, hash, .. } = self.label;
        let len = family.header() + self.codec.write(seg, &mut tcp);
        match family {
            Family::V4 => header[V4..V4 + TCP_MAX].copy_from_slice(&tcp),
            Family::V6 => header[V6..V6 + TCP_MAX].copy_from_slice(&tcp),
        }
        let ip_len = len as u32 + seg.len;
        let ds = self.label.ds | seg.ecn as u8;
        let hosts = self.hosts;
        Header { hosts, family, protocol: protocol::TCP, ds, hash, ip_len }.write(&mut header);
        let mut frame = Frame::unit(&header[..len], ip_len, seg.gso);
        frame.sent = now;
        self.label.put(&mut frame, ds);
        frame.ahead = u32::try_from(seg.departs.saturating_since(now).0).unwrap_or(u32::MAX);
        if seg.len > 0 {
            frame.below = Below::Whole;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use txweir_core::packet::headers::{Headers, L4};
    use txweir_transport::{EcnBytes, Flags, Sacks};

    use super::*;

    /// The longest header: three blocks behind time stamps, over both versions of IP.
    #[test]
    fn an_acknowledgement_with_three_blocks_survives() {
        let mut sacks = Sacks::default();
        for i in 1..=3 {
            sacks.push(i * 10_000, i * 10_000 + 1_448, 3);
        }
        let stamps = Some((7, 9));
        let blocks = Segment { flags: Flags::ACK, ack: 5, sacks, stamps, ..Segment::default() };
        let ecn_bytes = Some(EcnBytes::of(true, &[1, 2, 3]));
        let counters = Segment { flags: Flags::ACK, ack: 5, stamps, ecn_bytes, ..Segment::default() };
        for (family, lengths) in [(Family::V4, [80, 64]), (Family::V6, [100, 84])] {
            let of = |local: u8, remote: u8| {
                let codec = Codec { local: 77, remote: 77, port: local.into(), peer_port: remote.into() };
                let label = Label { ds: 0xb8, hash: 0xabcd_e000, family, ..Label::default() };
                Packets { hosts: [local, remote].map(|n| [10, 0, 0, n]), codec, label }
            };
            let (a, b) = (of(1, 2), of(2, 1));
            for (seg, len) in [blocks, counters].into_iter().zip(lengths) {
                let frame = a.frame(Instant::ZERO, &seg);
                assert_eq!((frame.header().len(), frame.ip_len(), frame.payload_len()), (len, len as u32, 0));
                assert_eq!(b.codec.read(frame.head().transport(), 0, 0), Some(seg));
                let h = Headers::parse_ip(frame.header());
                assert_eq!((h.l4, h.ip_len, h.ds, h.src_port), (L4::Tcp, len as u32, 0xb8, 1));
                assert!(h.is_complete() && h.is_tcp_control());
                assert_eq!(h.flow_label, if family == Family::V6 { 0xa_bcde } else { 0 });
            }
        }
    }
}
