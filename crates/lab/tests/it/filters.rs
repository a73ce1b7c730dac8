//! Filters and actions in the lab: their decisions take effect on the packets.

use std::fs;
use std::path::Path;

use txweir_core::DropReason;
use txweir_lab::nic::NicCounts;
use txweir_lab::report::Report;
use txweir_lab::run::{Options, run};
use txweir_lab::scenario::{Built, Scenario};
use txweir_lab::trial::{self, Entry, PolicyTrial, Setup, Traffic};
use txweir_lab::{Instant, Nanos};
use txweir_tc::Policy;

/// Returns a scenario of one sender of UDP at 4 Mbit/s and one of TCP, over 10 Mbit/s, with a
/// policy for each direction.
fn scenario(there: &str, back: &str, more: &str) -> String {
    format!(
        r#"
title = "t"
duration = "2s"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
one_way = true
rate = "10mbit"
delay = "1ms"
policy = '''{there}'''
{more}
[[link]]
from = "b"
to = "a"
one_way = true
rate = "10mbit"
delay = "1ms"
policy = '''{back}'''
[[traffic]]
name = "call"
from = "a"
to = "b"
kind = "cbr"
size = "1000"
rate = "4mbit"
[[traffic]]
name = "upload"
from = "a"
to = "b"
kind = "stream"
"#
    )
}

/// Runs the scenario and returns the net at its end.
#[track_caller]
fn played(text: &str) -> Built {
    let scenario = Scenario::parse(text, "t").unwrap_or_else(|e| panic!("{e}"));
    let mut built = scenario.build(1).unwrap();
    built.net.run(Instant(scenario.duration().0));
    let t = built.net.links().totals();
    let found =
        [t.delivered, t.ended, t.dropped, t.stolen, t.refused, t.lost, t.backlog, t.in_devices, t.in_links];
    assert_eq!(found.iter().map(|t| t.bytes).sum::<u64>(), t.submitted.bytes, "{t:?}");
    built
}

fn counts(built: &Built, nic: u32) -> NicCounts {
    built.net.links().nic(nic).counts()
}

/// Returns the packets and bytes that the action of this kind and index has seen.
fn counted(built: &Built, nic: u32, kind: &str, index: u32) -> (u64, u64) {
    let (filters, state) = built.net.links().filters(nic).expect("filters");
    let id = filters.actions.find(kind, index).expect("an action");
    let memory = state.counted(&filters.actions, id);
    (memory.packets, memory.bytes)
}

fn seen(built: &Built, nic: u32, kind: &str) -> u64 {
    counted(built, nic, kind, 1).0
}

fn report(text: &str) -> Report {
    let scenario = Scenario::parse(text, "t").unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, Options::default(), |_| {}).unwrap()
}

#[test]
fn classes_are_chosen_by_filters_and_without_them_they_are_not() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/filters.toml");
    let text = fs::read_to_string(file).unwrap();
    let without: String =
        text.lines().filter(|l| !l.starts_with("filter add parent")).map(|l| format!("{l}\n")).collect();
    let [with, without] = [report(&text), report(&without)];
    let p99 = |r: &Report| r.traffic[1].delay.map_or(0, |t| t.p99_ns);
    let pages = |r: &Report| r.traffic[0].transactions.unwrap_or(0);
    assert!(p99(&with) < 20_000_000 && p99(&without) > 300_000_000, "{} {}", p99(&with), p99(&without));
    assert!(pages(&with) > 5 * pages(&without), "{} {}", pages(&with), pages(&without));
}

#[test]
fn a_hook_drops_takes_and_counts() {
    let one = "qdisc add clsact\nfilter add egress protocol ip prio 1 u32 match ip protocol 17 0xff action ";
    let dropped = played(&scenario(&format!("{one} drop index 1"), "", ""));
    let c = counts(&dropped, 0);
    let sent = dropped.net.traffic().counted(0).cbr().sent;
    assert!(sent > 990, "{sent}");
    assert_eq!((seen(&dropped, 0, "gact"), c.dropped.packets), (sent, sent));
    assert_eq!(c.drops[DropReason::Filtered as usize], sent);
    assert_eq!(dropped.net.traffic().counted(0).cbr().received, 0);
    let taken = played(&scenario(&format!("{one} trap index 1"), "", ""));
    let c = counts(&taken, 0);
    assert_eq!((c.stolen.packets, c.dropped.packets, c.taken.packets > sent), (sent, 0, true));
    // A fifth of the packets passes, and a burst.
    let police = format!("{one} police rate 800kbit burst 10k conform-exceed drop/pass index 1");
    let policed = played(&scenario(&police, "", ""));
    let passed = seen(&policed, 0, "police") - counts(&policed, 0).dropped.packets;
    assert!((200..=215).contains(&passed), "{passed}");
}

/// Row hook-class.
#[test]
fn a_class_named_at_the_hook_is_one_of_the_root() {
    let there = |class: &str| {
        format!(
            "qdisc add clsact\nfilter add egress protocol ip prio 1 flower ip_proto udp classid {class}
            qdisc add root handle 1: prio\nqdisc add parent 1:3 bfifo limit 1b"
        )
    };
    let received = |class| played(&scenario(&there(class), "", "")).net.traffic().counted(0).cbr().received;
    assert!(received("1:1") > 900 && received("2:3") > 900);
    assert_eq!(received("1:3"), 0);
}

#[test]
fn what_comes_in_is_asked_about_at_the_way_back() {
    let police =
        "qdisc add ingress\nfilter add ingress matchall action police rate 800kbit burst 10k index 1 drop";
    let built = played(&scenario("", police, ""));
    let c = counts(&built, 1);
    assert!(c.turned_away.packets > 700, "{c:?}");
    assert_eq!(c.dropped.packets, 0, "no packet that it sends is dropped");
    assert_eq!(
        seen(&built, 1, "police"),
        built.net.links().totals().delivered.packets - counts(&built, 1).link.carried.packets
            + c.turned_away.packets
            + built.net.links().nic(1).link().in_flight().packets
    );
}

#[test]
fn qdiscs_drop_and_take_by_their_filters() {
    let prio = "qdisc add root handle 1: prio\nfilter add parent 1: protocol ip flower ip_proto udp action";
    let dropped = played(&scenario(&format!("{prio} drop"), "", ""));
    let call = dropped.net.traffic().counted(0).cbr();
    assert_eq!((call.received, counts(&dropped, 0).dropped.packets), (0, call.sent));
    let taken = played(&scenario(&format!("{prio} trap"), "", ""));
    assert_eq!(
        (taken.net.traffic().counted(0).cbr().received, counts(&taken, 0).stolen.packets),
        (0, call.sent)
    );
}

/// The next filter reads the bytes that actions have changed, here and at the next device.
#[test]
fn actions_change_the_headers() {
    let there = "qdisc add clsact
        filter add egress protocol ip prio 1 flower ip_proto udp action pedit ex munge ip tos set 0xb8 pipe \
            action csum ip4h and udp pipe action vlan push id 5 priority 3 pipe action skbedit mark 9
        qdisc add root handle 1: prio
        filter add parent 1: protocol 802.1q prio 1 flower vlan_id 5 vlan_ethtype ip ip_tos 0xb8/0xff action gact ok index 1
        filter add parent 1: protocol all prio 2 handle 9 fw action drop";
    let back = "qdisc add ingress
        filter add ingress protocol 802.1q prio 1 flower vlan_id 5 vlan_prio 3 action gact pipe index 2 \
            action vlan pop pipe action gact ok index 1
        filter add ingress protocol ip prio 2 flower ip_proto udp ip_tos 0xb8/0xff action drop";
    let scenario = Scenario::parse(&scenario(there, back, ""), "t").unwrap_or_else(|e| panic!("{e}"));
    let mut built = scenario.build(1).unwrap();
    built.net.run(Instant(scenario.duration().0));
    let call = built.net.traffic().counted(0).cbr();
    assert!(call.received > 700, "{call:?}");
    assert_eq!(seen(&built, 0, "gact"), call.sent);
    // The tag was on the line, and is absent where the packet arrives.
    assert_eq!(counted(&built, 1, "gact", 2), (call.received, call.received * 986));
    assert_eq!(counted(&built, 1, "gact", 1), (call.received, call.received * 986));
}

/// Filters run once for a packet that is returned to its sender.
#[test]
fn a_packet_that_comes_back_is_not_asked_about_again() {
    let there = "qdisc add clsact
        filter add egress protocol ip prio 1 u32 match ip protocol 6 0xff action gact pass index 1
        qdisc add root pfifo limit 5";
    let built = played(&scenario(there, "", "role = \"origin\"\nring = 4"));
    let c = counts(&built, 0);
    assert!(c.full > 20, "{c:?}");
    // The refused packets of the call are lost, and not counted as taken.
    let call = built.net.traffic().counted(0).cbr();
    let waits = u64::from(built.net.links().nic(0).port().totals().backlog().packets > 0);
    let tcp = c.taken.packets - (call.sent - call.refused);
    let asked = seen(&built, 0, "gact");
    assert!((tcp..=tcp + 1 + waits).contains(&asked), "{asked} of {tcp}");
}

#[test]
fn an_action_chooses_the_queue() {
    let there = "qdisc add clsact
        filter add egress protocol ip prio 1 flower ip_proto udp action skbedit queue_mapping 2
        filter add egress protocol ip prio 2 flower ip_proto tcp action skbedit queue_mapping 1";
    let built = played(&scenario(there, "", "queues = 4"));
    let sent: Vec<u64> =
        built.net.links().nic(0).port().paths().iter().map(|p| p.stats().tx_packets).collect();
    assert_eq!((sent[0], sent[3]), (0, 0));
    assert!(sent[1] > 500 && (950..=1000).contains(&sent[2]), "{sent:?}");
}

#[test]
fn mirred_names_a_device_of_its_host() {
    let there = "qdisc add clsact\nfilter add egress matchall action mirred egress mirror dev ifb0";
    let err = Scenario::parse(&scenario(there, "", ""), "t").unwrap_err();
    assert_eq!((err.place().0, err.message.as_str()), (15, "there is no device \"ifb0\""));
    assert_eq!(&err.text[err.span.clone()], "ifb0");
}

#[test]
fn what_is_wrong_with_a_filter_is_said_where_it_stands() {
    for (lines, message, marked) in [
        ("filter add parent 1: matchall", "b has no qdisc 1:", "1:"),
        ("filter add ingress matchall", "b has no ingress or clsact hook", "ingress"),
        ("qdisc add ingress\nqdisc add clsact", "b has a hook already: ingress", "clsact"),
        ("qdisc add root pfifo\nfilter add matchall", "pfifo asks no filters", "filter add matchall"),
    ] {
        let err = Scenario::parse(&scenario(lines, "", ""), "t").unwrap_err();
        assert_eq!((err.message.as_str(), &err.text[err.span.clone()]), (message, marked), "{lines}");
    }
}

fn quick() -> Setup {
    let link = txweir_core::Rate::from_bits(10_000_000);
    Setup { link, time: Nanos::from_secs(4), ..Setup::default() }
}

/// `try` with the same classes, with filters and without.
#[test]
fn filters_decide_in_a_trial() {
    let prio = "qdisc add dev eth0 root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
    let filter = "filter add dev eth0 parent 1: protocol ip prio 1 flower ip_proto udp classid 1:1\n";
    let entry = |name: &str, text: &str| Entry {
        name: name.into(),
        policy: Some(Policy::parse(text, name).unwrap_or_else(|e| panic!("{e}"))),
    };
    let entries = [entry("bare", prio), entry("filtered", &format!("{prio}{filter}"))];
    let tried = trial::run(&quick(), &Traffic::mix("voip").unwrap(), &entries, &mut |_, _| {}).unwrap();
    let call = |p: &PolicyTrial| {
        p.groups.iter().find(|g| g.kind == "cbr").and_then(|g| g.latency).map_or(0, |t| t.p99_ns)
    };
    let first = |p: &PolicyTrial| p.classes.iter().find(|c| c.handle == "1:1").map_or(0, |c| c.sent_packets);
    let [bare, filtered] = [&tried.policies[0], &tried.policies[1]];
    assert_eq!(first(bare), 0);
    assert!(first(filtered) > 100);
    // The upload has at least two segments below its socket, of 1.23 ms each: without filters the
    // calls wait for them.
    assert!(call(bare) > call(filtered) + 2_460_000, "{} {}", call(bare), call(filtered));
}
