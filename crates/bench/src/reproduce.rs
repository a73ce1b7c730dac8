//! Published experiments, run again in virtual time by txweir's own transmit path, beside the
//! published numbers: every row with its band, and every parameter with its source.

mod bql;
mod dragonfly;
mod fairsend;
mod mqprio;
mod plot;
mod prioack;
mod summary;

use std::fmt;
use std::num::NonZeroUsize;
use std::thread;

use txweir_lab::workers;

use plot::Plot;
pub use summary::{Headline, Place, Summed, summary};

/// A published quantity: a number, or the range that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Least.
    pub low: f64,
    /// Greatest; equal to the least if one number was published.
    pub high: f64,
}

impl Published {
    /// Creates a quantity of one number.
    pub const fn one(n: f64) -> Self {
        Self { low: n, high: n }
    }
    /// Creates a quantity of a range.
    pub const fn range(low: f64, high: f64) -> Self {
        Self { low, high }
    }
    fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
    /// Renders the number, or both ends with `to` between them.
    fn shown(self, to: &str) -> String {
        match self {
            Self { low, high } if low == high => figure(low),
            Self { low, high } => format!("{}{to}{}", figure(low), figure(high)),
        }
    }
}

/// The allowed distance of a measured value from the published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// This number of percent below the least and above the greatest.
    Percent(f64),
    /// Down to the least over this, up to the greatest times this.
    Factor(f64),
    /// This distance below the least and above the greatest, in the unit of the row.
    Absolute(f64),
    /// This or less, whatever was published.
    AtMost(f64),
    /// This or more, whatever was published.
    AtLeast(f64),
    /// From the first to the second, both included, whatever was published.
    Between(f64, f64),
}

impl Band {
    fn bounds(self, p: Published) -> (f64, f64) {
        match self {
            Self::Percent(n) => (p.low * (1.0 - n / 100.0), p.high * (1.0 + n / 100.0)),
            Self::Factor(f) => (p.low / f, p.high * f),
            Self::Absolute(n) => (p.low - n, p.high + n),
            Self::AtMost(n) => (f64::NEG_INFINITY, n),
            Self::AtLeast(n) => (n, f64::INFINITY),
            Self::Between(low, high) => (low, high),
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(n) => write!(f, "+-{n} %"),
            Self::Factor(n) => write!(f, "{n}x"),
            Self::Absolute(n) => write!(f, "+-{}", figure(*n)),
            Self::AtMost(n) => write!(f, "<= {}", figure(*n)),
            Self::AtLeast(n) => write!(f, ">= {}", figure(*n)),
            Self::Between(low, high) => write!(f, "{low}-{high}"),
        }
    }
}

/// One line of the comparison.
#[derive(Clone, Debug)]
pub struct Row {
    /// The experiment.
    pub experiment: &'static str,
    /// The case of the experiment.
    pub row: String,
    /// The measured quantity.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The published value, or that of a law where `law` is set; `None` if there is no published
    /// measurement.
    pub published: Option<Published>,
    /// True if the expectation is a law, not a published measurement.
    pub law: bool,
    /// The value measured here.
    pub measured: f64,
    /// The allowed distance; without a published value it has no meaning.
    pub band: Band,
    /// The parameter that was fitted on this very row, if one was: then the row predicts nothing.
    /// A ratio of two fitted rows is fitted as well.
    pub fitted: Option<&'static str>,
    /// The number that this row repeats by arithmetic, if it repeats one: a load below the line's
    /// rate, a fitted row of an equal class. Then the row is counted with the laws.
    pub follows: Option<&'static str>,
}

/// The use of a row in the count of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A published measurement that the model predicts.
    Predicted,
    /// A number that arithmetic gives: a law, or another row's number.
    Arithmetic,
    /// A row on which a parameter was fitted.
    Fitted,
    /// A row without a published value.
    Unpublished,
}

impl Row {
    /// Returns a row of a measured value alone: the metric, its unit and the value.
    pub fn measured(
        experiment: &'static str,
        row: String,
        (metric, unit): (&'static str, &'static str),
        measured: f64,
    ) -> Self {
        let (published, band) = (None, Band::Percent(0.0));
        let (law, fitted, follows) = (false, None, None);
        Self { experiment, row, metric, unit, published, law, measured, band, fitted, follows }
    }

    /// Returns the row with an expected value and the allowed distance from it.
    pub fn beside(self, published: Published, band: Band) -> Self {
        Self { published: Some(published), band, ..self }
    }

    /// Returns the use of this row.
    pub(crate) const fn counts_as(&self) -> Use {
        match (self.published.is_some(), self.fitted.is_some(), self.law || self.follows.is_some()) {
            (false, ..) => Use::Unpublished,
            (true, true, _) => Use::Fitted,
            (true, false, true) => Use::Arithmetic,
            (true, false, false) => Use::Predicted,
        }
    }
    /// Returns measured over published (over the middle of a range); `None` if no value was
    /// published.
    pub fn ratio(&self) -> Option<f64> {
        self.published.map(|p| match p.middle() {
            0.0 => 0.0,
            m => self.measured / m,
        })
    }
    /// True if the measured value lies in the band; `None` if no value was published.
    pub fn within(&self) -> Option<bool> {
        let (low, high) = self.band.bounds(self.published?);
        Some((low..=high).contains(&self.measured))
    }
    /// Renders one line of a table below those of `case`.
    fn line(&self, case: &str) -> String {
        let shown = if self.row == case { "" } else { self.row.as_str() };
        let published = self.published.map_or_else(|| "-".into(), |p| p.shown(" - "));
        let published = if self.law { format!("law {published}") } else { published };
        let verdict = match (self.within(), self.fitted) {
            (None, _) => "not published".into(),
            (Some(true), None) => "within".into(),
            (Some(false), None) => "OUTSIDE".into(),
            (Some(_), Some(what)) => format!("fitted here: {what}"),
        };
        let verdict = match self.follows {
            Some(what) if self.fitted.is_none() => format!("{verdict}, follows from {what}"),
            _ => verdict,
        };
        let band = if self.published.is_some() { self.band.to_string() } else { "-".into() };
        format!(
            "  {shown:26} {:20} {published:>14} {:>9} {:>6} {band:>9}  {verdict}",
            format!("{} ({})", self.metric, self.unit),
            figure(self.measured),
            self.ratio().map_or_else(|| "-".into(), |r| format!("{r:.3}")),
        )
    }
}

/// An experiment that can be run.
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The publication, and the source of each parameter.
    pub sources: &'static [&'static str],
    /// The figure that stands for the whole in the summary.
    pub headline: Headline,
    plot: &'static Plot,
    run: Run,
}

/// The runs of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those that a published value needs.
    Published,
    /// Those of which nothing is published too.
    Every,
}

/// Runs an experiment; the callback gets the name of each part before it begins.
type Run = fn(Extent, &mut dyn FnMut(&str)) -> Result<Vec<Row>, String>;

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] =
    &[bql::EXPERIMENT, fairsend::EXPERIMENT, mqprio::EXPERIMENT, prioack::EXPERIMENT];

/// Runs the experiment of this name, or all; `progress` gets the name of each part before it
/// begins.
///
/// # Errors
/// There is no experiment of that name.
pub fn run(name: Option<&str>, extent: Extent, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    let chosen: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| name.is_none_or(|n| n == e.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|e| e.name).collect();
        let given = name.unwrap_or("");
        return Err(format!("experiment: expected one of {}, given \"{given}\"", names.join(", ")));
    }
    let mut rows = Vec::new();
    for e in chosen {
        rows.extend((e.run)(extent, progress)?);
    }
    Ok(rows)
}

/// Does `jobs` independent runs, at most one for each processor at a time. Returns their results in
/// order: the same on any machine.
fn each<T: Send>(jobs: usize, run: impl Fn(usize) -> Result<T, String> + Sync) -> Result<Vec<T>, String> {
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    workers::run(jobs, threads, |job, _| run(job), &mut |_| {})
}

/// Renders a number with the digits that are worth reading: `3.11M`, `453K`, `36`, `0.55`.
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

/// Renders the rows as a picture: SVG, light or dark by the reader's scheme. The published value
/// stands below the measured one.
pub fn svg(rows: &[Row]) -> String {
    let of = |e: &'static Experiment| {
        let its: Vec<&Row> = rows.iter().filter(|r| r.experiment == e.name).collect();
        (e, its)
    };
    let shown: Vec<_> = EXPERIMENTS.iter().map(of).filter(|(_, its)| !its.is_empty()).collect();
    plot::svg(&shown)
}

/// Returns the number of rows of a use that lie within their bands, and the number of all of them.
pub fn counted(rows: &[Row], use_of: Use) -> [usize; 2] {
    let all = || rows.iter().filter(|r| r.counts_as() == use_of);
    [all().filter(|r| r.within() == Some(true)).count(), all().count()]
}

/// Renders the rows as a table for reading, with their sources and a sum.
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
            let _ = writeln!(out, "{}", r.line(case));
            case = &r.row;
        }
        out.push('\n');
        for s in e.sources {
            let _ = writeln!(out, "  {s}");
        }
        out.push('\n');
    }
    let ([predicted, of], [arithmetic, of_arithmetic]) =
        (counted(rows, Use::Predicted), counted(rows, Use::Arithmetic));
    let [_, fitted] = counted(rows, Use::Fitted);
    let _ = writeln!(
        out,
        "{predicted} of {of} predicted rows within their band; {arithmetic} of {of_arithmetic} rows that follow from \
         arithmetic within theirs; {fitted} rows were used for fitting and predict nothing"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(published: Published, measured: f64, band: Band) -> Row {
        Row::measured("bql", "x".into(), ("tps", "1/s"), measured).beside(published, band)
    }

    #[test]
    fn bands_are_around_the_published_range() {
        let within = |published, measured, band| row(published, measured, band).within().unwrap();
        assert!(within(Published::range(156.0, 194.0), 200.0, Band::Percent(10.0)));
        assert!(!within(Published::range(156.0, 194.0), 214.0, Band::Percent(10.0)));
        assert!(within(Published::one(100.0), 51.0, Band::Factor(2.0)));
        assert!(!within(Published::one(100.0), 49.0, Band::Factor(2.0)));
        assert!(!within(Published::one(100.0), 102.0, Band::Absolute(1.0)));
        assert!(within(Published::one(100.0), 9.0, Band::AtMost(9.0)));
        assert!(!within(Published::one(100.0), 9.1, Band::AtMost(9.0)));
        assert!(!within(Published::one(100.0), 39.0, Band::AtLeast(40.0)));
        let between = Band::Between(1.0005, 1.05);
        assert_eq!([1.0, 1.01, 1.06].map(|n| within(Published::one(1.0), n, between)), [false, true, false]);
        assert_eq!(between.to_string(), "1.0005-1.05");
    }

    #[test]
    fn what_nobody_has_measured_is_not_judged() {
        let known = row(Published::one(100.0), 100.0, Band::Percent(1.0));
        let unknown = Row { published: None, ..known.clone() };
        assert_eq!((unknown.within(), unknown.ratio()), (None, None));
        assert_eq!(
            unknown.line("x"),
            "                             tps (1/s)                         -       100      -         -  not published"
        );
        let fitted = Row { fitted: Some("tps"), ..known.clone() };
        let law = Row { law: true, measured: 102.0, ..known.clone() };
        let follows = Row { follows: Some("the load"), ..known.clone() };
        assert!(follows.line("x").ends_with("within, follows from the load"));
        let sum = "\n1 of 1 predicted rows within their band; 1 of 2 rows that follow from arithmetic within theirs; \
                   1 rows were used for fitting and predict nothing\n";
        assert!(table(&[known, unknown, fitted, law, follows]).ends_with(sum));
    }

    #[test]
    fn figures_are_short() {
        let shown = [3_106_943.0, 453_000.0, 63_615.0, 8410.0, 36.04, 0.5].map(figure);
        assert_eq!(shown, ["3.11M", "453K", "63.6K", "8410", "36.0", "0.50"]);
    }

    #[test]
    fn an_unknown_experiment_is_refused() {
        let err = run(Some("bqll"), Extent::Every, &mut |_| {}).unwrap_err();
        assert_eq!(err, "experiment: expected one of bql, fairsend, mqprio, prio-ack, given \"bqll\"");
    }
}
