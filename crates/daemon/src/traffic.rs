//! Generated packets for `link send`: a source whose frames are the smallest possible IPv4 and UDP
//! frames, padded to a length.

use std::io;

use txweir_core::packet::checksum::Sum;
use txweir_device::{Source, VnetHdr};

/// Bytes of the headers: Ethernet 14, IPv4 20, UDP 8.
pub const HEADERS: usize = 42;

/// The destination port of the Discard Protocol (RFC 863): a host that receives such a frame
/// discards it.
const DISCARD: u16 = 9;
/// The first source port that is not reserved; flow n has the n-th after it.
const FIRST_PORT: u16 = 1024;

/// Frames still to be received.
#[derive(Debug)]
pub struct Traffic {
    /// Number of frames.
    pub left: u32,
    /// Length of each, at least [`HEADERS`].
    pub size: usize,
    /// Number of flows to which frames are dealt in turn.
    pub flows: u16,
    /// The TOS field.
    pub tos: u8,
    next_flow: u16,
}

impl Traffic {
    /// Makes frames of `size` bytes, but at least of the length of the headers.
    pub fn new(packets: u32, size: usize, flows: u32, tos: u8) -> Self {
        let flows = u16::try_from(flows).unwrap_or(u16::MAX).min(u16::MAX - FIRST_PORT);
        Self { left: packets, size: size.max(HEADERS), flows: flows.max(1), tos, next_flow: 0 }
    }

    fn write(&self, frame: &mut [u8]) {
        let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
        frame.fill(0);
        // Locally administered addresses (RFC 9542 section 2.1).
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        let ip = &mut frame[14..];
        let total = length(ip.len());
        ip[..2].copy_from_slice(&[0x45, self.tos]);
        ip[2..4].copy_from_slice(&total);
        ip[8..10].copy_from_slice(&[64, 17]);
        // From 192.0.2.1 to 192.0.2.2, of the block for examples (RFC 5737).
        ip[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        let sum = !Sum::default().bytes(&ip[..20]).partial();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let udp = &mut ip[20..];
        let total = length(udp.len());
        udp[..2].copy_from_slice(&(FIRST_PORT + self.next_flow).to_be_bytes());
        udp[2..4].copy_from_slice(&DISCARD.to_be_bytes());
        // The checksum stays 0: none was computed (RFC 768).
        udp[4..6].copy_from_slice(&total);
    }
}

impl Traffic {
    /// Returns the bytes of each frame.
    pub const fn size(&self) -> usize {
        self.size
    }
}

impl Source for Traffic {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let Some(frame) = frame.get_mut(..self.size).filter(|_| self.left > 0) else { return Ok(None) };
        self.write(frame);
        self.left -= 1;
        self.next_flow = (self.next_flow + 1) % self.flows;
        Ok(Some((VnetHdr::default(), self.size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::packet::headers::Headers;

    #[test]
    fn frames_are_ipv4_and_udp_of_the_asked_length() {
        let mut buffer = vec![0xff; 2000];
        let mut traffic = Traffic::new(4, 100, 3, 0x12);
        let mut ports = Vec::new();
        while let Some((_, len)) = traffic.recv(&mut buffer).unwrap() {
            let frame = &buffer[..len];
            let headers = Headers::parse_ethernet(frame);
            assert_eq!((len, headers.ethertype, headers.ds), (100, 0x0800, 0x12));
            // A header with the right checksum sums to all ones (RFC 1071).
            assert_eq!(Sum::default().bytes(&frame[14..34]).partial(), 0xffff);
            assert_eq!(frame[16..18], 86u16.to_be_bytes());
            assert_eq!(frame[38..40], 66u16.to_be_bytes());
            ports.push(u16::from_be_bytes([frame[34], frame[35]]));
        }
        assert_eq!(ports, [1024, 1025, 1026, 1024]);
    }

    #[test]
    fn nothing_is_received_that_does_not_fit() {
        assert!(Traffic::new(1, 100, 1, 0).recv(&mut [0; 99]).unwrap().is_none());
        assert_eq!(Traffic::new(1, 1, 1, 0).recv(&mut [0; 99]).unwrap().unwrap().1, HEADERS);
    }
}
