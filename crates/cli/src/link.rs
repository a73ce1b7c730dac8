//! `txweir link`: shows and changes the links of a running daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use txweir::daemon::grammar;
use txweir::daemon::protocol::Ask;

use crate::{Failure, client, output};

/// Options of `txweir link` itself; the rest are the daemon's.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// add, set, replace, del, show, send; see `txweir link --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    pub words: Vec<String>,
}

/// Runs `txweir link`.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    // Help and unreadable words need no daemon.
    match grammar::read(&args.words) {
        Ok(_) => client::ask(args.socket.as_deref(), &Ask::Link { args: args.words }),
        Err(not_read) if not_read.help => {
            output::print(not_read.text)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(not_read) => Err(Failure::usage(not_read.text)),
    }
}
