//! The measurements of a scenario over time, for the page of charts.

use std::collections::BTreeMap;

use serde::Serialize;
use txweir_core::{Instant, Nanos};

use crate::report::told_apart;
use crate::sampled::Sampler;
use crate::sampled::results::{ClassTrial, DeviceTrial, GroupTrial, StageTrial};
use crate::scenario::{Built, Scenario};
use crate::stop::Stop;
use crate::trial::STEPS;
use crate::trial::measure::{Measure, of_one_run};

/// Most directions of links on a page, the first ones.
pub const WAYS_MAX: usize = 32;

/// The TCP of a scenario, whose hosts have their own congestion control, and how close it comes.
const TCP: &str = "the lab’s, after Linux 6.12, with the congestion control of each host; this scenario is not held \
                   against a recording of Linux";

/// Returns the name of the TCP of a scenario's hosts.
fn tcp(built: &Built) -> String {
    let kernels: Vec<&str> = built.plans.iter().map(|(_, plan)| plan.host.as_str()).collect();
    match (kernels.is_empty(), built.net.traffic().groups().is_empty()) {
        (true, _) => TCP.to_owned(),
        (false, true) => format!("a Linux kernel’s, on {}", kernels.join(", ")),
        (false, false) => format!("a Linux kernel’s, on {}; on the other hosts {TCP}", kernels.join(", ")),
    }
}

/// A run of a scenario over time, in the form that the page of a trial has too.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// Title of the scenario.
    pub title: String,
    /// One sentence on what the page leaves out; empty if nothing.
    pub about: String,
    /// Seed of the run.
    pub seed: u64,
    /// Length of the run, warm-up included.
    pub time_ns: u64,
    /// Length of the warm-up.
    pub warmup_ns: u64,
    /// Name of the hosts' TCP.
    pub tcp: String,
    /// Length of one step of every series.
    pub step_ns: u64,
    /// The traffic, as that of the one policy of a trial.
    pub policies: Vec<Traffic>,
    /// Each direction of each link.
    pub ways: Vec<Way>,
}

/// The traffic of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// `this run`.
    pub name: &'static str,
    /// The headline numbers.
    pub measures: Vec<Measure>,
    /// Groups of traffic.
    pub groups: Vec<GroupTrial>,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// `from -> to`.
    pub name: String,
    /// The tc lines of its policy; empty for the default.
    pub policy: String,
    /// Line rate at the end.
    pub rate_bit_s: u64,
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
}

impl Page {
    /// Returns the page as JSON.
    pub fn json(&self) -> String {
        // Serialisation fails only for maps whose keys are not strings, and for numbers that are
        // none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Runs a net to the end of its scenario, and returns what it did in each step.
    pub(crate) fn played(
        scenario: &Scenario,
        seed: u64,
        built: &mut Built,
        stop: &Stop,
        progress: &mut dyn FnMut(Nanos),
    ) -> Self {
        let net = &mut built.net;
        let ways = built.ends.len().min(WAYS_MAX);
        let sides: Vec<u32> = (0..ways as u32).collect();
        net.watch();
        sides.iter().for_each(|nic| net.nic_mut(*nic).watch(Instant::ZERO));
        let step = Nanos(scenario.duration().0.div_ceil(STEPS).max(1));
        let end = Instant(scenario.duration().0);
        let mut sampler = Sampler::new(net, &sides, step);
        let mut over = Nanos(0);
        sampler.play(net, (end, STEPS), Instant(scenario.warmup().0), stop, &mut |by| {
            over = Nanos(over.0.saturating_add(by.0));
            progress(over);
        });
        let measured = Nanos(scenario.duration().0 - scenario.warmup().0);
        let (mut groups, sides) = sampler.results(net, measured);
        let host = |number: u32| built.hosts[number as usize].as_str();
        let names: Vec<_> = (net.traffic().groups().iter())
            .map(|state| &state.group)
            .map(|g| [g.name.clone(), format!("{} {} -> {}", g.name, host(g.from), host(g.to))])
            .collect();
        for (group, name) in groups.iter_mut().zip(told_apart(&names)) {
            group.name = name;
        }
        let of = |(nic, side): (usize, crate::sampled::side::Side)| Way {
            name: built.links[nic].clone(),
            policy: scenario.policy_of(built.ends[nic].table).into(),
            rate_bit_s: built.net.links().nic(nic as u32).wire().config().rate.bits(),
            classes: side.classes,
            device: side.device,
            stages: side.stages,
            drops: side.drops,
            marks: side.marks,
        };
        let mut about = Vec::new();
        if built.ends.len() > ways {
            let more = built.ends.len() - ways;
            about.push(format!("The first {WAYS_MAX} directions of links; {more} more are not shown."));
        }
        if !built.planned.is_empty() {
            let names: Vec<&str> = built.planned.iter().map(|planned| planned.group.name.as_str()).collect();
            about.push(format!("The report alone has the traffic between kernels: {}.", names.join(", ")));
        }
        Self {
            title: scenario.title().into(),
            about: about.join(" "),
            seed,
            time_ns: scenario.duration().0,
            warmup_ns: scenario.warmup().0,
            tcp: tcp(built),
            step_ns: step.0,
            policies: vec![Traffic { name: "this run", measures: of_one_run(&groups), groups }],
            ways: sides.into_iter().enumerate().map(of).collect(),
        }
    }
}
