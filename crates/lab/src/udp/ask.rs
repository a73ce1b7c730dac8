//! Questions and answers over UDP: look-ups of names, and netperf's UDP_RR.
//!
//! A client asks at random times (look-ups), or when the last answer has come (UDP_RR). It asks
//! again if an answer does not come in time, and gives up after the last try (resolv.conf(5):
//! `timeout:5`, `attempts:2`). A server answers each packet at once.

use std::collections::VecDeque;

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Nanos};

use super::Packets;
use crate::draw::exponential;
use crate::frame::Frame;
use crate::tcp::{Addr, Label};

/// Largest number of questions of one client that wait for an answer; further ones are not asked
/// and count as failed.
pub const OPEN_MAX: usize = 256;

/// Bytes of the open questions of one client at most.
pub(crate) const OPEN_BYTES: u64 = (OPEN_MAX * size_of::<Question>()) as u64;

/// Work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Bytes of a question, UDP payload, 8 to 65507.
    pub request: u32,
    /// Bytes of an answer, UDP payload, 8 to 65507.
    pub response: u32,
    /// Mean time between questions at random times; `None`: the questions follow one another.
    pub gap: Option<Nanos>,
    /// Wait for an answer, above zero.
    pub timeout: Nanos,
    /// Number of tries of a question, at least 1.
    pub tries: u32,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    number: u64,
    asked: Instant,
    deadline: Instant,
    tries: u32,
}

/// Counters of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Questions, each counted once.
    pub asked: u64,
    /// Questions answered in time.
    pub answered: u64,
    /// Questions given up.
    pub failed: u64,
    /// Packets sent again.
    pub again: u64,
}

impl Asked {
    /// Returns the difference from `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            asked: self.asked - earlier.asked,
            answered: self.answered - earlier.answered,
            failed: self.failed - earlier.failed,
            again: self.again - earlier.again,
        }
    }
    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            answered: self.answered + other.answered,
            failed: self.failed + other.failed,
            again: self.again + other.again,
        }
    }
}

/// A client, which asks questions.
#[derive(Clone, Debug)]
pub struct Client {
    packets: Packets,
    ask: Ask,
    rng: Rng,
    /// Open questions, in order of their deadlines.
    open: VecDeque<Question>,
    next_at: Option<Instant>,
    counts: Asked,
}

impl Client {
    /// Returns a client that asks first at `start`, or, for random times, after a gap from then.
    pub fn new(local: Addr, remote: Addr, label: Label, ask: Ask, start: Instant, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let first = start + ask.gap.map_or(Nanos::ZERO, |mean| exponential(&mut rng, mean));
        let (packets, open) = (Packets::new(local, remote, label), VecDeque::new());
        Self { packets, ask, rng, open, next_at: Some(first), counts: Asked::default() }
    }

    /// Returns the time of its next action.
    pub fn poll_at(&self) -> Option<Instant> {
        [self.open.front().map(|q| q.deadline), self.next_at].into_iter().flatten().min()
    }

    /// Returns a packet that is to leave at `now`, if there is one.
    pub fn poll(&mut self, now: Instant) -> Option<Frame> {
        while let Some(mut q) = self.open.front().copied().filter(|q| q.deadline <= now) {
            self.open.pop_front();
            if q.tries < self.ask.tries {
                (q.tries, q.deadline) = (q.tries + 1, now + self.ask.timeout);
                self.open.push_back(q);
                self.counts.again += 1;
                return Some(self.packets.make(now, q.number, 0, self.ask.request));
            }
            self.counts.failed += 1;
            self.wants_next(now);
        }
        while self.next_at.is_some_and(|at| at <= now) {
            let at = self.next_at.take().unwrap_or(now);
            // A gap of zero would ask for ever at one instant.
            self.next_at = self.ask.gap.map(|mean| at + exponential(&mut self.rng, mean).max(Nanos(1)));
            let number = self.counts.asked;
            self.counts.asked += 1;
            if self.open.len() >= OPEN_MAX {
                self.counts.failed += 1;
                continue;
            }
            self.open.push_back(Question { number, asked: now, deadline: now + self.ask.timeout, tries: 1 });
            return Some(self.packets.make(now, number, 0, self.ask.request));
        }
        None
    }

    /// Takes an answer. Returns the time from the first try; `None` if the question was answered or
    /// given up before.
    pub fn answered(&mut self, now: Instant, frame: &Frame) -> Option<Nanos> {
        let number = frame.head().number()?;
        let at = self.open.iter().position(|q| q.number == number)?;
        let q = self.open.remove(at)?;
        self.counts.answered += 1;
        self.wants_next(now);
        Some(now.saturating_since(q.asked))
    }

    const fn wants_next(&mut self, now: Instant) {
        if self.ask.gap.is_none() {
            self.next_at = Some(now);
        }
    }

    /// Returns the counters since the start.
    pub const fn counts(&self) -> Asked {
        self.counts
    }
}

/// A server, which answers questions.
#[derive(Clone, Debug)]
pub struct Server {
    packets: Packets,
    response: u32,
}

impl Server {
    /// Returns a server whose answers have `response` bytes.
    pub fn new(local: Addr, remote: Addr, label: Label, response: u32) -> Self {
        Self { packets: Packets::new(local, remote, label), response }
    }
    /// Returns the answer to a question.
    pub fn answer(&mut self, now: Instant, frame: &Frame) -> Frame {
        self.packets.make(now, frame.head().number().unwrap_or(0), 0, self.response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Addr = Addr { ip: [10, 0, 0, 1], port: 1 };
    const LOOKUPS: Ask = Ask {
        request: 40,
        response: 120,
        gap: Some(Nanos::from_millis(100)),
        timeout: Nanos::from_secs(5),
        tries: 2,
    };

    fn next(c: &mut Client) -> (Instant, Option<Frame>) {
        let at = c.poll_at().unwrap();
        (at, c.poll(at))
    }

    #[test]
    fn what_is_not_answered_is_asked_again_and_given_up() {
        let ask = Ask { gap: None, ..LOOKUPS };
        let mut c = Client::new(A, A, Label::default(), ask, Instant(0), 1);
        let mut s = Server::new(A, A, Label::default(), 120);
        let (at, first) = next(&mut c);
        assert_eq!((at, first.as_ref().map(Frame::len)), (Instant(0), Some(82)));
        let (at, second) = next(&mut c);
        assert_eq!(at, Instant::from_secs(5));
        // An answer to the first try counts from the first try, and only once.
        let answer = s.answer(Instant::from_secs(6), &first.unwrap());
        assert_eq!(answer.len(), 162);
        assert_eq!(c.answered(Instant::from_secs(6), &answer), Some(Nanos::from_secs(6)));
        assert_eq!(
            c.answered(Instant::from_secs(7), &s.answer(Instant::from_secs(7), &second.unwrap())),
            None
        );
        // The next question is never answered: two tries, then the one after it.
        for (at, number) in [(6, 1), (11, 1), (16, 2)] {
            let (when, f) = next(&mut c);
            assert_eq!((when, f.and_then(|f| f.head().number())), (Instant::from_secs(at), Some(number)));
        }
        assert_eq!(c.counts(), Asked { asked: 3, answered: 1, failed: 1, again: 2 });
    }

    #[test]
    fn random_questions_keep_their_rate_and_their_bound() {
        let mut c = Client::new(A, A, Label::default(), LOOKUPS, Instant(0), 1);
        while c.poll_at().unwrap() < Instant::from_secs(5) {
            next(&mut c);
        }
        let asked = c.counts().asked;
        assert!((35..=65).contains(&asked), "{asked}");
        let mut busy =
            Client::new(A, A, Label::default(), Ask { gap: Some(Nanos(1)), ..LOOKUPS }, Instant(0), 1);
        while busy.poll_at().unwrap() < Instant(10_000) {
            next(&mut busy);
        }
        assert_eq!(busy.open.len(), OPEN_MAX);
        assert!((busy.open.capacity() * size_of::<Question>()) as u64 <= OPEN_BYTES);
        assert_eq!(busy.counts().failed, busy.counts().asked - OPEN_MAX as u64);
    }
}
