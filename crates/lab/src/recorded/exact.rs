//! Packet-exact cases: one connection over a wire that loses, delays and marks given packets. The
//! lab must send each segment that Linux sent at the same time.

use std::collections::BTreeMap;

use serde::Deserialize;
use txweir_core::{Ecn, Instant, Nanos};
use txweir_transport::{Algorithm, Config, Connection, EcnMode, Flags, Segment, Tick};

/// Largest difference between the times of a segment.
pub const TIME_BAND: Nanos = Nanos(100_000);
/// The number of the tick at time 0 of an aligned recording: the kernel counts from 300 s before
/// its boot, and time 0 is a multiple of 8192 ticks. Only multiples of powers of two matter.
const ZERO_TICK: u64 = (8_192 << 20) - 300_000;
/// Bytes of Ethernet and IPv4 headers.
const BELOW_TCP: u64 = 34;
/// Largest number of bytes that the recorded application writes in one call.
const CALL: u64 = 256 << 10;
/// Longest case and longest time in one, as in the matrix, ns.
const TIME_MAX_NS: u64 = 600_000_000_000;
/// The words of `acts`: the faults of the wire.
const ACTS: [&str; 13] = [
    "drop",
    "ack-drop",
    "late",
    "ack-late",
    "twice",
    "ack-twice",
    "mark",
    "dark",
    "ack-dark",
    "stall",
    "ack-stall",
    "syn-drop",
    "synack-drop",
];
/// Largest number of packets of a case here, in case a model never stops.
const PACKETS_MAX: usize = 20_000;

/// A recorded case.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Name, unique.
    pub name: String,
    /// One sentence on the case.
    pub about: String,
    /// True if marks were negotiated.
    pub ecn: bool,
    rate_bps: u64,
    delay_ns: u64,
    delay_back_ns: u64,
    acts: Vec<Act>,
    sysctl: BTreeMap<String, String>,
    flow: Flow,
    duration_ns: u64,
    tick_us: u64,
    /// Timeouts of the sender.
    pub timeouts: u64,
    /// Segments sent again.
    pub retrans: u64,
    sent: Sent,
    got: Got,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Act {
    To(String, u64, u64),
    By(String, u64, u64, u64),
}

impl Act {
    /// Returns its word, its numbers or times from and to, and `by`, which is 0 where it has none.
    fn parts(&self) -> (&str, u64, u64, u64) {
        match self {
            Self::To(what, from, to) => (what.as_str(), *from, *to, 0),
            Self::By(what, from, to, by) => (what.as_str(), *from, *to, *by),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Flow {
    cc: String,
    app: String,
    #[serde(default)]
    writes: Vec<(u64, u64)>,
    #[serde(default)]
    size: Vec<u64>,
    finish_ns: Option<u64>,
    #[serde(default)]
    holds: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Deserialize)]
struct Sent {
    dt_us: Vec<u64>,
    seq: Vec<u64>,
    len: Vec<u64>,
    flags: Vec<u16>,
}

#[derive(Clone, Debug, Deserialize)]
struct Got {
    dt_us: Vec<u64>,
    ack: Vec<u64>,
    window: Vec<u64>,
    cwnd: Vec<i64>,
    ssthresh: Vec<i64>,
    state: Vec<i64>,
}

/// A segment that left, in the recording or here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Time, microseconds after the first SYN.
    pub at_us: u64,
    /// Number of its first byte.
    pub seq: u64,
    /// Payload, bytes.
    pub len: u64,
    /// Flags.
    pub flags: u16,
}

/// An acknowledgement as it came, and the sender's state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Time, microseconds after the first SYN.
    pub at_us: u64,
    /// Acknowledged number.
    pub ack: u64,
    /// Window, bytes.
    pub window: u64,
    /// Window of congestion control after it, segments; -1 where unknown.
    pub cwnd: i64,
    /// Threshold; -1 for none.
    pub ssthresh: i64,
    /// State: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub state: i64,
}

/// Result of a case here.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Segments of the recording.
    pub recorded: Vec<Row>,
    /// Segments that left here.
    pub here: Vec<Row>,
    /// Acknowledgements of the recording.
    pub heard_there: Vec<Heard>,
    /// Acknowledgements here.
    pub heard_here: Vec<Heard>,
    /// The first row that differs by more than the band; `None` if all are equal.
    pub differs: Option<usize>,
    /// The first recorded acknowledgement that is missing here, or acknowledges another number or
    /// offers another window here; `None` if all are equal. A time outside the band does not count,
    /// and neither do acknowledgements here behind the last recorded one.
    pub windows_differ: Option<usize>,
}

impl Case {
    /// Reads a case from one line.
    ///
    /// # Errors
    /// Names the fault of the line, in words.
    pub fn parse(line: &str) -> Result<Self, String> {
        let case: Self = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let n = case.sent.dt_us.len();
        let m = case.got.dt_us.len();
        let same = [case.sent.seq.len(), case.sent.len.len(), case.sent.flags.len()].iter().all(|l| *l == n)
            && [case.got.ack.len(), case.got.window.len(), case.got.cwnd.len()].iter().all(|l| *l == m)
            && [case.got.ssthresh.len(), case.got.state.len()].iter().all(|l| *l == m);
        if !same {
            return Err(format!("case {}: expected lists of one length in sent and in got", case.name));
        }
        if Algorithm::named(&case.flow.cc).is_none() {
            return Err(format!("case {}: cc: unknown congestion control \"{}\"", case.name, case.flow.cc));
        }
        case.check().map_err(|what| format!("case {}: {what}", case.name))?;
        Ok(case)
    }

    /// Checks that the case can be played: what its application does, and its times.
    fn check(&self) -> Result<(), String> {
        match (self.flow.app.as_str(), &self.flow.size[..]) {
            ("script", _) => {}
            ("rr", [request, reply, _, _]) if *request > 0 && *reply > 0 => {}
            ("rr", given) => {
                let expected = "expected a request and a reply above 0, a pause and a count";
                return Err(format!("size: {expected}, given {given:?}"));
            }
            (other, _) => return Err(format!("app: expected script or rr, given \"{other}\"")),
        }
        let mut words = self.acts.iter().map(|act| act.parts().0);
        if let Some(given) = words.find(|word| !ACTS.contains(word)) {
            return Err(format!("acts: expected {}, given \"{given}\"", ACTS.join(", ")));
        }
        let lasting = |steps: &[u64]| steps.iter().fold(0, |all: u64, us| all.saturating_add(*us));
        let [sent, got] = [&self.sent.dt_us, &self.got.dt_us].map(|us| lasting(us).saturating_mul(1_000));
        let acts = self.acts.iter().map(|act| {
            let (_, from, to, by) = act.parts();
            from.max(to).max(by)
        });
        let times = [self.duration_ns, self.delay_ns, self.delay_back_ns, sent, got];
        match times.into_iter().chain(acts).find(|ns| *ns > TIME_MAX_NS) {
            Some(ns) => Err(format!("expected times of at most {TIME_MAX_NS} ns, given {ns}")),
            None => Ok(()),
        }
    }

    /// Returns the congestion control.
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::named(&self.flow.cc).unwrap_or_default()
    }

    fn config(&self) -> Config {
        let numbers = |key: &str| -> Option<Vec<u64>> {
            self.sysctl.get(key).map(|v| v.split_whitespace().filter_map(|w| w.parse().ok()).collect())
        };
        let mut c = Config {
            algorithm: self.algorithm(),
            ecn: if self.ecn { EcnMode::Classic } else { EcnMode::Off },
            nagle: true,
            tick: Tick {
                phase: Nanos(self.tick_us % 1_000 * 1_000),
                first: ZERO_TICK + 1,
                ..Tick::default()
            },
            small_queues: false,
            // Frames of a packet socket lie in one piece, whose size is a power of two, and are
            // never merged.
            segment_memory: 2_304,
            merged: 1,
            ..Config::default()
        };
        if let Some([_, start, most]) = numbers("tcp_rmem").as_deref() {
            (c.receive_buffer, c.receive_buffer_max) = (*start, *most);
        }
        if let Some([_, start, _]) = numbers("tcp_wmem").as_deref() {
            c.send_buffer = *start;
        }
        c
    }

    /// Plays the case here, and compares.
    pub fn play(&self) -> Outcome {
        let mut p = Player::new(self);
        p.run(Instant(self.duration_ns));
        let recorded = self.recorded();
        let differs = (0..recorded.len().max(p.rows.len())).find(|i| {
            let (Some(a), Some(b)) = (recorded.get(*i), p.rows.get(*i)) else { return true };
            (a.seq, a.len) != (b.seq, b.len) || a.at_us.abs_diff(b.at_us) * 1_000 > TIME_BAND.0
        });
        let heard = self.heard();
        let offer = |heard: &Heard| (heard.ack, heard.window);
        let windows_differ =
            (0..heard.len()).find(|i| p.heard.get(*i).map(offer) != heard.get(*i).map(offer));
        Outcome { recorded, here: p.rows, heard_there: heard, heard_here: p.heard, differs, windows_differ }
    }

    fn recorded(&self) -> Vec<Row> {
        let s = &self.sent;
        let mut at = 0;
        (0..s.dt_us.len())
            .map(|i| {
                at += s.dt_us[i];
                Row { at_us: at, seq: s.seq[i], len: s.len[i], flags: s.flags[i] }
            })
            .collect()
    }

    fn heard(&self) -> Vec<Heard> {
        let g = &self.got;
        let mut at = 0;
        (0..g.dt_us.len())
            .map(|i| {
                at += g.dt_us[i];
                Heard {
                    at_us: at,
                    ack: g.ack[i],
                    window: g.window[i],
                    cwnd: g.cwnd[i],
                    ssthresh: g.ssthresh[i],
                    state: g.state[i],
                }
            })
            .collect()
    }
}

/// Fate of a packet on the wire.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    lost: bool,
    marked: bool,
    late: u64,
    twice: Option<u64>,
}

/// A case while it is played.
struct Player<'a> {
    case: &'a Case,
    ends: [Connection; 2],
    now: Instant,
    rows: Vec<Row>,
    heard: Vec<Heard>,
    flight: BTreeMap<(u64, u64), (usize, Segment)>,
    order: u64,
    line_free: u64,
    counts: [u64; 4],
    /// Number of bytes that each end still has to write.
    to_write: [u64; 2],
    /// Bytes among them that belong to the call at hand.
    calls: [u64; 2],
    next_write: usize,
    /// Requests and responses: bytes that the reader of each end waits for, and the requests left.
    client_read: u64,
    server_read: u64,
    requests: u64,
    asks_at: Option<Instant>,
    scale: u32,
}

impl<'a> Player<'a> {
    fn new(case: &'a Case) -> Self {
        let c = case.config();
        let rr = case.flow.app == "rr";
        Self {
            case,
            ends: [Connection::connect(&c), Connection::listen(&c)],
            now: Instant::ZERO,
            rows: Vec::new(),
            heard: Vec::new(),
            flight: BTreeMap::new(),
            order: 0,
            line_free: 0,
            counts: [0; 4],
            to_write: [0; 2],
            calls: [0; 2],
            next_write: 0,
            client_read: 0,
            server_read: 0,
            requests: if rr { case.flow.size.get(3).copied().unwrap_or(0) } else { 0 },
            asks_at: rr.then_some(Instant::ZERO),
            scale: 0,
        }
    }

    fn fate(&mut self, back: bool, data: u64, ack: u64) -> Fate {
        let at = self.now.0;
        let mut f = Fate::default();
        for act in &self.case.acts {
            let (what, from, to, by) = act.parts();
            let hit = |n: u64| n > 0 && (from..=to).contains(&n);
            let now = (from..to).contains(&at);
            match what {
                "drop" => f.lost |= hit(data),
                "ack-drop" => f.lost |= hit(ack),
                "dark" => f.lost |= !back && now,
                "ack-dark" => f.lost |= back && now,
                "late" if hit(data) => f.late += by,
                "ack-late" if hit(ack) => f.late += by,
                "twice" if hit(data) => f.twice = Some(by),
                "ack-twice" if hit(ack) => f.twice = Some(by),
                "mark" => f.marked |= hit(data),
                _ => {}
            }
        }
        f
    }

    fn act(&self, name: &str) -> impl Iterator<Item = (u64, u64)> {
        let all = self.case.acts.iter().map(Act::parts);
        all.filter(move |(what, ..)| *what == name).map(|(_, from, to, _)| (from, to))
    }

    fn came(&mut self, from: usize, mut seg: Segment) {
        let back = from == 1;
        let (syn, fin) = (seg.flags.has(Flags::SYN), seg.flags.has(Flags::FIN));
        let (data, ack) = match (back, seg.len > 0) {
            (false, true) => (self.count(0), 0),
            (true, false) if !syn && !fin => (0, self.count(1)),
            _ => (0, 0),
        };
        let mut f = self.fate(back, data, ack);
        if syn {
            let n = self.count(2 + from);
            let name = if back { "synack-drop" } else { "syn-drop" };
            f.lost |= self.act(name).any(|(from, to)| (from..=to).contains(&n));
        }
        let mut header = [0; 60];
        let tcp = txweir_transport::wire::Codec::default().write(&seg, &mut header) as u64;
        let mut leaves = self.now.0;
        if !back && self.case.rate_bps > 0 {
            let bits = (BELOW_TCP + tcp + u64::from(seg.len)) * 8;
            leaves = leaves.max(self.line_free) + bits * 1_000_000_000 / self.case.rate_bps;
            self.line_free = leaves;
        }
        if f.lost {
            return;
        }
        if f.marked {
            seg.ecn = Ecn::Ce;
        }
        let delay = if back { self.case.delay_back_ns } else { self.case.delay_ns };
        let mut arrives = leaves + delay + f.late;
        let stalls: Vec<_> = self.act(if back { "ack-stall" } else { "stall" }).collect();
        for (from, to) in stalls {
            if (from..to).contains(&arrives) {
                arrives = to;
            }
        }
        for at in [Some(arrives), f.twice.map(|by| arrives + by)].into_iter().flatten() {
            self.order += 1;
            self.flight.insert((at, self.order), (1 - from, seg));
        }
    }

    fn count(&mut self, i: usize) -> u64 {
        self.counts[i] += 1;
        self.counts[i]
    }

    fn drain(&mut self, end: usize) {
        while let Some(unit) = self.ends[end].transmit(self.now) {
            for i in 0..unit.segments() {
                let Some(seg) = unit.part(i) else { continue };
                if end == 0 {
                    let at_us = self.now.0 / 1_000;
                    self.rows.push(Row { at_us, seq: seg.seq, len: u64::from(seg.len), flags: seg.flags.0 });
                }
                self.came(end, seg);
            }
        }
    }

    fn held(&self) -> bool {
        self.case.flow.holds.iter().any(|(from, to)| (*from..*to).contains(&self.now.0))
    }

    fn applications(&mut self, end: usize) {
        let flow = &self.case.flow;
        if end == 1 {
            let n = if self.held() { 0 } else { self.ends[1].read(self.now, u64::MAX) };
            self.server_read += n;
            // The recorded reader sees the end only when a wake-up is for the end alone.
            let ended = n == 0 && self.ends[1].finished();
            if flow.app == "rr" {
                while self.server_read >= flow.size[0] {
                    self.server_read -= flow.size[0];
                    self.to_write[1] += flow.size[1];
                }
            }
            self.write(1);
            if ended {
                self.ends[1].close();
            }
            return;
        }
        self.client_read += self.ends[0].read(self.now, u64::MAX);
        if flow.app == "rr" {
            if self.client_read >= flow.size[1] {
                self.client_read -= flow.size[1];
                self.requests = self.requests.saturating_sub(1);
                self.asks_at = (self.requests > 0).then_some(self.now + Nanos(flow.size[2]));
            }
            let open = self.ends[0].state() == txweir_transport::State::Established;
            if open && self.asks_at.is_some_and(|at| at <= self.now) {
                self.asks_at = None;
                self.to_write[0] += flow.size[0];
            }
        }
        while let Some((_, bytes)) = flow.writes.get(self.next_write).filter(|w| w.0 <= self.now.0) {
            self.to_write[0] += bytes;
            self.next_write += 1;
        }
        self.write(0);
        let over = flow.finish_ns.is_some_and(|at| at <= self.now.0) && self.next_write == flow.writes.len();
        let open = self.ends[0].state() == txweir_transport::State::Established;
        if open && self.to_write[0] == 0 && (over || (flow.app == "rr" && self.requests == 0)) {
            self.ends[0].close();
        }
    }

    /// Writes a part of the call at hand.
    fn write(&mut self, end: usize) {
        let call = if self.calls[end] > 0 { self.calls[end] } else { self.to_write[end].min(CALL) };
        let n = self.ends[end].write_unit(self.now, call);
        self.calls[end] = if n > 0 { call - n } else { 0 };
        self.to_write[end] -= n;
    }

    fn step(&mut self, end: usize) {
        self.drain(end);
        loop {
            let written = self.ends[end].flow().write;
            self.applications(end);
            self.drain(end);
            if self.ends[end].flow().write == written {
                return;
            }
        }
    }

    fn note(&mut self, seg: &Segment) {
        if let Some(scale) = seg.syn.and_then(|syn| syn.scale) {
            self.scale = u32::from(scale);
        }
        let shift = if seg.syn.is_some() { 0 } else { self.scale };
        let f = self.ends[0].flow();
        self.heard.push(Heard {
            at_us: self.now.0 / 1_000,
            ack: seg.ack,
            window: u64::from(seg.window) << shift,
            cwnd: i64::from(f.cwnd),
            ssthresh: if f.ssthresh == u32::MAX { -1 } else { i64::from(f.ssthresh) },
            state: f.state as i64,
        });
    }

    /// Returns the time at which an application next acts by itself.
    fn application_due(&self) -> Option<Instant> {
        let flow = &self.case.flow;
        let write = flow.writes.get(self.next_write).map(|w| Instant(w.0));
        let hold = flow.holds.iter().map(|(_, to)| Instant(*to)).find(|to| *to > self.now);
        let finish = flow.finish_ns.map(Instant);
        [write, hold, finish, self.asks_at].into_iter().flatten().filter(|at| *at > self.now).min()
    }

    fn run(&mut self, until: Instant) {
        self.step(0);
        while self.rows.len() < PACKETS_MAX {
            let due = [0, 1].map(|i| self.ends[i].deadline());
            let flying = self.flight.first_key_value().map(|(k, _)| Instant(k.0));
            let app = self.application_due();
            let Some(at) = due.into_iter().chain([flying, app]).flatten().min() else { return };
            if at > until {
                return;
            }
            self.now = self.now.max(at);
            if flying == Some(at) {
                let Some((_, (to, seg))) = self.flight.pop_first() else { return };
                self.ends[to].receive(self.now, &seg);
                self.drain(to);
                if to == 0 {
                    self.note(&seg);
                }
                self.step(to);
                continue;
            }
            for (i, due) in due.into_iter().enumerate() {
                if due == Some(at) {
                    self.ends[i].on_time(self.now);
                    self.step(i);
                }
            }
            if app == Some(at) {
                self.step(0);
                self.step(1);
            }
        }
    }
}
