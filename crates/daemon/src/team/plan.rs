//! The plan of a team: which worker has which handle of an interface, and which queue.

use txweir_core::path::select::{Sender, Xps};
use txweir_device::{Endpoint, IfName, LinkIo};
use txweir_handoff::{Wakeup, mailbox};
use txweir_runtime::WireSpec;

use super::map::QueueMap;
use crate::end::End;
use crate::link::{Link, Part, mtu_over};
use crate::links::{Links, Owners, Seat};
use crate::machine::{Local, Machine};

/// Most workers: as many as the queues of an interface that XDP sockets take.
pub const WORKERS_MAX: usize = 64;
/// Frames that may wait in a worker's mailbox. A super-frame has up to 64 KiB: at most 64 MiB.
const MAIL: usize = 1024;

/// One of the two interfaces that a team forwards between.
#[derive(Debug)]
pub struct Side {
    /// The name of the link.
    pub name: IfName,
    /// The interface as it was given.
    pub endpoint: Endpoint,
    /// Its handles ([`Endpoint::open_queues`]), at least one.
    pub handles: Vec<LinkIo>,
    /// The wire of the way that leaves by it; `None` if it is as fast as its interface.
    pub wire: Option<WireSpec>,
}

/// Makes the links of each worker: two, that are peers of each other, with the default qdiscs. A
/// handle of an interface has one worker: the first handle the first worker, and so on. A single
/// handle of the second interface is the second worker's, so that two single ones are not on one.
/// A way without a wire has a transmit queue for each handle of its interface, and one otherwise.
/// Qdiscs are set next, on the links of each worker alike, and then [`seat`] is called.
///
/// # Errors
/// One line that names the impossible parameter.
pub fn parts(sides: [Side; 2], workers: usize) -> Result<Vec<Links>, String> {
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(format!("workers: expected 1 to {WORKERS_MAX}, given {workers}"));
    }
    let mut links: Vec<Vec<Link>> = (0..workers).map(|_| Vec::new()).collect();
    for (at, Side { name, endpoint, handles, wire }) in sides.into_iter().enumerate() {
        let Some(first) = handles.first() else { return Err(format!("interface `{endpoint}`: no handle")) };
        if handles.len() > workers {
            return Err(format!("interface `{endpoint}`: {} handles for {workers} workers", handles.len()));
        }
        if workers > 1 && first.senders_wait() {
            return Err(format!(
                "interface `{endpoint}`: its senders wait for room in the qdiscs, which another worker cannot see: \
                 expected one worker, given {workers}"
            ));
        }
        let queues = match &wire {
            Some(_) => 1,
            None => u16::try_from(handles.len()).unwrap_or(1),
        };
        let part = Part { wire, queues, mtu: mtu_over(first, &endpoint)?, seed: Local.seed(name.as_str()) };
        let offset = if handles.len() == 1 { at } else { 0 };
        let mut of_worker: Vec<Option<LinkIo>> = (0..workers).map(|_| None).collect();
        for (handle, io) in handles.into_iter().enumerate() {
            of_worker[(handle + offset) % workers] = Some(io);
        }
        for (links, io) in links.iter_mut().zip(of_worker) {
            links.push(Link::part(name.clone(), endpoint.clone(), io, &part)?);
        }
    }
    let mut all = Vec::new();
    for links in links {
        let Ok(links) = <[Link; 2]>::try_from(links) else { return Err("links: expected two".to_owned()) };
        all.push(Links::between(links));
    }
    let rates = all[0].rates.clone();
    all.iter_mut().for_each(|links| links.rates = rates.clone());
    Ok(all)
}

/// Gives the links of each worker their seat: the owners of queues, and the mailboxes. The qdiscs
/// of all parts are equal and in place.
///
/// # Errors
/// One line: the policy or the map does not go with several workers, or the system has no more
/// descriptors.
pub fn seat(parts: &mut [Links], map: &QueueMap) -> Result<(), String> {
    let links = parts.first().map_or(0, |part| part.all.len());
    let holders: Vec<Vec<usize>> = (0..links).map(|link| holders(parts, link)).collect();
    let owners: Vec<Owners> = (0..links).map(|link| owners(parts, link, &holders[link])).collect();
    check(parts, &owners)?;
    let mut posts = Vec::new();
    let mut boxes = Vec::new();
    for _ in 0..parts.len() {
        let (wakeup, bell) = Wakeup::event_fd().map_err(|e| format!("workers: cannot make a bell: {e}"))?;
        let (post, mailbox) = mailbox(MAIL, wakeup.clone());
        posts.push(post);
        boxes.push((mailbox, wakeup, bell));
    }
    for (me, (part, (mailbox, wakeup, bell))) in parts.iter_mut().zip(boxes).enumerate() {
        let (posts, owners) = (posts.clone(), owners.clone());
        let news = vec![false; posts.len()];
        part.seat = Some(Seat { me, posts, news, mailbox, owners, wakeup, bell });
        for at in 0..links {
            let peer = part.all[at].peer.clone();
            let Some(from) = peer.and_then(|peer| part.all.iter().position(|l| l.name == peer)) else {
                continue;
            };
            let comes_by = holders[from].iter().position(|worker| *worker == me);
            choose(&mut part.all[at], me, comes_by.filter(|_| holders[from].len() > 1), map)?;
        }
    }
    Ok(())
}

/// Returns the workers that have a handle of a link, in the order of the handles.
fn holders(parts: &[Links], link: usize) -> Vec<usize> {
    let has = |part: &Links| matches!(part.all[link].way.device(), End::Live(_));
    parts.iter().enumerate().filter(|(_, part)| has(part)).map(|(worker, _)| worker).collect()
}

/// Returns the owners of the queues of a link.
fn owners(parts: &[Links], link: usize, holders: &[usize]) -> Owners {
    let way = &parts[0].all[link].way;
    match holders {
        [] => Owners::One(link % parts.len()),
        _ if way.port().is_split() && way.wire().is_none() => Owners::Queues(holders.to_vec()),
        _ => Owners::One(holders[link % holders.len()]),
    }
}

/// Refuses what several workers cannot do alike.
fn check(parts: &[Links], owners: &[Owners]) -> Result<(), String> {
    let split = owners.iter().any(|owners| matches!(owners, Owners::Queues(workers) if workers.len() > 1));
    let polices = parts.first().is_some_and(|part| part.filters.actions.of_kind("police").next().is_some());
    if split && polices {
        return Err(format!(
            "police: each of {} workers would have a bucket of its own, and all together pass that many times the \
             rate: expected one worker, or a root other than mq and mqprio, or `tbf ... shared NAME`",
            parts.len()
        ));
    }
    Ok(())
}

/// Sets how a worker chooses the transmit queue of a way. `comes_by` is the number of its receive
/// queue, if there are several.
fn choose(link: &mut Link, me: usize, comes_by: Option<usize>, map: &QueueMap) -> Result<(), String> {
    let queues = link.way.port().queues();
    let came_by = comes_by.and_then(|queue| u16::try_from(queue).ok());
    let worker = u32::try_from(me).unwrap_or(u32::MAX);
    match map {
        QueueMap::Hash => link.way.set_sender(Sender { worker, came_by: None, idle: false }),
        QueueMap::Arrival => link.way.set_sender(Sender { worker, came_by, idle: false }),
        QueueMap::Lists(lists) => {
            let mut xps = Xps::new(WORKERS_MAX, 1);
            for (from, to) in lists {
                if let Some(wrong) = to.iter().find(|queue| **queue >= queues) {
                    return Err(format!(
                        "queue map {from}: expected transmit queues 0 to {} of {}, given {wrong}",
                        queues - 1,
                        link.name
                    ));
                }
                xps.set(usize::from(*from), 0, to);
            }
            link.way.set_queue_map(xps);
            link.way.set_sender(Sender { worker, came_by, idle: false });
        }
    }
    Ok(())
}
