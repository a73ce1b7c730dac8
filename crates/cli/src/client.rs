//! One request to a running daemon.

use std::path::Path;
use std::process::ExitCode;

use txweir::daemon::protocol::{Ask, Reply};
use txweir::daemon::{Client, socket};

use crate::{Failure, output};

/// Connects to the daemon at `socket`, or at the default place.
pub fn connect(socket: Option<&Path>) -> Result<Client, Failure> {
    let path = socket::path(socket).map_err(Failure::usage)?;
    Client::connect(&path).map_err(Failure::usage)
}

/// Sends a request and returns the reply.
pub fn reply(socket: Option<&Path>, ask: &Ask) -> Result<Reply, Failure> {
    connect(socket)?.ask(ask).map_err(Failure::usage)
}

/// Sends a request, prints the reply and returns its exit status.
pub fn ask(socket: Option<&Path>, ask: &Ask) -> Result<ExitCode, Failure> {
    let reply = reply(socket, ask)?;
    print(&reply)?;
    Ok(ExitCode::from(reply.status))
}

/// Prints the texts of a reply.
pub fn print(reply: &Reply) -> Result<(), Failure> {
    output::say(&reply.stderr);
    output::print(&reply.stdout)
}
