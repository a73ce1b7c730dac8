//! PIE against recordings of Linux in which packets were dropped by chance: given the kernel's
//! coin, packet by packet, the law acts like the kernel, and every counter of every show is the
//! same to the last digit that tc prints.
//!
//! The recordings are of pie below a tbf, which peeks: a packet leaves pie when the one before it
//! leaves the shaper, or when it arrives at an idle one.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::Value;
use txweir_core::law::pie::{ONE, PieParams, PieState, Ticks};
use txweir_core::qdisc::pie::Updates;
use txweir_core::{Instant, Nanos};
use txweir_lab::replay::{Step, Trace};

/// The recordings' time 0 on the law's clock: a multiple of the coarsest slot of timers that
/// matters here.
const ZERO: i64 = 163_840_000_000;

fn instant(at: i64) -> Instant {
    Instant((ZERO + at).cast_unsigned())
}

/// PIE on numbers, driven by a recording.
struct Replay {
    name: String,
    law: PieState,
    params: PieParams,
    updates: Updates,
    limit: usize,
    ecn: bool,
    /// Number, bytes, arrival.
    queue: VecDeque<(usize, u32, Instant)>,
    bytes: u64,
    /// The packet that the shaper has taken out and not sent.
    held: Option<(usize, u32)>,
    /// pkts_in, overlimit, dropped, maxq, ecn_mark.
    counters: [u64; 5],
    /// Packets that passed, were dropped and were marked by a toss of the coin.
    tossed: [u64; 3],
}

/// Fate of a packet in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Passed,
    Dropped,
    Marked,
}

impl Replay {
    fn new(name: &str) -> Self {
        let params = PieParams {
            target: Ticks::span(Nanos::from_millis(15)),
            alpha: 2,
            beta: 20,
            bytemode: false,
            estimates_rate: false,
            mtu: 1514,
            strict_linux: true,
        };
        Self {
            name: name.into(),
            law: PieState::default(),
            params,
            updates: Updates::new(Instant::ZERO, Nanos::from_millis(15)),
            limit: 1000,
            ecn: false,
            queue: VecDeque::new(),
            bytes: 0,
            held: None,
            counters: [0; 5],
            tossed: [0; 3],
        }
    }

    fn backlog(&self) -> u64 {
        self.bytes + self.held.map_or(0, |(_, len)| u64::from(len))
    }

    fn until(&mut self, now: Instant) {
        let due = self.updates.due(now);
        self.law.catch_up(&self.params, self.backlog(), due);
    }

    fn command(&mut self, now: Instant, line: &str) {
        let Some((before, options)) = line.split_once(" pie") else { return };
        if before.contains("add") {
            self.updates = Updates::new(now, Nanos::from_millis(15));
        }
        let mut words = options.split_whitespace();
        while let Some(key) = words.next() {
            let mut number = || words.next().unwrap_or("").trim_end_matches("ms").parse::<u32>().unwrap();
            match key {
                "limit" => self.limit = number() as usize,
                "target" => self.params.target = Ticks::span(Nanos::from_millis(number().into())),
                "alpha" => self.params.alpha = number(),
                "beta" => self.params.beta = number(),
                "ecn" => self.ecn = true,
                "bytemode" => self.params.bytemode = true,
                "dq_rate_estimator" => self.params.estimates_rate = true,
                other => panic!("{}: {other}", self.name),
            }
        }
    }

    fn arrive(&mut self, now: Instant, id: usize, len: u32, markable: bool, fate: Fate) {
        self.until(now);
        let waiting = self.queue.len() + usize::from(self.held.is_some());
        let did = if waiting >= self.limit {
            self.counters[1] += 1;
            Fate::Dropped
        } else {
            let marks = self.ecn && markable && self.law.marks();
            // The coin with this outcome.
            let unlucky = fate == if marks { Fate::Marked } else { Fate::Dropped };
            let mut asked = false;
            let drops = self.law.drops(&self.params, len, self.backlog(), || {
                asked = true;
                if unlucky { 0 } else { u64::MAX }
            });
            self.tossed[fate as usize] += u64::from(asked);
            match (drops, marks) {
                (false, _) => Fate::Passed,
                (true, true) => Fate::Marked,
                (true, false) => Fate::Dropped,
            }
        };
        assert_eq!(did, fate, "{}: packet {id} at {now}: {:?}", self.name, self.law);
        if did == Fate::Dropped {
            self.law.dropped();
            self.counters[2] += 1;
            return;
        }
        self.counters[4] += u64::from(did == Fate::Marked);
        self.counters[0] += 1;
        self.counters[3] = self.counters[3].max(waiting as u64);
        self.queue.push_back((id, len, now));
        self.bytes += u64::from(len);
        self.peek(now);
    }

    /// Lets the shaper look at the next packet, if it holds none.
    fn peek(&mut self, now: Instant) {
        if self.held.is_none()
            && let Some((id, len, came)) = self.queue.pop_front()
        {
            self.bytes -= u64::from(len);
            let sojourn = Ticks::at(now).since(Ticks::at(came));
            self.law.departed(&self.params, len, sojourn, Ticks::at(now), self.bytes);
            self.held = Some((id, len));
        }
    }

    fn depart(&mut self, now: Instant, id: usize) {
        self.until(now);
        let held = self.held.take().map(|(id, _)| id);
        assert_eq!(held, Some(id), "{}: what leaves at {now}", self.name);
        self.peek(now);
    }

    fn show(&mut self, now: Instant, shown: &Value) {
        self.until(now);
        let number = |key: &str| shown[key].as_u64().unwrap_or_else(|| panic!("{}: {key}", self.name));
        let kernel = ["pkts_in", "overlimit", "dropped", "maxq", "ecn_mark"].map(number);
        assert_eq!(self.counters, kernel, "{} at {now}", self.name);
        assert_eq!(self.law.delay().as_nanos().as_micros(), number("delay"), "{} at {now}: delay", self.name);
        if self.params.estimates_rate {
            assert_eq!(self.law.rate(), number("avg_dq_rate"), "{} at {now}: rate", self.name);
        }
        // tc prints six digits of the lowest 56 bits.
        let prob = (self.law.prob() & ONE) as f64 / ONE as f64;
        let kernel = shown["prob"].as_f64().unwrap_or(-1.0);
        assert!(
            (prob - kernel).abs() <= kernel * 6e-6,
            "{} at {now}: {prob}, the kernel's {kernel}",
            self.name
        );
    }

    fn run(&mut self, trace: &Trace) {
        let mut fates = vec![Fate::Dropped; trace.arrivals.len()];
        for d in &trace.departures {
            let was = trace.rows[trace.arrivals[d.packet].row].ecn;
            fates[d.packet] = if d.ds & 3 == 3 && was != 3 { Fate::Marked } else { Fate::Passed };
        }
        let mut departures = trace.departures.iter().peekable();
        for step in &trace.steps {
            while let Some(d) = departures.next_if(|d| d.at < step.at()) {
                self.depart(instant(d.at), d.packet);
            }
            let now = instant(step.at());
            match step {
                Step::Command { line, .. } => self.command(now, line),
                Step::Arrival(_, id) => {
                    let arrival = &trace.arrivals[*id];
                    let markable = trace.rows[arrival.row].ecn != 0;
                    self.arrive(now, *id, arrival.size, markable, fates[*id]);
                }
                Step::Show(_, show) => {
                    let pie =
                        show.qdisc.iter().flatten().find(|q| q["kind"] == "pie").unwrap_or(&Value::Null);
                    self.show(now, pie);
                }
            }
        }
        assert!(
            departures.next().is_none() && self.queue.is_empty(),
            "{}: all have left at the end",
            self.name
        );
    }
}

#[test]
fn the_law_is_linuxs_given_the_coin() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/traces/pie");
    let mut tossed = [0; 3];
    let mut traces = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("chance-") {
            continue;
        }
        let trace = Trace::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut replay = Replay::new(&name);
        replay.run(&trace);
        for (sum, n) in tossed.iter_mut().zip(replay.tossed) {
            *sum += n;
        }
        traces += 1;
    }
    println!(
        "{traces} recordings; the coin was asked of {tossed:?} packets that passed, were dropped, were marked"
    );
    assert!(traces >= 7 && tossed[0] > 3000 && tossed[1] > 3000 && tossed[2] > 2, "{traces} {tossed:?}");
}
