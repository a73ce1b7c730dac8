//! A global allocator that counts, for tests of what allocates and of how much memory is held.
//!
//! A test binary that uses one of the functions has this allocator. It passes each call on to the
//! system's allocator. It counts per thread: the allocations of other tests, on threads of their
//! own, do not count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Returns the calls of the allocator that `f` makes for memory. Blocks that are only given back do
/// not count.
pub fn calls(f: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    f();
    CALLS.get() - before
}

/// Returns the calls of the allocator that this thread has made for memory so far.
pub fn made() -> u64 {
    CALLS.get()
}

/// Returns the bytes that this thread has allocated less those that it has given back. The figure
/// is negative if the thread has freed more memory of other threads than it holds.
pub fn held() -> i64 {
    HELD.get()
}

/// Runs `f` and returns its result, with the most bytes that this thread held more than before.
pub fn peak<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let result = f();
    (result, u64::try_from(PEAK.get() - before).unwrap_or(0))
}

struct Counting;

/// Counts a call for `made` bytes in the place of `gone` bytes.
fn count(made: usize, gone: usize) {
    if made > 0 {
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }
    // The thread may be ending, without its counters: then no test reads them either.
    let _ = HELD.try_with(|held| {
        let now = held.get() + made as i64 - gone as i64;
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract;
// counting touches thread-local cells and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are those that this call needs.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are those that this call needs.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: `ptr` came from `System` with this layout, because all our allocations do.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: `ptr` came from `System` with this layout, because all our allocations do.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn a_call_counts_when_it_is_for_memory() {
        let mut kept = Vec::new();
        assert_eq!(calls(|| kept = black_box(vec![1u8; 100])), 1);
        assert_eq!(calls(|| black_box(&mut kept).reserve_exact(1000)), 1);
        assert_eq!(calls(|| drop(kept)), 0);
    }

    #[test]
    fn what_is_held_is_what_was_made_less_what_was_given_back() {
        let before = held();
        let block = black_box(vec![0u8; 1000]);
        let other = black_box(vec![1u8; 500]);
        assert_eq!(held() - before, 1500);
        drop(block);
        assert_eq!(held() - before, 500);
        drop(other);
        assert_eq!(held(), before);
    }

    #[test]
    fn the_peak_is_of_what_was_given_back_too() {
        let block = |len: usize| drop(black_box(vec![1u8; len]));
        let (_, most) = peak(|| [3 << 20, 2 << 20].map(block));
        assert_eq!(most, 3 << 20);
    }
}
