//! A frame of the lab as filters and actions see it: a synthetic Ethernet header, and the first
//! bytes of the packet.
//!
//! A frame has no Ethernet header of its own. Changes that actions make to the synthetic one
//! (another address, a tag) stay with the frame until it has arrived ([`LinkHeader`]). Filters see
//! as many bytes of the packet as are kept; payload is zeros. No party fills in the transport's
//! checksums: hosts leave them to their devices.

use txweir_core::classify::packet::FrameBytes;

use crate::frame::{Frame, HEADER_MAX};
use crate::tagged::{ETHERNET, LINK_MAX, LinkHeader};

/// Returns the Ethernet addresses of a direction of a link, made from the numbers of its hosts.
pub fn addresses(from: u32, to: u32) -> [u8; 12] {
    let mut all = [0; 12];
    for (at, host) in [(0, to), (6, from)] {
        // Unicast, locally administered.
        all[at] = 2;
        all[at + 2..at + 6].copy_from_slice(&(host + 1).to_be_bytes());
    }
    all
}

/// The bytes of a frame that filters see.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    bytes: [u8; LINK_MAX + HEADER_MAX],
    len: usize,
    /// Length of the link header within them.
    link: usize,
}

impl Shown {
    /// Returns the bytes of a frame between these addresses.
    pub fn of(frame: &Frame, addresses: &[u8; 12]) -> Self {
        let mut ordinary = [0; ETHERNET as usize];
        ordinary[..12].copy_from_slice(addresses);
        ordinary[12..].copy_from_slice(&frame.protocol.to_be_bytes());
        let (link, kept) = (frame.link().map_or(&ordinary[..], LinkHeader::bytes), frame.kept());
        let mut bytes = [0; LINK_MAX + HEADER_MAX];
        bytes[..link.len()].copy_from_slice(link);
        bytes[link.len()..link.len() + kept.len()].copy_from_slice(kept);
        Self { bytes, len: link.len() + kept.len(), link: link.len() }
    }

    /// Returns the same for these bytes of a frame whose packet has `kept` of them: actions
    /// lengthen only the link header. `None` if there are too many.
    pub(crate) fn of_bytes(given: &[u8], kept: usize) -> Option<Self> {
        let mut bytes = [0; LINK_MAX + HEADER_MAX];
        bytes.get_mut(..given.len())?.copy_from_slice(given);
        Some(Self { bytes, len: given.len(), link: given.len().checked_sub(kept)? })
    }

    /// Puts the changed bytes back into the frame. The addresses are those given to
    /// [`of`](Self::of).
    pub fn put_back(&self, frame: &mut Frame, addresses: &[u8; 12]) {
        let (link, rest) = self.bytes[..self.len].split_at(self.link);
        let ordinary = link.len() == ETHERNET as usize
            && link[..12] == *addresses
            && link[12..] == frame.protocol.to_be_bytes();
        frame.set_link((!ordinary).then(|| LinkHeader::new(link)));
        // Bytes leave only the link header, so that the packet keeps its length.
        let kept = frame.kept_mut();
        let len = kept.len().min(rest.len());
        kept[..len].copy_from_slice(&rest[..len]);
    }
}

impl FrameBytes for Shown {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
    /// Inserts bytes in the link header only, as far as it has room.
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let room = at <= self.link && self.link + bytes.len() <= LINK_MAX;
        if room {
            self.bytes.copy_within(at..self.len, at + bytes.len());
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            (self.len, self.link) = (self.len + bytes.len(), self.link + bytes.len());
        }
        room
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let Some(end) = at.checked_add(len).filter(|end| *end <= self.link) else { return false };
        self.bytes.copy_within(end..self.len, at);
        (self.len, self.link) = (self.len - len, self.link - len);
        true
    }
    /// Returns 0: the device computes every checksum from the start, so actions need not.
    fn checksum_left(&self) -> Option<usize> {
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let mut packet = vec![0x45, 0];
        packet.extend(100u16.to_be_bytes());
        packet.resize(100, 7);
        Frame::headers(&packet, 40, 100)
    }

    #[test]
    fn what_nobody_changed_is_what_it_was() {
        let (mut frame, mac) = (frame(), addresses(0, 1));
        let shown = Shown::of(&frame, &mac);
        assert_eq!(shown.bytes()[..16], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
        assert_eq!(shown.bytes().len(), 14 + 80);
        shown.put_back(&mut frame, &mac);
        assert_eq!((frame.link(), frame.len()), (None, 114));
    }

    #[test]
    fn tags_and_changed_bytes_stay_with_the_frame() {
        let (mut frame, mac) = (frame(), addresses(0, 1));
        let mut shown = Shown::of(&frame, &mac);
        assert!(shown.insert(12, &[0x81, 0, 0, 5]) && shown.insert(12, &[0x88, 0xa8, 0, 6]));
        assert!(!shown.insert(12, &[0x81, 0, 0, 7]), "there is room for two tags");
        assert!(!shown.remove(20, 4), "only the link header gets shorter");
        shown.bytes_mut()[23] = 0x10;
        shown.put_back(&mut frame, &mac);
        assert_eq!((frame.link_len(), frame.len(), frame.header()[1]), (22, 122, 0x10));
        let mut again = Shown::of(&frame, &mac);
        assert_eq!(again.bytes(), shown.bytes());
        assert!(again.remove(12, 8));
        again.put_back(&mut frame, &mac);
        assert_eq!((frame.link(), frame.len()), (None, 114));
    }

    #[test]
    fn a_long_header_is_shown_whole_and_put_back() {
        let mut packet: Vec<u8> = (0..100).collect();
        packet[0] = 0x60;
        let (mut frame, mac) = (Frame::headers(&packet, 100, 100), addresses(0, 1));
        let mut shown = Shown::of(&frame, &mac);
        assert_eq!((shown.bytes().len(), &shown.bytes()[12..15]), (114, &[0x86, 0xdd, 0x60][..]));
        assert!(shown.insert(12, &[0x81, 0, 0, 5]) && shown.insert(12, &[0x88, 0xa8, 0, 6]));
        shown.bytes_mut()[121] = 1;
        shown.put_back(&mut frame, &mac);
        assert_eq!((frame.header()[99], frame.link_len()), (1, 22));
    }
}
