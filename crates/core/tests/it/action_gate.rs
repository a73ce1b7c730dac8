//! gate: the packets that Linux 6.12 let through, and a model that moves from entry to entry.

use crate::common::action::Bench;
use proptest::prelude::*;
use txweir_core::classify::action::gate::{Gate, GateConfig, GateEntry};
use txweir_core::classify::action::{Control, Kind};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::{Packet, PortId, Way};
use txweir_core::packet::headers::Headers;
use txweir_core::qdisc::etf::Clock;
use txweir_core::{Instant, Meta};

const fn entry(open: bool, ns: u32, octets: Option<u32>) -> GateEntry {
    GateEntry { open, ns, ipv: None, octets }
}

fn config(entries: &[GateEntry]) -> GateConfig {
    GateConfig {
        priority: None,
        clock: Clock::Tai,
        flags: 0,
        base_time: 0,
        cycle_time: 0,
        cycle_time_ext: 0,
        entries: entries.to_vec(),
    }
}

fn gate(config: GateConfig) -> Kind {
    Kind::Gate(Gate::new(config).expect("a schedule"))
}

/// True if a packet of this many bytes passes.
fn passes(bench: &mut Bench, bytes: u32, at: u64) -> bool {
    passes_on(Way::Egress, bench, bytes, at)
}

/// As `passes`, for a packet that goes this way.
fn passes_on(way: Way, bench: &mut Bench, bytes: u32, at: u64) -> bool {
    let (mut frame, mut meta) = (vec![0; 60], Meta::new(bytes));
    let headers = Headers::parse_ethernet(&frame);
    let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
    bench.send(&mut packet, Instant(at)) != Verdict::Drop
}

/// The kernel (oracle/record) sent these packets of a stream with sizes of 1000, 500 and 60 bytes,
/// one each 310 us, through `gate clockid CLOCK_MONOTONIC sched-entry open 2048us sched-entry close
/// 2048us sched-entry open 2048us -1 3000b sched-entry close 2048us`, and dropped the other 55.
#[test]
fn packets_pass_as_in_linux() {
    const PASSED: [usize; 45] = [
        0, 1, 2, 3, 4, 5, 6, 13, 14, 15, 16, 17, 27, 28, 29, 30, 31, 32, 40, 41, 42, 43, 44, 53, 54, 55, 56,
        57, 58, 59, 66, 67, 68, 69, 79, 80, 81, 82, 83, 84, 85, 93, 94, 95, 96,
    ];
    const SLOT: u32 = 2_048_000;
    let entries = [
        entry(true, SLOT, None),
        entry(false, SLOT, None),
        entry(true, SLOT, Some(3000)),
        entry(false, SLOT, None),
    ];
    // The time 0 of the packets is a whole number of cycles; the action was made 100 ms before.
    let zero = 4 * u64::from(SLOT) * 13;
    let mut bench = Bench::at(gate(config(&entries)), Control::Pipe, Instant(zero - 100_000_000));
    let passed: Vec<usize> = (0..100)
        .filter(|i| passes(&mut bench, [1000, 500, 60][i % 3], zero + 100_352 + 310_000 * *i as u64))
        .collect();
    assert_eq!(passed, PASSED);
    let memory = bench.memory();
    assert_eq!((memory.packets, memory.drops + memory.overlimits), (100, 55));
}

#[test]
fn packets_pass_until_the_schedule_begins() {
    let closed = [entry(false, 1000, None), entry(true, 500, None)];
    let mut later = config(&closed);
    later.base_time = 10_000;
    let mut bench = Bench::at(gate(later.clone()), Control::Pipe, Instant(3));
    assert_eq!(
        [9_999, 10_000, 10_999, 11_000, 11_499, 11_500].map(|at| passes(&mut bench, 1, at)),
        [true, false, false, true, true, false]
    );
    // A base that is over: the first cycle after the action was made, by the given cycle.
    later.cycle_time = 4_000;
    let mut bench = Bench::at(gate(later.clone()), Control::Pipe, Instant(13_999));
    assert_eq!([13_999, 14_000, 15_000].map(|at| passes(&mut bench, 1, at)), [true, false, true]);
    let mut bench = Bench::at(gate(later.clone()), Control::Pipe, Instant(14_000));
    assert_eq!([17_999, 18_000, 19_000].map(|at| passes(&mut bench, 1, at)), [true, false, true]);
    // A replaced action begins anew, also with its bytes.
    let mut bounded = config(&[entry(true, 1000, Some(100))]);
    let mut bench = Bench::at(gate(bounded.clone()), Control::Pipe, Instant(0));
    assert_eq!([1_000, 1_001].map(|at| passes(&mut bench, 60, at)), [true, false]);
    assert_eq!((bench.memory().drops, bench.memory().overlimits), (0, 1));
    bounded.base_time = 1;
    bench.replace(gate(bounded), Control::Pipe, Instant(1_002));
    assert_eq!([1_500, 2_001, 2_002].map(|at| passes(&mut bench, 60, at)), [true, true, false]);
}

/// Linux has taken the link header off a packet that has arrived.
#[test]
fn the_bytes_of_an_arrived_packet_are_those_behind_its_link_header() {
    for (way, larger) in [(Way::Ingress, true), (Way::Egress, false)] {
        let bounded = config(&[entry(true, 1000, Some(1500))]);
        let mut bench = Bench::at(gate(bounded), Control::Pipe, Instant(0));
        // Each in an entry of its own.
        let sizes = [(1500, 1_000), (1514, 2_000), (1515, 3_000)];
        let passed = sizes.map(|(bytes, at)| passes_on(way, &mut bench, bytes, at));
        assert_eq!(passed, [true, larger, false], "{way:?}");
    }
}

#[test]
fn a_schedule_has_entries_and_each_lasts() {
    let refused = |entries: &[GateEntry]| Gate::new(config(entries)).expect_err("refused").to_string();
    assert_eq!(refused(&[]), "gate sched-entry: expected 1 to 1024 entries, given \"0\"");
    assert_eq!(
        refused(&[entry(true, 1, None); 1025]),
        "gate sched-entry: expected 1 to 1024 entries, given \"1025\""
    );
    let one = refused(&[entry(true, 1, None), entry(true, 0, None)]);
    assert_eq!(one, "gate sched-entry: expected an interval above 0, given \"0\"");
}

proptest! {
    /// The gate equals a model that goes from entry to entry, as a timer does.
    #[test]
    fn equals_a_timer(
        list in prop::collection::vec((any::<bool>(), 1..50u32, prop::option::of(0..300u32)), 1..8),
        base in 0..300u64, cycle in 0..100u64, made in 0..200u64,
        packets in prop::collection::vec((0..30u64, 0..200u32), 1..60),
    ) {
        let entries: Vec<GateEntry> = list.iter().map(|(open, ns, octets)| entry(*open, *ns, *octets)).collect();
        let given = GateConfig { base_time: base, cycle_time: cycle, ..config(&entries) };
        let sum: u64 = entries.iter().map(|entry| u64::from(entry.ns)).sum();
        let step = if cycle == 0 { sum } else { cycle };
        let mut start = base;
        while start <= made && base <= made {
            start += step;
        }
        let mut bench = Bench::at(gate(given), Control::Pipe, Instant(made));
        let (mut now, mut at, mut end, mut bytes) = (made, None, start, 0);
        for (gap, len) in packets {
            now += gap;
            while end <= now {
                let next = at.map_or(0, |at: usize| (at + 1) % entries.len());
                (at, bytes) = (Some(next), 0);
                end += u64::from(entries[next].ns);
            }
            let expected = at.is_none_or(|at| {
                let GateEntry { open, octets, .. } = entries[at];
                bytes += u64::from(len) * u64::from(open);
                open && octets.is_none_or(|most| bytes <= u64::from(most))
            });
            prop_assert_eq!(passes(&mut bench, len, now), expected, "at {}", now);
        }
    }
}
