//! `txweir daemon`: owns links, and changes them as clients ask, until a signal.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::{Builder, scope};

use txweir::Instant;
use txweir::core::Bytes;
use txweir::core::text::value::{self, Value};
use txweir::daemon::notify::{Manager, Told};
use txweir::daemon::socket::{Gid, own_group};
use txweir::daemon::state::{self, Keeper};
use txweir::daemon::{Daemon, Entrance, Listener, RunError, RunOptions, Sandbox, Server, socket};
use txweir::device::{Signal, Signals, clock, cpu};
use txweir::runtime::Level;
use txweir::tc::printable::clean;

use crate::confine::Confine;
use crate::metrics::{self, Place};
use crate::run::{Samples, crew};
use crate::service::{self, Sockets};
use crate::{Failure, as_kernel, input, output};

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

    /// Socket for messages of rtnetlink, by which programs under `txweir as-kernel` reach the
    /// daemon [default PATH: that of --socket with `.netlink` behind it]
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub netlink: Option<Option<PathBuf>>,

    /// Serve metrics in the format of OpenMetrics, by HTTP, as http://ADDRESS/metrics; a PATH is
    /// that of a Unix socket
    #[arg(long, value_name = "ADDRESS|PATH", value_parser = metrics::place)]
    pub metrics: Option<Place>,

    /// Directory in which the links and their qdiscs are saved after each change, and from which
    /// they come back at the start, ahead of --config
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// Print a line on stderr for the start, the end, and each change that a client makes or
    /// attempts, with its user, group and process
    #[arg(long)]
    pub log_changes: bool,

    /// Print a line on stderr for each link and reason by which more than RATE packets a second are
    /// dropped, at most every ten seconds
    #[arg(long, value_name = "RATE")]
    pub log_drops: Option<u64>,

    /// Begin each line on stderr with the time in UTC; the journal of systemd gets the level
    /// instead
    #[arg(long)]
    pub log_times: bool,

    /// Keep CAP_SYS_ADMIN, which opening an interface in another network namespace needs [default:
    /// only if --config or the saved state has such a link]
    #[arg(long)]
    pub keep_netns: bool,

    /// Keep CAP_BPF and CAP_IPC_LOCK, which opening an interface by XDP sockets needs [default:
    /// only if --config or the saved state has such a link]
    #[arg(long)]
    pub keep_xdp: bool,

    /// Most memory of the tables of the qdiscs on all links together
    #[arg(long, value_name = "SIZE", default_value = "1gb", value_parser = size)]
    pub tables: Bytes,

    /// Processors of the workers of links (`link add --workers`), in turns (0,1,4)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..1024))]
    pub pin: Vec<u16>,

    /// Workers look for packets all the time instead of sleeping until there are some
    #[arg(long)]
    pub busy_poll: bool,

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
    let given = Sockets::take()?;
    let manager = Manager::of_environment().map_err(Failure::usage)?;
    check_pins(&args.pin)?;
    // The configuration is read before signals are taken: until then they end the process at once,
    // also while it waits for a pipe.
    let config = args.config.as_deref().map(config).transpose()?;
    let signals = Signals::take_these(&Signal::ALL)
        .map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    let mut daemon = Daemon::new();
    daemon.links_mut().set_tables(args.tables.0);
    daemon.links_mut().notes_mut().set_stamp(service::stamp(args.log_times));
    args.samples.open(daemon.links_mut().notes_mut())?;
    if let Some(dir) = &args.state {
        restore(&mut daemon, dir)?;
    }
    if let Some((name, text)) = &config {
        configure(&mut daemon, "--config", name, text)?;
    }
    // Only now: a client that finds the socket finds the configuration as well.
    let listener = match given.control {
        Some(listener) => listener,
        None => socket::path(args.socket.as_deref())
            .and_then(|path| Listener::bind(&path))
            .map_err(Failure::usage)?,
    };
    let readers = match args.socket_read.as_deref() {
        Some(path) => Some(readers(path, args.socket_read_group)?),
        None => given.readers,
    };
    let netlink = match &args.netlink {
        Some(path) => {
            let path = path.clone().unwrap_or_else(|| as_kernel::beside(listener.path()));
            Some(Listener::bind_packets(&path).map_err(|e| Failure::usage(format!("--netlink: {e}")))?)
        }
        None => None,
    };
    let metrics = args.metrics.as_ref().map(Place::bind).transpose()?.or(given.metrics);
    let links = daemon.links();
    args.confine.enter(Sandbox {
        keep_netns: args.keep_netns || links.enter_namespaces(),
        keep_xdp: args.keep_xdp || links.use_xdp(),
        keep_files: args.state.is_some(),
        ..Sandbox::default()
    })?;
    let keeper = args.state.as_deref().map(|dir| keep(dir, &daemon)).transpose()?;
    if let Some(file) = args.config.as_deref() {
        check_again(&mut daemon, file);
    }
    let ready = format!("ready: {}\n", listener.path().display());
    // An error of stdout is no reason not to serve.
    if let Err(failure) = output::print(ready) {
        failure.report();
    }
    let mut server = equipped(Server::new(daemon, listener), &args, readers, metrics, keeper);
    if let Some(netlink) = netlink {
        server = server.with_netlink(netlink);
    }
    if args.log_changes {
        let links = server.daemon_mut().links().all().len();
        say(
            server.daemon_mut(),
            Level::Notice,
            &format!("start: {}, {links} links", env!("CARGO_PKG_VERSION")),
        );
    }
    manager.tell(Told::Ready);
    let served = serve(&mut server, &signals, args.config.as_deref(), &manager);
    manager.tell(Told::Stopping);
    if let Err(e) = server.end() {
        say(server.daemon_mut(), Level::Error, &format!("--state: not saved: {e}"));
    }
    if args.log_changes {
        say(server.daemon_mut(), Level::Notice, "end");
    }
    if let Some(said) = args.samples.said(server.daemon_mut().links_mut().notes_mut()) {
        output::say(said);
    }
    // A signal that is not taken here would have its default effect once they are given back.
    while let Ok(Some(_)) = signals.pending() {}
    served.map_err(Failure::failed)
}

/// Checks that workers can run on these processors. A thread of its own is bound to each in turn.
fn check_pins(pins: &[u16]) -> Result<(), Failure> {
    if pins.is_empty() {
        return Ok(());
    }
    let bind = || pins.iter().find_map(|pin| cpu::pin(usize::from(*pin)).err().map(|error| (*pin, error)));
    let tried = scope(|scope| {
        let thread = Builder::new().spawn_scoped(scope, bind)?;
        Ok::<_, std::io::Error>(thread.join().unwrap_or(None))
    });
    match tried {
        Ok(None) => Ok(()),
        Ok(Some((pin, error))) => {
            let usable: Vec<String> = cpu::allowed().iter().map(usize::to_string).collect();
            let usable = usable.join(", ");
            let expected = format!("processors that this process may use ({usable})");
            Err(Failure::usage(format!("--pin: expected {expected}, given {pin}: {error}")))
        }
        Err(error) => Err(Failure::failed(format!("--pin: cannot start a thread: {error}"))),
    }
}

/// Returns the server with all that the options ask for.
fn equipped(
    mut server: Server,
    args: &Args,
    readers: Option<Listener>,
    metrics: Option<Entrance>,
    keeper: Option<Keeper>,
) -> Server {
    server = server.with_logged_changes(args.log_changes);
    server = server.with_workers(crew::threads(&args.pin, args.busy_poll));
    if let Some(readers) = readers {
        server = server.with_readers(readers);
    }
    if let Some(metrics) = metrics {
        server = server.with_metrics(metrics);
    }
    if let Some(rate) = args.log_drops {
        server = server.with_logged_drops(rate);
    }
    match keeper {
        Some(keeper) => server.with_keeper(keeper),
        None => server,
    }
}

/// Makes the socket whose clients may only look.
fn readers(path: &Path, group: Option<Gid>) -> Result<Listener, Failure> {
    let listener = Listener::bind(path).and_then(|listener| listener.open_to(group.unwrap_or(own_group())));
    listener.map_err(|e| Failure::usage(format!("--socket-read: {e}")))
}

/// Prints a line if the configuration cannot be read again: without `CAP_DAC_OVERRIDE` root opens
/// only the files that their mode lets it open.
fn check_again(daemon: &mut Daemon, file: &Path) {
    if !file.metadata().is_ok_and(|there| there.is_file()) {
        return;
    }
    if let Err(e) = File::open(file) {
        let text = format!("--config {}: cannot be read again at SIGHUP: {e}", file.display());
        say(daemon, Level::Warning, &text);
    }
}

/// Serves until SIGINT or SIGTERM. SIGHUP makes it read its configuration again.
fn serve(
    server: &mut Server,
    signals: &Signals,
    config: Option<&Path>,
    manager: &Manager,
) -> Result<(), RunError> {
    let options = RunOptions { stats_interval: manager.interval(), ..RunOptions::default() };
    loop {
        server.run(signals, &options, |_| manager.tell(Told::Alive))?;
        while let Some(signal) = signals.pending().map_err(RunError::System)? {
            match (signal, config) {
                (Signal::Interrupt | Signal::Terminate, _) => return Ok(()),
                (Signal::Hangup, Some(file)) => {
                    manager.tell(Told::Reloading(now()));
                    reload(server.daemon_mut(), file);
                    manager.tell(Told::Ready);
                }
                (Signal::Hangup, None) => {
                    // A manager that asks for this waits for the answer.
                    manager.tell(Told::Reloading(now()));
                    let text = "SIGHUP: ignored: there is no --config to be read again";
                    say(server.daemon_mut(), Level::Warning, text);
                    manager.tell(Told::Ready);
                }
                (Signal::User1 | Signal::User2, _) => {
                    say(server.daemon_mut(), Level::Warning, &format!("{}: ignored", signal.name()));
                }
            }
        }
    }
}

/// Returns the time of the loop.
fn now() -> Instant {
    Instant(clock::now_ns())
}

/// Writes one line to the log, which is stderr.
fn say(daemon: &mut Daemon, level: Level, line: &str) {
    daemon.links_mut().tell(now(), level, line);
}

/// Writes the text of a reply to the log.
fn say_text(daemon: &mut Daemon, level: Level, text: &str) {
    daemon.links_mut().notes_mut().text(level, &clean(text));
}

/// Brings back the links and qdiscs that the last daemon has saved.
fn restore(daemon: &mut Daemon, dir: &Path) -> Result<(), Failure> {
    let says = |e: String| Failure::usage(format!("--state {e}"));
    state::check(dir).map_err(says)?;
    match state::restore(dir).map_err(says)? {
        Some((name, text)) => configure(daemon, "--state", &name, &text),
        None => Ok(()),
    }
}

/// Begins to save the state.
fn keep(dir: &Path, daemon: &Daemon) -> Result<Keeper, Failure> {
    Keeper::start(dir, daemon).map_err(|e| Failure::failed(format!("--state {}: {e}", dir.display())))
}

/// Reads the text of a configuration, and returns its name with it.
fn config(file: &Path) -> Result<(String, String), Failure> {
    input::text(file).map_err(|e| Failure::usage(format!("--config {e}")))
}

/// Applies a configuration, before a client can send requests. The daemon's own words report its
/// errors.
fn configure(daemon: &mut Daemon, option: &str, name: &str, text: &str) -> Result<(), Failure> {
    let reply = daemon.configure(now(), name, text);
    // stderr has the warnings too.
    say_text(daemon, level_of(reply.status), &reply.stderr);
    match reply.status {
        0 => Ok(()),
        _ => Err(Failure::usage(format!("{option} {name}: not started, because of these lines"))),
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
        let text = format!("SIGHUP: --config {name}: not read again: {expected} {given}");
        return say(daemon, Level::Error, &text);
    }
    let (name, text) = match input::text(file) {
        Ok(read) => read,
        Err(e) => {
            let text = format!("SIGHUP: --config {e}: nothing has changed");
            return say(daemon, Level::Error, &text);
        }
    };
    let reply = daemon.reload(now(), &name, &text);
    say_text(daemon, level_of(reply.status), &reply.stderr);
    let text = match reply.status {
        0 => format!("SIGHUP: --config {name}: applied"),
        _ => format!("SIGHUP: --config {name}: not applied, because of these lines"),
    };
    say(daemon, if reply.status == 0 { Level::Notice } else { Level::Error }, &text);
}

/// Returns the level of what a request with this status has said.
const fn level_of(status: u8) -> Level {
    if status == 0 { Level::Warning } else { Level::Error }
}
