//! `Share`: a rate that a qdisc, or one of its classes, shares with others by a name.

use crate::base::units::{Bytes, Rate};
use crate::law::lease::Lease;
use crate::text::value::Name;

/// A rate that an object asks to share, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The name.
    pub name: Name,
    /// The rate that the object gives for it.
    pub rate: Rate,
    /// The bucket that the object gives for it, as packets are charged.
    pub burst: Bytes,
}

/// A rate that a qdisc, or one of its classes, shares.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// Minor number of the class; 0 for the qdisc itself.
    pub minor: u16,
    /// The name that it was given.
    pub name: &'a Name,
    /// The rate that it was given.
    pub rate: Rate,
    /// The bucket that it was given, as packets are charged.
    pub burst: Bytes,
    /// The lease that it has joined.
    pub lease: &'a Lease,
}

impl Share<'_> {
    /// Returns the name with the rate and the bucket that it was given.
    pub fn wanted(&self) -> Wanted {
        Wanted { name: self.name.clone(), rate: self.rate, burst: self.burst }
    }
}

/// A rate that an object shares: its own part of it, and the values that it was given.
#[derive(Debug)]
pub(crate) struct Joined {
    pub wanted: Wanted,
    pub lease: Lease,
}

impl Joined {
    /// Returns the share that is asked for, not yet joined with others.
    pub fn of(wanted: Option<Wanted>) -> Option<Self> {
        let wanted = wanted?;
        let lease = Lease::alone(wanted.rate, wanted.burst);
        Some(Self { wanted, lease })
    }
    /// Returns the share after a change: the old one stays joined if name, rate and burst are as
    /// before.
    pub fn change(old: Option<Self>, wanted: Option<Wanted>) -> Option<Self> {
        let new = Self::of(wanted)?;
        Some(old.filter(|old| old.wanted == new.wanted).unwrap_or(new))
    }
    /// Returns it as that of the qdisc itself.
    pub fn shown(&self) -> Share<'_> {
        let Self { wanted, lease } = self;
        Share { minor: 0, name: &wanted.name, rate: wanted.rate, burst: wanted.burst, lease }
    }
}
