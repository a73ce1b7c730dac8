//! mpls: `struct tc_mpls`, and the parts of a label.

use txweir_core::classify::action::Mpls;
use txweir_core::classify::action::mpls::Label;

use super::{Asked, Form, Found, Links, Shown, pair};
use crate::refusal::Refusal;
use crate::wire::Writer;

const PROTOCOL: u16 = 4;
const LABEL: u16 = 5;
const TC: u16 = 6;
const TTL: u16 = 7;
const BOS: u16 = 8;

pub(super) const FORM: Form =
    Form { kind: "mpls", parms: (2, 24), times: 1, known: &[3, PROTOCOL, LABEL, TC, TTL, BOS], read };

/// The words by their numbers, from 1 on.
const MODES: [&str; 5] = ["pop", "push", "modify", "dec_ttl", "mac_push"];

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let all = &asked.all;
    let number = asked.parms.u32(20);
    if number == 0 {
        return Ok(None);
    }
    let mode = usize::try_from(number).ok().and_then(|n| MODES.get(n - 1));
    let Some(mode) = mode else {
        return Err(Refusal::invalid(format!("action mpls: expected an action of 1 to 5, given {number}")));
    };
    let mut words = vec![(*mode).to_string()];
    if let Some(r) = all.record(PROTOCOL, 2)? {
        words.extend(pair("protocol", format!("{:#06x}", u16::from_be(r.u16(0)))));
    }
    words.extend(all.u32(LABEL)?.into_iter().flat_map(|n| pair("label", n)));
    for (key, number) in [("tc", TC), ("bos", BOS), ("ttl", TTL)] {
        words.extend(all.record(number, 1)?.into_iter().flat_map(|r| pair(key, r.u8(0))));
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write(mpls: &Mpls, shown: &Shown<'_>, w: &mut Writer) {
    let (number, protocol, Label { label, tc, ttl, bos }) = match *mpls {
        Mpls::Pop { protocol } => (1, Some(protocol), Label::default()),
        Mpls::Push { label, protocol } => (2, Some(protocol), label),
        Mpls::Modify(label) => (3, None, label),
        Mpls::DecTtl => (4, None, Label::default()),
        Mpls::MacPush { label, protocol } => (5, Some(protocol), label),
    };
    shown.parms(2, &[number], w);
    label.into_iter().for_each(|n| w.u32(LABEL, n));
    for (number, part) in [(TC, tc), (TTL, ttl), (BOS, bos.map(u8::from))] {
        part.into_iter().for_each(|n| w.u8(number, n));
    }
    protocol.into_iter().for_each(|n| w.u16(PROTOCOL, n.to_be()));
}
