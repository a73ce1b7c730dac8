//! The device below a NIC's qdiscs: a wire, and what a probe notes of the packets that go in and
//! out.

use txweir_core::model::wire::{Departure, RingQueue, Wire};
use txweir_core::packet::headers::{self, L3, Network, ethertype};
use txweir_core::path::device::{Completed, DeviceError};
use txweir_core::path::port::Queues;
use txweir_core::path::txpath::BULK;
use txweir_core::qdisc::mqprio;
use txweir_core::sched::erased::Qdisc;
use txweir_core::sched::schedule::LineConfig;
use txweir_core::{DropReason, Ecn, Instant, Meta, Tally, TxQueue};

use super::probe::Probe;
use crate::frame::{Below, Frame};

/// A unit that has left or was dropped, and lay below a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// The end that sent it.
    pub(crate) end: u32,
    /// The bytes that it counts.
    pub(crate) bytes: u32,
    /// The time at which its sender's stack handed it over.
    pub(crate) sent: Instant,
}

/// A wire that may be watched.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) wire: Wire<Frame>,
    pub(super) probe: Option<Box<Probe>>,
    /// Units that have left or were dropped and lay below a socket.
    pub(super) released: Vec<Released>,
    /// The ends that will be told of units just pushed, at most [`PUSHED_MAX`].
    pub(super) pushed: Vec<u32>,
    /// Copies that emulated links have made, and their bytes on the wire.
    pub(super) copied: Tally,
}

/// Largest number of pushes that are remembered until they are asked for: a burst.
const PUSHED_MAX: usize = BULK as usize;

impl Device {
    pub(super) const fn new(wire: Wire<Frame>) -> Self {
        let copied = Tally { packets: 0, bytes: 0 };
        Self { wire, probe: None, released: Vec::new(), pushed: Vec::new(), copied }
    }

    /// Sets the time of the pushes that follow.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        if let Some(probe) = &mut self.probe {
            probe.now = now;
        }
    }

    /// Brings the wire to the present, see [`Wire::advance`].
    pub(super) fn advance(&mut self, now: Instant, mut left: impl FnMut(Departure<Frame>)) -> bool {
        let Self { wire, probe, released, .. } = self;
        wire.advance(now, |mut d| {
            if let Some(probe) = probe {
                probe.departed(&d);
            }
            release(released, &mut d.frame);
            left(d);
        })
    }

    /// Has the rings share the line as the root qdisc says: by the classes of an mqprio with `hw
    /// 1`, else in turns.
    pub(super) fn fit_scheduler(&mut self, root: &dyn Qdisc) {
        let rings = self.wire.config().rings;
        let line = mqprio::line_of(root, rings).unwrap_or_else(|| LineConfig::round_robin(rings));
        if *self.wire.scheduler() != line && self.wire.configure_scheduler(&line).is_err() {
            // The root was checked when it was made, against a line that may have another rate now.
            let _ = self.wire.configure_scheduler(&LineConfig::round_robin(rings));
        }
    }
}

impl Queues for Device {
    type Frame = Frame;
    type Queue<'a> = Ring<'a>;
    #[inline]
    fn queue(&mut self, index: u16) -> Option<Ring<'_>> {
        let Self { wire, probe, released, pushed, copied } = self;
        Some(Ring { ring: wire.ring(index)?, index, probe: probe.as_deref_mut(), released, pushed, copied })
    }
}

/// A ring of the wire while a path uses it.
#[derive(Debug)]
pub(super) struct Ring<'a> {
    ring: RingQueue<'a, Frame>,
    index: u16,
    probe: Option<&'a mut Probe>,
    released: &'a mut Vec<Released>,
    pushed: &'a mut Vec<u32>,
    copied: &'a mut Tally,
}

impl TxQueue for Ring<'_> {
    type Frame = Frame;

    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        self.ring.reserve(want)
    }
    #[inline]
    fn push(&mut self, mut frame: Frame, m: &Meta) {
        if m.washed {
            wash(&mut frame);
        }
        if m.marked {
            mark(&mut frame);
        }
        if let Some(probe) = &mut self.probe {
            probe.pushed(self.index);
        }
        if frame.below != Below::Not && self.pushed.len() < PUSHED_MAX {
            self.pushed.push(frame.to ^ 1);
        }
        self.ring.push(frame, m);
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.ring.commit()
    }
    #[inline]
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        self.ring.reap(sink);
    }
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let mut copy = frame.clone();
        // A copy belongs to no socket: its sender counts the frame once.
        copy.below = Below::Not;
        self.copied.add(copy.wire_len());
        Some(copy)
    }
    fn corrupt(&mut self, frame: &mut Frame, _bit: u32) {
        // One wrong bit is one that every checksum of the Internet finds; which one makes no
        // difference.
        frame.damaged = true;
    }
    fn discard(&mut self, mut frame: Frame, _m: &Meta, _reason: DropReason) {
        release(self.released, &mut frame);
    }
}

/// Sets the code point of a frame to CE, if its sender takes marks: in its bytes too, which
/// captures and the next filters see.
fn mark(frame: &mut Frame) {
    if frame.ecn().capable() {
        frame.ds |= Ecn::Ce as u8;
        let network = network(frame);
        headers::set_ce(frame.kept_mut(), network);
    }
}

/// Sets the DSCP of a frame to 0.
fn wash(frame: &mut Frame) {
    frame.ds &= 3;
    let network = network(frame);
    headers::clear_dscp(frame.kept_mut(), network);
}

/// Returns the kind of a frame's network header, with which its bytes begin.
const fn network(frame: &Frame) -> Network {
    let l3 = match frame.protocol {
        ethertype::IPV4 => L3::Ipv4,
        ethertype::IPV6 => L3::Ipv6,
        _ => L3::None,
    };
    Network { l3, offset: Some(0) }
}

/// The frame lies no longer below the socket of whom it is from, which is the other end of whom it
/// is for.
pub(super) fn release(released: &mut Vec<Released>, frame: &mut Frame) {
    if frame.below != Below::Not {
        let bytes = frame.below.bytes(frame.payload_len());
        released.push(Released { end: frame.to ^ 1, bytes, sent: frame.sent });
        frame.below = Below::Not;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::model::wire::WireConfig;

    #[test]
    fn a_copy_does_not_lie_below_the_socket() {
        let mut device = Device::new(Wire::new(WireConfig::default()).unwrap());
        let mut frame = Frame::headers(&[0x45; 60], 40, 60);
        frame.below = Below::Whole;
        let copy = device.queue(0).and_then(|mut ring| ring.copy(&frame)).unwrap();
        assert_eq!((copy.below, frame.below), (Below::Not, Below::Whole));
        assert_eq!(device.copied, Tally { packets: 1, bytes: 74 });
    }

    #[test]
    fn marks_are_in_the_bytes_of_both_versions() {
        for (bytes, ds, marked, washed) in [
            ([0x45, 0xba], 0xba, [0x45, 0xbb], [0x45, 0x03]),
            ([0x6b, 0xa5], 0xba, [0x6b, 0xb5], [0x60, 0x35]),
            ([0x6b, 0x85], 0xb8, [0x6b, 0x85], [0x60, 0x05]),
        ] {
            let mut packet = [0; 60];
            packet[..2].copy_from_slice(&bytes);
            let mut f = Frame::headers(&packet, 60, 60);
            f.ds = ds;
            mark(&mut f);
            assert_eq!(f.header()[..2], marked);
            wash(&mut f);
            assert_eq!(f.header()[..2], washed);
            assert_eq!(f.ds, if ds & 3 == 0 { 0 } else { 3 });
        }
    }
}
