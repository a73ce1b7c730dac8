//! `Queue::close`: the end of a queue that no thread sends on any more.

use std::fmt;
use std::time::Duration;

use txweir_core::path::device::TxQueue;
use txweir_core::{Meta, Nanos, TxPath};

use crate::baton::Flags;
use crate::owned::Owned;
use crate::queue::{KICK, Queue, Rest, WORK};

/// Most time between two looks for completions, and least: a device that tells of them has nobody
/// to tell any more.
const LOOKS: (Nanos, Nanos) = (Nanos(1_000), Nanos(1_000_000));

/// The parts of a queue that has ended: see [`Queue::into_parts`].
pub struct QueueParts<D: TxQueue> {
    /// The path, with its qdiscs, their registry of kinds, and the packets that wait in them
    /// ([`TxPath::into_iter`] takes them out).
    pub path: TxPath<D::Frame>,
    /// The device.
    pub device: D,
    /// The packets of the list that were not in the path yet, in order.
    pub listed: Vec<(D::Frame, Meta)>,
}

impl<D: TxQueue> fmt::Debug for QueueParts<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, listed) = (self.path.backlog().packets, self.listed.len());
        f.debug_struct("QueueParts")
            .field("waiting", &waiting)
            .field("listed", &listed)
            .finish_non_exhaustive()
    }
}

impl<D: TxQueue> Queue<D> {
    /// Ends a queue: this thread runs it until the device has finished the last packet, at most for
    /// `within` by the queue's clock, and sleeps no longer than that where the clock stands still.
    /// Returns the packets that still wait then, each with its
    /// metadata: those of the qdiscs in order of arrival, then those of the admission list. Frames
    /// that the device finishes meanwhile go to `QueueConfig::done`.
    ///
    /// The queue takes no packet meanwhile: this call has it to itself, so all its senders have
    /// ended (`Arc::into_inner` tells so). With `within` zero it runs once.
    ///
    /// ```
    /// use txweir_core::{Instant, Meta, PathConfig, TxPath, model::testing::VecDevice};
    /// use txweir_handoff::{Queue, QueueConfig, Wakeup};
    ///
    /// let path = TxPath::new(PathConfig::default())?.with_qdisc("pfifo", &[])?;
    /// let config = QueueConfig::new(|| Instant(1));
    /// let queue = Queue::new(path, VecDevice::with_slots(1), config, Wakeup::calling(|| {}));
    /// for frame in ["a", "b", "c"] {
    ///     let _ = queue.send(frame, Meta::new(1500));
    /// }
    /// let left: Vec<_> = queue.close(std::time::Duration::ZERO).into_iter().map(|(frame, _)| frame).collect();
    /// assert_eq!(left, ["b", "c"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "frames that are numbers or addresses are to be freed"]
    pub fn close(self, within: Duration) -> Vec<(D::Frame, Meta)> {
        self.run_down(within);
        let QueueParts { path, listed, .. } = self.into_parts();
        path.into_iter().chain(listed).collect()
    }

    /// Runs the queue until the device has finished the last packet, at most for `within`.
    fn run_down(&self, within: Duration) {
        let (began, within) =
            (self.runner.now(), Nanos(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX)));
        let (mut pause, mut before, mut slept) = (LOOKS.0, None, Nanos(0));
        // Bound: each turn moves a packet or sleeps, and all sleep together is `within`.
        loop {
            let Some(turn) = self.runner.baton.knock(KICK.and(WORK)) else { break };
            let rest = self.runner.run(turn, "close", true);
            let Some(mut turn) = self.runner.baton.knock(Flags::NONE) else { break };
            let (waiting, in_flight) = (turn.waiting(), turn.in_flight());
            drop(turn);
            // The clock may stand still.
            let passed = self.runner.now().saturating_since(began).max(slept);
            let left = within.saturating_sub(passed);
            if (waiting == 0 && in_flight == 0) || left == Nanos(0) {
                break;
            }
            if before.replace((waiting, in_flight)) != Some((waiting, in_flight)) {
                pause = LOOKS.0;
                continue;
            }
            let due = match rest {
                Rest::At(at) if in_flight == 0 => at.saturating_since(self.runner.now()),
                _ => Nanos(u64::MAX),
            };
            let sleep = due.min(pause).min(left).max(Nanos(1));
            std::thread::sleep(Duration::from_nanos(sleep.0));
            slept = Nanos(slept.0.saturating_add(sleep.0));
            pause = Nanos(pause.0 * 2).min(LOOKS.1);
        }
    }

    /// Ends the queue and returns its parts as they are: for an owner that goes on with one thread,
    /// or puts the device to other use. Packets that the device has stay with it, and the path
    /// knows of them. A frame behind one at which `QueueConfig::done` has panicked goes there now.
    /// The queue takes no packet meanwhile, as in [`close`](Self::close).
    ///
    /// ```
    /// use txweir_core::{Instant, Meta, PathConfig, TxPath, Wake, model::testing::VecDevice};
    /// use txweir_handoff::{Queue, QueueConfig, Wakeup};
    ///
    /// let path = TxPath::new(PathConfig::default())?.with_qdisc("pfifo", &[])?;
    /// let config = QueueConfig::new(|| Instant(1));
    /// let queue = Queue::new(path, VecDevice::with_slots(1), config, Wakeup::calling(|| {}));
    /// for frame in ["a", "b"] {
    ///     let _ = queue.send(frame, Meta::new(1500));
    /// }
    /// let mut parts = queue.into_parts();
    /// parts.device.finish(1);
    /// parts.path.reap(Instant(2), &mut parts.device, |_| {});
    /// assert_eq!(parts.path.drain(Instant(2), 64, &mut parts.device), Wake::Idle);
    /// assert_eq!((parts.device.sent(), parts.listed.len()), (["a", "b"].as_slice(), 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "frames that are numbers or addresses are to be freed"]
    pub fn into_parts(self) -> QueueParts<D> {
        let mut owned = self.runner.baton.into_inner();
        owned.path.doorbell(&mut owned.dev);
        owned.give_back();
        let listed = owned.take_listed();
        let Owned { path, dev: device, .. } = owned;
        QueueParts { path, device, listed }
    }
}
