//! `Fence`: after a change of the queues of a port, nothing leaves until the device has finished
//! the packets that it had before, whichever threads see it finish them.

use std::fmt;

use crate::sync::{AtomicU32, Ordering};

/// The queues whose devices have packets from before a change. The last to finish opens the fence.
pub(crate) struct Fence {
    left: AtomicU32,
    open: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Fence {
    /// Creates a fence that waits for this many queues, and then calls `open`.
    #[cfg(not(loom))]
    pub(crate) fn new(queues: u32, open: impl Fn() + Send + Sync + 'static) -> Self {
        Self { left: AtomicU32::new(queues), open: Box::new(open) }
    }

    /// Says that the device of a queue has finished its packets from before the change. Each queue
    /// says so once.
    pub(crate) fn arrive(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.open)();
        }
    }
}
