//! The filters, chains and actions of a device, from the listings of its places.

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::Handle;
use txweir_core::classify::filter::ANY_PROTOCOL;
use txweir_core::packet::headers::ethertype;

use super::steps::{Copied, Line, Noun, Table};
use crate::actions::{self, Held, Links};
use crate::classify::{BLOCK, CHAIN, of_info};
use crate::command;
use crate::filters;
use crate::flags::Asked;
use crate::message::{Header, TcHead, kind};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const KIND_MAX: usize = 15;
/// The attributes that say what a filter or a chain is.
const IS: [u16; 3] = [KIND, OPTIONS, CHAIN];
/// Kinds whose filters are tried in the order in which they were made.
pub(super) const IN_ORDER: [&str; 3] = ["basic", "bpf", "flow"];
/// Kinds that a listing has the newest first; of fw those of a bucket.
const NEWEST_FIRST: [&str; 3] = ["basic", "bpf", "fw"];

/// Attributes of flower: the protocol behind tags and sessions, those of tags, those of sessions.
const ETH_TYPE: u16 = 8;
const TAGS: [u16; 7] = [23, 24, 25, 77, 78, 79, 102];
const SESSIONS: [u16; 2] = [103, 104];
/// The ethertype of a session of PPPoE (RFC 2516, section 4).
const PPPOE: u16 = 0x8864;

const U32: &str = "u32";
/// Attributes of u32.
const HASH: u16 = 2;
/// Parts of a handle of u32: the table, and the filter in a bucket.
const TABLE: u32 = 0xfff0_0000;
const NODE: u32 = 0xfff;

/// The filters and chains as they were listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    all: Vec<Object>,
    /// Their places: a block that two hooks share is listed for each.
    seen: BTreeSet<(u16, Place, u32)>,
    /// The number of the device.
    link: u32,
}

/// The owner, the chain, the priority and the protocol.
type Place = (Owner, u32, u32);
/// The place of a device, or `BLOCK` and the number of a block.
type Owner = (u32, u32);

#[derive(Clone, Debug)]
struct Object {
    kind: u16,
    head: TcHead,
    name: String,
    chain: u32,
    /// The attributes of [`IS`].
    is: Vec<u8>,
}

impl Object {
    /// Returns the owner.
    fn owner(&self) -> Owner {
        (self.head.link, self.head.parent)
    }
    fn place(&self) -> Place {
        (self.owner(), self.chain, self.head.info)
    }
    /// True for a hash table of u32.
    fn is_table(&self) -> bool {
        self.kind == kind::NEW_FILTER && self.name == U32 && self.head.handle & NODE == 0
    }
    /// Returns the message.
    fn body(&self) -> Vec<u8> {
        let mut w = Writer::default();
        self.head.write(&mut w);
        w.put(&self.is);
        w.finish()
    }
}

impl Listed {
    /// Returns the number of filters and chains.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes a message, if there is room.
    pub(super) fn take(
        &mut self,
        kind: u16,
        mut head: TcHead,
        asked: TcHead,
        rest: &[u8],
        room: usize,
    ) -> Result<(), String> {
        let all = Attributes::read(rest, "message").map_err(|refusal| refusal.text)?;
        let name = all.text(KIND, KIND_MAX).map_err(|refusal| refusal.text)?.unwrap_or("").to_string();
        let chain = all.u32(CHAIN).map_err(|refusal| refusal.text)?.unwrap_or(0);
        // The table of a priority goes with its filters.
        if kind == kind::NEW_FILTER && head.handle == 0 {
            return Ok(());
        }
        self.link = asked.link;
        // A chain is listed with the qdisc, whichever place has it.
        if head.link != BLOCK {
            head.parent = asked.parent;
        }
        let mut is = Writer::default();
        for attribute in all.iter().filter(|attribute| IS.contains(&attribute.number)) {
            is.bytes(attribute.number, attribute.value);
        }
        let object = Object { kind, head, name, chain, is: is.finish() };
        if self.all.len() >= room {
            return Err(format!("there are more than {} objects", super::OBJECTS_MAX));
        }
        if self.seen.insert((kind, object.place(), head.handle)) {
            self.all.push(object);
        }
        Ok(())
    }

    /// Adds the lines of actions, chains and filters, in an order in which they can be made: hash
    /// tables before all filters, which may link to them.
    pub(super) fn lines(&self, device: &str, links: Links<'_>, copied: &mut Copied) {
        let mut words = |link: u32| match link == self.link {
            true => Some(device.to_string()),
            false => links(link),
        };
        let filled: BTreeSet<(Owner, u32)> =
            self.filters().map(|filter| (filter.owner(), filter.chain)).collect();
        let (roots, mixed) = (self.roots(), self.mixed());
        copied.left_out.extend(mixed.values().flatten().map(Clone::clone));
        let (mut own, mut chains, mut tables, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut known = BTreeSet::new();
        for object in self.in_order() {
            if object.head.link == BLOCK {
                copied.blocks.insert(object.head.parent);
            }
            let root =
                object.name == U32 && roots.get(&object.place()) == Some(&(object.head.handle & TABLE));
            if object.kind == kind::NEW_CHAIN {
                // Without a template it comes with its filters; the first one is always there.
                let comes = object.chain == 0 || filled.contains(&(object.owner(), object.chain));
                if !comes || !object.name.is_empty() {
                    keep(chain(object, &mut words), object, &mut chains, &mut copied.left_out);
                }
                continue;
            }
            let is_mixed = object.name == U32 && mixed.contains_key(&object.place());
            if object.is_table() && root || is_mixed {
                continue;
            }
            let made = filter(object, root, &mut words).map(|(line, held)| {
                for one in held.into_iter().filter(|one| known.insert((one.kind.clone(), one.index))) {
                    own.push(action(one));
                }
                line
            });
            let lines = if object.is_table() { &mut tables } else { &mut rest };
            keep(made, object, lines, &mut copied.left_out);
        }
        copied.lines.extend(own.into_iter().chain(chains).chain(tables).chain(rest));
    }

    fn filters(&self) -> impl Iterator<Item = &Object> {
        self.all.iter().filter(|object| object.kind == kind::NEW_FILTER)
    }

    /// Returns the priorities' own tables of u32: the oldest of each, which is listed last.
    fn roots(&self) -> BTreeMap<Place, u32> {
        self.filters().filter(|one| one.is_table()).map(|one| (one.place(), one.head.handle)).collect()
    }

    /// Returns the places of u32 that Linux lists with the tables of each other, the first of them
    /// with a sentence: those of one qdisc and priority in several chains, or at several classes or
    /// hooks. No listing tells which of them has which table.
    fn mixed(&self) -> BTreeMap<Place, Option<String>> {
        let mut tables: BTreeMap<Place, BTreeSet<u32>> = BTreeMap::new();
        for one in self.filters().filter(|one| one.is_table()) {
            tables.entry(one.place()).or_default().insert(one.head.handle);
        }
        let mut alike: BTreeMap<_, Vec<Place>> = BTreeMap::new();
        for (place, tables) in tables.into_iter().filter(|(_, tables)| tables.len() > 1) {
            let ((link, parent), _, info) = place;
            let qdisc = if link == BLOCK { parent } else { parent & 0xffff_0000 };
            alike.entry((link, qdisc, of_info(info).0, tables)).or_default().push(place);
        }
        let mut all = BTreeMap::new();
        for ((link, qdisc, prio, _), places) in alike.into_iter().filter(|(_, places)| places.len() > 1) {
            let at = if link == BLOCK { format!("block {qdisc}") } else { Handle(qdisc).to_string() };
            let said = format!(
                "filters of u32 of {at}, priority {prio}: {} places have this priority, and Linux lists \
                 the filters of all at each of them",
                places.len()
            );
            let first = places.first().copied();
            all.extend(places.iter().map(|place| (*place, (Some(*place) == first).then(|| said.clone()))));
        }
        all
    }

    /// Returns the objects in the order in which they were made, as far as a listing has it: those
    /// that it has the newest first are turned within their priority.
    fn in_order(&self) -> Vec<&Object> {
        let mut all: Vec<&Object> = self.all.iter().collect();
        let turned = |one: &Object| NEWEST_FIRST.contains(&&*one.name) || one.is_table();
        // Bound: each turn takes one object or more.
        let mut at = 0;
        while let Some(first) = all.get(at) {
            let (place, is_turned) = (first.place(), turned(first));
            let same = |one: &&&Object| is_turned && one.place() == place && turned(one);
            let len = all[at..].iter().take_while(same).count().max(1);
            all[at..at + len].reverse();
            at += len;
        }
        all
    }
}

/// Takes a line, or the reason for which there is none.
fn keep(made: Result<Line, Refusal>, object: &Object, lines: &mut Vec<Line>, left_out: &mut Vec<String>) {
    match made {
        Ok(line) => lines.push(line),
        Err(refusal) => left_out.push(format!("{}: {refusal}", place(object.head))),
    }
}

/// Returns the place of a filter, for people.
pub(super) fn place(head: TcHead) -> String {
    let (prio, _) = of_info(head.info);
    let owner = match head.link {
        BLOCK => format!("block {}", head.parent),
        _ => format!("{}", Handle(head.parent)),
    };
    match head.handle {
        0 => format!("chain of {owner}"),
        handle => format!("filter {handle:#x} of {owner}, priority {prio}"),
    }
}

/// Returns the words of a message about an object, behind its verb.
fn words(kind: u16, object: &Object, links: Links<'_>) -> Result<Vec<String>, Refusal> {
    let header = Header { kind, ..Header::default() };
    let verb = if kind == kind::DEL_FILTER { "del" } else { "add" };
    Ok(command::filter_words(header, &object.body(), links, &Asked::to(verb))?.into_iter().skip(2).collect())
}

/// Returns the table of a filter or a chain.
fn table(object: &Object, links: Links<'_>) -> Result<Table, Refusal> {
    let is_filter = object.kind == kind::NEW_FILTER;
    let mut bare = object.clone();
    (bare.head.handle, bare.is, bare.head.info) = (0, Vec::new(), 0);
    let owner = words(kind::DEL_FILTER, &bare, &mut *links)?;
    let mut all = Vec::new();
    if is_filter {
        let mut w = Writer::default();
        w.text(KIND, &object.name);
        w.u32(CHAIN, object.chain);
        (bare.is, bare.head.info) = (w.finish(), object.head.info);
        all = words(kind::DEL_FILTER, &bare, links)?.split_off(owner.len());
    }
    Ok(Table { owner, chain: object.chain, words: all, is_hash: object.is_table() })
}

/// Returns the line of a chain.
fn chain(object: &Object, links: Links<'_>) -> Result<Line, Refusal> {
    let table = table(object, &mut *links)?;
    // The protocol of a template follows from its fields.
    let options = Attributes::read(&object.is, "message")?.nested(OPTIONS)?;
    let has = |numbers: &[u16]| options.iter().any(|one| numbers.contains(&one.number));
    let protocol = match options.record(ETH_TYPE, 2)? {
        _ if object.name.is_empty() => 0,
        _ if has(&TAGS) => ethertype::VLAN.to_be(),
        _ if has(&SESSIONS) => PPPOE.to_be(),
        inner => inner.map_or(ANY_PROTOCOL.to_be(), |r| r.u16(0)),
    };
    let head = TcHead { info: protocol.into(), ..object.head };
    let words = words(kind::NEW_CHAIN, &Object { head, ..object.clone() }, links)?;
    let place = [table.owner.clone(), vec!["chain".into(), object.chain.to_string()]].concat();
    Ok(Line {
        noun: Noun::Chain,
        name: object.name.clone(),
        is: words.clone(),
        words,
        place,
        table: Some(table),
    })
}

/// Returns the line of a filter, and its actions. `root` says that it is in the table of its
/// priority.
fn filter(object: &Object, root: bool, links: Links<'_>) -> Result<(Line, Vec<Held>), Refusal> {
    let Some(actions_at) = filters::actions_at(&object.name) else {
        return Err(Refusal::unsupported(format!("there is no filter {} here", object.name)));
    };
    let table = table(object, &mut *links)?;
    let all = Attributes::read(&object.is, "message")?;
    let list = all.nested(OPTIONS)?.bytes(actions_at).unwrap_or(&[]);
    let held = actions::held(list, &mut *links)?;
    let place = words(kind::DEL_FILTER, object, &mut *links)?;
    let words = match root {
        true => words(kind::NEW_FILTER, &in_root(object)?, links)?,
        false => words(kind::NEW_FILTER, object, links)?,
    };
    // The list of actions is last.
    let behind: usize = held.iter().map(|one| one.words.len() + 1).sum();
    let mut is = words[..words.len().saturating_sub(behind)].to_vec();
    is.extend(held.iter().flat_map(|one| ["action".into(), one.kind.clone(), one.index.to_string()]));
    Ok((Line { noun: Noun::Filter, name: object.name.clone(), words, place, is, table: Some(table) }, held))
}

/// Returns a filter of a priority's own table without the number of that table, which no message
/// chooses.
fn in_root(object: &Object) -> Result<Object, Refusal> {
    let all = Attributes::read(&object.is, "message")?;
    let mut w = Writer::default();
    for attribute in all.iter() {
        if attribute.number != OPTIONS {
            w.bytes(attribute.number, attribute.value);
            continue;
        }
        let options = Attributes::read(attribute.value, U32)?;
        w.nest(OPTIONS, |w| {
            for one in options.iter().filter(|one| one.number != HASH) {
                w.bytes(one.number, one.value);
            }
        });
    }
    let head = TcHead { handle: object.head.handle & NODE, ..object.head };
    Ok(Object { head, is: w.finish(), ..object.clone() })
}

/// Returns the line of an action.
fn action(held: Held) -> Line {
    let place = vec!["action".into(), held.kind.clone(), "index".into(), held.index.to_string()];
    let words = [vec!["action".to_string()], held.words].concat();
    let noun = if held.is_own { Noun::Action } else { Noun::Held };
    Line { noun, name: held.kind, is: words.clone(), words, place, table: None }
}
