//! The choice of a processor, the spread of samples, and a lock: shared by the measurements in
//! wall-clock time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns the number of the last processor: interrupts tend to go to the first.
pub fn default_cpu() -> usize {
    std::thread::available_parallelism().map_or(0, |n| n.get() - 1)
}

/// Returns the median, least and greatest of some samples; zeros if there are none.
pub fn spread(samples: &[f64]) -> [f64; 3] {
    let mut s = samples.to_vec();
    s.sort_by(f64::total_cmp);
    let (half, odd) = (s.len() / 2, s.len() % 2 == 1);
    match s.as_slice() {
        [] => [0.0; 3],
        s if odd => [s[half], s[0], s[s.len() - 1]],
        s => [f64::midpoint(s[half - 1], s[half]), s[0], s[s.len() - 1]],
    }
}

/// Takes a lock, also after a panic of another thread that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_median_least_most() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), [2.0, 1.0, 3.0]);
        assert_eq!(spread(&[8.0, 1.0, 2.0, 4.0]), [3.0, 1.0, 8.0]);
        assert_eq!(spread(&[]), [0.0; 3]);
    }
}
