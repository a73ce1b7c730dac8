//! ACKs before bulk, 2013.

use txweir_bench::reproduce::{Use, counted, run};

use crate::rows::{assert_drawn, every_experiment, outside};

/// The list of rows that miss is a part of the result, so a row that no longer misses fails the
/// test as well.
#[test]
fn the_rows_outside_their_bands_are_these() {
    if !every_experiment("prio-ack") {
        return;
    }
    let rows = run(Some("prio-ack"), &mut |_| {}).unwrap();
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
    assert_drawn(&rows, "prio-ack-2013.svg", include_str!("../../../../docs/prio-ack-2013.svg"));
}
