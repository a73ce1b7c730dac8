//! The tool on devices in memory: status, output, and the changes that commands make.

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::{Env, Instant, Meta};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Device, Devices, Hook, LinkLine, Outcome, Request, run, save};

fn devices() -> Memory {
    Memory::new(&["eth0", "eth1"])
}

fn tc(devices: &mut dyn Devices, line: &str) -> Outcome {
    run(&Request { args: line.split_whitespace().map(String::from).collect(), ..Request::default() }, devices)
}

fn batch(devices: &mut dyn Devices, flags: &str, text: &str) -> Outcome {
    let args = flags.split_whitespace().chain(["-b", "b.tc"]).map(String::from).collect();
    run(&Request { args, batch: Some(Source::new("b.tc", text)), ..Request::default() }, devices)
}

fn good(devices: &mut dyn Devices, line: &str) -> String {
    let done = tc(devices, line);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
    done.stdout
}

/// Returns the first line that is not Linux's.
fn first(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("error[") || line.starts_with("warning[")).unwrap_or("")
}

#[test]
fn exit_status_as_tc_has_it() {
    for (line, status, said) in [
        ("qdisc add dev eth0 root pfifo limit", 255, "error[bad-value]: pfifo limit needs a value"),
        ("qdisc add dev eth0 root pfifo limt 5", 1, "error[unknown-key]: pfifo has no parameter \"limt\""),
        (
            "qdisc add dev eth0 root fq_codel target 5 ms",
            1,
            "error[split-value]: \"5 ms\" is two words: a value and its unit are one",
        ),
        ("qdisc add dev eth0 root ets quanta 20 0", 1, "error[out-of-range]: ets quanta: 0 is out of range"),
        (
            "qdisc add dev eth0 root ets strict 9 quanta 1 2 3 4 5 6 7 8",
            2,
            "error[out-of-range]: ets quanta: 17 is out of range",
        ),
        ("qdisc add dev eth9 root pfifo", 1, "error[not-found]: there is no device \"eth9\""),
        ("qdisc add root pfifo", 2, "error[missing]: this does not say on which device"),
        ("qdisc add dev eth0 pfifo", 2, "error[missing]: this does not say where"),
        ("qdisc add dev eth0 root", 2, "error[missing]: this does not say which kind"),
        ("qdisc add dev eth0 root nosuch", 2, "error[unknown-kind]: there is no qdisc kind \"nosuch\""),
        ("qdisc del dev eth0 root", 2, "error[not-found]: root has no qdisc"),
        ("qdisc change dev eth0 root pfifo limit 5", 2, "error[not-found]: root has no qdisc"),
        (
            "qdisc add dev eth0 root fq_codel flows 0",
            2,
            "error[out-of-range]: fq_codel flows: 0 is out of range",
        ),
        ("qdisc add dev eth0 root teql0", 2, "error[not-in-engine]: txweir has no qdisc teql0: Linux has it"),
        ("qdisc add dev eth0 root hbt default 10", 1, "error[unknown-kind]: there is no qdisc kind \"hbt\""),
        ("qdisc add dev eth0 root htb defalt 10", 1, "error[unknown-key]: htb has no parameter \"defalt\""),
        (
            "qdisc add dev eth0 root prio bands 2",
            2,
            "error[conflict]: the priomap that is not given leads to band 2, which is not there",
        ),
        (
            "qdisc add dev eth0 root prio bands 2 priomap 0 1 2",
            1,
            "error[conflict]: prio priomap cannot be 2",
        ),
        (
            "qdisc add dev eth0 root prio priomap 0 1 2 bands 2",
            2,
            "error[conflict]: prio priomap cannot be 2",
        ),
        (
            "qdisc add dev eth0 root tbf rate 1mbit rate 2mbit burst 5k limit 9k",
            1,
            "error[conflict]: tbf rate is given twice",
        ),
        (
            "qdisc add dev eth0 root tbf rate 1mbit burst 5k limit 9k buffer 5k",
            1,
            "error[conflict]: tbf burst is given twice",
        ),
        (
            "qdisc add dev eth0 root estimator 1s 8s pfifo",
            0,
            "warning[unsupported]: no rates are estimated here: this changes nothing",
        ),
        ("qdisc add dev eth0 root root pfifo", 255, "error[conflict]: \"root\" is given a second time"),
        ("qdisc foo", 255, "error[unknown-verb]: qdisc has no verb \"foo\""),
        ("-x", 255, "error[unknown-object]: there is no option \"-x\""),
        ("foo", 255, "error[unknown-object]: there is no object \"foo\""),
        ("--atomic qdisc add dev eth0 root pfifo", 255, "error[unexpected-word]: --atomic is for a batch"),
        ("class del dev eth0 classid 1:1", 2, "error[not-found]: there is no qdisc 1:"),
        ("filter add dev eth0 root matchall flowid 1:1", 2, "error[not-found]: pfifo_fast asks no filters"),
    ] {
        let done = tc(&mut devices(), line);
        assert_eq!((done.status, first(&done.stderr), done.stdout.as_str()), (status, said, ""), "{line}");
    }
}

/// The statuses are those of tc 6.1, which tells a word that ends it (255) from one that makes it
/// refuse the filter (1).
#[test]
fn mistakes_in_actions_have_the_status_of_tc() {
    for (words, status) in [
        ("action foo", 255),
        ("action drop foo", 255),
        ("action gact foo", 255),
        ("action drop cookie zz", 255),
        ("action drop cookie aa1", 255),
        ("action drop hw_stats x", 255),
        ("action drop index x", 1),
        ("action goto chain x", 255),
        ("action mirred foo", 1),
        ("action mirred egress redirect dev eth1 foo", 255),
        ("action vlan foo", 255),
        ("action vlan push id x", 255),
        ("action csum foo", 1),
        ("action csum ip foo", 255),
        ("action skbedit foo", 1),
        ("action skbedit priority x", 1),
        ("action police rate x burst 10k", 255),
        ("action police rate 1mbit burst x", 255),
        ("action police rate 1mbit burst 10k index x", 255),
        ("action police rate 1mbit burst 10k foo", 255),
        ("action police rate 1mbit burst 10k conform-exceed foo", 1),
        ("action police rate 1mbit burst 10k conform-exceed 3x", 1),
        ("action police rate 1mbit", 1),
        ("foo", 1),
    ] {
        for kind in ["matchall", "fw classid 1:1", "flower", "basic"] {
            let mut all = devices();
            good(&mut all, "qdisc add dev eth0 ingress");
            let done = tc(&mut all, &format!("filter add dev eth0 parent ffff: handle 1 {kind} {words}"));
            assert_eq!(done.status, status, "{kind} {words}: {}", done.stderr);
        }
    }
}

#[test]
fn police_takes_controls_by_their_numbers() {
    let mut all = devices();
    good(&mut all, "qdisc add dev eth0 ingress");
    for (given, shown) in
        [("0/3", "action pass/pipe"), ("2", "action drop"), ("-1/8", "action continue/trap")]
    {
        let police = format!("police rate 1mbit burst 10k conform-exceed {given}");
        good(&mut all, &format!("filter replace dev eth0 ingress prio 1 handle 1 matchall action {police}"));
        let said = good(&mut all, "filter show dev eth0 ingress");
        assert!(said.contains(shown), "{given}: {said}");
    }
    let done = tc(
        &mut all,
        "filter add dev eth0 ingress matchall action police rate 1mbit burst 10k conform-exceed 5",
    );
    assert_eq!(
        (done.status, first(&done.stderr)),
        (2, "error[unsupported]: police conform-exceed: there is no control 5")
    );
}

/// The numbers of the hooks and of the root are no places for others; the major number of the hooks
/// is one of a qdisc too.
#[test]
fn numbers_of_hooks_and_of_the_root() {
    let mut all = devices();
    let refused = |all: &mut Memory, line: &str| {
        let done = tc(all, line);
        (done.status, first(&done.stderr).split(": ").nth(1).unwrap_or("").to_string())
    };
    let reserved = "Specified parent ID is reserved for ingress and clsact Qdiscs";
    for line in [
        "qdisc add dev eth0 parent ffff:fff1 handle 9: pfifo limit 5",
        "qdisc replace dev eth0 parent ffff:fff1 handle ffff: mq",
        "qdisc add dev eth0 parent ffff:fff1 htb",
    ] {
        assert_eq!(refused(&mut all, line), (2, reserved.to_string()), "{line}");
    }
    assert!(!good(&mut all, "qdisc show dev eth0").contains("ingress"));
    good(&mut all, "qdisc add dev eth0 handle ffff: root drr");
    good(&mut all, "class add dev eth0 parent ffff: classid ffff:1 drr");
    good(&mut all, "filter add dev eth0 parent ffff: basic classid ffff:1");
    assert!(good(&mut all, "filter show dev eth0 parent ffff:").contains("basic"));
    assert!(!good(&mut all, "filter show dev eth0 parent ffff:").contains("ingress"));
    let root = "Cannot create traffic class with classid TC_H_ROOT";
    let line = "class add dev eth0 parent ffff: classid ffff:ffff drr";
    assert_eq!(refused(&mut all, line), (2, root.to_string()));
    // The same in one step, through the rehearsal.
    let done = batch(
        &mut all,
        "--atomic",
        "qdisc add dev eth1 root handle ffff: htb\nclass add dev eth1 parent ffff: classid ffff:1 htb rate 1mbit\n\
         qdisc add dev eth1 parent ffff:1 handle 2: pfifo limit 7\n",
    );
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(good(&mut all, "qdisc show dev eth1").contains("qdisc pfifo 2: parent ffff:1 limit 7p"));
}

/// A filter takes an action that a command of its own has made only with the same flag.
#[test]
fn flags_for_hardware_are_those_of_the_action() {
    let mut all = devices();
    good(&mut all, "qdisc add dev eth0 ingress");
    good(&mut all, "actions add action police rate 1mbit burst 10k index 199");
    good(&mut all, "actions add action drop skip_hw index 5");
    for (line, status) in [
        ("matchall skip_hw action police index 199", 2),
        ("matchall action police index 199", 0),
        ("flower dst_ip 1.2.3.4 action drop index 5", 2),
        ("flower skip_hw dst_ip 1.2.3.4 action gact index 5", 0),
    ] {
        let done = tc(&mut all, &format!("filter add dev eth0 ingress protocol ip {line}"));
        assert_eq!(done.status, status, "{line}: {}", done.stderr);
        let said = "error[conflict]: Mismatch between action and filter offload flags";
        assert_eq!(first(&done.stderr), if status == 0 { "" } else { said }, "{line}");
    }
}

#[test]
fn brief_shows_everything() {
    let mut all = devices();
    good(&mut all, "qdisc add dev eth0 ingress");
    good(&mut all, "filter add dev eth0 ingress protocol ip flower dst_ip 1.2.3.4 action drop");
    let shown = good(&mut all, "filter show dev eth0 ingress");
    assert_eq!(good(&mut all, "-br filter show dev eth0 ingress"), shown);
    assert!(shown.contains("dst_ip 1.2.3.4"));
}

/// A message names a word and does not repeat a megabyte of it.
#[test]
fn long_words_make_short_messages() {
    let long = "x".repeat(900_000);
    let mut all = devices();
    good(&mut all, "qdisc add dev eth0 handle 1: root prio");
    for line in [
        long.clone(),
        format!("qdisc {long}"),
        format!("qdisc add dev {long} root pfifo"),
        format!("qdisc add dev eth1 root {long}"),
        format!("qdisc add dev eth1 root pfifo {long}"),
        format!("qdisc add dev eth1 root pfifo limit {long}"),
        format!("qdisc add dev eth1 root pfifo limit 1{long}"),
        format!("qdisc add dev eth1 parent {long} pfifo"),
        format!("class add dev eth0 classid {long} htb"),
        format!("filter add dev eth0 protocol {long} matchall"),
        format!("filter add dev eth0 {long}"),
        format!("filter add dev eth0 u32 match {long}"),
        format!("filter add dev eth0 flower {long} 5"),
        format!("filter add dev eth0 matchall action {long}"),
        format!("filter add dev eth0 matchall action drop cookie {long}"),
        format!("filter show dev eth0 {long}"),
        format!("actions add action {long}"),
        format!("-{long}"),
    ] {
        let done = tc(&mut all, &line);
        let len = done.stderr.len() + done.stdout.len();
        assert!(done.status != 0 && len < 6000, "{}.. {len}", &line[..line.len().min(60)]);
    }
}

#[test]
fn an_error_points_into_the_command_line() {
    let done = tc(&mut devices(), "-s qdisc add dev eth0 root fq_codel limt 100");
    assert_eq!(
        done.stderr,
        "What is \"limt\"?\n\
         error[unknown-key]: fq_codel has no parameter \"limt\"\n \
          --> tc:1:40\n  \
            |\n\
          1 | tc -s qdisc add dev eth0 root fq_codel limt 100\n  \
            |                                        ^^^^ expected one of limit, flows, quantum, target, ce_threshold, \
         ce_threshold_selector, interval, memory_limit, ecn, noecn, drop_batch, tcpctl\n  \
            = help: did you mean \"limit\"?\n"
    );
}

#[test]
fn what_is_hardly_meant_is_done_with_a_warning() {
    for (line, said) in [
        (
            "qdisc add dev eth0 root tbf rate 10 burst 5kb limit 9kb",
            "warning[bare-rate]: tbf rate 10 means 10 bit/s",
        ),
        (
            "qdisc add dev eth0 root handle 1:2 pfifo",
            "warning[bad-value]: a qdisc's handle has no minor number: 1:2 is read as 1:",
        ),
    ] {
        let mut devices = devices();
        let done = tc(&mut devices, line);
        assert_eq!((done.status, first(&done.stderr)), (0, said));
        assert!(devices.get("eth0").is_some_and(|d| !d.tree().root().handle().is_none()));
    }
}

#[test]
fn all_devices_are_shown_unless_one_is_asked_for() {
    let mut devices = devices().with(MemoryDevice::new("eth2", 4, Env::default()));
    good(&mut devices, "qdisc add dev eth1 root handle 1: pfifo limit 5");
    let fast = "bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1";
    assert_eq!(
        good(&mut devices, "qdisc show"),
        format!(
            "qdisc pfifo_fast 0: dev eth0 root refcnt 2 {fast}\nqdisc pfifo 1: dev eth1 root refcnt 2 limit 5p\n\
             qdisc pfifo_fast 0: dev eth2 root refcnt 5 {fast}\n"
        )
    );
    assert_eq!(good(&mut devices, "q s dev eth1"), "qdisc pfifo 1: root refcnt 2 limit 5p\n");
    assert_eq!(good(&mut devices, "-j qdisc show handle 7:"), "[]\n");
    assert_eq!(good(&mut devices, "-j -p qdisc show handle 7:"), "[ ]\n");
    assert!(tc(&mut devices, "-V").stdout.starts_with("tc utility, txweir-"));
    assert_eq!((tc(&mut devices, "").status, tc(&mut devices, "qdisc help").status), (0, 0));
}

/// The expected text is that of tc 6.1 on Linux 6.12, apart from the order: Linux lists classes in
/// the order of a hash table.
#[test]
fn classes_of_htb_in_text_and_json() {
    let mut devices = devices();
    for line in [
        "qdisc add dev eth0 root handle 1: htb default 11 r2q 10",
        "class add dev eth0 parent 1: classid 1:1 htb rate 10mbit overhead 8",
        "class add dev eth0 parent 1:1 classid 1:11 htb rate 1mbit ceil 10mbit prio 1 burst 10kb cburst 20kb linklayer adsl",
        "class add dev eth0 parent 1: classid 1:2 htb rate 1gbit",
        "qdisc add dev eth0 parent 1:11 handle 11: pfifo",
    ] {
        good(&mut devices, line);
    }
    assert_eq!(
        good(&mut devices, "qdisc show dev eth0 root"),
        "qdisc htb 1: root refcnt 2 r2q 10 default 0x11 direct_packets_stat 0 direct_qlen 1000\n"
    );
    assert_eq!(
        good(&mut devices, "class show dev eth0"),
        "class htb 1:1 root rate 10Mbit overhead 8 ceil 10Mbit burst 1600b cburst 1600b \n\
         class htb 1:11 parent 1:1 leaf 11: prio 1 rate 1Mbit ceil 10Mbit linklayer atm burst 10Kb cburst 20Kb \n\
         class htb 1:2 root prio 0 rate 1Gbit ceil 1Gbit burst 1375b cburst 1375b \n"
    );
    assert_eq!(
        good(&mut devices, "-s -d class show dev eth0 classid 1:11"),
        "class htb 1:11 parent 1:1 leaf 11: prio 1 quantum 12500 rate 1Mbit ceil 10Mbit linklayer atm burst 10Kb/1 mpu 0b \
         cburst 20Kb/1 mpu 0b level 0 \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
         backlog 0b 0p requeues 0\n lended: 0 borrowed: 0 giants: 0\n tokens: 1280000 ctokens: 256000\n\n"
    );
    assert_eq!(
        good(&mut devices, "-s -j class show dev eth0 classid 1:2"),
        "[{\"class\":\"htb\",\"handle\":\"1:2\",\"root\":true,\"options\":{\"prio\":0,\"rate\":125000000,\"ceil\":125000000,\
         \"burst\":1375,\"cburst\":1375},\"bytes\":0,\"packets\":0,\"drops\":0,\"overlimits\":0,\"requeues\":0,\"backlog\":0,\
         \"qlen\":0,\"lended\":0,\"borrowed\":0,\"giants\":0,\"tokens\":187,\"ctokens\":187,\"quantum\":200000,\"level\":0}]\n"
    );
}

/// Row netem-class-list of PARITY.md. Linux ends its list of classes at a netem without a qdisc in
/// its class.
#[test]
fn a_netem_does_not_end_the_list_of_classes() {
    let mut devices = devices();
    good(&mut devices, "qdisc add dev eth0 root handle 1: prio bands 2 priomap 0 1");
    good(&mut devices, "qdisc add dev eth0 parent 1:1 handle 2: netem delay 3ms");
    good(&mut devices, "qdisc add dev eth0 parent 1:2 handle 3: tbf rate 1mbit burst 2000 limit 3000");
    let shown = good(&mut devices, "class show dev eth0");
    let classes: Vec<&str> = shown.lines().filter_map(|l| l.split(' ').nth(2)).collect();
    assert_eq!(classes, ["1:1", "1:2", "3:1"]);
}

#[test]
fn an_sfb_does_not_end_the_list_of_classes() {
    let mut devices = devices();
    good(&mut devices, "qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 2000 limit 3000");
    good(&mut devices, "qdisc add dev eth0 parent 1:1 handle 2: sfb");
    good(&mut devices, "qdisc add dev eth0 parent 2:1 handle 3: prio bands 2 priomap 0 1");
    let shown = good(&mut devices, "class show dev eth0");
    let classes: Vec<&str> = shown.lines().filter_map(|l| l.split(' ').nth(2)).collect();
    assert_eq!(classes, ["1:1", "3:1", "3:2"]);
}

#[test]
fn classes_in_text_and_json() {
    let mut devices = devices();
    good(&mut devices, "qdisc add dev eth0 root handle 1: prio bands 2 priomap 0 1");
    good(&mut devices, "qdisc add dev eth0 parent 1:2 handle 20: pfifo");
    devices.get("eth0").expect("there").enqueue(Meta::new(100).priority(1));
    assert_eq!(
        good(&mut devices, "class show dev eth0"),
        "class prio 1:1 parent 1: \nclass prio 1:2 parent 1: leaf 20: \n"
    );
    assert_eq!(
        good(&mut devices, "-s class show dev eth0 classid 1:2"),
        "class prio 1:2 parent 1: leaf 20: \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n \
         backlog 100b 1p requeues 0\n"
    );
    assert_eq!(
        good(&mut devices, "-j class show dev eth0"),
        "[{\"class\":\"prio\",\"handle\":\"1:1\",\"parent\":\"1:\"},\
         {\"class\":\"prio\",\"handle\":\"1:2\",\"parent\":\"1:\",\"leaf\":\"20:\"}]\n"
    );
    assert_eq!(
        good(&mut devices, "class show dev eth0 qdisc 1:").lines().next(),
        Some("class prio :1 parent none ")
    );
    assert_eq!(good(&mut devices, "class show"), "");
    assert_eq!(good(&mut devices, "-j filter show dev eth0"), "[]\n");
}

#[test]
fn a_batch_stops_where_tc_stops() {
    let text = "# uplink\nqdisc add dev eth0 root handle 1: pfifo\n\nqdisc add dev eth0 root pfifo\n\
                tc qdisc add dev eth1 root handle 2: pfifo\n";
    let mut devices = devices();
    let done = batch(&mut devices, "", text);
    assert_eq!((done.status, done.stderr.lines().last()), (1, Some("Command failed b.tc:4")));
    assert_eq!(save(&mut devices), "qdisc replace dev eth0 root handle 1: pfifo limit 1000p\n");
    let done = batch(&mut devices, "-force", text);
    assert_eq!(done.status, 1);
    assert_eq!(done.stderr.matches("Command failed").count(), 2);
    assert!(save(&mut devices).ends_with("qdisc replace dev eth1 root handle 2: pfifo limit 1000p\n"));
    assert_eq!(batch(&mut devices, "", "qdisc show 'dev\n").status, 1);
    // Of a command over several lines the last one is named.
    let text = "qdisc add dev eth0 \\\n  root \\\n  pfifo\nqdisc show\n";
    let done = batch(&mut devices, "", text);
    assert_eq!((done.status, done.stderr.lines().last()), (1, Some("Command failed b.tc:3")));
}

#[test]
fn hooks_are_places() {
    let mut devices = devices();
    good(&mut devices, "qdisc add dev eth0 clsact");
    assert_eq!(devices.get("eth0").and_then(|d| d.hook()), Some(Hook::Clsact));
    assert!(good(&mut devices, "qdisc show dev eth0").ends_with("qdisc clsact ffff: parent ffff:fff1 \n"));
    for (line, status) in [
        ("qdisc add dev eth0 ingress", 2),
        ("qdisc del dev eth0 ingress", 2),
        ("qdisc del dev eth0 clsact", 0),
        ("qdisc del dev eth0 clsact", 2),
        ("qdisc add dev eth0 handle ffff: ingress", 0),
        ("qdisc add dev eth0 ingress_block 3 ingress", 2),
    ] {
        assert_eq!(tc(&mut devices, line).status, status, "{line}");
    }
    assert_eq!(save(&mut devices), "qdisc replace dev eth0 ingress\n");
}

/// Returns devices with packets of 100 bytes in a pfifo 1: of eth0.
fn loaded(packets: usize) -> Memory {
    let mut devices = devices();
    good(&mut devices, "qdisc add dev eth0 root handle 1: pfifo limit 50");
    for _ in 0..packets {
        devices.get("eth0").expect("there").enqueue(Meta::new(100));
    }
    devices
}

#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let mut devices = loaded(10);
    let before = save(&mut devices);
    for (line, plan) in [
        (
            "qdisc change dev eth0 root pfifo limit 4 --dry-run",
            "~ qdisc pfifo 1: dev eth0 root: limit 50p -> 4p\nqueued: 4 packets 400 bytes in pfifo 1: stay\n\
             queued: 6 packets 600 bytes in pfifo 1: dropped\n",
        ),
        (
            "--dry-run qdisc replace dev eth0 root handle 2: bfifo limit 900",
            "- qdisc pfifo 1: dev eth0 root limit 50p\n+ qdisc bfifo 2: dev eth0 root limit 900b\n\
             queued: 10 packets 1000 bytes in pfifo 1: dropped\n",
        ),
        ("qdisc replace --dry-run dev eth0 root pfifo limit 50", ""),
        ("--dry-run qdisc add dev eth1 ingress", "+ qdisc ingress ffff: dev eth1 parent ffff:fff1\n"),
        (
            "-j --dry-run qdisc del dev eth0 root",
            "[{\"dev\":\"eth0\",\"changes\":[{\"op\":\"delete\",\"what\":\"qdisc pfifo 1: dev eth0 root limit 50p\"}],\
             \"queued\":[{\"packets\":10,\"bytes\":1000,\"from\":\"pfifo 1:\",\"dropped\":true}]}]\n",
        ),
    ] {
        assert_eq!(good(&mut devices, line), plan, "{line}");
        assert_eq!(save(&mut devices), before);
    }
    let refused = tc(&mut devices, "--dry-run qdisc add dev eth0 root pfifo");
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
}

const SWAP: &str = "qdisc del dev eth0 root\nqdisc add dev eth0 root handle 10: prio\n\
                    qdisc add dev eth0 parent 10:2 handle 20: bfifo limit 700\nqdisc add dev eth1 clsact\n";

#[test]
fn a_dry_run_names_every_change_and_every_place() {
    let mut devices = loaded(10);
    let plan = batch(&mut devices, "--atomic --dry-run", "qdisc replace dev eth0 root handle 2: prio\n");
    assert!(plan.stdout.ends_with("in pfifo 1: -> pfifo 0: parent 2:2\n"), "{}", plan.stdout);
    // A size table is a change, and so is a difference that show rounds away.
    let tbf = "qdisc replace dev eth1 root handle 1: tbf rate 1kbit burst 5k limit 9000000";
    good(&mut devices, tbf);
    assert_eq!(good(&mut devices, &format!("--dry-run {tbf}")), "");
    let plan = good(&mut devices, &format!("--dry-run {tbf}").replace("9000000", "9000001"));
    assert_eq!(
        plan,
        "~ qdisc tbf 1: dev eth1 root: rate 125bps burst 5120b limit 9000000b mpu 0 overhead 0 linklayer ethernet -> \
         rate 125bps burst 5120b limit 9000001b mpu 0 overhead 0 linklayer ethernet\n"
    );
    let plan =
        good(&mut devices, "--dry-run qdisc replace dev eth1 root handle 2: stab overhead 10 bfifo limit 9");
    assert!(plan.ends_with("+ qdisc bfifo 2: dev eth1 root stab overhead 10 limit 9b\n"), "{plan}");
}

#[test]
fn an_atomic_batch_moves_packets() {
    let mut devices = loaded(10);
    let plan = batch(&mut devices, "--atomic --dry-run", SWAP);
    assert_eq!((plan.status, plan.stderr.as_str()), (0, ""));
    assert_eq!(
        plan.stdout,
        "- qdisc pfifo 1: dev eth0 root limit 50p\n\
         + qdisc prio 10: dev eth0 root bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n\
         + qdisc bfifo 20: dev eth0 parent 10:2 limit 700b\n\
         queued: 7 packets 700 bytes in pfifo 1: -> bfifo 20:\n\
         queued: 3 packets 300 bytes in pfifo 1: dropped\n\
         + qdisc clsact ffff: dev eth1 parent ffff:fff1\n"
    );
    let done = batch(&mut devices, "--atomic", SWAP);
    assert_eq!(done, Outcome::default());
    let eth0 = devices.get("eth0").expect("there");
    assert_eq!((eth0.tree().root().books().queued.packets, eth0.hook()), (7, None));
    assert_eq!(devices.get("eth1").and_then(|d| d.hook()), Some(Hook::Clsact));
}

#[test]
fn an_atomic_batch_that_fails_changes_nothing() {
    let mut devices = loaded(3);
    let before = save(&mut devices);
    let done = batch(&mut devices, "--atomic", &format!("{SWAP}qdisc add dev eth1 parent 9:1 pfifo\n"));
    assert_eq!(done.status, 1);
    assert_eq!(
        done.stderr,
        "Error: Failed to find specified qdisc.\n\
         error[not-found]: there is no class 9:1\n --> b.tc:5:27\n  |\n5 | qdisc add dev eth1 parent 9:1 pfifo\n  \
         |                           ^^^ expected root or a class that exists\n  = help: there are no classes\n\
         Command failed b.tc:5\n"
    );
    assert_eq!(save(&mut devices), before);
    assert_eq!(devices.get("eth0").expect("there").tree().root().books().queued.packets, 3);
}

/// Devices that accept lines about links. The link eth0 exists.
struct Links(Memory);

impl Devices for Links {
    fn names(&self) -> Vec<String> {
        self.0.names()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        self.0.device(name)
    }
    fn filters(&self) -> &Filters {
        self.0.filters()
    }
    fn filters_mut(&mut self) -> &mut Filters {
        self.0.filters_mut()
    }
    fn state(&self) -> &State {
        self.0.state()
    }
    fn port(&mut self, name: &str) -> Option<PortId> {
        self.0.port(name)
    }
    fn now(&self) -> Instant {
        self.0.now()
    }
    fn link(&mut self, words: &[String], dry: bool) -> Result<LinkLine, String> {
        match words {
            [add, name] if add == "add" && name == "eth0" => Ok(LinkLine::default()),
            [add, name] if add == "add" => Ok(LinkLine {
                changes: vec![format!("+ link {name}")],
                would_be: dry
                    .then(|| Box::new(MemoryDevice::new(name, 1, Env::default())) as Box<dyn Device>),
            }),
            _ => Err("a link is added by its name".into()),
        }
    }
}

#[test]
fn lines_about_links_are_handed_on() {
    let mut links = Links(devices());
    assert_eq!(batch(&mut links, "", "link add eth7\n").status, 0);
    assert_eq!(batch(&mut links, "--dry-run", "link add eth7\n").stdout, "+ link eth7\n");
    let new = "link add eth7\nqdisc add dev eth7 root handle 1: pfifo limit 5\n";
    let plan = batch(&mut links, "--dry-run", new);
    assert_eq!((plan.status, plan.stderr.as_str()), (0, ""));
    assert_eq!(plan.stdout, "+ link eth7\n+ qdisc pfifo 1: dev eth7 root limit 5p\n");
    assert_eq!(links.names(), ["eth0", "eth1"]);
    assert_eq!(batch(&mut links, "--atomic", "link add eth0\nqdisc add dev eth0 root pfifo\n").status, 0);
    let refused = batch(&mut links, "--atomic", "link add eth7\n");
    assert_eq!(
        (refused.status, first(&refused.stderr)),
        (1, "error[unsupported]: a link cannot be changed in an atomic batch: + link eth7")
    );
    assert_eq!(
        first(&batch(&mut links, "", "link del eth7").stderr),
        "error[unsupported]: a link is added by its name"
    );
    assert_eq!(
        first(&batch(&mut devices(), "", "link add a").stderr),
        "error[unsupported]: links cannot be changed from here"
    );
}

#[test]
fn what_is_saved_makes_the_same_again() {
    let mut devices = devices();
    for line in [
        "qdisc add dev eth0 root handle 1: tbf rate 1234567 burst 5555 latency 33ms mpu 64 overhead 24 linklayer atm",
        "qdisc add dev eth0 parent 1:1 handle 2: prio bands 4 priomap 3 2 1",
        "qdisc add dev eth0 parent 2:4 handle 3: fq_codel target 3333us noecn",
        "qdisc add dev eth1 ingress",
    ] {
        let done = tc(&mut devices, line);
        assert_eq!(done.status, 0, "{}", done.stderr);
    }
    let saved = save(&mut devices);
    let mut again = Memory::new(&["eth0", "eth1"]);
    assert_eq!(batch(&mut again, "--atomic", &saved), Outcome::default());
    assert_eq!(save(&mut again), saved);
    assert_eq!(good(&mut again, "-s -d qdisc show"), good(&mut devices, "-s -d qdisc show"));
}
