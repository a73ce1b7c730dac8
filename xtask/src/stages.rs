//! Instructions per packet by stage of the path: where a job of the gate spends them.
//!
//! callgrind counts each instruction of the program, and addr2line names the functions that the
//! compiler has inlined around it. The innermost one of this workspace gives the stage: its file,
//! and for the parts that a packet meets twice the direction. As in the gate, two runs of different
//! length are subtracted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::gate::{PACKETS, PROGRAM};

/// The stages, in the order of a packet's way.
const STAGES: [&str; 10] =
    ["job", "admit", "pool in", "node in", "kind in", "kind out", "node out", "pool out", "dql", "push"];

/// Prints the stages of these jobs.
pub fn run(jobs: &[&str]) -> Result<(), String> {
    print!("{:20}", "job");
    STAGES.iter().for_each(|s| print!(" {s:>8}"));
    println!(" {:>8}", "all");
    for job in jobs {
        let (short, long) = (counts(job, PACKETS)?, counts(job, 2 * PACKETS)?);
        let stage_of = stages_of(long.keys().copied())?;
        let mut sums = BTreeMap::<&str, f64>::new();
        for (at, n) in &long {
            let more = n.saturating_sub(short.get(at).copied().unwrap_or(0));
            let stage = stage_of.get(at).copied().unwrap_or("job");
            // Each run has a warming round and a counted one.
            *sums.entry(stage).or_default() += more as f64 / (2 * PACKETS) as f64;
        }
        print!("{job:20}");
        STAGES.iter().for_each(|s| print!(" {:8.1}", sums.get(s).copied().unwrap_or(0.0)));
        println!(" {:8.1}", sums.values().sum::<f64>());
    }
    Ok(())
}

/// Returns the number of times that each instruction of the program ran.
fn counts(job: &str, packets: u64) -> Result<BTreeMap<u64, u64>, String> {
    let file = crate::root().join("target/stages.out");
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args([PROGRAM, "bench", "--rounds", "1", "--only", job, "--packets", &packets.to_string()])
        .current_dir(crate::root())
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    if !out.status.success() {
        return Err(format!("{job} does not run under valgrind: {}", String::from_utf8_lossy(&out.stderr)));
    }
    Ok(read(&fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?))
}

/// Reads callgrind's file: the counts of the instructions of the program itself. A line after
/// `calls=` repeats the counts of the function called.
fn read(text: &str) -> BTreeMap<u64, u64> {
    let (mut counts, mut own, mut call) = (BTreeMap::new(), false, false);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            own = object.ends_with("txweir");
        } else if line.starts_with("calls=") {
            call = true;
        } else if let Some(rest) = line.strip_prefix("0x") {
            let mut words = rest.split(' ');
            let at = words.next().and_then(|w| u64::from_str_radix(w, 16).ok());
            let n = words.nth(1).and_then(|w| w.parse::<u64>().ok());
            if let (Some(at), Some(n), true, false) = (at, n, own, call) {
                *counts.entry(at).or_default() += n;
            }
            call = false;
        }
    }
    counts
}

/// Returns the stage of each instruction.
fn stages_of(all: impl Iterator<Item = u64>) -> Result<BTreeMap<u64, &'static str>, String> {
    let mut child = Command::new("addr2line")
        .args(["-a", "-f", "-i", "-e", PROGRAM])
        .current_dir(crate::root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("addr2line: {e}"))?;
    let asked = all.map(|at| format!("{at:#x}\n")).collect::<String>();
    let mut stdin = child.stdin.take().ok_or("addr2line has no input")?;
    // Another thread writes: the answers may fill the pipe before all is written.
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let out = child.wait_with_output().map_err(|e| format!("addr2line: {e}"))?;
    let _ = writer.join();
    let text = String::from_utf8_lossy(&out.stdout);
    let mut found = BTreeMap::new();
    // Each answer begins with the address; pairs of a function and its file follow.
    for answer in text.split("\n0x").map(|a| a.trim_start_matches("0x")) {
        let mut lines = answer.lines();
        let Some(at) = lines.next().and_then(|a| u64::from_str_radix(a, 16).ok()) else { continue };
        let lines: Vec<&str> = lines.collect();
        let frames = lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>();
        found.insert(at, stage(&frames));
    }
    Ok(found)
}

/// Returns the stage of an instruction from the functions around it, the innermost first.
fn stage(frames: &[(&str, &str)]) -> &'static str {
    let Some((_, file)) = frames.iter().find(|(_, file)| file.contains("crates/")) else { return "job" };
    let Some((_, file)) = file.split_once("crates/core/src/") else { return "job" };
    let out = ["dequeue", "drain", "hand_over", "send_up_to", "release"];
    let is_out = frames.iter().any(|(f, _)| out.iter().any(|o| f.contains(o)) || f.contains("3run"));
    let either = |one, other| if is_out { other } else { one };
    match file {
        f if f.starts_with("path/dql") || f.contains("transmitter") => "dql",
        f if f.starts_with("path/") => either("admit", "push"),
        f if f.starts_with("packet/pool") => either("pool in", "pool out"),
        f if f.starts_with("sched/") => either("node in", "node out"),
        f if f.starts_with("qdisc/") || f.starts_with("law/") || f.starts_with("base/") => {
            either("kind in", "kind out")
        }
        _ => either("admit", "push"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counts_of_the_program_without_those_of_calls() {
        let text = "ob=/lib/libc.so\n0x10 1 5\nob=target/release/txweir\nfn=a\n0x10 1 7\n\
                    calls=3 0x20 4\n0x14 2 900\n0x18 2 1\n0x10 9 2\n";
        assert_eq!(read(text), BTreeMap::from([(0x10, 9), (0x18, 1)]));
    }

    #[test]
    fn the_innermost_function_of_the_workspace_gives_the_stage() {
        let std = ("index", "/rustc/0/library/core/src/slice/index.rs:1");
        let pool = ("_RNv5alloc", "/x/crates/core/src/packet/pool.rs:90");
        let node = ("_RNv7dequeue", "/x/crates/core/src/sched/erased.rs:90");
        let job = ("_RNv6bursts", "/x/crates/bench/src/jobs/path.rs:9");
        assert_eq!(stage(&[std, pool, job]), "pool in");
        assert_eq!(stage(&[std, pool, node]), "pool out");
        assert_eq!(stage(&[node, job]), "node out");
        assert_eq!((stage(&[std, job]), stage(&[std])), ("job", "job"));
    }
}
