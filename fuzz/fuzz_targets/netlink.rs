//! Gives libFuzzer `txweir_fuzzed::netlink`, and prints how many messages were performed.

#![no_main]

use txweir_fuzzed::netlink::performed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let before = performed();
    txweir_fuzzed::netlink(data);
    if before / 100_000 != performed() / 100_000 {
        eprintln!("{} messages", performed());
    }
});
