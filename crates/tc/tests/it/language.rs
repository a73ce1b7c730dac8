//! The words after a kind: `language.txt` has the verdict of tc itself (iproute2 6.1) for each
//! line.

use std::process::Command;
use std::sync::Arc;

use txweir_core::qdisc::KINDS;
use txweir_tc::Source;
use txweir_tc::language::{self, Object};
use txweir_tc::lex::{self, Word};
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Request, run};

/// A line of the table.
struct Row {
    /// `good` and `bad` are verdicts of tc. `read` marks a line that tc refuses because the machine
    /// lacks something, or that only a newer tc accepts.
    verdict: &'static str,
    object: &'static str,
    line: &'static str,
}

fn table() -> Vec<Row> {
    let rows = include_str!("language.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    rows.map(|row| {
        let (verdict, row) = row.split_once(' ').expect("a verdict");
        let (object, line) = row.trim_start().split_once(' ').expect("an object");
        Row { verdict, object, line }
    })
    .collect()
}

fn words(line: &str) -> (Arc<Source>, Vec<Word>) {
    let source = Arc::new(Source::new("t", line));
    let lines = lex::lines(&source, 0..line.len());
    let words = lines.into_iter().next().expect("a line").expect("quotes").words;
    (source, words)
}

fn read(object: &str, line: &str) -> Result<Vec<language::Setting>, txweir_tc::Diagnostic> {
    let object = match object {
        "qdisc" => Object::Qdisc,
        "class" => Object::Class,
        "filter" => Object::Filter,
        _ => Object::Action,
    };
    let (source, words) = words(line);
    assert!(language::knows(object, &words[0].text), "{line}");
    language::read(object, &words[0].text, &source, &words[1..])
}

#[test]
fn every_line_is_read_or_refused_as_tc_does() {
    let mut wrong = Vec::new();
    let mut counts = [0; 2];
    for row in table() {
        let got = if in_engine(&row) {
            run_here(&row)
        } else {
            read(row.object, row.line).map(|_| ()).map_err(|e| e.brief())
        };
        counts[usize::from(row.verdict == "bad")] += 1;
        if got.is_ok() == (row.verdict == "bad") {
            let said = got.err().unwrap_or_default();
            wrong.push(format!("{} {} {}  {said}", row.verdict, row.object, row.line));
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts[0] >= 400 && counts[1] >= 150, "{counts:?}");
}

/// True if the engine has the kind, so that its own declarations read the words.
fn in_engine(row: &Row) -> bool {
    let kind = row.line.split(' ').next().unwrap_or("");
    let spec = KINDS.iter().find(|s| s.kind == kind);
    match row.object {
        "qdisc" => spec.is_some(),
        "class" => spec.is_some_and(|s| s.classes.is_some()),
        _ => false,
    }
}

/// Runs the line on a device in memory. The words count as read if the status is 0 or 2, with which
/// tc ends after it has handed a request to the kernel.
fn run_here(row: &Row) -> Result<(), String> {
    let mut devices = Memory::new(&["lo"]);
    let done = run(&Request { args: line_of(row), ..Request::default() }, &mut devices);
    match done.status {
        0 | 2 => Ok(()),
        _ => Err(done.stderr.lines().next().unwrap_or("").into()),
    }
}

/// Returns the words of the whole line for a row, without their quotes.
fn line_of(row: &Row) -> Vec<String> {
    let before = match row.object {
        "qdisc" => "qdisc add dev lo root handle 1:",
        "class" => "class add dev lo parent 1: classid 1:1",
        "filter" => "filter add dev lo parent 1: protocol ip prio 1",
        _ => "filter add dev lo parent 1: protocol ip prio 1 u32 match u32 0 0 action",
    };
    before.split(' ').map(String::from).chain(words(row.line).1.into_iter().map(|w| w.text)).collect()
}

/// The verdicts of the table are those of tc. Status 0 and 2 (a refusal of the kernel) mean that tc
/// has read the line, 1 and 255 that it has not. Each line runs in a network namespace of its own,
/// which ends with tc.
#[test]
fn the_table_is_what_tc_says() {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    let version =
        Command::new("tc").arg("-V").output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    if !root || !version.is_ok_and(|v| v.contains("iproute2-6.1")) {
        eprintln!("skipped: needs root and the tc of iproute2 6.1");
        return;
    }
    let mut wrong = Vec::new();
    for row in table() {
        let ran = Command::new("unshare").args(["-n", "tc"]).args(line_of(&row)).output().expect("unshare");
        let parsed = match ran.status.code() {
            Some(0 | 2) => "good",
            Some(1 | 255) => "bad",
            other => panic!("{}: {other:?}", row.line),
        };
        if row.verdict != "read" && parsed != row.verdict {
            wrong.push(format!("{parsed} {} {}", row.object, row.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Literal errors of the options of classes that the engine has.
#[test]
fn messages_of_classes() {
    for (options, said) in [
        ("rate 10mbitt", "htb rate: \"10mbitt\" is not a rate (did you mean \"10mbit\"?)"),
        ("ceil 10mbit", "htb needs rate (expected a rate, at least 8bit)"),
        ("rate 1mbit ceil", "htb ceil needs a value"),
        ("rate 1mbit ceil prio 1", "htb ceil needs a value"),
        ("rate 1mbit rate 2mbit", "htb rate is given twice (leave one of them out)"),
        ("rat 1mbit", "htb has no parameter \"rat\""),
    ] {
        let line = format!("class add dev e parent 1: classid 1:1 htb {options}");
        let source = Arc::new(Source::new("t", &line));
        let words = lex::lines(&source, 0..line.len()).into_iter().next().expect("a line").expect("quotes");
        let brief = txweir_tc::command::parse(&source, &words).expect_err(options).brief();
        assert!(brief.contains(said), "{options}: {brief}");
    }
}

/// Literal errors, one line each.
#[test]
fn messages() {
    let brief = |object: &str, line: &str| read(object, line).expect_err(line).brief();
    for (object, line, said) in [
        (
            "filter",
            "flower indv eth0",
            "t:1:8: flower filter has no parameter \"indv\" (did you mean \"indev\"?)",
        ),
        (
            "filter",
            "flower vlan_id 4096",
            "t:1:16: flower filter vlan_id: 4096 is out of range (expected a whole number from 0 to 4095)",
        ),
        ("qdisc", "ingress quantum 5", "t:1:9: ingress takes no parameters, given \"quantum\""),
        (
            "filter",
            "u32 match ip dport 22",
            "t:1:20: u32 filter match ip dport needs a mask after 22 (did you mean \"22 0xffff\"?)",
        ),
        (
            "filter",
            "u32 match tcp dport 22 0xffff",
            "t:1:15: u32 filter match tcp has no field \"dport\" (did you mean \"dst\"?)",
        ),
        (
            "filter",
            "u32 divisor 3",
            "t:1:13: u32 filter divisor: 3 is not a power of two (did you mean \"4\"?)",
        ),
        (
            "filter",
            "flower dst_port 80",
            "t:1:8: flower filter dst_port needs ip_proto tcp, udp or sctp before it (did you mean \"ip_proto tcp dst_port\"?)",
        ),
        (
            "filter",
            "flower ip_proto tpc",
            "t:1:17: flower filter ip_proto: \"tpc\" is not a value for it (did you mean \"tcp\"?)",
        ),
        (
            "filter",
            "matchall action mired egress redirect dev lo",
            "t:1:17: there is no action \"mired\" (did you mean \"mirred\"?)",
        ),
        (
            "filter",
            "basic match 'cpm(u8 at 0 layer 1 eq 3)'",
            "t:1:13: basic filter match: \"cpm\" does not belong here (did you mean \"'cmp(u8 at 0 layer 1 eq 3)'\"?)",
        ),
        ("action", "police rate 1mbit", "t:1:8: action police needs burst beside rate"),
        (
            "action",
            "skbedit mark x",
            "t:1:14: action skbedit mark: \"x\" is not a number (expected a number, or number/mask)",
        ),
    ] {
        assert_eq!(brief(object, line), said);
    }
}
