//! `txweir lab`: virtual time.

use std::path::PathBuf;

use clap::Subcommand;

use crate::Failure;

/// Options of `txweir lab`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario file and print what it measures
    Run {
        /// Scenario, TOML: hosts, links, policy, traffic, seed, duration, what to measure
        file: PathBuf,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
        /// Seed of everything random, in place of the scenario's; the same seed gives the same run
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Write what every link carried into this directory, one pcap file each
        #[arg(long, value_name = "DIR")]
        pcap: Option<PathBuf>,
    },
    /// Reproduce published results and print them beside the measured ones
    Reproduce {
        /// One experiment [default: all]
        name: Option<String>,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

/// Runs `txweir lab`.
pub fn main(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Run { file, .. } => {
            Err(Failure::failed(format!("{}: the lab is not wired yet", file.display())))
        }
        Command::Reproduce { .. } => Err(Failure::failed("the lab is not wired yet")),
    }
}
