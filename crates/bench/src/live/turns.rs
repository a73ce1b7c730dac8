//! Two experiments on who goes first on a live link: senders that yield, and a device that
//! schedules its queues itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::Signal;

use super::hosts::{Host, Net};
use super::process::{Process, Temp};
use super::traffic::Streams;
use super::{BACK, BULK, Kind, LINE, ROUNDS, Row, beside_bulk, cut, in_turns, ms, prepare, trip};

/// The line of the experiment of two directions: frames go both ways, and fewer a second than
/// elsewhere.
const FAIR_LINE: &str = "rate=40mbit,ring=512,descriptors=1";
/// Streams that the sending host receives. Their windows are 262 KB: less than the line carries in
/// the time for which their ACKs wait behind the bulk of the host, and more than it carries in the
/// time for which they wait behind four segments of each of its senders.
const RECEIVED: usize = 8;

/// The rate that a host receives beside its own bulk, without and with senders that yield after
/// four segments (Sepherosa Ziehau, DragonFly BSD, January 2013).
pub(super) fn fairsend(program: &str, kind: Kind) -> Row {
    let net = kind.net(program);
    prepare(&net);
    let back = Temp::new("live-fair-back.tc", BACK);
    let values = in_turns(ROUNDS, |case| {
        let args =
            ["--json", "--wire", FAIR_LINE, "--fairsend", ["0", "4"][case], "--policy-back", back.path()];
        let args = [&args[..], cut(kind)].concat();
        beside_bulk(&net, &args, |[client, server]| {
            let streams = Streams::start(server, client, RECEIVED);
            thread::sleep(ms(600)); // the windows open
            let before = streams.reading();
            thread::sleep(ms(800));
            let rate = streams.reading().since(&before);
            streams.end();
            rate
        })
    });
    Row {
        link: kind.word(),
        experiment: "fairsend",
        quantity: "Mbit/s received beside bulk sent",
        cases: ["no turns", "turns of 4"],
        values,
        expected: "at least 1.15 times",
        holds: values[1] >= 1.15 * values[0],
    }
}

/// The roots of both cases, and the number of transmit queues. Priority 6 is that of low delay.
const ROOTS: [(u32, &str); 2] = [
    (1, "qdisc add dev right root handle 1: prio"),
    (
        2,
        "qdisc add dev right root handle 1: mqprio num_tc 2 map 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 \
         queues 1@0 1@1 hw 1",
    ),
];

/// The round trip of a strict class beside bulk, with priorities ahead of one ring, and with a ring
/// for each class that the device serves by priority (John Fastabend, Linux Plumbers Conference,
/// 2012). No ring has a byte limit, so that the device's scheduler makes all of the difference.
pub(super) fn mqprio(program: &str, kind: Kind) -> Row {
    let net = kind.net(program);
    prepare(&net);
    let values = in_turns(ROUNDS, |case| {
        let served = Served::start(&net);
        let (queues, root) = ROOTS[case];
        for (name, endpoint, more) in [("left", &net.input, ""), ("right", &net.output, " --peer left")] {
            let interface = endpoint.strip_prefix("xdp:").unwrap_or(endpoint);
            served.ask(&format!(
                "link add {name} --type {} --if {interface} --queues {queues} --wire {LINE},bql=off{more}",
                kind.word()
            ));
        }
        served.ask(&format!("tc {root}"));
        let [client, server] = Host::both(&net);
        let bulk = Streams::start(client, server, BULK);
        thread::sleep(ms(300)); // the windows open
        let trip = trip(&net, ms(700));
        bulk.end();
        served.end();
        trip.as_secs_f64() * 1e3
    });
    Row {
        link: kind.word(),
        experiment: "mqprio",
        quantity: "round trip of a strict class beside bulk, ms",
        cases: ["prio, one ring", "mqprio hw 1"],
        values,
        expected: "at most 1/3",
        holds: values[1] <= values[0] / 3.0,
    }
}

/// A `txweir daemon` between the hosts.
struct Served {
    process: Process,
    program: String,
    socket: PathBuf,
}

impl Served {
    fn start(net: &Net) -> Self {
        let socket = std::env::temp_dir().join(format!("txw-live-{}.sock", std::process::id()));
        let path = socket.to_str().expect("a path in UTF-8");
        let words = [&net.program, "daemon", "--keep-netns", "--keep-xdp", "--socket", path];
        let mut process = Process::spawn(&mut net.middle.command(&words));
        let ready = process.line();
        assert!(ready.starts_with("ready: "), "{words:?}: {ready}{:?}", process.end());
        Self { process, program: net.program.clone(), socket }
    }

    /// Performs a command that must succeed.
    fn ask(&self, line: &str) {
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(&self.socket).args(line.split_whitespace()).stdin(Stdio::null());
        let said = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(said.status.success(), "{line}: {}", String::from_utf8_lossy(&said.stderr));
    }

    fn end(self) {
        self.process.signal(Signal::TERM);
        let (code, _, err) = self.process.end();
        assert_eq!(code, Some(0), "{err}");
    }
}
