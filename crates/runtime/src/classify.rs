//! From bytes to [`Meta`]: what a qdisc may know of a frame. One pass over the headers, total on any bytes.

use txweir_core::Meta;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_device::{SegmentError, Shape, VnetHdr};

/// Reads frames.
#[derive(Clone, Debug)]
pub struct Classifier {
    hasher: FlowHasher,
    prio_synack: bool,
    read: u64,
}

impl Classifier {
    /// With the key of the flow hash, which must be secret where strangers send.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { hasher: FlowHasher::new(seed), prio_synack: true, read: 0 }
    }

    /// Whether TCP control segments are marked as such, which some qdiscs send first: from the next frame on.
    pub const fn set_prio_synack(&mut self, on: bool) {
        self.prio_synack = on;
    }

    /// Whether they are; at first, yes.
    #[must_use]
    pub const fn prio_synack(&self) -> bool {
        self.prio_synack
    }

    /// Frames whose headers were read.
    #[must_use]
    pub const fn headers_read(&self) -> u64 {
        self.read
    }

    /// Reads a frame. The priority is what Linux gives a forwarded packet, from the TOS field (tc-prio(8)): 0x10,
    /// low delay, is priority 6, which pfifo_fast and prio serve first.
    ///
    /// # Errors
    /// A super-frame whose headers and vnet header do not describe one: nobody could cut it, and what it would
    /// come to on the wire cannot be said.
    pub fn read(&mut self, hdr: &VnetHdr, frame: &[u8]) -> Result<(Meta, Headers), SegmentError> {
        let shape = Shape::of(hdr, frame)?;
        let headers = Headers::parse_ethernet(frame);
        self.read += 1;
        let len = u32::try_from(frame.len()).map_err(|_| SegmentError::Size)?;
        let header_len = u16::try_from(shape.header_len).map_err(|_| SegmentError::Size)?;
        let mut meta = Meta::new(len)
            .hash(self.hasher.five_tuple(&headers))
            .priority(headers.tos_priority())
            .ecn(headers.ecn())
            .gso(header_len, if hdr.is_gso() { hdr.gso_size } else { 0 });
        meta.ds = headers.ds;
        meta.protocol = headers.ethertype;
        meta.tcp_control = self.prio_synack && headers.is_tcp_control();
        Ok((meta, headers))
    }
}
