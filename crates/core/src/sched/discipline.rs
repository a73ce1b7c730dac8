//! `Discipline`: what the author of a qdisc writes.

use core::fmt::Debug;

use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool};
use crate::packet::route::{Asked, Found, Said};
use crate::sched::answer::{Next, Verdict};
use crate::sched::classful::{ClassSpec, UserClasses};
use crate::sched::cx::Cx;
use crate::sched::node::{Class, Node, Peek};
use crate::sched::share::Share;
use crate::sched::spec::{ClassShape, Flags, Limit, RefusedBy, Style};
use crate::text::error::ConfigError;
use crate::text::params::Params;
use crate::text::stats::{Counter, Counters};

/// A flow that a kind keeps inside, as `tc -s class show` lists it: a class without a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowShown<'a> {
    /// Its minor number: the class that a packet names to be put into it. 65 536 has no name in 16 bits.
    pub minor: u32,
    /// Packets and bytes that wait in it.
    pub backlog: Tally,
    /// What is known of it, by tc's words and in tc's units: times are microseconds, truths are 0 and 1.
    pub values: &'a [(&'static str, i64)],
}

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
    /// What is declared of its classes, if commands make or change them: `Some(&ClassSpec::of::<Self>())`.
    const CLASSES: Option<&'static ClassSpec> = None;
    /// The most that waits in it.
    const LIMIT: Limit = Limit::KEY;
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
    /// What it makes of what its filters have found: this class, or nothing (`None`), at a qdisc with this handle. The default
    /// takes the class's minor number, whatever its major, and without one goes by what it goes by otherwise.
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found {
        Found::Said(class.map_or(Said::Nothing, |c| Said::Class(Handle::new(own.major(), c.minor()))))
    }
    /// The class that a packet would wait in, if it has a qdisc; the default is that of kinds with one class.
    fn select(&self, _m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.classes().first()
    }
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
    fn head<'a>(&self, _pool: &'a Pool) -> Option<&'a Meta> {
        None
    }
    /// What `dequeue` would give, if that can be told without taking a packet out of here; `None` if not: then the node
    /// takes it out and holds it. A kind with classes asks those.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        self.head(&cx.pool).map(|m| Peek::Ready { wire_len: m.wire_len, segs: m.segs })
    }
    /// A packet that it gave is held by a peek and has not left: a limit on what waits counts it. Or it is no longer.
    fn holding(&mut self, _held: bool) {}
    /// Hands out every packet that waits in here, to the back of `out`, in the order in which `queued` shows them. What
    /// waits in its classes is not its own. Everything else stays as it is: what a law remembers, tokens, counters.
    fn drain(&mut self, out: &mut List, pool: &mut Pool);
    /// Shows every packet that `drain` would hand out; packets of one flow in their order.
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(&Meta));
    /// Forgets everything but parameters and counters: it is then like new. Nothing is queued, here or below.
    fn reset(&mut self, cx: &mut Cx);
    /// True if a packet of `wire_len` bytes that came now, with nothing queued, would leave at once and leave no
    /// trace in here: then it may go to the device directly. Asked by its size alone, because a reference to
    /// metadata that is still in registers would cost more than the rest of the direct path.
    fn transparent(&self, _wire_len: u32) -> bool {
        false
    }
    /// Brings its parameters up to date, where commands to its classes change them.
    fn refresh(&self, _cfg: &mut Self::Config) {}
    /// Its counters.
    fn stats(&self) -> Self::Stats;
    /// Shows the counters of `PARTS` that it keeps apart for each of its parts, part after part, each by its name.
    fn parts(&self, _f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {}
    /// Its classes that have a qdisc. A slot with minor 0 is vacant.
    fn classes(&self) -> &[Class] {
        &[]
    }
    /// The same, to graft into.
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut []
    }
    /// Its classes, if commands make or change them: `Some(self)` where `CLASSES` is.
    fn user_classes(&self) -> Option<&dyn UserClasses> {
        None
    }
    /// The same, to change.
    fn user_classes_mut(&mut self) -> Option<&mut dyn UserClasses> {
        None
    }
    /// Shows the rates that it shares, or its classes share, by a name (`crate::path::rates`).
    fn shares(&self, _f: &mut dyn FnMut(Share<'_>)) {}
    /// Shares a rate from now on, it itself (`minor` 0) or one of its classes, of those that `shares` shows.
    fn share(&mut self, _minor: u16, _lease: Lease) {}
    /// Shows the flows that it keeps apart from one another, those only in which something waits or whose turn comes.
    fn flows(&self, _pool: &Pool, _f: &mut dyn FnMut(FlowShown<'_>)) {}
    /// What a class has when nothing is grafted: at creation, and after a delete. `None` stands for pfifo with the length of
    /// the device's queue.
    fn default_child(_cfg: &Self::Config, _env: &Env) -> Option<Node> {
        None
    }
}
