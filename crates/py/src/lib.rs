//! The compiled part of the Python package `txweir`: it runs trials, checks and scenarios, and
//! hands their results over as Arrow.
//!
//! The package is `python/txweir`; its `_native` is this library, and `_native.pyi` has the types
//! of all that is here. Python code does what needs no speed: arguments, progress, sweeps.
//!
//! No thread of Python waits for a run: the interpreter is released, and every `watch::STEP` the
//! run looks for signals. No panic crosses the border (`error::guarded`).

#![forbid(unsafe_code)]

mod check;
mod columns;
mod error;
mod finding;
mod result;
mod scenario;
mod series;
mod table;
mod trial;
mod watch;

/// The compiled part of txweir.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::check::{check, explain};
    #[pymodule_export]
    use crate::result::{Result, result};
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::table::{Table, stacked, table};
    #[pymodule_export]
    use crate::trial::{Trial, trial, trial_of};
}
