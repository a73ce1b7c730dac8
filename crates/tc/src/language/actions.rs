//! The words of actions (tc-actions(8) and the page of each kind), and the lists of them in
//! filters.

use super::Object;
use super::table::{Arg, Grammar, I32, Key, U8, U16, U32, key};
use super::walk::{Walk, called};
use crate::diagnostic::{Diagnostic, code};
use crate::suggest;

use Arg::{Any, Ipv4, Masked, Prefix, Rate, SizeCell, Uint};

type Done = Result<(), Diagnostic>;

const fn action(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys).cut()
}

/// Words for the link layer of a rate.
const LINKLAYERS: Arg = Arg::Word(&["ethernet", "atm", "adsl"]);

/// The fate of a packet after an action.
pub(super) const VERDICTS: &[&str] =
    &["reclassify", "drop", "shot", "continue", "pass", "ok", "pipe", "trap", "goto", "jump"];

/// Words that may follow any action.
pub(super) static COMMON: Grammar = action(
    &["control"],
    &[
        key(&["index"], &[U32]),
        key(&["cookie"], &[]).then(cookie),
        key(&["no_percpu"], &[]),
        key(&["skip_hw"], &[]),
        key(&["skip_sw"], &[]),
        key(&["hw_stats"], &[Any]),
        key(&["reclassify"], &[]),
        key(&["drop", "shot"], &[]),
        key(&["continue"], &[]),
        key(&["pass", "ok"], &[]),
        key(&["pipe"], &[]),
        key(&["trap"], &[]),
        key(&["goto"], &[Arg::Word(&["chain"]), U32]),
        key(&["jump"], &[U32]),
        key(&["random"], &[Arg::Word(&["netrand", "determ"])]).then(random),
    ],
);

/// Reads up to 16 bytes, in hexadecimal.
fn cookie(walk: &mut Walk<'_>) -> Done {
    let good =
        |w: &str| w.len() <= 32 && w.len().is_multiple_of(2) && w.bytes().all(|b| b.is_ascii_hexdigit());
    match walk.peek() {
        Some(w) if !good(w) => {
            let message = format!("{} cookie: \"{w}\" is not up to 16 bytes in hexadecimal", walk.what);
            Err(walk
                .error(code::BAD_VALUE, walk.at, message)
                .expected("an even number of hexadecimal digits"))
        }
        _ => walk.value(Any, "cookie", None),
    }
}

/// Reads `random TYPE VERDICT N`.
fn random(walk: &mut Walk<'_>) -> Done {
    if walk.eat_cut(&["goto"]) {
        walk.value(Arg::Word(&["chain"]), "random goto", None)?;
        walk.value(U32, "random goto chain", None)?;
    } else if walk.eat_cut(&["jump"]) {
        walk.value(U32, "random jump", None)?;
    } else if !walk.eat_cut(VERDICTS) {
        return walk.value(Arg::Word(VERDICTS), "random", None);
    }
    walk.value(Uint(0, 10_000), "random", None)
}

const VLAN_PROTOCOL: Arg = Any;

pub(super) static TABLE: &[Grammar] = &[
    action(
        &["gact", "reclassify", "drop", "shot", "continue", "pass", "ok", "pipe", "trap", "goto", "jump"],
        &[],
    ),
    action(
        &["skbedit"],
        &[
            key(&["queue_mapping"], &[]).then(queue_mapping),
            key(&["priority"], &[Arg::ClassId]),
            key(&["mark"], &[Masked(u32::MAX as u64)]),
            key(&["ptype"], &[]).then(ptype),
            key(&["inheritdsfield"], &[]),
        ],
    ),
    action(
        &["mirred"],
        &[
            key(&["egress"], &[Arg::Word(&["redirect", "mirror"])]),
            key(&["ingress"], &[Arg::Word(&["redirect", "mirror"])]),
            key(&["dev"], &[Any]),
            key(&["blockid"], &[U32]),
        ],
    ),
    POLICE,
    action(&["pedit"], &[key(&["ex"], &[]), key(&["munge"], &[]).then(munge)]),
    action(
        &["vlan"],
        &[
            key(&["pop"], &[]),
            key(&["push"], &[]),
            key(&["modify"], &[]),
            key(&["pop_eth"], &[]),
            key(&["push_eth"], &[]),
            key(&["id"], &[U16]),
            key(&["protocol"], &[VLAN_PROTOCOL]),
            key(&["priority"], &[Uint(0, 7)]),
            key(&["dst_mac"], &[Any]),
            key(&["src_mac"], &[Any]),
        ],
    ),
    action(
        &["csum"],
        &[
            key(&["iph", "ip4h", "ipv4h"], &[]),
            key(&["icmp"], &[]),
            key(&["igmp"], &[]),
            key(&["tcp"], &[]),
            key(&["udp"], &[]),
            key(&["udplite"], &[]),
            key(&["sctp"], &[]),
            key(&["and"], &[]),
            key(&["or"], &[]),
            key(&["+"], &[]),
        ],
    ),
    action(
        &["skbmod"],
        &[
            key(&["set"], &[]),
            key(&["swap"], &[Arg::Word(&["mac"])]),
            key(&["ecn"], &[]),
            key(&["dmac"], &[MAC]),
            key(&["smac"], &[MAC]),
            key(&["etype"], &[U16]),
        ],
    ),
    action(&["simple"], &[key(&["sdata"], &[Any])]),
    action(&["sample"], &[key(&["rate"], &[U32]), key(&["group"], &[U32]), key(&["trunc"], &[U32])]),
    action(&["connmark"], &[key(&["zone"], &[U16])]),
    action(
        &["ct"],
        &[
            key(&["zone"], &[U16]),
            key(&["nat"], &[]).then(ct_nat),
            key(&["commit"], &[]),
            key(&["force"], &[]),
            key(&["clear"], &[]),
            key(&["mark"], &[Masked(u32::MAX as u64)]),
            key(&["label"], &[Any]),
            key(&["helper"], &[Any]),
        ],
    ),
    action(&["nat"], &[key(&["ingress"], &[Ipv4, Ipv4]), key(&["egress"], &[Ipv4, Ipv4])]),
    action(
        &["tunnel_key"],
        &[
            key(&["unset"], &[]),
            key(&["set"], &[]),
            key(&["src_ip"], &[Prefix]),
            key(&["dst_ip"], &[Prefix]),
            key(&["id"], &[U32]),
            key(&["dst_port"], &[U16]),
            key(&["geneve_opts"], &[Any]),
            key(&["vxlan_opts"], &[Any]),
            key(&["erspan_opts"], &[Any]),
            key(&["tos"], &[Any]),
            key(&["ttl"], &[U8]),
            key(&["csum"], &[]),
            key(&["nocsum"], &[]),
            key(&["nofrag"], &[]),
        ],
    ),
    action(
        &["bpf"],
        &[
            key(&["bytecode"], &[Any]),
            key(&["bytecode-file"], &[Any]),
            key(&["object-file", "object", "obj"], &[Any]),
            key(&["object-pinned", "pinned", "fd"], &[Any]),
            key(&["section", "sec"], &[Any]),
            key(&["export", "exp"], &[Any]),
            key(&["verbose", "verb"], &[]),
        ],
    ),
    action(
        &["mpls"],
        &[
            key(&["pop"], &[]),
            key(&["push"], &[]),
            key(&["mac_push"], &[]),
            key(&["modify"], &[]),
            key(&["dec_ttl"], &[]),
            key(&["label"], &[Uint(0, 0xf_ffff)]),
            key(&["tc"], &[Uint(0, 7)]),
            key(&["ttl"], &[Uint(1, 255)]),
            key(&["bos"], &[Uint(0, 1)]),
            key(&["protocol"], &[Any]),
        ],
    ),
    action(
        &["ctinfo"],
        &[key(&["dscp"], &[U32]).may(&[U32]), key(&["cpmark"], &[]).may(&[U32]), key(&["zone"], &[U16])],
    ),
    action(
        &["gate"],
        &[
            key(&["priority"], &[I32]),
            key(&["base-time"], &[Any]),
            key(&["cycle-time"], &[Any]),
            key(&["cycle-time-ext"], &[Any]),
            key(&["clockid"], &[Any]),
            key(&["flags"], &[U32]),
            key(&["sched-entry"], &[Arg::Word(&["open", "close"]), Any]).may(&[I32, I32]),
        ],
    ),
    action(
        &["ife"],
        &[
            key(&["encode"], &[]),
            key(&["decode"], &[]),
            key(&["allow"], &[IFE]),
            key(&["use"], &[IFE, U32]),
            key(&["dst"], &[MAC]),
            key(&["src"], &[MAC]),
            key(&["type"], &[Arg::Hex(0xffff)]),
        ],
    ),
];

const IFE: Arg = Arg::Word(&["mark", "prio", "tcindex"]);
const MAC: Arg = Any;

const POLICE: Grammar = action(
    &["police"],
    &[
        key(&["burst", "buffer", "maxburst"], &[SizeCell]),
        key(&["mtu", "minburst"], &[SizeCell]),
        key(&["mpu"], &[Uint(0, u16::MAX as u64)]),
        key(&["rate"], &[Rate]),
        key(&["avrate"], &[Rate]),
        key(&["peakrate"], &[Rate]),
        key(&["pkts_rate"], &[U32]),
        key(&["pkts_burst"], &[U32]),
        key(&["conform-exceed"], &[]).then(exceed),
        key(&["overhead"], &[U16]),
        key(&["linklayer"], &[LINKLAYERS]),
        key(&["action"], &[]).then(exceed),
        key(&["index"], &[U32]),
    ],
);

static POLICE_KEYS: Grammar = POLICE;

/// Reads `EXCEED[/CONFORM]`, each a verdict, by its word or its number.
fn exceed(walk: &mut Walk<'_>) -> Done {
    let word = walk.peek().unwrap_or("");
    let verdict =
        |w: &str| !w.is_empty() && (VERDICTS.iter().any(|v| v.starts_with(w)) || w.parse::<i32>().is_ok());
    if word.is_empty() || !word.split('/').all(verdict) || word.matches('/').count() > 1 {
        return walk.value(Arg::Word(VERDICTS), "conform-exceed", None);
    }
    walk.at += 1;
    // `goto chain` and `jump` have numbers.
    if word.contains("goto") {
        walk.eat(&["chain"]);
    }
    if walk.peek().is_some_and(|w| U32.accepts(w)) {
        walk.at += 1;
    }
    Ok(())
}

const PACKET_TYPES: &[&str] = &["host", "broadcast", "otherhost", "multicast"];

/// Reads a type of packet; it may be cut short.
fn ptype(walk: &mut Walk<'_>) -> Done {
    match walk.eat_cut(PACKET_TYPES) {
        true => Ok(()),
        false => walk.value(Arg::Word(PACKET_TYPES), "ptype", None),
    }
}

/// Reads `queue_mapping N`, `queue_mapping skbhash FIRST LAST`.
fn queue_mapping(walk: &mut Walk<'_>) -> Done {
    if walk.eat(&["skbhash"]) {
        walk.value(U16, "queue_mapping skbhash", None)?;
    }
    walk.value(U16, "queue_mapping", None)
}

/// Reads `nat`, `nat { src | dst } addr A[-B] [port P[-Q]]`.
fn ct_nat(walk: &mut Walk<'_>) -> Done {
    if walk.eat(&["src", "dst"]) {
        walk.value(Arg::Word(&["addr"]), "nat", None)?;
        walk.value(Any, "nat addr", None)?;
        if walk.eat(&["port"]) {
            walk.value(Any, "nat port", None)?;
        }
    }
    Ok(())
}

/// Reads `munge offset N WIDTH COMMAND` or `munge LAYER FIELD COMMAND`, where a command is `clear`,
/// `invert`, `preserve`, `decrement`, `set V` or `add V`, and `retain M` may follow.
fn munge(walk: &mut Walk<'_>) -> Done {
    if walk.eat_cut(&["offset"]) {
        walk.value(Any, "munge offset", None)?;
        walk.value(Arg::Word(&["u8", "u16", "u32"]), "munge offset", None)?;
        if walk.eat(&["at"]) {
            walk.value(Any, "munge at", None)?;
            // `offmask M shift N`, or, as tc reads it, without these words.
            for word in ["offmask", "shift"] {
                walk.eat(&[word]);
                walk.value(Any, "munge at", None)?;
            }
        }
    } else {
        walk.value(Arg::Word(&["ip", "ip6", "eth", "tcp", "udp", "icmp"]), "munge", None)?;
        walk.value(Any, "munge field", None)?;
    }
    const COMMANDS: Arg = Arg::Word(&["set", "add", "clear", "invert", "preserve", "decrement"]);
    let command = walk.peek().unwrap_or("");
    walk.value(COMMANDS, "munge", None)?;
    if matches!(command, "set" | "add") {
        walk.value(Any, &format!("munge {command}"), None)?;
    }
    if walk.eat(&["retain"]) {
        walk.value(Any, "munge retain", None)?;
    }
    Ok(())
}

/// Returns the grammar of an action.
pub(super) fn grammar(kind: &str) -> Option<&'static Grammar> {
    TABLE.iter().find(|g| g.kinds.contains(&kind))
}

/// Reads all words after one kind.
pub(super) fn single(walk: &mut Walk<'_>, kind: &str) -> Done {
    let Some(grammar) = grammar(kind) else { return Ok(()) };
    one(walk, grammar, kind)?;
    finish(walk, kind, 0)?;
    match walk.peek() {
        None => Ok(()),
        Some(_) => Err(walk.unknown(grammar_or_common(grammar))),
    }
}

/// Reads `police ...` of a filter: unknown words belong to the filter.
pub(super) fn police(walk: &mut Walk<'_>) -> Done {
    let what = std::mem::replace(&mut walk.what, called(Object::Action, "police"));
    let from = walk.at;
    let done = one(walk, &POLICE_KEYS, "police");
    walk.what = what;
    done?;
    walk.actions.push((from.saturating_sub(1), from..walk.at));
    finish(walk, "police", from)
}

/// Reads a list of actions: `KIND ... [action KIND ...]`.
pub(super) fn list(walk: &mut Walk<'_>) -> Done {
    let what = std::mem::take(&mut walk.what);
    loop {
        let Some(kind) = walk.peek() else {
            walk.what = what;
            return walk.value(Any, "action", None);
        };
        let Some(grammar) = grammar(kind) else {
            let message = format!("there is no action \"{kind}\"");
            let kinds = TABLE.iter().flat_map(|g| g.kinds.iter().copied());
            let near = suggest::closest(kind, kinds.clone()).map(String::from);
            let expected = format!("one of {}", kinds.collect::<Vec<_>>().join(", "));
            return Err(walk.error(code::UNKNOWN_KIND, walk.at, message).expected(expected).suggest(near));
        };
        walk.what = called(Object::Action, kind);
        walk.at += 1;
        let from = walk.at;
        one(walk, grammar, kind)?;
        walk.actions.push((from - 1, from..walk.at));
        finish(walk, kind, from)?;
        match walk.peek() {
            None => break,
            Some("action") => walk.at += 1,
            // The next word belongs to the filter.
            Some("flowid" | "classid") => break,
            Some(next) if self::grammar(next).is_some() => {}
            Some(_) => return Err(walk.unknown(grammar_or_common(grammar))),
        }
    }
    walk.what = what;
    Ok(())
}

fn grammar_or_common(grammar: &'static Grammar) -> &'static Grammar {
    if grammar.keys.is_empty() { &COMMON } else { grammar }
}

/// Reads one action's own words and those of any action.
fn one(walk: &mut Walk<'_>, grammar: &'static Grammar, kind: &str) -> Done {
    match kind {
        "goto" => {
            walk.value(Arg::Word(&["chain"]), "goto", None)?;
            walk.value(U32, "goto chain", None)?;
        }
        "jump" => walk.value(U32, "jump", None)?,
        _ => {}
    }
    loop {
        let from = walk.at;
        // This word begins the next action in a list.
        if kind != "police" && walk.peek() == Some("action") {
            break;
        }
        if kind == "police" && walk.peek() == Some("action") && !next_is_verdict(walk) {
            break;
        }
        let own = walk.peek().is_some_and(|w| grammar.find(w).is_some() && !whole_common(grammar, w));
        walk.part_of_one(if own { grammar } else { &COMMON })?;
        if walk.at == from {
            break;
        }
    }
    Ok(())
}

/// True for `action drop` inside of police, the verdict on exceeding packets; false for `action
/// mirred`, the next action.
fn next_is_verdict(walk: &Walk<'_>) -> bool {
    walk.words.get(walk.at + 1).is_some_and(|w| w.text.split('/').all(|v| VERDICTS.contains(&v)))
}

/// True if the word is cut short in this grammar and whole in the common one: it is then the common
/// one's.
fn whole_common(grammar: &Grammar, word: &str) -> bool {
    !grammar.words().any(|w| w == word) && COMMON.words().any(|w| w == word)
}

/// Checks the words that an action requires on its line.
fn finish(walk: &Walk<'_>, kind: &str, from: usize) -> Done {
    let words: Vec<&str> = walk.words[from..walk.at].iter().map(|w| w.text.as_str()).collect();
    let has = |any: &[&str]| words.iter().any(|w| any.contains(w));
    let needs = |what: &str| {
        let message = format!("action {kind} needs {what}");
        Err(walk.error(code::MISSING, from.saturating_sub(1), message))
    };
    // An existing action is named by its index alone.
    if words.iter().any(|w| w.len() > 2 && "index".starts_with(w)) || words.is_empty() {
        return Ok(());
    }
    match kind {
        "police" => {
            let (rate, burst) = (has(&["rate"]), has(&["burst", "buffer", "maxburst"]));
            match (rate, burst) {
                (true, false) => needs("burst beside rate"),
                (false, true) if !has(&["avrate"]) => needs("rate beside burst"),
                _ if has(&["peakrate"]) && !has(&["mtu", "minburst"]) => needs("mtu beside peakrate"),
                _ => Ok(()),
            }
        }
        "mirred" if !has(&["egress", "ingress"]) => needs("egress or ingress"),
        "mirred" if !has(&["dev", "blockid"]) => needs("dev"),
        "vlan" if has(&["push", "modify"]) && !has(&["id"]) => needs("id"),
        "sample" if !has(&["rate"]) || !has(&["group"]) => needs("rate and group"),
        "tunnel_key" if has(&["set"]) && !(has(&["src_ip"]) && has(&["dst_ip"])) => {
            needs("src_ip and dst_ip")
        }
        _ => Ok(()),
    }
}
