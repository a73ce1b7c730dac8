//! Cost of an event: packets in flight on a few links, with timers beside them, in three ways:
//! lanes, the engine's heap without lanes, the standard library's heap. `cargo run --release -p
//! txweir-lab --example engine_speed`

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant as Wall;

use txweir_lab::engine::{Engine, Lane, Payload};
use txweir_lab::{Instant, Nanos};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(u8);

impl Payload for Kind {
    fn word(self) -> u64 {
        u64::from(self.0)
    }
}

const EVENTS: u64 = 5_000_000;
const LINKS: u32 = 4;

fn main() {
    println!("packets in flight  timers  ns/event: lanes  one heap  std BinaryHeap");
    for (packets, timers) in [(8, 20), (100, 20), (1000, 20), (1000, 2000), (10_000, 2000)] {
        let median = |f: fn(u32, u32) -> u64| {
            let mut ns: Vec<f64> = (0..7)
                .map(|_| {
                    let t = Wall::now();
                    std::hint::black_box(f(packets, timers));
                    t.elapsed().as_secs_f64() * 1e9 / EVENTS as f64
                })
                .collect();
            ns.sort_by(f64::total_cmp);
            ns[3]
        };
        let (a, b, c) = (median(lanes), median(heap), median(std_heap));
        println!("{packets:17}  {timers:6}  {a:15.1}  {b:8.1}  {c:14.1}");
    }
}

/// Returns the delay of link `i`: delays differ, so that the links interleave.
fn delay(i: u32) -> Nanos {
    Nanos(500_000 + 12_304 * u64::from(i))
}

fn lanes(packets: u32, timers: u32) -> u64 {
    let mut e = Engine::new();
    let mut lanes: Vec<Lane<u32, Kind>> = (0..LINKS).map(|i| Lane::new(i, Kind(1))).collect();
    for t in 0..timers {
        e.schedule(Instant(1_000_000_000_000 + u64::from(t)), t, Kind(0));
    }
    for p in 0..packets {
        lanes[(p % LINKS) as usize].push(&mut e, Instant(u64::from(p) * 100), p);
    }
    let mut sum = 0;
    for _ in 0..EVENTS {
        let Some(ev) = e.next(Instant::MAX) else { break };
        let lane = &mut lanes[ev.actor as usize];
        let Some(p) = lane.pop(&mut e) else { break };
        sum += u64::from(p);
        lane.push(&mut e, ev.at + delay(ev.actor), p);
    }
    sum
}

fn heap(packets: u32, timers: u32) -> u64 {
    let mut e = Engine::new();
    for t in 0..timers {
        e.schedule(Instant(1_000_000_000_000 + u64::from(t)), t, Kind(0));
    }
    for p in 0..packets {
        e.schedule(Instant(u64::from(p) * 100), p, Kind(1));
    }
    let mut sum = 0;
    for _ in 0..EVENTS {
        let Some(ev) = e.next(Instant::MAX) else { break };
        sum += u64::from(ev.actor);
        e.schedule(ev.at + delay(ev.actor % LINKS), ev.actor, Kind(1));
    }
    sum
}

fn std_heap(packets: u32, timers: u32) -> u64 {
    let (mut h, mut seq) = (BinaryHeap::new(), 0_u64);
    let mut add = |h: &mut BinaryHeap<_>, at: Instant, actor: u32, kind| {
        h.push(Reverse((at, seq, actor, kind)));
        seq += 1;
    };
    for t in 0..timers {
        add(&mut h, Instant(1_000_000_000_000 + u64::from(t)), t, Kind(0));
    }
    for p in 0..packets {
        add(&mut h, Instant(u64::from(p) * 100), p, Kind(1));
    }
    let mut sum = 0;
    for _ in 0..EVENTS {
        let Some(Reverse((at, _, actor, _))) = h.pop() else { break };
        sum += u64::from(actor);
        add(&mut h, at + delay(actor % LINKS), actor, Kind(1));
    }
    sum
}
