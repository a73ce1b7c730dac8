//! Senders that yield, 2013.

use txweir_bench::reproduce::{Extent, Row, Use, counted, run};

use crate::rows::{assert_drawn, assert_summed, every_experiment, outside};

fn one<'a>(rows: &'a [Row], row: &str, metric: &str) -> &'a Row {
    rows.iter().find(|r| r.row == row && r.metric == metric).expect("such a row")
}

/// The list of rows that miss is a part of the result, so a row that no longer misses fails the
/// test as well.
#[test]
fn the_rows_outside_their_bands_are_these() {
    if !every_experiment("fairsend") {
        return;
    }
    let rows = run(Some("fairsend"), Extent::Every, &mut |_| {}).unwrap();
    let outside = outside(&rows);
    assert_eq!(
        outside,
        [
            "8+8: fair 0, received, least",
            "8+8: fair 0, received, most",
            "8+8: fair 0, swing",
            "16+16: fair 0, received",
            "16+16: fair 0, received, least",
            "16+16: fair 0, received, most",
            "16+16: fair 4, on over off",
            "8 senders: fair 4, Jain, on over off",
            "16 senders: fair 4, Jain, on over off",
            "64 senders: fair 4, Jain, on over off"
        ]
    );
    assert_eq!((counted(&rows, Use::Predicted), counted(&rows, Use::Arithmetic)), ([13, 23], [0, 0]));
    // Four is the least that costs the senders nothing, and a greater number costs the receivers.
    let of = |n: u32, metric| one(&rows, &format!("turns: N = {n}"), metric).measured;
    assert!(of(1, "sent") < 800.0 && of(2, "sent") < 900.0 && of(4, "sent") > 970.0);
    let received = [4, 8, 16, 64, 0].map(|n| of(n, "received"));
    assert!(received.is_sorted_by(|a, b| a > b), "{received:?}");
    // ACKs that go first wait only for the ring: the deeper the ring, the rougher the priority.
    let received =
        [64, 512, 1024].map(|n| one(&rows, &format!("ring, ACKs first: {n}"), "received").measured);
    assert!(received[0] > 980.0 && received[1] > 940.0 && received[2] < 810.0, "{received:?}");
    assert_summed(
        &rows,
        "fairsend    13 of 23          -  Mbit/s received, no turns -> turns       670-850 -> 981   797* -> 984*",
    );
    assert_drawn(&rows, "fairsend-2013.svg", include_str!("../../../../docs/fairsend-2013.svg"));
}
