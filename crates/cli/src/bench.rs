//! `txweir bench`: nanoseconds per packet of the path itself, beside other queues in the same run.

use std::hint::black_box;
use std::time::Instant as Clock;

use txweir::core::base::rng::Rng;
use txweir::core::path::device::{Completed, DeviceError, TxQueue};
use txweir::core::text::value::Words;
use txweir::core::{DqlConfig, Handle, Instant, Meta, Nanos, PathConfig, Role, TxPath};

use crate::Failure;

mod filters;
mod handed;
mod jobs;
mod shared;
mod threads;

use jobs::JOBS;

/// Packets per burst, as a device driver's poll would hand them over.
const BURST: u64 = 32;

/// Time from burst to burst: short enough that no standing queue here ever looks old to CoDel.
const BURST_TIME: Nanos = Nanos(100);

/// Time before the first burst: longer than any job's delay, and nothing to CoDel.
const STANDING_TIME: Nanos = Nanos(10_000);

/// Options of `txweir bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Rounds; each runs every job once, so that a slow moment of the machine affects all jobs
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Packets per job and round
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(BURST..=1 << 32))]
    packets: u64,
    /// Run only the job of this name
    #[arg(long, value_name = "JOB")]
    only: Option<String>,
    /// Processor to run on
    #[arg(long, default_value_t = default_cpu())]
    cpu: usize,
    /// List the jobs
    #[arg(long)]
    list: bool,
    /// Measure queues between threads instead: one producer, and N, to one consumer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64), conflicts_with = "cpu")]
    producers: Option<u8>,
}

/// The last processor: interrupts tend to go to the first.
pub(crate) fn default_cpu() -> usize {
    std::thread::available_parallelism().map_or(0, |n| n.get() - 1)
}

/// A job: enqueue and dequeue this many packets.
type Run = Box<dyn FnMut(u64)>;

/// A named job, and whether it is ours or somebody else's queue.
struct Job {
    name: &'static str,
    about: &'static str,
    peer: bool,
    make: fn() -> Run,
}

/// A device that takes everything while it is open and has finished it by the next reap.
#[derive(Default)]
struct Sink {
    open: bool,
    packets: u32,
    bytes: u32,
    /// Flow hashes of what was sent since this was last emptied, if they are asked for.
    hashes: Option<Vec<u32>>,
}

impl TxQueue for Sink {
    type Frame = u64;
    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        if self.open { want } else { 0 }
    }
    #[inline]
    fn push(&mut self, frame: u64, m: &Meta) {
        black_box(frame);
        self.packets += 1;
        self.bytes += m.wire_len;
        if let Some(hashes) = &mut self.hashes {
            hashes.push(m.hash);
        }
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    #[inline]
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        if self.packets > 0 {
            sink(Completed { packets: self.packets, bytes: self.bytes, frame: None });
            (self.packets, self.bytes) = (0, 0);
        }
    }
}

/// A path that holds `standing` packets between bursts. Packets take priority and flow hash from `kinds` in turn;
/// the number of kinds is a power of two.
fn path(kind: &str, options: &str, pool: usize, bql: bool, standing: u64, kinds: Vec<(u32, u32)>) -> Run {
    bursts(made(kind, options, pool, bql), standing, kinds)
}

/// A path with this root.
fn made(kind: &str, options: &str, pool: usize, bql: bool) -> TxPath<u64> {
    let config = PathConfig {
        pool,
        bql: bql.then(DqlConfig::default),
        role: Role::Forwarder,
        ..PathConfig::default()
    };
    let words: Vec<&str> = options.split_whitespace().collect();
    let made = TxPath::new(config).map_err(|e| e.to_string());
    match made.and_then(|p| p.with_qdisc(kind, &words).map_err(|e| e.to_string())) {
        Ok(path) => path,
        Err(e) => unreachable!("a benchmark's own options are right: {e}"),
    }
}

/// Bursts through a path: see `path`.
fn bursts(path: TxPath<u64>, standing: u64, kinds: Vec<(u32, u32)>) -> Run {
    bursts_of(path, standing, kinds, |m| m)
}

/// The same of packets that `shape` completes.
fn bursts_of(
    mut path: TxPath<u64>,
    standing: u64,
    kinds: Vec<(u32, u32)>,
    shape: impl Fn(Meta) -> Meta + 'static,
) -> Run {
    let mut dev = Sink::default();
    let mut next = {
        let mut i = 0usize;
        move || {
            let (priority, hash) = kinds[i & (kinds.len() - 1)];
            i += 1;
            shape(Meta::new(64).priority(priority).hash(hash))
        }
    };
    let mut now = Instant::ZERO;
    for frame in 0..standing {
        let _ = path.submit(now, frame, next(), &mut dev);
    }
    dev.open = true;
    // What is delayed is due by then.
    now += STANDING_TIME;
    Box::new(move |packets| {
        for burst in 0..packets / BURST {
            now += BURST_TIME;
            for i in 0..BURST {
                let _ = path.submit(now, burst + i, next(), &mut dev);
            }
            loop {
                let over = path.backlog().packets.saturating_sub(standing);
                let _ = path.drain(now, over as u32, &mut dev);
                path.reap(now, &mut dev, |_| {});
                if over == 0 {
                    break;
                }
            }
        }
        assert_eq!(path.backlog().packets, standing, "{} packets were lost", path.cx().dropped().packets);
    })
}

/// So many flows, each at its rate with two packets waiting: for each that leaves, the flow gets another. Time goes on by
/// what a burst takes at 10 million packets a second.
fn paced(flows: u32) -> Run {
    const STEP: Nanos = Nanos(100 * BURST);
    let interval = u64::from(flows) * 100;
    let rate = 64 * 1_000_000_000 / interval;
    let mask = flows.next_power_of_two() - 1;
    let options =
        format!("maxrate {rate}bps low_rate_threshold {rate}bps orphan_mask {mask} limit {}", 2 * flows);
    let words: Vec<&str> = options.split(' ').collect();
    let config = PathConfig {
        pool: 2 * flows as usize + 1024,
        bql: None,
        role: Role::Forwarder,
        ..PathConfig::default()
    };
    let made = TxPath::new(config).map_err(|e| e.to_string());
    let mut path = match made.and_then(|p| p.with_qdisc("fq", &words).map_err(|e| e.to_string())) {
        Ok(path) => path,
        Err(e) => unreachable!("a benchmark's own options are right: {e}"),
    };
    let mut dev = Sink { open: true, hashes: Some(Vec::new()), ..Sink::default() };
    let mut now = Instant::from_secs(1);
    // The flows begin one after the other, in no order, over one interval.
    let mut order: Vec<u32> = (0..flows).collect();
    let mut rng = Rng::new(4);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let mut again = Vec::new();
    let mut begin = order.into_iter();
    let mut total = 0;
    Box::new(move |packets| {
        let end = total + packets;
        while total < end {
            now += STEP;
            for hash in begin.by_ref().take(BURST as usize) {
                for _ in 0..2 {
                    let _ = path.submit(now, 0, Meta::new(64).hash(hash), &mut dev);
                }
            }
            let _ = path.drain(now, u32::MAX, &mut dev);
            path.reap(now, &mut dev, |_| {});
            if let Some(hashes) = &mut dev.hashes {
                std::mem::swap(hashes, &mut again);
            }
            total += again.len() as u64;
            for hash in again.drain(..) {
                let _ = path.submit(now, 0, Meta::new(64).hash(hash), &mut dev);
            }
        }
        assert_eq!(path.cx().dropped().packets, 0, "none is lost");
    })
}

/// Median, least and most of some samples.
pub(crate) fn spread(samples: &[f64]) -> [f64; 3] {
    let mut s = samples.to_vec();
    s.sort_by(f64::total_cmp);
    match s.as_slice() {
        [] => [0.0; 3],
        s => [s[s.len() / 2], s[0], s[s.len() - 1]],
    }
}

/// Runs `txweir bench`.
pub fn main(args: Args) -> Result<(), Failure> {
    if args.list {
        for job in JOBS {
            println!("{:18} {}", job.name, job.about);
        }
        return Ok(());
    }
    if let Some(producers) = args.producers {
        return threads::main(&args, producers.into());
    }
    let jobs: Vec<&Job> = JOBS.iter().filter(|j| args.only.as_deref().is_none_or(|o| o == j.name)).collect();
    if jobs.is_empty() {
        let names: Vec<&str> = JOBS.iter().map(|j| j.name).collect();
        let given = args.only.unwrap_or_default();
        return Err(Failure::usage(format!(
            "--only: expected one of {}, given \"{given}\"",
            names.join(", ")
        )));
    }
    let pinned = txweir::device::cpu::pin(args.cpu);
    let samples = time(&jobs, args.rounds, args.packets);
    if args.json {
        print_json(&jobs, &samples, &args);
    } else {
        print_table(&jobs, &samples, &args, pinned.is_ok());
    }
    Ok(())
}

/// Nanoseconds per packet: for each job, one sample per round.
fn time(jobs: &[&Job], rounds: u32, packets: u64) -> Vec<Vec<f64>> {
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
    samples
}

fn print_table(jobs: &[&Job], samples: &[Vec<f64>], args: &Args, pinned: bool) {
    let place = if pinned { format!("pinned to processor {}", args.cpu) } else { "not pinned".into() };
    println!(
        "ns per packet, enqueue and dequeue, 64 B packets, bursts of {BURST}; {} interleaved rounds of {} packets, {place}\n",
        args.rounds, args.packets
    );
    println!("{:18} {:>8} {:>8} {:>8}  ", "job", "median", "least", "most");
    for (job, samples) in jobs.iter().zip(samples) {
        let [median, least, most] = spread(samples);
        let mark = if job.peer && !job.about.starts_with("yardstick") { "peer: " } else { "" };
        println!("{:18} {median:8.2} {least:8.2} {most:8.2}  {mark}{}", job.name, job.about);
    }
    if let Some([median, least, most]) = dql_share(jobs, samples) {
        println!(
            "\nshare of the byte limit {median:.2} [{least:.2} to {most:.2}]: fifo-direct less fifo-direct-nobql, round by round"
        );
    }
}

/// What the byte limit costs, paired by round.
fn dql_share(jobs: &[&Job], samples: &[Vec<f64>]) -> Option<[f64; 3]> {
    let of = |name: &str| jobs.iter().position(|j| j.name == name).map(|i| &samples[i]);
    let diff: Vec<f64> =
        of("fifo-direct")?.iter().zip(of("fifo-direct-nobql")?).map(|(a, b)| a - b).collect();
    Some(spread(&diff))
}

fn print_json(jobs: &[&Job], samples: &[Vec<f64>], args: &Args) {
    let rows: Vec<serde_json::Value> = jobs
        .iter()
        .zip(samples)
        .map(|(job, samples)| {
            let [median, least, most] = spread(samples);
            serde_json::json!({
                "job": job.name, "about": job.about, "peer": job.peer, "unit": "ns/packet",
                "median": median, "min": least, "max": most,
                "rounds": args.rounds, "packets": args.packets, "burst": BURST,
            })
        })
        .collect();
    println!("{:#}", serde_json::Value::Array(rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_moves_its_packets() {
        for job in JOBS.iter().filter(|j| !["fq_codel-100k", "fq-1m", "cache-miss"].contains(&j.name)) {
            (job.make)()(BURST * 4);
        }
    }

    #[test]
    fn spread_is_median_least_most() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
    }
}
