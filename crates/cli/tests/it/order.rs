//! Kinds that send some packets first leave FIN, RST and data of each flow in their order. The
//! packets are those that the kernel's own TCP sends through `txweir run`, captured where they come
//! out. The test makes and removes network namespaces. It needs root and `/dev/net/tun`; without
//! these it prints the reason and passes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use txweir::core::packet::headers::{Headers, L4, tcp_flag};
use txweir_device::testnet::NetNs;
use txweir_device::{Packet, PacketOptions, Source};

use crate::common::{Net, Temp, address, machine, skip_unless_possible};

/// A time longer than any single step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that each side of a connection sends.
const BYTES: usize = 120_000;
/// Connections that end orderly, and those that are aborted with data on the way.
const ORDERLY: u16 = 4;
const ABORTED: u16 = 4;
/// The first port; each connection has one.
const PORT: u16 = 5400;

/// A TCP segment as it came out.
struct Seen {
    /// Ports, which tell connection and direction.
    flow: (u16, u16),
    seq: u32,
    /// Sequence numbers that it takes, FIN included.
    takes: u32,
    flags: u8,
    control: bool,
}

fn seen(frame: &[u8]) -> Option<Seen> {
    let h = Headers::parse_ethernet(frame);
    let at = usize::from(h.l4_offset?);
    if h.l4 != L4::Tcp {
        return None;
    }
    let seq = u32::from_be_bytes(*frame.get(at + 4..)?.first_chunk()?);
    let fin = u32::from(h.tcp_flags & tcp_flag::FIN != 0);
    Some(Seen {
        flow: (h.src_port, h.dst_port),
        seq,
        takes: h.payload_len + fin,
        flags: h.tcp_flags,
        control: h.is_tcp_control(),
    })
}

/// Captures the packets that come in at an interface of a namespace, until it is told to stop.
fn capture(netns: &NetNs, interface: &str, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<Seen>> {
    let name = interface.parse().expect("an interface");
    let mut packet = netns.enter(|| Packet::open(&name, &PacketOptions::default()).expect("a packet socket"));
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let (mut all, mut frame) = (Vec::new(), vec![0; 1 << 17]);
        loop {
            match packet.recv(&mut frame).expect("receive") {
                Some((_, len)) => all.extend(seen(&frame[..len])),
                None if stop.load(Ordering::Acquire) => return all,
                None => thread::sleep(Duration::from_micros(200)),
            }
        }
    })
}

/// The findings of a capture about its flows.
#[derive(Debug, Default)]
struct Told {
    flows: usize,
    fins: u32,
    resets: u32,
    data: u32,
    /// Control segments that came before data of their flow that had been sent before them.
    overtook: u32,
}

/// Checks the order of every flow.
fn held_to_order(all: &[Seen], what: &str) -> Told {
    let mut told = Told::default();
    // The next sequence number, by flow.
    let mut next: HashMap<(u16, u16), u32> = HashMap::new();
    for s in all {
        if s.flags & tcp_flag::SYN != 0 {
            next.insert(s.flow, s.seq.wrapping_add(1));
            continue;
        }
        let Some(next) = next.get_mut(&s.flow) else { continue };
        // The distance beyond the data that has come; negative for data that has come before.
        let ahead = s.seq.wrapping_sub(*next) as i32;
        if s.control {
            told.overtook += u32::from(ahead > 0);
            continue;
        }
        assert!(ahead <= 0, "{what}: flags {:#x} of {:?} came {ahead} bytes too early", s.flags, s.flow);
        let end = s.seq.wrapping_add(s.takes);
        if (end.wrapping_sub(*next) as i32) > 0 {
            *next = end;
        }
        told.fins += u32::from(s.flags & tcp_flag::FIN != 0);
        told.resets += u32::from(s.flags & tcp_flag::RST != 0);
        told.data += u32::from(s.takes > 1);
    }
    told.flows = next.len();
    told
}

/// Sends and receives at once: it reads while it writes `BYTES`.
fn both_ways(mut stream: TcpStream) -> usize {
    stream.set_read_timeout(Some(PATIENCE)).expect("set a timeout");
    let mut reader = stream.try_clone().expect("a second handle");
    let reading = thread::spawn(move || {
        let (mut sum, mut buffer) = (0, [0; 4096]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) | Err(_) => return sum,
                Ok(n) => sum += n,
            }
        }
    });
    // In pieces, so that acknowledgements are due while data waits.
    for _ in 0..BYTES / 6000 {
        if stream.write_all(&[7; 6000]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let _ = stream.shutdown(Shutdown::Write);
    reading.join().expect("the reader")
}

/// Runs connections through this root qdisc, both ways. Returns the findings at the server and at
/// the client.
fn connections(qdisc: &str) -> [Told; 2] {
    let net = crate::common::taps();
    let Net { client, server, .. } = &net;
    let policy = Temp::new("order.tc", &format!("qdisc add root {qdisc}\n"));
    let running = net.start(&["--json", "--wire", "rate=20mbit,bql=on", "--policy", policy.path()]);
    let stop = Arc::new(AtomicBool::new(false));
    let captures = [server, client].map(|netns| capture(netns, "tap0", &stop));

    let servers: Vec<_> = (0..ORDERLY + ABORTED)
        .map(|n| {
            let listener = server.enter(|| TcpListener::bind(address(PORT + n)).expect("bind"));
            server.spawn(move || both_ways(listener.accept().expect("a client").0))
        })
        .collect();
    let clients: Vec<_> = (0..ORDERLY + ABORTED)
        .map(|n| {
            client.spawn(move || {
                let mut stream = TcpStream::connect_timeout(&address(PORT + n), PATIENCE).expect("connect");
                if n < ORDERLY {
                    return both_ways(stream);
                }
                // The written data waits on the way when the connection is cut off.
                stream.set_write_timeout(Some(PATIENCE)).expect("set a timeout");
                let _ = stream.write_all(&vec![9; BYTES]);
                thread::sleep(Duration::from_millis(10));
                set_socket_linger(&stream, Some(Duration::ZERO)).expect("linger");
                0
            })
        })
        .collect();
    let read =
        |ends: Vec<JoinHandle<usize>>| ends.into_iter().map(|end| end.join().expect("an end")).collect();
    let received: [Vec<usize>; 2] = [read(clients), read(servers)];
    for got in &received {
        assert!(got[..usize::from(ORDERLY)].iter().all(|n| *n == BYTES), "{qdisc}: {received:?}");
    }
    // The last FINs and their answers.
    let settled = Instant::now() + Duration::from_millis(300);
    while Instant::now() < settled {
        thread::sleep(Duration::from_millis(20));
    }
    let end = running.stop();
    stop.store(true, Ordering::Release);
    let captured = captures.map(|capture| capture.join().expect("a capture"));
    for way in 0..2 {
        // A packet lost on the way leaves a gap that looks as if another had overtaken it.
        let stats = &end["directions"][way]["stats"];
        assert_eq!((stats["dropped"].as_u64(), stats["lost"].as_u64()), (Some(0), Some(0)), "{qdisc}: {end}");
    }
    captured.map(|all| held_to_order(&all, qdisc))
}

#[test]
fn kernel_connections_keep_the_order_of_data_fin_and_rst() {
    let _machine = machine::shared();
    skip_unless_possible!();
    for (qdisc, overtakes) in [
        ("rough limit 20000 bytes 100mb", true),
        ("rough limit 20000 bytes 100mb profile df2013 ack_budget 20%", true),
        ("fq tcpctl 50% flow_limit 10000", true),
        ("fq_codel target 5s interval 100s tcpctl 50%", true),
        ("prio tcpctl 100%", true),
        ("pfifo limit 20000", false),
    ] {
        let [there, back] = connections(qdisc);
        println!("{qdisc}: there {there:?}, back {back:?}");
        for told in [&there, &back] {
            assert_eq!(told.flows, usize::from(ORDERLY + ABORTED), "{qdisc}: {told:?}");
            assert!(told.fins >= u32::from(ORDERLY) && told.data > 50, "{qdisc}: {told:?}");
        }
        assert!(there.resets >= u32::from(ABORTED), "{qdisc}: {there:?}");
        assert_eq!(there.overtook + back.overtook > 0, overtakes, "{qdisc}: {there:?}, {back:?}");
    }
}
