//! The choice of a transmit queue where one path feeds all queues of a device. (On a `crate::port` each queue has a path.)

use alloc::boxed::Box;

use crate::meta::Meta;
use crate::qdisc::mqprio;
use crate::select::{Selector, Sender};
use crate::txpath::TxPath;

impl<F> TxPath<F> {
    /// From now on this path says which of the device's queues (`Env::queues`) a packet is for ([`choose`](Self::choose)), by the
    /// traffic classes that an mqprio at its root makes of them. When a swap makes others, what waits is chosen a queue for anew.
    pub fn choose_queues(&mut self) {
        self.selector = Some(Box::new(Selector::new(self.tree.env().queues)));
        self.fit_selector();
    }

    /// The queue that a packet is for, which its owner then writes down (`Meta::queue`): see [`Selector::select`]. The first, if
    /// the choice is not this path's.
    #[inline]
    pub fn choose(&self, m: &Meta) -> u16 {
        self.selector.as_ref().map_or(0, |s| s.select(m, &Sender::default(), None, self.cx.now))
    }

    /// Brings the choice up to date with the tree; true if it has changed.
    pub(super) fn fit_selector(&mut self) -> bool {
        let Some(selector) = &mut self.selector else { return false };
        let mut new = (**selector).clone();
        new.set_queues(self.tree.env().queues);
        new.set_classes(mqprio::classes_of(self.tree.root().qdisc()));
        let changed = new != **selector;
        **selector = new;
        changed
    }
}
