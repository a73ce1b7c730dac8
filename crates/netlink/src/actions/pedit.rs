//! pedit: `struct tc_pedit_sel` with its keys, and in its longer form the header and the command of
//! each.

use txweir_core::classify::action::Pedit;
use txweir_core::classify::action::pedit::{At, Header, KEYS_MAX, Key};
use txweir_tc::parts;

use super::{Asked, Form, Found, Links, Shown, control_words};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

const TIMES: u16 = 1;
const PARMS: u16 = 2;
const PAD: u16 = 3;
pub(super) const PARMS_EX: u16 = 4;
const KEYS_EX: u16 = 5;
const KEY_EX: u16 = 6;
const HEADER: u16 = 1;
const COMMAND: u16 = 2;
/// The offset of the number of keys, and the bytes in front of them and of each.
const COUNT: usize = 20;
const HEAD: usize = 24;
const KEY: usize = 24;

pub(super) const FORM: Form =
    Form { kind: "pedit", parms: (PARMS, HEAD), times: TIMES, known: &[PAD, PARMS_EX, KEYS_EX], read };

/// Headers in the order of their numbers.
const HEADERS: [Header; 6] =
    [Header::Network, Header::Eth, Header::Ip4, Header::Ip6, Header::Tcp, Header::Udp];

/// Returns the keys of the struct.
fn keys(asked: &Asked<'_>, number: u16) -> Result<Vec<Key>, Refusal> {
    let count = usize::from(asked.parms.u8(COUNT));
    if count > KEYS_MAX {
        let text = format!("action pedit: expected at most {KEYS_MAX} keys, given {count}");
        return Err(Refusal::invalid(text));
    }
    let bytes = asked.all.bytes(number).unwrap_or(&[]);
    let r = Record::of(bytes, HEAD + count * KEY, "action pedit: its keys")?;
    let key = |n: usize| {
        let field = |of: usize| r.u32(HEAD + n * KEY + 4 * of);
        let (at, mask, shift) = (field(3), field(4), field(5));
        // The words are those of the packet.
        let [keep, value] = [field(0), field(1)].map(u32::from_be);
        let offset = field(2).cast_signed();
        let at = (mask != 0).then_some(At { at, mask, shift });
        Key { header: Header::Network, offset, at, add: false, mask: keep, value }
    };
    Ok((0..count).map(key).collect())
}

/// Reads the headers and the commands of the keys, in their order.
fn extend(keys: &mut [Key], value: &[u8]) -> Result<(), Refusal> {
    let all = Attributes::read(value, "action pedit")?;
    all.only(&[KEY_EX])?;
    if all.iter().count() != keys.len() {
        let text =
            format!("action pedit: expected {} keys with headers, given {}", keys.len(), all.iter().count());
        return Err(Refusal::invalid(text));
    }
    for (key, one) in keys.iter_mut().zip(all.iter()) {
        let one = Attributes::read(one.value, "action pedit")?;
        one.only(&[HEADER, COMMAND])?;
        let number =
            |number: u16| Ok::<_, Refusal>(one.record(number, 2)?.map_or(0, |r| usize::from(r.u16(0))));
        let (header, command) = (number(HEADER)?, number(COMMAND)?);
        let Some(known) = HEADERS.get(header) else {
            return Err(Refusal::invalid(format!(
                "action pedit: expected a header of 0 to 5, given {header}"
            )));
        };
        if command > 1 {
            let text = format!("action pedit: expected a command of 0 or 1, given {command}");
            return Err(Refusal::invalid(text));
        }
        (key.header, key.add) = (*known, command == 1);
    }
    Ok(())
}

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let longer = asked.all.bytes(PARMS_EX).is_some();
    let mut keys = keys(asked, if longer { PARMS_EX } else { PARMS })?;
    if keys.is_empty() {
        return Ok(None);
    }
    if let Some(value) = asked.all.bytes(KEYS_EX) {
        extend(&mut keys, value)?;
    }
    let pedit = Pedit::new(keys, longer).map_err(|err| Refusal::invalid(err.to_string()))?;
    let Some(words) = parts::pedit(&pedit) else {
        let text = "action pedit: a key changes bits that are no field of its header here";
        return Err(Refusal::unsupported(text));
    };
    // The kind stands in front of them already.
    let control = control_words(asked.parms.i32(asked.control_at))?;
    Ok(Some(words.into_iter().skip(1).chain(control).collect()))
}

pub(super) fn write(pedit: &Pedit, shown: &Shown<'_>, w: &mut Writer) {
    let keys = pedit.keys();
    w.nest(if pedit.extended() { PARMS_EX } else { PARMS }, |w| {
        shown.begin(w);
        w.put(&[u8::try_from(keys.len()).unwrap_or(u8::MAX), 0, 0, 0]);
        for key in keys {
            let At { at, mask, shift } = key.at.unwrap_or_default();
            let (keep, value) = (key.mask.to_be(), key.value.to_be());
            w.put_all(&[keep, value, key.offset.cast_unsigned(), at, mask, shift]);
        }
    });
    if pedit.extended() {
        w.nest(KEYS_EX, |w| keys.iter().for_each(|key| write_key(key, w)));
    }
}

fn write_key(key: &Key, w: &mut Writer) {
    let header = (0u16..).zip(HEADERS).find(|(_, header)| *header == key.header);
    w.nest(KEY_EX, |w| {
        w.u16(HEADER, header.map_or(0, |(number, _)| number));
        w.u16(COMMAND, key.add.into());
    });
}
