//! Tunnels: to a socket of the test on loopback, and, in network namespaces that the test makes and
//! removes, to a `vxlan` device of the kernel. The latter needs root; without it the test prints
//! the reason and passes.

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use txweir_core::Ecn;
use txweir_core::packet::headers::{Headers, set_ecn};
use txweir_core::path::device::TxQueue as _;
use txweir_device::testnet::{NetNs, skip_reason};
use txweir_device::{
    Backend as _, Batched, FRAME_MEMORY, LinkIo, LinkOptions, MAX_FRAME, OpenCause, Source as _, VnetHdr,
    Vxlan, VxlanPlace,
};

use crate::forward::{Forwarder, Pass, address, checksum_errors, push, transfer};

/// A tunnel as a link.
fn link(place: &str) -> LinkIo {
    let place: VxlanPlace = place.parse().unwrap();
    Box::new(Batched::new(Vxlan::open(&place).unwrap(), FRAME_MEMORY))
}

/// A datagram that the test's socket has received, and its code point.
type Received = (Vec<u8>, Option<EcnCodepoint>);

/// The other end of a tunnel: a socket of the test.
struct Peer {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Peer {
    fn new(ip: &str) -> Self {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        let state = UdpSocketState::new((&socket).into()).unwrap();
        Self { socket, state }
    }

    fn address(&self) -> std::net::SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Receives `count` datagrams, or those of ten seconds.
    fn receive(&self, count: usize) -> Vec<Received> {
        let give_up = Instant::now() + Duration::from_secs(10);
        let (mut all, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
        while all.len() < count && Instant::now() < give_up {
            let mut meta = [RecvMeta::default()];
            match self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(&mut bytes)], &mut meta) {
                Ok(_) => {
                    let [meta] = meta;
                    all.extend(bytes[..meta.len].chunks(meta.stride.max(1)).map(|d| (d.to_vec(), meta.ecn)));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        all
    }

    fn send(&self, to: std::net::SocketAddr, contents: &[u8], ecn: Option<EcnCodepoint>) {
        let transmit = Transmit { destination: to, ecn, contents, segment_size: None, src_ip: None };
        self.state.try_send((&self.socket).into(), &transmit).unwrap();
    }
}

/// An Ethernet frame of an IPv4 UDP packet of this payload, with a code point.
fn frame(payload: usize, number: u8, ecn: Ecn) -> Vec<u8> {
    let mut frame = vec![number; 42 + payload];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
    let ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    frame[14..34].copy_from_slice(&ip);
    frame[16..18].copy_from_slice(&(28 + payload as u16).to_be_bytes());
    let network = Headers::parse_ethernet(&frame).network_header();
    assert!(set_ecn(&mut frame, network, ecn));
    frame
}

/// The header of network 42.
const HEADER: [u8; 8] = [8, 0, 0, 0, 0, 0, 42, 0];

fn datagram(frame: &[u8]) -> Vec<u8> {
    [&HEADER, frame].concat()
}

/// Opens a tunnel of network 42 to a peer.
fn to_peer(ip: &str) -> (LinkIo, std::net::SocketAddr, Peer) {
    let peer = Peer::new(ip);
    let local = match peer.address() {
        std::net::SocketAddr::V4(_) => format!("{ip}:0"),
        std::net::SocketAddr::V6(_) => format!("[{ip}]:0"),
    };
    let place: VxlanPlace = format!("42,{local},{}", peer.address()).parse().unwrap();
    let tunnel = Vxlan::open(&place).unwrap();
    let local = tunnel.local().unwrap();
    (Box::new(Batched::new(tunnel, FRAME_MEMORY)), local, peer)
}

/// Rings the doorbell until all frames are finished, or ten seconds have passed.
fn finish(link: &mut LinkIo, count: u32) -> u32 {
    let give_up = Instant::now() + Duration::from_secs(10);
    let mut finished = 0;
    while finished < count && Instant::now() < give_up {
        link.commit().unwrap();
        link.reap(&mut |done| finished += done.packets);
    }
    finished
}

/// Frames of each length and mark arrive as datagrams of the network, in order, with their mark, by
/// far fewer calls than frames; over both versions of IP.
#[test]
fn frames_leave_as_datagrams_with_their_marks() {
    for ip in ["127.0.0.1", "::1"] {
        let (mut near, _, peer) = to_peer(ip);
        let marks = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        let frames: Vec<_> = (0..240_usize)
            .map(|n| frame(if n % 7 == 0 { 90 } else { 1200 }, n as u8, marks[n / 60]))
            .collect();
        let mut got = Vec::new();
        for burst in frames.chunks(30) {
            burst.iter().for_each(|frame| push(&mut near, VnetHdr::default(), frame, 0));
            assert_eq!(finish(&mut near, 30), 30);
            got.extend(peer.receive(30));
        }
        assert_eq!(got.len(), 240);
        for ((bytes, ecn), frame) in got.iter().zip(&frames) {
            assert_eq!(bytes, &datagram(frame));
            let mark = Headers::parse_ethernet(frame).ecn() as u8;
            assert_eq!(ecn.map_or(0, |ecn| ecn as u8), mark, "{ip}, frame {}", frame[50]);
        }
        let counters = near.counters();
        assert_eq!((counters.tx_frames, near.take_fates().delivered), (240, 240));
        assert!(counters.tx_calls <= 80, "{counters:?}");
    }
}

/// Marks of the network reach the frame, and a frame that takes no marks is dropped (RFC 6040);
/// datagrams of another network, of another machine, and too short ones are refused and counted.
#[test]
fn marks_of_the_network_come_in_and_foreign_datagrams_do_not() {
    let (mut near, local, peer) = to_peer("127.0.0.1");
    let ce = Some(EcnCodepoint::Ce);
    let capable = frame(100, 1, Ecn::Ect0);
    peer.send(local, &datagram(&capable), None);
    peer.send(local, &datagram(&capable), ce);
    peer.send(local, &datagram(&frame(100, 1, Ecn::NotEct)), ce);
    let mut other = datagram(&capable);
    other[6] = 43;
    peer.send(local, &other, None);
    peer.send(local, &[8; 12], None);
    Peer::new("127.0.0.2").send(local, &datagram(&capable), None);
    peer.send(local, &datagram(&frame(0, 9, Ecn::NotEct)), None);
    let (mut got, mut room) = (Vec::new(), vec![0; MAX_FRAME]);
    let give_up = Instant::now() + Duration::from_secs(10);
    while got.len() < 3 && Instant::now() < give_up {
        match near.recv(&mut room).unwrap() {
            Some((hdr, len)) => {
                assert_eq!(hdr, VnetHdr::default());
                got.push(room[..len].to_vec());
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(got, [capable, frame(100, 1, Ecn::Ce), frame(0, 9, Ecn::NotEct)]);
    let counters = near.counters();
    assert_eq!((counters.rx_frames, counters.rx_refused, counters.rx_seen), (3, 4, 7));
    assert!(!near.has_frames() && near.recv(&mut room).unwrap().is_none());
}

/// A frame beyond the path's MTU is lost alone, is counted, and does not stop those behind it.
#[test]
fn a_frame_that_is_too_long_is_refused() {
    let (mut near, _, peer) = to_peer("127.0.0.1");
    for frame in [frame(100, 1, Ecn::NotEct), vec![0; MAX_FRAME - 1], frame(100, 2, Ecn::NotEct)] {
        push(&mut near, VnetHdr::default(), &frame, 0);
    }
    assert_eq!(finish(&mut near, 3), 3);
    assert_eq!(peer.receive(2).iter().map(|(d, _)| d[60]).collect::<Vec<_>>(), [1, 2]);
    let (counters, fates) = (near.counters(), near.take_fates());
    assert_eq!((counters.tx_lost_refused, fates.delivered, fates.lost), (1, 2, 1));
}

/// Returns two namespaces with a veth pair between them, `u0` and `u1`; `None`, and the reason on
/// the output, if this machine cannot have them.
fn neighbours() -> Option<[NetNs; 2]> {
    if let Some(reason) = skip_reason() {
        println!("skipped, because {reason}");
        return None;
    }
    let [one, two] = ["one", "two"].map(NetNs::new);
    one.veth("u0", &two, "u1");
    Some([one, two])
}

/// A frame that is too long for the path is lost alone: the shorter one behind it arrives, and
/// trains leave by one system call as before.
#[test]
fn a_frame_too_long_for_the_path_is_lost_alone() {
    let Some([one, two]) = neighbours() else { return };
    one.up("u0", "192.0.2.1/24");
    two.up("u1", "192.0.2.2/24");
    one.wait_for_carrier("u0");
    let peer = two.enter(|| Peer::new("192.0.2.2"));
    let place = format!("42,192.0.2.1,{}", peer.address());
    let mut near = one.enter(|| link(&place));
    assert_eq!(near.mtu().unwrap(), 1450);
    for frame in [frame(1600, 1, Ecn::NotEct), frame(100, 2, Ecn::NotEct)] {
        push(&mut near, VnetHdr::default(), &frame, 0);
    }
    assert_eq!(finish(&mut near, 2), 2);
    let (before, fates) = (near.counters(), near.take_fates());
    assert_eq!((before.tx_lost_refused, fates.delivered, fates.lost), (1, 1, 1));
    assert_eq!(peer.receive(1).iter().map(|(d, _)| d[60]).collect::<Vec<_>>(), [2]);
    for number in 0..10 {
        push(&mut near, VnetHdr::default(), &frame(100, number, Ecn::NotEct), 0);
    }
    assert_eq!(finish(&mut near, 10), 10);
    assert_eq!(near.counters().tx_calls - before.tx_calls, 1);
    assert_eq!(peer.receive(10).len(), 10);
}

/// The MTU is that of the way to the other end: of the interface, of the route, and for IPv6 the
/// one that a router has lowered.
#[test]
fn the_mtu_is_that_of_the_way() {
    let Some([one, two]) = neighbours() else { return };
    two.run(&["ip", "link", "set", "dev", "u1", "up"]);
    for address in ["192.0.2.1/24", "2001:db8:9::1/64"] {
        one.up("u0", address);
    }
    one.wait_for_carrier("u0");
    one.run(&["ip", "link", "set", "dev", "u0", "mtu", "1480"]);
    one.run(&["ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.2", "mtu", "1300"]);
    one.run(&["sysctl", "-q", "-w", "net.ipv6.conf.u0.mtu=1350"]);
    let places = [
        ("42,192.0.2.1:0,192.0.2.9", 1480 - 50),
        ("42,0.0.0.0:0,198.51.100.9", 1300 - 50),
        ("42,[2001:db8:9::1]:0,2001:db8:9::9", 1350 - 70),
        // No way leads there.
        ("42,192.0.2.1:0,203.0.113.9", 1500 - 50),
    ];
    for (place, mtu) in places {
        assert_eq!(one.enter(|| link(place)).mtu().unwrap(), mtu, "{place}");
    }
}

/// A tunnel whose local address no interface has says so, and may be opened later.
#[test]
fn an_address_that_no_interface_has_is_missing() {
    let place = "42,198.51.100.7,198.51.100.8".parse::<VxlanPlace>().unwrap();
    let error = Vxlan::open(&place).unwrap_err();
    assert!(matches!(error.cause, OpenCause::NoAddress(ip) if ip == place.local.ip()), "{error}");
    assert!(error.is_missing() && !error.is_in_use());
}

/// Datagrams that find the socket's buffer full are counted.
#[test]
fn datagrams_without_room_are_counted() {
    let (mut near, local, peer) = to_peer("127.0.0.1");
    let datagram = datagram(&frame(1400, 1, Ecn::NotEct));
    let sent = 20_000;
    for _ in 0..sent {
        peer.send(local, &datagram, None);
    }
    let (mut got, mut room) = (0, vec![0; MAX_FRAME]);
    while near.recv(&mut room).unwrap().is_some() {
        got += 1;
    }
    let counters = near.counters();
    assert!(counters.rx_missed > 0 && got > 0);
    assert_eq!(got + counters.rx_missed, sent);
}

/// TCP of both versions of IP passes to a `vxlan` device of the kernel, both ways, in super-frames
/// that are cut here; all checksums are right, and nothing is refused.
#[test]
fn a_vxlan_device_of_the_kernel_is_the_other_end() {
    if let Some(reason) = skip_reason() {
        println!("skipped, because {reason}");
        return;
    }
    let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
    client.veth("c0", &middle, "m0");
    middle.veth("u0", &server, "u1");
    middle.up("u0", "192.0.2.1/24");
    server.up("u1", "192.0.2.2/24");
    middle.run(&["ip", "link", "set", "dev", "m0", "up"]);
    let device = ["ip", "link", "add", "vx", "type", "vxlan", "id", "42"];
    let way = ["local", "192.0.2.2", "remote", "192.0.2.1", "dstport", "4789"];
    if !server.command(&[&device[..], &way].concat()).status().is_ok_and(|s| s.success()) {
        println!("skipped, because the kernel has no vxlan devices");
        return;
    }
    // A veth hands super-frames in a tunnel on whole, and does not tell how they are to be cut.
    server.run(&["ip", "link", "set", "dev", "vx", "gso_max_segs", "1"]);
    address(&server, "vx", 2);
    address(&client, "c0", 1);
    client.run(&["ip", "link", "set", "dev", "c0", "mtu", "1450"]);
    client.wait_for_carrier("c0");
    let near = format!("packet:{}/m0", middle.name()).parse::<txweir_device::Endpoint>().unwrap();
    let near = near.open(&LinkOptions::default()).unwrap();
    let tunnel = middle.enter(|| link("42,192.0.2.1,192.0.2.2"));
    assert_eq!((tunnel.kind(), tunnel.name().as_str(), tunnel.mtu().unwrap()), ("vxlan", "vxlan42", 1450));
    let forwarder = Forwarder::start(near, tunnel, Pass::Whole);
    transfer(&client, &server, "10.77.0.2:5001", 20, "to the kernel's tunnel");
    transfer(&server, &client, "10.77.0.1:5001", 20, "from the kernel's tunnel");
    transfer(&client, &server, "[fd77::2]:5001", 5, "IPv6 to the kernel's tunnel");
    let seen = forwarder.stop();
    assert!(seen.tcp_v4 > 0 && seen.tcp_v6 > 0, "super-frames leave whole, and are cut in the tunnel");
    assert!(seen.b.tx_gso_frames > 0 && seen.b.tx_lost_refused == 0, "{:?}", seen.b);
    assert_eq!((seen.b.rx_refused, seen.b.rx_oversize), (0, 0), "{:?}", seen.b);
    assert_eq!(checksum_errors(&client) + checksum_errors(&server), 0);
}
