//! `Copies`: the copies of a link that the workers of a daemon have. Each worker has all links. Of
//! a link that asks for workers, the first so many have a handle of its interface, and the same
//! qdiscs as the daemon's own thread; each queue is in use by its owner alone. Of any other link a
//! worker has a stub, by which it receives and hands over what goes there.
//!
//! While workers run, each has its copies. Between two of their turns the daemon gathers all copies
//! of a link in one place, changes them alike, and counts them together.

use std::collections::VecDeque;

use txweir_core::classify::filter::BlockId;
use txweir_core::qdisc::cake_mq::splits_a_rate;
use txweir_core::{Handle, Instant};
use txweir_device::{Counters, Endpoint, LinkIo, OpenError};
use txweir_tc::tool::Hook;

use super::Link;
use crate::end::End;
use crate::grammar::LinkType;
use crate::machine::Machine;
use crate::queue_map::QueueMap;

/// The copies of a link, and the properties by which they share its queues.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Workers that have a handle of the interface; 0 for the daemon's own thread.
    pub workers: usize,
    /// The choice of a transmit queue where each has an owner.
    pub map: QueueMap,
    /// A number that spreads ways with one owner over the workers.
    pub turn: usize,
    /// The owner of every way, because of policers; `None` if there are none.
    pub owner: Option<usize>,
    /// Frames of senders that wait that have gone from here to other workers, to leave by the link,
    /// and are not in its qdiscs yet.
    pub under_way: u32,
    /// For each such frame that has arrived here, the worker that it came from, in order: those
    /// that are held, and those whose worker does not know yet that they are not.
    pub claims: VecDeque<usize>,
    /// True for the copy of a worker that has no part of the link.
    pub is_stub: bool,
    /// The copy of each worker, in their order, while they are gathered.
    pub others: Vec<Link>,
}

/// The owners of the transmit queues of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// One worker has the way.
    One(usize),
    /// Each queue has the worker at its place, in turns where there are more queues.
    Queues(Vec<usize>),
}

impl Owners {
    /// Returns the worker that has a queue.
    pub fn of(&self, queue: usize) -> usize {
        match self {
            Self::One(worker) => *worker,
            Self::Queues(workers) => workers[queue % workers.len()],
        }
    }
}

/// Returns the owners of the queues of a link, of which each worker has one of these copies.
pub(crate) fn owners(copies: &[&Link]) -> Owners {
    let first = copies[0];
    let Copies { workers, turn, owner, .. } = &first.copies;
    let holders = holders(copies);
    match (&*holders, owner) {
        // Nothing comes in, and frames that go out are lost, or the link has no interface.
        ([], _) => Owners::One(usize::from(*workers > 0)),
        (holders, Some(owner)) if holders.contains(owner) => Owners::One(*owner),
        _ if is_shared_out(first) && !asks_at_qdiscs_beside_stubs(copies) => Owners::Queues(holders),
        (holders, _) => Owners::One(holders[turn % holders.len()]),
    }
}

/// True if each queue of a link has qdiscs of its own, which need no others in the same place.
fn is_shared_out(link: &Link) -> bool {
    let port = link.way.port();
    port.is_split() && link.way.wire().is_none() && !splits_a_rate(port.trees().root().qdisc())
}

/// True if a worker has a stub of a link whose qdiscs have filters. A stub has no qdiscs, so that
/// frames from there have to meet these filters at one owner of the way.
fn asks_at_qdiscs_beside_stubs(copies: &[&Link]) -> bool {
    let mut paths = copies[0].way.port().paths().iter();
    copies.iter().any(|copy| copy.copies.is_stub) && paths.any(|path| path.tree().has_filters())
}

/// Returns the workers that have a handle of a link, in the order of the handles.
pub(crate) fn holders(copies: &[&Link]) -> Vec<usize> {
    let has = |link: &Link| matches!(link.way.device(), End::Live(_));
    copies.iter().enumerate().filter(|(_, link)| has(link)).map(|(worker, _)| worker).collect()
}

/// Returns the reason for which a link of this type has no workers; `None` if it may have some.
pub(super) fn no_workers(kind: LinkType) -> Option<&'static str> {
    match kind {
        LinkType::Live(_) => None,
        _ => {
            Some("expected a link of type tap, packet, xdp, vhost or vxlan, which has an interface to share")
        }
    }
}

/// Opens the handles of an interface: one for each of so many workers, as far as it has them, or
/// one for the daemon's own thread.
pub(super) fn open(
    machine: &dyn Machine,
    endpoint: &Endpoint,
    workers: usize,
) -> Result<Vec<LinkIo>, OpenError> {
    match workers {
        0 => machine.open(endpoint).map(|io| vec![io]),
        _ => machine.open_queues(endpoint, workers),
    }
}

/// True if the first of these handles may have all frames of the interface.
pub(crate) fn may_have_all(handles: &[LinkIo]) -> bool {
    handles.len() == 1 || handles.first().is_some_and(|first| first.first_may_have_all())
}

/// Returns the ends of a link's copies that have these handles, the daemon's own first: it has the
/// only one, or none if there are workers. A first handle that may have all frames is that of the
/// worker at the link's turn, and the others follow.
pub(super) fn ends(handles: Vec<LinkIo>, workers: usize, turn: usize) -> Vec<End> {
    let first = if may_have_all(&handles) { turn } else { 0 };
    let mut ends: Vec<End> = (workers > 0).then(End::spare).into_iter().collect();
    ends.extend(handles.into_iter().map(End::Live));
    ends.resize_with(workers + 1, End::spare);
    if workers > 0 {
        ends[1..].rotate_right(first % workers);
    }
    ends
}

impl Link {
    /// Iterates over the copies that have its qdiscs, the daemon's own first.
    pub(crate) fn real(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.copies.others.iter().take(self.copies.workers))
    }

    /// Iterates over all copies, stubs included, the daemon's own first.
    pub(crate) fn gathered(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.copies.others)
    }

    /// Calls `f` on each copy that has its qdiscs, the daemon's own first.
    pub(crate) fn each_real(&mut self, f: &mut dyn FnMut(&mut Self)) {
        f(self);
        let workers = self.copies.workers;
        self.copies.others.iter_mut().take(workers).for_each(f);
    }

    /// Returns the owners of its queues, if workers have copies of it.
    pub(crate) fn owners(&self) -> Option<Owners> {
        let copies: Vec<&Self> = self.gathered().collect();
        (copies.len() > 1).then(|| owners(&copies))
    }

    /// Returns the interface, by the first handle.
    pub(crate) fn io(&self) -> Option<&LinkIo> {
        self.gathered().find_map(|link| match link.way.device() {
            End::Live(io) => Some(io),
            _ => None,
        })
    }

    /// Returns the counters of its interface by all handles, those of earlier interfaces of its
    /// name included.
    pub(crate) fn counters_of_all(&mut self) -> Option<Counters> {
        let own = self.counters();
        let others = self.copies.others.iter_mut().filter_map(Self::counters);
        own.into_iter().chain(others).reduce(|sum, more| sum.plus(&more))
    }

    /// Makes this copy a part of the link, after a change of the daemon's own copy: what stands
    /// beside the qdiscs.
    pub(crate) fn follow(&mut self, now: Instant, link: &Self) {
        self.peer.clone_from(&link.peer);
        self.hook = link.hook;
        (self.copies.workers, self.copies.turn) = (link.copies.workers, link.copies.turn);
        self.copies.map.clone_from(&link.copies.map);
        self.way.classifier_mut().set_prio_synack(link.way.classifier().prio_synack());
        if self.copies.is_stub {
            // A frame that comes in here goes to the queue that it would go to elsewhere.
            self.queues = link.queues;
            self.way.choose_as(&link.way);
            let at = [Hook::INGRESS, Hook::EGRESS];
            let blocks = |link: &Self| at.map(|at| link.way.port().block(at));
            let (is, wanted): ([Option<BlockId>; 2], _) = (blocks(self), blocks(link));
            if is != wanted {
                let places: [(Handle, Option<BlockId>); 2] = [(at[0], wanted[0]), (at[1], wanted[1])];
                self.way.control(now).change(|qdiscs| {
                    places.iter().for_each(|(at, block)| qdiscs.set_block(*at, *block));
                });
            }
        }
    }

    /// Marks the interface as not working any more, by all handles.
    pub(crate) fn lost_by_all(&mut self, error: &str) {
        self.lost(&error);
        let workers = self.copies.workers;
        for copy in self.copies.others.iter_mut().take(workers).filter(|copy| !copy.is_away()) {
            copy.lost(&error);
        }
    }
}
