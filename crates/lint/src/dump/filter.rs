//! Filters: what `tc -j filter show` prints of one, as the words that make it.

use super::json::Value;
use super::members::{Members, is_word};
use super::{Refusal, action};
use std::collections::BTreeSet;

type Done<T = ()> = Result<T, Refusal>;

/// The handle of a filter and the words after its kind, each behind a blank.
pub(super) struct Said {
    pub(super) handle: String,
    pub(super) words: String,
}

/// True for a member that tc prints beside the configuration.
fn passed(key: &str) -> bool {
    matches!(
        key,
        "not_in_hw" | "in_hw" | "in_hw_count" | "rule_hit" | "success" | "fwmark_success" | "terminal_flowid"
    )
}

/// Returns the words of a filter. The actions that are in `made` stand in earlier lines.
pub(super) fn words(
    kind: &str,
    mut o: Members<'_>,
    root: Option<u32>,
    made: &mut BTreeSet<(String, u64)>,
) -> Done<Said> {
    let mut said = match kind {
        "bpf" => bpf(&mut o)?,
        "flow" => flow(&mut o)?,
        "flower" => flower(&mut o)?,
        "fw" => fw(&mut o)?,
        "matchall" | "tcpctl" => Said { handle: number(&mut o, 10)?, words: String::new() },
        "u32" => u32(&mut o, root)?,
        "basic" => {
            let handle = number(&mut o, 16)?;
            Said { handle, words: expression(&mut o)? }
        }
        _ => {
            let known = txweir_core::classify::filter::KINDS.join(", ");
            return Err(
                o.refused(&format!("there is no {kind} filter in the engine, expected one of {known}"))
            );
        }
    };
    if o.flag("skip_hw")? {
        said.words.push_str(" skip_hw");
    }
    for key in ["flowid", "classid"] {
        if let Some(class) = o.word(key)? {
            said.words.push_str(&format!(" classid {class}"));
        }
    }
    if let Some(tc) = o.uint("hw_tc")? {
        said.words.push_str(&format!(" hw_tc {tc}"));
    }
    for item in o.list("actions")?.unwrap_or_default() {
        let one = Members::of(&format!("{}: action", o.what), item)?;
        said.words.push_str(&action::words(one, made)?);
    }
    o.end(passed)?;
    Ok(said)
}

/// Takes the handle, a number of this base.
fn number(o: &mut Members<'_>, base: u32) -> Done<String> {
    let value = o.take("handle").ok_or_else(|| o.missing("handle"))?;
    let text = o.as_plain("handle", value)?;
    let read = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => u32::from_str_radix(text, base),
    };
    read.map(|n| format!("{n:#x}")).map_err(|_| o.wrong("handle", "a number of 32 bits", value))
}

fn fw(o: &mut Members<'_>) -> Done<Said> {
    let mut handle = number(o, 16)?;
    if let Some(mask) = o.word("mask")? {
        handle.push_str(&format!("/0x{}", mask.trim_start_matches("0x")));
    }
    Ok(Said { handle, words: indev(o)? })
}

/// Takes the device that a packet has to come from.
fn indev(o: &mut Members<'_>) -> Done<String> {
    let mut out = String::new();
    for key in ["input_dev", "indev"] {
        if let Some(name) = o.word(key)? {
            out.push_str(&format!(" indev {name}"));
        }
    }
    Ok(out)
}

fn bpf(o: &mut Members<'_>) -> Done<Said> {
    let handle = number(o, 16)?;
    let Some(mut code) = o.object("bytecode")? else {
        return Err(o.refused("a program that is loaded from a file cannot be carried over"));
    };
    code.pass("length");
    let mut all = Vec::new();
    for item in code.list("insns")?.unwrap_or_default() {
        let mut one = Members::of(&format!("{}: insns", code.what), item)?;
        let parts = ["code", "jt", "jf", "k"].map(|key| one.need_uint(key));
        let parts: Done<Vec<u64>> = parts.into_iter().collect();
        one.end(|_| false)?;
        all.push(parts?.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
    }
    code.end(|_| false)?;
    let mut words = format!(" bytecode '{},{},'", all.len(), all.join(","));
    if o.flag("direct-action")? {
        words.push_str(" direct-action");
    }
    Ok(Said { handle, words })
}

fn flow(o: &mut Members<'_>) -> Done<Said> {
    let handle = number(o, 16)?;
    let (mode, keys) = (o.need_word("mode")?, o.need_word("keys")?);
    let mut words = format!(" {mode} {} {keys}", if mode == "hash" { "keys" } else { "key" });
    for key in ["and", "xor", "or", "rshift", "addend", "divisor", "baseclass", "perturb"] {
        if let Some(value) = o.plain(key)? {
            words.push_str(&format!(" {key} {value}"));
        }
    }
    words.push_str(&expression(o)?);
    Ok(Said { handle, words })
}

/// Takes an expression (tc-ematch(8)), which Linux's tc prints in text only, amid the JSON: then
/// the dump is no JSON.
fn expression(o: &mut Members<'_>) -> Done<String> {
    match o.take("match") {
        None => Ok(String::new()),
        Some(Value::Text(text)) if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'\'') => {
            Ok(format!(" match '{text}'"))
        }
        Some(other) => Err(o.wrong("match", "an expression", other)),
    }
}

/// Parts of the handle of a u32 filter: table, bucket, number.
fn parts(handle: &str) -> Option<[u32; 3]> {
    let mut parts = handle.split(':').map(|part| match part {
        "" => Some(0),
        digits => u32::from_str_radix(digits, 16).ok(),
    });
    Some([parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?])
}

/// Returns the number of the hash table that an object of u32 is, and its size.
pub(super) fn table(o: &mut Members<'_>) -> Done<Option<(u32, u64)>> {
    if !o.has("ht_divisor") {
        return Ok(None);
    }
    let given = o.need_word("fh")?;
    let divisor = o.need_uint("ht_divisor")?;
    match parts(given) {
        Some([table, 0, 0]) => Ok(Some((table, divisor))),
        _ => Err(o.wrong("fh", "the number of a table", &Value::Text(given.into()))),
    }
}

/// `root` is the table that the filters of the priority have without a word for it.
fn u32(o: &mut Members<'_>, root: Option<u32>) -> Done<Said> {
    let given = o.need_word("fh")?;
    let Some([table, bucket, node]) = parts(given) else {
        return Err(o.wrong("fh", "TABLE:BUCKET:NUMBER", &Value::Text(given.into())));
    };
    ["order", "key_ht", "bkt"].into_iter().for_each(|key| o.pass(key));
    let (handle, mut words) = match root == Some(table) {
        true => (format!("::{node:x}"), String::new()),
        false => (format!("{table:x}:{bucket:x}:{node:x}"), format!(" ht {table:x}:{bucket:x}:")),
    };
    let hex = |o: &mut Members<'_>, key: &str| -> Done<Option<u32>> {
        let Some(word) = o.word(key)? else { return Ok(None) };
        let read = u32::from_str_radix(word.trim_start_matches("0x"), 16);
        read.map(Some).map_err(|_| o.wrong(key, "hexadecimal digits", &Value::Text(word.into())))
    };
    let mut keys = 0;
    while let Some(mut one) = o.object("match")? {
        let value = hex(&mut one, "value")?.ok_or_else(|| one.missing("value"))?;
        let mask = hex(&mut one, "mask")?.ok_or_else(|| one.missing("mask"))?;
        let next = matches!(one.take("offmask"), Some(Value::Text(from)) if from.starts_with("nexthdr"));
        let at = one.plain("off")?.unwrap_or("0");
        let from = if next { "nexthdr+" } else { "" };
        words.push_str(&format!(" match u32 {value:#010x} {mask:#010x} at {from}{at}"));
        one.end(|_| false)?;
        keys += 1;
    }
    let mark = hex(o, "fwmark_value")?;
    if let Some(value) = mark {
        let mask = hex(o, "fwmark_mask")?.ok_or_else(|| o.missing("fwmark_mask"))?;
        words.push_str(&format!(" match mark {value:#x} {mask:#x}"));
    }
    if keys == 0 && mark.is_none() {
        // The way to write a filter without keys.
        words.push_str(" match ip6 src any");
    }
    let read = hex(o, "offset_mask")?;
    let plus = o.uint("plus")?;
    if read.is_some() || plus.is_some() {
        words.push_str(&format!(" offset plus {}", plus.unwrap_or(0)));
    }
    if let Some(mask) = read {
        let (shift, at) = (o.need_uint("offset_shift")?, o.plain("offset_off")?.unwrap_or("0"));
        words.push_str(&format!(" at {at} mask {mask:#x} shift {shift}"));
    }
    if o.flag("eat")? {
        words.push_str(if read.is_some() || plus.is_some() { " eat" } else { " offset eat" });
    }
    if let Some(mask) = hex(o, "hash_mask")? {
        let at = o.plain("hash_off")?.unwrap_or("0");
        words.push_str(&format!(" hashkey mask {mask:#x} at {at}"));
    }
    if let Some(link) = o.word("link")? {
        words.push_str(&format!(" link {link}"));
    }
    words.push_str(&indev(o)?);
    Ok(Said { handle, words })
}

fn flower(o: &mut Members<'_>) -> Done<Said> {
    let handle = number(o, 10)?;
    let mut words = indev(o)?;
    let Some(mut keys) = o.object("keys")? else { return Ok(Said { handle, words }) };
    // The line has it as its protocol.
    keys.pass("eth_type");
    let mut behind = String::new();
    while let Some((key, value)) = keys.next(|key| !key.ends_with("_mask")) {
        let text = match value {
            Value::Object(_) => range_or_flags(&keys, key, value)?,
            Value::List(entries) => labels(&keys, key, entries)?,
            other => {
                let text = keys.as_plain(key, other)?;
                // A number that has no name is printed in brackets.
                let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
                match keys.word(&format!("{key}_mask"))? {
                    Some(mask) => format!("{bare}/0x{}", mask.trim_start_matches("0x")),
                    None => bare.into(),
                }
            }
        };
        let word = match key {
            "icmp_type" => "type",
            "icmp_code" => "code",
            other if is_word(other) => other,
            _ => return Err(keys.wrong(key, "a key of flower", value)),
        };
        // The protocol that a session carries comes before the fields behind it.
        let first = matches!(key, "pppoe_sid" | "ppp_proto");
        let to = if first { &mut words } else { &mut behind };
        to.push_str(&format!(" {word} {text}"));
    }
    keys.end(|_| false)?;
    words.push_str(&behind);
    Ok(Said { handle, words })
}

/// Returns a range of ports, or the flags of a fragment.
fn range_or_flags(keys: &Members<'_>, key: &str, value: &Value) -> Done<String> {
    let mut inner = Members::of(&format!("{}: {key}", keys.what), value)?;
    if inner.has("start") {
        let text = format!("{}-{}", inner.need_uint("start")?, inner.need_uint("end")?);
        inner.end(|_| false)?;
        return Ok(text);
    }
    let mut flags = Vec::new();
    while let Some((flag, value)) = inner.next(is_word) {
        match value {
            Value::Bool(on) => flags.push(format!("{}{flag}", if *on { "" } else { "no" })),
            other => return Err(inner.wrong(flag, "true or false", other)),
        }
    }
    Ok(flags.join("/"))
}

/// Returns the entries of a label stack.
fn labels(keys: &Members<'_>, key: &str, entries: &[Value]) -> Done<String> {
    let mut words = Vec::new();
    for entry in entries {
        let mut one = Members::of(&format!("{}: {key}", keys.what), entry)?;
        words.push("lse".to_string());
        for part in ["depth", "label", "tc", "bos", "ttl"] {
            if let Some(n) = one.uint(part)? {
                words.push(format!("{part} {n}"));
            }
        }
        one.end(|_| false)?;
    }
    Ok(words.join(" "))
}
