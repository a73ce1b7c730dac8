//! The TCP of the lab beside that of a Linux kernel, on the same scenarios.
//!
//!     cargo run --release -p txweir-kernel --example referee KERNEL
//!
//! KERNEL is a User-Mode Linux (`oracle/build --path`). Four streams and a ping share a link of
//! 20 Mbit/s behind a router, with a round trip of 20 ms, for 12 s of which the last 8 are
//! measured; in the last row it is the sender's own link. Each row has two lines: the hosts' stack
//! is that of the lab, and that of the kernel.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use txweir_kernel::{Kernel, Program, work};
use txweir_lab::report::Report;
use txweir_lab::run::{Boot, Options, run};
use txweir_lab::scenario::Scenario;

const QUEUES: [&str; 4] =
    ["fq_codel", "pfifo limit 50", "cake bandwidth 19mbit", "fq_codel ce_threshold 1ms"];
const CONTROLS: [&str; 4] = ["reno", "cubic", "bbr", "dctcp"];

/// Returns the scenario whose bottleneck is behind the router, or the sender's own link.
fn scenario(stack: &str, control: &str, queue: &str, is_own: bool) -> String {
    let slow = format!("rate = '20mbit'\ndelay = '10ms'\npolicy = 'qdisc add root {queue}'");
    let fast = "rate = '1gbit'".to_owned();
    let [near, far] = if is_own { [slow, fast] } else { [fast, slow] };
    [
        ("DURATION", "12s"),
        ("WARMUP", "4s"),
        ("STACK", stack),
        ("ECN", if control == "dctcp" { "classic" } else { "off" }),
        ("CONTROL", control),
        ("NEAR", &near),
        ("FAR", &far),
    ]
    .into_iter()
    .fold(include_str!("referee.toml").to_owned(), |text, (word, value)| text.replace(word, value))
}

fn measured(text: &str, program: &Program) -> Result<(Report, f64), String> {
    let scenario = Scenario::parse(text, "referee").map_err(|error| error.to_string())?;
    let program = program.clone();
    let boot: Boot = Box::new(move |plan| Ok(Box::new(Kernel::boot(&program, plan)?)));
    let begun = Instant::now();
    let report = run(&scenario, Options { boot: Some(boot), ..Options::default() }, |_| {});
    Ok((report.map_err(|error| error.to_string())?, begun.elapsed().as_secs_f64()))
}

fn main() -> ExitCode {
    // In a kernel this is process 1.
    work();
    let Some(kernel) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("referee: expected the path of a User-Mode Linux (oracle/build --path prints one)");
        return ExitCode::FAILURE;
    };
    match table(kernel) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("referee: {error}");
            ExitCode::FAILURE
        }
    }
}

fn table(kernel: PathBuf) -> Result<(), String> {
    let kernel = kernel.canonicalize().map_err(|error| format!("{}: {error}", kernel.display()))?;
    let init = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = Program { kernel, init, words: Vec::new() };
    println!(
        "{:<34}{:>8}{:>9}{:>9}{:>10}{:>9}{:>8}{:>8}{:>12}",
        "", "Mbit/s", "fairness", "resent", "ping p50", "p99", "drops", "marks", "packets/s"
    );
    // Marks are for those who answer them, and drops for the others.
    let answers = |queue: &str, control| queue.contains("ce_threshold") == (control == "dctcp");
    let rows = QUEUES.iter().flat_map(|queue| CONTROLS.map(|control| (control, *queue, false)));
    let rows = rows.filter(|(control, queue, _)| answers(queue, *control));
    for (control, queue, is_own) in rows.chain([("cubic", "pfifo limit 50", true)]) {
        let place = if is_own { ", own link" } else { "" };
        for stack in ["lab", "linux"] {
            let (report, seconds) = measured(&scenario(stack, control, queue, is_own), &program)?;
            let [near, _, far, _] = &report.links[..] else { return Err("expected two links".to_owned()) };
            let (bulk, ping, link) =
                (&report.traffic[0], &report.traffic[1], if is_own { near } else { far });
            let ms = |ns: u64| ns as f64 / 1e6;
            let latency = ping.latency.ok_or("no ping has come back")?;
            // The measured part is two thirds of the run.
            let packets: u64 = report.links.iter().map(|link| link.tx_packets).sum();
            println!(
                "{:<34}{:>8.2}{:>9.3}{:>8}k{:>8.1}ms{:>7.0}ms{:>8}{:>8}{:>12.0}",
                if stack == "lab" {
                    format!("{control}, {queue}{place}")
                } else {
                    "  a Linux kernel".to_owned()
                },
                bulk.throughput_bit_s as f64 / 1e6,
                bulk.jain,
                bulk.retransmitted_bytes / 1_000,
                ms(latency.p50_ns),
                ms(latency.p99_ns),
                link.drops.values().sum::<u64>(),
                link.marks.values().sum::<u64>(),
                packets as f64 * 1.5 / seconds,
            );
        }
    }
    Ok(())
}
