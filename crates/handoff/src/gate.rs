//! `Gate`: one thread stops all workers between two of their turns, sees and changes what they own
//! as a whole, and lets them go on.
//!
//! Each worker has its own value behind a lock that it takes for one turn, and that no other worker
//! ever takes. The one who stops them closes the gate first: a worker that comes to a closed gate
//! waits there, so a worker that turns without a pause cannot keep the lock to itself. Then it
//! takes the locks one by one, each within one turn of its worker. Once it has all of them, no
//! worker is in a turn, whatever they did before: the values are those of one instant.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering};

/// The gate that workers pass before each turn.
#[derive(Debug, Default)]
pub struct Gate {
    /// Number of those who hold it closed. A worker looks at it without the lock first.
    closed: AtomicU32,
    /// Held while the number changes, and between a waiting worker's look and its sleep.
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// Returns an open gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits while the gate is closed.
    #[inline]
    pub fn pass(&self) {
        if self.is_closed() {
            self.wait();
        }
    }

    /// True while the gate is closed.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // The lock of the worker's value orders all else: a worker that passes beside the closing
        // has one more turn.
        self.closed.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn wait(&self) {
        let Ok(mut held) = self.lock.lock() else { return };
        while self.closed.load(Ordering::Relaxed) > 0 {
            let Ok(again) = self.opened.wait(held) else { return };
            held = again;
        }
    }

    /// Closes the gate until the answer is dropped.
    #[must_use]
    pub fn close(&self) -> Closed<'_> {
        let _held = self.lock.lock();
        self.closed.fetch_add(1, Ordering::Relaxed);
        Closed(self)
    }
}

/// A gate while it is closed.
#[derive(Debug)]
pub struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let held = self.0.lock.lock();
        self.0.closed.fetch_sub(1, Ordering::Relaxed);
        drop(held);
        self.0.opened.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_may_hold_it_closed() {
        let gate = Gate::new();
        let (one, two) = (gate.close(), gate.close());
        drop(one);
        assert!(gate.is_closed());
        drop(two);
        assert!(!gate.is_closed());
        gate.pass();
    }
}
