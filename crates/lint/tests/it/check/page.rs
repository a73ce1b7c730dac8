//! Laws over many lines: suggestions, the page of rules, any text.

use proptest::prelude::*;
use txweir_lint::machine::{Call, MachineOptions};
use txweir_lint::recording::{self, Recording};
use txweir_tc::{Diagnostic, Severity};

use super::{HTB, options, report};

/// Each suggestion can be pasted in place of its span: the changed policy has one fault less.
#[test]
fn suggestions_can_be_pasted() {
    let text = format!(
        "{}filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 23 0xffff flowid 1:21\n\
         qdisc add dev e parent 1:10 fq_codel limt 5\n\
         class add dev e parent 1: classid 2:1 htb rate 10mbitt quantum 10000\n",
        HTB.replace("rate 10mbit ceil 50mbit", "rate 40mbit burst 1kb ceil 30mbit")
            .replace("default 10", "default 11")
    );
    let mut text = text;
    let wrong = |text: &str| {
        report(text).diagnostics.into_iter().find(|d| d.severity != Severity::Note && d.suggestion.is_some())
    };
    let mut done = Vec::new();
    while let Some(d) = wrong(&text) {
        assert!(done.len() < 20, "{done:?}\n{text}");
        done.push(d.code);
        text.replace_range(d.span.clone(), d.suggestion.as_deref().expect("filtered"));
    }
    for code in [
        "unknown-default",
        "small-burst",
        "ceil-below-rate",
        "dangling-flowid",
        "unknown-key",
        "bad-value",
        "wrong-major",
    ] {
        assert!(done.contains(&code), "{code} is not in {done:?}\n{text}");
    }
}

/// The rules that only a run of a script has.
const OF_RUN: [&str; 3] = ["refused", "script-failed", "unset-mark"];

/// Returns the findings of a run of these lines, which have no words of a shell but `exit`.
fn of_run(text: &str) -> Vec<Diagnostic> {
    let mut recording = Recording::new(&MachineOptions::default());
    let mut failed = None;
    for line in text.lines() {
        let mut words = line.split_whitespace().map(String::from);
        let program = words.next().expect("a word");
        if program == "exit" {
            failed = Some(recording::failed(&[], Severity::Warning, "the script failed"));
            break;
        }
        recording.call(&Call { program, args: words.collect(), ..Call::default() });
    }
    let report = recording.check("run", &options());
    report.diagnostics.into_iter().chain(failed).collect()
}

/// Each rule in the table of the page has an example, and the check reports that code for it and no
/// other error or warning.
#[test]
fn the_page_of_rules_is_true() {
    let page = include_str!("../../../../../docs/check.md");
    let rows = page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` | "));
    let mut rules = 0;
    for (code, rest) in rows {
        rules += 1;
        let severities: Vec<&str> = rest.split(" | ").next().expect("a column").split(", ").collect();
        let form = if OF_RUN.contains(&code) { "sh" } else { "tc" };
        let head = format!("\n`{code}`\n\n```{form}\n");
        let example = page.split(&head).nth(1).unwrap_or_else(|| panic!("{code} has no example"));
        let text = example.split("```").next().expect("an end");
        let all = if form == "sh" { of_run(text) } else { report(text).diagnostics };
        let said = all.iter().find(|d| d.code == code).unwrap_or_else(|| panic!("{code}: {all:?}"));
        assert!(severities.contains(&said.severity.name()), "{code} is {}", said.severity.name());
        let other = all.iter().find(|d| d.severity != Severity::Note && d.code != code);
        assert!(other.is_none(), "{code}: {other:?}");
    }
    let examples = ["```tc", "```sh"].map(|form| page.matches(form).count());
    assert_eq!((rules, examples), (36, [33, 3]));
}

proptest! {
    /// The check accepts any lines, and the span of every report lies in the text.
    #[test]
    fn any_lines_are_checked(lines in prop::collection::vec(line(), 0..12)) {
        let text = lines.join("\n");
        let report = report(&text);
        for d in &report.diagnostics {
            prop_assert!(text.get(d.span.clone()).is_some(), "{d:?}");
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let verb = prop::sample::select(vec!["add", "replace", "change", "del"]);
    let at = prop::sample::select(vec![
        "root",
        "parent 1:",
        "parent 1:1",
        "parent 1:2",
        "parent 2:1",
        "parent ffff:",
        "clsact",
    ]);
    let name =
        prop::sample::select(vec!["", "handle 1:", "handle 2:", "classid 1:1", "classid 1:2", "classid 2:1"]);
    let kind = prop::sample::select(vec![
        "htb default 2",
        "htb rate 1mbit ceil 0bit burst 0",
        "htb rate 99999999tbit quantum 4294967295",
        "prio bands 16",
        "mqprio queues 0@0",
        "mqprio num_tc 255 queues 65535@65535 18446744073709551615@18446744073709551615 1@1",
        "hfsc ls m2 1mbit",
        "mq",
        "ets strict 3",
        "u32 match ip src 0/0 flowid 1:2",
        "matchall flowid :1",
        "fw flowid ffff:ffff action drop",
        "tbf rate 0bit burst 0 limit 0",
        "netem delay 4294s",
        "cake bandwidth 10",
        "pfifo limit 4294967295",
        "drr",
        "taprio num_tc 1",
        "fq_codel",
    ]);
    let object = prop::sample::select(vec!["qdisc", "class", "filter"]);
    (object, verb, at, name, kind).prop_map(|(o, v, a, n, k)| format!("{o} {v} dev e {a} {n} {k}"))
}
