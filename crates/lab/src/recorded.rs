//! The lab's TCP against recordings of Linux's: packet by packet over a wire with given faults ([`exact`]), and by sums and
//! percentiles through real queueing disciplines ([`matrix`]). The format is that of `spec/tcp/README.md`.

pub mod exact;
pub mod matrix;
