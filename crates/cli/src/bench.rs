//! `txweir bench`: nanoseconds per packet of the path itself, beside other queues in the same run.

use std::hint::black_box;
use std::time::Instant as Clock;

use txweir::core::device::{Completed, DeviceError, TxQueue};
use txweir::core::rng::Rng;
use txweir::core::value::Words;
use txweir::core::{DqlConfig, Handle, Instant, Meta, Nanos, PathConfig, Role, TxPath};

use crate::Failure;

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
    /// Rounds; each runs every job once, so that a slow moment of the machine meets all of them
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Packets per job and round
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(BURST..=1 << 32))]
    packets: u64,
    /// Run only the job of this name
    #[arg(long, value_name = "JOB")]
    only: Option<String>,
    /// Processor to stay on
    #[arg(long, default_value_t = default_cpu())]
    cpu: usize,
    /// List the jobs
    #[arg(long)]
    list: bool,
}

/// The last processor: interrupts tend to go to the first.
fn default_cpu() -> usize {
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

/// What is timed. The names are those of the instruction table.
const JOBS: &[Job] = &[
    Job { name: "fifo-direct", about: "pfifo, empty: direct dispatch", peer: false, make: || idle(true) },
    Job {
        name: "fifo-direct-nobql",
        about: "the same without a byte limit",
        peer: false,
        make: || idle(false),
    },
    Job { name: "fifo-queued", about: "pfifo, 64 packets standing", peer: false, make: fifo },
    Job { name: "prio-3", about: "prio, 3 bands at random", peer: false, make: || prio(3) },
    Job { name: "prio-16", about: "prio, 16 bands at random", peer: false, make: || prio(16) },
    Job {
        name: "cake",
        about: "cake at 400 Gbit/s, 3 tins, 1024 flows x 4 packets",
        peer: false,
        make: cake,
    },
    Job { name: "fq_codel-1k", about: "fq_codel, 1024 flows x 4 packets", peer: false, make: fq_codel_1k },
    Job {
        name: "fq_codel-100k",
        about: "fq_codel, 100 000 flows x 4 packets (65 536 queues)",
        peer: false,
        make: fq_codel_100k,
    },
    Job { name: "pie", about: "pie, 64 packets standing, below its target", peer: false, make: pie },
    Job { name: "sfq-1k", about: "sfq, 1024 flows x 4 packets", peer: false, make: sfq_1k },
    Job {
        name: "skbprio",
        about: "skbprio, 256 packets standing, 64 levels at random",
        peer: false,
        make: skbprio,
    },
    Job { name: "drr-1k", about: "drr, 1000 classes x 4 packets", peer: false, make: drr_1k },
    Job { name: "ets", about: "ets, 16 bands at random, 4 of them strict", peer: false, make: ets },
    Job {
        name: "fq-20k",
        about: "fq, 20 000 flows of 2 packets, each paced: 10 million packets a second",
        peer: false,
        make: || paced(20_000),
    },
    Job {
        name: "fq-1m",
        about: "the same with a million flows: the memory, not the code",
        peer: false,
        make: || paced(1_000_000),
    },
    Job {
        name: "htb-1k",
        about: "htb, 1000 leaves x 4 packets that borrow from one class",
        peer: false,
        make: || htb(1_000),
    },
    Job { name: "htb-10k", about: "the same with 10 000 leaves", peer: false, make: || htb(10_000) },
    Job {
        name: "tbf",
        about: "tbf over bfifo, 64 packets standing, never out of tokens",
        peer: false,
        make: tbf,
    },
    Job { name: "red", about: "red over bfifo, 64 packets standing, below min", peer: false, make: red },
    Job {
        name: "netem",
        about: "netem with a constant delay, 1024 packets standing in the deadline wheel",
        peer: false,
        make: netem,
    },
    Job { name: "rtrb", about: "single-producer ring, crate rtrb", peer: true, make: rtrb_ring },
    Job {
        name: "ArrayQueue",
        about: "multi-producer ring, crate crossbeam-queue",
        peer: true,
        make: array_queue,
    },
    Job {
        name: "Mutex<VecDeque>",
        about: "the standard library's, one lock per operation",
        peer: true,
        make: locked_deque,
    },
    Job {
        name: "make-meta",
        about: "yardstick: making a packet's metadata and handing it over, which every job above does too",
        peer: true,
        make: make_meta,
    },
    Job {
        name: "cache-miss",
        about: "yardstick: one load from 64 MB whose address depends on the last",
        peer: true,
        make: cache_miss,
    },
    Job {
        name: "multiply-xor",
        about: "yardstick: one step of multiply and exclusive or that depends on the last: 4 cycles",
        peer: true,
        make: chain,
    },
];

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
    let config = PathConfig {
        pool,
        bql: bql.then(DqlConfig::default),
        role: Role::Forwarder,
        ..PathConfig::default()
    };
    let words: Vec<&str> = options.split_whitespace().collect();
    let made = TxPath::new(config).map_err(|e| e.to_string());
    match made.and_then(|p| p.with_qdisc(kind, &words).map_err(|e| e.to_string())) {
        Ok(path) => bursts(path, standing, kinds),
        Err(e) => unreachable!("a benchmark's own options are right: {e}"),
    }
}

/// Bursts through a path: see `path`.
fn bursts(mut path: TxPath<u64>, standing: u64, kinds: Vec<(u32, u32)>) -> Run {
    let mut dev = Sink::default();
    let mut next = {
        let mut i = 0usize;
        move || {
            let (priority, hash) = kinds[i & (kinds.len() - 1)];
            i += 1;
            Meta::new(64).priority(priority).hash(hash)
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

fn idle(bql: bool) -> Run {
    path("pfifo", "", 1024, bql, 0, vec![(0, 1)])
}

fn fifo() -> Run {
    path("pfifo", "", 1024, true, 64, vec![(0, 1)])
}

fn prio(bands: u32) -> Run {
    let map: String = (0..16).map(|i| format!(" {}", i % bands)).collect();
    path(
        "prio",
        &format!("bands {bands} priomap{map}"),
        4096,
        true,
        256,
        draw(1 << 16, |r| (r.below(16) as u32, 0)),
    )
}

/// Packets of 64 bytes at a rate at which a burst takes less time than until the next: every step of cake but the wait.
fn cake() -> Run {
    let flows = draw(1 << 16, |r| (0, r.below(1024) as u32));
    path("cake", "bandwidth 400gbit memlimit 100mb rtt 100s", 8192, true, 4096, flows)
}

/// The classes of `drr_1k`.
const CLASSES: u16 = 1000;

/// A path with a root of this kind and a class for each number, told by `class`: the one above it and its options.
fn with_classes<'a>(
    kind: &str,
    pool: usize,
    count: u16,
    class: impl Fn(u16) -> (u16, &'a [&'a str]),
) -> TxPath<u64> {
    let config = PathConfig { pool, role: Role::Forwarder, ..PathConfig::default() };
    let made = TxPath::new(config).map_err(|e| e.to_string());
    let made = made.and_then(|p| p.with_qdisc(kind, &[]).map_err(|e| e.to_string()));
    let mut path = made.unwrap_or_else(|e| unreachable!("a benchmark's own options are right: {e}"));
    let major = path.tree().root().handle().major();
    path.configure(Instant::ZERO, &mut Sink::default(), |tree, cx| {
        for minor in 1..=count {
            let (above, words) = class(minor);
            let (above, id) = (Handle::new(major, above), Handle::new(major, minor));
            if let Err(e) = tree.add_class(above, id, None, &mut Words::new(words), cx) {
                unreachable!("a benchmark's own classes are right: {e}");
            }
        }
    });
    path
}

fn drr_1k() -> Run {
    let path = with_classes("drr", 8192, CLASSES, |_| (0, &[]));
    let root = path.tree().root().handle();
    let classes = draw(1 << 16, |r| (root.0 + 1 + r.below(CLASSES.into()) as u32, 0));
    bursts(path, 4 * u64::from(CLASSES), classes)
}

fn ets() -> Run {
    let map: String = (0..16).map(|i| format!(" {i}")).collect();
    let options = format!("bands 16 strict 4 quanta 1000 1500 3000 6000 priomap{map}");
    path("ets", &options, 4096, true, 256, draw(1 << 16, |r| (r.below(16) as u32, 0)))
}

fn fq_codel_1k() -> Run {
    let flows = draw(1 << 16, |r| (0, (r.below(1024) << 22) as u32));
    path("fq_codel", "", 8192, true, 4096, flows)
}

fn fq_codel_100k() -> Run {
    let mut rng = Rng::new(2);
    let hashes: Vec<u32> = (0..100_000).map(|_| rng.next_u64() as u32).collect();
    let flows = draw(1 << 20, |r| (0, hashes[r.below(100_000) as usize]));
    path("fq_codel", "flows 65536 limit 1000000 memory_limit 1gb", 500_000, true, 400_000, flows)
}

fn pie() -> Run {
    path("pie", "limit 1000", 1024, true, 64, vec![(0, 1)])
}

fn sfq_1k() -> Run {
    let flows = draw(1 << 16, |r| (0, (r.below(1024) << 22) as u32));
    path("sfq", "limit 20000 flows 1024 divisor 1024", 8192, true, 4096, flows)
}

fn skbprio() -> Run {
    path("skbprio", "limit 1000", 4096, true, 256, draw(1 << 16, |r| (r.below(64) as u32, 0)))
}

/// Leaves that have used up their own rates, below one class that has not.
fn htb(leaves: u16) -> Run {
    const ABOVE: &[&str] = &["rate", "1tbit", "burst", "1gb", "cburst", "1gb"];
    const LEAF: &[&str] =
        &["rate", "8kbit", "ceil", "1tbit", "burst", "100", "cburst", "1gb", "quantum", "1514"];
    let path = with_classes("htb", 1 << 17, leaves + 1, |minor| match minor {
        1 => (0, ABOVE),
        _ => (1, LEAF),
    });
    let root = path.tree().root().handle();
    let packets = draw(1 << 16, |r| (root.0 + 2 + r.below(leaves.into()) as u32, 0));
    bursts(path, 4 * u64::from(leaves), packets)
}

fn tbf() -> Run {
    path("tbf", "rate 1tbit burst 1mb limit 100mb", 1024, true, 64, vec![(0, 1)])
}

fn red() -> Run {
    path("red", "limit 1mb min 100kb max 300kb avpkt 64 burst 3000", 1024, true, 64, vec![(0, 1)])
}

fn netem() -> Run {
    // A packet is due 10 bursts after its own, and its turn comes after 32.
    path("netem", "delay 1us limit 2000", 4096, true, 1024, vec![(0, 1)])
}

fn draw(n: usize, mut f: impl FnMut(&mut Rng) -> (u32, u32)) -> Vec<(u32, u32)> {
    let mut rng = Rng::new(1);
    (0..n).map(|_| f(&mut rng)).collect()
}

/// Bursts through a queue of somebody else's that carries the same 60 bytes of metadata.
fn peer<Q: 'static>(mut q: Q, push: fn(&mut Q, Meta), pop: fn(&mut Q) -> Option<Meta>) -> Run {
    Box::new(move |packets| {
        for _ in 0..packets / BURST {
            for i in 0..BURST {
                push(&mut q, Meta::new(64).hash(i as u32));
            }
            for _ in 0..BURST {
                black_box(pop(&mut q).map(|m| m.hash));
            }
        }
    })
}

fn rtrb_ring() -> Run {
    let ring = rtrb::RingBuffer::<Meta>::new(1024);
    peer(
        ring,
        |q, m| {
            let _ = q.0.push(m);
        },
        |q| q.1.pop().ok(),
    )
}

fn array_queue() -> Run {
    let queue = crossbeam_queue::ArrayQueue::<Meta>::new(1024);
    peer(
        queue,
        |q, m| {
            let _ = q.push(m);
        },
        |q| q.pop(),
    )
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn locked_deque() -> Run {
    let queue = std::sync::Mutex::new(std::collections::VecDeque::<Meta>::with_capacity(1024));
    peer(queue, |q, m| lock(q).push_back(m), |q| lock(q).pop_front())
}

/// What the jobs do besides queueing.
fn make_meta() -> Run {
    let kinds = [(0, 1)];
    Box::new(move |packets| {
        for i in 0..packets {
            let (priority, hash) = kinds[i as usize & (black_box(kinds.len()) - 1)];
            black_box(&Meta::new(64).priority(priority).hash(hash));
        }
    })
}

/// A walk through 64 MB in one random cycle (Sattolo's shuffle), one load after the other.
fn cache_miss() -> Run {
    let mut next: Vec<u32> = (0..16 << 20).collect();
    let mut rng = Rng::new(3);
    for i in (1..next.len()).rev() {
        next.swap(i, rng.below(i as u64) as usize);
    }
    let mut at = 0;
    Box::new(move |loads| {
        for _ in 0..loads {
            at = next[at as usize];
        }
        black_box(at);
    })
}

/// A chain of multiplication and exclusive or: 3 + 1 cycles a step on every recent x86 and Arm server core.
fn chain() -> Run {
    let mut x = 1u64;
    Box::new(move |steps| {
        for _ in 0..steps {
            x = x.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ (x >> 29);
        }
        black_box(x);
    })
}

/// Median, least and most of some samples.
fn spread(samples: &[f64]) -> [f64; 3] {
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
