//! vlan: `struct tc_vlan`, and the parts of a tag or of a header.

use txweir_core::classify::action::Vlan;

use super::{Asked, Form, Found, Links, Shown, mac, pair};
use crate::refusal::Refusal;
use crate::wire::Writer;

const ID: u16 = 3;
const PROTOCOL: u16 = 4;
const PRIORITY: u16 = 6;
const DST: u16 = 7;
const SRC: u16 = 8;

pub(super) const FORM: Form =
    Form { kind: "vlan", parms: (2, 24), times: 1, known: &[ID, PROTOCOL, 5, PRIORITY, DST, SRC], read };

/// The words by their numbers, from 1 on.
const MODES: [&str; 5] = ["pop", "push", "modify", "pop_eth", "push_eth"];

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let all = &asked.all;
    let number = asked.parms.u32(20);
    if number == 0 {
        return Ok(None);
    }
    let mode = usize::try_from(number).ok().and_then(|n| MODES.get(n - 1));
    let Some(mode) = mode else {
        return Err(Refusal::invalid(format!("action vlan: expected an action of 1 to 5, given {number}")));
    };
    let mut words = vec![(*mode).to_string()];
    if let Some(r) = all.record(ID, 2)? {
        words.extend(pair("id", r.u16(0)));
    }
    if let Some(r) = all.record(PROTOCOL, 2)? {
        words.extend(pair("protocol", format!("{:#06x}", u16::from_be(r.u16(0)))));
    }
    if let Some(r) = all.record(PRIORITY, 1)? {
        words.extend(pair("priority", r.u8(0)));
    }
    for (key, number) in [("dst_mac", DST), ("src_mac", SRC)] {
        words.extend(mac(all, number)?.into_iter().flat_map(|address| pair(key, address)));
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write(vlan: &Vlan, shown: &Shown<'_>, w: &mut Writer) {
    let number = match vlan {
        Vlan::Pop => 1,
        Vlan::Push { .. } => 2,
        Vlan::Modify { .. } => 3,
        Vlan::PopEth => 4,
        Vlan::PushEth { .. } => 5,
    };
    shown.parms(2, &[number], w);
    let mut tag = |id: u16, protocol: u16, priority: Option<u8>| {
        w.u16(ID, id);
        w.u16(PROTOCOL, protocol.to_be());
        priority.into_iter().for_each(|n| w.u8(PRIORITY, n));
    };
    match *vlan {
        Vlan::Pop | Vlan::PopEth => {}
        Vlan::Push { id, protocol, priority } => tag(id, protocol, Some(priority)),
        Vlan::Modify { id, protocol, priority } => tag(id, protocol, priority),
        Vlan::PushEth { dst, src } => {
            w.bytes(DST, &dst);
            w.bytes(SRC, &src);
        }
    }
}
