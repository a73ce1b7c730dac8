//! Scripts and wrong texts, as `check` reads them.

use txweir_lint::check::{self, CheckOptions};

use super::{Case, Steps};

/// A text of n entries: what comes first, each entry, what comes last.
struct Text {
    name: &'static str,
    n: usize,
    first: &'static str,
    each: fn(usize) -> String,
    last: &'static str,
}

const HTB: &str = "tc qdisc add dev a root handle 1: htb default 1\n";

fn table() -> Vec<Text> {
    let text = |name, n, first, each, last| Text { name, n, first, each, last };
    vec![
        text(
            "variables",
            2000,
            "#!/bin/sh\n",
            |i| format!("V{i}=10mbit\n"),
            "tc qdisc add dev a root pfifo\n",
        ),
        text(
            "variables in use",
            1000,
            HTB,
            |i| {
                format!(
                    "R{i}=1mbit\ntc class add dev a parent 1: classid 1:{:x} htb rate $R{i} ceil ${{X{i}:-2mbit}}\n",
                    i + 1
                )
            },
            "",
        ),
        text(
            "a variable that grows",
            500,
            HTB,
            |i| format!("A=\"$A x\"\nB{i}=$A\n"),
            "tc class add dev a parent 1: classid 1:1 htb rate 1mbit $A\n",
        ),
        text(
            "a variable of variables",
            12,
            "A=xxxxxxxx\n",
            |_| "A=$A$A\n".into(),
            "tc qdisc add dev a root $A\n",
        ),
        text(
            "arithmetic",
            1000,
            HTB,
            |i| {
                format!("tc class add dev a parent 1: classid 1:$(({i} + 1)) htb rate $((1 * {i} + 8))kbit\n")
            },
            "",
        ),
        text(
            "a long expression",
            1000,
            "R=$((1",
            |_| " + 1".into(),
            "))\ntc qdisc add dev a root tbf rate ${R}kbit burst 10kb limit 10kb\n",
        ),
        text("nested parentheses", 500, "R=$((", |_| "(".into(), "\ntc qdisc add dev a root pfifo\n"),
        text(
            "here-documents",
            700,
            "#!/bin/sh\n",
            |i| format!("tc -b - <<E{i}\nqdisc add dev d{i} root pfifo\nE{i}\n"),
            "",
        ),
        text(
            "a here-document",
            1500,
            "tc qdisc add dev a root handle 1: drr\ntc -b - <<E\n",
            |i| format!("class add dev a parent 1: classid 1:{:x} drr\n", i + 1),
            "E\n",
        ),
        text("here-documents without an end", 700, "#!/bin/sh\n", |i| format!("tc -b - <<E{i}\n"), ""),
        text(
            "functions",
            700,
            "#!/bin/sh\n",
            |i| format!("f{i}() {{\n tc qdisc add dev d{i} root pfifo\n}}\nf{i}\n"),
            "",
        ),
        text(
            "conditions",
            700,
            "#!/bin/sh\n",
            |i| format!("if true; then\n tc qdisc add dev d{i} root pfifo\nfi\n"),
            "",
        ),
        text(
            "nested conditions",
            700,
            "#!/bin/sh\n",
            |_| "if true; then\n".into(),
            "tc qdisc add dev a root pfifo\n",
        ),
        text(
            "loops",
            700,
            "#!/bin/sh\n",
            |i| format!("for i in 1 2 3; do\n tc class add dev a parent 1: classid 1:{i} drr\ndone\n"),
            "",
        ),
        text("continued lines", 3000, "tc qdisc add dev a root \\\n", |_| " \\\n".into(), " pfifo\n"),
        text("comments", 3000, HTB, |i| format!("# comment {i}\n"), ""),
        text("quotes", 2000, "tc qdisc add dev a root ", |_| "'".into(), "\n"),
        text("commands in commands", 700, "tc qdisc add dev a root ", |_| "$(".into(), "\n"),
        text(
            "commands behind each other",
            1500,
            HTB,
            |i| format!("true && tc class add dev a parent 1: classid 1:{:x} htb rate 1mbit; ", i + 1),
            "\n",
        ),
        text(
            "namespaces",
            100,
            "#!/bin/sh\n",
            |i| {
                format!(
                    "tc -n ns{i} qdisc add dev a root pfifo\nip netns exec ns{i} tc qdisc add dev b root pfifo\n"
                )
            },
            "",
        ),
        text("devices", 200, "", |i| format!("qdisc add dev d{i} root pfifo\n"), ""),
        text("one line of words", 4000, "qdisc add dev a root", |i| format!(" w{i}"), "\n"),
        text("one long word", 20_000, "qdisc add dev a root ", |_| "xxxx".into(), "\n"),
        text("unknown kinds", 1000, "", |i| format!("qdisc add dev a root kind{i}\n"), ""),
        text("wrong values", 1000, "", |i| format!("qdisc replace dev a root pfifo limit x{i}\n"), ""),
        text("lines that are none", 2000, "", |i| format!("nonsense {i} here\n"), ""),
        text(
            "missing parents",
            700,
            "qdisc add dev a root handle 1: drr\n",
            |i| {
                format!(
                    "class add dev a parent 1: classid 1:{:x} drr\nqdisc add dev a parent 1:{:x} handle {:x}: pfifo\n",
                    i + 1,
                    i + 20_000,
                    i + 2
                )
            },
            "",
        ),
        text(
            "missing qdiscs",
            700,
            "qdisc add dev a root handle 1: drr\n",
            |i| {
                format!(
                    "class add dev a parent 1: classid 1:{:x} drr\nqdisc add dev a parent 1:{:x} handle {:x}: \
                         pfifo\nqdisc add dev a parent {:x}: pfifo\n",
                    i + 1,
                    i + 1,
                    i + 2,
                    i + 30_000
                )
            },
            "",
        ),
        text(
            "missing classes of filters",
            700,
            HTB,
            |i| {
                format!(
                    "tc class add dev a parent 1: classid 1:{:x} htb rate 1mbit\ntc filter add dev a parent 1: \
                         protocol ip prio {} matchall classid 1:{:x}\n",
                    i + 1,
                    i + 1,
                    i + 20_000
                )
            },
            "",
        ),
        text(
            "handles in use",
            700,
            "qdisc add dev a root handle 1: drr\n",
            |i| {
                format!(
                    "class add dev a parent 1: classid 1:{:x} drr\nqdisc add dev a parent 1:{:x} handle 1: pfifo\n",
                    i + 1,
                    i + 1
                )
            },
            "",
        ),
        text(
            "classes twice",
            700,
            "qdisc add dev a root handle 1: drr\n",
            |i| {
                format!(
                    "class add dev a parent 1: classid 1:{:x} drr\nclass add dev a parent 1: classid 1:{:x} drr\n",
                    i + 1,
                    i + 1
                )
            },
            "",
        ),
        text(
            "filters twice",
            700,
            HTB,
            |_| {
                "tc filter add dev a parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1/32 flowid 1:1\n"
                    .into()
            },
            "",
        ),
        text(
            "filters in the shadow of others",
            700,
            HTB,
            |i| {
                format!(
                    "tc filter add dev a parent 1: protocol ip prio {} flower dst_ip 10.0.0.0/8 ip_proto tcp classid 1:1\n",
                    i + 1
                )
            },
            "",
        ),
        text(
            "rates above their parents",
            700,
            "qdisc add dev a root handle 1: htb default 1\nclass add dev a parent 1: classid 1:1 htb rate 1mbit\n",
            |i| format!("class add dev a parent 1:1 classid 1:{:x} htb rate 10mbit ceil 20mbit\n", i + 2),
            "",
        ),
    ]
}

/// Diagnostics that are drawn: each has its line, which may be the whole text.
const DRAWN: usize = 100;

fn run(text: &Text, n: usize, steps: &mut Steps) {
    let each: String = (0..n).map(text.each).collect();
    let whole = format!("{}{each}{}", text.first, text.last);
    let report = steps.step("check", || check::text(&whole, "s", &CheckOptions::default()));
    steps.step("JSON", || report.diagnostics.iter().take(DRAWN).for_each(|d| drop(d.json())));
    steps.step("text", || report.diagnostics.iter().take(DRAWN).for_each(|d| drop(d.to_string())));
    steps.step("facts", || report.facts.iter().for_each(|f| drop((f.json(), f.text()))));
}

pub fn cases() -> Vec<Case> {
    let case = |text: Text| Case {
        name: text.name.into(),
        n: text.n,
        run: Box::new(move |n, steps| run(&text, n, steps)),
    };
    table().into_iter().map(case).collect()
}
