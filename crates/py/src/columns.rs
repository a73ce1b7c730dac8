//! Columns of tables, declared: a name, a kind, and the keys of the value in the JSON of a report.
//! So a table has the same columns in each run, whatever the run has measured.

use serde_json::Value;

use crate::error::Wrong;
use crate::table::{Table, Values};

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Whole numbers.
    Whole,
    /// Whole numbers that a report leaves out where they are zero.
    Count,
    /// Other numbers.
    Number,
}

/// A column: its name, its kind, the keys of its value.
pub type Column = (&'static str, Kind, &'static [&'static str]);

/// Makes a table with a row for each object.
pub fn rows(columns: &[Column], objects: &[&Value]) -> Result<Table, Wrong> {
    let column = |(name, kind, keys): &Column| {
        let found = objects.iter().map(|object| keys.iter().try_fold(*object, |at, key| at.get(key)));
        let values = match kind {
            Kind::Text => Values::Text(found.map(|v| Some(v?.as_str()?.to_owned())).collect()),
            Kind::Whole => Values::Whole(found.map(|v| v.and_then(whole)).collect()),
            Kind::Count => Values::Whole(found.map(|v| v.map_or(Some(0), whole)).collect()),
            Kind::Number => Values::Number(found.map(|v| v?.as_f64()).collect()),
        };
        (*name, values)
    };
    Table::new(columns.iter().map(column).collect())
}

/// Returns a whole number; one beyond the range of a column is its largest.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_u64().map(|_| i64::MAX))
}

/// Rows that are added one by one: columns of text first, then of whole numbers, then a number if
/// the table has one.
#[derive(Debug)]
pub struct Long<const TEXTS: usize, const WHOLES: usize> {
    texts: [Vec<Option<String>>; TEXTS],
    wholes: [Vec<Option<i64>>; WHOLES],
    numbers: Vec<Option<f64>>,
}

impl<const TEXTS: usize, const WHOLES: usize> Default for Long<TEXTS, WHOLES> {
    fn default() -> Self {
        Self {
            texts: [const { Vec::new() }; TEXTS],
            wholes: [const { Vec::new() }; WHOLES],
            numbers: Vec::new(),
        }
    }
}

impl<const TEXTS: usize, const WHOLES: usize> Long<TEXTS, WHOLES> {
    /// Adds a row.
    pub fn add(&mut self, texts: [&str; TEXTS], wholes: [u64; WHOLES], number: Option<f64>) {
        self.texts.iter_mut().zip(texts).for_each(|(column, text)| column.push(Some(text.to_owned())));
        let held = |whole| i64::try_from(whole).unwrap_or(i64::MAX);
        self.wholes.iter_mut().zip(wholes).for_each(|(column, whole)| column.push(Some(held(whole))));
        self.numbers.push(number);
    }

    /// Makes the table, with the names of its columns.
    pub fn table(
        self,
        texts: [&'static str; TEXTS],
        wholes: [&'static str; WHOLES],
        number: Option<&'static str>,
    ) -> Result<Table, Wrong> {
        let texts = texts.into_iter().zip(self.texts.into_iter().map(Values::Text));
        let wholes = wholes.into_iter().zip(self.wholes.into_iter().map(Values::Whole));
        let number = number.map(|name| (name, Values::Number(self.numbers)));
        Table::new(texts.chain(wholes).chain(number).collect())
    }
}
