//! One end of a connection: its states, and the calls of its driver.

mod below;
mod halves;
mod marks;
mod opening;
mod options;

use std::sync::Arc;

use txweir_core::Instant;

use crate::cc::Congestion;
use crate::config::{Config, Pacing};
pub use crate::connection::below::Below;
use crate::connection::halves::Halves;
use crate::connection::opening::{Opening, Role};
use crate::flow::Flow;
use crate::segment::{Flags, Segment};
use crate::sender::Counters;
use crate::sender::output;
use crate::sender::timer;
use crate::sender::writer::{self, Gate};

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
    opening: Opening,
    halves: Halves,
}

impl Connection {
    /// Returns an end that opens the connection: its first [`transmit`](Self::transmit) returns the
    /// SYN.
    pub fn connect(config: impl Into<Arc<Config>>) -> Self {
        let mut halves = Halves::new(config.into(), State::SynSent);
        halves.rx.window.first(u64::from(halves.tx.flow.config.mss));
        Self { opening: Opening::new(true), halves }
    }

    /// Returns an end that waits for the connection.
    pub fn listen(config: impl Into<Arc<Config>>) -> Self {
        let halves = Halves::new(config.into(), State::Listen);
        Self { opening: Opening::new(false), halves }
    }

    /// Returns the configuration. Ends with equal configurations may share one.
    pub const fn config(&self) -> &Arc<Config> {
        &self.halves.tx.flow.config
    }
    /// Takes `config` in place of its own if both are equal; otherwise changes nothing.
    pub fn share_config(&mut self, config: &Arc<Config>) {
        if self.halves.tx.flow.config == *config {
            (self.halves.tx.flow.config, self.halves.rx.config) = (Arc::clone(config), Arc::clone(config));
        }
    }
    /// Gives congestion control the seed of its random numbers in place of `Config::seed`, so that
    /// ends which share a configuration draw different numbers. For an end that has sent nothing.
    pub fn reseed(&mut self, seed: u64) {
        self.halves.tx.cc.reseed(seed);
    }
    /// Returns the state of the connection.
    pub const fn state(&self) -> State {
        self.halves.state
    }
    /// Returns the state that its sender shares with congestion control.
    pub const fn flow(&self) -> &Flow {
        &self.halves.tx.flow
    }
    /// Returns its congestion control.
    pub fn congestion(&self) -> &dyn Congestion {
        &*self.halves.tx.cc
    }
    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.halves.tx.counters()
    }
    /// Returns the number of bytes that were handed over and are not acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        let una = if self.halves.tx.flow.una == 0 { 1 } else { self.halves.tx.flow.una };
        self.halves.tx.flow.write.saturating_sub(una)
    }
    /// Returns the number of bytes in order that wait for the reader.
    pub const fn readable(&self) -> u64 {
        self.halves.rx.stream.readable()
    }
    /// True if the reader has everything and the peer has closed.
    pub fn finished(&self) -> bool {
        self.halves.rx.stream.finished()
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
        if self.halves.ending || !matches!(self.halves.state, State::Established) {
            return 0;
        }
        self.halves.tx.flow.now = now;
        writer::write(&mut self.halves.tx, bytes)
    }

    /// Ends the data: a FIN follows the bytes handed over so far. The FIN rides on the last data
    /// only if this data has to wait.
    pub const fn close(&mut self) {
        self.halves.ending = true;
    }

    /// Takes up to `most` bytes in order, and returns their number.
    pub fn read(&mut self, now: Instant, most: u64) -> u64 {
        self.halves.rx.take(now, most)
    }

    /// Returns the side that faces the host's queues and its device, for their reports.
    pub const fn below(&mut self) -> Below<'_> {
        Below(&mut self.halves.tx)
    }

    /// True if the windows let data leave now. The next [`transmit`](Self::transmit) then returns
    /// some, unless pacing, small queues, RFC 896 or the wait for a larger unit hold it back. For a
    /// host that decides before it takes a segment whether it can send one.
    pub fn has_data(&self) -> bool {
        self.halves.state == State::Established && output::has_room(&self.halves.tx)
    }

    /// Changes the way of spreading departures, from now on.
    pub fn set_pacing(&mut self, pacing: Pacing) {
        self.halves.tx.flow.paced_below = pacing == Pacing::Queue;
        self.halves.tx.flow.paced = match pacing {
            Pacing::Auto => self.halves.tx.cc.wants_pacing(),
            Pacing::Queue => false,
            Pacing::Always => true,
        };
    }

    /// Returns the number that this end expects next, and the last number that it has sent: the
    /// reference points for widening numbers of 32 bits.
    pub const fn expects(&self) -> (u64, u64) {
        (self.halves.rx.stream.next, self.halves.tx.flow.next)
    }

    /// Asks for the memory of its parts that lie apart from itself, ahead of other calls; see
    /// [`ahead`](crate::ahead). The memory of the connection itself should be at hand.
    pub fn parts_ahead(&self) {
        self.halves.tx.parts_ahead();
        self.halves.rx.stream.ahead();
    }

    /// Asks for the memory of the units under way that the next calls concern. The memory of its
    /// parts should be at hand.
    pub fn units_ahead(&self) {
        let tx = &self.halves.tx;
        tx.units.ends_ahead();
        tx.writer.pieces_ahead();
    }

    /// Takes a segment that has come in.
    pub fn receive(&mut self, now: Instant, seg: &Segment) {
        let (h, opening) = (&mut self.halves, &mut self.opening);
        h.tx.flow.now = now;
        h.tx.writer.gate = Gate::Open;
        h.tx.writer.heard = true;
        if seg.flags.has(Flags::RST) {
            if h.resets(seg) {
                h.state = State::Failed;
            }
            return;
        }
        let (syn, ack) = (seg.flags.has(Flags::SYN), seg.flags.has(Flags::ACK));
        match h.state {
            // The peer sends again the FIN, or data before it, whose acknowledgement was lost (RFC
            // 9293 section 3.10.7.4).
            State::Closed if seg.len > 0 || seg.flags.has(Flags::FIN) => h.rx.timing.at_once(),
            State::Closed | State::Failed => {}
            State::Listen if syn && !ack => {
                opening.take_syn(h, now, seg);
                h.state = State::SynReceived;
            }
            State::Listen => {}
            State::SynSent => {
                if opening.take_answer(h, now, seg) {
                    h.state = State::Established;
                }
            }
            State::SynReceived if syn => opening.due = true,
            // Nothing but the SYN has been sent (RFC 9293 section 3.10.7.4).
            State::SynReceived if ack && seg.ack == 1 => {
                opening.take_confirmation(h, now, seg);
                h.state = State::Established;
                self.ordinary(now, seg);
            }
            State::SynReceived => {}
            State::Established if syn => h.acknowledge_syn(),
            State::Established => self.ordinary(now, seg),
        }
    }

    fn ordinary(&mut self, now: Instant, seg: &Segment) {
        if self.halves.take(now, seg) && self.halves.closed() {
            self.halves.state = State::Closed;
            self.halves.tx.timer = None;
        }
    }

    /// Returns the next segment that leaves now, if there is one. The driver asks until it returns
    /// none.
    pub fn transmit(&mut self, now: Instant) -> Option<Segment> {
        let h = &mut self.halves;
        h.tx.flow.now = now;
        match h.state {
            State::Listen | State::Failed => None,
            State::SynSent => self.opening.next(h, now, Role::Opens),
            State::SynReceived => self.opening.next(h, now, Role::Answers),
            State::Established => {
                h.acknowledge_before(now).or_else(|| h.send(now)).or_else(|| h.acknowledge(now))
            }
            State::Closed => h.acknowledge_before(now).or_else(|| h.acknowledge(now)),
        }
    }

    /// Runs the timers that are due. [`transmit`](Self::transmit) is to follow.
    pub fn on_time(&mut self, now: Instant) {
        let Halves { tx, rx, state, .. } = &mut self.halves;
        tx.flow.now = now;
        tx.writer.gate = Gate::Open;
        rx.on_time(now, || tx.rto());
        if tx.timer.is_none_or(|t| t.at > now) {
            return;
        }
        match *state {
            State::SynSent | State::SynReceived => {
                tx.timer = None;
                let opens = *state == State::SynSent;
                if self.opening.in_vain(if opens { Role::Opens } else { Role::Answers }) {
                    *state = State::Failed;
                } else if opens {
                    tx.counters.timeouts += 1;
                    tx.counters.retransmitted += 1;
                }
                self.opening.due = true;
            }
            _ => {
                if !timer::fired(tx) {
                    *state = State::Failed;
                }
            }
        }
    }

    /// Returns the time of the next call if nothing comes before: a timer, or a paced departure.
    /// `None` if only a segment, the application or the device can cause progress.
    pub fn deadline(&self) -> Option<Instant> {
        if matches!(self.halves.state, State::Failed) {
            return None;
        }
        let Halves { tx, rx, .. } = &self.halves;
        let timer = tx.timer.map(|t| t.at);
        let waits = tx.flow.next < tx.end() || tx.flow.lost > tx.flow.again;
        let pace = if waits { output::paced_until(tx) } else { None };
        [timer, rx.timing.deadline(), pace].into_iter().flatten().min()
    }
}
