//! The common part of the tests of the core: the laws (`txweir_laws`), and helpers of some tests.

pub mod action;
pub mod classes;
pub mod lane;
pub mod port;

pub use txweir_laws::*;
