//! tc's sentences for the modules of extended matches: `cmp(...)`, `meta(...)`. Those of the
//! expression around them are with its reader.

use std::borrow::Cow;

use super::value::{int, uint};

/// tc's sentence for an expression that is none.
pub(crate) const SYNTAX: &str = "Parse error: syntax error";

/// The properties that `meta` can compare (tc-ematch(8)), also those that the engine does not have.
pub(crate) const METAS: [&str; 35] = [
    "random",
    "loadavg_1",
    "loadavg_5",
    "loadavg_15",
    "dev",
    "priority",
    "protocol",
    "pkt_type",
    "pkt_len",
    "data_len",
    "mac_len",
    "nf_mark",
    "fwmark",
    "tc_index",
    "rt_classid",
    "rt_iif",
    "vlan",
    "sk_family",
    "sk_state",
    "sk_reuse",
    "sk_bind_if",
    "sk_refcnt",
    "sk_shutdown",
    "sk_proto",
    "sk_type",
    "sk_rcvbuf",
    "sk_rmem",
    "sk_wmem",
    "sk_omem",
    "sk_wmem_queue",
    "sk_snd_queue",
    "sk_rcv_queue",
    "sk_err_queue",
    "sk_fwd_alloc",
    "sk_sndbuf",
];

/// Returns tc's sentence for a module that it cannot read; `None` if it can, so that the kernel is
/// asked.
pub(crate) fn sentence(name: &str, args: &[&str]) -> Option<Cow<'static, str>> {
    if args.is_empty() {
        return Some(SYNTAX.into());
    }
    match name {
        "cmp" => cmp(args),
        "u32" => u32_match(args),
        "nbyte" => nbyte(args),
        "meta" => meta(args),
        "canid" => canid(args),
        // The reference has no sets of addresses, and no matches of iptables.
        "ipset" => Some("xt_set getsockopt: Protocol not available".into()),
        "ipt" => {
            let named = args.iter().position(|arg| *arg == "-m").and_then(|at| args.get(at + 1));
            named.map(|named| format!(" failed to find match {named}").into())
        }
        other => Some(format!("Unknown ematch \"{other}\"").into()),
    }
}

/// True for a number without a sign that tc's matches take.
fn is_number(word: &str) -> bool {
    uint(word).is_some()
}

/// Returns the sentence for the layer of a module; `None` for one that exists.
fn layer(module: &str, word: &str) -> Option<Cow<'static, str>> {
    match (word, uint(word)) {
        ("link" | "network" | "transport" | "tcp", _) | (_, Some(0..=2)) => None,
        (_, Some(_)) => Some(format!("{module}: illegal layer, must be in 0..2").into()),
        _ => Some(format!("{module}: invalid layer").into()),
    }
}

fn cmp(args: &[&str]) -> Option<Cow<'static, str>> {
    let [align, rest @ ..] = args else { return None };
    if !matches!(*align, "u8" | "u16" | "u32") {
        return Some("cmp: invalid alignment".into());
    }
    let (mut offset, mut value, mut rest) = (false, false, rest.iter());
    while let Some(word) = rest.next() {
        if *word == "trans" {
            continue;
        }
        if !matches!(*word, "at" | "layer" | "mask" | "eq" | "gt" | "lt") {
            // The reference names another module here.
            return Some("nbyte: unknown parameter".into());
        }
        let Some(given) = rest.next() else { return Some("cmp: missing argument".into()) };
        match *word {
            "layer" => {
                if let Some(wrong) = layer("cmp", given) {
                    return Some(wrong);
                }
            }
            "at" if !is_number(given) => return Some("cmp: invalid offset, must be numeric".into()),
            "mask" if !is_number(given) => return Some("cmp: invalid mask".into()),
            "at" => offset = true,
            "mask" => {}
            _ if !is_number(given) => return Some("cmp: invalid value".into()),
            _ => value = true,
        }
    }
    (!offset || !value).then(|| "cmp: offset and value required".into())
}

fn u32_match(args: &[&str]) -> Option<Cow<'static, str>> {
    let arg = |at: usize| args.get(at).copied();
    let most = match arg(0) {
        Some("u8") => Some(("0xFF", 0xff)),
        Some("u16") => Some(("0xFFFF", 0xffff)),
        Some("u32") => None,
        _ => return Some("u32: invalid alignment".into()),
    };
    for (at, name) in [(1, "key"), (2, "mask")] {
        match arg(at) {
            None => return Some(format!("u32: missing {name}").into()),
            Some(word) if !is_number(word) => {
                return Some(format!("u32: invalid {name}, must be numeric").into());
            }
            Some(_) => {}
        }
    }
    if arg(3) != Some("at") {
        return Some("u32: missing \"at\"".into());
    }
    let Some(offset) = arg(4) else { return Some("u32: missing offset".into()) };
    // Behind `nexthdr` stands a plus.
    let number = match offset.strip_prefix("nexthdr") {
        Some(rest) if !rest.starts_with('+') => return Some("u32: invalid offset".into()),
        Some(_) => None,
        None => Some(int(offset)),
    };
    if number == Some(None) {
        return Some("u32: invalid offset".into());
    }
    if args.len() > 5 {
        return Some("u32: unexpected trailer".into());
    }
    if let Some((shown, most)) = most {
        for (at, name) in [(1, "key"), (2, "mask")] {
            if arg(at).and_then(uint).is_some_and(|n| n > most) {
                return Some(format!("Illegal {name} (>{shown})").into());
            }
        }
        return None;
    }
    let aligned = number.flatten().is_none_or(|n| n % 4 == 0);
    (!aligned).then(|| "u32: invalid offset alignment, must be aligned to 4.".into())
}

fn nbyte(args: &[&str]) -> Option<Cow<'static, str>> {
    let [needle, rest @ ..] = args else { return None };
    if needle.trim_matches('"').is_empty() {
        return Some("nbyte: needle length is 0".into());
    }
    let (mut offset, mut rest) = (false, rest.iter());
    while let Some(word) = rest.next() {
        if !matches!(*word, "at" | "layer") {
            return Some("nbyte: unknown parameter".into());
        }
        let Some(given) = rest.next() else { return Some("nbyte: missing argument".into()) };
        if *word == "layer" {
            if let Some(wrong) = layer("nbyte", given) {
                return Some(wrong);
            }
        } else if !is_number(given) {
            return Some("nbyte: invalid offset, must be numeric".into());
        } else {
            offset = true;
        }
    }
    (!offset).then(|| "nbyte: offset required".into())
}

/// Returns the sentence for pairs of a kind of identifier and its number, with a mask or without.
fn canid(args: &[&str]) -> Option<Cow<'static, str>> {
    for pair in args.chunks(2) {
        match *pair {
            ["sff" | "eff", id] => {
                let (id, mask) = id.split_once(':').unwrap_or((id, "0"));
                if !is_number(id) || !is_number(mask) {
                    return Some("canid: Improperly formed CAN ID & mask".into());
                }
            }
            ["sff" | "eff"] => return Some("canid: missing argument".into()),
            _ => return Some("canid: invalid key".into()),
        }
    }
    None
}

fn meta(args: &[&str]) -> Option<Cow<'static, str>> {
    let rest = match operand(args) {
        Ok(rest) => rest,
        Err(wrong) => return Some(wrong),
    };
    let [operator, rest @ ..] = rest else { return Some("meta: missing operand".into()) };
    if !matches!(*operator, "eq" | "gt" | "lt") {
        return Some("meta: invalid operand".into());
    }
    if rest.is_empty() {
        return Some("meta: missing rvalue".into());
    }
    match operand(rest) {
        Ok([]) => None,
        Ok(_) => Some("meta: unexpected trailer".into()),
        Err(wrong) => Some(wrong),
    }
}

/// Reads one side of a comparison; returns the words after it.
fn operand<'a>(words: &'a [&'a str]) -> Result<&'a [&'a str], Cow<'static, str>> {
    let [first, rest @ ..] = words else { return Ok(words) };
    if first.starts_with('"') || is_number(first) {
        return Ok(rest);
    }
    if !METAS.contains(first) {
        return Err("meta: unknown meta id".into());
    }
    let mut rest = rest;
    // Bound: the words, two a round.
    while let [key @ ("shift" | "mask"), after @ ..] = rest {
        let [given, after @ ..] = after else { return Err("meta: missing argument".into()) };
        if !is_number(given) {
            return Err(format!("meta: invalid {key}, must be numeric").into());
        }
        rest = after;
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each module, and the sentence of tc 6.1 for it.
    #[test]
    fn sentences_are_those_of_tc() {
        for (module, said) in [
            ("cmp u8 at x layer 1 eq 3", "cmp: invalid offset, must be numeric"),
            ("cmp u8 at", "cmp: missing argument"),
            ("cmp u8 at 0 layer x eq 3", "cmp: invalid layer"),
            ("cmp u8 at 0 layer 3 eq 3", "cmp: illegal layer, must be in 0..2"),
            ("cmp u8 at 0 layer 1 mask x eq 3", "cmp: invalid mask"),
            ("cmp u8 at 0 layer 1 eq x", "cmp: invalid value"),
            ("cmp u8 at 0 layer 1 foo eq 3", "nbyte: unknown parameter"),
            ("cmp u8", "cmp: offset and value required"),
            ("cmp x", "cmp: invalid alignment"),
            ("cmp", SYNTAX),
            ("cmp u8 at 0 layer 1 trans eq 3", ""),
            ("u32 u64 1 1 at 0", "u32: invalid alignment"),
            ("u32 u8", "u32: missing key"),
            ("u32 u8 1", "u32: missing mask"),
            ("u32 u8 x 1 at 0", "u32: invalid key, must be numeric"),
            ("u32 u8 1 x at 0", "u32: invalid mask, must be numeric"),
            ("u32 u8 1 1 foo 0", "u32: missing \"at\""),
            ("u32 u8 1 1 at", "u32: missing offset"),
            ("u32 u8 1 1 at x", "u32: invalid offset"),
            ("u32 u8 1 1 at 0 foo", "u32: unexpected trailer"),
            ("u32 u16 0x10000 1 at 0", "Illegal key (>0xFFFF)"),
            ("u32 u8 1 0x100 at 0", "Illegal mask (>0xFF)"),
            ("u32 u8 1 1 at nexthdr+1", ""),
            ("nbyte \"abc\" at x layer 1", "nbyte: invalid offset, must be numeric"),
            ("nbyte \"abc\" at 0 layer x", "nbyte: invalid layer"),
            ("nbyte \"abc\" at", "nbyte: missing argument"),
            ("nbyte \"abc\" foo 3", "nbyte: unknown parameter"),
            ("nbyte abc at 0", ""),
            ("meta priority gt", "meta: missing rvalue"),
            ("meta priority eq x", "meta: unknown meta id"),
            ("meta priority foo 3", "meta: invalid operand"),
            ("meta priority shift", "meta: missing argument"),
            ("meta priority mask x eq 3", "meta: invalid mask, must be numeric"),
            ("meta priority shift 1 mask 2 foo eq 3", "meta: invalid operand"),
            ("meta priority eq 3 foo", "meta: unexpected trailer"),
            ("meta vlan mask 0xf", "meta: missing operand"),
            ("meta 3 eq priority", ""),
            ("canid x", "canid: invalid key"),
            ("canid sff", "canid: missing argument"),
            ("canid sff x", "canid: Improperly formed CAN ID & mask"),
            ("canid sff 0xaabb:0x00ff eff 1", ""),
            ("ipt -m policy --dir in", " failed to find match policy"),
            ("xyz 1", "Unknown ematch \"xyz\""),
        ] {
            let words: Vec<&str> = module.split(' ').collect();
            assert_eq!(sentence(words[0], &words[1..]).unwrap_or_default(), said, "{module}");
        }
    }
}
