//! Runs of real lines beside the policies, as a table.

use std::fmt::Write as _;

use serde_json::Value;

use super::{array, escaped, headline, table, text};
use crate::trial::units::Unit;

/// Returns the table; nothing without lines.
pub(super) fn of(report: &Value) -> String {
    let (lines, measures) = (array(report, "lines"), array(report, "beside"));
    if lines.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for (key, all) in [("lines", lines), ("policies", array(report, "policies"))] {
        for (i, one) in all.iter().enumerate() {
            let _ = write!(rows, "<tr><th class=\"text\" scope=\"row\">{}</th>", escaped(text(one, "name")));
            for measure in measures {
                let unit = Unit::named(text(measure, "unit"));
                let value = measure[key][i].as_f64();
                let shown = value.zip(unit).map_or_else(|| "–".into(), |(v, unit)| unit.text(v));
                let _ = write!(rows, "<td>{}</td>", headline::micro(&escaped(&shown)));
            }
            rows.push_str("</tr>");
        }
    }
    let labels: Vec<String> = measures.iter().map(|m| escaped(text(m, "label"))).collect();
    let heads: Vec<&str> = std::iter::once("").chain(labels.iter().map(String::as_str)).collect();
    let about: String = lines.iter().map(about).collect();
    format!("<h3 class=\"policy\">Beside a real line</h3>{about}{}", table(&heads, 1, &rows))
}

fn about(line: &Value) -> String {
    let words = ["test", "title", "host", "time"].map(|key| text(line, key));
    let words: Vec<String> = words.iter().filter(|w| !w.is_empty()).map(|w| escaped(w)).collect();
    format!("<p class=\"hint\">{}: {}.</p>", escaped(text(line, "name")), words.join(", "))
}
