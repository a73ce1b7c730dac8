//! One end of a TCP connection of the lab: the state machine of `txweir-transport`, an application
//! above, frames below.
//!
//! Packets leave through a closure that may refuse them (a full transmit path); the end then keeps
//! the frame and sends nothing more until [`Conn::wake`].
//!
//! **Units.** A sender hands out super-segments as Linux does, sized by its rate. With `tso_max`
//! set they leave as units that the device cuts; without it they leave as segments, one behind the
//! other.

mod outbox;
mod packets;

use txweir_core::base::time::{Instant, Nanos};
use txweir_transport::wire::{Codec, HEADER_MAX as TCP_MAX};
pub use txweir_transport::{Algorithm, EcnMode};
use txweir_transport::{Config, Connection, Pacing, State};

use crate::app::App;
use crate::cpu::Cpu;
use crate::frame::Frame;
pub use crate::ip::Addr;
use crate::ip::Family;
use crate::tagged::ETHERNET;
use crate::tcp::outbox::Outbox;
use crate::tcp::packets::Packets;

/// Largest number of bytes of an IP packet, and so of a TSO unit without its Ethernet header (RFC
/// 791 section 3.1).
const IP_MAX: u32 = 65_535;

/// TCP of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Payload of a full segment without options over IPv4; 1460 for Ethernet. Over IPv6 it is 20
    /// bytes less, as its header is longer.
    pub mss: u16,
    /// Largest number of bytes of a TSO unit, Ethernet header included; below two segments, no TSO.
    pub tso_max: u32,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Congestion marks (ECN).
    pub ecn: EcnMode,
    /// Largest number of bytes that the application has handed over and that are not acknowledged;
    /// with 0 the buffer follows the window.
    pub send_buffer: usize,
    /// The upper bound of tuning for the receive buffer, bytes of memory. At most 1 GiB.
    pub receive_buffer: usize,
    /// Delay of the acknowledgement of a lone segment; zero acknowledges each segment. RFC 9293
    /// allows up to 500 ms, Linux starts at 40 ms.
    pub ack_delay: Nanos,
    /// Further settings of Linux.
    pub more: More,
}

/// Settings that few hosts change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct More {
    /// True if segments carry time stamps (RFC 7323).
    pub stamps: bool,
    /// True if the host offers selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Segments of the first window.
    pub initial_window: u32,
    /// True if the sender waits until the device has sent the bytes below the socket.
    pub small_queues: bool,
    /// True if super-segments have the size that suits the rate, as in Linux since 3.12; otherwise
    /// they have the largest size.
    pub size_by_rate: bool,
    /// True if a timeout changes the hash of the flow, as with a Linux sender whose packets keep
    /// the hash of their socket up to the queue (its own queue, or one behind a virtual link of the
    /// same kernel).
    pub rehashes: bool,
    /// The tick that timers count.
    pub tick: txweir_transport::Tick,
    /// True if small segments wait for the acknowledgement of the one before (RFC 896).
    pub nagle: bool,
    /// The receive buffer at the start, bytes of memory; not above the upper bound of tuning.
    pub receive_buffer_start: u64,
}

impl Default for More {
    fn default() -> Self {
        let c = Config::default();
        Self {
            stamps: c.stamps,
            sack: c.sack,
            initial_window: c.initial_window,
            small_queues: c.small_queues,
            size_by_rate: c.size_by_rate,
            rehashes: false,
            tick: c.tick,
            nagle: c.nagle,
            receive_buffer_start: c.receive_buffer,
        }
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        let c = Config::default();
        Self {
            mss: c.mss,
            tso_max: 0,
            congestion: c.algorithm,
            ecn: c.ecn,
            send_buffer: 0,
            receive_buffer: c.receive_buffer_max as usize,
            ack_delay: c.ack_delay,
            more: More::default(),
        }
    }
}

impl TcpConfig {
    /// Returns the configuration of the transport over this version of IP.
    pub fn transport(&self, family: Family) -> Config {
        let c = Config::default();
        let headers = (family.header() + TCP_MAX) as u32;
        let room = self.tso_max.saturating_sub(ETHERNET).min(IP_MAX).saturating_sub(headers);
        // The seed stays that of the default, as ends share equal configurations
        // (`Conn::share_config`): each connection is given its own by `Connection::reseed`.
        Config {
            mss: self.mss_over(family),
            algorithm: self.congestion,
            ecn: self.ecn,
            gso_max: if self.cuts(family) { c.gso_max } else { room },
            send_buffer: self.send_buffer as u64,
            receive_buffer: self.more.receive_buffer_start.min(self.receive_buffer as u64),
            receive_buffer_max: self.receive_buffer as u64,
            ack_delay: self.ack_delay,
            stamps: self.more.stamps,
            sack: self.more.sack,
            initial_window: self.more.initial_window,
            small_queues: self.more.small_queues,
            size_by_rate: self.more.size_by_rate,
            tick: self.more.tick,
            nagle: self.more.nagle,
            ..c
        }
    }

    /// Returns the payload of a full segment without options over this version of IP.
    const fn mss_over(&self, family: Family) -> u16 {
        self.mss.saturating_sub(family.beyond_v4())
    }

    /// True if units are cut before they leave.
    fn cuts(&self, family: Family) -> bool {
        let headers = (family.header() + TCP_MAX) as u32;
        self.tso_max < ETHERNET + headers + 2 * u32::from(self.mss_over(family))
    }
}

/// Label of the frames of one connection end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Receiver of the frames.
    pub to: u32,
    /// Flow hash of the frames.
    pub hash: u32,
    /// Priority of the frames.
    pub priority: u32,
    /// DS field of the frames, without its ECN bits.
    pub ds: u8,
    /// Version of IP of the frames.
    pub family: Family,
    /// Mark of the frames.
    pub mark: u32,
}

impl Label {
    /// Puts it on a frame, whose headers have the DS field already.
    pub(crate) const fn put(self, frame: &mut Frame, ds: u8) {
        (frame.to, frame.hash, frame.priority) = (self.to, self.hash, self.priority);
        (frame.mark, frame.ds) = (self.mark, ds);
    }
}

/// Fate of a frame that an end handed to its transmit path.
#[derive(Debug)]
pub enum Handed {
    /// The path has taken it.
    Taken,
    /// The path has taken it, cut into this number of segments.
    Cut(u32),
    /// A queue of the path has dropped it, and reported the drop.
    Dropped,
    /// A queue of the path has taken it, and dropped another frame of the end.
    Congested,
    /// There is no room: the frame comes back.
    Back(Frame),
}

/// Reply of a transmit path to a frame.
#[derive(Debug)]
pub struct Reply {
    /// The frame's fate.
    pub handed: Handed,
    /// Bytes of this end that the device has sent meanwhile, and that no longer lie below the
    /// socket: other frames, or this one.
    pub passed: u32,
}

impl From<Handed> for Reply {
    fn from(handed: Handed) -> Self {
        Self { handed, passed: 0 }
    }
}

impl From<Result<(), Frame>> for Reply {
    fn from(taken: Result<(), Frame>) -> Self {
        match taken {
            Ok(()) => Handed::Taken,
            Err(frame) => Handed::Back(frame),
        }
        .into()
    }
}

/// Counters of a connection end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnStats {
    /// Frames handed out (a TSO unit is one).
    pub frames_out: u64,
    /// Segments handed out.
    pub segs_out: u64,
    /// Frames taken in.
    pub frames_in: u64,
    /// Bytes of payload sent again.
    pub retransmitted: u64,
    /// Times that the transmit path was full; `u32::MAX` stands for more.
    pub stopped: u64,
}

/// Result of one turn of an application.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acted {
    /// The time of a transaction that ended.
    pub(crate) took: Option<Nanos>,
    /// Number of parts of calls that it wrote.
    pub(crate) calls: u32,
}

/// One end of a TCP connection with its application.
#[derive(Debug)]
pub struct Conn {
    tcp: Connection,
    app: App,
    /// Time at which it opens the connection; `Instant::MAX` once it has, and for an end that
    /// waits.
    opens: Instant,
    packets: Packets,
    out: Outbox,
    frames_in: u64,
}

impl Conn {
    /// Returns the end that opens the connection to `remote` at `start`. `seed` decides its initial
    /// sequence number, and the random numbers of its congestion control.
    pub fn connect(
        c: &TcpConfig,
        (local, remote): (Addr, Addr),
        start: Instant,
        app: App,
        label: Label,
        seed: u64,
    ) -> Self {
        let tcp = Connection::connect(c.transport(label.family));
        Self { opens: start, ..Self::new(c, tcp, (local, remote), app, label, seed) }
    }

    /// Returns the end that waits for the connection from `remote`.
    pub fn listen(c: &TcpConfig, (local, remote): (Addr, Addr), app: App, label: Label, seed: u64) -> Self {
        let tcp = Connection::listen(c.transport(label.family));
        Self::new(c, tcp, (local, remote), app, label, seed)
    }

    fn new(
        c: &TcpConfig,
        mut tcp: Connection,
        (local, remote): (Addr, Addr),
        app: App,
        label: Label,
        seed: u64,
    ) -> Self {
        tcp.reseed(seed);
        let codec = Codec { local: (seed >> 32) as u32, remote: 0, port: local.port, peer_port: remote.port };
        Self {
            tcp,
            app,
            opens: Instant::MAX,
            packets: Packets { hosts: [local.ip, remote.ip], codec, label },
            out: Outbox::new(c.cuts(label.family), c.more.rehashes),
            frames_in: 0,
        }
    }

    /// Returns the application.
    pub const fn app(&self) -> &App {
        &self.app
    }
    /// Returns the application, to set it up before the run.
    pub(crate) const fn app_mut(&mut self) -> &mut App {
        &mut self.app
    }
    /// Returns the counters.
    pub fn stats(&self) -> ConnStats {
        let retransmitted = self.tcp.counters().retransmitted_bytes;
        ConnStats { frames_in: self.frames_in, retransmitted, ..self.out.stats() }
    }
    /// Returns this end's address.
    pub const fn local(&self) -> Addr {
        Addr { ip: self.packets.hosts[0], port: self.packets.codec.port }
    }
    /// Returns the other end's address.
    pub const fn remote(&self) -> Addr {
        Addr { ip: self.packets.hosts[1], port: self.packets.codec.peer_port }
    }
    /// Returns the state machine.
    pub const fn tcp(&self) -> &Connection {
        &self.tcp
    }
    /// Shares the configuration with `other` if both are equal: many ends then read the same few
    /// cache lines.
    pub fn share_config(&mut self, other: &Self) {
        self.tcp.share_config(other.tcp.config());
    }
    /// True while a full transmit path keeps it from sending.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.out.blocked
    }

    /// Notes that the transmit path has room again. [`poll`](Self::poll) is to follow.
    pub const fn wake(&mut self) {
        self.out.blocked = false;
    }

    /// Notes that the first device has sent `bytes` that this end counted as lying below the
    /// socket. True if it waited for that, and is to be polled.
    pub fn released(&mut self, bytes: u32) -> bool {
        self.tcp.below().released(bytes)
    }

    /// Tells the end whether a queue below paces its departures (`fq`). Such a queue tells flows by
    /// their sockets.
    pub(crate) fn set_queue_paces(&mut self, paces: bool) {
        self.out.by_socket = paces;
        self.tcp.set_pacing(if paces { Pacing::Queue } else { Pacing::Auto });
    }

    /// Asks for the memory of its parts that lie apart from itself, ahead of other calls; see
    /// [`ahead`](txweir_transport::ahead).
    pub(crate) fn parts_ahead(&self) {
        self.tcp.parts_ahead();
        self.out.ahead();
    }
    /// Asks for the memory that its parts point to.
    pub(crate) fn units_ahead(&self) {
        self.tcp.units_ahead();
    }

    /// Takes a packet; a TSO unit stands for its segments arriving as one. [`poll`](Self::poll) is
    /// to follow.
    pub fn deliver(&mut self, now: Instant, frame: &Frame) {
        self.frames_in += 1;
        let head = frame.head();
        if head.tcp_flags() & crate::frame::SYN != 0 {
            self.packets.codec.remote = head.tcp_seq();
        }
        let (near_seq, near_ack) = self.tcp.expects();
        let Some(mut seg) = self.packets.codec.read(head.transport(), near_seq, near_ack) else { return };
        (seg.len, seg.gso, seg.ecn) = (frame.payload_len(), frame.gso_size(), frame.ecn());
        self.tcp.receive(now, &seg);
    }

    /// Does the work that is due: timers, pending segments of TCP, the application, and the results
    /// of these. Frames go to `sink` until it returns one: the end keeps that frame, and sends
    /// nothing more before [`wake`](Self::wake). Returns the time of a transaction that ended.
    pub fn poll<R: Into<Reply>>(
        &mut self,
        now: Instant,
        cpu: &mut Cpu,
        mut sink: impl FnMut(Frame) -> R,
    ) -> Option<Nanos> {
        if self.poll_stack(now, &mut sink) {
            self.poll_application(now, Nanos::ZERO, cpu, &mut sink).took
        } else {
            None
        }
    }

    /// Lets the application act, and TCP send the resulting data. A sink reads `late` after `now`.
    /// Segments that the stack held back without the application stay back.
    pub(crate) fn poll_application<R: Into<Reply>>(
        &mut self,
        now: Instant,
        late: Nanos,
        cpu: &mut Cpu,
        sink: &mut impl FnMut(Frame) -> R,
    ) -> Acted {
        let mut acted = Acted::default();
        if self.opens < Instant::MAX {
            return acted;
        }
        loop {
            let (written, sent) = (self.tcp.flow().write, self.out.frames());
            acted.took = self.app.step(now, late, &mut self.tcp, cpu).or(acted.took);
            self.drain(now, sink);
            if self.tcp.flow().write > written {
                acted.calls = acted.calls.saturating_add(1);
            } else if self.out.frames() == sent {
                // The departures behind a call's end may let the writer continue at once.
                return acted;
            }
        }
    }

    /// Does the work that is due without the application: timers, and pending segments of TCP.
    /// False before it opens.
    pub(crate) fn poll_stack<R: Into<Reply>>(
        &mut self,
        now: Instant,
        sink: &mut impl FnMut(Frame) -> R,
    ) -> bool {
        if self.opens < Instant::MAX {
            if now < self.opens {
                return false;
            }
            self.opens = Instant::MAX;
        }
        self.tcp.on_time(now);
        self.drain(now, sink);
        true
    }

    /// Hands out the pending segments of TCP.
    fn drain<R: Into<Reply>>(&mut self, now: Instant, sink: &mut impl FnMut(Frame) -> R) {
        while !self.out.blocked {
            let frame = match self.out.take() {
                Some(frame) => frame,
                None => {
                    let Some(seg) = self.tcp.transmit(now) else { return };
                    let mut frame = self.packets.frame(now, &seg);
                    frame.hash = self.out.hash(&self.packets.label, &self.tcp);
                    frame
                }
            };
            self.out.give(frame, &mut self.tcp, sink);
        }
    }

    /// Returns the time of the next [`poll`](Self::poll) if no packet arrives: always after `now`,
    /// which must be the time of the last poll. `None` if only a packet or a wake can cause
    /// progress.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.opens < Instant::MAX {
            return Some(self.opens);
        }
        if self.out.blocked {
            return None;
        }
        let app = self.app.due().filter(|due| *due > now);
        let tcp = self.tcp.deadline().map(|at| at.max(Instant(now.0 + 1)));
        [app, tcp].into_iter().flatten().min()
    }

    /// True if some of its work is due: the opening, a timer of TCP, or the application.
    pub fn is_due(&self, now: Instant) -> bool {
        if self.opens < Instant::MAX {
            return self.opens <= now;
        }
        [self.app.due(), self.tcp.deadline()].into_iter().flatten().any(|at| at <= now)
    }

    /// True if the connection was reset, or given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.tcp.state() == State::Failed
    }

    /// True if both directions are closed, or the connection has failed.
    pub fn is_over(&self) -> bool {
        matches!(self.tcp.state(), State::Closed | State::Failed)
    }
}
