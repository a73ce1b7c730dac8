//! A device that is a ring to another thread, as a VMM, a sandbox or a test puts behind a queue.
//!
//! Each side tells the other only when the other has said that it will sleep. The side that will
//! sleep sets its flag, looks once more, and sleeps. The other side publishes, and then looks at
//! the flag. A full barrier stands between the two steps on both sides. Each side looks only at the
//! words that the other publishes, never at its own index as a sign of the other's state (that
//! mistake stalled Linux's veth for good, CVE-2025-68232).
//!
//! The sending side says that it will sleep by a `reap` that finds nothing, which is the last step
//! of a queue before it rests because of the device.

use std::collections::VecDeque;
use std::sync::Arc;

use txweir_core::Meta;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};

use crate::list::{Append, Take, list};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, barrier, fence};
use crate::wake::Wakeup;

#[derive(Debug)]
struct Shared {
    /// Packets that the receiver has finished.
    finished: AtomicU64,
    /// 1 while the sender rests: it is to be told of the next packet that is finished.
    sender_rests: AtomicU32,
    /// 1 while the receiver rests: it is to be told of the next packet that is shown.
    receiver_rests: AtomicU32,
    /// Tells the sender: its queue's `kick`.
    kick: Mutex<Option<Wakeup>>,
    /// Tells the receiver.
    doorbell: Wakeup,
}

/// The sending end: a device's queue.
pub struct RingSender<F> {
    out: Append<(F, u32)>,
    shared: Arc<Shared>,
    slots: u64,
    pushed: u64,
    reaped: u64,
    /// Bytes of each packet that was pushed and not reaped.
    sizes: VecDeque<u32>,
}

/// The receiving end.
pub struct RingReceiver<F> {
    from: Take<(F, u32)>,
    shared: Arc<Shared>,
}

impl<F> std::fmt::Debug for RingSender<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingSender")
            .field("slots", &self.slots)
            .field("pushed", &self.pushed)
            .finish_non_exhaustive()
    }
}

impl<F> std::fmt::Debug for RingReceiver<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingReceiver").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Creates a ring of `slots` slots, rounded up to a power of two; `doorbell` tells the receiver
/// that packets are there.
pub fn ring<F>(slots: usize, doorbell: Wakeup) -> (RingSender<F>, RingReceiver<F>) {
    let (out, from) = list(slots, false);
    let shared = Arc::new(Shared {
        finished: AtomicU64::new(0),
        sender_rests: AtomicU32::new(0),
        receiver_rests: AtomicU32::new(0),
        kick: Mutex::new(None),
        doorbell,
    });
    let sender = RingSender {
        slots: out.places() as u64,
        sizes: VecDeque::with_capacity(out.places()),
        out,
        shared: Arc::clone(&shared),
        pushed: 0,
        reaped: 0,
    };
    (sender, RingReceiver { from, shared })
}

impl<F> TxQueue for RingSender<F> {
    type Frame = F;

    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        // A finished packet frees its slot once it is reaped, as with the byte limit.
        let free = self.slots.saturating_sub(self.pushed - self.reaped);
        want.min(u32::try_from(free).unwrap_or(u32::MAX))
    }
    #[inline]
    fn push(&mut self, frame: F, m: &Meta) {
        // A promised slot is free: its packet was finished, and before that taken from the list.
        if self.out.push((frame, m.wire_len), None).is_ok() {
            self.pushed += 1;
            self.sizes.push_back(m.wire_len);
        }
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        fence(Ordering::SeqCst);
        if self.shared.receiver_rests.load(Ordering::Relaxed) == 1
            && self.shared.receiver_rests.swap(0, Ordering::AcqRel) == 1
        {
            self.shared.doorbell.wake();
        }
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        let mut finished = self.shared.finished.load(Ordering::Acquire);
        if finished == self.reaped {
            self.shared.sender_rests.swap(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            finished = self.shared.finished.load(Ordering::Acquire);
        }
        let packets = finished - self.reaped;
        if packets > 0 {
            self.reaped = finished;
            let many = usize::try_from(packets).unwrap_or(usize::MAX).min(self.sizes.len());
            let bytes = self.sizes.drain(..many).fold(0u32, u32::saturating_add);
            sink(Completed { packets: u32::try_from(packets).unwrap_or(u32::MAX), bytes, frame: None });
        }
    }
}

impl<F> RingReceiver<F> {
    /// Sets the wakeup that tells the sender of finished packets: its queue's `kick`. It must be
    /// set before a packet is received.
    pub fn on_finished(&self, kick: Wakeup) {
        if let Ok(mut slot) = self.shared.kick.lock() {
            *slot = Some(kick);
        }
    }

    /// Takes the next packet, and its bytes on the wire. The packet occupies its slot until it is
    /// [`finish`](Self::finish)ed.
    #[inline]
    pub fn pop(&mut self) -> Option<(F, u32)> {
        self.from.pop(&mut ()).map(|(item, _)| item)
    }

    /// Does the same as `pop`; if there is no packet, the doorbell will ring for the next.
    pub fn pop_or_rest(&mut self) -> Option<(F, u32)> {
        self.pop().or_else(|| {
            self.shared.receiver_rests.swap(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.pop()
        })
    }

    /// Says that the receiver has finished this number of received packets.
    #[inline]
    pub fn finish(&self, packets: u64) {
        self.shared.finished.fetch_add(packets, Ordering::Release);
        barrier();
        if self.shared.sender_rests.load(Ordering::Relaxed) == 1 {
            self.tell();
        }
    }

    #[inline(never)]
    fn tell(&self) {
        if self.shared.sender_rests.swap(0, Ordering::AcqRel) == 1 {
            let kick = self.shared.kick.lock().ok().and_then(|k| k.clone());
            if let Some(kick) = kick {
                kick.wake();
            }
        }
    }
}
