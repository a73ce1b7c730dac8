//! `Drain`: from the qdiscs of a direction to its device. It owns the port with its paths, the line
//! below them and the times at which qdiscs want to be called again, and processes each event at
//! its own time.

use std::collections::VecDeque;

use txweir_core::packet::hash::FlowHasher;
use txweir_core::path::device::DeviceError;
use txweir_core::path::port::{Choice, Port as TxPort};
use txweir_core::path::select::Sender;
use txweir_core::path::txpath::BULK;
use txweir_core::turns::Load;
use txweir_core::{Admitted, Detail, Instant, Meta, Nanos, TxPath, Wake};
use txweir_device::{Backend, Store};

use crate::arrival::{Arrival, Facts};
use crate::cut::cut;
use crate::line::Exit;
use crate::stats::{Crossed, DirectionStats};
use crate::timers::Timers;

/// The longest time by which a busy direction may ask to be woken later than necessary, so that a
/// wire of a million packets per second does not cause a million wake-ups: a fifth of the default
/// completion interval.
const COALESCE: Nanos = Nanos::from_micros(50);

/// Most facts of frames that are gone whose memory is kept: 63 kB of them.
const UNUSED_MAX: usize = 256;

/// The paths of a direction, and the line into which they send.
#[derive(Debug)]
pub struct Drain<D: Backend> {
    pub port: TxPort<D::Frame>,
    pub exit: Exit<D>,
    pub stats: DirectionStats,
    /// Frames whose senders wait until the qdiscs have room for them, in order: one, and as many as
    /// the caller had received by then.
    pub held: VecDeque<Arrival<D::Frame>>,
    /// Where frames come from: their transmit queue is chosen by it.
    pub sender: Sender,
    /// Frames that crossed from one worker to another.
    pub crossed: Crossed,
    timers: Timers,
    /// Facts of frames that are gone, for those of frames to come.
    #[allow(clippy::vec_box, reason = "they go with the frames, and are not moved")]
    pub unused: Vec<Box<Facts>>,
    hasher: FlowHasher,
}

impl<D: Backend> Drain<D> {
    /// Makes the drain of a direction. `seed` keys the flow hash.
    pub fn new(port: TxPort<D::Frame>, exit: Exit<D>, seed: u64) -> Self {
        let (stats, timers) = (DirectionStats::default(), Timers::default());
        let (sender, crossed) = (Sender::default(), Crossed::default());
        let (held, hasher) = (VecDeque::new(), FlowHasher::new(seed));
        let unused = Vec::new();
        Self { port, exit, stats, held, sender, crossed, timers, unused, hasher }
    }

    /// Puts a frame into its path. Returns the queue, and true if it has passed the qdiscs
    /// directly.
    pub fn enter(&mut self, now: Instant, arrival: Arrival<D::Frame>) -> (u16, bool) {
        let Arrival { mut frame, mut facts } = arrival;
        let Facts { meta, headers, route, queue_chosen, at } = &mut *facts;
        let stamps = self.exit.stamps(now);
        stamps.enters(*at);
        // A packet that passes the qdiscs directly leaves at this time as well.
        meta.enqueued = now;
        if !*queue_chosen {
            self.port.chooser_mut().choose_for(meta, Choice::By(&self.sender, None), now);
        }
        let store = self.exit.store();
        store.beside_mut(&mut frame).network = headers.network_header();
        let wants = self.port.path(meta.queue).is_some_and(TxPath::wants_detail);
        let detail =
            wants.then(|| Detail { route: *route, ..Detail::of(headers, store.bytes(&frame), &self.hasher) });
        let (queue, sent) =
            self.port.send_with(now, frame, meta, detail.as_ref(), Choice::Made, &mut self.exit);
        let passed = matches!(sent, Admitted::Sent);
        match sent {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
            Admitted::Cut(frame, _) => self.cut(now, frame, meta, detail.map(Detail::piece)),
            // The path of a forwarder never answers this.
            Admitted::Full(frame) => {
                self.exit.left(meta);
                self.exit.discard(frame);
            }
        }
        self.put_by(facts);
        (queue, passed)
    }

    /// Keeps the memory of the facts of a frame that is gone, for a frame that comes later.
    #[inline]
    pub fn put_by(&mut self, facts: Box<Facts>) {
        if self.unused.len() < UNUSED_MAX {
            self.unused.push(facts);
        }
    }

    /// Rings the doorbell of a queue behind a frame that has passed its qdiscs directly: they are
    /// empty, so that nothing else is to be done.
    pub fn ring(&mut self, queue: u16) {
        // The line is not done at the doorbell, so that no fence ends by it.
        let _ = self.port.doorbell(queue, &mut self.exit);
        self.stats.held_max = self.stats.held_max.max(self.exit.line.held_bytes());
    }

    /// Submits a super-frame segment by segment.
    fn cut(&mut self, now: Instant, whole: D::Frame, meta: &Meta, detail: Option<Detail>) {
        let Self { port, exit, stats, .. } = self;
        // The cutter has the frames, and exchanges them with the stand-in for each piece that it
        // submits.
        let mut frames = std::mem::take(exit.store());
        exit.left(meta);
        cut(&mut frames, stats, whole, meta, &mut |frames: &mut D::Store, piece, mut m| {
            std::mem::swap(frames, exit.store());
            if let Some(gate) = &mut exit.gate {
                gate.joined(m.hash, Load::of(&m));
            }
            match port.send_with(now, piece, &mut m, detail.as_ref(), Choice::Made, exit).1 {
                Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
                Admitted::Cut(piece, _) | Admitted::Full(piece) => {
                    exit.left(&m);
                    exit.discard(piece);
                }
            }
            std::mem::swap(frames, exit.store());
        });
        *exit.store() = frames;
    }

    /// Sends from the qdiscs of every queue to the line until the line takes no more.
    pub fn drain_all(&mut self, now: Instant) {
        let paths = self.port.paths().len();
        self.timers.truncate(paths);
        // There is a path for each queue, or a single path.
        (0..paths as u16).for_each(|queue| self.drain(now, queue));
    }

    /// Sends from the qdiscs of a queue to the line until the line takes no more, then from the
    /// gate to the qdiscs.
    pub fn drain(&mut self, now: Instant, queue: u16) {
        self.drain_queue(now, queue);
        self.feed(now);
    }

    /// Sends from the qdiscs of a queue to the line until the line takes no more.
    pub fn drain_queue(&mut self, now: Instant, queue: u16) {
        self.exit.stamps(now);
        let timer = loop {
            match self.port.drain(now, queue, BULK, &mut self.exit) {
                // The loop is bounded by the queued packets: each round sends some of them.
                Wake::More => {}
                Wake::Idle | Wake::Device => break None,
                // A timer that is not later than `now` would fire again and again.
                Wake::At(at, _) => break Some(at.max(now + Nanos(1))),
            }
        };
        let path = if self.port.is_split() { usize::from(queue) } else { 0 };
        self.timers.set(path, timer);
        self.stats.held_max = self.stats.held_max.max(self.exit.line.held_bytes());
    }

    /// Drains a queue after completions. Qdiscs that wait for a later time had room in the line and
    /// sent nothing into it, so more room changes nothing, and a further question would count as
    /// another overlimit. If one path feeds several queues, other packets may have waited for room.
    fn drain_finished(&mut self, at: Instant, queue: u16) {
        let alone = self.port.is_split() || self.port.queues() == 1;
        match self.timers.of(queue).is_some_and(|timer| timer > at) && alone {
            true => self.feed(at),
            false => self.drain(at, queue),
        }
    }

    /// Takes the completions of the line, if there are any, and drains the queues that have work to
    /// do.
    fn attend(&mut self, at: Instant, finished: bool) {
        let split = self.port.is_split();
        let mut opened = false;
        if finished {
            for queue in 0..self.exit.line.queues() {
                if self.exit.line.reported(queue) {
                    opened |= self.port.reap(at, queue, &mut self.exit, |_| {}).opened;
                    if split && queue < self.port.queues() {
                        self.drain_finished(at, queue);
                    }
                }
            }
        }
        if opened {
            return self.drain_all(at);
        }
        if finished && !split {
            return self.drain_finished(at, 0);
        }
        if self.timers.next().is_some_and(|t| t <= at) {
            // There is a path for each queue, or a single path.
            for path in 0..self.port.paths().len() as u16 {
                if self.timers.of(path).is_some_and(|t| t <= at) {
                    self.drain(at, path);
                }
            }
        }
    }

    /// Runs the events of the wire and of the qdiscs that are due at `now`, each at its own time.
    /// The device gets frames and no doorbell, unless they make a batch.
    pub fn run(&mut self, now: Instant) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.stats.late_max_ns = self.stats.late_max_ns.max(now.saturating_since(at).0);
            let finished = self.exit.line.advance(at, &mut self.stats);
            self.attend(at, finished);
        }
        // All due events are done: this call only tells the wire the time.
        self.exit.line.advance(now, &mut self.stats);
    }

    /// Runs every due event, and shows the device all frames that it was given.
    ///
    /// # Errors
    /// The device is gone; the frames that it held are lost.
    pub fn advance(&mut self, now: Instant) -> Result<(), DeviceError> {
        self.run(now);
        self.exit.stamps(now);
        self.release(now);
        // The loop is bounded by the queued packets: another round follows only after the device
        // has finished frames.
        while self.exit.line.ring(&mut self.stats) {
            self.attend(now, true);
            self.release(now);
        }
        self.exit.line.output_mut().take_error().map_or(Ok(()), Err)
    }

    fn next_event(&self) -> Option<Instant> {
        match (self.exit.line.next_event(), self.timers.next()) {
            (Some(event), Some(timer)) => Some(event.min(timer)),
            (event, timer) => event.or(timer),
        }
    }

    /// Returns the time of the next call of `advance` if no frame arrives.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.exit.line.has_news() {
            return Some(now);
        }
        let busy = self.exit.line.units() > 1 || self.port.totals().backlog().packets > 1;
        let event = self.next_event().map(|event| if busy { event.max(now + COALESCE) } else { event });
        let look = self.exit.line.output().device.look_again().map(|after| now + after);
        event.into_iter().chain(look).min()
    }
}
