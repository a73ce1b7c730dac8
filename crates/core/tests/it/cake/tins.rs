//! Tins: the packets of each, and its share of the rate.

use super::{T0, ms, run};
use crate::common::lane::Lane;
use txweir_core::{Handle, Meta};

#[test]
fn tins_by_mark_by_priority_and_by_dscp() {
    let mut lane = Lane::new("cake", "diffserv4 fwmark 0xf0");
    let handle = lane.root().handle();
    let named = |minor| Handle::new(handle.major(), minor).0;
    let packet = |ds: u8, mark: u32, priority: u32| {
        let mut m = Meta::new(100).priority(priority);
        (m.ds, m.mark) = (ds << 2, mark);
        m
    };
    let mut arp = packet(0, 0, 0);
    arp.protocol = 0x0806;
    for (m, tin) in [
        (packet(0, 0, 0), "Best Effort"),
        (packet(8, 0, 0), "Bulk"),
        (packet(1, 0, 0), "Bulk"),
        (packet(34, 0, 0), "Video"),
        (packet(46, 0, 0), "Voice"),
        (packet(63, 0, 0), "Best Effort"),
        (arp, "Voice"),
        (packet(46, 0x10, 0), "Bulk"),
        (packet(46, 0x2f, 0), "Best Effort"),
        (packet(0, 0x40, 0), "Voice"),
        (packet(46, 0x50, 0), "Voice"),
        (packet(46, 0x0f, 0), "Voice"),
        (packet(46, 0, named(1)), "Bulk"),
        (packet(46, 0x30, named(1)), "Video"),
        (packet(46, 0, named(5)), "Voice"),
        (packet(46, 0, 1), "Voice"),
    ] {
        let before = lane.part(tin, "sent_packets");
        lane.fill(T0, 0, 1, m);
        assert_eq!(lane.part(tin, "sent_packets"), before + 1, "{m:?}");
    }
}

/// All 64 code points in each mode, as Linux 6.12 classified them; tins by their place in the table
/// of `tc -s`.
#[test]
fn every_dscp_as_measured() {
    let others = |tins: &[(u8, u8)], fallback: u8| {
        let mut all = [fallback; 64];
        tins.iter().for_each(|(dscp, tin)| all[usize::from(*dscp)] = *tin);
        all
    };
    let (bulk, video) = ([(1, 0), (8, 0)], [4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38].map(|d| (d, 2)));
    let voice = [32, 40, 44, 46, 48, 56].map(|d| (d, 3));
    let three = others(&[&bulk[..], &[4, 44, 46, 48, 56].map(|d| (d, 2))].concat(), 1);
    let four = others(&[&bulk[..], &video, &voice].concat(), 1);
    let steps = [
        (1, 0),
        (2, 1),
        (8, 1),
        (10, 1),
        (12, 1),
        (14, 1),
        (24, 3),
        (26, 3),
        (28, 3),
        (30, 3),
        (34, 3),
        (36, 3),
        (38, 3),
        (4, 4),
        (18, 4),
        (20, 4),
        (22, 4),
        (16, 5),
        (32, 6),
        (40, 6),
        (44, 6),
        (46, 6),
        (48, 7),
        (56, 7),
    ];
    let precedence: Vec<(u8, u8)> = (0..64).map(|d| (d, d >> 3)).collect();
    for (mode, expected) in [
        ("diffserv3", three),
        ("diffserv4", four),
        ("diffserv8", others(&steps, 2)),
        ("precedence", others(&precedence, 0)),
    ] {
        let mut lane = Lane::new("cake", mode);
        for (dscp, tin) in (0u8..).zip(expected) {
            let mut m = Meta::new(100);
            m.ds = dscp << 2;
            lane.fill(T0, 0, 1, m);
            let (mut tins, mut last) = (Vec::new(), "");
            lane.root().qdisc().parts(&mut |name, c, n| {
                if c.key == "sent_packets" {
                    (last, _) = (name, tins.push(n));
                }
            });
            assert_eq!(tins[usize::from(tin)], 1, "{mode} {dscp} {tins:?} {last}");
            lane = Lane::new("cake", mode);
        }
    }
}

#[test]
fn the_rates_targets_and_quanta_of_tins_as_measured() {
    // `tc -s` of Linux 6.12: thresholds in bytes/s, target and interval in microseconds, quantum.
    for (options, tins) in [
        (
            "bandwidth 10mbit diffserv4",
            vec![
                ("Bulk", [78_125, 29_068, 124_068, 300]),
                ("Best Effort", [1_250_000, 5_000, 100_000, 305]),
                ("Video", [625_000, 5_000, 100_000, 300]),
                ("Voice", [312_500, 7_267, 102_267, 300]),
            ],
        ),
        (
            "bandwidth 1mbit rtt 10ms",
            vec![
                ("Bulk", [7_812, 290_706, 581_413, 300]),
                ("Best Effort", [125_000, 18_168, 36_336, 300]),
                ("Voice", [31_250, 72_672, 145_344, 300]),
            ],
        ),
        ("besteffort", vec![("Tin 0", [0, 5_000, 100_000, 1514])]),
        ("bandwidth 1gbit precedence", vec![("Tin 7", [49_086_987, 5_000, 100_000, 1514])]),
    ] {
        let lane = Lane::new("cake", options);
        for (tin, expected) in tins {
            let keys = ["threshold_rate", "target_us", "interval_us", "flow_quantum"];
            assert_eq!(keys.map(|key| lane.part(tin, key)), expected, "{options} {tin}");
        }
    }
}

/// Within its share the higher tin leaves first; above its share, the lower tin gets the rest.
#[test]
fn a_tin_above_its_share_does_not_starve_the_others() {
    let mut lane = Lane::new("cake", "bandwidth 8mbit diffserv3 flows rtt 1000s memlimit 100mb");
    let mut voice = Meta::new(1000).hash(1);
    voice.ds = 46 << 2;
    lane.fill(T0, 0, 2000, voice);
    lane.fill(T0, 10_000, 2000, Meta::new(1000).hash(2));
    let sent = run(&mut lane, T0, ms(1000));
    let of_voice = sent.iter().filter(|(_, id)| *id < 10_000).count();
    assert_eq!(sent.len(), 1001);
    assert!((245..=256).contains(&of_voice), "{of_voice} of {}", sent.len());
}
