//! A poll loop in the manner of DPDK: bursts of 32 buffers, one core, no allocation. Each
//! subscriber is a class of htb. Buffers are numbers, as the addresses of mbufs would be.

use txweir::tc::Policy;
use txweir::{Admitted, Instant, Meta, NoDevice, PathConfig, TxPath};

/// Packets of a burst.
pub const BURST: usize = 32;
/// Subscribers, each with a class.
pub const SUBSCRIBERS: u32 = 1000;

/// A packet as the card's receive side gives it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The number of its buffer.
    pub buffer: u32,
    /// Its subscriber, by a table that the program has.
    pub subscriber: u32,
    /// Bytes of the frame.
    pub len: u32,
}

/// The core that runs to completion.
pub struct Core {
    path: TxPath<u32>,
    /// Buffers that no packet has.
    pub free: Vec<u32>,
}

impl Core {
    /// Makes a line of 10 Gbit/s with a class for each subscriber: 1 Mbit/s for those of even
    /// numbers, 2 Mbit/s for the others, and 16 packets of room.
    pub fn new(buffers: u32) -> Result<Self, Box<dyn std::error::Error>> {
        let mut policy =
            String::from("qdisc add root handle 1: htb\nclass add parent 1: classid 1:1 htb rate 10gbit\n");
        for n in 0..SUBSCRIBERS {
            let (class, rate) = (n + 0x10, n % 2 + 1);
            policy += &format!("class add parent 1:1 classid 1:{class:x} htb rate {rate}mbit burst 3k\n");
            policy += &format!("qdisc add parent 1:{class:x} pfifo limit 16\n");
        }
        let config = PathConfig { pool: 32 * SUBSCRIBERS as usize, ..PathConfig::for_socket().forwarder() };
        let mut path = TxPath::new(config)?;
        let policy = Policy::parse(&policy, "subscribers.tc")?;
        path.configure(Instant::ZERO, &mut NoDevice::new(), |tree, cx| policy.apply(tree, cx))?;
        Ok(Self { path, free: (0..buffers).collect() })
    }

    /// A turn of the loop: a burst from the card goes into the classes, and as many packets as the
    /// card has descriptors come out. Returns how many are in `tx`.
    pub fn turn(&mut self, now: Instant, rx: &[Received], tx: &mut [u32; BURST]) -> usize {
        let Self { path, free } = self;
        let mut owner = NoDevice::giving_back(|buffer, _, _| free.push(buffer));
        let mut metas = [Meta::new(0); BURST];
        for (meta, packet) in metas.iter_mut().zip(rx) {
            // The number of a class as the priority chooses it: 1:10 is the first subscriber's.
            *meta = Meta::new(packet.len).priority((1 << 16) + 0x10 + packet.subscriber);
        }
        let mut buffers = rx.iter().map(|packet| packet.buffer);
        // A forwarder's full class drops: a burst is always taken whole.
        path.submit_burst(now, &metas[..rx.len()], &mut buffers, &mut owner, |_, _: Admitted<u32>| {});
        let mut count = 0;
        let _ = path.pull(now, BURST as u32, &mut owner, |buffer, _| {
            tx[count] = buffer;
            count += 1;
        });
        count
    }
}

/// Nanoseconds between two turns: 32 packets in each are 250 a second for each subscriber.
const TURN: u64 = 128_000;

/// Offers every subscriber a packet of 1500 bytes each 4 ms, that is 3 Mbit/s, for this virtual
/// time. `owners` has the subscriber of each buffer. Adds the packets that each has sent to `sent`,
/// and returns the time at the end.
pub fn offer(core: &mut Core, owners: &mut [u32], from: Instant, millis: u64, sent: &mut [u32]) -> Instant {
    let mut tx = [0; BURST];
    let turns = millis * 1_000_000 / TURN;
    for turn in 0..turns {
        let now = Instant(from.0 + turn * TURN);
        let mut rx = [Received { buffer: 0, subscriber: 0, len: 1500 }; BURST];
        let mut count = 0;
        for i in 0..BURST as u64 {
            let Some(buffer) = core.free.pop() else { break };
            let subscriber = ((turn * BURST as u64 + i) % u64::from(SUBSCRIBERS)) as u32;
            owners[buffer as usize] = subscriber;
            rx[count] = Received { buffer, subscriber, len: 1500 };
            count += 1;
        }
        let filled = core.turn(now, &rx[..count], &mut tx);
        for buffer in &tx[..filled] {
            sent[owners[*buffer as usize] as usize] += 1;
            core.free.push(*buffer);
        }
    }
    Instant(from.0 + turns * TURN)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut core = Core::new(1 << 16)?;
    let (mut sent, mut owners) = (vec![0; SUBSCRIBERS as usize], vec![0; 1 << 16]);
    offer(&mut core, &mut owners, Instant::ZERO, 1000, &mut sent);
    let packets: u32 = sent.iter().sum();
    println!("{packets} packets of {SUBSCRIBERS} subscribers in a second of virtual time");
    println!("subscriber 0: {}, subscriber 1: {}", sent[0], sent[1]);
    Ok(())
}
