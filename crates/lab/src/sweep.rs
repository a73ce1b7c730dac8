//! Sweeps: one scenario with other values in places of its file, a run for each combination.
//!
//! An axis is a place and its values. The last axis changes fastest, so that the number of a run
//! says all of its values. Runs are independent: any part of them, in any order, on any machine,
//! gives the same results.

use std::ops::Range;

use serde_json::Value as Json;
use toml::{Table, Value};

use crate::report::{Report, told_apart};
use crate::scenario::{Scenario, ScenarioError};

/// Most runs of a sweep.
pub const RUNS_MAX: u64 = 10_000_000;
/// Most values of an axis.
pub const VALUES_MAX: usize = 100_000;
/// Most axes.
pub const AXES_MAX: usize = 16;

/// The reason that a sweep was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum SweepError {
    /// The words of an axis, or the number of runs.
    Axis(String),
    /// A scenario with some of the values.
    Scenario(Box<ScenarioError>),
}

fn refused<T>(message: String) -> Result<T, SweepError> {
    Err(SweepError::Axis(message))
}

/// A place of the file, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The place, as the user named it.
    pub key: String,
    /// The values, as the user wrote them.
    pub values: Vec<String>,
    /// The place for [`Scenario::parse_with`].
    path: String,
    /// The values as TOML.
    spelled: Vec<String>,
}

/// A scenario and its axes.
#[derive(Clone, Debug)]
pub struct Sweep {
    text: String,
    name: String,
    axes: Vec<Axis>,
}

/// A measurement of a run: a number of its report.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The part of the report: `traffic`, `links`, `queues`.
    pub section: String,
    /// The object: the name of the traffic, or the ends of a link (`router.server`). Traffic whose
    /// name stands several times has its ends too (`call.phone.server`).
    pub object: String,
    /// The number: its keys in the JSON of the report (`latency.p99_ns`).
    pub metric: String,
    /// Its value.
    pub value: f64,
}

impl Sweep {
    /// Reads the text of a scenario called `name`, and its axes: `KEY=VALUE,VALUE`, `KEY=1..50` for
    /// all whole numbers from the first to the last, `KEY=@FILE,@FILE` for the texts of files,
    /// which `read` reads. A key that comes twice has the values of both.
    ///
    /// `KEY` is a place of the file: `seed`, `host.NAME.KEY`, `traffic.NAME.KEY`,
    /// `link.FROM.TO.KEY`; or its end, if one place of the file has that end. Each value is tried
    /// once, with the first values of the other axes.
    ///
    /// # Errors
    /// An axis names no place or several, has no value or too many; a value is none for its place;
    /// the runs are more than [`RUNS_MAX`].
    pub fn new(
        text: &str,
        name: &str,
        over: &[impl AsRef<str>],
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, SweepError> {
        let scenario = |e| SweepError::Scenario(Box::new(e));
        Scenario::parse(text, name).map_err(scenario)?;
        // The scenario is one, so its text is a table.
        let table: Table = text.parse().unwrap_or_default();
        let mut sweep = Self { text: text.into(), name: name.into(), axes: Vec::new() };
        for words in over {
            sweep.add(words.as_ref(), &table, read)?;
        }
        let runs = sweep.axes.iter().try_fold(1u64, |n, axis| n.checked_mul(axis.values.len() as u64));
        let Some(runs) = runs.filter(|n| *n <= RUNS_MAX) else {
            return refused(format!("--over: expected at most {RUNS_MAX} runs in all, given more"));
        };
        let mut stride = runs;
        for axis in &sweep.axes {
            let count = axis.values.len() as u64;
            stride /= count;
            for at in 0..count {
                sweep.scenario(at * stride).map_err(scenario)?;
            }
        }
        Ok(sweep)
    }

    fn add(
        &mut self,
        words: &str,
        table: &Table,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SweepError> {
        let Some((key, list)) = words.split_once('=') else {
            return refused(format!("--over: expected KEY=VALUE,VALUE, given {words}"));
        };
        let (path, there) = place(table, key.trim())?;
        let (mut values, mut spelled) = (Vec::new(), Vec::new());
        for word in list.split(',').map(str::trim) {
            let numbers = range(word).filter(|_| !matches!(there, Some(Value::String(_))));
            let (count, texts): (u64, Box<dyn Iterator<Item = String>>) = match numbers {
                Some(numbers) => {
                    (numbers.end.abs_diff(numbers.start), Box::new(numbers.map(|n| n.to_string())))
                }
                None => (1, Box::new([word.to_owned()].into_iter())),
            };
            if count > (VALUES_MAX - values.len()) as u64 {
                return refused(format!("--over {key}: expected at most {VALUES_MAX} values, given more"));
            }
            for text in texts {
                let content = match text.strip_prefix('@') {
                    Some(file) => Value::String(read(file).map_err(SweepError::Axis)?),
                    None => {
                        value(&text, there).ok_or_else(|| SweepError::Axis(expected(key, &text, there)))?
                    }
                };
                spelled.push(content.to_string());
                values.push(text);
            }
        }
        let axes = self.axes.len();
        match self.axes.iter_mut().find(|axis| axis.path == path) {
            Some(axis) if axis.values.len() + values.len() > VALUES_MAX => {
                return refused(format!("--over {key}: expected at most {VALUES_MAX} values, given more"));
            }
            Some(axis) => {
                axis.values.extend(values);
                axis.spelled.extend(spelled);
            }
            None if axes == AXES_MAX => {
                return refused(format!("--over: expected at most {AXES_MAX} places, given more"));
            }
            None => self.axes.push(Axis { key: key.trim().into(), values, path, spelled }),
        }
        Ok(())
    }

    /// Returns the axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the number of runs: 1 without an axis.
    pub fn runs(&self) -> u64 {
        self.axes.iter().map(|axis| axis.values.len() as u64).product()
    }

    /// Returns the place of the value of a run in an axis.
    fn place(&self, run: u64, axis: usize) -> usize {
        let counts = |axes: &[Axis]| -> u64 { axes.iter().map(|axis| axis.values.len() as u64).product() };
        let at = run / counts(&self.axes[axis + 1..]) % self.axes[axis].values.len() as u64;
        usize::try_from(at).unwrap_or(0) // below the number of values
    }

    /// True if some run may have a host with `stack = "linux"`.
    pub fn has_kernels(&self) -> bool {
        let linux = Value::String("linux".to_owned());
        let table: Table = self.text.parse().unwrap_or_default();
        let hosts = table.get("host").and_then(Value::as_array).into_iter().flatten();
        let by_axis = |axis: &Axis| {
            axis.path.ends_with(".stack") && axis.spelled.iter().any(|value| *value == linux.to_string())
        };
        hosts.into_iter().any(|host| host.get("stack") == Some(&linux)) || self.axes.iter().any(by_axis)
    }

    /// Returns the value of a run for an axis, counted from 0.
    ///
    /// # Panics
    /// There is no such axis.
    pub fn value(&self, run: u64, axis: usize) -> &str {
        &self.axes[axis].values[self.place(run, axis)]
    }

    /// Returns the values of a run, one of each axis.
    pub fn values(&self, run: u64) -> Vec<&str> {
        (0..self.axes.len()).map(|axis| self.value(run, axis)).collect()
    }

    /// Returns the scenario of a run.
    ///
    /// # Errors
    /// The values of the run do not go together.
    pub fn scenario(&self, run: u64) -> Result<Scenario, ScenarioError> {
        let set: Vec<(&str, &str)> = (self.axes.iter().enumerate())
            .map(|(n, axis)| (axis.path.as_str(), axis.spelled[self.place(run, n)].as_str()))
            .collect();
        Scenario::parse_with(&self.text, &self.name, &set)
    }

    /// Returns all that decides the results: the scenario, the places and their values.
    pub fn identity(&self) -> Json {
        let axes: Vec<Json> =
            self.axes.iter().map(|axis| serde_json::json!([axis.path, axis.key, axis.spelled])).collect();
        serde_json::json!({ "scenario": self.text, "over": axes })
    }
}

/// Returns a scenario with these values in these places. A key is that of [`Sweep::new`]; a value
/// has the type of the one that is there, and a whole number may stand for a number.
///
/// # Errors
/// A key names no place or several, a value is none for its place, or the values do not go
/// together.
pub fn changed(text: &str, name: &str, changes: &[(&str, Value)]) -> Result<Scenario, SweepError> {
    let scenario = |e| SweepError::Scenario(Box::new(e));
    Scenario::parse(text, name).map_err(scenario)?;
    let table: Table = text.parse().unwrap_or_default(); // The scenario is one.
    // No option of a command is at fault here.
    let plain = |e| match e {
        SweepError::Axis(said) => SweepError::Axis(
            said.strip_prefix("--over").unwrap_or(&said).trim_start_matches([':', ' ']).into(),
        ),
        e => e,
    };
    let mut set = Vec::new();
    for (key, given) in changes {
        let (path, there) = place(&table, key).map_err(plain)?;
        let value = match (there, given) {
            (Some(Value::Float(_)), Value::Integer(whole)) => Value::Float(*whole as f64),
            (Some(there), given) if !given.same_type(there) => {
                return Err(plain(SweepError::Axis(expected(key, &given.to_string(), Some(there)))));
            }
            _ => given.clone(),
        };
        set.push((path, value.to_string()));
    }
    let set: Vec<(&str, &str)> = set.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
    Scenario::parse_with(text, name, &set).map_err(scenario)
}

/// Returns the numbers of `1..50`.
fn range(word: &str) -> Option<Range<i64>> {
    let (first, last) = word.split_once("..")?;
    let (first, last) = (first.parse().ok()?, last.parse::<i64>().ok()?.checked_add(1)?);
    (first < last).then_some(first..last)
}

/// Returns a word as a value of the type of the one that is there. Without one it is TOML, or text.
fn value(word: &str, there: Option<&Value>) -> Option<Value> {
    let toml = || format!("v = {word}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    match there {
        Some(Value::String(_)) => Some(Value::String(word.into())),
        Some(there) => toml().filter(|value| value.same_type(there)),
        None => Some(toml().unwrap_or_else(|| Value::String(word.into()))),
    }
}

fn expected(key: &str, word: &str, there: Option<&Value>) -> String {
    format!("--over {key}: expected a value of type {}, given {word}", there.map_or("text", Value::type_str))
}

/// Returns the place of a key, and the value that the file has there.
fn place<'a>(table: &'a Table, key: &str) -> Result<(String, Option<&'a Value>), SweepError> {
    let tables = tables(table);
    let (front, last) = key.rsplit_once('.').unwrap_or(("", key));
    let named: Vec<_> = tables.iter().filter(|one| one.name == front).collect();
    match named[..] {
        _ if last.is_empty() => return refused(format!("--over: expected KEY=VALUE,VALUE, given {key}=")),
        [one] if !front.is_empty() || one.has(last) || last == "seed" => {
            return Ok((one.path(last), one.table.get(last)));
        }
        [_, _, ..] => {
            return refused(format!("--over {key}: expected one place, given {} of this name", named.len()));
        }
        _ => {}
    }
    let ends: Vec<(String, _)> = (tables.iter())
        .flat_map(|one| {
            one.table.iter().filter(|(_, v)| !v.is_table() && !is_list(v)).map(move |(k, v)| (one, k, v))
        })
        .filter(|(one, k, _)| one.full(k).strip_suffix(key).is_some_and(|front| front.ends_with('.')))
        .map(|(one, k, v)| (one.full(k), (one.path(k), v)))
        .collect();
    match &ends[..] {
        [(_, (path, value))] => Ok((path.clone(), Some(value))),
        [] => {
            let names: Vec<&str> =
                tables.iter().map(|one| one.name.as_str()).filter(|n| !n.is_empty()).collect();
            refused(format!(
                "--over {key}: the file has no such place: expected seed, or a key of {}",
                names.join(", ")
            ))
        }
        many => {
            let names: Vec<&str> = many.iter().map(|(name, _)| name.as_str()).collect();
            refused(format!("--over {key}: expected one place, given {}", names.join(", ")))
        }
    }
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(Value::is_table))
}

/// A table of the file: its name for users, and its path.
struct Named<'a> {
    name: String,
    at: String,
    table: &'a Table,
}

impl Named<'_> {
    fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| !is_list(value))
    }

    fn path(&self, key: &str) -> String {
        if self.at.is_empty() { key.into() } else { format!("{}.{key}", self.at) }
    }

    fn full(&self, key: &str) -> String {
        if self.name.is_empty() { key.into() } else { format!("{}.{key}", self.name) }
    }
}

/// Returns the tables of a file: itself, and those of its lists.
fn tables(file: &Table) -> Vec<Named<'_>> {
    let mut all = vec![Named { name: String::new(), at: String::new(), table: file }];
    for (section, value) in file {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        let list: Vec<_> =
            list.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_table()?))).collect();
        let names: Vec<_> = list
            .iter()
            .map(|(at, table)| {
                let word = |key: &str| table.get(key).and_then(Value::as_str);
                match (word("name"), word("from"), word("to")) {
                    (None, None, None) => [at.to_string(), at.to_string()],
                    (name, from, to) => named(name, from, to),
                }
            })
            .collect();
        for ((at, table), name) in list.into_iter().zip(told_apart(&names)) {
            all.push(Named { name: format!("{section}.{name}"), at: format!("{section}.{at}"), table });
        }
    }
    all
}

/// Returns the name of an object, and the one with its ends; without a name both are the ends.
fn named(name: Option<&str>, from: Option<&str>, to: Option<&str>) -> [String; 2] {
    let whole: Vec<&str> = [name, from, to].into_iter().flatten().collect();
    let whole = whole.join(".");
    [name.map_or_else(|| whole.clone(), String::from), whole]
}

/// Returns the numbers of a report, in its order.
pub fn measurements(report: &Report) -> Vec<Measured> {
    let mut all = Vec::new();
    let report = serde_json::to_value(report).unwrap_or_default();
    for section in ["traffic", "links", "queues"] {
        let list = report.get(section).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let word = |one: &Json, key: &str| one.get(key).and_then(Json::as_str).map(String::from);
        let names: Vec<_> = (list.iter())
            .map(|one| {
                let [name, from, to] = ["name", "from", "to"].map(|key| word(one, key));
                named(name.as_deref(), from.as_deref(), to.as_deref())
            })
            .collect();
        for (one, object) in list.iter().zip(told_apart(&names)) {
            numbers(one, String::new(), &mut |metric, value| {
                all.push(Measured { section: section.into(), object: object.clone(), metric, value });
            });
        }
    }
    all
}

/// Visits the numbers of a value, each with its keys. Bound: the depth of a report.
fn numbers(value: &Json, key: String, f: &mut dyn FnMut(String, f64)) {
    let below = |word: &str| if key.is_empty() { word.to_owned() } else { format!("{key}.{word}") };
    match value {
        Json::Number(number) => f(key, number.as_f64().unwrap_or(f64::NAN)),
        Json::Object(map) => map.iter().for_each(|(word, value)| numbers(value, below(word), f)),
        Json::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| numbers(value, below(&at.to_string()), f));
        }
        _ => {}
    }
}
