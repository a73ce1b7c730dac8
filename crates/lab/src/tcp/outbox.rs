//! The way of a connection end's frames to its transmit path, which may refuse them.

use txweir_transport::{Connection, ahead};

use crate::frame::Frame;
use crate::tcp::{ConnStats, Handed, Label, Reply};

/// The bits of the hash by which `fq` tells flows unless `orphan_mask` says otherwise.
const SOCKET_MASK: u32 = 1023;

/// The way of an end's frames to its transmit path.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// True if units leave as segments.
    cuts: bool,
    /// True if timeouts change the hash of what leaves.
    rehashes: bool,
    /// True if the queue below tells flows by their sockets (`fq` on the sender's own device).
    pub(super) by_socket: bool,
    /// The frame that the transmit path returned: nothing more leaves until `wake`.
    held: Option<Box<Frame>>,
    /// The rest of a unit that was being cut.
    rest: Option<Box<Frame>>,
    pub(super) blocked: bool,
    frames_out: u64,
    segs_out: u64,
    stopped: u32,
}

impl Outbox {
    pub(super) fn new(cuts: bool, rehashes: bool) -> Self {
        Self { cuts, rehashes, ..Self::default() }
    }

    /// Asks for the memory of the frame that is to leave before new ones.
    pub(super) fn ahead(&self) {
        if let Some(frame) = &self.held {
            ahead(&**frame);
        }
    }

    /// Takes the frame that is to leave before new ones.
    pub(super) fn take(&mut self) -> Option<Frame> {
        self.held.take().or_else(|| self.rest.take()).map(|frame| *frame)
    }

    /// Returns the hash of a new frame: that of its connection, changed by timeouts. Below a queue
    /// that tells flows by their sockets, its low bits are the connection's number.
    pub(super) fn hash(&self, label: &Label, tcp: &Connection) -> u32 {
        // Any odd factor spreads small numbers over all bits.
        let changed = (tcp.counters().timeouts as u32).wrapping_mul(0x9e37_79b1);
        let hash = if self.rehashes { label.hash ^ changed } else { label.hash };
        if self.by_socket { (hash & !SOCKET_MASK) | ((label.to / 2) & SOCKET_MASK) } else { hash }
    }

    /// Returns the counters of frames that left.
    pub(super) fn stats(&self) -> ConnStats {
        ConnStats {
            frames_out: self.frames_out,
            segs_out: self.segs_out,
            stopped: u64::from(self.stopped),
            ..ConnStats::default()
        }
    }

    /// Returns the number of frames handed out.
    pub(super) const fn frames(&self) -> u64 {
        self.frames_out
    }

    /// Hands out a frame, whole or in segments; `tcp` hears of drops.
    pub(super) fn give<R: Into<Reply>>(
        &mut self,
        frame: Frame,
        tcp: &mut Connection,
        sink: &mut impl FnMut(Frame) -> R,
    ) {
        let segs = if self.cuts { frame.segs() } else { 1 };
        if segs == 1 {
            return self.hand(frame, tcp, sink);
        }
        for i in 0..segs {
            self.hand(frame.segment(i), tcp, sink);
            if self.blocked {
                // The returned part keeps the results of filters; filters have not seen the rest of
                // its unit.
                self.rest = (i + 1 < segs).then(|| Box::new(frame.part(i + 1, segs - i - 1)));
                break;
            }
        }
    }

    fn hand<R: Into<Reply>>(
        &mut self,
        frame: Frame,
        tcp: &mut Connection,
        sink: &mut impl FnMut(Frame) -> R,
    ) {
        self.held = self.offer(frame, tcp, sink).err().map(Box::new);
        self.blocked = self.held.is_some();
    }

    fn offer<R: Into<Reply>>(
        &mut self,
        frame: Frame,
        tcp: &mut Connection,
        sink: &mut impl FnMut(Frame) -> R,
    ) -> Result<(), Frame> {
        let segs = frame.segs();
        // Segments that are cut here would be cut behind a real queue: a drop of a part is not
        // reported.
        let tells = frame.payload_len() > 0 && !self.cuts;
        let Reply { handed, passed } = sink(frame).into();
        match handed {
            taken @ (Handed::Taken | Handed::Cut(_) | Handed::Dropped | Handed::Congested) => {
                self.frames_out += 1;
                self.segs_out += u64::from(segs);
                match taken {
                    Handed::Dropped if tells => tcp.below().dropped(),
                    Handed::Congested if tells => tcp.below().congested(),
                    Handed::Cut(segments) => tcp.below().cut(segments),
                    _ => {}
                }
                tcp.below().passed(passed);
                Ok(())
            }
            Handed::Back(frame) => {
                self.stopped = self.stopped.saturating_add(1);
                Err(frame)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_transport::Config;

    #[test]
    fn below_fq_the_low_bits_are_the_connection() {
        let tcp = Connection::connect(Config::default());
        let mut out = Outbox::new(false, true);
        let label = Label { to: 2 * 1_025 + 1, hash: 0xabcd_efff, ..Label::default() };
        assert_eq!(out.hash(&label, &tcp), 0xabcd_efff);
        out.by_socket = true;
        assert_eq!(out.hash(&label, &tcp), 0xabcd_ec01);
    }
}
