//! The runs of each policy: the net, the walk through its steps, and the numbers at the end.

#[cfg(test)]
mod probed;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use txweir_core::base::rng::Rng;
use txweir_core::model::wire::WireConfig;
use txweir_core::path::txpath::PathConfig;
use txweir_core::text::value::text_of;
use txweir_core::{DqlConfig, DropReason, Env, Handle, Instant, MarkReason, Nanos, Rate, Role};

use super::measure::{Interval, gathered, mark};
use super::mix::Loads;
use super::transport::{flows, transport};
use super::verdict::verdict;
use super::{
    ClassSeries, ClassTrial, DeviceSeries, DeviceTrial, Entry, FAR, GroupSeries, GroupTrial, NEAR,
    POLICIES_MAX, PolicyTrial, Range, STEPS, Setup, StageTrial, Traffic, Trial, TrialError,
};
use crate::cpu::Cpu;
use crate::dist::Dist;
use crate::fidelity::{self, Given, leaves};
use crate::link::LinkConfig;
use crate::net::{GroupWatch, Load, Net};
use crate::nic::{Gauge, NicConfig, NodeProbe, Stage, can_do};
use crate::report::{jain, kind, per_mill, per_second};
use crate::workers;

/// Packets that the policy may have waiting, in each path: more than any default limit, and one for
/// each default child of many.
const POOL: usize = 1 << 16;
/// The way back is at least this fast, and ten times the bottleneck.
const WIDE: u64 = 10_000_000_000;
/// The NIC that is tried: the first one.
const TRIED: u32 = 0;

/// Runs each policy on the traffic, with each of the seeds, on as many threads as the machine runs
/// at once. `progress` is told how much virtual time is over, of how much in all. Errors: the
/// set-up is out of its bounds, or a policy cannot be applied.
pub fn run(
    setup: &Setup,
    traffic: &Traffic,
    entries: &[Entry],
    progress: &mut dyn FnMut(Nanos, Nanos),
) -> Result<Trial, TrialError> {
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    run_on(threads, setup, traffic, entries, progress)
}

/// The same on at most so many threads; the trial does not depend on how many.
pub fn run_on(
    threads: NonZeroUsize,
    setup: &Setup,
    traffic: &Traffic,
    entries: &[Entry],
    progress: &mut dyn FnMut(Nanos, Nanos),
) -> Result<Trial, TrialError> {
    setup.check().map_err(TrialError::Setup)?;
    if entries.is_empty() || entries.len() > POLICIES_MAX {
        let message = format!("policies: expected 1 to {POLICIES_MAX}, given {}", entries.len());
        return Err(TrialError::Setup(message));
    }
    for policy in entries.iter().filter_map(|e| e.policy.as_ref()) {
        let checked = can_do(policy).and_then(|()| policy.check(&env(setup)));
        checked.map_err(|d| TrialError::Policy(Box::new(d)))?;
    }
    let clock = Clock::new(setup, traffic);
    let runs = setup.runs as usize;
    let jobs = entries.len() * runs;
    let whole = Nanos(clock.time.0.saturating_mul(jobs as u64));
    let work = |job: usize, advanced: &mut dyn FnMut(Nanos)| {
        let setup = Setup { seed: setup.seed.wrapping_add((job % runs) as u64), ..*setup };
        one(&setup, traffic, &clock, &entries[job / runs], advanced)
    };
    let mut done = workers::run(jobs, threads, work, &mut |over| progress(over, whole))?.into_iter();
    let one_policy = |_| gathered(done.by_ref().take(runs).collect(), setup.seed);
    let mut policies: Vec<PolicyTrial> = entries.iter().filter_map(one_policy).collect();
    mark(&mut policies);
    Ok(trial(setup, traffic, &clock, policies))
}

fn trial(setup: &Setup, traffic: &Traffic, clock: &Clock, policies: Vec<PolicyTrial>) -> Trial {
    let (link, rtt) = (text_of(&setup.link), text_of(&setup.rtt));
    Trial {
        title: format!("{} over {link}, RTT {rtt}", traffic.name),
        traffic: traffic.name.clone(),
        about: traffic.about.clone(),
        link_rate_bit_s: setup.link.bits(),
        rtt_ns: setup.rtt.0,
        queues: setup.queues,
        ring: setup.ring,
        bql: setup.bql,
        time_ns: clock.time.0,
        warmup_ns: clock.warmup.0,
        seed: setup.seed,
        tcp: transport(setup, traffic).1,
        congestion: setup.congestion.name,
        ecn: setup.ecn,
        fidelity: traffic.has_tcp().then(|| {
            fidelity::embedded(&Given {
                congestion: setup.congestion.name,
                ecn: setup.ecn,
                rtt: setup.rtt,
                flows: flows(traffic),
                policies: policies.iter().map(|p| p.leaves.clone()).collect(),
            })
        }),
        interval: Interval::of(setup.runs),
        step_ns: clock.step.0,
        verdict: verdict(&policies),
        policies,
    }
}

/// The times of a run.
struct Clock {
    time: Nanos,
    warmup: Nanos,
    step: Nanos,
}

impl Clock {
    /// A replay has no warm-up, and ends when its last packet has had a round trip and a second to
    /// get through.
    fn new(setup: &Setup, traffic: &Traffic) -> Self {
        let (time, warm_steps) = match &traffic.load {
            Loads::Groups(_) => (setup.time, STEPS / 10),
            Loads::Replay(frames) => {
                let last = frames.last().map_or(Instant::ZERO, |f| f.sent);
                let end = last + setup.rtt + Nanos::from_secs(1);
                (setup.time.min(end.saturating_since(Instant::ZERO)), 0)
            }
        };
        let step = Nanos(time.0.div_ceil(STEPS).max(1));
        Self { time: Nanos(step.0 * STEPS), warmup: Nanos(step.0 * warm_steps), step }
    }
    const fn measured(&self) -> Nanos {
        Nanos(self.time.0 - self.warmup.0)
    }
}

/// The device of the bottleneck.
fn wire(setup: &Setup) -> WireConfig {
    WireConfig { rate: setup.link, rings: setup.queues, ring: setup.ring, ..WireConfig::default() }
}

/// The device as policies see it.
fn env(setup: &Setup) -> Env {
    Env {
        link_rate: Some(setup.link),
        queues: setup.queues,
        offload: wire(setup).offload,
        // Another stream than the net's own.
        seed: Rng::new(!setup.seed).next_u64(),
        ..Env::default()
    }
}

/// The hosts, the bottleneck, the way back and the traffic.
fn build(setup: &Setup, traffic: &Traffic, entry: &Entry) -> Result<Net, TrialError> {
    let wrong = TrialError::Setup;
    let mut net = Net::new(setup.seed);
    let (tcp, _) = transport(setup, traffic);
    for _ in [NEAR, FAR] {
        net.host(tcp.clone(), Cpu::default());
    }
    let there = Nanos(setup.rtt.0 / 2);
    let bql = setup.bql.then(DqlConfig::default);
    let path = PathConfig { env: env(setup), pool: POOL, role: Role::Forwarder, bql, trace: 0 };
    let link = LinkConfig { delay: there, ..LinkConfig::default() };
    net.link(NEAR, FAR, NicConfig { path, wire: wire(setup), link, seed: setup.seed }).map_err(wrong)?;
    let rate = Rate::from_bits(setup.link.bits().saturating_mul(10).max(WIDE));
    let back = NicConfig {
        path: PathConfig::default(),
        wire: WireConfig { rate, ..WireConfig::default() },
        link: LinkConfig { delay: setup.rtt.saturating_sub(there), ..LinkConfig::default() },
        seed: setup.seed,
    };
    net.link(FAR, NEAR, back).map_err(wrong)?;
    if let Some(policy) = &entry.policy {
        net.apply(TRIED, policy).map_err(|d| TrialError::Policy(Box::new(d)))?;
    }
    match &traffic.load {
        Loads::Groups(groups) => {
            for (i, (group, pace)) in groups.iter().enumerate() {
                net.group(group.clone()).map_err(wrong)?;
                net.traffic_mut().set_pace(i, *pace);
            }
        }
        Loads::Replay(frames) => {
            net.replay(NEAR, FAR, Arc::clone(frames)).map_err(wrong)?;
        }
    }
    net.watch();
    Ok(net)
}

/// Runs one policy once, without the figures that are of all its runs.
fn one(
    setup: &Setup,
    traffic: &Traffic,
    clock: &Clock,
    entry: &Entry,
    advanced: &mut dyn FnMut(Nanos),
) -> Result<PolicyTrial, TrialError> {
    let mut net = build(setup, traffic, entry)?;
    net.nic_mut(TRIED).watch(Instant::ZERO);
    Ok(measured(&mut net, setup, clock, entry, advanced))
}

/// Runs it to the end and gives the results; those of classes and stages are there only with a
/// probe.
fn measured(
    net: &mut Net,
    setup: &Setup,
    clock: &Clock,
    entry: &Entry,
    advanced: &mut dyn FnMut(Nanos),
) -> PolicyTrial {
    let mut series = Series::new(net, clock.step);
    for n in 1..=STEPS {
        let at = Instant(clock.step.0 * (n - 1));
        if at.0 == clock.warmup.0 {
            net.measure();
            series.restart();
        }
        net.next_step();
        net.run(at + clock.step);
        series.sample(net);
        advanced(clock.step);
    }
    let Series { groups, classes, ring, .. } = series;
    let nic = net.links().nic(TRIED);
    let counts = nic.measured();
    let named = |i: usize| DropReason::ALL[i].name();
    let reports: Vec<GroupTrial> = groups
        .into_iter()
        .enumerate()
        .map(|(i, s)| match net.traffic().groups().get(i) {
            Some(_) => group(net, i, clock.measured(), s.series),
            None => replay(net, clock.measured(), s.series),
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
    let [ring_gauge, _] = nic.gauges();
    PolicyTrial {
        name: entry.name.clone(),
        policy: entry.policy.as_ref().map_or(String::new(), |p| p.source().text.clone()),
        shown_seed: setup.seed,
        measures: Vec::new(),
        groups: reports,
        leaves: leaves(&nic.port().trees(), setup.link, &mut |node| node.books().sent.packets > 0),
        classes: self::classes(net, clock.measured(), classes),
        device: DeviceTrial {
            ring_bytes: range(ring_gauge, net.engine().now()),
            bql_limit: nic.port().totals().byte_limit().map(|(limit, _)| limit),
            utilisation: per_mill(counts.busy, clock.measured()).min(10_000) as f64 / 10_000.0,
            offered_packets: counts.taken.packets,
            sent_packets: counts.tx.packets,
            sent_bytes: counts.tx.bytes,
            series: DeviceSeries { ring_bytes: ring.values },
        },
        stages: stages(net),
        drops: by_reason(&counts.drops, named),
        marks: by_reason(&counts.marks, |i| MarkReason::ALL[i].name()),
        jain: jain(&streams),
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
fn payload(net: &Net, group: usize) -> u64 {
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

fn classes(net: &Net, time: Nanos, series: Vec<ClassSampler>) -> Vec<ClassTrial> {
    let now = net.engine().now();
    let nodes = net.links().nic(TRIED).probe().map_or(&[][..], |p| p.nodes());
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
            series: ClassSeries { backlog_bytes: sampler.backlog.values, ..sampler.series },
        });
    }
    all
}

fn stages(net: &Net) -> Vec<StageTrial> {
    let Some(probe) = net.links().nic(TRIED).probe() else { return Vec::new() };
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

/// A gauge's mean in each step.
#[derive(Default)]
struct Means {
    area: u128,
    values: Vec<u64>,
}

impl Means {
    fn sample(&mut self, gauge: &Gauge, now: Instant, step: Nanos) {
        let area = gauge.area(now);
        let mean = (area - self.area) / u128::from(step.0);
        self.values.push(u64::try_from(mean).unwrap_or(u64::MAX));
        self.area = area;
    }
}

struct GroupSampler {
    bytes: u64,
    series: GroupSeries,
}

struct ClassSampler {
    bytes: u64,
    drops: u64,
    backlog: Means,
    series: ClassSeries,
}

/// Everything over time.
struct Series {
    step: Nanos,
    groups: Vec<GroupSampler>,
    classes: Vec<ClassSampler>,
    ring: Means,
}

impl Series {
    fn new(net: &Net, step: Nanos) -> Self {
        let groups = net.traffic().groups().len() + usize::from(net.replayed().is_some());
        let classes = net.links().nic(TRIED).probe().map_or(0, |p| p.nodes().len());
        Self {
            step,
            groups: (0..groups).map(|_| GroupSampler { bytes: 0, series: GroupSeries::default() }).collect(),
            classes: (0..classes)
                .map(|_| ClassSampler {
                    bytes: 0,
                    drops: 0,
                    backlog: Means::default(),
                    series: ClassSeries::default(),
                })
                .collect(),
            ring: Means::default(),
        }
    }

    /// Measuring begins: gauges have begun anew.
    fn restart(&mut self) {
        self.ring.area = 0;
        self.classes.iter_mut().for_each(|c| c.backlog.area = 0);
    }

    /// A step is over.
    fn sample(&mut self, net: &mut Net) {
        let (now, step) = (net.engine().now(), self.step);
        net.nic_mut(TRIED).look(now);
        for (i, s) in self.groups.iter_mut().enumerate() {
            let (bytes, watch): (u64, &GroupWatch) = match (net.traffic().groups().get(i), net.replayed()) {
                (Some(_), _) => (payload(net, i), &net.meters().watched()[i]),
                (None, Some(replay)) => (replay.received().bytes, replay.watch()),
                (None, None) => continue,
            };
            let some = |share| (watch.step.count() > 0).then(|| watch.step.quantile(share).0);
            s.series.throughput_bit_s.push(per_second(u128::from(bytes - s.bytes) * 8, step));
            s.series.latency_p50_ns.push(some(0.5));
            s.series.latency_p99_ns.push(some(0.99));
            s.bytes = bytes;
        }
        let nic = net.links().nic(TRIED);
        self.ring.sample(nic.gauges()[0], now, step);
        let nodes: &[NodeProbe] = nic.probe().map_or(&[], |p| p.nodes());
        for (node, c) in nodes.iter().zip(&mut self.classes) {
            let (bytes, drops) = (node.books.sent.bytes, node.own.dropped());
            c.backlog.sample(&node.backlog, now, step);
            c.series.throughput_bit_s.push(per_second(u128::from(bytes - c.bytes) * 8, step));
            c.series.drops.push(drops - c.drops);
            (c.bytes, c.drops) = (bytes, drops);
        }
    }
}
