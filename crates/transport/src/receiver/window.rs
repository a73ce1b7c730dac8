//! The window that a receiver offers: the free room of its buffer, opened as data shows the need
//! (dynamic right sizing, Fisk and Feng 2001), never taken back (RFC 9293 section 3.8.6.2.1).

use txweir_core::Instant;

use crate::config::Config;

/// Share of the buffer's memory that counts as window before segments have shown their own, of 256.
const RATIO_START: u32 = 128;
/// Largest buffer: the largest window that a header can tell (RFC 7323 section 2.3).
const BUFFER_MAX: u64 = 1 << 30;

/// Narrows a count of bytes of a buffer or a segment, which is at most 1 GiB.
fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The window of a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Memory of the buffer, bytes.
    buffer: u32,
    buffer_max: u32,
    /// Payload for each 256 bytes of memory.
    ratio: u32,
    /// The largest window offered: grows as segments come.
    threshold: u64,
    clamp: u64,
    /// The window offered last, and the number that it was offered at.
    pub(crate) offered: u64,
    pub(crate) offered_at: u64,
    /// Number of bits by which windows are shifted.
    pub(crate) scale: u8,
    /// Number of full segments whose payload shares a buffer.
    merged: u8,
    mss: u32,
    /// Memory of a buffer in addition to its payload.
    overhead: u32,
    /// Measurement of the reader's rate per round trip: bytes of the last round trip, first number
    /// and start time of this one.
    space: u64,
    space_seq: u64,
    space_since: Instant,
    /// Eight times the round trip as seen by the receiver, microseconds.
    rtt8_us: u32,
    /// The time stamp of the last sample.
    last_echo: u32,
}

impl Window {
    pub(crate) fn new(c: &Config) -> Self {
        let buffer = c.receive_buffer.min(BUFFER_MAX);
        let buffer_max = c.receive_buffer_max.clamp(buffer, BUFFER_MAX);
        let space = buffer * u64::from(RATIO_START) / 256;
        let mut scale = 0;
        // The shift that can express the largest window (RFC 7323 section 2.2).
        while scale < 14 && buffer_max >> scale > 65_535 {
            scale += 1;
        }
        Self {
            buffer: narrow(buffer),
            buffer_max: narrow(buffer_max),
            ratio: RATIO_START,
            threshold: space,
            clamp: space,
            offered: space,
            offered_at: 0,
            scale,
            mss: c.segment(),
            overhead: c.segment_memory.saturating_sub(c.segment()).max(1),
            merged: c.merged.clamp(1, 64) as u8,
            space: u64::from(c.initial_window) * u64::from(c.segment()),
            space_seq: 0,
            space_since: Instant::ZERO,
            rtt8_us: 0,
            last_echo: 0,
        }
    }

    /// Sets the window of a SYN, or of the answer to a SYN: whole segments of `mss` bytes.
    pub(crate) fn first(&mut self, mss: u64) {
        let space = self.of_memory(self.buffer());
        self.offered = if space > mss { space / mss * mss } else { space }.min(65_535 << self.scale);
    }

    /// Starts the measurement of the reader's rate when the connection is established.
    pub(crate) const fn measure_from(&mut self, now: Instant) {
        self.space_since = now;
    }

    /// Prepares for segments of `mss` bytes, with `next` as the first number of data. Room for one
    /// segment is kept back.
    pub(crate) fn begin(&mut self, now: Instant, next: u64, mss: u64) {
        self.mss = narrow(mss);
        let space = self.of_memory(self.buffer());
        self.clamp = if space > 2 * mss { space.saturating_sub(mss).max(2 * mss) } else { space };
        self.threshold = self.offered.min(self.clamp);
        self.space = self.space.min(self.threshold).min(self.offered);
        (self.space_seq, self.space_since) = (next, now);
    }

    const fn buffer(&self) -> u64 {
        self.buffer as u64
    }
    /// Returns the memory that `bytes` of payload take.
    fn memory(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(self.shared().max(1)) * u64::from(self.overhead)
    }
    const fn of_memory(&self, memory: u64) -> u64 {
        memory * self.ratio as u64 / 256
    }
    /// Returns the room for data, with `held` bytes of payload in the buffer.
    fn room(&self, held: u64) -> u64 {
        self.of_memory(self.buffer().saturating_sub(self.memory(held)))
    }

    /// Returns the largest payload that a reader takes at once.
    pub(crate) const fn shared(&self) -> u64 {
        self.merged as u64 * self.mss as u64
    }

    /// Learns the payload per memory from a segment or a unit of this length.
    pub(crate) fn full_segment(&mut self, len: u64) {
        // The result is at most 255.
        self.ratio = (len * 256 / (len + u64::from(self.overhead))).clamp(1, 255) as u32;
        self.clamp = self.clamp.max(self.of_memory(self.buffer()));
    }

    /// Grows the window after a segment in order. True if it grew.
    pub(crate) fn grow(&mut self, len: u64, held: u64) -> bool {
        let most = self.clamp.min(self.room(held));
        let Some(room) = most.checked_sub(self.threshold).filter(|r| *r > 0) else { return false };
        let memory = self.memory(len);
        if self.of_memory(memory) > len + u64::from(self.mss) {
            return false;
        }
        self.threshold += room.min((2 * u64::from(self.mss)).max(2 * len));
        true
    }

    /// Takes a round trip as seen by the receiver, from a time stamp: a shorter one counts at once,
    /// a longer one by an eighth.
    pub(crate) fn round_trip(&mut self, us: u32) {
        let rtt8 = if us == 0 { 8 } else { us.saturating_mul(8) };
        self.rtt8_us = match self.rtt8_us {
            0 => rtt8,
            r if rtt8 < r => rtt8,
            r => (r - (r >> 3)).saturating_add(us),
        };
    }
    /// Takes a round trip measured with a window's worth of data: only a shorter one counts.
    pub(crate) const fn round_trip_at_most(&mut self, us: u32) {
        let rtt8 = if us == 0 { 8 } else { us.saturating_mul(8) };
        if self.rtt8_us == 0 || rtt8 < self.rtt8_us {
            self.rtt8_us = rtt8;
        }
    }
    /// True if no sample was taken yet from the time stamp `echo`. Records it.
    pub(crate) const fn fresh(&mut self, echo: u32) -> bool {
        let fresh = echo != self.last_echo;
        self.last_echo = echo;
        fresh
    }
    pub(crate) const fn rtt8_us(&self) -> u32 {
        self.rtt8_us
    }

    /// Notes that the reader has taken all data up to `read`, and that `waits` bytes wait for it.
    /// The buffer grows if the reader took more in this round trip than in the last. Waiting bytes
    /// have not been asked for yet, and do not count.
    pub(crate) fn read(&mut self, now: Instant, read: u64, waits: u64) {
        let time = now.saturating_since(self.space_since).0 / 1_000;
        if self.rtt8_us == 0 || time < u64::from(self.rtt8_us >> 3) {
            return;
        }
        let copied = (read - self.space_seq).saturating_sub(waits);
        if copied > self.space {
            let window = 2 * copied + 16 * u64::from(self.mss);
            let more = u128::from(window) * u128::from(copied - self.space) / u128::from(self.space.max(1));
            let window = window.saturating_add(u64::try_from(more * 2).unwrap_or(u64::MAX / 4)).min(1 << 40);
            let buffer = (window * 256 / u64::from(self.ratio.max(1))).min(u64::from(self.buffer_max));
            if buffer > self.buffer() {
                self.buffer = narrow(buffer);
                self.clamp = self.of_memory(buffer);
            }
            self.space = copied;
        }
        (self.space_seq, self.space_since) = (read, now);
    }

    /// Returns the rest of the window that was offered.
    pub(crate) const fn left(&self, next: u64) -> u64 {
        (self.offered_at + self.offered).saturating_sub(next)
    }

    /// True if less than half of the buffer is free.
    pub(crate) fn scarce(&self, held: u64) -> bool {
        self.room(held) < self.full() >> 1
    }
    fn full(&self) -> u64 {
        self.clamp.min(self.of_memory(self.buffer()))
    }

    /// Returns the window that could be offered, with `held` bytes in the buffer and segments of
    /// `segment` bytes coming.
    pub(crate) fn possible(&self, held: u64, segment: u64) -> u64 {
        let mut free = self.room(held);
        if self.scarce(held) {
            // The shift must not enlarge the rest, and the rest must not be offered in crumbs (RFC
            // 9293 section 3.8.6.2.2).
            free = free >> self.scale << self.scale;
            if free < self.full() >> 4 || free < segment.min(self.full()) {
                return 0;
            }
        }
        free.min(self.threshold).div_ceil(1 << self.scale) << self.scale
    }

    /// Returns the window field of the next segment, which acknowledges `next`.
    pub(crate) fn offer(&mut self, next: u64, held: u64, segment: u64) -> u16 {
        let possible = self.possible(held, segment);
        let left = self.left(next);
        let offered = if possible < left { left.div_ceil(1 << self.scale) << self.scale } else { possible };
        // The peer knows no more than the field can tell: without a scale 65535 bytes.
        self.offered = offered.min(65_535 << self.scale);
        self.offered_at = next;
        u16::try_from(self.offered >> self.scale).unwrap_or(u16::MAX)
    }

    /// Returns the largest window that is ever offered.
    pub(crate) const fn clamp(&self) -> u64 {
        self.clamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_window_is_whole_segments() {
        let mut w = Window::new(&Config::default());
        w.first(1460);
        assert_eq!((w.offered, w.scale), (64_240, 7));
        w.first(1448);
        w.begin(Instant::ZERO, 1, 1448);
        assert_eq!((w.offered, w.threshold), (65_160, 64_088));
    }

    /// As recorded: the window is 80 480 bytes after six segments, and grows no further before the
    /// reader's rate is known.
    #[test]
    fn it_grows_by_two_segments_for_each_that_comes() {
        let mut w = Window::new(&Config { segment_memory: 2_304, ..Config::default() });
        w.first(1448);
        w.begin(Instant::ZERO, 1, 1448);
        w.full_segment(1448);
        let grown = (0..10).filter(|_| w.grow(1448, 1448)).count();
        assert_eq!((grown, w.threshold), (6, 80_480));
    }

    /// As sampled from the sockets of recorded runs: segments of 1448 bytes, and units of two of
    /// them, in a buffer of 131072 bytes.
    #[test]
    fn a_buffer_takes_832_bytes_beside_its_payload() {
        for (len, held, most) in [(1448, 1448, 81_501), (2896, 2896, 98_492)] {
            let mut w = Window::new(&Config::default());
            w.first(1448);
            w.begin(Instant::ZERO, 1, 1448);
            w.full_segment(len);
            while w.grow(len, held) {}
            assert_eq!(w.threshold, most);
        }
        let w = Window { overhead: 832, ..Window::new(&Config::default()) };
        assert_eq!((w.memory(10 * 1448), w.shared()), (15_312, 17 * 1448));
    }

    #[test]
    fn the_buffer_follows_what_is_read() {
        let mut w = Window::new(&Config::default());
        w.begin(Instant::ZERO, 1, 1448);
        w.round_trip(10_000);
        let before = w.buffer;
        w.read(Instant::from_millis(11), 60_000, 0);
        assert!(w.buffer > before);
        assert!(w.buffer() <= Config::default().receive_buffer_max);
        let after = w.buffer;
        w.read(Instant::from_millis(12), 120_000, 0);
        assert_eq!(w.buffer, after, "less than a round trip is no sample");
    }

    /// A peer that does not scale windows is told of 65535 bytes at most (RFC 7323 section 2.2).
    /// The receiver counts with what it has told.
    #[test]
    fn without_a_scale_the_offer_is_that_of_the_field() {
        let mut w = Window::new(&Config { receive_buffer: 1 << 20, ..Config::default() });
        w.scale = 0;
        w.first(1448);
        w.begin(Instant::ZERO, 1, 1448);
        w.full_segment(1448);
        while w.grow(1448, 0) {}
        assert_eq!((w.offer(1, 0, 1448), w.left(1)), (65_535, 65_535));
    }

    #[test]
    fn a_buffer_has_one_gibibyte_at_most() {
        let c = Config { receive_buffer: u64::MAX, receive_buffer_max: 0, ..Config::default() };
        let w = Window::new(&c);
        assert_eq!((w.buffer, w.buffer_max, w.scale), (1 << 30, 1 << 30, 14));
    }

    #[test]
    fn an_offer_is_never_taken_back() {
        let mut w = Window::new(&Config::default());
        w.begin(Instant::ZERO, 1, 1448);
        let first = u64::from(w.offer(1, 0, 1448)) << w.scale;
        let held = 60_000;
        let second = u64::from(w.offer(1, held, 1448)) << w.scale;
        assert!(second >= first - (1 << w.scale));
    }
}
