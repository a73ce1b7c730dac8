//! Small seeded generator, the only randomness in core: SplitMix64 (Steele, Lea, Flood, OOPSLA
//! 2014).
//!
//! The algorithm is part of the determinism contract: the same seed gives the same numbers on every
//! platform and in every version.

/// A seeded generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator. Any seed, zero included, is good.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..n`; 0 if `n` is 0. The bias of the multiply-shift is below `n` /
    /// 2^64.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sequence_for_seed_zero() {
        let mut r = Rng::new(0);
        assert_eq!(r.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(r.next_u64(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(r.next_u64(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn below_stays_below() {
        let mut r = Rng::new(7);
        assert_eq!(r.below(0), 0);
        assert!((0..1000).all(|_| r.below(3) < 3));
    }
}
