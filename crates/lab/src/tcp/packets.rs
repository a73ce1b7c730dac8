//! The packets of a connection end: a segment becomes a frame with the headers of IP and TCP.

use txweir_core::Instant;
use txweir_transport::Segment;
use txweir_transport::wire::{Codec, HEADER_MAX as TCP_MAX};

use crate::frame::{Below, Frame, HEADER_MAX};
use crate::ip::{Family, Network};
use crate::tcp::Label;

/// The packets of an end: its addresses and their label.
#[derive(Debug)]
pub(super) struct Packets {
    /// The headers below TCP; ports are with the codec.
    pub(super) network: Network,
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
        let len = self.network.family.header() + self.codec.write(seg, &mut tcp);
        match self.network.family {
            Family::V4 => header[V4..V4 + TCP_MAX].copy_from_slice(&tcp),
            Family::V6 => header[V6..V6 + TCP_MAX].copy_from_slice(&tcp),
        }
        let ip_len = len as u32 + seg.len;
        let ds = self.label.ds | seg.ecn as u8;
        self.network.write(&mut header, ds, ip_len);
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
