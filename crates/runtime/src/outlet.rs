//! Destinations of live devices' actions: copies wait until the frame itself is processed, samples
//! and lines are written.

use std::io;

use txweir_core::classify::packet::{FrameBytes, Outlet, PortId, Way};
use txweir_core::{Instant, Meta};
use txweir_device::{Source, VnetHdr};

use crate::notes::Notes;

/// Most copies of one frame, copies of copies included. Further copies are refused, which the
/// action counts.
const COPIES_MAX: usize = 64;

/// A copy that an action has sent.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The port that receives it.
    pub to: PortId,
    /// The direction in which it passes that port.
    pub way: Way,
    /// The work that is left undone on it: a checksum, segmentation.
    pub hdr: VnetHdr,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// The priority of the frame.
    pub priority: u32,
    /// The mark of the frame.
    pub mark: u32,
    /// Redirections behind it.
    pub depth: u8,
}

/// The copies of one frame that wait to be passed on.
#[derive(Debug, Default)]
pub struct Copies {
    waiting: Vec<Copy>,
    /// Number of copies so far, those that have been passed on included.
    made: usize,
}

impl Copies {
    /// Takes a copy out, to pass it on.
    pub fn pop(&mut self) -> Option<Copy> {
        self.waiting.pop()
    }
    const fn has_room(&self) -> bool {
        self.made < COPIES_MAX
    }
    fn push(&mut self, copy: Copy) {
        self.waiting.push(copy);
        self.made += 1;
    }
}

/// Takes the output of actions while the filters process one frame.
#[derive(Debug)]
pub struct Outlets<'a> {
    /// Ports that take frames.
    pub up: &'a [PortId],
    /// Copies, to be passed on.
    pub copies: &'a mut Copies,
    /// Samples and lines.
    pub notes: &'a mut Notes,
    /// The time.
    pub now: Instant,
}

impl Outlet for Outlets<'_> {
    fn send(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, m: &Meta, depth: u8) -> bool {
        let room = self.up.contains(&to) && self.copies.has_room();
        if room {
            let hdr = VnetHdr::decode(&frame.undone().0);
            let (frame, priority, mark) = (frame.bytes().into(), m.priority, m.mark);
            self.copies.push(Copy { to, way, hdr, frame, priority, mark, depth });
        }
        room
    }
    fn sample(&mut self, group: u32, rate: u32, frame: &[u8], m: &Meta) {
        self.notes.sample(self.now, group, rate, frame, m);
    }
    fn say(&mut self, text: &str, count: u64) {
        self.notes.say(self.now, text, count);
    }
}

/// A source that delivers one copy once.
#[derive(Debug)]
pub struct One<'a>(pub Option<&'a Copy>);

impl Source for One<'_> {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let Some(Copy { hdr, frame: bytes, .. }) = self.0.take() else { return Ok(None) };
        let Some(room) = frame.get_mut(..bytes.len()) else { return Ok(None) };
        room.copy_from_slice(bytes);
        Ok(Some((*hdr, bytes.len())))
    }
}
