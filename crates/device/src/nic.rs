//! `Nic`: a network interface that frames are received from; `Calls`: one that sends by system
//! calls.

use std::fmt::Debug;
use std::io;
use std::os::fd::AsFd;

use crate::backend::Source;
use crate::counters::{Batch, Counters};
use crate::frame::FrameRef;
use crate::name::IfName;

/// A network interface of this machine, of any kind. Its descriptor is readable when it has frames
/// to receive.
pub trait Nic: Source + AsFd + Debug + Send {
    /// Returns the word of its kind, as an endpoint has it: `tap`, `packet`.
    fn kind(&self) -> &'static str;

    /// Returns the way in which it exchanges frames with the interface, for people, if the kind has
    /// several. The default is `None`.
    fn mode(&self) -> Option<&'static str> {
        None
    }

    /// Returns the interface's name, as it was when opened.
    fn name(&self) -> &IfName;

    /// Returns the tallies since it was opened.
    fn counters(&mut self) -> Counters;

    /// True if the interface is administratively up.
    ///
    /// # Errors
    /// `ENODEV`: the interface is gone. `EXDEV`: it is open still, and in another namespace, where
    /// its state cannot be read.
    fn is_up(&self) -> io::Result<bool>;

    /// Returns what has to happen for an interface that is down to come up, in words that complete
    /// "before". The default is the command that sets it up.
    fn comes_up(&self) -> String {
        format!("`ip link set {} up`", self.name())
    }

    /// Does the work of the interface beside frames, when its descriptor is readable: the messages
    /// of a monitor. The default does nothing.
    ///
    /// # Errors
    /// The interface is gone.
    fn attend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// True if a frame that is not received stays with its sender, which waits: nothing is lost by
    /// receiving it later. The default is false: an interface drops what is left unread.
    fn senders_wait(&self) -> bool {
        false
    }

    /// True if the interface may have frames to receive although its descriptor is not readable.
    /// The default is false.
    fn has_frames(&self) -> bool {
        false
    }

    /// True if the first of its handles may have all frames that are received. The default is
    /// false: frames are spread over all.
    fn first_may_have_all(&self) -> bool {
        false
    }

    /// Returns the next line about an event for the log, once. The default is `None`.
    fn take_news(&mut self) -> Option<String> {
        None
    }

    /// Returns the interface's MTU in bytes, Ethernet header not counted.
    ///
    /// # Errors
    /// As [`is_up`](Self::is_up).
    fn mtu(&self) -> io::Result<usize>;
}

/// An interface that takes frames out of any memory, by system calls.
pub trait Calls: Nic {
    /// Sends frames in order until all are gone or the interface is full, and returns their fates.
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch;

    /// Notes that the frames that were offered and are not gone will not be offered again. The
    /// default is for an interface that takes a frame whole or not at all.
    fn abandoned(&mut self) {}
}
