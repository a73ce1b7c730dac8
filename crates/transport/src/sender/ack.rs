//! An acknowledgement at the sender: the units that it removes, its round trip, and the reactions
//! to it.

use txweir_core::Instant;

use crate::config::EcnMode;
use crate::flow::{Ack, CaState, Flow, RateSample};
use crate::rare::Maybe;
use crate::segment::{Flags, Segment};
use crate::sender::Sender;
use crate::sender::rack::{REORDERING, Rack};
use crate::sender::rate::Gather;
use crate::sender::recovery;
use crate::sender::sack::{self, Told};
use crate::sender::timer::{self, Purpose};
use crate::sender::units::Marks;

/// Findings from the units that an acknowledgement took off the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Number of segments.
    acked: u32,
    /// True if a unit among them had been sent again.
    again: bool,
    /// The last transmission of the first and of the last unit that were sent once and not
    /// acknowledged selectively.
    sent: Option<(Instant, Instant)>,
    /// True if the last unit was acknowledged to its end.
    whole: bool,
    /// The lowest number that was sent once and not acknowledged selectively.
    low: Option<u64>,
    /// True if some units had been sent only once, and before the present recovery began.
    originals: bool,
}

/// Handles the acknowledgement in a segment. `scale`: number of bits by which the peer shifts its
/// windows.
pub(crate) fn take(s: &mut Sender, seg: &Segment, scale: u8, use_sack: bool) {
    if seg.ack > s.flow.next {
        return;
    }
    let prior_una = s.flow.una;
    let advanced = seg.ack > prior_una;
    if seg.ack < prior_una {
        if use_sack && !seg.sacks.is_empty() {
            late(s, seg);
        }
        return;
    }
    s.echo = echo(seg);
    if let Some(rec) = s.rec.made() {
        rec.new_first = false;
    }
    let (prior_fack, prior_out) = (s.fack.max(prior_una), s.flow.out);
    s.echoing = s.ecn.classic_echo(seg);
    let mut ack = Ack { advanced, echo: s.echoing, prior_in_flight: s.flow.in_flight(), ..Ack::default() };
    if advanced {
        s.retransmits = 0;
    }
    let window_moved = window(s, seg, scale);
    s.flow.una = s.flow.una.max(seg.ack);
    s.fack = s.fack.max(s.flow.una);
    let mut told = Told::new(Gather::new(&s.flow));
    let prior_sacked = s.flow.sacked;
    if use_sack && !seg.sacks.is_empty() {
        sack::take(s, seg, prior_una, &mut told);
    }
    s.window_probes = 0;
    if s.ecn.mode == EcnMode::Accurate {
        let newly = newly_acknowledged(s, &told.gather);
        ack.marked = s.ecn.accurate_echo(seg, newly, s.flow.mss);
        ack.echo = ack.marked > 0;
        s.flow.delivered_ce += u64::from(ack.marked);
    }
    s.cc.heard(&mut s.flow, &ack);
    if prior_out == 0 {
        if told.duplicate {
            recovery::on_ack(s, &mut ack, &told, prior_una, false);
        }
        if s.tlp_end.is_some() {
            probe_answered(s, seg.ack, advanced || window_moved || seg.len > 0, &told);
        }
        reopen(s);
        return;
    }
    let taken = clean(s, prior_una, &mut told.gather);
    told.originals |= taken.originals;
    ack.acked = taken.acked;
    ack.data_acked = taken.acked > 0;
    ack.progress = taken.acked > 0 || told.new;
    // A lone small segment may have waited for the delay timer of the receiver.
    let lone = taken.acked == 1 && taken.whole && prior_sacked == 0;
    if lone && s.flow.una - prior_una < u64::from(s.flow.mss) {
        told.gather.delay_possible();
    }
    ack.rtt_us = round_trip(s, &taken, &told);
    if ack.rtt_us.is_some() && !taken.again && taken.low.is_some_and(|low| low < prior_fack) {
        let low = taken.low.unwrap_or(prior_fack);
        s.rack.reordered(&s.flow, low, prior_fack);
    }
    let (delivered, _) = told.gather.delivered(&s.flow);
    ack.delivered = delivered;
    s.cc.measured(&mut s.flow, &ack);
    s.rack.adapt(&s.flow, told.gather.prior_delivered());
    let duplicate = !(advanced || seg.len > 0 || window_moved || told.new || told.duplicate);
    if s.tlp_end.is_some() {
        probe_answered(s, seg.ack, advanced || window_moved || seg.len > 0, &told);
    }
    let mut set_timer = taken.acked > 0 || sacked_before_head(s, &told);
    let dubious = !(advanced || window_moved || seg.len > 0)
        || told.new
        || ack.echo
        || told.duplicate
        || s.flow.state != CaState::Open;
    if dubious {
        let v = recovery::on_ack(s, &mut ack, &told, prior_una, duplicate);
        set_timer &= v.timer;
    }
    if set_timer {
        timer::after_progress(s, use_sack);
    }
    finish(s, ack, told.gather);
    reopen(s);
}

/// Returns the time stamp that a segment echoes, if it echoes one.
fn echo(seg: &Segment) -> Option<u32> {
    seg.stamps.map(|(_, echo)| echo).filter(|e| *e != 0)
}

/// Handles an acknowledgement that a newer one has overtaken. Its blocks count, and the losses that
/// they show. Its window, its marks and its round trip are old, as in Linux (`old_ack` of
/// `tcp_ack`): a newer acknowledgement has told them.
fn late(s: &mut Sender, seg: &Segment) {
    s.echo = echo(seg);
    s.echoing = false;
    if let Some(rec) = s.rec.made() {
        rec.new_first = false;
    }
    let una = s.flow.una;
    let mut told = Told::new(Gather::new(&s.flow));
    sack::take(s, seg, una, &mut told);
    recovery::on_ack(s, &mut Ack::default(), &told, una, false);
}

/// Returns the number of segments that the acknowledgement at hand acknowledges for the first time,
/// by number or selectively.
fn newly_acknowledged(s: &Sender, gather: &Gather) -> u32 {
    let mut newly = gather.delivered(&s.flow).0;
    let mut i = 0;
    while let Some(u) = s.units.get(i).filter(|u| u.start < s.flow.una) {
        if !u.marks.has(Marks::SACKED) {
            let whole = u.end <= s.flow.una;
            let part = (s.flow.una - u.start) / u64::from(s.flow.mss.max(1));
            // A part of a unit has fewer segments than the unit.
            newly += if whole { u32::from(u.segments) } else { part as u32 };
        }
        i += 1;
    }
    newly
}

/// True if a unit was acknowledged selectively that left before the last transmission of the first
/// unit in flight: the timeout may begin anew. Without this condition a recovery would put the
/// timeout off for as long as it lasts.
fn sacked_before_head(s: &Sender, told: &Told) -> bool {
    matches!((told.sent, s.units.first()), (Some((sent, _)), Some(head)) if sent < head.sent)
}

/// Updates rate, window and pacing at the end of an acknowledgement.
fn finish(s: &mut Sender, mut ack: Ack, gather: Gather) {
    let (delivered, lost) = gather.delivered(&s.flow);
    (ack.delivered, ack.lost) = (delivered, lost);
    let sample: RateSample = s.rate.finish(gather, &mut s.flow);
    if s.cc.owns_window() {
        s.cc.control(&mut s.flow, &ack, &sample);
        return;
    }
    if s.flow.reducing() {
        recovery::reduce(s, &ack);
    } else if if s.rack.reordering > REORDERING { ack.progress } else { ack.data_acked } {
        s.cc.grow(&mut s.flow, ack.delivered);
    }
    pace(&mut s.flow, s.cc.pacing_percent());
}

/// Sets the pacing rate: twice the rate of the window in slow start, so that it can grow; a fifth
/// more otherwise.
pub(crate) fn pace(flow: &mut Flow, percent: Option<(u64, u64)>) {
    if flow.srtt8_us == 0 {
        return;
    }
    let (slow, steady) = percent.unwrap_or((200, 120));
    let slow_start = flow.cwnd < flow.ssthresh / 2;
    flow.pacing_rate = flow.window_rate(if slow_start { slow } else { steady });
}

/// Takes the window that a segment offers if it is newer. True if it was taken.
fn window(s: &mut Sender, seg: &Segment, scale: u8) -> bool {
    let shift = if seg.flags.has(Flags::SYN) { 0 } else { scale.min(14) };
    // The result is at most 2^30: the shift is at most 14 (RFC 7323 section 2.3).
    let bytes = u32::from(seg.window) << shift;
    let newer = seg.ack > s.flow.una
        || seg.seq > s.window_seq
        || (seg.seq == s.window_seq && (bytes > s.window || bytes == 0));
    if newer {
        if bytes != s.window && s.flow.next < s.flow.write {
            s.after_silence();
        }
        (s.window_seq, s.window) = (seg.seq, bytes);
        s.window_max = s.window_max.max(bytes);
    }
    newer
}

/// Stops the probes of a window that has opened.
fn reopen(s: &mut Sender) {
    if s.timer.is_some_and(|t| t.purpose == Purpose::Window) && s.can_send_new() {
        s.timer = None;
        s.backoff = 0;
    }
}

/// Takes the units off the queue that are acknowledged by number.
fn clean(s: &mut Sender, prior_una: u64, gather: &mut Gather) -> Taken {
    let mut t = Taken::default();
    let una = s.flow.una;
    while let Some(&unit) = s.units.first() {
        if unit.start >= una {
            break;
        }
        let mut unit = unit;
        t.whole = unit.end <= una;
        if !t.whole {
            // The segments acknowledged whole are taken off; the rest of the unit stays.
            let mss = u64::from(s.flow.mss.max(1));
            let cut = unit.start + (una - unit.start) / mss * mss;
            if cut <= unit.start {
                break;
            }
            s.units.split(0, cut, s.flow.mss);
            let Some(&front) = s.units.first() else { break };
            unit = front;
        }
        one(s, &mut t, unit, gather);
        s.units.pop_first();
        if !t.whole {
            break;
        }
    }
    if let Some(rec) = s.rec.made().filter(|_| una > prior_una) {
        rec.lost_from = rec.lost_from.max(una);
    }
    t
}

/// Takes account of a unit acknowledged by number.
fn one(s: &mut Sender, t: &mut Taken, mut unit: crate::sender::units::Unit, gather: &mut Gather) {
    let n = u32::from(unit.segments);
    let marks = unit.marks;
    if marks.any(Marks::AGAIN | Marks::EVER_AGAIN) {
        if marks.has(Marks::AGAIN) {
            s.flow.again -= n.min(s.flow.again);
        }
        t.again = true;
    } else if !marks.has(Marks::SACKED) {
        t.sent = Some((t.sent.map_or(unit.sent, |sent| sent.0), unit.sent));
        t.low = Some(t.low.map_or(unit.start, |low| low.min(unit.start)));
        t.originals |= unit.end <= s.flow.high;
    }
    if marks.has(Marks::SACKED) {
        s.flow.sacked -= n.min(s.flow.sacked);
    } else {
        s.flow.delivered += u64::from(n);
        if s.echoing {
            s.flow.delivered_ce += u64::from(n);
        }
        if !Rack::spurious(&s.flow, &unit, s.echo) {
            s.rack.delivered(&s.flow, &unit);
        }
    }
    if marks.has(Marks::LOST) {
        s.flow.lost -= n.min(s.flow.lost);
    }
    s.flow.out -= n.min(s.flow.out);
    t.acked += n;
    s.rate.delivered(gather, &s.flow, &mut unit);
}

/// Returns the round trip that an acknowledgement shows, if it shows one. The sample of congestion
/// control is of the last unit, that of the timeout of the first.
fn round_trip(s: &mut Sender, t: &Taken, told: &Told) -> Option<u32> {
    let now = s.flow.now;
    // The clock counts whole microseconds.
    let since = |at: Instant| (now.0 / 1_000).saturating_sub(at.0 / 1_000).min(u64::from(u32::MAX)) as u32;
    let mut first = t.sent.filter(|_| !t.again).map(|sent| since(sent.0));
    let mut last = t.sent.filter(|_| !t.again).map(|sent| since(sent.1));
    if let Some(sent) = told.sent {
        last = Some(since(sent.1));
        first = first.or(Some(since(sent.0)));
    }
    if first.is_none()
        && t.acked > 0
        && let Some(echo) = s.echo
    {
        // For retransmitted units, time stamps tell which transmission is answered.
        let ms = s.flow.tick().stamp(now).wrapping_sub(echo);
        let us = if ms < 1 << 20 { ms.max(1) * 1_000 } else { return None };
        (first, last) = (Some(us), Some(us));
    }
    let first = first?;
    let last = last.unwrap_or(first);
    // An acknowledgement that may have waited for a timer does not show the path, unless it came
    // sooner than all others.
    if !told.gather.delayed() || last <= s.rtt.min() {
        s.rtt.sample_min(s.flow.now_us(), last);
    }
    s.flow.min_rtt_us = s.rtt.min();
    s.rtt.sample(first, s.flow.una, s.flow.next);
    s.flow.srtt8_us = s.rtt.srtt8;
    s.backoff = 0;
    Some(last)
}

/// Handles an acknowledgement while a loss probe is out (RFC 8985 section 7.4). `news`: it is no
/// duplicate, as it acknowledges more, offers another window, or carries data.
fn probe_answered(s: &mut Sender, ack: u64, news: bool, told: &Told) {
    let Some(end) = s.tlp_end.get().filter(|end| ack >= *end) else { return };
    if !s.tlp_again || told.probe_duplicate {
        s.tlp_end = Maybe::NONE;
    } else if ack > end {
        // The probe repaired a loss: the window must be reduced.
        s.tlp_end = Maybe::NONE;
        recovery::probe_repaired(s);
    } else if !(news || told.new) {
        // Both the original and the probe have arrived.
        s.tlp_end = Maybe::NONE;
    }
}
