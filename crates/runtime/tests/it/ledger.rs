//! The ledger of a direction: whatever happens to frames, the frames that came are the frames whose
//! fate or place is shown.

use txweir_core::text::value::Words;
use txweir_core::turns::Quota;
use txweir_core::{Env, Handle, Instant};
use txweir_device::{Gso, MAX_FRAME, VnetHdr};
use txweir_runtime::{Direction, DirectionConfig, Ledger, Received, WireSpec};

use crate::direction::{super_frame, udp};
use crate::list::{List, Out, To as _};

/// Roots that cut super-frames, copy frames, drop, mark, or keep them waiting.
const ROOTS: [(&str, &[&str]); 6] = [
    ("tbf", &["rate", "80mbit", "burst", "5kb", "limit", "300kb"]),
    ("cake", &["bandwidth", "50mbit", "memlimit", "400kb"]),
    ("netem", &["duplicate", "40%", "loss", "10%", "corrupt", "5%", "delay", "3ms", "1ms", "limit", "200"]),
    ("fq_codel", &["limit", "50", "flows", "16"]),
    ("mq", &[]),
    ("pfifo", &["limit", "30"]),
];

/// A direction, its device, and the frames that the test has given it.
struct Case {
    way: Direction<Out>,
    port: List,
    now: Instant,
    given: u64,
    seed: u64,
}

impl Case {
    fn new(spec: Option<&str>) -> Self {
        let (wire, bql) = match spec.map(|spec| spec.parse::<WireSpec>().unwrap()) {
            Some(WireSpec { wire, bql }) => (Some(wire), bql),
            None => (None, None),
        };
        let env = Env { queues: 3, ..Env::default() };
        // Room for some twenty super-frames only: frames and pieces are refused as well.
        let out = Out::new(20 * MAX_FRAME);
        let way = Direction::new(
            DirectionConfig { wire, bql, env, packets: 512, ..DirectionConfig::default() },
            out,
        )
        .unwrap();
        Self { way, port: List::default(), now: Instant::ZERO, given: 0, seed: 7 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn holds(&self, step: &str) -> Ledger {
        let ledger = self.way.ledger();
        let [came, went] = ledger.sums();
        assert_eq!(came, went, "{step}: {ledger:?}");
        assert_eq!(ledger.submitted, self.given, "{step}: {ledger:?}");
        ledger
    }

    /// Lets frames arrive: some of them cannot be forwarded, and some the device refuses.
    fn arrive(&mut self) {
        for _ in 0..self.draw(12) {
            let frame = match self.draw(8) {
                0..3 => super_frame(&vec![7; 2000 + self.draw(60_000) as usize], 1448),
                3 => {
                    let (hdr, bytes) = super_frame(&[7; 3000], 1448);
                    (VnetHdr { gso: Gso::Other(3), ..hdr }, bytes)
                }
                4 => udp(0, 1, 61),
                n => udp(0, n as u16, 100 + self.draw(1400) as usize),
            };
            self.port.incoming.push_back(frame);
            self.given += 1;
        }
        let mut input = List { incoming: std::mem::take(&mut self.port.incoming), ..List::default() };
        loop {
            match self.way.receive(&mut input).unwrap() {
                Received::Frame(arrival) => {
                    // A device that is gone has lost its frames, which is counted.
                    let _ = self.way.admit_to(self.now, arrival, &mut self.port);
                }
                Received::LeftOut => {}
                Received::Nothing => return,
            }
        }
    }

    fn change(&mut self, root: usize) {
        let (kind, options) = ROOTS[root % ROOTS.len()];
        let (draw, quota, now) = (self.draw(6), self.draw(20) as u32, self.now);
        let handle = Some(Handle::new(1 + self.draw(60_000) as u16, 0));
        let mut way = self.way.control(now);
        let words = &mut Words::new(options);
        match draw {
            0 => drop(way.change(|q| q.replace(Handle::ROOT, handle, kind, words))),
            1..4 => drop(way.swap(|q| q.replace(Handle::ROOT, handle, kind, words))),
            4 => drop(way.set_queues(1 + quota as u16 % 5)),
            _ => way.set_fairsend(Quota::segs(quota)),
        }
    }
}

#[test]
fn every_frame_has_one_fate_or_one_place_at_every_step() {
    let mut all = Ledger::default();
    for spec in [Some("rate=100mbit,ring=16,descriptors=1"), Some("rate=1gbit,bql=off"), None] {
        let mut case = Case::new(spec);
        for step in 0..1500 {
            case.port.full = step % 50 < 20;
            case.port.gone = step % 400 == 399;
            case.now = Instant(case.now.0 + 200_000);
            case.arrive();
            case.holds(&format!("{spec:?}, {step}, arrivals"));
            if step % 10 == 0 {
                let root = case.draw(ROOTS.len() as u64) as usize;
                case.change(root);
                case.holds(&format!("{spec:?}, {step}, change"));
            }
            let _ = case.way.advance_to(case.now, &mut case.port);
            case.holds(&format!("{spec:?}, {step}, advance"));
        }
        (case.port.full, case.port.gone) = (false, false);
        case.way.control(case.now).set_fairsend(Quota::OFF);
        for _ in 0..1_000_000 {
            let Some(at) = case.way.deadline(case.now) else { break };
            case.now = case.now.max(at);
            case.way.advance_to(case.now, &mut case.port).unwrap();
        }
        let end = case.holds("the end");
        assert_eq!((end.waiting, end.queued, end.inflight), (0, 0, 0), "{end:?}");
        // The device's own list is a second book: it refuses frames of 61 bytes.
        let sent = case.port.sent.iter().filter(|(_, frame)| frame.len() != 61).count() as u64;
        assert_eq!(end.delivered, sent);
        for (sum, n) in [
            (&mut all.pieces, end.pieces),
            (&mut all.copies, end.copies),
            (&mut all.malformed, end.malformed),
            (&mut all.no_memory, end.no_memory),
            (&mut all.cut, end.cut),
            (&mut all.unmade, end.unmade),
            (&mut all.dropped, end.dropped),
            (&mut all.lost, end.lost),
        ] {
            *sum += n;
        }
    }
    // Nothing was tested about a fate that no frame had.
    let Ledger { pieces, copies, malformed, no_memory, cut, unmade, dropped, lost, .. } = all;
    let seen = [pieces, copies, malformed, no_memory, cut, unmade, dropped, lost];
    assert!(seen.iter().all(|n| *n > 20), "{all:?}");
}
