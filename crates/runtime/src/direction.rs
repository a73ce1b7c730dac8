//! One direction of a forwarder: an input, a [`TxPort`] with its paths, a [`Wire`], an output. It asks nobody what time it is,
//! so that it runs in virtual time as well.
//!
//! The wire is a model, and a model is never late: when [`Direction::advance`] is called after the time of an
//! event, the event and everything that follows from it (completions, the byte limit, the refill from the qdiscs)
//! still happen at their own times, in order, and only the frames leave late. So the rate over any longer time,
//! and what the byte limit learns, are those of the wire and not of this machine's scheduler. How late the worst
//! was is counted.
//!
//! A direction of several queues has a ring of the wire for each, and below mq and mqprio a path. How the rings share the line
//! is what an mqprio at the root says (`hw 1`); otherwise they take turns.

use std::collections::VecDeque;
use std::io;

use txweir_core::base::queues::QueueSet;
use txweir_core::classify::filter::BlockId;
use txweir_core::packet::route::Route;
use txweir_core::path::dql::DqlConfig;
use txweir_core::path::port::{Choice, Port as TxPort};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::select::Sender;
use txweir_core::path::txpath::{BULK, Swapped};
use txweir_core::qdisc::mqprio;
use txweir_core::sched::cx::Cx;
use txweir_core::text::error::Object;
use txweir_core::turns::Load;
use txweir_core::{Admitted, ConfigError, Detail, Env, ErrorKind, Instant, Meta, Nanos};
use txweir_core::{PathConfig, Rate, Role, Tree, TxPath, Wake};
use txweir_core::{
    model::wire::{Departure, Wire, WireConfig},
    sched::schedule::LineConfig,
};
use txweir_device::{Segmenter, Sent};

use crate::arrival::Arrival;
use crate::classify::Classifier;
use crate::frame::{Frame, Frames};
use crate::io::FrameIo;
use crate::line::Line;

/// Frames that have left the wire and wait for an output that is full. An output with a buffer of its own is full
/// when that buffer is; a second one as large would only add delay.
const WAITING_MAX: usize = 256;

/// How much later than necessary a busy direction may ask to be woken, so that a wire of a million packets per
/// second does not mean a million wake-ups: a fifth of the default completion interval.
const COALESCE: Nanos = Nanos::from_micros(50);

/// How to make a direction.
#[derive(Clone, Debug)]
pub struct DirectionConfig {
    /// The wire; `None` for a device that takes each frame at once and is as fast as the output.
    pub wire: Option<WireConfig>,
    /// The byte queue limit; `None` leaves only the ring.
    pub bql: Option<DqlConfig>,
    /// What qdiscs may know of the output. Its seed also keys the flow hash. The wire has a ring for each of its queues, and
    /// says what it can schedule.
    pub env: Env,
    /// Packets that can wait in the qdiscs: of each queue, where each has its own (`txweir_core::path::port::Port::new`).
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

/// One direction of a forwarder.
#[derive(Debug)]
pub struct Direction {
    classifier: Classifier,
    pub(crate) port: TxPort<Frame>,
    pub(crate) line: Line,
    timers: Timers,
    /// Frames that have left the wire and wait for the output.
    waiting: VecDeque<Frame>,
    stats: DirectionStats,
}

/// When qdiscs want to be asked again.
#[derive(Debug, Default)]
struct Timers {
    /// Of each path.
    each: Vec<Option<Instant>>,
    /// The earliest.
    next: Option<Instant>,
}

impl Timers {
    fn set(&mut self, path: usize, at: Option<Instant>) {
        if path >= self.each.len() {
            self.each.resize(path + 1, None);
        }
        let before = std::mem::replace(&mut self.each[path], at);
        if before == at {
            return;
        }
        self.next = match (self.next, at) {
            // The earliest of all may have gone: every other one is looked at.
            (next, _) if next == before => self.each.iter().flatten().min().copied(),
            (Some(next), Some(at)) => Some(next.min(at)),
            (next, at) => next.or(at),
        };
    }
    /// There are so many paths from now on; those that are gone want nothing.
    fn truncate(&mut self, paths: usize) {
        for path in paths..self.each.len() {
            self.set(path, None);
        }
        self.each.truncate(paths);
    }
}

impl Direction {
    /// A direction with the default root qdisc. Memory for packets is taken here, for frames as they come.
    ///
    /// # Errors
    /// A wire or a byte limit that cannot be.
    pub fn new(config: DirectionConfig) -> Result<Self, ConfigError> {
        let queues = config.env.queues.clamp(1, QueueSet::QUEUES_MAX);
        let offload = config.wire.as_ref().map_or(config.env.offload, |wire| wire.offload);
        let path = PathConfig {
            env: Env { queues, offload, ..config.env },
            pool: config.packets,
            role: Role::Forwarder,
            bql: config.bql,
            trace: 0,
        };
        let refused = |e| ConfigError::new(ErrorKind::OutOfRange, Object::Wire, e, "").key("bql");
        let mut line = Line::new(config.wire, config.memory)?;
        line.add_queues(queues)?;
        let mut way = Self {
            classifier: Classifier::new(config.env.seed),
            port: TxPort::new(path).map_err(refused)?,
            line,
            timers: Timers::default(),
            waiting: VecDeque::new(),
            stats: DirectionStats::default(),
        };
        way.fit_scheduler();
        Ok(way)
    }

    /// Whether TCP control segments are marked as such (`Meta::tcp_control`), which some qdiscs send first: from the next frame
    /// that is received on. At first they are.
    pub const fn set_prio_synack(&mut self, on: bool) {
        self.classifier.set_prio_synack(on);
    }

    /// Whether TCP control segments are marked.
    #[must_use]
    pub const fn prio_synack(&self) -> bool {
        self.classifier.prio_synack()
    }

    /// Changes the qdiscs of the first path, which is that of all queues where they have none of their own, at any time: `f` gets
    /// the tree and what its operations need.
    pub fn configure<R>(&mut self, now: Instant, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        let r = self.port.configure_path(now, 0, &mut self.line, f);
        self.drain_all(now);
        r
    }

    /// Changes the qdiscs of every path, at any time: `f` does the same to each tree.
    pub fn configure_each(&mut self, now: Instant, f: impl FnMut(&mut Tree, &mut Cx)) {
        self.port.configure_each(now, &mut self.line, f);
        self.drain_all(now);
    }

    /// Changes the qdiscs of all paths by their handles, at any time. What waits in those that are removed is dropped.
    pub fn change<R>(&mut self, now: Instant, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R {
        let r = self.port.configure(now, &mut self.line, f);
        self.fit_scheduler();
        self.drain_all(now);
        r
    }

    /// Like [`change`](Self::change), and what waits goes on waiting: see [`TxPort::swap`]. A super-frame that the new tree takes
    /// only in pieces is cut.
    pub fn swap<R>(&mut self, now: Instant, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> (R, Swapped) {
        let done = self.while_cutting(|port, line, cut| port.swap(now, line, f, cut));
        self.fit_scheduler();
        self.drain_all(now);
        done
    }

    /// Whether it could have so many transmit queues.
    ///
    /// # Errors
    /// As [`set_queues`](Self::set_queues).
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.port.check_queues(queues)?;
        self.line.check_queues(queues)
    }

    /// Changes the number of transmit queues, at any time; packets that wait go on waiting: see [`TxPort::set_queues`].
    ///
    /// # Errors
    /// What the root was made with does not hold for so many queues, or the wire cannot have so many rings. Then nothing has
    /// changed.
    pub fn set_queues(&mut self, now: Instant, queues: u16) -> Result<(), ConfigError> {
        self.port.check_queues(queues)?;
        self.line.add_queues(queues)?;
        let done = self.while_cutting(|port, line, cut| port.set_queues_with(now, queues, line, cut));
        self.fit_scheduler();
        self.drain_all(now);
        done
    }

    /// Changes what qdiscs that are made from now on know of the output, but for its queues.
    pub fn set_env(&mut self, now: Instant, env: Env) {
        self.port.set_env(now, env, &mut self.line);
        self.drain_all(now);
    }

    /// Does something that may cut super-frames.
    fn while_cutting<R>(
        &mut self,
        f: impl FnOnce(
            &mut TxPort<Frame>,
            &mut Line,
            &mut dyn FnMut(Frame, &Meta, u32, &mut dyn FnMut(Frame, Meta)),
        ) -> R,
    ) -> R {
        // The buffers are with the caller meanwhile: those of frames that are dropped gather in others.
        let mut frames = std::mem::replace(&mut self.line.frames, Frames::empty());
        let stats = &mut self.stats;
        let done = f(&mut self.port, &mut self.line, &mut |whole, meta, _, each| {
            cut(&mut frames, stats, whole, meta, &mut |_, piece, m| each(piece, m));
        });
        let dropped = std::mem::replace(&mut self.line.frames, frames);
        self.line.frames.absorb(dropped);
        done
    }

    /// Has the rings of the wire share the line as the root says.
    fn fit_scheduler(&mut self) {
        let queues = self.port.queues();
        let Some(wire) = self.line.wire_mut() else { return };
        let line = mqprio::line_of(self.port.trees().root().qdisc(), queues);
        let line = line.unwrap_or_else(|| LineConfig::round_robin(queues));
        if *wire.scheduler() != line && wire.configure_scheduler(&line).is_err() {
            // What the root asks for was checked when it was made, against a line that may have another rate now.
            let _ = wire.configure_scheduler(&LineConfig::round_robin(queues));
        }
    }

    /// Receives one frame and reads its headers. What cannot be forwarded is counted and left out.
    ///
    /// # Errors
    /// The input is gone.
    pub fn receive(&mut self, input: &mut impl FrameIo) -> io::Result<Received> {
        let Some((hdr, len)) = input.recv(self.line.frames.landing())? else { return Ok(Received::Nothing) };
        let Ok((meta, headers)) = self.classifier.read(&hdr, self.line.frames.landed(len)) else {
            self.stats.malformed += 1;
            return Ok(Received::LeftOut);
        };
        let Some(frame) = self.line.frames.keep(hdr, len) else {
            self.stats.no_memory += 1;
            return Ok(Received::LeftOut);
        };
        self.stats.received += 1;
        self.stats.received_bytes += u64::from(meta.wire_len);
        Ok(Received::Frame(Arrival { frame, meta, headers, route: Route::default(), queue_chosen: false }))
    }

    /// Takes a frame into the path at `now`, which never goes back from one call to the next of this or
    /// [`advance`](Self::advance).
    ///
    /// # Errors
    /// The output is gone.
    pub fn admit(&mut self, now: Instant, arrival: Arrival, output: &mut impl FrameIo) -> io::Result<()> {
        self.advance(now, output)?;
        if let Some(arrival) = self.offer(now, arrival) {
            let queue = self.enter(now, arrival);
            if self.port.path(queue).is_some_and(|path| path.stops().may_transmit()) {
                self.drain(now, queue);
            }
        }
        Ok(())
    }

    /// Into a path; the queue.
    pub(crate) fn enter(&mut self, now: Instant, arrival: Arrival) -> u16 {
        let Arrival { mut frame, mut meta, headers, route, queue_chosen } = arrival;
        if !queue_chosen {
            self.port.choose_for(&mut meta, Choice::By(&Sender::default(), None), now);
        }
        frame.network = headers.network_header();
        let wants = self.port.path(meta.queue).is_some_and(TxPath::wants_detail);
        let detail = wants.then(|| Detail { route, ..self.classifier.detail(&headers, frame.bytes()) });
        let (queue, sent) =
            self.port.send_with(now, frame, meta, detail.as_ref(), Choice::Made, &mut self.line);
        match sent {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
            Admitted::Cut(frame, _) => self.cut(now, frame, &meta, detail.map(Detail::piece)),
            // A forwarder's path does not say so.
            Admitted::Full(frame) => {
                self.line.left(&meta);
                self.line.discard(frame);
            }
        }
        queue
    }

    /// Chooses the queue of a packet.
    pub(crate) fn choose_for(&mut self, meta: &mut Meta, choice: Choice<'_>, now: Instant) -> u16 {
        self.port.choose_for(meta, choice, now)
    }

    /// A hook's filters have dropped a frame.
    pub(crate) fn hook_dropped(&mut self, arrival: Arrival) {
        self.stats.filtered += 1;
        self.line.discard(arrival.frame);
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
    pub fn advance(&mut self, now: Instant, output: &mut impl FrameIo) -> io::Result<()> {
        self.flush(output)?;
        self.line.retry(now);
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.stats.late_max_ns = self.stats.late_max_ns.max(now.saturating_since(at).0);
            let finished = self.carry(at, output)?;
            self.attend(at, finished);
        }
        self.carry(now, output)?;
        Ok(())
    }

    /// Takes what the device has finished, if anything, and drains the queues that have something to do.
    fn attend(&mut self, at: Instant, finished: bool) {
        let split = self.port.is_split();
        let mut opened = false;
        if finished {
            for queue in 0..self.line.queues() {
                if self.line.reported(queue) {
                    opened |= self.port.reap(at, queue, &mut self.line, |_| {}).opened;
                    if split && queue < self.port.queues() {
                        self.drain(at, queue);
                    }
                }
            }
        }
        if opened {
            return self.drain_all(at);
        }
        if finished && !split {
            return self.drain(at, 0);
        }
        if self.timers.next.is_some_and(|t| t <= at) {
            // There is a path for each queue, or one.
            for path in 0..self.port.paths().len() as u16 {
                if self.timers.each.get(usize::from(path)).is_some_and(|t| t.is_some_and(|t| t <= at)) {
                    self.drain(at, path);
                }
            }
        }
    }

    /// When to call [`advance`](Self::advance) next, if nothing arrives: as soon as something happens, and up to
    /// 50 us later while there is more to happen soon after.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let busy = self.line.units > 1 || self.port.backlog().packets > 1;
        let event = self.next_event()?;
        Some(if busy { event.max(now + COALESCE) } else { event })
    }

    /// Whether frames wait for the output to be writable.
    #[must_use]
    pub fn waits_for_output(&self) -> bool {
        !self.waiting.is_empty() || self.line.is_blocked()
    }

    /// Its queues: qdiscs, byte limits, counters.
    #[must_use]
    pub const fn port(&self) -> &TxPort<Frame> {
        &self.port
    }
    /// The blocks of filters that are nobody's any more: see `Qdiscs::take_orphans`.
    #[must_use]
    pub fn take_orphans(&mut self) -> Vec<BlockId> {
        self.port.take_orphans()
    }
    /// The path of the first queue, which is that of all where they have none of their own.
    #[must_use]
    pub fn path(&self) -> &TxPath<Frame> {
        self.port.first()
    }
    /// Whether frames may go past qdiscs in which nothing waits, on the queues that there are now: see `TxPath::set_direct`.
    pub fn set_direct(&mut self, on: bool) {
        self.port.paths_mut().iter_mut().for_each(|path| path.set_direct(on));
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
    /// Frames whose headers were read: each is read once, when it is received.
    #[must_use]
    pub const fn headers_read(&self) -> u64 {
        self.classifier.headers_read()
    }
    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> DirectionStats {
        DirectionStats { dropped: self.line.dropped, ..self.stats }
    }

    fn next_event(&self) -> Option<Instant> {
        match (self.line.next_event(), self.timers.next) {
            (Some(event), Some(timer)) => Some(event.min(timer)),
            (event, timer) => event.or(timer),
        }
    }

    /// From the qdiscs of every queue to the device, as much as goes.
    pub(crate) fn drain_all(&mut self, now: Instant) {
        let paths = self.port.paths().len();
        self.timers.truncate(paths);
        // There is a path for each queue, or one.
        (0..paths as u16).for_each(|queue| self.drain(now, queue));
    }

    /// From the qdiscs of a queue to its ring, as much as goes, and from the gate to the qdiscs.
    fn drain(&mut self, now: Instant, queue: u16) {
        self.drain_queue(now, queue);
        self.feed(now);
    }

    /// From the qdiscs of a queue to its ring, as much as goes.
    pub(crate) fn drain_queue(&mut self, now: Instant, queue: u16) {
        let timer = loop {
            match self.port.drain(now, queue, BULK, &mut self.line) {
                // Bounded by what is queued: each round sends some of it.
                Wake::More => {}
                Wake::Idle | Wake::Device => break None,
                // A time that is not later would be asked for again and again.
                Wake::At(at, _) => break Some(at.max(now + Nanos(1))),
            }
        };
        let path = if self.port.is_split() { usize::from(queue) } else { 0 };
        self.timers.set(path, timer);
        self.stats.held_max = self.stats.held_max.max(self.line.held_bytes());
    }

    /// Runs the device and hands what has left it to the output. True if completions are there.
    fn carry(&mut self, at: Instant, output: &mut impl FrameIo) -> io::Result<bool> {
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
    fn flush(&mut self, output: &mut impl FrameIo) -> io::Result<()> {
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
        let Self { port, line, stats, .. } = self;
        let mut frames = std::mem::replace(&mut line.frames, Frames::empty());
        line.left(meta);
        cut(&mut frames, stats, whole, meta, &mut |frames, piece, m| {
            std::mem::swap(frames, &mut line.frames);
            if let Some(gate) = &mut line.gate {
                gate.joined(m.hash, Load::of(&m));
            }
            match port.send_with(now, piece, m, detail.as_ref(), Choice::Made, line).1 {
                Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
                Admitted::Cut(piece, _) | Admitted::Full(piece) => {
                    line.left(&m);
                    line.discard(piece);
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
            let Some(mut piece) = frames.build(room, next) else {
                stats.no_memory += 1;
                break;
            };
            piece.network = whole.network;
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
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, for one frame")]
pub enum Received {
    /// A frame, to be admitted.
    Frame(Arrival),
    /// One that cannot be forwarded; there may be more.
    LeftOut,
    /// Nothing is there.
    Nothing,
}
