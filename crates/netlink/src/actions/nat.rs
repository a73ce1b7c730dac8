//! nat: `struct tc_nat`.

use std::net::Ipv4Addr;

use txweir_core::classify::action::Nat;
use txweir_core::classify::action::nat::Side;

use super::{Asked, Form, Found, Links, Shown};
use crate::refusal::Refusal;
use crate::wire::Writer;

pub(super) const FORM: Form = Form { kind: "nat", parms: (1, 36), times: 2, known: &[3], read };

/// The offsets of the addresses, of the mask and of the flags in the struct.
const OLD: usize = 20;
const NEW: usize = 24;
const MASK: usize = 28;
const FLAGS: usize = 32;
/// The flag of `egress`.
const EGRESS: u32 = 1;

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let [old, new, mask] = [OLD, NEW, MASK].map(|at| u32::from_be(asked.parms.u32(at)));
    let flags = asked.parms.u32(FLAGS);
    if (old, new, mask, flags) == (0, 0, 0, 0) {
        return Ok(None);
    }
    if flags & !EGRESS != 0 {
        return Err(Refusal::invalid(format!("action nat: expected flags of 0 or 1, given {flags}")));
    }
    let bits = mask.leading_ones();
    if bits + mask.trailing_zeros() < 32 {
        let mask = Ipv4Addr::from(mask);
        return Err(Refusal::invalid(format!("action nat: expected the mask of a prefix, given {mask}")));
    }
    let direction = if flags & EGRESS != 0 { "egress" } else { "ingress" };
    let mut words = vec![direction.into(), format!("{}/{bits}", Ipv4Addr::from(old))];
    words.push(Ipv4Addr::from(new).to_string());
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write(nat: &Nat, shown: &Shown<'_>, w: &mut Writer) {
    let flags = if nat.side == Side::Source { EGRESS } else { 0 };
    shown.parms(1, &[nat.old.to_be(), nat.new.to_be(), nat.mask.to_be(), flags], w);
}
