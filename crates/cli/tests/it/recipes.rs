//! Every recipe of docs/recipes.md, run as it stands: its lines are given to a shell in a namespace
//! that plays the machine, `txweir run` carries TCP both ways, and the last lines undo it. The
//! namespaces that a recipe makes get names of their own, because all tests share them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use serde_json::Value;
use txweir_device::testnet::{Cable, Layer, NetNs};

use crate::common::{machine, run_in, skip_unless_possible};

/// Bytes of each transfer: enough for super-frames, and below a second at the lowest rate.
const BYTES: u64 = 500_000;

/// The namespace that each recipe makes.
const BEHIND: &str = "behind";

/// A section of the page, for a namespace of another name.
struct Recipe {
    setup: String,
    run: String,
    undo: String,
    behind: String,
    folder: PathBuf,
}

impl Recipe {
    /// Reads the section below a heading, which has three blocks.
    fn read(heading: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let behind = format!("txw-recipe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let section = page.split("\n## ").find(|s| s.starts_with(&format!("{heading}\n"))).expect(heading);
        let blocks: Vec<String> = section
            .split("```sh\n")
            .skip(1)
            .map(|block| block.split("```").next().unwrap_or(block).replace(BEHIND, &behind))
            .collect();
        let [setup, run, undo] = blocks.try_into().expect("three blocks");
        let folder = std::env::temp_dir().join(&behind);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self { setup, run, undo, behind, folder }
    }
}

/// Removes what the recipe made, also if its test fails.
impl Drop for Recipe {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.behind]).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs lines in a shell on this machine, in this folder.
fn shell(host: &NetNs, folder: &Path, lines: &str) {
    let run = || Command::new("sh").args(["-e", "-c", lines]).current_dir(folder).output();
    let Output { status, stderr, .. } = host.enter(run).expect("a shell");
    assert!(status.success(), "{lines}: {}", String::from_utf8_lossy(&stderr));
}

/// Transfers bytes by TCP.
fn carry(near: &NetNs, far: &NetNs, address: [u8; 4]) {
    static PORT: AtomicU16 = AtomicU16::new(7001);
    let address = SocketAddr::from((address, PORT.fetch_add(1, Ordering::Relaxed)));
    let sink = far.tcp_sink(address);
    assert_eq!(near.tcp_source(address, BYTES).join().expect("the source"), BYTES);
    sink.join().expect("the sink");
}

/// Sets a recipe up on `host`, lets `traffic` pass, undoes the recipe, and returns the last report
/// of the run. `traffic` gets the namespace that the recipe made.
fn follow(heading: &str, host: &NetNs, traffic: impl FnOnce(&NetNs)) -> Value {
    let recipe = Recipe::read(heading);
    shell(host, &recipe.folder, &recipe.setup);
    let words: Vec<&str> = recipe.run.split_whitespace().collect();
    let ["txweir", "run", args @ .., "--policy", policy] = &words[..] else { panic!("{}", recipe.run) };
    let policy = recipe.folder.join(policy);
    let more = ["--policy", policy.to_str().expect("a path in UTF-8"), "--json"];
    let running = run_in(host, &[args, &more].concat());
    let behind = NetNs::existing(&recipe.behind);
    traffic(&behind);
    let end = running.stop();
    shell(host, &recipe.folder, &recipe.undo);
    let left = Command::new("ip").args(["netns", "list"]).output().expect("ip").stdout;
    assert!(!String::from_utf8_lossy(&left).contains(&recipe.behind), "{heading}: not undone");
    end
}

/// Checks that a transfer went out, acknowledgements came back, and the kinds of the qdiscs of each
/// way.
fn assert_carried(end: &Value, kinds: [&[&str]; 2]) {
    for (way, (kinds, bytes)) in kinds.into_iter().zip([BYTES, 1000]).enumerate() {
        let way = &end["directions"][way];
        assert!(way["stats"]["received_bytes"].as_u64() > Some(bytes), "{end}");
        let qdiscs = way["qdiscs"].as_array().expect("a list");
        let there: Vec<&str> = qdiscs.iter().filter_map(|q| q["kind"].as_str()).collect();
        assert_eq!(there, kinds, "{end}");
    }
}

#[test]
fn a_router_or_one_machine() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let [lan, router, isp] = ["lan", "router", "isp"].map(NetNs::new);
    lan.veth("eth0", &router, "eth0");
    router.veth("eth1", &isp, "eth0");
    lan.up("eth0", "192.168.1.2/24");
    router.up("eth0", "192.168.1.1/24");
    router.up("eth1", "203.0.113.2/24");
    isp.up("eth0", "203.0.113.1/24");
    router.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
    lan.run(&["ip", "route", "add", "default", "via", "192.168.1.1"]);
    isp.run(&["ip", "route", "add", "192.168.1.0/24", "via", "203.0.113.2"]);
    let transfer = || carry(&lan, &isp, [203, 0, 113, 1]);
    let end = follow("A router, or one machine", &router, |_| transfer());
    assert_carried(&end, [&["cake"], &["cake"]]);
    transfer();
}

#[test]
fn a_box_between_two_networks() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let [left, between, right] = ["left", "box", "right"].map(NetNs::new);
    left.veth("eth0", &between, "eth0");
    right.veth("eth0", &between, "eth1");
    left.up("eth0", "10.1.0.1/24");
    right.up("eth0", "10.1.0.2/24");
    let transfer = || carry(&left, &right, [10, 1, 0, 2]);
    let end = follow("A box between two networks", &between, |_| transfer());
    assert_carried(&end, [&["tbf", "fq_codel"], &["tbf", "fq_codel"]]);
}

#[test]
fn a_vpn_tunnel() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let [host, site] = ["host", "site"].map(NetNs::new);
    let _vpn = Cable::new(Layer::Packets, [(&host, "tun0"), (&site, "tun0")]);
    host.up("tun0", "10.8.0.2/24");
    host.run(&["ip", "route", "add", "10.20.0.0/16", "dev", "tun0"]);
    site.up("tun0", "10.8.0.1/24");
    site.run(&["ip", "address", "add", "10.20.0.1/32", "dev", "lo"]);
    let transfer = || carry(&host, &site, [10, 20, 0, 1]);
    let end = follow("A VPN tunnel", &host, |_| transfer());
    assert_carried(&end, [&["tbf", "fq_codel"], &["pfifo_fast"]]);
    transfer();
}

/// Makes a host with a bridge, to which a second container is connected.
fn bridged() -> [NetNs; 2] {
    let [host, other] = ["host", "other"].map(NetNs::new);
    host.run(&["ip", "link", "add", "br0", "type", "bridge"]);
    host.up("br0", "172.17.0.1/16");
    other.veth("eth0", &host, "veth6");
    other.up("eth0", "172.17.0.6/16");
    join(&host, "veth6");
    [host, other]
}

/// Makes an interface a port of the bridge.
fn join(host: &NetNs, interface: &str) {
    host.run(&["ip", "link", "set", interface, "master", "br0"]);
    host.run(&["ip", "link", "set", interface, "up"]);
}

#[test]
fn one_container() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let [host, other] = bridged();
    let container = NetNs::new("container");
    container.veth("eth0", &host, "veth5");
    container.up("eth0", "172.17.0.5/16");
    join(&host, "veth5");
    let transfer = || carry(&container, &other, [172, 17, 0, 6]);
    let end = follow("One container", &host, |_| transfer());
    assert_carried(&end, [&["tbf"], &["netem"]]);
    transfer();
}

#[test]
fn one_virtual_machine() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let [host, other] = bridged();
    let guest = NetNs::new("guest");
    let _monitor = Cable::new(Layer::Frames, [(&host, "tap0"), (&guest, "eth0")]);
    guest.up("eth0", "172.17.0.7/16");
    join(&host, "tap0");
    let transfer = || carry(&guest, &other, [172, 17, 0, 6]);
    let end = follow("One virtual machine", &host, |_| transfer());
    assert_carried(&end, [&["htb", "fq_codel"], &["pfifo_fast"]]);
    transfer();
}

#[test]
fn one_program() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let host = NetNs::new("host");
    let end = follow("One program", &host, |app| carry(&host, app, [10, 99, 0, 2]));
    assert_carried(&end, [&["netem"], &["netem"]]);
}
