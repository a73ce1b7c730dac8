//! The kinds of qdiscs, and the registry: one line per kind.

pub(crate) mod by_queue;
#[cfg(feature = "kinds")]
pub mod cake;
#[cfg(feature = "kinds")]
pub mod cake_mq;
#[cfg(feature = "kinds")]
pub mod cbs;
#[cfg(feature = "kinds")]
pub mod choke;
pub mod codel;
#[cfg(feature = "kinds")]
pub mod drr;
#[cfg(feature = "kinds")]
pub mod dualpi2;
pub mod etf;
#[cfg(feature = "kinds")]
pub mod ets;
pub mod fifo;
pub(crate) mod flows;
#[cfg(feature = "kinds")]
pub mod fq;
pub mod fq_codel;
#[cfg(feature = "kinds")]
pub mod fq_pie;
#[cfg(feature = "kinds")]
pub mod gred;
#[cfg(feature = "kinds")]
pub mod hfsc;
#[cfg(feature = "kinds")]
pub mod hhf;
#[cfg(feature = "kinds")]
pub mod htb;
pub(crate) mod leaf;
pub mod mq;
pub mod mqprio;
pub mod multiq;
#[cfg(feature = "kinds")]
pub mod netem;
pub mod pfifo_fast;
#[cfg(feature = "kinds")]
pub mod pie;
#[cfg(feature = "kinds")]
pub mod plug;
pub mod prio;
#[cfg(feature = "kinds")]
pub mod qfq;
#[cfg(feature = "kinds")]
pub mod red;
mod registry;
#[cfg(feature = "kinds")]
pub mod rough;
#[cfg(feature = "kinds")]
pub mod sfb;
#[cfg(feature = "kinds")]
pub mod sfq;
#[cfg(feature = "kinds")]
pub mod skbprio;
#[cfg(feature = "kinds")]
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
    #[cfg(feature = "kinds")]
    &Spec::of::<cake::Cake>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<cake_mq::CakeMq>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<cbs::Cbs>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<choke::Choke>(),
    &Spec::of::<codel::Codel>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<drr::Drr>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<dualpi2::Dualpi2>(),
    &Spec::of::<etf::Etf>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<ets::Ets>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<fq::Fq>(),
    &Spec::of::<fq_codel::FqCodel>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<fq_pie::FqPie>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<gred::Gred>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<hfsc::Hfsc>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<hhf::Hhf>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<htb::Htb>(),
    &Spec::of::<mq::Mq>(),
    &Spec::of::<mqprio::Mqprio>(),
    &Spec::of::<multiq::Multiq>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<netem::Netem>(),
    &Spec::of::<fifo::Pfifo>(),
    &Spec::of::<pfifo_fast::PfifoFast>(),
    &Spec::of::<fifo::PfifoHeadDrop>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<pie::Pie>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<plug::Plug>(),
    &Spec::of::<prio::Prio>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<qfq::Qfq>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<red::Red>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<rough::Rough>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<sfb::Sfb>(),
    #[cfg(feature = "kinds")]
    &Spec::of::<sfq::Sfq>(),
    #[cfg(feature = "kinds")]
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
