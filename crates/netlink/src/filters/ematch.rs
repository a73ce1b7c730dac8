//! Extended matches: a flat list of terms, in which a group names the first of its own terms by its
//! number (`struct tcf_ematch_tree_hdr`, `struct tcf_ematch_hdr`).

use txweir_core::classify::filter::ematch::{
    Cmp, Condition, DEPTH_MAX, Expr, Join, Layer, Meta, MetaId, Nbyte, Op, Operand, Term, U32,
};

use super::{Words, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

const HEADER: u16 = 1;
const LIST: u16 = 2;
/// Bytes of the head of a term.
const HEAD: usize = 8;
/// Bits of a term's flags: how it is joined to the next, if there is one, and its inversion.
const END: u16 = 0;
const AND: u16 = 1;
const OR: u16 = 2;
const JOIN: u16 = 3;
const INVERT: u16 = 4;
/// Kinds of terms.
const CONTAINER: u16 = 0;
const CMP: u16 = 1;
const NBYTE: u16 = 2;
const WORD: u16 = 3;
const META: u16 = 4;
/// Attributes of a comparison of metadata.
const META_HEADER: u16 = 1;
const META_LEFT: u16 = 2;
const META_RIGHT: u16 = 3;
/// The type of a number, in the high bits of a kind of metadata.
const INT: u16 = 1 << 12;
/// Most terms of an expression, each counted as often as groups lead to it.
const TERMS_MAX: usize = 1024;

/// Kinds of metadata by their numbers.
const METAS: [(u16, &str, MetaId); 8] = [
    (1, "random", MetaId::Random),
    (6, "priority", MetaId::Priority),
    (7, "protocol", MetaId::Protocol),
    (9, "pkt_len", MetaId::PktLen),
    (10, "data_len", MetaId::DataLen),
    (11, "mac_len", MetaId::MacLen),
    (12, "nf_mark", MetaId::NfMark),
    (46, "vlan", MetaId::Vlan),
];

/// Operators in the order of their numbers.
const OPS: [(&str, Op); 3] = [("eq", Op::Eq), ("gt", Op::Gt), ("lt", Op::Lt)];

fn wrong<T>(text: impl std::fmt::Display) -> Result<T, Refusal> {
    Err(Refusal::invalid(format!("match: {text}")))
}

/// Returns the words of an expression.
pub(super) fn read(value: &[u8]) -> Words {
    let all = Attributes::read(value, "match")?;
    all.only(&[HEADER, LIST])?;
    let Some(count) = all.record(HEADER, 4)?.map(|r| usize::from(r.u16(0))) else {
        return wrong("attribute 1, its header, is missing");
    };
    let list = all.nested(LIST)?;
    let terms: Vec<&[u8]> = list.iter().map(|a| a.value).collect();
    if terms.len() != count {
        return wrong(format!("expected {count} terms, given {}", terms.len()));
    }
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let mut left = TERMS_MAX;
    let text = row(&terms, 0, 0, &mut left)?;
    Ok(pair("match", text).into())
}

/// Returns the text of the terms from one on, up to the last that is joined to it.
fn row(terms: &[&[u8]], first: usize, depth: usize, left: &mut usize) -> Result<String, Refusal> {
    if depth > DEPTH_MAX {
        return wrong(format!("expected at most {DEPTH_MAX} groups within each other"));
    }
    let mut text = String::new();
    for (at, bytes) in terms.iter().enumerate().skip(first) {
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => return wrong(format!("expected at most {TERMS_MAX} terms, given more")),
        }
        let r = Record::of(bytes, HEAD, "match: a term")?;
        let (kind, flags, data) = (r.u16(2), r.u16(4), &bytes[HEAD..]);
        text.push_str(if flags & INVERT != 0 { "not " } else { "" });
        text.push_str(&match kind {
            CONTAINER => {
                let next = usize::try_from(Record::of(data, 4, "match: a group")?.u32(0)).ok();
                match next.filter(|next| *next > at && *next < terms.len()) {
                    Some(next) => format!("({})", row(terms, next, depth + 1, left)?),
                    None => return wrong(format!("term {at}: expected a group of terms behind it")),
                }
            }
            CMP => cmp(data)?,
            NBYTE => nbyte(data)?,
            WORD => word(data)?,
            META => meta(data)?,
            other => {
                let text = format!("match: there is no kind {other} of match here");
                return Err(Refusal::unsupported(text));
            }
        });
        match flags & JOIN {
            END => return Ok(text),
            AND => text.push_str(" and "),
            OR => text.push_str(" or "),
            _ => return wrong(format!("term {at}: it is joined by both and and or")),
        }
    }
    wrong("the last term is joined to none")
}

fn op(number: u8) -> Result<&'static str, Refusal> {
    match OPS.get(usize::from(number)) {
        Some((name, _)) => Ok(name),
        None => wrong(format!("expected an operator of 0 to 2, given {number}")),
    }
}

/// `struct tcf_em_cmp`: the last four fields have four bits each.
fn cmp(data: &[u8]) -> Result<String, Refusal> {
    let r = Record::of(data, 12, "match: cmp")?;
    let (low, high) = (r.u8(10), r.u8(11));
    let (bytes, flags, layer, op_number) = (low & 15, low >> 4, high & 15, high >> 4);
    if !matches!(bytes, 1 | 2 | 4) {
        return wrong(format!("cmp: expected 1, 2 or 4 bytes, given {bytes}"));
    }
    let trans = if flags & 1 != 0 { "trans " } else { "" };
    let mask = match r.u32(4) {
        0 => String::new(),
        mask => format!("mask {mask:#x} "),
    };
    let (op, value, at) = (op(op_number)?, r.u32(0), r.u16(8));
    Ok(format!("cmp(u{} at {at} layer {layer} {mask}{trans}{op} {value})", 8 * u32::from(bytes)))
}

/// `struct tcf_em_nbyte`, and the bytes behind it.
fn nbyte(data: &[u8]) -> Result<String, Refusal> {
    let r = Record::of(data, 4, "match: nbyte")?;
    let (at, len, layer) = (r.u16(0), usize::from(r.u16(2) & 0xfff), r.u16(2) >> 12);
    let Some(bytes) = data.get(4..4 + len) else {
        return wrong(format!("nbyte: expected {len} bytes, given {}", data.len().saturating_sub(4)));
    };
    let text: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
    Ok(format!("nbyte(\"{text}\" at {at} layer {layer})"))
}

/// `struct tc_u32_key`.
fn word(data: &[u8]) -> Result<String, Refusal> {
    let r = Record::of(data, 16, "match: u32")?;
    let [mask, value] = [r.u32(0), r.u32(4)].map(u32::from_be);
    let next = if r.u32(12) != 0 { "nexthdr+" } else { "" };
    Ok(format!("u32(u32 {value:#010x} {mask:#010x} at {next}{})", r.i32(8)))
}

/// `struct tcf_meta_hdr`, and the constants and masks.
fn meta(data: &[u8]) -> Result<String, Refusal> {
    let all = Attributes::read(data, "match meta")?;
    all.only(&[META_HEADER, META_LEFT, META_RIGHT])?;
    let Some(r) = all.record(META_HEADER, 8)? else {
        return wrong("meta: attribute 1, its header, is missing");
    };
    let operand = |at: usize, number: u16| {
        let (kind, shift) = (r.u16(at), r.u8(at + 2));
        let value = all.u32(number)?.unwrap_or(0);
        if kind & 0xf000 != INT {
            let text = "match: meta: texts are not compared here, expected numbers";
            return Err(Refusal::unsupported(text));
        }
        let id = kind & 0x7ff;
        if id == 0 {
            return Ok(value.to_string());
        }
        let Some((_, name, _)) = METAS.iter().find(|(known, ..)| *known == id) else {
            return Err(Refusal::unsupported(format!(
                "match: meta: property {id} of a packet is not known here"
            )));
        };
        let shift = if shift > 0 { format!(" shift {shift}") } else { String::new() };
        let mask = if value > 0 { format!(" mask {value:#x}") } else { String::new() };
        Ok(format!("{name}{shift}{mask}"))
    };
    let (left, right) = (operand(0, META_LEFT)?, operand(4, META_RIGHT)?);
    Ok(format!("meta({left} {} {right})", op(r.u8(3))?))
}

/// A term in its place in the flat list.
struct Flat<'a> {
    term: &'a Term,
    is_last: bool,
    /// The place of the first term of a group.
    group: u32,
}

/// Adds the terms of an expression, and behind them those of its groups.
fn flatten<'a>(expr: &'a Expr, out: &mut Vec<Flat<'a>>) {
    let first = out.len();
    let count = expr.terms.len();
    for (at, term) in expr.terms.iter().enumerate() {
        out.push(Flat { term, is_last: at + 1 == count, group: 0 });
    }
    for (at, term) in expr.terms.iter().enumerate() {
        if let Condition::Group(inner) = &term.what {
            out[first + at].group = u32::try_from(out.len()).unwrap_or(u32::MAX);
            flatten(inner, out);
        }
    }
}

/// Writes an expression as the value of an attribute.
pub(super) fn write(expr: &Expr, number: u16, w: &mut Writer) {
    let mut flat = Vec::new();
    flatten(expr, &mut flat);
    w.nest(number, |w| {
        w.nest(HEADER, |w| {
            w.put(&u16::try_from(flat.len()).unwrap_or(u16::MAX).to_ne_bytes());
            w.put(&[0; 2]);
        });
        w.nest(LIST, |w| {
            for (at, one) in (1u16..).zip(&flat) {
                w.nest(at, |w| write_term(one, w));
            }
        });
    });
}

fn write_term(one: &Flat<'_>, w: &mut Writer) {
    let term = one.term;
    let join = match (one.is_last, term.then) {
        (true, _) => END,
        (false, Join::And) => AND,
        (false, Join::Or) => OR,
    };
    let kind = match &term.what {
        Condition::Group(_) => CONTAINER,
        Condition::Cmp(_) => CMP,
        Condition::Nbyte(_) => NBYTE,
        Condition::U32(_) => WORD,
        Condition::Meta(_) => META,
    };
    let flags = join | if term.not { INVERT } else { 0 };
    [0, kind, flags, 0].iter().for_each(|n: &u16| w.put(&n.to_ne_bytes()));
    let op = |op: Op| OPS.iter().position(|(_, known)| *known == op).unwrap_or(0) as u8; // 0 to 2
    let layer = |layer: Layer| layer as u8;
    match &term.what {
        Condition::Group(_) => w.put_all(&[one.group]),
        Condition::Cmp(Cmp { bytes, layer: base, offset, mask, trans, op: is, value }) => {
            w.put_all(&[*value, *mask]);
            w.put(&offset.to_ne_bytes());
            w.put(&[bytes | u8::from(*trans) << 4, layer(*base) | op(*is) << 4]);
        }
        Condition::Nbyte(Nbyte { needle, layer: base, offset }) => {
            let len = u16::try_from(needle.len()).unwrap_or(0xfff) & 0xfff;
            w.put(&offset.to_ne_bytes());
            w.put(&(len | u16::from(layer(*base)) << 12).to_ne_bytes());
            w.put(needle);
        }
        Condition::U32(U32 { value, mask, offset, next_header }) => {
            w.put(&mask.to_be_bytes());
            w.put(&value.to_be_bytes());
            w.put_all(&[offset.cast_unsigned(), if *next_header { u32::MAX } else { 0 }]);
        }
        Condition::Meta(Meta { left, op: is, right }) => {
            let (left, right) = (side(*left), side(*right));
            w.nest(META_HEADER, |w| {
                for ((kind, shift, _), op) in [(left, op(*is)), (right, 0)] {
                    w.put(&kind.to_ne_bytes());
                    w.put(&[shift, op]);
                }
            });
            for (number, (kind, _, value)) in [(META_LEFT, left), (META_RIGHT, right)] {
                if value != 0 || kind == INT {
                    w.u32(number, value);
                }
            }
        }
    }
}

/// Returns kind, shift, and constant or mask of an operand.
fn side(operand: Operand) -> (u16, u8, u32) {
    match operand {
        Operand::Value(value) => (INT, 0, value),
        Operand::Known { id, shift, mask } => {
            let number = METAS.iter().find(|(.., known)| *known == id).map_or(0, |(number, ..)| *number);
            (INT | number, shift, mask)
        }
    }
}
