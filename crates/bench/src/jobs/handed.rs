//! A queue that many threads may send by, used by one: the cost of its admission without
//! contention.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::Instant as Clock;

use txweir_core::{Instant, Meta, Nanos, PathConfig, TxPath};
use txweir_handoff::{Drain, Owner, Queue, QueueConfig, Rest, Wakeup};

use super::path::{BURST, Run};
use crate::nullring::NullRing;

/// A kind that packets pass by while it is empty.
pub(super) const DIRECT: &str = "pfifo_fast";
/// A kind that no packet passes by.
pub(super) const SCHEDULER: &str = "prio";

/// Returns the monotonic time of the standard library: rustix's call crashes under valgrind, which
/// counts these jobs.
fn time() -> Instant {
    static START: LazyLock<Clock> = LazyLock::new(Clock::now);
    Instant::ZERO + Nanos(START.elapsed().as_nanos() as u64) // 584 years
}

fn queue(kind: &str, drain: Drain) -> Arc<Queue<NullRing<u64>>> {
    let config = PathConfig { pool: 1024, bql: None, ..PathConfig::default() };
    let path = TxPath::new(config).map_err(|e| e.to_string());
    let path = match path.and_then(|path| path.with_qdisc(kind, &[]).map_err(|e| e.to_string())) {
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

/// Sends packet by packet: directly past pfifo_fast, and through any qdisc that schedules.
pub(super) fn each(kind: &str) -> Run {
    let queue = queue(kind, Drain::Caller);
    Box::new(move |packets| {
        for i in 0..packets {
            let _ = black_box(queue.send(i, meta(i)));
        }
    })
}

/// Sends bursts in the same way.
pub(super) fn bursts(kind: &str) -> Run {
    let queue = queue(kind, Drain::Caller);
    Box::new(move |packets| {
        for _ in 0..packets / BURST {
            black_box(queue.send_burst(&mut burst()));
        }
    })
}

/// Sends packet by packet or in bursts, by the sender to which the queue is biased.
pub(super) fn owner(by_burst: bool) -> Run {
    let Some(mut owner) = Owner::new(queue(DIRECT, Drain::Caller)) else {
        // A system without membarrier(2) has no owners: their sends would take this way.
        return if by_burst { bursts(DIRECT) } else { each(DIRECT) };
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
    let queue = queue(DIRECT, Drain::Worker);
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
