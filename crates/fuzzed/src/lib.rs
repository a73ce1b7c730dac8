//! The fuzz targets of txweir: each is a function of bytes that panics if a law does not hold.
//!
//! `fuzz/fuzz_targets` gives these functions to libFuzzer, and `tests/it` runs them on mutated
//! seeds with a stable compiler. No function reads a clock, opens an interface or writes a file.
//! Inputs that ask for much memory or much virtual time within the documented bounds are skipped,
//! so that an execution is short: [`Target::run`] says nothing about them.
#![forbid(unsafe_code)]

mod capture;
// A link to the file of the daemon's tests, so that a package of this crate has it.
#[allow(missing_docs, dead_code, unreachable_pub, reason = "the interface of the daemon's tests")]
mod card;
pub mod dictionary;
mod dump;
mod flent;
pub mod netlink;
mod packets;
mod protocol;
mod scenario;
mod script;
mod sums;
mod trace;
pub mod world;

use txweir_tc::testing;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/seeds`.
    pub name: &'static str,
    /// Runs it on an input.
    ///
    /// # Panics
    /// If a law does not hold for the input.
    pub run: fn(&[u8]),
    /// Longest input, bytes.
    pub len_max: usize,
    /// Executions of the stable runner.
    pub executions: u32,
    /// True if inputs are lines of text, which words of the language mutate.
    pub text: bool,
}

/// The targets.
pub const TARGETS: [Target; 12] = [
    Target { name: "tc_line", run: tc_line, len_max: 4096, executions: 60_000, text: true },
    Target { name: "batch", run: batch, len_max: 4096, executions: 12_000, text: true },
    Target { name: "script", run: script::script, len_max: 4096, executions: 40_000, text: true },
    Target { name: "scenario", run: scenario::scenario, len_max: 4096, executions: 12_000, text: true },
    Target { name: "capture", run: capture::capture, len_max: 4096, executions: 60_000, text: false },
    Target { name: "dump", run: dump::dump, len_max: 16_384, executions: 20_000, text: true },
    Target { name: "flent", run: flent::flent, len_max: 16_384, executions: 60_000, text: true },
    Target { name: "netlink", run: netlink, len_max: 4096, executions: 40_000, text: false },
    Target { name: "packets", run: packets::packets, len_max: 4096, executions: 1_000_000, text: false },
    Target { name: "protocol", run: protocol::protocol, len_max: 4096, executions: 12_000, text: true },
    Target { name: "rings", run: rings, len_max: 2048, executions: 100_000, text: false },
    Target { name: "trace", run: trace::trace, len_max: 16_384, executions: 100_000, text: true },
];

/// Reads a text as command lines and as a policy; see [`testing::any_policy`].
pub fn tc_line(data: &[u8]) {
    testing::any_policy(&String::from_utf8_lossy(data));
}

/// Runs a text as a batch, in every way that there is; see [`testing::any_batch`].
pub fn batch(data: &[u8]) {
    testing::any_batch(&String::from_utf8_lossy(data));
}

/// Plays the deeds of a guest that may write anything; see [`txweir_device::any_rings`].
pub fn rings(data: &[u8]) {
    txweir_device::any_rings(data);
}

pub use capture::capture;
pub use dump::dump;
pub use flent::flent;
pub use netlink::netlink;
pub use packets::packets;
pub use protocol::protocol;
pub use scenario::scenario;
pub use script::script;
pub use trace::trace;
