//! Reads a transmit side: its qdiscs, their parts, its device, and the time of its packets.

use std::collections::BTreeMap;

use txweir_core::qdisc::taprio;
use txweir_core::{DropReason, Handle, Instant, MarkReason, Nanos};

use super::results::{
    ClassSeries, ClassTrial, DeviceSeries, DeviceTrial, PartSeries, PartTrial, Range, StageSeries, StageTrial,
};
use crate::net::Net;
use crate::nic::{Gauge, NodeProbe, PartProbe, Probe, Stage};
use crate::report::{per_mill, per_second};

/// The results of a transmit side.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Qdiscs, parents first.
    pub classes: Vec<ClassTrial>,
    /// The device.
    pub device: DeviceTrial,
    /// Stages of a packet's time.
    pub stages: Vec<StageTrial>,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets marked, by reason.
    pub marks: BTreeMap<&'static str, u64>,
    /// Mean of the bytes in its qdiscs and its ring, in each step.
    pub held_bytes: Vec<u64>,
}

/// A transmit side over time.
pub(crate) struct SideSampler {
    nic: u32,
    classes: Vec<ClassSampler>,
    stages: [StageSeries; 3],
    ring: Means,
    /// Ring and qdiscs.
    held: Means,
}

#[derive(Default)]
struct ClassSampler {
    bytes: u64,
    drops: u64,
    backlog: Means,
    series: ClassSeries,
    parts: Vec<PartSampler>,
}

#[derive(Default)]
struct PartSampler {
    seen: PartProbe,
    /// When measuring began.
    before: PartProbe,
    series: PartSeries,
}

/// The mean of a gauge, or of the sum of some, in each step.
#[derive(Default)]
struct Means {
    /// The area at the end of the last step.
    area: u128,
    /// The area of the present step before the gauges began anew.
    kept: u128,
    values: Vec<u64>,
}

impl Means {
    /// The gauges are about to begin anew.
    fn keep(&mut self, gauges: &[&Gauge], now: Instant) {
        (self.kept, self.area) = (area(gauges, now) - self.area, 0);
    }

    fn sample(&mut self, gauges: &[&Gauge], now: Instant, step: Nanos) {
        let area = area(gauges, now);
        let mean = (self.kept + area - self.area) / u128::from(step.0);
        self.values.push(u64::try_from(mean).unwrap_or(u64::MAX));
        (self.area, self.kept) = (area, 0);
    }
}

fn area(gauges: &[&Gauge], now: Instant) -> u128 {
    gauges.iter().map(|gauge| gauge.area(now)).sum()
}

impl SideSampler {
    pub fn new(net: &Net, nic: u32) -> Self {
        let classes = net.links().nic(nic).probe().map_or(0, |p| p.nodes().len());
        Self {
            nic,
            classes: (0..classes).map(|_| ClassSampler::default()).collect(),
            stages: Default::default(),
            ring: Means::default(),
            held: Means::default(),
        }
    }

    /// Measuring is about to begin: gauges begin anew.
    pub fn keep(&mut self, net: &mut Net) {
        let now = net.engine().now();
        net.nic_mut(self.nic).look(now);
        let nic = net.links().nic(self.nic);
        self.ring.keep(&nic.gauges()[..1], now);
        self.held.keep(&nic.gauges(), now);
        for (node, c) in nic.probe().map_or(&[][..], |p| p.nodes()).iter().zip(&mut self.classes) {
            c.backlog.keep(&[&node.backlog], now);
            c.parts.resize_with(node.parts.len(), PartSampler::default);
            c.parts.iter_mut().zip(&node.parts).for_each(|(of, seen)| of.before = *seen);
        }
    }

    /// A step is over.
    pub fn sample(&mut self, net: &mut Net, step: Nanos) {
        let now = net.engine().now();
        net.nic_mut(self.nic).look(now);
        let nic = net.links().nic(self.nic);
        self.ring.sample(&nic.gauges()[..1], now, step);
        self.held.sample(&nic.gauges(), now, step);
        let Some(probe) = nic.probe() else { return };
        for (of, stage) in self.stages.iter_mut().zip(probe.stages()) {
            let some = |share| (stage.step.count() > 0).then(|| stage.step.quantile(share).0);
            of.p50_ns.push(some(0.5));
            of.p99_ns.push(some(0.99));
        }
        probe.nodes().iter().zip(&mut self.classes).for_each(|(node, c)| c.sample(node, now, step));
        net.nic_mut(self.nic).next_step();
    }

    /// Returns the results of a run that has lasted for `time` since measuring began.
    pub fn result(self, net: &Net, time: Nanos) -> Side {
        let (nic, now) = (net.links().nic(self.nic), net.engine().now());
        let (counts, probe) = (nic.measured(), nic.probe());
        let nodes = probe.map_or(&[][..], |p| p.nodes());
        let stages = probe.map(|p| Stage::ALL.into_iter().zip(p.stages()).zip(self.stages));
        let mut classes = classes(nodes, self.classes, now, time);
        let timetable = probe.and_then(Probe::timetable);
        let gates = taprio::gates_of(nic.port().trees().root().qdisc());
        if let (Some(root), Some(gates), Some(timetable)) = (classes.first_mut(), gates, timetable) {
            root.gates = super::gates::gates(gates, timetable, now);
        }
        Side {
            classes,
            device: DeviceTrial {
                ring_bytes: range(nic.gauges()[0], now),
                bql_limit: nic.port().totals().byte_limit().map(|(limit, _)| limit),
                utilisation: per_mill(counts.busy, time).min(10_000) as f64 / 10_000.0,
                offered_packets: counts.taken.packets,
                sent_packets: counts.tx.packets,
                sent_bytes: counts.tx.bytes,
                series: DeviceSeries { ring_bytes: self.ring.values },
            },
            stages: stages
                .into_iter()
                .flatten()
                .map(|((stage, of), series)| {
                    let times = of.whole.times();
                    let ns = |f: fn(&crate::dist::Times) -> u64| times.as_ref().map_or(0, f);
                    StageTrial {
                        stage: stage.name(),
                        mean_ns: ns(|t| t.mean_ns),
                        p50_ns: ns(|t| t.p50_ns),
                        p95_ns: ns(|t| t.p95_ns),
                        p99_ns: ns(|t| t.p99_ns),
                        max_ns: ns(|t| t.max_ns),
                        series,
                    }
                })
                .collect(),
            drops: by_reason(&counts.drops, |i| DropReason::ALL[i].name()),
            marks: by_reason(&counts.marks, |i| MarkReason::ALL[i].name()),
            held_bytes: self.held.values,
        }
    }
}

impl ClassSampler {
    fn sample(&mut self, node: &NodeProbe, now: Instant, step: Nanos) {
        let rate = |now: u64, before: u64| per_second(u128::from(now - before) * 8, step);
        let (bytes, drops) = (node.books.sent.bytes, node.own.dropped());
        self.backlog.sample(&[&node.backlog], now, step);
        self.series.throughput_bit_s.push(rate(bytes, self.bytes));
        self.series.drops.push(drops - self.drops);
        (self.bytes, self.drops) = (bytes, drops);
        self.parts.resize_with(node.parts.len(), PartSampler::default);
        for (of, now) in self.parts.iter_mut().zip(&node.parts) {
            // Counters of a part of a cake that was changed may begin anew.
            of.series
                .arrived_bit_s
                .push(rate(now.arrived_bytes.max(of.seen.arrived_bytes), of.seen.arrived_bytes));
            of.series.drops.push(now.drops.saturating_sub(of.seen.drops));
            of.series.backlog_bytes.push(now.backlog_bytes);
            of.series.delay_ns.push(now.delay_us.saturating_mul(1000));
            of.seen = *now;
        }
    }
}

/// Counts that are not zero, by name.
fn by_reason(counts: &[u64], name: impl Fn(usize) -> &'static str) -> BTreeMap<&'static str, u64> {
    counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (name(i), *n)).collect()
}

fn range(gauge: &Gauge, now: Instant) -> Range {
    Range { mean: gauge.mean(now), max: gauge.max() }
}

fn classes(nodes: &[NodeProbe], series: Vec<ClassSampler>, now: Instant, time: Nanos) -> Vec<ClassTrial> {
    // The place of the last node seen at each depth: the one above.
    let mut above: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for (node, sampler) in nodes.iter().zip(series) {
        let qdisc = if node.handle.is_none() { String::new() } else { node.handle.to_string() };
        let handle = match (node.parent, qdisc.as_str()) {
            (Handle::ROOT, "") => "0:".to_string(),
            (Handle::ROOT, own) => own.to_string(),
            (class, _) => class.to_string(),
        };
        above.truncate(node.depth);
        let parent = above.last().cloned().unwrap_or_else(|| "root".into());
        above.push(handle.clone());
        let (sent, reasons) = (node.sent(), node.reasons());
        all.push(ClassTrial {
            handle,
            parent,
            kind: node.kind,
            qdisc,
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            throughput_bit_s: per_second(u128::from(sent.bytes) * 8, time),
            drops: by_reason(&reasons.drops, |i| DropReason::ALL[i].name()),
            marks: by_reason(&reasons.marks, |i| MarkReason::ALL[i].name()),
            backlog_bytes: range(&node.backlog, now),
            parts: sampler.parts.into_iter().map(part).collect(),
            gates: None,
            series: ClassSeries { backlog_bytes: sampler.backlog.values, ..sampler.series },
        });
    }
    all
}

fn part(of: PartSampler) -> PartTrial {
    let PartSampler { seen, before, series } = of;
    PartTrial {
        name: seen.name,
        arrived_packets: seen.arrived_packets.saturating_sub(before.arrived_packets),
        arrived_bytes: seen.arrived_bytes.saturating_sub(before.arrived_bytes),
        drops: seen.drops.saturating_sub(before.drops),
        marks: seen.marks.saturating_sub(before.marks),
        series,
    }
}
