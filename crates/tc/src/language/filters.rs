//! The words of filters (tc-u32(8), tc-flower(8) and the page of each other kind).

use super::actions;
use super::ematch;
use super::table::{Arg, Grammar, Key, Refuses, U8, U16, U32, Wrong, key};
use super::u32_match;
use super::walk::Walk;
use crate::diagnostic::{Diagnostic, code};
use crate::sentence::Sentence;

use Arg::{Any, ClassId, Ipv4, Masked, Prefix, Table, Uint};

type Done = Result<(), Diagnostic>;

const fn filter(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys).cut().refuses(Refuses::Usual)
}

/// The goals of any filter.
const CLASS: Key = key(&["classid", "flowid"], &[ClassId]);
const ACTION: Key = key(&["action"], &[]).then(actions::list);
const POLICE: Key = key(&["police"], &[]).then(actions::police);
const INDEV: Key = key(&["indev"], &[Any]);
const SKIP_HW: Key = key(&["skip_hw"], &[]);
const SKIP_SW: Key = key(&["skip_sw"], &[]);

/// Bytes and masks of flower: an address of a link, whole or with a mask.
const MAC: Arg = Any;

pub(super) static TABLE: &[Grammar] = &[
    filter(
        &["u32"],
        &[
            key(&["match"], &[]).then(u32_match::selector),
            key(&["offset"], &[]).then(u32_match::offset),
            key(&["hashkey"], &[]).then(u32_match::hashkey),
            CLASS,
            key(&["divisor"], &[Uint(1, 256)]),
            key(&["order"], &[U32]),
            key(&["link"], &[Table]),
            key(&["ht"], &[Table]),
            INDEV,
            key(&["sample"], &[]).then(u32_match::sample),
            ACTION,
            POLICE,
            SKIP_HW,
            SKIP_SW,
        ],
    ),
    filter(&["flower"], FLOWER),
    filter(&["matchall"], &[CLASS, ACTION, SKIP_HW, SKIP_SW]),
    // This is the engine's own, not tc's.
    filter(&["tcpctl"], &[CLASS, ACTION]),
    filter(&["basic"], &[key(&["match"], &[]).then(ematch::expression), CLASS, ACTION, POLICE]),
    filter(&["fw"], &[CLASS, POLICE, ACTION, INDEV]),
    filter(
        &["flow"],
        &[
            key(&["map"], &[Arg::Word(&["key", "keys"])]).then(flow_key).wrong(Wrong::WhatIs),
            key(&["hash"], &[Arg::Word(&["keys", "key"])]).then(flow_keys).wrong(Wrong::WhatIs),
            key(&["and"], &[U32]).wrong(Wrong::Illegal("mask")),
            key(&["or"], &[U32]),
            key(&["xor"], &[U32]),
            key(&["rshift"], &[U32]),
            // An address is allowed, also after a minus.
            key(&["addend"], &[Any]),
            key(&["divisor"], &[U32]),
            key(&["baseclass"], &[ClassId]),
            key(&["perturb"], &[U32]),
            key(&["match"], &[]).then(ematch::expression),
            ACTION,
            POLICE,
        ],
    ),
    filter(
        &["bpf"],
        &[
            key(&["bytecode"], &[Any]),
            key(&["bytecode-file"], &[Any]),
            key(&["object-file", "object", "obj"], &[Any]),
            key(&["object-pinned", "pinned", "fd"], &[Any]),
            key(&["section", "sec"], &[Any]),
            key(&["export", "exp"], &[Any]),
            key(&["verbose", "verb"], &[]),
            key(&["direct-action", "da"], &[]),
            CLASS,
            ACTION,
            POLICE,
            SKIP_HW,
            SKIP_SW,
        ],
    ),
    filter(
        &["route"],
        &[key(&["from"], &[REALM]), key(&["fromif"], &[Any]), key(&["to"], &[REALM]), CLASS, POLICE, ACTION],
    ),
    filter(&["cgroup"], &[key(&["match"], &[]).then(ematch::expression), ACTION, POLICE]),
    Grammar::of(
        &["tcindex"],
        &[
            key(&["hash"], &[U32]),
            key(&["mask"], &[U32]),
            key(&["shift"], &[U32]),
            key(&["fall_through"], &[]),
            key(&["pass_on"], &[]),
            key(&["classid"], &[ClassId]),
            POLICE,
            ACTION,
        ],
    ),
    filter(
        &["rsvp", "rsvp6"],
        &[
            key(&["ipproto"], &[Any]),
            key(&["session"], &[Any]),
            key(&["sender"], &[Any]),
            key(&["tunnelid"], &[U32]),
            key(&["tunnel"], &[U32]),
            key(&["skip"], &[U32]),
            CLASS,
            POLICE,
            ACTION,
        ],
    ),
];

/// A number, or a name from the machine's table of realms.
const REALM: Arg = Any;

const FLOW_KEYS: &[&str] = &[
    "src",
    "dst",
    "proto",
    "proto-src",
    "proto-dst",
    "iif",
    "priority",
    "mark",
    "nfct",
    "nfct-src",
    "nfct-dst",
    "nfct-proto-src",
    "nfct-proto-dst",
    "rt-classid",
    "sk-uid",
    "sk-gid",
    "vlan-tag",
    "rxhash",
];
const FLOW_KEY: Arg = Arg::Word(FLOW_KEYS);

/// Reads `src`. Of several keys tc says that a map has one.
fn flow_key(walk: &mut Walk<'_>) -> Done {
    let word = walk.peek().unwrap_or("");
    let wrong = word.split(',').find(|key| !FLOW_KEYS.contains(key));
    walk.value(FLOW_KEY, "map", None).map_err(|d| match wrong {
        _ if d.given.is_empty() => d,
        Some(wrong) => d.linux(format!("Unknown flow key \"{wrong}\"")),
        None => d.linux("Invalid mode \"map\" for multiple keys"),
    })
}

/// Reads `src,dst,proto`.
fn flow_keys(walk: &mut Walk<'_>) -> Done {
    let Some(word) = walk.peek() else { return walk.value(FLOW_KEY, "hash keys", None) };
    if let Some(wrong) = word.split(',').find(|k| !FLOW_KEYS.contains(k)) {
        let mut d = walk.bad(FLOW_KEY, "hash keys");
        d.message = format!("{} hash keys cannot be \"{wrong}\"", walk.what);
        return Err(d.linux(format!("Unknown flow key \"{wrong}\"")));
    }
    walk.at += 1;
    Ok(())
}

/// An Ethernet type: a number, or one of many names.
const ETHERTYPE: Arg = Any;
/// A port, a port and its mask, or a range of them.
const PORT: Arg = Any;

const FLOWER: &[Key] = &[
    CLASS,
    key(&["hw_tc"], &[Uint(0, 15)]).wrong(Wrong::Range("TC index exceeds max range", "Illegal TC index")),
    key(&["ip_flags"], &[Any]),
    key(&["verbose"], &[]),
    key(&["skip_hw"], &[]),
    key(&["skip_sw"], &[]),
    key(&["ct_state"], &[Any]),
    key(&["ct_zone"], &[Masked(u16::MAX as u64)]),
    key(&["ct_mark"], &[Masked(u32::MAX as u64)]),
    key(&["ct_label"], &[Any]),
    INDEV,
    key(&["num_of_vlans"], &[U8]),
    key(&["vlan_id"], &[Uint(0, 4095)]),
    key(&["vlan_prio"], &[Uint(0, 7)]),
    key(&["vlan_ethtype"], &[ETHERTYPE]),
    key(&["cvlan_id"], &[Uint(0, 4095)]),
    key(&["cvlan_prio"], &[Uint(0, 7)]),
    key(&["cvlan_ethtype"], &[ETHERTYPE]),
    key(&["pppoe_sid"], &[U16]),
    key(&["ppp_proto"], &[Any]),
    key(&["mpls"], &[Arg::Word(&["lse"])]).then(mpls).wrong(Wrong::WhatIs),
    key(&["mpls_label"], &[Uint(0, 0xf_ffff)]),
    key(&["mpls_tc"], &[Uint(0, 7)]),
    key(&["mpls_bos"], &[Uint(0, 1)]),
    key(&["mpls_ttl"], &[U8]),
    key(&["dst_mac"], &[MAC]),
    key(&["src_mac"], &[MAC]),
    key(&["ip_proto"], &[IP_PROTO]),
    key(&["ip_tos"], &[HEX_MASKED]),
    key(&["ip_ttl"], &[HEX_MASKED]),
    key(&["dst_ip"], &[Prefix]),
    key(&["src_ip"], &[Prefix]),
    key(&["dst_port"], &[PORT]),
    key(&["src_port"], &[PORT]),
    key(&["tcp_flags"], &[HEX_MASKED_12]),
    key(&["type"], &[Masked(u8::MAX as u64)]).wrong(Wrong::Illegal("icmp type")),
    key(&["code"], &[Masked(u8::MAX as u64)]).wrong(Wrong::Illegal("icmp code")),
    key(&["arp_tip"], &[Ipv4]),
    key(&["arp_sip"], &[Ipv4]),
    key(&["arp_op"], &[Any]),
    key(&["arp_tha"], &[MAC]),
    key(&["arp_sha"], &[MAC]),
    key(&["enc_dst_ip"], &[Prefix]).wrong(Wrong::Rather("any valid prefix")),
    key(&["enc_src_ip"], &[Prefix]).wrong(Wrong::Rather("any valid prefix")),
    key(&["enc_key_id"], &[U32]),
    key(&["enc_dst_port"], &[U16]),
    key(&["enc_tos"], &[HEX_MASKED]),
    key(&["enc_ttl"], &[Masked(u8::MAX as u64)]),
    key(&["enc_flags"], &[Any]),
    key(&["geneve_opts"], &[Any]),
    key(&["vxlan_opts"], &[Any]),
    key(&["erspan_opts"], &[Any]),
    key(&["gtp_opts"], &[Any]),
    key(&["pfcp_opts"], &[Any]),
    key(&["l2tpv3_sid"], &[U32]),
    key(&["spi"], &[U32]),
    key(&["cfm"], &[]).then(cfm),
    ACTION,
    POLICE,
];

/// A name or a number, hexadecimal in older versions.
const IP_PROTO: Arg = Any;
/// Hexadecimal, with a mask or without.
const HEX_MASKED: Arg = Any;
const HEX_MASKED_12: Arg = Any;

/// Reads `lse depth N { label | tc | bos | ttl } ...`, any number of them.
fn mpls(walk: &mut Walk<'_>) -> Done {
    walk.part(&LSE)
}

static LSE: Grammar = Grammar::of(
    &["lse"],
    &[
        key(&["lse"], &[]),
        key(&["depth"], &[U8]),
        key(&["label"], &[U32]),
        key(&["tc"], &[U8]),
        key(&["bos"], &[U8]),
        key(&["ttl"], &[U8]),
    ],
)
.refuses(Refuses::Usual);

/// Reads `cfm mdl LEVEL op OPCODE`.
fn cfm(walk: &mut Walk<'_>) -> Done {
    walk.part(&CFM)
}

static CFM: Grammar = Grammar::of(&["cfm"], &[key(&["mdl"], &[Uint(0, 7)]), key(&["op"], &[U8])]);

/// Checks the rules of flower beyond its keys: numbers in forms of their own, and ports of
/// protocols that have them.
pub(super) fn finish(walk: &Walk<'_>, kind: &str) -> Done {
    if kind == "u32" {
        return divisor(walk);
    }
    if kind != "flower" {
        return Ok(());
    }
    let mut proto = None;
    for s in &walk.settings {
        let Some(value) = walk.words.get(s.words.start + 1) else { continue };
        let ok = match s.key {
            "ip_proto" => {
                proto = Some(value.text.as_str());
                ip_proto(&value.text)
            }
            "ip_tos" | "enc_tos" => masked_tos(&value.text),
            "tcp_flags" => masked_hex(&value.text, 0xfff),
            "dst_port" | "src_port" => port(&value.text),
            "ct_state" => ct_state(&value.text),
            "ip_flags" => value.text.split('/').all(|f| {
                let f = f.strip_prefix("no").unwrap_or(f);
                matches!(f, "frag" | "firstfrag") || f.strip_prefix("first") == Some("frag")
            }),
            _ => true,
        };
        if !ok {
            let message = format!("flower filter {}: \"{}\" is not a value for it", s.key, value.text);
            let d = walk.error(code::BAD_VALUE, s.words.start + 1, message).expected(flower_expected(s.key));
            let d = match s.key {
                "dst_port" | "src_port" if is_range(&value.text) => d.linux(range_lines(s.key)),
                key => d.linux(Sentence::Illegal(key)),
            };
            let near = crate::suggest::closest(&value.text, IP_PROTOS.iter().copied()).map(String::from);
            return Err(d.suggest(near.filter(|_| s.key == "ip_proto")));
        }
        let wants: &[&str] = match s.key {
            "dst_port" | "src_port" => {
                &["tcp", "udp", "sctp", "6", "17", "132", "0x06", "0x11", "0x84", "11", "84"]
            }
            _ => continue,
        };
        if proto.is_none_or(|p| !wants.contains(&p)) {
            let message = format!("flower filter {} needs ip_proto tcp, udp or sctp before it", s.key);
            let instead = format!("ip_proto tcp {}", s.key);
            let d = walk.error(code::MISSING, s.words.start, message).suggest(Some(instead));
            return Err(d.linux(Sentence::Illegal(s.key)));
        }
    }
    Ok(())
}

/// Protocols that flower knows by name.
const IP_PROTOS: &[&str] = &["tcp", "udp", "sctp", "icmp", "icmpv6", "l2tp", "esp", "ah"];

fn ip_proto(word: &str) -> bool {
    // The page says hexadecimal, whatever the prefix.
    IP_PROTOS.contains(&word) || super::value::hex(word).is_some_and(|n| n <= 0xff)
}

/// True for a decimal number, or a hexadecimal one.
fn masked_tos(word: &str) -> bool {
    let number = |w: &str| w.parse().ok().or_else(|| super::value::hex(w));
    word.split('/').all(|w| number(w).is_some_and(|n| n <= 0xff)) && word.matches('/').count() < 2
}

fn masked_hex(word: &str, max: u64) -> bool {
    word.split('/').all(|w| super::value::hex(w).is_some_and(|n| n <= max)) && word.matches('/').count() < 2
}

fn port(word: &str) -> bool {
    let number = |w: &str| super::value::uint(w).filter(|n| *n <= 0xffff);
    match (word.split_once('-'), word.split_once('/')) {
        (Some((from, to)), _) => matches!((number(from), number(to)), (Some(from), Some(to)) if from < to),
        (_, Some((value, mask))) => number(value).is_some() && number(mask).is_some(),
        _ => number(word).is_some(),
    }
}

/// True for two ports with a dash between them.
fn is_range(word: &str) -> bool {
    word.split_once('-').is_some_and(|(from, to)| port(from) && port(to))
}

/// Returns tc's lines for a range of ports whose last is not above its first.
pub(crate) fn range_lines(key: &str) -> String {
    format!("max value should be greater than min value\n{}", Sentence::Illegal(key))
}

fn ct_state(word: &str) -> bool {
    word.starts_with(['+', '-'])
        && word.split(['+', '-']).skip(1).all(|f| matches!(f, "trk" | "new" | "est" | "rel" | "inv" | "rpl"))
}

fn flower_expected(key: &str) -> String {
    match key {
        "ip_proto" => format!("one of {} or a hexadecimal number", IP_PROTOS.join(", ")),
        "ip_tos" | "enc_tos" => "a number up to 255, hexadecimal if it is not decimal, or number/mask".into(),
        "tcp_flags" => "a hexadecimal number up to fff, or number/mask".into(),
        "ct_state" => "flags with + or - before each: trk, new, est, rel, inv, rpl".into(),
        "ip_flags" => "frag, nofrag, firstfrag or nofirstfrag".into(),
        _ => "a port, port/mask or first-last".into(),
    }
}

/// Checks that a hash table has a power of two buckets.
fn divisor(walk: &Walk<'_>) -> Done {
    for s in walk.settings.iter().filter(|s| s.key == "divisor") {
        let number = walk.words.get(s.words.start + 1).and_then(|w| super::value::uint(&w.text));
        if number.is_some_and(|n| !n.is_power_of_two()) {
            let message = format!("u32 filter divisor: {} is not a power of two", number.unwrap_or(0));
            let d = walk.error(code::BAD_VALUE, s.words.start + 1, message);
            let near = number.map(|n| n.next_power_of_two().to_string());
            return Err(d.expected("a power of two up to 256").suggest(near).linux(Sentence::Illegal(s.key)));
        }
    }
    Ok(())
}
