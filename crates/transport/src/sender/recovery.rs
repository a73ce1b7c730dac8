//! A sender's reaction to loss and marks: its states, the reduction of the window (RFC 6937bis),
//! and the return from a reduction that proves needless (RFC 3522, 5682, 2883).

use crate::config::Detection;
use crate::flow::{Ack, CaState, Event};
use crate::rare::{Blank, Maybe};
use crate::sender::Sender;
use crate::sender::dupthresh;
use crate::sender::rack::{self, REORDERING};
use crate::sender::sack::Told;
use crate::sender::timer::{self, Purpose};
use crate::sender::units::Marks;

/// State of a recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// First number not acknowledged at the start of a reduction that may be undone.
    pub(crate) undo_marker: Option<u64>,
    /// Segments sent again since then and not reported as duplicates; `None` if this is unknown.
    pub(crate) undo_left: Option<u32>,
    /// The threshold to restore; 0 if there is none.
    prior_ssthresh: u32,
    /// Segments delivered since the reduction began.
    prr_delivered: u32,
    /// Segments sent since the reduction began.
    pub(crate) prr_out: u32,
    /// True if it is not yet known whether the last timeout was needless.
    pub(crate) frto: bool,
    /// The time stamp of the first retransmission that is not yet acknowledged.
    pub(crate) again_stamp: Option<u32>,
    /// True if new data goes before retransmissions, until the next acknowledgement (RFC 5682 step
    /// 2b).
    pub(crate) new_first: bool,
    /// Least number that may be lost and not sent again.
    pub(crate) lost_from: u64,
    /// Number below which `Detection::DupThresh` has judged every unit.
    pub(crate) judged: u64,
    /// The blocks of the last acknowledgement that had blocks.
    pub(crate) known_sacks: [(u64, u64); 4],
}

impl Blank for Recovery {
    fn blank() -> &'static Self {
        const NONE: Recovery = Recovery {
            undo_marker: None,
            undo_left: None,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            frto: false,
            again_stamp: None,
            new_first: false,
            lost_from: 0,
            judged: 0,
            known_sacks: [(0, 0); 4],
        };
        &NONE
    }
}

/// Handles the losses that an acknowledgement shows. Only `dubious` acknowledgements come here.
pub(crate) fn on_ack(s: &mut Sender, ack: &mut Ack, told: &Told, prior_una: u64, dup: bool) -> Verdict {
    let mut v = Verdict { timer: true, ..Verdict::default() };
    if let Some(rec) = s.rec.made().filter(|_| ack.echo) {
        rec.prior_ssthresh = 0;
    }
    leave(s);
    match s.flow.state {
        CaState::Recovery => {
            if ack.advanced && undo_partial(s, prior_una) {
                return v;
            }
            if undo_by_duplicates(s) {
                try_to_open(s, ack.echo);
            }
            find_lost(s, &mut v);
            if s.flow.state != CaState::Recovery {
                if s.flow.lost == 0 {
                    return v;
                }
                enter_recovery(s, ack.echo);
            }
        }
        CaState::Loss => {
            in_loss(s, ack, told, dup);
            find_lost(s, &mut v);
            if s.flow.state == CaState::Open || v.retransmission_lost {
                recover_or_open(s, ack);
            }
        }
        _ => {
            if s.flow.state <= CaState::Disorder {
                undo_by_duplicates(s);
            }
            find_lost(s, &mut v);
            recover_or_open(s, ack);
        }
    }
    v
}

/// Work that remains after an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// True if the timer may be set anew.
    pub(crate) timer: bool,
    /// True if a retransmission was lost.
    retransmission_lost: bool,
}

fn recover_or_open(s: &mut Sender, ack: &Ack) {
    if s.flow.lost == 0 {
        try_to_open(s, ack.echo);
    } else {
        enter_recovery(s, ack.echo);
    }
}

/// Leaves a state whose last number is acknowledged.
fn leave(s: &mut Sender) {
    if s.flow.state == CaState::Open {
        if let Some(rec) = s.rec.made() {
            rec.again_stamp = None;
        }
        return;
    }
    if s.flow.una < s.flow.high {
        return;
    }
    match s.flow.state {
        // The reduction lasts one number longer, so that it ends with data sent after it.
        CaState::Cwr if s.flow.una != s.flow.high => {
            end_reduction(s);
            set_state(s, CaState::Open);
        }
        CaState::Recovery => {
            undo_recovery(s);
            end_reduction(s);
        }
        _ => {}
    }
}

fn set_state(s: &mut Sender, state: CaState) {
    s.flow.state = state;
    s.cc.entered(&mut s.flow, state);
}

/// Looks for losses by time, and sets the timer for units that may still count as lost.
pub(crate) fn find_lost(s: &mut Sender, v: &mut Verdict) {
    if !s.rack.advanced {
        return;
    }
    if s.flow.config.detection == Detection::DupThresh {
        s.rack.advanced = false;
        return dupthresh::find_lost(s);
    }
    let again = s.flow.again;
    let (wait, lowest) = s.rack.find_lost(&mut s.flow, &mut s.units, &mut *s.cc);
    if let Some(low) = lowest {
        s.rec.lost_from = s.rec.lost_from.min(low);
    }
    if let Some(us) = wait {
        let ticks = s.flow.tick().from_micros(us) + timer::MIN_TICKS;
        timer::set(s, Purpose::Reorder, ticks);
        v.timer = false;
    }
    v.retransmission_lost |= s.flow.again < again;
}

/// Returns to the ordinary state if nothing is lost or reordered.
fn try_to_open(s: &mut Sender, echo: bool) {
    forget_stamp(s);
    if echo {
        enter_cwr(s);
    }
    if s.flow.state != CaState::Cwr {
        keep_open(s);
    }
}

fn keep_open(s: &mut Sender) {
    let left = s.flow.sacked + s.flow.lost > 0 || any_again(s);
    let state = if left { CaState::Disorder } else { CaState::Open };
    if s.flow.state != state {
        set_state(s, state);
        s.flow.high = s.flow.next;
    }
}

/// True if a retransmission is in flight, or the first unit in flight has been sent again.
fn any_again(s: &Sender) -> bool {
    s.flow.again > 0 || s.units.first().is_some_and(|u| u.marks.has(Marks::EVER_AGAIN))
}

/// Forgets the time stamp of the first retransmission if none is left to be answered.
fn forget_stamp(s: &mut Sender) {
    if !any_again(s)
        && let Some(rec) = s.rec.made()
    {
        rec.again_stamp = None;
    }
}

/// Begins to shrink the window to the threshold that congestion control names.
fn begin_reduction(s: &mut Sender) {
    s.flow.high = s.flow.next;
    s.tlp_end = Maybe::NONE;
    s.flow.growth = 0;
    s.flow.prior_cwnd = s.flow.cwnd;
    (s.rec.prr_delivered, s.rec.prr_out) = (0, 0);
    s.flow.ssthresh = threshold(s);
    if s.flow.config.detection == Detection::DupThresh {
        s.flow.cwnd = s.flow.ssthresh;
    }
    s.ecn.reduced();
}

/// Returns the threshold of a reduction.
fn threshold(s: &mut Sender) -> u32 {
    match s.flow.config.detection {
        Detection::RackTlp => s.cc.threshold(&mut s.flow),
        Detection::DupThresh => dupthresh::threshold(s),
    }
}

/// Shrinks the window for marks, once per round trip.
pub(crate) fn enter_cwr(s: &mut Sender) {
    s.counters.reduced_by_marks += u64::from(s.flow.state < CaState::Cwr);
    enter_local(s);
}

/// Shrinks the window as for marks, as a queue on this host has dropped a packet.
pub(crate) fn enter_local(s: &mut Sender) {
    s.rec.prior_ssthresh = 0;
    if s.flow.state < CaState::Cwr {
        s.rec.undo_marker = None;
        begin_reduction(s);
        set_state(s, CaState::Cwr);
    }
}

fn enter_recovery(s: &mut Sender, echo: bool) {
    s.counters.recoveries += 1;
    forget_stamp(s);
    s.rec.prior_ssthresh = 0;
    begin_undo(s);
    if !s.flow.reducing() {
        if !echo {
            s.rec.prior_ssthresh = s.flow.current_ssthresh();
        }
        begin_reduction(s);
    } else if s.cc.owns_window() {
        // A window that was reduced at once for marks has not come down by steps: the steps begin
        // here.
        s.flow.prior_cwnd = s.flow.cwnd;
        (s.rec.prr_delivered, s.rec.prr_out) = (0, 0);
    }
    set_state(s, CaState::Recovery);
}

/// Reduces the window at once, as a loss probe has repaired a loss.
pub(crate) fn probe_repaired(s: &mut Sender) {
    begin_reduction(s);
    set_state(s, CaState::Cwr);
    end_reduction(s);
    keep_open(s);
}

/// Handles units that turned out lost while no acknowledgement came.
pub(crate) fn late_losses(s: &mut Sender) {
    enter_recovery(s, false);
    if !s.cc.owns_window() {
        reduce(s, &Ack { delivered: 1, ..Ack::default() });
    }
}

fn begin_undo(s: &mut Sender) {
    s.rec.undo_marker = Some(s.flow.una);
    // A loss probe in flight counts as well: its duplicate does not answer a retransmission.
    let probe = u32::from(s.tlp_end.is_some() && s.tlp_again);
    s.rec.undo_left = Some(s.flow.again + probe).filter(|n| *n > 0);
}

/// Makes one step of the proportional reduction.
pub(crate) fn reduce(s: &mut Sender, ack: &Ack) {
    let f = &mut s.flow;
    // RFC 6675 has halved the window at once.
    if ack.delivered == 0 || f.prior_cwnd == 0 || f.config.detection == Detection::DupThresh {
        return;
    }
    s.rec.prr_delivered += ack.delivered;
    let (pipe, out) = (f.in_flight(), s.rec.prr_out);
    let mut more = if pipe > f.ssthresh {
        let share = u64::from(f.ssthresh) * u64::from(s.rec.prr_delivered) + u64::from(f.prior_cwnd) - 1;
        (share / u64::from(f.prior_cwnd)).saturating_sub(u64::from(out)) as u32
    } else {
        let mut n = s.rec.prr_delivered.saturating_sub(out).max(ack.delivered);
        // Nothing more was lost and the window moved: slow start (RFC 6937bis, "safeACK").
        if ack.advanced && ack.lost == 0 {
            n += 1;
        }
        n.min(f.ssthresh - pipe)
    };
    if out == 0 {
        more = more.max(1);
    }
    f.cwnd = pipe + more;
}

pub(crate) fn end_reduction(s: &mut Sender) {
    if s.cc.owns_window() {
        return;
    }
    let by_steps = s.flow.config.detection == Detection::RackTlp;
    if by_steps && s.flow.ssthresh < u32::MAX && (s.flow.state == CaState::Cwr || s.rec.undo_marker.is_some())
    {
        s.flow.cwnd = s.flow.ssthresh;
    }
    s.cc.event(&mut s.flow, Event::ReductionDone);
}

/// Handles a timeout: all units that are not recent are lost.
pub(crate) fn enter_loss(s: &mut Sender) {
    let new = s.flow.state < CaState::Recovery;
    let by_time = s.flow.config.detection == Detection::RackTlp;
    for i in 0..s.units.len() {
        let recent = by_time && i > 0 && s.units.get(i).is_some_and(|u| s.rack.recent(&s.flow, u));
        if let (false, Some(u)) = (recent, s.units.get_mut(i)) {
            rack::lose(&mut s.flow, u, &mut *s.cc);
        }
    }
    s.rec.lost_from = s.flow.una;
    let again = s.flow.state == CaState::Loss && s.retransmits == 0;
    if s.flow.state <= CaState::Disorder || s.flow.high <= s.flow.una || again {
        s.rec.prior_ssthresh = s.flow.current_ssthresh();
        s.flow.prior_cwnd = s.flow.cwnd;
        s.flow.ssthresh = threshold(s);
        s.cc.event(&mut s.flow, Event::Timeout);
        begin_undo(s);
    }
    s.flow.cwnd = s.flow.in_flight() + 1;
    s.flow.growth = 0;
    if s.flow.state <= CaState::Disorder && s.flow.sacked >= REORDERING {
        s.rack.reordering = s.rack.reordering.min(REORDERING);
    }
    set_state(s, CaState::Loss);
    s.flow.high = s.flow.next;
    s.tlp_end = Maybe::NONE;
    s.ecn.reduced();
    s.rec.frto = by_time && (new || s.retransmits > 0);
    s.rec.new_first = false;
}

/// Handles an acknowledgement after a timeout.
fn in_loss(s: &mut Sender, ack: &Ack, told: &Told, dup: bool) {
    let recovered = s.flow.una >= s.flow.high;
    if ack.advanced && undo_loss(s, false) {
        return;
    }
    if s.rec.frto {
        // Units that were sent once have arrived: the timeout was needless (RFC 5682 step 3b).
        if told.originals && undo_loss(s, true) {
            return;
        }
        if s.flow.next > s.flow.high {
            if told.new || dup {
                s.rec.frto = false;
            }
        } else if ack.advanced && !recovered {
            s.flow.high = s.flow.next;
            if s.can_send_new() {
                s.rec.new_first = true;
                return;
            }
            s.rec.frto = false;
        }
    }
    if recovered {
        undo_recovery(s);
    }
}

/// True if a reduction may be undone: duplicates or time stamps show that the original of each
/// retransmission had arrived before.
fn may_undo(s: &Sender) -> bool {
    s.rec.undo_marker.is_some() && (s.rec.undo_left == Some(0) || delayed(s))
}

/// True if the acknowledgement answers a segment that was sent before the first retransmission (RFC
/// 3522), or if nothing has been sent again yet.
fn delayed(s: &Sender) -> bool {
    match (s.rec.again_stamp, s.echo) {
        (Some(at), Some(echo)) => (echo.wrapping_sub(at) as i32) < 0,
        (Some(_), None) => false,
        (None, _) => s.flow.config.sack || s.flow.una < s.flow.high,
    }
}

fn undo(s: &mut Sender, unmark: bool) {
    if unmark {
        for i in 0..s.units.len() {
            if let Some(u) = s.units.get_mut(i) {
                u.marks.clear(Marks::LOST);
            }
        }
        s.flow.lost = 0;
        s.rec.judged = s.flow.una;
    }
    if s.rec.prior_ssthresh > 0 {
        s.flow.cwnd = s.cc.undone(&mut s.flow);
        if s.rec.prior_ssthresh > s.flow.ssthresh {
            s.flow.ssthresh = s.rec.prior_ssthresh;
            s.ecn.withdraw();
        }
    }
    s.rec.undo_marker = None;
    s.rack.advanced = true;
    s.counters.undone += 1;
}

/// Ends a recovery, as all data is acknowledged that was sent when it began.
fn undo_recovery(s: &mut Sender) {
    if may_undo(s) {
        undo(s, false);
    } else if s.rack.persist > 0 {
        s.rack.persist -= 1;
    }
    set_state(s, CaState::Open);
}

fn undo_by_duplicates(s: &mut Sender) -> bool {
    if s.rec.undo_marker.is_none() || s.rec.undo_left != Some(0) {
        return false;
    }
    s.rack.persist = (s.rack.persist + 1).min(16);
    undo(s, false);
    true
}

fn undo_loss(s: &mut Sender, frto: bool) -> bool {
    if !frto && !may_undo(s) {
        return false;
    }
    undo(s, true);
    if frto {
        s.counters.spurious_timeouts += 1;
    }
    s.retransmits = 0;
    set_state(s, CaState::Open);
    true
}

fn undo_partial(s: &mut Sender, prior_una: u64) -> bool {
    if s.rec.undo_marker.is_none() || !delayed(s) {
        return false;
    }
    // A late packet, and no retransmission, filled the hole: packets are reordered.
    s.rack.reordered(&s.flow, prior_una, s.fack.max(prior_una + 1));
    if s.flow.again > 0 {
        return true;
    }
    forget_stamp(s);
    undo(s, true);
    keep_open(s);
    false
}
