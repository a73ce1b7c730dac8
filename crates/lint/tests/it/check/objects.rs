//! Objects of a file: parents, defaults, what is there already, devices and hooks.

use txweir_tc::Severity;

use super::{HTB, htb, report, said};

/// An unreadable leaf suppresses no report about other lines. An unreadable qdisc with a handle may
/// have classes, and an unreadable class may be the default; these suppress the report about the
/// default.
#[test]
fn a_misspelt_leaf_hides_nothing_else() {
    let codes = |more: &str| {
        let text = HTB.replace("default 10", "default 99") + more;
        report(&text)
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(|d| d.code)
            .collect::<Vec<_>>()
    };
    assert_eq!(codes("qdisc add dev e parent 1:20 fq_codel limt 3\n"), ["unknown-default", "unknown-key"]);
    assert_eq!(codes("qdisc add dev e parent 1:20 handle 7: fq_codel limt 3\n"), ["unknown-key"]);
    assert_eq!(codes("class add dev e parent 1:1 classid 1:99 htb rte 1mbit\n"), ["unknown-key"]);
}

#[test]
fn any_number_names_the_one_class_of_a_kind() {
    let netem = "qdisc add dev e root handle 1: netem delay 9ms\nqdisc add dev e parent 1:2 handle 2: pfifo limit 5\n";
    assert_eq!(said(&format!("{netem}qdisc change dev e parent 1:ffff pfifo limit 6\n")), [""; 0]);
    assert_eq!(
        said(&format!("{netem}qdisc add dev e parent 1:3 pfifo limit 5\n")),
        [
            "error exists p:3:24: class 1:1 has a qdisc already: pfifo 2:, from line 2 (replace takes its place, del \
             takes it away)"
        ]
    );
}

/// Objects whose parent no line makes.
#[test]
fn parents() {
    assert_eq!(
        htb("class add dev e parent 1:9 classid 1:99 htb rate 10mbit\n\
         filter add dev e parent 1: protocol ip prio 6 u32 match ip sport 22 0xffff flowid 1:99\n"),
        ["error dangling-parent p:6:24: no line makes class 1:9: tc makes 1:99 a class at the top \
             silently (did you mean \"1:1\"?)",]
    );
    assert_eq!(
        htb("class add dev e parent 1:1 classid 1:30 htb rate 10mbit\n\
         filter add dev e parent 1: protocol ip prio 6 u32 match ip sport 22 0xffff flowid 1:30\n\
         qdisc add dev e parent 1:31 fq_codel\n\
         filter add dev e parent 2: protocol ip prio 7 u32 match ip sport 23 0xffff flowid 1:10\n\
         filter add dev e ingress protocol ip prio 7 u32 match ip sport 23 0xffff action drop\n"),
        [
            "error dangling-parent p:8:24: no line makes class 1:31: the qdisc is refused (did you mean \"1:30\"?)",
            "error dangling-parent p:9:25: no line makes qdisc 2: (did you mean \"1:\"?)",
            "warning dangling-parent p:10:18: no line makes the hook of e that this filter is for (qdisc add dev e clsact)",
        ]
    );
    assert_eq!(
        said("class add dev e parent 1: classid 1:1 htb rate 1mbit\n"),
        ["warning dangling-parent p:1:24: no line makes qdisc 1: (add qdisc 1: first, or tc makes 1:1 a \
             class at the top silently)",]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 10: htb default 1\n\
         class add dev e parent 1: classid 1:1 htb rate 1mbit\n"
        ),
        [
            "error unknown-default p:1:45: class 10:1 is never made: unclassified packets of 10: are not shaped \
             (expected the minor of a class that has none below it)",
            "error dangling-parent p:2:24: no line makes qdisc 1: (did you mean \"10:\"?)",
        ]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: prio bands 4\n\
         qdisc add dev e parent 1:5 pfifo\n\
         qdisc add dev e parent 1:4 handle 4: pfifo\n\
         qdisc add dev e parent 4:1 pfifo\n"
        ),
        [
            "error dangling-parent p:2:24: prio 1: has no class 1:5: 1:1 to 1:4",
            "error dangling-parent p:4:24: pfifo 4: has no classes, and so no 4:1",
        ]
    );
    assert_eq!(
        htb("class add dev e parent 1: classid 2:1 htb rate 10mbit\n"),
        [
            "error wrong-major p:6:35: class 2:1 cannot be below 1:, its name must begin with 1: (did you mean \"1:1\"?)",
        ]
    );
}

/// The class of packets that no filter matches.
#[test]
fn defaults() {
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: htb default 10\n\
         class add dev e parent 1: classid 1:1 htb rate 50mbit\n\
         filter add dev e parent 1: matchall flowid 1:1\n"
        ),
        [
            "error unknown-default p:1:44: class 1:10 is never made: unclassified packets of 1: are not shaped \
             (did you mean \"1\"?)",
        ]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: htb\n\
         class add dev e parent 1: classid 1:1 htb rate 50mbit\n\
         filter add dev e parent 1: matchall flowid 1:1\n"
        ),
        ["note no-default p:1:32: htb 1: has no default: unclassified packets are not shaped (did you mean \
             \"htb default 1\"?)",]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: hfsc default 1\n\
         class add dev e parent 1: classid 1:1 hfsc sc rate 50mbit\n\
         class add dev e parent 1:1 classid 1:2 hfsc sc rate 50mbit\n\
         filter add dev e parent 1: matchall flowid 1:2\n"
        ),
        ["error unknown-default p:1:45: class 1:1 has classes below it: unclassified packets of 1: are \
             dropped (did you mean \"2\"?)",]
    );
}

/// Linux refuses a class of hfsc without its parent, and puts one of htb at the top.
#[test]
fn a_class_of_hfsc_without_its_parent_is_refused() {
    let text = "qdisc add dev e root handle 1: hfsc default 1\n\
         class add dev e parent 1: classid 1:1 hfsc sc rate 50mbit\n\
         class add dev e parent 1:9 classid 1:2 hfsc sc rate 10mbit\n";
    assert_eq!(
        said(text),
        ["error dangling-parent p:3:24: no line makes class 1:9: the class is refused (did you mean \
             \"1:1\"?)",]
    );
}

/// Changes of kinds that take none are refused, also those that change nothing.
#[test]
fn a_kind_that_takes_no_change_refuses_the_same_options() {
    for (made, again, kind) in [
        ("sfq perturb 10", "sfq perturb 10", "sfq"),
        ("sfq perturb 10", "sfq perturb 5", "sfq"),
        ("etf clockid CLOCK_TAI", "etf clockid CLOCK_TAI", "etf"),
        ("htb", "htb", "htb"),
    ] {
        let text =
            format!("qdisc add dev e root handle 1: {made}\nqdisc change dev e root handle 1: {again}\n");
        assert_eq!(
            said(&text),
            [format!(
                "error cannot-change p:2:35: {kind} cannot be changed once it is there (del it and add it \
                 again, or replace it under another handle: its packets are lost)"
            )],
            "{again}"
        );
    }
    // tc sends no options of a sfq without words, and the kernel has nothing to change.
    assert_eq!(said("qdisc add dev e root handle 1: sfq\nqdisc change dev e root handle 1: sfq\n"), [""; 0]);
}

/// Lines about an object that exists already, or that does not exist yet.
#[test]
fn what_is_there() {
    assert_eq!(
        htb("qdisc add dev e root handle 2: pfifo\n\
         qdisc add dev e parent 1:10 handle 1: pfifo\n\
         class add dev e parent 1:1 classid 1:10 htb rate 1mbit\n\
         class change dev e parent 1:1 classid 1:50 htb rate 1mbit\n\
         qdisc change dev e parent 1:20 pfifo limit 5\n\
         qdisc change dev e root handle 1: htb default 20\n\
         qdisc replace dev e root handle 1: prio\n\
         class add dev e parent 1: classid 1:60 drr\n"),
        [
            "error exists p:6:17: e has a qdisc already: htb 1:, from line 1 (replace takes its place, del takes it away)",
            "error exists p:7:36: handle 1: is in use: htb of line 1 (did you mean \"2:\"?)",
            "error exists p:8:36: class 1:10 is there already, from line 3 (change gives it other rates, replace does either)",
            "error not-found p:9:39: no line makes class 1:50 (change needs an object of an earlier line; add makes one)",
            "error not-found p:10:27: there is no qdisc at 1:20 (change needs an object of an earlier line; add makes one)",
            "error cannot-change p:11:35: htb cannot be changed once it is there (del it and add it again, or \
             replace it under another handle: its packets are lost)",
            "error conflict p:12:36: 1: is htb and cannot become prio (give another handle: then it takes the \
             place of the old one)",
            "error conflict p:13:40: htb 1: has no drr classes (did you mean \"htb\"?)",
        ]
    );
    assert_eq!(
        htb("qdisc replace dev e root handle 2: fq_codel\n"),
        [
            "warning replaces p:6:1: this throws htb 1: away with its 3 classes and 1 filters (until the lines \
             after it have run, nothing is classified)",
        ]
    );
    assert_eq!(
        said(&format!(
            "qdisc del dev e root\n{HTB}qdisc del dev e root\nqdisc add dev e root handle 1: tbf rate 10mbit \
             burst 20k latency 10ms\nqdisc change dev e root handle 1: tbf rate 5mbit burst 20k latency 10ms\n"
        )),
        [""; 0]
    );
}

/// A device has one hook, ingress or clsact; another device has its own, and a deleted one makes
/// room.
#[test]
fn a_second_hook_is_refused() {
    let text = "qdisc add dev a clsact\nqdisc add dev b ingress\nqdisc del dev a clsact\nqdisc add dev a clsact\n\
        qdisc add dev a ingress\n";
    assert_eq!(
        said(text),
        [
            "error exists p:5:17: a has a hook already, from line 4 (a device has one of ingress and clsact; clsact \
             does both)"
        ]
    );
}

/// Each device has a model of its own, and a network namespace has devices of its own.
#[test]
fn devices_are_apart() {
    let text = "tc qdisc add dev a root handle 1: prio\n\
         tc -n left qdisc add dev a root handle 1: prio\n\
         tc qdisc add dev b root handle 1: prio\n\
         tc qdisc add dev b root handle 1: prio\n";
    assert_eq!(
        said(text),
        [
            "error exists p:4:20: b has a qdisc already: prio 1:, from line 3 (replace takes its place, del takes it away)"
        ]
    );
}

/// A line that cannot be read makes no object, and the check reports no line that depends on it.
#[test]
fn one_fault_is_said_once() {
    let text = "qdisc add dev e root handle 1: htb defalt 10\n\
         class add dev e parent 1: classid 1:10 htb rate 10mbit\n\
         filter add dev e parent 1: matchall flowid 1:10\n";
    assert_eq!(
        said(text),
        ["error unknown-key p:1:36: htb has no parameter \"defalt\" (did you mean \"default\"?)"]
    );
    let text = "tc qdisc add dev e root handle 1: htb default $1\n\
         tc qdisc add dev e parent 1:10 pfifo\n";
    let expected =
        "note not-evaluated p:1:47: cannot evaluate $1: this line is left out (give it a value in the file)";
    assert_eq!(said(text), [expected]);
}

/// A line about a virtual queue needs the line of its qdisc, and leaves the limit of that.
#[test]
fn virtual_queues_of_gred() {
    let queue = |vq: u32| {
        format!(
            "qdisc change dev e root handle 1: gred vq {vq} limit 100kb min 4kb max 8kb avpkt 1000 burst 9\n"
        )
    };
    let setup = "qdisc add dev e root handle 1: gred setup vqs 4 default 1 limit 200kb\n";
    assert_eq!(said(&format!("{setup}{}{}", queue(1), queue(3))), [""; 0]);
    assert_eq!(
        said(&format!("{setup}{}", queue(4))),
        [
            "error out-of-range p:2:43: gred vq: 4 is out of range (expected a queue below 4, the number of them)"
        ]
    );
    assert_eq!(report(&format!("{setup}{}", queue(1))).facts[0].holds, "200Kb of packets");
}

/// Classes of drr have no levels: a class below another one is a class of the qdisc.
#[test]
fn classes_without_levels() {
    let told = said(
        "qdisc add dev e root handle 1: drr\n\
         class add dev e parent 1:9 classid 1:1 drr\n",
    );
    let said = "error dangling-parent p:2:24: no line makes class 1:9: tc makes 1:1 all the same, as classes of \
                drr have no levels";
    assert!(told.iter().any(|line| line.starts_with(said)), "{told:?}");
}

/// A device without a queue holds no packet, and none waits, whatever the rate of the link is.
#[test]
fn no_queue() {
    for kind in ["noqueue", "noop"] {
        let fact = &report(&format!("qdisc add dev e root {kind}\n")).facts[0];
        assert!(fact.holds.starts_with("0 packets"), "{kind}: {fact:?}");
        assert_eq!(fact.bound, Some(txweir_core::Nanos::ZERO), "{kind}: {fact:?}");
    }
}
