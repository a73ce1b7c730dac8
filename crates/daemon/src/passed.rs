//! `Passed`: counts of frames that no other counter of a link tells apart.

/// Frames by where they came from and where they went; see [`Intake`](crate::sums::Intake) and
/// [`Origins`](crate::sums::Origins), which show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Copies that actions of other links sent in by this link.
    pub redirected: u64,
    /// Frames that were handed to the peer.
    pub forwarded: u64,
    /// Frames that came while the link had no peer.
    pub unclaimed: u64,
    /// Frames that came in by the peer.
    pub peer: u64,
    /// Copies that actions sent out by this link.
    pub copied: u64,
    /// Packets of `link send`.
    pub generated: u64,
}

impl Passed {
    /// Adds the counts of another copy of the link.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            redirected: self.redirected + other.redirected,
            forwarded: self.forwarded + other.forwarded,
            unclaimed: self.unclaimed + other.unclaimed,
            peer: self.peer + other.peer,
            copied: self.copied + other.copied,
            generated: self.generated + other.generated,
        }
    }
}
