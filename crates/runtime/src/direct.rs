//! `Direct`: a device without a model ahead of it, which sends at its own speed. A frame is
//! finished once the device has finished it, so that the qdiscs feel a slow device.
//!
//! The transmit queues of a path share one device here. Each queue gathers its frames, and when the
//! device's doorbell is rung the queues take turns, frame by frame. A frame that has been given to
//! the device stays with it, in order.

use std::collections::VecDeque;

use txweir_core::path::device::Completed;
use txweir_core::path::txpath::BULK;
use txweir_core::{Instant, Meta};
use txweir_device::{BATCH_MAX, Backend};

use crate::output::Output;
use crate::stats::DirectionStats;

/// Most frames of one queue that are gathered or in the device: one promise. A larger number would
/// be a queue that no qdisc sees.
const HELD_MAX: u32 = BULK;

/// A device without a model, and the queues that take turns at it.
#[derive(Debug)]
pub struct Direct<D: Backend> {
    pub output: Output<D>,
    queues: Vec<Queue<D::Frame>>,
    /// Queues with frames for the next doorbell, in the order of their turns.
    turns: VecDeque<u16>,
    /// Frames that wait for the next doorbell.
    gathered: usize,
    /// Bytes of the gathered frames.
    gathered_bytes: u64,
    /// The queue and the bytes of each frame that the device has, and the time at which it left the
    /// qdiscs, in the order in which the device got them.
    given: VecDeque<(u16, u32, Instant)>,
    /// Bytes that are gathered or given.
    held_bytes: u64,
    /// Queues with frames that are finished and not reaped.
    reported: usize,
}

/// A queue ahead of a device.
#[derive(Debug)]
struct Queue<F> {
    gathered: VecDeque<(F, Meta)>,
    /// Frames that are gathered or given.
    held: u32,
    /// Packets that are finished and not reaped.
    packets: u32,
    bytes: u32,
}

impl<F> Queue<F> {
    const fn new() -> Self {
        Self { gathered: VecDeque::new(), held: 0, packets: 0, bytes: 0 }
    }
}

impl<D: Backend> Direct<D> {
    pub fn new(device: D) -> Self {
        Self {
            output: Output::new(device),
            queues: vec![Queue::new()],
            turns: VecDeque::new(),
            gathered: 0,
            gathered_bytes: 0,
            given: VecDeque::new(),
            held_bytes: 0,
            reported: 0,
        }
    }

    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    pub fn add_queues(&mut self, queues: usize) {
        let known = self.queues.len().max(queues);
        self.queues.resize_with(known, Queue::new);
    }

    pub fn reserve(&mut self, index: u16, want: u32) -> u32 {
        let held = self.queues.get(usize::from(index)).map_or(HELD_MAX, |queue| queue.held);
        want.min(HELD_MAX.saturating_sub(held))
    }

    pub fn push(&mut self, index: u16, frame: D::Frame, m: &Meta) {
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        if queue.gathered.is_empty() {
            self.turns.push_back(index);
        }
        queue.held += 1;
        let m = self.output.stamps.leaves(m);
        queue.gathered.push_back((frame, m));
        self.gathered += 1;
        self.gathered_bytes += u64::from(m.wire_len);
        self.held_bytes += u64::from(m.wire_len);
    }

    /// True if enough frames are gathered to be worth the cost of a doorbell, and the device may
    /// have room.
    pub fn batch_is_due(&self) -> bool {
        self.output.is_batch(self.gathered, self.gathered_bytes) && !self.output.device.is_full()
    }

    pub const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub const fn gathered(&self) -> usize {
        self.gathered
    }

    /// Rings the doorbell for the frames that found no room before, or else for a batch of gathered
    /// frames. Returns true if there are completions to reap: then the queues may gather more
    /// before the next doorbell.
    pub fn show(&mut self, stats: &mut DirectionStats) -> bool {
        if self.output.device.is_full() {
            self.output.ring();
        }
        self.collect(stats);
        // The loop is bounded: each round gives the device at least one frame. A device that
        // finishes frames later takes several rounds.
        while self.reported == 0 && !self.turns.is_empty() && !self.output.device.is_full() {
            let places = self.output.device.reserve(BATCH_MAX as u32); // 64
            if places == 0 {
                break;
            }
            for _ in 0..places {
                self.give_next(stats);
            }
            self.output.ring();
            self.collect(stats);
        }
        self.reported > 0
    }

    /// Gives the device the frame of the queue whose turn it is.
    fn give_next(&mut self, stats: &mut DirectionStats) {
        let Some(index) = self.turns.pop_front() else { return };
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        let Some((frame, meta)) = queue.gathered.pop_front() else { return };
        if !queue.gathered.is_empty() {
            self.turns.push_back(index);
        }
        self.gathered -= 1;
        self.gathered_bytes -= u64::from(meta.wire_len);
        self.given.push_back((index, meta.wire_len, meta.enqueued));
        stats.marked += u64::from(meta.marked);
        self.output.push(frame, &meta);
    }

    /// Takes the completions of the device. It reports only numbers: the finished frames are the
    /// oldest of those that it was given.
    fn collect(&mut self, stats: &mut DirectionStats) {
        let Self { output, queues, given, reported, held_bytes, .. } = self;
        let mut finished = 0;
        output.settle(stats, |packets| finished += packets as usize);
        let now = output.stamps.now;
        for (index, bytes, left) in given.drain(..finished.min(given.len())) {
            output.stamps.finished(left, now);
            stats.departed += 1;
            stats.departed_bytes += u64::from(bytes);
            *held_bytes -= u64::from(bytes);
            let Some(queue) = queues.get_mut(usize::from(index)) else { continue };
            *reported += usize::from(queue.packets == 0);
            queue.held -= 1;
            queue.packets += 1;
            // At most as many frames as the queue holds, each far below 2^32 / 64 bytes, finish
            // before they are reaped.
            queue.bytes = queue.bytes.saturating_add(bytes);
        }
    }

    /// True if a queue has finished frames that were not reaped.
    pub fn reported(&self, index: u16) -> bool {
        self.queues.get(usize::from(index)).is_some_and(|queue| queue.packets > 0)
    }

    pub fn reap(&mut self, index: u16, sink: &mut dyn FnMut(Completed<D::Frame>)) {
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        let (packets, bytes) = (std::mem::take(&mut queue.packets), std::mem::take(&mut queue.bytes));
        if packets > 0 {
            self.reported -= 1;
            sink(Completed { packets, bytes, frame: None });
        }
    }
}
