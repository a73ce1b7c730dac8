//! Changes of options that are read and checked ahead, and applied together: each concerns one
//! qdisc or class that exists, and moves no packet to another one. So the trees are looked at where
//! the lines name them and nowhere else, and the time between two packets has no reading of words.

use alloc::vec::Vec;

use super::{Qdiscs, stands_for_queues};
use crate::base::handle::Handle;
use crate::path::tree::{Tree, names};
use crate::path::trees::{Spot, Trees};
use crate::sched::cx::Cx;
use crate::sched::erased::{Revised, Revision};
use crate::text::error::Object;
use crate::text::value::Words;

/// Effect of one change of options that was read ahead.
#[derive(Debug)]
pub enum Planned {
    /// None: the object has these options.
    Same,
    /// A change of this object alone.
    Change(Change),
}

/// A change of the options of one qdisc or class.
#[derive(Debug)]
pub struct Change {
    /// The number of its tree, and the place of the qdisc there.
    tree: usize,
    place: Handle,
    /// The class; `None` for the qdisc itself.
    minor: Option<u16>,
    revision: Revision,
}

/// Changes of options, at most one for each object.
#[derive(Debug, Default)]
pub struct Revisions(Vec<Change>);

impl Revisions {
    /// Adds a change. It must have been read beside the present trees, and its object must have no
    /// other.
    pub fn push(&mut self, change: Change) {
        self.0.push(change);
    }
    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Puts those of one qdisc together, before they are applied.
    pub fn sort(&mut self) {
        self.0.sort_by_key(|change| (change.tree, change.place, change.minor));
    }
}

impl Trees<'_> {
    /// Reads options for the qdisc at a place, of this kind and handle, as
    /// [`Qdiscs::replace`] does where it is there already. Returns the place with the effect;
    /// `None` if it is not there, or only [`Qdiscs`] can tell the effect: the line is refused,
    /// needs more memory, or concerns other objects too.
    pub fn plan_qdisc(
        &self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: Option<&str>,
        words: &mut Words<'_>,
    ) -> Option<(Handle, Planned)> {
        let spot = self.at(self.named(parent))?;
        let (node, own) = (spot.node, spot.node.handle());
        let same = handle.is_none_or(|h| h.qdisc().is_none() || h.qdisc() == own);
        let kind = node.qdisc().spec().kind;
        // A line that does not repeat a size table removes it.
        let sized = node.front().stab().is_some();
        if own.is_none() || !same || kind_name.is_some_and(|given| given != kind) || sized {
            return None;
        }
        let at = spot.place.parent;
        let env = self.env_of(&spot)?;
        match (node.qdisc().revised(words, env).ok()?, spot.in_tree) {
            (Revised::Same, _) => Some((at, Planned::Same)),
            (Revised::Alone(revision), Some((tree, place))) if !stands_for_queues(kind) => {
                Some((at, Planned::Change(Change { tree, place: place.parent, minor: None, revision })))
            }
            (Revised::Alone(_) | Revised::Wide, _) => None,
        }
    }

    /// Reads options for a class, as [`Qdiscs::change_class`] does. Returns the class with the
    /// effect; `None` as [`plan_qdisc`](Self::plan_qdisc).
    pub fn plan_class(
        &self,
        parent: Option<Handle>,
        class: Handle,
        kind_name: Option<&str>,
        words: &mut Words<'_>,
    ) -> Option<(Handle, Planned)> {
        if class.major() == 0 {
            return None;
        }
        let spot = self.owner(class)?;
        let above = match parent {
            Some(Handle::ROOT) => Some(self.root().handle()),
            other => other,
        };
        let kind = spot.node.qdisc().spec().kind;
        let apart = above.is_some_and(|above| above.major() != 0 && above.major() != class.major());
        if apart || kind_name.is_some_and(|given| given != kind) {
            return None;
        }
        let (tree, place) = spot.in_tree?;
        let classes = spot.node.qdisc().user_classes()?;
        let (name, env) = (Object::Class(Some(class)), self.env_of(&spot)?);
        let above = above.map(Handle::minor);
        match classes.revised(name, class.minor(), above, words, env).ok()? {
            Revised::Same => Some((class, Planned::Same)),
            Revised::Alone(revision) => {
                let minor = Some(class.minor());
                Some((class, Planned::Change(Change { tree, place: place.parent, minor, revision })))
            }
            Revised::Wide => None,
        }
    }

    /// Returns the properties of the device that the tree of a qdisc knows.
    fn env_of(&self, spot: &Spot<'_>) -> Option<&crate::Env> {
        match spot.in_tree {
            Some((tree, _)) => self.trees().nth(tree).map(Tree::env),
            None => Some(self.env()),
        }
    }
}

impl Qdiscs<'_> {
    /// Applies changes of options that were read beside the present qdiscs; those of one qdisc are
    /// together ([`Revisions::sort`]).
    pub fn revise(&mut self, revisions: Revisions) {
        let mut rest = revisions.0.into_iter().peekable();
        // Bound: a turn for each qdisc that the changes name.
        while let Some(first) = rest.next() {
            let (tree, place) = (first.tree, first.place);
            let mut of_one = alloc::vec![first];
            while let Some(next) = rest.next_if(|next| (next.tree, next.place) == (tree, place)) {
                of_one.push(next);
            }
            let mut of_one = Some(of_one);
            let _ = self.edit(tree, &mut |tree, cx| {
                revise_one(tree, place, of_one.take().unwrap_or_default(), cx);
                Ok(())
            });
        }
    }
}

/// Applies the changes of one qdisc and its classes.
fn revise_one(tree: &mut Tree, place: Handle, changes: Vec<Change>, cx: &mut Cx) {
    let env = *tree.env();
    let mut changes = Some(changes);
    tree.reach(place, cx, &mut |node, cx| {
        node.with(cx, |qdisc, cx| {
            for Change { minor, revision, .. } in changes.take().into_iter().flatten() {
                match minor {
                    None => qdisc.revise(revision, &env, cx),
                    Some(minor) => {
                        if let Some(classes) = qdisc.user_classes_mut() {
                            classes.revise(minor, revision, &env, cx);
                        }
                    }
                }
            }
        });
    });
    debug_assert!(names::at(tree, place).is_some(), "a change keeps its qdisc");
}
