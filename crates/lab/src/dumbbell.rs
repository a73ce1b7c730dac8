//! The smallest net: n TCP connections through one tail-drop bottleneck. It measures the lab's
//! speed and carries its TCP tests; it has no qdisc and no device model, only a FIFO, a rate and a
//! delay.

use crate::app::App;
use crate::cpu::Cpu;
use crate::engine::{Alarm, Engine, Event, Lane, Payload, Trace};
use crate::frame::Frame;
use crate::tcp::{Addr, Conn, Label, More, TcpConfig};
use txweir_core::base::rng::Rng;
use txweir_core::base::time::{Instant, Nanos};

/// Configuration of the net.
#[derive(Clone, Debug)]
pub struct DumbbellConfig {
    /// Bottleneck rate in bit/s, above zero.
    pub rate: u64,
    /// Bytes that each segment takes on the line in addition to its frame; 24 for Ethernet.
    pub overhead: u32,
    /// One-way delay, in both directions.
    pub delay: Nanos,
    /// Largest number of frames waiting for the bottleneck; a TSO unit is one. The frame being sent
    /// counts.
    pub limit: usize,
    /// True if a full bottleneck returns frames to their sender instead of dropping them.
    pub back_pressure: bool,
    /// Every n-th frame that reaches the bottleneck is lost; 0 loses none.
    pub lose_every: u64,
    /// True if TSO units arrive as segments, each at its own time; otherwise they arrive whole,
    /// with their last bit.
    pub segments: bool,
    /// TCP of the senders.
    pub client: TcpConfig,
    /// TCP of the receivers.
    pub server: TcpConfig,
    /// Upper bound of the random start times of connections.
    pub stagger: Nanos,
    /// Seed of start times and initial sequence numbers.
    pub seed: u64,
}

impl Default for DumbbellConfig {
    fn default() -> Self {
        Self {
            rate: 1_000_000_000,
            overhead: 24,
            delay: Nanos::from_micros(500),
            limit: 1000,
            back_pressure: false,
            lose_every: 0,
            segments: true,
            client: TcpConfig::default(),
            server: TcpConfig::default(),
            stagger: Nanos::from_millis(10),
            seed: 1,
        }
    }
}

/// Meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The deadline of a connection end has come.
    Timer,
    /// The bottleneck has sent a frame.
    Sent,
    /// A packet has arrived.
    Arrival,
}

impl Payload for What {
    fn word(self) -> u64 {
        self as u64
    }
}

/// Codes of notes in the trace.
const NOTE_SEND: u32 = 1;
const NOTE_DROP: u32 = 2;
const NOTE_DELIVER: u32 = 3;

/// One connection end in the net.
#[derive(Debug)]
struct End {
    conn: Conn,
    alarm: Alarm,
}

/// The bottleneck's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BottleneckStats {
    /// Frames sent.
    pub frames: u64,
    /// Segments sent.
    pub segs: u64,
    /// Bytes sent, after segmentation.
    pub bytes: u64,
    /// Frames dropped because the queue was full.
    pub dropped: u64,
    /// Frames lost on purpose.
    pub lost: u64,
}

/// The link from the clients to the servers.
#[derive(Debug)]
struct Bottleneck {
    rate: u64,
    overhead: u32,
    limit: usize,
    lose_every: u64,
    segments: bool,
    delay: Nanos,
    seen: u64,
    /// Time at which the last bit of all queued frames has left.
    busy_until: Instant,
    /// Frames waiting or being sent, each due when its last bit has left.
    queue: Lane<Frame, What>,
    /// Packets on the way to the servers, and back.
    forth: Lane<Frame, What>,
    back: Lane<Frame, What>,
    waiting: Vec<u32>,
    stats: BottleneckStats,
}

/// Ends, bottleneck and clock.
#[derive(Debug)]
pub struct Dumbbell {
    engine: Engine<What>,
    ends: Vec<End>,
    link: Bottleneck,
    back_pressure: bool,
    cpu: [Cpu; 2],
    transactions: Vec<Nanos>,
    keep_transactions: bool,
}

/// Actor numbers above those of the connection ends.
const FORTH: u32 = u32::MAX;
const BACK: u32 = u32::MAX - 1;
const QUEUE: u32 = u32::MAX - 2;

impl Dumbbell {
    /// Returns the net. `apps` gives the applications of each connection's two ends: the client's,
    /// which opens the connection and sends through the bottleneck, and the server's. There are at
    /// most 60 000 connections, each with its own port.
    pub fn new(c: &DumbbellConfig, apps: impl IntoIterator<Item = (App, App)>) -> Self {
        let mut rng = Rng::new(c.seed);
        let mut ends = Vec::new();
        let mut engine = Engine::new();
        // The bottleneck belongs to another host: it does not report departures to the sender.
        let alone = |t: &TcpConfig| TcpConfig { more: More { small_queues: false, ..t.more }, ..t.clone() };
        let (of_client, of_server) = (alone(&c.client), alone(&c.server));
        for (n, (client, server)) in apps.into_iter().enumerate().take(60_000) {
            let n = n as u32;
            let port = 2000 + n as u16;
            let (a, b) = (Addr { ip: [10, 0, 0, 1], port }, Addr { ip: [10, 0, 1, 1], port });
            let start = Instant(rng.below(c.stagger.0.max(1)));
            let label = |to| Label { to, hash: n, ..Label::default() };
            let (to_server, to_client) = (label(2 * n + 1), label(2 * n));
            let client = Conn::connect(&of_client, (a, b), start, client, to_server, rng.next_u64());
            let server = Conn::listen(&of_server, (b, a), server, to_client, rng.next_u64());
            for conn in [client, server] {
                ends.push(End { conn, alarm: Alarm::default() });
            }
            ends[2 * n as usize].alarm.set(&mut engine, Some(start), 2 * n, What::Timer);
        }
        let link = Bottleneck {
            rate: c.rate.max(1),
            overhead: c.overhead,
            limit: c.limit.max(1),
            lose_every: c.lose_every,
            segments: c.segments,
            delay: c.delay,
            seen: 0,
            busy_until: Instant::ZERO,
            queue: Lane::new(QUEUE, What::Sent),
            forth: Lane::new(FORTH, What::Arrival),
            back: Lane::new(BACK, What::Arrival),
            waiting: Vec::new(),
            stats: BottleneckStats::default(),
        };
        let cpu = [Cpu::default(); 2];
        let (transactions, keep_transactions) = (Vec::new(), false);
        Self { engine, ends, link, back_pressure: c.back_pressure, cpu, transactions, keep_transactions }
    }

    /// Adds a trace of all events.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.engine = self.engine.with_trace(trace);
        self
    }

    /// Makes the net record the time that each RR transaction took.
    #[must_use]
    pub const fn with_transactions(mut self) -> Self {
        self.keep_transactions = true;
        self
    }

    /// Adds processors for the client host and the server host.
    #[must_use]
    pub const fn with_cpu(mut self, client: Cpu, server: Cpu) -> Self {
        self.cpu = [client, server];
        self
    }

    /// Returns the engine: clock, event count, trace.
    pub const fn engine(&self) -> &Engine<What> {
        &self.engine
    }
    /// Returns a connection's client end.
    pub fn client(&self, n: usize) -> &Conn {
        &self.ends[2 * n].conn
    }
    /// Returns a connection's server end.
    pub fn server(&self, n: usize) -> &Conn {
        &self.ends[2 * n + 1].conn
    }
    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.ends.len() / 2
    }
    /// Returns the counters of the bottleneck.
    pub const fn bottleneck(&self) -> BottleneckStats {
        self.link.stats
    }
    /// Returns the times of the transactions that ended, in order.
    pub fn transactions(&self) -> &[Nanos] {
        &self.transactions
    }

    /// Runs until `until`.
    pub fn run(&mut self, until: Instant) {
        while let Some(e) = self.engine.next(until) {
            self.handle(e);
        }
    }

    fn handle(&mut self, e: Event<What>) {
        match (e.what, e.actor) {
            (What::Timer, end) => {
                if self.ends[end as usize].alarm.fired(e.at) {
                    self.poll(end);
                }
            }
            (What::Sent, _) => {
                self.link.sent(&mut self.engine);
                if let Some(end) = self.link.waiting.pop() {
                    self.ends[end as usize].conn.wake();
                    self.poll(end);
                }
            }
            (What::Arrival, FORTH) => {
                let frame = self.link.forth.pop(&mut self.engine);
                self.deliver(frame);
            }
            (What::Arrival, _) => {
                let frame = self.link.back.pop(&mut self.engine);
                self.deliver(frame);
            }
        }
    }

    fn deliver(&mut self, frame: Option<Frame>) {
        let Some(frame) = frame else { return };
        let (now, to) = (self.engine.now(), frame.to);
        self.engine.note(to, NOTE_DELIVER, u64::from(frame.ip_len()));
        let end = &mut self.ends[to as usize];
        end.conn.deliver(now, &frame);
        self.poll(to);
    }

    /// Lets a connection end send, and sets its next deadline.
    fn poll(&mut self, n: u32) {
        let Self { engine, ends, link, cpu, back_pressure, transactions, keep_transactions, .. } = self;
        let (now, end) = (engine.now(), &mut ends[n as usize]);
        let cpu = &mut cpu[n as usize % 2];
        let took = if n.is_multiple_of(2) {
            let took = end.conn.poll(now, cpu, |frame| link.submit(engine, frame, *back_pressure));
            if end.conn.is_blocked() && !link.waiting.contains(&n) {
                link.waiting.insert(0, n);
            }
            took
        } else {
            end.conn.poll(now, cpu, |frame| {
                link.back.push(engine, now + link.delay, frame);
                Ok(())
            })
        };
        if *keep_transactions {
            transactions.extend(took);
        }
        let at = end.conn.poll_at(now);
        debug_assert!(at.is_none_or(|at| at > now), "the deadline is due although it was served");
        end.alarm.set(engine, at, n, What::Timer);
    }
}

impl Bottleneck {
    fn submit(&mut self, engine: &mut Engine<What>, frame: Frame, back_pressure: bool) -> Result<(), Frame> {
        if self.queue.len() >= self.limit {
            if back_pressure {
                return Err(frame);
            }
            self.stats.dropped += 1;
            engine.note(QUEUE, NOTE_DROP, u64::from(frame.to));
            return Ok(());
        }
        self.seen += 1;
        if self.lose_every > 0 && self.seen.is_multiple_of(self.lose_every) {
            self.stats.lost += 1;
            engine.note(QUEUE, NOTE_DROP, u64::from(frame.to));
            return Ok(());
        }
        engine.note(QUEUE, NOTE_SEND, u64::from(frame.len()));
        let start = self.busy_until.max(engine.now());
        self.busy_until =
            start + self.time(u64::from(frame.wire_len()) + u64::from(frame.segs() * self.overhead));
        self.queue.push(engine, self.busy_until, frame);
        Ok(())
    }

    /// Returns the time that `bytes` take on the line, rounded up to a nanosecond.
    fn time(&self, bytes: u64) -> Nanos {
        Nanos((bytes * 8_000_000_000).div_ceil(self.rate))
    }

    /// Sends a frame that has left the bottleneck on its way. The segments of a unit arrive at
    /// their own times, but not before the unit's end: this bound has no effect if the delay is
    /// longer than the unit.
    fn sent(&mut self, engine: &mut Engine<What>) {
        let now = engine.now();
        let Some(frame) = self.queue.pop(engine) else { return };
        self.stats.frames += 1;
        self.stats.segs += u64::from(frame.segs());
        self.stats.bytes += u64::from(frame.wire_len());
        if frame.segs() == 1 || !self.segments {
            self.forth.push(engine, now + self.delay, frame);
            return;
        }
        let mut rest = u64::from(frame.wire_len()) + u64::from(frame.segs() * self.overhead);
        for i in 0..frame.segs() {
            let segment = frame.segment(i);
            rest -= u64::from(segment.len() + self.overhead);
            let at = Instant((now + self.delay).0.saturating_sub(self.time(rest).0));
            self.forth.push(engine, at, segment);
        }
    }
}
