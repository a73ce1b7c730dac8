//! `txweir bench --producers N`: how long an item takes from any of several threads to one, by the admission list and by
//! the queues of others.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant as Clock;

use crossbeam_queue::{ArrayQueue, SegQueue};
use txweir::handoff::list;

use super::{Args, default_cpu, spread};
use crate::Failure;

/// Places of every queue that is bounded.
const PLACES: usize = 1024;

/// Tries in vain before a thread lets others go first: on a machine with fewer processors than threads they may be the ones that
/// are waited for.
const TRIES: u32 = 64;

/// The end of a queue where a thread puts items; what does not fit comes back.
type Put = Box<dyn FnMut(u64) -> Result<(), u64> + Send>;
/// The end where one thread takes them.
type Take = Box<dyn FnMut() -> Option<u64> + Send>;

/// A queue: its ends, for so many producers.
struct Peer {
    name: &'static str,
    about: &'static str,
    /// `None` if it is not for so many.
    make: fn(usize) -> Option<(Vec<Put>, Take)>,
}

const PEERS: &[Peer] = &[
    Peer { name: "admission", about: "the list of txweir's handoff", make: |n| Some(admission(n)) },
    Peer {
        name: "ArrayQueue",
        about: "bounded, any to any, crate crossbeam-queue",
        make: |n| {
            let queue = Arc::new(ArrayQueue::new(PLACES));
            Some(shared(n, &queue, |q, i| q.push(i), ArrayQueue::pop))
        },
    },
    Peer {
        name: "SegQueue",
        about: "unbounded, any to any, same crate",
        make: |n| {
            let queue = Arc::new(SegQueue::new());
            Some(shared(
                n,
                &queue,
                |q, i| {
                    q.push(i);
                    Ok(())
                },
                SegQueue::pop,
            ))
        },
    },
    Peer {
        name: "Mutex<VecDeque>",
        about: "the standard library's, one lock per operation",
        make: |n| Some(locked(n)),
    },
    Peer { name: "rtrb", about: "single-producer ring, crate rtrb", make: single },
];

fn admission(producers: usize) -> (Vec<Put>, Take) {
    let (put, mut take) = list::<u64, ()>(PLACES, false);
    let puts = (0..producers)
        .map(|_| {
            let put = put.clone();
            Box::new(move |item| put.push(item, None).map(drop)) as Put
        })
        .collect();
    (puts, Box::new(move || take.pop(&mut ()).map(|(item, _)| item)))
}

fn shared<Q: Send + Sync + 'static>(
    producers: usize,
    queue: &Arc<Q>,
    push: fn(&Q, u64) -> Result<(), u64>,
    pop: fn(&Q) -> Option<u64>,
) -> (Vec<Put>, Take) {
    let puts = (0..producers)
        .map(|_| {
            let queue = Arc::clone(queue);
            Box::new(move |item| push(&queue, item)) as Put
        })
        .collect();
    let queue = Arc::clone(queue);
    (puts, Box::new(move || pop(&queue)))
}

fn locked(producers: usize) -> (Vec<Put>, Take) {
    let queue = Arc::new(Mutex::new(VecDeque::with_capacity(PLACES)));
    let push = |queue: &Mutex<VecDeque<u64>>, item| {
        let mut queue = super::jobs::lock(queue);
        if queue.len() == PLACES {
            return Err(item);
        }
        queue.push_back(item);
        Ok(())
    };
    shared(producers, &queue, push, |queue| super::jobs::lock(queue).pop_front())
}

fn single(producers: usize) -> Option<(Vec<Put>, Take)> {
    let (mut put, mut take) = rtrb::RingBuffer::<u64>::new(PLACES);
    let push = move |item| put.push(item).map_err(|rtrb::PushError::Full(item)| item);
    (producers == 1).then(|| (vec![Box::new(push) as Put], Box::new(move || take.pop().ok()) as Take))
}

/// Waits a little, and then longer.
fn wait(tries: &mut u32) {
    *tries += 1;
    if tries.is_multiple_of(TRIES) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// So many items by each producer; nanoseconds per item, of all.
fn run(puts: &mut [Put], take: &mut Take, each: u64) -> f64 {
    let processors = default_cpu() + 1;
    let total = each * puts.len() as u64;
    let gate = Barrier::new(puts.len() + 1);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (who, put) in puts.iter_mut().enumerate() {
            let (gate, failed) = (&gate, &failed);
            scope.spawn(move || {
                // The consumer has the last; one that may not be chosen is no error.
                let _ = txweir::device::cpu::pin(who % (processors - 1).max(1));
                gate.wait();
                let mut tries = 0;
                for i in 0..each {
                    let mut item = i;
                    while let Err(back) = put(item) {
                        item = back;
                        wait(&mut tries);
                        if failed.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            });
        }
        let consumer = scope.spawn(|| {
            let _ = txweir::device::cpu::pin(processors - 1);
            gate.wait();
            let start = Clock::now();
            let mut tries = 0;
            let mut got = 0;
            while got < total {
                match take() {
                    Some(item) => {
                        black_box(item);
                        got += 1;
                    }
                    None => wait(&mut tries),
                }
            }
            start.elapsed().as_nanos() as f64 / total as f64
        });
        let ns = consumer.join();
        failed.store(true, Ordering::Relaxed);
        ns.unwrap_or(f64::NAN)
    })
}

/// Samples of a queue with so many producers.
struct Series {
    peer: &'static Peer,
    producers: usize,
    ns: Vec<f64>,
}

fn measure(producers: usize, rounds: u32, packets: u64, only: Option<&str>) -> Vec<Series> {
    let mut all: Vec<(Series, (Vec<Put>, Take))> = PEERS
        .iter()
        .filter(|peer| only.is_none_or(|only| only == peer.name))
        .filter_map(|peer| Some((Series { peer, producers, ns: Vec::new() }, (peer.make)(producers)?)))
        .collect();
    for round in 0..=rounds {
        for (series, (puts, take)) in &mut all {
            let ns = run(puts, take, (packets / producers as u64).max(1));
            if round > 0 {
                series.ns.push(ns);
            }
        }
    }
    all.into_iter().map(|(series, _)| series).collect()
}

/// Runs `txweir bench --producers N`.
pub(super) fn main(args: &Args, producers: usize) -> Result<(), Failure> {
    if let Some(only) = &args.only
        && PEERS.iter().all(|peer| peer.name != only)
    {
        let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        let names = names.join(", ");
        return Err(Failure::usage(format!("--only: expected one of {names}, given \"{only}\"")));
    }
    let mut counts = vec![1, producers];
    counts.dedup();
    let all = counts.iter().flat_map(|n| measure(*n, args.rounds, args.packets, args.only.as_deref()));
    let all: Vec<Series> = all.collect();
    let processors = default_cpu() + 1;
    if args.json {
        let rows = all.iter().map(|s| {
            let [median, least, most] = spread(&s.ns);
            serde_json::json!({
                "job": s.peer.name, "about": s.peer.about, "producers": s.producers, "unit": "ns/item",
                "median": median, "min": least, "max": most,
                "rounds": args.rounds, "packets": args.packets, "processors": processors,
            })
        });
        println!("{:#}", serde_json::Value::Array(rows.collect()));
        return Ok(());
    }
    println!(
        "ns per item of 8 bytes from producers to one consumer, {PLACES} places; {} interleaved rounds of {} items; \
         {processors} processors, of which the consumer has one\n",
        args.rounds, args.packets
    );
    println!("{:18} {:>9} {:>8} {:>8} {:>8}  ", "queue", "producers", "median", "least", "most");
    for s in &all {
        let [median, least, most] = spread(&s.ns);
        let (name, about) = (s.peer.name, s.peer.about);
        println!("{name:18} {:>9} {median:8.2} {least:8.2} {most:8.2}  {about}", s.producers);
    }
    if producers >= processors {
        println!(
            "\n{producers} producers and the consumer share {processors} processors: much of the time is the scheduler's"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_passes_every_item() {
        for producers in [1, 3] {
            let all = measure(producers, 1, 3000, None);
            assert_eq!(all.len(), if producers == 1 { 5 } else { 4 });
            assert!(all.iter().all(|s| s.ns.iter().all(|ns| ns.is_finite() && *ns > 0.0)));
        }
    }
}
