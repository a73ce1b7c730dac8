//! `Discipline`: what the author of a qdisc writes.

use core::fmt::Debug;

use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::Instant;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::route::Asked;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, Flows, MadeClasses, Shares};
use crate::sched::cx::Cx;
use crate::sched::node::Peek;
use crate::sched::spec::{Capacity, ClassShape, Flags, RefusedBy, Style};
use crate::text::error::ConfigError;
use crate::text::params::Params;
use crate::text::stats::{Counter, Counters};

/// What changing an option does to those not named (as tc behaves for the kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRule {
    /// They keep their values.
    Merge,
    /// They go back to their defaults.
    Replace,
}

/// Whether a kind asks filters, and where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtered {
    /// It asks none.
    #[default]
    No,
    /// At the qdisc.
    Qdisc,
    /// At the qdisc, and at each of its classes.
    Classes,
}

/// What the author of a qdisc writes: the algorithm. Parsing, printing, packet counting, peeking, dropping
/// and tracing are done around it, once for all kinds.
pub trait Discipline: Debug + Send + Sync + Sized + 'static {
    /// The tc word.
    const KIND: &'static str;
    /// One sentence.
    const ABOUT: &'static str;
    /// What it does to packets.
    const FLAGS: Flags;
    /// Its classes.
    const SHAPE: ClassShape = ClassShape::Leaf;
    /// What a change does to options not named.
    const CHANGE: ChangeRule = ChangeRule::Merge;
    /// True if it looks at the class that a packet names in it. If not, nobody works it out.
    const TAKES_CLASS: bool = Self::SHAPE.is_classful();
    /// True if it stands at the root of a device only: its classes are the device's transmit queues.
    const ROOT_ONLY: bool = false;
    /// Where filters can be put: at it, and at its classes.
    const FILTERS: Filtered = Filtered::No;
    /// Its classes, if they have qdiscs of their own: `capability!()`.
    const CLASSES: Option<Capability<Self, dyn Classes>> = None;
    /// Its classes, if commands make or change them: `Some(MadeClasses::of())`.
    const MADE: Option<MadeClasses<Self>> = None;
    /// The rates that it, or its classes, share by a name: `capability!()`.
    const SHARES: Option<Capability<Self, dyn Shares>> = None;
    /// The most that waits in it.
    const CAPACITY: Capacity = Capacity::KEY;
    /// How tc prints it, beyond its parameters and counters.
    const STYLE: Style = Style::PLAIN;
    /// The program that refuses options of it, where that is not as for most kinds.
    const REFUSED_BY: RefusedBy = |_, _| None;
    /// True if Linux has the kind.
    const IN_LINUX: bool = true;
    /// The parameter that, while it is set, may have it ask for copies of packets. Of all qdiscs in a tree that emulate a
    /// link the one that copies must be the only one, so that copies are not copied again, here or further on.
    const COPIES: Option<&'static str> = None;
    /// True if it wants to know more of a packet than its metadata (`crate::packet::detail`).
    const WANTS_DETAIL: bool = false;
    /// True if it may send TCP control segments (`Meta::tcp_control`) before other packets of their flows that came earlier.
    const CONTROL_FIRST: bool = false;
    /// The share of what leaves that its parameters give to TCP control segments in a band before it
    /// (`crate::sched::node::BAND_PACKETS`); `None`: they ask for no band.
    const BAND: fn(&Self::Config) -> Option<Percent> = |_| None;
    /// The counters of each of its `parts`, if it has any: the table of a `stats!`.
    const PARTS: &'static [Counter] = &[];
    /// Its parameters, from `params!`.
    type Config: Params;
    /// What `resolve` makes of the parameters for `new` and `change`, beyond the parameters themselves: the law that they
    /// choose. `()` if there is nothing.
    type Rules;
    /// Its counters, from `stats!`.
    type Stats: Counters;

    /// Brings parameters that can be said in several ways to one form, and refuses those that contradict each
    /// other, or (with `old`, the present ones) cannot be changed while running. After it nothing can fail.
    ///
    /// # Errors
    /// The parameters do not go together.
    fn resolve(
        cfg: &mut Self::Config,
        old: Option<&Self::Config>,
        env: &Env,
    ) -> Result<Self::Rules, ConfigError>;
    /// Makes one from resolved parameters. All memory it will need is taken here.
    fn new(cfg: &Self::Config, rules: Self::Rules, env: &Env) -> Self;
    /// It is part of a tree from `now` on: what it does at times of its own, packets or not, counts from here. A kind that
    /// is never told counts from zero.
    fn start(&mut self, _now: Instant) {}
    /// Takes new, resolved parameters; may drop packets to obey them. Not called while `Cx::swapping` if nothing
    /// changes.
    fn change(&mut self, cfg: &Self::Config, rules: Self::Rules, env: &Env, cx: &mut Cx);
    /// Whether this packet would be queued without a drop.
    fn admit(&self, m: &Asked<'_>, class: Option<ClassId>) -> Verdict;
    /// Takes the packet: queues it, hands it to a child, or drops it (or others) through `cx`.
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx);
    /// Queues the packet, if that is all there is to do: nobody else is asked, nothing is dropped. Otherwise gives it back,
    /// for `enqueue`. Where most packets go this way, the node is spared to look what else has happened.
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, _pool: &mut Pool) -> Option<Pkt> {
        Some(p)
    }
    /// Gives the next packet. It must leave now: the device has promised a slot.
    fn dequeue(&mut self, cx: &mut Cx) -> Next;
    /// The packet that `dequeue` would give, and without a drop, if that can be told without taking it; `None` if not, or
    /// if there is none. A kind that tells it leaves `peek` as it is.
    fn head<'a>(&self, _pool: &'a Pool) -> Option<Waiting<'a>> {
        None
    }
    /// What `dequeue` would give, if that can be told without taking a packet out of here; `None` if not: then the node
    /// takes it out and holds it. A kind with classes asks those.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        self.head(&cx.pool).map(|w| Peek::Ready { wire_len: w.meta.wire_len, segs: w.meta.segs })
    }
    /// A packet that it gave is held by a peek and has not left: a limit on what waits counts it. Or it is no longer.
    fn holding(&mut self, _held: bool) {}
    /// Hands out every packet that waits in here, to the back of `out`, in the order in which `queued` shows them. What
    /// waits in its classes is not its own. Everything else stays as it is: what a law remembers, tokens, counters.
    fn drain(&mut self, out: &mut List, pool: &mut Pool);
    /// Shows every packet that `drain` would hand out; packets of one flow in their order.
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>));
    /// Forgets everything but parameters and counters: it is then like new. Nothing is queued, here or below.
    fn reset(&mut self, cx: &mut Cx);
    /// True if a packet of `wire_len` bytes that came now, with nothing queued, would leave at once and leave no
    /// trace in here: then it may go to the device directly. Asked by its size alone, because a reference to
    /// metadata that is still in registers would cost more than the rest of the direct path.
    fn transparent(&self, _wire_len: u32) -> bool {
        false
    }
    /// Its counters.
    fn stats(&self) -> Self::Stats;
    /// The flows, or other parts without qdiscs, that it keeps apart: `Some(self)` where it does.
    fn as_flows(&self) -> Option<&dyn Flows> {
        None
    }
}
