//! Extraction of tc lines from batch files and shell scripts.

use std::sync::Arc;

use proptest::prelude::*;
use txweir_lint::script::{self, Script};
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
