//! The receiving half of a connection: the data that has come, the gaps in it, and the time of
//! acknowledgements.

pub(crate) mod gaps;
pub(crate) mod window;

use std::sync::Arc;

use txweir_core::{Ecn, Instant, Nanos};

use crate::config::{Acks, Config};
use crate::ecn::{EcnReceiver, Reaction};
use crate::rare::{Blank, Maybe, Rare};
use crate::receiver::gaps::{Added, Gaps};
use crate::receiver::window::Window;
use crate::segment::{Flags, Sacks, Segment};

/// Largest number of acknowledgements in a row without delay.
const QUICK_MAX: u32 = 16;
/// Largest number of blocks with which acknowledgements may be compressed.
const BLOCKS_COMPRESSED: usize = 2;
/// Number of acknowledgements that may be compressed into one.
const COMPRESSED_MAX: u32 = 44;
/// Number of duplicate acknowledgements sent at once, so that the sender sees a loss in time.
const DUPLICATES_AT_ONCE: u32 = 3;
/// Longest wait of compressed acknowledgements, and the slack of that timer.
const COMPRESS_NS: u64 = 1_000_000;
const COMPRESS_SLACK_NS: u64 = 100_000;
/// Longest delay of an acknowledgement.
const DELAY_MAX_MS: u64 = 200;
/// Segment size that a receiver assumes before it has seen one (RFC 9293 section 3.7.1).
const SEGMENT_DEFAULT: u32 = 536;

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

/// The number and the time from which on a window's worth of data is timed.
impl Blank for (u64, Instant) {
    fn blank() -> &'static Self {
        &(0, Instant::ZERO)
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Next number expected in order.
    pub(crate) next: u64,
    /// Number of the next byte that the reader takes.
    pub(crate) read: u64,
    /// The number of the FIN, once it has come.
    fin: Maybe,
    /// Data that came out of order.
    gaps: Rare<Gaps>,
    duplicate: Option<Box<(u64, u64)>>,
    pub(crate) window: Window,
    pub(crate) ecn: EcnReceiver,
    pub(crate) due: Due,
    /// True if only a segment outside the window asked for the acknowledgement, which then does not
    /// count as a quick one.
    unasked: bool,
    /// The number that the last acknowledgement carried.
    acked: u64,
    /// Observed payload of a full segment.
    segment: u32,
    last_small: u32,
    /// Short segments that a reader may be waiting for: 0, 1, or 2 for more.
    pushed: u8,
    /// Number of acknowledgements still to be sent without delay.
    quick: u32,
    /// True if data flows both ways, so that acknowledgements ride on it.
    pub(crate) interactive: bool,
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
    pub(crate) compress_at: Maybe,
    compressed: u32,
    duplicates: u32,
    duplicates_at: u64,
    /// The time stamp to echo.
    pub(crate) recent_stamp: u32,
    sack: bool,
    stamps: bool,
    /// Number before a change of marks, acknowledged by a segment of its own first.
    pub(crate) split_at: Maybe,
    seen_next: u64,
    /// The configuration, shared with the sending half.
    pub(crate) config: Arc<Config>,
    /// Number and time from which a window's worth of data measures a round trip if there are no
    /// time stamps.
    rtt_from: Rare<(u64, Instant)>,
}

impl Receiver {
    pub(crate) fn new(c: Arc<Config>) -> Self {
        Self {
            next: 0,
            read: 1,
            fin: Maybe::NONE,
            gaps: Rare::default(),
            duplicate: None,
            window: Window::new(&c),
            ecn: EcnReceiver::default(),
            due: Due::Never,
            unasked: false,
            acked: 0,
            segment: SEGMENT_DEFAULT.min(c.segment()),
            last_small: 0,
            pushed: 0,
            quick: 0,
            interactive: false,
            delay: 0,
            last_data: 0,
            timer_tick: 0,
            timer_at: Maybe::NONE,
            timer_meant: false,
            compress_at: Maybe::NONE,
            compressed: 0,
            duplicates: 0,
            duplicates_at: 0,
            recent_stamp: 0,
            sack: c.sack,
            stamps: c.stamps,
            split_at: Maybe::NONE,
            seen_next: 0,
            rtt_from: Rare::default(),
            config: c,
        }
    }

    /// Starts the half once the peer's SYN has come and both ends know the options.
    pub(crate) fn begin(&mut self, now: Instant, stamps: bool, sack: bool, segment: u32) {
        self.next = 1;
        self.acked = 1;
        self.stamps = stamps;
        self.sack = sack;
        self.window.offered_at = 1;
        self.window.begin(now, 1, u64::from(segment));
        self.segment = self.segment.min(segment);
    }

    /// Starts the measurement of the reader's rate and of silence when the connection is
    /// established.
    pub(crate) fn established(&mut self, now: Instant) {
        self.window.measure_from(now);
        self.last_data = self.config.tick.count(now);
    }

    /// Returns the number of bytes in order that wait for the reader.
    pub(crate) const fn readable(&self) -> u64 {
        let end = match self.fin.get() {
            Some(fin) if self.next > fin => fin,
            _ => self.next,
        };
        end.saturating_sub(self.read)
    }
    /// True if the reader has everything and the peer has closed.
    pub(crate) fn finished(&self) -> bool {
        self.fin.get().is_some_and(|fin| self.next > fin && self.read == fin)
    }
    /// True if the peer's FIN has come in order.
    pub(crate) fn closed(&self) -> bool {
        self.fin.get().is_some_and(|fin| self.next > fin)
    }
    /// Returns the number of bytes in the buffer: unread, and out of order.
    fn held(&self) -> u64 {
        self.readable() + self.gaps.bytes()
    }

    /// Lets the reader take up to `most` bytes, and returns their number.
    pub(crate) fn take(&mut self, now: Instant, most: u64) -> u64 {
        let n = self.readable().min(most);
        if n == 0 {
            return 0;
        }
        // A reader copies buffer by buffer, and the first buffer of a new round trip ends the last
        // one.
        let first = n.min(self.window.shared());
        self.window.read(now, self.read + first, self.readable() - first);
        self.read += n;
        let empty = self.readable() == 0;
        if self.due != Due::Never {
            let adaptive = self.config.acks == Acks::Adaptive;
            let short = adaptive && (self.pushed >= 2 || (self.pushed == 1 && !self.interactive));
            if self.owes_more() || (short && empty) {
                self.due = Due::Now;
            }
        }
        let left = self.window.left(self.next);
        if self.due != Due::Now && 2 * left <= self.window.clamp() && !self.closed() {
            let possible = self.window.possible(self.held(), u64::from(self.segment));
            if possible > 0 && possible >= 2 * left {
                self.due = Due::Now;
            }
        }
        n
    }

    /// Takes a segment. `rto` and `srtt8_us` are those of the sending half. False if the segment
    /// lies outside the window.
    pub(crate) fn data(&mut self, now: Instant, seg: &Segment, rto: u64, srtt8_us: u32) -> bool {
        if !self.timer_meant && self.timer_at.get().is_some_and(|at| at <= now.0) {
            self.timer_at = Maybe::NONE;
        }
        let (start, end) = (seg.seq, seg.end());
        let right = self.next + self.window.left(self.next);
        if end < self.acked.min(self.next) || start > right {
            self.unasked = self.due == Due::Never;
            self.outside(seg);
            return false;
        }
        self.note_stamp(now, seg);
        if self.ecn.arrived(seg) {
            self.due = Due::Now;
        }
        if seg.len == 0 && !seg.flags.has(Flags::FIN) {
            return true;
        }
        if end <= self.next {
            self.outside(seg);
            return true;
        }
        if start > self.next {
            self.early(now, seg, srtt8_us);
            return true;
        }
        if start < self.next {
            self.duplicate = Some(Box::new((start, self.next)));
            self.quick_mode(QUICK_MAX);
        }
        let ofo = !self.gaps.is_empty();
        self.next = end;
        self.event(now, seg, rto);
        if seg.flags.has(Flags::FIN) {
            self.fin = Maybe::some(end - 1);
            self.due = Due::Now;
        }
        let filled = ofo && self.join();
        self.decide(now, srtt8_us, ofo && !self.gaps.is_empty());
        if filled && self.gaps.is_empty() {
            self.due = Due::Now;
        }
        true
    }

    /// Handles a segment outside the window, or with data that has come before: it is acknowledged
    /// at once (RFC 9293 section 3.10.7.4).
    fn outside(&mut self, seg: &Segment) {
        if seg.end() > seg.seq && seg.seq < self.next {
            self.duplicate = Some(Box::new((seg.seq, seg.end().min(self.next))));
            self.quick_mode(QUICK_MAX);
        }
        self.due = Due::Now;
    }

    /// Records time stamps. The stamp to echo is that of the segment that the next acknowledgement
    /// answers (RFC 7323 section 4.3).
    fn note_stamp(&mut self, now: Instant, seg: &Segment) {
        let Some((theirs, echo)) = seg.stamps else {
            if !self.stamps && self.next >= self.rtt_from.0 && seg.len > 0 {
                if self.rtt_from.0 > 0 {
                    let us = now.saturating_since(self.rtt_from.1).0 / 1_000;
                    self.window.round_trip_at_most(u32::try_from(us).unwrap_or(u32::MAX));
                }
                *self.rtt_from = (self.next + self.window.left(self.next), now);
            }
            return;
        };
        if seg.seq <= self.acked {
            self.recent_stamp = theirs;
        }
        if seg.len > 0 && echo != 0 && self.window.fresh(echo) && seg.len >= self.segment {
            let ms = self.config.tick.stamp(now).wrapping_sub(echo);
            if ms < 1 << 20 {
                self.window.round_trip(ms.max(1) * 1_000);
            }
        }
    }

    /// Adapts the delay and the window to data that has come in order.
    fn event(&mut self, now: Instant, seg: &Segment, rto: u64) {
        self.schedule();
        self.measure(seg);
        let ticks = self.config.tick.count(now);
        if self.delay == 0 {
            self.incr_quick(QUICK_MAX);
            self.set_delay(self.delay_min());
        } else {
            let gap = ticks - self.last_data.min(ticks);
            let (half, delay) = (self.delay_min() / 2, u64::from(self.delay));
            if gap <= half {
                self.set_delay((delay >> 1) + half);
            } else if gap < delay {
                self.set_delay(((delay >> 1) + gap).min(rto));
            } else if gap > rto {
                // After a silence of this length the sender may start with a small window.
                self.incr_quick(QUICK_MAX);
            }
        }
        self.last_data = ticks;
        self.mark(seg.ecn, seg.flags);
        let held = self.held();
        self.grow(seg, held);
    }

    /// Grows the window. A larger window is worth an acknowledgement at once.
    fn grow(&mut self, seg: &Segment, held: u64) {
        if seg.len >= 128 && self.window.grow(u64::from(seg.len), held) {
            self.quick |= 1;
        }
    }

    fn mark(&mut self, ecn: Ecn, flags: Flags) {
        let Reaction { quick, now, before } = self.ecn.data(ecn, flags);
        if quick {
            self.quick_mode(2);
        }
        if before && self.timer_meant {
            self.split_at = Maybe::some(self.seen_next);
        } else {
            self.ecn.turn();
        }
        if now {
            self.due = Due::Now;
        }
        self.seen_next = self.next;
    }

    const fn schedule(&mut self) {
        if matches!(self.due, Due::Never) {
            self.due = Due::Later;
        }
    }

    fn measure(&mut self, seg: &Segment) {
        let len = if seg.gso > 0 { u32::from(seg.gso).min(seg.len) } else { seg.len };
        if len >= self.segment {
            if len > self.segment || self.segment == SEGMENT_DEFAULT {
                self.window.full_segment(u64::from(seg.len));
            }
            self.segment = len;
            // A super-segment is more than one segment, as a short one is less, and a full one with
            // PSH may be the last for a while: none of their acknowledgements waits once the data
            // is read.
            let ends = seg.len == self.segment && seg.flags.has(Flags::PSH);
            if ends || seg.len > self.segment + 40 {
                self.pushed = self.pushed.max(1);
            }
        } else {
            let same = len == self.last_small && len >= SEGMENT_DEFAULT;
            self.last_small = len;
            if same {
                self.segment = len;
            } else {
                self.pushed = if self.pushed >= 1 { 2 } else { 1 };
            }
        }
    }

    fn incr_quick(&mut self, most: u32) {
        let n = (self.window.offered / (2 * u64::from(self.segment.max(1)))) as u32;
        self.quick = self.quick.max(if n == 0 { 2 } else { n }.min(most));
    }

    /// Sends acknowledgements at once for a while.
    fn quick_mode(&mut self, most: u32) {
        self.incr_quick(most);
        self.interactive = false;
        self.set_delay(self.delay_min());
    }

    /// Takes data that lies beyond a gap.
    fn early(&mut self, now: Instant, seg: &Segment, srtt8_us: u32) {
        if seg.flags.has(Flags::FIN) {
            self.fin = Maybe::some(seg.end() - 1);
        }
        self.measure(seg);
        self.mark(seg.ecn, seg.flags);
        self.schedule();
        if self.sack {
            let held = self.held();
            self.grow(seg, held);
        }
        match self.gaps.add(seg.seq, seg.end()) {
            Added::Full => return,
            Added::Known => self.duplicate = Some(Box::new((seg.seq, seg.end()))),
            Added::New => {}
        }
        // A sender that misses several ranges must know at once.
        if self.sack && self.gaps.tell(seg.seq, seg.end()) >= BLOCKS_COMPRESSED {
            self.flush_compressed();
        }
        self.decide(now, srtt8_us, true);
    }

    fn flush_compressed(&mut self) {
        if self.compressed > 0 {
            self.due = Due::Now;
        }
    }

    /// Joins early data to the data in order. True if there was some to join.
    fn join(&mut self) -> bool {
        let (next, twice) = self.gaps.join(self.next);
        self.duplicate = self.duplicate.take().or_else(|| twice.map(Box::new));
        if self.gaps.is_empty() {
            self.gaps.forget();
        }
        std::mem::replace(&mut self.next, next) != next
    }

    /// True if more data is unacknowledged than the policy lets wait.
    fn owes_more(&self) -> bool {
        let may_wait = match self.config.acks {
            Acks::Adaptive => 1,
            Acks::Every(n) => u64::from(n).saturating_sub(1),
        };
        self.next - self.acked > may_wait * u64::from(self.segment)
    }

    /// Decides whether the new data is acknowledged at once, or after the shortest delay
    /// (`Acks::Every`).
    fn decide_plainly(&mut self, now: Instant, ofo: bool) {
        if ofo || self.due == Due::Now || self.owes_more() {
            self.due = Due::Now;
        } else if !self.timer_meant {
            let expires = self.config.tick.count(now) + self.delay_min();
            (self.timer_tick, self.timer_at) =
                (expires, Maybe::some(self.config.tick.expiry(now, expires).0));
            self.timer_meant = true;
        }
    }

    /// Decides whether the new data is acknowledged at once, later, or together with other data.
    fn decide(&mut self, now: Instant, srtt8_us: u32, ofo: bool) {
        if self.config.acks != Acks::Adaptive {
            return self.decide_plainly(now, ofo);
        }
        let possible = || self.window.possible(self.held(), u64::from(self.segment));
        let full = self.owes_more() && (self.readable() < 1 || possible() >= self.window.offered);
        if full || (self.quick > 0 && !self.interactive) || self.due == Due::Now {
            self.due = Due::Now;
            return;
        }
        if !ofo {
            self.delay_more(now, srtt8_us);
            return;
        }
        if !self.sack || self.compressed >= COMPRESSED_MAX {
            self.due = Due::Now;
            return;
        }
        if self.duplicates_at != self.next {
            (self.duplicates_at, self.duplicates) = (self.next, 0);
        }
        if self.duplicates < DUPLICATES_AT_ONCE {
            self.duplicates += 1;
            self.due = Due::Now;
            return;
        }
        self.compressed += 1;
        if !self.compress_at.is_some() {
            let mut rtt8 = self.window.rtt8_us();
            if srtt8_us > 0 && srtt8_us < rtt8 {
                rtt8 = srtt8_us;
            }
            let wait = (u64::from(rtt8) * 125 / 20).min(COMPRESS_NS);
            self.compress_at = Maybe::some((now + Nanos(wait + COMPRESS_SLACK_NS)).0);
        }
    }

    /// Returns the shortest delay of an acknowledgement, ticks.
    fn delay_min(&self) -> u64 {
        self.config.tick.from_micros(self.config.ack_delay.0 / 1_000)
    }

    fn set_delay(&mut self, ticks: u64) {
        self.delay = u32::try_from(ticks).unwrap_or(u32::MAX);
    }

    fn delay_more(&mut self, now: Instant, srtt8_us: u32) {
        let ticks = self.config.tick.count(now);
        let mut delay = u64::from(self.delay);
        if delay > self.delay_min() {
            let mut most = self.config.tick.from_millis(500);
            if self.interactive || self.pushed > 0 {
                most = self.config.tick.from_millis(DELAY_MAX_MS);
            }
            if srtt8_us > 0 {
                let rtt = self.config.tick.from_micros(u64::from(srtt8_us >> 3)).max(self.delay_min());
                most = most.min(rtt);
            }
            delay = delay.min(most);
        }
        let mut expires = ticks + delay.min(self.config.tick.from_millis(DELAY_MAX_MS));
        if self.timer_meant && self.timer_at.is_some() {
            let set = self.timer_tick;
            if set <= ticks + (delay >> 2) {
                self.due = Due::Now;
                return;
            }
            expires = expires.min(set);
        }
        (self.timer_tick, self.timer_at) = (expires, Maybe::some(self.config.tick.expiry(now, expires).0));
        self.timer_meant = true;
    }

    /// Runs the timers of delayed and of compressed acknowledgements that are due.
    pub(crate) fn on_time(&mut self, now: Instant, rto: impl FnOnce() -> u64) {
        if self.compress_at.get().is_some_and(|at| at <= now.0) {
            self.compress_at = Maybe::NONE;
            if self.compressed > 0 {
                self.due = Due::Now;
            }
        }
        if self.timer_at.get().is_some_and(|at| at <= now.0) {
            self.timer_at = Maybe::NONE;
            let meant = std::mem::replace(&mut self.timer_meant, false);
            if self.compressed > 0 {
                self.due = Due::Now;
            } else if meant && self.due == Due::Later {
                if self.interactive {
                    self.interactive = false;
                    self.set_delay(self.delay_min());
                } else {
                    self.set_delay((u64::from(self.delay) << 1).min(rto()));
                }
                self.due = Due::Now;
            }
        }
    }

    /// Notes that a segment leaves that acknowledges all data so far. Returns the window field and
    /// the blocks.
    pub(crate) fn acknowledge(&mut self) -> (u16, Sacks) {
        let unasked = std::mem::take(&mut self.unasked);
        let scheduled = u32::from(self.due != Due::Never && !unasked);
        if self.quick > 0 {
            if scheduled >= self.quick {
                self.quick = 0;
                self.set_delay(self.delay_min());
            } else {
                self.quick -= scheduled;
            }
        }
        self.due = Due::Never;
        (self.timer_meant, self.pushed) = (false, 0);
        if self.window.scarce(self.held()) {
            self.quick = 0;
        }
        self.acknowledge_before()
    }

    /// Does the same for a segment that acknowledges only part of the data: the rest and the timers
    /// keep waiting.
    pub(crate) fn acknowledge_before(&mut self) -> (u16, Sacks) {
        if let Some(counts) = self.ecn.counts.made() {
            counts.told();
        }
        (self.compress_at, self.compressed) = (Maybe::NONE, 0);
        let window = self.window.offer(self.next, self.held(), u64::from(self.segment));
        self.acked = self.next;
        let most = if self.stamps { 3 } else { 4 };
        let mut sacks = Sacks::default();
        if self.sack {
            if let Some(twice) = self.duplicate.take() {
                sacks.push(twice.0, twice.1, most);
            }
            for &(start, end) in self.gaps.blocks() {
                sacks.push(start, end, most);
            }
        }
        self.duplicate = None;
        (window, sacks)
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
