//! Turns between threads: no sender has more than its quota waiting in a queue that it shares with
//! others.
//!
//! Senders on one thread yield by standing in line (`txweir_core::turns`). Senders on several
//! threads share no line, and a thread that sends ten times as eagerly has ten times the packets in
//! the admission list and in the qdiscs. Here each [`Worker`] may have a quota of segments between
//! it and the device. A worker that has used up its quota waits until the device has taken some,
//! and meanwhile the others' packets are sent. In a first-in, first-out queue each worker so has a
//! turn of one quota in every round.
//!
//! The charge ends with the packet: [`FairDevice`] stands before the real device, and every frame
//! that is pushed or dropped there is no longer charged to its worker. The path of a packet has no
//! lock: one addition and one subtraction on a word of the worker's own.
//!
//! - T1: a worker has less than the quota in the queue when it sends: at most the quota and one
//!   unit.
//! - T2: a worker that got `Wait` and asks to be woken ([`Worker::when_turn`]) is woken once it may
//!   send; at once if it may already.
//! - T3: a worker gets back every segment that it was charged, whatever the fate of the packet.
//!
//! `tests/loom_handoff.rs` runs every interleaving of a worker that waits and a thread that gives
//! segments back.

use std::fmt;
use std::sync::{Arc, Weak};

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::turns::Load;
use txweir_core::{Admitted, DropReason, Meta};

use crate::queue::{Handed, Queue};
use crate::sync::{AtomicU32, Mutex, Ordering, barrier, in_panic};
use crate::wake::Wakeup;

/// The segments that one worker has in a queue.
struct Account {
    /// Segments between the worker and the device.
    segs: AtomicU32,
    /// Segments that end its turn; 0: no limit. All workers of a queue share it.
    quota: Arc<AtomicU32>,
    /// 1 while the worker waits.
    waits: AtomicU32,
    waiter: Mutex<Option<Wakeup>>,
}

impl Account {
    fn is_spent(&self) -> bool {
        let quota = self.quota.load(Ordering::Relaxed);
        quota > 0 && self.segs.load(Ordering::Acquire) >= quota
    }

    /// Wakes the worker, if it waits and may send.
    fn tell(&self) {
        if let Some(waiter) = self.due() {
            waiter.wake();
        }
    }

    /// Takes out the wakeup of the worker, if it waits and may send.
    fn due(&self) -> Option<Wakeup> {
        // The waiting worker sets `waits`, then looks whether it may send. The thread that gives
        // segments back subtracts them, then looks at `waits`. With a fence between the two steps
        // on either side, one of them sees the other.
        barrier();
        if self.waits.load(Ordering::Relaxed) != 0
            && !self.is_spent()
            && self.waits.swap(0, Ordering::AcqRel) != 0
        {
            return self.waiter.lock().ok().and_then(|mut waiter| waiter.take());
        }
        None
    }
}

/// Segments that are charged to a worker until this is dropped.
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
        match self.account.due() {
            Some(waiter) if in_panic() => waiter.wake_in_panic(),
            Some(waiter) => waiter.wake(),
            None => {}
        }
    }
}

/// A frame, and the worker that is charged for it.
pub struct Owed<F> {
    /// The frame.
    pub frame: F,
    debt: Option<Debt>,
}

impl<F> Owed<F> {
    /// Creates a frame that is charged to no worker.
    pub const fn nobodys(frame: F) -> Self {
        Self { frame, debt: None }
    }

    /// Creates a piece of this frame, of `segs` segments: for a `Cutter`.
    pub fn piece(&self, frame: F, segs: u32) -> Self {
        Self { frame, debt: self.debt.as_ref().map(|debt| Debt::new(&debt.account, segs)) }
    }
}

impl<F: fmt::Debug> fmt::Debug for Owed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owed").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// A device that ends the charge of each frame's worker.
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
    fn was_reset(&mut self) {
        self.inner.was_reset();
    }
    fn is_done_at_commit(&mut self) -> bool {
        self.inner.is_done_at_commit()
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
    /// Creates turns of `quota` segments; 0: no limit.
    #[must_use]
    pub fn new(quota: u32) -> Self {
        Self { quota: Arc::new(AtomicU32::new(quota)), accounts: Mutex::new(Vec::new()) }
    }

    /// Returns the segments of a turn.
    #[must_use]
    pub fn quota(&self) -> u32 {
        self.quota.load(Ordering::Relaxed)
    }

    /// Sets the quota, from the next packet of each worker on.
    pub fn set_quota(&self, quota: u32) {
        self.quota.store(quota, Ordering::Relaxed);
        // A worker that is told may add another one: not while the lock is held.
        let accounts: Vec<Arc<Account>> = self
            .accounts
            .lock()
            .map(|accounts| accounts.iter().filter_map(Weak::upgrade).collect())
            .unwrap_or_default();
        accounts.iter().for_each(|account| account.tell());
    }

    /// Adds a worker: for one thread or task at a time.
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

/// The fate of a packet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<F> {
    /// It was handed to the queue.
    Handed(Handed<F>),
    /// It is the turn of other workers; the frame comes back.
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
    /// Returns the segments that the worker has between it and the device.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.account.segs.load(Ordering::Acquire)
    }

    /// Sends a packet, if it is the worker's turn. A packet without payload never waits.
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

    /// Has `wakeup` called once the worker may send; at once if it may already. A later call
    /// replaces the wakeup.
    pub fn when_turn(&self, wakeup: Wakeup) {
        if let Ok(mut waiter) = self.account.waiter.lock() {
            *waiter = Some(wakeup);
        }
        self.account.waits.store(1, Ordering::Release);
        self.account.tell();
    }
}
