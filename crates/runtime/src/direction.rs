//! One direction of a forwarder: an input, a [`TxPath`], a [`Wire`], an output. It asks nobody what time it is, so
//! that it runs in virtual time as well.
//!
//! The wire is a model, and a model is never late: when [`Direction::advance`] is called after the time of an
//! event, the event and everything that follows from it (completions, the byte limit, the refill from the qdiscs)
//! still happen at their own times, in order, and only the frames leave late. So the rate over any longer time,
//! and what the byte limit learns, are those of the wire and not of this machine's scheduler. How late the worst
//! was is counted.

use std::collections::VecDeque;
use std::io;

use txweir_core::cx::Cx;
use txweir_core::device::TxQueue;
use txweir_core::dql::DqlConfig;
use txweir_core::route::Route;
use txweir_core::txpath::{BULK, Swapped};
use txweir_core::wire::{Departure, Wire, WireConfig};
use txweir_core::{Admitted, ConfigError, Detail, DropReason, Env, ErrorKind, Instant, Meta, Nanos};
use txweir_core::{PathConfig, Rate, Role, Tree, TxPath, Wake};
use txweir_device::{LinkIo, Segmenter, Sent, VnetHdr};

use crate::classify::Classifier;
use crate::frame::{Frame, Frames};
use crate::line::Line;

/// Frames that have left the wire and wait for an output that is full. An output with a buffer of its own is full
/// when that buffer is; a second one as large would only add delay.
const WAITING_MAX: usize = 256;

/// How much later than necessary a busy direction may ask to be woken, so that a wire of a million packets per
/// second does not mean a million wake-ups: a fifth of the default completion interval.
const COALESCE: Nanos = Nanos::from_micros(50);

/// Where frames come from and go to: a live link, or a test's.
pub trait Port {
    /// The next frame, into the front of `frame`; `None` if there is none now.
    ///
    /// # Errors
    /// The port is gone.
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>>;
    /// Takes a frame, refuses it, or is full.
    ///
    /// # Errors
    /// The port is gone.
    fn send(&mut self, hdr: &VnetHdr, frame: &[u8]) -> io::Result<Sent>;
}

impl Port for LinkIo {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        self.recv(frame)
    }
    fn send(&mut self, hdr: &VnetHdr, frame: &[u8]) -> io::Result<Sent> {
        self.send(hdr, frame)
    }
}

/// How to make a direction.
#[derive(Clone, Debug)]
pub struct DirectionConfig {
    /// The wire; `None` for a device that takes each frame at once and is as fast as the output.
    pub wire: Option<WireConfig>,
    /// The byte queue limit; `None` leaves only the ring.
    pub bql: Option<DqlConfig>,
    /// What qdiscs may know of the output. Its seed also keys the flow hash.
    pub env: Env,
    /// Packets that can wait in the qdiscs.
    pub packets: usize,
    /// Bytes of all frame buffers.
    pub memory: usize,
}

impl Default for DirectionConfig {
    /// The default wire and byte limit, 16 384 packets, 256 MiB: the 1000 super-frames of 64 KiB that pfifo_fast
    /// lets wait, with as much again for what they replace, and a ring.
    fn default() -> Self {
        Self {
            wire: Some(WireConfig::default()),
            bql: Some(DqlConfig::default()),
            env: Env::default(),
            packets: 16_384,
            memory: 256 << 20,
        }
    }
}

txweir_core::stats! {
    /// Counters of a direction. A super-frame is one frame.
    pub struct DirectionStats {
        /// Frames received and understood.
        received: u64,
        /// Their bytes, after segmentation.
        received_bytes: u64,
        /// Super-frames received whose headers do not describe one; dropped.
        malformed: u64,
        /// Frames dropped because the buffers were at their budget.
        no_memory: u64,
        /// Frames that the qdiscs dropped, or that were refused on the way into them.
        dropped: u64,
        /// Of those, frames that the filters of a hook dropped.
        filtered: u64,
        /// Frames that an action took away, or sent elsewhere.
        taken: u64,
        /// Super-frames that were cut because a qdisc takes them only in pieces.
        cut: u64,
        /// Pieces that these were cut into.
        pieces: u64,
        /// Frames that have left the wire.
        departed: u64,
        /// Their bytes, after segmentation.
        departed_bytes: u64,
        /// Nanoseconds that the wire was sending.
        busy_ns: u64,
        /// Frames that left the wire with a CE mark from a qdisc.
        marked: u64,
        /// Frames that the output took.
        delivered: u64,
        /// Frames that the output refused, or for which it stayed full for too long.
        lost: u64,
        /// The most bytes that the ring held.
        held_max: u64,
        /// The latest that an event of the wire was attended to, nanoseconds.
        late_max_ns: u64,
    }
}

/// A frame on its way in.
#[derive(Debug)]
pub struct Arrival {
    pub(crate) frame: Frame,
    pub(crate) meta: Meta,
    pub(crate) route: Route,
    /// Its transmit queue is chosen already.
    pub(crate) queue_chosen: bool,
}

impl Arrival {
    /// What the qdiscs will know of it, to be changed by who knows more than the headers say.
    pub const fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

/// One direction of a forwarder.
#[derive(Debug)]
pub struct Direction {
    classifier: Classifier,
    path: TxPath<Frame>,
    line: Line,
    /// When a qdisc wants to be asked again.
    timer: Option<Instant>,
    /// Frames that have left the wire and wait for the output.
    waiting: VecDeque<Frame>,
    stats: DirectionStats,
}

impl Direction {
    /// A direction with the default root qdisc. Memory for packets is taken here, for frames as they come.
    ///
    /// # Errors
    /// A wire or a byte limit that cannot be.
    pub fn new(config: DirectionConfig) -> Result<Self, ConfigError> {
        let path = PathConfig {
            env: config.env,
            pool: config.packets,
            role: Role::Forwarder,
            bql: config.bql,
            trace: 0,
        };
        let refused = |e| ConfigError::new(ErrorKind::OutOfRange, "wire", e, "").key("bql");
        let mut path = TxPath::new(path).map_err(refused)?;
        path.choose_queues();
        Ok(Self {
            classifier: Classifier::new(config.env.seed),
            path,
            line: Line::new(config.wire, config.memory)?,
            timer: None,
            waiting: VecDeque::new(),
            stats: DirectionStats::default(),
        })
    }

    /// Changes the qdiscs, at any time: `f` gets the tree and what its operations need.
    pub fn configure<R>(&mut self, now: Instant, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        let r = self.path.configure(now, &mut self.line, f);
        self.drain(now);
        r
    }

    /// Like [`configure`](Self::configure), and what waits goes on waiting: see [`TxPath::swap`]. A super-frame that the
    /// new tree takes only in pieces is cut.
    pub fn swap<R>(&mut self, now: Instant, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> (R, Swapped) {
        // The buffers are with the caller meanwhile: those of frames that are dropped gather in others.
        let mut frames = std::mem::replace(&mut self.line.frames, Frames::empty());
        let stats = &mut self.stats;
        let done = self.path.swap(now, &mut self.line, f, |whole, meta, _, each| {
            cut(&mut frames, stats, whole, meta, &mut |_, piece, m| each(piece, m));
        });
        let dropped = std::mem::replace(&mut self.line.frames, frames);
        self.line.frames.absorb(dropped);
        self.drain(now);
        done
    }

    /// Receives one frame and reads its headers. What cannot be forwarded is counted and left out.
    ///
    /// # Errors
    /// The input is gone.
    pub fn receive(&mut self, input: &mut impl Port) -> io::Result<Received> {
        let Some((hdr, len)) = input.recv(self.line.frames.landing())? else { return Ok(Received::Nothing) };
        let Ok(meta) = self.classifier.meta(&hdr, self.line.frames.landed(len)) else {
            self.stats.malformed += 1;
            return Ok(Received::LeftOut);
        };
        let Some(frame) = self.line.frames.keep(hdr, len) else {
            self.stats.no_memory += 1;
            return Ok(Received::LeftOut);
        };
        self.stats.received += 1;
        self.stats.received_bytes += u64::from(meta.wire_len);
        Ok(Received::Frame(Arrival { frame, meta, route: Route::default(), queue_chosen: false }))
    }

    /// Takes a frame into the path at `now`, which never goes back from one call to the next of this or
    /// [`advance`](Self::advance).
    ///
    /// # Errors
    /// The output is gone.
    pub fn admit(&mut self, now: Instant, arrival: Arrival, output: &mut impl Port) -> io::Result<()> {
        self.advance(now, output)?;
        let Arrival { frame, mut meta, route, queue_chosen } = arrival;
        if !queue_chosen {
            meta.queue = self.path.choose(&meta);
        }
        let detail =
            self.path.wants_detail().then(|| Detail { route, ..self.classifier.detail(frame.bytes()) });
        match self.path.submit_with(now, frame, meta, detail.as_ref(), &mut self.line) {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
            Admitted::Cut(frame, _) => self.cut(now, frame, &meta, detail.map(Detail::piece)),
            Admitted::Full(frame) => {
                // A forwarder's path does not say so.
                self.line.discard(frame, &meta, DropReason::Overlimit);
            }
        }
        if self.path.stops().may_transmit() {
            self.drain(now);
        }
        Ok(())
    }

    /// A hook's filters have dropped a frame.
    pub(crate) fn hook_dropped(&mut self, arrival: Arrival, reason: DropReason) {
        self.stats.filtered += 1;
        self.line.discard(arrival.frame, &arrival.meta, reason);
    }

    /// An action has taken a frame.
    pub(crate) fn taken(&mut self, arrival: Arrival) {
        self.stats.taken += 1;
        self.line.frames.give(arrival.frame);
    }

    /// Runs everything that is due at `now`: frames that have left the wire go to the output, completions to the
    /// byte limit, packets from the qdiscs to the ring, each at its own time.
    ///
    /// # Errors
    /// The output is gone.
    pub fn advance(&mut self, now: Instant, output: &mut impl Port) -> io::Result<()> {
        self.flush(output)?;
        self.line.retry(now);
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.stats.late_max_ns = self.stats.late_max_ns.max(now.saturating_since(at).0);
            let finished = self.carry(at, output)?;
            if finished {
                self.path.reap(at, &mut self.line, |_| {});
            }
            if finished || self.timer.is_some_and(|t| t <= at) {
                self.drain(at);
            }
        }
        self.carry(now, output)?;
        Ok(())
    }

    /// When to call [`advance`](Self::advance) next, if nothing arrives: as soon as something happens, and up to
    /// 50 us later while there is more to happen soon after.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let busy = self.line.units > 1 || self.path.backlog().packets > 1;
        let event = self.next_event()?;
        Some(if busy { event.max(now + COALESCE) } else { event })
    }

    /// Whether frames wait for the output to be writable.
    #[must_use]
    pub fn waits_for_output(&self) -> bool {
        !self.waiting.is_empty() || self.line.is_blocked()
    }

    /// Its transmit path: qdiscs, byte limit, counters.
    #[must_use]
    pub const fn path(&self) -> &TxPath<Frame> {
        &self.path
    }
    /// Its wire, if it has one.
    #[must_use]
    pub const fn wire(&self) -> Option<&Wire<Frame>> {
        self.line.wire()
    }
    /// Changes the rate of its wire, if it has one, from the next frame on.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Some(wire) = self.line.wire_mut() {
            wire.set_rate(rate);
        }
    }
    /// Bytes that the path has handed to the device and that the device has not finished.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.line.held_bytes()
    }
    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> DirectionStats {
        DirectionStats { dropped: self.line.dropped, ..self.stats }
    }

    fn next_event(&self) -> Option<Instant> {
        match (self.line.next_event(), self.timer) {
            (Some(event), Some(timer)) => Some(event.min(timer)),
            (event, timer) => event.or(timer),
        }
    }

    /// From the qdiscs to the ring, as much as goes.
    fn drain(&mut self, now: Instant) {
        self.timer = loop {
            match self.path.drain(now, BULK, &mut self.line) {
                // Bounded by what is queued: each round sends some of it.
                Wake::More => {}
                Wake::Idle | Wake::Device => break None,
                // A time that is not later would be asked for again and again.
                Wake::At(at, _) => break Some(at.max(now + Nanos(1))),
            }
        };
        self.stats.held_max = self.stats.held_max.max(self.line.held_bytes());
    }

    /// Runs the device and hands what has left it to the output. True if completions are there.
    fn carry(&mut self, at: Instant, output: &mut impl Port) -> io::Result<bool> {
        let (stats, waiting) = (&mut self.stats, &mut self.waiting);
        if self.line.wire().is_none() {
            return self.line.pass(at, output, |meta, taken| {
                departed(stats, meta);
                *(if taken { &mut stats.delivered } else { &mut stats.lost }) += 1;
            });
        }
        let mut failed = None;
        let finished = self.line.advance_wire(at, |Departure { frame, meta, start, finish, .. }, frames| {
            departed(stats, &meta);
            stats.busy_ns += finish.saturating_since(start).0;
            let sent = match waiting.is_empty() {
                true => output.send(&frame.hdr, frame.bytes()),
                false => Ok(Sent::Full),
            };
            match sent {
                Ok(Sent::Full) if waiting.len() < WAITING_MAX => return waiting.push_back(frame),
                Ok(Sent::Taken) => stats.delivered += 1,
                Ok(Sent::Full | Sent::Lost(_)) => stats.lost += 1,
                Err(error) => {
                    stats.lost += 1;
                    failed = Some(error);
                }
            }
            frames.give(frame);
        });
        failed.map_or(Ok(finished), Err)
    }

    /// Hands waiting frames to the output until it is full.
    fn flush(&mut self, output: &mut impl Port) -> io::Result<()> {
        while let Some(frame) = self.waiting.front() {
            match output.send(&frame.hdr, frame.bytes())? {
                Sent::Full => return Ok(()),
                Sent::Taken => self.stats.delivered += 1,
                Sent::Lost(_) => self.stats.lost += 1,
            }
            if let Some(frame) = self.waiting.pop_front() {
                self.line.frames.give(frame);
            }
        }
        Ok(())
    }

    /// Submits a super-frame segment by segment.
    fn cut(&mut self, now: Instant, whole: Frame, meta: &Meta, detail: Option<Detail>) {
        let Self { path, line, stats, .. } = self;
        let mut frames = std::mem::replace(&mut line.frames, Frames::empty());
        cut(&mut frames, stats, whole, meta, &mut |frames, piece, m| {
            std::mem::swap(frames, &mut line.frames);
            match path.submit_with(now, piece, m, detail.as_ref(), line) {
                Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
                Admitted::Cut(piece, _) | Admitted::Full(piece) => {
                    line.discard(piece, &m, DropReason::Oversize);
                }
            }
            std::mem::swap(frames, &mut line.frames);
        });
        line.frames = frames;
    }
}

/// Cuts a super-frame and gives each segment to `each`, with the buffers.
fn cut(
    frames: &mut Frames,
    stats: &mut DirectionStats,
    whole: Frame,
    meta: &Meta,
    each: &mut dyn FnMut(&mut Frames, Frame, Meta),
) {
    stats.cut += 1;
    if let Ok(mut segmenter) = Segmenter::new(&whole.hdr, whole.bytes()) {
        let room = segmenter.longest();
        for _ in 0..segmenter.segments() {
            let next = |room: &mut [u8]| segmenter.next_into(room).ok().flatten();
            let Some(piece) = frames.build(room, next) else {
                stats.no_memory += 1;
                break;
            };
            let mut m = *meta;
            m.len = u32::try_from(piece.bytes().len()).unwrap_or(u32::MAX);
            (m.wire_len, m.segs, m.gso_size, m.header_len) = (m.len, 1, 0, 0);
            stats.pieces += 1;
            each(frames, piece, m);
        }
    }
    frames.give(whole);
}

fn departed(stats: &mut DirectionStats, meta: &Meta) {
    stats.departed += 1;
    stats.departed_bytes += u64::from(meta.wire_len);
    stats.marked += u64::from(meta.marked);
}

/// What came of receiving.
#[must_use]
#[derive(Debug)]
pub enum Received {
    /// A frame, to be admitted.
    Frame(Arrival),
    /// One that cannot be forwarded; there may be more.
    LeftOut,
    /// Nothing is there.
    Nothing,
}
