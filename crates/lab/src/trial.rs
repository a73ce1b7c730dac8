//! Trials: policies side by side on the same traffic, in virtual time.
//!
//! Two hosts and one bottleneck. The near host's transmit side has the policy, the ring and the
//! byte limit, and sends into a link of the given rate; the way back is wide and empty; the round
//! trip without queues is as given. The near host's transmit side is a forwarder's, as in a router:
//! what does not fit is dropped. [`run`] runs each policy with the same seeds and gives a
//! [`Trial`], which says itself as JSON and as text: the median of each number over the runs, and
//! its interval ([`measure`]).

mod capture;
pub mod html;
pub mod measure;
pub mod mix;
mod run;
mod text;
mod transport;
mod units;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use txweir_core::text::value::text_of;
use txweir_core::{Nanos, Rate};
use txweir_tc::{Diagnostic, Policy};

use crate::dist::Times;
use crate::fidelity::{Fidelity, Leaf};

pub use html::html;
pub use measure::{Better, Interval, Mark, Measure};
pub use mix::{MIXES, Traffic, TrafficError};
pub use run::{run, run_on};
pub use transport::{ALGORITHMS, Algorithm};
pub use units::Unit;

/// The near host, whose transmit side is tried.
const NEAR: u32 = 0;
/// The host beyond the bottleneck.
const FAR: u32 = 1;

/// Steps of every series.
pub const STEPS: u64 = 100;
/// Most policies of a trial.
pub const POLICIES_MAX: usize = 32;
/// Most runs of a policy.
pub const RUNS_MAX: u32 = 64;
/// Most transmit queues of the bottleneck: each is a ring of the device, a transmit path, and a class in the results.
pub const QUEUES_MAX: u16 = 256;
/// Most descriptors in all rings of the bottleneck together.
const DESCRIPTORS_MAX: u32 = 1 << 22;

/// The bottleneck, the TCP of the hosts, how long and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Line rate of the bottleneck: 64 kbit/s to 100 Gbit/s.
    pub link: Rate,
    /// Transmit queues of its device, 1 to [`QUEUES_MAX`]. With several the default root is mq.
    pub queues: u16,
    /// Descriptors of each queue, 1 to 1 048 576; at most 4 194 304 in all.
    pub ring: u32,
    /// Round trip without queues and serialisation, at most 10 s.
    pub rtt: Nanos,
    /// How long it runs, 100 ms to 1 h. The first tenth is not measured, except in the series.
    pub time: Nanos,
    /// Seed of the first run: it decides start times, flow hashes, sequence numbers. Each further
    /// run has the next one; after the largest comes zero.
    pub seed: u64,
    /// Runs of each policy, 1 to [`RUNS_MAX`].
    pub runs: u32,
    /// Byte queue limit on the device.
    pub bql: bool,
    /// Congestion control of the hosts.
    pub congestion: &'static Algorithm,
    /// Whether the hosts ask for ECN (RFC 3168); only an algorithm that negotiates it may.
    pub ecn: bool,
}

impl Default for Setup {
    /// 1 Gbit/s, one queue with a ring of 1024, 20 ms, five runs of 10 s, BQL on, the first algorithm without ECN.
    fn default() -> Self {
        Self {
            link: Rate::from_bits(1_000_000_000),
            queues: 1,
            ring: 1024,
            rtt: Nanos::from_millis(20),
            time: Nanos::from_secs(10),
            seed: 1,
            runs: 5,
            bql: true,
            congestion: &ALGORITHMS[0],
            ecn: false,
        }
    }
}

impl Setup {
    /// Whether all of it is within its bounds; if not, which option, what was expected and given.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |what: &str, expected: &str, given: String| {
            Err(format!("{what}: expected {expected}, given {given}"))
        };
        if !(64_000..=100_000_000_000).contains(&self.link.bits()) {
            return refuse("link", "64kbit to 100gbit", text_of(&self.link));
        }
        if !(1..=1 << 20).contains(&self.ring) {
            return refuse("ring", "1 to 1048576 descriptors", self.ring.to_string());
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return refuse("queues", &format!("1 to {QUEUES_MAX}"), self.queues.to_string());
        }
        let most = DESCRIPTORS_MAX / u32::from(self.queues);
        if self.ring > most {
            let expected = format!("at most {most} descriptors in each of {} queues", self.queues);
            return refuse("ring", &expected, self.ring.to_string());
        }
        if self.rtt > Nanos::from_secs(10) {
            return refuse("rtt", "at most 10s", text_of(&self.rtt));
        }
        if !(Nanos::from_millis(100)..=Nanos::from_secs(3600)).contains(&self.time) {
            return refuse("time", "100ms to 3600s", text_of(&self.time));
        }
        if !(1..=RUNS_MAX).contains(&self.runs) {
            return refuse("runs", &format!("1 to {RUNS_MAX}"), self.runs.to_string());
        }
        if self.ecn && !self.congestion.ecn {
            let name = self.congestion.name;
            return refuse("ecn", &format!("off with {name}, which negotiates marks by itself"), "on".into());
        }
        Ok(())
    }
}

/// A policy to try.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What reports call it.
    pub name: String,
    /// The policy; `None` for what a device starts with: pfifo_fast, in each queue of an mq where there are several.
    pub policy: Option<Policy>,
}

/// Why there is no trial.
#[derive(Clone, Debug)]
pub enum TrialError {
    /// The set-up is out of its bounds.
    Setup(String),
    /// A policy cannot be applied.
    Policy(Box<Diagnostic>),
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(e) => f.write_str(e),
            Self::Policy(d) => d.fmt(f),
        }
    }
}

impl std::error::Error for TrialError {}

/// What a trial has measured. Times in nanoseconds, rates in bit/s, sizes in bytes. Numbers are of
/// what came after the warm-up; series have [`STEPS`] values from the very start on, each of one
/// step. The `measures` of a policy are of all of its runs; all else is of one run, the one of
/// median goodput.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// One line: traffic, link, round trip.
    pub title: String,
    /// Name of the traffic.
    pub traffic: String,
    /// One sentence on it.
    pub about: String,
    /// Line rate of the bottleneck.
    pub link_rate_bit_s: u64,
    /// Round trip without queues and serialisation.
    pub rtt_ns: u64,
    /// Transmit queues of the device.
    pub queues: u16,
    /// Descriptors of each of them.
    pub ring: u32,
    /// Whether the device has a byte queue limit.
    pub bql: bool,
    /// Length of a run, warm-up included.
    pub time_ns: u64,
    /// Length of the warm-up.
    pub warmup_ns: u64,
    /// Seed of the first run of each policy; the others have the next ones.
    pub seed: u64,
    /// Which TCP the hosts have.
    pub tcp: String,
    /// Congestion control of the hosts.
    pub congestion: &'static str,
    /// Whether the hosts ask for ECN.
    pub ecn: bool,
    /// How close that TCP is known to come to Linux here; null for traffic without TCP.
    pub fidelity: Option<Fidelity>,
    /// How many runs of each policy there are, and how intervals are made of them.
    pub interval: Interval,
    /// The result in sentences, without their full stops.
    pub verdict: Vec<String>,
    /// Length of one step of every series.
    pub step_ns: u64,
    /// One for each policy.
    pub policies: Vec<PolicyTrial>,
}

/// One policy: the numbers of all of its runs, and the whole of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyTrial {
    /// File name, or `default`.
    pub name: String,
    /// The text of the policy; empty for the default.
    pub policy: String,
    /// Seed of the run that all but `measures` is of: its goodput, of all groups together, is the
    /// median one.
    pub shown_seed: u64,
    /// The headline numbers of all runs.
    pub measures: Vec<Measure>,
    /// Groups of traffic, in the order of the mix.
    pub groups: Vec<GroupTrial>,
    /// Qdiscs, parents first.
    pub classes: Vec<ClassTrial>,
    /// Leaf qdiscs that sent packets.
    #[serde(skip)]
    pub leaves: Vec<Leaf>,
    /// The device of the bottleneck.
    pub device: DeviceTrial,
    /// Where the time of a packet went, at the bottleneck, in order; of those that left it.
    pub stages: Vec<StageTrial>,
    /// Packets dropped at the bottleneck, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked there, by reason.
    pub marks: BTreeMap<&'static str, u64>,
    /// Jain's fairness index over what every stream delivered, all groups together; 1 if there are none.
    pub jain: f64,
}

/// A group of traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTrial {
    /// Its name.
    pub name: String,
    /// `stream`, `rr`, `cbr` or `replay`.
    pub kind: &'static str,
    /// Members; 1 for a replay.
    pub count: u32,
    /// Payload delivered, all members together; `rr`: of finished transactions, both ways; `cbr`, `replay`: frames.
    pub throughput_bit_s: u64,
    /// Jain's fairness index over what each member delivered.
    pub jain: f64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Finished transactions, `rr` only.
    pub transactions_per_s: Option<f64>,
    /// `rr`: from the request handed to TCP to the whole response read. `cbr`, `replay`: one way. `stream`: from data
    /// sent to its acknowledgement.
    pub latency: Option<Times>,
    /// `cbr`: missed by the receivers. `replay`: dropped.
    pub lost: Option<u64>,
    /// Packets made (`cbr`), or that arrived at the bottleneck (`replay`).
    pub offered_packets: Option<u64>,
    /// Of them, those that were received.
    pub received_packets: Option<u64>,
    /// The same over time.
    pub series: GroupSeries,
}

impl GroupTrial {
    /// Its name, and how many it is.
    fn title(&self) -> String {
        match self.count {
            1 => self.name.clone(),
            n => format!("{} x{n}", self.name),
        }
    }
}

/// A group over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupSeries {
    /// As `throughput_bit_s`, in each step.
    pub throughput_bit_s: Vec<u64>,
    /// Median latency of what ended in each step; nothing if nothing did.
    pub latency_p50_ns: Vec<Option<u64>>,
    /// Its 99th percentile.
    pub latency_p99_ns: Vec<Option<u64>>,
}

/// A qdisc.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassTrial {
    /// Where it is: the root's own handle (`0:` if it has none), else the class that it hangs below. Class `1:2` of an mq or
    /// mqprio `1:` is the device's second queue.
    pub handle: String,
    /// `handle` of the one above it; `root` for the root.
    pub parent: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its own handle; empty for one that nobody put there.
    pub qdisc: String,
    /// Packets that left it towards the device.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// The same as a rate.
    pub throughput_bit_s: u64,
    /// Packets that it dropped itself, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets that were marked in it, by reason; at leaves.
    pub marks: BTreeMap<&'static str, u64>,
    /// Bytes in it, those below included.
    pub backlog_bytes: Range,
    /// The same over time.
    pub series: ClassSeries,
}

/// A qdisc over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassSeries {
    /// What left it, in each step.
    pub throughput_bit_s: Vec<u64>,
    /// Mean of the bytes in it.
    pub backlog_bytes: Vec<u64>,
    /// Packets that it dropped itself.
    pub drops: Vec<u64>,
}

/// The device of the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceTrial {
    /// Bytes handed to it and not yet reported sent.
    pub ring_bytes: Range,
    /// The byte limit at the end, the sum of those of its queues; null if there is none.
    pub bql_limit: Option<u64>,
    /// Share of the time that the line was busy, preamble, FCS and gap included.
    pub utilisation: f64,
    /// Packets offered to the transmit side.
    pub offered_packets: u64,
    /// Packets handed to the device.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// The same over time.
    pub series: DeviceSeries,
}

/// The device over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceSeries {
    /// Mean of the bytes in its ring, in each step.
    pub ring_bytes: Vec<u64>,
}

/// Of a quantity over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Time-weighted mean.
    pub mean: u64,
    /// Largest.
    pub max: u64,
}

/// One stage of a packet's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageTrial {
    /// `classifier` (from the arrival to the queue), `qdisc`, or `ring` (until the last bit is on the line).
    pub stage: &'static str,
    /// Mean, exact.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 95 % were at most this.
    pub p95_ns: u64,
    /// 99 % were at most this.
    pub p99_ns: u64,
    /// The longest, exact.
    pub max_ns: u64,
}

impl Trial {
    /// As JSON, indented; keys in the order of the fields.
    pub fn to_json(&self) -> String {
        // Fails only for maps whose keys are not strings, and for numbers that are none.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
