//! Trials: policies side by side on the same traffic, in virtual time.
//!
//! Two hosts and one bottleneck. The near host's transmit side has the policy, the ring and the
//! byte limit, and sends into a link of the given rate; the way back is wide and empty; the round
//! trip without queues is as given. The near host's transmit side is a forwarder's, as in a router:
//! packets that do not fit are dropped. [`run`] runs each policy with the same seeds and returns a
//! [`Trial`], which prints itself as JSON and as text: the median of each number over the runs, and
//! its interval ([`measure`]).

mod beside;
mod capture;
mod flent;
pub mod html;
mod marking;
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

use crate::fidelity::{Fidelity, Leaf};
use crate::flent::Line;
use crate::sampled::results::NEAR;

pub use crate::sampled::results::{
    ClassSeries, ClassTrial, DeviceSeries, DeviceTrial, FLOWS_MAX, GateTrial, GatesTrial, GroupSeries,
    GroupTrial, Opening, PartSeries, PartTrial, Range, StageSeries, StageTrial,
};
pub use beside::Beside;
pub use flent::written;
pub use html::html;
pub use marking::Marking;
pub use measure::{Better, Interval, Mark, Measure};
pub use mix::{MIXES, Traffic, TrafficError};
pub use run::{Devices, Resources, devices, run, run_with, targets};
pub use transport::{ALGORITHMS, Algorithm};
pub use units::Unit;

/// The host beyond the bottleneck.
const FAR: u32 = 1;

/// Number of steps of every series.
pub const STEPS: u64 = 100;
/// Largest number of policies of a trial.
pub const POLICIES_MAX: usize = 32;
/// Largest number of runs of a policy.
pub const RUNS_MAX: u32 = 64;
/// Most transmit queues of the bottleneck: each is a ring of the device, a transmit path, and a
/// class in the results.
pub const QUEUES_MAX: u16 = 256;
/// Most descriptors in all rings of the bottleneck together.
const DESCRIPTORS_MAX: u32 = 1 << 22;

/// The set-up: the bottleneck, the TCP of the hosts, the length and the number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Line rate of the bottleneck: 64 kbit/s to 100 Gbit/s.
    pub link: Rate,
    /// Line rate of the way back, behind a FIFO of the provider; `None` for a wide way without one.
    /// The same bounds.
    pub down: Option<Rate>,
    /// Transmit queues of its device, 1 to [`QUEUES_MAX`]. With several the default root is mq.
    pub queues: u16,
    /// Descriptors of each queue, 1 to 1 048 576; at most 4 194 304 in all.
    pub ring: u32,
    /// Round trip without queues and serialisation, at most 10 s.
    pub rtt: Nanos,
    /// Length of a run, 100 ms to 1 h. The first tenth is not measured, except in the series.
    pub time: Nanos,
    /// Seed of the first run: it decides start times, flow hashes, sequence numbers. Each further
    /// run has the next seed; after the largest comes zero.
    pub seed: u64,
    /// Number of runs of each policy, 1 to [`RUNS_MAX`].
    pub runs: u32,
    /// True if the device has a byte queue limit.
    pub bql: bool,
    /// Congestion control of the hosts.
    pub congestion: &'static Algorithm,
    /// True if the hosts ask for ECN (RFC 3168); only an algorithm that negotiates it may.
    pub ecn: bool,
}

impl Default for Setup {
    /// Returns 1 Gbit/s, a ring of 1024, 20 ms, five runs of 10 s, BQL on, the first algorithm
    /// without ECN.
    fn default() -> Self {
        Self {
            link: Rate::from_bits(1_000_000_000),
            down: None,
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
    /// Checks that all options are within their bounds; an error names the option, the expected and
    /// the given value.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |what: &str, expected: &str, given: String| {
            Err(format!("{what}: expected {expected}, given {given}"))
        };
        for (what, rate) in [("link", Some(self.link)), ("down", self.down)] {
            if let Some(rate) = rate.filter(|rate| !(64_000..=100_000_000_000).contains(&rate.bits())) {
                return refuse(what, "64kbit to 100gbit", text_of(&rate));
            }
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

/// The word for the qdisc that the kernel gives a device where no setting names another.
pub const DEFAULT: &str = "default";
/// The word for the qdisc that most distributions give a device
/// (`net.core.default_qdisc = fq_codel`, systemd's 50-default.conf).
pub const DISTRO: &str = "distro";

/// Returns the tc lines of the qdiscs that most distributions give a device with so many queues.
pub fn distro(queues: u16) -> String {
    match queues {
        0 | 1 => "qdisc replace root fq_codel\n".into(),
        _ => {
            let leaf = |class: u16| format!("qdisc replace parent 1:{class:x} fq_codel\n");
            "qdisc replace root handle 1: mq\n".to_owned() + &(1..=queues).map(leaf).collect::<String>()
        }
    }
}

/// A policy to try.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name in reports.
    pub name: String,
    /// The policy; `None` for the default of a device, pfifo_fast.
    pub policy: Option<Policy>,
}

/// Reason that there is no trial.
#[derive(Clone, Debug)]
pub enum TrialError {
    /// The set-up is out of its bounds.
    Setup(String),
    /// A policy cannot be applied.
    Policy(Box<Diagnostic>),
    /// The caller asked for an end before time: see [`Resources::stop`].
    Stopped,
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(e) => f.write_str(e),
            Self::Policy(d) => d.fmt(f),
            Self::Stopped => f.write_str("the trial was stopped"),
        }
    }
}

impl std::error::Error for TrialError {}

/// Measurements of a trial. Times in nanoseconds, rates in bit/s, sizes in bytes. Numbers cover the
/// time after the warm-up; series have [`STEPS`] values from the very start on, each of one step.
/// The `measures` of a policy cover all of its runs; the other fields cover one run, the one of
/// median goodput.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// One line: traffic, link, round trip.
    pub title: String,
    /// Name of the traffic.
    pub traffic: String,
    /// One sentence on the traffic.
    pub about: String,
    /// Line rate of the bottleneck.
    pub link_rate_bit_s: u64,
    /// Line rate of the way back; null if it is wide.
    pub down_rate_bit_s: Option<u64>,
    /// Round trip without queues and serialisation.
    pub rtt_ns: u64,
    /// Transmit queues of the device.
    pub queues: u16,
    /// Descriptors of each of them.
    pub ring: u32,
    /// True if the device has a byte queue limit.
    pub bql: bool,
    /// Length of a run, warm-up included.
    pub time_ns: u64,
    /// Length of the warm-up.
    pub warmup_ns: u64,
    /// Seed of the first run of each policy; the others have the next seeds.
    pub seed: u64,
    /// Name of the hosts' TCP.
    pub tcp: String,
    /// Congestion control of the hosts.
    pub congestion: &'static str,
    /// True if the hosts ask for ECN.
    pub ecn: bool,
    /// True if all of the traffic is of IPv6.
    #[serde(skip)]
    pub ipv6: bool,
    /// Known closeness of this TCP to Linux's here; null for traffic without TCP.
    pub fidelity: Option<Fidelity>,
    /// Number of runs of each policy, and the method of the intervals.
    pub interval: Interval,
    /// The result in sentences, without their full stops.
    pub verdict: Vec<String>,
    /// Length of one step of every series.
    pub step_ns: u64,
    /// Results of each policy.
    pub policies: Vec<PolicyTrial>,
    /// Runs of real lines beside them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// The numbers that lines and policies share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
}

/// Results of one policy: the numbers of all of its runs, and all measurements of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyTrial {
    /// File name, or `default`.
    pub name: String,
    /// The text of the policy; empty for the default.
    pub policy: String,
    /// Seed of the run that all fields but `measures` cover: its goodput, of all groups together,
    /// is the median.
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
    /// Stages of a packet's time at the bottleneck, in order; for packets that left it.
    pub stages: Vec<StageTrial>,
    /// Packets dropped at the bottleneck, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked there, by reason.
    pub marks: BTreeMap<&'static str, u64>,
    /// The way back; null if it is wide.
    pub down: Option<DownTrial>,
    /// The ifbs of the policy, in order of appearance.
    pub ifbs: Vec<IfbTrial>,
    /// Jain's fairness index over the bytes delivered by every stream, all groups together; 1 if
    /// there are none.
    pub jain: f64,
}

/// The way back: the provider's queue and line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DownTrial {
    /// Share of the time that the line was busy, preamble, FCS and gap included.
    pub utilisation: f64,
    /// Bytes in the provider's queue and ring; the maximum is that of the longer of the two.
    pub provider_bytes: Range,
    /// Packets that the provider's queue dropped.
    pub provider_dropped_packets: u64,
    /// Packets that the ingress hook dropped.
    pub turned_away_packets: u64,
    /// The same over time.
    pub series: DownSeries,
}

/// The way back over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DownSeries {
    /// Mean of the bytes in the provider's queue and ring, in each step.
    pub provider_bytes: Vec<u64>,
}

/// An ifb: the qdiscs of packets that an action redirected to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IfbTrial {
    /// Its name.
    pub device: String,
    /// Packets redirected to it.
    pub offered_packets: u64,
    /// Packets that went on.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Its qdiscs, parents first.
    pub classes: Vec<ClassTrial>,
    /// Stages of a packet's time in it.
    pub stages: Vec<StageTrial>,
    /// Packets dropped in it, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked in it, by reason.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Trial {
    /// Returns the trial as JSON, indented; keys in the order of the fields.
    pub fn to_json(&self) -> String {
        // Serialisation fails only for maps whose keys are not strings, and for numbers that are
        // none.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
