//! A policy that is followed: the listings of one device, as lines, make it on another one, and
//! lead from each of its states to the next.

use std::fs;
use std::path::Path;

use txweir_netlink::follow::{Copied, Snapshot, Step};
use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
use txweir_netlink::wire::Writer;
use txweir_netlink::{Client, answer};
use txweir_tc::memory::Memory;

use crate::law::{SHOWS, devices, tc};

/// Returns the state of the link of a device, from its listings.
fn state(devices: &mut Memory) -> Copied {
    let mut snapshot = Snapshot::default();
    for kind in [kind::GET_QDISC, kind::GET_CLASS] {
        let header = Header { kind, flags: flag::REQUEST | flag::DUMP, seq: 1, port: 0 };
        let request = message(header, |w| TcHead { link: 2, ..TcHead::default() }.write(w));
        for packet in answer(&request, &mut Client::default(), devices).packets {
            messages(&packet).for_each(|one| snapshot.take(&one, 2));
        }
    }
    snapshot.lines("lan")
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

/// Takes a message about an object of a kind, with these options.
fn object(snapshot: &mut Snapshot, head: TcHead, name: &str, options: &[u8]) {
    let header = Header { kind: kind::NEW_QDISC, ..Header::default() };
    let bytes = message(header, |w| {
        head.write(w);
        w.text(1, name);
        w.bytes(2, options);
        w.u8(12, 0);
    });
    snapshot.take(&messages(&bytes).next().expect("a message"), 2);
}

#[test]
fn the_reason_is_named_where_nothing_is_copied() {
    let mut snapshot = Snapshot::default();
    let root = TcHead { link: 2, handle: 0x10_0000, parent: u32::MAX, info: 2 };
    object(&mut snapshot, root, "gred", &[]);
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
    let copied = snapshot.lines("lan");
    assert!(copied.is_empty());
    assert_eq!(
        copied.left_out,
        [
            "qdisc 10:: there is no kind gred here",
            "qdisc 20: of 10:1: fq_codel: there is no attribute 99 of 4 bytes here",
            "qdisc 30: of 10:2: tbf: attribute 1: expected a length of 4 to 4 bytes, given 9",
        ]
    );
    let mut own = Snapshot::default();
    object(&mut own, TcHead { handle: 0, ..root }, "mq", &[]);
    object(&mut own, TcHead { handle: 0, parent: 1, ..root }, "pfifo", &[7, 0, 0, 0]);
    let lines = texts(&own.lines("lan").steps_from_nothing());
    assert_eq!(
        lines,
        ["qdisc replace dev lan root handle 7fff: mq", "qdisc replace dev lan parent 7fff:1 pfifo limit 7"]
    );
}
