//! Oracles: models written independently of the implementation, and rules as data, which the kinds
//! must equal.

use std::collections::VecDeque;

use crate::common;
use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, log_uniform, pick};
use txweir_core::base::rng::Rng;
use txweir_core::text::value::Show;
use txweir_core::{DropReason, Env, Handle, Instant, Meta};

/// tc-pfifo_fast(8), tc-prio(8): the band of each priority.
const BANDS: [usize; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// The action of a FIFO when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    DropNew,
    DropOldest,
}

/// A FIFO: packets, their bytes, and a limit on one of them.
#[derive(Clone, Debug)]
struct Fifo {
    queue: VecDeque<(u32, u64)>,
    limit: u64,
    in_bytes: bool,
    full: Full,
    drops: Vec<(u32, DropReason)>,
}

impl Fifo {
    fn new(limit: u64, in_bytes: bool, full: Full) -> Self {
        Self { queue: VecDeque::new(), limit, in_bytes, full, drops: Vec::new() }
    }
    fn used(&self) -> u64 {
        if self.in_bytes { self.queue.iter().map(|p| p.1).sum() } else { self.queue.len() as u64 }
    }
    fn put(&mut self, id: u32, bytes: u64) {
        let more = if self.in_bytes { bytes } else { 1 };
        let fits = self.used() + more <= self.limit;
        if !fits && (self.full == Full::DropNew || self.limit == 0) {
            self.drops.push((id, DropReason::Overlimit));
            return;
        }
        if !fits && let Some((oldest, _)) = self.queue.pop_front() {
            self.drops.push((oldest, DropReason::HeadDrop));
        }
        self.queue.push_back((id, bytes));
    }
    fn take(&mut self) -> Option<u32> {
        self.queue.pop_front().map(|p| p.0)
    }
    fn shrink(&mut self, limit: u64) {
        self.limit = limit;
        while self.used() > self.limit {
            self.drops.extend(self.queue.pop_front().map(|p| (p.0, DropReason::Purged)));
        }
    }
}

#[test]
fn fifos_equal_their_model() {
    let kinds = [("pfifo", Full::DropNew), ("bfifo", Full::DropNew), ("pfifo_head_drop", Full::DropOldest)];
    for (kind, full) in kinds {
        let in_bytes = kind == "bfifo";
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let limit = log_uniform(&mut rng, if in_bytes { 60_000 } else { 40 });
            let mut lane = Lane::new(kind, &format!("limit {limit}"));
            let mut model = Fifo::new(limit, in_bytes, full);
            for id in 0..2000 {
                if chance(&mut rng, 1, 2) {
                    let len = rng.below(3000);
                    let _ = lane.put(Instant::ZERO, id, Meta::new(len as u32));
                    model.put(id, len);
                } else {
                    assert_eq!(lane.take(Instant::ZERO).id(), model.take(), "{kind} {seed}: {id}");
                }
                if chance(&mut rng, 1, 200) {
                    let limit = log_uniform(&mut rng, if in_bytes { 60_000 } else { 40 });
                    lane.change(Instant::ZERO, Handle::ROOT, &format!("limit {limit}")).unwrap();
                    model.shrink(limit);
                }
                assert_eq!(lane.drops(), std::mem::take(&mut model.drops), "{kind} {seed}: {id}");
                assert_eq!(lane.backlog(), model.queue.len() as u64, "{kind} {seed}: {id}");
            }
        }
    }
}

#[test]
fn pfifo_fast_is_three_fifos_in_strict_order() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let tx_queue_len = 1 + rng.below(20) as u32;
        let mut lane = Lane::on(Env { tx_queue_len, ..Env::default() }, "pfifo_fast", "");
        let mut bands = vec![Fifo::new(u64::from(tx_queue_len), false, Full::DropNew); 3];
        for id in 0..2000 {
            if chance(&mut rng, 3, 5) {
                // Only the low four bits of a priority count.
                let priority = rng.next_u64() as u32;
                let _ = lane.put(Instant::ZERO, id, Meta::new(100).priority(priority));
                bands[BANDS[(priority & 15) as usize]].put(id, 100);
            } else {
                let expected = bands.iter_mut().find_map(Fifo::take);
                assert_eq!(lane.take(Instant::ZERO).id(), expected, "{seed}: {id}");
            }
            let mut drops: Vec<_> = bands.iter_mut().flat_map(|b| std::mem::take(&mut b.drops)).collect();
            drops.sort_by_key(|d| d.0);
            assert_eq!(lane.drops(), drops, "{seed}: {id}");
        }
    }
}

#[test]
fn priorities_choose_the_bands_of_the_manual() {
    for kind in ["pfifo_fast", "prio"] {
        let mut lane = Lane::new(kind, "");
        for priority in 0..16 {
            lane.fill(Instant::ZERO, priority, 1, Meta::new(60).priority(priority));
        }
        // Band 0: interactive and control. Band 1: best effort and the unnamed. Band 2: bulk and
        // filler.
        let order = [6, 7, 0, 4, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2, 3, 5];
        assert_eq!(lane.ids(Instant::ZERO, 17), order, "{kind}");
    }
}

/// prio as FIFOs, with another prio as one class.
#[derive(Debug)]
struct PrioModel {
    bands: Vec<Fifo>,
    map: Vec<usize>,
    major: u32,
    /// The band that is another prio.
    nested: Option<(usize, Box<PrioModel>)>,
}

impl PrioModel {
    fn band(&self, priority: u32) -> usize {
        let minor = (priority & 0xffff) as usize;
        match priority >> 16 {
            0 => self.map[minor & 15],
            major if major == self.major && (1..=self.bands.len()).contains(&minor) => minor - 1,
            _ => self.map[0],
        }
    }
    fn put(&mut self, id: u32, priority: u32) {
        let band = self.band(priority);
        match &mut self.nested {
            Some((at, below)) if *at == band => below.put(id, priority),
            _ => self.bands[band].put(id, 0),
        }
    }
    fn take(&mut self) -> Option<u32> {
        (0..self.bands.len()).find_map(|band| match &mut self.nested {
            Some((at, below)) if *at == band => below.take(),
            _ => self.bands[band].take(),
        })
    }
    fn drops(&mut self) -> Vec<(u32, DropReason)> {
        let mut all: Vec<_> = self.bands.iter_mut().flat_map(|b| std::mem::take(&mut b.drops)).collect();
        if let Some((_, below)) = &mut self.nested {
            all.extend(below.drops());
        }
        all
    }
}

fn random_prio(rng: &mut Rng, limit: u32) -> (String, PrioModel) {
    let bands = 2 + rng.below(15) as usize;
    let map: Vec<usize> = (0..16).map(|_| rng.below(bands as u64) as usize).collect();
    let words = map.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let fifo = Fifo::new(u64::from(limit), false, Full::DropNew);
    let model = PrioModel { bands: vec![fifo; bands], map, major: 0x8001, nested: None };
    (format!("bands {bands} priomap {words}"), model)
}

#[test]
fn prio_equals_its_model_with_a_prio_below() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let tx_queue_len = 1 + rng.below(12) as u32;
        let (options, mut model) = random_prio(&mut rng, tx_queue_len);
        let mut lane = Lane::on(Env { tx_queue_len, ..Env::default() }, "prio", &options);
        assert_eq!(lane.root().handle(), Handle::new(0x8001, 0));
        if chance(&mut rng, 2, 3) {
            let (options, mut below) = random_prio(&mut rng, tx_queue_len);
            let at = rng.below(model.bands.len() as u64) as usize;
            let handle = lane.graft(Instant::ZERO, Handle::new(0x8001, at as u16 + 1), "prio", &options);
            below.major = u32::from(handle.major());
            model.nested = Some((at, Box::new(below)));
        }
        for id in 0..2000 {
            if chance(&mut rng, 3, 5) {
                let major = *pick(&mut rng, &[0, 0, 0x8001, 0x8002, 7]);
                let priority = major << 16 | rng.below(20) as u32;
                let _ = lane.put(Instant::ZERO, id, Meta::new(60).priority(priority));
                model.put(id, priority);
            } else {
                assert_eq!(lane.take(Instant::ZERO).id(), model.take(), "{seed}: {id}");
            }
            assert_eq!(lane.drops(), model.drops(), "{seed}: {id}");
        }
    }
}

#[test]
fn prio_wakes_for_the_earliest_of_its_bands_and_serves_the_highest_that_may() {
    let mut lane = Lane::new("prio", "");
    let class = |minor| Handle::new(0x8001, minor);
    // 1000 ns and 500 ns per byte, a bucket of one packet each; band 2 is not shaped.
    lane.graft(Instant::ZERO, class(1), "tbf", "rate 1mbps burst 1000 limit 100k");
    lane.graft(Instant::ZERO, class(2), "tbf", "rate 2mbps burst 1000 limit 100k");
    for band in 0..2_u32 {
        lane.fill(Instant::ZERO, 10 * band, 4, Meta::new(1000).priority(class(band as u16 + 1).0));
    }
    let mut seen = Vec::new();
    let mut now = Instant::ZERO;
    loop {
        match lane.take(now) {
            Out::Sent(id, _) => seen.push((now.0 / 1000, id)),
            Out::Wait(t) => now = t,
            Out::Nothing => break,
        }
        if seen.len() == 4 && lane.backlog() == 4 {
            lane.fill(now, 20, 1, Meta::new(1000).priority(class(3).0));
        }
    }
    let expected =
        [(0, 0), (0, 10), (500, 11), (1000, 1), (1000, 12), (1000, 20), (1500, 13), (2000, 2), (3000, 3)];
    assert_eq!(seen, expected);
}

#[test]
fn a_change_below_is_settled_by_everything_above() {
    let mut lane = Lane::new("prio", "");
    let tbf = lane.graft(Instant::ZERO, Handle::new(0x8001, 1), "tbf", "rate 1kbps burst 2000 limit 100k");
    let class = Handle::new(tbf.major(), 1);
    lane.graft(Instant::ZERO, class, "pfifo", "limit 50");
    lane.fill(Instant::ZERO, 0, 10, Meta::new(1000).priority(6));
    lane.change(Instant::ZERO, class, "limit 4").unwrap();
    lane.path.tree().visit(&mut |place, node| {
        let b = node.books();
        if b.admitted.packets > 0 {
            assert_eq!((b.queued.packets, b.dropped.packets), (4, 6), "{place:?}");
        }
    });
    assert_eq!(lane.drops().len(), 6);
}

#[test]
fn a_path_may_be_let_go_with_packets_in_it() {
    // A shaper above an AQM holds a peeked packet while it waits for tokens.
    let mut lane = Lane::new("tbf", "rate 1kbps burst 2000 limit 100k");
    lane.graft(Instant::ZERO, Handle::new(0x8001, 1), "codel", "");
    lane.fill(Instant::ZERO, 0, 5, Meta::new(1500));
    while lane.take(Instant::ZERO).id().is_some() {}
    assert_eq!(lane.backlog(), 4);
    drop(lane);
}

#[test]
fn defaults_follow_the_device() {
    let env = Env { mtu: 1500, link_header: 14, tx_queue_len: 1000, ..Env::default() };
    let jumbo = Env { mtu: 9000, link_header: 18, tx_queue_len: 500, ..Env::default() };
    for (env, kind, key, value) in [
        (env, "pfifo", "limit", "1000p"),
        (env, "pfifo_head_drop", "limit", "1000p"),
        (env, "bfifo", "limit", "1514000b"),
        (env, "fq_codel", "quantum", "1514"),
        (env, "fq_codel", "limit", "10240p"),
        (env, "fq_codel", "flows", "1024"),
        (env, "fq_codel", "memory_limit", "33554432b"),
        (env, "fq_codel", "drop_batch", "64"),
        (env, "fq_codel", "target", "4999168ns"),
        (env, "fq_codel", "interval", "99999744ns"),
        (env, "fq_pie", "quantum", "1514b"),
        (env, "fq_pie", "limit", "10240p"),
        (env, "fq_pie", "memory_limit", "33554432b"),
        (env, "fq_pie", "ecn_prob", "10"),
        (env, "codel", "limit", "1000p"),
        (env, "codel", "target", "4999168ns"),
        (env, "codel", "interval", "99999744ns"),
        (env, "prio", "bands", "3"),
        (env, "prio", "priomap", "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"),
        (jumbo, "pfifo", "limit", "500p"),
        (jumbo, "bfifo", "limit", "4509000b"),
        (jumbo, "fq_codel", "quantum", "9018"),
        (jumbo, "fq_pie", "quantum", "9018b"),
    ] {
        let lane = Lane::on(env, kind, "");
        let mut shown = None;
        lane.root().qdisc().options(&mut |s| {
            if s.param.key == key {
                let mut text = String::new();
                Show::exact(s.value, &mut text).unwrap();
                shown = Some(text);
            }
        });
        assert_eq!(shown.as_deref(), Some(value), "{kind} {key}");
    }
    for (kind, ecn) in [("codel", false), ("fq_codel", true), ("fq_pie", false)] {
        let lane = Lane::new(kind, "");
        let printed = common::options::printed(lane.root().qdisc());
        assert_eq!(printed.contains(&"ecn".to_string()), ecn, "{kind} {printed:?}");
    }
}
