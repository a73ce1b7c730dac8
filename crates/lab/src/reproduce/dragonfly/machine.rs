//! Host A between two others: its protocol threads, its transmit queues, and what the others do with what comes.
//!
//! A sends streams to one peer; the other sends streams to A or opens connections to it. What leaves A leaves through core's
//! code: `FairSend` decides whose turn it is on a thread, `rough` which packet of a ring's queue is next, `Wire` which ring.
//! Peers take no time beside the way; what they send goes through a queue and a ring of their own.

use std::collections::VecDeque;

use txweir_core::fairsend::{Burst, Cause, FairSend, Pass, Quota, SenderId};
use txweir_core::rng::Rng;
use txweir_core::wire::{Completion, DescriptorCost, WireConfig};
use txweir_core::{Instant, Nanos, Rate};

use super::connect::{Client, Step};
use super::egress::Egress;
use super::packet::{Body, HEADERS, MSS, Packet};
use super::stream::{Ack, Receiver, Sender, Unit};
use crate::engine::{Alarm, Engine, Event, Lane, Payload};

/// What an experiment is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Setup {
    /// Streams that A sends.
    pub(in super::super) senders: u32,
    /// Streams that are sent to A.
    pub(in super::super) receivers: u32,
    /// Clients that open connections to A, one after another.
    pub(in super::super) clients: u32,
    /// Segments of the largest unit, of A and of its peer; 1: no TSO.
    pub(in super::super) unit: [u32; 2],
    /// Segments that a stream of A has on its way at most, and a stream to A.
    pub(in super::super) windows: [u32; 2],
    /// SYN, SYN-ACK and pure ACK are marked.
    pub(in super::super) prio: bool,
    /// `net.inet.tcp.fairsend`.
    pub(in super::super) fairsend: u32,
    /// A's protocol threads, and its transmit rings.
    pub(in super::super) threads: u32,
    pub(in super::super) rings: u16,
    /// Descriptors of a ring, and hundredths of one that a full frame takes, and a unit.
    pub(in super::super) ring: u32,
    pub(in super::super) descriptors: [u32; 2],
    /// Packets that a ring's queue takes; bytes are 1514 times that.
    pub(in super::super) limit: u32,
    /// Segments of the application's next write: it writes when there is room for so many.
    pub(in super::super) write: u32,
    /// How late it comes to that at most: so long, or less, by chance.
    pub(in super::super) late: Nanos,
    /// Segments of an acknowledgement by A, and by the peers.
    pub(in super::super) every: [u32; 2],
    /// What a thread needs for a message of a stream and for each unit that it sends, and for a message of a connection that
    /// opens or closes.
    pub(in super::super) costs: [Nanos; 3],
    /// Seed of the draws.
    pub(in super::super) seed: u64,
}

/// What has been done since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Done {
    /// Bytes of frames of A's streams that left, headers included.
    pub(in super::super) sent: u64,
    /// All bytes of frames that left A, headers included.
    pub(in super::super) out: u64,
    /// Payload of streams to A that it has in order.
    pub(in super::super) received: u64,
    /// Connections opened and closed.
    pub(in super::super) connections: u64,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A's line, and the peer's.
    Line,
    PeerLine,
    /// Something reaches the peers, A from the one that A sends to, A from the other.
    AtPeer,
    Back,
    AtA,
    /// A thread has done what it did.
    Done,
    /// The application writes.
    Write,
    /// A timer of a stream or a client.
    Timer,
}

impl Payload for What {
    fn word(self) -> u64 {
        self as u64
    }
}

/// A stream: sender and receiver, wherever they are.
#[derive(Debug)]
struct Stream {
    sender: Sender,
    receiver: Receiver,
    thread: u32,
    id: Option<SenderId>,
    alarm: Alarm,
    /// Segments that the application has written, and whether it is about to write.
    written: u32,
    writing: bool,
    before: u32,
}

/// What a thread has to do.
#[derive(Clone, Copy, Debug)]
enum Message {
    Packet(Packet),
    Write(u32),
    /// The turn of who stands first in line.
    Turn,
    Timer(u32),
}

#[derive(Debug)]
struct Thread {
    queue: VecDeque<Message>,
    busy: bool,
    fair: FairSend,
    /// The stream of each place in the line.
    streams: Vec<u32>,
}

/// A, its peers, and the ways between them.
#[derive(Debug)]
pub(in super::super) struct Machine {
    setup: Setup,
    engine: Engine<What>,
    rng: Rng,
    egress: Egress,
    peer: Egress,
    way: Lane<Packet, What>,
    back: Lane<Packet, What>,
    to_a: Lane<Packet, What>,
    threads: Vec<Thread>,
    streams: Vec<Stream>,
    clients: Vec<Client>,
    connections: u64,
}

/// From the end of a frame on the line to the thread that sees it, each way: switch, interrupt, and the way itself.
const WAY: Nanos = Nanos::from_micros(50);
/// How long a lone segment waits for its acknowledgement (BSD).
const ACK_DELAY: Nanos = Nanos::from_millis(100);
/// Packets of the peer's queue: `ifq` of a device with 512 descriptors, and 16 for each of its 8 processors.
const PEER_LIMIT: &str = "640";

impl Machine {
    pub(in super::super) fn new(s: Setup) -> Result<Self, String> {
        let points = [(66, 100), (1514, s.descriptors[0]), (HEADERS + 4 * MSS, s.descriptors[1])];
        let cost = DescriptorCost::from_points(&points).map_err(|e| e.to_string())?;
        let wire = WireConfig {
            rate: Rate::from_bits(1_000_000_000),
            ring: s.ring,
            descriptors: cost,
            completion: Completion::Every { packets: 16, within: Nanos::from_micros(100) },
            rings: s.rings,
            seed: s.seed,
            ..WireConfig::default()
        };
        let peer = WireConfig { rings: 1, ring: 512, descriptors: DescriptorCost::one(), ..wire.clone() };
        let limit = s.limit.to_string();
        let rough = ["limit", limit.as_str(), "profile", "df2013"];
        let thread = |_| Thread {
            queue: VecDeque::new(),
            busy: false,
            fair: FairSend::new(s.senders, Quota::segs(s.fairsend)),
            streams: Vec::new(),
        };
        let mut machine = Self {
            engine: Engine::new(),
            rng: Rng::new(s.seed),
            egress: Egress::new(wire, ("rough", &rough), What::Line)?,
            peer: Egress::new(peer, ("rough", &["limit", PEER_LIMIT, "profile", "df2013"]), What::PeerLine)?,
            way: Lane::new(0, What::AtPeer),
            back: Lane::new(0, What::Back),
            to_a: Lane::new(0, What::AtA),
            threads: (0..s.threads).map(thread).collect(),
            streams: Vec::new(),
            clients: (0..s.clients).map(|_| Client::default()).collect(),
            connections: 0,
            setup: s,
        };
        machine.populate();
        Ok(machine)
    }

    /// The streams, as many for each thread: the hash of a device (Toeplitz) is linear, and spreads ports that follow one
    /// another evenly. They begin within 100 ms, and so do the clients.
    fn populate(&mut self) {
        let s = self.setup;
        for n in 0..s.senders + s.receivers {
            let ours = n < s.senders;
            let thread = n % s.threads;
            let mut id = None;
            if ours {
                let t = &mut self.threads[thread as usize];
                id = t.fair.join();
                t.streams.push(n);
            }
            self.streams.push(Stream {
                sender: Sender::new(s.windows[usize::from(!ours)]),
                receiver: Receiver::default(),
                thread,
                id,
                alarm: Alarm::default(),
                written: 0,
                writing: true,
                before: 0,
            });
            self.engine.schedule(Instant(self.rng.below(100_000_000)), n, What::Write);
        }
        for n in 0..s.clients {
            let (conn, at) = (s.senders + s.receivers + n, Instant(self.rng.below(100_000_000)));
            self.clients[n as usize].deadline = Some(at);
            self.engine.schedule(at, conn, What::Timer);
        }
    }

    /// Everything up to `until`.
    pub(in super::super) fn run(&mut self, until: Instant) {
        while let Some(e) = self.engine.next(until) {
            self.happens(e);
        }
    }

    /// What was done since the last time.
    pub(in super::super) fn take(&mut self) -> Done {
        let ours = self.setup.senders as usize;
        let got = |s: &mut Stream| s.receiver.next - std::mem::replace(&mut s.before, s.receiver.next);
        let received: u64 = self.streams[ours..].iter_mut().map(got).map(u64::from).sum();
        Done {
            sent: std::mem::take(&mut self.egress.bytes),
            out: std::mem::take(&mut self.egress.all),
            received: received * u64::from(MSS),
            connections: std::mem::take(&mut self.connections),
        }
    }

    /// What each stream of A has delivered, in segments.
    pub(in super::super) fn delivered(&self) -> Vec<u32> {
        self.streams[..self.setup.senders as usize].iter().map(|s| s.receiver.next).collect()
    }

    /// Bytes in A's queues and in its device.
    #[cfg(test)]
    pub(in super::super) fn holds(&self) -> [u64; 2] {
        self.egress.holds()
    }
    /// Packets that A's queues have dropped.
    #[cfg(test)]
    pub(in super::super) fn dropped(&self) -> u64 {
        self.egress.dropped()
    }

    fn happens(&mut self, e: Event<What>) {
        match e.what {
            What::Line => {
                if self.egress.fired(e.at) {
                    self.kick();
                }
            }
            What::PeerLine => {
                if self.peer.fired(e.at) {
                    self.kick_peer();
                }
            }
            What::AtPeer => {
                if let Some(p) = self.way.pop(&mut self.engine) {
                    self.at_peer(p);
                }
            }
            What::Back => {
                if let Some(p) = self.back.pop(&mut self.engine) {
                    self.at_a(p);
                }
            }
            What::AtA => {
                if let Some(p) = self.to_a.pop(&mut self.engine) {
                    self.at_a(p);
                }
            }
            What::Done => {
                self.threads[e.actor as usize].busy = false;
                self.work(e.actor);
            }
            What::Write => self.write(e.actor),
            What::Timer => self.timer(e.at, e.actor),
        }
    }

    const fn is_ours(&self, conn: u32) -> bool {
        conn < self.setup.senders
    }
    /// The index of a client, if it is one.
    const fn client(&self, conn: u32) -> Option<usize> {
        match conn.checked_sub(self.setup.senders + self.setup.receivers) {
            Some(n) => Some(n as usize),
            None => None,
        }
    }
    fn thread_of(&self, conn: u32) -> u32 {
        self.client(conn).map_or_else(|| self.streams[conn as usize].thread, |n| self.clients[n].thread)
    }

    fn kick(&mut self) {
        self.egress.kick(&mut self.engine, &mut self.way, WAY);
    }
    fn kick_peer(&mut self) {
        self.peer.kick(&mut self.engine, &mut self.to_a, WAY);
    }

    /// A sends; false if the queue of the thread's ring had no room.
    fn send(&mut self, conn: u32, body: Body) -> bool {
        let packet = Packet { conn, body };
        let ring = self.thread_of(conn) as usize;
        let sent = self.egress.send(self.engine.now(), ring, packet, packet.meta(self.setup.prio));
        self.kick();
        sent
    }
    /// The other peer sends.
    fn send_peer(&mut self, conn: u32, body: Body) -> bool {
        let packet = Packet { conn, body };
        let sent = self.peer.send(self.engine.now(), 0, packet, packet.meta(false));
        self.kick_peer();
        sent
    }

    fn at_a(&mut self, p: Packet) {
        self.tell(self.thread_of(p.conn), Message::Packet(p));
    }

    fn tell(&mut self, thread: u32, message: Message) {
        self.threads[thread as usize].queue.push_back(message);
        self.work(thread);
    }

    /// A thread takes its next message, if it is free: what that does is done at once, and takes its time.
    fn work(&mut self, thread: u32) {
        let t = &mut self.threads[thread as usize];
        if t.busy {
            return;
        }
        let Some(message) = t.queue.pop_front() else { return };
        t.busy = true;
        let [message_cost, unit_cost, step_cost] = self.setup.costs;
        let cost = match message {
            Message::Packet(Packet { conn, body: Body::Step(step, number) }) => {
                self.step_at_a(conn, step, number);
                step_cost
            }
            message => Nanos(message_cost.0 + unit_cost.0 * u64::from(self.handle(thread, message))),
        };
        self.engine.schedule(self.engine.now() + cost, thread, What::Done);
    }

    /// A message about a stream; answers how many units were sent.
    fn handle(&mut self, thread: u32, message: Message) -> u32 {
        let now = self.engine.now();
        match message {
            Message::Packet(Packet { conn, body: Body::Ack(ack) }) => {
                self.streams[conn as usize].sender.acked(now, ack);
                self.refill(conn);
                self.output(conn, Some(Cause::Acked))
            }
            Message::Packet(Packet { conn, body: Body::Data { first, segs, sent } }) => {
                self.arrived(conn, first, segs, sent, self.setup.every[0]);
                0
            }
            Message::Packet(_) => 0,
            Message::Write(conn) => {
                let s = &mut self.streams[conn as usize];
                s.writing = false;
                s.written = s.sender.limit();
                self.output(conn, Some(Cause::Data))
            }
            Message::Timer(conn) => {
                self.streams[conn as usize].sender.timed_out(now);
                self.output(conn, Some(Cause::Timer))
            }
            Message::Turn => {
                let t = &mut self.threads[thread as usize];
                let Some(burst) = t.fair.next_turn() else { return 0 };
                let conn = t.streams[burst.sender().index()];
                self.burst(conn, Some(burst))
            }
        }
    }

    /// The application is told of room, if there is enough for it.
    fn refill(&mut self, conn: u32) {
        let (write, now) = (self.setup.write, self.engine.now());
        let s = &mut self.streams[conn as usize];
        if !s.writing && s.sender.limit() - s.written >= write {
            s.writing = true;
            let late = match self.setup.late.0 {
                0 => Nanos::ZERO,
                most => Nanos(self.rng.below(most)),
            };
            self.engine.schedule(now + late, conn, What::Write);
        }
    }

    /// The application of a stream writes: on A by a message to its thread.
    fn write(&mut self, conn: u32) {
        if self.is_ours(conn) {
            return self.tell(self.streams[conn as usize].thread, Message::Write(conn));
        }
        let s = &mut self.streams[conn as usize];
        s.written = u32::MAX;
        self.output(conn, None);
    }

    /// A stream sends what it may; answers how many units that were.
    fn output(&mut self, conn: u32, cause: Option<Cause>) -> u32 {
        let burst = match (cause, self.streams[conn as usize].id) {
            (Some(cause), Some(id)) => {
                let t = &mut self.threads[self.streams[conn as usize].thread as usize];
                let Some(burst) = t.fair.begin(id, cause) else { return 0 };
                Some(burst)
            }
            _ => None,
        };
        self.burst(conn, burst)
    }

    fn burst(&mut self, conn: u32, mut burst: Option<Burst>) -> u32 {
        let (ours, now, most) =
            (self.is_ours(conn), self.engine.now(), self.setup.unit[usize::from(!self.is_ours(conn))]);
        let mut units = 0;
        while let Some(unit) = self.streams[conn as usize].unit(most) {
            if let Some(burst) = &mut burst {
                let t = &mut self.threads[self.streams[conn as usize].thread as usize];
                if t.fair.pass(burst, unit.segs, u64::from(unit.segs * MSS)) == Pass::Yield {
                    t.queue.push_back(Message::Turn);
                    break;
                }
            }
            let body = Body::Data { first: unit.first, segs: unit.segs, sent: now };
            let sent = if ours { self.send(conn, body) } else { self.send_peer(conn, body) };
            let sender = &mut self.streams[conn as usize].sender;
            if !sent {
                sender.quench(now);
                break;
            }
            sender.sent(now, unit);
            units += 1;
        }
        self.arm(conn);
        units
    }

    /// Segments reach a receiver, at A or at its peer.
    fn arrived(&mut self, conn: u32, first: u32, segs: u32, sent: Instant, every: u32) {
        let now = self.engine.now();
        let r = &mut self.streams[conn as usize].receiver;
        match r.arrived(first, segs, sent, every) {
            Some(ack) => self.acknowledge(conn, ack),
            None if r.owes() && r.deadline.is_none() => {
                r.deadline = Some(now + ACK_DELAY);
                self.arm(conn);
            }
            None => {}
        }
    }

    fn acknowledge(&mut self, conn: u32, ack: Ack) {
        if self.is_ours(conn) {
            let at = self.engine.now() + WAY;
            self.back.push(&mut self.engine, at, Packet { conn, body: Body::Ack(ack) });
        } else {
            // One that finds no room is lost: the next says the same.
            self.send(conn, Body::Ack(ack));
        }
    }

    fn at_peer(&mut self, p: Packet) {
        let now = self.engine.now();
        match p.body {
            Body::Data { first, segs, sent } => self.arrived(p.conn, first, segs, sent, self.setup.every[1]),
            Body::Ack(ack) => {
                self.streams[p.conn as usize].sender.acked(now, ack);
                self.output(p.conn, None);
            }
            Body::Step(step, number) => self.step_at_client(p.conn, step, number),
        }
    }

    /// Sees to a stream's next deadline.
    fn arm(&mut self, conn: u32) {
        let s = &mut self.streams[conn as usize];
        let at = s.sender.deadline.into_iter().chain(s.receiver.deadline).min();
        s.alarm.set(&mut self.engine, at, conn, What::Timer);
    }

    fn timer(&mut self, at: Instant, conn: u32) {
        if let Some(n) = self.client(conn) {
            return self.client_timer(at, conn, n);
        }
        let s = &mut self.streams[conn as usize];
        if !s.alarm.fired(at) {
            return;
        }
        let (ours, thread) = (conn < self.setup.senders, s.thread);
        if s.receiver.deadline.is_some_and(|d| d <= at)
            && let Some(ack) = s.receiver.late()
        {
            self.acknowledge(conn, ack);
        }
        let s = &mut self.streams[conn as usize];
        if s.sender.deadline.is_some_and(|d| d <= at) {
            if ours {
                // The deadline is moved when the thread comes to it.
                s.sender.deadline = None;
                return self.tell(thread, Message::Timer(conn));
            }
            s.sender.timed_out(at);
            self.output(conn, None);
        }
        self.arm(conn);
    }

    /// A step of opening or closing reaches A.
    fn step_at_a(&mut self, conn: u32, step: Step, number: u32) {
        let Some(n) = self.client(conn) else { return };
        let now = self.engine.now();
        match step {
            Step::Syn if number == self.clients[n].number => {
                self.clients[n].syn_seen.get_or_insert(now);
                self.send(conn, Body::Step(Step::SynAck, number));
            }
            // The server has the connection and closes it.
            Step::Opened if self.clients[n].opened(now, number) => self.fin(conn, n),
            Step::FinAck => {
                self.clients[n].closed(number);
                self.send(conn, Body::Step(Step::LastAck, number));
            }
            _ => {}
        }
    }

    /// A closes, or tries again.
    fn fin(&mut self, conn: u32, n: usize) {
        let at = self.engine.now() + self.clients[n].wait();
        self.clients[n].fin_deadline = Some(at);
        self.engine.schedule(at, conn, What::Timer);
        let number = self.clients[n].number;
        self.send(conn, Body::Step(Step::Fin, number));
    }

    /// A step of opening or closing reaches a client.
    fn step_at_client(&mut self, conn: u32, step: Step, number: u32) {
        let Some(n) = self.client(conn) else { return };
        let current = number == self.clients[n].number;
        match step {
            Step::SynAck if current => {
                self.clients[n].deadline = None;
                self.send_peer(conn, Body::Step(Step::Opened, number));
            }
            Step::Fin => {
                self.send_peer(conn, Body::Step(Step::FinAck, number));
                if current {
                    self.connections += 1;
                    self.open(conn, n);
                }
            }
            _ => {}
        }
    }

    /// A client opens its next connection: of another port, so of any thread.
    fn open(&mut self, conn: u32, n: usize) {
        let thread = self.rng.below(u64::from(self.setup.threads)) as u32;
        self.clients[n].next(thread);
        self.syn(conn, n);
    }

    fn syn(&mut self, conn: u32, n: usize) {
        let at = self.engine.now() + self.clients[n].patience();
        self.clients[n].deadline = Some(at);
        self.engine.schedule(at, conn, What::Timer);
        let number = self.clients[n].number;
        self.send_peer(conn, Body::Step(Step::Syn, number));
    }

    fn client_timer(&mut self, at: Instant, conn: u32, n: usize) {
        if self.clients[n].fin_deadline == Some(at) {
            self.fin(conn, n);
        } else if self.clients[n].deadline == Some(at) {
            match self.clients[n].number {
                0 => self.open(conn, n),
                _ => self.syn(conn, n),
            }
        }
    }
}

impl Stream {
    fn unit(&self, most: u32) -> Option<Unit> {
        self.sender.unit(most, self.written)
    }
}
