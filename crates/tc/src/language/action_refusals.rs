//! tc's refusals of the words of actions: of words that no action knows, of indexes, and of lines
//! that leave out a word.

use txweir_core::classify::action::ife::ETHERTYPE;

use super::actions::{VERDICTS, grammar_or_common, skbmod_lines};
use super::table::Grammar;
use super::uint;
use super::walk::Walk;
use crate::diagnostic::{Diagnostic, code};
use crate::lex::Word;
use crate::sentence::{INCOMPLETE, Sentence};

/// tc's line for skbmod without options.
pub(crate) const NO_OPTION: &str = "skbmod requires at least one option";
/// tc's line for a field that it cannot change.
pub(crate) const BAD_PEDIT: &str = "bad pedit parsing";

/// Returns the error for a word that no action knows, and that tc reads as the next action, or as
/// the first word of this one, whose words begin at `from`.
pub(super) fn unknown(walk: &Walk<'_>, grammar: &'static Grammar, kind: &str, from: usize) -> Diagnostic {
    let err = walk.unknown(grammar_or_common(grammar));
    if walk.at > from {
        let lacks = mpls_lacks(walk.words.get(from..walk.at).unwrap_or(&[])).filter(|_| kind == "mpls");
        return match lacks {
            Some(key) => err.linux(Sentence::Required(key)),
            None => err,
        };
    }
    match (kind, walk.peek().unwrap_or("")) {
        ("mirred", word) => err.linux(format!("mirred option not supported {word}")),
        ("nat", word) => err.linux(format!("Illegal nat construct ({word})")),
        ("mpls", _) => err.linux(INCOMPLETE),
        ("ife", _) => err.linux(IFE_NO_WAY),
        ("gate", _) => err.linux("gate: must add at least one entry"),
        ("bpf", word) => err.linux(format!("What mode is \"{word}\"?")),
        ("csum", _) => err.linux("Illegal csum construct, empty <UPDATE> list"),
        ("skbedit", _) => err.linux("Usage: ... skbedit <[QM] [PM] [MM] [PT] [IF]>"),
        ("simple", _) => err.linux("Usage:... simple [sdata STRING] [index INDEX] [CONTROL]"),
        ("skbmod", _) => err.linux(NO_OPTION),
        ("sample", _) => err.linux("param \"group\" not set"),
        ("police", _) => err.linux("bad action parsing"),
        _ => err,
    }
}

/// Adds tc's sentence for the index of an action, which each kind refuses in its own way.
pub(super) fn index(err: Diagnostic, own: bool, kind: &str) -> Diagnostic {
    if own || err.linux.is_some() || err.given.is_empty() {
        return err;
    }
    let given = err.given.clone();
    match kind {
        "skbedit" | "mirred" | "vlan" | "skbmod" | "sample" => {
            err.linux(format!("{kind}: Illegal \"index\""))
        }
        "pedit" => err.linux("Pedit: Illegal \"index\""),
        "csum" => err.linux(format!("Illegal \"index\" ({given}) <csum>")),
        "simple" => err.linux(format!("simple: Illegal \"index\" ({given})")),
        "ct" | "connmark" | "tunnel_key" | "ctinfo" => err.linux(format!("{kind}: Illegal \"index\"")),
        "nat" => err.linux("Nat: Illegal \"index\""),
        "mpls" => err.linux(Sentence::Argument(&given, "illegal index")),
        kind if actions_of_control(kind) => err.linux(Sentence::Illegal("index")),
        _ => err,
    }
}

/// True for `gact`, and for the words that stand for it.
fn actions_of_control(kind: &str) -> bool {
    kind == "gact" || VERDICTS.contains(&kind)
}

/// tc's line for police without a rate.
pub(crate) const NO_RATE: &str = "'rate' or 'avrate' or 'mtu' or 'pkts_rate' MUST be specified.";

/// Actions that need a word behind their kind, if the line ends there.
const WANT_WORDS: [&str; 15] = [
    "bpf",
    "csum",
    "gact",
    "gate",
    "ife",
    "mirred",
    "mpls",
    "nat",
    "pedit",
    "police",
    "simple",
    "skbedit",
    "skbmod",
    "tunnel_key",
    "vlan",
];

/// Returns the error for a line that ends behind `action`, after a number of actions.
pub(super) fn no_kind(walk: &Walk<'_>, read: usize) -> Diagnostic {
    let err = walk.error(code::MISSING, walk.at.saturating_sub(1), "action needs a kind".into());
    err.linux(format!("bad action empty {read}"))
}

/// Adds the lines that tc has printed before it refuses a later word of skbmod: the addresses.
pub(super) fn printed_before(err: Diagnostic, walk: &Walk<'_>, kind: &str, from: usize) -> Diagnostic {
    let printed = match kind {
        "skbmod" => skbmod_lines(walk.words.get(from..walk.at).unwrap_or(&[])),
        // tc reads all words of ife before it comes to a word that is none.
        "ife" if err.code == code::UNKNOWN_KEY || err.code == code::CONFLICT => {
            ife_line(walk.words.get(from..walk.at).unwrap_or(&[])).unwrap_or_default()
        }
        _ => String::new(),
    };
    match err.linux.clone().filter(|_| !printed.is_empty()) {
        Some(line) => err.linux(format!("{printed}{line}")),
        None => err,
    }
}

/// Refuses a key of an action in a place where tc does not take it: a second value of police, and
/// words of vlan and mpls without the mode that has them. `from` is the first word of the action.
pub(super) fn misplaced(
    walk: &Walk<'_>,
    grammar: &Grammar,
    kind: &str,
    from: usize,
) -> Result<(), Diagnostic> {
    let Some(word) = walk.words.get(walk.at) else { return Ok(()) };
    let Some(key) = grammar.find(&word.text) else { return Ok(()) };
    // The first words of an action are enough to tell, and keep a long line linear.
    let before = walk.words.get(from..walk.at.min(from + FIRST_WORDS)).unwrap_or(&[]);
    let said = |any: &[&str]| before.iter().any(|w| any.contains(&w.text.as_str()));
    let modes: (&[&str], &str) = match (kind, key.name()) {
        ("police", name) => {
            let (Some((_, called)), Some(value)) =
                (ONCE.iter().find(|(once, _)| *once == name), walk.words.get(walk.at + 1))
            else {
                return Ok(());
            };
            if !said(key.words) {
                return Ok(());
            }
            let err = walk.error(code::CONFLICT, walk.at, format!("{} {name} is given twice", walk.what));
            let err = err.hint(Some("leave one of them out".into()));
            return Err(err.linux(Sentence::Duplicate(called, &value.text)));
        }
        ("vlan", "pop" | "push" | "modify" | "pop_eth" | "push_eth") if said(VLAN_MODES) => {
            let message = format!("{} has one mode, given another: \"{}\"", walk.what, word.text);
            let err = walk.error(code::UNEXPECTED_WORD, walk.at, message);
            return Err(err.linux(format!("unexpected \"{}\" - action already specified", word.text)));
        }
        // tc reads these once, and takes a second one for the next action.
        ("mirred", "egress" | "ingress" | "dev") if said(&["dev"]) => return Err(next_action(walk, word)),
        ("connmark" | "ctinfo", name) if said(&[name]) => return Err(next_action(walk, word)),
        ("ife", _) if said(VERDICTS) => return Err(next_action(walk, word)),
        ("bpf", _) if said(&["bytecode"]) => return Err(next_action(walk, word)),
        ("nat", _) if said(&["ingress", "egress"]) => return Err(next_action(walk, word)),
        ("mpls", "pop" | "push" | "mac_push" | "modify" | "dec_ttl") => {
            let Some(mode) = before.iter().find(|w| MPLS_MODES.contains(&w.text.as_str())) else {
                return Ok(());
            };
            let message = format!("{} has one mode, given another: \"{}\"", walk.what, word.text);
            let err = walk.error(code::UNEXPECTED_WORD, walk.at, message);
            let line = format!("got \"{}\" but action already set to \"{}\"", word.text, mode.text);
            return Err(err.linux(format!("Error: {line}")));
        }
        ("vlan", "id" | "priority" | "protocol") => (&["push", "modify"], "push/modify"),
        ("mpls", "label" | "tc" | "ttl" | "bos") => {
            (&["push", "mac_push", "modify"], "push, mac_push and modify")
        }
        ("mpls", "protocol") => (&["push", "mac_push", "pop"], "push, mac_push and pop"),
        _ => return Ok(()),
    };
    if said(modes.0) {
        return Ok(());
    }
    let message = format!("{} has {} only with {}", walk.what, key.name(), modes.1);
    let err = walk.error(code::BAD_VALUE, walk.at, message);
    Err(err.linux(Sentence::Argument(&word.text, &format!("only valid for {}", modes.1))))
}

/// tc's line for ife without a direction.
pub(crate) const IFE_NO_WAY: &str = "IFE requires decode/encode specified";

/// Returns the line that tc prints of ife's type, if it comes to it.
pub(crate) fn ife_line(words: &[Word]) -> Option<String> {
    let at = |key: &str| words.iter().rposition(|w| w.text == key);
    let given = at("type").and_then(|at| u16::try_from(uint(&words.get(at + 1)?.text)?).ok());
    match (given, at("encode") > at("decode")) {
        (Some(number), _) => Some(format!("IFE type 0x{number:04X}\n")),
        (None, true) => Some(format!("IFE type 0x{ETHERTYPE:04X}\n")),
        (None, false) => None,
    }
}

/// Returns the key that the mode of mpls in these words needs, if they do not have it.
fn mpls_lacks(words: &[Word]) -> Option<&'static str> {
    let has = |key: &str| words.iter().any(|word| word.text == key);
    match () {
        () if has("pop") && !has("protocol") => Some("protocol"),
        () if has("push") && !has("label") => Some("label"),
        () => None,
    }
}

/// Returns the error for a key that tc takes for the kind of the next action.
fn next_action(walk: &Walk<'_>, word: &Word) -> Diagnostic {
    let message = format!("{} has \"{}\" once", walk.what, word.text);
    walk.error(code::CONFLICT, walk.at, message).linux(format!("Bad action type {}", word.text))
}

/// Words of an action among which an earlier key is looked for: twice those of a line with all
/// keys.
const FIRST_WORDS: usize = 64;

/// The modes of vlan, of which a line has one.
const VLAN_MODES: &[&str] = &["pop", "push", "modify", "pop_eth", "push_eth"];

/// The modes of mpls, of which a line has one.
const MPLS_MODES: &[&str] = &["pop", "push", "mac_push", "modify", "dec_ttl"];

/// The keys of police that tc takes once, each with tc's name of it.
const ONCE: [(&str, &str); 8] = [
    ("burst", "buffer/burst"),
    ("mtu", "mtu/minburst"),
    ("mpu", "mpu"),
    ("rate", "rate"),
    ("avrate", "avrate"),
    ("peakrate", "peakrate"),
    ("pkts_rate", "pkts_rate"),
    ("pkts_burst", "pkts_burst"),
];

/// Checks the words that an action requires on its line.
pub(super) fn finish(walk: &Walk<'_>, kind: &str, from: usize) -> Result<(), Diagnostic> {
    let words: Vec<&str> = walk.words[from..walk.at].iter().map(|w| w.text.as_str()).collect();
    let has = |any: &[&str]| words.iter().any(|w| any.contains(w));
    let needs = |what: &str, linux: String| {
        let message = format!("action {kind} needs {what}");
        Err(walk.error(code::MISSING, from.saturating_sub(1), message).linux(linux))
    };
    if words.is_empty() && walk.peek().is_none() && WANT_WORDS.contains(&kind) {
        return needs("words of its own", INCOMPLETE.into());
    }
    // An existing action is named by its index alone.
    if words.iter().any(|w| w.len() > 2 && "index".starts_with(w)) || words.is_empty() {
        return Ok(());
    }
    match kind {
        "police" => {
            let (rate, burst) = (has(&["rate"]), has(&["burst", "buffer", "maxburst"]));
            match (rate, burst) {
                _ if !has(&["rate", "avrate", "mtu", "minburst", "pkts_rate"]) => {
                    needs("a rate", NO_RATE.into())
                }
                _ if has(&["pkts_rate"]) && !has(&["pkts_burst"]) => {
                    needs("pkts_burst beside pkts_rate", "'pkts_burst' requires 'pkts_rate'.".into())
                }
                (true, false) => needs("burst beside rate", "'burst' requires 'rate'.".into()),
                (false, true) if !has(&["avrate"]) => needs("rate beside burst", NO_RATE.into()),
                _ if has(&["peakrate"]) && !has(&["mtu", "minburst"]) => {
                    needs("mtu beside peakrate", "'mtu' is required, if 'peakrate' is requested.".into())
                }
                _ => Ok(()),
            }
        }
        "mirred" if !matches!(words.first(), Some(&("egress" | "ingress"))) => needs(
            "egress or ingress first",
            format!("mirred option not supported {}", words.first().unwrap_or(&"")),
        ),
        "mirred" if !has(&["dev", "blockid"]) => needs("dev or blockid", INCOMPLETE.into()),
        "vlan" if has(&["push", "modify"]) && !has(&["id"]) => {
            let mode = if has(&["push"]) { "push" } else { "modify" };
            needs("id", format!("id needs to be set for {mode}"))
        }
        "sample" if !has(&["rate"]) || !has(&["group"]) => {
            let missing = if has(&["group"]) { "rate" } else { "group" };
            needs("rate and group", format!("param \"{missing}\" not set"))
        }
        "mpls" => match mpls_lacks(&walk.words[from..walk.at]) {
            Some(key) => needs(key, Sentence::Required(key).to_string()),
            None => Ok(()),
        },
        "tunnel_key" if has(&["set"]) && !(has(&["src_ip"]) && has(&["dst_ip"])) => {
            let message = "action tunnel_key needs src_ip and dst_ip";
            Err(walk.error(code::MISSING, from.saturating_sub(1), message.into()))
        }
        _ => Ok(()),
    }
}
