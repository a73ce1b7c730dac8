//! Detection of stalls: completions that come late.

use crate::base::time::{Instant, Nanos};
use crate::path::dql::DqlError;

/// The smallest stall threshold, in ticks: half of it must leave room for the tick of the post and
/// that of the completion.
pub const STALL_TICKS_MIN: u64 = 4;

/// The largest stall threshold, in ticks: half of the history, so that a post is still on record
/// when its stall is looked for.
pub const STALL_TICKS_MAX: u64 = HISTORY_TICKS / 2;

/// Words in the post history.
const HISTORY_WORDS: usize = 4;
/// Ticks that one word records, one bit of a `u64` each.
const WORD_TICKS: u64 = 64;
/// Ticks that the whole history reaches back, at most.
const HISTORY_TICKS: u64 = HISTORY_WORDS as u64 * WORD_TICKS;

/// Finds completions that came too late: a ring of bits, one per tick, set when something was
/// posted in that tick.
#[derive(Clone, Debug)]
pub struct StallWatch {
    /// The threshold; zero is off.
    pub(super) thrs_ticks: u32,
    /// Length of a tick, not zero.
    tick_ns: u64,
    /// The tick that was last computed. It and its end are kept, so that a tick costs one division.
    tick: u64,
    tick_end_ns: u64,
    /// The tick of the latest completion.
    last_reap: u64,
    /// The newest word of the history, counted in words since tick zero.
    head: u64,
    history: [u64; HISTORY_WORDS],
    count: u64,
    max_ticks: u64,
}

impl StallWatch {
    pub(super) fn new(tick: Nanos) -> Result<Self, DqlError> {
        if tick == Nanos::ZERO {
            return Err(DqlError::ZeroTick);
        }
        Ok(Self {
            thrs_ticks: 0,
            tick_ns: tick.as_nanos(),
            tick: 0,
            tick_end_ns: 0,
            last_reap: 0,
            head: 0,
            history: [0; HISTORY_WORDS],
            count: 0,
            max_ticks: 0,
        })
    }

    /// Returns the threshold, in whole ticks; zero is off.
    #[must_use]
    pub fn threshold(&self) -> Nanos {
        self.span(u64::from(self.thrs_ticks))
    }
    /// Returns the number of stalls seen.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
    /// Returns the longest stall since [`forget_longest`](Self::forget_longest), in whole ticks.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        self.span(self.max_ticks)
    }
    /// Forgets the longest stall, as any write to `stall_max` does in sysfs.
    pub const fn forget_longest(&mut self) {
        self.max_ticks = 0;
    }

    fn span(&self, ticks: u64) -> Nanos {
        Nanos::from_nanos(ticks.saturating_mul(self.tick_ns))
    }

    pub(super) fn set_threshold(&mut self, thrs: Nanos, now: Instant) -> Result<(), DqlError> {
        let ticks = thrs.as_nanos().div_ceil(self.tick_ns);
        self.thrs_ticks = match u32::try_from(ticks) {
            Ok(0) => 0,
            Ok(t) if (STALL_TICKS_MIN..=STALL_TICKS_MAX).contains(&ticks) => t,
            _ => return Err(DqlError::StallRange { ticks }),
        };
        self.last_reap = self.tick_of(now);
        Ok(())
    }

    /// Returns the tick that `now` lies in. Time does not run backwards here: an earlier `now`
    /// counts as the latest tick.
    #[inline]
    fn tick_of(&mut self, now: Instant) -> u64 {
        if now.as_nanos() >= self.tick_end_ns {
            self.tick = now.as_nanos() / self.tick_ns;
            self.tick_end_ns = self.tick.saturating_add(1).saturating_mul(self.tick_ns);
        }
        self.tick
    }

    /// Returns the place in the ring of a word of the history. Exact on any pointer width: the
    /// ring's length is a power of two.
    const fn slot(word: u64) -> usize {
        word as usize % HISTORY_WORDS
    }

    /// Returns the bit of `tick` in its word.
    const fn mask(tick: u64) -> u64 {
        1 << (tick % WORD_TICKS)
    }

    pub(super) fn posted(&mut self, now: Instant) {
        let tick = self.tick_of(now);
        let word = tick / WORD_TICKS;
        // The words between the old head and the new one held ticks that are about to leave the
        // history.
        for reused in (self.head + 1..=word).rev().take(HISTORY_WORDS) {
            self.history[Self::slot(reused)] = 0;
        }
        self.head = word;
        self.history[Self::slot(word)] |= Self::mask(tick);
    }

    pub(super) fn completed(&mut self, now: Instant) {
        let now = self.tick_of(now);
        let thrs = u64::from(self.thrs_ticks);
        if now >= self.last_reap.saturating_add(thrs) {
            // The search goes from the tick after the latest completion, as far as the history
            // reaches, up to half a threshold ago.
            let newest = self.head * WORD_TICKS + (WORD_TICKS - 1);
            let oldest = newest.saturating_sub(HISTORY_TICKS - 1);
            let from = oldest.max(self.last_reap.saturating_add(1));
            let to = newest.min(now - thrs / 2);
            if let Some(tick) = self.first_posted(from, to) {
                self.count += 1;
                self.max_ticks = self.max_ticks.max(now - tick);
            }
        }
        self.last_reap = now;
    }

    /// Returns the first tick from `from` to `to`, both included and both within the history, in
    /// which something was posted.
    fn first_posted(&self, from: u64, to: u64) -> Option<u64> {
        (from..=to).find(|&tick| self.history[Self::slot(tick / WORD_TICKS)] & Self::mask(tick) != 0)
    }

    pub(super) fn reset(&mut self, now: Instant) {
        self.last_reap = self.tick_of(now);
        self.head = self.last_reap / WORD_TICKS;
        self.history = [0; HISTORY_WORDS];
    }
}
