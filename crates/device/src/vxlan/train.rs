//! Trains: datagrams of one size that the kernel takes by one system call and cuts (`UDP_SEGMENT`,
//! udp(7)). Each datagram is a header of the tunnel and a frame; the segments of a super-frame are
//! cut here, each with headers of its own.

use txweir_core::Ecn;

use super::{HEADER_LEN, Vni, ecn};
use crate::frame::FrameRef;
use crate::segment::{Segmenter, complete_checksum};

/// Most bytes of a train: UDP over IPv4 carries 65 507.
const TRAIN_MAX: usize = 65_000;

/// A frame that can never leave: its header does not describe it, or it is too long for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// Datagrams of one size, of which only the last may be shorter.
#[derive(Debug)]
pub(super) struct Train {
    bytes: Vec<u8>,
    len: usize,
    /// Bytes of the longest datagram that the path takes. The kernel refuses a train with a longer
    /// one, which therefore is alone.
    path: usize,
    /// Bytes of a datagram, the first one's.
    size: usize,
    datagrams: usize,
    ecn: Ecn,
    /// Frames that end in this train.
    frames: usize,
    /// The cutting of the frame behind these, of which this train has a part.
    cutting: Option<Segmenter>,
    /// The cutting of the first frame to come, of which trains that left have had a part.
    left: Option<Segmenter>,
}

impl Train {
    /// Makes one for a path that takes datagrams of up to `path` bytes.
    pub(super) fn new(path: usize) -> Self {
        Self {
            bytes: vec![0; TRAIN_MAX],
            len: 0,
            path,
            size: 0,
            datagrams: 0,
            ecn: Ecn::NotEct,
            frames: 0,
            cutting: None,
            left: None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
    /// Returns the bytes of a datagram if there are several.
    pub(super) fn size(&self) -> Option<usize> {
        (self.datagrams > 1).then_some(self.size)
    }
    pub(super) const fn ecn(&self) -> Ecn {
        self.ecn
    }
    /// Returns the number of frames that end in it.
    pub(super) const fn frames(&self) -> usize {
        self.frames
    }
    /// Returns the number of frames that it has at least a part of.
    pub(super) fn touched(&self) -> usize {
        self.frames + usize::from(self.cutting.is_some())
    }

    /// Notes that the kernel has taken it: the next train begins behind it.
    pub(super) fn has_left(&mut self) {
        self.left = self.cutting.take();
    }
    /// Forgets the frame of which a part has left: the next train begins with a whole frame.
    pub(super) fn forget(&mut self) {
        (self.cutting, self.left) = (None, None);
    }

    /// Fills it from the first of these frames on, with at most `most` datagrams. The first frame
    /// is the one that was cut by the train before, if there was one.
    ///
    /// # Errors
    /// The first frame can never leave.
    pub(super) fn fill(&mut self, frames: &[FrameRef<'_>], vni: Vni, most: usize) -> Result<(), Refused> {
        (self.len, self.size, self.datagrams, self.frames, self.cutting) = (0, 0, 0, 0, None);
        for frame in frames {
            let left = if self.frames == 0 { self.left.clone() } else { None };
            let more = match (left, frame.hdr.is_gso()) {
                (Some(cut), _) => self.add_segments(frame, cut, vni, most),
                (None, true) => match Segmenter::new(&frame.hdr, frame.bytes) {
                    Ok(cut) => self.add_segments(frame, cut, vni, most),
                    Err(_) => Err(Refused),
                },
                (None, false) => self.add_whole(frame, vni, most),
            };
            match more {
                Ok(true) => {}
                Ok(false) => break,
                // The next train begins with this frame, and refuses it.
                Err(Refused) if self.datagrams > 0 => break,
                Err(Refused) => return Err(Refused),
            }
        }
        Ok(())
    }

    /// True if a datagram with a frame of `len` bytes and this mark can be added.
    fn takes(&self, len: usize, ecn: Ecn, most: usize) -> bool {
        if self.len + HEADER_LEN + len > TRAIN_MAX {
            return false;
        }
        let goes_on = self.datagrams < most && self.size <= self.path;
        self.datagrams == 0 || (goes_on && HEADER_LEN + len <= self.size && ecn == self.ecn)
    }

    /// Returns the room for a frame of `len` bytes in the next datagram.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let at = self.len + HEADER_LEN;
        &mut self.bytes[at..at + len]
    }

    /// Ends the next datagram, whose frame of `len` bytes is written. False if it is shorter than
    /// those before, and therefore the last.
    fn end(&mut self, len: usize, ecn: Ecn, vni: Vni) -> bool {
        self.bytes[self.len..self.len + HEADER_LEN].copy_from_slice(&vni.header());
        if self.datagrams == 0 {
            (self.size, self.ecn) = (HEADER_LEN + len, ecn);
        }
        self.len += HEADER_LEN + len;
        self.datagrams += 1;
        HEADER_LEN + len == self.size
    }

    /// Adds an ordinary frame. False if nothing more can be added.
    fn add_whole(&mut self, frame: &FrameRef<'_>, vni: Vni, most: usize) -> Result<bool, Refused> {
        let (len, ecn) = (frame.bytes.len(), ecn::outer(frame.bytes));
        if HEADER_LEN + len > TRAIN_MAX {
            return Err(Refused);
        }
        if !self.takes(len, ecn, most) {
            return Ok(false);
        }
        let room = self.room(len);
        room.copy_from_slice(frame.bytes);
        complete_checksum(&mut frame.hdr.clone(), room).map_err(|_| Refused)?;
        self.frames += 1;
        Ok(self.end(len, ecn, vni))
    }

    /// Adds the segments of a super-frame that are left. False if nothing more can be added.
    fn add_segments(
        &mut self,
        frame: &FrameRef<'_>,
        mut cut: Segmenter,
        vni: Vni,
        most: usize,
    ) -> Result<bool, Refused> {
        let (longest, ecn) = (cut.longest(), ecn::outer(frame.bytes));
        if HEADER_LEN + longest > TRAIN_MAX {
            return Err(Refused);
        }
        // Bound: the segments of a frame, or the datagrams of a train.
        loop {
            if !self.takes(longest, ecn, most) {
                return Ok(false);
            }
            match cut.next_into(frame.bytes, self.room(longest)) {
                Ok(Some(len)) => {
                    let goes_on = self.end(len, ecn, vni);
                    self.cutting = Some(cut.clone());
                    if cut.is_done() {
                        (self.frames, self.cutting) = (self.frames + 1, None);
                        return Ok(goes_on);
                    }
                    if !goes_on {
                        return Ok(false);
                    }
                }
                Ok(None) | Err(_) => return Err(Refused),
            }
        }
    }
}

#[cfg(test)]
mod tests;
