//! The kinds of qdiscs, and the registry: one line per kind.

pub(crate) mod by_queue;
pub mod cake;
pub mod cake_mq;
pub mod cbs;
pub mod choke;
pub mod codel;
pub mod drr;
pub mod dualpi2;
pub mod etf;
pub mod ets;
pub mod fifo;
pub(crate) mod flows;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod gred;
pub mod hfsc;
pub mod hhf;
pub mod htb;
pub(crate) mod leaf;
pub mod mq;
pub mod mqprio;
pub mod multiq;
pub mod netem;
pub mod pfifo_fast;
pub mod pie;
pub mod plug;
pub mod prio;
pub mod qfq;
pub mod red;
mod registry;
pub mod rough;
pub mod sfb;
pub mod sfq;
pub mod skbprio;
mod slots;
pub mod taprio;
pub mod tbf;
pub(crate) mod turns;

use crate::sched::spec::Spec;
use crate::text::error::ConfigError;

pub use registry::Registry;

/// Every built-in kind, in alphabetical order.
pub static KINDS: &[&Spec] = &[
    &Spec::of::<fifo::Bfifo>(),
    &Spec::of::<cake::Cake>(),
    &Spec::of::<cake_mq::CakeMq>(),
    &Spec::of::<cbs::Cbs>(),
    &Spec::of::<choke::Choke>(),
    &Spec::of::<codel::Codel>(),
    &Spec::of::<drr::Drr>(),
    &Spec::of::<dualpi2::Dualpi2>(),
    &Spec::of::<etf::Etf>(),
    &Spec::of::<ets::Ets>(),
    &Spec::of::<fq::Fq>(),
    &Spec::of::<fq_codel::FqCodel>(),
    &Spec::of::<fq_pie::FqPie>(),
    &Spec::of::<gred::Gred>(),
    &Spec::of::<hfsc::Hfsc>(),
    &Spec::of::<hhf::Hhf>(),
    &Spec::of::<htb::Htb>(),
    &Spec::of::<mq::Mq>(),
    &Spec::of::<mqprio::Mqprio>(),
    &Spec::of::<multiq::Multiq>(),
    &Spec::of::<netem::Netem>(),
    &Spec::of::<fifo::Pfifo>(),
    &Spec::of::<pfifo_fast::PfifoFast>(),
    &Spec::of::<fifo::PfifoHeadDrop>(),
    &Spec::of::<pie::Pie>(),
    &Spec::of::<plug::Plug>(),
    &Spec::of::<prio::Prio>(),
    &Spec::of::<qfq::Qfq>(),
    &Spec::of::<red::Red>(),
    &Spec::of::<rough::Rough>(),
    &Spec::of::<sfb::Sfb>(),
    &Spec::of::<sfq::Sfq>(),
    &Spec::of::<skbprio::Skbprio>(),
    &Spec::of::<taprio::Taprio>(),
    &Spec::of::<tbf::Tbf>(),
];

/// Returns the built-in kind of that name.
///
/// # Errors
/// No kind has that name.
pub fn kind(name: &str) -> Result<&'static Spec, ConfigError> {
    Registry::BUILT_IN.kind(name)
}
