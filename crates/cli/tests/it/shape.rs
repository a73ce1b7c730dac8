//! `txweir shape` in network namespaces that each test makes and removes. As root.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use txweir_device::testnet::{NetNs, no_xdp_reason};

use crate::common::{PATIENCE, Process, machine};

/// A machine with an interface eth0, and a router behind it.
struct Home {
    machine: NetNs,
    router: NetNs,
    state: PathBuf,
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// Returns a folder that no other test uses.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("txw-shape-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

impl Home {
    fn new() -> Self {
        let (machine, router) = (NetNs::new("machine"), NetNs::new("router"));
        machine.veth("eth0", &router, "lan0");
        router.up("lan0", "10.79.0.254/24");
        router.up("lan0", "fd79::fe/64");
        machine.up("eth0", "10.79.0.1/24");
        machine.up("eth0", "fd79::1/64");
        machine.run(&["ip", "address", "add", "10.79.1.1/24", "brd", "+", "dev", "eth0"]);
        machine.wait_for_carrier("eth0");
        machine.run(&["ip", "route", "add", "default", "via", "10.79.0.254", "metric", "77"]);
        machine.run(&["ip", "-6", "route", "add", "default", "via", "fd79::fe"]);
        machine.run(&["ip", "route", "add", "10.80.0.0/16", "via", "10.79.1.9", "dev", "eth0"]);
        Self { machine, router, state: folder() }
    }

    /// Returns addresses and the routes of all tables as ip prints them, without those that the
    /// kernel makes for each address and device of its own.
    fn snapshot(&self) -> String {
        let shown = [
            vec!["ip", "-o", "address", "show"],
            vec!["ip", "-o", "-4", "route", "show", "table", "all"],
            vec!["ip", "-o", "-6", "route", "show", "table", "all"],
        ];
        // A link-local address, and a route to such, comes a moment after the device is up.
        let by_kernel = |line: &str| {
            line.starts_with("fe80::")
                || line.contains("inet6 fe80::") && !line.contains("inet6 fe80::1/64")
                || line.contains("table local") && line.contains("proto kernel")
        };
        let mut lines: Vec<String> = shown
            .iter()
            .flat_map(|command| self.machine.run(command).lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| !by_kernel(line))
            .map(|line| {
                line.split(": ").last().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect();
        lines.sort();
        lines.join("\n")
    }

    /// Returns the files that are left, beside that of the lock.
    fn left(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.state).expect("a folder");
        let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.ends_with(".lock")).collect()
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let state = self.state.to_str().expect("text");
        let program = [env!("CARGO_BIN_EXE_txweir"), "shape", "eth0", "--state", state];
        self.machine.command(&[&program, args].concat())
    }

    /// Starts `txweir shape` and waits until it is ready.
    fn start(&self, args: &[&str]) -> (Process, BufReader<std::process::ChildStdout>) {
        let mut process = Process::spawn(&mut self.command(args));
        let mut stdout = BufReader::new(process.0.stdout.take().expect("piped"));
        let mut ready = String::new();
        stdout.read_line(&mut ready).expect("text");
        if ready != "ready: eth0 by way of txw-eth0\n" {
            panic!("{ready:?}: {:?}", process.end());
        }
        (process, stdout)
    }

    /// Runs ip in the machine for each line of words.
    fn ip(&self, lines: &[&str]) {
        for line in lines {
            let words: Vec<&str> = std::iter::once("ip").chain(line.split(' ')).collect();
            self.machine.run(&words);
        }
    }

    /// Shapes for a moment, after which everything has to be as before. Returns the addresses and
    /// routes meanwhile, and the errors.
    fn round_trip(&self) -> (String, String) {
        let before = self.snapshot();
        let (shape, _stdout) = self.start(&["--rate", "20mbit"]);
        let during = self.snapshot();
        shape.signal(Signal::TERM);
        let (code, _, err) = shape.end();
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(self.snapshot(), before);
        (during, err)
    }

    /// Sends bytes to the router, or from it. Returns the time that they took.
    fn transfer(&self, to: &NetNs, from: &NetNs, addr: &str, bytes: u64) -> Duration {
        let addr: SocketAddr = addr.parse().expect("an address");
        let (sink, start) = (to.tcp_sink(addr), Instant::now());
        assert_eq!(from.tcp_source(addr, bytes).join().expect("the source"), bytes);
        assert_eq!(sink.join().expect("the sink"), bytes);
        start.elapsed()
    }
}

/// Returns from a test that cannot run here, and prints the reason.
macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = no_xdp_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}

/// Checks that these lines are in a snapshot.
fn has(snapshot: &str, lines: &[&str]) {
    for line in lines {
        assert!(snapshot.lines().any(|there| there == *line), "{line}\nis not in\n{snapshot}");
    }
}

/// The machine's own traffic passes cake both ways, under its own addresses of both versions, and
/// everything is as before at the end.
#[test]
fn the_traffic_of_a_machine_is_shaped_and_everything_is_put_back() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    let before = home.snapshot();
    let (shape, stdout) = home.start(&["--rate", "20mbit", "--down", "40mbit"]);
    let during = home.snapshot();
    assert!(!during.lines().any(|line| line.starts_with("eth0 ")), "{during}");
    for line in before.lines().filter(|line| !line.contains("valid_lft")) {
        let moved = line.replace("dev eth0", "dev txw-eth0");
        assert!(during.contains(&moved), "{moved}\nis not in\n{during}");
    }
    // 20 Mbit/s carry 2 MB in 0.8 s at best, 40 Mbit/s in 0.4 s.
    let (there, back) = (Duration::from_millis(790), Duration::from_millis(390));
    let (machine, router) = (&home.machine, &home.router);
    for (to, from, addr, least) in [
        (router, machine, "10.79.0.254:5301", there),
        (router, machine, "[fd79::fe]:5302", there),
        (machine, router, "10.79.0.1:5303", back),
    ] {
        let took = home.transfer(to, from, addr, 2_000_000);
        assert!(took >= least, "{addr}: {took:?}");
    }
    // Another call would put back under this one.
    for args in [&["--restore"][..], &["--rate", "1mbit"]] {
        let (code, _, err) = Process::spawn(&mut home.command(args)).end();
        let running = "txweir: another `txweir shape eth0` is running: end it first\n";
        assert_eq!((code, err.as_str()), (Some(1), running));
    }
    assert_eq!(home.snapshot(), during);
    shape.signal(Signal::TERM);
    let said: Vec<String> = stdout.lines().map(|line| line.expect("text")).collect();
    let (code, _, err) = shape.end();
    assert_eq!((code, err.as_str()), (Some(0), "txweir: interface `xdp:eth0`: copies, in the driver\n"));
    assert!(said[0].starts_with("ended by SIGTERM, after "), "{said:?}");
    assert_eq!(home.snapshot(), before);
    assert_eq!(home.left(), Vec::<String>::new());
    let took = home.transfer(router, machine, "10.79.0.254:5304", 2_000_000);
    assert!(took < there + PATIENCE, "the interface works");
}

/// A run that was killed is put back by another call, which needs no more than its file; the next
/// run does so by itself.
#[test]
fn a_run_that_was_killed_is_put_back() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    let before = home.snapshot();
    for restore in [true, false] {
        let (shape, _stdout) = home.start(&["--rate", "20mbit"]);
        assert_ne!(home.snapshot(), before);
        kill_both(&shape);
        drop(shape);
        assert_ne!(home.snapshot(), before);
        if restore {
            let (code, _, err) = Process::spawn(&mut home.command(&["--restore"])).end();
            assert_eq!((code, err.as_str()), (Some(0), "txweir: `eth0` is as it was before the last run\n"));
        } else {
            let (shape, _stdout) = home.start(&["--rate", "20mbit"]);
            shape.signal(Signal::TERM);
            assert_eq!(shape.end().0, Some(0));
        }
        assert_eq!(home.snapshot(), before);
    }
    let (code, _, err) = Process::spawn(&mut home.command(&["--restore"])).end();
    assert_eq!((code, err.as_str()), (Some(0), "txweir: nothing to put back for `eth0`\n"));
}

/// Gateways that are outside of the prefixes of the addresses have a route of their own, which ip
/// lists behind the routes by them.
#[test]
fn a_gateway_outside_of_every_prefix_is_within_reach_again() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    home.ip(&[
        "route add 10.99.0.1 dev eth0",
        "route add 10.81.0.0/16 via 10.99.0.1 dev eth0",
        "route add default via 10.99.0.1 dev eth0 metric 78",
        "-6 route add fd99::1 dev eth0",
        "-6 route add fd81::/64 via fd99::1 dev eth0",
    ]);
    let (during, _) = home.round_trip();
    let lines = [
        "10.99.0.1 dev txw-eth0 scope link",
        "10.81.0.0/16 via 10.99.0.1 dev txw-eth0",
        "default via 10.99.0.1 dev txw-eth0 metric 78",
        "fd81::/64 via fd99::1 dev txw-eth0 metric 1024 pref medium",
    ];
    has(&during, &lines);
}

/// A network manager makes the route to the prefix of an address by itself, as the kernel would.
/// A route of another device to the same prefix stays.
#[test]
fn the_routes_to_prefixes_by_a_network_manager_are_put_back() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    home.machine.veth("eth1", &home.router, "lan1");
    home.router.up("lan1", "10.85.0.254/24");
    home.machine.up("eth1", "10.85.0.1/24");
    home.machine.wait_for_carrier("eth1");
    home.ip(&[
        "address add 10.82.0.5/24 dev eth0 noprefixroute",
        "route add 10.82.0.0/24 dev eth0 proto kernel scope link src 10.82.0.5 metric 100",
        "route add 10.83.0.0/16 via 10.82.0.254 dev eth0",
        "-6 address add fd82::5/64 dev eth0 noprefixroute nodad",
        "-6 route add fd82::/64 dev eth0 proto kernel metric 100",
        "-6 route add fd83::/64 via fd82::fe dev eth0",
        "route add 10.84.0.0/16 dev eth0",
        "route append 10.84.0.0/16 dev eth1",
        "-6 route add fd84::/64 dev eth0 proto kernel metric 100",
        "-6 route append fd84::/64 dev eth1 proto kernel metric 100",
    ]);
    let (during, _) = home.round_trip();
    let lines = [
        "10.82.0.0/24 dev txw-eth0 proto kernel scope link src 10.82.0.5 metric 100",
        "10.83.0.0/16 via 10.82.0.254 dev txw-eth0",
        "fd82::/64 dev txw-eth0 proto kernel metric 100 pref medium",
        "fd83::/64 via fd82::fe dev txw-eth0 metric 1024 pref medium",
        "10.84.0.0/16 dev txw-eth0 scope link",
        "10.84.0.0/16 dev eth1 scope link",
        "fd84::/64 dev txw-eth0 proto kernel metric 100 pref medium",
        "fd84::/64 dev eth1 proto kernel metric 100 pref medium",
    ];
    has(&during, &lines);
}

/// The kernel takes the routes of every table away with the last address of an interface. They come
/// back at the end, also after a run that was killed.
#[test]
fn the_routes_of_other_tables_and_with_several_next_hops_are_put_back() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    home.ip(&[
        "route add 10.91.1.0/24 dev eth0 table 100",
        "route add default via 10.91.1.9 dev eth0 table 100",
        "route add local 10.92.0.0/16 dev eth0",
        "route add 10.93.0.0/16 dev lo src 10.79.0.1",
        "route add 10.90.0.0/16 nexthop via 10.79.0.254 dev eth0 weight 2 nexthop via 10.79.1.9 dev eth0",
        "-6 route add fd91::/64 dev eth0 table 100",
        "-6 route add default via fd79::fe dev eth0 table 100",
        "-6 route add fd90::/64 nexthop via fd79::fe dev eth0 nexthop via fd79::fd dev eth0",
    ]);
    let before = home.snapshot();
    assert_eq!(before.lines().filter(|line| line.contains("table 100")).count(), 4, "{before}");
    let (shape, _stdout) = home.start(&["--rate", "20mbit"]);
    kill_both(&shape);
    drop(shape);
    let (code, _, err) = Process::spawn(&mut home.command(&["--restore"])).end();
    assert_eq!((code, err.as_str()), (Some(0), "txweir: `eth0` is as it was before the last run\n"));
    assert_eq!(home.snapshot(), before);
    let (during, err) = home.round_trip();
    for away in ["table 100", "nexthop", "10.92.0.0/16", "10.93.0.0/16"] {
        assert!(!during.contains(away), "{away}\nis in\n{during}");
    }
    let told = "txweir: routes of `eth0` in other tables, or with several next hops: 8 are away meanwhile\n";
    assert!(err.starts_with(told), "{err}");
}

/// A link-local address moves and comes back, also where the kernel makes none by itself.
#[test]
fn a_link_local_address_is_put_back() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    home.ip(&["address add fe80::1/64 dev eth0 nodad"]);
    for mode in ["eui64", "none"] {
        home.machine.run(&["ip", "link", "set", "dev", "eth0", "addrgenmode", mode]);
        let (during, _) = home.round_trip();
        let moved = "txw-eth0 inet6 fe80::1/64 scope link nodad ";
        assert!(during.lines().any(|line| line.starts_with(moved)), "{during}");
    }
}

/// An interface with a route of a nexthop object is refused, and nothing has changed.
#[test]
fn a_route_of_a_nexthop_object_is_refused() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    home.ip(&["nexthop add id 5 via 10.79.0.254 dev eth0", "route add 10.94.0.0/16 nhid 5"]);
    let before = home.snapshot();
    let (code, _, err) = Process::spawn(&mut home.command(&["--rate", "1mbit"])).end();
    let expected = "txweir: interface `eth0` has the route `10.94.0.0/16 nhid 5 via 10.79.0.254 dev eth0` \
                    of a nexthop object: expected next hops of its own\n";
    assert_eq!((code, err.as_str()), (Some(1), expected));
    assert_eq!(home.snapshot(), before);
    assert_eq!(home.left(), Vec::<String>::new());
}

/// Kills a run and the process that it has started.
fn kill_both(shape: &Process) {
    let id = shape.0.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("children");
    shape.signal(Signal::KILL);
    for child in children.split_whitespace() {
        let pid = child.parse().ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::KILL).expect("kill it");
    }
}

/// An interface that cannot be shaped is refused, and nothing has changed.
#[test]
fn an_interface_that_cannot_be_shaped_stays_as_it_is() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let home = Home::new();
    let refused = |args: &[&str]| {
        let before = home.snapshot();
        let (code, out, err) = Process::spawn(&mut home.command(args)).end();
        assert_eq!((home.snapshot(), out.as_str()), (before, ""));
        assert_eq!(home.left(), Vec::<String>::new());
        (code, err)
    };
    let (code, err) = refused(&["--policy", "none.tc"]);
    assert_eq!((code, err.as_str()), (Some(1), "txweir: none.tc: No such file or directory (os error 2)\n"));
    // The run refuses the policy, when the TAP device is there.
    let policy = home.state.with_extension("tc");
    std::fs::write(&policy, "qdisc add dev eth0 root cake bandwidth 20fortnights\n").expect("write");
    let (code, err) = refused(&["--policy", policy.to_str().expect("text")]);
    std::fs::remove_file(&policy).expect("remove");
    assert!(code == Some(2) && err.contains("20fortnights") && err.contains("before it was ready"), "{err}");
    // The device of another purpose is not taken over, and not deleted at the end.
    home.machine.run(&["ip", "link", "add", "br0", "type", "bridge"]);
    let (code, err) = refused(&["--rate", "1mbit", "--tap", "br0"]);
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "txweir: interface `br0` exists already: --tap names another\n")
    );
    home.machine.run(&["ip", "link", "show", "dev", "br0"]);
    home.machine.run(&["ip", "link", "set", "dev", "eth0", "master", "br0"]);
    let (code, err) = refused(&["--rate", "1mbit"]);
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "txweir: interface `eth0` is a port of `br0`: shape that one\n")
    );
}
