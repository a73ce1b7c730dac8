//! A trial as one HTML file with charts, tables and data, which loads nothing from elsewhere.
//!
//! The page is made from the JSON alone, so that it shows the data of `--json` and no other. This
//! module writes the tables, for readers without JavaScript; `assets/page` draws the charts
//! from the same JSON, which the page carries. All values of the JSON are text: they are escaped
//! here, and never markup there.

use serde_json::Value;

use super::measure::Interval;
use crate::report::text::{bit_rate, time};

mod beside;
mod caveats;
mod headline;
mod places;

/// The page, with places named between double braces.
const PAGE: &str = include_str!("../../assets/report.html");
/// The parts of the page's script, which share one scope.
const SCRIPTS: [&str; 7] = [
    include_str!("../../assets/page/values.js"),
    include_str!("../../assets/page/charts.js"),
    include_str!("../../assets/page/svg.js"),
    include_str!("../../assets/page/gantt.js"),
    include_str!("../../assets/page/plan.js"),
    include_str!("../../assets/page/files.js"),
    include_str!("../../assets/page/page.js"),
];
/// Number of colours of policies in `assets/report.css`; from the ninth policy on they repeat.
const COLOURS: usize = 8;

/// Returns the page for a report written by [`Trial::to_json`](super::Trial::to_json).
///
/// Keys that are missing, null or of another type are shown as absent. If the text is not JSON, the
/// page says that there are no data.
pub fn html(report_json: &str) -> String {
    let report: Value = serde_json::from_str(report_json).unwrap_or(Value::Null);
    let title = match report.is_object() {
        true => text(&report, "title"),
        false => "This report has no data",
    };
    filled(PAGE, &|place| match place {
        "title" => escaped(title),
        "about" => escaped(text(&report, "about")),
        "setup" => setup(&report),
        "verdict" => headline::verdict(&report),
        "headline" if is_scenario(&report) => places::groups(&report),
        "headline" => headline::table(&report),
        "headline.title" => if is_scenario(&report) { "Traffic" } else { "Comparison" }.into(),
        "names" => names(&report),
        "command" => if is_scenario(&report) { "txweir lab run" } else { "txweir try" }.into(),
        "caveats" => caveats::list(&report),
        "beside" => beside::of(&report),
        "runs" => runs(&report),
        "links" => places::links(&report),
        "stages" => places::stages(&report),
        "classes" => places::classes(&report),
        "policies" => places::policies(&report),
        "model" => model(&report),
        // `<` occurs in strings only; without it no tag ends the data early.
        "data" => report.to_string().replace('<', "\\u003c"),
        "uplot.css" => include_str!("../../assets/uplot/uPlot.min.css").into(),
        "uplot.js" => include_str!("../../assets/uplot/uPlot.iife.min.js").into(),
        "report.css" => include_str!("../../assets/report.css").into(),
        "page.js" => format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPTS.concat()),
        _ => String::new(),
    })
}

/// Returns the template with its places filled. The inserted text is not searched for places: a
/// policy may contain braces.
fn filled(template: &str, fill: &dyn Fn(&str) -> String) -> String {
    let mut page = String::with_capacity(1 << 18);
    let mut parts = template.split("{{");
    page.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let (place, rest) = part.split_once("}}").unwrap_or(("", part));
        page.push_str(&fill(place));
        page.push_str(rest);
    }
    page
}

/// Escapes text for HTML or SVG, also between quotes: `&`, `<`, `>`, `"` and `'` become entities.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// True if the report is of a scenario: packets wait at each direction of each link.
fn is_scenario(report: &Value) -> bool {
    report["ways"].is_array()
}

/// Returns the objects that have qdiscs: directions of links, or policies.
fn places(report: &Value) -> &[Value] {
    array(report, if is_scenario(report) { "ways" } else { "policies" })
}

/// Returns the names of the first policies, for the title of a window.
fn names(report: &Value) -> String {
    const SHOWN: usize = 4;
    let all = array(report, "policies");
    if is_scenario(report) || all.is_empty() {
        return String::new();
    }
    let mut names: Vec<String> = all.iter().take(SHOWN).map(|p| escaped(text(p, "name"))).collect();
    if all.len() > SHOWN {
        names.push("…".into());
    }
    format!("{}: ", names.join(", "))
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or("")
}

fn array<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns a count, rounded: JSON may write it as a fraction.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|v| *v >= 0.0).map(|v| v.round() as u64))
}

fn micro(ns: u64) -> String {
    time(ns).replace("us", "µs")
}

/// Formats a value; returns a dash if there is none.
fn cell(value: &Value, format: fn(u64) -> String) -> String {
    whole(value).map_or_else(|| "–".into(), format)
}

/// Returns the name of a policy with its colour.
fn named(k: usize, policy: &Value) -> String {
    let name = escaped(text(policy, "name"));
    let colour = k % COLOURS;
    // The style sheet cuts a long name; the title has the whole one.
    format!(
        "<i class=\"dot\" style=\"--p:var(--p{colour})\"></i><span class=\"name\" title=\"{name}\">{name}</span>"
    )
}

fn setup(report: &Value) -> String {
    let bql = report["bql"].as_bool().map(|on| if on { "on" } else { "off" }.to_string());
    let warmup = whole(&report["warmup_ns"]).filter(|ns| *ns > 0).map(micro);
    let duration = whole(&report["time_ns"]).map(|ns| match &warmup {
        Some(warmup) => format!("{}, first {warmup} not measured", micro(ns)),
        None => micro(ns),
    });
    let known = |key: &str, format: fn(u64) -> String| whole(&report[key]).map(format);
    let all = [
        ("Traffic", Some(text(report, "traffic").to_string()).filter(|t| !t.is_empty())),
        ("Link", known("link_rate_bit_s", bit_rate)),
        ("RTT", known("rtt_ns", micro)),
        ("Queues", whole(&report["queues"]).filter(|n| *n > 1).map(|n| n.to_string())),
        ("Ring", known("ring", |n| n.to_string())),
        ("BQL", bql),
        ("Runs of each policy", whole(&report["interval"]["runs"]).map(|n| n.to_string())),
        ("First seed", known("seed", |n| n.to_string())),
        ("Virtual time", duration),
    ];
    // A value given with two digits needs no third one.
    let plain = |value: String| value.replace(".00 ", " ").replace(".0 ", " ");
    let known = all.into_iter().filter_map(|(name, value)| Some((name, plain(value?))));
    known.map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value))).collect()
}

/// Returns the method of the numbers, and the explanation of the marks.
fn runs(report: &Value) -> String {
    let interval = serde_json::from_value::<Interval>(report["interval"].clone()).ok();
    let Some(interval) = interval else { return String::new() };
    let said = interval.said(whole(&report["seed"]).unwrap_or(0));
    let mut letters = said.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let seeds: Vec<String> = array(report, "policies")
        .iter()
        .filter_map(|p| Some(format!("{} {}", escaped(text(p, "name")), whole(&p["shown_seed"])?)))
        .collect();
    let shown = match interval.runs {
        1 => String::new(),
        _ => format!(
            " Charts and the tables below are of one run of each policy, the one of median goodput (seed: {}).",
            seeds.join(", ")
        ),
    };
    format!("<p class=\"hint\">{first}{}.{}{shown}</p>", escaped(letters.as_str()), headline::legend(report))
}

/// Returns a table in a box of its own; the first `texts` columns are words.
fn table(heads: &[&str], texts: usize, rows: &str) -> String {
    let head = |(i, head): (usize, &&str)| match i < texts {
        true => format!("<th class=\"text\" scope=\"col\">{head}</th>"),
        false => format!("<th scope=\"col\">{head}</th>"),
    };
    let heads: String = heads.iter().enumerate().map(head).collect();
    format!(
        "<div class=\"table\" tabindex=\"0\"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn model(report: &Value) -> String {
    let tcp = match text(report, "tcp") {
        "" => "a model".into(),
        some => escaped(some),
    };
    if is_scenario(report) {
        return format!(
            "Virtual time, no hardware: the same seed gives the same numbers. Hosts and links are those of the \
             scenario. TCP is {tcp}: expect other stacks to fill and leave queues at another pace."
        );
    }
    format!(
        "Virtual time, no hardware: the same seed gives the same numbers. Two hosts and one bottleneck, whose transmit \
         side has the policy, the ring and the byte limit; the way back is wide and empty. TCP is {tcp}: conclude \
         nothing about marks (ECN) from it, and expect other stacks to fill and leave queues at another pace."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        assert_eq!(filled("a{{x}}b{{y}}c", &|p| format!("<{p}{{{{x}}}}>")), "a<x{{x}}>b<y{{x}}>c");
        assert_eq!(filled("a{{x", &|p| p.to_uppercase()), "ax");
    }

    #[test]
    fn text_is_escaped_for_elements_and_attributes() {
        assert_eq!(escaped("<a b='c'>&\"µ"), "&lt;a b=&#39;c&#39;&gt;&amp;&quot;µ");
    }

    #[test]
    fn assets_do_not_end_their_own_elements() {
        let page = html("{}");
        assert_eq!(page.matches("</script").count(), 3, "data, uPlot, report");
        assert_eq!(page.matches("</style").count(), 2);
    }
}
