//! Filters and actions through the tool: errors of a line, the objects that a deletion removes,
//! saved lines, rehearsals and counters.

use txweir_core::classify::packet::PortId;
use txweir_core::classify::packet::{NoOutlet, Packet, Way};
use txweir_core::classify::{action::Run, filter::Verdict};
use txweir_core::packet::headers::Headers;
use txweir_core::{Handle, Instant, Meta};
use txweir_tc::Source;
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Devices, Hook, Outcome, Request, run, save};

fn tc(devices: &mut Memory, line: &str) -> Outcome {
    let args = line.split_whitespace().map(String::from).collect();
    run(&Request { args, ..Request::default() }, devices)
}

fn batch(devices: &mut Memory, flags: &str, text: &str) -> Outcome {
    let args = flags.split_whitespace().chain(["-b", "b"]).map(String::from).collect();
    run(&Request { args, batch: Some(Source::new("b", text)), ..Request::default() }, devices)
}

fn set_up(lines: &str) -> Memory {
    let mut devices = Memory::new(&["a", "b"]);
    let done = batch(&mut devices, "", lines);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{lines}");
    devices
}

const PRIO: &str = "qdisc add dev a root handle 1: prio\n";

#[test]
fn what_is_wrong_is_said_at_its_word() {
    for (line, status, said) in [
        ("filter add dev a parent 1: matchall", 2, "matchall: matchall leads nowhere"),
        (
            "filter add dev a parent 1: matchall skip_sw flowid 1:1",
            2,
            "skip_sw: there is no hardware to do it",
        ),
        (
            "filter add dev a parent 1: matchall flowid 1:g",
            1,
            "1:g: matchall filter classid: \"1:g\" is not a class",
        ),
        ("filter add dev a parent 1: matchall action dorp", 255, "dorp: there is no action \"dorp\""),
        (
            "filter add dev a parent 1: matchall action gact drop random determ goto chain 3 5",
            2,
            "goto: goto cannot be the random control",
        ),
        (
            "filter add dev a parent 1: matchall action goto chain 268435456",
            2,
            "268435456: chain 268435456 is out of range",
        ),
        ("filter add dev a parent 1: matchall action skbedit index 7", 2, "index: action skbedit index 7"),
        (
            "filter add dev a parent 1: matchall action skbedit queue_mapping skbhash 7 3",
            2,
            "queue_mapping: queue_mapping skbhash: the last queue, 3, is before the first, 7",
        ),
        (
            "filter add dev a parent 1: matchall action drop hw_stats any",
            255,
            "any: action drop hw_stats cannot be \"any\"",
        ),
        ("filter add dev a parent 1: protocol ip prio 5 matchall flowid 1:1", 2, "ip: filter protocol"),
        (
            "filter add dev a parent 1: chain 268435456 matchall flowid 1:1",
            2,
            "268435456: chain 268435456 is out of range",
        ),
        ("filter add dev a parent 9: matchall flowid 1:1", 2, "9:: a has no qdisc 9:"),
        (
            "filter add dev a parent 1:2 matchall flowid 1:1",
            2,
            "1:2: the classes of prio ask no filters: it does",
        ),
        ("filter add dev a parent 1:7 matchall flowid 1:1", 2, "1:7: there is no class 1:7"),
        (
            "filter add dev b matchall flowid 1:1",
            2,
            "filter add dev b matchall flowid 1:1: pfifo_fast asks no filters",
        ),
        ("filter add dev a ingress matchall flowid 1:1", 2, "ingress: a has no ingress or clsact hook"),
        ("filter add block 3 matchall flowid 1:1", 2, "3: there is no block 3"),
        ("filter del dev a parent 1: prio 9", 2, "9: filter prio"),
        ("filter del dev a parent 1: prio 5 handle 1", 255, "1: a handle is a kind's own"),
        ("chain del dev a parent 1: chain 9", 2, "9: chain chain"),
        (
            "chain add dev a parent 1: chain 9 matchall",
            2,
            "matchall: a chain cannot have a template for its filters if they are matchall",
        ),
        (
            "actions add action goto chain 3",
            255,
            "goto: an action outside of a filter has no chains to go to",
        ),
        ("actions add action skbedit", 255, "skbedit: action skbedit needs words of its own"),
        ("actions add action skbedit index 3", 255, "skbedit: action skbedit index 3 has no parameters"),
        ("actions del action gact index 1", 255, "1: action gact index 1 is held by 1 filters"),
        ("actions get action gact", 255, "gact: this does not say which gact action"),
        ("actions flush action gact", 1, "gact: the first of 1 gact actions is held by a filter"),
    ] {
        let mut devices = set_up(PRIO);
        assert_eq!(tc(&mut devices, "filter add dev a prio 5 matchall action drop").status, 0);
        let before = save(&mut devices);
        let done = tc(&mut devices, line);
        let own = &done.stderr[done.stderr.find("error[").unwrap_or(0)..];
        let place = own.lines().nth(1).unwrap_or("").trim_start().strip_prefix("--> tc:1:").unwrap_or("4");
        let column: usize = place.parse().expect("a column");
        let marks = own.lines().nth(4).map_or(0, |l| l.matches('^').count());
        let word = &format!("tc {line}")[column - 1..column - 1 + marks];
        let message = own.lines().next().unwrap_or("").split_once("]: ").map_or("", |(_, m)| m);
        let ours = format!("{word}: {message}");
        assert!(
            done.status == status && ours.starts_with(said),
            "{line}: [{}] {ours}\n{}",
            done.status,
            done.stderr
        );
        assert_eq!(save(&mut devices), before, "{line}");
    }
}

#[test]
fn filters_go_with_what_asks_them() {
    let mut devices = set_up(
        "qdisc add dev a root handle 1: htb\nclass add dev a parent 1: classid 1:1 htb rate 1mbit\n\
         qdisc add dev a parent 1:1 handle 2: prio\nqdisc add dev a clsact\n\
         filter add dev a matchall action drop index 1\nfilter add dev a parent 1:1 matchall action drop index 2\n\
         filter add dev a parent 2: matchall action drop index 3\nfilter add dev a egress matchall action drop index 4\n",
    );
    let held = |devices: &Memory| {
        let actions = &devices.filters().actions;
        actions.of_kind("gact").map(|(_, e)| e.index).collect::<Vec<_>>()
    };
    assert_eq!(held(&devices), [1, 2, 3, 4]);
    // A refused command removes no filter.
    assert_ne!(tc(&mut devices, "qdisc replace dev a parent 1:1 handle 2: nope").status, 0);
    assert_eq!(held(&devices), [1, 2, 3, 4]);
    assert_eq!(tc(&mut devices, "qdisc del dev a parent 1:1").status, 0);
    assert_eq!(held(&devices), [1, 2, 4]);
    assert_eq!(tc(&mut devices, "class del dev a classid 1:1").status, 0);
    assert_eq!(held(&devices), [1, 4]);
    // The new root has the same handle, and is another qdisc.
    assert_eq!(tc(&mut devices, "qdisc replace dev a root handle 1: prio").status, 0);
    assert_eq!(held(&devices), [4]);
    assert_eq!(tc(&mut devices, "filter show dev a").stdout, "");
    assert_eq!(tc(&mut devices, "qdisc del dev a clsact").status, 0);
    assert!(held(&devices).is_empty());
    assert_eq!(devices.get("a").expect("there").block(Hook::EGRESS), None);
}

const MANY: &str = "\
qdisc add dev a root handle 1: prio
qdisc add dev a clsact
qdisc add dev b ingress
actions add action pipe index 7 cookie aa no_percpu
actions add action skbedit queue_mapping skbhash 1 3 priority 1:2 mark 5/0xff ptype host inheritdsfield index 9
chain add dev a parent 1: chain 5
filter add dev a parent 1: protocol ip prio 5 handle 7 matchall flowid 1:2 action gact index 7 action drop hw_stats disabled
filter add dev a parent 1: protocol 0x1234 prio 6 matchall skip_hw action jump 1 index 3 action goto chain 5
filter add dev a egress chain 5 protocol 802.1ad prio 1 matchall action gact index 3 action skbedit index 9
filter add dev b ingress matchall action gact pass random netrand drop 10 action gact pass random determ jump 2 7
";

#[test]
fn what_is_saved_makes_the_same_again() {
    let mut devices = set_up(MANY);
    let saved = save(&mut devices);
    let mut again = set_up(&saved);
    assert_eq!(save(&mut again), saved);
    for line in [
        "filter show dev a",
        "filter show dev a egress",
        "filter show dev b ingress",
        "actions ls action gact",
        "actions ls action skbedit",
        "chain show dev a",
    ] {
        assert_eq!(tc(&mut again, line).stdout, tc(&mut devices, line).stdout, "{line}");
        assert!(!tc(&mut again, line).stdout.is_empty(), "{line}");
    }
    assert!(
        saved.ends_with(
            "filter replace dev b ingress protocol all prio 49152 handle 0x1 matchall \
             action gact pass random netrand drop 10 index 4 action gact pass random determ jump 2 7 index 5\n"
        ),
        "{saved}"
    );
}

/// `classid none` is an option as each other: without it, basic, matchall and tcpctl are refused,
/// and u32 decides nothing.
#[test]
fn a_filter_without_a_class_is_saved_with_that_option() {
    let kinds = ["basic", "matchall", "tcpctl", "u32 match u32 0 0", "flower", "flower skip_hw"];
    for kind in kinds {
        let made = format!("filter add dev a parent 1: protocol all prio 1 {kind} classid none\n");
        let mut devices = set_up(&format!("{PRIO}{made}"));
        let saved = save(&mut devices);
        let mut again = set_up(&saved);
        assert_eq!(save(&mut again), saved, "{kind}");
        let shown = |devices: &mut Memory| tc(devices, "filter show dev a").stdout;
        assert_eq!(shown(&mut again), shown(&mut devices), "{kind}");
    }
}

#[test]
fn a_batch_is_rehearsed_with_its_filters() {
    let mut devices = set_up(PRIO);
    let lines = "filter add dev a prio 3 matchall flowid 1:3 action drop\nactions add action pipe index 8\n";
    let plan = batch(&mut devices, "--dry-run", lines);
    assert_eq!(
        plan.stdout,
        "+ filter dev a parent 1: protocol all prio 3 handle 0x1 matchall classid 1:3 action gact drop index 1\n\
         + actions action gact pipe index 8\n"
    );
    assert_eq!(tc(&mut devices, "filter show dev a").stdout, "");
    // The third line fails, so the batch does nothing.
    let failed =
        batch(&mut devices, "--atomic", &format!("{lines}filter add dev a prio 3 matchall flowid 1:1\n"));
    assert_eq!(failed.status, 1);
    assert_eq!(
        (
            tc(&mut devices, "filter show dev a").stdout.as_str(),
            devices.filters().actions.of_kind("gact").count()
        ),
        ("", 0)
    );
    assert_eq!(batch(&mut devices, "--atomic", lines).status, 0);
    let shown = tc(&mut devices, "filter show dev a").stdout;
    assert_eq!(shown.lines().next(), Some("filter parent 1: protocol all pref 3 matchall chain 0 "));
    // A root that replaces another has only the filters of the same batch.
    let swap = "qdisc replace dev a root handle 1: drr\nfilter add dev a prio 4 matchall action pass\n";
    let plan = batch(&mut devices, "--dry-run", swap);
    assert_eq!(
        plan.stdout,
        "- qdisc prio 1: dev a root bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n+ qdisc drr 1: dev a root\n\
         - filter dev a parent 1: protocol all prio 3 handle 0x1 matchall classid 1:3 action gact drop index 1\n\
         + filter dev a parent 1: protocol all prio 4 handle 0x1 matchall action gact pass index 1\n"
    );
    assert_eq!(batch(&mut devices, "--atomic", swap).status, 0);
    let shown = tc(&mut devices, "filter show dev a").stdout;
    assert_eq!(shown.lines().next(), Some("filter parent 1: protocol all pref 4 matchall chain 0 "));
    assert!(tc(&mut devices, "filter del dev a parent 1:").stderr.is_empty());
    assert_eq!(devices.filters().actions.of_kind("gact").count(), 1);
}

#[test]
fn what_was_counted_is_shown_with_the_times_since() {
    let mut devices = set_up(PRIO);
    devices.set_now(Instant::from_secs(10));
    assert_eq!(tc(&mut devices, "filter add dev a prio 3 matchall flowid 1:3 action drop").status, 0);
    let block = devices.get("a").expect("there").block(Handle(0x1_0000)).expect("filters");
    let (filters, state) = devices.classify();
    for at in [12, 15] {
        let (mut frame, mut meta) = (vec![0u8; 74], Meta::new(74));
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), Way::Egress);
        let now = Instant::from_secs(at);
        let mut run = Run { actions: &filters.actions, state, outlet: &mut NoOutlet, now, queues: 1 };
        assert_eq!(filters.classify(block, &mut packet, &mut run), Verdict::Drop);
    }
    devices.set_now(Instant::from_secs(20));
    assert_eq!(
        tc(&mut devices, "-s filter show dev a parent 1:").stdout,
        "filter protocol all pref 3 matchall chain 0 \n\
         filter protocol all pref 3 matchall chain 0 handle 0x1 flowid 1:3 \n  not_in_hw (rule hit 2)\n\
         \taction order 1: gact action drop\n\t random type none pass val 0\n\
         \t index 1 ref 1 bind 1 installed 10 sec used 5 sec firstused 8 sec\n\tAction statistics:\n\
         \tSent 148 bytes 2 pkt (dropped 2, overlimits 0 requeues 0) \n\tbacklog 0b 0p requeues 0\n\n"
    );
    // A new action in the same slot starts at zero, although no packet has come since.
    assert_eq!(tc(&mut devices, "filter del dev a parent 1:").status, 0);
    assert_eq!(tc(&mut devices, "actions add action drop").status, 0);
    assert!(tc(&mut devices, "-s actions ls action gact").stdout.contains("Sent 0 bytes 0 pkt (dropped 0,"));
}

#[test]
fn classes_are_printed_by_their_names() {
    let mut devices = set_up(PRIO);
    assert_eq!(tc(&mut devices, "filter add dev a matchall flowid 1:2").status, 0);
    let args = "-nm filter show dev a".split(' ').map(String::from).collect();
    let request = Request { args, class_names: Some("1:2 voice\n".into()), ..Request::default() };
    assert!(run(&request, &mut devices).stdout.contains("flowid voice#1:2"));
}

/// The time for a filter does not depend on the number of filters before it.
#[test]
fn many_filters_are_no_slower_than_few() {
    let mut lines = String::from("qdisc add dev a clsact\n");
    for n in 1..=60_000u32 {
        lines.push_str(&format!(
            "filter add dev a egress chain {} prio {} matchall action drop\n",
            n >> 12,
            n & 4095 | 4096
        ));
    }
    let mut devices = set_up(&lines);
    assert_eq!(devices.filters().actions.of_kind("gact").count(), 60_000);
    assert_eq!(tc(&mut devices, "qdisc del dev a clsact").status, 0);
    assert_eq!(devices.filters().actions.of_kind("gact").count(), 0);
}

// Tests of the rows of PARITY.md about filters and actions. Each comment names the row and the
// behaviour of tc.

/// Row filter-root. tc answers `Parent Qdisc doesn't exists`.
#[test]
fn root_is_the_root_qdisc() {
    let mut devices = set_up(PRIO);
    assert_eq!(tc(&mut devices, "filter add dev a root matchall flowid 1:1").status, 0);
    let shown = tc(&mut devices, "filter show dev a").stdout;
    assert!(shown.starts_with("filter parent 1: protocol all pref 49152 matchall chain 0 \n"), "{shown}");
    let got = tc(&mut devices, "filter get dev a root protocol all prio 49152 handle 1 matchall").stdout;
    assert!(got.starts_with("filter root protocol all pref 49152"), "{got}");
}

/// Row filter-parent-shown. tc prints `filter parent ffff: protocol ...`.
#[test]
fn the_parent_asked_for_goes_without_saying() {
    let mut devices = set_up("qdisc add dev a ingress\nfilter add dev a parent ffff: matchall action drop\n");
    let shown = tc(&mut devices, "filter show dev a ingress").stdout;
    assert!(shown.starts_with("filter protocol all pref 49152 matchall chain 0 \n"), "{shown}");
}

/// Row filter-handle. tc reads the word as no handle.
#[test]
fn a_handle_must_be_one() {
    let done = tc(&mut set_up(PRIO), "filter add dev a prio 9 handle zz matchall flowid 1:1");
    assert_eq!(done.status, 1);
    assert!(done.stderr.starts_with("error[bad-value]: \"zz\" is not the handle of a matchall filter"));
}

/// Row matchall-replace. tc answers `File exists`.
#[test]
fn a_matchall_filter_is_replaced() {
    let mut devices = set_up(PRIO);
    for line in
        ["filter add dev a prio 9 matchall flowid 1:1", "filter replace dev a prio 9 matchall flowid 1:2"]
    {
        assert_eq!(tc(&mut devices, line).status, 0, "{line}");
    }
    assert!(tc(&mut devices, "filter show dev a").stdout.contains("flowid 1:2 "));
    assert_eq!(tc(&mut devices, "filter change dev a prio 9 handle 1 matchall flowid 1:3").status, 0);
    assert!(tc(&mut devices, "filter show dev a").stdout.contains("flowid 1:3 "));
}

/// Row class-in-use. tc answers `HTB class in use`.
#[test]
fn a_class_that_filters_lead_to_can_be_deleted() {
    let htb = "qdisc add dev a root handle 1: htb\nclass add dev a parent 1: classid 1:1 htb rate 1mbit\n";
    let mut devices = set_up(&format!("{htb}filter add dev a matchall flowid 1:1\n"));
    assert_eq!(tc(&mut devices, "class del dev a classid 1:1").status, 0);
    assert!(tc(&mut devices, "filter show dev a").stdout.contains("flowid 1:1 "));
}

/// Row action-order. tc answers `Bad action type cookie`.
#[test]
fn what_any_action_may_say_comes_in_any_order() {
    let mut devices = set_up("actions add action drop no_percpu hw_stats disabled cookie aa index 5\n");
    assert_eq!(
        tc(&mut devices, "actions get action gact index 5").stdout,
        "total acts 0\n\n\taction order 1: gact action drop\n\t random type none pass val 0\n\
         \t index 5 ref 1 bind 0\n\tcookie aa\n\tno_percpu\tnot_in_hw\n\thw_stats disabled\n"
    );
}

/// Row action-cookie. tc prints the cookie twice.
#[test]
fn a_cookie_is_of_its_action() {
    let mut devices = set_up(&format!("{PRIO}filter add dev a matchall action pipe cookie 11 action drop\n"));
    assert_eq!(tc(&mut devices, "filter show dev a").stdout.matches("cookie 11").count(), 1);
}

/// Row action-list-parts. tc prints `total acts` for each part, and begins each part with order 0.
#[test]
fn a_long_list_of_actions_is_one() {
    let mut devices = set_up(&"actions add action drop\n".repeat(200));
    let shown = tc(&mut devices, "actions ls action gact").stdout;
    assert!(shown.starts_with("total acts 200\n"), "{shown}");
    assert!(shown.contains("\taction order 199: gact action drop\n"), "{shown}");
}

/// Row used-hw-stats. tc prints `used_hw_stats disabled` for both commands.
#[test]
fn what_hardware_counts_is_listed_only() {
    let mut devices = set_up("actions add action drop index 5\n");
    assert!(tc(&mut devices, "actions ls action gact").stdout.ends_with("\tused_hw_stats disabled\n"));
    assert!(tc(&mut devices, "actions get action gact index 5").stdout.ends_with("\tnot_in_hw\n"));
}

/// Row skbedit-mask. tc prints `mark 3/0xffffffff`.
#[test]
fn a_mask_of_all_bits_is_none() {
    let mut devices = set_up("actions add action skbedit mark 3/0xffffffff\n");
    assert!(tc(&mut devices, "actions ls action skbedit").stdout.contains("skbedit  mark 3 pipe\n"));
}

/// Row tcpctl-filter. A pure ACK, an ACK with a byte, and a FIN pass through the filters of a
/// qdisc.
#[test]
fn control_segments_are_matched_counted_and_saved() {
    let lines = format!("{PRIO}filter add dev a parent 1: prio 1 tcpctl flowid 1:1\n");
    let mut devices = set_up(&lines);
    let block = devices.get("a").expect("there").block(Handle::new(1, 0)).expect("filters");
    for (flags, payload, class) in [(0x10u8, 0usize, 1), (0x10, 1, 0), (0x11, 0, 0), (0x02, 0, 1)] {
        let mut frame = vec![0; 54 + payload];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
        frame[23] = 6;
        frame[46..48].copy_from_slice(&[0x50, flags]);
        let headers = Headers::parse_ethernet(&frame);
        let mut meta = Meta::new(frame.len() as u32);
        let (filters, state) = devices.classify();
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId::NONE, Way::Egress);
        let (now, queues) = (Instant::ZERO, 1);
        let mut run = Run { actions: &filters.actions, state, outlet: &mut NoOutlet, now, queues };
        let expected = if class == 0 { Verdict::Unmatched } else { Verdict::Class(Handle::new(1, class)) };
        assert_eq!(filters.classify(block, &mut packet, &mut run), expected, "{flags:#x}, {payload}");
    }
    assert_eq!(
        tc(&mut devices, "-s filter show dev a").stdout,
        "filter parent 1: protocol all pref 1 tcpctl chain 0 \nfilter parent 1: protocol all pref 1 tcpctl chain 0 \
         handle 0x1 flowid 1:1  (rule hit 4 success 2)\n"
    );
    let saved = save(&mut devices);
    assert!(saved.contains(" prio 1 handle 0x1 tcpctl classid 1:1\n"), "{saved}");
    let nowhere = tc(&mut devices, "filter add dev a parent 1: prio 2 tcpctl");
    assert_eq!(nowhere.status, 2);
    assert!(nowhere.stderr.contains("tcpctl leads nowhere"), "{}", nowhere.stderr);
}
