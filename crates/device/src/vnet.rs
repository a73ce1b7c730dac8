//! The header that travels beside each frame: the work that the kernel left for the device.
//!
//! Layout: `struct virtio_net_hdr_v1`, VIRTIO 1.2 section 5.1.6, twelve bytes:
//!
//! ```text
//! 0 flags   1 gso_type   2 hdr_len   4 gso_size   6 csum_start   8 csum_offset   10 num_buffers
//! ```
//!
//! TAP devices and packet sockets use the byte order of the machine (the "legacy" order), unless
//! configured otherwise. Packet sockets leave out the last two bytes.

/// Bytes of the header on a TAP device (set there by `TUNSETVNETHDRSZ`).
pub const HDR_LEN: usize = 12;
/// Bytes of the header on a packet socket (`PACKET_VNET_HDR`): no `num_buffers`.
pub(crate) const HDR_LEN_SHORT: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const F_NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`.
const F_DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_ECN`, or-ed into the type.
const GSO_ECN: u8 = 0x80;

/// The kind of a super-frame: the protocol whose header each segment repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gso {
    /// One ordinary frame.
    #[default]
    None,
    /// TCP over IPv4, to be cut every `gso_size` payload bytes.
    TcpV4,
    /// TCP over IPv6, likewise.
    TcpV6,
    /// UDP datagrams of equal size behind one header (`UDP_SEGMENT`), IPv4 or IPv6.
    UdpL4,
    /// A type that this crate does not cut and passes on unchanged. Never holds one of the values
    /// above.
    Other(u8),
}

impl Gso {
    /// Returns the type's number, without the ECN bit (VIRTIO 1.2 section 5.1.6).
    #[must_use]
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::TcpV4 => 1,
            Self::TcpV6 => 4,
            Self::UdpL4 => 5,
            Self::Other(code) => code & !GSO_ECN,
        }
    }

    /// Returns the type with this number; the ECN bit is not part of it and is ignored.
    #[must_use]
    pub(crate) const fn from_code(code: u8) -> Self {
        match code & !GSO_ECN {
            0 => Self::None,
            1 => Self::TcpV4,
            4 => Self::TcpV6,
            5 => Self::UdpL4,
            other => Self::Other(other),
        }
    }
}

/// The work that the sender left undone on one frame. The default value means "none": an ordinary,
/// complete frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VnetHdr {
    /// True if the checksum at `csum_start + csum_offset` holds only the pseudo-header's sum. The
    /// code that puts the frame on a wire must sum from `csum_start` to the end of the frame and
    /// store the result there.
    pub needs_csum: bool,
    /// True if the receiver's kernel has verified the checksum already.
    pub data_valid: bool,
    /// Kind of super-frame.
    pub gso: Gso,
    /// True if the super-frame's TCP header has CWR set, which only the first segment may keep (RFC
    /// 3168 section 6.1.2).
    pub ecn: bool,
    /// Bytes that the sender's kernel holds contiguously. This is a hint for the receiver's
    /// allocation only, and *not* the length of the headers (Linux fills in the linear part of its
    /// buffer). [`crate::Shape`] measures headers.
    pub hdr_len: u16,
    /// Payload bytes per segment of a super-frame; 0 on an ordinary frame.
    pub gso_size: u16,
    /// Bytes from the start of the frame to the first byte that the checksum covers (the transport
    /// header).
    pub csum_start: u16,
    /// Bytes from `csum_start` to the 16-bit checksum field.
    pub csum_offset: u16,
}

impl VnetHdr {
    /// Reads the header in the form of a TAP device. Total: bits without a meaning here are left
    /// out.
    #[must_use]
    pub fn decode(raw: &[u8; HDR_LEN]) -> Self {
        let mut short = [0; HDR_LEN_SHORT];
        short.copy_from_slice(&raw[..HDR_LEN_SHORT]);
        Self::decode_short(&short)
    }

    /// Reads the header in the form of a packet socket.
    #[must_use]
    pub(crate) fn decode_short(raw: &[u8; HDR_LEN_SHORT]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([raw[at], raw[at + 1]]);
        Self {
            needs_csum: raw[0] & F_NEEDS_CSUM != 0,
            data_valid: raw[0] & F_DATA_VALID != 0,
            gso: Gso::from_code(raw[1]),
            ecn: raw[1] & GSO_ECN != 0,
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Returns the header in the form of a TAP device; `num_buffers` is 0, since a frame is one
    /// buffer here.
    #[must_use]
    pub fn encode(&self) -> [u8; HDR_LEN] {
        let mut raw = [0; HDR_LEN];
        raw[..HDR_LEN_SHORT].copy_from_slice(&self.encode_short());
        raw
    }

    /// Returns the header in the form of a packet socket.
    #[must_use]
    pub(crate) fn encode_short(&self) -> [u8; HDR_LEN_SHORT] {
        let mut raw = [0; HDR_LEN_SHORT];
        raw[0] =
            if self.needs_csum { F_NEEDS_CSUM } else { 0 } | if self.data_valid { F_DATA_VALID } else { 0 };
        raw[1] = self.gso.code() | if self.ecn { GSO_ECN } else { 0 };
        for (at, word) in [(2, self.hdr_len), (4, self.gso_size), (6, self.csum_start), (8, self.csum_offset)]
        {
            raw[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        raw
    }

    /// Reads the header in the form of a guest with a device of version 1: little-endian.
    #[must_use]
    pub(crate) fn decode_guest(raw: [u8; HDR_LEN]) -> Self {
        Self::decode(&little_endian(raw))
    }

    /// Returns the header in the form of a guest with a device of version 1, for a frame in so many
    /// buffers.
    #[must_use]
    pub(crate) fn encode_guest(&self, buffers: u16) -> [u8; HDR_LEN] {
        let mut raw = self.encode();
        raw[HDR_LEN_SHORT..].copy_from_slice(&buffers.to_ne_bytes());
        little_endian(raw)
    }

    /// True if the frame is a super-frame, which must be cut before it can go on a wire.
    #[must_use]
    pub fn is_gso(&self) -> bool {
        self.gso != Gso::None
    }

    /// Returns the header of the same frame after `bytes` were inserted in front of its network
    /// header (a VLAN tag that a packet socket delivered beside the frame).
    #[must_use]
    pub(crate) fn moved_by(mut self, bytes: u16) -> Self {
        if self.needs_csum {
            self.csum_start = self.csum_start.saturating_add(bytes);
        }
        if self.hdr_len != 0 {
            self.hdr_len = self.hdr_len.saturating_add(bytes);
        }
        self
    }
}

/// Exchanges the bytes of each word between the order of the machine and little-endian.
fn little_endian(mut raw: [u8; HDR_LEN]) -> [u8; HDR_LEN] {
    if cfg!(target_endian = "big") {
        raw[2..].chunks_exact_mut(2).for_each(|word| word.swap(0, 1));
    }
    raw
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header as Linux delivers it for a TCP super-frame: NEEDS_CSUM, TCPv4 with ECN, hdr_len 66,
    /// mss 1448, csum_start 34, csum_offset 16.
    #[test]
    fn a_tcp_super_frame_in_bytes() {
        let hdr = VnetHdr {
            needs_csum: true,
            data_valid: false,
            gso: Gso::TcpV4,
            ecn: true,
            hdr_len: 66,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
        };
        #[cfg(target_endian = "little")]
        let raw = [1, 0x81, 66, 0, 0xa8, 0x05, 34, 0, 16, 0, 0, 0];
        #[cfg(target_endian = "big")]
        let raw = [1, 0x81, 0, 66, 0x05, 0xa8, 0, 34, 0, 16, 0, 0];
        assert_eq!(hdr.encode(), raw);
        assert_eq!(VnetHdr::decode(&raw), hdr);
        assert_eq!(hdr.encode_short(), raw[..10]);
    }

    #[test]
    fn an_ordinary_frame_is_all_zero() {
        assert_eq!(VnetHdr::default().encode(), [0; 12]);
        assert!(!VnetHdr::decode(&[0; 12]).is_gso());
    }

    #[test]
    fn a_tag_moves_the_checksum_but_not_what_is_absent() {
        let tcp = VnetHdr { needs_csum: true, hdr_len: 54, csum_start: 34, ..VnetHdr::default() };
        assert_eq!((tcp.moved_by(4).csum_start, tcp.moved_by(4).hdr_len), (38, 58));
        assert_eq!(VnetHdr::default().moved_by(4), VnetHdr::default());
    }

    proptest! {
        /// Decoding any bytes and encoding again keeps every bit that has a meaning here.
        #[test]
        fn known_bits_survive(raw in any::<[u8; 12]>()) {
            let again = VnetHdr::decode(&raw).encode();
            prop_assert_eq!(again[0], raw[0] & 3);
            prop_assert_eq!(&again[1..10], &raw[1..10]);
            prop_assert_eq!(&again[10..], &[0, 0]);
        }
    }
}
