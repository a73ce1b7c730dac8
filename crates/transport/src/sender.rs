//! The sending half of a connection: its state, and the questions of other modules about it.

pub(crate) mod ack;
pub(crate) mod dupthresh;
pub(crate) mod local;
pub(crate) mod output;
pub(crate) mod rack;
pub(crate) mod rate;
pub(crate) mod recovery;
pub(crate) mod sack;
pub(crate) mod timer;
pub(crate) mod units;
pub(crate) mod writer;

use std::sync::Arc;

use crate::ahead::ahead;
use crate::cc::{self, Congestion};
use crate::config::{Config, Pacing};
use crate::ecn::EcnSender;
use crate::flow::Flow;
use crate::rare::{Blank, Maybe, Rare};
use crate::rtt::Rtt;
use crate::segment::Segment;
use crate::sender::rack::Rack;
use crate::sender::rate::Rate;
use crate::sender::recovery::Recovery;
use crate::sender::timer::Timer;
use crate::sender::units::Units;
use crate::sender::writer::Writer;

/// Counters of an end since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments with data sent, retransmissions included.
    pub segments_sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Bytes of these segments.
    pub retransmitted_bytes: u64,
    /// Timeouts of data.
    pub timeouts: u64,
    /// Timeouts that proved needless, as far as this is known (RFC 5682).
    pub spurious_timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Reductions of the window that were undone.
    pub undone: u64,
    /// Loss probes sent (RFC 8985 section 7).
    pub probes: u64,
    /// Duplicates that the receiver reported (RFC 2883).
    pub duplicates_reported: u64,
    /// Reductions of the window because of marks.
    pub reduced_by_marks: u64,
    /// Acknowledgements sent without data.
    pub acks_sent: u64,
    /// Segments received with data.
    pub segments_received: u64,
    /// Segments received with a congestion mark.
    pub marks_received: u64,
}

impl Blank for Counters {
    fn blank() -> &'static Self {
        const NONE: Counters = Counters {
            segments_sent: 0,
            retransmitted: 0,
            retransmitted_bytes: 0,
            timeouts: 0,
            spurious_timeouts: 0,
            recoveries: 0,
            undone: 0,
            probes: 0,
            duplicates_reported: 0,
            reduced_by_marks: 0,
            acks_sent: 0,
            segments_received: 0,
            marks_received: 0,
        };
        &NONE
    }
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) flow: Flow,
    pub(crate) cc: Box<dyn Congestion>,
    pub(crate) units: Rare<Units>,
    pub(crate) rtt: Rtt,
    pub(crate) rec: Rare<Recovery>,
    pub(crate) rack: Rare<Rack>,
    pub(crate) rate: Rate,
    pub(crate) ecn: EcnSender,
    pub(crate) timer: Option<Timer>,
    /// The counters, except those that every end counts.
    pub(crate) counters: Rare<Counters>,
    /// Segments of data sent, acknowledgements sent without data, and segments of data received.
    pub(crate) segments_sent: u64,
    pub(crate) acks_sent: u64,
    pub(crate) segments_received: u64,
    /// Number of doublings of the timeout.
    pub(crate) backoff: u8,
    /// Number of timeouts since the last progress.
    pub(crate) retransmits: u8,
    /// Number of probes of a shut window that no acknowledgement has followed.
    pub(crate) window_probes: u32,
    /// The window that the receiver offers, counted from the first number not acknowledged, bytes.
    pub(crate) window: u32,
    /// The number of the segment that offered it.
    pub(crate) window_seq: u64,
    /// The largest window that was offered.
    pub(crate) window_max: u32,
    pub(crate) writer: Writer,
    /// Bytes below the socket that the device has not reported sent.
    pub(crate) below: u32,
    /// True if the sender waits until fewer bytes lie below the socket.
    pub(crate) throttled: bool,
    /// The number behind the outstanding loss probe, if there is one.
    pub(crate) tlp_end: Maybe,
    /// True if this probe was a retransmission.
    pub(crate) tlp_again: bool,
    /// True if a loss probe is due and not yet sent.
    pub(crate) probe_due: bool,
    /// True if a retransmission after a timeout is due and not yet sent.
    pub(crate) timeout_due: bool,
    /// True if a probe of the window is due and not yet sent.
    pub(crate) window_probe_due: bool,
    /// The end of the highest range acknowledged selectively.
    pub(crate) fack: u64,
    /// True if the acknowledgement at hand echoes marks.
    pub(crate) echoing: bool,
    /// The time stamp that the acknowledgement at hand echoes.
    pub(crate) echo: Option<u32>,
    /// Number whose acknowledgement ends the round trip in which the window's use is measured.
    pub(crate) usage_end: u64,
    /// Segments sent since the driver last drained the sender.
    pub(crate) burst: u32,
    /// True if the sender waits for more window rather than send a small unit.
    pub(crate) deferring: bool,
    /// True if no more data comes after `flow.write`.
    pub(crate) closing: bool,
    /// The last number sent in a segment shorter than a full one.
    pub(crate) short_end: u64,
}

impl Sender {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let mut flow = Flow::new(&config);
        let mut cc = cc::make(config.algorithm, &mut flow, config.seed);
        cc.start(&mut flow);
        if config.pacing == Pacing::Auto {
            flow.paced |= cc.wants_pacing();
        }
        Self {
            flow,
            cc,
            units: Rare::default(),
            rtt: Rtt::default(),
            rec: Rare::default(),
            rack: Rare::default(),
            rate: Rate::default(),
            ecn: EcnSender::default(),
            timer: None,
            counters: Rare::default(),
            segments_sent: 0,
            acks_sent: 0,
            segments_received: 0,
            backoff: 0,
            retransmits: 0,
            window_probes: 0,
            window: 0,
            window_seq: 0,
            window_max: 0,
            writer: Writer::default(),
            below: 0,
            throttled: false,
            tlp_end: Maybe::NONE,
            tlp_again: false,
            probe_due: false,
            timeout_due: false,
            window_probe_due: false,
            fack: 0,
            echoing: false,
            echo: None,
            usage_end: 0,
            burst: 0,
            deferring: false,
            closing: false,
            short_end: 0,
        }
    }

    /// Starts the half with the segment that establishes the connection. `shift`: the scale of its
    /// window. `round_trip_us`: its round trip, if it is known. `slow`: the first window is one
    /// segment.
    pub(crate) fn established(&mut self, seg: &Segment, shift: u8, round_trip_us: Option<u32>, slow: bool) {
        self.timer = None;
        let flow = &mut self.flow;
        (flow.una, flow.next) = (1, 1);
        flow.high = 0;
        flow.delivered = 1;
        flow.app_limited = 0;
        self.window_seq = seg.seq;
        self.window = u32::from(seg.window) << shift;
        self.window_max = self.window;
        self.backoff = 0;
        self.usage_end = 1;
        writer::expand(self);
        let flow = &mut self.flow;
        if let Some(us) = round_trip_us {
            self.rtt.sample_min(flow.now_us(), us);
            self.rtt.sample(us, 1, 1);
            (flow.min_rtt_us, flow.srtt8_us) = (self.rtt.min(), self.rtt.srtt8);
        }
        if slow {
            flow.cwnd = 1;
        }
        self.cc.start(flow);
        if !self.cc.owns_window() {
            ack::pace(flow, self.cc.pacing_percent());
        }
    }

    /// Asks for the memory of its parts that lie apart.
    pub(crate) fn parts_ahead(&self) {
        ahead(&*self.cc);
        self.units.ahead();
        self.rec.ahead();
        self.rack.ahead();
        self.counters.ahead();
        self.writer.ahead();
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> Counters {
        Counters {
            segments_sent: self.segments_sent,
            acks_sent: self.acks_sent,
            segments_received: self.segments_received,
            ..*self.counters
        }
    }

    /// Returns the number behind all data that is to be sent, the FIN included.
    pub(crate) const fn end(&self) -> u64 {
        self.flow.write + self.closing as u64
    }

    /// Returns the number behind the window that the receiver offers.
    pub(crate) const fn window_end(&self) -> u64 {
        self.flow.una + self.window as u64
    }

    /// True if there is data that has never been sent, and the receiver's window has room for it.
    pub(crate) const fn can_send_new(&self) -> bool {
        self.flow.next < self.end() && self.flow.next < self.window_end()
    }

    /// Returns the timeout in ticks, backoff included.
    pub(crate) fn rto(&self) -> u64 {
        let tick = self.flow.tick();
        let most = tick.from_micros(crate::rtt::RTO_MAX_US);
        let rto = match self.rtt.srtt8 {
            0 => tick.from_micros(self.flow.config.rto_initial.0 / 1_000),
            _ => self.rtt.rto(tick),
        };
        (rto << self.backoff.min(16)).min(most)
    }

    /// Takes `bytes` more that the application has handed over.
    pub(crate) fn written(&mut self, bytes: u64) {
        self.after_silence();
        self.flow.write += bytes;
    }

    /// Decays the window to the first one if the sender was silent for longer than the timeout (RFC
    /// 2861), before it sends again.
    pub(crate) fn after_silence(&mut self) {
        if self.flow.out == 0 && self.flow.config.restart_after_idle && !self.cc.owns_window() {
            let silent = self.flow.ticks().saturating_sub(self.flow.last_sent);
            if self.flow.last_sent > 0 && silent > self.rto() {
                self.restart(silent);
            }
        }
    }

    fn restart(&mut self, mut silent: u64) {
        let rto = self.rto().max(1);
        let least = self.flow.initial_window.min(self.flow.cwnd);
        self.cc.event(&mut self.flow, crate::flow::Event::Restart);
        self.flow.ssthresh = self.flow.current_ssthresh();
        let mut cwnd = self.flow.cwnd;
        while silent > rto && cwnd > least {
            silent -= rto;
            cwnd >>= 1;
        }
        self.flow.cwnd = cwnd.max(least);
    }

    /// Marks rate samples as limited by the application if it has nothing more for now: they would
    /// measure its rate.
    pub(crate) fn note_application(&mut self) {
        let f = &mut self.flow;
        if f.write.saturating_sub(f.next) < u64::from(f.mss)
            && self.below == 0
            && f.in_flight() < f.cwnd
            && f.lost <= f.again
        {
            f.app_limited = (f.delivered + u64::from(f.in_flight())).max(1);
        }
    }
}
