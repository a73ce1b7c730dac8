//! `Tree::route`: runs the filters on a packet's way: see [`crate::packet::route`].

use crate::base::handle::{ClassId, Handle};
use crate::classify::action::Run;
use crate::classify::filter::{Filters, Verdict};
use crate::classify::packet::Packet;
use crate::packet::route::DEPTH_MAX;
use crate::packet::route::{Classified, FilterOutcome, Route, Routed};
use crate::path::qdiscs::stands_for_queues;
use crate::path::tree::Tree;
use crate::sched::node::Node;

impl Tree {
    /// Returns the qdisc that packets of a transmit queue meet first: the root, and in the likeness
    /// of a port with a tree for each queue (`of_port`) that in the queue's class. No packet meets
    /// the root of such a port.
    fn met_first(&self, queue: u16) -> &Node {
        let root = self.root();
        let split = self.of_port && stands_for_queues(root.qdisc().spec().kind);
        let class = || root.qdisc().classes().get(usize::from(queue));
        split.then(class).flatten().map_or(root, |class| &class.node)
    }

    /// Runs the filters on a packet's way, which may change the packet.
    pub fn route(&self, filters: &Filters, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Routed {
        let mut route = Route::default();
        let mut node = self.met_first(packet.meta.queue);
        // The class chosen ahead of the queue, as the metadata will have it at the node.
        let mut ahead = packet.meta.class;
        for depth in 0..DEPTH_MAX {
            let Some(outcome) = ask(self, node, filters, packet, run) else { return Routed::Stolen };
            route.set(depth, node.handle().major(), outcome);
            let class = match outcome {
                FilterOutcome::Drop => break,
                FilterOutcome::Class(class) => Some(class),
                FilterOutcome::Nothing => node.account().choice().unfiltered(packet.meta, ahead),
            };
            if node.account().is_filtered() {
                // As the packet is queued here, the outcome takes the place of that class.
                ahead = ClassId::NONE;
            }
            match node.select(packet.meta, class) {
                Some(below) => node = &below.node,
                None => break,
            }
        }
        Routed::Go(route)
    }
}

/// Returns the result of the filters of one qdisc; `None` if the packet is gone.
fn ask(
    tree: &Tree,
    node: &Node,
    filters: &Filters,
    packet: &mut Packet<'_>,
    run: &mut Run<'_>,
) -> Option<FilterOutcome> {
    let own = node.handle();
    if !node.account().is_filtered() {
        return Some(FilterOutcome::Nothing);
    }
    let named = Handle(packet.meta.priority);
    let mut at = own;
    if named.major() == own.major() && own.major() != 0 {
        match node.qdisc().classify_result(Some(named), None, own) {
            Classified::Inner(class) => at = class,
            // The qdisc reads the priority itself.
            Classified::Final(_) => return Some(FilterOutcome::Nothing),
        }
    }
    for _ in 0..DEPTH_MAX {
        let verdict = tree.block(at).map_or(Verdict::Unmatched, |block| filters.classify(block, packet, run));
        let class = match verdict {
            Verdict::Drop => return Some(FilterOutcome::Drop),
            Verdict::Stolen => return None,
            Verdict::Class(class) => Some(class),
            Verdict::Unmatched => None,
        };
        match node.qdisc().classify_result(class, Some(at), own) {
            Classified::Final(outcome) => return Some(outcome),
            Classified::Inner(class) => at = class,
        }
    }
    Some(FilterOutcome::Nothing)
}
