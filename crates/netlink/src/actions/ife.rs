//! ife: `struct tc_ife`, the header of the frame, and the parts of the metadata.

use txweir_core::classify::action::Ife;
use txweir_core::classify::action::ife::{PARTS, Use};

use super::{Asked, Form, Found, Links, Shown, mac, pair};
use crate::refusal::Refusal;
use crate::wire::Writer;

const DMAC: u16 = 3;
const SMAC: u16 = 4;
const TYPE: u16 = 5;
const PARTS_OF: u16 = 6;
/// The offset of the direction, and that which puts metadata in front.
const WAY: usize = 20;
const ENCODE: u16 = 1;

pub(super) const FORM: Form =
    Form { kind: "ife", parms: (1, 24), times: 2, known: &[DMAC, SMAC, TYPE, PARTS_OF, 7], read };

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let all = &asked.all;
    let parts = all.nested(PARTS_OF)?;
    if asked.parms.u16(WAY) & ENCODE == 0 {
        // The parts are listed when they are shown: all.
        let count = parts.iter().count();
        if count > 0 && !PARTS.iter().all(|part| parts.bytes(part.number()).is_some()) {
            let text = format!("action ife: decode takes all {} parts, given {count}", PARTS.len());
            return Err(Refusal::unsupported(text));
        }
        let mut words = vec!["decode".to_string()];
        words.extend(asked.control()?);
        return Ok(Some(words));
    }
    let mut words = vec!["encode".to_string()];
    let known: Vec<u16> = PARTS.iter().map(|part| part.number()).collect();
    parts.only(&known)?;
    for part in PARTS {
        let Some(bytes) = parts.bytes(part.number()) else { continue };
        let value = match *bytes {
            [] => 0,
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
            _ => {
                let text =
                    format!("action ife: {}: expected 0, 2 or 4 bytes, given {}", part.name(), bytes.len());
                return Err(Refusal::invalid(text));
            }
        };
        match value {
            0 => words.extend(pair("allow", part.name())),
            value => words.extend(["use".into(), part.name().into(), value.to_string()]),
        }
    }
    for (key, number) in [("dst", DMAC), ("src", SMAC)] {
        words.extend(mac(all, number)?.into_iter().flat_map(|address| pair(key, address)));
    }
    if let Some(r) = all.record(TYPE, 2)? {
        words.extend(pair("type", format!("{:#x}", r.u16(0))));
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write(ife: &Ife, shown: &Shown<'_>, w: &mut Writer) {
    shown.parms(1, &[u32::from(ife.encode)], w);
    ife.dst.iter().for_each(|address| w.bytes(DMAC, address));
    ife.src.iter().for_each(|address| w.bytes(SMAC, address));
    w.u16(TYPE, ife.ethertype);
    w.nest(PARTS_OF, |w| {
        for (part, way) in PARTS.into_iter().zip(ife.parts) {
            match way {
                _ if !ife.encode => w.bytes(part.number(), &[]),
                Some(Use::Allow) => w.bytes(part.number(), &[]),
                Some(Use::Value(value)) if part.size() == 2 => w.u16(part.number(), value as u16),
                Some(Use::Value(value)) => w.u32(part.number(), value),
                None => {}
            }
        }
    });
}
