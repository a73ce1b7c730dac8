//! Rates that qdiscs of several trees share by name (`tbf ... shared NAME`): who has joined which.
//!
//! A qdisc is made with the name alone, and a rate of its own: alone in a tree that nobody joins it shapes to the whole of it.
//! Whoever owns the trees, of one device or of all, keeps one [`SharedRates`] and calls [`SharedRates::join`] for those that
//! a command has made or changed; where several are changed together, [`SharedRates::agree`], and [`Agreed::join`] for each. The
//! first to use a name makes its rate, the last to let go of it takes it away. What is refused had better be asked for first
//! ([`SharedRates::check`], of copies): a qdisc whose rate others do not have stays alone. This is for the control
//! plane: where threads have trees of their own, whoever lets them change those keeps it behind a lock.

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
    /// Joins the qdiscs of a tree: one of those that have agreed.
    pub fn join(&self, tree: &mut Tree) {
        join_below(tree.root_mut(), &self.rates, 0);
    }
}

/// What the trees in question say of a name.
struct Wish {
    name: Name,
    rate: Rate,
    burst: Bytes,
    /// How many of them have joined the rate of that name.
    joined: u32,
}

impl SharedRates {
    /// None.
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new() }
    }

    /// The rate of that name, if anybody uses it.
    pub fn find(&self, name: &Name) -> Option<Arc<SharedRate>> {
        self.entries.get(name)?.shared.upgrade()
    }

    /// The names in use, in order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.entries.iter().filter(|(_, e)| e.shared.strong_count() > 0).map(|(name, _)| name)
    }

    /// Whether any qdisc of a tree names a rate.
    pub fn named(tree: &Tree) -> bool {
        let mut any = false;
        each(tree, &mut |_, _| any = true);
        any
    }

    /// Whether `trees` could be joined in the place of `present`, those that they are made from (which may be they themselves).
    ///
    /// # Errors
    /// Names the first qdisc whose rate or burst is not that of others with the same name.
    pub fn check(&self, trees: &[&Tree], present: &[&Tree]) -> Result<(), ConfigError> {
        self.wishes(trees, present).map(|_| ())
    }

    /// The rates that `trees` name, to join them to: of a name that only these trees use, with the rate and the burst that
    /// they say, at once for all of them. Until they have joined, each shapes alone.
    ///
    /// # Errors
    /// As `check`; then nothing has changed.
    pub fn agree(&mut self, trees: &[&Tree]) -> Result<Agreed, ConfigError> {
        let mut agreed = Agreed::default();
        for Wish { name, rate, burst, .. } in self.wishes(trees, trees)? {
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
    /// As `check`; then nothing has changed.
    pub fn join(&mut self, tree: &mut Tree) -> Result<(), ConfigError> {
        self.agree(&[tree])?.join(tree);
        Ok(())
    }

    /// What `trees` want, each name once, checked against one another and against who else uses the name.
    fn wishes(&self, trees: &[&Tree], present: &[&Tree]) -> Result<Vec<Wish>, ConfigError> {
        let mut wishes: Vec<Wish> = Vec::new();
        let mut refused = None;
        for tree in trees {
            each(tree, &mut |handle, share| match wishes.iter().find(|w| w.name == *share.name) {
                Some(w) if (w.rate, w.burst) != (share.rate, share.burst) => {
                    refused = refused.take().or(Some(conflict(handle, &share, w.rate, w.burst)));
                }
                Some(_) => {}
                None => {
                    let (name, rate, burst) = (share.name.clone(), share.rate, share.burst);
                    wishes.push(Wish { name, rate, burst, joined: 0 });
                }
            });
        }
        for tree in present {
            each(tree, &mut |_, share| {
                let shared = self.find(share.name);
                let joined = shared.is_some_and(|shared| Arc::ptr_eq(&shared, share.lease.shared()));
                if let Some(wish) = wishes.iter_mut().find(|w| w.name == *share.name && joined) {
                    wish.joined += 1;
                }
            });
        }
        for wish in &wishes {
            let Some(shared) = self.find(&wish.name) else { continue };
            let Some(entry) = self.entries.get(&wish.name) else { continue };
            if shared.queues() > wish.joined && (entry.rate, entry.burst) != (wish.rate, wish.burst) {
                // The first that names it.
                for tree in trees {
                    each(tree, &mut |handle, share| {
                        if *share.name == wish.name && refused.is_none() {
                            refused = Some(conflict(handle, &share, entry.rate, entry.burst));
                        }
                    });
                }
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

/// Joins a qdisc and those below; no deeper than `tree::DEPTH_MAX`.
fn join_below(node: &mut Node, rates: &BTreeMap<Name, Arc<SharedRate>>, depth: usize) {
    let mut due = Vec::new();
    node.qdisc().shares(&mut |share| {
        let shared = rates.get(share.name).filter(|shared| !Arc::ptr_eq(shared, share.lease.shared()));
        // Nobody changes it now, so that none is refused.
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
