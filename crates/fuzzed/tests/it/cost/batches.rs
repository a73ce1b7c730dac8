//! Batches of tc lines: each object and verb, by `tc -b`, and the same lines by `check` and as a
//! policy.

use txweir_core::Env;
use txweir_lint::check::{self, CheckOptions};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{self, Outcome, Request};
use txweir_tc::{Policy, Source};

use super::{Case, Steps};

/// Lines that come first, and lines of which the text has one for each entry: all of the first of
/// them, then all of the second.
struct Lines {
    name: &'static str,
    n: usize,
    first: &'static [&'static str],
    /// `{+N}` stands for the number of the entry plus N, `{x+N}` for the same in hexadecimal,
    /// `{-N}` for N less it, `{ip}` for it as two bytes of an address.
    each: &'static [&'static str],
}

const DRR: &str = "qdisc add dev a root handle 1: drr";
const PRIO: &str = "qdisc add dev a root handle 1: prio";
const HTB: &str = "qdisc add dev a root handle 1: htb default 1";
const HOOKS: &str = "qdisc add dev a clsact";
const CLASS: &str = "class add dev a parent 1: classid 1:{x+1} drr";

const TABLE: &[Lines] = &[
    Lines {
        name: "classes",
        n: 1000,
        first: &[DRR],
        each: &["class add dev a parent 1: classid 1:{x+1} drr quantum 2000"],
    },
    Lines {
        name: "classes, replaced",
        n: 600,
        first: &[DRR],
        each: &[
            "class replace dev a parent 1: classid 1:{x+1} drr",
            "class replace dev a parent 1: classid 1:{x+1} drr quantum 3000",
        ],
    },
    Lines {
        name: "classes, changed",
        n: 600,
        first: &[DRR],
        each: &[CLASS, "class change dev a parent 1: classid 1:{x+1} drr quantum 3000"],
    },
    Lines {
        name: "classes, deleted",
        n: 600,
        first: &[DRR],
        each: &[CLASS, "class del dev a classid 1:{x+1}"],
    },
    Lines {
        name: "classes of htb",
        n: 1000,
        first: &[HTB],
        each: &["class add dev a parent 1: classid 1:{x+1} htb rate 1mbit ceil 2mbit"],
    },
    Lines {
        name: "classes of htb, inner",
        n: 500,
        first: &[HTB, "class add dev a parent 1: classid 1:1 htb rate 1gbit"],
        each: &[
            "class add dev a parent 1:1 classid 1:{x+2} htb rate 1mbit ceil 2mbit",
            "class change dev a parent 1:1 classid 1:{x+2} htb rate 2mbit",
            "class del dev a classid 1:{x+2}",
        ],
    },
    Lines {
        name: "qdiscs",
        n: 500,
        first: &[DRR],
        each: &[CLASS, "qdisc add dev a parent 1:{x+1} handle {x+2}: pfifo limit 10"],
    },
    Lines {
        name: "size tables",
        n: 500,
        first: &[DRR],
        each: &[CLASS, "qdisc change dev a root handle 1: stab overhead {+1} drr"],
    },
    Lines {
        name: "qdiscs without handles",
        n: 500,
        first: &[DRR],
        each: &[CLASS, "qdisc add dev a parent 1:{x+1} pfifo limit 10"],
    },
    Lines {
        name: "qdiscs, changed",
        n: 400,
        first: &[DRR],
        each: &[
            CLASS,
            "qdisc add dev a parent 1:{x+1} handle {x+2}: pfifo limit 10",
            "qdisc change dev a parent 1:{x+1} handle {x+2}: pfifo limit 20",
            "qdisc replace dev a parent 1:{x+1} handle {x+30000}: bfifo limit 2000",
        ],
    },
    Lines {
        name: "qdiscs, deleted",
        n: 400,
        first: &[DRR],
        each: &[
            CLASS,
            "qdisc add dev a parent 1:{x+1} handle {x+2}: pfifo limit 10",
            "qdisc del dev a parent 1:{x+1} handle {x+2}:",
        ],
    },
    Lines { name: "roots", n: 1000, first: &[PRIO], each: &["qdisc replace dev a root handle {x+2}: prio"] },
    Lines {
        name: "roots, changed",
        n: 1000,
        first: &["qdisc add dev a root handle 1: tbf rate 1mbit burst 10kb limit 10kb"],
        each: &["qdisc change dev a root handle 1: tbf rate {+2}kbit burst 10kb limit 10kb"],
    },
    Lines {
        name: "classes beside a shared rate",
        n: 250,
        first: &[
            DRR,
            "class add dev a parent 1: classid 1:1 drr",
            "qdisc add dev a parent 1:1 handle 2: tbf rate 1mbit burst 10kb limit 10kb shared s",
        ],
        each: &["class replace dev a parent 1: classid 1:{x+2} drr quantum 2000"],
    },
    Lines {
        name: "classes that share a rate",
        n: 400,
        first: &[HTB],
        each: &[
            "class add dev a parent 1: classid 1:{x+1} htb rate 1mbit ceil 2mbit shared s",
            "class change dev a parent 1: classid 1:{x+1} htb rate 1mbit ceil 2mbit prio 1 shared s",
        ],
    },
    Lines {
        name: "qdiscs that share rates",
        n: 300,
        first: &[DRR],
        each: &[
            CLASS,
            "qdisc add dev a parent 1:{x+1} handle {x+2}: tbf rate 1mbit burst 10kb limit 10kb shared s",
            "qdisc change dev a parent 1:{x+1} handle {x+2}: tbf rate 1mbit burst 10kb limit 20kb shared s",
            "qdisc replace dev a parent 1:{x+1} handle {x+2}: tbf rate 2mbit burst 10kb limit 10kb shared s{+0}",
            "qdisc del dev a parent 1:{x+1} handle {x+2}:",
        ],
    },
    Lines {
        name: "devices that share a rate",
        n: 240,
        first: &[],
        each: &["qdisc add dev d{+0} root tbf rate 1mbit burst 10kb limit 10kb shared s"],
    },
    Lines {
        name: "devices",
        n: 240,
        first: &[],
        each: &[
            "qdisc add dev d{+0} clsact",
            "qdisc add dev d{+0} root handle 1: prio",
            "filter add dev d{+0} egress matchall action drop",
        ],
    },
    Lines {
        name: "blocks",
        n: 240,
        first: &[],
        each: &[
            "qdisc add dev d{+0} ingress_block {+1} egress_block {+1000} clsact",
            "filter add block {+1} matchall action drop",
        ],
    },
    Lines {
        name: "priorities",
        n: 700,
        first: &[PRIO],
        each: &["filter add dev a parent 1: protocol ip prio {+1} matchall classid 1:1"],
    },
    Lines {
        name: "priorities downwards",
        n: 700,
        first: &[PRIO],
        each: &["filter add dev a parent 1: protocol ip matchall classid 1:1"],
    },
    Lines {
        name: "priorities, deleted",
        n: 500,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio {+1} matchall classid 1:1",
            "filter del dev a parent 1: protocol ip prio {+1}",
        ],
    },
    Lines {
        name: "flower",
        n: 700,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {+1} flower dst_ip 10.0.{ip} classid 1:1",
        ],
    },
    Lines {
        name: "flower of ranges",
        n: 250,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 flower ip_proto udp dst_port {+1}-{+2} classid 1:1",
        ],
    },
    Lines {
        name: "flower, replaced and deleted",
        n: 400,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {+1} flower dst_ip 10.0.{ip} classid 1:1",
            "filter replace dev a parent 1: protocol ip prio 1 handle {+1} flower dst_ip 10.0.{ip} classid 1:2",
            "filter del dev a parent 1: protocol ip prio 1 handle {+1} flower",
        ],
    },
    Lines {
        name: "fw",
        n: 700,
        first: &[PRIO],
        each: &["filter add dev a parent 1: protocol ip prio 1 handle {+1} fw classid 1:1"],
    },
    Lines {
        name: "fw, replaced and deleted",
        n: 400,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {+1} fw classid 1:1",
            "filter replace dev a parent 1: protocol ip prio 1 handle {+1} fw classid 1:2",
            "filter del dev a parent 1: protocol ip prio 1 handle {+1} fw",
        ],
    },
    Lines {
        name: "basic",
        n: 600,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {+1} basic match 'cmp(u16 at 2 layer transport gt \
                 {+0})' classid 1:1",
        ],
    },
    Lines {
        name: "basic, replaced and deleted",
        n: 400,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {+1} basic match 'cmp(u16 at 2 layer transport gt \
                 {+0})' classid 1:1",
            "filter replace dev a parent 1: protocol ip prio 1 handle {+1} basic match 'cmp(u16 at 2 layer transport \
                 gt {+0})' classid 1:2",
            "filter del dev a parent 1: protocol ip prio 1 handle {+1} basic",
        ],
    },
    Lines {
        name: "bpf",
        n: 500,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {+1} bpf bytecode '1,6 0 0 {+0}' classid 1:1",
        ],
    },
    Lines {
        name: "flow",
        n: 500,
        first: &[DRR],
        each: &["filter add dev a parent 1: protocol ip prio 1 handle {+1} flow map key src divisor 1024"],
    },
    Lines {
        name: "u32",
        n: 450,
        first: &[PRIO],
        each: &["filter add dev a parent 1: protocol ip prio 1 u32 match ip dst 10.0.{ip}/32 flowid 1:1"],
    },
    Lines {
        name: "u32, priorities",
        n: 700,
        first: &[PRIO],
        each: &["filter add dev a parent 1: protocol ip prio {+1} u32 match ip dst 10.0.{ip}/32 flowid 1:1"],
    },
    Lines {
        name: "u32, tables and links",
        n: 450,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle {x+1}: u32 divisor 4",
            "filter add dev a parent 1: protocol ip prio 1 u32 ht {x+1}:1: match ip dst 10.0.0.1/32 flowid 1:1",
            "filter add dev a parent 1: protocol ip prio 1 u32 match ip src 10.0.{ip}/32 link {x+1}:",
        ],
    },
    Lines {
        name: "u32, changed and deleted",
        n: 450,
        first: &[PRIO],
        each: &[
            "filter add dev a parent 1: protocol ip prio 1 handle ::{x+1} u32 match ip dst 10.0.0.1/32 flowid 1:1",
            "filter replace dev a parent 1: protocol ip prio 1 handle 800::{x+1} u32 match ip dst 10.0.0.1/32 flowid 1:2",
            "filter del dev a parent 1: protocol ip prio 1 handle 800::{x+1} u32",
        ],
    },
    Lines {
        name: "filters of many places",
        n: 300,
        first: &[DRR],
        each: &[
            CLASS,
            "qdisc add dev a parent 1:{x+1} handle {x+2}: prio",
            "filter add dev a parent {x+2}: protocol ip prio 1 matchall classid {x+2}:1",
        ],
    },
    Lines {
        name: "places, deleted",
        n: 300,
        first: &[DRR],
        each: &[
            CLASS,
            "qdisc add dev a parent 1:{x+1} handle {x+2}: prio",
            "filter add dev a parent {x+2}: protocol ip prio 1 matchall classid {x+2}:1",
            "qdisc del dev a parent 1:{x+1} handle {x+2}:",
            "class del dev a classid 1:{x+1}",
        ],
    },
    Lines {
        name: "filters to many classes",
        n: 400,
        first: &[HTB],
        each: &[
            "class add dev a parent 1: classid 1:{x+1} htb rate 1mbit",
            "filter add dev a parent 1: protocol ip prio 1 flower dst_ip 10.0.{ip} classid 1:{x+1}",
        ],
    },
    Lines { name: "chains", n: 700, first: &[HOOKS], each: &["chain add dev a egress chain {+1}"] },
    Lines {
        name: "chains downwards",
        n: 700,
        first: &[HOOKS],
        each: &["chain add dev a egress chain {-1000000}"],
    },
    Lines {
        name: "chains, deleted",
        n: 500,
        first: &[HOOKS],
        each: &["chain add dev a egress chain {+1}", "chain del dev a egress chain {+1}"],
    },
    Lines {
        name: "chains of filters",
        n: 500,
        first: &[HOOKS],
        each: &["filter add dev a egress chain {+0} protocol ip prio 1 matchall action goto chain {+1}"],
    },
    Lines {
        name: "chains of filters, deleted",
        n: 500,
        first: &[HOOKS],
        each: &[
            "filter add dev a egress chain {+1} protocol ip prio 1 matchall action drop",
            "filter del dev a egress chain {+1} protocol ip prio 1",
        ],
    },
    Lines { name: "actions", n: 700, first: &[], each: &["actions add action gact pass index {+1}"] },
    Lines { name: "actions without an index", n: 700, first: &[], each: &["actions add action gact pass"] },
    Lines {
        name: "actions, replaced and deleted",
        n: 500,
        first: &[],
        each: &[
            "actions add action police rate 1mbit burst 10kb index {+1}",
            "actions replace action police rate 2mbit burst 10kb index {+1}",
            "actions del action police index {+1}",
        ],
    },
    Lines {
        name: "actions of filters",
        n: 500,
        first: &[HOOKS],
        each: &[
            "filter add dev a egress protocol ip prio 1 flower dst_ip 10.0.{ip} action skbedit priority {+0} action gact pass",
        ],
    },
    Lines {
        name: "an action of many filters",
        n: 500,
        first: &[HOOKS, "actions add action gact drop index 7"],
        each: &["filter add dev a egress protocol ip prio 1 flower dst_ip 10.0.{ip} action gact index 7"],
    },
];

/// Returns a line for an entry.
pub fn line(template: &str, i: usize) -> String {
    let mut out = String::new();
    let mut parts = template.split('{');
    out.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let (word, rest) = part.split_once('}').expect("a closing brace");
        let number = |digits: &str| digits.parse::<usize>().expect("a number");
        match word.split_at(1) {
            ("+", n) => out.push_str(&(i + number(n)).to_string()),
            ("-", n) => out.push_str(&(number(n) - i).to_string()),
            ("x", n) => out.push_str(&format!("{:x}", i + number(&n[1..]))),
            _ => out.push_str(&format!("{}.{}", i >> 8 & 255, i & 255)),
        }
        out.push_str(rest);
    }
    out
}

/// Devices with room for all that the lines make.
pub fn devices(n: usize) -> Memory {
    let env = Env { memory: 1 << 40, ..Env::default() };
    let names = ["a".to_string()].into_iter().chain((0..n).map(|i| format!("d{i}")));
    names.fold(Memory::new(&[]), |all, name| all.with(MemoryDevice::new(&name, 1, env).with_room(1)))
}

/// Runs a command line, with a batch if there is one.
pub fn tc(devices: &mut Memory, args: &str, batch: Option<&str>) -> Outcome {
    let args = args.split_whitespace().map(String::from).collect();
    let batch = batch.map(|text| Source::new("b", text));
    tool::run(&Request { args, batch, class_names: None }, devices)
}

/// Runs a command line with a file of the names of classes.
pub fn named(devices: &mut Memory, args: &str, names: &str) -> Outcome {
    let args = args.split_whitespace().map(String::from).collect();
    tool::run(&Request { args, batch: None, class_names: Some(names.into()) }, devices)
}

/// Runs a batch that must succeed.
pub fn batch(devices: &mut Memory, args: &str, text: &str) {
    let done = tc(devices, args, Some(text));
    let told: String = done.stderr.chars().take(500).collect();
    assert!(done.status == 0, "{told}");
}

const SHOWN: [&str; 9] = [
    "-s qdisc show",
    "-j -s qdisc show dev a",
    "-s -d class show dev a",
    "-j class show dev a",
    "-s filter show dev a",
    "-j filter show dev a egress",
    "filter show dev a parent 1:",
    "chain show dev a egress",
    "-s actions list action gact",
];

/// Takes the lines through all verbs.
fn run(lines: &Lines, n: usize, steps: &mut Steps) {
    let mut text: String = lines.first.iter().map(|line| format!("{line}\n")).collect();
    for template in lines.each {
        (0..n).for_each(|i| text.push_str(&format!("{}\n", line(template, i))));
    }
    let many = lines.first.is_empty() && !text.starts_with("actions");
    let made = || devices(if many { n } else { 0 });
    let mut plain = made();
    steps.step("batch", || batch(&mut plain, "-b b", &text));
    let mut atomic = made();
    steps.step("atomic", || batch(&mut atomic, "--atomic -b b", &text));
    let mut dry = made();
    steps.step("dry run", || batch(&mut dry, "--dry-run -b b", &text));
    steps.step("dry run, atomic", || batch(&mut dry, "--atomic --dry-run -b b", &text));
    let saved = steps.step("save", || tool::save(&mut atomic));
    steps.step("show", || SHOWN.iter().for_each(|args| drop(tc(&mut plain, args, None))));
    let mut again = made();
    steps.step("load what was saved", || batch(&mut again, "-b b", &saved));
    steps.step("check", || {
        let report = check::text(&text, "b", &CheckOptions::default());
        assert!(!report.diagnostics.iter().any(|d| d.message.contains("unread")));
    });
    if !many {
        steps.step("policy", || {
            let policy = Policy::parse(&text, "b").expect("a policy");
            policy.apply_to(&mut made(), &["a"]).expect("it applies");
        });
    }
}

pub fn cases() -> Vec<Case> {
    let case = |lines: &'static Lines| Case {
        name: lines.name.into(),
        n: lines.n,
        run: Box::new(move |n, steps| run(lines, n, steps)),
    };
    TABLE.iter().map(case).collect()
}
