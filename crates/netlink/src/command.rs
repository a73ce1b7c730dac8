//! A message that changes something, as the words of tc that say the same.

use txweir_core::Handle;
use txweir_core::classify::action::police::Average;
use txweir_core::qdisc::Registry;
use txweir_tc::parts;

use crate::actions::{self, Links};
use crate::classify::{ACTIONS_HEAD, BLOCK, CHAIN, LIST, names, of_info};
use crate::filters;
use crate::flags::Asked;
use crate::message::{Header, TcHead, flag, kind};
use crate::options::{self, Object};
use crate::refusal::{Refusal, errno};
use crate::wire::{Attributes, Record};

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

/// Returns the words of a message about a qdisc or a class of a device.
///
/// # Errors
/// The message is malformed, or its options have no words.
pub(crate) fn words(
    header: Header,
    body: &[u8],
    device: &str,
    kinds: Registry,
    asked: &Asked,
) -> Result<Vec<String>, Refusal> {
    let object = match header.kind {
        kind::NEW_QDISC | kind::DEL_QDISC => Object::Qdisc,
        _ => Object::Class,
    };
    let (head, rest) = TcHead::read(body)?;
    let all = Attributes::read(rest, "message")?;
    // The qdisc has the kind of a class, whatever the message says.
    let name = asked.kind.as_deref().filter(|_| object == Object::Class);
    let name = name.or(all.text(KIND, KIND_MAX)?).or(asked.kind.as_deref());
    let (noun, verb) = (if object == Object::Qdisc { "qdisc" } else { "class" }, asked.verb);
    let mut words: Vec<String> = [noun, verb, "dev", device].map(String::from).into();
    let hook = head.parent == HOOK && object == Object::Qdisc;
    // The words of a hook end with its name.
    blocks(&all, &mut words)?;
    if hook {
        // Linux knows hooks by their place; which of the two it is, by the kind.
        words.push(if name == Some("clsact") { "clsact" } else { "ingress" }.into());
    } else {
        place(object, TcHead { parent: asked.parent.unwrap_or(head.parent), ..head }, &mut words);
    }
    if let Some(stab) = all.bytes(STAB).filter(|_| verb != "del") {
        words.extend(options::stab_words(stab)?);
    }
    all.only(&KNOWN)?;
    let Some(name) = name.filter(|_| !hook) else { return Ok(words) };
    if verb == "del" && object == Object::Class {
        return Ok(words);
    }
    words.push(name.to_string());
    if verb == "del" {
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

/// Returns the words of a message about filters or chains.
///
/// # Errors
/// The message is malformed, or its options have no words.
pub(crate) fn filter_words(
    header: Header,
    body: &[u8],
    links: Links<'_>,
    asked: &Asked,
) -> Result<Vec<String>, Refusal> {
    let (head, rest) = TcHead::read(body)?;
    let all = Attributes::read(rest, "message")?;
    all.only(&[KIND, OPTIONS, RATE, CHAIN, 3, 4, 6, 7, 9, 12, DUMP_FLAGS])?;
    let is_chain = matches!(header.kind, kind::NEW_CHAIN | kind::DEL_CHAIN | kind::GET_CHAIN);
    let verb = asked.verb;
    let mut words: Vec<String> = [if is_chain { "chain" } else { "filter" }, verb].map(String::from).into();
    match head.link {
        BLOCK => {
            words.extend(["block".into(), head.parent.to_string()]);
            // A block has no places, and tc wants to be told one.
            words.extend((verb == "get").then(|| "root".to_string()));
        }
        link => {
            let missing =
                || Refusal { errno: errno::NODEV, text: format!("there is no link with the number {link}") };
            words.extend(["dev".into(), links(link).ok_or_else(missing)?]);
            match head.parent {
                0 if verb == "get" => words.push("root".into()),
                0 => {}
                ROOT => words.push("root".into()),
                parent => words.extend(["parent".into(), text(parent)]),
            }
        }
    }
    let (prio, protocol) = of_info(head.info);
    let protocol = if protocol == 0 { asked.protocol.unwrap_or(0) } else { protocol };
    if let Some(chain) = all.u32(CHAIN)? {
        words.extend(["chain".into(), chain.to_string()]);
    }
    // A listing of a filter goes by them; tc wants to be told.
    if protocol != 0 || verb == "get" && !is_chain {
        let protocol = if protocol == 0 { ANY } else { protocol };
        words.extend(["protocol".into(), format!("{protocol:#06x}")]);
    }
    if prio != 0 && !is_chain {
        words.extend(["prio".into(), prio.to_string()]);
    }
    if let Some(r) = all.record(RATE, 2)? {
        words.extend(estimator(r)?);
    }
    let Some(name) = all.text(KIND, KIND_MAX)?.or(asked.kind.as_deref()) else {
        if head.handle != 0 && !is_chain {
            return Err(Refusal::invalid("a handle goes with the kind of the filter, attribute 1"));
        }
        return Ok(words);
    };
    let options = all.bytes(OPTIONS).filter(|_| matches!(verb, "add" | "replace" | "change"));
    let (handle, rest) = filters::read(name, head.handle, protocol, options, links)?;
    words.extend(handle.into_iter().flat_map(|handle| ["handle".into(), handle]));
    words.extend(rest);
    Ok(words)
}

/// The protocol of all packets.
const ANY: u16 = txweir_core::classify::filter::ANY_PROTOCOL;
/// The attribute by which a client asks for short listings.
const DUMP_FLAGS: u16 = 15;

/// `struct tc_estimator`: the logarithm of the interval, from 250 ms on for -2, and of the weight.
fn estimator(r: Record<'_>) -> Result<Vec<String>, Refusal> {
    let interval = r.u8(0).cast_signed();
    let (interval_log, weight_log) = (interval.saturating_add(2), r.u8(1));
    match u8::try_from(interval_log).ok().filter(|log| *log <= 5 && (1..=31).contains(&weight_log)) {
        Some(interval_log) => {
            Ok(parts::estimator(Average { rate: Default::default(), interval_log, weight_log }))
        }
        None => {
            let text = format!(
                "estimator: expected an interval of -2 to 3 and a weight of 1 to 31, given {interval} and {weight_log}"
            );
            Err(Refusal::invalid(text))
        }
    }
}

/// Returns the words of a message about actions.
///
/// # Errors
/// The message is malformed, or its options have no words.
pub(crate) fn action_words(header: Header, body: &[u8], links: Links<'_>) -> Result<Vec<String>, Refusal> {
    let words = |verb: &str| vec!["actions".to_string(), verb.to_string()];
    let name = |(kind, index): (&str, Option<u32>)| {
        let index = index.into_iter().flat_map(|index| ["index".to_string(), index.to_string()]);
        ["action".to_string(), kind.to_string()].into_iter().chain(index).collect::<Vec<_>>()
    };
    match header.kind {
        kind::NEW_ACTION => {
            Record::of(body, ACTIONS_HEAD, "struct tcamsg")?;
            let all = Attributes::read(&body[ACTIONS_HEAD..], "message")?;
            let list = all.bytes(LIST).unwrap_or(&[]);
            let verb = if header.flags & flag::REPLACE != 0 { "replace" } else { "add" };
            let mut words = words(verb);
            words.extend(actions::read_list(list, links)?);
            Ok(words)
        }
        kind::DEL_ACTION if header.flags & flag::ROOT != 0 => {
            let mut words = words("flush");
            words.extend(names(body)?.into_iter().take(1).flat_map(|(kind, _)| name((kind, None))));
            Ok(words)
        }
        of => {
            let mut words = words(if of == kind::DEL_ACTION { "del" } else { "get" });
            words.extend(names(body)?.into_iter().flat_map(name));
            Ok(words)
        }
    }
}
