//! Ties of a trace: packets that arrived in the instant in which a timer was due.
//!
//! The sender reads the clock for each packet, and a timer may fire between two of them, up to two
//! grains late. The trace then does not say which came first. This module looks for an order with
//! which the replay is equal: it lets one more packet after the other wait for its next timer, or
//! for all that the process may have let pass, or pass a timer that was due up to four grains
//! before the process woke, as long as each moves the first difference towards the end. If that
//! does not help, it sends the packets of one instant some grains apart.

use super::compare::{self, Aspect};
use super::play::{Manner, NEAR_NS, Order, Played, SEND_NS, Tied, play};
use super::trace::{Departure, Trace};
use super::{GRAIN_NS, TOLERANCE_NS};

/// Largest number of ties in one trace: where a packet takes less than a grain of the clock, each
/// packet of a burst is one.
const TIES_MAX: usize = 96;
/// Ties that are tried for one difference: those right before it. A difference in a full queue
/// shows as many departures later as packets wait.
const TRIED_MAX: usize = 48;

/// Largest number of replays for one key.
const PLAYS_MAX: usize = 3000;
/// Grains that the process may have taken for each packet of one instant.
const GRAINS_MAX: i64 = 4;

/// Returns the number of ties with which the replay in this manner is equal.
pub(super) fn resolve(trace: &Trace, manner: &Manner) -> Option<usize> {
    let mut plays = 0;
    (0..=GRAINS_MAX).find_map(|grains| {
        let manner = Manner { spacing: grains * GRAIN_NS, ..manner.clone() };
        // Apart from each other, all packets behind the first of an instant are in another place.
        let apart = if grains > 0 { behind_others(trace) } else { 0 };
        resolve_from(trace, manner, &mut plays).map(|ties| ties + apart).filter(|ties| *ties > 0)
    })
}

/// Returns the number of packets that arrived in the instant of the packet before.
fn behind_others(trace: &Trace) -> usize {
    trace.arrivals.windows(2).filter(|pair| pair[0].at == pair[1].at).count()
}

fn resolve_from(trace: &Trace, mut manner: Manner, plays: &mut usize) -> Option<usize> {
    let mut played = play(trace, &manner);
    if let Some(late) = equal_but_in_bursts(trace, &played) {
        return Some(late);
    }
    for found in 1..=TIES_MAX {
        let from = first_difference(trace, &played);
        let before = trace.departures.get(from.0.min(from.1)).map_or(i64::MAX, |d| d.at);
        let near = |tied: &&Tied| trace.arrivals[tied.packet].at <= before;
        let last = played.tied.iter().filter(near).rev().take(TRIED_MAX);
        let tried: Vec<(usize, Order)> =
            last.flat_map(|tied| tied.orders.map(|order| (tied.packet, order))).collect();
        let mut further: Option<((usize, usize), Manner, Played)> = None;
        for (packet, order) in tried {
            *plays += 1;
            if *plays > PLAYS_MAX {
                return None;
            }
            let mut other = manner.clone();
            other.orders.insert(packet, order);
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

/// Returns the first departure that differs in its packet or length, and the first that differs in
/// its time; their number if none does.
fn first_difference(trace: &Trace, played: &Played) -> (usize, usize) {
    let of = |d: &Departure| (d.packet, d.len);
    let pairs = || trace.departures.iter().zip(&played.departures);
    let order = pairs().take_while(|(there, here)| of(there) == of(here)).count();
    let near =
        |(there, here): &(&Departure, &Departure)| there.at.abs_diff(here.at) <= TOLERANCE_NS.unsigned_abs();
    (order, pairs().take_while(near).count())
}
