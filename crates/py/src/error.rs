//! Errors as `txweir.Error`: the object, the key, the expected and the given value.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use txweir_lab::run::RunError;
use txweir_lab::scenario::ScenarioError;
use txweir_lab::sweep::SweepError;
use txweir_lab::trial::{TrafficError, TrialError};
use txweir_tc::{Diagnostic, Diagnostics};

use crate::finding::finding;

/// A refusal, before it is an exception.
#[derive(Debug, Default)]
pub struct Wrong {
    /// The whole text.
    message: String,
    object: Option<String>,
    key: Option<String>,
    expected: Option<String>,
    given: Option<String>,
    places: Vec<Diagnostic>,
}

impl Wrong {
    /// Reads a line like `link: expected at least 8bit, given 3bit` about an object.
    pub fn line(object: &str, line: &str) -> Self {
        let (key, rest) = match line.split_once(": expected ") {
            Some((key, rest)) => (Some(key), Some(rest)),
            None => (None, line.strip_prefix("expected ")),
        };
        let (expected, given) = match rest.and_then(|rest| rest.rsplit_once(", given ")) {
            Some((expected, given)) => (Some(expected), Some(given.trim_matches('"'))),
            None => (rest, None),
        };
        Self {
            message: format!("{object}: {line}"),
            object: Some(object.into()),
            key: key.map(Into::into),
            expected: expected.map(Into::into),
            given: given.map(Into::into),
            places: Vec::new(),
        }
    }

    /// Returns the exception.
    pub fn raised(self, py: Python<'_>) -> PyErr {
        let made = || -> PyResult<PyErr> {
            let details = PyDict::new(py);
            details.set_item("object", self.object)?;
            details.set_item("key", self.key)?;
            details.set_item("expected", self.expected)?;
            details.set_item("given", self.given)?;
            let findings = self.places.iter().map(|d| finding(py, d)).collect::<PyResult<Vec<_>>>()?;
            details.set_item("findings", findings)?;
            let class = py.import("txweir._error")?.getattr("Error")?;
            Ok(PyErr::from_value(class.call((self.message,), Some(&details))?))
        };
        made().unwrap_or_else(|e| e)
    }
}

impl From<&Diagnostic> for Wrong {
    fn from(d: &Diagnostic) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let said = Self::line(&d.source.name, &d.message);
        Self {
            message: d.to_string(),
            expected: some(&d.expected).or(said.expected),
            given: said.given.clone().or(some(&d.given)),
            places: vec![d.clone()],
            ..said
        }
    }
}

impl From<&Diagnostics> for Wrong {
    fn from(all: &Diagnostics) -> Self {
        let places = all.iter().cloned().collect();
        Self { message: all.to_string().trim_end().into(), places, ..Self::from(all.first()) }
    }
}

impl From<&ScenarioError> for Wrong {
    fn from(e: &ScenarioError) -> Self {
        Self::from(&e.diagnostic())
    }
}

impl Wrong {
    /// Returns the reason that a run has no report.
    pub fn of_run(object: &str, e: &RunError) -> Self {
        match e {
            RunError::Scenario(e) => Self::from(&**e),
            e => Self::line(object, &e.to_string()),
        }
    }

    /// Returns the reason that there is no trial.
    pub fn of_trial(e: &TrialError) -> Self {
        match e {
            TrialError::Policy(d) => Self::from(&**d),
            e => Self::line("try_", &e.to_string()),
        }
    }

    /// Returns the refusal of a file of traffic.
    pub fn of_traffic(e: &TrafficError) -> Self {
        match e {
            TrafficError::Scenario(e) => Self::from(&**e),
            TrafficError::Capture(e) => Self::line("try_", &format!("traffic: {e}")),
        }
    }

    /// Returns the refusal of changes of a scenario.
    pub fn of_changes(object: &str, e: &SweepError) -> Self {
        match e {
            SweepError::Axis(line) => Self::line(object, line),
            SweepError::Scenario(e) => Self::from(&**e),
        }
    }
}

/// Does work that has no part in Python, and makes a panic in it an error: no panic crosses the
/// border. A fault is one of txweir, and the text says so.
pub fn guarded<T>(work: impl FnOnce() -> T) -> std::result::Result<T, Wrong> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Wrong {
        message: format!("a fault in txweir, which is not yours: {}", said(&*panic)),
        ..Wrong::default()
    })
}

/// Returns the text of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("no reason is known")
}
