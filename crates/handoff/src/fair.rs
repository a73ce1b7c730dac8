//! Turns between threads: no sender has more than its quota waiting in a queue that others send by as well.
//!
//! Senders on one thread yield by standing in line (`txweir_core::turns`). Senders on several threads share no line, and a
//! thread that sends ten times as eagerly has ten times the packets in the admission list and in the qdiscs. Here each
//! [`Worker`] may have so many segments between it and the device; once they are used up it waits until some have gone to the
//! device, and meanwhile the others' packets go. In a queue that is first in, first out, that is a turn of the quota for each
//! in every round.
//!
//! What is counted comes back with the packet: [`FairDevice`] stands before the real device, and what is pushed or dropped
//! there is not owed any more. There is no lock on the way of a packet: an addition and a subtraction on a word that is the
//! worker's own.
//!
//! - T1: a worker has less than the quota in the queue when it sends: at most the quota and one unit.
//! - T2: who was told `Wait` and asks to be woken ([`Worker::when_turn`]) is woken once it may send; at once if it may already.
//! - T3: what a worker is counted it gets back, whatever becomes of the packet.
//!
//! `tests/loom_handoff.rs` goes through the interleavings of who waits and who gives back.

use std::fmt;
use std::sync::{Arc, Weak};

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::turns::Load;
use txweir_core::{Admitted, DropReason, Meta};

use crate::queue::{Handed, Queue};
use crate::sync::{AtomicU32, Mutex, Ordering, barrier};
use crate::wake::Wakeup;

/// What one worker has in a queue.
struct Account {
    /// Segments between it and the device.
    segs: AtomicU32,
    /// How many end its turn; 0: none. All workers of a queue share it.
    quota: Arc<AtomicU32>,
    /// 1: it waits.
    waits: AtomicU32,
    waiter: Mutex<Option<Wakeup>>,
}

impl Account {
    fn is_spent(&self) -> bool {
        let quota = self.quota.load(Ordering::Relaxed);
        quota > 0 && self.segs.load(Ordering::Acquire) >= quota
    }

    /// Wakes it, if it waits and may send.
    fn tell(&self) {
        // Who waits says so, then looks whether it may send; who gives back does that, then looks whether anybody waits. With a
        // fence between the two on either side, one of them sees the other.
        barrier();
        if self.waits.load(Ordering::Relaxed) != 0
            && !self.is_spent()
            && self.waits.swap(0, Ordering::AcqRel) != 0
            && let Some(waiter) = self.waiter.lock().ok().and_then(|mut waiter| waiter.take())
        {
            waiter.wake();
        }
    }
}

/// Segments that count for a worker until this is dropped.
struct Debt {
    account: Arc<Account>,
    segs: u32,
}

impl Debt {
    fn new(account: &Arc<Account>, segs: u32) -> Self {
        account.segs.fetch_add(segs, Ordering::AcqRel);
        Self { account: Arc::clone(account), segs }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        self.account.segs.fetch_sub(self.segs, Ordering::AcqRel);
        self.account.tell();
    }
}

/// A frame, and whose it is.
pub struct Owed<F> {
    /// The frame.
    pub frame: F,
    debt: Option<Debt>,
}

impl<F> Owed<F> {
    /// A frame that counts for nobody.
    pub const fn nobodys(frame: F) -> Self {
        Self { frame, debt: None }
    }

    /// A piece of this one, of so many segments: for a `Cutter`.
    pub fn piece(&self, frame: F, segs: u32) -> Self {
        Self { frame, debt: self.debt.as_ref().map(|debt| Debt::new(&debt.account, segs)) }
    }
}

impl<F: fmt::Debug> fmt::Debug for Owed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owed").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// A device that gives back what its senders were counted.
#[derive(Debug)]
pub struct FairDevice<D> {
    /// The device.
    pub inner: D,
}

impl<D: TxQueue> TxQueue for FairDevice<D> {
    type Frame = Owed<D::Frame>;

    fn reserve(&mut self, want: u32) -> u32 {
        self.inner.reserve(want)
    }
    fn push(&mut self, owed: Self::Frame, m: &Meta) {
        self.inner.push(owed.frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.inner.commit()
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Self::Frame>)) {
        self.inner.reap(&mut |Completed { packets, bytes, frame }| {
            sink(Completed { packets, bytes, frame: frame.map(Owed::nobodys) });
        });
    }
    fn copy(&mut self, owed: &Self::Frame) -> Option<Self::Frame> {
        self.inner.copy(&owed.frame).map(Owed::nobodys)
    }
    fn corrupt(&mut self, owed: &mut Self::Frame, bit: u32) {
        self.inner.corrupt(&mut owed.frame, bit);
    }
    fn discard(&mut self, owed: Self::Frame, m: &Meta, reason: DropReason) {
        self.inner.discard(owed.frame, m, reason);
    }
}

/// The workers that share a queue, and their quota.
#[derive(Default)]
pub struct Turns {
    quota: Arc<AtomicU32>,
    accounts: Mutex<Vec<Weak<Account>>>,
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("quota", &self.quota()).finish_non_exhaustive()
    }
}

impl Turns {
    /// Turns of so many segments; 0: as many as each likes.
    #[must_use]
    pub fn new(quota: u32) -> Self {
        Self { quota: Arc::new(AtomicU32::new(quota)), accounts: Mutex::new(Vec::new()) }
    }

    /// Segments of a turn.
    #[must_use]
    pub fn quota(&self) -> u32 {
        self.quota.load(Ordering::Relaxed)
    }

    /// Another quota, from the next packet of each worker on.
    pub fn set_quota(&self, quota: u32) {
        self.quota.store(quota, Ordering::Relaxed);
        if let Ok(accounts) = self.accounts.lock() {
            accounts.iter().filter_map(Weak::upgrade).for_each(|account| account.tell());
        }
    }

    /// A worker more: for one thread or task at a time.
    #[must_use]
    pub fn worker(&self) -> Worker {
        let account = Arc::new(Account {
            segs: AtomicU32::new(0),
            quota: Arc::clone(&self.quota),
            waits: AtomicU32::new(0),
            waiter: Mutex::new(None),
        });
        if let Ok(mut accounts) = self.accounts.lock() {
            accounts.retain(|account| account.strong_count() > 0);
            accounts.push(Arc::downgrade(&account));
        }
        Worker { account }
    }
}

/// What became of a packet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<F> {
    /// It was handed to the queue.
    Handed(Handed<F>),
    /// It is the others' turn; the frame comes back.
    Wait(F),
}

/// A sender among others.
pub struct Worker {
    account: Arc<Account>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("waiting", &self.waiting()).finish()
    }
}

impl Worker {
    /// Segments that it has between it and the device.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.account.segs.load(Ordering::Acquire)
    }

    /// Sends a packet, if it is its turn. What carries no payload never waits.
    pub fn send<D: TxQueue>(
        &self,
        queue: &Queue<FairDevice<D>>,
        frame: D::Frame,
        meta: Meta,
    ) -> Taken<D::Frame> {
        let segs = Load::of(&meta).segs;
        if segs > 0 && self.account.is_spent() {
            return Taken::Wait(frame);
        }
        let debt = Some(Debt::new(&self.account, segs));
        Taken::Handed(match queue.send(Owed { frame, debt }, meta) {
            Handed::Listed => Handed::Listed,
            Handed::Done(done) => Handed::Done(match done {
                Admitted::Sent => Admitted::Sent,
                Admitted::Queued => Admitted::Queued,
                Admitted::Dropped(reason) => Admitted::Dropped(reason),
                Admitted::Cut(owed, max) => Admitted::Cut(owed.frame, max),
                Admitted::Full(owed) => Admitted::Full(owed.frame),
            }),
        })
    }

    /// Has `wakeup` told once it may send; at once if it may. One at a time: a later one replaces it.
    pub fn when_turn(&self, wakeup: Wakeup) {
        if let Ok(mut waiter) = self.account.waiter.lock() {
            *waiter = Some(wakeup);
        }
        self.account.waits.store(1, Ordering::Release);
        self.account.tell();
    }
}
