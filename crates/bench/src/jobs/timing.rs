//! The times of jobs, round by round.

use std::time::Instant as Clock;

use super::Job;
use super::path::{BURST, Run};
use crate::common::spread;

/// The times of some jobs.
#[derive(Clone, Debug)]
pub struct Times {
    /// Nanoseconds per packet: for each job, one sample per round.
    pub samples: Vec<Vec<f64>>,
    /// True if the thread was kept on the requested processor.
    pub pinned: bool,
}

/// Times these jobs, each once a round, with this many packets in whole bursts, at least one. The
/// calling thread stays on processor `cpu` from then on, if the system allows it. One more round
/// comes first and is not counted.
pub fn time(jobs: &[&Job], rounds: u32, packets: u64, cpu: usize) -> Times {
    let packets = packets.max(BURST);
    let pinned = txweir_device::cpu::pin(cpu).is_ok();
    let mut runs: Vec<Run> = jobs.iter().map(|j| (j.make)()).collect();
    let mut samples = vec![Vec::new(); jobs.len()];
    for round in 0..=rounds {
        for (run, samples) in runs.iter_mut().zip(&mut samples) {
            let start = Clock::now();
            run(packets);
            let ns = start.elapsed().as_nanos() as f64 / (packets / BURST * BURST) as f64;
            // The first round warms caches and lets the byte limit settle.
            if round > 0 {
                samples.push(ns);
            }
        }
    }
    Times { samples, pinned }
}

/// Returns the median, least and greatest cost of the byte limit in nanoseconds per packet, paired
/// by round: `fifo-direct` less `fifo-direct-nobql`. `None` unless both were timed.
pub fn byte_limit_share(jobs: &[&Job], samples: &[Vec<f64>]) -> Option<[f64; 3]> {
    let of = |name: &str| jobs.iter().position(|j| j.name == name).map(|i| &samples[i]);
    let diff: Vec<f64> =
        of("fifo-direct")?.iter().zip(of("fifo-direct-nobql")?).map(|(a, b)| a - b).collect();
    Some(spread(&diff))
}
