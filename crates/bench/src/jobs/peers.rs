//! The queues of other crates that the path is timed beside, and yardsticks of the machine.

use std::hint::black_box;

use txweir_core::Meta;
use txweir_core::base::rng::Rng;

use super::path::{BURST, Run};
use crate::common::lock;

/// Runs bursts through a queue of another crate that carries the same 60 bytes of metadata. Its
/// operations are types, not pointers, so that the compiler inlines them as those of a path.
fn peer<Q: 'static>(
    mut q: Q,
    push: impl Fn(&mut Q, Meta) + 'static,
    pop: impl Fn(&mut Q) -> Option<Meta> + 'static,
) -> Run {
    Box::new(move |packets| {
        for _ in 0..packets / BURST {
            for i in 0..BURST {
                push(&mut q, Meta::new(64).hash(i as u32));
            }
            for _ in 0..BURST {
                black_box(pop(&mut q).map(|m| m.hash));
            }
        }
    })
}

pub(super) fn rtrb_ring() -> Run {
    let ring = rtrb::RingBuffer::<Meta>::new(1024);
    peer(
        ring,
        |q, m| {
            let _ = q.0.push(m);
        },
        |q| q.1.pop().ok(),
    )
}

pub(super) fn array_queue() -> Run {
    let queue = crossbeam_queue::ArrayQueue::<Meta>::new(1024);
    peer(
        queue,
        |q, m| {
            let _ = q.push(m);
        },
        |q| q.pop(),
    )
}

pub(super) fn locked_deque() -> Run {
    let queue = std::sync::Mutex::new(std::collections::VecDeque::<Meta>::with_capacity(1024));
    peer(queue, |q, m| lock(q).push_back(m), |q| lock(q).pop_front())
}

/// Runs only the work of the jobs besides queueing.
pub(super) fn make_meta() -> Run {
    let kinds = [(0, 1)];
    Box::new(move |packets| {
        for i in 0..packets {
            let (priority, hash) = kinds[i as usize & (black_box(kinds.len()) - 1)];
            black_box(&Meta::new(64).priority(priority).hash(hash));
        }
    })
}

/// Walks through 64 MB in one random cycle (Sattolo's shuffle), one load after the other.
pub(super) fn cache_miss() -> Run {
    let mut next: Vec<u32> = (0..16 << 20).collect();
    let mut rng = Rng::new(3);
    for i in (1..next.len()).rev() {
        next.swap(i, rng.below(i as u64) as usize);
    }
    let mut at = 0;
    Box::new(move |loads| {
        for _ in 0..loads {
            at = next[at as usize];
        }
        black_box(at);
    })
}

/// Runs a chain of multiplication and exclusive or: 3 + 1 cycles a step on every recent x86 and Arm
/// server core.
pub(super) fn chain() -> Run {
    let mut x = 1u64;
    Box::new(move |steps| {
        for _ in 0..steps {
            x = x.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ (x >> 29);
        }
        black_box(x);
    })
}
