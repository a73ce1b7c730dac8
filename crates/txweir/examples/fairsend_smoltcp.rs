//! smoltcp sockets that take turns. smoltcp asks its sockets in the order of their numbers, from
//! the first one at each poll: where the device is full most of the time, the first sockets get all
//! its room, and a request waits behind whole windows. Here each socket is a set of its own, and a
//! `FairSend` says which socket has the turn.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Packet, TcpPacket};
use txweir::core::turns::{Burst, Cause, FairSend, Quota, SenderId};

/// Sockets of one interface that take turns. Frames are IP packets.
pub struct FairSockets<'a> {
    iface: Interface,
    fair: FairSend,
    sockets: Vec<(SenderId, SocketSet<'a>, SocketHandle)>,
    /// The turn that the full device has interrupted.
    current: Option<Burst>,
    /// Answers to arrived packets, which no socket sends: they wait for no turn.
    answers: Answers,
}

/// Most answers that wait; further ones are lost, as where a device is full.
const ANSWERS_MAX: usize = 64;

impl<'a> FairSockets<'a> {
    /// Creates room for at most `most` sockets.
    pub fn new(iface: Interface, most: u32, quota: Quota) -> Self {
        Self {
            iface,
            fair: FairSend::new(most, quota),
            sockets: Vec::new(),
            current: None,
            answers: Answers::default(),
        }
    }

    /// Takes a socket in and returns its number.
    pub fn add(&mut self, socket: Socket<'a>) -> Option<usize> {
        let id = self.fair.join()?;
        let mut set = SocketSet::new(Vec::new());
        let handle = set.add(socket);
        self.sockets.push((id, set, handle));
        Some(self.sockets.len() - 1)
    }

    /// Returns a socket, and the interface that it needs to connect.
    pub fn socket(&mut self, number: usize) -> (&mut Socket<'a>, &mut Interface) {
        let (_, set, handle) = &mut self.sockets[number];
        (set.get_mut(*handle), &mut self.iface)
    }

    /// Takes in a packet: the socket of its port gets it.
    pub fn receive(&mut self, now: Time, packet: Vec<u8>) {
        let port = tcp(&packet).map(|tcp| tcp.dst_port());
        let of_port = |(_, set, handle): &(SenderId, SocketSet<'a>, SocketHandle)| {
            set.get::<Socket<'_>>(*handle).local_endpoint().map(|e| e.port) == port
        };
        if let Some((_, set, _)) = self.sockets.iter_mut().find(|s| of_port(s)) {
            self.answers.inbox = Some(packet);
            self.iface.poll_ingress_single(now, &mut self.answers, set);
            self.answers.list.truncate(ANSWERS_MAX);
        }
    }

    /// Sends as long as the device takes packets. The caller calls this after every event that may
    /// give a socket something to send: data, packets, time, room.
    pub fn send<D: Device>(&mut self, now: Time, device: &mut D) {
        // smoltcp does not say why a socket would send; so a repair after its timer waits its turn
        // as well.
        for (id, set, _) in &self.sockets {
            let holds_turn = self.current.as_ref().is_some_and(|burst| burst.sender() == *id);
            if !holds_turn
                && self.iface.poll_at(now, set).is_some_and(|at| at <= now)
                && let Some(burst) = self.fair.begin(*id, Cause::Data)
            {
                self.fair.defer(&burst);
            }
        }
        while !self.answers.list.is_empty()
            && let Some(token) = device.transmit(now)
        {
            let answer = self.answers.list.remove(0);
            token.consume(answer.len(), |packet| packet.copy_from_slice(&answer));
        }
        while let Some(mut burst) = self.current.take().or_else(|| self.fair.next_turn()) {
            let (_, set, _) = &mut self.sockets[burst.sender().index()];
            loop {
                if device.transmit(now).is_none() {
                    self.current = Some(burst);
                    return;
                }
                let mut counted = Counted { device, segs: 0, bytes: 0 };
                if self.iface.poll_egress(now, &mut counted, set) == PollResult::None {
                    break;
                }
                burst.count(counted.segs, counted.bytes);
                if burst.is_spent() {
                    self.fair.defer(&burst);
                    break;
                }
            }
        }
    }

    /// Returns the time at which the next timer of a socket runs out.
    pub fn poll_at(&mut self, now: Time) -> Option<Time> {
        let Self { iface, sockets, .. } = self;
        sockets.iter().filter_map(|(_, set, _)| iface.poll_at(now, set)).filter(|at| *at > now).min()
    }
}

fn tcp(packet: &[u8]) -> Option<TcpPacket<&[u8]>> {
    TcpPacket::new_checked(Ipv4Packet::new_checked(packet).ok()?.payload()).ok()
}

/// A device that counts the sent packets.
struct Counted<'d, D> {
    device: &'d mut D,
    segs: u32,
    bytes: u64,
}

/// A device that hands in one packet, and keeps the answers to it.
#[derive(Default)]
struct Answers {
    inbox: Option<Vec<u8>>,
    list: Vec<Vec<u8>>,
}

impl Device for Answers {
    type RxToken<'a> = Packet;
    type TxToken<'a> = Reply<'a>;

    fn receive(&mut self, _: Time) -> Option<(Packet, Reply<'_>)> {
        self.inbox.take().map(|packet| (Packet(packet), Reply(&mut self.list)))
    }
    fn transmit(&mut self, _: Time) -> Option<Reply<'_>> {
        None
    }
    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

struct Reply<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Reply<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

/// Returns the capabilities: IP packets of at most 1500 bytes.
fn capabilities() -> DeviceCapabilities {
    let mut caps = DeviceCapabilities::default();
    (caps.medium, caps.max_transmission_unit) = (Medium::Ip, 1500);
    caps
}

struct Packet(Vec<u8>);

impl RxToken for Packet {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Counting<'c, T>(T, &'c mut u32, &'c mut u64);

impl<T: TxToken> TxToken for Counting<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.0.consume(len, |packet| {
            let result = f(packet);
            if tcp(packet).is_some_and(|tcp| !tcp.payload().is_empty()) {
                (*self.1, *self.2) = (*self.1 + 1, *self.2 + len as u64);
            }
            result
        })
    }
}

impl<D: Device> Device for Counted<'_, D> {
    type RxToken<'a>
        = D::RxToken<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Counting<'a, D::TxToken<'a>>
    where
        Self: 'a;

    fn receive(&mut self, now: Time) -> Option<(D::RxToken<'_>, Self::TxToken<'_>)> {
        let (packet, token) = self.device.receive(now)?;
        Some((packet, Counting(token, &mut self.segs, &mut self.bytes)))
    }
    fn transmit(&mut self, now: Time) -> Option<Self::TxToken<'_>> {
        self.device.transmit(now).map(|token| Counting(token, &mut self.segs, &mut self.bytes))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        self.device.capabilities()
    }
}

/// A device with a short ring on a line of 100 Mbit/s, in virtual time.
#[derive(Default)]
struct Line {
    ring: VecDeque<Vec<u8>>,
    /// The time at which the first packet of the ring has left.
    until: i64,
}

const SLOTS: usize = 16;

struct Slot<'a>(&'a mut Line, i64);

impl TxToken for Slot<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        if self.0.ring.is_empty() {
            self.0.until = self.1 + Line::micros(len);
        }
        self.0.ring.push_back(packet);
        result
    }
}

impl Line {
    fn micros(len: usize) -> i64 {
        (len as i64 * 8 + 99) / 100
    }
    /// Takes a packet that has left by now.
    fn left(&mut self, now: i64) -> Option<Vec<u8>> {
        if self.until > now {
            return None;
        }
        let packet = self.ring.pop_front();
        self.until += self.ring.front().map_or(0, |next| Self::micros(next.len()));
        packet
    }
}

impl Device for Line {
    type RxToken<'a> = Packet;
    type TxToken<'a> = Slot<'a>;

    fn receive(&mut self, _: Time) -> Option<(Packet, Slot<'_>)> {
        None
    }
    fn transmit(&mut self, now: Time) -> Option<Slot<'_>> {
        (self.ring.len() < SLOTS).then_some(Slot(self, now.total_micros()))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

/// The other host's device: the packets that came in and those that go back, without a limit.
#[derive(Default)]
struct Far(VecDeque<Vec<u8>>, Vec<Vec<u8>>);

impl Device for Far {
    type RxToken<'a> = Packet;
    type TxToken<'a> = Reply<'a>;

    fn receive(&mut self, _: Time) -> Option<(Packet, Reply<'_>)> {
        self.0.pop_front().map(|packet| (Packet(packet), Reply(&mut self.1)))
    }
    fn transmit(&mut self, _: Time) -> Option<Reply<'_>> {
        Some(Reply(&mut self.1))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Bytes of each bulk sender that have arrived.
    pub bulk: Vec<u64>,
    /// The time that each request took to arrive, in virtual microseconds.
    pub requests: Vec<i64>,
}

/// Senders with more data than the line takes.
pub const BULK: usize = 8;
/// Bytes of a request, and the time between two.
const REQUEST: usize = 100;
const EVERY: i64 = 10_000;
/// The time that a packet is on its way, in each direction: a window that is sent comes back open
/// after twice that.
const AWAY: i64 = 10_000;

/// Runs eight bulk senders with windows of 48 to 216 KiB and one with short requests, for this
/// number of virtual milliseconds.
pub fn run(quota: Quota, millis: i64) -> Result<Outcome, Box<dyn std::error::Error>> {
    let (near, far) = (IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
    let interface = |address, device: &mut dyn FnMut(Config) -> Interface| {
        let mut iface = device(Config::new(HardwareAddress::Ip));
        iface.update_ip_addrs(|addrs| addrs.extend([IpCidr::new(address, 24)]));
        iface
    };
    let (mut line, mut there) = (Line::default(), Far::default());
    let iface = interface(near, &mut |config| Interface::new(config, &mut line, Time::ZERO));
    let mut server = interface(far, &mut |config| Interface::new(config, &mut there, Time::ZERO));
    let mut senders = FairSockets::new(iface, BULK as u32 + 1, quota);
    let mut listening = SocketSet::new(Vec::new());
    let buffer = |len: usize| SocketBuffer::new(vec![0; len]);
    let mut handles = Vec::new();
    for i in 0..=BULK {
        let port = 80 + i as u16;
        let mut socket = Socket::new(buffer(512 << 10), buffer(1 << 10));
        socket.set_ack_delay(None);
        socket.listen(port)?;
        handles.push(listening.add(socket));
        let mut socket = Socket::new(buffer(1 << 10), buffer((i + 2) * (24 << 10)));
        socket.set_nagle_enabled(false);
        let at = senders.add(socket).ok_or("no room")?;
        let (socket, iface) = senders.socket(at);
        socket.connect(iface.context(), (far, port), 50_000 + i as u16)?;
    }
    let (mut now, mut asked, mut outcome) =
        (0, Vec::new(), Outcome { bulk: vec![0; BULK], requests: vec![] });
    let data = [7; 4096];
    let (mut forth, mut back) = (VecDeque::new(), VecDeque::new());
    while now < millis * 1000 {
        let time = Time::from_micros(now);
        while let Some(packet) = line.left(now) {
            forth.push_back((now + AWAY, packet));
        }
        let arrived = |way: &mut VecDeque<(i64, Vec<u8>)>| match way.front() {
            Some((at, _)) if *at <= now => way.pop_front().map(|(_, packet)| packet),
            _ => None,
        };
        while let Some(packet) = arrived(&mut forth) {
            there.0.push_back(packet);
        }
        server.poll(time, &mut there, &mut listening);
        for (i, handle) in handles.iter().enumerate() {
            let socket = listening.get_mut::<Socket<'_>>(*handle);
            while socket.can_recv() {
                let n = socket.recv(|bytes| (bytes.len(), bytes.len()))?;
                match outcome.bulk.get_mut(i) {
                    Some(bulk) => *bulk += n as u64,
                    None => outcome.requests.extend(asked.drain(..n / REQUEST).map(|at: i64| now - at)),
                }
            }
        }
        server.poll(time, &mut there, &mut listening);
        back.extend(there.1.drain(..).map(|packet| (now + AWAY, packet)));
        while let Some(packet) = arrived(&mut back) {
            senders.receive(time, packet);
        }
        for i in 0..BULK {
            let (socket, _) = senders.socket(i);
            while socket.can_send() && socket.send_slice(&data)? > 0 {}
        }
        let (socket, _) = senders.socket(BULK);
        if now % EVERY == 0 && socket.can_send() {
            socket.send_slice(&data[..REQUEST])?;
            asked.push(now);
        }
        senders.send(time, &mut line);
        let timer = senders.poll_at(time).map_or(i64::MAX, |at| at.total_micros());
        let leaves = if line.ring.is_empty() { i64::MAX } else { line.until };
        let arrives = [&forth, &back].into_iter().filter_map(|way| way.front()).map(|(at, _)| *at).min();
        now = timer.min(leaves).min(arrives.unwrap_or(i64::MAX)).min((now / EVERY + 1) * EVERY).max(now + 1);
    }
    Ok(outcome)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for n in [0, 4] {
        let Outcome { bulk, requests } = run(Quota::segs(n), 2000)?;
        let worst = requests.iter().max().copied().unwrap_or(0);
        println!("fairsend {n}: bulk {bulk:?} bytes, {} requests, the slowest {worst} us", requests.len());
    }
    Ok(())
}
