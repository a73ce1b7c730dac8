//! All experiments in one small table: a line each.

use super::{Row, Use, counted, figure};

/// The figure of an experiment that stands for the whole: two rows of it.
#[derive(Clone, Copy, Debug)]
pub struct Headline {
    /// The measured quantity and the two cases.
    pub about: &'static str,
    /// The two rows.
    pub places: [Place; 2],
    /// The text between the two values.
    pub between: &'static str,
}

/// The place of a row in an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The case.
    pub row: &'static str,
    /// The measured quantity.
    pub metric: &'static str,
}

/// An experiment that has run.
#[derive(Clone, Debug)]
pub struct Summed {
    /// Its name.
    pub name: &'static str,
    /// Its figure that stands for the whole.
    pub headline: Headline,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Summed {
    /// Returns the figure as published and as measured; a measured value has a star if a parameter
    /// was fitted on its row. A missing row is a `-`.
    fn figures(&self) -> [String; 2] {
        let rows = self
            .headline
            .places
            .map(|place| self.rows.iter().find(|row| row.row == place.row && row.metric == place.metric));
        let joined = |shown: &dyn Fn(&Row) -> String| {
            rows.map(|row| row.map_or_else(|| "-".into(), shown)).join(self.headline.between)
        };
        let star = |row: &Row| if row.fitted.is_some() { "*" } else { "" };
        [
            joined(&|row| row.published.map_or_else(|| "-".into(), |p| p.shown("-"))),
            joined(&|row| format!("{}{}", figure(row.measured), star(row))),
        ]
    }
}

/// Renders the experiments as a table with a line each, and a line of explanation.
pub fn summary(all: &[Summed]) -> String {
    let line = |cells: [&str; 6]| {
        let [name, predicted, arithmetic, about, published, here] = cells;
        let line = format!("{name:10} {predicted:>9} {arithmetic:>10}  {about:40} {published:16} {here}");
        format!("{}\n", line.trim_end())
    };
    let within = |rows: &[Row], use_of| {
        let [within, of] = counted(rows, use_of);
        if of == 0 { "-".into() } else { format!("{within} of {of}") }
    };
    let counts = |rows: &[Row]| [within(rows, Use::Predicted), within(rows, Use::Arithmetic)];
    let mut out = line(["experiment", "predicted", "arithmetic", "figure", "published", "here"]);
    for summed in all {
        let ([predicted, arithmetic], [published, here]) = (counts(&summed.rows), summed.figures());
        out += &line([summed.name, &predicted, &arithmetic, summed.headline.about, &published, &here]);
    }
    out += "\nRows within their bands, of all that are predicted or follow from arithmetic; * a row used for fitting.\n";
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Band, Published};
    use super::*;

    const HEADLINE: Headline = Headline {
        about: "transactions/s, off -> on",
        places: [Place { row: "off", metric: "tps" }, Place { row: "on", metric: "tps" }],
        between: " -> ",
    };

    fn row(case: &str, published: Published, measured: f64) -> Row {
        Row::measured("bql", case.into(), ("tps", "1/s"), measured).beside(published, Band::Percent(10.0))
    }

    #[test]
    fn each_experiment_is_a_line_with_its_counts_and_its_figure() {
        let fitted = Row { fitted: Some("delay"), ..row("off", Published::range(30.0, 40.0), 36.0) };
        let law = Row { law: true, ..row("law", Published::one(100.0), 120.0) };
        let outside = row("other", Published::one(100.0), 120.0);
        let rows = vec![fitted, row("on", Published::one(535.0), 549.0), outside, law];
        let some = Summed { name: "bql", headline: HEADLINE, rows };
        let alone = Row::measured("none", "on".into(), ("tps", "1/s"), 5.0);
        let none = Summed { name: "none", headline: HEADLINE, rows: vec![alone] };
        let shown = summary(&[some, none]);
        let expected = "\
experiment predicted arithmetic  figure                                   published        here
bql           1 of 2     0 of 1  transactions/s, off -> on                30.0-40.0 -> 535 36.0* -> 549
none               -          -  transactions/s, off -> on                - -> -           - -> 5.00

Rows within their bands, of all that are predicted or follow from arithmetic; * a row used for fitting.
";
        assert_eq!(shown, expected);
    }
}
