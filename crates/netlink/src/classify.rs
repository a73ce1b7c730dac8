//! Messages about filters, chains and actions, from the state.

use txweir_core::Handle;
use txweir_core::classify::action::{ActionId, KINDS};
use txweir_core::classify::filter::{Block, BlockId, Bound, Chain, Filters, Rule, Table};
use txweir_tc::tool::{Asks, Devices, Hook, filters_at, in_order};

use crate::actions::{self, Look};
use crate::filters;
use crate::links;
use crate::message::{Header, TcHead, kind, message};
use crate::object::Shown;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// The number of a chain.
pub(crate) const CHAIN: u16 = 11;
/// The link of a message about a block that links share; its parent is then the block's number.
pub(crate) const BLOCK: u32 = u32::MAX;

/// Returns the tables that messages are made of.
pub(crate) fn look(devices: &dyn Devices, counts: bool) -> Look<'_> {
    let filters = devices.filters();
    Look {
        actions: &filters.actions,
        counters: &filters.counters,
        state: devices.state(),
        now: devices.now(),
        counts,
    }
}

/// The owner of filters: a place of a link, or a block that links share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    link: u32,
    parent: u32,
    /// The qdisc, which names the chains.
    qdisc: u32,
    pub(crate) block: BlockId,
}

impl Owner {
    const fn shared(number: u32, block: BlockId) -> Self {
        Self { link: BLOCK, parent: number, qdisc: number, block }
    }
    fn of(filters: &Filters, block: BlockId, link: u32, said: Handle, at: Handle) -> Self {
        match filters.block(block).and_then(Block::number) {
            Some(number) => Self::shared(number, block),
            None => Self { link, parent: said.0, qdisc: at.qdisc().0, block },
        }
    }

    /// Returns the owner that a request asks for; `None` if there are no filters.
    pub(crate) fn asked(head: TcHead, devices: &mut dyn Devices) -> Result<Option<Self>, Refusal> {
        if head.link == BLOCK {
            let block = devices.filters().shared(head.parent);
            return Ok(block.map(|block| Self::shared(head.parent, block)));
        }
        let name = links::name(devices, head.link)?;
        let found = devices.device(&name).and_then(|device| filters_at(device, Handle(head.parent)));
        let Some(Asks { at, said, block: Some(block) }) = found else { return Ok(None) };
        Ok(Some(Self::of(devices.filters(), block, head.link, said, at)))
    }
}

/// The filters that a request asks for: 0 stands for all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    chain: Option<u32>,
    prio: u16,
    protocol: u16,
}

impl Wanted {
    pub(crate) fn read(head: TcHead, all: &Attributes<'_>) -> Result<Self, Refusal> {
        let (prio, protocol) = of_info(head.info);
        Ok(Self { chain: all.u32(CHAIN)?, prio, protocol })
    }
    fn has(&self, chain: &Chain, table: &Table) -> bool {
        self.chain.is_none_or(|index| index == chain.index)
            && (self.prio == 0 || self.prio == table.prio)
            && (self.protocol == 0 || self.protocol == table.protocol)
    }
}

/// Returns priority and protocol: the number that says both has the second in network byte order.
pub(crate) const fn of_info(info: u32) -> (u16, u16) {
    // Two halves.
    ((info >> 16) as u16, u16::from_be(info as u16))
}

const fn info(prio: u16, protocol: u16) -> u32 {
    (prio as u32) << 16 | protocol.to_be() as u32
}

/// Calls `f` on the filters of an owner that are wanted, each behind its table, as in Linux.
/// Packets have their turn between tables.
pub(crate) fn each_filter(
    devices: &mut dyn Devices,
    owner: Owner,
    wanted: Wanted,
    counts: bool,
    f: &mut dyn FnMut(u32, Shown),
) {
    let mut each = |devices: &dyn Devices, block: &Block, chain: &Chain, table: &Table| {
        if !wanted.has(chain, table) {
            return;
        }
        let look = look(devices, counts);
        f(chain.index, filter(owner, chain.index, table, 0, None, &look));
        block.visit(table, &mut |handle, rule, goal, hits| {
            let found = (&rule, goal, hits);
            f(chain.index, filter(owner, chain.index, table, handle, Some(found), &look));
        });
    };
    devices.each_table(owner.block, &mut each);
}

fn filter(
    owner: Owner,
    chain: u32,
    table: &Table,
    handle: u32,
    found: Option<(&Rule, &Bound, u32)>,
    look: &Look<'_>,
) -> Shown {
    let mut is = Writer::default();
    is.text(KIND, table.kind());
    is.u32(CHAIN, chain);
    if let Some((rule, goal, hits)) = found {
        is.nest(OPTIONS, |w| filters::write(&filters::Shown { handle, rule, goal, hits, look }, w));
    }
    let info = info(table.prio, table.protocol);
    let head = TcHead { link: owner.link, handle, parent: owner.parent, info };
    Shown { kind: kind::NEW_FILTER, head, is: is.finish(), counts: Vec::new() }
}

/// Returns the filter that a request names by chain, priority and handle.
pub(crate) fn find(devices: &dyn Devices, owner: Owner, head: TcHead, wanted: Wanted) -> Option<Shown> {
    let filters = devices.filters();
    let block = filters.block(owner.block)?;
    let look = look(devices, true);
    let chain = block.chain(wanted.chain.unwrap_or(0))?;
    let table = chain.tables.iter().find(|table| wanted.has(chain, table))?;
    let mut shown = None;
    block.find(table, head.handle, &mut |rule, goal, hits| {
        let found = Some((&rule, goal, hits));
        shown = Some(filter(owner, chain.index, table, head.handle, found, &look));
    });
    // A listing names the place as the request does.
    let parent = if head.link == BLOCK || head.parent == 0 { owner.parent } else { head.parent };
    shown.map(|shown| Shown { head: TcHead { parent, ..shown.head }, ..shown })
}

/// Calls `f` on the chains of an owner. Packets have their turn between some of them.
pub(crate) fn each_chain(
    devices: &mut dyn Devices,
    owner: Owner,
    only: Option<u32>,
    f: &mut dyn FnMut(u32, Shown),
) {
    let all = in_order(devices.filters(), Some(owner.block)).into_iter().map(|chain| chain.index);
    let all: Vec<u32> = all.filter(|index| only.is_none_or(|only| only == *index)).collect();
    devices.in_steps(all, &mut |devices, index| {
        let block = devices.filters().block(owner.block);
        let Some(chain) = block.and_then(|block| block.chain(index)) else { return };
        let mut is = Writer::default();
        is.u32(CHAIN, chain.index);
        if let Some(template) = &chain.template {
            is.text(KIND, template.rule.kind());
            is.nest(OPTIONS, |w| filters::write_template(&template.rule, w));
        }
        let head = TcHead { link: owner.link, handle: 0, parent: owner.qdisc, info: 0 };
        f(chain.index, Shown { kind: kind::NEW_CHAIN, head, is: is.finish(), counts: Vec::new() });
    });
}

/// Returns the owners of all filters of a link, its hooks included; blocks that links share are
/// not among them.
pub(crate) fn owners(devices: &mut dyn Devices, name: &str) -> Vec<Owner> {
    let Some(link) = links::index(devices, name) else { return Vec::new() };
    let Some(device) = devices.device(name) else { return Vec::new() };
    let mut places = device.tree().blocks();
    places.extend(
        [Hook::INGRESS, Hook::EGRESS].into_iter().filter_map(|at| Some((at, device.tree().block(at)?))),
    );
    places.sort_by_key(|(at, _)| at.0);
    places.dedup_by_key(|(at, _)| at.0);
    let filters = devices.filters();
    let owners = places.into_iter().map(|(at, block)| Owner::of(filters, block, link, at, at));
    owners.filter(|owner| owner.link != BLOCK).collect()
}

/// Returns the numbers of the blocks that the hooks of a link share with others, for ingress and
/// egress.
pub(crate) fn numbers(devices: &mut dyn Devices, name: &str) -> [Option<u32>; 2] {
    let Some(device) = devices.device(name).filter(|device| device.hook().is_some()) else {
        return [None; 2];
    };
    let blocks = [Hook::INGRESS, Hook::EGRESS].map(|at| device.tree().block(at));
    blocks.map(|block| devices.filters().block(block?)?.number())
}

/// Returns the owners of filters that links share.
pub(crate) fn shared(filters: &Filters) -> Vec<Owner> {
    filters.shared_blocks().map(|(number, block)| Owner::shared(number, block)).collect()
}

/// Attributes of a message about actions.
pub(crate) const LIST: u16 = 1;
const COUNT: u16 = 3;
/// Bytes of `struct tcamsg`.
pub(crate) const ACTIONS_HEAD: usize = 4;
/// Bytes of actions beyond which the next ones have a message of their own: an attribute has at
/// most 64 KiB.
const ACTIONS_PART: usize = 16 << 10;

/// Returns a message with these actions; `total` if it is a part of a listing.
fn of_actions(ids: &[ActionId], look: &Look<'_>, listed: bool, header: Header) -> Vec<u8> {
    message(header, |w| {
        w.put(&[0; ACTIONS_HEAD]);
        if listed {
            w.u32(COUNT, u32::try_from(ids.len()).unwrap_or(u32::MAX));
        }
        w.nest(LIST, |w| actions::write_list(ids, look, listed, w));
    })
}

/// Returns the message about single actions.
pub(crate) fn of_single(devices: &dyn Devices, ids: &[ActionId], header: Header) -> Vec<u8> {
    of_actions(ids, &look(devices, true), false, header)
}

/// Returns the messages of all actions of a kind. Packets have their turn between some actions.
pub(crate) fn actions_listed(devices: &mut dyn Devices, name: &str, part: Header) -> Vec<Vec<u8>> {
    let ids: Vec<ActionId> = devices.filters().actions.of_kind(name).map(|(id, _)| id).collect();
    let mut all: Vec<Vec<ActionId>> = Vec::new();
    let mut size = 0;
    devices.in_steps(ids, &mut |devices, id| {
        let mut w = Writer::default();
        actions::write_list(&[id], &look(devices, true), true, &mut w);
        let len = w.finish().len();
        size += len;
        match all.last_mut() {
            Some(last) if size <= ACTIONS_PART => last.push(id),
            _ => {
                all.push(vec![id]);
                size = len;
            }
        }
    });
    let header = Header { kind: kind::NEW_ACTION, ..part };
    let mut messages = Vec::with_capacity(all.len());
    for ids in all {
        devices.pause();
        messages.push(of_actions(&ids, &look(devices, true), true, header));
    }
    messages
}

/// An action by its kind and its index.
pub(crate) type Known = (&'static str, u32);

/// A function that is called on actions: with the devices, the name, the attributes, and the action
/// itself.
type EachAction<'a> = dyn FnMut(&dyn Devices, Known, Vec<u8>, ActionId) + 'a;

/// Calls `f` on each action that a command of its own has made, with its attributes. Packets have
/// their turn between some actions.
pub(crate) fn each_action(devices: &mut dyn Devices, f: &mut EachAction<'_>) {
    let actions = &devices.filters().actions;
    let all = KINDS.iter().flat_map(|kind| actions.of_kind(kind).map(move |(id, entry)| (*kind, id, entry)));
    let own = all.filter(|(_, _, entry)| entry.refs > entry.binds);
    let own: Vec<(Known, ActionId)> = own.map(|(kind, id, entry)| ((kind, entry.index), id)).collect();
    devices.in_steps(own, &mut |devices, (name, id)| {
        let mut w = Writer::default();
        w.nest(LIST, |w| actions::write_list(&[id], &look(devices, false), false, w));
        f(devices, name, w.finish(), id);
    });
}

/// An action that a request names: its kind, and its index.
pub(crate) type Name<'a> = (&'a str, Option<u32>);

/// Returns the actions that a request names.
pub(crate) fn names(body: &[u8]) -> Result<Vec<Name<'_>>, Refusal> {
    Record::of(body, ACTIONS_HEAD, "struct tcamsg")?;
    let all = Attributes::read(&body[ACTIONS_HEAD..], "message")?;
    let list = all.nested(LIST)?;
    let mut names = Vec::new();
    for one in actions::in_order(&list)? {
        let one = Attributes::read(one, "action")?;
        let Some(kind) = one.text(actions::KIND, actions::KIND_MAX)? else {
            return Err(Refusal::invalid("action: attribute 1, its kind, is missing"));
        };
        names.push((kind, one.u32(actions::INDEX)?));
    }
    Ok(names)
}
