//! `txweir daemon`, `link` and `tc` as processes: start and end, configuration that survives, the
//! session of `docs/daemon.md` and the lines of `docs/protocol.md` as they stand there; and, as
//! root, live links.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use txweir_device::testnet::{NetNs, no_xdp_reason};

use crate::common::{Process, confined, machine, skip_unless_possible};

mod as_kernel;
mod interfaces;
mod machines;
mod privileges;
mod service;
mod signals;
mod top;
mod workers;

/// A time longer than any single step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TXWEIR: &str = env!("CARGO_BIN_EXE_txweir");

/// A directory that is removed with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("txw-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("write");
        path
    }
    fn socket(&self) -> PathBuf {
        self.0.join("txweir.sock")
    }
    /// Makes a `txweir` command of these words, which finds its daemon in this directory.
    fn command(&self, words: &[&str]) -> Command {
        self.command_of(Command::new(TXWEIR), words)
    }
    /// The same for a process in which signals have their default effects. A shell that starts the
    /// tests in the background has SIGINT ignored, and every process below it inherits that.
    fn command_with_default_signals(&self, words: &[&str]) -> Command {
        let mut env = Command::new("env");
        env.args(["--default-signal", TXWEIR]);
        self.command_of(env, words)
    }
    fn command_of(&self, mut command: Command, words: &[&str]) -> Command {
        command.args(words).current_dir(&self.0).env("XDG_RUNTIME_DIR", &self.0).env_remove("TXWEIR_SOCKET");
        command
    }
    /// Runs a command and returns exit code, output, errors.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        told(&self.command(words).output().expect("run"))
    }
    /// Runs a line of words that must succeed. Returns its output.
    fn ok(&self, line: &str) -> String {
        let (code, out, err) = self.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!((code, err.as_str()), (0, ""), "{line}");
        out
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A running daemon, killed with the test.
struct Daemon {
    child: Child,
    /// The line by which it said that it serves.
    ready: String,
}

impl Daemon {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut ready).expect("text");
        child.stdout = Some(stdout.into_inner());
        let mut daemon = Self { child, ready };
        if daemon.ready.is_empty() {
            panic!("{command:?}: {:?}", daemon.ended());
        }
        daemon
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("a process id"), signal).expect("signal it");
    }

    /// Waits for its end. Returns the exit code, its output after the first line, its errors.
    fn ended(&mut self) -> (Option<i32>, String, String) {
        let give_up = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("wait").is_none() {
            assert!(Instant::now() < give_up, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        (self.child.wait().expect("wait").code(), out, err)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_batch_of_any_size_is_done_line_by_line() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon"]));
    dir.ok("link add lan");
    // 2 MB, with one line that continues over two, at the end of a piece.
    let lines = |from: u32, to: u32| {
        (from..to).fold(String::from("qdisc replace dev lan clsact\n"), |mut text, n| {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + n);
            let end = if n % 700 == 0 { " \\\n" } else { " " };
            text += "filter add dev lan ingress protocol ip prio 1 flower";
            text += &format!("{end}dst_ip {address} classid 1:1 # a filter\n");
            text
        })
    };
    let text = lines(0, 20_000);
    assert!(text.len() > 3 << 19);
    dir.file("many.tc", &text);
    assert_eq!(dir.ok("tc -b many.tc"), "");
    let shown = |dir: &Dir| dir.ok("tc filter show dev lan ingress").matches("handle 0x").count();
    assert_eq!(shown(&dir), 20_000);
    // A batch that is done whole is longer than a request may be, and comes in parts.
    dir.ok("tc filter del dev lan ingress");
    dir.ok("tc --dry-run -b many.tc");
    assert_eq!(shown(&dir), 0);
    let wrong = format!("{text}qdisc add dev lan root nothing\n");
    dir.file("many-wrong.tc", &wrong);
    let (code, _, err) = dir.run(&["tc", "--atomic", "-b", "many-wrong.tc"]);
    let line = wrong.matches('\n').count();
    assert_eq!((code, shown(&dir)), (1, 0), "{err}");
    assert!(err.contains(&format!("Command failed many-wrong.tc:{line}\n")), "{err}");
    assert_eq!((dir.ok("tc --atomic -b many.tc"), shown(&dir)), (String::new(), 20_000));
    // The longest has 16 MiB.
    dir.file("longest.tc", &text.repeat(12));
    let (code, out, err) = dir.run(&["tc", "--atomic", "-b", "longest.tc"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err, "batch: expected at most 16777216 bytes in all of its parts, given more\n");
    // A line that fails ends the batch, and the error names its number in the file; the lines
    // before it are done.
    dir.ok("tc filter del dev lan ingress");
    let wrong = "filter add dev lan ingress protocol ip prio 2 flower dst_ip nowhere classid 1:1\n";
    let (first, last) = (lines(0, 10_000), lines(10_000, 12_000));
    dir.file("wrong.tc", &format!("{first}{wrong}{last}"));
    let line = first.matches('\n').count() + 1;
    for (flags, status, left) in
        [(&["tc", "-b", "wrong.tc"][..], 1, 10_000), (&["tc", "-force", "-b", "wrong.tc"], 1, 12_000)]
    {
        let (code, _, err) = dir.run(flags);
        assert_eq!(code, status, "{err}");
        assert!(err.contains(&format!("--> wrong.tc:{line}:")), "{err}");
        assert!(err.contains(&format!("Command failed wrong.tc:{line}\n")), "{err}");
        assert_eq!((err.matches("Command failed").count(), shown(&dir)), (1, left));
        dir.ok("tc filter del dev lan ingress");
    }
    // The output comes in order, from stdin too.
    let shows = fs::File::open(dir.file("shows.tc", &"qdisc show dev lan\n".repeat(10_000))).expect("a file");
    let (code, out, _) = told(&dir.command(&["tc", "-b", "-"]).stdin(shows).output().expect("run"));
    assert_eq!((code, out.matches("qdisc clsact").count()), (0, 10_000));
}

#[test]
fn a_daemon_says_one_line_and_leaves_nothing_behind() {
    let _machine = machine::shared();
    for signal in [Signal::TERM, Signal::INT] {
        let dir = Dir::new();
        let mut daemon = Daemon::start(&mut dir.command(&["daemon"]));
        let socket = dir.socket();
        assert_eq!(daemon.ready, format!("ready: {}\n", socket.display()));
        assert_eq!(fs::metadata(&socket).expect("the socket").permissions().mode() & 0o777, 0o600);
        // A second daemon is refused, and does no harm.
        let (code, out, err) = dir.run(&["daemon"]);
        let expected = format!(
            "txweir: socket {}: a daemon serves there already: stop it, or give another --socket\n",
            socket.display()
        );
        assert_eq!((code, out.as_str(), err), (1, "", expected));
        assert_eq!(dir.ok("link show").lines().count(), 1);
        daemon.signal(signal);
        assert_eq!(daemon.ended(), (Some(0), String::new(), String::new()));
        assert_eq!(fs::read_dir(&dir.0).expect("list").count(), 0);
    }
}

#[test]
fn a_daemon_that_was_killed_is_replaced() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let daemon = Daemon::start(&mut dir.command(&["daemon"]));
    drop(daemon);
    assert!(dir.socket().exists());
    let (code, _, err) = dir.run(&["link", "show"]);
    let path = dir.socket().display().to_string();
    let expected = format!(
        "txweir: no daemon at {path}: start one with `txweir daemon --socket {path}`, or say where it is with --socket or \
         TXWEIR_SOCKET\n"
    );
    assert_eq!((code, err), (1, expected));
    let _again = Daemon::start(&mut dir.command(&["daemon"]));
    assert_eq!(dir.ok("link add lan"), "");
}

#[test]
fn where_the_socket_is() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let here = dir.0.join("here");
    let here = here.to_str().expect("UTF-8");
    let _daemon = Daemon::start(dir.command(&["daemon", "--socket", here]).env("TXWEIR_SOCKET", "/nowhere"));
    for words in [
        vec!["--socket", here, "tc", "-j", "qdisc", "show"],
        vec!["tc", "--socket", here, "-j", "qdisc", "show"],
        vec!["link", "--socket", here, "show"],
    ] {
        assert_eq!(dir.run(&words).0, 0, "{words:?}");
    }
    assert_eq!(told(&dir.command(&["link"]).env("TXWEIR_SOCKET", here).output().expect("run")).0, 0);
    let long = "x".repeat(200);
    for words in [
        &["daemon", "--socket", &long][..],
        &["link", "--socket", &long],
        &["tc", "--socket", &long, "qdisc"],
    ] {
        let expected =
            format!("txweir: socket {long}: the path of a socket has at most 107 bytes, this one has 200\n");
        assert_eq!(dir.run(words), (1, String::new(), expected));
    }
    let expected =
        "txweir: --socket x: only daemon, link, tc, as-kernel, follow and top have a socket\n".to_string();
    assert_eq!(dir.run(&["--socket", "x", "kinds"]), (1, String::new(), expected));
}

#[test]
fn help_needs_no_daemon() {
    let _machine = machine::shared();
    let dir = Dir::new();
    assert!(dir.ok("link --help").contains("txweir link [COMMAND]"));
    assert!(dir.ok("link add --help").contains("--txqueuelen"));
    let (code, out, err) = dir.run(&["link", "add", "sixteen-bytes-00"]);
    let expected = "txweir: link: invalid value 'sixteen-bytes-00' for '<NAME>': an interface name has at most 15 bytes, \
                    this one has 16\n";
    assert_eq!((code, out.as_str(), err.as_str()), (1, "", expected));
    for line in ["tc", "tc -h", "tc --help", "tc -s help"] {
        let (code, out, err) = dir.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((code, out.as_str()), (0, ""), "{line}");
        assert!(err.starts_with("tc [OPTIONS] { qdisc ") && err.contains("--atomic"), "{line}: {err}");
    }
    assert!(dir.ok("tc -V").starts_with("tc utility, txweir-"));
    let (code, _, err) = dir.run(&["tc", "-x", "qdisc"]);
    assert_eq!((code, err.lines().next()), (255, Some("Option \"-x\" is unknown, try \"tc -help\".")));
}

#[test]
fn called_tc_it_is_tc() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon"]));
    dir.ok("link add lan");
    let tc = dir.0.join("tc");
    std::os::unix::fs::symlink(TXWEIR, &tc).expect("a link");
    let mut command = Command::new(&tc);
    command.args(["qdisc", "show", "dev", "lan"]).env("XDG_RUNTIME_DIR", &dir.0).env_remove("TXWEIR_SOCKET");
    let (code, out, err) = told(&command.output().expect("run"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, dir.ok("tc qdisc show dev lan"));
    assert!(out.starts_with("qdisc pfifo_fast 0: root refcnt 2 "), "{out}");
}

#[test]
fn configuration_survives() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let daemon = Daemon::start(&mut dir.command(&["daemon"]));
    for line in [
        "link add lan --mtu 9000",
        "link add up --type wire --rate 20mbit",
        "link add wide --queues 8 --txqueuelen 50",
        "tc qdisc add dev lan root handle 1: prio bands 4",
        "tc qdisc add dev lan parent 1:2 handle 20: fq_codel limit 500",
        "tc qdisc add dev up root tbf rate 10mbit burst 16kb latency 50ms",
        "tc save saved.tc",
    ] {
        assert_eq!(dir.ok(line), "", "{line}");
    }
    let saved = fs::read_to_string(dir.0.join("saved.tc")).expect("saved");
    assert_eq!(dir.ok("tc save -"), saved);
    assert!(saved.starts_with("link replace lan --type null --mtu 9000 --txqueuelen 1000\n"), "{saved}");
    let shown = dir.ok("tc qdisc show");
    drop(daemon);
    let _again = Daemon::start(&mut dir.command(&["daemon", "--config", "saved.tc"]));
    assert_eq!((dir.ok("tc save -"), dir.ok("tc qdisc show")), (saved.clone(), shown));
    // On a daemon that has all of it already, the configuration changes nothing.
    assert_eq!(dir.ok("tc -b saved.tc"), "");
    assert_eq!(dir.ok("tc save -"), saved);
    // From stdin too.
    let mut command = dir.command(&["tc", "-b", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"qdisc replace dev lan root pfifo limit 7\n")
        .expect("write");
    assert_eq!(told(&child.wait_with_output().expect("wait")), (0, String::new(), String::new()));
    assert!(dir.ok("tc qdisc show dev lan").contains("limit 7p"));
}

#[test]
fn a_dry_run_knows_the_links_that_it_would_add() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon"]));
    let text = "link replace lan --queues 2\nqdisc replace dev lan root handle 1: pfifo limit 7\n";
    dir.file("new.tc", text);
    let plan = "+ link lan --type null --queues 2 --mtu 1500 --txqueuelen 1000\n\
                + qdisc pfifo 1: dev lan root limit 7p\n";
    assert_eq!(dir.ok("tc -b new.tc --dry-run"), plan);
    assert_eq!(dir.ok("tc qdisc show"), "");
    dir.ok("tc -b new.tc");
    assert_eq!(dir.ok("tc -b new.tc --dry-run"), "");
}

#[test]
fn a_wrong_configuration_starts_nothing() {
    let _machine = machine::shared();
    let dir = Dir::new();
    dir.file("wrong.tc", "link replace lan\nqdisc add dev lan root fq_codel limt 100\n");
    let (code, out, err) = dir.run(&["daemon", "--config", "wrong.tc"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("limt") && err.contains("wrong.tc:2"), "{err}");
    assert!(!dir.socket().exists());
    let (code, _, err) = dir.run(&["daemon", "--config", "none.tc"]);
    let expected = "txweir: --config none.tc: No such file or directory (os error 2)\n";
    assert_eq!((code, err.as_str()), (1, expected));
}

/// Reads a document of the repository.
fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the commands of a document's sessions (blocks of `console`), each with its expected
/// output. A `$` line is a command, `>` lines continue it, and the lines up to the next command are
/// its output and errors; a last line `? N` is an exit status other than 0.
fn sessions(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut within = false;
    for line in text.lines() {
        match (within, line) {
            (false, "```console") => within = true,
            (true, "```") => within = false,
            (false, _) => {}
            (true, line) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    all.push((command.to_owned(), String::new()));
                    continue;
                }
                let (command, printed) = all.last_mut().expect("a command first");
                match line.strip_prefix("> ").filter(|_| printed.is_empty()) {
                    Some(more) => command.push_str(&format!("\n{more}")),
                    None => printed.push_str(&format!("{line}\n")),
                }
            }
        }
    }
    all
}

#[test]
fn the_session_of_the_document_is_what_happens() {
    let _machine = machine::shared();
    let dir = Dir::new();
    fs::create_dir(dir.0.join("bin")).expect("a directory");
    std::os::unix::fs::symlink(TXWEIR, dir.0.join("bin/txweir")).expect("a link");
    let path = format!("{}:{}", dir.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut daemon = None;
    let all = sessions(&document("daemon.md"));
    assert!(all.len() > 10, "{}", all.len());
    for (command, expected) in all {
        let place = |text: &str| text.replace(&dir.0.display().to_string(), "/run/user/1000");
        if let Some(words) = command.strip_prefix("txweir daemon").and_then(|rest| rest.strip_suffix('&')) {
            // The document stops the daemon before this one, if there is one, or this line does.
            drop(daemon.take());
            let words: Vec<&str> = std::iter::once("daemon").chain(words.split_whitespace()).collect();
            let started = Daemon::start(&mut dir.command(&words));
            assert_eq!(place(&started.ready), expected, "{command}");
            daemon = Some(started);
            continue;
        }
        let merged = format!("exec 2>&1\n{command}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &merged]).current_dir(&dir.0).env("PATH", &path).env("XDG_RUNTIME_DIR", &dir.0);
        let (code, out, _) = told(&bash.env_remove("TXWEIR_SOCKET").output().expect("bash"));
        let status = if code == 0 { String::new() } else { format!("? {code}\n") };
        assert_eq!(place(&out) + &status, expected, "{command}");
    }
}

#[test]
fn the_lines_of_the_protocol_are_what_is_said() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon"]));
    let stream = UnixStream::connect(dir.socket()).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut stream = BufReader::new(stream);
    let (mut asked, mut pending) = (0, false);
    for line in document("protocol.md").lines() {
        if let Some(request) = line.strip_prefix("> ") {
            assert!(!pending, "two requests without a reply: {request}");
            stream.get_mut().write_all(format!("{request}\n").as_bytes()).expect("write");
            (asked, pending) = (asked + 1, true);
        } else if let Some(reply) = line.strip_prefix("< ") {
            let mut said = String::new();
            stream.read_line(&mut said).expect("a reply");
            assert_eq!(said.trim_end(), reply);
            pending = false;
        }
    }
    assert!(asked > 8 && !pending, "{asked}");
}

/// A client and a server with a TAP device each, and a daemon in a namespace between them with a
/// link for either.
struct Net {
    dir: Dir,
    client: NetNs,
    server: NetNs,
    middle: NetNs,
    daemon: Daemon,
}

impl Net {
    /// Creates the hosts with TAP devices, or with packet or XDP sockets on veth pairs.
    fn new(kind: &str) -> Self {
        Self::with(kind, "")
    }

    /// Does the same with links that have these options too.
    fn with(kind: &str, options: &str) -> Self {
        let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
        let dir = Dir::new();
        for (netns, address, link) in [(&client, "10.78.0.1/24", "left"), (&server, "10.78.0.2/24", "right")]
        {
            if kind == "tap" {
                let mut add = vec!["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"];
                add.extend(options.contains("--workers").then_some("multi_queue"));
                netns.run(&add);
                netns.up("tap0", address);
            } else {
                netns.veth("eth0", &middle, link);
                netns.up("eth0", address);
                middle.run(&["ip", "link", "set", "dev", link, "up"]);
                netns.wait_for_carrier("eth0");
                middle.wait_for_carrier(link);
            }
        }
        let mut command = middle.command(&[&[TXWEIR, "daemon", "--keep-netns"], confined()].concat());
        command.args((kind == "xdp").then_some("--keep-xdp"));
        command.env("XDG_RUNTIME_DIR", &dir.0).env_remove("TXWEIR_SOCKET");
        let daemon = Daemon::start(&mut command);
        let interface = |netns: &NetNs| match kind {
            "tap" => format!("--if {}/tap0", netns.name()),
            _ => String::new(),
        };
        dir.ok(&format!("link add left --type {kind} {options} {}", interface(&client)));
        dir.ok(&format!("link add right --type {kind} {options} {} --peer left", interface(&server)));
        Self { dir, client, server, middle, daemon }
    }

    fn count(&self, link: &str, key: &str) -> u64 {
        let shown: Value = serde_json::from_str(&self.dir.ok(&format!("link show {link} -j"))).expect("JSON");
        shown[0][key].as_u64().unwrap_or_else(|| panic!("{key} in {shown}"))
    }
}

/// Returns the types of links that can be tested here.
fn kinds(all: &[&'static str]) -> impl Iterator<Item = &'static str> {
    let no_xdp = no_xdp_reason();
    if let Some(reason) = &no_xdp {
        println!("links of type xdp: skipped, because {reason}");
    }
    all.iter().copied().filter(move |kind| *kind != "xdp" || no_xdp.is_none()).collect::<Vec<_>>().into_iter()
}

/// Sends numbered datagrams to a socket that sends each back, twenty at a time. Never more than
/// sixty are unanswered: the sockets' buffers hold these. Returns the number that came back.
fn echo(net: &Net, total: usize) -> usize {
    const BURST: usize = 20;
    const AHEAD_MAX: usize = 60;
    const SIZE: usize = 500;
    // Any port: a program that another test starts holds the socket of the round before until it
    // has replaced itself.
    let server = net.server.enter(|| UdpSocket::bind("10.78.0.2:0").expect("bind"));
    let to = server.local_addr().expect("an address");
    server.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let answering = std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = server.recv_from(&mut buffer) {
            server.send_to(&buffer[..len], from).expect("answer");
            if &buffer[..len] == b"end" {
                break;
            }
        }
    });
    let client = net.client.enter(|| UdpSocket::bind("10.78.0.1:0").expect("bind"));
    client.connect(to).expect("connect");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 2000];
    // The first datagram waits for address resolution, which drops datagrams that come too fast.
    client.send(b"begin").expect("send");
    assert_eq!(client.recv(&mut buffer).expect("an answer"), 5);
    let (mut sent, mut seen) = (0, std::collections::HashSet::new());
    while seen.len() < total {
        while sent < total && sent - seen.len() + BURST <= AHEAD_MAX {
            for n in sent..sent + BURST {
                let mut datagram = [0; SIZE];
                datagram[..8].copy_from_slice(&n.to_be_bytes());
                client.send(&datagram).expect("send");
            }
            sent += BURST;
        }
        let Ok(SIZE) = client.recv(&mut buffer) else { break };
        seen.insert(buffer[..8].to_vec());
    }
    client.send(b"end").expect("send");
    answering.join().expect("the server");
    seen.len()
}

/// Runs a function when dropped, also during a panic.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn live_links_forward_and_lose_nothing_while_qdiscs_are_replaced() {
    let _machine = machine::shared();
    skip_unless_possible!();
    for kind in kinds(&["tap", "packet", "xdp"]) {
        let net = Net::new(kind);
        let done = AtomicBool::new(false);
        let replaced = AtomicU32::new(0);
        let came = std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                let plans = [
                    // Slow enough that packets wait at every replacement; then other kinds, with
                    // the waiting packets.
                    "root handle 1: tbf rate 8mbit burst 3kb limit 1mb",
                    "root handle 1: tbf rate 6mbit burst 3kb limit 1mb",
                    "root handle 2: fq_codel target 1s interval 10s",
                    "root handle 1: tbf rate 10mbit burst 3kb limit 1mb",
                    "root handle 3: prio",
                ];
                let files: Vec<_> = (plans.iter().enumerate())
                    .map(|(i, plan)| {
                        net.dir.file(&format!("{i}.tc"), &format!("qdisc replace dev right {plan}\n"))
                    })
                    .collect();
                for file in files.iter().cycle() {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    net.dir.ok(&format!("tc --atomic -b {}", file.display()));
                    replaced.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            // As many rounds as it takes until every plan was put in under them.
            let _done = OnDrop(|| done.store(true, Ordering::Relaxed));
            let mut came = Vec::new();
            while replaced.load(Ordering::Relaxed) < 6 && !replacing.is_finished() {
                came.push(echo(&net, 1000));
            }
            came
        });
        let all = vec![1000; came.len()];
        assert_eq!(came, all, "{kind}: {} {}", net.dir.ok("link show -j"), net.dir.ok("tc -s qdisc show"));
        assert!(net.count("right", "packets") >= 1000 * came.len() as u64);
        assert_eq!((net.count("right", "drops"), net.count("right", "lost")), (0, 0), "{kind}");
    }
}

#[test]
fn kernel_tcp_goes_through_two_links_under_reconfiguration() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = Net::new("tap");
    let server = std::net::SocketAddr::from(([10, 78, 0, 2], 5201));
    let sink = net.server.tcp_sink(server);
    let bytes = 300_000_000;
    let source = net.client.tcp_source(server, bytes);
    let give_up = Instant::now() + PATIENCE;
    let mut round = 0;
    while !source.is_finished() {
        assert!(Instant::now() < give_up, "the transfer does not end");
        let kind = ["fq_codel", "pfifo limit 1000", "codel", "prio", "pfifo_fast"][round % 5];
        net.dir.ok(&format!("tc qdisc replace dev right root {kind}"));
        net.dir.ok(&format!("tc qdisc replace dev left root {kind}"));
        round += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((source.join().expect("the source"), sink.join().expect("the sink")), (bytes, bytes));
    assert!(round >= 2, "{round}");
    let saved = net.dir.ok("tc save -");
    assert!(
        saved.contains("link replace right --type tap --if ") && saved.contains(" --peer left\n"),
        "{saved}"
    );
    net.dir.file("saved.tc", &saved);
    assert_eq!((net.dir.ok("tc -b saved.tc"), net.dir.ok("tc save -")), (String::new(), saved));
    // A link without a peer counts the packets that come in and drops them.
    net.dir.ok("link set left --peer none");
    net.client.run(&["ip", "link", "set", "dev", "tap0", "down"]);
    assert_eq!(net.dir.ok("link show left").split_whitespace().filter(|word| *word == "down").count(), 1);
}

#[test]
fn an_interface_that_goes_takes_no_other_link_with_it() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = Net::new("tap");
    net.dir.ok("link add lan");
    net.client.run(&["ip", "link", "del", "dev", "tap0"]);
    let give_up = Instant::now() + PATIENCE;
    while !net.dir.ok("link show left").contains("gone") {
        assert!(Instant::now() < give_up, "the daemon did not notice: {}", net.dir.ok("link show"));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(net.dir.ok("link send left --packets 3").starts_with("3 packets"));
    // The server's stack may have sent packets of its own in between.
    assert!(net.count("left", "lost") >= 3);
    assert_eq!(net.count("lan", "lost"), 0);
    net.dir.ok("link del left");
    assert!(net.dir.ok("tc qdisc show dev right").contains("pfifo_fast"));
}
