//! `SharedControl`: the qdiscs of a port that threads send by, changed and shown as those of a port
//! of one thread: mq and mqprio, swaps that keep packets, the text of tc.
//!
//! Each path is with its queue, and so with the thread that has the queue ([`Port::apart`]). For a
//! change or a look one thread has all queues ([`SharedControl::gather`]): the paths are one port
//! then, of which [`Gathered::control`] and [`Gathered::port`] are what they are everywhere.
//! Senders do not wait meanwhile: their packets are listed, and refused once the list is full.
//!
//! - C1: packets that wait in the qdiscs, and in the lists as far as there is room, take part in a
//!   change: a swap keeps them, and their queues are chosen anew (P1 to P3 of
//!   [`txweir_core::path::port`]).
//! - C2: after a change of the queues nothing leaves until the device has finished its packets from
//!   before, whichever threads see that.
//! - C3: a packet that a sender hands over during a change, with a queue from before it, is not
//!   lost: it leaves by the queue that it was handed to, or passes through it where the queue has
//!   no device any more, without the results of filters at qdiscs. A later packet of its flow may
//!   overtake it in that moment.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use txweir_core::path::dql::DqlError;
use txweir_core::path::port::{Apart, Control, Flight, Port, Queues};
use txweir_core::{Admitted, Env, Instant, Meta, PathConfig, Tree, TxPath, TxQueue};

use crate::baton::Turn;
use crate::fence::Fence;
use crate::lane::{Forward, Lane};
use crate::owned::Owned;
use crate::port::{Policy, SharedPort};
use crate::queue::{Handed, Queue, QueueConfig};
use crate::wake::Wakeup;

/// Packets that can wait in a queue without a device, on their way to another.
const LATE: usize = 64;

/// The control plane of a port that threads send by. There is one, and it belongs to the thread
/// that changes the port.
///
/// ```
/// use txweir_core::{Handle, Instant, Meta, PathConfig, model::testing::VecDevice};
/// use txweir_handoff::{QueueConfig, SharedControl, Wakeup};
///
/// let devices = vec![VecDevice::<u64>::with_slots(64), VecDevice::with_slots(64)];
/// let rules = |_queue| QueueConfig::new(|| Instant(1));
/// let mut control =
///     SharedControl::new(PathConfig::for_ring(), devices, rules, 7, Wakeup::calling(|| {}))?;
/// let mut sender = control.port().sender();
/// std::thread::spawn(move || drop(sender.send(1, Meta::new(1500)))).join().unwrap();
///
/// let mut all = control.gather();
/// assert_eq!(all.port().trees().root().qdisc().spec().kind, "mq");
/// let words = &mut txweir_core::text::value::Words::new(&["bandwidth", "1gbit"]);
/// all.control().configure(|qdiscs| qdiscs.replace(Handle::ROOT, None, "cake", words))?;
/// assert_eq!(all.port().paths().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedControl<D: TxQueue> {
    port: Arc<SharedPort<Lane<D>>>,
    /// The port without its paths; `None` while they are gathered.
    apart: Option<Apart<D::Frame>>,
    /// The number of changes that have raised a fence.
    fences: u64,
}

impl<D: TxQueue> fmt::Debug for SharedControl<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedControl").field("port", &self.port).finish_non_exhaustive()
    }
}

impl<D> SharedControl<D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    /// Creates a port over the queues of a device, in the order of their numbers, with the default
    /// qdiscs: mq, or pfifo_fast for one queue. `config` is that of each path; the number of queues
    /// is that of `devs`, and stays. `rules` returns the parameters of each queue: there is always
    /// room for details beside listed packets, whatever these say. The seed keys the flow hash; it
    /// must be secret where strangers send. `service` tells the thread that serves the queues.
    ///
    /// # Errors
    /// The byte limit of `config` is impossible.
    pub fn new(
        config: PathConfig,
        devs: Vec<D>,
        mut rules: impl FnMut(u16) -> QueueConfig<D::Frame>,
        seed: u64,
        service: Wakeup,
    ) -> Result<Self, DqlError> {
        let many = u16::try_from(devs.len()).unwrap_or(u16::MAX);
        let env = Env { queues: many, ..config.env };
        let (apart, paths, _) = Port::new(PathConfig { env, ..config })?.apart();
        let queues = (0..).zip(paths).zip(devs).map(|((number, path), dev)| {
            let rules = QueueConfig { details: true, ..rules(number) };
            Arc::new(Queue::new(path, Lane::new(dev), rules, service.clone()))
        });
        let port = SharedPort::new(queues.collect(), seed);
        for (at, queue) in port.queues().iter().enumerate().skip(1) {
            let forward = forward(&port.queues()[0], &port.queues()[at]);
            let _ = queue.control().try_with(|o| o.dev.set_forward(forward));
        }
        Ok(Self { port, apart: Some(apart), fences: 0 })
    }
}

impl<D: TxQueue> SharedControl<D> {
    /// Returns the port, to send by and to serve.
    pub const fn port(&self) -> &Arc<SharedPort<Lane<D>>> {
        &self.port
    }
}

impl<D> SharedControl<D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    /// Ends the port and returns its parts as they are: the port for one thread, the queues of its
    /// device, and the packets that were still in lists, which are not in the port. Packets that
    /// wait and those that the device has stay where they are.
    ///
    /// # Errors
    /// The control, unchanged: a sender, a service, or another thread has a reference to a queue.
    pub fn into_parts(mut self) -> Result<SharedParts<D>, Self> {
        let queues = self.port.queues();
        let alone = Arc::strong_count(&self.port) == 1 && queues.iter().all(|q| Arc::strong_count(q) == 1);
        if !alone {
            return Err(self);
        }
        let mut all = self.gather();
        let whole = all.whole.take();
        let (mut devices, mut listed) = (Vec::new(), Vec::new());
        for turn in &mut all.held.0 {
            let o = &mut **turn;
            let path = std::mem::replace(&mut o.path, stand_in());
            listed.extend(path.into_iter().chain(o.dev.take_late()).chain(o.take_listed()));
            devices.extend(o.dev.take().map(|(dev, _)| dev));
        }
        drop(all);
        whole.map(|port| SharedParts { port, devices, listed }).ok_or(self)
    }

    /// Takes all queues for this thread, until the result is dropped: it waits for at most one
    /// round of the thread that has a queue. Not for a callback of one of the queues, which would
    /// wait for itself.
    pub fn gather(&mut self) -> Gathered<'_, D> {
        let Self { port, apart, fences } = self;
        let mut all = Gathered {
            port,
            apart,
            fences,
            held: Devices(Vec::new()),
            whole: None,
            shapes: Vec::new(),
            changed: false,
            now: Instant::ZERO,
        };
        all.collect();
        all
    }
}

/// The parts of a port that has ended: see [`SharedControl::into_parts`].
pub struct SharedParts<D: TxQueue> {
    /// The port, with the packets that wait in its qdiscs.
    pub port: Port<D::Frame>,
    /// The queues of the device, in order.
    pub devices: Vec<D>,
    /// The packets that were in no qdisc yet.
    pub listed: Vec<(D::Frame, Meta)>,
}

impl<D: TxQueue> fmt::Debug for SharedParts<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, listed) = (self.port.totals().backlog().packets, self.listed.len());
        f.debug_struct("SharedParts")
            .field("waiting", &waiting)
            .field("listed", &listed)
            .finish_non_exhaustive()
    }
}

/// Returns the way of the packets of a queue without a device: the queue that has all of them.
fn forward<D>(home: &Arc<Queue<Lane<D>>>, own: &Arc<Queue<Lane<D>>>) -> Forward<D::Frame>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    let (home, room) = (Arc::downgrade(home), own.kicker());
    Box::new(move |frame, meta| {
        let home = home.upgrade()?;
        match home.send(frame, meta) {
            Handed::Done(Admitted::Full(frame)) => {
                home.when_room(room.clone());
                Some(frame)
            }
            // No sender is there to cut it.
            Handed::Done(Admitted::Cut(frame, _)) => {
                home.control().post(move |o| o.drop_late(frame, &meta));
                None
            }
            _ => None,
        }
    })
}

/// The queues of a device whose threads stand aside.
pub struct Devices<'a, D: TxQueue>(Vec<Turn<'a, Owned<Lane<D>>>>);

impl<D: TxQueue> fmt::Debug for Devices<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Devices").field(&self.0.len()).finish()
    }
}

impl<D: TxQueue> Queues for Devices<'_, D> {
    type Frame = D::Frame;
    type Queue<'b>
        = &'b mut D
    where
        Self: 'b;
    fn queue(&mut self, index: u16) -> Option<&mut D> {
        let at = usize::from(index);
        let has_all = self.0.first_mut().is_some_and(|turn| turn.dev.devices().len() > 1);
        match has_all {
            true => self.0.first_mut()?.dev.devices().get_mut(at),
            false => self.0.get_mut(at)?.dev.devices().first_mut(),
        }
    }
}

/// All queues of a port in the hands of one thread: see [`SharedControl::gather`]. Dropping it
/// gives each back, and runs it.
pub struct Gathered<'a, D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    port: &'a Arc<SharedPort<Lane<D>>>,
    apart: &'a mut Option<Apart<D::Frame>>,
    fences: &'a mut u64,
    held: Devices<'a, D>,
    /// The paths as one port; `None` only while they come and go.
    whole: Option<Port<D::Frame>>,
    shapes: Vec<Option<Arc<Tree>>>,
    /// True if the policy is to be published anew.
    changed: bool,
    now: Instant,
}

impl<D> fmt::Debug for Gathered<'_, D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").field("queues", &self.held).field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a, D> Gathered<'a, D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    /// Returns the time of the queues.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the paths as one port, to look at: qdiscs, counters, packets that wait.
    pub fn port(&self) -> &Port<D::Frame> {
        self.whole.as_ref().unwrap_or_else(|| unreachable!("the paths are gathered"))
    }

    /// Returns the port with its device, to change its qdiscs, as of a port of one thread. The
    /// number of queues stays: [`Control::set_queues`] is for ports whose devices can follow.
    pub fn control(&mut self) -> Control<'_, D::Frame, Devices<'a, D>> {
        self.changed = true;
        let whole = self.whole.as_mut().unwrap_or_else(|| unreachable!("the paths are gathered"));
        whole.control(self.now, &mut self.held)
    }

    /// Frees at most so many of the qdiscs that were replaced as a whole; true once all are freed.
    pub fn bury(&mut self, most: usize) -> bool {
        self.whole.as_mut().is_none_or(|whole| whole.bury(most))
    }

    /// Has senders ask the filters of these qdiscs ahead of the queues, which have the same;
    /// `None`: no qdisc has filters. A tree in the likeness of a port (`Tree::of_port`) stands for
    /// those of all queues. The code that binds filters to qdiscs calls this before the end.
    pub fn set_shape(&mut self, shape: Option<Tree>) {
        let shape = shape.map(Arc::new);
        let many = if shape.is_some() { self.port.queues().len() } else { 0 };
        self.shapes = vec![shape; many];
        self.changed = true;
    }

    /// Lets the queues carry packets, and takes them again.
    pub fn pause(&mut self) {
        self.scatter();
        self.collect();
    }

    /// Takes all queues and joins their paths.
    fn collect(&mut self) {
        let shared = self.port;
        self.held.0 = shared.queues().iter().map(|queue| queue.hold()).collect();
        // The device's code may panic here: the paths are still with their queues.
        self.held.0.iter_mut().for_each(|turn| turn.settle());
        let Some(apart) = self.apart.take() else { return };
        self.shapes.clone_from(&shared.policy().shapes);
        let (mut paths, mut flight) = (Vec::new(), Vec::new());
        for turn in &mut self.held.0 {
            self.now = self.now.max(turn.now);
            let o = &mut **turn;
            if o.dev.devices().is_empty() {
                continue;
            }
            let fenced = o.is_fenced();
            flight.extend(o.dev.counted().map(|n| (n, if fenced { n } else { 0 })));
            paths.push(std::mem::replace(&mut o.path, stand_in()));
        }
        self.whole = Some(apart.joined(paths, Flight::of(flight)));
    }

    /// Hands the paths to the queues, publishes the rules for senders, and lets the queues go.
    fn scatter(&mut self) {
        let Some(whole) = self.whole.take() else { return };
        let (apart, paths, flight) = whole.apart();
        let merged = !apart.is_split() && self.held.0.len() > 1;
        if std::mem::take(&mut self.changed) {
            self.publish(&apart, merged);
        }
        *self.apart = Some(apart);
        let late = self.put_back(paths, &flight, merged);
        let turns = self.held.0.drain(..).zip(late);
        for (queue, (mut turn, late)) in self.port.queues().iter().zip(turns) {
            let enter = || late.into_iter().for_each(|(frame, meta)| turn.enter_late(frame, meta));
            // A panic has its own way to put a queue down.
            if std::thread::panicking() {
                let _ = catch_unwind(AssertUnwindSafe(enter));
            } else {
                enter();
                let _ = queue.let_go(turn);
            }
        }
    }

    /// Publishes the choice of a queue and the qdiscs whose filters senders ask.
    fn publish(&mut self, apart: &Apart<D::Frame>, merged: bool) {
        let (selector, shapes) = (apart.chooser().selector().clone(), std::mem::take(&mut self.shapes));
        let publish = |policy: &mut Policy| -> Result<(), std::convert::Infallible> {
            (policy.selector, policy.merged, policy.shapes) = (selector, merged, shapes);
            Ok(())
        };
        let Ok(()) = self.port.change(publish);
    }

    /// Puts the paths and the parts of the device in the queues that are to have them. Returns, for
    /// each queue, the packets that have waited where there was no device.
    fn put_back(
        &mut self,
        paths: Vec<TxPath<D::Frame>>,
        flight: &Flight,
        merged: bool,
    ) -> Vec<Vec<(D::Frame, Meta)>> {
        let queues = self.held.0.len();
        let has = |queue: usize| flight.queue(u16::try_from(queue).unwrap_or(u16::MAX)).0;
        let standing = match merged {
            true => u32::from(flight.packets() > 0),
            false => (0..queues).map(|at| u32::from(has(at) > 0)).sum(),
        };
        let fence = flight.is_fenced().then(|| {
            *self.fences += 1;
            (*self.fences, Arc::new(self.fence(*self.fences, standing)))
        });
        let devs = self.held.0.iter_mut().flat_map(|turn| turn.dev.take().map(|(dev, _)| dev));
        let devs: Vec<D> = devs.collect();
        let mut devs = (0..queues).map(has).zip(devs).map(|(n, dev)| (dev, n));
        let (mut paths, mut all_late) = (paths.into_iter(), Vec::new());
        for (at, turn) in self.held.0.iter_mut().enumerate() {
            let (o, mut late) = (&mut **turn, Vec::new());
            if merged && at > 0 {
                // Late packets may wait there already.
                if o.path.backlog().packets == 0 {
                    o.exchange(stand_in(), 0, None);
                }
            } else if let Some(path) = paths.next() {
                let all: Vec<(D, u64)> = devs.by_ref().take(if merged { queues } else { 1 }).collect();
                let in_flight = all.iter().map(|(_, n)| n).sum();
                o.dev.put(all);
                let old = o.exchange(path, in_flight, fence.clone());
                late.extend(old.into_iter().chain(o.dev.take_late()));
            }
            all_late.push(late);
        }
        all_late
    }

    /// Returns the fence of a change of this number, for so many queues whose devices have packets.
    fn fence(&self, change: u64, standing: u32) -> Fence {
        let all: Vec<Weak<Queue<Lane<D>>>> = self.port.queues().iter().map(Arc::downgrade).collect();
        Fence::new(standing, move || {
            for queue in all.iter().filter_map(Weak::upgrade) {
                queue.control().post(move |o| o.unfence(change));
            }
        })
    }
}

impl<D> Drop for Gathered<'_, D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    fn drop(&mut self) {
        self.scatter();
    }
}

/// Returns the path of a queue without a device, which hands on late packets.
fn stand_in<F>() -> TxPath<F> {
    match TxPath::new(PathConfig { pool: LATE, ..PathConfig::for_socket() }) {
        Ok(path) => path,
        Err(_) => unreachable!("it has no byte limit"),
    }
}
