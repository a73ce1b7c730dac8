//! Laws of messages: a listing, sent back as requests, makes the same again; any bytes are
//! answered without a panic, and a refused request changes nothing.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use txweir_core::Env;
use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
use txweir_netlink::{Client, Told, Watch, answer};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Request, run, save};

/// Returns a device with this number of queues.
pub fn devices(queues: u32) -> Memory {
    Memory::new(&[]).with(MemoryDevice::new("lan", queues, Env { memory: 64 << 20, ..Env::default() }))
}

pub fn tc(line: &str, devices: &mut Memory) -> (u8, String) {
    let args = line.split_whitespace().map(String::from).collect();
    let done = run(&Request { args, ..Request::default() }, devices);
    (done.status, done.stdout)
}

/// Asks for a listing, and returns its messages without the end.
fn list(kind: u16, devices: &mut Memory) -> Vec<(Header, Vec<u8>)> {
    let header = Header { kind, flags: 1 | flag::DUMP, seq: 1, port: 0 };
    let request = message(header, |w| TcHead { link: 2, ..TcHead::default() }.write(w));
    let reply = answer(&request, &mut Client::default(), devices);
    let all = reply.packets.iter().flat_map(|packet| messages(packet).map(|m| (m.header, m.body.to_vec())));
    let all: Vec<(Header, Vec<u8>)> = all.collect();
    assert_eq!(all.last().map(|(header, _)| header.kind), Some(kind::DONE));
    assert!(all.iter().all(|(header, _)| header.flags & flag::MULTI != 0 && header.seq == 1));
    all[..all.len() - 1].to_vec()
}

/// Sends a message of a listing as a request, and returns the error number.
fn make(header: Header, body: &[u8], devices: &mut Memory) -> i32 {
    let flags = 1 | flag::ACK | flag::CREATE | if header.kind == kind::NEW_CLASS { 0 } else { flag::REPLACE };
    let request = message(Header { flags, ..header }, |w| w.put(body));
    let mut client = Client::default();
    client.take(Told::ExtAck(true));
    let reply = answer(&request, &mut client, devices);
    let ack = messages(&reply.packets[0]).next().expect("an acknowledgement");
    assert_eq!((ack.header.kind, ack.header.seq), (kind::ERROR, header.seq));
    -i32::from_ne_bytes(ack.body[..4].try_into().expect("four bytes"))
}

pub const SHOWS: [&str; 2] = ["-d qdisc show dev lan", "class show dev lan"];

/// Every transcript: its qdiscs and classes are listed in messages, which make them again on
/// another device.
#[test]
fn a_listing_makes_the_same_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc");
    let mut kinds = 0;
    for file in fs::read_dir(folder).expect("transcripts").flatten().map(|entry| entry.path()) {
        let kind = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // This one is txweir's own, and the other file is no transcript of a kind.
        if !file.is_file() || matches!(kind.as_str(), "rough" | "options-differ") {
            continue;
        }
        let queues = if matches!(kind.as_str(), "mq" | "mqprio" | "multiq" | "taprio") { 4 } else { 1 };
        let mut from = devices(queues);
        let text = fs::read_to_string(&file).expect("a transcript");
        let mut compared = 0;
        for line in text.lines().filter_map(|line| line.strip_prefix("$ tc ")) {
            // Options of txweir's own have no attribute.
            let own = ["tcpctl", "shared", "filter", "--", "mode dcb"];
            // As in Linux, a listing lacks the table of an idle queue, and that of a distribution.
            let lacks = ["red ", "choke ", "distribution ", " vq "];
            if lacks.iter().chain(&own).any(|word| line.contains(word)) || tc(line, &mut from).0 != 0 {
                continue;
            }
            // A limit that is given bounds the flows of sfq, and a listing gives it.
            let shown = |devices: &mut Memory| {
                SHOWS.map(|show| without_gains(&tc(show, devices).1.replace("flows 128 ", "flows 127 ")))
            };
            let before = shown(&mut from);
            let mut to = devices(queues);
            again(&mut from, &mut to, line);
            assert_eq!(shown(&mut to), before, "after {line}");
            compared += 1;
        }
        kinds += usize::from(compared > 0);
    }
    assert!(kinds >= 20, "{kinds}");
}

/// Returns a listing without the gains of dualpi2: as in Linux, those that are kept are listed, and
/// lose a little when they are given again.
fn without_gains(text: &str) -> String {
    let gain = |word: &&str| matches!(*word, "alpha" | "beta");
    let mut words = text.split(' ');
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        match text.contains("qdisc dualpi2") && gain(&word) {
            true => drop(words.next()),
            false => left.push(word),
        }
    }
    left.join(" ")
}

/// Makes the qdiscs and classes of a device on another one: each once its parent is there.
fn again(from: &mut Memory, to: &mut Memory, line: &str) {
    let qdiscs = list(kind::GET_QDISC, from);
    let classes = list(kind::GET_CLASS, from);
    let handle = |body: &[u8]| TcHead::read(body).expect("a head").0;
    // Default qdiscs have no handle, and no one makes them.
    let mut left: Vec<(Header, Vec<u8>)> =
        qdiscs.into_iter().chain(classes).filter(|(_, body)| handle(body).handle != 0).collect();
    let mut why = Vec::new();
    for _ in 0..8 {
        why.clear();
        left.retain(|(header, body)| {
            let errno = make(*header, body, to);
            // Classes that come with their qdisc are not made, and may not be changed.
            let comes_along = header.kind == kind::NEW_CLASS && matches!(errno, 95 | 22);
            if errno != 0 {
                why.push((header.kind, handle(body), errno));
            }
            errno != 0 && !comes_along
        });
    }
    assert!(left.is_empty(), "after {line}: {why:?}");
}

#[test]
fn notifications_are_what_has_changed() {
    let mut devices = devices(1);
    let mut watch = Watch::default();
    assert_eq!(watch.look(&mut devices).len(), 1, "the first look sees all");
    assert!(watch.look(&mut devices).is_empty());
    let kinds = |packets: &[Vec<u8>]| -> Vec<u16> {
        packets.iter().flat_map(|p| messages(p).map(|m| m.header.kind)).collect()
    };
    assert_eq!(tc("qdisc add dev lan root handle 1: prio bands 4", &mut devices).0, 0);
    let seen = kinds(&watch.look(&mut devices));
    assert_eq!(seen, [vec![kind::DEL_QDISC, kind::NEW_QDISC], vec![kind::NEW_CLASS; 4]].concat());
    assert_eq!(tc("qdisc change dev lan root handle 1: prio bands 5", &mut devices).0, 0);
    assert_eq!(kinds(&watch.look(&mut devices)), [kind::NEW_QDISC, kind::NEW_CLASS]);
}

#[test]
fn an_acknowledgement_is_as_long_as_the_client_wants() {
    let mut devices = devices(1);
    let header = Header { kind: kind::NEW_QDISC, flags: 1 | flag::ACK, seq: 9, port: 0 };
    let request = message(header, |w| TcHead { link: 77, ..TcHead::default() }.write(w));
    let mut client = Client::default();
    client.take(Told::Port(4711));
    let plain = answer(&request, &mut client, &mut devices).packets.remove(0);
    let read = |packet: &[u8]| messages(packet).next().map(|m| (m.header.flags, m.header.port, m.body.len()));
    assert_eq!(read(&plain), Some((0, 4711, 4 + 36)));
    client.take(Told::ExtAck(true));
    client.take(Told::CapAck(true));
    let short = answer(&request, &mut client, &mut devices).packets.remove(0);
    let text = b"there is no link with the number 77\0";
    assert_eq!(read(&short), Some((flag::CAPPED | flag::ACK_TLVS, 4711, 4 + 16 + 4 + text.len())));
    assert!(short.windows(text.len()).any(|part| part == text));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    /// Bytes behind the head of a message of any type.
    #[test]
    fn any_bytes_are_answered(
        kind in prop_oneof![16u16..=18, 36u16..=50, 44u16..=50, 100u16..=102, any::<u16>()],
        flags in any::<u16>(),
        name in prop::sample::select(vec!["tbf", "red", "netem", "cake", "mqprio", "sfq", "ets", "htb", "fq",
            "taprio", "dualpi2", "u32", "flower", "basic", "bpf", "flow", "fw", "matchall", "x"]),
        info in prop::sample::select(vec![0u32, 0x1_0008, 0x2_0300, 0x3_0081]),
        options in prop::collection::vec(any::<u8>(), 0..120),
        parent in prop::sample::select(vec![u32::MAX, 0, 0x1_0000, 0x1_0001, 0xffff_fff1]),
    ) {
        let mut devices = devices(1);
        prop_assert_eq!(tc("qdisc add dev lan root handle 1: prio", &mut devices).0, 0);
        let before = save(&mut devices);
        let packet = message(Header { kind, flags, seq: 1, port: 0 }, |w| {
            TcHead { link: 2, handle: 0x1_0000, parent, info }.write(w);
            w.text(1, name);
            w.bytes(2, &options);
        });
        let reply = answer(&packet, &mut Client::default(), &mut devices);
        if reply.changes.iter().all(|change| !change.is_done) {
            prop_assert_eq!(save(&mut devices), before);
        }
    }

    /// Bytes as the options of an action, alone and in a filter.
    #[test]
    fn any_options_of_an_action_are_answered(
        name in prop::sample::select(txweir_core::classify::action::KINDS.to_vec()),
        number in 1u16..12,
        options in prop::collection::vec(any::<u8>(), 0..90),
        in_filter in any::<bool>(),
    ) {
        let mut devices = devices(1);
        prop_assert_eq!(tc("qdisc add dev lan root handle 1: prio", &mut devices).0, 0);
        let before = save(&mut devices);
        let list = |w: &mut txweir_netlink::wire::Writer| w.nest(1, |w| {
            w.text(1, name);
            // The C struct of most kinds, and another attribute.
            w.nest(2, |w| {
                w.bytes(number, &options);
                w.bytes(2, &options);
            });
        });
        let header = |kind| Header { kind, flags: 0x601, seq: 1, port: 0 };
        let packet = match in_filter {
            true => message(header(kind::NEW_FILTER), |w| {
                TcHead { link: 2, handle: 0, parent: 0x1_0000, info: 0x1_0008 }.write(w);
                w.text(1, "matchall");
                w.nest(2, |w| w.nest(2, list));
            }),
            false => message(header(kind::NEW_ACTION), |w| {
                w.put(&[0; 4]);
                w.nest(1, list);
            }),
        };
        let reply = answer(&packet, &mut Client::default(), &mut devices);
        if reply.changes.iter().all(|change| !change.is_done) {
            prop_assert_eq!(save(&mut devices), before);
        }
    }
}
