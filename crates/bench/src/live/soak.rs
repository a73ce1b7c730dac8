//! A soak of the live path: frames of a flood pass `txweir run` until so many have come. The number
//! of frames ends it, and not the time, so that a busy machine only takes longer. Every report has
//! to count each frame once, and the memory of the process has to stay what it was after a tenth.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use txweir_core::text::stats::Counters;
use txweir_runtime::Ledger;

use super::beside::beside;
use super::process::{Running, Temp};
use super::{Kind, Outcome, caught, flood_until};

/// Memory by which the process may grow after the first tenth of the frames, KiB: a page here and
/// there, and no buffer for each frame or report.
const GROWTH_MAX: u64 = 1024;
/// Longest time without a frame: then the path hangs.
const HANG: Duration = Duration::from_secs(60);
/// The root: flows with tables, and drops where the interface is slower than the flood.
const POLICY: &str = "qdisc add root fq_codel limit 1000\n";

/// The result of a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Soak {
    /// The kind of the links.
    pub link: &'static str,
    /// Frames that came in, and those of them that left.
    pub frames: [u64; 2],
    /// Reports whose counts were checked.
    pub reports: u64,
    /// Resident memory of the process after a tenth of the frames, and at the end, KiB.
    pub memory_kib: [u64; 2],
    /// The time that it took.
    pub time: Duration,
}

impl Soak {
    /// Returns it as an object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "link": self.link,
            "frames": self.frames[0],
            "delivered": self.frames[1],
            "reports": self.reports,
            "memory_kib": self.memory_kib,
            "seconds": self.time.as_secs_f64(),
        })
    }
}

/// Has `frames` frames pass links of a kind, by two workers of this `txweir` program. A frame that
/// is not counted once in a report, memory that grows and a path that hangs are failures.
#[must_use]
pub fn soak(program: &str, kind: Kind, frames: u64) -> Outcome<Soak> {
    match kind.skip_reason() {
        Some(reason) => Outcome::Skipped(reason),
        None if kind == Kind::Vhost => {
            Outcome::Skipped("its guests have no kernel, which sends the flood".to_owned())
        }
        None => caught(|| vec![pass(program, kind, frames)]),
    }
}

fn pass(program: &str, kind: Kind, frames: u64) -> Soak {
    let net = kind.net(program);
    let policy = Temp::new("live-soak.tc", POLICY);
    let args = ["--json", "--workers", "2", "--stats-interval", "200ms", "--policy", policy.path()];
    let running = net.start(&args);
    let began = Instant::now();
    let flood = |ends: &AtomicBool| {
        flood_until(&net, &|| ends.load(Ordering::Relaxed));
    };
    beside(flood, || watch(running, kind, frames, began))
}

/// Reads reports until so many frames have come.
fn watch(mut running: Running, kind: Kind, frames: u64, began: Instant) -> Soak {
    let (mut reports, mut first, mut moved) = (0, None, (0, Instant::now()));
    loop {
        let report = running.line();
        reports += 1;
        let [came, _] = counted(&report);
        if came >= frames / 10 && first.is_none() {
            first = Some(memory(running.id()));
        }
        if came >= frames {
            break;
        }
        if came > moved.0 {
            moved = (came, Instant::now());
        }
        assert!(moved.1.elapsed() < HANG, "no frame comes: {report}");
    }
    let memory_kib = [first.unwrap_or_default(), memory(running.id())];
    let [before, after] = memory_kib;
    assert!(after <= before + GROWTH_MAX, "the process has grown from {before} to {after} KiB");
    let (end, _) = running.stop_and_hear();
    Soak { link: kind.word(), frames: counted(&end), reports: reports + 1, memory_kib, time: began.elapsed() }
}

/// Returns the frames of the way to the server that came, and those that left, after it has checked
/// that each frame of both ways is counted once.
fn counted(report: &Value) -> [u64; 2] {
    let ways = report["directions"].as_array().unwrap_or_else(|| panic!("no directions: {report}"));
    let counts = ways.iter().map(|way| {
        let number =
            |of: &str, key: &str| way[of][key].as_u64().unwrap_or_else(|| panic!("no {of} {key}: {way}"));
        let mut keys = Ledger::TABLE.iter();
        let ledger = Ledger::read(&mut || keys.next().map_or(0, |counter| number("frames", counter.key)));
        let [came, known] = ledger.sums();
        let between = number("crossed", "to_others") - number("crossed", "from_others");
        assert_eq!(came, known + between + number("crossed", "refused"), "a frame is lost or doubled: {way}");
        [came, number("frames", "delivered")]
    });
    let counts: Vec<[u64; 2]> = counts.collect();
    counts[0]
}

/// Returns the resident memory of a process, KiB.
fn memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}
