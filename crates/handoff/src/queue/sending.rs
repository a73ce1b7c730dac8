//! `Sending`: a packet on its way into a queue, for a task that waits for room.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Detail, Meta};

use crate::queue::{Handed, Queue};
use crate::waiters::Place;
use crate::wake::Wakeup;

/// A packet that waits for room in a queue: see [`Queue::send_async`]. Nothing is sent before the
/// first poll.
#[must_use = "a packet is sent when this is polled"]
pub struct Sending<'a, D: TxQueue> {
    queue: &'a Queue<D>,
    /// The frame, until it has gone.
    frame: Option<D::Frame>,
    meta: Meta,
    detail: Option<Box<Detail>>,
    /// The request to be told of room.
    place: Option<Place>,
}

impl<D: TxQueue> Queue<D> {
    /// Sends as [`send`](Self::send) does, and waits for room if there is none. The future needs no
    /// runtime of its own. Its result is never `Done(Full(..))`.
    ///
    /// A future that is dropped before its end sends nothing and leaves no request behind. Its
    /// frame is dropped with it; [`Sending::into_packet`] returns it instead. The packets of one
    /// flow keep their order if each is awaited before the next is sent.
    ///
    /// ```
    /// use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// use txweir_core::{Admitted, Instant, Meta, PathConfig, TxPath, model::testing::VecDevice};
    /// use txweir_handoff::{Handed, Queue, QueueConfig, Wakeup};
    ///
    /// let path = TxPath::new(PathConfig::default())?.with_qdisc("pfifo", &["limit", "1"])?;
    /// let config = QueueConfig::new(|| Instant(1));
    /// let queue = Queue::new(path, VecDevice::with_slots(1), config, Wakeup::calling(|| {}));
    /// let task = async {
    ///     let mut fates = vec![];
    ///     for frame in ["a", "b", "c"] {
    ///         fates.push(queue.send_async(frame, Meta::new(1500)).await);
    ///     }
    ///     fates
    /// };
    /// let mut task = pin!(task);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(task.as_mut().poll(&mut cx).is_pending(), "there is room for two");
    /// queue.control().post(|owned| owned.dev.finish(1));
    /// queue.kick();
    /// let [sent, queued] = [Admitted::Sent, Admitted::Queued].map(Handed::Done);
    /// assert_eq!(task.poll(&mut cx), Poll::Ready(vec![sent, queued, Handed::Done(Admitted::Queued)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn send_async(&self, frame: D::Frame, meta: Meta) -> Sending<'_, D> {
        self.send_async_with(frame, meta, None)
    }

    /// Sends as `send_async` does, with facts about the packet beside its metadata: needed where
    /// [`wants_detail`](Self::wants_detail) is true.
    pub const fn send_async_with(
        &self,
        frame: D::Frame,
        meta: Meta,
        detail: Option<Box<Detail>>,
    ) -> Sending<'_, D> {
        Sending { queue: self, frame: Some(frame), meta, detail, place: None }
    }
}

impl<D: TxQueue> Sending<'_, D> {
    /// Ends the wait and returns the packet; `None` if it has gone.
    #[must_use]
    pub fn into_packet(mut self) -> Option<(D::Frame, Meta)> {
        Some((self.frame.take()?, self.meta))
    }

    /// Returns the facts beside the metadata, which a further try needs.
    pub const fn detail(&self) -> Option<&Detail> {
        match &self.detail {
            Some(detail) => Some(&**detail),
            None => None,
        }
    }

    /// Returns the metadata.
    pub(crate) const fn meta(&self) -> Meta {
        self.meta
    }

    /// Takes the facts beside the metadata out.
    pub(crate) const fn take_detail(&mut self) -> Option<Box<Detail>> {
        self.detail.take()
    }

    /// Tries once. Keeps a packet for which there is no room.
    fn try_once(&mut self) -> Option<Handed<D::Frame>> {
        let frame = self.frame.take()?;
        match self.queue.send_with(frame, self.meta, self.detail.as_deref()) {
            Handed::Done(Admitted::Full(frame)) => {
                self.frame = Some(frame);
                None
            }
            handed => Some(handed),
        }
    }

    /// Takes the request back.
    fn forget(&mut self) {
        if let Some(place) = self.place.take() {
            self.queue.runner.remove_waiter(place);
        }
    }
}

// Nothing in it is pinned.
impl<D: TxQueue> Unpin for Sending<'_, D> {}

impl<D: TxQueue> Future for Sending<'_, D> {
    type Output = Handed<D::Frame>;

    /// A poll after the end answers `Pending`.
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Handed<D::Frame>> {
        let this = self.get_mut();
        let mut handed = this.try_once();
        if handed.is_none() && this.frame.is_some() {
            // It asks first and tries once more, so that no wake-up is lost between the two. The
            // earlier request ends afterwards: a receiver that is still in the line keeps its
            // place.
            let place =
                this.queue.runner.add_waiter(Wakeup::Task(task.waker().clone()), Some(this.meta.hash));
            this.queue.look_for_room();
            this.forget();
            this.place = place;
            handed = this.try_once();
        }
        match handed {
            Some(handed) => {
                this.forget();
                Poll::Ready(handed)
            }
            None => Poll::Pending,
        }
    }
}

impl<D: TxQueue> Drop for Sending<'_, D> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl<D: TxQueue> fmt::Debug for Sending<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("waits", &self.place.is_some()).finish_non_exhaustive()
    }
}
