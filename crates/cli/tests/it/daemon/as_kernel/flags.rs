//! All combinations of `NLM_F_CREATE`, `NLM_F_EXCL` and `NLM_F_REPLACE`: the same messages to the
//! rtnetlink of the real kernel, in a network namespace, and to that of the daemon have the same
//! error number, and leave the same objects behind.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use txweir_device::testnet::NetNs;
use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
use txweir_netlink::wire::{Attributes, Writer};

use super::super::{Daemon, Dir};
use super::{missing, skip_without};
use crate::common::{machine, skip_unless_possible};

const ROOT: u32 = u32::MAX;
/// The place of filters of the first qdisc.
const FIRST: u32 = 0x1_0000;
const IPV4: u16 = 0x0800;

/// A message: its type, its flags, and the rest.
#[derive(Clone, Debug)]
struct Said {
    kind: u16,
    flags: u16,
    handle: u32,
    parent: u32,
    info: u32,
    name: &'static str,
    chain: Option<u32>,
    options: fn(&mut Writer),
}

const fn said(kind: u16, flags: u16, handle: u32, parent: u32, name: &'static str) -> Said {
    Said { kind, flags, handle, parent, info: 0, name, chain: None, options: |_| {} }
}

fn prio(prio: u16, protocol: u16) -> u32 {
    u32::from(prio) << 16 | u32::from(protocol.to_be())
}

/// One side: a socket, and the number of the device there.
struct Side {
    socket: OwnedFd,
    link: u32,
    seq: u32,
}

impl Side {
    /// Sends a message, and returns the answers: all messages up to the acknowledgement or the end.
    fn ask(&mut self, header: Header, f: impl FnOnce(&mut Writer)) -> Vec<(u16, Vec<u8>)> {
        self.seq += 1;
        let request = message(Header { seq: self.seq, ..header }, f);
        send(&self.socket, &request, SendFlags::empty()).expect("send");
        let mut all = Vec::new();
        loop {
            let mut packet = vec![0; 64 << 10];
            let (len, _) = recv(&self.socket, &mut *packet, RecvFlags::empty()).expect("an answer");
            assert!(len > 0, "the other side has ended");
            for one in messages(&packet[..len]).filter(|one| one.header.seq == self.seq) {
                all.push((one.header.kind, one.body.to_vec()));
            }
            if all.last().is_some_and(|(kind, _)| matches!(*kind, kind::ERROR | kind::DONE)) {
                return all;
            }
        }
    }

    /// Sends a message, and returns its error number.
    fn say(&mut self, one: &Said) -> i32 {
        let header =
            Header { kind: one.kind, flags: flag::REQUEST | flag::ACK | one.flags, ..Header::default() };
        let is_action = matches!(one.kind, kind::NEW_ACTION | kind::DEL_ACTION);
        let link = self.link;
        let answers = self.ask(header, |w| {
            if is_action {
                w.put(&[0; 4]);
                w.nest(1, |w| {
                    w.nest(1, |w| {
                        w.text(1, one.name);
                        if one.kind == kind::DEL_ACTION {
                            w.u32(3, one.handle);
                        } else {
                            w.nest(2, |w| {
                                // Mirrors at ingress to the device itself.
                                w.nest(2, |w| w.put_all(&[one.handle, 0, 3, 0, 0, 4, link]));
                            });
                        }
                    });
                });
                return;
            }
            TcHead { link, handle: one.handle, parent: one.parent, info: one.info }.write(w);
            if !one.name.is_empty() {
                w.text(1, one.name);
            }
            one.chain.into_iter().for_each(|chain| w.u32(11, chain));
            (one.options)(w);
        });
        let (_, ack) = answers.last().expect("an acknowledgement");
        -i32::from_ne_bytes(ack[..4].try_into().expect("four bytes"))
    }

    /// Returns the objects that there are: type, kind, handle, parent, priority, chain.
    fn objects(&mut self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let places =
            [(kind::GET_QDISC, 0), (kind::GET_CLASS, 0), (kind::GET_FILTER, FIRST), (kind::GET_CHAIN, FIRST)];
        for (asked, parent) in places {
            let header = Header { kind: asked, flags: flag::REQUEST | flag::DUMP, ..Header::default() };
            let place = TcHead { link: self.link, parent, ..TcHead::default() };
            for (kind, body) in self.ask(header, |w| place.write(w)) {
                let Ok((head, rest)) = TcHead::read(&body) else { continue };
                let Ok(all_of) = Attributes::read(rest, "message") else { continue };
                let name = all_of.text(1, 15).ok().flatten().unwrap_or("").to_string();
                // The device's own.
                let own = matches!(&*name, "noqueue" | "pfifo_fast" | "mq") || head.link != self.link;
                if matches!(kind, kind::DONE | kind::ERROR) || own {
                    continue;
                }
                let chain = all_of.u32(11).ok().flatten();
                // Numbers that the kernel gives are of all its devices.
                let handle =
                    if head.handle >= 0x8000_0000 && head.handle & 0xffff == 0 { 0 } else { head.handle };
                // A class is shown with its leaf.
                let info = if asked == kind::GET_FILTER { head.info } else { 0 };
                all.insert(format!("{kind} {name} {handle:x} {:x} {info:x} {chain:?}", head.parent));
            }
        }
        let header =
            Header { kind: kind::GET_ACTION, flags: flag::REQUEST | flag::DUMP, ..Header::default() };
        let listed = self.ask(header, |w| {
            w.put(&[0; 4]);
            w.nest(1, |w| w.nest(1, |w| w.text(1, "mirred")));
        });
        for (_, body) in
            listed.iter().filter(|(kind, _)| matches!(*kind, kind::NEW_ACTION | kind::GET_ACTION))
        {
            let list = body.get(4..).and_then(|rest| Attributes::read(rest, "actions").ok());
            let list = list.and_then(|all| all.nested(1).ok());
            for one in list.iter().flat_map(Attributes::iter) {
                let options = Attributes::read(one.value, "action").and_then(|all| all.nested(2));
                let parms = options.ok().and_then(|all| all.record(2, 28).ok().flatten());
                all.extend(parms.map(|r| format!("action {} {}", r.u32(0), r.i32(8))));
            }
        }
        all
    }
}

/// The flags, each with its name.
const FLAGS: [(u16, &str); 3] = [(flag::CREATE, "create"), (flag::EXCL, "excl"), (flag::REPLACE, "replace")];

fn combinations() -> impl Iterator<Item = (u16, String)> {
    (0..8u16).map(|n| {
        let on: Vec<_> = FLAGS.iter().enumerate().filter(|(bit, _)| n >> bit & 1 != 0).collect();
        let names: Vec<&str> = on.iter().map(|(_, (_, name))| *name).collect();
        (on.iter().fold(0, |all, (_, (bit, _))| all | bit), names.join("+"))
    })
}

const NEW: u16 = flag::CREATE | flag::EXCL;

fn pfifo(limit: u32) -> fn(&mut Writer) {
    match limit {
        7 => |w| w.bytes(2, &7u32.to_ne_bytes()),
        _ => |w| w.bytes(2, &9u32.to_ne_bytes()),
    }
}

/// `struct tc_htb_glob` with the version 3.
fn htb(w: &mut Writer) {
    w.nest(2, |w| w.nest(2, |w| w.put_all(&[3, 10, 0, 0, 0])));
}

/// `struct tc_htb_opt` of 1 Mbit/s, with its tables.
fn htb_class(w: &mut Writer) {
    const RATE: u32 = 125_000;
    let spec = |w: &mut Writer| {
        w.put(&[3, 1, 0, 0, 0xff, 0xff, 0, 0]);
        w.put_all(&[RATE]);
    };
    w.nest(2, |w| {
        w.nest(1, |w| {
            spec(w);
            spec(w);
            w.put_all(&[200_000, 200_000, 0, 0, 0]);
        });
        for table in [3, 4] {
            w.nest(table, |w| (1..=256u32).for_each(|cell| w.put_all(&[cell * 1000])));
        }
    });
}

/// A selector that every packet meets, and a class.
fn u32_options(w: &mut Writer) {
    w.nest(2, |w| {
        w.u32(1, 0x1_0001);
        w.nest(5, |w| {
            w.put(&[1, 0, 1, 0]);
            w.put(&[0; 12]);
            w.put_all(&[0, 0, 0, 0]);
        });
    });
}

/// `ret #-1`.
fn bpf_options(w: &mut Writer) {
    w.nest(2, |w| {
        w.u32(3, 0x1_0001);
        w.u16(4, 1);
        w.bytes(5, &[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    });
}

/// The situations: a name, and the messages that make it.
fn situations() -> Vec<(&'static str, Vec<Said>)> {
    let qdisc =
        |handle, parent, name, options| Said { options, ..said(kind::NEW_QDISC, NEW, handle, parent, name) };
    let class = |handle| Said { options: htb_class, ..said(kind::NEW_CLASS, NEW, handle, 0x1_0000, "htb") };
    let filter = |handle, prio_of, name, options| Said {
        info: prio(prio_of, IPV4),
        options,
        ..said(kind::NEW_FILTER, NEW, handle, FIRST, name)
    };
    let root = || qdisc(0x1_0000, ROOT, "htb", htb as fn(&mut Writer));
    let tree = || vec![root(), class(0x1_0010), class(0x1_0020)];
    let chain = |number| Said { chain: Some(number), ..said(kind::NEW_CHAIN, NEW, 0, FIRST, "") };
    let all = vec![
        ("nothing", vec![]),
        ("pfifo", vec![qdisc(0x1_0000, ROOT, "pfifo", pfifo(7))]),
        ("htb", vec![root()]),
        ("classes", tree()),
        ("leaf", [tree(), vec![qdisc(0x10_0000, 0x1_0010, "pfifo", pfifo(7))]].concat()),
        ("filter", [tree(), vec![filter(0, 5, "u32", u32_options)]].concat()),
        ("bpf", [tree(), vec![filter(1, 5, "bpf", bpf_options)]].concat()),
        ("chain", [tree(), vec![chain(3)]].concat()),
        ("action", vec![said(kind::NEW_ACTION, NEW, 5, 0, "mirred")]),
    ];
    all
}

/// The messages that are sent in each situation, by the objects that they are about.
fn requests() -> Vec<(String, Said)> {
    let mut all: Vec<Said> = Vec::new();
    for (handle, parent) in [
        (0x1_0000, ROOT),
        (0x2_0000, ROOT),
        (0, ROOT),
        (0x1_0000, 0),
        (0x2_0000, 0),
        (0, 0),
        (0x10_0000, 0x1_0010),
        (0x11_0000, 0x1_0010),
        (0, 0x1_0010),
        (0x1_0000, 0x1_0010),
        (0, 0x1_0099),
        (0, 0x9_0000),
        (0x1_0001, ROOT),
    ] {
        for (name, options) in
            [("pfifo", pfifo(9)), ("bfifo", pfifo(9)), ("htb", htb), ("nosuch", |_| {}), ("", |_| {})]
        {
            all.push(Said { options, ..said(kind::NEW_QDISC, 0, handle, parent, name) });
        }
        for name in ["pfifo", "bfifo", ""] {
            all.push(said(kind::DEL_QDISC, 0, handle, parent, name));
        }
    }
    for (handle, parent) in [
        (0x1_0010, 0x1_0000),
        (0x1_0010, 0),
        (0x1_0010, ROOT),
        (0x1_0030, 0x1_0000),
        (0x1_0030, 0x1_0010),
        (0x1_0030, 0),
        (0x1_0010, 0x1_0020),
        (0x1_0030, 0x1_0099),
        (0, 0x1_0000),
        (0x1_0000, 0x1_0000),
        (0x9_0010, 0x9_0000),
        (0x9_0010, 0x1_0000),
    ] {
        for name in ["htb", "pfifo", ""] {
            all.push(Said { options: htb_class, ..said(kind::NEW_CLASS, 0, handle, parent, name) });
        }
        all.push(said(kind::NEW_CLASS, 0, handle, parent, "htb"));
        all.push(said(kind::DEL_CLASS, 0, handle, parent, ""));
    }
    for (handle, info) in [
        (0, prio(5, IPV4)),
        (0x8000_0800, prio(5, IPV4)),
        (0x8000_0801, prio(5, IPV4)),
        (0x801, prio(5, IPV4)),
        (1, prio(5, IPV4)),
        (2, prio(5, IPV4)),
        (0, prio(6, IPV4)),
        (1, prio(6, IPV4)),
        (0x8000_0800, prio(6, IPV4)),
        (0, prio(0, IPV4)),
        (0x8000_0800, prio(0, IPV4)),
        (0, prio(5, 0x86dd)),
        (0x8000_0800, prio(5, 0x86dd)),
        (0, prio(5, 0)),
        (0, 0),
    ] {
        for parent in [FIRST, 0, 0x1_0010, 0x1_0099, 0x9_0000] {
            let of =
                |name, options| Said { info, options, ..said(kind::NEW_FILTER, 0, handle, parent, name) };
            all.push(of("u32", u32_options));
            all.push(of("bpf", bpf_options));
            if parent == FIRST {
                all.push(of("u32", |_| {}));
                all.push(of("nosuch", |_| {}));
                all.push(of("", |_| {}));
                all.push(Said { chain: Some(3), ..of("u32", u32_options) });
                all.push(Said { chain: Some(4), ..of("u32", u32_options) });
            }
            for name in ["u32", "bpf", ""] {
                all.push(Said { info, ..said(kind::DEL_FILTER, 0, handle, parent, name) });
            }
        }
    }
    for parent in [FIRST, 0, 0x9_0000] {
        for chain in [None, Some(0), Some(3), Some(4), Some(u32::MAX)] {
            for kind in [kind::NEW_CHAIN, kind::DEL_CHAIN] {
                all.push(Said { chain, ..said(kind, 0, 0, parent, "") });
            }
        }
    }
    for index in [0, 5, 6] {
        all.push(said(kind::NEW_ACTION, 0, index, 0, "mirred"));
        all.push(said(kind::NEW_ACTION, 0, index, 0, "nosuch"));
        all.push(said(kind::DEL_ACTION, 0, index, 0, "mirred"));
    }
    let mut named = Vec::new();
    for one in all {
        let removes = matches!(
            one.kind,
            kind::DEL_QDISC | kind::DEL_CLASS | kind::DEL_FILTER | kind::DEL_CHAIN | kind::DEL_ACTION
        );
        for (flags, name) in combinations().filter(|(flags, _)| !removes || *flags == 0) {
            let options = {
                let mut w = Writer::default();
                (one.options)(&mut w);
                w.finish().len()
            };
            let text = format!(
                "type {} {:x} of {:x} info {:x} kind {:?} chain {:?} options {options} [{name}]",
                one.kind, one.handle, one.parent, one.info, one.name, one.chain
            );
            named.push((text, Said { flags, ..one.clone() }));
        }
    }
    named
}

/// True if a request is about the objects of a situation.
fn belongs(situation: &str, one: &Said) -> bool {
    let of_actions = matches!(one.kind, kind::NEW_ACTION | kind::DEL_ACTION);
    let of_filters =
        matches!(one.kind, kind::NEW_FILTER | kind::DEL_FILTER | kind::NEW_CHAIN | kind::DEL_CHAIN);
    match situation {
        "action" => of_actions,
        "filter" | "bpf" | "chain" => of_filters || one.kind == kind::DEL_CLASS,
        "nothing" => true,
        "htb" | "pfifo" => !of_actions,
        "classes" | "leaf" => {
            matches!(one.kind, kind::NEW_CLASS | kind::DEL_CLASS | kind::NEW_QDISC | kind::DEL_QDISC)
        }
        _ => false,
    }
}

/// The reason for which a message is known to have another effect.
fn known(situation: &str, one: &Said, errors: [i32; 2]) -> Option<&'static str> {
    let has_options = {
        let mut w = Writer::default();
        (one.options)(&mut w);
        !w.finish().is_empty()
    };
    match one.kind {
        // PARITY: htb-same-change.
        kind::NEW_QDISC if one.name == "htb" && errors == [22, 0] => Some("htb-same-change"),
        kind::NEW_CLASS if one.handle == FIRST => Some("Linux makes a class with the number of its qdisc"),
        kind::NEW_FILTER if !has_options && situation != "bpf" => Some("a filter of u32 without options"),
        kind::NEW_FILTER if !has_options && one.name == "u32" => Some("a filter of u32 without options"),
        // PARITY: u32-chains.
        kind::NEW_FILTER if situation == "filter" && (one.chain.is_some() || one.parent == 0x1_0010) => {
            Some("Linux has the tables of all places of a qdisc in one space")
        }
        _ => None,
    }
}

#[test]
fn flags_of_messages_mean_what_they_mean_to_linux() {
    let _machine = machine::shared();
    skip_unless_possible!();
    skip_without!("tc");
    let (dir, ns) = (Dir::new(), NetNs::new("flags"));
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink"]));
    dir.ok("link add lan");
    ns.run(&["ip", "link", "add", "lan", "type", "veth", "peer", "name", "peer"]);
    ns.run(&["ip", "link", "set", "lan", "up"]);
    let open = || {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .expect("a socket");
        bind(&socket, &SocketAddrNetlink::new(0, 0)).expect("bind");
        let link = rustix::net::netdevice::name_to_index(&socket, "lan").expect("a device");
        (socket, link)
    };
    let (socket, link) = ns.enter(open);
    let mut kernel = Side { socket, link, seq: 0 };
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket");
    let path = SocketAddrUnix::new(dir.0.join("txweir.sock.netlink")).expect("a path");
    connect(&socket, &path).expect("the daemon");
    let mut daemon = Side { socket, link: 2, seq: 0 };
    let has_htb = situations()
        .iter()
        .find(|(name, _)| *name == "filter")
        .is_some_and(|(_, made)| made.iter().all(|one| kernel.say(one) == 0));
    if !has_htb {
        println!("skipped, because this kernel has no htb or u32");
        return;
    }
    let (mut compared, mut different, mut reasons) = (0, Vec::new(), BTreeSet::new());
    for (situation, made) in situations() {
        let rows = requests().into_iter().filter(|(_, one)| belongs(situation, one));
        for (name, one) in rows {
            let mut results = Vec::new();
            for side in [&mut kernel, &mut daemon] {
                side.say(&said(kind::DEL_QDISC, 0, 0, ROOT, ""));
                side.say(&Said { flags: flag::ROOT, ..said(kind::DEL_ACTION, 0, 0, 0, "mirred") });
                for first in &made {
                    assert_eq!(side.say(first), 0, "{situation}");
                }
                let errno = side.say(&one);
                results.push((errno, side.objects()));
            }
            compared += 1;
            let reason = known(situation, &one, [results[0].0, results[1].0]);
            if results[0] != results[1] && reason.is_some() {
                reasons.extend(reason);
            } else if results[0] != results[1] {
                different.push(format!("{situation}: {name}: {:?} {:?}", results[0], results[1]));
            }
        }
    }
    println!("{compared} messages, {} different, known: {reasons:#?}", different.len());
    assert!(
        different.is_empty() && compared > 10_000,
        "{compared} {}\n{}",
        different.len(),
        different.join("\n")
    );
}
