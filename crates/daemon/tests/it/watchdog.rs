//! The watchdog of links in virtual time: an interface that finishes no frame for five seconds
//! loses what it holds, and the link goes on.

use serde_json::Value;
use txweir_core::Instant;
use txweir_daemon::{Daemon, Link, Links};
use txweir_runtime::Notes;

use crate::common::card::Card;
use crate::common::{Log, World};

const SECOND: u64 = 1_000_000_000;

/// Two links that are peers, in virtual time, with their log.
struct Pair {
    world: World,
    cards: [Card; 2],
    log: Log,
}

impl Pair {
    /// Frames that come in by `a` leave by `b`, with this wire ahead of it or none.
    fn new(wire: Option<&str>) -> Self {
        let cards = [Card::default(), Card::default()];
        let over = |at: usize, name: &str| -> Link {
            match wire {
                Some(wire) => cards[at].link(name, wire),
                None => cards[at].unpaced(name),
            }
        };
        let mut links = Links::between([over(0, "a"), over(1, "b")]);
        let log = Log::default();
        *links.notes_mut() = Notes::new(Box::new(log.clone()));
        cards.iter().for_each(|card| card.seen().room = usize::MAX);
        Self { world: World { daemon: Daemon::with(links), now: Instant::ZERO }, cards, log }
    }

    /// Lets frames come in by `a`.
    fn send(&mut self, frames: usize) {
        (0..frames).for_each(|_| self.cards[0].tcp(1000));
        self.turn();
    }

    fn turn(&mut self) {
        let now = self.world.now;
        while self.world.daemon.links_mut().turn(&move || now, &[]) {}
    }

    /// Lets so many seconds pass, in which the loop wakes when it has asked to.
    fn seconds(&mut self, n: u64) {
        let end = Instant(self.world.now.0 + n * SECOND);
        self.world.until(end);
    }

    /// Returns the frames of `b` by fate, which make the sum of those that came, and its timeouts.
    fn fates(&mut self) -> (Value, u64) {
        let shown = self.world.show("b")[0].clone();
        let sums = shown["sums"]["tx"].clone();
        let counts = sums.as_object().expect("sums").values().map(|n| n.as_u64().expect("a number"));
        let counts: Vec<u64> = counts.collect();
        let [left, right] = [&counts[..3], &counts[3..]].map(|side| side.iter().sum::<u64>());
        assert_eq!(left, right, "{sums}");
        (sums, shown["stats"]["timeouts"].as_u64().expect("a number"))
    }
}

/// A stuck interface is found in five to six seconds, its frames are counted as lost, and those
/// behind them go on once it takes frames again.
#[test]
fn frames_of_an_interface_that_stands_are_given_up() {
    // Without a wire the interface holds what it was shown at once, 32 KiB of frames.
    for (wire, held) in [(None, 22), (Some("rate=1gbit,ring=64"), 100)] {
        let mut pair = Pair::new(wire);
        pair.world.now = Instant(SECOND);
        pair.cards[1].seen().room = 10;
        pair.send(110);
        pair.seconds(4);
        let (sums, timeouts) = pair.fates();
        assert_eq!((&sums["delivered"], &sums["lost"], timeouts), (&10.into(), &0.into(), 0), "{wire:?}");
        assert_eq!(pair.log.lines(), [""; 0]);
        pair.seconds(2);
        let (sums, timeouts) = pair.fates();
        assert_eq!((&sums["delivered"], &sums["lost"], timeouts), (&10.into(), &held.into(), 1), "{wire:?}");
        let line = format!("link b: its interface has finished no frame for 5 s: {held} are lost");
        assert_eq!(pair.log.lines(), [format!("txweir: {line}")]);
        // It takes frames again: those that waited behind the lost ones leave, and new ones.
        pair.cards[1].seen().room = usize::MAX;
        pair.send(20);
        pair.seconds(2);
        let (sums, timeouts) = pair.fates();
        assert_eq!((&sums["delivered"], timeouts), (&(130 - held).into(), 1), "{wire:?}: {sums}");
        assert_eq!((&sums["inflight"], &sums["queued"]), (&0.into(), &0.into()), "{wire:?}: {sums}");
        pair.turn();
        assert_eq!(pair.log.lines(), ["txweir: link b: its interface finishes frames again"], "{wire:?}");
        pair.seconds(60);
        assert_eq!(pair.fates().1, 1, "{wire:?}: an idle interface does not time out");
    }
}

/// An interface that never takes a frame costs a line a minute and a bounded number of frames.
#[test]
fn an_interface_that_stands_for_ever_stops_nothing_else() {
    for wire in [None, Some("rate=1gbit,ring=64")] {
        let mut pair = Pair::new(wire);
        pair.world.now = Instant(SECOND);
        pair.cards[1].seen().room = 0;
        for _ in 0..600 {
            // With a wire the device has no place for all of them, which is no progress.
            pair.send(100);
            // The way back is not touched.
            pair.cards[1].tcp(1000);
            pair.seconds(1);
        }
        let (sums, timeouts) = pair.fates();
        assert!((115..=120).contains(&timeouts), "{wire:?}: {timeouts}");
        assert_eq!((&sums["delivered"], &sums["submitted"]), (&0.into(), &60_000.into()), "{wire:?}: {sums}");
        assert_eq!(pair.log.lines().len(), 10, "{wire:?}");
        assert_eq!(pair.cards[0].seen().counters.tx_frames, 600, "{wire:?}");
    }
}

/// An interface that is down keeps its frames for as long as it takes.
#[test]
fn an_interface_that_is_down_is_not_watched() {
    let mut pair = Pair::new(None);
    pair.cards[1].seen().room = 0;
    pair.cards[1].seen().down = true;
    pair.send(20);
    pair.seconds(600);
    assert_eq!(pair.fates().1, 0);
    pair.cards[1].seen().down = false;
    pair.cards[1].seen().room = usize::MAX;
    pair.turn();
    let (sums, _) = pair.fates();
    assert_eq!((&sums["delivered"], &sums["lost"]), (&20.into(), &0.into()), "{sums}");
}

/// A process that was stopped for ten seconds (SIGSTOP), and a clock that leaps by an hour, lose no
/// frame: the interface was not seen to stand.
#[test]
fn time_in_which_the_process_stood_still_is_no_timeout() {
    for leap in [10, 3600] {
        let mut pair = Pair::new(Some("rate=1gbit,ring=64"));
        pair.world.now = Instant(SECOND);
        pair.cards[1].seen().room = 5;
        pair.send(30);
        pair.seconds(2);
        pair.world.now = Instant(pair.world.now.0 + leap * SECOND);
        pair.turn();
        assert_eq!(pair.fates().1, 0, "{leap}");
        pair.cards[1].seen().room = usize::MAX;
        pair.seconds(2);
        let (sums, _) = pair.fates();
        assert_eq!((&sums["delivered"], &sums["lost"]), (&30.into(), &0.into()), "{leap}: {sums}");
    }
}
