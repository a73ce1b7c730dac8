//! The transfer of data by TCP, on numbers of segments: Reno (RFC 5681) with selective acknowledgements (RFC 2018, 6675), a
//! receiver that acknowledges every so many segments, timers. No bytes, no handshake: those are with the machine.

use std::collections::VecDeque;

use txweir_core::{Instant, Nanos};

/// Least retransmission timeout: what BSD adds to the time of a round trip for the delayed acknowledgement of the other side.
pub(super) const RTO_MIN: Nanos = Nanos::from_millis(230);
/// Greatest.
const RTO_MAX: Nanos = Nanos::from_millis(64_000);
/// Segments beyond one that have arrived before it counts as lost (RFC 6675).
const DUP_THRESH: u32 = 3;
/// Segments that a connection begins with (RFC 3390).
const INITIAL: f64 = 3.0;

/// What is known of a segment that has been sent and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seg {
    Sent,
    Sacked,
    /// Lost, and to be sent again.
    Lost,
    Again,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// Every segment below has arrived.
    pub(super) next: u32,
    /// The block beyond it that arrived last; empty if there is none.
    pub(super) block: [u32; 2],
    /// When the segment that it answers was sent.
    pub(super) echo: Instant,
}

/// Segments to be sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) first: u32,
    pub(super) segs: u32,
    again: bool,
}

/// Who sends.
#[derive(Debug)]
pub(super) struct Sender {
    /// The first segment that is not acknowledged.
    una: u32,
    /// From there on what has been sent.
    board: VecDeque<Seg>,
    sacked: u32,
    /// Lost and not sent again.
    lost: u32,
    /// Beyond the last segment that has arrived; below `judged` it is known which are lost.
    high: u32,
    judged: u32,
    cwnd: f64,
    ssthresh: f64,
    /// Losses below this one are of the window that was halved already.
    recover: Option<u32>,
    /// Most segments that are on their way: the receiver's window or the send buffer.
    window: u32,
    srtt: Option<[u64; 2]>,
    timeouts: u32,
    /// When it gives up waiting.
    pub(super) deadline: Option<Instant>,
}

impl Sender {
    pub(super) fn new(window: u32) -> Self {
        Self {
            una: 0,
            board: VecDeque::new(),
            sacked: 0,
            lost: 0,
            high: 0,
            judged: 0,
            cwnd: INITIAL,
            ssthresh: f64::from(window),
            recover: None,
            window,
            srtt: None,
            timeouts: 0,
            deadline: None,
        }
    }

    /// The segment after the last that was sent.
    fn next(&self) -> u32 {
        // A window is below 2^32.
        self.una + self.board.len() as u32
    }

    /// The segment that it may not send yet, whatever the congestion: the end of its window.
    pub(super) const fn limit(&self) -> u32 {
        self.una.saturating_add(self.window)
    }

    /// What it would send now, of at most so many segments, before the one that is not written; `None` if it may not.
    pub(super) fn unit(&self, most: u32, written: u32) -> Option<Unit> {
        let flight = self.board.len() as u32 - self.sacked - self.lost;
        let room = (self.cwnd as u32).max(1).checked_sub(flight).filter(|room| *room > 0)?;
        if self.lost > 0 {
            let at = self.board.iter().position(|s| *s == Seg::Lost)?;
            return Some(Unit { first: self.una + at as u32, segs: 1, again: true });
        }
        let end = self.limit().min(written);
        let segs = end.saturating_sub(self.next()).min(room).min(most);
        (segs > 0).then(|| Unit { first: self.next(), segs, again: false })
    }

    /// It has been sent.
    pub(super) fn sent(&mut self, now: Instant, unit: Unit) {
        if unit.again {
            self.board[(unit.first - self.una) as usize] = Seg::Again;
            self.lost -= 1;
        } else {
            self.board.extend((0..unit.segs).map(|_| Seg::Sent));
        }
        if self.deadline.is_none() {
            self.deadline = Some(now + self.rto());
        }
    }

    /// The host's own queue had no room: nothing was lost, and it begins anew with one segment (as BSD does by source quench).
    pub(super) fn quench(&mut self, now: Instant) {
        self.cwnd = 1.0;
        if self.deadline.is_none() {
            self.deadline = Some(now + self.rto());
        }
    }

    fn rto(&self) -> Nanos {
        let base = self.srtt.map_or(3_000_000_000, |[mean, dev]| (mean + 4 * dev).max(RTO_MIN.0));
        Nanos((base << self.timeouts.min(6)).min(RTO_MAX.0))
    }

    /// An acknowledgement has come.
    pub(super) fn acked(&mut self, now: Instant, ack: Ack) {
        self.measure(now.saturating_since(ack.echo).0);
        let news = ack.next.saturating_sub(self.una);
        for _ in 0..news {
            match self.board.pop_front() {
                Some(Seg::Sacked) => self.sacked -= 1,
                Some(Seg::Lost) => self.lost -= 1,
                _ => {}
            }
            self.una += 1;
        }
        let (from, to) = (ack.block[0].max(self.una), ack.block[1].min(self.next()));
        for seq in from..to {
            let seg = &mut self.board[(seq - self.una) as usize];
            self.lost -= u32::from(*seg == Seg::Lost);
            self.sacked += u32::from(*seg != Seg::Sacked);
            *seg = Seg::Sacked;
        }
        if from < to {
            self.high = self.high.max(to);
        }
        if self.recover.is_some_and(|r| self.una >= r) {
            self.recover = None;
        }
        self.judge();
        if news > 0 {
            self.timeouts = 0;
            if self.recover.is_none() {
                let step = if self.cwnd < self.ssthresh { 1.0 } else { 1.0 / self.cwnd };
                self.cwnd = (self.cwnd + step * f64::from(news)).min(f64::from(self.window));
            }
        }
        self.deadline = match self.board.is_empty() {
            true => None,
            false if news > 0 => Some(now + self.rto()),
            false => self.deadline,
        };
    }

    fn measure(&mut self, ns: u64) {
        self.srtt = Some(match self.srtt {
            None => [ns, ns / 2],
            Some([mean, dev]) => [(7 * mean + ns) / 8, (3 * dev + mean.abs_diff(ns)) / 4],
        });
    }

    /// Finds out what is lost by what has arrived beyond it.
    fn judge(&mut self) {
        self.judged = self.judged.max(self.una);
        let mut found = false;
        while self.judged + DUP_THRESH < self.high {
            let seg = &mut self.board[(self.judged - self.una) as usize];
            if *seg == Seg::Sent {
                (*seg, found) = (Seg::Lost, true);
                self.lost += 1;
            }
            self.judged += 1;
        }
        if found && self.recover.is_none() {
            self.ssthresh = (self.board.len() as f64 / 2.0).max(2.0);
            self.cwnd = self.ssthresh;
            self.recover = Some(self.next());
        }
    }

    /// The time is up: all that has not arrived is lost, and it begins with one segment.
    pub(super) fn timed_out(&mut self, now: Instant) {
        self.ssthresh = (self.board.len() as f64 / 2.0).max(2.0);
        self.cwnd = 1.0;
        self.timeouts += 1;
        self.recover = Some(self.next());
        self.judged = self.next();
        self.lost = 0;
        for seg in &mut self.board {
            if *seg != Seg::Sacked {
                *seg = Seg::Lost;
                self.lost += 1;
            }
        }
        self.deadline = Some(now + self.rto());
    }
}

/// Who receives.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// All below has arrived.
    pub(super) next: u32,
    /// What has arrived beyond, in order, apart.
    beyond: Vec<[u32; 2]>,
    /// Segments in order that are not acknowledged yet.
    owed: u32,
    echo: Instant,
    /// When it acknowledges whatever it owes.
    pub(super) deadline: Option<Instant>,
}

impl Receiver {
    /// Segments arrive; an acknowledgement if one is due at once, which it is after `every`, and when something is missing.
    pub(super) fn arrived(&mut self, first: u32, segs: u32, sent: Instant, every: u32) -> Option<Ack> {
        let end = first + segs;
        if self.owed == 0 {
            self.echo = sent;
        }
        if first <= self.next && self.beyond.is_empty() && end > self.next {
            self.owed += end - self.next;
            self.next = end;
            return (self.owed >= every).then(|| self.ack([0; 2]));
        }
        self.echo = sent;
        let mut block = [first.max(self.next), end.max(self.next)];
        self.beyond.retain(|b| {
            let apart = b[1] < block[0] || b[0] > block[1];
            if !apart {
                block = [b[0].min(block[0]), b[1].max(block[1])];
            }
            apart
        });
        if block[0] == self.next {
            self.next = block[1];
            block = [0; 2];
        } else {
            let at = self.beyond.partition_point(|b| b[0] < block[0]);
            self.beyond.insert(at, block);
        }
        Some(self.ack(block))
    }

    /// The acknowledgement that it owes, if it does.
    pub(super) fn late(&mut self) -> Option<Ack> {
        (self.owed > 0).then(|| self.ack([0; 2]))
    }

    /// Whether something is to be acknowledged by `deadline`.
    pub(super) const fn owes(&self) -> bool {
        self.owed > 0
    }

    const fn ack(&mut self, block: [u32; 2]) -> Ack {
        self.owed = 0;
        self.deadline = None;
        Ack { next: self.next, block, echo: self.echo }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::rng::Rng;

    /// Whatever is lost on the way, all arrives, in order, and what both ends believe agrees.
    #[test]
    fn everything_arrives_whatever_is_lost() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut sender, mut receiver) = (Sender::new(30), Receiver::default());
            let mut now = Instant::ZERO;
            for _ in 0..100_000 {
                now += Nanos::from_millis(1);
                if sender.deadline.is_some_and(|d| d <= now) {
                    sender.timed_out(now);
                }
                if receiver.next == 500 {
                    break;
                }
                let mut acks = Vec::new();
                while let Some(unit) = sender.unit(4, 500) {
                    sender.sent(now, unit);
                    if rng.below(10) > 0 {
                        acks.extend(receiver.arrived(unit.first, unit.segs, now, 2));
                    }
                }
                acks.extend(receiver.late());
                for ack in acks {
                    assert!(ack.next <= 500 && ack.block[0] <= ack.block[1], "{ack:?}");
                    if rng.below(10) > 0 {
                        sender.acked(now, ack);
                    }
                }
            }
            assert_eq!(receiver.next, 500, "seed {seed}");
        }
    }

    /// One loss is repaired by three segments beyond it, and halves the window once.
    #[test]
    fn a_lost_segment_is_sent_again_once_and_halves_the_window() {
        let (mut sender, mut receiver, now) = (Sender::new(16), Receiver::default(), Instant::ZERO);
        sender.cwnd = 16.0;
        let unit = sender.unit(16, u32::MAX).unwrap();
        assert_eq!((unit.first, unit.segs), (0, 16));
        sender.sent(now, unit);
        for seq in 1..16 {
            let ack = receiver.arrived(seq, 1, now, 2).unwrap();
            assert_eq!((ack.next, ack.block), (0, [1, seq + 1]));
            sender.acked(now, ack);
        }
        assert_eq!((sender.lost, sender.cwnd), (1, 8.0));
        let again = sender.unit(16, u32::MAX).unwrap();
        assert_eq!((again.first, again.segs, again.again), (0, 1, true));
        sender.sent(now, again);
        sender.acked(now, receiver.arrived(0, 1, now, 2).unwrap());
        assert_eq!(
            (receiver.next, sender.una, sender.recover, sender.cwnd),
            (16, 16, None, 8.0 + 16.0 / 8.0)
        );
    }
}
