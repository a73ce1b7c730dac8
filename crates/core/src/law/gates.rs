//! Gates of traffic classes that open and close by a schedule (IEEE 802.1Q-2018, sections 8.6.8.4
//! and 8.6.9), on numbers. A schedule is a cycle of entries, each with the gates that are open and
//! a duration; it begins at a base time, before which all gates are open.
//!
//! A frame may leave if its class's gate is open, if it would be sent before that gate closes, and
//! if the bytes that the link can carry in the time that the gate is open are not used up. A frame
//! that leaves takes its bytes from the budget of every class, because the link is one.
//!
//! - I1: while a schedule runs, `now` lies in the present entry, or before its end.
//! - I2: bytes that leave by an open gate are at most those that the link carries in its opening.
//! - I3: a call goes over the entries at most twice, however much time has passed since the last.
//! - Differs from Linux (PARITY.md: taprio-change): a new schedule begins at its start, in the
//!   midst of an entry of the old one.

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::time::{Instant, Nanos};

/// Most traffic classes (tc-taprio(8), tc-mqprio(8)).
pub const CLASSES_MAX: usize = 16;
/// Most entries of a schedule.
pub const ENTRIES_MAX: usize = 1024;
/// A time that does not come.
const NEVER: u64 = u64::MAX;
/// Least time of a byte, picoseconds, so that a frame takes time on any link.
const BYTE_MIN: u64 = 17;

/// An entry of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The classes whose gates are open, a bit each.
    pub open: u32,
    /// Duration, nanoseconds, above 0.
    pub ns: u32,
}

/// The time of bytes on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTime(u64);

impl ByteTime {
    /// Returns that of a link of this many bytes per second.
    #[must_use]
    pub fn of_rate(bytes_per_second: u64) -> Self {
        let ps = 1_000_000_000_000_u64.checked_div(bytes_per_second).unwrap_or(u64::MAX);
        Self(ps.max(BYTE_MIN))
    }
    /// Returns the time that a frame takes, nanoseconds.
    #[must_use]
    pub const fn ns_of(self, bytes: u32) -> u64 {
        (bytes as u64).saturating_mul(self.0) / 1000
    }
    /// Returns the bytes that a time is enough for.
    #[must_use]
    pub(crate) const fn bytes_in(self, ns: u64) -> u64 {
        ns.saturating_mul(1000) / self.0
    }
}

/// Returns the time at which a schedule with this base and this cycle begins: its base, or, if that
/// is over, the first start of a cycle after `now`.
#[must_use]
pub(crate) fn start_of(base: u64, cycle: u64, now: Instant) -> u64 {
    match now.0.checked_sub(base).and_then(|passed| passed.checked_div(cycle)) {
        Some(cycles) => base.saturating_add((cycles + 1).saturating_mul(cycle)),
        None => base,
    }
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    entries: Vec<Entry>,
    /// For each entry, the time from its start for which each class's gate stays open.
    openings: Vec<[u64; CLASSES_MAX]>,
    /// Classes that are open in all entries.
    always: u32,
    cycle: u64,
    extension: u64,
    /// Time at which it begins.
    start: u64,
    /// Longest frame of each class by decree, bytes.
    frames: [u32; CLASSES_MAX],
}

impl Schedule {
    /// Returns a schedule that begins at `base`, or, if that is over, with the first cycle after
    /// `now`. The cycle, if it is 0, is that of the entries; a longer one has no effect. A schedule
    /// that comes after it may begin up to `extension` nanoseconds after the end of an entry, which
    /// is extended. `None` without an entry, or with one of no duration.
    #[must_use]
    pub fn new(entries: &[Entry], cycle: u64, extension: u64, base: u64, now: Instant) -> Option<Self> {
        if entries.is_empty() || entries.len() > ENTRIES_MAX || entries.iter().any(|entry| entry.ns == 0) {
            return None;
        }
        let sum: u64 = entries.iter().map(|entry| u64::from(entry.ns)).sum();
        let cycle = if cycle == 0 { sum } else { cycle };
        let start = start_of(base, cycle, now);
        let always = entries.iter().fold(u32::MAX, |open, entry| open & entry.open);
        let opening = |i: usize| {
            let mut open = u32::MAX;
            let mut ns = [0; CLASSES_MAX];
            for entry in entries[i..].iter().chain(&entries[..i]) {
                open &= entry.open;
                let still = |tc: usize| open & (1 << tc) != 0;
                (0..CLASSES_MAX).filter(|tc| still(*tc)).for_each(|tc| ns[tc] += u64::from(entry.ns));
                if open == 0 {
                    break;
                }
            }
            ns
        };
        let openings = (0..entries.len()).map(opening).collect();
        let frames = [u32::MAX; CLASSES_MAX];
        Some(Self { entries: entries.to_vec(), openings, always, cycle, extension, start, frames })
    }
    /// Sets the longest frame of each class, bytes with the link header; `u32::MAX` for no bound.
    #[must_use]
    pub const fn with_frames(mut self, frames: [u32; CLASSES_MAX]) -> Self {
        self.frames = frames;
        self
    }
    /// Returns the longest frame that a class may send by decree, bytes; `u32::MAX` for no bound.
    #[must_use]
    pub const fn frame(&self, tc: usize) -> u32 {
        self.frames[tc]
    }
    /// Returns the time from cycle to cycle.
    fn whole(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.ns)).sum::<u64>().min(self.cycle)
    }
    /// Returns the time at which it begins.
    #[must_use]
    pub const fn start(&self) -> Instant {
        Instant(self.start)
    }
    /// Returns the longest frame that a class can send at once; `None` if there is no bound, for a
    /// class whose gate never closes or never opens.
    #[must_use]
    pub fn longest(&self, tc: usize, byte: ByteTime) -> Option<u64> {
        if self.always & (1 << tc) != 0 {
            return None;
        }
        // An entry that the end of the cycle cuts off whole is never entered.
        let mut from = 0;
        let starts = self.entries.iter().map(|entry| {
            let start = from;
            from += u64::from(entry.ns);
            start
        });
        let entered = self.openings.iter().zip(starts).filter(|(_, start)| *start < self.cycle);
        let ns = entered.map(|(opening, _)| opening[tc]).max().filter(|ns| *ns > 0)?;
        Some(byte.bytes_in(ns))
    }
}

/// A cycle of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle<'a> {
    /// Time at which its first entry begins.
    pub begin: Instant,
    /// Time from cycle to cycle.
    pub length: Nanos,
    entries: &'a [Entry],
}

impl Cycle<'_> {
    /// Returns the entries, each with the time from the begin of the cycle to its own. One that the
    /// end of the cycle cuts off is as long as it runs.
    pub fn entries(&self) -> impl Iterator<Item = (Nanos, Entry)> + '_ {
        let mut from = 0;
        self.entries.iter().map_while(move |entry| {
            let start = from;
            from += u64::from(entry.ns);
            let left = self.length.0.checked_sub(start).filter(|left| *left > 0)?;
            // No longer than the entry, whose duration has 32 bits.
            let ns = u64::from(entry.ns).min(left) as u32;
            Some((Nanos(start), Entry { ns, ..*entry }))
        })
    }
}

/// The gates, by the schedule that runs and one that is to come.
#[derive(Clone, Debug)]
pub struct Gates {
    byte: ByteTime,
    running: Option<Schedule>,
    pending: Option<Schedule>,
    at: usize,
    /// Begin of the first entry of the present cycle.
    begun: u64,
    /// End of the present entry, and of the present cycle.
    end: u64,
    cycle_end: u64,
    /// Time at which each class's gate closes, and bytes that may leave until then.
    closes: [u64; CLASSES_MAX],
    budget: [u64; CLASSES_MAX],
}

impl Gates {
    /// Returns gates of a link, all open until the schedule begins.
    #[must_use]
    pub const fn new(byte: ByteTime, schedule: Option<Schedule>) -> Self {
        let (closes, budget) = ([NEVER; CLASSES_MAX], [NEVER; CLASSES_MAX]);
        Self { byte, running: None, pending: schedule, at: 0, begun: 0, end: 0, cycle_end: 0, closes, budget }
    }
    /// Returns the time of bytes on the link.
    #[must_use]
    pub const fn byte(&self) -> ByteTime {
        self.byte
    }
    /// Sets the schedule that is to come in place of the present one.
    pub fn plan(&mut self, schedule: Schedule) {
        self.pending = Some(schedule);
    }
    /// Returns the schedule that runs.
    #[must_use]
    pub const fn running(&self) -> Option<&Schedule> {
        self.running.as_ref()
    }

    /// Returns the schedule that begins with the next `advance`, if that is not before `now`.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<&Schedule> {
        self.pending.as_ref().filter(|next| next.start <= now.0)
    }

    /// Returns the cycle that runs, as of the last `advance`; `None` before a schedule runs.
    #[must_use]
    pub fn cycle(&self) -> Option<Cycle<'_>> {
        let entries = self.running.as_ref()?;
        Some(Cycle { begin: Instant(self.begun), length: Nanos(entries.whole()), entries: &entries.entries })
    }

    /// Lets the schedule that is to come begin with the first cycle after `now`, if its start is
    /// over.
    pub fn begin(&mut self, now: Instant) {
        if let Some(next) = &mut self.pending
            && next.start <= now.0
        {
            next.start = start_of(next.start, next.cycle, now);
        }
    }
    /// Brings the gates to the state of `now`. Returns true if another schedule runs now.
    pub fn advance(&mut self, now: Instant) -> bool {
        let mut is_new = false;
        if let Some(next) = self.pending.take_if(|next| next.start <= now.0) {
            (self.end, self.cycle_end) = (next.start, next.start.saturating_add(next.cycle));
            (self.at, self.begun) = (0, next.start);
            self.end = self.end.saturating_add(next.entries[0].ns.into());
            self.end = self.end.min(self.cycle_end);
            let start = next.start;
            self.running = Some(next);
            self.enter(start);
            is_new = true;
        }
        let Some(running) = &self.running else { return false };
        let whole = running.whole();
        // Whole cycles are passed over at once: all but the last, so that what is left is less
        // than two, and the begin of the present one is met.
        let passed = now.0.saturating_sub(self.end) / whole;
        if passed > 1 {
            let cycles = passed - 1;
            self.end = self.end.saturating_add(cycles.saturating_mul(whole));
            self.cycle_end = self.cycle_end.saturating_add(cycles.saturating_mul(running.cycle));
        }
        let mut bound = Bound::of(3 * ENTRIES_MAX);
        while self.end <= now.0 && self.end != NEVER {
            bound.turn();
            self.step();
        }
        is_new
    }
    /// Goes on to the next entry.
    fn step(&mut self) {
        let Some(running) = &self.running else { return };
        let start = self.end;
        self.at += 1;
        if self.at == running.entries.len() || self.end == self.cycle_end {
            (self.at, self.begun) = (0, start);
            self.cycle_end = self.cycle_end.saturating_add(running.cycle);
        }
        self.end = start.saturating_add(running.entries[self.at].ns.into()).min(self.cycle_end);
        if let Some(next) = &self.pending
            && next.start >= self.end
            && next.start - self.end <= running.extension
        {
            self.end = next.start;
        }
        self.enter(start);
    }
    /// Sets the closing times and the budgets of the present entry, which begins at `start`.
    fn enter(&mut self, start: u64) {
        let Some(running) = &self.running else { return };
        for (tc, ns) in running.openings[self.at].iter().enumerate() {
            (self.closes[tc], self.budget[tc]) = match running.always & (1 << tc) != 0 {
                true => (NEVER, NEVER),
                false => (start.saturating_add(*ns), self.byte.bytes_in(*ns)),
            };
        }
    }

    /// Returns the classes whose gates are open, a bit each.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.running.as_ref().map_or(u32::MAX, |running| running.entries[self.at].open)
    }
    /// True if a frame of a class whose gate is open may leave now. If it may, or if its bytes
    /// alone are missing, they are taken from the budgets of all classes.
    #[must_use]
    pub fn pass(&mut self, tc: usize, bytes: u32, now: Instant) -> bool {
        if self.open() == u32::MAX {
            return true;
        }
        if now.0.saturating_add(self.byte.ns_of(bytes)) > self.closes[tc] {
            return false;
        }
        let enough = self.budget[tc] >= u64::from(bytes);
        for budget in self.budget.iter_mut().filter(|budget| **budget != NEVER) {
            *budget = budget.saturating_sub(bytes.into());
        }
        enough
    }
    /// Returns the first time after the present entry at which a gate of one of these classes
    /// opens, or may stay open for longer; `None` if none ever does.
    #[must_use]
    pub fn next_opening(&self, classes: u32) -> Option<Instant> {
        self.opening_after(classes, Instant(self.end))
    }
    /// Returns the first time from `from` on, which is not over, at which a gate of one of these
    /// classes is open, or another schedule begins; `None` if there is none.
    #[must_use]
    pub(crate) fn opening_after(&self, classes: u32, from: Instant) -> Option<Instant> {
        let pending = self.pending.as_ref().map_or(NEVER, |next| next.start);
        let Some(running) = &self.running else { return Some(Instant(from.0.min(pending))) };
        let count = running.entries.len();
        let whole = running.whole();
        let (mut at, mut start, mut end, mut cycle_end) = (self.at, 0, self.end, self.cycle_end);
        let cycles = (from.0.saturating_sub(end) / whole).saturating_sub(1);
        end = end.saturating_add(cycles.saturating_mul(whole));
        cycle_end = cycle_end.saturating_add(cycles.saturating_mul(running.cycle));
        // Bound: less than two cycles up to `from`, and one behind it, of `ENTRIES_MAX` at most.
        for _ in 0..=3 * count {
            if end > from.0 && running.entries[at].open & classes != 0 {
                return Some(Instant(from.0.max(start).min(pending)));
            }
            start = end;
            at += 1;
            if at == count || end == cycle_end {
                at = 0;
                cycle_end = cycle_end.saturating_add(running.cycle);
            }
            end = end.saturating_add(running.entries[at].ns.into()).min(cycle_end);
        }
        (pending != NEVER).then_some(Instant(pending))
    }
}
