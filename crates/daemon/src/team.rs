//! `Team`: the links of two interfaces on several threads. Each worker has links of its own
//! ([`parts`]), and a loop like the server's: it waits, and performs a turn. No worker ever touches
//! the links of another; frames go from one to another by mailboxes.
//!
//! The thread that made the team has it stopped to look at the links or to change them
//! ([`Team::stop`]): it closes a gate, at which each worker waits between two turns, and then has
//! the links of all workers at one instant. So no frame meets half a change, a report is one of one
//! instant, and a worker waits at most for the others' turns and for the work of the one who
//! stopped it. A worker that is in one turn for too long is named, and not waited for.

mod plan;
mod work;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use txweir_core::{Instant, Nanos};
use txweir_device::clock::now_ns;
use txweir_device::poll::{self, PollFd, PollFlags};
use txweir_handoff::{Closed, Gate, Wakeup};

use crate::links::Links;
use crate::run::{Ended, Reports, RunError, RunOptions};

pub use plan::{Side, parts, seat};

/// Longest time for which a worker is waited for.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// Time in one turn after which a worker counts as stalled. A turn takes some milliseconds at most,
/// and a busy machine may run another thread meanwhile.
const STALL: Nanos = Nanos::from_secs(1);

/// Options of a team's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamOptions {
    /// The processors of the workers, in turns; none to leave the choice to the system.
    pub pins: Vec<usize>,
    /// True for workers that look for frames all the time instead of sleeping until there are some.
    pub busy_poll: bool,
}

/// The state that a team's threads share.
#[derive(Debug)]
struct Shared {
    gate: Gate,
    /// 1 once the workers are to end.
    ends: AtomicU64,
    places: Vec<Place>,
    /// Wakes the one who made the team.
    told: Wakeup,
    /// Workers that have failed.
    faults: Mutex<Vec<RunError>>,
}

/// A worker as the others see it.
#[derive(Debug)]
struct Place {
    links: Mutex<Links>,
    /// Ends its wait.
    wakeup: Wakeup,
    bell: Arc<OwnedFd>,
    /// The time at which its present turn began, ns; 0 while it waits.
    since: AtomicU64,
    /// Turns performed.
    turns: AtomicU64,
    /// 1 if an interface of its links was seen not to work any more.
    lost: AtomicU64,
}

/// The way in which a worker does its work.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Its processor.
    pin: Option<usize>,
    /// True if it looks for frames all the time.
    busy: bool,
    /// True if it goes on without an interface.
    goes_on: bool,
}

/// Links on several threads.
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    bell: Arc<OwnedFd>,
    /// Of each worker, the beginning of the turn for which it was named last.
    named: Vec<u64>,
}

/// A worker that is in one turn for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its number.
    pub worker: usize,
    /// Time since its turn began.
    pub since: Nanos,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.since.0 / 1_000_000;
        write!(f, "worker {} does not answer: it is in one turn for {ms} ms", self.worker)
    }
}

/// The links of all workers, none of which is in a turn.
#[derive(Debug)]
pub struct Stopped<'a> {
    parts: Vec<MutexGuard<'a, Links>>,
    _closed: Closed<'a>,
}

impl Stopped<'_> {
    /// Returns the links of each worker.
    pub fn parts(&mut self) -> Vec<&mut Links> {
        self.parts.iter_mut().map(|part| &mut **part).collect()
    }
}

impl Team {
    /// Makes a team of links that have their seats ([`seat`]). Its threads start with
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// The system has no more descriptors, or links have no seat.
    pub fn new(parts: Vec<Links>) -> io::Result<Self> {
        let (told, bell) = Wakeup::event_fd()?;
        let mut places = Vec::new();
        for links in parts {
            let Some(seat) = &links.seat else { return Err(io::ErrorKind::InvalidInput.into()) };
            let (wakeup, bell) = (seat.wakeup.clone(), Arc::clone(&seat.bell));
            let [since, turns, lost] = [0; 3].map(AtomicU64::new);
            places.push(Place { links: Mutex::new(links), wakeup, bell, since, turns, lost });
        }
        let named = vec![0; places.len()];
        let shared =
            Shared { gate: Gate::new(), ends: AtomicU64::new(0), places, told, faults: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), threads: Vec::new(), bell, named })
    }

    /// Starts the workers. An interface that does not work any more is the end of its worker.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start(&mut self, options: &TeamOptions) -> io::Result<()> {
        self.start_as(options, false)
    }

    /// Starts workers that go on without an interface if `goes_on` is true:
    /// [`has_losses`](Self::has_losses) tells of it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_as(&mut self, options: &TeamOptions, goes_on: bool) -> io::Result<()> {
        for worker in 0..self.shared.places.len() {
            let shared = Arc::clone(&self.shared);
            let pin = options.pins.get(worker % options.pins.len().max(1)).copied();
            let how = How { pin, busy: options.busy_poll, goes_on };
            let thread = std::thread::Builder::new().name(format!("txweir-{worker}"));
            self.threads.push(thread.spawn(move || work::run(&shared, worker, how))?);
        }
        Ok(())
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.places.len()
    }

    /// Returns the turns that each worker has performed.
    #[must_use]
    pub fn turns(&self) -> Vec<u64> {
        self.shared.places.iter().map(|place| place.turns.load(Ordering::Relaxed)).collect()
    }

    /// Stops all workers between two of their turns, until the answer is dropped. It takes as long
    /// as the longest of their present turns.
    ///
    /// # Errors
    /// A worker does not end its turn. All others go on.
    pub fn stop(&self) -> Result<Stopped<'_>, Stuck> {
        let closed = self.shared.gate.close();
        self.shared.places.iter().for_each(|place| place.wakeup.wake());
        let give_up = now_ns() + PATIENCE.0;
        let mut parts = Vec::new();
        for (worker, place) in self.shared.places.iter().enumerate() {
            let mut pause = Duration::from_micros(10);
            let part = loop {
                match place.links.try_lock() {
                    Ok(part) => break part,
                    // A fault tells of a worker that has panicked; its counts can be read.
                    Err(TryLockError::Poisoned(part)) => break part.into_inner(),
                    Err(TryLockError::WouldBlock) => {}
                }
                if now_ns() >= give_up {
                    let begun = place.since.load(Ordering::Relaxed);
                    let since = if begun == 0 { PATIENCE } else { Nanos(now_ns().saturating_sub(begun)) };
                    return Err(Stuck { worker, since });
                }
                sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            };
            parts.push(part);
        }
        Ok(Stopped { parts, _closed: closed })
    }

    /// Stops all workers, and takes their links, in the place of which each gets one of `others`,
    /// in order. Those work from then on.
    ///
    /// # Errors
    /// As [`stop`](Self::stop), with the links that were to be given; nothing is exchanged.
    pub(crate) fn exchange(&self, others: Vec<Links>) -> Result<Vec<Links>, (Stuck, Vec<Links>)> {
        let mut stopped = match self.stop() {
            Ok(stopped) => stopped,
            Err(stuck) => return Err((stuck, others)),
        };
        let places = stopped.parts().into_iter().zip(others);
        Ok(places.map(|(place, other)| std::mem::replace(place, other)).collect())
    }

    /// True if a worker has seen since the last call that an interface does not work any more.
    pub(crate) fn has_losses(&self) -> bool {
        self.shared.places.iter().fold(false, |any, place| any | (place.lost.swap(0, Ordering::Relaxed) != 0))
    }

    /// Returns the workers that are in one turn for a second or more, each once for a turn.
    pub fn stalls(&mut self) -> Vec<Stuck> {
        let now = now_ns();
        let mut stalls = Vec::new();
        for ((worker, place), named) in self.shared.places.iter().enumerate().zip(&mut self.named) {
            let begun = place.since.load(Ordering::Relaxed);
            let since = Nanos(now.saturating_sub(begun));
            if begun != 0 && since >= STALL && *named != begun {
                *named = begun;
                stalls.push(Stuck { worker, since });
            }
        }
        stalls
    }

    /// Waits until `stop` has something to read or an end that `options` names. It calls `stats` at
    /// each interval with the links of all workers, stopped, and `say` with a line about each
    /// worker that is stalled.
    ///
    /// # Errors
    /// Waiting itself fails, a worker has failed, or an interface does not work any more.
    pub fn run(
        &mut self,
        stop: &impl AsFd,
        options: &RunOptions,
        stats: &mut dyn FnMut(&mut [&mut Links]),
        say: &mut dyn FnMut(String),
    ) -> Result<Ended, RunError> {
        let mut reports = options.stats_interval.map(|interval| Reports::new(interval, Instant(now_ns())));
        loop {
            let look = Instant(now_ns()) + STALL;
            let due = [options.end, reports.as_ref().map(Reports::next), Some(look)];
            let due = due.into_iter().flatten().min();
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
            poll::wait(&mut fds, due.map(|at| at.0), 0).map_err(RunError::System)?;
            if !fds[0].revents().is_empty() {
                return Ok(Ended::Stopped);
            }
            if let Some(fault) = self.take_fault() {
                return Err(fault);
            }
            self.stalls().iter().for_each(|stuck| say(stuck.to_string()));
            let now = Instant(now_ns());
            if options.end.is_some_and(|end| end <= now) {
                return Ok(Ended::Duration);
            }
            if reports.as_mut().is_some_and(|reports| reports.take_due(now)) {
                match self.stop() {
                    Ok(mut stopped) => stats(&mut stopped.parts()),
                    Err(stuck) => say(stuck.to_string()),
                }
            }
        }
    }

    /// Returns the failure of a worker, if one has failed.
    pub(crate) fn take_fault(&self) -> Option<RunError> {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Ends the workers. One that is in a turn for too long is left alone.
    pub fn end(&mut self) {
        self.shared.ends.store(1, Ordering::Relaxed);
        let give_up = now_ns() + PATIENCE.0;
        for (thread, place) in self.threads.drain(..).zip(&self.shared.places) {
            place.wakeup.wake();
            while !thread.is_finished() && now_ns() < give_up {
                sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // Its panic, if it had one, is among the faults.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}
