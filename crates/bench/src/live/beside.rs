//! Work on a thread of its own, for as long as other work takes.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Sets a flag when it is dropped.
struct Set<'a>(&'a AtomicBool);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `f` while `work` runs on a thread of its own, which is to end once its flag is set. A
/// panic of `f` sets the flag too: the scope of the thread waits for it before the panic goes on.
pub(super) fn beside<T>(work: impl FnOnce(&AtomicBool) + Send, f: impl FnOnce() -> T) -> T {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(&ends));
        let end = Set(&ends);
        let done = f();
        drop(end);
        worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        done
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn work_ends_with_the_other_work_or_its_panic() {
        let ended = AtomicU32::new(0);
        let work = |ends: &AtomicBool| {
            while !ends.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            ended.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(beside(work, || 7), 7);
        let fails = || -> u8 { panic!("this test's own") };
        assert!(catch_unwind(AssertUnwindSafe(|| beside(work, fails))).is_err());
        assert_eq!(ended.into_inner(), 2);
    }
}
