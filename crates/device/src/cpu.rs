//! Binding of a thread to one processor.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;

/// Binds the calling thread to processor `cpu`, counted from 0.
///
/// # Errors
/// The system's error: `cpu` does not exist, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such processor"));
    }
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_processor_that_does_not_exist_is_refused() {
        assert!(super::pin(1 << 20).is_err());
        assert!(super::pin(1000).is_err());
    }
}
