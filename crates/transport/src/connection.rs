//! One end of a connection: the handshake, the two halves, and the calls of its driver.

mod below;

use std::sync::Arc;

use txweir_core::{Ecn, Instant};

use crate::cc::{Congestion, Wants};
use crate::config::{Config, EcnMode, Pacing, STAMP_BYTES};
use crate::ecn::accecn;
use crate::flow::Flow;
use crate::receiver::{Due, Receiver};
use crate::segment::{Flags, Sacks, Segment, SynOptions};
use crate::sender::local;
use crate::sender::output;
use crate::sender::timer::{self, Purpose};
use crate::sender::writer::{self, Gate};
use crate::sender::{Counters, Sender};

/// Number of SYNs sent again at a steady pace before the pace falls.
const SYN_LINEAR: u32 = 4;
/// Number of SYNs, the first included, after which the first window is still the ordinary one.
const SYNS_FREE: u32 = 2;
/// Most bytes of options (RFC 9293 section 3.1).
const OPTIONS_MAX: usize = 40;
/// Largest number of SYNs that offer accurate ECN, if none of them is answered (RFC 9768 section
/// 3.1.4.1).
const SYN_OFFERS_MAX: u32 = 2;
/// Number of SYNs sent again before an end gives up.
const SYN_RETRIES_MAX: u32 = 6;

/// State of an end (RFC 9293 section 3.3.2, with the states of closing as one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The end waits for a SYN.
    Listen,
    /// The end has sent a SYN, or will.
    SynSent,
    /// The end has answered a SYN.
    SynReceived,
    /// Data flows.
    Established,
    /// Both ends have closed, and everything is acknowledged.
    Closed,
    /// The end was reset, or has given up.
    Failed,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    state: State,
    pub(crate) tx: Sender,
    rx: Receiver,
    /// True if a SYN, or the answer to one, is to be sent.
    syn_due: bool,
    syn_sent: Instant,
    syns: u32,
    /// Window scale of the peer.
    peer_scale: u8,
    scaled: bool,
    sack: bool,
    stamps: bool,
    /// The code point with which the peer's SYN, or its answer to this end's SYN, arrived.
    syn_ecn: Ecn,
    /// True if the next acknowledgement reports that code point (RFC 9768 section 3.2.2.1).
    echoes_answer: bool,
    /// True if the application has nothing more.
    ending: bool,
}

impl Connection {
    /// Returns an end that opens the connection: its first [`transmit`](Self::transmit) returns the
    /// SYN.
    pub fn connect(config: impl Into<Arc<Config>>) -> Self {
        let mut c = Self::new(config.into(), State::SynSent);
        c.syn_due = true;
        c.rx.window.first(u64::from(c.tx.flow.config.mss));
        c
    }

    /// Returns an end that waits for the connection.
    pub fn listen(config: impl Into<Arc<Config>>) -> Self {
        Self::new(config.into(), State::Listen)
    }

    fn new(config: Arc<Config>, state: State) -> Self {
        Self {
            state,
            tx: Sender::new(Arc::clone(&config)),
            rx: Receiver::new(Arc::clone(&config)),
            syn_due: false,
            syn_sent: Instant::ZERO,
            syns: 0,
            peer_scale: 0,
            scaled: false,
            sack: config.sack,
            stamps: config.stamps,
            syn_ecn: Ecn::NotEct,
            echoes_answer: false,
            ending: false,
        }
    }

    /// Returns the configuration. Ends with equal configurations may share one.
    pub const fn config(&self) -> &Arc<Config> {
        &self.tx.flow.config
    }
    /// Takes `config` in place of its own if both are equal; otherwise changes nothing.
    pub fn share_config(&mut self, config: &Arc<Config>) {
        if self.tx.flow.config == *config {
            (self.tx.flow.config, self.rx.config) = (Arc::clone(config), Arc::clone(config));
        }
    }
    /// Returns the state of the connection.
    pub const fn state(&self) -> State {
        self.state
    }
    /// Returns the state that its sender shares with congestion control.
    pub const fn flow(&self) -> &Flow {
        &self.tx.flow
    }
    /// Returns its congestion control.
    pub fn congestion(&self) -> &dyn Congestion {
        &*self.tx.cc
    }
    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.tx.counters()
    }
    /// Returns the number of bytes that were handed over and are not acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        let una = if self.tx.flow.una == 0 { 1 } else { self.tx.flow.una };
        self.tx.flow.write.saturating_sub(una)
    }
    /// Returns the number of bytes in order that wait for the reader.
    pub const fn readable(&self) -> u64 {
        self.rx.readable()
    }
    /// True if the reader has everything and the peer has closed.
    pub fn finished(&self) -> bool {
        self.rx.finished()
    }

    /// Hands over up to `bytes`, and returns how many the send buffer takes; 0 once the connection
    /// is closing.
    pub fn write(&mut self, now: Instant, bytes: u64) -> u64 {
        let mut all = 0;
        loop {
            let n = self.write_unit(now, bytes - all);
            all += n;
            if n == 0 || all == bytes {
                return all;
            }
        }
    }

    /// Hands over a part of a call that is to write `bytes`, up to the bytes that fill one unit,
    /// and returns how many were taken; 0 once the connection is closing. Segments may leave before
    /// the rest of the call: the driver asks [`transmit`](Self::transmit) until it returns none,
    /// and then calls this with the rest, until nothing is left or nothing is taken; either ends
    /// the call.
    pub fn write_unit(&mut self, now: Instant, bytes: u64) -> u64 {
        if self.ending || !matches!(self.state, State::Established) {
            return 0;
        }
        self.tx.flow.now = now;
        writer::write(&mut self.tx, bytes)
    }

    /// Ends the data: a FIN follows the bytes handed over so far. The FIN rides on the last data
    /// only if this data has to wait.
    pub const fn close(&mut self) {
        self.ending = true;
    }

    /// Takes up to `most` bytes in order, and returns their number.
    pub fn read(&mut self, now: Instant, most: u64) -> u64 {
        self.rx.take(now, most)
    }

    /// Reports that a queue on this host has refused the segment with data that
    /// [`transmit`](Self::transmit) returned last: it counts as not sent, and leaves with a later
    /// event. The window shrinks once per round trip.
    pub fn dropped(&mut self) {
        local::dropped(&mut self.tx);
    }

    /// Reports that a queue on this host has taken the segment and dropped another one: the window
    /// shrinks once per round trip.
    pub fn congested(&mut self) {
        local::congested(&mut self.tx);
    }

    /// True if the windows let data leave now. The next [`transmit`](Self::transmit) then returns
    /// some, unless pacing, small queues, RFC 896 or the wait for a larger unit hold it back. For a
    /// host that decides before it takes a segment whether it can send one.
    pub fn has_data(&self) -> bool {
        self.state == State::Established && output::has_room(&self.tx)
    }

    /// Reports that the host's own queue has no room for the segment that this end would send. The
    /// window begins anew with one segment, as after a source quench (RFC 1122 section 4.2.3.9):
    /// nothing counts as lost, and the threshold stays. If nothing is in flight, no acknowledgement
    /// can wake this end. The retransmission timer then runs, as in 4.4BSD, and its end counts as a
    /// timeout: the threshold becomes two segments, and the next timeout is twice as long. An
    /// algorithm that sets its own window (BBR) keeps it.
    pub fn quench(&mut self, now: Instant) {
        self.tx.flow.now = now;
        if !self.tx.cc.owns_window() {
            (self.tx.flow.cwnd, self.tx.flow.growth) = (1, 0);
        }
        if self.tx.timer.is_none() {
            let ticks = self.tx.rto();
            timer::set(&mut self.tx, Purpose::Retransmit, ticks);
        }
    }

    /// Changes the way of spreading departures, from now on.
    pub fn set_pacing(&mut self, pacing: Pacing) {
        self.tx.queue_paces = pacing == Pacing::Queue;
        self.tx.flow.paced = match pacing {
            Pacing::Auto => self.tx.cc.wants_pacing(),
            Pacing::Queue => false,
            Pacing::Always => true,
        };
    }

    /// Returns the number that this end expects next, and the last number that it has sent: the
    /// reference points for widening numbers of 32 bits.
    pub const fn expects(&self) -> (u64, u64) {
        (self.rx.next, self.tx.flow.next)
    }

    /// Takes a segment that has come in.
    pub fn receive(&mut self, now: Instant, seg: &Segment) {
        self.tx.flow.now = now;
        self.tx.writer.gate = Gate::Open;
        self.tx.writer.heard = true;
        if self.tx.flow.departs != now {
            self.tx.writer.units = 0;
        }
        if seg.flags.has(Flags::RST) {
            if !matches!(self.state, State::Listen) {
                self.state = State::Failed;
            }
            return;
        }
        match self.state {
            State::Closed if seg.flags.has(Flags::FIN) => self.rx.due = Due::Now,
            State::Closed | State::Failed => {}
            State::Listen if seg.flags.has(Flags::SYN) && !seg.flags.has(Flags::ACK) => {
                self.take_syn(now, seg)
            }
            State::Listen => {}
            State::SynSent => self.take_answer(now, seg),
            State::SynReceived => {
                if seg.flags.has(Flags::SYN) {
                    self.syn_due = true;
                } else if seg.flags.has(Flags::ACK) && seg.ack >= 1 {
                    self.establish(now, seg);
                    if self.tx.ecn.mode == EcnMode::Accurate {
                        self.tx.ecn.told.handshake(seg);
                    }
                    self.ordinary(now, seg);
                }
            }
            State::Established if seg.flags.has(Flags::SYN) => {
                self.rx.due = Due::Now;
                self.echoes_answer = self.tx.ecn.mode == EcnMode::Accurate;
            }
            State::Established => self.ordinary(now, seg),
        }
    }

    fn ordinary(&mut self, now: Instant, seg: &Segment) {
        let (rto, srtt8) = (self.tx.rto(), self.tx.flow.srtt8_us);
        if seg.len > 0 {
            self.tx.segments_received += u64::from(seg.segments());
            if seg.ecn == Ecn::Ce {
                self.tx.counters.marks_received += 1;
            }
        }
        if !self.rx.data(now, seg, rto, srtt8) {
            return;
        }
        if seg.flags.has(Flags::ACK) {
            crate::sender::ack::take(&mut self.tx, seg, self.peer_scale, self.sack);
        }
        let done = self.tx.closing && self.tx.flow.una == self.tx.end() && self.rx.closed();
        if done {
            self.state = State::Closed;
            self.tx.timer = None;
        }
    }

    /// Agrees with the peer's SYN on options, segment size and windows.
    fn agree(&mut self, now: Instant, seg: &Segment) {
        let syn = seg.syn.unwrap_or_default();
        self.sack &= syn.sack;
        self.stamps &= seg.stamps.is_some();
        self.scaled = syn.scale.is_some();
        self.peer_scale = syn.scale.unwrap_or(0).min(14);
        if !self.scaled {
            self.rx.window.scale = 0;
        }
        let own = u32::from(self.tx.flow.config.mss);
        let peer = if syn.mss == 0 { 536 } else { u32::from(syn.mss) };
        self.tx.flow.mss = own.min(peer).max(64) - if self.stamps { 12 } else { 0 };
        let segment = own - if self.stamps { 12 } else { 0 };
        if self.state == State::Listen {
            self.rx.window.first(u64::from(segment));
        }
        self.rx.begin(now, self.stamps, self.sack, segment);
        if let Some((theirs, _)) = seg.stamps {
            self.rx.recent_stamp = theirs;
        }
    }

    /// Returns the mode of marks that this end prefers.
    fn wish(&self) -> EcnMode {
        match self.tx.cc.wants() {
            Wants::Classic => self.tx.flow.config.ecn,
            Wants::Dctcp => EcnMode::Classic,
            Wants::L4s => EcnMode::Accurate,
        }
    }

    fn agree_on_marks(&mut self, mode: EcnMode) {
        let wants = self.tx.cc.wants();
        let (code, always) = match (wants, mode) {
            (Wants::L4s, EcnMode::Accurate) => (Ecn::Ect1, true),
            (Wants::Dctcp, EcnMode::Classic) => (Ecn::Ect0, true),
            _ => (Ecn::Ect0, false),
        };
        self.tx.ecn.agreed(mode, code, always);
        self.tx.cc.agreed(mode);
        self.rx.ecn.mode = mode;
        self.rx.ecn.exact = wants == Wants::Dctcp && mode == EcnMode::Classic;
    }

    fn take_syn(&mut self, now: Instant, seg: &Segment) {
        self.agree(now, seg);
        self.syn_ecn = seg.ecn;
        let mode = match (self.wish(), seg.flags.ace()) {
            (EcnMode::Off, _) | (_, 0) => EcnMode::Off,
            (EcnMode::Accurate, 0b011) => EcnMode::Classic,
            // Other values come from successors of RFC 9768; section 3.1.3 says to answer them as
            // RFC 9768.
            (EcnMode::Accurate, _) => EcnMode::Accurate,
            (EcnMode::Classic, ace) if ace & 0b011 == 0b011 => self.classic_answer(seg.ecn),
            (EcnMode::Classic, _) => EcnMode::Off,
        };
        self.agree_on_marks(mode);
        self.state = State::SynReceived;
        self.syn_due = true;
    }

    /// Returns the mode for a SYN that offers RFC 3168. An ordinary sender sends no SYN that may be
    /// marked (RFC 3168 section 6.1.1); a sender with DCTCP does.
    fn classic_answer(&self, ecn: Ecn) -> EcnMode {
        let strange = ecn.capable() && self.tx.cc.wants() != Wants::Dctcp;
        if strange { EcnMode::Off } else { EcnMode::Classic }
    }

    fn take_answer(&mut self, now: Instant, seg: &Segment) {
        if !seg.flags.has(Flags::SYN.with(Flags::ACK)) || seg.ack != 1 {
            return;
        }
        self.agree(now, seg);
        let mode = match (self.wish(), seg.flags.ace()) {
            (EcnMode::Off, _) => EcnMode::Off,
            (EcnMode::Accurate, ace) if accecn::agrees(ace) => EcnMode::Accurate,
            // 0b101 comes from a peer with the nonce of RFC 3540, which also supports classic
            // marks.
            (_, 0b001 | 0b101) => EcnMode::Classic,
            _ => EcnMode::Off,
        };
        self.agree_on_marks(mode);
        self.syn_ecn = seg.ecn;
        if mode == EcnMode::Accurate {
            self.rx.ecn.counts.answered(seg.ecn);
            self.echoes_answer = true;
        }
        self.establish(now, seg);
        self.rx.due = Due::Now;
    }

    fn establish(&mut self, now: Instant, seg: &Segment) {
        self.state = State::Established;
        self.tx.timer = None;
        self.rx.established(now);
        let tx = &mut self.tx;
        tx.flow.now = now;
        (tx.flow.una, tx.flow.next) = (1, 1);
        tx.flow.high = 0;
        tx.flow.delivered = 1;
        tx.flow.app_limited = 0;
        tx.window_seq = seg.seq;
        let shift = if seg.flags.has(Flags::SYN) { 0 } else { self.peer_scale };
        tx.window = u32::from(seg.window) << shift;
        tx.window_max = tx.window;
        tx.backoff = 0;
        tx.usage_end = 1;
        writer::expand(tx);
        let since_syn =
            (now.0 / 1_000).saturating_sub(self.syn_sent.0 / 1_000).min(u64::from(u32::MAX)) as u32;
        let us = match seg.stamps {
            // Only time stamps tell which SYN is answered.
            Some((_, echo)) if self.syns > 1 => {
                let ms = tx.flow.tick().stamp(now).wrapping_sub(echo);
                (echo != 0 && ms < 1 << 20).then(|| ms.max(1) * 1_000)
            }
            _ => (self.syns <= 1).then_some(since_syn),
        };
        if let Some(us) = us {
            tx.rtt.sample_min(tx.flow.now_us(), us);
            tx.rtt.sample(us, 1, 1);
            (tx.flow.min_rtt_us, tx.flow.srtt8_us) = (tx.rtt.min(), tx.rtt.srtt8);
        }
        if self.syns > SYNS_FREE {
            // Several SYNs were lost: the first window is one segment (RFC 6298 section 5.7 in spirit).
            tx.flow.cwnd = 1;
        }
        tx.cc.start(&mut tx.flow);
        if !tx.cc.owns_window() {
            crate::sender::ack::pace(&mut tx.flow, tx.cc.pacing_percent());
        }
    }

    /// Returns the next segment that leaves now, if there is one. The driver asks until it returns
    /// none.
    pub fn transmit(&mut self, now: Instant) -> Option<Segment> {
        self.tx.flow.now = now;
        match self.state {
            State::SynSent | State::SynReceived => return self.handshake(now),
            State::Listen | State::Failed => return None,
            State::Established | State::Closed => {}
        }
        if let Some(at) = self.rx.split_at.take() {
            let offer = self.rx.acknowledge_before();
            let ack = Segment { ack: at, ..self.bare(now, offer) };
            self.rx.ecn.turn();
            self.tx.acks_sent += 1;
            return Some(ack);
        }
        if self.state == State::Established {
            if std::mem::take(&mut self.tx.window_probe_due) {
                if let Some(out) = output::despite_refusal(&mut self.tx) {
                    return Some(self.data(now, out));
                }
                let seq = self.tx.flow.una - 1;
                let ticks = self.tx.rto();
                timer::set(&mut self.tx, Purpose::Window, ticks);
                let offer = self.rx.acknowledge();
                return Some(Segment { seq, ..self.bare(now, offer) });
            }
            let shut = self.tx.writer.gate == Gate::Shut;
            let mut out = if shut { None } else { output::next(&mut self.tx, self.sack) };
            if out.is_none() && self.ending && !self.tx.closing {
                self.tx.closing = true;
                out = output::next(&mut self.tx, self.sack);
            }
            if let Some(out) = out {
                return Some(self.data(now, out));
            }
        }
        if self.rx.due == Due::Now {
            self.tx.acks_sent += 1;
            let offer = self.rx.acknowledge();
            return Some(self.bare(now, offer));
        }
        None
    }

    /// Returns a segment without data that offers this window and reports these blocks.
    fn bare(&mut self, now: Instant, (window, sacks): (u16, Sacks)) -> Segment {
        let mut flags = Flags::ACK.with(self.rx.ecn.flags());
        if std::mem::take(&mut self.echoes_answer) && sacks.is_empty() {
            flags = Flags::ACK.with(Flags::of_ace(accecn::handshake(self.syn_ecn)));
        }
        let used = if self.stamps { STAMP_BYTES as usize } else { 0 };
        let blocks = sacks.blocks().len();
        let used = used + if blocks > 0 { 4 + 8 * blocks } else { 0 };
        let (ecn, _) = self.tx.ecn.label(false);
        Segment {
            seq: self.tx.flow.next,
            ack: self.rx.next,
            window,
            flags,
            ecn,
            sacks,
            stamps: self.stamps.then(|| (self.tx.flow.config.tick.stamp(now), self.rx.recent_stamp)),
            ecn_bytes: self.rx.ecn.option(OPTIONS_MAX - used),
            departs: now,
            ..Segment::default()
        }
    }

    fn data(&mut self, now: Instant, out: output::Out) -> Segment {
        self.echoes_answer = false;
        let (ecn, cwr) = self.tx.ecn.label(!out.again);
        let flags = Flags::ACK
            .with(self.rx.ecn.flags())
            .with(cwr)
            .with_if(Flags::FIN, out.fin)
            .with_if(Flags::PSH, (out.push || out.len > self.tx.flow.mss) && out.len > 0);
        self.rx.replied(self.tx.flow.ticks());
        let (window, sacks) = self.rx.acknowledge();
        let mss = self.tx.flow.mss;
        Segment {
            seq: out.start,
            ack: self.rx.next,
            len: out.len,
            window,
            gso: if out.len > mss { mss as u16 } else { 0 },
            flags,
            accurate: self.tx.ecn.mode == EcnMode::Accurate,
            ecn,
            sacks,
            stamps: self.stamps.then(|| (self.tx.flow.config.tick.stamp(out.departs), self.rx.recent_stamp)),
            ecn_bytes: None,
            syn: None,
            departs: if self.tx.queue_paces { out.departs } else { now },
            again: out.again,
        }
    }

    fn handshake(&mut self, now: Instant) -> Option<Segment> {
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        self.syn_sent = now;
        self.syns += 1;
        let linear = self.state == State::SynSent && self.syns <= SYN_LINEAR + 1;
        // The result is at most 16.
        self.tx.backoff = if linear { 0 } else { (self.syns - 1).min(16) as u8 };
        let ticks = self.tx.rto();
        timer::set(&mut self.tx, Purpose::Retransmit, ticks);
        let answers = self.state == State::SynReceived;
        let mode = if answers { self.tx.ecn.mode } else { self.wish() };
        let ace = match (mode, answers) {
            (EcnMode::Off, _) => 0,
            // The network may have dropped a SYN because of its flags (RFC 3168 section 6.1.1.1).
            (EcnMode::Classic, false) if self.syns > 1 => 0,
            (EcnMode::Classic, false) => 0b011,
            (EcnMode::Classic, true) => 0b001,
            (EcnMode::Accurate, false) if self.syns > SYN_OFFERS_MAX => 0,
            (EcnMode::Accurate, false) => accecn::OFFER,
            (EcnMode::Accurate, true) => accecn::handshake(self.syn_ecn),
        };
        // An end with DCTCP lets its SYN be marked, as Linux does.
        let ecn = if self.tx.cc.wants() == Wants::Dctcp { Ecn::Ect0 } else { Ecn::NotEct };
        // The option probes whether the path lets it pass; it is not tried again (RFC 9768 section
        // 3.2.3.2.2).
        let ecn_bytes = if answers && self.syns == 1 { self.rx.ecn.option(OPTIONS_MAX / 2) } else { None };
        let scale = Some(self.rx.window.scale).filter(|_| !answers || self.scaled);
        let window = u16::try_from(self.rx.window.offered).unwrap_or(u16::MAX);
        let ack = if answers { 1 } else { 0 };
        Some(Segment {
            ack,
            window,
            flags: Flags::SYN.with_if(Flags::ACK, answers).with(Flags::of_ace(ace)),
            ecn,
            ecn_bytes,
            stamps: self.stamps.then(|| (self.tx.flow.config.tick.stamp(now), self.rx.recent_stamp)),
            syn: Some(SynOptions { mss: self.tx.flow.config.mss, scale, sack: self.sack }),
            departs: now,
            again: self.syns > 1,
            ..Segment::default()
        })
    }

    /// Runs the timers that are due. [`transmit`](Self::transmit) is to follow.
    pub fn on_time(&mut self, now: Instant) {
        self.tx.flow.now = now;
        self.tx.writer.gate = Gate::Open;
        self.rx.on_time(now, || self.tx.rto());
        if self.tx.timer.is_none_or(|t| t.at > now) {
            return;
        }
        match self.state {
            State::SynSent | State::SynReceived => {
                self.tx.timer = None;
                if self.syns > SYN_RETRIES_MAX {
                    self.state = State::Failed;
                } else if self.state == State::SynSent {
                    self.tx.counters.timeouts += 1;
                    self.tx.counters.retransmitted += 1;
                }
                self.syn_due = true;
            }
            _ => {
                if !timer::fired(&mut self.tx) {
                    self.state = State::Failed;
                }
            }
        }
    }

    /// Returns the time of the next call if nothing comes before: a timer, or a paced departure.
    /// `None` if only a segment, the application or the device can cause progress.
    pub fn deadline(&self) -> Option<Instant> {
        if matches!(self.state, State::Failed) {
            return None;
        }
        let timer = self.tx.timer.map(|t| t.at);
        let waits = self.tx.flow.next < self.tx.end() || self.tx.flow.lost > self.tx.flow.again;
        let pace = if waits { output::paced_until(&self.tx) } else { None };
        [timer, self.rx.deadline(), pace].into_iter().flatten().min()
    }
}
