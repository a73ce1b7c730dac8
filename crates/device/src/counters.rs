//! The tallies of a link: frames that passed, and frames that were lost and why.

use std::io;

use rustix::io::Errno;
use txweir_core::text::stats::Counters as _;

use crate::vnet::VnetHdr;

/// The fate of a frame that the kernel did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// No room now: the frame still belongs to the caller, who offers it again when the link is
    /// writable.
    Full,
    /// The kernel refused the frame and will refuse it again: it is lost at this link, and counted
    /// by its reason.
    Lost,
}

/// The fates of frames that were handed to a link together, in order. The first `taken + lost` of
/// them are gone.
#[derive(Debug)]
#[must_use]
pub struct Batch {
    /// Frames that the kernel took.
    pub taken: usize,
    /// Frames that the kernel refused for good, between or after those that it took.
    pub lost: usize,
    /// The reason for which the rest still belongs to the caller.
    pub rest: Rest,
}

/// The reason for which frames of a batch still belong to the caller.
#[derive(Debug)]
pub enum Rest {
    /// No frame is left over.
    None,
    /// The link is full: the first of the remaining frames found no room.
    Full,
    /// The link is gone.
    Gone(io::Error),
}

impl Batch {
    /// Returns the fates of a batch of which no frame is gone yet.
    pub(crate) const fn new() -> Self {
        Self { taken: 0, lost: 0, rest: Rest::None }
    }

    /// Returns the number of frames that do not belong to the caller any more.
    #[must_use]
    pub const fn gone(&self) -> usize {
        self.taken + self.lost
    }

    /// Notes that one more frame was not taken. Returns true if the next one can be tried.
    pub(crate) fn goes_on_after(&mut self, frame: Result<NotTaken, Errno>) -> bool {
        match frame {
            Ok(NotTaken::Lost) => self.lost += 1,
            Ok(NotTaken::Full) => self.rest = Rest::Full,
            Err(errno) => self.rest = Rest::Gone(errno.into()),
        }
        matches!(self.rest, Rest::None)
    }
}

txweir_core::stats! {
    /// Tallies of one link since it was opened. Frames count as the link saw them: a super-frame is
    /// one.
    #[non_exhaustive]
    pub struct Counters {
        /// Frames received.
        rx_frames: u64,
        /// Bytes of these, from the Ethernet header on.
        rx_bytes: u64 [of(Bytes)],
        /// Super-frames among them.
        rx_gso_frames: u64,
        /// Frames longer than the given buffer, left out.
        rx_oversize: u64,
        /// Frames that the kernel could not describe by a vnet header (a tunnelled super-frame),
        /// and therefore left out.
        rx_refused: u64,
        /// Frames that the kernel dropped ahead of this process, because the buffer of the packet
        /// socket or the queue of the TAP device was full.
        rx_missed: u64,
        /// Frames that the kernel had for the link: those above, and those that wait in the buffer
        /// of a packet socket. The number that wait for a TAP device is not known.
        rx_seen: u64,
        /// Rings that have stopped because the guest wrote something impossible into them.
        rx_ring_errors: u64,
        /// Frames that the kernel took.
        tx_frames: u64,
        /// Bytes of these.
        tx_bytes: u64 [of(Bytes)],
        /// Super-frames among them.
        tx_gso_frames: u64,
        /// System calls made to send frames.
        tx_calls: u64,
        /// Sends that met a full link.
        tx_full: u64,
        /// Frames lost because the interface was down (`ip link set dev NAME up`).
        tx_lost_down: u64,
        /// Frames lost because the kernel or the device had no memory or ring room for them.
        tx_lost_buffer: u64,
        /// Frames that the kernel refused as wrong: too long for the interface, too short, or not
        /// as their header describes.
        tx_lost_refused: u64,
    }
}

impl Counters {
    /// Returns the number of frames that were lost between the interface and this process.
    #[must_use]
    pub const fn rx_lost(&self) -> u64 {
        self.rx_missed + self.rx_oversize + self.rx_refused
    }

    /// Returns the sum of the tallies of two links.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut added = Vec::new();
        other.visit(&mut |_, n| added.push(n));
        let mut sums = Vec::new();
        self.visit(&mut |_, n| sums.push(n + added[sums.len()]));
        let mut sums = sums.into_iter();
        Self::read(&mut || sums.next().unwrap_or_default())
    }

    pub(crate) fn received(&mut self, hdr: &VnetHdr, len: usize) {
        self.rx_frames += 1;
        self.rx_bytes += len as u64;
        self.rx_gso_frames += u64::from(hdr.is_gso());
    }

    pub(crate) fn taken(&mut self, hdr: &VnetHdr, len: usize) {
        self.tx_frames += 1;
        self.tx_bytes += len as u64;
        self.tx_gso_frames += u64::from(hdr.is_gso());
    }

    /// Sorts a failed send into back-pressure, loss of this frame, or an error of the link itself.
    pub(crate) fn not_taken(&mut self, errno: Errno) -> Result<NotTaken, Errno> {
        *match errno {
            Errno::AGAIN => {
                self.tx_full += 1;
                return Ok(NotTaken::Full);
            }
            // A TAP device that is down answers EIO (tun_get_user), a packet socket ENETDOWN.
            Errno::IO | Errno::NETDOWN => &mut self.tx_lost_down,
            Errno::NOBUFS | Errno::NOMEM => &mut self.tx_lost_buffer,
            Errno::INVAL | Errno::MSGSIZE | Errno::TOOBIG => &mut self.tx_lost_refused,
            other => return Err(other),
        } += 1;
        Ok(NotTaken::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_frame_are_not_errors_of_the_link() {
        let mut c = Counters::default();
        assert_eq!(c.not_taken(Errno::AGAIN), Ok(NotTaken::Full));
        for errno in [Errno::IO, Errno::NETDOWN, Errno::NOBUFS, Errno::MSGSIZE] {
            assert_eq!(c.not_taken(errno), Ok(NotTaken::Lost));
        }
        assert_eq!(c.not_taken(Errno::BADFD), Err(Errno::BADFD));
        assert_eq!((c.tx_full, c.tx_lost_down, c.tx_lost_buffer, c.tx_lost_refused), (1, 2, 1, 1));
    }
}
