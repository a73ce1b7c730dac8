//! The txweir command: each subcommand is a module with its options, `Args`, and its body, `main`.

mod bar;
mod bench;
mod check;
mod failure;
mod kinds;
mod lab;
mod policy;
mod run;
mod try_policy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(crate) use failure::Failure;

/// The transmit side of a network stack, in user space
///
/// Qdiscs, byte queue limits and back-pressure: in virtual time, to see what a policy does; live, between two
/// interfaces; and, as the crate txweir, in your own program.
#[derive(Debug, Parser)]
#[command(
    name = "txweir",
    version,
    disable_help_subcommand = true,
    after_help = "Exit status: 0 if all is well, 1 for what cannot be read or opened, 2 for what goes wrong after."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run traffic through a policy in virtual time
    Lab(lab::Args),
    /// Run policies in virtual time on the same traffic, and compare
    Try(try_policy::Args),
    /// Carry live packets between two interfaces, through qdiscs and a byte limit
    Run(run::Args),
    /// Say what a policy would do on Linux, and what of it is hardly meant
    Check(check::Args),
    /// Time the path itself, beside other queues
    Bench(bench::Args),
    /// List the qdiscs, or show the parameters and counters of one
    Kinds(kinds::Args),
}

fn main() -> ExitCode {
    failure::end_quietly_without_a_reader();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            // A reader that has gone away misses nothing.
            let _ = e.print();
            return ExitCode::SUCCESS;
        }
        Err(e) => return failure::of_arguments(&e),
    };
    let done = match cli.command {
        Command::Lab(args) => lab::main(args),
        Command::Try(args) => try_policy::main(args),
        Command::Run(args) => run::main(args),
        Command::Check(args) => match check::main(args) {
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
        Command::Bench(args) => bench::main(args),
        Command::Kinds(args) => kinds::main(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
