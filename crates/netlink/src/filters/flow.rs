//! flow: plain numbers, and the keys as bits.

use txweir_core::Handle;
use txweir_core::classify::filter::Flow;
use txweir_core::classify::filter::flow::{Key, Mode};

use super::{Form, NONE, Words, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const KEYS: u16 = 1;
const MODE: u16 = 2;
const BASECLASS: u16 = 3;
const RSHIFT: u16 = 4;
const ADDEND: u16 = 5;
const MASK: u16 = 6;
const XOR: u16 = 7;
const DIVISOR: u16 = 8;
const PERTURB: u16 = 12;

pub(super) const FORM: Form = Form {
    kind: "flow",
    actions: 9,
    police: 10,
    ematch: 11,
    known: &[KEYS, MODE, BASECLASS, RSHIFT, ADDEND, MASK, XOR, DIVISOR, PERTURB],
    ..NONE
};

/// Keys in the order of their bits, which is that of [`Key::ALL`].
const NAMES: [&str; Key::ALL.len()] = [
    "src",
    "dst",
    "proto",
    "proto-src",
    "proto-dst",
    "iif",
    "priority",
    "mark",
    "nfct",
    "nfct-src",
    "nfct-dst",
    "nfct-proto-src",
    "nfct-proto-dst",
    "rt-classid",
    "sk-uid",
    "sk-gid",
    "vlan-tag",
    "rxhash",
];

pub(super) fn read(all: &Attributes<'_>) -> Words {
    let mut words = Vec::new();
    let mode = match all.u32(MODE)? {
        None | Some(0) => "map",
        Some(1) => "hash",
        Some(n) => return Err(Refusal::invalid(format!("flow: expected a mode of 0 or 1, given {n}"))),
    };
    match all.u32(KEYS)? {
        Some(bits) if bits == 0 || bits >> NAMES.len() != 0 => {
            let text = format!("flow: expected keys of bits 0 to {}, given {bits:#x}", NAMES.len() - 1);
            return Err(Refusal::invalid(text));
        }
        Some(bits) => {
            let named = NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
            let names: Vec<&str> = named.map(|(_, name)| *name).collect();
            words.push(mode.into());
            words.extend(pair(if mode == "hash" { "keys" } else { "key" }, names.join(",")));
        }
        // tc sends the mode 0 with each change.
        None if mode == "hash" => {
            return Err(Refusal::unsupported("flow: the mode 1 goes with keys, attribute 1"));
        }
        None => {}
    }
    for (key, number) in [("and", MASK), ("xor", XOR), ("addend", ADDEND)] {
        words.extend(all.u32(number)?.into_iter().flat_map(|n| pair(key, format!("{n:#x}"))));
    }
    for (key, number) in [("rshift", RSHIFT), ("divisor", DIVISOR), ("perturb", PERTURB)] {
        words.extend(all.u32(number)?.into_iter().flat_map(|n| pair(key, n)));
    }
    words.extend(all.u32(BASECLASS)?.into_iter().flat_map(|n| pair("baseclass", Handle(n))));
    Ok(words)
}

pub(super) fn write(rule: &Flow, w: &mut Writer) {
    let keys = rule.keys.unwrap_or_default().iter().fold(0, |bits, key| bits | 1 << key as u32);
    w.u32(KEYS, keys);
    w.u32(MODE, u32::from(rule.mode == Some(Mode::Hash)));
    if let Some((mask, xor)) = rule.bits.filter(|bits| *bits != (u32::MAX, 0)) {
        w.u32(MASK, mask);
        w.u32(XOR, xor);
    }
    let numbers = [
        (RSHIFT, rule.rshift.map(u32::from)),
        (ADDEND, rule.addend),
        (DIVISOR, rule.divisor),
        (PERTURB, rule.perturb),
    ];
    for (number, n) in numbers {
        n.filter(|n| *n != 0).into_iter().for_each(|n| w.u32(number, n));
    }
    w.u32(BASECLASS, rule.base().0);
}
