//! Messages as systemd-networkd sends them (systemd.network(5), from `[CAKE]` to
//! `[TokenBucketFilter]`): its flags, its order, only the attributes that are configured,
//! containers with the bit that says so. Each makes the state that a line of tc makes.

use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
use txweir_netlink::wire::Writer;
use txweir_netlink::{Client, answer};
use txweir_tc::memory::Memory;

use crate::law::{SHOWS, devices, tc};

/// `NLA_F_NESTED`, which the containers of sd-netlink have.
const NESTED: u16 = 0x8000;
const OPTIONS: u16 = 2;
const ROOT: u32 = u32::MAX;
const CLSACT: u32 = 0xffff_fff1;
/// Ticks of 64 ns, the unit of times in C structs.
const TICKS_PER_US: f64 = 15.625;

/// Sends a message about an object, and returns the error number of its acknowledgement.
fn send(kind: u16, head: TcHead, name: &str, options: impl FnOnce(&mut Writer), to: &mut Memory) -> i32 {
    let flags = flag::REQUEST | flag::ACK | flag::CREATE | flag::EXCL;
    let request = message(Header { kind, flags, seq: 7, port: 0 }, |w| {
        head.write(w);
        w.text(1, name);
        options(w);
    });
    let reply = answer(&request, &mut Client::default(), to);
    let ack = messages(&reply.packets[0]).next().expect("an acknowledgement");
    assert_eq!((ack.header.kind, ack.header.seq), (kind::ERROR, 7));
    -i32::from_ne_bytes(ack.body[..4].try_into().expect("four bytes"))
}

type Options = fn(&mut Writer);

/// Containers of attributes.
fn nested(w: &mut Writer, f: Options) {
    w.nest(OPTIONS | NESTED, f);
}

/// `struct tc_ratespec` of Ethernet for packets of up to 1600 bytes in cells of 8, and its table.
fn ratespec(rate: u32) -> (Vec<u8>, Vec<u8>) {
    let mut spec = Writer::default();
    spec.put(&[3, 1, 0, 0, 0xff, 0xff, 0, 0]);
    spec.put_all(&[rate]);
    let mut table = Writer::default();
    (1..=256).for_each(|cell| table.put_all(&[ticks(cell * 8, rate)]));
    (spec.finish(), table.finish())
}

fn ticks(bytes: u32, rate: u32) -> u32 {
    (f64::from(bytes) * 1e6 / f64::from(rate) * TICKS_PER_US) as u32
}

/// The kind, its options, and the options of tc that say the same.
const QDISCS: [(&str, Options, &str); 17] = [
    ("bfifo", |w| w.bytes(OPTIONS, &1_000_000u32.to_ne_bytes()), "limit 1000000"),
    ("pfifo", |w| w.bytes(OPTIONS, &100_000u32.to_ne_bytes()), "limit 100000"),
    ("pfifo_head_drop", |w| w.bytes(OPTIONS, &1023u32.to_ne_bytes()), "limit 1023"),
    (
        "fq_codel",
        |w| {
            nested(w, |w| {
                w.u32(2, 20_480);
                w.u32(5, 2048);
                w.u32(6, 1400);
                w.u32(4, 1);
                w.u32(1, 10_000);
                w.u32(3, 50_000);
                w.u32(7, 100_000);
                w.u32(9, 64 << 20);
            });
        },
        "limit 20480 flows 2048 quantum 1400 ecn target 10ms interval 50ms ce_threshold 100ms memory_limit 64Mb",
    ),
    (
        "codel",
        |w| {
            nested(w, |w| {
                w.u32(2, 2000);
                w.u32(3, 50_000);
                w.u32(1, 10_000);
                w.u32(4, 1);
            });
        },
        "limit 2000 interval 50ms target 10ms ecn",
    ),
    ("pie", |w| nested(w, |w| w.u32(2, 200_000)), "limit 200000"),
    ("fq_pie", |w| nested(w, |w| w.u32(1, 200_000)), "limit 200000"),
    ("hhf", |w| nested(w, |w| w.u32(1, 1022)), "limit 1022"),
    (
        "fq",
        |w| {
            nested(w, |w| {
                w.u32(1, 1000);
                w.u32(2, 200);
                w.u32(3, 1500);
                w.u32(4, 13_000);
                w.u32(7, 125_000);
                w.u32(8, 9);
                w.u32(10, 511);
                w.u32(5, 1);
                w.u32(12, 100_000);
            });
        },
        "limit 1000 flow_limit 200 quantum 1500 initial_quantum 13000 maxrate 1mbit buckets 512 \
         orphan_mask 511 pacing ce_threshold 100ms",
    ),
    (
        "cake",
        |w| {
            nested(w, |w| {
                w.u32(9, 1);
                w.u64(2, 62_500_000);
                w.u32(6, 128);
                w.u32(14, 20);
                w.u32(5, 7);
                w.u32(11, 1);
                w.u32(3, 2);
                w.u32(13, 0);
                w.u32(17, 1);
                w.u32(7, 1_000_000);
                w.u32(16, 2);
            });
        },
        "bandwidth 500mbit autorate-ingress overhead 128 mpu 20 triple-isolate nat diffserv8 nowash \
         split-gso rtt 1s ack-filter-aggressive",
    ),
    (
        "netem",
        |w| {
            // latency, limit, loss, gap, duplicate, jitter
            let (delay, jitter) = ((50_000.0 * TICKS_PER_US) as u32, (10_000.0 * TICKS_PER_US) as u32);
            let mut all = Writer::default();
            all.put_all(&[delay, 100, (u64::from(u32::MAX) / 5) as u32, 0, 0, jitter]);
            w.bytes(OPTIONS, &all.finish());
        },
        "delay 50ms 10ms limit 100 loss 20%",
    ),
    (
        "tbf",
        |w| {
            nested(w, |w| {
                let (spec, table) = ratespec(125_000);
                let mut all = Writer::default();
                all.put(&spec);
                all.put(&[0; 12]);
                all.put_all(&[125_000 / 10 + 5000, ticks(5000, 125_000), 0]);
                w.bytes(1, &all.finish());
                w.u32(6, 5000);
                w.bytes(2, &table);
            });
        },
        "rate 1mbit burst 5000b latency 100ms",
    ),
    (
        "sfq",
        |w| {
            // Only the period of a `struct tc_sfq_qopt_v1` is set.
            let mut all = vec![0; 72];
            all[4..8].copy_from_slice(&5u32.to_ne_bytes());
            w.bytes(OPTIONS, &all);
        },
        "perturb 5",
    ),
    (
        "ets",
        |w| {
            nested(w, |w| {
                w.u8(1, 10);
                w.u8(2, 3);
                w.nest(3 | NESTED, |w| [300, 600, 900].iter().for_each(|n| w.u32(4, *n)));
                w.nest(5 | NESTED, |w| [3, 2, 1].iter().for_each(|n| w.u8(6, *n)));
            });
        },
        "bands 10 strict 3 quanta 300 600 900 priomap 3 2 1",
    ),
    ("drr", |w| nested(w, |_| {}), ""),
    ("qfq", |w| nested(w, |_| {}), ""),
    (
        "htb",
        |w| {
            nested(w, |w| {
                let mut all = Writer::default();
                all.put_all(&[3, 10, 0x30, 0, 0]);
                w.bytes(2, &all.finish());
            });
        },
        "default 30",
    ),
];

fn shown(devices: &mut Memory) -> [String; 2] {
    SHOWS.map(|show| tc(show, devices).1)
}

#[test]
fn networkds_qdiscs_are_those_of_tc() {
    for (name, options, words) in QDISCS {
        let (mut one, mut other) = (devices(1), devices(1));
        let head = TcHead { link: 2, handle: 0x3a_0000, parent: ROOT, info: 0 };
        assert_eq!(send(kind::NEW_QDISC, head, name, options, &mut one), 0, "{name}");
        let line = format!("qdisc add dev lan root handle 3a: {name} {words}");
        assert_eq!(tc(&line, &mut other).0, 0, "{line}");
        assert_eq!(shown(&mut one), shown(&mut other), "{line}");
        // It takes the answer for one that is there already (EEXIST) as done.
        assert_eq!(send(kind::NEW_QDISC, head, name, options, &mut one), 17, "{name}");
    }
    // The hooks have a parent and a handle of their own, and no options.
    for name in ["clsact", "ingress"] {
        let (mut one, mut other) = (devices(1), devices(1));
        let head = TcHead { link: 2, handle: 0xffff_0000, parent: CLSACT, info: 0 };
        assert_eq!(send(kind::NEW_QDISC, head, name, |_| {}, &mut one), 0, "{name}");
        tc(&format!("qdisc add dev lan {name}"), &mut other);
        assert_eq!(shown(&mut one), shown(&mut other), "{name}");
    }
    // Kinds that are not here are refused, and its log names them.
    for name in ["gred", "teql0"] {
        let head = TcHead { link: 2, handle: 0x3a_0000, parent: ROOT, info: 0 };
        let errno = send(kind::NEW_QDISC, head, name, |_| {}, &mut devices(1));
        assert!(!matches!(errno, 0 | 17), "{name} {errno}");
    }
}

#[test]
fn networkds_classes_are_those_of_tc() {
    let htb: Options = |w| {
        nested(w, |w| {
            let ((rate, rtab), (ceil, ctab)) = (ratespec(1_000_000), ratespec(500_000));
            let mut all = Writer::default();
            all.put(&rate);
            all.put(&ceil);
            all.put_all(&[ticks(1600, 1_000_000), ticks(1600, 500_000), 0, 0, 1]);
            w.bytes(1, &all.finish());
            w.bytes(4, &rtab);
            w.bytes(3, &ctab);
        });
    };
    for (name, options, words) in [
        ("htb", htb, "prio 1 rate 8mbit ceil 4mbit burst 1600 cburst 1600"),
        ("drr", |w| nested(w, |w| w.u32(1, 2000)), "quantum 2000"),
        (
            "qfq",
            |w| {
                nested(w, |w| {
                    w.u32(1, 2);
                    w.u32(2, 16_000);
                });
            },
            "weight 2 maxpkt 16000",
        ),
    ] {
        let (mut one, mut other) = (devices(1), devices(1));
        for devices in [&mut one, &mut other] {
            assert_eq!(tc(&format!("qdisc add dev lan root handle 2: {name}"), devices).0, 0, "{name}");
        }
        let head = TcHead { link: 2, handle: 0x2_0030, parent: ROOT, info: 0 };
        // networkd has the root of the device for a class without `Parent=`, and tc the qdisc.
        assert_eq!(send(kind::NEW_CLASS, head, name, options, &mut one), 0, "{name}");
        let line = format!("class add dev lan root classid 2:30 {name} {words}");
        assert_eq!(tc(&line, &mut other).0, 0, "{line}");
        assert_eq!(shown(&mut one), shown(&mut other), "{line}");
    }
}
