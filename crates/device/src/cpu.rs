//! Binding of a thread to one processor.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Binds the calling thread to processor `cpu`, counted from 0.
///
/// # Errors
/// The system's error: `cpu` does not exist, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        // As the system answers for one that the set has no place for.
        return Err(Errno::INVAL.into());
    }
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

/// Returns the processors that the calling thread may use, counted from 0, in order; none if the
/// system does not say.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_processor_that_does_not_exist_is_refused() {
        assert!(super::pin(1 << 20).is_err());
        assert!(super::pin(1000).is_err());
    }

    #[test]
    fn a_thread_is_bound_to_one_of_its_processors() {
        let all = super::allowed();
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            super::pin(last).unwrap();
            assert_eq!(super::allowed(), [last]);
        })
        .join()
        .unwrap();
        assert_eq!(super::allowed(), all);
    }
}
