//! The runs of each policy: the net, the walk through its steps, and the numbers at the end.

#[cfg(test)]
mod probed;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use txweir_core::base::rng::Rng;
use txweir_core::model::wire::WireConfig;
use txweir_core::path::txpath::PathConfig;
use txweir_core::text::value::text_of;
use txweir_core::{DqlConfig, Env, Instant, Nanos, Rate, Role};

use super::measure::{Interval, gathered, mark};
use super::mix::Loads;
use super::transport::{flows, transport};
use super::verdict::verdict;
use super::{Entry, FAR, NEAR, POLICIES_MAX, PolicyTrial, STEPS, Setup, Traffic, Trial, TrialError};
use crate::cpu::Cpu;
use crate::fidelity::{self, Given, leaves};
use crate::link::LinkConfig;
use crate::net::{Load, Net};
use crate::nic::{NicConfig, can_do};
use crate::report::jain;
use crate::sampled::Sampler;
use crate::sampled::side::Side;
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
        lines: Vec::new(),
        beside: Vec::new(),
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
    let mut sampler = Sampler::new(net, &[TRIED], clock.step);
    sampler.play(net, (Instant(clock.time.0), STEPS), Instant(clock.warmup.0), advanced);
    let (groups, mut sides) = sampler.results(net, clock.measured());
    let streams: Vec<u64> = net
        .traffic()
        .groups()
        .iter()
        .enumerate()
        .filter(|(_, g)| g.group.load == Load::Stream)
        .flat_map(|(i, _)| net.traffic().counted(i).bytes())
        .collect();
    let Side { classes, device, stages, drops, marks } = sides.swap_remove(0);
    let trees = net.links().nic(TRIED).port().trees();
    PolicyTrial {
        name: entry.name.clone(),
        policy: entry.policy.as_ref().map_or(String::new(), |p| p.source().text.clone()),
        shown_seed: setup.seed,
        measures: Vec::new(),
        groups,
        leaves: leaves(&trees, setup.link, &mut |node| node.books().sent.packets > 0),
        classes,
        device,
        stages,
        drops,
        marks,
        jain: jain(&streams),
    }
}
