//! A direction whose device is a packet socket on a veth, in network namespaces that the test makes
//! and removes. The tests measure the number of system calls for a burst, and the fate of frames
//! for which the kernel has no room. They need root; without it they print the reason and pass.

use std::io;

use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant};
use txweir_device::poll::{PollFd, PollFlags, wait};
use txweir_device::testnet::{NetNs, no_xdp_reason, reopened, skip_reason};
use txweir_device::{
    Backend, Endpoint, LinkIo, LinkOptions, MAX_FRAME, OpenError, PacketOptions, Source, VnetHdr, XdpOptions,
    XdpPlaces, clock,
};
use txweir_runtime::{Direction, DirectionConfig, Received, WireSpec};

/// Returns from a test that cannot run here, and prints the reason.
macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = skip_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}

/// A source of numbered frames of the Ethernet type for local experiments (IEEE 802).
struct Numbered {
    next: u32,
    end: u32,
    len: usize,
}

impl Source for Numbered {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        if self.next == self.end {
            return Ok(None);
        }
        room[..self.len].fill(0);
        room[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
        room[14..18].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        Ok(Some((VnetHdr::default(), self.len)))
    }
}

/// Receives the numbered frames that are there. Returns their numbers.
fn collect_some(link: &mut LinkIo) -> Vec<u32> {
    let (mut got, mut buffer) = (Vec::new(), vec![0; MAX_FRAME]);
    while let Some((_, len)) = link.recv(&mut buffer).unwrap() {
        if len >= 18 && buffer[12..14] == [0x88, 0xb5] {
            got.push(u32::from_be_bytes(buffer[14..18].try_into().unwrap()));
        }
    }
    got
}

/// Receives numbered frames until `count` of them have come, or ten seconds have passed. Returns
/// their numbers.
fn collect(link: &mut LinkIo, count: usize) -> Vec<u32> {
    let give_up = clock::now_ns() + 10_000_000_000;
    let mut got = Vec::new();
    while got.len() < count && clock::now_ns() < give_up {
        wait(&mut [PollFd::new(link, PollFlags::IN)], Some(give_up), 0).unwrap();
        got.extend(collect_some(link));
    }
    got
}

/// Makes two namespaces with a veth between them, without addresses.
fn veth() -> (NetNs, NetNs) {
    let (one, two) = (NetNs::new("one"), NetNs::new("two"));
    one.veth("v1", &two, "v2");
    for (netns, name) in [(&one, "v1"), (&two, "v2")] {
        netns.run(&["ip", "link", "set", "dev", name, "addrgenmode", "none"]);
        netns.run(&["ip", "link", "set", "dev", name, "up"]);
    }
    one.wait_for_carrier("v1");
    two.wait_for_carrier("v2");
    (one, two)
}

fn open(netns: &NetNs, interface: &str, options: &LinkOptions) -> LinkIo {
    open_by("packet", netns, interface, options)
}

fn open_by(kind: &str, netns: &NetNs, interface: &str, options: &LinkOptions) -> LinkIo {
    let endpoint: Endpoint = format!("{kind}:{}/{interface}", netns.name()).parse().unwrap();
    reopened(|| endpoint.open(options), OpenError::is_in_use).unwrap()
}

/// Receives and admits all frames of `source` at `now`.
fn feed<D: Backend>(way: &mut Direction<D>, now: Instant, source: &mut Numbered) {
    loop {
        match way.receive(source).unwrap() {
            Received::Frame(arrival) => way.admit(now, arrival).unwrap(),
            Received::LeftOut => panic!("left out"),
            Received::Nothing => return,
        }
    }
}

/// A burst takes one `sendmmsg` on each way to the socket: directly, out of a standing queue, or
/// off a paced wire.
#[test]
fn a_burst_is_one_system_call() {
    skip_unless_possible!();
    let (one, two) = veth();
    let mut far = open(&two, "v2", &LinkOptions::default());
    let mut sent = 0..0;
    for wire in [None, Some("rate=1gbit,bql=off")] {
        let spec: Option<WireSpec> = wire.map(|spec| spec.parse().unwrap());
        let (wire, bql) = spec.map_or((None, None), |spec| (Some(spec.wire), spec.bql));
        let config = DirectionConfig { wire, bql, ..DirectionConfig::default() };
        let paced = config.wire.is_some();
        let mut way = Direction::new(config, open(&one, "v1", &LinkOptions::default())).unwrap();
        let mut now = Instant(1);
        for (burst, calls) in [(1, 1), (10, 1), (64, 1), (200, 4)] {
            let before = way.device_mut().counters();
            sent = sent.end..sent.end + burst;
            feed(&mut way, now, &mut Numbered { next: sent.start, end: sent.end, len: 60 });
            // The wire has sent all of them by then.
            now = Instant(now.0 + 1_000_000);
            way.advance(now).unwrap();
            let after = way.device_mut().counters();
            let (frames, made) = (after.tx_frames - before.tx_frames, after.tx_calls - before.tx_calls);
            println!("{}: {frames} frames by {made} system calls", if paced { "paced" } else { "direct" });
            assert_eq!((frames, made), (u64::from(burst), calls));
            assert_eq!(collect(&mut far, burst as usize), sent.clone().collect::<Vec<_>>());
        }
    }
    // Frames that have waited in a qdisc leave 64 at a time.
    let config = DirectionConfig { wire: None, bql: None, ..DirectionConfig::default() };
    let mut way = Direction::new(config, open(&one, "v1", &LinkOptions::default())).unwrap();
    way.control(Instant(0)).configure(|tree, cx| {
        tree.edit(cx).replace(Handle::ROOT, None, "netem", &mut Words::new(&["delay", "1ms"])).unwrap();
    });
    feed(&mut way, Instant(1), &mut Numbered { next: 0, end: 200, len: 60 });
    way.advance(Instant(1)).unwrap();
    assert_eq!((way.port().totals().backlog().packets, way.device_mut().counters().tx_calls), (200, 0));
    way.advance(Instant(2_000_000)).unwrap();
    let counters = way.device_mut().counters();
    println!("standing: {} frames by {} system calls", counters.tx_frames, counters.tx_calls);
    assert_eq!((counters.tx_frames, counters.tx_calls), (200, 4));
    assert_eq!(collect(&mut far, 200), (0..200).collect::<Vec<_>>());
}

/// The kernel's own shaper holds frames of a socket with a small buffer: the socket is full
/// (`EAGAIN`). The frames stay in order, none is lost, and the byte limit stops the path.
#[test]
fn frames_that_the_kernel_has_no_room_for_keep_their_order() {
    skip_unless_possible!();
    let (one, two) = veth();
    one.run(&[
        "tc", "qdisc", "add", "dev", "v1", "root", "tbf", "rate", "80mbit", "burst", "3000", "limit", "1mb",
    ]);
    let mut far = open(&two, "v2", &LinkOptions::default());
    let options = LinkOptions {
        packet: PacketOptions { buffer_bytes: 16 << 10, ..PacketOptions::default() },
        ..LinkOptions::default()
    };
    let bql = DirectionConfig::default().bql;
    let config = DirectionConfig { wire: None, bql, ..DirectionConfig::default() };
    let mut way = Direction::new(config, open(&one, "v1", &options)).unwrap();
    let frames = 500;
    feed(&mut way, Instant(1), &mut Numbered { next: 0, end: frames, len: 1000 });
    let start = clock::now_ns();
    let mut was_full = 0;
    while way.stats().delivered < u64::from(frames) && clock::now_ns() < start + 10_000_000_000 {
        let now = Instant(2 + clock::now_ns() - start);
        way.advance(now).unwrap();
        if way.waits_for_device() {
            was_full += 1;
            assert!(
                way.in_flight() > 0 && way.path().stats().stop_stack > 0,
                "the byte limit stops the path"
            );
            let mut fds = [PollFd::new(way.device(), PollFlags::OUT)];
            wait(&mut fds, Some(clock::now_ns() + 1_000_000_000), 0).unwrap();
        }
    }
    let (stats, counters) = (way.stats(), way.device_mut().counters());
    println!("{frames} frames, {} calls, the socket was full {} times", counters.tx_calls, counters.tx_full);
    assert_eq!((stats.delivered, stats.lost, stats.dropped), (u64::from(frames), 0, 0));
    assert!(was_full > 0 && counters.tx_full > 0, "{counters:?}");
    assert_eq!(collect(&mut far, frames as usize), (0..frames).collect::<Vec<_>>());
}

/// Frames that XDP sockets report later: a burst fills what the byte limit and the device take, the
/// rest waits in the qdiscs, and leaves as reports come in. The direction asks to be called again
/// until all are reported. It is so for frames of buffers, which are copied, and in place.
#[test]
fn frames_by_xdp_sockets_are_reported_later() {
    if let Some(reason) = no_xdp_reason() {
        println!("skipped, because {reason}");
        return;
    }
    let (one, two) = veth();
    let mut far = open_by("xdp", &two, "v2", &LinkOptions::default());
    let config = || DirectionConfig { wire: None, ..DirectionConfig::default() };
    let copied = open_by("xdp", &one, "v1", &LinkOptions::default());
    assert!(copied.mode().is_some_and(|mode| mode.starts_with("copies")), "a veth has no zero copy");
    sends_all(Direction::new(config(), copied).unwrap(), &mut far);
    let name = "v1".parse().unwrap();
    let in_place = || one.enter(|| XdpPlaces::open(&name, &XdpOptions::default(), 0));
    let in_place = reopened(in_place, OpenError::is_in_use).unwrap();
    sends_all(Direction::new(config(), in_place).unwrap(), &mut far);
}

/// Sends a burst of numbered frames, twice, and expects each at the other end, in order.
fn sends_all<D: Backend>(mut way: Direction<D>, far: &mut LinkIo) {
    let frames = 900; // below the 1000 that wait in pfifo_fast
    for round in 0..2 {
        let (start, next) = (clock::now_ns(), round * frames);
        let now = || Instant(1 + clock::now_ns());
        feed(&mut way, now(), &mut Numbered { next, end: next + frames, len: 200 });
        let mut got = Vec::new();
        while got.len() < frames as usize && clock::now_ns() < start + 10_000_000_000 {
            way.advance(now()).unwrap();
            got.extend(collect_some(far));
        }
        assert!(got.iter().copied().eq(next..next + frames), "{} frames", got.len());
        while way.in_flight() > 0 && clock::now_ns() < start + 10_000_000_000 {
            assert!(way.deadline(now()).is_some(), "frames under way are to be asked for");
            way.advance(now()).unwrap();
        }
        assert_eq!((way.in_flight(), way.deadline(now())), (0, None));
    }
    let stats = way.stats();
    let all = u64::from(2 * frames);
    assert_eq!((stats.delivered, stats.departed, stats.lost, stats.dropped), (all, all, 0, 0));
    let limit = way.path().tx().limit().expect("a byte limit");
    assert_eq!(limit.inflight(), 0, "each byte is reported");
    assert!(limit.limit() > 0, "the limit has learned");
}
