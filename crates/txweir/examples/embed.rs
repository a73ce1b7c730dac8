//! A path in front of a socket, in a poll loop that fills a ring itself, and in front of a modelled
//! wire: the code of docs/embed.md.

use std::net::{SocketAddr, UdpSocket};
use std::sync::LazyLock;
use std::time::Instant as Clock;

use txweir::core::model::wire::{Wire, WireConfig};
use txweir::core::packet::hash::FlowHasher;
use txweir::handoff::{Bell, Monitor, QueueConfig, Service, SharedControl};
use txweir::ports::TcPort;
use txweir::tc::Policy;
use txweir::tc::show::measured::metrics;
use txweir::udp::{Datagram, UdpQueue};
use txweir::{
    Admitted, Ecn, Instant, Meta, NoDevice, PathConfig, Rate, TxPath, TxQueue, Wake, testing::VecDevice,
};

type Failure = Box<dyn std::error::Error>;

/// Sends datagrams to a peer by a socket. Returns the number that went at once.
pub fn over_a_socket(socket: UdpSocket, to: SocketAddr, all: Vec<Vec<u8>>) -> Result<u64, Failure> {
    let mut device = UdpQueue::new(socket)?;
    let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("fq_codel", &[])?;
    let (now, hasher) = (Instant::ZERO, FlowHasher::new(1));
    for bytes in all {
        let datagram = Datagram { to, from: None, bytes };
        // A flow is a peer. With an ECN field the qdisc marks a datagram where it would drop it.
        let meta = datagram.meta(&hasher).ecn(Ecn::Ect0);
        match path.submit(now, datagram, meta, &mut device) {
            Admitted::Sent | Admitted::Queued => {}
            // The sender keeps the datagram until `take_wake` answers true.
            Admitted::Full(_) | Admitted::Cut(..) => return Err("no room".into()),
            Admitted::Dropped(reason) => return Err(reason.to_string().into()),
        }
    }
    // While `device.is_full()`, the next call comes when the socket is writable.
    let _ = path.drain(now, 64, &mut device);
    Ok(device.counts().sent)
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

/// Puts the queues of a device behind tc's lines, for any number of threads that send. Returns the
/// port's control, its name and filters, and the thread that serves its times.
pub fn for_threads<D>(device: Vec<D>, lines: &str) -> Result<(SharedControl<D>, TcPort, Service), Failure>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    let bell = Bell::new();
    let rules = |_queue| QueueConfig::new(clock);
    let mut control = SharedControl::new(PathConfig::for_socket(), device, rules, 1, bell.wakeup())?;
    let mut eth0 = TcPort::new("eth0", 1);
    let policy = Policy::parse(lines, "eth0.tc")?;
    // Later lines come in the same way, while threads send: their packets are listed meanwhile.
    eth0.change(&mut control, |devices| policy.apply_to(devices, &["eth0"]))??;
    let queues = control.port().queues().to_vec();
    let service = Service::spawn("tx", &bell, queues, Monitor::default(), |found| eprintln!("{found}"))?;
    Ok((control, eth0, service))
}

/// A time that never goes back.
fn clock() -> Instant {
    static START: LazyLock<Clock> = LazyLock::new(Clock::now);
    Instant(u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn main() -> Result<(), Failure> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let to = receiver.local_addr()?;
    println!("{} datagrams went at once", over_a_socket(socket, to, vec![vec![1; 100]; 10])?);

    let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("fq_codel", &["limit", "40"])?;
    for buffer in 0..32 {
        let _ = path.submit(Instant::ZERO, buffer, Meta::new(1500).flow(buffer.into()), &mut NoDevice::new());
    }
    let (filled, wake) = fill(&mut path, Instant::ZERO, &mut [0; 24], &mut Vec::new());
    println!("{filled} descriptors filled, next turn: {wake:?}\n{}", page(&path));

    for (packet, at) in over_a_wire(5)? {
        println!("packet {packet} has left after {} us", at.0 / 1000);
    }

    let device = vec![VecDevice::with_slots(64), VecDevice::with_slots(64)];
    let (control, _eth0, service) = for_threads(device, "qdisc add root handle 1: mq")?;
    std::thread::scope(|s| {
        for thread in 0..2u64 {
            let mut sender = control.port().sender();
            s.spawn(move || sender.send(thread, Meta::new(1500).flow(thread)));
        }
    });
    service.stop();
    Ok(())
}
