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

/// Between what is said and what is then looked at: with one on either side, one of two threads sees the other.
#[inline(always)]
pub(crate) fn barrier() {
    fence(Ordering::SeqCst);
}

/// The owner's side of an asymmetric barrier: where the others call [`heavy_barrier`], as much as a sequentially consistent
/// fence, for nothing.
#[inline(always)]
pub(crate) fn light_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The others' side of an asymmetric barrier: every thread of this process that runs passes a full barrier between the call
/// and its end. For who has seen [`can_bar`] say true, before.
#[cfg(not(loom))]
pub(crate) fn heavy_barrier() {
    use rustix::thread::{MembarrierCommand, membarrier};
    // Another process of the same memory (vfork) aside, a registration holds until exec; a second one does no harm.
    let done = membarrier(MembarrierCommand::PrivateExpedited)
        .or_else(|_| can_bar().then_some(()).ok_or(rustix::io::Errno::PERM))
        .or_else(|_| membarrier(MembarrierCommand::Global));
    if done.is_err() {
        // To go on would be two threads in one place.
        std::process::abort();
    }
}

/// Whether the system has what [`heavy_barrier`] needs, which is then arranged for.
#[cfg(not(loom))]
pub(crate) fn can_bar() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

#[cfg(loom)]
pub(crate) fn heavy_barrier() {
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) const fn can_bar() -> bool {
    true
}

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
