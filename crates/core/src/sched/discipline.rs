//! `Discipline`: the trait that the author of a qdisc implements.

use core::fmt::Debug;

use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, Flows, MadeClasses, Shares};
use crate::sched::cx::Cx;
use crate::sched::node::Peek;
use crate::sched::share::Wanted;
use crate::sched::spec::{Capacity, ClassShape, Flags, RefusedBy, Style};
use crate::text::error::ConfigError;
use crate::text::params::Params;
use crate::text::stats::{Counter, Counters};

/// Effect of a change of options on those not named (as tc behaves for the kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRule {
    /// They keep their values.
    Merge,
    /// They go back to their defaults.
    Replace,
}

/// Use of filters by a kind, and the places where they can be bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtered {
    /// The kind uses no filters.
    #[default]
    No,
    /// At the qdisc.
    Qdisc,
    /// At the qdisc, and at each of its classes.
    Classes,
}

/// The algorithm of a qdisc, for its author to implement. Parsing, printing, packet counting,
/// peeking, dropping and tracing are done around it, once for all kinds.
pub trait Discipline: Debug + Send + Sync + Sized + 'static {
    /// The tc word.
    const KIND: &'static str;
    /// Description, in one sentence.
    const ABOUT: &'static str;
    /// Its effects on packets.
    const FLAGS: Flags;
    /// Shape of its classes.
    const SHAPE: ClassShape = ClassShape::Leaf;
    /// Effect of a change on options not named.
    const CHANGE: ChangeRule = ChangeRule::Merge;
    /// True if it looks at the class that a packet names in it. If not, the engine does not compute
    /// it.
    const TAKES_CLASS: bool = Self::SHAPE.is_classful();
    /// True if it stands at the root of a device only: its classes are the device's transmit
    /// queues.
    const ROOT_ONLY: bool = false;
    /// True if the qdiscs of its classes are part of it: no command replaces or changes one of
    /// them, and a change of it concerns all of them.
    const FIXED: bool = false;
    /// Places where filters can be bound: at it, and at its classes.
    const FILTERS: Filtered = Filtered::No;
    /// Its classes, if they have qdiscs of their own: `capability!()`.
    const CLASSES: Option<Capability<Self, dyn Classes>> = None;
    /// Its classes, if commands make or change them: `Some(MadeClasses::of())`.
    const MADE: Option<MadeClasses<Self>> = None;
    /// The rates that it, or its classes, share by a name: `capability!()`.
    const SHARES: Option<Capability<Self, dyn Shares>> = None;
    /// The rate that it asks to share with these parameters.
    const WANTS: fn(&Self::Config) -> Option<Wanted> = |_| None;
    /// Most packets or bytes that wait in it.
    const CAPACITY: Capacity = Capacity::KEY;
    /// Style in which tc prints it, beyond its parameters and counters.
    const STYLE: Style = Style::PLAIN;
    /// The program that refuses its options, if it is another one than for most kinds.
    const REFUSED_BY: RefusedBy = |_, _| None;
    /// True if Linux has the kind.
    const IN_LINUX: bool = true;
    /// The parameter that, while it is set, lets it request copies of packets. A qdisc that copies
    /// must be the only one of its kind in a tree, so that copies are not copied again, here or
    /// further on.
    const COPIES: Option<&'static str> = None;
    /// True if it needs more of a packet than its metadata (`crate::packet::detail`).
    const WANTS_DETAIL: bool = false;
    /// True if it implements `enqueue_quietly`.
    const QUIET: bool = false;
    /// True if it may send TCP control segments (`Meta::tcp_control`) before earlier packets of
    /// their flows.
    const CONTROL_FIRST: bool = false;
    /// Share of the departures that its parameters give to TCP control segments in a band before it
    /// (`crate::sched::node::BAND_PACKETS`); `None`: they ask for no band.
    const BAND: fn(&Self::Config) -> Option<Percent> = |_| None;
    /// Bytes of the tables that `new` allocates for these parameters, beside the qdisc itself: at
    /// least those, and not many times as many.
    const TABLES: fn(&Self::Config, &Env) -> u64 = |_, _| 0;
    /// The counters of each of its `parts`, if it has any: the table of a `stats!`.
    const PARTS: &'static [Counter] = &[];
    /// Its parameters, from `params!`.
    type Config: Params;
    /// Result of `resolve` for `new` and `change`, beyond the parameters themselves: the law that
    /// they choose. `()` if there is nothing.
    type Rules;
    /// Its counters, from `stats!`.
    type Stats: Counters;

    /// Brings parameters that can be written in several ways to one form, and refuses those that
    /// contradict each other, or (with `old`, the present ones) cannot be changed while running.
    /// After it nothing can fail.
    ///
    /// # Errors
    /// The parameters contradict each other, or cannot be changed.
    fn resolve(
        cfg: &mut Self::Config,
        old: Option<&Self::Config>,
        env: &Env,
    ) -> Result<Self::Rules, ConfigError>;
    /// Makes a qdisc from resolved parameters. All memory that it will need is allocated here.
    fn new(cfg: &Self::Config, rules: Self::Rules, env: &Env) -> Self;
    /// Tells the qdisc that it is part of a tree from `now` on. Periodic work counts from here. A
    /// kind that is never told counts from zero.
    fn start(&mut self, _now: Instant) {}
    /// Takes new, resolved parameters; may drop packets to comply with them. Not called while
    /// `Cx::swapping` if nothing changes.
    fn change(&mut self, cfg: &Self::Config, rules: Self::Rules, env: &Env, cx: &mut Cx);
    /// Returns whether this packet would be queued without a drop.
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict;
    /// Takes the packet: queues it, hands it to a child, or drops it (or others) through `cx`.
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx);
    /// Queues the packet, if that is the whole effect: no other qdisc is called and nothing is
    /// dropped. Otherwise returns the packet, for `enqueue`. If most packets take this path, the
    /// node saves the check for other effects. It is called if `QUIET` says so.
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, _pool: &mut Pool) -> Option<Pkt> {
        Some(p)
    }
    /// Asks for memory (`txweir_ahead`) that the packet, which comes soon, will touch when it is
    /// queued. Step 0 asks for what is known from the packet alone, each further step for what the
    /// memory of the one before leads to. Returns true if there is another step. Without an effect
    /// but on time, and not called for kinds with classes, whose classes are asked instead.
    #[inline]
    fn expect(&self, _m: &Meta, _class: Option<ClassId>, _step: u32, _pool: &Pool) -> bool {
        false
    }
    /// Returns the next packet. It must leave now: the device has promised a slot.
    fn dequeue(&mut self, cx: &mut Cx) -> Next;
    /// Returns the packet that `dequeue` would return without a drop, if that is known without
    /// taking it; `None` if not, or if there is none. A kind that implements this keeps the default
    /// `peek`.
    fn head<'a>(&self, _pool: &'a Pool) -> Option<Waiting<'a>> {
        None
    }
    /// Returns the answer that `dequeue` would give, if that is known without taking a packet out;
    /// `None` if not: then the node takes the packet out and holds it. A kind with classes peeks
    /// into those.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        self.head(&cx.pool).map(|w| Peek::Ready { wire_len: w.meta.wire_len, segs: w.meta.segs })
    }
    /// Tells the qdisc whether a peek holds a packet that it returned and that has not left: a
    /// limit on waiting packets counts it.
    fn holding(&mut self, _held: bool) {}
    /// Moves every packet that waits in it to the back of `out`, in the order in which `queued`
    /// shows them. Packets in its classes are not its own. Everything else stays unchanged: the
    /// state of a law, tokens, counters.
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool);
    /// Calls `f` on every packet that `evict_all` would move; packets of one flow in their order.
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>));
    /// Forgets everything but parameters and counters, as if new. Nothing is queued, here or below.
    fn reset(&mut self, cx: &mut Cx);
    /// True if a packet of `wire_len` bytes that came now, with nothing queued, would leave at once
    /// and leave no trace in here: then it may go to the device directly. The size is the only
    /// argument, because a reference to metadata that is still in registers would cost more than
    /// the rest of the direct path.
    fn transparent(&self, _wire_len: u32) -> bool {
        false
    }
    /// Returns its counters.
    fn stats(&self) -> Self::Stats;
    /// Returns the flows, or other parts without qdiscs, that it keeps apart: `Some(self)` if it
    /// has any.
    fn as_flows(&self) -> Option<&dyn Flows> {
        None
    }
}
