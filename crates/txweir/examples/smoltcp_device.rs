//! A path behind any smoltcp `Device`: the frames that the stack sends go through a qdisc.

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Loopback, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use txweir::smoltcp::Shaped;
use txweir::{Env, PathConfig, TxPath, Wake};

/// Packets of the stack that may wait.
const BUFFERS: usize = 64;

/// Puts a qdisc behind a device of IP packets.
pub fn shaped(qdisc: &str, options: &[&str]) -> Result<Shaped<Loopback>, Box<dyn std::error::Error>> {
    let env = Env { mtu: 1500, link_header: 0, ..Env::default() };
    let path = TxPath::new(PathConfig { env, ..PathConfig::for_socket() })?.with_qdisc(qdisc, options)?;
    Ok(Shaped::new(Loopback::new(Medium::Ip), path, BUFFERS, 1))
}

/// The results of a transfer.
#[derive(Debug)]
pub struct Transfer {
    /// The bytes that arrived.
    pub received: Vec<u8>,
    /// The time at which the last of them arrived, in virtual microseconds.
    pub micros: i64,
    /// Packets that the path dropped or that found no room.
    pub dropped: u64,
}

/// Moves `data` over TCP from one socket to another through a loopback device behind `qdisc`, in
/// virtual time.
pub fn run(data: &[u8], qdisc: &str, options: &[&str]) -> Result<Transfer, Box<dyn std::error::Error>> {
    let mut device = shaped(qdisc, options)?;
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
    let dropped = device.path().tree().root().books().dropped.packets + device.lost();
    Ok(Transfer { received, micros: now.total_micros(), dropped })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shaper = ["rate", "1mbit", "burst", "5kb", "limit", "64kb"];
    let t = run(&[0; 100_000], "tbf", &shaper)?;
    println!("{} bytes in {} ms, {} packets dropped", t.received.len(), t.micros / 1000, t.dropped);
    Ok(())
}
