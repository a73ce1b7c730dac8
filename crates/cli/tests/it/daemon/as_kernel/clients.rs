//! Programs of others that speak rtnetlink: a static Go binary with vishvananda/netlink, as plugins
//! of CNI use it; pyroute2; node_exporter's collector of qdiscs. Each runs with privileges, if the
//! tests have them, and without. `make clients` puts them into a cache; a test without its program
//! prints the reason and passes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::{Daemon, Dir, PATIENCE, TXWEIR, told};
use super::missing;
use crate::common::machine;

/// A user of a daemon.
struct User {
    dir: Dir,
    /// The command is run by this program.
    by: Vec<String>,
}

impl User {
    /// Returns the user of the tests, and one without privileges if that is another one.
    fn all() -> Vec<Self> {
        let mut all = vec![Self { dir: Dir::new(), by: vec![TXWEIR.into()] }];
        if rustix::process::geteuid().is_root() {
            let dir = Dir::new();
            std::os::unix::fs::chown(&dir.0, Some(65_534), Some(65_534)).expect("give it away");
            // The binary may lie where another user cannot look.
            let copy = dir.0.join("txweir");
            fs::copy(TXWEIR, &copy).expect("copy");
            let words =
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"];
            let by = words.map(String::from).into_iter().chain([copy.to_string_lossy().into_owned()]);
            all.push(Self { by: by.collect(), dir });
        }
        all
    }
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.by[0]);
        command.args(&self.by[1..]);
        self.dir.command_of(command, words)
    }
    fn ok(&self, words: &[&str]) -> String {
        let (code, out, err) = told(&self.command(words).output().expect("run"));
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
        out
    }
    /// Starts a daemon with a link of this name.
    fn daemon(&self) -> Daemon {
        let daemon = Daemon::start(&mut self.command(&["daemon", "--netlink"]));
        self.ok(&["link", "add", "lan"]);
        daemon
    }
}

/// Returns the path of a program that `make clients` makes, or the reason for which it is missing.
pub fn client(name: &str) -> Result<PathBuf, String> {
    if let Some(reason) = missing("tc") {
        return Err(reason);
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let path = cache.unwrap_or_default().join("txweir/clients").join(name);
    match path.exists() {
        true => Ok(path),
        false => Err(format!("there is no {name} in the cache (make clients)")),
    }
}

macro_rules! client_or_skip {
    ($name:literal) => {
        match client($name) {
            Ok(path) => path,
            Err(reason) => {
                println!("skipped, because {reason}");
                return;
            }
        }
    };
}

/// Copies a program, or a folder of modules, to where a user may look.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").args(["-r", "--"]).arg(from).arg(to).status().expect("cp");
    assert!(done.success());
}

const GO: &str = "\
link lan 1500 device 1
addresses 0
qdisc tbf 1:0 root
qdisc htb 1:0 root
qdisc netem 40:0 1:30
class htb 1:30 1000000 true
again: file exists
gone: <nil>
missing: Link not found
";

#[test]
fn a_static_go_binary_finds_its_kernel() {
    let _machine = machine::shared();
    let program = client_or_skip!("go");
    for user in User::all() {
        let _daemon = user.daemon();
        copy(&program, &user.dir.0.join("client"));
        assert_eq!(user.ok(&["as-kernel", "--", "./client", "lan"]), GO);
    }
}

const PYTHON: &str = "\
link lan 1500 1
addresses 0
qdisc htb 0x10000 0xffffffff 0
qdisc sfq 0x100000 0x10010 0
class htb 0x10001 0xffffffff
class htb 0x10010 0x10001
again 17
filters 0
left ['pfifo_fast']
";

#[test]
fn pyroute2_finds_its_kernel() {
    let _machine = machine::shared();
    let modules = client_or_skip!("pyroute2");
    if let Some(reason) = missing("/usr/bin/python3") {
        println!("skipped, because {reason}");
        return;
    }
    for user in User::all() {
        let _daemon = user.daemon();
        copy(&modules, &user.dir.0.join("modules"));
        user.dir.file("client.py", include_str!("../../../clients/client.py"));
        let words = ["as-kernel", "--", "env", "PYTHONPATH=modules", "PYTHONDONTWRITEBYTECODE=1"];
        let shown = user.ok(&[&words[..], &["/usr/bin/python3", "client.py", "lan"]].concat());
        assert_eq!(shown, PYTHON);
    }
}

/// Returns the lines about qdiscs of a page of metrics, once it is there.
fn page(port: u16) -> Vec<String> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        if let Ok(text) = ask() {
            let lines = text.lines().filter(|line| line.starts_with("node_qdisc_"));
            return lines.map(String::from).collect();
        }
        assert!(Instant::now() < give_up, "node_exporter does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn node_exporter_reads_counters() {
    let _machine = machine::shared();
    let program = client_or_skip!("node_exporter");
    for user in User::all() {
        let _daemon = user.daemon();
        user.ok(&["link", "add", "wan", "--type", "wire", "--rate", "64bit"]);
        user.ok(&["tc", "qdisc", "add", "dev", "wan", "root", "handle", "1:", "pfifo", "limit", "20"]);
        user.ok(&["link", "send", "wan", "--packets", "40", "--size", "1000"]);
        copy(&program, &user.dir.0.join("node_exporter"));
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let address = format!("--web.listen-address=127.0.0.1:{port}");
        let words = ["as-kernel", "--", "./node_exporter", "--collector.disable-defaults"];
        let mut command = user.command(&[&words[..], &["--collector.qdisc", &address]].concat());
        let mut exporter = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start");
        let lines = page(port);
        // Without its supervisor, the system ends its calls; it has to be ended itself.
        end(&mut exporter);
        let shown = user.ok(&["tc", "-s", "qdisc", "show", "dev", "wan"]);
        let has = |name: &str, value: &str| {
            let line = format!("node_qdisc_{name}{{device=\"wan\",kind=\"pfifo\"}} {value}");
            assert!(lines.contains(&line), "{line} in {lines:#?} of {shown}");
        };
        has("current_queue_length", "20");
        has("backlog", "20000");
        let dropped = shown.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next());
        has("drops_total", dropped.expect("a counter"));
    }
}

/// Ends a program under a supervisor, and so the supervisor.
fn end(supervisor: &mut std::process::Child) {
    let pid = supervisor.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    for child in children.split_whitespace() {
        let child = child.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a number");
        let _ = rustix::process::kill_process(child, rustix::process::Signal::TERM);
    }
    let _ = supervisor.wait();
}
