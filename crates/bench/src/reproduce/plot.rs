//! The rows of a comparison as a picture: the published value below the measured one, case by case,
//! as SVG.
//!
//! It is drawn from the rows alone, and the same rows give the same text. Colours follow the
//! reader's scheme, light or dark; shapes tell the same as colours.

use std::fmt::Write as _;

use super::{Experiment, Published, Row};
use txweir_lab::trial::html::escaped;

/// The drawn parts of an experiment.
pub(super) struct Plot {
    /// The panels, side by side, over the same cases.
    pub(super) panels: &'static [Panel],
    /// Cases that are not drawn: sums, which would take the axis for themselves.
    pub(super) without: &'static [&'static str],
}

/// Some metrics of one unit over an axis.
pub(super) struct Panel {
    /// The title of the axis, with its unit.
    pub(super) title: &'static str,
    /// The metrics of the marks; a case has one of them.
    pub(super) metrics: &'static [&'static str],
    /// The metrics at the ends of the lines through the marks.
    pub(super) spread: Option<[&'static str; 2]>,
    /// True if each factor of ten has the same room.
    pub(super) log: bool,
    /// The panel's share of the width, beside those of the others.
    pub(super) share: u32,
}

const WIDTH: f64 = 880.0;
/// Room for the names of cases.
const LABELS: f64 = 136.0;
/// Room between panels, and to the right of the last.
const GAP: f64 = 26.0;
/// Distance from one case to the next, and the height above the first of a group.
const PITCH: f64 = 15.0;
const GROUP: f64 = 26.0;
/// Height above the cases of an experiment: its line, the titles, the numbers of the axes.
const HEAD: f64 = 66.0;
const LEGEND: f64 = 34.0;
/// Distance of the measured mark above the middle of its case's line, and of the published one
/// below.
const APART: f64 = 2.8;

const STYLE: &str = "\
    text { fill: #1f2328; }
    .b { font-weight: 600; }
    .n { font-size: 11px; fill: #57606a; }
    .e { text-anchor: end; }
    .m { text-anchor: middle; }
    .g { stroke: #d0d7de; }
    .s { fill: #818b98; fill-opacity: 0.09; }
    .x { fill: #0969da; stroke: #0969da; stroke-width: 1.5; }
    .o { fill: #cf222e; stroke: #cf222e; }
    .f { fill: none; }
    .p { fill: none; stroke: #9a5b00; stroke-width: 1.5; }
    .l { fill: none; stroke: #57606a; stroke-width: 1.5; }
    .t { stroke-width: 1; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .n { fill: #9198a1; }
      .g { stroke: #30363d; }
      .x { fill: #58a6ff; stroke: #58a6ff; }
      .o { fill: #ff7b72; stroke: #ff7b72; }
      .f { fill: none; }
      .p { stroke: #d29922; }
      .l { stroke: #9198a1; }
    }
";

/// A case: its name within its group, and its rows.
type Line<'a> = (&'a str, Vec<&'a Row>);

/// Renders the picture of some experiments, one below the other.
pub(super) fn svg(experiments: &[(&Experiment, Vec<&Row>)]) -> String {
    let mut body = String::new();
    let mut y = LEGEND;
    for (e, rows) in experiments {
        y = experiment(&mut body, y, e, rows);
    }
    let names: Vec<&str> = experiments.iter().map(|e| e.0.name).collect();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {y:.0}\" width=\"{WIDTH:.0}\" \
         height=\"{y:.0}\" role=\"img\" aria-labelledby=\"t d\" font-family=\"ui-sans-serif, system-ui, -apple-system, \
         'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\">"
    );
    let _ = writeln!(out, "  <title id=\"t\">{}: published and measured</title>", names.join(", "));
    let _ = writeln!(
        out,
        "  <desc id=\"d\">For each case the measured value and below it the published one. The numbers are those that \
         txweir lab reproduce prints.</desc>"
    );
    let _ = write!(out, "  <style>\n{STYLE}  </style>\n{}{body}</svg>\n", legend());
    out
}

fn legend() -> String {
    type Mark = fn(&mut String, f64);
    let entries: [(Mark, &str); 5] = [
        (|out, x| measured(out, x, 16.0, "x"), "measured"),
        (|out, x| measured(out, x, 16.0, "x o"), "measured, outside its band"),
        (|out, x| measured(out, x, 16.0, "x f"), "fitted on this very row"),
        (|out, x| published(out, [x, x], 16.0), "published"),
        (|out, x| law(out, x, 16.0), "a law"),
    ];
    let (mut out, mut x) = (String::new(), LABELS);
    for (mark, words) in entries {
        mark(&mut out, x + 4.0);
        text(&mut out, x + 14.0, 20.0, "n", words);
        x += 34.0 + 5.6 * words.len() as f64;
    }
    out
}

/// Draws an experiment below `top`. Returns its lower end.
fn experiment(out: &mut String, top: f64, e: &Experiment, rows: &[&Row]) -> f64 {
    let groups = groups(e.plot, rows);
    text(out, 8.0, top + 16.0, "b", e.name);
    text(out, LABELS, top + 16.0, "n", e.about);
    let first = top + HEAD;
    let mut end = first;
    for (name, lines) in &groups {
        let height = GROUP + PITCH * lines.len() as f64;
        let wide = WIDTH - 8.0;
        let (y, high) = (end + 2.0, height - 4.0);
        let _ = writeln!(
            out,
            "  <rect class=\"s\" x=\"4\" y=\"{y:.1}\" width=\"{wide}\" height=\"{high:.1}\" rx=\"4\"/>"
        );
        text(out, 10.0, end + 17.0, "b", name);
        for (i, (label, _)) in lines.iter().enumerate() {
            text(out, LABELS - 10.0, middle(end, i) + 4.0, "n e", label);
        }
        end += height;
    }
    let shares: u32 = e.plot.panels.iter().map(|p| p.share).sum();
    let room = WIDTH - LABELS - GAP * e.plot.panels.len() as f64;
    let mut left = LABELS;
    for panel in e.plot.panels {
        let width = room * f64::from(panel.share) / f64::from(shares.max(1));
        let Some(axis) = Axis::of(panel, rows, e.plot, left, width) else { continue };
        text(out, left, first - 26.0, "", panel.title);
        for (at, label) in axis.ticks() {
            let x = axis.x(at);
            let _ = writeln!(out, "  <path class=\"g\" d=\"M{x:.1} {:.1}V{:.1}\"/>", first - 2.0, end - 2.0);
            text(out, x, first - 8.0, "n m", &label);
        }
        let mut y = first;
        for (_, lines) in &groups {
            for (i, (_, of_case)) in lines.iter().enumerate() {
                case(out, panel, &axis, of_case, middle(y, i));
            }
            y += GROUP + PITCH * lines.len() as f64;
        }
        left += width + GAP;
    }
    end + 10.0
}

/// Returns the middle of a case's line below the top of its group.
fn middle(top: f64, index: usize) -> f64 {
    top + GROUP - 4.0 + PITCH * (index as f64 + 0.5)
}

/// Returns the cases in the order of their rows, under the common part of their names.
fn groups<'a>(plot: &Plot, rows: &[&'a Row]) -> Vec<(&'a str, Vec<Line<'a>>)> {
    let mut groups: Vec<(&str, Vec<Line<'_>>)> = Vec::new();
    for row in rows.iter().filter(|r| plot.panels.iter().any(|p| p.shows(r))) {
        let (group, label) = halves(row);
        if plot.without.contains(&label) {
            continue;
        }
        if groups.last().is_none_or(|g| g.0 != group) {
            groups.push((group, Vec::new()));
        }
        let Some((_, lines)) = groups.last_mut() else { continue };
        match lines.last_mut().filter(|l| l.0 == label) {
            Some((_, of_case)) => of_case.push(row),
            None => lines.push((label, vec![row])),
        }
    }
    groups
}

/// Splits `group: case`, or `group, case`.
fn halves(row: &Row) -> (&str, &str) {
    let name = &*row.row;
    name.split_once(": ").or_else(|| name.split_once(", ")).unwrap_or(("", name))
}

impl Panel {
    fn shows(&self, row: &Row) -> bool {
        self.metrics.contains(&row.metric) || self.spread.is_some_and(|s| s.contains(&row.metric))
    }
}

/// Draws the part of a panel for one case.
fn case(out: &mut String, panel: &Panel, axis: &Axis, rows: &[&Row], y: f64) {
    let Some(row) = rows.iter().find(|r| panel.metrics.contains(&r.metric)) else { return };
    let end = |i: usize| rows.iter().find(|r| panel.spread.is_some_and(|s| s[i] == r.metric));
    let (low, high) = (end(0), end(1));
    let mut reach = |class: &str, y: f64, from: f64, to: f64| {
        if from < to {
            let (from, to) = (axis.x(from), axis.x(to));
            let _ = writeln!(out, "  <path class=\"{class} t\" d=\"M{from:.1} {y:.1}H{to:.1}\"/>");
        }
    };
    let of = |r: Option<&&Row>| r.map_or(row.measured, |r| r.measured);
    reach("x", y - APART, of(low), of(high));
    if let Some(p) = row.published {
        // Without a spread there is the diamond alone.
        let of = |r: Option<&&Row>| r.and_then(|r| r.published).unwrap_or(Published::one(p.middle()));
        reach("p", y + APART, of(low).low, of(high).high);
        match row.law {
            true => law(out, axis.x(p.middle()), y + APART),
            false => published(out, [axis.x(p.low), axis.x(p.high)], y + APART),
        }
    }
    let class = match (row.fitted.is_some(), row.within()) {
        (true, _) => "x f",
        (false, Some(false)) => "x o",
        (false, _) => "x",
    };
    for end in [low, high].into_iter().flatten().filter(|r| r.within() == Some(false)) {
        measured(out, axis.x(end.measured), y - APART, "x o");
    }
    measured(out, axis.x(row.measured), y - APART, class);
}

/// Draws a disc; a ring where the row was fitted, a square where it is outside its band.
fn measured(out: &mut String, x: f64, y: f64, class: &str) {
    let _ = match class {
        "x o" => writeln!(
            out,
            "  <rect class=\"x o\" x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"5\"/>",
            x - 2.5,
            y - 2.5
        ),
        _ => writeln!(out, "  <circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>"),
    };
}

/// Draws a diamond, as wide as the range.
fn published(out: &mut String, [from, to]: [f64; 2], y: f64) {
    let (left, right) = (from - 3.2, to + 3.2);
    let across = to - from;
    let _ = writeln!(
        out,
        "  <path class=\"p\" d=\"M{left:.1} {y:.1}l3.2 -3.2h{across:.1}L{right:.1} {y:.1}l-3.2 3.2h-{across:.1}z\"/>"
    );
}

/// Draws an upright stroke.
fn law(out: &mut String, x: f64, y: f64) {
    let _ = writeln!(out, "  <path class=\"l\" d=\"M{x:.1} {:.1}v6\"/>", y - 3.0);
}

fn text(out: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let _ = writeln!(out, "  <text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(words));
}

/// The map from numbers to places.
struct Axis {
    log: bool,
    from: f64,
    to: f64,
    left: f64,
    width: f64,
    unit: &'static str,
}

impl Axis {
    /// Creates an axis that has room for every value of a panel; `None` if there is none.
    fn of(panel: &Panel, rows: &[&Row], plot: &Plot, left: f64, width: f64) -> Option<Self> {
        let shown = || rows.iter().filter(|r| panel.shows(r) && !plot.without.contains(&halves(r).1));
        let unit = shown().next()?.unit;
        let both = |r: &&Row| {
            let Published { low, high } = r.published.unwrap_or(Published::one(r.measured));
            [low, high, r.measured]
        };
        // A logarithmic axis has no zero: a zero stands at its left end.
        let values = || shown().flat_map(both).filter(|v| !panel.log || *v >= 1.0);
        let most = values().fold(1.0, f64::max);
        let (from, to) = match panel.log {
            true => (round(values().fold(most, f64::min), false), round(most, true)),
            false => (0.0, most),
        };
        Some(Self { log: panel.log, from, to: to.max(from * 2.0), left, width, unit })
    }

    fn x(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let part = match self.log {
            true => (value / self.from).log10() / (self.to / self.from).log10(),
            false => value / self.to,
        };
        self.left + self.width * part
    }

    /// Returns the places of the lines, and their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        let step = round(self.to / 5.0, true);
        let all = (0..16).map(|i| if self.log { 10f64.powi(i) } else { f64::from(i) * step });
        let all = all.filter(|v| (self.from..=self.to).contains(v));
        all.map(|v| (v, label(v, self.unit))).collect()
    }
}

/// Returns the next of 1, 2, 5, 10, 20, ... at or below a number from 1 on, or at or above it.
fn round(n: f64, up: bool) -> f64 {
    let steps = || (0..16).flat_map(|i| [1.0, 2.0, 5.0].map(|s| s * 10f64.powi(i)));
    match up {
        true => steps().find(|s| *s >= n).unwrap_or(n),
        false => steps().take_while(|s| *s <= n).last().unwrap_or(n),
    }
}

/// Renders a round number, short: `500`, `10K`; times with the unit that suits them.
fn label(n: f64, unit: &str) -> String {
    match (unit, n) {
        ("us", n) if n >= 1e3 => format!("{} ms", n / 1e3),
        ("us", n) => format!("{n} us"),
        (_, n) if n >= 1e6 => format!("{}M", n / 1e6),
        (_, n) if n >= 1e4 => format!("{}K", n / 1e3),
        (_, n) => format!("{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Band;

    const PANEL: Panel = Panel { title: "x", metrics: &["tps"], spread: None, log: true, share: 1 };

    fn row(name: &str, published: Option<f64>, measured: f64) -> Row {
        let row = Row::measured("bql", name.into(), ("tps", "1/s"), measured);
        Row { published: published.map(Published::one), band: Band::Factor(2.0), ..row }
    }

    #[test]
    fn an_axis_begins_and_ends_at_round_numbers_around_all_that_is_shown() {
        let plot = Plot { panels: &[PANEL], without: &["all"] };
        let rows = [row("a: 1", Some(7.9), 60.0), row("a: 2", None, 0.0), row("a: all", None, 1e6)];
        let axis = Axis::of(&PANEL, &rows.iter().collect::<Vec<_>>(), &plot, 100.0, 130.0).unwrap();
        assert_eq!((axis.from, axis.to), (5.0, 100.0));
        assert_eq!([5.0, 0.0, 100.0, 1e6].map(|v| axis.x(v)), [100.0, 100.0, 230.0, 230.0]);
        assert_eq!(axis.ticks(), [(10.0, "10".to_string()), (100.0, "100".to_string())]);
        let linear = Axis { log: false, from: 0.0, to: 556.0, left: 0.0, width: 556.0, unit: "Mbit/s" };
        assert_eq!(linear.ticks().iter().map(|t| t.0).collect::<Vec<_>>(), [0.0, 200.0, 400.0]);
        assert_eq!(linear.x(400.0), 400.0);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([10.0, 1e3, 1e5].map(|n| label(n, "us")), ["10 us", "1 ms", "100 ms"]);
        assert_eq!([500.0, 1e4, 1e6].map(|n| label(n, "bytes")), ["500", "10K", "1M"]);
    }

    #[test]
    fn cases_stand_below_what_they_have_in_common() {
        let plot = Plot { panels: &[PANEL], without: &["all"] };
        let rows =
            ["mq: class 0", "mq: class 1", "mq: all", "2 q, BQL, fifo"].map(|name| row(name, None, 1.0));
        let rows: Vec<&Row> = rows.iter().collect();
        let groups = groups(&plot, &rows);
        let names: Vec<(&str, Vec<&str>)> =
            groups.iter().map(|(g, lines)| (*g, lines.iter().map(|l| l.0).collect())).collect();
        assert_eq!(names, [("mq", vec!["class 0", "class 1"]), ("2 q", vec!["BQL, fifo"])]);
    }

    /// A mark's shape shows the state of its value.
    #[test]
    fn marks_differ_by_more_than_their_colour() {
        let drawn = |r: Row| {
            let mut out = String::new();
            let axis = Axis { log: true, from: 1.0, to: 100.0, left: 0.0, width: 100.0, unit: "1/s" };
            case(&mut out, &PANEL, &axis, &[&r], 50.0);
            out
        };
        let known = row("a: 1", Some(10.0), 10.0);
        let shapes = |text: &str| {
            ["<circle class=\"x\"", "<circle class=\"x f\"", "<rect class=\"x o\"", "l3.2 -3.2", "v6"]
                .map(|s| text.matches(s).count())
        };
        assert_eq!(shapes(&drawn(known.clone())), [1, 0, 0, 1, 0]);
        assert_eq!(shapes(&drawn(row("a: 1", Some(10.0), 90.0))), [0, 0, 1, 1, 0]);
        assert_eq!(shapes(&drawn(Row { fitted: Some("rate"), ..known.clone() })), [0, 1, 0, 1, 0]);
        assert_eq!(shapes(&drawn(Row { law: true, ..known.clone() })), [1, 0, 0, 0, 1]);
        assert_eq!(shapes(&drawn(Row { published: None, ..known })), [1, 0, 0, 0, 0]);
    }
}
