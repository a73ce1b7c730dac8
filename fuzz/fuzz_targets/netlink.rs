//! Gives libFuzzer `txweir_fuzzed::netlink`, and prints how many messages were performed.

#![no_main]

use std::sync::atomic::{AtomicUsize, Ordering};

/// The messages so far.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let more = txweir_fuzzed::netlink(data);
    let before = MESSAGES.fetch_add(more, Ordering::Relaxed);
    if before / 100_000 != (before + more) / 100_000 {
        eprintln!("{} messages", before + more);
    }
});
