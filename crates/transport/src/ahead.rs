//! State that is needed soon is asked from memory ahead of its use.
//!
//! A program that holds ten thousand connections finds almost none of the state of the next one in
//! the caches of its processor, and each cache line takes as long as hundreds of instructions. A
//! driver that knows the next connections asks for their state while it serves the present one.

use std::ptr;

use prefetch_index::prefetch_index;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Largest number of bytes of one value that are asked for; more would displace what is in use.
const BYTES_MAX: usize = 2048;

/// Asks for the memory of `value`, at most its first 2048 bytes, and does not wait for it. The
/// call has no effect but on time, and none at all on processors without such a hint.
#[inline]
pub fn ahead<T: ?Sized>(value: &T) {
    let bytes = size_of_val(value).min(BYTES_MAX);
    if bytes == 0 {
        return;
    }
    // A hint may name any address: the index of a byte in an empty slice is how far it lies behind
    // the start of the slice.
    let none: &[u8] = &[];
    let first = ptr::from_ref(value).cast::<u8>().addr().wrapping_sub(none.as_ptr().addr());
    // Bound: the lines of BYTES_MAX.
    for at in (0..bytes).step_by(LINE) {
        prefetch_index(none, first.wrapping_add(at));
    }
    prefetch_index(none, first.wrapping_add(bytes - 1));
}

/// Asks for the memory of both ends of a queue.
#[inline]
pub(crate) fn ends<T>(first: Option<&T>, last: Option<&T>) {
    if let (Some(first), Some(last)) = (first, last) {
        ahead(first);
        ahead(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of each kind and size are taken, and stay as they are.
    #[test]
    fn asking_changes_nothing() {
        let (long, text) = (vec![7_u8; 10_000], "text");
        ahead(&());
        ahead(&long[..0]);
        ahead(&long[..1]);
        ahead(&long[..]);
        ahead(text);
        ahead::<dyn std::fmt::Debug>(&long);
        ends(long.first(), None);
        assert_eq!((long, text), (vec![7; 10_000], "text"));
    }
}
