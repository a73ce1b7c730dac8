//! State that is needed soon is asked from memory ahead of its use.
//!
//! A program that holds ten thousand connections finds almost none of the state of the next one in
//! the caches of its processor. A driver that knows the next connections asks for their state while
//! it serves the present one.

pub use txweir_ahead::value as ahead;

/// Asks for the memory of both ends of a queue.
#[inline]
pub(crate) fn ends<T>(first: Option<&T>, last: Option<&T>) {
    if let (Some(first), Some(last)) = (first, last) {
        ahead(first);
        ahead(last);
    }
}
