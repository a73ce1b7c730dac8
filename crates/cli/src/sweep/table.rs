//! The results of a sweep as a table: Parquet (parquet.apache.org), a row for each measurement.
//!
//! Columns: `run`; one for each place, in whole numbers if all of its values are some, else text;
//! `section`, `object`, `metric`; `value`. The scenario and the places are in the file's metadata
//! (`txweir.sweep`), so that a table says how it was made.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{PrimitiveTypeBuilder, Type};
use txweir::lab::sweep::{Axis, Measured, Sweep};

use super::at;
use super::journal::Journal;
use crate::Failure;

/// Name of the identity in the metadata.
const IDENTITY: &str = "txweir.sweep";
/// Measurements of a row group, whose columns are in memory.
const GROUP: usize = 1 << 16;

/// Returns the identity of the sweep whose results a file has.
///
/// # Errors
/// The file cannot be read, or is no table of a sweep.
pub fn identity(path: &Path) -> Result<String, Failure> {
    let file = File::open(path).map_err(|e| at(path)(&e))?;
    let reader = SerializedFileReader::new(file).map_err(|e| at(path)(&e))?;
    let all = reader.metadata().file_metadata().key_value_metadata();
    let found = all.into_iter().flatten().find(|one| one.key == IDENTITY);
    Ok(found.and_then(|one| one.value.clone()).unwrap_or_default())
}

/// Writes the results of the runs of a journal, in the order of their numbers. The file has its
/// name once it is whole. Returns the number of measurements.
///
/// # Errors
/// A file cannot be written, or the journal not read.
pub fn write(path: &Path, sweep: &Sweep, identity: &str, journal: &mut Journal) -> Result<u64, Failure> {
    let part = path.with_extension("parquet.part");
    let wrong = |e: ParquetError| at(&part)(&e);
    let file = File::create(&part).map_err(|e| at(&part)(&e))?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("txweir ", env!("CARGO_PKG_VERSION")).into())
        .set_key_value_metadata(Some(vec![KeyValue::new(IDENTITY.into(), identity.to_owned())]))
        .build();
    let schema = Arc::new(schema(sweep.axes()).map_err(wrong)?);
    let mut writer = SerializedFileWriter::new(&file, schema, Arc::new(properties)).map_err(wrong)?;
    let (mut group, mut count) = (Vec::new(), 0);
    let mut runs = journal.runs().into_iter().peekable();
    while let Some(run) = runs.next() {
        group.extend(journal.rows(run)?.into_iter().map(|row| (run, row)));
        if group.len() < GROUP && runs.peek().is_some() {
            continue;
        }
        let mut columns = writer.next_row_group().map_err(wrong)?;
        columns_of(&mut columns, sweep, &group).map_err(wrong)?;
        columns.close().map_err(wrong)?;
        count += group.len() as u64;
        group.clear();
    }
    writer.close().map_err(wrong)?;
    file.sync_all().map_err(|e| at(&part)(&e))?;
    fs::rename(&part, path).map_err(|e| at(path)(&e))?;
    Ok(count)
}

/// True if a column has whole numbers.
fn is_whole(axis: &Axis) -> bool {
    axis.values.iter().all(|value| value.parse::<i64>().is_ok())
}

/// Returns a column whose every row has a value.
fn column(name: &str, physical: Physical) -> PrimitiveTypeBuilder<'_> {
    Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED)
}

fn schema(axes: &[Axis]) -> Result<Type, ParquetError> {
    let whole = |name: &str| column(name, Physical::INT64).build();
    let text =
        |name: &str| column(name, Physical::BYTE_ARRAY).with_logical_type(Some(LogicalType::String)).build();
    let mut columns = vec![whole("run")?];
    for axis in axes {
        columns.push(if is_whole(axis) { whole(&axis.key)? } else { text(&axis.key)? });
    }
    columns.extend([text("section")?, text("object")?, text("metric")?]);
    columns.push(column("value", Physical::DOUBLE).build()?);
    Type::group_type_builder("sweep").with_fields(columns.into_iter().map(Arc::new).collect()).build()
}

type Rows = [(u64, Measured)];

fn columns_of(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    sweep: &Sweep,
    rows: &Rows,
) -> Result<(), ParquetError> {
    whole(group, rows.iter().map(|(run, _)| i64::try_from(*run).unwrap_or(i64::MAX)))?;
    for (number, axis) in sweep.axes().iter().enumerate() {
        let values = rows.iter().map(|(run, _)| sweep.value(*run, number));
        match is_whole(axis) {
            true => whole(group, values.map(|value| value.parse().unwrap_or(0)))?,
            false => text(group, values)?,
        }
    }
    text(group, rows.iter().map(|(_, row)| row.section.as_str()))?;
    text(group, rows.iter().map(|(_, row)| row.object.as_str()))?;
    text(group, rows.iter().map(|(_, row)| row.metric.as_str()))?;
    let values: Vec<f64> = rows.iter().map(|(_, row)| row.value).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<DoubleType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn whole(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    values: impl Iterator<Item = i64>,
) -> Result<(), ParquetError> {
    let values: Vec<i64> = values.collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn text<'a>(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    values: impl Iterator<Item = &'a str>,
) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}
