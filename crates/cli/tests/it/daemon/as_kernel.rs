//! `txweir as-kernel`: the distribution's own tc, and Python's sockets, as programs whose kernel is
//! the daemon. The tests need tc or python3, and notifications of system calls; if one of them is
//! missing, the test prints the reason and passes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

mod recorded;

use super::{Daemon, Dir, PATIENCE, TXWEIR, told};
use crate::common::machine;

mod clients;
mod examples;
mod flags;
mod follow;
mod hostile;

/// Returns the reason for which a program cannot be run under a supervisor here.
fn missing(program: &str) -> Option<String> {
    let there = Command::new(program).arg("-V").output().is_ok_and(|out| out.status.success());
    let known = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    match (there, known.contains("user_notif")) {
        (false, _) => Some(format!("there is no {program}")),
        (_, false) => Some("the kernel has no notifications of system calls".to_owned()),
        _ => None,
    }
}

macro_rules! skip_without {
    ($program:literal) => {
        if let Some(reason) = missing($program) {
            println!("skipped, because {reason}");
            return;
        }
    };
}
use skip_without;

impl Dir {
    /// Runs the real tc with the daemon as its kernel.
    fn real(&self, line: &str) -> (i32, String, String) {
        let words: Vec<&str> = ["as-kernel", "--", "tc"].into_iter().chain(line.split_whitespace()).collect();
        self.run(&words)
    }
    fn tc(&self, line: &str) -> (i32, String, String) {
        let words: Vec<&str> = ["tc"].into_iter().chain(line.split_whitespace()).collect();
        self.run(&words)
    }
}

/// Returns the lines of a transcript that change qdiscs or classes of the device and that a tc that
/// knows all kinds can say.
fn changes(path: &Path) -> Vec<String> {
    // Words that Linux's tc does not have, or that need a device of the real kernel; and zeros that
    // it does not send.
    const OWN: [&str; 6] = ["tcpctl", "shared", "50%", "mode dcb", "hhf quantum 0", "hhf non_hh_weight 0"];
    let text = fs::read_to_string(path).expect("a transcript");
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ tc "));
    let changes = |line: &&str| {
        let mut words = line.split(' ');
        let object = words.next().is_some_and(|word| matches!(word, "qdisc" | "class"));
        object && words.next().is_some_and(|verb| matches!(verb, "add" | "replace" | "change" | "del"))
    };
    let sayable = |line: &&str| !OWN.iter().any(|word| line.contains(word)) && !line.contains(['\'', '"']);
    lines.filter(changes).filter(sayable).map(|line| line.replace(" t0 ", " lan ")).collect()
}

/// The listings that are compared after each line.
const SHOWS: [&str; 2] = ["-s -d qdisc show dev lan", "-s class show dev lan"];

/// Text, through the real tc, messages, the state, messages again, and the real tc, is the text
/// that `txweir tc` prints for the same lines.
#[test]
fn the_real_tc_prints_what_txweir_tc_prints() {
    let _machine = machine::shared();
    skip_without!("tc");
    let (one, other) = (Dir::new(), Dir::new());
    let _daemons = [&one, &other].map(|dir| Daemon::start(&mut dir.command(&["daemon", "--netlink"])));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc");
    let (mut compared, mut kinds) = (0, 0);
    let mut files: Vec<_> = fs::read_dir(folder).expect("transcripts").flatten().map(|e| e.path()).collect();
    files.sort();
    for file in files {
        let kind = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // tc 6.1 knows the first two not at all, and the third is txweir's own.
        if !file.is_file() || matches!(kind.as_str(), "cake_mq" | "dualpi2" | "rough") {
            continue;
        }
        let queues = if matches!(kind.as_str(), "mq" | "mqprio" | "multiq" | "taprio") { "4" } else { "1" };
        for dir in [&one, &other] {
            dir.run(&["link", "del", "lan"]);
            dir.ok(&format!("link add lan --queues {queues}"));
        }
        let mut accepted = 0;
        // A word that tc 6.1 does not know.
        for line in changes(&file).into_iter().filter(|line| !line.contains(" max-sdu ")) {
            let (real, _, said) = one.real(&line);
            let (own, _, _) = other.tc(&line);
            // Where both refuse, tc may be first with a check of its own.
            assert_eq!(real == 0, own == 0, "{line}: {said}");
            accepted += usize::from(own == 0);
            if own == 0 {
                for show in SHOWS {
                    assert_eq!(one.real(show).1, other.tc(show).1, "{show} after {line}");
                    compared += 1;
                }
            }
        }
        kinds += usize::from(accepted > 0);
    }
    println!("{compared} outputs of {kinds} kinds are the same");
    assert!(compared >= 100 && kinds >= 25, "{compared} {kinds}");
}

/// Returns the words that call the tc of the newest reference kernel, which `oracle/build --kernel
/// 7.2` has put beside it; `None` without one.
fn newest_tc() -> Option<Vec<String>> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/build");
    let said = Command::new(build).args(["--kernel", "7.2", "--path"]).output().ok()?;
    let kernel = String::from_utf8(said.stdout).ok()?;
    let tools = Path::new(kernel.trim()).parent()?.join("tools");
    let name =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
    let loader = fs::read_dir(&tools).ok()?.flatten().map(|entry| entry.path()).find(|path| name(path))?;
    let words = [loader.as_path(), Path::new("--library-path"), &tools, &tools.join("tc")];
    Some(words.iter().map(|word| word.to_string_lossy().into_owned()).collect())
}

/// Lines of kinds that tc 6.1 knows, with words that it does not know.
const NEWER: [&str; 3] = [
    "qdisc add dev lan root handle 1: taprio num_tc 2 map 0 1 queues 1@0 1@1 base-time 1000 max-sdu 200 0 \
     sched-entry S 01 300000 sched-entry S 02 700000 clockid CLOCK_TAI",
    "qdisc change dev lan root handle 1: taprio max-sdu 0 900 fp E E sched-entry S 3 500000 clockid CLOCK_TAI",
    "qdisc change dev lan root handle 1: taprio max-sdu 70000 sched-entry S 3 500000 clockid CLOCK_TAI",
];

/// The same law for kinds and words that only the newest tc knows.
#[test]
fn the_newest_tc_prints_what_txweir_tc_prints() {
    let _machine = machine::shared();
    skip_without!("tc");
    let Some(newest) = newest_tc() else {
        println!("skipped, because there is no tc of Linux 7.2 (oracle/build --kernel 7.2)");
        return;
    };
    let (one, other) = (Dir::new(), Dir::new());
    let _daemons = [&one, &other].map(|dir| Daemon::start(&mut dir.command(&["daemon", "--netlink"])));
    let real = |line: &str| {
        let words = ["as-kernel", "--"].into_iter().chain(newest.iter().map(String::as_str));
        one.run(&words.chain(line.split_whitespace()).collect::<Vec<_>>())
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc");
    let of = |kind: &str| changes(&folder.join(kind).with_extension("txt"));
    let newer = NEWER.map(String::from).to_vec();
    let mut compared = 0;
    for (queues, lines) in [("1", of("dualpi2")), ("4", of("cake_mq")), ("4", newer)] {
        for dir in [&one, &other] {
            dir.run(&["link", "del", "lan"]);
            dir.ok(&format!("link add lan --queues {queues}"));
        }
        for line in lines {
            let (code, _, said) = real(&line);
            let (own, _, _) = other.tc(&line);
            assert_eq!(code == 0, own == 0, "{line}: {said}");
            for show in SHOWS.iter().filter(|_| own == 0) {
                assert_eq!(real(show).1, other.tc(show).1, "{show} after {line}");
                compared += 1;
            }
        }
    }
    println!("{compared} outputs are the same");
    assert!(compared >= 14, "{compared}");
}

#[test]
fn counters_of_waiting_packets_are_the_same() {
    let _machine = machine::shared();
    skip_without!("tc");
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink"]));
    dir.ok("link add lan --type wire --rate 64bit");
    for kind in [
        "codel limit 20",
        "fq_codel limit 30",
        "pie limit 20",
        "red limit 60000 avpkt 1000 burst 20 probability 0.1 bandwidth 1mbit",
        "sfq",
        "choke limit 60 bandwidth 1mbit",
        "prio",
        "tbf rate 64bit burst 1600 limit 9000",
        "htb default 1",
    ] {
        dir.ok(&format!("tc qdisc replace dev lan root handle 1: {kind}"));
        dir.ok("link send lan --packets 40 --size 1000 --flows 3");
        for show in SHOWS {
            let (real, own) = (dir.real(show).1, dir.tc(show).1);
            assert_eq!(real, own, "{kind}");
            assert!(show.contains("class") || own.contains(" pkt (dropped "), "{own}");
        }
        dir.ok("tc qdisc del dev lan root");
    }
}

#[test]
fn a_refusal_has_linuxs_sentence_and_our_reason() {
    let _machine = machine::shared();
    skip_without!("tc");
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink", "--log-changes"]));
    dir.ok("link add lan");
    dir.ok("tc qdisc add dev lan root handle 1: htb");
    for (line, status, said) in [
        (
            "qdisc add dev lan root handle 1: prio",
            2,
            "Error: Exclusivity flag on, cannot modify. root has a qdisc already: 1:: expected no qdisc there yet \
             (use replace, or delete it first).\n",
        ),
        (
            "class change dev lan classid 1:7 htb rate 1mbit",
            2,
            "Error: there is no class 1:7: expected a class that is there; RTNETLINK answers: No such file or \
             directory.\n",
        ),
        ("qdisc add dev wan root pfifo", 1, "Cannot find device \"wan\"\n"),
    ] {
        let (code, out, err) = dir.real(line);
        assert_eq!((code, out.as_str(), err.lines().next()), (status, "", said.lines().next()), "{line}");
    }
}

#[test]
fn monitor_follows_changes_whichever_way_they_come() {
    let _machine = machine::shared();
    skip_without!("tc");
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink"]));
    dir.ok("link add lan");
    let mut command = dir.command(&["as-kernel", "--", "tc", "monitor"]);
    let mut monitor = command.stdout(Stdio::piped()).spawn().expect("start");
    let (send, lines) = mpsc::channel();
    let out = BufReader::new(monitor.stdout.take().expect("piped"));
    let reader =
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    // A change before the monitor listens is not seen: changes go on until one is.
    let seen = |changes: &mut dyn FnMut(u32), text: &str| {
        let give_up = Instant::now() + PATIENCE;
        for limit in 1.. {
            changes(limit);
            let wait = std::time::Duration::from_millis(50);
            while let Ok(line) = lines.recv_timeout(wait) {
                if line.starts_with(text) {
                    return;
                }
            }
            assert!(Instant::now() < give_up, "no line {text}");
        }
    };
    let own = "qdisc pfifo 1: dev lan root refcnt 2 limit ";
    seen(&mut |n| drop(dir.ok(&format!("tc qdisc replace dev lan root handle 1: pfifo limit {n}"))), own);
    let real = "qdisc pfifo 2: dev lan root refcnt 2 limit ";
    seen(&mut |n| drop(dir.real(&format!("qdisc replace dev lan root handle 2: pfifo limit {n}"))), real);
    seen(&mut |_| drop(dir.real("qdisc del dev lan root")), "deleted qdisc pfifo 2: dev lan root");
    // The supervisor dies with the test; the kernel then ends the calls of its program.
    let _ = monitor.kill();
    let _ = monitor.wait();
    drop(reader);
}

/// Sockets as a program may use them: threads, forks, time limits, and those that are not
/// rtnetlink's.
const SOCKETS: &str = r"
import os, socket, struct, threading
def links(s):
    s.send(struct.pack('=IHHIIB3x', 20, 18, 0x301, 7, 0, 0))
    data, peer = s.recvfrom(65536)
    assert peer == (0, 0), peer
    return struct.unpack_from('=IHHII', data)[1]
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
s.bind((0, 0))
port, groups = s.getsockname()
assert port and not groups
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_NETLINK
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == 0
assert links(s) == 16
s.settimeout(0.05)
try: s.recv(10); assert False
except TimeoutError: pass
s.setblocking(False)
try: s.recv(10); assert False
except BlockingIOError: pass
s.setblocking(True)
# A thread waits for a message while another one has calls of its own.
got = []
waits = threading.Thread(target=lambda: got.append(s.recvmsg(65536)))
waits.start()
t = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
t.bind((4711, 0))
assert t.getsockname() == (4711, 0)
assert links(t) == 16
s.send(struct.pack('=IHHIIB3x', 20, 18, 0x301, 8, 0, 0))
waits.join()
assert got[0][3] == (0, 0) and struct.unpack_from('=IHHII', got[0][0])[3:] == (8, port)
# A copy is the same socket, also in a child.
copy = os.dup(t.fileno())
if os.fork() == 0:
    c = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0, fileno=copy)
    os._exit(0 if c.getsockname() == (4711, 0) and links(c) == 16 else 1)
assert os.wait()[1] == 0
g = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
g.bind((0, 0))
assert g.getsockname()[0] == os.getpid()
a, b = socket.socketpair()
a.send(b'x')
assert b.recv(9) == b'x'
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('127.0.0.1', 0))
assert u.getsockname()[0] == '127.0.0.1'
print('good')
";

#[test]
fn sockets_look_like_netlinks() {
    let _machine = machine::shared();
    skip_without!("python3");
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink"]));
    dir.ok("link add lan");
    dir.file("sockets.py", SOCKETS);
    let run = ["as-kernel", "--", "python3", "sockets.py"];
    assert_eq!(dir.run(&run), (0, "good\n".into(), String::new()));
    // The exit status is that of the program, or of its signal.
    assert_eq!(dir.run(&["as-kernel", "--", "sh", "-c", "exit 7"]).0, 7);
    assert_eq!(dir.run(&["as-kernel", "--", "sh", "-c", "kill -9 $$"]).0, 137);
    let (code, _, err) = dir.run(&["as-kernel", "--", "no-such-program"]);
    assert_eq!((code, err.contains("cannot run no-such-program")), (1, true), "{err}");
    let inner = dir.run(&["as-kernel", "--", TXWEIR, "as-kernel", "--", "true"]);
    let said = "txweir: as-kernel: cannot run true: it runs under a supervisor of system calls already, and a \
                program may have one\n";
    assert_eq!((inner.0, inner.2.as_str()), (1, said));
}

#[test]
fn without_a_daemon_the_error_names_the_way_to_start_one() {
    let dir = Dir::new();
    let (code, out, err) = dir.run(&["as-kernel", "--", "true"]);
    let path = dir.socket();
    let said = format!(
        "txweir: no daemon takes messages at {}.netlink: start one with `txweir daemon --netlink`\n",
        path.display()
    );
    assert_eq!((code, out.as_str(), err), (1, "", said));
}

#[test]
fn a_user_without_privileges_has_a_kernel_too() {
    let _machine = machine::shared();
    skip_without!("tc");
    if !rustix::process::geteuid().is_root() {
        println!("skipped, because the other tests have no privileges either");
        return;
    }
    let dir = Dir::new();
    std::os::unix::fs::chown(&dir.0, Some(65_534), Some(65_534)).expect("give it away");
    // The binary may lie where another user cannot look.
    let copy = dir.0.join("txweir");
    fs::copy(TXWEIR, &copy).expect("copy");
    let nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"]).arg(&copy);
        dir.command_of(command, words)
    };
    let _daemon = Daemon::start(&mut nobody(&["daemon", "--netlink"]));
    let run = |words: &[&str]| told(&nobody(words).output().expect("run"));
    assert_eq!(run(&["link", "add", "lan"]).0, 0);
    let add = [
        "as-kernel",
        "--",
        "tc",
        "qdisc",
        "add",
        "dev",
        "lan",
        "root",
        "handle",
        "1:",
        "pfifo",
        "limit",
        "7",
    ];
    assert_eq!(run(&add), (0, String::new(), String::new()));
    let shown = run(&["as-kernel", "--", "tc", "qdisc", "show", "dev", "lan"]).1;
    assert_eq!(shown, "qdisc pfifo 1: root refcnt 2 limit 7p\n");
}
