//! The machine that answers a script's commands, and the recording of its tc lines.

use std::collections::BTreeMap;

use txweir_core::{Handle, Rate};
use txweir_lint::check::CheckOptions;
use txweir_lint::machine::{Call, Machine, MachineOptions};
use txweir_lint::recording::Recording;
use txweir_tc::tool::Outcome;

fn call(line: &str) -> Call {
    let mut words = line.split_whitespace().map(String::from);
    Call { program: words.next().expect("a program"), args: words.collect(), ..Call::default() }
}

fn machine() -> Machine {
    Machine::new(&MachineOptions::default())
}

fn said(machine: &mut Machine, line: &str) -> (u8, String, String) {
    let Outcome { status, stdout, stderr } = machine.call(&call(line));
    (status, stdout, stderr)
}

/// Runs lines; returns the statuses.
fn statuses(lines: &[&str]) -> Vec<u8> {
    let mut machine = machine();
    lines.iter().map(|line| said(&mut machine, line).0).collect()
}

#[test]
fn devices_come_and_go() {
    let lines = [
        "ip link show dev ifb0",
        "tc qdisc add dev ifb0 root pfifo",
        "ip link add name ifb0 type ifb",
        "ip link add name ifb0 type ifb",
        "tc qdisc add dev ifb0 root pfifo",
        "ip link set dev ifb0 name down0",
        "tc qdisc del dev ifb0 root",
        "tc qdisc del dev down0 root",
        "ip link del down0",
        "ip link del down0",
        "ip link add x type nosuchkind",
        "ip link add abcdefghijklmnop type dummy",
        "modprobe ifb numifbs=3",
        "ip link show ifb2",
        "ip link show ifb3",
        "rmmod ifb",
        "ip link show ifb2",
    ];
    assert_eq!(statuses(&lines), [1, 1, 0, 2, 0, 0, 1, 0, 0, 1, 2, 255, 0, 0, 1, 0, 1]);
    let mut machine = machine();
    said(&mut machine, "ip link add v0 type veth peer name v1");
    let names: Vec<String> = machine.devices().map(|nic| nic.name.clone()).collect();
    assert_eq!(names, ["lo", "eth0", "v0", "v1"]);
    let (_, _, error) = said(&mut machine, "ip link show nosuchdevice0000");
    assert_eq!(error, "Device \"nosuchdevice0000\" does not exist.\n");
}

#[test]
fn ip_prints_what_scripts_read() {
    let mut machine = machine();
    let (_, text, _) = said(&mut machine, "ip -o link show dev eth0");
    assert_eq!(
        text,
        "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc pfifo_fast state UP mode DEFAULT group default \
         qlen 1000\\    link/ether 02:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff\n"
    );
    said(&mut machine, "tc qdisc add dev eth0 root handle 1: htb");
    let (_, json, _) = said(&mut machine, "ip -j addr show eth0");
    assert!(json.contains("\"qdisc\":\"htb\"") && json.contains("\"local\":\"192.0.2.2\""), "{json}");
    let (_, route, _) = said(&mut machine, "ip route show default");
    assert_eq!(route, "default via 192.0.2.1 dev eth0 \n");
    let (_, brief, _) = said(&mut machine, "ip -br addr show dev eth0");
    assert_eq!(brief, "eth0             UP             192.0.2.2/24 \n");
}

#[test]
fn each_namespace_has_its_devices() {
    let mut machine = machine();
    assert_eq!(said(&mut machine, "tc -n lan qdisc show").0, 255);
    assert_eq!(said(&mut machine, "ip netns add lan").0, 0);
    assert_eq!(said(&mut machine, "ip netns add lan").0, 1);
    said(&mut machine, "ip link add v0 type veth peer name eth0 netns lan");
    assert_eq!(said(&mut machine, "tc -n lan qdisc add dev eth0 root handle 5: prio").0, 0);
    let inside = Call { netns: Some("lan".into()), ..call("tc qdisc show dev eth0") };
    assert!(machine.call(&inside).stdout.starts_with("qdisc prio 5: root"));
    assert!(!said(&mut machine, "tc qdisc show dev eth0").1.contains("prio 5:"));
    // Values of other options may stand before the namespace.
    for line in ["tc -cf names -n lan -s qdisc show dev eth0", "tc -c names -ne lan qdisc show dev eth0"] {
        assert!(said(&mut machine, line).1.starts_with("qdisc prio 5: root"), "{line}");
    }
    // A device that is no virtual one is no device of every namespace.
    assert_eq!(said(&mut machine, "tc -n lan qdisc add dev wan root pfifo").0, 1);
    assert_eq!(said(&mut machine, "ip netns del lan").0, 0);
    assert_eq!(said(&mut machine, "ip netns list"), (0, String::new(), String::new()));
}

#[test]
fn the_firewall_remembers_its_rules() {
    let rule = "-t mangle -A marks -p udp -j MARK --set-mark 0x10/0xf0";
    let lines = [
        &format!("iptables {rule}"),
        "iptables -t mangle -N marks",
        "iptables -t mangle -N marks",
        &format!("iptables {rule}"),
        "iptables -t mangle -C marks -p udp -j MARK --set-mark 0x10/0xf0",
        "ip6tables -t mangle -C marks -p udp -j MARK --set-mark 0x10/0xf0",
        "iptables -t mangle -D marks -p udp -j MARK --set-mark 0x10/0xf0",
        "iptables -t mangle -D marks -p udp -j MARK --set-mark 0x10/0xf0",
        "iptables -t mangle -A POSTROUTING -j CLASSIFY --set-class 1:20",
        "iptables -t mangle -X marks",
        "iptables -t mangle -L marks",
    ];
    assert_eq!(statuses(&lines), [1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1]);
    let mut machine = machine();
    lines.iter().for_each(|line| drop(said(&mut machine, line)));
    let nft = "nft add rule inet t c udp dport 53 meta mark set 0x7 meta priority set 1:30";
    said(&mut machine, nft);
    assert_eq!(machine.marking().marks, [(0x10, 0xf0), (7, u32::MAX)]);
    assert_eq!(machine.marking().classes, [Handle::new(1, 0x20), Handle::new(1, 0x30)]);
    assert!(!machine.marking().any);
}

/// A replaced rule gives its mark, and a rule that turns bits over gives any.
#[test]
fn the_firewall_replaces_rules() {
    let lines = [
        "iptables -t mangle -R OUTPUT 1 -j MARK --set-mark 6",
        "iptables -t mangle -A OUTPUT -j MARK --set-mark 5",
        "iptables -t mangle -R OUTPUT 1 -j MARK --set-mark 6",
        "iptables -t mangle -C OUTPUT -j MARK --set-mark 5",
        "iptables -t mangle -C OUTPUT -j MARK --set-mark 6",
        "iptables -t mangle -R none 1 -j MARK --set-mark 6",
    ];
    assert_eq!(statuses(&lines), [1, 0, 0, 1, 0, 1]);
    let mut machine = machine();
    lines.iter().for_each(|line| drop(said(&mut machine, line)));
    assert_eq!(machine.marking().marks, [(5, u32::MAX), (6, u32::MAX)]);
    assert!(!machine.marking().any);
    said(&mut machine, "iptables -t mangle -A OUTPUT -j MARK --xor-mark 1");
    assert!(machine.marking().any);
}

#[test]
fn settings_are_kept() {
    let mut machine = machine();
    assert_eq!(said(&mut machine, "sysctl -n net.core.default_qdisc").1, "pfifo_fast\n");
    said(&mut machine, "sysctl -w net/core/default_qdisc=fq");
    assert_eq!(said(&mut machine, "sysctl net.core.default_qdisc").1, "net.core.default_qdisc = fq\n");
    assert_eq!(said(&mut machine, "sysctl no.such").0, 1);
    assert_eq!(said(&mut machine, "sysctl -e no.such").0, 0);
}

fn recorded(calls: &[Call]) -> Recording {
    let mut recording = Recording::new(&MachineOptions::default());
    calls.iter().for_each(|call| drop(recording.call(call)));
    recording
}

#[test]
fn a_recording_has_the_lines_that_change_something() {
    let quiet = Call { quiet: true, ..call("tc qdisc change dev eth0 root pfifo") };
    let batch = Call {
        input: Some("qdisc add dev eth0 root handle 1: htb\nbad\nclass add dev eth0\n".into()),
        at: Some("up.sh:7".into()),
        ..call("tc -b -")
    };
    let recording = recorded(&[
        call("tc qdisc show dev eth0"),
        call("tc qdisc del dev eth0 root"),
        quiet,
        batch,
        call("tc -s class show dev eth0"),
        call("tc qdisc add dev eth0 root pfifo"),
    ]);
    let expected = "\
# call 2, refused as expected: tc qdisc del dev eth0 root
# call 3, refused as expected: tc qdisc change dev eth0 root pfifo
tc qdisc add dev eth0 root handle 1: htb    # call 4 line 1, up.sh:7
tc bad    # call 4 line 2, up.sh:7
# call 4 line 3, up.sh:7, not reached: tc class add dev eth0
tc qdisc add dev eth0 root pfifo    # call 6
";
    assert_eq!(recording.text(), expected);
    assert_eq!(recording.summary(), "calls: 6 of tc; 6 tc lines, 2 refused as the script expects");
    let report = recording.check("up.sh (as run)", &CheckOptions::default());
    let codes: Vec<&str> = report.diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["unknown-object", "exists"]);
    assert_eq!((report.lines, report.left_out), (3, 0));
}

/// Words of a call that a shell would split or replace stay whole.
#[test]
fn a_recording_quotes_words() {
    let mut odd = call("tc qdisc add dev eth0 root");
    odd.args.push("pf ifo'$x\n".into());
    let recording = recorded(&[odd]);
    assert_eq!(recording.text(), "tc qdisc add dev eth0 root 'pf ifo'\\''$x '    # call 1\n");
    let report = recording.check("x", &CheckOptions::default());
    assert_eq!(report.lines, 1);
    assert!(report.diagnostics[0].message.contains("pf ifo'$x"), "{:?}", report.diagnostics);
}

/// A line of a batch that is continued is known by its last line, as tc names it.
#[test]
fn a_refused_line_of_a_batch_may_be_continued() {
    let text = "qdisc add dev eth0 root handle 1: htb\nqdisc add dev eth0 \\\n  root pfifo\nbad\n";
    let batch = Call { input: Some(text.into()), ..call("tc -b -") };
    let expected = "\
tc qdisc add dev eth0 root handle 1: htb    # call 1 line 1
tc qdisc add dev eth0 root pfifo    # call 1 line 3
# call 1 line 4, not reached: tc bad
";
    assert_eq!(recorded(&[batch]).text(), expected);
}

/// The rate of a device is that of its name; a bare one is for the others.
#[test]
fn each_device_has_its_rate() {
    let calls = ["eth0", "ifb0", "wan"]
        .map(|dev| call(&format!("tc qdisc add dev {dev} root cake bandwidth 50mbit")));
    let mut recording = recorded(&[call("ip link add ifb0 type ifb")]);
    calls.iter().for_each(|call| drop(recording.call(call)));
    let rate = Rate::from_bits;
    let links = [("eth0", 20_000_000), ("ifb0", 90_000_000)];
    let links: BTreeMap<String, Rate> = links.map(|(dev, bits)| (dev.to_string(), rate(bits))).into();
    let above = |link: Option<Rate>| {
        let options = CheckOptions { link, links: links.clone(), ..CheckOptions::default() };
        recording.check("x", &options).diagnostics.iter().filter(|d| d.code == "above-link").count()
    };
    assert_eq!((above(None), above(Some(rate(10_000_000)))), (1, 2));
}

#[test]
fn a_mark_that_nothing_sets_is_a_warning() {
    let filter =
        |mark: &str| call(&format!("tc filter add dev eth0 parent 1: prio 1 handle {mark} fw flowid 1:1"));
    let of = |rules: &[&str], mark: &str| {
        let mut recording = recorded(&[call("tc qdisc add dev eth0 root handle 1: prio")]);
        rules.iter().for_each(|rule| drop(recording.call(&call(rule))));
        recording.call(&filter(mark));
        let report = recording.check("x", &CheckOptions::default());
        report.diagnostics.iter().any(|d| d.code == "unset-mark")
    };
    let rule = "iptables -t mangle -A OUTPUT -j MARK --set-mark 0x10/0xf0";
    assert!(of(&[], "16"));
    assert!(!of(&[rule], "16") && !of(&[rule], "0x11"));
    assert!(of(&[rule], "0x20") && !of(&[rule], "0x7/0x0f"));
    // A rule that restores marks may set any.
    assert!(!of(&["nft add rule t c meta mark set ct mark"], "16"));
}

/// Devices that the script leaves with a root qdisc are policies of `try`, with their hooks.
#[test]
fn a_device_is_a_policy() {
    let mut recording = recorded(&[
        call("tc qdisc add dev eth0 root handle 1: htb default 1"),
        call("tc class add dev eth0 parent 1: classid 1:1 htb rate 8mbit"),
        call("tc qdisc add dev eth0 ingress"),
        call("tc filter add dev eth0 parent ffff: matchall action drop"),
        call("tc filter add dev eth0 parent 1: matchall flowid 1:1"),
    ]);
    let machine = recording.machine_mut();
    assert_eq!(machine.rooted(), ["eth0"]);
    let policy = machine.policy("eth0");
    let firsts: Vec<&str> = policy.lines().map(|line| line.split(' ').next().unwrap_or("")).collect();
    assert_eq!(firsts, ["qdisc", "class", "qdisc", "filter", "filter"], "{policy}");
}

/// The table has no queue of a device that the script removed.
#[test]
fn a_removed_device_has_no_facts() {
    let of = |more: &str| {
        let mut recording = recorded(&[
            call("ip link add ifb0 type ifb"),
            call("tc qdisc add dev ifb0 root fq_codel"),
            call("tc qdisc add dev eth0 root pfifo"),
        ]);
        recording.call(&call(more));
        let facts = recording.check("x", &CheckOptions::default()).facts;
        facts.into_iter().map(|fact| fact.dev).collect::<Vec<_>>()
    };
    assert_eq!(of("ip link show"), ["eth0", "ifb0"]);
    assert_eq!(of("ip link del ifb0"), ["eth0"]);
}
