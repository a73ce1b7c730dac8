//! Gives libFuzzer `txweir_fuzzed::rings`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::rings(data));
