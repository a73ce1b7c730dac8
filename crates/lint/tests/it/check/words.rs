//! Words and kinds: wrong values and keys, and what only Linux or only the engine has.

use txweir_tc::Severity;

use super::{HTB, htb, report, said};

#[test]
fn a_kind_that_nobody_has_is_an_error() {
    assert_eq!(
        said("qdisc add dev e root htp"),
        ["error unknown-kind p:1:22: tc knows no qdisc htp (did you mean \"htb\"?)"]
    );
    assert_eq!(said("qdisc add dev e root fq_codl").len(), 1);
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: prio\nfilter add dev e parent 1: protocol ip prio 1 u23 flowid 1:1"
        ),
        ["error unknown-kind p:2:47: there is no filter kind \"u23\" (did you mean \"u32\"?)"]
    );
}

/// Words that are no values of their key, and words that are no keys.
#[test]
fn values() {
    assert_eq!(
        htb("class change dev e parent 1:1 classid 1:20 htb rate 10\n\
         qdisc add dev e parent 1:10 handle 10: tbf rate 8 burst 5k latency 10ms\n\
         class change dev e parent 1:1 classid 1:10 htb rate 10mbitt\n\
         qdisc add dev e parent 1:10 fq_codel limt 100\n\
         qdisc add dev e parent 1:10 fq_codel target 5 ms\n\
         qdisc add dev e parent 1:10 cake bandwith 10mbit\n"),
        [
            "error bare-rate p:6:53: htb rate 10 means 10 bit/s (write the unit: 10kbit, 10mbit, or 10bit if it is meant)",
            "error bare-rate p:7:49: tbf rate 8 means 8 bit/s (write the unit: 8kbit, 8mbit, or 8bit if it is meant)",
            "error bad-value p:8:53: htb rate: \"10mbitt\" is not a rate (did you mean \"10mbit\"?)",
            "error unknown-key p:9:38: fq_codel has no parameter \"limt\" (did you mean \"limit\"?)",
            "error split-value p:10:45: \"5 ms\" is two words: a value and its unit are one (join them: \"5ms\")",
            "error unknown-key p:11:34: cake has no parameter \"bandwith\" (did you mean \"bandwidth\"?)",
        ]
    );
}

#[test]
fn kinds_of_linux_are_noted_once() {
    assert!(report(HTB).diagnostics.is_empty());
    let text = "tc qdisc add dev e root handle 1: teql0\n\
         tc qdisc add dev f root handle 1: teql0\n";
    let report = report(text);
    let notes: Vec<_> = report.diagnostics.iter().map(|d| (d.severity, d.message.as_str())).collect();
    assert_eq!(notes, [(Severity::Note, "teql0 is checked by its grammar; txweir cannot run it"),]);
    assert_eq!(
        (report.count(Severity::Error), report.count(Severity::Warning), report.count(Severity::Note)),
        (0, 0, 1)
    );
}

/// A kind, a filter and an option that only the engine has: the check warns at the word that tc of
/// Linux would refuse.
#[test]
fn what_linux_has_not_is_said() {
    let said = |text: &str| said(text).into_iter().filter(|s| s.contains("not-in-linux")).collect::<Vec<_>>();
    assert_eq!(
        said("qdisc add dev e root rough limit 100"),
        ["warning not-in-linux p:1:22: qdisc rough is txweir's own: Linux has none"]
    );
    assert_eq!(
        said("qdisc add dev e root handle 1: prio\nfilter add dev e parent 1: prio 1 tcpctl flowid 1:1"),
        ["warning not-in-linux p:2:35: classifier tcpctl is txweir's own: Linux has none"]
    );
    for kind in ["fq", "fq_codel", "prio"] {
        let line = format!("qdisc add dev e root {kind} tcpctl 10%");
        let expected = format!(
            "warning not-in-linux p:1:{}: tcpctl of {kind} is txweir's own: Linux has none",
            23 + kind.len()
        );
        assert_eq!(said(&line), [expected]);
        assert_eq!(said(&format!("qdisc add dev e root {kind}")), [""; 0]);
    }
    let line =
        "qdisc add dev e root handle 1: htb\nclass add dev e parent 1: classid 1:1 htb rate 1mbit shared up";
    let own = "warning not-in-linux p:2:54: shared of htb is txweir's own: Linux has none";
    assert_eq!(said(line), [own]);
    let line = "qdisc add dev e root tbf rate 1mbit burst 10k limit 100k shared up";
    assert_eq!(said(line), ["warning not-in-linux p:1:58: shared of tbf is txweir's own: Linux has none"]);
}
