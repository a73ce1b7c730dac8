//! Notifications: what has changed since the last look, whoever changed it and by whichever way.

use std::collections::{BTreeMap, BTreeSet};

use txweir_tc::tool::Devices;

use crate::classify::{self, ACTIONS_HEAD, Owner, Wanted};
use crate::links;
use crate::message::{Header, TcHead, kind, message};
use crate::object::{Shown, each_class, each_qdisc};

/// The place of an object in the listings: link, kind of message, parent, chain, priority and
/// protocol of a filter, handle.
type Key = (u32, u16, u32, u32, u32, u32);
/// The attributes of the actions that commands of their own have made.
type Actions = BTreeMap<classify::Known, Vec<u8>>;

/// The qdiscs, classes, filters, chains and actions at the last look, without their counters.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: BTreeMap<Key, (TcHead, Vec<u8>)>,
    actions: Actions,
}

impl Watch {
    /// Looks at all links, and returns a message for each object that is new, gone or different,
    /// those that are gone first; for the port 0, as notifications are. Packets have their turn
    /// meanwhile ([`Devices::pause`]).
    pub fn look(&mut self, devices: &mut dyn Devices) -> Vec<Vec<u8>> {
        let mut now = BTreeMap::new();
        let mut fresh = Vec::new();
        for name in devices.names() {
            let Some(link) = links::index(devices, &name) else { continue };
            let blocks = classify::numbers(devices, &name);
            let mut take = |shown: Shown| {
                let key = (link, shown.kind, shown.head.parent, 0, 0, shown.head.handle);
                // The number beside a class is its leaf; that of a qdisc counts references.
                if self.seen.get(&key).is_none_or(|(head, is)| *head != shown.head || *is != shown.is) {
                    fresh.push(shown.message(Header::default()));
                }
                now.insert(key, (shown.head, shown.is));
            };
            each_qdisc(devices, &name, link, blocks, false, &mut take);
            each_class(devices, &name, link, false, &mut take);
        }
        for owner in owners(devices) {
            self.look_at(devices, owner, &mut now, &mut fresh);
        }
        let actions = self.look_at_actions(devices, &mut fresh);
        let gone = self.seen.iter().filter(|(key, _)| !now.contains_key(key));
        let mut packets: Vec<Vec<u8>> =
            gone.map(|((_, kind, ..), (head, is))| removed(*kind, *head, is)).collect();
        let gone = self.actions.iter().filter(|(name, _)| !actions.contains_key(*name));
        packets.extend(gone.map(|(_, list)| of_action(kind::DEL_ACTION, list)));
        packets.append(&mut fresh);
        (self.seen, self.actions) = (now, actions);
        packets
    }

    /// Looks at the chains and filters of an owner.
    fn look_at(
        &self,
        devices: &mut dyn Devices,
        owner: Owner,
        now: &mut BTreeMap<Key, (TcHead, Vec<u8>)>,
        fresh: &mut Vec<Vec<u8>>,
    ) {
        let key = |chain: u32, shown: &Shown| {
            let TcHead { link, handle, parent, info } = shown.head;
            (link, shown.kind, parent, chain, info, handle)
        };
        let mut changed = BTreeSet::new();
        let mut take = |chain: u32, shown: Shown| {
            // The table of filters has no life of its own.
            if shown.kind == kind::NEW_FILTER && shown.head.handle == 0 {
                return;
            }
            let key = key(chain, &shown);
            if self.seen.get(&key).is_none_or(|(_, is)| *is != shown.is) {
                changed.insert(key);
            }
            now.insert(key, (shown.head, shown.is));
        };
        classify::each_chain(devices, owner, None, &mut take);
        classify::each_filter(devices, owner, Wanted::default(), false, &mut take);
        // The holders of actions are told, though they are not compared.
        let mut tell = |chain: u32, shown: Shown| {
            if changed.contains(&key(chain, &shown)) {
                fresh.push(shown.message(Header::default()));
            }
        };
        if !changed.is_empty() {
            classify::each_chain(devices, owner, None, &mut tell);
            classify::each_filter(devices, owner, Wanted::default(), true, &mut tell);
        }
    }

    fn look_at_actions(&self, devices: &mut dyn Devices, fresh: &mut Vec<Vec<u8>>) -> Actions {
        let mut now = Actions::new();
        classify::each_action(devices, &mut |devices, name, list, id| {
            if self.actions.get(&name) != Some(&list) {
                let header = Header { kind: kind::NEW_ACTION, ..Header::default() };
                fresh.push(classify::of_single(devices, &[id], header));
            }
            now.insert(name, list);
        });
        now
    }
}

/// Returns the owners of all filters.
fn owners(devices: &mut dyn Devices) -> Vec<Owner> {
    let mut all = classify::shared(devices.filters());
    for name in devices.names() {
        all.extend(classify::owners(devices, &name));
    }
    all
}

fn of_action(kind: u16, list: &[u8]) -> Vec<u8> {
    message(Header { kind, ..Header::default() }, |w| {
        w.put(&[0; ACTIONS_HEAD]);
        w.put(list);
    })
}

fn removed(kind: u16, head: TcHead, is: &[u8]) -> Vec<u8> {
    // The number behind that of the object that is there.
    let kind = kind + 1;
    Shown { kind, head, is: is.to_vec(), counts: Vec::new() }.message(Header::default())
}
