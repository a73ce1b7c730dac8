//! The sums of `link show`: every frame that an interface received has one fate or one place, at
//! every instant, in text as in JSON.

use serde_json::Value;
use txweir_core::Instant;
use txweir_daemon::{Daemon, Links};

use crate::common::card::Card;
use crate::common::{MS, World};

/// Two links that are peers, in virtual time.
struct Pair {
    world: World,
    cards: [Card; 2],
}

impl Pair {
    fn new() -> Self {
        let cards = [Card::default(), Card::default()];
        let links = [cards[0].link("a", "rate=1gbit"), cards[1].link("b", "rate=200mbit,ring=64")];
        cards.iter().for_each(|card| card.seen().room = usize::MAX);
        Self { world: World { daemon: Daemon::with(Links::between(links)), now: Instant::ZERO }, cards }
    }

    fn turn(&mut self) {
        let now = self.world.now;
        self.world.daemon.links_mut().turn(&move || now, &[]);
    }

    /// Checks the sums of both links, and between them, and returns those of one.
    fn hold(&mut self, name: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.world.link("show -j")).expect("JSON");
        let [a, b] = [0, 1].map(|at| shown[at]["sums"].clone());
        for (sums, name) in [(&a, "a"), (&b, "b")] {
            let lines = lines(&self.world.link(&format!("show {name} --stats")));
            assert_eq!(lines.len(), 3, "{lines:?}");
            for (key, said, [left, right]) in lines {
                assert_eq!(left, right, "{name} {key}: {said:?}");
                // The text has the counters of the JSON, and no others.
                let members = sums[&key].as_object().expect("an object");
                assert_eq!(members.len(), said.len(), "{said:?}");
                assert!(said.iter().all(|(word, n)| members[word] == *n), "{said:?}: {members:?}");
            }
        }
        assert_eq!((&a["rx"]["forwarded"], &b["rx"]["forwarded"]), (&b["in"]["peer"], &a["in"]["peer"]));
        if name == "a" { a } else { b }
    }
}

/// A line of sums: its name, its counters, and both sides of the equation.
type Sum = (String, Vec<(String, u64)>, [u64; 2]);

fn lines(shown: &str) -> Vec<Sum> {
    let indented = shown.lines().filter_map(|line| line.strip_prefix("    "));
    let indented = indented.filter(|line| !line.starts_with("delay"));
    let read = |line: &str| {
        let (name, sum) = line.split_once("  ").expect("a name and a sum");
        let side = |text: &str| -> Vec<(String, u64)> {
            let terms = text.split(" + ").map(|term| term.split_once(' ').expect("a word and a number"));
            terms.map(|(word, n)| (word.to_owned(), n.parse().expect("a number"))).collect()
        };
        let (left, right) = sum.split_once(" = ").expect("an equation");
        let sides = [side(left), side(right)];
        let totals = sides.each_ref().map(|side| side.iter().map(|(_, n)| n).sum());
        (name.to_owned(), sides.concat(), totals)
    };
    indented.map(read).collect()
}

/// The interface of `a` receives super-frames, which policies at `b` cut; it misses some, and the
/// interface of `b` is full for a while.
#[test]
fn what_an_interface_received_is_the_sum_of_what_is_shown() {
    for policy in [
        "cake bandwidth 100mbit memlimit 300kb",
        "tbf rate 90mbit burst 5kb limit 400kb",
        "netem delay 2ms duplicate 30% loss 5%",
    ] {
        let mut pair = Pair::new();
        pair.world.tc(&format!("qdisc add dev b root handle 1: {policy}"));
        let mut came = 0;
        for step in 0..200u64 {
            for n in 0..step % 7 {
                pair.cards[0].tcp(if n % 2 == 0 { 30_000 } else { 1000 });
                came += 1;
            }
            if step % 9 == 0 {
                let mut seen = pair.cards[0].seen();
                seen.counters.rx_missed += 2;
                seen.counters.rx_oversize += 1;
                seen.counters.rx_refused += 1;
                came += 4;
            }
            pair.cards[1].seen().room = if step % 50 < 40 { usize::MAX } else { 3 };
            // Frames that nobody has read yet are seen as well.
            let before = pair.hold("a");
            assert_eq!(before["rx"]["seen"], came, "{policy}");
            assert_eq!(before["rx"]["waiting"], pair.cards[0].seen().incoming.len(), "{policy}");
            pair.turn();
            pair.hold("b");
            if step % 40 == 20 {
                pair.world.batch("--atomic", "qdisc replace dev b root handle 2: pfifo limit 40\n");
                pair.hold("b");
                pair.world.batch("--atomic", &format!("qdisc replace dev b root handle 1: {policy}\n"));
            }
            let end = Instant((step + 1) * MS);
            pair.world.until(end);
        }
        pair.cards[1].seen().room = usize::MAX;
        pair.turn();
        pair.world.until(Instant(1000 * MS));
        let (a, b) = (pair.hold("a"), pair.hold("b"));
        assert_eq!((&a["rx"]["seen"], &a["rx"]["waiting"]), (&came.into(), &0.into()));
        assert_eq!((&b["tx"]["queued"], &b["tx"]["inflight"]), (&0.into(), &0.into()), "{policy}: {b}");
        assert_eq!(b["tx"]["delivered"], pair.cards[1].seen().counters.tx_frames, "{policy}: {b}");
        let cuts = b["tx"]["cut"].as_u64().expect("a number");
        assert!(cuts > 50 || policy.starts_with("netem"), "{policy}: {b}");
        let table = pair.world.link("show a");
        let missed = table.lines().nth(1).and_then(|row| row.split_whitespace().nth(8)).expect("MISSED");
        assert_eq!(missed, (23 * 4).to_string(), "{table}");
    }
}

/// A sender chooses the segment size of its super-frames. Those of too many segments are malformed,
/// and the others end the burst of their link early: other links have their turn.
#[test]
fn segments_of_a_hostile_sender_are_bounded() {
    let mut pair = Pair::new();
    pair.world.tc("qdisc add dev b root handle 1: cake bandwidth 100mbit");
    let come = |pair: &Pair, gso_size: u16, frames: usize| {
        for _ in 0..frames {
            pair.cards[0].tcp(60_000);
            let mut seen = pair.cards[0].seen();
            seen.incoming.back_mut().expect("a frame").0.gso_size = gso_size;
        }
    };
    come(&pair, 8, 10);
    pair.turn();
    let b = pair.hold("b");
    assert_eq!((&b["tx"]["malformed"], &b["tx"]["pieces"]), (&10.into(), &0.into()), "{b}");
    // 1875 segments each: the third passes 4096.
    come(&pair, 32, 10);
    for left in [7, 4, 1, 0] {
        pair.turn();
        assert_eq!(pair.cards[0].seen().incoming.len(), left);
    }
    let b = pair.hold("b");
    assert_eq!((&b["tx"]["malformed"], &b["tx"]["pieces"]), (&10.into(), &18_750.into()), "{b}");
}

/// Copies that actions make, generated packets, and frames without a peer are in the sums too.
#[test]
fn copies_and_generated_packets_have_their_place_in_the_sums() {
    let mut pair = Pair::new();
    for line in [
        "qdisc add dev a clsact",
        "qdisc add dev b clsact",
        "filter add dev b egress matchall action mirred egress mirror dev a",
        "filter add dev a egress matchall action mirred ingress redirect dev a",
    ] {
        pair.world.tc(line);
    }
    for step in 1..20 {
        pair.cards[0].tcp(1000);
        pair.turn();
        pair.world.link("send b --packets 3");
        pair.hold("a");
        pair.world.until(Instant(step * MS));
        pair.hold("b");
    }
    let (a, b) = (pair.hold("a"), pair.hold("b"));
    assert_eq!(b["in"]["generated"], 57);
    let number = |value: &Value| value.as_u64().expect("a number");
    assert!(number(&a["in"]["copied"]) > 50 && number(&a["rx"]["redirected"]) > 50, "{a} {b}");
    // Without a peer the frames of an interface are counted, and so are redirected copies.
    pair.world.link("set a --peer none");
    pair.cards[0].tcp(1000);
    pair.turn();
    pair.world.link("send b --packets 3");
    let a = pair.hold("a");
    assert_eq!(a["rx"]["unclaimed"], 4);
}

/// An interface disappears with frames that nobody has read, and with frames that it has not sent.
#[test]
fn the_sums_hold_when_an_interface_disappears() {
    let mut pair = Pair::new();
    pair.cards[1].seen().room = 5;
    (0..60).for_each(|_| pair.cards[0].tcp(1000));
    pair.turn();
    pair.world.until(Instant(10 * MS));
    (0..7).for_each(|_| pair.cards[0].tcp(1000));
    assert_eq!(pair.hold("a")["rx"]["waiting"], 7);
    pair.cards.iter().for_each(|card| card.seen().gone = true);
    pair.turn();
    let (a, b) = (pair.hold("a"), pair.hold("b"));
    let [missed, waiting] = ["missed", "waiting"].map(|key| a["rx"][key].clone());
    assert_eq!((missed, waiting), (7.into(), 0.into()));
    assert_eq!((&b["tx"]["delivered"], &b["tx"]["lost"]), (&5.into(), &55.into()), "{b}");
    let table = pair.world.link("show");
    assert_eq!(table.matches("  gone  ").count(), 2, "{table}");
    // Later packets are lost, and shown as lost.
    pair.world.link("send b --packets 3");
    pair.world.until(Instant(20 * MS));
    assert_eq!(pair.hold("b")["tx"]["lost"], 58);
}
