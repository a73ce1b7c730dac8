//! Replays recordings of the Linux kernel: sends the same arrivals through the same policy, and
//! reports the differences.
//!
//! A *trace* is the output of the oracle (`spec/traces/README.md`): tc commands and packets with
//! their times, the departures with their times, and the counters. The replay sets the policy with
//! the same command lines, gives the same bytes to the same parser, and drives a
//! [`TxPath`](txweir_core::TxPath) over a device that takes every packet at once, as veth does.
//! Then it compares the order of the departures exactly, their times within a microsecond, drops,
//! marks, exit statuses, and all output of `show`.
//!
//! Timers fire here at the time at which they fired in the kernel, if that is within the tolerance
//! of their due time. The kernel's clock has a granularity: without this rule, a difference of one
//! grain could change a later decision and look like another law.

mod compare;
mod packet;
mod play;
mod report;
mod trace;

pub use compare::{Aspect, Difference};
pub use report::{Replayed, json, table};
pub use trace::{Departure, Head, Parity, Show, Step, Trace, TraceError};

/// Tolerance of a departure's time, nanoseconds: two grains of the kernel's clock, and rounding.
pub const TOLERANCE_NS: i64 = 1000;
/// The grain of the kernel's clock, nanoseconds.
const GRAIN_NS: i64 = 256;

/// Number of hash keys to try. Flow hashes are keyed, here and in the kernel, and the outcome of
/// each trace did not depend on the key there. Still, two flows of a trace may share a bucket here,
/// or the order of the buckets may break a tie: then the replay tries another key.
const KEYS: u64 = 32;

/// Waiver of a trace that permits a comparison with the laws of Linux instead of this code's.
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
        // Only the law differs.
        for difference in &mut replayed.differences {
            difference.meant.get_or_insert_with(|| row.into());
        }
        replayed
    }

    /// Replays the trace once, with flow hashes of this key and the laws of this code.
    /// [`replay`](Self::replay) tries several keys if there are differences.
    pub fn replay_once(&self, key: u64) -> Replayed {
        self.replay_by(key, false)
    }

    fn replay_by(&self, key: u64, strict_linux: bool) -> Replayed {
        let played = play::play(self, key, strict_linux);
        let differences = compare::compare(self, &played);
        Replayed::new(self, &played, differences)
    }

    fn replay_with(&self, strict_linux: bool) -> Replayed {
        let mut first = None;
        for key in 0..KEYS {
            let replayed = self.replay_by(key, strict_linux);
            if replayed.is_equal() {
                return replayed;
            }
            first.get_or_insert(replayed);
        }
        first.unwrap_or_else(|| unreachable!("KEYS is not 0"))
    }
}
