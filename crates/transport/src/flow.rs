//! State shared by a sender and its congestion control: the window, the counters, the clock.

use std::sync::Arc;

use txweir_core::Instant;

use crate::config::{Config, Pacing};
use crate::tick::Tick;

/// Loss state of a sender (as in Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing is lost or out of order.
    #[default]
    Open,
    /// Segments arrived out of order.
    Disorder,
    /// The window shrinks because of marks.
    Cwr,
    /// Losses are repaired by fast retransmission.
    Recovery,
    /// Losses are repaired after a timeout.
    Loss,
}

/// Events of a sender that its congestion control is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The sender sends after nothing was in flight.
    Start,
    /// The window starts anew after silence.
    Restart,
    /// A reduction of the window has ended.
    ReductionDone,
    /// A timeout has fired.
    Timeout,
}

/// Content of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// True if data was acknowledged for the first time, by number or selectively.
    pub progress: bool,
    /// True if the first number not acknowledged advanced.
    pub advanced: bool,
    /// True if data, not only a SYN, was acknowledged by number.
    pub data_acked: bool,
    /// True if the acknowledgement echoes marks.
    pub echo: bool,
    /// Number of marked segments that it reports, where the echo is exact.
    pub marked: u32,
    /// A round-trip sample of this acknowledgement, microseconds.
    pub rtt_us: Option<u32>,
    /// Segments acknowledged by number.
    pub acked: u32,
    /// Segments newly delivered: acknowledged for the first time by number or selectively.
    pub delivered: u32,
    /// Segments marked as lost while the acknowledgement was handled.
    pub lost: u32,
    /// Segments in flight before the acknowledgement came.
    pub prior_in_flight: u32,
}

/// A sample of the rate of delivery (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered over `interval_us`; `None` if there is no sample.
    pub delivered: Option<u32>,
    /// Number of marked segments among them.
    pub delivered_ce: u32,
    /// The longer of the two phases.
    pub interval_us: u64,
    /// Length of the sending phase.
    pub send_us: u64,
    /// Length of the acknowledging phase.
    pub ack_us: u64,
    /// Segments delivered in all when the segment of the sample was sent; 0 if nothing was
    /// acknowledged.
    pub prior_delivered: u64,
    /// True if the sender had nothing to send meanwhile.
    pub app_limited: bool,
    /// True if the segment had been sent before.
    pub retransmitted: bool,
    /// Segments in flight when the segment of the sample was sent, itself included.
    pub sent_in_flight: u32,
    /// Segments lost in all when the segment of the sample was sent.
    pub prior_lost: u64,
    /// True if the acknowledgement may have waited for a timer of the receiver.
    pub delayed: bool,
    /// Time of the last delivery, microseconds.
    pub delivered_us: u64,
}

/// A unit whose last or only transmission was taken as lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Its first number, and the number behind its last.
    pub range: (u64, u64),
    /// Number of its segments.
    pub segments: u32,
    /// Segments in flight when the unit was sent, itself included.
    pub sent_in_flight: u32,
    /// Segments lost since the unit was sent, itself included.
    pub lost_since: u32,
    /// True if the sender had nothing to send when it was sent.
    pub app_limited: bool,
}

/// The state of a sender that its congestion control reads and writes.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The current time.
    pub now: Instant,
    /// Configuration of the end, which does not change.
    pub config: Arc<Config>,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow start threshold: above it, growth is linear; `u32::MAX` until the first loss.
    pub ssthresh: u32,
    /// Acknowledged segments that have not yet made the window grow.
    pub growth: u32,
    /// The window before the last reduction.
    pub prior_cwnd: u32,
    /// Segments of the first window.
    pub initial_window: u32,
    /// True if the window limited sending in the last round trip.
    pub limited: bool,
    /// Largest number of segments in flight in the last round trip.
    pub most_out: u32,
    /// First number not acknowledged.
    pub una: u64,
    /// First number not sent.
    pub next: u64,
    /// First number not handed over by the application.
    pub write: u64,
    /// Segments sent and not acknowledged.
    pub out: u32,
    /// Segments among them that were acknowledged selectively.
    pub sacked: u32,
    /// Segments among them that were taken as lost.
    pub lost: u32,
    /// Lost segments that were sent again.
    pub again: u32,
    /// Segments delivered in all.
    pub delivered: u64,
    /// Marked segments among them.
    pub delivered_ce: u64,
    /// Segments lost in all.
    pub lost_total: u64,
    /// Value of `delivered` at which all segments are delivered that were in flight when the
    /// application had nothing more; 0 if the application does not limit sending.
    pub app_limited: u64,
    /// Eight times the smoothed round trip, microseconds.
    pub srtt8_us: u32,
    /// The smallest recent round trip, microseconds; `u32::MAX` before a sample.
    pub min_rtt_us: u32,
    /// Rate at which segments may leave, byte/s; `u64::MAX` before a sample.
    pub pacing_rate: u64,
    /// True if departures are spread by `pacing_rate`.
    pub paced: bool,
    /// True if a queue below spreads them by this rate.
    pub paced_below: bool,
    /// The current time of departures; ahead of `now` while pacing.
    pub departs: Instant,
    /// Largest payload of a super-segment, bytes.
    pub gso_max: u32,
    /// The loss state.
    pub state: CaState,
    /// The window shrinks until this number is acknowledged.
    pub high: u64,
    /// Tick at which data was last sent.
    pub last_sent: u64,
}

impl Flow {
    /// Returns the state before anything was sent.
    pub(crate) fn new(config: &Arc<Config>) -> Self {
        Self {
            now: Instant::ZERO,
            config: Arc::clone(config),
            mss: config.segment(),
            cwnd: config.initial_window.max(1),
            ssthresh: u32::MAX,
            growth: 0,
            prior_cwnd: 0,
            initial_window: config.initial_window.max(1),
            limited: false,
            most_out: 0,
            una: 0,
            next: 0,
            write: 1,
            out: 0,
            sacked: 0,
            lost: 0,
            again: 0,
            delivered: 0,
            delivered_ce: 0,
            lost_total: 0,
            app_limited: u64::MAX,
            srtt8_us: 0,
            min_rtt_us: u32::MAX,
            pacing_rate: u64::MAX,
            paced: config.pacing == Pacing::Always,
            paced_below: config.pacing == Pacing::Queue,
            departs: Instant::ZERO,
            gso_max: config.gso_max,
            state: CaState::Open,
            high: 0,
            last_sent: 0,
        }
    }

    /// Returns the current time in microseconds.
    pub(crate) const fn now_us(&self) -> u64 {
        self.now.0 / 1_000
    }
    /// Returns the tick that timers count.
    pub fn tick(&self) -> &Tick {
        &self.config.tick
    }
    /// True if departures are spread, here or below.
    pub const fn spread(&self) -> bool {
        self.paced || self.paced_below
    }
    /// Returns the current time in ticks.
    pub fn ticks(&self) -> u64 {
        self.tick().count(self.now)
    }
    /// Returns the segments in the network as far as the sender knows (RFC 6675, "pipe").
    pub const fn in_flight(&self) -> u32 {
        (self.out + self.again).saturating_sub(self.sacked + self.lost)
    }
    /// True if the window grows with each segment that is acknowledged.
    pub(crate) const fn slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
    /// True if the window is being reduced.
    pub(crate) const fn reducing(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }
    /// True if the window, not the application or the receiver, limits sending (RFC 7661 in
    /// spirit). In slow start half the window in flight is enough.
    pub(crate) const fn window_limited(&self) -> bool {
        self.limited || (self.slow_start() && self.cwnd < self.most_out.saturating_mul(2))
    }
    /// Returns the threshold that an undone reduction restores.
    pub(crate) const fn current_ssthresh(&self) -> u32 {
        if self.reducing() {
            return self.ssthresh;
        }
        let kept = (self.cwnd >> 1) + (self.cwnd >> 2);
        if self.ssthresh > kept { self.ssthresh } else { kept }
    }
    /// Grows the window in slow start: a segment more for each acknowledged, up to the threshold.
    /// Returns the number of acknowledged segments left over.
    pub(crate) fn grow_exponentially(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }
    /// Grows the window by a segment for each `per` acknowledged.
    pub(crate) fn grow_linearly(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.growth >= per {
            self.growth = 0;
            self.cwnd += 1;
        }
        self.growth += acked;
        if self.growth >= per {
            let more = self.growth / per;
            self.growth -= more * per;
            self.cwnd = self.cwnd.saturating_add(more);
        }
    }
    /// Returns `percent` of the rate of one window per smoothed round trip, byte/s.
    pub(crate) fn window_rate(&self, percent: u64) -> u64 {
        match self.srtt8_us {
            0 => u64::MAX,
            srtt8 => {
                let segments = u128::from(self.cwnd.max(self.out));
                let bytes = segments * u128::from(self.mss) * u128::from(percent) * 8_000_000 / 100;
                u64::try_from(bytes / u128::from(srtt8)).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
pub(crate) fn test_flow() -> Flow {
    Flow { limited: true, most_out: 10, una: 1, next: 1, app_limited: 0, ..Flow::new(&Arc::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_stops_at_the_threshold_and_goes_on_linearly() {
        let mut f = test_flow();
        f.ssthresh = 15;
        assert_eq!(f.grow_exponentially(8), 3);
        assert_eq!(f.cwnd, 15);
        for _ in 0..15 {
            f.grow_linearly(15, 1);
        }
        assert_eq!((f.cwnd, f.growth), (16, 0));
    }

    #[test]
    fn the_rate_of_a_window() {
        let mut f = test_flow();
        assert_eq!(f.window_rate(200), u64::MAX);
        f.srtt8_us = 8 * 100_000;
        assert_eq!(f.window_rate(200), 2 * 10 * 1448 * 10);
    }
}
