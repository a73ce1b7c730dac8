//! The txweir command: each subcommand is a module with its options, `Args`, and its body, `main`.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` writes: it reports errors, and cleans"
)]

mod as_kernel;
mod bar;
mod batch;
mod bench;
mod check;
mod client;
mod confine;
mod daemon;
mod enclosed;
mod failure;
mod flent;
mod follow;
mod input;
mod kernels;
mod kinds;
mod lab;
mod link;
mod live;
mod metrics;
mod output;
mod page;
mod pages;
mod policy;
mod recorded;
mod replay;
mod run;
mod script;
mod service;
mod shape;
mod sweep;
mod tc;
mod top;
mod try_policy;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(crate) use failure::Failure;

/// The daemon builds and frees large policies between packets. The C library's allocator gathers
/// all small freed pieces in one step, for which packets would wait; this one does not.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The transmit side of a network stack, in user space
///
/// Qdiscs, byte queue limits and back-pressure run in virtual time, to show the effect of a policy;
/// live, between two interfaces; and in your own program, as the crate txweir.
#[derive(Debug, Parser)]
#[command(
    name = "txweir",
    version,
    disable_help_subcommand = true,
    after_help = "Exit status: 0 for success, 1 if an input cannot be read or opened, 2 for a later failure, \
                  such as output that cannot be written."
)]
struct Cli {
    /// The daemon's socket, for daemon, link, tc, as-kernel, follow and top
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run traffic through a policy in virtual time
    Lab(lab::Args),
    /// Run policies in virtual time on the same traffic, and compare them
    Try(try_policy::Args),
    /// Explain what a policy does on Linux, and warn about likely mistakes
    Check(check::Args),
    /// Run experiments on live links, in network namespaces of their own
    Live(live::Args),
    /// Carry live packets between two interfaces, through qdiscs and a byte limit
    Run(run::Args),
    /// Put qdiscs between this machine and one of its interfaces
    Shape(shape::Args),
    /// Own links; the link and tc commands change them while they run
    Daemon(daemon::Args),
    /// Add, change, remove and show the links of a running daemon
    Link(link::Args),
    /// Send tc(8) commands to a running daemon
    Tc(tc::Args),
    /// Run a program so that a running daemon is its kernel for traffic control: tc, ip and other
    /// users of rtnetlink
    AsKernel(as_kernel::Args),
    /// Copy the policy of a device of the kernel into a link of a running daemon, and keep it so
    Follow(follow::Args),
    /// Show the rates, queues and drops of a running daemon's links, until a key
    Top(top::Args),
    /// Measure the time per packet of the path, beside other queues
    Bench(bench::Args),
    /// List the qdiscs, or show the parameters and counters of one kind
    Kinds(kinds::Args),
    /// Print a shell's completions of this command line
    Completions(pages::Completions),
    /// Write the pages of the manual into a folder
    #[command(hide = true)]
    Man(pages::Man),
    /// Do the work of a kernel of the lab, as its process 1
    #[command(hide = true)]
    KernelInit {
        /// Words that a kernel adds
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    if let Some(status) = enclosed::as_part_of_a_run() {
        return status;
    }
    let cli = match Cli::try_parse_from(arguments()) {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            return output::of_clap(&e).map_or_else(Failure::report, |()| ExitCode::SUCCESS);
        }
        Err(e) => return failure::of_arguments(&e),
    };
    match run(cli) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}

/// Returns the arguments. Under the name of tc the command is `txweir tc`.
fn arguments() -> Vec<OsString> {
    let mut all: Vec<OsString> = std::env::args_os().collect();
    if all.first().and_then(|name| Path::new(name).file_name()).is_some_and(|name| name == "tc") {
        all.insert(1, "tc".into());
    }
    all
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let socket = cli.socket;
    let of_daemon = matches!(
        cli.command,
        Command::Daemon(_)
            | Command::Link(_)
            | Command::Tc(_)
            | Command::AsKernel(_)
            | Command::Follow(_)
            | Command::Top(_)
    );
    if let Some(path) = socket.as_ref().filter(|_| !of_daemon) {
        let path = path.display();
        return Err(Failure::usage(format!(
            "--socket {path}: only daemon, link, tc, as-kernel, follow and top have a socket"
        )));
    }
    match cli.command {
        Command::Check(args) => return check::main(args),
        Command::Lab(args) => return lab::main(args),
        Command::Live(args) => return live::main(&args),
        Command::Link(args) => return link::main(link::Args { socket: args.socket.or(socket), ..args }),
        Command::Tc(args) => return tc::main(tc::Args { socket: args.socket.or(socket), ..args }),
        Command::AsKernel(args) => {
            return as_kernel::main(as_kernel::Args { socket: args.socket.or(socket), ..args });
        }
        Command::Follow(args) => {
            return follow::main(&follow::Args { socket: args.socket.or(socket), ..args });
        }
        Command::Daemon(args) => daemon::main(daemon::Args { socket: args.socket.or(socket), ..args }),
        Command::Top(args) => top::main(top::Args { socket: args.socket.or(socket), ..args }),
        Command::Try(args) => try_policy::main(args),
        Command::Run(args) => run::main(args),
        Command::Shape(args) => shape::main(args),
        Command::Bench(args) => bench::main(args),
        Command::Kinds(args) => kinds::main(args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
        Command::KernelInit { .. } => {
            txweir::kernel::work();
            Err(Failure::usage("kernel-init: only process 1 of a kernel of the lab has this work"))
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
