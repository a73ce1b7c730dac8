//! The privileges that a daemon and a run still have while they serve.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use txweir_device::testnet::{NetNs, no_xdp_reason};

use super::{Daemon, Dir, TXWEIR, told};
use crate::common::{self, machine, skip_unless_possible};

/// Bits of `CAP_NET_ADMIN` (12), `CAP_NET_RAW` (13) and `CAP_SYS_ADMIN` (21) in the masks that
/// proc(5) shows (capabilities(7)).
const NET: &str = "0000000000003000";
const NET_AND_SYS: &str = "0000000000203000";
/// The first two, `CAP_IPC_LOCK` (14) and `CAP_BPF` (39).
const NET_AND_XDP: &str = "0000008000007000";
const NONE: &str = "0000000000000000";
/// A user and a group that own nothing: nobody's on most systems; they need no name.
const NOBODY: u32 = 65_534;

/// The state of a thread, by the words of proc(5).
type Status = BTreeMap<String, String>;

/// Returns the state of all threads of a process.
fn statuses(pid: u32) -> Vec<Status> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let status = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("status")).expect("its state");
        let line = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
        text.lines().filter_map(line).collect()
    };
    tasks.map(|task| status(task.expect("a thread"))).collect()
}

/// Checks each thread: it has these capabilities and no others, no program that it starts has more,
/// and its system calls are filtered.
fn is_confined(pid: u32, capabilities: &str) {
    let all = statuses(pid);
    assert!(!all.is_empty());
    for status in all {
        let seen = |key: &str| status[key].as_str();
        assert_eq!([seen("CapPrm"), seen("CapEff")], [capabilities; 2]);
        assert_eq!([seen("CapInh"), seen("CapAmb")], [NONE; 2]);
        // Without CAP_SETPCAP the bounding set stays.
        if rustix::process::geteuid().is_root() && capabilities != NONE {
            assert_eq!(seen("CapBnd"), NONE);
        }
        let filtered = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        assert_eq!((seen("NoNewPrivs"), seen("Seccomp") == "2"), ("1", filtered));
    }
}

#[test]
fn a_daemon_keeps_the_capabilities_of_links_and_no_others() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let there = NetNs::new("privileges");
    there.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]);
    let dir = Dir::new();
    let line = format!("link add there --type tap --if {}/tap0", there.name());
    let words: Vec<&str> = line.split(' ').collect();
    {
        let daemon = Daemon::start(&mut dir.command(&["daemon"]));
        is_confined(daemon.child.id(), NET);
        // Links can still be added, but not in other network namespaces.
        dir.ok("link add lo --type packet");
        dir.ok("link add lan");
        let said = dir.run(&words);
        let denied = format!("entering the network namespace `{}` needs CAP_SYS_ADMIN", there.name());
        assert!(said.0 == 2 && said.2.contains(&denied) && said.2.contains("--keep-netns"), "{said:?}");
    }
    {
        let daemon = Daemon::start(&mut dir.command(&["daemon", "--keep-netns"]));
        is_confined(daemon.child.id(), NET_AND_SYS);
        dir.ok(&line);
    }
    // A configuration that has a link there asks for it.
    dir.file("c.tc", &line);
    let daemon = Daemon::start(&mut dir.command(&["daemon", "--config", "c.tc"]));
    is_confined(daemon.child.id(), NET_AND_SYS);
    assert!(dir.ok("link show").contains("there"));
}

/// Links of type xdp take privileges of their own, which a daemon keeps when it is told so.
#[test]
fn a_daemon_keeps_the_privileges_of_xdp_sockets_when_told() {
    let _machine = machine::shared();
    if let Some(reason) = no_xdp_reason() {
        println!("skipped, because {reason}");
        return;
    }
    let there = NetNs::new("xdp");
    there.run(&["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
    let dir = Dir::new();
    let daemon = |options: &[&str]| {
        let mut command = there.command(&[&[TXWEIR, "daemon", "--seccomp", "fail"], options].concat());
        command.env("XDG_RUNTIME_DIR", &dir.0).env_remove("TXWEIR_SOCKET");
        Daemon::start(&mut command)
    };
    {
        let daemon = daemon(&[]);
        is_confined(daemon.child.id(), NET);
        let said = dir.run(&["link", "add", "v0", "--type", "xdp"]);
        assert!(said.0 == 2 && said.2.contains("--keep-xdp"), "{said:?}");
    }
    {
        let daemon = daemon(&["--keep-xdp"]);
        is_confined(daemon.child.id(), NET_AND_XDP);
        dir.ok("link add v0 --type xdp");
        let shown = dir.ok("link show v0 -j");
        assert!(shown.contains(r#""mode":"copies, in the driver""#), "{shown}");
    }
    dir.file("x.tc", "link add v0 --type xdp");
    let config = dir.0.join("x.tc");
    let daemon = daemon(&["--config", config.to_str().expect("text")]);
    is_confined(daemon.child.id(), NET_AND_XDP);
}

#[test]
fn a_daemon_without_a_sandbox_keeps_what_it_was_given() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let daemon = Daemon::start(&mut dir.command(&["daemon", "--no-sandbox"]));
    let [mine, its] = [std::process::id(), daemon.child.id()].map(|pid| statuses(pid).remove(0));
    for key in ["CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"] {
        assert_eq!(mine[key], its[key], "{key}");
    }
}

#[test]
fn a_run_keeps_the_capabilities_of_its_interfaces_and_no_others() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = common::taps();
    let run = net.start(&["--wire", "rate=100mbit", "--json"]);
    is_confined(run.id(), NET);
    net.carry(1 << 16);
    run.stop();
}

/// Also where this test runs as root, a daemon of a user without capabilities starts, and says
/// which part it could not give up.
#[test]
fn a_user_without_capabilities_has_a_daemon_too() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let mut command = dir.command(&["daemon", "--socket", "s"]);
    if rustix::process::geteuid().is_root() {
        chown(&dir.0, Some(NOBODY), Some(NOBODY)).expect("give it away");
        command.uid(NOBODY).gid(NOBODY);
        // A build in a directory of root alone cannot be started by another user.
        let tried = dir.command(&["--version"]).uid(NOBODY).stdout(Stdio::null()).status();
        if tried.is_err() {
            return println!("skipped, because another user cannot start {TXWEIR}");
        }
    }
    let mut daemon = Daemon::start(&mut command);
    is_confined(daemon.child.id(), NONE);
    dir.ok("--socket s link add lan");
    let (code, _, said) = dir.run(&["--socket", "s", "link", "add", "lo", "--type", "packet"]);
    assert!(code == 2 && said.contains("needs CAP_NET_RAW: run as root"), "{said}");
    daemon.signal(rustix::process::Signal::TERM);
    let (code, _, said) = daemon.ended();
    let expected = "txweir: sandbox: the bounding set of capabilities stays as it is, because CAP_SETPCAP is \
                    missing; no_new_privs keeps it without effect\n";
    assert_eq!((code, said.as_str()), (Some(0), expected));
}

#[test]
fn a_group_may_read_by_a_socket_of_its_own() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let root = rustix::process::geteuid().is_root();
    let group = if root { 4242 } else { rustix::process::getegid().as_raw() };
    let number = group.to_string();
    let words = ["daemon", "--socket-read", "r", "--socket-read-group", number.as_str()];
    let _daemon = Daemon::start(&mut dir.command(&words));
    let there = fs::metadata(dir.0.join("r")).expect("the socket");
    assert_eq!((there.gid(), there.permissions().mode() & 0o777), (group, 0o660));
    dir.ok("link add lan");
    let client = |socket: &str, gid: u32, line: &str| {
        let mut command = dir.command(&["--socket", socket]);
        command.args(line.split(' '));
        if root {
            command.uid(NOBODY).gid(gid);
        }
        command.output().map(|output| told(&output))
    };
    let Ok((code, out, err)) = client("r", group, "link show") else {
        return println!("skipped, because another user cannot start {TXWEIR}");
    };
    assert!(code == 0 && out.contains("lan"), "{err}");
    let (code, _, err) = client("r", group, "link del lan").expect("run");
    let refusal =
        "link del lan: refused: the socket r is read-only: expected show, list, get, save or version\n";
    assert_eq!((code, err.as_str()), (2, refusal));
    if root {
        for (socket, gid) in [("r", NOBODY), ("txweir.sock", group)] {
            let (code, _, err) = client(socket, gid, "link show").expect("run");
            assert!(code == 1 && err.contains("Permission denied"), "{socket}: {err}");
        }
    }
    let wrong =
        dir.run(&["daemon", "--socket", "t", "--socket-read", "r2", "--socket-read-group", "no-such"]);
    assert!(wrong.0 == 1 && wrong.2.contains("expected a group of /etc/group, or its number"), "{wrong:?}");
}
