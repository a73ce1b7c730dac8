//! The numbers that a reader wants first: one row per measure, one column per policy, a bar in each cell.

use std::fmt::Write as _;

use serde_json::Value;

use super::{COLOURS, array, bit_rate, escaped, micro, named, size, text, whole};

/// Which value is the better one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
    /// That depends.
    Neither,
}

/// A measure of every policy; nothing where a policy has none.
struct Row {
    label: String,
    better: Better,
    cells: Vec<Option<(f64, String)>>,
}

impl Row {
    /// The text of the best value, unless all are alike. What reads alike is as good.
    fn best(&self) -> Option<&str> {
        let values = || self.cells.iter().flatten();
        let best = match self.better {
            Better::More => values().max_by(|a, b| a.0.total_cmp(&b.0)),
            Better::Less => values().min_by(|a, b| a.0.total_cmp(&b.0)),
            Better::Neither => None,
        };
        best.map(|b| b.1.as_str()).filter(|best| values().any(|v| v.1 != *best))
    }

    fn html(&self) -> String {
        let best = self.best();
        let most = self.cells.iter().flatten().map(|c| c.0).fold(0.0, f64::max);
        let mut out = format!("<tr><th class=\"text\" scope=\"row\">{}</th>", self.label);
        for (k, cell) in self.cells.iter().enumerate() {
            let Some((value, shown)) = cell else {
                out.push_str("<td class=\"zero\">–</td>");
                continue;
            };
            let percent = if most > 0.0 { value / most * 100.0 } else { 0.0 };
            let class = if best == Some(shown.as_str()) { " class=\"best\"" } else { "" };
            let _ = write!(
                out,
                "<td><div class=\"cell\"><span{class}>{}</span><span class=\"meter\"><i \
                 style=\"width:{percent:.1}%;--p:var(--p{})\"></i></span></div></td>",
                escaped(shown),
                k % COLOURS
            );
        }
        out.push_str("</tr>");
        out
    }
}

/// Groups of all policies by name: those that wait for answers first, bulk last.
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

fn rank(kind: &str) -> usize {
    ["rr", "cbr", "replay", "stream"].iter().position(|k| *k == kind).unwrap_or(4)
}

fn group_of<'a>(policy: &'a Value, like: &Value) -> Option<&'a Value> {
    array(policy, "groups").iter().find(|g| g["name"] == like["name"])
}

fn title(group: &Value) -> String {
    match whole(&group["count"]) {
        Some(n) if n > 1 => format!("{} ×{n}", escaped(text(group, "name"))),
        _ => escaped(text(group, "name")),
    }
}

/// The table.
pub fn table(report: &Value) -> String {
    let policies = array(report, "policies");
    if policies.is_empty() {
        return "<p class=\"note\">no data</p>".into();
    }
    let span = policies.len() + 1;
    let mut body = String::new();
    let mut section = |head: String, about: &str, rows: Vec<Row>| {
        let _ = write!(
            body,
            "<tr class=\"group\"><th class=\"text\" colspan=\"{span}\">{head}<small>{about}</small></th></tr>"
        );
        body.extend(rows.iter().filter(|r| r.cells.iter().any(Option::is_some)).map(Row::html));
    };
    for group in groups(policies) {
        let about = match text(group, "kind") {
            "rr" => "request to response",
            "cbr" => "constant rate, one way",
            "replay" => "capture, one way",
            "stream" => "bulk TCP",
            _ => "",
        };
        section(title(group), about, group_rows(policies, group));
    }
    section("Bottleneck".into(), "", bottleneck_rows(policies));
    let heads: String =
        policies.iter().enumerate().map(|(k, p)| format!("<th scope=\"col\">{}</th>", named(k, p))).collect();
    // Of five columns on a page none has room for a value and, beside it, a bar that says something.
    let narrow = if policies.len() > 4 { " narrow" } else { "" };
    format!(
        "<div class=\"table{narrow}\" tabindex=\"0\"><table><thead><tr><th class=\"text\"></th>{heads}</tr></thead>\
         <tbody>{body}</tbody></table></div>"
    )
}

fn row(
    policies: &[Value],
    label: &str,
    better: Better,
    value: &dyn Fn(&Value) -> Option<(f64, String)>,
) -> Row {
    Row { label: label.into(), better, cells: policies.iter().map(value).collect() }
}

/// A count with its text.
fn counted(value: &Value, format: fn(u64) -> String) -> Option<(f64, String)> {
    whole(value).map(|n| (n as f64, format(n)))
}

fn group_rows(policies: &[Value], group: &Value) -> Vec<Row> {
    let of = |label: &str, better, value: &dyn Fn(&Value) -> Option<(f64, String)>| {
        row(policies, label, better, &|p| group_of(p, group).and_then(value))
    };
    let kind = text(group, "kind");
    let stream = kind == "stream";
    let latency = if stream { "RTT" } else { "latency" };
    let mut rows = vec![
        of(&format!("{latency} p50"), Better::Less, &|g| counted(&g["latency"]["p50_ns"], micro)),
        of(&format!("{latency} p99"), Better::Less, &|g| counted(&g["latency"]["p99_ns"], micro)),
    ];
    if kind == "rr" {
        rows.push(of("transactions/s", Better::More, &|g| {
            g["transactions_per_s"].as_f64().map(|n| (n, format!("{n:.1}")))
        }));
    } else {
        let better = if stream { Better::More } else { Better::Neither };
        rows.push(of("throughput", better, &|g| counted(&g["throughput_bit_s"], bit_rate)));
    }
    if stream {
        // Throughput is what bulk is for; who is starved sends nothing again.
        rows.rotate_right(1);
        if whole(&group["count"]).is_some_and(|n| n > 1) {
            rows.push(of("fairness (Jain)", Better::More, &|g| {
                g["jain"].as_f64().map(|n| (n, format!("{n:.3}")))
            }));
        }
        rows.push(of("sent again", Better::Neither, &|g| counted(&g["retransmitted_bytes"], size)));
    }
    rows.push(of("lost", Better::Less, &|g| counted(&g["lost"], |n| n.to_string())));
    rows
}

fn bottleneck_rows(policies: &[Value]) -> Vec<Row> {
    let total = |all: &Value| {
        let n: u64 = all.as_object()?.values().filter_map(whole).fold(0, u64::saturating_add);
        Some((n as f64, n.to_string()))
    };
    let mut rows = vec![
        row(policies, "link used", Better::More, &|p| {
            p["device"]["utilisation"].as_f64().map(|u| (u, format!("{:.1} %", u * 100.0)))
        }),
        row(policies, "dropped", Better::Neither, &|p| total(&p["drops"])),
    ];
    if policies.iter().any(|p| p["marks"].as_object().is_some_and(|m| !m.is_empty())) {
        rows.push(row(policies, "marked", Better::Neither, &|p| total(&p["marks"])));
    }
    rows.push(row(policies, "in qdiscs, mean", Better::Less, &|p| {
        counted(&array(p, "classes").first()?["backlog_bytes"]["mean"], size)
    }));
    rows.push(row(policies, "in ring, mean", Better::Less, &|p| {
        counted(&p["device"]["ring_bytes"]["mean"], size)
    }));
    rows
}

/// What a reader should know before the numbers.
pub fn verdict(report: &Value) -> String {
    let policies = array(report, "policies");
    let all = sentence(policies).into_iter().chain(starved(policies));
    all.map(|s| format!("<p class=\"verdict\">{s}</p>")).collect()
}

/// A sentence on each policy that gave nothing to some groups which another one served: their latency is in no table.
fn starved(policies: &[Value]) -> Vec<String> {
    let throughput = |p: &Value, g: &Value| whole(&group_of(p, g)?["throughput_bit_s"]);
    let served = |g: &&&Value| policies.iter().any(|p| throughput(p, g).is_some_and(|rate| rate > 0));
    let groups = groups(policies);
    let each = policies.iter().filter_map(|p| {
        let none = groups.iter().filter(served).filter(|g| throughput(p, g) == Some(0));
        let none: Vec<String> = none.map(|g| title(g)).collect();
        let name = escaped(text(p, "name"));
        (!none.is_empty()).then(|| format!("Starved with {name}: <b>{}</b>.", none.join("</b>, <b>")))
    });
    each.collect()
}

/// What the best policy does to the latency that matters most, against the first one.
fn sentence(policies: &[Value]) -> Option<String> {
    let first = policies.first()?;
    let all = groups(policies);
    let p99 = |p: &Value, g: &Value| whole(&group_of(p, g)?["latency"]["p99_ns"]);
    let group = all.into_iter().find(|g| p99(first, g).is_some())?;
    let was = p99(first, group)?;
    let what = if text(group, "kind") == "stream" { "RTT p99" } else { "p99" };
    let name = |p: &Value| escaped(text(p, "name"));
    let head = format!("{} {what}: <b>{}</b> with {}", title(group), micro(was), name(first));
    let others = policies.iter().skip(1).filter_map(|p| Some((p99(p, group)?, p)));
    Some(match others.min_by_key(|(ns, _)| *ns) {
        None => head + ".",
        Some((now, p)) => {
            let times = was as f64 / now.max(1) as f64;
            let times = match times {
                t if t >= 9.95 => format!(", {t:.0} times lower"),
                t if t >= 1.05 => format!(", {t:.1} times lower"),
                _ => String::new(),
            };
            format!("{head}, <b>{}</b> with {}{times}.", micro(now), name(p))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(name: &str, p99: u64) -> Value {
        json!({"name": name, "groups": [
            {"name": "bulk", "kind": "stream", "latency": {"p99_ns": 7}},
            {"name": "rr", "kind": "rr", "count": 4, "latency": {"p99_ns": p99}},
        ]})
    }

    #[test]
    fn the_sentence_is_about_who_waits() {
        let said = |all: &[Value]| sentence(all).unwrap_or_default();
        assert_eq!(said(&[]), "");
        assert_eq!(said(&[policy("a", 600_000_000)]), "rr ×4 p99: <b>600 ms</b> with a.");
        assert_eq!(
            said(&[policy("a", 600_000_000), policy("c", 90_000_000), policy("<b>", 20_000_000)]),
            "rr ×4 p99: <b>600 ms</b> with a, <b>20.0 ms</b> with &lt;b&gt;, 30 times lower."
        );
    }

    #[test]
    fn groups_that_got_nothing_are_named_where_another_policy_served_them() {
        let policy = |name: &str, rates: [u64; 3]| {
            let group =
                |(name, rate): (&str, u64)| json!({"name": name, "kind": "cbr", "throughput_bit_s": rate});
            let groups: Vec<Value> = ["x", "y", "z"].into_iter().zip(rates).map(group).collect();
            json!({"name": name, "groups": groups})
        };
        let all = [policy("a", [0, 0, 0]), policy("b", [5, 6, 0]), policy("c", [5, 0, 0])];
        let said = ["Starved with a: <b>x</b>, <b>y</b>.", "Starved with c: <b>y</b>."];
        assert_eq!(starved(&all), said);
        assert!(starved(&[json!({}), json!(null)]).is_empty());
    }

    #[test]
    fn the_best_is_told_apart_and_its_likes() {
        let best = |better, values: [f64; 3]| {
            let cells = values.iter().map(|v| Some((*v, format!("{v:.0}")))).collect();
            Row { label: String::new(), better, cells }.best().map(ToString::to_string)
        };
        assert_eq!(best(Better::Less, [3.0, 1.1, 1.2]), Some("1".into()));
        assert_eq!(best(Better::More, [3.0, 1.1, 1.2]), Some("3".into()));
        assert_eq!(best(Better::More, [3.0, 3.0, 3.0]), None);
        assert_eq!(best(Better::Neither, [3.0, 1.0, 2.0]), None);
    }
}
