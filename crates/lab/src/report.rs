//! Measurements of a run: values with stable JSON keys, and tables for people.

pub mod apps;
pub(crate) mod text;

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use txweir_core::sched::node::Node;
use txweir_core::{DropReason, Instant, MarkReason, Nanos};

use crate::dist::{Times, histogram, is_zero, record};
use crate::net::{Group, Load, Net};
use crate::nic::{Gauge, Nic};
use crate::report::apps::{FlowsReport, QuestionsReport, VideoReport, VoiceReport};
use crate::scenario::{Built, Ends, Planned, Scenario, Section};

/// All measurements of a run of a scenario, from the end of the warm-up on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Title of the scenario.
    pub title: String,
    /// Seed of the run.
    pub seed: u64,
    /// Length of the warm-up, which is not measured.
    pub warmup_ns: u64,
    /// Length of the measured time.
    pub measured_ns: u64,
    /// Events dispatched, warm-up included.
    pub events: u64,
    /// Each group of traffic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficReport>,
    /// Each direction of each link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkReport>,
    /// The queues before each direction of each link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueReport>,
}

/// A group of traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrafficReport {
    /// Its name.
    pub name: String,
    /// The host that opens.
    pub from: String,
    /// The other host.
    pub to: String,
    /// `stream`, `rr`, `cbr`, `short`, `voice`, `video`, `dns`, `udprr` or `quic`.
    pub kind: &'static str,
    /// Number of members.
    pub count: u32,
    /// Payload delivered per second by all members together; for `rr`, `dns` and `udprr` requests
    /// and responses of the transactions that ended, for `cbr`, `voice` and `video` whole frames.
    pub throughput_bit_s: u64,
    /// Jain's fairness index over the bytes delivered by each member: 1 if all got the same,
    /// 1/count if one got all.
    pub jain: f64,
    /// Payload sent again; for `quic` bytes of packets that were found lost.
    pub retransmitted_bytes: u64,
    /// Transactions that ended, for `rr`, `dns` and `udprr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
    /// The same, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions_per_s: Option<f64>,
    /// Time from the first byte of the request handed to TCP to the last byte of the response read,
    /// for `rr`; from the first try to the answer, for `dns` and `udprr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Times>,
    /// Time from the sender's stack to the receiver, for `cbr`, `voice` and `video`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Times>,
    /// Packets, for `cbr`, `voice` and `video`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketsReport>,
    /// Flows, for `short`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowsReport>,
    /// Quality of the calls, for `voice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceReport>,
    /// Frames of video, for `video`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoReport>,
    /// Questions, for `dns` and `udprr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<QuestionsReport>,
}

/// Packets of a group that sends UDP one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PacketsReport {
    /// Packets made by the senders.
    pub sent: u64,
    /// Packets received, including those on the way when measuring began, without those on the way
    /// at its end.
    pub received: u64,
    /// Packets found missing by the receivers, for any reason.
    pub lost: u64,
    /// Packets sent that a full queue of their own host refused.
    pub refused: u64,
    /// Packets received after a packet sent later.
    pub reordered: u64,
}

/// Traffic of one direction of a link, and the counters of its queues.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Line rate at the end.
    pub rate_bit_s: u64,
    /// Packets handed to the device; a TSO unit is one.
    pub tx_packets: u64,
    /// Their bytes on the wire, without preamble, FCS and gap.
    pub tx_bytes: u64,
    /// Share of the time that the line was busy, preamble, FCS and gap included.
    pub utilisation: f64,
    /// Packets that reached the device without waiting.
    pub direct: u64,
    /// Packets that entered the qdiscs.
    pub queued: u64,
    /// Times that packets waited because the ring was full.
    pub stops_ring: u64,
    /// Times that packets waited because the byte limit was reached.
    pub stops_bql: u64,
    /// Times that the qdiscs were full and returned a packet to its sender.
    pub full: u64,
    /// Packets dropped, by reason; reasons that did not occur are left out.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked, by reason; reasons that did not occur are left out.
    pub marks: BTreeMap<&'static str, u64>,
    /// Packets that actions took away, on their way out or in; left out if there were none.
    #[serde(skip_serializing_if = "is_zero")]
    pub stolen: u64,
    /// Packets from the other host that the filters of the ingress hook dropped; left out if there
    /// were none.
    #[serde(skip_serializing_if = "is_zero")]
    pub turned_away: u64,
    /// Packets lost by the link.
    pub lost: u64,
    /// Packets made late by the link.
    pub late: u64,
}

/// The queue before one direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueReport {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Kind of the root qdisc, then of its only child, and so on.
    pub qdisc: String,
    /// Bytes in the qdiscs: mean over time, and maximum.
    pub backlog_bytes: Range,
    /// Bytes that the device held: mean over time, and maximum.
    pub ring_bytes: Range,
    /// The byte limit at the end, the sum of those of its queues; nothing if there is none.
    pub bql_limit: Option<u64>,
    /// The smoothed time from work to its completion, as the byte limit saw it.
    pub completion_interval_ns: Option<u64>,
}

/// Mean and maximum of a quantity over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Time-weighted mean.
    pub mean: u64,
    /// Largest.
    pub max: u64,
}

impl Range {
    fn of(gauge: &Gauge, now: Instant) -> Self {
        Self { mean: gauge.mean(now), max: gauge.max() }
    }
}

impl Report {
    /// Returns the report of a net that has been run to the end of its scenario with this seed.
    pub fn new(scenario: &Scenario, seed: u64, built: &Built) -> Self {
        let (net, now) = (&built.net, built.net.engine().now());
        let time = now.saturating_since(net.meters().measuring_from());
        let asked = |section| scenario.sections().contains(&section);
        let ways = |section| built.ends.iter().zip(0_u32..).filter(move |_| asked(section));
        let groups = (0..net.traffic().groups().len()).filter(|_| asked(Section::Traffic));
        let planned = built.planned.iter().filter(|_| asked(Section::Traffic));
        let planned = planned.map(|p| of_machines(net, p, &built.hosts, time));
        Self {
            title: scenario.title().into(),
            seed,
            warmup_ns: scenario.warmup().0,
            measured_ns: time.0,
            events: net.engine().dispatched(),
            traffic: groups.map(|g| traffic(net, g, &built.hosts, time)).chain(planned).collect(),
            links: ways(Section::Links)
                .map(|(e, n)| link(net.links().nic(n), e, &built.hosts, time))
                .collect(),
            queues: ways(Section::Queues)
                .map(|(e, n)| queue(net.links().nic(n), e, &built.hosts, now))
                .collect(),
        }
    }

    /// Returns the report as JSON, indented.
    pub fn json(&self) -> String {
        // Serialisation fails only for maps whose keys are not strings, and for numbers that are
        // none.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// Returns names of objects that differ. Each object has a name, and one with its ends: that takes
/// the place of a name that stands several times, with a number from the second such object on.
pub fn told_apart(all: &[[String; 2]]) -> Vec<String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    all.iter().for_each(|[name, _]| *seen.entry(name).or_default() += 1);
    let mut given: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names = Vec::with_capacity(all.len());
    for [name, with_ends] in all {
        let name = if seen[name.as_str()] > 1 { with_ends } else { name };
        let nth = given.entry(name).or_default();
        *nth += 1;
        names.push(if *nth > 1 { format!("{name}.{nth}") } else { name.clone() });
    }
    names
}

/// Returns the bytes of each of `count` members: a connection that a machine has never had has none
/// in its list.
fn of_members(counted: &[u64], count: u32) -> Vec<u64> {
    let mut all = counted.to_vec();
    all.resize(all.len().max(count as usize), 0);
    all
}

/// Returns the report of a group between machines, as they have counted.
fn of_machines(net: &Net, planned: &Planned, hosts: &[String], time: Nanos) -> TrafficReport {
    let [client, server] = planned.outcomes.each_ref().map(|o| of_members(&o.bytes, planned.group.count));
    let again = net.machines_sent_again(planned.port);
    let Load::Rr { request, response } = planned.group.load else {
        return group(&planned.group, hosts, &server, server.iter().sum(), again, time);
    };
    let mut latency = histogram();
    for time in &planned.outcomes[0].times {
        record(&mut latency, Nanos(*time));
    }
    let bytes = latency.len().saturating_mul(request.saturating_add(response));
    group(&planned.group, hosts, &client, bytes, again, time).with_transactions(&latency, time)
}

/// Returns the part of a report that all kinds of traffic have.
fn group(
    g: &Group,
    hosts: &[String],
    members: &[u64],
    bytes: u64,
    retransmitted_bytes: u64,
    time: Nanos,
) -> TrafficReport {
    TrafficReport {
        name: g.name.clone(),
        from: hosts[g.from as usize].clone(),
        to: hosts[g.to as usize].clone(),
        kind: kind(g.load),
        count: g.count,
        throughput_bit_s: per_second(u128::from(bytes) * 8, time),
        jain: jain(members),
        retransmitted_bytes,
        transactions: None,
        transactions_per_s: None,
        latency: None,
        delay: None,
        packets: None,
        flows: None,
        voice: None,
        video: None,
        questions: None,
    }
}

impl TrafficReport {
    /// Adds the transactions that took these times.
    fn with_transactions(mut self, latency: &Histogram<u64>, time: Nanos) -> Self {
        let n = latency.len();
        self.transactions = Some(n);
        // Tenths suffice, and print alike everywhere.
        self.transactions_per_s = Some(per_second(u128::from(n) * 10, time) as f64 / 10.0);
        self.latency = Times::of(latency);
        self
    }
}

fn traffic(net: &Net, number: usize, hosts: &[String], time: Nanos) -> TrafficReport {
    let (state, counted) = (&net.traffic().groups()[number], net.traffic().counted(number));
    let g = &state.group;
    let members = counted.bytes();
    let bytes = match g.load {
        Load::Rr { request, response } => {
            state.latency.len().saturating_mul(request.saturating_add(response))
        }
        _ => members.iter().sum(),
    };
    let mut report = group(g, hosts, &members, bytes, counted.retransmitted(), time);
    report.flows = counted.short_flows().map(FlowsReport::of);
    match g.load {
        Load::Stream | Load::Short(_) | Load::Quic(_) => {}
        Load::Rr { .. } | Load::Ask(_) => {
            report = report.with_transactions(&state.latency, time);
            if let Load::Ask(_) = g.load {
                report.questions = Some(QuestionsReport::of(counted.asked()));
            }
        }
        Load::Cbr { .. } | Load::Voice | Load::Video(_) => {
            let c = counted.cbr();
            let (sent, received, lost) = (c.sent, c.received, c.lost);
            report.packets =
                Some(PacketsReport { sent, received, lost, refused: c.refused, reordered: c.reordered });
            report.delay = Times::of(&counted.delays());
            if let Load::Voice = g.load {
                report.voice = VoiceReport::of(c, counted.voice());
            } else if let Load::Video(_) = g.load {
                report.video = Some(VideoReport::of(&counted.video()));
            }
        }
    }
    report
}

pub(crate) const fn kind(load: Load) -> &'static str {
    load.kind()
}

fn link(nic: &Nic, ends: &Ends, hosts: &[String], time: Nanos) -> LinkReport {
    let c = nic.measured();
    let named = |names: Vec<&'static str>, counts: &[u64]| {
        names.into_iter().zip(counts.iter().copied()).filter(|(_, n)| *n > 0).collect()
    };
    LinkReport {
        from: hosts[ends.from as usize].clone(),
        to: hosts[ends.to as usize].clone(),
        rate_bit_s: nic.wire().config().rate.bits(),
        tx_packets: c.tx.packets,
        tx_bytes: c.tx.bytes,
        // In ten thousandths; the unit on the wire at the start of measuring counts whole.
        utilisation: per_mill(c.busy, time).min(10_000) as f64 / 10_000.0,
        direct: c.direct,
        queued: c.queued,
        stops_ring: c.stops[0],
        stops_bql: c.stops[1],
        full: c.full,
        drops: named(DropReason::ALL.iter().map(|r| r.name()).collect(), &c.drops),
        marks: named(MarkReason::ALL.iter().map(|r| r.name()).collect(), &c.marks),
        stolen: c.stolen.packets,
        turned_away: c.turned_away.packets,
        lost: c.link.lost.packets,
        late: c.link.late,
    }
}

fn queue(nic: &Nic, ends: &Ends, hosts: &[String], now: Instant) -> QueueReport {
    let [ring, backlog] = nic.gauges();
    let port = nic.port();
    let first = port.paths()[0].tx().limit().map(|d| d.stats());
    QueueReport {
        from: hosts[ends.from as usize].clone(),
        to: hosts[ends.to as usize].clone(),
        qdisc: kinds(port.trees().root()),
        backlog_bytes: Range::of(backlog, now),
        ring_bytes: Range::of(ring, now),
        bql_limit: port.totals().byte_limit().map(|(limit, _)| limit),
        completion_interval_ns: first.and_then(|d| d.completion_interval).map(|t| t.0),
    }
}

/// Returns the kinds like `tbf/fq_codel`, down to the first qdisc that has several classes, or
/// none.
fn kinds(node: &Node) -> String {
    let kind = node.qdisc().spec().kind;
    match node.qdisc().classes() {
        [only] => format!("{kind}/{}", kinds(&only.node)),
        _ => kind.into(),
    }
}

/// Returns Jain's fairness index (Jain, Chiu, Hawe, DEC-TR-301, 1984): the square of the sum over n
/// times the sum of squares; 1 if all are zero.
pub(crate) fn jain(members: &[u64]) -> f64 {
    let sum: f64 = members.iter().map(|m| *m as f64).sum();
    let squares: f64 = members.iter().map(|m| (*m as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { (sum * sum / (members.len() as f64 * squares) * 1e6).round() / 1e6 }
}

/// Returns the amount per second, rounded to the nearest.
pub(crate) fn per_second(amount: u128, time: Nanos) -> u64 {
    let ns = u128::from(time.0.max(1));
    u64::try_from((amount * 1_000_000_000 + ns / 2) / ns).unwrap_or(u64::MAX)
}

/// Returns `part` of `whole` in ten thousandths.
pub(crate) fn per_mill(part: Nanos, whole: Nanos) -> u64 {
    u64::try_from(u128::from(part.0) * 10_000 / u128::from(whole.0.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_at_known_points() {
        assert_eq!(jain(&[5, 5, 5]), 1.0);
        assert_eq!(jain(&[9, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[1, 2, 3]), 0.857_143);
        assert_eq!(jain(&[0, 0]), 1.0);
        assert_eq!(jain(&[]), 1.0);
    }

    /// A member without a connection got nothing, and that is not fair.
    #[test]
    fn a_member_that_a_machine_never_had_counts() {
        assert_eq!(of_members(&[5, 5], 4), [5, 5, 0, 0]);
        assert_eq!(jain(&of_members(&[5, 5], 4)), 0.5);
        assert_eq!(of_members(&[5, 6, 7], 2), [5, 6, 7]);
    }

    #[test]
    fn rates_round_to_the_nearest_and_do_not_overflow() {
        assert_eq!(per_second(3, Nanos(2_000_000_000)), 2);
        assert_eq!(per_second(1, Nanos(3_000_000_000)), 0);
        assert_eq!(per_second(u128::from(u64::MAX) * 8, Nanos(1)), u64::MAX);
        assert_eq!(per_mill(Nanos(1), Nanos(3)), 3333);
    }

    #[test]
    fn times_of_a_histogram() {
        let mut h = crate::dist::histogram();
        assert_eq!(Times::of(&h), None);
        (1..=100).for_each(|n| h.record(n).unwrap());
        let t = Times::of(&h).unwrap();
        assert_eq!((t.count, t.mean_ns, t.p50_ns), (100, 51, 50));
        assert_eq!((t.p95_ns, t.p99_ns, t.max_ns), (95, 99, 100));
    }
}
