//! gact: returns a control and changes nothing; sometimes another control, by chance or by count
//! (tc-gact in tc-actions(8)).
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
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        let answer = match self.instead {
            Some((Chance::Random(n), other)) if run.state.rng.below(u64::from(n.max(1))) == 0 => other,
            Some((Chance::Every(n), other)) if mine.packets.is_multiple_of(u64::from(n.max(1))) => other,
            _ => control,
        };
        if answer == Control::Drop {
            mine.drops += u64::from(packet.meta.segs);
        }
        answer
    }
}
