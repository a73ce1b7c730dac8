//! `txweir try` compared with `txweir run`: the same policies on the same traffic, once in virtual
//! time with the lab's TCP, once with the kernel's between two network namespaces. Policies that
//! `try` tells apart clearly have the same rank live.
//!
//! `TXWEIR_LIVE_RUNS=5 cargo test -p txweir-cli --test it live_try -- --nocapture` prints the
//! tables of docs/try.md, of five live runs of each policy; without the variable there is one, and
//! the last three scenarios run with `TXWEIR_ROWS=all` only. The test needs root and
//! `/dev/net/tun`; without these it prints the reason and passes. A live run for which the machine
//! was too late does not count, and is repeated.

mod compare;
mod scenarios;
mod traffic;
mod trips;

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::lateness::Lateness;
use crate::common::machine::alone;
use crate::common::{Temp, skip_unless_possible};
use scenarios::{SCENARIOS, Scenario};
use traffic::LiveRun;

/// Live runs at a time, in the first round and in those that repeat late or reversed runs.
const AT_ONCE: [usize; 3] = [6, 3, 3];
/// No live run begins later than this after the first one, times the runs that are asked for.
const BUDGET: Duration = Duration::from_secs(100);
/// The environment variable with the number of live runs of each policy: 1 to 64, 1 without it.
const RUNS: &str = "TXWEIR_LIVE_RUNS";

/// Returns the report of `txweir try` on the scenario, as JSON.
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

/// Scenarios that run in any case: each takes eight seconds of processor time.
const ALWAYS: usize = 3;
/// The environment variable that adds the others: `all`. [`RUNS`] adds them too.
const ROWS: &str = "TXWEIR_ROWS";

/// Returns the reason that the scenario of this number does not run, if there is one.
fn unavailable(number: usize, scenario: &Scenario) -> Option<String> {
    let all = std::env::var(ROWS).is_ok_and(|rows| rows == "all") || std::env::var_os(RUNS).is_some();
    if number >= ALWAYS && !all {
        return Some(format!("{ALWAYS} scenarios are enough for every day ({ROWS}=all adds it)"));
    }
    let name = scenario.congestion;
    traffic::tcp_with(name).err().map(|error| format!("this kernel has no {name}: {error}"))
}

/// A scenario and its results.
struct Case {
    scenario: &'static Scenario,
    tried: Value,
    /// Live runs of each policy for which the machine was in time.
    runs: Vec<Vec<LiveRun>>,
    /// The lateness of the machine in the other runs.
    too_late: Option<Lateness>,
}

impl Case {
    fn complete(&self) -> bool {
        self.runs.iter().all(|runs| !runs.is_empty())
    }

    /// Returns the pairs that came out the other way; none while a policy has no run.
    fn reversed(&self) -> Vec<String> {
        match self.complete() {
            true => compare::reversed(self.scenario, &compare::rows(self.scenario, &self.tried, &self.runs)),
            false => Vec::new(),
        }
    }

    /// Returns the policies that have to run: those without a run, or all of them if a pair came
    /// out the other way.
    fn wanted(&self) -> Vec<usize> {
        let again = !self.reversed().is_empty();
        (0..self.runs.len()).filter(|i| again || self.runs[*i].is_empty()).collect()
    }

    /// True if a pair that came out the other way has done so in more than one run of each policy.
    fn repeated(&self) -> bool {
        self.runs.iter().all(|runs| runs.len() > 1)
    }

    /// Returns the reason that there are not enough runs.
    fn why_not(&self) -> String {
        match self.too_late {
            Some(late) => format!("the machine was {late}"),
            None => format!("no time was left of {} s", BUDGET.as_secs()),
        }
    }

    /// Prints the table. Returns the pairs that came out the other way, if that is certain enough.
    fn judge(&self) -> Vec<String> {
        let (name, reversed) = (self.scenario.name, self.reversed());
        if self.complete() {
            let rows = compare::rows(self.scenario, &self.tried, &self.runs);
            print!("\n{}", compare::table(self.scenario, &rows));
            // One run is no proof.
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

/// Runs the jobs (case, policy), `at_once` at a time; it runs those that begin before the end of
/// the budget.
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
    let _alone = alone();
    let mut cases = Vec::new();
    for (number, scenario) in SCENARIOS.iter().enumerate() {
        match unavailable(number, scenario) {
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
