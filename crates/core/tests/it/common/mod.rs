//! What the tests of the core share: the laws (`txweir_laws`), and what only some tests of the core need.

pub mod action;
pub mod lane;
pub mod port;

pub use txweir_laws::*;
