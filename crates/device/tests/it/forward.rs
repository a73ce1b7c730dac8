//! A forwarder between two links, and the transfers that it passes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use txweir_core::Meta;
use txweir_device::poll::{PollFd, PollFlags, wait};
use txweir_device::testnet::NetNs;
use txweir_device::{Counters, LinkIo, MAX_FRAME, clock, segment};
use txweir_device::{Gso, Landed, Segmenter, Shape, Source, Store as _, VnetHdr};

/// Gives an interface `10.77.0.HOST` and `fd77::HOST`.
pub fn address(netns: &NetNs, interface: &str, host: u8) {
    netns.up(interface, &format!("10.77.0.{host}/24"));
    netns.up(interface, &format!("fd77::{host}/64"));
}

/// The tallies of a forwarder.
#[derive(Default)]
pub struct Seen {
    pub a: Counters,
    pub b: Counters,
    pub longest: usize,
    pub tcp_v4: u64,
    pub tcp_v6: u64,
    pub udp: u64,
}

/// The form in which a forwarder passes a frame on.
#[derive(Clone, Copy, PartialEq)]
pub enum Pass {
    Whole,
    /// Cut and completed in user space: no work is left to the receiving kernel.
    Cut,
}

/// A running forwarder between two links; stopped by [`stop`](Self::stop).
pub struct Forwarder {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Forwarder {
    pub fn start(mut a: LinkIo, mut b: LinkIo, pass: Pass) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut buffers = [vec![0; MAX_FRAME], vec![0; MAX_FRAME]];
            while !end.load(Ordering::Relaxed) {
                let mut fds = [PollFd::new(&a, PollFlags::IN), PollFd::new(&b, PollFlags::IN)];
                wait(&mut fds, Some(clock::now_ns() + 20_000_000), 0).expect("wait");
                some(&mut a, &mut b, &mut buffers, pass, &mut seen);
                some(&mut b, &mut a, &mut buffers, pass, &mut seen);
            }
            Seen { a: a.counters(), b: b.counters(), ..seen }
        });
        Self { ended, thread }
    }

    pub fn stop(self) -> Seen {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("the forwarder")
    }
}

/// Forwards up to 64 frames in one direction.
fn some(
    from: &mut LinkIo,
    to: &mut LinkIo,
    [frame, segment]: &mut [Vec<u8>; 2],
    pass: Pass,
    seen: &mut Seen,
) {
    for _ in 0..64 {
        let Some((mut hdr, len)) = from.recv(frame).expect("receive") else { return };
        let bytes = &mut frame[..len];
        seen.longest = seen.longest.max(len);
        match hdr.gso {
            Gso::TcpV4 => seen.tcp_v4 += 1,
            Gso::TcpV6 => seen.tcp_v6 += 1,
            Gso::UdpL4 => seen.udp += 1,
            Gso::None => {}
            Gso::Other(code) => panic!("an unexpected type: {code}"),
        }
        let shape = Shape::of(&hdr, bytes).expect("every frame of the kernel can be measured");
        if pass == Pass::Whole {
            deliver(to, &hdr, bytes);
        } else if hdr.is_gso() {
            let mut cutter = Segmenter::new(&hdr, bytes).expect("cut");
            let mut total = 0;
            while let Some(len) = cutter.next_into(bytes, segment).expect("cut") {
                deliver(to, &VnetHdr::default(), &segment[..len]);
                total += len;
            }
            assert_eq!(total, shape.wire_len);
        } else {
            segment::complete_checksum(&mut hdr, bytes).expect("complete");
            deliver(to, &hdr, bytes);
        }
    }
}

fn deliver(to: &mut LinkIo, hdr: &VnetHdr, bytes: &[u8]) {
    push(to, *hdr, bytes, 0);
    loop {
        to.commit().expect("send");
        if !to.is_full() {
            return;
        }
        let mut fds = [PollFd::new(to, PollFlags::OUT)];
        wait(&mut fds, Some(clock::now_ns() + 10_000_000), 0).expect("wait");
    }
}

/// A source of one frame.
struct Once<'a>(VnetHdr, &'a [u8]);

impl Source for Once<'_> {
    fn recv(&mut self, room: &mut [u8]) -> std::io::Result<Option<(VnetHdr, usize)>> {
        room[..self.1.len()].copy_from_slice(self.1);
        Ok(Some((self.0, self.1.len())))
    }
}

/// Puts a frame for a queue into the link's batch.
pub fn push(to: &mut LinkIo, hdr: VnetHdr, bytes: &[u8], queue: u16) {
    push_as(to, hdr, bytes, |meta| meta.queue = queue);
}

/// Like [`push`], with metadata that `change` changes.
pub fn push_as(to: &mut LinkIo, hdr: VnetHdr, bytes: &[u8], change: impl FnOnce(&mut Meta)) {
    let Landed::Frame(frame) = to.store().receive(&mut Once(hdr, bytes)).expect("a frame") else {
        panic!("no room")
    };
    assert_eq!(to.reserve(1), 1);
    let mut meta = Meta::new(bytes.len() as u32);
    change(&mut meta);
    to.push(frame, &meta);
}

/// Makes one transfer from `client` to `server`, prints its rate, and asserts that all bytes came.
pub fn transfer(client: &NetNs, server: &NetNs, addr: &str, mib: u64, what: &str) {
    let addr: SocketAddr = addr.parse().expect("an address");
    let sink = server.tcp_sink(addr);
    let start = Instant::now();
    let answer = client.tcp_source(addr, mib << 20).join().expect("the source");
    let rate = (mib << 20) as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e6;
    println!("{what}: {mib} MiB at {rate:.0} Mbit/s");
    assert_eq!(answer, mib << 20);
    assert_eq!(sink.join().expect("the sink"), mib << 20);
}

/// Returns the namespace's count of segments with a wrong checksum, TCP and UDP, IPv4 and IPv6
/// (`Tcp` counts both).
pub fn checksum_errors(netns: &NetNs) -> u64 {
    let text = netns.run(&["cat", "/proc/net/snmp"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let of = |group: &str| {
        let mut rows = lines.iter().filter(|row| row[0] == group);
        let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
        let at = names.iter().position(|name| *name == "InCsumErrors").expect("the counter");
        values[at].parse::<u64>().expect("a number")
    };
    of("Tcp:") + of("Udp:")
}

/// Makes a client and a server, and a namespace between them that has a veth to each: `m0` and
/// `m1`.
pub fn between_veths() -> [NetNs; 3] {
    let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
    client.veth("c0", &middle, "m0");
    server.veth("s0", &middle, "m1");
    address(&client, "c0", 1);
    address(&server, "s0", 2);
    for interface in ["m0", "m1"] {
        middle.run(&["ip", "link", "set", "dev", interface, "up"]);
    }
    [client, middle, server]
}
