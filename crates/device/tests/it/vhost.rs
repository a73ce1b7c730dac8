//! The network card of a virtual machine, against a guest without a kernel in the same thread.

mod handles;
mod room;

use std::collections::VecDeque;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use txweir_core::packet::checksum::Sum;
use txweir_device::poll::{PollFd, PollFlags, wait};
use txweir_device::testguest::{
    ALL, BASE, EVENT_IDX, INDIRECT, MERGEABLE, OFFLOADS, PROTOCOL, Setup, TestGuest, VERSION_1,
};
use txweir_device::{
    Backend as _, Endpoint, Fates, FrameRef, Gso, LinkIo, LinkOptions, MAX_FRAME, OpenCause, TimedCard,
    VnetHdr,
};
use vm_memory::{Bytes as _, GuestAddress};

use crate::forward::{push, push_as};

/// A path for a socket, which is removed with it.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("txw-{}-{name}.sock", std::process::id()))
}

fn open(path: &std::path::Path) -> LinkIo {
    format!("vhost:{}", path.display()).parse::<Endpoint>().unwrap().open(&LinkOptions::default()).unwrap()
}

/// A device, and a guest that is connected to it.
fn connected(name: &str, setup: Setup) -> (LinkIo, TestGuest) {
    let path = path(name);
    let mut device = open(&path);
    let guest = TestGuest::connect(&path, setup, || device.attend().unwrap());
    (device, guest)
}

fn received(device: &mut LinkIo) -> Option<(VnetHdr, Vec<u8>)> {
    let mut room = vec![0; MAX_FRAME];
    device.recv(&mut room).unwrap().map(|(hdr, len)| (hdr, room[..len].to_vec()))
}

fn news(device: &mut LinkIo) -> Vec<String> {
    let text = |text: String| text.split_once(": ").unwrap().1.to_owned();
    std::iter::from_fn(|| device.take_news()).map(text).collect()
}

/// A frame of the Ethernet type for local experiments, with a number.
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![7; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

const NONE: [u8; 12] = [0; 12];

/// A TCP super-frame of so many payload bytes, whose checksum is left undone, and its header.
fn super_frame(payload: usize) -> (VnetHdr, Vec<u8>) {
    let mut frame = vec![0x5a; 54 + payload];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let len = (40 + payload) as u16;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    let sum = Sum::default().bytes(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..54].copy_from_slice(&[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = Sum::default().bytes(&frame[26..34]).word(6).word(20 + payload as u16).partial();
    frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let hdr = VnetHdr {
        needs_csum: true,
        gso: Gso::TcpV4,
        hdr_len: 54,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
        ..VnetHdr::default()
    };
    (hdr, frame)
}

/// Every frame arrives whole and in order both ways, whatever the driver has accepted, far beyond
/// the length of the rings.
#[test]
fn frames_pass_in_order_by_one_pair_and_by_four() {
    let minimal = VERSION_1;
    for features in [ALL, ALL & !EVENT_IDX, ALL & !INDIRECT, VERSION_1 | PROTOCOL, minimal] {
        for pairs in [1, 4] {
            let setup = Setup { features, pairs, ..Setup::default() };
            let (mut device, mut guest) = connected("order", setup);
            assert!(device.is_up().unwrap());
            assert_eq!((device.kind(), device.mtu().unwrap()), ("vhost", 1500));
            let (mut sent, mut waiting) = (0, vec![VecDeque::new(); pairs]);
            let mut got = 0;
            while got < 2000 {
                for (pair, waiting) in waiting.iter_mut().enumerate() {
                    let frame = numbered(sent, 60 + (sent as usize * 131) % 1455);
                    if sent < 2000 && guest.send(pair, NONE, &frame) {
                        waiting.push_back(frame.clone());
                        sent += 1;
                    }
                }
                while let Some((hdr, frame)) = received(&mut device) {
                    assert_eq!(hdr, VnetHdr::default());
                    let from = waiting.iter_mut().find(|w| w.front() == Some(&frame));
                    from.expect("a frame in order").pop_front();
                    got += 1;
                }
            }
            assert!(waiting.iter().all(VecDeque::is_empty));
            // The other way: the hash of a flow chooses the pair.
            let mut arrived = vec![Vec::new(); pairs];
            for number in 0..2000 {
                push(
                    &mut device,
                    VnetHdr::default(),
                    &numbered(number, 60 + (number as usize * 137) % 1455),
                    0,
                );
                device.commit().unwrap();
                for (pair, arrived) in arrived.iter_mut().enumerate() {
                    while let Some((header, frame, buffers)) = guest.receive(pair) {
                        assert_eq!((header, buffers), ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], 1));
                        arrived.push(u32::from_be_bytes(frame[14..18].try_into().unwrap()));
                        assert_eq!(frame.len(), 60 + (*arrived.last().unwrap() as usize * 137) % 1455);
                    }
                }
                device.attend().unwrap();
            }
            assert_eq!(arrived.iter().map(Vec::len).sum::<usize>(), 2000, "{features:#x} {pairs}");
            assert!(arrived.iter().all(|numbers| numbers.is_sorted()));
            let mut bytes = 0;
            device.reap(&mut |done| bytes += done.packets);
            assert_eq!(bytes, 2000);
            let counters = device.counters();
            assert_eq!((counters.rx_frames, counters.tx_frames, counters.rx_ring_errors), (2000, 2000, 0));
        }
    }
}

/// A guest is told once of frames that were taken from it together, and only when it wants to know.
#[test]
fn notifications_are_few() {
    for features in [ALL, ALL & !EVENT_IDX] {
        let (mut device, mut guest) = connected("few", Setup { features, ..Setup::default() });
        while received(&mut device).is_some() {}
        device.reap(&mut |_| {});
        guest.called(0);
        guest.called(1);
        guest.await_used(1, 9);
        assert!(guest.wants_kicks(1));
        for number in 0..10 {
            assert!(guest.send(0, NONE, &numbered(number, 60)));
        }
        for at in 0..10 {
            received(&mut device).unwrap();
            if features & EVENT_IDX == 0 {
                assert!(!guest.wants_kicks(1), "the device looks by itself");
            }
            if at == 4 {
                device.reap(&mut |_| {});
                let expected = if features & EVENT_IDX == 0 { 1 } else { 0 };
                assert_eq!(guest.called(1), expected, "the guest waits for the tenth");
            }
        }
        assert_eq!(guest.called(1), 0);
        device.reap(&mut |_| {});
        assert!(device.has_frames());
        assert_eq!(guest.called(1), 1);
        assert!(received(&mut device).is_none());
        assert!(!device.has_frames() && guest.wants_kicks(1));
    }
}

/// Frames stay in the guest's ring as long as nobody receives them.
#[test]
fn frames_that_are_not_received_stay_with_the_guest() {
    let (mut device, mut guest) = connected("stay", Setup::default());
    assert!(device.senders_wait());
    let mut sent = 0;
    while guest.send(0, NONE, &numbered(sent, 60)) {
        sent += 1;
    }
    for _ in 0..3 {
        device.attend().unwrap();
        assert!(device.has_frames());
        assert_eq!(guest.under_way(1), 32);
    }
    for number in 0..sent {
        assert_eq!(received(&mut device).unwrap().1, numbered(number, 60));
    }
    assert_eq!((guest.under_way(1), received(&mut device)), (0, None));
}

/// A header that asks for work that was not agreed on, or a frame of an impossible length, is left
/// out and counted, and the ring goes on.
#[test]
fn wrong_frames_are_left_out() {
    let (mut device, mut guest) = connected("left-out", Setup::default());
    let (hdr, frame) = super_frame(4000);
    let unknown = VnetHdr { gso: Gso::Other(3), ..hdr };
    let beyond = VnetHdr { csum_start: 60_000, csum_offset: 60_000, ..hdr };
    assert!(guest.send(0, unknown.encode(), &frame));
    assert!(guest.send(0, beyond.encode(), &frame));
    assert!(guest.send(0, NONE, &frame[..13]));
    assert!(guest.send(0, NONE, &[]));
    assert!(guest.send(0, NONE, &vec![1; 66_000]));
    assert!(guest.send(0, hdr.encode(), &frame));
    assert_eq!(received(&mut device), Some((hdr, frame)));
    let counters = device.counters();
    assert_eq!((counters.rx_refused, counters.rx_oversize, counters.rx_ring_errors), (4, 1, 0));
}

/// Each impossible word stops the ring that has it, with its reason, and no other; the guest can
/// set the ring up again.
#[test]
fn impossible_descriptors_stop_their_ring() {
    /// Writes into a ring of the guest.
    type Spoil = fn(&mut TestGuest, at: usize, table: u64);
    let cases: [(&str, Spoil); 14] = [
        ("its index is 65 chains ahead, more than the ring has", |guest, at, _| {
            guest.show(at, guest.rings[at].avail.wrapping_add(65));
        }),
        ("descriptor 64 is not in its table", |guest, at, _| guest.offer(at, 64)),
        ("descriptor 500 is not in its table", |guest, at, table| {
            guest.describe(table, 0, (BASE, 1), 1, 500);
            guest.offer(at, 0);
        }),
        ("a chain of descriptors is too long", |guest, at, table| {
            guest.describe(table, 0, (BASE, 0), 1, 1);
            guest.describe(table, 1, (BASE, 0), 1, 0);
            guest.offer(at, 0);
        }),
        ("a chain of descriptors is too long", |guest, at, table| {
            // One buffer, and an indirect table with as many as a chain may have.
            let inner = guest.buffer(at, 9);
            for slot in 0..256 {
                guest.describe(inner, slot, (BASE, 1), u16::from(slot < 255), slot + 1);
            }
            guest.describe(table, 0, (BASE, 100), 1, 1);
            guest.describe(table, 1, (inner, 256 * 16), 4, 0);
            guest.offer(at, 0);
        }),
        ("a buffer is to be written where it is read, or read where written", |guest, at, table| {
            guest.describe(table, 0, (BASE, 100), 2, 0);
            guest.offer(at, 0);
        }),
        ("a buffer is to be written where it is read, or read where written", |guest, at, table| {
            guest.describe(table, 0, (BASE, 100), 3, 1);
            guest.describe(table, 1, (BASE, 100), 0, 0);
            guest.offer(at, 0);
        }),
        ("address 0x0 is not in the guest's memory", |guest, at, table| {
            guest.describe(table, 0, (0, 100), 0, 0);
            guest.offer(at, 0);
        }),
        ("address 0xffffffffffffff00 is not in the guest's memory", |guest, at, table| {
            guest.describe(table, 0, (u64::MAX - 255, 1000), 0, 0);
            guest.offer(at, 0);
        }),
        ("an indirect table is not as it has to be", |guest, at, table| {
            guest.describe(table, 0, (BASE, 24), 4, 0);
            guest.offer(at, 0);
        }),
        ("an indirect table is not as it has to be", |guest, at, table| {
            guest.describe(table, 0, (BASE, 0), 4, 0);
            guest.offer(at, 0);
        }),
        ("an indirect table is not as it has to be", |guest, at, table| {
            let inner = guest.buffer(at, 9);
            guest.describe(inner, 0, (BASE, 16), 4, 0);
            guest.describe(table, 0, (inner, 16), 4, 0);
            guest.offer(at, 0);
        }),
        ("an indirect table is not as it has to be", |guest, at, table| {
            guest.describe(table, 0, (u64::MAX - 15, 32), 4, 0);
            guest.offer(at, 0);
        }),
        ("address 0x7fff00000000 is not in the guest's memory", |guest, at, table| {
            guest.describe(table, 0, (0x7fff_0000_0000, 32), 4, 0);
            guest.offer(at, 0);
        }),
    ];
    for (text, spoil) in cases {
        let (mut device, mut guest) = connected("spoil", Setup { pairs: 2, ..Setup::default() });
        assert!(received(&mut device).is_none());
        news(&mut device);
        let table = guest.rings[1].places[0];
        spoil(&mut guest, 1, table);
        guest.kick(1);
        assert!(received(&mut device).is_none());
        assert_eq!(news(&mut device), [format!("ring 1 of the guest has stopped: {text}")]);
        assert_eq!(device.counters().rx_ring_errors, 1);
        assert!(!device.has_frames());
        guest.kick(1);
        assert!(received(&mut device).is_none() && news(&mut device).is_empty(), "it is said once");
        // The other pair goes on, and so does the first once it is set up again.
        assert!(guest.send(1, NONE, &numbered(1, 60)));
        assert_eq!(received(&mut device).unwrap().1, numbered(1, 60));
        let mut serve = || device.attend().unwrap();
        guest.stop(1, &mut serve);
        guest.show(1, 0);
        guest.rings[1].avail = 0;
        guest.memory_used(1, 0);
        guest.start(1, 0, &mut serve);
        assert!(guest.send(0, NONE, &numbered(2, 60)), "{text}");
        assert_eq!(received(&mut device).unwrap().1, numbered(2, 60), "{text}");
    }
}

/// A monitor that goes away and comes again: frames meanwhile are lost and counted, and the rings
/// go on where they stopped.
#[test]
fn a_guest_may_go_and_come_back() {
    let path = path("again");
    let mut device = open(&path);
    assert!(!device.is_up().unwrap());
    push(&mut device, VnetHdr::default(), &numbered(0, 60), 0);
    device.commit().unwrap();
    for round in 0..3u64 {
        let mut guest = TestGuest::connect(&path, Setup::default(), || device.attend().unwrap());
        assert!(device.is_up().unwrap());
        push(&mut device, VnetHdr::default(), &numbered(1, 60), 0);
        assert!(guest.send(0, NONE, &numbered(2, 60)));
        device.commit().unwrap();
        assert_eq!(guest.receive(0).unwrap().1, numbered(1, 60));
        assert_eq!(received(&mut device).unwrap().1, numbered(2, 60));
        // A stopped ring tells where it goes on, and its frames wait.
        let mut serve = || device.attend().unwrap();
        let base = guest.stop(1, &mut serve);
        assert_eq!(base, 1);
        assert!(guest.send(0, NONE, &numbered(3, 60)));
        assert!(received(&mut device).is_none() && !device.is_up().unwrap());
        guest.start(1, 1, &mut || device.attend().unwrap());
        assert_eq!(received(&mut device).unwrap().1, numbered(3, 60));
        guest.enable(1, false, &mut || device.attend().unwrap());
        assert!(guest.send(0, NONE, &numbered(4, 60)));
        assert!(received(&mut device).is_none());
        guest.enable(1, true, &mut || device.attend().unwrap());
        assert_eq!(received(&mut device).unwrap().1, numbered(4, 60));
        // The memory may be told again while the rings run.
        guest.tell_memory(&mut || device.attend().unwrap());
        assert!(guest.send(0, NONE, &numbered(5, 60)));
        assert_eq!(received(&mut device).unwrap().1, numbered(5, 60));
        // After a reset nothing passes.
        guest.ask(34, &[], &[], &mut || device.attend().unwrap());
        assert!(!device.is_up().unwrap());
        push(&mut device, VnetHdr::default(), &numbered(1, 60), 0);
        device.commit().unwrap();
        drop(guest);
        // A process that another test begins may have the connection until it runs its program.
        let (mut said, until) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while said.len() < 3 && Instant::now() < until {
            device.attend().unwrap();
            said.extend(news(&mut device));
            std::thread::yield_now();
        }
        assert_eq!(device.counters().tx_lost_down, 2 + round);
        assert_eq!(said, ["a machine is connecting", "the machine is connected", "the machine has gone"]);
    }
    assert_eq!(device.take_fates(), Fates { delivered: 3, lost: 4 });
    drop(device);
    assert!(!path.exists(), "the socket goes with the device");
}

/// Messages that make no sense end the connection with a reason, and nothing else.
#[test]
fn wrong_messages_end_the_connection() {
    let word = |all: &[u32]| all.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
    let file = std::fs::File::open("/dev/null").unwrap();
    let fds = [std::os::fd::AsFd::as_fd(&file)];
    let region = |size: u64| [word(&[1, 0]), [BASE, size, 0, 0].map(u64::to_ne_bytes).concat()].concat();
    let cases: [(u32, u32, Vec<u8>, bool, &str); 10] = [
        (1, 3, vec![], false, "sent message GET_FEATURES: expected version 1 of the protocol, given 3"),
        (99, 1, vec![], false, "sent message number 99: this device does not have it"),
        (8, 1, word(&[0]), false, "sent message SET_VRING_NUM: expected at least 8 bytes, given 4"),
        (8, 1, word(&[17, 64]), false, "sent message SET_VRING_NUM: expected a ring below 17, given 17"),
        (
            8,
            1,
            word(&[0, 3]),
            false,
            "sent message SET_VRING_NUM: expected a power of two up to 32768, given 3",
        ),
        (12, 1, word(&[0, 0]), false, "sent message SET_VRING_KICK: expected one descriptor, given 0"),
        (5, 1, region(4096), false, "sent message SET_MEM_TABLE: expected 1 descriptors, given 0"),
        (
            5,
            1,
            region(4096),
            true,
            "sent message SET_MEM_TABLE: region 0: expected a file of at least 4096 bytes, given 0",
        ),
        (
            9,
            1,
            [word(&[0, 0]), vec![0xff; 32]].concat(),
            false,
            "sent message SET_VRING_ADDR: expected 1024 bytes in the memory of SET_MEM_TABLE, given 0xffffffffffffffff",
        ),
        (
            24,
            1,
            word(&[200, 57, 0]),
            false,
            "sent message GET_CONFIG: expected a range below 256, given 200+57",
        ),
    ];
    let path = path("wrong");
    let mut device = open(&path);
    for (number, flags, body, with_fd, text) in cases {
        let mut guest = TestGuest::connect(&path, Setup::default(), || device.attend().unwrap());
        news(&mut device);
        guest.send_message(number, flags, &body, if with_fd { &fds } else { &[] });
        device.attend().unwrap();
        assert_eq!(news(&mut device), [format!("the machine is disconnected: its monitor {text}")]);
        assert!(guest.is_closed() && !device.is_up().unwrap());
    }
    // A message that comes in pieces is whole in the end.
    let mut guest = TestGuest::connect(&path, Setup::default(), || device.attend().unwrap());
    assert_eq!(guest.ask_in_pieces(17, &mut || device.attend().unwrap()), 16);
}

/// The configuration space says how many pairs there are, and the queue of commands takes how many
/// are used.
#[test]
fn a_guest_chooses_its_pairs_by_a_command() {
    let features = ALL | 1 << 17 | 1 << 22;
    let (mut device, mut guest) =
        connected("command", Setup { features, pairs: 8, commands: true, ..Setup::default() });
    guest.send_message(24, 1, &[8u32, 2, 0].map(u32::to_ne_bytes).concat(), &[]);
    let config = guest.reply(24, &mut || device.attend().unwrap());
    assert_eq!(config[12..], [8, 0]);
    let spread = |device: &mut LinkIo, guest: &mut TestGuest| {
        for hash in 0..16 {
            push_as(device, VnetHdr::default(), &numbered(hash, 60), |meta| meta.hash = hash);
        }
        device.commit().unwrap();
        (0..8).map(|pair| std::iter::from_fn(|| guest.receive(pair)).count()).collect::<Vec<_>>()
    };
    assert_eq!(
        spread(&mut device, &mut guest),
        [16, 0, 0, 0, 0, 0, 0, 0],
        "one pair until it says otherwise"
    );
    for (pairs, answer) in [(4, 0), (9, 1), (0, 1)] {
        let mut serve = || {
            device.attend().unwrap();
            device.reap(&mut |_| {});
        };
        assert_eq!(guest.command([4, 0], pairs, &mut serve), answer, "{pairs}");
        assert_eq!(spread(&mut device, &mut guest), [4, 4, 4, 4, 0, 0, 0, 0]);
    }
    let mut serve = || device.attend().unwrap();
    assert_eq!(guest.command([0, 0], 1, &mut serve), 1, "there is no other command");
    news(&mut device);
    let (table, buffer) = (guest.rings[16].places[0], guest.buffer(16, 0));
    guest.describe(table, 0, (buffer, 1), 3, 1);
    guest.describe(table, 1, (buffer, 4), 0, 0);
    guest.offer(16, 0);
    guest.kick(16);
    device.attend().unwrap();
    let text = "a buffer is to be written where it is read, or read where written";
    assert_eq!(news(&mut device), [format!("ring 16 of the guest has stopped: {text}")]);
}

/// A driver that has commands and has not accepted several pairs has its commands at the third ring
/// (VIRTIO 1.2 section 5.1.2): all frames go to its one pair.
#[test]
fn one_pair_has_its_commands_at_the_third_ring() {
    let features = ALL | 1 << 17;
    let setup = Setup { features, commands: true, ..Setup::default() };
    let (mut device, mut guest) = connected("third", setup);
    for _ in 0..2 {
        for hash in 0..16 {
            push_as(&mut device, VnetHdr::default(), &numbered(hash, 60), |meta| meta.hash = hash);
        }
        device.commit().unwrap();
        assert_eq!(std::iter::from_fn(|| guest.receive(0)).count(), 16);
        let mut serve = || device.attend().unwrap();
        assert_eq!(guest.command([4, 0], 1, &mut serve), 1, "it has no pairs to choose");
        assert_eq!(guest.command([0, 0], 1, &mut serve), 1);
    }
    assert!(guest.send(0, NONE, &numbered(1, 60)));
    assert_eq!(received(&mut device).unwrap().1, numbered(1, 60));
    assert_eq!((device.counters().rx_ring_errors, device.is_full()), (0, false));
}

/// A socket that cannot be made says why.
#[test]
fn errors_of_the_socket() {
    let taken = path("taken");
    let _device = open(&taken);
    let message = |text: String| text.parse::<Endpoint>().unwrap().open(&LinkOptions::default()).unwrap_err();
    let error = message(format!("vhost:{}", taken.display()));
    assert!(matches!(error.cause, OpenCause::SocketTaken) && error.is_in_use());
    assert_eq!(
        error.to_string(),
        format!(
            "link `vhost:{}`: another process listens at this socket already: stop it, or give another path",
            taken.display()
        )
    );
    assert_eq!(
        message("vhost:/dev/null".to_owned()).to_string(),
        "link `vhost:/dev/null`: there is a file of this name that is not a socket"
    );
    assert_eq!(
        message("vhost:/no/such/vm0".to_owned()).to_string(),
        "cannot make the socket `vhost:/no/such/vm0`: No such file or directory (os error 2)"
    );
    assert_eq!(
        message(format!("vhost:/{}", "x".repeat(107))).to_string(),
        format!(
            "link `vhost:/{}`: the path of a socket has at most 107 bytes, this one has 108",
            "x".repeat(107)
        )
    );
    // A socket to which nobody can connect is in use as well.
    let bound = path("bound");
    let early = std::os::unix::net::UnixDatagram::bind(&bound).unwrap();
    let error = message(format!("vhost:{}", bound.display()));
    assert!(matches!(error.cause, OpenCause::SocketTaken) && bound.exists());
    drop(early);
    std::fs::remove_file(&bound).unwrap();
    // The socket of a process that was killed is replaced.
    let stale = path("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    drop(open(&stale));
    assert!(!stale.exists());
}
