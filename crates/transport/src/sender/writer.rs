//! The writing side of a connection: how data that the application hands over becomes units, which
//! of them carry PSH, and when a writer that found no room continues. Recordings show all of it.
//!
//! A call of the application fills units one behind the other. A full unit that is the first one
//! not sent lets one unit leave. Once more than half of the largest window has been handed over
//! since the last PSH, a full unit gets PSH, and all units may leave. The end of a call pushes as
//! well, until the next call adds to the same unit.

use std::collections::VecDeque;

use crate::ahead::ends;
use crate::rare::{Blank, Rare};
use crate::sender::Sender;
use crate::sender::output::{UNIT_MEMORY, chunk};

/// Memory of a packet in addition to its payload, bytes, before its buffer is rounded up to a power
/// of two.
const HEADROOM: u32 = 512;
/// Memory of the description of a packet, bytes.
const DESCRIPTION: u64 = 256;
/// Smallest window, in segments, that a buffer is made for.
const WINDOW_MIN: u32 = 10;

/// Departures allowed between two parts of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// All units that window and pacing allow.
    #[default]
    Open,
    /// One new unit.
    One,
    /// No new unit: the one unit has left, or a queue on this host has refused a unit.
    Used,
    /// No unit: the call continues first.
    Shut,
}

/// A unit that has not left, or only in part.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The number behind its data.
    end: u64,
    /// True if its last segment carries PSH.
    push: bool,
}

/// The writing side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    pieces: Rare<VecDeque<Piece>>,
    /// Memory of the buffer that tunes itself, bytes.
    buffer: u32,
    /// The number at which PSH was last set.
    pushed: u64,
    /// True if a call is under way.
    calling: bool,
    /// True if the application has found no room, and waits.
    waits: bool,
    /// True if a segment has come, and the departures that it allowed have not ended.
    pub(crate) heard: bool,
    /// True if a new unit has left since the sender last considered whether the writer continues.
    pub(crate) unit_left: bool,
    pub(crate) gate: Gate,
}

impl Blank for VecDeque<Piece> {
    fn blank() -> &'static Self {
        static BLANK: VecDeque<Piece> = VecDeque::new();
        &BLANK
    }
}

/// Returns the memory that tuning counts for a segment of `mss` bytes without options.
fn segment(mss: u32) -> u64 {
    u64::from((mss + HEADROOM).next_power_of_two()) + DESCRIPTION
}

impl Writer {
    /// Asks for the memory of the list of its units.
    pub(crate) fn ahead(&self) {
        self.pieces.ahead();
    }
    /// Asks for the memory of its first and last units; that of their list has been asked for.
    pub(crate) fn pieces_ahead(&self) {
        ends(self.pieces.front(), self.pieces.back());
    }

    /// Returns the payload of the first unit that has not wholly left, when all data up to `next`
    /// has left.
    pub(crate) fn first(&self, next: u64) -> u64 {
        self.pieces.front().map_or(0, |p| p.end.saturating_sub(next))
    }

    /// Notes that all data up to `next` has left. True if a unit with PSH ends in it.
    pub(crate) fn left(&mut self, next: u64) -> bool {
        let mut push = false;
        let Some(pieces) = self.pieces.made() else { return false };
        while let Some(p) = pieces.front().filter(|p| p.end <= next) {
            push |= p.push;
            pieces.pop_front();
        }
        push
    }

    /// Cuts the first unit that has not left at `end`. A unit is cut before small queues hold its
    /// first part, which thus does not wait for more window once they let it go.
    pub(crate) fn cut(&mut self, end: u64) {
        if self.pieces.front().is_some_and(|p| p.end > end) {
            self.pieces.push_front(Piece { end, push: false });
        }
    }

    /// Puts a unit that ended at `end` back: it has not left after all.
    pub(crate) fn back(&mut self, end: u64, push: bool) {
        if self.pieces.front().is_none_or(|p| p.end != end) {
            self.pieces.push_front(Piece { end, push });
        }
    }

    /// Returns the payload of the last unit, when all data up to `next` has left.
    fn last(&self, next: u64) -> u64 {
        let n = self.pieces.len();
        let start = n.checked_sub(2).and_then(|i| self.pieces.get(i)).map_or(next, |p| p.end);
        self.pieces.back().map_or(0, |p| p.end.saturating_sub(start.max(next)))
    }

    fn push(&mut self) {
        if let Some(last) = self.pieces.made().and_then(VecDeque::back_mut) {
            (last.push, self.pushed) = (true, last.end);
        }
    }
}

/// Grows the buffer to the size that the window needs.
pub(crate) fn expand(s: &mut Sender) {
    let segments = s.flow.cwnd.max(WINDOW_MIN).max(s.rack.reordering + 1);
    let memory = s.cc.buffer_windows() * u64::from(segments) * segment(u32::from(s.flow.config.mss));
    s.writer.buffer = s.writer.buffer.max(u32::try_from(memory).unwrap_or(u32::MAX));
}

/// Returns the memory of the data that was handed over and is not acknowledged.
fn queued(s: &Sender) -> u64 {
    let units = s.units.len() + s.writer.pieces.len();
    s.flow.write.saturating_sub(s.flow.una.max(1)) + units as u64 * UNIT_MEMORY
}

/// Considers whether a writer that found no room continues. If the window is not used up, the
/// buffer grows first. The writer continues if a third of the buffer is free.
///
/// Linux does so (`tcp_check_space`) at the end of what an acknowledgement brought about
/// (`tcp_data_snd_check`), and behind each new unit that leaves, whatever let it leave
/// (`tcp_event_new_data_sent`). If two units leave at once, the window is thus not used up behind
/// the first one.
fn consider(s: &mut Sender) {
    if !s.writer.waits {
        return;
    }
    if s.flow.in_flight() < s.flow.cwnd {
        expand(s);
    }
    let queued = queued(s);
    s.writer.waits = queued + (queued >> 1) > u64::from(s.writer.buffer);
}

/// Handles the departure of the last new unit, once the path has taken it.
pub(crate) fn unit_left(s: &mut Sender) {
    if std::mem::take(&mut s.writer.unit_left) {
        consider(s);
    }
}

/// Handles the end of the departures that an acknowledgement allowed.
pub(crate) fn drained(s: &mut Sender) {
    if std::mem::take(&mut s.writer.heard) {
        consider(s);
    }
}

/// Takes up to `bytes` of a call, at most the bytes that fill one unit. Returns 0 if there is no
/// room.
pub(crate) fn write(s: &mut Sender, bytes: u64) -> u64 {
    if bytes == 0 || (s.writer.waits && s.flow.config.send_buffer == 0) {
        return 0;
    }
    let size = chunk(s);
    let last = s.writer.last(s.flow.next);
    let fits = if last > 0 && last < size { size - last } else { 0 };
    let room = match s.flow.config.send_buffer {
        0 if fits == 0 && queued(s) >= u64::from(s.writer.buffer) => 0,
        0 => u64::MAX,
        most => most.saturating_sub(s.flow.write.saturating_sub(s.flow.una.max(1))),
    };
    let n = bytes.min(if fits > 0 { fits } else { size }).min(room);
    if n == 0 {
        s.writer.waits = true;
        over(s);
        return 0;
    }
    let first = !std::mem::replace(&mut s.writer.calling, true);
    if first {
        s.note_application();
    }
    s.written(n);
    match s.writer.pieces.back_mut().filter(|_| fits > 0) {
        Some(last) => (last.end, last.push) = (s.flow.write, last.push && !first),
        None => s.writer.pieces.push_back(Piece { end: s.flow.write, push: false }),
    }
    let full = s.writer.last(s.flow.next) >= size;
    s.writer.gate = Gate::Shut;
    if n == bytes {
        over(s);
    } else if full && s.flow.write > s.writer.pushed + u64::from(s.window_max) / 2 {
        s.writer.push();
        s.writer.gate = Gate::Open;
    } else if full && s.writer.pieces.len() == 1 {
        s.writer.gate = Gate::One;
    }
    n
}

/// Ends the call at hand.
fn over(s: &mut Sender) {
    if std::mem::take(&mut s.writer.calling) {
        s.writer.gate = Gate::Open;
        s.writer.push();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_the_push_to_the_rest() {
        let mut w = Writer::default();
        w.pieces.push_back(Piece { end: 5_001, push: true });
        w.cut(1_001);
        w.cut(1_001);
        assert_eq!((w.first(1), w.pieces.len()), (1_000, 2), "a cut at the same place changes nothing");
        assert!(!w.left(1_001));
        assert_eq!(w.first(1_001), 4_000);
        assert!(w.left(5_001));
    }
}
