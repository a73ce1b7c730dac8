//! A diagnostic as `txweir.Finding`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use txweir_tc::Diagnostic;

/// Makes the object of a diagnostic.
pub fn finding<'py>(py: Python<'py>, d: &Diagnostic) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("severity", d.severity.name())?;
    fields.set_item("code", d.code)?;
    fields.set_item("source", &d.source.name)?;
    fields.set_item("line", d.line())?;
    fields.set_item("column", d.column())?;
    fields.set_item("message", &d.message)?;
    fields.set_item("text", d.source.text.get(d.span.clone()).unwrap_or(""))?;
    fields.set_item("expected", (!d.expected.is_empty()).then_some(&d.expected))?;
    fields.set_item("hint", &d.hint)?;
    fields.set_item("suggestion", &d.suggestion)?;
    fields.set_item("drawing", d.to_string())?;
    py.import("txweir._findings")?.getattr("Finding")?.call((), Some(&fields))
}
