//! A probe in a transmit side: where each packet's time went, and what each qdisc did.

use std::collections::VecDeque;

use txweir_core::model::wire::Departure;
use txweir_core::path::port::Port;
use txweir_core::path::tree::Place;
use txweir_core::sched::node::{Books, Node};
use txweir_core::{Handle, Instant, Nanos, Reasons, Tally, TxPath};

use super::Gauge;
use super::timetable::Timetable;
use crate::dist::Stepped;
use crate::frame::Frame;

/// With more qdiscs than this, backlogs are looked at every [`SAMPLE`] instead of at every change:
/// the walk would cost more than the run.
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

/// The work of one qdisc.
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
    /// Packets that it dropped and marked itself, not one below it, by reason; as last asked.
    pub own: Reasons,
    /// Bytes in it, all below included.
    pub backlog: Gauge,
    /// Its parts without qdiscs (the tins of cake), as last asked.
    pub parts: Vec<PartProbe>,
    /// Its books as last seen.
    pub books: Books,
    /// Its books, and what it had dropped and marked itself, when measuring began.
    before: (Books, Reasons),
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
            own: Reasons::default(),
            parts: Vec::new(),
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
    /// Packets that it dropped and marked itself since measuring began, by reason.
    pub fn reasons(&self) -> Reasons {
        self.own.since(&self.before.1)
    }
}

/// Counters of a part of a qdisc, since the start; zero if the kind does not count such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartProbe {
    /// Its name.
    pub name: &'static str,
    /// Bytes that came into it.
    pub arrived_bytes: u64,
    /// Packets that came into it.
    pub arrived_packets: u64,
    /// Bytes in it.
    pub backlog_bytes: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Packets that it marked.
    pub marks: u64,
    /// Slow mean of the delay of its packets, microseconds.
    pub delay_us: u64,
}

/// Returns the counters of the parts of a qdisc.
fn parts(node: &Node) -> Vec<PartProbe> {
    let qdisc = node.qdisc();
    if qdisc.spec().parts.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<PartProbe> = Vec::new();
    qdisc.parts(&mut |name, counter, n| {
        if all.last().is_none_or(|part| part.name != name) {
            all.push(PartProbe { name, ..PartProbe::default() });
        }
        let Some(part) = all.last_mut() else { return };
        match counter.key {
            "sent_bytes" => part.arrived_bytes = n,
            "sent_packets" => part.arrived_packets = n,
            "backlog_bytes" => part.backlog_bytes = n,
            "drops" => part.drops = n,
            "ecn_mark" => part.marks = n,
            "avg_delay_us" => part.delay_us = n,
            _ => {}
        }
    });
    all
}

/// The probe of one transmit side.
#[derive(Debug)]
pub struct Probe {
    /// The time of the present call.
    pub(super) now: Instant,
    /// Of each ring, when each packet in it was pushed: they leave a ring in order.
    in_rings: Vec<VecDeque<Instant>>,
    stages: [Stepped; 3],
    nodes: Vec<NodeProbe>,
    walked_at: Instant,
    timetable: Option<Timetable>,
    /// While nodes are asked: the one at hand and those above it, by their numbers.
    above: Vec<usize>,
}

impl Probe {
    /// A probe of a port whose qdiscs are not changed any more.
    pub fn new(port: &Port<Frame>, now: Instant) -> Self {
        let mut nodes = Vec::new();
        port.trees().visit(&mut |place, node| nodes.push(NodeProbe::new(place, node, now)));
        let in_rings = (0..port.queues()).map(|_| VecDeque::new()).collect();
        let timetable = Timetable::of(port);
        Self {
            now,
            in_rings,
            stages: Default::default(),
            nodes,
            walked_at: now,
            timetable,
            above: Vec::new(),
        }
    }

    /// Where the time of the packets went that left the wire since measuring began: one
    /// distribution per [`Stage`].
    pub const fn stages(&self) -> &[Stepped; 3] {
        &self.stages
    }
    /// The qdiscs, parents first.
    pub fn nodes(&self) -> &[NodeProbe] {
        &self.nodes
    }

    /// The frames that left it of late, if its root has gates.
    pub(crate) const fn timetable(&self) -> Option<&Timetable> {
        self.timetable.as_ref()
    }

    /// Begins a step.
    pub(crate) fn next_step(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.step.reset());
    }

    pub(super) fn pushed(&mut self, ring: u16) {
        if let Some(in_ring) = self.in_rings.get_mut(usize::from(ring)) {
            in_ring.push_back(self.now);
        }
    }
    pub(super) fn departed(&mut self, d: &Departure<Frame>) {
        if let Some(timetable) = &mut self.timetable {
            timetable.departed(d);
        }
        let in_ring = self.in_rings.get_mut(usize::from(d.ring));
        let Some(pushed) = in_ring.and_then(VecDeque::pop_front) else { return };
        let admitted = d.meta.enqueued;
        self.stages[Stage::Classifier as usize].add(admitted.saturating_since(d.frame.sent));
        self.stages[Stage::Qdisc as usize].add(pushed.saturating_since(admitted));
        self.stages[Stage::Ring as usize].add(d.finish.saturating_since(pushed));
    }

    /// At the end of everything that happens at one instant: how much waits where.
    pub(super) fn look(&mut self, now: Instant, port: &Port<Frame>) {
        let due = self.nodes.len() <= EXACT_NODES || now >= self.walked_at + SAMPLE;
        let (Some(root), true) = (self.nodes.first(), due) else { return };
        let books = port.totals().books();
        if (root.books.queued, root.books.admitted) != (books.queued, books.admitted) {
            self.walk(now, port);
        }
    }

    /// Looks at what waits in every node.
    fn walk(&mut self, now: Instant, port: &Port<Frame>) {
        self.walked_at = now;
        let mut nodes = self.nodes.iter_mut();
        let mut saw = |books: Books| {
            if let Some(seen) = nodes.next() {
                seen.books = books;
                seen.backlog.set(now, books.queued.bytes);
            }
        };
        // In the order of `Trees::visit`, which allocates.
        if port.is_split() {
            saw(port.totals().books());
        }
        for tree in port.paths().iter().map(TxPath::tree) {
            tree.visit(&mut |_, node| saw(node.books()));
        }
    }

    /// Looks at every node, and asks for its reasons.
    pub(super) fn ask(&mut self, now: Instant, port: &Port<Frame>) {
        self.walk(now, port);
        let Self { nodes, above, .. } = self;
        above.clear();
        let mut i = 0;
        port.trees().visit(&mut |place, node| {
            // The root of a port counts nothing where it stands for those of its queues.
            let of_all = place.parent == Handle::ROOT && port.is_split();
            let reasons = if of_all { port.totals().reasons() } else { *node.account().reasons() };
            above.truncate(place.depth);
            // The counts of a node include those of the nodes below it.
            if let Some(parent) = above.last().and_then(|parent: &usize| nodes.get_mut(*parent)) {
                parent.own = parent.own.since(&reasons);
            }
            if let Some(seen) = nodes.get_mut(i) {
                seen.own = reasons;
                seen.parts = parts(node);
            }
            above.push(i);
            i += 1;
        });
    }

    /// Starts measuring.
    pub(super) fn restart(&mut self, now: Instant, port: &Port<Frame>) {
        self.ask(now, port);
        self.stages.iter_mut().for_each(|stage| stage.whole.reset());
        for n in &mut self.nodes {
            n.before = (n.books, n.own);
            n.backlog.restart(now);
        }
    }
}
