//! Replays what the Linux kernel was recorded to do: the same arrivals through the same policy here, and what differs.
//!
//! A *trace* is what the oracle wrote (`spec/traces/README.md`): tc commands and packets with their times, what left when,
//! and the counters. The replay sets the policy with the same command lines, gives the same bytes to the same parser, and
//! drives a [`TxPath`](txweir_core::TxPath) over a device that takes every packet at once, as veth does. Then it compares:
//! the order of the departures exactly, their times within a microsecond, who was dropped, marks, exit statuses, and all
//! that `show` tells.
//!
//! Timers fire here when they fired in the kernel, if that is within the tolerance of when they should: the kernel's clock
//! has a grain, and without that the difference of one grain could change a later decision and look like another law.

mod compare;
mod packet;
mod play;
mod report;
mod trace;

pub use compare::{Aspect, Difference};
pub use report::{Replayed, json, table};
pub use trace::{Departure, Head, Parity, Show, Step, Trace, TraceError};

/// How far a departure's time may be from the kernel's, nanoseconds: two grains of its clock, and what rounding adds.
pub const TOLERANCE_NS: i64 = 1000;
/// The grain of the kernel's clock, nanoseconds.
const GRAIN_NS: i64 = 256;

/// Flow hashes are keyed, here and in the kernel, and the traces are those whose outcome did not change with the key there.
/// Two flows of a trace may meet in one bucket here all the same, or a tie be broken by the order of the buckets: then
/// another key is tried, so many times.
const KEYS: u64 = 32;

/// What a trace waives where all is compared with the laws of Linux instead of this code's.
const LAW: &str = "law";

impl Trace {
    /// Replays the trace.
    pub fn replay(&self) -> Replayed {
        let mut replayed = self.replay_with(false);
        let Some(row) = self.waived(LAW).filter(|_| !replayed.is_equal()) else { return replayed };
        let strict = self.replay_with(true);
        if !strict.is_equal() {
            return strict;
        }
        // Nothing but the law is another.
        for difference in &mut replayed.differences {
            difference.meant.get_or_insert_with(|| row.into());
        }
        replayed
    }

    fn replay_with(&self, strict_linux: bool) -> Replayed {
        let mut first = None;
        for key in 0..KEYS {
            let played = play::play(self, key, strict_linux);
            let differences = compare::compare(self, &played);
            let replayed = Replayed::new(self, &played, differences);
            if replayed.is_equal() {
                return replayed;
            }
            first.get_or_insert(replayed);
        }
        first.unwrap_or_else(|| unreachable!("KEYS is not 0"))
    }
}
