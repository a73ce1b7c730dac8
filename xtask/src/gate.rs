//! Instructions per packet, counted by callgrind and checked in as a table, so that a change of
//! cost shows as a diff. Two runs of different length are subtracted, which leaves out start-up.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

const TABLE: &str = "spec/instructions.txt";

/// The counted jobs. The 100 000-flow job is only timed: it measures the memory, not the code. The
/// jobs of owners are only timed too: valgrind has no membarrier(2). The jobs beside other programs
/// (`pipes-*`, `list-*`, `meter-1k`) have no counts of their own: `htb-1k`, `ets`, `drr-1k` and
/// `handoff-listed` run the same code.
const JOBS: [&str; 38] = [
    "fifo-direct",
    "fifo-direct-nobql",
    "fifo-queued",
    "handoff-direct",
    "handoff-burst",
    "handoff-listed",
    "handoff-prio",
    "handoff-prio-32",
    "prio-3",
    "prio-16",
    "cake",
    "cake_mq",
    "cbs",
    "choke",
    "drr-1k",
    "dualpi2",
    "etf",
    "ets",
    "flower-1",
    "fq_codel-1k",
    "fq_pie-1k",
    "fq-20k",
    "gred",
    "hfsc-1k",
    "hhf",
    "htb-1k",
    "netem",
    "pie",
    "plug",
    "qfq-1k",
    "red",
    "rough",
    "sfb",
    "sfq-1k",
    "skbprio",
    "taprio",
    "tbf",
    "u32-1",
];

/// Packets in the shorter run; the longer has twice as many.
pub const PACKETS: u64 = 65_536;

/// The program that runs the jobs.
pub const PROGRAM: &str = "target/release/txweir";

/// A change smaller than this percentage of the old count is the compiler's noise.
const TOLERANCE_PERCENT: f64 = 2.0;

/// Counts every job and compares with the table, or writes it.
pub fn run(bless: bool) -> Result<(), String> {
    let path = crate::root().join(TABLE);
    let old = read(&fs::read_to_string(&path).unwrap_or_default());
    let mut table = String::from(
        "# Instructions per packet, enqueue and dequeue, bursts of 32 (callgrind). Written by `cargo xtask gate --bless`.\n",
    );
    let mut worse = Vec::new();
    println!("{:20} {:>9} {:>9}", "job", "before", "now");
    for job in JOBS {
        let now = per_packet(job)?;
        let before = old.get(job).copied();
        println!("{job:20} {:>9} {now:9.1}", before.map_or("-".into(), |b| format!("{b:.1}")));
        let _ = writeln!(table, "{job:20} {now:7.1}");
        match before {
            Some(b) if now > b * (1.0 + TOLERANCE_PERCENT / 100.0) => worse.push(job),
            None if !bless => worse.push(job),
            _ => {}
        }
    }
    if bless {
        return fs::write(&path, table).map_err(|e| format!("{TABLE}: {e}"));
    }
    match worse.as_slice() {
        [] => Ok(()),
        jobs => Err(format!("more instructions than {TABLE} says: {}", jobs.join(", "))),
    }
}

fn read(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| {
            let (job, n) = l.split_once(' ')?;
            Some((job.to_string(), n.trim().parse().ok()?))
        })
        .collect()
}

fn per_packet(job: &str) -> Result<f64, String> {
    let short = count(job, PACKETS)?;
    let long = count(job, 2 * PACKETS)?;
    // Each run has a warming round and a counted one.
    Ok(long.saturating_sub(short) as f64 / (2 * PACKETS) as f64)
}

fn count(job: &str, packets: u64) -> Result<u64, String> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, "bench"])
        .args(["--rounds", "1", "--only", job, "--packets", &packets.to_string()])
        .current_dir(crate::root())
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let log = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("{job} does not run under valgrind: {log}"));
    }
    log.lines()
        .find_map(|l| l.split_once("Collected :")?.1.trim().parse().ok())
        .ok_or_else(|| format!("valgrind counted nothing for {job}: {log}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_its_own_table() {
        let t = super::read("# heading\nfifo-direct     41.5\nprio-3   120.0\n");
        assert_eq!((t["fifo-direct"], t["prio-3"], t.len()), (41.5, 120.0, 2));
    }
}
