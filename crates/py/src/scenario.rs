//! `txweir.Scenario`: hosts, links, policies and traffic of a TOML file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyMapping, PyString};
use toml::Value;
use txweir_lab::passed::{PACKETS_MAX, PacketLog};
use txweir_lab::run::{Options, run_for_page};
use txweir_lab::scenario as lab;
use txweir_lab::sweep::changed;

use crate::error::{Wrong, guarded};
use crate::result::{Measured, Result};
use crate::watch::watched;

/// A network and its traffic, which has been checked. It does not change: `with_` returns another
/// one.
#[pyclass(frozen, module = "txweir")]
#[derive(Debug)]
pub struct Scenario {
    inner: lab::Scenario,
}

impl Scenario {
    fn read(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        let read = guarded(|| lab::Scenario::parse(text, name)).map_err(|e| e.raised(py))?;
        read.map(|inner| Self { inner }).map_err(|e| Wrong::from(&e).raised(py))
    }
}

/// Makes the exception of a whole number beyond the range of its key a refusal; others stay.
fn out_of_range(object: &str, key: &str, range: &str, given: &Bound<'_, PyAny>, e: PyErr) -> PyErr {
    match e.is_instance_of::<PyOverflowError>(given.py()) {
        true => Wrong::line(object, &format!("{key}: expected {range}, given {given}")).raised(given.py()),
        false => e,
    }
}

/// Returns a value of Python for the key of an object as TOML. A truth is a whole number to Python,
/// so it comes first.
fn value(object: &str, key: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        let range = "-9223372036854775808 to 9223372036854775807";
        let whole: PyResult<i64> = given.extract();
        return whole.map(Value::Integer).map_err(|e| out_of_range(object, key, range, given, e));
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::String(given.extract()?));
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("{key}: expected str, int, float or bool, given {kind}")))
}

#[pymethods]
impl Scenario {
    /// Reads a scenario from its text; `name` stands in errors.
    #[staticmethod]
    #[pyo3(signature = (text, name="scenario"))]
    fn from_text(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        Self::read(py, text, name)
    }

    /// Reads a scenario from a file.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&path)?;
        Self::read(py, &text, &path.display().to_string())
    }

    /// Returns the scenario with other values. A key is a place of the file: `seed`,
    /// `host.NAME.KEY`, `traffic.NAME.KEY`, `link.FROM.TO.KEY`, or the end of one if only one place
    /// has that end. Places of one word may be keywords.
    #[pyo3(signature = (changes=None, /, **keywords))]
    fn with_(
        &self,
        py: Python<'_>,
        changes: Option<&Bound<'_, PyMapping>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let name = self.inner.name();
        let changes = changes.map(|changes| changes.items()).transpose()?;
        let keywords = keywords.map(|keywords| keywords.items());
        let mut all: BTreeMap<String, Value> = BTreeMap::new();
        for pair in changes.iter().chain(&keywords).flat_map(|pairs| pairs.iter()) {
            let (key, given): (String, Bound<'_, PyAny>) = pair.extract()?;
            let given = value(name, &key, &given)?;
            if all.insert(key.clone(), given).is_some() {
                return Err(Wrong::line(name, &format!("{key}: given twice")).raised(py));
            }
        }
        let all: Vec<(&str, Value)> = all.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        let made = guarded(|| changed(self.inner.text(), name, &all)).map_err(|e| e.raised(py))?;
        made.map(|inner| Self { inner }).map_err(|e| Wrong::of_changes(name, &e).raised(py))
    }

    /// The text, TOML.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }
    /// The name, which stands in errors.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }
    /// The title, one line.
    #[getter]
    fn title(&self) -> &str {
        self.inner.title()
    }
    /// The seed that the file gives.
    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed()
    }
    /// The length of a run, warm-up included.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.inner.duration().0
    }

    /// Runs the scenario to its end, and returns its measurements. The same seed gives the same
    /// numbers; without one it is that of the file. With `packets` the result has a row for each
    /// packet that leaves a wire, of which there may be ten million.
    #[pyo3(signature = (*, seed=None, packets=false, progress=None))]
    #[pyo3(text_signature = "($self, *, seed=None, packets=False, progress=True)")]
    fn run(
        &self,
        py: Python<'_>,
        seed: Option<&Bound<'_, PyAny>>,
        packets: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Result> {
        let automatic = PyBool::new(py, true).to_owned().into_any();
        let name = self.inner.name();
        let whole = |given: &Bound<'_, PyAny>| -> PyResult<u64> {
            let range = "0 to 18446744073709551615";
            given.extract::<u64>().map_err(|e| out_of_range(name, "seed", range, given, e))
        };
        let seed = seed.map(whole).transpose()?;
        let measured = watched(py, progress.unwrap_or(&automatic), |watch, stop| {
            let log = packets.then(PacketLog::default);
            let options = Options { seed, stop, packets: log.clone(), ..Options::default() };
            let whole = self.inner.duration();
            let run = run_for_page(&self.inner, options, |now| watch.at(now, whole));
            if log.as_ref().is_some_and(PacketLog::is_full) {
                let said = format!("packets: expected at most {PACKETS_MAX} packets, given more");
                return Err(Wrong::line(name, &said));
            }
            let (report, page) = run.map_err(|e| Wrong::of_run(name, &e))?;
            Measured::of(&report, &page, log.as_ref())
        })?;
        Result::new(py, measured)
    }

    fn __repr__(&self) -> String {
        format!("<txweir.Scenario {}: {}>", self.inner.name(), self.inner.title())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let class = py.get_type::<Self>();
        Ok((class.getattr("from_text")?, (self.inner.text().into(), self.inner.name().into())))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner.text() == other.inner.text() && self.inner.name() == other.inner.name()
    }
}
