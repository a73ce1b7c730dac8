//! `Qdiscs`: the qdiscs of a device by their handles, whether they are in one tree or in one for
//! each transmit queue: add, change, replace and delete them and their classes, and bind filters to
//! them. Each operation applies whole or not at all.

mod blocks;
mod classes;
mod revise;
mod rules;
mod shares;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
use crate::packet::route::DEPTH_MAX;
use crate::path::bindings::Bindings;
pub use revise::{Planned, Revisions};
pub use shares::{EachCopy, Sharing};

use crate::path::tree::{Place, Tree, Whole, default_root, names, tables};
use crate::path::trees::{Spot, Trees};
use crate::qdisc::{leaf, mq, mqprio};
use crate::sched::cx::Cx;
use crate::sched::erased::Qdisc;
use crate::sched::node::Node;
use crate::sched::spec::Spec;
use crate::sched::stab::{SizeTable, Stab};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Words, exact_of};

/// A change of one tree.
pub(super) type Edit<'a> = &'a mut dyn FnMut(&mut Tree, &mut Cx) -> Result<(), ConfigError>;

/// The trees of a port while they are changed: the few steps that [`Qdiscs`] is made of.
pub(super) trait Forest {
    /// Returns the properties of the device, as a new root knows them.
    fn env(&self) -> Env;
    /// Returns the trees, read-only.
    fn trees(&self) -> Trees<'_>;
    /// Calls `f` on the tree of that number.
    fn edit(&mut self, at: usize, f: Edit<'_>) -> Result<(), ConfigError>;
    /// Calls `f` on the root that stands for the queues, if there is one.
    fn edit_shell(&mut self, f: &mut dyn FnMut(&mut Node, &mut Cx));
    /// Replaces the trees of all queues and puts a new root above them; `None` makes the default
    /// root.
    fn put_root(&mut self, root: Option<Node>);
    /// Returns the filters of places that are in no tree, such as the hooks of a device.
    fn bindings(&mut self) -> &mut Bindings;
    /// Takes the filters of places that are gone, those of replaced trees too.
    fn take_orphans(&mut self) -> Vec<BlockId>;
    /// Replaces the root and the trees of all queues by ready ones, within a swap.
    fn put_whole(&mut self, whole: Whole);
}

/// The qdiscs of a device while they are changed, by their handles. Each operation applies whole or
/// not at all.
pub struct Qdiscs<'a>(Over<'a>);

enum Over<'a> {
    Tree(&'a mut Tree, &'a mut Cx),
    Port(&'a mut (dyn Forest + 'a)),
}

/// A qdisc that an operation is about.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Its place in the device.
    parent: Handle,
    /// The number of its tree and its place there; `None` for the root that stands for the queues.
    in_tree: Option<(usize, Place)>,
    /// Its handle; `NONE` for a default qdisc.
    handle: Handle,
    spec: &'static Spec,
}

impl From<Spot<'_>> for Found {
    fn from(spot: Spot<'_>) -> Self {
        let (handle, spec) = (spot.node.handle(), spot.node.qdisc().spec());
        Self { parent: spot.place.parent, in_tree: spot.in_tree, handle, spec }
    }
}

impl Found {
    /// True if `replace` by a qdisc of this handle and kind changes the one that is there.
    fn stays(&self, handle: Option<Handle>, kind_name: &str) -> bool {
        let same = handle.is_none_or(|h| h.qdisc().is_none() || h.qdisc() == self.handle);
        !self.handle.is_none() && self.spec.kind == kind_name && same
    }
    /// Refuses a default qdisc.
    fn added(&self) -> Result<(), ConfigError> {
        if !self.handle.is_none() {
            return Ok(());
        }
        let object = Object::place(self.parent);
        Err(ConfigError::new(ErrorKind::NotFound, object, "a qdisc that was added", ""))
    }
}

impl<'a> Qdiscs<'a> {
    /// Returns the qdiscs of one tree; `cx` is the context of its packets.
    pub(crate) const fn of_tree(tree: &'a mut Tree, cx: &'a mut Cx) -> Self {
        Self(Over::Tree(tree, cx))
    }
    /// Returns the qdiscs of a port.
    pub(super) const fn of_port(forest: &'a mut (dyn Forest + 'a)) -> Self {
        Self(Over::Port(forest))
    }

    /// Returns the properties of the device that they are on.
    pub fn env(&self) -> Env {
        match &self.0 {
            Over::Tree(tree, _) => *tree.env(),
            Over::Port(forest) => forest.env(),
        }
    }
    /// Returns the qdiscs, read-only.
    pub fn trees(&self) -> Trees<'_> {
        match &self.0 {
            Over::Tree(tree, _) => Trees::from(&**tree),
            Over::Port(forest) => forest.trees(),
        }
    }
    /// Returns the place below which the qdisc `handle` hangs: its parent class, or `ROOT`.
    pub fn parent_of(&self, handle: Handle) -> Result<Handle, ConfigError> {
        self.trees().place_of(handle).ok_or_else(|| self.no_qdisc(handle))
    }

    /// Adds a qdisc at `parent` (a class, or `Handle::ROOT`), where only a default one may be. If
    /// `handle` is `None` or has no major, the next free one from 8001: is taken. The words after
    /// the kind are its options. Returns the handle.
    pub fn add(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: &str,
        options: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        let found = self.find(parent)?;
        if found.added().is_ok() {
            let object = Object::place(found.parent);
            let err = ConfigError::new(ErrorKind::Exists, object, "no qdisc there yet", found.handle);
            let err = err.hint("use replace, or delete it first");
            let other = handle.is_some_and(|h| !h.qdisc().is_none() && h.qdisc() != found.handle);
            return Err(if other { err.reason(Reason::OtherHandle) } else { err });
        }
        self.put(&found, handle, kind_name, options)
    }

    /// Like `add`, but changes a qdisc that is there already if it is of the same kind (and the
    /// handle, if given, is the same). A qdisc of another kind is replaced and its packets are
    /// dropped.
    pub fn replace(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: &str,
        options: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        let found = self.find(parent)?;
        if found.stays(handle, kind_name) {
            self.change(parent, Some(kind_name), options)?;
            return Ok(found.handle);
        }
        self.put(&found, handle, kind_name, options)
    }

    /// Changes options of the qdisc at `parent`; `kind_name`, if given, must be its kind.
    pub fn change(
        &mut self,
        parent: Handle,
        kind_name: Option<&str>,
        options: &mut Words<'_>,
    ) -> Result<(), ConfigError> {
        let found = self.find(parent)?;
        found.added().map_err(|err| err.hint("the default qdisc cannot be changed: add one"))?;
        if let Some(given) = kind_name.filter(|k| *k != found.spec.kind) {
            let object = Object::Qdisc(Some(found.handle));
            let expected = format!("its kind, {}", found.spec.kind);
            let err = ConfigError::new(ErrorKind::Conflict, object, expected, given);
            return Err(err.hint("a change keeps the kind: use replace"));
        }
        let env = self.env();
        let mut changed = Ok(());
        let Some((at, place)) = found.in_tree else {
            let Over::Port(forest) = &mut self.0 else { return Ok(()) };
            let all = options.clone();
            forest.edit_shell(&mut |node, cx| {
                changed = node.with(cx, |qdisc, cx| qdisc.change(options, &env, cx));
            });
            changed?;
            return if found.spec.fixed { self.change_below(&all) } else { Ok(()) };
        };
        self.check_growth(found.parent, found.spec, options)?;
        self.edit(at, &mut |tree, cx| {
            let env = *tree.env();
            // The change below refuses unreadable options.
            if let Ok(candidate) = found.spec.read(&mut options.clone(), &env) {
                rules::check_copies(tree, place.parent, false, found.spec, &*candidate)?;
            }
            let (mut changed, mut disturbed) = (Ok(()), false);
            let (mut fewer, mut other, mut bytes) = (false, false, [0; 2]);
            tree.reach(place.parent, cx, &mut |node, cx| {
                let classful = node.qdisc().spec().shape.is_classful();
                let before = classful.then(|| options_of(node.qdisc()));
                let (classes, named) = (node.qdisc().classes().len(), classes_of(node.qdisc()));
                bytes[0] = tables::own(node.qdisc(), &env);
                changed = node.with(cx, |qdisc, cx| qdisc.change(options, &env, cx));
                disturbed = before.is_some_and(|before| before != options_of(node.qdisc()));
                fewer = node.qdisc().classes().len() < classes;
                other = classes_of(node.qdisc()) != named;
                bytes[1] = tables::own(node.qdisc(), &env);
            });
            if fewer {
                names::forget_vanished(tree, found.handle);
            }
            if disturbed {
                tree.disturb();
            }
            match other {
                true => tree.count_tables(),
                false => tree.count_change(bytes[0], bytes[1]),
            }
            changed
        })
    }

    /// Refuses a size table that `set_stab` would refuse after a `replace` at `parent` by a qdisc
    /// of this handle and kind: a change of both is checked as a whole before it begins. The cost
    /// does not grow with the tree of a root that has no other table below.
    pub fn check_stab(
        &self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: &str,
        stab: Stab,
    ) -> Result<(), ConfigError> {
        let found = self.find(parent)?;
        SizeTable::new(stab)?;
        if parent == Handle::ROOT && self.is_of_port() && stands_for_queues(kind_name) {
            return Err(no_packets());
        }
        let stays = found.in_tree.filter(|_| found.stays(handle, kind_name));
        let trees = self.trees();
        let there = stays.and_then(|(at, place)| Some((trees.trees().nth(at)?, place)));
        there.map_or(Ok(()), |(tree, place)| rules::check_sizes(tree, place.parent))
    }

    /// Changes the options of the qdisc of each queue, whose root has taken them.
    fn change_below(&mut self, options: &Words<'_>) -> Result<(), ConfigError> {
        for at in 0..self.trees().trees().count() {
            self.edit(at, &mut |tree, cx| {
                let (env, mut changed) = (*tree.env(), Ok(()));
                tree.reach(Handle::ROOT, cx, &mut |node, cx| {
                    changed = node.with(cx, |qdisc, cx| qdisc.change(&mut options.clone(), &env, cx));
                });
                tree.disturb();
                changed
            })?;
        }
        Ok(())
    }

    /// Sets or removes the size table of the qdisc at `parent`: the sizes that it and everything
    /// below charge a packet. Packets queued there stay charged as they were. At most one size
    /// table may be on the way from the root to a leaf. A removed one counts until the packets that
    /// it charged have left.
    pub fn set_stab(&mut self, parent: Handle, stab: Option<Stab>) -> Result<(), ConfigError> {
        let found = self.find(parent)?;
        let shell = found.parent == Handle::ROOT && self.is_of_port() && stands_for_queues(found.spec.kind);
        let Some((at, place)) = found.in_tree.filter(|_| !shell) else {
            return stab.map_or(Ok(()), |_| Err(no_packets()));
        };
        found.added().map_err(|err| err.hint("the default qdisc has no size table: add one"))?;
        self.edit(at, &mut |tree, cx| {
            if stab.is_some() {
                rules::check_sizes(tree, place.parent)?;
            }
            let mut table = stab.map(SizeTable::new).transpose()?;
            tree.sized_below |= stab.is_some() && place.parent != Handle::ROOT;
            let mut disturbed = false;
            tree.reach(place.parent, cx, &mut |node, _| {
                let table = table.take();
                if node.front().stab() != table.as_ref().map(SizeTable::stab) {
                    node.set_sizes(table);
                    disturbed = true;
                }
            });
            if disturbed {
                tree.disturb();
            }
            Ok(())
        })
    }

    /// Deletes the qdisc at `parent` and drops its packets; a default one takes its place.
    pub fn delete(&mut self, parent: Handle) -> Result<(), ConfigError> {
        let found = self.find(parent)?;
        found.added()?;
        if let Over::Port(forest) = &mut self.0
            && found.parent == Handle::ROOT
        {
            let env = forest.env();
            if found.in_tree.is_none() || env.queues > 1 {
                forest.put_root(mq::default_shell(&env));
                return Ok(());
            }
        }
        // Only a root that stands for queues is in no tree.
        let Some((at, place)) = found.in_tree else { return Ok(()) };
        self.edit(at, &mut |tree, cx| {
            let default = match place.parent {
                Handle::ROOT => default_root(tree),
                class => default_below(tree, class.qdisc()),
            };
            tree.graft(place.parent, default, cx);
            Ok(())
        })
    }

    /// Replaces all qdiscs by ready ones, within a swap. They were made for this device as it is.
    /// The filters of the old ones are forgotten, and the new ones have none.
    pub fn put_whole(&mut self, mut whole: Whole) {
        // Bound: a turn for each tree.
        while !whole.prepare() {}
        match &mut self.0 {
            Over::Port(forest) => forest.put_whole(whole),
            Over::Tree(tree, cx) => {
                if let Some(new) = whole.trees.pop().filter(|_| whole.shell.is_none()) {
                    drop(tree.replace_by(new, cx));
                }
            }
        }
    }

    /// Makes a qdisc and puts it in the place of another one.
    fn put(
        &mut self,
        there: &Found,
        handle: Option<Handle>,
        kind_name: &str,
        options: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        let spec = self.trees().kinds().kind(kind_name)?;
        let parent = there.parent;
        self.check_fixed(parent)?;
        let depth = there.in_tree.map_or(0, |(_, place)| place.depth);
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
        let trees = self.trees();
        let candidate = spec.read(options, trees.env())?;
        let need = candidate.memory(trees.env());
        rules::check_memory(&trees, Object::place(parent), need, Some(parent))?;
        match (&mut self.0, there.in_tree) {
            (Over::Port(forest), in_tree)
                if parent == Handle::ROOT && (in_tree.is_none() || stands_for_queues(kind_name)) =>
            {
                forest.put_root(Some(Node::new(handle, candidate.make(&forest.env()))));
            }
            (_, None) => {}
            (_, Some((at, place))) => {
                let mut candidate = Some(candidate);
                self.edit(at, &mut |tree, cx| {
                    let Some(candidate) = candidate.take() else { return Ok(()) };
                    rules::check_copies(tree, place.parent, true, spec, &*candidate)?;
                    let qdisc = candidate.make(tree.env());
                    tree.graft(place.parent, Node::new(handle, qdisc), cx);
                    Ok(())
                })?;
            }
        }
        Ok(handle)
    }

    /// Refuses a place below a qdisc whose classes keep the qdiscs that it gives them.
    fn check_fixed(&self, parent: Handle) -> Result<(), ConfigError> {
        let trees = self.trees();
        let owner = if parent == Handle::ROOT { None } else { trees.owner(parent) };
        let Some(spec) = owner.map(|spot| spot.node.qdisc().spec()).filter(|spec| spec.fixed) else {
            return Ok(());
        };
        let expected = format!("a class of another kind: the qdiscs below {} are part of it", spec.kind);
        let err = ConfigError::new(ErrorKind::Unsupported, Object::place(parent), expected, "a qdisc");
        Err(err.key("parent").hint("change its own options"))
    }

    /// Refuses options with which a qdisc would have more memory than there is; those that it
    /// cannot read are refused elsewhere.
    fn check_growth(&self, parent: Handle, spec: &Spec, options: &Words<'_>) -> Result<(), ConfigError> {
        let trees = self.trees();
        let Ok(candidate) = spec.read(&mut options.clone(), trees.env()) else { return Ok(()) };
        let there = trees.at(parent).map_or(0, |spot| spot.node.qdisc().memory(trees.env()));
        let need = candidate.memory(trees.env()).saturating_sub(there);
        match need {
            0 => Ok(()),
            need => rules::check_memory(&trees, Object::place(parent), need, None),
        }
    }

    /// Returns the handle asked for if no qdisc elsewhere has it, or the next free automatic one.
    fn free_handle(&self, asked: Option<Handle>, parent: Handle) -> Result<Handle, ConfigError> {
        let refused = |kind, expected, given: &dyn fmt::Display| {
            ConfigError::new(kind, Object::Qdisc(None), expected, given)
        };
        let trees = self.trees();
        let Some(h) = asked.filter(|h| h.major() != 0) else {
            let free = trees.free_major(parent).map(|major| Handle::new(major, 0));
            return free
                .ok_or_else(|| refused(ErrorKind::Exists, "a free handle from 8001: to fffe:", &"none"));
        };
        if h.minor() != 0 || h == Handle::ROOT {
            let err = refused(ErrorKind::BadValue, "a qdisc handle, minor 0", &h).key("handle");
            return Err(err.hint(format!("did you mean {}?", h.qdisc())));
        }
        if trees.owner(h).is_some_and(|spot| spot.place.parent != parent) {
            return Err(refused(ErrorKind::Exists, "a handle not in use", &h).key("handle"));
        }
        Ok(h)
    }

    /// True if a root may stand for the queues of a port: for a port, and for a tree in its
    /// likeness.
    const fn is_of_port(&self) -> bool {
        match &self.0 {
            Over::Tree(tree, _) => tree.of_port,
            Over::Port(_) => true,
        }
    }

    /// Calls `f` on the tree of that number.
    fn edit(&mut self, at: usize, f: Edit<'_>) -> Result<(), ConfigError> {
        match &mut self.0 {
            Over::Tree(tree, cx) => f(tree, cx),
            Over::Port(forest) => forest.edit(at, f),
        }
    }

    /// Returns the qdisc at the place that a handle names.
    fn find(&self, parent: Handle) -> Result<Found, ConfigError> {
        let trees = self.trees();
        let parent = trees.named(parent);
        trees.at(parent).map(Found::from).ok_or_else(|| no_place(&trees, parent))
    }

    /// Returns the refusal of a qdisc that does not exist.
    fn no_qdisc(&self, handle: Handle) -> ConfigError {
        let expected = match &self.0 {
            Over::Tree(..) => "a qdisc of this tree",
            Over::Port(_) => "a qdisc of this port",
        };
        ConfigError::new(ErrorKind::NotFound, Object::Qdisc(Some(handle)), expected, handle)
    }
}

impl fmt::Debug for Qdiscs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Qdiscs").field(&self.trees()).finish()
    }
}

/// Returns the refusal of a size table at a root that only stands for queues.
fn no_packets() -> ConfigError {
    let (expected, given) = ("a size table at a root that packets meet", "one that stands for queues");
    let err = ConfigError::new(ErrorKind::Unsupported, Object::Root, expected, given);
    err.key("stab").hint("put it at the qdisc of each queue")
}

/// True if a root of this kind only stands for the qdiscs of each queue. A program may be without
/// cake_mq (feature `kinds`), and so its name stands here.
pub(super) fn stands_for_queues(kind: &str) -> bool {
    [mq::KIND, mqprio::KIND, "cake_mq"].contains(&kind)
}

/// Returns the default qdisc of a class of `owner`.
fn default_below(tree: &Tree, owner: Handle) -> Node {
    let default = names::owner(tree, owner).and_then(|(_, node)| node.qdisc().default_child(tree.env()));
    default.unwrap_or_else(|| leaf::default_child(tree.env()))
}

/// Returns the number of classes that have qdiscs, to compare. Of a kind whose commands make
/// classes it is 0: a change of the qdisc makes none.
fn classes_of(qdisc: &dyn Qdisc) -> usize {
    let made = qdisc.user_classes().is_some_and(|classes| classes.class_spec().made);
    let classes = if made { &[] } else { qdisc.classes() };
    classes.iter().filter(|class| class.minor != 0).count()
}

/// Returns every option with its value, to compare.
fn options_of(qdisc: &dyn Qdisc) -> String {
    let mut all = String::new();
    qdisc.options(&mut |s| all.push_str(&format!("{} {} ", s.param.key, exact_of(s.value))));
    all
}

/// Returns the refusal of a place that does not exist; it lists the places that do.
fn no_place(trees: &Trees<'_>, parent: Handle) -> ConfigError {
    let refused =
        |kind, expected| ConfigError::new(kind, Object::Qdisc(None), expected, parent).key("parent");
    if classes::has_class(trees, parent) {
        return refused(ErrorKind::Conflict, "a class without classes below");
    }
    let (mut have, mut more) = (String::new(), 0);
    trees.visit(&mut |place, _| match place.parent {
        Handle::ROOT => {}
        class if class.major() == 0 => {}
        _ if have.len() > 100 => more += 1,
        class => {
            have.push_str(if have.is_empty() { "" } else { " " });
            have.push_str(&class.to_string());
        }
    });
    let mut err = refused(ErrorKind::NotFound, "root or a class that exists");
    match trees.owner(parent) {
        None => err = err.reason(Reason::NoQdisc),
        Some(spot) if !spot.node.qdisc().spec().shape.is_classful() => err = err.reason(Reason::Classless),
        Some(_) => {}
    }
    match (have.as_str(), more) {
        ("", _) => err.hint("there are no classes"),
        (have, 0) => err.hint(format!("there are: {have}")),
        (have, more) => err.hint(format!("there are: {have} and {more} more")),
    }
}
