//! `SharedRates`: rates that qdiscs of several trees share by name (`tbf ... shared NAME`).
//!
//! A qdisc is made with the name alone, and a rate of its own: until it is joined, it shapes to the
//! whole of that rate. The owner of the trees, of one device or of all, keeps one [`SharedRates`].
//! It calls [`SharedRates::join`] for trees that a command has made or changed; where several are
//! changed together, [`SharedRates::agree`], and [`Agreed::join`] for each. The first qdisc that
//! uses a name makes its rate; the last one that lets go of it removes it. The owner checks a
//! change of whole trees on copies first ([`SharedRates::ask`]), because a qdisc with another rate
//! than the others of its name stays alone. A change of one object is checked and joined by itself,
//! at a cost that does not depend on the number of the others ([`Sharing`]). This is for the
//! control plane: where threads have trees of their own, the owner keeps this behind a lock.
//!
//! [`Sharing`]: crate::path::qdiscs::Sharing

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
use crate::sched::share::{Share, Wanted};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Name, text_of};

/// A name that is in use.
#[derive(Debug)]
struct Entry {
    shared: Weak<SharedRate>,
    rate: Rate,
    burst: Bytes,
    /// Number of users that have joined another set's rate of this name ([`SharedRates::apart`]).
    elsewhere: u32,
}

impl Entry {
    fn is_used(&self) -> bool {
        self.elsewhere > 0 || self.shared.strong_count() > 0
    }
    /// Returns the number of those that have joined.
    fn users(&self) -> u32 {
        let here = self.shared.upgrade().map_or(0, |shared| shared.queues());
        here.saturating_add(self.elsewhere)
    }
    fn is_of(&self, share: &Share<'_>) -> bool {
        core::ptr::eq(self.shared.as_ptr(), Arc::as_ptr(share.lease.shared()))
    }
}

/// Number of names from which on those out of use are looked for.
const SWEPT: usize = 16;

/// The rates that are shared, by name.
#[derive(Debug, Default)]
pub struct SharedRates {
    entries: BTreeMap<Name, Entry>,
    /// Number of names at which those out of use are forgotten: twice those in use at the last
    /// time, so that a new name costs no visit of all.
    sweep_at: usize,
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
#[derive(Debug)]
struct Wish {
    rate: Rate,
    burst: Bytes,
    /// Number of present users that are among the trees in question, or go.
    joined: u32,
}

/// The rates that trees ask for, until they are checked against the other users of the names:
/// [`SharedRates::ask`].
#[derive(Debug)]
pub struct Asked<'a> {
    rates: &'a SharedRates,
    wishes: BTreeMap<Name, Wish>,
}

impl Asked<'_> {
    /// Tells that the users in a present tree go, or are among those that ask.
    pub fn without(&mut self, present: &Tree) {
        each(present, &mut |_, share| {
            let joined = self.rates.entries.get(share.name).is_some_and(|entry| entry.is_of(&share));
            if let Some(wish) = self.wishes.get_mut(share.name).filter(|_| joined) {
                wish.joined += 1;
            }
        });
    }

    /// Refuses a rate or a burst that others use with other values; `trees` are those that ask.
    ///
    /// # Errors
    /// Names the first qdisc or class of `trees` with such a rate.
    pub fn check(&self, trees: &[&Tree]) -> Result<(), ConfigError> {
        let taken: BTreeMap<&Name, (Rate, Bytes)> =
            self.wishes.iter().filter_map(|(name, wish)| Some((name, self.taken(name, wish)?))).collect();
        if taken.is_empty() {
            return Ok(());
        }
        let mut refused = Ok(());
        for tree in trees {
            each(tree, &mut |handle, share| {
                if let Some((rate, burst)) = taken.get(share.name).filter(|_| refused.is_ok()) {
                    refused = Err(conflict(handle, &share, *rate, *burst));
                }
            });
        }
        refused
    }

    /// Returns the values that others use for a name, if they are not those of a wish.
    fn taken(&self, name: &Name, wish: &Wish) -> Option<(Rate, Bytes)> {
        let entry = self.rates.entries.get(name)?;
        let others = entry.users() > wish.joined;
        let differ = (entry.rate, entry.burst) != (wish.rate, wish.burst);
        (others && differ).then_some((entry.rate, entry.burst))
    }
}

impl SharedRates {
    /// Returns an empty set.
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new(), sweep_at: SWEPT }
    }

    /// Returns a set for rehearsals, which knows the users of this one and changes nothing for
    /// them.
    #[must_use]
    pub fn apart(&self) -> Self {
        let known = |entry: &Entry| Entry {
            shared: Weak::new(),
            rate: entry.rate,
            burst: entry.burst,
            elsewhere: entry.users(),
        };
        let used = self.entries.iter().filter(|(_, entry)| entry.is_used());
        Self { entries: used.map(|(name, e)| (name.clone(), known(e))).collect(), sweep_at: self.sweep_at }
    }

    /// Tells a set for rehearsals that the users in a tree are no longer users, because a copy of
    /// the tree has taken their places.
    pub fn leave(&mut self, tree: &Tree) {
        each(tree, &mut |_, share| {
            let entry = self.entries.get_mut(share.name);
            if let Some(entry) = entry.filter(|e| (e.rate, e.burst) == (share.rate, share.burst)) {
                entry.elsewhere = entry.elsewhere.saturating_sub(1);
            }
        });
    }

    /// Returns the rate of that name, if any qdisc uses it.
    pub fn find(&self, name: &Name) -> Option<Arc<SharedRate>> {
        self.entries.get(name)?.shared.upgrade()
    }

    /// Iterates over the names in use, in order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.entries.iter().filter(|(_, entry)| entry.is_used()).map(|(name, _)| name)
    }

    /// True if any qdisc of a tree names a rate.
    pub fn named(tree: &Tree) -> bool {
        let mut any = false;
        each(tree, &mut |_, _| any = true);
        any
    }

    /// Returns what `trees` ask for. Before it is checked, [`Asked::without`] takes those users out
    /// that the trees are made from.
    ///
    /// # Errors
    /// Names the first qdisc or class whose rate or burst is not that of another one of the same
    /// name in `trees`.
    pub fn ask(&self, trees: &[&Tree]) -> Result<Asked<'_>, ConfigError> {
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
        refused.map_or(Ok(Asked { rates: self, wishes }), Err)
    }

    /// Returns the rates that `trees` name, to join them to. A name that only these trees use gets
    /// the rate and the burst that they give, at once for all of them. Until they have joined, each
    /// shapes alone.
    ///
    /// # Errors
    /// As [`ask`](Self::ask) and [`Asked::check`]; on an error nothing has changed.
    pub fn agree(&mut self, trees: &[&Tree]) -> Result<Agreed, ConfigError> {
        let mut asked = self.ask(trees)?;
        trees.iter().for_each(|tree| asked.without(tree));
        asked.check(trees)?;
        Ok(self.rates_of(trees.iter().copied()))
    }

    /// Does the same for trees that are checked already.
    pub fn rates_of<'a>(&mut self, trees: impl IntoIterator<Item = &'a Tree>) -> Agreed {
        let mut agreed = Agreed::default();
        for tree in trees {
            each(tree, &mut |_, share| {
                if !agreed.rates.contains_key(share.name) {
                    agreed.rates.insert(share.name.clone(), self.rate_of(&share.wanted()));
                }
            });
        }
        agreed
    }

    /// Refuses what an object asks for, where others use the name with other values. `gone` calls
    /// its argument on the shares that go with the change: that of the object, and those of objects
    /// whose place it takes. `object` is the qdisc or the class.
    ///
    /// # Errors
    /// As [`Asked::check`].
    pub(super) fn admit(
        &self,
        object: Object,
        wanted: &Wanted,
        gone: impl FnOnce(&mut dyn FnMut(Share<'_>)),
    ) -> Result<(), ConfigError> {
        let Wanted { name, rate, burst } = wanted;
        let differs = |entry: &&Entry| (entry.rate, entry.burst) != (*rate, *burst);
        let Some(entry) = self.entries.get(name).filter(differs) else { return Ok(()) };
        let mut going = 0;
        gone(&mut |share| going += u32::from(entry.is_of(&share)));
        match entry.users() > going {
            true => Err(refusal(object, wanted, entry.rate, entry.burst)),
            false => Ok(()),
        }
    }

    /// Returns the rate of a name, made or changed if it is not as wanted: no other user of the
    /// name has other values.
    pub(super) fn rate_of(&mut self, wanted: &Wanted) -> Arc<SharedRate> {
        let Wanted { name, rate, burst } = wanted;
        let (rate, burst) = (*rate, *burst);
        let there = self.entries.get_mut(name);
        let shared = there.as_ref().and_then(|entry| entry.shared.upgrade()).filter(|shared| {
            let same = there.as_ref().is_some_and(|e| (e.rate, e.burst) == (rate, burst));
            same || shared.set(rate, burst)
        });
        let shared = shared.unwrap_or_else(|| Arc::new(SharedRate::new(rate, burst)));
        match there {
            Some(entry) => {
                (entry.shared, entry.rate, entry.burst) = (Arc::downgrade(&shared), rate, burst);
            }
            None => {
                self.sweep();
                let entry = Entry { shared: Arc::downgrade(&shared), rate, burst, elsewhere: 0 };
                self.entries.insert(name.clone(), entry);
            }
        }
        shared
    }

    /// Returns the rate of a name for all qdiscs of some trees that name it: see `rate_of`.
    pub(super) fn agreed_of(&mut self, wanted: &Wanted) -> Agreed {
        Agreed { rates: [(wanted.name.clone(), self.rate_of(wanted))].into() }
    }

    /// Forgets the names that are out of use, if there may be many of them.
    fn sweep(&mut self) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| entry.is_used());
            self.sweep_at = (self.entries.len() * 2).max(SWEPT);
        }
    }

    /// Joins every qdisc of one tree that names a rate.
    ///
    /// # Errors
    /// As `agree`; on an error nothing has changed.
    pub fn join(&mut self, tree: &mut Tree) -> Result<(), ConfigError> {
        self.agree(&[tree])?.join(tree);
        Ok(())
    }
}

fn conflict(handle: Handle, share: &Share<'_>, rate: Rate, burst: Bytes) -> ConfigError {
    let object = match share.minor {
        0 => Object::Qdisc(Some(handle)),
        minor => Object::Class(Some(Handle::new(handle.major(), minor))),
    };
    refusal(object, &share.wanted(), rate, burst)
}

fn refusal(object: Object, wanted: &Wanted, rate: Rate, burst: Bytes) -> ConfigError {
    let said = |rate: Rate, burst: Bytes| -> String {
        format!("rate {} and a bucket of {} bytes", text_of(&rate), burst.0)
    };
    let expected = format!("{}, as others have that share {}", said(rate, burst), wanted.name.as_str());
    let err = ConfigError::new(ErrorKind::Conflict, object, expected, said(wanted.rate, wanted.burst));
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
