//! The record of a run while it is played: each packet that left the policy, each transaction, each
//! end of a transfer.

use std::cell::RefCell;
use std::rc::Rc;

use txweir_core::{Ecn, Instant, Nanos};

use super::line::Shares;
use crate::app::App;
use crate::frame::Frame;
use crate::net::Observer;
use crate::tcp::Conn;

/// A packet that left the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Departure time.
    pub at: Instant,
    /// Arrival time.
    pub came: Instant,
    /// Its flow.
    pub flow: u32,
    /// The number of its first byte; the number of the flow's SYN is random.
    pub seq: u32,
    /// Payload, bytes.
    pub len: u32,
    /// Flags of TCP.
    pub flags: u8,
    /// Number of its segments.
    pub segments: u64,
    /// True if it left with CE.
    pub marked: bool,
}

/// The entries of a run.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Packets, in order.
    pub left: Vec<Left>,
    /// Times of transactions, µs.
    pub took_us: Vec<u64>,
    /// By flow: the number of bytes that completes it, 0 for none, and the time of completion.
    pub transfers: Vec<(u64, Option<Instant>)>,
}

/// The listener that writes into a book. Every link but that of ACKs takes no time, so the time
/// from a packet's hand-over by its sender to its arrival is that in the policy.
#[derive(Debug)]
pub(super) struct Clerk(pub Rc<RefCell<Book>>);

impl Observer for Clerk {
    fn delivered(&mut self, now: Instant, frame: &Frame) {
        // Ends that open connections, the senders, have even numbers.
        if frame.to % 2 == 1 {
            self.0.borrow_mut().left.push(Left {
                at: now,
                came: frame.sent,
                flow: frame.to / 2,
                seq: frame.head().tcp_seq(),
                len: frame.payload_len(),
                flags: frame.head().tcp_flags(),
                segments: u64::from(frame.segs()),
                marked: frame.ecn() == Ecn::Ce,
            });
        }
    }

    fn polled(&mut self, now: Instant, end: u32, conn: &Conn, took: Option<Nanos>) {
        let mut book = self.0.borrow_mut();
        if let Some(took) = took {
            book.took_us.push(took.0 / 1_000);
        }
        if let App::Sink(sink) = conn.app()
            && let Some((total, done)) = book.transfers.get_mut(end as usize / 2)
            && *total > 0
            && done.is_none()
            && sink.read >= *total
        {
            *done = Some(now);
        }
    }
}

/// Returns the least value with at least `hundredths` of the weight at or below it; `None` without
/// values. `pairs` are (value, weight), sorted by value.
pub fn percentile(pairs: &[(u64, u64)], hundredths: u64) -> Option<u64> {
    let goal = u128::from(hundredths) * pairs.iter().map(|(_, w)| u128::from(*w)).sum::<u128>();
    let mut reached = 0;
    for (value, weight) in pairs {
        reached += 100 * u128::from(*weight);
        if reached >= goal {
            return Some(*value);
        }
    }
    pairs.last().map(|(value, _)| *value)
}

/// Returns the percentiles of values with weights.
pub(super) fn shares(mut pairs: Vec<(u64, u64)>) -> Shares {
    pairs.sort_unstable();
    let of = |hundredths| percentile(&pairs, hundredths);
    Shares { p10: of(10), p50: of(50), p90: of(90), p95: of(95), p99: of(99), max: of(100) }
}

/// Returns the percentiles of plain values.
pub(super) fn plain(values: impl Iterator<Item = u64>) -> Shares {
    shares(values.map(|v| (v, 1)).collect())
}

/// Returns Jain's index of fairness, in ten-thousandths like the recordings; `None` for fewer than
/// two values or without any byte.
pub(super) fn jain(values: &[u64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|v| *v as f64).sum();
    let squares: f64 = values.iter().map(|v| (*v as f64).powi(2)).sum();
    (values.len() > 1 && squares > 0.0)
        .then(|| (sum * sum / (values.len() as f64 * squares) * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_least_value_that_reaches_the_weight() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[(1, 1), (2, 1)], 50), Some(1));
        assert_eq!(percentile(&[(1, 1), (2, 1), (3, 1)], 50), Some(2));
        assert_eq!(percentile(&[(1, 1), (9, 45)], 10), Some(9));
        assert_eq!(percentile(&[(1, 1), (9, 45)], 0), Some(1));
    }

    #[test]
    fn fairness() {
        assert_eq!(jain(&[5]), None);
        assert_eq!(jain(&[5, 5]), Some(1.0));
        assert_eq!(jain(&[4, 0]), Some(0.5));
        assert_eq!(jain(&[0, 0]), None);
    }
}
