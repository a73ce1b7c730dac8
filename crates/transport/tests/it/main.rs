//! The tests of the transport, in one binary: two ends over a wire, and recorded connections.

mod acks;
mod basic;
mod bbr;
mod bbr_exact;
mod closing;
mod common;
mod local;
mod marks;
mod opening;
mod rfc6675;
mod sack;
mod window;
mod writer;
