//! Closed enums of the reasons of drops, marks and wake-ups. The names are stable: counters, logs
//! and metrics carry them.

macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $doc])+ $variant,)* }

        impl $name {
            /// All reasons, in order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// Number of reasons.
            pub const COUNT: usize = Self::ALL.len();
            /// Returns the stable name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
            /// Returns the meaning in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)* }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

reasons! {
    /// Reason of a drop.
    DropReason {
        /// The queue was at its limit of packets or bytes and the arriving packet was refused.
        Overlimit = "overlimit",
        /// The queue was at its limit and its oldest packet made room for the arriving one.
        HeadDrop = "head_drop",
        /// The fattest flow was trimmed because the qdisc was above its packet limit.
        FlowOverlimit = "flow_overlimit",
        /// The fattest flow was trimmed because the qdisc was above its memory limit.
        Overmemory = "overmemory",
        /// An AQM decided that the queue had stood too long and the packet could not be marked.
        Congested = "congested",
        /// The packet is larger than a shaper's bucket or the largest object of a byte limit: it
        /// could never leave.
        Oversize = "oversize",
        /// An emulated link lost the packet.
        Lost = "lost",
        /// No class of the qdisc takes this packet.
        NoClass = "no_class",
        /// A later acknowledgement in the same queue carries the same information.
        AckFilter = "ack_filter",
        /// The action of a filter dropped the packet, or the filters named no class for it.
        Filtered = "filtered",
        /// Every packet slot of the transmit path was in use.
        PoolFull = "pool_full",
        /// The qdisc was reset, replaced, shrunk or deleted with the packet in it.
        Purged = "purged",
        /// The packet's flow was at its own limit.
        FlowLimit = "flow_limit",
        /// The packet's launch time lay further ahead than the qdisc takes.
        Horizon = "horizon",
        /// The packet has no launch time, or one that is over.
        Late = "late",
        /// The queue was long, and a waiting packet drawn at random was of the packet's own flow:
        /// both are dropped.
        Matched = "matched",
    }
}

reasons! {
    /// Reason of a CE mark.
    MarkReason {
        /// The AQM's control law signalled congestion.
        Congested = "congested",
        /// The packet waited longer than the configured CE threshold.
        CeThreshold = "ce_threshold",
        /// An emulated link would have lost the packet, and marks instead.
        Lost = "lost",
    }
}

reasons! {
    /// Reason for which a qdisc asks for a call at a later instant.
    WakeReason {
        /// A shaper has no tokens for the packet at its head.
        Tokens = "tokens",
        /// A packet waits for its launch time, or a flow for the time that its rate spaces it by.
        LaunchTime = "launch_time",
        /// The packets in an emulated link have not waited long enough, or its next slot has not
        /// come.
        Delay = "delay",
        /// Packets wait only for transmit queues that may not transmit: the instant is the end of
        /// time.
        Queue = "queue",
        /// Packets wait for a command that lets them leave: the instant is the end of time.
        Plugged = "plugged",
        /// Packets wait for a gate of their traffic class to open.
        Gate = "gate",
    }
}

/// Packets dropped and packets marked, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Packets dropped: the count of a [`DropReason`] is at its number.
    pub drops: [u64; DropReason::COUNT],
    /// Packets marked: the count of a [`MarkReason`] is at its number.
    pub marks: [u64; MarkReason::COUNT],
}

impl Reasons {
    /// Returns the sums of both.
    #[must_use]
    pub fn plus(&self, o: &Self) -> Self {
        Self {
            drops: core::array::from_fn(|i| self.drops[i] + o.drops[i]),
            marks: core::array::from_fn(|i| self.marks[i] + o.marks[i]),
        }
    }
    /// Returns the packets counted since `earlier`, which is an earlier state of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            drops: core::array::from_fn(|i| self.drops[i] - earlier.drops[i]),
            marks: core::array::from_fn(|i| self.marks[i] - earlier.marks[i]),
        }
    }
    /// Returns the number of packets dropped.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
    /// Iterates over the reasons for which packets were dropped, each with its count, which is not
    /// 0.
    pub fn each_drop(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, n)| *n > 0)
    }
    /// Iterates over the reasons for which packets were marked, each with its count, which is not
    /// 0.
    pub fn each_mark(&self) -> impl Iterator<Item = (MarkReason, u64)> + '_ {
        MarkReason::ALL.iter().copied().zip(self.marks).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_summed_and_those_without_packets_left_out() {
        let mut one = Reasons::default();
        one.drops[DropReason::Purged as usize] = 3;
        one.marks[MarkReason::Lost as usize] = 1;
        let mut both = one.plus(&one);
        both.drops[DropReason::Overlimit as usize] += 1;
        assert_eq!(both.dropped(), 7);
        assert!(both.each_drop().eq([(DropReason::Overlimit, 1), (DropReason::Purged, 6)]));
        assert!(both.since(&one).each_mark().eq([(MarkReason::Lost, 1)]));
        assert!(Reasons::default().each_mark().next().is_none());
    }

    #[test]
    fn names_are_distinct_and_numbers_dense() {
        for (i, a) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*a as usize, i);
            assert!(DropReason::ALL[..i].iter().all(|b| b.name() != a.name()));
        }
        assert_eq!(
            DropReason::Oversize.about(),
            "The packet is larger than a shaper's bucket or the largest object of a byte limit: it could never leave."
        );
    }
}
