//! mirred: a packet goes to another port, as a copy or for good (tc-mirred(8)). The copy is the outlet's
//! ([`Outlet::send`](crate::classify::packet::Outlet::send)): what the frame is now, and what is known of it.
//!
//! What cannot be sent is counted (`overlimits`): a packet that was to be redirected is dropped then, one that was to be
//! mirrored goes on. A packet has `REDIRECTIONS_MAX` redirections behind it at most, and a port that has sent it to itself
//! once does not do so again: no loop of ports is for ever.
//!
//! Differs from Linux (PARITY.md: mirred-loop).

use alloc::string::String;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::{Packet, PortId, Way};

/// Redirections of one packet, at most: the fourth is refused, as by the reference.
pub const REDIRECTIONS_MAX: u8 = 3;

/// Parameters of mirred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirred {
    /// The port.
    pub to: PortId,
    /// What its owner calls it.
    pub name: String,
    /// Whether it is to send the packet, or to receive it.
    pub way: Way,
    /// The packet itself goes, and not a copy.
    pub redirect: bool,
}

impl Mirred {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        let again = packet.depth > 0 && self.to == packet.port && self.way == packet.way;
        let sent = packet.depth < REDIRECTIONS_MAX
            && !again
            && run.outlet.send(self.to, self.way, &*packet.frame, packet.meta, packet.depth + 1);
        if sent {
            return control;
        }
        mine.overlimits += 1;
        match self.redirect {
            true => Control::Drop,
            false => control,
        }
    }
}
