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

/// Handles a reported duplicate: a retransmission was needless (RFC 2883).
fn duplicate(s: &mut Sender, start: u64, end: u64, prior_una: u64, told: &mut Told) {
    told.duplicate = true;
    s.counters.duplicates_reported += 1;
    s.rack.duplicate_seen = true;
    if s.tlp_end.get().is_some_and(|tlp| s.tlp_again && end == tlp) {
        told.probe_duplicate = true;
    }
    // A duplicate of data that was sent again since the window was reduced counts against that
    // reduction.
    if let (Some(marker), Some(left)) = (s.rec.undo_marker, s.rec.undo_left)
        && left > 0
        && end <= prior_una.max(s.flow.una)
        && end > marker
    {
        let n = (end - start).div_ceil(u64::from(s.flow.mss.max(1))).max(1) as u32;
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
