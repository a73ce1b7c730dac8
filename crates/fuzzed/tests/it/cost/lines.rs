//! One long line of tc, taken and refused; and the names of classes (`-nm`) in what is shown.

use txweir_lint::check::{self, CheckOptions};
use txweir_tc::Policy;

use super::batches::{batch, devices, line, named, tc};
use super::{Case, Steps};

/// A line that goes on with the same words for each entry.
struct Long {
    name: &'static str,
    n: usize,
    first: &'static str,
    /// As in `batches`.
    each: &'static str,
    /// True if tc takes the line.
    taken: bool,
}

const PFIFO: &str = "qdisc add dev a root handle 1: pfifo";

const TABLE: &[Long] = &[
    Long { name: "one line of options", n: 2000, first: PFIFO, each: " limit {+1}", taken: true },
    Long { name: "one line of unknown words", n: 2000, first: PFIFO, each: " w{+0}", taken: false },
    Long {
        name: "one line with a long word",
        n: 20_000,
        first: "qdisc add dev a root handle 1: pfifo limit ",
        each: "xxxx",
        taken: false,
    },
];

/// Takes the line through a batch, `check` and the reader of policies.
fn run(long: &Long, n: usize, steps: &mut Steps) {
    let words: String = (0..n).map(|i| line(long.each, i)).collect();
    let text = format!("{}{words}\n", long.first);
    for (step, args) in [("batch", "-b b"), ("atomic", "--atomic -b b"), ("dry run", "--dry-run -b b")] {
        let mut all = devices(0);
        let done = steps.step(step, || tc(&mut all, args, Some(&text)));
        assert_eq!(done.status == 0, long.taken, "{}: {step}", long.name);
    }
    steps.step("check", || drop(check::text(&text, "b", &CheckOptions::default())));
    let policy = steps.step("policy", || Policy::parse(&text, "b"));
    assert_eq!(policy.is_ok(), long.taken, "{}", long.name);
    steps.step("text", || drop(policy.map_err(|wrong| wrong.to_string())));
}

/// The listings in which classes have their names.
const SHOWN: [&str; 5] = [
    "-nm qdisc show dev a",
    "-nm -s class show dev a",
    "-names -j class show dev a",
    "-nm filter show dev a",
    "-nm -j filter show dev a",
];

/// Shows `n` classes, each with a name, a qdisc and a filter.
fn run_names(n: usize, steps: &mut Steps) {
    let lines = [
        "class add dev a parent 1: classid 1:{x+1} htb rate 1mbit",
        "qdisc add dev a parent 1:{x+1} handle {x+2}: pfifo limit 10",
        "filter add dev a parent 1: protocol ip prio 1 flower dst_ip 10.0.{ip} classid 1:{x+1}",
    ];
    let mut text = String::from("qdisc add dev a root handle 1: htb default 1\n");
    for template in lines {
        (0..n).for_each(|i| text.push_str(&format!("{}\n", line(template, i))));
    }
    let names: String = (0..n).map(|i| line("1:{x+1} name{+1}\n", i)).collect();
    let mut all = devices(0);
    batch(&mut all, "-b b", &text);
    for args in SHOWN {
        let done = steps.step(args, || named(&mut all, args, &names));
        assert!(done.status == 0 && done.stdout.contains("name1#1:1"), "{args}: {}", done.stderr);
    }
}

pub fn cases() -> Vec<Case> {
    let case = |long: &'static Long| Case {
        name: long.name.into(),
        n: long.n,
        run: Box::new(move |n, steps| run(long, n, steps)),
    };
    let names = Case { name: "names of classes".into(), n: 400, run: Box::new(run_names) };
    TABLE.iter().map(case).chain([names]).collect()
}
