//! skbedit: sets metadata of a packet: priority, mark, transmit queue, type (tc-skbedit(8)).

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::packet::headers::L3;

/// Addressee of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// This host.
    Host = 0,
    /// All hosts.
    Broadcast = 1,
    /// A group.
    Multicast = 2,
    /// Another host.
    OtherHost = 3,
}

/// Parameters of skbedit: `None` leaves the metadata as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skbedit {
    /// Priority.
    pub priority: Option<u32>,
    /// True if the priority comes from the six high bits of the DS field; this takes precedence
    /// over `priority`.
    pub inherit_dsfield: bool,
    /// Transmit queue, 0-based; a queue that the device does not have is ignored.
    pub queue_mapping: Option<u16>,
    /// Last queue of a range that begins with `queue_mapping`, from which the flow hash chooses.
    pub queue_mapping_max: Option<u16>,
    /// Mark, and the bits of it that are set.
    pub mark: Option<(u32, u32)>,
    /// Addressee.
    pub packet_type: Option<PacketType>,
}

impl Skbedit {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        _: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        if let Some(priority) = self.priority {
            packet.meta.priority = priority;
        }
        if self.inherit_dsfield && matches!(packet.headers.l3, L3::Ipv4 | L3::Ipv6) {
            packet.meta.priority = u32::from(packet.headers.ds >> 2);
        }
        if let Some(first) = self.queue_mapping {
            let queue = match self.queue_mapping_max {
                Some(last) if last > first => {
                    // The sum is at most `last`, which is below 65 536.
                    first + (packet.meta.hash % (u32::from(last - first) + 1)) as u16
                }
                _ => first,
            };
            if u32::from(queue) < run.queues {
                packet.meta.queue = queue;
                packet.queue_chosen = true;
            }
        }
        if let Some((value, mask)) = self.mark {
            packet.meta.mark = packet.meta.mark & !mask | value & mask;
        }
        control
    }
}
