//! The qdiscs of a port by their handles: which queue's tree an operation is about.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::blocks::has;
use super::change::{Fate, NewRoot};
use super::{Port, Queues, Trees, stands_for_queues};
use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::time::Instant;
use crate::classify::filter::BlockId;
use crate::path::tree::{AUTO_MAJOR, Place, Tree};
use crate::path::txpath::TxPath;
use crate::qdisc::mq::default_shell;
use crate::qdisc::mqprio;
use crate::sched::cx::Cx;
use crate::sched::node::Node;
use crate::sched::stab::Stab;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::Words;

/// Operations on qdiscs by handle, whether they are in one tree or in those of a port's queues. Each applies whole or not at
/// all; see the same on [`Tree`].
pub trait Qdiscs {
    /// The device that they are on.
    fn env(&self) -> Env;
    /// The qdiscs, to look at.
    fn trees(&self) -> Trees<'_>;
    /// Calls `f` on every qdisc, parents first.
    fn visit(&self, f: &mut dyn FnMut(Place, &Node)) {
        self.trees().visit(&mut |place, node| f(place, node));
    }
    /// See [`Tree::named`].
    fn named(&self, parent: Handle) -> Handle;
    /// See [`Tree::parent_of`].
    fn parent_of(&self, handle: Handle) -> Result<Handle, ConfigError>;
    /// See [`Tree::add`].
    fn add(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError>;
    /// See [`Tree::replace`].
    fn replace(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError>;
    /// See [`Tree::change`].
    fn change(
        &mut self,
        parent: Handle,
        kind: Option<&str>,
        words: &mut Words<'_>,
    ) -> Result<(), ConfigError>;
    /// See [`Tree::set_stab`].
    fn set_stab(&mut self, parent: Handle, stab: Option<Stab>) -> Result<(), ConfigError>;
    /// See [`Tree::delete`].
    fn delete(&mut self, parent: Handle) -> Result<(), ConfigError>;
    /// Calls `f` on the tree that has the classes of a qdisc: of the one that the class, or else the parent, names.
    fn classes(
        &mut self,
        parent: Option<Handle>,
        class: Handle,
        f: &mut dyn FnMut(&mut Tree, &mut Cx) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError>;
    /// See [`Tree::set_block`].
    fn set_block(&mut self, at: Handle, block: Option<BlockId>);
    /// See [`Tree::set_blocks`].
    fn set_blocks(&mut self, all: &[(Handle, BlockId)]);
    /// See [`Tree::take_orphans`].
    fn take_orphans(&mut self) -> Vec<BlockId>;
}

/// One tree by its handles.
#[derive(Debug)]
pub struct InTree<'a> {
    tree: &'a mut Tree,
    cx: &'a mut Cx,
}

impl<'a> InTree<'a> {
    /// A tree, and what its operations need.
    pub const fn new(tree: &'a mut Tree, cx: &'a mut Cx) -> Self {
        Self { tree, cx }
    }
}

impl Qdiscs for InTree<'_> {
    fn env(&self) -> Env {
        *self.tree.env()
    }
    fn trees(&self) -> Trees<'_> {
        Trees::from(&*self.tree)
    }
    fn named(&self, parent: Handle) -> Handle {
        self.tree.named(parent)
    }
    fn parent_of(&self, handle: Handle) -> Result<Handle, ConfigError> {
        self.tree.parent_of(handle)
    }
    fn add(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        self.tree.add(parent, handle, kind, words, self.cx)
    }
    fn replace(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        self.tree.replace(parent, handle, kind, words, self.cx)
    }
    fn change(
        &mut self,
        parent: Handle,
        kind: Option<&str>,
        words: &mut Words<'_>,
    ) -> Result<(), ConfigError> {
        self.tree.change(parent, kind, words, self.cx)
    }
    fn set_stab(&mut self, parent: Handle, stab: Option<Stab>) -> Result<(), ConfigError> {
        self.tree.set_stab(parent, stab, self.cx)
    }
    fn delete(&mut self, parent: Handle) -> Result<(), ConfigError> {
        self.tree.delete(parent, self.cx)
    }
    fn classes(
        &mut self,
        _: Option<Handle>,
        _: Handle,
        f: &mut dyn FnMut(&mut Tree, &mut Cx) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        f(self.tree, self.cx)
    }
    fn set_block(&mut self, at: Handle, block: Option<BlockId>) {
        self.tree.set_block(at, block);
    }
    fn set_blocks(&mut self, all: &[(Handle, BlockId)]) {
        self.tree.set_blocks(all.iter().copied());
    }
    fn take_orphans(&mut self) -> Vec<BlockId> {
        self.tree.take_orphans()
    }
}

/// The qdiscs of a port while they are changed.
#[derive(Debug)]
pub struct Handles<'a, F, D> {
    port: &'a mut Port<F>,
    dev: &'a mut D,
    now: Instant,
    fate: Fate,
    /// Where packets are kept: the paths below a root that was replaced, each with its queue.
    replaced: Option<Vec<(u16, TxPath<F>)>>,
}

/// Where an operation is done: at the root of a port, or in the tree of a path, at a place there.
enum Spot {
    Root,
    Path(usize, Handle),
}

impl<'a, F, D: Queues<Frame = F>> Handles<'a, F, D> {
    pub(super) const fn new(port: &'a mut Port<F>, dev: &'a mut D, now: Instant, fate: Fate) -> Self {
        Self { port, dev, now, fate, replaced: None }
    }
    pub(super) fn into_replaced(self) -> Option<Vec<(u16, TxPath<F>)>> {
        self.replaced
    }

    /// The tree that a place is in.
    fn spot(&self, parent: Handle) -> Result<Spot, ConfigError> {
        let Some(shell) = &self.port.shell else { return Ok(Spot::Path(0, parent)) };
        if parent == Handle::ROOT {
            return Ok(Spot::Root);
        }
        // What is there at first has no handle, so no class of it can be named.
        let here = !shell.handle().is_none() && parent.major() == shell.handle().major();
        if here && (1..=self.port.paths.len()).contains(&usize::from(parent.minor())) {
            return Ok(Spot::Path(usize::from(parent.minor()) - 1, Handle::ROOT));
        }
        let has = |tree: &Tree| {
            let mut there = false;
            tree.visit(&mut |place, _| there |= place.parent == parent);
            there || tree.named(parent) != parent
        };
        match self.port.paths.iter().position(|p| has(p.tree())) {
            Some(at) => Ok(Spot::Path(at, parent)),
            None => {
                let expected = "root or a class that exists";
                Err(ConfigError::new(ErrorKind::NotFound, Object::Qdisc(None), expected, parent)
                    .key("parent"))
            }
        }
    }

    /// The handle asked for if no tree has it elsewhere than at the place, or one that none has.
    fn handle(&self, asked: Option<Handle>, parent: Handle) -> Result<Option<Handle>, ConfigError> {
        if self.port.shell.is_none() {
            return Ok(asked);
        }
        let mut used = BTreeSet::new();
        self.visit(&mut |place, node| {
            if place.parent != parent {
                used.insert(node.handle().major());
            }
        });
        match asked.filter(|h| h.major() != 0) {
            Some(h) if used.contains(&h.major()) => {
                Err(ConfigError::new(ErrorKind::Exists, Object::Qdisc(None), "a handle not in use", h)
                    .key("handle"))
            }
            Some(h) => Ok(Some(h)),
            None => Ok((AUTO_MAJOR..u16::MAX).find(|m| !used.contains(m)).map(|m| Handle::new(m, 0))),
        }
    }

    /// Calls `f` on the tree of a path.
    fn on_path<R>(&mut self, at: usize, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        self.port.on_path(at, self.now, self.dev, self.fate, f)
    }

    fn put_root(&mut self, root: NewRoot) {
        let gone = self.port.put_root(self.now, root);
        match self.fate {
            Fate::Purged => self.port.purge(self.now, gone, self.dev),
            Fate::Kept => {
                for path in self.port.paths_mut() {
                    path.begin_swap(self.now);
                }
                self.replaced.get_or_insert_default().extend(gone);
            }
        }
    }

    /// Makes the root one that stands for the queues' own, or one that does not.
    fn set_root(
        &mut self,
        handle: Option<Handle>,
        name: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        let env = self.port.config.env;
        let handle = self.handle(handle, Handle::ROOT)?;
        // Tried on a tree of its own, so that what is refused changes nothing.
        let (mut tree, mut cx) = (Tree::new(env), Cx::new(1, env.seed));
        let handle = tree.add(Handle::ROOT, handle, name, words, &mut cx)?;
        let root = tree.into_root();
        let root = match stands_for_queues(name) {
            true => {
                let classes = mqprio::classes_of(root.qdisc());
                NewRoot::Shell(root, classes)
            }
            false => NewRoot::One(Some(root)),
        };
        self.put_root(root);
        Ok(handle)
    }

    fn root_handle(&self) -> Handle {
        match (&self.port.shell, self.port.paths.first()) {
            (Some(shell), _) => shell.handle(),
            (None, Some(path)) => path.tree().root().handle(),
            (None, None) => Handle::NONE,
        }
    }

    /// Whether an operation at this place makes or takes away a root that stands for the queues' own.
    fn is_about_shell(&self, parent: Handle, name: &str) -> bool {
        parent == Handle::ROOT && (self.port.shell.is_some() || stands_for_queues(name))
    }
}

impl<F, D: Queues<Frame = F>> Qdiscs for Handles<'_, F, D> {
    fn env(&self) -> Env {
        self.port.config.env
    }
    fn trees(&self) -> Trees<'_> {
        self.port.trees()
    }
    fn named(&self, parent: Handle) -> Handle {
        let named = self.port.paths.iter().map(|path| path.tree().named(parent));
        named.into_iter().find(|named| *named != parent).unwrap_or(parent)
    }
    fn parent_of(&self, handle: Handle) -> Result<Handle, ConfigError> {
        let mut found = None;
        self.visit(&mut |place, node| {
            if !handle.is_none() && node.handle() == handle.qdisc() {
                found = Some(place.parent);
            }
        });
        let object = Object::Qdisc(Some(handle));
        found.ok_or_else(|| ConfigError::new(ErrorKind::NotFound, object, "a qdisc of this port", handle))
    }
    fn add(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        if self.is_about_shell(parent, kind) {
            let there = self.root_handle();
            if !there.is_none() {
                let err = ConfigError::new(ErrorKind::Exists, Object::Root, "no qdisc there yet", there);
                return Err(err.hint("use replace, or delete it first"));
            }
            return self.set_root(handle, kind, words);
        }
        match self.spot(parent)? {
            Spot::Root => self.set_root(handle, kind, words),
            Spot::Path(at, place) => {
                refuse_shell(kind, parent)?;
                let handle = self.handle(handle, parent)?;
                self.on_path(at, |tree, cx| tree.add(place, handle, kind, words, cx))
            }
        }
    }
    fn replace(
        &mut self,
        parent: Handle,
        handle: Option<Handle>,
        kind: &str,
        words: &mut Words<'_>,
    ) -> Result<Handle, ConfigError> {
        if self.is_about_shell(parent, kind) {
            let there = self.root_handle();
            let same = handle.is_none_or(|h| h.qdisc().is_none() || h.qdisc() == there);
            let present = self.port.shell.as_ref().map(|s| s.qdisc().spec().kind);
            if !there.is_none() && present == Some(kind) && same {
                return self.change(parent, Some(kind), words).map(|()| there);
            }
            return self.set_root(handle, kind, words);
        }
        match self.spot(parent)? {
            Spot::Root => self.set_root(handle, kind, words),
            Spot::Path(at, place) => {
                refuse_shell(kind, parent)?;
                let mut present = Handle::NONE;
                self.visit(&mut |p, node| {
                    if p.parent == parent {
                        present = node.handle();
                    }
                });
                // One that stays keeps its handle; the tree says so.
                let handle = match handle {
                    None if !present.is_none() => None,
                    asked => self.handle(asked, parent)?,
                };
                self.on_path(at, |tree, cx| tree.replace(place, handle, kind, words, cx))
            }
        }
    }
    fn change(
        &mut self,
        parent: Handle,
        kind: Option<&str>,
        words: &mut Words<'_>,
    ) -> Result<(), ConfigError> {
        let now = self.now;
        match self.spot(parent)? {
            Spot::Path(at, place) => self.on_path(at, |tree, cx| tree.change(place, kind, words, cx)),
            Spot::Root => {
                let env = self.port.config.env;
                let Some(shell) = &mut self.port.shell else { return Ok(()) };
                let present = shell.qdisc().spec().kind;
                if shell.handle().is_none() {
                    let err =
                        ConfigError::new(ErrorKind::NotFound, Object::Root, "a qdisc that was added", "");
                    return Err(err.hint("the default qdisc cannot be changed: add one"));
                }
                if let Some(given) = kind.filter(|k| *k != present) {
                    let object = Object::Qdisc(Some(shell.handle()));
                    let err =
                        ConfigError::new(ErrorKind::Conflict, object, format!("its kind, {present}"), given);
                    return Err(err.hint("a change keeps the kind: use replace"));
                }
                let mut cx = Cx::new(1, env.seed);
                cx.now = now;
                shell.with(&mut cx, |qdisc, cx| qdisc.change(words, &env, cx))
            }
        }
    }
    fn set_stab(&mut self, parent: Handle, stab: Option<Stab>) -> Result<(), ConfigError> {
        match (self.spot(parent)?, stab) {
            (Spot::Path(at, place), stab) => self.on_path(at, |tree, cx| tree.set_stab(place, stab, cx)),
            (Spot::Root, None) => Ok(()),
            (Spot::Root, Some(_)) => {
                let expected = "a size table at a root that packets meet";
                let err = ConfigError::new(
                    ErrorKind::Unsupported,
                    Object::Root,
                    expected,
                    "one that stands for queues",
                );
                Err(err.key("stab").hint("put it at the qdisc of each queue"))
            }
        }
    }
    fn delete(&mut self, parent: Handle) -> Result<(), ConfigError> {
        let env = self.port.config.env;
        let several = env.queues > 1;
        match self.spot(parent)? {
            Spot::Path(at, place) if place != Handle::ROOT || self.port.shell.is_some() || !several => {
                self.on_path(at, |tree, cx| tree.delete(place, cx))
            }
            _ => {
                if self.root_handle().is_none() {
                    return Err(ConfigError::new(
                        ErrorKind::NotFound,
                        Object::Root,
                        "a qdisc that was added",
                        "",
                    ));
                }
                let root =
                    default_shell(&env).map_or(NewRoot::One(None), |shell| NewRoot::Shell(shell, None));
                self.put_root(root);
                Ok(())
            }
        }
    }
    fn classes(
        &mut self,
        parent: Option<Handle>,
        class: Handle,
        f: &mut dyn FnMut(&mut Tree, &mut Cx) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let owner = match (class.major(), parent) {
            (0, Some(parent)) if parent != Handle::ROOT => parent.qdisc(),
            (0, _) => self.root_handle(),
            _ => class.qdisc(),
        };
        let Some(shell) = &self.port.shell else { return self.on_path(0, f) };
        if owner == shell.handle() {
            let kind = shell.qdisc().spec().kind;
            let expected = format!("a qdisc whose classes commands make: {kind} is not one");
            let object = Object::Class(Some(class));
            return Err(ConfigError::new(ErrorKind::Unsupported, object, expected, "this"));
        }
        match self.port.paths.iter().position(|p| has(p.tree(), owner)) {
            Some(at) => self.on_path(at, f),
            None => {
                let object = Object::Qdisc(Some(owner));
                Err(ConfigError::new(ErrorKind::NotFound, object, "a qdisc of this port", owner)
                    .key("classid"))
            }
        }
    }
    fn set_block(&mut self, at: Handle, block: Option<BlockId>) {
        self.port.set_block(self.now, at, block, self.dev, self.fate);
    }
    fn set_blocks(&mut self, all: &[(Handle, BlockId)]) {
        self.port.set_blocks(self.now, all, self.dev, self.fate);
    }
    fn take_orphans(&mut self) -> Vec<BlockId> {
        let gone = self.replaced.iter_mut().flatten();
        let mut all: Vec<BlockId> =
            gone.flat_map(|(_, path)| path.edit(|tree, _| tree.take_orphans())).collect();
        all.extend(self.port.take_orphans());
        all
    }
}

/// What stands for all queues has no place below one.
fn refuse_shell(kind: &str, parent: Handle) -> Result<(), ConfigError> {
    if !stands_for_queues(kind) || parent == Handle::ROOT {
        return Ok(());
    }
    let err =
        ConfigError::new(ErrorKind::Unsupported, Object::Class(Some(parent)), "root", kind).key("parent");
    let err = err.reason(Reason::RootOnly);
    Err(err.hint(format!("the classes of {kind} are the device's transmit queues")))
}
