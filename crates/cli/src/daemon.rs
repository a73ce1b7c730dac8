//! `txweir daemon`: owns links, and changes them as clients ask, until a signal.

use std::fs::File;
use std::path::{Path, PathBuf};

use txweir::Instant;
use txweir::core::Bytes;
use txweir::core::text::value::{self, Value};
use txweir::daemon::socket::{Gid, own_group};
use txweir::daemon::{Daemon, Listener, RunError, Server, socket};
use txweir::device::{Signal, Signals, clock};

use crate::confine::Confine;
use crate::metrics::{self, Place};
use crate::run::Samples;
use crate::{Failure, input, output};

/// Options of `txweir daemon`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Socket for clients [default: TXWEIR_SOCKET, or txweir.sock in XDG_RUNTIME_DIR, or for root
    /// /run/txweir.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// File of link and tc lines that are applied at the start, as `txweir tc save` writes it, and
    /// again at SIGHUP; links wait for interfaces that do not exist; at most 16 MiB; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Second socket, whose clients may only look: show, list, get, save, version
    #[arg(long, value_name = "PATH")]
    pub socket_read: Option<PathBuf>,

    /// Group whose members may use that socket (mode 0660), by name or number [default: the
    /// daemon's own]
    #[arg(long, value_name = "GROUP", requires = "socket_read", value_parser = socket::group)]
    pub socket_read_group: Option<Gid>,

    /// Serve metrics in the format of OpenMetrics, by HTTP, as http://ADDRESS/metrics; a PATH is
    /// that of a Unix socket
    #[arg(long, value_name = "ADDRESS|PATH", value_parser = metrics::place)]
    pub metrics: Option<Place>,

    /// Print a line on stderr for each change that a client makes or attempts, with its user, group
    /// and process
    #[arg(long)]
    pub log_changes: bool,

    /// Keep CAP_SYS_ADMIN, which opening an interface in another network namespace needs [default:
    /// only if --config has such a link]
    #[arg(long)]
    pub keep_netns: bool,

    /// Most memory of the tables of the qdiscs on all links together
    #[arg(long, value_name = "SIZE", default_value = "1gb", value_parser = size)]
    pub tables: Bytes,

    #[command(flatten)]
    pub samples: Samples,

    #[command(flatten)]
    pub confine: Confine,
}

/// Reads a size.
fn size(text: &str) -> Result<Bytes, String> {
    value::with_unit(text).map_err(|_| format!("expected {}, given {text}", Bytes::EXPECTED))
}

/// Runs `txweir daemon`.
pub fn main(args: Args) -> Result<(), Failure> {
    let path = socket::path(args.socket.as_deref()).map_err(Failure::usage)?;
    // The configuration is read before signals are taken: until then they end the process at once,
    // also while it waits for a pipe.
    let config = args.config.as_deref().map(config).transpose()?;
    let signals = Signals::take_these(&Signal::ALL)
        .map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    let mut daemon = Daemon::new();
    daemon.links_mut().set_tables(args.tables.0);
    args.samples.open(daemon.links_mut().notes_mut())?;
    if let Some((name, text)) = &config {
        configure(&mut daemon, name, text)?;
    }
    // Only now: a client that finds the socket finds the configuration as well.
    let listener = Listener::bind(&path).map_err(Failure::usage)?;
    let readers =
        args.socket_read.as_deref().map(|path| readers(path, args.socket_read_group)).transpose()?;
    let metrics = args.metrics.as_ref().map(Place::bind).transpose()?;
    args.confine.enter(args.keep_netns || daemon.links().enter_namespaces())?;
    if let Some(file) = args.config.as_deref() {
        check_again(file);
    }
    let ready = format!("ready: {}\n", listener.path().display());
    // An error of stdout is no reason not to serve.
    if let Err(failure) = output::print(ready) {
        failure.report();
    }
    let mut server = Server::new(daemon, listener).with_logged_changes(args.log_changes);
    if let Some(readers) = readers {
        server = server.with_readers(readers);
    }
    if let Some(metrics) = metrics {
        server = server.with_metrics(metrics);
    }
    let served = serve(&mut server, &signals, args.config.as_deref());
    if let Some(said) = args.samples.said(server.daemon_mut().links_mut().notes_mut()) {
        output::say(said);
    }
    // A signal that is not taken here would have its default effect once they are given back.
    while let Ok(Some(_)) = signals.pending() {}
    served.map_err(Failure::failed)
}

/// Makes the socket whose clients may only look.
fn readers(path: &Path, group: Option<Gid>) -> Result<Listener, Failure> {
    let listener = Listener::bind(path).and_then(|listener| listener.open_to(group.unwrap_or(own_group())));
    listener.map_err(|e| Failure::usage(format!("--socket-read: {e}")))
}

/// Prints a line if the configuration cannot be read again: without `CAP_DAC_OVERRIDE` root opens
/// only the files that their mode lets it open.
fn check_again(file: &Path) {
    if !file.metadata().is_ok_and(|there| there.is_file()) {
        return;
    }
    if let Err(e) = File::open(file) {
        say(&format!("--config {}: cannot be read again at SIGHUP: {e}", file.display()));
    }
}

/// Serves until SIGINT or SIGTERM. SIGHUP makes it read its configuration again.
fn serve(server: &mut Server, signals: &Signals, config: Option<&Path>) -> Result<(), RunError> {
    loop {
        server.serve(signals)?;
        while let Some(signal) = signals.pending().map_err(RunError::System)? {
            match (signal, config) {
                (Signal::Interrupt | Signal::Terminate, _) => return Ok(()),
                (Signal::Hangup, Some(file)) => reload(server.daemon_mut(), file),
                (Signal::Hangup, None) => say("SIGHUP: ignored: there is no --config to be read again"),
                (Signal::User1 | Signal::User2, _) => say(&format!("{}: ignored", signal.name())),
            }
        }
    }
}

/// Prints one line on stderr, which is the daemon's log.
fn say(line: &str) {
    output::say(format!("txweir: {line}\n"));
}

/// Reads the text of a configuration, and returns its name with it.
fn config(file: &Path) -> Result<(String, String), Failure> {
    input::text(file).map_err(|e| Failure::usage(format!("--config {e}")))
}

/// Applies a configuration, before a client can send requests. The daemon's own words report its
/// errors.
fn configure(daemon: &mut Daemon, name: &str, text: &str) -> Result<(), Failure> {
    let reply = daemon.configure(Instant(clock::now_ns()), name, text);
    // stderr has the warnings too.
    output::say(&reply.stderr);
    match reply.status {
        0 => Ok(()),
        _ => Err(Failure::usage(format!("--config {name}: not started, because of these lines"))),
    }
}

/// Applies the configuration again: the links and qdiscs stay as they are if a line of it is wrong.
/// Packets wait meanwhile, so that only an ordinary file is read, which is there at once.
fn reload(daemon: &mut Daemon, file: &Path) {
    let name = file.display();
    let given = match file.metadata() {
        Ok(there) if there.is_file() => None,
        Ok(there) if there.is_dir() => Some("a directory".to_owned()),
        Ok(_) => Some("a pipe or a device".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(given) = given {
        let expected = "expected an ordinary file, given";
        return say(&format!("SIGHUP: --config {name}: not read again: {expected} {given}"));
    }
    let (name, text) = match input::text(file) {
        Ok(read) => read,
        Err(e) => return say(&format!("SIGHUP: --config {e}: nothing has changed")),
    };
    let reply = daemon.reload(Instant(clock::now_ns()), &name, &text);
    output::say(&reply.stderr);
    say(&match reply.status {
        0 => format!("SIGHUP: --config {name}: applied"),
        _ => format!("SIGHUP: --config {name}: not applied, because of these lines"),
    });
}
