//! A packet in the admission list, and the answer to a sender that asks for its fate.

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
    /// The number of the sender that asks for the packet's fate; 0: none.
    pub asker: u32,
    pub ticket: Ticket,
}

/// The fate of a listed packet, for the sender that asked.
pub(crate) type Answer<F> = (Ticket, Admitted<F>);

/// Where answers go, by the number of the asker. Only a packet that came through the list and has
/// an asker causes a look at it.
pub(crate) type Askers<F> = Arc<Mutex<BTreeMap<u32, Append<Answer<F>>>>>;
