//! A linter for policies of Linux's tc(8). [`check`] follows the lines of a file as the kernel
//! would, and reports errors and likely mistakes in the result. [`script`] takes the lines out of a
//! shell script, and runs none of it.
//!
//! [`txweir_tc`] reads each line; the linter answers with its
//! [`Diagnostic`](txweir_tc::Diagnostic)s. A policy may name kinds that only Linux has.
//!
//! A script that has to be run is run by the caller: [`machine`] answers its commands, and
//! [`recording`] has the tc lines of the run.
//!
//! No I/O, no panic on any text.

#![forbid(unsafe_code)]

pub mod check;
pub mod code;
pub mod dump;
pub mod machine;
pub mod recording;
pub mod script;
