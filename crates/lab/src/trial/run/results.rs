//! The results at the end of a run.

use std::collections::BTreeMap;

use txweir_core::{DropReason, Handle, Instant, MarkReason, Nanos};

use super::series::{NicSampler, Series};
use super::site::{PROVIDERS, TRIED};
use crate::dist::Dist;
use crate::net::{Load, Net};
use crate::nic::{Gauge, Nic, Stage};
use crate::report::{jain, kind, per_mill, per_second};
use crate::trial::{
    ClassSeries, ClassTrial, DeviceSeries, DeviceTrial, DownSeries, DownTrial, Entry, GroupSeries,
    GroupTrial, IfbTrial, PolicyTrial, Range, Setup, StageTrial,
};

/// Returns the results of a run of this length, with those of its steps.
pub(super) fn results(net: &Net, setup: &Setup, time: Nanos, entry: &Entry, series: Series) -> PolicyTrial {
    let Series { groups, nics, ring, provider, .. } = series;
    let reports: Vec<GroupTrial> = groups
        .into_iter()
        .enumerate()
        .map(|(i, s)| match net.traffic().groups().get(i) {
            Some(_) => group(net, i, time, s.series),
            None => replay(net, time, s.series),
        })
        .collect();
    let streams: Vec<u64> = net
        .traffic()
        .groups()
        .iter()
        .enumerate()
        .filter(|(_, g)| g.group.load == Load::Stream)
        .flat_map(|(i, _)| net.traffic().counted(i).bytes())
        .collect();
    let mut nics = nics.into_iter();
    let tried = nics.next().map_or_else(Vec::new, |of| classes(net, time, of));
    let nic = net.links().nic(TRIED);
    let counts = nic.measured();
    let [ring_gauge, _] = nic.gauges();
    PolicyTrial {
        name: entry.name.clone(),
        policy: entry.policy.as_ref().map_or(String::new(), |p| p.source().text.clone()),
        shown_seed: setup.seed,
        measures: Vec::new(),
        groups: reports,
        leaves: super::leaves_of(net, setup),
        classes: tried,
        device: DeviceTrial {
            ring_bytes: range(ring_gauge, net.engine().now()),
            bql_limit: nic.port().totals().byte_limit().map(|(limit, _)| limit),
            utilisation: utilisation(nic, time),
            offered_packets: counts.taken.packets,
            sent_packets: counts.tx.packets,
            sent_bytes: counts.tx.bytes,
            series: DeviceSeries { ring_bytes: ring.values },
        },
        stages: stages(nic),
        drops: by_reason(&counts.drops, drop_name),
        marks: by_reason(&counts.marks, mark_name),
        down: setup.down.map(|_| down(net, time, provider.values)),
        ifbs: nics.map(|of| ifb(net, time, of)).collect(),
        jain: jain(&streams),
    }
}

fn drop_name(i: usize) -> &'static str {
    DropReason::ALL[i].name()
}

fn mark_name(i: usize) -> &'static str {
    MarkReason::ALL[i].name()
}

/// Returns the share of the time that a line was busy, in ten thousandths.
fn utilisation(nic: &Nic, time: Nanos) -> f64 {
    per_mill(nic.measured().busy, time).min(10_000) as f64 / 10_000.0
}

fn down(net: &Net, time: Nanos, queue: Vec<u64>) -> DownTrial {
    let (nic, now) = (net.links().nic(PROVIDERS), net.engine().now());
    let [ring, backlog] = nic.gauges();
    DownTrial {
        utilisation: utilisation(nic, time),
        provider_bytes: Range {
            mean: ring.mean(now) + backlog.mean(now),
            // The longest of both together is not kept.
            max: backlog.max().max(ring.max()),
        },
        provider_dropped_packets: nic.measured().dropped.packets,
        turned_away_packets: net.links().nic(TRIED).measured().turned_away.packets,
        series: DownSeries { provider_bytes: queue },
    }
}

fn ifb(net: &Net, time: Nanos, of: NicSampler) -> IfbTrial {
    let nic = net.links().nic(of.nic);
    let counts = nic.measured();
    IfbTrial {
        device: net.links().name(of.nic).into(),
        offered_packets: counts.taken.packets,
        sent_packets: counts.tx.packets,
        sent_bytes: counts.tx.bytes,
        // The first stage begins where the packet was made, which is beyond the line.
        stages: stages(nic).into_iter().skip(1).collect(),
        drops: by_reason(&counts.drops, drop_name),
        marks: by_reason(&counts.marks, mark_name),
        classes: classes(net, time, of),
    }
}

/// Counts that are not zero, by name.
fn by_reason(counts: &[u64], name: impl Fn(usize) -> &'static str) -> BTreeMap<&'static str, u64> {
    counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (name(i), *n)).collect()
}

fn range(gauge: &Gauge, now: Instant) -> Range {
    Range { mean: gauge.mean(now), max: gauge.max() }
}

/// Payload of a group since the start: what `GroupTrial::throughput_bit_s` counts.
pub(super) fn payload(net: &Net, group: usize) -> u64 {
    let counted = net.traffic().counted(group);
    match net.traffic().groups()[group].group.load {
        Load::Rr { request, response } => {
            counted.transactions().saturating_mul(request.saturating_add(response))
        }
        _ => counted.delivered().iter().sum(),
    }
}

fn group(net: &Net, number: usize, time: Nanos, series: GroupSeries) -> GroupTrial {
    let (state, counted) = (&net.traffic().groups()[number], net.traffic().counted(number));
    let watch = &net.meters().watched()[number];
    let members = counted.bytes();
    let (mut bytes, mut done, mut lost) = (members.iter().sum(), None, None);
    let (mut offered, mut received) = (None, None);
    match state.group.load {
        Load::Stream => {}
        Load::Rr { request, response } => {
            let n = watch.whole.count();
            bytes = n.saturating_mul(request.saturating_add(response));
            done = Some(per_second(u128::from(n) * 10, time) as f64 / 10.0);
        }
        Load::Short(_) | Load::Ask(_) | Load::Quic(_) => {}
        Load::Cbr { .. } | Load::Voice | Load::Video(_) => {
            let counts = counted.cbr();
            (lost, offered, received) = (Some(counts.lost), Some(counts.sent), Some(counts.received));
        }
    }
    GroupTrial {
        name: state.group.name.clone(),
        kind: kind(state.group.load),
        count: state.group.count,
        throughput_bit_s: per_second(u128::from(bytes) * 8, time),
        jain: jain(&members),
        retransmitted_bytes: counted.retransmitted(),
        transactions_per_s: done,
        latency: watch.whole.times(),
        lost,
        offered_packets: offered,
        received_packets: received,
        series,
    }
}

fn replay(net: &Net, time: Nanos, series: GroupSeries) -> GroupTrial {
    let found = net.replayed();
    let received = found.map_or_else(Default::default, |r| r.received());
    GroupTrial {
        name: "replay".into(),
        kind: "replay",
        count: 1,
        throughput_bit_s: per_second(u128::from(received.bytes) * 8, time),
        jain: 1.0,
        retransmitted_bytes: 0,
        transactions_per_s: None,
        latency: found.and_then(|r| r.watch().whole.times()),
        lost: Some(net.links().nic(TRIED).measured().dropped.packets),
        offered_packets: found.map(|r| r.offered().packets),
        received_packets: Some(received.packets),
        series,
    }
}

fn classes(net: &Net, time: Nanos, of: NicSampler) -> Vec<ClassTrial> {
    let now = net.engine().now();
    let nodes = net.links().nic(of.nic).probe().map_or(&[][..], |p| p.nodes());
    // The place of the last node seen at each depth: the one above.
    let mut above: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for (node, sampler) in nodes.iter().zip(of.classes) {
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
            drops: by_reason(&reasons.drops, drop_name),
            marks: by_reason(&reasons.marks, mark_name),
            backlog_bytes: range(&node.backlog, now),
            series: ClassSeries { backlog_bytes: sampler.backlog.values, ..sampler.series },
        });
    }
    all
}

fn stages(nic: &Nic) -> Vec<StageTrial> {
    let Some(probe) = nic.probe() else { return Vec::new() };
    let of = |(stage, dist): (Stage, &Dist)| {
        let times = dist.times();
        let ns = |f: fn(&crate::dist::Times) -> u64| times.as_ref().map_or(0, f);
        StageTrial {
            stage: stage.name(),
            mean_ns: ns(|t| t.mean_ns),
            p50_ns: ns(|t| t.p50_ns),
            p95_ns: ns(|t| t.p95_ns),
            p99_ns: ns(|t| t.p99_ns),
            max_ns: ns(|t| t.max_ns),
        }
    };
    Stage::ALL.into_iter().zip(probe.stages()).map(of).collect()
}
