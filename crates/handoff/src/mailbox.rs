//! A mailbox: many threads put items in, one takes them, and sleeps in whatever it waits in while
//! there are none.
//!
//! The reader that will sleep sets its flag, looks once more, and sleeps. A writer publishes an
//! item, and at the end of its burst looks at the flag. A full barrier stands between the two steps
//! on both sides, so one of them sees the other's. The items of one writer come out in the order in
//! which they were put in. The box is bounded: a full one gives the item back.

use std::sync::Arc;

use crate::list::{Append, Take, list};
use crate::sync::{AtomicU32, Ordering, barrier};
use crate::wake::Wakeup;

/// The reader's flag, and the way to wake it.
#[derive(Debug)]
struct Bell {
    /// 1 while the reader sleeps, or is about to.
    rests: AtomicU32,
    wakeup: Wakeup,
}

/// The end at which a thread puts items in.
pub struct Post<T> {
    list: Append<T>,
    bell: Arc<Bell>,
}

/// The end at which one thread takes items.
pub struct Mailbox<T> {
    list: Take<T>,
    bell: Arc<Bell>,
}

impl<T> std::fmt::Debug for Post<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("bell", &self.bell).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("bell", &self.bell).finish_non_exhaustive()
    }
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        Self { list: self.list.clone(), bell: Arc::clone(&self.bell) }
    }
}

/// Makes a mailbox of this many places, rounded up to a power of two and at least 2. `wakeup` ends
/// the sleep of its reader.
#[must_use]
pub fn mailbox<T>(places: usize, wakeup: Wakeup) -> (Post<T>, Mailbox<T>) {
    let (append, take) = list(places, false);
    let bell = Arc::new(Bell { rests: AtomicU32::new(0), wakeup });
    (Post { list: append, bell: Arc::clone(&bell) }, Mailbox { list: take, bell })
}

impl<T> Post<T> {
    /// Puts an item in. The writer rings later, once for a burst.
    ///
    /// # Errors
    /// The box is full: the item comes back.
    #[inline]
    pub fn put(&self, item: T) -> Result<(), T> {
        self.list.push(item, None).map(|_| ())
    }

    /// Wakes the reader if it sleeps. A writer calls this after its last [`put`](Self::put), before
    /// it sleeps itself.
    #[inline]
    pub fn ring(&self) {
        barrier();
        if self.bell.rests.load(Ordering::Relaxed) == 1 && self.bell.rests.swap(0, Ordering::AcqRel) == 1 {
            self.bell.wakeup.wake();
        }
    }
}

impl<T> Mailbox<T> {
    /// Takes the next item.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        self.list.pop(&mut ()).map(|(item, _)| item)
    }

    /// Says that the reader is about to sleep. False if an item is there: then it does not sleep.
    /// An item that is just being written counts as none, because its writer rings afterwards.
    #[must_use]
    pub fn may_rest(&self) -> bool {
        self.bell.rests.swap(1, Ordering::Relaxed);
        barrier();
        if self.list.is_ready() {
            self.bell.rests.swap(0, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Says that the reader does not sleep any more: no writer needs to wake it.
    pub fn is_up(&self) {
        self.bell.rests.swap(0, Ordering::Relaxed);
    }

    /// Returns the number of items in the box, those included that are just being written.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.list.used()
    }

    /// True if no item is in the box.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn counting() -> (Wakeup, Arc<AtomicUsize>) {
        let rung = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rung);
        let ring = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        (Wakeup::calling(ring), rung)
    }

    #[test]
    fn only_a_reader_that_sleeps_is_woken_and_only_once() {
        let (wakeup, rung) = counting();
        let (post, mut mailbox) = mailbox(4, wakeup);
        assert_eq!((post.put(1), post.ring(), rung.load(Ordering::Relaxed)), (Ok(()), (), 0));
        assert!(!mailbox.may_rest(), "an item is there");
        assert_eq!((mailbox.take(), mailbox.take()), (Some(1), None));
        assert!(mailbox.may_rest());
        let others = post.clone();
        assert_eq!((post.put(2), others.put(3)), (Ok(()), Ok(())));
        post.ring();
        others.ring();
        assert_eq!((rung.load(Ordering::Relaxed), mailbox.len()), (1, 2));
    }

    #[test]
    fn a_full_box_gives_the_item_back() {
        let (post, mut mailbox) = mailbox(2, counting().0);
        assert_eq!([post.put(1), post.put(2), post.put(3)], [Ok(()), Ok(()), Err(3)]);
        assert_eq!((mailbox.take(), post.put(3), mailbox.len()), (Some(1), Ok(()), 2));
    }
}
