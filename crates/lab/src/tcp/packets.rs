//! The packets of a connection end: a segment becomes a frame with the headers of IPv4 and TCP.

use txweir_core::Instant;
use txweir_transport::Segment;
use txweir_transport::wire::{Codec, HEADER_MAX as TCP_MAX};

use crate::frame::{Below, Frame};
use crate::tcp::{IP, Label};

/// The packets of an end: its addresses and their label.
#[derive(Debug)]
pub(super) struct Packets {
    /// The addresses; ports are with the codec.
    pub(super) local: [u8; 4],
    pub(super) remote: [u8; 4],
    pub(super) codec: Codec,
    pub(super) label: Label,
}

impl Packets {
    /// Returns the packet of a segment.
    pub(super) fn frame(&self, now: Instant, seg: &Segment) -> Frame {
        let mut header = [0; IP + TCP_MAX];
        let mut tcp = [0; TCP_MAX];
        let len = IP + self.codec.write(seg, &mut tcp);
        header[IP..].copy_from_slice(&tcp);
        let ip_len = len as u32 + seg.len;
        header[0] = 0x45;
        let ds = self.label.ds | seg.ecn as u8;
        header[1] = ds;
        header[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
        // Don't fragment, 64 hops, TCP (RFC 791 section 3.1).
        (header[6], header[8], header[9]) = (0x40, 64, 6);
        header[12..16].copy_from_slice(&self.local);
        header[16..20].copy_from_slice(&self.remote);
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
