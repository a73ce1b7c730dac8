//! The laws that hold after every round: each frame has one fate or place, in the daemon's own
//! counters and against those of the world.

use serde_json::Value;
use txweir_core::Instant;
use txweir_core::text::stats::Counters as Table;
use txweir_daemon::sums::{Intake, Origins, Sums};
use txweir_daemon::{Daemon, Link, Links};
use txweir_runtime::Ledger;

use super::world::{SEC, Shared};

/// Time for which a loop may stand still before it looks for its next event.
const LATE: u64 = 3600 * SEC;

/// Returns both sides of a sum, whose left side has the first `sources` counters.
fn sides(counters: &impl Table, sources: usize) -> [u64; 2] {
    let (mut sums, mut at) = ([0; 2], 0);
    counters.visit(&mut |_, n| {
        sums[usize::from(at >= sources)] += n;
        at += 1;
    });
    sums
}

/// Checks all links.
pub fn links(daemon: &mut Daemon, world: &Shared) {
    due(daemon.links(), Instant(world.lock().now + LATE));
    for link in daemon.links_mut().all_mut() {
        let sums = Sums::of(link);
        let Sums { intake, origins, fates, crossing: _ } = &sums;
        for (name, [left, right]) in [
            ("rx", sides(intake, Intake::SOURCES)),
            ("in", sides(origins, Origins::SOURCES)),
            ("tx", sides(fates, Ledger::SOURCES)),
        ] {
            assert_eq!(left, right, "link {}: the sum {name} does not hold: {sums:?}", link.name);
        }
        let card = link.endpoint.as_ref().and_then(|e| world.lock().cards.find(e.name.as_str()));
        if let Some(card) = card {
            // The world counts by itself.
            let [seen, taken] = world.lock().cards.passed(card);
            let waiting = world.lock().cards.waiting(card);
            assert_eq!(intake.waiting, waiting, "link {}: frames that wait: {sums:?}", link.name);
            assert_eq!(intake.seen, seen, "link {}: frames that came in: {sums:?}", link.name);
            assert_eq!(fates.delivered, taken, "link {}: frames that left: {sums:?}", link.name);
        }
        let waiting = fates.queued + fates.waiting;
        assert!(waiting <= 4 * 16_384, "link {}: {waiting} packets wait", link.name);
    }
}

/// Checks that packets that wait for no interface have a time, also for a loop that looks late.
fn due(links: &Links, late: Instant) {
    let of = |link: &&Link| !link.is_away() && !link.way.waits_for_device();
    let held = links.all().iter().filter(of).map(|link| (&link.name, link.way.ledger()));
    let held: Vec<_> = held.filter(|(_, fates)| fates.queued + fates.waiting + fates.inflight > 0).collect();
    assert!(
        held.is_empty() || links.deadline(late).is_some(),
        "packets wait, and the loop for nothing: {held:?}"
    );
}

/// Checks the sums that a client was shown.
pub fn shown(stdout: &str) {
    let shown: Value = serde_json::from_str(stdout).expect("JSON");
    for link in shown.as_array().expect("a list") {
        for (name, sources) in [("rx", Intake::SOURCES), ("in", Origins::SOURCES), ("tx", Ledger::SOURCES)] {
            let sum = link["sums"][name].as_object().expect("a sum");
            let (left, right): (Vec<_>, Vec<_>) = sum.values().enumerate().partition(|(at, _)| *at < sources);
            let [left, right] =
                [left, right].map(|side| side.iter().filter_map(|(_, n)| n.as_u64()).sum::<u64>());
            assert_eq!(left, right, "the sum {name} as shown does not hold: {}", link["sums"]);
        }
    }
}
