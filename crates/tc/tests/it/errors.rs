//! Literal texts of errors and warnings: the text is part of the product.

use txweir_core::qdisc::KINDS;
use txweir_core::sched::cx::Cx;
use txweir_core::{Env, Tree};
use txweir_tc::{Policy, Severity, show};

/// Returns the diagnostics of all wrong lines, one line each.
fn briefs(text: &str) -> Vec<String> {
    match Policy::parse(text, "p") {
        Ok(_) => Vec::new(),
        Err(all) => all.iter().map(|d| d.brief()).collect(),
    }
}

/// Returns the answer of a default device to a policy.
fn refused(text: &str) -> String {
    let policy = Policy::parse(text, "p").unwrap_or_else(|e| panic!("{e}"));
    match policy.check(&Env::default()) {
        Ok(()) => "accepted".into(),
        Err(d) => d.brief(),
    }
}

#[test]
fn the_whole_message() {
    let err =
        Policy::parse("# uplink\nqdisc add dev eth0 root fq_codel limt 100\n", "uplink.tc").unwrap_err();
    assert_eq!(
        err.to_string(),
        "\
error[unknown-key]: fq_codel has no parameter \"limt\"
 --> uplink.tc:2:34
  |
2 | qdisc add dev eth0 root fq_codel limt 100
  |                                  ^^^^ expected one of limit, flows, quantum, target, ce_threshold, \
ce_threshold_selector, interval, memory_limit, ecn, noecn, drop_batch, tcpctl
  = help: did you mean \"limit\"?
"
    );
}

#[test]
fn words_before_the_kind() {
    for (line, said) in [
        ("qdsc add root tbf", "p:1:1: there is no object \"qdsc\" (did you mean \"qdisc\"?)"),
        ("add root pfifo", "p:1:1: there is no object \"add\" (begin with the object: qdisc add)"),
        (
            "tc -s qdisc show",
            "p:1:4: there is no object \"-s\" (options of tc go before \
            the object, and have no place in a policy)",
        ),
        ("tc", "p:1:1: there is nothing after \"tc\" (expected qdisc, class, filter, chain or actions)"),
        ("qdisc", "p:1:1: there is no verb after \"qdisc\" (expected add, replace, change or del)"),
        ("qdisc ad0 root pfifo", "p:1:7: qdisc has no verb \"ad0\" (did you mean \"add\"?)"),
        (
            "qdisc show dev eth0",
            "p:1:7: \"show\" has no place in a policy (expected add, replace, change or del)",
        ),
        ("qdisc link root pfifo", "p:1:7: \"link\" has no place in a policy (replace does the same)"),
        (
            "qdisc add dev eth0 fq_codel",
            "p:1:7: this does not say where (expected root, or parent MAJOR:MINOR)",
        ),
        ("qdisc add root", "p:1:1: this does not say which kind (expected one of {kinds})"),
        ("qdisc add root fq_codl", "p:1:16: there is no qdisc kind \"fq_codl\" (did you mean \"fq_codel\"?)"),
        ("qdisc add rot pfifo", "p:1:11: there is no qdisc kind \"rot\" (did you mean \"root\"?)"),
        (
            "qdisc add root teql0",
            concat!(
                "p:1:16: txweir has no qdisc teql0: Linux has it (it only feeds the kernel's device teql0, which ",
                "sends by several devices in turn to the neighbours behind them; txweir has neither: mq takes ",
                "turns over the queues of one device)"
            ),
        ),
        (
            "qdisc add parent 1:1:1 pfifo",
            concat!(
                "p:1:18: \"1:1:1\" is not a class (expected a class, ",
                "MAJOR:MINOR, or root, hexadecimal, each at most ffff)"
            ),
        ),
        (
            "qdisc add root handle 10000: pfifo",
            concat!(
                "p:1:23: \"10000:\" is not a qdisc's handle (expected ",
                "a qdisc's handle, MAJOR:, hexadecimal, each at most ffff)"
            ),
        ),
        ("qdisc add root parent 1:", "p:1:16: \"parent\" is given a second time"),
        ("qdisc add parent", "p:1:11: \"parent\" needs a value (expected a class, MAJOR:MINOR, or root)"),
        ("qdisc del root pfifo limit 3", "p:1:22: del takes no options"),
        ("qdisc add ingress pfifo", "p:1:19: ingress has no parameter \"pfifo\" (expected no parameter)"),
        (
            "qdisc add root estimator 8s 1s pfifo",
            "p:1:16: estimator averages over no more than one of its intervals (expected a longer time after a \
             shorter one: estimator 1s 8s)",
        ),
        (
            "qdisc add root ingress_block 1 pfifo",
            "p:1:30: only ingress and clsact have blocks that devices share",
        ),
        (
            "qdisc add ingress_block 0 ingress",
            "p:1:25: ingress_block cannot be 0 (expected a block's number, at least 1)",
        ),
        ("qdisc add root netem gap 5", "p:1:26: netem gap needs reorder with it: how often"),
        (
            "qdisc add root netem reorder 5%",
            "p:1:30: netem reorder needs a delay with it: reordered packets are those that do not wait",
        ),
        (
            "qdisc add root netem delay 1ms distribution normal",
            "p:1:45: netem distribution needs a delay and a jitter with it",
        ),
        (
            "qdisc add root netem ecn",
            "p:1:22: netem ecn needs loss with it: ecn marks packets instead of losing them",
        ),
        (
            "qdisc add ingres",
            "p:1:11: \"ingres\" needs a value (tc reads \"ingres\" as ingress_block; the hook is ingress)",
        ),
        (
            "qdisc add root stab pfifo",
            "p:1:16: \"stab\" needs at least one of its keys (expected one of mtu, mpu, \
             overhead, tsize, linklayer)",
        ),
        (
            "qdisc add root stab mpu -5 pfifo",
            "p:1:25: mpu: \"-5\" is not a value for it (expected a whole number)",
        ),
        ("qdisc add root root pfifo", "p:1:16: \"root\" is given a second time"),
        (
            "class add parent 1: classid 1:2 tbf rate 1mbit",
            "p:1:33: tbf has no classes that can be added, changed or deleted (its class comes with it: 1:1)",
        ),
        (
            "class add handle 1:1 tbf",
            "p:1:11: a class has no handle, but a classid (did you mean \"classid\"?)",
        ),
        ("class del parent 1:1", "p:1:7: this does not say which class (expected classid MAJOR:MINOR)"),
        ("filter add dev a block 1 matchall", "p:1:18: a line is about a device or a block, not both"),
        (
            "filter add dev a proto ipv5",
            "p:1:24: proto: \"ipv5\" is not a value for it (did you mean \"ipv4\"?)",
        ),
        (
            "filter add dev a prio 65536",
            "p:1:23: prio: \"65536\" is not a value for it (expected a number, 1 to 65535, the lowest first)",
        ),
        (
            "filter get dev a",
            "p:1:8: this does not say which protocol (expected protocol NAME, prio N, handle ID and the kind)",
        ),
        (
            "chain show dev a",
            "p:1:7: \"show\" has no place in a policy (expected add, replace, change or del)",
        ),
        ("actions add", "p:1:9: this does not say which action (expected action KIND ...)"),
        ("actions ls action", "p:1:9: this does not say which action (expected action KIND ...)"),
        (
            "class add dev eth0 parent 1: classid 1:1 teql0 weight 10",
            "p:1:42: there is no kind \"teql0\" with classes (expected one of {classes})",
        ),
        ("qdisc add root 'pfifo", "p:1:16: this ' is not closed on its line (expected a closing ')"),
    ] {
        let kinds: Vec<_> = KINDS.iter().map(|s| s.kind).collect();
        let classes: Vec<_> = KINDS.iter().filter_map(|s| s.classes.map(|c| c.kind)).collect();
        let said = said.replace("{kinds}", &kinds.join(", ")).replace("{classes}", &classes.join(", "));
        assert_eq!(briefs(line), [said], "{line}");
    }
}

#[test]
fn a_tree_alone_has_no_filters() {
    for line in [
        "qdisc add ingress",
        "qdisc add dev eth0 clsact",
        "filter add dev eth0 matchall",
        "f a dev eth0 parent 1: pr 1 proto ip chain 3 handle 5 fw",
        "filter del dev eth0 ingress",
        "chain add dev eth0 root chain 7",
        "actions del action gact index 1",
    ] {
        let policy = Policy::parse(line, "p").unwrap_or_else(|e| panic!("{line}: {e}"));
        let refused = policy.apply(&mut Tree::new(Env::default()), &mut Cx::new(1, 0)).unwrap_err();
        assert_eq!(
            refused.brief(),
            "p:1:1: a tree of qdiscs alone has no filters, actions or hooks",
            "{line}"
        );
    }
}

#[test]
fn options() {
    for (options, said) in [
        ("fq_codel limt 100", "fq_codel has no parameter \"limt\" (did you mean \"limit\"?)"),
        ("fq_codel target 5 ms", "\"5 ms\" is two words: a value and its unit are one (join them: \"5ms\")"),
        (
            "tbf rate 10 mbit burst 5kb limit 9kb",
            "\"10 mbit\" is two words: a value and its unit are one (join them: \"10mbit\")",
        ),
        (
            "tbf rate 10mbitt burst 5kb limit 9kb",
            "tbf rate: \"10mbitt\" is not a rate (did you mean \"10mbit\"?)",
        ),
        ("tbf rate 10m burst 5kb limit 9kb", "tbf rate: \"10m\" is not a rate (did you mean \"10mbit\"?)"),
        (
            "tbf rate 1mbit burst 5kbyte limit 9kb",
            "tbf burst: \"5kbyte\" is not a size (did you mean \"5kb\"?)",
        ),
        (
            "bfifo limit many",
            "bfifo limit: \"many\" is not a size (expected a size (1600, 32kb, 4mb; bare: bytes), at \
            most 4294967295 bytes)",
        ),
        (
            "tbf rate burst 5kb limit 9kb",
            "tbf rate needs a value (expected a rate (10mbit, 1.5gbit, 100kbps = \
            bytes; bare: bit/s), at least 8bit)",
        ),
        (
            "tbf burst 5kb limit 9kb rate",
            "tbf rate needs a value (expected a rate (10mbit, 1.5gbit, 100kbps = \
            bytes; bare: bit/s), at least 8bit)",
        ),
        ("tbf rate 1mbit burst 5kb", "tbf needs limit (expected either limit or latency)"),
        ("tbf rate 1mbit burst 5kb limit 9kb latency 9ms", "tbf needs either limit or latency, given both"),
        (
            "tbf rate 1mbit burst 5kb limit 9kb peakrate 1mbit mtu 1600",
            "tbf peakrate cannot be 1000000 bit/s (expected more than rate, 1000000 bit/s)",
        ),
        ("fq_codel limit 0", "fq_codel limit: 0 is out of range (expected at least 1 packet)"),
        ("fq_codel ecn handle 1:", "fq_codel has no parameter \"handle\" (\"handle\" goes before the kind)"),
        (
            "prio bands 2",
            "the priomap that is not given leads to band 2, which is not there (give it too, as 16 numbers of \
             bands after priomap)",
        ),
        (
            "prio priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1",
            "prio has no parameter \"1\" (priomap has 16 numbers, one for each priority)",
        ),
        ("prio bands 17", "prio bands: 17 is out of range (expected 2 to 16)"),
        ("pfifo_fast limit 3", "pfifo_fast has no parameter \"limit\" (expected no parameter)"),
    ] {
        let said_of: Vec<_> = briefs(&format!("qdisc add root {options}"))
            .into_iter()
            .map(|b| b.splitn(4, ':').nth(3).unwrap_or("").trim_start().to_string())
            .collect();
        assert_eq!(said_of, [said], "{options}");
    }
}

#[test]
fn the_caret_is_under_the_word_and_the_suggestion_replaces_it() {
    for (line, word, suggestion) in [
        ("qdisc add root fq_codel target 5 ms ecn", "5 ms", Some("5ms")),
        ("qdisc add root fq_codel ecn limt 100", "limt", Some("limit")),
        ("qdisc add root tbf rate 10mbitt burst 5kb limit 9kb", "10mbitt", Some("10mbit")),
        ("qdisc add root fq_codel limit 0", "0", None),
        ("qdisc add root tbf rate 1mbit limit 9kb peakrate 1mbit burst 5kb mtu 2000", "1mbit", None),
        ("qdisc add root prio bands 4 priomap 1 1 2 7 1", "7", None),
        ("qdisc ad0 root pfifo", "ad0", Some("add")),
        ("qdisc add root tbf burst 5kb limit 9kb", "tbf", None),
    ] {
        let err = Policy::parse(line, "p").unwrap_err();
        let d = err.first();
        assert_eq!((&line[d.span.clone()], d.suggestion.as_deref()), (word, suggestion), "{line}");
        if let Some(s) = suggestion {
            let mended = format!("{}{s}{}", &line[..d.span.start], &line[d.span.end..]);
            assert!(Policy::parse(&mended, "p").is_ok(), "{mended}");
        }
    }
    // The line has the word 1mbit twice; the span is that of the second.
    let line = "qdisc add root tbf rate 1mbit limit 9kb peakrate 1mbit burst 5kb mtu 2000";
    assert_eq!(Policy::parse(line, "p").unwrap_err().first().span, 49..54);
}

#[test]
fn every_wrong_line_is_said_at_once() {
    assert_eq!(
        briefs("qdisc add root fq_codl\nqdisc add root pfifo\nclass add\nqdisc ad0"),
        [
            "p:1:16: there is no qdisc kind \"fq_codl\" (did you mean \"fq_codel\"?)",
            "p:3:7: this does not say which class (expected classid MAJOR:MINOR)",
            "p:4:7: qdisc has no verb \"ad0\" (did you mean \"add\"?)",
        ]
    );
}

#[test]
fn what_the_tree_refuses() {
    for (text, said) in [
        (
            "qdisc add root handle 1: prio\nqdisc add parent 1:4 pfifo",
            "p:2:18: there is no class 1:4 (there are: 1:1 1:2 1:3)",
        ),
        ("qdisc add parent 1:1 pfifo", "p:1:18: there is no class 1:1 (there are no classes)"),
        (
            "qdisc add root pfifo\nqdisc add root pfifo",
            "p:2:11: root has a qdisc already: 8001: (use replace, or delete it first)",
        ),
        (
            "qdisc add root handle 1: prio\nqdisc add parent 1:1 handle 1: pfifo",
            "p:2:29: handle 1: is in use (expected a handle not in use)",
        ),
        (
            "qdisc change root pfifo limit 3",
            "p:1:14: root has no qdisc (the default qdisc cannot be changed: add one)",
        ),
        (
            "qdisc add root pfifo\nqdisc change root prio",
            "p:2:19: qdisc 8001: needs its kind, pfifo, given prio (a change keeps the kind: use replace)",
        ),
        (
            "qdisc add root fq_codel flows 8\nqdisc change root fq_codel flows 9",
            "p:2:34: fq_codel flows cannot be 9 (expected 8, as it is (it cannot change while running))",
        ),
        ("qdisc del root", "p:1:11: root has no qdisc (expected a qdisc that was added)"),
        (
            "qdisc add root pfifo\nqdisc del root prio",
            "p:2:16: qdisc kind cannot be prio (expected pfifo, which is there)",
        ),
        (
            "qdisc add root handle 5: pfifo\nqdisc del root handle 6:",
            "p:2:23: qdisc handle cannot be 6: (expected 5:, which is there)",
        ),
        ("qdisc del handle 7:", "p:1:18: there is no qdisc 7: (expected a qdisc of this tree)"),
        (
            "qdisc add dev a root pfifo\nqdisc replace dev b root pfifo",
            "p:2:19: this is for b, and the line before is for a (expected lines for one device)",
        ),
    ] {
        assert_eq!(refused(text), said, "{text}");
    }
}

/// tc leaves out the minor number of a qdisc's handle; a tree that gets the line as it is refuses
/// it.
#[test]
fn a_tree_takes_no_class_for_the_handle_of_a_qdisc() {
    let policy = Policy::parse("qdisc add root handle 1:5 pfifo", "p").expect("good");
    let err = policy.apply(&mut Tree::new(Env::default()), &mut Cx::new(1, 0)).unwrap_err();
    assert_eq!(err.brief(), "p:1:23: qdisc handle: \"1:5\" is not a qdisc handle (did you mean 1:?)");
}

#[test]
fn a_bare_rate_is_accepted_with_a_warning() {
    let policy = Policy::parse("q a root tbf rate 10 burst 5kb limit 10000", "p").expect("accepted");
    let [w] = policy.warnings() else { panic!("{:?}", policy.warnings()) };
    assert_eq!(w.severity, Severity::Warning);
    assert_eq!(
        w.brief(),
        "p:1:19: tbf rate 10 means 10 bit/s (write 10bit if it is meant, or 10kbit, 10mbit)"
    );
    assert!(w.to_string().starts_with("warning[bare-rate]: "));
    assert!(
        Policy::parse("q a root tbf rate 10bit burst 5kb limit 10000", "p")
            .expect("ok")
            .warnings()
            .is_empty()
    );
}

#[test]
fn abbreviations_that_tc_takes() {
    for line in [
        "qdisc add dev eth0 root tbf rate 1mbit burst 5kb latency 50ms",
        "tc q a dev eth0 root tbf rate 1mbit bur 5kb lat 50ms",
        "qd r root tbf rate 1mbit b 5kb late 50ms",
        "qdi re parent root dev eth0 tbf rate 1mbit buffer 5kb late 50ms",
        "qdisc replace handle 8001: root tbf \\\n   rate 1mbit maxburst 5kb latency 50ms # comment",
        "qdisc replace handle 8001 root 'tbf' rate \"1mbit\" maxburst 5kb latency 50ms",
    ] {
        let mut tree = Tree::new(Env::default());
        let policy = Policy::parse(line, "p").unwrap_or_else(|e| panic!("{e}"));
        policy.apply(&mut tree, &mut Cx::new(1, 0)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            show::commands(&tree, None),
            "qdisc replace root handle 8001: tbf rate 125000bps burst 5120b limit 11370b mpu 0 overhead 0 \
             linklayer ethernet\n",
            "{line}"
        );
    }
    // tc refuses these short forms.
    assert!(Policy::parse("qdisc add ro pfifo", "p").is_err());
    assert!(Policy::parse("qdisc add root pfifo lim 12", "p").is_err());
}

#[test]
fn a_part_of_a_larger_text_is_pointed_into() {
    let text = "[host]\npolicy = '''\nqdisc add root fq_codl\n'''\n";
    let part = text.find("qdisc").unwrap()..text.rfind("'''").unwrap();
    let err = Policy::parse_part(text, part, "s.toml").unwrap_err();
    assert_eq!(
        err.first().brief(),
        "s.toml:3:16: there is no qdisc kind \"fq_codl\" (did you mean \"fq_codel\"?)"
    );
    assert!(Policy::parse_part(text, 5..9999, "s.toml").is_ok_and(|p| p.commands().is_empty()));
}

#[test]
fn devices() {
    let text = "qdisc add dev a root pfifo limit 1\nqdisc add dev b root pfifo limit 2\nqdisc change root pfifo limit 3";
    let policy = Policy::parse(text, "p").expect("good");
    assert_eq!(policy.devices(), ["a", "b"]);
    assert!(policy.check(&Env::default()).is_err());
    let b = policy.for_device("b");
    let mut tree = Tree::new(Env::default());
    b.apply(&mut tree, &mut Cx::new(1, 0)).expect("good");
    assert_eq!(show::text(&tree, Some("b"), false), "qdisc pfifo 8001: dev b root refcnt 2 limit 3p\n");
}

#[test]
fn nothing_is_half_applied() {
    let mut cx = Cx::new(4, 0);
    let mut tree = Tree::new(Env::default());
    let good = "qdisc add root handle 1: prio\nqdisc add parent 1:2 fq_codel flows 8 ce_threshold 1ms\n\
                qdisc add parent 1:1 handle 7: codel";
    Policy::parse(good, "p").expect("good").apply(&mut tree, &mut cx).expect("good");
    let before = show::commands(&tree, None);
    let bad = "qdisc del parent 1:1\nqdisc replace root handle 2: pfifo\nqdisc add parent 1:1 pfifo";
    let err = Policy::parse(bad, "p").expect("good").apply(&mut tree, &mut cx).unwrap_err();
    assert_eq!(err.brief(), "p:3:18: there is no class 1:1 (there are no classes)");
    assert_eq!(show::commands(&tree, None), before);
}

#[test]
fn diagnostics_as_json() {
    let err = Policy::parse("qdisc add root tbf rate 10mbitt burst 5kb limit 9kb", "p").unwrap_err();
    let json: serde_json::Value = serde_json::from_str(&err.json()).expect("JSON");
    assert_eq!(
        json,
        serde_json::json!([{
            "severity": "error", "code": "bad-value", "source": "p", "line": 1, "column": 25, "span": [24, 31],
            "message": "tbf rate: \"10mbitt\" is not a rate",
            "expected": "a rate (10mbit, 1.5gbit, 100kbps = bytes; bare: bit/s), at least 8bit",
            "given": "10mbitt", "suggestion": "10mbit",
        }])
    );
}

#[test]
fn a_kind_that_linux_has_no_more_is_named() {
    let err = Policy::parse("qdisc add root cbq bandwidth 10mbit", "p").unwrap_err();
    let said = err.to_string();
    assert!(said.starts_with("error[unknown-kind]: there is no qdisc kind \"cbq\"\n"), "{said}");
    assert!(said.contains("= help: Linux 6.3 removed cbq: htb shares a rate between classes\n"), "{said}");
}
