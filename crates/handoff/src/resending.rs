//! `Resending`: a frame that filters have seen, on its way into a queue, for a task that waits for
//! room.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use txweir_core::Admitted;
use txweir_core::path::device::TxQueue;

use crate::port::{Passed, Prepared, Sender};
use crate::queue::{Handed, Sending};

/// A frame that waits for room in the queue that was chosen for it: see [`Sender::resend_async`].
/// Nothing is sent before the first poll.
#[must_use = "a frame is sent when this is polled"]
pub struct Resending<'a, D: TxQueue> {
    /// `None`: the frame is for a queue of another port.
    sending: Option<Sending<'a, D>>,
    /// That frame.
    foreign: Option<Prepared<D::Frame>>,
    queue: u16,
}

impl<D: TxQueue> Sender<D> {
    /// Sends a frame that [`send_frame`](Self::send_frame) has given back as
    /// [`resend`](Self::resend) does, and waits for room if there is none. Filters are not asked
    /// again, and the facts beside the metadata are those of the first try. The future needs no
    /// runtime of its own. Its result is `Passed::Full` only for a frame of another port, which has
    /// more queues.
    ///
    /// A future that is dropped before its end sends nothing and leaves no request behind;
    /// [`Resending::into_prepared`] returns the frame.
    pub fn resend_async(&self, prepared: Prepared<D::Frame>) -> Resending<'_, D> {
        let queue = prepared.queue;
        let Some(to) = self.port().queues().get(usize::from(queue)) else {
            return Resending { sending: None, foreign: Some(prepared), queue };
        };
        let Prepared { frame, meta, detail, .. } = prepared;
        Resending { sending: Some(to.send_async_with(frame, meta, detail)), foreign: None, queue }
    }
}

impl<D: TxQueue> Resending<'_, D> {
    /// Ends the wait and returns the frame with all that a further try needs; `None` if it has
    /// gone.
    #[must_use]
    pub fn into_prepared(self) -> Option<Prepared<D::Frame>> {
        let Self { sending, foreign, queue } = self;
        let Some(mut sending) = sending else { return foreign };
        let detail = sending.take_detail();
        let (frame, meta) = sending.into_packet()?;
        Some(Prepared { frame, meta, detail, queue })
    }
}

// Nothing in it is pinned.
impl<D: TxQueue> Unpin for Resending<'_, D> {}

impl<D: TxQueue> Future for Resending<'_, D> {
    type Output = Passed<D::Frame>;

    /// A poll after the end answers `Pending`.
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Passed<D::Frame>> {
        let this = self.get_mut();
        if let Some(foreign) = this.foreign.take() {
            return Poll::Ready(Passed::Full(foreign));
        }
        let Some(sending) = &mut this.sending else { return Poll::Pending };
        Pin::new(&mut *sending).poll(task).map(|handed| match handed {
            Handed::Done(Admitted::Cut(frame, max)) => {
                let (meta, detail) = (sending.meta(), sending.take_detail());
                Passed::Cut(Prepared { frame, meta, detail, queue: this.queue }, max)
            }
            handed => Passed::Handed(this.queue, handed),
        })
    }
}

impl<D: TxQueue> fmt::Debug for Resending<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resending")
            .field("queue", &self.queue)
            .field("sending", &self.sending)
            .finish_non_exhaustive()
    }
}
