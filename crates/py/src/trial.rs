//! `txweir.try_`: policies side by side on the same traffic, in virtual time.

use std::collections::BTreeMap;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use txweir_core::text::value::{Value, with_unit};
use txweir_core::{Env, Nanos, Rate};
use txweir_lab::trial::{
    self as lab, ALGORITHMS, Algorithm, Better, DEFAULT, DISTRO, Entry, MIXES, Marking, PolicyTrial,
    Resources, Setup, Traffic, distro, run_with,
};
use txweir_lint::script::{self, NoPolicy};
use txweir_tc::Policy;

use crate::error::{Wrong, guarded};
use crate::series::{Series, Side};
use crate::table::{Table, Values};
use crate::watch::watched;

/// The bottleneck among the objects of the tables.
const BOTTLENECK: &str = "bottleneck";

/// The options of a trial, in words, with the names that `txweir try` gives them.
struct Words {
    link: String,
    down: Option<String>,
    queues: u16,
    ring: u32,
    bql: bool,
    rtt: String,
    /// The name of a mix or of a file, and the bytes of the file.
    traffic: (String, Option<Vec<u8>>),
    ipv6: bool,
    dscp: Vec<String>,
    mark: Vec<String>,
    time: String,
    runs: u32,
    seed: u64,
    cc: String,
    ecn: bool,
}

/// Returns an option, which Python may give as a value of any type.
fn option<'py, T: FromPyObjectOwned<'py>>(
    words: &Bound<'py, PyDict>,
    key: &str,
    expected: &str,
) -> PyResult<T> {
    let given = words.get_item(key)?.unwrap_or_else(|| words.py().None().into_bound(words.py()));
    given.extract().map_err(|_| {
        let said = given.repr().map_or_else(|_| "something else".into(), |said| said.to_string());
        wrong(&format!("{key}: expected {expected}, given {said}")).raised(words.py())
    })
}

impl Words {
    fn read(words: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (rate, time) = ("a rate with its unit (\"20mbit\")", "a time with its unit (\"20ms\")");
        let flag = "True or False";
        Ok(Self {
            link: option(words, "link", rate)?,
            down: option(words, "down", rate)?,
            queues: option(words, "queues", "a number of queues, 1 to 256")?,
            ring: option(words, "ring", "a number of descriptors, 1 to 1048576")?,
            bql: option(words, "bql", flag)?,
            rtt: option(words, "rtt", time)?,
            traffic: option(words, "traffic", "the name of a mix, or the path of a file")?,
            ipv6: option(words, "ipv6", flag)?,
            dscp: option(words, "dscp", "a code point")?,
            mark: option(words, "mark", "a mark")?,
            time: option(words, "time", time)?,
            runs: option(words, "runs", "a number of runs, 1 to 64")?,
            seed: option(words, "seed", "a whole number, 0 to 18446744073709551615")?,
            cc: option(words, "cc", "the name of a congestion control")?,
            ecn: option(words, "ecn", flag)?,
        })
    }
}

fn wrong(line: &str) -> Wrong {
    Wrong::line("try_", line)
}

/// Reads a value with its unit.
fn value<T: Value>(option: &str, text: &str, expected: &str) -> Result<T, Wrong> {
    with_unit(text).map_err(|_| wrong(&format!("{option}: expected {expected}, given \"{text}\"")))
}

impl Words {
    fn setup(&self) -> Result<Setup, Wrong> {
        let rate =
            |option: &str, text: &str| value::<Rate>(option, text, "a rate with its unit (20mbit, 1gbit)");
        let time = |option: &str, text: &str| value::<Nanos>(option, text, "a time with its unit (20ms)");
        let congestion = Algorithm::named(&self.cc).ok_or_else(|| {
            let names: Vec<&str> = ALGORITHMS.iter().map(|a| a.name).collect();
            wrong(&format!("cc: expected one of {}, given \"{}\"", names.join(", "), self.cc))
        })?;
        let setup = Setup {
            link: rate("link", &self.link)?,
            down: self.down.as_ref().map(|down| rate("down", down)).transpose()?,
            queues: self.queues,
            ring: self.ring,
            rtt: time("rtt", &self.rtt)?,
            time: time("time", &self.time)?,
            seed: self.seed,
            runs: self.runs,
            bql: self.bql,
            congestion,
            ecn: self.ecn,
        };
        setup.check().map_err(|e| wrong(&e))?;
        Ok(setup)
    }

    fn traffic(&self, setup: &Setup) -> Result<Traffic, Wrong> {
        let mut traffic = match &self.traffic {
            (name, Some(bytes)) => {
                Traffic::file(bytes, name, setup.time, setup.seed).map_err(|e| Wrong::of_traffic(&e))?
            }
            (name, None) => {
                let mix = if setup.down.is_some() { Traffic::mix_both(name) } else { Traffic::mix(name) };
                mix.ok_or_else(|| {
                    let names: Vec<&str> = MIXES.iter().map(|m| m.name).collect();
                    let names = names.join(", ");
                    wrong(&format!("traffic: expected one of {names}, or a path, given \"{name}\""))
                })?
            }
        };
        if self.ipv6 {
            traffic = traffic.over_ipv6().map_err(|e| wrong(&format!("ipv6: {e}")))?;
        }
        for text in &self.dscp {
            let said = Marking::dscp(text).and_then(|(group, dscp)| traffic.marked(group, dscp));
            traffic = said.map_err(|e| wrong(&format!("dscp: {e}")))?;
        }
        for text in &self.mark {
            let said = Marking::mark(text).and_then(|(group, mark)| traffic.marked(group, mark));
            traffic = said.map_err(|e| wrong(&format!("mark: {e}")))?;
        }
        Ok(traffic)
    }
}

/// Reads a policy: a word for a default, tc lines, or a script whose lines need no run.
fn policy(name: &str, text: &str, queues: u16) -> Result<Option<Policy>, Wrong> {
    if text == DEFAULT {
        return Ok(None);
    }
    let lines = if text == DISTRO { distro(queues) } else { text.to_owned() };
    let read = script::policy(name, &lines).map_err(|e| match e {
        // A name of a file is a likely mistake for its text.
        NoPolicy::Wrong(_) if !lines.trim().contains(char::is_whitespace) => wrong(&format!(
            "policy: expected {DEFAULT}, {DISTRO}, tc lines, or a pathlib.Path of a file of tc lines, \
             given \"{lines}\""
        )),
        NoPolicy::Wrong(all) => Wrong::from(&all),
        NoPolicy::NeedsRun(said) => Wrong::line(name, &format!("{said}: `txweir try --run` runs it")),
    })?;
    let env = Env { queues, ..Env::default() };
    Ok(Some(read.without_vain_deletions(u32::from(queues), &env)))
}

/// Runs a trial of policies, each a name and a text.
#[pyfunction]
pub fn trial(
    py: Python<'_>,
    policies: Vec<(String, String)>,
    words: &Bound<'_, PyDict>,
    progress: &Bound<'_, PyAny>,
) -> PyResult<Trial> {
    let words = Words::read(words)?;
    // A capture may have millions of packets: other threads of Python go on while it is read.
    let parts = py.detach(|| {
        guarded(|| {
            let setup = words.setup()?;
            let read = |(name, text): &(String, String)| {
                Ok(Entry { name: name.clone(), policy: policy(name, text, setup.queues)? })
            };
            let entries = policies.iter().map(read).collect::<Result<Vec<Entry>, Wrong>>()?;
            Ok((words.traffic(&setup)?, setup, entries))
        })
    });
    let (traffic, setup, entries) = parts.and_then(|parts| parts).map_err(|e| e.raised(py))?;
    let (trial, tables) = watched(py, progress, |watch, stop| {
        let resources = Resources { stop, ..Resources::default() };
        let mut told = |now: Nanos, whole: Nanos| watch.at(now, whole);
        let trial =
            run_with(&resources, &setup, &traffic, &entries, &mut told).map_err(|e| Wrong::of_trial(&e))?;
        let tables = Tables::of(&trial)?;
        Ok((trial, tables))
    })?;
    Trial::new(py, &trial, tables)
}

/// The tables of a trial, before Python has them.
struct Tables {
    measures: Table,
    runs: Table,
    series: Series,
}

impl Tables {
    fn of(trial: &lab::Trial) -> Result<Self, Wrong> {
        let policies = &trial.policies;
        let each: Vec<Series> =
            policies.iter().map(|policy| series(policy, trial.step_ns)).collect::<Result<_, _>>()?;
        let names = Values::Text(policies.iter().map(|policy| Some(policy.name.clone())).collect()).array();
        let stacked = |of: fn(&Series) -> &Table| {
            let tables: Vec<&Table> = each.iter().map(of).collect();
            Table::stacked(&tables, &[("policy".to_owned(), names.clone())])
        };
        let series = Series {
            samples: stacked(|s| &s.samples)?,
            flows: stacked(|s| &s.flows)?,
            latency: stacked(|s| &s.latency)?,
            stages: stacked(|s| &s.stages)?,
            classes: stacked(|s| &s.classes)?,
        };
        Ok(Self { measures: measures(policies)?, runs: runs(policies, trial.seed)?, series })
    }
}

fn series(policy: &PolicyTrial, step_ns: u64) -> Result<Series, Wrong> {
    let groups: Vec<(&str, _)> = policy.groups.iter().map(|group| (group.name.as_str(), group)).collect();
    let bottleneck = Side {
        name: BOTTLENECK,
        classes: &policy.classes,
        device: Some(&policy.device),
        stages: &policy.stages,
    };
    let ifbs = policy.ifbs.iter().map(|ifb| Side {
        name: &ifb.device,
        classes: &ifb.classes,
        device: None,
        stages: &ifb.stages,
    });
    let sides: Vec<Side<'_>> = [bottleneck].into_iter().chain(ifbs).collect();
    Series::new(&groups, &sides, step_ns)
}

/// Returns a word of an enumeration, as JSON has it.
fn word(of: &impl serde::Serialize) -> Option<String> {
    Some(serde_json::to_value(of).ok()?.as_str()?.to_owned())
}

fn measures(policies: &[PolicyTrial]) -> Result<Table, Wrong> {
    let all: Vec<_> = policies
        .iter()
        .flat_map(|policy| policy.measures.iter().map(|m| (policy.name.as_str(), m)))
        .collect();
    let text = |of: &dyn Fn(&str, &lab::Measure) -> Option<String>| {
        Values::Text(all.iter().map(|(policy, m)| of(policy, m)).collect())
    };
    let number =
        |of: fn(&lab::Measure) -> Option<f64>| Values::Number(all.iter().map(|(_, m)| of(m)).collect());
    Table::new(vec![
        ("policy", text(&|policy, _| Some(policy.into()))),
        ("section", text(&|_, m| Some(section(m).into()))),
        ("object", text(&|_, m| Some(object(m).into()))),
        ("measure", text(&|_, m| Some(m.measure.into()))),
        ("label", text(&|_, m| Some(m.label.into()))),
        ("unit", text(&|_, m| word(&m.unit))),
        ("better", text(&|_, m| (m.better != Better::Neither).then(|| word(&m.better)).flatten())),
        ("median", number(|m| m.median)),
        ("low", number(|m| m.low)),
        ("high", number(|m| m.high)),
        ("mark", text(&|_, m| m.mark.as_ref().and_then(word))),
    ])
}

fn section(measure: &lab::Measure) -> &'static str {
    if measure.group.is_some() { "traffic" } else { "links" }
}

fn object(measure: &lab::Measure) -> &str {
    measure.group.as_deref().unwrap_or(BOTTLENECK)
}

/// Makes the table of the single runs.
fn runs(policies: &[PolicyTrial], first: u64) -> Result<Table, Wrong> {
    let mut columns: [Vec<Option<String>>; 4] = Default::default();
    let (mut seeds, mut values) = (Vec::new(), Vec::new());
    for policy in policies {
        for measure in &policy.measures {
            for (run, value) in (0..).zip(&measure.runs) {
                let words = [&policy.name, section(measure), object(measure), measure.measure];
                columns.iter_mut().zip(words).for_each(|(column, word)| column.push(Some(word.to_owned())));
                seeds.push(i64::try_from(first.wrapping_add(run)).ok());
                values.push(*value);
            }
        }
    }
    let [policy, section, object, measure] = columns.map(Values::Text);
    Table::new(vec![
        ("policy", policy),
        ("section", section),
        ("object", object),
        ("measure", measure),
        ("seed", Values::Whole(seeds)),
        ("value", Values::Number(values)),
    ])
}

/// Words of a trial: the verdict, the closeness to Linux, the names of the policies, the text and
/// the JSON.
type Said = (Vec<String>, Option<String>, Vec<String>, String, String);

/// Makes a trial of its parts, for `pickle`.
#[pyfunction]
pub fn trial_of(title: String, words: Said, mut tables: BTreeMap<String, Py<Table>>) -> PyResult<Trial> {
    let (verdict, fidelity, policies, text, json) = words;
    let mut table =
        |name: &str| tables.remove(name).ok_or_else(|| PyKeyError::new_err(format!("no table {name}")));
    Ok(Trial {
        title,
        verdict,
        fidelity,
        policies,
        measures: table("measures")?,
        runs: table("runs")?,
        samples: table("samples")?,
        flows: table("flows")?,
        latency: table("latency")?,
        stages: table("stages")?,
        classes: table("classes")?,
        text,
        json,
    })
}

/// Policies side by side on the same traffic. `measures` and `runs` cover all runs of a policy; the
/// other tables cover its run of median goodput.
#[pyclass(frozen, module = "txweir")]
#[derive(Debug)]
pub struct Trial {
    /// One line: traffic, link, round trip.
    #[pyo3(get)]
    title: String,
    /// The result in sentences.
    #[pyo3(get)]
    verdict: Vec<String>,
    /// The known closeness of the lab's TCP to Linux's here; nothing for traffic without TCP.
    #[pyo3(get)]
    fidelity: Option<String>,
    /// The names of the policies; the first is what the others are compared with.
    #[pyo3(get)]
    policies: Vec<String>,
    /// The median of each number of each policy, and its interval.
    #[pyo3(get)]
    measures: Py<Table>,
    /// The number of each single run.
    #[pyo3(get)]
    runs: Py<Table>,
    /// Quantities over time: in each hundredth of the run, from its begin at `time_ns` on.
    #[pyo3(get)]
    samples: Py<Table>,
    /// Throughput of the first 16 flows of each group of streams over time.
    #[pyo3(get)]
    flows: Py<Table>,
    /// Latency of each group of traffic at each whole percent.
    #[pyo3(get)]
    latency: Py<Table>,
    /// Time of packets in the stages of the bottleneck.
    #[pyo3(get)]
    stages: Py<Table>,
    /// Qdiscs and classes at the bottleneck.
    #[pyo3(get)]
    classes: Py<Table>,
    /// The text that `txweir try` prints.
    text: String,
    /// The same as JSON.
    json: String,
}

impl Trial {
    fn new(py: Python<'_>, trial: &lab::Trial, tables: Tables) -> PyResult<Self> {
        let own = |table: Table| Py::new(py, table);
        let Tables { measures, runs, series } = tables;
        Ok(Self {
            title: trial.title.clone(),
            verdict: trial.verdict.clone(),
            fidelity: trial.fidelity.as_ref().map(ToString::to_string),
            policies: trial.policies.iter().map(|policy| policy.name.clone()).collect(),
            measures: own(measures)?,
            runs: own(runs)?,
            samples: own(series.samples)?,
            flows: own(series.flows)?,
            latency: own(series.latency)?,
            stages: own(series.stages)?,
            classes: own(series.classes)?,
            text: trial.to_string(),
            json: trial.to_json(),
        })
    }
}

#[pymethods]
impl Trial {
    /// The median of one number: of a policy, an object (a group of traffic, or `bottleneck`) and a
    /// measure, as `measures` names them.
    fn value(&self, policy: &str, object: &str, measure: &str, py: Python<'_>) -> PyResult<f64> {
        let keys = [("policy", policy), ("object", object), ("measure", measure)];
        self.measures.get().one(&keys, "median").map_err(|e| e.raised(py))
    }

    /// The trial as JSON.
    fn to_json(&self) -> &str {
        &self.json
    }

    /// A page with charts, which needs no other file.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| lab::html(&self.json)).map_err(|e| e.raised(py))
    }

    /// The trial as `txweir try` prints it.
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<txweir.Trial of {}: {}>", self.policies.join(", "), self.title)
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", lab::html::escaped(&self.text))
    }

    #[allow(clippy::type_complexity, reason = "the form that pickle asks for")]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (String, Said, BTreeMap<&'static str, Py<Table>>))> {
        let tables = [
            ("measures", &self.measures),
            ("runs", &self.runs),
            ("samples", &self.samples),
            ("flows", &self.flows),
            ("latency", &self.latency),
            ("stages", &self.stages),
            ("classes", &self.classes),
        ];
        let tables = tables.into_iter().map(|(name, table)| (name, table.clone_ref(py))).collect();
        let words = (
            self.verdict.clone(),
            self.fidelity.clone(),
            self.policies.clone(),
            self.text.clone(),
            self.json.clone(),
        );
        let made = py.import("txweir._native")?.getattr("trial_of")?;
        Ok((made, (self.title.clone(), words, tables)))
    }
}
