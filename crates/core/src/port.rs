//! `Port`: a device with several transmit queues. Each queue is a [`TxPath`] of its own where the root is mq or mqprio: tree,
//! packets, byte limit and counters, with nothing shared on the packet's way. With any other root one path feeds all queues.
//!
//! A packet's way: the egress hook, if the owner has one ([`crate::filter`]); the choice of a queue ([`Port::choose`], see
//! [`crate::select`]); then that queue's `submit`. [`Port::send`] is the last two.
//!
//! The paths can be taken apart and given to threads ([`Port::paths_mut`]); the choice needs nothing but the [`Selector`].
//!
//! **Changing the queues under load** ([`Port::set_queues`], a root of another kind): packets that wait are taken out, put in
//! order of arrival, chosen a queue for anew and queued there. What the device holds by then it sends; until it has, no
//! queue gives it more, so that no flow overtakes itself through another queue. The device
//! does not rest meanwhile but for the time that its last completion takes.
//!
//! - P1 (I7): what the queues count is what the port counts, packets that went directly included.
//! - P2: nothing is lost when queues come and go, but for what the new ones have no room for; that is dropped and counted.
//! - P3 (I6): the packets of one flow keep their order through such a change.
//! - P4: class MAJOR:n of the root is queue n - 1, whatever has been grafted.

mod device;
mod handles;

use alloc::vec::Vec;

use crate::cx::Tally;
use crate::device::TxQueue;
use crate::dql::DqlError;
use crate::error::{ConfigError, ErrorKind};
use crate::handle::Handle;
use crate::meta::Meta;
use crate::node::{Books, Node};
use crate::qdisc::{mq, mqprio};
use crate::queues::QueueSet;
use crate::select::{Cached, NoSuchQueue, Selector, Sender, TrafficClasses};
use crate::spec::Env;
use crate::time::Instant;
use crate::tree::Place;
use crate::txpath::{Admitted, PathConfig, PathStats, TxPath, Waiting, Wake};
use device::{All, One};

pub(crate) use handles::made_anew;
pub use handles::{Handles, Qdiscs};

/// The transmit queues of a device.
pub trait Queues {
    /// The user's own packet.
    type Frame;
    /// A queue while it is used.
    type Queue<'a>: TxQueue<Frame = Self::Frame>
    where
        Self: 'a;
    /// The queue of that number, if there is one.
    fn queue(&mut self, index: u16) -> Option<Self::Queue<'_>>;
}

impl<Q: TxQueue> Queues for Vec<Q> {
    type Frame = Q::Frame;
    type Queue<'a>
        = &'a mut Q
    where
        Self: 'a;
    fn queue(&mut self, index: u16) -> Option<&mut Q> {
        self.get_mut(usize::from(index))
    }
}

/// How a packet's queue is found.
#[derive(Debug)]
pub enum Choice<'a> {
    /// It was chosen elsewhere, by an action or by who sends.
    Queue(u16),
    /// By who sends it, and what that remembers of its last choice.
    By(&'a Sender, Option<&'a mut Cached>),
}

crate::stats! {
    /// Counters of a port.
    pub struct PortStats {
        /// Packets whose chosen queue was not there; they went to the first.
        no_such_queue: u64,
        /// Times the queues were changed under load.
        reshaped: u64,
        /// Packets that waited then and were queued anew.
        moved: u64,
    }
}

/// What a finished round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Packets that the device has finished.
    pub packets: u32,
    /// With the last of them the way is free again after a change of the queues: every queue is to be drained.
    pub opened: bool,
}

/// A device with several transmit queues, from the choice of one to the device.
#[derive(Debug)]
pub struct Port<F> {
    config: PathConfig,
    /// The root where each queue has a path of its own: mq or mqprio. It stands for the paths, and no packet meets it.
    shell: Option<Node>,
    paths: Vec<TxPath<F>>,
    selector: Selector,
    /// Of each queue of the device, what was handed over and has not been finished.
    in_flight: Vec<u64>,
    /// Of each queue, what of that is from before the queues were changed; nothing leaves while there is any.
    owed: Vec<u64>,
    /// Counters of paths that are no more.
    before: PathStats,
    stats: PortStats,
}

impl<F> Port<F> {
    /// A port of `config.env.queues` queues. Its root is the default one: pfifo_fast, with several queues one below mq for each
    /// of them, as in Linux.
    pub fn new(config: PathConfig) -> Result<Self, DqlError> {
        let queues = config.env.queues.clamp(1, QueueSet::QUEUES_MAX);
        let mut port = Self {
            paths: Vec::new(),
            shell: None,
            selector: Selector::new(queues),
            in_flight: alloc::vec![0; usize::from(queues)],
            owed: alloc::vec![0; usize::from(queues)],
            before: PathStats::default(),
            stats: PortStats::default(),
            config: PathConfig { env: Env { queues, ..config.env }, ..config },
        };
        port.shell = default_shell(&port.config.env);
        for _ in 0..if port.shell.is_some() { queues } else { 1 } {
            port.paths.push(TxPath::new(port.config.clone())?);
        }
        Ok(port)
    }

    /// How many queues the device has.
    pub const fn queues(&self) -> u16 {
        self.selector.queues()
    }
    /// How a queue is chosen.
    pub const fn selector(&self) -> &Selector {
        &self.selector
    }
    /// The same, to set who sends by which queues. Its traffic classes are mqprio's business.
    pub const fn selector_mut(&mut self) -> &mut Selector {
        &mut self.selector
    }
    /// The paths: one for each queue, or one for all.
    pub fn paths(&self) -> &[TxPath<F>] {
        &self.paths
    }
    /// The same, to drive them apart from one another.
    pub fn paths_mut(&mut self) -> &mut [TxPath<F>] {
        &mut self.paths
    }
    /// True if each queue has a path of its own.
    pub const fn is_split(&self) -> bool {
        self.shell.is_some()
    }
    /// The path of a queue.
    pub fn path(&self, queue: u16) -> Option<&TxPath<F>> {
        self.paths.get(self.path_of(queue))
    }
    /// Its counters.
    pub const fn stats(&self) -> &PortStats {
        &self.stats
    }

    const fn path_of(&self, queue: u16) -> usize {
        if self.is_split() { queue as usize } else { 0 }
    }

    /// The queue that a packet goes to.
    #[inline]
    pub fn choose(&mut self, m: &Meta, choice: Choice<'_>, now: Instant) -> u16 {
        match choice {
            Choice::By(sender, cached) => self.selector.select(m, sender, cached, now),
            Choice::Queue(queue) => match self.selector.chosen(queue) {
                Ok(queue) => queue,
                Err(NoSuchQueue(_)) => {
                    self.stats.no_such_queue += 1;
                    0
                }
            },
        }
    }

    /// Chooses a queue for a packet and hands it over to that queue's path: see `TxPath::submit`. Then `drain` that queue.
    #[inline]
    pub fn send<D>(
        &mut self,
        now: Instant,
        frame: F,
        mut m: Meta,
        choice: Choice<'_>,
        dev: &mut D,
    ) -> (u16, Admitted<F>)
    where
        D: Queues<Frame = F>,
    {
        let queue = self.choose(&m, choice, now);
        m.queue = queue;
        (queue, self.submit(now, queue, frame, m, dev))
    }

    fn submit<D>(&mut self, now: Instant, queue: u16, frame: F, m: Meta, dev: &mut D) -> Admitted<F>
    where
        D: Queues<Frame = F>,
    {
        let at = self.path_of(queue);
        let split = self.is_split();
        let (queues, in_flight) = (self.selector.queues(), &mut self.in_flight);
        let Some(path) = self.paths.get_mut(at) else { return Admitted::Full(frame) };
        if split {
            let before = path.stats().tx_packets;
            let done = path.submit(now, frame, m, &mut One::of(dev, queue));
            in_flight[at] += path.stats().tx_packets - before;
            done
        } else {
            path.submit(now, frame, m, &mut All { dev, queues, in_flight })
        }
    }

    /// Moves packets of a queue's path to the device: see `TxPath::drain`. Where one path feeds all queues, any of them will do.
    #[inline]
    pub fn drain<D>(&mut self, now: Instant, queue: u16, budget: u32, dev: &mut D) -> Wake
    where
        D: Queues<Frame = F>,
    {
        let at = self.path_of(queue);
        let (split, queues) = (self.is_split(), self.selector.queues());
        let Some(path) = self.paths.get_mut(at) else { return Wake::Idle };
        if split {
            let before = path.stats().tx_packets;
            let wake = path.drain(now, budget, &mut One::of(dev, queue));
            self.in_flight[at] += path.stats().tx_packets - before;
            return wake;
        }
        if queues > 1 {
            for queue in 0..queues {
                // A promise that is not used goes back with the doorbell.
                match dev.queue(queue).map_or(0, |mut q| q.reserve(1)) {
                    0 => path.stop_queue(queue),
                    _ => path.start_queue(queue),
                }
            }
        }
        path.drain(now, budget, &mut All { dev, queues, in_flight: &mut self.in_flight })
    }

    /// Takes what the device has finished of a queue: see `TxPath::reap`. Then `drain` that queue; or all, where it is said
    /// that the way is free again after a change of the queues.
    pub fn reap<D>(&mut self, now: Instant, queue: u16, dev: &mut D, done: impl FnMut(F)) -> Reaped
    where
        D: Queues<Frame = F>,
    {
        let at = usize::from(queue);
        let path = self.path_of(queue);
        let Some(mut device) = dev.queue(queue) else { return Reaped::default() };
        let packets = match self.paths.get_mut(path) {
            Some(path) => path.reap(now, &mut device, done),
            // A queue that is no more: nobody's byte limit hears of it.
            None => device::reap_alone(&mut device, done),
        };
        let Some(in_flight) = self.in_flight.get_mut(at) else {
            return Reaped { packets, ..Reaped::default() };
        };
        *in_flight = in_flight.saturating_sub(packets.into());
        let owed = &mut self.owed[at];
        let was_owed = *owed > 0;
        *owed = owed.saturating_sub(packets.into());
        let opened = was_owed && self.owed.iter().all(|n| *n == 0);
        if opened {
            self.paths.iter_mut().for_each(TxPath::thaw);
        }
        Reaped { packets, opened }
    }

    /// Changes the number of queues of the device, between bursts. Queues that stay keep what is grafted in them; packets that
    /// wait are chosen a queue for anew where queues have paths of their own. A device is to be given more queues before, and
    /// fewer afterwards.
    pub fn set_queues<D>(&mut self, now: Instant, queues: u16, dev: &mut D) -> Result<(), ConfigError>
    where
        D: Queues<Frame = F>,
    {
        if !(1..=QueueSet::QUEUES_MAX).contains(&queues) {
            let expected = alloc::format!("1 to {} transmit queues", QueueSet::QUEUES_MAX);
            return Err(ConfigError::new(ErrorKind::OutOfRange, "port", expected, queues).key("queues"));
        }
        if queues == self.queues() {
            return Ok(());
        }
        let env = Env { queues, ..self.config.env };
        let shell = match &self.shell {
            Some(shell) if shell.handle().is_none() => default_shell(&env),
            // What the root was made with must hold on the new device too.
            Some(shell) => Some(handles::made_anew(shell, &env)?),
            None if self.paths.first().is_some_and(|p| p.tree().root().handle().is_none()) => {
                default_shell(&env)
            }
            None => None,
        };
        self.config.env = env;
        let classes = self.selector.classes().cloned();
        let was_split = self.is_split();
        let mut waiting = Vec::new();
        for path in &mut self.paths {
            path.take_waiting(now, &mut waiting);
        }
        if was_split != shell.is_some() {
            for path in self.paths.drain(..) {
                self.before = self.before.plus(path.stats());
            }
        }
        self.reshape(now, shell, classes, waiting, dev);
        Ok(())
    }

    /// Puts a new root in the place of the one that is there, with nothing below it, and queues what waits there.
    fn replace_root<D>(&mut self, now: Instant, root: NewRoot, dev: &mut D)
    where
        D: Queues<Frame = F>,
    {
        let mut waiting = Vec::new();
        for mut path in self.paths.drain(..) {
            path.take_waiting(now, &mut waiting);
            self.before = self.before.plus(path.stats());
        }
        let (shell, one, classes) = match root {
            NewRoot::Shell(node, classes) => (Some(node), None, classes),
            NewRoot::One(node) => (None, node, None),
        };
        if let Some(node) = one {
            self.add_paths(1);
            if let Some(path) = self.paths.first_mut() {
                path.put_root(now, node);
            }
        }
        self.reshape(now, shell, classes, waiting, dev);
    }

    /// Makes paths until there are so many.
    fn add_paths(&mut self, wanted: usize) {
        while self.paths.len() < wanted {
            // The byte limit was good when the port was made.
            let Ok(path) = TxPath::new(self.config.clone()) else { break };
            self.paths.push(path);
        }
    }

    /// Makes the paths that the root asks for and queues what has waited there; trees of queues that stay stay.
    fn reshape<D>(
        &mut self,
        now: Instant,
        shell: Option<Node>,
        classes: Option<TrafficClasses>,
        mut waiting: Vec<Waiting<F>>,
        dev: &mut D,
    ) where
        D: Queues<Frame = F>,
    {
        let queues = self.config.env.queues;
        // Those of each path are in order of arrival, and a flow is in one path.
        waiting.sort_by_key(|w| w.meta.enqueued);
        let wanted = if shell.is_some() { usize::from(queues) } else { 1 };
        self.shell = shell;
        self.selector.set_queues(queues);
        self.selector.set_classes(classes);
        for path in self.paths.drain(wanted.min(self.paths.len())..) {
            self.before = self.before.plus(path.stats());
        }
        self.add_paths(wanted);
        let env = self.config.env;
        // Those that are gone may still have something in flight.
        let known = self.in_flight.len().max(usize::from(queues));
        self.in_flight.resize(known, 0);
        self.owed.clone_from(&self.in_flight);
        // Also where nothing is owed: what waited is queued before anything leaves.
        self.paths.iter_mut().for_each(TxPath::freeze);
        self.stats.reshaped += 1;
        for mut w in waiting {
            let queue = self.choose(&w.meta, Choice::By(&Sender::default(), None), now);
            w.meta.queue = queue;
            self.stats.moved += 1;
            let at = self.path_of(queue);
            self.paths[at].take_in(now, w, &mut One::of(dev, queue));
        }
        for (queue, path) in (0..).zip(&mut self.paths) {
            path.configure(now, &mut One::of(dev, queue), |tree, _| tree.set_env(env));
        }
        if !self.is_fenced() {
            self.paths.iter_mut().for_each(TxPath::thaw);
        }
    }

    /// Changes the qdiscs, between bursts, by their handles, whatever queue they are of. Then `drain` all queues.
    pub fn configure<D, R>(&mut self, now: Instant, dev: &mut D, f: impl FnOnce(&mut dyn Qdiscs) -> R) -> R
    where
        D: Queues<Frame = F>,
    {
        f(&mut Handles::new(self, dev, now))
    }

    /// Calls `f` on every qdisc, parents first: the root, and then those of each queue, below its class. The books of a root
    /// that stands for the queues' own are empty: see [`books`](Self::books).
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(Place, &'a Node)) {
        let Some(shell) = &self.shell else {
            return self.paths.iter().for_each(|path| path.tree().visit(f));
        };
        f(Place { parent: Handle::ROOT, depth: 0 }, shell);
        for (queue, path) in (1..).zip(&self.paths) {
            path.tree().visit(&mut |place, node| {
                let parent = match place.parent {
                    Handle::ROOT => Handle::new(shell.handle().major(), queue),
                    class => class,
                };
                f(Place { parent, depth: place.depth + 1 }, node);
            });
        }
    }

    /// The books of the root: the sums over the queues where it stands for them.
    pub fn books(&self) -> Books {
        let roots = self.paths.iter().map(|path| path.tree().root().books());
        roots.fold(Books::default(), |sum, b| sum.plus(&b))
    }

    /// Counters of all queues together, those of paths that are no more included.
    pub fn path_stats(&self) -> PathStats {
        self.paths.iter().fold(self.before, |all, path| all.plus(path.stats()))
    }
    /// Packets and bytes that wait in all qdiscs.
    pub fn backlog(&self) -> Tally {
        self.paths.iter().fold(Tally::default(), |all, path| {
            let b = path.backlog();
            Tally { packets: all.packets + b.packets, bytes: all.bytes + b.bytes }
        })
    }
    /// What was handed to the device and is not finished, of all queues.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.iter().sum()
    }
    /// True while nothing leaves because of a change of the queues.
    pub fn is_fenced(&self) -> bool {
        self.owed.iter().any(|n| *n > 0)
    }
}

/// What is to be at the root.
enum NewRoot {
    /// A qdisc that stands for those of the queues.
    Shell(Node, Option<TrafficClasses>),
    /// One for all queues; `None`: the default one.
    One(Option<Node>),
}

/// Whether a root of this kind only stands for what each queue has.
pub(crate) fn stands_for_queues(kind: &str) -> bool {
    [mq::KIND, mqprio::KIND].contains(&kind)
}

/// The root that a device with several queues has at first.
fn default_shell(env: &Env) -> Option<Node> {
    (env.queues > 1).then(|| mq::default_root(env)).flatten()
}
