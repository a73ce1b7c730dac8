//! `txweir try` held against `txweir run`: the same policies on the same traffic, once in virtual time with the lab's TCP, once
//! with the kernel's between two network namespaces. Whom `try` tells apart clearly has the same rank live.
//!
//! `TXWEIR_LIVE_RUNS=5 cargo test -p txweir-cli --test live_try -- --nocapture` prints the tables of docs/try.md, of five live
//! runs of each policy; without the variable there is one. Needs root and `/dev/net/tun`, says
//! why and passes where these are missing. A live run that the machine was too late for does not count, and is done again.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod lateness;
mod scenarios;
mod traffic;
mod trips;

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use serde_json::Value;

use common::{Temp, skip_unless_possible};
use lateness::Lateness;
use scenarios::{SCENARIOS, Scenario};
use traffic::LiveRun;

/// Live runs at a time, in the first round and in those that repeat what was too late or came out the other way.
const AT_ONCE: [usize; 3] = [6, 3, 3];
/// No live run begins later than this after the first one, times the runs that are asked for.
const BUDGET: Duration = Duration::from_secs(100);
/// The environment variable that says how many live runs each policy is to have: 1 to 64, 1 without it.
const RUNS: &str = "TXWEIR_LIVE_RUNS";

/// What `txweir try` says of the scenario, as JSON.
fn tried(scenario: &Scenario) -> Value {
    let file =
        |i: usize, text: &str| Temp::new(&format!("try-{}-{i}", scenario.name.replace(' ', "-")), text);
    let policies: Vec<Temp> = scenario.policies.iter().enumerate().map(|(i, p)| file(i, p.text)).collect();
    let traffic = file(policies.len(), &scenario.toml());
    let rtt = format!("{}ms", scenario.rtt.as_millis());
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.arg("try").args(policies.iter().map(Temp::path)).args(["--traffic", traffic.path(), "--json"]);
    command.args(["--link", scenario.link, "--rtt", &rtt, "--cc", scenario.congestion, "--time", "10s"]);
    command.args(scenario.ecn.then_some("--ecn"));
    let output = command.output().expect("run it");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", scenario.name);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Why the kernel cannot run it, if so.
fn unavailable(scenario: &Scenario) -> Option<String> {
    let name = scenario.congestion;
    traffic::tcp_with(name).err().map(|error| format!("this kernel has no {name}: {error}"))
}

/// A scenario, and what is known of it.
struct Case {
    scenario: &'static Scenario,
    tried: Value,
    /// Live runs of each policy that the machine was in time for.
    runs: Vec<Vec<LiveRun>>,
    /// How late the machine was for the others.
    too_late: Option<Lateness>,
}

impl Case {
    fn complete(&self) -> bool {
        self.runs.iter().all(|runs| !runs.is_empty())
    }

    /// Pairs that came out the other way; none while there are policies without a run.
    fn reversed(&self) -> Vec<String> {
        match self.complete() {
            true => compare::reversed(self.scenario, &compare::rows(self.scenario, &self.tried, &self.runs)),
            false => Vec::new(),
        }
    }

    /// Policies that have to run: those without a run, or all of them if a pair came out the other way.
    fn wanted(&self) -> Vec<usize> {
        let again = !self.reversed().is_empty();
        (0..self.runs.len()).filter(|i| again || self.runs[*i].is_empty()).collect()
    }

    /// Whether a pair that came out the other way has done so in more than one run of each policy.
    fn repeated(&self) -> bool {
        self.runs.iter().all(|runs| runs.len() > 1)
    }

    /// Why there are not enough runs.
    fn why_not(&self) -> String {
        match self.too_late {
            Some(late) => format!("the machine was {late}"),
            None => format!("no time was left of {} s", BUDGET.as_secs()),
        }
    }

    /// Prints the table; the pairs that came out the other way, if that is certain enough.
    fn judge(&self) -> Vec<String> {
        let (name, reversed) = (self.scenario.name, self.reversed());
        if self.complete() {
            let rows = compare::rows(self.scenario, &self.tried, &self.runs);
            print!("\n{}", compare::table(self.scenario, &rows));
            // Once is no proof.
            if reversed.is_empty() || self.repeated() {
                return reversed;
            }
        }
        println!("{name}: not judged: skipped, because {}", self.why_not());
        Vec::new()
    }

    fn add(&mut self, policy: usize, run: LiveRun) {
        if run.late.too_busy() {
            self.too_late = Some(self.too_late.map_or(run.late, |late| late.max(run.late)));
        } else {
            self.runs[policy].push(run);
        }
    }
}

/// Runs so many of the jobs (case, policy) at a time; those that begin before the end of the budget.
fn round(cases: &mut [Case], jobs: &[(usize, usize)], at_once: usize, until: Instant) {
    static UNIQUE: AtomicUsize = AtomicUsize::new(0);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let scenarios: Vec<&Scenario> = cases.iter().map(|case| case.scenario).collect();
    let work = || {
        while let Some(&(case, policy)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if Instant::now() >= until {
                return;
            }
            let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
            let run = traffic::run(scenarios[case], &scenarios[case].policies[policy], unique);
            done.lock().expect("no run has failed").push((case, policy, run));
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    for (case, policy, run) in done.into_inner().expect("no run has failed") {
        let (scenario, policy_name) = (scenarios[case].name, scenarios[case].policies[policy].name);
        println!("{scenario}, {policy_name}: {}", run.late);
        cases[case].add(policy, run);
    }
}

#[test]
fn policies_rank_live_as_they_do_in_virtual_time() {
    skip_unless_possible!();
    // Before what else the machine does, if that is allowed: of this thread and of all that it starts from now on.
    let _ = setpriority_process(None, -20);
    let mut cases = Vec::new();
    for scenario in SCENARIOS {
        match unavailable(scenario) {
            Some(why) => println!("{}: skipped, because {why}", scenario.name),
            None => cases.push(Case {
                scenario,
                tried: tried(scenario),
                runs: vec![Vec::new(); scenario.policies.len()],
                too_late: None,
            }),
        }
    }
    let runs = std::env::var(RUNS).map_or(1, |text| text.parse().expect("TXWEIR_LIVE_RUNS: a number"));
    assert!((1..=64).contains(&runs), "{RUNS}: expected 1 to 64, given {runs}");
    let until = Instant::now() + BUDGET * runs;
    for (number, at_once) in AT_ONCE.into_iter().enumerate() {
        let wanted = |(i, case): (usize, &Case)| -> Vec<(usize, usize)> {
            case.wanted().into_iter().map(|policy| (i, policy)).collect()
        };
        for pair in cases.iter().flat_map(Case::reversed) {
            println!("again: {pair}");
        }
        let mut jobs: Vec<(usize, usize)> = cases.iter().enumerate().flat_map(wanted).collect();
        if number == 0 {
            jobs = jobs.repeat(runs as usize);
        }
        round(&mut cases, &jobs, at_once, until);
    }
    let wrong: Vec<String> = cases.iter().flat_map(Case::judge).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
