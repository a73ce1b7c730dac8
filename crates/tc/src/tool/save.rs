//! The batch that makes the configuration of all devices again.

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::classify::action::{ActionId, Actions, Control, KINDS};
use txweir_core::classify::filter::{Block, BlockId, Bound, Chain, Filters, Rule, Table, U32};
use txweir_core::{Handle, Tree};

use super::device::OBJECTS;
use super::hashes::{Around, Root};
use super::{Devices, Hook, blocks};
use crate::action;
use crate::filter;
use crate::protocol;
use crate::show;

/// Returns the lines that make the qdiscs of every device as they are now, without loss, and their
/// filters and actions: for `-b`, with `--atomic` if packets are to stay in place. A default root,
/// packets and counters are not in them.
pub fn save(devices: &mut dyn Devices) -> String {
    let mut out = String::new();
    let mut filters = String::new();
    // Later lines refer to actions that earlier lines have made.
    let mut made = Made::default();
    let mut shared = own_actions(&devices.filters().actions, &mut made);
    for name in devices.names() {
        let Some(device) = devices.device(&name) else { continue };
        let objects = show::objects(&device.tree());
        for part in objects.chunks(OBJECTS) {
            devices.pause();
            let Some(device) = devices.device(&name) else { break };
            let trees = device.tree();
            let made = part.iter().filter_map(|of| of.made(&trees));
            out.extend(made.map(|made| made.command(Some(&name))));
        }
        let Some(device) = devices.device(&name) else { continue };
        let (hook, hooks) = (device.hook(), blocks::at_hooks(device.tree()));
        let places = device.tree().blocks();
        if let Some(hook) = hook {
            let shared = blocks::words(&blocks::numbers(devices.filters(), hooks));
            out.push_str(&format!("qdisc replace dev {name} {shared}{}\n", hook.name()));
        }
        for (at, block) in places.into_iter().filter(|(_, block)| !is_shared(devices.filters(), *block)) {
            let lines = block_lines(devices.filters(), block, &mut made, true);
            filters.extend(lines.iter().map(|line| line.at(&name, at)));
        }
    }
    for (number, block) in devices.filters().shared_blocks() {
        let lines = block_lines(devices.filters(), block, &mut made, true);
        filters.extend(lines.iter().map(|line| line.at_block(number)));
    }
    shared.push_str(&filters);
    out + &shared
}

/// A line about filters, without the device and the place.
pub(crate) struct Line {
    /// `filter replace`, `chain add`.
    pub(super) verb: &'static str,
    pub(super) words: String,
}

impl Line {
    pub(crate) fn at(&self, dev: &str, at: Handle) -> String {
        let place = match at {
            Hook::INGRESS => "ingress".into(),
            Hook::EGRESS => "egress".into(),
            at => format!("parent {at}"),
        };
        format!("{} dev {dev} {place}{}\n", self.verb, self.words)
    }
    fn at_block(&self, number: u32) -> String {
        format!("{} block {number}{}\n", self.verb, self.words)
    }
}

fn is_shared(filters: &Filters, block: BlockId) -> bool {
    filters.block(block).is_some_and(|block| block.number().is_some())
}

/// The actions that earlier lines have made: a later line has only the kind and the index of each.
#[derive(Default)]
pub(crate) struct Made<'a> {
    before: Option<&'a Made<'a>>,
    names: BTreeSet<(&'static str, u32)>,
}

impl<'a> Made<'a> {
    /// Returns those that lines after some others have made; the others are not copied.
    const fn after(before: &'a Made<'a>) -> Self {
        Self { before: Some(before), names: BTreeSet::new() }
    }
    fn has(&self, name: (&'static str, u32)) -> bool {
        self.names.contains(&name) || self.before.is_some_and(|before| before.has(name))
    }
    /// Returns true if the action is new.
    fn insert(&mut self, name: (&'static str, u32)) -> bool {
        !self.has(name) && self.names.insert(name)
    }
}

/// Returns the lines of the filters of blocks that devices share.
pub(crate) fn shared_lines(filters: &Filters, made: &mut Made<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for (number, block) in filters.shared_blocks() {
        let lines = block_lines(filters, block, made, false);
        all.extend(lines.iter().map(|line| line.at_block(number)));
    }
    all
}

/// Returns the lines that make the filters and actions of a device, or of a tree that takes its
/// place.
/// `own` are the actions that were made by commands of their own.
pub(crate) fn filter_lines(filters: &Filters, own: &Made<'_>, dev: &str, tree: &Tree) -> Vec<String> {
    let mut made = Made::after(own);
    let lines = |(at, block)| {
        let lines = block_lines(filters, block, &mut made, false);
        lines.into_iter().map(move |line: Line| line.at(dev, at)).collect::<Vec<_>>()
    };
    tree.blocks().filter(|(_, block)| !is_shared(filters, *block)).flat_map(lines).collect()
}

/// Returns the lines of the actions that were made by commands of their own.
pub(crate) fn own_actions(actions: &Actions, made: &mut Made<'_>) -> String {
    let mut out = String::new();
    for (kind, entry) in KINDS.iter().flat_map(|kind| actions.of_kind(kind).map(move |(_, e)| (*kind, e))) {
        if entry.refs > entry.binds && !matches!(entry.action.control, Control::Goto(_)) {
            made.insert((kind, entry.index));
            out.push_str(&format!("actions replace action {}\n", action::words(entry)));
        }
    }
    out
}

/// Returns the lines of the filters of a block. If they are to be `loaded` where there are none,
/// they have lines around them that its hash tables may need.
fn block_lines(filters: &Filters, block: BlockId, made: &mut Made<'_>, loaded: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let Some(block) = filters.block(block) else { return lines };
    let mut chains: Vec<_> = block.chains().collect();
    chains.sort_by_key(|chain| chain.made);
    // Filters link to hash tables of any chain and priority, which must exist by then. Default
    // numbers are made again in the order in which the priorities were made.
    let mut roots: Vec<Root> = Vec::new();
    for chain in &chains {
        let tables = chain.tables.iter().filter(|table| table.kind() == "u32");
        roots.extend(tables.map(|table| Root::of(block, chain.index, table)));
    }
    roots.sort_by_key(|root| root.number);
    let around = if loaded { Around::of(block, &roots) } else { None };
    // Without lines around them, only those with tables are made first.
    let early = |root: &&Root| around.is_some() || !root.tables.is_empty();
    // The order in which these lines make the chains, so that they are saved in it again.
    let mut order: BTreeMap<u32, usize> = BTreeMap::new();
    for root in roots.iter().filter(early) {
        let next = order.len();
        order.entry(root.chain).or_insert(next);
    }
    if !order.is_empty() {
        chains.sort_by_key(|chain| (!chain.kept, order.get(&chain.index).copied().unwrap_or(usize::MAX)));
        chains.iter().filter(|chain| chain.kept).for_each(|chain| lines.push(chain_line(chain)));
    }
    lines.extend(around.iter().flat_map(|around| around.before(&roots)));
    lines.extend(roots.iter().flat_map(Root::lines));
    lines.extend(around.iter().flat_map(Around::tables));
    for chain in chains {
        if chain.kept && order.is_empty() {
            lines.push(chain_line(chain));
        }
        for table in &chain.tables {
            table_lines(filters, block, chain.index, table, made, &mut lines);
        }
    }
    if let Some(around) = &around {
        block.visit_left(&mut |handle, rule, goal, _| {
            lines.extend(filter_line(filters, around.left(), handle, &rule, goal, made));
        });
        lines.extend(around.after());
    }
    lines
}

fn chain_line(chain: &Chain) -> Line {
    Line { verb: "chain add", words: chain_words(chain) }
}

/// Returns the number of a chain, and its template.
fn chain_words(chain: &Chain) -> String {
    let Some(template) = &chain.template else { return format!(" chain {}", chain.index) };
    let protocol = match template.protocol {
        0 => String::new(),
        protocol => format!(" protocol {}", said(protocol)),
    };
    let words = filter::words(&template.rule, &Bound::default());
    format!(" chain {}{protocol} {}{words}", chain.index, template.rule.kind())
}

/// Returns ` chain 3 protocol ip prio 5`.
pub(super) fn place_words(chain: u32, table: &Table) -> String {
    let chain = if chain == 0 { String::new() } else { format!(" chain {chain}") };
    format!("{chain} protocol {} prio {}", said(table.protocol), table.prio)
}

fn table_lines(
    filters: &Filters,
    block: &Block,
    chain: u32,
    table: &Table,
    made: &mut Made<'_>,
    lines: &mut Vec<Line>,
) {
    let first = lines.len();
    let place = place_words(chain, table);
    block.visit_made(table, &mut |handle, rule, goal, _| {
        lines.extend(filter_line(filters, &place, handle, &rule, goal, made));
    });
    // The list has the newest first; the newest must be made last.
    if matches!(table.kind(), "bpf" | "fw") {
        lines[first..].reverse();
    }
}

/// Returns the line of a filter at a place within its block; `None` for a hash table, which has
/// lines of its own.
fn filter_line(
    filters: &Filters,
    place: &str,
    handle: u32,
    rule: &Rule,
    goal: &Bound,
    made: &mut Made<'_>,
) -> Option<Line> {
    if matches!(rule, Rule::U32(U32::Root | U32::Table(_))) {
        return None;
    }
    let handle = filter::handle_text(rule, handle);
    let new = goal.actions.iter().filter_map(|id| filters.actions.entry(*id));
    let new: Vec<_> = new.filter(|e| !made.has((e.action.kind.name(), e.index))).collect();
    let estimator = action::estimator_words(&new);
    let mut words = format!("{place}{estimator} handle {handle}");
    words.push_str(&format!(" {}{}", rule.kind(), filter::words(rule, goal)));
    words.push_str(&actions_of(&filters.actions, goal, made));
    Some(Line { verb: "filter replace", words })
}

/// Returns a protocol in the form of a line.
fn said(number: u16) -> String {
    match protocol::name(number) {
        unnamed if unnamed.starts_with('[') => format!("{number:#06x}"),
        name => name,
    }
}

/// Returns the actions of a filter: the first line to name an action has all its words.
fn actions_of(actions: &Actions, goal: &Bound, made: &mut Made<'_>) -> String {
    let mut words = String::new();
    for entry in goal.actions.iter().filter_map(|id: &ActionId| actions.entry(*id)) {
        let kind = entry.action.kind.name();
        words.push_str(&match made.insert((kind, entry.index)) {
            true => format!(" action {}", action::words(entry)),
            false => format!(" action {kind} index {}", entry.index),
        });
    }
    words
}
