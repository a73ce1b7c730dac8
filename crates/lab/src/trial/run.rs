//! The runs of each policy: the net, the walk through its steps, and the numbers at the end.

mod site;

#[cfg(test)]
mod probed;

use std::num::NonZeroUsize;
use std::thread;

use txweir_core::text::value::text_of;
use txweir_core::{Instant, Nanos};

use super::measure::{Interval, gathered, mark};
use super::mix::Loads;
use super::transport::{flows, is_mixed, transport};
use super::verdict::verdict;
use super::{
    DownSeries, DownTrial, Entry, IfbTrial, POLICIES_MAX, PolicyTrial, Range, STEPS, Setup, Traffic,
};
use super::{Trial, TrialError};
use crate::fidelity::{self, Given, Leaf, leaves};
use crate::net::{Load, Net};
pub use crate::nic::targets;
use crate::report::jain;
use crate::sampled::Sampler;
use crate::sampled::side::Side;
use crate::stop::Stop;
use crate::workers;
pub use site::{Devices, devices};
use site::{PROVIDERS, TRIED, build, tried};

/// Runs each policy on the traffic, with each of the seeds, on as many threads as the machine runs
/// at once. `progress` is told how much virtual time is over, of how much in all. Errors: the
/// set-up is out of its bounds, or a policy cannot be applied.
pub fn run(
    setup: &Setup,
    traffic: &Traffic,
    entries: &[Entry],
    progress: &mut dyn FnMut(Nanos, Nanos),
) -> Result<Trial, TrialError> {
    run_with(&Resources::default(), setup, traffic, entries, progress)
}

/// Resources of a trial, on which its results do not depend.
#[derive(Clone, Debug)]
pub struct Resources {
    /// Most threads.
    pub threads: NonZeroUsize,
    /// Ends the trial early, without results.
    pub stop: Stop,
}

impl Default for Resources {
    /// Returns as many threads as the machine runs at once, and a request that nobody makes.
    fn default() -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { threads, stop: Stop::default() }
    }
}

/// The same with these resources. A trial that is stopped ends with [`TrialError::Stopped`].
pub fn run_with(
    resources: &Resources,
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
        site::check(setup, traffic, policy)?;
    }
    let clock = Clock::new(setup, traffic);
    let runs = setup.runs as usize;
    let jobs = entries.len() * runs;
    let whole = Nanos(clock.time.0.saturating_mul(jobs as u64));
    let work = |job: usize, advanced: &mut dyn FnMut(Nanos)| {
        let setup = Setup { seed: setup.seed.wrapping_add((job % runs) as u64), ..*setup };
        one(&setup, traffic, &clock, &entries[job / runs], &resources.stop, advanced)
    };
    let mut done =
        workers::run(jobs, resources.threads, work, &mut |over| progress(over, whole))?.into_iter();
    let one_policy = |_| gathered(done.by_ref().take(runs).collect(), setup.seed);
    let mut policies: Vec<PolicyTrial> = entries.iter().filter_map(one_policy).collect();
    mark(&mut policies);
    Ok(trial(setup, traffic, &clock, policies))
}

fn trial(setup: &Setup, traffic: &Traffic, clock: &Clock, policies: Vec<PolicyTrial>) -> Trial {
    let (link, rtt) = (text_of(&setup.link), text_of(&setup.rtt));
    let lines = match &setup.down {
        Some(down) => format!("{} down and {link} up", text_of(down)),
        None => link,
    };
    let (hosts, tcp) = transport(setup, traffic);
    Trial {
        title: format!("{} over {lines}, RTT {rtt}", traffic.name),
        traffic: traffic.name.clone(),
        about: traffic.about.clone(),
        link_rate_bit_s: setup.link.bits(),
        down_rate_bit_s: setup.down.map(|rate| rate.bits()),
        rtt_ns: setup.rtt.0,
        queues: setup.queues,
        ring: setup.ring,
        bql: setup.bql,
        time_ns: clock.time.0,
        warmup_ns: clock.warmup.0,
        seed: setup.seed,
        tcp,
        congestion: setup.congestion.name,
        ecn: setup.ecn,
        ipv6: traffic.is_ipv6(),
        fidelity: traffic.has_tcp().then(|| {
            let known = fidelity::embedded(&Given {
                congestion: setup.congestion.name,
                ecn: setup.ecn,
                rtt: setup.rtt,
                flows: flows(setup, traffic),
                policies: policies.iter().map(|p| p.leaves.clone()).collect(),
            });
            match is_mixed(&hosts, traffic) {
                true => known.outside("a group of the traffic has a TCP of its own"),
                false => known,
            }
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

/// Runs one policy once, without the figures that are of all its runs.
fn one(
    setup: &Setup,
    traffic: &Traffic,
    clock: &Clock,
    entry: &Entry,
    stop: &Stop,
    advanced: &mut dyn FnMut(Nanos),
) -> Result<PolicyTrial, TrialError> {
    let mut net = build(setup, traffic, entry)?;
    watch(&mut net);
    let results = measured(&mut net, setup, clock, entry, stop, advanced);
    if stop.is_asked() { Err(TrialError::Stopped) } else { Ok(results) }
}

/// Runs it to the end and gives the results; those of classes and stages are there only with a
/// probe.
fn measured(
    net: &mut Net,
    setup: &Setup,
    clock: &Clock,
    entry: &Entry,
    stop: &Stop,
    advanced: &mut dyn FnMut(Nanos),
) -> PolicyTrial {
    let nics: Vec<u32> = tried(net).collect();
    let sides: Vec<u32> = nics.iter().copied().chain([PROVIDERS]).collect();
    let mut sampler = Sampler::new(net, &sides, clock.step);
    sampler.play(net, (Instant(clock.time.0), STEPS), Instant(clock.warmup.0), stop, advanced);
    let (groups, mut sides) = sampler.results(net, clock.measured());
    let streams: Vec<u64> = net
        .traffic()
        .groups()
        .iter()
        .enumerate()
        .filter(|(_, g)| g.group.load == Load::Stream)
        .flat_map(|(i, _)| net.traffic().counted(i).bytes())
        .collect();
    let provider = sides.remove(nics.len());
    let mut ifbs = nics.into_iter().zip(sides);
    let tried = ifbs.next().map(|(_, side)| side).unwrap_or_default();
    let Side { classes, device, stages, drops, marks, .. } = tried;
    PolicyTrial {
        name: entry.name.clone(),
        policy: entry.policy.as_ref().map_or(String::new(), |p| p.source().text.clone()),
        shown_seed: setup.seed,
        measures: Vec::new(),
        groups,
        leaves: leaves_of(net, setup),
        classes,
        device,
        stages,
        drops,
        marks,
        down: setup.down.map(|_| down(net, provider)),
        ifbs: ifbs.map(|(nic, side)| ifb(net, nic, side)).collect(),
        jain: jain(&streams),
    }
}

fn down(net: &Net, provider: Side) -> DownTrial {
    let (nic, now) = (net.links().nic(PROVIDERS), net.engine().now());
    let [ring, backlog] = nic.gauges();
    DownTrial {
        utilisation: provider.device.utilisation,
        provider_bytes: Range {
            mean: ring.mean(now) + backlog.mean(now),
            // The longest of both together is not kept.
            max: backlog.max().max(ring.max()),
        },
        provider_dropped_packets: nic.measured().dropped.packets,
        turned_away_packets: net.links().nic(TRIED).measured().turned_away.packets,
        series: DownSeries { provider_bytes: provider.held_bytes },
    }
}

fn ifb(net: &Net, nic: u32, side: Side) -> IfbTrial {
    let Side { classes, device, stages, drops, marks, .. } = side;
    IfbTrial {
        device: net.links().name(nic).into(),
        offered_packets: device.offered_packets,
        sent_packets: device.sent_packets,
        sent_bytes: device.sent_bytes,
        // The first stage begins where the packet was made, which is beyond the line.
        stages: stages.into_iter().skip(1).collect(),
        drops,
        marks,
        classes,
    }
}

/// Puts a probe into each device of the policy.
fn watch(net: &mut Net) {
    tried(net).for_each(|nic| net.nic_mut(nic).watch(Instant::ZERO));
}

/// Returns the leaf qdiscs that sent packets.
fn leaves_of(net: &Net, setup: &Setup) -> Vec<Leaf> {
    let of = |nic| {
        let link = if nic == TRIED { setup.link } else { setup.down.unwrap_or(setup.link) };
        leaves(&net.links().nic(nic).port().trees(), link, &mut |node| node.books().sent.packets > 0)
    };
    tried(net).flat_map(of).collect()
}
