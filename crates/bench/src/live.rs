//! Experiments of the published documents on live links: the kernel's TCP, or a guest without a
//! kernel, with a `txweir` between two ends, on a machine that has other work as well. So they
//! print directions and ratios, and no absolute number counts.
//!
//! Everything happens in network namespaces that the experiments make and remove. A failure is
//! a panic that shows the command; [`reproduce`] makes a text of it.

mod beside;
mod forwarder;
mod guests;
pub mod hosts;
pub mod process;
pub mod soak;
pub mod traffic;
mod turns;

use std::net::{TcpListener, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use txweir_device::{cpu, testnet};

use hosts::{Host, Net, address};
use process::{Temp, median};
use traffic::{Streams, answer, ask, connections};

/// A time longer than any single step takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Rounds of which the medians are taken; each has both cases once.
const ROUNDS: usize = 3;
/// The same for an idle port, where a round may meet a processor that sleeps deeply.
const IDLE_ROUNDS: usize = 9;
/// The line of the experiments with bulk: slow enough that the machine is not the bottleneck.
const LINE: &str = "rate=100mbit,ring=512,descriptors=1";
/// Streams of bulk.
const BULK: usize = 16;
/// Clients that open connections at once.
const CLIENTS: usize = 64;
/// Buffers of the streams, bytes, and so windows of 22 segments: 352 segments of bulk wait in the
/// sender, and fit into the ring.
const BUFFER: u32 = 48 << 10;
/// The qdisc that sends TCP control segments first.
const CONTROL_FIRST: &str = "qdisc add root rough limit 20000 bytes 100mb\n";
/// The way back is not the experiment: every flow has a queue of its own there, and none is
/// dropped.
const BACK: &str = "qdisc add root fq_codel target 5s interval 100s\n";
/// The most that an idle port may add to a round trip, each way.
const ADDED_MAX: Duration = Duration::from_micros(20);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The kind of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TAP devices.
    Tap,
    /// XDP sockets on veth pairs.
    Xdp,
    /// Cards of guests by vhost-user; the guests have no kernel.
    Vhost,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Tap, Self::Xdp, Self::Vhost];

    /// Returns its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Xdp => "xdp",
            Self::Vhost => "vhost",
        }
    }

    /// Returns the reason for which links of this kind cannot be made here, if there is one.
    fn skip_reason(self) -> Option<String> {
        match self {
            Self::Tap => testnet::skip_reason(),
            Self::Xdp => testnet::no_xdp_reason(),
            Self::Vhost => None,
        }
    }

    /// Makes two hosts whose links are of this kind.
    fn net(self, program: &str) -> Net {
        match self {
            Self::Tap | Self::Vhost => Net::with_taps(program),
            Self::Xdp => {
                let net = Net::with_veths(program);
                // A veth without a queueing discipline of its own drops what its end cannot take.
                Net { input: "xdp:left".to_owned(), output: "xdp:right".to_owned(), ..net }
            }
        }
    }
}

/// One comparison: a quantity in two cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The kind of the links.
    pub link: &'static str,
    /// The experiment.
    pub experiment: &'static str,
    /// The quantity and its unit.
    pub quantity: &'static str,
    /// The two cases, in words.
    pub cases: [&'static str; 2],
    /// The medians of the quantity in both cases.
    pub values: [f64; 2],
    /// The relation that is expected of the second case to the first, in words.
    pub expected: &'static str,
    /// True if it holds.
    pub holds: bool,
}

impl Row {
    /// Returns the second value over the first.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.values[1] / self.values[0]
    }

    /// Returns the row as an object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "link": self.link,
            "experiment": self.experiment,
            "quantity": self.quantity,
            "cases": self.cases,
            "values": self.values,
            "ratio": self.ratio(),
            "expected": self.expected,
            "holds": self.holds,
        })
    }
}

/// The result of the experiments with one kind of links.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T = Row> {
    /// The comparisons.
    Rows(Vec<T>),
    /// The experiments cannot run here, because of this.
    Skipped(String),
    /// An experiment has failed, with this text.
    Failed(String),
}

/// Runs the experiments with links of a kind, by this `txweir` program. They take some 35 s.
#[must_use]
pub fn reproduce(program: &str, kind: Kind) -> Outcome {
    if let Some(reason) = kind.skip_reason() {
        return Outcome::Skipped(reason);
    }
    caught(|| match kind {
        Kind::Tap | Kind::Xdp => {
            vec![
                round_trips(program, kind),
                connections_first(program, kind),
                turns::fairsend(program, kind),
                turns::mqprio(program, kind),
                direct(program, kind),
                idle(program, kind),
            ]
        }
        Kind::Vhost => vec![guests::direct(program)],
    })
}

/// Runs experiments, and makes a text of their failure.
fn caught<T>(run: impl FnOnce() -> Vec<T>) -> Outcome<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(rows) => Outcome::Rows(rows),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Outcome::Failed(text.unwrap_or_else(|| "it panicked".to_owned()))
        }
    }
}

/// Measures both cases in turns, so many times, and returns their medians.
fn in_turns(rounds: usize, mut measure: impl FnMut(usize) -> f64) -> [f64; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (case, values) in all.iter_mut().enumerate() {
            values.push(measure(case));
        }
    }
    all.map(median)
}

/// Returns the words that have the kernel cut super-frames where it is asked to.
const fn cut(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Tap => &["--no-offload"],
        Kind::Xdp | Kind::Vhost => &[],
    }
}

/// Has the TCP of both hosts fill a queue.
fn prepare(net: &Net) -> [Host<'_>; 2] {
    let hosts = Host::both(net);
    hosts.iter().for_each(|host| host.prepare(BUFFER, 1 << 17));
    hosts
}

/// Measures `f` beside bulk from the client to the server.
fn beside_bulk(net: &Net, args: &[&str], f: impl FnOnce([Host<'_>; 2]) -> f64) -> f64 {
    let [client, server] = Host::both(net);
    let running = net.start(args);
    let bulk = Streams::start(client, server, BULK);
    thread::sleep(ms(300)); // the windows open
    let value = f([client, server]);
    bulk.end();
    running.stop_and_hear();
    value
}

/// The median round trip of a request of low delay beside bulk (Tom Herbert, netdev, 2011).
fn round_trips(program: &str, kind: Kind) -> Row {
    let net = kind.net(program);
    prepare(&net);
    let values = in_turns(ROUNDS, |case| {
        let wire = format!("{LINE},bql={}", ["off", "on"][case]);
        let args = [&["--json", "--wire", &wire], cut(kind)].concat();
        beside_bulk(&net, &args, |_| trip(&net, ms(700)).as_secs_f64() * 1e3)
    });
    Row {
        link: kind.word(),
        experiment: "bql",
        quantity: "round trip beside bulk, ms",
        cases: ["no byte limit", "byte limit"],
        values,
        expected: "at most 1/3",
        holds: values[1] <= values[0] / 3.0,
    }
}

/// Returns the median round trip of a request from the client to the server.
fn trip(net: &Net, time: Duration) -> Duration {
    let listener = net.server.enter(|| TcpListener::bind(address(0)).expect("bind"));
    let at = listener.local_addr().expect("its address");
    let answers = net.server.spawn(move || answer(&listener));
    let trip = net.client.enter(|| ask(at, time));
    answers.join().expect("the answering side");
    trip
}

/// Connections a second into a host that sends bulk, with and without its control segments ahead
/// (Sepherosa Ziehau, DragonFly BSD, June 2013).
fn connections_first(program: &str, kind: Kind) -> Row {
    let net = kind.net(program);
    prepare(&net);
    let there = Temp::new("live-there.tc", CONTROL_FIRST);
    let back = Temp::new("live-back.tc", BACK);
    let values = in_turns(ROUNDS, |case| {
        let args = ["--json", "--wire", LINE, "--prio-synack", ["off", "on"][case]];
        let policies = ["--policy", there.path(), "--policy-back", back.path()];
        let args = [&args[..], &policies, cut(kind)].concat();
        beside_bulk(&net, &args, |[client, server]| connections(server, client, CLIENTS, ms(600)))
    });
    Row {
        link: kind.word(),
        experiment: "prio-ack",
        quantity: "connections/s beside bulk",
        cases: ["in turn", "control first"],
        values,
        expected: "at least 1.3 times",
        holds: values[1] >= 1.3 * values[0],
    }
}

/// Packets a second of a flood, with and without the direct way past empty qdiscs (Robert Watson,
/// freebsd-arch, 2006). The system calls of both cases are the same, and most of the time.
fn direct(program: &str, kind: Kind) -> Row {
    let net = kind.net(program);
    let values = in_turns(ROUNDS, |case| {
        let args = [&["--json"], DIRECT[case]].concat();
        let running = net.start(&args);
        let time = flood(&net, ms(500));
        let (end, _) = running.stop_and_hear();
        let delivered = end["directions"][0]["stats"]["delivered"].as_f64().expect("a counter");
        delivered / time.as_secs_f64()
    });
    direct_row(kind, values)
}

/// The words of `txweir run` for both cases.
const DIRECT: [&[&str]; 2] = [&["--no-direct"], &[]];

/// Returns the row of the direct way.
fn direct_row(kind: Kind, values: [f64; 2]) -> Row {
    Row {
        link: kind.word(),
        experiment: "direct",
        quantity: "packets/s of a flood",
        cases: ["always queued", "direct"],
        values,
        expected: "not fewer than 9/10",
        holds: values[1] >= 0.9 * values[0],
    }
}

/// Sends small datagrams from the client for `time`, as fast as it can. Returns the time taken.
fn flood(net: &Net, time: Duration) -> Duration {
    let began = OnceLock::new();
    flood_until(net, &|| began.get_or_init(Instant::now).elapsed() >= time)
}

/// Does the same until `ends` is true, which is asked first when the flood begins.
fn flood_until(net: &Net, ends: &(dyn Fn() -> bool + Sync)) -> Duration {
    let sink = net.server.enter(|| UdpSocket::bind(address(0)).expect("bind"));
    let at = sink.local_addr().expect("its address");
    net.client.enter(|| {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("bind");
        socket.connect(at).expect("connect");
        // The neighbour is found before the flood.
        let _ = socket.send(&[0; 18]);
        thread::sleep(ms(50));
        let began = Instant::now();
        while !ends() {
            for _ in 0..64 {
                // A full queue is part of the flood.
                let _ = socket.send(&[0; 18]);
            }
        }
        began.elapsed()
    })
}

/// The processor of what is measured, and that of the hosts that measure.
const PROCESSORS: [usize; 2] = [0, 1];

/// Calls `f` on a processor, if there is one of that number. Threads and programs that `f` starts
/// are bound to it as well.
fn on<T: Send>(processor: usize, f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let bound = scope.spawn(|| {
            let _ = cpu::pin(processor);
            f()
        });
        bound.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The median round trip through an idle port, beside that through a program that only copies
/// frames from one interface to the other. Both run on one processor and the hosts on another:
/// elsewhere the choice of the kernel's scheduler would count for more than the port.
fn idle(program: &str, kind: Kind) -> Row {
    let net = kind.net(program);
    let [port, hosts] = PROCESSORS;
    let measured = || on(hosts, || trip(&net, ms(200)));
    let values = in_turns(IDLE_ROUNDS, |case| {
        let trip = match case {
            0 => forwarder::between(&net, port, measured),
            _ => {
                let running = on(port, || net.start(&["--json"]));
                let trip = measured();
                running.stop_and_hear();
                trip
            }
        };
        trip.as_secs_f64() * 1e6
    });
    Row {
        link: kind.word(),
        experiment: "idle port",
        quantity: "round trip, us",
        cases: ["a forwarder alone", "txweir"],
        values,
        expected: "at most 40 us more: 20 each way",
        holds: values[1] - values[0] <= 2e6 * ADDED_MAX.as_secs_f64(),
    }
}
