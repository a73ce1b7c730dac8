//! Measurements of groups while they run: transactions, one-way times, and round trips of TCP data.

use std::collections::VecDeque;

use txweir_core::{Instant, Nanos};

use super::ends::End;
use super::{GroupState, Load};
use crate::dist::Stepped;
use crate::frame::{FIN, Frame, SYN};

/// Largest number of concurrently timed round trips of one connection; further data is not timed
/// meanwhile. It exceeds the segments of any window here (64 MB), because a smaller number would
/// time few of the packets that meet a long queue, and bias the percentiles.
const SAMPLES: usize = 1 << 16;
/// The ACK flag of TCP.
const ACK: u8 = 16;

/// Times the data of one sender, from the transmit path to the acknowledgement that covers it. Data
/// sent during a retransmission is not timed (Karn and Partridge, "Improving round-trip time
/// estimates", 1987: an acknowledgement does not tell which of the two it answers; and data behind
/// a hole is acknowledged late).
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrips {
    /// Sequence number after the data, and the time at which it was sent.
    out: VecDeque<(u32, Instant)>,
    /// The sequence number after the highest one sent.
    highest: Option<u32>,
    /// Number whose acknowledgement resumes timing.
    recover: Option<u32>,
}

/// True if `a` is after `b` (RFC 9293 section 3.4).
const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Returns the first sequence number of a packet, and the one after its last, if it has some.
fn numbers(frame: &Frame) -> Option<(u32, u32)> {
    let control = u32::from(frame.head().tcp_flags() & (SYN | FIN) != 0);
    let seq = frame.head().tcp_seq();
    let end = seq.wrapping_add(frame.payload_len() + control);
    (end != seq).then_some((seq, end))
}

impl RoundTrips {
    pub(super) fn sent(&mut self, now: Instant, (seq, end): (u32, u32)) {
        match self.highest {
            Some(highest) if after(highest, seq) => {
                self.out.clear();
                self.recover = Some(highest);
                if !after(end, highest) {
                    return;
                }
            }
            _ => {}
        }
        self.highest = Some(end);
        if self.recover.is_none() && self.out.len() < SAMPLES {
            self.out.push_back((end, now));
        }
    }

    /// Takes an acknowledgement; returns the time of the latest data that it covers.
    pub(super) fn acknowledged(&mut self, now: Instant, frame: &Frame) -> Option<Nanos> {
        if frame.head().tcp_flags() & ACK == 0 {
            return None;
        }
        let ack = frame.head().tcp_ack();
        if self.recover.is_some_and(|recover| !after(recover, ack)) {
            self.recover = None;
        }
        let mut took = None;
        while let Some(&(end, at)) = self.out.front()
            && !after(end, ack)
        {
            took = Some(now.saturating_since(at));
            self.out.pop_front();
        }
        took
    }
}

/// Data that a watched net keeps.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Times by group: transactions (`rr`), one way (`cbr`), or from data sent to its
    /// acknowledgement (`stream`).
    pub(super) groups: Vec<Stepped>,
    /// Round trips by connection end; only senders of streams have them.
    trips: Vec<Option<RoundTrips>>,
}

impl Watch {
    /// Returns a watch of these groups, and of the senders of streams among these ends.
    pub(super) fn new(groups: &[GroupState], ends: &[End]) -> Self {
        let stream = |n: &u32| matches!(groups[*n as usize].group.load, Load::Stream);
        let sender = |(i, end): (usize, &End)| {
            Some(end.group).filter(|g| i % 2 == 0 && stream(g)).map(|_| RoundTrips::default())
        };
        let trips = ends.iter().enumerate().map(sender).collect();
        Self { groups: vec![Stepped::default(); groups.len()], trips }
    }
    /// Returns the numbers of a packet that an end hands to its NIC, if its round trips are timed.
    pub(super) fn numbers(&self, end: u32, frame: &Frame) -> Option<(u32, u32)> {
        self.trips.get(end as usize)?.as_ref().and_then(|_| numbers(frame))
    }
    /// Notes that the NIC has taken the packet with these numbers.
    pub(super) fn sent(&mut self, now: Instant, end: u32, numbers: (u32, u32)) {
        if let Some(Some(trips)) = self.trips.get_mut(end as usize) {
            trips.sent(now, numbers);
        }
    }
    pub(super) fn arrived(&mut self, now: Instant, end: u32, group: u32, frame: &Frame) {
        if let Some(Some(trips)) = self.trips.get_mut(end as usize)
            && let Some(took) = trips.acknowledged(now, frame)
        {
            self.add(group, took);
        }
    }
    pub(super) fn add(&mut self, group: u32, time: Nanos) {
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.add(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u32, ack: u32, payload: u32) -> Frame {
        let mut bytes = [0; 40];
        bytes[24..28].copy_from_slice(&seq.to_be_bytes());
        bytes[28..32].copy_from_slice(&ack.to_be_bytes());
        bytes[33] = ACK;
        Frame::headers(&bytes, 40, 40 + payload)
    }

    /// Returns the numbers of 100 bytes of data.
    fn data(seq: u32) -> (u32, u32) {
        numbers(&frame(seq, 0, 100)).unwrap()
    }

    #[test]
    fn an_acknowledgement_times_the_latest_data_it_covers() {
        let mut t = RoundTrips::default();
        let start = u32::MAX - 50;
        for i in 0..3_u32 {
            t.sent(Instant(u64::from(i) * 10), data(start.wrapping_add(i * 100)));
        }
        assert_eq!(t.acknowledged(Instant(100), &frame(0, start, 0)), None);
        assert_eq!(t.acknowledged(Instant(100), &frame(0, start.wrapping_add(200), 0)), Some(Nanos(90)));
        assert_eq!(t.acknowledged(Instant(130), &frame(0, start.wrapping_add(300), 0)), Some(Nanos(110)));
    }

    /// In a window of 3000 segments each segment is timed, not only the first ones.
    #[test]
    fn long_windows_are_timed_whole() {
        let (mut t, mut took) = (RoundTrips::default(), Vec::new());
        for i in 0..3000_u32 {
            t.sent(Instant(u64::from(i)), data(i * 100));
        }
        for i in 1..=3000_u32 {
            took.extend(t.acknowledged(Instant(u64::from(i) * 101), &frame(0, i * 100, 0)));
        }
        assert_eq!(took.len(), 3000);
        assert_eq!(took[1499], Nanos(1500 * 101 - 1499));
    }

    #[test]
    fn nothing_is_timed_until_what_was_sent_again_is_acknowledged() {
        let mut t = RoundTrips::default();
        t.sent(Instant(0), data(0));
        t.sent(Instant(1), data(100));
        t.sent(Instant(50), data(0));
        t.sent(Instant(51), data(200));
        assert_eq!(t.acknowledged(Instant(100), &frame(0, 200, 0)), None);
        t.sent(Instant(110), data(300));
        assert_eq!(t.acknowledged(Instant(160), &frame(0, 400, 0)), Some(Nanos(50)));
    }
}
