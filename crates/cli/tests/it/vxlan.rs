//! Two `txweir run` as the ends of a tunnel, each in a network namespace of its own. The test needs
//! root; without it, it prints the reason and passes.

use txweir_device::testnet::NetNs;

use crate::common::{Temp, machine, run_in, skip_unless_possible};

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
