//! Limit on the traffic that goes first: a share of the bytes that leave, over a window.
//!
//! Two sorts of packets leave through one door: packets *ahead* and the *others*. Each byte of the
//! others earns credit, and each byte ahead costs some, so that the balance is even when the
//! packets ahead have their share. Credit never exceeds the share of [`WINDOW`]: an unused share is
//! not saved up beyond it.
//!
//! - B1: of any `n` bytes that leave in a row while others wait, at most `share * (n + WINDOW)` and
//!   one packet are bytes ahead.
//! - B2: while no others wait, no packet needs protection: nothing is charged, and credit is full
//!   when others come.
//! - B3: with a share above zero, packets ahead that have spent their credit go first again once
//!   the others have sent `(1 - share) / share` times the bytes of the last packet ahead.

use crate::base::chance::Percent;

/// Bytes over which a share is counted: about 43 full Ethernet frames, half a millisecond at 1
/// Gbit/s. With a window smaller than the largest super-packet, one such packet of the others would
/// decide many turns.
pub const WINDOW: u32 = 1 << 16;

/// Credit of the packets ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    share: Percent,
    /// Bytes, in units of `Percent`: 2^-32 of a byte.
    credit: i64,
}

impl Budget {
    /// Returns a budget with this share of the bytes and full credit. With a hundred percent,
    /// packets ahead always go first.
    pub const fn new(share: Percent) -> Self {
        Self { share, credit: Self::full(share) }
    }
    const fn full(share: Percent) -> i64 {
        WINDOW as i64 * share.0 as i64
    }
    /// Returns the share.
    pub const fn share(&self) -> Percent {
        self.share
    }
    /// Sets another share; credit becomes full.
    pub(crate) const fn set_share(&mut self, share: Percent) {
        *self = Self::new(share);
    }
    /// True if a packet ahead goes before one of the others.
    #[inline]
    pub const fn allows(&self) -> bool {
        self.credit > 0
    }
    /// Fills the credit, because no others wait.
    #[inline]
    pub const fn refill(&mut self) {
        self.credit = Self::full(self.share);
    }
    /// Charges a packet of `bytes` bytes that left ahead while others wait.
    #[inline]
    pub const fn spend(&mut self, bytes: u32) {
        // A packet has less than 2^32 bytes, so the product fits, and the subtraction saturates.
        let cost = (bytes as u64 * self.share.rest().0 as u64) as i64;
        self.credit = self.credit.saturating_sub(if cost < 0 { i64::MAX } else { cost });
    }
    /// Credits a packet of `bytes` bytes of the others that has left.
    #[inline]
    pub(crate) const fn earn(&mut self, bytes: u32) {
        let earned = (bytes as u64 * self.share.0 as u64) as i64;
        let credit = self.credit.saturating_add(if earned < 0 { i64::MAX } else { earned });
        let full = Self::full(self.share);
        self.credit = if credit < full { credit } else { full };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    /// One tenth, as tc reads it.
    const TENTH: Percent = Percent(u32::MAX / 10);

    #[test]
    fn a_hundred_percent_always_allows() {
        let mut budget = Budget::new(Percent::ALL);
        for _ in 0..1000 {
            assert!(budget.allows());
            budget.spend(u32::MAX);
        }
    }

    #[test]
    fn nothing_of_nothing() {
        let mut budget = Budget::new(Percent(0));
        assert!(!budget.allows());
        budget.earn(u32::MAX);
        assert!(!budget.allows());
    }

    /// 64 KiB of credit at a tenth are 6553.6 bytes; a packet of 1000 costs 900 of them.
    #[test]
    fn credit_of_a_window_is_spent_and_earned() {
        let mut budget = Budget::new(TENTH);
        let spent = (0..).take_while(|_| {
            let allowed = budget.allows();
            if allowed {
                budget.spend(1000);
            }
            allowed
        });
        assert_eq!(spent.count(), 8);
        // 8 * 900 - 6553.6 are 646.4 bytes of debt: at 150 for each packet of the others, that
        // takes five.
        for turn in 1..=5 {
            assert!(!budget.allows(), "{turn}");
            budget.earn(1500);
        }
        assert!(budget.allows());
        budget.refill();
        assert_eq!(budget, Budget::new(TENTH));
    }

    #[test]
    fn extremes_do_not_wrap() {
        for share in [0, 1, u32::MAX / 2, u32::MAX - 1, u32::MAX].map(Percent) {
            let mut budget = Budget::new(share);
            for _ in 0..10 {
                budget.spend(u32::MAX);
            }
            assert!(budget.credit <= Budget::full(share));
            for _ in 0..10 {
                budget.earn(u32::MAX);
            }
            assert!(budget.credit <= Budget::full(share));
        }
    }

    /// B1, over every stretch of random runs in which others always wait.
    #[test]
    fn no_stretch_has_more_than_its_share() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let share = Percent(rng.next_u64() as u32 | 1);
            let mut budget = Budget::new(share);
            // Bytes ahead and bytes in all, after each packet.
            let mut sums = alloc::vec![(0u64, 0u64)];
            let mut largest = 0;
            for _ in 0..300 {
                let largest_now = if rng.below(20) == 0 { 65_000 } else { 1514 };
                let bytes = 1 + rng.below(largest_now) as u32;
                let (ahead, all) = sums[sums.len() - 1];
                let wants = rng.below(8) > 0;
                if wants && budget.allows() {
                    budget.spend(bytes);
                    largest = largest.max(bytes);
                    sums.push((ahead + u64::from(bytes), all + u64::from(bytes)));
                } else {
                    budget.earn(bytes);
                    sums.push((ahead, all + u64::from(bytes)));
                }
            }
            for (i, a) in sums.iter().enumerate() {
                for b in &sums[i..] {
                    let most = (u128::from(b.1 - a.1) + u128::from(WINDOW)) * u128::from(share.0);
                    let ahead = u128::from(b.0 - a.0).saturating_sub(u128::from(largest));
                    assert!(ahead * u128::from(u32::MAX) <= most, "seed {seed}, share {share:?}");
                }
            }
        }
    }
}
