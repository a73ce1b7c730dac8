//! Actions: what is done to a packet that a filter has matched, and where it goes then (tc-actions(8)).
//!
//! An action has a kind, parameters, and a [`Control`] that says what follows it. Actions are kept in one table of their
//! owner, [`Actions`], by kind and index, so that several filters can share one. What an action counts and remembers is not
//! kept there but with each reader, in [`State`]: readers share nothing that is written per packet.
//!
//! Bounds (mechanisms of tc(8)): an action that repeats itself does so `REPEATS_MAX` times, and jumps in one list are at most
//! `ACTIONS_MAX`; what goes beyond is passed.

mod changes;
pub mod csum;
pub mod gact;
pub mod mirred;
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

use crate::base::free::FreeNumbers;
use crate::base::time::Instant;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

pub use csum::Csum;
pub use gact::Gact;
pub use mirred::Mirred;
pub use pedit::Pedit;
pub use police::Police;
pub use run::Run;
pub use sample::Sample;
pub use simple::Simple;
pub use skbedit::Skbedit;
pub use skbmod::Skbmod;
pub use vlan::Vlan;

/// Actions in one list, and jumps while it is run, at most.
pub const ACTIONS_MAX: usize = 32;
/// Times that one action is repeated, at most.
pub const REPEATS_MAX: u32 = 32;

/// What follows an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The next filter is asked, as if this one had not matched. (Linux: UNSPEC.)
    Continue,
    /// The packet goes on, in the class that the filter names.
    #[default]
    Pass,
    /// Classification begins again.
    Reclassify,
    /// The packet is dropped.
    Drop,
    /// The next action of the list.
    Pipe,
    /// The packet is taken away, and nobody counts a drop.
    Stolen,
    /// The same, said by who queues it elsewhere.
    Queued,
    /// The same action again.
    Repeat,
    /// Taken away for the control plane.
    Trap,
    /// The action of the list that so many are in front of, counted from the first.
    Jump(u32),
    /// Classification goes on in another chain.
    Goto(u32),
}

impl Control {
    /// Its word in tc.
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
            /// Its word in tc.
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
    Csum(Csum) = "csum",
    Gact(Gact) = "gact",
    Mirred(Mirred) = "mirred",
    Pedit(Pedit) = "pedit",
    Police(Police) = "police",
    Sample(Sample) = "sample",
    Simple(Simple) = "simple",
    Skbedit(Skbedit) = "skbedit",
    Skbmod(Skbmod) = "skbmod",
    Vlan(Vlan) = "vlan",
}

/// An action with what follows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// What it does.
    pub kind: Kind,
    /// What follows.
    pub control: Control,
    /// What its owner has written on it, in bytes: at most 16.
    pub cookie: Vec<u8>,
    /// It was said not to count per processor. It counts per reader all the same.
    pub no_percpu: bool,
    /// It was said not to be done in hardware; it never is.
    pub skip_hw: bool,
    /// Where it was said to be counted in hardware: bit 0 at once, bit 1 with a delay, none at all.
    pub hw_stats: Option<u8>,
}

impl Action {
    /// One without a cookie.
    pub const fn new(kind: Kind, control: Control) -> Self {
        Self { kind, control, cookie: Vec::new(), no_percpu: false, skip_hw: false, hw_stats: None }
    }
}

/// The slot of an action in the table of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActionId(u32);

/// What a reader knows of an action.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    serial: u32,
    version: u32,
    /// Bytes that it has seen; wire bytes.
    pub bytes: u64,
    /// Packets; segments of super-packets are counted.
    pub packets: u64,
    /// Packets that it has dropped.
    pub drops: u64,
    /// Packets that were more than a rate or a target had room for.
    pub overlimits: u64,
    /// When it was run for the first time.
    pub first: Option<Instant>,
    /// When it was run last.
    pub used: Option<Instant>,
    /// When the action was made, or its parameters were replaced.
    pub since: Instant,
    /// What only its kind understands: a position in a sequence, buckets. All 0 since then.
    pub words: [u64; 6],
}

/// An action in a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number among those of its kind.
    pub index: u32,
    /// The action.
    pub action: Arc<Action>,
    /// Who holds it: the table itself, if it was put there by a command of its own, and filters.
    pub refs: u32,
    /// The filters that hold it.
    pub binds: u32,
    /// When it was made.
    pub made: Instant,
    serial: u32,
    /// How often its parameters have been replaced, and when last.
    version: u32,
    since: Instant,
}

/// All actions of one owner.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    slots: Vec<Option<Entry>>,
    /// Slots that are vacant.
    vacant: Vec<u32>,
    kinds: BTreeMap<&'static str, Numbers>,
    serial: u32,
    changes: Changes,
}

/// The actions of a kind.
#[derive(Clone, Debug, Default)]
struct Numbers {
    /// By index, the slot of each.
    slots: BTreeMap<u32, u32>,
    free: FreeNumbers,
}

/// An action as a filter names it.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// One that is there, by its kind and index.
    There(&'static str, u32),
    /// A new one; with an index, the one that has it if there is one, unchanged.
    New(Option<u32>, Box<Action>),
}

impl Actions {
    /// The one in a slot.
    #[inline]
    pub fn entry(&self, id: ActionId) -> Option<&Entry> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
    /// The one of that kind and index.
    pub fn find(&self, kind: &str, index: u32) -> Option<ActionId> {
        self.kinds.get(kind)?.slots.get(&index).copied().map(ActionId)
    }
    /// All of a kind, by index.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = (ActionId, &Entry)> {
        let slots = self.kinds.get(kind).into_iter().flat_map(|numbers| numbers.slots.values());
        slots.filter_map(|slot| Some((ActionId(*slot), self.entry(ActionId(*slot))?)))
    }
    /// How many slots there are: what a reader has room for after `State::fit`.
    pub(crate) fn slots(&self) -> &[Option<Entry>] {
        &self.slots
    }

    /// Puts a new one in the table, held by the table itself. Without an index, or with 0, it gets the lowest free one.
    pub fn add(&mut self, index: Option<u32>, action: Action, now: Instant) -> Result<ActionId, ConfigError> {
        let index = self.free_index(index, &action)?;
        Ok(self.put(index, action, now))
    }

    /// Changes the one that has this index, for all that hold it, or adds it.
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

    /// Takes one out of the table; refused while filters hold it.
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

    /// Takes out those of a kind that no filter holds, by index, up to the first that one holds, as Linux does; gives how
    /// many.
    pub fn flush(&mut self, kind: &str) -> usize {
        let free: Vec<ActionId> =
            self.of_kind(kind).take_while(|(_, e)| e.binds == 0).map(|(id, _)| id).collect();
        free.iter().for_each(|id| self.remove(*id));
        free.len()
    }

    /// Lets a filter hold what it names; all or nothing.
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
                // Held by nobody yet: the filter is counted below.
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

    /// A filter lets go of its actions; those that nobody holds any more are gone.
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

    /// The name of an action, for errors: `gact index 3`.
    pub fn name(&self, id: ActionId) -> String {
        self.entry(id).map_or_else(String::new, |e| format!("{} index {}", e.action.kind.name(), e.index))
    }
}

/// What one reader of filters keeps: counters and whatever actions remember. Nothing of it is shared. A reader is of one owner's
/// filters, as they change.
#[derive(Clone, Debug)]
pub struct State {
    memories: Vec<Memory>,
    /// Counters of filters, by numbers that they were given.
    hits: Vec<u64>,
    /// The serial of the numbers that there is room for.
    fitted: u64,
    /// The changes of actions that were seen.
    seen: u64,
    /// For actions that draw.
    pub rng: crate::base::rng::Rng,
}

impl State {
    /// A reader's, with the seed of its draws.
    pub const fn new(seed: u64) -> Self {
        Self {
            memories: Vec::new(),
            hits: Vec::new(),
            fitted: 0,
            seen: 0,
            rng: crate::base::rng::Rng::new(seed),
        }
    }

    /// Makes room for all actions that there are, and forgets what was known of others. To be called after every change,
    /// between packets: an action without room here is run and not counted.
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

    /// What is known of the action in a slot, if it is that one still.
    fn renew(&mut self, actions: &Actions, slot: usize) {
        let Some(memory) = self.memories.get_mut(slot) else { return };
        let entry = actions.slots().get(slot).and_then(Option::as_ref);
        let (serial, version, since) =
            entry.map_or((0, 0, Instant::ZERO), |e| (e.serial, e.version, e.since));
        if memory.serial != serial {
            *memory = Memory { serial, version, since, ..Memory::default() };
        } else if memory.version != version {
            // Counters go on; what was remembered belongs to parameters that are gone.
            (memory.version, memory.since, memory.words) = (version, since, [0; 6]);
        }
    }

    /// A filter's counter of this number goes up.
    #[inline]
    pub(crate) fn hit(&mut self, id: u32) {
        if let Some(hits) = self.hits.get_mut(id as usize) {
            *hits += 1;
        }
    }

    /// The counter of this number, whether `fit` has been called since it was given or not.
    pub fn hits(&self, counters: &Counters, id: u32) -> u64 {
        let known = counters.given().get(id as usize).is_some_and(|given| *given <= self.fitted);
        self.hits.get(id as usize).copied().filter(|_| known).unwrap_or(0)
    }

    /// What is known of an action as it is in its table now, whether `fit` has been called since it came or not.
    pub fn counted(&self, actions: &Actions, id: ActionId) -> Memory {
        let serial = actions.entry(id).map(|e| e.serial);
        self.memory(id).filter(|m| Some(m.serial) == serial).cloned().unwrap_or_default()
    }

    /// What is known of an action.
    pub fn memory(&self, id: ActionId) -> Option<&Memory> {
        self.memories.get(id.0 as usize)
    }
}

/// Runs a list of actions on a packet; what follows the last one that was run.
pub(crate) fn exec(list: &[ActionId], packet: &mut Packet<'_>, run: &mut Run<'_>) -> Control {
    let (mut at, mut jumps) = (0, 0);
    let mut last = Control::Pass;
    while let Some(id) = list.get(at) {
        last = once(*id, packet, run);
        at = match last {
            Control::Pipe => at + 1,
            Control::Jump(n) => {
                jumps += 1;
                let to = n as usize;
                // Counted from the first action, as Linux does: so a jump may go back, and jumps are bounded.
                if to == 0 || to > list.len() || jumps >= ACTIONS_MAX {
                    return Control::Pass;
                }
                to
            }
            _ => return last,
        };
    }
    // Behind the last action nothing else is said.
    match last {
        Control::Pipe | Control::Jump(_) => Control::Pass,
        last => last,
    }
}

fn once(id: ActionId, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Control {
    let Some(entry) = run.actions.entry(id) else { return Control::Pipe };
    let action = &entry.action;
    let slot = id.0 as usize;
    // Taken out while the action runs, so that it can have the rest of the state too.
    let mut mine = run.state.memories.get_mut(slot).map(core::mem::take).unwrap_or_default();
    let mut answer = Control::Pass;
    for _ in 0..REPEATS_MAX {
        mine.bytes += u64::from(packet.meta.wire_len);
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
