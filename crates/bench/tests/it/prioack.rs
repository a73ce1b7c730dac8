//! ACKs before bulk, 2013.

use txweir_bench::reproduce::{Extent, Use, counted, run};

use crate::rows::{assert_drawn, assert_summed, every_experiment, outside};

/// The list of rows that miss is a part of the result, so a row that no longer misses fails the
/// test as well.
#[test]
fn the_rows_outside_their_bands_are_these() {
    if !every_experiment("prio-ack") {
        return;
    }
    let rows = run(Some("prio-ack"), Extent::Every, &mut |_| {}).unwrap();
    let outside = outside(&rows);
    assert_eq!(
        outside,
        [
            "connections, TSO: off, conns",
            "connections, TSO: off, on over off",
            "stream, TSO: off, on over off",
            "stream, no TSO: off, stream",
            "stream, no TSO: off, on over off"
        ]
    );
    assert_eq!((counted(&rows, Use::Predicted), counted(&rows, Use::Arithmetic)), ([13, 18], [0, 0]));
    assert_summed(
        &rows,
        "prio-ack    13 of 18          -  connections/s, ACKs in turn -> first     8867 -> 16.0K    10.8K -> 16.1K",
    );
    assert_drawn(&rows, "prio-ack-2013.svg", include_str!("../../../../docs/prio-ack-2013.svg"));
}
