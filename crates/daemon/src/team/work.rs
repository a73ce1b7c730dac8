//! The loop of a worker.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use txweir_core::Instant;
use txweir_device::clock::now_ns;
use txweir_device::cpu;
use txweir_device::poll::{self, PollFd, PollFlags};

use super::{How, Place, Shared};
use crate::links::{Links, silence};
use crate::run::{RunError, SPIN};

/// Runs a worker until the team ends it, or it fails, which the team learns.
pub(super) fn run(shared: &Shared, worker: usize, how: How) {
    let done = catch_unwind(AssertUnwindSafe(|| work(shared, worker, how)));
    let fault = match done {
        Ok(Ok(())) => return,
        Ok(Err(fault)) => fault,
        Err(panic) => RunError::Worker { number: worker, error: text_of(&*panic) },
    };
    shared.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    shared.told.wake();
}

/// Returns the text of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

fn work(shared: &Shared, worker: usize, how: How) -> Result<(), RunError> {
    let How { pin, busy, goes_on } = how;
    let place = &shared.places[worker];
    if let Some(processor) = pin {
        cpu::pin(processor).map_err(|error| {
            let error = format!("cannot run on processor {processor}: {error}");
            RunError::Worker { number: worker, error }
        })?;
    }
    // Without it wake-ups come up to 50 us later; nothing else changes.
    let _ = poll::sharpen_timers();
    let clock = || Instant(now_ns());
    let ends = || shared.ends.load(Ordering::Relaxed) != 0;
    while !ends() {
        shared.gate.pass();
        // The lock is the worker's own until someone closes the gate.
        let mut links = place.links.lock().unwrap_or_else(PoisonError::into_inner);
        let mut more = true;
        while !shared.gate.is_closed() && !ends() {
            let ready = match busy {
                true => Vec::new(),
                false => wait(&links, place, more).map_err(RunError::System)?,
            };
            place.since.store(now_ns(), Ordering::Relaxed);
            more = links.turn(&clock, &ready);
            place.since.store(0, Ordering::Relaxed);
            place.turns.fetch_add(1, Ordering::Relaxed);
            match links.gone() {
                Some(_) if goes_on => place.lost.store(1, Ordering::Relaxed),
                Some((name, error)) => return Err(RunError::Link { name, error }),
                None => {}
            }
            if busy && !more {
                // Where there are more workers than processors, another one has its turn.
                std::thread::yield_now();
            }
        }
    }
    Ok(())
}

/// Waits for frames, mail, and the next event of the links. Returns the interfaces that are ready,
/// in the order of [`Links::interfaces`].
fn wait(links: &Links, place: &Place, more: bool) -> io::Result<Vec<bool>> {
    let rests = !more && links.may_rest();
    let deadline = if rests { links.deadline(Instant(now_ns())) } else { Some(Instant::ZERO) };
    let mut fds = vec![PollFd::new(&place.bell, PollFlags::IN)];
    fds.extend(links.interfaces().map(|(io, events)| PollFd::new(io, events)));
    poll::wait(&mut fds, deadline.map(|at| at.0), SPIN.0)?;
    if rests {
        links.has_rested();
    }
    if !fds[0].revents().is_empty() {
        // The bell is read before the gate and the mailbox are looked at.
        silence(&place.bell);
    }
    Ok(fds[1..].iter().map(|fd| fd.revents().intersects(!PollFlags::OUT)).collect())
}
