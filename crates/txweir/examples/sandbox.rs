//! A limiter for a sandbox: the frames of a guest come by a bounded queue and wait in the qdiscs of
//! a path on their way to the host's stack, smoltcp; those of the stack wait in another path on
//! their way to the guest's ring. A busy flow of the guest delays none of its others.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr};
use smoltcp::wire::{UdpPacket, UdpRepr};
use txweir::core::packet::hash::FlowHasher;
use txweir::core::packet::headers::{Headers, set_ce};
use txweir::smoltcp::{Shaped, instant};
use txweir::{Admitted, Env, Meta, NoDevice, PathConfig, TxPath, Wake};

type Failure = Box<dyn std::error::Error>;

/// Frames of the guest's receive ring.
const RING: usize = 64;
/// Bytes of the largest packet.
const MTU: usize = 1500;

/// The card of a guest, as the host's stack sees it.
pub struct Card {
    up: TxPath<Vec<u8>>,
    hasher: FlowHasher,
    /// The guest's receive ring.
    pub ring: VecDeque<Vec<u8>>,
}

impl Card {
    /// Takes a packet of the guest. A packet without room comes back: the guest's queue keeps it,
    /// and with it those behind it.
    pub fn offer(&mut self, now: Time, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        let len = packet.len() as u32;
        let meta = Meta::of(&Headers::parse_ip(&packet), len, &self.hasher);
        match self.up.submit(instant(now), packet, meta, &mut NoDevice::new()) {
            Admitted::Full(packet) => Err(packet),
            _ => Ok(()),
        }
    }

    /// Takes the next packet for the stack, if one may leave now. Returns the time of the next.
    fn take(&mut self, now: Time) -> (Option<Vec<u8>>, Wake) {
        let mut next = None;
        let wake = self.up.pull(instant(now), 1, &mut NoDevice::new(), |mut packet: Vec<u8>, m| {
            if m.marked {
                let network = Headers::parse_ip(&packet).network_header();
                set_ce(&mut packet, network);
            }
            next = Some(packet);
        });
        (next, wake)
    }
}

/// A packet on its way to the stack.
pub struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// A place in the guest's ring.
pub struct Slot<'a>(&'a mut VecDeque<Vec<u8>>);

impl TxToken for Slot<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Received;
    type TxToken<'a> = Slot<'a>;

    fn receive(&mut self, now: Time) -> Option<(Received, Slot<'_>)> {
        let (packet, _) = self.take(now);
        Some((Received(packet?), Slot(&mut self.ring)))
    }
    fn transmit(&mut self, _: Time) -> Option<Slot<'_>> {
        (self.ring.len() < RING).then_some(Slot(&mut self.ring))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        (caps.medium, caps.max_transmission_unit) = (Medium::Ip, MTU);
        caps
    }
}

/// Makes the card of a guest: 1 Mbit/s each way, with this qdisc behind the rate upwards.
pub fn card(qdisc: &str) -> Result<Shaped<Card>, Failure> {
    let rate = "qdisc add root handle 1: tbf rate 1mbit burst 3000 limit 100k\n";
    let path = |lines: &str| -> Result<TxPath<Vec<u8>>, Failure> {
        let env = Env { mtu: MTU as u32, link_header: 0, ..Env::default() };
        let mut path = TxPath::new(PathConfig { env, pool: 256, ..PathConfig::for_socket() })?;
        let policy = txweir::tc::Policy::parse(lines, "guest.tc")?;
        path.configure(txweir::Instant::ZERO, &mut NoDevice::new(), |tree, cx| policy.apply(tree, cx))?;
        Ok(path)
    };
    let up = path(&format!("{rate}qdisc add parent 1: {qdisc}\n"))?;
    let card = Card { up, hasher: FlowHasher::new(1), ring: VecDeque::with_capacity(RING) };
    Ok(Shaped::new(card, path(rate)?, 32, 1))
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Bytes of the busy flow that the stack has got.
    pub bulk: u64,
    /// For each question of the other flow the time until its answer was in the guest's ring.
    pub micros: Vec<i64>,
    /// Packets of the busy flow that came back to the guest for want of room.
    pub refused: u64,
    /// Frames of the stack that found no room.
    pub lost: u64,
}

/// Returns a packet of UDP from the guest to a port of the stack.
fn packet(port: u16, payload: &[u8]) -> Vec<u8> {
    let (src_addr, dst_addr) = (Ipv4Address::new(10, 0, 0, 2), Ipv4Address::new(10, 0, 0, 1));
    let udp = UdpRepr { src_port: port + 1000, dst_port: port };
    let payload_len = 8 + payload.len();
    let ip = Ipv4Repr { src_addr, dst_addr, next_header: IpProtocol::Udp, payload_len, hop_limit: 64 };
    let mut bytes = vec![0; 20 + payload_len];
    let sums = ChecksumCapabilities::default();
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &sums);
    let mut datagram = UdpPacket::new_unchecked(&mut bytes[20..]);
    let ends = (IpAddress::from(src_addr), IpAddress::from(dst_addr));
    udp.emit(&mut datagram, &ends.0, &ends.1, payload.len(), |room| room.copy_from_slice(payload), &sums);
    bytes
}

/// Lets a guest fill its queue with packets for port 9, and ask port 7 each 20 ms, for this virtual
/// time. A question without room is offered again before all others.
pub fn run(qdisc: &str, millis: i64) -> Result<Outcome, Failure> {
    let mut device = card(qdisc)?;
    let mut iface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, Time::ZERO);
    iface.update_ip_addrs(|addrs| addrs.extend([IpCidr::new(IpAddress::v4(10, 0, 0, 1), 24)]));
    let mut sockets = SocketSet::new(Vec::new());
    let [bulk, echo] = [9, 7].map(|port| {
        let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; 16], vec![0; 32_768]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.bind(port).map(|()| sockets.add(socket))
    });
    let (bulk, echo) = (bulk.map_err(|e| e.to_string())?, echo.map_err(|e| e.to_string())?);
    let (mut o, mut asked, mut held) = (Outcome::default(), VecDeque::new(), VecDeque::new());
    for tick in 0..millis * 4 {
        let now = Time::from_micros(tick * 250);
        if tick % 80 == 0 {
            asked.push_back(now);
            held.push_back(packet(7, &[1; 64]));
        }
        while let Some(question) = held.pop_front() {
            if let Err(question) = device.inner().offer(now, question) {
                held.push_front(question);
                break;
            }
        }
        while device.inner().offer(now, packet(9, &[2; 1400])).is_ok() {}
        o.refused += 1;
        iface.poll(now, &mut device, &mut sockets);
        while let Ok((bytes, _)) = sockets.get_mut::<Socket<'_>>(bulk).recv() {
            o.bulk += bytes.len() as u64;
        }
        let socket = sockets.get_mut::<Socket<'_>>(echo);
        while let Ok((bytes, from)) = socket.recv().map(|(bytes, from)| (bytes.to_vec(), from)) {
            socket.send_slice(&bytes, from).map_err(|e| e.to_string())?;
        }
        iface.poll(now, &mut device, &mut sockets);
        let _ = device.flush(now);
        for _ in device.inner().ring.drain(..) {
            let at: Time = asked.pop_front().ok_or("an answer without a question")?;
            o.micros.push((now - at).total_micros() as i64);
        }
    }
    o.lost = device.lost();
    Ok(o)
}

fn main() -> Result<(), Failure> {
    for qdisc in ["pfifo limit 60", "fq_codel limit 200"] {
        let o = run(qdisc, 2000)?;
        let worst = o.micros.iter().max().copied().unwrap_or_default();
        println!("{qdisc}: {} bytes, {} answers, the slowest after {worst} us", o.bulk, o.micros.len());
    }
    Ok(())
}
