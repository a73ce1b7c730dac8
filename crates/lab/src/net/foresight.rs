//! Connection ends that will act soon: their state is asked from memory while others act.
//!
//! The packets on a link, the senders that wait for room, the packets in a device and the heap of
//! timers tell which ends come next. The state of an end lies in its own memory, in parts to which
//! that points, and in lists to which the parts point. An end is therefore asked for in three
//! stages, each at the turn of an end before it. All of this changes the time that a run takes, and
//! nothing else.

use std::collections::VecDeque;

use txweir_transport::ahead;

use super::ends::End;
use super::{Links, QUICS};
use crate::engine::Engine;
use crate::event::NetEvent;

/// Least number of ends for which this is done. The ends of a smaller net, at 1 to 2 KB each, stay
/// in a cache of half a megabyte by themselves.
const ENDS_MIN: usize = 256;
/// Number of stages.
const STAGES: usize = 3;
/// Number of pushes between two stages of an end whose packet the device has got: the device gets
/// packets in bursts of about this many, and keeps more than two bursts.
const APART: usize = 4;

/// A stage of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its own memory.
    Own,
    /// Its parts.
    Parts,
    /// The lists of its parts.
    Lists,
}

/// The stages, in the order of the turns until the end acts.
const NEAREST_FIRST: [Stage; STAGES] = [Stage::Lists, Stage::Parts, Stage::Own];

/// The ends that will be told that the device has sent what they gave it, the newest first.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    pushed: VecDeque<u32>,
}

fn ask(ends: &[End], (end, stage): (u32, Stage)) {
    let Some(end) = ends.get(end as usize) else { return };
    match stage {
        Stage::Own => ahead(end),
        Stage::Parts => end.conn.parts_ahead(),
        Stage::Lists => end.conn.units_ahead(),
    }
}

/// Returns the TCP ends that come next, with the stage that each is asked for at this turn.
/// `coming` returns the end before which so many others come.
fn due(mut coming: impl FnMut(usize) -> Option<u32>) -> impl Iterator<Item = (u32, Stage)> {
    let next = (0..STAGES).map(move |n| coming(n).map(|end| (end, NEAREST_FIRST[n])));
    next.flatten().filter(|(end, _)| *end < QUICS)
}

/// Asks for the ends that the next packets on a NIC's link are for.
pub(super) fn arrivals(ends: &[End], links: &Links, nic: u32) {
    if ends.len() < ENDS_MIN {
        return;
    }
    let link = links.nic(nic).link();
    if let Some(frame) = link.coming(STAGES) {
        ahead(frame);
    }
    due(|n| link.coming(n).map(|frame| frame.to)).for_each(|due| ask(ends, due));
}

/// Asks for the ends that wait for room in a NIC's path.
pub(super) fn waiting(ends: &[End], links: &mut Links, nic: u32, path: usize) {
    if ends.len() < ENDS_MIN {
        return;
    }
    let waiting = links.nic_mut(nic).waiting();
    due(|n| waiting.coming(path, n)).for_each(|due| ask(ends, due));
}

/// Asks for the ends whose timers come next, while the event of a timer is handled. The order of
/// these timers is not known, and so they have one stage.
pub(super) fn timers(ends: &[End], engine: &Engine<NetEvent>) {
    if ends.len() < ENDS_MIN {
        return;
    }
    engine.timers_coming().for_each(|end| ask(ends, (end, Stage::Own)));
}

impl Foresight {
    /// Asks for an end that will be told of a unit that the device has got.
    pub(super) fn pushed(&mut self, ends: &[End], end: u32) {
        if ends.len() < ENDS_MIN {
            return;
        }
        self.note(end).for_each(|due| ask(ends, due));
    }

    /// Notes such an end, and returns those that are to be asked for.
    fn note(&mut self, end: u32) -> impl Iterator<Item = (u32, Stage)> {
        self.pushed.truncate(APART * (STAGES - 1));
        self.pushed.push_front(end);
        due(|n| self.pushed.get(APART * (STAGES - 1 - n)).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stages of an end, in the order in which it was asked for.
    const ORDER: [Stage; STAGES] = [Stage::Own, Stage::Parts, Stage::Lists];

    #[test]
    fn each_end_is_asked_for_in_three_stages_before_its_turn() {
        let queue: Vec<u32> = (100..120).collect();
        let mut asked = vec![Vec::new(); 120];
        for turn in 0..queue.len() {
            if turn >= STAGES {
                assert_eq!(asked[queue[turn] as usize], ORDER, "before turn {turn}");
            }
            due(|n| queue.get(turn + 1 + n).copied())
                .for_each(|(end, stage)| asked[end as usize].push(stage));
        }
    }

    #[test]
    fn ends_of_other_kinds_are_left_out() {
        let queue = [3, QUICS + 1, super::super::REPLAY];
        let asked: Vec<_> = due(|n| queue.get(n).copied()).collect();
        assert_eq!(asked, [(3, Stage::Lists)]);
    }

    #[test]
    fn an_end_is_asked_for_with_each_fourth_push_behind_its_own() {
        let (mut foresight, mut asked) = (Foresight::default(), vec![Vec::new(); 40]);
        for push in 0..40 {
            for (end, stage) in foresight.note(push) {
                asked[end as usize].push((push - end, stage));
            }
            assert!(foresight.pushed.len() <= 9);
        }
        let stages = ORDER.iter().enumerate().map(|(i, stage)| (4 * i as u32, *stage));
        assert_eq!(asked[20], stages.collect::<Vec<_>>());
    }
}
