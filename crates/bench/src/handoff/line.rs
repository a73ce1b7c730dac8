//! A device whose line is the bottleneck: it takes frames as fast as a ring can, and sends them at
//! the line's rate in wall-clock time. It does not make up for idle time: a line that has stood
//! idle is late for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use txweir_core::Meta;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_device::clock;

use super::ways::{FRAME_LEN, Frame};

/// Time of a frame without payload on Fast Ethernet: 64 bytes at least, 8 of preamble and 12 of
/// gap.
pub(super) const FRAME_NS: u64 = (64 + 8 + 12) * 80;
/// Descriptors of the ring: for 6.9 ms, longer than a thread waits for its turn on a processor that
/// it shares with another.
const SLOTS: u64 = 1024;

/// The state of a device that is visible from outside.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Frames that the device was shown.
    pub frames: Arc<AtomicU64>,
    /// The time at which the last of them has left, for a device that takes time, in nanoseconds of
    /// the clock; 0: at once.
    pub until_ns: Arc<AtomicU64>,
}

impl Shown {
    /// Creates the state of a device that sends at once.
    pub(super) fn at_once(frames: Arc<AtomicU64>) -> Self {
        Self { frames, ..Self::default() }
    }
}

/// The device.
pub(super) struct Line {
    clock: fn() -> u64,
    pushed: u64,
    reaped: u64,
    /// The time at which the last pushed frame will have left.
    until: u64,
    shown: Arc<AtomicU64>,
    until_ns: Arc<AtomicU64>,
}

impl Line {
    /// Creates an idle line with an empty ring.
    pub(super) fn new() -> (Self, Shown) {
        Self::with_clock(clock::now_ns)
    }

    fn with_clock(clock: fn() -> u64) -> (Self, Shown) {
        let shown = Shown::default();
        let (frames, until_ns) = (Arc::clone(&shown.frames), Arc::clone(&shown.until_ns));
        (Self { clock, pushed: 0, reaped: 0, until: 0, shown: frames, until_ns }, shown)
    }
}

impl TxQueue for Line {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        let free = SLOTS.saturating_sub(self.pushed - self.reaped);
        want.min(u32::try_from(free).unwrap_or(u32::MAX))
    }
    fn push(&mut self, _: Frame, _: &Meta) {
        self.until = self.until.max((self.clock)()) + FRAME_NS;
        self.pushed += 1;
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.until_ns.store(self.until, Ordering::Relaxed);
        self.shown.store(self.pushed, Ordering::Release);
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        // The frames in the ring leave without a gap up to the end.
        let in_ring = self.until.saturating_sub((self.clock)()).div_ceil(FRAME_NS);
        let packets = self.pushed.saturating_sub(in_ring).saturating_sub(self.reaped);
        if packets > 0 {
            self.reaped += packets;
            let packets = u32::try_from(packets).unwrap_or(u32::MAX);
            sink(Completed { packets, bytes: packets.saturating_mul(FRAME_LEN as u32), frame: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1_000_000) };
    }

    fn reap(line: &mut Line) -> u32 {
        let mut n = 0;
        line.reap(&mut |done| n += done.packets);
        n
    }

    #[test]
    fn it_sends_at_its_rate_and_makes_up_for_nothing() {
        let (mut line, shown) = Line::with_clock(|| NOW.get());
        static BYTES: [u8; FRAME_LEN] = [0; FRAME_LEN];
        let fill = |line: &mut Line| {
            let n = line.reserve(5000);
            (0..n).for_each(|_| line.push(&BYTES, &Meta::new(42)));
            line.commit().unwrap();
            (n, shown.frames.load(Ordering::Acquire), shown.until_ns.load(Ordering::Acquire))
        };
        assert_eq!(fill(&mut line), (1024, 1024, 1_000_000 + 1024 * FRAME_NS));
        assert_eq!((reap(&mut line), fill(&mut line).0), (0, 0));
        NOW.set(1_000_000 + 3 * FRAME_NS - 1);
        assert_eq!((reap(&mut line), reap(&mut line)), (2, 0));
        assert_eq!(fill(&mut line), (2, 1026, 1_000_000 + 1026 * FRAME_NS));
        // The line is idle from 1026 frames on, so the next frame leaves one frame time after it
        // came.
        NOW.set(1_000_000 + 2000 * FRAME_NS);
        assert_eq!(reap(&mut line), 1024);
        line.push(&BYTES, &Meta::new(42));
        line.commit().unwrap();
        assert_eq!(shown.until_ns.load(Ordering::Acquire), 1_000_000 + 2001 * FRAME_NS);
        assert_eq!(reap(&mut line), 0);
        NOW.set(1_000_000 + 2001 * FRAME_NS);
        assert_eq!(reap(&mut line), 1);
    }
}
