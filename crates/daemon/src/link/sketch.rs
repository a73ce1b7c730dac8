//! The parameters of a link without the rest of it: in outline, for a dry run, and as they were,
//! to go back to.

use txweir_core::Instant;
use txweir_core::turns::Quota;
use txweir_device::IfName;

use super::{Copies, Link, mtu_of};
use crate::grammar::Change;

/// The parameters of a link that can be changed, and its peer, as they were.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    /// Without the peer.
    change: Change,
    peer: Option<IfName>,
    finds_mtu: bool,
}

impl Noted {
    /// Notes those of a link.
    pub fn of(link: &Link) -> Self {
        let env = link.env();
        let change = Change {
            name: link.name.clone(),
            mtu: Some(env.mtu),
            txqueuelen: Some(env.tx_queue_len),
            queues: Some(link.queues),
            rate: link.wire.as_ref().map(|spec| spec.wire.rate),
            prio_synack: Some(link.way.classifier().prio_synack()),
            fairsend: Some(link.way.fairsend().segs),
            peer: None,
        };
        Self { change, peer: link.peer.clone(), finds_mtu: link.finds_mtu }
    }
}

impl Link {
    /// Makes an outline of the link: a link of the same parameters, without its interface, its
    /// wire, its qdiscs, and room for packets. An interface that is not there is not there either.
    ///
    /// # Errors
    /// As [`new`](Self::new); none is expected, because the link is there.
    pub(crate) fn sketch(&self) -> Result<Self, String> {
        let end = self.way.device().likeness();
        let mut sketch = Self::with(self.name.clone(), self.kind, *self.env(), None, end, 1)?;
        sketch.endpoint.clone_from(&self.endpoint);
        sketch.peer.clone_from(&self.peer);
        sketch.wire.clone_from(&self.wire);
        sketch.finds_mtu = self.finds_mtu;
        sketch.way.classifier_mut().set_prio_synack(self.way.classifier().prio_synack());
        sketch.way.control(Instant::ZERO).set_fairsend(Quota::segs(self.way.fairsend().segs));
        let Copies { workers, map, turn, .. } = &self.copies;
        sketch.copies = Copies { workers: *workers, map: map.clone(), turn: *turn, ..Copies::default() };
        Ok(sketch)
    }

    /// Gives the link the parameters and the peer that were noted. The interface may have come
    /// since, and stays.
    pub(crate) fn go_back(&mut self, now: Instant, noted: &Noted) {
        self.peer.clone_from(&noted.peer);
        let mut change = noted.change.clone();
        if noted.finds_mtu {
            change.mtu = self.io().and_then(mtu_of).or(change.mtu);
        }
        if !self.differences(&change).is_empty() {
            self.change(now, &change);
        }
        self.finds_mtu = noted.finds_mtu && self.is_away();
    }
}
