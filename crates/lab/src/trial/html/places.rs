//! Tables of each policy, or of each direction of a link: qdiscs, stages, texts of policies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{array, cell, escaped, headline, micro, named, table, text};
use crate::report::text::{bit_rate, size};

/// Returns the table of the times in each stage.
pub(super) fn stages(report: &Value) -> String {
    let parts = ["mean", "p50", "p95", "p99", "max"];
    let mut rows = String::new();
    for (k, policy) in super::places(report).iter().enumerate() {
        for (i, stage) in array(policy, "stages").iter().enumerate() {
            let name = if i == 0 { named(k, policy) } else { String::new() };
            let _ = write!(
                rows,
                "<tr><th class=\"text\">{name}</th><td class=\"text\">{}</td>",
                escaped(text(stage, "stage"))
            );
            for part in parts {
                let _ = write!(rows, "<td>{}</td>", cell(&stage[format!("{part}_ns")], micro));
            }
            rows.push_str("</tr>");
        }
    }
    match rows.is_empty() {
        true => String::new(),
        false => table(&["policy", "stage", "mean", "p50", "p95", "p99", "max"], 2, &rows),
    }
}

/// Returns a table of the qdiscs of each place.
pub(super) fn classes(report: &Value) -> String {
    let mut out = String::new();
    for (k, policy) in super::places(report).iter().enumerate() {
        let _ = write!(out, "<h3 class=\"policy\">{}</h3>", named(k, policy));
        let all = array(policy, "classes");
        // Of several with one handle the first is meant.
        let by_handle: ByHandle<'_> = all.iter().rev().map(|class| (text(class, "handle"), class)).collect();
        let row = |class: &Value| {
            let depth = depth(class, &by_handle);
            class_row(class, depth) + &part_rows(class, depth)
        };
        let rows: String = all.iter().map(row).collect();
        let heads =
            ["class", "kind", "throughput", "packets", "bytes", "backlog mean", "max", "dropped", "marked"];
        out.push_str(&match rows.is_empty() {
            true => "<p class=\"note\">no data</p>".into(),
            false => table(&heads, 2, &rows),
        });
    }
    out
}

/// Qdiscs and classes by their handles.
type ByHandle<'a> = BTreeMap<&'a str, &'a Value>;

/// Returns how many qdiscs are above one.
fn depth(class: &Value, all: &ByHandle<'_>) -> usize {
    let above = |c: &Value| all.get(text(c, "parent")).copied().filter(|p| p["handle"] != c["handle"]);
    // A tree is at most eight deep, but a file may claim more.
    std::iter::successors(above(class), |c| above(c)).take(8).count()
}

/// Returns the pixels before a name at a depth.
const fn indent(depth: usize) -> usize {
    14 + 18 * depth
}

/// Returns a row of each part of a qdisc: what came into it, and what it dropped and marked.
fn part_rows(class: &Value, depth: usize) -> String {
    let row = |part: &Value| {
        format!(
            "<tr><th class=\"text\" style=\"padding-left:{}px\">{}</th><td class=\"text\">tin</td><td></td><td>{}</td>\
             <td>{}</td><td></td><td></td><td>{}</td><td>{}</td></tr>",
            indent(depth + 1),
            escaped(text(part, "name")),
            cell(&part["arrived_packets"], |n| n.to_string()),
            cell(&part["arrived_bytes"], size),
            cell(&part["drops"], |n| n.to_string()),
            cell(&part["marks"], |n| n.to_string()),
        )
    };
    array(class, "parts").iter().map(row).collect()
}

fn class_row(class: &Value, depth: usize) -> String {
    let backlog = &class["backlog_bytes"];
    format!(
        "<tr><th class=\"text\" style=\"padding-left:{}px\">{}</th><td class=\"text\">{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td>{}{}</tr>",
        indent(depth),
        escaped(text(class, "handle")),
        escaped(text(class, "kind")),
        cell(&class["throughput_bit_s"], bit_rate),
        cell(&class["sent_packets"], |n| n.to_string()),
        cell(&class["sent_bytes"], size),
        cell(&backlog["mean"], size),
        cell(&backlog["max"], size),
        reasons(&class["drops"]),
        reasons(&class["marks"]),
    )
}

fn reasons(all: &Value) -> String {
    let each = all.as_object().into_iter().flatten();
    let each: Vec<String> =
        each.map(|(reason, n)| format!("{} {}", escaped(reason), cell(n, |n| n.to_string()))).collect();
    match each.is_empty() {
        true => "<td class=\"zero\">0</td>".into(),
        false => format!("<td class=\"reasons\">{}</td>", each.join(", ")),
    }
}

/// Returns the text of each policy.
pub(super) fn policies(report: &Value) -> String {
    let mut out = String::new();
    for (k, policy) in super::places(report).iter().enumerate() {
        let policy_text = match text(policy, "policy") {
            "" => "<p class=\"note\">What a device starts with: no command.</p>".into(),
            some => format!("<pre tabindex=\"0\">{}</pre>", escaped(some.trim_end())),
        };
        let _ = write!(out, "<h3 class=\"policy\">{}</h3>{policy_text}", named(k, policy));
    }
    out
}

/// Returns the table of the groups of a scenario: one run, a line each.
pub(super) fn groups(report: &Value) -> String {
    const COLUMNS: [(&str, &str); 8] = [
        ("throughput_bit_s", "throughput"),
        ("transactions_per_s", "trans/s"),
        ("latency_p50_ns", "time p50"),
        ("latency_p95_ns", "p95"),
        ("latency_p99_ns", "p99"),
        ("jain", "fairness"),
        ("retransmitted_bytes", "sent again"),
        ("lost_packets", "lost"),
    ];
    let run = &array(report, "policies").first().cloned().unwrap_or_default();
    let of = |group: &Value, name: &str| {
        let mut all = array(run, "measures").iter();
        all.find(|m| m["group"] == group["name"] && m["measure"] == name).and_then(headline::shown)
    };
    let all = array(run, "groups");
    let used = |(name, _): &(&str, &str)| all.iter().any(|g| of(g, name).is_some());
    let columns: Vec<(&str, &str)> = COLUMNS.into_iter().filter(used).collect();
    let mut rows = String::new();
    for group in all {
        let (title, about) = (headline::title(group), headline::about(text(group, "kind")));
        let _ = write!(rows, "<tr><th class=\"text\">{title}</th><td class=\"text\">{about}</td>");
        for (name, _) in &columns {
            let shown = of(group, name).map_or_else(|| "–".into(), |v| headline::micro(&escaped(&v)));
            let _ = write!(rows, "<td>{shown}</td>");
        }
        rows.push_str("</tr>");
    }
    let heads: Vec<&str> =
        ["traffic", "kind"].into_iter().chain(columns.iter().map(|(_, head)| *head)).collect();
    match rows.is_empty() {
        true => "<p class=\"note\">no data</p>".into(),
        false => table(&heads, 2, &rows),
    }
}

/// Returns the table of the directions of links of a scenario; nothing for a trial.
pub(super) fn links(report: &Value) -> String {
    let mut rows = String::new();
    for (k, way) in array(report, "ways").iter().enumerate() {
        let device = &way["device"];
        let used =
            device["utilisation"].as_f64().map_or_else(|| "–".into(), |u| format!("{:.1} %", u * 100.0));
        let _ = write!(
            rows,
            "<tr><th class=\"text\">{}</th><td>{}</td><td>{used}</td><td>{}</td><td>{}</td>{}{}</tr>",
            named(k, way),
            cell(&way["rate_bit_s"], bit_rate),
            cell(&device["sent_packets"], |n| n.to_string()),
            cell(&device["ring_bytes"]["mean"], size),
            reasons(&way["drops"]),
            reasons(&way["marks"]),
        );
    }
    match rows.is_empty() {
        true => String::new(),
        false => {
            let heads = ["direction", "rate", "used", "packets", "in ring, mean", "dropped", "marked"];
            format!("<h3 class=\"policy\">Links</h3>{}", table(&heads, 1, &rows))
        }
    }
}
