//! The time of an item from any of several threads to one, by the admission list and by the queues
//! of other crates.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Instant as Clock;

use crossbeam_queue::{ArrayQueue, SegQueue};
use txweir_handoff::list;

use crate::common::{default_cpu, lock};

/// Places of every bounded queue.
pub const PLACES: usize = 1024;

/// Tries in vain before a thread lets others run: on a machine with fewer processors than threads
/// it may be waiting for one of these.
const TRIES: u32 = 64;

/// The end of a queue where a thread puts items; an item that does not fit comes back.
type Put = Box<dyn FnMut(u64) -> Result<(), u64> + Send>;
/// The end where one thread takes them.
type Take = Box<dyn FnMut() -> Option<u64> + Send>;

/// A queue: its ends, for a number of producers.
#[derive(Debug)]
pub struct Peer {
    /// The name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Creates the ends for this number of producers; `None` if the queue does not support it.
    make: fn(usize) -> Option<(Vec<Put>, Take)>,
}

/// Every queue that can be timed.
pub const PEERS: &[Peer] = &[
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
        let mut queue = lock(queue);
        if queue.len() == PLACES {
            return Err(item);
        }
        queue.push_back(item);
        Ok(())
    };
    shared(producers, &queue, push, |queue| lock(queue).pop_front())
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

/// Passes `each` items from each producer. Returns nanoseconds per item, of all.
fn run(puts: &mut [Put], take: &mut Take, each: u64) -> f64 {
    let processors = default_cpu() + 1;
    let total = each * puts.len() as u64;
    let gate = Barrier::new(puts.len() + 1);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (who, put) in puts.iter_mut().enumerate() {
            let (gate, failed) = (&gate, &failed);
            scope.spawn(move || {
                // The last processor is the consumer's; a processor that may not be chosen is no
                // error.
                let _ = txweir_device::cpu::pin(who % (processors - 1).max(1));
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
            let _ = txweir_device::cpu::pin(processors - 1);
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

/// Samples of a queue with a number of producers.
#[derive(Debug)]
pub struct Series {
    /// The queue.
    pub peer: &'static Peer,
    /// Threads that put items into it; one more takes them.
    pub producers: usize,
    /// Nanoseconds per item, one sample a round.
    pub ns: Vec<f64>,
}

/// Times every queue that supports this number of producers, or the one named `only`: each once a
/// round, with `packets` items of all producers together. One more round comes first and is not
/// counted. The list is empty if no queue has that name; 0 producers count as 1.
pub fn measure(producers: usize, rounds: u32, packets: u64, only: Option<&str>) -> Vec<Series> {
    let producers = producers.max(1);
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
