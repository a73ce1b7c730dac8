//! The time that a word takes from one thread to another: two threads pass it to and fro. It is the
//! least that one sender of a queue costs another, and depends on how far apart the processors lie.
//!
//!     cargo run --release -p txweir-handoff --example word

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Times that each thread passes the word on.
const TIMES: u32 = 100_000;

/// Tries in vain before a thread lets others run: the other one may need its processor.
const TRIES: u32 = 1024;

/// Passes the word on whenever it has this remainder by two.
fn pass_on(word: &AtomicU32, mine: u32) {
    for turn in 0..TIMES {
        let mut tries = 0_u32;
        // The loop ends: the other thread has as many turns.
        while word.load(Ordering::Acquire) != 2 * turn + mine {
            tries += 1;
            match tries.is_multiple_of(TRIES) {
                true => std::thread::yield_now(),
                false => std::hint::spin_loop(),
            }
        }
        word.store(2 * turn + mine + 1, Ordering::Release);
    }
}

fn main() {
    let mut all: Vec<f64> = (0..15)
        .map(|_| {
            let word = AtomicU32::new(0);
            let start = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| pass_on(&word, 1));
                pass_on(&word, 0);
            });
            start.elapsed().as_nanos() as f64 / f64::from(2 * TIMES)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    println!("{:.1} ns [{:.1}-{:.1}] from thread to thread", all[7], all[0], all[14]);
}
