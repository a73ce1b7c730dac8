//! The machine that all tests of this binary share: a test that measures has it alone.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::process::setpriority_process;

static MACHINE: RwLock<()> = RwLock::new(());

/// Waits until no test measures, and keeps those that do waiting while the result lives.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no other test runs, and gives this one priority over other work of the machine: a
/// thread that reads late holds up its stream, and this is not to be measured. Where the system
/// forbids the priority, the test measures without it.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    let alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    // The priority of this thread, and of every thread and program that it starts from now on
    // (setpriority(2)).
    let _ = setpriority_process(None, -20);
    alone
}
