//! One line of the matrix: a run of Linux's TCP, read and checked.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

use txweir_transport::Algorithm;

/// Largest number of flows of a run.
pub const FLOWS_MAX: usize = 4_096;
/// Longest run, and longest round trip, ns.
const TIME_MAX: u64 = 600_000_000_000;
/// Number of points of `samples`.
pub const POINTS: usize = 50;

/// Error of a text that is no line of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1 on.
    pub line: usize,
    /// The key, if the line is JSON.
    pub key: Option<String>,
    /// The expected and the given value.
    pub message: String,
}

impl Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for LineError {}

/// Place of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// On the router, towards the receiver.
    Router,
    /// On the sender's own device.
    Local,
}

impl Topology {
    /// Returns its name in the recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Local => "local",
        }
    }
}

/// Work of a group of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Sends as many bytes as the socket takes.
    Bulk,
    /// Sends a number of bytes, and then the end.
    Bytes,
    /// Sends requests and replies.
    Rr,
}

impl Kind {
    /// Returns its name in the recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Bytes => "bytes",
            Self::Rr => "rr",
        }
    }
}

/// Flows that differ in start and size only.
#[derive(Clone, Debug, Deserialize)]
pub struct FlowGroup {
    /// Congestion control of both ends.
    pub cc: String,
    /// Work of the flows.
    pub app: Kind,
    /// Times at which the flows call connect().
    pub start_ns: Vec<u64>,
    /// Bytes of each flow, with `bytes`.
    #[serde(default)]
    pub bytes: Vec<u64>,
    /// Bytes of a request, with `rr`.
    #[serde(default)]
    pub request: u64,
    /// Bytes of a reply.
    #[serde(default)]
    pub reply: u64,
    /// Time from the reading of a reply to the next request.
    #[serde(default)]
    pub pause_ns: u64,
    /// Number of requests; 0 for no end.
    #[serde(default)]
    pub count: u64,
}

/// Percentiles; `None` for those that the recording lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Shares {
    /// The 10th percentile.
    pub p10: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
}

/// Results of a part of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Window {
    /// Bytes that receivers read, bit/s.
    pub goodput_bps: u64,
    /// Jain's index over the bulk flows; `None` for fewer than two.
    pub jain: Option<f64>,
    /// Bytes read of each bulk flow.
    pub bytes: Vec<u64>,
    /// Smoothed round trips, µs.
    pub rtt_us: Shares,
    /// Time in the policy, µs, by segments.
    pub delay_us: Shares,
    /// Segments that arrived at the policy.
    pub offered: u64,
    /// Segments that left it.
    pub sent: u64,
    /// Segments that were marked in it.
    pub marks: u64,
    /// Segments sent again.
    pub retrans: u64,
}

/// Flow 0 over time, and the goodput of all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Samples {
    /// Time between two points.
    pub every_ns: u64,
    /// Goodput of the step that ends at the point.
    pub goodput_kbps: Vec<u64>,
    /// Congestion window, segments.
    pub cwnd: Vec<Option<i64>>,
    /// Slow start threshold, segments; -1 for none.
    pub ssthresh: Vec<Option<i64>>,
    /// Smoothed round trip.
    pub rtt_us: Vec<Option<i64>>,
    /// Pacing rate.
    pub pacing_kbps: Vec<Option<i64>>,
}

/// Times of transfers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Completion {
    /// Time of each flow; -1 for a flow that did not end.
    pub each: Vec<i64>,
    /// Percentiles of the flows that ended.
    #[serde(flatten)]
    pub shares: Shares,
}

/// Times of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Latency {
    /// Number of finished requests.
    pub count: u64,
    /// Percentiles of their times.
    #[serde(flatten)]
    pub shares: Shares,
}

/// A repetition of a run. A line has a list of values in this order; the last ones are missing in
/// some lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct Repetition {
    /// Goodput after the first part, bit/s.
    pub goodput_bps: u64,
    /// Jain's index after the first part.
    pub jain: Option<f64>,
    /// Delay in the policy after the first part, µs: the median, the 90th and 99th percentile.
    pub delay_p50: Option<u64>,
    #[allow(missing_docs)]
    pub delay_p90: Option<u64>,
    #[allow(missing_docs)]
    pub delay_p99: Option<u64>,
    /// Drops of the leaf.
    pub drops: u64,
    /// Marks.
    pub marks: u64,
    /// Segments sent again.
    pub retrans: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Goodput of the whole run, bit/s.
    #[serde(default)]
    pub goodput_whole_bps: Option<u64>,
    /// Part of the bulk bytes that the first congestion control has.
    #[serde(default)]
    pub part: Option<f64>,
    /// Transfers that ended.
    #[serde(default)]
    pub completed: Option<u64>,
    /// Median time of transfers, µs.
    #[serde(default)]
    pub completion_p50: Option<u64>,
    /// 90th percentile of these times.
    #[serde(default)]
    pub completion_p90: Option<u64>,
    /// Requests that ended.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Median time of requests, µs.
    #[serde(default)]
    pub latency_p50: Option<u64>,
    /// 90th percentile of these times.
    #[serde(default)]
    pub latency_p90: Option<u64>,
}

/// A recorded run.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// Name, unique.
    pub name: String,
    /// The set, `seen` or `held`.
    pub set: String,
    /// Place of the policy.
    pub topology: Topology,
    /// The policy's lines, without the word `tc`.
    pub tc: Vec<String>,
    /// Kind of the innermost queue.
    pub leaf: String,
    /// The shaper's rate.
    pub rate_bps: u64,
    /// Delay of ACKs.
    pub rtt_ns: u64,
    /// True if super-packets arrive at the policy.
    pub units: bool,
    /// True if ECN was negotiated.
    pub ecn: bool,
    /// End of the run.
    pub duration_ns: u64,
    /// End of its first part.
    pub warm_ns: u64,
    /// `net.ipv4` settings.
    pub sysctl: BTreeMap<String, String>,
    /// Flows in order.
    pub flows: Vec<FlowGroup>,
    /// Results of the whole run.
    pub whole: Window,
    /// Results from `warm_ns` on.
    pub after: Window,
    /// Packets that the leaf dropped.
    pub drops: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Flow 0 over time.
    pub samples: Samples,
    /// Repetitions with a little difference.
    #[serde(default)]
    pub spread: Vec<Repetition>,
    /// Times of transfers.
    pub completion_us: Option<Completion>,
    /// Times of requests.
    pub latency_us: Option<Latency>,
    /// Counters of the senders, TcpExt.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

impl Run {
    /// Reads line number `number` of a file.
    ///
    /// # Errors
    /// Fails if the line is no JSON, or a key is missing, of another type or out of its bounds.
    pub fn parse(text: &str, number: usize) -> Result<Self, LineError> {
        let run: Self = serde_json::from_str(text).map_err(|e| LineError {
            line: number,
            key: None,
            // The column gives the place within the single line.
            message: e.to_string().replace("line 1 column", "column"),
        })?;
        match run.check() {
            Ok(()) => Ok(run),
            Err((key, message)) => Err(LineError { line: number, key: Some(key), message }),
        }
    }

    fn check(&self) -> Result<(), (String, String)> {
        let bounds: [(&str, u64, u64, u64); 4] = [
            ("rate_bps", self.rate_bps, 8, 1_000_000_000_000),
            ("rtt_ns", self.rtt_ns, 0, TIME_MAX),
            ("duration_ns", self.duration_ns, 1_000_000, TIME_MAX),
            ("warm_ns", self.warm_ns, 0, self.duration_ns.saturating_sub(1)),
        ];
        for (key, given, least, most) in bounds {
            if !(least..=most).contains(&given) {
                return Err((key.into(), format!("expected {least} to {most}, given {given}")));
            }
        }
        if !["seen", "held"].contains(&self.set.as_str()) {
            return Err(("set".into(), format!("expected seen or held, given \"{}\"", self.set)));
        }
        let flows = self.flow_count();
        if flows == 0 || flows > FLOWS_MAX {
            return Err(("flows".into(), format!("expected 1 to {FLOWS_MAX} flows, given {flows}")));
        }
        for (i, group) in self.flows.iter().enumerate() {
            group.check(self.duration_ns).map_err(|(key, m)| (format!("flows[{i}].{key}"), m))?;
        }
        let s = &self.samples;
        let lists = [s.cwnd.len(), s.ssthresh.len(), s.rtt_us.len(), s.pacing_kbps.len()];
        if s.goodput_kbps.len() != POINTS || lists != [POINTS; 4] {
            return Err(("samples".into(), format!("expected lists of {POINTS} points")));
        }
        for key in ["tcp_rmem", "tcp_wmem"] {
            self.memory(key)?;
        }
        Ok(())
    }

    /// Returns the three numbers of a sysctl of buffers; `None` if the run does not set it.
    pub(super) fn memory(&self, key: &str) -> Result<Option<[u64; 3]>, (String, String)> {
        let Some(text) = self.sysctl.get(key) else { return Ok(None) };
        let words: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        match words.as_deref() {
            Ok([least, start, most]) if least <= start && start <= most => Ok(Some([*least, *start, *most])),
            _ => {
                let message = format!("expected three rising numbers of bytes, given \"{text}\"");
                Err((format!("sysctl.{key}"), message))
            }
        }
    }

    /// Returns the number of all flows.
    pub fn flow_count(&self) -> usize {
        self.flows.iter().map(|g| g.start_ns.len()).sum()
    }

    /// Returns the flows one by one: their group, and their place in it.
    pub(crate) fn each_flow(&self) -> impl Iterator<Item = (&FlowGroup, usize)> {
        self.flows.iter().flat_map(|g| (0..g.start_ns.len()).map(move |i| (g, i)))
    }

    /// Returns the congestion controls, each once, separated by commas.
    pub fn controls(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for group in &self.flows {
            if !names.contains(&group.cc.as_str()) {
                names.push(&group.cc);
            }
        }
        names.join(",")
    }

    /// Returns the kinds of work of the flows, each once, separated by plus signs.
    pub fn applications(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for group in &self.flows {
            if !names.contains(&group.app.name()) {
                names.push(group.app.name());
            }
        }
        names.join("+")
    }
}

impl FlowGroup {
    fn check(&self, duration: u64) -> Result<(), (String, String)> {
        let wrong = |key: &str, message: String| Err((key.to_string(), message));
        if Algorithm::named(&self.cc).is_none() {
            let known: Vec<&str> = Algorithm::ALL.iter().map(|(name, _)| *name).collect();
            return wrong("cc", format!("expected one of {}, given \"{}\"", known.join(", "), self.cc));
        }
        if let Some(late) = self.start_ns.iter().find(|at| **at >= duration) {
            return wrong("start_ns", format!("expected times below duration_ns, given {late}"));
        }
        match self.app {
            Kind::Bulk => Ok(()),
            Kind::Bytes if self.bytes.len() != self.start_ns.len() || self.bytes.contains(&0) => {
                let (n, m) = (self.start_ns.len(), self.bytes.len());
                wrong("bytes", format!("expected {n} numbers above 0, one for each flow, given {m}"))
            }
            Kind::Bytes => Ok(()),
            Kind::Rr if self.request == 0 || self.reply == 0 => {
                wrong("request", format!("expected sizes above 0, given {} and {}", self.request, self.reply))
            }
            Kind::Rr if self.count != 0 => {
                wrong("count", format!("expected 0 (no end), given {}", self.count))
            }
            Kind::Rr => Ok(()),
        }
    }

    /// Returns the congestion control.
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::named(&self.cc).unwrap_or_default()
    }
}
