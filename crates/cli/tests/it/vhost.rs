//! `txweir run` as the network card of a virtual machine: User-Mode Linux, whose kernel's TCP goes
//! through txweir to a host in a network namespace. These tests need root and the reference kernel
//! (`oracle/build`); without these they print the reason and pass. The test of the socket of a
//! daemon's card needs neither.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use txweir_device::testnet::NetNs;

use crate::common::{
    Folder, PATIENCE, Process, Running, TXWEIR, bound, confined, kernel_or_skip, machine,
    skip_unless_possible,
};

/// Longest time for a machine to boot, to send for some seconds, and to halt, on a busy machine.
const BOOT: Duration = Duration::from_secs(120);

/// Process 1 of the machine: the host's files are its root, read-only; the test's folder is
/// writable at /run/job. It halts at the end.
const INIT: &str = r#"#!/bin/bash
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run LC_ALL=C.UTF-8 HOME=/run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mkdir /run/job
mount -t hostfs none /run/job -o "$(sed -n 's/.*JOB=\([^ ]*\).*/\1/p' /proc/cmdline)"
cd /run/job
ip link set lo up
ip address add 10.81.0.1/24 dev eth0
ip link set eth0 up
bash ./work >console 2>&1
cat /sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit >limit
python3 -I -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
"#;

/// A folder that the machine can write, and a host with a TAP device. Both end with the test.
struct Site {
    folder: PathBuf,
    host: NetNs,
    kernel: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Site {
    fn new(name: &str, kernel: PathBuf) -> Self {
        let folder = std::env::temp_dir().join(format!("txw-vm-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let init = folder.join("init");
        fs::write(&init, INIT).expect("write a script");
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("make it executable");
        let host = NetNs::new("host");
        host.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]);
        host.up("tap0", "10.81.0.2/24");
        Self { folder, host, kernel }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("vm0.sock")
    }

    /// Starts `txweir run` between the machine and the host.
    fn start(&self, args: &[&str]) -> Running {
        let input = format!("vhost:{}", self.socket().display());
        let output = format!("tap:{}/tap0", self.host.name());
        crate::common::run_in(&self.host, &[&["--in", &input, "--out", &output, "--json"], args].concat())
    }

    /// Boots the machine, which does this work and halts. Returns what it printed.
    fn boot(&self, work: &str) -> String {
        fs::write(self.folder.join("work"), work).expect("write a script");
        let folder = self.folder.to_str().expect("text");
        let mut command = bound(&self.kernel);
        // It makes the kernel's calls of ptrace fit processors with AMX.
        command.env("LD_PRELOAD", self.kernel.with_file_name("fixed.so"));
        command.args(["mem=192M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
        command.args([
            "con=null",
            "con0=null,fd:1",
            &format!("init={folder}/init"),
            &format!("JOB={folder}"),
        ]);
        command.arg(format!("virtio_uml.device={}:1", self.socket().display()));
        let (_, out, err) = Process::spawn(&mut command).end_within(BOOT);
        let console = fs::read_to_string(self.folder.join("console"));
        console.unwrap_or_else(|error| panic!("the machine did no work: {error}\n{out}{err}"))
    }
}

/// Ends a run. Returns its report and its log.
fn stop(running: Running) -> (Value, String) {
    running.signal(Signal::TERM);
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{err}");
    (serde_json::from_str(out.lines().last().expect("an end")).expect("JSON"), err)
}

/// The kernel of a machine sends and receives TCP through txweir, faster without a policy than the
/// policy allows; no frame of it is lost in txweir, however fast it sends.
#[test]
fn the_tcp_of_a_machine_goes_through_txweir() {
    let _machine = machine::alone();
    skip_unless_possible!();
    let kernel = kernel_or_skip!();
    if let Err(error) = Command::new("iperf3").arg("--version").output() {
        println!("skipped, because iperf3 cannot be run: {error}");
        return;
    }
    let policies = [
        ("the wire alone", "rate=10gbit,ring=1024", "qdisc add dev tap0 root pfifo limit 100"),
        ("fq_codel at 50 Mbit/s", "rate=50mbit,ring=64", "qdisc add dev tap0 root fq_codel"),
        (
            "a FIFO of 20 packets at 50 Mbit/s",
            "rate=50mbit,ring=64",
            "qdisc add dev tap0 root pfifo limit 20",
        ),
    ];
    let site = Site::new("tcp", kernel);
    for (what, wire, policy) in policies {
        let file = site.folder.join("policy.tc");
        fs::write(&file, policy).expect("write a policy");
        let policy_file = file.to_str().expect("text");
        let running = site.start(&["--wire", wire, "--wire-back", "rate=10gbit", "--policy", policy_file]);
        let server = Process::spawn(&mut site.host.command(&["iperf3", "-s"]));
        let work = "iperf3 -c 10.81.0.2 -t 2 -J >there.json; \
            iperf3 -c 10.81.0.2 -t 1 -R -J >back.json";
        let console = site.boot(work);
        drop(server);
        let (end, log) = stop(running);
        let rate = |name: &str| {
            let text = fs::read_to_string(site.folder.join(name)).expect("a report");
            let report: Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{console}{log}"));
            let sum = &report["end"]["sum_received"];
            sum["bits_per_second"].as_f64().unwrap_or_else(|| panic!("{report}{console}{log}"))
        };
        let limit = fs::read_to_string(site.folder.join("limit")).expect("a limit");
        let [there, back] = ["there.json", "back.json"].map(rate);
        let way = &end["directions"][0]["stats"];
        println!(
            "{what}: {:.1} Mbit/s out of the machine, {:.1} into it; its own byte limit {}; dropped {}, marked {}",
            there / 1e6,
            back / 1e6,
            limit.trim(),
            way["dropped"],
            way["marked"]
        );
        assert!(there > 0.0 && back > 0.0);
        if wire.starts_with("rate=50") {
            // The bytes in the queues and the sockets come later than the time that iperf3 counts.
            assert!(there < 60e6, "{what}: {there}");
        }
        assert_eq!((&way["lost"], &way["no_memory"]), (&0.into(), &0.into()), "{end}");
        if policy.contains("pfifo") {
            assert_eq!(way["dropped"], 0, "the machine's own queues have the rest: {end}");
        }
        assert!(log.contains("the machine is connected"), "{log}");
        assert!(log.trim_end().ends_with("the machine has gone"), "{log}");
    }
}

/// A card that is added to a confined daemon replaces the socket that a killed process has left,
/// and not one that a process has. A system call that is forbidden by mistake kills the daemon.
#[test]
fn a_confined_daemon_replaces_the_socket_of_a_dead_process() {
    let _machine = machine::shared();
    let folder = Folder::new("stale");
    let [socket, taken, stale] = ["s", "taken.sock", "stale.sock"].map(|name| folder.at(name));
    let mut daemon =
        Process::spawn(Command::new(TXWEIR).args(["daemon", "--socket", &socket]).args(confined()));
    let ready = daemon.line();
    if ready.is_empty() {
        panic!("{:?}", daemon.end());
    }
    let add = |name: &str, path: &str| {
        let mut command = Command::new(TXWEIR);
        command.args(["link", "add", name, "--type", "vhost", "--if", path]).env("TXWEIR_SOCKET", &socket);
        let output = command.output().expect("run");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    drop(UnixListener::bind(&stale).expect("a socket"));
    // A process that another test has just forked has it until it runs its program.
    let give_up = Instant::now() + PATIENCE;
    while UnixStream::connect(&stale).is_ok() {
        assert!(Instant::now() < give_up, "the socket is still open");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(add("vm0", &stale), (Some(0), String::new()));
    let _other = UnixListener::bind(&taken).expect("a socket");
    let (code, said) = add("vm1", &taken);
    assert!(code == Some(2) && said.contains("another process listens at this socket already"), "{said}");
}

/// A machine that reboots, or whose monitor is killed, finds its card again.
#[test]
fn a_machine_boots_again_on_the_same_card() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let kernel = kernel_or_skip!();
    let site = Site::new("again", kernel);
    let running = site.start(&["--wire", "rate=1gbit"]);
    let listener = site.host.enter(|| TcpListener::bind("10.81.0.2:5300").expect("bind"));
    for boot in ["first", "second"] {
        let listener = listener.try_clone().expect("a descriptor");
        let greets = site.host.spawn(move || {
            let (mut stream, from) = listener.accept().expect("a machine");
            stream.write_all(boot.as_bytes()).expect("a greeting");
            from.ip().to_string()
        });
        let console = site.boot("cat </dev/tcp/10.81.0.2/5300");
        assert_eq!(console, boot);
        assert_eq!(greets.join().expect("the host"), "10.81.0.1");
    }
    let (end, log) = stop(running);
    assert_eq!(log.matches("the machine is connected").count(), 2, "{log}");
    assert_eq!(log.matches("the machine has gone").count(), 2, "{log}");
    assert!(!site.socket().exists(), "{end}");
}
