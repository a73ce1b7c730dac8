//! Comparisons that the tests of every experiment share.

use txweir_bench::reproduce::{EXPERIMENTS, Row, Summed, summary, svg};

/// Returns the rows outside their bands.
pub(crate) fn outside(rows: &[Row]) -> Vec<String> {
    let missed = rows.iter().filter(|r| r.within() == Some(false));
    missed.map(|r| format!("{}, {}", r.row, r.metric)).collect()
}

/// Compares a picture of the documents with the picture of these rows.
pub(crate) fn assert_drawn(rows: &[Row], file: &str, picture: &str) {
    let name = rows.first().map_or("", |r| r.experiment);
    assert!(
        svg(rows) == picture,
        "docs/{file} is not what is drawn now: txweir lab reproduce {name} --plot docs/{file}"
    );
}

/// Compares the line of an experiment in the summary of all.
pub(crate) fn assert_summed(rows: &[Row], line: &str) {
    let name = rows.first().map_or("", |r| r.experiment);
    let experiment = EXPERIMENTS.iter().find(|e| e.name == name).expect("an experiment");
    let (name, headline) = (experiment.name, experiment.headline);
    let shown = summary(&[Summed { name, headline, rows: rows.to_vec() }]);
    assert_eq!(shown.lines().nth(1), Some(line));
}

/// True if an experiment that takes a minute is to run. `make test` passes by it: its mechanism has
/// tests of its own in the library, and `.ci/run` runs all experiments.
pub(crate) fn every_experiment(name: &str) -> bool {
    let all = std::env::var("TXWEIR_ROWS").is_ok_and(|rows| rows == "all");
    if !all {
        println!("experiment {name}: skipped, because it takes a minute (TXWEIR_ROWS=all runs it)");
    }
    all
}
