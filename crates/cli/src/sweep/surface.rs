//! `txweir lab surface`: one measurement of a sweep over one or two of its places, as a table and
//! as a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};

use super::at;
use crate::{Failure, output, page};

/// Options of `txweir lab surface`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tables that `txweir lab sweep` has written: the parts of one sweep
    #[arg(required = true)]
    tables: Vec<PathBuf>,
    /// The measurement, or its end: `traffic.call.latency.p99_ns`, `latency.p99_ns` [default: list
    /// all]
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
    /// Places for the rows and for the columns; over the others and over parts of a cell the median
    /// is taken [default: the first two places, seed last]
    #[arg(long, value_name = "KEY[,KEY]")]
    by: Option<String>,
    /// Write a page with the table in colours
    #[arg(long, value_name = "FILE", requires = "of")]
    html: Option<PathBuf>,
}

/// Most different values of a place in a table.
const SIDE_MAX: usize = 1000;

/// Runs `txweir lab surface`.
pub fn main(args: &Args) -> Result<(), Failure> {
    let file = args.html.as_deref().map(page::Kept::open).transpose()?;
    let Some(of) = &args.of else {
        let names = names(&args.tables)?;
        return output::print(names.into_iter().map(|name| name + "\n").collect::<String>());
    };
    let surface = Surface::read(args, of)?;
    if let Some(file) = file {
        file.write_page(&surface.html())?;
    }
    output::print(surface.text())
}

/// Takes the columns and a row.
type Visit<'a> = dyn FnMut(&[String], &Row) + 'a;

/// A run, the values of its places, and a measurement.
type Found = (i64, Vec<String>, f64);

/// Visits the rows of tables, with the names of their columns.
fn each(tables: &[PathBuf], f: &mut Visit<'_>) -> Result<(), Failure> {
    for path in tables {
        let file = File::open(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        let unreadable = |e: &dyn std::fmt::Display| {
            Failure::usage(format!("{}: expected a table of txweir lab sweep: {e}", path.display()))
        };
        let reader = SerializedFileReader::new(file).map_err(|e| unreadable(&e))?;
        let schema = reader.metadata().file_metadata().schema();
        let columns: Vec<String> = schema.get_fields().iter().map(|c| c.name().to_owned()).collect();
        let ends = columns.len() >= 5 && columns[0] == "run" && columns.ends_with(&END.map(String::from));
        if !ends {
            return Err(unreadable(&"other columns"));
        }
        for row in reader.get_row_iter(None).map_err(|e| at(path)(&e))? {
            f(&columns, &row.map_err(|e| at(path)(&e))?);
        }
    }
    Ok(())
}

/// The last columns.
const END: [&str; 4] = ["section", "object", "metric", "value"];

/// Returns the text of a field.
fn text(row: &Row, at: usize) -> String {
    match row.get_column_iter().nth(at).map(|(_, field)| field) {
        Some(Field::Str(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// Returns the name of the measurement of a row, and the column behind its places.
fn name(columns: &[String], row: &Row) -> (String, usize) {
    let places = columns.len() - END.len();
    (format!("{}.{}.{}", text(row, places), text(row, places + 1), text(row, places + 2)), places)
}

fn names(tables: &[PathBuf]) -> Result<BTreeSet<String>, Failure> {
    let mut all = BTreeSet::new();
    each(tables, &mut |columns, row| {
        all.insert(name(columns, row).0);
    })?;
    Ok(all)
}

/// A measurement over places.
struct Surface {
    /// The whole name.
    of: String,
    /// The places of rows and columns; the second is empty if there is one.
    by: [String; 2],
    /// Their values, in the order of runs.
    sides: [Vec<String>; 2],
    /// The measurements of a row and a column.
    cells: BTreeMap<[usize; 2], Vec<f64>>,
}

impl Surface {
    fn read(args: &Args, of: &str) -> Result<Self, Failure> {
        let given: Option<Vec<&str>> = args.by.as_deref().map(|by| by.split(',').map(str::trim).collect());
        if given.as_ref().is_some_and(|by| by.len() > 2) {
            return Err(Failure::usage("--by: expected one or two places, given more"));
        }
        let mut found: BTreeSet<String> = BTreeSet::new();
        // The rows with the measurement: run, places, value.
        let (mut keys, mut rows): (Vec<String>, Vec<Found>) = Default::default();
        each(&args.tables, &mut |columns, row| {
            let (name, places) = name(columns, row);
            if name != of && !name.ends_with(&format!(".{of}")) {
                return;
            }
            found.insert(name);
            keys = columns[1..places].to_vec();
            let mut fields = row.get_column_iter().map(|(_, field)| field);
            let Some(Field::Long(run)) = fields.next() else { return };
            let Some(Field::Double(value)) = fields.last() else { return };
            rows.push((*run, (1..places).map(|at| text(row, at)).collect(), *value));
        })?;
        let mut names = found.into_iter();
        let of = match (names.next(), names.next()) {
            (Some(name), None) => name,
            (None, _) => {
                let line =
                    format!("--of {of}: the tables have no such measurement (without --of all are listed)");
                return Err(Failure::usage(line));
            }
            (Some(first), Some(second)) => {
                let line = format!("--of {of}: expected one measurement, given {first}, {second}");
                return Err(Failure::usage(line));
            }
        };
        rows.sort_by_key(|(run, ..)| *run);
        let places = match given {
            Some(names) => names.iter().map(|name| place(&keys, name)).collect::<Result<Vec<_>, _>>()?,
            None => {
                let many = |at: &usize| rows.iter().any(|(_, values, _)| values[*at] != rows[0].1[*at]);
                let mut all: Vec<usize> = (0..keys.len()).filter(many).collect();
                all.sort_by_key(|at| keys[*at] == "seed");
                all.truncate(2);
                all
            }
        };
        let key = |n: usize| places.get(n).map_or(String::new(), |at| keys[*at].clone());
        let mut surface =
            Self { of, by: [key(0), key(1)], sides: Default::default(), cells: BTreeMap::new() };
        for (_, values, value) in &rows {
            let mut cell = [0; 2];
            for (n, side) in surface.sides.iter_mut().enumerate() {
                let value = places.get(n).map_or("", |at| &values[*at]);
                cell[n] = side.iter().position(|known| known == value).unwrap_or_else(|| {
                    side.push(value.to_owned());
                    side.len() - 1
                });
                if side.len() > SIDE_MAX {
                    let key = &surface.by[n];
                    return Err(Failure::usage(format!(
                        "--by {key}: expected at most {SIDE_MAX} values, given more"
                    )));
                }
            }
            surface.cells.entry(cell).or_default().push(*value);
        }
        for values in surface.cells.values_mut() {
            values.sort_by(f64::total_cmp);
        }
        Ok(surface)
    }

    /// Returns the divisor and the name of the unit of its values.
    fn unit(&self) -> (f64, &'static str) {
        match () {
            () if self.of.ends_with("_ns") => (1e6, "ms"),
            () if self.of.ends_with("_bit_s") => (1e6, "Mbit/s"),
            () => (1.0, ""),
        }
    }

    /// Returns the median, the least and the most of a cell, with their number.
    fn cell(&self, row: usize, column: usize) -> Option<([f64; 3], usize)> {
        let values = self.cells.get(&[row, column])?;
        let (first, last) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        let (by, _) = self.unit();
        Some(([median / by, first / by, last / by], values.len()))
    }

    /// Returns the words above the table.
    fn title(&self) -> String {
        let most = self.cells.values().map(Vec::len).max().unwrap_or(0);
        let unit = self.unit().1;
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        let runs = if most > 1 { format!(": median of {most} runs (least to most)") } else { String::new() };
        format!("{}{unit}{runs}", self.of)
    }

    fn text(&self) -> String {
        let mut lines: Vec<Vec<String>> = Vec::new();
        let mut head = vec![self.by[0].clone()];
        head.extend(self.sides[1].iter().cloned());
        lines.push(head);
        for (row, value) in self.sides[0].iter().enumerate() {
            let mut line = vec![value.clone()];
            for column in 0..self.sides[1].len() {
                line.push(match self.cell(row, column) {
                    None => "-".into(),
                    Some(([median, ..], 1)) => number(median),
                    Some(([median, least, most], _)) => {
                        format!("{} ({} to {})", number(median), number(least), number(most))
                    }
                });
            }
            lines.push(line);
        }
        let widths: Vec<usize> = (0..=self.sides[1].len())
            .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
            .collect();
        let mut out = format!("{}\n", self.title());
        if !self.by[1].is_empty() {
            let _ = writeln!(out, "{:width$}  {}", "", self.by[1], width = widths[0]);
        }
        for line in &lines {
            let mut words = String::new();
            for (at, (word, width)) in line.iter().zip(&widths).enumerate() {
                let gap = if at == 0 { "" } else { "  " };
                let _ = write!(words, "{gap}{word:width$}");
            }
            let _ = writeln!(out, "{}", words.trim_end());
        }
        out
    }

    /// Returns the page: the table, darker where the median is larger.
    fn html(&self) -> String {
        let medians: Vec<f64> =
            self.cells.keys().filter_map(|[row, column]| Some(self.cell(*row, *column)?.0[0])).collect();
        let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let most = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Values of different sizes are told apart by their logarithms.
        let scale = |value: f64| if least > 0.0 && most > 10.0 * least { value.ln() } else { value };
        let share = |value: f64| {
            let whole = scale(most) - scale(least);
            if whole > 0.0 { (scale(value) - scale(least)) / whole } else { 0.0 }
        };
        let mut body = String::new();
        let columns = self.sides[1].len();
        if !self.by[1].is_empty() {
            let _ =
                writeln!(body, "<tr><td></td><th colspan=\"{columns}\">{}</th></tr>", escaped(&self.by[1]));
        }
        let _ = write!(body, "<tr><th>{}</th>", escaped(&self.by[0]));
        for value in &self.sides[1] {
            let _ = write!(body, "<th scope=\"col\">{}</th>", escaped(value));
        }
        body.push_str("</tr>\n");
        for (row, value) in self.sides[0].iter().enumerate() {
            let _ = write!(body, "<tr><th scope=\"row\">{}</th>", escaped(value));
            for column in 0..columns {
                match self.cell(row, column) {
                    None => body.push_str("<td>-</td>"),
                    Some(([median, low, high], runs)) => {
                        let part = share(median);
                        let ink = if part > 0.55 { " class=\"dark\"" } else { "" };
                        let range = if runs == 1 {
                            String::new()
                        } else {
                            format!("<small>{} to {}</small>", number(low), number(high))
                        };
                        let _ = write!(
                            body,
                            "<td{ink} style=\"--part:{:.0}%\">{}{range}</td>",
                            part * 100.0,
                            number(median)
                        );
                    }
                }
            }
            body.push_str("</tr>\n");
        }
        let title = escaped(&self.title());
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n<h1>{title}</h1>\n<table>\n{body}</table>\n\
             <p>A cell is darker where its median is larger. <code>txweir lab surface</code> made this page.</p>\n\
             </html>\n"
        )
    }
}

const STYLE: &str = "\
:root { color-scheme: light; --low: #eef4fb; --high: #0b4f8a; }
body { font: 15px/1.4 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; margin: 2em; color: #1b1f24; }
h1 { font-size: 1.2em; font-weight: 600; }
table { border-collapse: separate; border-spacing: 2px; }
th { font-weight: 600; padding: .4em .8em; text-align: left; }
td { padding: .5em .8em; text-align: right; font-variant-numeric: tabular-nums;
  background: color-mix(in srgb, var(--high) var(--part, 0%), var(--low)); }
tr > td:first-child:not([style]) { background: none; }
td.dark { color: #fff; }
small { display: block; opacity: .8; }
p { color: #57606a; }
";

/// Returns the place with a name, or with this end.
fn place(keys: &[String], name: &str) -> Result<usize, Failure> {
    let ends = |key: &&String| key.strip_suffix(name).is_some_and(|front| front.ends_with('.'));
    let exact = keys.iter().position(|key| key == name);
    let found: Vec<&String> = keys.iter().filter(ends).collect();
    match (exact, &found[..]) {
        (Some(at), _) => Ok(at),
        (None, [one]) => Ok(keys.iter().position(|key| key == *one).unwrap_or(0)),
        _ => Err(Failure::usage(format!("--by {name}: expected one of {}", keys.join(", ")))),
    }
}

/// Returns a number with four digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        _ if value == value.trunc() && value.abs() < 1e15 => 0,
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
