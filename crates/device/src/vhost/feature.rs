//! The features of the device (VIRTIO 1.2 sections 5.1.3, 6 and "Vhost-user Protocol"), and the
//! work on frames that follows from those that the driver has accepted.

use crate::vnet::{Gso, VnetHdr};

/// The device finishes the checksum of a frame.
const CSUM: u64 = 1 << 0;
/// The driver finishes the checksum of a frame.
const GUEST_CSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const HOST_ECN: u64 = 1 << 13;
/// A frame may lie in several buffers of the driver.
pub(super) const MRG_RXBUF: u64 = 1 << 15;
/// A queue of commands.
const CTRL_VQ: u64 = 1 << 17;
/// Several pairs of queues.
pub(super) const MQ: u64 = 1 << 22;
const ANY_LAYOUT: u64 = 1 << 27;
const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
/// The frontend knows the features of the protocol (`VHOST_USER_F_PROTOCOL_FEATURES`).
pub(super) const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
const GUEST_USO4: u64 = 1 << 54;
const GUEST_USO6: u64 = 1 << 55;
const HOST_USO: u64 = 1 << 56;

/// All that this device has.
pub(super) const ALL: u64 = CSUM
    | GUEST_CSUM
    | GUEST_TSO4
    | GUEST_TSO6
    | GUEST_ECN
    | HOST_TSO4
    | HOST_TSO6
    | HOST_ECN
    | MRG_RXBUF
    | CTRL_VQ
    | MQ
    | ANY_LAYOUT
    | INDIRECT_DESC
    | EVENT_IDX
    | PROTOCOL_FEATURES
    | VERSION_1
    | GUEST_USO4
    | GUEST_USO6
    | HOST_USO;

/// The features that a driver has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Features(pub(super) u64);

impl Features {
    const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
    pub(super) const fn event_idx(self) -> bool {
        self.has(EVENT_IDX)
    }
    pub(super) const fn indirect(self) -> bool {
        self.has(INDIRECT_DESC)
    }
    pub(super) const fn mergeable(self) -> bool {
        self.has(MRG_RXBUF)
    }
    /// True if a ring has commands.
    pub(super) const fn commands(self) -> bool {
        self.has(CTRL_VQ)
    }
    /// True if there are several pairs of queues.
    pub(super) const fn several_pairs(self) -> bool {
        self.has(MQ)
    }
    /// True if a ring is used only once it is enabled.
    pub(super) const fn enables(self) -> bool {
        self.has(PROTOCOL_FEATURES)
    }

    /// Returns the bytes of the header ahead of each frame (VIRTIO 1.2 section 5.1.6.1).
    pub(super) const fn header(self) -> usize {
        if self.has(VERSION_1) || self.has(MRG_RXBUF) { 12 } else { 10 }
    }

    /// Returns the header of a frame of `len` bytes that the guest sends, without what a guest may
    /// not say; `None` if it asks for work that was not agreed on or that the frame does not allow.
    pub(super) fn accept(self, mut hdr: VnetHdr, len: usize) -> Option<VnetHdr> {
        // Only a device may say that a checksum is right.
        hdr.data_valid = false;
        if hdr.needs_csum {
            let end = usize::from(hdr.csum_start) + usize::from(hdr.csum_offset) + 2;
            if !self.has(CSUM) || end > len {
                return None;
            }
        } else {
            (hdr.csum_start, hdr.csum_offset) = (0, 0);
        }
        let agreed = match hdr.gso {
            Gso::None => {
                (hdr.gso_size, hdr.ecn) = (0, false);
                true
            }
            Gso::TcpV4 => self.has(HOST_TSO4),
            Gso::TcpV6 => self.has(HOST_TSO6),
            Gso::UdpL4 => self.has(HOST_USO),
            Gso::Other(_) => false,
        };
        let whole = !hdr.is_gso() || hdr.needs_csum && hdr.gso_size > 0;
        let told = !hdr.ecn || self.has(HOST_ECN);
        hdr.hdr_len = hdr.hdr_len.min(u16::try_from(len).unwrap_or(u16::MAX));
        (agreed && whole && told).then_some(hdr)
    }

    /// True if the guest takes a super-frame of this kind whole.
    pub(super) fn takes_whole(self, hdr: &VnetHdr) -> bool {
        let kind = match hdr.gso {
            Gso::None => true,
            Gso::TcpV4 => self.has(GUEST_TSO4),
            Gso::TcpV6 => self.has(GUEST_TSO6),
            // The header does not say which of the two the datagrams are.
            Gso::UdpL4 => self.has(GUEST_USO4 | GUEST_USO6),
            Gso::Other(_) => false,
        };
        kind && (!hdr.ecn || self.has(GUEST_ECN))
    }

    /// True if the guest finishes checksums.
    pub(super) const fn takes_undone(self) -> bool {
        self.has(GUEST_CSUM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn super_frame() -> VnetHdr {
        let (csum_start, csum_offset) = (34, 16);
        VnetHdr {
            needs_csum: true,
            gso: Gso::TcpV4,
            hdr_len: 54,
            gso_size: 1448,
            csum_start,
            csum_offset,
            ..VnetHdr::default()
        }
    }

    #[test]
    fn a_guest_says_only_what_it_may() {
        let all = Features(ALL);
        assert_eq!(all.accept(super_frame(), 4000), Some(super_frame()));
        let lies = VnetHdr { data_valid: true, csum_start: 9, gso_size: 7, ecn: true, ..VnetHdr::default() };
        assert_eq!(all.accept(lies, 60), Some(VnetHdr::default()));
        assert_eq!(all.accept(super_frame(), 51), None, "the field lies behind the end");
        assert_eq!(all.accept(VnetHdr { needs_csum: false, ..super_frame() }, 4000), None);
        assert_eq!(all.accept(VnetHdr { gso_size: 0, ..super_frame() }, 4000), None);
        assert_eq!(all.accept(VnetHdr { gso: Gso::Other(3), ..super_frame() }, 4000), None);
        for missing in [CSUM, HOST_TSO4] {
            assert_eq!(Features(ALL & !missing).accept(super_frame(), 4000), None);
        }
        let ecn = VnetHdr { ecn: true, ..super_frame() };
        assert_eq!((all.accept(ecn, 4000), Features(ALL & !HOST_ECN).accept(ecn, 4000)), (Some(ecn), None));
    }

    #[test]
    fn a_guest_gets_whole_what_it_takes() {
        let all = Features(ALL);
        let udp = VnetHdr { gso: Gso::UdpL4, ..super_frame() };
        for (hdr, missing) in [
            (super_frame(), GUEST_TSO4),
            (VnetHdr { gso: Gso::TcpV6, ..super_frame() }, GUEST_TSO6),
            (udp, GUEST_USO4),
            (udp, GUEST_USO6),
            (VnetHdr { ecn: true, ..super_frame() }, GUEST_ECN),
        ] {
            assert!(all.takes_whole(&hdr) && !Features(ALL & !missing).takes_whole(&hdr), "{hdr:?}");
        }
        assert!(Features::default().takes_whole(&VnetHdr::default()));
        assert_eq!((Features(VERSION_1).header(), Features(MRG_RXBUF).header()), (12, 12));
        assert_eq!(Features::default().header(), 10);
    }
}
