//! Any smoltcp device, with a transmit path between the stack and it: the packets of the stack wait
//! in qdiscs of your choice, and when they are full the stack waits too.

use std::marker::PhantomData;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Loopback, Medium, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use txweir::core::sched::answer::Verdict;
use txweir::{Completed, DeviceError, Env, Instant, Meta, PathConfig, TxPath, TxQueue, Wake};

/// A device whose sends go through a path. Call [`Shaped::flush`] after each poll of the interface,
/// and when the wake-up that it returns is due.
pub struct Shaped<D> {
    /// The device.
    pub inner: D,
    /// The path in front of it.
    pub path: TxPath<Vec<u8>>,
}

impl<D: Device> Shaped<D> {
    /// Sends the packets that may leave now.
    pub fn flush(&mut self, now: Time) -> Wake {
        self.path.drain(at(now), u32::MAX, &mut Tokens(Some((&mut self.inner, now))))
    }
}

impl<D: Device> Device for Shaped<D> {
    type RxToken<'a>
        = D::RxToken<'a>
    where
        D: 'a;
    type TxToken<'a>
        = Submit<'a, D>
    where
        D: 'a;

    fn receive(&mut self, now: Time) -> Option<(D::RxToken<'_>, Submit<'_, D>)> {
        let (rx, _) = self.inner.receive(now)?;
        Some((rx, Submit(&mut self.path, now, PhantomData)))
    }
    fn transmit(&mut self, now: Time) -> Option<Submit<'_, D>> {
        let largest = Meta::new(self.capabilities().max_transmission_unit as u32);
        let room = self.path.tree().would_accept(&largest) == Verdict::Accept;
        room.then_some(Submit(&mut self.path, now, PhantomData))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = self.inner.capabilities();
        caps.max_transmission_unit =
            caps.max_transmission_unit.min(self.path.tree().env().frame_max() as usize);
        caps
    }
}

/// The stack's permission to send one frame into the path.
pub struct Submit<'a, D>(&'a mut TxPath<Vec<u8>>, Time, PhantomData<D>);

impl<D: Device> TxToken for Submit<'_, D> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        // A reply to a received frame is made without asking for room first; a full path loses it.
        let _ = self.0.submit(at(self.1), frame, Meta::new(len as u32), &mut Tokens::<D>(None));
        result
    }
}

/// The inner device's tokens as promises of slots; none while the device is lent out to its receive
/// token.
struct Tokens<'a, D>(Option<(&'a mut D, Time)>);

impl<D: Device> TxQueue for Tokens<'_, D> {
    type Frame = Vec<u8>;
    fn reserve(&mut self, want: u32) -> u32 {
        self.0.as_mut().map_or(0, |(inner, now)| u32::from(want > 0 && inner.transmit(*now).is_some()))
    }
    fn push(&mut self, frame: Vec<u8>, _: &Meta) {
        if let Some(token) = self.0.as_mut().and_then(|(inner, now)| inner.transmit(*now)) {
            token.consume(frame.len(), |buffer| buffer.copy_from_slice(&frame));
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<Vec<u8>>)) {}
    // smoltcp's devices do not say when they have finished: a token that is used up is a packet
    // that has left.
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
}

fn at(now: Time) -> Instant {
    Instant::from_micros(now.total_micros().unsigned_abs())
}

/// The results of a transfer.
#[derive(Debug)]
pub struct Transfer {
    /// The bytes that arrived.
    pub received: Vec<u8>,
    /// The time at which the last of them arrived, in virtual microseconds.
    pub micros: i64,
    /// Packets that the path dropped.
    pub dropped: u64,
}

/// Moves `data` over TCP from one socket to another through a loopback device behind `qdisc`, in
/// virtual time.
pub fn run(data: &[u8], qdisc: &str, options: &[&str]) -> Result<Transfer, Box<dyn std::error::Error>> {
    let env = Env { mtu: 1500, link_header: 0, ..Env::default() };
    let path = TxPath::new(PathConfig { env, ..PathConfig::default() })?.with_qdisc(qdisc, options)?;
    let mut device = Shaped { inner: Loopback::new(Medium::Ip), path };

    let mut now = Time::ZERO;
    let home = IpAddress::v4(127, 0, 0, 1);
    let mut iface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, now);
    iface.update_ip_addrs(|addrs| addrs.extend([IpCidr::new(home, 8)]));
    let mut sockets = SocketSet::new(Vec::new());
    let buffer = || SocketBuffer::new(vec![0; 16 << 10]);
    let server = sockets.add(Socket::new(buffer(), buffer()));
    let client = sockets.add(Socket::new(buffer(), buffer()));
    sockets.get_mut::<Socket<'_>>(server).listen(80)?;
    sockets.get_mut::<Socket<'_>>(client).connect(iface.context(), (home, 80), 49_152)?;

    let (mut sent, mut received) = (0, Vec::new());
    while received.len() < data.len() && now < Time::from_secs(60) {
        let socket = sockets.get_mut::<Socket<'_>>(client);
        if socket.can_send() {
            sent += socket.send_slice(&data[sent..])?;
        }
        iface.poll(now, &mut device, &mut sockets);
        let socket = sockets.get_mut::<Socket<'_>>(server);
        while socket.can_recv() {
            socket.recv(|bytes| (bytes.len(), received.extend_from_slice(bytes)))?;
        }
        // The time goes on to the next event: a packet may leave, or a timer of TCP runs out.
        let may_leave = match device.flush(now) {
            Wake::At(t, _) => t.as_nanos().div_ceil(1000) as i64,
            _ => i64::MAX,
        };
        let timer = iface.poll_at(now, &sockets).map_or(i64::MAX, |t| t.total_micros());
        now = Time::from_micros(
            timer.min(may_leave).clamp(now.total_micros() + 1, now.total_micros() + 10_000),
        );
    }
    let dropped = device.path.tree().root().books().dropped.packets;
    Ok(Transfer { received, micros: now.total_micros(), dropped })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shaper = ["rate", "1mbit", "burst", "5kb", "limit", "64kb"];
    let t = run(&[0; 100_000], "tbf", &shaper)?;
    println!("{} bytes in {} ms, {} packets dropped", t.received.len(), t.micros / 1000, t.dropped);
    Ok(())
}
