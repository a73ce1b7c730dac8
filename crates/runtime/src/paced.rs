//! `Paced`: a [`Wire`] ahead of any device. Frames spend their transmission time on the wire, and
//! the device gets them as they leave it; the byte limit learns from the wire, not from the device.

use txweir_core::model::wire::{Departure, Wire, WireConfig};
use txweir_core::{ConfigError, Instant};
use txweir_device::Backend;

use crate::output::Output;
use crate::stats::DirectionStats;

/// A wire over a device.
#[derive(Debug)]
pub struct Paced<D: Backend> {
    pub wire: Wire<D::Frame>,
    pub output: Output<D>,
    /// Frames pushed that have not left the wire.
    pub units: usize,
}

impl<D: Backend> Paced<D> {
    pub fn new(wire: WireConfig, device: D) -> Result<Self, ConfigError> {
        Ok(Self { wire: Wire::new(wire)?, output: Output::new(device), units: 0 })
    }

    /// Runs the wire up to `now`; the device gets the frames that have left it. Returns true if
    /// there are completions to reap.
    pub fn advance(&mut self, now: Instant, stats: &mut DirectionStats) -> bool {
        let Self { wire, output, units } = self;
        wire.advance(now, |Departure { frame, meta, start, finish, .. }| {
            *units -= 1;
            stats.left_wire(&meta, finish.saturating_since(start).0);
            output.stamps.finished(meta.enqueued, finish);
            output.push_or_lose(frame, &meta, stats);
        })
    }

    /// Rings the device's doorbell for all frames that it was given. Its completions only count
    /// fates: the path gets the completions of the wire.
    pub fn show(&mut self, stats: &mut DirectionStats) {
        self.output.ring();
        self.output.settle(stats, |_| {});
    }
}
