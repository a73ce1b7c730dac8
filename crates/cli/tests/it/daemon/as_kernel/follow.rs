//! `txweir follow`: the policy of a device of the real kernel, in a network namespace, changed by
//! the real tc, and the same on a link of the daemon.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use txweir_device::testnet::NetNs;

use super::super::{Daemon, Dir, TXWEIR, told};
use super::{missing, skip_without};
use crate::common::{machine, skip_unless_possible};

/// A time longer than any single change takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A device of the kernel, and a link that follows it.
struct Pair {
    dir: Dir,
    ns: NetNs,
    _daemon: Daemon,
    follower: Child,
}

impl Pair {
    fn new() -> Self {
        let (dir, ns) = (Dir::new(), NetNs::new("follow"));
        let daemon = Daemon::start(&mut dir.command(&["daemon"]));
        ns.run(&["ip", "link", "add", "eth0", "numtxqueues", "2", "type", "veth", "peer", "name", "eth1"]);
        ns.run(&["ip", "link", "set", "eth0", "up"]);
        dir.ok("link add lan --queues 2");
        dir.ok("tc qdisc replace dev lan root handle 77: pfifo limit 7");
        let log = |name: &str| fs::File::create(dir.0.join(name)).expect("a log");
        let mut command = dir.command_of(
            ns.command(&[TXWEIR, "follow", "--socket", "txweir.sock", "--to", "lan", "dev", "eth0"]),
            &[],
        );
        let follower = command.stdout(log("out")).stderr(log("err")).stdin(Stdio::null());
        let follower = follower.spawn().expect("start");
        Self { follower, _daemon: daemon, ns, dir }
    }

    fn tc(&self, line: &str) {
        let words: Vec<&str> = ["tc"].into_iter().chain(line.split_whitespace()).collect();
        self.ns.run(&words);
    }

    /// The policies of the device and of the link, as tc prints them, without what is a device's.
    fn policies(&self) -> [Vec<String>; 2] {
        let lines = |text: String| {
            // A device and a link have these by themselves.
            let own = |line: &&str| {
                let is = |part| line.contains(part);
                !(is("noqueue 0:") || is("pfifo_fast 0:") || is("qdisc mq 0:") || is("class mq "))
            };
            let refs = |word: &&str| !word.starts_with("refcnt");
            let mut all: Vec<String> = text
                .replace("refcnt ", "refcnt")
                .lines()
                .filter(own)
                .map(|line| line.split_whitespace().filter(refs).collect::<Vec<_>>().join(" "))
                .collect();
            all.sort();
            all
        };
        let shows = ["qdisc show dev", "class show dev"];
        let words = |show: &'static str, device| -> Vec<&str> {
            ["tc"].into_iter().chain(show.split(' ')).chain([device]).collect()
        };
        let kernel: String = shows.map(|show| self.ns.run(&words(show, "eth0"))).concat();
        let link: String = shows.map(|show| self.dir.run(&words(show, "lan")).1).concat();
        [lines(kernel), lines(link)]
    }

    /// The filters and chains of the device and of the link, as tc prints them.
    fn filters(&self) -> [Vec<String>; 2] {
        let at = ["parent 1:", "parent 1:10", "ingress", "egress"];
        let all = at.map(|at| [format!("filter show dev DEV {at}"), format!("chain show dev DEV {at}")]);
        let block = ["filter show block 7", "chain show block 7"].map(String::from);
        let shows = all.into_iter().chain([block]).flatten();
        let mut both = [Vec::new(), Vec::new()];
        for show in shows {
            let words = |device| -> Vec<String> {
                ["tc"].into_iter().chain(show.split(' ')).map(|word| word.replace("DEV", device)).collect()
            };
            let (kernel, link) = (words("eth0"), words("lan"));
            let refs = |words: &[String]| words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            let kernel: Vec<&str> = kernel.iter().map(String::as_str).collect();
            // The block may not be there.
            let done = self.ns.command(&kernel).output().expect("tc");
            both[0].push(normal(&String::from_utf8_lossy(&done.stdout)));
            let link = refs(&link);
            both[1].push(normal(&self.dir.run(&link.split(' ').collect::<Vec<_>>()).1));
        }
        both
    }

    /// Waits until the link has the filters of the device, and returns them.
    fn same_filters(&self, after: &str) -> String {
        self.equal(after, || self.filters()).concat()
    }

    /// Waits until the link has the policy of the device.
    fn same(&self, after: &str) -> Vec<String> {
        self.equal(after, || self.policies())
    }

    fn equal(&self, after: &str, both: impl Fn() -> [Vec<String>; 2]) -> Vec<String> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let [kernel, link] = both();
            if kernel == link {
                return link;
            }
            let said = || ["out", "err"].map(|name| fs::read_to_string(self.dir.0.join(name)));
            assert!(Instant::now() < give_up, "after {after}: {kernel:#?} {link:#?} {:?}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the follower has said this.
    fn says(&self, text: &str) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(self.dir.0.join("err")).expect("errors");
            if said.contains(text) {
                return;
            }
            assert!(Instant::now() < give_up, "{text} is not in {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.follower.id()).ok().and_then(Pid::from_raw).expect("a number");
        kill_process(pid, signal).expect("signal it");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.follower.kill();
        let _ = self.follower.wait();
    }
}

/// Returns a listing of filters without what is each device's own: its name, the number of the
/// table of a priority of u32, and the order of chains.
fn normal(text: &str) -> String {
    let text = text.replace("eth0", "lan");
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_string()).collect();
    let roots = lines.iter().filter(|line| line.ends_with(": ht divisor 1"));
    let roots: Vec<String> =
        roots.filter_map(|line| line.split(" fh ").nth(1)?.split(':').next().map(String::from)).collect();
    for line in &mut lines {
        for (root, key) in roots.iter().flat_map(|root| [(root, " fh "), (root, " key ht ")]) {
            *line = line.replace(&format!("{key}{root}"), &format!("{key}root"));
        }
    }
    if text.starts_with("chain") {
        lines.sort();
    }
    lines.join("\n")
}

/// Ends the test if the kernel has no htb, which may be a module that is not there.
fn has_htb(pair: &Pair) -> bool {
    let add = ["tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "10"];
    let there = pair.ns.command(&add).output().is_ok_and(|done| done.status.success());
    if !there {
        println!("skipped, because this kernel has no htb");
    }
    there
}

#[test]
fn a_link_follows_a_device_of_the_kernel() {
    let _machine = machine::shared();
    skip_unless_possible!();
    skip_without!("tc");
    let mut pair = Pair::new();
    // A device without a policy: the link's own goes.
    assert_eq!(pair.same("the start"), Vec::<String>::new());
    if !has_htb(&pair) {
        return;
    }
    for line in [
        "class add dev eth0 parent 1: classid 1:1 htb rate 10mbit",
        "class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit ceil 10mbit prio 1",
        "qdisc add dev eth0 parent 1:10 handle 10: pfifo limit 50",
        "class change dev eth0 classid 1:10 htb rate 6mbit ceil 9mbit prio 2",
        "qdisc replace dev eth0 parent 1:10 handle 10: pfifo limit 60",
        "qdisc replace dev eth0 parent 1:10 handle 11: bfifo limit 6000",
        "class add dev eth0 parent 1:1 classid 1:20 htb rate 1mbit",
        "class del dev eth0 classid 1:10",
        "qdisc add dev eth0 clsact",
    ] {
        pair.tc(line);
        let now = pair.same(line);
        assert!(!now.is_empty());
    }
    assert!(pair.same("all").iter().any(|line| line.contains("htb 1:20 parent 1:1 prio 0 rate 1Mbit")));
    pair.tc("qdisc replace dev eth0 root handle 2: mq");
    pair.tc("qdisc add dev eth0 parent 2:2 handle 22: pfifo limit 9");
    let give_up = Instant::now() + PATIENCE;
    while !pair.dir.ok("tc qdisc show dev lan").contains("qdisc pfifo 22: parent 2:2 limit 9p") {
        assert!(Instant::now() < give_up, "{}", pair.dir.ok("tc qdisc show dev lan"));
        std::thread::sleep(Duration::from_millis(20));
    }
    pair.tc("qdisc del dev eth0 clsact");
    pair.tc("qdisc del dev eth0 root");
    assert_eq!(pair.same("the removal"), Vec::<String>::new());
    // It ends with the device.
    pair.ns.run(&["ip", "link", "del", "eth0"]);
    let give_up = Instant::now() + PATIENCE;
    while pair.follower.try_wait().expect("wait").is_none() {
        assert!(Instant::now() < give_up, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    pair.says("txweir: the kernel has no device eth0 any more");
    assert_eq!(pair.follower.wait().expect("wait").code(), Some(2));
}

/// A program that every packet meets, as tc takes it: `ret #-1`.
const ALL: &str = "bytecode '1,6 0 0 4294967295'";

#[test]
fn a_link_follows_the_filters_of_a_device() {
    let _machine = machine::shared();
    skip_unless_possible!();
    skip_without!("tc");
    let pair = Pair::new();
    pair.same("the start");
    if !has_htb(&pair) {
        return;
    }
    pair.dir.ok("link add eth1");
    pair.tc("class add dev eth0 parent 1: classid 1:10 htb rate 5mbit");
    pair.tc("class add dev eth0 parent 1: classid 1:20 htb rate 5mbit");
    let first = "filter add dev eth0 parent 1: protocol ip prio 5 u32 match ip dst 10.0.0.1 classid 1:20";
    if !pair.ns.command(&["sh", "-c", &format!("tc {first}")]).status().is_ok_and(|done| done.success()) {
        println!("skipped, because this kernel has no u32");
        return;
    }
    assert!(pair.same_filters(first).contains("match 0a000001/ffffffff at 16"));
    let mirror = "action mirred egress mirror dev eth1";
    for line in [
        // A priority with several, of which one goes and one changes.
        "filter add dev eth0 parent 1: protocol ip prio 5 u32 match ip dst 10.0.0.2 classid 1:10",
        "filter add dev eth0 parent 1: protocol ip prio 6 u32 match ip dst 10.0.0.3 classid 1:10",
        "filter del dev eth0 parent 1: protocol ip prio 5 handle 800::800 u32",
        "filter replace dev eth0 parent 1: protocol ip prio 6 handle 801::800 u32 match ip dst 10.0.0.3 classid 1:20",
        // A hash table, and a link to it.
        "filter add dev eth0 parent 1: protocol ip prio 5 handle 2: u32 divisor 16",
        "filter add dev eth0 parent 1: protocol ip prio 5 u32 ht 2:3: match ip src 10.0.0.4 classid 1:20",
        "filter add dev eth0 parent 1: protocol ip prio 6 u32 match ip src 10.0.0.0/8 link 2: hashkey mask 0xff at 12",
        // A class with filters of its own.
        "filter add dev eth0 parent 1:10 protocol ip prio 1 u32 match ip tos 16 0xff classid 1:20",
        "filter del dev eth0 parent 1: prio 6",
        "filter del dev eth0 parent 1: prio 5",
        "qdisc add dev eth0 clsact",
        "chain add dev eth0 ingress chain 9",
        &format!(
            "filter add dev eth0 ingress chain 9 protocol ip prio 2 u32 match ip protocol 6 0xff {mirror}"
        ),
        "filter add dev eth0 ingress protocol ip prio 1 u32 match ip protocol 17 0xff action mirred ingress redirect dev eth0",
        &format!("filter add dev eth0 egress protocol all prio 3 handle 1 bpf {ALL} classid 1:10"),
        &format!("filter add dev eth0 egress protocol all prio 3 handle 2 bpf {ALL} classid 1:20"),
        "filter del dev eth0 egress protocol all prio 3 handle 1 bpf",
        // Actions of a command of their own, and those of filters, that two filters hold.
        &format!("actions add {mirror} index 7"),
        "filter add dev eth0 egress protocol ip prio 4 u32 match ip dst 10.0.0.5 action mirred index 7",
        "filter add dev eth0 ingress protocol ip prio 7 u32 match ip dst 10.0.0.5 action mirred index 7",
        "actions replace action mirred egress redirect dev eth1 index 7",
        "filter del dev eth0 egress",
        "actions replace action mirred ingress redirect dev eth1 index 1",
        "chain del dev eth0 ingress chain 9",
        "qdisc del dev eth0 clsact",
        "qdisc add dev eth0 ingress_block 7 clsact",
        "filter add block 7 protocol ip prio 1 u32 match ip dst 10.0.0.6 classid 1:10",
        "chain add block 7 chain 3",
        "filter del block 7 protocol ip prio 1",
    ] {
        let done = pair.ns.command(&["sh", "-c", &format!("tc {line}")]).output().expect("tc");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        pair.same_filters(line);
    }
    pair.tc("qdisc del dev eth0 root");
    pair.same_filters("the removal");
    // Nothing was left out.
    assert_eq!(fs::read_to_string(pair.dir.0.join("err")).expect("errors"), "");
    // Linux lists the filters of both chains with each of them.
    pair.tc("qdisc add dev eth0 root handle 1: htb");
    pair.tc("filter add dev eth0 parent 1: protocol ip prio 5 u32 match ip dst 10.0.0.1 classid 1:1");
    pair.same_filters("the first chain");
    pair.tc("filter add dev eth0 parent 1: chain 2 protocol ip prio 5 u32 match ip dst 10.0.0.2 classid 1:1");
    pair.says("lan: filters of u32 of 1:, priority 5: 2 places have this priority, and Linux lists");
}

/// Far more notifications than a socket holds come while nobody takes them (ENOBUFS).
#[test]
fn a_link_is_right_after_notifications_were_lost() {
    let _machine = machine::shared();
    skip_unless_possible!();
    skip_without!("tc");
    let pair = Pair::new();
    pair.same("the start");
    if !has_htb(&pair) {
        return;
    }
    pair.same("the first");
    pair.signal(Signal::STOP);
    let lines: String = (1..3000)
        .map(|n| format!("class add dev eth0 parent 1: classid 1:{n:x} htb rate 1mbit\n"))
        .chain((6..3000).map(|n| format!("class del dev eth0 classid 1:{n:x}\n")))
        .collect();
    let file = pair.dir.file("many.tc", &lines);
    pair.ns.run(&["tc", "-b", &file.to_string_lossy()]);
    pair.signal(Signal::CONT);
    assert_eq!(pair.same("many changes").len(), 6);
    let status = fs::read_to_string(format!("/proc/{}/status", pair.follower.id())).expect("a process");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let kib: u64 = kib.and_then(|kib| kib.trim().parse().ok()).expect("a number");
    assert!(kib < 64 << 10, "{kib} KiB");
}

#[test]
fn what_is_missing_is_named() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon"]));
    let run = |words: &[&str]| told(&dir.command(words).output().expect("run"));
    let (code, _, err) = run(&["follow", "dev", "nosuchdev0"]);
    assert_eq!(
        (code, err.as_str()),
        (1, "txweir: follow: device nosuchdev0: No such device (os error 19)\n")
    );
    assert_eq!(run(&["follow", "lo", "eth0"]).2, "txweir: follow: expected `dev NAME`\n");
    let (code, out, err) = run(&["follow", "--once", "dev", "lo"]);
    // The device has no policy, and the link is missing only once there is one.
    assert_eq!((code, out.as_str(), err.as_str()), (0, "lo: copied 0\n", ""));
}
