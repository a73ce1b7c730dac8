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

        #[test]
        fn each_target_has_its_run() {
            let runs = [$(stringify!($name)),*];
            assert_eq!(runs.as_slice(), txweir_fuzzed::TARGETS.map(|target| target.name));
        }
    };
}

fuzzed!(tc_line, batch, script, scenario, capture, dump, flent, netlink, packets, protocol, rings, trace);
