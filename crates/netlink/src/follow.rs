//! The policy of a device of a kernel, from the listings that the kernel sends, as the lines of tc
//! that make it elsewhere.
//!
//! A [`Snapshot`] takes the messages of one listing of qdiscs and one of classes; [`lines`] orders
//! its objects, parents first, and [`Step`]s lead from the lines of one state to those of another.
//! Objects that have no words are named with the reason ([`Copied::left_out`]).
//!
//! [`lines`]: Snapshot::lines

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::Handle;
use txweir_core::qdisc::Registry;

use crate::command;
use crate::message::{Header, Message, TcHead, flag, kind};
use crate::wire::{Attributes, Writer};

/// Most objects of a device; further ones are left out.
pub const OBJECTS_MAX: usize = 65_536;
/// Most objects that are named because they have no words.
const LEFT_OUT_MAX: usize = 1024;
/// The parent of the first qdisc, and of classes below their qdisc.
const ROOT: u32 = u32::MAX;
/// The parent of the hooks.
const HOOK: u32 = 0xffff_fff1;
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
    /// Filters that were listed.
    filters: usize,
}

#[derive(Clone, Debug)]
struct Object {
    head: TcHead,
    name: String,
    /// The attributes of [`IS`].
    is: Vec<u8>,
}

/// A line that makes an object, and the line that removes it, each without the word of its verb.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    noun: &'static str,
    name: String,
    words: Vec<String>,
    place: Vec<String>,
}

/// The lines of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// In an order in which they can be made.
    lines: Vec<Line>,
    /// A sentence for each object that is not copied.
    pub left_out: Vec<String>,
}

/// A change that leads to another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The words of tc.
    pub words: Vec<String>,
}

impl Snapshot {
    /// Takes a message of a listing about the device of this number.
    pub fn take(&mut self, message: &Message<'_>, link: u32) {
        let Ok((head, rest)) = TcHead::read(message.body) else { return };
        if head.link != link {
            return;
        }
        match message.header.kind {
            kind::NEW_FILTER => self.filters += usize::from(head.handle != 0),
            kind::NEW_QDISC | kind::NEW_CLASS => {
                if let Err(reason) = self.object(message.header.kind, head, rest)
                    && self.left_out.len() < LEFT_OUT_MAX
                {
                    self.left_out.insert(format!("{}: {reason}", place(message.header.kind, head)));
                }
            }
            _ => {}
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
        if self.objects.len() >= OBJECTS_MAX {
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

    /// Returns the handles of the qdiscs and classes, below which filters may be.
    pub fn handles(&self) -> impl Iterator<Item = u32> {
        self.objects.values().map(|object| object.head.handle).filter(|handle| *handle != 0)
    }

    /// Returns the lines that make the policy on a device of this name.
    #[must_use]
    pub fn lines(&self, device: &str) -> Copied {
        let mut copied = Copied { lines: Vec::new(), left_out: self.left_out.iter().cloned().collect() };
        for (kind, object) in self.ordered() {
            if self.comes_along(kind, object) {
                continue;
            }
            let header = Header { kind, flags: flag::CREATE | flag::REPLACE, ..Header::default() };
            let mut body = Writer::default();
            object.head.write(&mut body);
            body.put(&object.is);
            let noun = if kind == kind::NEW_QDISC { "qdisc" } else { "class" };
            let place = place(kind, object.head);
            if Registry::BUILT_IN.get(&object.name).is_none() && !is_hook(object) {
                copied.left_out.push(format!("{place}: there is no kind {} here", object.name));
                continue;
            }
            match command::words(header, &body.finish(), device, Registry::BUILT_IN) {
                Ok(words) => copied.lines.push(Line {
                    noun,
                    name: object.name.clone(),
                    words: words.into_iter().skip(2).collect(),
                    place: removal(kind, object, device),
                }),
                Err(refusal) => copied.left_out.push(format!("{place}: {refusal}")),
            }
        }
        if self.filters > 0 {
            let is = if self.filters == 1 { "filter is" } else { "filters are" };
            copied.left_out.push(format!("{} {is} not copied", self.filters));
        }
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

impl Line {
    fn step(&self, verb: &str, words: &[String]) -> Step {
        let head = [self.noun.to_string(), verb.to_string()];
        Step { words: head.into_iter().chain(words.iter().cloned()).collect() }
    }
    fn key(&self) -> (&'static str, &[String]) {
        (self.noun, &self.place)
    }
    fn after(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|one| one == word)?;
        self.words.get(at + 1).map(String::as_str)
    }
    /// Returns its handle, if it has one.
    fn handle(&self) -> Option<&str> {
        self.after(if self.noun == "qdisc" { "handle" } else { "classid" })
    }
    /// True if one can become the other without being removed.
    fn can_become(&self, other: &Self) -> bool {
        self.name == other.name
            && self.handle() == other.handle()
            && self.after("parent") == other.after("parent")
    }
    /// True if it goes with one of these objects.
    fn goes_with(&self, gone: &BTreeSet<&str>) -> bool {
        let above = self.after("parent").or_else(|| self.handle().filter(|_| self.noun == "class"));
        let qdisc = above.and_then(|above| above.get(..=above.find(':')?));
        above.is_some_and(|above| gone.contains(above)) || qdisc.is_some_and(|of| gone.contains(of))
    }
}

impl Copied {
    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }
    /// True if there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the steps from another state to this one: removals, children first, then what is new
    /// or different, parents first.
    #[must_use]
    pub fn steps_from(&self, before: &Self) -> Vec<Step> {
        let now: BTreeMap<_, &Line> = self.lines.iter().map(|line| (line.key(), line)).collect();
        let (mut stay, mut gone) = (BTreeMap::new(), BTreeSet::new());
        let mut removals = Vec::new();
        for line in &before.lines {
            let goes = line.goes_with(&gone);
            if !goes && now.get(&line.key()).is_some_and(|new| line.can_become(new)) {
                stay.insert(line.key(), line);
                continue;
            }
            gone.extend(line.handle());
            // An object goes with its parent.
            if !goes {
                removals.push(line.step("del", &line.place));
            }
        }
        removals.reverse();
        let different = |line: &&Line| stay.get(&line.key()).is_none_or(|old| old.words != line.words);
        removals.extend(self.lines.iter().filter(different).map(|line| line.step("replace", &line.words)));
        removals
    }

    /// Returns the steps that make this state on a device, whatever it has.
    #[must_use]
    pub fn steps_from_nothing(&self) -> Vec<Step> {
        self.steps_from(&Self::default())
    }
}
