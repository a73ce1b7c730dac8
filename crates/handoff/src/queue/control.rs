//! `Control`: operations on a queue's parts, by the thread that has the queue.

use std::fmt;

use txweir_core::path::device::TxQueue;
use txweir_core::{Tree, sched::cx::Cx};

use crate::baton::Flags;
use crate::owned::Owned;
use crate::queue::{COMMAND, Queue};

/// The operations on a queue's parts: see [`Queue::control`].
pub struct Control<'a, D: TxQueue>(&'a Queue<D>);

impl<D: TxQueue> fmt::Debug for Control<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Control").field(self.0).finish()
    }
}

impl<'a, D: TxQueue> Control<'a, D> {
    pub(super) const fn new(queue: &'a Queue<D>) -> Self {
        Self(queue)
    }

    /// Has `f` called with the queue's parts between two bursts, by this thread or by the holder of
    /// the queue.
    pub fn post(&self, f: impl FnOnce(&mut Owned<D>) + Send + 'static) {
        self.0.runner.add_command(Box::new(f));
        let _ = self.0.runner.call(COMMAND, "command");
    }

    /// Calls `f` with the queue's parts if no thread has the queue, and runs it afterwards.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> Option<R> {
        let runner = &self.0.runner;
        let mut turn = runner.baton.knock(Flags::NONE)?;
        runner.tell_time(&mut turn);
        let r = f(&mut turn);
        runner.note_change(&mut turn);
        let _ = runner.run(turn, "control", false);
        Some(r)
    }

    /// Calls `f` with the queue's parts, and runs the queue afterwards. Where another thread has
    /// the queue, this one sleeps until that thread passes it on, after one round at most. Senders
    /// are not held up. One thread at a time calls this for a queue, and none from a callback of
    /// it, which would wait for itself.
    pub fn with<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> R {
        let mut turn = self.0.hold();
        let r = f(&mut turn);
        let _ = self.0.let_go(turn);
        r
    }

    /// Changes the qdiscs between two bursts, by this thread or the holder of the queue, and runs
    /// the queue. `f` gets the tree and the context of its operations. Its result is handed to
    /// `done`, by the same thread.
    pub fn configure<R: 'static>(
        &self,
        f: impl FnOnce(&mut Tree, &mut Cx) -> R + Send + 'static,
        done: impl FnOnce(R) + Send + 'static,
    ) {
        self.post(move |o| {
            done(o.path.configure(o.now, &mut o.dev, f));
        });
    }

    /// Keeps packets from the device until [`thaw`](Self::thaw): they wait in the qdiscs, or find
    /// no room. Completions are still taken. `frozen` is called as soon as no thread is sending and
    /// none will; at once, if no thread has the queue. Each freeze needs a thaw of its own.
    pub fn freeze(&self, frozen: impl FnOnce() + Send + 'static) {
        self.post(|o| {
            o.freeze();
            frozen();
        });
    }

    /// Ends one [`freeze`](Self::freeze), and runs the queue.
    pub fn thaw(&self) {
        self.post(|o| o.thaw());
    }
}
