use ::smoltcp::phy::RxToken;
use txweir_core::packet::checksum::Sum;
use txweir_core::{Ecn, Env, PathConfig};

use super::*;

/// A device of IP packets with a number of slots, that keeps the first bytes of what it gets.
#[derive(Default)]
struct Slots {
    free: usize,
    /// Frames that wait to be received.
    waiting: usize,
    got: Vec<[u8; 40]>,
}

struct Slot<'a>(&'a mut Slots);

impl TxToken for Slot<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut room = [0; 1500];
        let result = f(&mut room[..len]);
        self.0.free -= 1;
        self.0.got.push(*room.first_chunk().unwrap());
        result
    }
}

struct Frame;

impl RxToken for Frame {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&[0; 40])
    }
}

impl Device for Slots {
    type RxToken<'a> = Frame;
    type TxToken<'a> = Slot<'a>;

    fn receive(&mut self, _: Time) -> Option<(Frame, Slot<'_>)> {
        self.waiting = self.waiting.checked_sub(1)?;
        Some((Frame, Slot(self)))
    }
    fn transmit(&mut self, _: Time) -> Option<Slot<'_>> {
        (self.free > 0).then_some(Slot(self))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        (caps.medium, caps.max_transmission_unit) = (Medium::Ip, 1500);
        caps
    }
}

fn checksum(header: &[u8]) -> u16 {
    Sum::default().bytes(header).checksum()
}

fn shaped(config: PathConfig, buffers: usize, qdisc: &str, options: &[&str]) -> Shaped<Slots> {
    let env = Env { mtu: 1500, link_header: 0, ..Env::default() };
    let path = TxPath::new(PathConfig { env, ..config }).unwrap().with_qdisc(qdisc, options).unwrap();
    let inner = Slots { got: Vec::with_capacity(10_000), ..Slots::default() };
    Shaped::new(inner, path, buffers, 1)
}

/// Writes an IPv4 packet of UDP from a port, with this TOS.
fn write(port: u16, tos: u8) -> impl FnOnce(&mut [u8]) {
    move |packet| {
        let [high, low] = (packet.len() as u16).to_be_bytes();
        packet.fill(0);
        packet[..12].copy_from_slice(&[0x45, tos, high, low, 0, 0, 0, 0, 64, 17, 0, 0]);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet[20..22].copy_from_slice(&port.to_be_bytes());
    }
}

/// Sends a packet if the stack gets a token.
fn send(shaped: &mut Shaped<Slots>, now: Time, port: u16, tos: u8) -> bool {
    shaped.transmit(now).map(|token| token.consume(1000, write(port, tos))).is_some()
}

fn ports(shaped: &mut Shaped<Slots>) -> Vec<u16> {
    shaped.inner().got.iter().map(|packet| u16::from_be_bytes([packet[20], packet[21]])).collect()
}

#[test]
fn the_stack_gets_a_token_while_there_is_room_and_a_buffer() {
    let now = Time::ZERO;
    // Four buffers, of which one is kept for a reply.
    let mut device = shaped(PathConfig::for_socket(), 4, "pfifo", &["limit", "10"]);
    assert_eq!(
        (0..5).map(|n| send(&mut device, now, n, 0)).collect::<Vec<_>>(),
        [true, true, true, false, false]
    );
    device.inner().waiting = 2;
    let (_, reply) = device.receive(now).expect("a buffer is left");
    reply.consume(1000, write(9, 0));
    assert!(device.receive(now).is_none(), "a reply to it would have no buffer");
    assert_eq!(device.inner().waiting, 1, "it waits at the device");
    device.inner().free = 2;
    assert_eq!(device.flush(now), Wake::Device);
    device.inner().free = 9;
    assert_eq!(device.flush(now), Wake::Idle);
    assert_eq!((ports(&mut device), device.lost()), (vec![0, 1, 2, 9], 0));
    // Room for one packet: the reply finds none, and its buffer is not lost.
    let mut device = shaped(PathConfig::for_socket(), 4, "pfifo", &["limit", "1"]);
    assert!(send(&mut device, now, 1, 0) && !send(&mut device, now, 2, 0));
    device.inner().waiting = 5;
    for _ in 0..5 {
        device.receive(now).expect("a buffer is left").1.consume(1000, write(9, 0));
    }
    assert_eq!((device.lost(), device.spare.len()), (5, 3));
}

/// One flow gets a part of the room of fq_codel, which the stack is not told before its frame is
/// there.
#[test]
fn a_frame_whose_flow_has_no_room_is_kept_and_holds_the_stack_back() {
    let now = Time::ZERO;
    let mut device = shaped(PathConfig::for_socket(), 64, "fq_codel", &["limit", "20"]);
    // Each packet has a number in its DSCP.
    let sent = (0..60).take_while(|n| send(&mut device, now, 1, n << 2)).count();
    let waiting = device.path().backlog().packets as usize;
    assert!((2..20).contains(&waiting), "{waiting}");
    assert_eq!((sent, device.lost(), device.spare.len()), (waiting + 1, 0, 63 - waiting));
    // Another flow has room, and waits for the frame before it.
    assert!(!send(&mut device, now, 2, 0));
    // A frame that leaves makes room for the one that is kept.
    device.inner().free = 1;
    assert_eq!(device.flush(now), Wake::Device);
    assert_eq!(device.path().backlog().packets as usize, waiting);
    assert!(send(&mut device, now, 2, 0));
    device.inner().free = 99;
    assert_eq!(device.flush(now), Wake::Idle);
    let got = &device.inner().got;
    let numbers: Vec<u8> = got.iter().filter(|p| p[21] == 1).map(|p| p[1] >> 2).collect();
    assert!(numbers.iter().copied().eq(0..sent as u8), "{numbers:?}");
    assert_eq!((got.len(), device.lost(), device.spare.len()), (sent + 1, 0, 64));
}

/// A bucket or a limit below the largest frame stops no smaller one.
#[test]
fn a_path_without_room_for_the_largest_frame_takes_a_smaller_one() {
    let bucket = ["rate", "8mbit", "burst", "1200", "limit", "9000"];
    for (qdisc, options) in [("tbf", &bucket[..]), ("bfifo", &["limit", "1200"][..])] {
        let mut device = shaped(PathConfig::for_socket(), 4, qdisc, options);
        assert!(send(&mut device, Time::ZERO, 1, 0), "{qdisc} {options:?}");
        device.inner().free = 1;
        assert_eq!(device.flush(Time::ZERO), Wake::Idle);
        assert_eq!((ports(&mut device), device.lost()), (vec![1], 0));
    }
}

#[test]
fn flows_are_told_apart_and_marks_are_written() {
    let options = ["limit", "60", "target", "1us", "interval", "2us", "flows", "1024"];
    let mut device = shaped(PathConfig::for_socket(), 64, "fq_codel", &options);
    let now = Time::from_millis(1);
    for _ in 0..10 {
        assert!(send(&mut device, now, 1, 2));
    }
    assert!(send(&mut device, now, 2, 2));
    for step in 1..=11 {
        device.inner().free = 1;
        let wake = device.flush(Time::from_millis(5 * step));
        assert_eq!(wake, if step < 11 { Wake::Device } else { Wake::Idle });
    }
    // The quantum is 1500 bytes, a turn of two packets of the first flow.
    let at = ports(&mut device).iter().position(|port| *port == 2);
    assert!(at.is_some_and(|at| at <= 2), "{:?}", ports(&mut device));
    let got = &device.inner().got;
    let marks = got.iter().filter(|packet| Ecn::from_ds(packet[1]) == Ecn::Ce).count();
    assert!(marks > 0 && marks < got.len(), "{marks}");
    assert!(got.iter().all(|packet| checksum(&packet[..20]) == 0));
}

#[test]
fn a_frame_allocates_nothing_sent_or_dropped() {
    let mut device = shaped(PathConfig::for_socket().forwarder(), 32, "fq_codel", &["limit", "8"]);
    assert!(device.transmit(Time::ZERO).is_some());
    let made = txweir_counted::calls(|| {
        for round in 0..500 {
            let now = Time::from_millis(round);
            for n in 0..16 {
                assert!(send(&mut device, now, n, 0));
            }
            device.inner().free = 16;
            assert_eq!(device.flush(now), Wake::Idle);
        }
    });
    assert_eq!(made, 0);
    let dropped = device.path().tree().root().books().dropped.packets;
    assert_eq!((device.inner().got.len(), dropped, device.spare.len()), (4000, 4000, 32));
}
