//! `Output`: a device, and its doorbell, which is rung for a batch of frames at a time.

use txweir_core::path::device::DeviceError;
use txweir_core::{Instant, Meta};
use txweir_device::{BATCH_MAX, Backend, Store};

use crate::delays::{Delays, Stamps};
use crate::stats::DirectionStats;

/// A device, and the amount that it was given since the last doorbell.
#[derive(Debug)]
pub struct Output<D> {
    pub device: D,
    frames: usize,
    bytes: u64,
    /// Bytes that are worth a doorbell, as the device last said.
    batch_bytes: u64,
    /// Frames that the device has, or has finished without a report.
    held: u64,
    /// Frames that the device has finished.
    finished: u64,
    /// The times of the stages of the direction.
    pub stamps: Stamps,
    /// The error with which the device disappeared, until it is reported.
    error: Option<DeviceError>,
}

impl<D: Backend> Output<D> {
    pub fn new(device: D) -> Self {
        let stamps = Stamps { delays: Some(Delays::default()), now: Instant::ZERO };
        let batch_bytes = device.batch_bytes();
        Self { device, frames: 0, bytes: 0, batch_bytes, held: 0, finished: 0, stamps, error: None }
    }

    /// Gives the device a frame, for which it has promised a place.
    pub fn push(&mut self, frame: D::Frame, m: &Meta) {
        self.frames += 1;
        self.held += 1;
        self.bytes += u64::from(m.wire_len);
        self.device.push(frame, m);
    }

    /// Gives the device a frame if it has a place; the frame is lost otherwise.
    pub fn push_or_lose(&mut self, frame: D::Frame, m: &Meta, stats: &mut DirectionStats) {
        if self.device.reserve(1) == 0 {
            stats.lost += 1;
            return self.device.store().give(frame);
        }
        self.push(frame, m);
        if self.is_batch(self.frames, self.bytes) && !self.device.is_full() {
            self.ring();
        }
    }

    /// True if this number of frames, or their bytes in all, are worth a doorbell.
    pub const fn is_batch(&self, frames: usize, bytes: u64) -> bool {
        frames >= BATCH_MAX || bytes >= self.batch_bytes
    }

    /// True if the device has frames that no doorbell has shown.
    pub const fn has_news(&self) -> bool {
        self.frames > 0
    }

    /// Rings the doorbell once, if there are frames to be shown or to be tried again.
    pub fn ring(&mut self) {
        if self.frames > 0 || self.device.is_full() {
            (self.frames, self.bytes) = (0, 0);
            // Another device may have come back in the place of one that was gone.
            self.batch_bytes = self.device.batch_bytes();
            if let Err(error) = self.device.commit() {
                self.error = Some(error);
            }
        }
    }

    /// Counts the fates of frames that the device was given, and reports to `done` how many it has
    /// finished.
    pub fn settle(&mut self, stats: &mut DirectionStats, mut done: impl FnMut(u32)) {
        self.device.reap(&mut |completed| done(completed.packets));
        let fates = self.device.take_fates();
        stats.delivered += fates.delivered;
        stats.lost += fates.lost;
        let finished = fates.delivered + fates.lost;
        self.finished += finished;
        self.held = self.held.saturating_sub(finished);
    }

    /// Returns the number of frames that the device was given and whose fate it has not reported.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Returns the number of frames that the device has finished.
    pub const fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns the error with which the device disappeared, once.
    pub const fn take_error(&mut self) -> Option<DeviceError> {
        self.error.take()
    }
}
