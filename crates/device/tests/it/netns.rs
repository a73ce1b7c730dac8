//! Links against the kernel's own stack, in network namespaces that each test makes and removes.
//! The tests need root and `/dev/net/tun`; without these they print the reason and pass.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use txweir_core::path::device::DeviceError;
use txweir_device::poll::{PollFd, PollFlags, wait};
use txweir_device::testnet::{NetNs, reopened, skip_reason};
use txweir_device::{Backend as _, Fates};
use txweir_device::{Endpoint, LinkIo, LinkOptions, MAX_FRAME, Offload, OpenCause, OpenError};
use txweir_device::{Tap, TapOptions, VnetHdr, clock};

use crate::forward::{Forwarder, Pass, address, between_veths, checksum_errors, push, transfer};

/// Returns from a test that cannot run here, and prints the reason.
macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = skip_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}

fn open(endpoint: &str, options: &LinkOptions) -> LinkIo {
    let endpoint: Endpoint = endpoint.parse().unwrap_or_else(|error| panic!("{endpoint}: {error}"));
    reopened(|| endpoint.open(options), OpenError::is_in_use).unwrap_or_else(|error| panic!("{error}"))
}

fn create() -> LinkOptions {
    LinkOptions { tap: TapOptions { create: true, ..TapOptions::default() }, ..LinkOptions::default() }
}

/// Makes two namespaces and a new TAP device in each, opened from outside and set up with an IPv4
/// and an IPv6 address.
fn two_taps(options: &LinkOptions) -> (NetNs, NetNs, LinkIo, LinkIo) {
    let (client, server) = (NetNs::new("client"), NetNs::new("server"));
    let a = open(&format!("{}/tap0", client.name()), options);
    let b = open(&format!("{}/tap0", server.name()), options);
    address(&client, "tap0", 1);
    address(&server, "tap0", 2);
    (client, server, a, b)
}

const SERVER_V4: &str = "10.77.0.2:5201";
const SERVER_V6: &str = "[fd77::2]:5202";

/// Sends one frame without a header and returns its fate.
fn send(to: &mut LinkIo, bytes: &[u8]) -> Result<Fates, DeviceError> {
    push(to, VnetHdr::default(), bytes, 0);
    to.commit()?;
    let mut finished = 0;
    to.reap(&mut |done| finished += done.packets);
    assert_eq!((finished, to.is_full()), (1, false));
    Ok(to.take_fates())
}

const DELIVERED: Fates = Fates { delivered: 1, lost: 0 };
const LOST: Fates = Fates { delivered: 0, lost: 1 };

/// Returns the work that the kernel leaves undone on a new TAP device with these options.
fn offload_of(options: TapOptions) -> Offload {
    let name = "tap0".parse().expect("a name");
    let options = TapOptions { create: true, ..options };
    NetNs::new("offload").enter(|| Tap::open(&name, &options).expect("open").offload())
}

#[test]
fn tcp_between_two_taps_travels_in_super_frames() {
    skip_unless_possible!();
    let (client, server, a, b) = two_taps(&create());
    assert!(a.is_up().unwrap());
    assert_eq!(a.mtu().unwrap(), 1500);
    let forwarder = Forwarder::start(a, b, Pass::Whole);
    transfer(&client, &server, SERVER_V4, 256, "TAP to TAP, IPv4");
    transfer(&client, &server, SERVER_V6, 64, "TAP to TAP, IPv6");
    let seen = forwarder.stop();
    println!(
        "received by the client's TAP: {} frames, {} of them super-frames, average {} bytes, longest {}",
        seen.a.rx_frames,
        seen.a.rx_gso_frames,
        seen.a.rx_bytes / seen.a.rx_frames,
        seen.longest
    );
    assert!(seen.tcp_v4 > 0 && seen.tcp_v6 > 0);
    assert!(seen.longest > 2 * 1514, "longest frame: {}", seen.longest);
    assert!(seen.a.rx_bytes > 320 << 20);
    assert_eq!(seen.b.tx_frames, seen.a.rx_frames, "frames in at one end, out at the other");
    assert_eq!((seen.a.rx_oversize, seen.a.rx_refused, seen.b.tx_lost_refused), (0, 0, 0));
    assert_eq!(checksum_errors(&server) + checksum_errors(&client), 0);
}

/// The kernel's own checks judge the segments made here: with a wrong checksum, length or sequence
/// number no byte would arrive.
#[test]
fn segments_cut_in_user_space_are_taken_by_the_kernel() {
    skip_unless_possible!();
    let (client, server, a, b) = two_taps(&create());
    let forwarder = Forwarder::start(a, b, Pass::Cut);
    transfer(&client, &server, SERVER_V4, 64, "TAP to TAP, cut, IPv4");
    transfer(&client, &server, SERVER_V6, 32, "TAP to TAP, cut, IPv6");
    let seen = forwarder.stop();
    assert!(seen.tcp_v4 > 0 && seen.tcp_v6 > 0);
    assert_eq!(seen.b.tx_gso_frames, 0);
    assert!(seen.b.tx_frames > 2 * seen.a.rx_frames, "{} became {}", seen.a.rx_frames, seen.b.tx_frames);
    assert_eq!(checksum_errors(&server) + checksum_errors(&client), 0);
}

/// Without offloads the kernel cuts and sums itself: no work is left undone, and no frame exceeds
/// the MTU.
#[test]
fn without_offloads_frames_are_ordinary() {
    skip_unless_possible!();
    let mut options = create();
    options.tap.offload = false;
    let (client, server, a, b) = two_taps(&options);
    assert_eq!(offload_of(options.tap), Offload::None);
    let forwarder = Forwarder::start(a, b, Pass::Whole);
    transfer(&client, &server, SERVER_V4, 16, "TAP to TAP, no offload");
    let seen = forwarder.stop();
    assert_eq!((seen.a.rx_gso_frames, seen.longest), (0, 1514));
}

/// UDP super-frames (`UDP_SEGMENT`), from a kernel that has them for TAP devices, are cut here.
#[test]
fn udp_super_frames_are_cut() {
    skip_unless_possible!();
    let (client, server, a, b) = two_taps(&create());
    if offload_of(TapOptions::default()) != Offload::TcpUdp {
        println!("skipped, because this kernel has no UDP segmentation for TAP devices");
        return;
    }
    let script = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 103, 1000)  # UDP_SEGMENT
s.sendto(bytes(range(250)) * 22, ('10.77.0.2', 5203))
";
    let sink = server.enter(|| std::net::UdpSocket::bind("10.77.0.2:5203").expect("bind"));
    sink.set_read_timeout(Some(Duration::from_secs(10))).expect("set a timeout");
    let forwarder = Forwarder::start(a, b, Pass::Cut);
    match client.command(&["python3", "-c", script]).output() {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped, because python3 could not send: {other:?}");
            return;
        }
    }
    let mut got = Vec::new();
    let mut lens = Vec::new();
    while got.len() < 5500 {
        let mut datagram = [0; 2000];
        let len = sink.recv(&mut datagram).expect("a datagram");
        lens.push(len);
        got.extend_from_slice(&datagram[..len]);
    }
    assert_eq!(lens, [1000, 1000, 1000, 1000, 1000, 500]);
    assert_eq!(got, (0..=249u8).cycle().take(5500).collect::<Vec<_>>());
    assert_eq!(forwarder.stop().udp, 1);
    assert_eq!(checksum_errors(&server), 0);
}

/// Client and server on veths, a namespace with two packet sockets between them.
#[test]
fn packet_sockets_forward_between_veths() {
    skip_unless_possible!();
    let [client, middle, server] = between_veths();
    for (bypass, port) in [(false, 5201), (true, 5204)] {
        let mut options = LinkOptions::default();
        options.packet.qdisc_bypass = bypass;
        let a = open(&format!("{}/m0", middle.name()), &options);
        let b = open(&format!("packet:{}/m1", middle.name()), &options);
        assert_eq!(a.kind(), "packet", "a veth is opened by a packet socket");
        let forwarder = Forwarder::start(a, b, Pass::Whole);
        let what = if bypass { "veth to veth, bypass" } else { "veth to veth" };
        transfer(&client, &server, &format!("10.77.0.2:{port}"), 128, what);
        let seen = forwarder.stop();
        assert!(seen.tcp_v4 > 0);
        assert!(seen.longest > 2 * 1514, "longest frame: {}", seen.longest);
        // A frame that this side sends must not come back as received: the acknowledgements are few
        // and short.
        assert!(seen.b.rx_bytes < seen.a.rx_bytes / 4, "{} against {}", seen.b.rx_bytes, seen.a.rx_bytes);
    }
    assert_eq!(checksum_errors(&server) + checksum_errors(&client), 0);
}

/// A TAP on one side and a packet socket on the other: headers of 12 and of 10 bytes.
#[test]
fn a_tap_and_a_packet_socket() {
    skip_unless_possible!();
    let (client, middle, server) = (NetNs::new("client"), NetNs::new("middle"), NetNs::new("server"));
    let a = open(&format!("{}/tap0", client.name()), &create());
    server.veth("s0", &middle, "m1");
    address(&client, "tap0", 1);
    address(&server, "s0", 2);
    middle.run(&["ip", "link", "set", "dev", "m1", "up"]);
    let b = open(&format!("{}/m1", middle.name()), &LinkOptions::default());
    let forwarder = Forwarder::start(a, b, Pass::Whole);
    transfer(&client, &server, SERVER_V4, 128, "TAP to veth");
    let seen = forwarder.stop();
    assert!(seen.a.rx_gso_frames > 0 && seen.b.tx_gso_frames > 0);
    assert_eq!(checksum_errors(&server) + checksum_errors(&client), 0);
}

/// A TAP device that is made in the middle and moved into another namespace stays attached.
#[test]
fn a_tap_may_move() {
    skip_unless_possible!();
    let (client, middle, server) = (NetNs::new("client"), NetNs::new("middle"), NetNs::new("server"));
    let a = open(&format!("{}/tapc", middle.name()), &create());
    let b = open(&format!("tap:{}/taps", middle.name()), &create());
    middle.run(&["ip", "link", "set", "tapc", "netns", client.name()]);
    middle.run(&["ip", "link", "set", "taps", "netns", server.name()]);
    address(&client, "tapc", 1);
    address(&server, "taps", 2);
    let forwarder = Forwarder::start(a, b, Pass::Whole);
    transfer(&client, &server, SERVER_V4, 16, "moved TAPs");
    assert!(forwarder.stop().tcp_v4 > 0);
}

/// Makes two namespaces with a veth that carries only the test's own frames: no link-local
/// addresses.
fn silent_veth() -> (NetNs, NetNs) {
    let (one, two) = (NetNs::new("one"), NetNs::new("two"));
    one.veth("v1", &two, "v2");
    for (netns, interface) in [(&one, "v1"), (&two, "v2")] {
        netns.run(&["ip", "link", "set", "dev", interface, "addrgenmode", "none"]);
        netns.run(&["ip", "link", "set", "dev", interface, "up"]);
    }
    one.wait_for_carrier("v1");
    two.wait_for_carrier("v2");
    (one, two)
}

/// Returns a frame of the Ethernet type for local experiments (IEEE 802), marked by `index`, tagged
/// when that is even.
fn experimental(index: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    if index.is_multiple_of(2) {
        frame.extend([0x81, 0x00, 0x60, 0x64]); // priority 3, VLAN 100
    }
    frame.extend([0x88, 0xb5, index]);
    frame.extend([index; 60]);
    frame
}

/// Receives until `count` experimental frames have come, or ten seconds have passed.
fn collect(link: &mut LinkIo, count: usize) -> Vec<(VnetHdr, Vec<u8>)> {
    let give_up = clock::now_ns() + 10_000_000_000;
    let (mut got, mut buffer) = (Vec::new(), vec![0; MAX_FRAME]);
    while got.len() < count && clock::now_ns() < give_up {
        wait(&mut [PollFd::new(link, PollFlags::IN)], Some(give_up), 0).unwrap();
        while let Some((hdr, len)) = link.recv(&mut buffer).unwrap() {
            if buffer[..12] == experimental(0)[..12] {
                got.push((hdr, buffer[..len].to_vec()));
            }
        }
    }
    got
}

/// The tag that the kernel takes out of a received frame is put back, and a batch of any length
/// keeps its order.
#[test]
fn tags_and_batches_survive_a_veth() {
    skip_unless_possible!();
    let (one, two) = silent_veth();
    let mut a = open(&format!("{}/v1", one.name()), &LinkOptions::default());
    let mut beside = LinkOptions::default();
    beside.packet.beside_others = true;
    let mut beside = open(&format!("{}/v1", one.name()), &beside);
    let mut b = open(&format!("{}/v2", two.name()), &LinkOptions::default());
    let details = two.run(&["ip", "-d", "link", "show", "dev", "v2"]);
    assert!(details.contains("promiscuity 1 "), "frames for any address are received: {details}");
    let frames: Vec<Vec<u8>> = (0..150).map(experimental).collect();
    // The offset of an undone checksum counts from the start of the frame, tag included.
    let hdr = VnetHdr { needs_csum: true, csum_start: 30, csum_offset: 6, ..VnetHdr::default() };
    frames.iter().for_each(|bytes| push(&mut a, hdr, bytes, 0));
    a.commit().unwrap();
    assert_eq!(a.take_fates(), Fates { delivered: 150, lost: 0 });
    // The batches have 64, 64 and 22 frames.
    assert_eq!((a.counters().tx_frames, a.counters().tx_calls), (150, 3));
    let got = collect(&mut b, 150);
    assert_eq!(got.len(), 150);
    assert!(got.iter().map(|(_, bytes)| bytes).eq(&frames), "order, tags and bytes");
    for (got, _) in got {
        assert_eq!((got.needs_csum, got.csum_start, got.csum_offset), (true, 30, 6));
    }
    assert_eq!(beside.recv(&mut [0; 2000]).unwrap(), None, "an interface does not receive its own frames");

    // A frame that the kernel refuses is lost alone, in the middle of a batch, at its end, or by
    // itself.
    let long = vec![0x02; 5000];
    for bytes in [&frames[1], &long, &frames[3], &long] {
        push(&mut a, VnetHdr::default(), bytes, 0);
    }
    a.commit().unwrap();
    let mut finished = (0, 0);
    a.reap(&mut |done| finished = (done.packets, done.bytes as usize));
    let bytes = 150 * (frames[0].len() + frames[1].len()) / 2 + 2 * (frames[1].len() + long.len());
    assert_eq!((a.take_fates(), finished), (Fates { delivered: 2, lost: 2 }, (154, bytes)));
    assert_eq!(send(&mut a, &long), Ok(LOST));
    assert_eq!((a.counters().tx_frames, a.counters().tx_lost_refused), (152, 3));
    let got: Vec<Vec<u8>> = collect(&mut b, 2).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(got, [frames[1].clone(), frames[3].clone()]);
}

/// A frame beyond the buffer is counted and left out, and the next one still comes.
#[test]
fn frames_beyond_the_buffer_are_left_out() {
    skip_unless_possible!();
    let (one, two) = silent_veth();
    let mut a = open(&format!("{}/v1", one.name()), &LinkOptions::default());
    let mut b = open(&format!("{}/v2", two.name()), &LinkOptions::default());
    let frames = [2, 1].map(experimental);
    for frame in &frames {
        assert_eq!(send(&mut a, frame), Ok(DELIVERED));
    }
    let mut small = vec![0; frames[1].len()]; // the untagged one fits, the tagged one does not
    let ready = wait(&mut [PollFd::new(&b, PollFlags::IN)], Some(clock::now_ns() + 10_000_000_000), 0);
    assert_eq!(ready.unwrap(), 1);
    assert_eq!(b.recv(&mut small).unwrap().map(|(_, len)| small[..len].to_vec()), Some(frames[1].clone()));
    assert_eq!(b.counters().rx_oversize, 1);

    // A TAP device truncates silently, so that a buffer filled to its end is too small.
    let mut tap = open(&format!("{}/tap0", one.name()), &create());
    one.run(&["ip", "link", "set", "dev", "tap0", "addrgenmode", "none"]);
    one.up("tap0", "10.78.0.1/24");
    one.run(&["ip", "neigh", "add", "10.78.0.2", "lladdr", "02:00:00:00:00:09", "dev", "tap0"]);
    let socket = one.enter(|| std::net::UdpSocket::bind("10.78.0.1:5205").expect("bind"));
    for room in [142, 143] {
        socket.send_to(&[0x55; 100], "10.78.0.2:5205").expect("send"); // 14 + 20 + 8 + 100 bytes
        let got = tap.recv(&mut vec![0; room]).unwrap().map(|(_, len)| len);
        assert_eq!(got, (room > 142).then_some(142));
    }
    assert_eq!((tap.counters().rx_oversize, tap.counters().rx_frames), (1, 1));
}

#[test]
fn a_link_that_is_down_or_gone() {
    skip_unless_possible!();
    let (one, two) = (NetNs::new("one"), NetNs::new("two"));
    let mut tap = open(&format!("{}/tap0", one.name()), &create());
    one.veth("v1", &two, "v2");
    let mut packet = open(&format!("{}/v1", one.name()), &LinkOptions::default());
    let frame = [0x02; 60];
    let mut buffer = vec![0; MAX_FRAME];
    for link in [&mut tap, &mut packet] {
        assert!(!link.is_up().unwrap());
        assert_eq!(send(link, &frame), Ok(LOST));
        assert_eq!(link.recv(&mut buffer).unwrap(), None);
        assert_eq!(link.counters().tx_lost_down, 1);
    }
    one.run(&["ip", "link", "set", "dev", "v1", "up"]);
    two.run(&["ip", "link", "set", "dev", "v2", "up"]);
    one.run(&["ip", "link", "set", "dev", "tap0", "up"]);
    one.wait_for_carrier("v1");
    for link in [&mut tap, &mut packet] {
        assert!(link.is_up().unwrap());
        assert_eq!(send(link, &frame), Ok(DELIVERED));
        // 64 KiB are no ordinary frame for an MTU of 1500; a TAP device, which receives the frame,
        // has no such limit.
        let expected = if link.kind() == "tap" { DELIVERED } else { LOST };
        assert_eq!(send(link, &vec![0x02; 60_000]), Ok(expected));
    }
    one.run(&["ip", "link", "del", "dev", "v1"]);
    one.run(&["ip", "link", "del", "dev", "tap0"]);
    for link in [&mut tap, &mut packet] {
        let drained = (0..1000).find_map(|_| link.recv(&mut buffer).err());
        assert!(drained.is_some(), "receiving on a removed interface is an error");
        assert!(send(link, &frame).is_err());
        assert_eq!(link.take_fates(), LOST, "the frames that it held are lost");
    }
}

/// Waits for `done`, up to ten seconds. A closed descriptor may live a moment longer in a child
/// process that another test has forked and that has not yet called exec.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let give_up = clock::now_ns() + 10_000_000_000;
    while !done() {
        assert!(clock::now_ns() < give_up, "{what}: not within ten seconds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_opened_says_why() {
    skip_unless_possible!();
    let (one, two) = (NetNs::new("one"), NetNs::new("two"));
    one.veth("v1", &two, "v2");
    one.run(&["ip", "tuntap", "add", "dev", "tun0", "mode", "tun"]);
    one.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]);
    one.run(&["ip", "tuntap", "add", "dev", "tapm", "mode", "tap", "multi_queue"]);
    let name = one.name();
    let fails = |text: &str| {
        let endpoint: Endpoint = text.parse().unwrap();
        endpoint.open(&create()).err().unwrap_or_else(|| panic!("{text} opened")).to_string()
    };
    assert_eq!(
        fails(&format!("tap:{name}/v1")),
        format!("interface `tap:{name}/v1` is not a TAP device, its driver is `veth`: open it as `packet:`")
    );
    for kind in ["", "tap:"] {
        let message = fails(&format!("{kind}{name}/tun0"));
        assert!(message.contains("is a TUN device"), "{message}");
    }
    assert_eq!(
        fails(&format!("packet:{name}/tun0")),
        format!("interface `packet:{name}/tun0` does not carry Ethernet frames")
    );
    let held = open(&format!("{name}/tap0"), &LinkOptions::default());
    assert_eq!(
        fails(&format!("{name}/tap0")),
        format!("TAP device `{name}/tap0` is in use by another process: stop that one first")
    );
    drop(held);
    // A persistent device outlives its holder, and a device created with several queues opens each
    // of them.
    let endpoint: Endpoint = format!("{name}/tap0").parse().unwrap();
    eventually("the device is free again", || endpoint.open(&LinkOptions::default()).is_ok());
    let queues = [(); 2].map(|()| open(&format!("{name}/tapm"), &LinkOptions::default()));
    assert!(queues.iter().all(|queue| queue.kind() == "tap"));
    // The process that creates a device must ask for several queues.
    let mut several = create();
    several.tap.multi_queue = true;
    let first = open(&format!("{name}/tapq"), &several);
    let second = open(&format!("{name}/tapq"), &several);
    assert_eq!((first.name().as_str(), second.name().as_str()), ("tapq", "tapq"));
    drop((first, second));
    eventually("the new device is gone when closed", || !one.run(&["ip", "-o", "link"]).contains("tapq"));
}

/// A second packet socket would forward each frame a second time.
#[test]
fn an_interface_has_one_forwarder() {
    skip_unless_possible!();
    let netns = NetNs::new("once");
    netns.run(&["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
    let text = format!("packet:{}/v0", netns.name());
    let open = || text.parse::<Endpoint>().unwrap().open(&LinkOptions::default());
    let first = open().expect("an interface without a forwarder");
    let message = open().err().map(|error| error.to_string());
    let said = format!(
        "interface `{text}` has a packet socket of txweir already, and each frame would leave twice: \
         stop the other `txweir run` or daemon, or delete its link"
    );
    assert_eq!(message, Some(said));
    // Its peer is another interface, and a name does not matter.
    let peer = text.replace("v0", "v1").parse::<Endpoint>().unwrap();
    drop(peer.open(&LinkOptions::default()).expect("the other interface"));
    netns.run(&["ip", "link", "set", "dev", "v0", "name", "w0"]);
    let renamed = text.replace("v0", "w0").parse::<Endpoint>().unwrap();
    assert!(renamed.open(&LinkOptions::default()).is_err());
    drop(first);
    reopened(|| renamed.open(&LinkOptions::default()), OpenError::is_in_use)
        .expect("an interface whose forwarder has ended");
}

/// Runs itself again as an ordinary user and checks the messages that this user gets.
#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    const INSIDE: &str = "TXWEIR_TEST_NETNS";
    const THIS: &str = "netns::an_ordinary_user_is_told_what_is_missing";
    if let Ok(netns) = std::env::var(INSIDE) {
        let cause = |text: &str| {
            let opened = text.parse::<Endpoint>().unwrap().open(&create());
            opened.err().map(|error| (error.to_string(), error.cause))
        };
        let (message, packet) = cause("packet:lo").expect("a packet socket needs a privilege");
        assert!(matches!(packet, OpenCause::PacketDenied), "{message}");
        let (message, inside) = cause(&format!("{netns}/lo")).expect("entering needs a privilege");
        assert!(matches!(inside, OpenCause::NamespaceDenied(_)), "{message}");
        let (message, tap) = cause("tap:txw-none0").expect("a TAP device needs a privilege");
        assert!(matches!(tap, OpenCause::TunDeviceDenied | OpenCause::TapDenied), "{message}");
        return;
    }
    skip_unless_possible!();
    let netns = NetNs::new("denied");
    let me = std::env::current_exe().expect("the test's own program");
    let mut again = Command::new(me);
    again.args(["--exact", THIS]).env(INSIDE, netns.name());
    match again.uid(65_534).gid(65_534).output() {
        Err(error) => println!("skipped, because an ordinary user cannot run the test program: {error}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            // A wrong test name would run no test and succeed.
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
    }
}
