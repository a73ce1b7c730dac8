//! `txweir run` with the kernel's own TCP, in network namespaces that each test makes and removes.
//! The tests need root and `/dev/net/tun`; without these they print the reason and pass.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use txweir_bench::live::traffic::{answer, ask};
use txweir_device::testnet::NetNs;

use crate::common::{
    Net, PATIENCE, Process, Temp, address, machine, median, number, skip_unless_possible, taps, txweir, veths,
};

/// The results of one run of bulk beside requests.
#[derive(Clone, Copy, Debug)]
struct Measured {
    round_trip: Duration,
    /// Goodput that iperf3's server saw, bit/s.
    bulk: f64,
    /// The most bytes that the wire's ring held.
    held_max: u64,
}

/// Number of streams of bulk TCP. One stream is enough for the rate, but several fill the ring
/// sooner.
const STREAMS: &str = "16";

/// Runs bulk TCP from client to server by iperf3, and requests beside it, through a wire of this
/// kind.
fn bulk_and_requests(net: &Net, wire: &str) -> Measured {
    let running = net.start(&["--wire", wire, "--json"]);
    let server = Process::spawn(&mut net.server.command(&["iperf3", "-s", "-1", "-J"]));
    let listener = net.server.enter(|| TcpListener::bind(address(5300)).expect("bind"));
    let answers = net.server.spawn(move || answer(&listener));
    wait_for_listener(&net.server, 5201);
    // iperf3 itself leaves out the first second, in which the windows open.
    let control = congestion_control(&net.client);
    let args = ["iperf3", "-c", "10.77.0.2", "-P", STREAMS, "-C", control, "-t", "4", "-O", "1", "-J"];
    let client = Process::spawn(&mut net.client.command(&args));
    std::thread::sleep(Duration::from_millis(1500));
    let round_trip = net.client.enter(|| ask(address(5300), Duration::from_millis(2500)));
    let (code, out, err) = client.end();
    assert_eq!(code, Some(0), "{out}{err}");
    let report: Value = serde_json::from_str(&out).expect("JSON of iperf3");
    let bulk = report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    drop(server);
    answers.join().expect("the answering side");
    let end = running.stop();
    let held_max = end["directions"][0]["stats"]["held_max"].as_u64().expect("a counter");
    Measured { round_trip, bulk, held_max }
}

/// Returns a congestion control that fills a queue, whatever the system's default: BBR would leave
/// most of the ring empty.
fn congestion_control(netns: &NetNs) -> &'static str {
    let available = netns.run(&["cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"]);
    if available.split_whitespace().any(|name| name == "cubic") { "cubic" } else { "reno" }
}

/// Waits until a program listens on the port, without connecting to it.
fn wait_for_listener(netns: &NetNs, port: u16) {
    let give_up = Instant::now() + PATIENCE;
    let listening = format!(":{port:04X} 00000000:0000 0A"); // local port, any peer, LISTEN (proc(5))
    let any = format!(":{port:04X} 00000000000000000000000000000000:0000 0A");
    loop {
        let read = |of| fs::read_to_string(format!("/proc/thread-self/net/{of}")).unwrap_or_default();
        let tables = netns.enter(|| ["tcp", "tcp6"].map(read).concat());
        if tables.contains(&listening) || tables.contains(&any) {
            return;
        }
        assert!(Instant::now() < give_up, "no program listens on port {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The published effect, live: a request of low delay passes the queue of the qdisc, but not the
/// frames that are in the device's ring already. Without a byte limit the ring holds 47
/// super-frames, 124 ms at 200 Mbit/s.
#[test]
fn byte_limits_cut_the_latency_of_requests_beside_bulk_and_keep_its_rate() {
    let _machine = machine::alone();
    skip_unless_possible!();
    if let Err(error) = Command::new("iperf3").arg("--version").output() {
        println!("skipped, because iperf3 cannot be run: {error}");
        return;
    }
    let net = taps();
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let (wire, measured) = match round % 2 {
            0 => ("rate=200mbit,ring=1024,bql=off", &mut off),
            _ => ("rate=200mbit,ring=1024", &mut on),
        };
        let m = bulk_and_requests(&net, wire);
        println!(
            "{wire}: round trip {:?}, bulk {:.1} Mbit/s, ring {} B",
            m.round_trip,
            m.bulk / 1e6,
            m.held_max
        );
        measured.push(m);
    }
    let trip = |of: &[Measured]| median(of.iter().map(|m| m.round_trip.as_secs_f64()).collect());
    let bulk = |of: &[Measured]| of.iter().map(|m| m.bulk).sum::<f64>() / of.len() as f64;
    let ratio = trip(&off) / trip(&on);
    let (bulk_off, bulk_on) = (bulk(&off), bulk(&on));
    println!("round trip off/on {ratio:.1}; bulk on/off {:.3}", bulk_on / bulk_off);
    assert!(ratio >= 3.0, "{off:?} {on:?}");
    assert!((0.95..=1.05).contains(&(bulk_on / bulk_off)), "{off:?} {on:?}");
    // Of each 1538 bytes on the wire 1448 are payload.
    let full = 200e6 * 1448.0 / 1538.0;
    for bulk in [bulk_off, bulk_on] {
        assert!((0.95..=1.05).contains(&(bulk / full)), "{off:?} {on:?}");
    }
}

#[test]
fn turns_of_flows_keep_a_request_from_waiting_behind_bulk() {
    let _machine = machine::alone();
    skip_unless_possible!();
    let net = taps();
    let policy = Temp::new("fifo.tc", "qdisc add root pfifo limit 1000\n");
    // Requests have no priority here: the queue is first in, first out, and four windows fill it.
    // Reno's windows grow until a packet is lost; cubic's may stop as soon as they see a delay.
    net.client.enter(|| fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").expect("reno"));
    const BYTES: u64 = 1_500_000;
    let wire = "rate=20mbit,ring=64";
    let trip = |fairsend: &str| {
        let running = net.start(&[
            "--wire",
            wire,
            "--policy",
            policy.path(),
            "--json",
            "--no-offload",
            "--fairsend",
            fairsend,
        ]);
        let bulk: Vec<_> = (0..4)
            .map(|i| {
                let server = address(6000 + i);
                let sink = net.server.tcp_sink(server);
                (net.client.tcp_source(server, BYTES), sink)
            })
            .collect();
        let listener = net.server.enter(|| TcpListener::bind(address(5300)).expect("bind"));
        let answers = net.server.spawn(move || answer(&listener));
        std::thread::sleep(Duration::from_millis(500));
        let round_trip = net.client.enter(|| ask(address(5300), Duration::from_millis(1200)));
        answers.join().expect("the answering side");
        for (source, sink) in bulk {
            assert_eq!(source.join().expect("the source"), BYTES);
            assert_eq!(sink.join().expect("the sink"), BYTES);
        }
        let end = running.stop();
        (round_trip, end["directions"][0]["gate"].clone())
    };
    let ((off, no_gate), (on, gate)) = (trip("0"), trip("4"));
    println!("round trip without turns {off:?}, with turns {on:?}, {gate}");
    assert!(no_gate.is_null() && gate["fairsend"] == 4, "{no_gate} {gate}");
    assert!(gate["held"].as_u64() > Some(1000), "{gate}");
    // With turns a request waits for the bytes that the byte limit leaves in the ring, and four
    // packets of each of five flows, at 0.6 ms each.
    assert!(on * 4 < off, "{off:?} {on:?}");
}

/// A program that was stopped for ten seconds goes on where it was. The kernel drops the frames for
/// which it has no room. Every frame that the program got has a fate, and no interface has timed
/// out.
#[test]
fn a_run_that_was_stopped_goes_on_and_counts_every_frame() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = taps();
    let running = net.start(&["--wire", "rate=1gbit", "--no-offload", "--json"]);
    net.carry(1_000_000);
    running.signal(Signal::STOP);
    net.client.enter(|| {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("bind");
        for _ in 0..2000 {
            socket.send_to(&[0; 100], address(9)).expect("send");
        }
    });
    std::thread::sleep(Duration::from_secs(10));
    running.signal(Signal::CONT);
    net.carry(1_000_000);
    let end = running.stop();
    for direction in end["directions"].as_array().expect("two ways") {
        let of = |key: &str| number(direction, key);
        let known = of("/path/tx_packets") + of("/stats/dropped") + of("/qdiscs/0/qlen");
        assert_eq!((of("/stats/received"), of("/stats/timeouts")), (known, 0), "{direction}");
    }
}

#[test]
fn signals_end_it_with_counters_and_success() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = taps();
    for (signal, by) in [(Signal::TERM, "ended by SIGTERM"), (Signal::INT, "ended by Ctrl-C")] {
        let running = net.start(&["--wire", "rate=1gbit,ring=1024"]);
        let names = format!("{} <-> {}", net.input, net.output);
        assert_eq!(running.ready, format!("ready: {names}, rate 1Gbit ring 1024 bql on\n"));
        net.carry(1_000_000);
        running.signal(signal);
        let (code, out, err) = running.end();
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.starts_with(by), "{out}");
        for ways in [(&net.input, &net.output), (&net.output, &net.input)] {
            assert!(out.contains(&format!("\n{} -> {}\n", ways.0, ways.1)), "{out}");
        }
        for line in [
            "\n  in     ",
            "\n  qdisc pfifo_fast ",
            "\n  path   ",
            "\n  bql    limit ",
            "\n  wire   rate 1Gbit",
        ] {
            assert_eq!(out.matches(line).count(), 2, "{line:?} in {out}");
        }
    }
}

#[test]
fn a_duration_ends_it() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = taps();
    let args = ["--wire", "rate=1gbit", "--duration", "300ms", "--stats-interval", "100ms", "--json"];
    let running = net.start(&args);
    let ready: Value = serde_json::from_str(&running.ready).expect("JSON");
    assert_eq!((&ready["event"], &ready["in"]), (&"ready".into(), &net.input.as_str().into()));
    let (code, out, err) = running.end();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (end, reports) = objects.split_last().expect("an end");
    assert!(reports.len() <= 3 && reports.iter().all(|o| o["event"] == "stats"), "{out}");
    assert_eq!(end["event"], "end");
    assert!(end["elapsed_ns"].as_u64().expect("a time") >= 300_000_000);
}

/// Every report, also while packets are on their way, accounts for each packet that came in.
#[test]
fn intervals_report_every_packet() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = taps();
    let mut running = net.start(&["--wire", "rate=100mbit", "--stats-interval", "20ms", "--json"]);
    let bytes = "/directions/0/stats/received_bytes";
    let number = |of: &Value, pointer: &str| of.pointer(pointer).and_then(Value::as_u64).expect("a number");
    let check = |report: &Value| {
        for way in ["/directions/0", "/directions/1"] {
            let of = |key: &str| number(report, &format!("{way}/{key}"));
            assert_eq!(of("stats/received"), of("rx/frames"), "{report}");
            let seen = of("path/tx_packets") + of("stats/dropped") + of("qdiscs/0/qlen");
            assert_eq!(of("stats/received"), seen, "{report}");
            assert!(of("stats/departed") <= of("path/tx_packets"), "{report}");
            assert_eq!(of("stats/delivered"), of("tx/frames"), "{report}");
        }
    };
    let before = running.line();
    assert_eq!(before["event"], "stats", "{before}");
    net.carry(1_000_000);
    loop {
        let report = running.line();
        check(&report);
        if number(&report, bytes) > 1_000_000 {
            break;
        }
    }
    let end = running.stop();
    assert_eq!(end["event"], "end");
    check(&end);
    assert!(number(&end, bytes) > 1_000_000);
}

/// A shaper that takes super-frames only in pieces, and an AQM; both ways; the other kind of link.
#[test]
fn policies_and_packet_sockets_carry_tcp() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = veths();
    let policy = Temp::new(
        "shape.tc",
        "qdisc add dev right root handle 1: tbf rate 200mbit burst 5kb latency 50ms\n\
         qdisc add dev right parent 1:1 fq_codel\n\
         tc qdisc add dev left root fq_codel\n",
    );
    let running = net.start(&["--wire", "rate=1gbit", "--policy", policy.path(), "--json"]);
    let start = Instant::now();
    net.carry(5_000_000);
    // 5 MB at 200 Mbit/s are 200 ms.
    assert!(start.elapsed() >= Duration::from_millis(190), "{:?}", start.elapsed());
    let end = running.stop();
    let kinds = |way: usize| {
        let qdiscs = end["directions"][way]["qdiscs"].as_array().expect("a list");
        qdiscs.iter().map(|q| q["kind"].as_str().expect("a kind").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (kinds(0), kinds(1)),
        (vec!["tbf".to_owned(), "fq_codel".to_owned()], vec!["fq_codel".to_owned()])
    );
    assert!(end["directions"][0]["stats"]["cut"].as_u64().expect("a counter") > 0, "{end}");
}

/// Filters at the hook that frames come in by and at the qdisc that they leave by; samples; lines.
#[test]
fn filters_choose_and_actions_tell() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = taps();
    let samples = std::env::temp_dir().join(format!("txw-{}-samples", std::process::id()));
    let policy = Temp::new(
        "filters.tc",
        "qdisc add clsact\n\
         filter add ingress protocol ip prio 1 u32 match ip dport 5201 0xffff match ip protocol 6 0xff \
             action sample rate 1 group 3 trunc 64 action simple sdata seen action skbedit mark 7\n\
         qdisc add root handle 1: prio\n\
         qdisc add parent 1:1 handle 10: pfifo\nqdisc add parent 1:2 handle 20: pfifo\n\
         filter add parent 1: protocol ip handle 7 fw classid 1:1\n",
    );
    let file = Temp(samples.clone());
    let args = ["--wire", "rate=1gbit", "--policy", policy.path(), "--samples", file.path(), "--json"];
    let running = net.start(&args);
    net.carry(1_000_000);
    running.signal(Signal::INT);
    let (code, out, err) = running.end();
    assert_eq!(code, Some(0), "{err}");
    let end: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    let packets = |way: usize, handle: &str| {
        let qdiscs = end["directions"][way]["qdiscs"].as_array().expect("a list");
        let found = qdiscs.iter().find(|q| q["handle"] == handle).expect("the qdisc");
        found["packets"].as_u64().expect("a counter")
    };
    // The way there is marked, the way back is not.
    assert!(packets(0, "10:") > 10, "{end}");
    assert_eq!(packets(1, "10:"), 0, "{end}");
    assert!(packets(1, "20:") > 5, "{end}");
    assert!(err.lines().any(|line| line == "simple: seen_1"), "{err}");
    let said = err.lines().find(|line| line.starts_with("samples: ")).expect("the fate of samples");
    assert!(said.ends_with(", 0 dropped") && !said.starts_with("samples: 0"), "{said}");
    assert!(std::fs::metadata(&samples).expect("the file").len() > 1000);
}

#[test]
fn an_interface_that_goes_away_ends_it_with_one_line() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let net = taps();
    let running = net.start(&["--wire", "rate=1gbit"]);
    net.carry(100_000);
    net.server.run(&["ip", "link", "del", "tap0"]);
    let (code, out, err) = running.end();
    assert_eq!(code, Some(2));
    assert!(out.starts_with("ended by an error, after ") && out.contains("  wire   rate 1Gbit"), "{out}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains(&format!("interface `{}` is gone", net.output)), "{err}");
}

/// Returns the exit code and the error of a run that cannot begin.
fn refused(args: &[&str]) -> (Option<i32>, String) {
    let (code, out, err) = Process::spawn(&mut txweir(args)).end();
    assert_eq!(out, "", "{args:?}");
    (code, err)
}

/// None of these needs root: they are refused before an interface is opened, or because none is
/// there.
#[test]
fn what_is_wrong_is_one_line_and_exit_code_1() {
    let _machine = machine::shared();
    let wire = ["--in", "no-such-a", "--out", "no-such-b", "--wire"];
    let ok = [&wire[..], &["rate=1gbit"]].concat();
    for (args, expected) in [
        (
            ok.clone(),
            "interface `no-such-a` does not exist: create it first (`ip tuntap add dev no-such-a mode tap`)",
        ),
        ([&wire[..], &["rate=1gbit,rnig=64"]].concat(), "did you mean \"ring\"?"),
        ([&wire[..], &["ring=64"]].concat(), "--wire: wire rate: expected a rate"),
        (
            [&wire[..], &["rate=1gbit,ring=8"]].concat(),
            "--wire: wire ring: expected 22 (the largest packet's",
        ),
        ([&ok[..], &["--wire-back", "rate=x"]].concat(), "--wire-back: wire rate: expected a rate"),
        (
            [&ok[..], &["--duration", "10"]].concat(),
            "--duration: expected a time with its unit (10s, 500ms), given \"10\"",
        ),
        ([&ok[..], &["--stats-interval", "x"]].concat(), "--stats-interval: expected a time with its unit"),
        ([&ok[..], &["--prio-synack", "of"]].concat(), "for '--prio-synack <on|off>': expected on or off"),
        // Both words are taken: the error comes after them.
        ([&ok[..], &["--prio-synack", "off"]].concat(), "interface `no-such-a` does not exist"),
        ([&ok[..], &["--prio-synack", "on"]].concat(), "interface `no-such-a` does not exist"),
        ([&ok[..], &["--policy", "/no/such/file"]].concat(), "/no/such/file: No such file"),
        (vec!["--in", "udp:x", "--out", "b", "--wire", "rate=1gbit"], "--in: unknown kind of link `udp`"),
        (vec!["--in", "tap:a", "--out", "a", "--wire", "rate=1gbit"], "--out a: the same interface as --in"),
        (
            vec!["--in", "no-such-ns/a", "--out", "b", "--wire", "rate=1gbit"],
            "there is no network namespace `no-such-ns`",
        ),
    ] {
        let (code, err) = refused(&args);
        assert_eq!(code, Some(1), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

/// The diagnostic points at the error in a policy, in as many lines as that takes.
#[test]
fn a_wrong_policy_is_exit_code_1() {
    let _machine = machine::shared();
    for (line, expected) in [
        ("qdisc add root fq_codel limt 100", "fq_codel has no parameter \"limt\""),
        ("qdisc add dev eth7 root fq_codel", "no packets leave by eth7"),
    ] {
        let policy = Temp::new("wrong.tc", line);
        let args =
            ["--in", "no-such-a", "--out", "no-such-b", "--wire", "rate=1gbit", "--policy", policy.path()];
        let (code, err) = refused(&args);
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains(expected) && err.contains("wrong.tc:1:"), "{err}");
    }
}

#[test]
fn missing_privilege_is_one_line_and_exit_code_1() {
    let _machine = machine::shared();
    let mut command = txweir(&["--in", "packet:lo", "--out", "packet:no-such-b", "--wire", "rate=1gbit"]);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534); // nobody
    }
    // The program may lie where the user nobody may not look.
    let child = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return println!("skipped, because the program cannot be run as nobody: {error}"),
    };
    let (code, out, err) = Process(child).end();
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(
        err.contains("interface `packet:lo`: opening a packet socket needs CAP_NET_RAW: run as root"),
        "{err}"
    );
}

/// The experiments of `txweir live reproduce` on TAP devices: each comparison is there, and a byte
/// limit shortens the round trip, as does a device that serves its queues by priority.
#[test]
fn live_reproduce_prints_directions_and_ratios() {
    let _machine = machine::alone();
    skip_unless_possible!();
    let program = crate::common::TXWEIR;
    let said = Command::new(program).args(["live", "reproduce", "tap", "--json"]).output().expect("run it");
    let text = String::from_utf8(said.stdout).expect("text");
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let rows = all[0]["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().map(|row| row["experiment"].as_str().expect("a name")).collect();
    assert_eq!(names, ["bql", "prio-ack", "fairsend", "mqprio", "direct", "idle port"]);
    for row in rows {
        let ratio = row["ratio"].as_f64().expect("a ratio");
        assert!(ratio > 0.0 && row["values"][0].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(rows[0]["holds"], true, "{}", rows[0]);
    assert_eq!(rows[3]["holds"], true, "{}", rows[3]);
}

/// A soak ends by the number of frames, after each report has counted every frame once.
#[test]
fn live_soak_ends_by_the_number_of_frames() {
    let _machine = machine::alone();
    skip_unless_possible!();
    let words = ["live", "soak", "tap", "--frames", "30000", "--json"];
    let said = Command::new(crate::common::TXWEIR).args(words).output().expect("run it");
    let text = String::from_utf8(said.stdout).expect("text");
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let soak = &all[0]["rows"][0];
    assert!(number(soak, "/frames") >= 30_000 && number(soak, "/reports") > 0, "{soak}");
    assert!(number(soak, "/memory_kib/0") > 0, "{soak}");
}
