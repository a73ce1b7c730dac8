//! Drops on the sender's own host: the queue below reports them at once, and a refused unit counts
//! as not sent.
//!
//! Recordings of a policy on the sender's own device show this behaviour. A new unit stays the
//! first one to be sent, and the next event tries it again; if nothing is in flight, a timeout
//! tries it with one segment. A retransmission stays due. A timeout whose retransmission was
//! dropped is tried again half a second later, and does not count for the backoff. In each case the
//! window shrinks, once per round trip.

use txweir_core::Instant;

use crate::rare::Maybe;
use crate::sender::Sender;
use crate::sender::recovery;
use crate::sender::timer::{self, Purpose, Timer};
use crate::sender::units::{Marks, Unit};
use crate::sender::writer::Gate;

/// Time that a timeout waits for the queue below to take its retransmission, microseconds.
const AGAIN_US: u64 = 500_000;

/// State of a sender before its last unit left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    /// The unit as it was; for new data, as it left.
    pub(crate) unit: Unit,
    pub(crate) new: bool,
    pub(crate) departs: Instant,
    pub(crate) timer: Option<Timer>,
    pub(crate) burst: u32,
    pub(crate) short_end: u64,
    /// True if the unit carried PSH.
    pub(crate) push: bool,
    /// True if the unit was sent for a timeout; `probe`: as a probe.
    pub(crate) timeout: bool,
    pub(crate) probe: bool,
    /// True if the unit was sent because nothing was in flight and a queue of this host had taken
    /// nothing.
    pub(crate) window: bool,
}

impl Before {
    /// Returns the state before a unit of new data leaves.
    pub(crate) fn fresh(s: &Sender) -> Self {
        Self { new: true, ..Self::again(s, Unit::default()) }
    }

    /// Returns the state before `unit` leaves again.
    pub(crate) fn again(s: &Sender, unit: Unit) -> Self {
        Self {
            unit,
            new: false,
            departs: s.flow.departs,
            timer: s.timer,
            burst: s.burst,
            short_end: s.short_end,
            push: false,
            timeout: false,
            probe: false,
            window: false,
        }
    }

    /// Records the unit that left.
    pub(crate) const fn left(&mut self, unit: Unit) {
        self.unit = unit;
    }
}

/// Shrinks the window once per round trip after a queue on this host has dropped a packet of this
/// end.
pub(crate) fn congested(s: &mut Sender) {
    let open = s.flow.state;
    recovery::enter_local(s);
    // The reduction does not wait for the unit that was handed over just now.
    if let Some(before) = s.units.before.filter(|b| b.new && s.flow.state != open) {
        s.flow.high = before.unit.start;
    }
}

/// Takes back the unit that left last, which a queue on this host has refused.
pub(crate) fn dropped(s: &mut Sender) {
    congested(s);
    let Some(units) = s.units.made() else { return };
    units.refused_below();
    let Some(before) = units.before.take() else { return };
    s.flow.departs = before.departs;
    if before.new {
        take_back(s, &before);
    } else {
        not_sent_again(s, &before);
    }
    if before.probe {
        s.tlp_end = Maybe::NONE;
        s.counters.probes -= 1;
        timer::restart(s, true);
    }
    if before.window {
        let ticks = s.flow.tick().from_micros(AGAIN_US);
        timer::set(s, Purpose::Window, ticks);
    }
    if before.timeout {
        s.backoff = s.backoff.saturating_sub(1);
        let ticks = s.flow.tick().from_micros(AGAIN_US);
        timer::set(s, Purpose::Retransmit, ticks);
    }
    s.writer.gate = Gate::Used;
}

fn take_back(s: &mut Sender, before: &Before) {
    let unit = before.unit;
    s.units.pop_last();
    s.flow.out -= u32::from(unit.segments);
    s.flow.next = unit.start;
    s.writer.back(unit.start + u64::from(unit.payload()), before.push);
    s.writer.unit_left = false;
    (s.timer, s.burst, s.short_end) = (before.timer, before.burst, before.short_end);
}

fn not_sent_again(s: &mut Sender, before: &Before) {
    let i = s.units.find(before.unit.start);
    let Some(u) = s.units.get_mut(i).filter(|u| u.start == before.unit.start) else { return };
    let n = u32::from(u.segments);
    let counted = u.marks.has(Marks::AGAIN) && !before.unit.marks.has(Marks::AGAIN);
    let end = u.end;
    *u = Unit { end, segments: u.segments, ..before.unit };
    u.marks.set(Marks::EVER_AGAIN);
    s.units.not_sent();
    if counted {
        s.flow.again -= n.min(s.flow.again);
        if s.flow.reducing() {
            s.rec.prr_out = s.rec.prr_out.saturating_sub(n);
        }
    }
}
