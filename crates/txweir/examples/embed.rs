//! A path in front of a socket, in a poll loop that fills a ring itself, and in front of a modelled
//! wire: the code of docs/embed.md.

use std::collections::VecDeque;
use std::net::UdpSocket;

use txweir::core::model::wire::{Wire, WireConfig};
use txweir::tc::show::measured::metrics;
use txweir::{
    Admitted, Completed, DeviceError, Instant, Meta, NoDevice, PathConfig, Rate, TxPath, TxQueue, Wake,
};

type Failure = Box<dyn std::error::Error>;

/// Most datagrams that the device keeps.
const TRAIN: usize = 64;

/// A connected socket that does not block, as the device of a path.
pub struct Datagrams {
    socket: UdpSocket,
    /// Datagrams that the socket was not shown yet, or has refused for want of room.
    behind: VecDeque<Vec<u8>>,
    /// True if it has refused one and was not asked since.
    is_full: bool,
    /// Datagrams that the system refused for another reason than want of room.
    pub lost: u64,
}

impl Datagrams {
    /// Wraps a connected socket.
    pub fn new(socket: UdpSocket) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, behind: VecDeque::new(), is_full: false, lost: 0 })
    }

    /// Sends what the socket takes.
    fn flush(&mut self) {
        self.is_full = false;
        while let Some(datagram) = self.behind.front() {
            match self.socket.send(datagram) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return self.is_full = true,
                Err(_) => self.lost += 1,
                Ok(_) => {}
            }
            self.behind.pop_front();
        }
    }
}

impl TxQueue for Datagrams {
    type Frame = Vec<u8>;
    fn reserve(&mut self, want: u32) -> u32 {
        // While the socket is full, packets wait in the qdiscs and not here.
        let free = if self.is_full { 0 } else { TRAIN - self.behind.len() };
        want.min(free as u32)
    }
    fn push(&mut self, datagram: Vec<u8>, _: &Meta) {
        self.behind.push_back(datagram);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.flush();
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<Vec<u8>>)) {
        // The program calls `reap` and `drain` when the socket is writable again.
        self.flush();
    }
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
}

/// Sends datagrams by a socket. Returns the number that went at once.
pub fn over_a_socket(socket: UdpSocket, datagrams: Vec<Vec<u8>>) -> Result<u64, Failure> {
    let mut device = Datagrams::new(socket)?;
    let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("fq_codel", &[])?;
    let now = Instant::ZERO;
    for datagram in datagrams {
        let m = Meta::new(u32::try_from(datagram.len())?).flow(datagram[0].into());
        match path.submit(now, datagram, m, &mut device) {
            Admitted::Sent | Admitted::Queued => {}
            // The sender keeps the datagram until `take_wake` answers true.
            Admitted::Full(_) | Admitted::Cut(..) => return Err("no room".into()),
            Admitted::Dropped(reason) => return Err(reason.to_string().into()),
        }
    }
    let _ = path.drain(now, 64, &mut device);
    Ok(path.stats().tx_packets - device.behind.len() as u64 - device.lost)
}

/// Fills the free descriptors of a ring with the indexes of buffers, as a poll loop does in each
/// turn. Buffers of dropped packets go to `free`. Returns the time of the next turn, if one is due.
pub fn fill(
    path: &mut TxPath<u32>,
    now: Instant,
    descriptors: &mut [u32],
    free: &mut Vec<u32>,
) -> (usize, Wake) {
    let mut owner = NoDevice::giving_back(|buffer, _, _| free.push(buffer));
    let (mut filled, most) = (0, u32::try_from(descriptors.len()).unwrap_or(u32::MAX));
    let wake = path.pull(now, most, &mut owner, |buffer, _| {
        descriptors[filled] = buffer;
        filled += 1;
    });
    (filled, wake)
}

/// Sends packets of 1500 bytes over a modelled line of 10 Mbit/s. Returns each with the time at
/// which its last bit has left.
pub fn over_a_wire(count: u32) -> Result<Vec<(u32, Instant)>, Failure> {
    let mut wire = Wire::new(WireConfig { rate: Rate::from_bits(10_000_000), ..WireConfig::default() })?;
    let mut path = TxPath::new(PathConfig::for_ring())?.with_qdisc("fq_codel", &[])?;
    let (mut now, mut left) = (Instant::ZERO, Vec::new());
    for packet in 0..count {
        let _ = path.submit(now, packet, Meta::new(1500), &mut wire);
    }
    loop {
        let due = match path.drain(now, 64, &mut wire) {
            Wake::Idle | Wake::Device => None,
            Wake::At(at, _) => Some(at),
            Wake::More => Some(now),
        };
        let Some(next) = [due, wire.next_event()].into_iter().flatten().min() else { return Ok(left) };
        now = next;
        wire.advance(now, |unit| left.push((unit.frame, unit.finish)));
        path.reap(now, &mut wire, |_packet| {});
    }
}

/// Returns the numbers of a path as lines of name, qdisc or class, value.
pub fn page<F>(path: &TxPath<F>) -> String {
    let mut page = String::new();
    metrics(path.tree(), &mut |at, counter, n| page += &format!("{} {at} {n}\n", counter.key));
    page
}

fn main() -> Result<(), Failure> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(receiver.local_addr()?)?;
    println!("{} datagrams went at once", over_a_socket(socket, vec![vec![1; 100]; 10])?);

    let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("fq_codel", &["limit", "40"])?;
    for buffer in 0..32 {
        let _ = path.submit(Instant::ZERO, buffer, Meta::new(1500).flow(buffer.into()), &mut NoDevice::new());
    }
    let (filled, wake) = fill(&mut path, Instant::ZERO, &mut [0; 24], &mut Vec::new());
    println!("{filled} descriptors filled, next turn: {wake:?}\n{}", page(&path));

    for (packet, at) in over_a_wire(5)? {
        println!("packet {packet} has left after {} us", at.0 / 1000);
    }
    Ok(())
}
