//! Interfaces of a daemon as the kernel counts them. As root.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use txweir_device::testnet::NetNs;

use super::{Daemon, Dir, Net, PATIENCE, TXWEIR, echo, kinds};
use crate::common::{confined, ledger, machine, number, skip_unless_possible};

/// Waits until a condition holds, and returns what it returned.
fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < give_up, "{what}: not within {:?}", PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn object(net: &Net, link: &str) -> Value {
    let shown: Value = serde_json::from_str(&net.dir.ok(&format!("link show {link} -j"))).expect("JSON");
    shown[0].clone()
}

/// Returns the frames that the interface of a link has received, as the kernel counts them. Those
/// of a TAP device are the ones that the kernel sends through it.
fn received(net: &Net, link: &str) -> u64 {
    let tap = object(net, link)["type"] == "tap";
    let (netns, interface, counts): (_, _, &[&str]) = match (tap, link) {
        (true, "left") => (&net.client, "tap0", &["tx/packets", "tx/dropped"]),
        (true, _) => (&net.server, "tap0", &["tx/packets", "tx/dropped"]),
        (false, name) => (&net.middle, name, &["rx/packets"]),
    };
    let text = netns.run(&["ip", "-s", "-j", "link", "show", "dev", interface]);
    let shown = serde_json::from_str(&text).expect("JSON");
    counts.iter().map(|count| number(&shown, &format!("/0/stats64/{count}"))).sum()
}

/// Returns the kernel's count for the interface of a link, and the link, at an instant at which the
/// link has read all frames: no frame came in between.
fn at_rest(net: &Net, link: &str) -> (u64, Value) {
    eventually("an instant of rest", || {
        let before = received(net, link);
        let shown = object(net, link);
        let rest = number(&shown, "/sums/rx/waiting") == 0 && received(net, link) == before;
        rest.then_some((before, shown))
    })
}

/// Returns the frames that the kernel counts for the interface of a link and the link does not:
/// those before it was made, less those of an interface before this one. A frame on its way through
/// the kernel is in one count only, so the least difference of several looks counts.
fn unseen(net: &Net, link: &str) -> i64 {
    let look = |_| {
        std::thread::sleep(Duration::from_millis(10));
        let (now, shown) = at_rest(net, link);
        now.cast_signed() - number(&shown, "/sums/rx/seen").cast_signed()
    };
    (0..10).map(look).min().unwrap_or(0)
}

/// Checks the sums of a link, and that an interface has received as many frames as they show.
fn sums_hold(net: &Net, link: &str, unseen: i64) -> Value {
    let shown = eventually("a link that shows every frame of its interface", || {
        let (now, shown) = at_rest(net, link);
        (now.checked_sub_signed(unseen) == Some(number(&shown, "/sums/rx/seen"))).then_some(shown)
    });
    let sum = |object: &str, keys: &[&str]| -> u64 {
        keys.iter().map(|key| number(&shown, &format!("/sums/{object}/{key}"))).sum()
    };
    let seen = sum("rx", &["seen"]);
    let places = ["forwarded", "unclaimed", "missed", "oversize", "refused", "waiting"];
    assert_eq!(seen, sum("rx", &places), "{link}: {shown}");
    let [came, known] = ledger(&shown, "/sums/tx").sums();
    assert_eq!(came, known, "{link}: {shown}");
    shown
}

#[test]
fn every_frame_that_an_interface_received_is_shown() {
    let _machine = machine::shared();
    skip_unless_possible!();
    kinds(&["packet", "tap", "xdp"]).for_each(every_frame_is_shown);
}

fn every_frame_is_shown(kind: &str) {
    let net = Net::new(kind);
    assert_eq!(echo(&net, 20), 20);
    let start = unseen(&net, "left");
    // While the daemon stands still, more frames come than the kernel keeps for it.
    net.daemon.signal(Signal::STOP);
    let socket = net.client.enter(|| UdpSocket::bind("10.78.0.1:0").expect("bind"));
    let flood = 30_000;
    for _ in 0..flood {
        socket.send_to(&[0; 1000], "10.78.0.2:9").expect("send");
    }
    net.daemon.signal(Signal::CONT);
    let shown = sums_hold(&net, "left", start);
    let missed = number(&shown, "/sums/rx/missed");
    assert!((1000..=flood).contains(&missed), "{shown}");
    let table = net.dir.ok("link show left");
    let column = |row: usize| table.lines().nth(row).and_then(|line| line.split_whitespace().nth(8));
    assert_eq!((column(0), column(1)), (Some("MISSED"), Some(missed.to_string().as_str())), "{table}");
    // Super-frames of TCP, which a shaper cuts.
    net.dir.ok("tc qdisc replace dev right root tbf rate 200mbit burst 5kb limit 300kb");
    let server = SocketAddr::from(([10, 78, 0, 2], 5201));
    let sink = net.server.tcp_sink(server);
    let bytes = 5_000_000;
    assert_eq!(net.client.tcp_source(server, bytes).join().expect("the source"), bytes);
    assert_eq!(sink.join().expect("the sink"), bytes);
    sums_hold(&net, "left", start);
    let right = sums_hold(&net, "right", unseen(&net, "right"));
    // XDP sockets carry no super-frames.
    assert!(kind == "xdp" || number(&right, "/sums/tx/cut") > 10, "{right}");
    // The connection may still close: the two links are asked one after the other.
    eventually("what left has forwarded has come into right", || {
        let forwarded = number(&object(&net, "left"), "/sums/rx/forwarded");
        (forwarded == number(&object(&net, "right"), "/sums/in/peer")).then_some(())
    });
}

/// Returns the word of `link show` for the state of a link.
fn state(net: &Net, link: &str) -> String {
    object(net, link)["state"].as_str().expect("a text").to_owned()
}

fn becomes(net: &Net, link: &str, wanted: &str) {
    eventually(&format!("{link} is {wanted}"), || (state(net, link) == wanted).then_some(()));
}

/// Makes the veth pair of the server again, under its old names.
fn make_again(net: &Net) {
    net.server.veth("eth0", &net.middle, "right");
    net.server.up("eth0", "10.78.0.2/24");
    net.middle.run(&["ip", "link", "set", "dev", "right", "up"]);
    net.server.wait_for_carrier("eth0");
    net.middle.wait_for_carrier("right");
    // The new interface has another address, which the client would learn only after a while.
    net.client.run(&["ip", "neigh", "flush", "all"]);
}

#[test]
fn an_interface_that_is_made_again_comes_back_with_its_qdiscs() {
    let _machine = machine::shared();
    skip_unless_possible!();
    kinds(&["packet", "xdp"]).for_each(comes_back);
}

fn comes_back(kind: &str) {
    let mut net = Net::new(kind);
    net.dir.ok("tc qdisc replace dev right root handle 7: fq_codel limit 777");
    assert_eq!(echo(&net, 20), 20);
    let before = number(&object(&net, "right"), "/packets");
    net.server.run(&["ip", "link", "del", "dev", "eth0"]);
    becomes(&net, "right", "gone");
    // A link that is not as described is no success.
    let (code, out, err) = net.dir.run(&["link", "replace", "right", "--type", kind]);
    let said =
        format!("link right: interface `{kind}:right` does not exist: `ip link` lists those that do\n");
    assert_eq!((code, out, err), (2, String::new(), said));
    // The daemon finds the interface by itself.
    make_again(&net);
    becomes(&net, "right", "up");
    assert_eq!(echo(&net, 20), 20);
    let shown = net.dir.ok("tc qdisc show dev right");
    assert!(shown.starts_with("qdisc fq_codel 7: root refcnt 2 limit 777p"), "{shown}");
    assert!(number(&object(&net, "right"), "/packets") > before + 20);
    // A command does not wait for the next attempt.
    net.server.run(&["ip", "link", "del", "dev", "eth0"]);
    becomes(&net, "right", "gone");
    make_again(&net);
    net.dir.ok(&format!("link replace right --type {kind}"));
    assert_eq!(state(&net, "right"), "up");
    assert_eq!(echo(&net, 20), 20);
    sums_hold(&net, "right", unseen(&net, "right"));
    net.daemon.signal(Signal::TERM);
    let (code, _, err) = net.daemon.ended();
    let lines: Vec<&str> = err.lines().collect();
    let gone = format!("txweir: link right: interface `{kind}:right` is gone: ");
    let back = format!("txweir: link right: interface `{kind}:right` is back");
    assert_eq!((code, lines[1]), (Some(0), back.as_str()));
    assert!(lines[0].starts_with(&gone) && lines[2].starts_with(&gone), "{err}");
}

/// Interfaces of the configuration appear after the start, one of them after a reload, and one of
/// them vanishes and returns.
#[test]
fn a_daemon_waits_for_the_interfaces_of_its_configuration() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
    let dir = Dir::new();
    let text = "link replace left --type packet\n\
                link replace right --type packet --peer left\n\
                qdisc replace dev right root handle 7: fq_codel limit 777\n";
    dir.file("c.tc", text);
    let config = dir.0.join("c.tc");
    let config = config.to_str().expect("text");
    let mut command = middle.command(&[&[TXWEIR, "daemon", "--config", config], confined()].concat());
    command.env("XDG_RUNTIME_DIR", &dir.0).env_remove("TXWEIR_SOCKET");
    let daemon = Daemon::start(&mut command);
    let mut net = Net { dir, client, server, middle, daemon };
    assert_eq!([state(&net, "left"), state(&net, "right")], ["waiting", "waiting"]);
    let why = "interface `packet:left` does not exist: `ip link` lists those that do";
    assert_eq!(object(&net, "left")["why"], why);
    assert_eq!(net.dir.ok("link show").matches("  waiting  ").count(), 2);
    net.client.veth("eth0", &net.middle, "left");
    net.client.up("eth0", "10.78.0.1/24");
    net.middle.run(&["ip", "link", "set", "dev", "left", "up"]);
    becomes(&net, "left", "up");
    // A reload does not need the other interface either.
    net.dir.file("c.tc", &text.replace("777", "888"));
    net.daemon.signal(Signal::HUP);
    eventually("the reload", || net.dir.ok("tc qdisc show dev right").contains("limit 888p").then_some(()));
    assert_eq!(state(&net, "right"), "waiting");
    make_again(&net);
    becomes(&net, "right", "up");
    net.client.wait_for_carrier("eth0");
    assert_eq!(echo(&net, 20), 20);
    sums_hold(&net, "right", unseen(&net, "right"));
    assert!(
        net.dir.ok("tc -s qdisc show dev right").starts_with("qdisc fq_codel 7: root refcnt 2 limit 888p")
    );
    net.server.run(&["ip", "link", "del", "dev", "eth0"]);
    becomes(&net, "right", "gone");
    make_again(&net);
    becomes(&net, "right", "up");
    assert_eq!(echo(&net, 20), 20);
    net.daemon.signal(Signal::TERM);
    let (code, _, err) = net.daemon.ended();
    let lines: Vec<&str> = err.lines().filter(|line| line.contains("right")).collect();
    let waits = "txweir: link right: waiting: interface `packet:right` does not exist: \
                 `ip link` lists those that do";
    assert_eq!((code, lines[0]), (Some(0), waits), "{err}");
    assert_eq!(lines[1], "txweir: link right: interface `packet:right` has appeared");
    assert!(lines[2].starts_with("txweir: link right: interface `packet:right` is gone: "), "{err}");
    assert_eq!(lines[3], "txweir: link right: interface `packet:right` is back");
    assert!(err.contains("txweir: SIGHUP: --config ") && err.contains("c.tc: applied\n"), "{err}");
}

#[test]
fn a_tap_device_that_is_made_again_comes_back() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = Net::new("tap");
    assert_eq!(echo(&net, 20), 20);
    net.client.run(&["ip", "link", "del", "dev", "tap0"]);
    becomes(&net, "left", "gone");
    net.client.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]);
    net.client.up("tap0", "10.78.0.1/24");
    becomes(&net, "left", "up");
    net.server.run(&["ip", "neigh", "flush", "all"]);
    assert_eq!(echo(&net, 20), 20);
}

#[test]
fn an_interface_that_is_down_or_renamed_is_not_gone() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = Net::new("packet");
    let set = |words: &[&str]| drop(net.middle.run(&[&["ip", "link", "set", "dev"], words].concat()));
    assert_eq!(echo(&net, 20), 20);
    set(&["right", "down"]);
    becomes(&net, "right", "down");
    set(&["right", "name", "other"]);
    becomes(&net, "right", "down");
    set(&["other", "up"]);
    becomes(&net, "right", "up");
    net.middle.wait_for_carrier("other");
    net.server.wait_for_carrier("eth0");
    assert_eq!(echo(&net, 20), 20);
    // Another interface of the old name changes nothing.
    net.middle.run(&["ip", "tuntap", "add", "dev", "right", "mode", "tap"]);
    set(&["other", "down"]);
    becomes(&net, "right", "down");
    set(&["other", "up"]);
    becomes(&net, "right", "up");
    net.server.wait_for_carrier("eth0");
    assert_eq!(echo(&net, 20), 20);
}
