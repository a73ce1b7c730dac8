//! `SharedRates`: rates that qdiscs of several trees share by name (`tbf ... shared NAME`).
//!
//! A qdisc is made with the name alone, and a rate of its own: until it is joined, it shapes to the
//! whole of that rate. The owner of the trees, of one device or of all, keeps one [`SharedRates`].
//! It calls [`SharedRates::join`] for trees that a command has made or changed; where several are
//! changed together, [`SharedRates::agree`], and [`Agreed::join`] for each. The first qdisc that
//! uses a name makes its rate; the last one that lets go of it removes it. The owner checks a
//! change on copies first ([`SharedRates::check`]), because a qdisc with another rate than the
//! others of its name stays alone. This is for the control plane: where threads have trees of their
//! own, the owner keeps this behind a lock.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use crate::base::handle::Handle;
use crate::base::units::{Bytes, Rate};
use crate::law::lease::{Lease, SharedRate};
use crate::path::tree::Tree;
use crate::sched::node::Node;
use crate::sched::share::Share;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Name, text_of};

/// A name that is in use.
#[derive(Debug)]
struct Entry {
    shared: Weak<SharedRate>,
    rate: Rate,
    burst: Bytes,
}

/// The rates that are shared, by name.
#[derive(Debug, Default)]
pub struct SharedRates {
    entries: BTreeMap<Name, Entry>,
}

/// Rates that trees have agreed on.
#[derive(Debug, Default)]
pub struct Agreed {
    rates: BTreeMap<Name, Arc<SharedRate>>,
}

impl Agreed {
    /// Joins the qdiscs of a tree that is one of those that have agreed.
    pub fn join(&self, tree: &mut Tree) {
        join_below(tree.root_mut(), &self.rates, 0);
    }
}

/// Values that the trees in question give for a name.
struct Wish {
    rate: Rate,
    burst: Bytes,
    /// Number of their qdiscs that have joined the rate of that name.
    joined: u32,
}

impl SharedRates {
    /// Returns an empty set.
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new() }
    }

    /// Returns the rate of that name, if any qdisc uses it.
    pub fn find(&self, name: &Name) -> Option<Arc<SharedRate>> {
        self.entries.get(name)?.shared.upgrade()
    }

    /// Iterates over the names in use, in order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.entries.iter().filter(|(_, e)| e.shared.strong_count() > 0).map(|(name, _)| name)
    }

    /// True if any qdisc of a tree names a rate.
    pub fn named(tree: &Tree) -> bool {
        let mut any = false;
        each(tree, &mut |_, _| any = true);
        any
    }

    /// Checks that `trees` could be joined in the place of `present`, the trees that they are made
    /// from (possibly the same trees).
    ///
    /// # Errors
    /// Names the first qdisc whose rate or burst is not that of others with the same name.
    pub fn check(&self, trees: &[&Tree], present: &[&Tree]) -> Result<(), ConfigError> {
        self.wishes(trees, present).map(|_| ())
    }

    /// Returns the rates that `trees` name, to join them to. A name that only these trees use gets
    /// the rate and the burst that they give, at once for all of them. Until they have joined, each
    /// shapes alone.
    ///
    /// # Errors
    /// As `check`; on an error nothing has changed.
    pub fn agree(&mut self, trees: &[&Tree]) -> Result<Agreed, ConfigError> {
        let mut agreed = Agreed::default();
        for (name, Wish { rate, burst, .. }) in self.wishes(trees, trees)? {
            let shared = self.find(&name).filter(|shared| {
                let same = self.entries.get(&name).is_some_and(|e| (e.rate, e.burst) == (rate, burst));
                same || shared.set(rate, burst)
            });
            let shared = shared.unwrap_or_else(|| Arc::new(SharedRate::new(rate, burst)));
            self.entries.insert(name.clone(), Entry { shared: Arc::downgrade(&shared), rate, burst });
            agreed.rates.insert(name, shared);
        }
        self.entries.retain(|_, entry| entry.shared.strong_count() > 0);
        Ok(agreed)
    }

    /// Joins every qdisc of one tree that names a rate.
    ///
    /// # Errors
    /// As `check`; on an error nothing has changed.
    pub fn join(&mut self, tree: &mut Tree) -> Result<(), ConfigError> {
        self.agree(&[tree])?.join(tree);
        Ok(())
    }

    /// Returns the rates that `trees` want, by name, checked against one another and against the
    /// other users of the name.
    fn wishes(&self, trees: &[&Tree], present: &[&Tree]) -> Result<BTreeMap<Name, Wish>, ConfigError> {
        let mut wishes: BTreeMap<Name, Wish> = BTreeMap::new();
        let mut refused = None;
        for tree in trees {
            each(tree, &mut |handle, share| {
                let wish = Wish { rate: share.rate, burst: share.burst, joined: 0 };
                let first = wishes.entry(share.name.clone()).or_insert(wish);
                if (first.rate, first.burst) != (share.rate, share.burst) {
                    refused = refused.take().or(Some(conflict(handle, &share, first.rate, first.burst)));
                }
            });
        }
        for tree in present {
            each(tree, &mut |_, share| {
                let shared = self.find(share.name);
                let joined = shared.is_some_and(|shared| Arc::ptr_eq(&shared, share.lease.shared()));
                if let Some(wish) = wishes.get_mut(share.name).filter(|_| joined) {
                    wish.joined += 1;
                }
            });
        }
        // Others use these names with other values; the error is about the first qdisc of them.
        let taken = |name: &Name, wish: &Wish| {
            let (shared, entry) = (self.find(name)?, self.entries.get(name)?);
            let others = shared.queues() > wish.joined;
            let differ = (entry.rate, entry.burst) != (wish.rate, wish.burst);
            (others && differ).then_some((entry.rate, entry.burst))
        };
        let taken: BTreeMap<&Name, (Rate, Bytes)> =
            wishes.iter().filter_map(|(name, wish)| Some((name, taken(name, wish)?))).collect();
        if refused.is_none() && !taken.is_empty() {
            for tree in trees {
                each(tree, &mut |handle, share| {
                    if let Some((rate, burst)) = taken.get(share.name).filter(|_| refused.is_none()) {
                        refused = Some(conflict(handle, &share, *rate, *burst));
                    }
                });
            }
        }
        refused.map_or(Ok(wishes), Err)
    }
}

fn conflict(handle: Handle, share: &Share<'_>, rate: Rate, burst: Bytes) -> ConfigError {
    let said = |rate: Rate, burst: Bytes| -> String {
        format!("rate {} and a bucket of {} bytes", text_of(&rate), burst.0)
    };
    let object = match share.minor {
        0 => Object::Qdisc(Some(handle)),
        minor => Object::Class(Some(Handle::new(handle.major(), minor))),
    };
    let expected = format!("{}, as others have that share {}", said(rate, burst), share.name.as_str());
    let err = ConfigError::new(ErrorKind::Conflict, object, expected, said(share.rate, share.burst));
    err.key("shared").reason(Reason::SharedRate).hint("change all of them in one step, or take another name")
}

fn each(tree: &Tree, f: &mut dyn FnMut(Handle, Share<'_>)) {
    tree.visit(&mut |_, node| node.qdisc().shares(&mut |share| f(node.handle(), share)));
}

/// Joins a qdisc and those below; no deeper than `route::DEPTH_MAX`.
fn join_below(node: &mut Node, rates: &BTreeMap<Name, Arc<SharedRate>>, depth: usize) {
    let mut due = Vec::new();
    node.qdisc().shares(&mut |share| {
        let shared = rates.get(share.name).filter(|shared| !Arc::ptr_eq(shared, share.lease.shared()));
        // No thread changes the rate now, so `Lease::join` refuses none.
        due.extend(
            shared.and_then(|shared| Lease::join(Arc::clone(shared))).map(|lease| (share.minor, lease)),
        );
    });
    for (minor, lease) in due {
        node.qdisc_mut().share(minor, lease);
    }
    if depth < crate::packet::route::DEPTH_MAX {
        for class in node.qdisc_mut().classes_mut() {
            join_below(&mut class.node, rates, depth + 1);
        }
    }
}
