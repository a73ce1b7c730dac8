//! A packet in the admission list, and the answer to a sender that asks what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use txweir_core::{Admitted, Meta};

use crate::list::Append;
use crate::sync::Mutex;

/// The number of a packet among those that a sender asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A packet in the admission list.
pub(crate) struct Listed<F> {
    pub frame: F,
    pub meta: Meta,
    /// Who wants to know what becomes of it; 0: nobody.
    pub asker: u32,
    pub ticket: Ticket,
}

/// What became of a listed packet, for the sender that asked.
pub(crate) type Answer<F> = (Ticket, Admitted<F>);

/// Where answers go, by the number of who asks. Looked at only for a packet that somebody asks about and that came through
/// the list.
pub(crate) type Askers<F> = Arc<Mutex<BTreeMap<u32, Append<Answer<F>>>>>;
