//! From bytes to [`Meta`]: the facts about a frame that a qdisc may use. One pass over the headers,
//! total on any bytes.

use txweir_core::Meta;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_device::{SegmentError, Shape, VnetHdr};

/// Reads the headers of frames.
#[derive(Clone, Debug)]
pub struct Classifier {
    hasher: FlowHasher,
    prio_synack: bool,
    read: u64,
}

impl Classifier {
    /// Makes a reader with the key of the flow hash, which must be secret where untrusted hosts
    /// send.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { hasher: FlowHasher::new(seed), prio_synack: true, read: 0 }
    }

    /// Hashes flows from now on as another reader does.
    pub(crate) const fn hash_as(&mut self, other: &Self) {
        self.hasher = other.hasher;
    }

    /// Sets whether the next frames that are TCP control segments are marked as such; some qdiscs
    /// send marked ones first.
    pub const fn set_prio_synack(&mut self, on: bool) {
        self.prio_synack = on;
    }

    /// True if TCP control segments are marked. True at first.
    #[must_use]
    pub const fn prio_synack(&self) -> bool {
        self.prio_synack
    }

    /// Returns the number of frames whose headers were read.
    #[must_use]
    pub const fn headers_read(&self) -> u64 {
        self.read
    }

    /// Reads a frame: see [`Meta::of`].
    ///
    /// # Errors
    /// For a super-frame whose headers and vnet header do not describe one: it cannot be cut, and
    /// its size on the wire is unknown.
    pub fn read(&mut self, hdr: &VnetHdr, frame: &[u8]) -> Result<(Meta, Headers), SegmentError> {
        let (mut meta, mut headers) = (Meta::new(0), Headers::EMPTY);
        self.read_to(hdr, frame, &mut meta, &mut headers)?;
        Ok((meta, headers))
    }

    /// Reads a frame as `read` does, and writes where the caller says.
    #[inline]
    pub(crate) fn read_to(
        &mut self,
        hdr: &VnetHdr,
        frame: &[u8],
        meta: &mut Meta,
        headers: &mut Headers,
    ) -> Result<(), SegmentError> {
        let shape = Shape::of(hdr, frame)?;
        headers.read_ethernet(frame);
        self.read += 1;
        let len = u32::try_from(frame.len()).map_err(|_| SegmentError::Size)?;
        let header_len = u16::try_from(shape.header_len).map_err(|_| SegmentError::Size)?;
        *meta =
            Meta::of(headers, len, &self.hasher).gso(header_len, if hdr.is_gso() { hdr.gso_size } else { 0 });
        meta.tcp_control &= self.prio_synack;
        Ok(())
    }
}
