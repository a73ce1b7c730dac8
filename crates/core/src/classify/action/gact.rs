//! gact: returns a control and changes nothing; sometimes another control, by chance or by count
//! (tc-gact in tc-actions(8)).
//!
//! A super-packet is one packet: it counts once, and its drop too. The count goes on where the
//! parameters are replaced.
//!
//! The only difference from Linux is the generator of random draws, which is seeded here.

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;

/// Condition for the other control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// One packet in n, drawn at random (`netrand`). At least 1.
    Random(u16),
    /// Every n-th packet (`determ`). At least 1.
    Every(u16),
}

/// Counts a packet, in the first word. True for every `n`-th.
fn is_turn(mine: &mut Memory, n: u16) -> bool {
    let [count, ..] = &mut mine.words;
    *count = count.wrapping_add(1);
    count.is_multiple_of(u64::from(n.max(1)))
}

/// Parameters of gact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gact {
    /// The other control, and its condition.
    pub instead: Option<(Chance, Control)>,
}

impl Gact {
    pub(super) fn run(
        &self,
        control: Control,
        _: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        let answer = match self.instead {
            Some((Chance::Random(n), other)) if run.state.rng.below(u64::from(n.max(1))) == 0 => other,
            Some((Chance::Every(n), other)) if is_turn(mine, n) => other,
            _ => control,
        };
        if answer == Control::Drop {
            mine.drops += 1;
        }
        answer
    }
}
