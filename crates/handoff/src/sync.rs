//! What threads share, from the standard library or, with `--cfg loom`, from the model checker.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
};

#[cfg(not(loom))]
pub(crate) use self::std_cell::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(not(loom))]
mod std_cell {
    /// The cell of the standard library, behind the interface of the model checker's.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}
