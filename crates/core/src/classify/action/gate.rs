//! gate: passes packets while a gate is open, and drops them while it is closed, by a schedule
//! (tc-gate(8), IEEE 802.1Qci-2017 section 8.6.5.1).
//!
//! The schedule is a list of entries, each an open or a closed gate for a duration, and begins anew
//! behind its last entry. It begins at the base time, or, if that was over when the action was made
//! or replaced, with the first cycle after that; until then every packet passes. An open entry may
//! bound the bytes of the packets that pass in it: a packet beyond the bound is dropped, and its
//! bytes count as well, so that all behind it in the entry are dropped too. The bytes of a packet
//! that has arrived are those behind its link header and its outermost tag.
//!
//! The position in the schedule follows from the present time: there is no timer. Only the bytes of
//! the present entry are kept, with the reader's [`Memory`]; several readers that share an action
//! pass the bound of bytes each.
//!
//! - I1: a packet passes by an entry only if that is open, and the bytes that pass by a visit of an
//!   entry are at most its bound.
//!
//! Cost: two divisions, and a search that is logarithmic in the number of entries. Memory: 24 bytes
//! per entry, two words per reader.
//!
//! Differs from Linux (PARITY.md: gate-clock, gate-change, gate-readers).

use alloc::format;
use alloc::vec::Vec;

use super::{Control, Memory};
use crate::base::time::Instant;
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::law::gates::{ENTRIES_MAX, start_of};
use crate::qdisc::etf::Clock;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// An entry of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateEntry {
    /// True if packets pass.
    pub open: bool,
    /// Duration, nanoseconds, above 0.
    pub ns: u32,
    /// Internal priority that hardware would give to a packet; without effect here, as in Linux.
    pub ipv: Option<u32>,
    /// Most bytes of the packets that pass; `None` for no bound. Without effect in a closed entry.
    pub octets: Option<u32>,
}

/// Parameters of gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// Priority of the frames that hardware would let through; without effect here, as in Linux.
    pub priority: Option<u32>,
    /// Name of the clock of the schedule, which is that of the reader.
    pub clock: Clock,
    /// Flags, which nothing reads.
    pub flags: u32,
    /// Time at which the schedule begins, nanoseconds.
    pub base_time: u64,
    /// Nanoseconds between two times at which the schedule may begin; 0 for the sum of the entries.
    pub cycle_time: u64,
    /// Extension of a cycle, nanoseconds; without effect here, as in Linux.
    pub cycle_time_ext: u64,
    /// The entries, at least one.
    pub entries: Vec<GateEntry>,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    config: GateConfig,
    /// Time from the start of the list to the end of each entry.
    ends: Vec<u64>,
}

impl Gate {
    /// Returns a gate with this schedule.
    ///
    /// # Errors
    /// There is no entry, there are more than `ENTRIES_MAX`, or one has no duration.
    pub fn new(config: GateConfig) -> Result<Self, ConfigError> {
        let refused = |kind: ErrorKind, expected: &str, given: usize| {
            ConfigError::new(kind, Object::ActionOptions("gate"), expected, given).key("sched-entry")
        };
        if config.entries.is_empty() || config.entries.len() > ENTRIES_MAX {
            let expected = format!("1 to {ENTRIES_MAX} entries");
            return Err(refused(ErrorKind::OutOfRange, &expected, config.entries.len()));
        }
        if config.entries.iter().any(|entry| entry.ns == 0) {
            return Err(refused(ErrorKind::BadValue, "an interval above 0", 0));
        }
        let mut end = 0;
        let ends: Vec<u64> = config
            .entries
            .iter()
            .map(|entry| {
                end += u64::from(entry.ns);
                end
            })
            .collect();
        let cycle_time = if config.cycle_time == 0 { end } else { config.cycle_time };
        Ok(Self { config: GateConfig { cycle_time, ..config }, ends })
    }

    /// Returns the parameters.
    pub const fn config(&self) -> &GateConfig {
        &self.config
    }

    /// Returns the present entry and the time of its start; `None` before the schedule begins.
    fn entry(&self, since: Instant, now: Instant) -> Option<(&GateEntry, u64)> {
        let start = start_of(self.config.base_time, self.config.cycle_time, since);
        let passed = now.0.checked_sub(start)?.checked_rem(*self.ends.last()?)?;
        let at = self.ends.partition_point(|end| *end <= passed);
        let from = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        Some((self.config.entries.get(at)?, now.0 - (passed - from)))
    }

    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        let Some((entry, start)) = self.entry(mine.since, run.now) else { return control };
        if !entry.open {
            mine.drops += 1;
            return Control::Drop;
        }
        let Some(octets) = entry.octets else { return control };
        // The first word is the start of the entry that the second one counts for, and 0 before the
        // first packet.
        let [visit, passed, ..] = &mut mine.words;
        if *visit != start.saturating_add(1) {
            (*visit, *passed) = (start.saturating_add(1), 0);
        }
        *passed = passed.saturating_add(packet.charged().into());
        if *passed > u64::from(octets) {
            mine.overlimits += 1;
            return Control::Drop;
        }
        control
    }
}
