//! Selective acknowledgements at the sender (RFC 2018, 2883, 6675).

use txweir_core::Instant;

use crate::flow::CaState;
use crate::segment::Segment;
use crate::sender::Sender;
use crate::sender::rate::Gather;
use crate::sender::units::{Marks, Unit};

/// Findings from the blocks of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// True if data was acknowledged selectively for the first time.
    pub(crate) new: bool,
    /// True if some of this data had been sent only once, and before the present recovery began.
    pub(crate) originals: bool,
    /// True if a duplicate was reported.
    pub(crate) duplicate: bool,
    /// True if the duplicate is of a loss probe.
    pub(crate) probe_duplicate: bool,
    /// The last transmissions of the first and the last unit that were sent once.
    pub(crate) sent: Option<(Instant, Instant)>,
    /// Least number that was sent once and delivered after a higher number.
    pub(crate) low: Option<u64>,
    /// The sample of the rate of delivery so far.
    pub(crate) gather: Gather,
}

impl Told {
    pub(crate) fn new(gather: Gather) -> Self {
        Self { gather, ..Self::default() }
    }
}

/// Handles the blocks. `prior_una` is the first number that was not acknowledged before.
pub(crate) fn take(s: &mut Sender, seg: &Segment, prior_una: u64, told: &mut Told) {
    let blocks = seg.sacks.blocks();
    let mut skip = 0;
    if let Some(&(start, end)) = blocks.first() {
        let inside = blocks.get(1).is_some_and(|b| b.0 <= start && end <= b.1);
        if start < seg.ack || inside {
            duplicate(s, start, end, prior_una, told);
            skip = 1;
        }
    }
    let mut known = s.rec.known_sacks;
    known.sort_unstable();
    let kept = &blocks[skip.min(blocks.len())..];
    // In ascending order: a lower block that is new as well has not been overtaken.
    let mut ascending = [(0, 0); 4];
    ascending[..kept.len()].copy_from_slice(kept);
    ascending[..kept.len()].sort_unstable();
    for &(start, end) in &ascending[..kept.len()] {
        let (mut at, end) = (start.max(s.flow.una), end.min(s.flow.next));
        for (known_start, known_end) in known {
            if known_end <= at || known_start >= end {
                continue;
            }
            mark(s, at, known_start, told);
            at = at.max(known_end);
        }
        mark(s, at, end, told);
    }
    s.rec.known_sacks = [(0, 0); 4];
    s.rec.known_sacks[..kept.len()].copy_from_slice(kept);
    if (s.flow.state != CaState::Loss || s.rec.undo_marker.is_some())
        && let Some(low) = told.low
    {
        s.rack.reordered(&s.flow, low, s.fack);
    }
}

/// Handles a reported duplicate: a retransmission was needless (RFC 2883). As in Linux
/// (`tcp_dsack_seen`), a report does not count of a range that no window has held, or of more
/// duplicates than segments were sent again: the network has made these.
fn duplicate(s: &mut Sender, start: u64, end: u64, prior_una: u64, told: &mut Told) {
    s.counters.duplicates_reported += 1;
    let bytes = end - start;
    if bytes > u64::from(s.window_max) {
        return;
    }
    // At most the segments of a window of 32 bits.
    let n = bytes.div_ceil(u64::from(s.flow.mss.max(1))).max(1) as u32;
    s.rack.duplicates = s.rack.duplicates.saturating_add(n);
    if u64::from(s.rack.duplicates) > s.counters.retransmitted {
        return;
    }
    told.duplicate = true;
    if s.tlp_end.get().is_some_and(|tlp| s.tlp_again && end == tlp) {
        told.probe_duplicate = true;
    }
    // A needless probe shows no reordering, and a wider window is of use only where packets
    // overtake others.
    if s.rack.reordered > 0 && !told.probe_duplicate {
        s.rack.duplicate_seen = true;
    }
    // A duplicate of data that was sent again since the window was reduced counts against that
    // reduction.
    if let (Some(marker), Some(left)) = (s.rec.undo_marker, s.rec.undo_left)
        && left > 0
        && end <= prior_una.max(s.flow.una)
        && end > marker
    {
        s.rec.undo_left = Some(left.saturating_sub(n));
    }
}

/// Marks the units of a range as received.
fn mark(s: &mut Sender, start: u64, end: u64, told: &mut Told) {
    if start >= end {
        return;
    }
    let mss = u64::from(s.flow.mss.max(1));
    let mut i = s.units.find(start);
    while let Some(&u) = s.units.get(i).filter(|u| u.start < end) {
        if u.marks.has(Marks::SACKED) {
            i += 1;
            continue;
        }
        if u.start < start {
            // Only whole segments, from the unit's start on, count as received.
            let cut = u.start + (start - u.start).div_ceil(mss) * mss;
            if cut >= u.end {
                i += 1;
                continue;
            }
            s.units.split(i, cut, s.flow.mss);
            i += 1;
            continue;
        }
        if u.end > end {
            let cut = u.start + (end - u.start) / mss * mss;
            if cut <= u.start {
                return;
            }
            s.units.split(i, cut, s.flow.mss);
        }
        one(s, i, told);
        i += 1;
    }
}

/// Marks unit `i` as received.
fn one(s: &mut Sender, i: usize, told: &mut Told) {
    let Some(u) = s.units.get_mut(i) else { return };
    let before: Unit = *u;
    let n = u32::from(before.segments);
    let (lost, again) = (before.marks.has(Marks::LOST), before.marks.has(Marks::AGAIN));
    if again {
        // With the retransmission in flight, only a unit that was taken as lost loses this mark;
        // other units keep it until their number is acknowledged.
        if lost {
            u.marks.clear(Marks::LOST | Marks::AGAIN);
            s.flow.lost -= n.min(s.flow.lost);
            s.flow.again -= n.min(s.flow.again);
        }
    } else {
        if !before.marks.has(Marks::EVER_AGAIN) {
            if before.start < s.fack {
                told.low = Some(told.low.map_or(before.start, |low| low.min(before.start)));
            }
            if before.end <= s.flow.high {
                told.originals = true;
            }
            told.sent = Some((told.sent.map_or(before.sent, |sent| sent.0), before.sent));
        }
        if lost {
            u.marks.clear(Marks::LOST);
            s.flow.lost -= n.min(s.flow.lost);
        }
    }
    u.marks.set(Marks::SACKED);
    u.marks.clear(Marks::LISTED);
    s.flow.sacked += n;
    s.flow.delivered += u64::from(n);
    if s.echoing {
        s.flow.delivered_ce += u64::from(n);
    }
    told.new = true;
    s.fack = s.fack.max(before.end);
    let mut unit = before;
    s.rate.delivered(&mut told.gather, &s.flow, &mut unit);
    s.rack.delivered(&s.flow, &before);
    if let Some(u) = s.units.get_mut(i) {
        u.marks.set(Marks::SAMPLED);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rare::Maybe;

    /// Returns true if a report of `bytes` counts as a duplicate, and true if it widens the window
    /// of reordering, after `reordered` times of reordering and `again` segments sent again.
    /// `probe`: the last of them was a loss probe of these bytes.
    fn reported(reordered: u32, again: u64, bytes: u64, probe: bool) -> (bool, bool) {
        let mut s = Sender::new(Arc::default());
        s.window_max = 65_160;
        s.rack.reordered = reordered;
        s.counters.retransmitted = again;
        if probe {
            (s.tlp_end, s.tlp_again) = (Maybe::some(1 + bytes), true);
        }
        let mut told = Told::default();
        duplicate(&mut s, 1, 1 + bytes, 1 + bytes, &mut told);
        (told.duplicate, s.rack.duplicate_seen)
    }

    /// Linux since 5.14: needless probes show no reordering.
    #[test]
    fn a_duplicate_widens_the_window_once_packets_were_overtaken() {
        assert_eq!(reported(0, 1, 1_448, false), (true, false));
        assert_eq!(reported(1, 1, 1_448, false), (true, true));
        assert_eq!(reported(1, 1, 1_448, true), (true, false));
    }

    /// The recording `cubic-twice` counts four of them (`TCPDSACKIgnoredDubious`).
    #[test]
    fn duplicates_that_the_network_made_do_not_count() {
        assert_eq!(reported(1, 0, 1_448, false), (false, false));
        assert_eq!(reported(1, 1, 2 * 1_448, false), (false, false), "two of one");
        assert_eq!(reported(1, 100, 65_161, false), (false, false), "more than a window");
    }
}
