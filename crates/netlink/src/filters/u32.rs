//! u32: `struct tc_u32_sel` with its keys.

use txweir_core::classify::filter::u32::{HashKey, Key, Match, Offset, Read, Selector, U32};

use super::{Form, NONE, Shown, Words, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

const HASH: u16 = 2;
const LINK: u16 = 3;
const DIVISOR: u16 = 4;
const SEL: u16 = 5;
const COUNTS: u16 = 9;
const MARK: u16 = 10;
const CLASS: u16 = 1;
const ACTIONS: u16 = 7;
const POLICE: u16 = 6;

pub(super) const FORM: Form = Form {
    kind: "u32",
    class: CLASS,
    police: POLICE,
    actions: ACTIONS,
    indev: 8,
    flags: 11,
    known: &[HASH, LINK, DIVISOR, SEL, COUNTS, MARK, 12],
    ..NONE
};

/// Bits of a selector.
const TERMINAL: u8 = 1;
const OFFSET: u8 = 2;
const VAROFFSET: u8 = 4;
const EAT: u8 = 8;
/// Bytes in front of the keys, and of a key.
const HEAD: usize = 16;
const KEY: usize = 16;
/// The bits of a handle that name a table and a bucket.
const BUCKET: u32 = 0xffff_f000;

pub(super) fn read(all: &Attributes<'_>) -> Words {
    let mut words = Vec::new();
    if let Some(divisor) = all.u32(DIVISOR)? {
        return Ok(pair("divisor", divisor).into());
    }
    if let Some(table) = all.u32(HASH)? {
        words.extend(pair("ht", format!("{table:#x}")));
    }
    let mark = all.record(MARK, 12)?.map(|r| (r.u32(0), r.u32(4)));
    if let Some(bytes) = all.bytes(SEL) {
        words.extend(selector(bytes, mark.is_some())?);
        let decides = [CLASS, ACTIONS, POLICE].iter().any(|number| all.bytes(*number).is_some());
        match (bytes.first().is_some_and(|flags| flags & TERMINAL != 0), decides) {
            (true, false) => words.extend(pair("classid", "0:0")),
            // Linux passes over its class and its actions; tc sends the bit with either, and has no
            // words for this.
            (false, true) => {
                let text = "u32: a filter with a class or actions needs the flag TC_U32_TERMINAL (1)";
                return Err(Refusal::unsupported(text));
            }
            (true, true) | (false, false) => {}
        }
    }
    if let Some((value, mask)) = mark {
        words.extend(["match".into(), "mark".into(), format!("{value:#x}"), format!("{mask:#x}")]);
    }
    if let Some(link) = all.u32(LINK)? {
        words.extend(pair("link", format!("{link:#x}")));
    }
    Ok(words)
}

fn selector(bytes: &[u8], has_mark: bool) -> Words {
    let head = Record::of(bytes, HEAD, "u32: the selector")?;
    let (flags, count) = (head.u8(0), usize::from(head.u8(2)));
    let r = Record::of(bytes, HEAD + count * KEY, "u32: the keys")?;
    if flags & !(TERMINAL | OFFSET | VAROFFSET | EAT) != 0 {
        return Err(Refusal::invalid(format!("u32: expected flags of 0 to 15, given {flags}")));
    }
    let mut words = Vec::new();
    for at in (HEAD..HEAD + count * KEY).step_by(KEY) {
        let [mask, value] = [r.u32(at), r.u32(at + 4)].map(u32::from_be);
        let (offset, next) = (r.i32(at + 8), r.u32(at + 12));
        if offset % 4 != 0 {
            let text = format!("u32: expected an offset that 4 divides, given {offset}");
            return Err(Refusal::unsupported(text));
        }
        let from = match next {
            0 => "",
            // tc sends 1 for the code of ICMPv6.
            1 | u32::MAX => "nexthdr+",
            given => {
                let text = format!("u32: expected a mask of the offset of 0, 1 or -1, given {given:#x}");
                return Err(Refusal::unsupported(text));
            }
        };
        let [value, mask] = [value, mask].map(|n| format!("{n:#010x}"));
        words.extend(["match".into(), "u32".into(), value, mask]);
        words.extend(pair("at", format!("{from}{offset}")));
    }
    if count == 0 && !has_mark {
        // tc sends no key for this match, which every packet meets.
        words.extend(["match", "ip6", "src", "any"].map(String::from));
    }
    if flags & (OFFSET | VAROFFSET | EAT) != 0 {
        words.push("offset".into());
    }
    if flags & (OFFSET | VAROFFSET) != 0 {
        words.extend(pair("plus", head.u16(6)));
    }
    if flags & VAROFFSET != 0 {
        words.extend(pair("at", head.u16(8).cast_signed()));
        words.extend(pair("mask", format!("{:#x}", u16::from_be(head.u16(4)))));
        words.extend(pair("shift", head.u8(1)));
    }
    words.extend((flags & EAT != 0).then(|| "eat".to_string()));
    let hash = u32::from_be(head.u32(12));
    if hash != 0 {
        words.push("hashkey".into());
        words.extend(pair("mask", format!("{hash:#x}")));
        words.extend(pair("at", head.u16(10).cast_signed()));
    }
    Ok(words)
}

/// Writes the options; true for a filter.
pub(super) fn write(rule: &U32, shown: &Shown<'_>, w: &mut Writer) -> bool {
    let divisor = match rule {
        U32::Root => 1,
        U32::Table(divisor) => u32::from(*divisor),
        U32::Filter(rule) => {
            write_match(rule, shown, w);
            return true;
        }
    };
    w.u32(DIVISOR, divisor);
    false
}

fn write_match(rule: &Match, shown: &Shown<'_>, w: &mut Writer) {
    let selector = rule.selector.clone().unwrap_or_default();
    let goal = shown.goal;
    let terminal = rule.decides || !goal.class.is_none() || !goal.actions.is_empty();
    write_selector(&selector, terminal, w);
    w.u32(HASH, shown.handle & BUCKET);
    rule.link.into_iter().for_each(|link| w.u32(LINK, link));
    if let Some((value, mask)) = rule.mark {
        let success = shown.hits(2) as u32; // it begins again at 0, as that of the kernel
        w.nest(MARK, |w| w.put_all(&[value, mask, success]));
    }
    if let Some(device) = &rule.indev {
        w.text(FORM.indev, &device.name);
    }
    if shown.look.counts {
        let keys = u32::try_from(selector.keys.len()).unwrap_or(u32::MAX);
        let counts = [0, 1].into_iter().chain((0..keys).map(|key| key + 3));
        w.nest(COUNTS, |w| counts.for_each(|n| w.put(&shown.hits(n).to_ne_bytes())));
    }
}

fn write_selector(selector: &Selector, terminal: bool, w: &mut Writer) {
    let Selector { keys, offset, eat, hash } = selector;
    let Offset { plus, read } = offset.unwrap_or_default();
    let HashKey { mask: hash_mask, at: hash_at } = *hash;
    let set = [(terminal, TERMINAL), (offset.is_some(), OFFSET), (read.is_some(), VAROFFSET), (*eat, EAT)];
    let flags = set.iter().filter(|(on, _)| *on).fold(0, |bits, (_, bit)| bits | bit);
    let Read { at, mask, shift } = read.unwrap_or_default();
    w.nest(SEL, |w| {
        w.put(&[flags, shift, u8::try_from(keys.len()).unwrap_or(u8::MAX), 0]);
        w.put(&mask.to_be_bytes());
        w.put(&plus.to_ne_bytes());
        w.put(&at.to_ne_bytes());
        w.put(&hash_at.to_ne_bytes());
        w.put(&hash_mask.to_be_bytes());
        for Key { value, mask, at, next } in keys {
            w.put(&mask.to_be_bytes());
            w.put(&value.to_be_bytes());
            w.put_all(&[at.cast_unsigned(), if *next { u32::MAX } else { 0 }]);
        }
    });
}
