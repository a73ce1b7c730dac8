//! The TCP of the lab beside that of a Linux kernel, on the same scenarios.
//!
//!     cargo run --release -p txweir-kernel --example referee KERNEL
//!
//! KERNEL is a User-Mode Linux (`oracle/build --path`). Four streams and a ping share a link of 20
//! Mbit/s behind a router, with a round trip of 20 ms, for 12 s of which the last 8 are measured.
//! Each row has two lines: the hosts' stack is that of the lab, and that of the kernel.

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

fn scenario(stack: &str, control: &str, queue: &str) -> String {
    let ecn = if control == "dctcp" { "classic" } else { "off" };
    let host = format!("stack = '{stack}'\necn = '{ecn}'");
    let traffic = format!("from = 'a'\nto = 'b'\ncongestion = '{control}'");
    format!(
        "title = 'referee'\nduration = '12s'\nwarmup = '4s'\n\
         [[host]]\nname = 'a'\ntso = '65226'\n{host}\n[[host]]\nname = 'r'\n[[host]]\nname = 'b'\n{host}\n\
         [[link]]\nfrom = 'a'\nto = 'r'\nrate = '1gbit'\n\
         [[link]]\nfrom = 'r'\nto = 'b'\nrate = '20mbit'\ndelay = '10ms'\npolicy = 'qdisc add root {queue}'\n\
         [[traffic]]\nname = 'bulk'\nkind = 'stream'\ncount = 4\n{traffic}\n\
         [[traffic]]\nname = 'ping'\nkind = 'rr'\nsize = '100'\n{traffic}\n"
    )
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
    for queue in QUEUES {
        for control in CONTROLS {
            // Marks are for those who answer them, and drops for the others.
            if queue.contains("ce_threshold") != (control == "dctcp") {
                continue;
            }
            for stack in ["lab", "linux"] {
                let (report, seconds) = measured(&scenario(stack, control, queue), &program)?;
                let (bulk, ping, link) = (&report.traffic[0], &report.traffic[1], &report.links[2]);
                let ms = |ns: u64| ns as f64 / 1e6;
                let latency = ping.latency.ok_or("no ping has come back")?;
                // The measured part is two thirds of the run.
                let packets: u64 = report.links.iter().map(|link| link.tx_packets).sum();
                println!(
                    "{:<34}{:>8.2}{:>9.3}{:>8}k{:>8.1}ms{:>7.0}ms{:>8}{:>8}{:>12.0}",
                    if stack == "lab" {
                        format!("{control}, {queue}")
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
    }
    Ok(())
}
