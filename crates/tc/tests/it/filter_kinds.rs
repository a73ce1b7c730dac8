//! flower, basic and flow where the words and the output are txweir's own.

use txweir_tc::memory::Memory;
use txweir_tc::tool::{Outcome, Request, run};

/// Runs a line; the text after `match` is one word.
fn tc(devices: &mut Memory, line: &str) -> Outcome {
    let (head, expr) = line.split_once(" match ").map_or((line, None), |(head, expr)| (head, Some(expr)));
    let mut args: Vec<String> = head.split(' ').map(String::from).collect();
    args.extend(expr.into_iter().flat_map(|expr| ["match".into(), expr.into()]));
    run(&Request { args, ..Request::default() }, devices)
}

fn set_up() -> Memory {
    let mut devices = Memory::new(&["a"]);
    assert_eq!(tc(&mut devices, "qdisc add dev a root handle 1: prio").status, 0);
    devices
}

#[test]
fn what_is_not_known_is_refused() {
    for (words, status, said) in [
        (
            "basic match meta(loadavg_1 gt 0)",
            2,
            "basic filter match: loadavg_1 is not known of a packet here",
        ),
        ("basic match meta(dev eq \"lan\")", 2, "basic filter match: dev is not known of a packet here"),
        (
            "basic match meta(priority eq \"x\")",
            2,
            "basic filter match: the properties of a packet are numbers",
        ),
        (
            "basic match cmp(u8 at 70000 layer 1 eq 6)",
            1,
            "basic filter match: cmp(u8 at 70000 layer 1 eq 6) cannot be read",
        ),
        (
            "basic match meta(priority eq 4294967296)",
            1,
            "basic filter match: meta(priority eq 4294967296) cannot be read",
        ),
        ("basic match canid(sff 1)", 2, "basic filter match: there are no frames of CAN here"),
        (
            "cgroup",
            2,
            "there is no cgroup filter in the engine: no process here has sent the packet, whose group would be its class; \
             fw matches its mark",
        ),
        (
            "route from 1 classid 1:1",
            2,
            "there is no route filter in the engine: no table of routes here has given the packet a realm; flower and u32 \
             match its addresses",
        ),
        ("basic match ipset(x src)", 1, "basic filter match: there is no ipset match here"),
        ("basic match not not cmp(u8 at 0 eq 1)", 1, "basic filter match: an opening parenthesis is missing"),
        ("flower ct_state +trk", 2, "connections are not tracked here"),
        ("flower enc_key_id 3", 2, "packets come out of no tunnel here"),
        ("flower spi 3", 1, "flower does not look at spi"),
        ("flower indev b", 2, "there is no device \"b\""),
        ("flower src_mac 1:2:3:4:5:6/49", 1, "flower filter: \"1:2:3:4:5:6/49\" is not a value for this"),
        ("flow map key dst perturb 3", 2, "filter flow perturb: expected mode hash, given \"map\""),
    ] {
        let mut devices = set_up();
        let done = tc(&mut devices, &format!("filter add dev a protocol ip prio 1 handle 1 {words}"));
        let first = done.stderr.lines().find(|l| l.starts_with("error[")).unwrap_or("");
        let message = first.split_once(": ").map_or("", |(_, message)| message);
        assert_eq!((done.status, message), (status, said), "{words}");
        assert_eq!(tc(&mut devices, "filter show dev a").stdout, "");
    }
}

#[test]
fn flow_and_conditions_are_json() {
    let mut devices = set_up();
    let lines = [
        "prio 1 handle 1 flow map key dst and 0xff divisor 8",
        "prio 2 handle 31 flow hash keys src,rxhash perturb 9 match not cmp(u8 at 0 layer 1 eq 3)",
        "prio 3 basic classid 1:2 match (u32(u8 6 0xff at 9) or meta(priority shift 1 eq 0xffffffff)) and nbyte(\"a\" at 3)",
    ];
    for line in lines {
        let done = tc(&mut devices, &format!("filter add dev a protocol ip {line}"));
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
    }
    let shown = tc(&mut devices, "-j filter show dev a").stdout;
    let options: Vec<&str> =
        shown.split("\"options\":").skip(1).map(|o| o.split("}").next().unwrap_or("")).collect();
    assert_eq!(
        options,
        [
            r#"{"handle":"1","mode":"map","keys":"dst","and":"0x000000ff","divisor":"8","baseclass":"1:1""#,
            concat!(
                r#"{"handle":"1f","mode":"hash","keys":"src,rxhash","baseclass":"1:1","perturb":9,"#,
                r#""match":"not cmp(u8 at 0 layer 1 eq 3)""#
            ),
            concat!(
                r#"{"handle":"1","flowid":"1:2","match":"(u32(u32 0x60000 0xff0000 at 8) or "#,
                r#"meta(priority shift 1 eq 4294967295)) and nbyte(\"\\x61\" at 3 layer 1)""#
            ),
        ]
    );
}

#[test]
fn a_map_becomes_a_hash() {
    let mut devices = set_up();
    for line in [
        "add dev a prio 1 handle 1 flow map key src addend 3",
        "replace dev a prio 1 handle 1 flow hash keys src,dst",
    ] {
        assert_eq!(tc(&mut devices, &format!("filter {line}")).status, 0);
    }
    let shown = tc(&mut devices, "filter show dev a").stdout;
    assert!(shown.ends_with("handle 0x1 hash keys src,dst addend 0x3 baseclass 1:1 \n"), "{shown}");
}

#[test]
fn bits_of_an_address_are_those_said() {
    let mut devices = set_up();
    assert_eq!(
        tc(&mut devices, "filter add dev a prio 1 flower src_mac 1:2:3:4:5:6/0 dst_mac 1:2:3:4:5:6/1").status,
        0
    );
    let shown = tc(&mut devices, "filter show dev a").stdout;
    assert!(shown.ends_with("handle 0x1 \n  dst_mac 01:02:03:04:05:06/1\n  not_in_hw\n"), "{shown}");
    let done = tc(&mut devices, "filter add dev a prio 1 flower src_mac 1:2:3:4:5:6:7");
    assert_eq!(done.status, 1);
}

#[test]
fn a_template_is_said_no_and_yes() {
    let mut devices = set_up();
    let chain = "chain add dev a parent 1: chain 5 protocol ip";
    let done = tc(&mut devices, &format!("{chain} basic"));
    assert_eq!(done.status, 2);
    let said = "a chain cannot have a template for its filters if they are basic";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert_eq!(tc(&mut devices, &format!("{chain} flower src_ip 0.0.0.0/24")).status, 0);
    let filter = "filter add dev a parent 1: chain 5 protocol ip prio 1";
    assert_eq!(tc(&mut devices, &format!("{filter} flower src_ip 10.0.0.0/8 flowid 1:1")).status, 0);
    for (words, said) in [
        (
            "flower src_ip 10.0.0.1 flowid 1:1",
            "filter flower: expected fields and bits that the template of the chain has, given \"others\"",
        ),
        (
            "matchall flowid 1:1",
            "chain kind: expected flower, for which chain 5 was made, given \"matchall\"",
        ),
    ] {
        let done =
            tc(&mut devices, &format!("filter add dev a parent 1: chain 5 protocol ip prio 2 {words}"));
        assert_eq!((done.status, done.stderr.contains(said)), (2, true), "{}", done.stderr);
    }
    let tagged = "filter add dev a parent 1: chain 5 protocol 802.1q prio 3 flower flowid 1:1";
    let done = tc(&mut devices, tagged);
    let said = "expected a protocol that is no tag, as the template of the chain has, given \"a tag\"";
    assert!(done.stderr.contains(said), "{}", done.stderr);
}
