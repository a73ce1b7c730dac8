//! `txweir.check`: the likely mistakes of a policy, and the longest waits of packets in it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use txweir_core::text::value::with_unit;
use txweir_core::{Nanos, Rate};
use txweir_lint::check::{self as lint, CheckOptions, Fact};
use txweir_lint::code;
use txweir_tc::Diagnostic;
use txweir_tc::suggest::closest;

use crate::error::{Wrong, guarded};
use crate::finding::finding;

/// Makes the object of a fact, a `txweir.Wait`.
fn wait<'py>(py: Python<'py>, fact: &Fact) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("device", &fact.dev)?;
    fields.set_item("leaf", &fact.place)?;
    fields.set_item("kind", &fact.kind)?;
    fields.set_item("holds", &fact.holds)?;
    fields.set_item("rate_bit_s", fact.rate.map(|rate| rate.bits()))?;
    fields.set_item("bound_ns", fact.bound.map(|Nanos(ns)| ns))?;
    fields.set_item("target_ns", fact.target.map(|Nanos(ns)| ns))?;
    fields.set_item("because", &fact.because)?;
    fields.set_item("text", fact.text())?;
    py.import("txweir._findings")?.getattr("Wait")?.call((), Some(&fields))
}

/// The rates of links: one for all devices, or one for each.
#[derive(Debug, FromPyObject)]
pub enum Links {
    /// Of every device.
    One(String),
    /// Of devices by their names.
    Each(ByName),
}

/// Rates by the names of their devices: any mapping of Python.
#[derive(Debug)]
pub struct ByName(BTreeMap<String, String>);

impl<'a, 'py> FromPyObject<'a, 'py> for ByName {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let pairs = given.cast::<PyMapping>()?.items()?;
        let mut all = BTreeMap::new();
        for pair in pairs.iter() {
            let (device, rate): (String, String) = pair.extract()?;
            all.insert(device, rate);
        }
        Ok(Self(all))
    }
}

/// A whole number of Python, or its text if 32 bits have no such number.
#[derive(Debug)]
pub struct Whole(Result<u32, String>);

impl<'a, 'py> FromPyObject<'a, 'py> for Whole {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let number: PyResult<u32> = given.extract();
        match number {
            Ok(number) => Ok(Self(Ok(number))),
            Err(e) if e.is_instance_of::<PyOverflowError>(given.py()) => Ok(Self(Err(given.to_string()))),
            Err(e) => Err(e),
        }
    }
}

impl Whole {
    /// Returns the number, or the refusal of one beyond the range of its key, whose unit comes with
    /// its blank.
    fn within(self, key: &str, range: RangeInclusive<u32>, unit: &str) -> Result<u32, Wrong> {
        let given = match self.0 {
            Ok(number) if range.contains(&number) => return Ok(number),
            Ok(number) => number.to_string(),
            Err(given) => given,
        };
        let (least, most) = (range.start(), range.end());
        Err(Wrong::line("check", &format!("{key}: expected {least} to {most}{unit}, given {given}")))
    }
}

fn rate(text: &str) -> Result<Rate, Wrong> {
    let found: Option<Rate> = with_unit(text).ok().filter(|rate: &Rate| rate.0 > 0);
    let said = format!("link: expected a rate with its unit (100mbit), at least 8bit, given \"{text}\"");
    found.ok_or_else(|| Wrong::line("check", &said))
}

fn report(
    text: &str,
    name: &str,
    links: Option<Links>,
    (mtu, txqueuelen, hz): (Whole, Whole, Option<Whole>),
) -> Result<lint::Report, Wrong> {
    let mut options = CheckOptions {
        mtu: mtu.within("mtu", 68..=65_535, " bytes")?,
        txqueuelen: txqueuelen.within("txqueuelen", 0..=u32::MAX, " packets")?,
        hz: hz.map(|hz| hz.within("hz", 1..=10_000, "")).transpose()?,
        ..CheckOptions::default()
    };
    match links {
        None => {}
        Some(Links::One(text)) => options.link = Some(rate(&text)?),
        Some(Links::Each(ByName(all))) => {
            for (device, text) in all {
                options.links.insert(device, rate(&text)?);
            }
        }
    }
    guarded(|| lint::text(text, name, &options))
}

/// Checks a policy: tc lines, or a shell script that calls tc. Nothing is run. Returns the findings
/// in the order of the lines.
#[pyfunction]
#[pyo3(signature = (
    text, *, name="policy", link=None, mtu=Whole(Ok(1500)), txqueuelen=Whole(Ok(1000)), hz=None, ignore=vec![]
))]
#[pyo3(
    text_signature = "(text, *, name='policy', link=None, mtu=1500, txqueuelen=1000, hz=None, ignore=...)"
)]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub fn check<'py>(
    py: Python<'py>,
    text: &str,
    name: &str,
    link: Option<Links>,
    mtu: Whole,
    txqueuelen: Whole,
    hz: Option<Whole>,
    ignore: Vec<String>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let unknown = ignore.iter().find(|code| !code::RULES.contains(&code.as_str()));
    if let Some(code) = unknown {
        let near = closest(code, code::RULES).map(|near| format!("; did you mean {near}?"));
        let said =
            format!("ignore: expected a code of a finding{}, given \"{code}\"", near.unwrap_or_default());
        return Err(Wrong::line("check", &said).raised(py));
    }
    let report = report(text, name, link, (mtu, txqueuelen, hz)).map_err(|e| e.raised(py))?;
    let asked = |d: &&Diagnostic| !ignore.iter().any(|code| code == d.code);
    report.diagnostics.iter().filter(asked).map(|d| finding(py, d)).collect()
}

/// Returns the longest wait of a packet in each leaf of a policy.
#[pyfunction]
#[pyo3(signature = (
    text, *, name="policy", link=None, mtu=Whole(Ok(1500)), txqueuelen=Whole(Ok(1000)), hz=None
))]
#[pyo3(text_signature = "(text, *, name='policy', link=None, mtu=1500, txqueuelen=1000, hz=None)")]
pub fn explain<'py>(
    py: Python<'py>,
    text: &str,
    name: &str,
    link: Option<Links>,
    mtu: Whole,
    txqueuelen: Whole,
    hz: Option<Whole>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let report = report(text, name, link, (mtu, txqueuelen, hz)).map_err(|e| e.raised(py))?;
    report.facts.iter().map(|fact| wait(py, fact)).collect()
}
