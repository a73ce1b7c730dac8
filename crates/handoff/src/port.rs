//! `SharedPort`: several queues, and the decisions ahead of them, for any number of threads.
//!
//! A [`Policy`] decides: filters, actions and the choice of a queue, published as a whole. A sender
//! reads the current policy when it sends, without a lock and without writing a shared word, and
//! classifies with it to the end. A new policy never waits for readers, and readers never wait for
//! it. The counters and memories of filters and actions are each sender's own, and the port adds
//! them up.

use std::fmt;
use std::sync::{Arc, Mutex, TryLockError, Weak};

use arc_swap::{ArcSwap, Cache};
use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::{FrameBytes, Outlet, Packet, PortId};
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::path::device::TxQueue;
use txweir_core::path::entry::{Entry, Hooked, Passed as Entered, Ways};
use txweir_core::path::{select, select::Selector};
use txweir_core::{Admitted, Detail, Instant, Meta, Tree};

use crate::queue::{Handed, Queue};
use crate::readers::{Reader, Readers, lock};

/// The decisions ahead of the queues.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The rule that chooses a queue.
    pub selector: Selector,
    /// True if the qdiscs of one queue feed all: that queue takes every packet, whatever queue is
    /// chosen for it.
    pub merged: bool,
    /// Filters and actions.
    pub filters: Filters,
    /// The filters that every packet meets before its queue is chosen.
    pub egress: Option<BlockId>,
    /// For each queue, the qdiscs whose filters are asked ahead of it: made by the commands that
    /// made the queue's own.
    pub shapes: Vec<Option<Arc<Tree>>>,
    /// The number by which actions know this port.
    pub port: PortId,
    /// True if TCP control segments are marked as such (`Meta::tcp_control`): some qdiscs send them
    /// first.
    pub prio_synack: bool,
}

/// Several queues, and a policy.
pub struct SharedPort<D: TxQueue> {
    queues: Vec<Arc<Queue<D>>>,
    policy: ArcSwap<Policy>,
    /// Held by the one writer.
    writer: Mutex<()>,
    readers: Readers,
    hasher: FlowHasher,
}

impl<D: TxQueue> fmt::Debug for SharedPort<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPort").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<D: TxQueue> SharedPort<D> {
    /// Creates a port of these queues, in the order of their numbers. The seed keys the flow hash.
    /// It must be secret where strangers send.
    #[must_use]
    pub fn new(queues: Vec<Arc<Queue<D>>>, seed: u64) -> Arc<Self> {
        let many = u16::try_from(queues.len()).unwrap_or(u16::MAX);
        let policy = Policy {
            selector: Selector::new(many),
            merged: false,
            filters: Filters::new().with_seed(seed),
            egress: None,
            shapes: Vec::new(),
            port: PortId::NONE,
            prio_synack: true,
        };
        Arc::new(Self {
            queues,
            policy: ArcSwap::from_pointee(policy),
            writer: Mutex::new(()),
            readers: Readers::default(),
            hasher: FlowHasher::new(seed),
        })
    }

    /// Returns the queues.
    #[must_use]
    pub fn queues(&self) -> &[Arc<Queue<D>>] {
        &self.queues
    }

    /// Returns the policy that packets meet now.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Changes the policy: `f` gets a copy, whose tables are shared with the policy in use until
    /// they are changed. If `f` succeeds, the next packet meets the copy; otherwise nothing
    /// changes.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn change<E>(&self, f: impl FnOnce(&mut Policy) -> Result<(), E>) -> Result<(), E> {
        let _one = lock(&self.writer);
        let mut policy = Policy::clone(&self.policy.load());
        f(&mut policy)?;
        self.policy.store(Arc::new(policy));
        Ok(())
    }

    /// Creates a handle to send by, for one thread or task at a time; clones are for others.
    #[must_use]
    pub fn sender(self: &Arc<Self>) -> Sender<D> {
        Sender {
            policy: Cache::new(ArcOf(Arc::clone(self))),
            port: Arc::clone(self),
            who: select::Sender::default(),
            reader: self.readers.add(State::new(self.hasher.draws())),
            fitted: Weak::new(),
        }
    }

    /// Returns the counters of the filters and actions of the present policy: the sum of all
    /// senders, those that have ended too. The time is in proportion to the senders and the
    /// counters, and a sender that has a frame in its filters is waited for: an [`Outlet`] must not
    /// call this, and neither make nor end a sender of this port.
    #[must_use]
    pub fn state(&self) -> State {
        let _one = lock(&self.writer);
        self.readers.sum(&self.policy.load().filters)
    }
}

/// The place where a cache finds the policy of a port that it shares.
struct ArcOf<D: TxQueue>(Arc<SharedPort<D>>);

impl<D: TxQueue> std::ops::Deref for ArcOf<D> {
    type Target = ArcSwap<Policy>;
    fn deref(&self) -> &ArcSwap<Policy> {
        &self.0.policy
    }
}

impl<D: TxQueue> Clone for ArcOf<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A handle to send by. Cloning it costs a few counters; a clone has counters and memories of its
/// own.
pub struct Sender<D: TxQueue> {
    port: Arc<SharedPort<D>>,
    policy: Cache<ArcOf<D>, Arc<Policy>>,
    who: select::Sender,
    reader: Reader,
    /// The policy that the state has room for. While this is here, no later one has its address.
    fitted: Weak<Policy>,
}

impl<D: TxQueue> fmt::Debug for Sender<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("who", &self.who).finish_non_exhaustive()
    }
}

impl<D: TxQueue> Clone for Sender<D> {
    fn clone(&self) -> Self {
        let mut sender = self.port.sender();
        sender.who = self.who;
        sender
    }
}

impl<D: TxQueue> Drop for Sender<D> {
    fn drop(&mut self) {
        let port = &self.port;
        // A writer that is at work adds the counts later.
        let writer = match port.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let policy = writer.is_some().then(|| port.policy.load());
        port.readers.end(&self.reader, policy.as_ref().map(|policy| &policy.filters));
    }
}

/// A frame that filters and actions have seen, for the queue that was chosen then.
/// [`Sender::resend`] sends it; [`Sender::send_frame`] would apply the actions a second time.
#[derive(Debug, PartialEq, Eq)]
pub struct Prepared<F> {
    /// The frame, as actions have left it.
    pub frame: F,
    /// Its metadata, as filters and actions have left it.
    pub meta: Meta,
    /// Facts beside the metadata, where the queue wants them.
    pub(crate) detail: Option<Box<Detail>>,
    pub(crate) queue: u16,
}

impl<F> Prepared<F> {
    /// Returns the number of the queue that the frame is for.
    #[must_use]
    pub const fn queue(&self) -> u16 {
        self.queue
    }

    /// Creates a piece of this frame, for the same queue and with the results of the same filters.
    /// `meta` is this frame's metadata with the size and the segments of the piece.
    #[must_use]
    pub fn piece(&self, frame: F, meta: Meta) -> Self {
        Self { frame, meta, detail: self.detail.clone(), queue: self.queue }
    }
}

/// The fate of a frame.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Passed<F> {
    /// It was handed to the queue of this number; the fate is neither `Full` nor `Cut`.
    Handed(u16, Handed<F>),
    /// There is no room. The frame comes back, for [`Sender::resend`].
    Full(Prepared<F>),
    /// A qdisc takes the frame only in pieces of at most this many bytes. The caller cuts it and
    /// sends each piece ([`Prepared::piece`], [`Sender::resend`]).
    Cut(Prepared<F>, u32),
    /// Filters ahead of the queue dropped the frame; it comes back.
    Filtered(F),
    /// An action has taken the frame, or has sent it elsewhere; the rest of it comes back.
    Taken(F),
}

impl<D: TxQueue> Sender<D> {
    /// Sets the worker that sends, for selectors that choose a queue by it.
    pub const fn set_worker(&mut self, worker: u32) {
        self.who.worker = worker;
    }

    /// Returns the counters and memories of filters and actions for the packets that were sent
    /// here. [`SharedPort::state`] has those of all senders.
    #[must_use]
    pub fn state(&self) -> State {
        lock(&self.reader).clone()
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> &Arc<SharedPort<D>> {
        &self.port
    }

    /// Sends a packet whose metadata is known, without asking filters. Returns the chosen queue and
    /// the fate of the packet.
    #[inline]
    pub fn send(&mut self, frame: D::Frame, mut meta: Meta) -> (u16, Handed<D::Frame>) {
        let to = match self.port.queues.len() {
            0 => return (0, Handed::Done(Admitted::Full(frame))),
            1 => {
                meta.queue = 0;
                0
            }
            queues => place(self.policy.load(), &self.who, queues, &mut meta),
        };
        (meta.queue, self.port.queues[usize::from(to)].send(frame, meta))
    }

    /// Sends packets whose metadata is known, without asking filters, by the policy at the start of
    /// the burst. Packets in a row for one queue go in one turn of it ([`Queue::send_burst`]). The
    /// burst ends at the first packet that finds no room; that one comes back, and `Meta::queue`
    /// names its queue. Returns the number of packets sent before it, and that packet.
    ///
    /// With several queues, packets go to a list one by one: how many in a row are for one queue is
    /// known only at the next of another.
    pub fn send_burst(
        &mut self,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        let Self { port, policy, who, .. } = self;
        let queues = &port.queues[..];
        if queues.is_empty() {
            return (0, packets.next());
        }
        if let [queue] = queues {
            return queue.send_burst(&mut packets.map(|(frame, mut meta)| {
                meta.queue = 0;
                (frame, meta)
            }));
        }
        let policy = policy.load();
        let mut placed =
            packets.map(|(frame, mut meta)| (place(policy, who, queues.len(), &mut meta), frame, meta));
        let (mut went, mut first) = (0, placed.next());
        // Bound: the packets of the burst, because each turn takes one at least.
        while let Some((to, frame, meta)) = first.take() {
            let rest = std::iter::from_fn(|| {
                // A queue may ask again after the end of its packets.
                let (other, frame, next) = if first.is_none() { placed.next() } else { None }?;
                if other != to {
                    first = Some((other, frame, next));
                    return None;
                }
                Some((frame, next))
            });
            let mut row = std::iter::once((frame, meta)).chain(rest);
            let (sent, refused) = queues[usize::from(to)].send_burst(&mut row);
            went += sent;
            if refused.is_some() {
                return (went, refused);
            }
        }
        (went, None)
    }

    /// Reads a frame's headers, asks the filters of the port and of the qdiscs, chooses a queue,
    /// and sends. Copies that actions make go to `outlet`.
    ///
    /// `shape` may complete the metadata before any filter is asked: segments of a super-frame, a
    /// mark, a priority.
    ///
    /// A frame that finds no room comes back as [`Passed::Full`] and is sent again by
    /// [`resend`](Self::resend): a second call of this function would apply the actions twice.
    pub fn send_frame(
        &mut self,
        mut frame: D::Frame,
        shape: impl FnOnce(&mut Meta),
        outlet: &mut dyn Outlet,
    ) -> Passed<D::Frame>
    where
        D::Frame: FrameBytes,
    {
        let headers = Headers::parse_ethernet(frame.bytes());
        let mut meta = Meta::new(u32::try_from(frame.bytes().len()).unwrap_or(u32::MAX))
            .hash(self.port.hasher.five_tuple(&headers))
            .priority(headers.tos_priority())
            .ecn(headers.ecn());
        // The lock comes before the policy: see `Readers`.
        let mut state = lock(&self.reader);
        // Borrowed, not cloned: every sender would write the count of a shared `Arc` for each
        // packet.
        let policy = self.policy.load();
        (meta.ds, meta.protocol, meta.tcp_control) =
            (headers.ds, headers.ethertype, policy.prio_synack && headers.is_tcp_control());
        shape(&mut meta);
        if !std::ptr::eq(self.fitted.as_ptr(), Arc::as_ptr(policy)) {
            policy.filters.fit(&mut state);
            self.fitted = Arc::downgrade(policy);
        }
        let queues = self.port.queues.len();
        let asks = policy.egress.is_some() || !policy.shapes.is_empty();
        let now = if asks {
            self.port.queues.first().map_or(Instant::ZERO, |q| q.status().now())
        } else {
            Instant::ZERO
        };
        let mut packet = Packet::new(&mut frame, &mut meta, headers);
        packet.marks = policy.prio_synack;
        let mut entry = Entry::new(&policy.filters, &mut state, outlet, now);
        entry.to = Some(Hooked { port: policy.port, block: policy.egress });
        entry.queues = u32::try_from(queues).unwrap_or(u32::MAX);
        let mut ways = OfPolicy { policy, who: &self.who, queues };
        let passed = entry.pass(&mut packet, &mut ways);
        drop(state);
        let headers = packet.headers;
        let (queue, route) = match passed {
            Entered::Queue(queue, route) => (queue, route),
            Entered::Dropped => return Passed::Filtered(frame),
            Entered::Stolen => return Passed::Taken(frame),
        };
        let to = if policy.merged {
            // Some qdiscs go by the results of the filters there (multiq).
            if usize::from(meta.queue) >= queues {
                meta.queue = 0;
            }
            0
        } else {
            // The frame goes to the queue whose qdiscs were asked, whatever queue their filters
            // choose.
            meta.queue = queue;
            queue
        };
        let wants = self.port.queues.get(usize::from(to)).is_some_and(|to| to.wants_detail());
        let detail =
            wants.then(|| Detail { route, ..Detail::of(&headers, frame.bytes(), &self.port.hasher) });
        self.hand(to, frame, meta, detail.as_ref())
    }

    /// Sends a frame that [`send_frame`](Self::send_frame) has given back, without asking filters
    /// again: by the same queue, with the metadata as the actions have left it.
    pub fn resend(&self, prepared: Prepared<D::Frame>) -> Passed<D::Frame> {
        let Prepared { frame, meta, detail, queue } = prepared;
        self.hand(queue, frame, meta, detail.as_deref())
    }

    /// Hands a frame to a queue. One that comes back has all that a further try needs.
    fn hand(&self, queue: u16, frame: D::Frame, meta: Meta, detail: Option<&Detail>) -> Passed<D::Frame> {
        let back = |frame| Prepared { frame, meta, detail: detail.map(|d| Box::new(*d)), queue };
        let Some(to) = self.port.queues.get(usize::from(queue)) else {
            return Passed::Full(back(frame));
        };
        match to.send_with(frame, meta, detail) {
            Handed::Done(Admitted::Full(frame)) => Passed::Full(back(frame)),
            Handed::Done(Admitted::Cut(frame, max)) => Passed::Cut(back(frame), max),
            handed => Passed::Handed(queue, handed),
        }
    }
}

/// Chooses the queue of a packet, of `queues`, and notes it in the metadata. Returns the number of
/// the one that takes the packet.
#[inline]
fn place(policy: &Policy, who: &select::Sender, queues: usize, meta: &mut Meta) -> u16 {
    placed(policy, who, queues, meta, None);
    if policy.merged { 0 } else { meta.queue }
}

/// Chooses the queue of a packet, of `queues`, and notes it in the metadata; `asked` is the one
/// that an action has chosen.
#[inline]
fn placed(policy: &Policy, who: &select::Sender, queues: usize, meta: &mut Meta, asked: Option<u16>) {
    policy.selector.place(meta, who, asked);
    // A policy may have been made for another port.
    if usize::from(meta.queue) >= queues {
        meta.queue = 0;
    }
}

/// The queues of a port as a policy chooses them.
struct OfPolicy<'a> {
    policy: &'a Policy,
    who: &'a select::Sender,
    queues: usize,
}

impl Ways for OfPolicy<'_> {
    fn choose(&mut self, meta: &mut Meta, asked: Option<u16>) -> u16 {
        placed(self.policy, self.who, self.queues, meta, asked);
        meta.queue
    }
    fn tree(&self, queue: u16) -> Option<&Tree> {
        self.policy.shapes.get(usize::from(queue))?.as_deref()
    }
}
