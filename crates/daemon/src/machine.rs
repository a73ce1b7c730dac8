//! `Machine`: the interfaces, the seeds and the threads that links take from the machine. [`Local`]
//! is this machine; a test has one in virtual time.

use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Mutex;
use std::thread::{Builder, scope};

use txweir_device::{Endpoint, LinkIo, LinkOptions, OpenError};

/// The source of interfaces, seeds and threads.
pub trait Machine: Debug + Send {
    /// Opens an interface by its name.
    ///
    /// # Errors
    /// One sentence that names the endpoint and says what to do.
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError>;

    /// Opens up to `most` handles of an interface, each for a worker of its own; at least one is
    /// returned. The default is for a machine whose interfaces have one each.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_queues(&self, endpoint: &Endpoint, _most: usize) -> Result<Vec<LinkIo>, OpenError> {
        self.open(endpoint).map(|io| vec![io])
    }

    /// Returns a seed, for the object of this name, that nobody outside can know.
    fn seed(&self, of: &str) -> u64;

    /// Checks that so many more threads can be started. The default is for a machine without
    /// threads, on which the caller gives workers their turns.
    ///
    /// # Errors
    /// Those of the system.
    fn check_threads(&self, _more: usize) -> io::Result<()> {
        Ok(())
    }
}

/// This machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Local;

impl Machine for Local {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        endpoint.open(&LinkOptions::default())
    }

    fn open_queues(&self, endpoint: &Endpoint, most: usize) -> Result<Vec<LinkIo>, OpenError> {
        endpoint.open_queues(&LinkOptions::default(), most)
    }

    fn seed(&self, of: &str) -> u64 {
        // It comes from the system's random source, as the keys of the standard library's hashes
        // do.
        RandomState::new().hash_one(of)
    }

    /// Starts the threads, each of which ends once all have been started.
    fn check_threads(&self, more: usize) -> io::Result<()> {
        let gate = Mutex::new(());
        scope(|scope| {
            let closed = gate.lock();
            for _ in 0..more {
                Builder::new().spawn_scoped(scope, || drop(gate.lock()))?;
            }
            drop(closed);
            Ok(())
        })
    }
}
