//! The tests of the transport, in one binary: two ends over a wire, and recorded connections.

mod basic;
mod bbr;
mod bbr_exact;
mod common;
mod local;
mod marks;
mod opening;
mod rfc6675;
mod sack;
mod writer;
