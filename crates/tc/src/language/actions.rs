//! The words of actions (tc-actions(8) and the page of each kind), and the lists of them in
//! filters.

use super::Object;
use super::action_refusals::{
    BAD_PEDIT, NO_OPTION, finish, index, misplaced, no_kind, printed_before, unknown,
};
use super::table::{Arg, Grammar, I32, Key, Refuses, U8, U16, U32, Wrong, key};
use super::walk::{Walk, called};
use crate::diagnostic::{Diagnostic, code};
use crate::lex::Word;
use crate::sentence::{INCOMPLETE, NO_BLOCK_NUMBER, Sentence};
use crate::suggest;

use Arg::{Any, Ipv4, Masked, Prefix, Rate, SizeCell, Uint};

type Done = Result<(), Diagnostic>;

const fn action(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys).cut().refuses(Refuses::Action)
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
        key(&["hw_stats"], &[Arg::Word(&["immediate", "delayed", "disabled"])])
            .wrong(Wrong::Argument("value is invalid")),
        key(&["reclassify"], &[]),
        key(&["drop", "shot"], &[]),
        key(&["continue"], &[]),
        key(&["pass", "ok"], &[]),
        key(&["pipe"], &[]),
        key(&["trap"], &[]),
        key(&["goto"], &[]).then(goto),
        key(&["jump"], &[U32]).wrong(JUMP),
        key(&["random"], &[Arg::Word(&["netrand", "determ"])])
            .then(random)
            .wrong(Wrong::Illegal("random type")),
    ],
);

/// tc's way to refuse the number of actions that `jump` passes over.
const JUMP: Wrong = Wrong::Around("Invalid \"jump count\" (", ")");

/// Reads the words after `goto`.
fn goto(walk: &mut Walk<'_>) -> Done {
    walk.value_or(Arg::Word(&["chain"]), "goto", Wrong::Line("\"chain index\" expected"))?;
    walk.value_or(U32, "goto chain", Wrong::Illegal("chain index"))
}

/// Reads up to 16 bytes, in hexadecimal.
fn cookie(walk: &mut Walk<'_>) -> Done {
    let good =
        |w: &str| w.len() <= 32 && w.len().is_multiple_of(2) && w.bytes().all(|b| b.is_ascii_hexdigit());
    match walk.peek() {
        Some(w) if !good(w) => {
            let message = format!("{} cookie: \"{w}\" is not up to 16 bytes in hexadecimal", walk.what);
            let err = walk.error(code::BAD_VALUE, walk.at, message);
            let not = match w.len() > 32 {
                true => format!("{} Max allowed size 32", w.len()),
                false => "cookie must be a hex string".into(),
            };
            Err(err.expected("an even number of hexadecimal digits").linux(Sentence::Argument(w, &not)))
        }
        _ => walk.value(Any, "cookie", None),
    }
}

/// Reads `random TYPE VERDICT N`.
fn random(walk: &mut Walk<'_>) -> Done {
    if walk.eat_cut(&["goto"]) {
        goto(walk)?;
    } else if walk.eat_cut(&["jump"]) {
        walk.value_or(U32, "random jump", JUMP)?;
    } else if !walk.eat_cut(VERDICTS) {
        return walk.value_or(Arg::Word(VERDICTS), "random", BAD_TYPE);
    }
    walk.value_or(Uint(0, 10_000), "random", Wrong::Line("Illegal probability val 0x1000"))
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
            key(&["queue_mapping"], &[]).then(queue_mapping).wrong(Wrong::Line("Illegal queue_mapping")),
            key(&["priority"], &[Arg::ClassId]).wrong(Wrong::Line("Illegal priority")),
            key(&["mark"], &[Masked(u32::MAX as u64)]).wrong(Wrong::Line("Illegal mark")),
            key(&["ptype"], &[]).then(ptype).wrong(Wrong::Around("Illegal ptype (", ")")),
            key(&["inheritdsfield"], &[]),
        ],
    ),
    action(
        &["mirred"],
        &[
            key(&["egress"], &[Arg::Word(&["redirect", "mirror"])]).wrong(Wrong::Line(INCOMPLETE)),
            key(&["ingress"], &[Arg::Word(&["redirect", "mirror"])]).wrong(Wrong::Line(INCOMPLETE)),
            key(&["dev"], &[Any]),
            key(&["blockid"], &[U32]).wrong(Wrong::Line(NO_BLOCK_NUMBER)),
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
            key(&["id"], &[U16]).wrong(Wrong::Argument("id is invalid")),
            key(&["protocol"], &[VLAN_PROTOCOL]),
            key(&["priority"], &[Uint(0, 7)]).wrong(Wrong::Argument("prio is invalid")),
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
            key(&["swap"], &[Arg::Word(&["mac"])]).wrong(Wrong::Line(NO_OPTION)),
            key(&["ecn"], &[]),
            key(&["dmac"], &[MAC]),
            key(&["smac"], &[MAC]),
            key(&["etype"], &[U16]).wrong(Wrong::Argument("ethertype is invalid")),
        ],
    ),
    action(&["simple"], &[key(&["sdata"], &[Any])]),
    action(
        &["sample"],
        &[
            key(&["rate"], &[U32]).wrong(Wrong::Around("Illegal rate ", "")),
            key(&["group"], &[U32]).wrong(Wrong::Around("Illegal group num ", "")),
            key(&["trunc"], &[U32]).wrong(Wrong::Around("Illegal truncation size ", "")),
        ],
    ),
    action(&["connmark"], &[key(&["zone"], &[U16]).wrong(Wrong::Line("connmark: Illegal \"zone\""))]),
    action(
        &["ct"],
        &[
            key(&["zone"], &[U16]).wrong(Wrong::Line("ct: Illegal \"zone\"")),
            key(&["nat"], &[]).then(ct_nat),
            key(&["commit"], &[]),
            key(&["force"], &[]),
            key(&["clear"], &[]),
            key(&["mark"], &[Masked(u32::MAX as u64)]).wrong(Wrong::Line("ct: Illegal \"mark\"")),
            key(&["label"], &[Any]),
            key(&["helper"], &[Any]),
        ],
    ),
    action(
        &["nat"],
        &[
            key(&["ingress"], &[Ipv4, Ipv4]).wrong(Wrong::Line("Illegal nat construct (ingress)")),
            key(&["egress"], &[Ipv4, Ipv4]).wrong(Wrong::Line("Illegal nat construct (egress)")),
        ],
    ),
    action(
        &["tunnel_key"],
        &[
            key(&["unset"], &[]),
            key(&["set"], &[]),
            key(&["src_ip"], &[Prefix]).wrong(Wrong::Rather("any valid address")),
            key(&["dst_ip"], &[Prefix]).wrong(Wrong::Rather("any valid address")),
            key(&["id"], &[U32]).wrong(Wrong::Illegal("id")),
            key(&["dst_port"], &[U16]).wrong(Wrong::Illegal("dst port")),
            key(&["geneve_opts"], &[Any]),
            key(&["vxlan_opts"], &[Any]),
            key(&["erspan_opts"], &[Any]),
            key(&["tos"], &[TOS]).wrong(Wrong::Illegal("tos")),
            key(&["ttl"], &[U8]).wrong(Wrong::Illegal("ttl")),
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
            key(&["label"], &[Uint(0, 0xf_ffff)]).wrong(Wrong::Argument("label must be <=0xFFFFF")),
            key(&["tc"], &[Uint(0, 7)]).wrong(Wrong::Argument("tc field is 3 bits max")),
            key(&["ttl"], &[Uint(1, 255)]).wrong(Wrong::Argument("ttl must be >0 and <=255")),
            key(&["bos"], &[Uint(0, 1)]).wrong(Wrong::Argument("bos must be 0 or 1")),
            key(&["protocol"], &[Any]),
        ],
    ),
    action(
        &["ctinfo"],
        &[
            key(&["dscp"], &[U32]).may(&[U32]).wrong(Wrong::Line("ctinfo: Illegal dscp \"mask\"")),
            key(&["cpmark"], &[]).may(&[U32]),
            key(&["zone"], &[U16]).wrong(Wrong::Line("ctinfo: Illegal \"zone\"")),
        ],
    ),
    action(
        &["gate"],
        &[
            key(&["priority"], &[I32]).wrong(Wrong::Argument("priority")),
            key(&["base-time"], &[Any]),
            key(&["cycle-time"], &[Any]),
            key(&["cycle-time-ext"], &[Any]),
            key(&["clockid"], &[Any]),
            key(&["flags"], &[U32]).wrong(Wrong::Argument("flags")),
            key(&["sched-entry"], &[]).then(gate_entry),
        ],
    ),
    action(
        &["ife"],
        &[
            key(&["encode"], &[]),
            key(&["decode"], &[]),
            key(&["allow"], &[IFE]).wrong(Wrong::Argument("Illegal meta define")),
            key(&["use"], &[IFE]).wrong(Wrong::Argument("Illegal meta use type")).then(ife_value),
            key(&["dst"], &[MAC]),
            key(&["src"], &[MAC]),
            key(&["type"], &[U16]).wrong(Wrong::Argument("ife type is invalid")),
        ],
    ),
];

/// tc's way to refuse a word that is no action.
const BAD_TYPE: Wrong = Wrong::Around("Bad action type ", "");

const IFE: Arg = Arg::Word(&["mark", "prio", "tcindex"]);
const MAC: Arg = Any;
/// A type of service, and a mask of it.
const TOS: Arg = Masked(u8::MAX as u64);

const POLICE: Grammar = action(
    &["police"],
    &[
        key(&["burst", "buffer", "maxburst"], &[SizeCell]).wrong(Wrong::Argument("buffer")),
        key(&["mtu", "minburst"], &[SizeCell]).wrong(Wrong::Argument("mtu")),
        key(&["mpu"], &[Uint(0, u16::MAX as u64)]).wrong(Wrong::Argument("mpu")),
        key(&["rate"], &[Rate]).wrong(Wrong::Argument("rate")),
        key(&["avrate"], &[Rate]).wrong(Wrong::Argument("avrate")),
        key(&["peakrate"], &[Rate]).wrong(Wrong::Argument("peakrate")),
        key(&["pkts_rate"], &[U32]).wrong(Wrong::Argument("pkts_rate")),
        key(&["pkts_burst"], &[U32]).wrong(Wrong::Argument("pkts_burst")),
        key(&["conform-exceed"], &[]).then(exceed).wrong(BAD_TYPE),
        key(&["overhead"], &[U16]).wrong(Wrong::Argument("overhead")),
        key(&["linklayer"], &[LINKLAYERS]).wrong(Wrong::Argument("linklayer")),
        key(&["action"], &[]).then(exceed).wrong(BAD_TYPE),
        key(&["index"], &[U32]).wrong(Wrong::Argument("index")),
    ],
);

static POLICE_KEYS: Grammar = POLICE;

/// Reads `EXCEED[/CONFORM]`, each a verdict, by its word or its number.
fn exceed(walk: &mut Walk<'_>) -> Done {
    let word = walk.peek().unwrap_or("");
    let verdict =
        |w: &str| !w.is_empty() && (VERDICTS.iter().any(|v| v.starts_with(w)) || w.parse::<i32>().is_ok());
    if word.is_empty() || !word.split('/').all(verdict) || word.matches('/').count() > 1 {
        let wrong = if word.contains('/') { Wrong::Line("bad action parsing") } else { BAD_TYPE };
        return walk.value_or(Arg::Word(VERDICTS), "conform-exceed", wrong);
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

/// Returns the lines that tc prints for the addresses of skbmod, also where it refuses a later
/// word.
pub(crate) fn skbmod_lines(words: &[Word]) -> String {
    let mut lines = String::new();
    for (pair, name) in words.windows(2).filter_map(|pair| match pair[0].text.as_str() {
        "dmac" => Some((pair, "dst")),
        "smac" => Some((pair, "src")),
        _ => None,
    }) {
        lines.push_str(&format!("{name} MAC address <{}>\n", pair[1].text));
    }
    lines
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

/// Reads `STATE INTERVAL [PRIORITY [OCTETS]]`; the state may have any case.
fn gate_entry(walk: &mut Walk<'_>) -> Done {
    const STATES: &[&str] = &["open", "close"];
    match walk.peek().is_some_and(|word| STATES.iter().any(|state| state.eq_ignore_ascii_case(word))) {
        true => walk.at += 1,
        false => walk.value(Arg::Word(STATES), "sched-entry", None)?,
    }
    walk.value(Any, "sched-entry", None)?;
    if walk.peek().is_some_and(|word| I32.accepts(word)) {
        walk.at += 1;
        let octets = walk.peek().is_some_and(|word| I32.accepts(word) || Arg::Size.accepts(word));
        walk.at += usize::from(octets);
    }
    Ok(())
}

/// Reads the value of a part of ife that is used in place of the packet's.
fn ife_value(walk: &mut Walk<'_>) -> Done {
    let part = walk.at.checked_sub(1).and_then(|at| walk.words.get(at)).map_or("", |w| w.text.as_str());
    match part {
        "mark" => walk.value_or(U32, "use mark", Wrong::Argument("ife mark val is invalid")),
        "prio" => walk.value_or(U32, "use prio", Wrong::Argument("ife prio val is invalid")),
        _ => walk.value_or(U16, "use tcindex", Wrong::Argument("ife tcindex val is invalid")),
    }
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
    let raw = walk.eat_cut(&["offset"]);
    if raw {
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
        let layers = Arg::Word(&["ip", "ip6", "eth", "tcp", "udp", "icmp"]);
        walk.value_or(layers, "munge", Wrong::Around("Bad pedit construct (", ")"))?;
        walk.value(Any, "munge field", None)?;
    }
    const COMMANDS: Arg = Arg::Word(&["set", "add", "clear", "invert", "preserve", "decrement"]);
    let command = walk.peek().unwrap_or("");
    let wrong = if raw { Wrong::Around("Bad pedit construct (", ")") } else { Wrong::Line(BAD_PEDIT) };
    walk.value_or(COMMANDS, "munge", wrong)?;
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
        Some(_) => Err(printed_before(unknown(walk, grammar, kind, 0), walk, kind, 0)),
    }
}

/// Reads `police ...` of a filter: unknown words belong to the filter.
pub(super) fn police(walk: &mut Walk<'_>) -> Done {
    let what = std::mem::replace(&mut walk.what, called(Object::Action, "police"));
    let from = walk.at;
    walk.leave_key();
    let done = one(walk, &POLICE_KEYS, "police");
    walk.what = what;
    done?;
    walk.actions.push((from.saturating_sub(1), from..walk.at));
    finish(walk, "police", from)
}

/// Reads a list of actions: `KIND ... [action KIND ...]`.
pub(super) fn list(walk: &mut Walk<'_>) -> Done {
    let what = std::mem::take(&mut walk.what);
    walk.leave_key();
    for read in 0.. {
        let Some(kind) = walk.peek() else {
            walk.what = what;
            return match read {
                0 => walk.value(Any, "action", None),
                _ => Err(no_kind(walk, read)),
            };
        };
        let Some(grammar) = grammar(kind) else {
            let message = format!("there is no action \"{kind}\"");
            let kinds = TABLE.iter().flat_map(|g| g.kinds.iter().copied());
            let near = suggest::closest(kind, kinds.clone()).map(String::from);
            let expected = format!("one of {}", kinds.collect::<Vec<_>>().join(", "));
            let err = walk.error(code::UNKNOWN_KIND, walk.at, message).expected(expected).suggest(near);
            return Err(err.linux(format!("Bad action type {kind}")));
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
            Some(_) => return Err(printed_before(unknown(walk, grammar, kind, from), walk, kind, from)),
        }
    }
    walk.what = what;
    Ok(())
}

pub(super) fn grammar_or_common(grammar: &'static Grammar) -> &'static Grammar {
    if grammar.keys.is_empty() { &COMMON } else { grammar }
}

/// Reads one action's own words and those of any action.
fn one(walk: &mut Walk<'_>, grammar: &'static Grammar, kind: &str) -> Done {
    match kind {
        "goto" => goto(walk)?,
        "jump" => walk.value_or(U32, "jump", JUMP)?,
        _ => {}
    }
    let first = walk.at;
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
        if own {
            misplaced(walk, grammar, kind, first).map_err(|err| printed_before(err, walk, kind, first))?;
        }
        walk.part_of_one(if own { grammar } else { &COMMON })
            .map_err(|err| printed_before(index(err, own, kind), walk, kind, first))?;
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
