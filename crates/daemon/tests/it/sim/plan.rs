//! `Plan`: the features and rates of one run, drawn from its seed. Runs differ in what they have at
//! all: a fault that is rare among all others is frequent where the others are missing.

use txweir_core::base::rng::Rng;

/// A lie of the world, by which a run shows that its checks can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A reply comes twice.
    ReplyTwice,
    /// A reply does not come.
    ReplyLost,
    /// A frame that an interface reported as taken has left twice.
    FrameTwice,
    /// A frame that a socket had for the daemon vanishes.
    FrameLost,
    /// Two frames of a flow leave in the other order.
    FramesSwapped,
    /// The disk forgets what it said it had, when power is lost.
    SyncIgnored,
    /// The configuration that is read at a start lacks its last line.
    LineForgotten,
    /// An interface does not say that it has room again.
    RoomUntold,
}

impl Lie {
    pub const ALL: [Self; 8] = [
        Self::ReplyTwice,
        Self::ReplyLost,
        Self::FrameTwice,
        Self::FrameLost,
        Self::FramesSwapped,
        Self::SyncIgnored,
        Self::LineForgotten,
        Self::RoomUntold,
    ];

    /// True if one occasion is enough to be found out.
    pub const fn is_told_once(self) -> bool {
        !matches!(self, Self::SyncIgnored | Self::RoomUntold | Self::LineForgotten)
    }
}

/// The features of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Clients; more than the server takes at once in some runs.
    pub clients: usize,
    /// True if filters and classes move packets, so that flows may overtake themselves.
    pub filters: bool,
    /// True if super-frames come in.
    pub gso: bool,
    /// True if the clock stops and leaps.
    pub clock: bool,
    /// True if interfaces fail and come back.
    pub cards: bool,
    /// True if connections, reads and writes fail.
    pub sockets: bool,
    /// True if saving fails.
    pub disk: bool,
    /// One event in so many is a kill, a loss of power or a signal; 0 for none.
    pub blows: u64,
    /// Bytes of the buffers of an interface's frames.
    pub memory: usize,
    /// Greatest time between two events, nanoseconds.
    pub gap: u64,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5eed);
        let mut yes = |of: u64| rng.below(of) != 0;
        let (filters, gso, clock, cards) = (yes(2), yes(2), yes(3), yes(5));
        let (sockets, disk, calm, small, crowd) = (yes(5), yes(5), !yes(8), !yes(3), !yes(5));
        Self {
            clients: if crowd { 72 } else { 2 + rng.below(9) as usize },
            filters,
            gso,
            clock,
            cards,
            sockets,
            disk,
            blows: if calm { 0 } else { 100 + rng.below(1500) },
            memory: if small { 300 << 10 } else { 4 << 20 },
            gap: [20_000, 100_000, 1_000_000][rng.below(3) as usize],
        }
    }
}
