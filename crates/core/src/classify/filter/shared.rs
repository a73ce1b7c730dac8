//! Data that the tables of a block share: the hash tables of u32 are in one place, whatever their
//! priority. Other kinds share nothing.

use alloc::sync::Arc;

use super::u32::Common;

/// The shared data of a block; none before a table of the kind is there. The copies of a block
/// share it until one of them is changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Option<Arc<Common>>);

impl Shared {
    #[inline]
    pub(super) fn get(&self) -> Option<&Common> {
        self.0.as_deref()
    }
    pub(super) fn for_change(&mut self) -> &mut Common {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}
