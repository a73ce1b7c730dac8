//! Memory that is needed soon is asked for ahead of its use.
//!
//! A program that holds a hundred thousand flows finds almost none of the state of the next one in
//! the caches of its processor, and each cache line takes as long as hundreds of instructions. A
//! program that knows the next ones asks for their state while it serves the present one. The
//! functions have no effect but on time, and none at all on processors without such a hint.
#![no_std]

/// Bytes of a cache line.
const LINE: usize = 64;
/// Largest number of bytes of one value that are asked for; more would displace what is in use.
const BYTES_MAX: usize = 2048;

/// Asks for the cache line of one address, and does not wait for it.
#[inline(always)]
fn line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse"))]
    // SAFETY: The hint reads nothing that the program sees, and an address without memory is no
    // fault (Intel SDM volume 2, PREFETCHh).
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: The same (Arm ARM C6.2, PRFM): no fault, no register and no memory changes.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(all(target_arch = "x86_64", target_feature = "sse"), target_arch = "aarch64")))]
    let _ = at;
}

/// Asks for the first cache line of an element; an index behind the end is no error.
#[inline(always)]
pub fn element<T>(all: &[T], index: usize) {
    line(all.as_ptr().wrapping_add(index).cast());
}

/// Asks for the first cache line of `value`.
#[inline(always)]
pub fn first_line<T>(value: &T) {
    line(core::ptr::from_ref(value).cast());
}

/// Asks for the memory of `value`, at most its first 2048 bytes.
#[inline]
pub fn value<T: ?Sized>(value: &T) {
    let bytes = size_of_val(value).min(BYTES_MAX);
    if bytes == 0 {
        return;
    }
    let first = core::ptr::from_ref(value).cast::<u8>();
    // Bound: the lines of BYTES_MAX.
    for at in (0..bytes).step_by(LINE) {
        line(first.wrapping_add(at));
    }
    line(first.wrapping_add(bytes - 1));
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;

    /// Values of each kind and size are taken, and stay as they are.
    #[test]
    fn asking_changes_nothing() {
        let (long, text) = (alloc::vec![7_u8; 10_000], "text");
        value(&());
        first_line(&());
        first_line(&long);
        value(&long[..0]);
        value(&long[..1]);
        value(&long[..]);
        value(text);
        value::<dyn core::fmt::Debug>(&long);
        for index in [0, 9_999, 10_000, usize::MAX] {
            element(&long, index);
        }
        element::<u64>(&[], 3);
        assert_eq!((long, text), (alloc::vec![7; 10_000], "text"));
    }
}
