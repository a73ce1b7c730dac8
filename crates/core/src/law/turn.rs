//! Weighted turns of two queues by a credit of bytes, on numbers (RFC 9332 section 4.2.2 and
//! appendix A.2, "WRR"): the first queue goes first, and the second has its share while both have
//! packets.
//!
//! The credit determines whose turn it is. A packet of the first queue moves it towards the second,
//! by the second's share; a packet of the second moves it back, by the first's share. So over a
//! time in which both have packets their bytes are in the ratio of their shares. The credit changes
//! only when both queues had a packet. O(1); 24 bytes.

/// Shares are parts of a hundred.
const WHOLE: u32 = 100;

/// Turns of two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The second queue's share, in hundredths.
    share: u32,
    /// The credit of an idle pair.
    start: i64,
    /// Credit in hundredths of a byte; above zero it is the second queue's turn.
    credit: i64,
}

impl Turn {
    /// Returns turns in which the second queue has `share` hundredths, at most 100. An idle pair
    /// begins with a credit of one `frame` of bytes times the difference of the shares, so that the
    /// queue with the larger share goes first.
    #[must_use]
    pub const fn new(share: u32, frame: u32) -> Self {
        let share = if share < WHOLE { share } else { WHOLE };
        let start = frame as i64 * (share as i64 - (WHOLE - share) as i64);
        Self { share, start, credit: start }
    }
    /// Resets the credit, because the pair is idle.
    pub const fn restart(&mut self) {
        self.credit = self.start;
    }
    /// True if it is the second queue's turn, where both have packets.
    #[inline]
    #[must_use]
    pub(crate) const fn is_second(&self) -> bool {
        self.credit > 0
    }
    /// Charges the queue whose turn it was for a packet of `len` bytes, sent while the other had
    /// one too. The credit stays within one packet's bytes times 100 of zero, or of the credit of
    /// an idle pair.
    #[inline]
    pub const fn sent(&mut self, len: u32) {
        if self.is_second() {
            self.credit -= (WHOLE - self.share) as i64 * len as i64;
        } else {
            self.credit += self.share as i64 * len as i64;
        }
    }
    /// Returns the credit in hundredths of a byte: above zero it is the second queue's turn.
    #[must_use]
    pub const fn credit(&self) -> i64 {
        self.credit
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Returns, for each packet, true if the second queue sends it, and the credit after it.
    fn run(turn: &mut Turn, lens: &[u32]) -> Vec<(bool, i64)> {
        let each = |len: &u32| {
            let second = turn.is_second();
            turn.sent(*len);
            (second, turn.credit())
        };
        lens.iter().map(each).collect()
    }

    #[test]
    fn a_tenth_begins_below_zero_and_comes_round_in_ten_packets() {
        let mut turn = Turn::new(10, 1514);
        // 1514 * (10 - 90).
        assert_eq!(turn.credit(), -121_120);
        let steps = run(&mut turn, &[1514; 20]);
        // Nine packets of 15 140 each lead to 15 140 above zero; then one of the second takes 136
        // 260 back.
        let first: Vec<i64> = steps[..9].iter().map(|s| s.1).collect();
        assert_eq!(first, [-105_980, -90_840, -75_700, -60_560, -45_420, -30_280, -15_140, 0, 15_140]);
        assert_eq!(steps[9], (true, -121_120));
        assert!(steps[10..19].iter().all(|s| !s.0) && steps[19].0);
    }

    #[test]
    fn shares_of_nothing_and_of_all_are_strict() {
        let mut none = Turn::new(0, 1514);
        assert_eq!(none.credit(), -151_400);
        assert!(run(&mut none, &[1514; 100]).iter().all(|s| *s == (false, -151_400)));
        let mut all = Turn::new(100, 1514);
        assert_eq!(all.credit(), 151_400);
        assert!(run(&mut all, &[1514; 100]).iter().all(|s| *s == (true, 151_400)));
    }

    #[test]
    fn bytes_are_as_the_shares_whatever_the_sizes() {
        for share in [1, 10, 25, 50, 90] {
            let mut turn = Turn::new(share, 1514);
            let mut bytes = [0u64; 2];
            let mut rng = crate::base::rng::Rng::new(u64::from(share));
            for _ in 0..100_000 {
                let len = 60 + rng.below(1455) as u32;
                bytes[usize::from(turn.is_second())] += u64::from(len);
                turn.sent(len);
                assert!(turn.credit().unsigned_abs() <= 151_400);
            }
            let want = (bytes[0] + bytes[1]) * u64::from(share) / 100;
            assert!(bytes[1].abs_diff(want) < 2 * 1514, "{share}: {bytes:?}");
        }
    }

    #[test]
    fn idle_it_begins_anew() {
        let mut turn = Turn::new(10, 1514);
        turn.sent(1000);
        turn.restart();
        assert_eq!(turn, Turn::new(10, 1514));
    }
}
