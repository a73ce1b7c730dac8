//! Devices that exist in time only: a line with rings and a scheduler, and a list for tests.

pub mod testing;
pub mod wire;
