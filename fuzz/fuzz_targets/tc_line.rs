//! Feeds any text to the language as a policy, as a batch and as command lines: see
//! `txweir_tc::testing::any_text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| txweir_tc::testing::any_text(text));
