//! `Port::pass`: the way of a packet into a port, with filters: see [`crate::path::entry`].

use super::{Choice, Port};
use crate::base::time::Instant;
use crate::classify::packet::Packet;
use crate::packet::meta::Meta;
use crate::path::entry::{Entry, Passed, Ways};
use crate::path::select::{Cached, Sender};
use crate::path::tree::Tree;
use crate::path::txpath::TxPath;

/// The queues of a port, for one packet.
struct OfPort<'a, F> {
    port: &'a mut Port<F>,
    sender: &'a Sender,
    cached: Option<&'a mut Cached>,
    now: Instant,
}

impl<F> Ways for OfPort<'_, F> {
    fn choose(&mut self, meta: &mut Meta, asked: Option<u16>) -> u16 {
        let choice = match asked {
            Some(queue) => Choice::Queue(queue),
            None => Choice::By(self.sender, self.cached.as_deref_mut()),
        };
        self.port.chooser.choose_for(meta, choice, self.now)
    }
    fn tree(&self, queue: u16) -> Option<&Tree> {
        self.port.path(queue).map(TxPath::tree)
    }
}

impl<F> Port<F> {
    /// Classifies a packet and chooses its queue, once, and notes the queue in its metadata. The
    /// packet is then sent with [`Choice::Made`].
    pub fn pass(
        &mut self,
        entry: &mut Entry<'_>,
        packet: &mut Packet<'_>,
        sender: &Sender,
        cached: Option<&mut Cached>,
    ) -> Passed {
        let now = entry.now;
        let passed = entry.pass(packet, &mut OfPort { port: self, sender, cached, now });
        if let Passed::Queue(queue, _) = passed
            && packet.meta.queue != queue
        {
            if self.is_split() {
                // The packet is on that queue's path, whatever filters there say.
                packet.meta.queue = queue;
            } else {
                // multiq goes by the results of the filters at the qdiscs.
                let asked = Choice::Queue(packet.meta.queue);
                self.chooser.choose_for(packet.meta, asked, now);
            }
        }
        passed
    }
}
