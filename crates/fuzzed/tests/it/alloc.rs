//! An allocator that counts the bytes of each thread, and the most that a thread had.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Adds the bytes of a block that is made, and subtracts those of one that is given back.
fn hold(made: usize, gone: usize) {
    // The thread may be ending, without its counter: then no test reads the count either.
    let _ = HELD.try_with(|held| {
        let now = held.get() + made as i64 - gone as i64;
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract;
// counting touches two thread-local cells and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        hold(layout.size(), 0);
        // SAFETY: the caller's promises are those that this call needs.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        hold(layout.size(), 0);
        // SAFETY: the caller's promises are those that this call needs.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: `ptr` came from `System` with this layout, because all our allocations do.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        hold(new_size, layout.size());
        // SAFETY: `ptr` came from `System` with this layout, because all our allocations do.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `f` and returns its result, with the most bytes that this thread had more than before.
pub fn peak<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let result = f();
    (result, u64::try_from(PEAK.get() - before).unwrap_or(0))
}

#[test]
fn the_peak_is_of_what_was_given_back_too() {
    let (len, most) = peak(|| vec![1u8; 3 << 20].len() + vec![1u8; 2 << 20].len());
    assert_eq!(len, 5 << 20);
    assert!((3 << 20..6 << 20).contains(&most), "{most}");
}
