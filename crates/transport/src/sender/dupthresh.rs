//! Loss by number (RFC 6675): a segment is lost once three segments beyond it have arrived. A call
//! looks only at units above the place up to which the last call has judged, so that each unit is
//! judged once. The rescue retransmission of RFC 6675 section 4, rule (4), is left out.

use crate::sender::Sender;
use crate::sender::rack::{self, REORDERING};
use crate::sender::units::Marks;

/// Least threshold, segments (RFC 5681 section 3.1, equation 4).
const THRESHOLD_MIN: u32 = 2;

/// Returns half of the segments on their way (RFC 5681 equation 4), which may be fewer than the
/// window allows.
pub(crate) fn threshold(s: &Sender) -> u32 {
    (s.flow.out / 2).max(THRESHOLD_MIN)
}

/// Marks lost units (RFC 6675 section 4, `IsLost`, in segments). A unit that has been sent again is
/// not judged: only the timeout detects its loss.
pub(crate) fn find_lost(s: &mut Sender) {
    let Some(line) = line(s) else { return };
    let mut i = s.units.find(s.rec.judged.max(s.flow.una));
    while let Some(unit) = s.units.get_mut(i).filter(|u| u.start < line) {
        if !unit.marks.any(Marks::SACKED | Marks::LOST | Marks::AGAIN) {
            s.rec.lost_from = s.rec.lost_from.min(unit.start);
            rack::lose(&mut s.flow, unit, &mut *s.cc);
        }
        i += 1;
    }
    s.rec.judged = s.rec.judged.max(line);
}

/// Returns the number below which every unit has three arrived segments beyond it.
fn line(s: &Sender) -> Option<u64> {
    if s.flow.sacked < REORDERING {
        return None;
    }
    let (mut i, mut beyond) = (s.units.find(s.fack.saturating_sub(1)), 0);
    loop {
        let unit = s.units.get(i)?;
        if unit.marks.has(Marks::SACKED) {
            beyond += u32::from(unit.segments);
            if beyond >= REORDERING {
                return Some(unit.start);
            }
        }
        i = i.checked_sub(1)?;
    }
}
