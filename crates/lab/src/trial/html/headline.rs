//! The headline numbers: one row per measure, one column per policy, a bar in each cell.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::{COLOURS, array, escaped, named, text, whole};
use crate::trial::measure::label;
use crate::trial::units::Unit;
use crate::trial::verdict::rank;

/// A measure of every policy; `None` for a policy without one.
struct Row<'a> {
    label: String,
    cells: Vec<Option<&'a Value>>,
}

impl Row<'_> {
    fn html(&self) -> String {
        let values = self.cells.iter().flatten().flat_map(|m| [&m["median"], &m["high"]]);
        let most = values.filter_map(Value::as_f64).fold(0.0, f64::max);
        // A bar compares: of one value, or of values that read alike, it would show nothing.
        let texts: BTreeSet<String> = self.cells.iter().flatten().filter_map(|m| shown(m)).collect();
        let most = if texts.len() > 1 { Some(most) } else { None };
        let mut out = format!("<tr><th class=\"text\" scope=\"row\">{}</th>", self.label);
        for (k, cell) in self.cells.iter().enumerate() {
            out.push_str(&match cell {
                Some(measure) => cell_html(measure, most, k),
                None => "<td class=\"zero\">–</td>".into(),
            });
        }
        out.push_str("</tr>");
        out
    }
}

/// Returns the median, its interval, its mark, and a bar on which a line shows the interval.
fn cell_html(measure: &Value, most: Option<f64>, k: usize) -> String {
    let of = |key: &str| measure[key].as_f64();
    let (Some(median), Some(shown)) = (of("median"), shown(measure)) else {
        return "<td class=\"zero\">–</td>".into();
    };
    let unit = Unit::named(text(measure, "unit"));
    let interval = unit.and_then(|u| u.interval(of("low"), median, of("high")));
    let small =
        interval.as_ref().map_or_else(String::new, |i| format!("<small>{}</small>", micro(&escaped(i))));
    // None sent and none carried is no merit, and values that read alike have no best.
    let merit = most.is_some() && (median > 0.0 || text(measure, "unit") == "packets");
    let class = match text(measure, "mark") {
        _ if !merit => "",
        "best" => " class=\"best\"",
        "equal" => " class=\"equal\"",
        _ => "",
    };
    let meter = match most {
        Some(most) if median > 0.0 => meter(median, (of("low"), of("high")), most, interval.is_some(), k),
        _ => String::new(),
    };
    format!(
        "<td><div class=\"cell\"><span class=\"number\"><span{class}>{}</span>{small}</span>{meter}</div></td>",
        micro(&escaped(&shown)),
    )
}

/// Returns the median of a measure with its unit, as text.
pub(super) fn shown(measure: &Value) -> Option<String> {
    let median = measure["median"].as_f64()?;
    let unit = Unit::named(text(measure, "unit"));
    Some(unit.map_or_else(|| median.to_string(), |u| u.text(median)))
}

/// Returns a bar, on which a line shows the interval if it reads otherwise than the median.
fn meter(median: f64, (low, high): (Option<f64>, Option<f64>), most: f64, spread: bool, k: usize) -> String {
    let percent = |v: f64| if most > 0.0 { (v / most * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let (low, high) = (percent(low.unwrap_or(median)), percent(high.unwrap_or(most)));
    let width = (high - low).max(0.0);
    let whisker =
        if spread { format!("<b style=\"left:{low:.1}%;width:{width:.1}%\"></b>") } else { String::new() };
    let colour = k % COLOURS;
    format!(
        "<span class=\"meter\"><i style=\"width:{:.1}%;--p:var(--p{colour})\"></i>{whisker}</span>",
        percent(median)
    )
}

/// Writes microseconds with the Greek letter.
pub(super) fn micro(text: &str) -> String {
    text.replace(" us", " µs")
}

/// Returns the groups of all policies by name: those that wait for answers first, bulk last.
fn groups(policies: &[Value]) -> Vec<&Value> {
    let mut all: Vec<&Value> = Vec::new();
    for group in policies.iter().flat_map(|p| array(p, "groups")) {
        if !all.iter().any(|g| g["name"] == group["name"]) {
            all.push(group);
        }
    }
    all.sort_by_key(|g| rank(text(g, "kind")));
    all
}

/// Returns what a group of that kind is.
pub(super) fn about(kind: &str) -> &'static str {
    match kind {
        "rr" => "request to response",
        "cbr" => "constant rate, one way",
        "replay" => "capture, one way",
        "stream" => "bulk TCP",
        "quic" => "bulk QUIC",
        "short" => "short flows",
        "voice" => "calls, one way",
        "video" => "video, one way",
        "dns" => "questions over UDP",
        "udprr" => "pings over UDP",
        _ => "",
    }
}

/// Returns the name of a group, and its number of members.
pub(super) fn title(group: &Value) -> String {
    match whole(&group["count"]) {
        Some(n) if n > 1 => format!("{} ×{n}", escaped(text(group, "name"))),
        _ => escaped(text(group, "name")),
    }
}

/// Returns the table.
pub fn table(report: &Value) -> String {
    let policies = array(report, "policies");
    if policies.is_empty() {
        return "<p class=\"note\">no data</p>".into();
    }
    let span = policies.len() + 1;
    let mut body = String::new();
    let mut section = |head: String, about: &str, rows: Vec<Row<'_>>| {
        if rows.is_empty() {
            return;
        }
        let _ = write!(
            body,
            "<tr class=\"group\"><th class=\"text\" colspan=\"{span}\">{head}<small>{about}</small></th></tr>"
        );
        body.extend(rows.iter().map(Row::html));
    };
    for group in groups(policies) {
        let kind = text(group, "kind");
        section(title(group), about(kind), rows(policies, &group["name"], kind));
    }
    section("Bottleneck".into(), "", rows(policies, &Value::Null, ""));
    let heads: String =
        policies.iter().enumerate().map(|(k, p)| format!("<th scope=\"col\">{}</th>", named(k, p))).collect();
    // With five columns a page has no room for a value and a useful bar beside it.
    let narrow = if policies.len() > 4 { " narrow" } else { "" };
    format!(
        "<div class=\"table{narrow}\" tabindex=\"0\"><table><thead><tr><th class=\"text\"></th>{heads}</tr></thead>\
         <tbody>{body}</tbody></table></div>"
    )
}

/// Returns the measures of a group that some policy has a value of; those of the bottleneck have no
/// group.
fn rows<'a>(policies: &'a [Value], group: &Value, kind: &str) -> Vec<Row<'a>> {
    let of = |p: &'a Value| array(p, "measures").iter().filter(|m| m["group"] == *group);
    let mut names: Vec<&str> = Vec::new();
    for measure in policies.iter().flat_map(of) {
        let name = text(measure, "measure");
        if !names.contains(&name) && !measure["median"].is_null() {
            names.push(name);
        }
    }
    let marked = |name: &&str| {
        let all = policies.iter().flat_map(of).filter(|m| m["measure"] == **name);
        *name != "marked_packets"
            || all.clone().any(|m| array(m, "runs").iter().any(|n| n.as_f64() > Some(0.0)))
    };
    let row = |name: &str| Row {
        label: escaped(label(name, kind)),
        cells: policies.iter().map(|p| of(p).find(|m| m["measure"] == *name)).collect(),
    };
    names.into_iter().filter(marked).map(row).collect()
}

/// Returns the result in sentences, one paragraph each.
pub fn verdict(report: &Value) -> String {
    let sentences = array(report, "verdict").iter().filter_map(Value::as_str);
    sentences.map(|s| format!("<p class=\"verdict\">{}.</p>", micro(&escaped(s)))).collect()
}

/// Returns an explanation of the marks in the table.
pub fn legend(report: &Value) -> String {
    let measures = || array(report, "policies").iter().flat_map(|p| array(p, "measures"));
    let has = |mark: &str| measures().any(|m| m["mark"] == mark);
    let mut out = String::new();
    if has("best") {
        out.push_str(" <b>best</b>: the interval overlaps no other one.");
    }
    if has("equal") {
        out.push_str(
            " <b>equal</b>: not told apart from the best, because the intervals overlap or read alike.",
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_show_median_interval_mark_and_bar() {
        let measure = json!({"unit": "ns", "median": 21_300, "low": 20_000, "high": 25_000, "mark": "best"});
        assert_eq!(
            cell_html(&measure, Some(50_000.0), 9),
            "<td><div class=\"cell\"><span class=\"number\"><span class=\"best\">21.3 µs</span>\
             <small>20.0..25.0</small></span><span class=\"meter\"><i style=\"width:42.6%;--p:var(--p1)\"></i>\
             <b style=\"left:40.0%;width:10.0%\"></b></span></div></td>"
        );
        let odd = cell_html(&json!({"unit": "<b>", "median": 7, "mark": 3}), Some(0.0), 0);
        assert!(odd.contains("<span>7</span></span>"), "{odd}");
        assert_eq!(cell_html(&json!({"median": null}), Some(1.0), 0), "<td class=\"zero\">–</td>");
    }

    /// Neither zero bytes nor values that read alike have a bar or a mark; zero lost packets may be
    /// the best.
    #[test]
    fn zero_and_equal_values_have_no_bar_and_no_mark() {
        let of = |unit: &str, medians: [f64; 2]| {
            let cell = |v: f64| json!({"unit": unit, "median": v, "low": v, "high": v, "mark": "best"});
            let cells = medians.map(cell);
            Row { label: "x".into(), cells: cells.iter().map(Some).collect() }.html()
        };
        let count = |html: &str, what: &str| html.matches(what).count();
        let bars = |html: &str| (count(html, "meter"), count(html, "class=\"best\""));
        assert_eq!(bars(&of("bytes", [0.0, 0.0])), (0, 0));
        assert_eq!(bars(&of("bytes", [0.0, 9000.0])), (1, 1));
        assert_eq!(bars(&of("ns", [1_000_000.0, 1_000_001.0])), (0, 0), "both read 1.00 ms");
        assert_eq!(bars(&of("ns", [1_000_000.0, 2_000_000.0])), (2, 2));
        assert_eq!(bars(&of("packets", [0.0, 7.0])), (1, 2));
    }

    /// Groups that wait for answers come first and bulk last, whatever their order is in the file;
    /// the charts have the same order as the table.
    #[test]
    fn groups_stand_in_the_order_of_their_kinds() {
        use crate::trial::verdict::ORDER;
        let group = |kind: &&str| json!({"name": format!("a {kind}"), "kind": kind});
        let mut all: Vec<Value> = ORDER.iter().map(group).collect();
        all.insert(0, group(&"unknown"));
        all.reverse();
        let policies = [json!({"groups": all})];
        let found: Vec<&str> = groups(&policies).into_iter().map(|g| text(g, "kind")).collect();
        assert_eq!(found, [&ORDER[..], &["unknown"]].concat());
        let words: Vec<String> = ORDER.iter().map(|kind| format!("\"{kind}\"")).collect();
        let script = include_str!("../../../assets/page/values.js");
        assert!(script.contains(&format!("const ORDER = [{}];\n", words.join(", "))));
    }

    #[test]
    fn measures_are_put_together_by_group_and_name() {
        let policy = |median: Value| {
            json!({"measures": [
                {"group": "g", "measure": "jain", "median": median},
                {"group": null, "measure": "marked_packets", "median": 0, "runs": [0, 0]},
            ]})
        };
        let all = [policy(json!(1)), json!(null), policy(json!(2))];
        let found = rows(&all, &json!("g"), "stream");
        assert_eq!((found.len(), found[0].label.as_str()), (1, "fairness"));
        let medians: Vec<_> = found[0].cells.iter().map(|c| c.and_then(|m| m["median"].as_u64())).collect();
        assert_eq!(medians, [Some(1), None, Some(2)]);
        assert!(rows(&all, &Value::Null, "").is_empty(), "no packet was marked");
        assert!(rows(&[policy(Value::Null)], &json!("g"), "stream").is_empty());
    }

    #[test]
    fn only_marks_that_there_are_are_explained() {
        let report = |mark: &str| json!({"policies": [{"measures": [{"mark": mark}]}]});
        assert_eq!(legend(&json!({})), "");
        assert!(legend(&report("best")).starts_with(" <b>best</b>: "));
        assert!(legend(&report("equal")).starts_with(" <b>equal</b>: "));
    }
}
