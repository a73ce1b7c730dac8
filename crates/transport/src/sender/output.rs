//! The sending half's choice of the next segment: a retransmission, a probe, or new data, as far as
//! window, pacing and small queues allow.

use txweir_core::{Instant, Nanos};

use crate::flow::{CaState, Event};
use crate::rare::Maybe;
use crate::sender::Sender;
use crate::sender::local::Before;
use crate::sender::timer::{self, Purpose};
use crate::sender::units::{Marks, UNITS_MAX, Unit, segments};
use crate::sender::writer::{self, Gate};

/// Number of segments that are never paced (RFC 6928's window).
const UNPACED: u64 = 10;
/// Binary logarithm of a round trip in microseconds: a super-segment doubles for each halving of
/// the smallest round trip below it.
const RTT_LOG: u32 = 9;
/// Memory of a unit below the socket in addition to its payload, bytes.
pub(crate) const UNIT_MEMORY: u64 = 832;
/// Memory of a segment in addition to its payload, once the path has cut its unit.
const SEGMENT_MEMORY: u32 = 832;
/// Largest payload of a unit of data, bytes: Linux leaves 321 of 64 KiB to headers
/// (`sk_gso_max_size`).
const UNIT_MAX: u64 = 65_536 - 321;
/// Silence after which a sender does not wait for a larger unit.
const DEFER_SILENCE: Nanos = Nanos(1_000_000);

/// The unit that leaves next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) fin: bool,
    pub(crate) again: bool,
    pub(crate) push: bool,
    pub(crate) departs: Instant,
}

/// Returns the next unit, if one may leave now.
pub(crate) fn next(s: &mut Sender, sack: bool) -> Option<Out> {
    writer::unit_left(s);
    if s.writer.gate == Gate::Used {
        drained(s, sack);
        return None;
    }
    if std::mem::take(&mut s.timeout_due) && !s.units.is_empty() {
        let out = if still_below(s, 0) { attempted(s, 0) } else { again(s, 0, 1) };
        if out.is_none() {
            drained(s, sack);
            return None;
        }
        if let Some(before) = s.units.made().and_then(|u| u.before.as_mut()) {
            before.timeout = true;
        }
        return out;
    }
    if s.probe_due {
        s.probe_due = false;
        return probe(s);
    }
    if !s.rec.new_first
        && let Some(out) = lost(s)
    {
        return Some(out);
    }
    let out = fresh(s);
    if out.is_none() {
        drained(s, sack);
        if s.rec.new_first && s.flow.next <= s.flow.high {
            // There was nothing new to send: the ordinary repair continues.
            (s.rec.new_first, s.rec.frto) = (false, false);
            return lost(s);
        }
    }
    out
}

/// True if the windows let data leave now. Pacing, small queues and the wait for a larger unit are
/// not checked.
pub(crate) fn has_room(s: &Sender) -> bool {
    if s.probe_due || (s.timeout_due && !s.units.is_empty()) {
        return true;
    }
    let f = &s.flow;
    if f.in_flight() >= f.cwnd {
        return false;
    }
    let left = f.write.saturating_sub(f.next);
    let window = s.window_end().saturating_sub(f.next);
    let fresh = left > 0 && window >= left.min(u64::from(f.mss)) && s.units.len() < UNITS_MAX;
    fresh || f.again < f.lost
}

/// Returns the time until which pacing holds departures back, if it does so now.
pub(crate) fn paced_until(s: &Sender) -> Option<Instant> {
    (s.flow.paced && s.flow.departs > s.flow.now).then_some(s.flow.departs)
}

/// True if too many bytes lie below the socket (small queues). A single unit in flight may always
/// have a second. Retransmissions have twice the room of new data.
fn small_queue_full(s: &mut Sender, payload: u64, again: bool) -> bool {
    if !s.flow.config.small_queues {
        return false;
    }
    let rate = if s.flow.pacing_rate == u64::MAX { u64::MAX } else { s.flow.pacing_rate >> 10 };
    let mut most = (2 * (payload + UNIT_MEMORY)).max(rate);
    if !s.flow.spread() {
        most = most.min(s.flow.config.small_queue_max);
    }
    let most = most << u32::from(again);
    s.throttled = u64::from(s.below) >= most && s.units.len() > 1;
    s.throttled
}

/// True if the last transmission of the unit still lies in a queue of this host: the unit is not
/// sent again (the kernel counts such attempts as `TCPSpuriousRtxHostQueues`). The sender continues
/// when the device has reported a departure.
fn still_below(s: &mut Sender, i: usize) -> bool {
    let below = s.flow.config.small_queues && s.units.is_below(i);
    s.throttled |= below;
    below
}

/// Counts an attempt to send unit `i` again that a queue of this host has prevented. An undo counts
/// it like a retransmission, which left when the unit last left. Returns none.
fn attempted(s: &mut Sender, i: usize) -> Option<Out> {
    let u = s.units.get(i)?;
    let (n, stamp) = (u32::from(u.segments), s.flow.tick().stamp(u.sent));
    s.rec.undo_left = Some(s.rec.undo_left.unwrap_or(0) + n);
    s.rec.again_stamp = s.rec.again_stamp.or(Some(stamp));
    None
}

/// Sends the next unit that is lost and not sent again.
fn lost(s: &mut Sender) -> Option<Out> {
    if s.flow.again >= s.flow.lost || s.flow.in_flight() >= s.flow.cwnd || paced_until(s).is_some() {
        return None;
    }
    let mut i = s.units.find(s.rec.lost_from.max(s.flow.una));
    loop {
        let unit = s.units.get(i)?;
        s.rec.lost_from = unit.start;
        if unit.marks.has(Marks::LOST) && !unit.marks.any(Marks::AGAIN | Marks::SACKED) {
            break;
        }
        i += 1;
    }
    let payload = u64::from(s.units.get(i)?.payload());
    if small_queue_full(s, payload, true) {
        return None;
    }
    if still_below(s, i) {
        return attempted(s, i);
    }
    let room = s.flow.cwnd - s.flow.in_flight();
    let most = room.min(burst(s));
    let out = again(s, i, most);
    if i == 0 && !s.timer.is_some_and(|t| t.purpose == Purpose::Reorder) {
        let rto = s.rto();
        timer::set(s, Purpose::Retransmit, rto);
    }
    out
}

/// Sends unit `i` again, at most `most` segments of it.
fn again(s: &mut Sender, i: usize, most: u32) -> Option<Out> {
    let u = *s.units.get(i)?;
    let mss = s.flow.mss.max(1);
    if u32::from(u.segments) > most {
        s.units.split(i, u.start + u64::from(most) * u64::from(mss), mss);
    }
    let in_flight = s.flow.in_flight();
    let before = Before::again(s, *s.units.get(i)?);
    let u = s.units.get_mut(i)?;
    let n = u32::from(u.segments);
    if !u.marks.has(Marks::AGAIN) {
        u.marks.set(Marks::AGAIN | Marks::EVER_AGAIN);
        s.flow.again += n;
    }
    s.rec.undo_left = Some(s.rec.undo_left.unwrap_or(0) + n);
    if s.flow.reducing() {
        s.rec.prr_out += n;
    }
    let out = leave(s, i, in_flight);
    s.units.before = Some(before);
    s.rec.again_stamp = s.rec.again_stamp.or(Some(s.flow.tick().stamp(out.departs)));
    Some(out)
}

/// Sends unit `i` once more: sets its time, its place in the order of transmissions, and the
/// counters.
fn leave(s: &mut Sender, i: usize, in_flight: u32) -> Out {
    let Some(&u) = s.units.get(i) else {
        if let Some(units) = s.units.made() {
            units.before = None;
        }
        return Out { start: 0, len: 0, fin: false, again: true, push: false, departs: s.flow.now };
    };
    let departs = depart(s, u.start, u.payload(), u32::from(u.segments));
    let mut unit = u;
    unit.sent = departs;
    unit.in_flight = in_flight + u32::from(u.segments);
    s.rate.sent(&s.flow, &mut unit);
    if let Some(slot) = s.units.get_mut(i) {
        *slot = unit;
    }
    s.units.sent_again(i, departs);
    s.counters.retransmitted += u64::from(u.segments);
    s.counters.retransmitted_bytes += u64::from(u.payload());
    let (start, len, fin) = (u.start, u.payload(), u.marks.has(Marks::FIN));
    let push = start + u64::from(len) == s.flow.write;
    Out { start, len, fin, again: true, push, departs }
}

/// Sends the loss probe (RFC 8985 section 7.3): new data if the window has room, otherwise the last
/// segment again.
fn probe(s: &mut Sender) -> Option<Out> {
    let fresh = s.can_send_new() && s.flow.next + u64::from(s.flow.mss) <= s.window_end();
    let held = paced_until(s).is_some() || small_queue_full(s, u64::from(s.flow.mss), false);
    let out = match fresh && !held {
        true => Some(send_new(s, s.flow.mss)),
        false => None,
    };
    s.tlp_again = out.is_none();
    let out = out.or_else(|| {
        let last = s.units.len().checked_sub(1).filter(|_| !fresh)?;
        if still_below(s, last) {
            return None;
        }
        let u = *s.units.get(last)?;
        let mss = u64::from(s.flow.mss.max(1));
        let mut i = last;
        if u.segments > 1 {
            s.units.split(last, u.start + (u64::from(u.segments) - 1) * mss, s.flow.mss);
            i += 1;
        }
        let in_flight = s.flow.in_flight();
        let before = Before::again(s, *s.units.get(i)?);
        if let Some(u) = s.units.get_mut(i) {
            u.marks.set(Marks::EVER_AGAIN);
        }
        let out = leave(s, i, in_flight);
        s.units.before = Some(before);
        Some(out)
    });
    if out.is_some() {
        if let Some(before) = s.units.made().and_then(|u| u.before.as_mut()) {
            before.probe = true;
        }
        s.counters.probes += 1;
        s.tlp_end = Maybe::some(s.flow.next);
    }
    s.burst = 0;
    timer::restart(s, out.is_none());
    out
}

/// Returns the largest number of segments of the next super-segment: the data that the pacing rate
/// carries in a millisecond, more on short paths.
fn burst(s: &Sender) -> u32 {
    let f = &s.flow;
    let device = u64::from(f.gso_max.max(f.mss));
    let most = device.min(UNIT_MAX.max(u64::from(f.mss)));
    let by_rate = s.flow.config.size_by_rate && f.pacing_rate != u64::MAX;
    let mut bytes = if by_rate { f.pacing_rate >> 10 } else { most };
    let short = if f.min_rtt_us == u32::MAX { 32 } else { f.min_rtt_us >> RTT_LOG };
    if short < 32 {
        bytes = bytes.saturating_add(device >> short);
    }
    let n = (bytes.min(most) / u64::from(f.mss.max(1))) as u32;
    n.max(s.cc.burst_min(f))
        .min(s.flow.config.gso_segs.max(1))
        .min((most / u64::from(f.mss.max(1))).max(1) as u32)
}

/// Sends new data, if there is some and nothing forbids it.
fn fresh(s: &mut Sender) -> Option<Out> {
    let (mss, end) = (s.flow.mss, s.end());
    if s.flow.next >= end || s.units.len() >= UNITS_MAX || paced_until(s).is_some() {
        return None;
    }
    let in_flight = s.flow.in_flight();
    let Some(room) = s.flow.cwnd.checked_sub(in_flight).filter(|r| *r > 0) else {
        s.deferring = true;
        return None;
    };
    let quota = room.min((s.flow.cwnd >> 1).max(1));
    let left = s.flow.write - s.flow.next;
    let window = s.window_end().saturating_sub(s.flow.next);
    if window < left.min(u64::from(mss)) || (left == 0 && s.flow.next > s.window_end()) {
        return None;
    }
    let most = burst(s);
    // A unit that is too short for the allowance is filled from the unit behind it, which keeps its
    // end.
    let chunk = s.writer.first(s.flow.next).max(left.min(u64::from(quota.min(most)) * u64::from(mss)));
    if chunk <= u64::from(mss) {
        // A short segment waits while another one is in flight (RFC 896), if this is switched on.
        let short = left < u64::from(mss) && !s.closing;
        if s.flow.config.nagle && short && s.flow.out > 0 && s.short_end > s.flow.una {
            return None;
        }
    } else if s.writer.gate != Gate::One && defers(s, room, window, most, chunk) {
        // The unit that a full unit at the head of a call releases does not wait.
        return None;
    }
    let len = left.min(u64::from(quota.min(most)) * u64::from(mss)).min(chunk.max(1)).min(window);
    // A short segment at the end waits if another one is in flight (RFC 896).
    let short = len % u64::from(mss);
    let waits = s.flow.config.nagle && short > 0 && short < len && s.short_end > s.flow.una;
    let len = if waits { len - short } else { len };
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if small_queue_full(s, u64::from(len), false) {
        s.writer.cut(s.flow.next + u64::from(len));
        return None;
    }
    if s.writer.gate == Gate::One {
        s.writer.gate = Gate::Used;
    }
    Some(send_new(s, len))
}

/// Returns the payload of a unit of data as it is handed over: whole segments, at most half of the
/// largest window offered.
pub(crate) fn chunk(s: &Sender) -> u64 {
    let mss = u64::from(s.flow.mss.max(1));
    let room = u64::from(s.flow.gso_max).min(UNIT_MAX);
    let half = (u64::from(s.window_max) / 2).max(mss);
    (room.min(half) / mss).max(1) * mss
}

/// True if the sender waits for more window rather than send a small unit. `left`: payload of the
/// unit at hand.
fn defers(s: &mut Sender, room: u32, window: u64, most: u32, left: u64) -> bool {
    let last = s.flow.next + left >= s.flow.write;
    let f = &s.flow;
    if !f.config.defers || f.state >= CaState::Recovery || f.now.saturating_since(f.departs) > DEFER_SILENCE {
        return false;
    }
    let mss = u64::from(f.mss);
    let congestion = u64::from(room) * mss;
    let limit = congestion.min(window);
    let share = u64::from(s.window).min(u64::from(f.cwnd) * mss) / 3;
    if limit >= u64::from(most) * mss || (!last && limit >= left) || limit >= share {
        return false;
    }
    let Some(head) = s.units.first() else { return false };
    // The next acknowledgement is far off.
    let srtt_ns = u64::from(f.srtt8_us) * 125;
    let expected = head.sent + Nanos(srtt_ns);
    if expected.saturating_since(f.now).0 > (srtt_ns / 2).min(DEFER_SILENCE.0) {
        return false;
    }
    if congestion < window && congestion <= left {
        s.deferring = true;
        return true;
    }
    if congestion >= window && window <= left {
        return true;
    }
    !(s.closing && last)
}

/// Sends one segment, whatever else holds data back, after the timer that watches a shut window has
/// fired and the window is open. `None` if there is nothing to send.
pub(crate) fn despite_refusal(s: &mut Sender) -> Option<Out> {
    if s.flow.out > 0 || !s.can_send_new() {
        return None;
    }
    let room = s.window_end() - s.flow.next;
    let out = send_new(s, s.flow.mss.min(u32::try_from(room).unwrap_or(u32::MAX)));
    if let Some(before) = s.units.made().and_then(|u| u.before.as_mut()) {
        before.window = true;
    }
    Some(out)
}

/// Sends `len` bytes of new data, and the FIN if they are the last.
fn send_new(s: &mut Sender, len: u32) -> Out {
    let start = s.flow.next;
    let left = s.flow.write - start;
    let mut before = Before::fresh(s);
    let len = u32::try_from(left.min(u64::from(len))).unwrap_or(u32::MAX);
    let fin = s.closing && u64::from(len) == left;
    let n = u32::from(segments(len, s.flow.mss));
    let departs = depart(s, start, len, n);
    let end = start + u64::from(len) + u64::from(fin);
    let in_flight = s.flow.in_flight() + n;
    let mut unit = Unit { start, end, sent: departs, segments: n as u16, in_flight, ..Unit::default() };
    if fin {
        unit.marks.set(Marks::FIN);
    }
    s.rate.sent(&s.flow, &mut unit);
    s.units.push(unit);
    s.writer.unit_left = true;
    before.left(unit);
    if !len.is_multiple_of(s.flow.mss.max(1)) {
        s.short_end = end;
    }
    let first = s.flow.out == 0;
    s.flow.out += n;
    s.flow.next = end;
    let push = s.writer.left(end);
    s.units.before = Some(Before { push, ..before });
    if first || s.timer.is_some_and(|t| t.purpose == Purpose::LossProbe) {
        timer::rearm(s);
    }
    s.burst += n;
    Out { start, len, fin, again: false, push, departs }
}

/// Books the departure of a unit that is sent now, and returns its time as pacing counts.
fn depart(s: &mut Sender, start: u64, payload: u32, n: u32) -> Instant {
    if s.flow.in_flight() == 0 {
        s.cc.event(&mut s.flow, Event::Start);
    }
    let f = &mut s.flow;
    let prior = f.departs;
    f.departs = f.departs.max(f.now);
    let at = f.departs;
    s.segments_sent += u64::from(n);
    if f.spread() && f.pacing_rate != u64::MAX && f.pacing_rate > 0 && s.segments_sent >= UNPACED {
        let ns = u64::from(payload).saturating_mul(1_000_000_000) / f.pacing_rate;
        // Later departures make up for lateness of the timer, each by half at most.
        let credit = at.saturating_since(prior).0;
        f.departs = at + Nanos(ns - credit.min(ns / 2));
    }
    f.last_sent = f.ticks();
    s.below = s.below.saturating_add(payload + UNIT_MEMORY as u32);
    if s.flow.config.small_queues {
        s.units.goes_below(start, payload + UNIT_MEMORY as u32);
    }
    at
}

/// Returns the number of bytes that a segment with this payload counts for below the socket, until
/// the device has sent it.
pub const fn below_socket(payload: u32) -> u32 {
    payload + UNIT_MEMORY as u32
}

/// Returns the same for a segment that the path has cut out of a unit.
pub const fn below_socket_cut(payload: u32) -> u32 {
    payload + SEGMENT_MEMORY
}

/// Notes that the unit that left last has been cut into this number of segments below the socket.
pub(crate) fn cut(s: &mut Sender, segments: u32) {
    let more = segments.saturating_mul(SEGMENT_MEMORY).saturating_sub(UNIT_MEMORY as u32);
    s.below = s.below.saturating_add(more);
    if let Some(units) = s.units.made() {
        units.cut_below(more);
    }
}

/// Handles the end of a burst: measures the use of the window, and sets a timer for a probe.
fn drained(s: &mut Sender, sack: bool) {
    writer::drained(s);
    let sent = std::mem::take(&mut s.burst);
    let pending = sent > 0 || s.flow.next < s.end();
    if !pending {
        s.deferring = false;
        return;
    }
    let limited = std::mem::take(&mut s.deferring) || s.flow.in_flight() >= s.flow.cwnd;
    if sent > 0 || limited {
        validate(s, limited);
    }
    if sent > 0 {
        if s.flow.reducing() {
            s.rec.prr_out += sent;
        }
        timer::probe(s, false, sack);
    } else if s.flow.out == 0 && s.timer.is_none() && s.flow.next < s.end() {
        // The receiver's window is shut, or a queue of this host took nothing.
        let shut = s.flow.next + u64::from(s.flow.mss).min(s.end() - s.flow.next) > s.window_end();
        if shut || s.writer.gate == Gate::Used {
            let ticks = s.rto();
            timer::set(s, Purpose::Window, ticks);
        }
    }
}

/// Measures the use of the window (RFC 7661). An unused window does not grow; recordings show that
/// it does not shrink.
fn validate(s: &mut Sender, limited: bool) {
    let f = &mut s.flow;
    if f.una >= s.usage_end || limited || (!f.limited && f.out > f.most_out) {
        f.limited = limited;
        f.most_out = f.out;
        s.usage_end = f.next;
    }
}
