//! Filters: their targets, leaves without one, and filters that never match.

use super::{htb, said};

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

/// Inner classes of hfsc hold no packets either.
#[test]
fn a_filter_to_an_inner_class_of_hfsc() {
    assert_eq!(
        said(
            "qdisc add dev e root handle 1: hfsc default 2\n\
             class add dev e parent 1: classid 1:1 hfsc sc rate 50mbit\n\
             class add dev e parent 1:1 classid 1:2 hfsc sc rate 50mbit\n\
             filter add dev e parent 1: protocol ip prio 1 u32 match ip sport 25 0xffff flowid 1:1\n"
        ),
        ["warning inner-class p:4:83: class 1:1 has classes below it and holds no packets: they go where \
             unclassified ones go (did you mean \"1:2\"?)",]
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
         filter add dev e parent 1: protocol ip prio 7 handle 1 flow map key dst baseclass 1:10\n"),
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
         filter add dev e parent 1: protocol ipv6 prio 6 flower ip_proto tcp dst_port 80 flowid 1:20\n\
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

/// A filter for the device alone leaves the packets to those of the kernel.
#[test]
fn a_filter_of_the_hardware_shadows_none() {
    let filters = |first: &str| {
        said(&format!(
            "qdisc add dev e root handle 1: prio\n\
             filter add dev e parent 1: protocol ip prio 1 flower {first}dst_ip 10.0.0.0/8 action drop\n\
             filter add dev e parent 1: protocol ip prio 2 flower dst_ip 10.1.0.0/16 classid 1:1\n"
        ))
    };
    assert_eq!(filters("skip_sw "), [""; 0]);
    assert_eq!(filters("").len(), 1);
}
