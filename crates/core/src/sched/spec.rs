//! `Spec`, a kind's entry in the registry.

use alloc::boxed::Box;

use crate::base::env::Env;
use crate::sched::classful::ClassSpec;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::erased::{Erased, Qdisc};
use crate::text::error::ConfigError;
use crate::text::params::{Param, Params, apply};
use crate::text::stats::{Counter, Counters};
use crate::text::value::Words;

/// What a kind is and does, declared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It may hold packets back although the device would take them (it answers `At`).
    pub shapes: bool,
    /// It may send packets of one flow in another order.
    pub reorders: bool,
    /// It has classes with qdiscs of their own.
    pub classful: bool,
}

/// Makes a qdisc from the words after its kind.
type Build = fn(&mut Words<'_>, &Env) -> Result<Box<dyn Qdisc>, ConfigError>;

/// A kind of qdisc: its name, its declarations, and how to make one.
pub struct Spec {
    /// The tc word.
    pub kind: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// What it does to packets.
    pub flags: Flags,
    /// It is for the root only: see `Discipline::ROOT_ONLY`.
    pub root_only: bool,
    /// Its parameters.
    pub params: &'static [Param],
    /// Its counters.
    pub counters: &'static [Counter],
    /// Where filters can be put.
    pub filters: Filtered,
    /// What is declared of its classes, if commands make or change them.
    pub classes: Option<&'static ClassSpec>,
    /// True if it has one class, which any number names.
    pub one_class: bool,
    /// It may send TCP control segments before other packets of their flows.
    pub control_first: bool,
    /// The counters of each of its parts; empty if it has none.
    pub parts: &'static [Counter],
    build: Build,
}

impl Spec {
    /// The entry of a kind.
    pub const fn of<D: Discipline>() -> Self {
        Self {
            kind: D::KIND,
            about: D::ABOUT,
            flags: D::FLAGS,
            root_only: D::ROOT_ONLY,
            params: D::Config::TABLE,
            counters: D::Stats::TABLE,
            filters: D::FILTERS,
            classes: D::CLASSES,
            one_class: D::ONE_CLASS,
            control_first: D::CONTROL_FIRST,
            parts: D::PARTS,
            build: |words, env| {
                let mut cfg = D::Config::defaults(env);
                words.know_link_rate(env.link_rate);
                apply(&mut cfg, D::KIND, words)?;
                Ok(Erased::<D>::new(cfg, env)?.boxed())
            },
        }
    }

    /// Makes one from the words after its kind. Rates in percent are of the environment's link rate, or of that
    /// of the words where the environment knows none.
    pub fn build(&self, words: &mut Words<'_>, env: &Env) -> Result<Box<dyn Qdisc>, ConfigError> {
        (self.build)(words, env)
    }
}

impl core::fmt::Debug for Spec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Spec({})", self.kind)
    }
}
