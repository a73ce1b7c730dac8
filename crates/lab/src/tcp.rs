//! One end of a TCP connection: smoltcp's TCP, an application on top, a device of its own below.
//!
//! Every connection end has its own smoltcp `Interface` and socket set of one, because an interface looks
//! through all its sockets for each packet; so the cost per packet does not depend on the number of
//! connections. Packets go out through a closure that may refuse them (a transmit path that is full); the
//! device then grants nothing until [`Conn::wake`].
//!
//! **Time.** The lab counts nanoseconds, smoltcp microseconds: it is told the present rounded down, and its
//! deadlines, which are whole microseconds, are kept as they are. So its timers are exact to 1 us and never
//! early, and packets are stamped in nanoseconds. Its round-trip samples are whole milliseconds, and its
//! retransmission timeout at least 1 s (RFC 6298 section 2.4).
//!
//! **What the stack does.** RFC 9293 with window scaling, SACK blocks sent and not used, fast retransmit of one
//! segment per round trip, Reno or CUBIC (RFC 9438), no ECN, no timestamps, no pacing. A receiver acknowledges
//! every second full segment; like Linux, it acknowledges each of the first [`QUICK_ACKS`] segments at once.
//!
//! **Its limits**, which show in results: several losses in one window are repaired one per round trip or after
//! the timeout; the initial window is 2048 bytes; and if duplicate acknowledgements come when only a FIN is
//! outstanding, that FIN is never sent again, and the end stays in FIN-WAIT-1 with all its data delivered.
//!
//! **TSO.** With `tso_max` set, bulk leaves in units of up to so many bytes, whole segments except where the
//! window ends. A sender that was handed a little window by an acknowledgement waits for more, as
//! Linux does (ip-sysctl, `tcp_tso_win_divisor`): else acknowledgements of two segments would make units of two.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant as Micros};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address};

use crate::app::App;
use crate::cpu::Cpu;
use crate::frame::{ETHERNET, Frame};
use crate::port::{Link, Port, Refuse};
use crate::tso::Aggregation;
use txweir_core::time::{Instant, Nanos};

/// Segments acknowledged at once at the start of a connection (the number Linux uses).
pub const QUICK_ACKS: u64 = 16;
/// Bytes of IPv4 and TCP headers without options.
const HEADERS: u32 = 40;
/// Most bytes of an IP packet, so of a TSO unit without its Ethernet header (RFC 791 section 3.1).
const IP_MAX: u32 = 65_535;

/// Congestion control of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// Only the receiver's window and the send buffer limit.
    None,
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    #[default]
    Cubic,
}

/// How a host does TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Payload of a full segment; 1460 for Ethernet.
    pub mss: u16,
    /// Most bytes of a TSO unit, Ethernet header included; below two segments, no TSO.
    pub tso_max: u32,
    /// Wait for more window rather than send a small unit.
    pub tso_defer: bool,
    /// Congestion control.
    pub congestion: Congestion,
    /// Bytes that the application may have handed over and that are not acknowledged; rounded up to whole
    /// segments, so that bulk makes no short segment where the buffer wraps.
    pub send_buffer: usize,
    /// Most bytes received and not read: the receiver's window. At most 1 GiB (RFC 7323 section 2.3).
    pub receive_buffer: usize,
    /// How long a lone segment waits for its acknowledgement; zero acknowledges each segment. RFC 9293 allows up
    /// to 500 ms, Linux starts at 40 ms.
    pub ack_delay: Nanos,
    /// Carry and check payload, for tests: slow, and the only thing here that allocates per packet.
    pub content: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            tso_max: 0,
            tso_defer: true,
            congestion: Congestion::Cubic,
            send_buffer: 256 << 10,
            receive_buffer: 256 << 10,
            ack_delay: Nanos::from_millis(40),
            content: false,
        }
    }
}

impl TcpConfig {
    /// Payload of the largest TSO unit: whole segments; `None` if there is room for one only.
    fn unit(&self) -> Option<u32> {
        let mss = u32::from(self.mss.max(1));
        let room = (self.tso_max.saturating_sub(ETHERNET)).min(IP_MAX).saturating_sub(HEADERS);
        Some(room / mss * mss).filter(|unit| *unit > mss)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ip;
        caps.max_transmission_unit = usize::from(self.mss) + HEADERS as usize;
        caps.checksum = ChecksumCapabilities::ignored();
        caps.segmentation.tcpv4 = self.unit().and_then(|u| NonZeroUsize::new((u + HEADERS) as usize));
        caps
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

/// How the frames of one connection end are labelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Whom they are for.
    pub to: u32,
    /// Their flow hash.
    pub hash: u32,
    /// Their priority.
    pub priority: u32,
}

/// Buffers in which packets are built and shown to the stack. One for a whole lab: it stays in the cache.
pub struct Pad {
    out: Box<[u8]>,
    /// Zeros beyond the headers written here last, except where payload is carried.
    inp: Box<[u8]>,
}

impl Default for Pad {
    fn default() -> Self {
        let buffer = || vec![0; IP_MAX as usize + 1].into_boxed_slice();
        Self { out: buffer(), inp: buffer() }
    }
}

impl fmt::Debug for Pad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pad")
    }
}

/// What a connection end has done.
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
    /// Times that the transmit path was full.
    pub stopped: u64,
    /// Replies lost because the transmit path stayed full.
    pub lost_replies: u64,
}

/// Which side opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// To be opened at this time.
    At(Instant, Addr),
    /// Opened, or waiting for the other side.
    Done,
}

/// One end of a TCP connection with its application.
pub struct Conn {
    iface: Interface,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
    caps: DeviceCapabilities,
    app: App,
    open: Open,
    local: Addr,
    ack_delay: Nanos,
    /// Bytes received before which every segment is acknowledged at once.
    quick_until: u64,
    received: u64,
    link: Link,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, app, open, link, .. } = self;
        f.debug_struct("Conn")
            .field("local", local)
            .field("app", app)
            .field("open", open)
            .field("link", link)
            .finish()
    }
}

/// smoltcp's clock: microseconds, rounded down.
fn micros(now: Instant) -> Micros {
    Micros::from_micros(i64::try_from(now.0 / 1000).unwrap_or(i64::MAX))
}

impl Conn {
    /// The end that opens the connection to `remote` at `start`. `seed` decides its initial sequence number.
    pub fn connect(
        c: &TcpConfig,
        local: Addr,
        remote: Addr,
        start: Instant,
        app: App,
        label: Label,
        seed: u64,
    ) -> Self {
        Self::new(c, local, app, label, seed, Open::At(start, remote))
    }

    /// The end that waits for the connection.
    pub fn listen(c: &TcpConfig, local: Addr, app: App, label: Label, seed: u64) -> Self {
        let mut conn = Self::new(c, local, app, label, seed, Open::Done);
        // Fails only for port 0 or a socket that is open.
        let listening = conn.socket().listen(local.port);
        debug_assert!(listening.is_ok());
        conn
    }

    fn new(c: &TcpConfig, local: Addr, app: App, label: Label, seed: u64, open: Open) -> Self {
        let caps = c.capabilities();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut none =
            Port { caps: &caps, inp: None, out: &mut [], link: None, sink: &mut Refuse, now: Instant::ZERO };
        let mut iface = Interface::new(config, &mut none, Micros::ZERO);
        let ip = IpAddress::Ipv4(Ipv4Address::from(local.ip));
        // One address fits: the list has room for two.
        iface.update_ip_addrs(|ips| ips.push(IpCidr::new(ip, 8)).unwrap_or(()));
        let whole = c.unit().unwrap_or(u32::from(c.mss.max(1))) as usize;
        let send_buffer = c.send_buffer.max(1).div_ceil(whole) * whole;
        let buffer = |n: usize| SocketBuffer::new(vec![0; n]);
        let mut socket = Socket::new(buffer(c.receive_buffer.clamp(1, 1 << 30)), buffer(send_buffer));
        socket.set_nagle_enabled(app.is_bulk());
        socket.set_ack_delay(None);
        socket.set_congestion_control(match c.congestion {
            Congestion::None => CongestionControl::None,
            Congestion::Reno => CongestionControl::Reno,
            Congestion::Cubic => CongestionControl::Cubic,
        });
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let tcp = sockets.add(socket);
        let quick_until = if c.ack_delay.0 == 0 { u64::MAX } else { QUICK_ACKS * u64::from(c.mss) };
        let tso = Aggregation::new(c.unit().filter(|_| c.tso_defer), c.mss);
        let (held, stats) = (VecDeque::new(), ConnStats::default());
        let link = Link { label, content: c.content, blocked: false, held, tso, stats };
        let ack_delay = c.ack_delay;
        Self { iface, sockets, tcp, caps, app, open, local, ack_delay, quick_until, received: 0, link }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut::<Socket<'static>>(self.tcp)
    }

    /// The application.
    pub const fn app(&self) -> &App {
        &self.app
    }
    /// The application, to set up before the run.
    pub const fn app_mut(&mut self) -> &mut App {
        &mut self.app
    }
    /// Counters.
    pub const fn stats(&self) -> ConnStats {
        self.link.stats
    }
    /// This end's address.
    pub const fn local(&self) -> Addr {
        self.local
    }
    /// The state of the TCP connection.
    pub fn state(&self) -> State {
        self.sockets.get::<Socket<'static>>(self.tcp).state()
    }
    /// True while a full transmit path keeps it from sending.
    pub const fn is_blocked(&self) -> bool {
        self.link.blocked
    }
    /// Bytes handed over by the application and not acknowledged.
    pub fn send_queue(&self) -> usize {
        self.sockets.get::<Socket<'static>>(self.tcp).send_queue()
    }

    /// The transmit path has room again. To be followed by [`poll`](Self::poll).
    pub const fn wake(&mut self) {
        self.link.blocked = false;
    }

    /// Takes a packet in and lets the application act on it; a TSO unit stands for its segments arriving
    /// together. To be followed by [`poll`](Self::poll). Gives the time of an RR transaction that ended.
    pub fn deliver(&mut self, now: Instant, frame: &Frame, pad: &mut Pad, cpu: &mut Cpu) -> Option<Nanos> {
        self.link.stats.frames_in += 1;
        self.link.tso.acknowledged(now, frame.tcp_ack());
        if frame.segs() > 1 {
            // The stack wants an acknowledgement at the second segment it sees, however long those are.
            self.ingress(now, &frame.segment(0), pad);
            self.ingress(now, &frame.part(1, frame.segs() - 1), pad);
        } else {
            self.ingress(now, frame, pad);
        }
        self.received += u64::from(frame.payload_len());
        if self.received >= self.quick_until {
            self.quick_until = u64::MAX;
            let delay = Duration::from_micros(self.ack_delay.0.div_ceil(1000));
            self.socket().set_ack_delay(Some(delay));
        }
        self.step(now, cpu)
    }

    fn ingress(&mut self, now: Instant, frame: &Frame, pad: &mut Pad) {
        let len = frame.ip_len() as usize;
        let head = frame.header();
        pad.inp[..head.len()].copy_from_slice(head);
        if let Some(body) = frame.body() {
            pad.inp[head.len()..len].copy_from_slice(body);
        }
        let Self { iface, sockets, caps, link, .. } = self;
        let (inp, out) = (Some(&pad.inp[..len]), &mut pad.out[..]);
        let mut port = Port { caps, inp, out, link: Some(link), sink: &mut Refuse, now };
        iface.poll_ingress_single(micros(now), &mut port, sockets);
    }

    fn step(&mut self, now: Instant, cpu: &mut Cpu) -> Option<Nanos> {
        let content = self.link.content;
        let tcp = self.sockets.get_mut::<Socket<'static>>(self.tcp);
        self.app.step(now, tcp, cpu, content)
    }

    /// Does what is due and hands out what can be sent, until the sink gives a frame back: that one is kept, and
    /// nothing more is sent before [`wake`](Self::wake).
    pub fn poll(
        &mut self,
        now: Instant,
        pad: &mut Pad,
        cpu: &mut Cpu,
        mut sink: impl FnMut(Frame) -> Result<(), Frame>,
    ) {
        if let Open::At(start, remote) = self.open {
            if now < start {
                return;
            }
            self.open(remote);
        }
        if self.app.due().is_some_and(|due| now >= due) {
            self.step(now, cpu);
        }
        while !self.link.blocked
            && let Some(frame) = self.link.held.pop_front()
        {
            self.link.blocked = self.link.offer(frame, &mut sink).is_err();
        }
        let Self { iface, sockets, tcp, caps, link, .. } = self;
        if link.blocked {
            return;
        }
        let queued = || sockets.get::<Socket<'static>>(*tcp).send_queue();
        if link.tso.begin(now, queued) {
            return;
        }
        let now_us = micros(now);
        loop {
            let mut port =
                Port { caps, inp: None, out: &mut pad.out, link: Some(&mut *link), sink: &mut sink, now };
            if iface.poll_egress(now_us, &mut port, sockets) == PollResult::None {
                break;
            }
        }
        link.tso.end(now);
    }

    fn open(&mut self, remote: Addr) {
        self.open = Open::Done;
        let remote = (IpAddress::Ipv4(Ipv4Address::from(remote.ip)), remote.port);
        let local = (IpAddress::Ipv4(Ipv4Address::from(self.local.ip)), self.local.port);
        let tcp = self.sockets.get_mut::<Socket<'static>>(self.tcp);
        // Fails only for port 0 or an unspecified address, which no lab gives out.
        let opened = tcp.connect(self.iface.context(), remote, local);
        debug_assert!(opened.is_ok());
    }

    /// When [`poll`](Self::poll) is to be called next if nothing arrives: always after `now`, which must be the
    /// time of the last poll. `None` if only a packet or a wake can bring it on.
    pub fn poll_at(&mut self, now: Instant) -> Option<Instant> {
        if let Open::At(start, _) = self.open {
            return Some(start);
        }
        if self.link.blocked {
            return None;
        }
        let app = self.app.due().filter(|due| *due > now);
        let tcp = match self.link.tso.wait_ends() {
            Some(at) => Some(at),
            None => {
                let due = self.iface.poll_at(micros(now), &self.sockets);
                due.map(|t| Instant::from_micros(u64::try_from(t.total_micros()).unwrap_or(0)))
            }
        };
        // A deadline that is due although everything due has been done is looked at a microsecond later, the
        // stack's grain: it cannot come again at this instant.
        let tcp = tcp.map(|t| if t > now { t } else { Instant(now.0 / 1000 * 1000 + 1000) });
        [app, tcp].into_iter().flatten().min()
    }
}
