//! Byte queue limits, 2011.

use txweir_bench::reproduce::{Extent, Use, counted, run};

use crate::rows::{assert_drawn, assert_summed};

/// A regression test of the published table: direction and size of the effect, and the rows that
/// miss.
#[test]
fn bql_cuts_queue_and_latency_by_the_published_factors() {
    let rows = run(Some("bql"), Extent::Every, &mut |_| {}).unwrap();
    let misses: Vec<&str> = rows.iter().filter(|r| r.within() != Some(true)).map(|r| &*r.row).collect();
    assert_eq!(misses, ["priority: no BQL, TSO", "sizes: 1400 B, no BQL", "sizes: 1400 B, BQL"]);
    assert_eq!((counted(&rows, Use::Predicted), counted(&rows, Use::Arithmetic)), ([13, 15], [12, 13]));
    assert_summed(
        &rows,
        "bql         13 of 15   12 of 13  transactions/s, byte limit off -> on     36.0 -> 535      42.2 -> 549",
    );
    assert_drawn(&rows, "bql-2011.svg", include_str!("../../../../docs/bql-2011.svg"));
}
