//! The tc language: text to commands, commands to a tree of qdiscs, and the tree back to text and
//! JSON.
//!
//! A policy is the lines that one would give to tc(8) for one device; `tc` in front and `dev NAME`
//! may be left out. It is read, checked and applied as a whole or not at all. Each mistake is a
//! [`Diagnostic`] that points at the word, names the expected value and, where there is one,
//! suggests a replacement.
//!
//! ```
//! use txweir_core::{Env, Tree, sched::cx::Cx};
//! use txweir_tc::{Policy, show};
//!
//! let policy = Policy::parse("
//!     qdisc add root handle 1: tbf rate 1mbit burst 5kb latency 50ms   # the uplink
//!     qdisc add parent 1:1 fq_codel quantum 300
//! ", "uplink.tc")?;
//! let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(16, 0));
//! policy.apply(&mut tree, &mut cx)?;
//! assert!(show::text(&tree, None, false).starts_with("qdisc tbf 1: root refcnt 2 rate 1Mbit burst 5Kb lat 50ms"));
//!
//! let wrong = Policy::parse("qdisc add root fq_codel limt 100", "uplink.tc").unwrap_err();
//! assert_eq!(wrong.first().brief(),
//!     "uplink.tc:1:25: fq_codel has no parameter \"limt\" (did you mean \"limit\"?)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No I/O, no panic on any text.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The parts that all kinds share have functions that only those of the feature call.
#![cfg_attr(not(feature = "kinds"), allow(dead_code, unused_imports))]

mod action;
pub mod ast;
mod class_names;
pub mod command;
pub mod diagnostic;
mod failure;
mod filter;
pub mod json;
mod kernel;
mod kinds;
pub mod language;
pub mod lex;
pub mod memory;
mod option_sentence;
mod out;
pub mod parts;
mod plan;
pub mod policy;
pub mod printable;
mod program;
mod protocol;
mod queued;
mod refusal;
mod said;
mod sentence;
pub mod show;
pub mod source;
pub mod suggest;
pub mod testing;
pub mod tool;
pub mod warning;

pub use ast::{Command, Place, QdiscCommand, Verb};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use failure::Failure;
pub use policy::Policy;
pub use source::Source;
