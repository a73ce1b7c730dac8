//! Runs a scenario from its start to its report.

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use txweir_core::{Instant, Nanos};

use crate::engine::Trace;
use crate::machine::{Machine, Part, Plan};
use crate::page::Page;
use crate::passed::PacketLog;
use crate::pcap::{Capture, Tap};
use crate::report::Report;
use crate::scenario::{Built, Scenario, ScenarioError};
use crate::stop::{LOOK, Stop};

/// Simulated time between two calls of the progress function.
pub const PROGRESS: Nanos = LOOK;

/// Options of a run.
#[derive(Default)]
pub struct Options {
    /// Seed in place of the scenario's.
    pub seed: Option<u64>,
    /// Directory for captures, one file per link; created if it does not exist.
    pub pcap_dir: Option<PathBuf>,
    /// Destination of the event log, if any: see [`Trace`]. It should be buffered.
    pub log: Option<Box<dyn Write>>,
    /// Starts the machine of a host with a kernel of its own; the error in words. Without it, a
    /// scenario with such hosts is refused.
    pub boot: Option<Boot>,
    /// Keeps every packet that leaves a wire; a run with more than fit into it is stopped.
    pub packets: Option<PacketLog>,
    /// Ends the run early, without a report.
    pub stop: Stop,
}

/// Starts the machine that does this work, at time zero of the lab's clock.
pub type Boot = Box<dyn FnMut(&Plan) -> Result<Box<dyn Machine>, String>>;

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, pcap_dir, log, boot, packets, stop } = self;
        f.debug_struct("Options")
            .field("seed", seed)
            .field("pcap_dir", pcap_dir)
            .field("log", &log.is_some())
            .field("boot", &boot.is_some())
            .field("packets", &packets.is_some())
            .field("stop", stop)
            .finish()
    }
}

/// Reason that a run has no report.
#[derive(Debug)]
pub enum RunError {
    /// The scenario cannot be built.
    Scenario(Box<ScenarioError>),
    /// A capture, or the directory for it, cannot be made.
    Open(PathBuf, io::Error),
    /// A capture cannot be written.
    Capture(PathBuf, io::Error),
    /// The event log cannot be written.
    Log(io::Error),
    /// The kernel of a host cannot be started, or has failed: the host, and the reason.
    Machine(String, String),
    /// The caller asked for an end before time: see [`Options::stop`].
    Stopped,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(e) => e.fmt(f),
            Self::Open(path, e) | Self::Capture(path, e) => write!(f, "{}: {e}", path.display()),
            Self::Log(e) => write!(f, "event log: {e}"),
            Self::Machine(host, why) => write!(f, "host {host}: {why}"),
            Self::Stopped => f.write_str("the run was stopped"),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a scenario to its end. Every [`PROGRESS`] of simulated time, `progress` gets the simulated
/// time so far.
pub fn run(
    scenario: &Scenario,
    options: Options,
    mut progress: impl FnMut(Nanos),
) -> Result<Report, RunError> {
    let stop = options.stop.clone();
    Ok(played(scenario, options, |_seed, built| play_until(scenario, built, &stop, &mut progress))?.0)
}

/// Runs a scenario like [`run`], and returns what it did over time too. The report is the same.
///
/// # Errors
/// Those of [`run`].
pub fn run_for_page(
    scenario: &Scenario,
    options: Options,
    mut progress: impl FnMut(Nanos),
) -> Result<(Report, Page), RunError> {
    let stop = options.stop.clone();
    played(scenario, options, |seed, built| Page::played(scenario, seed, built, &stop, &mut progress))
}

/// Builds the net, lets `play` run it, and closes the files.
fn played<T>(
    scenario: &Scenario,
    options: Options,
    play: impl FnOnce(u64, &mut Built) -> T,
) -> Result<(Report, T), RunError> {
    let seed = options.seed.unwrap_or(scenario.seed());
    let stop = options.stop;
    let mut built = scenario.build(seed).map_err(|e| RunError::Scenario(Box::new(e)))?;
    if let Some(log) = &options.packets {
        for (name, nic) in built.links.iter().zip(0..) {
            built.net.nic_mut(nic).link_mut().add_witness(log.witness(name, &stop));
        }
    }
    let captures = match &options.pcap_dir {
        Some(dir) => tap(scenario, &mut built, dir)?,
        None => Vec::new(),
    };
    if let Some(log) = options.log {
        built.net = built.net.with_trace(Trace::to(log));
    }
    start(&mut built, options.boot)?;
    let result = play(seed, &mut built);
    if stop.is_asked() {
        return Err(RunError::Stopped);
    }
    finish(&mut built)?;
    for (path, capture) in captures {
        capture.borrow_mut().finish().map_err(|e| RunError::Capture(path, e))?;
    }
    if let Some(trace) = built.net.trace_mut() {
        trace.finish().map_err(RunError::Log)?;
    }
    Ok((Report::new(scenario, seed, &built), result))
}

/// Starts the machines of the hosts that are some.
fn start(built: &mut Built, boot: Option<Boot>) -> Result<(), RunError> {
    let Some((_, first)) = built.plans.first() else { return Ok(()) };
    let none =
        || RunError::Machine(first.host.clone(), "no kernel is given for stack = \"linux\"".to_owned());
    let mut boot = boot.ok_or_else(none)?;
    for (host, plan) in &built.plans {
        let machine = boot(plan).map_err(|why| RunError::Machine(plan.host.clone(), why))?;
        built.net.machine(*host, machine);
    }
    Ok(())
}

/// Ends the machines, and takes their results.
fn finish(built: &mut Built) -> Result<(), RunError> {
    if let Some((host, why)) = built.net.fault() {
        return Err(RunError::Machine(built.hosts[host as usize].clone(), why.to_owned()));
    }
    let Built { net, plans, planned, hosts, .. } = built;
    for (host, machine) in net.machines_mut() {
        let failed = |why| RunError::Machine(hosts[host as usize].clone(), why);
        let outcomes = machine.finish().map_err(failed)?;
        let tasks = plans.iter().filter(|(of, _)| *of == host).flat_map(|(_, plan)| &plan.tasks);
        if outcomes.len() != tasks.clone().count() {
            return Err(failed("its kernel has given no results".to_owned()));
        }
        for (task, outcome) in tasks.zip(outcomes) {
            let side = usize::from(task.part == Part::Server);
            if let Some(planned) = planned.iter_mut().find(|planned| planned.port == task.server.1) {
                planned.outcomes[side] = outcome;
            }
        }
    }
    Ok(())
}

/// Runs a net through the warm-up and the measured time.
pub fn play(scenario: &Scenario, built: &mut Built, progress: &mut dyn FnMut(Nanos)) {
    play_until(scenario, built, &Stop::default(), progress);
}

/// The same, unless somebody asks for its end.
fn play_until(scenario: &Scenario, built: &mut Built, asked: &Stop, progress: &mut dyn FnMut(Nanos)) {
    let (warmup, end) = (Instant(scenario.warmup().0), Instant(scenario.duration().0));
    let mut measuring = false;
    loop {
        let now = built.net.engine().now();
        if now >= warmup && !measuring {
            measuring = true;
            built.net.measure();
        }
        if now >= end {
            return;
        }
        let stop = if measuring { end } else { warmup };
        built.net.run(stop.min(now + PROGRESS));
        if built.net.fault().is_some() || asked.is_asked() {
            return;
        }
        progress(built.net.engine().now().saturating_since(Instant::ZERO));
    }
}

/// Captures, each with its file.
type Captures = Vec<(PathBuf, Rc<RefCell<Capture>>)>;

/// Opens one capture per link and records both directions in it.
fn tap(scenario: &Scenario, built: &mut Built, dir: &Path) -> Result<Captures, RunError> {
    let wrong = |path: &Path| {
        let path = path.to_path_buf();
        move |e| RunError::Open(path, e)
    };
    fs::create_dir_all(dir).map_err(wrong(dir))?;
    let mut captures = Captures::new();
    let mut ways = Vec::new();
    for (nic, ends) in built.ends.iter().enumerate() {
        if ends.table == captures.len() {
            let path = dir.join(file_name(ends.table, built, ends.from, ends.to));
            let file = File::create(&path).map_err(wrong(&path))?;
            let capture = Capture::new(Box::new(BufWriter::new(file)), scenario.title());
            captures.push((path, Rc::new(RefCell::new(capture))));
        }
        let Some((_, capture)) = captures.last() else { continue };
        let rate = built.net.links().nic(nic as u32).wire().config().rate;
        let interface = capture.borrow_mut().interface(&built.links[nic], rate);
        ways.push((nic as u32, Tap::new(capture, interface, ends.from, ends.to)));
    }
    for (nic, tap) in ways {
        built.net.nic_mut(nic).link_mut().add_witness(Box::new(tap));
    }
    Ok(captures)
}

/// Returns a name like `0-client-server.pcapng`: the place of the link in the scenario, and its
/// hosts.
fn file_name(table: usize, built: &Built, from: u32, to: u32) -> String {
    let plain = |host: u32| built.hosts[host as usize].replace(|c: char| !c.is_alphanumeric(), "_");
    format!("{table}-{}-{}.pcapng", plain(from), plain(to))
}
