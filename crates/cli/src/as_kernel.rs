//! `txweir as-kernel`: runs a program whose kernel, for traffic control, is the daemon.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use txweir::daemon::socket;

use crate::Failure;

/// Options of `txweir as-kernel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The daemon's socket; that for messages of rtnetlink has `.netlink` behind its path
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The daemon's socket for messages of rtnetlink
    #[arg(long, value_name = "PATH", conflicts_with = "socket")]
    pub netlink: Option<PathBuf>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Returns the path of the socket for messages beside the one for lines.
pub fn beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_os_string();
    path.push(".netlink");
    path.into()
}

/// Runs `txweir as-kernel`.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let path = match args.netlink {
        Some(path) => path,
        None => beside(&socket::path(args.socket.as_deref()).map_err(Failure::usage)?),
    };
    // A socket of packets is there if it refuses one of bytes.
    let there = UnixStream::connect(&path).is_err_and(|e| e.raw_os_error() == Some(PROTOTYPE));
    if !there {
        let path = path.display();
        let text = format!("no daemon takes messages at {path}: start one with `txweir daemon --netlink`");
        return Err(Failure::usage(text));
    }
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Failure::usage("as-kernel: expected a program"));
    };
    let status = txweir_supervise::run(Command::new(program).args(arguments), &path)
        .map_err(|e| Failure::usage(format!("as-kernel: cannot run {}: {e}", program.display())))?;
    // As a shell reports the end by a signal.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// `EPROTOTYPE`: the socket is of another type.
const PROTOTYPE: i32 = 91;
