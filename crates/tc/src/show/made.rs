//! The commands that make the qdiscs of a device again, and copies of the qdiscs.

use txweir_core::path::trees::Trees;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::stab::Stab;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Handle, Tree};

use super::{push_words, stab, words_of};

/// Returns the commands that make the tree, without loss, one a line, parents first. A default root
/// takes none.
pub fn commands<'a>(trees: impl Into<Trees<'a>>, dev: Option<&str>) -> String {
    let trees = &trees.into();
    let mut out = String::new();
    for of in objects(trees) {
        out.extend(of.made(trees).map(|made| made.command(dev)));
    }
    out
}

#[cfg(test)]
std::thread_local! {
    /// Copies of trees that this thread has made.
    pub(crate) static COPIES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns a tree of the same structure and options, with nothing queued and nothing counted. The
/// copy of a port whose queues have trees of their own is one tree: changes to either are named and
/// refused alike, and packets put into it wait in the same places.
pub fn copy<'a>(trees: impl Into<Trees<'a>>, cx: &mut Cx) -> Result<Tree, ConfigError> {
    let trees = &trees.into();
    let mut copying = Copying::of(trees);
    while !copying.step(trees, usize::MAX, cx)? {}
    Ok(copying.tree)
}

/// A copy of the trees of a device that is made in parts. The trees must stay as they are
/// meanwhile.
pub(crate) struct Copying {
    tree: Tree,
    rest: std::vec::IntoIter<Object>,
}

impl Copying {
    /// Begins a copy.
    pub(crate) fn of(trees: &Trees<'_>) -> Self {
        #[cfg(test)]
        COPIES.with(|copies| copies.set(copies.get() + 1));
        let tree = if trees.is_of_port() { Tree::of_port(*trees.env()) } else { Tree::new(*trees.env()) };
        Self { tree: tree.with_kinds(trees.kinds()), rest: objects(trees).into_iter() }
    }
    /// Copies the next objects, at most so many; true once the copy is whole.
    pub(crate) fn step(&mut self, trees: &Trees<'_>, most: usize, cx: &mut Cx) -> Result<bool, ConfigError> {
        let tree = &mut self.tree;
        for made in self.rest.by_ref().take(most).filter_map(|of| of.made(trees)) {
            let options: Vec<&str> = made.options.iter().map(String::as_str).collect();
            let words = &mut Words::new(&options);
            match made.class {
                Some(class) => tree.edit(cx).replace_class(made.parent, class, Some(made.kind), words)?,
                None => {
                    tree.edit(cx).replace(made.parent, Some(made.handle), made.kind, words)?;
                }
            }
            if made.stab.is_some() {
                tree.edit(cx).set_stab(made.parent, made.stab)?;
            }
        }
        let is_whole = self.rest.len() == 0;
        if is_whole {
            tree.edit(cx).set_blocks(&trees.blocks());
            tree.note_root();
        }
        Ok(is_whole)
    }
    /// Returns the copy.
    pub(crate) fn end(self) -> Tree {
        self.tree
    }
}

/// The name of an object that a command has made.
#[derive(Clone, Copy)]
pub(crate) enum Object {
    /// The qdisc at a place.
    Qdisc(Handle),
    /// A class, and its qdisc or the class above it.
    Class(Handle, Handle),
}

/// The parts of a command that makes one qdisc or class.
pub(crate) struct Made {
    /// Its parent: a class, or `ROOT`; for a class its qdisc or a class.
    parent: Handle,
    /// The qdisc's handle.
    handle: Handle,
    kind: &'static str,
    options: Vec<String>,
    stab: Option<Stab>,
    /// The class, if it is one.
    class: Option<Handle>,
}

/// Returns everything that commands have made, parents first: each qdisc, then its classes.
pub(crate) fn objects(trees: &Trees<'_>) -> Vec<Object> {
    let mut all = Vec::new();
    trees.visit(&mut |place, node| {
        if node.handle().is_none() {
            return;
        }
        all.push(Object::Qdisc(place.parent));
        let Some(classes) = node.qdisc().user_classes().filter(|c| c.class_spec().made) else { return };
        classes.list(&mut |class| {
            let of = |minor| Handle::new(node.handle().major(), minor);
            // The qdisc itself is no class of its own.
            if class.at.minor != 0 {
                all.push(Object::Class(of(class.at.minor), of(class.at.parent)));
            }
        });
    });
    all
}

impl Object {
    /// Returns the parts of its command; `None` if it is not there any more.
    pub(crate) fn made(self, trees: &Trees<'_>) -> Option<Made> {
        let (node, parent, class) = match self {
            Self::Qdisc(place) => (trees.qdisc_at(place)?, place, None),
            Self::Class(class, parent) => (trees.qdisc(class)?, parent, Some(class)),
        };
        let mut options = Vec::new();
        match class {
            None => options = words_of(node.qdisc()),
            Some(class) => {
                node.qdisc().user_classes()?.options(class.minor(), &mut |o| push_words(&mut options, &o));
            }
        }
        let stab = node.front().stab().copied().filter(|_| class.is_none());
        Some(Made { parent, handle: node.handle(), kind: node.qdisc().spec().kind, options, stab, class })
    }
}

impl Made {
    /// Returns the command, with the end of its line.
    pub(crate) fn command(&self, dev: Option<&str>) -> String {
        let mut out = String::from(if self.class.is_some() { "class replace" } else { "qdisc replace" });
        if let Some(dev) = dev {
            out.push_str(&format!(" dev {dev}"));
        }
        match self.parent {
            Handle::ROOT => out.push_str(" root"),
            parent => out.push_str(&format!(" parent {parent}")),
        }
        match self.class {
            Some(class) => out.push_str(&format!(" classid {class}")),
            None => out.push_str(&format!(" handle {}", self.handle)),
        }
        if let Some(stab) = &self.stab {
            out.push_str(&format!(" {}", stab::words(stab)));
        }
        out.push_str(&format!(" {}", self.kind));
        for word in &self.options {
            out.push(' ');
            out.push_str(word);
        }
        out.push('\n');
        out
    }
}
