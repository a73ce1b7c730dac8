//! Published experiments, run again in virtual time by txweir's own transmit path, and set beside what was
//! published: every row with its band, and every parameter with where it comes from.

mod bql;

use std::fmt;

/// A published quantity: a number, or the range that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Least.
    pub low: f64,
    /// Most; equal to the least if one number was published.
    pub high: f64,
}

impl Published {
    /// One number.
    pub const fn one(n: f64) -> Self {
        Self { low: n, high: n }
    }
    /// A range.
    pub const fn range(low: f64, high: f64) -> Self {
        Self { low, high }
    }
    fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

/// How far a measured value may be from the published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// So many percent below the least and above the most.
    Percent(f64),
    /// Down to the least over this, up to the most times this.
    Factor(f64),
    /// So much below the least and above the most, in the unit of the row.
    Absolute(f64),
}

impl Band {
    fn bounds(self, p: Published) -> (f64, f64) {
        match self {
            Self::Percent(n) => (p.low * (1.0 - n / 100.0), p.high * (1.0 + n / 100.0)),
            Self::Factor(f) => (p.low / f, p.high * f),
            Self::Absolute(n) => (p.low - n, p.high + n),
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(n) => write!(f, "+-{n} %"),
            Self::Factor(n) => write!(f, "{n}x"),
            Self::Absolute(n) => write!(f, "+-{}", figure(*n)),
        }
    }
}

/// One line of the comparison.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which experiment.
    pub experiment: &'static str,
    /// Which case of it.
    pub row: String,
    /// What was measured.
    pub metric: &'static str,
    /// In which unit.
    pub unit: &'static str,
    /// What was published, or what the controller's law says where `law` is set.
    pub published: Published,
    /// The expectation is a law, not a published measurement.
    pub law: bool,
    /// What was measured here.
    pub measured: f64,
    /// How far it may be off.
    pub band: Band,
    /// The parameter that was fitted on this very row, if one was: then it predicts nothing.
    pub fitted: Option<&'static str>,
}

impl Row {
    /// Measured over published (over the middle of a range).
    pub fn ratio(&self) -> f64 {
        match self.published.middle() {
            0.0 => 0.0,
            m => self.measured / m,
        }
    }
    /// True if the measured value lies in the band.
    pub fn within(&self) -> bool {
        let (low, high) = self.band.bounds(self.published);
        (low..=high).contains(&self.measured)
    }
}

/// An experiment that can be run.
pub struct Experiment {
    /// The name to ask for.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Where it was published, and where each parameter comes from.
    pub sources: &'static [&'static str],
    run: Run,
}

/// Runs an experiment, telling what begins.
type Run = fn(&mut dyn FnMut(&str)) -> Result<Vec<Row>, String>;

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[bql::EXPERIMENT];

/// Runs the experiment of this name, or all; `progress` is told what begins.
///
/// # Errors
/// There is no experiment of that name.
pub fn run(name: Option<&str>, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    let chosen: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| name.is_none_or(|n| n == e.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|e| e.name).collect();
        let given = name.unwrap_or("");
        return Err(format!("experiment: expected one of {}, given \"{given}\"", names.join(", ")));
    }
    let mut rows = Vec::new();
    for e in chosen {
        rows.extend((e.run)(progress)?);
    }
    Ok(rows)
}

/// A number with as many digits as are worth reading: `3.11M`, `453K`, `36`, `0.55`.
fn figure(n: f64) -> String {
    match n.abs() {
        a if a >= 9_999_500.0 => format!("{:.1}M", n / 1e6),
        a if a >= 999_500.0 => format!("{:.2}M", n / 1e6),
        a if a >= 99_950.0 => format!("{:.0}K", n / 1e3),
        a if a >= 10_000.0 => format!("{:.1}K", n / 1e3),
        a if a >= 99.95 => format!("{n:.0}"),
        a if a >= 9.995 => format!("{n:.1}"),
        _ => format!("{n:.2}"),
    }
}

/// The rows as a table for reading, with their sources and a sum.
pub fn table(rows: &[Row]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for e in EXPERIMENTS.iter().filter(|e| rows.iter().any(|r| r.experiment == e.name)) {
        let _ = writeln!(out, "{}: {}\n", e.name, e.about);
        let head = ["case", "metric", "published", "measured", "ratio", "band", ""];
        let _ = writeln!(
            out,
            "  {:26} {:20} {:>14} {:>9} {:>6} {:>9}  {}",
            head[0], head[1], head[2], head[3], head[4], head[5], head[6]
        );
        let mut case = "";
        for r in rows.iter().filter(|r| r.experiment == e.name) {
            let shown = if r.row == case { "" } else { r.row.as_str() };
            case = &r.row;
            let Published { low, high } = r.published;
            let published =
                if low == high { figure(low) } else { format!("{} - {}", figure(low), figure(high)) };
            let published = if r.law { format!("law {published}") } else { published };
            let verdict = match (r.within(), r.fitted) {
                (true, None) => "within".into(),
                (false, None) => "OUTSIDE".into(),
                (_, Some(what)) => format!("fitted here: {what}"),
            };
            let _ = writeln!(
                out,
                "  {shown:26} {:20} {published:>14} {:>9} {:>6.3} {:>9}  {verdict}",
                format!("{} ({})", r.metric, r.unit),
                figure(r.measured),
                r.ratio(),
                r.band.to_string(),
            );
        }
        out.push('\n');
        for s in e.sources {
            let _ = writeln!(out, "  {s}");
        }
        out.push('\n');
    }
    let predicted: Vec<&Row> = rows.iter().filter(|r| r.fitted.is_none()).collect();
    let within = predicted.iter().filter(|r| r.within()).count();
    let _ = writeln!(
        out,
        "{within} of {} predicted rows within their band; {} rows were used for fitting and predict nothing",
        predicted.len(),
        rows.len() - predicted.len()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(published: Published, measured: f64, band: Band) -> Row {
        Row {
            experiment: "bql",
            row: "x".into(),
            metric: "tps",
            unit: "1/s",
            published,
            law: false,
            measured,
            band,
            fitted: None,
        }
    }

    #[test]
    fn bands_are_around_the_published_range() {
        assert!(row(Published::range(156.0, 194.0), 200.0, Band::Percent(10.0)).within());
        assert!(!row(Published::range(156.0, 194.0), 214.0, Band::Percent(10.0)).within());
        assert!(row(Published::one(100.0), 51.0, Band::Factor(2.0)).within());
        assert!(!row(Published::one(100.0), 49.0, Band::Factor(2.0)).within());
        assert!(!row(Published::one(100.0), 102.0, Band::Absolute(1.0)).within());
    }

    #[test]
    fn figures_are_short() {
        let shown = [3_106_943.0, 453_000.0, 63_615.0, 8410.0, 36.04, 0.5].map(figure);
        assert_eq!(shown, ["3.11M", "453K", "63.6K", "8410", "36.0", "0.50"]);
    }

    #[test]
    fn an_unknown_experiment_is_refused() {
        let err = run(Some("bqll"), &mut |_| {}).unwrap_err();
        assert_eq!(err, "experiment: expected one of bql, given \"bqll\"");
    }
}
