//! Hosts that are machines: what they send passes through the queues and the links, at the times at
//! which they send it, and nothing of it is lost without a count. The machines here are scripts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use txweir_core::model::wire::{Completion, WireConfig};
use txweir_core::path::txpath::PathConfig;
use txweir_core::{DqlConfig, Instant, Nanos, Rate, Role};
use txweir_lab::frame::Frame;
use txweir_lab::link::LinkConfig;
use txweir_lab::machine::{Machine, Outcome, Plan};
use txweir_lab::net::{MachineCounts, Net};
use txweir_lab::nic::NicConfig;
use txweir_lab::run::{Options, RunError, run, run_for_page};
use txweir_tc::Policy;

use crate::common::{MS, US, scenario, two_hosts};

/// Delay of the links: longer than the largest unit is on a wire.
const DELAY: u64 = 20 * MS;

/// The events of a machine: the time of each, and words.
type Diary = Rc<RefCell<Vec<(u64, String)>>>;

/// A machine that sends frames at given times, and writes down what it meets.
#[derive(Debug, Default)]
struct Script {
    sends: VecDeque<(u64, Vec<Frame>)>,
    out: VecDeque<Frame>,
    now: u64,
    /// Packets that were given and of which it was not told.
    given: Vec<u32>,
    /// Packets that it has room for.
    room: usize,
    breaks_at: Option<u64>,
    diary: Diary,
}

impl Script {
    fn new(sends: Vec<(u64, Vec<Frame>)>) -> (Self, Diary) {
        let diary = Diary::default();
        (Self { sends: sends.into(), room: usize::MAX, diary: diary.clone(), ..Self::default() }, diary)
    }

    fn write(&self, what: String) {
        self.diary.borrow_mut().push((self.now, what));
    }
}

impl Machine for Script {
    fn next(&self) -> Option<Instant> {
        self.sends.front().map(|(at, _)| Instant(*at))
    }

    fn run(&mut self, now: Instant, free: Instant) -> Result<(), String> {
        assert!(free >= now);
        self.now = now.0;
        if self.breaks_at == Some(now.0) {
            return Err("it broke".to_owned());
        }
        let free = if free == Instant::MAX { "for ever".to_owned() } else { free.0.to_string() };
        self.write(format!("runs, free until {free}"));
        while self.sends.front().is_some_and(|(at, _)| *at <= now.0) {
            self.out.extend(self.sends.pop_front().unwrap().1);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Frame>, String> {
        Ok(self.out.pop_front())
    }

    fn give(&mut self, frame: &Frame) -> Result<bool, String> {
        let has_room = self.given.len() < self.room;
        if has_room {
            self.given.push(frame.ip_len());
        }
        Ok(has_room)
    }

    fn tell(&mut self, now: Instant) -> Result<(), String> {
        self.now = now.0;
        for len in std::mem::take(&mut self.given) {
            self.write(format!("gets {len}"));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Outcome>, String> {
        Ok(vec![Outcome { bytes: vec![1_000], times: vec![5 * MS, 7 * MS] }])
    }
}

/// Returns a segment of TCP from host `from` to host `to` with this payload, or a unit of such
/// segments.
fn segment(from: u8, to: u8, seq: u32, payload: u32, gso_size: u16) -> Frame {
    let mut bytes = [0; 40];
    (bytes[0], bytes[8], bytes[9], bytes[32]) = (0x45, 64, 6, 0x50);
    bytes[2..4].copy_from_slice(&(40 + payload as u16).to_be_bytes());
    bytes[12..16].copy_from_slice(&[10, 0, 0, from + 1]);
    bytes[16..20].copy_from_slice(&[10, 0, 0, to + 1]);
    bytes[20..24].copy_from_slice(&[0x9c, 0x40, 0x13, 0x89]);
    bytes[24..28].copy_from_slice(&seq.to_be_bytes());
    Frame::unit(&bytes, 40 + payload, gso_size)
}

/// Returns a net of two hosts, whose link has 10 Mbit/s, and of a third host
/// without a link.
fn net(limit: Option<u32>) -> Net {
    let mut net = Net::new(1);
    for _ in 0..3 {
        net.host(Default::default(), Default::default());
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let bql = limit.map(|limit| DqlConfig { limit_min: limit, limit_max: limit, ..DqlConfig::default() });
        let path = PathConfig { role: Role::Origin, bql, ..PathConfig::default() };
        let link = LinkConfig { delay: Nanos(DELAY), ..LinkConfig::default() };
        let wire = WireConfig {
            rate: Rate::from_bits(10_000_000),
            completion: Completion::Immediate,
            ..WireConfig::default()
        };
        let config = NicConfig { path, wire, link, seed: 1 };
        net.link(from, to, config).unwrap();
    }
    net
}

/// Time of a frame on the wire at 10 Mbit/s: headers, preamble, FCS and gap included.
const fn on_wire(payload: u64) -> u64 {
    (payload + 40 + 14 + 24) * 800
}

#[test]
fn packets_leave_and_arrive_at_their_times() {
    let mut net = net(None);
    let (a, sent) =
        Script::new(vec![(3 * MS, vec![segment(0, 1, 0, 1_000, 0), segment(0, 1, 1_000, 100, 0)])]);
    let (b, got) = Script::new(Vec::new());
    net.machine(0, Box::new(a));
    net.machine(1, Box::new(b));
    net.rate_step(1, Instant(4 * MS), Rate::from_bits(5_000_000));
    net.run(Instant(50 * MS));
    assert_eq!(*sent.borrow(), [(3 * MS, format!("runs, free until {}", 4 * MS))]);
    let first = 3 * MS + on_wire(1_000) + DELAY;
    let expected = [(first, "gets 1040".to_owned()), (first + on_wire(100), "gets 140".to_owned())];
    assert_eq!(*got.borrow(), expected);
    let totals = net.links().totals();
    assert_eq!((totals.submitted.packets, totals.delivered.packets), (2, 2));
}

#[test]
fn a_full_queue_leaves_packets_with_the_machine() {
    // A unit of 10 segments, and 30 segments behind it, for a queue of 4 packets.
    let mut net = net(Some(3_000));
    let policy = Policy::parse("qdisc add root pfifo limit 4", "p").unwrap();
    net.apply(0, &policy).unwrap();
    let frames = (0..30).map(|n| segment(0, 1, 10_000 + n * 1_000, 1_000, 0));
    let unit = segment(0, 1, 0, 10_000, 1_000);
    let (a, _) = Script::new(vec![(0, std::iter::once(unit).chain(frames).collect())]);
    let (b, got) = Script::new(Vec::new());
    net.machine(0, Box::new(a));
    net.machine(1, Box::new(b));
    net.run(Instant(10 * MS));
    let waits = net.links().nic(0).port().totals().backlog();
    assert!(waits.packets <= 4, "{waits:?}");
    net.run(Instant(200 * MS));
    let got: Vec<u64> = got.borrow().iter().map(|(at, _)| *at).collect();
    assert_eq!(got.len(), 40);
    // Nothing is lost, and the line is never idle.
    let expected: Vec<u64> = (1..=40).map(|n| DELAY + n * on_wire(1_000)).collect();
    assert_eq!(got, expected);
    assert_eq!(net.links().totals().dropped.packets, 0);
    assert_eq!(net.machine_counts(), MachineCounts::default());
}

#[test]
fn packets_without_a_way_or_without_room_are_counted() {
    let mut net = net(None);
    let strangers = [segment(0, 2, 0, 10, 0), segment(0, 200, 0, 10, 0), segment(0, 1, 0, 10, 0)];
    let (a, _) = Script::new(vec![(0, strangers.to_vec()), (2 * MS, vec![segment(0, 1, 10, 10, 0); 3])]);
    let (mut b, got) = Script::new(Vec::new());
    b.room = 0;
    net.machine(0, Box::new(a));
    net.machine(1, Box::new(b));
    net.run(Instant(50 * MS));
    assert_eq!(net.machine_counts(), MachineCounts { refused: 4, unreachable: 2 });
    assert!(got.borrow().is_empty());
    // Two of the last three segments were sent before.
    assert_eq!((net.machines_sent_again(5_001), net.machines_sent_again(5_002)), (20, 0));
    net.measure();
    assert_eq!(net.machine_counts(), MachineCounts::default());
    assert_eq!(net.machines_sent_again(5_001), 0);
}

#[test]
fn a_part_of_a_unit_may_be_sent_again() {
    let mut net = net(None);
    let wrapped = u32::MAX - 499;
    let again = vec![
        segment(0, 1, wrapped, 2_000, 1_000),
        segment(0, 1, wrapped.wrapping_add(1_000), 3_000, 1_000),
        segment(0, 1, wrapped, 500, 0),
    ];
    let (a, _) = Script::new(vec![(0, again)]);
    net.machine(0, Box::new(a));
    net.machine(1, Box::new(Script::new(Vec::new()).0));
    net.machine(1, Box::new(Script::new(Vec::new()).0));
    net.run(Instant(20 * MS));
    assert_eq!(net.machines_sent_again(5_001), 1_500);
}

#[test]
fn a_machine_that_breaks_ends_the_run() {
    let mut net = net(None);
    let (mut a, diary) = Script::new(vec![(0, Vec::new()), (5 * MS, Vec::new()), (9 * MS, Vec::new())]);
    a.breaks_at = Some(5 * MS);
    net.machine(1, Box::new(a));
    net.run(Instant(20 * MS));
    assert_eq!(net.fault(), Some((1, "it broke")));
    assert_eq!(*diary.borrow(), [(0, "runs, free until for ever".to_owned())], "it runs no more");
}

/// Returns a scenario of two machines with this traffic.
fn machines(traffic: &str) -> String {
    let top = "duration = '2s'\nwarmup = '1s'";
    two_hosts(top, "stack = 'linux'", "rate = '10mbit'", traffic)
}

const TRAFFIC: &str = "[[traffic]]\nname = 's'\nfrom = 'a'\nto = 'b'\nkind = 'stream'\ncongestion = 'bbr'\ncount = 3\n\
                       dscp = 'cs1'\nstart = '5ms'\n[[traffic]]\nname = 'r'\nfrom = 'b'\nto = 'a'\nkind = 'rr'\n\
                       request = '100'\nresponse = '400'";

#[test]
fn plans_say_what_each_host_does() {
    let s = scenario(&machines(TRAFFIC));
    let plans = Rc::new(RefCell::new(Vec::new()));
    let kept = plans.clone();
    let boot = move |plan: &Plan| {
        kept.borrow_mut().push(plan.clone());
        let (mut script, _) = Script::new(Vec::new());
        script.sends.push_back((MS * 100 * u64::from(plan.address[3]), Vec::new()));
        Ok(Box::new(Twice(script)) as Box<dyn Machine>)
    };
    let report = run(&s, Options { boot: Some(Box::new(boot)), ..Options::default() }, |_| {}).unwrap();
    let plans = plans.borrow();
    assert_eq!(plans.len(), 2);
    let (a, b) = (&plans[0], &plans[1]);
    assert_eq!((a.host.as_str(), a.address, b.address), ("a", [10, 0, 0, 1], [10, 0, 0, 2]));
    assert_eq!((a.measured_ns, a.ecn, a.tso_max), ((1_000 * MS, 2_000 * MS), false, 0));
    assert_ne!(a.seed, b.seed);
    let text = serde_json::to_string(&a.tasks[0]).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"name":"s","part":"client","server":[[10,0,0,2],5001],"count":3,"exchange":null,"#,
            r#""start_ns":5000000,"stagger_ns":3333333,"congestion":"bbr","ds":32}"#
        ),
        "three members start within the 10 ms of `stagger`"
    );
    let text = serde_json::to_string(&a.tasks[1]).unwrap();
    assert!(
        text.contains(r#""part":"server","server":[[10,0,0,1],5002],"count":1,"exchange":[100,400]"#),
        "{text}"
    );
    // Each task of each machine has moved 1000 bytes, and ended two transactions.
    assert_eq!(report.traffic.len(), 2);
    let (stream, rr) = (&report.traffic[0], &report.traffic[1]);
    assert_eq!((stream.throughput_bit_s, stream.transactions), (8_000, None));
    // The machine has had one of the three connections: the others got nothing.
    assert_eq!((stream.jain, rr.jain), (0.333_333, 1.0));
    assert_eq!((rr.throughput_bit_s, rr.transactions, rr.from.as_str()), (8_000, Some(2), "b"));
    assert_eq!(rr.latency.unwrap().count, 2);
}

/// A machine with two tasks.
#[derive(Debug)]
struct Twice(Script);

impl Machine for Twice {
    fn next(&self) -> Option<Instant> {
        self.0.next()
    }
    fn run(&mut self, now: Instant, free: Instant) -> Result<(), String> {
        self.0.run(now, free)
    }
    fn take(&mut self) -> Result<Option<Frame>, String> {
        self.0.take()
    }
    fn give(&mut self, frame: &Frame) -> Result<bool, String> {
        self.0.give(frame)
    }
    fn tell(&mut self, now: Instant) -> Result<(), String> {
        self.0.tell(now)
    }
    fn finish(&mut self) -> Result<Vec<Outcome>, String> {
        Ok([self.0.finish()?, self.0.finish()?].concat())
    }
}

/// The page names the kernels, and says which traffic it leaves out.
#[test]
fn the_page_says_whose_tcp_it_shows() {
    let boot = |_: &Plan| Ok(Box::new(Twice(Script::new(Vec::new()).0)) as Box<dyn Machine>);
    let page = |text: &str| {
        let options = Options { boot: Some(Box::new(boot)), ..Options::default() };
        run_for_page(&scenario(text), options, |_| {}).unwrap().1
    };
    let kernels = page(&machines(TRAFFIC));
    assert_eq!(kernels.tcp, "a Linux kernel’s, on a, b");
    assert_eq!(kernels.about, "The report alone has the traffic between kernels: s, r.");
    let beside = "[[host]]\nname = 'c'\n[[host]]\nname = 'd'\n[[link]]\nfrom = 'c'\nto = 'd'\nrate = '1mbit'\n\
                  [[traffic]]\nname = 'x'\nfrom = 'c'\nto = 'd'\nkind = 'stream'";
    let both = page(&machines(&format!("{TRAFFIC}\n{beside}")));
    assert!(both.tcp.starts_with("a Linux kernel’s, on a, b; on the other hosts the lab’s"), "{}", both.tcp);
    let lab = page(&machines(TRAFFIC).replace("'linux'", "'lab'"));
    assert!(lab.tcp.starts_with("the lab’s") && lab.about.is_empty(), "{}", lab.tcp);
}

#[test]
fn without_a_kernel_and_without_results_there_is_no_report() {
    let s = scenario(&machines(TRAFFIC));
    let said = |boot| match run(&s, Options { boot, ..Options::default() }, |_| {}) {
        Err(RunError::Machine(host, why)) => format!("{host}: {why}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(said(None), "a: no kernel is given for stack = \"linux\"");
    assert_eq!(said(Some(Box::new(|_: &Plan| Err("it is gone".to_owned())))), "a: it is gone");
    let fewer = |_: &Plan| Ok(Box::new(Script::new(Vec::new()).0) as Box<dyn Machine>);
    assert_eq!(said(Some(Box::new(fewer))), "a: its kernel has given no results");
    let breaks = |plan: &Plan| {
        let (mut script, _) = Script::new(vec![(7 * US, Vec::new())]);
        script.breaks_at = (plan.host == "b").then_some(7 * US);
        Ok(Box::new(Twice(script)) as Box<dyn Machine>)
    };
    assert_eq!(said(Some(Box::new(breaks))), "b: it broke");
}

#[test]
fn what_a_kernel_has_itself_is_refused() {
    let stream = "[[traffic]]\nname = 's'\nfrom = 'a'\nto = 'b'\nkind = 'stream'";
    let lab = "[[host]]\nname = 'c'\n[[link]]\nfrom = 'b'\nto = 'c'\nrate = '1gbit'";
    let cases = [
        ("mss = 1000", "", stream, "mss: not for stack = \"linux\", whose kernel has its own"),
        ("ecn = 'accurate'", "", stream, "ecn: expected off or classic: Linux 6.12 has no accurate ECN"),
        (
            "congestion = 'prague'",
            "",
            stream,
            "congestion: expected reno, cubic, bbr or dctcp between hosts of linux",
        ),
        ("", lab, stream, "stack: expected one link of a host of linux"),
        ("", "", &stream.replace("stream", "voice"), "kind: expected stream or rr between hosts of linux"),
        (
            "",
            "",
            &format!("{stream}\nmark = 1"),
            "ipv6, mark, priority, ecn: not for traffic between hosts of linux",
        ),
        (
            "",
            "",
            &format!("{stream}\ncount = 1001"),
            "count: expected at most 1000 connections of a group, and 1000 groups, between hosts of linux",
        ),
    ];
    for (host, more, traffic, message) in cases {
        let text = two_hosts(
            "duration = '1s'",
            "stack = 'linux'\nHOST",
            "rate = '10mbit'",
            &format!("{more}\n{traffic}"),
        );
        let error = txweir_lab::scenario::Scenario::parse(&text.replace("HOST", host), "t").unwrap_err();
        assert_eq!(error.message, message);
    }
    let text = machines(stream).replacen("stack = 'linux'", "stack = 'lab'", 1);
    let error = txweir_lab::scenario::Scenario::parse(&text, "t").unwrap_err();
    assert_eq!(
        error.message,
        "host: expected stack = \"linux\" for both ends of a group or for none; a has lab"
    );
    let text = machines(stream).replacen("stack = 'linux'", "stack = 'bsd'", 1);
    let error = txweir_lab::scenario::Scenario::parse(&text, "t").unwrap_err();
    assert_eq!(error.message, "stack: expected one of lab, linux, given \"bsd\"");
}
