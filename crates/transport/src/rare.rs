//! State that few ends have: it is boxed, and the first write allocates it.
//!
//! An end that only receives has no units in flight, and one on a path without loss has no gaps and
//! no recovery. Such state stays out of the end until it is written, so that an idle end is small
//! and an event touches few cache lines.

use std::fmt::{self, Debug};
use std::ops::{Deref, DerefMut};

use crate::ahead::ahead;

/// State that has a value before it is first written.
pub(crate) trait Blank: Clone + 'static {
    /// Returns this value.
    fn blank() -> &'static Self;
}

/// Boxed state. A read before the first write sees [`Blank::blank`]; a write allocates the box.
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T> Rare<T> {
    /// Returns the state for writing, if it was allocated.
    pub(crate) fn made(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
    /// Asks for the memory of the state, if it was allocated.
    pub(crate) fn ahead(&self) {
        if let Some(made) = &self.0 {
            ahead(&**made);
        }
    }
    /// Resets the state to its value before the first write.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Clone> Clone for Rare<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Blank + Debug> Debug for Rare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Blank> Deref for Rare<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.0 {
            Some(made) => made,
            None => T::blank(),
        }
    }
}

impl<T: Blank> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::blank().clone()))
    }
}

/// An optional number in eight bytes: `u64::MAX` stands for none, which neither a byte number nor a
/// time reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maybe(u64);

impl Maybe {
    pub(crate) const NONE: Self = Self(u64::MAX);

    pub(crate) const fn some(n: u64) -> Self {
        Self(n)
    }
    pub(crate) const fn get(self) -> Option<u64> {
        if self.0 == u64::MAX { None } else { Some(self.0) }
    }
    pub(crate) const fn is_some(self) -> bool {
        self.0 != u64::MAX
    }
    /// Takes the number out and leaves none.
    pub(crate) const fn take(&mut self) -> Option<u64> {
        let n = self.get();
        *self = Self::NONE;
        n
    }
}

impl Debug for Maybe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Blank for u64 {
        fn blank() -> &'static Self {
            &7
        }
    }

    #[test]
    fn a_read_makes_nothing_and_a_write_does() {
        let mut rare: Rare<u64> = Rare::default();
        assert_eq!((*rare, rare.made()), (7, None));
        *rare += 1;
        assert_eq!((*rare, rare.made()), (8, Some(&mut 8)));
        rare.forget();
        assert_eq!((*rare, rare.made()), (7, None));
    }

    #[test]
    fn a_number_that_may_be_missing() {
        let mut n = Maybe::some(0);
        assert_eq!((n.get(), n.is_some(), n.take(), n.take()), (Some(0), true, Some(0), None));
        assert_eq!((n, size_of::<Maybe>()), (Maybe::NONE, 8));
    }
}
