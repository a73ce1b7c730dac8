//! The states of the state machine, and the search for more bandwidth (draft section 5.3.3).

use super::super::model::UNIT;
use crate::flow::Flow;

/// 4 ln(2) = 2.77 (draft section 5.3.1.1).
pub(super) const STARTUP_GAIN: u32 = UNIT * 277 / 100 + 1;
const DRAIN_GAIN: u32 = UNIT / 2;
/// The pacing gains of PROBE_BW (section 5.6.1).
const DOWN_GAIN: u32 = UNIT * 90 / 100;
const UP_GAIN: u32 = UNIT * 5 / 4;
/// Volumes in flight, in bandwidth-delay products: ordinarily, while probing upwards, in PROBE_RTT.
const WINDOW_GAIN: u32 = 2 * UNIT;
const UP_WINDOW_GAIN: u32 = UNIT * 9 / 4;
pub(super) const PROBE_RTT_WINDOW_GAIN: u32 = UNIT / 2;
/// Largest number of doublings of the growth of the long-term bound.
const UP_ROUNDS_MAX: u32 = 30;

/// The state of the state machine (draft section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The rate doubles in each round trip.
    #[default]
    Startup,
    /// The queue that STARTUP has made drains.
    Drain,
    /// The sender sends less than is delivered, to drain a queue and to leave room.
    Down,
    /// The sender sends as much as is delivered.
    Cruise,
    /// The sender fills the path before a probe upwards.
    Refill,
    /// The sender sends more than is delivered, to find more bandwidth.
    Up,
    /// Half a bandwidth-delay product is in flight, so that the round trip is that of an empty
    /// path.
    ProbeRtt,
}

impl Mode {
    pub(super) const fn probes_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
    pub(super) const fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
    /// Returns the gains of the pacing rate and of the window.
    pub(super) const fn gains(self) -> (u32, u32) {
        match self {
            Self::Startup => (STARTUP_GAIN, WINDOW_GAIN),
            Self::Drain => (DRAIN_GAIN, WINDOW_GAIN),
            Self::Down => (DOWN_GAIN, WINDOW_GAIN),
            Self::Cruise | Self::Refill => (UNIT, WINDOW_GAIN),
            Self::Up => (UP_GAIN, UP_WINDOW_GAIN),
            Self::ProbeRtt => (UNIT, PROBE_RTT_WINDOW_GAIN),
        }
    }
}

/// Phase of the probe that the acknowledgements at hand report on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Echoes {
    #[default]
    None,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The search for more bandwidth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) began_us: u64,
    pub(super) wait_us: u64,
    /// Round trips since the last probe.
    pub(super) rounds: u64,
    pub(super) echoes: Echoes,
    /// True if losses reported now belong to a probe, and none has been heeded yet.
    pub(super) samples: bool,
    /// Round trips of growth, acknowledged segments not yet turned into growth, and those needed
    /// for one segment.
    pub(super) up_rounds: u32,
    pub(super) up_acked: u32,
    pub(super) up_per: u32,
}

impl Probe {
    /// Doubles the growth of the long-term bound for the next round trip.
    pub(super) fn steepen(&mut self, cwnd: u32) {
        let growth = 1 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(UP_ROUNDS_MAX);
        self.up_per = (cwnd / growth).max(1);
    }

    /// Returns the growth of the bound after `acked` segments were delivered while the window was
    /// at the bound.
    pub(super) fn grow(&mut self, flow: &Flow, acked: u32, round_start: bool) -> u32 {
        self.up_acked = self.up_acked.saturating_add(acked);
        let more = self.up_acked / self.up_per;
        self.up_acked -= more * self.up_per;
        if round_start {
            self.steepen(flow.cwnd);
        }
        more
    }
}
