//! The links of the workers: gathered at the daemon's own thread between two of the workers' turns,
//! so that a change reaches all copies of a link alike, or apart, each worker with its own.

use txweir_core::Instant;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_device::MAX_FRAME;

use super::{Links, Seat, own, seats};
use crate::grammar::Make;
use crate::machine::Local;

/// Rounds in which mail is taken while all workers stand: a frame crosses once, and once more for
/// each redirection behind it. Frames that are on the way longer stay on the way, and are counted.
const ROUNDS: usize = 64;

/// The links of the workers, and their state.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The links of each worker; none while they are with its thread, or there are no workers.
    pub parts: Vec<Links>,
    /// True while each has its copies, false while all copies are gathered at the daemon's links.
    pub apart: bool,
    /// The counters of filters and actions of all workers, while they are gathered.
    pub counted: Option<State>,
    /// True if filters or actions have changed since the workers got theirs.
    pub outdated: bool,
}

impl Links {
    /// Returns links without room for anything, in the place of a worker's while the daemon has
    /// these.
    pub(crate) fn hollow() -> Self {
        Self { scratch: Box::default(), ..Self::default() }
    }

    /// Makes the links of one more worker, which has no link yet.
    fn of_worker(&self) -> Self {
        Self {
            rates: self.rates.clone(),
            state: State::new(self.machine.seed("actions")),
            scratch: vec![0; MAX_FRAME].into(),
            ..Self::on(Local)
        }
    }

    /// Returns the number of workers that the links ask for.
    pub(crate) fn workers(&self) -> usize {
        self.all.iter().map(|link| link.copies.workers).max().unwrap_or(0)
    }

    /// Checks that the system has threads for the workers that a new link asks for on top of those
    /// that are there.
    ///
    /// # Errors
    /// One line that names the link.
    pub(super) fn check_workers(&self, make: &Make) -> Result<(), String> {
        let Some(asked) = make.workers else { return Ok(()) };
        let there = self.workers().max(self.rest.parts.len());
        let more = usize::from(asked).saturating_sub(there);
        if more == 0 {
            return Ok(());
        }
        let name = &make.change.name;
        let says = format!("link {name} workers: expected threads that the system starts, given {more} more");
        self.machine.check_threads(more).map_err(|e| format!("{says}: {e}"))
    }

    /// Gives each worker its copies of the links. There are as many workers as the links ask for,
    /// or as there were before.
    ///
    /// # Errors
    /// One line: the system has no more descriptors. The copies stay gathered.
    pub(crate) fn set_apart(&mut self) -> Result<(), String> {
        if self.rest.apart || self.workers().max(self.rest.parts.len()) == 0 {
            return Ok(());
        }
        let now = self.now;
        while self.rest.parts.len() < self.workers() {
            let worker = self.of_worker();
            self.rest.parts.push(worker);
            self.rest.outdated = true;
        }
        let many = self.rest.parts.len();
        for link in &mut self.all {
            link.tables = None;
            while link.copies.others.len() < many {
                let stub = link.stub()?;
                link.copies.others.push(stub);
            }
        }
        for link in &self.all {
            self.ports.of(link.name.as_str());
        }
        if self.seat.is_none() || self.seat.as_ref().is_some_and(|seat| seat.posts.len() != many + 1) {
            let mut all = vec![&mut *self];
            let mut parts = std::mem::take(&mut all[0].rest.parts);
            all.extend(parts.iter_mut());
            let made = seats(&mut all);
            drop(all);
            self.rest.parts = parts;
            made?;
        }
        for link in &mut self.all {
            let others = std::mem::take(&mut link.copies.others);
            for (part, mut copy) in self.rest.parts.iter_mut().zip(others) {
                copy.follow(now, link);
                part.all.push(copy);
            }
        }
        let outdated = std::mem::take(&mut self.rest.outdated);
        for part in &mut self.rest.parts {
            if outdated {
                part.filters = self.filters.clone();
                part.fitted = false;
            }
            part.ports = self.ports.clone();
            part.notes = self.notes.share();
            part.now = now;
        }
        self.rest.apart = true;
        self.rest.counted = None;
        self.each_part(&mut |all| own(all))
    }

    /// Calls `f` on the links of the daemon's thread and of each worker, which are apart.
    fn each_part<R>(&mut self, f: &mut dyn FnMut(&mut [&mut Self]) -> R) -> R {
        let mut parts = std::mem::take(&mut self.rest.parts);
        let mut all = vec![&mut *self];
        all.extend(parts.iter_mut());
        let done = f(&mut all);
        self.rest.parts = parts;
        done
    }

    /// Gathers the copies of each link. No worker is in a turn. Frames that are on the way from one
    /// to another arrive first, because the places of links may change.
    pub(crate) fn gather(&mut self, now: Instant) {
        if !self.rest.apart {
            return;
        }
        self.deliver_mail(now);
        self.rest.apart = false;
        for part in &mut self.rest.parts {
            for (link, copy) in self.all.iter_mut().zip(part.all.drain(..)) {
                link.copies.others.push(copy);
            }
        }
        self.fit_filters();
        let mut counted = self.state.clone();
        self.rest.parts.iter().for_each(|part| counted.add_counts(&part.state));
        self.rest.counted = Some(counted);
    }

    /// Has every worker take its mail until there is none.
    fn deliver_mail(&mut self, now: Instant) {
        self.each_part(&mut |all| {
            // Bound: `ROUNDS`.
            for _ in 0..ROUNDS {
                for part in all.iter_mut() {
                    part.fit_filters();
                    // Bound: a mailbox has so many places, and no frame comes in meanwhile.
                    while part.take_mail(&|| now) {}
                    part.all.iter_mut().for_each(|link| link.advance(now));
                }
                let is_empty = |part: &&mut Self| part.seat.as_ref().is_none_or(Seat::is_empty);
                if all.iter().all(is_empty) {
                    return;
                }
            }
        });
    }

    /// Gives all links a turn in the middle of a request, by the daemon's own thread. Copies that
    /// are gathered are set apart first: the request may have changed the links, and with them the
    /// owners of their queues. Afterwards they are gathered again, and all mail has arrived.
    pub(super) fn turn_all(&mut self, clock: &dyn Fn() -> Instant) -> bool {
        let gathered = !self.rest.apart && self.workers().max(self.rest.parts.len()) > 0;
        if gathered && self.set_apart().is_err() {
            return false;
        }
        let mut more = self.turn(clock, &[]);
        if gathered {
            for part in &mut self.rest.parts {
                more |= part.turn(clock, &[]);
            }
            self.gather(clock());
        }
        more
    }

    /// Has generated frames arrive at the workers that own their queues.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.workers().max(self.rest.parts.len()) > 0 && self.set_apart().is_ok() {
            self.gather(now);
        }
    }

    /// Returns the filters and actions, for a change that the workers will follow.
    pub(crate) fn change_filters(&mut self) -> &mut Filters {
        self.fitted = false;
        self.rest.outdated = true;
        &mut self.filters
    }

    /// Marks interfaces as not working any more of which a worker's handle does not work any more.
    pub(crate) fn lose(&mut self) {
        for link in &mut self.all {
            let why = link.real().find_map(|copy| copy.way.device().away()).map(str::to_owned);
            if let Some(why) = why.filter(|_| !link.is_away()) {
                link.lost_by_all(&why);
            }
        }
    }
}
