//! The daemon as a service: a test plays systemd. State on the disk, the log, metrics.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Daemon, Dir, PATIENCE, TXWEIR};
use crate::common::machine;

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn new(dir: &Dir) -> Self {
        let socket = UnixDatagram::bind(dir.0.join("notify")).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a bound");
        Self(socket)
    }
    /// Returns the next text that is no sign of life.
    fn told(&self) -> String {
        loop {
            let mut text = [0; 512];
            let n = self.0.recv(&mut text).expect("a text in time");
            let text = String::from_utf8_lossy(&text[..n]).into_owned();
            if text != "WATCHDOG=1" {
                return text;
            }
        }
    }
}

#[test]
fn the_manager_is_told_of_start_reload_life_and_end() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let manager = Manager::new(&dir);
    dir.file("c.tc", "link replace lan\n");
    let mut command = dir.command_with_default_signals(&["daemon", "--config", "c.tc", "--seccomp", "kill"]);
    command.env("NOTIFY_SOCKET", dir.0.join("notify")).env("WATCHDOG_USEC", "100000");
    let mut daemon = Daemon::start(&mut command);
    assert_eq!(manager.told(), "READY=1");
    // A client can connect by then.
    assert!(dir.ok("link show").contains("lan"));
    let mut text = [0; 64];
    let n = manager.0.recv(&mut text).expect("a sign of life");
    assert_eq!(&text[..n], b"WATCHDOG=1");
    let before = txweir_device::clock::now_ns() / 1_000_000_000;
    daemon.signal(Signal::HUP);
    let reloading = manager.told();
    let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("the time");
    let seconds = micros.parse::<u64>().expect("a number") / 1_000_000;
    assert!((before..before + 60).contains(&seconds), "{reloading} {before}");
    assert_eq!(manager.told(), "READY=1");
    daemon.signal(Signal::TERM);
    assert_eq!(manager.told(), "STOPPING=1");
    assert_eq!(daemon.ended().0, Some(0));
}

/// Starts a daemon as systemd does: a shell puts these sockets at the descriptors from 3 on, and
/// says so in the environment. It is bash: others read no descriptors of two digits.
fn activated(dir: &Dir, sockets: &[(&str, i32)], words: &str) -> Command {
    let moves: String = sockets.iter().zip(3..).map(|((_, fd), to)| format!(" {to}<&{fd}")).collect();
    let names: Vec<&str> = sockets.iter().map(|(name, _)| *name).collect();
    let (count, names) = (sockets.len(), names.join(":"));
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names}; exec {TXWEIR} daemon {words}{moves}"
    );
    let mut command = dir.command_of(Command::new("bash"), &["-c", &script]);
    command.env_remove("XDG_RUNTIME_DIR");
    command
}

/// Makes a descriptor that programs inherit. It has a high number, so that the shell does not put
/// another one into its place.
fn inherited(socket: &impl AsFd) -> File {
    let copy = rustix::io::fcntl_dupfd_cloexec(socket, 50).expect("a copy");
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).expect("inherited");
    File::from(copy)
}

#[test]
fn the_sockets_of_the_manager_are_served_and_stay() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let all = UnixListener::bind(dir.socket()).expect("a socket");
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = metrics.local_addr().expect("its address");
    let (all, metrics) = (inherited(&all), inherited(&metrics));
    let sockets = [("txweir.socket", all.as_raw_fd()), ("metrics", metrics.as_raw_fd())];
    let mut daemon = Daemon::start(&mut activated(&dir, &sockets, "--seccomp kill"));
    assert_eq!(daemon.ready, format!("ready: {}\n", dir.socket().display()));
    dir.ok("link add lan");
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("send");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    assert!(page.contains("\ntxweir_link_up{link=\"lan\"} 1\n"), "{page}");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().0, Some(0));
    assert!(dir.socket().exists(), "the manager's socket stays");
}

#[test]
fn wrong_words_of_a_manager_are_named() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let output = |command: &mut Command| super::told(&command.stdin(Stdio::null()).output().expect("run"));
    let file = inherited(&File::open("/dev/null").expect("open"));
    let (code, _, err) = output(&mut activated(&dir, &[("x", file.as_raw_fd())], ""));
    assert_eq!(code, 1);
    assert!(
        err.starts_with("txweir: LISTEN_FDS: x: expected a listening stream socket, given another: "),
        "{err}"
    );
    let mut command = dir.command(&["daemon"]);
    let (code, _, err) = output(command.env("NOTIFY_SOCKET", "here"));
    assert_eq!(
        (code, err.as_str()),
        (1, "txweir: NOTIFY_SOCKET here: expected a path from / on, or @ and a name\n")
    );
}

/// Returns the saved state once it has a text, within some time.
fn saved(dir: &Dir, text: &str) -> String {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let state = fs::read_to_string(dir.0.join("st/state.tc")).unwrap_or_default();
        if state.contains(text) {
            return state;
        }
        assert!(Instant::now() < give_up, "{text} is not in {state}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn links_and_policies_come_back_after_a_kill() {
    let _machine = machine::shared();
    let dir = Dir::new();
    fs::create_dir(dir.0.join("st")).expect("a directory");
    let words = ["daemon", "--state", "st", "--seccomp", "kill"];
    let daemon = Daemon::start(&mut dir.command_with_default_signals(&words));
    dir.ok("link add lan --mtu 1400");
    dir.ok("tc qdisc replace dev lan root handle 7: fq_codel limit 333");
    saved(&dir, "limit 333p");
    let before = dir.ok("tc save -");
    // It is killed: nothing is saved at the end.
    drop(daemon);
    let mut daemon = Daemon::start(&mut dir.command_with_default_signals(&words));
    assert_eq!(dir.ok("tc save -"), before);
    // The last change is saved at the end.
    dir.ok("link del lan");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().0, Some(0));
    let state = saved(&dir, "# whole: 0 bytes");
    assert_eq!(state.lines().count(), 1, "{state}");
    // A damaged file is named, and stays.
    let damaged = dir.file("st/state.tc", &state.replace("0 bytes", "1 bytes"));
    let (code, _, err) = dir.run(&words);
    assert_eq!(code, 1);
    assert!(
        err.contains("st/state.tc: expected a last line") && err.contains("the file is damaged"),
        "{err}"
    );
    assert!(fs::read_to_string(damaged).expect("text").contains("1 bytes"));
}

#[test]
fn the_journal_gets_levels() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let log = File::create(dir.0.join("log")).expect("a file");
    let there = log.metadata().expect("its numbers");
    let mut command = dir.command_with_default_signals(&["daemon", "--log-changes", "--log-drops", "10"]);
    command.env("JOURNAL_STREAM", format!("{}:{}", there.dev(), there.ino())).stderr(log);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("spawn");
    let mut ready = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("ready");
    dir.ok("link add lan");
    dir.ok("tc qdisc replace dev lan root handle 1: tbf rate 64bit burst 1600 limit 3000");
    assert_eq!(dir.run(&["link", "del", "nowhere"]).0, 2);
    let text = || fs::read_to_string(dir.0.join("log")).expect("text");
    let give_up = Instant::now() + PATIENCE;
    while !text().contains("packets dropped") {
        assert!(Instant::now() < give_up, "{}", text());
        dir.ok("link send lan --packets 100 --size 1000");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    let text = text();
    let first = format!("<5>txweir: start: {}, 0 links", env!("CARGO_PKG_VERSION"));
    assert_eq!(text.lines().next(), Some(first.as_str()));
    let has =
        |level: &str, words: &str| text.lines().any(|line| line.starts_with(level) && line.ends_with(words));
    assert!(has("<5>txweir: uid ", ": link add lan"), "{text}");
    assert!(has("<4>txweir: uid ", ": refused: link del nowhere"), "{text}");
    assert!(has("<4>txweir: link lan: ", " s: overlimit, above 10 a second"), "{text}");
    let drops = text.lines().filter(|line| line.contains("packets dropped")).count();
    assert_eq!(drops, 1, "{text}");
}

#[test]
fn the_unit_is_one_that_systemd_accepts() {
    let unit = include_str!("../../../../../packaging/txweir.service");
    assert!(unit.contains("\nType=notify\n") && unit.contains("\nExecStart=/usr/bin/txweir daemon "));
    // The options of the unit are those of the command.
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let help = Command::new(TXWEIR).args(["daemon", "--help"]).output().expect("run");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for option in start.split(' ').filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "{option}");
    }
    let dir = Dir::new();
    // The program of the unit is not installed here.
    let path = dir.file("txweir.service", &unit.replace("/usr/bin/txweir", TXWEIR));
    match Command::new("systemd-analyze").arg("verify").arg(path).output() {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
        Err(e) => eprintln!("skipped: systemd-analyze: {e}"),
    }
}
