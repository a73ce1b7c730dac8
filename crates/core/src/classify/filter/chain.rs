//! Blocks, chains and tables, and their operations: each applies whole or not at all.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::chains::Chains;
use super::shared::Shared;
use super::sharing::SharedBlock;
use super::{ANY_PROTOCOL, Bound, Decision, Goal, RESTARTS_MAX, Rule, Tables, Verdict};
use crate::base::time::Instant;
use crate::classify::action::Run;
use crate::classify::action::{ActionId, Actions, Control, State};
use crate::classify::counters::Counters;
use crate::classify::packet::{Packet, PortId};
use crate::packet::headers::ethertype;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Priority of the first filter that was added without one, as in the reference; each further one
/// gets the priority below the lowest in use.
const AUTO_PRIO: u16 = 0xc000;
/// Priorities from here on are looked at where none is given.
const UPPER_HALF: u16 = 0x8000;

/// A block of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(super) u32);

/// Requirement of a command on the existence of its object: add, replace or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// The object must not exist.
    Add,
    /// The object may exist.
    Replace,
    /// The object must exist.
    Change,
}

/// Place of a filter, existing or new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The chain.
    pub chain: u32,
    /// The priority; `None` to choose one.
    pub prio: Option<u16>,
    /// The protocol; `None` for that of the table, or all.
    pub protocol: Option<u16>,
    /// The handle of the filter within its table.
    pub handle: Option<u32>,
}

/// The filters of one kind, priority and protocol.
#[derive(Clone, Debug)]
pub struct Table {
    /// Priority; tables with lower ones are tried first.
    pub prio: u16,
    /// Protocol of the packets that the filters see.
    pub protocol: u16,
    tables: Arc<Tables>,
}

impl Table {
    /// Returns the kind.
    pub fn kind(&self) -> &'static str {
        self.tables.kind()
    }
}

/// A chain of tables.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Number of the chain.
    pub index: u32,
    /// Number of the block's chains that were made before; chains are listed in this order.
    pub made: u32,
    /// The tables, by priority.
    pub tables: Vec<Table>,
    /// True if a command of its own made the chain; then it stays when it is empty.
    pub kept: bool,
    /// Restriction on the filters, if the chain was made with one.
    pub template: Option<Box<Template>>,
}

/// Restriction on the filters of a chain: they have this kind, and read only fields and bits that
/// this rule reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Protocol in the command, 0 for none.
    pub protocol: u16,
    /// Fields that the filters may read; the values do not matter.
    pub rule: Rule,
}

/// The chains of filters at one place.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The chains, by number.
    chains: Chains,
    /// Number of chains ever made.
    made: u32,
    /// The data that the tables have in common.
    common: Shared,
    /// Set if several places share the block by a number.
    pub(super) shared: Option<SharedBlock>,
}

/// All filters and actions of one owner.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// The actions.
    pub actions: Actions,
    pub(super) blocks: Vec<Option<Block>>,
    /// The places of blocks that are gone.
    vacant: BTreeSet<u32>,
    /// The shared blocks, by their numbers.
    pub(super) numbers: BTreeMap<u32, BlockId>,
    /// The allocator of counters.
    pub counters: Counters,
    /// The key of the hashes of tables.
    seed: u64,
}

/// Error: a filter with that handle exists already.
pub(super) fn exists(kind: &'static str, handle: u32) -> ConfigError {
    ConfigError::new(
        ErrorKind::Exists,
        Object::Filter(Some(kind)),
        "no such filter yet",
        format!("{handle:#x}"),
    )
    .key("handle")
}

/// Error: no filter has that handle.
pub(super) fn not_found(kind: &'static str, handle: u32) -> ConfigError {
    ConfigError::new(
        ErrorKind::NotFound,
        Object::Filter(Some(kind)),
        "a filter that exists",
        format!("{handle:#x}"),
    )
    .key("handle")
}

fn no_block(block: BlockId) -> ConfigError {
    ConfigError::new(ErrorKind::NotFound, Object::Block, "a block that exists", block.0)
}

/// Error: the table has filters of another kind.
pub(super) fn other_kind(given: &str) -> ConfigError {
    let expected = "the kind of the filters with this priority";
    ConfigError::new(ErrorKind::Conflict, Object::Filter(None), expected, given).key("kind")
}

/// Returns the error of a priority that no filter has.
fn unused(prio: u16) -> ConfigError {
    ConfigError::new(ErrorKind::NotFound, Object::Filter(None), "a priority in use", prio).key("prio")
}

/// Returns the error of a protocol that is not that of the filters with this priority.
fn other_protocol(kind: ErrorKind, table: &Table, given: u16) -> ConfigError {
    let expected = format!("{}, which priority {} has", protocol(table.protocol), table.prio);
    ConfigError::new(kind, Object::Filter(None), expected, protocol(given)).key("protocol")
}

/// Returns a protocol by the name that lines mostly give it, or its number.
fn protocol(number: u16) -> Cow<'static, str> {
    match number {
        ANY_PROTOCOL => "all".into(),
        ethertype::IPV4 => "ip".into(),
        ethertype::IPV6 => "ipv6".into(),
        ethertype::ARP => "arp".into(),
        number => format!("{number:#06x}").into(),
    }
}

impl Filters {
    /// Returns an owner's filters and actions, initially none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key of the hashes of tables. If filters are added on behalf of strangers, it must
    /// come from the operating system's random source and stay secret.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds an empty block.
    pub fn add_block(&mut self) -> BlockId {
        if let Some(slot) = self.vacant.pop_first()
            && let Some(place) = self.blocks.get_mut(slot as usize)
        {
            *place = Some(Block::default());
            return BlockId(slot);
        }
        self.blocks.push(Some(Block::default()));
        BlockId(u32::try_from(self.blocks.len() - 1).unwrap_or(u32::MAX))
    }

    /// Removes a block from a place of a port. The block is deleted with all its filters, unless
    /// another place shares it. The port matters for a shared block alone.
    pub fn delete_block(&mut self, block: BlockId, port: PortId) {
        if !self.unshare(block, port) {
            return;
        }
        self.clear(block, None);
        if let Some(slot) = self.blocks.get_mut(block.0 as usize) {
            *slot = None;
            self.vacant.insert(block.0);
        }
    }

    /// True if no block has a filter.
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().flatten().all(|b| b.chains().all(|c| c.tables.is_empty()))
    }

    /// Returns a block.
    #[inline]
    pub fn block(&self, block: BlockId) -> Option<&Block> {
        self.blocks.get(block.0 as usize)?.as_ref()
    }

    pub(super) fn block_mut(&mut self, block: BlockId) -> Result<&mut Block, ConfigError> {
        let found = self.blocks.get_mut(block.0 as usize).and_then(Option::as_mut);
        found.ok_or_else(|| no_block(block))
    }

    /// Makes room in a reader's state for all filters and actions. The caller runs it after every
    /// change, between packets.
    pub fn fit(&self, state: &mut State) {
        state.fit(&self.actions, &self.counters);
    }

    /// Adds, replaces or changes a filter. Returns its place.
    pub fn put(
        &mut self,
        block: BlockId,
        named: Named,
        rule: &Rule,
        goal: &Goal,
        existence: Existence,
        now: Instant,
    ) -> Result<Named, ConfigError> {
        let prio = self.place(block, &named, rule, existence)?;
        let protocol = named.protocol.unwrap_or(ANY_PROTOCOL);
        self.block(block).map_or(Ok(()), |found| found.fits(named.chain, protocol, rule))?;
        let actions = self.actions.bind(&goal.actions, now)?;
        let bound = Bound { class: goal.class, hits: 0, actions };
        let (seed, found) = (self.seed, self.blocks.get_mut(block.0 as usize).and_then(Option::as_mut));
        let done = found
            .map(|found| found.put(named, prio, protocol, rule, bound, existence, &mut self.counters, seed));
        match done.ok_or_else(|| no_block(block))? {
            Ok((handle, old)) => {
                self.release(old.as_slice());
                Ok(Named {
                    chain: named.chain,
                    prio: Some(prio),
                    protocol: Some(protocol),
                    handle: Some(handle),
                })
            }
            Err((err, unused)) => {
                self.actions.unbind(&unused.actions);
                Err(err)
            }
        }
    }

    /// Returns the priority of the table for a filter, if the filter may be there.
    fn place(
        &mut self,
        block: BlockId,
        named: &Named,
        rule: &Rule,
        existence: Existence,
    ) -> Result<u16, ConfigError> {
        let found = self.block_mut(block)?;
        found.takes(rule, named.handle)?;
        let tables = found.chain(named.chain).map_or(&[][..], |chain| &chain.tables);
        let prio = match named.prio.filter(|p| *p != 0) {
            Some(prio) => prio,
            None if existence == Existence::Change => {
                let missing = ConfigError::new(ErrorKind::Missing, Object::Filter(None), "a priority", "");
                return Err(missing.key("prio"));
            }
            // The one before the first of the upper half.
            None => tables.iter().find(|t| t.prio >= UPPER_HALF).map_or(AUTO_PRIO, |t| t.prio - 1),
        };
        let at = tables.binary_search_by_key(&prio, |t| t.prio).ok();
        let Some(table) = at.and_then(|at| tables.get(at)) else {
            if existence == Existence::Change {
                return Err(unused(prio));
            }
            return Ok(prio);
        };
        if let Some(given) = named.protocol.filter(|p| *p != table.protocol) {
            return Err(other_protocol(ErrorKind::Conflict, table, given));
        }
        if table.kind() != rule.kind() {
            return Err(other_kind(rule.kind()).hint(format!("priority {prio} has {}", table.kind())));
        }
        Ok(prio)
    }

    /// Removes filters: one; without a handle, all of a priority; without a priority, all of a
    /// chain. `kind`, if given, must be theirs.
    pub fn delete(&mut self, block: BlockId, named: Named, kind: Option<&str>) -> Result<(), ConfigError> {
        let Some(prio) = named.prio.filter(|p| *p != 0) else {
            if named.handle.is_some() || named.protocol.is_some() || kind.is_some() {
                let err = ConfigError::new(ErrorKind::Missing, Object::Filter(None), "a priority", "");
                return Err(err
                    .key("prio")
                    .hint("without one, all filters of the chain are removed; give no other selector then"));
            }
            self.block_mut(block)?;
            self.clear(block, Some(named.chain));
            return Ok(());
        };
        let found = self.block_mut(block)?;
        let Some(chain) = found.chain(named.chain) else {
            return Err(ConfigError::new(
                ErrorKind::NotFound,
                Object::Filter(None),
                "a chain that exists",
                named.chain,
            )
            .key("chain"));
        };
        let Ok(at) = chain.tables.binary_search_by_key(&prio, |t| t.prio) else {
            return Err(unused(prio));
        };
        let table = &chain.tables[at];
        if let Some(given) = named.protocol.filter(|p| *p != table.protocol) {
            return Err(other_protocol(ErrorKind::NotFound, table, given));
        }
        if let Some(given) = kind.filter(|k| *k != table.kind()) {
            return Err(other_kind(given));
        }
        let gone = match named.handle.filter(|h| *h != 0) {
            Some(handle) => found.delete(named.chain, at, handle)?,
            None => found.take(named.chain, at),
        };
        found.forget_empty(named.chain);
        self.release(&gone);
        Ok(())
    }

    /// Makes a chain that stays when it has no filters. A template restricts the fields that its
    /// filters may read.
    pub fn add_chain(
        &mut self,
        block: BlockId,
        index: u32,
        template: Option<Template>,
    ) -> Result<(), ConfigError> {
        if let Some(kind) = template.as_ref().map(|t| t.rule.kind()).filter(|kind| *kind != "flower") {
            let err = ConfigError::new(ErrorKind::Unsupported, Object::Chain, "a template of flower", kind);
            return Err(err.key("kind"));
        }
        let found = self.block_mut(block)?;
        if found.chain(index).is_some() {
            let expected = "a chain that is not there yet";
            let err = ConfigError::new(ErrorKind::Exists, Object::Chain, expected, index);
            return Err(err.key("chain"));
        }
        let (chain, _) = found.chain_or_new(index);
        (chain.kept, chain.template) = (true, template.map(Box::new));
        Ok(())
    }

    /// Removes a chain with its filters.
    pub fn delete_chain(&mut self, block: BlockId, index: u32) -> Result<(), ConfigError> {
        let found = self.block_mut(block)?;
        match found.chains.get_mut(index) {
            Some(chain) => {
                chain.kept = false;
                self.clear(block, Some(index));
                Ok(())
            }
            None => {
                let err = ConfigError::new(ErrorKind::NotFound, Object::Chain, "a chain that exists", index);
                Err(err.key("chain"))
            }
        }
    }

    /// Removes all filters of a chain, or of all chains.
    fn clear(&mut self, block: BlockId, chain: Option<u32>) {
        let mut gone = Vec::new();
        if let Ok(found) = self.block_mut(block) {
            let common = &mut found.common;
            let mut empty = |chain: &mut Chain| {
                for mut table in chain.tables.drain(..).rev() {
                    gone.extend(Arc::make_mut(&mut table.tables).leave(common));
                }
            };
            match chain {
                None => {
                    found.chains.iter_mut().for_each(empty);
                    found.chains.retain(|chain| chain.kept);
                }
                Some(index) => {
                    found.chains.get_mut(index).into_iter().for_each(&mut empty);
                    found.forget_empty(index);
                }
            }
        }
        self.release(&gone);
    }

    fn release(&mut self, gone: &[Bound]) {
        let ids: Vec<ActionId> = gone.iter().flat_map(|b| b.actions.iter().copied()).collect();
        self.actions.unbind(&ids);
        gone.iter().for_each(|b| self.counters.give(b.hits));
    }

    /// Classifies a packet at a block. Total and bounded; allocates nothing.
    #[inline]
    pub fn classify(&self, block: BlockId, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Verdict {
        self.block(block).map_or(Verdict::Unmatched, |b| b.classify(packet, run))
    }
}

impl Block {
    /// Returns the chains, in the order of their numbers.
    pub fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.chains.iter()
    }
    /// Returns the chain of a number.
    pub fn chain(&self, index: u32) -> Option<&Chain> {
        self.chains.get(index)
    }
    /// Returns the chain that packets enter, if it is there.
    #[inline]
    pub const fn first_chain(&self) -> Option<&Chain> {
        self.chains.first()
    }
    /// Removes a chain that no filter and no command keeps.
    fn forget_empty(&mut self, index: u32) {
        if self.chain(index).is_some_and(|chain| !chain.kept && chain.tables.is_empty()) {
            self.chains.remove(index);
        }
    }

    /// Returns the chain of a number, which is made if it is not there, and the data that the
    /// tables have in common.
    fn chain_or_new(&mut self, index: u32) -> (&mut Chain, &mut Shared) {
        let chain = self.chains.get_or_insert_with(index, || {
            let made = self.made;
            self.made = made.wrapping_add(1);
            Chain { index, made, ..Chain::default() }
        });
        (chain, &mut self.common)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one step of `Filters::put`, taken apart for the borrow of the block"
    )]
    fn put(
        &mut self,
        named: Named,
        prio: u16,
        protocol: u16,
        rule: &Rule,
        goal: Bound,
        existence: Existence,
        counters: &mut Counters,
        seed: u64,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        let (chain, shared) = self.chain_or_new(named.chain);
        let done = match chain.tables.binary_search_by_key(&prio, |t| t.prio) {
            Ok(at) => {
                let tables = Arc::make_mut(&mut chain.tables[at].tables);
                tables.put(shared, named.handle, rule, goal, existence, counters)
            }
            Err(at) => {
                let mut tables = Tables::for_rule(rule, shared, named.chain, prio, seed);
                let done = tables.put(shared, named.handle, rule, goal, existence, counters);
                match done.is_ok() {
                    true => chain.tables.insert(at, Table { prio, protocol, tables: Arc::new(tables) }),
                    false => drop(tables.leave(shared)),
                }
                done
            }
        };
        self.forget_empty(named.chain);
        done
    }

    /// Removes a filter, and its table if it was the last. Returns the goals that die with it.
    fn delete(&mut self, chain: u32, at: usize, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        let (found, shared) = self.chain_or_new(chain);
        let tables = Arc::make_mut(&mut found.tables[at].tables);
        let done = tables.delete(shared, handle);
        if done.is_ok() && tables.is_empty(shared) {
            self.take(chain, at);
        }
        done
    }

    /// Removes a table. Returns the goals that die with it.
    fn take(&mut self, chain: u32, at: usize) -> Vec<Bound> {
        let (found, shared) = self.chain_or_new(chain);
        let mut table = found.tables.remove(at);
        Arc::make_mut(&mut table.tables).leave(shared)
    }

    /// Visits all filters of one of its tables, in tc's order: handle, parameters, goal, and the
    /// first of the numbers of its counters (`State::hits`).
    pub fn visit(&self, table: &Table, f: &mut dyn FnMut(u32, Rule, &Bound, u32)) {
        table.tables.visit(&self.common, f);
    }
    /// Visits all filters of one of its tables in an order in which they can be added to make this
    /// table again.
    pub fn visit_made(&self, table: &Table, f: &mut dyn FnMut(u32, Rule, &Bound, u32)) {
        table.tables.visit_made(&self.common, f);
    }
    /// Visits the hash tables of u32 whose priority is gone, by number, each with its filters.
    pub fn visit_left(&self, f: &mut dyn FnMut(u32, Rule, &Bound, u32)) {
        if let Some(tables) = self.common.get() {
            tables.visit_left(&mut |handle, rule, goal, hits| f(handle, Rule::U32(rule.clone()), goal, hits));
        }
    }
    /// Visits the filter of one of its tables with that handle, if there is one.
    pub fn find(&self, table: &Table, handle: u32, f: &mut dyn FnMut(Rule, &Bound, u32)) {
        table.tables.find(&self.common, handle, f);
    }

    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Verdict {
        let Some(first) = self.first_chain() else { return Verdict::Unmatched };
        let mut chain = first;
        for _ in 0..=RESTARTS_MAX {
            match chain.walk(&self.common, packet, run) {
                Decision::Next => return Verdict::Unmatched,
                Decision::Made(Control::Reclassify, _) => chain = first,
                Decision::Made(Control::Goto(index), _) => match self.chain(index) {
                    Some(next) => chain = next,
                    // A chain without filters decides nothing.
                    None => return Verdict::Unmatched,
                },
                Decision::Made(Control::Drop, _) => return Verdict::Drop,
                Decision::Made(Control::Stolen | Control::Queued | Control::Trap, _) => {
                    return Verdict::Stolen;
                }
                Decision::Made(_, class) => return Verdict::Class(class),
            }
        }
        Verdict::Drop
    }
}

impl Chain {
    /// Tries the tables in their order.
    fn walk(&self, shared: &Shared, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        for table in &self.tables {
            if table.protocol == ANY_PROTOCOL || table.protocol == packet.protocol() {
                match table.tables.classify(shared, packet, run) {
                    Decision::Next => {}
                    made => return made,
                }
            }
        }
        Decision::Next
    }
}
