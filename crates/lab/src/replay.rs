//! Replays recordings of the Linux kernel: sends the same arrivals through the same policy, and
//! reports the differences.
//!
//! A *trace* is the output of the oracle (`spec/traces/README.md`): tc commands and packets with
//! their times, the departures with their times, and the counters. The replay sets the policy with
//! the same command lines, gives the same bytes to the same parser, and drives a
//! [`TxPath`](txweir_core::TxPath) over a device that takes every packet at once, as veth does.
//! Then it compares the order of the departures exactly, their times within five grains of the
//! kernel's clock, drops, marks, exit statuses, and all output of `show`. A kind that draws random
//! numbers is compared by distribution, with runs of other draws.
//!
//! Timers fire here at the time at which they fired in the kernel, if that is within the tolerance
//! of their due time. The kernel's clock has a granularity: without this rule, a difference of one
//! grain could change a later decision and look like another law.

mod chance;
mod compare;
mod packet;
mod play;
mod report;
mod ties;
mod trace;

pub use compare::{Aspect, Difference};
use play::Manner;
pub use report::{Replayed, json, table};
pub use trace::{Departure, Head, Parity, Show, Step, Trace, TraceError};

/// Tolerance of a departure's time, nanoseconds: a packet that is sent takes up to four readings of
/// the kernel's clock, each of a grain, and one grain for rounding.
pub const TOLERANCE_NS: i64 = 5 * GRAIN_NS;
/// The grain of the kernel's clock, nanoseconds.
const GRAIN_NS: i64 = 256;

/// Number of hash keys to try. Flow hashes are keyed, here and in the kernel, and the outcome of
/// each trace did not depend on the key there. Still, two flows of a trace may share a bucket here,
/// or the order of the buckets may break a tie: then the replay tries another key.
const KEYS: u64 = 32;
/// Number of those with which ties are tried.
const TIE_KEYS: u64 = 4;

/// Waiver of a trace that permits a comparison with the laws of Linux instead of this code's.
const LAW: &str = "law";
/// Waiver of a trace that permits a comparison in which the path is also asked at each recorded
/// departure.
const WAKES: &str = "wakes";

impl Trace {
    /// Replays the trace.
    pub fn replay(&self) -> Replayed {
        let mut replayed = self.replay_with(&Manner::default());
        if replayed.is_equal() {
            return replayed;
        }
        let manners = [
            (LAW, Manner { strict_linux: true, ..Manner::default() }),
            (WAKES, Manner { polled: true, ..Manner::default() }),
        ];
        for (waiver, manner) in manners {
            let Some(row) = self.waived(waiver) else { continue };
            let other = self.replay_with(&manner);
            if other.is_equal() {
                // Only the law differs, or the times at which the path is asked.
                for difference in &mut replayed.differences {
                    difference.meant.get_or_insert_with(|| row.into());
                }
                return replayed;
            }
        }
        replayed
    }

    /// Replays the trace once, with flow hashes of this key and the laws of this code, and compares
    /// packet by packet also where a kind draws by chance. [`replay`](Self::replay) tries several
    /// keys if there are differences.
    pub fn replay_once(&self, key: u64) -> Replayed {
        self.replay_by(&Manner { key, ..Manner::default() })
    }

    /// Replays the trace, and where it differs tries the other order of packets that arrived so
    /// near to a timer that only the kernel knows which was first, also by the laws of Linux if the
    /// trace permits that. Returns the number of these ties that make the replay equal; `None` if
    /// none do, or none are needed. A trace by chance has to be equal packet by packet then,
    /// whatever is drawn here.
    pub fn ties(&self) -> Option<usize> {
        if self.head.random {
            let mut exact = self.clone();
            exact.head.random = false;
            return exact.ties();
        }
        let manners = [false, true].map(|strict_linux| Manner { strict_linux, ..Manner::default() });
        let permitted = if self.waived(LAW).is_some() { &manners[..] } else { &manners[..1] };
        let mut keyed = permitted
            .iter()
            .flat_map(|manner| (0..TIE_KEYS).map(move |key| Manner { key, ..manner.clone() }));
        keyed.find_map(|manner| ties::resolve(self, &manner))
    }

    fn replay_by(&self, manner: &Manner) -> Replayed {
        let played = play::play(self, manner);
        let differences = compare::compare(self, &played);
        Replayed::new(self, &played, differences)
    }

    fn replay_with(&self, manner: &Manner) -> Replayed {
        if self.head.random {
            return self.replay_by_chance(manner);
        }
        let mut first = None;
        for key in 0..KEYS {
            let replayed = self.replay_by(&Manner { key, ..manner.clone() });
            if replayed.is_equal() {
                return replayed;
            }
            first.get_or_insert(replayed);
        }
        first.unwrap_or_else(|| unreachable!("KEYS is not 0"))
    }

    fn replay_by_chance(&self, manner: &Manner) -> Replayed {
        let runs: Vec<play::Played> =
            (0..chance::RUNS).map(|key| play::play(self, &Manner { key, ..manner.clone() })).collect();
        let mut differences = compare::compare(self, &runs[0]);
        differences.extend(chance::compare(self, &runs));
        Replayed::new(self, &runs[0], differences)
    }
}
