//! Signals to a daemon, and inputs without an end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::{Daemon, Dir, PATIENCE};
use crate::common::machine;

/// Reads the standard error of a daemon on a thread: its lines, in order.
fn lines(daemon: &mut Daemon) -> Receiver<String> {
    let stderr = BufReader::new(daemon.child.stderr.take().expect("piped"));
    let (to, from) = channel();
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    from
}

fn next(lines: &Receiver<String>) -> String {
    lines.recv_timeout(PATIENCE).expect("a line in time")
}

/// A process that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_daemon_that_reads_its_configuration_ends_by_a_signal() {
    let _machine = machine::shared();
    for signal in [Signal::TERM, Signal::INT] {
        let dir = Dir::new();
        let mut command = dir.command_with_default_signals(&["daemon", "--config", "-"]);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Process(spawned.expect("spawn"));
        // The pipe stays open: the configuration never ends.
        let mut stdin = process.0.stdin.take().expect("piped");
        stdin.write_all(b"link add lan\n").expect("write");
        let give_up = Instant::now() + PATIENCE;
        // Once the pipe is empty, the daemon is reading.
        while rustix::io::ioctl_fionread(&stdin).expect("its fill") > 0 {
            assert!(Instant::now() < give_up, "the daemon does not read");
            std::thread::yield_now();
        }
        let pid = i32::try_from(process.0.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("a process id"), signal).expect("signal it");
        let status = loop {
            if let Some(status) = process.0.try_wait().expect("wait") {
                break status;
            }
            assert!(Instant::now() < give_up, "{signal:?} does not end it");
            std::thread::yield_now();
        };
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert_eq!(std::fs::read_dir(&dir.0).expect("list").count(), 0);
    }
}

#[test]
fn a_hangup_makes_a_daemon_read_its_configuration_again() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let config = |limit: u32| {
        dir.file(
            "c.tc",
            &format!("link replace lan\nqdisc replace dev lan root handle 1: pfifo limit {limit}\n"),
        )
    };
    config(7);
    let mut daemon = Daemon::start(&mut dir.command(&["daemon", "--config", "c.tc"]));
    let said = lines(&mut daemon);
    let limit = || dir.ok("tc qdisc show dev lan").split_whitespace().last().map(str::to_owned);
    assert_eq!(limit().as_deref(), Some("7p"));
    config(8);
    daemon.signal(Signal::HUP);
    assert_eq!(next(&said), "txweir: SIGHUP: --config c.tc: applied");
    assert_eq!(limit().as_deref(), Some("8p"));
    // A wrong line changes nothing, and is shown.
    dir.file(
        "c.tc",
        "qdisc replace dev lan root handle 1: pfifo limit 9\nqdisc add dev lan root pfifo limt 1\n",
    );
    daemon.signal(Signal::HUP);
    let mut shown = Vec::new();
    while !shown.last().is_some_and(|line: &String| line.starts_with("txweir: ")) {
        shown.push(next(&said));
    }
    let last = "txweir: SIGHUP: --config c.tc: not applied, because of these lines";
    assert_eq!(shown.last().map(String::as_str), Some(last));
    assert!(shown.iter().any(|line| line.contains("c.tc:2:")), "{shown:?}");
    assert_eq!(limit().as_deref(), Some("8p"));
    std::fs::remove_file(dir.0.join("c.tc")).expect("remove");
    daemon.signal(Signal::HUP);
    let missing = "not read again: expected an ordinary file, given No such file or directory (os error 2)";
    assert_eq!(next(&said), format!("txweir: SIGHUP: --config c.tc: {missing}"));
    for (signal, line) in [(Signal::USR1, "SIGUSR1"), (Signal::USR2, "SIGUSR2")] {
        daemon.signal(signal);
        assert_eq!(next(&said), format!("txweir: {line}: ignored"));
    }
    assert_eq!(limit().as_deref(), Some("8p"));
    daemon.signal(Signal::TERM);
    assert!(said.recv_timeout(PATIENCE).is_err(), "no further line");
    assert_eq!(daemon.child.wait().expect("wait").code(), Some(0));
    // A daemon without a configuration stays as it is.
    let mut daemon = Daemon::start(&mut dir.command(&["daemon"]));
    let said = lines(&mut daemon);
    daemon.signal(Signal::HUP);
    assert_eq!(next(&said), "txweir: SIGHUP: ignored: there is no --config to be read again");
    assert_eq!(dir.ok("link show").lines().count(), 1);
}

#[test]
fn inputs_without_an_end_are_refused() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--socket", "other"]));
    let most = "expected at most 16777216 bytes, given more\n";
    for (words, expected) in [
        (&["daemon", "--config", "/dev/zero"][..], format!("txweir: --config /dev/zero: {most}")),
        (&["check", "/dev/zero"], format!("txweir: /dev/zero: {most}")),
        (
            &["--socket", "other", "tc", "-b", "/dev/zero"],
            "txweir: Cannot open file \"/dev/zero\" for reading: line 1: expected at most 1048576 bytes, given \
             more\n"
                .to_owned(),
        ),
    ] {
        assert_eq!(dir.run(words), (1, String::new(), expected), "{words:?}");
    }
}

#[test]
fn changes_are_logged_with_the_client_that_made_them() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let mut daemon = Daemon::start(&mut dir.command(&["daemon", "--log-changes"]));
    let said = lines(&mut daemon);
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // A request that only looks is no change, nor is one that cannot be read.
    assert_eq!(next(&said), format!("txweir: start: {}, 0 links", env!("CARGO_PKG_VERSION")));
    dir.ok("link show");
    assert_eq!(dir.run(&["link", "fly"]).0, 1);
    for (line, refused) in [
        ("link add lan", ""),
        ("link del wan", "refused: "),
        ("tc qdisc add dev lan root pfifo", ""),
        ("tc qdisc add dev lan root pfifo limt 3", "refused: "),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let child = dir.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = Process(child.expect("spawn"));
        assert_eq!(child.0.wait().expect("wait").success(), refused.is_empty());
        assert_eq!(
            next(&said),
            format!("txweir: uid {uid}, gid {gid}, pid {}: {refused}{line}", child.0.id())
        );
    }
}
