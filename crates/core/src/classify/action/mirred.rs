//! mirred: sends a packet to another port, as a copy or for good (tc-mirred(8)). The outlet gets
//! the frame and the metadata as they are now
//! ([`Outlet::send`](crate::classify::packet::Outlet::send), or `Outlet::redirect`).
//!
//! A packet that cannot be sent is counted (`overlimits`). It is dropped if it was to be
//! redirected; if it was to be mirrored, it goes on. A packet makes at most `REDIRECTIONS_MAX`
//! redirections, and a port to which a redirection has led does not send it to itself again: no
//! loop of ports is endless.
//!
//! Differs from Linux (PARITY.md: mirred-loop).

use alloc::string::String;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::{Packet, PortId, Way};

/// Largest number of redirections of one packet: the fourth is refused, as by the reference.
pub const REDIRECTIONS_MAX: u8 = 3;

/// Parameters of mirred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirred {
    /// The target port.
    pub to: PortId,
    /// The owner's name for it.
    pub name: String,
    /// Direction in which the target port handles the packet: it sends or receives it.
    pub way: Way,
    /// True if the packet itself is sent, and not a copy.
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
        let Packet { frame, meta, depth, .. } = packet;
        let mut send = || match self.redirect {
            true => run.outlet.redirect(self.to, self.way, &**frame, meta, *depth + 1),
            false => run.outlet.send(self.to, self.way, &**frame, meta, *depth + 1),
        };
        if *depth < REDIRECTIONS_MAX && !again && send() {
            return control;
        }
        mine.overlimits += 1;
        match self.redirect {
            true => Control::Drop,
            false => control,
        }
    }
}
