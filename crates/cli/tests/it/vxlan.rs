//! Two `txweir run` as the ends of a tunnel, each in a network namespace of its own, and tunnels of
//! a daemon. Where a test needs root, it prints the reason without it and passes.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use txweir_device::testnet::NetNs;

use crate::common::{
    Folder, PATIENCE, Process, TXWEIR, Temp, confined, machine, run_in, skip_unless_possible,
};

/// TCP goes through the tunnel, in super-frames that are cut on the way, and a policy at its
/// entrance marks.
#[test]
fn tcp_goes_through_a_tunnel_and_is_marked_there() {
    let _machine = machine::alone();
    skip_unless_possible!();
    let [client, near, far, server] = ["client", "near", "far", "server"].map(NetNs::new);
    client.veth("c0", &near, "n0");
    near.veth("u0", &far, "u1");
    server.veth("s0", &far, "f0");
    near.up("u0", "192.0.2.1/24");
    far.up("u1", "192.0.2.2/24");
    for (netns, inside, address) in [(&client, "c0", "10.82.0.1/24"), (&server, "s0", "10.82.0.2/24")] {
        netns.up(inside, address);
        netns.run(&["ip", "link", "set", "dev", inside, "mtu", "1450"]);
        netns.run(&["sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1"]);
    }
    for (netns, interface) in [(&near, "n0"), (&far, "f0")] {
        netns.run(&["ip", "link", "set", "dev", interface, "up"]);
    }
    client.wait_for_carrier("c0");
    server.wait_for_carrier("s0");
    let policy = Temp::new("tunnel.tc", "qdisc add dev vxlan7 root fq_codel ce_threshold 20us\n");
    let args = ["--in", "packet:n0", "--out", "vxlan:7,192.0.2.1,192.0.2.2", "--json"];
    let shaped = ["--wire", "rate=100mbit", "--policy", policy.path()];
    let entrance = run_in(&near, &[&args[..], &shaped].concat());
    let args =
        ["--in", "packet:f0", "--out", "vxlan:7,192.0.2.2,192.0.2.1", "--json", "--wire", "rate=1gbit"];
    let exit = run_in(&far, &args);
    let to = "10.82.0.2:5001".parse().expect("an address");
    let sink = server.tcp_sink(to);
    assert_eq!(client.tcp_source(to, 20 << 20).join().expect("the source"), 20 << 20);
    assert_eq!(sink.join().expect("the sink"), 20 << 20);
    let (entrance, exit) = (entrance.stop(), exit.stop());
    let marked = entrance["directions"][0]["qdiscs"][0]["ce_mark"].as_u64();
    assert!(marked.is_some_and(|n| n > 0), "{entrance}");
    println!("{entrance}\n{exit}");
}

/// Starts a daemon, in a namespace if there is one, whose socket is in this folder, and waits until
/// it serves. A system call that is forbidden by mistake kills it.
fn daemon(folder: &Folder, netns: Option<&NetNs>, words: &[&str]) -> Process {
    let socket = folder.at("s");
    let words = [&[TXWEIR, "daemon", "--socket", &socket], confined(), words].concat();
    let mut command = match netns {
        Some(netns) => netns.command(&words),
        None => {
            let mut command = Command::new(TXWEIR);
            command.args(&words[1..]);
            command
        }
    };
    let mut daemon = Process::spawn(&mut command);
    let ready = daemon.line();
    if ready.is_empty() {
        panic!("{command:?}: {:?}", daemon.end());
    }
    daemon
}

/// Runs a line of words at the daemon of a folder. It must succeed. Returns its output.
fn ok(folder: &Folder, line: &str) -> String {
    let mut command = Command::new(TXWEIR);
    let output = command.args(line.split(' ')).env("TXWEIR_SOCKET", folder.at("s")).output().expect("run");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a link of the daemon of a folder as `link show -j` has it.
fn shown(folder: &Folder, link: &str) -> Value {
    let all: Value = serde_json::from_str(&ok(folder, &format!("link show {link} -j"))).expect("JSON");
    all[0].clone()
}

/// A tunnel that is added to a confined daemon makes no call that is forbidden there, and knows the
/// MTU of its way.
#[test]
fn a_confined_daemon_takes_a_tunnel() {
    let _machine = machine::shared();
    let folder = Folder::new("tunnel");
    let _daemon = daemon(&folder, None, &[]);
    ok(&folder, "link add t --type vxlan --if 42,127.0.0.1:0,127.0.0.2");
    let link = shown(&folder, "t");
    assert_eq!(link["state"], "up", "{link}");
    // The loopback has another MTU than a way that is not known (1500).
    assert!(link["mtu"].as_u64().is_some_and(|mtu| mtu > 1450), "{link}");
}

/// A daemon starts before the address of its tunnel is there, and the tunnel comes up with the
/// address.
#[test]
fn a_tunnel_waits_for_its_address() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let here = NetNs::new("later");
    let folder = Folder::new("later");
    let config = folder.at("c.tc");
    std::fs::write(&config, "link add t --type vxlan --if 42,192.0.2.1,192.0.2.2\n").expect("write");
    let _daemon = daemon(&folder, Some(&here), &["--config", &config]);
    assert_eq!(shown(&folder, "t")["state"], "waiting");
    here.run(&["ip", "address", "add", "192.0.2.1/24", "dev", "lo"]);
    let give_up = Instant::now() + PATIENCE;
    while shown(&folder, "t")["state"] != "up" {
        assert!(Instant::now() < give_up, "{}", shown(&folder, "t"));
        std::thread::sleep(Duration::from_millis(20));
    }
}
