//! Extraction of tc lines from batch files and shell scripts.

use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use txweir_lint::script::{self, Script};
use txweir_tc::ast::Command;
use txweir_tc::{Severity, Source};

fn read(text: &str) -> Script {
    script::read(&Arc::new(Source::new("s.sh", text)))
}

/// Returns the lines, with one blank between words.
fn lines(script: &Script) -> Vec<String> {
    let words =
        |l: &script::TcLine| l.line.words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" ");
    script.lines.iter().map(words).collect()
}

fn notes(script: &Script) -> Vec<String> {
    assert!(script.notes.iter().all(|n| n.severity == Severity::Note));
    script.notes.iter().map(|n| n.brief()).collect()
}

#[test]
fn a_batch_file_is_its_lines() {
    let script = read(
        "# all\nqdisc add dev eth0 root htb # tail\n\nclass add dev eth0 \\\n  parent 1: 'classid' 1:1\nqdsc\n",
    );
    assert_eq!(
        lines(&script),
        ["qdisc add dev eth0 root htb", "class add dev eth0 parent 1: classid 1:1", "qdsc"]
    );
    assert!(script.notes.is_empty());
}

#[test]
fn a_script_is_its_tc_lines() {
    let text = r#"#!/bin/sh
set -e
DEV=eth0 RATE="10mbit"
readonly CEIL=$((2 * 10))mbit
LATER=${4:-50ms}; WORDS='prio 1 quantum 1500'
tc qdisc del dev $DEV root 2>/dev/null || true
"$TC" qdisc add dev "$DEV" root handle 1: htb default 10 && sudo -n /sbin/tc -s class add dev ${DEV} parent 1: \
    classid 1:1 htb rate $RATE ceil "$CEIL" $WORDS >/dev/null 2>&1
ip netns exec left tc -n right qdisc add dev eth1 root tbf rate ${RATE:-1mbit} burst 5k latency $LATER | cat # end
qdisc add dev eth2 root pfifo
"#;
    let script = read(text);
    assert_eq!(
        lines(&script),
        [
            "qdisc del dev eth0 root",
            "qdisc add dev eth0 root handle 1: htb default 10",
            "class add dev eth0 parent 1: classid 1:1 htb rate 10mbit ceil 20mbit prio 1 quantum 1500",
            "qdisc add dev eth1 root tbf rate 10mbit burst 5k latency 50ms",
            "qdisc add dev eth2 root pfifo",
        ]
    );
    assert_eq!(script.lines[3].netns.as_ref().map(|w| w.text.as_str()), Some("right"));
    // The span of a word covers the text as it was written.
    let written: Vec<_> = script.lines[2].line.words.iter().map(|w| &text[w.span.clone()]).collect();
    assert_eq!(written[..4], ["class", "add", "dev", "${DEV}"]);
    assert_eq!(written[written.len() - 5..], ["\"$CEIL\"", "$WORDS", "$WORDS", "$WORDS", "$WORDS"]);
    assert!(script.notes.is_empty(), "{:?}", notes(&script));
}

#[test]
fn what_only_running_can_tell_is_named() {
    let script = read(
        "modprobe sch_htb\nmodprobe sch_sfq\n\
         DEV=$(ip route | head)\n\
         tc qdisc add dev $DEV root htb\n\
         tc qdisc add dev $1 root htb\n\
         tc qdisc add dev eth0 root handle $((1/0)): htb\n\
         for i in 1 2; do\n  tc class add dev eth0 classid 1:$i htb rate 1mbit\ndone\n\
         up() { tc qdisc add dev eth0 root htb; if true; then tc qdisc add dev eth1 root htb; fi; }\n\
         [ -n \"$2\" ] && tc qdisc add dev eth2 root htb\n\
         tc qdisc change dev e root htb || tc qdisc add dev e root htb\n\
         tc -b file.tc\n\
         . ./lib.sh\n\
         tc qdisc add dev eth9 root pfifo\n",
    );
    assert_eq!(lines(&script), ["qdisc change dev e root htb", "qdisc add dev eth9 root pfifo"]);
    assert_eq!(
        notes(&script),
        [
            "s.sh:1:1: \"modprobe\" is not tc: its lines are left out",
            "s.sh:4:18: cannot evaluate $DEV: this line is left out (give it a value in the file)",
            "s.sh:5:18: cannot evaluate $1: this line is left out (give it a value in the file)",
            "s.sh:6:35: cannot evaluate $((1/0)): this line is left out (give it a value in the file)",
            "s.sh:7:1: cannot evaluate \"for\": 1 tc line within it left out (write the tc lines out, \
             without it)",
            "s.sh:10:1: cannot evaluate a function: 2 tc lines within it left out (write the tc lines \
             out, without it)",
            "s.sh:11:16: this line runs only if the one before it fails or holds: left out",
            "s.sh:12:35: this line runs only if the one before it fails or holds: left out",
            "s.sh:13:4: cannot evaluate tc -b: the lines of file.tc are left out (check that file too)",
            "s.sh:14:1: \"./lib.sh\" is not read: the lines of that file are left out",
        ]
    );
    assert_eq!((script.left_out, script.partial), (9, true));
}

/// A script may call tc by a name of its own, here sqm-scripts' and FireQOS's form.
#[test]
fn lines_of_a_wrapper_are_counted() {
    let script = read(
        "TC=tc_wrapper\n$TC qdisc add dev eth0 root htb\n\
         call_tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit\n\
         egress() {\n  call_tc class add dev eth0 parent 1: classid 1:2 htb rate 1mbit\n  \
         call_tc filter replace dev eth0 parent 1: matchall\n}\n\
         ip link set dev eth0 up\ntc qdisc show dev eth0\n",
    );
    assert_eq!((script.lines.len(), script.left_out), (1, 4));
}

/// A tc line may be the condition of a compound command, stand behind a brace, or come from xargs.
#[test]
fn tc_lines_at_the_head_of_a_compound_command_are_counted() {
    for text in [
        "if ! tc qdisc add dev a root fq; then\n  echo no\nfi\n",
        "until tc qdisc add dev a root fq; do sleep 1; done\n",
        "{ tc qdisc add dev a root fq; } 2>/dev/null\n",
        "for d in *; do if x; then if tc qdisc add dev $d root fq; then y; fi; fi; done\n",
        "ls | xargs -n1 -I% tc qdisc add dev % root fq\n",
        "sed s/a/b/ lines | xargs -L1 tc\n",
    ] {
        let script = read(&format!("#!/bin/sh\n{text}"));
        assert_eq!((script.lines.len(), script.left_out), (0, 1), "{text}");
    }
    // These only look for the program.
    for text in [
        "for i in tc ip; do which $i; done\n",
        "if [ ! -x /sbin/tc ]; then\n  echo no\n  exit 1\nfi\n",
        "if ! command -v tc >/dev/null; then exit 1; fi\n",
        "which tc >/dev/null || exit 1\n",
    ] {
        assert_eq!(read(&format!("#!/bin/sh\n{text}")).left_out, 0, "{text}");
    }
}

/// A command goes on in the next line behind `&&` and `||`; no line behind `exit` runs.
#[test]
fn conditions_reach_over_the_end_of_a_line() {
    let script = read(
        "[ -n \"$1\" ] &&\n  tc qdisc add dev a root fq\n\
         tc qdisc add dev b root fq ||\n  # or else\n  tc qdisc add dev c root fq\n\
         [ -n \"$2\" ] && exit\n\
         tc qdisc add dev d root fq\nexit 0\ntc qdisc add dev e root fq\n",
    );
    assert_eq!(lines(&script), ["qdisc add dev b root fq", "qdisc add dev d root fq"]);
    assert_eq!(script.left_out, 2);
}

/// Values of variables: defaults with variables in them, defaults that are kept, values that are
/// appended, and values that only a run could tell.
#[test]
fn values_of_variables() {
    for (text, word) in [
        ("A=x; B=${A:-${C}}; tc $B", Some("x")),
        ("C=y; B=${A:-${C}z}; tc $B", Some("yz")),
        ("C=y; A=; B=${A:-\"$C\"}; tc $B", Some("y")),
        ("C=y; A=$1; tc ${A:-$C}", Some("y")),
        ("N=0; tc ${DEV:-eth$N}", Some("eth0")),
        ("A=; tc x${A-y}", Some("x")),
        ("A=x; tc ${A:?none}", Some("x")),
        (": ${A:=x} \"${B:=y}\"; tc $A$B", Some("xy")),
        ("A=x; : ${A:=y}; tc $A", Some("x")),
        ("A=x; A+=y; tc $A", Some("xy")),
        ("A=x; A=y true; tc $A", Some("x")),
        ("A=x; declare -rx A; export A; tc $A", Some("x")),
        ("A=$(echo '(' \")\"); tc y", Some("y")),
        ("A=$(cat # it's\n); tc y", Some("y")),
        ("tc 1:$((010 + 0x10))", Some("1:24")),
        ("tc $(($1 * 8))", None),
        ("tc ${A:?none}", None),
        ("[ -n \"$B\" ] && : ${A:=x}; tc $A", None),
        ("A=1; ((A++)); tc $A", None),
        ("A=1; let A=A+1; tc $A", None),
        ("A=1; B=$((A += 1)); tc $A", None),
        ("A=1; read A; tc $A", None),
        ("A=1; for i in 1 2; do A=$((A + 1)); done; tc $A", None),
        ("i=1; for i in 1 2; do x; done; tc $i", None),
        ("i=1; for ((i = 0; i < 2; i++)); do x; done; tc $i", None),
        ("A=1; f() { for i in 1 2; do A=$((A + 1)); done; }; tc $A", Some("1")),
        ("A=1; while getopts a: o; do case $o in a) A=$OPTARG;; esac; done; tc $A", Some("1")),
    ] {
        let expected = word.map(String::from).into_iter().collect::<Vec<_>>();
        assert_eq!(lines(&read(&format!("#!/bin/sh\n{text}\n"))), expected, "{text}");
    }
    let script = read("for ((i = 0; i < 2; i++)); do\n  tc qdisc add dev a root fq\ndone\n");
    assert_eq!((script.lines.len(), script.left_out), (0, 1));
}

/// A backslash protects the word that ends a here-document as quotes do.
#[test]
fn a_protected_here_document_keeps_its_dollars() {
    let script = read("D=eth0\ntc -b - <<\\EOF\nqdisc add dev '$D' root fq\nEOF\n");
    assert_eq!(lines(&script), ["qdisc add dev $D root fq"]);
}

/// The namespace of `tc -n` and `ip netns exec` is that of a here-document's lines too.
#[test]
fn a_here_document_is_for_a_namespace() {
    let script = read(
        "tc -n left -b - <<EOF\nqdisc add dev a root fq\nEOF\n\
         ip netns exec right tc -b - <<'EOF'\nqdisc add dev a root fq\nEOF\n",
    );
    let names = script.lines.iter().map(|l| l.netns.as_ref().map(|w| w.text.as_str()));
    assert_eq!(names.collect::<Vec<_>>(), [Some("left"), Some("right")]);
}

/// Other options and their values may stand before the namespace, the file of a batch too.
#[test]
fn a_namespace_is_found_behind_the_values_of_other_options() {
    let script = read(
        "tc -cf names -n left qdisc add dev a root fq\n\
         tc -c names -s -ne right qdisc add dev a root fq\n\
         tc -b - -n middle <<EOF\nqdisc add dev a root fq\nEOF\n",
    );
    let names = script.lines.iter().map(|l| l.netns.as_ref().map(|w| w.text.as_str()));
    assert_eq!(names.collect::<Vec<_>>(), [Some("left"), Some("right"), Some("middle")]);
    assert_eq!(lines(&script), ["qdisc add dev a root fq"; 3]);
    assert!(script.notes.is_empty());
}

/// The words of a script are those of the policy, whatever signs they have.
#[test]
fn a_policy_has_the_words_of_its_script() {
    for (word, text) in
        [("\"it's\"", "it's"), ("'say \"#it\"'", "say \"#it\""), ("\"it's \\\"#it\\\"\"", "it's \"#it\"")]
    {
        let script = format!("A=a\ntc filter add dev $A matchall action simple sdata {word}\n");
        let policy = script::policy("s.sh", &script).expect(word);
        let [Command::Filter(filter)] = policy.commands() else { panic!("{word}") };
        assert_eq!(filter.options.last().map(|w| w.text.as_str()), Some(text));
    }
}

/// A long text takes time and memory in proportion to its length.
#[test]
fn long_scripts_are_read_in_time() {
    let start = Instant::now();
    let deep = format!("#!/bin/sh\n{}{}", "if\n".repeat(100_000), "}\n".repeat(100_000));
    assert_eq!(read(&deep).left_out, 0);
    let here = format!("#!/bin/sh\ncat {}\n", "<<A ".repeat(100_000));
    assert_eq!(read(&here).left_out, 0);
    // 400 MB, if each of these had its value.
    let wide = format!("A={}\ntc qdisc add dev {} root fq\n", "x".repeat(4000), "$A".repeat(100_000));
    let script = read(&wide);
    assert_eq!((script.lines.len(), script.left_out), (0, 1));
    // Seconds, also on a busy machine; work in proportion to the square would take hours.
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn here_documents_are_batches() {
    let script = read(
        "D=eth0\ntc -b - <<EOF && tc qdisc add dev b root pfifo\nqdisc add dev $D root htb\nclass add dev $X parent 1: htb\nEOF\n\
         tc -batch <<-'END'\n\tqdisc add dev '$D' root pfifo\n\tEND\ntc qdisc add dev a root pfifo\n",
    );
    assert_eq!(
        lines(&script),
        [
            "qdisc add dev eth0 root htb",
            "qdisc add dev b root pfifo",
            "qdisc add dev $D root pfifo",
            "qdisc add dev a root pfifo"
        ]
    );
    assert_eq!(notes(&script), ["s.sh:4:1: cannot evaluate $X: this line is left out"]);
}

proptest! {
    /// Any text can be read, and the span of every word lies in it.
    #[test]
    fn any_text_is_read(text in "(tc |#!|A=|\\$A|\\$\\{A:-|\\}|\\$\\(|\\$\\(\\(|\\)|<<E\n|E\n|if |fi|for \
     |done|\\{|f\\(\\)|'|\"|`|\\\\|;|&&|\\|\\||\n| |qdisc|-b |ç|1|\\*){0,40}") {
        let script = read(&text);
        for line in &script.lines {
            for word in &line.line.words {
                prop_assert!(text.get(word.span.clone()).is_some());
            }
        }
        for note in &script.notes {
            prop_assert!(text.get(note.span.clone()).is_some());
        }
    }

    /// A value that grows without bound is dropped, so that its line is left out.
    #[test]
    fn values_are_bounded(times in 1usize..40) {
        let script = read(&format!("A=xx\n{}tc qdisc add dev $A root pfifo\n", "A=$A$A\n".repeat(times)));
        prop_assert!(script.lines.len() + script.notes.len() == 1);
    }
}
