//! A call: speech that comes in spurts, and a listener that plays it.
//!
//! **The speaker** alternates between talk and silence, both for exponential times, with means of
//! 1.2 s and 1.8 s: on and off by turns as in ITU-T P.59, with speech for two fifths of the time.
//! While it talks it sends 20 ms of G.711 in each packet: 160 bytes of sound and 12 of RTP. The
//! first packet of a spurt is marked (RFC 3551 section 4.1).
//!
//! **The listener** plays each spurt at a fixed distance behind the speaker, which it chooses when
//! a spurt begins: the mean delay so far and four times its mean deviation (Ramjee, Kurose,
//! Towsley, Schulzrinne, "Adaptive playout mechanisms for packetized audio applications", INFOCOM
//! 1994, algorithm 1). A packet that comes later than that is useless.

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Nanos};

use super::{Packets, Sink};
use crate::draw::exponential;
use crate::frame::Frame;
use crate::tcp::{Addr, Label};

/// Mean length of a spurt.
const TALK: Nanos = Nanos::from_millis(1_200);
/// Mean length of a silence.
const SILENCE: Nanos = Nanos::from_millis(1_800);
/// Length of the sound in a packet.
pub const PACKET: Nanos = Nanos::from_millis(20);
/// Bytes of UDP payload: 8000 bytes of G.711 each second, and the RTP header.
const PAYLOAD: u32 = 172;

/// A speaker, which sends a call's packets.
#[derive(Clone, Debug)]
pub struct Talker {
    packets: Packets,
    rng: Rng,
    next_at: Instant,
    until: Instant,
    first: bool,
    sent: u64,
}

impl Talker {
    /// Returns a speaker that begins to talk at `start`.
    pub fn new(local: Addr, remote: Addr, label: Label, start: Instant, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let until = start + exponential(&mut rng, TALK);
        Self { packets: Packets::new(local, remote, label), rng, next_at: start, until, first: true, sent: 0 }
    }

    /// Returns the time of the next packet.
    pub const fn poll_at(&self) -> Option<Instant> {
        Some(self.next_at)
    }

    /// Returns the packet due at `now`, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<Frame> {
        if self.next_at > now {
            return None;
        }
        let frame = self.packets.make(now, self.sent, self.first.into(), PAYLOAD);
        self.sent += 1;
        self.first = false;
        self.next_at += PACKET;
        if self.next_at >= self.until {
            self.next_at = self.until.max(self.next_at) + exponential(&mut self.rng, SILENCE);
            self.until = self.next_at + exponential(&mut self.rng, TALK);
            self.first = true;
        }
        Some(frame)
    }

    /// Returns the number of packets made.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}

/// Deviation of the delay that a listener assumes before the first packet.
const SPREAD_NS: i64 = 5_000_000;
/// Weight of one packet in mean and deviation, in millionths: 1 - 0.998002 (Ramjee et al.).
const WEIGHT_PPM: i64 = 1_998;

/// A listener, which plays a call's packets.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Counts of received packets.
    pub sink: Sink,
    /// Mean and deviation of the delay, nanoseconds; `None` before the first packet.
    delay: Option<(i64, i64)>,
    last_ns: i64,
    /// Distance of the present spurt behind the speaker.
    behind: Nanos,
    /// Sixteen times the jitter, nanoseconds.
    jitter16: u64,
    late: u64,
    /// Sum of the distances at which received packets are played.
    behind_sum: u128,
}

impl Default for Listener {
    fn default() -> Self {
        let (sink, behind) = (Sink::default(), Nanos::ZERO);
        Self { sink, delay: None, last_ns: 0, behind, jitter16: 0, late: 0, behind_sum: 0 }
    }
}

impl Listener {
    /// Takes a packet.
    pub fn deliver(&mut self, now: Instant, frame: &Frame) {
        self.sink.deliver(now, frame);
        let ns = i64::try_from(now.saturating_since(frame.sent).0).unwrap_or(i64::MAX / 4);
        let first = self.delay.is_none();
        let (mean, spread) = self.delay.unwrap_or((ns, SPREAD_NS));
        let mean = mean + (ns - mean) / 1_000 * WEIGHT_PPM / 1_000;
        let spread = spread + ((ns - mean).abs() - spread) / 1_000 * WEIGHT_PPM / 1_000;
        self.delay = Some((mean, spread));
        if first || frame.head().word() == Some(1) {
            self.behind = Nanos((mean + 4 * spread).max(0) as u64);
        }
        if !first {
            // RFC 3550 section 6.4.1: a sixteenth of the change of transit time, rounded.
            let change = (ns - self.last_ns).unsigned_abs();
            self.jitter16 = self.jitter16 + change - (self.jitter16 + 8) / 16;
        }
        self.last_ns = ns;
        self.late += u64::from(ns as u64 > self.behind.0);
        self.behind_sum += u128::from(self.behind.0);
    }

    /// Returns the counters since the last call of `restart`.
    pub const fn counts(&self) -> Heard {
        Heard { late: self.late, behind_sum: self.behind_sum, jitter: Nanos(self.jitter16 / 16) }
    }

    /// Resets the counters; the estimate of the delay stays.
    pub const fn restart(&mut self) {
        (self.late, self.behind_sum) = (0, 0);
    }
}

/// Counters of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Packets that came too late to be played.
    pub late: u64,
    /// Nanoseconds that packets were played behind the speaker, summed over packets.
    pub behind_sum: u128,
    /// Interarrival jitter (RFC 3550).
    pub jitter: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Addr = Addr { ip: [10, 0, 0, 1], port: 1 };

    fn talker() -> Talker {
        Talker::new(A, A, Label::default(), Instant(7), 1)
    }

    #[test]
    fn spurts_and_silences_have_their_means() {
        let mut t = talker();
        let (mut spurts, mut last) = (0_u64, Instant::ZERO);
        while t.next_at < Instant::from_secs(30_000) {
            let at = t.poll_at().unwrap();
            let f = t.poll(at).unwrap();
            assert_eq!(f.len(), 214);
            if f.head().word() == Some(1) {
                spurts += 1;
            } else {
                assert_eq!(at.saturating_since(last), PACKET);
            }
            last = at;
        }
        // A cycle takes 3 s, and on average half a packet more, by which a spurt ends later.
        let cycle = 30_000.0 / spurts as f64;
        assert!((2.94..3.08).contains(&cycle), "{cycle}");
        let per_spurt = t.sent() as f64 / spurts as f64;
        assert!((59.0..62.0).contains(&per_spurt), "{per_spurt}");
    }

    #[test]
    fn a_packet_after_its_time_is_late() {
        let (mut t, mut l) = (talker(), Listener::default());
        let mut hear = |delay_ms: u64| {
            let f = t.poll(t.poll_at().unwrap()).unwrap();
            l.deliver(f.sent + Nanos::from_millis(delay_ms), &f);
            l.counts()
        };
        // The first packet sets the distance: 50 ms, and four times 5 ms less a little.
        assert_eq!(hear(50).late, 0);
        let heard = hear(69);
        assert_eq!((heard.late, heard.jitter), (0, Nanos(19_000_000 / 16)));
        assert_eq!(hear(71).late, 1);
        let c = hear(50);
        assert!(c.behind_sum / 4 < 70_000_000 && c.behind_sum / 4 > 69_900_000, "{c:?}");
        assert_eq!((l.sink.received(), l.sink.lost()), (4, 0));
    }
}
