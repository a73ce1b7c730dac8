//! Host A between two others: its transmit queues, the ways to its peers, and the connections over
//! them.
//!
//! A sends streams to one peer; the other sends streams to A or opens connections to it. All of
//! them are connections of `txweir-transport`, both ends of each. Frames leave A through core's
//! code: `FairSend` decides which sender of a thread has the turn, `rough` which packet of a ring's
//! queue is next, `Wire` which ring. Peers take no time beside the way; the packets of the second
//! one go through a queue and a ring of its own.

mod host;
mod peers;

use txweir_core::base::rng::Rng;
use txweir_core::model::wire::{Completion, DescriptorCost, WireConfig};
use txweir_core::{Instant, Nanos, Rate};

use super::link::{Link, Role};
use super::packet::{HEADERS, MSS};
use host::{Host, Message};
use peers::Peers;
use txweir_lab::engine::{Engine, Event, Payload};

/// The parameters of an experiment.
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
    /// Most segments on the way of a stream of A, and of a stream to A.
    pub(in super::super) windows: [u32; 2],
    /// True if SYN, SYN-ACK and pure ACK are marked.
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
    /// Segments of the application's next write: it writes when there is room for them.
    pub(in super::super) write: u32,
    /// Greatest delay of the application before that write: the delay is random, at most this.
    pub(in super::super) late: Nanos,
    /// Segments of an acknowledgement by A, and by the peers.
    pub(in super::super) every: [u32; 2],
    /// Processor time of a thread for a message of a stream and for each unit that it sends, and
    /// for a message of a connection that opens or closes.
    pub(in super::super) costs: [Nanos; 3],
    /// Seed of the draws.
    pub(in super::super) seed: u64,
}

/// The work since the last call of `take`.
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

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The event of A's line, and of the peer's.
    Line,
    PeerLine,
    /// A packet reaches the peers, A from the peer that A sends to, A from the other.
    AtPeer,
    Back,
    AtA,
    /// A thread has finished its message.
    Done,
    /// A stream's application writes, at first or again.
    Write,
    /// A client opens its first connection.
    Open,
    /// A timer of A's end of a connection, and of the peer's.
    Timer,
    PeerTimer,
}

impl Payload for What {
    fn word(self) -> u64 {
        self as u64
    }
}

/// A, its peers, and the ways between them.
#[derive(Debug)]
pub(in super::super) struct Machine {
    ground: Ground,
    host: Host,
    peers: Peers,
}

/// The parts that A and its peers share: the clock, the draws, and the connections.
#[derive(Debug)]
struct Ground {
    setup: Setup,
    engine: Engine<What>,
    rng: Rng,
    /// A's streams, those to A, and connections of clients, which come and go.
    links: Vec<Link>,
}

impl Ground {
    /// Sets the alarm for the next deadline of A's end of a connection.
    fn arm(&mut self, place: u32) {
        let link = &mut self.links[place as usize];
        if !link.timed {
            link.alarms[0].set(&mut self.engine, link.a.deadline(), place, What::Timer);
        }
    }
    /// Sets the alarm for the next deadline of the peer's end.
    fn arm_peer(&mut self, place: u32) {
        let link = &mut self.links[place as usize];
        link.alarms[1].set(&mut self.engine, link.peer.deadline(), place, What::PeerTimer);
    }
}

/// Time from the end of a frame on the line to the thread that sees it, each way: switch,
/// interrupt, and the way itself.
const WAY: Nanos = Nanos::from_micros(50);
/// Streams and clients begin within this time, nanoseconds.
const STARTS: u64 = 100_000_000;

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
        let ground = Ground { engine: Engine::new(), rng: Rng::new(s.seed), links: Vec::new(), setup: s };
        let mut machine = Self { ground, host: Host::new(&s, wire)?, peers: Peers::new(peer)? };
        machine.populate();
        Ok(machine)
    }

    /// Adds the streams, as many for each thread: the hash of a device (Toeplitz) is linear, and
    /// spreads consecutive ports evenly.
    fn populate(&mut self) {
        let Self { ground: g, host, .. } = self;
        let s = g.setup;
        for n in 0..s.senders + s.receivers {
            let role = if n < s.senders { Role::Sent } else { Role::Received };
            let thread = n % s.threads;
            let mut link = Link::new(&s, role, thread);
            if role == Role::Sent {
                link.id = host.threads[thread as usize].join(n);
            }
            g.links.push(link);
            g.engine.schedule(Instant(g.rng.below(STARTS)), n, What::Write);
        }
        for n in 0..s.clients {
            g.engine.schedule(Instant(g.rng.below(STARTS)), n, What::Open);
        }
    }

    /// Runs all events up to `until`.
    pub(in super::super) fn run(&mut self, until: Instant) {
        while let Some(e) = self.ground.engine.next(until) {
            self.happens(e);
        }
    }

    /// Returns the work since the last call.
    pub(in super::super) fn take(&mut self) -> Done {
        let s = self.ground.setup;
        let theirs = s.senders as usize..(s.senders + s.receivers) as usize;
        let news = |l: &mut Link| l.read - std::mem::replace(&mut l.told, l.read);
        Done {
            sent: std::mem::take(&mut self.host.egress.bytes),
            out: std::mem::take(&mut self.host.egress.all),
            received: self.ground.links[theirs].iter_mut().map(news).sum(),
            connections: std::mem::take(&mut self.peers.connections),
        }
    }

    /// Returns the bytes that each stream of A has delivered.
    pub(in super::super) fn delivered(&self) -> Vec<u64> {
        self.ground.links[..self.ground.setup.senders as usize].iter().map(|l| l.read).collect()
    }

    /// Returns the bytes in A's queues and in its device.
    #[cfg(test)]
    pub(in super::super) fn holds(&self) -> [u64; 2] {
        self.host.egress.holds()
    }
    /// Returns the packets that A's queues have dropped.
    #[cfg(test)]
    pub(in super::super) fn dropped(&self) -> u64 {
        self.host.egress.dropped()
    }

    /// Returns the number of places of connections, and of the free ones.
    #[cfg(test)]
    pub(in super::super) fn places(&self) -> [usize; 2] {
        [self.ground.links.len(), self.peers.free.len()]
    }

    fn happens(&mut self, e: Event<What>) {
        let Self { ground: g, host, peers } = self;
        match e.what {
            What::Line => host.line(g, e.at),
            What::PeerLine => peers.line(g, e.at),
            What::AtPeer => {
                if let Some(p) = host.way.pop(&mut g.engine) {
                    peers.at_peer(g, &p);
                }
            }
            What::Back => {
                if let Some(p) = peers.back.pop(&mut g.engine) {
                    host.at_a(g, p);
                }
            }
            What::AtA => {
                if let Some(p) = peers.to_a.pop(&mut g.engine) {
                    host.at_a(g, p);
                }
            }
            What::Done => host.done(g, e.actor),
            // The application of a stream of A writes by a message to its thread.
            What::Write => {
                let Link { role, thread, .. } = g.links[e.actor as usize];
                match role {
                    Role::Sent => host.tell(g, thread, Message::Write(e.actor)),
                    Role::Received | Role::Client(_) => peers.writes(g, e.actor),
                }
            }
            What::Open => peers.open(g, e.actor),
            What::Timer => host.timer(g, e.at, e.actor),
            What::PeerTimer => peers.timer(g, e.at, e.actor),
        }
    }
}
