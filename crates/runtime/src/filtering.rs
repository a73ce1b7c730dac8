//! Filters on a direction's packets: at the hook that they come in by, at the one that they leave by, and at qdiscs.

use txweir_core::classify::action::State;
use txweir_core::classify::packet::{FrameBytes, Outlet, Packet, PortId, Undone, Way};
use txweir_core::classify::{
    action::Run,
    filter::{BlockId, Filters, Verdict},
};
use txweir_core::packet::headers::Headers;
use txweir_core::packet::route::Routed;
use txweir_core::path::port::Choice;
use txweir_core::path::select::Sender;
use txweir_core::{Instant, TxPath};
use txweir_tc::tool::HookCounts;

use crate::arrival::Arrival;
use crate::direction::Direction;
use crate::frame::Frame;

/// What a direction asks of each packet, and with what.
pub struct Asking<'a> {
    /// The filters and actions.
    pub filters: &'a Filters,
    /// What they count; made to fit the filters (`Filters::fit`).
    pub state: &'a mut State,
    /// Where actions send copies.
    pub outlet: &'a mut dyn Outlet,
    /// The port that the packet came in by, and the block of its hook; `None` if it is sent from here.
    pub from: Option<(PortId, Option<BlockId>)>,
    /// The port that it leaves by, and the block of its hook.
    pub to: (PortId, Option<BlockId>),
    /// Transmit queues of that port.
    pub queues: u32,
    /// Redirections behind it.
    pub depth: u8,
    /// What the two hooks have counted of it, to be added to what their devices have: of what came in, of what is sent.
    pub counted: [HookCounts; 2],
}

/// Whether packets are counted where these filters are asked.
fn counts(filters: &Filters, block: BlockId) -> bool {
    // Chains are in the order of their numbers.
    let first = filters.block(block).and_then(|block| block.chains.first());
    first.is_some_and(|chain| chain.index == 0 && !chain.tables.is_empty())
}

impl std::fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

impl FrameBytes for Frame {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
    /// As far as its buffer has room. What is left to be done on the frame is done that much further back.
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let done = self.widen(at, bytes);
        if let (true, Ok(len)) = (done && at <= usize::from(self.hdr.csum_start), u16::try_from(bytes.len()))
        {
            self.hdr.csum_start = self.hdr.csum_start.saturating_add(len);
        }
        done
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let done = self.narrow(at, len);
        if let (true, Ok(len)) = (done && at < usize::from(self.hdr.csum_start), u16::try_from(len)) {
            self.hdr.csum_start = self.hdr.csum_start.saturating_sub(len);
        }
        done
    }
    fn undone(&self) -> Undone {
        Undone(self.hdr.encode())
    }
    fn checksum_left(&self) -> Option<usize> {
        self.hdr.needs_csum.then_some(usize::from(self.hdr.csum_start))
    }
}

impl Direction {
    /// Asks the filters about a frame that is to be admitted, which they may change; what is to be admitted. A frame that they
    /// drop before it is queued, or that an action takes, is counted and is none.
    pub fn classify(
        &mut self,
        now: Instant,
        mut arrival: Arrival,
        asking: &mut Asking<'_>,
    ) -> Option<Arrival> {
        let marks = self.prio_synack();
        let Arrival { frame, meta, route, queue_chosen } = &mut arrival;
        let headers = Headers::parse_ethernet(frame.bytes());
        let mut packet = Packet::new(frame, meta, headers);
        packet.depth = asking.depth;
        packet.marks = marks;
        let mut run = Run {
            actions: &asking.filters.actions,
            state: &mut *asking.state,
            outlet: &mut *asking.outlet,
            now,
            queues: asking.queues,
        };
        let hooks = [
            asking.from.map(|(port, block)| (port, block, Way::Ingress)),
            Some((asking.to.0, asking.to.1, Way::Egress)),
        ];
        for (port, block, way) in hooks.into_iter().flatten() {
            packet = packet.at(port, way);
            // A queue of the port that it came in by says nothing of those that it may leave by.
            packet.queue_chosen = false;
            packet.iif = asking.from.map_or(PortId::NONE, |(port, _)| port);
            let Some(block) = block else { continue };
            let counted = &mut asking.counted[usize::from(way == Way::Egress)];
            let counts = counts(asking.filters, block);
            if counts {
                counted.seen.packets += u64::from(packet.meta.segs);
                counted.seen.bytes += u64::from(match way {
                    // A frame comes in whole, and its link header has been read by then.
                    Way::Ingress => packet.meta.len.saturating_sub(u32::from(packet.headers.link_len)),
                    Way::Egress => packet.meta.wire_len,
                });
            }
            match asking.filters.classify(block, &mut packet, &mut run) {
                Verdict::Unmatched => {}
                Verdict::Class(class) => packet.meta.class = class,
                Verdict::Drop => {
                    counted.drops += u64::from(counts);
                    self.hook_dropped(arrival);
                    return None;
                }
                Verdict::Stolen => {
                    self.taken(arrival);
                    return None;
                }
            }
        }
        // Ahead of the qdiscs, whose filters may know better: multiq goes by what they say.
        let chosen = match packet.queue_chosen {
            true => Choice::Queue(packet.meta.queue),
            false => Choice::By(&Sender::default(), None),
        };
        let queue = self.choose_for(packet.meta, chosen, now);
        *queue_chosen = true;
        let tree = self.port().path(queue).map(TxPath::tree);
        if let Some(tree) = tree.filter(|tree| tree.has_filters()) {
            match tree.route(asking.filters, &mut packet, &mut run) {
                Routed::Go(said) => *route = said,
                Routed::Stolen => {
                    self.taken(arrival);
                    return None;
                }
            }
            if self.port().is_split() {
                // It is on that queue's path, whatever filters there say.
                packet.meta.queue = queue;
            } else if packet.meta.queue != queue {
                let asked = Choice::Queue(packet.meta.queue);
                self.choose_for(packet.meta, asked, now);
            }
        }
        Some(arrival)
    }
}
