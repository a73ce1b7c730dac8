//! Laws that hold for any text (`testing::any_text`), on random text, on words of the language, on
//! lines of the grammar, and on valid lines with mistakes. The fuzz targets `tc_line` and `batch`
//! call parts of the same function.

use proptest::prelude::*;
use txweir_tc::testing::any_text;

/// Valid lines, to which the tests add mistakes; each is a seed of the fuzz target too.
const GOOD: [&str; 14] = [
    "qdisc add dev a root handle 1: prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 3",
    "tc qdisc replace dev a parent 1:1 handle 10: tbf rate 1mbit burst 5kb latency 50ms peakrate 2mbit mtu 1540",
    "qdisc change dev a root fq_codel limit 1000 flows 64 target 5ms interval 100ms ecn drop_batch 3",
    "q d dev a parent 1:2",
    "qdisc add dev b root codel limit 100 target 1.5ms \\\n noecn # tail",
    "qdisc add dev a parent 1:3 'bfifo' limit \"10kb\"",
    "-s -d -j -p qdisc show dev a",
    "qdisc add dev a stab overhead -4 mpu 64 linklayer adsl mtu 2047 tsize 512 root pfifo",
    "qdisc add dev b handle ffff: ingress",
    "qdisc add dev b root estimator 1s 8s pfifo limit 7",
    "class show dev a qdisc 1: classid 1:2",
    "filter add dev a parent 1: protocol ip prio 1 handle 800::1 chain 2 u32 match ip dport 22 0xffff flowid 1:1",
    "chain add block 7 egress chain 3",
    "actions add action drop action mirred egress redirect dev b",
];

const WORDS: [&str; 64] = [
    "tc",
    "qdisc",
    "class",
    "filter",
    "chain",
    "actions",
    "action",
    "add",
    "replace",
    "change",
    "del",
    "link",
    "show",
    "ls",
    "get",
    "flush",
    "dev",
    "a",
    "b",
    "root",
    "parent",
    "handle",
    "classid",
    "1:",
    "1:1",
    "1:2",
    "ffff:",
    ":1",
    "none",
    "ingress",
    "egress",
    "clsact",
    "block",
    "stab",
    "estimator",
    "overhead",
    "linklayer",
    "atm",
    "prio",
    "tbf",
    "fq_codel",
    "pfifo",
    "pfifo_fast",
    "limit",
    "rate",
    "10",
    "5",
    "ms",
    "1mbit",
    "burst",
    "5kb",
    "latency",
    "bands",
    "protocol",
    "ip",
    "invisible",
    "--dry-run",
    "--atomic",
    "-s",
    "-j",
    "\n",
    "#",
    "'",
    "\\",
];

/// Generates a line from the grammar of qdisc lines. Most of these lines succeed.
fn line() -> impl Strategy<Value = String> {
    let verb = prop::sample::select(vec!["add", "replace", "replace", "change", "del", "link"]);
    let place = prop::sample::select(vec![
        "root",
        "root",
        "parent 1:1",
        "parent 1:2",
        "parent 1:3",
        "parent 2:1",
        "parent 2:2",
        "handle 1:",
        "ingress",
        "clsact",
    ]);
    let handle = prop::sample::select(vec!["", "", "handle 1:", "handle 2:", "handle 3:", "handle 8001:"]);
    let kind = prop::sample::select(vec![
        "",
        "prio",
        "prio bands 2 priomap 0 1",
        "pfifo limit 2",
        "pfifo_head_drop limit 1",
        "bfifo limit 300",
        "fq_codel flows 4",
        "fq_codel limit 1 flows 4",
        "codel ecn",
        "pfifo_fast",
        "tbf rate 1mbit burst 5kb limit 9kb",
        "tbf rate 99 burst 300 latency 1s overhead 9 linklayer atm",
        "tbf rate 1mbit burst 5kb limit 9kb peakrate 2mbit mtu 2kb",
    ]);
    (verb, "[ab]", place, handle, kind).prop_map(|(verb, dev, place, handle, kind)| {
        format!("qdisc {verb} dev {dev} {place} {handle} {kind}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn text(text in ".{0,200}") {
        any_text(&text);
    }

    #[test]
    fn words(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..24)) {
        any_text(&words.join(" "));
    }

    #[test]
    fn lines(lines in prop::collection::vec(line(), 1..12)) {
        any_text(&lines.join("\n"));
    }

    #[test]
    fn good_lines_with_a_mistake(
        at in 0..GOOD.len(), cut in any::<prop::sample::Index>(), len in 0..6usize, put in "\\PC{0,4}",
    ) {
        let mut line: Vec<char> = GOOD[at].chars().collect();
        let cut = cut.index(line.len());
        let end = (cut + len).min(line.len());
        line.splice(cut..end, put.chars());
        any_text(&line.into_iter().collect::<String>());
    }
}

#[test]
fn the_good_lines_themselves() {
    GOOD.iter().for_each(|line| any_text(line));
    any_text(&GOOD.join("\n"));
}

/// A class of more than 16 bytes is read as far as it goes, and its first character may have
/// several bytes.
#[test]
fn a_long_class_that_begins_with_no_digit_is_refused() {
    for word in ["ééééééééé", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}", "zzzzzzzzzzzzzzzzzz"]
    {
        any_text(&format!(
            "filter add dev a parent 1: protocol ip prio 1 bpf bytecode '1,6 0 0 0' flowid {word}"
        ));
    }
}
