//! One rate for several cakes by a name: each leases its sending time from it (`law::lease`), in
//! place of its own schedule.
//!
//! A packet leaves, and then its time is owed: the next one leaves when that is paid. So the size
//! of a packet need not be known before the turns and the law have chosen it, as with the schedule
//! of a cake that is alone; and like that one it has no bucket worth mentioning.

use alloc::boxed::Box;

use super::{Cake, Config};
use crate::base::time::Instant;
use crate::base::units::Bytes;
use crate::law::lease::Lease;
use crate::sched::capability::Shares;
use crate::sched::discipline::Discipline;
use crate::sched::share::{Joined, Share, Wanted};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// The bucket, as a part of a second: what a caller that comes late by so much makes up for.
const PER_SECOND: u64 = 1000;

/// Returns the rate that a configuration asks to share.
pub(super) fn wanted(cfg: &Config) -> Option<Wanted> {
    let rate = cfg.bandwidth.rate;
    Some(Wanted { name: cfg.shared.clone()?, rate, burst: Bytes((rate.0 / PER_SECOND).max(1)) })
}

/// Refuses a shared rate beside options that ask for another one.
pub(super) fn check(cfg: &Config) -> Result<(), ConfigError> {
    let conflict = |expected: &str, given: &str| {
        Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Cake::KIND), expected, given).key("shared"))
    };
    match (&cfg.shared, cfg.bandwidth.rate.0) {
        (None, _) => Ok(()),
        (Some(_), 0) => conflict("a bandwidth beside it", "unlimited"),
        (Some(_), _) if cfg.bandwidth.autorate => conflict("a bandwidth that is fixed", "autorate-ingress"),
        // Drops would use up what the others need, and there is no failsafe in common.
        (Some(_), _) if cfg.ingress => conflict("egress beside it", "ingress"),
        (Some(_), _) => Ok(()),
    }
}

/// The share of a cake.
#[derive(Debug)]
pub(super) struct Leased {
    joined: Joined,
    /// True while a packet that has left is not paid for.
    owes: bool,
    /// Time at which it is, or at which to ask again.
    pub due: Instant,
}

impl Leased {
    /// Returns the share that `cfg` asks for, not yet joined with others.
    pub fn of(cfg: &Config) -> Option<Box<Self>> {
        let joined = Joined::of(wanted(cfg))?;
        Some(Box::new(Self { joined, owes: false, due: Instant::ZERO }))
    }
    /// Returns the share after a change.
    pub fn change(old: Option<Box<Self>>, cfg: &Config) -> Option<Box<Self>> {
        let (joined, owes, due) = match old {
            Some(old) => (Some(old.joined), old.owes, old.due),
            None => (None, false, Instant::ZERO),
        };
        let joined = Joined::change(joined, wanted(cfg))?;
        Some(Box::new(Self { joined, owes, due }))
    }
    /// Returns the time at which a packet may leave, with `backlog` bytes waiting.
    #[inline]
    pub fn due_of(&mut self, backlog: u64, now: Instant) -> Instant {
        if self.owes && self.due <= now {
            self.charge(0, backlog, now);
        }
        self.due
    }
    /// Charges a packet of `len` bytes, with `backlog` bytes behind it.
    #[inline]
    pub fn charge(&mut self, len: u32, backlog: u64, now: Instant) {
        match self.joined.lease.owe(len.into(), backlog, now) {
            Ok(()) => self.owes = false,
            Err(t) => (self.owes, self.due) = (true, t),
        }
    }
    /// Gives back what no packet waits for; a part that is reserved for a debt is kept.
    pub fn rest(&mut self) {
        if !self.owes {
            self.joined.lease.rest();
        }
    }
    /// Gives everything back, and forgets the debt.
    pub fn restart(&mut self) {
        self.joined.lease.restart();
        (self.owes, self.due) = (false, Instant::ZERO);
    }
}

impl Shares for Cake {
    fn shares(&self, f: &mut dyn FnMut(Share<'_>)) {
        self.shared(0).into_iter().for_each(f);
    }
    fn shared(&self, minor: u16) -> Option<Share<'_>> {
        self.leased.as_ref().filter(|_| minor == 0).map(|leased| leased.joined.shown())
    }
    fn share(&mut self, _minor: u16, lease: Lease) {
        if let Some(leased) = &mut self.leased {
            leased.joined.lease = lease;
        }
    }
}
