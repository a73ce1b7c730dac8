//! Actions of a filter, as the words that make them.

use std::collections::BTreeSet;

use super::Refusal;
use super::json::Value;
use super::members::{Members, is_word};

type Done<T = ()> = Result<T, Refusal>;

/// True for a member that tc prints beside the configuration.
fn passed(key: &str) -> bool {
    matches!(
        key,
        "order"
            | "ref"
            | "bind"
            | "installed"
            | "last_used"
            | "first_used"
            | "stats"
            | "not_in_hw"
            | "in_hw"
            | "in_hw_count"
            | "used_hw_stats"
    )
}

/// Returns ` action KIND WORDS`. An action that is in `made` already is named by its number.
pub(super) fn words(mut o: Members<'_>, made: &mut BTreeSet<(String, u64)>) -> Done<String> {
    let kind = match () {
        // tc prints the kind of nat under another key, and that of gate nowhere.
        () if o.has("kind") => o.need_word("kind")?,
        () if o.has("schedule") => "gate",
        () => o.need_word("type")?,
    };
    o.what = format!("{} {kind}", o.what);
    let index = o.uint("index")?.filter(|index| *index > 0);
    if let Some(index) = index
        && !made.insert((kind.into(), index))
    {
        return Ok(format!(" action {kind} index {index}"));
    }
    let mut out = format!(" action {kind}");
    let control = match kind {
        // It prints no control; the one that it has if no word names one.
        "simple" => String::new(),
        _ => control(&mut o)?,
    };
    parameters(kind, &mut o, &mut out)?;
    if kind != "police" && !control.is_empty() {
        out.push_str(&format!(" {control}"));
    }
    if kind == "gact" {
        random(&mut o, &mut out)?;
    }
    if kind == "police" {
        let conform = if o.has("control_action") { self::control(&mut o)? } else { String::new() };
        let conform = if conform.is_empty() { conform } else { format!("/{conform}") };
        out.push_str(&format!(" conform-exceed {control}{conform}"));
    }
    if let Some(index) = index {
        out.push_str(&format!(" index {index}"));
    }
    if let Some(cookie) = o.word("cookie")? {
        out.push_str(&format!(" cookie {cookie}"));
    }
    for item in o.list("hw_stats")?.unwrap_or_default() {
        out.push_str(&format!(" hw_stats {}", o.as_plain("hw_stats", item)?));
    }
    for key in ["no_percpu", "skip_hw"] {
        if o.flag(key)? {
            out.push_str(&format!(" {key}"));
        }
    }
    o.end(passed)?;
    Ok(out)
}

/// Adds the parameters of a kind.
fn parameters(kind: &str, o: &mut Members<'_>, out: &mut String) -> Done {
    match kind {
        "bpf" => bpf(o, out)?,
        "csum" => csum(o, out)?,
        "gact" => {}
        "gate" => gate(o, out)?,
        "ife" => {
            let mode = o.need_word("mode")?;
            out.push_str(&format!(" {mode}"));
            let encodes = mode == "encode";
            let number = o.take("type").filter(|_| encodes);
            for key in ["mark", "prio", "tcindex"] {
                match o.plain(key)?.filter(|_| encodes) {
                    Some("allow") => out.push_str(&format!(" allow {key}")),
                    Some(value) => out.push_str(&format!(" use {key} {value}")),
                    None => {}
                }
            }
            for key in ["dst", "src"] {
                if let Some(value) = o.plain(key)? {
                    out.push_str(&format!(" {key} {value}"));
                }
            }
            if let Some(Value::Text(number)) = number {
                out.push_str(&format!(" type {number}"));
            }
        }
        "mirred" => {
            let (way, what) = (o.need_word("direction")?, o.need_word("mirred_action")?);
            out.push_str(&format!(" {way} {what} dev {}", o.need_word("to_dev")?));
        }
        "police" => police(o, out)?,
        "sample" => {
            for (key, word) in [("rate", "rate"), ("group", "group"), ("trunc_size", "trunc")] {
                if let Some(n) = o.uint(key)? {
                    out.push_str(&format!(" {word} {n}"));
                }
            }
        }
        "simple" => match o.take("sdata") {
            Some(Value::Text(text)) if text.split(' ').all(is_word) => {
                out.push_str(&format!(" sdata '{text}'"))
            }
            Some(other) => return Err(o.wrong("sdata", "plain words", other)),
            None => return Err(o.missing("sdata")),
        },
        "skbedit" => skbedit(o, out)?,
        "skbmod" => skbmod(o, out)?,
        "vlan" => {
            out.push_str(&format!(" {}", o.need_word("vlan_action")?));
            for key in ["dst_mac", "src_mac", "id", "protocol", "priority"] {
                if let Some(value) = o.plain(key)? {
                    out.push_str(&format!(" {key} {value}"));
                }
            }
        }
        "mpls" => {
            out.push_str(&format!(" {}", o.need_word("mpls_action")?));
            for key in ["protocol", "label", "tc", "bos", "ttl"] {
                if let Some(value) = o.plain(key)? {
                    out.push_str(&format!(" {key} {value}"));
                }
            }
        }
        "nat" => return Err(o.refused("nat cannot be carried over: tc prints prefixes of other lengths")),
        "pedit" => return Err(o.refused("pedit cannot be carried over: its keys do not tell the fields")),
        _ => {
            let known = txweir_core::classify::action::KINDS.join(", ");
            return Err(o.refused(&format!("there is no such action in the engine, expected one of {known}")));
        }
    }
    Ok(())
}

/// Takes a control; empty for one that an action has of itself, such as that of a redirection, and
/// if there is none.
fn control(o: &mut Members<'_>) -> Done<String> {
    let Some(mut control) = o.object("control_action")? else { return Ok(String::new()) };
    let words = match control.need_word("type")? {
        "stolen" | "queued" | "repeat" => String::new(),
        "goto" => format!("goto chain {}", control.need_uint("chain")?),
        "jump" => format!("jump {}", control.need_uint("jump")?),
        word => word.into(),
    };
    control.end(|_| false)?;
    Ok(words)
}

/// Adds the other control of gact, which takes effect by chance.
fn random(o: &mut Members<'_>, out: &mut String) -> Done {
    let Some(mut chance) = o.object("prob")? else { return Ok(()) };
    let how = chance.need_word("random_type")?;
    let (other, n) = (control(&mut chance)?, chance.uint("val")?.unwrap_or(0));
    chance.end(|_| false)?;
    if how != "none" {
        out.push_str(&format!(" random {how} {other} {n}"));
    }
    Ok(())
}

fn bpf(o: &mut Members<'_>, out: &mut String) -> Done {
    let mut program = o.object("bytecode")?.ok_or_else(|| o.missing("bytecode"))?;
    out.push_str(&format!(" bytecode '{}", program.need_uint("length")?));
    for item in program.list("insns")?.unwrap_or_default() {
        let mut one = Members::of("instruction", item)?;
        let [code, jt, jf, k] =
            [one.need_uint("code")?, one.need_uint("jt")?, one.need_uint("jf")?, one.need_uint("k")?];
        one.end(|_| false)?;
        out.push_str(&format!(",{code} {jt} {jf} {k}"));
    }
    out.push('\'');
    program.end(|_| false)
}

/// Adds the schedule of a gate. Of a base time below zero tc prints another number.
fn gate(o: &mut Members<'_>, out: &mut String) -> Done {
    for (key, word) in [
        ("priority", "priority"),
        ("clockid", "clockid"),
        ("flags", "flags"),
        ("base_time", "base-time"),
        ("cycle_time", "cycle-time"),
        ("cycle_time_ext", "cycle-time-ext"),
    ] {
        if let Some(value) = o.plain(key)? {
            out.push_str(&format!(" {word} {value}"));
        }
    }
    for item in o.list("schedule")?.unwrap_or_default() {
        let mut one = Members::of("entry", item)?;
        out.push_str(&format!(" sched-entry {}", one.need_word("gate_state")?));
        for key in ["interval", "ipv", "max_octets"] {
            if let Some(value) = one.plain(key)? {
                out.push_str(&format!(" {value}"));
            }
        }
        one.end(|key| key == "number")?;
    }
    Ok(())
}

fn csum(o: &mut Members<'_>, out: &mut String) -> Done {
    let value = o.take("csum").ok_or_else(|| o.missing("csum"))?;
    let Value::Text(names) = value else { return Err(o.wrong("csum", "names of headers", value)) };
    for name in names.split(", ") {
        if !is_word(name) {
            return Err(o.wrong("csum", "names of headers", value));
        }
        out.push_str(&format!(" {name}"));
    }
    Ok(())
}

fn police(o: &mut Members<'_>, out: &mut String) -> Done {
    if !["rate", "peakrate", "avrate", "pkts_rate"].iter().any(|key| o.has(key)) {
        let reason = "police cannot be carried over: tc does not print its rate and burst as JSON";
        return Err(o.refused(reason));
    }
    for (key, unit) in [("rate", "bps"), ("burst", "b"), ("mtu", "b"), ("peakrate", "bps")] {
        if let Some(n) = o.uint(key)? {
            out.push_str(&format!(" {key} {n}{unit}"));
        }
    }
    for key in ["pkts_rate", "pkts_burst"] {
        if let Some(n) = o.uint(key)? {
            out.push_str(&format!(" {key} {n}"));
        }
    }
    if let Some(n) = o.uint("overhead")?.filter(|n| *n > 0) {
        out.push_str(&format!(" overhead {n}"));
    }
    if let Some(layer) = o.word("linklayer")?.filter(|layer| *layer != "ethernet") {
        out.push_str(&format!(" linklayer {layer}"));
    }
    Ok(())
}

fn skbedit(o: &mut Members<'_>, out: &mut String) -> Done {
    if let Some(first) = o.uint("queue_mapping")? {
        match o.uint("queue_mapping_max")? {
            Some(last) => out.push_str(&format!(" queue_mapping skbhash {first} {last}")),
            None => out.push_str(&format!(" queue_mapping {first}")),
        }
    }
    if let Some(class) = o.word("priority")? {
        out.push_str(&format!(" priority {class}"));
    }
    if let Some(mark) = o.uint("mark")? {
        out.push_str(&format!(" mark {mark}"));
        if let Some(mask) = o.word("mask")? {
            out.push_str(&format!("/0x{}", mask.trim_start_matches("0x")));
        }
    }
    if let Some(kind) = o.word("ptype")? {
        out.push_str(&format!(" ptype {kind}"));
    }
    if o.flag("inheritdsfield")? {
        out.push_str(" inheritdsfield");
    }
    Ok(())
}

fn skbmod(o: &mut Members<'_>, out: &mut String) -> Done {
    let mut set = String::new();
    for key in ["dmac", "smac", "etype"] {
        if let Some(value) = o.word(key)? {
            set.push_str(&format!(" {key} {value}"));
        }
    }
    if !set.is_empty() {
        out.push_str(&format!(" set{set}"));
    }
    if let Some(what) = o.word("swap")? {
        out.push_str(&format!(" swap {what}"));
    }
    if o.flag("ecn")? {
        out.push_str(" ecn");
    }
    Ok(())
}
