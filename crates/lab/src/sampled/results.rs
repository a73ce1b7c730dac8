//! The results of groups and transmit sides, of all of the measured time and of each step. Times in
//! nanoseconds, rates in bit/s, sizes in bytes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::dist::Times;

/// Most members of a group with a throughput of their own over time: the first ones.
pub const FLOWS_MAX: usize = 16;
/// The near host of a trial, whose transmit side it tests.
pub(crate) const NEAR: u32 = 0;

/// A group of traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTrial {
    /// Its name.
    pub name: String,
    /// `stream`, `rr`, `cbr` or `replay`.
    pub kind: &'static str,
    /// Members; 1 for a replay.
    pub count: u32,
    /// `up` if the one who opens sends towards the bottleneck, `down` if it is beyond.
    pub direction: &'static str,
    /// Payload delivered, all members together; `rr`: of finished transactions, both ways; `cbr`,
    /// `replay`: frames.
    pub throughput_bit_s: u64,
    /// Jain's fairness index over the bytes delivered by each member.
    pub jain: f64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Finished transactions, `rr` only.
    pub transactions_per_s: Option<f64>,
    /// `rr`: from the request handed to TCP to the whole response read. `cbr`, `replay`: one way.
    /// `stream`: from data sent to its acknowledgement.
    pub latency: Option<Times>,
    /// The same at each whole percent from 0 (the shortest) to 100 (the longest): 101 times, or
    /// none.
    pub latency_percents_ns: Vec<u64>,
    /// `cbr`: packets missed by the receivers. `replay`: packets dropped.
    pub lost: Option<u64>,
    /// Packets made (`cbr`), or arrived at the bottleneck (`replay`).
    pub offered_packets: Option<u64>,
    /// Packets among them that were received.
    pub received_packets: Option<u64>,
    /// The same over time.
    pub series: GroupSeries,
}

impl GroupTrial {
    /// Returns its name, and its number of members.
    pub(crate) fn title(&self) -> String {
        match self.count {
            1 => self.name.clone(),
            n => format!("{} x{n}", self.name),
        }
    }
}

/// A group over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupSeries {
    /// Like `throughput_bit_s`, in each step.
    pub throughput_bit_s: Vec<u64>,
    /// The payload that each of the first [`FLOWS_MAX`] members delivered; `stream` and `quic`
    /// only.
    pub flows_bit_s: Vec<Vec<u64>>,
    /// Median latency in each step; null if no latency ended in it.
    pub latency_p50_ns: Vec<Option<u64>>,
    /// The 99th percentile of the latency.
    pub latency_p99_ns: Vec<Option<u64>>,
}

/// A qdisc.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassTrial {
    /// Its place: the root's own handle (`0:` if it has none), otherwise the class that it hangs
    /// below.
    pub handle: String,
    /// `handle` of the qdisc above it; `root` for the root.
    pub parent: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its own handle; empty for a default qdisc.
    pub qdisc: String,
    /// Packets that left it towards the device.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// The same as a rate.
    pub throughput_bit_s: u64,
    /// Packets that the qdisc itself dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets that were marked in it, by reason; at leaves.
    pub marks: BTreeMap<&'static str, u64>,
    /// Bytes in it, including those in its children.
    pub backlog_bytes: Range,
    /// Its parts without qdiscs of their own: the tins of a cake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartTrial>,
    /// The gates of a taprio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<GatesTrial>,
    /// The same over time.
    pub series: ClassSeries,
}

/// One cycle of a schedule of gates: the last that was over at the end, or the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatesTrial {
    /// Time at which it begins.
    pub begin_ns: u64,
    /// Its length.
    pub cycle_ns: u64,
    /// False if its first frames are not kept: there were too many after them.
    pub whole: bool,
    /// Each traffic class from 0 on.
    pub classes: Vec<GateTrial>,
}

/// The gate of a traffic class over a cycle. Times are from the begin of the cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateTrial {
    /// The class.
    pub class: usize,
    /// Its queues, `COUNT@OFFSET`.
    pub queues: String,
    /// Its longest frame in the whole run, 0 if there was none.
    pub longest_bytes: u32,
    /// When the gate is open.
    pub openings: Vec<Opening>,
    /// When frames of the class were on the line, each from its first bit to its last, overhead
    /// included.
    pub frames_ns: Vec<[u64; 2]>,
}

/// A time for which a gate is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// The end of it in which the class's longest frame does not leave any more.
    pub guard_ns: u64,
}

/// A part of a qdisc: a tin of cake.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartTrial {
    /// Its name, as `tc -s` prints it.
    pub name: &'static str,
    /// Packets that came into it.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Packets that it marked.
    pub marks: u64,
    /// The same over time.
    pub series: PartSeries,
}

/// A part of a qdisc over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartSeries {
    /// Rate at which bytes came into it, in each step.
    pub arrived_bit_s: Vec<u64>,
    /// Bytes in it at the end of each step.
    pub backlog_bytes: Vec<u64>,
    /// The qdisc's own slow mean of the delay, at the end of each step.
    pub delay_ns: Vec<u64>,
    /// Packets that it dropped.
    pub drops: Vec<u64>,
}

/// A qdisc over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassSeries {
    /// Throughput in each step.
    pub throughput_bit_s: Vec<u64>,
    /// Mean of the bytes in it.
    pub backlog_bytes: Vec<u64>,
    /// Packets that the qdisc itself dropped.
    pub drops: Vec<u64>,
}

/// The device of the bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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

/// Mean and maximum of a quantity over time.
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
    /// `classifier` (from the arrival to the queue), `qdisc`, or `ring` (until the last bit is on
    /// the line).
    pub stage: &'static str,
    /// Mean, exact.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest time, exact.
    pub max_ns: u64,
    /// The same over time.
    pub series: StageSeries,
}

/// A stage of a packet's way over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageSeries {
    /// Median in each step; null if no packet left in it.
    pub p50_ns: Vec<Option<u64>>,
    /// The 99th percentile.
    pub p99_ns: Vec<Option<u64>>,
}
