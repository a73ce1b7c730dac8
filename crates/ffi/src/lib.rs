//! txweir as a C library: one transmit queue, its policy in tc's language, bursts in and bursts
//! out.
//!
//! The interface is `include/txweir.h`; docs/c.md has a program. This crate is its Rust side:
//! [`abi`] has the functions that C calls and the only unsafe code, [`queue`] what they do.

pub mod abi;
pub mod queue;
