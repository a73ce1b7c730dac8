//! Notifications: what has changed since the last look, whoever changed it and by whichever way.

use std::collections::BTreeMap;

use txweir_tc::tool::Devices;

use crate::links;
use crate::message::{Header, TcHead, kind};
use crate::object::{Shown, each_class, each_qdisc};

/// The place of an object in the listings: link, kind of message, parent, handle.
type Key = (u32, u16, u32, u32);

/// The qdiscs and classes at the last look, without their counters.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: BTreeMap<Key, (TcHead, Vec<u8>)>,
}

impl Watch {
    /// Looks at all links, and returns a message for each object that is new, gone or different,
    /// those that are gone first; for the port 0, as notifications are.
    pub fn look(&mut self, devices: &mut dyn Devices) -> Vec<Vec<u8>> {
        let mut now = BTreeMap::new();
        let mut fresh = Vec::new();
        for name in devices.names() {
            let Some(link) = links::index(devices, &name) else { continue };
            let Some(device) = devices.device(&name) else { continue };
            let mut take = |shown: Shown| {
                let key = (link, shown.kind, shown.head.parent, shown.head.handle);
                // The number beside a class is its leaf; that of a qdisc counts references.
                if self.seen.get(&key).is_none_or(|(head, is)| *head != shown.head || *is != shown.is) {
                    fresh.push(shown.message(Header::default()));
                }
                now.insert(key, (shown.head, shown.is));
            };
            each_qdisc(device, link, false, &mut take);
            each_class(device, link, false, &mut take);
        }
        let gone = self.seen.iter().filter(|(key, _)| !now.contains_key(key));
        let mut packets: Vec<Vec<u8>> =
            gone.map(|((_, kind, ..), (head, is))| removed(*kind, *head, is)).collect();
        packets.append(&mut fresh);
        self.seen = now;
        packets
    }
}

fn removed(kind: u16, head: TcHead, is: &[u8]) -> Vec<u8> {
    let kind = if kind == kind::NEW_QDISC { kind::DEL_QDISC } else { kind::DEL_CLASS };
    Shown { kind, head, is: is.to_vec(), counts: Vec::new() }.message(Header::default())
}
