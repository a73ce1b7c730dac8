//! `txweir daemon`: owns links, and changes them as clients ask, until a signal.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use txweir::Instant;
use txweir::daemon::{Daemon, Listener, Server, socket};
use txweir::device::{Signals, clock};

use crate::Failure;
use crate::run::Samples;

/// Options of `txweir daemon`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Socket for clients [default: TXWEIR_SOCKET, or txweir.sock in XDG_RUNTIME_DIR, or for root
    /// /run/txweir.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// File of link and tc lines that are applied at the start, as `txweir tc save` writes it; `-`
    /// is stdin
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    #[command(flatten)]
    pub samples: Samples,
}

/// Runs `txweir daemon`.
pub fn main(args: Args) -> Result<(), Failure> {
    let path = socket::path(args.socket.as_deref()).map_err(Failure::usage)?;
    let signals = Signals::take().map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    let mut daemon = Daemon::new();
    args.samples.open(daemon.links_mut().notes_mut())?;
    if let Some(file) = &args.config {
        configure(&mut daemon, file)?;
    }
    // Only now: a client that finds the socket finds the configuration as well.
    let listener = Listener::bind(&path).map_err(Failure::usage)?;
    let ready = format!("ready: {}\n", listener.path().display());
    let mut out = io::stdout().lock();
    // A closed stdout is no reason not to serve.
    let _ = out.write_all(ready.as_bytes()).and_then(|()| out.flush());
    drop(out);
    let mut server = Server::new(daemon, listener);
    let served = server.serve(&signals);
    if let Some(said) = args.samples.said(server.daemon_mut().links_mut().notes_mut()) {
        let _ = io::stderr().write_all(said.as_bytes());
    }
    // A signal that is not taken here would have its default effect once they are given back.
    while let Ok(Some(_)) = signals.pending() {}
    served.map_err(Failure::failed)
}

/// Applies a configuration, before a client can send requests. The daemon's own words report its
/// errors.
fn configure(daemon: &mut Daemon, file: &Path) -> Result<(), Failure> {
    let (name, text) = match file.to_str() {
        Some("-") => ("<stdin>".to_owned(), io::read_to_string(io::stdin())),
        _ => (file.display().to_string(), fs::read_to_string(file)),
    };
    let text = text.map_err(|e| Failure::usage(format!("--config {name}: {e}")))?;
    let reply = daemon.configure(Instant(clock::now_ns()), &name, &text);
    // stderr has the warnings too.
    let _ = io::stderr().write_all(reply.stderr.as_bytes());
    match reply.status {
        0 => Ok(()),
        _ => Err(Failure::usage(format!("--config {name}: not started, because of these lines"))),
    }
}
