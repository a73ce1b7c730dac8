//! Blocks that devices share: their filters are counted together, saved once, rehearsed, and
//! removed with the last hook.

use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{action::Run, filter::Verdict};
use txweir_core::packet::headers::Headers;
use txweir_core::{ClassId, Instant, Meta};
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

const SHARED: &str = "qdisc add dev a ingress_block 22 egress_block 23 clsact
qdisc add dev b ingress_block 22 ingress
filter add block 22 prio 1 matchall action drop
chain add block 22 chain 7 protocol ip flower dst_ip 0.0.0.0/24
filter add block 22 chain 7 protocol ip prio 5 flower dst_ip 10.0.0.0/24 action gact pass index 9
filter add block 23 prio 2 matchall action gact index 9
";

fn set_up() -> Memory {
    let mut devices = Memory::new(&["a", "b"]);
    let done = batch(&mut devices, "", SHARED);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    devices
}

/// Returns the verdict of the filters about a packet received by a device.
fn comes_in(devices: &mut Memory, dev: &str) -> Verdict {
    let block = devices.get(dev).and_then(|device| device.block(Hook::INGRESS));
    let (filters, state) = devices.classify();
    let (mut frame, mut meta) = (vec![0u8; 100], Meta::new(100));
    let headers = Headers::parse_ethernet(&frame);
    let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), Way::Ingress);
    let mut run =
        Run { actions: &filters.actions, state, outlet: &mut NoOutlet, now: Instant::ZERO, queues: 1 };
    block.map_or(Verdict::Unmatched, |block| filters.classify(block, &mut packet, &mut run))
}

#[test]
fn devices_have_one_set_of_filters() {
    let mut devices = set_up();
    assert_eq!(comes_in(&mut devices, "a"), Verdict::Drop);
    assert_eq!(comes_in(&mut devices, "b"), Verdict::Drop);
    let shown = tc(&mut devices, "-s filter show dev b ingress").stdout;
    assert!(shown.contains("filter block 22 protocol all pref 1 matchall chain 0 handle 0x1"), "{shown}");
    assert!(shown.contains("(rule hit 2)") && shown.contains("Sent 172 bytes 2 pkt"), "{shown}");
    assert_eq!(tc(&mut devices, "filter del block 22 prio 1").status, 0);
    assert_eq!(comes_in(&mut devices, "b"), Verdict::Unmatched);
}

#[test]
fn a_block_goes_with_the_last_hook_that_has_it() {
    let mut devices = set_up();
    assert_eq!(tc(&mut devices, "qdisc del dev a clsact").status, 0);
    assert_eq!(tc(&mut devices, "filter show block 23").status, 1);
    assert!(tc(&mut devices, "filter show block 22").stdout.contains("pref 1 matchall"));
    assert_eq!(tc(&mut devices, "qdisc del dev b ingress").status, 0);
    assert_eq!(tc(&mut devices, "filter show block 22").status, 1);
    assert_eq!((devices.filters().shared_blocks().count(), devices.filters().is_empty()), (0, true));
    assert_eq!(tc(&mut devices, "actions ls action gact").stdout, "", "its actions are removed too");
}

#[test]
fn what_is_wrong_is_said_at_its_word() {
    for (line, status, said) in [
        (
            "filter add dev a ingress prio 9 matchall action drop",
            2,
            "a: the filters of a are those of block 22 there",
        ),
        ("chain add dev b ingress chain 9", 2, "b: the filters of b are those of block 22 there"),
        ("filter add block 9 matchall action drop", 2, "9: there is no block 9"),
        ("filter show block 9", 1, "9: there is no block 9"),
        ("filter show block 0", 255, "0: block cannot be 0"),
        ("filter add block 22 prio 9 flow map key dst baseclass 1:1", 2, "flow: filter flow kind"),
        (
            "qdisc add dev b root ingress_block 1 prio",
            2,
            "1: only ingress and clsact have blocks that devices share",
        ),
    ] {
        said_of(&mut set_up(), line, status, said);
    }
    let mut devices = Memory::new(&["a", "b"]);
    let line = "qdisc add dev a ingress_block 4 egress_block 4 clsact";
    said_of(&mut devices, line, 2, "4: ingress and egress of a device cannot share a block");
    said_of(
        &mut devices,
        "qdisc add dev a egress_block 4 ingress",
        2,
        "4: ingress has no filters for sent packets",
    );
    assert_eq!(devices.filters().shared_blocks().count(), 0, "a refused line makes no block");
}

/// Checks the exit status of a line, and the word under its caret followed by the message.
fn said_of(devices: &mut Memory, line: &str, status: u8, said: &str) {
    let done = tc(devices, line);
    let mut lines = done.stderr.lines();
    let message = lines
        .find(|l| l.starts_with("error["))
        .and_then(|l| l.split_once(": "))
        .map_or("", |(_, message)| message);
    let caret =
        lines.find(|l| l.contains('^')).and_then(|l| l.split_once("| ")).map_or("", |(_, caret)| caret);
    let text = format!("tc {line}");
    let word: String = text.chars().zip(caret.chars()).filter(|(_, c)| *c == '^').map(|(c, _)| c).collect();
    assert_eq!(done.status, status, "{line}: {}", done.stderr);
    assert!(format!("{word}: {message}").starts_with(said), "{line}: {word}: {message}");
}

#[test]
fn a_hook_that_is_there_keeps_its_filters() {
    let mut devices = set_up();
    let done = tc(&mut devices, "qdisc replace dev a ingress_block 30 clsact");
    assert_eq!(done.status, 0);
    assert!(
        done.stderr.contains("a has its hook already, which keeps the filters that it has"),
        "{}",
        done.stderr
    );
    assert!(
        tc(&mut devices, "qdisc show dev a")
            .stdout
            .contains("clsact ffff: parent ffff:fff1 ingress_block 22")
    );
}

#[test]
fn what_is_saved_and_rehearsed_has_each_block_once() {
    let mut devices = set_up();
    let saved = save(&mut devices);
    let expected = "qdisc replace dev a ingress_block 22 egress_block 23 clsact
qdisc replace dev b ingress_block 22 ingress
filter replace block 22 protocol all prio 1 handle 0x1 matchall action gact drop index 1
chain add block 22 chain 7 protocol ip flower dst_ip 0.0.0.0/24
filter replace block 22 chain 7 protocol ip prio 5 handle 0x1 flower dst_ip 10.0.0.0/24 action gact pass index 9
filter replace block 23 protocol all prio 2 handle 0x1 matchall action gact index 9
";
    assert_eq!(saved, expected);
    for flags in ["", "--atomic"] {
        let mut again = Memory::new(&["a", "b"]);
        let done = batch(&mut again, flags, &saved);
        assert_eq!((done.status, done.stderr.as_str()), (0, ""));
        assert_eq!(save(&mut again), saved);
        assert_eq!(comes_in(&mut again, "b"), Verdict::Drop);
    }
    let swap =
        "qdisc del dev b ingress\nqdisc add dev b ingress_block 23 clsact\nfilter del block 22 prio 1\n";
    let plan = batch(&mut devices, "--dry-run --atomic", swap).stdout;
    let expected = "- qdisc ingress ffff: dev b parent ffff:fff1 ingress_block 22
+ qdisc clsact ffff: dev b parent ffff:fff1 ingress_block 23
- filter block 22 protocol all prio 1 handle 0x1 matchall action gact drop index 1
";
    assert!(plan.starts_with(expected), "{plan}");
    assert_eq!(save(&mut devices), saved, "a rehearsal changes nothing");
    assert_eq!(batch(&mut devices, "--atomic", swap).status, 0);
    assert_eq!(comes_in(&mut devices, "b"), Verdict::Class(ClassId::NONE), "the verdict of block 23");
}
