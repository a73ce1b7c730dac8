//! skbedit and skbmod.

use txweir_core::Handle;
use txweir_core::classify::action::skbedit::PacketType;
use txweir_core::classify::action::{Skbedit, Skbmod};

use super::{Asked, Form, Found, Links, Shown, mac, pair};
use crate::refusal::Refusal;
use crate::wire::Writer;

const PRIORITY: u16 = 3;
const QUEUE: u16 = 4;
const MARK: u16 = 5;
const PTYPE: u16 = 7;
const MASK: u16 = 8;
const FLAGS: u16 = 9;
const QUEUE_MAX: u16 = 10;
/// Bits of [`FLAGS`]: those of values that have an attribute say nothing.
const INHERIT: u64 = 0x20;
const HASHED: u64 = 0x40;
const KNOWN: u64 = 0x7f;

pub(super) const SKBEDIT: Form = Form {
    kind: "skbedit",
    parms: (2, 20),
    times: 1,
    known: &[PRIORITY, QUEUE, MARK, 6, PTYPE, MASK, FLAGS, QUEUE_MAX],
    read: read_skbedit,
};

/// Types of packets by their numbers (`linux/if_packet.h`).
const TYPES: [(&str, PacketType); 4] = [
    ("host", PacketType::Host),
    ("broadcast", PacketType::Broadcast),
    ("multicast", PacketType::Multicast),
    ("otherhost", PacketType::OtherHost),
];

fn read_skbedit(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let all = &asked.all;
    let short = |number: u16| Ok::<_, Refusal>(all.record(number, 2)?.map(|r| r.u16(0)));
    let flags = all.u64(FLAGS)?.unwrap_or(0);
    if flags & !KNOWN != 0 {
        return Err(Refusal::invalid(format!(
            "action skbedit: expected flags of 0 to {KNOWN}, given {flags}"
        )));
    }
    let mut words = Vec::new();
    match (short(QUEUE)?, short(QUEUE_MAX)?) {
        (Some(first), Some(last)) if flags & HASHED != 0 => {
            words.extend(["queue_mapping".into(), "skbhash".into(), first.to_string(), last.to_string()]);
        }
        (Some(first), _) => words.extend(pair("queue_mapping", first)),
        (None, _) => {}
    }
    if let Some(priority) = all.u32(PRIORITY)? {
        words.extend(pair("priority", Handle(priority)));
    }
    match (all.u32(MARK)?, all.u32(MASK)?) {
        (Some(mark), Some(mask)) => words.extend(pair("mark", format!("{mark}/{mask:#x}"))),
        (Some(mark), None) => words.extend(pair("mark", mark)),
        (None, _) => {}
    }
    if let Some(number) = short(PTYPE)? {
        let Some((name, _)) = TYPES.get(usize::from(number)) else {
            return Err(Refusal::invalid(format!(
                "action skbedit: expected a type of 0 to 3, given {number}"
            )));
        };
        words.extend(pair("ptype", name));
    }
    words.extend((flags & INHERIT != 0).then(|| "inheritdsfield".to_string()));
    if words.is_empty() {
        return Ok(None);
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write_skbedit(edit: &Skbedit, shown: &Shown<'_>, w: &mut Writer) {
    shown.parms(2, &[], w);
    edit.priority.into_iter().for_each(|n| w.u32(PRIORITY, n));
    edit.queue_mapping.into_iter().for_each(|n| w.u16(QUEUE, n));
    edit.queue_mapping_max.into_iter().for_each(|n| w.u16(QUEUE_MAX, n));
    if let Some((mark, mask)) = edit.mark {
        w.u32(MARK, mark);
        if mask != u32::MAX {
            w.u32(MASK, mask);
        }
    }
    if let Some(ptype) = edit.packet_type {
        w.u16(PTYPE, ptype as u16);
    }
    let hashed = if edit.queue_mapping_max.is_some() { HASHED } else { 0 };
    match hashed | if edit.inherit_dsfield { INHERIT } else { 0 } {
        0 => {}
        flags => w.u64(FLAGS, flags),
    }
}

const DMAC: u16 = 3;
const SMAC: u16 = 4;
const ETYPE: u16 = 5;
/// Bits of the struct of skbmod.
const SET_DMAC: u64 = 1;
const SET_SMAC: u64 = 2;
const SET_ETYPE: u64 = 4;
const SWAP: u64 = 8;
const ECN: u64 = 16;
/// The offset of the bits: a number of 64 bits begins at a multiple of eight.
const BITS: usize = 24;

pub(super) const SKBMOD: Form =
    Form { kind: "skbmod", parms: (2, 32), times: 1, known: &[DMAC, SMAC, ETYPE, 6], read: read_skbmod };

fn read_skbmod(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let (all, bits) = (&asked.all, asked.parms.u64(BITS));
    let mut words = Vec::new();
    for (key, number, bit) in [("dmac", DMAC, SET_DMAC), ("smac", SMAC, SET_SMAC)] {
        let address = mac(all, number)?.filter(|_| bits & bit != 0 || bits == 0);
        words.extend(address.into_iter().flat_map(|address| pair(key, address)));
    }
    if let Some(r) = all.record(ETYPE, 2)? {
        words.extend(pair("etype", format!("{:#x}", r.u16(0))));
    }
    if !words.is_empty() {
        words.insert(0, "set".into());
    }
    if bits & SWAP != 0 {
        words = Vec::from(pair("swap", "mac"));
    }
    if bits & ECN != 0 {
        words = vec!["ecn".into()];
    }
    if words.is_empty() {
        return Ok(None);
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write_skbmod(skbmod: &Skbmod, shown: &Shown<'_>, w: &mut Writer) {
    let Skbmod { dmac, smac, etype, swap, ecn } = *skbmod;
    let set = [
        (dmac.is_some(), SET_DMAC),
        (smac.is_some(), SET_SMAC),
        (etype.is_some(), SET_ETYPE),
        (swap, SWAP),
        (ecn, ECN),
    ];
    let bits = set.iter().filter(|(on, _)| *on).fold(0, |bits, (_, bit)| bits | bit);
    w.nest(2, |w| {
        shown.begin(w);
        w.put(&[0; 4]);
        w.put(&bits.to_ne_bytes());
    });
    dmac.iter().for_each(|address| w.bytes(DMAC, address));
    smac.iter().for_each(|address| w.bytes(SMAC, address));
    etype.into_iter().for_each(|n| w.u16(ETYPE, n));
}
