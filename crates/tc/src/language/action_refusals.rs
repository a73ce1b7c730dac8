//! tc's refusals of the words of actions: of words that no action knows, of indexes, and of lines
//! that leave out a word.

use super::actions::{VERDICTS, grammar_or_common};
use super::table::Grammar;
use super::walk::Walk;
use crate::diagnostic::{Diagnostic, code};
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
        return err;
    }
    match (kind, walk.peek().unwrap_or("")) {
        ("mirred", word) => err.linux(format!("mirred option not supported {word}")),
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

/// Checks the words that an action requires on its line.
pub(super) fn finish(walk: &Walk<'_>, kind: &str, from: usize) -> Result<(), Diagnostic> {
    let words: Vec<&str> = walk.words[from..walk.at].iter().map(|w| w.text.as_str()).collect();
    let has = |any: &[&str]| words.iter().any(|w| any.contains(w));
    let needs = |what: &str, linux: String| {
        let message = format!("action {kind} needs {what}");
        Err(walk.error(code::MISSING, from.saturating_sub(1), message).linux(linux))
    };
    // An existing action is named by its index alone.
    if words.iter().any(|w| w.len() > 2 && "index".starts_with(w)) || words.is_empty() {
        return Ok(());
    }
    match kind {
        "police" => {
            let (rate, burst) = (has(&["rate"]), has(&["burst", "buffer", "maxburst"]));
            match (rate, burst) {
                (true, false) => needs("burst beside rate", "'burst' requires 'rate'.".into()),
                (false, true) if !has(&["avrate"]) => needs("rate beside burst", NO_RATE.into()),
                _ if has(&["peakrate"]) && !has(&["mtu", "minburst"]) => {
                    needs("mtu beside peakrate", "'mtu' is required, if 'peakrate' is requested.".into())
                }
                _ => Ok(()),
            }
        }
        "mirred" if !has(&["egress", "ingress"]) => needs(
            "egress or ingress",
            format!("mirred option not supported {}", words.first().unwrap_or(&"")),
        ),
        "mirred" if !has(&["dev", "blockid"]) => needs("dev", INCOMPLETE.into()),
        "vlan" if has(&["push", "modify"]) && !has(&["id"]) => {
            let mode = if has(&["push"]) { "push" } else { "modify" };
            needs("id", format!("id needs to be set for {mode}"))
        }
        "sample" if !has(&["rate"]) || !has(&["group"]) => {
            let missing = if has(&["group"]) { "rate" } else { "group" };
            needs("rate and group", format!("param \"{missing}\" not set"))
        }
        "tunnel_key" if has(&["set"]) && !(has(&["src_ip"]) && has(&["dst_ip"])) => {
            let message = "action tunnel_key needs src_ip and dst_ip";
            Err(walk.error(code::MISSING, from.saturating_sub(1), message.into()))
        }
        _ => Ok(()),
    }
}
