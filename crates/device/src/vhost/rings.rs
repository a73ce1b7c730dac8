//! `Rings`: the rings of a guest, as far as the frontend has set them up. The handles of a card
//! share them, each for a thread of its own: a handle takes the frames of its own pairs, and the
//! first one obeys the frontend.
//!
//! Each ring has a lock, which nobody else asks for on the way of a frame unless the guest has
//! fewer pairs than the card has handles. So a ring that the frontend stops is left alone from then
//! on, whichever thread had it.

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::feature::Features;
use super::memory::Memory;
use super::ring::{Chain, Ring, RingError};

/// Most pairs of queues of a guest, and most handles of its card.
pub(super) const PAIRS: usize = 8;
/// Rings of a guest: two for each pair, and one for commands behind them.
pub(super) const RINGS: usize = 2 * PAIRS + 1;

/// The events of the descriptor of a handle: a connection, a message, the bell by which another
/// handle wakes it, and behind that the kick of each ring.
pub(super) const CONNECTION: u64 = 0;
pub(super) const MESSAGE: u64 = 1;
pub(super) const BELL: u64 = 2;
pub(super) const KICKS: u64 = 3;

/// The properties of a ring that are seen without its lock.
const ENABLED: u8 = 1;
const WORKS: u8 = 2;

/// A ring that has stopped by an error, until somebody asks.
pub(super) type Fault = (usize, RingError);

/// One ring.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The ring; `None` while it is stopped.
    pub(super) ring: Option<Ring>,
    /// The memory in which the ring lies.
    pub(super) memory: Arc<Memory>,
    /// The index at which a ring has stopped by an error.
    pub(super) failed_at: Option<u16>,
    /// True if the frontend lets frames pass.
    pub(super) enabled: bool,
    /// True if the ring may have more than the guest tells of.
    pub(super) awake: bool,
    /// True if chains were used of which the guest does not know.
    pub(super) news: bool,
    /// The handles that wait for chains of it: a bit each.
    pub(super) waiting: u8,
    /// It is readable when the guest has made chains available.
    pub(super) kick: Option<OwnedFd>,
    /// Tells the guest of used chains.
    pub(super) call: Option<OwnedFd>,
    /// True if the guest is to be told by a message, as it has no descriptor for that.
    pub(super) due: bool,
    /// Tells the frontend of an error of the ring.
    pub(super) err: Option<OwnedFd>,
}

impl Slot {
    pub(super) const fn works(&self) -> bool {
        self.enabled && self.ring.is_some()
    }

    /// Works on the ring. A ring with an error stops, and the answer is `None`, as for a stopped
    /// one.
    pub(super) fn work<T>(
        &mut self,
        chains: &mut [Chain],
        f: impl FnOnce(&mut Ring, &Memory, &mut [Chain]) -> Result<T, RingError>,
    ) -> Result<Option<T>, RingError> {
        let Some(ring) = &mut self.ring else { return Ok(None) };
        f(ring, &self.memory, chains).map(Some).inspect_err(|_| {
            self.failed_at = self.ring.take().map(|ring| ring.base());
            if let Some(err) = &self.err {
                signal(err);
            }
        })
    }

    /// Tells the guest of chains that were used, if there are some and it wants to know.
    ///
    /// # Errors
    /// The ring makes no sense, and has stopped.
    pub(super) fn flush(&mut self) -> Result<(), RingError> {
        if std::mem::take(&mut self.news)
            && self.work(&mut [], |ring, memory, _| ring.tells(memory))? == Some(true)
        {
            match &self.call {
                Some(call) => signal(call),
                None => self.due = true,
            }
        }
        Ok(())
    }

    /// Stops the ring. Returns the index at which it would go on; `None` if it was stopped before.
    pub(super) fn stop(&mut self) -> Option<u16> {
        self.ring.take().map(|ring| ring.base()).or_else(|| self.failed_at.take())
    }
}

/// A ring whose lock one has.
#[derive(Debug)]
pub(super) struct Held<'a> {
    slot: MutexGuard<'a, Slot>,
    rings: &'a Rings,
    at: usize,
}

impl Deref for Held<'_> {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Slot {
        &mut self.slot
    }
}

impl Drop for Held<'_> {
    /// Shows the state of the ring to those without its lock, which is held still. The handles that
    /// wait for a ring that does not work find another one, or none.
    fn drop(&mut self) {
        let enabled = if self.slot.enabled { ENABLED } else { 0 };
        let works = if self.slot.works() { WORKS } else { 0 };
        self.rings.shown[self.at].store(enabled | works, Ordering::Relaxed);
        if works == 0 && self.slot.waiting != 0 {
            self.rings.wake(std::mem::take(&mut self.slot.waiting));
        }
    }
}

/// The place of a handle: the descriptor that it waits for, and its bell.
#[derive(Debug)]
struct Seat {
    poll: OwnedFd,
    bell: OwnedFd,
}

/// The rings of a guest.
#[derive(Debug)]
pub(super) struct Rings {
    slots: [Mutex<Slot>; RINGS],
    shown: [AtomicU8; RINGS],
    features: AtomicU64,
    /// The pairs in use, where the guest says it by a command.
    used_pairs: AtomicUsize,
    seats: Vec<Seat>,
}

impl Rings {
    /// Makes the rings of a card with so many handles, at least one and at most [`PAIRS`].
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(super) fn new(handles: usize) -> Result<Self, Errno> {
        let seat = |_| {
            let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            epoll::add(&poll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
            Ok(Seat { poll, bell })
        };
        Ok(Self {
            slots: std::array::from_fn(|_| Mutex::default()),
            shown: std::array::from_fn(|_| AtomicU8::new(0)),
            features: AtomicU64::new(0),
            used_pairs: AtomicUsize::new(1),
            seats: (0..handles.clamp(1, PAIRS)).map(seat).collect::<Result<_, Errno>>()?,
        })
    }

    pub(super) const fn handles(&self) -> usize {
        self.seats.len()
    }

    /// Returns a ring, once nobody else works on it.
    pub(super) fn slot(&self, at: usize) -> Held<'_> {
        // A ring is whole at each place where its work may panic.
        let slot = self.slots[at].lock().unwrap_or_else(PoisonError::into_inner);
        Held { slot, rings: self, at }
    }

    /// Returns the features that the driver has accepted.
    pub(super) fn features(&self) -> Features {
        Features(self.features.load(Ordering::Relaxed))
    }

    pub(super) fn accept(&self, features: Features) {
        self.features.store(features.0, Ordering::Relaxed);
    }

    /// Returns the most pairs that the guest may have: one, unless its driver has accepted several.
    pub(super) fn pairs_max(&self) -> usize {
        if self.features().several_pairs() { PAIRS } else { 1 }
    }

    /// Returns the ring of commands, which is behind those of the pairs that the guest may have
    /// (VIRTIO 1.2 section 5.1.2); `None` if its driver has accepted none.
    pub(super) fn commands(&self) -> Option<usize> {
        self.features().commands().then_some(2 * self.pairs_max())
    }

    /// Returns the pairs that frames for the guest may go to.
    pub(super) fn pairs_in_use(&self) -> usize {
        // A frontend that has the queue of commands itself enables the rings in use instead.
        let says = self.commands().is_some_and(|at| self.works(at));
        let most = self.pairs_max();
        if says { self.used_pairs.load(Ordering::Relaxed).min(most) } else { most }
    }

    /// Notes the pairs that the guest uses by its own words.
    pub(super) fn use_pairs(&self, pairs: usize) {
        self.used_pairs.store(pairs, Ordering::Relaxed);
    }

    pub(super) fn works(&self, at: usize) -> bool {
        self.shown[at].load(Ordering::Relaxed) & WORKS != 0
    }

    /// Returns the pairs of which both rings work.
    pub(super) fn pairs(&self) -> usize {
        let works = |pair: &usize| self.works(2 * pair) && self.works(2 * pair + 1);
        (0..self.pairs_max()).filter(works).count()
    }

    pub(super) fn is_enabled(&self, at: usize) -> bool {
        self.shown[at].load(Ordering::Relaxed) & ENABLED != 0
    }

    /// Returns the handle that has a ring.
    pub(super) fn owner(&self, at: usize) -> usize {
        at / 2 % self.seats.len()
    }

    /// Returns the descriptor that a handle waits for.
    pub(super) fn poll(&self, handle: usize) -> BorrowedFd<'_> {
        self.seats[handle].poll.as_fd()
    }

    /// Waits for the kick of a ring, at the handle that has it.
    pub(super) fn await_kick(&self, at: usize, kick: &OwnedFd) -> Result<(), Errno> {
        let data = EventData::new_u64(KICKS + at as u64);
        epoll::add(self.poll(self.owner(at)), kick, data, EventFlags::IN)
    }

    /// Ends the wait for the kick of a ring. The frontend has the same descriptor: closing it here
    /// would not end it.
    pub(super) fn forget_kick(&self, at: usize, kick: OwnedFd) {
        let _ = epoll::delete(self.poll(self.owner(at)), kick);
    }

    /// Wakes these handles: a bit each.
    pub(super) fn wake(&self, handles: u8) {
        for (_, seat) in self.seats.iter().enumerate().filter(|(at, _)| handles & 1 << at != 0) {
            signal(&seat.bell);
        }
    }

    /// Reads the bell of a handle that has rung, which never waits.
    pub(super) fn silence(&self, handle: usize) {
        let _ = rustix::io::read(&self.seats[handle].bell, &mut [0; 8]);
    }

    /// Forgets the guest. All handles learn of it.
    pub(super) fn clear(&self) {
        for at in 0..RINGS {
            let mut slot = self.slot(at);
            // An error is of no interest any more.
            let _ = slot.flush();
            if let Some(kick) = slot.kick.take() {
                self.forget_kick(at, kick);
            }
            *slot = Slot::default();
        }
        self.accept(Features::default());
        self.use_pairs(1);
        self.wake(u8::MAX);
    }
}

/// Adds one to an event descriptor. A full one tells as well.
pub(super) fn signal(fd: &impl AsFd) {
    let _: Result<usize, Errno> = rustix::io::write(fd, &1u64.to_ne_bytes());
}
