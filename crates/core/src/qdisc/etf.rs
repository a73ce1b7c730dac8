//! etf: packets leave in the order of their launch times, each from `delta` before its time on, and
//! none after it (tc-etf(8)). With `deadline_mode` the time is a deadline: packets leave at once,
//! in the order of their deadlines.
//!
//! O(1) per packet (`packet::timeline`). Memory: 40 bytes for each packet that can wait on the
//! path, taken at creation.
//!
//! - I1: a packet leaves from `delta` before its launch time to its launch time.
//! - I2: packets leave in the order of their launch times, those with the same time in the order of
//!   arrival.
//! - I3: a packet without a launch time, with one that is over, or with one before that of a packet
//!   that has left, is dropped when it comes; a packet whose time is over while it waits is dropped
//!   then.
//! - Differs from Linux (PARITY.md: etf-socket, etf-clock, etf-offload, etf-reset, etf-peek,
//!   etf-timer, etf-same-change): there are no sockets whose clock and mode could differ; all times
//!   are of the one clock of the path, which `clockid` names; a packet may leave at its launch time
//!   itself.

use core::fmt;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Candidate;
use crate::packet::timeline::Timeline;
use crate::qdisc::fifo::NoStats;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::spec::{Capacity, Flags, Unset};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Json, Refusal, Show, Value, Words};

crate::params! {
    /// Parameters of etf.
    pub struct Config(env)
        once ["offload", "deadline_mode", "delta", "clockid", "skip_sock_check"]
        cut ["offload", "deadline_mode", "delta", "clockid"]
    {
        /// Clock of the launch times. Must be given: `CLOCK_TAI`, as in Linux. It is the clock of
        /// the path.
        clockid: Option<Clock> = None, keys ["clockid"];
        /// Time before its launch time from which on a packet may leave, 0 to 2147483647
        /// nanoseconds.
        delta: i32 = 0, keys ["delta"];
        /// Gives the times to the network card: refused, because the engine has none.
        offload: bool = false, flags ["offload" = true];
        /// Send packets at once, in the order of their times, which are deadlines.
        deadline_mode: bool = false, flags ["deadline_mode" = true];
        /// Take packets whose socket did not ask for launch times: has no effect, because the
        /// engine knows no sockets.
        skip_sock_check: bool = false, flags ["skip_sock_check" = true];
    }
}

/// A clock, by Linux's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// International Atomic Time.
    Tai,
    /// Time of day.
    Realtime,
    /// Time since the start, without the time asleep.
    Monotonic,
    /// Time since the start.
    Boottime,
}

impl Clock {
    /// All clocks.
    pub const ALL: [Self; 4] = [Self::Tai, Self::Realtime, Self::Monotonic, Self::Boottime];

    /// Returns the name that tc prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tai => "TAI",
            Self::Realtime => "REALTIME",
            Self::Monotonic => "MONOTONIC",
            Self::Boottime => "BOOTTIME",
        }
    }
}

impl Show for Clock {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_str(self.name())
    }
    fn json(&self) -> Json {
        Json::Text(self.name().into())
    }
}

impl Value for Clock {
    const EXPECTED: &'static str = "a clock (CLOCK_TAI)";
    /// Takes the name with or without `CLOCK_`, in either case.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let word = words.value()?;
        let name = match word.get(..6) {
            Some(start) if start.eq_ignore_ascii_case("CLOCK_") => &word[6..],
            _ => word,
        };
        Self::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(name)).ok_or(Refusal::NotSuch)
    }
}

/// Packets by launch time.
#[derive(Debug)]
pub struct Etf {
    line: Timeline,
    delta: Nanos,
    deadlines: bool,
    /// Launch time of the packet that left last.
    last: Instant,
}

impl Discipline for Etf {
    const KIND: &'static str = "etf";
    const ABOUT: &'static str = "Earliest launch time first: each packet leaves at its own time.";
    const FLAGS: Flags = Flags { shapes: true, reorders: true };
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const CAPACITY: Capacity = Capacity { keys: &[], unset: Unset::Queues(1) };
    const TABLES: fn(&Config, &Env) -> u64 = |_, env| u64::from(env.packets) * 40 + (64 << 10);
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        let object = || Object::Kind(Self::KIND);
        let Some(clock) = cfg.clockid else {
            return Err(ConfigError::new(ErrorKind::Missing, object(), "CLOCK_TAI", "").key("clockid"));
        };
        if clock != Clock::Tai {
            let err = ConfigError::new(ErrorKind::OutOfRange, object(), "CLOCK_TAI", clock.name());
            return Err(err.key("clockid"));
        }
        if cfg.delta < 0 {
            let err = ConfigError::new(ErrorKind::OutOfRange, object(), "0 to 2147483647", cfg.delta);
            return Err(err.key("delta"));
        }
        if cfg.offload {
            let err = ConfigError::new(ErrorKind::Unsupported, object(), "no offload", "offload");
            return Err(err.key("offload").hint("the times are kept here: leave it out"));
        }
        if old.is_some_and(|old| old != cfg) {
            let expected = "the options that it was made with";
            let err = ConfigError::new(ErrorKind::Unsupported, object(), expected, "a change");
            return Err(err.reason(Reason::Unchangeable).hint("delete it and add it anew"));
        }
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        Self {
            line: Timeline::with_capacity(env.packets),
            delta: Nanos(u64::from(cfg.delta.unsigned_abs())),
            deadlines: cfg.deadline_mode,
            last: Instant::ZERO,
        }
    }
    /// Only a change without an effect comes here.
    fn change(&mut self, _cfg: &Config, (): (), _env: &Env, _cx: &mut Cx) {}
    /// A packet that comes too late is dropped however long its sender waits.
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        Verdict::Accept
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let launch = cx.meta(&p).txtime;
        if launch == Instant::ZERO || launch < cx.now || launch < self.last {
            return cx.drop(p, DropReason::Late);
        }
        if let Err(p) = self.line.push(&mut cx.pool, p, launch) {
            cx.drop(p, DropReason::Overlimit);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if self.line.next().is_some_and(|first| first < cx.now) {
            self.drop_late(cx);
        }
        let until = if self.deadlines { Instant::MAX } else { cx.now + self.delta };
        if let Some(p) = self.line.pop_due(&cx.pool, until) {
            let m = cx.pool.meta_mut(&p);
            self.last = m.txtime;
            if self.deadlines {
                m.txtime = cx.now;
            }
            return Next::Packet(p);
        }
        match self.line.next() {
            Some(t) => Next::At(Instant(t.0 - self.delta.0.min(t.0)), WakeReason::LaunchTime),
            None => Next::Empty,
        }
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.line.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.line.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.last = Instant::ZERO;
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Etf {
    /// Drops the packets whose launch time is over; those of this very instant too, as the
    /// reference does once one is over.
    #[cold]
    fn drop_late(&mut self, cx: &mut Cx) {
        let mut bound = Bound::of(self.line.len() as usize + 1);
        while let Some(p) = self.line.pop_due(&cx.pool, cx.now) {
            bound.turn();
            cx.overlimit();
            cx.drop(p, DropReason::Late);
        }
    }
}
