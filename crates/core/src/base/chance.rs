//! Chances as numbers: `Probability`, a part of one, and `Percent`, a part of a hundred.

/// A chance in units of 2^-32; 2^32 is certainty. Configuration ranges refuse larger values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(pub u64);

impl Probability {
    /// Certainty.
    pub const ONE: Self = Self(1 << 32);
}

/// A chance in units of 1/(2^32 - 1): the largest value is a hundred percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u32);

impl Percent {
    /// A hundred percent.
    pub const ALL: Self = Self(u32::MAX);

    /// Returns the difference to a hundred percent.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(u32::MAX - self.0)
    }
}
