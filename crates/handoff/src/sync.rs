//! The primitives that threads share, from the standard library or, with `--cfg loom`, from the
//! model checker.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
};

#[cfg(not(loom))]
pub(crate) use self::std_cell::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// A value on cache lines of its own: threads that use it do not delay those that use its
/// neighbours.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// Orders a thread's store before its later load: with a barrier on either side, one of two threads
/// sees the other's store.
#[inline(always)]
pub(crate) fn barrier() {
    fence(Ordering::SeqCst);
}

/// True while this thread unwinds from a panic. In a model a panic is the verdict, and what it has
/// found may be that two threads have a value: then nothing is put in order.
#[inline]
pub(crate) fn in_panic() -> bool {
    cfg!(not(loom)) && std::thread::panicking()
}

/// The owner's side of an asymmetric barrier: where the others call [`heavy_barrier`], it has the
/// effect of a sequentially consistent fence, and costs no instruction.
#[inline(always)]
pub(crate) fn light_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The others' side of an asymmetric barrier: every running thread of this process passes a full
/// barrier between the call and its end. The caller must have seen [`can_bar`] return true before.
#[cfg(all(not(loom), target_os = "linux"))]
pub(crate) fn heavy_barrier() {
    use rustix::thread::{MembarrierCommand, membarrier};
    // A registration holds until exec, unless another process shares the memory (vfork); a second
    // registration does no harm.
    let done = membarrier(MembarrierCommand::PrivateExpedited)
        .or_else(|_| can_bar().then_some(()).ok_or(rustix::io::Errno::PERM))
        .or_else(|_| membarrier(MembarrierCommand::Global));
    if done.is_err() {
        // Without the barrier two threads could have the value at once.
        std::process::abort();
    }
}

/// True if the system has the membarrier(2) that [`heavy_barrier`] needs. Registers the process for
/// it.
#[cfg(all(not(loom), target_os = "linux"))]
pub(crate) fn can_bar() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// Ends the process: [`can_bar`] is false here, so that no thread is biased and none calls this.
#[cfg(all(not(loom), not(target_os = "linux")))]
pub(crate) fn heavy_barrier() {
    std::process::abort();
}

/// Only Linux has membarrier(2): elsewhere no queue has an owner, and each send is an exchange.
#[cfg(all(not(loom), not(target_os = "linux")))]
pub(crate) const fn can_bar() -> bool {
    false
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
