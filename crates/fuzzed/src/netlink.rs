//! Packets of rtnetlink messages, performed.

use std::sync::atomic::{AtomicU64, Ordering};

use txweir_core::Env;
use txweir_netlink::message::{kind, messages};
use txweir_netlink::{Client, Watch, answer};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::save;

/// Bytes of tables that the qdiscs may have, so that no message costs much time.
const TABLES: u64 = 1 << 20;
/// Most messages of an input, and most packets.
const MESSAGES_MAX: usize = 64;

/// Messages that this process has performed.
static PERFORMED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of messages that this process has performed.
pub fn performed() -> u64 {
    PERFORMED.load(Ordering::Relaxed)
}

/// Performs an input as packets of messages: a byte in front of each gives a quarter of its length.
/// Each reply is made of whole messages; a request that is refused changes nothing; and each
/// difference that a look finds is one that a request was done for.
///
/// # Panics
/// If one of these laws does not hold.
pub fn netlink(mut data: &[u8]) {
    let env = || Env { memory: TABLES, ..Env::default() };
    let mut devices = Memory::new(&[])
        .with(MemoryDevice::without_room("a", 1, env()))
        .with(MemoryDevice::without_room("b", 4, env()));
    let (mut client, mut watch) = (Client::default(), Watch::default());
    watch.look(&mut devices);
    let mut saved = save(&mut devices);
    let mut count = 0;
    for _ in 0..MESSAGES_MAX {
        let Some((len, rest)) = data.split_first() else { break };
        let (packet, rest) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        data = rest;
        let more = count + messages(packet).count();
        if more > MESSAGES_MAX {
            break;
        }
        count = more;
        let reply = answer(packet, &mut client, &mut devices);
        for packet in &reply.packets {
            let whole: usize = messages(packet).map(|m| m.whole.len().next_multiple_of(4)).sum();
            assert_eq!(whole, packet.len().next_multiple_of(4), "a reply ends in the middle of a message");
        }
        let is_done = reply.changes.iter().any(|change| change.is_done);
        let now = save(&mut devices);
        assert!(is_done || now == saved, "a refused request has changed something");
        saved = now;
        let seen = watch.look(&mut devices);
        assert!(is_done || seen.is_empty(), "nothing was done, and something is different");
        let known = [
            [kind::NEW_QDISC, kind::DEL_QDISC],
            [kind::NEW_CLASS, kind::DEL_CLASS],
            [kind::NEW_FILTER, kind::DEL_FILTER],
            [kind::NEW_CHAIN, kind::DEL_CHAIN],
            [kind::NEW_ACTION, kind::DEL_ACTION],
        ]
        .concat();
        assert!(seen.iter().flat_map(|packet| messages(packet)).all(|m| known.contains(&m.header.kind)));
    }
    PERFORMED.fetch_add(count as u64, Ordering::Relaxed);
}
