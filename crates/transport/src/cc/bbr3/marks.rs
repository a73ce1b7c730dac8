//! The response to congestion marks. The draft (section 3.5) only says that a mark is congestion.
//! The size of the reduction follows Google's presentations of its version 3 in Linux (IETF 112,
//! 117): a share of marks as in DCTCP, and a third of that share off the volume in flight.

use crate::flow::Flow;

/// The unit of the share, as a number of parts.
const WHOLE: u64 = 1_024;
/// Weight of a round trip's share in the average: a sixteenth.
const WEIGHT: u64 = 16;
/// Divisor of the share by which the volume in flight falls.
const FACTOR: u64 = 3;
/// Number of round trips in a row, each with half its segments marked, that end STARTUP.
const STARTUP_ROUNDS: u32 = 2;

/// The average share of marks where their echo is exact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    alpha: u64,
    marked: u64,
    /// Segments delivered and marked when the round trip began.
    began: (u64, u64),
    /// Number of round trips in a row with many marks.
    many: u32,
    /// True if marks came in the present round of adaptation.
    pub(super) in_round: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self { alpha: WHOLE, marked: 0, began: (0, 0), many: 0, in_round: false }
    }
}

impl Marks {
    /// Takes the number of marked segments that an acknowledgement reports.
    pub(super) fn take(&mut self, marked: u32) {
        self.marked += u64::from(marked);
        self.in_round |= marked > 0;
    }

    /// Ends a round trip. True if the marks were so many, for so long, that STARTUP has filled the
    /// path.
    pub(super) fn round(&mut self, flow: &Flow) -> bool {
        let (delivered, marked) = (flow.delivered - self.began.0, self.marked - self.began.1);
        if delivered == 0 {
            return false;
        }
        self.began = (flow.delivered, self.marked);
        let share = (marked * WHOLE / delivered).min(WHOLE);
        self.alpha = self.alpha - self.alpha / WEIGHT + share / WEIGHT;
        self.many = if share * 2 >= WHOLE { self.many + 1 } else { 0 };
        self.many >= STARTUP_ROUNDS
    }

    /// Returns the rest of a volume after a round trip with marks.
    pub(super) fn reduced(&self, volume: u32) -> u32 {
        (u64::from(volume) * (WHOLE - self.alpha / FACTOR) / WHOLE) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;

    #[test]
    fn the_share_is_an_average_over_round_trips() {
        let mut f = test_flow();
        let mut m = Marks::default();
        // Without marks the share is 15/16 after one round trip.
        f.delivered = 100;
        assert!(!m.round(&f));
        assert_eq!(m.alpha, 960);
        // 960/1024 / 3 = 31.25 % less.
        assert_eq!(m.reduced(1_600), 1_100);
        for _ in 0..200 {
            f.delivered += 100;
            m.take(10);
            m.round(&f);
        }
        // A tenth is marked: 102/1024, within the rounding of whole numbers.
        assert!((90..=112).contains(&m.alpha), "{}", m.alpha);
    }

    #[test]
    fn half_marked_twice_fills_the_path() {
        let mut f = test_flow();
        let mut m = Marks::default();
        let mut full = Vec::new();
        for marked in [50, 49, 50, 50] {
            f.delivered += 100;
            m.take(marked);
            full.push(m.round(&f));
        }
        assert_eq!(full, [false, false, false, true]);
    }
}
