//! Video: frames at a steady rate, each a burst of packets; every n-th frame is a large one that
//! does not depend on others (a key frame).
//!
//! A frame arrives with its last packet. It is late if its age then exceeds a deadline.

use std::collections::VecDeque;

use txweir_core::{Instant, Nanos};

use super::{Packets, Sink};
use crate::dist::Dist;
use crate::frame::Frame;
use crate::tcp::{Addr, Label};

/// Payload of a full packet: the size that fits the smallest path of IPv6 (RFC 8200 section 5), as
/// in WebRTC.
const PACKET: u32 = 1_200;
/// Ratio of the bytes of a key frame to those of another frame.
const KEY_RATIO: u64 = 5;
/// Largest number of packets of a frame.
const PACKETS_MAX: u64 = 1_024;
/// Largest number of incomplete frames of a viewer; it gives up the oldest for a newer one.
const WAITED_FOR_MAX: usize = 256;

/// Work of a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Video {
    /// Rate of the video, bit/s.
    pub rate: u64,
    /// Frames each second, 25 to 60.
    pub fps: u32,
    /// Distance between key frames, in frames, at least 1.
    pub key_every: u32,
    /// Largest age of a frame at its arrival.
    pub deadline: Nanos,
}

impl Video {
    /// Returns the bytes of a key frame, and of another frame.
    pub fn sizes(&self) -> (u64, u64) {
        let (every, fps) = (u64::from(self.key_every.max(1)), u64::from(self.fps.max(1)));
        let other = u128::from(self.rate / 8) * u128::from(every) / u128::from(fps * (every - 1 + KEY_RATIO));
        let other = u64::try_from(other).unwrap_or(u64::MAX);
        let most = u64::from(PACKET) * PACKETS_MAX;
        (other.saturating_mul(KEY_RATIO).clamp(1, most), other.clamp(1, most))
    }
    /// Returns the highest rate at which no frame has too many packets, bit/s.
    pub(crate) fn rate_max(&self) -> u64 {
        let (every, fps) = (u64::from(self.key_every.max(1)), u64::from(self.fps.max(1)));
        u64::from(PACKET) * PACKETS_MAX / KEY_RATIO * fps * (every - 1 + KEY_RATIO) / every * 8
    }
}

/// A camera, which sends frames.
#[derive(Clone, Debug)]
pub struct Camera {
    packets: Packets,
    video: Video,
    start: Instant,
    /// The present frame, and the number of its bytes and packets sent.
    frame: u64,
    gone: u64,
    index: u64,
    sent: u64,
}

impl Camera {
    /// Returns a camera that takes its first frame at `start`.
    pub fn new(local: Addr, remote: Addr, label: Label, video: Video, start: Instant) -> Self {
        let packets = Packets::new(local, remote, label);
        Self { packets, video, start, frame: 0, gone: 0, index: 0, sent: 0 }
    }

    /// Returns the time of the next packet: all packets of a frame are due at once.
    pub fn poll_at(&self) -> Option<Instant> {
        let ns = u128::from(self.frame) * 1_000_000_000 / u128::from(self.video.fps.max(1));
        Some(self.start + Nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Returns the packet due at `now`, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<Frame> {
        self.poll_at().filter(|at| *at <= now)?;
        let (key, other) = self.video.sizes();
        let size =
            if self.frame.is_multiple_of(u64::from(self.video.key_every.max(1))) { key } else { other };
        let of = size.div_ceil(u64::from(PACKET));
        let payload = (size - self.gone).min(u64::from(PACKET));
        // Number and count of packets are at most 1024; frame numbers wrap after two years at 60
        // frames a second.
        let word = (self.frame & 0xffff_ffff) << 32 | self.index << 16 | of;
        // Number and word take 16 bytes of each packet.
        let frame = self.packets.make(now, self.sent, word, (payload as u32).max(16));
        self.sent += 1;
        self.gone += payload;
        self.index += 1;
        if self.gone >= size {
            self.frame += 1;
            (self.gone, self.index) = (0, 0);
        }
        Some(frame)
    }

    /// Returns the number of packets made.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
    /// Returns the number of frames of which all packets were made.
    pub const fn frames(&self) -> u64 {
        self.frame
    }
}

/// A frame with missing packets.
#[derive(Clone, Debug)]
struct Part {
    frame: u64,
    /// One bit for each packet that has come.
    have: Box<[u64]>,
    missing: u64,
}

/// A viewer, which receives frames.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// Packets received.
    pub sink: Sink,
    deadline: Nanos,
    parts: VecDeque<Part>,
    /// Ages of frames at their arrival, since the last restart.
    pub ages: Dist,
    late: u64,
    /// The number after the highest frame of which a packet has come.
    seen: u64,
}

impl Viewer {
    /// Returns a viewer with this deadline.
    pub fn new(deadline: Nanos) -> Self {
        let (sink, ages, parts) = (Sink::default(), Dist::default(), VecDeque::new());
        Self { sink, deadline, parts, ages, late: 0, seen: 0 }
    }

    /// Takes a packet.
    pub fn deliver(&mut self, now: Instant, frame: &Frame) {
        self.sink.deliver(now, frame);
        let word = frame.head().word().unwrap_or(0);
        let (number, index, of) = (word >> 32, word >> 16 & 0xffff, word & 0xffff);
        if number >= self.seen {
            self.seen = number + 1;
            if self.parts.len() == WAITED_FOR_MAX {
                self.parts.pop_front();
            }
            let have = vec![0; of.div_ceil(64) as usize].into_boxed_slice();
            self.parts.push_back(Part { frame: number, have, missing: of });
        }
        // The viewer does not look for a frame all of whose packets are overtaken by the next one's
        // first: that takes a link that reorders by more than a frame's time.
        let Some(at) = self.parts.iter().position(|p| p.frame == number) else { return };
        let part = &mut self.parts[at];
        let Some(bits) = part.have.get_mut((index / 64) as usize) else { return };
        let bit = 1 << (index % 64);
        if *bits & bit != 0 {
            return;
        }
        *bits |= bit;
        part.missing -= 1;
        if part.missing == 0 {
            self.parts.remove(at);
            // All packets of a frame are made at the instant at which it is taken.
            let age = now.saturating_since(frame.sent);
            self.late += u64::from(age > self.deadline);
            self.ages.add(age);
        }
    }

    /// Returns the number of frames that arrived after the deadline, since the last restart.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Resets the counters; incomplete frames stay.
    pub fn restart(&mut self) {
        self.late = 0;
        self.ages.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Addr = Addr { ip: [10, 0, 0, 1], port: 1 };
    const VIDEO: Video = Video { rate: 2_400_000, fps: 30, key_every: 60, deadline: Nanos::from_millis(100) };

    #[test]
    fn frames_have_the_rate_and_come_at_their_times() {
        // 300000 bytes a second for 30 frames: sixty frames are 600000 bytes, in 59 shares and 5:
        // 9375 bytes each.
        assert_eq!(VIDEO.sizes(), (46_875, 9_375));
        let mut c = Camera::new(A, A, Label::default(), VIDEO, Instant(5));
        let (mut bytes, mut key) = (0, 0);
        while c.poll_at().unwrap() < Instant(2_000_000_005) {
            let f = c.poll(c.poll_at().unwrap()).unwrap();
            let payload = f.ip_len() - HEADERS_LEN;
            assert!(payload <= 1200);
            bytes += u64::from(payload);
            key += u64::from(c.frames() == 0);
        }
        // The key frame has 40 packets: 39 full ones and one of 75 bytes; the last packet completes
        // the frame.
        assert_eq!((bytes, c.frames(), key), (600_000, 60, 39));
        // Each other frame has 8 packets.
        assert_eq!(c.sent(), 40 + 59 * 8);
        assert_eq!(c.poll_at(), Some(Instant(2_000_000_005)));
        let most = Video { rate: VIDEO.rate_max(), ..VIDEO };
        assert!(most.sizes().0.div_ceil(1200) <= 1_024 && most.sizes().0.div_ceil(1200) > 1_020);
    }

    const HEADERS_LEN: u32 = super::super::headers(crate::ip::Family::V4);

    #[test]
    fn a_frame_is_there_with_its_last_packet() {
        let mut c = Camera::new(A, A, Label::default(), VIDEO, Instant::ZERO);
        let packets: Vec<Frame> = (0..56).map(|_| c.poll(c.poll_at().unwrap()).unwrap()).collect();
        let mut v = Viewer::new(VIDEO.deadline);
        let ms = |n: u64| Nanos::from_millis(n);
        // Of the 40 packets of the key frame, the last but one comes last, and one comes twice.
        for (i, p) in packets[..40].iter().enumerate().filter(|(i, _)| *i != 38) {
            v.deliver(p.sent + ms(i as u64), p);
        }
        v.deliver(packets[0].sent + ms(60), &packets[0]);
        assert_eq!(v.ages.count(), 0);
        v.deliver(packets[38].sent + ms(70), &packets[38]);
        assert_eq!((v.ages.count(), v.ages.sum_ns(), v.late()), (1, 70_000_000, 0));
        // The second frame lacks a packet, the third is late.
        packets[40..47].iter().for_each(|p| v.deliver(p.sent + ms(10), p));
        packets[48..].iter().for_each(|p| v.deliver(p.sent + ms(101), p));
        assert_eq!((v.ages.count(), v.late()), (2, 1));
    }
}
