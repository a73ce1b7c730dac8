//! The law of filters and actions: each line recorded from Linux that is accepted makes a filter or
//! an action whose message, sent back as a request, makes the same again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use txweir_core::Env;
use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
use txweir_netlink::wire::Writer;
use txweir_netlink::{Client, Told, Watch, answer};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Devices, Request, run};

pub fn devices() -> Memory {
    let device = |name| MemoryDevice::new(name, 1, Env::default());
    let mut devices = Memory::default().with(device("lan")).with(device("wan"));
    assert_eq!(tc("qdisc add dev lan root handle 1: prio", &mut devices).0, 0);
    // Numbers are given in the order in which they are asked for.
    assert_eq!(["lan", "wan"].map(|name| devices.port(name).map(|port| port.0)), [Some(1), Some(2)]);
    devices
}

/// Runs a line, in which single quotes join words.
pub fn tc(line: &str, devices: &mut Memory) -> (u8, String) {
    let mut args = vec![String::new()];
    for (part, text) in line.split('\'').enumerate() {
        let mut pieces = if part % 2 == 0 { text.split(' ').collect() } else { vec![text] }.into_iter();
        let last = args.last_mut().expect("one word at least");
        last.push_str(pieces.next().unwrap_or(""));
        args.extend(pieces.map(String::from));
    }
    args.retain(|word| !word.is_empty());
    let done = run(&Request { args, ..Request::default() }, devices);
    (done.status, done.stdout)
}

/// Asks, and returns the answers without acknowledgements and ends.
fn ask(header: Header, f: impl FnOnce(&mut Writer), devices: &mut Memory) -> Vec<(Header, Vec<u8>)> {
    let request = message(header, f);
    let reply = answer(&request, &mut Client::default(), devices);
    let all = reply.packets.iter().flat_map(|p| messages(p).map(|m| (m.header, m.body.to_vec())));
    all.filter(|(header, _)| !matches!(header.kind, kind::DONE | kind::ERROR)).collect()
}

/// Sends a message as a request, and returns the error number and the text.
fn make(kind: u16, body: &[u8], devices: &mut Memory) -> (i32, String) {
    let flags = 1 | flag::ACK | flag::CREATE;
    let request = message(Header { kind, flags, seq: 3, port: 0 }, |w| w.put(body));
    let mut client = Client::default();
    client.take(Told::ExtAck(true));
    client.take(Told::CapAck(true));
    let reply = answer(&request, &mut client, devices);
    let ack = messages(&reply.packets[0]).next().expect("an acknowledgement");
    let errno = -i32::from_ne_bytes(ack.body[..4].try_into().expect("four bytes"));
    (errno, String::from_utf8_lossy(&ack.body[20..]).into_owned())
}

/// Returns the lines of all recordings that begin with these words.
fn lines(begin: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux");
    let mut all = Vec::new();
    let files: BTreeSet<_> = fs::read_dir(folder).expect("files").flatten().map(|e| e.path()).collect();
    for file in files {
        let text = fs::read_to_string(&file).expect("a transcript");
        let found = text.lines().filter_map(|line| line.strip_prefix("$ tc "));
        all.extend(found.filter(|line| line.starts_with(begin)).map(String::from));
    }
    all
}

const SHOW: &str = "filter show dev lan parent 1:";

#[test]
fn a_filter_makes_itself_again() {
    let (mut made, mut kinds) = (0, BTreeSet::new());
    // Lines that the recordings lack.
    const MORE: [&str; 2] = [
        "filter add dev lan parent 1: protocol ip prio 1 u32 match mark 5 0xff classid 1:1",
        "filter add dev lan parent 1: protocol ip prio 1 matchall action goto chain 7",
    ];
    let more = MORE.map(String::from);
    for line in lines("filter add dev lan parent 1: ").into_iter().chain(more) {
        let (mut from, mut to) = (devices(), devices());
        if tc(&line, &mut from).0 != 0 {
            continue;
        }
        let dump = Header { kind: kind::GET_FILTER, flags: 1 | flag::DUMP, seq: 1, port: 0 };
        let place = TcHead { link: 2, parent: 0x1_0000, ..TcHead::default() };
        let listed = ask(dump, |w| place.write(w), &mut from);
        for (header, body) in &listed {
            let (head, _) = TcHead::read(body).expect("a head");
            // The table of a priority, and the root of u32, are made with the first filter.
            if head.handle == 0 || head.handle == 0x8000_0000 {
                continue;
            }
            let (errno, said) = make(header.kind, body, &mut to);
            assert_eq!(errno, 0, "{line}: {said}");
        }
        assert_eq!(tc(SHOW, &mut to).1, tc(SHOW, &mut from).1, "{line}");
        kinds.extend(tc(SHOW, &mut from).1.split(' ').nth(5).map(String::from));
        made += 1;
    }
    println!("{made} filters of {kinds:?}");
    assert!(made >= 450 && kinds.len() >= 7, "{made} {kinds:?}");
}

#[test]
fn an_action_makes_itself_again() {
    let (mut made, mut kinds) = (0, BTreeSet::new());
    for line in lines("actions add action ") {
        let (mut from, mut to) = (devices(), devices());
        if tc(&line, &mut from).0 != 0 {
            continue;
        }
        for kind in txweir_core::classify::action::KINDS {
            let show = format!("actions ls action {kind}");
            let shown = tc(&show, &mut from).1;
            let indices: Vec<u32> = from.filters().actions.of_kind(kind).map(|(_, e)| e.index).collect();
            for index in indices {
                let get = Header { kind: kind::GET_ACTION, flags: 1, seq: 1, port: 0 };
                let got = ask(
                    get,
                    |w| {
                        w.put(&[0; 4]);
                        w.nest(1, |w| {
                            w.nest(1, |w| {
                                w.text(1, kind);
                                w.u32(3, index);
                            });
                        });
                    },
                    &mut from,
                );
                for (_, body) in &got {
                    let (errno, said) = make(kind::NEW_ACTION, body, &mut to);
                    assert_eq!(errno, 0, "{line}: {said}");
                    kinds.insert(*kind);
                    made += 1;
                }
            }
            assert_eq!(tc(&show, &mut to).1, shown, "{line}");
        }
    }
    println!("{made} actions of {kinds:?}");
    assert!(made >= 100 && kinds.len() == txweir_core::classify::action::KINDS.len(), "{made} {kinds:?}");
}

/// A malformed or unknown attribute is named.
#[test]
fn a_refusal_names_the_attribute_and_the_range() {
    let filter = |name: &str, options: &dyn Fn(&mut Writer)| {
        let mut w = Writer::default();
        TcHead { link: 2, parent: 0x1_0000, info: 0x1_0008, ..TcHead::default() }.write(&mut w);
        w.text(1, name);
        w.nest(2, options);
        make(kind::NEW_FILTER, &w.finish(), &mut devices())
    };
    let is = |(errno, said): (i32, String), number: i32, text: &str| {
        assert_eq!(errno, number, "{said}");
        assert!(said.contains(text), "{said}");
    };
    is(filter("u32", &|w| w.u32(77, 1)), 95, "u32: there is no attribute 77 of 4 bytes here");
    is(filter("u32", &|w| w.bytes(5, &[0; 7])), 22, "u32: the selector: expected 16 bytes, given 7");
    is(
        filter("u32", &|w| w.bytes(5, &[0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        22,
        "expected 48 bytes",
    );
    // In Linux a filter of u32 decides only by the first bit of its selector, which tc sends.
    let one_key = |flags: u8| [&[flags, 0, 1, 0][..], &[0; 28]].concat();
    for number in [1, 6, 7] {
        let decides = filter("u32", &|w| {
            w.bytes(number, &[0; 4]);
            w.bytes(5, &one_key(0));
        });
        is(decides, 95, "u32: a filter with a class or actions needs the flag TC_U32_TERMINAL (1)");
    }
    for flags in [0, 1] {
        is(filter("u32", &|w| w.bytes(5, &one_key(flags))), 0, "");
    }
    let terminal = filter("u32", &|w| {
        w.u32(1, 0x1_0001);
        w.bytes(5, &one_key(1));
    });
    is(terminal, 0, "");
    is(filter("flow", &|w| w.u32(1, 1 << 18)), 22, "flow: expected keys of bits 0 to 17, given 0x40000");
    is(filter("flower", &|w| w.u32(96, 1)), 95, "flower: there is no attribute 96 of 4 bytes here");
    is(filter("flower", &|w| w.u8(24, 8)), 22, "flower: vlan_prio: expected a number up to 7, given 8");
    is(
        filter("flower", &|w| w.u16(8, 0xdd86)),
        95,
        "the ethertype 0x86dd goes with a filter of that protocol",
    );
    is(filter("matchall", &|w| w.u32(3, 64)), 22, "matchall: expected flags of 0 to 31, given 64");
    is(filter("bpf", &|w| w.bytes(5, &[0; 7])), 22, "bpf: expected 0 instructions of 8 bytes");
    let action = |name: &'static str, options: &'static dyn Fn(&mut Writer)| {
        filter("matchall", &move |w| {
            w.nest(2, |w| {
                w.nest(1, |w| {
                    w.text(1, name);
                    w.nest(2, options);
                });
            });
        })
    };
    is(action("gact", &|_| {}), 22, "action gact: attribute 2, its parameters, is missing");
    is(action("mirred", &|w| w.bytes(2, &[9; 28])), 22, "action mirred: expected an action of 1 to 4");
    // A mirror to link 9 and to block 22; to block 0.
    let both = action("mirred", &|w| {
        w.bytes(2, &[&[0; 20][..], &[2, 0, 0, 0, 9, 0, 0, 0]].concat());
        w.u32(4, 22);
    });
    is(both, 22, "action mirred: expected a link or a block, given link 9 and block 22");
    let none = action("mirred", &|w| {
        w.bytes(2, &[&[0; 20][..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat());
        w.u32(4, 0);
    });
    is(none, 22, "block cannot be 0");
    is(action("csum", &|w| w.bytes(1, &[255; 24])), 22, "action csum: expected bits of 1 to 127");
    is(action("vlan", &|w| w.bytes(9, &[0; 4])), 95, "action vlan: there is no attribute 9 of 4 bytes here");
}

#[test]
fn notifications_are_of_filters_chains_and_actions_too() {
    let mut devices = devices();
    let mut watch = Watch::default();
    watch.look(&mut devices);
    let mut told = |line: &str| -> Vec<u16> {
        assert_eq!(tc(line, &mut devices).0, 0, "{line}");
        let packets = watch.look(&mut devices);
        packets.iter().flat_map(|p| messages(p).map(|m| m.header.kind)).collect()
    };
    let filter = "filter add dev lan parent 1: protocol ip prio 1 matchall classid 1:1 action pass";
    assert_eq!(told(filter), [kind::NEW_CHAIN, kind::NEW_FILTER]);
    assert_eq!(told("filter show dev lan"), []);
    assert_eq!(told("filter del dev lan parent 1: prio 1"), [kind::DEL_FILTER, kind::DEL_CHAIN]);
    assert_eq!(told("chain add dev lan parent 1: chain 5"), [kind::NEW_CHAIN]);
    assert_eq!(told("actions add action drop index 4"), [kind::NEW_ACTION]);
    assert_eq!(told("actions replace action pass index 4"), [kind::NEW_ACTION]);
    assert_eq!(told("actions del action gact index 4"), [kind::DEL_ACTION]);
}

/// tbf, as each qdisc of one class, has it by any number: a program that names 1:7 means it.
#[test]
fn the_only_class_has_any_number() {
    let mut devices = devices();
    let line = "qdisc replace dev wan root handle 1: tbf rate 1mbit burst 10k limit 10k";
    assert_eq!(tc(line, &mut devices).0, 0);
    let mut w = Writer::default();
    TcHead { link: 3, handle: 0x20_0000, parent: 0x1_0007, info: 0 }.write(&mut w);
    w.text(1, "pfifo");
    assert_eq!(make(kind::NEW_QDISC, &w.finish(), &mut devices), (0, String::new()));
    let (_, shown) = tc("qdisc show dev wan", &mut devices);
    assert!(shown.contains("qdisc pfifo 20: parent 1:"), "{shown}");
}
