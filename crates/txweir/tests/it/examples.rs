//! The examples do as their texts say.

#[path = "../../examples/backpressure.rs"]
#[allow(dead_code)]
mod backpressure;
#[path = "../../examples/embed.rs"]
#[allow(dead_code)]
mod embed;
#[path = "../../examples/fairsend_quinn.rs"]
#[allow(dead_code)]
mod fairsend_quinn;
#[path = "../../examples/fairsend_smoltcp.rs"]
#[allow(dead_code)]
mod fairsend_smoltcp;
#[cfg(feature = "handoff")]
#[path = "../../examples/handoff_tokio.rs"]
#[allow(dead_code)]
mod handoff_tokio;
#[path = "../../examples/smoltcp_device.rs"]
#[allow(dead_code)]
mod smoltcp_device;

use txweir::core::turns::Quota;
use txweir::tc::{Policy, tool::Devices};
use txweir::{DropReason, Instant, Meta, NoDevice, PathConfig, TxPath, Wake, testing::VecDevice};

#[test]
fn back_pressure_loses_nothing_and_keeps_order() {
    let (device, waits) = backpressure::run(10_000).expect("no packet dropped");
    assert!(device.sent().iter().copied().eq(0..10_000));
    assert_eq!(device.discarded().len(), 0);
    // 10 000 packets through 512 + 64 places: the producer did wait.
    assert!(waits > 100, "{waits}");
    let (device, waits) = backpressure::run(500).expect("no packet dropped");
    assert_eq!((device.sent().len(), waits), (500, 0));
}

#[test]
fn a_socket_gets_every_datagram_once() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = receiver.local_addr().expect("it has one");
    let datagrams: Vec<Vec<u8>> = (0..50).map(|n| vec![n; 100]).collect();
    assert_eq!(embed::over_a_socket(socket, to, datagrams).expect("runs"), 50);
    receiver.set_nonblocking(true).expect("it may");
    let mut buffer = [0; 200];
    let got = std::iter::from_fn(|| receiver.recv(&mut buffer).ok().map(|len| (len, buffer[0])));
    assert!(got.eq((0..50).map(|n| (100, n))));
}

#[test]
fn a_poll_loop_gets_bursts_and_the_buffers_of_dropped_packets() {
    let config = PathConfig::for_socket().forwarder();
    let mut path = TxPath::new(config).expect("a path").with_qdisc("pfifo", &["limit", "40"]).expect("pfifo");
    let (mut free, mut ring) = (Vec::new(), [0; 24]);
    for buffer in 0..42 {
        let mut owner = NoDevice::giving_back(|buffer, _: &Meta, _| free.push(buffer));
        let _ = path.submit(Instant::ZERO, buffer, Meta::new(1500), &mut owner);
    }
    assert_eq!(free, [40, 41]);
    let page = embed::page(&path);
    assert!(page.contains("qlen 8001: 40\n") && page.contains("drops 8001: 2\n"), "{page}");
    assert_eq!(embed::fill(&mut path, Instant::ZERO, &mut ring, &mut free), (24, Wake::More));
    assert!(ring.into_iter().eq(0..24));
    assert_eq!(embed::fill(&mut path, Instant::ZERO, &mut ring, &mut free), (16, Wake::Idle));
    assert!(ring[..16].iter().copied().eq(24..40));
}

#[test]
fn packets_leave_a_modelled_wire_at_its_rate() {
    let left = embed::over_a_wire(50).expect("runs");
    assert!(left.iter().map(|(packet, _)| *packet).eq(0..50));
    // 1500 bytes and 24 of the line's own at 10 Mbit/s are 1219.2 us. The line idles only while the
    // byte limit learns, for less than eight completion rounds of 250 us.
    const EACH: u64 = 1_219_200;
    assert!(left.windows(2).all(|two| two[1].1.0 - two[0].1.0 >= EACH), "{left:?}");
    let last = left[49].1.0;
    assert!((50 * EACH..50 * EACH + 2_000_000).contains(&last), "{last}");
}

#[test]
fn threads_send_while_lines_change_the_qdiscs() {
    let device = vec![VecDevice::<u64>::with_slots(64), VecDevice::with_slots(64)];
    let (mut control, mut eth0, service) =
        embed::for_threads(device, "qdisc add root handle 1: mq").expect("runs");
    std::thread::scope(|s| {
        for thread in 0..2 {
            let mut sender = control.port().sender();
            s.spawn(move || (0..20).for_each(|n| drop(sender.send(n, Meta::new(1500).flow(thread)))));
        }
        for line in ["qdisc replace root fq_codel", "qdisc replace root handle 1: mq"] {
            let policy = Policy::parse(line, "eth0.tc").expect("a good line");
            let apply = |devices: &mut dyn Devices| policy.apply_to(devices, &["eth0"]);
            eth0.change(&mut control, apply).expect("words").expect("it applies");
        }
    });
    service.stop();
    // The device finishes none: packets behind a change of the queues wait, and those that wait at
    // the next change go with the qdiscs that it replaces.
    let all = control.gather();
    let totals = all.port().totals();
    assert_eq!(totals.dropped().packets, totals.drops(DropReason::Purged));
    assert_eq!(totals.stats().tx_packets + totals.backlog().packets + totals.dropped().packets, 40);
}

fn numbers() -> Vec<u8> {
    (0..100_000u64).map(|n| ((n * n) >> 7) as u8).collect()
}

#[test]
fn smoltcp_sends_at_the_rate_of_the_path_and_loses_nothing() {
    let shaper = ["rate", "1mbit", "burst", "5kb", "limit", "64kb"];
    let t = smoltcp_device::run(&numbers(), "tbf", &shaper).expect("runs");
    assert_eq!((t.received == numbers(), t.dropped), (true, 0));
    // 800 ms of payload at 1 Mbit/s, less a bucket of 41 ms; headers, and acknowledgements, which
    // share the loopback, take a little more.
    assert!((760_000..1_000_000).contains(&t.micros), "{} us", t.micros);
    let t = smoltcp_device::run(&numbers(), "pfifo", &[]).expect("runs");
    assert_eq!((t.received == numbers(), t.dropped), (true, 0));
    // Without a shaper the transfer takes as long as the timers of TCP.
    assert!(t.micros < 400_000, "{} us", t.micros);
}

#[test]
fn smoltcp_waits_while_the_path_is_full() {
    // Room for five packets where TCP's window is eleven: the stack is held back, and no packet is
    // lost.
    let shaper = ["rate", "1mbit", "burst", "5kb", "limit", "8kb"];
    let t = smoltcp_device::run(&numbers(), "tbf", &shaper).expect("runs");
    assert_eq!((t.received == numbers(), t.dropped), (true, 0));
    assert!((760_000..1_000_000).contains(&t.micros), "{} us", t.micros);
}

/// Jain's index of fairness, DEC-TR-301.
fn jain(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|s| s * s).sum();
    (sum * sum) as f64 / (shares.len() as u64 * squares) as f64
}

/// Checks the claim of both stacks: eight bulk senders whose windows are as 2 to 9, one with short
/// requests.
fn turns_are_felt(off: (&[u64], &[u64]), on: (&[u64], &[u64])) {
    // Bytes and microseconds. A line of 100 Mbit/s carries 25 MB in two seconds, less headers and
    // the first round trip.
    for (bulk, requests) in [off, on] {
        let sum: u64 = bulk.iter().sum();
        assert!((22_500_000..25_000_000).contains(&sum) && requests.len() > 180, "{sum}, {requests:?}");
    }
    // Without turns shares are as the windows are: for 2 to 9 the index is 0.852.
    assert!((0.84..0.90).contains(&jain(off.0)), "{off:?}");
    assert!(jain(on.0) > 0.999, "{on:?}");
    // A request is 10 ms on its way. With turns it waits for at most eight of four packets and a
    // ring of 16, 6 ms; without, for up to seven windows.
    let worst = |requests: &[u64]| requests.iter().max().copied().unwrap_or(0);
    assert!((10_000..17_000).contains(&worst(on.1)), "{}", worst(on.1));
    assert!(worst(off.1) > 50_000, "{}", worst(off.1));
}

#[test]
fn smoltcp_sockets_take_turns() {
    let run = |n| fairsend_smoltcp::run(Quota::segs(n), 2000).expect("runs");
    let (off, on) = (run(0), run(4));
    let micros =
        |o: &fairsend_smoltcp::Outcome| o.requests.iter().map(|t| t.unsigned_abs()).collect::<Vec<_>>();
    turns_are_felt((&off.bulk, &micros(&off)), (&on.bulk, &micros(&on)));
}

#[test]
fn quic_connections_take_turns() {
    let run = |n| fairsend_quinn::run(Quota::segs(n), std::time::Duration::from_secs(2)).expect("runs");
    let (off, on) = (run(0), run(4));
    let micros =
        |o: &fairsend_quinn::Outcome| o.requests.iter().map(|t| t.as_micros() as u64).collect::<Vec<_>>();
    turns_are_felt((&off.bulk, &micros(&off)), (&on.bulk, &micros(&on)));
}

#[cfg(feature = "handoff")]
#[test]
fn tasks_a_thread_and_a_loop_send_side_by_side() {
    let each = 1000;
    let o = handoff_tokio::run(each).expect("runs");
    // Every packet arrives once, and each sender's packets in their order.
    assert_eq!(o.got.len() as u64, each * (handoff_tokio::TASKS + 1));
    for who in 0..=handoff_tokio::TASKS {
        let own = o.got.iter().filter(|(from, _)| *from == who).map(|(_, n)| *n);
        assert!(own.eq(0..each), "sender {who}");
    }
    // 5000 packets through a ring of 16, a queue of 32 and a list of 32: tasks were told to wait,
    // and woken.
    let waits: u64 = o.waits[..4].iter().sum();
    assert!(waits > 10 && o.woken > 10, "{:?}, {}", o.waits, o.woken);
    assert_eq!(o.owner, (each, true));
}

#[cfg(not(feature = "handoff"))]
#[test]
fn tasks_a_thread_and_a_loop_send_side_by_side() {
    println!("skipped, because the feature `handoff` is off");
}
