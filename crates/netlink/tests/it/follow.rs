//! A policy that is followed: the listings of one device, as lines, make it on another one, and
//! lead from each of its states to the next.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use txweir_netlink::follow::{Copied, Snapshot, Step};
use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
use txweir_netlink::wire::Writer;
use txweir_netlink::{Client, answer};
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Devices, Request, run};

use crate::filters;
use crate::law::{SHOWS, devices, tc};

/// Returns the state of the link of a device, from its listings.
fn state(devices: &mut Memory) -> Copied {
    let mut snapshot = Snapshot::default();
    let mut list = |kind, parent, snapshot: &mut Snapshot| {
        let asked = TcHead { link: 2, parent, ..TcHead::default() };
        let header = Header { kind, flags: flag::REQUEST | flag::DUMP, seq: 1, port: 0 };
        for packet in answer(&message(header, |w| asked.write(w)), &mut Client::default(), devices).packets {
            messages(&packet).for_each(|one| snapshot.take(&one, asked));
        }
    };
    list(kind::GET_QDISC, 0, &mut snapshot);
    list(kind::GET_CLASS, 0, &mut snapshot);
    for parent in snapshot.places().collect::<Vec<_>>() {
        list(kind::GET_CHAIN, parent, &mut snapshot);
        list(kind::GET_FILTER, parent, &mut snapshot);
    }
    snapshot.lines("lan", &mut |link| (link == 3).then(|| "wan".to_string()))
}

/// Performs steps. True if none was refused.
fn perform(steps: &[Step], devices: &mut Memory) -> bool {
    steps.iter().all(|step| tc(&step.words.join(" "), devices).0 == 0)
}

fn texts(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|step| step.words.join(" ")).collect()
}

/// Every transcript, line by line: the copy shows the same after each.
#[test]
fn a_copy_follows_every_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc");
    let (mut kinds, mut compared, mut in_place) = (0, 0, 0);
    let mut files: Vec<_> = fs::read_dir(folder).expect("transcripts").flatten().map(|e| e.path()).collect();
    files.sort();
    for file in files {
        let kind = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // These have no messages, or are txweir's own.
        if !file.is_file() || matches!(kind.as_str(), "dualpi2" | "rough" | "taprio" | "options-differ") {
            continue;
        }
        let queues = if matches!(kind.as_str(), "mq" | "mqprio" | "multiq") { 4 } else { 1 };
        let (mut from, mut to, mut has) = (devices(queues), devices(queues), Copied::default());
        let text = fs::read_to_string(&file).expect("a transcript");
        let before = compared;
        for line in text.lines().filter_map(|line| line.strip_prefix("$ tc ")) {
            // Options of txweir's own have no attribute; a listing lacks some tables.
            let lacks = ["red ", "choke ", "distribution ", "tcpctl", "shared", "filter", "--", "mode dcb"];
            if lacks.iter().any(|word| line.contains(word)) || tc(line, &mut from).0 != 0 {
                continue;
            }
            let now = state(&mut from);
            assert_eq!(now.left_out, Vec::<String>::new(), "{line}");
            let steps = now.steps_from(&has);
            if perform(&steps, &mut to) {
                in_place += 1;
            } else {
                tc("qdisc del dev lan root", &mut to);
                tc("qdisc del dev lan clsact", &mut to);
                tc("qdisc del dev lan ingress", &mut to);
                assert!(perform(&now.steps_from_nothing(), &mut to), "{line}: {:#?}", texts(&steps));
            }
            // A limit that is given bounds the flows of sfq; a first qdisc gets a handle.
            let shown = |devices: &mut Memory| {
                SHOWS.map(|show| {
                    tc(show, devices).1.replace("flows 128 ", "flows 127 ").replace("7fff:", "0:")
                })
            };
            assert_eq!(shown(&mut to), shown(&mut from), "after {line}: {:#?}", texts(&steps));
            assert_eq!(now.steps_from(&now), [], "nothing is to be done for the same");
            (has, compared) = (now, compared + 1);
        }
        kinds += usize::from(compared > before);
    }
    println!("{kinds} kinds, {compared} states, {in_place} in place");
    assert!(kinds >= 20 && in_place * 10 >= compared * 8, "{kinds} {in_place} of {compared}");
}

/// The places whose filters are compared.
const FILTERS: [&str; 6] = [
    "filter show dev lan parent 1:",
    "filter show dev lan ingress",
    "filter show dev lan egress",
    "chain show dev lan parent 1:",
    "chain show dev lan ingress",
    "chain show dev lan egress",
];

/// Performs steps by their words, which may have spaces. Returns the refusals.
fn refused(steps: &[Step], devices: &mut Memory) -> Vec<String> {
    let failed = |step: &&Step| {
        let args = step.words.clone();
        run(&Request { args, ..Request::default() }, devices).status != 0 && !step.may_fail
    };
    texts(&steps.iter().filter(failed).cloned().collect::<Vec<_>>())
}

/// Returns what is shown of filters, as far as its order says something.
fn shown(devices: &mut Memory) -> Vec<String> {
    let mut one = |show: &str| {
        let text = filters::tc(show, devices).1;
        let begin = if show.starts_with("chain") { "chain " } else { "filter " };
        let text = format!("\n{}", text.trim_end());
        let mut all: Vec<&str> = text.split(&format!("\n{begin}")).map(str::trim_end).collect();
        // A priority of u32 whose own table is empty decides nothing.
        all.retain(|one| !one.contains(" u32 ") || one.contains(" fh "));
        let (roots, mut all): (Vec<&str>, Vec<&str>) =
            all.into_iter().partition(|one| one.ends_with(": ht divisor 1"));
        // Chains have no order, nor have filters of fw: a packet has one mark.
        if begin == "chain " || text.contains(" fw ") {
            all.sort_unstable();
        }
        let mut text = all.join("\n");
        // The number of such a table is that of the device.
        for root in roots.iter().filter_map(|root| root.split(" fh ").nth(1)?.split(':').next()) {
            for key in ["fh ", "key ht "] {
                text = text.replace(&format!("{key}{root}"), &format!("{key}root"));
            }
        }
        text
    };
    FILTERS.iter().map(|show| one(show)).collect()
}

/// A device, and a copy that follows it.
struct Pair {
    from: Memory,
    to: Memory,
    has: Copied,
    /// States, and those of them that needed no second beginning.
    states: u32,
    in_place: u32,
}

impl Pair {
    fn new() -> Self {
        let [mut from, to] = [filters::devices(), filters::devices()];
        Self { has: state(&mut from), from, to, states: 0, in_place: 0 }
    }

    /// Lets the copy follow. Returns the steps.
    fn follow(&mut self, after: &str) -> Result<Vec<String>, Vec<String>> {
        let now = state(&mut self.from);
        assert_eq!(now.left_out, Vec::<String>::new(), "{after}");
        let steps = now.steps_from(&self.has);
        self.states += u32::from(!steps.is_empty());
        if refused(&steps, &mut self.to).is_empty() {
            self.in_place += u32::from(!steps.is_empty());
        } else {
            self.to = filters::devices();
            let refusals = refused(&now.steps_from_nothing(), &mut self.to);
            if !refusals.is_empty() {
                return Err(refusals);
            }
        }
        assert_eq!(now.steps_from(&now), [], "nothing is to be done for the same");
        let steps = texts(&steps);
        assert_eq!(shown(&mut self.to), shown(&mut self.from), "after {after}: {steps:#?}");
        self.has = now;
        Ok(steps)
    }

    /// Changes the device, and lets the copy follow.
    fn run(&mut self, line: &str) -> Vec<String> {
        assert_eq!(filters::tc(line, &mut self.from).0, 0, "{line}");
        self.follow(line).expect("a copy")
    }
}

/// Every recording of filters, line by line: the copy has the same filters, chains and actions
/// after each.
#[test]
fn a_copy_follows_the_filters_of_every_recording() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux");
    let mut files: Vec<_> = fs::read_dir(folder).expect("recordings").flatten().map(|e| e.path()).collect();
    files.sort();
    let (mut states, mut in_place, mut kinds) = (0, 0, BTreeSet::new());
    for file in files {
        let mut pair = Pair::new();
        pair.run("qdisc add dev lan clsact");
        let text = fs::read_to_string(&file).expect("a recording");
        for line in text.lines().filter_map(|line| line.strip_prefix("$ tc ")) {
            // A listing lacks the tag of a template that has no field of it.
            let leaves_out = ["qdisc ", "class add", "tcpctl", "chain 52 "];
            if leaves_out.iter().any(|part| line.contains(part)) || filters::tc(line, &mut pair.from).0 != 0 {
                continue;
            }
            if let Err(refusals) = pair.follow(line) {
                // A hash table whose priority is gone is not listed.
                assert!(refusals.iter().all(|one| one.contains(" link 0x")), "{refusals:?}");
                break;
            }
            let filters = shown(&mut pair.to).concat();
            kinds.extend(filters.lines().filter_map(|line| {
                let mut words = line.split(' ').skip_while(|word| *word != "pref");
                words.nth(2).map(String::from)
            }));
        }
        (states, in_place) = (states + pair.states, in_place + pair.in_place);
    }
    println!("{states} states, {in_place} in place, {kinds:?}");
    assert!(states >= 480 && in_place + 1 >= states && kinds.len() >= 7, "{in_place} of {states}: {kinds:?}");
}

/// Actions that filters share, those that have a command of their own, and blocks.
#[test]
fn a_copy_follows_actions_and_blocks() {
    let mut pair = Pair::new();
    // An action that no filter holds is not of the device.
    assert_eq!(pair.run("actions add action police rate 1mbit burst 20k index 3"), [""; 0]);
    let steps = pair.run("filter add dev lan parent 1: protocol ip prio 1 matchall action police index 3");
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps[0].starts_with("actions replace action police rate 125000bps"), "{steps:?}");
    pair.run("filter add dev lan parent 1: protocol ip prio 2 handle 5 fw classid 1:2 action police index 3");
    // One step changes the action of both, and counters of filters stay.
    let steps = pair.run("actions replace action police rate 2mbit burst 20k index 3");
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(steps[0].starts_with("actions replace action police rate 250000bps"), "{steps:?}");
    // An action of filters alone goes with the last of them.
    pair.run("filter add dev lan parent 1: protocol ip prio 3 matchall action gact drop index 8");
    pair.run("filter add dev lan parent 1: protocol ip prio 4 matchall action gact index 8");
    let steps = pair.run("actions replace action gact pass index 8");
    assert_eq!(steps, ["actions replace action gact pass index 8"]);
    pair.run("filter del dev lan parent 1: protocol ip prio 3");
    pair.run("filter del dev lan parent 1: protocol ip prio 4");
    assert_eq!(pair.to.filters().actions.find("gact", 8), None);
    pair.run("filter del dev lan parent 1:");
    assert_eq!(pair.to.filters().actions.find("police", 3), None);
    // A block that another device shares.
    let other = "qdisc add dev wan ingress_block 7 clsact";
    for devices in [&mut pair.from, &mut pair.to] {
        assert_eq!(filters::tc(other, devices).0, 0);
    }
    pair.run("qdisc add dev lan ingress_block 7 clsact");
    pair.run("filter add block 7 protocol ip prio 1 matchall action drop");
    let block = |devices: &mut Memory| filters::tc("filter show block 7", devices).1;
    assert!(block(&mut pair.to).contains("gact action drop"));
    assert_eq!(block(&mut pair.to), block(&mut pair.from));
    assert_eq!(pair.has.blocks().collect::<Vec<_>>(), [7]);
    pair.run("filter del block 7 protocol ip prio 1");
    assert_eq!(block(&mut pair.to), "");
    assert_eq!(pair.in_place, pair.states, "each step was possible");
}

/// Filters that are tried in the order in which they were made keep it; others stay as they are.
#[test]
fn a_copy_keeps_the_order_of_filters() {
    let mut pair = Pair::new();
    let basic = |verb: &str, handle: u32, n: u32, class: u32| {
        let place = format!("parent 1: protocol ip prio 1 handle {handle}");
        let expr = format!("match 'cmp(u8 at 9 layer 1 eq {n})'");
        format!("filter {verb} dev lan {place} basic {expr} classid 1:{class}")
    };
    for handle in 1..=4 {
        assert_eq!(pair.run(&basic("add", handle, handle, handle)).len(), 1, "one filter is added");
    }
    assert_eq!(pair.run("filter del dev lan parent 1: protocol ip prio 1 handle 2 basic").len(), 1);
    // A change in the middle makes the priority anew.
    let change = &basic("replace", 3, 9, 1);
    let steps = pair.run(change);
    assert_eq!(steps.len(), 4, "{steps:?}");
    assert_eq!(steps[0], "filter del dev lan parent 1: chain 0 protocol 0x0800 prio 1 basic");
    // Filters of u32 lose no others of another priority.
    pair.run("filter add dev lan parent 1: protocol ip prio 7 u32 match ip dst 10.0.0.1 classid 1:1");
    pair.run("filter add dev lan parent 1: protocol ip prio 8 u32 match ip dst 10.0.0.2 classid 1:1");
    pair.run("filter add dev lan parent 1: protocol ip prio 8 u32 match ip dst 10.0.0.3 classid 1:1");
    let steps = pair.run("filter del dev lan parent 1: protocol ip prio 8 handle 801::800 u32");
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!(steps[0], "filter del dev lan parent 1: chain 0 protocol 0x0800 prio 8 u32");
    assert_eq!(pair.run("filter del dev lan parent 1: protocol ip prio 7").len(), 1);
}

/// The steps are those that a person would take.
#[test]
fn steps_change_what_is_different() {
    let mut from = devices(1);
    for line in [
        "qdisc add dev lan root handle 1: htb default 10",
        "class add dev lan parent 1: classid 1:1 htb rate 10mbit",
        "class add dev lan parent 1:1 classid 1:10 htb rate 5mbit",
        "qdisc add dev lan parent 1:10 handle 10: fq_codel",
    ] {
        assert_eq!(tc(line, &mut from).0, 0, "{line}");
    }
    let first = state(&mut from);
    let made = texts(&first.steps_from_nothing());
    let order: Vec<&str> =
        made.iter().map(|line| &line[..line.find(" rate").unwrap_or(line.len())]).collect();
    assert!(order[0].starts_with("qdisc replace dev lan root handle 1: htb"), "{order:?}");
    assert!(order[1].starts_with("class replace dev lan root classid 1:1 htb"), "{order:?}");
    assert!(order[2].starts_with("class replace dev lan parent 1:1 classid 1:10"), "{order:?}");
    assert!(order[3].starts_with("qdisc replace dev lan parent 1:10 handle 10: fq_codel"), "{order:?}");
    tc("class change dev lan classid 1:10 htb rate 6mbit", &mut from);
    let second = state(&mut from);
    let change = texts(&second.steps_from(&first));
    assert_eq!(change.len(), 1, "{change:?}");
    assert!(change[0].starts_with("class replace dev lan parent 1:1 classid 1:10 htb"), "{change:?}");
    // A subtree goes by its first object, and comes back under another handle.
    tc("qdisc del dev lan root", &mut from);
    let gone = texts(&state(&mut from).steps_from(&second));
    assert_eq!(gone, ["qdisc del dev lan root"]);
    tc("qdisc add dev lan root handle 2: pfifo limit 7", &mut from);
    let other = texts(&state(&mut from).steps_from(&second));
    assert_eq!(other, ["qdisc del dev lan root", "qdisc replace dev lan root handle 2: pfifo limit 7"]);
}

/// A filter or an action that is not there is named, and the rest is copied.
#[test]
fn the_reason_is_named_where_a_filter_is_not_copied() {
    let mut snapshot = Snapshot::default();
    let asked = TcHead { link: 2, parent: 0x1_0000, ..TcHead::default() };
    let mut filter = |kind: &str, handle: u32, f: &dyn Fn(&mut Writer)| {
        let header = Header { kind: kind::NEW_FILTER, ..Header::default() };
        let bytes = message(header, |w| {
            TcHead { handle, info: 5 << 16 | 8, ..asked }.write(w);
            w.text(1, kind);
            w.nest(2, f);
        });
        snapshot.take(&messages(&bytes).next().expect("a message"), asked);
    };
    let action = |kind: &'static str| {
        move |w: &mut Writer| {
            w.nest(2, |w| {
                w.nest(1, |w| {
                    w.text(1, kind);
                    w.nest(2, |w| w.nest(2, |w| w.put_all(&[4, 0, 2, 1, 1])));
                });
            });
        }
    };
    filter("cgroup", 1, &|_| {});
    filter("matchall", 2, &action("connmark"));
    filter("matchall", 3, &action("gact"));
    filter("matchall", 4, &|w| w.u32(99, 1));
    let copied = snapshot.lines("lan", &mut |_| None);
    assert_eq!(
        copied.left_out,
        [
            "filter 0x1 of 1:, priority 5: there is no filter cgroup here",
            "filter 0x2 of 1:, priority 5: there is no action connmark here",
            "filter 0x4 of 1:, priority 5: matchall: there is no attribute 99 of 4 bytes here",
        ]
    );
    assert_eq!(
        texts(&copied.steps_from_nothing()),
        ["filter add dev lan parent 1: protocol 0x0800 prio 5 handle 0x3 matchall action gact drop index 4"]
    );
}

/// Takes a message about an object of a kind, with these options.
fn object(snapshot: &mut Snapshot, head: TcHead, name: &str, options: &[u8]) {
    let header = Header { kind: kind::NEW_QDISC, ..Header::default() };
    let bytes = message(header, |w| {
        head.write(w);
        w.text(1, name);
        w.bytes(2, options);
        w.u8(12, 0);
    });
    let asked = TcHead { link: 2, ..TcHead::default() };
    snapshot.take(&messages(&bytes).next().expect("a message"), asked);
}

#[test]
fn the_reason_is_named_where_nothing_is_copied() {
    let mut snapshot = Snapshot::default();
    let root = TcHead { link: 2, handle: 0x10_0000, parent: u32::MAX, info: 2 };
    object(&mut snapshot, root, "teql0", &[]);
    let mut options = Writer::default();
    options.u32(99, 1);
    object(
        &mut snapshot,
        TcHead { handle: 0x20_0000, parent: 0x10_0001, ..root },
        "fq_codel",
        &options.finish(),
    );
    object(&mut snapshot, TcHead { handle: 0x30_0000, parent: 0x10_0002, ..root }, "tbf", &[9, 0, 1, 0]);
    object(&mut snapshot, TcHead { link: 3, handle: 0x40_0000, ..root }, "pfifo", &[7, 0, 0, 0]);
    // The kernel's own first qdisc has no handle.
    object(&mut snapshot, TcHead { handle: 0, ..root }, "noqueue", &[]);
    let copied = snapshot.lines("lan", &mut |_| None);
    assert!(copied.is_empty());
    assert_eq!(
        copied.left_out,
        [
            "qdisc 10:: there is no kind teql0 here",
            "qdisc 20: of 10:1: fq_codel: there is no attribute 99 of 4 bytes here",
            "qdisc 30: of 10:2: tbf: attribute 1: expected a length of 4 to 4 bytes, given 9",
        ]
    );
    let mut own = Snapshot::default();
    object(&mut own, TcHead { handle: 0, ..root }, "mq", &[]);
    object(&mut own, TcHead { handle: 0, parent: 1, ..root }, "pfifo", &[7, 0, 0, 0]);
    let lines = texts(&own.lines("lan", &mut |_| None).steps_from_nothing());
    assert_eq!(
        lines,
        ["qdisc replace dev lan root handle 7fff: mq", "qdisc replace dev lan parent 7fff:1 pfifo limit 7"]
    );
}
