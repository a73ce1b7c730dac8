//! Knowledge about the lab's TCP: inside, outside, and its text.

use txweir_core::path::trees::Trees;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::node::Node;
use txweir_core::{Env, Nanos, Rate, Tree};
use txweir_lab::fidelity::{Fidelity, Given, Leaf, ROWS_MAX, Range, Table, embedded, leaves, of};
use txweir_tc::Policy;

fn table() -> Table {
    Table::parse(include_str!("fidelity/sample.jsonl")).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns four CUBIC flows over 50 Mbit/s and 40 ms into a pfifo.
fn given() -> Given<'static> {
    Given {
        congestion: "cubic",
        ecn: false,
        rtt: Nanos::from_millis(40),
        flows: 4,
        policies: vec![vec![leaf("pfifo")]],
    }
}

fn leaf(kind: &'static str) -> Leaf {
    at(kind, 50_000_000)
}

fn at(kind: &'static str, bit_s: u64) -> Leaf {
    Leaf { kind, least: Rate::from_bits(bit_s), most: Rate::from_bits(bit_s) }
}

fn pfifo(bit_s: u64) -> Vec<Vec<Leaf>> {
    vec![vec![at("pfifo", bit_s)]]
}

fn said(given: &Given<'_>) -> String {
    of(&table(), given).to_string()
}

#[test]
fn a_run_inside_the_range_names_what_is_near() {
    let found = of(&table(), &given());
    let names: Vec<(&str, bool)> = found.nearest.iter().map(|n| (n.name.as_str(), n.inside)).collect();
    assert_eq!((found.range, found.rows, found.rows_inside), (Range::Inside, 3, 2));
    // The distances are the ratios 2 and 2; 2 and 2 as well, ordered by name; 5, 2 and 4.
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
        let (policies, rtt) = (pfifo(rate), Nanos::from_millis(ms));
        of(&table(), &Given { policies, rtt, flows, ..given() }).range
    };
    assert_eq!([at(10_000_000, 20, 1), at(100_000_000, 80, 4)], [Range::Inside; 2]);
    assert_eq!([at(9_999_992, 20, 1), at(100_000_008, 80, 4), at(50_000_000, 81, 4)], [Range::Outside; 3]);
}

#[test]
fn a_run_outside_the_range_says_why() {
    let out = |given: Given<'_>| of(&table(), &given).reasons;
    assert_eq!(
        out(Given { policies: pfifo(1_000_000_000), ..given() }),
        ["rate 1Gbit is above what was recorded of pfifo (10Mbit to 100Mbit)"]
    );
    assert_eq!(
        out(Given { policies: pfifo(1_000_000), rtt: Nanos::from_millis(1), flows: 0, ..given() }),
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
    let policies = ["cake", "pfifo", "cake", "fq_codel"].map(|kind| vec![leaf(kind)]).to_vec();
    assert_eq!(
        out(Given { policies, ..given() }),
        [
            "cake was never recorded",
            "rate 50Mbit is above what was recorded of fq_codel (20Mbit)",
            "rtt 40ms is above what was recorded of fq_codel (20ms)"
        ]
    );
    assert_eq!(out(Given { congestion: "bbr", ..given() }), ["bbr was never recorded"]);
    assert_eq!(out(Given { ecn: true, ..given() }), ["pfifo was never recorded with cubic with ECN"]);
    let reno = Given { congestion: "reno", policies: vec![vec![leaf("fq_codel")]], ..given() };
    assert_eq!(out(reno), ["fq_codel was never recorded with reno without ECN"]);
    let between = Leaf { most: Rate::from_bits(200_000_000), ..at("pfifo", 5_000_000) };
    assert_eq!(
        out(Given { policies: vec![vec![between, leaf("pfifo")]], ..given() }),
        [
            "rate 5Mbit is below what was recorded of pfifo (10Mbit to 100Mbit)",
            "rate 200Mbit is above what was recorded of pfifo (10Mbit to 100Mbit)",
            "2 leaves of one policy have packets, and each recording has one"
        ]
    );
}

/// Returns the leaves of a policy on 1 Gbit/s, of which all qdiscs have packets: kind, and rates in
/// kbit/s.
fn leaves_of(policy: &str) -> Vec<(&'static str, u64, u64)> {
    used_leaves_of(policy, &mut |_| true)
}

fn used_leaves_of(policy: &str, used: &mut dyn FnMut(&Node) -> bool) -> Vec<(&'static str, u64, u64)> {
    let mut tree = Tree::new(Env::default());
    let policy = Policy::parse(policy, "policy").unwrap_or_else(|e| panic!("{e}"));
    policy.apply(&mut tree, &mut Cx::new(1, 0)).unwrap_or_else(|e| panic!("{e}"));
    let kbit = |rate: Rate| rate.bits() / 1000;
    leaves(&Trees::from(&tree), Rate::from_bits(1_000_000_000), used)
        .iter()
        .map(|l| (l.kind, kbit(l.least), kbit(l.most)))
        .collect()
}

#[test]
fn a_leaf_has_the_rate_of_what_shapes_above_it() {
    assert_eq!(leaves_of(""), [("pfifo", 1_000_000, 1_000_000)]);
    assert_eq!(leaves_of("qdisc add dev x root fq_codel"), [("fq_codel", 1_000_000, 1_000_000)]);
    assert_eq!(leaves_of("qdisc add dev x root cake bandwidth 20mbit"), [("cake", 20_000, 20_000)]);
    assert_eq!(leaves_of("qdisc add dev x root cake unlimited"), [("cake", 1_000_000, 1_000_000)]);
    let tbf = "qdisc add dev x root handle 1: tbf rate 20mbit burst 10kb limit 100kb\n";
    assert_eq!(leaves_of(tbf), [("tbf", 20_000, 20_000)]);
    let codel = "qdisc add dev x parent 1:1 codel";
    assert_eq!(leaves_of(&format!("{tbf}{codel}")), [("codel", 20_000, 20_000)]);
    let htb = "qdisc add dev x root handle 1: htb default 10\n\
               class add dev x parent 1: classid 1:1 htb rate 50mbit\n\
               class add dev x parent 1:1 classid 1:10 htb rate 10mbit ceil 80mbit\n\
               class add dev x parent 1:1 classid 1:20 htb rate 5mbit ceil 30mbit\n\
               qdisc add dev x parent 1:10 fq_codel\n\
               qdisc add dev x parent 1:20 tbf rate 20mbit burst 10kb limit 100kb";
    assert_eq!(leaves_of(htb), [("fq_codel", 10_000, 50_000), ("tbf", 5_000, 20_000)]);
}

/// Netem keeps its packets itself, unless it has a qdisc of a line below.
#[test]
fn packets_that_no_qdisc_below_has_seen_are_at_a_leaf() {
    let netem = "qdisc add dev x root handle 1: netem rate 20mbit";
    let named = |node: &Node| !node.handle().is_none();
    assert_eq!(used_leaves_of(netem, &mut |node| named(node)), [("netem", 20_000, 20_000)]);
    let codel = format!("{netem}\nqdisc add dev x parent 1: handle 2: codel");
    assert_eq!(used_leaves_of(&codel, &mut |node| named(node)), [("codel", 20_000, 20_000)]);
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
    // A text cut anywhere is read or refused, without a panic.
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
