//! plug: epochs, the limit, and what a command does. (Against Linux 6.12: spec/traces/plug.)

use crate::common::lane::{Lane, Out};
use txweir_core::model::testing::VecDevice;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, DropReason, Env, Handle, Instant, Meta, PathConfig, Role, TxPath, Wake, WakeReason, qdisc::kind,
};
use txweir_core::{base::link::LinkLayer, sched::stab::Stab};

const T0: Instant = Instant::ZERO;

fn plug(options: &str, packets: u32) -> Lane {
    let mut lane = Lane::new("plug", options);
    lane.fill(T0, 0, packets, Meta::new(1000));
    lane
}

fn say(lane: &mut Lane, words: &str) {
    lane.change(T0, Handle::ROOT, words).unwrap();
}

#[test]
fn nothing_leaves_without_a_command_and_no_time_is_named() {
    let mut lane = plug("", 3);
    let wake = lane.path.drain(Instant(5), 9, &mut lane.dev);
    assert_eq!(wake, Wake::At(Instant::MAX, WakeReason::Plugged));
    assert_eq!((lane.take(Instant(1 << 60)), lane.backlog()), (Out::Wait(Instant::MAX), 3));
}

#[test]
fn a_release_is_for_the_epoch_that_ended_last() {
    let mut lane = plug("", 3);
    say(&mut lane, "release");
    assert_eq!(lane.ids(T0, 9), [], "no epoch has ended");
    say(&mut lane, "block");
    lane.fill(T0, 10, 2, Meta::new(1000));
    say(&mut lane, "block");
    say(&mut lane, "release");
    // Two packets of the second epoch are counted, and the oldest two leave.
    assert_eq!(lane.ids(T0, 9), [0, 1]);
    say(&mut lane, "release");
    assert_eq!(lane.ids(T0, 9), []);
    lane.fill(T0, 20, 1, Meta::new(1000));
    say(&mut lane, "block");
    say(&mut lane, "release");
    assert_eq!(lane.ids(T0, 9), [2]);
}

#[test]
fn an_open_queue_is_closed_by_the_next_block() {
    let mut lane = plug("release_indefinite", 2);
    assert_eq!(lane.ids(T0, 1), [0]);
    say(&mut lane, "block");
    lane.fill(T0, 10, 1, Meta::new(1000));
    assert_eq!(lane.ids(T0, 9), [], "nothing is counted of what came while it was open");
    say(&mut lane, "block");
    say(&mut lane, "release");
    assert_eq!(lane.ids(T0, 9), [1]);
    say(&mut lane, "release_indefinite");
    assert_eq!(lane.ids(T0, 9), [10]);
    // A change of the limit alone closes nothing.
    say(&mut lane, "limit 5000");
    lane.fill(T0, 20, 1, Meta::new(1000));
    assert_eq!(lane.ids(T0, 9), [20]);
    say(&mut lane, "release");
    lane.fill(T0, 30, 1, Meta::new(1000));
    assert_eq!(lane.ids(T0, 9), [30]);
}

/// Packets that wait when the queue opens, and those that come while it is open, belong to no
/// epoch.
#[test]
fn an_open_queue_counts_nothing() {
    let mut lane = plug("", 3);
    say(&mut lane, "release_indefinite");
    assert_eq!(lane.ids(T0, 1), [0]);
    lane.fill(T0, 10, 2, Meta::new(1000));
    say(&mut lane, "block");
    say(&mut lane, "release");
    assert_eq!(lane.ids(T0, 9), []);
}

/// A release keeps an open queue open, and its setting.
#[test]
fn a_release_of_an_open_queue_changes_nothing() {
    let mut lane = plug("release_indefinite", 3);
    say(&mut lane, "release");
    let mut shown = Vec::new();
    lane.root().qdisc().options(&mut |o| shown.push(txweir_core::text::value::text_of(o.value)));
    assert!(shown.contains(&"release_indefinite".to_owned()), "{shown:?}");
    say(&mut lane, "limit 9000");
    assert_eq!(lane.ids(T0, 9), [0, 1, 2]);
}

#[test]
fn the_limit_is_in_bytes() {
    let mut lane = plug("limit 3000", 3);
    assert_eq!(lane.put(T0, 3, Meta::new(60)), Admitted::Dropped(DropReason::Overlimit));
    say(&mut lane, "release_indefinite");
    assert_eq!(lane.ids(T0, 9), [0, 1, 2]);
    assert_eq!(lane.put(T0, 4, Meta::new(3001)), Admitted::Dropped(DropReason::Overlimit));
}

/// The limit counts the bytes of the frame that comes, not its charge, as in Linux. The queue may
/// exceed it by that charge, and a command with the same limit drops nothing.
#[test]
fn the_charge_of_the_last_packet_may_exceed_the_limit() {
    let mut lane = plug("limit 2150", 0);
    let cells = Stab { overhead: 0, mpu: 0, linklayer: Some(LinkLayer::Atm), mtu: 2047, tsize: 512 };
    lane.path
        .configure(T0, &mut lane.dev, |tree, cx| tree.edit(cx).set_stab(Handle::ROOT, Some(cells)))
        .unwrap();
    // 1000 bytes are 1113 in cells: two packets are 2226, of which the second counted 1000.
    lane.fill(T0, 0, 2, Meta::new(1000));
    say(&mut lane, "limit 2150");
    assert_eq!((lane.root().books().queued.bytes, lane.drops()), (2226, vec![]));
    assert_eq!(lane.put(T0, 2, Meta::new(60)), Admitted::Dropped(DropReason::Overlimit));
}

/// plug-shrink
#[test]
fn a_smaller_limit_of_plug_drops_the_oldest() {
    let mut lane = plug("", 4);
    say(&mut lane, "block");
    lane.fill(T0, 10, 2, Meta::new(1000));
    say(&mut lane, "limit 3500");
    assert_eq!(lane.drops(), [0, 1, 2].map(|id| (id, DropReason::Purged)));
    // One packet of the ended epoch is left.
    say(&mut lane, "release");
    assert_eq!(lane.ids(T0, 9), [3]);
    assert_eq!(lane.backlog(), 2);
}

/// plug-add
#[test]
fn a_word_of_a_new_plug_has_its_effect_and_the_limit_is_the_default() {
    let shown = |options: &str| {
        let mut shown = String::new();
        Lane::new("plug", options).root().qdisc().options(&mut |o| {
            if o.value.is_set() {
                shown += &(txweir_core::text::value::exact_of(o.value) + " ");
            }
        });
        shown
    };
    assert_eq!(shown(""), "1514000b ");
    assert_eq!(shown("block"), "1514000b ");
    assert_eq!(shown("limit 9 release_indefinite"), "9b release_indefinite ");
    assert_eq!(plug("release_indefinite", 2).ids(T0, 9), [0, 1]);
    let built = |options: &[&str]| kind("plug").unwrap().build(&mut Words::new(options), &Env::default());
    let refused = built(&["limit", "4294967296"]).err().map(|e| e.to_string());
    let said = "plug limit: expected at most 4294967295 bytes, given \"4294967296\"";
    assert_eq!(refused.as_deref(), Some(said));
}

/// plug-reset
#[test]
fn a_purge_of_plug_forgets_the_epochs() {
    let mut lane = plug("", 3);
    say(&mut lane, "block");
    lane.path.purge(T0, &mut lane.dev);
    say(&mut lane, "release");
    lane.fill(T0, 10, 2, Meta::new(1000));
    assert_eq!(lane.ids(T0, 9), []);
}

/// plug-peek
#[test]
fn a_shaper_above_a_closed_plug_counts_no_overlimit() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 100000");
    lane.graft(T0, Handle::new(0x8001, 1), "plug", "");
    lane.fill(T0, 0, 2, Meta::new(1000));
    for at in [0, 1, 2] {
        assert_eq!(lane.take(Instant(at)), Out::Wait(Instant::MAX));
    }
    assert_eq!(lane.root().books().overlimits, 0);
    lane.change(Instant(3), Handle::new(0x8001, 1), "release_indefinite").unwrap();
    assert_eq!(lane.ids(Instant(3), 9), [0]);
    assert_eq!(lane.take(Instant(1_000_003)).id(), Some(1));
}

#[test]
fn an_open_empty_queue_is_passed_by() {
    for (options, answer) in [("release_indefinite", Admitted::Sent), ("", Admitted::Queued)] {
        let words: Vec<&str> = options.split_whitespace().collect();
        let config = PathConfig { role: Role::Forwarder, bql: None, ..PathConfig::default() };
        let mut path: TxPath<u32> = TxPath::new(config).unwrap().with_qdisc("plug", &words).unwrap();
        let mut dev = VecDevice::with_slots(9);
        assert_eq!(path.submit(T0, 1, Meta::new(1000), &mut dev), answer);
    }
}
