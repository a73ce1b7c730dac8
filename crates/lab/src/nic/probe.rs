//! A probe in a transmit side: where each packet's time went, and what each qdisc did.

use std::collections::VecDeque;

use txweir_core::model::wire::Departure;
use txweir_core::path::tree::Place;
use txweir_core::sched::node::Node;
use txweir_core::{
    DropReason, Handle, Instant, MarkReason, Nanos, Tally, Tree,
    sched::{cx::Cx, node::Books},
};

use super::Gauge;
use crate::dist::Dist;
use crate::frame::Frame;

/// In trees of more qdiscs than this, backlogs are looked at every [`SAMPLE`] instead of at every change: the walk
/// would cost more than the run.
const EXACT_NODES: usize = 64;
const SAMPLE: Nanos = Nanos::from_micros(500);

/// Where a packet's time goes in a transmit side, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    /// From the sender to its queue: held back at admission.
    Classifier,
    /// In the qdiscs.
    Qdisc,
    /// With the device: behind what is in its ring, and on the line until the last bit.
    Ring,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::Classifier, Self::Qdisc, Self::Ring];
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classifier => "classifier",
            Self::Qdisc => "qdisc",
            Self::Ring => "ring",
        }
    }
}

/// What one qdisc has done.
#[derive(Clone, Debug)]
pub struct NodeProbe {
    /// The class that it hangs below; `Handle::ROOT` for the root.
    pub parent: Handle,
    /// Its handle; `NONE` for a default qdisc.
    pub handle: Handle,
    /// Its kind.
    pub kind: &'static str,
    /// Qdiscs above it.
    pub depth: usize,
    /// It has no classes.
    pub leaf: bool,
    /// Packets that it dropped itself, not one below it, by [`DropReason`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets marked in it, by [`MarkReason`]; counted at leaves.
    pub marks: [u64; MarkReason::COUNT],
    /// Bytes in it, all below included.
    pub backlog: Gauge,
    /// Its books as last seen.
    pub books: Books,
    /// Its books, drops and marks when measuring began.
    before: (Books, [u64; DropReason::COUNT], [u64; MarkReason::COUNT]),
}

impl NodeProbe {
    fn new(place: Place, node: &Node, now: Instant) -> Self {
        let mut backlog = Gauge::default();
        backlog.restart(now);
        Self {
            parent: place.parent,
            handle: node.handle(),
            kind: node.qdisc().spec().kind,
            depth: place.depth,
            leaf: node.qdisc().classes().is_empty(),
            drops: [0; DropReason::COUNT],
            marks: [0; MarkReason::COUNT],
            backlog,
            books: node.books(),
            before: Default::default(),
        }
    }
    /// Packets and bytes that left it since measuring began.
    pub fn sent(&self) -> Tally {
        self.books.sent.since(self.before.0.sent)
    }
    /// Packets offered to it since measuring began.
    pub fn admitted(&self) -> Tally {
        self.books.admitted.since(self.before.0.admitted)
    }
    /// Packets that it dropped itself since measuring began, by reason.
    pub fn dropped(&self) -> [u64; DropReason::COUNT] {
        std::array::from_fn(|i| self.drops[i] - self.before.1[i])
    }
    /// Packets marked in it since measuring began, by reason.
    pub fn marked(&self) -> [u64; MarkReason::COUNT] {
        std::array::from_fn(|i| self.marks[i] - self.before.2[i])
    }
}

/// The probe of one transmit side.
#[derive(Debug)]
pub struct Probe {
    /// The time of the present call.
    pub(super) now: Instant,
    /// When each packet in the ring was pushed: they leave in order.
    in_ring: VecDeque<Instant>,
    stages: [Dist; 3],
    /// What the present call dropped.
    discards: VecDeque<DropReason>,
    /// Drops of packets that no qdisc saw.
    unseen: u64,
    nodes: Vec<NodeProbe>,
    marks_seen: [u64; MarkReason::COUNT],
    /// Packets may be marked: then each call is looked at, to know in which leaf.
    marking: bool,
    /// Books were brought up to date and backlogs not.
    stale: bool,
    walked_at: Instant,
}

impl Probe {
    /// A probe of a tree that is not changed any more. `marking`: some packets take marks.
    pub fn new(tree: &Tree, now: Instant, marking: bool) -> Self {
        let mut nodes = Vec::new();
        tree.visit(&mut |place, node| nodes.push(NodeProbe::new(place, node, now)));
        let (discards, in_ring) = (VecDeque::new(), VecDeque::new());
        let (stages, marks_seen) = (Default::default(), Default::default());
        Self {
            now,
            in_ring,
            stages,
            discards,
            unseen: 0,
            nodes,
            marks_seen,
            marking,
            stale: false,
            walked_at: now,
        }
    }

    /// Where the time of the packets went that left the wire since measuring began: one distribution per [`Stage`].
    pub const fn stages(&self) -> &[Dist; 3] {
        &self.stages
    }
    /// The qdiscs, parents first.
    pub fn nodes(&self) -> &[NodeProbe] {
        &self.nodes
    }
    /// Packets dropped since the start before any qdisc saw them.
    pub const fn unseen(&self) -> u64 {
        self.unseen
    }

    pub(super) fn pushed(&mut self) {
        self.in_ring.push_back(self.now);
    }
    pub(super) fn discarded(&mut self, reason: DropReason) {
        self.discards.push_back(reason);
    }
    pub(super) fn departed(&mut self, d: &Departure<Frame>) {
        let Some(pushed) = self.in_ring.pop_front() else { return };
        let admitted = d.meta.enqueued;
        self.stages[Stage::Classifier as usize].add(admitted.saturating_since(d.frame.sent));
        self.stages[Stage::Qdisc as usize].add(pushed.saturating_since(admitted));
        self.stages[Stage::Ring as usize].add(d.finish.saturating_since(pushed));
    }

    /// After a call into the transmit path: whose were the drops and marks?
    #[inline]
    pub(super) fn settle(&mut self, tree: &Tree, cx: &Cx) {
        if !self.discards.is_empty() || self.marking {
            self.attribute(tree, cx);
        }
    }

    #[cold]
    fn attribute(&mut self, tree: &Tree, cx: &Cx) {
        let Self { nodes, discards, marks_seen, unseen, stale, .. } = self;
        *stale = true;
        // What each node dropped since it was last looked at, those below it included.
        let mut dropped: Vec<u64> = Vec::with_capacity(nodes.len());
        let mut busy = None;
        let mut i = 0;
        tree.visit(&mut |_, node| {
            let Some(seen) = nodes.get_mut(i) else { return };
            let books = node.books();
            dropped.push(books.dropped.packets - seen.books.dropped.packets);
            let moved = (books.sent, books.admitted) != (seen.books.sent, seen.books.admitted);
            if seen.leaf && moved {
                busy = Some(i);
            }
            seen.books = books;
            i += 1;
        });
        for n in (0..dropped.len()).filter(|n| dropped[*n] > 0) {
            let below: u64 = (n + 1..dropped.len())
                .take_while(|c| nodes[*c].depth > nodes[n].depth)
                .filter(|c| nodes[*c].depth == nodes[n].depth + 1)
                .map(|c| dropped[c])
                .sum();
            for _ in below..dropped[n] {
                // One call drops in one qdisc, for one reason; where it drops in several, in the order of the tree.
                let Some(reason) = discards.pop_front() else { break };
                nodes[n].drops[reason as usize] += 1;
            }
        }
        *unseen += discards.len() as u64;
        discards.clear();
        // A packet that was marked and is still held belongs to the leaf that will let it go.
        let Some(node) = busy.and_then(|leaf| nodes.get_mut(leaf)) else { return };
        for (reason, seen) in MarkReason::ALL.iter().zip(marks_seen.iter_mut()) {
            let marks = cx.marks(*reason);
            node.marks[*reason as usize] += marks - *seen;
            *seen = marks;
        }
    }

    /// At the end of everything that happens at one instant: how much waits where.
    pub(super) fn look(&mut self, now: Instant, tree: &Tree) {
        let due = self.nodes.len() <= EXACT_NODES || now >= self.walked_at + SAMPLE;
        let (Some(root), true) = (self.nodes.first(), due) else { return };
        let books = tree.root().books();
        if self.stale || (root.books.queued, root.books.admitted) != (books.queued, books.admitted) {
            self.walk(now, tree);
        }
    }

    /// Looks at every node.
    pub(super) fn walk(&mut self, now: Instant, tree: &Tree) {
        (self.walked_at, self.stale) = (now, false);
        let mut nodes = self.nodes.iter_mut();
        tree.visit(&mut |_, node| {
            if let Some(seen) = nodes.next() {
                seen.books = node.books();
                seen.backlog.set(now, seen.books.queued.bytes);
            }
        });
    }

    /// Starts measuring.
    pub(super) fn restart(&mut self, now: Instant, tree: &Tree) {
        self.walk(now, tree);
        self.stages.iter_mut().for_each(Dist::reset);
        for n in &mut self.nodes {
            n.before = (n.books, n.drops, n.marks);
            n.backlog.restart(now);
        }
    }
}
