//! The options of `txweir check` and `txweir try` about a script that is run.

use std::path::PathBuf;
use std::time::Duration;

use txweir::core::text::value;
use txweir::lint::machine::MachineOptions;
use txweir::lint::recording::Recording;
use txweir::{Nanos, Rate};

use crate::enclosed::{self, End, Limits};
use crate::{Failure, output};

/// The script, and the limits of its run.
#[derive(Debug, clap::Args)]
pub struct Script {
    /// Run a script against devices in memory, without any effect on the machine, and take its tc
    /// lines; all words after this one are the script's
    #[arg(long, value_names = ["SCRIPT", "ARGS"], num_args = 1.., allow_hyphen_values = true)]
    pub run: Vec<String>,
    /// Longest time of the script's run
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "run")]
    run_time: String,
    /// Most calls of tc and of the other commands in the script's run
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "run")]
    run_calls: usize,
    /// Transmit queues of a device in the script's run, unless the device is virtual
    #[arg(long, value_name = "N", default_value_t = 4, requires = "run")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    run_queues: u16,
    /// Write the tc lines of the script's run to a file
    #[arg(long, value_name = "FILE", requires = "run")]
    record: Option<PathBuf>,
}

impl Script {
    /// Returns the script's name, without its directory.
    pub fn name(&self) -> &str {
        self.run.first().map_or("", |script| script.rsplit('/').next().unwrap_or(script))
    }

    /// Returns the number of transmit queues of a device that is not virtual.
    pub const fn queues(&self) -> u16 {
        self.run_queues
    }

    /// Runs the script on a machine with these devices, and says on stderr how it went.
    pub fn record(&self, machine: MachineOptions) -> Result<(Recording, End), Failure> {
        let time: Nanos = value::with_unit(&self.run_time).map_err(|_| {
            Failure::usage(format!("--run-time {}: expected a time with its unit (60s)", self.run_time))
        })?;
        let machine = MachineOptions { queues: self.run_queues, ..machine };
        let mut recording = Recording::new(&machine);
        let limits = Limits { time: Duration::from_nanos(time.0), calls: self.run_calls };
        let (end, notes) = enclosed::run(&self.run, limits, &mut recording)?;
        let how = match &end {
            End::Status(status) => format!("exit status {status}"),
            End::Stopped(limit) => format!("stopped: {limit}"),
        };
        output::say(format!("txweir: {}: {how}; {}\n", self.name(), recording.summary()));
        notes.iter().for_each(|note| output::say(format!("txweir: --run: {note}\n")));
        if let Some(path) = &self.record {
            let text = format!("#!/bin/sh\n{}", recording.text());
            std::fs::write(path, text)
                .map_err(|e| Failure::usage(format!("--record {}: {e}", path.display())))?;
        }
        Ok((recording, end))
    }
}

/// Returns the rate of `DEV=RATE`, and of a bare rate; `None` for a text that is neither.
pub fn rate(text: &str) -> Option<Rate> {
    value::with_unit(text).ok().filter(|r: &Rate| r.0 > 0)
}
