//! One end of a TCP connection of the lab: the state machine of `txweir-transport`, an application
//! above, frames below.
//!
//! Packets leave through a closure that may refuse them (a full transmit path); the end then keeps
//! the frame and sends nothing more until [`Conn::wake`].
//!
//! **Units.** A sender hands out super-segments as Linux does, sized by its rate. With `tso_max`
//! set they leave as units that the device cuts; without it they leave as segments, one behind the
//! other.

use std::fmt;

use txweir_core::base::time::{Instant, Nanos};
use txweir_transport::wire::{Codec, HEADER_MAX as TCP_MAX};
pub use txweir_transport::{Algorithm, EcnMode};
use txweir_transport::{Config, Connection, Pacing, Segment, State};

use crate::app::App;
use crate::cpu::Cpu;
use crate::frame::{Below, Frame};
use crate::tagged::ETHERNET;

/// Bytes of an IPv4 header without options.
const IP: usize = 20;
/// Largest number of bytes of an IP packet, and so of a TSO unit without its Ethernet header (RFC
/// 791 section 3.1).
const IP_MAX: u32 = 65_535;

/// TCP of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Payload of a full segment without options; 1460 for Ethernet.
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
    /// Returns the configuration of the transport. `seed` has no effect.
    pub fn transport(&self, seed: u64) -> Config {
        let c = Config::default();
        let room = self.tso_max.saturating_sub(ETHERNET).min(IP_MAX).saturating_sub((IP + TCP_MAX) as u32);
        let _ = seed;
        Config {
            mss: self.mss,
            algorithm: self.congestion,
            ecn: self.ecn,
            gso_max: if self.cuts() { c.gso_max } else { room },
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

    /// True if units are cut before they leave.
    fn cuts(&self) -> bool {
        self.tso_max < ETHERNET + (IP + TCP_MAX) as u32 + 2 * u32::from(self.mss)
    }
}

/// An IPv4 address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr {
    /// IPv4 address.
    pub ip: [u8; 4],
    /// Port, not zero.
    pub port: u16,
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.ip;
        write!(f, "{a}.{b}.{c}.{d}:{}", self.port)
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

impl From<Result<(), Frame>> for Handed {
    fn from(taken: Result<(), Frame>) -> Self {
        match taken {
            Ok(()) => Self::Taken,
            Err(frame) => Self::Back(frame),
        }
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
    /// The addresses; ports are with the codec.
    local: [u8; 4],
    remote: [u8; 4],
    codec: Codec,
    label: Label,
    /// True if units leave as segments.
    cuts: bool,
    /// True if timeouts change the flow's hash.
    rehashes: bool,
    /// The frame that the transmit path returned: nothing more leaves until `wake`.
    held: Option<Box<Frame>>,
    /// The rest of a unit that was being cut.
    rest: Option<Box<Frame>>,
    blocked: bool,
    frames_out: u64,
    segs_out: u64,
    frames_in: u64,
    stopped: u32,
}

impl Conn {
    /// Returns the end that opens the connection to `remote` at `start`. `seed` decides its initial
    /// sequence number.
    pub fn connect(
        c: &TcpConfig,
        (local, remote): (Addr, Addr),
        start: Instant,
        app: App,
        label: Label,
        seed: u64,
    ) -> Self {
        let tcp = Connection::connect(c.transport(seed));
        Self { opens: start, ..Self::new(c, tcp, (local, remote), app, label, seed) }
    }

    /// Returns the end that waits for the connection from `remote`.
    pub fn listen(c: &TcpConfig, (local, remote): (Addr, Addr), app: App, label: Label, seed: u64) -> Self {
        let tcp = Connection::listen(c.transport(seed));
        Self::new(c, tcp, (local, remote), app, label, seed)
    }

    fn new(
        c: &TcpConfig,
        tcp: Connection,
        (local, remote): (Addr, Addr),
        app: App,
        label: Label,
        seed: u64,
    ) -> Self {
        let codec = Codec { local: (seed >> 32) as u32, remote: 0, port: local.port, peer_port: remote.port };
        Self {
            tcp,
            app,
            opens: Instant::MAX,
            local: local.ip,
            remote: remote.ip,
            codec,
            label,
            cuts: c.cuts(),
            rehashes: c.more.rehashes,
            held: None,
            rest: None,
            blocked: false,
            frames_out: 0,
            segs_out: 0,
            frames_in: 0,
            stopped: 0,
        }
    }

    /// Returns the application.
    pub const fn app(&self) -> &App {
        &self.app
    }
    /// Returns the application, to set it up before the run.
    pub const fn app_mut(&mut self) -> &mut App {
        &mut self.app
    }
    /// Returns the counters.
    pub fn stats(&self) -> ConnStats {
        let Self { frames_out, segs_out, frames_in, stopped, .. } = *self;
        let retransmitted = self.tcp.counters().retransmitted_bytes;
        ConnStats { frames_out, segs_out, frames_in, retransmitted, stopped: u64::from(stopped) }
    }
    /// Returns this end's address.
    pub const fn local(&self) -> Addr {
        Addr { ip: self.local, port: self.codec.port }
    }
    /// Returns the other end's address.
    pub const fn remote(&self) -> Addr {
        Addr { ip: self.remote, port: self.codec.peer_port }
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
    pub const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Notes that the transmit path has room again. [`poll`](Self::poll) is to follow.
    pub const fn wake(&mut self) {
        self.blocked = false;
    }

    /// Notes that the first device has sent `bytes` that this end counted as lying below the
    /// socket. True if it waited for that, and is to be polled.
    pub fn released(&mut self, bytes: u32) -> bool {
        self.tcp.released(bytes)
    }

    /// Tells the end whether a queue below paces its departures (`fq`).
    pub fn set_queue_paces(&mut self, paces: bool) {
        self.tcp.set_pacing(if paces { Pacing::Queue } else { Pacing::Auto });
    }

    /// Takes a packet; a TSO unit stands for its segments arriving as one. [`poll`](Self::poll) is
    /// to follow.
    pub fn deliver(&mut self, now: Instant, frame: &Frame) {
        self.frames_in += 1;
        let header = frame.header();
        let Some(tcp) = header.get(IP..) else { return };
        if frame.tcp_flags() & crate::frame::SYN != 0 {
            self.codec.remote = frame.tcp_seq();
        }
        let (near_seq, near_ack) = self.tcp.expects();
        let Some(mut seg) = self.codec.read(tcp, near_seq, near_ack) else { return };
        (seg.len, seg.gso, seg.ecn) = (frame.payload_len(), frame.gso_size(), frame.ecn());
        self.tcp.receive(now, &seg);
    }

    /// Does the work that is due: timers, pending segments of TCP, the application, and the results
    /// of these. Frames go to `sink` until it returns one: the end keeps that frame, and sends
    /// nothing more before [`wake`](Self::wake). Returns the time of a transaction that ended.
    pub fn poll<R: Into<Handed>>(
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
    pub(crate) fn poll_application<R: Into<Handed>>(
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
            let written = self.tcp.flow().write;
            acted.took = self.app.step(now, late, &mut self.tcp, cpu).or(acted.took);
            self.drain(now, sink);
            if self.tcp.flow().write == written {
                return acted;
            }
            acted.calls = acted.calls.saturating_add(1);
        }
    }

    /// Does the work that is due without the application: timers, and pending segments of TCP.
    /// False before it opens.
    pub(crate) fn poll_stack<R: Into<Handed>>(
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
    fn drain<R: Into<Handed>>(&mut self, now: Instant, sink: &mut impl FnMut(Frame) -> R) {
        while !self.blocked {
            let frame = match self.held.take().or_else(|| self.rest.take()) {
                Some(frame) => *frame,
                None => match self.tcp.transmit(now) {
                    Some(seg) => self.frame(now, &seg),
                    None => return,
                },
            };
            let segs = if self.cuts { frame.segs() } else { 1 };
            if segs == 1 {
                self.give(frame, sink);
                continue;
            }
            for i in 0..segs {
                self.give(frame.segment(i), sink);
                if self.blocked {
                    // The returned part keeps the results of filters; filters have not seen the
                    // rest of its unit.
                    self.rest = (i + 1 < segs).then(|| Box::new(frame.part(i + 1, segs - i - 1)));
                    break;
                }
            }
        }
    }

    fn give<R: Into<Handed>>(&mut self, frame: Frame, sink: &mut impl FnMut(Frame) -> R) {
        self.held = self.offer(frame, sink).err().map(Box::new);
        self.blocked = self.held.is_some();
    }

    fn offer<R: Into<Handed>>(
        &mut self,
        frame: Frame,
        sink: &mut impl FnMut(Frame) -> R,
    ) -> Result<(), Frame> {
        let segs = frame.segs();
        // Segments that are cut here would be cut behind a real queue: a drop of a part is not
        // reported.
        let tells = frame.payload_len() > 0 && !self.cuts;
        match sink(frame).into() {
            taken @ (Handed::Taken | Handed::Cut(_) | Handed::Dropped | Handed::Congested) => {
                self.frames_out += 1;
                self.segs_out += u64::from(segs);
                match taken {
                    Handed::Dropped if tells => self.tcp.dropped(),
                    Handed::Congested if tells => self.tcp.congested(),
                    Handed::Cut(segments) => self.tcp.cut(segments),
                    _ => {}
                }
                Ok(())
            }
            Handed::Back(frame) => {
                self.stopped = self.stopped.saturating_add(1);
                Err(frame)
            }
        }
    }

    /// Returns the packet of a segment.
    fn frame(&self, now: Instant, seg: &Segment) -> Frame {
        let mut header = [0; IP + TCP_MAX];
        let mut tcp = [0; TCP_MAX];
        let len = IP + self.codec.write(seg, &mut tcp);
        header[IP..].copy_from_slice(&tcp);
        let ip_len = len as u32 + seg.len;
        header[0] = 0x45;
        header[1] = seg.ecn as u8;
        header[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
        // Don't fragment, 64 hops, TCP (RFC 791 section 3.1).
        (header[6], header[8], header[9]) = (0x40, 64, 6);
        header[12..16].copy_from_slice(&self.local);
        header[16..20].copy_from_slice(&self.remote);
        let mut frame = Frame::unit(&header[..len], ip_len, seg.gso);
        frame.sent = now;
        frame.ds = seg.ecn as u8;
        (frame.to, frame.hash, frame.priority) = (self.label.to, self.label.hash, self.label.priority);
        if self.rehashes {
            // Any odd factor spreads small numbers over all bits.
            frame.hash ^= (self.tcp.counters().timeouts as u32).wrapping_mul(0x9e37_79b1);
        }
        frame.ahead = u32::try_from(seg.departs.saturating_since(now).0).unwrap_or(u32::MAX);
        if seg.len > 0 {
            frame.below = Below::Whole;
        }
        frame
    }

    /// Returns the time of the next [`poll`](Self::poll) if no packet arrives: always after `now`,
    /// which must be the time of the last poll. `None` if only a packet or a wake can cause
    /// progress.
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.opens < Instant::MAX {
            return Some(self.opens);
        }
        if self.blocked {
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
    pub fn has_failed(&self) -> bool {
        self.tcp.state() == State::Failed
    }

    /// True if both directions are closed, or the connection has failed.
    pub fn is_over(&self) -> bool {
        matches!(self.tcp.state(), State::Closed | State::Failed)
    }
}
