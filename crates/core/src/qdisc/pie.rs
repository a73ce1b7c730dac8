//! pie: one FIFO under the PIE control law (RFC 8033): packets are dropped, or marked, as they
//! arrive, with a probability that holds the delay near `target` (tc-pie(8)). O(1) per packet; an
//! update of the law each `tupdate`, made up for when the qdisc is next called: after a silence of
//! any length in at most some 3000 steps of a few nanoseconds. Memory: 80 bytes for the law.
//!
//! - I1: never more than `limit` packets are queued.
//! - I2: order of arrival is order of departure.
//! - I3: the law drops no packet that meets a backlog below two full frames, nor during the first
//!   150 ms of a burst.
//! - I4: the law is as if updated whenever an update is due (`Updates`), however rarely it is
//!   called.
//! - Differs from Linux (PARITY.md: pie-bounded, pie-mark-run, pie-ticks, pie-idle-show,
//!   pie-range): a probability is at most one; one late mark does not mark every packet after it;
//!   time is in ticks of 1 ms, whatever the kernel's; shown values are as of the last packet; a
//!   target is not cut to 32 bits.

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::base::units::Packets;
use crate::law::pie::{PieParams, PieState, Ticks};
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::trim;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};

/// The delay to hold: 15 ms (RFC 8033 section 4.2, QDELAY_REF).
pub const TARGET: Ticks = Ticks::span(Nanos::from_millis(15));
/// Time from update to update: 15 ms (RFC 8033 section 4.2, T_UPDATE).
pub const TUPDATE: Nanos = Nanos::from_millis(15);
/// Largest target: tc's 32 bits of nanoseconds.
pub(crate) const TARGET_MAX: Ticks = Ticks::span(Nanos(u32::MAX as u64));

/// Time from the start to the first update: half a second, as in the reference. Before it the law
/// learns nothing of the queue.
const FIRST_UPDATE: Nanos = Nanos::from_millis(500);

crate::params! {
    /// Parameters of pie.
    pub struct Config(env) {
        /// Most packets that wait.
        limit: Packets = Packets(1000), keys ["limit"] @ u32 2;
        /// Delay to hold.
        target: Ticks = TARGET, keys ["target"] @ us32 1, "at most 4294967us": |t| *t <= TARGET_MAX;
        /// Time from one update of the probability to the next, in whole milliseconds; each comes
        /// one millisecond later.
        tupdate: Nanos = TUPDATE, keys ["tupdate"] @ us32 3, "1us to 4294s": tupdate_in_range;
        /// Gain on the distance from the target, in 16ths of one per second.
        alpha: u32 = 2, keys ["alpha"] @ u32 4, "0 to 32": |n| *n <= GAIN_MAX;
        /// Gain on the trend of the delay, in 16ths of one per second.
        beta: u32 = 20, keys ["beta"] @ u32 5, "0 to 32": |n| *n <= GAIN_MAX;
        /// Mark ECN-capable packets instead of dropping them, while the probability is at most 10
        /// %.
        ecn: bool = false, flags ["ecn" = true, "noecn" = false] @ u32 6;
        /// Drop a packet that is smaller than a full frame with a smaller probability, by its size.
        bytemode: bool = false, flags ["bytemode" = true, "nobytemode" = false] @ u32 7;
        /// Derive the delay from the backlog and the measured rate of departures instead of the
        /// packets' waits.
        dq_rate_estimator: bool = false, flags ["dq_rate_estimator" = true, "no_dq_rate_estimator" = false] @ u32 8;
    }
}

/// Largest gain that tc accepts.
pub(crate) const GAIN_MAX: u32 = 32;

pub(crate) fn tupdate_in_range(t: &Nanos) -> bool {
    (Nanos::from_micros(1)..=Nanos::from_secs(4294)).contains(t)
}

crate::stats! {
    /// Counters of pie.
    pub struct Stats {
        /// Probability of a drop, in parts of 2^64, as of the last packet.
        prob: u64 [part],
        /// Delay that the law last used, microseconds.
        delay: u64 [micros][falls],
        /// Measured rate of departures, bytes per second.
        avg_dq_rate: u64 [with("dq_rate_estimator")] [falls] [of(Rate)],
        /// Packets queued.
        pkts_in: u64 [line],
        /// Packets dropped at the limit.
        overlimit: u64,
        /// Packets dropped, at the limit or by the law.
        dropped: u64,
        /// Most packets that waited when another came.
        maxq: u32 [falls],
        /// Packets marked instead of dropped.
        ecn_mark: u64,
    }
}

/// A FIFO with PIE.
#[derive(Debug)]
pub(crate) struct Pie {
    queue: Queue,
    law: PieState,
    params: PieParams,
    updates: Updates,
    limit: u32,
    ecn: bool,
    /// Bytes of a packet that a peek has taken out and that still waits: it counts towards limit
    /// and backlog.
    held: Option<u32>,
    /// Bytes of the packet that left last.
    given: u32,
    /// Bytes of a packet that was held and left since the last call: it still waited when updates
    /// until now were due.
    leaving: u32,
    stats: Stats,
}

/// The times of the updates: those of a timer of the reference, on a kernel of 1000 ticks a second.
/// The timer is set to a number of ticks after the present one and comes one later, so that it is
/// never early; a timer far ahead lies in a coarser slot of the timer wheel, which fires as a
/// whole.
///
/// The laws of many queues are updated in batches, one a tick; the timer is set again with the last
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updates {
    /// Tick of the next update, of the first batch.
    next: u64,
    every: u64,
    /// Ticks from the update of the first batch to that of the last.
    span: u64,
    /// Tick of the last update of the first batch; 0 before the first.
    last: u64,
}

/// A tick, in nanoseconds.
const TICK: u64 = 1_000_000;
/// Ticks that the finest slots of the wheel cover, one tick each; the slots of each further level
/// reach eight times as far, and are eight times as wide.
const FINE: u64 = 63;
/// Levels above the finest.
const LEVELS: u32 = 8;

impl Updates {
    /// Returns the updates each `tupdate` after `start`, the first after `FIRST_UPDATE`.
    pub fn new(start: Instant, tupdate: Nanos) -> Self {
        Self::of_batches(start, tupdate, 1)
    }
    /// Returns the same for the laws of several batches of queues, at least 1.
    pub(crate) fn of_batches(start: Instant, tupdate: Nanos, batches: u32) -> Self {
        let next = fires(start.0 / TICK, FIRST_UPDATE.0 / TICK);
        Self { next, every: ticks(tupdate), span: u64::from(batches.saturating_sub(1)), last: 0 }
    }
    /// Starts anew at `start`.
    pub fn restart(&mut self, start: Instant) {
        (self.next, self.last) = (fires(start.0 / TICK, FIRST_UPDATE.0 / TICK), 0);
    }
    /// Changes the time between updates. The time until the next one stays, unless some batches are
    /// still to come before it.
    pub(crate) fn set_every(&mut self, tupdate: Nanos, now: Instant) {
        self.every = ticks(tupdate);
        if self.is_ahead(self.span, now) {
            self.next = fires(self.last + self.span, self.every);
        }
    }
    /// True if a batch, counted from 0, does not have the last of the due updates yet.
    #[inline]
    pub(crate) const fn is_ahead(&self, batch: u64, now: Instant) -> bool {
        self.last > 0 && now.0 / TICK < self.last + batch
    }
    /// Returns the number of updates, of the first batch, that have become due by `now` since the
    /// last call.
    #[inline]
    pub fn due(&mut self, now: Instant) -> u64 {
        if now.0 < self.next.saturating_mul(TICK) { 0 } else { self.count(now) }
    }
    #[cold]
    fn count(&mut self, now: Instant) -> u64 {
        let now = now.0 / TICK;
        // The second update lies at a border of its slot, and all later ones at equal distances.
        let second = fires(self.next + self.span, self.every);
        if now < second {
            (self.last, self.next) = (self.next, second);
            return 1;
        }
        let each = fires(second + self.span, self.every) - second;
        let more = (now - second) / each + 1;
        self.next = second + more * each;
        self.last = self.next - each;
        1 + more
    }
}

/// Returns the tick at which a timer fires that is set at `tick` to `after` ticks later.
fn fires(tick: u64, after: u64) -> u64 {
    let level = (0..LEVELS).find(|level| after < FINE << (3 * level)).unwrap_or(LEVELS);
    (((tick + after) >> (3 * level)) + 1) << (3 * level)
}

/// Returns whole ticks, rounded up.
const fn ticks(span: Nanos) -> u64 {
    span.0.div_ceil(TICK)
}

/// Returns the time between updates as it is counted: in whole ticks.
pub(crate) const fn whole_ticks(tupdate: Nanos) -> Nanos {
    Nanos(ticks(tupdate).saturating_mul(TICK))
}

/// Decision of the law on a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It waits.
    Passes,
    /// It waits, and is marked.
    Marked,
    /// It is to be dropped.
    Drops,
}

/// Decides on a packet that meets a backlog of `backlog` bytes, and marks it, if the law would drop
/// it and `marks` is true of the law.
#[inline]
pub(crate) fn decide(
    (law, params): (&mut PieState, &PieParams),
    p: &Pkt,
    backlog: u64,
    marks: impl FnOnce(&PieState) -> bool,
    cx: &mut Cx,
) -> Fate {
    let Cx { pool, rng, .. } = cx;
    let len = pool.meta(p).wire_len;
    if !law.drops(params, len, backlog, || rng.next_u64()) {
        Fate::Passes
    } else if marks(law) && cx.mark(p, MarkReason::Congested) {
        Fate::Marked
    } else {
        Fate::Drops
    }
}

/// Returns the law's parameters.
pub(crate) fn law_params(
    target: Ticks,
    [alpha, beta]: [u32; 2],
    [bytemode, estimates_rate]: [bool; 2],
    env: &Env,
) -> PieParams {
    let (mtu, strict_linux) = (env.frame_max(), env.strict_linux);
    PieParams { target, alpha, beta, bytemode, estimates_rate, mtu, strict_linux }
}

impl Config {
    fn law(&self, env: &Env) -> PieParams {
        law_params(self.target, [self.alpha, self.beta], [self.bytemode, self.dq_rate_estimator], env)
    }
}

impl Discipline for Pie {
    const KIND: &'static str = "pie";
    const ABOUT: &'static str = "One FIFO whose delay is held near a target, by drops on arrival (PIE).";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const STYLE: Style = Style::BLANK;
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("alpha" | "beta")) => Some(Refuser::Tool),
        _ => None,
    };
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        cfg.tupdate = whole_ticks(cfg.tupdate);
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        Self {
            queue: Queue::new(),
            law: PieState::default(),
            params: cfg.law(env),
            updates: Updates::new(Instant::ZERO, cfg.tupdate),
            limit: cfg.limit.0,
            ecn: cfg.ecn,
            held: None,
            given: 0,
            leaving: 0,
            stats: Stats::default(),
        }
    }
    fn start(&mut self, now: Instant) {
        self.updates.restart(now);
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.catch_up(cx.now);
        self.params = cfg.law(env);
        self.updates.set_every(cfg.tupdate, cx.now);
        (self.limit, self.ecn) = (cfg.limit.0, cfg.ecn);
        if self.waiting() > self.limit && cx.purge_peeked() {
            self.held = None;
        }
        let held = u32::from(self.held.is_some());
        trim(&mut self.queue, cx, |q| q.packets() + held > self.limit);
    }
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.waiting() < self.limit { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        self.catch_up(cx.now);
        let (waiting, backlog) = (self.waiting(), self.backlog());
        let reason = if waiting >= self.limit {
            self.stats.overlimit += 1;
            Some(DropReason::Overlimit)
        } else {
            let ecn = self.ecn;
            let fate = decide((&mut self.law, &self.params), &p, backlog, |law| ecn && law.marks(), cx);
            self.stats.ecn_mark += u64::from(fate == Fate::Marked);
            (fate == Fate::Drops).then_some(DropReason::Congested)
        };
        if let Some(reason) = reason {
            self.law.dropped();
            self.stats.dropped += 1;
            return cx.drop(p, reason);
        }
        self.stats.pkts_in += 1;
        self.stats.maxq = self.stats.maxq.max(waiting);
        self.queue.push_back(&mut cx.pool, p);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.catch_up(cx.now);
        let Some(p) = self.queue.pop_front(&cx.pool) else { return Next::Empty };
        let m = cx.meta(&p);
        let now = Ticks::at(cx.now);
        let sojourn = now.since(Ticks::at(m.enqueued));
        self.given = m.wire_len;
        self.law.departed(&self.params, m.wire_len, sojourn, now, self.queue.bytes());
        Next::Packet(p)
    }
    fn holding(&mut self, held: bool) {
        if !held {
            self.leaving = self.held.unwrap_or(0);
        }
        self.held = held.then_some(self.given);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(pool).for_each(f);
    }
    fn reset(&mut self, cx: &mut Cx) {
        self.catch_up(cx.now);
        self.law = PieState::default();
    }
    fn stats(&self) -> Stats {
        Stats {
            prob: self.law.prob() << 8,
            delay: self.law.delay().as_nanos().as_micros(),
            avg_dq_rate: self.law.rate(),
            ..self.stats
        }
    }
}

impl Pie {
    /// Makes the updates that are due.
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        let leaving = core::mem::take(&mut self.leaving);
        match self.updates.due(now) {
            0 => {}
            due => self.law.catch_up(&self.params, self.backlog() + u64::from(leaving), due),
        }
    }

    #[inline]
    const fn waiting(&self) -> u32 {
        self.queue.packets() + self.held.is_some() as u32
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.queue.bytes() + u64::from(self.held.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    const fn ms(n: u64) -> Instant {
        Instant(n * TICK)
    }

    /// Returns the ticks at which a batch has an update.
    fn seen(times: &mut Updates, batch: u64, ticks: core::ops::Range<u64>) -> Vec<u64> {
        let (mut begun, mut had, mut seen) = (0, 0, Vec::new());
        for tick in ticks {
            begun += times.due(ms(tick));
            let has = begun - u64::from(times.is_ahead(batch, ms(tick)));
            if has > had {
                seen.push(tick);
            }
            had = has;
        }
        seen
    }

    /// The timer is set anew with the last batch.
    #[test]
    fn batches_follow_each_other_by_a_tick() {
        for (batch, expected) in [(0, [504, 522, 540, 558]), (2, [506, 524, 542, 560])] {
            let mut times = Updates::of_batches(ms(0), TUPDATE, 3);
            assert_eq!(seen(&mut times, batch, 0..570), expected);
        }
        let mut rare = Updates::of_batches(ms(0), TUPDATE, 3);
        assert_eq!(rare.due(ms(541)), 3);
        assert_eq!([0, 1, 2].map(|batch| rare.is_ahead(batch, ms(541))), [false, false, true]);
        assert_eq!(rare.due(ms(557)), 0);
        assert_eq!(rare.due(ms(558)), 1);
    }

    /// A change applies when the timer is next set: behind the last batch.
    #[test]
    fn a_change_between_batches_is_in_time_for_the_last() {
        for (at, expected) in
            [(504, vec![504, 512, 520]), (505, vec![504, 512, 520]), (506, vec![504, 522, 530])]
        {
            let mut times = Updates::of_batches(ms(0), TUPDATE, 3);
            let mut got = seen(&mut times, 0, 0..at + 1);
            times.set_every(Nanos::from_millis(5), ms(at));
            got.extend(seen(&mut times, 0, at + 1..531));
            got.truncate(3);
            assert_eq!(got, expected, "{at}");
        }
    }
}
