//! `Queue::close`: the end of a queue that no thread sends on any more.

use std::time::Duration;

use txweir_core::path::device::TxQueue;
use txweir_core::{Meta, Nanos};

use crate::baton::Flags;
use crate::queue::{KICK, Queue, Rest, WORK};

/// Most time between two looks for completions, and least: a device that tells of them has nobody
/// to tell any more.
const LOOKS: (Nanos, Nanos) = (Nanos(1_000), Nanos(1_000_000));

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
        self.runner.baton.knock(Flags::NONE).map_or_else(Vec::new, |mut turn| turn.take_waiting())
    }
}
