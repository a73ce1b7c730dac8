//! The memory that this thread holds. A run is one thread: what it holds is the daemon's and the
//! simulated machine's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

/// Adds the bytes of a block that is made, and subtracts those of one that is given back.
fn hold(made: usize, gone: usize) {
    // The thread may be ending, without its counter: then no test reads it either.
    let _ = BYTES.try_with(|b| b.set(b.get() + made as i64 - gone as i64));
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract;
// counting touches one thread-local cell and allocates nothing.
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

/// Returns the bytes that this thread has allocated and not freed.
pub fn held() -> i64 {
    BYTES.get()
}
