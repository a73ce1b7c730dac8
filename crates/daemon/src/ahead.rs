//! `Ahead`: interfaces that are opened before the first change of a configuration, so that one that
//! cannot be opened leaves everything as it was.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txweir_device::{Endpoint, LinkIo, OpenError};

use crate::machine::Machine;

/// A machine that remembers the interfaces of a rehearsal, and has them open for the changes.
#[derive(Debug)]
pub struct Ahead(Mutex<Known>);

/// A machine, the interfaces that were asked for, and those that are open.
#[derive(Debug)]
struct Known {
    machine: Box<dyn Machine>,
    wanted: Vec<Endpoint>,
    open: Vec<(Endpoint, LinkIo)>,
}

impl Ahead {
    /// Makes a machine that opens interfaces of this one.
    pub fn of(machine: Box<dyn Machine>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Known { machine, wanted: Vec::new(), open: Vec::new() })))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens each interface that was asked for so far, once.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn open_all(&self) -> Result<(), OpenError> {
        let mut known = self.known();
        for endpoint in std::mem::take(&mut known.wanted) {
            if known.open.iter().all(|(open, _)| *open != endpoint) {
                let io = known.machine.open(&endpoint)?;
                known.open.push((endpoint, io));
            }
        }
        Ok(())
    }

    /// Closes the interfaces that no link has taken, and returns the machine below.
    pub fn end(self: Arc<Self>) -> Option<Box<dyn Machine>> {
        let known = Arc::into_inner(self)?.0.into_inner();
        Some(known.unwrap_or_else(PoisonError::into_inner).machine)
    }
}

impl Machine for Arc<Ahead> {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        let mut known = self.known();
        if let Some(at) = known.open.iter().position(|(open, _)| open == endpoint) {
            return Ok(known.open.swap_remove(at).1);
        }
        let io = known.machine.open(endpoint)?;
        known.wanted.push(endpoint.clone());
        Ok(io)
    }

    fn seed(&self, of: &str) -> u64 {
        self.known().machine.seed(of)
    }
}
