//! Packets that wait in a tree of qdiscs, and the qdisc that each waits in.

use txweir_core::sched::cx::Cx;
use txweir_core::{Handle, Meta, Tree};

/// A waiting packet, and its place: the class above, and the qdisc.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) parent: Handle,
    pub(crate) handle: Handle,
    pub(crate) kind: &'static str,
    pub(crate) meta: Meta,
}

/// Puts packets into a tree; returns the place of each, `None` if there was no room.
pub(crate) fn enqueue(tree: &mut Tree, cx: &mut Cx, metas: &[Meta]) -> Vec<Option<Queued>> {
    let leaves = |tree: &Tree| {
        let mut all = Vec::new();
        tree.visit(&mut |place, node| {
            if node.qdisc().spec().classes.is_none() && node.qdisc().classes().is_empty() {
                let kind = node.qdisc().spec().kind;
                all.push((place.parent, node.handle(), kind, node.books().queued.packets));
            }
        });
        all
    };
    let mut places = Vec::with_capacity(metas.len());
    let mut before = leaves(tree);
    for meta in metas {
        let now = cx.now;
        if let Some(p) = cx.pool.alloc(*meta, now) {
            tree.root_mut().enqueue(p, cx);
        }
        let after = leaves(tree);
        let grown = before.iter().zip(&after).find(|(b, a)| a.3 > b.3).map(|(_, a)| *a);
        places.push(grown.map(|(parent, handle, kind, _)| Queued { parent, handle, kind, meta: *meta }));
        before = after;
    }
    places
}
