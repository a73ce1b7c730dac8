//! The jobs of `txweir bench`: paths of the engine, and the queues of other crates.

mod classes;
mod filters;
mod handed;
mod kinds;
mod path;
mod peers;
mod pipes;
mod shared;
mod timing;

use kinds::{
    cake, cake_mq, cbs, choke, dualpi2, etf, ets, fifo, fq_codel_1k, fq_codel_100k, fq_pie_1k, gred, hhf,
    idle, netem, pie, plug, prio, red, rough, sfb, sfq_1k, skbprio, taprio, tbf, tbf_shared,
};
use path::{By, Run, paced};
use pipes::{Over, pipes};

pub use path::BURST;
pub use timing::{Times, byte_limit_share, time};

/// A named job, and whether it is a path of the engine or a queue of another crate.
#[derive(Debug)]
pub struct Job {
    /// The name on the command line, which is that of the instruction table.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// True for a queue of another crate or a yardstick.
    pub peer: bool,
    make: fn() -> Run,
}

/// All jobs. Their names are those of the instruction table.
pub const JOBS: &[Job] = &[
    Job { name: "fifo-direct", about: "pfifo, empty: direct dispatch", peer: false, make: || idle(true) },
    Job {
        name: "fifo-direct-nobql",
        about: "the same without a byte limit",
        peer: false,
        make: || idle(false),
    },
    Job {
        name: "handoff-direct",
        about: "a queue that threads share, idle, no byte limit: direct dispatch",
        peer: false,
        make: || handed::each(handed::DIRECT),
    },
    Job {
        name: "handoff-burst",
        about: "the same, a burst in one turn",
        peer: false,
        make: || handed::bursts(handed::DIRECT),
    },
    Job {
        name: "handoff-prio",
        about: "the same queue with prio, which no packet passes by: a turn for each",
        peer: false,
        make: || handed::each(handed::SCHEDULER),
    },
    Job {
        name: "handoff-prio-32",
        about: "the same, a burst in one turn",
        peer: false,
        make: || handed::bursts(handed::SCHEDULER),
    },
    Job {
        name: "handoff-owner",
        about: "the same, one at a time by its owner",
        peer: false,
        make: || handed::owner(false),
    },
    Job { name: "handoff-owner-32", about: "bursts by its owner", peer: false, make: || handed::owner(true) },
    Job {
        name: "handoff-listed",
        about: "through its admission list",
        peer: false,
        make: || handed::listed(false),
    },
    Job { name: "handoff-listed-32", about: "bursts through it", peer: false, make: || handed::listed(true) },
    Job { name: "fifo-queued", about: "pfifo, 64 packets standing", peer: false, make: fifo },
    Job { name: "prio-3", about: "prio, 3 bands at random", peer: false, make: || prio(3) },
    Job { name: "prio-16", about: "prio, 16 bands at random", peer: false, make: || prio(16) },
    Job {
        name: "cake",
        about: "cake at 400 Gbit/s, 3 tins, 1024 flows x 4 packets",
        peer: false,
        make: cake,
    },
    Job {
        name: "cake_mq",
        about: "the same in one queue of two, the other one idle",
        peer: false,
        make: cake_mq,
    },
    Job {
        name: "fq_codel-1k",
        about: "fq_codel, 1024 flows x 4 packets",
        peer: false,
        make: || fq_codel_1k(By::One),
    },
    Job {
        name: "fq_codel-1k-burst",
        about: "the same, by submit_burst",
        peer: false,
        make: || fq_codel_1k(By::Burst),
    },
    Job {
        name: "fq_codel-100k",
        about: "fq_codel, 100 000 flows x 4 packets (65 536 queues)",
        peer: false,
        make: || fq_codel_100k(By::One),
    },
    Job {
        name: "fq_codel-100k-burst",
        about: "the same, by submit_burst",
        peer: false,
        make: || fq_codel_100k(By::Burst),
    },
    Job { name: "fq_pie-1k", about: "fq_pie, 1024 flows x 4 packets", peer: false, make: fq_pie_1k },
    Job { name: "pie", about: "pie, 64 packets standing, below its target", peer: false, make: pie },
    Job {
        name: "dualpi2",
        about: "dualpi2, 64 packets standing, half of them in each queue, below its target",
        peer: false,
        make: dualpi2,
    },
    Job { name: "sfb", about: "sfb, 64 packets standing, many flows", peer: false, make: sfb },
    Job { name: "sfq-1k", about: "sfq, 1024 flows x 4 packets", peer: false, make: sfq_1k },
    Job {
        name: "rough",
        about: "rough, 256 packets standing, one in four a TCP control segment",
        peer: false,
        make: rough,
    },
    Job {
        name: "skbprio",
        about: "skbprio, 256 packets standing, 64 levels at random",
        peer: false,
        make: skbprio,
    },
    Job { name: "drr-1k", about: "drr, 1000 classes x 4 packets", peer: false, make: classes::drr_1k },
    Job {
        name: "qfq-1k",
        about: "qfq, 1000 classes of four weights x 4 packets",
        peer: false,
        make: classes::qfq_1k,
    },
    Job { name: "taprio", about: "taprio, two open gates, 64 packets standing", peer: false, make: taprio },
    Job { name: "hhf", about: "hhf, 64 packets standing, a few heavy flows of many", peer: false, make: hhf },
    Job { name: "ets", about: "ets, 16 bands at random, 4 of them strict", peer: false, make: ets },
    Job { name: "fq-1k", about: "fq-20k with 1000 flows", peer: false, make: || paced(1_000, By::One) },
    Job {
        name: "fq-20k",
        about: "fq, 20 000 flows of 2 packets, each paced: 10 million packets a second",
        peer: false,
        make: || paced(20_000, By::One),
    },
    Job {
        name: "fq-1m",
        about: "the same with a million flows: the memory, not the code",
        peer: false,
        make: || paced(1_000_000, By::One),
    },
    Job {
        name: "fq-1m-burst",
        about: "the same, by submit_burst",
        peer: false,
        make: || paced(1_000_000, By::Burst),
    },
    Job {
        name: "hfsc-1k",
        about: "hfsc, 1000 leaves x 4 packets with deadlines and shares, below one class",
        peer: false,
        make: classes::hfsc_1k,
    },
    Job {
        name: "htb-1k",
        about: "htb, 1000 leaves x 4 packets that borrow from one class",
        peer: false,
        make: || classes::htb(1_000, By::One),
    },
    Job {
        name: "htb-10k",
        about: "the same with 10 000 leaves",
        peer: false,
        make: || classes::htb(10_000, By::One),
    },
    Job {
        name: "htb-10k-burst",
        about: "the same, by submit_burst",
        peer: false,
        make: || classes::htb(10_000, By::Burst),
    },
    Job {
        name: "htb-50k",
        about: "the same with 50 000 leaves",
        peer: false,
        make: || classes::htb(50_000, By::One),
    },
    Job {
        name: "htb-50k-burst",
        about: "the same, by submit_burst",
        peer: false,
        make: || classes::htb(50_000, By::Burst),
    },
    Job {
        name: "pipes-4k",
        about: "htb, 4096 leaves of 16 queues below ets, 524 288 packets standing, by submit_burst",
        peer: false,
        make: || pipes(Over::HtbEts, 4096, 524_288),
    },
    Job {
        name: "pipes-4k-sparse",
        about: "the same with 256 packets standing",
        peer: false,
        make: || pipes(Over::HtbEts, 4096, 256),
    },
    Job {
        name: "pipes-256",
        about: "the same with 256 leaves, 32 768 packets standing",
        peer: false,
        make: || pipes(Over::HtbEts, 256, 32_768),
    },
    Job {
        name: "pipes-4k-htb",
        about: "pipes-4k with one queue below each leaf",
        peer: false,
        make: || pipes(Over::Htb, 4096, 524_288),
    },
    Job {
        name: "pipes-4k-sparse-htb",
        about: "the same with 256 packets standing",
        peer: false,
        make: || pipes(Over::Htb, 4096, 256),
    },
    Job {
        name: "pipes-256-htb",
        about: "the same with 256 leaves, 32 768 packets standing",
        peer: false,
        make: || pipes(Over::Htb, 256, 32_768),
    },
    Job {
        name: "pipes-4k-drr",
        about: "pipes-4k with drr in place of htb, one queue for each class",
        peer: false,
        make: || pipes(Over::Drr, 4096, 524_288),
    },
    Job {
        name: "pipes-4k-sparse-drr",
        about: "the same with 256 packets standing",
        peer: false,
        make: || pipes(Over::Drr, 4096, 256),
    },
    Job {
        name: "pipes-256-drr",
        about: "the same with 256 classes, 32 768 packets standing",
        peer: false,
        make: || pipes(Over::Drr, 256, 32_768),
    },
    Job {
        name: "list-1",
        about: "the admission list alone, on one thread, one at a time, 256 items standing",
        peer: false,
        make: || pipes::listed(1),
    },
    Job { name: "list-32", about: "the same by bursts", peer: false, make: || pipes::listed(BURST) },
    Job {
        name: "meter-1k",
        about: "the buckets of police alone: 1000 meters of two rates at random",
        peer: false,
        make: || pipes::meters(1000),
    },
    Job {
        name: "tbf",
        about: "tbf over bfifo, 64 packets standing, never out of tokens",
        peer: false,
        make: tbf,
    },
    Job {
        name: "tbf-shared",
        about: "the same with a shared rate of one member",
        peer: false,
        make: tbf_shared,
    },
    Job {
        name: "lease",
        about: "the law of that alone: a lease for each burst",
        peer: false,
        make: || shared::lease(false),
    },
    Job {
        name: "lease-2",
        about: "the same, while a thread on another processor leases from the same rate",
        peer: false,
        make: || shared::lease(true),
    },
    Job {
        name: "cbs",
        about: "cbs over pfifo, 64 packets standing, on a link without limits",
        peer: false,
        make: cbs,
    },
    Job {
        name: "etf",
        about: "etf, 1024 packets standing, each within delta of its launch time",
        peer: false,
        make: etf,
    },
    Job { name: "choke", about: "choke, 64 packets standing, above min", peer: false, make: choke },
    Job {
        name: "gred",
        about: "gred with grio over 4 queues, 64 packets standing, below min",
        peer: false,
        make: gred,
    },
    Job { name: "plug", about: "plug, open, 64 packets standing", peer: false, make: plug },
    Job { name: "red", about: "red over bfifo, 64 packets standing, below min", peer: false, make: red },
    Job {
        name: "netem",
        about: "netem with a constant delay, 1024 packets standing in the deadline wheel",
        peer: false,
        make: netem,
    },
    Job {
        name: "flower-1",
        about: "one flower filter, which each packet meets",
        peer: false,
        make: || filters::flower(1),
    },
    Job { name: "flower-10", about: "ten of one mask, at random", peer: false, make: || filters::flower(10) },
    Job {
        name: "flower-10k",
        about: "10 000 of one mask, at random",
        peer: false,
        make: || filters::flower(10_000),
    },
    Job {
        name: "flower-add-1k",
        about: "one flower filter more, then none again after 1000",
        peer: false,
        make: || filters::add(1_000),
    },
    Job {
        name: "flower-add-100k",
        about: "the same after 100 000",
        peer: false,
        make: || filters::add(100_000),
    },
    Job {
        name: "flower-add-1m",
        about: "the same after a million",
        peer: false,
        make: || filters::add(1_000_000),
    },
    Job {
        name: "u32-1",
        about: "one u32 filter of two words, which each packet meets",
        peer: false,
        make: filters::u32_one,
    },
    Job {
        name: "u32-256",
        about: "a hash table of 256 filters, at random",
        peer: false,
        make: filters::u32_table,
    },
    Job { name: "basic-1", about: "one basic filter of one condition", peer: false, make: filters::basic },
    Job { name: "bpf-1", about: "one program of six instructions", peer: false, make: filters::bpf },
    Job { name: "rtrb", about: "single-producer ring, crate rtrb", peer: true, make: peers::rtrb_ring },
    Job {
        name: "ArrayQueue",
        about: "multi-producer ring, crate crossbeam-queue",
        peer: true,
        make: peers::array_queue,
    },
    Job {
        name: "Mutex<VecDeque>",
        about: "the standard library's, one lock per operation",
        peer: true,
        make: peers::locked_deque,
    },
    Job {
        name: "make-meta",
        about: "yardstick: making a packet's metadata and handing it over, which every job above does too",
        peer: true,
        make: peers::make_meta,
    },
    Job {
        name: "cache-miss",
        about: "yardstick: one load from 64 MB whose address depends on the last",
        peer: true,
        make: peers::cache_miss,
    },
    Job {
        name: "multiply-xor",
        about: "yardstick: one step of multiply and exclusive or that depends on the last: 4 cycles",
        peer: true,
        make: peers::chain,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_moves_its_packets() {
        for job in JOBS.iter().filter(|j| {
            !["fq_codel-100k", "fq-1m", "cache-miss", "pipes-4k"].iter().any(|n| j.name.starts_with(n))
        }) {
            (job.make)()(BURST * 4);
        }
    }
}
