//! Round trips of TCP streams, taken from the packets at the sender's device by the rule of `txweir
//! try`: from data sent to the acknowledgement that covers it; no data is timed while a
//! retransmission is unacknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};
use txweir_device::testnet::NetNs;

/// All protocols, in network order (packet(7)).
const ETH_P_ALL: u32 = (0x0003_u16).to_be() as u32;
/// Room for the packets that come while the thread waits for a processor.
const BUFFER: usize = 16 << 20;
/// Time between two looks of the thread whether the run is over.
const LOOK: Duration = Duration::from_millis(100);
/// Headers of Ethernet, IPv4 and TCP, with all options that they can have.
const HEADERS_MAX: usize = 14 + 60 + 60;

/// The fields of a TCP segment that tell the data that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    source: u16,
    destination: u16,
    seq: u32,
    ack: u32,
    payload: u32,
}

impl Segment {
    /// Reads a frame; `None` if it is not TCP over IPv4.
    fn read(frame: &[u8]) -> Option<Self> {
        let u16_at = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        let ip = 14;
        if u16_at(12)? != 0x0800 || *frame.get(ip + 9)? != 6 {
            return None;
        }
        let tcp = ip + usize::from(frame[ip] & 0xf) * 4;
        let headers = tcp - ip + usize::from(*frame.get(tcp + 12)? >> 4) * 4;
        Some(Self {
            source: u16_at(tcp)?,
            destination: u16_at(tcp + 2)?,
            seq: u32_at(tcp + 4)?,
            ack: u32_at(tcp + 8)?,
            payload: u32::from(u16_at(ip + 2)?).saturating_sub(headers as u32),
        })
    }
}

/// True if `a` is after `b` (RFC 9293 section 3.4).
const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// One connection.
#[derive(Default)]
struct Trips {
    /// Sequence number after the data, and the time of sending.
    out: VecDeque<(u32, Duration)>,
    highest: Option<u32>,
    /// Until this is acknowledged, no data is timed.
    recover: Option<u32>,
}

impl Trips {
    /// Notes sent data. Returns the bytes of it that were sent before.
    fn sent(&mut self, at: Duration, segment: &Segment) -> u32 {
        let end = segment.seq.wrapping_add(segment.payload);
        let highest = self.highest.unwrap_or(segment.seq);
        let again = if after(highest, segment.seq) {
            self.out.clear();
            self.recover = Some(highest);
            highest.wrapping_sub(segment.seq).min(segment.payload)
        } else {
            0
        };
        if after(end, highest) {
            self.highest = Some(end);
            if self.recover.is_none() {
                self.out.push_back((end, at));
            }
        }
        again
    }

    /// Returns the time that the latest data took that this acknowledgement covers.
    fn acknowledged(&mut self, at: Duration, segment: &Segment) -> Option<Duration> {
        if self.recover.is_some_and(|until| !after(until, segment.ack)) {
            self.recover = None;
        }
        let mut took = None;
        while let Some(&(end, sent)) = self.out.front()
            && !after(end, segment.ack)
        {
            took = Some(at.saturating_sub(sent));
            self.out.pop_front();
        }
        took
    }
}

/// The findings about the connections to one port.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Nanoseconds.
    pub times: Vec<u64>,
    /// Payload sent again, bytes.
    pub again: u64,
}

/// The thread that watches the packets of a namespace.
pub struct Capture(JoinHandle<BTreeMap<u16, Seen>>);

impl Capture {
    /// Begins when `start` is set. Counts the packets from `warmup` to `end` after it, and ends
    /// then.
    pub fn start(netns: &NetNs, start: Arc<OnceLock<Instant>>, warmup: Duration, end: Duration) -> Self {
        let socket = netns.enter(|| {
            let all = Protocol::from_raw(ETH_P_ALL.try_into().expect("not zero"));
            socket(AddressFamily::PACKET, SocketType::RAW, Some(all)).expect("a packet socket")
        });
        set_socket_recv_buffer_size_force(&socket, BUFFER).expect("the buffer");
        set_socket_timeout(&socket, Timeout::Recv, Some(LOOK)).expect("a timeout");
        Self(thread::spawn(move || watch(&socket, *start.wait(), warmup, end)))
    }

    /// Waits for its end. Returns the findings, by the port that data goes to.
    pub fn end(self) -> BTreeMap<u16, Seen> {
        self.0.join().expect("the capture")
    }
}

fn watch(socket: &OwnedFd, start: Instant, warmup: Duration, end: Duration) -> BTreeMap<u16, Seen> {
    let (mut connections, mut seen) = (BTreeMap::<u16, Trips>::new(), BTreeMap::<u16, Seen>::new());
    let mut frame = [0; HEADERS_MAX];
    loop {
        let got = recv(socket, &mut frame, RecvFlags::empty());
        let now = start.elapsed();
        if now >= end {
            return seen;
        }
        let Some(segment) = got.ok().and_then(|(len, _)| Segment::read(&frame[..len])) else { continue };
        let counts = now >= warmup;
        // The side that sends data has a port of its own choice, far above those that listen.
        if segment.source > segment.destination {
            let again = connections.entry(segment.destination).or_default().sent(now, &segment);
            if counts {
                seen.entry(segment.destination).or_default().again += u64::from(again);
            }
        } else {
            let took = connections.entry(segment.source).or_default().acknowledged(now, &segment);
            if let Some(took) = took.filter(|_| counts) {
                seen.entry(segment.source).or_default().times.push(took.as_nanos() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn segment(seq: u32, payload: u32, ack: u32) -> Segment {
        Segment { source: 40_000, destination: 2000, seq, ack, payload }
    }

    #[test]
    fn data_is_timed_until_something_is_sent_again() {
        let ms = Duration::from_millis;
        let (mut trips, begin) = (Trips::default(), u32::MAX - 100);
        let at = |n: u32| begin.wrapping_add(n);
        assert_eq!(trips.sent(ms(0), &segment(at(0), 100, 0)), 0);
        assert_eq!(trips.sent(ms(10), &segment(at(100), 100, 0)), 0);
        assert_eq!(trips.acknowledged(ms(40), &segment(0, 0, at(0))), None);
        assert_eq!(trips.acknowledged(ms(40), &segment(0, 0, at(200))), Some(ms(30)), "the latest");
        trips.sent(ms(50), &segment(at(200), 100, 0));
        trips.sent(ms(50), &segment(at(300), 100, 0));
        // The first of them again: data in flight is not timed, nor data sent until it is
        // acknowledged.
        assert_eq!(trips.sent(ms(60), &segment(at(200), 100, 0)), 100);
        trips.sent(ms(61), &segment(at(400), 100, 0));
        assert_eq!(trips.acknowledged(ms(90), &segment(0, 0, at(400))), None);
        trips.sent(ms(91), &segment(at(500), 100, 0));
        assert_eq!(trips.acknowledged(ms(99), &segment(0, 0, at(600))), Some(ms(8)));
    }

    #[test]
    fn a_frame_is_read() {
        let mut frame = [0; 14 + 20 + 32];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&1500_u16.to_be_bytes());
        frame[23] = 6;
        frame[34..36].copy_from_slice(&40_000_u16.to_be_bytes());
        frame[36..38].copy_from_slice(&2000_u16.to_be_bytes());
        frame[38..42].copy_from_slice(&7_u32.to_be_bytes());
        frame[42..46].copy_from_slice(&9_u32.to_be_bytes());
        frame[46] = 8 << 4;
        assert_eq!(Segment::read(&frame), Some(segment(7, 1448, 9)));
        for len in 0..47 {
            assert_eq!(Segment::read(&frame[..len]), None, "{len} bytes");
        }
        frame[23] = 17;
        assert_eq!(Segment::read(&frame), None);
    }
}
