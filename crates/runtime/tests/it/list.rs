//! A device that is a list: a test fills it with frames to receive, and reads the frames that were
//! sent by it.

use std::collections::VecDeque;
use std::io;

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::{DropReason, Instant, Meta};
use txweir_device::{Backend, Fates, Finished, Frame, Frames, Source, Store, VnetHdr};
use txweir_runtime::{Arrival, Direction, DirectionConfig, WireSpec};

/// Most frames that a device of this kind holds.
const PLACES: usize = 256;

/// Makes a direction with a wire, whose device has so many bytes of frames.
pub fn direction(spec: &str, memory: usize) -> Direction<Out> {
    let WireSpec { wire, bql } = spec.parse().unwrap();
    let config = DirectionConfig { wire: Some(wire), bql, packets: 4096, ..DirectionConfig::default() };
    Direction::new(config, Out::new(memory)).unwrap()
}

/// The part of the device that a test sees.
#[derive(Debug, Default)]
pub struct List {
    pub incoming: VecDeque<(VnetHdr, Vec<u8>)>,
    pub sent: Vec<(VnetHdr, Vec<u8>)>,
    pub full: bool,
    /// Number of sends that still find the device full.
    pub full_for: usize,
    pub gone: bool,
    /// The number of frames that each doorbell has shown, those that were tried again included.
    pub doorbells: Vec<usize>,
}

impl Source for List {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        Ok(self.incoming.pop_front().map(|(hdr, bytes)| {
            room[..bytes.len()].copy_from_slice(&bytes);
            (hdr, bytes.len())
        }))
    }
}

/// The device. It refuses a frame of 61 bytes.
#[derive(Debug)]
pub struct Out {
    pub list: List,
    frames: Frames,
    batch: VecDeque<(Frame, u32)>,
    is_full: bool,
    finished: Finished,
}

impl Out {
    /// Makes a device with at most `memory` bytes of frames.
    pub fn new(memory: usize) -> Self {
        Self {
            list: List::default(),
            frames: Frames::new(memory),
            batch: VecDeque::new(),
            is_full: false,
            finished: Finished::default(),
        }
    }
}

impl TxQueue for Out {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min((PLACES - self.batch.len()) as u32)
    }
    fn push(&mut self, mut frame: Frame, m: &Meta) {
        assert!(self.batch.len() < PLACES, "a frame without a promise");
        let beside = *frame.beside();
        beside.mark(frame.bytes_mut(), m);
        self.batch.push_back((frame, m.wire_len));
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.list.doorbells.push(self.batch.len());
        self.is_full = false;
        if self.list.gone {
            self.abandon();
            return Err(DeviceError("gone".to_owned()));
        }
        while let Some((frame, wire_len)) = self.batch.pop_front() {
            if self.list.full || self.list.full_for > 0 {
                self.list.full_for = self.list.full_for.saturating_sub(1);
                self.is_full = true;
                self.batch.push_front((frame, wire_len));
                return Ok(());
            }
            self.finished.add(wire_len, frame.bytes().len() != 61);
            self.list.sent.push((frame.beside().hdr, frame.bytes().to_vec()));
            self.frames.give(frame);
        }
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        self.finished.reap(sink);
    }
    fn discard(&mut self, frame: Frame, _: &Meta, _: DropReason) {
        self.frames.give(frame);
    }
}

impl Backend for Out {
    type Store = Frames;
    fn store(&mut self) -> &mut Frames {
        &mut self.frames
    }
    fn is_full(&self) -> bool {
        self.is_full
    }
    fn take_fates(&mut self) -> Fates {
        self.finished.take_fates()
    }
    fn abandon(&mut self) {
        for (frame, wire_len) in self.batch.drain(..) {
            self.finished.add(wire_len, false);
            self.frames.give(frame);
        }
        self.is_full = false;
    }
}

/// Calls of a direction while its device is this list.
pub trait To {
    fn advance_to(&mut self, now: Instant, list: &mut List) -> Result<(), DeviceError>;
    fn admit_to(&mut self, now: Instant, arrival: Arrival<Frame>, list: &mut List)
    -> Result<(), DeviceError>;
}

impl To for Direction<Out> {
    fn advance_to(&mut self, now: Instant, list: &mut List) -> Result<(), DeviceError> {
        std::mem::swap(&mut self.device_mut().list, list);
        let done = self.advance(now);
        std::mem::swap(&mut self.device_mut().list, list);
        done
    }
    fn admit_to(
        &mut self,
        now: Instant,
        arrival: Arrival<Frame>,
        list: &mut List,
    ) -> Result<(), DeviceError> {
        std::mem::swap(&mut self.device_mut().list, list);
        let done = self.admit(now, arrival);
        std::mem::swap(&mut self.device_mut().list, list);
        done
    }
}
