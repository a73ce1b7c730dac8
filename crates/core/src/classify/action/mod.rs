//! Actions: changes to a packet that a filter has matched, and decisions about its way
//! (tc-actions(8)).
//!
//! An action has a kind, parameters, and a [`Control`] that decides the next step. Actions are kept
//! in one table of their owner, [`Actions`], by kind and index, so that several filters can share
//! one. Counters and state of an action are kept with each reader, in [`State`]: readers share no
//! data that is written per packet.
//!
//! Bounds (mechanisms of tc(8)): an action that repeats itself runs at most `REPEATS_MAX` times,
//! and one list makes fewer than `ACTIONS_MAX` jumps; beyond, the packet passes.

pub mod bpf;
mod changes;
pub mod csum;
pub mod gact;
pub mod gate;
pub mod ife;
pub mod mirred;
pub mod mpls;
pub mod nat;
pub mod pedit;
pub mod police;
mod run;
pub mod sample;
pub mod simple;
pub mod skbedit;
pub mod skbmod;
pub mod vlan;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use changes::Changes;

use crate::base::bound::Bound;
use crate::base::free::FreeNumbers;
use crate::base::time::Instant;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

pub use bpf::Bpf;
pub use csum::Csum;
pub use gact::Gact;
pub use gate::Gate;
pub use ife::Ife;
pub(crate) use mirred::BlockPorts;
pub use mirred::{Mirred, Target};
pub use mpls::Mpls;
pub use nat::Nat;
pub use pedit::Pedit;
pub use police::Police;
pub use run::Run;
pub use sample::Sample;
pub use simple::Simple;
pub use skbedit::Skbedit;
pub use skbmod::Skbmod;
pub use vlan::Vlan;

/// Largest number of actions in one list, and bound of the jumps in one run of it.
pub const ACTIONS_MAX: usize = 32;
/// Largest number of runs of an action that repeats itself.
pub const REPEATS_MAX: u32 = 32;

/// Step that follows an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// Ask the next filter, as if this one had not matched. (Linux: UNSPEC.)
    Continue,
    /// Let the packet go on, in the class that the filter names.
    #[default]
    Pass,
    /// Begin classification again.
    Reclassify,
    /// Drop the packet.
    Drop,
    /// Run the next action of the list.
    Pipe,
    /// Take the packet away, without counting a drop.
    Stolen,
    /// As `Stolen`, for a packet that is queued elsewhere.
    Queued,
    /// Run the same action again.
    Repeat,
    /// Take the packet away for the control plane.
    Trap,
    /// Run the action of the list with this index, counted from 0.
    Jump(u32),
    /// Go on in another chain.
    Goto(u32),
}

impl Control {
    /// Returns the word of the control in tc.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Pass => "pass",
            Self::Reclassify => "reclassify",
            Self::Drop => "drop",
            Self::Pipe => "pipe",
            Self::Stolen => "stolen",
            Self::Queued => "queued",
            Self::Repeat => "repeat",
            Self::Trap => "trap",
            Self::Jump(_) => "jump",
            Self::Goto(_) => "goto",
        }
    }
}

/// Declares the kinds of actions: one line each.
macro_rules! kinds {
    ($($variant:ident($config:ty) = $word:literal,)*) => {
        /// The parameters of an action, by its kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Kind {
            $(#[doc = concat!("`", $word, "`.")] $variant($config),)*
        }

        /// The word of each kind, in the order of [`Kind`].
        pub const KINDS: &[&str] = &[$($word,)*];

        impl Kind {
            /// Returns the word of the kind in tc.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $word,)* }
            }
            fn run(&self, control: Control, packet: &mut Packet<'_>, mine: &mut Memory, run: &mut Run<'_>) -> Control {
                match self { $(Self::$variant(config) => config.run(control, packet, mine, run),)* }
            }
        }
    };
}

kinds! {
    Bpf(Bpf) = "bpf",
    Csum(Csum) = "csum",
    Gact(Gact) = "gact",
    Gate(Gate) = "gate",
    Ife(Ife) = "ife",
    Mirred(Mirred) = "mirred",
    Mpls(Mpls) = "mpls",
    Nat(Nat) = "nat",
    Pedit(Pedit) = "pedit",
    Police(Police) = "police",
    Sample(Sample) = "sample",
    Simple(Simple) = "simple",
    Skbedit(Skbedit) = "skbedit",
    Skbmod(Skbmod) = "skbmod",
    Vlan(Vlan) = "vlan",
}

/// An action: parameters, and the control that follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Kind and parameters.
    pub kind: Kind,
    /// Control that follows.
    pub control: Control,
    /// Bytes that the owner attached, at most 16.
    pub cookie: Vec<u8>,
    /// True if the command asked not to count per processor. Counters are per reader in any case.
    pub no_percpu: bool,
    /// True if the command asked not to offload to hardware; nothing is ever offloaded.
    pub skip_hw: bool,
    /// Hardware counters that the command asked for: bit 0 immediate, bit 1 delayed, `None` if it
    /// did not say.
    pub hw_stats: Option<u8>,
}

impl Action {
    /// Returns an action without a cookie.
    pub const fn new(kind: Kind, control: Control) -> Self {
        Self { kind, control, cookie: Vec::new(), no_percpu: false, skip_hw: false, hw_stats: None }
    }
}

/// The slot of an action in the table of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActionId(u32);

/// A reader's state for one action.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    serial: u32,
    version: u32,
    /// Bytes of the packets that the action has seen: on the wire for those that are sent; without
    /// link header and outermost tag for those that have arrived.
    pub bytes: u64,
    /// Packets that the action has seen; a super-packet counts its segments.
    pub packets: u64,
    /// Packets that the action has dropped.
    pub drops: u64,
    /// Packets in excess of a rate, or refused by a target.
    pub overlimits: u64,
    /// Time of the first run.
    pub first: Option<Instant>,
    /// Time of the last run.
    pub used: Option<Instant>,
    /// Time at which the action was made, or its parameters were last replaced.
    pub since: Instant,
    /// State that only the kind understands: a position in a sequence, buckets. Zeroed when the
    /// parameters are replaced, but for gact, whose count goes on.
    pub words: [u64; 6],
}

impl Memory {
    /// Adds the counts and times of another reader's state for the same action.
    fn add_counts(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.drops += other.drops;
        self.overlimits += other.overlimits;
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.used = self.used.max(other.used);
    }
}

/// An action in a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Index among the actions of its kind.
    pub index: u32,
    /// The action.
    pub action: Arc<Action>,
    /// Number of holders: filters, and the table itself if a command of its own added the action.
    pub refs: u32,
    /// Number of filters that hold the action.
    pub binds: u32,
    /// Time at which the action was made.
    pub made: Instant,
    serial: u32,
    /// Number of replacements of its parameters, and the time of the last one.
    version: u32,
    since: Instant,
}

/// All actions of one owner.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    slots: Vec<Option<Entry>>,
    /// Vacant slots.
    vacant: Vec<u32>,
    kinds: BTreeMap<&'static str, Numbers>,
    serial: u32,
    changes: Changes,
    block_ports: BlockPorts,
}

/// The actions of a kind.
#[derive(Clone, Debug, Default)]
struct Numbers {
    /// Slot of each index.
    slots: BTreeMap<u32, u32>,
    free: FreeNumbers,
}

/// Reference to an action in a filter's command.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// An existing action, by its kind and index.
    There(&'static str, u32),
    /// A new action. If an action has the index already, that one is taken, unchanged.
    New(Option<u32>, Box<Action>),
}

impl Actions {
    /// Returns the ports that share each block.
    #[inline]
    pub(crate) const fn block_ports(&self) -> &BlockPorts {
        &self.block_ports
    }
    /// Returns the same to be changed.
    pub(crate) const fn block_ports_mut(&mut self) -> &mut BlockPorts {
        &mut self.block_ports
    }
    /// Returns the action in a slot.
    #[inline]
    pub fn entry(&self, id: ActionId) -> Option<&Entry> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
    /// Returns the action with this kind and index.
    pub fn find(&self, kind: &str, index: u32) -> Option<ActionId> {
        self.kinds.get(kind)?.slots.get(&index).copied().map(ActionId)
    }
    /// Returns all actions of a kind, by index.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = (ActionId, &Entry)> {
        let slots = self.kinds.get(kind).into_iter().flat_map(|numbers| numbers.slots.values());
        slots.filter_map(|slot| Some((ActionId(*slot), self.entry(ActionId(*slot))?)))
    }
    /// Returns all slots: a reader has room for each after `State::fit`.
    pub(crate) fn slots(&self) -> &[Option<Entry>] {
        &self.slots
    }

    /// Adds a new action, held by the table itself. Without an index, or with 0, it gets the lowest
    /// free one.
    pub fn add(&mut self, index: Option<u32>, action: Action, now: Instant) -> Result<ActionId, ConfigError> {
        let index = self.free_index(index, &action)?;
        Ok(self.put(index, action, now))
    }

    /// Replaces the action with this index, for all its holders, or adds it.
    pub fn replace(
        &mut self,
        index: Option<u32>,
        action: Action,
        now: Instant,
    ) -> Result<ActionId, ConfigError> {
        match index.and_then(|i| self.find(action.kind.name(), i)) {
            Some(id) => {
                if let Some(Some(entry)) = self.slots.get_mut(id.0 as usize) {
                    entry.action = Arc::new(action);
                    (entry.version, entry.since) = (entry.version.wrapping_add(1), now);
                    self.changes.add(id.0);
                }
                Ok(id)
            }
            None => self.add(index, action, now),
        }
    }

    /// Removes an action; refused while filters hold it.
    pub fn delete(&mut self, kind: &'static str, index: u32) -> Result<(), ConfigError> {
        let object = Object::ActionAt(kind, index);
        let Some(id) = self.find(kind, index) else {
            return Err(
                ConfigError::new(ErrorKind::NotFound, object, "an action that exists", index).key("index")
            );
        };
        match self.entry(id) {
            Some(entry) if entry.binds > 0 => {
                let given = format!("held by {}", entry.binds);
                Err(ConfigError::new(ErrorKind::Conflict, object, "an action that no filter holds", given))
            }
            _ => {
                self.remove(id);
                Ok(())
            }
        }
    }

    /// Removes the actions of a kind, by index, up to the first that a filter holds, as Linux does.
    /// Returns their number.
    pub fn flush(&mut self, kind: &str) -> usize {
        let free: Vec<ActionId> =
            self.of_kind(kind).take_while(|(_, e)| e.binds == 0).map(|(id, _)| id).collect();
        free.iter().for_each(|id| self.remove(*id));
        free.len()
    }

    /// Makes a filter hold the actions that it names; all or none.
    pub(crate) fn bind(&mut self, wanted: &[Wanted], now: Instant) -> Result<Box<[ActionId]>, ConfigError> {
        if wanted.len() > ACTIONS_MAX {
            let expected = format!("at most {ACTIONS_MAX} actions");
            return Err(ConfigError::new(
                ErrorKind::OutOfRange,
                Object::Filter(None),
                expected,
                wanted.len(),
            )
            .key("action"));
        }
        let mut bound = Vec::with_capacity(wanted.len());
        for one in wanted {
            match self.bind_one(one, now) {
                Ok(id) => bound.push(id),
                Err(err) => {
                    self.unbind(&bound);
                    return Err(err);
                }
            }
        }
        Ok(bound.into())
    }

    fn bind_one(&mut self, wanted: &Wanted, now: Instant) -> Result<ActionId, ConfigError> {
        let there = match wanted {
            Wanted::There(kind, index) => Some(self.find(kind, *index).ok_or_else(|| {
                let object = Object::ActionAt(kind, *index);
                ConfigError::new(ErrorKind::NotFound, object, "an action that exists", index).key("index")
            })?),
            Wanted::New(Some(index), action) => self.find(action.kind.name(), *index),
            Wanted::New(None, _) => None,
        };
        let id = match (there, wanted) {
            (Some(id), _) => id,
            (None, Wanted::New(index, action)) => {
                let index = self.free_index(*index, action)?;
                let id = self.put(index, (**action).clone(), now);
                // No holder yet: the filter is counted below.
                if let Some(Some(entry)) = self.slots.get_mut(id.0 as usize) {
                    entry.refs = 0;
                }
                id
            }
            (None, Wanted::There(..)) => {
                return Err(ConfigError::new(ErrorKind::NotFound, Object::Action(None), "", ""));
            }
        };
        if let Some(Some(entry)) = self.slots.get_mut(id.0 as usize) {
            entry.refs += 1;
            entry.binds += 1;
        }
        Ok(id)
    }

    /// Releases a filter's actions; actions without a holder are removed.
    pub(crate) fn unbind(&mut self, bound: &[ActionId]) {
        for id in bound {
            let Some(Some(entry)) = self.slots.get_mut(id.0 as usize) else { continue };
            entry.binds = entry.binds.saturating_sub(1);
            entry.refs = entry.refs.saturating_sub(1);
            if entry.refs == 0 {
                self.remove(*id);
            }
        }
    }

    fn free_index(&mut self, index: Option<u32>, action: &Action) -> Result<u32, ConfigError> {
        let kind = action.kind.name();
        match index.filter(|i| *i != 0) {
            Some(index) if self.find(kind, index).is_some() => {
                let object = Object::Action(Some(kind));
                Err(ConfigError::new(ErrorKind::Exists, object, "an index not in use", index).key("index"))
            }
            Some(index) => Ok(index),
            None => Ok(self.kinds.entry(kind).or_default().free.lowest()),
        }
    }

    fn put(&mut self, index: u32, action: Action, now: Instant) -> ActionId {
        self.serial = self.serial.wrapping_add(1);
        let kind = action.kind.name();
        let (action, serial) = (Arc::new(action), self.serial);
        let entry = Entry { index, action, refs: 1, binds: 0, made: now, serial, version: 0, since: now };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.slots.push(Some(entry));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.changes.add(slot);
        let numbers = self.kinds.entry(kind).or_default();
        numbers.slots.insert(index, slot);
        numbers.free.take(index);
        ActionId(slot)
    }

    fn remove(&mut self, id: ActionId) {
        let Some(entry) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else { return };
        self.vacant.push(id.0);
        self.changes.add(id.0);
        if let Some(numbers) = self.kinds.get_mut(entry.action.kind.name()) {
            numbers.slots.remove(&entry.index);
            numbers.free.give(entry.index);
        }
    }

    /// Returns the name of an action, for errors: `gact index 3`.
    pub fn name(&self, id: ActionId) -> String {
        self.entry(id).map_or_else(String::new, |e| format!("{} index {}", e.action.kind.name(), e.index))
    }
}

/// State of one reader of filters: counters and the state of actions. No reader shares it. A reader
/// reads one owner's filters and follows their changes.
#[derive(Clone, Debug)]
pub struct State {
    memories: Vec<Memory>,
    /// Counters of filters, by the numbers assigned to them.
    hits: Vec<u64>,
    /// Serial of the assignments that have room here.
    fitted: u64,
    /// Number of the changes of actions that were taken over.
    seen: u64,
    /// Random generator for actions.
    pub rng: crate::base::rng::Rng,
}

impl State {
    /// Returns the state of a new reader, with the seed of its random draws.
    pub const fn new(seed: u64) -> Self {
        Self {
            memories: Vec::new(),
            hits: Vec::new(),
            fitted: 0,
            seen: 0,
            rng: crate::base::rng::Rng::new(seed),
        }
    }

    /// Makes room for all existing actions, and forgets the state of removed ones. The caller runs
    /// it after every change, between packets: an action without room here runs and is not counted.
    pub(crate) fn fit(&mut self, actions: &Actions, counters: &Counters) {
        self.memories.resize_with(actions.slots().len(), Memory::default);
        match actions.changes.since(self.seen) {
            Some(changed) => changed.iter().for_each(|slot| self.renew(actions, *slot as usize)),
            None => (0..self.memories.len()).for_each(|slot| self.renew(actions, slot)),
        }
        self.seen = actions.changes.count();
        self.hits.resize(counters.len(), 0);
        if self.fitted != counters.serial() {
            for (hits, given) in self.hits.iter_mut().zip(counters.given()) {
                if *given > self.fitted {
                    *hits = 0;
                }
            }
            self.fitted = counters.serial();
        }
    }

    /// Resets the state of the action in a slot if another action is there or its parameters
    /// changed.
    fn renew(&mut self, actions: &Actions, slot: usize) {
        let Some(memory) = self.memories.get_mut(slot) else { return };
        let entry = actions.slots().get(slot).and_then(Option::as_ref);
        let (serial, version, since) =
            entry.map_or((0, 0, Instant::ZERO), |e| (e.serial, e.version, e.since));
        if memory.serial != serial {
            *memory = Memory { serial, version, since, ..Memory::default() };
        } else if memory.version != version {
            // Counters go on, and so does the count of gact, as in the reference. The rest of the
            // state belonged to the replaced parameters.
            (memory.version, memory.since) = (version, since);
            if !entry.is_some_and(|e| matches!(e.action.kind, Kind::Gact(_))) {
                memory.words = [0; 6];
            }
        }
    }

    /// Increments the filter counter with this number.
    #[inline]
    pub(crate) fn hit(&mut self, id: u32) {
        if let Some(hits) = self.hits.get_mut(id as usize) {
            *hits += 1;
        }
    }

    /// Returns the counter with this number, even if `fit` has not run since its assignment.
    pub fn hits(&self, counters: &Counters, id: u32) -> u64 {
        let known = counters.given().get(id as usize).is_some_and(|given| *given <= self.fitted);
        self.hits.get(id as usize).copied().filter(|_| known).unwrap_or(0)
    }

    /// Returns the state of an action in its present table, even if `fit` has not run since it was
    /// added.
    pub fn counted(&self, actions: &Actions, id: ActionId) -> Memory {
        let serial = actions.entry(id).map(|e| e.serial);
        self.memory(id).filter(|m| Some(m.serial) == serial).cloned().unwrap_or_default()
    }

    /// Adds the counters of another reader of the same filters, each as far as both have it: those
    /// of filters, and of actions that have the same parameters. The rest is this reader's.
    pub fn add_counts(&mut self, other: &Self) {
        self.hits.iter_mut().zip(&other.hits).for_each(|(mine, hits)| *mine += hits);
        for (mine, other) in self.memories.iter_mut().zip(&other.memories) {
            if mine.serial == other.serial {
                mine.add_counts(other);
            }
        }
    }

    /// Returns the state of an action.
    pub fn memory(&self, id: ActionId) -> Option<&Memory> {
        self.memories.get(id.0 as usize)
    }
}

/// Runs a list of actions on a packet. Returns the control after the last action that ran.
pub(crate) fn exec(list: &[ActionId], packet: &mut Packet<'_>, run: &mut Run<'_>) -> Control {
    let (mut at, mut jumps) = (0, 0);
    let mut last = Control::Pass;
    // Between two jumps each action runs once.
    let mut bound = Bound::of(ACTIONS_MAX * list.len());
    while let Some(id) = list.get(at) {
        bound.turn();
        last = once(*id, packet, run);
        at = match last {
            Control::Pipe => at + 1,
            Control::Jump(n) => {
                jumps += 1;
                let to = n as usize;
                // The target counts from the first action, as in Linux, so a jump may go back;
                // therefore jumps are bounded.
                if to == 0 || to > list.len() || jumps >= ACTIONS_MAX {
                    return Control::Pass;
                }
                to
            }
            _ => return last,
        };
    }
    // Behind the last action of the list the packet passes.
    match last {
        Control::Pipe | Control::Jump(_) => Control::Pass,
        last => last,
    }
}

fn once(id: ActionId, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Control {
    let Some(entry) = run.actions.entry(id) else { return Control::Pipe };
    let action = &entry.action;
    let slot = id.0 as usize;
    // The state is taken out while the action runs, so that the action can borrow the rest of
    // `State` too.
    let mut mine = run.state.memories.get_mut(slot).map(core::mem::take).unwrap_or_default();
    let mut answer = Control::Pass;
    for _ in 0..REPEATS_MAX {
        mine.bytes += u64::from(packet.charged());
        mine.packets += u64::from(packet.meta.segs);
        mine.first.get_or_insert(run.now);
        mine.used = Some(run.now);
        answer = action.kind.run(action.control, packet, &mut mine, run);
        if answer != Control::Repeat {
            break;
        }
    }
    if answer == Control::Repeat {
        answer = Control::Pass;
    }
    if let Some(place) = run.state.memories.get_mut(slot) {
        *place = mine;
    }
    answer
}
