//! Tables: Arrow record batches that other programs read where they are.
//!
//! A [`Table`] gives a stream by Arrow's PyCapsule interface (`__arrow_c_stream__`), so that
//! polars, pandas and pyarrow take it without a copy, and none of them is needed here.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyNotImplementedError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::error::Wrong;

/// Rows of a table that a notebook shows.
const SHOWN_ROWS: usize = 10;

/// The values of a column; `None` where there is none.
#[derive(Clone, Debug)]
pub enum Values {
    /// Whole numbers: counts, sizes and times. Signed, so that differences do not wrap.
    Whole(Vec<Option<i64>>),
    /// Other numbers.
    Number(Vec<Option<f64>>),
    /// Text.
    Text(Vec<Option<String>>),
    /// Yes and no.
    Flag(Vec<Option<bool>>),
}

impl Values {
    /// Returns an empty column of a kind by its name in [`Table::__reduce__`].
    fn read(kind: &str, list: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match kind {
            "whole" => Self::Whole(list.extract()?),
            "number" => Self::Number(list.extract()?),
            "flag" => Self::Flag(list.extract()?),
            _ => Self::Text(list.extract()?),
        })
    }

    /// Returns the column as Arrow has it.
    pub fn array(self) -> ArrayRef {
        match self {
            Self::Whole(list) => Arc::new(Int64Array::from(list)),
            Self::Number(list) => Arc::new(Float64Array::from(list)),
            Self::Text(list) => Arc::new(StringArray::from(list)),
            Self::Flag(list) => Arc::new(BooleanArray::from(list)),
        }
    }
}

const fn kind(of: &DataType) -> &'static str {
    match of {
        DataType::Int64 => "whole",
        DataType::Float64 => "number",
        DataType::Boolean => "flag",
        _ => "text",
    }
}

/// A table of results: columns of whole numbers, numbers, text and flags.
///
/// `polars.DataFrame(table)`, `pandas.DataFrame.from_arrow(table)` and `pyarrow.table(table)` take
/// it without a copy.
#[pyclass(frozen, module = "txweir")]
#[derive(Clone, Debug)]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Makes a table of columns of one length.
    pub fn new(columns: Vec<(&str, Values)>) -> std::result::Result<Self, Wrong> {
        Self::of_arrays(columns.into_iter().map(|(name, values)| (name, values.array())).collect())
    }

    /// The same of arrays.
    pub fn of_arrays(columns: Vec<(&str, ArrayRef)>) -> std::result::Result<Self, Wrong> {
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let arrays: Vec<ArrayRef> = columns.into_iter().map(|(_, array)| array).collect();
        let schema = Arc::new(Schema::new(fields));
        let wrong = |e: ArrowError| Wrong::line("table", &e.to_string());
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(wrong)?;
        Ok(Self { schema, batches: vec![batch] })
    }

    /// Puts tables of the same columns below each other, each behind columns that have one value:
    /// of each key the value of the table's number.
    pub fn stacked(tables: &[&Self], keys: &[(String, ArrayRef)]) -> std::result::Result<Self, Wrong> {
        let wrong = |e: ArrowError| Wrong::line("stacked", &e.to_string());
        if let Some((name, values)) = keys.iter().find(|(_, values)| values.len() != tables.len()) {
            let said = format!("{name}: expected {} values, given {}", tables.len(), values.len());
            return Err(Wrong::line("stacked", &said));
        }
        let Some(first) = tables.first() else {
            return Err(Wrong::line("stacked", "expected at least one table, given none"));
        };
        let field = |(name, values): &(String, ArrayRef)| Field::new(name, values.data_type().clone(), true);
        let mut fields: Vec<Field> = keys.iter().map(field).collect();
        fields.extend(first.schema.fields().iter().map(|field| (**field).clone()));
        let schema = Arc::new(Schema::new(fields));
        let mut batches = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            for batch in &table.batches {
                let same = keys.iter().map(|(_, values)| same(values, number, batch.num_rows()));
                let arrays = same.chain(batch.columns().iter().cloned()).collect();
                batches.push(RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(wrong)?);
            }
        }
        Ok(Self { schema, batches })
    }

    /// Returns the number of a column of numbers in the only row whose texts in other columns are
    /// these. The error names the texts that there are.
    pub fn one(&self, keys: &[(&str, &str)], column: &str) -> std::result::Result<f64, Wrong> {
        let mut rows: Vec<(&RecordBatch, usize)> = self
            .batches
            .iter()
            .flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)))
            .collect();
        let text = |(batch, row): &(&RecordBatch, usize), key: &str| {
            let array = batch.column_by_name(key)?.as_string_opt::<i32>()?.clone();
            (!array.is_null(*row)).then(|| array.value(*row).to_owned())
        };
        for (key, given) in keys {
            let there: Vec<String> = rows.iter().filter_map(|row| text(row, key)).collect();
            rows.retain(|row| text(row, key).as_deref() == Some(*given));
            if rows.is_empty() {
                let mut names: Vec<String> = Vec::new();
                there.into_iter().for_each(|name| {
                    if !names.contains(&name) {
                        names.push(name)
                    }
                });
                let said = format!("{key}: expected one of {}, given \"{given}\"", names.join(", "));
                return Err(Wrong::line("value", &said));
            }
        }
        let [(batch, row)] = rows[..] else {
            return Err(Wrong::line(
                "value",
                &format!("expected keys of one row, given those of {}", rows.len()),
            ));
        };
        let array = batch.column_by_name(column).and_then(|array| array.as_primitive_opt::<Float64Type>());
        match array.filter(|array| !array.is_null(row)) {
            Some(array) => Ok(array.value(row)),
            None => Err(Wrong::line("value", "expected a run with such a number, given one without")),
        }
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns the values of a column as a list.
    fn list<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for batch in &self.batches {
            let array = batch.column(column);
            for row in 0..array.len() {
                list.append(cell(py, array, row)?)?;
            }
        }
        Ok(list)
    }
}

/// Returns an array of one value of another, a number of times.
fn same(values: &ArrayRef, at: usize, times: usize) -> ArrayRef {
    let some = !values.is_null(at);
    match values.data_type() {
        DataType::Int64 => {
            Values::Whole(vec![some.then(|| values.as_primitive::<Int64Type>().value(at)); times])
        }
        DataType::Float64 => {
            Values::Number(vec![some.then(|| values.as_primitive::<Float64Type>().value(at)); times])
        }
        DataType::Boolean => Values::Flag(vec![some.then(|| values.as_boolean().value(at)); times]),
        _ => Values::Text(vec![some.then(|| values.as_string::<i32>().value(at).to_owned()); times]),
    }
    .array()
}

fn cell<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        _ => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
    })
}

#[pymethods]
impl Table {
    /// The names of the columns; those of quantities end in their unit.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.rows()
    }

    /// The values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.schema.index_of(name) {
            Ok(column) => self.list(py, column),
            Err(_) => {
                let expected = self.columns().join(", ");
                Err(PyKeyError::new_err(format!("table: expected one of {expected}, given \"{name}\"")))
            }
        }
    }

    /// All columns as lists, by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (column, field) in self.schema.fields().iter().enumerate() {
            dict.set_item(field.name(), self.list(py, column)?)?;
        }
        Ok(dict)
    }

    /// The table as a stream of Arrow's C data interface. A schema may be asked for, and is not
    /// heeded, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: Vec<std::result::Result<RecordBatch, ArrowError>> =
            self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    /// The schema of Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema = schema.map_err(|e| PyNotImplementedError::new_err(e.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        format!("<txweir.Table of {} rows: {}>", self.rows(), self.columns().join(", "))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let mut html = String::from("<table><thead><tr>");
        let escaped = txweir_lab::trial::html::escaped;
        for name in self.columns() {
            html.push_str(&format!("<th>{}</th>", escaped(&name)));
        }
        html.push_str("</tr></thead><tbody>");
        let rows = self.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
        for (batch, row) in rows.take(SHOWN_ROWS) {
            html.push_str("<tr>");
            for array in batch.columns() {
                let text = cell(py, array, row)?.str()?.to_string();
                html.push_str(&format!("<td>{}</td>", escaped(&text)));
            }
            html.push_str("</tr>");
        }
        html.push_str(&format!("</tbody></table><small>{} rows</small>", self.rows()));
        Ok(html)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyList>,))> {
        let columns = PyList::empty(py);
        for (column, field) in self.schema.fields().iter().enumerate() {
            columns.append((field.name(), kind(field.data_type()), self.list(py, column)?))?;
        }
        Ok((py.import("txweir._native")?.getattr("table")?, (columns,)))
    }
}

/// Makes a table of columns: for each its name, its kind (`whole`, `number`, `text`, `flag`) and
/// its values.
#[pyfunction]
pub fn table(py: Python<'_>, columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Table> {
    let read = columns.iter().map(|(name, kind, list)| Ok((name.as_str(), Values::read(kind, list)?)));
    let columns = read.collect::<PyResult<Vec<_>>>()?;
    Table::new(columns).map_err(|e| e.raised(py))
}

/// Puts tables of the same columns below each other, each behind columns of its own that have one
/// value: `keys` has the name, the kind and the values for each table.
#[pyfunction]
pub fn stacked(
    py: Python<'_>,
    tables: Vec<PyRef<'_, Table>>,
    keys: Vec<(String, String, Bound<'_, PyAny>)>,
) -> PyResult<Table> {
    let read = |(name, kind, list): &(String, String, Bound<'_, PyAny>)| {
        Ok::<_, PyErr>((name.clone(), Values::read(kind, list)?.array()))
    };
    let keys = keys.iter().map(read).collect::<PyResult<Vec<_>>>()?;
    let tables: Vec<&Table> = tables.iter().map(|table| &**table).collect();
    Table::stacked(&tables, &keys).map_err(|e| e.raised(py))
}
