//! The sending half of a connection: its state, and what others ask of it.

use crate::cc::{self, Congestion};
use crate::config::{Config, Detection, Pacing};
use crate::ecn::EcnSender;
use crate::flow::Flow;
use crate::rack::Rack;
use crate::rate::{Gather, Rate};
use crate::recovery::Recovery;
use crate::rtt::Rtt;
use crate::timer::Timer;
use crate::units::Units;

/// What an end has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments with data sent, retransmissions included.
    pub segments_sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Timeouts of data.
    pub timeouts: u64,
    /// Of them, needless as far as could be told (RFC 5682).
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

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) flow: Flow,
    pub(crate) cc: Box<dyn Congestion>,
    pub(crate) units: Units,
    pub(crate) rtt: Rtt,
    pub(crate) rec: Recovery,
    pub(crate) rack: Rack,
    pub(crate) rate: Rate,
    pub(crate) gather: Gather,
    pub(crate) ecn: EcnSender,
    pub(crate) timer: Option<Timer>,
    pub(crate) counters: Counters,
    /// Doublings of the timeout.
    pub(crate) backoff: u32,
    /// Timeouts since the last progress.
    pub(crate) retransmits: u32,
    /// Probes of a closed window since it was last open.
    pub(crate) window_probes: u32,
    /// The window that the receiver offers from the first number not acknowledged on, bytes.
    pub(crate) window: u64,
    /// The number of the segment that offered it.
    pub(crate) window_seq: u64,
    /// The greatest window that was offered.
    pub(crate) window_max: u64,
    /// Payload of the units in which the application last handed data over.
    pub(crate) chunk: u64,
    /// Where the unsent unit at hand ends.
    pub(crate) chunk_end: u64,
    /// The application writes while the first units leave: each is filled up behind what has left.
    pub(crate) chunk_slides: bool,
    /// Bytes below the socket that the device has not reported sent.
    pub(crate) below: u64,
    /// It waits until less lies there.
    pub(crate) throttled: bool,
    /// A loss probe is out: the number behind it.
    pub(crate) tlp_end: Option<u64>,
    /// It was a retransmission.
    pub(crate) tlp_again: bool,
    /// A loss probe is due and not yet sent.
    pub(crate) probe_due: bool,
    /// A retransmission after a timeout is due and not yet sent.
    pub(crate) timeout_due: bool,
    /// A probe of the window is due and not yet sent.
    pub(crate) window_probe_due: bool,
    /// The end of the highest range acknowledged selectively.
    pub(crate) fack: u64,
    /// The blocks of the last acknowledgement.
    pub(crate) known_sacks: [(u64, u64); 4],
    /// The acknowledgement at hand echoes marks.
    pub(crate) echoing: bool,
    /// The time stamp that it echoes.
    pub(crate) echo: Option<u32>,
    /// When the window was last known to be used, ticks.
    pub(crate) window_stamp: u64,
    pub(crate) window_used: u32,
    /// Where the present round trip of the window's use ends.
    pub(crate) usage_end: u64,
    /// Segments sent since the driver last drained it.
    pub(crate) burst: u32,
    /// Waits for more window rather than send a small unit.
    pub(crate) deferring: bool,
    /// Segments of data sent, for the pacing that spares the first ones.
    pub(crate) data_segments: u64,
    /// No more data comes after `flow.write`.
    pub(crate) closing: bool,
    /// The last number sent of a segment shorter than a full one.
    pub(crate) short_end: u64,
    pub(crate) gso_segs: u32,
    pub(crate) small_queue_max: u64,
    pub(crate) small_queues: bool,
    pub(crate) size_by_rate: bool,
    pub(crate) nagle: bool,
    pub(crate) detection: Detection,
    /// `Detection::DupThresh` has judged every unit below this number.
    pub(crate) judged: u64,
    pub(crate) defers: bool,
    /// Timeout before there is a sample, microseconds.
    rto_initial_us: u32,
    pub(crate) restart_after_idle: bool,
    pub(crate) queue_paces: bool,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        let mut flow = Flow::new(config);
        let mut cc = cc::make(config.algorithm, &mut flow, config.seed);
        cc.start(&mut flow);
        if config.pacing == Pacing::Auto {
            flow.paced |= cc.wants_pacing();
        }
        Self {
            flow,
            cc,
            units: Units::default(),
            rtt: Rtt::default(),
            rec: Recovery::default(),
            rack: Rack::default(),
            rate: Rate::default(),
            gather: Gather::default(),
            ecn: EcnSender::default(),
            timer: None,
            counters: Counters::default(),
            backoff: 0,
            retransmits: 0,
            window_probes: 0,
            window: 0,
            window_seq: 0,
            window_max: 0,
            chunk: 0,
            chunk_end: 0,
            chunk_slides: false,
            below: 0,
            throttled: false,
            tlp_end: None,
            tlp_again: false,
            probe_due: false,
            timeout_due: false,
            window_probe_due: false,
            fack: 0,
            known_sacks: [(0, 0); 4],
            echoing: false,
            echo: None,
            window_stamp: 0,
            window_used: 0,
            usage_end: 0,
            burst: 0,
            deferring: false,
            data_segments: 0,
            closing: false,
            short_end: 0,
            gso_segs: config.gso_segs.max(1),
            small_queue_max: config.small_queue_max,
            small_queues: config.small_queues,
            size_by_rate: config.size_by_rate,
            nagle: config.nagle,
            detection: config.detection,
            judged: 0,
            defers: config.defers,
            rto_initial_us: u32::try_from(config.rto_initial.0 / 1_000).unwrap_or(u32::MAX),
            restart_after_idle: config.restart_after_idle,
            queue_paces: config.pacing == Pacing::Queue,
        }
    }

    /// The number behind everything that is to be sent, the FIN included.
    pub(crate) const fn end(&self) -> u64 {
        self.flow.write + self.closing as u64
    }

    /// The number behind the window that the receiver offers.
    pub(crate) const fn window_end(&self) -> u64 {
        self.flow.una + self.window
    }

    /// There is data that has never been sent, and the receiver's window has room for it.
    pub(crate) const fn can_send_new(&self) -> bool {
        self.flow.next < self.end() && self.flow.next < self.window_end()
    }

    /// Timeout in ticks, backoff included.
    pub(crate) fn rto(&self) -> u64 {
        let most = self.flow.tick.from_micros(crate::rtt::RTO_MAX_US);
        let rto = match self.rtt.srtt8 {
            0 => self.flow.tick.from_micros(u64::from(self.rto_initial_us)),
            _ => self.rtt.rto(&self.flow.tick),
        };
        (rto << self.backoff.min(16)).min(most)
    }

    /// The application has handed over `bytes` more.
    pub(crate) fn written(&mut self, bytes: u64) {
        let idle = self.flow.out == 0 && self.flow.next == self.flow.write;
        if idle && self.restart_after_idle && !self.cc.owns_window() {
            let silent = self.flow.ticks().saturating_sub(self.flow.last_sent);
            if self.flow.last_sent > 0 && silent > self.rto() {
                self.restart(silent);
            }
        }
        self.chunk = crate::output::chunk(self);
        self.chunk_slides |= self.flow.next == self.flow.write;
        self.flow.write += bytes;
    }

    /// Silence: the window decays to the first one (RFC 2861).
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
        self.window_stamp = self.flow.ticks();
        self.window_used = 0;
    }

    /// The application has nothing more for now: samples of the rate would say how fast it is.
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
