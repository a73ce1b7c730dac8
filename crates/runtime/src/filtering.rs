//! Filters on a direction's packets: see [`txweir_core::path::entry`].

use txweir_core::classify::packet::{FrameBytes, Packet, Undone};
use txweir_core::path::entry::{Entry, Passed};
use txweir_core::path::select::Sender;

use crate::arrival::Arrival;
use crate::direction::Direction;
use crate::frame::Frame;

impl FrameBytes for Frame {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
    /// As far as its buffer has room. What is left to be done on the frame is done that much further back.
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let done = self.widen(at, bytes);
        if let (true, Ok(len)) = (done && at <= usize::from(self.hdr.csum_start), u16::try_from(bytes.len()))
        {
            self.hdr.csum_start = self.hdr.csum_start.saturating_add(len);
        }
        done
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let done = self.narrow(at, len);
        if let (true, Ok(len)) = (done && at < usize::from(self.hdr.csum_start), u16::try_from(len)) {
            self.hdr.csum_start = self.hdr.csum_start.saturating_sub(len);
        }
        done
    }
    fn undone(&self) -> Undone {
        Undone(self.hdr.encode())
    }
    fn checksum_left(&self) -> Option<usize> {
        self.hdr.needs_csum.then_some(usize::from(self.hdr.csum_start))
    }
}

impl Direction {
    /// Asks the filters about a frame that is to be admitted, which they may change, and chooses its queue; what is to be
    /// admitted. A frame that they drop before it is queued, or that an action takes, is counted and is none. `depth` is the
    /// redirections behind it.
    pub fn classify(&mut self, mut arrival: Arrival, depth: u8, entry: &mut Entry<'_>) -> Option<Arrival> {
        let marks = self.prio_synack();
        let Arrival { frame, meta, headers, route, queue_chosen } = &mut arrival;
        let mut packet = Packet::new(frame, meta, *headers);
        (packet.depth, packet.marks) = (depth, marks);
        let passed = self.port.pass(entry, &mut packet, &Sender::default(), None);
        *headers = packet.headers;
        match passed {
            Passed::Queue(_, said) => {
                (*route, *queue_chosen) = (said, true);
                Some(arrival)
            }
            Passed::Dropped => {
                self.hook_dropped(arrival);
                None
            }
            Passed::Stolen => {
                self.taken(arrival);
                None
            }
        }
    }
}
