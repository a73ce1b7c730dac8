//! The two halves of an end at work: a segment comes in to both, and one that leaves carries the
//! data of one half and the acknowledgement of the other.

use std::sync::Arc;

use txweir_core::{Ecn, Instant};

use crate::config::{Config, EcnMode};
use crate::connection::State;
use crate::connection::options::Options;
use crate::ecn::accecn;
use crate::receiver::{Due, Receiver};
use crate::segment::{Flags, Sacks, Segment};
use crate::sender::output;
use crate::sender::timer::{self, Purpose};
use crate::sender::writer::Gate;
use crate::sender::{Sender, ack};

/// The halves, the state of the end, and what both ends have agreed on.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) tx: Sender,
    pub(super) rx: Receiver,
    pub(super) options: Options,
    pub(super) state: State,
    /// True if the application has nothing more.
    pub(super) ending: bool,
    /// The code point with which the peer's SYN, or its answer to this end's SYN, arrived.
    pub(super) syn_ecn: Ecn,
    /// True if the next acknowledgement reports that code point (RFC 9768 section 3.2.2.1).
    pub(super) echoes_answer: bool,
}

impl Halves {
    pub(super) fn new(config: Arc<Config>, state: State) -> Self {
        Self {
            tx: Sender::new(Arc::clone(&config)),
            options: Options::offered(&config),
            rx: Receiver::new(config),
            state,
            ending: false,
            syn_ecn: Ecn::NotEct,
            echoes_answer: false,
        }
    }

    /// Takes a segment that has come in without SYN. False if it lies outside the window, or is
    /// too old.
    pub(super) fn take(&mut self, now: Instant, seg: &Segment) -> bool {
        let (rto, srtt8) = (self.tx.rto(), self.tx.flow.srtt8_us);
        if seg.len > 0 {
            self.tx.segments_received += u64::from(seg.segments());
            if seg.ecn == Ecn::Ce {
                self.tx.counters.marks_received += 1;
            }
        }
        let inside = self.rx.data(now, seg, rto, srtt8);
        if inside && seg.flags.has(Flags::ACK) {
            ack::take(&mut self.tx, seg, self.options.peer_scale, self.options.sack);
        }
        inside
    }

    /// True if a segment with RST ends the connection: it has the number that is expected next, or
    /// answers this end's SYN. One elsewhere in the window asks for an acknowledgement (RFC 5961
    /// section 3.2). An end that has closed has nothing to lose.
    pub(super) fn resets(&mut self, seg: &Segment) -> bool {
        let next = self.rx.stream.next;
        match self.state {
            State::Listen | State::Closed | State::Failed => false,
            State::SynSent => seg.flags.has(Flags::ACK) && seg.ack == 1,
            State::SynReceived => seg.seq == next,
            State::Established => {
                let right = next + self.rx.window.left(next);
                if next < seg.seq && seg.seq < right {
                    self.rx.timing.at_once();
                }
                seg.seq == next
            }
        }
    }

    /// Asks for the acknowledgement of a SYN that comes after the handshake.
    pub(super) fn acknowledge_syn(&mut self) {
        self.rx.timing.at_once();
        self.echoes_answer = self.tx.ecn.mode == EcnMode::Accurate;
    }

    /// True if both ends have closed, and everything is acknowledged.
    pub(super) fn closed(&self) -> bool {
        self.tx.closing && self.tx.flow.una == self.tx.end() && self.rx.stream.closed()
    }

    /// Returns the acknowledgement of the data before a change of marks, if it is due.
    pub(super) fn acknowledge_before(&mut self, now: Instant) -> Option<Segment> {
        let at = self.rx.split_at.take()?;
        let offer = self.rx.acknowledge_before();
        let ack = Segment { ack: at, ..self.bare(now, offer) };
        self.rx.ecn.turn();
        self.tx.acks_sent += 1;
        Some(ack)
    }

    /// Returns the acknowledgement of all data, if it is due.
    pub(super) fn acknowledge(&mut self, now: Instant) -> Option<Segment> {
        if self.rx.timing.due != Due::Now {
            return None;
        }
        self.tx.acks_sent += 1;
        let offer = self.rx.acknowledge();
        Some(self.bare(now, offer))
    }

    /// Returns the next segment that the sending half has reason for. `ending`: the application has
    /// nothing more.
    pub(super) fn send(&mut self, now: Instant) -> Option<Segment> {
        if std::mem::take(&mut self.tx.window_probe_due) {
            return Some(self.probe_window(now));
        }
        let shut = self.tx.writer.gate == Gate::Shut;
        let mut out = if shut { None } else { output::next(&mut self.tx, self.options.sack) };
        if out.is_none() && self.ending && !self.tx.closing {
            self.tx.closing = true;
            out = output::next(&mut self.tx, self.options.sack);
        }
        out.map(|out| self.data(now, out))
    }

    fn probe_window(&mut self, now: Instant) -> Segment {
        if let Some(out) = output::despite_refusal(&mut self.tx) {
            return self.data(now, out);
        }
        let seq = self.tx.flow.una - 1;
        let ticks = self.tx.rto();
        timer::set(&mut self.tx, Purpose::Window, ticks);
        let offer = self.rx.acknowledge();
        Segment { seq, ..self.bare(now, offer) }
    }

    /// Returns the time stamps of a segment that leaves at `at`, if both ends use them.
    pub(super) fn stamps(&self, at: Instant) -> Option<(u32, u32)> {
        self.options.stamps.then(|| (self.tx.flow.config.tick.stamp(at), self.rx.recent_stamp))
    }

    /// Returns a segment without data that offers this window and reports these blocks.
    fn bare(&mut self, now: Instant, (window, sacks): (u16, Sacks)) -> Segment {
        let mut flags = Flags::ACK.with(self.rx.ecn.flags());
        if std::mem::take(&mut self.echoes_answer) && sacks.is_empty() {
            flags = Flags::ACK.with(Flags::of_ace(accecn::handshake(self.syn_ecn)));
        }
        let (ecn, _) = self.tx.ecn.label(false);
        Segment {
            seq: self.tx.flow.next,
            ack: self.rx.stream.next,
            window,
            flags,
            ecn,
            sacks,
            stamps: self.stamps(now),
            ecn_bytes: self.rx.ecn.option(self.options.room(sacks.blocks().len())),
            departs: now,
            ..Segment::default()
        }
    }

    fn data(&mut self, now: Instant, out: output::Out) -> Segment {
        self.echoes_answer = false;
        // A FIN alone is no data: it cannot be marked (`tcp_ecn_send` of Linux).
        let (ecn, cwr) = self.tx.ecn.label(!out.again && out.len > 0);
        let flags = Flags::ACK
            .with(self.rx.ecn.flags())
            .with(cwr)
            .with_if(Flags::FIN, out.fin)
            .with_if(Flags::PSH, (out.push || out.len > self.tx.flow.mss) && out.len > 0);
        self.rx.timing.replied(self.tx.flow.ticks());
        let (window, sacks) = self.rx.acknowledge();
        let mss = self.tx.flow.mss;
        Segment {
            seq: out.start,
            ack: self.rx.stream.next,
            len: out.len,
            window,
            gso: if out.len > mss { mss as u16 } else { 0 },
            flags,
            accurate: self.tx.ecn.mode == EcnMode::Accurate,
            ecn,
            sacks,
            stamps: self.stamps(out.departs),
            ecn_bytes: None,
            syn: None,
            departs: if self.tx.flow.paced_below { out.departs } else { now },
            again: out.again,
        }
    }
}
