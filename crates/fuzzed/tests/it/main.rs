//! The fuzz targets on their seeds and on mutated seeds, a bounded number of times.
//!
//! `TXWEIR_FUZZ=N` makes each run N times as long; `TXWEIR_SEED=N` chooses other mutations.

mod cost;
mod ends;
mod mutate;
mod runner;
mod seeds;

macro_rules! fuzzed {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            runner::run(stringify!($name));
        })*
    };
}

fuzzed!(tc_line, batch, script, scenario, capture, packets, protocol, trace);
