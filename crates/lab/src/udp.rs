//! Applications over UDP: numbered packets at a constant rate, with the sink that counts them
//! ([`Source`], [`Sink`]); calls ([`voice`]); video ([`video`]); questions and answers ([`ask`]).

pub mod ask;
pub mod emodel;
pub mod video;
pub mod voice;

use hdrhistogram::Histogram;

use crate::dist::{histogram, record};
use crate::frame::{Frame, put};
use crate::ip::{Addr, Family, Header};
use crate::tagged::ETHERNET;
use crate::tcp::Label;
use txweir_core::base::time::{Instant, Nanos};
use txweir_core::packet::headers::protocol;

/// Bytes of the header of UDP.
const UDP: u32 = 8;
/// Bytes of the packet's number, which follows the headers, and of a word that some applications
/// add.
const NUMBER: u32 = 8;
/// Largest number of bytes of a packet that are kept.
const KEPT: usize = HEADERS_MAX + 2 * NUMBER as usize;
/// Bytes of the longest headers of IP and UDP.
pub(crate) const HEADERS_MAX: usize = Family::HEADER_MAX + UDP as usize;

/// Returns the bytes of the headers of IP and UDP.
pub(crate) const fn headers(family: Family) -> u32 {
    family.header() as u32 + UDP
}
/// Returns the bytes of the least frame of UDP with a number, Ethernet header included; 60 is the
/// least that Ethernet has (IEEE 802.3, without the FCS).
pub(crate) const fn frame_min(family: Family) -> u32 {
    let len = ETHERNET + headers(family) + NUMBER;
    if len < 60 { 60 } else { len }
}
/// Returns the largest payload of a datagram that fits an Ethernet frame.
pub(crate) const fn payload_max(family: Family) -> u32 {
    1_500 - headers(family)
}

/// Writes the headers of a datagram from one address to another at the beginning of `out`, which is
/// all zeros; the packet has `ip_len` bytes.
pub(crate) fn write_headers<const N: usize>(
    out: &mut [u8; N],
    (local, remote): (Addr, Addr),
    &Label { family, hash, .. }: &Label,
    ds: u8,
    ip_len: u32,
) {
    let hosts = [local.ip, remote.ip];
    Header { hosts, family, protocol: protocol::UDP, ds, hash, ip_len }.write(out);
    let at = family.header();
    let udp_len = ip_len.saturating_sub(at as u32) as u16;
    for (n, field) in [local.port, remote.port, udp_len].into_iter().enumerate() {
        put(out, at + 2 * n, field.to_be_bytes());
    }
}

/// Makes the packets of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Packets {
    addrs: (Addr, Addr),
    label: Label,
}

impl Packets {
    pub(crate) const fn new(local: Addr, remote: Addr, label: Label) -> Self {
        Self { addrs: (local, remote), label }
    }

    /// Returns a packet with this number and the word behind it, whose payload has `payload` bytes:
    /// at least 8, the first of which are the number, and at most what an IP packet holds.
    pub(crate) fn make(&self, now: Instant, number: u64, word: u64, payload: u32) -> Frame {
        let headers = headers(self.label.family);
        let ip_len = headers + payload.clamp(NUMBER, 65_535 - headers);
        let mut kept = [0; KEPT];
        write_headers(&mut kept, self.addrs, &self.label, self.label.ds, ip_len);
        put(&mut kept, headers as usize, number.to_be_bytes());
        put(&mut kept, (headers + NUMBER) as usize, word.to_be_bytes());
        let len = ((headers + 2 * NUMBER).min(ip_len)) as usize;
        let mut frame = Frame::headers(&kept[..len], headers as usize, ip_len);
        frame.sent = now;
        self.label.put(&mut frame, self.label.ds);
        frame
    }
}

/// A sender of numbered packets at a constant rate.
#[derive(Clone, Debug)]
pub struct Source {
    packets: Packets,
    payload: u32,
    rate: u64,
    next_at: Instant,
    until: Instant,
    launch: Nanos,
    /// Numerator of the nanoseconds left over by the last division.
    remainder: u64,
    sent: u64,
}

impl Source {
    /// Returns a sender of frames of `len` bytes (Ethernet header included, at least 50, over IPv6
    /// 70) at `rate` bit/s of such frames, from `start` to before `until`. A rate of zero sends
    /// nothing.
    pub fn new(
        local: Addr,
        remote: Addr,
        label: Label,
        len: u32,
        rate: u64,
        start: Instant,
        until: Instant,
    ) -> Self {
        let payload = len.saturating_sub(ETHERNET + headers(label.family));
        let packets = Packets::new(local, remote, label);
        Self { packets, payload, rate, next_at: start, until, launch: Nanos::ZERO, remainder: 0, sent: 0 }
    }

    /// Gives each packet a launch time: so long after it is sent, at most 4.29 s; zero for none.
    #[must_use]
    pub const fn launch(mut self, launch: Nanos) -> Self {
        self.launch = launch;
        self
    }

    /// Returns the time of the next packet.
    pub fn poll_at(&self) -> Option<Instant> {
        (self.rate > 0 && self.next_at < self.until).then_some(self.next_at)
    }

    /// Returns the packet due at `now`, if there is one. The sender never waits: a packet that a
    /// full queue refuses is lost, and is not sent again.
    pub fn poll(&mut self, now: Instant) -> Option<Frame> {
        self.poll_at().filter(|at| *at <= now)?;
        let mut frame = self.packets.make(now, self.sent, 0, self.payload);
        frame.ahead = u32::try_from(self.launch.0).unwrap_or(u32::MAX);
        self.sent += 1;
        let ns = u128::from(frame.len()) * 8_000_000_000 + u128::from(self.remainder);
        self.remainder = (ns % u128::from(self.rate)) as u64;
        self.next_at += Nanos(u64::try_from(ns / u128::from(self.rate)).unwrap_or(u64::MAX));
        Some(frame)
    }

    /// Returns the number of packets made.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}

/// How many numbers, the last ones, a receiver remembers: a copy that an emulated link makes seldom
/// comes after more.
const REMEMBERED: u64 = 1024;

/// A receiver of such packets.
#[derive(Clone, Debug)]
pub struct Sink {
    /// One-way delay in nanoseconds.
    pub delay: Histogram<u64>,
    received: u64,
    bytes: u64,
    /// The number after the highest one seen.
    highest: u64,
    reordered: u64,
    /// Packets that came again.
    again: u64,
    /// One bit for each of the last numbers, at the number: true if its packet has come.
    come: [u64; (REMEMBERED / 64) as usize],
}

impl Default for Sink {
    fn default() -> Self {
        let come = [0; (REMEMBERED / 64) as usize];
        Self { delay: histogram(), received: 0, bytes: 0, highest: 0, reordered: 0, again: 0, come }
    }
}

impl Sink {
    /// Takes a packet.
    pub fn deliver(&mut self, now: Instant, frame: &Frame) {
        self.received += 1;
        self.bytes += u64::from(frame.len());
        record(&mut self.delay, now.saturating_since(frame.sent));
        let number = frame.head().number().unwrap_or(0);
        if self.note(number) {
            self.again += 1;
        } else {
            self.reordered += u64::from(number < self.highest);
        }
        self.highest = self.highest.max(number.saturating_add(1));
    }

    /// Notes that the packet of a number has come; true if it came before, as far as the receiver
    /// remembers.
    fn note(&mut self, number: u64) -> bool {
        if self.highest.saturating_sub(number) > REMEMBERED {
            return false;
        }
        // The numbers that are passed over take the places of older ones.
        for passed in self.highest..number.min(self.highest.saturating_add(REMEMBERED)) {
            let (word, bit) = place(passed);
            self.come[word] &= !bit;
        }
        let (word, bit) = place(number);
        let again = number < self.highest && self.come[word] & bit != 0;
        self.come[word] |= bit;
        again
    }

    /// Returns the number of packets received, those that came again included.
    pub const fn received(&self) -> u64 {
        self.received
    }
    /// Returns the bytes of frames received.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Returns the number of packets that came, for the first time, after a packet sent later.
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }
    /// Returns the number of packets that are missing before the highest number seen.
    pub const fn lost(&self) -> u64 {
        self.highest.saturating_sub(self.received - self.again)
    }
}

/// Returns the place of a number among those that a receiver remembers: the word, and its bit.
const fn place(number: u64) -> (usize, u64) {
    ((number % REMEMBERED / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Addr = Addr { ip: [10, 0, 0, 1], port: 1 };
    const B: Addr = Addr { ip: [10, 0, 0, 2], port: 2 };

    #[test]
    fn the_rate_is_exact_in_the_long_run() {
        let mut s = Source::new(A, B, Label::default(), 1000, 7_000_000, Instant(5), Instant(7_000_000_005));
        let mut n = 0;
        while let Some(at) = s.poll_at() {
            assert!(s.poll(Instant(at.0 - 1)).is_none());
            let f = s.poll(at).unwrap();
            assert_eq!((f.len(), f.header_len(), f.segs()), (1000, 42, 1));
            n += 1;
            if n == 8 {
                // Seven frames of 8000 bits at 7 Mbit/s are 8 ms.
                assert_eq!(at, Instant(8_000_005));
            }
        }
        assert_eq!((n, s.sent()), (6125, 6125));
    }

    #[test]
    fn the_sink_counts_what_is_missing_and_what_is_late() {
        let mut s = Source::new(A, B, Label::default(), 100, 1_000_000, Instant(0), Instant::MAX);
        let frames: Vec<_> = (0..5).map(|_| s.poll(s.poll_at().unwrap()).unwrap()).collect();
        let mut sink = Sink::default();
        for i in [0, 2, 1, 4] {
            sink.deliver(frames[i].sent + Nanos(1000), &frames[i]);
        }
        assert_eq!((sink.received(), sink.lost(), sink.reordered(), sink.bytes()), (4, 1, 1, 400));
        assert_eq!((sink.delay.len(), sink.delay.min(), sink.delay.max()), (4, 1000, 1000));
    }

    /// A packet that comes again is not another one that was missing, and none that was overtaken.
    #[test]
    fn the_sink_knows_what_comes_again() {
        let mut s = Source::new(A, B, Label::default(), 100, 1_000_000, Instant(0), Instant::MAX);
        let frames: Vec<_> = (0..3_000).map(|_| s.poll(s.poll_at().unwrap()).unwrap()).collect();
        let mut sink = Sink::default();
        let mut after = |numbers: &[usize]| {
            numbers.iter().for_each(|n| sink.deliver(frames[*n].sent, &frames[*n]));
            (sink.received(), sink.lost(), sink.reordered())
        };
        assert_eq!(after(&[0, 0, 2, 2, 1, 1, 2, 4]), (8, 1, 1));
        assert_eq!(after(&[2_999, 2_999]), (10, 2_995, 1));
        // The bit of packet 2048 was that of the first; and the fourth is not remembered.
        assert_eq!(after(&[2_048, 2_048]), (12, 2_994, 2));
        assert_eq!(after(&[3]), (13, 2_993, 3));
    }
}
