//! The ready devices and the programs of docs/embed.md that use them.

#[path = "../../examples/poll_loop.rs"]
#[allow(dead_code)]
mod poll_loop;
#[path = "../../examples/quinn_bottleneck.rs"]
#[allow(dead_code)]
mod quinn_bottleneck;
#[path = "../../examples/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;
#[path = "../../examples/tunnel.rs"]
#[allow(dead_code)]
mod tunnel;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use txweir::core::base::time::Nanos;
use txweir::udp::Trains;
use txweir::udp::quinn_udp::Transmit;
use txweir::{Instant, Wake};

use poll_loop::SUBSCRIBERS;

#[test]
fn a_poll_loop_shares_by_class_and_allocates_nothing() {
    let mut core = poll_loop::Core::new(1 << 16).expect("a core");
    let (mut sent, mut owners) = (vec![0; SUBSCRIBERS as usize], vec![0; 1 << 16]);
    // The buckets empty in the first half second.
    let now = poll_loop::offer(&mut core, &mut owners, Instant::ZERO, 500, &mut sent);
    sent.fill(0);
    let made = txweir_counted::calls(|| {
        poll_loop::offer(&mut core, &mut owners, now, 1000, &mut sent);
    });
    assert_eq!(made, 0);
    // 1 and 2 Mbit/s are 83.3 and 166.7 packets of 1500 bytes.
    for (subscriber, sent) in sent.iter().enumerate() {
        let rate = [83, 166][subscriber % 2];
        assert!((rate - 3..=rate + 4).contains(sent), "subscriber {subscriber}: {sent}");
    }
    // Every buffer is free or waits: 16 packets for each class at most.
    assert!(core.free.len() >= (1 << 16) - 16 * SUBSCRIBERS as usize, "{}", core.free.len());
}

#[test]
fn a_guest_that_fills_its_queue_delays_none_of_its_other_flows() {
    let fifo = sandbox::run("pfifo limit 60", 2000).expect("runs");
    let fair = sandbox::run("fq_codel limit 200", 2000).expect("runs");
    for o in [&fifo, &fair] {
        // 1 Mbit/s for 2 s, headers of 28 bytes on each 1400.
        assert!((225_000..250_000).contains(&o.bulk), "{o:?}");
        assert!(o.refused > 0 && o.lost == 0, "{o:?}");
    }
    let worst = |o: &sandbox::Outcome| o.micros.iter().max().copied().unwrap_or(0);
    // 60 packets of 1428 bytes at 1 Mbit/s are 685 ms; the packet on the line alone is 11.4 ms.
    assert!(worst(&fifo) > 600_000, "{}", worst(&fifo));
    assert!(worst(&fair) < 30_000, "{}", worst(&fair));
    assert!(
        fair.micros.len() >= 98 && (60..90).contains(&fifo.micros.len()),
        "{}, {}",
        fair.micros.len(),
        fifo.micros.len()
    );
}

#[test]
fn quinn_answers_marks_and_keeps_the_queue_short() {
    let run = |qdisc, bbr| quinn_bottleneck::run(qdisc, bbr, Nanos::from_millis(5_000)).expect("runs");
    let millis = |o: &quinn_bottleneck::Outcome| o.rtt.as_millis();
    let fifo = run("pfifo limit 1000", false);
    let marked = run("fq_codel", false);
    let dropped = run("fq_codel noecn", false);
    let dual = run("dualpi2", false);
    for o in [&fifo, &marked, &dropped, &dual] {
        // 20 Mbit/s less headers, for 5 s less the start.
        assert!((10_000_000..12_500_000).contains(&o.read), "{o:?}");
    }
    assert!(millis(&fifo) > 200 && fifo.marks == 0, "{fifo:?}");
    assert!(marked.marks > 5 && (marked.drops, marked.lost) == (0, 0) && millis(&marked) < 50, "{marked:?}");
    assert!(dropped.marks == 0 && dropped.drops > 5 && dropped.lost >= dropped.drops, "{dropped:?}");
    assert!(dual.marks > 5 && dual.lost == 0 && millis(&dual) < 70, "{dual:?}");
    // BBR version 1 keeps two round trips in flight and gives nothing on marks.
    let bbr = run("fq_codel", true);
    assert!(bbr.marks > 20 * marked.marks && bbr.lost == 0, "{bbr:?}");
    assert_eq!(run("fq_codel", false).marks, marked.marks);
}

/// Datagrams of each peer, with those that are marked, and the trains.
#[derive(Default)]
struct Record {
    peers: HashMap<SocketAddr, (u64, u64)>,
    trains: u64,
}

/// A socket that keeps this record.
struct Keeps<'a>(&'a std::cell::RefCell<Record>);

impl Trains for Keeps<'_> {
    fn send(&mut self, train: &Transmit<'_>) -> io::Result<()> {
        let mut record = self.0.borrow_mut();
        let count = train.segment_size.map_or(1, |size| train.contents.len().div_ceil(size)) as u64;
        let marked = if train.ecn.is_some_and(|ecn| ecn as u8 == 3) { count } else { 0 };
        let peer = record.peers.entry(train.destination).or_default();
        *peer = (peer.0 + count, peer.1 + marked);
        record.trains += 1;
        Ok(())
    }
    fn longest(&self) -> usize {
        64
    }
}

/// Sends for a second by a line of 100 Mbit/s, with 200 and 100 Mbit/s of two peers and 10 of a
/// third. Returns the packets of the third that were taken, and for each peer its datagrams and
/// those marked; and the trains.
fn share(leaf: &str) -> (u64, [(u64, u64); 3], u64) {
    let record = std::cell::RefCell::default();
    let policy = "qdisc add root handle 1: tbf rate 100mbit burst 32k limit 4m\nqdisc add parent 1: ";
    let mut tunnel = tunnel::Tunnel::new(Keeps(&record), &format!("{policy}{leaf}\n")).expect("a tunnel");
    let peers: [SocketAddr; 3] = [1, 2, 3].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
    // An IPv4 header with ECT(0), and a payload.
    let mut packet = vec![0; 1200];
    (packet[0], packet[1], packet[2], packet[3], packet[9]) = (0x45, 2, 4, 0xb0, 17);
    let (mut light, mut wake) = (0, Wake::Idle);
    for tick in 0..1000 {
        let now = Instant::from_millis(tick);
        for (peer, count) in peers.iter().zip([21, 10, 1]) {
            for _ in 0..count {
                light += u64::from(tunnel.send(now, *peer, &packet) && *peer == peers[2]);
            }
        }
        // The loop would call at the times that it is told.
        for part in 0..10 {
            wake = tunnel.turn(Instant::from_micros(tick * 1000 + part * 100));
        }
    }
    assert!(matches!(wake, Wake::At(..)), "{wake:?}");
    let record = record.borrow();
    (light, peers.map(|peer| record.peers[&peer]), record.trains)
}

#[test]
fn peers_of_a_tunnel_share_the_line_and_are_marked() {
    let (light, [heavy, half, third], trains) = share("fq_codel limit 1024 target 5ms interval 20ms");
    // 1236 bytes at 100 Mbit/s are 10 113 packets a second, of which the third gets all of its
    // 1000, and the others a half of the rest each, whatever they offer.
    assert_eq!(light, 1000);
    assert!((999..=1000).contains(&third.0) && third.1 == 0, "{third:?}");
    let sum = heavy.0 + half.0 + third.0;
    assert!((9_900..10_200).contains(&sum), "{sum}");
    assert!(heavy.0.abs_diff(half.0) * 50 < heavy.0, "{heavy:?}, {half:?}");
    assert!(heavy.1 > 100 && half.1 > 100, "{heavy:?}, {half:?}");
    assert!(trains < sum, "{trains} trains");
}

#[test]
fn a_pool_below_the_limit_takes_the_choice_from_the_qdisc() {
    // The pool of the tunnel is 2048 packets, the limit of fq_codel 10 240.
    let (light, ..) = share("fq_codel target 5ms interval 20ms");
    assert!(light < 500, "{light}");
}

#[test]
fn a_tunnel_on_tokio_sends_all_and_ends() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("one");
    runtime.block_on(async {
        let receiver = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let socket = Arc::new(tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket"));
        let to = receiver.local_addr().expect("it has one");
        // 100 datagrams of 528 bytes at 10 Mbit/s: 42 ms. The buffer of the receiver has room for
        // all.
        let policy = "qdisc add root tbf rate 10mbit burst 2000 limit 4m\n";
        let tunnel =
            tunnel::Tunnel::new(tunnel::Tokio::new(socket).expect("set up"), policy).expect("a tunnel");
        let (sender, packets) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            for n in 0..100u8 {
                sender.send((to, vec![n; 492])).await.expect("the tunnel is there");
            }
        });
        let reads = tokio::spawn(async move {
            let mut room = [0; 600];
            for n in 0..100u8 {
                let len = receiver.recv(&mut room).await.expect("a socket");
                assert_eq!((len, room[7], room[8]), (500, n + 1, n));
            }
        });
        let tunnel = tunnel::serve(tunnel, packets).await.expect("it ends");
        assert_eq!((tunnel.queue.counts().sent, tunnel.queue.counts().lost), (100, 0));
        reads.await.expect("all arrive in order");
    });
}
