//! Strict classes in the device, 2012.

use txweir_bench::reproduce::{Extent, Use, counted, run};

use crate::rows::{assert_drawn, assert_summed, outside};

/// The results of the table, rows that miss included: a row that no longer misses fails the test as
/// well.
#[test]
fn the_rows_outside_their_bands_are_these() {
    let rows = run(Some("mqprio"), Extent::Every, &mut |_| {}).unwrap();
    let outside = outside(&rows);
    let low = (0..6).map(|class| format!("prio + htb: class {class}, rx"));
    let rest = [
        "mqprio hw 1: class 6, greatest",
        "mqprio hw 1: class 7, greatest",
        "prio + htb: class 6, least",
        "prio + htb: class 6, greatest",
        "prio + htb: class 7, mean",
        "prio + htb: class 7, least",
        "prio + htb: class 7, greatest",
        "prio + htb: all, rx",
        "prio + htb over mqprio, capacity lost",
    ];
    let mut expected: Vec<String> = low.chain(rest.map(String::from)).collect();
    expected.sort_by_key(|row| rows.iter().position(|r| format!("{}, {}", r.row, r.metric) == *row));
    assert_eq!(outside, expected);
    assert_eq!((counted(&rows, Use::Predicted), counted(&rows, Use::Arithmetic)), ([29, 44], [39, 39]));
    assert_summed(
        &rows,
        "mqprio      29 of 44   39 of 39  us to the line, class 6, prio+htb -> hw  2913 -> 67.0     2864 -> 10.4",
    );
    assert_drawn(&rows, "mqprio-2012.svg", include_str!("../../../../docs/mqprio-2012.svg"));
}

/// The summary leaves out only runs of which nothing is published.
#[test]
fn no_published_row_is_left_out_of_the_summary() {
    let of = |extent| {
        let rows = run(Some("mqprio"), extent, &mut |_| {}).unwrap().into_iter();
        rows.filter(|r| r.published.is_some()).map(|r| (r.row, r.metric, r.measured)).collect::<Vec<_>>()
    };
    let every = of(Extent::Every);
    assert_eq!(every.len(), 87);
    assert_eq!(of(Extent::Published), every);
}
