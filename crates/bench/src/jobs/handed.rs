//! A queue that many threads may send by, used by one: the cost of its admission without
//! contention.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::Instant as Clock;

use txweir_core::{Instant, Meta, Nanos, PathConfig, TxPath};
use txweir_handoff::{Drain, Owner, Queue, QueueConfig, Rest, Wakeup};

use super::path::{BURST, Run};
use crate::nullring::NullRing;

/// Returns the monotonic time of the standard library: rustix's call crashes under valgrind, which
/// counts these jobs.
fn time() -> Instant {
    static START: LazyLock<Clock> = LazyLock::new(Clock::now);
    Instant::ZERO + Nanos(START.elapsed().as_nanos() as u64) // 584 years
}

fn queue(drain: Drain) -> Arc<Queue<NullRing<u64>>> {
    let config = PathConfig { pool: 1024, bql: None, ..PathConfig::default() };
    let path = match TxPath::new(config) {
        Ok(path) => path,
        Err(e) => unreachable!("a benchmark's own options are right: {e}"),
    };
    let config = QueueConfig { drain, ..QueueConfig::new(time) };
    Arc::new(Queue::new(path, NullRing::new().0, config, Wakeup::calling(|| {})))
}

fn meta(i: u64) -> Meta {
    Meta::new(64).hash(i as u32)
}

/// Packets of a burst.
fn burst() -> impl Iterator<Item = (u64, Meta)> {
    (0..BURST).map(|i| (i, meta(i)))
}

/// Sends packet by packet, directly.
pub(super) fn direct() -> Run {
    let queue = queue(Drain::Caller);
    Box::new(move |packets| {
        for i in 0..packets {
            let _ = black_box(queue.send(i, meta(i)));
        }
    })
}

/// Sends bursts, directly.
pub(super) fn bursts() -> Run {
    let queue = queue(Drain::Caller);
    Box::new(move |packets| {
        for _ in 0..packets / BURST {
            black_box(queue.send_burst(&mut burst()));
        }
    })
}

/// Sends packet by packet or in bursts, by the sender to which the queue is biased.
pub(super) fn owner(by_burst: bool) -> Run {
    let Some(mut owner) = Owner::new(queue(Drain::Caller)) else {
        // A system without membarrier(2) has no owners: their sends would take this way.
        return if by_burst { bursts() } else { direct() };
    };
    Box::new(move |packets| {
        if by_burst {
            for _ in 0..packets / BURST {
                black_box(owner.send_burst(&mut burst()));
            }
        } else {
            for i in 0..packets {
                let _ = black_box(owner.send(i, meta(i)));
            }
        }
    })
}

/// Sends through the admission list, packet by packet or in bursts: the service takes them.
pub(super) fn listed(by_burst: bool) -> Run {
    let queue = queue(Drain::Worker);
    Box::new(move |packets| {
        for _ in 0..packets / BURST {
            if by_burst {
                black_box(queue.send_burst(&mut burst()));
            } else {
                for i in 0..BURST {
                    let _ = black_box(queue.send(i, meta(i)));
                }
            }
            while queue.serve() == Rest::Again {}
        }
    })
}
