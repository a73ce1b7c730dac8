//! What is known of the lab's TCP: inside, outside, and how that is said.

use txweir_core::{Nanos, Rate};
use txweir_lab::fidelity::{Fidelity, Given, Leaf, ROWS_MAX, Range, Table, embedded, of};

fn table() -> Table {
    Table::parse(include_str!("fidelity/sample.jsonl")).unwrap_or_else(|e| panic!("{e}"))
}

/// Four CUBIC flows over 50 Mbit/s and 40 ms into a pfifo.
fn given() -> Given<'static> {
    Given {
        congestion: "cubic",
        ecn: false,
        rate: Rate::from_bits(50_000_000),
        rtt: Nanos::from_millis(40),
        flows: 4,
        leaves: vec![leaf("pfifo")],
    }
}

const fn leaf(kind: &'static str) -> Leaf {
    Leaf { kind, below: None }
}

fn said(given: &Given<'_>) -> String {
    of(&table(), given).to_string()
}

#[test]
fn a_run_inside_the_range_names_what_is_near() {
    let found = of(&table(), &given());
    let names: Vec<(&str, bool)> = found.nearest.iter().map(|n| (n.name.as_str(), n.inside)).collect();
    assert_eq!((found.range, found.rows, found.rows_inside), (Range::Inside, 3, 2));
    // By ratios: 2 and 2; 2 and 2 as well, then by name; 5, 2 and 4.
    let near = ["cubic-pfifo-100m-20ms-4", "cubic-pfifo-100m-80ms-4", "cubic-pfifo-10m-20ms-1"];
    assert_eq!(names, [(near[0], false), (near[1], true), (near[2], true)]);
    assert_eq!(
        found.to_string(),
        "inside the recorded range; 2 of 3 like recordings agree; nearest: cubic-pfifo-100m-20ms-4 (differs), \
         cubic-pfifo-100m-80ms-4 (agrees), cubic-pfifo-10m-20ms-1 (agrees)"
    );
}

#[test]
fn the_edges_of_the_range_are_inside() {
    let at = |rate, ms, flows| {
        let (rate, rtt) = (Rate::from_bits(rate), Nanos::from_millis(ms));
        of(&table(), &Given { rate, rtt, flows, ..given() }).range
    };
    assert_eq!([at(10_000_000, 20, 1), at(100_000_000, 80, 4)], [Range::Inside; 2]);
    assert_eq!([at(9_999_992, 20, 1), at(100_000_008, 80, 4), at(50_000_000, 81, 4)], [Range::Outside; 3]);
}

#[test]
fn a_run_outside_the_range_says_why() {
    let out = |given: Given<'_>| of(&table(), &given).reasons;
    let rate = |bits| Rate::from_bits(bits);
    assert_eq!(
        out(Given { rate: rate(1_000_000_000), ..given() }),
        ["rate 1Gbit is above what was recorded of pfifo (10Mbit to 100Mbit)"]
    );
    assert_eq!(
        out(Given { rate: rate(1_000_000), rtt: Nanos::from_millis(1), flows: 0, ..given() }),
        [
            "rate 1Mbit is below what was recorded of pfifo (10Mbit to 100Mbit)",
            "rtt 1ms is below what was recorded of pfifo (20ms to 80ms)",
            "flows 0 is below what was recorded of pfifo (1 to 4)"
        ]
    );
    assert_eq!(
        out(Given { rtt: Nanos::from_millis(100), flows: 128, ..given() }),
        [
            "rtt 100ms is above what was recorded of pfifo (20ms to 80ms)",
            "flows 128 is above what was recorded of pfifo (1 to 4)"
        ]
    );
    let leaves = vec![leaf("cake"), leaf("pfifo"), leaf("cake"), leaf("fq_codel")];
    assert_eq!(
        out(Given { leaves, ..given() }),
        [
            "cake was never recorded",
            "rate 50Mbit is above what was recorded of fq_codel (20Mbit)",
            "rtt 40ms is above what was recorded of fq_codel (20ms)"
        ]
    );
    assert_eq!(out(Given { congestion: "bbr", ..given() }), ["bbr was never recorded"]);
    assert_eq!(out(Given { ecn: true, ..given() }), ["pfifo was never recorded with cubic with ECN"]);
    let reno = Given { congestion: "reno", leaves: vec![leaf("fq_codel")], ..given() };
    assert_eq!(out(reno), ["fq_codel was never recorded with reno without ECN"]);
    let shaped = vec![Leaf { kind: "pfifo", below: Some("tbf") }; 2];
    assert_eq!(
        out(Given { leaves: shaped, ..given() }),
        ["pfifo hangs below tbf, whose rate is not looked at"]
    );
}

#[test]
fn what_is_near_is_like_it_if_it_can_be() {
    assert_eq!(
        said(&Given { congestion: "bbr", ..given() }),
        "outside the recorded range: bbr was never recorded; nearest: cubic-pfifo-100m-20ms-4 (differs), \
         cubic-pfifo-100m-80ms-4 (agrees), cubic-fq_codel-20m-20ms-4 (agrees)"
    );
    assert_eq!(
        said(&Given { congestion: "reno", flows: 2, ..given() }),
        "outside the recorded range: rate 50Mbit is above what was recorded of pfifo (10Mbit); rtt 40ms is above \
         what was recorded of pfifo (20ms); flows 2 is above what was recorded of pfifo (1); 1 of 1 like recordings \
         agree; nearest: reno-pfifo-10m-20ms-1 (agrees)"
    );
}

#[test]
fn an_empty_table_says_that_nothing_was_recorded() {
    for text in ["", "\n\n", "# a comment\n   \n"] {
        let table = Table::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let found = of(&table, &given());
        let nothing =
            Fidelity { range: Range::Empty, rows: 0, rows_inside: 0, reasons: vec![], nearest: vec![] };
        assert_eq!(found, nothing);
        assert_eq!(found.to_string(), "nothing was recorded, so nothing is known");
    }
}

#[test]
fn a_bad_table_is_refused_at_its_line() {
    let good = include_str!("fidelity/sample.jsonl").lines().nth(1).expect("a row");
    let refused = |text: &str| Table::parse(text).expect_err("refused").to_string();
    assert_eq!(refused("\n{"), "line 2: EOF while parsing an object at line 1 column 1");
    assert_eq!(refused("[1]"), "line 1: invalid type: integer `1`, expected a string at line 1 column 2");
    assert_eq!(
        refused(&good.replace("\"flows\"", "\"flow\"")),
        "line 1: unknown field `flow`, expected one of `name`, `cc`, `kind`, `rate_bit_s`, `rtt_ns`, `flows`, `ecn`, \
         `inside` at line 1 column 117"
    );
    assert!(refused(&good.replace(", \"inside\": true", "")).contains("missing field `inside`"));
    assert!(refused(&good.replace("20000000", "-1")).starts_with("line 1: invalid value: integer `-1`"));
    assert_eq!(
        refused(&good.replace("\"flows\": 1", "\"flows\": 0")),
        "line 1: flows: expected at least 1, given 0"
    );
    assert_eq!(
        refused(&format!("{good}\n#\n{good}")),
        "line 3: name: \"cubic-pfifo-10m-20ms-1\" is there already"
    );
    let rows = |n: usize| (0..n).map(|i| good.replace("20ms-1", &i.to_string()) + "\n").collect::<String>();
    assert_eq!(Table::parse(&rows(ROWS_MAX)).map(|t| t.rows().len()), Ok(ROWS_MAX));
    assert_eq!(refused(&rows(ROWS_MAX + 1)), format!("line {}: expected at most 10000 rows", ROWS_MAX + 1));
    // Cut anywhere it is read or refused, and never panics.
    let sample = include_str!("fidelity/sample.jsonl");
    for at in 0..sample.len() {
        let _ = Table::parse(&sample[..at]);
        let _ = Table::parse(&sample[at..]);
    }
}

#[test]
fn the_table_in_the_binary_can_be_read() {
    assert_ne!(embedded(&given()).range, Range::Unreadable);
}
