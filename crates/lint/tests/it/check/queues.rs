//! Traffic classes, queues and priorities of mq and mqprio.

use super::said;

/// The configuration of the talk (LPC 2012), as published.
const TALK: &str = "qdisc add dev e root handle 1: mqprio num_tc 3 map 0 0 0 1 1 1 2 queues 2@0 2@2 1@4
qdisc add dev e parent 1:4 fq_codel
qdisc add dev e parent 1:5 fq_codel
";

/// The report about it.
const TALK_SAYS: [&str; 4] = [
    "note hw-default p:1:32: mqprio without hw means hw 1: the device does it, and refuses if it cannot \
     (add hw 0 at the end to let Linux do it)",
    "note mqprio p:1:64: mqprio map names 7 of 16 priorities: 7 to 15 are traffic class 0",
    "note queue-number p:2:24: class 1:4 is transmit queue 3, one of traffic class 1 (queue_mapping 3 \
     is this one: it counts from 0, classes from 1)",
    "note queue-number p:3:24: class 1:5 is transmit queue 4, one of traffic class 2 (queue_mapping 4 \
     is this one: it counts from 0, classes from 1)",
];

/// In the talk queue_mapping 4 is class 1:5 and not class 1:4, which belongs to another traffic
/// class; both have fq_codel by coincidence. Linux takes no filter at this qdisc.
#[test]
fn the_example_of_the_talk() {
    let filter = "protocol ip prio 1 u32 match ip dport 118 0xffff action skbedit queue_mapping 4\n";
    let refused = "asks no filters: this one is refused (the queue is chosen before it: qdisc add dev e clsact, and the \
                   filter at egress)";
    for (place, column) in [("parent 0: ", "25"), ("parent 1: ", "25"), ("parent 1:5 ", "25"), ("", "1")] {
        let mut all = TALK_SAYS.map(String::from).to_vec();
        all.push(format!("error no-filters p:4:{column}: mqprio 1: {refused}"));
        assert_eq!(said(&format!("{TALK}filter add dev e {place}{filter}")), all, "{place}");
    }
    // The filter belongs at the egress hook.
    let mut all = TALK_SAYS.map(String::from).to_vec();
    all.push(
        "note queue-number p:5:103: queue_mapping 4 is class 1:5 of mqprio 1:, one of traffic class 2".into(),
    );
    assert_eq!(said(&format!("{TALK}qdisc add dev e clsact\nfilter add dev e egress {filter}")), all);
    // For any kind, `parent 0:` is the root.
    assert!(
        said(
            "qdisc add dev e root handle 1: prio\nfilter add dev e parent 0: protocol ip prio 1 u32 match ip \
                  dport 118 0xffff flowid 1:1\n"
        )
        .is_empty()
    );
}

/// The words that a taprio lacks are named together, whatever the queues of the device are.
#[test]
fn a_taprio_that_lacks_words_is_refused_with_their_names() {
    for (options, needs) in [
        ("", "num_tc, queues, clockid, sched-entry (expected a number of traffic classes)"),
        (" num_tc 2", "queues, clockid, sched-entry (expected one for each of the 2 traffic classes)"),
        (" num_tc 2 clockid TAI", "queues, sched-entry (expected one for each of the 2 traffic classes)"),
        (" num_tc 1 queues 1@0", "clockid, sched-entry (expected a clock (CLOCK_TAI))"),
        (" num_tc 1 queues 1@0 clockid CLOCK_TAI", "sched-entry (expected at least one entry)"),
    ] {
        let line = format!("qdisc add dev e root taprio{options}\n");
        assert_eq!(said(&line), [format!("error missing p:1:22: taprio needs {needs}")]);
    }
    // Queues for too few classes are another mistake.
    let line = "qdisc add dev e root taprio num_tc 2 queues 1@0 clockid CLOCK_TAI sched-entry S 1 300000\n";
    assert_eq!(
        said(line),
        ["error mqprio p:1:36: taprio has 2 traffic classes, and queues for 1 (did you mean \"1\"?)"]
    );
}

/// Without a device that schedules, each traffic class of mqprio needs its queues: tc and the
/// kernel choose none.
#[test]
fn an_mqprio_that_linux_serves_needs_queues() {
    let classes = "qdisc add dev e root mqprio num_tc 2 map 0 0 0 0 1 1 1 1 0 0 0 0 0 0 0 0";
    assert_eq!(
        said(&format!("{classes} hw 0\n")),
        ["error mqprio p:1:77: mqprio hw 0 has 2 traffic classes, and queues for none of them (add \
             queues, COUNT@OFFSET for each class)"]
    );
    // tc has eight classes by itself, and no queues.
    let all = said("qdisc add dev e root mqprio hw 0\n");
    assert_eq!(
        all.last().map(String::as_str),
        Some(
            "error mqprio p:1:32: mqprio hw 0 has 8 traffic classes, and queues for none of them (add \
             queues, COUNT@OFFSET for each class)"
        )
    );
    for good in ["queues 1@0 1@1 hw 0", "hw 1"] {
        assert_eq!(said(&format!("{classes} {good}\n")), [""; 0], "{good}");
    }
}

/// Traffic classes, queues and priorities.
#[test]
fn queues() {
    let more = "qdisc add dev e parent 1:6 fq_codel\nqdisc add dev e clsact\n\
                filter add dev e egress protocol ip prio 1 u32 match ip dport 118 0xffff \
                action skbedit queue_mapping 5\n";
    let mut all = TALK_SAYS.to_vec();
    all.extend([
        "error dangling-parent p:4:24: mqprio 1: has 5 queues, and 1:6 would be queue 5 (the class of a \
         queue is its number and one: queue 0 is :1)",
        "warning mqprio p:6:103: queue_mapping 5: mqprio 1: has the queues 0 to 4 (did you mean \"4\"?)",
    ]);
    assert_eq!(said(&format!("{TALK}{more}")), all);
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
             (add queues, and hw 0 at the end, to let Linux do it)",
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
