//! The runs of each policy: the net, the walk through its steps, and the numbers at the end.

mod results;
mod series;
mod site;

#[cfg(test)]
mod probed;

use std::num::NonZeroUsize;
use std::thread;

use txweir_core::text::value::text_of;
use txweir_core::{Instant, Nanos};

use super::measure::{Interval, gathered, mark};
use super::mix::Loads;
use super::transport::{flows, transport};
use super::verdict::verdict;
use super::{Entry, POLICIES_MAX, PolicyTrial, STEPS, Setup, Traffic, Trial, TrialError};
use crate::fidelity::{self, Given, Leaf, leaves};
use crate::net::Net;
pub use crate::nic::targets;
use crate::workers;
use results::results;
use series::Series;
pub use site::{Devices, devices};
use site::{TRIED, build, tried};

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
        site::check(setup, traffic, policy)?;
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
    let lines = match &setup.down {
        Some(down) => format!("{} down and {link} up", text_of(down)),
        None => link,
    };
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
        tcp: transport(setup, traffic).1,
        congestion: setup.congestion.name,
        ecn: setup.ecn,
        fidelity: traffic.has_tcp().then(|| {
            fidelity::embedded(&Given {
                congestion: setup.congestion.name,
                ecn: setup.ecn,
                rtt: setup.rtt,
                flows: flows(setup, traffic),
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

/// Runs one policy once, without the figures that are of all its runs.
fn one(
    setup: &Setup,
    traffic: &Traffic,
    clock: &Clock,
    entry: &Entry,
    advanced: &mut dyn FnMut(Nanos),
) -> Result<PolicyTrial, TrialError> {
    let mut net = build(setup, traffic, entry)?;
    watch(&mut net);
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
    results(net, setup, clock.measured(), entry, series)
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
