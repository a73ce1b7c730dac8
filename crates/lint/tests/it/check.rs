//! Every rule of the check: the lines that it reports, and the lines that it leaves alone.

use proptest::prelude::*;
use txweir_core::Rate;
use txweir_lint::check::{self, CheckOptions, Report};
use txweir_tc::Severity;

fn options() -> CheckOptions {
    CheckOptions { link: Some(Rate::from_bits(100_000_000)), ..CheckOptions::default() }
}

fn report(text: &str) -> Report {
    check::text(text, "p", &options())
}

/// Returns all diagnostics except the notes that the engine lacks a kind: severity, code, and the
/// message in one line.
fn said(text: &str) -> Vec<String> {
    let all = report(text).diagnostics.into_iter().filter(|d| d.code != "not-in-engine");
    all.map(|d| format!("{} {} {}", d.severity.name(), d.code, d.brief())).collect()
}

const HTB: &str = "qdisc add dev e root handle 1: htb default 10
class add dev e parent 1: classid 1:1 htb rate 50mbit
class add dev e parent 1:1 classid 1:10 htb rate 10mbit ceil 50mbit
class add dev e parent 1:1 classid 1:20 htb rate 10mbit ceil 50mbit
filter add dev e parent 1: protocol ip prio 5 u32 match ip dport 22 0xffff flowid 1:20
";

fn htb(more: &str) -> Vec<String> {
    said(&format!("{HTB}{more}"))
}

/// A policy without faults has an empty report.
#[test]
fn a_sound_policy() {
    assert_eq!(htb(""), [""; 0]);
}

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

/// Filters whose target does not exist or holds no packets.
#[test]
fn targets() {
    assert_eq!(
        htb("filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 22 0xffff flowid 1:77\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 23 0xffff flowid 1:21\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 24 0xffff flowid 2:10\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 25 0xffff flowid 1:1\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 26 0xffff flowid :10\n"),
        [
            "error dangling-flowid p:6:83: this leads to class 1:77, which htb 1: does not have: packets that \
             match go where unclassified ones go (expected one of 1:10, 1:20)",
            "error dangling-flowid p:7:83: this leads to class 1:21, which htb 1: does not have: packets that \
             match go where unclassified ones go (did you mean \"1:20\"?)",
            "error dangling-flowid p:8:83: this leads to class 2:10, and no line makes qdisc 2: (did you mean \"1:10\"?)",
            "warning inner-class p:9:83: class 1:1 has classes below it and holds no packets: they go where \
             unclassified ones go (did you mean \"1:10\"?)",
        ]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: prio\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 22 0xffff flowid 1:4\n"
        ),
        ["error dangling-flowid p:2:83: this leads to class 1:4, which prio 1: does not have: packets that \
             match go to the band of priority 0 (did you mean \"1:1\"?)",]
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

/// Leaves to which no filter leads, as far as the text decides it.
#[test]
fn unreachable() {
    assert_eq!(
        htb("class add dev e parent 1:1 classid 1:30 htb rate 10mbit\n"),
        ["warning unreachable-class p:6:36: nothing leads to class 1:30: no filter, and it is not the \
             default of htb 1: (only a sender that sets priority 1:30 on its socket reaches it; a filter does: \
             filter add dev e parent 1: protocol ip prio 1 u32 match ... flowid 1:30)",]
    );
    assert_eq!(
        htb("class add dev e parent 1:1 classid 1:30 htb rate 10mbit\n\
         filter add dev e parent 1: protocol ip prio 7 flow map key dst baseclass 1:10\n"),
        [""; 0]
    );
    assert_eq!(
        htb("class add dev e parent 1:1 classid 1:30 htb rate 10mbit\n\
         qdisc add dev e clsact\n\
         filter add dev e egress protocol ip prio 7 matchall action skbedit priority 1:30\n"),
        [""; 0]
    );
}

/// Filters that never match.
#[test]
fn shadows() {
    assert_eq!(
        htb(
            "filter add dev e parent 1: protocol ip prio 9 u32 match ip dport 22 0xffff match ip src 10.0.0.0/8 flowid 1:10\n"
        ),
        ["warning shadowed-filter p:6:1: this filter never matches: that of line 5 (prio 5) matches all of \
             it and comes first (give this one a prio below 5)",]
    );
    assert_eq!(
        htb("filter add dev e parent 1: protocol ip prio 5 u32 match ip dport 22 0xffff flowid 1:10\n"),
        [
            "warning shadowed-filter p:6:1: this filter never matches: that of line 5 (prio 5) matches the same \
             and comes first (give this one a prio below 5)",
        ]
    );
    assert_eq!(
        htb("filter add dev e parent 1: protocol ip prio 1 matchall action skbedit mark 1 pipe\n\
         filter add dev e parent 1: protocol all prio 2 matchall action drop\n"),
        ["warning shadowed-filter p:5:1: this filter never matches: that of line 7 (prio 2) matches all of \
             it and comes first (give this one a prio below 2)",]
    );
    assert_eq!(
        htb("filter add dev e parent 1: protocol ip prio 1 flower ip_proto tcp dst_port 80 flowid 1:10\n\
         filter add dev e parent 1: protocol ip prio 2 flower ip_proto tcp dst_port 80 src_ip 10.0.0.0/8 flowid 1:20\n\
         filter add dev e parent 1: protocol ipv6 prio 2 flower ip_proto tcp dst_port 80 flowid 1:20\n\
         filter add dev e parent 1: handle 5 prio 3 fw flowid 1:20\n\
         filter add dev e parent 1: handle 5 prio 4 fw flowid 1:10\n\
         filter add dev e parent 1: handle 6 prio 4 fw flowid 1:10\n"),
        [
            "warning shadowed-filter p:7:1: this filter never matches: that of line 6 (prio 1) matches all of \
             it and comes first (give the one that matches less the lower prio)",
            "warning shadowed-filter p:10:1: this filter never matches: that of line 9 (prio 3) matches the \
             same and comes first (give this one a prio below 3)",
        ]
    );
}

/// Rates, ceilings, buckets and quanta of classes and of tbf.
#[test]
fn rates() {
    assert_eq!(
        htb("class add dev e parent 1:1 classid 1:30 htb rate 45mbit ceil 40mbit quantum 1514\n\
         class add dev e parent 1: classid 1:2 htb rate 200mbit quantum 60000\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:30\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 2 0xffff flowid 1:2\n"),
        [
            "warning oversubscribed p:2:48: the 3 classes below 1:1 are promised 65Mbit, and it has 50Mbit: \
             none can count on its rate (lower the rates below it to 50Mbit in all; ceil is for the part that \
             they borrow)",
            "warning oversubscribed p:2:48: the 2 classes at the top are promised 250Mbit, and the link has \
             100Mbit (give them a class above, or lower rates, with ceil for the borrowed part)",
            "warning ceil-below-rate p:6:62: class 1:30 ceil 40Mbit is below its rate 45Mbit: it never gets its \
             rate (did you mean \"45mbit\"?)",
            "warning above-link p:7:48: class 1:2 rate 200Mbit is above the link's 100Mbit: the queue builds in \
             the device (did you mean \"100mbit\"?)",
        ]
    );
    assert_eq!(
        said("qdisc add dev e root handle 1: tbf rate 200mbit burst 1000 latency 20ms\n"),
        [
            "warning above-link p:1:41: tbf 1: rate 200Mbit is above the link's 100Mbit: the queue builds in \
             the device (did you mean \"100mbit\"?)",
            "error small-burst p:1:55: tbf 1: burst 1000b holds no packet of 1514 bytes: such packets are \
             dropped (did you mean \"1514b\"?)",
        ]
    );
    // With high-resolution timers a small bucket is enough; without, a tick's bytes are needed.
    let small = "qdisc add dev e root handle 1: tbf rate 50mbit burst 5k latency 20ms\n";
    assert_eq!(said(small), [""; 0]);
    let ticks = CheckOptions { hz: Some(250), ..options() };
    assert_eq!(
        check::text(small, "p", &ticks).diagnostics[0].brief(),
        "p:1:54: tbf 1: burst 5Kb is less than 50Mbit brings in one tick of the clock (25000 bytes at 250 Hz): \
         the rate may not be reached (did you mean \"25000b\"?)"
    );
    assert_eq!(
        said("qdisc add dev e root handle 1: tbf rate 10mbit burst 256mb latency 20ms\n"),
        ["warning large-burst p:1:54: tbf 1: burst 256Mb lets more than a second of 10Mbit through at once \
             (did you mean \"125000b\"?)",]
    );
    assert_eq!(
        htb("class change dev e parent 1:1 classid 1:10 htb rate 10mbit ceil 50mbit burst 1k cburst 2k\n\
         class change dev e parent 1:1 classid 1:20 htb rate 10mbit ceil 50mbit quantum 100\n"),
        [
            "warning small-burst p:6:78: class 1:10 burst 1Kb holds no packet of 1514 bytes (did you mean \"1514b\"?)",
            "warning quantum p:7:80: class 1:20 has a quantum of 100 bytes, which is small: classes of one \
             parent share unevenly; the kernel takes 1000 (did you mean \"1514\"?)",
        ]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: htb default 2 r2q 1\n\
         class add dev e parent 1: classid 1:2 htb rate 10mbit\n\
         class add dev e parent 1: classid 1:3 htb rate 1mbit\n\
         filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 1 0xffff flowid 1:3\n"
        ),
        ["warning quantum p:2:43: class 1:2 has a quantum of 1250000 bytes (its rate in bytes/s by r2q 1), \
             which is big: classes of one parent share unevenly; the kernel takes 200000 (did you mean \"rate \
             10mbit quantum 60000\"?)",]
    );
}

/// The configuration of the talk (LPC 2012), as published. queue_mapping 4 is class 1:5 and not
/// class 1:4, which belongs to another traffic class; both have fq_codel by coincidence. Linux
/// takes no filter at this qdisc.
#[test]
fn the_example_of_the_talk() {
    let talk = "qdisc add dev e root handle 1: mqprio num_tc 3 map 0 0 0 1 1 1 2 queues 2@0 2@2 1@4\n\
                qdisc add dev e parent 1:4 fq_codel\n\
                qdisc add dev e parent 1:5 fq_codel\n";
    let filter = "protocol ip prio 1 u32 match ip dport 118 0xffff action skbedit queue_mapping 4\n";
    let shared = [
        "note hw-default p:1:32: mqprio without hw means hw 1: the device does it, and refuses if it cannot \
         (add hw 0 at the end to let Linux do it)",
        "note mqprio p:1:64: mqprio map names 7 of 16 priorities: 7 to 15 are traffic class 0",
        "note queue-number p:2:24: class 1:4 is transmit queue 3, one of traffic class 1 (queue_mapping 3 \
         is this one: it counts from 0, classes from 1)",
        "note queue-number p:3:24: class 1:5 is transmit queue 4, one of traffic class 2 (queue_mapping 4 \
         is this one: it counts from 0, classes from 1)",
    ];
    let refused = "asks no filters: this one is refused (the queue is chosen before it: qdisc add dev e clsact, and the \
                   filter at egress)";
    for (place, column) in [("parent 0: ", "25"), ("parent 1: ", "25"), ("parent 1:5 ", "25"), ("", "1")] {
        let mut all = shared.map(String::from).to_vec();
        all.push(format!("error no-filters p:4:{column}: mqprio 1: {refused}"));
        assert_eq!(said(&format!("{talk}filter add dev e {place}{filter}")), all, "{place}");
    }
    // The filter belongs at the egress hook.
    let mut all = shared.map(String::from).to_vec();
    all.push(
        "note queue-number p:5:103: queue_mapping 4 is class 1:5 of mqprio 1:, one of traffic class 2".into(),
    );
    assert_eq!(said(&format!("{talk}qdisc add dev e clsact\nfilter add dev e egress {filter}")), all);
    // For any kind, `parent 0:` is the root.
    assert!(
        said(
            "qdisc add dev e root handle 1: prio\nfilter add dev e parent 0: protocol ip prio 1 u32 match ip \
                  dport 118 0xffff flowid 1:1\n"
        )
        .is_empty()
    );
}

/// Traffic classes, queues and priorities.
#[test]
fn queues() {
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: mqprio num_tc 3 map 0 0 0 1 1 1 2 queues 2@0 2@2 1@4\n\
         qdisc add dev e parent 1:4 fq_codel\n\
         qdisc add dev e parent 1:5 fq_codel\n\
         qdisc add dev e parent 1:6 fq_codel\n\
         qdisc add dev e clsact\n\
         filter add dev e egress protocol ip prio 1 u32 match ip dport 118 0xffff action skbedit queue_mapping 5\n"
        ),
        [
            "note hw-default p:1:32: mqprio without hw means hw 1: the device does it, and refuses if it cannot \
             (add hw 0 at the end to let Linux do it)",
            "note mqprio p:1:64: mqprio map names 7 of 16 priorities: 7 to 15 are traffic class 0",
            "note queue-number p:2:24: class 1:4 is transmit queue 3, one of traffic class 1 (queue_mapping 3 \
             is this one: it counts from 0, classes from 1)",
            "note queue-number p:3:24: class 1:5 is transmit queue 4, one of traffic class 2 (queue_mapping 4 \
             is this one: it counts from 0, classes from 1)",
            "error dangling-parent p:4:24: mqprio 1: has 5 queues, and 1:6 would be queue 5 (the class of a \
             queue is its number and one: queue 0 is :1)",
            "warning mqprio p:6:103: queue_mapping 5: mqprio 1: has the queues 0 to 4 (did you mean \"4\"?)",
        ]
    );
    assert_eq!(
        said("qdisc add dev e root handle 1: mqprio num_tc 4 map 0 1 2 3 4 queues 1@0 1@1 1@1 hw 0\n"),
        [
            "error mqprio p:1:46: mqprio has 4 traffic classes, and queues for 3 (did you mean \"3\"?)",
            "warning priority-inversion p:1:54: mqprio: priority 1 is background, and is mapped above priority \
             0 (IEEE 802.1Q puts 1 below 0: exchange the first two)",
            "error mqprio p:1:60: mqprio map names traffic class 4, and there are 4 (expected 0 to 3)",
            "note mqprio p:1:60: mqprio map names 5 of 16 priorities: 5 to 15 are traffic class 0",
            "error mqprio p:1:77: mqprio queues: traffic class 2 takes queue 1 from another (did you mean \"1@2\"?)",
        ]
    );
    assert_eq!(
        said("qdisc add dev e root mqprio\n"),
        [
            "note hw-default p:1:22: mqprio without hw means hw 1: the device does it, and refuses if it cannot \
             (add hw 0 at the end to let Linux do it)",
            "note priority-inversion p:1:22: mqprio without a map puts priority 1, background, above priority \
             0, best effort (map 1 0 2 3 4 5 6 7 is the order of IEEE 802.1Q)",
        ]
    );
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: prio bands 3 priomap 2 1 1 1 1 1 0 0 1 1 1 1 1 1 1 1\n\
         qdisc add dev f root handle 1: prio bands 3 priomap 0 0 1 1 1 1 2 2 1 1 1 1 1 1 1 1\n\
         qdisc add dev g root handle 1: prio\n\
         qdisc add dev h root handle 1: mqprio num_tc 3 map 2 2 1 1 1 1 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 1@2 hw 0\n"
        ),
        [
            "warning priority-inversion p:1:55: prio: priority 1 is background, and is served before priority 0 \
             (IEEE 802.1Q puts 1 below 0: give it a band that is not below that of 0)",
            "warning priority-inversion p:2:53: prio: the more urgent the priority, the later it is served \
             (band 0 is served first: give it to priorities 6 and 7)",
            "warning priority-inversion p:4:52: mqprio: the more urgent the priority, the lower its traffic \
             class (devices serve the highest traffic class first)",
        ]
    );
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

/// Returns the bounds of the waiting time in text: device, place, kind and bound.
fn facts(text: &str, options: &CheckOptions) -> Vec<String> {
    let line = |f: &check::Fact| format!("{} {} {}: {}", f.dev, f.place, f.kind, f.text());
    check::text(text, "p", options).facts.iter().map(line).collect()
}

#[test]
fn bounds_of_leaves() {
    let text = "qdisc add dev e root handle 1: htb default 10\n\
         class add dev e parent 1: classid 1:10 htb rate 8mbit\n\
         class add dev e parent 1: classid 1:20 htb rate 16mbit\n\
         qdisc add dev e parent 1:20 handle 20: fq_codel limit 1000 target 2ms\n\
         qdisc add dev f root handle 1: tbf rate 10mbit burst 20k latency 25ms\n\
         qdisc add dev g root bfifo limit 100000\n\
         qdisc add dev h root handle 1: prio\n\
         qdisc add dev i root handle 1: tbf rate 10mbit burst 20k limit 100k\n\
         qdisc add dev i parent 1:1 handle 2: pfifo limit 10\n\
         qdisc add dev j root netem delay 100ms limit 10\n";
    let options = CheckOptions { txqueuelen: 100, ..options() };
    assert_eq!(
        facts(text, &options),
        [
            "e 1:10 pfifo: at most 151ms (100 packets of 1514 bytes at 8Mbit, its class's rate)",
            "e 1:20 fq_codel: about 2ms (its target), at most 757ms (1000 packets of 1514 bytes at 16Mbit, its class's rate)",
            "f root tbf: at most 25ms (its latency)",
            "g root bfifo: at most 8ms (100000b of packets at 100Mbit, the link's rate)",
            "h 1:1 pfifo: at most 12.1ms (100 packets of 1514 bytes at 100Mbit, the link's rate)",
            "h 1:2 pfifo: unknown (served after the bands before it in prio 1:)",
            "h 1:3 pfifo: unknown (served after the bands before it in prio 1:)",
            "i 1:1 pfifo: at most 12.1ms (10 packets of 1514 bytes at 10Mbit, the rate of the tbf above)",
            "j root netem: at most 101ms (10 packets of 1514 bytes at 100Mbit, the link's rate, and a delay of 100ms)",
        ]
    );
    let unknown = CheckOptions { mtu: 9000, ..CheckOptions::default() };
    assert_eq!(
        facts("qdisc add root pfifo limit 5", &unknown),
        [" root pfifo: unknown (5 packets of 9014 bytes, no rate is known: give --link)"]
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

#[test]
fn kinds_of_linux_are_noted_once() {
    assert!(report(HTB).diagnostics.is_empty());
    let text = "tc qdisc add dev e root handle 1: plug limit 1000\n\
         tc qdisc add dev f root handle 1: plug limit 1000\n";
    let report = report(text);
    let notes: Vec<_> = report.diagnostics.iter().map(|d| (d.severity, d.message.as_str())).collect();
    assert_eq!(notes, [(Severity::Note, "plug is checked by its grammar; txweir cannot run it"),]);
    assert_eq!(
        (report.count(Severity::Error), report.count(Severity::Warning), report.count(Severity::Note)),
        (0, 0, 1)
    );
}

/// Times and rates that mean something else than they seem to.
#[test]
fn units_that_mislead() {
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: cake bandwidth 300mbit rtt 300\n\
             qdisc add dev f root netem delay 100 loss 0\n\
             qdisc add dev g root fq_codel target 5 interval 0\n\
             qdisc add dev h root tbf rate 1mbps burst 10k latency 20ms\n"
        ),
        [
            "warning above-link p:1:47: cake 1: rate 300Mbit is above the link's 100Mbit: the queue builds in the \
             device (did you mean \"100mbit\"?)",
            "warning bare-time p:1:59: cake rtt 300 means 300 microseconds (write the unit: 300ms, or 300us if it \
             is meant)",
            "warning bare-time p:2:34: netem delay 100 means 100 microseconds (write the unit: 100ms, or 100us if \
             it is meant)",
            "warning bare-time p:3:38: fq_codel target 5 means 5 microseconds (write the unit: 5ms, or 5us if it \
             is meant)",
            "warning byte-rate p:4:31: rate 1mbps means 8Mbit: bps is bytes per second (write 8mbit if bytes are \
             meant, or 1mbit)",
        ]
    );
    // The target of cake in the table: a twentieth of the round trip, or one and a half packets.
    for (words, target) in [
        ("bandwidth 1gbit rtt 10ms", "about 500us (its target)"),
        ("bandwidth 128kbit", "about 142ms (its target)"),
        ("bandwidth 100mbit satellite", "about 50ms (its target)"),
    ] {
        let facts = report(&format!("qdisc add dev e root cake {words}\n")).facts;
        assert!(facts[0].text().starts_with(target), "{words}: {}", facts[0].text());
    }
}

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

/// Each rule in the table of the page has an example, and the check reports that code for it and no
/// other error or warning.
#[test]
fn the_page_of_rules_is_true() {
    let page = include_str!("../../../../docs/check.md");
    let rows = page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` | "));
    let mut rules = 0;
    for (code, rest) in rows {
        rules += 1;
        let severities: Vec<&str> = rest.split(" | ").next().expect("a column").split(", ").collect();
        let head = format!("\n`{code}`\n\n```tc\n");
        let example = page.split(&head).nth(1).unwrap_or_else(|| panic!("{code} has no example"));
        let text = example.split("```").next().expect("an end");
        let all = report(text).diagnostics;
        let said = all.iter().find(|d| d.code == code).unwrap_or_else(|| panic!("{code}: {all:?}"));
        assert!(severities.contains(&said.severity.name()), "{code} is {}", said.severity.name());
        let other = all.iter().find(|d| d.severity != Severity::Note && d.code != code);
        assert!(other.is_none(), "{code}: {other:?}");
    }
    assert_eq!((rules, page.matches("```tc").count()), (30, 30));
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
