//! gact: does nothing but say what follows; now and then something else, by chance or by count (tc-gact in
//! tc-actions(8)).
//!
//! Differs from Linux in nothing but the generator of its draws, which is seeded here.

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;

/// When something else than the control follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chance {
    /// For one packet of so many, drawn (`netrand`). At least 1.
    Random(u16),
    /// For every so-manieth packet (`determ`). At least 1.
    Every(u16),
}

/// Parameters of gact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gact {
    /// What follows instead, and when.
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
