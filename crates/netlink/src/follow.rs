//! The policy of a device of a kernel, from the listings that the kernel sends, as the lines of tc
//! that make it elsewhere.
//!
//! A [`Snapshot`] takes the messages of one listing of qdiscs, one of classes, and those of the
//! filters and chains of each place; [`lines`] orders its objects, parents first, and [`Step`]s
//! lead from the lines of one state to those of another. Objects that have no words are named with
//! the reason ([`Copied::left_out`]).
//!
//! [`lines`]: Snapshot::lines

mod filters;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::Handle;
use txweir_core::qdisc::Registry;

use crate::classify::BLOCK;
use crate::command;
use crate::flags::Asked;
use crate::message::{Header, Message, TcHead, kind};
use crate::wire::{Attributes, Writer};
use steps::{Line, Noun};

pub use steps::{Copied, Step};

/// Most objects of a device; further ones are left out.
pub const OBJECTS_MAX: usize = 65_536;
/// Most objects that are named because they have no words.
const LEFT_OUT_MAX: usize = 1024;
/// The parent of the first qdisc, and of classes below their qdisc.
const ROOT: u32 = u32::MAX;
/// The parent of the hooks.
const HOOK: u32 = 0xffff_fff1;
/// The handle of the hooks, and the numbers of their two places.
const HOOKS: u32 = 0xffff_0000;
const INGRESS: u32 = 0xfff2;
const EGRESS: u32 = 0xfff3;
/// The handle of a first qdisc that has none, because the kernel has made it: its own are from
/// 8001: on.
const OWN: u32 = 0x7fff_0000;
const KIND: u16 = 1;
/// The attributes that say what an object is: kind, options, size table, blocks.
const IS: [u16; 5] = [KIND, 2, 8, 13, 14];
/// Kinds that mean that there is no policy.
const NONE: [&str; 2] = ["noqueue", "noop"];
/// The kind that is a policy only if it has a handle: links begin with it, as devices do.
const DEFAULT: &str = "pfifo_fast";
/// Kinds whose children are those of the device's queues.
const QUEUES: [&str; 2] = ["mq", "mqprio"];
const KIND_MAX: usize = 15;

/// The place of an object: its type of message, its handle, and its parent for a qdisc.
type Key = (u16, u32, u32);

/// The objects of a device as a kernel lists them.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    objects: BTreeMap<Key, Object>,
    left_out: BTreeSet<String>,
    filters: filters::Listed,
}

#[derive(Clone, Debug)]
struct Object {
    head: TcHead,
    name: String,
    /// The attributes of [`IS`].
    is: Vec<u8>,
}

impl Snapshot {
    /// Takes a message of the listing that was asked for with this head: of a device, and of one of
    /// its places for filters and chains.
    pub fn take(&mut self, message: &Message<'_>, asked: TcHead) {
        let Ok((head, rest)) = TcHead::read(message.body) else { return };
        let kind = message.header.kind;
        let is_of_filters = matches!(kind, kind::NEW_FILTER | kind::NEW_CHAIN);
        if head.link != asked.link && !(head.link == BLOCK && is_of_filters) {
            return;
        }
        let (taken, place) = match kind {
            kind::NEW_FILTER | kind::NEW_CHAIN => {
                let room = OBJECTS_MAX.saturating_sub(self.objects.len());
                (self.filters.take(kind, head, asked, rest, room), filters::place(head))
            }
            kind::NEW_QDISC | kind::NEW_CLASS => (self.object(kind, head, rest), place(kind, head)),
            _ => return,
        };
        if let Err(reason) = taken
            && self.left_out.len() < LEFT_OUT_MAX
        {
            self.left_out.insert(format!("{place}: {reason}"));
        }
    }

    fn object(&mut self, kind: u16, mut head: TcHead, rest: &[u8]) -> Result<(), String> {
        let all = Attributes::read(rest, "message").map_err(|refusal| refusal.text)?;
        let name = all.text(KIND, KIND_MAX).map_err(|refusal| refusal.text)?.unwrap_or("").to_string();
        // Classes of kinds that make them by themselves, and flows, come with their qdisc.
        let made = Registry::BUILT_IN.get(&name).is_some_and(|spec| spec.classes.is_some());
        // The class of hfsc's qdisc itself has its handle.
        let made = made && head.handle & 0xffff != 0;
        let is_default = kind == kind::NEW_QDISC && head.handle == 0 && name == DEFAULT;
        if is_default || NONE.contains(&name.as_str()) || (kind == kind::NEW_CLASS && !made) {
            return Ok(());
        }
        if kind == kind::NEW_QDISC && head.handle == 0 && head.parent == ROOT {
            head.handle = OWN;
        }
        if kind == kind::NEW_QDISC && head.handle == 0 && head.parent >> 16 == 0 {
            head.parent |= OWN;
        }
        if self.objects.len() + self.filters.len() >= OBJECTS_MAX {
            return Err(format!("there are more than {OBJECTS_MAX} objects"));
        }
        let mut is = Writer::default();
        for attribute in all.iter().filter(|attribute| IS.contains(&attribute.number)) {
            is.bytes(attribute.number, attribute.value);
        }
        let parent = if kind == kind::NEW_QDISC { head.parent } else { 0 };
        self.objects.insert((kind, head.handle, parent), Object { head, name, is: is.finish() });
        Ok(())
    }

    /// Returns the places of the device at which there may be filters.
    pub fn places(&self) -> impl Iterator<Item = u32> {
        let at = |object: &Object| match (&*object.name, object.head.parent) {
            // The hook of both ways has a place for each.
            ("clsact", HOOK) => vec![HOOKS | INGRESS, HOOKS | EGRESS],
            _ => vec![object.head.handle],
        };
        let all: BTreeSet<u32> = self.objects.values().flat_map(at).collect();
        all.into_iter().filter(|handle| *handle != 0 && *handle != OWN)
    }

    /// Returns the lines that make the policy on a device of this name. `links` returns the names
    /// of devices by their numbers, for actions that send to them.
    #[must_use]
    pub fn lines(&self, device: &str, links: &mut dyn FnMut(u32) -> Option<String>) -> Copied {
        let mut copied = Copied { left_out: self.left_out.iter().cloned().collect(), ..Copied::default() };
        for (kind, object) in self.ordered() {
            if self.comes_along(kind, object) {
                continue;
            }
            let header = Header { kind, ..Header::default() };
            let mut body = Writer::default();
            object.head.write(&mut body);
            body.put(&object.is);
            let place = place(kind, object.head);
            if Registry::BUILT_IN.get(&object.name).is_none() && !is_hook(object) {
                copied.left_out.push(format!("{place}: there is no kind {} here", object.name));
                continue;
            }
            let asked = Asked::to("replace");
            match command::words(header, &body.finish(), device, Registry::BUILT_IN, &asked) {
                Ok(words) => {
                    let words: Vec<String> = words.into_iter().skip(2).collect();
                    copied.lines.push(Line {
                        noun: if kind == kind::NEW_QDISC { Noun::Qdisc } else { Noun::Class },
                        name: object.name.clone(),
                        is: words.clone(),
                        words,
                        place: removal(kind, object, device),
                        table: None,
                    });
                }
                Err(refusal) => copied.left_out.push(format!("{place}: {refusal}")),
            }
        }
        self.filters.lines(device, links, &mut copied);
        copied.left_out.truncate(LEFT_OUT_MAX);
        copied
    }

    /// Returns the objects, each behind its parent; those without a parent last.
    fn ordered(&self) -> Vec<(u16, &Object)> {
        let mut below: BTreeMap<u32, Vec<&Key>> = BTreeMap::new();
        for (key, object) in &self.objects {
            below.entry(self.parent(key.0, object)).or_default().push(key);
        }
        let (mut all, mut left) = (Vec::new(), self.objects.clone());
        // Bound: each object is taken from `left` once.
        let mut next: Vec<&Key> = Vec::new();
        for root in [HOOK, ROOT] {
            next.extend(below.get(&root).into_iter().flatten());
        }
        while let Some(key) = next.pop() {
            if left.remove(key).is_none() {
                continue;
            }
            let Some(object) = self.objects.get(key) else { continue };
            all.push((key.0, object));
            let children = below.get(&object.head.handle).filter(|_| object.head.handle != 0);
            next.extend(children.into_iter().flatten().rev());
        }
        let rest = self.objects.iter().filter(|(key, _)| left.contains_key(key));
        all.extend(rest.map(|(key, object)| (key.0, object)));
        all
    }

    /// True for a qdisc that its parent makes. Those of queues are the kernel's choice, which the
    /// link may not have.
    fn comes_along(&self, kind: u16, object: &Object) -> bool {
        let of = object.head.parent & 0xffff_0000;
        let mut above = self.objects.values().filter(|one| one.head.handle == of);
        // Hooks have no parent.
        kind == kind::NEW_QDISC
            && object.head.handle == 0
            && !above.any(|one| QUEUES.contains(&one.name.as_str()))
    }

    /// Returns the handle of the object behind which an object is made.
    fn parent(&self, kind: u16, object: &Object) -> u32 {
        let TcHead { handle, parent, .. } = object.head;
        let qdisc = |of: u32| of & 0xffff_0000;
        match (kind, parent) {
            (kind::NEW_CLASS, ROOT | 0) => qdisc(handle),
            (kind::NEW_CLASS, parent) => parent,
            (_, ROOT | HOOK) => parent,
            (_, parent) if self.objects.contains_key(&(kind::NEW_CLASS, parent, 0)) => parent,
            // A band that its qdisc makes.
            (_, parent) => qdisc(parent),
        }
    }
}

fn is_hook(object: &Object) -> bool {
    object.head.parent == HOOK
}

/// Returns the place of an object, for people.
fn place(kind: u16, head: TcHead) -> String {
    let noun = if kind == kind::NEW_QDISC { "qdisc" } else { "class" };
    match head.parent {
        ROOT => format!("{noun} {}", Handle(head.handle)),
        parent => format!("{noun} {} of {}", Handle(head.handle), Handle(parent)),
    }
}

/// Returns the words that remove an object, behind the verb.
fn removal(kind: u16, object: &Object, device: &str) -> Vec<String> {
    let TcHead { handle, parent, .. } = object.head;
    let mut words = vec!["dev".to_string(), device.to_string()];
    match (kind, parent) {
        (kind::NEW_CLASS, _) => words.extend(["classid".into(), Handle(handle).to_string()]),
        (_, ROOT) => words.push("root".into()),
        (_, HOOK) => words.push(object.name.clone()),
        (_, parent) => words.extend(["parent".into(), Handle(parent).to_string()]),
    }
    words
}
