//! `End`: the device of a link: none, an interface, or an interface that is not there.

use std::io;

use txweir_core::path::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::{DropReason, Meta, Nanos};
use txweir_device::{
    Backend, FRAME_MEMORY, Fates, Finished, Frame, Frames, LinkIo, OpenError, Source, Store, VnetHdr,
};

/// The device of a link.
#[derive(Debug)]
pub enum End {
    /// No device: frames are delivered as soon as they are sent.
    Null(Sink),
    /// An interface.
    Live(LinkIo),
    /// An interface that has disappeared, and the system's error: frames are lost.
    Gone(String, Sink),
    /// An interface that has not been there yet, and the reason: frames are lost.
    Awaited(String, Sink),
    /// An interface to which other workers have the handles: frames are lost.
    Spare(Sink),
}

/// A device that is done with each frame at once.
#[derive(Debug, Default)]
pub struct Sink {
    frames: Frames,
    finished: Finished,
}

impl Sink {
    fn new() -> Self {
        Self { frames: Frames::new(FRAME_MEMORY), finished: Finished::default() }
    }
    fn take(&mut self, frame: Frame, m: &Meta, delivered: bool) {
        self.finished.add(m.wire_len, delivered);
        self.frames.give(frame);
    }
}

impl End {
    /// Returns the end of a link without a device.
    #[must_use]
    pub fn null() -> Self {
        Self::Null(Sink::new())
    }

    /// Returns the end of a worker's copy of a link that has no handle of the interface.
    #[must_use]
    pub fn spare() -> Self {
        Self::Spare(Sink::new())
    }

    /// Returns the end of a link whose interface is not there yet.
    #[must_use]
    pub fn awaited(why: &OpenError) -> Self {
        Self::Awaited(why.to_string(), Sink::new())
    }

    /// Returns an end without the interface of this one: if that is not there, neither is the
    /// other's.
    #[must_use]
    pub fn likeness(&self) -> Self {
        match self {
            Self::Null(_) => Self::null(),
            Self::Live(_) | Self::Spare(_) => Self::spare(),
            Self::Gone(why, _) => Self::Gone(why.clone(), Sink::new()),
            Self::Awaited(why, _) => Self::Awaited(why.clone(), Sink::new()),
        }
    }

    /// Returns the interface, or the device in its place.
    const fn parts(&mut self) -> Result<&mut LinkIo, &mut Sink> {
        match self {
            Self::Live(io) => Ok(io),
            Self::Null(sink) | Self::Gone(_, sink) | Self::Awaited(_, sink) | Self::Spare(sink) => Err(sink),
        }
    }

    /// Returns the reason for which the interface is not there; `None` if it is there.
    #[must_use]
    pub fn away(&self) -> Option<&str> {
        match self {
            Self::Gone(why, _) | Self::Awaited(why, _) => Some(why),
            Self::Null(_) | Self::Live(_) | Self::Spare(_) => None,
        }
    }

    /// Notes the failure of an attempt to open an interface that is not there. Returns true if it
    /// is another one than the known reason.
    pub fn not_opened(&mut self, error: &OpenError) -> bool {
        // The reason of a loss says more than that the interface is still missing.
        let known = matches!(self, Self::Gone(..)) && error.is_missing();
        match self {
            Self::Gone(why, _) | Self::Awaited(why, _) if !known => {
                let before = std::mem::replace(why, error.to_string());
                before != *why
            }
            _ => false,
        }
    }

    /// Puts an end in the place of one whose interface is not there. The frames that the end holds
    /// stay in their buffers.
    pub fn come_back(&mut self, mut end: Self) {
        *end.store() = std::mem::take(self.store());
        *self = end;
    }

    /// Marks the interface as not working any more. Frames that wait for it are lost.
    pub fn go(&mut self, why: String) {
        let mut sink = Sink::default();
        if let Self::Live(io) = self {
            io.abandon();
            sink.finished.absorb(&mut **io);
        }
        sink.frames = std::mem::take(self.store());
        *self = Self::Gone(why, sink);
    }
}

impl TxQueue for End {
    type Frame = Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        self.parts().map_or(want, |io| io.reserve(want))
    }
    fn push(&mut self, frame: Frame, m: &Meta) {
        let delivered = matches!(self, Self::Null(_));
        match self.parts() {
            Ok(io) => io.push(frame, m),
            Err(sink) => sink.take(frame, m, delivered),
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.parts().map_or(Ok(()), |io| io.commit())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        match self.parts() {
            Ok(io) => io.reap(sink),
            Err(own) => own.finished.reap(sink),
        }
    }
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        self.store().copy(frame)
    }
    fn corrupt(&mut self, frame: &mut Frame, bit: u32) {
        flip_bit(frame.bytes_mut(), bit);
    }
    fn discard(&mut self, frame: Frame, _: &Meta, _: DropReason) {
        self.store().give(frame);
    }
}

impl Backend for End {
    type Store = Frames;

    fn store(&mut self) -> &mut Frames {
        match self.parts() {
            Ok(io) => io.store(),
            Err(sink) => &mut sink.frames,
        }
    }
    fn is_full(&self) -> bool {
        matches!(self, Self::Live(io) if io.is_full())
    }
    fn is_busy(&self) -> bool {
        matches!(self, Self::Live(io) if io.is_busy())
    }
    fn look_again(&self) -> Option<Nanos> {
        match self {
            Self::Live(io) => io.look_again(),
            _ => None,
        }
    }
    fn batch_bytes(&self) -> u64 {
        match self {
            Self::Live(io) => io.batch_bytes(),
            _ => u64::MAX,
        }
    }
    fn take_fates(&mut self) -> Fates {
        match self.parts() {
            Ok(io) => io.take_fates(),
            Err(sink) => sink.finished.take_fates(),
        }
    }
    fn abandon(&mut self) {
        if let Self::Live(io) = self {
            io.abandon();
        }
    }
}

impl Source for End {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        self.parts().map_or(Ok(None), |io| io.recv(room))
    }
}
