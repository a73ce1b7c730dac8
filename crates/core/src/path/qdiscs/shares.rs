//! A change of one object that shares a rate by name: it is checked before it is made, and the
//! object joins the rate afterwards. The cost depends on the object, and on those whose place it
//! takes, not on the others of the device.

use alloc::sync::Arc;

use super::{Found, Qdiscs};
use crate::base::handle::Handle;
use crate::law::lease::Lease;
use crate::path::rates::{Agreed, SharedRates};
use crate::path::trees::{Spot, Trees};
use crate::sched::node::Node;
use crate::sched::share::{Share, Wanted};
use crate::text::error::{ConfigError, Object};
use crate::text::value::Words;

/// A qdisc or a class that a change would make share a rate.
#[derive(Debug)]
pub struct Sharing {
    at: At,
    wanted: Wanted,
}

/// The object.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The qdisc at a place. It is changed, or a new one of this handle takes the place of all that
    /// is there.
    Changed(Handle),
    Made(Handle, Option<Handle>),
    /// A class, and the one above it; `NONE` if that is the qdisc.
    Class(Handle, Handle),
}

/// Calls its argument on each copy of the qdiscs of a device.
pub type EachCopy<'a> = &'a dyn Fn(&mut dyn FnMut(&Trees<'_>));

impl Sharing {
    /// Refuses the change if others share the name with another rate or bucket. `copies` calls its
    /// argument on each copy of the qdiscs of which `trees` is one: all are changed alike.
    ///
    /// # Errors
    /// Names the object, and the values of the others.
    pub fn check(
        &self,
        rates: &SharedRates,
        trees: &Trees<'_>,
        copies: EachCopy<'_>,
    ) -> Result<(), ConfigError> {
        let own = |node: Option<&Node>, minor, f: &mut dyn FnMut(Share<'_>)| {
            node.and_then(|node| node.qdisc().shared(minor)).into_iter().for_each(f);
        };
        match self.at {
            At::Changed(place) if trees.qdisc_at(place).is_some_and(|node| node.qdisc().spec().fixed) => {
                let object = Object::Qdisc(trees.qdisc_at(place).map(Node::handle));
                rates.admit(object, &self.wanted, |f| {
                    copies(&mut |trees| trees.visit_at(place, &mut |node| node.qdisc().shares(f)));
                })
            }
            At::Changed(place) => {
                let object = Object::Qdisc(trees.qdisc_at(place).map(Node::handle));
                rates.admit(object, &self.wanted, |f| copies(&mut |trees| own(trees.qdisc_at(place), 0, f)))
            }
            At::Made(place, handle) => {
                let free = || trees.free_major(place).map(|major| Handle::new(major, 0));
                rates.admit(Object::Qdisc(handle.or_else(free)), &self.wanted, |f| {
                    copies(&mut |trees| trees.visit_at(place, &mut |node| node.qdisc().shares(f)));
                })
            }
            At::Class(class, above) => {
                let gone = |trees: &Trees<'_>, f: &mut dyn FnMut(Share<'_>)| {
                    let node = trees.qdisc(class);
                    own(node, class.minor(), f);
                    // The first class below another one takes the place of its qdisc.
                    if node.is_some_and(|node| !has_class(node, class.minor())) {
                        trees.visit_at(above, &mut |node| node.qdisc().shares(f));
                    }
                };
                let object = Object::Class(Some(class));
                rates.admit(object, &self.wanted, |f| copies(&mut |trees| gone(trees, f)))
            }
        }
    }

    /// Joins the object, which the change has made, to the rate that it names.
    pub fn join(&self, rates: &mut SharedRates, qdiscs: &mut Qdiscs<'_>) {
        let trees = qdiscs.trees();
        let (spot, minor) = match self.at {
            At::Changed(place) | At::Made(place, _) => (trees.at(place), 0),
            At::Class(class, _) => (trees.owner(class), class.minor()),
        };
        if spot.is_some_and(|spot| minor == 0 && spot.node.qdisc().spec().fixed) {
            return qdiscs.join(&rates.agreed_of(&self.wanted));
        }
        // Only a root that stands for queues is in no tree, and it shares nothing itself.
        let Some((tree, place)) = spot.map(Found::from).and_then(|found| found.in_tree) else { return };
        let shared = rates.rate_of(&self.wanted);
        let joined = |share: &Share<'_>| Arc::ptr_eq(share.lease.shared(), &shared);
        let there = spot.and_then(|Spot { node, .. }| node.qdisc().shared(minor));
        // No thread changes the rate now, so `Lease::join` refuses none.
        let lease = match there {
            Some(share) if !joined(&share) => Lease::join(Arc::clone(&shared)),
            _ => None,
        };
        let Some(mut lease) = lease.map(Some) else { return };
        let _ = qdiscs.edit(tree, &mut |tree, cx| {
            tree.reach(place.parent, cx, &mut |node, cx| {
                node.with(cx, |qdisc, _| lease.take().into_iter().for_each(|l| qdisc.share(minor, l)));
            });
            Ok(())
        });
    }
}

impl Trees<'_> {
    /// Returns the sharing of a rate that words would make of the qdisc at a place, as
    /// [`Qdiscs::change`] (`kind_name` is `None`), or [`Qdiscs::add`] and [`Qdiscs::replace`] do;
    /// `None` for none, and if they refuse the words.
    pub fn sharing_of_qdisc(
        &self,
        place: Handle,
        handle: Option<Handle>,
        kind_name: Option<&str>,
        words: &mut Words<'_>,
    ) -> Option<Sharing> {
        let spot = self.at(self.named(place))?;
        let (node, place) = (spot.node, spot.place.parent);
        let own = node.handle();
        let same = kind_name.is_none_or(|kind| kind == node.qdisc().spec().kind)
            && handle.is_none_or(|h| h.qdisc().is_none() || h.qdisc() == own);
        if same && !own.is_none() {
            let wanted = node.qdisc().wanted(words, self.env_of(&spot)?)?;
            return Some(Sharing { at: At::Changed(place), wanted });
        }
        let wanted = self.kinds().kind(kind_name?).ok()?.read(words, self.env()).ok()?.wanted()?;
        Some(Sharing { at: At::Made(place, handle.map(Handle::qdisc).filter(|h| !h.is_none())), wanted })
    }

    /// Returns the sharing of a rate that words would make of a class, as [`Qdiscs::add_class`],
    /// [`Qdiscs::replace_class`] and [`Qdiscs::change_class`] do; `None` for none, and if they
    /// refuse the words.
    pub fn sharing_of_class(
        &self,
        parent: Option<Handle>,
        class: Handle,
        words: &mut Words<'_>,
    ) -> Option<Sharing> {
        let (class, below) = self.full_class(parent, class);
        let spot = self.owner(class)?;
        let (name, env) = (Object::Class(Some(class)), self.env_of(&spot)?);
        let minor = below.map(Handle::minor);
        let wanted = spot.node.qdisc().user_classes()?.wanted(name, class.minor(), minor, words, env)?;
        let above = minor.filter(|minor| *minor != 0).map_or(Handle::NONE, |m| Handle::new(class.major(), m));
        Some(Sharing { at: At::Class(class, above), wanted })
    }
}

fn has_class(node: &Node, minor: u16) -> bool {
    node.qdisc().user_classes().is_some_and(|classes| classes.has(minor))
}

impl Qdiscs<'_> {
    /// Joins the qdiscs of all its trees, which are among those that have agreed.
    pub fn join(&mut self, agreed: &Agreed) {
        for tree in 0..self.trees().trees().count() {
            let _ = self.edit(tree, &mut |tree, _| {
                agreed.join(tree);
                Ok(())
            });
        }
    }
}
