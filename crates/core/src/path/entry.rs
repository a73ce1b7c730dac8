//! `Entry`: the decisions on a packet before it is queued, in one order for every owner of packets.
//!
//! 1. The filters at the ingress hook of the port that the packet came in by, if it came in.
//! 2. The filters at the egress hook of the port that it leaves by.
//! 3. The transmit queue: the one that an action has chosen, else the one that the port selects.
//! 4. The filters at the qdiscs on its way in that queue ([`Tree::route`]).
//!
//! Actions may change the packet, take it, or send copies of it at each of these places. The owner
//! of the bytes reads the headers once, and again only where an action has rewritten them:
//! [`Packet::headers`] always agrees with the bytes, but for a protocol that an action has written
//! over in the link header: filters go on by the one that the packet came with. A step without
//! filters is skipped: without any filters a packet costs the choice of its queue.
//!
//! A class that the filters of the egress hook name is one of the root qdisc, if it has that class
//! (PARITY.md: hook-class). At the ingress hook a class has no effect.
//!
//! [`Port::pass`](crate::path::port::Port::pass) applies an entry to a port. An owner that holds
//! its queues in another form implements [`Ways`].

use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::classify::action::{Run, State};
use crate::classify::filter::{Block, BlockId, Filters, Verdict};
use crate::classify::packet::{Outlet, Packet, PortId, Way};
use crate::packet::meta::Meta;
use crate::packet::route::{Route, Routed};
use crate::path::tree::Tree;

/// Packets seen and dropped at the hooks of a device, as Linux counts them: only where the hook has
/// filters in chain 0, and both hooks of clsact together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookCounts {
    /// Packets and bytes. Bytes of received packets exclude the link header and the outermost tag.
    /// Bytes of sent packets include all headers of all segments.
    pub seen: Tally,
    /// Packets that filters have dropped.
    pub drops: u64,
}

impl HookCounts {
    /// Adds the counts of another hook.
    pub const fn add(&mut self, more: Self) {
        self.seen = self.seen.plus(more.seen);
        self.drops += more.drops;
    }
}

/// A port, and the filters at its hook for one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooked {
    /// Number by which actions know the port.
    pub port: PortId,
    /// The filters at its hook, if it has any.
    pub block: Option<BlockId>,
}

/// State with which a packet is classified.
pub struct Entry<'a> {
    /// The filters and actions.
    pub filters: &'a Filters,
    /// Counters of the filters and actions, sized to the filters (`Filters::fit`).
    pub state: &'a mut State,
    /// Receiver of the copies that actions send.
    pub outlet: &'a mut dyn Outlet,
    /// The time.
    pub now: Instant,
    /// The port that the packet came in by, with its ingress hook; `None` if it is sent from here.
    pub from: Option<Hooked>,
    /// The port that the packet leaves by, with its egress hook; `None` if only its arrival is
    /// classified.
    pub to: Option<Hooked>,
    /// Number of transmit queues of the port that it leaves by.
    pub queues: u32,
    /// Counts of the hooks of `from` and `to`. The owner adds them to the counts of its devices.
    pub counted: [HookCounts; 2],
}

impl core::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Entry").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}

/// The queues that a packet can go to.
pub trait Ways {
    /// Chooses the queue, and notes it in the metadata; `asked` is the queue that an action has
    /// chosen.
    fn choose(&mut self, meta: &mut Meta, asked: Option<u16>) -> u16;
    /// Returns the qdiscs whose filters classify a packet for this queue, if there are any.
    fn tree(&self, queue: u16) -> Option<&Tree>;
}

/// Fate of a packet before it is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The packet goes to this queue, with the results of the filters at the qdiscs.
    Queue(u16, Route),
    /// The filters of a hook dropped the packet.
    Dropped,
    /// An action took the packet, or sent it elsewhere.
    Stolen,
}

/// Verdict of the hooks on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// The packet goes on.
    Go,
    /// Filters dropped the packet.
    Dropped,
    /// An action took the packet, or sent it elsewhere.
    Stolen,
}

impl<'a> Entry<'a> {
    /// Returns an entry that uses these filters, without a hook on either side.
    pub fn new(filters: &'a Filters, state: &'a mut State, outlet: &'a mut dyn Outlet, now: Instant) -> Self {
        let counted = [HookCounts::default(); 2];
        Self { filters, state, outlet, now, from: None, to: None, queues: 1, counted }
    }

    /// Runs the hooks, chooses a queue, and runs the filters at the qdiscs on the way there.
    #[inline]
    pub fn pass(&mut self, packet: &mut Packet<'_>, ways: &mut impl Ways) -> Passed {
        match self.ask_hooks(packet) {
            HookVerdict::Go => {}
            HookVerdict::Dropped => return Passed::Dropped,
            HookVerdict::Stolen => return Passed::Stolen,
        }
        let asked = packet.queue_chosen.then_some(packet.meta.queue);
        let queue = ways.choose(packet.meta, asked);
        match ways.tree(queue).filter(|tree| tree.has_filters()) {
            None => Passed::Queue(queue, Route::default()),
            Some(tree) => match tree.route(self.filters, packet, &mut self.run()) {
                Routed::Go(route) => Passed::Queue(queue, route),
                Routed::Stolen => Passed::Stolen,
            },
        }
    }

    /// Runs the filters of the hooks alone.
    pub fn ask_hooks(&mut self, packet: &mut Packet<'_>) -> HookVerdict {
        let hooks = [(self.from, Way::Ingress), (self.to, Way::Egress)];
        for (side, (hooked, way)) in hooks.into_iter().enumerate() {
            let Some(Hooked { port, block }) = hooked else { continue };
            (packet.port, packet.way) = (port, way);
            // A queue of the arrival port says nothing about the queues of the departure port.
            packet.queue_chosen = false;
            packet.iif = self.from.map_or(PortId::NONE, |from| from.port);
            let Some(block) = block else { continue };
            let counts = counts(self.filters, block);
            if counts {
                let seen = &mut self.counted[side].seen;
                seen.packets += u64::from(packet.meta.segs);
                seen.bytes += u64::from(packet.charged());
            }
            match self.filters.classify(block, packet, &mut self.run()) {
                Verdict::Class(class) if way == Way::Egress => packet.meta.class = class,
                Verdict::Unmatched | Verdict::Class(_) => {}
                Verdict::Drop => {
                    self.counted[side].drops += u64::from(counts);
                    return HookVerdict::Dropped;
                }
                Verdict::Stolen => return HookVerdict::Stolen,
            }
        }
        HookVerdict::Go
    }

    fn run(&mut self) -> Run<'_> {
        Run {
            actions: &self.filters.actions,
            state: self.state,
            outlet: self.outlet,
            now: self.now,
            queues: self.queues,
        }
    }
}

/// True if packets that this block classifies are counted.
fn counts(filters: &Filters, block: BlockId) -> bool {
    let first = filters.block(block).and_then(Block::first_chain);
    first.is_some_and(|chain| !chain.tables.is_empty())
}
