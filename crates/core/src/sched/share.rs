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
