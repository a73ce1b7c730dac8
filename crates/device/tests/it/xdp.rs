//! XDP sockets on veths, in network namespaces that each test makes and removes. The tests need
//! root and a kernel with XDP sockets; without these they print the reason and pass.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use txweir_core::packet::checksum::Sum;
use txweir_device::testnet::{NetNs, no_xdp_reason, reopened};
use txweir_device::{
    Backend as _, Endpoint, Gso, LinkIo, LinkOptions, MAX_FRAME, OpenCause, OpenError, VnetHdr, XdpOptions,
};

use crate::forward::{Forwarder, Pass, between_veths, checksum_errors, push, transfer};

/// Returns from a test that cannot run here, and prints the reason.
macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = no_xdp_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}

/// Makes two namespaces with a veth of so many queues between them, without addresses. The kernel
/// holds back frames for which the other end has no room (`mq`), and does not drop them.
fn veth(queues: u32) -> (NetNs, NetNs) {
    let (one, two) = (NetNs::new("one"), NetNs::new("two"));
    let n = queues.to_string();
    let pair = ["numtxqueues", &n, "numrxqueues", &n];
    let mut command = vec!["ip", "link", "add", "v1"];
    command.extend(pair);
    command.extend(["type", "veth", "peer", "name", "v2", "netns", two.name()]);
    command.extend(pair);
    one.run(&command);
    for (netns, name) in [(&one, "v1"), (&two, "v2")] {
        netns.run(&["ip", "link", "set", "dev", name, "addrgenmode", "none"]);
        netns.run(&["ip", "link", "set", "dev", name, "up"]);
        if queues > 1 {
            netns.run(&["tc", "qdisc", "replace", "dev", name, "root", "mq"]);
        }
    }
    one.wait_for_carrier("v1");
    two.wait_for_carrier("v2");
    (one, two)
}

fn open(netns: &NetNs, interface: &str) -> Result<LinkIo, OpenError> {
    open_with(netns, interface, XdpOptions::default())
}

fn open_with(netns: &NetNs, interface: &str, xdp: XdpOptions) -> Result<LinkIo, OpenError> {
    let endpoint: Endpoint = format!("xdp:{}/{interface}", netns.name()).parse().unwrap();
    endpoint.open(&LinkOptions { xdp, ..LinkOptions::default() })
}

/// Opens both ends of a veth.
fn both(one: &NetNs, two: &NetNs) -> (LinkIo, LinkIo) {
    (open(one, "v1").unwrap(), open(two, "v2").unwrap())
}

/// A frame of the Ethernet type for local experiments (IEEE 802), with a number.
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![7; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Receives frames of that type until `count` have come, or ten seconds have passed.
fn collect(from: &mut LinkIo, count: usize) -> Vec<Vec<u8>> {
    let give_up = Instant::now() + Duration::from_secs(10);
    let (mut got, mut buffer) = (Vec::new(), vec![0; MAX_FRAME]);
    while got.len() < count && Instant::now() < give_up {
        match from.recv(&mut buffer).unwrap() {
            Some((_, len)) if buffer[12..14] == [0x88, 0xb5] => got.push(buffer[..len].to_vec()),
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    got
}

/// Rings the doorbell and takes reports until `count` packets are finished, or ten seconds have
/// passed. Returns packets and bytes.
fn finish(link: &mut LinkIo, count: u32) -> (u32, u32) {
    let give_up = Instant::now() + Duration::from_secs(10);
    let mut all = (0, 0);
    while all.0 < count && Instant::now() < give_up {
        link.commit().unwrap();
        link.reap(&mut |done| all = (all.0 + done.packets, all.1 + done.bytes));
    }
    all
}

/// A TCP frame whose checksum is left undone, to be cut after each `gso_size` bytes of its payload.
fn super_frame(gso_size: u16, payload: usize) -> (VnetHdr, Vec<u8>) {
    let mut frame = vec![0; 14 + 20 + 32 + payload];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
    let ip_len = (frame.len() - 14) as u16;
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[46] = 8 << 4;
    let pseudo = Sum::default().bytes(&frame[26..34]).word(6).word(ip_len - 20);
    frame[50..52].copy_from_slice(&pseudo.partial().to_be_bytes());
    let gso = if gso_size == 0 { Gso::None } else { Gso::TcpV4 };
    let hdr =
        VnetHdr { needs_csum: true, gso, gso_size, csum_start: 34, csum_offset: 16, ..VnetHdr::default() };
    (hdr, frame)
}

/// Receives IPv4 frames until `count` have come, or ten seconds have passed.
fn segments_of(far: &mut LinkIo, count: usize) -> Vec<Vec<u8>> {
    let (mut segments, mut buffer) = (Vec::new(), vec![0; MAX_FRAME]);
    let give_up = Instant::now() + Duration::from_secs(10);
    while segments.len() < count && Instant::now() < give_up {
        if let Some((hdr, len)) = far.recv(&mut buffer).unwrap().filter(|_| buffer[12..14] == [8, 0]) {
            assert_eq!(hdr, VnetHdr::default());
            segments.push(buffer[..len].to_vec());
        }
    }
    assert_eq!(segments.len(), count);
    segments
}

/// Checks the lengths and the checksums of segments with so many bytes, and of the last one.
fn checked(segments: &[Vec<u8>], each: usize, last: usize) {
    for (at, segment) in segments.iter().enumerate() {
        assert_eq!(segment.len(), 66 + if at + 1 == segments.len() { last } else { each });
        let pseudo = Sum::default().bytes(&segment[26..34]).word(6).word((segment.len() - 34) as u16);
        assert_eq!(pseudo.bytes(&segment[34..]).partial(), 0xffff, "segment {at}");
    }
}

/// Every frame arrives whole, those of a queue in order, and each is reported with its bytes; on
/// one queue and on several, and far beyond the room of the rings.
#[test]
fn frames_arrive_in_order_and_are_reported() {
    skip_unless_possible!();
    for queues in [1u16, 4] {
        let (one, two) = veth(queues.into());
        let (mut near, mut far) = both(&one, &two);
        assert_eq!((near.kind(), near.name().as_str(), near.mtu().unwrap()), ("xdp", "v1", 1500));
        let (rounds, burst) = (200, 64);
        let mut got = Vec::new();
        for round in 0..rounds {
            let mut bytes = 0;
            for at in 0..burst {
                let number = round * burst + at;
                let len = 60 + (number as usize * 131) % 1455;
                push(&mut near, VnetHdr::default(), &numbered(number, len), (number % 7) as u16);
                bytes += len as u32;
            }
            assert_eq!(finish(&mut near, burst), (burst, bytes), "queues {queues}, round {round}");
            assert!(!near.is_full() && near.look_again().is_none(), "nothing is under way");
            got.extend(collect(&mut far, burst as usize));
        }
        let total = rounds * burst;
        assert_eq!(got.len(), total as usize);
        let number = |frame: &[u8]| u32::from_be_bytes(frame[14..18].try_into().unwrap());
        for frame in &got {
            let n = number(frame);
            assert_eq!(*frame, numbered(n, 60 + (n as usize * 131) % 1455));
        }
        for queue in 0..u32::from(queues) {
            let of_queue: Vec<u32> =
                got.iter().map(|f| number(f)).filter(|n| (n % 7) % u32::from(queues) == queue).collect();
            assert!(of_queue.is_sorted() && !of_queue.is_empty(), "queue {queue} of {queues}");
        }
        let (sent, received) = (near.counters(), far.counters());
        assert_eq!((sent.tx_frames, near.take_fates().delivered), (total.into(), total.into()));
        assert_eq!((received.rx_frames, received.rx_lost()), (received.rx_seen, 0));
        assert!(sent.tx_calls < u64::from(rounds) * u64::from(queues) * 8, "{sent:?}");
    }
}

/// A super-frame leaves in complete segments and is reported once; a frame longer than the memory
/// of a slot is refused and counted.
#[test]
fn super_frames_are_cut_and_long_frames_refused() {
    skip_unless_possible!();
    let (one, two) = veth(1);
    let (mut near, mut far) = both(&one, &two);
    let (hdr, frame) = super_frame(1448, 10 * 1448 + 100);
    push(&mut near, hdr, &frame, 0);
    push(&mut near, VnetHdr::default(), &numbered(1, 2049), 0);
    push(&mut near, VnetHdr::default(), &numbered(2, 2048), 0);
    assert_eq!(finish(&mut near, 3), (3, frame.len() as u32 + 2049 + 2048));
    let fates = near.take_fates();
    assert_eq!((fates.delivered, fates.lost, near.counters().tx_lost_refused), (2, 1, 1));
    checked(&segments_of(&mut far, 11), 1448, 100);
}

/// A super-frame of more segments than a ring had room for at the last look leaves, once the kernel
/// has emptied the ring.
#[test]
fn a_super_frame_finds_the_room_of_a_ring_that_was_emptied() {
    skip_unless_possible!();
    let (one, two) = veth(1);
    let mut near = open_with(&one, "v1", XdpOptions { ring: 64, ..XdpOptions::default() }).unwrap();
    let mut far = open(&two, "v2").unwrap();
    // Half of the ring: up to here it is not looked at again.
    for number in 0..32 {
        push(&mut near, VnetHdr::default(), &numbered(number, 100), 0);
    }
    assert_eq!(finish(&mut near, 32), (32, 3200));
    assert_eq!(collect(&mut far, 32).len(), 32);
    let (hdr, frame) = super_frame(1448, 39 * 1448 + 100);
    push(&mut near, hdr, &frame, 0);
    assert_eq!(finish(&mut near, 1), (1, frame.len() as u32));
    assert!(!near.is_full());
    checked(&segments_of(&mut far, 40), 1448, 100);
}

/// Frames of 9000 bytes lie in several chunks: they arrive whole, in both directions, and each is
/// reported once; the segments of a super-frame do, too. A frame whose checksum was left undone is
/// completed.
#[test]
fn jumbo_frames_lie_in_several_chunks() {
    skip_unless_possible!();
    let (one, two) = veth(1);
    for (netns, name) in [(&one, "v1"), (&two, "v2")] {
        netns.run(&["ip", "link", "set", "dev", name, "mtu", "9000"]);
    }
    let (mut near, mut far) = both(&one, &two);
    assert_eq!(near.mode(), Some("copies, in the driver"));
    let lens = [60, 4096, 4097, 8192, 8193, 9014];
    for round in 0..40 {
        let frames: Vec<_> = (round * 6..).zip(lens).map(|(number, len)| numbered(number, len)).collect();
        for (from, to) in [(0, 1), (1, 0)] {
            let mut ends = [&mut near, &mut far];
            frames.iter().for_each(|frame| push(ends[from], VnetHdr::default(), frame, 0));
            assert_eq!(finish(ends[from], 6), (6, lens.iter().sum::<usize>() as u32));
            assert!(collect(ends[to], 6) == frames, "round {round}, {from} to {to}");
        }
    }
    // The chunks come back: more frames have passed than there are chunks.
    assert_eq!((near.take_fates().lost, near.counters().tx_lost_refused), (0, 0));
    let (hdr, frame) = super_frame(8948, 6 * 8948 + 100);
    push(&mut near, hdr, &frame, 0);
    assert_eq!(finish(&mut near, 1), (1, frame.len() as u32));
    let segments = segments_of(&mut far, 7);
    checked(&segments, 8948, 100);
    let (hdr, frame) = super_frame(0, 8000);
    push(&mut near, hdr, &frame, 0);
    assert_eq!(finish(&mut near, 1), (1, frame.len() as u32));
    checked(&segments_of(&mut far, 1), 8000, 8000);
    push(&mut near, VnetHdr::default(), &[], 0);
    assert_eq!(finish(&mut near, 1).0, 1);
    assert_eq!(near.counters().tx_lost_refused, 1, "an empty frame has no chunk");
}

/// An interface has one owner; a new one may follow at once. An interface that is down keeps the
/// frames until it is up. One that disappears is reported to the receiver and to the sender, and
/// its frames are lost.
#[test]
fn an_interface_is_busy_down_and_gone() {
    skip_unless_possible!();
    let (one, two) = veth(1);
    let near = open(&one, "v1").unwrap();
    let refused = open(&one, "v1").unwrap_err();
    assert!(matches!(refused.cause, OpenCause::XdpBusy), "{refused}");
    drop(near);
    let mut near = reopened(|| open(&one, "v1"), OpenError::is_in_use).unwrap();
    let mut far = open(&two, "v2").unwrap();
    one.run(&["ip", "link", "set", "dev", "v1", "down"]);
    assert!(!near.is_up().unwrap());
    push(&mut near, VnetHdr::default(), &numbered(1, 100), 0);
    near.commit().unwrap();
    near.reap(&mut |_| panic!("the interface is down"));
    assert!(near.is_full() && near.look_again().is_some());
    one.run(&["ip", "link", "set", "dev", "v1", "up"]);
    one.wait_for_carrier("v1");
    assert_eq!(finish(&mut near, 1), (1, 100));
    assert_eq!(collect(&mut far, 1), [numbered(1, 100)]);
    // Frames that the interface does not finish are given up: a late report ends none of them, and
    // those behind them are reported as ever.
    one.run(&["ip", "link", "set", "dev", "v1", "down"]);
    push(&mut near, VnetHdr::default(), &numbered(2, 100), 0);
    near.commit().unwrap();
    let before = near.take_fates().delivered;
    near.abandon();
    let mut lost = 0;
    near.reap(&mut |done| lost += done.packets);
    assert_eq!((lost, near.take_fates().lost, near.is_full(), near.look_again()), (1, 1, false, None));
    one.run(&["ip", "link", "set", "dev", "v1", "up"]);
    one.wait_for_carrier("v1");
    push(&mut near, VnetHdr::default(), &numbered(3, 150), 0);
    near.commit().unwrap();
    assert_eq!(finish(&mut near, 1), (1, 150));
    assert_eq!((before, near.take_fates().delivered), (1, 1));
    // The kernel has sent what was given up, once the interface was up.
    assert_eq!(collect(&mut far, 2), [numbered(2, 100), numbered(3, 150)]);
    one.run(&["ip", "link", "del", "dev", "v1"]);
    let mut room = vec![0; MAX_FRAME];
    // The first look finds no frame, the second asks for the reason.
    let gone = (0..3).find_map(|_| near.recv(&mut room).err()).expect("the interface is gone");
    assert_eq!((gone.kind(), gone.raw_os_error()), (std::io::Error::from_raw_os_error(19).kind(), Some(19)));
    assert_ne!(gone.kind(), ErrorKind::WouldBlock);
    push(&mut near, VnetHdr::default(), &numbered(2, 100), 0);
    near.commit().unwrap_err();
    let mut lost = 0;
    near.reap(&mut |done| lost += done.packets);
    assert_eq!((lost, near.take_fates().lost, near.look_again()), (1, 1, None));
}

/// The kernel's TCP passes two veths by XDP sockets. A veth hands over frames whose checksum was
/// left undone, without a word; they leave complete.
#[test]
fn tcp_passes_from_veth_to_veth() {
    skip_unless_possible!();
    let [client, middle, server] = between_veths();
    let (a, b) = (open(&middle, "m0").unwrap(), open(&middle, "m1").unwrap());
    let forwarder = Forwarder::start(a, b, Pass::Whole);
    transfer(&client, &server, "10.77.0.2:5207", 32, "veth to veth by XDP sockets, IPv4");
    transfer(&client, &server, "[fd77::2]:5208", 32, "veth to veth by XDP sockets, IPv6");
    let seen = forwarder.stop();
    assert!(seen.longest <= 1514, "longest frame: {}", seen.longest);
    assert_eq!(checksum_errors(&server) + checksum_errors(&client), 0);
}

/// Several handles of an interface have its queues in turns: each frame comes in by one of them,
/// and the frames that each sends arrive.
#[test]
fn handles_of_an_interface_share_its_queues() {
    skip_unless_possible!();
    let (one, two) = veth(5);
    let endpoint: Endpoint = format!("xdp:{}/v1", one.name()).parse().unwrap();
    let mut handles = endpoint.open_queues(&LinkOptions::default(), 2).unwrap();
    let mut other = open(&two, "v2").unwrap();
    assert_eq!(handles.len(), 2);
    let ids = |first: u32| (first..first + 60).map(|n| numbered(n, 500)).collect::<Vec<_>>();
    let sorted = |mut frames: Vec<Vec<u8>>| {
        frames.sort();
        frames
    };
    for (handle, first) in handles.iter_mut().zip([0, 100]) {
        // A handle has three queues or two: any number of a queue is one of these.
        for (frame, queue) in ids(first).iter().zip((0..5).cycle()) {
            push(handle, VnetHdr::default(), frame, queue);
        }
        assert_eq!(finish(handle, 60).0, 60);
        assert_eq!(sorted(collect(&mut other, 60)), ids(first));
    }
    // By each of its queues the peer sends to the queue of the same number here: 0, 2 and 4 are the
    // first handle's.
    for (frame, queue) in ids(200).iter().zip((0..5).cycle()) {
        push(&mut other, VnetHdr::default(), frame, queue);
    }
    assert_eq!(finish(&mut other, 60).0, 60);
    let counts = [36, 24].iter().zip(&mut handles).map(|(count, handle)| collect(handle, *count));
    let got: Vec<_> = counts.collect();
    let of = |queues: &[usize]| -> Vec<_> {
        let all = ids(200).into_iter().enumerate();
        all.filter(|(n, _)| queues.contains(&(n % 5))).map(|(_, frame)| frame).collect()
    };
    assert_eq!(got.into_iter().map(sorted).collect::<Vec<_>>(), [of(&[0, 2, 4]), of(&[1, 3])]);
    // At most as many handles as queues.
    drop(handles);
    drop(other);
    let again = || endpoint.open_queues(&LinkOptions::default(), 16);
    assert_eq!(reopened(again, OpenError::is_in_use).unwrap().len(), 5);
}
