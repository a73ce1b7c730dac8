//! Gives libFuzzer `txweir_fuzzed::netlink`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::netlink(data));
