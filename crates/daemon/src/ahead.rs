//! `Ahead`: interfaces that are opened before the first change of a configuration, so that one that
//! cannot be opened leaves everything as it was. An interface that is missing is missing until the
//! last change.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txweir_device::{Endpoint, LinkIo, Netns, OpenCause, OpenError};

use crate::machine::Machine;

/// A machine that remembers the interfaces of a rehearsal, and has them open for the changes.
#[derive(Debug)]
pub struct Ahead(Mutex<Known>);

/// The part of an interface that is missing.
#[derive(Clone, Debug)]
enum Gap {
    Interface,
    Namespace(Netns),
    Address(IpAddr),
}

/// A machine, the interfaces that were asked for, those that are open, and those that are missing.
#[derive(Debug)]
struct Known {
    machine: Box<dyn Machine>,
    wanted: Vec<Endpoint>,
    open: Vec<(Endpoint, LinkIo)>,
    missing: Vec<(Endpoint, Gap)>,
}

impl Ahead {
    /// Makes a machine that opens interfaces of this one.
    pub fn of(machine: Box<dyn Machine>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Known {
            machine,
            wanted: Vec::new(),
            open: Vec::new(),
            missing: Vec::new(),
        })))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens each interface that was asked for so far, once. One that is missing by now stays so.
    ///
    /// # Errors
    /// One of them cannot be opened for another reason.
    pub fn open_all(&self) -> Result<(), OpenError> {
        let mut known = self.known();
        for endpoint in std::mem::take(&mut known.wanted) {
            if known.open.iter().all(|(open, _)| *open != endpoint) {
                match known.open(&endpoint) {
                    Ok(io) => known.open.push((endpoint, io)),
                    Err(error) if error.is_missing() => {}
                    Err(error) => return Err(error),
                }
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

impl Known {
    /// Opens an interface that was not found to be missing before.
    fn open(&mut self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        if let Some((_, gap)) = self.missing.iter().find(|(missing, _)| missing == endpoint) {
            let cause = match gap.clone() {
                Gap::Interface => OpenCause::Missing,
                Gap::Namespace(netns) => OpenCause::NoNamespace(netns),
                Gap::Address(ip) => OpenCause::NoAddress(ip),
            };
            return Err(OpenError { interface: endpoint.to_string(), cause });
        }
        let opened = self.machine.open(endpoint);
        let gap = match opened.as_ref().map_err(|error| &error.cause) {
            Err(OpenCause::Missing) => Some(Gap::Interface),
            Err(OpenCause::NoNamespace(netns)) => Some(Gap::Namespace(netns.clone())),
            Err(OpenCause::NoAddress(ip)) => Some(Gap::Address(*ip)),
            _ => None,
        };
        self.missing.extend(gap.map(|gap| (endpoint.clone(), gap)));
        opened
    }
}

impl Machine for Arc<Ahead> {
    fn open(&self, endpoint: &Endpoint) -> Result<LinkIo, OpenError> {
        let mut known = self.known();
        if let Some(at) = known.open.iter().position(|(open, _)| open == endpoint) {
            return Ok(known.open.swap_remove(at).1);
        }
        let io = known.open(endpoint)?;
        known.wanted.push(endpoint.clone());
        Ok(io)
    }

    /// Several handles are not kept: a rehearsal opens and closes them, and the change opens them
    /// again.
    fn open_queues(&self, endpoint: &Endpoint, most: usize) -> Result<Vec<LinkIo>, OpenError> {
        match most {
            0 | 1 => self.open(endpoint).map(|io| vec![io]),
            _ => self.known().machine.open_queues(endpoint, most),
        }
    }

    fn seed(&self, of: &str) -> u64 {
        self.known().machine.seed(of)
    }

    fn check_threads(&self, more: usize) -> io::Result<()> {
        self.known().machine.check_threads(more)
    }
}
