//! `Wakeup`: tells a waiting thread or task, whatever it waits in.

use std::fmt;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

/// Tells a waiting thread or task that there is work. The call is cheap, never blocks, and may
/// happen once too often.
#[derive(Clone)]
pub enum Wakeup {
    /// Calls a function, on the thread that has the queue then. It must not block; it may send.
    Callback(Arc<dyn Fn() + Send + Sync>),
    /// Wakes a task of an asynchronous runtime.
    Task(Waker),
    /// Adds 1 to an eventfd(2): for a thread that waits in epoll, poll or io_uring. On Linux.
    #[cfg(target_os = "linux")]
    EventFd(Arc<OwnedFd>),
    /// Unparks a thread.
    Thread(std::thread::Thread),
}

impl Wakeup {
    /// Creates a wakeup that calls `f`.
    pub fn calling(f: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Callback(Arc::new(f))
    }

    /// Creates a wakeup for the calling thread.
    #[must_use]
    pub fn this_thread() -> Self {
        Self::Thread(std::thread::current())
    }

    /// Creates an eventfd and its other end: [`readable`](rustix::event::poll) until it is read.
    /// On Linux.
    ///
    /// # Errors
    /// The system has no more descriptors.
    #[cfg(target_os = "linux")]
    pub fn event_fd() -> std::io::Result<(Self, Arc<OwnedFd>)> {
        use rustix::event::{EventfdFlags, eventfd};
        let fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Self::EventFd(Arc::clone(&fd)), fd))
    }

    /// Returns the receiver that it wakes, while this value exists.
    #[must_use]
    pub(crate) fn receiver(&self) -> Receiver {
        match self {
            Self::Callback(f) => Receiver::Callback(Arc::as_ptr(f).cast::<()>() as usize),
            Self::Task(waker) => {
                Receiver::Task(waker.data() as usize, std::ptr::from_ref(waker.vtable()) as usize)
            }
            #[cfg(target_os = "linux")]
            Self::EventFd(fd) => Receiver::EventFd(Arc::as_ptr(fd) as usize),
            Self::Thread(thread) => Receiver::Thread(thread.id()),
        }
    }

    /// Wakes the receiver while this thread may be unwinding from a panic: a second panic, of the
    /// callback, would end the process.
    pub(crate) fn wake_in_panic(&self) {
        // The hook has printed the panic.
        let _ = catch_unwind(AssertUnwindSafe(|| self.wake()));
    }

    /// Wakes the receiver.
    pub fn wake(&self) {
        match self {
            Self::Callback(f) => f(),
            Self::Task(waker) => waker.wake_by_ref(),
            // A full counter is readable too, and so has woken the reader.
            #[cfg(target_os = "linux")]
            Self::EventFd(fd) => drop(rustix::io::write(fd, &1u64.to_ne_bytes())),
            Self::Thread(thread) => thread.unpark(),
        }
    }
}

/// The receiver of a wakeup: equal for two that wake the same one in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Receiver {
    /// The address of the function.
    Callback(usize),
    /// The addresses of the task and of its functions.
    Task(usize, usize),
    /// The address of the descriptor's owner.
    #[cfg(target_os = "linux")]
    EventFd(usize),
    Thread(std::thread::ThreadId),
}

impl fmt::Debug for Wakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Callback(_) => "Callback",
            Self::Task(_) => "Task",
            #[cfg(target_os = "linux")]
            Self::EventFd(_) => "EventFd",
            Self::Thread(_) => "Thread",
        })
    }
}
