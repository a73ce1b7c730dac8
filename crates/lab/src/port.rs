//! The device that the TCP stack sees below one connection: it shows the stack one packet at a time and labels
//! what the stack sends.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use smoltcp::phy::{Device, DeviceCapabilities, PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant as Micros;

use crate::frame::{FIN, Frame, SYN};
use crate::tcp::{ConnStats, Label};
use crate::tso::Aggregation;
use txweir_core::time::Instant;

/// Replies kept while the transmit path is full; later ones are lost, as they would be in a full queue.
const HELD_MAX: usize = 64;

/// The transmit side of the device below a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) label: Label,
    pub(crate) content: bool,
    /// The transmit path refused a frame: nothing more until `wake`.
    pub(crate) blocked: bool,
    /// Frames that the stack has sent and the transmit path has not taken.
    pub(crate) held: VecDeque<Frame>,
    pub(crate) tso: Aggregation,
    pub(crate) stats: ConnStats,
}

impl Link {
    /// Offers a frame to the transmit path; keeps it if that is full.
    pub(crate) fn offer<S: Sink + ?Sized>(&mut self, frame: Frame, sink: &mut S) -> Result<(), ()> {
        let segs = frame.segs();
        match sink.take(frame) {
            Ok(()) => {
                self.stats.frames_out += 1;
                self.stats.segs_out += u64::from(segs);
                Ok(())
            }
            Err(frame) => {
                self.held.push_front(frame);
                self.stats.stopped += 1;
                Err(())
            }
        }
    }

    /// Labels a packet that the stack has written and sends it on.
    fn send<S: Sink + ?Sized>(&mut self, now: Instant, packet: &[u8], gso: u16, sink: &mut S) {
        let tcp_header = usize::from(packet.get(32).copied().unwrap_or(0) >> 4) * 4;
        let mut frame = Frame::new(packet, 20 + tcp_header, gso, self.content);
        frame.sent = now;
        (frame.to, frame.hash, frame.priority) = (self.label.to, self.label.hash, self.label.priority);
        self.note(&frame);
        if self.blocked || !self.held.is_empty() || S::REFUSES {
            // Only replies come here: the device grants nothing else while it is blocked.
            match self.held.len() < HELD_MAX {
                true => self.held.push_back(frame),
                false => self.stats.lost_replies += 1,
            }
        } else {
            self.blocked = self.offer(frame, sink).is_err();
        }
    }

    /// Follows the sequence numbers that leave.
    fn note(&mut self, frame: &Frame) {
        let control = frame.tcp_flags() & (SYN | FIN);
        let (seq, payload) = (frame.tcp_seq(), frame.payload_len());
        if control & SYN != 0 {
            self.tso.start(seq);
        }
        let again = self.tso.sent(frame.sent, seq, payload + u32::from(control != 0));
        self.stats.retransmitted += u64::from(again.min(payload));
    }
}

/// Where frames go: a closure, or nowhere at once.
pub(crate) trait Sink {
    /// True if it takes nothing, so that frames wait for the next poll.
    const REFUSES: bool;
    fn take(&mut self, frame: Frame) -> Result<(), Frame>;
}

/// While a packet is taken in, replies wait for the poll that follows.
pub(crate) struct Refuse;

impl Sink for Refuse {
    const REFUSES: bool = true;
    fn take(&mut self, frame: Frame) -> Result<(), Frame> {
        Err(frame)
    }
}

impl<F: FnMut(Frame) -> Result<(), Frame>> Sink for F {
    const REFUSES: bool = false;
    fn take(&mut self, frame: Frame) -> Result<(), Frame> {
        self(frame)
    }
}

/// The device that smoltcp sees during one call.
pub(crate) struct Port<'a, S> {
    pub(crate) caps: &'a DeviceCapabilities,
    pub(crate) inp: Option<&'a [u8]>,
    pub(crate) out: &'a mut [u8],
    /// `None` only while the interface is made.
    pub(crate) link: Option<&'a mut Link>,
    pub(crate) sink: &'a mut S,
    pub(crate) now: Instant,
}

/// A packet to be taken in.
pub(crate) struct Inward<'a>(&'a [u8]);

/// The right to send one packet.
pub(crate) struct Outward<'a, S> {
    out: &'a mut [u8],
    link: Option<&'a mut Link>,
    sink: &'a mut S,
    now: Instant,
    gso: Option<NonZeroU16>,
}

impl<S: Sink> Device for Port<'_, S> {
    type RxToken<'b>
        = Inward<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Outward<'b, S>
    where
        Self: 'b;

    fn receive(&mut self, _: Micros) -> Option<(Inward<'_>, Outward<'_, S>)> {
        let inp = self.inp.take()?;
        let link = self.link.as_deref_mut();
        Some((Inward(inp), Outward { out: self.out, link, sink: self.sink, now: self.now, gso: None }))
    }

    fn transmit(&mut self, _: Micros) -> Option<Outward<'_, S>> {
        let link = self.link.as_deref_mut()?;
        if link.blocked || !link.tso.grants() {
            return None;
        }
        Some(Outward { out: self.out, link: Some(link), sink: self.sink, now: self.now, gso: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.caps.clone()
    }
}

impl RxToken for Inward<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl<S: Sink> TxToken for Outward<'_, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let packet = &mut self.out[..len];
        let r = f(packet);
        if let Some(link) = self.link {
            link.send(self.now, packet, self.gso.map_or(0, NonZeroU16::get), self.sink);
        }
        r
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.gso = meta.segmentation_offload_size;
    }
}
