//! The time of acknowledgements: at once, delayed, or compressed into one.

use txweir_core::{Instant, Nanos};

use crate::config::Config;
use crate::rare::Maybe;
use crate::receiver::sizes::Shown;

/// Largest number of acknowledgements in a row without delay.
pub(crate) const QUICK_MAX: u32 = 16;
/// Number of acknowledgements that may be compressed into one.
const COMPRESSED_MAX: u8 = 44;
/// Number of duplicate acknowledgements sent at once, so that the sender sees a loss in time.
const DUPLICATES_AT_ONCE: u8 = 3;
/// Longest wait of compressed acknowledgements, and the slack of that timer.
const COMPRESS_NS: u64 = 1_000_000;
const COMPRESS_SLACK_NS: u64 = 100_000;
/// Longest delay of an acknowledgement.
const DELAY_MAX_MS: u64 = 200;

/// Time of the next acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Due {
    /// There is nothing to acknowledge.
    #[default]
    Never,
    /// The acknowledgement leaves when the timer fires, or with data.
    Later,
    /// The acknowledgement leaves at once.
    Now,
}

/// The state behind the time of the next acknowledgement.
#[derive(Debug)]
pub(crate) struct Timing {
    pub(crate) due: Due,
    /// True if only a segment outside the window asked for the acknowledgement, which then does not
    /// count as a quick one.
    unasked: bool,
    /// Number of acknowledgements still to be sent without delay.
    pub(crate) quick: u32,
    /// True if data flows both ways, so that acknowledgements ride on it.
    pub(crate) interactive: bool,
    /// Short segments that a reader may be waiting for: 0, 1, or 2 for more.
    pushed: u8,
    /// Delay of an acknowledgement, ticks; 0 before the first data.
    delay: u32,
    /// Tick at which data last came.
    last_data: u64,
    /// Tick and time for which the delayed acknowledgement is set. An acknowledgement that leaves
    /// earlier does not remove the timer from its wheel: the timer then only hastens compressed
    /// acknowledgements.
    timer_tick: u64,
    timer_at: Maybe,
    timer_meant: bool,
    /// Departure time of compressed acknowledgements.
    compress_at: Maybe,
    compressed: u8,
    /// Number of acknowledgements sent at once for `duplicates_at`, the number that they carried.
    duplicates: u8,
    duplicates_at: u64,
}

/// Returns the shortest delay of an acknowledgement, ticks.
fn shortest(c: &Config) -> u64 {
    c.tick.from_micros(c.ack_delay.0 / 1_000)
}

impl Timing {
    pub(crate) const fn new() -> Self {
        Self {
            due: Due::Never,
            unasked: false,
            quick: 0,
            interactive: false,
            pushed: 0,
            delay: 0,
            last_data: 0,
            timer_tick: 0,
            timer_at: Maybe::NONE,
            timer_meant: false,
            compress_at: Maybe::NONE,
            compressed: 0,
            duplicates: 0,
            duplicates_at: 0,
        }
    }

    /// Starts the measurement of silence at a tick.
    pub(crate) const fn silent_from(&mut self, ticks: u64) {
        self.last_data = ticks;
    }

    /// Lets the acknowledgement leave at once.
    pub(crate) const fn at_once(&mut self) {
        self.due = Due::Now;
    }

    /// Notes data to acknowledge.
    pub(crate) const fn schedule(&mut self) {
        if matches!(self.due, Due::Never) {
            self.due = Due::Later;
        }
    }

    /// Notes that a segment outside the window is to be acknowledged.
    pub(crate) fn outside(&mut self) {
        self.unasked = self.due == Due::Never;
    }

    /// Notes the size of a segment: a reader may be waiting for one that is not followed by others.
    pub(crate) fn size(&mut self, shown: Shown) {
        self.pushed = match shown {
            Shown::Full { ends: true, .. } => self.pushed.max(1),
            Shown::Full { .. } | Shown::Smaller => self.pushed,
            Shown::Short => 1 + u8::from(self.pushed >= 1),
        };
    }

    /// True if an acknowledgement need not wait once the reader has all data.
    pub(crate) const fn read_soon(&self) -> bool {
        self.pushed >= 2 || (self.pushed == 1 && !self.interactive)
    }

    /// True while an acknowledgement waits for its timer.
    pub(crate) const fn delayed(&self) -> bool {
        self.timer_meant
    }

    /// Lets compressed acknowledgements leave at once.
    pub(crate) const fn hasten_compressed(&mut self) {
        if self.compressed > 0 {
            self.due = Due::Now;
        }
    }

    /// Ends a timer that has fired without a purpose.
    pub(crate) fn expire(&mut self, now: Instant) {
        if !self.timer_meant && self.timer_at.get().is_some_and(|at| at <= now.0) {
            self.timer_at = Maybe::NONE;
        }
    }

    /// Sends at least `n` acknowledgements without delay.
    const fn quicken(&mut self, n: u32) {
        if self.quick < n {
            self.quick = n;
        }
    }

    /// Sends `n` acknowledgements at once, after which the delay is the shortest.
    pub(crate) fn quick_mode(&mut self, c: &Config, n: u32) {
        self.quicken(n);
        self.interactive = false;
        self.set_delay(shortest(c));
    }

    /// Adapts the delay to data that comes in order. `n`: the number of quick acknowledgements that
    /// suits the window.
    pub(crate) fn adapt(&mut self, c: &Config, now: Instant, rto: u64, n: u32) {
        let ticks = c.tick.count(now);
        if self.delay == 0 {
            self.quicken(n);
            self.set_delay(shortest(c));
        } else {
            let gap = ticks - self.last_data.min(ticks);
            let (half, delay) = (shortest(c) / 2, u64::from(self.delay));
            if gap <= half {
                self.set_delay((delay >> 1) + half);
            } else if gap < delay {
                self.set_delay(((delay >> 1) + gap).min(rto));
            } else if gap > rto {
                // After a silence of this length the sender may start with a small window.
                self.quicken(n);
            }
        }
        self.last_data = ticks;
    }

    fn set_delay(&mut self, ticks: u64) {
        self.delay = u32::try_from(ticks).unwrap_or(u32::MAX);
    }

    fn set_timer(&mut self, c: &Config, now: Instant, expires: u64) {
        (self.timer_tick, self.timer_at) = (expires, Maybe::some(c.tick.expiry(now, expires).0));
        self.timer_meant = true;
    }

    /// Lets the acknowledgement leave after the shortest delay, if none is waiting.
    pub(crate) fn wait_shortly(&mut self, c: &Config, now: Instant) {
        if !self.timer_meant {
            self.set_timer(c, now, c.tick.count(now) + shortest(c));
        }
    }

    /// Lets the acknowledgement wait for more data.
    pub(crate) fn wait(&mut self, c: &Config, now: Instant, srtt8_us: u32) {
        let ticks = c.tick.count(now);
        let mut delay = u64::from(self.delay);
        if delay > shortest(c) {
            let mut most = c.tick.from_millis(500);
            if self.interactive || self.pushed > 0 {
                most = c.tick.from_millis(DELAY_MAX_MS);
            }
            if srtt8_us > 0 {
                let rtt = c.tick.from_micros(u64::from(srtt8_us >> 3)).max(shortest(c));
                most = most.min(rtt);
            }
            delay = delay.min(most);
        }
        let mut expires = ticks + delay.min(c.tick.from_millis(DELAY_MAX_MS));
        if self.timer_meant && self.timer_at.is_some() {
            let set = self.timer_tick;
            if set <= ticks + (delay >> 2) {
                self.due = Due::Now;
                return;
            }
            expires = expires.min(set);
        }
        self.set_timer(c, now, expires);
    }

    /// Compresses the acknowledgement of data beyond a gap at `next`, unless it is one of the first
    /// ones there, or too many have been compressed. `rtt8_us`: eight times the round trip.
    pub(crate) fn compress(&mut self, now: Instant, next: u64, rtt8_us: u32) {
        if self.compressed >= COMPRESSED_MAX {
            self.due = Due::Now;
            return;
        }
        if self.duplicates_at != next {
            (self.duplicates_at, self.duplicates) = (next, 0);
        }
        if self.duplicates < DUPLICATES_AT_ONCE {
            self.duplicates += 1;
            self.due = Due::Now;
            return;
        }
        self.compressed += 1;
        if !self.compress_at.is_some() {
            let wait = (u64::from(rtt8_us) * 125 / 20).min(COMPRESS_NS);
            self.compress_at = Maybe::some((now + Nanos(wait + COMPRESS_SLACK_NS)).0);
        }
    }

    /// Runs the timers of delayed and of compressed acknowledgements that are due.
    pub(crate) fn on_time(&mut self, c: &Config, now: Instant, rto: impl FnOnce() -> u64) {
        if self.compress_at.get().is_some_and(|at| at <= now.0) {
            self.compress_at = Maybe::NONE;
            self.hasten_compressed();
        }
        if self.timer_at.get().is_some_and(|at| at <= now.0) {
            self.timer_at = Maybe::NONE;
            let meant = std::mem::replace(&mut self.timer_meant, false);
            if self.compressed > 0 {
                self.due = Due::Now;
            } else if meant && self.due == Due::Later {
                if self.interactive {
                    self.interactive = false;
                    self.set_delay(shortest(c));
                } else {
                    self.set_delay((u64::from(self.delay) << 1).min(rto()));
                }
                self.due = Due::Now;
            }
        }
    }

    /// Notes that an acknowledgement of all data leaves.
    pub(crate) fn left(&mut self, c: &Config) {
        let unasked = std::mem::take(&mut self.unasked);
        let scheduled = u32::from(self.due != Due::Never && !unasked);
        if self.quick > 0 {
            if scheduled >= self.quick {
                self.quick = 0;
                self.set_delay(shortest(c));
            } else {
                self.quick -= scheduled;
            }
        }
        self.due = Due::Never;
        (self.timer_meant, self.pushed) = (false, 0);
    }

    /// Notes that any acknowledgement leaves: compressed ones need not follow it.
    pub(crate) const fn left_before(&mut self) {
        (self.compress_at, self.compressed) = (Maybe::NONE, 0);
    }

    /// Returns the time at which one of its timers fires.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timer = self.timer_at.get().filter(|_| self.timer_meant || self.compressed > 0);
        [timer, self.compress_at.get()].into_iter().flatten().min().map(Instant)
    }

    /// Notes that data was sent. If it follows received data soon, acknowledgements can ride on it.
    pub(crate) const fn replied(&mut self, ticks: u64) {
        if self.delay > 0 && ticks - self.last_data < self.delay as u64 {
            self.interactive = true;
        }
    }
}
