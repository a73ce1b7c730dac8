//! `Queue::hold`: a thread has the queue for a while, and so may look at all of it and change it.
//!
//! The thread sets its name and the flag of commands. The holder of the queue sees the flag at the
//! end of its round at the latest, and passes the queue on instead of putting it down. Senders find
//! the queue taken meanwhile, and append to the list.

use txweir_core::path::device::TxQueue;

use crate::baton::{Flags, Turn};
use crate::owned::Owned;
use crate::queue::{COMMAND, Queue, Rest};
use crate::wake::Wakeup;

impl<D: TxQueue> Queue<D> {
    /// Waits until this thread has the queue, one round of another thread at most; one thread at a
    /// time calls this. A thread that has a turn of the queue already would wait for itself.
    pub(crate) fn hold(&self) -> Turn<'_, Owned<D>> {
        let runner = &self.runner;
        let mut turn = loop {
            // A queue that no thread has, as after a panic of its last holder, is there to take.
            if let Some(turn) = runner.baton.claim().or_else(|| runner.baton.knock(Flags::NONE)) {
                break turn;
            }
            self.want(Some(this_thread()));
            // The holder sees the flag. Without a holder the queue is this thread's. It is not run
            // first: a command that panics would leave the name of a thread that has gone, and the
            // queue would be passed to that thread.
            if let Some(turn) = runner.baton.knock(COMMAND).or_else(|| runner.baton.claim()) {
                break turn;
            }
            pause();
        };
        self.want(None);
        turn.wanted = None;
        runner.tell_time(&mut turn);
        turn
    }

    /// Ends `hold`: runs the queue and puts it down.
    pub(crate) fn let_go(&self, mut turn: Turn<'_, Owned<D>>) -> Rest {
        self.runner.note_change(&mut turn);
        self.runner.run(turn, "held", false)
    }

    fn want(&self, who: Option<Wakeup>) {
        if let Ok(mut wanted) = self.runner.wanted.lock() {
            *wanted = who;
        }
    }
}

/// Returns the wakeup of this thread; in a model, where no thread sleeps here, one without effect.
fn this_thread() -> Wakeup {
    if cfg!(loom) { Wakeup::calling(|| {}) } else { Wakeup::this_thread() }
}

/// Sleeps until this thread is woken, or for a moment: the queue is to be asked for again where its
/// holder has panicked.
fn pause() {
    #[cfg(not(loom))]
    std::thread::park_timeout(std::time::Duration::from_millis(1));
    #[cfg(loom)]
    loom::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use txweir_core::model::testing::VecDevice;
    use txweir_core::{Instant, PathConfig, TxPath};

    use super::*;
    use crate::queue::QueueConfig;

    /// The name may be that of a thread which the panic has ended.
    #[test]
    fn a_queue_is_not_passed_by_a_name_from_before_a_panic() {
        let path = TxPath::new(PathConfig::default()).unwrap();
        let (dev, config) = (VecDevice::<u64>::with_slots(4), QueueConfig::new(|| Instant(0)));
        let queue = Queue::new(path, dev, config, Wakeup::calling(|| {}));
        queue.want(Some(this_thread()));
        queue.runner.add_command(Box::new(|_| panic!("planned: command")));
        let run = AssertUnwindSafe(|| queue.runner.call(COMMAND, "test"));
        assert!(catch_unwind(run).is_err());
        assert_eq!(queue.serve(), Rest::Idle);
        assert!(!queue.status().is_taken());
        assert_eq!(queue.control().with(|o| o.counts.panics), 1);
    }
}
