//! `Tree`: the qdiscs of one transmit queue; add, change, replace, delete and graft by handle. Each operation
//! applies whole or not at all.

mod blocks;
mod classes;
mod copies;
mod route;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pool};
use crate::packet::route::Asked;
use crate::packet::route::DEPTH_MAX;
use crate::qdisc::leaf;
use crate::qdisc::mq::default_shell;
use crate::qdisc::{Registry, pfifo_fast};
use crate::sched::answer::Verdict;
use crate::sched::classful::UserClasses;
use crate::sched::cx::Cx;
use crate::sched::erased::Qdisc;
use crate::sched::node::{Class, Node};
use crate::sched::spec::ClassShape;
use crate::sched::stab::{SizeTable, Stab};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Words, exact_of};

/// The first handle given out to qdiscs that were added without one, as in the reference.
pub(crate) const AUTO_MAJOR: u16 = 0x8001;

/// Does something to the classes of a qdisc, given the name of the class that it is about.
type OnClasses<'a> = &'a mut dyn FnMut(Object, &mut dyn UserClasses, &mut Cx) -> Result<(), ConfigError>;

/// A tree of qdiscs. There is always a root; the default one has no handle.
#[derive(Debug)]
pub struct Tree {
    root: Node,
    env: Env,
    /// See `disturb`.
    disturbed: bool,
    /// What asks filters, and which.
    blocks: blocks::Blocks,
    /// See `of_port`.
    of_port: bool,
    /// The kinds that it makes.
    kinds: Registry,
}

/// Where a qdisc is: below which class, or at the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The class it hangs below; `Handle::ROOT` for the root qdisc.
    pub parent: Handle,
    /// How many qdiscs are above it.
    pub depth: usize,
}

impl Tree {
    /// The tree that a device starts with: pfifo_fast.
    pub fn new(env: Env) -> Self {
        let root = Node::new(Handle::NONE, alloc::boxed::Box::new(pfifo_fast::default_root(&env)));
        let kinds = Registry::BUILT_IN;
        Self { root, env, disturbed: false, blocks: blocks::Blocks::default(), of_port: false, kinds }
    }
    /// The same, which makes the kinds of a registry.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Registry) -> Self {
        self.kinds = kinds;
        self
    }
    /// The kinds that it makes.
    pub const fn kinds(&self) -> Registry {
        self.kinds
    }

    /// A tree in the likeness of a `crate::path::port::Port`, to try changes on: where several
    /// queues have nothing else they have mq.
    pub fn of_port(env: Env) -> Self {
        let mut tree = Self { of_port: true, ..Self::new(env) };
        tree.root = tree.default_root();
        tree
    }
    /// Whether it was made so.
    pub const fn is_of_port(&self) -> bool {
        self.of_port
    }

    fn default_root(&self) -> Node {
        let shell = if self.of_port { default_shell(&self.env) } else { None };
        shell.unwrap_or_else(|| {
            Node::new(Handle::NONE, alloc::boxed::Box::new(pfifo_fast::default_root(&self.env)))
        })
    }

    /// The device it sits on.
    pub const fn env(&self) -> &Env {
        &self.env
    }
    /// Changes what it is told of the device. Qdiscs that are there keep what they were made with: a default that depends
    /// on the device is read when a qdisc is made, as in the reference.
    pub const fn set_env(&mut self, env: Env) {
        self.env = env;
    }
    /// The root qdisc.
    #[inline]
    pub const fn root(&self) -> &Node {
        &self.root
    }
    /// The root qdisc, to use.
    #[inline]
    pub const fn root_mut(&mut self) -> &mut Node {
        &mut self.root
    }
    /// See `Node::admit`.
    #[inline]
    pub fn admit(&self, m: &Meta) -> Verdict {
        self.root.admit(&Asked::of(m))
    }
    /// The same of a packet that filters were asked about.
    #[inline]
    pub fn admit_asked(&self, m: &Asked<'_>) -> Verdict {
        self.root.admit(m)
    }

    /// Puts a ready-made node at the root, dropping what was queued. The typed counterpart of `replace`.
    pub fn set_root(&mut self, node: Node, cx: &mut Cx) {
        self.disturb();
        self.orphan_below(Handle::ROOT);
        self.root.purge(cx);
        self.root = node;
        self.root.qdisc_mut().start(cx.now);
    }

    /// Its root alone.
    pub(crate) fn into_root(self) -> Node {
        self.root
    }

    /// Says that packets which come now may be classified otherwise than those which wait were: the structure, an
    /// option of a kind with classes, a filter has changed. A swap then queues them again. The operations of the
    /// tree say it themselves.
    pub const fn disturb(&mut self) {
        self.disturbed = true;
    }
    /// Whether it was said since the last time that this was asked.
    pub(crate) const fn take_disturbed(&mut self) -> bool {
        core::mem::replace(&mut self.disturbed, false)
    }

    /// Whether any qdisc wants to know more of a packet than its metadata.
    pub fn wants_detail(&self) -> bool {
        let mut wants = false;
        self.visit(&mut |_, node| wants |= node.qdisc().wants_detail() || node.is_filtered());
        wants
    }

    /// Calls `f` on every qdisc, parents first, those below one qdisc in the order of their classes.
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(Place, &'a Node)) {
        fn walk<'a>(node: &'a Node, place: Place, f: &mut dyn FnMut(Place, &'a Node)) {
            f(place, node);
            let mut below = |class: &'a Class| {
                let parent = Handle::new(node.handle().major(), class.minor);
                walk(&class.node, Place { parent, depth: place.depth + 1 }, f);
            };
            let classes = node.qdisc().classes();
            if classes.is_sorted_by_key(|c| c.minor) {
                classes.iter().filter(|c| c.minor != 0).for_each(below);
            } else {
                // Classes that commands make are in slots as they came.
                let mut sorted: Vec<&'a Class> = classes.iter().filter(|c| c.minor != 0).collect();
                sorted.sort_by_key(|c| c.minor);
                sorted.into_iter().for_each(&mut below);
            }
        }
        walk(&self.root, Place { parent: Handle::ROOT, depth: 0 }, f);
    }

    /// Hands out every packet that waits to the back of `out`, in the order in which `queued` shows them. The books forget
    /// that they were admitted; what the qdiscs know and have counted stays: the tokens of a shaper, the memory of
    /// an AQM. The caller queues the packets again, or drops them.
    pub fn drain(&mut self, out: &mut List, cx: &mut Cx) {
        self.root.drain(out, cx);
    }

    /// Shows every packet that waits, with the place (`ROOT` or a class) and the handle of the qdisc that it waits
    /// in: parents first, and in each qdisc those of one flow in their order. A packet that a peek has taken out is
    /// shown at the qdisc that it came from; `wire_len` are the bytes on the wire, whatever is charged.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        self.visit(&mut |place, node| {
            node.queued(pool, &mut |w| match pool.wire_len(w) {
                wire_len if wire_len == w.meta.wire_len => f(place.parent, node.handle(), w.meta),
                wire_len => {
                    let mut real = *w.meta;
                    real.wire_len = wire_len;
                    f(place.parent, node.handle(), &real);
                }
            });
        });
    }

    /// Adds a qdisc at `parent` (a class, or `Handle::ROOT`), where only a default one may be. `handle` `None`
    /// or without a major: the next free one from 8001:. The words after the kind are its options. Gives the
    /// handle.
    pub fn add(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: &str,
        options: &mut Words<'_>,
        cx: &mut Cx,
    ) -> Result<Handle, ConfigError> {
        let parent = self.named(parent);
        self.put(parent, handle, kind_name, options, false, cx)
    }

    /// Like `add`, but a qdisc that is there already is changed if it is of the same kind (and the handle, if
    /// given, is the same), otherwise its packets are dropped and it makes room.
    pub fn replace(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: &str,
        options: &mut Words<'_>,
        cx: &mut Cx,
    ) -> Result<Handle, ConfigError> {
        let parent = self.named(parent);
        let (node, _) = self.at_mut(parent)?;
        let present = node.handle();
        let same = handle.is_none_or(|h| h.qdisc().is_none() || h.qdisc() == present);
        if !present.is_none() && node.qdisc().spec().kind == kind_name && same {
            self.change(parent, Some(kind_name), options, cx)?;
            return Ok(present);
        }
        self.put(parent, handle, kind_name, options, true, cx)
    }

    /// Changes options of the qdisc at `parent`; `kind_name`, if given, must be its kind.
    pub fn change(
        &mut self,
        parent: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
        cx: &mut Cx,
    ) -> Result<(), ConfigError> {
        let parent = self.named(parent);
        let env = self.env;
        let (node, _) = self.at_mut(parent)?;
        let present = node.qdisc().spec().kind;
        if node.handle().is_none() {
            let err =
                ConfigError::new(ErrorKind::NotFound, Object::place(parent), "a qdisc that was added", "");
            return Err(err.hint("the default qdisc cannot be changed: add one"));
        }
        if let Some(given) = kind_name.filter(|k| *k != present) {
            let object = Object::Qdisc(Some(node.handle()));
            let err = ConfigError::new(ErrorKind::Conflict, object, format!("its kind, {present}"), given);
            return Err(err.hint("a change keeps the kind: use replace"));
        }
        let spec = node.qdisc().spec();
        // What cannot be read is refused below.
        if let Ok(candidate) = spec.read(&mut options.clone(), &env) {
            self.check_copies(parent, false, spec, &*candidate)?;
        }
        let (mut changed, mut disturbed) = (Ok(()), false);
        at_place(&mut self.root, Handle::ROOT, parent, cx, &mut |node, cx| {
            let classful = node.qdisc().spec().shape.is_classful();
            let before = classful.then(|| options_of(node.qdisc()));
            changed = node.with(cx, |qdisc, cx| qdisc.change(options, &env, cx));
            disturbed = before.is_some_and(|before| before != options_of(node.qdisc()));
        });
        self.disturbed |= disturbed;
        changed
    }

    /// Gives the qdisc at `parent` a size table, or takes it away: what it and everything below charge a packet. What
    /// is queued there stays charged as it was. At most one may be on the way from the root to a leaf; one that was
    /// taken away counts until what it has charged has left.
    pub fn set_stab(&mut self, parent: Handle, stab: Option<Stab>, _cx: &mut Cx) -> Result<(), ConfigError> {
        let parent = self.named(parent);
        let (node, _) = self.at_mut(parent)?;
        if node.handle().is_none() {
            let err =
                ConfigError::new(ErrorKind::NotFound, Object::place(parent), "a qdisc that was added", "");
            return Err(err.hint("the default qdisc has no size table: add one"));
        }
        let mine = node.handle();
        let mut other = None;
        let mut way: Vec<(Handle, bool)> = Vec::new();
        self.visit(&mut |place, node| {
            way.truncate(place.depth);
            let here = node.handle();
            let below = way.iter().any(|(h, _)| *h == mine);
            if below && node.has_sizes() {
                other = other.or(Some(here));
            }
            if here == mine && place.parent == parent {
                other = way.iter().find(|(_, sized)| *sized).map(|(h, _)| *h).or(other);
            }
            way.push((here, node.has_sizes()));
        });
        if let (Some(other), Some(_)) = (other, stab) {
            let expected = "at most one size table from the root to a leaf";
            let given = format!("a second one, beside that of qdisc {other}");
            let object = Object::Qdisc(Some(mine));
            let err = ConfigError::new(ErrorKind::Conflict, object, expected, given).key("stab");
            return Err(err.hint("the last one would win, and charge those above sizes that are not theirs"));
        }
        let (node, _) = self.at_mut(parent)?;
        let table = stab.map(SizeTable::new).transpose()?;
        if node.stab() != table.as_ref().map(SizeTable::stab) {
            node.set_sizes(table);
            self.disturb();
        }
        Ok(())
    }

    /// Deletes the qdisc at `parent`, dropping what is queued; a default one takes its place.
    pub fn delete(&mut self, parent: Handle, cx: &mut Cx) -> Result<(), ConfigError> {
        let parent = self.named(parent);
        let env = self.env;
        let (node, _) = self.at_mut(parent)?;
        if node.handle().is_none() {
            return Err(ConfigError::new(
                ErrorKind::NotFound,
                Object::place(parent),
                "a qdisc that was added",
                "",
            ));
        }
        let mut default = (parent == Handle::ROOT).then(|| self.default_root());
        self.visit(&mut |_, owner| {
            if parent != Handle::ROOT && owner.handle() == parent.qdisc() {
                default = owner.qdisc().default_child(&env);
            }
        });
        self.graft(parent, default.unwrap_or_else(|| leaf::default_child(&env)), cx)
    }

    /// Puts `new` at `parent` and drops what the old one had queued, as all ancestors see.
    pub fn graft(&mut self, parent: Handle, new: Node, cx: &mut Cx) -> Result<(), ConfigError> {
        let parent = self.named(parent);
        self.at_mut(parent)?;
        self.disturb();
        self.orphan_below(parent);
        let mut new = Some(new);
        at_place(&mut self.root, Handle::ROOT, parent, cx, &mut |node, cx| {
            if let Some(mut new) = new.take() {
                node.purge(cx);
                new.follow(node);
                *node = new;
                node.qdisc_mut().start(cx.now);
            }
        });
        Ok(())
    }

    /// The place that a handle names: itself, but that any number names the one class of a kind that has no more
    /// (`ClassShape::One`), as in the reference.
    pub fn named(&self, parent: Handle) -> Handle {
        let mut one = false;
        self.visit(&mut |_, node| {
            let owner = !node.handle().is_none() && node.handle() == parent.qdisc() && parent.minor() != 0;
            one |= owner && node.qdisc().spec().shape == ClassShape::One;
        });
        if one { Handle::new(parent.major(), 1) } else { parent }
    }

    fn put(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: &str,
        options: &mut Words<'_>,
        over: bool,
        cx: &mut Cx,
    ) -> Result<Handle, ConfigError> {
        let (node, depth) = self.at_mut(parent)?;
        let present = node.handle();
        if !over && !present.is_none() {
            let err =
                ConfigError::new(ErrorKind::Exists, Object::place(parent), "no qdisc there yet", present);
            return Err(err.hint("use replace, or delete it first"));
        }
        let spec = self.kinds.kind(kind_name)?;
        if depth + 1 >= DEPTH_MAX && spec.shape.is_classful() {
            let expected = format!("at most {DEPTH_MAX} levels of qdiscs");
            return Err(ConfigError::new(ErrorKind::Unsupported, Object::place(parent), expected, kind_name));
        }
        if spec.root_only && parent != Handle::ROOT {
            let err = ConfigError::new(ErrorKind::Unsupported, Object::place(parent), "root", kind_name)
                .key("parent")
                .reason(Reason::RootOnly);
            return Err(err.hint(format!("the classes of {kind_name} are the device's transmit queues")));
        }
        let handle = self.free_handle(handle, parent)?;
        let candidate = spec.read(options, &self.env)?;
        self.check_copies(parent, true, spec, &*candidate)?;
        self.graft(parent, Node::new(handle, candidate.make(&self.env)), cx)?;
        Ok(handle)
    }

    /// The handle asked for if nobody else has it, or the next free automatic one.
    fn free_handle(&self, asked: Option<Handle>, parent: Handle) -> Result<Handle, ConfigError> {
        let mut used = alloc::collections::BTreeSet::new();
        self.visit(&mut |place, node| {
            if place.parent != parent {
                used.insert(node.handle().major());
            }
        });
        let taken = |major: u16| used.contains(&major);
        if let Some(h) = asked.filter(|h| h.major() != 0) {
            if h.minor() != 0 || h == Handle::ROOT {
                let err =
                    ConfigError::new(ErrorKind::BadValue, Object::Qdisc(None), "a qdisc handle, minor 0", h)
                        .key("handle");
                return Err(err.hint(format!("did you mean {}?", h.qdisc())));
            }
            if taken(h.major()) {
                let err = ConfigError::new(ErrorKind::Exists, Object::Qdisc(None), "a handle not in use", h)
                    .key("handle");
                return Err(err);
            }
            return Ok(h);
        }
        (AUTO_MAJOR..u16::MAX).find(|m| !taken(*m)).map(|m| Handle::new(m, 0)).ok_or_else(|| {
            ConfigError::new(
                ErrorKind::Exists,
                Object::Qdisc(None),
                "a free handle from 8001: to fffe:",
                "none",
            )
        })
    }

    /// The place below which the qdisc `handle` hangs: its parent class, or `ROOT`.
    pub fn parent_of(&self, handle: Handle) -> Result<Handle, ConfigError> {
        let mut found = None;
        self.visit(&mut |place, node| {
            if !handle.is_none() && node.handle() == handle.qdisc() {
                found = Some(place.parent);
            }
        });
        found.ok_or_else(|| {
            ConfigError::new(ErrorKind::NotFound, Object::Qdisc(Some(handle)), "a qdisc of this tree", handle)
        })
    }

    /// The qdisc at a place, and how many are above it.
    fn at_mut(&mut self, parent: Handle) -> Result<(&mut Node, usize), ConfigError> {
        let mut there = false;
        self.visit(&mut |place, _| there |= place.parent == parent);
        if !there {
            return Err(self.no_place(parent));
        }
        find(&mut self.root, Handle::ROOT, parent, 0).ok_or_else(|| {
            ConfigError::new(ErrorKind::NotFound, Object::Qdisc(None), "root or a class that exists", parent)
        })
    }

    /// The refusal of a place that is not there, which says what is.
    fn no_place(&self, parent: Handle) -> ConfigError {
        if self.has_class(parent) {
            let expected = "a class without classes below";
            return ConfigError::new(ErrorKind::Conflict, Object::Qdisc(None), expected, parent)
                .key("parent");
        }
        let (mut have, mut more) = (String::new(), 0);
        self.visit(&mut |place, _| match place.parent {
            Handle::ROOT => {}
            class if class.major() == 0 => {}
            _ if have.len() > 100 => more += 1,
            class => {
                have.push_str(if have.is_empty() { "" } else { " " });
                have.push_str(&class.to_string());
            }
        });
        let err =
            ConfigError::new(ErrorKind::NotFound, Object::Qdisc(None), "root or a class that exists", parent)
                .key("parent");
        match (have.as_str(), more) {
            ("", _) => err.hint("there are no classes"),
            (have, 0) => err.hint(format!("there are: {have}")),
            (have, more) => err.hint(format!("there are: {have} and {more} more")),
        }
    }
}

/// Every option with its value, to compare.
fn options_of(qdisc: &dyn Qdisc) -> String {
    let mut all = String::new();
    qdisc.options(&mut |s| all.push_str(&format!("{} {} ", s.param.key, exact_of(s.value))));
    all
}

fn find(node: &mut Node, here: Handle, parent: Handle, depth: usize) -> Option<(&mut Node, usize)> {
    if here == parent {
        return Some((node, depth));
    }
    let major = node.handle().major();
    node.qdisc_mut().classes_mut().iter_mut().filter(|c| c.minor != 0).find_map(|class| {
        let id = if major == 0 { Handle::NONE } else { Handle::new(major, class.minor) };
        find(&mut class.node, id, parent, depth + 1)
    })
}

/// Calls `f` on the node at `parent`, reached through its ancestors, so that each of them settles what is
/// dropped there.
fn at_place(
    node: &mut Node,
    here: Handle,
    parent: Handle,
    cx: &mut Cx,
    f: &mut dyn FnMut(&mut Node, &mut Cx),
) {
    if here == parent {
        return f(node, cx);
    }
    let major = node.handle().major();
    node.with(cx, |qdisc, cx| {
        for class in qdisc.classes_mut().iter_mut().filter(|c| c.minor != 0) {
            let id = if major == 0 { Handle::NONE } else { Handle::new(major, class.minor) };
            at_place(&mut class.node, id, parent, cx, f);
        }
    });
}
