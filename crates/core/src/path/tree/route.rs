//! `Tree::route`: runs the filters on a packet's way: see [`crate::packet::route`].

use crate::base::handle::Handle;
use crate::classify::action::Run;
use crate::classify::filter::{Filters, Verdict};
use crate::classify::packet::Packet;
use crate::packet::route::DEPTH_MAX;
use crate::packet::route::{Found, Route, Routed, Said};
use crate::path::tree::Tree;
use crate::sched::node::Node;

impl Tree {
    /// Runs the filters on a packet's way, which may change the packet.
    pub fn route(&self, filters: &Filters, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Routed {
        let mut route = Route::default();
        let mut node = self.root();
        for depth in 0..DEPTH_MAX {
            let Some(said) = ask(self, node, filters, packet, run) else { return Routed::Stolen };
            route.set(depth, node.handle().major(), said);
            let class = match said {
                Said::Drop => break,
                Said::Class(class) => Some(class),
                Said::Nothing => node.named_class(packet.meta),
            };
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
) -> Option<Said> {
    let own = node.handle();
    if !node.is_filtered() {
        return Some(Said::Nothing);
    }
    let named = Handle(packet.meta.priority);
    let mut at = own;
    if named.major() == own.major() && own.major() != 0 {
        match node.qdisc().found(Some(named), own) {
            Found::Inner(class) => at = class,
            // The qdisc reads the priority itself.
            Found::Said(_) => return Some(Said::Nothing),
        }
    }
    for _ in 0..DEPTH_MAX {
        let verdict = tree.block(at).map_or(Verdict::Unmatched, |block| filters.classify(block, packet, run));
        let class = match verdict {
            Verdict::Drop => return Some(Said::Drop),
            Verdict::Stolen => return None,
            Verdict::Class(class) => Some(class),
            Verdict::Unmatched => None,
        };
        match node.qdisc().found(class, own) {
            Found::Said(said) => return Some(said),
            Found::Inner(class) => at = class,
        }
    }
    Some(Said::Nothing)
}
