//! The owners of queues among the workers, and the mailboxes between them.

use txweir_core::path::select::{Sender, Xps};
use txweir_handoff::{Wakeup, mailbox};

use super::{Links, Seat};
use crate::link::{Link, Owners, holders, number_of, owners};
use crate::queue_map::{QueueMap, WORKERS_MAX};

/// Frames that may wait in a worker's mailbox. A super-frame has up to 64 KiB: at most 64 MiB.
const MAIL: usize = 1024;

/// Gives the links of each worker a mailbox, and the mailboxes of all others. [`own`] comes next.
///
/// # Errors
/// One line: the system has no more descriptors.
pub(crate) fn seats(parts: &mut [&mut Links]) -> Result<(), String> {
    let mut posts = Vec::new();
    let mut boxes = Vec::new();
    for _ in 0..parts.len() {
        let (wakeup, bell) = Wakeup::event_fd().map_err(|e| format!("workers: cannot make a bell: {e}"))?;
        let (post, mailbox) = mailbox(MAIL, wakeup.clone());
        posts.push(post);
        boxes.push((mailbox, wakeup, bell));
    }
    for (me, (part, (mailbox, wakeup, bell))) in parts.iter_mut().zip(boxes).enumerate() {
        let (posts, owners) = (posts.clone(), Vec::new());
        let news = vec![false; posts.len()];
        part.seat = Some(Seat { me, posts, news, mailbox, kept: None, owners, wakeup, bell });
    }
    Ok(())
}

/// Says which worker owns which queue of each link, as the links are now. They have their seats.
///
/// # Errors
/// One line: a map names a queue that is not there.
pub(crate) fn own(parts: &mut [&mut Links]) -> Result<(), String> {
    let links = parts.first().map_or(0, |part| part.all.len());
    let holders: Vec<Vec<usize>> = (0..links).map(|at| holders(&copies(parts, at))).collect();
    let one = one_owner(parts, &holders);
    for link in parts.iter_mut().flat_map(|part| &mut part.all) {
        link.copies.owner = one;
    }
    let owners: Vec<Owners> = (0..links).map(|at| owners(&copies(parts, at))).collect();
    for (me, part) in parts.iter_mut().enumerate() {
        if let Some(seat) = &mut part.seat {
            seat.owners.clone_from(&owners);
        }
        for at in 0..links {
            let peer = part.all[at].peer.clone();
            let Some(from) = peer.and_then(|peer| part.all.iter().position(|l| l.name == peer)) else {
                continue;
            };
            let comes_by = holders[from].iter().position(|worker| *worker == me);
            choose(&mut part.all[at], me, comes_by.filter(|_| holders[from].len() > 1))?;
        }
    }
    Ok(())
}

/// Returns the copies of a link, in the order of the workers.
fn copies<'a>(parts: &'a [&mut Links], at: usize) -> Vec<&'a Link> {
    parts.iter().map(|part| &part.all[at]).collect()
}

/// Returns the worker that has all ways of links with several workers because a policer has one
/// bucket; `None` without policers, and where no worker has a handle of each link: with interfaces
/// of one queue at different workers.
fn one_owner(parts: &[&mut Links], holders: &[Vec<usize>]) -> Option<usize> {
    let first = parts.first()?;
    first.filters.actions.of_kind("police").next()?;
    // The daemon's own thread has the links that do not ask for workers.
    let asks = |at: usize| first.all[at].copies.workers > 0;
    let some_ask = (0..holders.len()).any(asks);
    let shared = || {
        let shared = (0..holders.len()).filter(|at| !some_ask || asks(*at)).map(|at| &holders[at]);
        shared.filter(|holders| !holders.is_empty())
    };
    (0..parts.len()).find(|worker| shared().all(|holders| holders.contains(worker)))
}

/// Sets how a worker chooses the transmit queue of a way. `comes_by` is the number of its receive
/// queue, if there are several.
///
/// # Errors
/// One line: the map names a queue that is not there.
fn choose(link: &mut Link, me: usize, comes_by: Option<usize>) -> Result<(), String> {
    // A stub chooses among the queues of its link.
    let (map, queues) = (link.copies.map.clone(), number_of(link.queues));
    let came_by = comes_by.and_then(|queue| u16::try_from(queue).ok());
    let worker = u32::try_from(me).unwrap_or(u32::MAX);
    map.check(queues).map_err(|e| format!("queue map of {}: {e}", link.name))?;
    match map {
        QueueMap::Hash => link.way.set_sender(Sender { worker, came_by: None, idle: false }),
        QueueMap::Arrival => link.way.set_sender(Sender { worker, came_by, idle: false }),
        QueueMap::Lists(lists) => {
            let mut xps = Xps::new(WORKERS_MAX, 1);
            for (from, to) in lists {
                xps.set(usize::from(from), 0, &to);
            }
            link.way.set_queue_map(xps);
            link.way.set_sender(Sender { worker, came_by, idle: false });
        }
    }
    Ok(())
}
