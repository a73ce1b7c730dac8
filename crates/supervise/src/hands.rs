//! Threads for what a hostile program can hold up: its memory may be that of a page fault that it
//! serves itself (a file of its own file system), and so may the close of a
//! descriptor that it has put in the place of another one.
//!
//! The supervisor waits for a thread for [`PATIENCE`], then leaves it to its fate and takes another
//! one. A thread that is left ends with its step, at the latest with the program that holds it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

/// Time after which a step is given up: longer than any page takes to come from a disk.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most threads, those that were left included. If all of them are held up, no step is begun.
const HANDS_MAX: usize = 8;
/// Bytes of the stack of a thread: a step calls the system, and little else.
const STACK: usize = 64 << 10;

type Step = Box<dyn FnOnce() + Send>;

/// The threads.
#[derive(Debug)]
pub(crate) struct Hands {
    patience: Duration,
    /// The thread that is free.
    free: Option<SyncSender<Step>>,
    /// Each thread has a copy.
    alive: Arc<()>,
}

impl Default for Hands {
    fn default() -> Self {
        Self { patience: PATIENCE, free: None, alive: Arc::default() }
    }
}

impl Hands {
    fn take(&mut self) -> io::Result<SyncSender<Step>> {
        if let Some(free) = self.free.take() {
            return Ok(free);
        }
        if Arc::strong_count(&self.alive) > HANDS_MAX {
            return Err(Errno::FAULT.into());
        }
        let (send, steps) = sync_channel::<Step>(1);
        let alive = Arc::clone(&self.alive);
        thread::Builder::new().name("hand".into()).stack_size(STACK).spawn(move || {
            steps.iter().for_each(|step| step());
            drop(alive);
        })?;
        Ok(send)
    }

    /// True if a step may be begun.
    pub(crate) fn are_there(&self) -> bool {
        self.free.is_some() || Arc::strong_count(&self.alive) <= HANDS_MAX
    }

    /// Returns the result of a step.
    ///
    /// # Errors
    /// That of the step; `EFAULT` if it does not end, or if all threads are held up.
    pub(crate) fn run<T: Send + 'static>(
        &mut self,
        step: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let hand = self.take()?;
        let (tell, told) = sync_channel(1);
        let step = move || drop(tell.send(step()));
        hand.send(Box::new(step)).map_err(|_| Errno::FAULT)?;
        let result = told.recv_timeout(self.patience).map_err(|_| Errno::FAULT)?;
        self.free = Some(hand);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_do_not_end_take_threads_up_to_the_limit_and_give_them_back() {
        let mut hands = Hands { patience: Duration::from_secs(10), ..Hands::default() };
        assert_eq!(hands.run(|| Ok(7)).unwrap(), 7);
        hands.patience = Duration::from_millis(5);
        let (hold, held) = sync_channel::<()>(0);
        let held = Arc::new(std::sync::Mutex::new(held));
        for n in 0..HANDS_MAX {
            assert!(hands.are_there(), "{n}");
            let held = Arc::clone(&held);
            let step = move || Ok(held.lock().map(|held| held.recv()).is_ok());
            assert_eq!(hands.run(step).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
        assert!(!hands.are_there());
        assert_eq!(hands.run(|| Ok(7)).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        drop(hold);
        // The threads end by themselves.
        while !hands.are_there() {
            thread::yield_now();
        }
        hands.patience = Duration::from_secs(10);
        assert_eq!(hands.run(|| Ok(7)).unwrap(), 7);
    }
}
