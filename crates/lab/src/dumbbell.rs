//! The smallest net: n TCP connections through one tail-drop bottleneck. The yardstick of the lab's speed and
//! the rig of its TCP tests; it has no qdisc and no device model, only a FIFO, a rate and a delay.

use crate::app::App;
use crate::cpu::Cpu;
use crate::engine::{Alarm, Engine, Event, Lane, Payload, Trace};
use crate::frame::Frame;
use crate::tcp::{Addr, Conn, Label, More, TcpConfig};
use txweir_core::base::rng::Rng;
use txweir_core::base::time::{Instant, Nanos};

/// What the net is like.
#[derive(Clone, Debug)]
pub struct DumbbellConfig {
    /// Bottleneck rate in bit/s, above zero.
    pub rate: u64,
    /// Bytes that each segment takes on the line beyond its frame; 24 for Ethernet.
    pub overhead: u32,
    /// One-way delay, both ways.
    pub delay: Nanos,
    /// Most frames waiting for the bottleneck; a TSO unit is one. The frame being sent counts.
    pub limit: usize,
    /// A full bottleneck gives frames back to their sender instead of dropping them.
    pub back_pressure: bool,
    /// Every n-th frame that reaches the bottleneck is lost; 0 loses none.
    pub lose_every: u64,
    /// TSO units arrive as segments, each at its own time; otherwise whole, when their last bit arrives.
    pub segments: bool,
    /// How the senders do TCP.
    pub client: TcpConfig,
    /// How the receivers do TCP.
    pub server: TcpConfig,
    /// Connections start at a random time below this.
    pub stagger: Nanos,
    /// Decides start times and initial sequence numbers.
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

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A connection end's deadline.
    Timer,
    /// The bottleneck has sent a frame.
    Sent,
    /// A packet arrives.
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
    /// End of the last bit of everything queued.
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

/// Actor numbers beyond those of the connection ends.
const FORTH: u32 = u32::MAX;
const BACK: u32 = u32::MAX - 1;
const QUEUE: u32 = u32::MAX - 2;

impl Dumbbell {
    /// `apps` gives each connection's two ends: the client's, which opens the connection and sends through the
    /// bottleneck, and the server's. At most 60 000 connections, each with its own port.
    pub fn new(c: &DumbbellConfig, apps: impl IntoIterator<Item = (App, App)>) -> Self {
        let mut rng = Rng::new(c.seed);
        let mut ends = Vec::new();
        let mut engine = Engine::new();
        // The bottleneck is that of another host: nothing tells the sender what it has sent.
        let alone = |t: &TcpConfig| TcpConfig { more: More { small_queues: false, ..t.more }, ..t.clone() };
        let (of_client, of_server) = (alone(&c.client), alone(&c.server));
        for (n, (client, server)) in apps.into_iter().enumerate().take(60_000) {
            let n = n as u32;
            let port = 2000 + n as u16;
            let (a, b) = (Addr { ip: [10, 0, 0, 1], port }, Addr { ip: [10, 0, 1, 1], port });
            let start = Instant(rng.below(c.stagger.0.max(1)));
            let label = |to| Label { to, hash: n, priority: 0 };
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

    /// With a trace of all events.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.engine = self.engine.with_trace(trace);
        self
    }

    /// Remembers the time that each RR transaction took.
    #[must_use]
    pub const fn with_transactions(mut self) -> Self {
        self.keep_transactions = true;
        self
    }

    /// With processors for the client host and the server host.
    #[must_use]
    pub const fn with_cpu(mut self, client: Cpu, server: Cpu) -> Self {
        self.cpu = [client, server];
        self
    }

    /// The engine: clock, event count, trace.
    pub const fn engine(&self) -> &Engine<What> {
        &self.engine
    }
    /// A connection's client end.
    pub fn client(&self, n: usize) -> &Conn {
        &self.ends[2 * n].conn
    }
    /// A connection's server end.
    pub fn server(&self, n: usize) -> &Conn {
        &self.ends[2 * n + 1].conn
    }
    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.ends.len() / 2
    }
    /// Counters of the bottleneck.
    pub const fn bottleneck(&self) -> BottleneckStats {
        self.link.stats
    }
    /// Times of the transactions that ended, in order.
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

    /// Lets a connection end send, and sees to its next deadline.
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
        debug_assert!(at.is_none_or(|at| at > now), "a deadline that is due after it was served");
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

    /// The time that so many bytes take, rounded up to a nanosecond.
    fn time(&self, bytes: u64) -> Nanos {
        Nanos((bytes * 8_000_000_000).div_ceil(self.rate))
    }

    /// A frame has left; its packets are on the way. The segments of a unit arrive at their own times, as far as
    /// those are not before the unit's end: a delay longer than the unit hides nothing.
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
