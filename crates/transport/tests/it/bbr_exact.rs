//! BBR version 1 beside Linux's: a sender gets each acknowledgement that Linux's sender got in the
//! recordings of `spec/tcp/exact/bbr.jsonl`, at the same microsecond, and the test compares each
//! packet that it sends.
//!
//! A connection draws the first phase of PROBE_BW by chance, and its draw is not recorded: a case
//! is equal if it is equal for one of the first seeds.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use txweir_core::{Instant, Nanos};
use txweir_transport::{
    Algorithm, CaState, Config, Connection, EcnMode, Flags, Segment, SynOptions, Tick, below_socket,
};

/// Number of seeds; they draw each of the seven phases.
const SEEDS: u64 = 40;
/// The number of the last tick before time 0: the recorded kernel counts from 300 s before its
/// boot, and time 0 is a multiple of 8192 ticks after that (`spec/tcp/README.md`).
const ZERO_TICK: u64 = (8_192 << 20) - 300_000;
/// Offsets of the recorded clock within a microsecond, ns: round trips are differences of whole
/// microseconds.
const PHASES: [u64; 4] = [0, 250, 500, 750];
/// Lateness of the recorded machine's timers: up to two grains of 256 ns, at each end of the wire,
/// ns.
const LATE: [u64; 6] = [0, 250, 500, 750, 1_000, 1_250];
/// Largest distance, ns, from a recorded answer to the arrival of a packet that it answers. Answers
/// are recorded to the microsecond, and leave when such a packet comes.
const SNAP: u64 = 2_000;
/// Tolerance of times: recordings round to a microsecond, and a timer of the recorded machine may
/// be a few late.
const TOLERANCE_US: i64 = 5;
/// Bytes of headers: Ethernet, IPv4, TCP, and timestamps or the options of a SYN.
const HEADER: u64 = 14 + 20 + 20 + 12;
const SYN_HEADER: u64 = 14 + 20 + 40;
/// Window scale of the recorded answers.
const SCALE: u8 = 7;

fn int(v: &Value) -> i64 {
    v.as_i64().unwrap_or_else(|| panic!("a number is expected: {v}"))
}
fn ints(v: &Value) -> Vec<i64> {
    v.as_array().map(|a| a.iter().map(int).collect()).unwrap_or_default()
}
fn times(v: &Value) -> Vec<i64> {
    ints(v)
        .iter()
        .scan(0, |at, dt| {
            *at += dt;
            Some(*at)
        })
        .collect()
}

/// A packet sent: time in microseconds, number, length.
type Sent = (i64, i64, i64);
/// An answer: time, number acknowledged, window and state of the sender after it.
type Got = (i64, i64, i64, i64);

#[derive(Debug, Default)]
struct Rows {
    sent: Vec<Sent>,
    got: Vec<Got>,
}

fn recorded(case: &Value) -> Rows {
    let (s, g) = (&case["sent"], &case["got"]);
    let sent = times(&s["dt_us"]).into_iter().zip(ints(&s["seq"])).zip(ints(&s["len"]));
    let got =
        times(&g["dt_us"]).into_iter().zip(ints(&g["ack"])).zip(ints(&g["cwnd"])).zip(ints(&g["state"]));
    Rows {
        sent: sent.map(|((at, seq), len)| (at, seq, len)).collect(),
        got: got.map(|(((at, ack), cwnd), state)| (at, ack, cwnd, state)).collect(),
    }
}

/// The unrecorded parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Clock {
    seed: u64,
    base: u64,
    late: u64,
}

/// A sender, and the answers that Linux's sender got.
struct Run<'a> {
    case: &'a Value,
    now: Instant,
    end: Connection,
    base: u64,
    late: u64,
    answers: Vec<(Instant, Segment)>,
    /// Times at which packets sent come back as answers, if each is answered at once.
    echoes: Vec<u64>,
    line_free: u64,
    writes: Vec<(u64, u64)>,
    to_write: u64,
    finish: bool,
    rows: Rows,
}

const fn state_of(s: CaState) -> i64 {
    s as i64
}

/// Returns the arrivals of data at the receiver: time, first and next number, time stamp.
fn arrivals(case: &Value, linux: &Rows, stamp: impl Fn(u64) -> u32) -> Vec<(u64, u64, u64, u32)> {
    let number = |key: &str| int(&case[key]) as u64;
    let acts = case["acts"].as_array().cloned().unwrap_or_default();
    let (mut free, mut data, mut found) = (0, 0, Vec::new());
    for &(at, seq, len) in &linux.sent {
        let ns = at as u64 * 1_000;
        data += i64::from(len > 0);
        let header = if seq == 0 { SYN_HEADER } else { HEADER };
        free = ns.max(free) + (len as u64 + header) * 8 * 1_000_000_000 / number("rate_bps");
        let lost = acts.iter().any(|a| {
            let range = int(&a[1])..int(&a[2]);
            let hit = len > 0 && (range.contains(&data) || data == range.end);
            (a[0] == "drop" && hit) || (a[0] == "dark" && range.contains(&(ns as i64)))
        });
        if !lost && len > 0 {
            found.push((free + number("delay_ns"), seq as u64, (seq + len) as u64, stamp(ns)));
        }
    }
    found
}

/// Returns the answers of the receiver, with the time stamps that it echoes (RFC 7323 section 4.3),
/// which are not recorded.
fn answers(case: &Value, linux: &Rows, stamp: impl Fn(u64) -> u32) -> Vec<(Instant, Segment)> {
    let g = &case["got"];
    let (window, flags) = (ints(&g["window"]), ints(&g["flags"]));
    let mut sacks: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in g["sack"].as_array().into_iter().flatten() {
        let row = ints(row);
        sacks.insert(row[0], row[1..].to_vec());
    }
    let back = int(&case["delay_back_ns"]) as u64;
    let mut data = arrivals(case, linux, &stamp).into_iter().peekable();
    let (mut recent, mut last_ack) = (0, 1);
    let mut rows = Vec::new();
    for (i, &(at, ack, ..)) in linux.got.iter().enumerate() {
        let ns = at as u64 * 1_000;
        while let Some((_, seq, next, stamp)) = data.next_if(|d| d.0 <= ns + 1_000 - back) {
            if seq <= last_ack && next > last_ack {
                recent = stamp;
            }
        }
        last_ack = ack as u64;
        let syn = flags[i] & 2 != 0;
        let mut seg = Segment {
            seq: u64::from(!syn),
            ack: ack as u64,
            window: if syn { window[i] as u16 } else { (window[i] >> SCALE) as u16 },
            flags: Flags(flags[i] as u16),
            stamps: Some((stamp(ns - back), recent)),
            syn: syn.then_some(SynOptions { mss: 1460, scale: Some(SCALE), sack: true }),
            ..Segment::default()
        };
        for block in sacks.get(&(i as i64)).into_iter().flat_map(|b| b.chunks(2)) {
            seg.sacks.push(block[0] as u64, block[1] as u64, 4);
        }
        rows.push((Instant(ns), seg));
    }
    rows.reverse();
    rows
}

/// Bytes of a call of the recorded application.
const CALL: u64 = 256 << 10;

impl<'a> Run<'a> {
    fn new(case: &'a Value, linux: &Rows, clock: Clock) -> Self {
        let Clock { seed, base, late } = clock;
        let phase = Nanos((int(&case["tick_us"]) as u64 * 1_000 + base) % 1_000_000);
        let tick = Tick { phase, first: ZERO_TICK + 1, ..Tick::default() };
        let config = Config {
            algorithm: Algorithm::Bbr,
            ecn: if case["ecn"] == Value::Bool(true) { EcnMode::Classic } else { EcnMode::Off },
            send_buffer: 16 << 20,
            nagle: true,
            tick,
            seed,
            ..Config::default()
        };
        let writes =
            case["flow"]["writes"].as_array().map(|a| a.iter().map(ints).collect()).unwrap_or(vec![]);
        Self {
            case,
            now: Instant(base),
            end: Connection::connect(&config),
            base,
            late,
            answers: answers(case, linux, |ns| tick.stamp(Instant(ns + base))),
            echoes: Vec::new(),
            line_free: 0,
            writes: writes.iter().rev().map(|w| (w[0] as u64 + base, w[1] as u64)).collect(),
            to_write: 0,
            finish: case["flow"].get("finish_ns").is_some(),
            rows: Rows::default(),
        }
    }

    const fn us(&self) -> i64 {
        ((self.now.0 - self.base + 500) / 1_000) as i64
    }

    /// Books a packet's passage through the line.
    fn echo(&mut self, len: u32, flags: Flags) {
        let number = |key: &str| int(&self.case[key]) as u64;
        let bytes = u64::from(len) + if flags.has(Flags::SYN) { SYN_HEADER } else { HEADER };
        self.line_free = self.line_free.max(self.now.0) + bytes * 8 * 1_000_000_000 / number("rate_bps");
        self.echoes.push(self.line_free + number("delay_ns") + number("delay_back_ns"));
    }

    /// Returns the time of the next answer.
    fn answer(&self) -> Option<Instant> {
        let at = self.answers.last()?.0.0 + self.base;
        let next = self.echoes.partition_point(|e| *e < at);
        let near = self.echoes[next.saturating_sub(1)..].iter().take(2).min_by_key(|e| e.abs_diff(at));
        Some(Instant(near.copied().filter(|e| e.abs_diff(at) <= SNAP).map_or(at, |e| e + self.late)))
    }

    fn drain(&mut self) {
        while let Some(seg) = self.end.transmit(self.now) {
            let mss = if seg.gso == 0 { seg.len.max(1) } else { u32::from(seg.gso) };
            for i in 0..seg.segments() {
                let len = mss.min(seg.len - (i * mss).min(seg.len));
                self.rows.sent.push((self.us(), (seg.seq + u64::from(i * mss)) as i64, i64::from(len)));
                self.echo(len, seg.flags);
            }
            self.end.below().released(below_socket(seg.len));
        }
    }

    fn step(&mut self) {
        self.drain();
        while self.writes.last().is_some_and(|w| w.0 <= self.now.0) {
            self.to_write += self.writes.pop().map_or(0, |w| w.1);
        }
        self.write();
        if self.finish && self.to_write == 0 && self.writes.is_empty() {
            self.end.close();
        }
        self.drain();
    }

    /// Writes in calls like the recorded application; segments leave between their parts.
    fn write(&mut self) {
        while self.to_write > 0 {
            let mut call = self.to_write.min(CALL);
            while call > 0 {
                let n = self.end.write_unit(self.now, call);
                if n == 0 {
                    return;
                }
                (call, self.to_write) = (call - n, self.to_write - n);
                self.drain();
            }
        }
    }

    fn run(mut self) -> Rows {
        let until = int(&self.case["duration_ns"]) as u64 + self.base;
        self.step();
        loop {
            let answer = self.answer();
            let write = self.writes.last().map(|w| Instant(w.0)).filter(|at| *at > self.now);
            let due = self.end.deadline();
            let Some(at) = [due, answer, write].into_iter().flatten().min().filter(|at| at.0 <= until) else {
                return self.rows;
            };
            self.now = self.now.max(at);
            if answer == Some(at) {
                let Some((_, seg)) = self.answers.pop() else { return self.rows };
                self.end.receive(self.now, &seg);
                self.step();
                let flow = self.end.flow();
                let row = (self.us(), seg.ack as i64, i64::from(flow.cwnd), state_of(flow.state));
                self.rows.got.push(row);
            } else {
                if due == Some(at) {
                    self.end.on_time(self.now);
                }
                self.step();
            }
        }
    }
}

/// Returns the number of rows that are equal from the start, and the first rows that differ.
fn compare(recorded: &Rows, own: &Rows) -> (usize, Option<String>) {
    let near = |a: i64, b: i64| (a - b).abs() <= TOLERANCE_US;
    let differ =
        |what: &str, i: usize, r: String, o: String| Some(format!("{what} {i}: Linux {r}, txweir {o}"));
    let show = |row: Option<String>| row.unwrap_or("nothing".into());
    let got = (0..recorded.got.len()).find(|&i| {
        let r = recorded.got[i];
        own.got.get(i).is_none_or(|o| !near(o.0, r.0) || (o.1, o.2, o.3) != (r.1, r.2, r.3))
    });
    let sent = (0..recorded.sent.len().max(own.sent.len())).find(|&i| {
        match (recorded.sent.get(i), own.sent.get(i)) {
            (Some(r), Some(o)) => !near(o.0, r.0) || (o.1, o.2) != (r.1, r.2),
            _ => true,
        }
    });
    let sent_at = sent.and_then(|i| recorded.sent.get(i)).map_or(i64::MAX, |r| r.0);
    match (got, sent) {
        (Some(i), _) if recorded.got[i].0 <= sent_at => {
            let own = show(own.got.get(i).map(|r| format!("{r:?}")));
            (sent.unwrap_or(recorded.sent.len()), differ("got", i, format!("{:?}", recorded.got[i]), own))
        }
        (_, Some(i)) => {
            let r = show(recorded.sent.get(i).map(|r| format!("{r:?}")));
            (i, differ("sent", i, r, show(own.sent.get(i).map(|r| format!("{r:?}")))))
        }
        _ => (recorded.sent.len(), None),
    }
}

#[test]
fn each_packet_leaves_when_linux_sent_it() {
    let path = std::env::var("TXWEIR_TCP_EXACT").map_or_else(
        |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tcp/exact/bbr.jsonl"),
        |dir| Path::new(&dir).join("bbr.jsonl"),
    );
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no recording at {}", path.display());
        return;
    };
    let mut different = Vec::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = case["name"].as_str().unwrap_or("?").to_owned();
        let linux = recorded(&case);
        let equal = |c: Clock| {
            let own = Run::new(&case, &linux, c).run();
            let windows = linux.got.iter().zip(&own.got).filter(|(l, o)| l.2 == o.2).count();
            (c, compare(&linux, &own), windows)
        };
        let best = |clocks: Vec<Clock>| {
            let tried = clocks.into_iter().map(equal);
            tried.max_by_key(|(_, (equal, _), windows)| equal + windows).expect("there are clocks")
        };
        let clocks = PHASES.iter().flat_map(|&base| LATE.map(|late| Clock { seed: 0, base, late }));
        let (clock, ..) = best(clocks.collect());
        let (clock, (equal, first), windows) = best((0..SEEDS).map(|seed| Clock { seed, ..clock }).collect());
        println!(
            "{name}: {equal} of {} packets, {windows} of {} windows, {clock:?}{}",
            linux.sent.len(),
            linux.got.len(),
            first.iter().map(|f| format!("; {f}")).collect::<String>()
        );
        if first.is_some() || windows < linux.got.len() {
            different.push(name);
        }
    }
    assert!(different.is_empty(), "{different:?} differ");
}
