//! One question to a running daemon.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use txweir::daemon::protocol::{Ask, Reply};
use txweir::daemon::{Client, socket};

use crate::Failure;

/// The daemon at `socket`, or where it is by default.
pub fn connect(socket: Option<&Path>) -> Result<Client, Failure> {
    let path = socket::path(socket).map_err(Failure::usage)?;
    Client::connect(&path).map_err(Failure::usage)
}

/// Asks it; its reply.
pub fn reply(socket: Option<&Path>, ask: &Ask) -> Result<Reply, Failure> {
    connect(socket)?.ask(ask).map_err(Failure::usage)
}

/// Asks, and prints the reply: its exit status.
pub fn ask(socket: Option<&Path>, ask: &Ask) -> Result<ExitCode, Failure> {
    let reply = reply(socket, ask)?;
    print(&reply)?;
    Ok(ExitCode::from(reply.status))
}

/// Prints what a reply says.
pub fn print(reply: &Reply) -> Result<(), Failure> {
    // There is nowhere else to say that stderr is gone.
    let _ = io::stderr().write_all(reply.stderr.as_bytes());
    match io::stdout().write_all(reply.stdout.as_bytes()).and_then(|()| io::stdout().flush()) {
        // A reader that has gone away misses nothing.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}
