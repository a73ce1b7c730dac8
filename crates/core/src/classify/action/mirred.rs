//! mirred: sends a packet to another port, as a copy or for good (tc-mirred(8)). The outlet gets
//! the frame and the metadata as they are now
//! ([`Outlet::send`](crate::classify::packet::Outlet::send), or `Outlet::redirect`).
//!
//! The target is one port, or every port that has a shared block of filters but the packet's own
//! (`blockid`). Of several ports the last gets the packet itself if it is to be redirected, and the
//! others get copies.
//!
//! A packet that cannot be sent is counted (`overlimits`). It is dropped if it was to be
//! redirected; if it was to be mirrored, it goes on. A block without ports is counted, too, and
//! drops nothing: the control decides. A packet makes at most `REDIRECTIONS_MAX` redirections, and
//! a port to which a redirection has led does not send it to itself again: no loop of ports is
//! endless.
//!
//! Differs from Linux (PARITY.md: mirred-loop, mirred-protocol).

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::{Packet, PortId, Way};

/// Largest number of redirections of one packet: the fourth is refused, as by the reference.
pub const REDIRECTIONS_MAX: u8 = 3;

/// Parameters of mirred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirred {
    /// Where packets are sent to.
    pub to: Target,
    /// Direction in which the target port handles the packet: it sends or receives it.
    pub way: Way,
    /// True if the packet itself is sent, and not a copy.
    pub redirect: bool,
}

/// Target of mirred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One port.
    Port {
        /// Its number.
        port: PortId,
        /// The owner's name for it.
        name: String,
    },
    /// The ports that share the filters of a block, by its number: all but that of the packet.
    Block(u32),
}

/// The ports that share each block, by its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPorts(BTreeMap<u32, BTreeMap<PortId, u32>>);

impl BlockPorts {
    /// Notes a place of a port that shares the block.
    pub(crate) fn join(&mut self, number: u32, port: PortId) {
        *self.0.entry(number).or_default().entry(port).or_default() += 1;
    }
    /// Takes back one `join`.
    pub(crate) fn leave(&mut self, number: u32, port: PortId) {
        let Some(ports) = self.0.get_mut(&number) else { return };
        if let Some(places) = ports.get_mut(&port) {
            *places -= 1;
            if *places == 0 {
                ports.remove(&port);
            }
        }
        if ports.is_empty() {
            self.0.remove(&number);
        }
    }
    /// Returns the ports of a block, in the order of their numbers; `None` if no port has it.
    fn of(&self, number: u32) -> Option<impl Iterator<Item = PortId>> {
        self.0.get(&number).map(|ports| ports.keys().copied())
    }
}

impl Mirred {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        match &self.to {
            Target::Port { port, .. } => {
                let again = packet.depth > 0 && *port == packet.port && self.way == packet.way;
                if !again && self.send(*port, self.redirect, packet, run) {
                    return control;
                }
                mine.overlimits += 1;
                if self.redirect { Control::Drop } else { control }
            }
            Target::Block(number) => {
                let Some(ports) = run.actions.block_ports().of(*number) else {
                    mine.overlimits += 1;
                    return control;
                };
                let own = packet.port;
                let mut ports = ports.filter(|port| *port != own).peekable();
                // Bound: the ports, one turn each.
                while let Some(port) = ports.next() {
                    let itself = self.redirect && ports.peek().is_none();
                    if !self.send(port, itself, packet, run) {
                        mine.overlimits += 1;
                        if itself {
                            return Control::Drop;
                        }
                    }
                }
                control
            }
        }
    }

    /// Sends a packet to a port, itself or a copy. False if it cannot be sent.
    fn send(&self, to: PortId, itself: bool, packet: &Packet<'_>, run: &mut Run<'_>) -> bool {
        let Packet { frame, meta, depth, .. } = packet;
        *depth < REDIRECTIONS_MAX
            && match itself {
                true => run.outlet.redirect(to, self.way, &**frame, meta, *depth + 1),
                false => run.outlet.send(to, self.way, &**frame, meta, *depth + 1),
            }
    }
}
