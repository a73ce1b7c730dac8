//! The plan of a team: which worker has which handle of an interface, and which queue.

use txweir_device::{Endpoint, IfName, LinkIo};
use txweir_runtime::WireSpec;

use crate::link::{Link, Part, may_have_all, mtu_over};
use crate::links::{Links, own, seats};
use crate::machine::{Local, Machine};
use crate::queue_map::{QueueMap, WORKERS_MAX};

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
/// handle of an interface has one worker: the first handle the first worker, and so on. The first
/// handle of the second interface is the second worker's if it may have all frames, so that two
/// such ones are not on one.
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
        let queues = match &wire {
            Some(_) => 1,
            None => u16::try_from(handles.len()).unwrap_or(1),
        };
        let part = Part { wire, queues, mtu: mtu_over(first, &endpoint)?, seed: Local.seed(name.as_str()) };
        let offset = if may_have_all(&handles) { at } else { 0 };
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
/// One line: the map names a queue that is not there, or the system has no more descriptors.
pub fn seat(parts: &mut [Links], map: &QueueMap) -> Result<(), String> {
    for (turn, link) in parts.iter_mut().flat_map(|part| part.all.iter_mut().enumerate()) {
        link.copies.map.clone_from(map);
        link.copies.turn = turn;
    }
    let mut all: Vec<&mut Links> = parts.iter_mut().collect();
    seats(&mut all)?;
    own(&mut all)
}
