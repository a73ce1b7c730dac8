//! A message that changes something, as the words of tc that say the same.

use txweir_core::Handle;
use txweir_core::qdisc::Registry;

use crate::message::{Header, TcHead, flag, kind};
use crate::options::{self, Object};
use crate::refusal::Refusal;
use crate::wire::Attributes;

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const RATE: u16 = 5;
const STAB: u16 = 8;
const INGRESS_BLOCK: u16 = 13;
const EGRESS_BLOCK: u16 = 14;
/// The attributes that a request may have: these, and counters, which a listing has and which say
/// nothing in a request.
const KNOWN: [u16; 10] = [KIND, OPTIONS, RATE, STAB, INGRESS_BLOCK, EGRESS_BLOCK, 3, 4, 7, 9];
/// Longest name of a kind (`IFNAMSIZ` of Linux, without the zero byte).
const KIND_MAX: usize = 15;
const ROOT: u32 = u32::MAX;
/// The parent of the hooks.
const HOOK: u32 = 0xffff_fff1;

/// Returns a handle as tc writes it.
fn text(handle: u32) -> String {
    Handle(handle).to_string()
}

/// Returns the verb of a request, by its flags.
fn verb(object: Object, header: Header) -> &'static str {
    let has = |bit| header.flags & bit != 0;
    if matches!(header.kind, kind::DEL_QDISC | kind::DEL_CLASS) {
        return "del";
    }
    match (has(flag::CREATE), has(flag::EXCL), has(flag::REPLACE)) {
        (true, true, _) => "add",
        (true, false, _) => "replace",
        (false, _, true) if object == Object::Qdisc => "link",
        _ => "change",
    }
}

/// Returns the words of a message about a qdisc or a class of a device.
///
/// # Errors
/// The message is malformed, or its options have no words.
pub(crate) fn words(
    header: Header,
    body: &[u8],
    device: &str,
    kinds: Registry,
) -> Result<Vec<String>, Refusal> {
    let object = match header.kind {
        kind::NEW_QDISC | kind::DEL_QDISC => Object::Qdisc,
        _ => Object::Class,
    };
    let (head, rest) = TcHead::read(body)?;
    let all = Attributes::read(rest, "message")?;
    let name = all.text(KIND, KIND_MAX)?;
    let noun = if object == Object::Qdisc { "qdisc" } else { "class" };
    let mut words: Vec<String> = [noun, verb(object, header), "dev", device].map(String::from).into();
    let hook = head.parent == HOOK && object == Object::Qdisc;
    if hook {
        // Linux knows hooks by their place; which of the two it is, by the kind.
        words.push(if name == Some("clsact") { "clsact" } else { "ingress" }.into());
    } else {
        place(object, head, &mut words);
    }
    blocks(&all, &mut words)?;
    if let Some(stab) = all.bytes(STAB).filter(|_| verb(object, header) != "del") {
        words.extend(options::stab_words(stab)?);
    }
    all.only(&KNOWN)?;
    let Some(name) = name.filter(|_| !hook) else { return Ok(words) };
    words.push(name.to_string());
    if verb(object, header) == "del" {
        return Ok(words);
    }
    // The engine refuses a kind that it does not have.
    if let Some(spec) = kinds.get(name) {
        words.extend(options::read(object, spec, all.bytes(OPTIONS))?);
    }
    Ok(words)
}

fn place(object: Object, head: TcHead, words: &mut Vec<String>) {
    match head.parent {
        0 => {}
        ROOT => words.push("root".into()),
        parent => words.extend(["parent".into(), text(parent)]),
    }
    if head.handle != 0 {
        let key = if object == Object::Qdisc { "handle" } else { "classid" };
        words.extend([key.into(), text(head.handle)]);
    }
}

fn blocks(all: &Attributes<'_>, words: &mut Vec<String>) -> Result<(), Refusal> {
    for (key, number) in [("ingress_block", INGRESS_BLOCK), ("egress_block", EGRESS_BLOCK)] {
        if let Some(block) = all.u32(number)? {
            words.extend([key.to_string(), block.to_string()]);
        }
    }
    Ok(())
}
