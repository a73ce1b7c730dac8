//! The traffic of flent's Realtime Response Under Load: streams in four classes, and pings beside
//! them.

use txweir_core::Nanos;
use txweir_core::packet::headers::tos_priority;

use crate::net::{Group, Load};
use crate::udp::ask::Ask;

/// Payload of a ping: netperf's UDP_RR has one byte, which with its number is 8 here.
pub(crate) const PING: u32 = 8;
/// Wait of a look-up or a ping, and its number of tries (resolv.conf(5)).
pub(crate) const LOOKUP_WAIT: (Nanos, u32) = (Nanos::from_secs(5), 2);
/// The four classes of streams, with their DS fields: BE, BK (CS1), CS5 and EF.
const CLASSES: [(&str, u8); 4] = [("be", 0), ("bk", 0x20), ("cs5", 0xa0), ("ef", 0xb8)];

/// Returns the groups between the hosts of a group: a stream in each class up, if `down` is set a
/// stream in each class down, and pings over UDP in three of the classes. The name of a group
/// begins with that of the given one. A class's priority is the one that Linux gives a socket with
/// its TOS field. flent's ICMP ping is left out: hosts here have no ICMP.
pub(crate) fn groups(g: &Group, down: bool) -> Vec<Group> {
    let of = |name: &str, ds: u8| {
        let name = format!("{} {name}", g.name).trim_start().to_string();
        Group { name, ds, priority: tos_priority(ds), count: 1, ..g.clone() }
    };
    let mut all = Vec::new();
    let ways = [("up", g.from, g.to), ("down", g.to, g.from)];
    for (way, from, to) in ways.into_iter().take(if down { 2 } else { 1 }) {
        for (class, ds) in CLASSES {
            all.push(Group { from, to, load: Load::Stream, ..of(&format!("{way} {class}"), ds) });
        }
    }
    for (class, ds) in [CLASSES[0], CLASSES[1], CLASSES[3]] {
        let (request, response) = (PING, PING);
        let (timeout, tries) = LOOKUP_WAIT;
        let load = Load::Ask(Ask { request, response, gap: None, timeout, tries });
        all.push(Group { load, ..of(&format!("udp {class}"), ds) });
    }
    all
}
