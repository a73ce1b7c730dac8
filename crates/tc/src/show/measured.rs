//! The numbers of qdiscs, classes and their parts one by one, for a program that collects them: the
//! numbers that `tc -s -j` prints, from the same declarations.

use txweir_core::path::trees::Trees;
use txweir_core::sched::classful::ClassShown;
use txweir_core::sched::node::{Books, Node};
use txweir_core::text::params::Shown;
use txweir_core::text::stats::{Counter, Counters as _};
use txweir_core::text::value::{Json, Quantity};
use txweir_core::{Handle, Reasons};

use super::class::{Seen, What, each};
use super::{Form, handle_text, own_counters, queues, shown};
use crate::json::Object;

txweir_core::stats! {
    /// The counters that tc prints of every qdisc and class.
    pub struct Usual {
        /// Bytes that left it.
        bytes: u64 [of(Bytes)],
        /// Packets that left it; a super-frame counts as its segments.
        packets: u64,
        /// Packets dropped in it or below.
        drops: u64,
        /// Times that a packet had to wait for tokens, or that a law marked or dropped one.
        overlimits: u64,
        /// Always 0: no packet is put back.
        requeues: u64,
        /// Bytes that wait in it and below.
        backlog: u64 [falls][of(Bytes)],
        /// Packets that wait in it and below.
        qlen: u64 [falls],
    }
}

impl From<&Books> for Usual {
    /// Returns them as tc prints them: a packet that a peek has taken out counts as sent.
    fn from(b: &Books) -> Self {
        Self {
            bytes: b.sent.bytes + b.peeked.bytes,
            packets: b.sent_segs + b.peeked_segs,
            drops: b.dropped.packets,
            overlimits: b.overlimits,
            requeues: 0,
            backlog: b.queued.bytes,
            qlen: b.queued.packets,
        }
    }
}

impl From<&ClassShown<'_>> for Usual {
    fn from(class: &ClassShown<'_>) -> Self {
        Self {
            bytes: class.sent.bytes,
            packets: class.sent_segs,
            drops: class.drops,
            overlimits: class.overlimits,
            requeues: 0,
            backlog: class.backlog.bytes,
            qlen: class.backlog.packets,
        }
    }
}

impl Usual {
    /// Adds them to an object of JSON.
    pub(super) fn members(&self, o: Object) -> Object {
        let mut o = Some(o);
        self.visit(&mut |counter, n| o = o.take().map(|o| o.uint(counter.key, n)));
        o.unwrap_or_default()
    }
}

/// A qdisc, or a class, whose numbers are visited.
#[derive(Debug)]
pub struct Measured<'a> {
    /// The handle of the qdisc, [`Handle::NONE`] for a default one, or the number of the class.
    pub at: Handle,
    /// The kind of qdisc; a class has that of its qdisc.
    pub kind: &'static str,
    /// The qdisc as tc prints its handle, `0:` for a default one.
    pub qdisc: String,
    /// The class or `root` of a qdisc; the parent of a class if it is one, else empty.
    pub parent: String,
    /// The class, if this is one.
    pub class: Option<String>,
    /// The counters that each has.
    pub usual: Usual,
    /// The reasons of drops and marks, which qdiscs count.
    pub reasons: Option<Reasons>,
    own: Own<'a>,
}

/// The source of the numbers of a kind.
#[derive(Clone, Copy)]
enum Own<'a> {
    Qdisc(&'a Node),
    Made(&'a Seen<'a>),
    None,
}

impl std::fmt::Debug for Own<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Qdisc(_) => "Qdisc",
            Self::Made(_) => "Made",
            Self::None => "None",
        })
    }
}

impl<'a> Own<'a> {
    const fn of_class(seen: &'a Seen<'a>) -> Self {
        if matches!(seen.what, What::Made(..)) { Self::Made(seen) } else { Self::None }
    }
    /// See `Measured::counters`.
    fn counters(self, f: &mut dyn FnMut(&'static Counter, i128)) {
        match self {
            Self::Qdisc(node) => own_counters(node.qdisc(), true, &mut |counter, n| f(counter, n.into())),
            Self::Made(Seen { what: What::Made(classes, class), .. }) => {
                let own = classes.class_spec().counters.iter().zip(class.values);
                own.for_each(|(counter, n)| f(counter, i128::from(*n)));
            }
            Self::Made(_) | Self::None => {}
        }
    }
}

impl Measured<'_> {
    /// Visits the counters of its kind, those included that tc leaves out while they are 0.
    pub fn counters(&self, f: &mut dyn FnMut(&'static Counter, i128)) {
        self.own.counters(f);
    }

    /// Visits the counters of its parts, as the tins of cake, by the names of these.
    pub fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {
        if let Own::Qdisc(node) = self.own {
            node.qdisc().parts(f);
        }
    }

    /// Visits the rates that are configured at it, bytes per second, by their keys.
    pub fn rates(&self, f: &mut dyn FnMut(&'static str, u64)) {
        let mut visit = |o: Shown<'_>| {
            if let (Quantity::Rate, Json::Uint(n)) = (o.param.quantity, o.value.json()) {
                f(o.param.key, n);
            }
        };
        match self.own {
            Own::Qdisc(node) => node.qdisc().options(&mut visit),
            Own::Made(Seen { what: What::Made(classes, class), .. }) => {
                classes.options(class.at.minor, &mut visit);
            }
            Own::Made(_) | Own::None => {}
        }
    }
}

/// Visits qdiscs and classes as `tc -s qdisc show` and `tc -s class show` list them, but no flows:
/// from the one with this number, counted from 0, at most `most` of them. Returns the number of the
/// next one, if there is one. A qdisc without a handle is left out, unless it is a root or that of
/// a transmit queue.
pub fn measure<'a>(
    trees: impl Into<Trees<'a>>,
    from: usize,
    most: usize,
    f: &mut dyn FnMut(&Measured<'_>),
) -> Option<usize> {
    let trees = trees.into();
    let end = from.saturating_add(most);
    let mut at = 0;
    let mut is_due = || {
        at += 1;
        (from..end).contains(&(at - 1))
    };
    let below = queues::below(&trees);
    shown(&trees, &Form::default(), &|_, _| true, &mut |place, node| {
        if is_due() {
            f(&Measured {
                at: node.handle(),
                kind: node.qdisc().spec().kind,
                qdisc: handle_text(node.handle()),
                parent: if place.depth == 0 { "root".to_owned() } else { place.parent.to_string() },
                class: None,
                usual: (&queues::books(node, &below)).into(),
                reasons: Some(queues::reasons(node, &below)),
                own: Own::Qdisc(node),
            });
        }
    });
    each(&trees, false, &mut |seen| {
        if is_due()
            && let Some(usual) = seen.usual()
        {
            f(&Measured {
                at: seen.id,
                kind: seen.owner.qdisc().spec().kind,
                qdisc: handle_text(seen.owner.handle()),
                parent: seen.parent().map_or_else(String::new, |parent| match parent {
                    Handle::ROOT => "root".to_owned(),
                    parent => parent.to_string(),
                }),
                class: Some(seen.id.to_string()),
                usual,
                reasons: None,
                own: Own::of_class(seen),
            });
        }
    });
    (at > end).then_some(end)
}

/// Visits the numbers of all qdiscs and classes, one by one: the handle of the qdisc or class, the
/// declaration of the number with its key, meaning and unit, the number. First come those of
/// [`Usual`], then those of the kind, also where tc leaves them out while they are 0. The order is
/// that of [`measure`]; a default root has the handle [`Handle::NONE`], and so have the default
/// qdiscs of transmit queues. A number may be negative only in classes, as the tokens of htb's are.
///
/// `trees` are those of a [`Tree`](txweir_core::Tree), as of `TxPath::tree`, or of a port
/// (`Port::trees`).
///
/// ```
/// use txweir_core::{Handle, Instant, Meta, NoDevice, PathConfig, TxPath};
/// use txweir_tc::show::measured::{counter, metrics};
///
/// let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("codel", &["limit", "7"])?;
/// let _ = path.submit(Instant::ZERO, "frame", Meta::new(1500), &mut NoDevice::new());
/// let mut page = String::new();
/// metrics(path.tree(), &mut |at, counter, n| page += &format!("{at} {} {n}\n", counter.key));
/// assert!(page.contains("8001: backlog 1500\n") && page.contains("8001: ecn_mark 0\n"), "{page}");
/// assert_eq!(counter(path.tree(), "8001:".parse()?, "qlen"), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn metrics<'a>(trees: impl Into<Trees<'a>>, f: &mut dyn FnMut(Handle, &'static Counter, i128)) {
    measure(trees, 0, usize::MAX, &mut |object| {
        object.usual.visit(&mut |counter, n| f(object.at, counter, n.into()));
        object.counters(&mut |counter, n| f(object.at, counter, n));
    });
}

/// Returns one number of a qdisc (`1:`), of a class (`1:10`), or of a root without a handle
/// ([`Handle::NONE`]) by its key, as [`metrics`] shows it; `None` if there is no such qdisc or
/// class, or it has no such number. The cost is a look at one qdisc; at all qdiscs for a class, or
/// where the root stands for those of queues.
pub fn counter<'a>(trees: impl Into<Trees<'a>>, at: Handle, key: &str) -> Option<i128> {
    let trees = trees.into();
    let mut found = None;
    let mut look = |usual: &Usual, own: Own<'_>| {
        let mut see = |counter: &Counter, n| {
            if counter.key == key {
                found.get_or_insert(n);
            }
        };
        usual.visit(&mut |counter, n| see(counter, n.into()));
        own.counters(&mut |counter, n| see(counter, n));
    };
    if at.minor() == 0 {
        let root = trees.root();
        let node = if at.is_none() { root.handle().is_none().then_some(root) } else { trees.qdisc(at) }?;
        look(&(&queues::books(node, &queues::below(&trees))).into(), Own::Qdisc(node));
    } else {
        each(&trees, false, &mut |seen| {
            if seen.id == at
                && let Some(usual) = seen.usual()
            {
                look(&usual, Own::of_class(seen));
            }
        });
    }
    found
}
