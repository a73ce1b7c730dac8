//! Size tables (`TCA_STAB`, tc-stab(8)): `struct tc_sizespec`. The table itself follows from it.

use txweir_core::base::link::LinkLayer;
use txweir_core::sched::stab::Stab;

use super::{Words, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const BASE: u16 = 1;
const DATA: u16 = 2;

/// Returns the words of a size table.
pub(crate) fn stab_words(value: &[u8]) -> Words {
    let all = Attributes::read(value, "stab")?;
    all.only(&[BASE, DATA])?;
    let Some(r) = all.record(BASE, 24)? else {
        return Err(Refusal::invalid("stab: attribute 1, its parameters, is missing"));
    };
    let mut words = vec!["stab".to_string()];
    words.extend(pair("overhead", r.i32(4)));
    let layer = match r.u32(8) {
        0 => None,
        1 => Some("ethernet"),
        2 => Some("atm"),
        n => return Err(Refusal::invalid(format!("stab: expected the link layer 0, 1 or 2, given {n}"))),
    };
    words.extend(layer.into_iter().flat_map(|layer| pair("linklayer", layer)));
    for (key, n) in [("mpu", r.u32(12)), ("mtu", r.u32(16)), ("tsize", r.u32(20))] {
        if n > 0 {
            words.extend(pair(key, n));
        }
    }
    Ok(words)
}

/// Writes a size table.
pub(crate) fn write_stab(stab: &Stab, w: &mut Writer) {
    let layer = match stab.linklayer {
        None => 0,
        Some(LinkLayer::Ethernet) => 1,
        Some(LinkLayer::Atm) => 2,
    };
    w.nest(BASE, |w| {
        w.put(&[0; 4]);
        w.put(&stab.overhead.to_ne_bytes());
        w.put_all(&[layer, stab.mpu, stab.mtu, stab.tsize]);
    });
}
