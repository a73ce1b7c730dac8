//! `txweir bench`: nanoseconds per packet of the path itself, beside other queues in the same run.

use txweir_bench::jobs::{self, BURST, JOBS, Job, Times};
use txweir_bench::threads::{self, PEERS, PLACES};
use txweir_bench::{default_cpu, spread};

use crate::{Failure, output};

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

/// Runs `txweir bench`.
pub fn main(args: Args) -> Result<(), Failure> {
    if args.list {
        let line = |job: &Job| format!("{:18} {}\n", job.name, job.about);
        return output::print(JOBS.iter().map(line).collect::<String>());
    }
    if let Some(producers) = args.producers {
        return between_threads(&args, producers.into());
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
    let Times { samples, pinned } = jobs::time(&jobs, args.rounds, args.packets, args.cpu);
    match args.json {
        true => output::json(json(&jobs, &samples, &args)),
        false => output::print(table(&jobs, &samples, &args, pinned)),
    }
}

fn table(jobs: &[&Job], samples: &[Vec<f64>], args: &Args, pinned: bool) -> String {
    let place = if pinned { format!("pinned to processor {}", args.cpu) } else { "not pinned".into() };
    let mut out = format!(
        "ns per packet, enqueue and dequeue, 64 B packets, bursts of {BURST}; {} interleaved rounds of {} packets, {place}\n\n",
        args.rounds, args.packets
    );
    out.push_str(&format!("{:18} {:>8} {:>8} {:>8}  \n", "job", "median", "least", "most"));
    for (job, samples) in jobs.iter().zip(samples) {
        let [median, least, most] = spread(samples);
        let mark = if job.peer && !job.about.starts_with("yardstick") { "peer: " } else { "" };
        let (name, about) = (job.name, job.about);
        out.push_str(&format!("{name:18} {median:8.2} {least:8.2} {most:8.2}  {mark}{about}\n"));
    }
    if let Some([median, least, most]) = jobs::byte_limit_share(jobs, samples) {
        out.push_str(&format!(
            "\nshare of the byte limit {median:.2} [{least:.2} to {most:.2}]: fifo-direct less fifo-direct-nobql, \
             round by round\n"
        ));
    }
    out
}

fn json(jobs: &[&Job], samples: &[Vec<f64>], args: &Args) -> String {
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
    format!("{:#}", serde_json::Value::Array(rows))
}

/// Runs `txweir bench --producers N`.
fn between_threads(args: &Args, producers: usize) -> Result<(), Failure> {
    if let Some(only) = &args.only
        && PEERS.iter().all(|peer| peer.name != only)
    {
        let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        let names = names.join(", ");
        return Err(Failure::usage(format!("--only: expected one of {names}, given \"{only}\"")));
    }
    let mut counts = vec![1, producers];
    counts.dedup();
    let all =
        counts.iter().flat_map(|n| threads::measure(*n, args.rounds, args.packets, args.only.as_deref()));
    let all: Vec<threads::Series> = all.collect();
    let processors = default_cpu() + 1;
    if args.json {
        let rows = all.iter().map(|s| {
            let [median, least, most] = spread(&s.ns);
            serde_json::json!({
                "job": s.peer.name, "about": s.peer.about, "producers": s.producers, "unit": "ns/item",
                "median": median, "min": least, "max": most,
                "rounds": args.rounds, "packets": args.packets, "processors": processors,
            })
        });
        return output::json(format_args!("{:#}", serde_json::Value::Array(rows.collect())));
    }
    let mut out = format!(
        "ns per item of 8 bytes from producers to one consumer, {PLACES} places; {} interleaved rounds of {} items; \
         {processors} processors, of which the consumer has one\n\n",
        args.rounds, args.packets
    );
    let head = format!("{:18} {:>9} {:>8} {:>8} {:>8}  \n", "queue", "producers", "median", "least", "most");
    out.push_str(&head);
    for s in &all {
        let [median, least, most] = spread(&s.ns);
        let (name, about) = (s.peer.name, s.peer.about);
        let n = s.producers;
        out.push_str(&format!("{name:18} {n:>9} {median:8.2} {least:8.2} {most:8.2}  {about}\n"));
    }
    if producers >= processors {
        out.push_str(&format!(
            "\n{producers} producers and the consumer share {processors} processors: much of the time is the scheduler's\n"
        ));
    }
    output::print(out)
}
