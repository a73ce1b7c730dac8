//! The sender of a tunnel, as a VPN has it: packets for several peers leave by one UDP socket. The
//! peers share the line, trains of datagrams leave by one system call, and a packet whose sender
//! takes congestion marks is marked and not dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant as Clock;
use txweir::core::packet::hash::FlowHasher;
use txweir::core::packet::headers::Headers;
use txweir::tc::Policy;
use txweir::udp::quinn_udp::{Transmit, UdpSocketState};
use txweir::udp::{Datagram, Trains, UdpQueue};
use txweir::{Admitted, Instant, NoDevice, PathConfig, TxPath, Wake};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of the tunnel's own header: a number for each datagram.
pub const HEADER: usize = 8;
/// Most packets that are taken before the socket has its turn.
const BURST: usize = 64;

/// A socket of Tokio, whose readiness a failed send clears.
pub struct Tokio(pub Arc<UdpSocket>, pub UdpSocketState);

impl Tokio {
    /// Sets a socket up.
    pub fn new(socket: Arc<UdpSocket>) -> std::io::Result<Self> {
        let state = UdpSocketState::new((&*socket).into())?;
        Ok(Self(socket, state))
    }
}

impl Trains for Tokio {
    fn send(&mut self, train: &Transmit<'_>) -> std::io::Result<()> {
        self.0.try_io(Interest::WRITABLE, || self.1.try_send((&*self.0).into(), train))
    }
    fn longest(&self) -> usize {
        self.1.max_gso_segments()
    }
}

/// The sender.
pub struct Tunnel<T> {
    /// The path that all peers share.
    pub path: TxPath<Datagram<Vec<u8>>>,
    /// The socket.
    pub queue: UdpQueue<Vec<u8>, T>,
    hasher: FlowHasher,
    spare: Vec<Vec<u8>>,
    number: u64,
}

impl<T: Trains> Tunnel<T> {
    /// Makes a sender with this policy. Its packets come from elsewhere: a full queue drops.
    pub fn new(socket: T, policy: &str) -> Result<Self, Failure> {
        let mut path = TxPath::new(PathConfig { pool: 2048, ..PathConfig::for_socket().forwarder() })?;
        let policy = Policy::parse(policy, "tunnel.tc")?;
        path.configure(Instant::ZERO, &mut NoDevice::new(), |tree, cx| policy.apply(tree, cx))?;
        let (queue, spare) = (UdpQueue::over(socket).keeping(2048), Vec::with_capacity(2048));
        Ok(Self { path, queue, hasher: FlowHasher::new(1), spare, number: 0 })
    }

    /// Takes an IP packet for a peer. False if it was dropped.
    pub fn send(&mut self, now: Instant, to: SocketAddr, packet: &[u8]) -> bool {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        self.number += 1;
        bytes.extend_from_slice(&self.number.to_be_bytes());
        // A VPN encrypts here.
        bytes.extend_from_slice(packet);
        let datagram = Datagram { to, from: None, bytes };
        // The datagram has the ECN field of its packet (RFC 6040 section 4.1).
        let meta = datagram.meta(&self.hasher).ecn(Headers::parse_ip(packet).ecn());
        let admitted = self.path.submit(now, datagram, meta, &mut self.queue);
        matches!(admitted, Admitted::Sent | Admitted::Queued)
    }

    /// Sends what may leave now. Returns when to call it next: at a time, or, if the queue
    /// [is full](UdpQueue::is_full), when the socket is writable.
    pub fn turn(&mut self, now: Instant) -> Wake {
        let Self { path, queue, spare, .. } = self;
        path.reap(now, queue, |datagram| spare.push(datagram.bytes));
        path.drain(now, 1024, queue)
    }
}

/// Sends the packets of a channel, until it is closed and all have left. Returns the tunnel.
pub async fn serve(
    mut tunnel: Tunnel<Tokio>,
    mut packets: Receiver<(SocketAddr, Vec<u8>)>,
) -> Result<Tunnel<Tokio>, Failure> {
    let (start, socket) = (Clock::now(), Arc::clone(&tunnel.queue.socket().0));
    let now = || Instant(start.elapsed().as_nanos() as u64);
    let (mut wake, mut burst, mut is_open) = (Wake::Idle, Vec::with_capacity(BURST), true);
    while is_open || wake != Wake::Idle || tunnel.queue.is_full() {
        let due = match wake {
            Wake::At(at, _) => Some(start + Duration::from_nanos(at.0)),
            Wake::More => Some(Clock::now()),
            Wake::Idle | Wake::Device => None,
        };
        tokio::select! {
            count = packets.recv_many(&mut burst, BURST), if is_open => is_open = count > 0,
            () = tokio::time::sleep_until(due.unwrap_or(start)), if due.is_some() => {}
            ready = socket.writable(), if tunnel.queue.is_full() => ready?,
        }
        for (to, packet) in burst.drain(..) {
            tunnel.send(now(), to, &packet);
        }
        wake = tunnel.turn(now());
    }
    Ok(tunnel)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let peer = UdpSocket::bind("127.0.0.1:0").await?;
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
    let tunnel = Tunnel::new(Tokio::new(socket)?, "qdisc add root fq_codel limit 1024\n")?;
    let (sender, packets) = tokio::sync::mpsc::channel(256);
    let to = peer.local_addr()?;
    tokio::spawn(async move {
        for _ in 0..1000 {
            let _ = sender.send((to, vec![0x45; 1000])).await;
        }
    });
    let tunnel = serve(tunnel, packets).await?;
    println!("{:?}, {:?}", tunnel.queue.counts(), tunnel.path.stats());
    Ok(())
}
