//! CUBIC (RFC 9438) as Linux has it: the window as a cube of time since the last reduction, never
//! below Reno's window; HyStart (Ha and Rhee 2011) ends slow start before the queue overflows.
//!
//! Numbers are integers in the units of Linux, so that windows are the same to the segment: time in
//! 1/1024 s, the factor of reduction 717/1024, C as 410/1024.

use super::{Congestion, WINDOW_MIN};
use crate::flow::{Ack, CaState, Event, Flow};

/// Multiplicative decrease (RFC 9438 section 4.6), of 1024.
const BETA: u64 = 717;
/// C (RFC 9438 section 4.1.2), of 1024.
const C: u64 = 410;
/// Units of time per second.
const TIME: u64 = 1024;
/// Smallest window, segments, at which HyStart looks for the end.
const HYSTART_WINDOW: u32 = 16;
/// Largest gap between acknowledgements of one train, microseconds.
const TRAIN_GAP_US: u64 = 2_000;
/// Number of samples at the start of each round trip.
const DELAY_SAMPLES: u32 = 8;
/// Smallest and largest increase of the round trip that ends slow start, microseconds.
const DELAY_RISE_US: (u32, u32) = (4_000, 16_000);

/// The CUBIC congestion control (RFC 9438).
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    /// Number of acknowledged segments that make the window grow by one.
    per: u32,
    /// The window at the last reduction.
    last_max: u32,
    /// The window and the tick at the last evaluation of the curve.
    last_cwnd: u32,
    last_tick: u64,
    /// The window at which the curve is flat, and the time until it is reached, in 1/1024 s.
    origin: u32,
    k: u64,
    /// The smallest round trip, microseconds; 0 before a sample.
    delay_min: u32,
    /// Tick at which growth began after a reduction; 0 if it has not.
    epoch: u64,
    /// Segments acknowledged since then, and the window that Reno would have.
    acked: u32,
    reno: u32,
    hystart: HyStart,
    /// True if another algorithm ends slow start.
    no_hystart: bool,
}

/// The end of slow start.
#[derive(Clone, Copy, Debug, Default)]
struct HyStart {
    found: bool,
    /// Number whose acknowledgement ends the present round trip.
    end: u64,
    began_us: u64,
    last_us: u64,
    samples: u32,
    least_us: u32,
}

impl Default for Cubic {
    fn default() -> Self {
        Self::new()
    }
}

impl Cubic {
    /// Returns the state at the start of a connection.
    pub fn new() -> Self {
        Self {
            per: 0,
            last_max: 0,
            last_cwnd: 0,
            last_tick: 0,
            origin: 0,
            k: 0,
            delay_min: 0,
            epoch: 0,
            acked: 0,
            reno: 0,
            hystart: HyStart { least_us: u32::MAX, ..HyStart::default() },
            no_hystart: false,
        }
    }

    /// Returns the same without HyStart: the caller looks for the end of slow start.
    pub(crate) fn without_hystart() -> Self {
        Self { no_hystart: true, ..Self::new() }
    }

    /// Evaluates the curve and sets `per`.
    fn look(&mut self, flow: &Flow, acked: u32) {
        let (cwnd, ticks) = (flow.cwnd, flow.ticks());
        self.acked += acked;
        let hz = 1_000_000_000 / flow.tick().period.0.max(1);
        if self.last_cwnd == cwnd && ticks.saturating_sub(self.last_tick) <= hz / 32 {
            return;
        }
        // The curve is evaluated once per tick at most, Reno's window each time.
        if self.epoch == 0 || ticks != self.last_tick {
            self.curve(flow, cwnd, ticks, acked, hz);
        }
        self.friendly(cwnd);
        self.per = self.per.max(2);
    }

    fn curve(&mut self, flow: &Flow, cwnd: u32, ticks: u64, acked: u32, hz: u64) {
        (self.last_cwnd, self.last_tick) = (cwnd, ticks);
        if self.epoch == 0 {
            self.epoch = ticks;
            self.acked = acked;
            self.reno = cwnd;
            if self.last_max <= cwnd {
                (self.k, self.origin) = (0, cwnd);
            } else {
                // K is the cubic root of the distance over C, in 1/1024 s.
                let distance = u64::from(self.last_max - cwnd);
                self.k = cubic_root((1 << 40) / C * distance);
                self.origin = self.last_max;
            }
        }
        let t = ticks - self.epoch + flow.tick().from_micros(u64::from(self.delay_min));
        let t = t * TIME / hz.max(1);
        let offset = t.abs_diff(self.k);
        let delta = (u128::from(C) * u128::from(offset).pow(3)) >> 40;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let target =
            if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.per = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(100) };
        // Before the first loss the curve is unknown: the window grows by five percent per round
        // trip.
        if self.last_max == 0 && self.per > 20 {
            self.per = 20;
        }
    }

    /// Bounds `per` so that the window is not below Reno's (RFC 9438 section 4.3).
    fn friendly(&mut self, cwnd: u32) {
        let scale = 8 * (TIME + BETA) / 3 / (TIME - BETA);
        let per = ((u64::from(cwnd) * scale) >> 3).max(1) as u32;
        while self.acked > per {
            self.acked -= per;
            self.reno += 1;
        }
        if self.reno > cwnd {
            let most = cwnd / (self.reno - cwnd);
            self.per = self.per.min(most);
        }
    }

    /// Takes a sample of the round trip in slow start.
    fn slow_start(&mut self, flow: &mut Flow, rtt_us: u32) {
        let now_us = flow.now_us();
        if flow.una > self.hystart.end {
            self.round(flow);
        }
        if flow.cwnd < HYSTART_WINDOW {
            return;
        }
        let h = &mut self.hystart;
        if now_us.saturating_sub(h.last_us) <= TRAIN_GAP_US {
            h.last_us = now_us;
            // The limit is half a round trip, as packets sent back to back are one train; paced
            // packets spread over a whole one.
            let mut most = u64::from(self.delay_min) + super_segments_us(flow);
            if !flow.spread() {
                most >>= 1;
            }
            if now_us.saturating_sub(h.began_us) > most {
                h.found = true;
                flow.ssthresh = flow.cwnd;
            }
        }
        h.least_us = h.least_us.min(rtt_us);
        if h.samples < DELAY_SAMPLES {
            h.samples += 1;
        } else {
            let rise = (self.delay_min >> 3).clamp(DELAY_RISE_US.0, DELAY_RISE_US.1);
            if h.least_us > self.delay_min + rise {
                h.found = true;
                flow.ssthresh = flow.cwnd;
            }
        }
    }

    /// Begins a round trip.
    fn round(&mut self, flow: &Flow) {
        let now_us = flow.now_us();
        self.hystart = HyStart {
            found: self.hystart.found,
            end: flow.next,
            began_us: now_us,
            last_us: now_us,
            samples: 0,
            least_us: u32::MAX,
        };
    }
}

/// Returns the time that four of the largest super-segments take at the present rate, at most 1 ms:
/// acknowledgements of one train may be that far apart.
fn super_segments_us(flow: &Flow) -> u64 {
    match flow.pacing_rate {
        0 => 0,
        rate => (u64::from(flow.gso_max) * 4 * 1_000_000 / rate).min(1_000),
    }
}

/// Returns the cubic root, rounded down.
fn cubic_root(n: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let next = root | 1 << bit;
        if next.checked_pow(3).is_some_and(|cube| cube <= n) {
            root = next;
        }
    }
    root
}

impl Congestion for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }
    fn start(&mut self, flow: &mut Flow) {
        self.round(flow);
    }
    fn threshold(&mut self, flow: &mut Flow) -> u32 {
        self.epoch = 0;
        let cwnd = u64::from(flow.cwnd);
        // A window that did not reach the last maximum leaves room to others (RFC 9438 section
        // 4.7).
        self.last_max =
            if flow.cwnd < self.last_max { (cwnd * (TIME + BETA) / (2 * TIME)) as u32 } else { flow.cwnd };
        ((cwnd * BETA / TIME) as u32).max(WINDOW_MIN)
    }
    fn grow(&mut self, flow: &mut Flow, acked: u32) {
        if !flow.window_limited() {
            return;
        }
        let acked = if flow.slow_start() { flow.grow_exponentially(acked) } else { acked };
        if acked == 0 {
            return;
        }
        self.look(flow, acked);
        flow.grow_linearly(self.per, acked);
    }
    fn entered(&mut self, flow: &mut Flow, state: CaState) {
        if state == CaState::Loss {
            *self = Self { no_hystart: self.no_hystart, ..Self::new() };
            self.round(flow);
        }
    }
    fn event(&mut self, flow: &mut Flow, event: Event) {
        if event == Event::Start && self.epoch > 0 {
            // Silence does not count as time on the curve.
            let ticks = flow.ticks();
            self.epoch = (self.epoch + ticks.saturating_sub(flow.last_sent)).min(ticks);
        }
    }
    fn measured(&mut self, flow: &mut Flow, ack: &Ack) {
        let Some(rtt_us) = ack.rtt_us else { return };
        let hz = 1_000_000_000 / flow.tick().period.0.max(1);
        // Just after a recovery the round trip includes a queue.
        if self.epoch > 0 && flow.ticks().saturating_sub(self.epoch) < hz {
            return;
        }
        let rtt_us = rtt_us.max(1);
        if self.delay_min == 0 || self.delay_min > rtt_us {
            self.delay_min = rtt_us;
        }
        if !self.hystart.found && !self.no_hystart && flow.slow_start() {
            self.slow_start(flow, rtt_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::test_flow;
    use txweir_core::Instant;

    #[test]
    fn roots() {
        for n in [0, 1, 7, 8, 26, 27, 1 << 40, u64::MAX >> 1] {
            let r = cubic_root(n);
            assert!(r.pow(3) <= n && (r + 1).checked_pow(3).is_none_or(|c| c > n), "{n}: {r}");
        }
    }

    /// Acknowledgements of one train for 11 of the 20 ms of a round trip. Half a round trip ends
    /// slow start, unless departures are spread over a whole one, here or below.
    #[test]
    fn a_train_ends_slow_start_unless_departures_are_spread() {
        for (paced, paced_below, ends) in [(false, false, true), (true, false, false), (false, true, false)] {
            let mut f = test_flow();
            let mut c = Cubic::new();
            (f.cwnd, f.una, f.next) = (100, 1, 1_000_000);
            (f.paced, f.paced_below, f.pacing_rate) = (paced, paced_below, u64::MAX);
            c.start(&mut f);
            for ms in 0..=11 {
                f.now = Instant::from_millis(ms);
                c.measured(&mut f, &Ack { rtt_us: Some(20_000), ..Ack::default() });
            }
            assert_eq!(f.ssthresh < u32::MAX, ends, "{paced} {paced_below}");
        }
    }

    /// After a reduction from 1000 the window is back there after K = (300 / 0.4)^(1/3) = 9.08 s
    /// (RFC 9438 equation 2), or up to (1 / 0.4)^(1/3) = 1.36 s before, as the last segment of the
    /// curve is rounded up.
    #[test]
    fn the_curve_comes_back_after_k() {
        let mut f = test_flow();
        let mut c = Cubic::new();
        f.cwnd = 1000;
        f.cwnd = c.threshold(&mut f);
        f.ssthresh = f.cwnd;
        assert_eq!(f.cwnd, 700);
        c.delay_min = 100_000;
        let mut back = 0;
        for ms in 1..20_000_u64 {
            f.now = Instant::from_millis(1_000 + ms);
            // A round trip of 100 ms: a hundredth of the window per millisecond.
            let acked = (f.cwnd / 100).max(1);
            c.grow(&mut f, acked);
            if f.cwnd >= 1000 && back == 0 {
                back = ms;
            }
        }
        assert!((7_600..9_200).contains(&back), "{back}");
    }

    #[test]
    fn a_second_loss_below_the_first_leaves_room() {
        let mut f = test_flow();
        let mut c = Cubic::new();
        f.cwnd = 1000;
        c.threshold(&mut f);
        f.cwnd = 800;
        assert_eq!((c.threshold(&mut f), c.last_max), (560, 680));
    }
}
