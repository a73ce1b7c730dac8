//! Gives libFuzzer `txweir_fuzzed::packets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txweir_fuzzed::packets(data));
