//! Runs a target on its seeds and on mutated seeds, and measures each execution.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use txweir_fuzzed::{TARGETS, Target, netlink};

use crate::mutate::Mutator;
use crate::seeds;
use txweir_counted::peak;

/// Most processor time of one execution. It does not count the time in which other processes run.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Most bytes that one execution has at a time.
const BYTES_MAX: u64 = 256 << 20;

/// Returns the processor time of this thread.
fn spent() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// Sums of a run.
#[derive(Debug, Default)]
struct Costs {
    executions: u64,
    time: Duration,
    time_max: Duration,
    bytes_max: u64,
}

/// Runs the target of this name.
pub fn run(name: &str) {
    let target = TARGETS.iter().find(|t| t.name == name).expect("a target");
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let executions = u64::from(target.executions) * number("TXWEIR_FUZZ").unwrap_or(1);
    let mut costs = Costs::default();
    let seeds: Vec<Vec<u8>> = seeds::of(name).into_iter().map(|(_, bytes)| bytes).collect();
    for seed in &seeds {
        execute(target, seed, &mut costs);
    }
    let mut mutator = Mutator::new(&seeds, target.len_max, target.text, number("TXWEIR_SEED").unwrap_or(1));
    while costs.executions < executions {
        execute(target, &mutator.next(), &mut costs);
    }
    let per_second = costs.executions as f64 / costs.time.as_secs_f64().max(1e-9);
    println!(
        "{name}: {} executions, {per_second:.0}/s of processor time, at most {:?} and {} KiB in one",
        costs.executions,
        costs.time_max,
        costs.bytes_max >> 10,
    );
    if name == "netlink" {
        println!("{name}: {} messages", netlink::performed());
    }
}

/// Runs one input. One that breaks a law is kept in a file.
fn execute(target: &Target, input: &[u8], costs: &mut Costs) {
    let before = spent();
    let (done, bytes) = peak(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    let time = spent() - before;
    costs.executions += 1;
    costs.time += time;
    costs.time_max = costs.time_max.max(time);
    costs.bytes_max = costs.bytes_max.max(bytes);
    if done.is_ok() && time < TIME_MAX && bytes < BYTES_MAX {
        return;
    }
    let path = std::env::temp_dir().join(format!("txweir-{}-{}", target.name, costs.executions));
    let kept = std::fs::write(&path, input);
    println!("{}: execution {}: {kept:?} in {}", target.name, costs.executions, path.display());
    if let Err(panic) = done {
        resume_unwind(panic);
    }
    panic!("{}: one execution took {time:?} of processor time and {bytes} bytes", target.name);
}

#[test]
fn what_costs_too_much_is_found() {
    let wrong = [
        Target { run: |_| panic!("a law"), ..TARGETS[0] },
        Target { run: |_| drop(std::hint::black_box(vec![1u8; 257 << 20])), ..TARGETS[0] },
        Target {
            run: |_| {
                let end = spent() + TIME_MAX;
                while spent() < end {}
            },
            ..TARGETS[0]
        },
    ];
    for target in wrong {
        let target = Target { name: "planted", ..target };
        let found = catch_unwind(AssertUnwindSafe(|| execute(&target, b"x", &mut Costs::default())));
        assert!(found.is_err());
    }
    let fine = Target { run: |_| {}, ..TARGETS[0] };
    execute(&fine, b"x", &mut Costs::default());
}
