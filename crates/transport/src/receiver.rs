//! The receiving half of a connection: the data that has come, the window offered for more, and
//! their acknowledgement.

pub(crate) mod gaps;
mod sizes;
mod stream;
mod timing;
pub(crate) mod window;

use std::sync::Arc;

use txweir_core::{Ecn, Instant};

use crate::config::{Acks, Config};
use crate::ecn::{EcnReceiver, Reaction};
use crate::rare::{Blank, Maybe, Rare};
use crate::receiver::sizes::{Shown, Sizes};
use crate::receiver::stream::Stream;
pub(crate) use crate::receiver::timing::Due;
use crate::receiver::timing::{QUICK_MAX, Timing};
use crate::receiver::window::Window;
use crate::segment::{Flags, Sacks, Segment};

/// Largest difference of time stamps at which a segment still counts as new.
const STAMP_SLACK: i32 = 1;
/// Largest number of blocks with which acknowledgements may be compressed.
const BLOCKS_COMPRESSED: usize = 2;

/// The number and the time from which on a window's worth of data is timed.
impl Blank for (u64, Instant) {
    fn blank() -> &'static Self {
        &(0, Instant::ZERO)
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) stream: Stream,
    pub(crate) window: Window,
    pub(crate) ecn: EcnReceiver,
    pub(crate) timing: Timing,
    sizes: Sizes,
    /// The number that the last acknowledgement carried.
    acked: u64,
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
            stream: Stream::new(),
            window: Window::new(&c),
            ecn: EcnReceiver::default(),
            timing: Timing::new(),
            sizes: Sizes::new(&c),
            acked: 0,
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
        self.stream.next = 1;
        self.acked = 1;
        self.stamps = stamps;
        self.sack = sack;
        self.window.offered_at = 1;
        self.window.begin(now, 1, u64::from(segment));
        self.sizes.at_most(segment);
    }

    /// Starts the measurement of the reader's rate and of silence when the connection is
    /// established.
    pub(crate) fn established(&mut self, now: Instant) {
        self.window.measure_from(now);
        self.timing.silent_from(self.config.tick.count(now));
    }

    /// Lets the reader take up to `most` bytes, and returns their number.
    pub(crate) fn take(&mut self, now: Instant, most: u64) -> u64 {
        let n = self.stream.readable().min(most);
        if n == 0 {
            return 0;
        }
        // A reader copies buffer by buffer, and the first buffer of a new round trip ends the last
        // one.
        let first = n.min(self.window.shared());
        self.window.read(now, self.stream.read + first, self.stream.readable() - first);
        self.stream.read += n;
        let empty = self.stream.readable() == 0;
        if self.timing.due != Due::Never {
            let adaptive = self.config.acks == Acks::Adaptive;
            if self.owes_more() || (adaptive && self.timing.read_soon() && empty) {
                self.timing.at_once();
            }
        }
        let left = self.window.left(self.stream.next);
        if self.timing.due != Due::Now && 2 * left <= self.window.clamp() && !self.stream.closed() {
            let possible = self.possible();
            if possible > 0 && possible >= 2 * left {
                self.timing.at_once();
            }
        }
        n
    }

    /// Returns the window that could be offered.
    fn possible(&self) -> u64 {
        self.window.possible(self.stream.held(), u64::from(self.sizes.full))
    }

    /// Takes a segment. `rto` and `srtt8_us` are those of the sending half. False if the segment
    /// lies outside the window, or is too old.
    pub(crate) fn data(&mut self, now: Instant, seg: &Segment, rto: u64, srtt8_us: u32) -> bool {
        self.timing.expire(now);
        let (start, end, next) = (seg.seq, seg.end(), self.stream.next);
        let right = next + self.window.left(next);
        if self.is_stale(seg) || end < self.acked.min(next) || start > right {
            self.timing.outside();
            self.outside(seg);
            return false;
        }
        self.note_stamp(now, seg);
        if self.ecn.arrived(seg) {
            self.timing.at_once();
        }
        if seg.len == 0 && !seg.flags.has(Flags::FIN) {
            return true;
        }
        if seg.len > 0 && start >= right {
            // The window is shut, or ends before the data, which is not taken (`out_of_window` of
            // Linux). The rest of the segment counts.
            self.quick_mode(QUICK_MAX);
            self.timing.at_once();
        } else if end <= next {
            self.outside(seg);
        } else if start > next {
            self.early(now, seg, srtt8_us);
        } else {
            self.in_order(now, seg, rto, srtt8_us);
        }
        true
    }

    /// Takes a segment with the number that is expected next.
    fn in_order(&mut self, now: Instant, seg: &Segment, rto: u64, srtt8_us: u32) {
        if self.stream.note_repeated(seg) {
            self.quick_mode(QUICK_MAX);
        }
        let ofo = self.stream.has_gaps();
        self.stream.next = seg.end();
        self.event(now, seg, rto);
        if self.stream.note_fin(seg) {
            self.timing.at_once();
        }
        let filled = ofo && self.stream.join();
        self.decide(now, srtt8_us, ofo && self.stream.has_gaps());
        if filled && !self.stream.has_gaps() {
            self.timing.at_once();
        }
    }

    /// Handles a segment outside the window, or with data that has come before: it is acknowledged
    /// at once (RFC 9293 section 3.10.7.4).
    fn outside(&mut self, seg: &Segment) {
        if self.stream.note_repeated(seg) {
            self.quick_mode(QUICK_MAX);
        }
        self.timing.at_once();
    }

    /// Returns how much older a time stamp is than the recent one.
    const fn age(&self, theirs: u32) -> i32 {
        if self.recent_stamp == 0 { 0 } else { self.recent_stamp.wrapping_sub(theirs) as i32 }
    }

    /// True for data that is older than data which has been acknowledged (RFC 7323 section 5.3,
    /// R1). A late acknowledgement without data does no harm.
    fn is_stale(&self, seg: &Segment) -> bool {
        let data = seg.end() > seg.seq;
        data && self.stamps && seg.stamps.is_some_and(|(theirs, _)| self.age(theirs) > STAMP_SLACK)
    }

    /// Records time stamps. The stamp to echo is that of the segment that the next acknowledgement
    /// answers (RFC 7323 section 4.3).
    fn note_stamp(&mut self, now: Instant, seg: &Segment) {
        let Some((theirs, echo)) = seg.stamps else {
            let next = self.stream.next;
            if !self.stamps && next >= self.rtt_from.0 && seg.len > 0 {
                if self.rtt_from.0 > 0 {
                    let us = now.saturating_since(self.rtt_from.1).0 / 1_000;
                    self.window.round_trip_at_most(u32::try_from(us).unwrap_or(u32::MAX));
                }
                *self.rtt_from = (next + self.window.left(next), now);
            }
            return;
        };
        if seg.seq <= self.acked && self.age(theirs) <= 0 {
            self.recent_stamp = theirs;
        }
        if seg.len > 0 && echo != 0 && self.window.fresh(echo) && seg.len >= self.sizes.full {
            let ms = self.config.tick.stamp(now).wrapping_sub(echo);
            if ms < 1 << 20 {
                self.window.round_trip(ms.max(1) * 1_000);
            }
        }
    }

    /// Adapts the delay and the window to data that has come in order.
    fn event(&mut self, now: Instant, seg: &Segment, rto: u64) {
        self.timing.schedule();
        self.measure(seg);
        let n = self.quick(QUICK_MAX);
        self.timing.adapt(&self.config, now, rto, n);
        self.mark(seg.ecn, seg.flags);
        self.grow(seg);
    }

    fn measure(&mut self, seg: &Segment) {
        let shown = self.sizes.measure(seg);
        if matches!(shown, Shown::Full { shares: true, .. }) {
            self.window.full_segment(u64::from(seg.len));
        }
        self.timing.size(shown);
    }

    /// Grows the window. A larger window is worth an acknowledgement at once.
    fn grow(&mut self, seg: &Segment) {
        if seg.len >= 128 && self.window.grow(u64::from(seg.len), self.stream.held()) {
            self.timing.quick |= 1;
        }
    }

    fn mark(&mut self, ecn: Ecn, flags: Flags) {
        let Reaction { quick, now, before } = self.ecn.data(ecn, flags);
        if quick {
            self.quick_mode(2);
        }
        if before && self.timing.delayed() {
            self.split_at = Maybe::some(self.seen_next);
        } else {
            self.ecn.turn();
        }
        if now {
            self.timing.at_once();
        }
        self.seen_next = self.stream.next;
    }

    /// Returns the number of quick acknowledgements that suits the window: one for every two
    /// segments, from 2 to `most`.
    fn quick(&self, most: u32) -> u32 {
        let n = (self.window.offered / (2 * u64::from(self.sizes.full.max(1)))) as u32;
        if n == 0 { 2 } else { n }.min(most)
    }

    /// Sends acknowledgements at once for a while.
    fn quick_mode(&mut self, most: u32) {
        let n = self.quick(most);
        self.timing.quick_mode(&self.config, n);
    }

    /// Takes data that lies beyond a gap.
    fn early(&mut self, now: Instant, seg: &Segment, srtt8_us: u32) {
        self.stream.note_fin(seg);
        self.measure(seg);
        self.mark(seg.ecn, seg.flags);
        self.timing.schedule();
        if self.sack {
            self.grow(seg);
        }
        if !self.stream.add(seg) {
            return;
        }
        // A sender that misses several ranges must know at once.
        if self.sack && self.stream.tell(seg) >= BLOCKS_COMPRESSED {
            self.timing.hasten_compressed();
        }
        self.decide(now, srtt8_us, true);
    }

    /// True if more data is unacknowledged than the policy lets wait.
    fn owes_more(&self) -> bool {
        let may_wait = match self.config.acks {
            Acks::Adaptive => 1,
            Acks::Every(n) => u64::from(n).saturating_sub(1),
        };
        self.stream.next - self.acked > may_wait * u64::from(self.sizes.full)
    }

    /// Decides whether the new data is acknowledged at once, later, or together with other data;
    /// with [`Acks::Every`] at once, or after the shortest delay. `ofo`: there are gaps.
    fn decide(&mut self, now: Instant, srtt8_us: u32, ofo: bool) {
        let owes = self.owes_more();
        if self.config.acks != Acks::Adaptive {
            if ofo || self.timing.due == Due::Now || owes {
                self.timing.at_once();
            } else {
                self.timing.wait_shortly(&self.config, now);
            }
            return;
        }
        let full = owes && (self.stream.readable() < 1 || self.possible() >= self.window.offered);
        let quick = self.timing.quick > 0 && !self.timing.interactive;
        if full || quick || self.timing.due == Due::Now || (ofo && !self.sack) {
            self.timing.at_once();
        } else if ofo {
            let mut rtt8 = self.window.rtt8_us();
            if srtt8_us > 0 && srtt8_us < rtt8 {
                rtt8 = srtt8_us;
            }
            self.timing.compress(now, self.stream.next, rtt8);
        } else {
            self.timing.wait(&self.config, now, srtt8_us);
        }
    }

    /// Runs the timers of acknowledgements that are due.
    pub(crate) fn on_time(&mut self, now: Instant, rto: impl FnOnce() -> u64) {
        self.timing.on_time(&self.config, now, rto);
    }

    /// Notes that a segment leaves that acknowledges all data so far. Returns the window field and
    /// the blocks.
    pub(crate) fn acknowledge(&mut self) -> (u16, Sacks) {
        self.timing.left(&self.config);
        if self.window.scarce(self.stream.held()) {
            self.timing.quick = 0;
        }
        self.acknowledge_before()
    }

    /// Does the same for a segment that acknowledges only part of the data: the rest and the timers
    /// keep waiting.
    pub(crate) fn acknowledge_before(&mut self) -> (u16, Sacks) {
        if let Some(counts) = self.ecn.counts.made() {
            counts.told();
        }
        self.timing.left_before();
        let next = self.stream.next;
        let window = self.window.offer(next, self.stream.held(), u64::from(self.sizes.full));
        self.acked = next;
        let most = match (self.sack, self.stamps) {
            (false, _) => 0,
            (true, true) => 3,
            (true, false) => 4,
        };
        (window, self.stream.blocks(most))
    }
}
