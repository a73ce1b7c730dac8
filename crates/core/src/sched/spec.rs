//! `Spec`, a kind's entry in the registry, and the facts that a kind declares for code that knows
//! no particular kind.

use alloc::boxed::Box;

use crate::base::env::Env;
use crate::sched::classful::ClassSpec;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::erased::{Qdisc, Resolved, resolved};
use crate::text::error::ConfigError;
use crate::text::params::{Given, Param, Params, Shown, apply, each_given};
use crate::text::stats::{Counter, Counters};
use crate::text::value::Words;

/// Effects of a kind on packets, declared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// True if it may hold packets back although the device would take them (it answers `At`).
    pub shapes: bool,
    /// True if it may send packets of one flow in another order.
    pub reorders: bool,
}

/// The classes of a kind that have qdiscs of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassShape {
    /// None: packets wait in the qdisc itself.
    #[default]
    Leaf,
    /// One, number 1, which any other number names as well.
    One,
    /// As many as the value of the parameter `bands`, from number 1 on.
    Bands,
    /// Those that commands add.
    Made,
    /// One for each transmit queue of the device, from number 1 on.
    ByQueue,
}

impl ClassShape {
    /// True if there are classes.
    pub const fn is_classful(self) -> bool {
        !matches!(self, Self::Leaf)
    }
}

/// Most packets or bytes that wait in a qdisc of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The parameters that bound it, each a number of packets or bytes: the first that is set
    /// counts.
    pub keys: &'static [&'static str],
    /// The bound if none of them is set.
    pub unset: Unset,
}

/// The bound of a qdisc whose limit is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// This many packets.
    Packets(u32),
    /// This many times the length of the device's queue, in packets.
    Queues(u32),
}

impl Capacity {
    /// The parameter `limit`; the length of the device's queue if it is not set.
    pub const KEY: Self = Self { keys: &["limit"], unset: Unset::Queues(1) };
}

/// Style in which tc prints a kind, beyond its parameters and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// True if a blank ends the options.
    pub options_end_blank: bool,
    /// True if a blank ends the counters.
    pub counters_end_blank: bool,
    /// True if the counters are printed with the options, and not behind the counts of every qdisc.
    pub counters_in_options: bool,
    /// True if the default qdisc below is listed too, below the qdisc and not below its class.
    pub lists_child: bool,
}

impl Style {
    /// No special style.
    pub const PLAIN: Self = Self {
        options_end_blank: false,
        counters_end_blank: false,
        counters_in_options: false,
        lists_child: false,
    };
    /// A blank ends the options.
    pub const BLANK: Self = Self { options_end_blank: true, ..Self::PLAIN };
}

/// The program that refuses options: tc's own refusal ends it with another status than the
/// kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// tc, which prints its usage.
    Usage,
    /// tc.
    Tool,
    /// The kernel.
    Kernel,
}

/// Returns the refuser of options, by the error that the kind has for them and all its words.
/// `None` is the rule of most kinds: tc refuses words that it cannot read, and the kernel refuses
/// values that it does not take.
pub type RefusedBy = fn(&ConfigError, &[&str]) -> Option<Refuser>;

/// Reads the words after a kind.
type Read = fn(&mut Words<'_>, &Env) -> Result<Box<dyn Resolved>, ConfigError>;

/// Calls a function on the defaults on a device.
pub(crate) type ShowDefaults = fn(&Env, &mut dyn FnMut(Shown<'_>));

/// Calls a function on each key of a line: see [`each_given`].
pub(crate) type EachGiven = fn(&mut Words<'_>, &mut dyn FnMut(Given)) -> bool;

/// A kind of qdisc: its name, its declarations, and its constructor.
pub struct Spec {
    /// The tc word.
    pub kind: &'static str,
    /// Description, in one sentence.
    pub about: &'static str,
    /// Its effects on packets.
    pub flags: Flags,
    /// Shape of its classes.
    pub shape: ClassShape,
    /// True if it is for the root only: see `Discipline::ROOT_ONLY`.
    pub root_only: bool,
    /// True if the qdiscs of its classes are part of it: see `Discipline::FIXED`.
    pub fixed: bool,
    /// Its parameters.
    pub params: &'static [Param],
    /// The keys that tc takes once in a line.
    pub once: &'static [&'static str],
    /// The words that tc accepts abbreviated, in the order in which it tries them.
    pub cut: &'static [&'static str],
    /// The keys that Linux does not have.
    pub own: &'static [&'static str],
    /// True if Linux has the kind.
    pub in_linux: bool,
    /// Its counters.
    pub counters: &'static [Counter],
    /// Most packets or bytes that wait in it.
    pub capacity: Capacity,
    /// Style in which tc prints it.
    pub style: Style,
    /// The program that refuses its options.
    pub refused_by: RefusedBy,
    /// Places where filters can be bound.
    pub filters: Filtered,
    /// The declarations of its classes, if commands make or change them.
    pub classes: Option<&'static ClassSpec>,
    /// True if it may send TCP control segments before other packets of their flows.
    pub control_first: bool,
    /// The counters of each of its parts; empty if it has none.
    pub parts: &'static [Counter],
    read: Read,
    defaults: ShowDefaults,
    each_given: EachGiven,
}

impl Spec {
    /// Returns the entry of a kind.
    pub const fn of<D: Discipline>() -> Self {
        Self {
            kind: D::KIND,
            about: D::ABOUT,
            flags: D::FLAGS,
            shape: D::SHAPE,
            root_only: D::ROOT_ONLY,
            fixed: D::FIXED,
            params: D::Config::TABLE,
            once: D::Config::ONCE,
            cut: D::Config::CUT,
            own: D::Config::OWN,
            in_linux: D::IN_LINUX,
            counters: D::Stats::TABLE,
            capacity: D::CAPACITY,
            style: D::STYLE,
            refused_by: D::REFUSED_BY,
            filters: D::FILTERS,
            classes: match D::MADE {
                Some(made) => Some(made.spec),
                None => None,
            },
            control_first: D::CONTROL_FIRST,
            parts: D::PARTS,
            read: |words, env| {
                let mut cfg = D::Config::defaults(env);
                words.know_link_rate(env.link_rate);
                apply(&mut cfg, D::KIND, words)?;
                resolved::<D>(cfg, env)
            },
            defaults: |env, f| D::Config::defaults(env).visit(f),
            each_given: each_given::<D::Config>,
        }
    }

    /// Reads the words after the kind and checks them against all rules of the kind, without making
    /// a qdisc. Rates in percent refer to the environment's link rate, or to that of the words if
    /// the environment has none.
    ///
    /// # Errors
    /// The kind refuses them; it would also refuse them to a qdisc that is made.
    pub fn read(&self, words: &mut Words<'_>, env: &Env) -> Result<Box<dyn Resolved>, ConfigError> {
        (self.read)(words, env)
    }
    /// Makes a qdisc from the words after its kind: `read`, and then [`Resolved::make`].
    ///
    /// # Errors
    /// As `read`.
    pub fn build(&self, words: &mut Words<'_>, env: &Env) -> Result<Box<dyn Qdisc>, ConfigError> {
        Ok(self.read(words, env)?.make(env))
    }
    /// Calls `f` on every parameter with its default on a device.
    pub fn defaults(&self, env: &Env, f: &mut dyn FnMut(Shown<'_>)) {
        (self.defaults)(env, f);
    }
    /// Calls `f` on each key of a line with the words that belong to it: see [`each_given`].
    pub fn each_given(&self, words: &mut Words<'_>, f: &mut dyn FnMut(Given)) -> bool {
        (self.each_given)(words, f)
    }
}

impl core::fmt::Debug for Spec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Spec({})", self.kind)
    }
}
