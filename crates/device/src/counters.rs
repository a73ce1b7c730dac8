//! What went through a link, and what did not.

use rustix::io::Errno;

use crate::vnet::VnetHdr;

/// What became of one frame handed to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The kernel took it. That says nothing of its arrival: an interface without carrier drops without a word.
    Taken,
    /// No room now: the frame is still the caller's. Wait for writability and offer it again.
    Full,
    /// The kernel refused it and will again: the frame is lost at this link, and counted.
    Lost(Loss),
}

/// Why a link lost a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The interface is down (`ip link set dev NAME up`).
    LinkDown,
    /// The kernel or the device had no memory or ring room for it.
    NoBuffer,
    /// The kernel found the frame or its header wrong: too long for the interface, too short, or not as described.
    Refused,
}

/// Tallies of one link since it was opened. Frames count as the link saw them: a super-frame is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes of these, from the Ethernet header on.
    pub rx_bytes: u64,
    /// Super-frames among them.
    pub rx_gso_frames: u64,
    /// Frames longer than the buffer given, left out.
    pub rx_oversize: u64,
    /// Frames that the kernel could not describe by a vnet header (a tunnelled super-frame), left out by it.
    pub rx_refused: u64,
    /// Frames that the kernel dropped before the packet socket, because its buffer was full. A TAP device counts its
    /// own as the interface's `tx_dropped`.
    pub rx_missed: u64,
    /// Frames that the kernel took.
    pub tx_frames: u64,
    /// Bytes of these.
    pub tx_bytes: u64,
    /// Super-frames among them.
    pub tx_gso_frames: u64,
    /// How often a send met a full link and gave the frame back.
    pub tx_full: u64,
    /// Frames lost for [`Loss::LinkDown`].
    pub tx_lost_down: u64,
    /// Frames lost for [`Loss::NoBuffer`].
    pub tx_lost_buffer: u64,
    /// Frames lost for [`Loss::Refused`].
    pub tx_lost_refused: u64,
}

impl Counters {
    pub(crate) fn received(&mut self, hdr: &VnetHdr, len: usize) {
        self.rx_frames += 1;
        self.rx_bytes += len as u64;
        self.rx_gso_frames += u64::from(hdr.is_gso());
    }

    pub(crate) fn taken(&mut self, hdr: &VnetHdr, len: usize) -> Sent {
        self.tx_frames += 1;
        self.tx_bytes += len as u64;
        self.tx_gso_frames += u64::from(hdr.is_gso());
        Sent::Taken
    }

    /// Sorts a failed send into back-pressure, loss of this frame, or an error of the link itself.
    pub(crate) fn not_taken(&mut self, errno: Errno) -> Result<Sent, Errno> {
        let loss = match errno {
            Errno::AGAIN => {
                self.tx_full += 1;
                return Ok(Sent::Full);
            }
            // A TAP that is down says EIO (tun_get_user), a packet socket ENETDOWN.
            Errno::IO | Errno::NETDOWN => Loss::LinkDown,
            Errno::NOBUFS | Errno::NOMEM => Loss::NoBuffer,
            Errno::INVAL | Errno::MSGSIZE | Errno::TOOBIG => Loss::Refused,
            other => return Err(other),
        };
        *match loss {
            Loss::LinkDown => &mut self.tx_lost_down,
            Loss::NoBuffer => &mut self.tx_lost_buffer,
            Loss::Refused => &mut self.tx_lost_refused,
        } += 1;
        Ok(Sent::Lost(loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_frame_are_not_errors_of_the_link() {
        let mut c = Counters::default();
        assert_eq!(c.not_taken(Errno::AGAIN), Ok(Sent::Full));
        assert_eq!(c.not_taken(Errno::IO), Ok(Sent::Lost(Loss::LinkDown)));
        assert_eq!(c.not_taken(Errno::NETDOWN), Ok(Sent::Lost(Loss::LinkDown)));
        assert_eq!(c.not_taken(Errno::NOBUFS), Ok(Sent::Lost(Loss::NoBuffer)));
        assert_eq!(c.not_taken(Errno::MSGSIZE), Ok(Sent::Lost(Loss::Refused)));
        assert_eq!(c.not_taken(Errno::BADFD), Err(Errno::BADFD));
        assert_eq!((c.tx_full, c.tx_lost_down, c.tx_lost_buffer, c.tx_lost_refused), (1, 2, 1, 1));
    }
}
