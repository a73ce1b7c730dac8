//! Data that is sent and not acknowledged: units in order of their numbers, and in order of their
//! last transmission.

use std::collections::VecDeque;

use txweir_core::Instant;

use crate::ahead::ends;
use crate::rare::Blank;
use crate::sender::local::Before;

/// Largest number of units in flight: a window of 1 GiB in segments of 1 KiB.
pub const UNITS_MAX: usize = 1 << 20;

/// Facts about a unit, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    /// Acknowledged selectively.
    pub(crate) const SACKED: u8 = 1;
    /// Taken as lost.
    pub(crate) const LOST: u8 = 2;
    /// Sent again since it was taken as lost.
    pub(crate) const AGAIN: u8 = 4;
    /// Sent again at some time.
    pub(crate) const EVER_AGAIN: u8 = 8;
    /// Carries the FIN.
    pub(crate) const FIN: u8 = 16;
    /// Sent when the application had nothing more.
    pub(crate) const APP_LIMITED: u8 = 32;
    /// Its last transmission awaits a verdict of RACK.
    pub(crate) const LISTED: u8 = 64;
    /// Its delivery has been counted in a rate sample.
    pub(crate) const SAMPLED: u8 = 128;

    pub(crate) const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
    pub(crate) const fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
    pub(crate) const fn set(&mut self, bits: u8) {
        self.0 |= bits;
    }
    pub(crate) const fn clear(&mut self, bits: u8) {
        self.0 &= !bits;
    }
}

/// Data that a sender handed over as one packet: one segment or several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unit {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Time of its last departure.
    pub(crate) sent: Instant,
    /// Segments delivered in all when it last left.
    pub(crate) delivered: u64,
    /// Time of the last of these deliveries, microseconds.
    pub(crate) delivered_us: u64,
    /// Departure time of the first unit of the phase of sending, microseconds.
    pub(crate) first_us: u64,
    /// Segments lost in all when it last left.
    pub(crate) lost: u32,
    /// Marked segments in all when it last left.
    pub(crate) delivered_ce: u32,
    /// Segments in flight when it last left, itself included.
    pub(crate) in_flight: u32,
    pub(crate) segments: u16,
    pub(crate) marks: Marks,
}

impl Unit {
    /// Returns the bytes of payload.
    pub(crate) const fn payload(&self) -> u32 {
        (self.end - self.start) as u32 - self.marks.has(Marks::FIN) as u32
    }
}

/// A transmission: its time and its numbers.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    start: u64,
    end: u64,
}

/// The bytes of one transmission that lie below the socket.
#[derive(Clone, Copy, Debug)]
struct Below {
    /// The unit's first number.
    start: u64,
    /// Bytes that the device has not reported sent.
    bytes: u32,
    /// True if the unit lies there as it left, uncut.
    whole: bool,
}

/// The units of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    units: VecDeque<Unit>,
    /// Transmissions in order of time; transmissions without listed units are dropped at the front.
    sent: VecDeque<Sent>,
    /// Transmissions that lie below the socket, in order.
    below: VecDeque<Below>,
    /// State before the unit left that was handed out last.
    pub(crate) before: Option<Before>,
}

impl Blank for Units {
    fn blank() -> &'static Self {
        static NONE: Units =
            Units { units: VecDeque::new(), sent: VecDeque::new(), below: VecDeque::new(), before: None };
        &NONE
    }
}

impl Units {
    /// Asks for the memory of the units and transmissions that the next segment from the peer, or
    /// the next one to it, concerns.
    pub(crate) fn ends_ahead(&self) {
        ends(self.units.front(), self.units.back());
        ends(self.sent.front(), self.sent.back());
        ends(self.below.front(), self.below.back());
    }
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }
    pub(crate) fn get(&self, i: usize) -> Option<&Unit> {
        self.units.get(i)
    }
    pub(crate) fn get_mut(&mut self, i: usize) -> Option<&mut Unit> {
        self.units.get_mut(i)
    }
    pub(crate) fn first(&self) -> Option<&Unit> {
        self.units.front()
    }
    pub(crate) fn pop_first(&mut self) -> Option<Unit> {
        let unit = self.units.pop_front()?;
        while self.sent.front().is_some_and(|s| s.end <= unit.end) {
            self.sent.pop_front();
        }
        Some(unit)
    }
    /// Removes the last unit, which has not left after all.
    pub(crate) fn pop_last(&mut self) -> Option<Unit> {
        self.sent.pop_back();
        self.units.pop_back()
    }
    /// Removes the last transmission, of a unit that had been sent before: it has not left after
    /// all.
    pub(crate) fn not_sent(&mut self) {
        self.sent.pop_back();
    }
    /// Returns the place of the unit that holds `seq`, or of the first unit behind it.
    pub(crate) fn find(&self, seq: u64) -> usize {
        self.units.partition_point(|u| u.end <= seq)
    }

    /// Appends a unit that is sent for the first time.
    pub(crate) fn push(&mut self, mut unit: Unit) {
        unit.marks.set(Marks::LISTED);
        self.sent.push_back(Sent { at: unit.sent, start: unit.start, end: unit.end });
        self.units.push_back(unit);
    }

    /// Notes that unit `i` is sent again: its transmission becomes the last one.
    pub(crate) fn sent_again(&mut self, i: usize, at: Instant) {
        if let Some(u) = self.units.get_mut(i) {
            u.sent = at;
            u.marks.set(Marks::LISTED);
            self.sent.push_back(Sent { at, start: u.start, end: u.end });
        }
    }

    /// Notes that a transmission of the unit from `start` on goes below the socket, where it counts
    /// for `bytes`.
    pub(crate) fn goes_below(&mut self, start: u64, bytes: u32) {
        self.below.push_back(Below { start, bytes, whole: true });
    }
    /// Notes that the last transmission has been cut there, and counts for `more` bytes more.
    pub(crate) fn cut_below(&mut self, more: u32) {
        if let Some(last) = self.below.back_mut() {
            (last.bytes, last.whole) = (last.bytes.saturating_add(more), false);
        }
    }
    /// Notes that the last transmission was refused: its bytes are the next ones reported.
    pub(crate) fn refused_below(&mut self) {
        if let Some(last) = self.below.pop_back() {
            self.below.push_front(Below { whole: false, ..last });
        }
    }
    /// Notes that the device has reported `bytes` sent, which are the oldest.
    pub(crate) fn released(&mut self, mut bytes: u32) {
        while let Some(first) = self.below.front_mut() {
            if first.bytes > bytes {
                first.bytes -= bytes;
                return;
            }
            bytes -= first.bytes;
            self.below.pop_front();
        }
    }
    /// True if a transmission of unit `i` still lies below the socket as it left.
    pub(crate) fn is_below(&self, i: usize) -> bool {
        self.units.get(i).is_some_and(|u| self.below.iter().any(|b| b.whole && b.start == u.start))
    }

    /// Cuts unit `i` at `seq`, which lies inside it. Segments are counted anew with `mss` bytes
    /// each.
    pub(crate) fn split(&mut self, i: usize, seq: u64, mss: u32) {
        let Some(u) = self.units.get_mut(i) else { return };
        if seq <= u.start || seq >= u.end {
            return;
        }
        let mut rest = *u;
        rest.start = seq;
        u.end = seq;
        u.marks.clear(Marks::FIN);
        u.segments = segments(u.payload(), mss);
        rest.segments = segments(rest.payload(), mss);
        self.units.insert(i + 1, rest);
    }

    /// Visits listed units in order of their last transmission until `visit` returns false. `visit`
    /// may take a unit off the list.
    pub(crate) fn by_time(&mut self, mut visit: impl FnMut(&mut Unit) -> bool) {
        let mut at = 0;
        while let Some(&sent) = self.sent.get(at) {
            let (mut i, mut left) = (self.find(sent.start), false);
            while let Some(u) = self.units.get_mut(i).filter(|u| u.start < sent.end) {
                if u.sent == sent.at && u.marks.has(Marks::LISTED) {
                    if !visit(u) {
                        return;
                    }
                    left |= u.marks.has(Marks::LISTED);
                }
                i += 1;
            }
            if at == 0 && !left {
                self.sent.pop_front();
            } else {
                at += 1;
            }
        }
    }
}

/// Returns the number of segments that this payload takes.
pub(crate) fn segments(payload: u32, mss: u32) -> u16 {
    u16::try_from(payload.div_ceil(mss.max(1)).max(1)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units() -> Units {
        let mut units = Units::default();
        for i in 0..4_u64 {
            let (start, end) = (1 + i * 3000, 1 + (i + 1) * 3000);
            units.push(Unit { start, end, sent: Instant(i), segments: 3, ..Unit::default() });
        }
        units
    }

    #[test]
    fn finds_and_splits() {
        let mut u = units();
        assert_eq!((u.find(1), u.find(3000), u.find(3001), u.find(99_999)), (0, 0, 1, 4));
        u.split(1, 4001, 1000);
        let parts: Vec<_> = (1..3).map(|i| *u.get(i).unwrap()).collect();
        assert_eq!((parts[0].start, parts[0].end, parts[0].segments), (3001, 4001, 1));
        assert_eq!((parts[1].start, parts[1].end, parts[1].segments), (4001, 6001, 2));
        u.split(1, 3001, 1000);
        assert_eq!(u.len(), 5, "a cut at the edge changes nothing");
    }

    #[test]
    fn time_order_follows_transmissions_and_splits() {
        let mut u = units();
        u.split(1, 4001, 1000);
        u.sent_again(0, Instant(9));
        let mut seen = Vec::new();
        u.by_time(|unit| {
            seen.push(unit.start);
            true
        });
        assert_eq!(seen, [3001, 4001, 6001, 9001, 1]);
        u.by_time(|unit| {
            unit.marks.clear(Marks::LISTED);
            unit.start < 6001
        });
        seen.clear();
        u.by_time(|unit| {
            seen.push(unit.start);
            true
        });
        assert_eq!(seen, [9001, 1]);
    }

    #[test]
    fn a_unit_is_small() {
        assert!(size_of::<Unit>() <= 64, "{}", size_of::<Unit>());
    }
}
