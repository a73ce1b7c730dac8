//! Actions for which the output of txweir differs from that of Linux; `linux.rs` tests those whose
//! output is equal.

use txweir_tc::memory::Memory;
use txweir_tc::tool::{Outcome, Request, run};

fn ask(devices: &mut Memory, line: &str) -> Outcome {
    let args = line.split(' ').map(String::from).collect();
    run(&Request { args, ..Request::default() }, devices)
}

/// Adds actions and returns the output that lists them.
fn shown(kind: &str, flags: &str, actions: &[&str]) -> String {
    let mut devices = Memory::new(&["lan"]);
    for action in actions {
        let done = ask(&mut devices, &format!("actions add action {kind} {action}"));
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{action}");
    }
    ask(&mut devices, &format!("{flags}actions ls action {kind}")).stdout
}

/// Row broken-json of PARITY.md: tc prints both as text within JSON.
#[test]
fn simple_and_skbmod_are_json() {
    let simple = shown("simple", "-j ", &["sdata hello"]);
    assert_eq!(
        simple,
        "[{\"total acts\":1},{\"actions\":[{\"order\":0,\"kind\":\"simple\",\"sdata\":\"hello\",\"index\":1,\"ref\":1,\"bind\":0,\
         \"not_in_hw\":true}]}]\n"
    );
    let skbmod = shown("skbmod", "-j ", &["set dmac 02:00:00:00:00:01 etype 0x800", "swap mac", "ecn drop"]);
    assert_eq!(
        skbmod,
        "[{\"total acts\":3},{\"actions\":[{\"order\":0,\"kind\":\"skbmod\",\"control_action\":{\"type\":\"pipe\"},\
         \"etype\":\"0x800\",\"dmac\":\"02:00:00:00:00:01\",\"index\":1,\"ref\":1,\"bind\":0,\"not_in_hw\":true},{\"order\":1,\
         \"kind\":\"skbmod\",\"control_action\":{\"type\":\"pipe\"},\"swap\":\"mac\",\"index\":2,\"ref\":1,\"bind\":0,\
         \"not_in_hw\":true},{\"order\":2,\"kind\":\"skbmod\",\"control_action\":{\"type\":\"drop\"},\"ecn\":true,\"index\":3,\
         \"ref\":1,\"bind\":0,\"not_in_hw\":true}]}]\n"
    );
}

/// Row pedit-fields of PARITY.md: tc gives a flow label 19 bits, and inverts one byte of an
/// Ethernet address.
#[test]
fn a_flow_label_has_twenty_bits_and_an_address_is_turned_over_whole() {
    let text = shown(
        "pedit",
        "",
        &[
            "ex munge ip6 flow_lbl set 0xfffff",
            "ex munge eth dst invert",
            "munge offset 4 u32 at 1 offmask f0 shift 4 set 7",
        ],
    );
    let keys: Vec<&str> = text.lines().filter(|line| line.contains("key #")).collect();
    assert_eq!(
        keys,
        [
            "\t key #0  at ipv6+0: val 000fffff mask fff00000",
            "\t key #0  at eth+0: val ffffffff mask ffffffff",
            "\t key #1  at eth+4: val ffff0000 mask ffffffff",
            "\t key #0  at 4: val 00000007 mask 00000000",
        ]
    );
}

#[test]
fn actions_that_are_not_there_say_why() {
    let mut devices = Memory::new(&["lan"]);
    let connections =
        "connections are not tracked here; skbedit sets marks, and nat rewrites addresses without state";
    for (action, why) in [
        ("ct", connections),
        ("ctinfo dscp 0xfc000000", connections),
        ("connmark", connections),
        ("tunnel_key unset", "it sets what a tunnel device of the kernel reads, and there is none here"),
    ] {
        let done = ask(&mut devices, &format!("actions add action {action}"));
        let kind = action.split(' ').next().unwrap_or_default();
        let message = format!("error[unsupported]: there is no action {kind} in the engine: {why}");
        assert_eq!((done.status, done.stderr.lines().next()), (255, Some(message.as_str())));
    }
    for (action, message) in [
        ("police avrate 1mbit", "police avrate needs an estimator of its filter"),
        ("mirred egress redirect blockid 5 dev a", "mirred sends to one device"),
        ("mirred egress redirect dev eltoh", "there is no device \"eltoh\""),
        ("bpf object-file x.o", "a program of eBPF needs the kernel that it is loaded into"),
        ("bpf bytecode-file x", "files are not read here"),
        ("nat egress 10.0.0.0/0 1.2.3.4", "nat egress: \"10.0.0.0/0\" leaves no bit to rewrite"),
    ] {
        let done = ask(&mut devices, &format!("actions add action {action}"));
        assert!(done.status == 255 && done.stderr.contains(message), "{}", done.stderr);
    }
}

#[test]
fn an_average_is_saved_and_not_shown() {
    let mut devices = Memory::new(&["a"]);
    let tc = |devices: &mut Memory, line: &str| {
        run(&Request { args: line.split(' ').map(String::from).collect(), ..Request::default() }, devices)
    };
    assert_eq!(tc(&mut devices, "qdisc add dev a clsact").status, 0);
    let line = "filter add dev a egress estimator 1s 8s prio 1 matchall action police rate 1mbit burst 10k avrate 2mbit drop";
    assert_eq!(tc(&mut devices, line).stderr, "");
    let shown = tc(&mut devices, "-s filter show dev a egress").stdout;
    assert!(shown.contains("rate 1Mbit burst 10Kb mtu 2Kb avrate 2Mbit action drop"), "{shown}");
    assert!(!shown.contains("rate 0bit 0pps"), "{shown}");
    // After each second the average keeps 1 - 1/2^3 of its value, so it falls to 1/e after 7.5
    // seconds. tc spells this time constant 8 s.
    let saved = txweir_tc::tool::save(&mut devices);
    let expected = "qdisc replace dev a clsact
filter replace dev a egress protocol all prio 1 estimator 1s 8s handle 0x1 matchall action police rate 125000bps burst 10240b \
avrate 250000bps conform-exceed drop index 1
";
    assert_eq!(saved, expected);
    let mut again = Memory::new(&["a"]);
    for line in saved.lines() {
        assert_eq!(tc(&mut again, line).stderr, "", "{line}");
    }
    assert_eq!(txweir_tc::tool::save(&mut again), saved);
    for (words, said) in [
        (
            "estimator 1s 8s prio 2 matchall action police avrate 0",
            "police rate: expected rate, pkts_rate, mtu or avrate",
        ),
        ("estimator 9s 90s prio 2 matchall action pass", "estimator cannot have these times"),
        ("estimator 1s 1400ms prio 2 matchall action pass", "estimator cannot have these times"),
        ("estimator 1s 8s estimator 1s 8s prio 2 matchall action pass", "estimator"),
    ] {
        let done = tc(&mut devices, &format!("filter add dev a egress {words}"));
        assert!(done.status != 0 && done.stderr.contains(said), "{words}: {}", done.stderr);
    }
}

/// Row gate-clock.
#[test]
fn a_gate_begins_at_a_time_from_zero_on() {
    let mut devices = Memory::new(&["lan"]);
    let done = ask(&mut devices, "actions add action gate base-time -5 sched-entry open 1000");
    let message = "gate base-time: \"-5\" is not a value for it";
    assert!(done.status == 255 && done.stderr.contains(message), "{}", done.stderr);
}

/// Row action-by-index: saved lines name an action that is there by its index.
#[test]
fn every_action_is_named_by_its_index() {
    // `_` stands for a space within a word.
    for words in [
        "nat egress 10.0.0.0/8 11.0.0.0",
        "mpls dec_ttl",
        "gate sched-entry open 1s",
        "bpf bytecode 1,6_0_0_0",
    ] {
        let mut devices = Memory::new(&["lan"]);
        assert_eq!(ask(&mut devices, "qdisc add dev lan clsact").stderr, "");
        let kind = words.split(' ').next().unwrap_or_default();
        let line = format!("actions add action {words} index 7");
        let args =
            line.split(' ').map(|word| word.replace('_', if kind == "bpf" { " " } else { "_" })).collect();
        let made = run(&Request { args, ..Request::default() }, &mut devices);
        assert_eq!((made.status, made.stderr.as_str()), (0, ""), "{words}");
        let line = format!("filter add dev lan egress matchall action {kind} index 7");
        assert_eq!(ask(&mut devices, &line).stderr, "", "{line}");
        let shown = ask(&mut devices, &format!("actions get action {kind} index 7")).stdout;
        assert!(shown.contains("index 7 ref 2 bind 1"), "{shown}");
    }
}
