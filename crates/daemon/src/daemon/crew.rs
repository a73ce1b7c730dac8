//! `Crew`: the workers of a daemon. Its own thread serves clients and the links that ask for no
//! workers; each worker runs its copies of all others. A request stops the workers between two of
//! their turns, takes their copies, and gives them back afterwards: so no frame meets half a
//! change, and what is shown is of one instant.

use txweir_core::{Instant, Nanos};
use txweir_runtime::Level;

use super::Daemon;
use crate::links::Links;
use crate::run::RunError;
use crate::team::{Stuck, Team, TeamOptions};

/// Time between two looks at the workers.
const LOOK: Nanos = Nanos::from_secs(1);

/// The workers of a daemon.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    /// The options of their threads; `None` if links run without threads, by
    /// [`Daemon::workers_mut`].
    pub options: Option<TeamOptions>,
    team: Option<Team>,
    /// True while the workers have their copies.
    deployed: bool,
    next: Instant,
}

impl Daemon {
    /// Stops the workers, and gathers the copies of all links here.
    ///
    /// # Errors
    /// A worker does not end its turn: they all go on.
    pub(crate) fn gather(&mut self, now: Instant) -> Result<(), Stuck> {
        if let Some(team) = self.crew.team.as_ref().filter(|_| self.crew.deployed) {
            let hollow = (0..team.workers()).map(|_| Links::hollow()).collect();
            let parts = team.exchange(hollow).map_err(|(stuck, _)| stuck)?;
            self.links_mut().rest.parts = parts;
        }
        self.crew.deployed = false;
        self.links_mut().gather(now);
        Ok(())
    }

    /// Gives each worker its copies, and starts workers that links ask for. Nothing is done while
    /// they work.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn deploy(&mut self) -> Result<(), RunError> {
        if self.crew.deployed {
            return Ok(());
        }
        let fails = |error: String| RunError::Worker { number: 0, error };
        self.links_mut().set_apart().map_err(fails)?;
        if self.links().rest.parts.is_empty() || self.crew.options.is_none() {
            return Ok(());
        }
        let parts = std::mem::take(&mut self.links_mut().rest.parts);
        self.crew.take_over(parts)
    }

    /// Returns the links of the workers that have no threads, once they are deployed: the caller
    /// gives each its turns.
    pub fn workers_mut(&mut self) -> &mut [Links] {
        &mut self.links_mut().rest.parts
    }

    /// Looks at the workers, if it is time: those that do not end their turn are named, and
    /// interfaces that do not work any more are opened again.
    ///
    /// # Errors
    /// A worker has failed.
    pub(crate) fn look_after(&mut self, now: Instant) -> Result<(), RunError> {
        if self.crew.team.is_none() || now < self.crew.next {
            return Ok(());
        }
        self.crew.next = now + LOOK;
        let Some(team) = &mut self.crew.team else { return Ok(()) };
        if let Some(fault) = team.take_fault() {
            return Err(fault);
        }
        let (stalls, losses) = (team.stalls(), team.has_losses());
        for stuck in &stalls {
            self.links_mut().tell(now, Level::Warning, &stuck.to_string());
        }
        if losses && self.gather(now).is_ok() {
            self.links_mut().lose();
        }
        Ok(())
    }

    /// Returns the time of the next look.
    pub(crate) fn looks_after_at(&self) -> Option<Instant> {
        self.crew.team.as_ref().map(|_| self.crew.next)
    }

    /// Does what is due about interfaces that are not there.
    pub(crate) fn restore(&mut self, now: Instant) {
        if self.links().restores(now) && self.gather(now).is_ok() {
            self.links_mut().restore(now);
        }
    }
}

impl Crew {
    /// Has the workers' threads work with these links. There are as many threads as links, or
    /// fewer, which end first.
    fn take_over(&mut self, parts: Vec<Links>) -> Result<(), RunError> {
        let parts = match self.team.take().filter(|team| team.workers() == parts.len()) {
            None => parts,
            Some(team) => {
                // No worker is in a turn: each has had hollow links since it was stopped.
                let given = team.exchange(parts).map(|_| ());
                self.team = Some(team);
                self.deployed = true;
                return given.map_err(|(stuck, _)| RunError::Worker {
                    number: stuck.worker,
                    error: stuck.to_string(),
                });
            }
        };
        let mut team = Team::new(parts).map_err(RunError::Start)?;
        if let Some(options) = &self.options {
            team.start_as(options, true).map_err(RunError::Start)?;
        }
        self.team = Some(team);
        self.deployed = true;
        Ok(())
    }
}
