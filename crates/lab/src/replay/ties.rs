//! Ties of a trace: packets that arrived in the instant in which a timer was due.
//!
//! The sender reads the clock for each packet, and a timer may fire between two of them, up to two
//! grains late. The trace then does not say which came first. This module looks for an order with
//! which the replay is equal: it lets one more packet after the other wait for its timer, as long
//! as each moves the first difference towards the end.

use super::TOLERANCE_NS;
use super::compare::{self, Aspect};
use super::play::{Manner, NEAR_NS, Played, SEND_NS, play};
use super::trace::{Departure, Trace};

/// Largest number of ties in one trace.
const TIES_MAX: usize = 16;
/// Ties that are tried for one difference: those right before it. A difference in a full queue
/// shows as many departures later as packets wait.
const TRIED_MAX: usize = 48;

/// Returns the number of ties with which the replay is equal.
pub(super) fn resolve(trace: &Trace, key: u64) -> Option<usize> {
    let mut manner = Manner { key, ..Manner::default() };
    let mut played = play(trace, &manner);
    if let Some(late) = equal_but_in_bursts(trace, &played) {
        return (late > 0).then_some(late);
    }
    for found in 1..=TIES_MAX {
        let from = first_difference(trace, &played);
        let before = trace.departures.get(from).map_or(i64::MAX, |d| d.at);
        let near = |packet: &&usize| trace.arrivals[**packet].at <= before;
        let last = played.tied.iter().filter(near).rev().take(TRIED_MAX);
        let tried: Vec<usize> = last.copied().filter(|packet| !manner.late.contains(packet)).collect();
        let mut further: Option<(usize, Manner, Played)> = None;
        for packet in tried {
            let mut other = manner.clone();
            other.late.insert(packet);
            let run = play(trace, &other);
            if let Some(late) = equal_but_in_bursts(trace, &run) {
                return Some(found + late);
            }
            let to = first_difference(trace, &run);
            if to > further.as_ref().map_or(from, |(to, ..)| *to) {
                further = Some((to, other, run));
            }
        }
        (_, manner, played) = further?;
    }
    None
}

/// Returns the number of departures with another time, if nothing else differs and each is within a
/// burst; `None` if anything else differs.
fn equal_but_in_bursts(trace: &Trace, played: &Played) -> Option<usize> {
    let wrong = compare::compare(trace, played).into_iter().filter(|d| d.meant.is_none());
    if wrong.into_iter().any(|d| d.aspect != Aspect::Time) {
        return None;
    }
    let off =
        |(there, here): &(&Departure, &Departure)| there.at.abs_diff(here.at) > TOLERANCE_NS.unsigned_abs();
    let late: Vec<_> = trace.departures.iter().zip(&played.departures).filter(off).collect();
    let sent =
        |(there, here): &(&Departure, &Departure)| in_burst(trace, there.at) && in_burst(trace, here.at);
    late.iter().all(sent).then_some(late.len())
}

/// True if several packets of one instant were being sent at this time.
fn in_burst(trace: &Trace, at: i64) -> bool {
    let until = trace.arrivals.partition_point(|a| a.at <= at);
    let Some(first) = until.checked_sub(1).map(|last| trace.arrivals[last].at) else { return false };
    let many = trace.arrivals[..until].iter().rev().take_while(|a| a.at == first).count();
    many > 1 && at <= first + SEND_NS * i64::try_from(many).unwrap_or(i64::MAX) + NEAR_NS
}

/// Returns the first departure that differs in its packet or length; their number if only other
/// things differ.
fn first_difference(trace: &Trace, played: &Played) -> usize {
    let of = |d: &Departure| (d.packet, d.len);
    let pairs = trace.departures.iter().zip(&played.departures);
    pairs.take_while(|(there, here)| of(there) == of(here)).count()
}
