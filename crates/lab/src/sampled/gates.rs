//! A schedule of gates beside what was sent by it: one cycle, for a picture.

use txweir_core::law::gates::{Cycle, Gates};
use txweir_core::{Instant, Nanos};

use super::results::{GateTrial, GatesTrial, Opening};
use crate::nic::Timetable;

/// Returns the last whole cycle before `now`, or the first one if none is over; `None` before a
/// schedule runs.
pub(super) fn gates(gates: &Gates, timetable: &Timetable, now: Instant) -> Option<GatesTrial> {
    let (cycle, running) = (gates.cycle()?, gates.running()?);
    let begin = shown(&cycle, running.start(), now);
    let end = begin + cycle.length;
    let classes = timetable.classes().ranges().iter().enumerate();
    let gate = |(class, range): (usize, &txweir_core::sched::traffic::Range)| {
        let longest_bytes = timetable.longest(class);
        let frames = timetable.frames().filter(|f| f.class == class && f.finish > begin && f.start < end);
        GateTrial {
            class,
            queues: format!("{}@{}", range.count, range.offset),
            longest_bytes,
            openings: openings(&cycle, class, Nanos(gates.byte().ns_of(longest_bytes))),
            frames_ns: frames
                .map(|f| [f.start.max(begin), f.finish.min(end)].map(|t| t.saturating_since(begin).0))
                .collect(),
        }
    };
    Some(GatesTrial {
        begin_ns: begin.0,
        cycle_ns: cycle.length.0,
        whole: timetable.since() <= begin,
        classes: classes.map(gate).collect(),
    })
}

/// Returns the begin of the cycle that is shown.
fn shown(cycle: &Cycle<'_>, start: Instant, now: Instant) -> Instant {
    let length = cycle.length.0.max(1);
    let over = now.saturating_since(cycle.begin).0 / length;
    let before = cycle.begin.0.saturating_sub(length);
    match over.checked_sub(1) {
        Some(more) => Instant(cycle.begin.0 + more * length),
        None if before >= start.0 => Instant(before),
        None => cycle.begin,
    }
}

/// Returns the openings of a class's gate. `guard` is the time of its longest frame, which leaves
/// no later than that before the gate closes.
fn openings(cycle: &Cycle<'_>, class: usize, guard: Nanos) -> Vec<Opening> {
    let mut all: Vec<Opening> = Vec::new();
    for (from, entry) in cycle.entries().filter(|(_, entry)| entry.open & (1 << class) != 0) {
        let to_ns = from.0 + u64::from(entry.ns);
        match all.last_mut().filter(|last| last.to_ns == from.0) {
            Some(last) => last.to_ns = to_ns,
            None => all.push(Opening { from_ns: from.0, to_ns, guard_ns: 0 }),
        }
    }
    let always = matches!(all[..], [Opening { from_ns: 0, to_ns, .. }] if to_ns == cycle.length.0);
    if always {
        return all;
    }
    for opening in &mut all {
        opening.guard_ns = guard.0.min(opening.to_ns - opening.from_ns);
    }
    // The gate stays open from a cycle to the next, and the guard may begin before that.
    if let [first, .., last] = &mut all[..]
        && first.from_ns == 0
        && last.to_ns == cycle.length.0
    {
        last.guard_ns = (guard.0 - first.guard_ns).min(last.to_ns - last.from_ns);
    }
    all
}
